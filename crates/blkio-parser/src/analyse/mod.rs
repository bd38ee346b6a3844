//! The analyses: each sees every event once, in order, and holds results rather than events.

pub mod access;
mod access_deltas;
pub mod bursts;
pub mod by_cpu;
pub mod by_pid;
pub mod composition;
mod depth;
pub mod detail;
pub mod devices;
pub mod distribution;
pub mod duplicates;
pub mod heat;
pub mod intervals;
pub mod latency_bins;
mod marks;
pub mod nesting;
mod outstanding;
pub mod pairing;
pub mod pairs;
mod queued;
mod ranges;
mod requeued;
pub mod reuse;
pub mod runs;
pub mod samples;
pub mod sequential;
pub mod spread;
pub mod stages;
mod strides;
mod superseded;
pub mod timeline;
pub mod traffic;
pub mod user_phases;
pub mod working_set;

pub use depth::{Depth, DepthBin, DepthBins, GRID_NS, Level};
use runs::Batch;

/// One analysis of a trace.
pub trait Analyser: Send {
    /// Takes the next events, which come in the order of (time, issue before completion, input): one by one, or their issues
    /// as runs.
    fn observe(&mut self, batch: &Batch);
}
