//! Dumps of PyTorch among the paths of a command line: memory snapshots, and what the Flight Recorder kept.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use byte_source::remote::{exists, is_dir, is_file};
use byte_source::{OpenOptions, Source, expand_inputs, logical_name, member_names};
use cli::InputArgs;
use torch_dumps::Dump;

use crate::files::is_trace;

/// A file of the command line, or of a folder or archive in it.
struct Candidate {
    path: PathBuf,
    is_dump: bool,
    /// `true` if it is a trace, or was named itself, so that it cannot be left out.
    counts: bool,
}

impl Candidate {
    /// A file that was found in a folder or archive.
    fn inside(path: PathBuf) -> Self {
        Self {
            is_dump: is_dump(&path),
            counts: is_trace(&path),
            path,
        }
    }

    /// Returns its name without digits, which the dumps of the ranks of one job have in common.
    fn stem(&self) -> String {
        let name = self.path.to_string_lossy();
        let name = name.rsplit(['/', '\\', '!']).next().unwrap_or_default();
        let is_letter = |c: &char| !c.is_ascii_digit();
        logical_name(name).chars().filter(is_letter).collect()
    }
}

/// Returns the paths of dumps if all of `given` are dumps, or folders or archives of dumps; `None` if none is. Files are
/// recognised by their first bytes: the Flight Recorder's files have no ending. A file that is named as a dump but for its
/// number is one too, so that its reader says what is wrong with it: a pointer of Git LFS, an empty file.
///
/// # Errors
///
/// Returns an error if there are both dumps and traces: an analysis reads either.
pub fn dumps(given: &[PathBuf]) -> anyhow::Result<Option<Vec<PathBuf>>> {
    let mut all: Vec<Candidate> = Vec::new();
    let mut trace: Option<PathBuf> = None;
    for path in given {
        let is_pattern = path.to_string_lossy().contains(['*', '?']) && !exists(path);
        let members = members(path);
        let several = is_dir(path) || is_pattern || members.len() > 1;
        let inside: Vec<Candidate> = match several {
            // Folders that cannot be listed are left to the reader of traces, which reports the reason.
            true if members.is_empty() => {
                let files = expand_inputs([path], |_| true).unwrap_or_default();
                files.into_iter().map(Candidate::inside).collect()
            }
            true => members.into_iter().map(Candidate::inside).collect(),
            false => vec![Candidate {
                path: path.clone(),
                is_dump: is_dump(path),
                counts: true,
            }],
        };
        if several && !inside.iter().any(|file| file.is_dump) {
            trace = trace.or_else(|| Some(path.clone()));
            continue;
        }
        all.extend(inside);
    }
    let dumps = all.iter().filter(|file| file.is_dump);
    let stems: BTreeSet<String> = dumps.map(Candidate::stem).collect();
    let mut found = Vec::new();
    for file in all {
        if file.is_dump || stems.contains(&file.stem()) {
            found.push(file.path);
        } else if file.counts {
            trace = trace.or(Some(file.path));
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

/// Returns the members of an archive of several files.
fn members(path: &Path) -> Vec<PathBuf> {
    if !is_file(path) {
        return Vec::new();
    }
    let listed = member_names(path, &OpenOptions::default());
    let (names, _) = listed.unwrap_or_default();
    match names.len() {
        0 | 1 => Vec::new(),
        _ => names.into_iter().map(PathBuf::from).collect(),
    }
}

/// Returns `true` if a file begins as a dump.
fn is_dump(path: &Path) -> bool {
    let source = match path.as_os_str() == "-" {
        true => stdin_head().and_then(|head| Source::from_bytes("stdin", head).ok()),
        // A member of an archive is no file.
        false if is_dir(path) => None,
        false => Source::open(path, &OpenOptions::default()).ok(),
    };
    let Some(mut source) = source else {
        return false;
    };
    let head = source.head(torch_dumps::HEAD);
    head.is_ok_and(|head| torch_dumps::kind_of(head).is_some())
}

/// Returns what standard input begins with. Nothing is consumed: the bytes stay in the buffer that all readers share.
fn stdin_head() -> Option<Vec<u8>> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return None;
    }
    let mut stdin = stdin.lock();
    stdin.fill_buf().ok().map(<[u8]>::to_vec)
}

/// Reads a dump.
///
/// # Errors
///
/// Same as [`torch_dumps::read`]; the errors name the file. What is no dump at all is named as in a reader of traces.
pub fn read_dump(path: &Path, input: &InputArgs) -> anyhow::Result<Dump> {
    let mut source = Source::open(path, &input.open_options(None))?;
    if torch_dumps::kind_of(source.head(torch_dumps::HEAD)?).is_none() {
        perfetto_reader::sniff(&mut source)?;
    }
    Ok(torch_dumps::read(source)?)
}
