//! Watching steps by what their workload says they should take.
//!
//! A model of the physics for each phase: decode takes `a + b·batch + c·batch·kv`, prefill
//! `a + b·tokens + c·batch·kv²`, a mixed batch `a + b·tokens + c·batch·kv`, with coefficients that cannot be
//! negative. The fit is robust: residuals count by the duration that the model expects and by Huber's
//! weights, so that a few wild or tiny steps move nothing. Everything else comes from residuals of five
//! held-out parts that each lie together in time: the bands, whether the model is of any use, and the limits
//! of the charts. An EWMA (λ 0.2) and a CUSUM (reference 0.5) of standardised residuals alarm beyond the
//! limits that make a false alarm in the time that is asked for ([`fit_for`]) if residuals are normal and
//! independent, or beyond what held-out steps reached if that is more, as it is where residuals depend on each
//! other. A single step alarms beyond six standard deviations, or beyond the tail of held-out steps if that is
//! more: a pause. The CUSUM is capped, so that an alarm ends within [`WINDOW`] steps of recovery. A step whose
//! workload lies outside what the model has seen is flagged and does not count.

mod status;

pub use status::{Event, Status};

use crate::num::{median, quantile};
use crate::phase::Phase;
use crate::{Analysis, Cycle};

/// One step with its workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// When it began, ns.
    pub start_ns: i64,
    /// How long it took, ns.
    pub duration_ns: f64,
    /// Phase; an unknown one is not modelled.
    pub phase: Phase,
    /// Requests in the batch.
    pub batch: f64,
    /// Mean length of their inputs, tokens; where only the length of contexts is known, that.
    pub input: f64,
    /// Mean length of their outputs so far, tokens; in a prefill that of what was cached before.
    pub output: f64,
}

impl Step {
    /// Why the duration is what it is: constant, linear and attention term.
    fn features(&self) -> [f64; 3] {
        let kv = self.input + self.output;
        match self.phase {
            Phase::Prefill => [1.0, self.batch * self.input, self.batch * kv * kv],
            Phase::Mixed => [1.0, self.batch * self.input, self.batch * kv],
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
    let tokens = f64::from(w.prefill_tokens);
    #[expect(
        clippy::cast_precision_loss,
        reason = "tokens of a batch are far fewer than 2^53"
    )]
    let attended = |n: Option<u64>| n.map(|n| n as f64);
    let (phase, requests, processed, kv) = match (w.prefill_requests, w.decode_requests) {
        (0, n) if n > 0 => {
            let kv = attended(w.decode_kv_tokens).unwrap_or(0.0);
            (Phase::Decode, n, kv, kv)
        }
        (n, 0) if n > 0 => {
            let kv = attended(w.prefill_kv_tokens).unwrap_or(tokens);
            (Phase::Prefill, n, tokens, kv)
        }
        (n, m) if n > 0 && m > 0 => {
            let kv = attended(w.prefill_kv_tokens)? + attended(w.decode_kv_tokens)?;
            (Phase::Mixed, n.saturating_add(m), tokens + f64::from(m), kv)
        }
        _ => return None,
    };
    let batch = f64::from(requests);
    Some(Step {
        start_ns: cycle.start_ns,
        duration_ns: crate::num::span(cycle.length_ns() - cycle.idle_ns),
        phase,
        batch,
        input: processed / batch,
        output: (kv - processed).max(0.0) / batch,
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
    /// Median of absolute relative residuals, held out.
    pub error: f64,
    /// Limits of the EWMA, in its standard deviations, and of the CUSUM.
    pub limits: (f64, f64),
    /// Deviation upwards from which on a single step alarms, in standard deviations.
    pub step_limit: f64,
    /// Steps trained on.
    pub steps: usize,
    /// Steps between two false alarms that the limits are for.
    pub false_alarm_steps: f64,
    /// The same in hours, at the rate of the steps trained on.
    pub false_alarm_hours: f64,
    /// Part of the held-out steps that alarm.
    pub held_out_alarms: f64,
}

/// With a larger held-out error a model says nothing of a step.
pub const GREATEST_ERROR: f64 = 0.25;

/// A model of which a larger part of its own healthy steps alarms is refused, beyond what chance makes of few steps.
pub const MOST_ALARMS: f64 = 0.01;

/// Hours between two false alarms unless others are asked for.
pub const HOURS: f64 = 24.0;

/// Steps after recovery within which an alarm ends.
pub const WINDOW: usize = 20;

impl PhaseModel {
    /// Returns `true` if held-out steps are predicted well enough for alarms.
    pub fn is_usable(&self) -> bool {
        self.error <= GREATEST_ERROR && !self.alarms_too_often()
    }

    /// Returns `true` if so many held-out steps alarm that a model of which [`MOST_ALARMS`] do would show as many in fewer than one
    /// case of twenty. One step of forty that stands out, such as the first one, says nothing of the others.
    pub fn alarms_too_often(&self) -> bool {
        const CHANCE: f64 = 0.05;
        let alarms = self.held_out_alarm_steps();
        // At least so many of a binomial distribution: 1 less the sum of those below.
        let n = share_of(self.steps);
        let (mut term, mut below) = ((1.0 - MOST_ALARMS).powf(n), 0.0);
        for k in 0..alarms {
            below += term;
            let k = share_of(k);
            term *= (n - k) / (k + 1.0) * MOST_ALARMS / (1.0 - MOST_ALARMS);
        }
        // Of very many steps the first term is zero; their share is known well enough.
        match below > 0.0 || alarms == 0 {
            true => 1.0 - below < CHANCE,
            false => self.held_out_alarms > MOST_ALARMS,
        }
    }

    /// Held-out steps that alarm: they stand out, and the fit does not follow them.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of steps again"
    )]
    pub fn held_out_alarm_steps(&self) -> usize {
        (self.held_out_alarms * share_of(self.steps)).round() as usize
    }

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

/// Fits a model to each phase with at least [`LEAST_STEPS`] steps, for a false alarm in [`HOURS`].
pub fn fit(steps: &[Step]) -> Vec<PhaseModel> {
    fit_for(steps, HOURS)
}

/// Fits a model to each phase with at least [`LEAST_STEPS`] steps, for a false alarm in so many hours.
pub fn fit_for(steps: &[Step], hours: f64) -> Vec<PhaseModel> {
    [Phase::Prefill, Phase::Decode, Phase::Mixed]
        .into_iter()
        .filter_map(|phase| {
            let list: Vec<Step> = steps
                .iter()
                .copied()
                .filter(|s| s.phase == phase && s.duration_ns > 0.0)
                .collect();
            (list.len() >= LEAST_STEPS).then(|| fit_phase(phase, &list, hours))
        })
        .collect()
}

/// Typical time from one step to the next, ns: between their starts, or where these are not known what a step takes.
fn spacing(list: &[Step]) -> f64 {
    let mut starts: Vec<i64> = list.iter().map(|s| s.start_ns).collect();
    starts.sort_unstable();
    let gaps = starts.windows(2).map(|w| crate::num::span(w[1] - w[0]));
    let gaps: Vec<f64> = gaps.filter(|gap| *gap > 0.0).collect();
    let durations: Vec<f64> = list.iter().map(|s| s.duration_ns).collect();
    match gaps.len() * 2 > list.len() {
        true => median(&gaps),
        false => median(&durations),
    }
}

fn fit_phase(phase: Phase, list: &[Step], hours: f64) -> PhaseModel {
    const FOLDS: usize = 5;
    let mut residuals = Vec::with_capacity(list.len());
    for fold in 0..FOLDS {
        // Neighbours in time are alike: what is held out lies together.
        let (from, to) = (list.len() * fold / FOLDS, list.len() * (fold + 1) / FOLDS);
        let train: Vec<Step> = list[..from].iter().chain(&list[to..]).copied().collect();
        let coefficients = robust(&train);
        residuals.extend(list[from..to].iter().map(|s| residual(&coefficients, s)));
    }
    let mut support = [(f64::INFINITY, f64::NEG_INFINITY); 3];
    for s in list {
        for (range, value) in support.iter_mut().zip(s.features()) {
            *range = (range.0.min(value), range.1.max(value));
        }
    }
    let (low, high) = (quantile(&residuals, 0.16), quantile(&residuals, 0.84));
    let (centre, spread) = (quantile(&residuals, 0.5), ((high - low) / 2.0).max(1e-6));
    let errors: Vec<f64> = residuals.iter().map(|r| r.abs()).collect();
    const HOUR_NS: f64 = 3.6e12;
    let per_hour = HOUR_NS / spacing(list).max(1.0);
    // A limit that is hit more often than that is none, and none can be known for longer.
    let rare = (per_hour * hours).clamp(1e3, 1e9);
    let deviations: Vec<f64> = residuals.iter().map(|r| (r - centre) / spread).collect();
    let limits = limits(&deviations, rare);
    let step_limit = tail(&deviations, NOMINAL_STEP_LIMIT, rare);
    let mut chart = Chart::default();
    let alarms = deviations.iter().filter(|z| {
        chart.add(**z, limits.1 + CUSUM_ROOM);
        chart.is_beyond(**z, limits, step_limit)
    });
    PhaseModel {
        held_out_alarms: share(alarms.count(), list.len()),
        false_alarm_steps: rare,
        false_alarm_hours: rare / per_hour,
        phase,
        coefficients: robust(list),
        support,
        centre,
        spread,
        band: (quantile(&residuals, 0.025), quantile(&residuals, 0.975)),
        error: median(&errors),
        limits,
        step_limit,
        steps: list.len(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of steps")]
fn share_of(steps: usize) -> f64 {
    steps as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts of steps")]
fn share(part: usize, of: usize) -> f64 {
    part as f64 / of.max(1) as f64
}

/// The limits that normal and independent residuals exceed once in `rare` steps: of the EWMA about that of a single value,
/// of the CUSUM by Siegmund's approximation (1985) of its mean run length.
pub fn nominal_limits(rare: f64) -> (f64, f64) {
    let log = rare.max(10.0).ln();
    let ewma = (2.0 * log - (4.0 * std::f64::consts::PI * log).ln()).sqrt() + 0.25;
    let cusum = log - std::f64::consts::LN_2 - 1.166 + 0.34;
    (ewma, cusum)
}

/// The limits of the charts: the nominal ones, or, where held-out steps go beyond these, what one step in `rare`
/// exceeds if the tail of the held-out steps goes on as it does between its last two decades.
fn limits(deviations: &[f64], rare: f64) -> (f64, f64) {
    let mut chart = Chart::default();
    let (mut ewma, mut cusum) = (Vec::new(), Vec::new());
    for &z in deviations {
        chart.add(z, f64::INFINITY);
        ewma.push(chart.ewma_deviations());
        cusum.push(chart.cusum);
    }
    let nominal = nominal_limits(rare);
    (tail(&ewma, nominal.0, rare), tail(&cusum, nominal.1, rare))
}

/// What one value in `rare` exceeds if the tail goes on as between its last two decades, at least `nominal`.
fn tail(values: &[f64], nominal: f64, rare: f64) -> f64 {
    // The rarer decade that so many steps show, the one before it, and how many decades there are up to it.
    let (seldom, usual, decades) = match values.len() {
        1000.. => (0.999, 0.99, 3.0),
        100.. => (0.99, 0.9, 2.0),
        _ => (0.9, 0.5, 1.0),
    };
    let beyond = (rare.log10() - decades).max(0.0);
    let high = quantile(values, seldom);
    nominal.max(high + beyond * (high - quantile(values, usual)))
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

/// A fit that outliers do not move: least squares, then again with weights by what the last fit expects of
/// each step and by how far it is from that (Huber).
fn robust(list: &[Step]) -> [f64; 3] {
    const ROUNDS: usize = 12;
    const HUBER: f64 = 1.345;
    let durations: Vec<f64> = list.iter().map(|s| s.duration_ns).collect();
    let usual = median(&durations).max(1.0);
    let mut weights = vec![1.0; list.len()];
    // Far beyond the usual is an outlier before anything is known.
    for (w, s) in weights.iter_mut().zip(list) {
        *w = (usual / s.duration_ns.max(usual)).powi(2);
    }
    let mut coefficients = non_negative(list, &weights);
    for _ in 0..ROUNDS {
        let each = list.iter().map(|s| residual(&coefficients, s));
        let residuals: Vec<f64> = each.collect();
        let sizes: Vec<f64> = residuals.iter().map(|r| r.abs()).collect();
        let scale = (1.4826 * median(&sizes)).max(1e-9);
        for ((w, s), size) in weights.iter_mut().zip(list).zip(&sizes) {
            let expected = predict(&coefficients, s).max(0.01 * usual);
            let huber = (HUBER * scale / size.max(1e-300)).min(1.0);
            *w = huber * (usual / expected).powi(2);
        }
        coefficients = non_negative(list, &weights);
    }
    coefficients
}

/// Weighted least squares with coefficients of at least zero: coordinate descent on scaled terms, which
/// converges since the problem is convex.
fn non_negative(list: &[Step], weights: &[f64]) -> [f64; 3] {
    let mut scale = [0.0_f64; 3];
    for s in list {
        for (m, f) in scale.iter_mut().zip(s.features()) {
            *m = m.max(f);
        }
    }
    let (mut gram, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
    for (s, weight) in list.iter().zip(weights) {
        let f = s.features();
        let x: [f64; 3] = std::array::from_fn(|i| match scale[i] > 0.0 {
            true => f[i] / scale[i],
            false => 0.0,
        });
        for i in 0..3 {
            right[i] += weight * x[i] * s.duration_ns;
            for j in 0..3 {
                gram[i][j] += weight * x[i] * x[j];
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
    /// Deviation in standard deviations; the charts count at most six of them.
    pub z: f64,
    /// The moving average of deviations.
    pub ewma: f64,
    /// The sum of deviations upwards.
    pub cusum: f64,
    /// The workload is none that the model has seen.
    pub out_of_support: bool,
    /// A chart is beyond its limit, or this step alone is.
    pub alarm: bool,
}

/// The charts of one phase.
#[derive(Clone, Copy, Debug, Default)]
struct Chart {
    ewma: f64,
    count: i32,
    cusum: f64,
}

impl Chart {
    /// Adds a deviation, in standard deviations. One wild step is one wild step, not a shift of the level.
    fn add(&mut self, z: f64, cap: f64) {
        let z = z.clamp(-6.0, 6.0);
        self.count = self.count.saturating_add(1);
        self.ewma += LAMBDA * (z - self.ewma);
        self.cusum = (self.cusum + z - REFERENCE).clamp(0.0, cap);
    }

    /// Returns `true` if a chart or this deviation alone is beyond its limit.
    fn is_beyond(&self, z: f64, (ewma, cusum): (f64, f64), step: f64) -> bool {
        self.ewma_deviations() > ewma || self.cusum > cusum || z > step
    }

    /// The moving average in its standard deviations, if steps are independent.
    fn ewma_deviations(&self) -> f64 {
        let settled = 1.0 - (1.0 - LAMBDA).powi(self.count.saturating_mul(2));
        let deviation = (LAMBDA / (2.0 - LAMBDA) * settled).sqrt();
        if deviation > 0.0 {
            self.ewma / deviation
        } else {
            0.0
        }
    }
}

/// A watch over steps as they come.
#[derive(Clone, Debug)]
pub struct Watch {
    models: Vec<(PhaseModel, Chart)>,
}

const LAMBDA: f64 = 0.2;
const REFERENCE: f64 = 0.5;
/// How far above its limit the CUSUM may go: an alarm ends about so many steps after a slow stretch.
const CUSUM_ROOM: f64 = 5.0;

/// The limit of a single step, in standard deviations, where held-out steps stay below it.
pub const NOMINAL_STEP_LIMIT: f64 = 6.0;

impl Watch {
    /// A watch that has seen nothing yet. Models that are of no use are left out.
    pub fn new(models: Vec<PhaseModel>) -> Self {
        let usable = models.into_iter().filter(PhaseModel::is_usable);
        Self {
            models: usable.map(|m| (m, Chart::default())).collect(),
        }
    }

    /// Looks at the next step; none if its phase has no model.
    pub fn see(&mut self, step: &Step) -> Option<Seen> {
        let (model, chart) = self.models.iter_mut().find(|m| m.0.phase == step.phase)?;
        let expected = model.expected_ns(step);
        let outside = !model.supports(step);
        let z = (residual(&model.coefficients, step) - model.centre) / model.spread;
        let (low, high) = model.band;
        if !outside {
            chart.add(z, model.limits.1 + CUSUM_ROOM);
        }
        let beyond = chart.is_beyond(z, model.limits, model.step_limit);
        Some(Seen {
            expected_ns: expected,
            band_ns: (expected * (1.0 + low), expected * (1.0 + high)),
            z,
            ewma: chart.ewma,
            cusum: chart.cusum,
            out_of_support: outside,
            alarm: !outside && beyond,
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
        assert!(alarms.iter().all(|i| *i >= 100), "{alarms:?}");
    }

    #[test]
    fn every_pause_alarms_in_its_own_step() {
        for every in [50, 500] {
            let mut watch = Watch::new(fit(&planted(1500, i64::MAX, 1.0)));
            let mut steps = planted(3000, i64::MAX, 1.0);
            let pauses: Vec<usize> = (0..3000).filter(|i| i % every == every - 1).collect();
            for &i in &pauses {
                steps[i].duration_ns += 60e6;
            }
            let alarms: Vec<bool> = steps.iter().map(|s| watch.see(s).unwrap().alarm).collect();
            assert!(pauses.iter().all(|i| alarms[*i]));
            let others = alarms.iter().filter(|a| **a).count() - pauses.len();
            assert!(others <= 2 * pauses.len(), "{others}");
        }
    }

    #[test]
    fn a_few_tiny_or_huge_steps_change_nothing() {
        let clean = fit(&planted(2000, i64::MAX, 1.0));
        let mut steps = planted(2000, i64::MAX, 1.0);
        for i in 0..20 {
            steps[i * 97].duration_ns = if i % 2 == 0 { 20_000.0 } else { 9e9 };
        }
        let models = fit(&steps);
        for (x, y) in models[0].coefficients.iter().zip(clean[0].coefficients) {
            assert!((x - y).abs() <= 0.05 * y, "{models:?}");
        }
        assert!(
            models[0].is_usable() && models[0].error < 0.02,
            "{models:?}"
        );
        let mut watch = Watch::new(models);
        let other = planted(4000, i64::MAX, 1.0);
        let alarms = other[2000..].iter().filter(|s| watch.see(s).unwrap().alarm);
        assert_eq!(alarms.count(), 0);
    }

    #[test]
    fn steps_that_depend_on_each_other_rarely_alarm_and_an_alarm_ends() {
        let correlated = |from: usize, to: usize| -> Vec<Step> {
            let mut level = 0.0;
            let mut steps = planted(6000, i64::MAX, 1.0);
            for s in &mut steps {
                let noise = s.duration_ns / predict(&[8e6, 5e4, 40.0], s) - 1.0;
                level = 0.8 * level + noise;
                s.duration_ns = predict(&[8e6, 5e4, 40.0], s) * (1.0 + level);
            }
            steps[from..to].to_vec()
        };
        let models = fit(&correlated(0, 3000));
        let mut watch = Watch::new(models);
        let mut steps = correlated(3000, 6000);
        let healthy = steps.iter().filter(|s| watch.see(s).unwrap().alarm).count();
        assert!(healthy <= 30, "{healthy} of 3000");
        for s in &mut steps[1000..1200] {
            s.duration_ns *= 1.3;
        }
        let alarms: Vec<usize> = (0..steps.len())
            .filter(|&i| watch.see(&steps[i]).unwrap().alarm)
            .collect();
        let slow = alarms.iter().filter(|i| (1000..1200).contains(*i)).count();
        let after = alarms.iter().filter(|i| (1200..1400).contains(*i)).count();
        assert!(slow > 150 && after < 100, "{slow} and {after}: {alarms:?}");
    }

    #[test]
    fn limits_are_for_the_hours_that_are_asked_for() {
        // The values for 100,000 independent steps, as published for these charts.
        let (ewma, cusum) = nominal_limits(1e5);
        assert!(
            (ewma - 4.5).abs() < 0.05 && (cusum - 10.0).abs() < 0.05,
            "{ewma} {cusum}"
        );
        // Steps of 30 ms: 120,000 an hour.
        let healthy = planted(3000, i64::MAX, 1.0);
        let [short, long] = [0.5, 100.0].map(|hours| fit_for(&healthy, hours)[0]);
        assert!(
            (short.false_alarm_steps - 60_000.0).abs() < 1.0,
            "{short:?}"
        );
        assert!((long.false_alarm_hours - 100.0).abs() < 1e-6, "{long:?}");
        assert!(long.limits.0 > short.limits.0 && long.limits.1 > short.limits.1);
        assert_eq!((short.held_out_alarms, long.held_out_alarms), (0.0, 0.0));
        // A false alarm an hour: none is expected in ten times 3,000 healthy steps of 0.025 hours.
        let mut episodes = 0;
        let mut watch = Watch::new(fit_for(&healthy, 1.0));
        let mut state = Status::default();
        for s in &planted(33_000, i64::MAX, 1.0)[3000..] {
            let seen = watch.see(s);
            episodes += usize::from(matches!(state.add(s, seen.as_ref()), Some(Event::Begins)));
        }
        assert!(episodes <= 2, "{episodes}");
    }

    #[test]
    fn an_alarm_ends_within_one_window_of_recovery() {
        let mut watch = Watch::new(fit(&planted(2000, i64::MAX, 1.0)));
        let mut steps = planted(1400, i64::MAX, 1.0);
        for s in &mut steps[200..1200] {
            s.duration_ns *= 1.3;
        }
        let alarms: Vec<bool> = steps.iter().map(|s| watch.see(s).unwrap().alarm).collect();
        assert!(alarms[205..1200].iter().all(|a| *a));
        assert!(alarms[1200 + WINDOW..].iter().all(|a| !a));
    }

    #[test]
    fn durations_that_no_law_explains_give_no_alarms() {
        let mut steps = planted(200, i64::MAX, 1.0);
        for (i, s) in steps.iter_mut().enumerate() {
            s.duration_ns = 1e6 * f64::from(u32::try_from(1 + i * i * 7919 % 1000).unwrap());
        }
        let models = fit(&steps);
        assert!(!models[0].is_usable(), "{models:?}");
        assert!(Watch::new(models).see(&steps[0]).is_none());
    }

    #[test]
    fn one_warm_up_step_of_a_short_capture_is_no_reason_to_refuse_it() {
        for count in [39, 99, 400] {
            let mut steps = planted(count, i64::MAX, 1.0);
            steps[0].duration_ns *= 2.0;
            let models = fit(&steps);
            assert!(models[0].is_usable(), "{models:?}");
            let shifted = planted(400, 0, 1.3);
            let mut watch = Watch::new(models);
            let seen = shifted.iter().filter_map(|s| watch.see(s));
            assert!(seen.filter(|seen| seen.alarm).count() > 200);
        }
        // By the binomial distribution: 3 of 39 at 1 % have a chance of 0.7 %, 1 of 39 one of 32 %.
        let model = |alarms: usize, steps: usize| PhaseModel {
            held_out_alarms: share(alarms, steps),
            steps,
            ..fit(&planted(40, i64::MAX, 1.0))[0]
        };
        assert!(!model(1, 39).alarms_too_often() && model(3, 39).alarms_too_often());
        assert!(!model(0, 39).alarms_too_often());
        assert!(!model(20, 2000).alarms_too_often() && model(40, 2000).alarms_too_often());
        assert!(!model(900, 100_000).alarms_too_often() && model(1500, 100_000).alarms_too_often());
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
