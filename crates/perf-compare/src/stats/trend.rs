//! Drift that goes on from one capture to the other.
//!
//! Two captures of one drifting system differ, although nothing happened between them: a cache fills, a device warms up, a
//! context grows. The difference of their means is then what the common slope makes of the distance between them.

use super::serial::Dependence;
use super::welch::Moments;

/// Standard errors beyond which a slope counts.
const SLOPE: f64 = 3.0;
/// Standard errors that the step between the captures may have by chance,
const STEP: f64 = 2.5;
/// and the part of the difference that it may be in any case.
const PART: f64 = 0.5;

/// Sum of squared places about their mean, sum of products with the values, mean of the values.
fn sums(values: &[f64]) -> (f64, f64, f64) {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let mean = Moments::of(values.iter().copied()).mean;
    let (mut xx, mut xy) = (0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        let x = at as f64 - middle;
        xx += x * x;
        xy += x * (value - mean);
    }
    (xx, xy, mean)
}

/// Returns the slope per value if both captures drift alike and their difference is what this drift makes of the distance
/// between them; the second capture may follow the first, or come before it.
pub(crate) fn continued(one: &[f64], two: &[f64]) -> Option<f64> {
    if one.len().min(two.len()) < 8 {
        return None;
    }
    let sides = [one, two];
    let [(xx1, xy1, m1), (xx2, xy2, m2)] = sides.map(sums);
    let slope = (xy1 + xy2) / (xx1 + xx2);
    let rests = [(one, m1), (two, m2)].map(|(values, mean)| {
        let middle = (values.len() as f64 - 1.0) / 2.0;
        let rest = values.iter().enumerate();
        rest.map(|(at, value)| value - mean - slope * (at as f64 - middle))
            .collect::<Vec<f64>>()
    });
    let n = (one.len() + two.len()) as f64;
    let squares: f64 = rests.iter().flatten().map(|rest| rest * rest).sum();
    let inflation = Dependence::of(&rests[0], &rests[1]).inflation();
    let variance = squares / (n - 3.0) * inflation;
    let error = (variance / (xx1 + xx2)).sqrt();
    let alike = [xy1 / xx1, xy2 / xx2]
        .iter()
        .all(|own| own / slope > 1.0 / 3.0);
    if !alike || slope.abs() <= SLOPE * error {
        return None;
    }
    let difference = m2 - m1;
    if difference.abs() < slope.abs() {
        // Both drift alike from the same start.
        return None;
    }
    let distance = n / 2.0;
    let step = difference.abs() - slope.abs() * distance;
    let means = variance * (1.0 / one.len() as f64 + 1.0 / two.len() as f64);
    let by_chance = STEP * (means + (error * distance).powi(2)).sqrt();
    (step.abs() <= by_chance.max(PART * difference.abs())).then_some(slope)
}

/// Returns how much longer the second half of a side is than the first by its slope, relative to the mean, if the slope is more
/// than three standard errors (dependence of what is left without it included) and this is a percent at least.
pub(crate) fn drift(values: &[f64]) -> Option<f64> {
    const LEAST: f64 = 0.01;
    if values.len() < 8 {
        return None;
    }
    let (xx, xy, mean) = sums(values);
    let slope = xy / xx;
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let rest = values.iter().enumerate();
    let rest: Vec<f64> = rest
        .map(|(at, value)| value - mean - slope * (at as f64 - middle))
        .collect();
    let squares: f64 = rest.iter().map(|rest| rest * rest).sum();
    let (first, second) = rest.split_at(rest.len() / 2);
    let inflation = Dependence::of(first, second).inflation_from(rest.len());
    let error = (squares / (values.len() as f64 - 2.0) * inflation / xx).sqrt();
    let change = slope * values.len() as f64 / 2.0 / mean;
    (slope.abs() > SLOPE * error && change.abs() > LEAST).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_within_a_side() {
        let flat: Vec<f64> = (0..40).map(|i| 100.0 + wobble(i)).collect();
        assert_eq!(drift(&flat), None);
        // 6 % over the whole side.
        let slope: Vec<f64> = (0..40)
            .map(|i| 100.0 + 0.15 * f64::from(i) + wobble(i))
            .collect();
        assert!(drift(&slope).is_some_and(|found| (found - 0.03).abs() < 0.005));
        let step: Vec<f64> = (0..40)
            .map(|i| 100.0 + f64::from(i / 20) * 20.0 + wobble(i))
            .collect();
        // What is left about a line through a step is no noise, and explains the slope.
        assert_eq!(drift(&step), None);
    }

    fn wobble(i: u32) -> f64 {
        f64::from(i * 37 % 11) / 10.0
    }

    #[test]
    fn one_run_cut_in_two() {
        for slope in [0.2, -0.2] {
            let run: Vec<f64> = (0..80)
                .map(|i| 100.0 + slope * f64::from(i) + wobble(i))
                .collect();
            let (one, two) = run.split_at(35);
            assert!(continued(one, two).is_some_and(|found| (found - slope).abs() < 0.05));
            assert!(continued(two, one).is_some());
        }
    }

    #[test]
    fn a_step_is_no_drift() {
        let flat = |level: f64| (0..40).map(|i| level + wobble(i)).collect::<Vec<f64>>();
        assert_eq!(continued(&flat(100.0), &flat(110.0)), None);
        // Both warm up alike, and the second one is slower by far more than that.
        let warm = |level: f64| {
            let values = (0..40).map(|i| level + 0.02 * f64::from(i) + wobble(i) / 10.0);
            values.collect::<Vec<f64>>()
        };
        assert_eq!(continued(&warm(100.0), &warm(110.0)), None);
        assert_eq!(continued(&warm(100.0), &warm(100.0)), None);
    }
}
