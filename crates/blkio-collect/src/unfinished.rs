//! Requests that were in flight when the recording ended.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use byte_source::output::AtomicFile;

use crate::error::Result;
use crate::script::unfinished_line;

/// Moves the requests whose completion was skipped from the tracer's closing dump to their time of
/// issue, as `I` lines. At the end of the log they would be far out of order.
pub(crate) fn put_unfinished_in_place(log: &Path) -> Result<()> {
    let open = |path: &Path| -> Result<BufReader<File>> {
        Ok(BufReader::with_capacity(1 << 20, File::open(path)?))
    };
    let mut unfinished = Vec::new();
    for line in open(log)?.split(b'\n') {
        unfinished.extend(unfinished_line(&line?));
    }
    if unfinished.is_empty() {
        return Ok(());
    }
    unfinished.sort();
    let mut left = unfinished.iter().peekable();
    let mut out = AtomicFile::create(log)?;
    for line in open(log)?.split(b'\n') {
        let line = line?;
        if unfinished_line(&line).is_some() {
            continue;
        }
        if let Some(complete_ns) = complete_ns(&line) {
            while let Some((_, text)) = left.next_if(|(issue_ns, _)| *issue_ns <= complete_ns) {
                out.write_all(text.as_bytes())?;
            }
        }
        out.write_all(&line)?;
        out.write_all(b"\n")?;
    }
    for (_, text) in left {
        out.write_all(text.as_bytes())?;
    }
    Ok(out.commit()?)
}

/// Returns the time of completion in an `R` line.
fn complete_ns(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line.strip_prefix(b"R,")?).ok()?;
    text.split(',').nth(1)?.trim().parse().ok()
}
