//! Watching steps by what their workload says they should take.
//!
//! A model of the physics, per phase: decode takes `a + b·batch + c·batch·kv`, prefill
//! `a + b·tokens + c·batch·kv²`, with coefficients that cannot be negative (least squares under that
//! condition, weighted by the inverse of the duration so that errors are relative). Bands are
//! quantiles of held-out residuals from five folds, not of the fit's own. Standardised residuals go
//! through an EWMA (λ 0.2) and a CUSUM (reference 0.5) whose limits (2.86 and 4.77) make a false
//! alarm once in about 370 steps each if residuals are normal. A step whose workload lies outside
//! what the model has seen is flagged and does not count.

use crate::num::{quantile, real};
use crate::phase::Phase;
use crate::{Analysis, Cycle};

/// One step with its workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// When it began, ns.
    pub start_ns: i64,
    /// How long it took, ns.
    pub duration_ns: f64,
    /// Phase; only prefill and decode are modelled.
    pub phase: Phase,
    /// Requests in the batch.
    pub batch: f64,
    /// Mean length of their inputs, tokens.
    pub input: f64,
    /// Mean length of their outputs so far, tokens.
    pub output: f64,
}

impl Step {
    /// Why the duration is what it is: constant, linear and attention term.
    fn features(&self) -> [f64; 3] {
        let kv = self.input + self.output;
        match self.phase {
            Phase::Prefill => [1.0, self.batch * self.input, self.batch * kv * kv],
            _ => [1.0, self.batch, self.batch * kv],
        }
    }
}

/// The steps of an analysis whose workload the trace states.
pub fn steps(analysis: &Analysis) -> Vec<Step> {
    let whole = analysis.cycles.iter().filter(|c| c.partial.is_none());
    whole.filter_map(step).collect()
}

/// The step of a cycle whose workload the trace states.
pub(crate) fn step(cycle: &Cycle) -> Option<Step> {
    let w = cycle.workload?;
    let (phase, batch, input) = match (w.prefill_requests, w.decode_requests) {
        (0, n) if n > 0 => (Phase::Decode, n, 0.0),
        (n, 0) if n > 0 => (
            Phase::Prefill,
            n,
            f64::from(w.prefill_tokens) / f64::from(n),
        ),
        _ => return None,
    };
    Some(Step {
        start_ns: cycle.start_ns,
        duration_ns: crate::num::span(cycle.length_ns()),
        phase,
        batch: f64::from(batch),
        input,
        output: 0.0,
    })
}

/// The model of one phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseModel {
    /// Phase.
    pub phase: Phase,
    /// Constant, ns; linear term and attention term, ns each.
    pub coefficients: [f64; 3],
    /// Least and greatest value of each term in training.
    pub support: [(f64, f64); 3],
    /// Median of held-out relative residuals.
    pub centre: f64,
    /// Their spread: half the distance of the 16 % and 84 % quantiles.
    pub spread: f64,
    /// Relative residuals that 95 % lie between.
    pub band: (f64, f64),
    /// Mean of absolute relative residuals, held out.
    pub error: f64,
    /// Steps trained on.
    pub steps: usize,
}

impl PhaseModel {
    /// What a step should take, ns.
    pub fn expected_ns(&self, step: &Step) -> f64 {
        predict(&self.coefficients, step).max(1.0)
    }

    /// Has the model seen such a workload? A tenth beyond the largest is still near enough.
    pub fn supports(&self, step: &Step) -> bool {
        let terms = self.support.iter().zip(step.features());
        terms.into_iter().all(|(range, value)| {
            let room = 0.1 * (range.1 - range.0).max(0.1 * range.1.abs());
            value >= range.0 - room && value <= range.1 + room
        })
    }
}

/// Fewest steps of a phase that a model can be fitted to.
pub const LEAST_STEPS: usize = 10;

/// Fits a model to each phase with at least [`LEAST_STEPS`] steps.
pub fn fit(steps: &[Step]) -> Vec<PhaseModel> {
    [Phase::Prefill, Phase::Decode]
        .into_iter()
        .filter_map(|phase| {
            let list: Vec<Step> = steps
                .iter()
                .copied()
                .filter(|s| s.phase == phase && s.duration_ns > 0.0)
                .collect();
            (list.len() >= LEAST_STEPS).then(|| fit_phase(phase, &list))
        })
        .collect()
}

fn fit_phase(phase: Phase, list: &[Step]) -> PhaseModel {
    const FOLDS: usize = 5;
    let mut residuals = Vec::with_capacity(list.len());
    for fold in 0..FOLDS {
        // Neighbours in time are alike, so every fifth step is held out, not every fifth part.
        let train: Vec<Step> = list
            .iter()
            .enumerate()
            .filter(|(i, _)| i % FOLDS != fold)
            .map(|(_, s)| *s)
            .collect();
        let coefficients = non_negative(&train);
        for (_, s) in list.iter().enumerate().filter(|(i, _)| i % FOLDS == fold) {
            residuals.push(residual(&coefficients, s));
        }
    }
    let mut support = [(f64::INFINITY, f64::NEG_INFINITY); 3];
    for s in list {
        for (range, value) in support.iter_mut().zip(s.features()) {
            *range = (range.0.min(value), range.1.max(value));
        }
    }
    let (low, high) = (quantile(&residuals, 0.16), quantile(&residuals, 0.84));
    PhaseModel {
        phase,
        coefficients: non_negative(list),
        support,
        centre: quantile(&residuals, 0.5),
        spread: ((high - low) / 2.0).max(1e-6),
        band: (quantile(&residuals, 0.025), quantile(&residuals, 0.975)),
        error: residuals.iter().map(|r| r.abs()).sum::<f64>() / real(residuals.len()),
        steps: list.len(),
    }
}

fn predict(coefficients: &[f64; 3], step: &Step) -> f64 {
    let terms = coefficients.iter().zip(step.features());
    terms.map(|(c, f)| c * f).sum()
}

/// What the step took beyond the prediction, as share of the prediction.
fn residual(coefficients: &[f64; 3], step: &Step) -> f64 {
    let expected = predict(coefficients, step).max(1.0);
    (step.duration_ns - expected) / expected
}

/// Least squares of relative errors with coefficients of at least zero: coordinate descent on scaled
/// terms, which converges since the problem is convex.
fn non_negative(list: &[Step]) -> [f64; 3] {
    let mut scale = [0.0_f64; 3];
    for s in list {
        for (m, f) in scale.iter_mut().zip(s.features()) {
            *m = m.max(f);
        }
    }
    let (mut gram, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
    for s in list {
        let f = s.features();
        let x: [f64; 3] = std::array::from_fn(|i| {
            if scale[i] > 0.0 {
                f[i] / scale[i] / s.duration_ns
            } else {
                0.0
            }
        });
        for i in 0..3 {
            right[i] += x[i];
            for j in 0..3 {
                gram[i][j] += x[i] * x[j];
            }
        }
    }
    let mut c = [0.0_f64; 3];
    for _ in 0..20_000 {
        let mut moved = 0.0_f64;
        for i in 0..3 {
            if gram[i][i] <= 0.0 {
                continue;
            }
            let others: f64 = (0..3).filter(|&j| j != i).map(|j| gram[i][j] * c[j]).sum();
            let next = ((right[i] - others) / gram[i][i]).max(0.0);
            moved = moved.max((next - c[i]).abs() / next.abs().max(1e-12));
            c[i] = next;
        }
        if moved < 1e-12 {
            break;
        }
    }
    std::array::from_fn(|i| if scale[i] > 0.0 { c[i] / scale[i] } else { 0.0 })
}

/// What the watch says of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// What the model expected, ns.
    pub expected_ns: f64,
    /// Limits that 95 % of such steps lie between, ns.
    pub band_ns: (f64, f64),
    /// Deviation in standard deviations.
    pub z: f64,
    /// The moving average of deviations.
    pub ewma: f64,
    /// The sum of deviations upwards.
    pub cusum: f64,
    /// The workload is none that the model has seen.
    pub out_of_support: bool,
    /// A chart is beyond its limit.
    pub alarm: bool,
}

/// A watch over steps as they come.
#[derive(Clone, Debug)]
pub struct Watch {
    models: Vec<PhaseModel>,
    ewma: f64,
    count: i32,
    cusum: f64,
}

const LAMBDA: f64 = 0.2;
const EWMA_LIMIT: f64 = 2.86;
const REFERENCE: f64 = 0.5;
const CUSUM_LIMIT: f64 = 4.77;

impl Watch {
    /// A watch that has seen nothing yet.
    pub fn new(models: Vec<PhaseModel>) -> Self {
        Self {
            models,
            ewma: 0.0,
            count: 0,
            cusum: 0.0,
        }
    }

    /// Looks at the next step; none if its phase has no model.
    pub fn see(&mut self, step: &Step) -> Option<Seen> {
        let model = self.models.iter().find(|m| m.phase == step.phase)?;
        let expected = model.expected_ns(step);
        let outside = !model.supports(step);
        let r = residual(&model.coefficients, step);
        // One wild step is one wild step, not a shift of the level.
        let z = ((r - model.centre) / model.spread).clamp(-6.0, 6.0);
        let (low, high) = model.band;
        if !outside {
            self.count += 1;
            self.ewma += LAMBDA * (z - self.ewma);
            self.cusum = (self.cusum + z - REFERENCE).max(0.0);
        }
        let settled = 1.0 - (1.0 - LAMBDA).powi(2 * self.count);
        let deviation = (LAMBDA / (2.0 - LAMBDA) * settled).sqrt();
        let alarm = !outside && (self.ewma > EWMA_LIMIT * deviation || self.cusum > CUSUM_LIMIT);
        Some(Seen {
            expected_ns: expected,
            band_ns: (expected * (1.0 + low), expected * (1.0 + high)),
            z,
            ewma: self.ewma,
            cusum: self.cusum,
            out_of_support: outside,
            alarm,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of a known law with a spread of 1 %, and from `slow` on of this factor more.
    fn planted(n: i64, slow: i64, factor: f64) -> Vec<Step> {
        let mut state = 12_345_u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            f64::from(u32::try_from(state >> 33).unwrap()) / f64::from(1_u32 << 31)
        };
        (0..n)
            .map(|i| {
                let batch = (1.0 + uniform() * 63.0).floor();
                let (input, output) = ((uniform() * 2000.0).floor(), (uniform() * 500.0).floor());
                let noise: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
                let law = 8e6 + 5e4 * batch + 40.0 * batch * (input + output);
                Step {
                    start_ns: i * 30_000_000,
                    duration_ns: law * (1.0 + 0.01 * noise) * if i >= slow { factor } else { 1.0 },
                    phase: Phase::Decode,
                    batch,
                    input,
                    output,
                }
            })
            .collect()
    }

    #[test]
    fn the_law_is_recovered_from_fifty_steps() {
        let models = fit(&planted(50, i64::MAX, 1.0));
        let [a, b, c] = models[0].coefficients;
        assert!((a - 8e6).abs() < 0.1 * 8e6, "{a}");
        assert!((b - 5e4).abs() < 0.15 * 5e4, "{b}");
        assert!((c - 40.0).abs() < 0.1 * 40.0, "{c}");
        assert!(models[0].error < 0.02);
    }

    #[test]
    fn a_shift_of_five_percent_is_seen_within_ten_steps() {
        let models = fit(&planted(400, i64::MAX, 1.0));
        let mut watch = Watch::new(models);
        let alarms: Vec<usize> = planted(150, 100, 1.05)
            .iter()
            .enumerate()
            .filter(|(_, s)| watch.see(s).unwrap().alarm)
            .map(|(i, _)| i)
            .collect();
        let first = *alarms.iter().find(|i| **i >= 100).unwrap();
        assert!(first < 110, "{first}");
        // Two charts with a false alarm in 370 steps each: more than two in a hundred are too many.
        let before: Vec<usize> = alarms.iter().copied().filter(|i| *i < 100).collect();
        let begun = before.iter().filter(|i| !before.contains(&(*i - 1)));
        assert!(begun.count() <= 2, "{alarms:?}");
    }

    #[test]
    fn unknown_workloads_are_flagged_and_do_not_alarm() {
        let models = fit(&planted(100, i64::MAX, 1.0));
        let mut watch = Watch::new(models);
        let mut step = planted(1, i64::MAX, 1.0)[0];
        step.batch = 4096.0;
        step.duration_ns *= 100.0;
        let seen = watch.see(&step).unwrap();
        assert!(seen.out_of_support && !seen.alarm);
    }
}
