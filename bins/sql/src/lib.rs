//! SQL over recordings and exported data sets.

mod args;
#[cfg(feature = "cluster")]
pub mod cluster;
mod inputs;
mod prompt;

use std::ffi::OsString;
use std::io::{BufWriter, IsTerminal as _, Read as _, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use byte_source::output::AtomicFile;
use cli::{OrExit as _, Outcome, VerbosityArgs};
use table_input::Tables;
use trace_sql::sink::{BinaryResults, Format, TableResult, TextResults};
use trace_sql::{Engine, ErrorKind, FileTable, Inputs, Options, SqlError};

use crate::args::{FormatName, SqlCli};

/// Runs `sql` with the words of a command line, the tool's name first. Returns the exit code.
pub fn main_from(words: impl IntoIterator<Item = OsString>) -> u8 {
    cli::main_from(words, run)
}

/// Returns the description of the command line, for help, completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    <SqlCli as clap::CommandFactory>::command()
}

/// The engine, and what is wrong with what it reads.
pub(crate) struct Session {
    pub(crate) engine: Engine,
    /// The recordings; `None` of a data set.
    files: Option<Arc<inputs::Files>>,
    /// Other processes read the recordings, and say what is missing.
    is_elsewhere: bool,
    /// Files of a data set that are missing or cut, each with one sentence.
    damaged: Vec<String>,
}

/// Where statements come from.
enum Statements {
    Text(String),
    Prompt,
}

/// Number of rows shown as text.
const ROWS: usize = 100;

fn run(args: SqlCli) -> anyhow::Result<Outcome> {
    let (statements, paths) = statements(&args)?;
    let session = session(
        &args,
        &paths,
        matches!(&statements, Statements::Text(text) if describes_only(text)),
    )?;
    let text = match statements {
        Statements::Text(text) => text,
        Statements::Prompt => return prompt::run(&session, &args),
    };
    let format = format(args.format.format());
    let is_binary = matches!(format, Format::Parquet | Format::Arrow);
    let to_stdout = args
        .output
        .output
        .as_deref()
        .is_none_or(|path| path == Path::new("-"));
    if is_binary && to_stdout && std::io::stdout().is_terminal() {
        return Err(cli::usage(
            "Parquet and Arrow are no text: name a file with -o FILE",
        ));
    }
    cli::refuse_overwrite(&paths, &args.output.output)?;
    if format == Format::Json && to_stdout && cli::in_process::is_active() {
        return give(&session, &text, &args);
    }
    let mut out = Destination::open(&args)?;
    let engine = &session.engine;
    let done = match is_binary {
        true => engine.run(&text, &mut BinaryResults::new(&mut out, format)),
        false => engine.run(&text, &mut text_results(&mut out, &args)),
    };
    finish(&session, done, out, args.verbosity)
}

/// Gives the rows to the program that runs the tool.
fn give(session: &Session, text: &str, args: &SqlCli) -> anyhow::Result<Outcome> {
    let mut rows = TableResult::new(args.limit.filter(|rows| *rows > 0));
    session.engine.run(text, &mut rows).map_err(exit)?;
    if rows.is_cut() {
        let count = args.limit.unwrap_or_default();
        args.verbosity
            .note(format!("only the first {count} rows: there are more"));
    }
    let table = rows.into_table().map_err(exit)?;
    cli::in_process::give_array(trace_tables::SCHEMA_VERSION, table);
    match complain(session, args.verbosity) {
        Outcome::Fine => Ok(Outcome::Fine),
        // As other tools end that answer from a part of their inputs.
        _ => Err(exit(SqlError::new(
            ErrorKind::Input,
            "not all inputs could be read",
        ))),
    }
}

/// Returns a writer of text results with the limit and the width of the command line.
fn text_results<'o>(out: &'o mut Destination, args: &SqlCli) -> TextResults<'o> {
    let format = format(args.format.format());
    let default = (format == Format::Text).then_some(ROWS);
    let limit = args.limit.or(default).filter(|rows| *rows > 0);
    TextResults::new(out, format, cli::terminal::table_width(), limit)
}

fn finish(
    session: &Session,
    done: Result<(), SqlError>,
    out: Destination,
    verbosity: VerbosityArgs,
) -> anyhow::Result<Outcome> {
    match done {
        Err(error) if error.kind() == ErrorKind::Closed => return Ok(Outcome::Fine),
        Err(error) => return Err(exit(error)),
        Ok(()) => {}
    }
    out.finish()?;
    Ok(complain(session, verbosity))
}

/// Sentences on damaged files of a data set, of which there may be thousands.
const DAMAGED: usize = 5;

/// Reports the files that could not be read, and what is missing of the others.
fn complain(session: &Session, verbosity: VerbosityArgs) -> Outcome {
    let mut failures = session.engine.take_failures();
    for note in session.engine.take_notes() {
        verbosity.note(note);
    }
    if let Some(files) = &session.files {
        for warning in files.take_warnings() {
            verbosity.note(warning);
        }
        let missing = match session.is_elsewhere {
            true => Vec::new(),
            false => files.missing(),
        };
        let missing = missing.into_iter();
        let is_new = |text: &String| {
            let name = text.split(": ").next().unwrap_or(text);
            !failures.iter().any(|known| known.starts_with(name))
        };
        let missing: Vec<String> = missing.filter(is_new).collect();
        failures.extend(missing);
    }
    failures.extend(session.damaged.iter().take(DAMAGED).cloned());
    if let Some(more) = session
        .damaged
        .len()
        .checked_sub(DAMAGED)
        .filter(|more| *more > 0)
    {
        failures.push(format!("{more} more files of the data set"));
    }
    for failure in &failures {
        cli::complain(&anyhow::anyhow!("left out: {failure}"));
    }
    match failures.is_empty() {
        true => Outcome::Fine,
        false => Outcome::Unreadable,
    }
}

/// Assigns the exit code of a failed statement.
fn exit(error: SqlError) -> anyhow::Error {
    let outcome = match error.kind() {
        ErrorKind::Usage => return cli::usage(error.to_string()),
        ErrorKind::Input => Outcome::Unreadable,
        ErrorKind::Output => Outcome::OutputFailed,
        _ => Outcome::CannotAnswer,
    };
    let failed: Result<(), SqlError> = Err(error);
    match failed.or_exit(outcome) {
        Err(error) => error,
        Ok(()) => anyhow::anyhow!("the statement failed"),
    }
}

fn format(name: FormatName) -> Format {
    match name {
        FormatName::Text => Format::Text,
        FormatName::Csv => Format::Csv,
        FormatName::Json => Format::Json,
        FormatName::Parquet => Format::Parquet,
        FormatName::Arrow => Format::Arrow,
    }
}

/// Tells the query from the paths, and reads it.
fn statements(args: &SqlCli) -> anyhow::Result<(Statements, Vec<PathBuf>)> {
    let mut words: Vec<&OsString> = args.words.iter().collect();
    if let Some(file) = &args.file {
        let text = match file.as_os_str() == "-" {
            true => stdin()?,
            false => std::fs::read_to_string(file).with_context(|| file.display().to_string())?,
        };
        return Ok((
            Statements::Text(text),
            words.into_iter().map(PathBuf::from).collect(),
        ));
    }
    let first = words
        .first()
        .map(|word| word.to_string_lossy().into_owned());
    let is_query = |word: &str| word.contains(char::is_whitespace) && !Path::new(word).exists();
    let text = match first {
        Some(word) if word == "-" => {
            words.remove(0);
            Statements::Text(stdin()?)
        }
        Some(word) if is_query(&word) => {
            words.remove(0);
            Statements::Text(word)
        }
        Some(_) if std::io::stdin().is_terminal() => Statements::Prompt,
        Some(_) => Statements::Text(stdin()?),
        None => {
            return Err(cli::usage(
                "no query and no path: inferscope sql \"SELECT ...\" PATH...",
            ));
        }
    };
    Ok((text, words.into_iter().map(PathBuf::from).collect()))
}

fn stdin() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("standard input")?;
    Ok(text)
}

/// Returns `true` if statements only ask for tables and columns, which needs no recording.
fn describes_only(text: &str) -> bool {
    let mut statements = text
        .split(';')
        .map(str::trim)
        .filter(|text| !text.is_empty());
    statements.all(|text| {
        let word = text.split_whitespace().next().unwrap_or_default();
        ["show", "describe", "desc"].contains(&word.to_ascii_lowercase().as_str())
    })
}

fn session(args: &SqlCli, paths: &[PathBuf], may_lack_paths: bool) -> anyhow::Result<Session> {
    if paths.is_empty() && !may_lack_paths {
        return Err(cli::usage(
            "no recordings: give files, folders or an exported data set behind the query",
        ));
    }
    #[cfg(feature = "cluster")]
    if args.cluster.is_some() && args.classes.classes.is_some() {
        return Err(cli::usage(trace_cluster::NO_CLASSES));
    }
    let refuse_classes = |folder: &Path| match args.classes.classes {
        None => Ok(()),
        Some(_) => Err(cli::usage(format!(
            "{} keeps the classes that it was made with: give --classes to the command that makes it, or query the recordings",
            folder.display()
        ))),
    };
    let mut options = Options::default();
    if let Some(memory) = args.memory {
        options.memory = usize::try_from(memory.bytes()).unwrap_or(usize::MAX);
    }
    options.threads = args.input.threads();
    options.allow_write.clone_from(&args.allow_write);
    #[cfg(feature = "cluster")]
    {
        options.cluster = args.cluster.as_ref().map(cluster::client);
    }
    let is_elsewhere = options.cluster.is_some();
    if let Some(folder) = paths.iter().find(|path| trace_dataset::is_data_set(path)) {
        if paths.len() > 1 {
            return Err(cli::usage(format!(
                "{} is a data set: query it alone, or give the recordings themselves",
                folder.display()
            )));
        }
        refuse_classes(folder)?;
        let damaged = trace_dataset::damaged(folder).or_exit(Outcome::Unreadable)?;
        let (left_out, damaged): (Vec<PathBuf>, Vec<String>) = damaged.into_iter().unzip();
        options.left_out = left_out;
        return Ok(Session {
            engine: Engine::data_set(folder, options).map_err(exit)?,
            files: None,
            is_elsewhere,
            damaged,
        });
    }
    if let Some(folder) = paths.iter().find(|path| fleet::is_folder(path)) {
        if paths.len() > 1 {
            return Err(cli::usage(format!(
                "{} is the answer of a fleet: query it alone",
                folder.display()
            )));
        }
        refuse_classes(folder)?;
        return of_fleet(folder, options);
    }
    let tables = Tables::new(paths.to_vec(), args.input.clone());
    // There may be logs alone.
    let recordings = match tables.paths_of_recordings() {
        [] => Vec::new(),
        paths => trace_input::expand_ranks(paths, args.verbosity)?,
    };
    let files = Arc::new(inputs::Files::new(recordings, tables, args));
    let engine = Engine::new(Arc::clone(&files) as Arc<dyn Inputs>, options).map_err(exit)?;
    Ok(Session {
        engine,
        files: Some(files),
        is_elsewhere,
        damaged: Vec::new(),
    })
}

/// Opens the tables of a folder of `inferscope fleet`.
fn of_fleet(folder: &Path, mut options: Options) -> anyhow::Result<Session> {
    // It is small, and here.
    options.cluster = None;
    let mut tables = Vec::new();
    for (name, doc) in fleet::tables::TABLES {
        let path = folder.join(format!("{name}.parquet"));
        if path.is_file() {
            tables.push(FileTable {
                name: name.to_owned(),
                doc: doc.to_owned(),
                path,
            });
        }
    }
    if tables.is_empty() {
        let error = anyhow::anyhow!(
            "{}: its tables are not Parquet: repeat `inferscope fleet ... -o {0}` without `--tables csv`",
            folder.display()
        );
        return Err(error).or_exit(Outcome::Unreadable);
    }
    Ok(Session {
        engine: Engine::folder(folder, &tables, options).map_err(exit)?,
        files: None,
        is_elsewhere: false,
        damaged: Vec::new(),
    })
}

/// Where results go. Unlike [`cli::Output`] it may be written by another thread.
enum Destination {
    Stdout(BufWriter<Stdout>),
    File(Box<AtomicFile>),
}

impl Destination {
    fn open(args: &SqlCli) -> anyhow::Result<Self> {
        Ok(match &args.output.output {
            Some(path) if path.as_os_str() != "-" => {
                let file = AtomicFile::create(path).or_exit(Outcome::OutputFailed)?;
                Self::File(Box::new(file))
            }
            _ => Self::stdout(),
        })
    }

    fn stdout() -> Self {
        Self::Stdout(BufWriter::with_capacity(1 << 16, std::io::stdout()))
    }

    fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Stdout(mut out) => out.flush().or_exit(Outcome::OutputFailed),
            Self::File(file) => file.commit().or_exit(Outcome::OutputFailed),
        }
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::File(file) => file.flush(),
        }
    }
}
