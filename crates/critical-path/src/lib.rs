//! Step times, their critical path, and what a change would gain.
mod analysis;
mod calls;
mod change;
mod class;
mod effect;
mod graph;
mod guess;
mod lags;
mod marks;
mod names;
mod ops;
mod part;
mod path;
mod points;
mod replay;
#[cfg(test)]
mod simulated;
mod slack;
mod steps;
mod summary;
mod waits;

pub use analysis::{
    Analysis, Error, LimitRow, Opportunity, Options, PathRow, Place, Prediction, RecordingRow,
    ReplayError, SegmentRow, StepPrediction, StepRow, WindowRow, analyse,
};
pub use change::{Change, ChangeError, Target};
pub use class::{Class, EdgeKind, Evidence, Group, Lag, Limit};
pub use graph::Graph;
pub use lags::LagTime;
pub use marks::marks;
pub use part::{Part, PartOptions};
pub use path::{Groups, Segment};
pub use replay::{Replay, Window};
pub use slack::Op;
pub use steps::{Flag, Mark, Step};
pub use summary::Summary;

/// The keys of arguments, without prefix, that [`Part::new`] reads. A reader may leave out all others.
pub const ARG_KEYS: &[&str] = &[
    "correlation",
    "corr_id",
    "correlation_id",
    "device",
    "agent",
    "src_agent",
    "dst_agent",
    "stream",
    "stream_id",
    "queue",
    "Input Dims",
    "cuda_sync_kind",
    "wait_on_stream",
    "wait_on_cuda_event_record_corr_id",
];
