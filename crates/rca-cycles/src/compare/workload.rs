//! What was asked of the two sides, and lengths as they would be had it been the same.

use super::Side;
use crate::num::real;
use crate::phase::Phase;
use crate::sentinel::{self, LEAST_STEPS, Step};

/// What was done about a difference of workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Normalisation {
    /// The traces do not say what batches held.
    Unknown,
    /// Both sides did the same work.
    Same,
    /// Times of the abnormal side are scaled by what the model of latency says of the work of the
    /// two sides; the model is fitted to the normal side.
    Scaled,
    /// The abnormal side did work that the normal side never did: no culprits are named.
    Outside,
}

impl Normalisation {
    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Same => "same",
            Self::Scaled => "scaled",
            Self::Outside => "outside",
        }
    }
}

/// How to make the times of the abnormal side comparable.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Scale {
    Unknown,
    Same,
    /// By what the times of each cycle are to be multiplied, on either side.
    By(Vec<f64>, Vec<f64>),
    Outside,
}

impl Scale {
    pub(super) fn name(&self) -> Normalisation {
        match self {
            Self::Unknown => Normalisation::Unknown,
            Self::Same => Normalisation::Same,
            Self::By(..) => Normalisation::Scaled,
            Self::Outside => Normalisation::Outside,
        }
    }

    pub(super) fn new(normal: &Side<'_>, abnormal: &Side<'_>) -> Self {
        let steps =
            |side: &Side<'_>| -> Option<Vec<Step>> { side.each().map(sentinel::step).collect() };
        let (Some(before), Some(after)) = (steps(normal), steps(abnormal)) else {
            return Self::Unknown;
        };
        // Batch, tokens of a request and what it attends to, each on its own: a context that grows is other work.
        let load = |s: &Step| [s.batch, s.input, s.input + s.output];
        let mut mixes: Vec<Vec<[f64; 3]>> = [&before, &after]
            .into_iter()
            .map(|list| list.iter().map(load).collect())
            .collect();
        for mix in &mut mixes {
            mix.sort_by(|x, y| x.partial_cmp(y).unwrap_or(std::cmp::Ordering::Equal));
            mix.dedup();
        }
        let alike = |v: f64, w: f64| (v - w).abs() <= 0.01 * v.max(w);
        let same = |v: &[f64; 3], w: &[f64; 3]| v.iter().zip(w).all(|(v, w)| alike(*v, *w));
        // Both are sorted: what may be alike begins where the batch is.
        let close = |x: &[[f64; 3]], y: &[[f64; 3]]| {
            x.iter().all(|v| {
                let from = y.partition_point(|w| w[0] < 0.98 * v[0]);
                let near = y[from..].iter().take_while(|w| w[0] <= 1.02 * v[0]);
                near.into_iter().any(|w| same(v, w))
            })
        };
        let unsaid = |list: &[Step]| {
            list.iter()
                .any(|s| s.phase == Phase::Decode && s.input <= 0.0)
        };
        if unsaid(&before) || unsaid(&after) {
            let batches = |mix: &[[f64; 3]]| -> Vec<[f64; 3]> {
                mix.iter().map(|v| [v[0], 0.0, 0.0]).collect()
            };
            let (x, y) = (batches(&mixes[0]), batches(&mixes[1]));
            if close(&x, &y) && close(&y, &x) {
                // How long contexts were is not said, so the work may differ.
                return Self::Unknown;
            }
        }
        if close(&mixes[0], &mixes[1])
            && close(&mixes[1], &mixes[0])
            && (mean_load(&before) - mean_load(&after)).abs() <= 0.01 * mean_load(&before)
        {
            return Self::Same;
        }
        let model = (before.len() >= LEAST_STEPS)
            .then(|| sentinel::fit(&before))
            .and_then(|models| models.into_iter().next());
        let Some(model) = model else {
            // Too little to learn from. Work that was never seen cannot be compared.
            return if close(&mixes[1], &mixes[0]) {
                Self::Unknown
            } else {
                Self::Outside
            };
        };
        let outside = after.iter().filter(|s| !model.supports(s)).count();
        if real(outside) > 0.1 * real(after.len()) {
            return Self::Outside;
        }
        let all: f64 = before.iter().map(|s| model.expected_ns(s)).sum();
        let usual = all / real(before.len().max(1));
        let factors = |list: &[Step]| list.iter().map(|s| usual / model.expected_ns(s)).collect();
        Self::By(factors(&before), factors(&after))
    }
}

fn mean_load(list: &[Step]) -> f64 {
    let sum: f64 = list
        .iter()
        .map(|s| s.batch * (1.0 + s.input + s.output))
        .sum();
    sum / real(list.len().max(1))
}
