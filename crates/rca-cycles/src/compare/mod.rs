//! A normal and a slower recording compared: what is slower in every cycle, and why.
//!
//! Per phase and function the own times per cycle of the two sides are compared (Mann-Whitney from
//! eight cycles a side on, else Welch), all probabilities together adjusted by Benjamini and
//! Hochberg. With [`Options::alpha`] 0.05 a pair without a difference gives a culprit in at most 5 %.
//! Functions that are slow in some cycles only are tested by how often they are (see `tails`); the two
//! families take one direction of [`Options::alpha`] each.
//! What follows from something else is not blamed: calls that wait for the device, collectives that
//! wait for a late rank.
//!
//! A side may be several recordings. Recordings of one time are the ranks of one run and keep their
//! places; others are runs of the same thing and are put together.

mod levels;
mod series;
mod sides;
mod tails;
mod workload;

use std::collections::BTreeMap;

use trace_model::{SliceId, Waiting};

use crate::analysis::Analysis;
use crate::num::{median, nanos, span};
use crate::phase::Phase;
use crate::statistics::{difference, moments, p_value};
use crate::timeline::Kind;

pub use self::sides::{Pair, Sides, analyse_each, analyse_pair, analyse_sides};
pub use self::workload::Normalisation;

use self::levels::levels;
use self::series::{Runs, Series, adjust, cycles_of, hypotheses, late_rank};
use self::tails::{Tail, tails};
use self::workload::Scale;

/// Options of [`compare`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Share of pairs without a difference that may give a culprit. Default is 0.05.
    pub alpha: f64,
    /// Least effect, as share of a normal cycle. Default is 0.005.
    pub least_share: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            alpha: 0.05,
            least_share: 0.005,
        }
    }
}

/// What is to blame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum CulpritKind {
    /// Work on a device.
    Kernel,
    /// A function or call of the host.
    Function,
    /// A level of the machine.
    Counter,
    /// A process that is slower than the others.
    Rank,
}

impl CulpritKind {
    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Function => "function",
            Self::Counter => "counter",
            Self::Rank => "rank",
        }
    }
}

/// An event that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Slice of the abnormal trace.
    pub slice: SliceId,
    /// Cycle of the abnormal side.
    pub cycle: u32,
    /// Place of its recording among those of the abnormal side.
    pub run: usize,
    /// Which function it is a call of, by place in the analysis of that recording.
    pub function: usize,
    /// From when to when it was, ns.
    pub at_ns: (i64, i64),
}

/// Something to blame.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Culprit {
    /// Name as in the trace; of a rank, `rank N`.
    pub name: String,
    /// What it is.
    pub kind: CulpritKind,
    /// Phase in which it was found.
    pub phase: Phase,
    /// Device, if it is of one.
    pub device: Option<i64>,
    /// Place of the process among those that work, if there are several.
    pub rank: Option<u32>,
    /// More time per cycle, ns.
    pub effect_ns: i64,
    /// 95 % interval of that.
    pub interval_ns: (i64, i64),
    /// Probability by chance, adjusted for the number of things compared.
    pub p_adjusted: f64,
    /// Mean on the normal side: ns, or the counter's unit.
    pub normal: f64,
    /// Mean on the abnormal side.
    pub abnormal: f64,
    /// It does not occur on the normal side.
    pub is_new: bool,
    /// Events that show it, longest first.
    pub evidence: Vec<Evidence>,
    /// The cycles of the abnormal side in which it is slow, by recording and number, if it is as always
    /// in the others; none if it is slow throughout.
    pub slow_cycles: Vec<(usize, u32)>,
    /// It is no function that calls others: the system does it, or the interpreter by itself.
    is_leaf: bool,
    /// Whole cycles of its phase on the abnormal side.
    cycles: usize,
}

impl Culprit {
    /// More time over the recording, ns.
    fn cost_ns(&self) -> i64 {
        let cycles = i64::try_from(self.cycles).unwrap_or(i64::MAX);
        self.effect_ns.saturating_mul(cycles)
    }
}

/// The lengths of the cycles of one phase on both sides.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PhaseChange {
    /// Which phase.
    pub phase: Phase,
    /// Whole cycles on the normal side.
    pub normal_cycles: usize,
    /// Whole cycles on the abnormal side.
    pub abnormal_cycles: usize,
    /// Median length on the normal side, ns.
    pub normal_ns: i64,
    /// Median length on the abnormal side, ns.
    pub abnormal_ns: i64,
    /// Difference of means, ns.
    pub effect_ns: i64,
    /// 95 % interval of that.
    pub interval_ns: (i64, i64),
    /// Probability by chance.
    pub p_value: f64,
    /// What was done about the work that was asked of the two sides.
    pub normalisation: Normalisation,
}

/// The result of [`compare`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// Why the sides cannot be compared; nothing else is filled in then.
    pub not_comparable: Option<String>,
    /// Lengths by phase.
    pub phases: Vec<PhaseChange>,
    /// What is to blame: what costs most over the recording first.
    pub culprits: Vec<Culprit>,
}

/// The processes that work on devices, in order of host and number; a rank is a place among them.
pub fn ranks(analysis: &Analysis) -> Vec<u32> {
    let mut works: Vec<u32> = analysis
        .functions
        .iter()
        .filter(|f| f.kind.is_device())
        .map(|f| f.process)
        .collect();
    works.sort_by_key(|&p| {
        let m = &analysis.members[p as usize];
        (m.host.clone(), m.pid)
    });
    works.dedup();
    works
}

/// What one phase is compared by.
struct Side<'a> {
    runs: &'a Runs<'a>,
    /// Whole cycles of the phase: run and cycle.
    cycles: Vec<(usize, u32)>,
    /// What the times of each are multiplied by.
    scale: Vec<f64>,
}

/// The most that a phase is sure of which only durations speak for.
const GUESSED: f64 = 0.5;

/// Whether phases were guessed in some recordings and cannot be told in others: what they call the same is not, and what
/// they call different is. Without phases the cycles of both still compare.
fn phases_disagree(runs: [&Runs<'_>; 2]) -> bool {
    let of = |wanted: fn(f64) -> bool| {
        runs.iter().flat_map(|side| &side.list).any(|run| {
            !run.cycles.is_empty() && run.cycles.iter().all(|cycle| wanted(cycle.confidence))
        })
    };
    of(|confidence| confidence <= 0.0) && of(|confidence| confidence > 0.0 && confidence <= GUESSED)
}

impl<'a> Side<'a> {
    /// The whole cycles of a phase, guessed phases being none with `named_only`.
    fn new(runs: &'a Runs<'a>, phase: Phase, named_only: bool) -> Self {
        let mut cycles = Vec::new();
        for (r, run) in runs.list.iter().enumerate() {
            for (i, c) in run.cycles.iter().enumerate() {
                let is_guess = named_only && c.confidence <= GUESSED;
                let own = if is_guess { Phase::Unknown } else { c.phase };
                if own == phase && c.partial.is_none() {
                    cycles.push((r, crate::num::row(i)));
                }
            }
        }
        let scale = vec![1.0; cycles.len()];
        Self {
            runs,
            cycles,
            scale,
        }
    }

    fn each(&self) -> impl Iterator<Item = &'a crate::Cycle> {
        let list = &self.runs.list;
        self.cycles
            .iter()
            .map(|&(r, i)| &list[r].cycles[i as usize])
    }

    /// Lengths as they would be with the workload of the normal side, ns.
    fn lengths(&self) -> Vec<f64> {
        let lengths = self.each().map(|c| span(c.length_ns()));
        lengths.zip(&self.scale).map(|(l, s)| l * s).collect()
    }
}

/// Names what is slower on the abnormal side.
pub fn compare(pair: &Pair, options: &Options) -> Comparison {
    if let Some(reason) = &pair.not_comparable {
        return Comparison {
            not_comparable: Some(reason.clone()),
            ..Comparison::default()
        };
    }
    compare_runs(&[&pair.normal], &[&pair.abnormal], options)
}

/// As [`compare()`], of all recordings of both sides.
pub fn compare_sides(sides: &Sides, options: &Options) -> Comparison {
    if let Some(reason) = &sides.not_comparable {
        return Comparison {
            not_comparable: Some(reason.clone()),
            ..Comparison::default()
        };
    }
    let normal: Vec<&Analysis> = sides.normal.iter().collect();
    let abnormal: Vec<&Analysis> = sides.abnormal.iter().collect();
    compare_runs(&normal, &abnormal, options)
}

/// The series of one phase.
struct Compared<'a> {
    phase: Phase,
    sides: (Side<'a>, Side<'a>),
    /// Mean length of a normal cycle, ns.
    length: f64,
    series: Vec<Series>,
}

fn compare_runs(normal: &[&Analysis], abnormal: &[&Analysis], options: &Options) -> Comparison {
    let (a, b) = (Runs::new(normal), Runs::new(abnormal));
    let mut result = Comparison::default();
    let mut compared = Vec::new();
    let named_only = phases_disagree([&a, &b]);
    for phase in [Phase::Decode, Phase::Prefill, Phase::Mixed, Phase::Unknown] {
        let (mut x, mut y) = (
            Side::new(&a, phase, named_only),
            Side::new(&b, phase, named_only),
        );
        if x.cycles.len() < 3 || y.cycles.len() < 3 {
            continue;
        }
        let scale = Scale::new(&x, &y);
        if let Scale::By(normal, abnormal) = &scale {
            x.scale.clone_from(normal);
            y.scale.clone_from(abnormal);
        }
        let (la, lb) = (x.lengths(), y.lengths());
        let (delta, low, high) = difference(&la, &lb);
        result.phases.push(PhaseChange {
            phase,
            normal_cycles: x.cycles.len(),
            abnormal_cycles: y.cycles.len(),
            normal_ns: nanos(median(&la)),
            abnormal_ns: nanos(median(&lb)),
            effect_ns: nanos(delta),
            interval_ns: (nanos(low), nanos(high)),
            p_value: p_value(&la, &lb),
            normalisation: scale.name(),
        });
        // Longer because more was asked of it: that is no fault of the software.
        if scale == Scale::Outside {
            continue;
        }
        compared.push(Compared {
            phase,
            length: moments(&la).0,
            series: hypotheses(&x, &y),
            sides: (x, y),
        });
    }
    adjust(&mut compared);
    let tails = tails(&compared, options);
    for (phase, tails) in compared.iter().zip(&tails) {
        let before = result.culprits.len();
        blame(phase, tails, options, &mut result.culprits);
        for culprit in result.culprits.iter_mut().skip(before) {
            culprit.cycles = phase.sides.1.cycles.len();
        }
    }
    join_ranks(&mut result.culprits, a.ranks.max(b.ranks));
    finish(&mut result.culprits);
    result
}

fn blame(of: &Compared<'_>, tails: &[Tail], options: &Options, out: &mut Vec<Culprit>) {
    let ((x, y), length, phase) = (&of.sides, of.length, of.phase);
    let series = of.series.as_slice();
    let several = y.runs.ranks > 1;
    let device_grew = series
        .iter()
        .any(|s| s.kind.is_device() && s.is_slower(options, length));
    let late = late_rank(series, options, length);
    let counts = |s: &Series, device_grew: bool| {
        s.may_be_blamed()
            && match s.kind {
                Kind::Launch | Kind::Api => !device_grew,
                Kind::Communication => late.is_none(),
                _ => true,
            }
    };
    let slow_in = |s: &Series, tail: &Tail| {
        let cycles = cycles_of(y, s.rank);
        let each = tail.slow.iter();
        each.filter_map(|&i| cycles.get(i).copied()).collect()
    };
    for (i, s) in series.iter().enumerate() {
        if s.is_slower(options, length) && counts(s, device_grew) {
            let tail = tails.iter().find(|t| t.series == i);
            out.push(Culprit {
                slow_cycles: tail.map_or_else(Vec::new, |t| slow_in(s, t)),
                ..culprit(s, phase, several)
            });
        }
    }
    let kinds: Vec<Kind> = tails.iter().map(|t| series[t.series].kind).collect();
    let others = kinds.iter().any(|k| *k != Kind::Communication);
    let device = device_grew || kinds.iter().any(|k| k.is_device());
    for tail in tails {
        let s = &series[tail.series];
        let Some(adjusted) = tail.adjusted else {
            continue;
        };
        // Collectives wait for whoever is slow.
        if !counts(s, device) || (s.kind == Kind::Communication && others) {
            continue;
        }
        out.push(Culprit {
            p_adjusted: adjusted,
            slow_cycles: slow_in(s, tail),
            ..culprit(s, phase, several)
        });
    }
    if let Some((rank, effect)) = late {
        out.push(Culprit {
            name: format!("rank {rank}"),
            kind: CulpritKind::Rank,
            phase,
            device: None,
            rank: Some(crate::num::row(rank)),
            effect_ns: nanos(effect.0),
            interval_ns: (nanos(effect.1), nanos(effect.2)),
            p_adjusted: series
                .iter()
                .filter(|s| s.rank == rank && s.is_slower(options, length))
                .map(|s| s.adjusted)
                .fold(1.0, f64::min),
            normal: 0.0,
            abnormal: effect.0,
            is_new: false,
            evidence: series
                .iter()
                .filter(|s| s.rank == rank && s.is_slower(options, length))
                .flat_map(|s| s.evidence.iter().copied())
                .take(3)
                .collect(),
            slow_cycles: Vec::new(),
            is_leaf: false,
            cycles: 0,
        });
    }
    levels((x, y), phase, length, series, options, out);
}

fn culprit(s: &Series, phase: Phase, several: bool) -> Culprit {
    Culprit {
        name: s.name.clone(),
        kind: if s.kind.is_device() {
            CulpritKind::Kernel
        } else {
            CulpritKind::Function
        },
        phase,
        device: s.kind.is_device().then_some(s.device),
        rank: several.then(|| crate::num::row(s.rank)),
        effect_ns: nanos(s.effect.0),
        interval_ns: (nanos(s.effect.1), nanos(s.effect.2)),
        p_adjusted: s.adjusted,
        normal: moments(&s.normal).0,
        abnormal: moments(&s.abnormal).0,
        is_new: s.normal.iter().all(|v| *v <= 0.0),
        evidence: s.evidence.clone(),
        slow_cycles: Vec::new(),
        is_leaf: matches!(s.kind, Kind::Disk | Kind::SyscallMemory | Kind::Overhead),
        cycles: 0,
    }
}

/// What is slower on all ranks alike is of none of them: it is one culprit, with the mean effect.
fn join_ranks(culprits: &mut Vec<Culprit>, ranks: usize) {
    /// Share of the largest effect from which on another is like it.
    const LIKE: f64 = 0.5;
    if ranks < 2 {
        return;
    }
    let mut groups: BTreeMap<(String, CulpritKind, Phase), Vec<usize>> = BTreeMap::new();
    for (i, c) in culprits.iter().enumerate() {
        if matches!(c.kind, CulpritKind::Kernel | CulpritKind::Function) && c.rank.is_some() {
            let group = groups.entry((c.name.clone(), c.kind, c.phase)).or_default();
            group.push(i);
        }
    }
    let mut gone = vec![false; culprits.len()];
    for group in groups.values() {
        let effects: Vec<f64> = group.iter().map(|&i| span(culprits[i].effect_ns)).collect();
        let most = effects.iter().copied().fold(0.0, f64::max);
        let mut places: Vec<Option<u32>> = group.iter().map(|&i| culprits[i].rank).collect();
        places.dedup();
        if places.len() < ranks || effects.iter().any(|e| *e < LIKE * most) {
            continue;
        }
        let n = i64::try_from(group.len()).unwrap_or(i64::MAX);
        let mean =
            |of: &dyn Fn(&Culprit) -> i64| group.iter().map(|&i| of(&culprits[i])).sum::<i64>() / n;
        let (effect, low, high) = (
            mean(&|c| c.effect_ns),
            mean(&|c| c.interval_ns.0),
            mean(&|c| c.interval_ns.1),
        );
        let Some((&first, others)) = group.split_first() else {
            continue;
        };
        let joint = &mut culprits[first];
        (joint.effect_ns, joint.interval_ns) = (effect, (low, high));
        (joint.rank, joint.device) = (None, None);
        others.iter().for_each(|&i| gone[i] = true);
    }
    let mut gone = gone.into_iter();
    culprits.retain(|_| !gone.next().unwrap_or(false));
}

/// Each thing once, in the phase where it costs most; causes before what they cause, and what waits behind all others.
fn finish(culprits: &mut Vec<Culprit>) {
    let order = |k: CulpritKind| match k {
        CulpritKind::Rank => 0,
        CulpritKind::Counter => 1,
        CulpritKind::Kernel | CulpritKind::Function => 2,
    };
    let waits = |c: &Culprit| Waiting::of_own_time(&c.name).is_some();
    culprits.sort_by(|x, y| {
        waits(x)
            .cmp(&waits(y))
            .then_with(|| y.cost_ns().cmp(&x.cost_ns()))
            .then_with(|| order(x.kind).cmp(&order(y.kind)))
            .then_with(|| change(y).total_cmp(&change(x)))
            .then_with(|| x.name.cmp(&y.name))
            .then_with(|| (x.device, x.rank).cmp(&(y.device, y.rank)))
    });
    // What the system does is recorded on tracks of its own: the function that waited for it is as much
    // longer, give or take its own noise, and would stand first by chance.
    for i in 1..culprits.len() {
        let (around, leaf) = (&culprits[i - 1], &culprits[i]);
        let near = leaf.cost_ns().saturating_mul(10) >= around.cost_ns().saturating_mul(9);
        if leaf.is_leaf && !around.is_leaf && around.kind == CulpritKind::Function && near {
            culprits.swap(i - 1, i);
        }
    }
    let mut seen: Vec<(String, CulpritKind, Option<i64>, Option<u32>)> = Vec::new();
    culprits.retain(|c| {
        let key = (c.name.clone(), c.kind, c.device, c.rank);
        let fresh = !seen.contains(&key);
        seen.push(key);
        fresh
    });
}

/// How far a level moved, as a factor.
fn change(c: &Culprit) -> f64 {
    if c.kind != CulpritKind::Counter || c.normal <= 0.0 || c.abnormal <= 0.0 {
        return 0.0;
    }
    (c.abnormal / c.normal).ln().abs()
}
