//! Which files there are, and what their names say.

use std::path::{Path, PathBuf};

use super::Note;
use crate::error::{Error, Result};

const END: &str = "_perf_data.csv";
const SUFFIXES: [&str; 3] = ["_prefill", "_decode", "_layer"];

/// The name without folders and compression suffixes.
pub(crate) fn plain_name(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy());
    byte_source::logical_name(name.as_deref().unwrap_or_default()).to_owned()
}

/// Whether a file is perf data by its name.
pub(crate) fn is_perf_data(path: &Path) -> bool {
    plain_name(path).ends_with(END)
}

/// Job and suffix of a file name: `result_decode_perf_data.csv` is `result`, `_decode`.
pub(crate) fn job_and_suffix(path: &Path) -> Option<(String, String)> {
    let name = plain_name(path);
    let stem = name.strip_suffix(END)?;
    let mut job = stem;
    while let Some(shorter) = SUFFIXES.iter().find_map(|end| job.strip_suffix(end)) {
        job = shorter;
    }
    Some((job.to_owned(), stem[job.len()..].to_owned()))
}

/// Job and phase of a file name, with phases that the reference does not have: `result_mixed_perf_data.csv` is `result`, `mixed`.
pub(crate) fn job_and_phase(path: &Path) -> Option<(String, String)> {
    let (job, suffix) = job_and_suffix(path)?;
    let own = ["_mixed", "_unknown"]
        .iter()
        .find(|end| job.ends_with(**end));
    let (job, phase) = match own {
        Some(end) if suffix.is_empty() => job.split_at(job.len() - end.len()),
        _ => (job.as_str(), suffix.as_str()),
    };
    Some((job.to_owned(), phase.trim_start_matches('_').to_owned()))
}

/// All perf-data files, sorted by path; of a plain and a compressed copy side by side only the plain one.
pub(super) fn files(inputs: &[PathBuf], notes: &mut Vec<Note>) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for input in inputs {
        if input.is_dir() {
            match byte_source::expand_inputs([input], is_perf_data) {
                Ok(files) => found.extend(files),
                Err(byte_source::Error::NoInputs { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        } else if input.is_file() && is_perf_data(input) {
            found.push(input.clone());
        } else {
            notes.push(Note::Unsuitable {
                input: input.clone(),
            });
        }
    }
    found.sort_by_key(|path| (path.with_file_name(plain_name(path)), path.clone()));
    found.dedup_by_key(|path| path.with_file_name(plain_name(path)));
    if found.is_empty() {
        return Err(Error::NoPerfData {
            inputs: inputs.to_vec(),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let split = |name: &str| job_and_suffix(Path::new(name)).unwrap();
        let is = |job: &str, suffix: &str| (job.to_owned(), suffix.to_owned());
        assert_eq!(split("a/result_perf_data.csv.xz"), is("result", ""));
        assert_eq!(
            split("result_decode_perf_data.csv"),
            is("result", "_decode")
        );
        assert_eq!(
            split("r_layer_prefill_perf_data.csv"),
            is("r", "_layer_prefill")
        );
        assert!(is_perf_data(Path::new("x_perf_data.csv.gz")));
        assert!(!is_perf_data(Path::new("x_counters_data.csv")));
    }
}
