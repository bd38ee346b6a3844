//! Idle time and its causes.

use std::collections::BTreeMap;

use serde::Serialize;
#[cfg(doc)]
use trace_model::Waiting;
use trace_model::interval::Interval;
use trace_model::{DeviceId, Slice, StreamId, TimeRange, Timestamp};

use crate::host_code::{InGap, Waits, each_most_of};
use crate::launch::kind_of;
use crate::split::{Split, StepRule};
use crate::submission::Submission;
use crate::work::{GpuEvent, GpuWork};

/// Maximum time from a launch API call to the start of its work, or between two queued activities,
/// that submission to the device explains: several times what drivers need, in nanoseconds.
pub const PLAUSIBLE_LATENCY_NS: i64 = 50_000;

/// Cause of idle time, derived from the activity that ends the gap and the call that launched it.
/// Every nanosecond of a gap has one cause.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IdleCause {
    /// The launch API call had not been made yet.
    HostWait,
    /// The launch API call had not been made yet, and its thread was waiting for something from
    /// outside ([`Waiting::Input`]), a request, data, a queue, a lock, time to pass, or for another
    /// thread ([`Waiting::Peer`]).
    InputWait,
    /// The launch API call had not been made yet, and its thread was waiting for the device: in a
    /// synchronization or a blocking memcpy.
    Synchronisation,
    /// The launch API call was running: the call itself and, in long ones, the driver, for example
    /// lazy loading of modules, compilation or allocation.
    LaunchCall,
    /// The call returned after the device ran dry, or so shortly before that its latency had not
    /// passed, and the work began at most [`PLAUSIBLE_LATENCY_NS`] later: submission to the device.
    LaunchLatency,
    /// The work was ready before the device ran dry, and began at most [`PLAUSIBLE_LATENCY_NS`] after
    /// that: the gap between two queued activities.
    KernelWait,
    /// The work was submitted and did not begin for longer than [`PLAUSIBLE_LATENCY_NS`]: its
    /// stream was blocked, by an event of another stream or by activity that is not recorded.
    Blocked,
    /// The call is not in the trace, or no activity follows.
    Other,
}

impl IdleCause {
    /// All causes.
    pub const ALL: [Self; 8] = [
        Self::HostWait,
        Self::InputWait,
        Self::Synchronisation,
        Self::LaunchCall,
        Self::LaunchLatency,
        Self::KernelWait,
        Self::Blocked,
        Self::Other,
    ];

    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::HostWait => "host_wait",
            Self::InputWait => "input_wait",
            Self::Synchronisation => "synchronisation",
            Self::LaunchCall => "launch_call",
            Self::LaunchLatency => "launch_latency",
            Self::KernelWait => "kernel_wait",
            Self::Blocked => "blocked",
            Self::Other => "other",
        }
    }

    /// Returns a description of what the device was waiting for.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::HostWait => "the host launched nothing (CPU-bound)",
            Self::InputWait => {
                "while the host was waiting too (for requests, data, a lock or another thread)"
            }
            Self::Synchronisation => "the host was waiting for the GPU (synchronisation)",
            Self::LaunchCall => "in the launch API call",
            Self::LaunchLatency => "launch latency",
            Self::KernelWait => "gaps between queued work",
            Self::Blocked => "submitted, stream blocked (event wait or unrecorded work)",
            Self::Other => "unknown: no launch call in the trace, or no work after the gap",
        }
    }
}

/// Idle time by cause. The causes add up to `idle_ns`, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IdleTime {
    /// Number of gaps.
    pub gaps: u64,
    /// Total idle time.
    pub idle_ns: i64,
    /// See [`IdleCause::HostWait`].
    pub host_wait_ns: i64,
    /// See [`IdleCause::InputWait`].
    pub input_wait_ns: i64,
    /// See [`IdleCause::Synchronisation`].
    pub synchronisation_ns: i64,
    /// See [`IdleCause::LaunchCall`].
    pub launch_call_ns: i64,
    /// See [`IdleCause::LaunchLatency`].
    pub launch_latency_ns: i64,
    /// See [`IdleCause::KernelWait`].
    pub kernel_wait_ns: i64,
    /// See [`IdleCause::Blocked`].
    pub blocked_ns: i64,
    /// See [`IdleCause::Other`].
    pub other_ns: i64,
}

impl IdleTime {
    /// Returns the time of one cause.
    pub fn of(&self, cause: IdleCause) -> i64 {
        match cause {
            IdleCause::HostWait => self.host_wait_ns,
            IdleCause::InputWait => self.input_wait_ns,
            IdleCause::Synchronisation => self.synchronisation_ns,
            IdleCause::LaunchCall => self.launch_call_ns,
            IdleCause::LaunchLatency => self.launch_latency_ns,
            IdleCause::KernelWait => self.kernel_wait_ns,
            IdleCause::Blocked => self.blocked_ns,
            IdleCause::Other => self.other_ns,
        }
    }

    pub(crate) fn add(&mut self, gap: &Self) {
        self.gaps += gap.gaps;
        self.idle_ns += gap.idle_ns;
        self.host_wait_ns += gap.host_wait_ns;
        self.input_wait_ns += gap.input_wait_ns;
        self.synchronisation_ns += gap.synchronisation_ns;
        self.launch_call_ns += gap.launch_call_ns;
        self.launch_latency_ns += gap.launch_latency_ns;
        self.kernel_wait_ns += gap.kernel_wait_ns;
        self.blocked_ns += gap.blocked_ns;
        self.other_ns += gap.other_ns;
    }
}

/// Scope of idle time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IdleScope {
    /// No device ran anything.
    Trace,
    /// No stream of the device ran anything.
    Device,
    /// The stream ran nothing.
    Stream,
}

impl IdleScope {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Device => "device",
            Self::Stream => "stream",
        }
    }
}

/// Idle time of one stream, one device or the trace, between its first activity and its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IdleRow {
    /// Scope of the row.
    pub scope: IdleScope,
    /// The device; `None` for the trace.
    pub device: Option<DeviceId>,
    /// The stream; `None` unless the scope is a stream.
    pub stream: Option<StreamId>,
    /// Time from the first start to the last end, or the length of the window.
    pub span_ns: i64,
    /// Time in which anything ran.
    pub busy_ns: i64,
    /// Idle time, by cause.
    pub time: IdleTime,
}

/// One gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Gap {
    /// Start.
    pub start_ns: i64,
    /// End.
    pub end_ns: i64,
    /// Device of the activity that ends the gap; if there is none, of the activity before.
    pub device: DeviceId,
    /// Stream of that activity.
    pub stream: StreamId,
    /// Its causes.
    pub time: IdleTime,
    /// Name of the activity that ran last before it; empty if none did.
    pub before: String,
    /// Name of the activity that ends it; empty if none does.
    pub after: String,
    /// Name of the call that launched that activity.
    pub call: Option<String>,
    /// Function or operator that the thread of that call spent most of the time in between the begin
    /// of the gap and the call, with its caller. Built-in functions count as part of the function that
    /// calls them, unless they wait. `None` where none has more than half of that time.
    pub host: Option<String>,
    /// `true` if no function or operator covers most of that time: what the thread did is not recorded.
    pub unrecorded: bool,
}

impl Gap {
    /// Returns the cause of most of the gap.
    pub fn cause(&self) -> IdleCause {
        let most = |a: IdleCause, b: IdleCause| {
            if self.time.of(b) > self.time.of(a) {
                b
            } else {
                a
            }
        };
        IdleCause::ALL.into_iter().fold(IdleCause::HostWait, most)
    }
}

/// Idle time of the trace, each device and each stream, with the longest gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Idle {
    /// The trace first, then each device with its streams.
    pub rows: Vec<IdleRow>,
    /// The longest gaps in which no device did anything, longest first.
    pub gaps: Vec<Gap>,
    /// Longest time of one gap of the trace in one launch API call.
    pub longest_call_ns: i64,
    /// Start of the first GPU activity of the trace; 0 without any.
    pub start_ns: i64,
    /// Number of gaps of the trace whose ending activity starts before its launch API call does:
    /// the clocks of host and device disagree.
    pub skewed: u64,
}

/// A gap in the activity of one scope, with the activities before and after it.
#[derive(Clone, Copy)]
struct RawGap<'e> {
    /// `None` before the first activity.
    before: Option<&'e GpuEvent>,
    /// `None` after the last activity.
    after: Option<&'e GpuEvent>,
}

impl RawGap<'_> {
    fn interval(&self) -> Interval {
        (
            self.before.map_or(i64::MIN, |e| e.end_ns),
            self.after.map_or(i64::MAX, |e| e.start_ns),
        )
    }
}

/// Gaps of one scope: the complement of its activity, from the beginning of time to its end.
#[derive(Default)]
struct Line<'e> {
    first: Option<&'e GpuEvent>,
    latest: Option<&'e GpuEvent>,
    gaps: Vec<RawGap<'e>>,
}

impl<'e> Line<'e> {
    fn add(&mut self, event: &'e GpuEvent) {
        self.first.get_or_insert(event);
        match self.latest {
            Some(latest) if event.end_ns <= latest.end_ns => {}
            before => {
                if before.is_none_or(|latest| event.start_ns > latest.end_ns) {
                    self.gaps.push(RawGap {
                        before,
                        after: Some(event),
                    });
                }
                self.latest = Some(event);
            }
        }
    }

    /// Returns the time from the first start to the last end.
    fn span(&self) -> Option<Interval> {
        Some((self.first?.start_ns, self.latest?.end_ns))
    }

    /// Returns the gaps that touch the interval, in ascending time.
    fn gaps_in(&self, (start, end): Interval) -> impl Iterator<Item = RawGap<'e>> {
        let tail = self.latest.map(|latest| RawGap {
            before: Some(latest),
            after: None,
        });
        let from = self.gaps.partition_point(|gap| gap.interval().1 <= start);
        let inner = self.gaps.get(from..).unwrap_or_default();
        inner
            .iter()
            .copied()
            .chain(tail)
            .take_while(move |gap| gap.interval().0 < end)
    }
}

/// The lines of all scopes.
#[derive(Default)]
struct Lines<'e> {
    all: Line<'e>,
    devices: BTreeMap<DeviceId, Line<'e>>,
    streams: BTreeMap<(DeviceId, StreamId), Line<'e>>,
}

impl<'e> Lines<'e> {
    fn of(events: impl IntoIterator<Item = &'e GpuEvent>) -> Self {
        let mut lines = Self::default();
        for event in events {
            lines.all.add(event);
            lines.devices.entry(event.device).or_default().add(event);
            let key = (event.device, event.stream);
            lines.streams.entry(key).or_default().add(event);
        }
        lines
    }
}

/// Attributes the idle time of `work` to its causes; keeps the `longest` gaps.
///
/// Cost: one pass over the GPU activities, and a look-up of the call for each gap.
pub fn idle(work: &GpuWork<'_>, longest: usize) -> Idle {
    let lines = Lines::of(work.events());
    measured(work, &Judge::new(work), &lines, None, longest)
}

/// Idle time of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IdlePart {
    /// Number of the step, for splits by step; `None` for activity outside of all steps.
    pub step: Option<usize>,
    /// Its idle time.
    pub idle: Idle,
}

/// Attributes idle time as [`idle()`] does, for the parts that `how` selects, keeping the `longest`
/// gaps of each. Rows are always split by device and stream.
///
/// * A window, and a step by [`StepRule::Time`], is a stretch of time: gaps are cut at its ends,
///   its length is the span, and time before the first activity and after the last is idle too. The
///   cause of an instant does not depend on where a window begins. Streams without activity in it
///   are left out.
/// * A step by [`StepRule::Launch`] is the activity launched in it: its gaps lie between its first
///   activity and its last, and other activity in them is ignored. Activity outside of all steps
///   forms a part of its own.
///
/// The idle time of a part therefore equals that of [`split()`](crate::split()) for the same part.
///
/// Cost: as [`idle()`], plus for each part a look-up of the gaps that it touches.
pub fn idle_parts(work: &GpuWork<'_>, how: &Split, longest: usize) -> Vec<IdlePart> {
    let rules = Judge::new(work);
    let of = |step, lines: &Lines<'_>, window| IdlePart {
        step,
        idle: measured(work, &rules, lines, window, longest),
    };
    let steps = how.steps();
    if how.steps.is_none() || how.step_rule == StepRule::Time {
        let lines = Lines::of(work.events());
        if how.steps.is_none() {
            return vec![of(None, &lines, how.window)];
        }
        let windows = steps.iter().map(|step| how.in_window(step.range));
        return windows
            .enumerate()
            .filter_map(|(at, window)| Some(of(Some(at), &lines, Some(window?))))
            .collect();
    }
    let mut by_step: Vec<Vec<&GpuEvent>> = vec![Vec::new(); steps.len() + 1];
    for event in work.events() {
        let at = how.launched_in(work, event).unwrap_or(steps.len());
        if let Some(list) = by_step.get_mut(at) {
            list.push(event);
        }
    }
    let parts = by_step.into_iter().enumerate();
    parts
        .filter(|(at, events)| match steps.get(*at) {
            Some(step) => how.in_window(step.range).is_some(),
            None => !events.is_empty(),
        })
        .map(|(at, events)| {
            let step = (at < steps.len()).then_some(at);
            of(step, &Lines::of(events), how.window)
        })
        .collect()
}

/// Returns the idle time of `lines`, each between its first activity and its last, or in `window`.
fn measured(
    work: &GpuWork<'_>,
    rules: &Judge,
    lines: &Lines<'_>,
    window: Option<TimeRange>,
    longest: usize,
) -> Idle {
    let mut out = Idle {
        start_ns: work.events().first().map_or(0, |first| first.start_ns),
        ..Idle::default()
    };
    let window = window.map(|w| (w.start.nanos(), w.end.nanos()));
    let Some(span) = window.or_else(|| lines.all.span()) else {
        return out;
    };
    let mut judged: Vec<(Interval, IdleTime, RawGap<'_>)> = Vec::new();
    let mut total = IdleTime::default();
    for gap in lines.all.gaps_in(span) {
        let Some((at, time, skewed)) = judge(work, rules, &gap, span) else {
            continue;
        };
        out.skewed += u64::from(skewed);
        out.longest_call_ns = out.longest_call_ns.max(time.launch_call_ns);
        total.add(&time);
        judged.push((at, time, gap));
    }
    if lines.all.first.is_none() {
        // Nothing ran, so that no activity ends the gap.
        let idle_ns = span.1.saturating_sub(span.0);
        total = IdleTime {
            gaps: u64::from(idle_ns > 0),
            idle_ns,
            other_ns: idle_ns,
            ..IdleTime::default()
        };
    }
    out.rows
        .push(row(IdleScope::Trace, (None, None), span, total));
    let of_line = |line: &Line<'_>| {
        let span = window.or_else(|| line.span())?;
        let mut time = IdleTime::default();
        for gap in line.gaps_in(span) {
            if let Some((_, one, _)) = judge(work, rules, &gap, span) {
                time.add(&one);
            }
        }
        let is_there = window.is_none() || time.idle_ns < span.1.saturating_sub(span.0);
        is_there.then_some((span, time))
    };
    for (device, line) in &lines.devices {
        let Some((span, time)) = of_line(line) else {
            continue;
        };
        let key = (Some(*device), None);
        out.rows.push(row(IdleScope::Device, key, span, time));
        let of_device = (*device, StreamId(i64::MIN))..=(*device, StreamId(i64::MAX));
        for ((_, stream), line) in lines.streams.range(of_device) {
            if let Some((span, time)) = of_line(line) {
                let key = (Some(*device), Some(*stream));
                out.rows.push(row(IdleScope::Stream, key, span, time));
            }
        }
    }
    judged.sort_by_key(|(at, time, _)| (std::cmp::Reverse(time.idle_ns), at.0));
    let name = |event: Option<&GpuEvent>| event.map_or("", |e| work.name(e)).to_owned();
    judged.truncate(longest);
    let call_of = |gap: &RawGap<'_>| work.launch_of(gap.after?);
    let before = |(start, end): Interval, call: Slice<'_>| (start, end.min(call.ts().nanos()));
    let ranges = judged.iter().filter_map(|(at, _, gap)| {
        let call = call_of(gap)?;
        Some((call.track_id(), before(*at, call)))
    });
    let mut hosts = each_most_of(work, &ranges.collect::<Vec<_>>()).into_iter();
    out.gaps = judged
        .into_iter()
        .filter_map(|(at, time, gap)| {
            let call = call_of(&gap);
            let host = call.and_then(|_| hosts.next());
            let place = gap.after.or(gap.before)?;
            let (start_ns, end_ns) = at;
            Some(Gap {
                start_ns,
                end_ns,
                device: place.device,
                stream: place.stream,
                time,
                before: name(gap.before),
                after: name(gap.after),
                call: call.and_then(|call| call.name()).map(str::to_owned),
                unrecorded: matches!(host, Some(InGap::Nothing)),
                host: match host {
                    Some(InGap::Function(name)) => Some(name),
                    _ => None,
                },
            })
        })
        .collect();
    out
}

fn row(
    scope: IdleScope,
    (device, stream): (Option<DeviceId>, Option<StreamId>),
    (start, end): Interval,
    time: IdleTime,
) -> IdleRow {
    let span_ns = end.saturating_sub(start);
    IdleRow {
        scope,
        device,
        stream,
        span_ns,
        // Gaps are all the time that activity leaves free.
        busy_ns: span_ns.saturating_sub(time.idle_ns),
        time,
    }
}

/// What gaps are judged by.
struct Judge {
    waits: Waits,
    submission: Submission,
}

impl Judge {
    fn new(work: &GpuWork<'_>) -> Self {
        Self {
            waits: Waits::new(work),
            submission: Submission::new(work),
        }
    }
}

/// Returns the part of a gap in `within`, its causes, and whether the activity that ends it starts
/// before its call does; `None` if no part lies in `within`.
fn judge(
    work: &GpuWork<'_>,
    rules: &Judge,
    gap: &RawGap<'_>,
    within: Interval,
) -> Option<(Interval, IdleTime, bool)> {
    let (start, end) = gap.interval();
    let (from, to) = (start.max(within.0), end.min(within.1));
    if from >= to {
        return None;
    }
    let inside = |a: i64, b: i64| b.min(to).saturating_sub(a.max(from)).max(0);
    let mut time = IdleTime {
        gaps: 1,
        idle_ns: inside(from, to),
        ..IdleTime::default()
    };
    let launched = gap
        .after
        .and_then(|after| Some((after, work.launch_of(after)?)));
    let Some((after, call)) = launched else {
        time.other_ns = time.idle_ns;
        return Some(((from, to), time, false));
    };
    let called = call.ts().nanos();
    let skewed = called > end;
    let returned = call.end().nanos().clamp(start, end);
    // If a call is running when the device runs dry, its rest counts as launch API call.
    let waited_ns = inside(returned, end);
    // Within a graph, nothing waits for the call.
    let is_same = || {
        let before = gap.before.and_then(|before| work.launch_of(before));
        before.is_some_and(|before| before.id() == call.id())
    };
    let is_delayed = || {
        let kind = kind_of(work, call, after);
        let submission = &rules.submission;
        !is_same() && submission.delays(kind, call.end().nanos(), start, end)
    };
    let slot = match end.saturating_sub(returned) > PLAUSIBLE_LATENCY_NS {
        true => &mut time.blocked_ns,
        false if returned > start || is_delayed() => &mut time.launch_latency_ns,
        false => &mut time.kernel_wait_ns,
    };
    *slot = waited_ns;
    if called <= start {
        time.launch_call_ns = inside(start, returned);
        return Some(((from, to), time, skewed));
    }
    let called = called.min(end);
    time.launch_call_ns = inside(called, returned.max(called));
    let before = TimeRange::new(
        Timestamp::from_nanos(from),
        Timestamp::from_nanos(called.clamp(from, to)),
    );
    (time.synchronisation_ns, time.input_wait_ns) = rules.waits.within(call.track().thread, before);
    time.host_wait_ns = inside(start, called) - time.synchronisation_ns - time.input_wait_ns;
    Some(((from, to), time, skewed))
}
