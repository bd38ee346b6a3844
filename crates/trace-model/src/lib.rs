//! Timelines of LLM inference in memory: vocabulary (time, units, ids), a sealed columnar
//! store of slices, flows, counters and arguments, and read-only traversals of it.
//!
//! A reader fills a [`TraceBuilder`] with events in any order; [`TraceBuilder::finish`] sorts them,
//! nests the slices of each track, binds flows, and returns an immutable [`Trace`]. Times are
//! integer nanoseconds, rows are addressed by typed ids, strings are stored once, and a slice costs
//! 40 bytes plus 8 for each argument value.
//!
//! What this crate does not do: no files, no formats, no statistics, no rendering. Readers and
//! analyses depend on it and never on each other.

pub mod align;
mod builder;
pub mod callstack;
pub mod correlation;
mod diagnostics;
mod ids;
mod intern;
pub mod interval;
pub mod kernel;
mod lane_times;
mod meta;
mod outline;
pub mod parallel;
pub mod ranks;
#[cfg(feature = "serde")]
mod serialize;
pub mod step_name;
mod table;
mod time;
mod trace;
mod units;
mod waiting;

pub use builder::batch::{
    EndData, EndOrder, EventBatch, FlowPoint, FlowRole, FlowSpace, MAX_EVENTS, SliceData,
};
pub use builder::{
    BuildError, EventOrder, FinishOptions, FlowBinding, OverlapPolicy, TraceBuilder,
};
pub use diagnostics::{DEFAULT_PLACES, Diagnostics, Issue, IssueKind, Place, Severity};
pub use ids::{
    CorrelationId, DeviceId, FlowId, LaneId, MAX_ROWS, Pid, ProcessId, Rank, SliceId, StrId,
    StreamId, ThreadId, Tid, TrackId,
};
pub use intern::StringTable;
pub use lane_times::LaneTimes;
pub use meta::{Distributed, Limit, Metadata, ProcessGroup};
pub use outline::{OutlineGroup, Outlines};
pub use table::args::{Arg, ArgKind, ArgShapeId, ArgStore, ArgValue, ArgsRef, bare_key};
pub use table::counter::{CounterSample, CounterTable};
pub use table::flow::Flow;
pub use table::slice::CategoryId;
pub use table::track::{Process, Thread, Track, TrackKind, is_profiler_label};
pub use time::{ClockDomain, Nanos, TimeRange, Timestamp, is_plausible};
pub use trace::{ArgColumn, Slice, Trace};
pub use units::Unit;
pub use waiting::{Waiting, loads_data, takes_requests};
