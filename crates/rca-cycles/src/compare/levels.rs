//! Counters that explain what became slower.

use super::{Culprit, CulpritKind, Options, Series, Side};
use crate::CounterSeries;
use crate::num::nanos;
use crate::phase::Phase;
use crate::statistics::{moments, p_value};
use crate::timeline::Kind;

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

/// The counters of a side, those of several recordings joined by name and instance, with the value
/// in each cycle that has one.
fn joined<'a>(side: &Side<'a>) -> Vec<(&'a CounterSeries, Vec<f64>)> {
    let mut list: Vec<(&'a CounterSeries, Vec<f64>)> = Vec::new();
    for (r, run) in side.runs.list.iter().enumerate() {
        for c in &run.counters {
            let cycles = side.cycles.iter().filter(|at| at.0 == r);
            let values = cycles.filter_map(|&(_, i)| c.by_cycle.get(i as usize).copied());
            let known = list
                .iter_mut()
                .find(|(k, _)| (&k.name, &k.host, k.instance) == (&c.name, &c.host, c.instance));
            match known {
                Some((_, old)) => old.extend(values),
                None => list.push((c, values.collect())),
            }
        }
    }
    list
}

/// Blames counters that moved together with what they explain.
pub(super) fn levels(
    (a, b): (&Side<'_>, &Side<'_>),
    phase: Phase,
    length: f64,
    series: &[Series],
    options: &Options,
    out: &mut Vec<Culprit>,
) {
    let normal = joined(a);
    for (y, vy) in joined(b) {
        let Some(claim) = claim(&y.name) else {
            continue;
        };
        // Process numbers and hosts differ between runs; devices and cores do not.
        let same = |x: &&(&CounterSeries, Vec<f64>)| {
            x.0.name == y.name && (x.0.instance == y.instance || y.name.starts_with("process"))
        };
        let Some((_, vx)) = normal.iter().find(same) else {
            continue;
        };
        let (mx, my) = (moments(vx).0, moments(&vy).0);
        if mx.abs() <= 0.0 || !claim.moved(mx, my) || p_value(vx, &vy) > options.alpha {
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
            slow_cycles: Vec::new(),
            is_leaf: false,
            cycles: 0,
        });
    }
}
