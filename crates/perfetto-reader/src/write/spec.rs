//! What callers tell the writer: options, tracks, counters, events.

use trace_model::{ArgValue, ClockDomain};

/// A track that was declared to a [`TraceWriter`](crate::write::TraceWriter).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterTrack(pub(super) u32);

/// What hangs a new track where.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TrackSpec<'a> {
    /// Name; without one viewers show that of the first event.
    pub name: Option<&'a str>,
    /// The thread, process or other track it hangs under.
    pub parent: Option<WriterTrack>,
    /// Id to give it, unless another track has it. By default one is made up.
    pub uuid: Option<u64>,
    /// Never fold it with siblings of the same name.
    pub unmerged: bool,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterUnit<'a> {
    /// Not said.
    #[default]
    None,
    /// Nanoseconds.
    Nanos,
    /// How many.
    Count,
    /// Bytes.
    Bytes,
    /// Anything else, for example `W`.
    Named(&'a str),
}

/// What an event says besides time and track.
#[derive(Clone, Debug, Default)]
pub struct EventData<'a> {
    /// Name.
    pub name: Option<&'a str>,
    /// Category; several are separated by commas.
    pub category: Option<&'a str>,
    /// Arguments: keys without prefix, in which `.` and `[n]` nest (`grid[0]`).
    pub args: &'a [(&'a str, ArgValue<'a>)],
    /// Flows through this event: an arrow from the event before with the same id.
    pub flows: &'a [u64],
    /// Flows that end here, so that the id can be used again.
    pub terminating_flows: &'a [u64],
}

/// What to write about the trace as a whole.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WriterOptions {
    /// What the timestamps count. Custom and unknown clocks are written as boot time.
    pub clock: ClockDomain,
    /// Add to a timestamp to get Unix time in nanoseconds, if known.
    pub unix_offset_ns: Option<i64>,
    /// Mixed into the ids of tracks, so that files can be concatenated. Default is 0.
    pub uuid_seed: u64,
}

impl WriterOptions {
    /// Timestamps of this clock, and what to add to get Unix time.
    pub fn new(clock: ClockDomain, unix_offset_ns: Option<i64>) -> Self {
        Self {
            clock,
            unix_offset_ns,
            uuid_seed: 0,
        }
    }
}
