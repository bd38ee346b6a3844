//! No output takes the place of an input.

use std::path::{Path, PathBuf};

use crate::args::Command;

/// Refuses a command line whose output is one of its inputs, or its other output.
pub(crate) fn inputs(command: &Command) -> anyhow::Result<()> {
    let (outputs, inputs) = files(command);
    for (number, output) in outputs.iter().enumerate() {
        let earlier = outputs.iter().take(number);
        if inputs.iter().any(|input| is_same(input, output)) {
            return Err(shell::usage(format!(
                "{}: an input, which the output would replace: name another output",
                output.display()
            )));
        }
        if earlier.into_iter().any(|other| other == output) {
            return Err(shell::usage(format!(
                "{}: named for two outputs: name another for one",
                output.display()
            )));
        }
    }
    Ok(())
}

/// Whether two paths are of one existing file. What is no file, like `/dev/null`, is replaced by nothing.
fn is_same(input: &Path, output: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok().filter(|path| path.is_file());
    real(input).is_some_and(|input| real(output) == Some(input))
}

/// What a command writes and what it reads.
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
        Command::Cheops25(_) | Command::Deepnvme(_) | Command::Collect(_) => {}
    }
    outputs.retain(|path| path.as_os_str() != "-" && !path.starts_with("/dev"));
    (outputs, inputs)
}
