//! Explains why a trace, or a window of it, holds no GPU activity.

use std::collections::BTreeMap;

use report::human;
use serde::Serialize;
use trace_model::kernel::{Activity, TraceIndex};
use trace_model::{TimeRange, Trace};

use crate::Note;
use crate::recorder::{Lack, Recorder, xla};

/// Maximum number of categories and processes in a sentence.
const MAX_NAMED: usize = 3;

/// Reason for the absence of kernels, memcpys and memsets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoGpuReason {
    /// The trace has no slices and no counter samples.
    Empty,
    /// The trace has counter samples and no slices.
    OnlyCounters,
    /// Only host operators, Python functions or annotations were recorded.
    OnlyHost,
    /// CUDA or HIP API calls were recorded, none of which launches anything.
    NoLaunches,
    /// Launch API calls were recorded, but no GPU activity.
    DeviceNotRecorded,
    /// The device's tracks hold annotations and synchronization only.
    OnlyDeviceAnnotations,
    /// No slice is of a kind known to the vocabulary.
    UnknownProducer,
    /// GPU activity exists, none of it in the window.
    OutsideWindow,
}

impl NoGpuReason {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::OnlyCounters => "only_counters",
            Self::OnlyHost => "only_host",
            Self::NoLaunches => "no_launches",
            Self::DeviceNotRecorded => "device_not_recorded",
            Self::OnlyDeviceAnnotations => "only_device_annotations",
            Self::UnknownProducer => "unknown_producer",
            Self::OutsideWindow => "outside_window",
        }
    }
}

/// Reason why a trace, or a window of it, holds no GPU activity.
///
/// ```
/// use gpu_time::{NoGpuReason, no_gpu_work};
/// use trace_model::kernel::{TraceIndex, Vocabulary};
/// use trace_model::{FinishOptions, TraceBuilder};
///
/// let trace = TraceBuilder::new().finish(&FinishOptions::default())?;
/// let index = TraceIndex::new(&trace, Vocabulary::default());
/// let why = no_gpu_work(&index).expect("there is none");
/// assert_eq!(why.reason, NoGpuReason::Empty);
/// # Ok::<(), trace_model::BuildError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct NoGpuWork {
    /// The reason.
    pub reason: NoGpuReason,
    /// One sentence without a full stop: the missing data, the evidence, and what to record
    /// instead.
    pub text: String,
}

impl NoGpuWork {
    /// Returns the reason as a note with the code `no_gpu_work`.
    pub fn note(&self) -> Note {
        Note::new("no_gpu_work", self.text.clone())
    }
}

/// Returns why the trace holds no kernel, memcpy or memset, or `None` if it holds any.
///
/// Cost: none if there is GPU activity, else one pass over the slices.
pub fn no_gpu_work(index: &TraceIndex<'_>) -> Option<NoGpuWork> {
    if !index.activities().device_work().is_empty() {
        return None;
    }
    let trace = index.trace();
    let seen = Seen::of(index);
    let reason = seen.reason(trace);
    let n = |activity| human::count(seen.count(activity));
    let text = match reason {
        NoGpuReason::Empty => {
            "no GPU activity: the trace holds no events; was the recording exported before anything ran?"
                .to_owned()
        }
        NoGpuReason::OnlyCounters => format!(
            "no GPU activity: the trace holds {} counter samples and no slices",
            human::count(trace.counters().len() as u64)
        ),
        NoGpuReason::OnlyDeviceAnnotations if xla(trace, "/device:TPU:") => format!(
            "no GPU activity: the rows of the device are those of a TPU ({} slices), which are not counted; \
             analyse the recording with XProf",
            n(Activity::GpuAnnotation)
        ),
        NoGpuReason::OnlyHost if xla(trace, "/host:") => format!(
            "no GPU activity: a recording of JAX or XLA with {} slices of the host and no row of a device \
             (`/device:GPU:0`); was it taken on a machine without GPU, or with the device's tracer off?",
            human::count(seen.sum(|_| true))
        ),
        NoGpuReason::OnlyHost => format!(
            "no GPU activity: only the host was recorded ({} and no CUDA or HIP call); \
             record the GPU as well ({})",
            seen.host(),
            Lack::GpuActivity.how(Recorder::of(trace))
        ),
        NoGpuReason::NoLaunches => format!(
            "no GPU activity: none of the {} CUDA or HIP calls in the trace launches anything",
            human::count(seen.calls())
        ),
        NoGpuReason::DeviceNotRecorded => format!(
            "no GPU activity: {} launch calls were recorded, but no kernel, memcpy or memset; \
             the device was not traced (another profiler attached, no permission), \
             its records were not delivered before the recording ended, or the calls were only captured into graphs",
            human::count(seen.launches())
        ),
        NoGpuReason::OnlyDeviceAnnotations => format!(
            "no GPU activity: the rows of the device hold {} annotations and {} synchronisation events, \
             but no kernel, memcpy or memset",
            n(Activity::GpuAnnotation),
            n(Activity::GpuSync)
        ),
        NoGpuReason::UnknownProducer => format!(
            "no GPU activity is recognised in {} slices; most time is in {}",
            human::count(seen.sum(|_| true)),
            most_time(trace)
        ),
        // This reason does not apply to a whole trace.
        NoGpuReason::OutsideWindow => return None,
    };
    Some(NoGpuWork { reason, text })
}

/// Returns why `window` holds no GPU activity, or `None` if a kernel, memcpy or memset runs in it.
///
/// Cost: as [`no_gpu_work`], and a pass over the GPU activity.
pub fn no_gpu_work_in(index: &TraceIndex<'_>, window: TimeRange) -> Option<NoGpuWork> {
    if let Some(why) = no_gpu_work(index) {
        return Some(why);
    }
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    for work in index.device_work() {
        let (start, end) = (work.ts().nanos(), work.end().nanos());
        let is_in = start < window.end.nanos()
            && (end > window.start.nanos() || start >= window.start.nanos());
        if is_in {
            return None;
        }
        (first, last) = (first.min(start), last.max(end));
    }
    Some(NoGpuWork {
        reason: NoGpuReason::OutsideWindow,
        text: format!(
            "no GPU activity in the window {}..{} ns: that of the trace lies between {first} and {last} ns",
            window.start.nanos(),
            window.end.nanos()
        ),
    })
}

/// Number of slices of each activity.
struct Seen(BTreeMap<Activity, u64>);

impl Seen {
    fn of(index: &TraceIndex<'_>) -> Self {
        let mut counts = BTreeMap::new();
        let trace = index.trace();
        for slice in trace.slices() {
            *counts.entry(index.activity(slice)).or_insert(0) += 1;
        }
        for group in trace.outlines().groups() {
            *counts.entry(index.activity_of(group)).or_insert(0) += group.slices;
        }
        Self(counts)
    }

    fn count(&self, activity: Activity) -> u64 {
        self.0.get(&activity).copied().unwrap_or(0)
    }

    fn sum(&self, of: impl Fn(Activity) -> bool) -> u64 {
        let some = self.0.iter().filter(|(activity, _)| of(**activity));
        some.map(|(_, count)| count).sum()
    }

    fn calls(&self) -> u64 {
        self.sum(Activity::is_api)
    }

    /// Returns the number of calls that submit work to a device.
    fn launches(&self) -> u64 {
        self.sum(|activity| {
            matches!(
                activity,
                Activity::Launch
                    | Activity::GraphLaunch
                    | Activity::MemcpyApi
                    | Activity::MemsetApi
            )
        })
    }

    fn host(&self) -> String {
        let kinds = [
            (Activity::CpuOp, "operators"),
            (Activity::PythonFunction, "Python functions"),
            (Activity::UserAnnotation, "annotations"),
            (Activity::CollectiveApi, "calls of the collective library"),
        ];
        let known = kinds
            .iter()
            .filter(|(activity, _)| self.count(*activity) > 0);
        let list: Vec<String> = known
            .map(|(activity, what)| format!("{} {what}", human::count(self.count(*activity))))
            .collect();
        list.join(", ")
    }

    fn reason(&self, trace: &Trace) -> NoGpuReason {
        let is_host = |activity| {
            matches!(
                activity,
                Activity::CpuOp
                    | Activity::PythonFunction
                    | Activity::UserAnnotation
                    | Activity::CollectiveApi
            )
        };
        match () {
            () if self.0.is_empty() && trace.counters().is_empty() => NoGpuReason::Empty,
            () if self.0.is_empty() => NoGpuReason::OnlyCounters,
            () if self.launches() > 0 => NoGpuReason::DeviceNotRecorded,
            () if self.calls() > 0 => NoGpuReason::NoLaunches,
            () if self.count(Activity::GpuAnnotation) + self.count(Activity::GpuSync) > 0 => {
                NoGpuReason::OnlyDeviceAnnotations
            }
            () if self.sum(is_host) > 0 || xla(trace, "/host:") => NoGpuReason::OnlyHost,
            () => NoGpuReason::UnknownProducer,
        }
    }
}

/// Returns the categories and processes whose slices take the most time, with their shares of the
/// sum.
fn most_time(trace: &Trace) -> String {
    let (mut categories, mut processes) = (BTreeMap::new(), BTreeMap::new());
    for slice in trace.slices() {
        let ns = slice.dur().map_or(0, |dur| i128::from(dur.get()));
        let track = slice.track();
        let process = track
            .process
            .or_else(|| trace.thread(track.thread?).process);
        let process = process.and_then(|id| trace.process(id).name);
        *categories.entry(slice.category()).or_insert(0) += ns;
        *processes
            .entry(process.map(|name| trace.text(name)))
            .or_insert(0) += ns;
    }
    let all: i128 = categories.values().sum();
    let named = |times: BTreeMap<Option<&str>, i128>, none: &str| {
        let mut rows: Vec<(Option<&str>, i128)> = times.into_iter().collect();
        rows.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let shown = rows.iter().take(MAX_NAMED).map(|(name, ns)| {
            let name = name.map_or_else(|| none.to_owned(), |name| format!("`{name}`"));
            match all {
                0 => name,
                all => format!("{name} ({} %)", ns * 100 / all),
            }
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    format!(
        "the categories {} and the processes {}",
        named(categories, "none"),
        named(processes, "without a name")
    )
}
