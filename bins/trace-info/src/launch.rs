//! `trace-info launch`.

use clap::Args;
use gpu_time::{ARG_KEYS, GpuWork, Launches, launches, tables};
use report::human;
use shell::Outcome;

use crate::args::ReportArgs;
use crate::document::{Destination, Document};
use crate::kernels::precise;

pub(crate) const HELP: &str = "\
For each kernel, copy and fill, from the start of its call to its own start:
  latency  all of it = in call + queued + dispatch
  in call  while the call ran
  queued   after the call, while earlier work of the stream ran
  dispatch the rest
  call     how long the call took
Queues hold what was called and has not started. CSV and Parquet are the
latencies; JSON has the queues too.

Example:
  trace-info launch t.json.gz
  trace-info launch t.json.gz --series 200 --json";

#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Also the depth of each queue in N stretches of time
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) series: u32,
}

pub(crate) fn run(args: &LaunchArgs) -> anyhow::Result<Outcome> {
    let report = &args.report;
    let to = Destination::open(report)?;
    let each = trace_input::read_each(
        &report.files,
        &report.input,
        report.verbosity,
        |options| trace_input::only_args(options, ARG_KEYS),
        |input| {
            let work = GpuWork::new(&input.trace);
            let trace = trace_input::short_name(&input.name).to_owned();
            Ok((trace, launches(&work, args.series)))
        },
    )?;
    let answers: &[(String, Launches)] = &each.results;
    let all = || {
        answers
            .iter()
            .map(|(trace, result)| (trace.as_str(), result))
    };
    let mut document = Document::new(tables::SCHEMA_VERSION);
    document.tables = vec![tables::launches(all())?, tables::depth(all())?];
    if args.series > 0 {
        document.tables.push(tables::depth_series(all(), false)?);
    }
    for (trace, result) in answers {
        document.heading(trace);
        document.line("linked", human::count(result.linked));
        if result.unlinked > 0 {
            let time = human::duration(precise(result.unlinked_ns));
            let count = human::count(result.unlinked);
            document.line("unlinked", format!("{count}, {time} of work"));
        }
        let negative = result.rows.first().map_or(0, |row| row.times.negative);
        if negative > 0 {
            let text = "start before their call does: clocks disagree";
            document.line("skewed", format!("{} {text}", human::count(negative)));
        }
        document.table("", tables::launches_narrow(result)?);
        let one = || [(trace.as_str(), result)];
        document.table("queues", tables::depth(one())?);
        if args.series > 0 {
            document.table("queues over time", tables::depth_series(one(), true)?);
        }
    }
    document.write(to)?;
    each.failed.map_or(Ok(Outcome::Fine), Err)
}
