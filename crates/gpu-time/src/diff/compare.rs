//! Compares the steps, windows or whole recordings of two traces, and their time breakdowns.

use std::collections::BTreeSet;

use stats::mann_whitney;
pub use trace_model::step_name::step_group;
use trace_model::{TimeRange, Timestamp};

use crate::account::{Account, GpuTime, account};
use crate::diff::host::{HostChange, changes};
use crate::diff::{Diff, diff_kinds};
use crate::recorder::Recorder;
use crate::rules::{Roles, Rules};
use crate::split::{Split, Step};
use crate::spread::Spread;
use crate::work::GpuWork;

/// Metric of a comparison, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Metric {
    /// For a step: its step time, where the caller knows it ([`Step::took`]); else the time from its first GPU activity to the
    /// first one of the next step, for the last step to the end of its own. For a window: its length. For a recording: the span of its GPU
    /// activity.
    Wall,
    /// Part of the wall time in which anything ran.
    Busy,
    /// Part of the wall time in which nothing ran.
    Idle,
    /// Part of the wall time in which computation ran.
    Computation,
    /// Part of the wall time in which communication ran without computation.
    ExposedComm,
    /// Part of the wall time in which only memcpy or other activity ran.
    ExposedOther,
    /// Part of the wall time in which communication ran.
    Communication,
    /// Length of the host's annotation; for steps only.
    HostStep,
}

impl Metric {
    /// All metrics. [`Metric::Wall`] is the sum of computation, exposed communication, exposed other
    /// and idle, exactly, for each step.
    pub const ALL: [Self; 8] = [
        Self::Wall,
        Self::Busy,
        Self::Idle,
        Self::Computation,
        Self::ExposedComm,
        Self::ExposedOther,
        Self::Communication,
        Self::HostStep,
    ];

    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Computation => "computation",
            Self::ExposedComm => "exposed_comm",
            Self::ExposedOther => "exposed_other",
            Self::Communication => "communication",
            Self::HostStep => "host_step",
        }
    }

    fn of(self, time: &GpuTime, host_ns: i64) -> i64 {
        match self {
            Self::Wall => time.span_ns,
            Self::Busy => time.busy_ns,
            Self::Idle => time.idle_ns,
            Self::Computation => time.comp_ns,
            Self::ExposedComm => time.exposed_comm_ns,
            Self::ExposedOther => time.exposed_memcpy_ns + time.exposed_other_ns,
            Self::Communication => time.comm_ns,
            Self::HostStep => host_ns,
        }
    }
}

/// Unit of comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Basis {
    /// The whole recordings.
    Whole,
    /// A window of each recording.
    Window,
    /// Steps, each with the GPU activity that was launched in it.
    Steps,
    /// Steps, each with the GPU activity that starts in it: launches are not recorded.
    StepsByTime,
}

/// Steps of one kind on both sides, or all of both sides.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StepKind {
    /// Phase of the steps, where their names state it (`prefill`, `decode`, `mixed`), else their name
    /// with numbers replaced by `*`; empty for windows and whole recordings.
    pub name: String,
    /// Number of steps of each side; 1 for windows and whole recordings.
    pub steps: [u64; 2],
    /// Distribution of each of [`Metric::ALL`] over the steps of each side. The last step of a
    /// trace does not count, as its end is unknown, unless one side has no other step of the kind:
    /// then the last steps of both sides are compared.
    pub metrics: [[Spread; 2]; 8],
    /// Number of kernels, memcpys and memsets of each side, in all steps.
    pub events: [u64; 2],
    /// Two-sided p of the Mann-Whitney test on [`Metric::Wall`] of both sides; `None` where a side
    /// has fewer than [`ENOUGH_STEPS`].
    pub wall_p: Option<f64>,
}

/// Minimum number of steps of each side that a difference can be told from chance by.
pub const ENOUGH_STEPS: u64 = 3;

/// Maximum p of a difference that chance does not explain.
const SIGNIFICANT: f64 = 0.05;

/// Medians that differ by less than this part of the first are about the same.
const ALIKE: f64 = 0.01;

impl StepKind {
    /// Returns the distribution of one metric on both sides.
    pub fn metric(&self, metric: Metric) -> [Spread; 2] {
        let at = Metric::ALL.iter().position(|m| *m == metric);
        at.and_then(|at| self.metrics.get(at))
            .copied()
            .unwrap_or_default()
    }

    /// Returns `true` if the medians of [`Metric::Wall`] differ by less than 1 % of the first.
    pub fn is_alike(&self) -> bool {
        let [a, b] = self.metric(Metric::Wall).map(|spread| spread.median_ns);
        (b - a).abs() < ALIKE * a
    }

    /// Returns `true` if the steps of the sides take different times, which chance does not explain
    /// (p at most 0.05).
    pub fn is_significant(&self) -> bool {
        !self.is_alike() && self.wall_p.is_some_and(|p| p <= SIGNIFICANT)
    }

    /// Returns `true` if each side has steps of this kind.
    pub fn is_comparable(&self) -> bool {
        self.steps.iter().all(|n| *n > 0)
    }
}

/// One step of one side.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StepTime {
    /// Name of the step.
    pub name: String,
    /// Length of the host's annotation in nanoseconds.
    pub host_ns: i64,
    /// Breakdown of its time, from the start to the end of [`Metric::Wall`].
    pub time: GpuTime,
}

/// Comparison of two traces.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// Unit of comparison.
    pub basis: Basis,
    /// Kinds of steps that both sides have, most time of the first side first; a single one for
    /// windows and whole recordings.
    pub kinds: Vec<StepKind>,
    /// Kinds of steps that only one side has. They are not compared.
    pub lonely: Vec<StepKind>,
    /// Kernels and operators of the compared parts.
    pub diff: Diff,
    /// The steps of each side that have GPU activity, in ascending time.
    pub steps: [Vec<StepTime>; 2],
    /// Functions and operators of the launching threads, largest difference first; empty unless both
    /// sides have steps and recorded host code.
    pub host: Vec<HostChange>,
    /// Number and time of GPU activities of each side that belong to none of the compared steps.
    pub left_out: [(u64, i64); 2],
    /// What recorded each side.
    pub recorders: [Recorder; 2],
}

impl Comparison {
    /// Returns `true` if both sides have the same GPU activity with the same durations and the same
    /// times.
    pub fn is_equal(&self) -> bool {
        let same = |kind: &StepKind| {
            kind.steps[0] == kind.steps[1] && kind.metrics.iter().all(|[a, b]| a == b)
        };
        self.lonely.is_empty()
            && self.kinds.iter().all(same)
            && self.left_out[0] == self.left_out[1]
            && self
                .diff
                .kernels
                .iter()
                .all(|k| k.ns[0] == k.ns[1] && k.count[0] == k.count[1])
    }
}

/// A step of one side: its events, the begin of its GPU activity, and its host time.
struct Cut {
    /// Its index among all steps.
    place: usize,
    kind: String,
    name: String,
    events: Vec<usize>,
    start_ns: i64,
    end_ns: i64,
    host_ns: i64,
    time: GpuTime,
    /// `true` if no other step follows: the time from its last activity to the next step is
    /// unknown.
    open: bool,
    /// `true` for the first step of a recording where step times begin with the end of the step before: the time between two steps is
    /// missing from it.
    first: bool,
}

/// Compares two traces: by steps where `steps` has some of both sides, as a whole otherwise;
/// `windows` are the lengths of the compared windows, if any. Partly recorded steps do not count.
///
/// Cost: that of [`diff`](crate::diff::diff()), and a pass over the events of each side.
pub fn compare(
    works: [&GpuWork<'_>; 2],
    rules: Rules,
    steps: Option<[&[Step]; 2]>,
    windows: [Option<TimeRange>; 2],
) -> Comparison {
    match steps {
        Some(steps) => compare_chosen(works, rules, steps, [None, None]),
        None => whole(works, rules, windows),
    }
}

/// Compares chosen steps as [`compare()`] does: `steps` are all steps of each side, `chosen` the
/// ascending indices of those to compare. The time of a step ends where the next one begins, chosen
/// or not.
///
/// Cost: that of [`compare()`].
pub fn compare_chosen(
    works: [&GpuWork<'_>; 2],
    rules: Rules,
    steps: [&[Step]; 2],
    chosen: [Option<&[usize]>; 2],
) -> Comparison {
    // Times of one kind on both sides.
    let is_timed = |side: &[Step]| side.iter().any(|step| step.took.is_some());
    let times = match steps.iter().all(|side| is_timed(side)) {
        true => Times::Steps,
        false => Times::Launches,
    };
    let by_launch = [0, 1].map(|i| cuts(works[i], steps[i], times));
    let has_launches = by_launch.iter().all(|cuts| !cuts.is_empty());
    let (basis, mut cuts) = match has_launches {
        true => (Basis::Steps, by_launch),
        false => (
            Basis::StepsByTime,
            [0, 1].map(|i| cuts(works[i], steps[i], Times::Starts)),
        ),
    };
    for ((cuts, work), chosen) in cuts.iter_mut().zip(works).zip(chosen) {
        measure(work, rules, cuts);
        if let Some(chosen) = chosen {
            cuts.retain(|cut| chosen.binary_search(&cut.place).is_ok());
        }
    }
    let mut names: Vec<&str> = cuts.iter().flatten().map(|c| c.kind.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    type OfKind = (StepKind, ([Vec<Vec<usize>>; 2], [Vec<usize>; 2]));
    let mut all: Vec<OfKind> = names
        .iter()
        .map(|name| {
            let of = [0, 1].map(|i| {
                let found = cuts[i].iter().filter(|c| c.kind == *name);
                found.collect::<Vec<_>>()
            });
            let events = [0, 1].map(|i| of[i].iter().map(|c| c.events.clone()).collect());
            let places = timed(&of).map(|cuts| cuts.iter().map(|cut| cut.place).collect());
            (kind(name, &of), (events, places))
        })
        .collect();
    all.sort_by_key(|(kind, _)| std::cmp::Reverse(kind.metric(Metric::Wall)[0].sum_ns));
    let (common, lonely): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(kind, _)| kind.is_comparable());
    let (kinds, found): (Vec<StepKind>, Vec<_>) = common.into_iter().unzip();
    let (events, places): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let diff = diff_kinds(works, &events);
    let left_out = [0, 1].map(|i| {
        let ns: i64 = works[i].events().iter().map(|e| e.dur_ns()).sum();
        let total = &diff.totals[i];
        (
            (works[i].events().len() as u64).saturating_sub(total.events),
            ns.saturating_sub(total.ns),
        )
    });
    Comparison {
        basis,
        kinds,
        lonely: lonely.into_iter().map(|(kind, _)| kind).collect(),
        diff,
        host: changes(works, steps, &places),
        steps: cuts.map(|cuts| cuts.into_iter().map(StepTime::from).collect()),
        left_out,
        recorders: works.map(|work| Recorder::of(work.trace())),
    }
}

impl From<Cut> for StepTime {
    fn from(cut: Cut) -> Self {
        Self {
            name: cut.name,
            host_ns: cut.host_ns,
            time: cut.time,
        }
    }
}

fn whole(works: [&GpuWork<'_>; 2], rules: Rules, windows: [Option<TimeRange>; 2]) -> Comparison {
    let cuts = [0, 1].map(|i| {
        let time = account(
            &mut Roles::new(works[i], rules),
            works[i].events(),
            windows[i],
        );
        Cut {
            place: 0,
            kind: String::new(),
            name: String::new(),
            events: (0..works[i].events().len()).collect(),
            start_ns: time.start_ns,
            end_ns: time.start_ns.saturating_add(time.span_ns),
            host_ns: 0,
            time,
            open: false,
            first: false,
        }
    });
    let events = cuts.each_ref().map(|cut| vec![cut.events.clone()]);
    Comparison {
        basis: match windows {
            [None, None] => Basis::Whole,
            _ => Basis::Window,
        },
        kinds: vec![kind("", &cuts.each_ref().map(|cut| vec![cut]))],
        lonely: Vec::new(),
        diff: diff_kinds(works, &[events]),
        host: Vec::new(),
        steps: [Vec::new(), Vec::new()],
        left_out: [(0, 0); 2],
        recorders: works.map(|work| Recorder::of(work.trace())),
    }
}

fn kind(name: &str, of: &[Vec<&Cut>; 2]) -> StepKind {
    let timed = timed(of);
    let values = |metric: Metric, i: usize| {
        let list = timed.get(i).into_iter().flatten();
        list.map(move |cut| metric.of(&cut.time, cut.host_ns))
    };
    let metrics = Metric::ALL
        .map(|metric| [0, 1].map(|i| Spread::of(&mut values(metric, i).collect::<Vec<_>>())));
    let is_enough = timed.iter().all(|cuts| cuts.len() as u64 >= ENOUGH_STEPS);
    let wall_p = is_enough.then(|| {
        #[expect(clippy::cast_precision_loss, reason = "only the order counts")]
        let [a, b] = [0, 1].map(|i| {
            values(Metric::Wall, i)
                .map(|ns| ns as f64)
                .collect::<Vec<_>>()
        });
        mann_whitney(&a, &b)
    });
    StepKind {
        name: name.to_owned(),
        steps: [of[0].len() as u64, of[1].len() as u64],
        metrics,
        events: [0, 1].map(|i| of[i].iter().map(|cut| cut.events.len() as u64).sum()),
        wall_p,
    }
}

/// Returns the steps whose times are compared: on both sides those that end with the start of
/// another step, else on both sides the last ones, else all. First steps of recordings are left out where at least two others are on both
/// sides.
fn timed<'c>(of: &[Vec<&'c Cut>; 2]) -> [Vec<&'c Cut>; 2] {
    for open in [false, true] {
        let found = of.each_ref().map(|cuts| {
            let same = cuts.iter().copied().filter(|cut| cut.open == open);
            same.collect::<Vec<_>>()
        });
        if found.iter().all(|cuts| !cuts.is_empty()) {
            let later = found.each_ref().map(|cuts| {
                let later = cuts.iter().copied().filter(|cut| !cut.first);
                later.collect::<Vec<_>>()
            });
            return match later.iter().all(|cuts| cuts.len() >= 2) {
                true => later,
                false => found,
            };
        }
    }
    of.clone()
}

/// How steps hold activity and where they begin and end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Times {
    /// A step holds the activity launched in it, and lasts for its step time.
    Steps,
    /// A step holds the activity launched in it, and lasts from its first one to that of the next step.
    Launches,
    /// A step holds the activity that starts between its start and that of the next step, and lasts as long.
    Starts,
}

/// Returns the steps of one side that have GPU activity, in ascending time.
fn cuts(work: &GpuWork<'_>, steps: &[Step], times: Times) -> Vec<Cut> {
    let by_launch = times != Times::Starts;
    let how = Split {
        steps: Some(steps.to_vec()),
        ..Split::default()
    };
    let mut events: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (place, event) in work.events().iter().enumerate() {
        let at = match by_launch {
            true => how.launched_in(work, event),
            false => {
                let start = Timestamp::from_nanos(event.start_ns);
                steps
                    .partition_point(|s| s.range.start <= start)
                    .checked_sub(1)
            }
        };
        if let Some(list) = at.and_then(|at| events.get_mut(at)) {
            list.push(place);
        }
    }
    let end_of = |events: &[usize]| {
        let found = events.iter().filter_map(|e| work.events().get(*e));
        found.map(|e| e.end_ns).max()
    };
    let mut out: Vec<Cut> = Vec::new();
    let mut ends = BTreeSet::new();
    for (place, (step, events)) in steps.iter().zip(events).enumerate() {
        let first = events.first().and_then(|e| work.events().get(*e));
        let (Some(first), Some(end_ns), None) = (first, end_of(&events), &step.partial) else {
            continue;
        };
        if times == Times::Steps {
            let Some(took) = step.took else {
                continue;
            };
            // The first step of a recording begins with its own mark: the time between two steps is missing from it.
            let is_first =
                step.number.is_none_or(|number| number == 0) && !ends.contains(&took.start.nanos());
            ends.insert(took.end.nanos());
            out.push(Cut {
                place,
                kind: step_group(&step.name),
                name: step.name.clone(),
                events,
                start_ns: took.start.nanos(),
                end_ns: took.end.nanos(),
                host_ns: step.range.duration().get(),
                time: GpuTime::default(),
                open: false,
                first: is_first,
            });
            continue;
        }
        let start_ns = match by_launch {
            true => first.start_ns,
            false => step.range.start.nanos(),
        };
        // With several streams a step may begin before its predecessor; then it has no time of its
        // own until the predecessor has begun.
        let start_ns = out
            .last()
            .map_or(start_ns, |last| last.start_ns.max(start_ns));
        if let Some(last) = out.last_mut() {
            last.end_ns = start_ns;
            last.open = false;
        }
        out.push(Cut {
            place,
            kind: step_group(&step.name),
            name: step.name.clone(),
            events,
            start_ns,
            end_ns: end_ns.max(start_ns),
            host_ns: step.range.duration().get(),
            time: GpuTime::default(),
            open: true,
            first: false,
        });
    }
    out
}

/// Measures the time of each step: all GPU activity that runs in it, including that of other steps.
fn measure(work: &GpuWork<'_>, rules: Rules, cuts: &mut [Cut]) {
    let mut roles = Roles::new(work, rules);
    let range = |cut: &Cut| {
        let at = Timestamp::from_nanos;
        TimeRange::new(at(cut.start_ns), at(cut.end_ns))
    };
    let mut accounts: Vec<Account> = cuts.iter().map(|c| Account::within(range(c))).collect();
    for event in work.events() {
        let role = roles.of(event);
        let from = cuts.partition_point(|c| c.end_ns <= event.start_ns);
        for (cut, account) in cuts.iter().zip(&mut accounts).skip(from) {
            if cut.start_ns >= event.end_ns {
                break;
            }
            account.add(event.kind, role, event.interval());
        }
    }
    for (cut, account) in cuts.iter_mut().zip(&accounts) {
        cut.time = account.finish();
    }
}
