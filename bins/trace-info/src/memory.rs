//! `trace-info memory`.

use clap::Args;
use gpu_time::{GpuWork, MEMORY_KEYS, Memory, memory, tables};
use report::human;
use shell::Outcome;

use crate::args::ReportArgs;
use crate::document::{Destination, Document};
use crate::empty;
use crate::kernels::precise;

pub(crate) const HELP: &str = "\
From PyTorch's allocation events (profile_memory=True) and counters of memory.

Example:
  trace-info memory t.json.gz
  trace-info memory t.json.gz --series 500 --json";

#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Also the course of each line in N stretches of time
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) series: u32,
}

pub(crate) fn run(args: &MemoryArgs) -> anyhow::Result<Outcome> {
    let report = &args.report;
    let to = Destination::open(report)?;
    let each = empty::read_each(
        report,
        &report.traces()?,
        |options| trace_input::only_args(options, MEMORY_KEYS),
        |input| {
            let trace = input.label.clone();
            let result = memory(&input.trace, args.series);
            // Memory of the host is an answer, too.
            let why = match result.rows.is_empty() {
                true => gpu_time::no_gpu_work(GpuWork::new(&input.trace).index()),
                false => None,
            };
            Ok(((trace, result), why))
        },
    )?;
    let answers: &[(String, Memory)] = &each.results;
    let all = || {
        answers
            .iter()
            .map(|(trace, result)| (trace.as_str(), result))
    };
    let mut document = Document::new(tables::SCHEMA_VERSION);
    document.tables = vec![tables::memory(all())?];
    if args.series > 0 {
        document.tables.push(tables::memory_series(all(), false)?);
    }
    for ((trace, result), why) in each.with_reasons() {
        document.heading(trace);
        if empty::instead_of_tables(&mut document, why) {
            continue;
        }
        if result.rows.is_empty() {
            let why = match result.was_asked_for {
                true => {
                    "Cannot say how much memory is in use: the recording asked for memory \
                     (profile_memory), but the file holds no allocation event and no counter of \
                     memory. Either nothing was allocated while it ran (CUDA graphs and engines \
                     with a pool of their own allocate before), or the events were left out of \
                     the export."
                }
                false => {
                    "Cannot say how much memory is in use: no allocation event and no counter of \
                     memory is in the file; record with profile_memory=True."
                }
            };
            document.sentence(why);
            continue;
        }
        let device = result
            .rows
            .iter()
            .filter(|row| row.device.is_none_or(|d| d >= 0));
        if let Some(row) = device.max_by_key(|row| row.peak_bytes) {
            let device = match row.device {
                Some(device) => format!("{} {device}", row.what),
                None => row.what.clone(),
            };
            let bytes = |n: i64| human::bytes(precise(n));
            let reserved = match row.peak_reserved_bytes {
                Some(n) => format!("; at most {} are reserved", bytes(n)),
                None => String::new(),
            };
            document.sentence(format!(
                "Memory of {device} peaks at {}, and ends at {}{reserved}.",
                bytes(row.peak_bytes),
                bytes(row.last_bytes)
            ));
        }
        document.table("", tables::memory_narrow(result)?);
        if args.series > 0 {
            let one = [(trace.as_str(), result)];
            document.table("over time", tables::memory_series(one, true)?);
        }
    }
    document.write(to)?;
    each.end(report)
}
