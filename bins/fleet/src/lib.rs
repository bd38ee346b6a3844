//! What stands out among the ranks of a job of any size.

#[cfg(feature = "cluster")]
pub mod cluster;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use byte_source::output::AtomicFile;
use clap::{Parser, ValueEnum};
use cli::{
    FormatArgs, HasJson, InputArgs, LastWords, OrExit as _, Outcome, Output, ProgressLine,
    VerbosityArgs,
};
use fleet::store::{Recordings, Store, read, stored, summarise_all};
use fleet::{Fleet, Racks, reduce, tables};
use perfetto_reader::ArgPolicy;
use report::human::count;
use report::text::{TextOptions, wrapped};
use report::{CsvOptions, CsvWriter, ParquetWriter, Table};
use trace_dataset::{Error, Input, Report};
use trace_input::ClassesArgs;
use trace_model::Trace;
use trace_model::parallel::in_parallel;

const HELP: &str = "\
DIR has fleet.json and fleet.html, the tables findings, ranks, factors, links, budgets,
steps, kernels, classes and failures, and in DIR/summaries at most 100 kB of each rank.
Repeat the command to add ranks or to go on after an interruption: recordings that are
there with the same content are not read again. Recordings that cannot be read are named,
and the answer is that of the rest. docs/guide/fleet.md explains the answer.

Example:
  inferscope fleet traces/ -o job
  inferscope sql \"SELECT rank, host, inflicted_ns FROM ranks LIMIT 10\" job
  duckdb -c \"SELECT rank, host, inflicted_ns FROM 'job/ranks.parquet' LIMIT 10\"";

/// Compare all ranks of a job: late ranks, hosts, slow links, other kernels, clocks, missing ranks
#[derive(Debug, Parser)]
#[command(name = "fleet", version, after_help = HELP, max_term_width = 100)]
struct FleetCli {
    /// Recordings of the ranks, of any format, or folders of them, also in object stores
    #[arg(required = true, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    /// Folder for summaries, tables and the page
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Format of the tables in DIR
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    tables: TableFormat,
    /// Racks of the hosts: lines `HOST,RACK`, or Slurm's topology.conf
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    racks: Option<PathBuf>,
    /// Summarise on the executors of the scheduler at HOST:PORT, which see the same paths; this machine compares
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "HOST:PORT")]
    cluster: Option<trace_cluster::Address>,
    #[command(flatten)]
    classes: ClassesArgs,
    #[command(flatten)]
    format: FormatArgs<AnswerFormat>,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    verbosity: VerbosityArgs,
}

/// Format of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum TableFormat {
    /// Parquet, for SQL and data frames
    #[default]
    Parquet,
    /// Comma-separated values
    Csv,
}

/// Format of the answer on standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum AnswerFormat {
    /// Text for people
    #[default]
    Text,
    /// The document of fleet.json
    Json,
}

impl HasJson for AnswerFormat {
    const JSON: Self = Self::Json;
}

/// Runs `fleet` with the words of a command line, the tool's name first. Returns the exit code.
pub fn main_from(words: impl IntoIterator<Item = OsString>) -> u8 {
    cli::main_from(words, |args: FleetCli| run(&args))
}

/// Returns the description of the command line, for help, completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    <FleetCli as clap::CommandFactory>::command()
}

/// Reads the recordings; each has its share of the threads.
struct Files {
    /// Path and name of each.
    files: Vec<(PathBuf, String)>,
    input: InputArgs,
    classes: ClassesArgs,
    keys: Vec<String>,
}

impl Files {
    fn new(files: Vec<(PathBuf, String)>, input: InputArgs, classes: ClassesArgs) -> Self {
        Self {
            files,
            input,
            classes,
            keys: fleet::summary::arg_keys(),
        }
    }
}

impl Recordings for Files {
    fn open(&self, place: usize) -> Result<(String, Trace), String> {
        let Some((path, name)) = self.files.get(place) else {
            return Err(format!("no input {place}"));
        };
        let quiet = VerbosityArgs {
            quiet: true,
            verbose: false,
        };
        let read = trace_input::read(path, &self.input, quiet, |options| {
            options.args = ArgPolicy::Only(self.keys.clone());
            options.kernel_rules = self.classes.rules();
        });
        // Texts name recordings as they were given.
        let named = |text: String| text.replace(&path.display().to_string(), name);
        let read = read.map_err(|error| named(format!("{error:#}")))?;
        Ok((name.clone(), read.trace))
    }
}

/// Summarises the recordings, here or on a cluster.
fn summarised(
    args: &FleetCli,
    (paths, input): (&[PathBuf], InputArgs),
    inputs: &[Input],
    store: Store<'_>,
) -> Result<Report, Error> {
    #[cfg(feature = "cluster")]
    if let Some(address) = &args.cluster {
        let jobs = cluster::jobs(address, &args.input)?;
        return fleet::store::summarise_all_elsewhere(inputs, &jobs, store);
    }
    #[cfg(not(feature = "cluster"))]
    let _ = args;
    let name = |path: &PathBuf| (path.clone(), path.display().to_string());
    let files = paths.iter().map(name).collect();
    let files = Files::new(files, input, args.classes.clone());
    summarise_all(inputs, &files, store)
}

/// Reads the list of racks.
fn racks(path: &Path) -> anyhow::Result<Racks> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Racks::parse(&text).with_context(|| path.display().to_string())
}

fn run(args: &FleetCli) -> anyhow::Result<Outcome> {
    cli::refuse_url(&args.output)?;
    refuse_foreign(args)?;
    #[cfg(feature = "cluster")]
    if args.cluster.is_some() && args.classes.classes.is_some() {
        return Err(cli::usage(trace_cluster::NO_CLASSES));
    }
    let racks = match &args.racks {
        Some(path) => racks(path).or_exit(Outcome::Unreadable)?,
        None => Racks::default(),
    };
    // Members of archives are named behind an exclamation mark.
    let is_nowhere = |path: &PathBuf| {
        let is_local = !byte_source::remote::is_url(path);
        is_local && !path.exists() && !path.to_string_lossy().contains('!')
    };
    if args.paths.iter().all(is_nowhere) {
        let names: Vec<String> = args
            .paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let error = anyhow::anyhow!("{}: no such file or folder", names.join(", "));
        return Err(error).or_exit(Outcome::Unreadable);
    }
    let paths = trace_input::expand_ranks(&args.paths, args.verbosity)?;
    let threads = args.input.threads().get();
    let (workers, input) = args.input.shared_by(paths.len());
    let inputs: Vec<Input> = paths.iter().map(|path| Input::of(path)).collect();
    let folder = args.output.join("summaries");
    let store = Store {
        folder: &folder,
        tool_version: env!("CARGO_PKG_VERSION"),
        rules: args.classes.classes.as_ref(),
        threads: workers,
    };
    let line = ProgressLine::start("summarising", args.verbosity);
    let interrupted = LastWords::new(format!(
        "fleet: interrupted: summaries made so far are in {}; repeat the command to go on",
        folder.display()
    ));
    let made = summarised(args, (&paths, input), &inputs, store);
    drop((line, interrupted));
    let made = match made {
        Ok(made) => made,
        Err(error @ Error::Elsewhere { .. }) => return Err(error).or_exit(Outcome::Unreadable),
        Err(error) => return Err(error).or_exit(Outcome::OutputFailed),
    };
    let there = stored(&folder).or_exit(Outcome::OutputFailed)?;
    // A few at a time: only what the comparison needs stays in memory.
    let summaries = there
        .summaries
        .chunks(64)
        .flat_map(|chunk| in_parallel(chunk, threads, |_, (file, path)| read(file, path)));
    let fleet = reduce(summaries, there.failures, &racks).or_exit(Outcome::CannotAnswer)?;
    write_all(args, &fleet)?;
    let out = Output::stdout();
    match args.format.format() {
        AnswerFormat::Json => json(&fleet, out)?,
        AnswerFormat::Text => text(&fleet, out)?,
    }
    for failure in &fleet.failures {
        let reason = failure.reason();
        cli::complain(&anyhow::anyhow!("left out: {}: {reason}", failure.file));
    }
    args.verbosity.note(format!(
        "{} of {} recordings summarised, {} skipped because they are there, {} failed; tables and page in {}",
        count(made.exported as u64),
        count(inputs.len() as u64),
        count(made.skipped as u64),
        count(fleet.failures.len() as u64),
        args.output.display(),
    ));
    Ok(match (fleet.scope.ranks, fleet.failures.is_empty()) {
        (0, true) => Outcome::CannotAnswer,
        (_, true) => Outcome::Fine,
        (_, false) => Outcome::Unreadable,
    })
}

/// Refuses to replace files that this tool did not write: a document of another kind, or tables without a document of a fleet beside them.
fn refuse_foreign(args: &FleetCli) -> anyhow::Result<()> {
    let folder = &args.output;
    if folder.exists() && !folder.is_dir() {
        let error = anyhow::anyhow!("{}: this is a file; -o takes a folder", folder.display());
        return Err(error).or_exit(Outcome::OutputFailed);
    }
    if fleet::is_folder(folder) {
        return Ok(());
    }
    let tables = fleet::tables::TABLES
        .iter()
        .map(|(name, _)| format!("{name}.{}", ending(args.tables)));
    let names = [fleet::DOCUMENT, "fleet.html"]
        .map(str::to_owned)
        .into_iter()
        .chain(tables);
    let mut there = names.filter(|name| folder.join(name).exists());
    match there.next() {
        None => Ok(()),
        Some(name) => {
            let error = anyhow::anyhow!(
                "{}: it exists and is not of an earlier answer of this tool: choose another folder for -o, or move it away",
                folder.join(name).display()
            );
            Err(error).or_exit(Outcome::OutputFailed)
        }
    }
}

fn ending(tables: TableFormat) -> &'static str {
    match tables {
        TableFormat::Csv => "csv",
        TableFormat::Parquet => "parquet",
    }
}

/// Writes the document, the page and the tables.
fn write_all(args: &FleetCli, fleet: &Fleet) -> anyhow::Result<()> {
    let at = |name: &str| args.output.join(name);
    json(fleet, Output::file(at(fleet::DOCUMENT))?)?;
    let mut page = Output::file(at("fleet.html"))?;
    page.write_all(fleet::html(fleet)?.as_bytes())?;
    page.finish()?;
    for table in tables::all(fleet)? {
        let path = at(&format!("{}.{}", table.name(), ending(args.tables)));
        write_table(&table, &path, args.tables)?;
    }
    Ok(())
}

fn write_table(table: &Table, path: &Path, format: TableFormat) -> anyhow::Result<()> {
    let mut file = AtomicFile::create(path).or_exit(Outcome::OutputFailed)?;
    match format {
        TableFormat::Csv => {
            table.write_to(&mut CsvWriter::new(&mut file, CsvOptions::default()))?;
        }
        TableFormat::Parquet => {
            table.write_to(&mut ParquetWriter::new(&mut file, tables::SCHEMA_VERSION))?;
        }
    }
    file.commit().or_exit(Outcome::OutputFailed)
}

fn json(fleet: &Fleet, mut out: Output) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut out, fleet)?;
    out.write_all(b"\n")?;
    out.finish()
}

/// Width of the text.
const WIDTH: usize = 80;

/// Number of ranks in the table of the text.
const RANKS: usize = 8;

fn text(fleet: &Fleet, mut out: Output) -> anyhow::Result<()> {
    for line in wrapped(&fleet.answer, WIDTH) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    for (label, text) in fleet::lines(fleet) {
        // A command stays on one line, so that it can be copied.
        if label == "see" {
            writeln!(out, "{:<12}{text}", "")?;
            continue;
        }
        for (number, line) in wrapped(&text, WIDTH - 12).iter().enumerate() {
            let label = if number == 0 { label } else { "" };
            writeln!(out, "{label:<12}{line}")?;
        }
    }
    if fleet.ranks.len() > 1 {
        let options = TextOptions {
            width: Some(WIDTH),
            ..TextOptions::default()
        };
        let table = tables::latest(fleet, RANKS)?;
        writeln!(out, "\nRanks that others wait for longest\n")?;
        write!(out, "{}", table.to_text(&options))?;
    }
    out.finish()
}
