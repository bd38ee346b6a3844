//! A trace as this crate looks at it: what each slice is, and where it runs.

use std::cell::OnceCell;

use rustc_hash::FxHashMap;
use trace_model::correlation::CorrelationColumn;
use trace_model::kernel::{
    Activity, CopySizes, DeviceLane, DevicePlaces, KernelClass, TraceIndex, Vocabulary,
};
use trace_model::{Slice, SliceId, StrId, Trace, TrackId};

use crate::blocking::{blocking_calls, only_waits};
use crate::engine::is_blocking_copy;
use crate::num::row;
use crate::origin::{Origins, nested_int};

/// What a slice is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A Python function.
    Python,
    /// An operator of the framework.
    Op,
    /// A marked range on the host.
    Annotation,
    /// A call that launches work on the device.
    Launch,
    /// A call that waits for the device.
    Sync,
    /// Any other call of runtime, driver or collective library.
    Api,
    /// A kernel that computes.
    Compute,
    /// A kernel that communicates.
    Communication,
    /// A copy or fill on the device.
    Copy,
    /// A thread on a processor.
    OnCpu,
    /// A thread that waits for a processor.
    RunQueue,
    /// A read or write of a file.
    Disk,
    /// A system call for memory.
    SyscallMemory,
    /// Garbage collection and the profiler itself.
    Overhead,
    /// Nothing that counts.
    Other,
}

impl Kind {
    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Op => "op",
            Self::Annotation => "annotation",
            Self::Launch => "launch",
            Self::Sync => "sync",
            Self::Api => "api",
            Self::Compute => "compute_kernel",
            Self::Communication => "communication_kernel",
            Self::Copy => "copy",
            Self::OnCpu => "oncpu",
            Self::RunQueue => "runq",
            Self::Disk => "disk",
            Self::SyscallMemory => "syscall_memory",
            Self::Overhead => "overhead",
            Self::Other => "other",
        }
    }

    /// Does it occupy the device?
    pub fn is_device(self) -> bool {
        matches!(self, Self::Compute | Self::Communication | Self::Copy)
    }

    /// Is it code of the host that nests in threads?
    pub fn is_code(self) -> bool {
        matches!(
            self,
            Self::Python | Self::Op | Self::Launch | Self::Sync | Self::Api | Self::Overhead
        )
    }
}

/// A process that takes part.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Member {
    /// Host, if known.
    pub host: Option<String>,
    /// Process number.
    pub pid: i64,
}

/// Work on the device with the call that launched it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) slice: SliceId,
    pub(crate) kind: Kind,
    pub(crate) process: u32,
    pub(crate) device: i64,
    pub(crate) stream: u32,
    pub(crate) name: StrId,
    /// What a kernel computes, by what launched it; none of other GPU activity.
    pub(crate) class: Option<KernelClass>,
    /// Bytes that a copy moved; 0 of all else and where unknown.
    pub(crate) bytes: i64,
    pub(crate) ts: i64,
    pub(crate) end: i64,
    /// The call, with its start; none if unknown.
    pub(crate) launch: Option<(SliceId, i64)>,
}

/// One counter of one host and instance.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    pub(crate) name: String,
    pub(crate) host: Option<String>,
    pub(crate) instance: i64,
    /// Time and value in order of time.
    pub(crate) samples: Vec<(i64, f64)>,
}

/// A trace with everything looked up once. Cost: a few passes over the slices.
pub(crate) struct Timeline<'t> {
    pub(crate) trace: &'t Trace,
    /// By row of the trace.
    pub(crate) kinds: Vec<Kind>,
    /// Processes in order of first sight; by track which of them.
    pub(crate) members: Vec<Member>,
    process_of_track: Vec<u32>,
    /// Threads by track: overflow tracks are their thread's.
    pub(crate) thread_of_track: Vec<u32>,
    pub(crate) threads: usize,
    /// In order of time.
    pub(crate) work: Vec<Work>,
    /// Calls that launch work and wait for it, or for room in the queue: until when, ns.
    pub(crate) blocking: FxHashMap<SliceId, i64>,
    /// Time of children on the same thread, by row; found when first needed.
    children_ns: OnceCell<Vec<i64>>,
    pub(crate) counters: Vec<Counter>,
}

impl<'t> Timeline<'t> {
    pub(crate) fn new(trace: &'t Trace) -> Self {
        Self::with(trace, true)
    }

    /// Same, but without what says more of the work than when it ran and who launched it: classes, communication, counters.
    pub(crate) fn of_times(trace: &'t Trace) -> Self {
        Self::with(trace, false)
    }

    fn with(trace: &'t Trace, has_details: bool) -> Self {
        let origins = Origins::new(trace, false);
        let mut members: Vec<Member> = Vec::new();
        let mut member_of: FxHashMap<(Member, Option<usize>), u32> = FxHashMap::default();
        let mut process_of_track = Vec::with_capacity(trace.tracks().len());
        let mut thread_of: FxHashMap<(u32, String), u32> = FxHashMap::default();
        let mut thread_of_track = Vec::with_capacity(trace.tracks().len());
        for track in trace.track_ids() {
            let origin = origins.of(track);
            let member = Member {
                host: origin.host.clone(),
                pid: origin.pid,
            };
            // Two containers may have a process 1 each; what is only named in texts has no row of its own.
            let of = trace.track(track);
            let of = of
                .process
                .or_else(|| of.thread.and_then(|t| trace.thread(t).process));
            let own = of.filter(|p| !trace.process(*p).artificial);
            let key = (member, own.map(trace_model::ProcessId::index));
            let process = *member_of.entry(key.clone()).or_insert_with(|| {
                members.push(key.0);
                row(members.len() - 1)
            });
            process_of_track.push(process);
            let next = row(thread_of.len());
            // Streams of rocprofv3 are no threads, but each is a queue of its own.
            let thread = match (origin.tid.as_str(), lane_of(trace, track)) {
                ("", Some(lane)) => format!("{lane:?}"),
                (tid, _) => tid.to_owned(),
            };
            let thread = *thread_of.entry((process, thread)).or_insert(next);
            thread_of_track.push(thread);
        }
        let index = TraceIndex::new(trace, with_recorder(Vocabulary::of(trace)));
        let kinds = kinds(&index, has_details);
        let threads = thread_of.len();
        let mut timeline = Self {
            trace,
            kinds,
            members,
            process_of_track,
            thread_of_track,
            threads,
            work: Vec::new(),
            blocking: FxHashMap::default(),
            children_ns: OnceCell::new(),
            counters: match has_details {
                true => counters(trace, &origins),
                false => Vec::new(),
            },
        };
        timeline.find_work(&index, has_details);
        timeline.find_blocking();
        timeline
    }

    pub(crate) fn kind(&self, slice: Slice<'_>) -> Kind {
        self.kinds[slice.id().index()]
    }

    pub(crate) fn process(&self, slice: Slice<'_>) -> u32 {
        self.process_of_track[slice.track_id().index()]
    }

    pub(crate) fn thread(&self, slice: Slice<'_>) -> u32 {
        self.thread_of_track[slice.track_id().index()]
    }

    /// Own time of a slice of host code, ns.
    pub(crate) fn self_ns(&self, slice: Slice<'_>) -> i64 {
        let dur = slice.range().duration().get();
        let children = self.children_ns.get_or_init(|| self.sum_children());
        (dur - children[slice.id().index()]).max(0)
    }

    fn find_work(&mut self, index: &TraceIndex<'t>, has_classes: bool) {
        let column = CorrelationColumn::new(self.trace);
        let slices = self.trace.slices();
        let places = DevicePlaces::new(
            self.trace,
            slices.filter(|slice| matches!(self.kind(*slice), Kind::Compute | Kind::Communication)),
        );
        let inner = self.trace.arg_column("args");
        let sizes = CopySizes::new(self.trace);
        let text = |slice| inner.get(slice).and_then(trace_model::ArgValue::as_str);
        let correlation = |slice: Slice<'t>| {
            let plain = column.of(slice).map(|id| id.0);
            plain.or_else(|| nested_int(text(slice)?, "correlation").filter(|id| *id != 0))
        };
        let mut calls: FxHashMap<i64, (SliceId, u32)> = FxHashMap::default();
        let mut clashes: FxHashMap<(u32, i64), (SliceId, i64)> = FxHashMap::default();
        for slice in self.trace.slices() {
            let kind = self.kind(slice);
            // A copy that blocks is a wait, and launches the copy.
            if !matches!(kind, Kind::Launch | Kind::Api | Kind::Sync) {
                continue;
            }
            let Some(id) = correlation(slice) else {
                continue;
            };
            let process = self.process(slice);
            let first = *calls.entry(id).or_insert((slice.id(), process));
            // Else a driver call inside the runtime call that carries the same id.
            if first.1 != process {
                let found = (slice.id(), slice.ts().nanos());
                clashes.entry((process, id)).or_insert(found);
            }
        }
        let several = !clashes.is_empty();
        for slice in self.trace.slices() {
            let kind = self.kind(slice);
            if !kind.is_device() {
                continue;
            }
            let (Some(name), process) = (slice.name_id(), self.process(slice)) else {
                continue;
            };
            let launch = correlation(slice).and_then(|id| {
                let own = clashes.get(&(process, id)).copied();
                own.or_else(|| {
                    let call = calls.get(&id)?;
                    let is_own = !several || call.1 == process;
                    is_own.then(|| (call.0, self.trace.slice(call.0).ts().nanos()))
                })
            });
            let range = slice.range();
            self.work.push(Work {
                slice: slice.id(),
                kind,
                process,
                device: places
                    .device(slice)
                    .or_else(|| nested_int(text(slice)?, "device"))
                    .unwrap_or(-1),
                stream: self.thread(slice),
                name,
                bytes: match kind {
                    Kind::Copy => sizes.of(slice).unwrap_or(0).max(0),
                    _ => 0,
                },
                class: (has_classes && index.is_kernel(slice)).then(|| index.class(slice)),
                ts: range.start.nanos(),
                end: range.end.nanos(),
                launch,
            });
        }
        self.adopt();
    }

    /// Finds the calls that wait for what they launch: a copy of pageable memory, a launch into a full queue. What waits and
    /// does little else is no code of the host.
    fn find_blocking(&mut self) {
        let mut by_process: std::collections::BTreeMap<u32, Vec<&Work>> =
            std::collections::BTreeMap::new();
        for work in &self.work {
            by_process.entry(work.process).or_default().push(work);
        }
        let mut blocking = FxHashMap::default();
        for work in by_process.values() {
            blocking.extend(blocking_calls(self.trace, work));
        }
        for work in &self.work {
            let Some((call, _)) = work.launch.filter(|l| blocking.contains_key(&l.0)) else {
                continue;
            };
            let slice = self.trace.slice(call);
            let range = (slice.ts().nanos(), slice.end().nanos());
            // The host does not wait for what stays on the device.
            let name = self.trace.text(work.name);
            let is_copy =
                work.kind == Kind::Copy && !name.contains("DtoD") && !name.starts_with("Memset");
            let waits_for_room = work.end > range.1;
            if waits_for_room || (is_copy && only_waits(range, work)) {
                self.kinds[call.index()] = Kind::Sync;
            }
        }
        self.blocking = blocking;
    }

    /// Kineto puts device work into processes of its own, one per device: it belongs to the process
    /// that launched it. Where no launch is known, as while a graph is captured, it belongs to the only process with code.
    fn adopt(&mut self) {
        let mut owner: FxHashMap<u32, u32> = FxHashMap::default();
        for work in &self.work {
            if let Some((call, _)) = work.launch {
                let host = self.process(self.trace.slice(call));
                owner.entry(work.process).or_insert(host);
            }
        }
        let mut hosts: Vec<bool> = vec![false; self.members.len()];
        for slice in self.trace.slices().filter(|s| self.kind(*s).is_code()) {
            hosts[self.process(slice) as usize] = true;
        }
        let mut with_code = hosts.iter().enumerate().filter(|h| *h.1);
        let only = match (with_code.next(), with_code.next()) {
            (Some((process, _)), None) => Some(row(process)),
            _ => None,
        };
        for work in &mut self.work {
            let linked = owner.get(&work.process).copied();
            let has_code = hosts[work.process as usize];
            work.process = linked
                .or(only.filter(|_| !has_code))
                .unwrap_or(work.process);
        }
    }

    fn sum_children(&self) -> Vec<i64> {
        let mut sums = vec![0; self.trace.len()];
        for slice in self.trace.slices() {
            if !self.kind(slice).is_code() {
                continue;
            }
            // The nearest frame of code around it: marked ranges do not count.
            let around = slice.ancestors().find(|p| self.kind(*p).is_code());
            if let Some(parent) = around {
                let end = slice.end().min(parent.end());
                let inside = (end - slice.ts()).get().max(0);
                sums[parent.id().index()] += inside;
            }
        }
        sums
    }
}

/// What the name of a track says about device work on it.
pub(crate) fn lane_of(trace: &Trace, track: TrackId) -> Option<DeviceLane> {
    DeviceLane::of_name(trace.text(trace.track(track).name?))
}

/// Adds the categories of the reference's recorder.
fn with_recorder(vocabulary: Vocabulary) -> Vocabulary {
    vocabulary
        .with_activity("python", "*", Activity::PythonFunction)
        .with_activity("memcpy", "*", Activity::GpuMemcpy)
        .with_activity("memset", "*", Activity::GpuMemset)
}

/// What each slice is. A kernel communicates by its name, or by the operator that launched it; unless that is needed, all
/// kernels compute.
fn kinds(index: &TraceIndex<'_>, has_communication: bool) -> Vec<Kind> {
    let trace = index.trace();
    let vocabulary = index.vocabulary();
    let categories: Vec<&str> = trace.categories().map(|c| c.1).collect();
    let mut cache: FxHashMap<(Option<usize>, Option<StrId>), Kind> = FxHashMap::default();
    let mut last = ((None, None), Kind::Other);
    let mut kinds: Vec<Kind> = trace
        .slices()
        .map(|slice| {
            let key = (slice.category_id().index(), slice.name_id());
            if key == last.0 {
                return last.1;
            }
            let kind = *cache.entry(key).or_insert_with(|| {
                let category = key.0.and_then(|i| categories.get(i)).copied().unwrap_or("");
                kind_of(vocabulary, category, slice.name().unwrap_or(""))
            });
            last = (key, kind);
            kind
        })
        .collect();
    let kernels = index.kernels().filter(|_| has_communication);
    for kernel in kernels.filter(|s| index.is_collective(*s)) {
        let kind = &mut kinds[kernel.id().index()];
        if *kind == Kind::Compute {
            *kind = Kind::Communication;
        }
    }
    kinds
}

fn kind_of(vocabulary: &Vocabulary, category: &str, name: &str) -> Kind {
    let starts = |word: &str| {
        name.get(..word.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    match name {
        "mmap" | "mprotect" | "munmap" => return Kind::SyscallMemory,
        "runq" => return Kind::RunQueue,
        "read" | "readv" | "write" if category == "CAT_DISK" => return Kind::Disk,
        _ if starts("oncpu") => return Kind::OnCpu,
        _ if starts("gc.collect") || starts("python_gc") => return Kind::Overhead,
        _ => {}
    }
    // Probes in user space: the name says what it is.
    let category = match category {
        "CAT_APP" if starts("cu") || starts("hip") => "cuda_runtime",
        "CAT_APP" if starts("nccl") => "rccl_api",
        other => other,
    };
    match vocabulary.activity(category, name) {
        Activity::PythonFunction => Kind::Python,
        Activity::CpuOp => Kind::Op,
        Activity::UserAnnotation => Kind::Annotation,
        Activity::Launch | Activity::MemcpyApi if is_blocking_copy(name) => Kind::Sync,
        Activity::Launch | Activity::GraphLaunch | Activity::MemcpyApi | Activity::MemsetApi => {
            Kind::Launch
        }
        Activity::SyncApi => Kind::Sync,
        Activity::OtherApi | Activity::CollectiveApi => Kind::Api,
        Activity::Kernel | Activity::GpuGraph => Kind::Compute,
        Activity::GpuMemcpy | Activity::GpuMemset => Kind::Copy,
        Activity::Overhead => Kind::Overhead,
        _ => Kind::Other,
    }
}

fn counters(trace: &Trace, origins: &Origins) -> Vec<Counter> {
    let mut place: FxHashMap<usize, usize> = FxHashMap::default();
    let mut list: Vec<Counter> = Vec::new();
    for sample in trace.counters().iter() {
        let at = *place.entry(sample.track.index()).or_insert_with(|| {
            let track = trace.track(sample.track);
            let full = track.name.map_or("", |n| trace.text(n));
            let name = full.strip_suffix(" value").unwrap_or(full);
            let origin = origins.of(sample.track);
            let (name, instance) = identity(name, &origin.tid);
            list.push(Counter {
                name,
                host: origin.host.clone(),
                instance,
                samples: Vec::new(),
            });
            list.len() - 1
        });
        list[at].samples.push((sample.ts.nanos(), sample.value));
    }
    list.sort_by(|a, b| (&a.name, &a.host, a.instance).cmp(&(&b.name, &b.host, b.instance)));
    list
}

/// A counter's name without the number behind it, and its instance: the device in the thread's
/// text, else that number, which may be written as a real.
pub(crate) fn identity(name: &str, tid: &str) -> (String, i64) {
    if let Some(at) = tid.rfind("CAT_")
        && let Some((_, digits)) = tid[at..].rsplit_once('_')
        && let Ok(instance) = digits.parse()
    {
        return (name.to_owned(), instance);
    }
    if let Some((head, tail)) = name.rsplit_once('_') {
        if let Ok(instance) = tail.parse::<i64>() {
            return (head.to_owned(), instance);
        }
        if tail.starts_with(|c: char| c.is_ascii_digit())
            && let Ok(value) = tail.parse::<f64>()
        {
            return (head.to_owned(), crate::num::nanos(value));
        }
    }
    (name.to_owned(), -1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_instances() {
        for (name, tid, want) in [
            ("gpu_usage", "CAT_XPU_7", ("gpu_usage", 7)),
            ("process_cpu_usage_4000", "p", ("process_cpu_usage", 4000)),
            (
                "process_cpu_usage_1.571875e+06",
                "",
                ("process_cpu_usage", 1_571_875),
            ),
            ("cpu_frequency", "CAT_CPU_12", ("cpu_frequency", 12)),
            ("host_cpu_usage", "h", ("host_cpu_usage", -1)),
        ] {
            assert_eq!(identity(name, tid), (want.0.to_owned(), want.1));
        }
    }

    #[test]
    fn names_and_categories_say_what_slices_are() {
        let v = with_recorder(Vocabulary::default());
        for (category, name, want) in [
            ("python", "Scheduler.run_batch", Kind::Python),
            ("python_function", "a.py(1): f", Kind::Python),
            ("kernel", "gemm", Kind::Compute),
            ("Memcpy", "Memcpy DtoH", Kind::Copy),
            ("CAT_APP", "cuStreamSynchronize", Kind::Sync),
            ("CAT_APP", "ncclAllReduce", Kind::Api),
            ("cuda_runtime", "cudaGraphLaunch", Kind::Launch),
            ("CAT_CPU", "oncpu 3", Kind::OnCpu),
            ("CAT_DISK", "write", Kind::Disk),
        ] {
            assert_eq!(kind_of(&v, category, name), want, "{name}");
        }
    }
}
