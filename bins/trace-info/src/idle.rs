//! `trace-info idle`.

use clap::Args;
use gpu_time::compat::hta::{self, StreamIdle};
use gpu_time::{ARG_KEYS, GpuWork, Idle, idle, tables};
use report::human;
use shell::Outcome;

use crate::args::ReportArgs;
use crate::document::{Destination, Document};
use crate::gpu::{RulesArgs, RulesName};

pub(crate) const HELP: &str = "\
Every nanosecond of a gap has one cause, judged by the work that ends the gap
and the call that launched it:
  host wait        the call was not made yet
  synchronisation  nor could it be: its thread was waiting for the device
  launch latency   called after the device ran dry, and not begun
  kernel wait      called before that: queued, and not begun
  other            the call is not in the trace
Rows are of the trace (no device ran), of each device, and of each stream.

Example:
  trace-info idle t.json.gz --longest 20";

#[derive(Debug, Args)]
pub(crate) struct IdleArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// How many of the longest gaps to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) longest: usize,
    #[command(flatten)]
    pub(crate) rules: RulesArgs,
}

struct Answer {
    trace: String,
    idle: Idle,
    hta: Vec<StreamIdle>,
}

pub(crate) fn run(args: &IdleArgs) -> anyhow::Result<Outcome> {
    args.rules.check()?;
    if args.rules.linked_only {
        return Err(shell::usage(
            "--linked-only is not for idle: see cause `other`",
        ));
    }
    let is_hta = args.rules.rules == RulesName::Hta;
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
            let rounding = args.rules.hta_rounding;
            let (idle, hta) = match is_hta {
                true => {
                    let events = hta::events(&work, rounding);
                    (Idle::default(), hta::idle(&work, &events, rounding))
                }
                false => (idle(&work, args.longest), Vec::new()),
            };
            Ok(Answer { trace, idle, hta })
        },
    )?;
    let answers = &each.results;
    let mut document = Document::new(tables::SCHEMA_VERSION);
    let by_hta = || answers.iter().map(|a| (a.trace.as_str(), a.hta.as_slice()));
    let all = || answers.iter().map(|a| (a.trace.as_str(), &a.idle));
    if is_hta {
        document.tables = vec![tables::hta_idle(by_hta())?];
        document.table("", tables::hta_idle(by_hta())?);
    } else {
        document.tables = vec![tables::idle(all())?, tables::gaps(all(), false)?];
        for answer in answers {
            document.heading(&answer.trace);
            if answer.idle.skewed > 0 {
                let text = "gaps end with work that starts before its call does: clocks disagree";
                document.line(
                    "skewed",
                    format!("{} {text}", human::count(answer.idle.skewed)),
                );
            }
            document.table("", tables::idle_narrow(&answer.idle)?);
            if !answer.idle.gaps.is_empty() {
                let one = [(answer.trace.as_str(), &answer.idle)];
                document.table("longest gaps", tables::gaps(one, true)?);
            }
        }
    }
    document.write(to)?;
    each.failed.map_or(Ok(Outcome::Fine), Err)
}
