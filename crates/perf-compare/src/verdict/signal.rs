//! One measured quantity on both sides.

use crate::document::Evidence;
use crate::stats::{
    Moments, Stream, cliffs_delta, mean, median, p_in_time, quantile, sorted, welch_p,
};

/// Resamples for the interval of a quantity.
const RESAMPLES: u64 = 300;
/// Names the use of random numbers.
const PURPOSE: u64 = 64;
/// More observations than this are averaged into this many before resampling.
const OBSERVATIONS: usize = 48;

/// Observations of a counter or of something derived.
#[derive(Debug, Clone)]
pub(crate) struct Signal {
    pub(crate) metric: String,
    pub(crate) device: String,
    pub(crate) unit: &'static str,
    pub(crate) values: [Vec<f64>; 2],
    /// A single number per side, known exactly enough: no interval.
    pub(crate) point: bool,
    /// Observations are runs, which must be told apart almost without exception.
    pub(crate) by_run: bool,
    /// Whether it is a counter, sampled over time, and not made of times of cycles.
    pub(crate) is_counter: bool,
    /// Whether neighbouring cycles resemble each other so much that the difference is no more than chance.
    pub(crate) by_chance: bool,
    /// The same values relative to what others take in the same cycle, where these are told apart better in time.
    pub(crate) relative: Option<[Vec<f64>; 2]>,
    median: [f64; 2],
    mean: [f64; 2],
    pub(crate) separation: f64,
    /// Whether the means differ beyond chance, however few of the values make the difference.
    pub(crate) means_differ: bool,
}

/// Level of the test of means. Rules ask for several quantities at once.
const MEANS: f64 = 0.01;
/// Values of a side from which on their spread says how far means differ by chance.
const MEANS_FROM: usize = 10;

/// Returns `true` if the means of two series differ beyond chance. Cliff's δ does not show that where some values grow much and
/// the others shrink a little: after a step with more work the next one has less left to wait for.
fn means_differ([one, two]: &[Vec<f64>; 2]) -> bool {
    let of = |side: &Vec<f64>| Moments::of(side.iter().copied());
    one.len().min(two.len()) >= MEANS_FROM && welch_p(of(one), of(two)) <= MEANS
}

/// Which average a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stat {
    #[default]
    Median,
    Mean,
}

impl Signal {
    /// A quantity with repetitions; `None` if a side has none.
    pub(crate) fn series(
        metric: &str,
        device: &str,
        unit: &'static str,
        values: [Vec<f64>; 2],
    ) -> Option<Self> {
        let values = values.map(|side| {
            side.into_iter()
                .filter(|x| x.is_finite())
                .collect::<Vec<f64>>()
        });
        if values.iter().any(Vec::is_empty) {
            return None;
        }
        Some(Self {
            metric: metric.to_owned(),
            device: device.to_owned(),
            unit,
            median: values.each_ref().map(|side| median(side)),
            mean: values.each_ref().map(|side| mean(side)),
            separation: cliffs_delta(&values[0], &values[1]),
            means_differ: means_differ(&values),
            values,
            point: false,
            by_run: false,
            by_chance: false,
            is_counter: false,
            relative: None,
        })
    }

    /// The same with one observation per run: `runs` are signals of single runs, of which the median of that run's side
    /// counts. Unchanged if a side has none.
    pub(crate) fn reduce(&mut self, runs: &[Vec<Self>; 2]) {
        let values = [0, 1].map(|side| {
            let all = runs[side].iter();
            all.map(|run| run.median[side])
                .filter(|value| value.is_finite())
                .collect::<Vec<f64>>()
        });
        if let Some(mut reduced) = Self::series(&self.metric, &self.device, self.unit, values) {
            reduced.by_run = true;
            *self = reduced;
        }
    }

    /// Takes the observations as following one another in time.
    pub(crate) fn follow_in_time(&mut self) {
        /// Level of the test.
        const CHANCE: f64 = 0.05;
        let by_chance = |[one, two]: &[Vec<f64>; 2]| p_in_time(one, two) > CHANCE;
        self.by_chance =
            !self.point && by_chance(&self.values) && self.relative.as_ref().is_none_or(by_chance);
    }

    /// A single number per side.
    pub(crate) fn point(
        metric: &str,
        device: &str,
        unit: &'static str,
        values: [f64; 2],
    ) -> Option<Self> {
        let mut signal = Self::series(metric, device, unit, values.map(|value| vec![value]))?;
        signal.point = true;
        Some(signal)
    }

    pub(crate) fn typical(&self, stat: Stat) -> [f64; 2] {
        match stat {
            Stat::Median => self.median,
            Stat::Mean => self.mean,
        }
    }

    /// Change in percent of the baseline; infinite from zero.
    pub(crate) fn change_pct(&self, stat: Stat) -> f64 {
        let [a, b] = self.typical(stat);
        if a.abs() > 0.0 {
            (b - a) / a.abs() * 100.0
        } else if (b - a).abs() > 0.0 {
            f64::INFINITY * (b - a).signum()
        } else {
            0.0
        }
    }

    /// As a row of the document.
    pub(crate) fn evidence(&self, stat: Stat, role: &'static str) -> Evidence {
        let [baseline, candidate] = self.typical(stat);
        let change = self.change_pct(stat);
        Evidence {
            metric: self.metric.clone(),
            device: self.device.clone(),
            unit: self.unit.to_owned(),
            baseline,
            candidate,
            effect: candidate - baseline,
            interval: self.interval(stat),
            change_pct: change.is_finite().then_some(change),
            n: [self.values[0].len(), self.values[1].len()],
            role,
        }
    }

    /// 95 % interval of the difference by resampling; absent without repetition.
    fn interval(&self, stat: Stat) -> Option<[f64; 2]> {
        if self.point || self.values.iter().any(|side| side.len() < 3) {
            return None;
        }
        let sides = self.values.each_ref().map(|side| thin(side));
        let draw = |side: usize, index: u64| {
            let values = &sides[side];
            let mut stream = Stream::new(1, PURPOSE + side as u64, index);
            let drawn: Vec<f64> = (0..values.len())
                .map(|_| values[stream.below(values.len())])
                .collect();
            match stat {
                Stat::Median => median(&drawn),
                Stat::Mean => mean(&drawn),
            }
        };
        let changes: Vec<f64> = (0..RESAMPLES)
            .map(|index| draw(1, index) - draw(0, index))
            .collect();
        let changes = sorted(&changes);
        Some([quantile(&changes, 0.025), quantile(&changes, 0.975)])
    }
}

/// Means of neighbours, so that at most [`OBSERVATIONS`] remain.
fn thin(values: &[f64]) -> Vec<f64> {
    let size = values.len().div_ceil(OBSERVATIONS).max(1);
    values.chunks(size).map(mean).collect()
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "planted numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn typical_values_and_changes() {
        let s = Signal::series(
            "x",
            "Host",
            "MHz",
            [vec![3500.0, 3500.0, 2664.0, f64::NAN], vec![900.0; 3]],
        )
        .unwrap();
        assert_eq!(s.typical(Stat::Median), [3500.0, 900.0]);
        assert!((s.change_pct(Stat::Median) + 74.28).abs() < 0.01);
        assert_eq!(s.separation, -1.0);
        let row = s.evidence(Stat::Median, "need");
        assert!(row.interval.unwrap()[1] < -1700.0);
        assert!(Signal::series("x", "", "", [vec![], vec![1.0]]).is_none());
        assert!(
            Signal::point("x", "", "", [0.0, 1.0])
                .unwrap()
                .change_pct(Stat::Mean)
                .is_infinite()
        );
    }
}
