//! Recordings as data sets of Hive-partitioned Parquet files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use clap::Parser;
use cli::{InputArgs, OrExit as _, Outcome, ProgressLine, VerbosityArgs};
use perfetto_reader::ArgPolicy;
use report::human::count;
use trace_dataset::{Export, Input, Reader, export};
use trace_tables::Recording;
use trace_tables::catalogue::{ArgKeys, TABLES, TableSpec, table};

const HELP: &str = "\
Files are DIR/table=NAME/run=RUN/rank=RANK/part-NUMBER.parquet; docs/guide/tables.md has
the tables. Repeat the command to add recordings or to go on after an interruption: those
that are there with the same content are skipped. Recordings that cannot be read are rows
of table=failures.

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
    /// Only these tables, separated by commas [default: all]
    #[arg(long, value_name = "TABLE", value_delimiter = ',', value_parser = table_named)]
    tables: Vec<&'static TableSpec>,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    verbosity: VerbosityArgs,
}

fn table_named(name: &str) -> Result<&'static TableSpec, String> {
    table(name).ok_or_else(|| {
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        format!("no such table; there are {}", names.join(", "))
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

/// Reads the inputs; each has its share of the threads.
struct Recordings<'a> {
    paths: &'a [PathBuf],
    input: InputArgs,
    /// What is wrong with the inputs that were read, by place.
    warnings: Mutex<BTreeMap<usize, Vec<String>>>,
}

impl Reader for Recordings<'_> {
    fn open(&self, place: usize, file_id: u32, args: &ArgKeys) -> Result<Recording, String> {
        let Some(path) = self.paths.get(place) else {
            return Err(format!("no input {place}"));
        };
        let quiet = VerbosityArgs {
            quiet: true,
            verbose: false,
        };
        let read = trace_input::read(path, &self.input, quiet, |options| {
            options.args = match args {
                ArgKeys::None => ArgPolicy::None,
                ArgKeys::Only(keys) => ArgPolicy::Only(keys.clone()),
                ArgKeys::All => ArgPolicy::All,
            };
        });
        let read = read.map_err(|error| format!("{error:#}"))?;
        let mut found = trace_input::warnings(&read);
        found.extend(trace_input::nothing_inside(&read));
        if !found.is_empty() {
            let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
            warnings.insert(place, found);
        }
        Ok(Recording::new(
            file_id,
            &path.display().to_string(),
            read.trace,
        ))
    }

    fn hash(&self, place: usize) -> Option<String> {
        byte_source::remote::hash(trace_input::file_of(self.paths.get(place)?))
    }
}

fn run(args: &ExportCli) -> anyhow::Result<Outcome> {
    cli::refuse_url(&args.output)?;
    let paths = trace_input::expand_ranks(&args.paths, args.verbosity)?;
    let (workers, input) = args.input.shared_by(paths.len());
    let inputs: Vec<Input> = paths.iter().map(|path| Input::of(path)).collect();
    let mut tables = args.tables.clone();
    if tables.is_empty() {
        tables = TABLES.iter().collect();
    }
    if !tables.iter().any(|table| table.name == "files") {
        tables.extend(table("files"));
    }
    let options = Export {
        folder: &args.output,
        tables,
        tool_version: env!("CARGO_PKG_VERSION"),
        threads: workers,
    };
    let reader = Recordings {
        paths: &paths,
        input,
        warnings: Mutex::default(),
    };
    let line = ProgressLine::start("exporting", args.verbosity);
    let done = export(&inputs, &reader, &options);
    drop(line);
    let report = done.or_exit(Outcome::OutputFailed)?;
    let warnings = reader
        .warnings
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    for warning in warnings.into_values().flatten() {
        args.verbosity.note(warning);
    }
    for (name, why) in &report.failures {
        let why = why.strip_prefix(&format!("{name}: ")).unwrap_or(why);
        cli::complain(&anyhow::anyhow!("left out: {name}: {why}"));
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
    Ok(match report.failures.is_empty() {
        true => Outcome::Fine,
        false => Outcome::Unreadable,
    })
}
