//! Inputs of the writer: options, tracks, counters, events.

use trace_model::{ArgValue, ClockDomain};

/// A track that was declared to a [`TraceWriter`](crate::write::TraceWriter).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterTrack(pub(super) u32);

/// Description of a new track.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TrackSpec<'a> {
    /// Name; without one, viewers show that of the first event.
    pub name: Option<&'a str>,
    /// Parent thread, process or track.
    pub parent: Option<WriterTrack>,
    /// Requested id, used unless another track has it. By default an id is generated.
    pub uuid: Option<u64>,
    /// `true` if viewers must not merge it with siblings of the same name.
    pub unmerged: bool,
}

/// Unit of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterUnit<'a> {
    /// Unspecified.
    #[default]
    None,
    /// Nanoseconds.
    Nanos,
    /// A plain number.
    Count,
    /// Bytes.
    Bytes,
    /// Any other unit, for example `W`.
    Named(&'a str),
}

/// Data of an event besides time and track.
#[derive(Clone, Debug, Default)]
pub struct EventData<'a> {
    /// Name.
    pub name: Option<&'a str>,
    /// Category; several are separated by commas.
    pub category: Option<&'a str>,
    /// Arguments: keys without prefix, in which `.` and `[n]` nest (`grid[0]`).
    pub args: &'a [(&'a str, ArgValue<'a>)],
    /// Flows through this event: an arrow from the previous event with the same id.
    pub flows: &'a [u64],
    /// Flows that end here, so that the id can be reused.
    pub terminating_flows: &'a [u64],
}

/// Properties of the trace as a whole.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WriterOptions {
    /// Clock of the timestamps. Custom and unknown clocks are written as boot time.
    pub clock: ClockDomain,
    /// Offset from a timestamp to Unix time in nanoseconds, if known.
    pub unix_offset_ns: Option<i64>,
    /// Mixed into the ids of tracks, so that files can be concatenated. Default is 0.
    pub uuid_seed: u64,
}

impl WriterOptions {
    /// Creates options for timestamps of this clock and their offset to Unix time in nanoseconds.
    pub fn new(clock: ClockDomain, unix_offset_ns: Option<i64>) -> Self {
        Self {
            clock,
            unix_offset_ns,
            uuid_seed: 0,
        }
    }
}
