//! Which files are meant.

use std::path::{Path, PathBuf};

use byte_source::{Error, expand_inputs, logical_name};

/// Ends of the names of traces, compression aside.
const ENDINGS: [&str; 6] = [
    ".json",
    ".pftrace",
    ".perfetto-trace",
    ".pb",
    ".trace",
    ".db",
];

/// Is this the name of a trace? Compression suffixes do not matter.
pub fn is_trace(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| {
            let name = logical_name(name).to_ascii_lowercase();
            ENDINGS.iter().any(|end| name.ends_with(end))
        })
}

/// What a trace is called in tables: its file's name without the ends that say how it is written.
///
/// ```
/// assert_eq!(trace_input::short_name("run/rank0.pt.trace.json.gz"), "rank0.pt.trace");
/// ```
pub fn short_name(name: &str) -> &str {
    let name = logical_name(name);
    let stem = |end: &&str| name.strip_suffix(end).filter(|stem| !stem.is_empty());
    ENDINGS.iter().find_map(stem).unwrap_or(name)
}

/// Files stay as they are, folders become the traces in them, and patterns what they match.
///
/// # Errors
///
/// A path without a file, a folder or pattern without traces, and what cannot be listed.
pub fn expand(given: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    expand_inputs(given, is_trace).map_err(|error| {
        let none = matches!(error, Error::NoInputs { .. });
        let error = anyhow::Error::new(error);
        if none {
            error.context(format!(
                "no traces there, whose names end in {}",
                ENDINGS.join(", ")
            ))
        } else {
            error
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_become_their_traces() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("host-a");
        std::fs::create_dir(&inner).unwrap();
        for name in ["a.json.zst", "b.pftrace", "notes.txt", "host-a/c.JSON.xz"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let found = expand(&[folder.path().to_owned()]).unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|path| path.strip_prefix(folder.path()).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["a.json.zst", "b.pftrace", "host-a/c.JSON.xz"]);

        let pattern = folder.path().join("*.txt");
        assert_eq!(expand(&[pattern]).unwrap().len(), 1);
        let empty = tempfile::tempdir().unwrap();
        let error = expand(&[empty.path().to_owned()]).unwrap_err();
        assert!(format!("{error:#}").contains(".pftrace"));
    }
}
