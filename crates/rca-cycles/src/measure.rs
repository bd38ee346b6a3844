//! What each cycle spent its time on.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trace_model::interval::{Interval, IntervalSet};
use trace_model::kernel::KernelClass;
use trace_model::{Slice, SliceId, StrId, TimeRange, Timestamp, Waiting};

use crate::cut::Cuts;
use crate::num::median;
use crate::spanning::Spanning;
use crate::timeline::{Kind, Timeline};
use crate::waits::{self, Feed};

/// Where the time of a cycle went; the parts add up to its length exactly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Gaps {
    /// The device computed or copied.
    pub gpu_busy_ns: i64,
    /// It only communicated.
    pub exposed_communication_ns: i64,
    /// It was free, and the host waited for it or had just done so.
    pub synchronisation_ns: i64,
    /// It was free, and the host ran code.
    pub exposed_host_ns: i64,
    /// Neither did anything.
    pub idle_ns: i64,
}

impl Gaps {
    /// The length of the cycle.
    pub fn total_ns(&self) -> i64 {
        self.gpu_busy_ns
            + self.exposed_communication_ns
            + self.synchronisation_ns
            + self.exposed_host_ns
            + self.idle_ns
    }
}

/// From launch to start of the work of a cycle.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Launches {
    /// Work with a known launch.
    pub count: usize,
    /// Calls that launched it: a graph is one call.
    pub calls: usize,
    /// How many of these launched a graph.
    pub graphs: usize,
    /// Longest time between two of these calls, or between them and the bounds of the host's part, ns.
    pub widest_gap_ns: i64,
    /// Median time from such a call to the start of its first work, ns.
    pub lead_median_ns: f64,
    /// Median of start of work minus start of call, less the time its stream was taken.
    pub latency_median_ns: f64,
    /// Median time work waited for its stream.
    pub queue_median_ns: f64,
    /// Sum of the time work waited for its stream.
    pub queue_total_ns: i64,
}

/// A function or kernel in the cycles it occurs in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Function {
    /// Name as in the trace.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// What a kernel computes, by what launched it (where launches differ, of most of its time); none otherwise.
    pub class: Option<KernelClass>,
    /// What a function of the host that only waits for something else than the device waits for; calls of one name that wait
    /// for different things are functions of their own.
    pub waits: Option<Wait>,
    /// Which process.
    pub process: u32,
    /// Device of its work, -1 of the host.
    pub device: i64,
    /// By cycle, in order: what it cost there.
    pub cells: Vec<Cell>,
    /// Time of calls of other classes than `class`, by cycle, ns: launches decide the class of a kernel, and one name has several.
    pub(crate) other_classes: Vec<(u32, KernelClass, i64)>,
}

/// What the host waits for, other than the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Wait {
    /// Input from outside: it waits inside a function that takes requests or loads data, or, while the device is idle, for an item
    /// of a queue.
    Requests,
    /// A lock, another thread or process, a timer.
    Other,
}

impl Wait {
    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Other => "blocked",
        }
    }
}

/// A function in one cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cell {
    /// Index of the cycle.
    pub cycle: u32,
    /// Own time, ns: without the functions it calls.
    pub self_ns: i64,
    /// Time with the functions it calls, ns.
    pub total_ns: i64,
    /// Calls.
    pub calls: u32,
    /// Bytes that copies moved; 0 of all else and where unknown.
    pub bytes: i64,
    /// Its longest event, as evidence.
    pub longest: SliceId,
    /// Own time of that, ns.
    pub longest_ns: i64,
    /// Which of the calls in this cycle it is, in order of time from 0.
    pub longest_call: u32,
    /// Own time of the shortest call, ns.
    pub shortest_ns: i64,
    /// From when to when it was, ns.
    pub longest_at: (i64, i64),
}

pub(crate) fn functions(timeline: &Timeline<'_>, cuts: &Cuts) -> Vec<Function> {
    type Key = (StrId, Kind, u32, i64, Option<Wait>);
    type Event = (SliceId, (i64, i64));
    type Amounts = (u32, i64, i64, i64);
    let mut index: FxHashMap<Key, usize> = FxHashMap::default();
    let mut list: Vec<(Key, Vec<Cell>)> = Vec::new();
    let mut add =
        |key: Key, cycle: u32, (slice, at_ns): Event, (calls, own, total, bytes): Amounts| {
            let at = *index.entry(key).or_insert_with(|| {
                list.push((key, Vec::new()));
                list.len() - 1
            });
            let cells = &mut list[at].1;
            // Nearly always the last; work on the device may be out of order by a few.
            let place = match cells.last() {
                Some(last) if last.cycle == cycle => cells.len() - 1,
                Some(last) if last.cycle > cycle => cells.partition_point(|c| c.cycle < cycle),
                _ => cells.len(),
            };
            if cells.get(place).is_none_or(|c| c.cycle != cycle) {
                cells.insert(
                    place,
                    Cell {
                        cycle,
                        self_ns: 0,
                        total_ns: 0,
                        calls: 0,
                        bytes: 0,
                        longest: slice,
                        longest_ns: -1,
                        longest_call: 0,
                        shortest_ns: i64::MAX,
                        longest_at: at_ns,
                    },
                );
            }
            let cell = &mut cells[place];
            if own > cell.longest_ns {
                (cell.longest, cell.longest_ns, cell.longest_at) = (slice, own, at_ns);
                cell.longest_call = cell.calls;
            }
            cell.shortest_ns = cell.shortest_ns.min(own);
            cell.self_ns += own;
            cell.total_ns += total;
            cell.calls += calls;
            cell.bytes = cell.bytes.saturating_add(bytes);
        };
    let over = Spanning::new(timeline, cuts);
    let mut waiting = HostWaits::default();
    let ranges = Ranges::new(timeline);
    for slice in timeline.trace.slices() {
        let kind = timeline.kind(slice);
        let counts = kind.is_code()
            || ranges.count(timeline, slice)
            || matches!(
                kind,
                Kind::OnCpu | Kind::RunQueue | Kind::Disk | Kind::SyscallMemory
            );
        let Some(name) = slice.name_id().filter(|_| counts) else {
            continue;
        };
        let process = timeline.process(slice);
        let waits = waiting.of((timeline, cuts), slice, name, kind);
        let key = (name, kind, process, -1, waits);
        if let Some(parts) = over.of.get(&slice.id()) {
            // A call that reaches over several cycles is called once, in the first of them that sees its begin.
            for part in parts.values() {
                let calls = u32::from(part.at.0 == slice.ts().nanos());
                if part.own_ns > 0 || calls > 0 {
                    let total = part.at.1 - part.at.0;
                    let event = (slice.id(), part.at);
                    add(
                        key,
                        part.cycle,
                        event,
                        (calls, part.own_ns.max(0), total, 0),
                    );
                }
            }
            continue;
        }
        let Some(cycle) = cuts.at(process, slice.ts().nanos()) else {
            continue;
        };
        let total = slice.range().duration().get();
        let own = if kind.is_code() {
            timeline.self_ns(slice)
        } else if kind == Kind::Annotation {
            (total - ranges.inside(slice.id())).max(0)
        } else {
            total
        };
        let recursive = slice.ancestors().take(8).any(|a| a.name_id() == Some(name));
        let total = if recursive { 0 } else { total };
        let event = (slice.id(), (slice.ts().nanos(), slice.end().nanos()));
        add(key, cycle, event, (1, own, total, 0));
    }
    let mut classes: FxHashMap<Key, BTreeMap<KernelClass, BTreeMap<u32, i64>>> =
        FxHashMap::default();
    for work in &timeline.work {
        let at = work.launch.map_or(work.ts, |l| l.1);
        if let Some(cycle) = cuts.at(work.process, at) {
            let dur = work.end - work.ts;
            let key = (work.name, work.kind, work.process, work.device, None);
            if let Some(class) = work.class {
                let of_class = classes.entry(key).or_default().entry(class).or_default();
                *of_class.entry(cycle).or_default() += dur;
            }
            add(
                key,
                cycle,
                (work.slice, (work.ts, work.end)),
                (1, dur, dur, work.bytes),
            );
        }
    }
    list.into_iter()
        .map(|(key @ (name, kind, process, device, waits), cells)| {
            let own = classes.remove(&key).unwrap_or_default();
            let all = |cycles: &BTreeMap<u32, i64>| cycles.values().sum::<i64>();
            let class = own.iter().max_by_key(|(_, cycles)| all(cycles));
            let class = class.map(|(class, _)| *class);
            let others = own.into_iter().filter(|(other, _)| Some(*other) != class);
            let others = others.flat_map(|(class, cycles)| {
                cycles
                    .into_iter()
                    .map(move |(cycle, ns)| (cycle, class, ns))
            });
            Function {
                name: timeline.trace.text(name).to_owned(),
                kind,
                class,
                waits,
                process,
                device,
                cells,
                other_classes: others.collect(),
            }
        })
        .collect()
}

/// Marked ranges of engines without Python functions: all that says what their host does.
struct Ranges {
    /// By process: whether Python functions of it were recorded.
    has_python: Vec<bool>,
    /// What code and ranges directly inside a range take, ns.
    inside: FxHashMap<SliceId, i64>,
    /// How often a name occurs.
    named: FxHashMap<StrId, u32>,
}

/// A name with a number that occurs less often is that of one step.
const OFTEN: u32 = 3;

impl Ranges {
    fn new(timeline: &Timeline<'_>) -> Self {
        let mut has_python = vec![false; timeline.members.len()];
        for slice in timeline.trace.slices() {
            if timeline.kind(slice) == Kind::Python {
                has_python[timeline.process(slice) as usize] = true;
            }
        }
        let mut ranges = Self {
            has_python,
            inside: FxHashMap::default(),
            named: FxHashMap::default(),
        };
        if ranges.has_python.iter().all(|has| *has) {
            return ranges;
        }
        let nests = |s: &Slice<'_>| {
            let kind = timeline.kind(*s);
            kind.is_code() || kind == Kind::Annotation
        };
        for slice in timeline.trace.slices().filter(|s| nests(s)) {
            if let (Kind::Annotation, Some(name)) = (timeline.kind(slice), slice.name_id()) {
                *ranges.named.entry(name).or_default() += 1;
            }
            if let Some(around) = slice.ancestors().find(|s| nests(s))
                && timeline.kind(around) == Kind::Annotation
            {
                let end = slice.end().min(around.end());
                let own = (end - slice.ts()).get().max(0);
                *ranges.inside.entry(around.id()).or_default() += own;
            }
        }
        ranges
    }

    /// Returns `true` for ranges that count as functions. Those inside code are that code's, and a name that says what one step
    /// did is the step's.
    fn count(&self, timeline: &Timeline<'_>, slice: Slice<'_>) -> bool {
        let is_step = |name: &str| trace_model::step_name::step_batch(name).is_some();
        let is_often = || {
            let times = slice.name_id().and_then(|name| self.named.get(&name));
            times.is_some_and(|times| *times >= OFTEN)
        };
        let of_one_step = |name: &str| name.bytes().any(|b| b.is_ascii_digit()) && !is_often();
        timeline.kind(slice) == Kind::Annotation
            && !self.has_python[timeline.process(slice) as usize]
            && slice
                .name()
                .is_some_and(|name| !is_step(name) && !of_one_step(name))
            && slice.ancestors().all(|s| !timeline.kind(s).is_code())
    }

    fn inside(&self, range: SliceId) -> i64 {
        self.inside.get(&range).copied().unwrap_or(0)
    }
}

/// What the name of a slice of the host says.
#[derive(Clone, Copy)]
struct Named {
    /// It waits in its own time for something else than the device.
    waits: bool,
    takes_requests: bool,
    feed: Option<Feed>,
}

/// What the slices of the host wait for, by name and by what they are inside.
#[derive(Default)]
struct HostWaits {
    names: FxHashMap<StrId, Named>,
    /// By process: when its devices work; of no process before the first wait for an item of a queue.
    busy: Option<BTreeMap<u32, IntervalSet>>,
}

impl HostWaits {
    fn name(&mut self, timeline: &Timeline<'_>, name: StrId) -> Named {
        *self.names.entry(name).or_insert_with(|| {
            let text = timeline.trace.text(name);
            Named {
                waits: Waiting::of_own_time(text).is_some_and(waits::elsewhere),
                takes_requests: trace_model::takes_requests(text),
                feed: waits::feed(text),
            }
        })
    }

    /// Returns `true` if the devices of its process are idle for most of a slice: what it waits for then is not their work.
    fn is_starved(&mut self, timeline: &Timeline<'_>, slice: Slice<'_>) -> bool {
        let busy = self.busy.get_or_insert_with(|| {
            let mut by_process: BTreeMap<u32, Vec<Interval>> = BTreeMap::new();
            for work in &timeline.work {
                let own = by_process.entry(work.process).or_default();
                own.push((work.ts, work.end));
            }
            let sets = by_process.into_iter();
            sets.map(|(process, own)| (process, own.into_iter().collect()))
                .collect()
        });
        let range = slice.range();
        let own = busy.get(&timeline.process(slice));
        let worked = own.map_or(0, |set| set.clip(range).measure().get());
        2 * worked < range.duration().get()
    }

    fn of(
        &mut self,
        (timeline, cuts): (&Timeline<'_>, &Cuts),
        slice: Slice<'_>,
        name: StrId,
        kind: Kind,
    ) -> Option<Wait> {
        let named = self.name(timeline, name);
        let loads = named.feed == Some(Feed::Loader);
        let is_range = loads && kind == Kind::Annotation;
        if !(named.waits || loads) || !(kind.is_code() || is_range) || kind == Kind::Sync {
            return None;
        }
        // What the loop around the steps waits for, itself or in functions that only wait, is the next request.
        let mut frames = slice.ancestors();
        let caller = frames.find(|around| {
            let name = around.name_id();
            let works = name.is_none_or(|name| !self.name(timeline, name).waits);
            timeline.kind(*around).is_code() && works
        });
        let is_between = caller.is_some_and(|around| {
            let cycle = |at: i64| cuts.at(timeline.process(around), at);
            let own = cycle(slice.ts().nanos());
            let ends = [around.ts().nanos(), around.end().nanos() - 1];
            ends.into_iter().any(|at| cycle(at) != own)
        });
        let around = slice.ancestors().filter_map(Slice::name_id);
        let (mut is_input, mut of_queue) = (is_between, false);
        for name in std::iter::once(name).chain(around) {
            let named = self.name(timeline, name);
            is_input |= named.takes_requests || named.feed == Some(Feed::Loader);
            of_queue |= named.feed == Some(Feed::Queue);
        }
        is_input = is_input || (of_queue && self.is_starved(timeline, slice));
        Some(match is_input {
            true => Wait::Requests,
            false => Wait::Other,
        })
    }
}

/// Intervals of one process by what happens in them.
pub(crate) struct Activity {
    pub(crate) compute: IntervalSet,
    pub(crate) communication: IntervalSet,
    pub(crate) sync: IntervalSet,
    pub(crate) host: IntervalSet,
}

/// What one process does when. Frames longer than `longest_ns` are around the cycles, and functions
/// that wait for requests are no code that runs.
pub(crate) fn activity(timeline: &Timeline<'_>, process: u32, longest_ns: i64) -> Activity {
    let (mut compute, mut communication): (Vec<Interval>, Vec<Interval>) = Default::default();
    for work in timeline.work.iter().filter(|w| w.process == process) {
        if work.kind == Kind::Communication {
            communication.push((work.ts, work.end));
        } else {
            compute.push((work.ts, work.end));
        }
    }
    let mut sync: Vec<Interval> = Vec::new();
    let mut threads: BTreeMap<u32, Vec<Interval>> = BTreeMap::new();
    for slice in timeline.trace.slices() {
        let kind = timeline.kind(slice);
        if timeline.process(slice) != process || !kind.is_code() {
            continue;
        }
        let range = (slice.ts().nanos(), slice.end().nanos());
        if kind == Kind::Sync {
            sync.push(range);
        } else if range.1 - range.0 <= longest_ns {
            threads
                .entry(timeline.thread(slice))
                .or_default()
                .push(range);
        }
    }
    // A frame around a wait runs no code meanwhile; other threads may.
    let mut waited = waits::own_time(timeline, process, &waits::elsewhere);
    let mut host: Vec<Interval> = Vec::new();
    for (thread, running) in threads {
        let running: IntervalSet = running.into_iter().collect();
        let waited = waited.remove(&thread).unwrap_or_default();
        host.extend_from_slice(running.subtract(&waited).as_slice());
    }
    Activity {
        compute: compute.into_iter().collect(),
        communication: communication.into_iter().collect(),
        sync: sync.into_iter().collect(),
        host: host.into_iter().collect(),
    }
}

/// How long the devices of a process worked in each cycle.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeviceTimes {
    /// Which process.
    pub process: u32,
    /// By cycle: between its begin and its end, whatever ran at once counted once, and the part of that in which nothing but
    /// communication ran, ns.
    pub by_cycle_ns: Vec<(i64, i64)>,
}

/// The time of the devices of each process with work on one. Work that runs at once on several streams is busy time only once,
/// so that the sum of all kernels says neither how long a device worked nor how long it was idle.
pub(crate) fn device_times(timeline: &Timeline<'_>, cycles: &[crate::Cycle]) -> Vec<DeviceTimes> {
    let mut by_process: BTreeMap<u32, [Vec<Interval>; 2]> = BTreeMap::new();
    for work in &timeline.work {
        let communicates = usize::from(work.kind == Kind::Communication);
        by_process.entry(work.process).or_default()[communicates].push((work.ts, work.end));
    }
    by_process
        .into_iter()
        .map(|(process, parts)| {
            let [other, communication] = parts.map(IntervalSet::from_iter);
            let busy = other.union(&communication);
            let exposed = communication.subtract(&other);
            let within = |set: &IntervalSet, cycle: &crate::Cycle| {
                let [from, to] = [cycle.start_ns, cycle.end_ns.max(cycle.start_ns)];
                let range = TimeRange::new(Timestamp::from_nanos(from), Timestamp::from_nanos(to));
                set.clip(range).measure().get()
            };
            let each = cycles.iter();
            DeviceTimes {
                process,
                by_cycle_ns: each
                    .map(|cycle| (within(&busy, cycle), within(&exposed, cycle)))
                    .collect(),
            }
        })
        .collect()
}

pub(crate) fn gaps(activity: &Activity, start: i64, end: i64) -> Gaps {
    let range = TimeRange::new(Timestamp::from_nanos(start), Timestamp::from_nanos(end));
    let compute = activity.compute.clip(range);
    let communication = activity.communication.clip(range).subtract(&compute);
    let busy = compute.union(&communication);
    let free = busy.gaps(range);
    let sync = activity.sync.clip(range).intersect(&free);
    let rest = free.subtract(&sync);
    let host = activity.host.clip(range).intersect(&rest);
    let idle = rest.subtract(&host);
    Gaps {
        gpu_busy_ns: compute.measure().get(),
        exposed_communication_ns: communication.measure().get(),
        synchronisation_ns: sync.measure().get(),
        exposed_host_ns: host.measure().get(),
        idle_ns: idle.measure().get(),
    }
}

/// The work of each cycle, in order of time, as places in the timeline's list.
pub(crate) fn work_by_cycle(timeline: &Timeline<'_>, cuts: &Cuts) -> Vec<Vec<u32>> {
    let mut by_cycle = vec![Vec::new(); cuts.cycles().len()];
    for (i, work) in timeline.work.iter().enumerate() {
        let at = work.launch.map_or(work.ts, |l| l.1);
        if let Some(c) = cuts.at(work.process, at)
            && let Some(list) = by_cycle.get_mut(c as usize)
        {
            list.push(crate::num::row(i));
        }
    }
    by_cycle
}

/// The end of what was on the same stream before, by place in the timeline's list.
pub(crate) fn stream_free(timeline: &Timeline<'_>) -> Vec<i64> {
    let mut free: FxHashMap<u32, i64> = FxHashMap::default();
    timeline
        .work
        .iter()
        .map(|w| {
            let end = free.entry(w.stream).or_insert(i64::MIN);
            let before = *end;
            *end = (*end).max(w.end);
            before
        })
        .collect()
}

pub(crate) fn launches(
    timeline: &Timeline<'_>,
    list: &[u32],
    free: &[i64],
    host: (i64, i64),
) -> Launches {
    let mut latency = Vec::new();
    let mut queue = Vec::new();
    let mut total = 0;
    // The first work of each call: a graph has hundreds.
    let mut calls: BTreeMap<SliceId, i64> = BTreeMap::new();
    for &i in list {
        let work = &timeline.work[i as usize];
        let Some((slice, call)) = work.launch else {
            continue;
        };
        let lead = calls.entry(slice).or_insert(i64::MAX);
        *lead = (*lead).min((work.ts - call).max(0));
        let ready = free[i as usize].clamp(call, work.ts.max(call));
        queue.push(crate::num::span(ready - call));
        total += ready - call;
        latency.push(crate::num::span((work.ts - ready).max(0)));
    }
    let is_graph = |id: &&SliceId| {
        let name = timeline.trace.slice(**id).name().unwrap_or("");
        name.contains("GraphLaunch")
    };
    let mut starts: Vec<i64> = calls
        .keys()
        .map(|id| timeline.trace.slice(*id).ts().nanos())
        .chain([host.0, host.1])
        .collect();
    starts.sort_unstable();
    let widest = starts.windows(2).map(|s| s[1] - s[0]).max();
    let leads: Vec<f64> = calls.values().map(|ns| crate::num::span(*ns)).collect();
    Launches {
        count: latency.len(),
        calls: calls.len(),
        graphs: calls.keys().filter(is_graph).count(),
        widest_gap_ns: widest.unwrap_or(0),
        lead_median_ns: median(&leads),
        latency_median_ns: median(&latency),
        queue_median_ns: median(&queue),
        queue_total_ns: total,
    }
}

/// Who came late to the collectives of a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Skew {
    /// Collectives that several processes took part in.
    pub collectives: usize,
    /// Sum over them of latest minus earliest start.
    pub spread_ns: i64,
    /// The process that was last most often.
    pub straggler: u32,
    /// How often.
    pub times_last: usize,
}

pub(crate) fn skew(timeline: &Timeline<'_>, list: &[u32]) -> Option<Skew> {
    let mut by_name: BTreeMap<StrId, BTreeMap<u32, Vec<i64>>> = BTreeMap::new();
    for &i in list {
        let w = &timeline.work[i as usize];
        if w.kind == Kind::Communication {
            by_name
                .entry(w.name)
                .or_default()
                .entry(w.process)
                .or_default()
                .push(w.ts);
        }
    }
    let mut last = BTreeMap::new();
    let (mut collectives, mut spread) = (0, 0);
    for ranks in by_name.values().filter(|r| r.len() >= 2) {
        let rounds = ranks.values().map(Vec::len).min().unwrap_or(0);
        for round in 0..rounds {
            let each = || ranks.iter().map(|(p, t)| (t[round], *p));
            let (Some(first), Some(late)) = (each().min(), each().max()) else {
                continue;
            };
            collectives += 1;
            spread += late.0 - first.0;
            *last.entry(late.1).or_insert(0_usize) += 1;
        }
    }
    let most = *last.values().max()?;
    let straggler = *last.iter().find(|(_, n)| **n == most)?.0;
    Some(Skew {
        collectives,
        spread_ns: spread,
        straggler,
        times_last: most,
    })
}
