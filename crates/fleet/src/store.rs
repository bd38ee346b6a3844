//! Summaries of many recordings in one folder: each made once, several at a time, whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use trace_dataset::{
    Elsewhere, Error, Input, Job, Made, Maker, Manifest, Report, Target, make, make_elsewhere,
};
use trace_model::Trace;
use trace_model::kernel::KernelRules;

use crate::reduce::Failure;
use crate::summary::{self, RankSummary};

/// Table of the summaries in the manifest.
const TABLE: &str = "summary";

/// Reads the recordings.
pub trait Recordings: Sync {
    /// Reads a recording by its place among the inputs, with the arguments of [`summary::arg_keys`]. Returns its name and the trace.
    ///
    /// # Errors
    ///
    /// Returns one sentence that names the reason.
    fn open(&self, place: usize) -> Result<(String, Trace), String>;
}

/// Where summaries are.
#[derive(Clone, Copy, Debug)]
pub struct Store<'s> {
    /// Folder of the summaries.
    pub folder: &'s Path,
    /// Version of the tool, for the manifest.
    pub tool_version: &'s str,
    /// Rules of the user for kernels, which [`Recordings`] applies; `None` without any.
    pub rules: Option<&'s KernelRules>,
    /// Number of recordings that are read at once.
    pub threads: usize,
}

/// Summarizes recordings. Those that are there with the same content are skipped; one that cannot be read is a failure of the report and
/// of later calls of [`stored`]. At most [`Store::threads`] recordings are in memory.
///
/// # Errors
///
/// Returns an error if the folder cannot be written or holds something else.
pub fn summarise_all(
    inputs: &[Input],
    recordings: &dyn Recordings,
    store: Store<'_>,
) -> Result<Report, Error> {
    make(inputs, &Summaries(recordings), &store.target())
}

/// Summarizes recordings by other processes, with [`summary_maker`]. The summaries are those of [`summarise_all`].
///
/// # Errors
///
/// Same as [`summarise_all`], and an error if the other processes cannot work.
pub fn summarise_all_elsewhere(
    inputs: &[Input],
    elsewhere: &dyn Elsewhere,
    store: Store<'_>,
) -> Result<Report, Error> {
    make_elsewhere(inputs, elsewhere, &store.target())
}

/// Returns what makes the summaries of recordings.
pub fn summary_maker(recordings: impl Recordings) -> impl Maker {
    Summaries(recordings)
}

impl<'s> Store<'s> {
    fn target(self) -> Target<'s> {
        Target {
            folder: self.folder,
            schema_version: summary::VERSION.to_owned(),
            tool_version: self.tool_version,
            tables: vec![TABLE.to_owned()],
            rules: self.rules,
            threads: self.threads,
        }
    }
}

struct Summaries<R>(R);

impl<R: Recordings + ?Sized> Recordings for &R {
    fn open(&self, place: usize) -> Result<(String, Trace), String> {
        (**self).open(place)
    }
}

impl<R: Recordings> Maker for Summaries<R> {
    fn make(&self, job: &Job<'_>) -> Result<Result<Vec<Made>, String>, Error> {
        let (name, trace) = match self.0.open(job.place) {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        if trace.is_empty() {
            return Ok(Err(format!("{name}: the file holds no events")));
        }
        let summary = summary::summarise(&name, &trace);
        drop(trace);
        let path = job.aside.join(TABLE);
        let error = |source| Error::Io {
            step: "write",
            path: path.clone(),
            source,
        };
        let bytes = summary::write(&summary).map_err(error)?;
        fs::write(&path, bytes).map_err(error)?;
        Ok(Ok(vec![Made {
            table: TABLE.to_owned(),
            path: format!("ranks/part-{:06}.json.gz", job.file_id),
            rows: 1,
        }]))
    }
}

/// What a folder of summaries holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Recording and path of each summary, in the order in which the recordings were given first.
    pub summaries: Vec<(String, PathBuf)>,
    /// Recordings that could not be read.
    pub failures: Vec<Failure>,
}

/// Lists the summaries in a folder.
///
/// # Errors
///
/// Returns an error if the folder holds something else, or summaries of another version.
pub fn stored(folder: &Path) -> Result<Stored, Error> {
    let mut out = Stored::default();
    let Some(manifest) = Manifest::read_version(folder, summary::VERSION)? else {
        return Ok(out);
    };
    for input in manifest.inputs {
        if let Some(error) = input.error {
            out.failures.push(Failure::new(&input.file, &error));
        }
        let parts = input.done.into_iter().flat_map(|done| done.parts);
        let paths = parts.map(|part| (input.file.clone(), folder.join(part.path)));
        out.summaries.extend(paths);
    }
    Ok(out)
}

/// Reads a summary; a damaged one is a failure of its recording.
///
/// # Errors
///
/// Returns the recording with one sentence that names the reason.
pub fn read(file: &str, path: &Path) -> Result<RankSummary, Failure> {
    let failed = |reason: String| Failure::new(file, &reason);
    let bytes = fs::read(path).map_err(|error| failed(format!("{}: {error}", path.display())))?;
    let name = path.display().to_string();
    summary::read(&name, bytes).map_err(|error| {
        let source = std::error::Error::source(&error);
        let why = source.map_or_else(String::new, |source| format!(": {source}"));
        failed(format!(
            "{error}{why}: delete {name} and repeat the command"
        ))
    })
}
