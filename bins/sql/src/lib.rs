//! SQL over recordings and exported data sets.

mod args;
mod inputs;
mod prompt;

use std::ffi::OsString;
use std::io::{BufWriter, IsTerminal as _, Read as _, Stdout, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use byte_source::output::AtomicFile;
use cli::{OrExit as _, Outcome};
use trace_sql::sink::{BinaryResults, Format, TextResults};
use trace_sql::{Engine, ErrorKind, Options, SqlError};

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

/// Where statements come from.
enum Statements {
    Text(String),
    Prompt,
}

/// Number of rows shown as text.
const ROWS: usize = 100;

fn run(args: SqlCli) -> anyhow::Result<Outcome> {
    let (statements, paths) = statements(&args)?;
    let engine = engine(
        &args,
        &paths,
        matches!(&statements, Statements::Text(text) if describes_only(text)),
    )?;
    let text = match statements {
        Statements::Text(text) => text,
        Statements::Prompt => return prompt::run(&engine, &args),
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
    let mut out = Destination::open(&args)?;
    let done = match is_binary {
        true => engine.run(&text, &mut BinaryResults::new(&mut out, format)),
        false => engine.run(&text, &mut text_results(&mut out, &args)),
    };
    finish(&engine, done, out)
}

/// Returns a writer of text results with the limit and the width of the command line.
fn text_results<'o>(out: &'o mut Destination, args: &SqlCli) -> TextResults<'o> {
    let format = format(args.format.format());
    let default = (format == Format::Text).then_some(ROWS);
    let limit = args.limit.or(default).filter(|rows| *rows > 0);
    TextResults::new(out, format, cli::terminal::table_width(), limit)
}

fn finish(
    engine: &Engine,
    done: Result<(), SqlError>,
    out: Destination,
) -> anyhow::Result<Outcome> {
    match done {
        Err(error) if error.kind() == ErrorKind::Closed => return Ok(Outcome::Fine),
        Err(error) => return Err(exit(error)),
        Ok(()) => {}
    }
    out.finish()?;
    Ok(complain(engine))
}

/// Reports the files that could not be read.
fn complain(engine: &Engine) -> Outcome {
    let failures = engine.take_failures();
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

fn engine(args: &SqlCli, paths: &[PathBuf], may_lack_paths: bool) -> anyhow::Result<Engine> {
    if paths.is_empty() && !may_lack_paths {
        return Err(cli::usage(
            "no recordings: give files, folders or an exported data set behind the query",
        ));
    }
    let mut options = Options::default();
    if let Some(memory) = args.memory {
        options.memory = usize::try_from(memory.bytes()).unwrap_or(usize::MAX);
    }
    options.threads = args.input.threads();
    options.allow_write.clone_from(&args.allow_write);
    if let Some(folder) = paths.iter().find(|path| trace_dataset::is_data_set(path)) {
        if paths.len() > 1 {
            return Err(cli::usage(format!(
                "{} is a data set: query it alone, or give the recordings themselves",
                folder.display()
            )));
        }
        return Engine::data_set(folder, options).map_err(exit);
    }
    let inputs = match paths.is_empty() {
        true => inputs::Files::new(Vec::new(), args),
        false => inputs::Files::new(trace_input::expand_ranks(paths, args.verbosity)?, args),
    };
    Engine::new(std::sync::Arc::new(inputs), options).map_err(exit)
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
