//! Reads dumps of PyTorch: each that cannot be read is named, and the others answer.

use std::path::{Path, PathBuf};

use cli::{InputArgs, VerbosityArgs};
use torch_dumps::Dump;

/// The dumps of a command line.
pub(crate) struct Dumps<T> {
    /// Those of the wanted kind, with the place of each among the paths.
    pub(crate) read: Vec<(usize, T)>,
    /// Places of those that could not be read.
    pub(crate) failed: Vec<usize>,
    /// Error to end with once the results are written.
    pub(crate) error: Option<anyhow::Error>,
}

/// Reads dumps, and keeps those that `wanted` takes; it returns an error sentence for a dump of the other kind.
///
/// # Errors
///
/// Returns the error of the only dump, and an error if none of the wanted kind can be read.
pub(crate) fn read<T>(
    paths: &[PathBuf],
    input: &InputArgs,
    verbosity: VerbosityArgs,
    wanted: impl Fn(&Path, Dump) -> anyhow::Result<Result<T, String>>,
) -> anyhow::Result<Dumps<T>> {
    let mut dumps = Dumps {
        read: Vec::new(),
        failed: Vec::new(),
        error: None,
    };
    let mut others: Vec<String> = Vec::new();
    let mut last: Option<(usize, anyhow::Error)> = None;
    for (at, path) in paths.iter().enumerate() {
        let read = trace_input::read_dump(path, input);
        match read.and_then(|dump| wanted(path, dump)) {
            Ok(Ok(dump)) => dumps.read.push((at, dump)),
            Ok(Err(other)) => others.push(other),
            Err(error) if paths.len() == 1 => return Err(error),
            Err(error) => {
                cli::complain(&error);
                dumps.failed.push(at);
                last = Some((at, error));
            }
        }
    }
    if let Some((at, error)) = &last {
        let path = paths.get(*at).map(|path| path.display().to_string());
        let text = format!(
            "{} of {} dumps could not be read, the last one was {}",
            dumps.failed.len(),
            paths.len(),
            path.unwrap_or_default()
        );
        dumps.error = Some(cli::follows(text, error));
    }
    match (dumps.read.is_empty(), others.first(), dumps.error.take()) {
        (true, Some(other), None) => return Err(cli::usage(other.clone())),
        (true, _, Some(error)) => return Err(error),
        (_, _, error) => dumps.error = error,
    }
    for other in others {
        verbosity.note(format!("note: left out: {other}"));
    }
    Ok(dumps)
}
