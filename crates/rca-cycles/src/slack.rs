//! Who waits for whom: the host for the device, or the device for the host.
//!
//! The side that never waits bounds the steps, however long the other side works. Where both wait, they take turns,
//! and the chain of what waited for what says how much of the time each of them takes.

use std::collections::BTreeMap;

use trace_model::interval::{Interval, IntervalSet};
use trace_model::{TimeRange, Timestamp, Trace};

use crate::blocking::LEAST_WAIT;
use crate::num::{real, span};
use crate::step_time::by_end;
use crate::timeline::{Kind, Timeline, Work};
use crate::waits;

/// Which side bounds the time of steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Limit {
    /// The device is never idle for want of launches.
    Gpu,
    /// The host never waits for the device, which waits for launches.
    Host,
    /// Neither waits for the other: to shorten one of them alone gains next to nothing.
    Balanced,
    /// Each waits while the other works, so that the times of both add up.
    Turns,
}

impl Limit {
    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Host => "host",
            Self::Balanced => "balanced",
            Self::Turns => "turns",
        }
    }
}

/// How long host and device of a process waited for each other in a stretch of time, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Slack {
    /// Length of the stretch.
    pub length_ns: i64,
    /// No work ran on the device, and none was queued.
    pub device_free_ns: i64,
    /// The threads that launch work waited for the device while it worked.
    pub host_wait_ns: i64,
    /// These threads ran code.
    pub host_run_ns: i64,
    /// Code of the host on the longest chain of things that waited for each other.
    pub host_path_ns: i64,
    /// Work of the device on it.
    pub device_path_ns: i64,
}

/// A share of the time below which waiting counts as none.
const NEARLY_NONE: f64 = 0.05;
/// A host that runs code or waits for this share of the time is recorded completely.
const ALWAYS: f64 = 1.0 - NEARLY_NONE;
/// A side with less than this share of the chain does not take turns with the other.
const LEAST_TURN: f64 = 0.2;

impl Slack {
    /// Adds another stretch.
    pub fn add(&mut self, other: &Self) {
        self.length_ns += other.length_ns;
        self.device_free_ns += other.device_free_ns;
        self.host_wait_ns += other.host_wait_ns;
        self.host_run_ns += other.host_run_ns;
        self.host_path_ns += other.host_path_ns;
        self.device_path_ns += other.device_path_ns;
    }

    /// The share of the time, 0 to 1, that the device waits for launches.
    pub fn device_free(&self) -> f64 {
        span(self.device_free_ns) / span(self.length_ns.max(1))
    }

    /// The share of the time, 0 to 1, that the host waits for the device.
    pub fn host_wait(&self) -> f64 {
        span(self.host_wait_ns) / span(self.length_ns.max(1))
    }

    /// Returns `true` if more of the chain is code of the host than work of the device.
    pub fn mostly_host(&self) -> bool {
        self.host_path_ns > self.device_path_ns
    }

    /// Returns `true` if the host ran code or waited for the device nearly all the time.
    fn host_is_known(&self) -> bool {
        span(self.host_run_ns + self.host_wait_ns) >= ALWAYS * span(self.length_ns)
    }

    /// Which side bounds the time; none of an empty stretch.
    pub fn limit(&self) -> Option<Limit> {
        if self.length_ns <= 0 {
            return None;
        }
        let is_free = self.device_free() >= NEARLY_NONE;
        let waits = self.host_wait() >= NEARLY_NONE;
        Some(match (is_free, waits) {
            // A single step may begin with a host that is not ahead yet, and be work of the device from then on.
            (true, false) if !self.mostly_host() => Limit::Gpu,
            (true, false) => Limit::Host,
            (false, true) => Limit::Gpu,
            // A host that was not recorded as working may wait in ways that were not recorded either.
            (false, false) if !self.host_is_known() => Limit::Gpu,
            (false, false) => Limit::Balanced,
            (true, true) => {
                let both = span((self.host_path_ns + self.device_path_ns).max(1));
                let less = span(self.host_path_ns.min(self.device_path_ns)) / both;
                match self.mostly_host() {
                    _ if less >= LEAST_TURN => Limit::Turns,
                    true => Limit::Host,
                    false => Limit::Gpu,
                }
            }
        })
    }
}

/// Returns how the host and the device of the process with most GPU activity waited for each other in `window`, in
/// all of the recorded GPU activity without one. None where no launch call of that activity was recorded.
///
/// Cost: a few passes over the slices.
pub fn slack(trace: &Trace, window: Option<TimeRange>) -> Option<Slack> {
    let timeline = Timeline::of_times(trace);
    let mut busy: BTreeMap<u32, i64> = BTreeMap::new();
    for w in &timeline.work {
        *busy.entry(w.process).or_default() += w.end - w.ts;
    }
    let process = *busy.iter().max_by_key(|(p, ns)| (**ns, u32::MAX - **p))?.0;
    let flow = Flow::new(&timeline, process)?;
    let own = || timeline.work.iter().filter(|w| w.process == process);
    let all = || Some((own().map(|w| w.ts).min()?, own().map(|w| w.end).max()?));
    let (start, end) = match window {
        Some(w) => (w.start.nanos(), w.end.nanos()),
        None => all()?,
    };
    Some(flow.between(start, end))
}

/// When host and device of a process waited for each other.
pub(crate) struct Flow {
    device_free: IntervalSet,
    host_wait: IntervalSet,
    host_run: IntervalSet,
    host_path: IntervalSet,
    device_path: IntervalSet,
}

/// A thread belongs to the engine if it makes this share of the launch calls.
const LAUNCHES: f64 = 0.05;

/// What one thread of the host does.
#[derive(Default)]
struct Thread {
    launches: usize,
    has_python: bool,
    code: Vec<Interval>,
    waits: Vec<Interval>,
}

impl Flow {
    /// None where no call that launched work was recorded. Cost: a pass over the slices, a few over the work.
    pub(crate) fn new(timeline: &Timeline<'_>, process: u32) -> Option<Self> {
        let work: Vec<&Work> = timeline
            .work
            .iter()
            .filter(|w| w.process == process)
            .collect();
        if work.iter().all(|w| w.launch.is_none()) {
            return None;
        }
        let mut busy: Vec<Interval> = work.iter().map(|w| (w.ts, w.end)).collect();
        busy.sort_unstable();
        let busy: IntervalSet = busy.into_iter().collect();
        let (all_waits, host_run) = host(timeline, process, &work);
        let (host_path, device_path) = chain(timeline, process, all_waits.as_slice());
        Some(Self {
            device_free: starved(timeline, &work),
            host_wait: all_waits.intersect(&busy),
            host_run,
            host_path,
            device_path,
        })
    }

    pub(crate) fn between(&self, start: i64, end: i64) -> Slack {
        let range = TimeRange::new(Timestamp::from_nanos(start), Timestamp::from_nanos(end));
        let within = |set: &IntervalSet| set.clip(range).measure().get();
        Slack {
            length_ns: end.saturating_sub(start),
            device_free_ns: within(&self.device_free),
            host_wait_ns: within(&self.host_wait),
            host_run_ns: within(&self.host_run),
            host_path_ns: within(&self.host_path),
            device_path_ns: within(&self.device_path),
        }
    }
}

/// When the threads that launch work wait for the device and no other of them runs code, and when they run code.
fn host(timeline: &Timeline<'_>, process: u32, work: &[&Work]) -> (IntervalSet, IntervalSet) {
    let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
    let mut calls = 0_usize;
    for (call, _) in work.iter().filter_map(|w| w.launch) {
        let thread = timeline.thread(timeline.trace.slice(call));
        threads.entry(thread).or_default().launches += 1;
        calls += 1;
    }
    for slice in timeline.trace.slices() {
        let kind = timeline.kind(slice);
        if !kind.is_code() || timeline.process(slice) != process {
            continue;
        }
        let range = (slice.ts().nanos(), slice.end().nanos());
        let thread = threads.entry(timeline.thread(slice)).or_default();
        thread.has_python |= kind == Kind::Python;
        if let Some(until) = timeline.blocking.get(&slice.id()) {
            thread.waits.push((range.0, *until));
        } else if kind == Kind::Sync && !slice.name().is_some_and(|n| n.contains("WaitEvent")) {
            thread.waits.push(range);
        }
        thread.code.push(range);
    }
    let mut idle = waits::own_time(timeline, process, &waits::elsewhere);
    let least = LAUNCHES * real(calls);
    threads
        .retain(|_, t| real(t.launches) >= least.max(1.0) || (t.has_python && !t.waits.is_empty()));
    let (mut waiting, mut running) = (IntervalSet::new(), IntervalSet::new());
    for (thread, t) in threads {
        let waits: IntervalSet = t.waits.into_iter().collect();
        let idle = idle.remove(&thread).unwrap_or_default();
        let code: IntervalSet = t.code.into_iter().collect();
        running = running.union(&code.subtract(&waits).subtract(&idle));
        waiting = waiting.union(&waits);
    }
    (waiting.subtract(&running), running)
}

/// When no work ran and none was queued: until the call that launched the next work returned.
fn starved(timeline: &Timeline<'_>, work: &[&Work]) -> IntervalSet {
    let mut order: Vec<&Work> = work.to_vec();
    order.sort_by_key(|w| (w.ts, w.end));
    let mut free: Vec<Interval> = Vec::new();
    let mut since = i64::MIN;
    for w in order {
        if w.ts > since {
            let launched = w.launch.map_or(w.ts, |(call, _)| {
                timeline.trace.slice(call).end().nanos().min(w.ts)
            });
            free.push((since, launched));
        }
        since = since.max(w.end);
    }
    free.push((since, i64::MAX));
    free.into_iter().collect()
}

/// Walks back from the end of the last work: from work to what ran before it or to its launch, on the host to the last
/// call that waited, and from there to the work that it waited for. Returns the stretches of host and device.
fn chain(timeline: &Timeline<'_>, process: u32, waits: &[Interval]) -> (IntervalSet, IntervalSet) {
    let order = by_end(timeline, process);
    let last_before = |t: i64| {
        let at = order.partition_point(|&i| timeline.work[i as usize].end <= t);
        Some(&timeline.work[order[at.checked_sub(1)?] as usize])
    };
    let (mut host, mut device): (Vec<Interval>, Vec<Interval>) = Default::default();
    let mut work = last_before(i64::MAX);
    let mut at = work.map_or(i64::MIN, |w| w.end);
    // Every round goes back in time; work without length could stay where it is.
    while let Some(w) = work.take() {
        let from = w.ts.min(at);
        device.push((from, at));
        let call = w
            .launch
            .map(|(id, start)| (id, start.min(from), timeline.trace.slice(id).end().nanos()));
        let ready = call.map_or(i64::MIN, |(id, start, end)| {
            if timeline.blocking.contains_key(&id) {
                start
            } else {
                end.min(from)
            }
        });
        let earlier = last_before(from).filter(|e| e.end > ready && e.ts < from);
        if let Some(earlier) = earlier {
            // What is queued follows at once.
            device.push((earlier.end, from));
            (work, at) = (Some(earlier), earlier.end);
            continue;
        }
        let Some((_, called, _)) = call.filter(|c| c.1 < at) else {
            break;
        };
        host.push((called, ready.max(called)));
        let before = waits.partition_point(|s| s.1 <= called);
        let waited = waits[..before].iter().rev().find_map(|s| {
            let w = last_before(s.1).filter(|w| w.end > s.0)?;
            (s.1 - s.0 >= LEAST_WAIT).then_some((s, w))
        });
        let Some((wait, before)) = waited else {
            host.push((i64::MIN, called));
            break;
        };
        host.push((wait.1, called));
        (work, at) = (Some(before), before.end);
    }
    (host.into_iter().collect(), device.into_iter().collect())
}
