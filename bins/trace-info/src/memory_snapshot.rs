//! `trace-info memory` of PyTorch's memory snapshots.

use std::path::PathBuf;

use cli::Outcome;
use torch_dumps::Dump;
use torch_dumps::memory::{Answer, tables};

use crate::args::ReportFormat;
use crate::document::{Destination, Document};
use crate::dump_files;
use crate::memory::MemoryArgs;

/// Rows of the list of holders, in text.
const TOP: usize = 12;

pub(crate) fn run(args: &MemoryArgs, dumps: &[PathBuf]) -> anyhow::Result<Outcome> {
    if !args.part.is_whole() {
        return Err(cli::usage(
            "a memory snapshot has no steps and no clock of a trace: --series N shows its course",
        ));
    }
    let report = &args.report;
    cli::refuse_overwrite(dumps, &report.output.output)?;
    let to = Destination::open(report)?;
    let labels = trace_input::labels(dumps);
    let found = dump_files::read(
        dumps,
        &report.input,
        report.verbosity,
        |path, dump| match dump {
            Dump::Memory(snapshot) => Ok(Ok(snapshot)),
            Dump::Flight(_) => Ok(Err(format!(
                "{} is a Flight Recorder dump: give the dumps of all ranks to `trace-info comm`",
                path.display()
            ))),
        },
    )?;
    let snapshots = found.read.into_iter();
    let snapshots = snapshots.map(|(at, snapshot)| {
        let label = labels.get(at).cloned().unwrap_or_default();
        Answer::new(label, snapshot, args.series)
    });
    let answers: Vec<Answer> = snapshots.collect();
    let mut document = Document::new(tables::SCHEMA_VERSION);
    if !matches!(
        report.format.format(),
        ReportFormat::Text | ReportFormat::Md
    ) {
        document.tables = vec![
            tables::holders(&answers)?,
            tables::devices(&answers)?,
            tables::pools(&answers)?,
        ];
        if args.series > 0 {
            document.tables.push(tables::series(&answers)?);
        }
    }
    for answer in &answers {
        document.heading(&answer.label);
        if answer.devices.is_empty() {
            document
                .sentence("The snapshot holds no memory: no segment and no event of any device.");
        }
        for device in &answer.devices {
            document.sentence(device.sentence(&answer.snapshot));
            for (label, text) in device.lines(&answer.snapshot) {
                document.line(label, text);
            }
            if device.replay.holders.is_empty() {
                continue;
            }
            let title = match answer.devices.len() {
                1 => String::new(),
                _ => format!("GPU {}", device.device),
            };
            document.table(&title, tables::categories(device)?);
            document.table(
                "allocated at the peak, most first",
                tables::holders_narrow(answer, device, TOP)?,
            );
        }
        if args.series > 0 {
            document.table("over time", tables::course(answer)?);
        }
    }
    document.write(to)?;
    found.error.map_or(Ok(Outcome::Fine), Err)
}
