//! Refuses outputs that would take the place of an input.

use std::path::PathBuf;

use crate::args::Command;

/// Refuses a command line whose output is one of its inputs, or its other output.
pub(crate) fn of(command: &Command) -> anyhow::Result<()> {
    let (outputs, inputs) = files(command);
    cli::refuse_overwrite(inputs, outputs)
}

/// Returns what a command writes and what it reads.
fn files(command: &Command) -> (Vec<&PathBuf>, Vec<&PathBuf>) {
    let mut outputs: Vec<&PathBuf> = Vec::new();
    let mut inputs: Vec<&PathBuf> = Vec::new();
    match command {
        Command::Info(args) => {
            outputs.extend(&args.output.output);
            inputs.extend(&args.files);
        }
        Command::Stats(args) => {
            outputs.extend(args.output.output.iter().chain(&args.html));
            inputs.extend(&args.files);
            let beside = [&args.gpu, &args.engine, &args.clock, &args.phase_file];
            inputs.extend(beside.into_iter().flatten());
        }
        Command::Convert(args) => {
            if let Some((table, traces)) = args.files.split_last() {
                outputs.push(table);
                inputs.extend(traces);
            }
        }
        Command::Stacks(args) => {
            outputs.extend(args.output.output.iter().chain(&args.svg));
            inputs.push(&args.file);
            inputs.extend(&args.rules);
        }
        Command::Fio(args) => {
            outputs.extend(&args.output.output);
            inputs.push(&args.file);
            inputs.extend(&args.traces);
        }
        Command::Compare(args) => {
            outputs.extend(&args.output.output);
            inputs.extend(args.files.iter().chain(&args.with));
        }
        Command::Synth(args) => {
            outputs.extend(args.output.output.iter().chain(&args.truth));
            inputs.extend(&args.spec);
        }
        // These read folders or a device.
        Command::Version | Command::Cheops25(_) | Command::Deepnvme(_) | Command::Collect(_) => {}
    }
    (outputs, inputs)
}
