//! Runs a tool's main function and derives the exit code.

use std::error::Error as StdError;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::{fmt, thread};

use clap::Parser;

use crate::{cleanup, in_process, inputs, terminal};

/// Exit code of a defect, the same as that of an uncaught panic.
const DEFECT: u8 = 101;

/// Outcome of a run; its exit code has the same meaning in every tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Everything requested was done: exit code 0.
    Fine,
    /// Done, but a condition set by the user (`--fail-on-empty`, a gate, a check) failed: 1.
    ConditionFailed,
    /// The command line is wrong: 2.
    Usage,
    /// An input is missing, unreadable or not of the expected kind: 3. Also used for errors of no
    /// other kind.
    Unreadable,
    /// The inputs do not contain the answer, or this machine cannot provide it: 4.
    CannotAnswer,
    /// The result could not be written: 5.
    OutputFailed,
    /// Exit code of a command that was run, or of a tool whose behaviour is reproduced.
    Code(u8),
}

impl Outcome {
    /// Returns the exit code of the process.
    pub const fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::ConditionFailed => 1,
            Self::Usage => 2,
            Self::Unreadable => 3,
            Self::CannotAnswer => 4,
            Self::OutputFailed => 5,
            Self::Code(code) => code,
        }
    }
}

impl From<u8> for Outcome {
    fn from(code: u8) -> Self {
        Self::Code(code)
    }
}

/// An error with its outcome.
struct Coded {
    outcome: Outcome,
    error: anyhow::Error,
}

/// Marks an error of writing a result within an [`io::Error`], so that its origin survives callers that only know [`io::Write`].
#[derive(Debug)]
pub(crate) struct WriteFailed(pub(crate) io::Error);

impl fmt::Display for WriteFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl StdError for WriteFailed {}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl fmt::Debug for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl StdError for Coded {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

/// Assigns an outcome to an error.
pub trait OrExit<T> {
    /// Assigns an outcome: for an error the process ends with the exit code of `outcome`. Context
    /// may still be added.
    ///
    /// # Errors
    ///
    /// The error itself.
    fn or_exit(self, outcome: impl Into<Outcome>) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, outcome: impl Into<Outcome>) -> anyhow::Result<T> {
        self.map_err(|error| {
            anyhow::Error::new(Coded {
                outcome: outcome.into(),
                error: error.into(),
            })
        })
    }
}

/// Returns an error in the arguments that the argument parser could not detect: exit code 2.
///
/// ```
/// let error = cli::usage("--to is before --from");
/// assert_eq!(error.to_string(), "--to is before --from");
/// ```
pub fn usage(message: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> anyhow::Error {
    failed_as(message, Outcome::Usage)
}

/// Returns an error with this text for a question that the inputs cannot answer: exit code 4.
pub fn cannot_answer(
    message: impl fmt::Display + fmt::Debug + Send + Sync + 'static,
) -> anyhow::Error {
    failed_as(message, Outcome::CannotAnswer)
}

fn failed_as(
    message: impl fmt::Display + fmt::Debug + Send + Sync + 'static,
    outcome: Outcome,
) -> anyhow::Error {
    anyhow::Error::new(Coded {
        outcome,
        error: anyhow::Error::msg(message),
    })
}

/// Parses a command line (the tool's name first), runs the tool, reports errors and returns the
/// exit code.
///
/// A name of two words, such as `inferscope trace-info`, is the name of a tool within another
/// executable; help and errors use it. Installs the panic hook for the whole process, unless the tool runs within another program
/// ([`in_process`]).
///
/// | event | exit code | on stderr |
/// |---|---|---|
/// | [`Outcome`] | its own | nothing |
/// | error | that of its [`Outcome`], else 5 where a result could not be written, else 3 | `tool: error: context: cause` |
/// | wrong arguments, [`usage`] | 2 | the problem, and how to get help |
/// | `--help`, `--version` | 0 | nothing |
/// | standard output was closed by its reader | 0 | nothing |
/// | panic | 101 | one line asking for a report; backtrace with `RUST_BACKTRACE` |
pub fn main_from<A: Parser>(
    words: impl IntoIterator<Item = OsString>,
    run: impl FnOnce(A) -> anyhow::Result<Outcome>,
) -> u8 {
    let mut command = A::command();
    let words: Vec<OsString> = words.into_iter().collect();
    let words = inputs::without_secrets(words, &command);
    let _objects = inputs::Objects::begin();
    let tool = match words.first().and_then(|word| word.to_str()) {
        Some(name) if name.ends_with(&format!(" {}", command.get_name())) => name.to_owned(),
        _ => command.get_name().to_owned(),
    };
    let call = in_process::current();
    if call.is_none() {
        TOOL.get_or_init(|| tool.clone());
        report_panics(&tool);
        byte_source::unfinished::at_first(cleanup::install);
    }
    let failed = |text: String| match &call {
        Some(call) => call.collected().error = Some(text),
        None => terminal::say(&format!("{tool}: error: {text}")),
    };
    let parsed = command
        .try_get_matches_from_mut(words)
        .and_then(|matches| A::from_arg_matches(&matches).map_err(|e| e.format(&mut command)));
    let args = match parsed {
        Ok(args) => args,
        Err(answer) => {
            match &call {
                Some(call) if answer.exit_code() == 0 => {
                    let text = answer.render().to_string();
                    call.collected().output.extend_from_slice(text.as_bytes());
                }
                Some(_) => failed(problem(&answer)),
                // Help that is not read to its end is not a failure.
                None => _ = answer.print(),
            }
            return u8::try_from(answer.exit_code()).unwrap_or(Outcome::Usage.code());
        }
    };
    // The closure's state is not used after a panic.
    match panic::catch_unwind(AssertUnwindSafe(|| run(args))) {
        Ok(Ok(outcome)) => outcome.code(),
        Ok(Err(error)) if is_broken_pipe(&error) => 0,
        Ok(Err(error)) => {
            let outcome = outcome_of(&error);
            failed(one_line(&error));
            if outcome == Outcome::Usage && call.is_none() {
                terminal::say(&format!("try '{tool} --help'"));
            }
            outcome.code()
        }
        Err(panic) => {
            if call.is_some() {
                failed(format!("internal defect: {}", message(&*panic)));
            }
            DEFECT
        }
    }
}

/// Returns what is wrong with a command line, without the usage that follows it, on one line.
fn problem(answer: &clap::Error) -> String {
    let text = answer.render().to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or(&text);
    let text = text.strip_prefix("error: ").unwrap_or(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the first line of a panic's message.
fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .and_then(|text| text.lines().next())
        .unwrap_or("no message")
}

/// Name of the tool, for errors that do not end it.
static TOOL: OnceLock<String> = OnceLock::new();

fn say_error(tool: &str, error: &anyhow::Error) {
    terminal::say(&format!("{tool}: error: {}", one_line(error)));
}

/// Reports an error that does not end the tool in the form of [`main_from`]: one line on standard
/// error, the tool's name first.
pub fn complain(error: &anyhow::Error) {
    say_error(TOOL.get().map_or("error", String::as_str), error);
}

/// Returns an error with this text and the exit code of `cause`, which was reported before.
pub fn follows(
    message: impl fmt::Display + fmt::Debug + Send + Sync + 'static,
    cause: &anyhow::Error,
) -> anyhow::Error {
    failed_as(message, outcome_of(cause))
}

/// Returns the outcome of an error: the assigned one, else the one implied by its causes.
fn outcome_of(error: &anyhow::Error) -> Outcome {
    let given = |cause: &(dyn StdError + 'static)| Some(cause.downcast_ref::<Coded>()?.outcome);
    let output = |cause: &(dyn StdError + 'static)| {
        let written = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
            .is_some_and(|inner| inner.is::<WriteFailed>());
        written
            || matches!(
                cause.downcast_ref::<byte_source::Error>(),
                Some(byte_source::Error::Write { .. } | byte_source::Error::NoDirectory { .. })
            )
    };
    if let Some(outcome) = error.chain().find_map(given) {
        outcome
    } else if error.chain().any(output) {
        Outcome::OutputFailed
    } else {
        Outcome::Unreadable
    }
}

/// Returns whether what was written is still read: `false` after a closed pipe (`tool | head`), which is no failure, so that the
/// outcome of a tool that watches or checks is the same whether its answer is read to the end or not.
///
/// # Errors
///
/// Any other error of writing.
pub fn is_read_on(written: anyhow::Result<()>) -> anyhow::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if is_broken_pipe(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns `true` if the chain contains a broken pipe.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_pipe = |cause: &(dyn StdError + 'static)| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    // A wrapper with an exit code hides its outermost link.
    error.chain().any(|cause| {
        is_pipe(cause)
            || cause
                .downcast_ref::<Coded>()
                .is_some_and(|coded| coded.error.chain().any(is_pipe))
    })
}

/// Formats the whole chain on one line, each link in lower case and none repeated.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let told = line.ends_with(&text);
        let text = without_capital(&text);
        // Some errors include their cause, unchanged or in the form written here.
        if told || line.ends_with(&text) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&text);
    }
    line
}

/// Makes the first letter lower case unless it begins a name such as `JSON`.
fn without_capital(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

/// Replaces the raw panic message with one line.
fn report_panics(tool: &str) {
    let tool = tool.to_owned();
    let show_all = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let message = self::message(payload);
        let place = info
            .location()
            .map(|at| format!(" ({}:{})", at.file(), at.line()))
            .unwrap_or_default();
        let thread = thread::current();
        let on = match thread.name() {
            Some("main") | None => String::new(),
            Some(name) => format!(" on thread {name}"),
        };
        terminal::say(&format!(
            "{tool}: error: internal defect{on}: {message}{place}: please report it with the input"
        ));
        if show_all {
            previous(info);
        }
    }));
    // Nothing may be written to the panic's own stream before the hook.
    let _ = io::stderr().flush();
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn chains_become_one_lower_case_line_without_repeats() {
        let error = anyhow::Error::new(io::Error::new(
            io::ErrorKind::NotFound,
            "No such file\nor directory",
        ))
        .context("reading rank0.json: no such file or directory")
        .context("JSON input");
        assert_eq!(
            one_line(&error),
            "JSON input: reading rank0.json: no such file or directory"
        );
        let source = io::Error::new(io::ErrorKind::NotFound, "No such file");
        let error = anyhow::Error::new(source).context("rank0.json: No such file");
        assert_eq!(one_line(&error), "rank0.json: No such file");
    }

    #[test]
    fn codes_survive_context() {
        let error = Err::<(), _>(io::Error::other("gate"))
            .or_exit(7)
            .context("outer")
            .unwrap_err();
        assert_eq!(outcome_of(&error).code(), 7);
        assert_eq!(one_line(&error), "outer: gate");
        assert_eq!(outcome_of(&anyhow::anyhow!("plain")), Outcome::Unreadable);
        assert_eq!(outcome_of(&usage("wrong")).code(), 2);
        assert_eq!(outcome_of(&cannot_answer("no kernels")).code(), 4);
    }

    #[test]
    fn failures_to_write_are_told_from_failures_to_read() {
        let full = || io::Error::new(io::ErrorKind::StorageFull, "no space left");
        let marked = io::Error::new(io::ErrorKind::StorageFull, WriteFailed(full()));
        let error = anyhow::Error::new(marked).context("writing rows");
        assert_eq!(outcome_of(&error), Outcome::OutputFailed);
        assert_eq!(one_line(&error), "writing rows: no space left");
        assert_eq!(outcome_of(&anyhow::Error::new(full())), Outcome::Unreadable);
    }

    #[test]
    fn broken_pipes_are_found_under_codes_and_context() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&anyhow::Error::new(pipe()).context("x")));
        let coded = Err::<(), _>(pipe()).or_exit(3).context("x").unwrap_err();
        assert!(is_broken_pipe(&coded));
        assert!(!is_broken_pipe(&anyhow::anyhow!("broken pipe")));
    }
}
