//! Dumps of PyTorch among the paths of a command line: memory snapshots, and what the Flight Recorder kept.

use std::path::{Path, PathBuf};

use byte_source::{OpenOptions, Source, expand_inputs};
use cli::InputArgs;
use torch_dumps::Dump;

use crate::files::is_trace;

/// Returns the paths of dumps if all of `given` are dumps or folders of dumps, `None` if none is. Files are recognised by their
/// first bytes: the Flight Recorder's files have no ending.
///
/// # Errors
///
/// Returns an error if there are both dumps and traces: an analysis reads either.
pub fn dumps(given: &[PathBuf]) -> anyhow::Result<Option<Vec<PathBuf>>> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut trace: Option<PathBuf> = None;
    for path in given {
        if !path.is_dir() {
            match is_dump(path) {
                true => found.push(path.clone()),
                false => trace = trace.or_else(|| Some(path.clone())),
            }
            continue;
        }
        let before = found.len();
        let mut others = 0;
        // Unreadable folders are left to the reader of traces, which reports the reason.
        let inside = expand_inputs([path], |file| {
            let is_one = is_dump(file);
            others += usize::from(!is_one && is_trace(file));
            is_one
        });
        found.extend(inside.unwrap_or_default());
        if others > 0 || found.len() == before {
            trace = trace.or_else(|| Some(path.clone()));
        }
    }
    match (found.first(), trace) {
        (None, _) => Ok(None),
        (Some(_), None) => Ok(Some(found)),
        (Some(dump), Some(trace)) => Err(cli::usage(format!(
            "{} is a dump of PyTorch, and {} is or holds something else: give dumps and traces separately",
            dump.display(),
            trace.display()
        ))),
    }
}

/// Returns `true` if a file begins as a dump.
fn is_dump(path: &Path) -> bool {
    if path.as_os_str() == "-" || !path.is_file() {
        return false;
    }
    let Ok(mut source) = Source::open(path, &OpenOptions::default()) else {
        return false;
    };
    let head = source.head(torch_dumps::HEAD);
    head.is_ok_and(|head| torch_dumps::kind_of(head).is_some())
}

/// Reads a dump.
///
/// # Errors
///
/// Same as [`torch_dumps::read`]; the errors name the file.
pub fn read_dump(path: &Path, input: &InputArgs) -> anyhow::Result<Dump> {
    let source = Source::open(path, &input.open_options(None))?;
    Ok(torch_dumps::read(source)?)
}
