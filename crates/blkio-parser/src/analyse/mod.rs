//! The analyses: each sees every event once, in order, and holds results rather than events.

pub mod access;
mod borders;
pub mod bursts;
pub mod by_cpu;
pub mod by_pid;
pub mod composition;
mod depth;
pub mod detail;
pub mod devices;
pub mod distribution;
pub mod duplicates;
pub mod given;
pub mod heat;
pub mod intervals;
pub mod latency_bins;
mod marks;
pub mod nesting;
mod numbers;
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
pub mod timeline;
pub mod traffic;
pub mod working_set;

pub use depth::{Depth, DepthBin, DepthBins, GRID_NS, Level};
use runs::Batch;

use crate::event::Event;

/// What an analysis is to the pipeline.
pub trait Analyser: Send {
    /// Takes the next event. Events come in the order of (time, issue before completion, input).
    fn observe(&mut self, event: &Event);

    /// Takes several events.
    fn observe_all(&mut self, events: &[Event]) {
        for event in events {
            self.observe(event);
        }
    }

    /// Takes the next batch: its events, or what comes to the same, its runs.
    fn observe_batch(&mut self, batch: &Batch) {
        self.observe_all(&batch.events);
    }
}
