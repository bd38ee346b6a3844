//! Builds a sealed [`Trace`] from events in any order.

mod attached;
pub(crate) mod batch;
mod binder;
mod fallback;
mod flow_ends;
pub(crate) mod nest;
pub(crate) mod order;
pub(crate) mod seal;

use thiserror::Error;

use crate::builder::batch::{EventBatch, LaneTracks};
use crate::diagnostics::Diagnostics;
use crate::ids::{LaneId, ProcessId, StrId, ThreadId, TrackId};
use crate::meta::Metadata;
use crate::table::track::{Process, Thread, Track};
use crate::trace::Trace;

/// Order of events at equal times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EventOrder {
    /// File order (protobuf traces).
    #[default]
    File,
    /// Ends of phase `E`, then complete events from long to short, then all others, each in file
    /// order (Chrome JSON).
    Chrome,
}

/// Policy for a complete slice that starts inside another one of its track and ends after it.
/// Durations are never cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OverlapPolicy {
    /// Move it to the first overflow track of its track where it nests, else to a new one.
    #[default]
    Spill,
    /// Drop and count it, as older analyzers did.
    Drop,
}

/// Policy that selects the slice to which a flow event binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FlowBinding {
    /// A slice of the lane, overflow tracks included, that starts exactly then; else the slice on
    /// top of the lane's stack.
    #[default]
    Exact,
    /// The slice on top of the stack of the lane's own track.
    TopOfStack,
    /// A slice of the lane, overflow tracks included, that starts exactly then; else none, without
    /// counting an issue. For traces of which only some slices are kept.
    ExactOnly,
}

/// Policies of [`TraceBuilder::finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FinishOptions {
    /// Order of events at equal times. Default is [`EventOrder::File`].
    pub order: EventOrder,
    /// Policy for overlapping slices. Default is [`OverlapPolicy::Spill`].
    pub overlap: OverlapPolicy,
    /// Policy for flow events. Default is [`FlowBinding::Exact`].
    pub binding: FlowBinding,
    /// Maximum partial overlap of two calls or ranges of one host thread that counts as clock
    /// imprecision, in nanoseconds: the later one is treated as inside the other, or as after it,
    /// whichever needs the smaller change. Durations are unchanged. Default is 0.
    pub snap_ns: i64,
    /// `true` if, when a slice ends below unclosed ones, every slice above it gets its end, as in the
    /// reference's tables: complete slices too, and with a negative duration if necessary. Default
    /// is `false`: only unclosed slices are cut, to no less than 0.
    pub cut_all: bool,
    /// `true` if an argument of an end replaces the one of the same key that its slice has, instead
    /// of following it. Default is `false`.
    pub end_args_replace: bool,
    /// `true` to treat CPU time that did not change between begin and end as unknown, as in the
    /// reference's tables of protobuf traces. Default is `false`: it is 0.
    pub no_zero_thread_dur: bool,
    /// `true` to count CPU times on thread tracks only, as in the reference's tables. Default is
    /// `false`.
    pub thread_time_of_threads: bool,
    /// `true` to keep events and samples before time zero. Default is `false`: they are counted and
    /// dropped, as in Perfetto's trace processor.
    pub keep_negative: bool,
    /// `true` to keep outlines ([`EventBatch::outline`]) for [`Trace::excerpts`]. Default is `false`: they are counted.
    pub keep_outlines: bool,
    /// `true` to make an outline a slice like others if the innermost slice of the categories of outlines around it is one that is
    /// kept: of what a reader keeps, everything inside is known. Default is `false`.
    pub whole_within_kept: bool,
}

/// Error of building a trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The trace has more events than the store can number.
    #[error(
        "the trace has {dropped} events more than the {limit} that fit in one store; select a time range or categories when reading"
    )]
    TooManyEvents {
        /// Number of events over the limit.
        dropped: u64,
        /// Maximum number of each kind.
        limit: usize,
    },
}

/// Collects processes, threads, tracks and events in any order; [`TraceBuilder::finish`] sorts,
/// nests and binds them.
///
/// ```
/// use trace_model::{EventBatch, FinishOptions, Process, Pid, Thread, Tid, Track, TrackKind, TraceBuilder};
/// use trace_model::{SliceData, CategoryId, ArgsRef};
///
/// let mut b = TraceBuilder::new();
/// let process = b.process(Process::new(Pid(10)));
/// let thread = b.thread(Thread::new(Tid(11), Some(process)));
/// let track = b.track(Track { thread: Some(thread), process: Some(process), ..Track::new(TrackKind::Thread) });
/// let lane = b.lane(Some(track));
///
/// let name = b.events.strings.intern("aten::mm");
/// let data = SliceData { name: Some(name), category: CategoryId::NONE, args: ArgsRef::NONE };
/// b.events.complete(lane, 1_000, 50, data);
/// b.events.complete(lane, 1_010, 20, data);
///
/// let trace = b.finish(&FinishOptions::default())?;
/// let inner = trace.slices().last().unwrap();
/// assert_eq!((inner.depth(), inner.name()), (1, Some("aten::mm")));
/// # Ok::<(), trace_model::BuildError>(())
/// ```
#[derive(Debug, Default)]
pub struct TraceBuilder {
    /// The events so far.
    pub events: EventBatch,
    /// Metadata of the file.
    pub meta: Metadata,
    /// Issues found so far.
    pub diagnostics: Diagnostics,
    pub(crate) processes: Vec<Process>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) tracks: Vec<Track>,
    pub(crate) lanes: LaneTracks,
}

impl TraceBuilder {
    /// Creates an empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a process.
    ///
    /// # Panics
    ///
    /// Panics past 2^32 processes, as do the other methods that add rows to small tables.
    pub fn process(&mut self, process: Process) -> ProcessId {
        self.processes.push(process);
        ProcessId::new(self.processes.len() - 1).expect("fewer than 2^32 processes")
    }

    /// Adds a thread.
    pub fn thread(&mut self, thread: Thread) -> ThreadId {
        self.threads.push(thread);
        ThreadId::new(self.threads.len() - 1).expect("fewer than 2^32 threads")
    }

    /// Adds a track.
    pub fn track(&mut self, track: Track) -> TrackId {
        self.tracks.push(track);
        TrackId::new(self.tracks.len() - 1).expect("fewer than 2^32 tracks")
    }

    /// Adds a lane. Its track may be set now or by [`TraceBuilder::set_lane`] before the end.
    /// Events on lanes without a track are dropped and counted.
    pub fn lane(&mut self, track: Option<TrackId>) -> LaneId {
        self.lanes.push(track);
        LaneId::new(self.lanes.len() - 1).expect("fewer than 2^32 lanes")
    }

    /// Sets the track of `lane`.
    pub fn set_lane(&mut self, lane: LaneId, track: Option<TrackId>) {
        if let Some(slot) = self.lanes.get_mut(lane.index()) {
            *slot = track;
        }
    }

    /// Returns the processes so far, to complete names that come late.
    pub fn processes_mut(&mut self) -> &mut [Process] {
        &mut self.processes
    }

    /// Returns the threads so far, to complete names that come late.
    pub fn threads_mut(&mut self) -> &mut [Thread] {
        &mut self.threads
    }

    /// Returns the tracks so far, to complete names that come late.
    pub fn tracks_mut(&mut self) -> &mut [Track] {
        &mut self.tracks
    }

    /// Interns a name for a process, thread or track.
    pub fn string(&mut self, text: &str) -> StrId {
        self.events.strings.intern(text)
    }

    /// Sorts and nests events, binds flows and seals the trace.
    ///
    /// Events are processed in ascending time, at equal times in the order of [`EventOrder`]. A
    /// slice's id is its index in that order, so parents come before their children. Cost: one sort
    /// of 8-byte keys and one pass; raw columns are freed as the sealed ones are built.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError::TooManyEvents`] if events were refused for lack of room.
    pub fn finish(self, options: &FinishOptions) -> Result<Trace, BuildError> {
        seal::seal(self, options)
    }
}
