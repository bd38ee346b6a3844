//! What the terminal can do, and single lines to it.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Columns assumed where there is no terminal to ask.
pub const DEFAULT_WIDTH: usize = 80;

/// Columns that output for people may fill: the terminal's, `COLUMNS`, or 80.
///
/// Output that goes to a file or pipe is 80 wide unless `COLUMNS` says otherwise, so that it
/// does not depend on the window it was made in.
pub fn width() -> usize {
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

/// Returns the columns that tables may fill: those of the terminal, else `COLUMNS`; `None` if standard output is a file or
/// a pipe and nothing is stated, so that nothing is cut there.
pub fn table_width() -> Option<usize> {
    let is_stated = std::env::var_os("COLUMNS").is_some();
    (io::stdout().is_terminal() || is_stated).then(width)
}

/// Whether standard output should have colours.
///
/// Yes on a terminal, unless `NO_COLOR` is set and not empty (no-color.org) or `TERM` is `dumb`.
pub fn colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !refused && !dumb && io::stdout().is_terminal()
}

/// Set while a progress line stands on the terminal.
static LINE_SHOWN: AtomicBool = AtomicBool::new(false);

/// Erases the current line: carriage return, then "erase in line" of ECMA-48.
const ERASE: &str = "\r\x1b[2K";

/// Writes a line to standard error in one piece, in place of a progress line if there is one.
///
/// A standard error that takes nothing is nothing that could be reported anywhere.
pub fn say(line: &str) {
    let erase = if LINE_SHOWN.swap(false, Ordering::Relaxed) {
        ERASE
    } else {
        ""
    };
    let _ = io::stderr()
        .lock()
        .write_all(format!("{erase}{line}\n").as_bytes());
}

/// Shows a progress line in place of the one before; an empty one just erases.
pub(crate) fn show(line: &str) {
    let shown = LINE_SHOWN.swap(!line.is_empty(), Ordering::Relaxed);
    if shown || !line.is_empty() {
        let _ = io::stderr()
            .lock()
            .write_all(format!("{ERASE}{line}").as_bytes());
    }
}
