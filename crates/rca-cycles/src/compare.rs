//! A normal and a slower recording compared: what is slower in every cycle, and why.
//!
//! Per phase and function the own times per cycle of the two sides are compared (Mann-Whitney from
//! eight cycles a side on, else Welch), all probabilities together adjusted by Benjamini and
//! Hochberg. With [`Options::alpha`] 0.05 a pair without a difference gives a culprit in at most 5 %.
//! What follows from something else is not blamed: calls that wait for the device, collectives that
//! wait for a late rank.

use rustc_hash::FxHashMap;
use trace_model::{SliceId, Trace};

use crate::analysis::{Analysis, Failure, analyse};
use crate::num::{median, nanos, real, span};
use crate::phase::Phase;
use crate::statistics::{adjusted, difference, moments, p_value};
use crate::timeline::Kind;

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
}

/// The result of [`compare`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// Why the sides cannot be compared; nothing else is filled in then.
    pub not_comparable: Option<String>,
    /// Lengths by phase.
    pub phases: Vec<PhaseChange>,
    /// What is to blame, largest effect first.
    pub culprits: Vec<Culprit>,
}

/// Both sides of a pair, cut at the same function.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pair {
    /// The normal side.
    pub normal: Analysis,
    /// The abnormal side.
    pub abnormal: Analysis,
    /// The sides chose different functions by themselves; this one cuts both.
    pub re_anchored: Option<String>,
    /// Why the sides cannot be compared, if so.
    pub not_comparable: Option<String>,
}

/// Analyses both sides of a pair at one function: that which both choose, else that of either side
/// that cuts both at a like pace.
///
/// # Errors
///
/// [`Failure`] of a side.
pub fn analyse_pair(
    normal: &Trace,
    abnormal: &Trace,
    options: &crate::Options,
) -> Result<Pair, Failure> {
    let a = analyse(normal, options)?;
    let b = analyse(abnormal, options)?;
    let reason = mismatch(&a, &b);
    let Some(reason) = reason else {
        return Ok(Pair {
            normal: a,
            abnormal: b,
            re_anchored: None,
            not_comparable: None,
        });
    };
    for anchor in [a.anchor.clone(), b.anchor.clone()] {
        let mut joint = options.clone();
        joint.marker = Some(anchor.clone());
        if anchor.to_lowercase().contains("layer") {
            continue;
        }
        if let (Ok(x), Ok(y)) = (analyse(normal, &joint), analyse(abnormal, &joint))
            && x.cycles.len() >= 3
            && y.cycles.len() >= 3
            && mismatch(&x, &y).is_none()
        {
            return Ok(Pair {
                normal: x,
                abnormal: y,
                re_anchored: Some(anchor),
                not_comparable: None,
            });
        }
    }
    Ok(Pair {
        normal: a,
        abnormal: b,
        re_anchored: None,
        not_comparable: Some(reason),
    })
}

/// Why two analyses do not speak of the same thing.
fn mismatch(a: &Analysis, b: &Analysis) -> Option<String> {
    if a.anchor != b.anchor {
        return Some(format!(
            "the sides are cut at different functions, {:?} and {:?}: an outer function may have been open already when one recording began",
            a.anchor, b.anchor
        ));
    }
    let pace = |x: &Analysis| x.period_ns().map(|p| span(p.max(1)));
    if let (Some(x), Some(y)) = (pace(a), pace(b)) {
        let ratio = (x / y).max(y / x);
        if ratio > 20.0 {
            return Some(format!(
                "the sides are cut at {:?} at paces {ratio:.0} times apart",
                a.anchor
            ));
        }
    }
    None
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

/// One hypothesis: a series of values per cycle on either side.
struct Series {
    name: String,
    kind: Kind,
    rank: usize,
    device: i64,
    normal: Vec<f64>,
    abnormal: Vec<f64>,
    evidence: Vec<Evidence>,
    effect: (f64, f64, f64),
    p: f64,
    adjusted: f64,
}

impl Series {
    fn is_slower(&self, options: &Options, length: f64) -> bool {
        self.adjusted <= options.alpha && self.effect.0 >= options.least_share * length
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
    let (a, b) = (&pair.normal, &pair.abnormal);
    let mut result = Comparison::default();
    for phase in [Phase::Decode, Phase::Prefill, Phase::Mixed, Phase::Unknown] {
        let of = |x: &Analysis| -> Vec<u32> {
            let whole = x.cycles.iter().enumerate();
            whole
                .filter(|(_, c)| c.phase == phase && c.partial.is_none())
                .map(|(i, _)| crate::num::row(i))
                .collect()
        };
        let (ca, cb) = (of(a), of(b));
        if ca.len() < 3 || cb.len() < 3 {
            continue;
        }
        let lengths = |x: &Analysis, list: &[u32]| -> Vec<f64> {
            list.iter()
                .map(|&i| span(x.cycles[i as usize].length_ns()))
                .collect()
        };
        let (la, lb) = (lengths(a, &ca), lengths(b, &cb));
        let (delta, low, high) = difference(&la, &lb);
        result.phases.push(PhaseChange {
            phase,
            normal_cycles: ca.len(),
            abnormal_cycles: cb.len(),
            normal_ns: nanos(median(&la)),
            abnormal_ns: nanos(median(&lb)),
            effect_ns: nanos(delta),
            interval_ns: (nanos(low), nanos(high)),
            p_value: p_value(&la, &lb),
        });
        let length = moments(&la).0;
        let series = hypotheses(a, b, &ca, &cb);
        blame(
            a,
            b,
            phase,
            (&ca, &cb),
            length,
            series,
            options,
            &mut result.culprits,
        );
    }
    finish(&mut result.culprits);
    result
}

fn hypotheses(a: &Analysis, b: &Analysis, ca: &[u32], cb: &[u32]) -> Vec<Series> {
    type Key = (String, bool, Kind, usize, i64);
    let mut index: FxHashMap<Key, usize> = FxHashMap::default();
    let mut list: Vec<Series> = Vec::new();
    for (side, cycles) in [(a, ca), (b, cb)] {
        let ranks = ranks(side);
        let mut place = vec![usize::MAX; side.cycles.len()];
        for (i, &c) in cycles.iter().enumerate() {
            place[c as usize] = i;
        }
        let is_normal = std::ptr::eq(side, a);
        for f in &side.functions {
            let rank = ranks.iter().position(|&r| r == f.process).unwrap_or(0);
            let device = if ranks.len() > 1 || !f.kind.is_device() {
                -1
            } else {
                f.device
            };
            let key = (f.name.clone(), f.kind.is_device(), f.kind, rank, device);
            let at = *index.entry(key).or_insert_with(|| {
                list.push(Series {
                    name: f.name.clone(),
                    kind: f.kind,
                    rank,
                    device: f.device,
                    normal: vec![0.0; ca.len()],
                    abnormal: vec![0.0; cb.len()],
                    evidence: Vec::new(),
                    effect: (0.0, 0.0, 0.0),
                    p: 1.0,
                    adjusted: 1.0,
                });
                list.len() - 1
            });
            let mut best: Vec<(i64, Evidence)> = Vec::new();
            for cell in &f.cells {
                let Some(&p) = place.get(cell.cycle as usize).filter(|p| **p != usize::MAX) else {
                    continue;
                };
                let values = if is_normal {
                    &mut list[at].normal
                } else {
                    &mut list[at].abnormal
                };
                values[p] += span(cell.self_ns);
                if !is_normal {
                    best.push((
                        cell.longest_ns,
                        Evidence {
                            slice: cell.longest,
                            cycle: cell.cycle,
                        },
                    ));
                }
            }
            best.sort_by_key(|e| (std::cmp::Reverse(e.0), e.1.slice));
            list[at]
                .evidence
                .extend(best.into_iter().take(3).map(|e| e.1));
        }
    }
    let p: Vec<f64> = list
        .iter()
        .map(|s| p_value(&s.normal, &s.abnormal))
        .collect();
    let q = adjusted(&p);
    for ((s, p), q) in list.iter_mut().zip(p).zip(q) {
        s.effect = difference(&s.normal, &s.abnormal);
        (s.p, s.adjusted) = (p, q);
    }
    list
}

#[expect(
    clippy::too_many_arguments,
    reason = "one call, kept apart from it for length only"
)]
fn blame(
    a: &Analysis,
    b: &Analysis,
    phase: Phase,
    (ca, cb): (&[u32], &[u32]),
    length: f64,
    series: Vec<Series>,
    options: &Options,
    out: &mut Vec<Culprit>,
) {
    let several = ranks(b).len() > 1;
    let device_grew = series
        .iter()
        .any(|s| s.kind.is_device() && s.is_slower(options, length));
    let late = late_rank(&series, options, length);
    for s in &series {
        let slower = s.is_slower(options, length);
        let counts = match s.kind {
            // They wait for something else, or contain it.
            Kind::Sync | Kind::OnCpu | Kind::Annotation | Kind::Other => false,
            Kind::Launch | Kind::Api => !device_grew,
            Kind::Communication => late.is_none(),
            _ => true,
        };
        if slower && counts {
            out.push(culprit(s, phase, several));
        }
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
        });
    }
    levels(a, b, phase, (ca, cb), length, &series, options, out);
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
    }
}

/// A rank on which at least two things are slower and whose work grew three times as much as that
/// of any other.
fn late_rank(
    series: &[Series],
    options: &Options,
    length: f64,
) -> Option<(usize, (f64, f64, f64))> {
    let ranks = series
        .iter()
        .filter(|s| s.kind.is_device())
        .map(|s| s.rank)
        .max()?
        + 1;
    if ranks < 2 {
        return None;
    }
    let mut growth = vec![(0.0, 0.0, 0.0); ranks];
    let mut count = vec![0; ranks];
    for s in series {
        let own = matches!(
            s.kind,
            Kind::Compute | Kind::Copy | Kind::Python | Kind::Op | Kind::Overhead
        );
        if own && s.is_slower(options, length) {
            let g: &mut (f64, f64, f64) = &mut growth[s.rank];
            g.0 += s.effect.0;
            g.1 += s.effect.1;
            g.2 += s.effect.2;
            count[s.rank] += 1;
        }
    }
    let most = (0..ranks).max_by(|&x, &y| growth[x].0.total_cmp(&growth[y].0))?;
    let other = (0..ranks)
        .filter(|&r| r != most)
        .map(|r| growth[r].0)
        .fold(0.0, f64::max);
    (count[most] >= 2 && growth[most].0 > 3.0 * other).then(|| (most, growth[most]))
}

/// What a counter would explain if it is to blame.
#[derive(Clone, Copy, PartialEq)]
enum Claim {
    DeviceClock,
    HostClock,
    Link,
    Memory,
    Disk,
}

fn claim(name: &str) -> Option<Claim> {
    let is_clock = name.contains("frequency") || name.contains("clock");
    Some(if is_clock && name.starts_with("cpu") {
        Claim::HostClock
    } else if is_clock {
        Claim::DeviceClock
    } else if ["link", "pcie", "net_"].iter().any(|w| name.contains(w)) {
        Claim::Link
    } else if name.starts_with("disk") {
        Claim::Disk
    } else if name.contains("mem") {
        Claim::Memory
    } else {
        return None;
    })
}

impl Claim {
    fn covers(self, s: &Series) -> bool {
        let lower = s.name.to_lowercase();
        match self {
            Self::DeviceClock => s.kind == Kind::Compute,
            Self::HostClock => matches!(s.kind, Kind::Python | Kind::Op | Kind::Launch | Kind::Api),
            Self::Link => matches!(s.kind, Kind::Communication | Kind::Copy),
            Self::Memory => {
                matches!(s.kind, Kind::SyscallMemory | Kind::Copy)
                    || ["malloc", "free", "alloc", "empty_cache", "swap", "evict"]
                        .iter()
                        .any(|w| lower.contains(w))
            }
            Self::Disk => s.kind == Kind::Disk,
        }
    }

    /// Did the level move the way that costs time, and far enough?
    fn moved(self, normal: f64, abnormal: f64) -> bool {
        let ratio = abnormal / normal;
        match self {
            Self::DeviceClock | Self::HostClock => ratio < 0.9,
            Self::Memory => ratio > 1.05,
            Self::Link | Self::Disk => !(0.8..=1.2).contains(&ratio),
        }
    }

    /// Clocks slow down everything, or they are not to blame.
    fn needs_all(self) -> bool {
        matches!(self, Self::DeviceClock | Self::HostClock)
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "one call, kept apart from it for length only"
)]
fn levels(
    a: &Analysis,
    b: &Analysis,
    phase: Phase,
    (ca, cb): (&[u32], &[u32]),
    length: f64,
    series: &[Series],
    options: &Options,
    out: &mut Vec<Culprit>,
) {
    for y in &b.counters {
        let Some(claim) = claim(&y.name) else {
            continue;
        };
        // Process numbers and hosts differ between runs; devices and cores do not.
        let same = |x: &&crate::CounterSeries| {
            x.name == y.name && (x.instance == y.instance || y.name.starts_with("process"))
        };
        let Some(x) = a.counters.iter().find(same) else {
            continue;
        };
        let values = |c: &crate::CounterSeries, list: &[u32]| -> Vec<f64> {
            list.iter().map(|&i| c.by_cycle[i as usize]).collect()
        };
        let (vx, vy) = (values(x, ca), values(y, cb));
        let (mx, my) = (moments(&vx).0, moments(&vy).0);
        if mx.abs() <= 0.0 || !claim.moved(mx, my) || p_value(&vx, &vy) > options.alpha {
            continue;
        }
        let covered: Vec<&Series> = series.iter().filter(|s| claim.covers(s)).collect();
        let grown: Vec<&&Series> = covered
            .iter()
            .filter(|s| s.is_slower(options, 0.1 * length))
            .collect();
        if grown.is_empty() {
            continue;
        }
        let weight = |s: &Series| moments(&s.normal).0;
        if claim.needs_all() {
            let all: f64 = covered.iter().map(|s| weight(s)).sum();
            let slow: f64 = covered
                .iter()
                .filter(|s| moments(&s.abnormal).0 > 1.05 * weight(s))
                .map(|s| weight(s))
                .sum();
            if covered.len() < 2 || slow < 0.6 * all {
                continue;
            }
        }
        let sum = |f: &dyn Fn(&Series) -> f64| -> f64 { grown.iter().map(|s| f(s)).sum() };
        let effect = sum(&|s| s.effect.0);
        if effect < options.least_share * length {
            continue;
        }
        out.push(Culprit {
            name: y.name.clone(),
            kind: CulpritKind::Counter,
            phase,
            device: y.name.starts_with("gpu").then_some(y.instance),
            rank: None,
            effect_ns: nanos(effect),
            interval_ns: (nanos(sum(&|s| s.effect.1)), nanos(sum(&|s| s.effect.2))),
            p_adjusted: grown.iter().map(|s| s.adjusted).fold(0.0, f64::max),
            normal: mx,
            abnormal: my,
            is_new: false,
            evidence: grown
                .iter()
                .flat_map(|s| s.evidence.iter().copied())
                .take(3)
                .collect(),
        });
    }
}

/// Each thing once, in the phase where it costs most; causes before what they cause.
fn finish(culprits: &mut Vec<Culprit>) {
    let order = |k: CulpritKind| match k {
        CulpritKind::Rank => 0,
        CulpritKind::Counter => 1,
        CulpritKind::Kernel | CulpritKind::Function => 2,
    };
    culprits.sort_by(|x, y| {
        y.effect_ns
            .cmp(&x.effect_ns)
            .then_with(|| order(x.kind).cmp(&order(y.kind)))
            .then_with(|| change(y).total_cmp(&change(x)))
            .then_with(|| x.name.cmp(&y.name))
            .then_with(|| (x.device, x.rank).cmp(&(y.device, y.rank)))
    });
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
    real(1) * (c.abnormal / c.normal).ln().abs()
}
