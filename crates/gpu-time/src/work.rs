//! The kernels, copies and fills of a trace.

use serde::Serialize;
use trace_model::correlation::LinkMethod;
use trace_model::kernel::{Activity, TraceIndex, Vocabulary};
use trace_model::{DeviceId, Slice, SliceId, StrId, StreamId, TimeRange, Timestamp, Trace};

/// The categories that PyTorch gives device work.
const CATEGORIES: [(&str, WorkKind); 3] = [
    ("kernel", WorkKind::Kernel),
    ("gpu_memcpy", WorkKind::Memcpy),
    ("gpu_memset", WorkKind::Memset),
];

/// The keys of arguments, without prefix, that the analyses of this crate read. A reader may leave
/// all others out;
pub const ARG_KEYS: &[&str] = &[
    "correlation",
    "corr_id",
    "correlation_id",
    "device",
    "agent",
    "stream",
    "stream_id",
    "queue",
    "src_agent",
    "dst_agent",
];

/// What device work is, by its category.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// A kernel.
    Kernel,
    /// A copy.
    Memcpy,
    /// A fill.
    Memset,
}

impl WorkKind {
    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Memcpy => "memcpy",
            Self::Memset => "memset",
        }
    }

    /// The category that PyTorch writes.
    pub fn category(self) -> &'static str {
        CATEGORIES
            .iter()
            .find(|c| c.1 == self)
            .map_or("kernel", |c| c.0)
    }
}

/// One kernel, copy or fill: the half-open interval `[start_ns, end_ns)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GpuEvent {
    /// The slice it is.
    pub slice: SliceId,
    /// When it starts.
    pub start_ns: i64,
    /// When it ends, not before it starts but for the rounding of [`compat::hta`](crate::compat::hta).
    pub end_ns: i64,
    /// What it is.
    pub kind: WorkKind,
    /// Its name, as an id of the trace's strings.
    pub name: Option<StrId>,
    /// The device it ran on.
    pub device: DeviceId,
    /// The stream it ran on.
    pub stream: StreamId,
}

impl GpuEvent {
    /// How long it ran.
    pub fn dur_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// When it ran.
    pub fn interval(&self) -> (i64, i64) {
        (self.start_ns, self.end_ns)
    }
}

/// How device work was told from the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// By the categories `kernel`, `gpu_memcpy` and `gpu_memset`, written exactly so.
    Category,
    /// No slice has one of these; by the vocabulary, which knows other producers.
    Vocabulary,
}

/// The kernels, copies and fills of one trace in ascending time, and the indexes of that trace.
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
    /// Finds the device work of `trace`. Cost: two passes over the categories, a look at the
    /// arguments of device work; 56 bytes for each kernel, copy or fill.
    pub fn new(trace: &'t Trace) -> Self {
        Self::with_vocabulary(trace, Vocabulary::default())
    }

    /// As [`GpuWork::new`], with a caller's own rules.
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

    /// The device work in ascending time.
    pub fn events(&self) -> &[GpuEvent] {
        &self.events
    }

    /// Keeps only the events that `keep` accepts, so that an analysis sees a part of the trace.
    pub fn retain(&mut self, keep: impl FnMut(&GpuEvent) -> bool) {
        self.events.retain(keep);
    }

    /// How it was found.
    pub fn selection(&self) -> Selection {
        self.selection
    }

    /// The indexes of the trace.
    pub fn index(&self) -> &TraceIndex<'t> {
        &self.index
    }

    /// The trace.
    pub fn trace(&self) -> &'t Trace {
        self.index.trace()
    }

    /// The slice of an event.
    pub fn slice(&self, event: &GpuEvent) -> Slice<'t> {
        self.trace().slice(event.slice)
    }

    /// The name of an event; empty without one.
    pub fn name(&self, event: &GpuEvent) -> &'t str {
        event.name.map_or("", |id| self.trace().text(id))
    }

    /// The call that launched an event: of the same correlation id, else by an arrow.
    pub fn launch_of(&self, event: &GpuEvent) -> Option<Slice<'t>> {
        match self.index.launch_of(self.slice(event))? {
            (_, LinkMethod::ExternalId) => None,
            (call, _) => Some(call),
        }
    }

    /// From the first start to the last end; none without device work.
    pub fn span(&self) -> Option<TimeRange> {
        let start = self.events.first()?.start_ns;
        let end = self.events.iter().map(|e| e.end_ns).max()?;
        Some(TimeRange::new(
            Timestamp::from_nanos(start),
            Timestamp::from_nanos(end),
        ))
    }
}
