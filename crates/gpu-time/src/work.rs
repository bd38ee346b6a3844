//! Kernels, memcpys and memsets of a trace.

use serde::Serialize;
use trace_model::correlation::LinkMethod;
use trace_model::kernel::{Activity, INDEX_KEYS, TraceIndex, Vocabulary};
use trace_model::{DeviceId, Slice, SliceId, StrId, StreamId, TimeRange, Timestamp, Trace};

/// PyTorch's categories of GPU activity.
const CATEGORIES: [(&str, WorkKind); 4] = [
    ("kernel", WorkKind::Kernel),
    ("gpu_memcpy", WorkKind::Memcpy),
    ("gpu_memset", WorkKind::Memset),
    ("cuda_graph", WorkKind::Graph),
];

/// Keys of arguments, without prefix, that the analyses of this crate read. A reader may leave out
/// all others.
pub const ARG_KEYS: &[&str] = &INDEX_KEYS;

/// Kind of a GPU activity, from its category.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// A kernel.
    Kernel,
    /// A memcpy.
    Memcpy,
    /// A memset.
    Memset,
    /// A graph of kernels recorded as a whole: busy time of unknown composition, which counts as computation.
    Graph,
}

impl WorkKind {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Memcpy => "memcpy",
            Self::Memset => "memset",
            Self::Graph => "graph",
        }
    }

    /// Returns the category that PyTorch writes.
    pub fn category(self) -> &'static str {
        CATEGORIES
            .iter()
            .find(|c| c.1 == self)
            .map_or("kernel", |c| c.0)
    }
}

/// A kernel, memcpy, memset or graph: the half-open interval `[start_ns, end_ns)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GpuEvent {
    /// Its slice.
    pub slice: SliceId,
    /// Start.
    pub start_ns: i64,
    /// End; not before the start, except with the rounding of [`compat::hta`](crate::compat::hta).
    pub end_ns: i64,
    /// Kind.
    pub kind: WorkKind,
    /// Name, as an id of the trace's strings.
    pub name: Option<StrId>,
    /// Device on which it ran.
    pub device: DeviceId,
    /// Stream on which it ran.
    pub stream: StreamId,
}

impl GpuEvent {
    /// Returns the duration.
    pub fn dur_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Returns the interval.
    pub fn interval(&self) -> (i64, i64) {
        (self.start_ns, self.end_ns)
    }
}

/// Criterion by which GPU activity was selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// The categories `kernel`, `gpu_memcpy` and `gpu_memset`, matched exactly.
    #[default]
    Category,
    /// The vocabulary, which knows other producers; used if no slice has one of these categories.
    Vocabulary,
}

/// Kernels, memcpys and memsets of one trace in ascending time, with the indexes of that trace.
///
/// ```
/// use gpu_time::GpuWork;
/// use trace_model::{FinishOptions, TraceBuilder};
///
/// let trace = TraceBuilder::new().finish(&FinishOptions::default())?;
/// assert!(GpuWork::new(&trace).events().is_empty());
/// # Ok::<(), trace_model::BuildError>(())
/// ```
#[derive(Debug)]
pub struct GpuWork<'t> {
    index: TraceIndex<'t>,
    events: Vec<GpuEvent>,
    selection: Selection,
}

impl<'t> GpuWork<'t> {
    /// Finds the GPU activity of `trace`. Cost: two passes over the categories, and a look at the
    /// arguments of GPU activities; 56 bytes for each kernel, memcpy or memset.
    pub fn new(trace: &'t Trace) -> Self {
        Self::with_vocabulary(trace, Vocabulary::of(trace))
    }

    /// Finds GPU activity as [`GpuWork::new`] does, with the vocabulary of the caller.
    pub fn with_vocabulary(trace: &'t Trace, vocabulary: Vocabulary) -> Self {
        let index = TraceIndex::new(trace, vocabulary);
        let known = CATEGORIES.map(|(name, kind)| (trace.find_category(name), kind));
        let by_category = |s: Slice<'_>| {
            let id = Some(s.category_id());
            known.iter().find(|k| k.0 == id).map(|k| k.1)
        };
        let by_vocabulary = |s: Slice<'_>| match index.activity(s) {
            Activity::Kernel => Some(WorkKind::Kernel),
            Activity::GpuMemcpy => Some(WorkKind::Memcpy),
            Activity::GpuMemset => Some(WorkKind::Memset),
            Activity::GpuGraph => Some(WorkKind::Graph),
            _ => None,
        };
        let is_known = known.iter().any(|k| k.0.is_some());
        let mut events = Vec::with_capacity(index.activities().device_work().len());
        let event = |s: Slice<'t>, kind| GpuEvent {
            slice: s.id(),
            start_ns: s.ts().nanos(),
            end_ns: s.end().nanos().max(s.ts().nanos()),
            kind,
            name: s.name_id(),
            device: index.device(s),
            stream: index.stream(s),
        };
        for slice in index.device_work() {
            let kind = if is_known {
                by_category(slice)
            } else {
                by_vocabulary(slice)
            };
            events.extend(kind.map(|kind| event(slice, kind)));
        }
        Self {
            index,
            events,
            selection: if is_known {
                Selection::Category
            } else {
                Selection::Vocabulary
            },
        }
    }

    /// Returns the GPU activity in ascending time.
    pub fn events(&self) -> &[GpuEvent] {
        &self.events
    }

    /// Keeps only the events that `keep` accepts, to analyze a part of the trace.
    pub fn retain(&mut self, keep: impl FnMut(&GpuEvent) -> bool) {
        self.events.retain(keep);
    }

    /// Returns the criterion by which the events were selected.
    pub fn selection(&self) -> Selection {
        self.selection
    }

    /// Returns the indexes of the trace.
    pub fn index(&self) -> &TraceIndex<'t> {
        &self.index
    }

    /// Returns the trace.
    pub fn trace(&self) -> &'t Trace {
        self.index.trace()
    }

    /// Returns the slice of an event.
    pub fn slice(&self, event: &GpuEvent) -> Slice<'t> {
        self.trace().slice(event.slice)
    }

    /// Returns the name of an event; empty if it has none.
    pub fn name(&self, event: &GpuEvent) -> &'t str {
        event.name.map_or("", |id| self.trace().text(id))
    }

    /// Returns the call that launched an event: the one with the same correlation id, else the one
    /// linked by a flow.
    pub fn launch_of(&self, event: &GpuEvent) -> Option<Slice<'t>> {
        match self.index.launch_of(self.slice(event))? {
            (_, LinkMethod::ExternalId) => None,
            (call, _) => Some(call),
        }
    }

    /// Returns the time from the first start to the last end; `None` without GPU activity.
    pub fn span(&self) -> Option<TimeRange> {
        let start = self.events.first()?.start_ns;
        let end = self.events.iter().map(|e| e.end_ns).max()?;
        Some(TimeRange::new(
            Timestamp::from_nanos(start),
            Timestamp::from_nanos(end),
        ))
    }
}
