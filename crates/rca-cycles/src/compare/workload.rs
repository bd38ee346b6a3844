//! What was asked of the two sides, and lengths as they would be had it been the same.

use super::Side;
use crate::num::real;
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
        let load = |s: &Step| (s.batch * 1000.0 + s.input).round();
        let mut mixes: Vec<Vec<f64>> = [&before, &after]
            .into_iter()
            .map(|list| list.iter().map(load).collect())
            .collect();
        for mix in &mut mixes {
            mix.sort_by(f64::total_cmp);
            mix.dedup();
        }
        let close = |x: &[f64], y: &[f64]| {
            x.iter()
                .all(|v| y.iter().any(|w| (v - w).abs() <= 0.01 * v.max(*w)))
        };
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
    let sum: f64 = list.iter().map(|s| s.batch * (1.0 + s.input)).sum();
    sum / real(list.len().max(1))
}
