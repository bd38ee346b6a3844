//! Errors of making answers.

use trace_model::ranks::NotOneJob;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No step has one of the chosen numbers or names.
    #[error("none of the {all} steps{} is chosen; their numbers begin with 0", of(.side))]
    NoStepChosen {
        /// Number of steps.
        all: usize,
        /// Side of a comparison.
        side: Option<&'static str>,
    },
    /// No slice has the name and number that choose a window.
    #[error("no slice number {index} is named `{pattern}`: there are {count}")]
    NoSuchSlice {
        /// Number of the slice, from 0.
        index: usize,
        /// Pattern of its name.
        pattern: String,
        /// Number of slices with such a name.
        count: usize,
    },
    /// The window is not one of this recording.
    #[error(transparent)]
    Window(gpu_time::Error),
    /// The answer has no table of this name.
    #[error("no such table: there are {available}")]
    NoTable {
        /// Tables that there are.
        available: &'static str,
    },
    /// A side of a comparison holds no GPU activity.
    #[error("cannot compare: {why}")]
    NothingToCompare {
        /// The reason of each side.
        why: String,
    },
    /// Steps were asked for, and the sides have none in common.
    #[error("{why}: steps cannot be compared")]
    NoCommonSteps {
        /// Reason.
        why: String,
    },
    /// The recordings are not those of the ranks of one job.
    #[error(transparent)]
    NotOneJob(#[from] NotOneJob),
    /// There is no critical path.
    #[error(transparent)]
    CriticalPath(#[from] critical_path::Error),
    /// There are no limits.
    #[error(transparent)]
    Roofline(#[from] roofline::Error),
    /// The device is not known.
    #[error("no device {key:?}")]
    NoSuchDevice {
        /// Key that was given.
        key: String,
    },
    /// The answer about a dump cannot be made.
    #[error(transparent)]
    Dump(#[from] torch_dumps::Error),
    /// A table or a document cannot be made.
    #[error(transparent)]
    Table(#[from] report::Error),
}

fn of(side: &Option<&'static str>) -> String {
    side.map_or(String::new(), |side| format!(" of {side}"))
}
