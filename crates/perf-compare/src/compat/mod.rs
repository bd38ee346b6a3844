//! The published comparison, number for number.
//!
//! Shares of the cycle (β) and coincident counters (μ) per function, metric and device, with the published scores,
//! tests, file names and columns. It is there to reproduce published results; the default mode is what to decide by.
//!
//! Phase 1 compares each `normal_perf_data` folder with its `abnormal_perf_data` neighbour; phase 2 clusters the
//! processes that no pair has used. Results equal the published ones to the last printed digit. Where the published
//! program crashes there is a [`Note`] instead and the rest is done: processes without a host name in phase 2, and case
//! folders outside the folder of the first input.

mod discover;
mod explore;
mod markdown;
mod measure;
mod pairs;
mod rows;

pub(crate) use discover::{is_perf_data, job_and_phase, plain_name};

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use byte_source::OpenOptions;
use byte_source::output::AtomicFile;

use crate::error::{Error, Result};

/// Settings of the published comparison.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Roles whose largest score is below this are one cluster; 5 unless set.
    pub similarity_threshold: f64,
    /// A note is made of clusters that differ by more than this; 50 unless set.
    pub warning_threshold: f64,
    /// Whether the similarity threshold may be raised at a large gap between the scores.
    pub fit_threshold: bool,
    /// How files are opened.
    pub open: OpenOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            similarity_threshold: 5.0,
            warning_threshold: 50.0,
            fit_threshold: true,
            open: OpenOptions::default(),
        }
    }
}

/// Something that was left out, or that should be known.
#[derive(Debug)]
#[non_exhaustive]
pub enum Note {
    /// An input that holds no perf data.
    Unsuitable {
        /// The input.
        input: PathBuf,
    },
    /// A normal file has no abnormal partner.
    NoPartner {
        /// The normal file.
        file: PathBuf,
    },
    /// A file without rows.
    NoRows {
        /// The file.
        file: PathBuf,
    },
    /// A pair that could not be compared.
    Failed {
        /// The normal file.
        file: PathBuf,
        /// Why.
        error: Error,
    },
    /// Roles of phase 2 without a host name: rows are chosen by host name, so there is nothing to compare.
    NoHost {
        /// Their number.
        roles: usize,
        /// A file they are in.
        file: PathBuf,
    },
    /// Two clusters that differ much.
    Different {
        /// The baseline role.
        one: String,
        /// The other role.
        two: String,
        /// Largest score.
        score: f64,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsuitable { input } => write!(
                f,
                "{}: skipped: neither a folder nor a file named *_perf_data.csv",
                input.display()
            ),
            Self::NoPartner { file } => {
                write!(f, "{}: no partner in abnormal_perf_data", file.display())
            }
            Self::NoRows { file } => write!(f, "{}: no rows, pair skipped", file.display()),
            Self::Failed { file, error } => {
                write!(f, "pair of {} failed: {error}", file.display())
            }
            Self::NoHost { roles, file } => write!(
                f,
                "{roles} processes without a host name cannot be explored (first in {}): fill the hostname column",
                file.display()
            ),
            Self::Different { one, two, score } => {
                write!(f, "{one} and {two} differ much: largest score {score:.2}")
            }
        }
    }
}

/// What was done.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// The files written, in order.
    pub written: Vec<PathBuf>,
    /// Pairs of processes compared.
    pub pairs: usize,
    /// What was left out or is remarkable.
    pub notes: Vec<Note>,
}

/// Compares all pairs below `inputs` and writes the results into `folder`, which is made if need be.
///
/// Cost: each file is read once or twice; memory is that of one pair of tables.
///
/// # Errors
///
/// [`Error::NoPerfData`] if nothing was found, [`Error::OutsideBase`] and errors of a single file only when no pair at all
/// could be written, and anything that keeps a result from being written.
pub fn run(inputs: &[PathBuf], folder: &Path, options: &Options) -> Result<Summary> {
    let mut summary = Summary::default();
    let files = discover::files(inputs, &mut summary.notes)?;
    std::fs::create_dir_all(folder).map_err(|source| Error::Io {
        path: folder.to_owned(),
        step: "create the folder",
        source,
    })?;
    let mut sink = Sink {
        folder,
        summary: &mut summary,
    };
    let used = pairs::run(inputs, &files, options, &mut sink)?;
    explore::run(&files, &used, options, &mut sink)?;
    if summary.written.is_empty() {
        // Nothing else to show for it: the first failure is the result.
        let failed = summary
            .notes
            .iter()
            .position(|note| matches!(note, Note::Failed { .. }));
        if let Some(at) = failed
            && let Note::Failed { error, .. } = summary.notes.swap_remove(at)
        {
            return Err(error);
        }
    }
    Ok(summary)
}

/// Where results go.
struct Sink<'a> {
    folder: &'a Path,
    summary: &'a mut Summary,
}

impl Sink<'_> {
    fn note(&mut self, note: Note) {
        self.summary.notes.push(note);
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        let mut file = AtomicFile::create(&path)?;
        file.write_all(bytes).map_err(|source| Error::Io {
            path: path.clone(),
            step: "write",
            source,
        })?;
        file.commit()?;
        self.summary.written.push(path);
        Ok(())
    }
}
