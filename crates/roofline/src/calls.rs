//! Calls: occurrences of operators with the GPU activity that was launched for them, and what each needs.

use gpu_time::{GpuEvent, GpuWork, WorkKind};
use trace_model::kernel::{COPY_SIZE_KEYS, TraceIndex};
use trace_model::{Slice, SliceId};

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
    COPY_SIZE_KEYS[0],
    COPY_SIZE_KEYS[1],
    COPY_SIZE_KEYS[2],
    "kernel",
];

/// Properties of a call, as bits of [`Kept::flags`].
pub(crate) mod flag {
    /// Its launch is in the recording.
    pub(crate) const LAUNCHED: u8 = 1;
    /// It is part of a replayed graph.
    pub(crate) const IN_GRAPH: u8 = 1 << 1;
    /// It has at least one kernel.
    pub(crate) const KERNEL: u8 = 1 << 2;
    /// It has more than one kernel.
    pub(crate) const KERNELS: u8 = 1 << 3;
    /// It has work other than copies between host and device.
    pub(crate) const NOT_HOST_COPY: u8 = 1 << 4;
}

/// What is kept of a call, in 32 bytes: recordings have millions of them. The rest comes from its first GPU activity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// Place of its kind; until that is known, of the names of its work.
    pub(crate) kind: u32,
    /// Place of its first GPU activity.
    pub(crate) first: u32,
    /// Kernels, copies and memsets.
    pub(crate) kernels: u32,
    /// Place of its step; [`Kept::NONE`] if it is in none.
    pub(crate) step: u32,
    /// Place of the node of a capture that its first activity is; 0 for none.
    pub(crate) node: u32,
    pub(crate) flags: u8,
    /// Time in which any of its work ran.
    pub(crate) time_ns: i64,
}

impl Kept {
    pub(crate) const NONE: u32 = u32::MAX;

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn step(&self) -> Option<u32> {
        (self.step != Self::NONE).then_some(self.step)
    }
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'l, 't> {
    kept: Kept,
    list: &'l CallList,
    work: &'l GpuWork<'t>,
}

impl<'l, 't> Call<'l, 't> {
    /// Its kind, as a place in [`CallList::kinds`].
    pub fn kind(&self) -> u32 {
        self.kept.kind
    }

    /// Number of kernels, copies and memsets.
    pub fn kernels(&self) -> u32 {
        self.kept.kernels
    }

    /// Time in which any of them ran.
    pub fn time_ns(&self) -> i64 {
        self.kept.time_ns
    }

    fn first(&self) -> Option<&'l GpuEvent> {
        self.work.events().get(self.kept.first as usize)
    }

    /// Begin of the first.
    pub fn start_ns(&self) -> i64 {
        self.first().map_or(0, |event| event.start_ns)
    }

    /// Device of the first.
    pub fn device(&self) -> i64 {
        self.first().map_or(0, |event| event.device.0)
    }

    /// The step in which it was launched, as a place in [`CallList::steps`].
    pub fn step(&self) -> Option<u32> {
        self.kept.step()
    }

    fn own_launch(&self) -> Option<Slice<'t>> {
        let first = self.first().filter(|_| self.kept.has(flag::LAUNCHED))?;
        self.work.launch_of(first)
    }

    /// The launch call of the first, and the recording that it is in: 0, or from 1 on those of captures.
    pub fn launch(&self) -> Option<(u32, SliceId)> {
        match self
            .list
            .nodes
            .get(self.kept.node as usize)
            .copied()
            .flatten()
        {
            Some(node) => Some(node),
            None => self.own_launch().map(|launch| (0, launch.id())),
        }
    }

    /// Begin of the launch in the recording itself.
    pub fn launch_ns(&self) -> Option<i64> {
        self.own_launch().map(|launch| launch.ts().nanos())
    }

    /// Returns `true` if its launch is in the recording.
    pub fn is_launched(&self) -> bool {
        self.kept.has(flag::LAUNCHED)
    }

    /// Returns `true` if it is part of a replayed graph.
    pub fn in_graph(&self) -> bool {
        self.kept.has(flag::IN_GRAPH)
    }

    /// Returns `true` if some of its work is a kernel.
    pub fn has_kernel(&self) -> bool {
        self.kept.has(flag::KERNEL)
    }

    /// Returns `true` if an activity of this kind has the numbers of the call to itself: the one kernel of it, whatever copies and
    /// memsets go with that, or the one copy or memset of a call without kernels.
    pub fn is_all(&self, kind: WorkKind) -> bool {
        match (self.has_kernel(), self.kept.has(flag::KERNELS)) {
            (false, _) => self.kept.kernels == 1,
            (true, several) => !several && kind == WorkKind::Kernel,
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
    pub(crate) kept: Vec<Kept>,
    /// Kinds of calls.
    pub kinds: Vec<Kind>,
    /// Annotations that give lengths, in ascending time.
    pub steps: Vec<Mark>,
    /// Call of each event, in the order of the events.
    pub(crate) call_of: Vec<u32>,
    /// Nodes of captures that calls are: the recording and the launch call; none at place 0.
    pub(crate) nodes: Vec<Option<(u32, SliceId)>>,
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

    /// Number of calls.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns `true` if there is no call.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    fn at<'l, 't>(&'l self, work: &'l GpuWork<'t>, kept: Kept) -> Call<'l, 't> {
        Call {
            kept,
            list: self,
            work,
        }
    }

    /// The calls, in order of the begin of their first GPU activity; `work` is that of which the list was made.
    pub fn calls<'l, 't>(
        &'l self,
        work: &'l GpuWork<'t>,
    ) -> impl Iterator<Item = Call<'l, 't>> + use<'l, 't> {
        self.kept.iter().map(move |kept| self.at(work, *kept))
    }

    /// The GPU activities of `work`, each with the place of its call and the call.
    pub fn activities<'l, 't>(
        &'l self,
        work: &'l GpuWork<'t>,
    ) -> impl Iterator<Item = (&'l GpuEvent, u32, Call<'l, 't>)> + use<'l, 't> {
        let all = work.events().iter().zip(&self.call_of);
        all.filter_map(move |(event, call)| {
            let kept = self.kept.get(*call as usize)?;
            Some((event, *call, self.at(work, *kept)))
        })
    }

    /// The numbers of a call, if it has any.
    pub fn numbers(&self, call: &Call<'_, '_>) -> Option<&Numbers> {
        self.kind(call).and_then(|kind| kind.answer.as_ref().ok())
    }

    /// Returns the kind of a call.
    pub fn kind(&self, call: &Call<'_, '_>) -> Option<&Kind> {
        self.kinds.get(call.kind() as usize)
    }
}
