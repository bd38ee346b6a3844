//! What is kept of one recording, so that its trace can be dropped before the next one is read.

use critical_path::{Mark, Part, PartOptions};
use gpu_time::comm::{CommRules, RankDigest};
use gpu_time::{GpuWork, KernelOptions, KernelsBy, MemoryLines, Recorder};
use rustc_hash::FxHashMap;
use trace_model::StrId;
use trace_model::interval::Interval;
use trace_model::kernel::collective::CollectiveOp;
use trace_model::kernel::{Activity, KernelClass, TraceIndex};
use trace_model::{Rank, Severity, Slice, Trace};

use crate::document::Side;
use crate::examples::Examples;
use crate::limits::{Limits, ModuleCall, limits_of};
use crate::program::Program;
use crate::ranges::ranges_of;

/// Keys of arguments, without prefix, that [`Recording::new`] reads.
pub fn arg_keys() -> Vec<String> {
    let keys = critical_path::ARG_KEYS
        .iter()
        .chain(rca_cycles::ARG_KEYS)
        .chain(roofline::ARG_KEYS)
        .chain(gpu_time::MEMORY_KEYS);
    let mut keys: Vec<String> = keys.map(|key| (*key).to_owned()).collect();
    keys.extend(gpu_time::comm::arg_keys());
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// A call of the runtime or driver other than a plain launch.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) kind: Activity,
    pub(crate) begin_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) id: u64,
    pub(crate) name: String,
    /// The operator and the Python function around it.
    pub(crate) within: Vec<String>,
}

impl Call {
    /// What is around it, outermost first.
    pub(crate) fn stack(&self) -> Vec<String> {
        let names = self.within.iter().rev();
        names.map(|name| crate::numbers::plain(name, 200)).collect()
    }
}

/// A kernel, by name.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) calls: u64,
    pub(crate) total_ns: i64,
    pub(crate) share_pct: f64,
}

/// A run of a kernel that computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelRun {
    pub(crate) begin_ns: i64,
    pub(crate) duration_ns: u32,
    /// Number of its name.
    pub(crate) name: u32,
}

/// Allocated memory at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryAt {
    pub(crate) at_ns: i64,
    pub(crate) bytes: u64,
}

/// What is kept of one recording.
#[derive(Debug)]
pub struct Recording {
    pub(crate) facts: Facts,
    pub(crate) part: Part,
    pub(crate) digest: RankDigest,
}

/// What is kept of one recording besides its part of the graph and its collectives.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Path as given or found.
    pub(crate) name: String,
    pub(crate) rank: u32,
    pub(crate) side: Side,
    pub(crate) format: String,
    pub(crate) world_size: Option<u32>,
    /// Number of the device with most activities, if any.
    pub(crate) device: Option<i64>,
    /// What was added to its times, in the middle of the recording.
    pub(crate) clock_shift_ns: i64,
    pub(crate) steps_by: &'static str,
    pub(crate) recorder: Recorder,
    pub(crate) has_calls: bool,
    /// Its calls include one that waits for the GPU, as every recorder makes one at its end, or are few.
    pub(crate) has_waits: bool,
    pub(crate) has_python: bool,
    pub(crate) program: Program,
    /// Ranges that the program marked within its steps, the outermost ones: begin, end and place of the name.
    pub(crate) ranges: Vec<(i64, i64, u32)>,
    pub(crate) range_names: Vec<String>,
    pub(crate) has_work: bool,
    /// A capture of its graphs was given.
    pub(crate) has_capture: bool,
    /// It captures a graph and replays none: its launches ran on no GPU.
    pub(crate) is_capture: bool,
    /// When captures of graphs begin, ascending.
    pub(crate) captures_at: Vec<i64>,
    /// The file ends before the recording does.
    pub(crate) is_cut: bool,
    /// Graphs that were recorded as a whole, without their kernels.
    pub(crate) graphs_whole: u64,
    /// Share of the recording that recording the host's events took, estimated, in percent.
    pub(crate) recorder_pct: f64,
    pub(crate) no_work: Option<String>,
    pub(crate) examples: Examples,
    pub(crate) calls: Vec<Call>,
    /// Begins of launches other than of graphs, ascending.
    pub(crate) launches: Vec<i64>,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) memory: Vec<MemoryAt>,
    /// Begin, duration and place of the name of each kernel, ascending.
    pub(crate) runs: Vec<KernelRun>,
    /// The numbers of the names of these.
    pub(crate) run_names: FxHashMap<String, u32>,
    /// Host stacks that launched GPU time, outermost function first, most time first.
    pub(crate) stacks: Vec<(Vec<String>, i64)>,
    /// When the recorder worked and the GPU did not, ascending and apart.
    pub(crate) recording_at: Vec<Interval>,
    /// When the GPU worked, ascending and apart.
    pub(crate) busy: Vec<Interval>,
    /// When kernels other than collectives ran, ascending and apart.
    pub(crate) computing: Vec<Interval>,
    /// Messages between two ranks, ascending in start.
    pub(crate) messages: Vec<Interval>,
    pub(crate) limits: Limits,
    /// Products by module, ascending.
    pub(crate) modules: Vec<ModuleCall>,
    pub(crate) module_names: Vec<String>,
    pub(crate) lost: u64,
    /// What the reader or the format found wrong: name and sentence.
    pub(crate) notes: Vec<(String, String)>,
}

impl Facts {
    /// Moves all times to another clock.
    pub(crate) fn shift(&mut self, to: impl Fn(i64) -> i64) {
        for call in &mut self.calls {
            (call.begin_ns, call.end_ns) = (to(call.begin_ns), to(call.end_ns));
        }
        let own = self.launches.iter_mut().chain(&mut self.captures_at);
        own.for_each(|at| *at = to(*at));
        for point in &mut self.memory {
            point.at_ns = to(point.at_ns);
        }
        let own = self.recording_at.iter_mut().chain(&mut self.busy);
        let own = own.chain(&mut self.messages);
        for (begin, end) in own.chain(&mut self.computing) {
            (*begin, *end) = (to(*begin), to(*end));
        }
        for run in &mut self.runs {
            run.begin_ns = to(run.begin_ns);
        }
        for call in self
            .limits
            .kinds
            .iter_mut()
            .flat_map(|kind| &mut kind.calls)
        {
            call.0 = to(call.0);
        }
        for range in &mut self.ranges {
            (range.0, range.1) = (to(range.0), to(range.1));
        }
        for call in &mut self.modules {
            call.at_ns = to(call.at_ns);
        }
        for step in &mut self.limits.steps {
            step.host_ns = (to(step.host_ns.0), to(step.host_ns.1));
        }
        self.examples.shift(&to);
    }

    /// Returns the number of launches that begin in an interval.
    pub(crate) fn launches_in(&self, (begin, end): (i64, i64)) -> u64 {
        let before = |at: i64| self.launches.partition_point(|launch| *launch < at);
        before(end).saturating_sub(before(begin)) as u64
    }

    /// Returns the durations of the runs of a kernel that begin in an interval.
    pub(crate) fn runs_in(&self, name: &str, (begin, end): Interval) -> Vec<i64> {
        let Some(number) = self.run_names.get(name) else {
            return Vec::new();
        };
        let from = self.runs.partition_point(|run| run.begin_ns < begin);
        let own = self.runs.get(from..).unwrap_or_default().iter();
        let own = own.take_while(|run| run.begin_ns < end);
        let own = own.filter(|run| run.name == *number);
        own.map(|run| i64::from(run.duration_ns)).collect()
    }

    /// Returns the calls that begin in an interval.
    pub(crate) fn calls_in(&self, (begin, end): (i64, i64)) -> impl Iterator<Item = &Call> {
        let from = self.calls.partition_point(|call| call.begin_ns < begin);
        let calls = self.calls.get(from..).unwrap_or_default().iter();
        calls.take_while(move |call| call.begin_ns < end)
    }
}

/// How a recording is read.
#[derive(Clone, Debug, Default)]
pub struct RecordingOptions {
    /// Steps are slices of this name; default is what the engine marks, else its cycles.
    pub step_pattern: Option<String>,
    /// `true` to take the whole recording as one step.
    pub whole: bool,
}

/// Maximum number of points of memory over time.
const MEMORY_POINTS: u32 = 200;

impl Recording {
    /// Reduces a trace. Cost: a few passes over it, and the path of each step later.
    pub fn new(name: &str, trace: &Trace, options: &RecordingOptions) -> Self {
        Self::with_captures(name, trace, &[], options)
    }

    /// The same with the recordings of the captures of graphs that it replays, which hold the sizes of their operators.
    pub fn with_captures(
        name: &str,
        trace: &Trace,
        captures: &[&Trace],
        options: &RecordingOptions,
    ) -> Self {
        let work = GpuWork::new(trace);
        let index = work.index();
        let (marks, steps_by) = find_marks(index, options);
        let meta = trace.meta();
        let digest = RankDigest::of_part(name, index, CommRules::Extended, |_| true);
        let part = Part::new(index, digest.rank.0, &marks, PartOptions::default());
        let has_work = !work.events().is_empty();
        let issues = trace.diagnostics().issues().iter();
        let is_cut = issues.clone().any(|issue| TRUNCATED.contains(&issue.kind));
        let lost = issues.filter(|issue| issue.kind.severity() != Severity::Info);
        let lost = lost.filter(|issue| issue.kind != trace_model::IssueKind::Overlap);
        let mut notes: Vec<(String, String)> = Vec::new();
        let mut lost_events = 0;
        for issue in lost {
            lost_events += issue.count;
            let text = format!("{} ({} times)", issue.kind.explanation(), issue.count);
            notes.push((issue.kind.name().to_owned(), text));
        }
        for limit in meta.limits.iter().filter(|limit| limit.is_reason) {
            notes.push((limit.code.to_owned(), limit.text.clone()));
        }
        let no_work = match (has_work, is_cut) {
            (true, _) => None,
            (_, true) => Some("the file ends early, before any GPU activity".to_owned()),
            (_, false) => gpu_time::no_gpu_work(index).map(|why| why.text),
        };
        let (calls, launches) = calls_of(index);
        let (has_python, host_events) = host_events(trace, index);
        let recorder = Recorder::of(trace);
        let (ranges, range_names) = ranges_of(index, &marks);
        let is_capture = index.launch_calls().is_capture;
        let span = trace.span();
        let span_ns = span.end.nanos().saturating_sub(span.start.nanos());
        let runs = runs_of(&work);
        let captures: Vec<GpuWork<'_>> = captures.iter().map(|trace| GpuWork::new(trace)).collect();
        let (limits, modules, module_names) = limits_of(&work, &captures);
        let messages = messages_of(&digest);
        let facts = Facts {
            name: name.to_owned(),
            rank: digest.rank.0,
            messages,
            side: Side::Only,
            format: meta.format.to_owned(),
            world_size: meta.distributed.as_ref().and_then(|job| job.world_size),
            device: device_of(&work),
            clock_shift_ns: 0,
            steps_by,
            recorder,
            has_calls: !index.activities().calls().is_empty(),
            has_waits: has_waits(index),
            has_python,
            program: Program::of(trace, recorder, has_python),
            ranges,
            range_names,
            has_work,
            has_capture: !captures.is_empty(),
            is_capture,
            captures_at: captures_at(index),
            is_cut,
            graphs_whole: digest.graphs_whole,
            recorder_pct: crate::numbers::share(host_events.saturating_mul(EVENT_NS), span_ns),
            no_work,
            examples: Examples::new(&work),
            calls,
            launches,
            kernels: kernels_of(&work),
            memory: memory_of(trace),
            run_names: run_names(&runs, trace),
            runs,
            stacks: stacks_of(&work),
            recording_at: recorder_of(index, &busy_of(&work)),
            busy: busy_of(&work),
            computing: computing_of(&work),
            limits,
            modules,
            module_names,
            lost: lost_events,
            notes,
        };
        Self {
            facts,
            part,
            digest,
        }
    }

    /// Returns the path as given or found.
    pub fn name(&self) -> &str {
        &self.facts.name
    }

    /// Returns `true` if it captures a graph and replays none.
    pub fn is_capture(&self) -> bool {
        self.facts.is_capture
    }

    /// Returns `true` if it replays graphs.
    pub fn replays_graphs(&self) -> bool {
        let mut calls = self.facts.calls.iter();
        calls.any(|call| call.kind == Activity::GraphLaunch)
    }

    /// Returns its format.
    pub fn format(&self) -> &str {
        &self.facts.format
    }

    /// Returns its side.
    pub fn side(&self) -> Side {
        self.facts.side
    }

    /// Returns its rank, as far as the recording or its name gives it.
    pub fn rank(&self) -> u32 {
        self.digest.rank.0
    }

    /// Returns why it holds no GPU activity, if it holds none.
    pub fn no_gpu_work(&self) -> Option<&str> {
        self.facts.no_work.as_deref()
    }

    /// Returns `true` if it holds GPU activity.
    pub fn has_gpu_work(&self) -> bool {
        self.facts.has_work
    }

    /// Puts it on a side.
    pub fn set_side(&mut self, side: Side) {
        self.facts.side = side;
    }

    /// Overrules its rank.
    pub fn set_rank(&mut self, rank: u32) {
        self.facts.rank = rank;
        self.digest.rank = Rank(rank);
        self.digest.rank_source = gpu_time::comm::RankSource::Stated;
    }
}

/// Time that a profiler takes to record an event of the host, about, in nanoseconds.
const EVENT_NS: i64 = 1_000;

/// Returns whether Python functions are recorded, and the number of events of the host.
fn host_events(trace: &Trace, index: &TraceIndex<'_>) -> (bool, i64) {
    let (mut has_python, mut count) = (false, 0);
    for slice in trace.slices() {
        let activity = index.activity(slice);
        has_python |= activity == Activity::PythonFunction || slice.category() == Some("python");
        count += i64::from(activity.is_on_host());
    }
    (has_python, count)
}

/// Issues of files that end before the recording does.
const TRUNCATED: [trace_model::IssueKind; 2] = [
    trace_model::IssueKind::TruncatedTail,
    trace_model::IssueKind::TruncatedJson,
];

/// Returns when captures of graphs begin, ascending.
fn captures_at(index: &TraceIndex<'_>) -> Vec<i64> {
    let trace = index.trace();
    let calls = index.activities().calls().iter().map(|id| trace.slice(*id));
    let begins = calls.filter(|call| {
        call.name()
            .is_some_and(|n| n.contains("StreamBeginCapture"))
    });
    let mut begins: Vec<i64> = begins.map(|call| call.ts().nanos()).collect();
    begins.sort_unstable();
    begins
}

/// Returns when messages between two ranks were under way.
fn messages_of(digest: &RankDigest) -> Vec<Interval> {
    let is_message = |run: &&gpu_time::comm::Run| {
        let kind = digest.kinds.get(run.kind as usize);
        kind.is_some_and(|kind| {
            matches!(kind.op, Some(CollectiveOp::Send | CollectiveOp::Recv))
                || kind.pair(digest.rank.0).is_some()
        })
    };
    let runs = digest.runs.iter().filter(is_message);
    runs.map(|run| (run.start_ns, run.end_ns)).collect()
}

/// Returns the marks of the engine, else the cycles of its loop, else none: then the whole trace is one step.
fn find_marks(index: &TraceIndex<'_>, options: &RecordingOptions) -> (Vec<Mark>, &'static str) {
    match options.whole {
        true => (Vec::new(), "whole"),
        false => {
            let (marks, by) = rca_cycles::step_marks(index, options.step_pattern.as_deref());
            let is_nameless = by == "cycle" && marks.iter().all(|mark| mark.name == "unknown");
            match is_nameless && marks.len() < LEAST_CYCLES {
                true => (Vec::new(), "whole"),
                false => (marks, by),
            }
        }
    }
}

/// Fewer repetitions than this of what no engine marks are no loop.
const LEAST_CYCLES: usize = 3;

/// Allocations and releases of GPU memory.
pub(crate) fn is_allocation(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "Malloc",
        "MemAlloc",
        "HostAlloc",
        "MemCreate",
        "MemMap",
        "Free",
        "MemUnmap",
        "MemRelease",
    ];
    let is_runtime = ["cuda", "hip", "cu"].iter().any(|p| name.starts_with(p));
    is_runtime && NAMES.iter().any(|part| name.contains(part)) && !name.contains("Async")
}

/// Calls other than launches that are short tell nothing.
const LEAST_CALL_NS: i64 = 2_000;

/// Number of launches from which a recording without a single wait for the GPU is taken for one that was thinned out.
const MANY_LAUNCHES: usize = 100;

fn has_waits(index: &TraceIndex<'_>) -> bool {
    let calls = index.activities().calls().iter();
    let mut kinds = calls.map(|id| index.activity(index.trace().slice(*id)));
    let mut launches = 0;
    let found = kinds.any(|kind| {
        launches += usize::from(kind == Activity::Launch);
        kind == Activity::SyncApi
    });
    found || launches < MANY_LAUNCHES
}

fn calls_of(index: &TraceIndex<'_>) -> (Vec<Call>, Vec<i64>) {
    let trace = index.trace();
    let (mut calls, mut launches) = (Vec::new(), Vec::new());
    for id in index.activities().calls() {
        let slice = trace.slice(*id);
        let (begin_ns, end_ns) = (slice.ts().nanos(), slice.end().nanos());
        let kind = index.activity(slice);
        let name = slice.name().unwrap_or("");
        match kind {
            Activity::Launch => launches.push(begin_ns),
            Activity::GraphLaunch => {}
            Activity::SyncApi | Activity::MemcpyApi | Activity::OtherApi
                if end_ns - begin_ns < LEAST_CALL_NS =>
            {
                continue;
            }
            Activity::SyncApi | Activity::MemcpyApi => {}
            Activity::OtherApi if is_allocation(name) => {}
            _ => continue,
        }
        if kind == Activity::Launch {
            continue;
        }
        // Versioned names of one call lie within each other.
        let outer = slice.ancestors().next();
        if outer.is_some_and(|outer| index.activity(outer) == kind) {
            continue;
        }
        let within = match kind {
            Activity::GraphLaunch => Vec::new(),
            _ => around(index, slice),
        };
        calls.push(Call {
            kind,
            begin_ns,
            end_ns,
            id: id.index() as u64,
            name: name.to_owned(),
            within,
        });
    }
    launches.sort_unstable();
    calls.sort_by_key(|call: &Call| (call.begin_ns, call.id));
    (calls, launches)
}

/// Returns the outermost known operator of those directly around a call, and the Python function around it.
fn around(index: &TraceIndex<'_>, call: Slice<'_>) -> Vec<String> {
    let mut out = Vec::new();
    let mut operator = None;
    for slice in call.ancestors() {
        match index.activity(slice) {
            Activity::CpuOp => operator = slice.name(),
            Activity::PythonFunction => {
                out.extend(operator.map(str::to_owned));
                out.extend(slice.name().map(str::to_owned));
                return out;
            }
            _ => {}
        }
    }
    out.extend(operator.map(str::to_owned));
    out
}

fn kernels_of(work: &GpuWork<'_>) -> Vec<Kernel> {
    let mut options = KernelOptions::default();
    options.by = KernelsBy::Name;
    let all = gpu_time::kernels(work, work.events(), &options);
    let rows = all.groups.into_iter();
    let rows = rows.map(|group| Kernel {
        class: group
            .class
            .map_or("memcpy", |class| class.name())
            .to_owned(),
        calls: group.spread.count,
        total_ns: group.spread.sum_ns,
        share_pct: group.share_gpu_pct,
        name: group.name,
    });
    let mut rows: Vec<Kernel> = rows.collect();
    rows.sort_by(|a, b| {
        b.total_ns
            .cmp(&a.total_ns)
            .then_with(|| a.name.cmp(&b.name))
    });
    rows
}

fn memory_of(trace: &Trace) -> Vec<MemoryAt> {
    let memory = MemoryLines::new(trace).within(None, MEMORY_POINTS);
    let points = memory.series.iter().map(|point| MemoryAt {
        at_ns: point.start_ns,
        bytes: u64::try_from(point.peak_bytes).unwrap_or(0),
    });
    points.collect()
}

fn runs_of(work: &GpuWork<'_>) -> Vec<KernelRun> {
    let index = work.index();
    let events = work.events().iter();
    let events = events.filter(|event| event.kind == gpu_time::WorkKind::Kernel);
    let runs = events.filter_map(|event| {
        let is_collective = index.class(work.slice(event)) == KernelClass::Collective;
        (!is_collective).then(|| KernelRun {
            begin_ns: event.start_ns,
            duration_ns: u32::try_from(event.dur_ns()).unwrap_or(u32::MAX),
            name: event.name.map_or(u32::MAX, |name| {
                u32::try_from(name.index()).unwrap_or(u32::MAX)
            }),
        })
    });
    runs.collect()
}

/// Returns the numbers of the names of kernels.
fn run_names(runs: &[KernelRun], trace: &Trace) -> FxHashMap<String, u32> {
    let mut numbers: Vec<u32> = runs.iter().map(|run| run.name).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let texts = trace.strings().iter();
    let named = texts.filter_map(|(id, text)| {
        let number = u32::try_from(id.index()).ok()?;
        numbers.binary_search(&number).ok()?;
        Some((text.to_owned(), number))
    });
    named.collect()
}

/// Returns when the recorder worked while the GPU had nothing to do.
fn recorder_of(index: &TraceIndex<'_>, busy: &[Interval]) -> Vec<Interval> {
    let slices = index.trace().slices();
    let own = slices.filter(|slice| index.activity(*slice) == Activity::Overhead);
    let mut all: Vec<Interval> = own
        .map(|slice| (slice.ts().nanos(), slice.end().nanos()))
        .filter(|(begin, end)| end > begin)
        .collect();
    all.sort_unstable();
    let mut out: Vec<Interval> = Vec::new();
    let mut last = i64::MIN;
    for (begin, end) in all {
        let mut at = begin.max(last);
        last = last.max(end);
        let from = busy.partition_point(|(_, end)| *end <= at);
        for (first, second) in busy.get(from..).unwrap_or_default() {
            if *first >= end {
                break;
            }
            if at < *first {
                out.push((at, *first));
            }
            at = at.max(*second);
        }
        if at < end {
            out.push((at, end));
        }
    }
    out
}

/// Number of stacks kept.
const STACKS: usize = 400;

/// Maximum number of frames of a stack.
const FRAMES: usize = 48;

fn stacks_of(work: &GpuWork<'_>) -> Vec<(Vec<String>, i64)> {
    let index = work.index();
    let mut sums: FxHashMap<Vec<StrId>, i64> = FxHashMap::default();
    let mut frames: Vec<StrId> = Vec::new();
    for event in work.events() {
        let Some(launch) = work.launch_of(event) else {
            continue;
        };
        frames.clear();
        let around = launch.ancestors().filter(|slice| {
            matches!(
                index.activity(*slice),
                Activity::PythonFunction | Activity::CpuOp | Activity::UserAnnotation
            )
        });
        frames.extend(around.filter_map(Slice::name_id).take(FRAMES));
        match sums.get_mut(&frames) {
            Some(sum) => *sum += event.dur_ns(),
            None => {
                sums.insert(frames.clone(), event.dur_ns());
            }
        }
    }
    let mut all: Vec<(Vec<StrId>, i64)> = sums.into_iter().collect();
    all.sort_by(|a, b| {
        let key = |frames: &[StrId]| frames.iter().map(|id| id.index()).collect::<Vec<_>>();
        b.1.cmp(&a.1).then_with(|| key(&a.0).cmp(&key(&b.0)))
    });
    all.truncate(STACKS);
    let text = |id: &StrId| crate::numbers::plain(work.trace().text(*id), 200);
    let named = all
        .into_iter()
        .map(|(frames, ns)| (frames.iter().rev().map(text).collect(), ns));
    named.collect()
}

/// Returns the device with most activities.
fn device_of(work: &GpuWork<'_>) -> Option<i64> {
    let mut counts: std::collections::BTreeMap<i64, u64> = std::collections::BTreeMap::new();
    for event in work.events() {
        *counts.entry(event.device.0).or_default() += 1;
    }
    let most = counts
        .into_iter()
        .max_by_key(|(device, count)| (*count, std::cmp::Reverse(*device)));
    most.map(|(device, _)| device)
}

fn busy_of(work: &GpuWork<'_>) -> Vec<Interval> {
    union(work, |_| true)
}

/// Returns when kernels other than collectives ran.
fn computing_of(work: &GpuWork<'_>) -> Vec<Interval> {
    let index = work.index();
    union(work, |event| {
        event.kind == gpu_time::WorkKind::Kernel
            && index.class(work.slice(event)) != KernelClass::Collective
    })
}

fn union(work: &GpuWork<'_>, takes: impl Fn(&gpu_time::GpuEvent) -> bool) -> Vec<Interval> {
    let mut out: Vec<Interval> = Vec::new();
    for event in work.events().iter().filter(|event| takes(event)) {
        match out.last_mut() {
            Some(last) if event.start_ns <= last.1 => last.1 = last.1.max(event.end_ns),
            _ => out.push((event.start_ns, event.end_ns)),
        }
    }
    out
}
