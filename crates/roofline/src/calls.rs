//! Calls: occurrences of operators with the GPU activity that was launched for them, and what each needs.

use gpu_time::{GpuWork, WorkKind};
use trace_model::SliceId;
use trace_model::kernel::TraceIndex;

use crate::build::Builder;
use crate::capture::{Captures, captures_of};
use crate::config::{Config, ConfigError};
use crate::extensions::Knowledge;
use crate::marks::{Mark, Marks};
use crate::numbers::{Answer, Numbers};
use crate::source::Source;

/// The name of work without operator.
pub const NO_OPERATOR: &str = "(none)";

/// The keys of arguments, without prefix, that [`CallList::new`] reads. A reader may leave out all others.
pub const ARG_KEYS: &[&str] = &[
    "Input Dims",
    "Input type",
    "Input Strides",
    "Concrete Inputs",
    "Collective name",
    "dtype",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "bytes",
    "kernel",
];

/// One call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Call {
    /// Its kind, as a place in [`CallList::kinds`].
    pub kind: u32,
    /// Kernels, copies and memsets.
    pub kernels: u32,
    /// Kernels alone.
    pub own_kernels: u32,
    /// Time in which any of them ran.
    pub time_ns: i64,
    /// Begin of the first.
    pub start_ns: i64,
    /// Device of the first.
    pub device: i64,
    /// The step in which it was launched, as a place in [`CallList::steps`].
    pub step: Option<u32>,
    /// The launch call of the first, and the recording that it is in: 0, or from 1 on those of captures.
    pub launch: Option<(u32, SliceId)>,
    /// Begin of the launch in the recording itself.
    pub launch_ns: Option<i64>,
    /// It is part of a replayed graph.
    pub in_graph: bool,
}

impl Call {
    /// Returns `true` if an activity of this kind has the numbers of the call to itself: the one kernel of it, whatever copies and
    /// memsets go with that, or the one copy or memset of a call without kernels.
    pub fn is_all(&self, kind: WorkKind) -> bool {
        match self.own_kernels {
            0 => self.kernels == 1,
            1 => kind == WorkKind::Kernel,
            _ => false,
        }
    }
}

/// Properties that the calls of one row share: operator, sizes, types and numbers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Kind {
    /// Operator, or [`NO_OPERATOR`].
    pub op: String,
    /// Kernel, for work without operator.
    pub kernel: String,
    /// Sizes of the arguments as JSON without blanks; empty if not recorded.
    pub dims: String,
    /// Types of the arguments, likewise.
    pub types: String,
    /// Numbers of a call, or why there are none.
    pub answer: Answer,
}

/// How replays were joined to captures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct CaptureCounts {
    /// Recordings that were given for their captures.
    pub recordings: u64,
    /// Captures in all recordings of captures.
    pub captures: u64,
    /// Replays whose kernels have the names of a capture.
    pub matched: u64,
    /// Replays most of whose kernels have.
    pub nearly: u64,
    /// Replays without capture.
    pub unmatched: u64,
    /// Those of them whose names have captures, all of fewer tokens than the step has.
    pub too_small: u64,
    /// Replays with several captures that may be of different sizes, among which nothing decides: their numbers are exact only
    /// where all of these captures have them.
    pub unsure: u64,
}

/// Knowledge besides the recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallOptions<'a> {
    /// Operators and devices.
    pub knowledge: &'a Knowledge,
    /// The configuration of the model.
    pub config: Option<&'a Config>,
    /// Ranks of tensor parallelism; found from the heads of queries if not given.
    pub tp: Option<u128>,
    /// Ranks of the job, if the file does not state them.
    pub world_size: Option<u32>,
}

impl<'a> CallOptions<'a> {
    /// Nothing but operators and devices.
    pub fn new(knowledge: &'a Knowledge) -> Self {
        Self {
            knowledge,
            config: None,
            tp: None,
            world_size: None,
        }
    }
}

/// All calls of a recording.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallList {
    /// Ordered by the begin of their first GPU activity.
    pub calls: Vec<Call>,
    /// Kinds of calls.
    pub kinds: Vec<Kind>,
    /// Annotations that give lengths, in ascending time.
    pub steps: Vec<Mark>,
    /// Call of each event, in the order of the events.
    pub call_of: Vec<u32>,
    /// How replays were joined.
    pub captures: CaptureCounts,
    /// Ranks of tensor parallelism that were used with the configuration.
    pub tp: Option<u128>,
    /// Bytes of a value in the KV cache, where a write into it is recorded.
    pub cache_bytes: Option<u128>,
}

impl CallList {
    /// Finds the calls of `work`, with `captures` for the kernels of replayed graphs, and what each needs.
    ///
    /// Cost: a look-up for each piece of work; models are asked once for each distinct operator, sizes and types.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration contradicts the recording.
    pub fn new(
        work: &GpuWork<'_>,
        captures: &[&TraceIndex<'_>],
        options: &CallOptions<'_>,
    ) -> Result<Self, ConfigError> {
        let mut sources = vec![Source::new(work.index())];
        sources.extend(captures.iter().map(|index| Source::new(index)));
        let found_captures = captures.iter().zip(1..);
        let found_captures = found_captures.flat_map(|(index, at)| captures_of(index, at));
        let builder = Builder {
            work,
            marks: Marks::new(work.index()),
            captures: Captures::new(found_captures.collect()),
            models: &options.knowledge.models,
            options,
            sources,
            others: vec![Vec::new()],
        };
        builder.build()
    }

    /// The numbers of a call, if it has any.
    pub fn numbers(&self, call: &Call) -> Option<&Numbers> {
        self.kind(call).and_then(|kind| kind.answer.as_ref().ok())
    }

    /// Returns the kind of a call.
    pub fn kind(&self, call: &Call) -> Option<&Kind> {
        self.kinds.get(call.kind as usize)
    }
}
