//! Chores of the Inferscope workspace: `cargo xtask` lists them.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a chore talks to the developer who called it"
)]

mod bench;
mod bless;
mod calibrate;
mod ci;
mod cluster;
mod dataset;
mod dist;
mod exports;
mod fuzz;
mod inject;
mod mutants;
mod objects;
mod options;
mod publish;
mod tidy;
mod trace_processor;
mod wheel;
mod workspace;

use anyhow::{Result, bail};
use std::process::ExitCode;

type Chore = (&'static str, fn(&[String]) -> Result<()>, &'static str);

/// All commands: name, function, help.
const CHORES: &[Chore] = &[
    (
        "ci",
        ci::run,
        "[fmt tidy dataset test clippy doc otf2 browser wheel oracle]: what a change must pass; all steps, or those named; `cluster`, queries, exports and fleets on a cluster of processes, only if named",
    ),
    (
        "tidy",
        tidy::run,
        "[--fix]: the house rules that no compiler checks; --fix writes READMEs anew from crate docs",
    ),
    ("dataset", dataset::run, DATASET_HELP),
    (
        "bless",
        bless::run,
        "[PACKAGE...]: write golden outputs anew, to be read as a change",
    ),
    (
        "fuzz",
        fuzz::run,
        "[TARGET [SECONDS]]: fuzz a reader, seeded with testdata/; without a target, list them",
    ),
    (
        "mutants",
        mutants::run,
        "[PACKAGE...] [--sample N] [--shard K]: change the code of the analyses in one place at a time, and list the changes that no test notices",
    ),
    (
        "bench",
        bench::run,
        "[--save] [--runs N] [--peers] [--data FILE --kernel NAME]: measure the tools on large traces; with --tools those for block I/O, rocPD and memory accesses, with --fleet jobs of 10, 100 and 1,000 ranks",
    ),
    (
        "publish",
        publish::run,
        "--dry-run [--build]: package every crate as it would be published; --build also builds each from its archive",
    ),
    (
        "dist",
        dist::run,
        "[--profile NAME]: the archive that is shipped: executable, links, completions, manual pages, checksums",
    ),
    (
        "wheel",
        wheel::run,
        "[--torch]: build the wheel for Python and test it in a clean virtual environment; with --torch also on a real profile of PyTorch",
    ),
    (
        "trace-processor",
        trace_processor::run,
        "[TRACE...]: our tables of Perfetto traces against Perfetto's own; needs Node.js",
    ),
    (
        "exports",
        exports::run,
        "[RECORDING...]: queries over recordings and over their export in DuckDB and polars; needs Python",
    ),
    (
        "objects",
        objects::run,
        "[--tool FILE] [RECORDING...]: answers over local files and over the same files in buckets of an S3 server; needs Python",
    ),
    (
        "inject",
        inject::run,
        "--output FOLDER [--seeds N] [--bases N] [--only NAME] [--base TRACE...]: pairs of recordings with planted faults, and their truth",
    ),
    (
        "calibrate",
        calibrate::run,
        "[statistics] [faults] [--pairs N] [--power N] [--seeds N] [--bases N] [--only NAME] [--base TRACE...] [--tool FILE]: error rates of perf-compare into docs/calibration.md, answers to planted faults into docs/scoreboard.md",
    ),
];

const DATASET_HELP: &str =
    "[generate | verify | list]: testdata/ from its generators; or one large file:
           --output FILE with --events N | --bytes N, --format kineto|perfetto, --gzip
           --output FILE with --copies-of TRACE --copies N;
           or all ranks of a job: job --output FOLDER --ranks N --steps N --seed N;
           or rocPD databases: rocpd --output FOLDER --dispatches N --ranks N --nodes N --seed N;
           or a sampled memory trace: memtrace --output FILE --events N [--seed N]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match call(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn call(args: &[String]) -> Result<()> {
    let Some((name, rest)) = args
        .split_first()
        .filter(|(name, _)| !name.contains("help") && *name != "-h")
    else {
        println!("cargo xtask COMMAND\n");
        for (name, _, help) in CHORES {
            println!("  {name:<15} {help}");
        }
        return Ok(());
    };
    match CHORES.iter().find(|chore| chore.0 == name) {
        Some((_, run, _)) => run(rest),
        None => bail!("no command {name:?}; `cargo xtask` lists them"),
    }
}
