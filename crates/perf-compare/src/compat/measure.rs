//! One comparison: the numbers of section 4.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::stats::{Moments, mann_whitney, welch_p};
use crate::table::{Name, Names, PerfRow};

/// Spreads up to this count as none.
const NO_SPREAD: f64 = 1e-9;

/// One line of the result: a function, a metric, a device.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) function: String,
    pub(super) metric: String,
    pub(super) device: String,
    pub(super) score: f64,
    pub(super) beta: [f64; 2],
    pub(super) beta_change: f64,
    pub(super) z_beta: Option<f64>,
    pub(super) p_beta: f64,
    pub(super) u_beta: f64,
    pub(super) mu: [f64; 2],
    pub(super) mu_change: f64,
    pub(super) z_mu: Option<f64>,
    pub(super) z_log_mu: Option<f64>,
    pub(super) p_mu: f64,
    pub(super) u_mu: f64,
}

/// Cycle lengths of both groups and all lines, most suspicious first.
#[derive(Debug, Clone, Default)]
pub(super) struct Comparison {
    pub(super) cycles_us: [Vec<f64>; 2],
    pub(super) lines: Vec<Line>,
}

impl Comparison {
    /// The largest score, 0 without lines.
    pub(super) fn max_score(&self) -> f64 {
        self.lines.iter().map(|line| line.score).fold(0.0, f64::max)
    }
}

type Key = (Name, Name, Option<Name>);

/// Compares two groups of rows; the first one is the baseline.
pub(super) fn compare(one: &[PerfRow], two: &[PerfRow], names: &Names) -> Comparison {
    let mut groups: FxHashMap<Key, [Vec<u32>; 2]> = FxHashMap::default();
    for (side, rows) in [one, two].into_iter().enumerate() {
        for (at, row) in (0_u32..).zip(rows) {
            if let (Some(function), Some(metric)) = (row.function, row.metric) {
                groups.entry((function, metric, row.device)).or_default()[side].push(at);
            }
        }
    }
    let text = |name: Option<Name>| name.map_or("N/A", |name| names.text(name)).to_owned();
    let mut lines: Vec<Line> = groups
        .into_iter()
        .map(|((function, metric, device), sides)| {
            let mut line = line(one, two, &sides);
            line.function = text(Some(function));
            line.metric = text(Some(metric));
            line.device = text(device);
            line
        })
        .collect();
    lines.sort_by(|a, b| {
        let by_score = b.score.is_nan().cmp(&a.score.is_nan()).reverse();
        by_score
            .then(b.score.total_cmp(&a.score))
            .then_with(|| a.key().cmp(&b.key()))
    });
    Comparison {
        cycles_us: [cycles(one), cycles(two)],
        lines,
    }
}

impl Line {
    fn key(&self) -> (&str, &str, &str) {
        (&self.function, &self.metric, &self.device)
    }
}

/// Lengths of the distinct (cycle, length) pairs, longest first.
fn cycles(rows: &[PerfRow]) -> Vec<f64> {
    let mut distinct: BTreeMap<(i64, u64), f64> = BTreeMap::new();
    for row in rows {
        distinct.insert((row.cycle, row.cycle_us.to_bits()), row.cycle_us);
    }
    let mut lengths: Vec<f64> = distinct.into_values().collect();
    lengths.sort_by(|a, b| b.total_cmp(a));
    lengths
}

/// What one group contributes to a line.
struct Side {
    beta: Moments,
    mu: Moments,
    log_mu: Moments,
    betas: Vec<f64>,
    mus: Vec<f64>,
    cycles: usize,
}

impl Side {
    fn of(rows: &[PerfRow], picked: &[u32]) -> Self {
        let picked: Vec<&PerfRow> = picked
            .iter()
            .filter_map(|&at| rows.get(at as usize))
            .collect();
        let betas: Vec<f64> = picked.iter().map(|row| row.beta_pct).collect();
        let zero_if_missing = |mu: f64| if mu.is_nan() { 0.0 } else { mu };
        let mus: Vec<f64> = picked
            .iter()
            .map(|row| zero_if_missing(row.mu_pct))
            .collect();
        let mut cycles: Vec<i64> = picked.iter().map(|row| row.cycle).collect();
        cycles.sort_unstable();
        cycles.dedup();
        let moments = |values: &mut dyn Iterator<Item = f64>| {
            let m = Moments::of(values);
            let or_zero = |x: f64| if x.is_nan() { 0.0 } else { x };
            Moments {
                n: cycles.len(),
                mean: or_zero(m.mean),
                std: or_zero(m.std),
            }
        };
        Self {
            beta: moments(&mut betas.iter().copied()),
            mu: moments(&mut mus.iter().copied()),
            log_mu: moments(&mut mus.iter().map(|mu| mu.ln_1p())),
            cycles: cycles.len(),
            betas,
            mus,
        }
    }
}

fn line(one: &[PerfRow], two: &[PerfRow], sides: &[Vec<u32>; 2]) -> Line {
    let a = Side::of(one, &sides[0]);
    let b = Side::of(two, &sides[1]);
    // `None` is the guard's integer zero: it decides how a column of zeros is printed.
    let z = |a: Moments, b: Moments| (a.std > NO_SPREAD).then(|| (b.mean - a.mean) / a.std);
    let welch = |x: Moments, y: Moments| {
        if a.cycles > 1 && b.cycles > 1 {
            welch_p(x, y)
        } else {
            1.0
        }
    };
    let ranks = |x: &[f64], y: &[f64]| {
        if x.len() > 1 && y.len() > 1 {
            mann_whitney(x, y)
        } else {
            1.0
        }
    };
    let beta_change = b.beta.mean - a.beta.mean;
    let z_beta = z(a.beta, b.beta);
    let z_log_mu = z(a.log_mu, b.log_mu);
    let size = |z: Option<f64>| z.unwrap_or(0.0).abs();
    Line {
        function: String::new(),
        metric: String::new(),
        device: String::new(),
        score: beta_change.abs() * (size(z_beta) + size(z_log_mu)),
        beta: [a.beta.mean, b.beta.mean],
        beta_change,
        z_beta,
        p_beta: welch(a.beta, b.beta),
        u_beta: ranks(&a.betas, &b.betas),
        mu: [a.mu.mean, b.mu.mean],
        mu_change: b.mu.mean - a.mu.mean,
        z_mu: z(a.mu, b.mu),
        z_log_mu,
        p_mu: welch(a.mu, b.mu),
        u_mu: ranks(&a.mus, &b.mus),
    }
}
