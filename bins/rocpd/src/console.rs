//! Standard output.

use std::io::Write as _;

use cli::Output;

/// Writes a text to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = Output::stdout();
    out.write_all(text.as_bytes())?;
    out.finish()
}
