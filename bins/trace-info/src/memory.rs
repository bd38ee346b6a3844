//! `trace-info memory`.

use clap::Args;
use cli::Outcome;
use gpu_time::tables::{self, RowKey};
use gpu_time::{GpuWork, Lack, MEMORY_KEYS, Memory, MemoryLines, Note, Recorder, Step};
use report::human;
use trace_input::NamedTrace;

use crate::args::ReportArgs;
use crate::document::{Destination, Document};
use crate::empty;
use crate::kernels::precise;
use crate::part::{self, PartArgs};

pub(crate) const HELP: &str = "\
From PyTorch's allocation events (profile_memory=True) and counters of memory.
The first number of a window or step is what was in use when it began. A step is
the time between its ends on the host.

Memory snapshots of PyTorch (torch.cuda.memory._dump_snapshot) are read without
running their pickle: who holds the peak, by category and stack; fragmentation.
Sizes are those asked for; a stack is shown by its innermost frame of Python
outside of PyTorch.

Example:
  trace-info memory t.json.gz
  trace-info memory snapshot.pickle --format csv --output holders.csv
  trace-info memory t.json.gz --per-step
  trace-info memory t.json.gz --series 500 --json";

#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Also the course of each line in N stretches of time
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) series: u32,
    #[command(flatten)]
    pub(crate) part: PartArgs,
}

struct Answer {
    trace: String,
    parts: Vec<(RowKey, Memory)>,
    notes: Vec<Note>,
    recorder: Recorder,
}

fn answer(args: &MemoryArgs, input: &NamedTrace) -> anyhow::Result<Answer> {
    let trace = input.label.clone();
    let lines = MemoryLines::new(&input.trace);
    if args.part.is_whole() {
        let of = RowKey {
            trace: trace.clone(),
            ..RowKey::default()
        };
        return Ok(Answer {
            trace,
            parts: vec![(of, lines.within(None, args.series))],
            notes: Vec::new(),
            recorder: Recorder::of(&input.trace),
        });
    }
    let work = GpuWork::new(&input.trace);
    let (how, notes) = args.part.resolve(input, &work)?;
    let parts = match &how.steps {
        None => vec![(
            part::of(&trace, &how, None),
            lines.within(how.window, args.series),
        )],
        Some(steps) => {
            let within = |(at, step): (usize, &Step)| {
                let range = match how.window {
                    Some(window) => step.range.intersect(window)?,
                    None => step.range,
                };
                let of = part::of(&trace, &how, Some(at));
                Some((of, lines.within(Some(range), 0)))
            };
            steps.iter().enumerate().filter_map(within).collect()
        }
    };
    Ok(Answer {
        trace,
        parts,
        notes,
        recorder: Recorder::of(&input.trace),
    })
}

pub(crate) fn run(args: &MemoryArgs) -> anyhow::Result<Outcome> {
    if args.series > 0 && args.part.by_step() {
        return Err(cli::usage("--series does not go with steps: give --window"));
    }
    let report = &args.report;
    if let Some(dumps) = trace_input::dumps(&report.files)? {
        return crate::memory_snapshot::run(args, &dumps);
    }
    let to = Destination::open(report)?;
    let each = empty::read_each(
        report,
        &report.traces()?,
        |options| {
            args.part.keep_args(options);
            options.counters = true;
            if let perfetto_reader::ArgPolicy::Only(keys) = &mut options.args {
                keys.extend(MEMORY_KEYS.iter().map(|key| (*key).to_owned()));
            }
        },
        |input| {
            let answer = answer(args, input)?;
            // Memory of the host is a result too.
            let why = match answer.parts.iter().all(|(_, found)| found.rows.is_empty()) {
                true => gpu_time::no_gpu_work(GpuWork::new(&input.trace).index()),
                false => None,
            };
            Ok((answer, why))
        },
    )?;
    let answers: &[Answer] = &each.results;
    let parts = || answers.iter().flat_map(|answer| &answer.parts);
    let all = || parts().map(|(of, found)| (of.trace.as_str(), found));
    let mut document = Document::new(tables::SCHEMA_VERSION);
    let rows: Vec<(RowKey, &Memory)> = parts().map(|(of, found)| (of.clone(), found)).collect();
    document.tables = vec![tables::memory(&rows)?];
    if args.series > 0 {
        document.tables.push(tables::memory_series(all(), false)?);
    }
    for (answer, why) in each.with_reasons() {
        let trace = &answer.trace;
        document.heading(trace);
        if empty::instead_of_tables(&mut document, why) {
            continue;
        }
        document.notes(&answer.notes);
        let Some((_, result)) = answer.parts.first() else {
            continue;
        };
        if answer.parts.iter().all(|(_, found)| found.rows.is_empty()) {
            let why = match result.was_asked_for {
                true => "Cannot say how much memory is in use: the recording asked for memory \
                     (profile_memory), but the file holds no allocation event and no counter of \
                     memory. Either nothing was allocated while it ran (CUDA graphs and engines \
                     with a pool of their own allocate before), or the events were left out of \
                     the export."
                    .to_owned(),
                false => format!(
                    "Cannot say how much memory is in use: no allocation event and no counter of \
                     memory is in the file; record them ({}).",
                    Lack::Memory.how(answer.recorder)
                ),
            };
            document.sentence(why);
            continue;
        }
        if args.part.by_step() {
            document.table("", tables::memory_steps(&answer.parts)?);
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
