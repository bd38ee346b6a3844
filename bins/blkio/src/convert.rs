//! `blkio convert`: the events as one table.

use blkio_report::device_names::named_device;
use blkio_report::event_table::{omissions, write_events};
use blkio_report::recordings::name_of;
use cli::{OrExit as _, Outcome, ProgressLine};

use crate::args::ConvertArgs;
use crate::reading::{OrCode as _, read_options, trace_files};

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<Outcome> {
    let Some((target, traces)) = args.files.split_last() else {
        return Err(cli::usage("name the traces and then the table"));
    };
    let extension = target.extension().and_then(|e| e.to_str()).unwrap_or("");
    if !matches!(extension, "parquet" | "csv") {
        return Err(cli::usage(format!(
            "{}: end the name in .parquet or .csv",
            target.display()
        )));
    }
    let traces = &trace_files(traces, args.verbosity)?;
    let progress = ProgressLine::start("reading", args.verbosity);
    let mut read = read_options(&args.trace, &args.input, &progress);
    let chosen = named_device(args.trace.device.as_ref(), traces, &read).or_code()?;
    read.device = chosen.or(read.device);
    let (events, outcome) = write_events(traces, &read, target).or_code()?;
    drop(progress);
    if events == 0 {
        return Err(anyhow::anyhow!("no events in {}", name_of(traces)))
            .or_exit(cli::Outcome::Unreadable);
    }
    for text in omissions(&outcome) {
        args.verbosity.note(format!("blkio: warning: {text}"));
    }
    args.verbosity
        .note(format!("{events} events written to {}", target.display()));
    Ok(Outcome::Fine)
}
