//! Capabilities of the terminal, and single lines to it.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::in_process;

/// Number of columns assumed without a terminal.
pub const DEFAULT_WIDTH: usize = 80;

/// Returns the number of columns for text output: the terminal's, `COLUMNS`, or 80.
///
/// Output to a file or pipe is 80 wide unless `COLUMNS` is set, so that it does not depend on the
/// current window.
pub fn width() -> usize {
    if in_process::is_active() {
        return DEFAULT_WIDTH;
    }
    let asked = io::stdout()
        .is_terminal()
        .then(terminal_size::terminal_size)
        .flatten()
        .map(|(width, _)| usize::from(width.0));
    let stated = || std::env::var("COLUMNS").ok()?.parse().ok();
    asked
        .or_else(stated)
        .filter(|&width| width > 0)
        .unwrap_or(DEFAULT_WIDTH)
}

/// Returns the number of columns for tables: the terminal's, else `COLUMNS`; `None` if standard
/// output is a file or a pipe and `COLUMNS` is not set, so that nothing is shortened there.
pub fn table_width() -> Option<usize> {
    let is_stated = std::env::var_os("COLUMNS").is_some();
    let is_shown = io::stdout().is_terminal() || is_stated;
    (is_shown && !in_process::is_active()).then(width)
}

/// Returns `true` if standard output should have colours.
///
/// That is the case on a terminal, unless `NO_COLOR` is set and not empty (no-colour.org) or `TERM`
/// is `dumb`.
pub fn colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !refused && !dumb && io::stdout().is_terminal() && !in_process::is_active()
}

/// `true` while a progress line is shown on the terminal.
static LINE_SHOWN: AtomicBool = AtomicBool::new(false);

/// Erases the current line: carriage return, then "erase in line" of ECMA-48.
const ERASE: &str = "\r\x1b[2K";

/// Writes a line to standard error in one piece, replacing a progress line if there is one.
///
/// A failure to write to standard error cannot be reported and is ignored.
pub fn say(line: &str) {
    if let Some(call) = in_process::current() {
        return call.collected().notes.push(line.to_owned());
    }
    let erase = if LINE_SHOWN.swap(false, Ordering::Relaxed) {
        ERASE
    } else {
        ""
    };
    let _ = io::stderr()
        .lock()
        .write_all(format!("{erase}{line}\n").as_bytes());
}

/// Replaces the progress line; an empty text only erases it.
pub(crate) fn show(line: &str) {
    let shown = LINE_SHOWN.swap(!line.is_empty(), Ordering::Relaxed);
    if shown || !line.is_empty() {
        let _ = io::stderr()
            .lock()
            .write_all(format!("{ERASE}{line}").as_bytes());
    }
}
