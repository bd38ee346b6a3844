//! From events in any order to a sealed [`Trace`].

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

/// How events at one time follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EventOrder {
    /// As in the file (protobuf traces).
    #[default]
    File,
    /// Ends of phase `E`, then complete events from long to short, then the rest, each in file
    /// order (Chrome JSON).
    Chrome,
}

/// What happens to a complete slice that starts inside another one of its track and ends after it.
/// Durations are never cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OverlapPolicy {
    /// It goes to the first overflow track of its track where it nests, else to a new one.
    #[default]
    Spill,
    /// It is dropped and counted, as older analysers did.
    Drop,
}

/// Which slice a flow event binds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FlowBinding {
    /// A slice of the lane, overflow tracks included, that starts exactly then; else the slice on
    /// top of the lane's stack.
    #[default]
    Exact,
    /// Always the slice on top of the stack of the lane's own track.
    TopOfStack,
    /// A slice of the lane, overflow tracks included, that starts exactly then; else none, and
    /// nothing is counted. For traces of which only some slices are kept.
    ExactOnly,
}

/// Policies of [`TraceBuilder::finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FinishOptions {
    /// Order of events at equal times. Default is [`EventOrder::File`].
    pub order: EventOrder,
    /// Default is [`OverlapPolicy::Spill`].
    pub overlap: OverlapPolicy,
    /// Default is [`FlowBinding::Exact`].
    pub binding: FlowBinding,
    /// Largest partial overlap of two calls or ranges of one host thread that comes from imprecise clocks: the later one
    /// counts as inside the other, or as after it, whichever needs the smaller change. Durations stay. Default is 0.
    pub snap_ns: i64,
    /// When a slice ends below unclosed ones, every slice above it gets its end, as in the
    /// reference's tables: complete ones too, and with a negative duration if need be. Default is
    /// false: only unclosed slices are cut, to no less than 0.
    pub cut_all: bool,
    /// An argument of an end replaces the one of the same key that its slice has, instead of
    /// following it. Default is false.
    pub end_args_replace: bool,
    /// CPU time that did not move between begin and end counts as not known, as in the reference's
    /// tables of protobuf traces. Default is false: it is 0.
    pub no_zero_thread_dur: bool,
    /// CPU times count on tracks of threads only, as in the reference's tables. Default is false.
    pub thread_time_of_threads: bool,
    /// Keep events and samples before time zero. Default is false: they are counted and left out, as by Perfetto's trace processor.
    pub keep_negative: bool,
}

/// Why a trace could not be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// More events than the store can number.
    #[error(
        "the trace has {dropped} events more than the {limit} that fit in one store; select a time range or categories when reading"
    )]
    TooManyEvents {
        /// Events over the limit.
        dropped: u64,
        /// The limit of each kind.
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
    /// What the file says about itself.
    pub meta: Metadata,
    /// What was odd so far.
    pub diagnostics: Diagnostics,
    pub(crate) processes: Vec<Process>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) tracks: Vec<Track>,
    pub(crate) lanes: LaneTracks,
}

impl TraceBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a process.
    ///
    /// # Panics
    ///
    /// Past 2^32 processes, as the other tables of few rows do.
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

    /// Adds a lane; its track may be given now or by [`TraceBuilder::set_lane`] before the end.
    /// Events on lanes without a track are dropped and counted.
    pub fn lane(&mut self, track: Option<TrackId>) -> LaneId {
        self.lanes.push(track);
        LaneId::new(self.lanes.len() - 1).expect("fewer than 2^32 lanes")
    }

    /// Says where the events of `lane` belong.
    pub fn set_lane(&mut self, lane: LaneId, track: Option<TrackId>) {
        if let Some(slot) = self.lanes.get_mut(lane.index()) {
            *slot = track;
        }
    }

    /// The processes so far, to complete names that come late.
    pub fn processes_mut(&mut self) -> &mut [Process] {
        &mut self.processes
    }

    /// The threads so far, to complete names that come late.
    pub fn threads_mut(&mut self) -> &mut [Thread] {
        &mut self.threads
    }

    /// The tracks so far, to complete names that come late.
    pub fn tracks_mut(&mut self) -> &mut [Track] {
        &mut self.tracks
    }

    /// Interns a name for a process, thread or track.
    pub fn string(&mut self, text: &str) -> StrId {
        self.events.strings.intern(text)
    }

    /// Sorts, nests, binds flows and seals.
    ///
    /// Events are processed in ascending time, at equal times as [`EventOrder`] says. A slice's id
    /// is its place in that order, so parents come before their children. Cost: one sort of 8-byte
    /// keys and one pass; raw columns are freed as the sealed ones are made.
    ///
    /// # Errors
    ///
    /// [`BuildError::TooManyEvents`] when events were refused for want of room.
    pub fn finish(self, options: &FinishOptions) -> Result<Trace, BuildError> {
        seal::seal(self, options)
    }
}
