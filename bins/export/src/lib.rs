//! Recordings as data sets of Hive-partitioned Parquet files.

#[cfg(feature = "cluster")]
pub mod cluster;
mod recordings;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use cli::{InputArgs, OrExit as _, Outcome, ProgressLine, VerbosityArgs};
use report::human::count;
use table_input::Tables;
use trace_dataset::{Error, Export, Input, Report, add_table, export};
use trace_input::ClassesArgs;
use trace_tables::catalogue::{TABLES, TableSpec, any_table, table};

use crate::recordings::Recordings;

const HELP: &str = "\
Files are DIR/table=NAME/run=RUN/rank=RANK/part-NUMBER.parquet; docs/guide/tables.md has
the tables. Repeat the command to add recordings or to go on after an interruption: those
that are there with the same content are skipped. Recordings that cannot be read are rows
of table=failures. `--tables all,findings` adds the findings of why over all recordings of
this command, in place of earlier ones.

Example:
  inferscope export run/ -o data
  inferscope sql \"SELECT rank, sum(dur) FROM kernels GROUP BY rank\" data
  duckdb -c \"SELECT class, sum(dur) FROM 'data/table=kernels/**/*.parquet' GROUP BY class\"";

/// Write recordings as Parquet files that DuckDB, polars, pandas, Spark and DataFusion read
#[derive(Debug, Parser)]
#[command(name = "export", version, after_help = HELP, max_term_width = 100)]
struct ExportCli {
    /// Recordings of any format, or folders of them, also in object stores
    #[arg(required = true, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Folder of the data set
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Only these tables, separated by commas [default: all, which is without findings]
    #[arg(long, value_name = "TABLE", value_delimiter = ',', value_parser = wish)]
    tables: Vec<Wish>,
    /// Make the files on the executors of the scheduler at HOST:PORT, which see the same paths; this machine writes them
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "HOST:PORT")]
    cluster: Option<trace_cluster::Address>,
    #[command(flatten)]
    classes: ClassesArgs,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    verbosity: VerbosityArgs,
}

/// What is to be exported.
#[derive(Clone, Copy, Debug)]
enum Wish {
    All,
    Table(&'static TableSpec),
    /// The findings, which are made of all recordings together.
    Findings(&'static TableSpec),
}

/// Name of the table of findings.
const FINDINGS: &str = "findings";

fn wish(name: &str) -> Result<Wish, String> {
    if name == "all" {
        return Ok(Wish::All);
    }
    if let Some(table) = table(name) {
        return Ok(Wish::Table(table));
    }
    let findings = any_table(name).filter(|table| table.name == FINDINGS);
    findings.map(Wish::Findings).ok_or_else(|| {
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        format!(
            "no such table; there are all, {}, {FINDINGS}",
            names.join(", ")
        )
    })
}

/// Runs `export` with the words of a command line, the tool's name first. Returns the exit code.
pub fn main_from(words: impl IntoIterator<Item = OsString>) -> u8 {
    cli::main_from(words, |args: ExportCli| run(&args))
}

/// Returns the description of the command line, for help, completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    <ExportCli as clap::CommandFactory>::command()
}

fn run(args: &ExportCli) -> anyhow::Result<Outcome> {
    cli::refuse_url(&args.output)?;
    #[cfg(feature = "cluster")]
    if args.cluster.is_some() && args.classes.classes.is_some() {
        return Err(cli::usage(trace_cluster::NO_CLASSES));
    }
    let paths = trace_input::expand_ranks(&args.paths, args.verbosity)?;
    let (workers, input) = args.input.shared_by(paths.len());
    let inputs: Vec<Input> = paths.iter().map(|path| Input::of(path)).collect();
    let mut tables: Vec<&'static TableSpec> = Vec::new();
    let mut findings = None;
    for wish in &args.tables {
        match wish {
            Wish::All => tables.extend(TABLES),
            Wish::Table(table) => tables.push(table),
            Wish::Findings(table) => findings = Some(*table),
        }
    }
    if args.tables.is_empty() {
        tables.extend(TABLES);
    }
    let mut seen = Vec::new();
    tables.retain(|table| {
        let is_new = !seen.contains(&table.name);
        seen.push(table.name);
        is_new
    });
    if !tables.iter().any(|table| table.name == "files") {
        tables.extend(table("files"));
    }
    let options = Export {
        folder: &args.output,
        tables,
        tool_version: env!("CARGO_PKG_VERSION"),
        rules: args.classes.classes.as_ref(),
        threads: workers,
    };
    let line = ProgressLine::start("exporting", args.verbosity);
    let done = exported(args, (&paths, input), &inputs, &options);
    drop(line);
    let report = match done {
        Ok(report) => report,
        Err(error) => {
            let outcome = outcome(&error);
            return Err(error).or_exit(outcome);
        }
    };
    for note in &report.notes {
        args.verbosity.note(note);
    }
    for (name, why) in &report.failures {
        let why = why.strip_prefix(&format!("{name}: ")).unwrap_or(why);
        cli::complain(&anyhow::anyhow!("left out: {name}: {why}"));
    }
    let mut has_failed = !report.failures.is_empty();
    if let Some(table) = findings {
        has_failed |= !write_findings(args, table, &paths)?;
    }
    args.verbosity.note(format!(
        "{} of {} recordings in {}: {} rows written, {} skipped because they are there, {} failed",
        count((report.exported + report.skipped) as u64),
        count(inputs.len() as u64),
        args.output.display(),
        count(report.rows),
        count(report.skipped as u64),
        count(report.failures.len() as u64),
    ));
    Ok(match has_failed {
        false => Outcome::Fine,
        true => Outcome::Unreadable,
    })
}

/// Exports the recordings, here or on a cluster.
fn exported(
    args: &ExportCli,
    (paths, input): (&[PathBuf], InputArgs),
    inputs: &[Input],
    options: &Export<'_>,
) -> Result<Report, Error> {
    #[cfg(feature = "cluster")]
    if let Some(address) = &args.cluster {
        let sizes = recordings::sizes_in_names(paths);
        let jobs = cluster::jobs(address, &args.input, &options.tables, sizes)?;
        return trace_dataset::export_elsewhere(inputs, &jobs, options);
    }
    #[cfg(not(feature = "cluster"))]
    let _ = args;
    let recordings = Recordings::new(paths, input, args.classes.clone());
    export(inputs, &recordings, options)
}

fn outcome(error: &Error) -> Outcome {
    match error {
        Error::Elsewhere { .. } => Outcome::Unreadable,
        _ => Outcome::OutputFailed,
    }
}

/// Writes the findings; returns `false` if they cannot be made.
fn write_findings(
    args: &ExportCli,
    table: &'static TableSpec,
    recordings: &[PathBuf],
) -> anyhow::Result<bool> {
    let tables = Tables::new(args.paths.clone(), args.input.clone());
    let tables = tables
        .with_recordings(recordings.to_vec())
        .with_classes(args.classes.clone());
    let line = ProgressLine::start("explaining", args.verbosity);
    let done = add_table(&args.output, table, &tables);
    drop(line);
    let written = done.or_exit(Outcome::OutputFailed)?;
    for note in tables.take_notes() {
        args.verbosity.note(note);
    }
    if let Err(why) = &written {
        cli::complain(&anyhow::anyhow!("left out: table {FINDINGS}: {why}"));
    }
    Ok(written.is_ok())
}
