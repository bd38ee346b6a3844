//! The time of each step of an engine, the path that makes it as long as it is, and what a change would gain.
//!
//! * [`Part`]: what is kept of one recording (operations, calls, host time, what waited for what), so that the trace can be
//!   dropped; [`marks()`] finds the steps that an engine marks;
//! * [`Graph`]: the recordings of all ranks as one graph, joined by their collectives, with the [`Step`]s of each rank;
//! * [`Graph::path`]: the [`Segment`]s of a step from its begin to its end, without gap or overlap; [`Graph::summary`]: the
//!   same by class and group, with the verdict;
//! * [`Graph::replay`]: all times under a [`Change`]; [`Graph::ops`]: the slack of each operation;
//! * [`analyse`]: all of it as one [`Analysis`], with limits and opportunities.
//!
//! A step ends with its last work on the main stream and begins where the step before it ended, so step times of a rank add up
//! to the window. Each dependency has an [`Evidence`]: recorded, guessed by a stated rule, or fitting in time alone. A latency
//! costs what was recorded up to what is typical in the trace; the rest is residual, which no dependency explains. A replay
//! without a change therefore gives the recorded times exactly, and typical latencies alone are the model, whose error is the
//! uncertainty of every prediction.
//!
//! What this crate does not do: no files, no formats, no rendering; steps without marks are found elsewhere and passed in.
//!
//! ```
//! use critical_path::{Graph, Options, Part, PartOptions, analyse, marks};
//! use trace_model::kernel::{TraceIndex, Vocabulary};
//! use trace_model::{FinishOptions, TraceBuilder};
//!
//! let trace = TraceBuilder::new().finish(&FinishOptions::default())?;
//! let index = TraceIndex::new(&trace, Vocabulary::default());
//! let part = Part::new(&index, 0, &marks(&index, None), PartOptions::default());
//! let graph = Graph::new(vec![part], None);
//! let nothing = analyse(&graph, &Options::default()).unwrap_err();
//! assert!(nothing.to_string().starts_with("no step"));
//! # Ok::<(), trace_model::BuildError>(())
//! ```

mod analysis;
mod answer;
mod calls;
mod change;
mod class;
mod clocks;
mod effect;
mod exported;
mod graph;
mod guess;
mod lags;
mod marks;
mod names;
mod ops;
mod part;
mod path;
mod points;
mod prepared;
mod replay;
mod rows;
#[cfg(test)]
mod simulated;
mod slack;
mod steps;
mod straggler;
mod summary;
pub mod tables;
mod waits;

pub use analysis::{Error, Options, analyse, predictions, scaled, step_rows};
pub use answer::{bound_by, common_limit, doubts, lines, sentences, usual_steps, whole_steps};
pub use change::{Change, ChangeError, Target};
pub use class::{Class, EdgeKind, Evidence, Group, Lag, Limit};
pub use exported::path_trace;
pub use graph::Graph;
pub use lags::LagTime;
pub use marks::{marks, marks_by_process};
pub use part::{Part, PartOptions};
pub use path::{Groups, Segment};
pub use replay::{Replay, Window};
pub use rows::{
    Analysis, LimitRow, Opportunity, PathRow, Place, Prediction, RecordingRow, ReplayError,
    SegmentRow, StepPrediction, StepRow, Steps, Straggler, WindowRow,
};
pub use slack::Op;
pub use steps::{Flag, Mark, Step};
pub use summary::Summary;

/// The keys of arguments, without prefix, that [`Part::new`] reads. A reader may leave out all others.
pub const ARG_KEYS: &[&str] = &trace_model::kernel::with_index_keys::<4, 14>([
    "Input Dims",
    "cuda_sync_kind",
    "wait_on_stream",
    "wait_on_cuda_event_record_corr_id",
]);
