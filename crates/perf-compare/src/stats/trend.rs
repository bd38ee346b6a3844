//! Drift that goes on from one capture to the other.
//!
//! Two captures of one drifting system differ, although nothing happened between them: a cache fills, a device warms up, a
//! context grows. The difference of their means is then what the common slope makes of the distance between them.

use super::serial::Dependence;
use super::welch::Moments;
use ::stats::median;

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
    let values = &without_far(values)[..];
    let (xx, xy, mean) = sums(values);
    let slope = xy / xx;
    let rest = about_line(values, slope, mean);
    let squares: f64 = rest.iter().map(|rest| rest * rest).sum();
    let (first, second) = rest.split_at(rest.len() / 2);
    let inflation = Dependence::of(first, second).inflation_from(rest.len());
    let error = (squares / (values.len() as f64 - 2.0) * inflation / xx).sqrt();
    let change = slope * values.len() as f64 / 2.0 / mean;
    (slope.abs() > SLOPE * error && change.abs() > LEAST).then_some(change)
}

/// What is left of values about a line through their mean.
fn about_line(values: &[f64], slope: f64, mean: f64) -> Vec<f64> {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let rest = values.iter().enumerate();
    rest.map(|(at, value)| value - mean - slope * (at as f64 - middle))
        .collect()
}

/// The values with the few that are far from the line of the others moved onto their median, so that one long cycle at the start
/// neither makes nor hides a drift: the line is that of Theil and Sen, which does not follow them.
fn without_far(values: &[f64]) -> Vec<f64> {
    /// Median absolute deviations from which on a value is far, and the part of values that may be.
    const FAR: f64 = 8.0;
    const MOST: f64 = 0.1;
    // Differences over half the series: as many as there are values in a half, each with the full slope.
    let half = values.len() / 2;
    let slopes = values.iter().zip(&values[half..]);
    let slope = median(
        &slopes
            .map(|(a, b)| (b - a) / half as f64)
            .collect::<Vec<f64>>(),
    );
    let rest = about_line(values, slope, 0.0);
    let level = median(&rest);
    let deviation = |rest: &f64| (rest - level).abs();
    let limit = FAR * median(&rest.iter().map(deviation).collect::<Vec<f64>>());
    let far = rest.iter().filter(|r| deviation(r) > limit).count();
    if limit <= 0.0 || far as f64 > MOST * values.len() as f64 {
        return values.to_vec();
    }
    let each = values.iter().zip(&rest);
    each.map(|(value, rest)| match deviation(rest) > limit {
        true => value - rest + level,
        false => *value,
    })
    .collect()
}

/// Returns `true` if a difference between two sides that wander is within what one of them wanders: the range of the medians of
/// its tenths. The level of a slow process, such as a random walk or one of few regimes, differs as much between two parts of
/// one recording.
pub(crate) fn is_within_wandering(
    sides: [&[f64]; 2],
    dependence: Dependence,
    difference: f64,
) -> bool {
    const PARTS: usize = 10;
    const FEWEST: usize = 20;
    let [one, two] = sides.map(<[f64]>::len);
    if one.min(two) < FEWEST || !dependence.may_leave_few(one, two) {
        return false;
    }
    let range = |side: &[f64]| {
        let parts = side.chunks((side.len() / PARTS).max(3));
        let levels = parts.filter(|part| part.len() > 1).map(median);
        let (low, high) = levels.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
            (low.min(x), high.max(x))
        });
        high - low
    };
    difference.abs() <= range(sides[0]).max(range(sides[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_first_cycle_does_not_hide_a_drift() {
        let mut values: Vec<f64> = (0..40)
            .map(|i| 100.0 + 0.3 * f64::from(i) + wobble(i))
            .collect();
        let plain = drift(&values).unwrap();
        values[0] = 160.0;
        assert!(drift(&values).is_some_and(|found| (found - plain).abs() < 0.005));
        let mut flat: Vec<f64> = (0..40).map(|i| 100.0 + wobble(i)).collect();
        flat[0] = 160.0;
        assert_eq!(drift(&flat), None);
    }

    #[test]
    fn what_wanders_does_not_differ() {
        use super::super::random::Stream;
        let mut called = 0;
        for seed in 0..200 {
            let mut stream = Stream::new(seed, 23, 0);
            let mut walk = || -> Vec<f64> {
                let mut level = 100.0;
                (0..60)
                    .map(|_| {
                        level += stream.below(1000) as f64 / 1000.0 - 0.5;
                        level
                    })
                    .collect()
            };
            let (one, two) = (walk(), walk());
            let mean = |side: &[f64]| side.iter().sum::<f64>() / side.len() as f64;
            let of = Dependence::of(&one, &two);
            let difference = mean(&two) - mean(&one);
            called += u32::from(!is_within_wandering([&one, &two], of, difference));
        }
        // By itself; most of these are no significant differences either.
        assert!(called <= 20, "{called} of 200");
        // What stays at its level does not wander, and a difference beyond all that one does is one.
        let flat: Vec<f64> = (0..60).map(|i| 100.0 + wobble(i)).collect();
        let of = Dependence::of(&flat, &flat);
        assert!(!is_within_wandering([&flat, &flat], of, 0.01));
        let slow: Vec<f64> = (0..60)
            .map(|i| 100.0 + (f64::from(i) / 9.0).sin())
            .collect();
        let of = Dependence::of(&slow, &slow);
        assert!(is_within_wandering([&slow, &slow], of, 1.0));
        assert!(!is_within_wandering([&slow, &slow], of, 5.0));
    }

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
