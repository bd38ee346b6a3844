//! Two sides of many columns compared: test, interval, effects.

use super::effect::{
    brunner_munzel, cliffs_delta, few_rule, hodges_lehmann, trimmed, trimmed_mean,
};
use super::permute::{Budget, Family, Shape, attainable, permute};
use super::random::Stream;
use super::serial::Dependence;
use super::{Moments, quantile, sorted};
use ::stats::{normal_quantile, quantile_at, quantile_position, student_quantile, student_sf2};

/// Names the use of random numbers; the sides' resamples are one apart.
const PURPOSE: u64 = 16;

/// How much work is spent, and from where chance comes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Permutations of every column; more where the family needs them.
    pub(crate) permutations: usize,
    /// Hypotheses that are tested together.
    pub(crate) family: Family,
    pub(crate) resamples: usize,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    /// Whether values follow one another in time, or may be exchanged freely (means of runs).
    pub(crate) in_time: bool,
}

/// What is found about one column. Differences are second − first.
#[derive(Debug, Clone)]
pub(crate) struct Compared {
    pub(crate) n: [usize; 2],
    pub(crate) mean: [f64; 2],
    /// What `delta` is the difference of: the means, or with `robust` the means without the extreme tenths.
    pub(crate) location: [f64; 2],
    pub(crate) std: [f64; 2],
    pub(crate) dependence: Dependence,
    pub(crate) delta: f64,
    /// 95 % interval of `delta`.
    pub(crate) interval: [f64; 2],
    /// The same for claims of a difference: as wide as the longest memory that the values may have makes it.
    pub(crate) cautious: [f64; 2],
    /// 90 % interval of `delta`, for two one-sided tests at 5 %.
    pub(crate) interval90: [f64; 2],
    /// Second location over first, with its interval; `None` unless both are positive.
    pub(crate) ratio: Option<(f64, [f64; 2])>,
    /// p of the permutation test; `None` with fewer than 2 values on a side.
    pub(crate) p: Option<f64>,
    pub(crate) exact: bool,
    pub(crate) p_rank: f64,
    pub(crate) shift: f64,
    pub(crate) dominance: f64,
    pub(crate) trimmed: Option<(f64, [f64; 2])>,
    /// Whether a few values rule the mean, so that [`Self::trimmed`] and ranks decide.
    pub(crate) robust: bool,
    /// Whether the values are relative to what others take in the same cycle.
    pub(crate) relative: bool,
}

impl Compared {
    /// Without tests and intervals.
    fn bare([one, two]: [Moments; 2], dependence: Dependence) -> Self {
        let ratio = one.mean > 0.0 && two.mean > 0.0;
        Self {
            n: [one.n, two.n],
            mean: [one.mean, two.mean],
            location: [one.mean, two.mean],
            std: [one.std, two.std],
            dependence,
            delta: two.mean - one.mean,
            interval: [f64::NAN; 2],
            cautious: [f64::NAN; 2],
            interval90: [f64::NAN; 2],
            ratio: ratio.then(|| (two.mean / one.mean, [f64::NAN; 2])),
            p: None,
            exact: false,
            p_rank: f64::NAN,
            shift: f64::NAN,
            dominance: f64::NAN,
            trimmed: None,
            robust: false,
            relative: false,
        }
    }

    /// Takes difference, intervals and p from trimmed means and ranks. `first` is the trimmed mean of the first side.
    fn decide_by_trimmed(&mut self, first: f64) {
        let Some((delta, interval)) = self.trimmed else {
            return;
        };
        let df = freedom(self, self.dependence, Dependence::effective);
        let narrower = student_quantile(0.95, df) / student_quantile(0.975, df);
        self.robust = true;
        self.location = [first, first + delta];
        self.delta = delta;
        self.interval = interval;
        self.cautious = interval;
        self.interval90 = interval.map(|end| delta + narrower * (end - delta));
        self.p = Some(self.p_rank);
        let relative = |difference: f64| (first + difference) / first;
        self.ratio = (first > 0.0 && first + interval[0] > 0.0)
            .then(|| (relative(delta), interval.map(relative)));
    }

    /// Shortens the blocks until there are enough of them to declare one of a family at `p`. What shorter blocks do not see
    /// of the dependence is in [`Dependence::caution`].
    fn shorten_blocks(&mut self, p: f64) {
        while self.dependence.block > 1 && attainable(self.n, self.dependence.block) > p / 2.0 {
            self.dependence.block -= 1;
        }
    }

    /// Exchanges as many values at once as leave [`ENOUGH_BLOCKS`] on each side: thousands of values need not be exchanged one by
    /// one, and values that may be exchanged may be so in blocks.
    fn lengthen_blocks(&mut self) {
        let most = self.n[0].min(self.n[1]) / ENOUGH_BLOCKS;
        self.dependence.block = self.dependence.block.max(most);
    }

    /// p of Welch's test with the effective numbers of values where neighbours are clearly correlated, else 0.
    fn p_of_effective_values(&self) -> f64 {
        if !self.dependence.established {
            return 0.0;
        }
        let dependence = self.dependence.cautious(self.n[0], self.n[1]);
        let error = (0..2)
            .map(|side| self.std[side].powi(2) / dependence.independent(self.n[side]))
            .sum::<f64>()
            .sqrt();
        let t = self.delta / error;
        if t.is_nan() {
            return if self.delta.abs() > 0.0 { 0.0 } else { 1.0 };
        }
        student_sf2(t, freedom(self, self.dependence, Dependence::independent))
    }
}

/// Blocks of a side from which on more of them make no better test, only a longer one.
const ENOUGH_BLOCKS: usize = 1_000;

/// p of Welch's test of two series in time with their effective numbers of values; 0 where neighbours are not correlated.
pub(crate) fn p_in_time(one: &[f64], two: &[f64]) -> f64 {
    if one.len().min(two.len()) < 2 {
        return 0.0;
    }
    let dependence = Dependence::of(one, two);
    let sides = [one, two].map(|side| Moments::of(side.iter().copied()));
    Compared::bare(sides, dependence).p_of_effective_values()
}

/// Compares every column; order of the result is that of the columns.
pub(crate) fn compare_columns(columns: &[[Vec<f64>; 2]], effort: Effort) -> Vec<Compared> {
    let mut results: Vec<Compared> = columns
        .iter()
        .map(|c| describe(c, effort.in_time))
        .collect();
    for result in &mut results {
        result.shorten_blocks(effort.family.smallest());
        result.lengthen_blocks();
    }
    // Columns of one shape share arrangements and resamples.
    let mut shapes: Vec<([usize; 2], usize)> =
        results.iter().map(|r| (r.n, r.dependence.block)).collect();
    shapes.sort_unstable();
    shapes.dedup();
    for (n, block) in shapes {
        if n[0] < 2 || n[1] < 2 {
            continue;
        }
        let members: Vec<usize> = (0..columns.len())
            .filter(|&at| results[at].n == n && results[at].dependence.block == block)
            .collect();
        // Exchanging the sides must give the same numbers with other signs: one order is chosen by the content.
        let swapped = n[0] > n[1] || (n[0] == n[1] && second_is_less(columns, &members));
        let (a, b) = if swapped { (1, 0) } else { (0, 1) };
        let mut matrix = Vec::with_capacity((n[0] + n[1]) * members.len());
        let mut centre = Vec::with_capacity(members.len());
        for &at in &members {
            let all: Vec<f64> = columns[at].concat();
            let m = Moments::of(all.iter().copied());
            let scale = all.iter().fold(0.0_f64, |s, x| s.max((x - m.mean).abs()));
            centre.push((m.mean, if scale > 0.0 { scale } else { 1.0 }));
        }
        for side in [a, b] {
            #[expect(
                clippy::needless_range_loop,
                reason = "the row is the second index of every column"
            )]
            for row in 0..n[side] {
                for (&at, (middle, scale)) in members.iter().zip(&centre) {
                    matrix.push((columns[at][side][row] - middle) / scale);
                }
            }
        }
        let shape = Shape {
            n: [n[a], n[b]],
            block,
        };
        let widening: Vec<f64> = members
            .iter()
            .map(|&at| results[at].dependence.caution(n[0], n[1]))
            .collect();
        let tested = permute(
            &matrix,
            members.len(),
            &shape,
            &widening,
            Budget {
                permutations: effort.permutations,
                family: effort.family,
                seed: effort.seed,
                threads: effort.threads,
            },
        );
        let resampled = resample(&matrix, members.len(), &shape, effort);
        for (place, &at) in members.iter().enumerate() {
            let result = &mut results[at];
            let exchanged = tested.p.get(place).copied();
            // Few blocks that are all alike inside say less than their number.
            result.p = exchanged.map(|p| p.max(result.p_of_effective_values()));
            result.exact = tested.exact;
            let (middle, scale) = centre[place];
            let sides = resampled.side_means(place, middle, scale);
            let (one, two) = if swapped {
                (&sides[1], &sides[0])
            } else {
                (&sides[0], &sides[1])
            };
            intervals(result, one, two);
            if few_rule(&columns[at]) && !result.dependence.established {
                result.decide_by_trimmed(trimmed_mean(&columns[at][0]));
            }
        }
    }
    results
}

fn second_is_less(columns: &[[Vec<f64>; 2]], members: &[usize]) -> bool {
    for &at in members {
        for (x, y) in columns[at][0].iter().zip(&columns[at][1]) {
            match x.total_cmp(y) {
                std::cmp::Ordering::Equal => {}
                order => return order == std::cmp::Ordering::Greater,
            }
        }
    }
    false
}

fn describe(column: &[Vec<f64>; 2], in_time: bool) -> Compared {
    let [one, two] = column;
    let (m1, m2) = (
        Moments::of(one.iter().copied()),
        Moments::of(two.iter().copied()),
    );
    let dependence = if in_time {
        Dependence::of(one, two)
    } else {
        Dependence::NONE
    };
    let bare = Compared::bare([m1, m2], dependence);
    Compared {
        p_rank: brunner_munzel(one, two),
        shift: hodges_lehmann(one, two),
        dominance: cliffs_delta(one, two),
        trimmed: trimmed(one, two, dependence.inflation().sqrt()),
        ..bare
    }
}

/// Means of resamples, by resample and column.
struct Resampled {
    width: usize,
    means: [Vec<f64>; 2],
}

impl Resampled {
    /// Means of one column on both sides, in the column's own unit.
    fn side_means(&self, place: usize, middle: f64, scale: f64) -> [Vec<f64>; 2] {
        self.means.each_ref().map(|means| {
            means
                .chunks_exact(self.width)
                .filter_map(|row| row.get(place))
                .map(|mean| mean * scale + middle)
                .collect()
        })
    }
}

/// Circular blocks of each side, drawn with replacement (Politis and Romano 1992).
fn resample(matrix: &[f64], width: usize, shape: &Shape, effort: Effort) -> Resampled {
    let mut means = [Vec::new(), Vec::new()];
    let mut sums = vec![0.0; width];
    for (side, means) in means.iter_mut().enumerate() {
        let n = shape.n[side];
        let offset = if side == 0 { 0 } else { shape.n[0] };
        means.reserve(effort.resamples * width);
        for index in 0..effort.resamples {
            let mut stream = Stream::new(effort.seed, PURPOSE + side as u64, index as u64);
            sums.fill(0.0);
            let mut taken = 0;
            while taken < n {
                let start = stream.below(n);
                for step in 0..shape.block.min(n - taken) {
                    let row = offset + (start + step) % n;
                    let values = matrix
                        .get(row * width..(row + 1) * width)
                        .unwrap_or_default();
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum += value;
                    }
                    taken += 1;
                }
            }
            means.extend(sums.iter().map(|sum| sum / n as f64));
        }
    }
    Resampled { width, means }
}

/// Degrees of freedom of Welch and Satterthwaite, from the numbers of values that `count` gives.
fn freedom(result: &Compared, dependence: Dependence, count: fn(Dependence, usize) -> f64) -> f64 {
    let part = |side: usize| {
        let n = count(dependence, result.n[side]).max(2.0);
        let v = result.std[side].powi(2) / n;
        (v, v * v / (n - 1.0))
    };
    let ((v1, w1), (v2, w2)) = (part(0), part(1));
    let df = (v1 + v2).powi(2) / (w1 + w2);
    if df.is_nan() { 1e9 } else { df.max(1.0) }
}

/// Quantiles of the resampled differences, widened for what blocks and small samples hide: by
/// [`Dependence::resampled_widening()`], and by the ratio of Student's quantile to the normal one.
fn intervals(result: &mut Compared, one: &[f64], two: &[f64]) {
    let n = result.n[0].min(result.n[1]);
    let dependence = result.dependence.for_intervals(result.n[0], result.n[1]);
    let df = freedom(result, dependence, Dependence::effective);
    let base = dependence.resampled_widening(n);
    let factor = |p: f64| base * student_quantile(p, df) / normal_quantile(p);
    let deltas: Vec<f64> = one.iter().zip(two).map(|(a, b)| b - a).collect();
    let spread = |values: Vec<f64>, point: f64, p: f64| {
        let values = sorted(&values);
        let factor = factor(p);
        let end = |p| point + factor * (quantile(&values, p) - point);
        [end(1.0 - p), end(p)]
    };
    result.interval = spread(deltas.clone(), result.delta, 0.975);
    let wider = {
        let df = freedom(result, dependence, Dependence::independent);
        let base = dependence.cautious_widening(n);
        base * student_quantile(0.975, df) / normal_quantile(0.975) / factor(0.975)
    };
    let point = result.delta;
    result.cautious = result
        .interval
        .map(|end| point + wider.max(1.0) * (end - point));
    result.interval90 = spread(deltas, result.delta, 0.95);
    if let Some((ratio, interval)) = &mut result.ratio {
        let logs: Vec<f64> = one
            .iter()
            .zip(two)
            .filter(|(a, b)| **a > 0.0 && **b > 0.0)
            .map(|(a, b)| (b / a).ln())
            .collect();
        if logs.len() * 2 > one.len() {
            *interval = spread(logs, ratio.ln(), 0.975).map(f64::exp);
        }
    }
}

/// The quantile of values in any order, without sorting all of them: [`quantile`] of the sorted ones.
fn quantile_of(values: &mut [f64], p: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else {
        return f64::NAN;
    };
    let (below, _) = quantile_position(last, p);
    let (_, low, rest) = values.select_nth_unstable_by(below, f64::total_cmp);
    let low = *low;
    let next = rest.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    let at = |at| if at == below { low } else { next };
    quantile_at(last + 1, p, at).unwrap_or(f64::NAN)
}

/// Difference of a quantile with its 95 % interval, by resampling blocks.
pub(crate) fn quantile_change(
    one: &[f64],
    two: &[f64],
    p: f64,
    dependence: Dependence,
    effort: Effort,
) -> (f64, [f64; 2]) {
    let point = quantile(&sorted(two), p) - quantile(&sorted(one), p);
    let swapped = one.len() > two.len()
        || (one.len() == two.len() && second_is_less(&[[one.to_vec(), two.to_vec()]], &[0]));
    let draw = |values: &[f64], purpose: u64, index: usize| {
        let mut stream = Stream::new(effort.seed, PURPOSE + 8 + purpose, index as u64);
        let mut drawn = Vec::with_capacity(values.len());
        while drawn.len() < values.len() {
            let start = stream.below(values.len());
            for step in 0..dependence.block.min(values.len() - drawn.len()) {
                drawn.push(values[(start + step) % values.len()]);
            }
        }
        quantile_of(&mut drawn, p)
    };
    if one.is_empty() || two.is_empty() {
        return (f64::NAN, [f64::NAN; 2]);
    }
    let first = u64::from(swapped);
    let changes: Vec<f64> = (0..effort.resamples.min(999))
        .map(|index| draw(two, 1 - first, index) - draw(one, first, index))
        .collect();
    let changes = sorted(&changes);
    let factor = dependence.resampled_widening(one.len().min(two.len()));
    let end = |p: f64| point + factor * (quantile(&changes, p) - point);
    (point, [end(0.025), end(0.975)])
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "planted numbers are exact")]
mod tests {
    use super::*;

    const EFFORT: Effort = Effort {
        permutations: 999,
        family: Family {
            size: 1,
            level: 0.05,
        },
        resamples: 499,
        seed: 3,
        threads: 1,
        in_time: true,
    };

    fn noise(seed: u64, n: usize, mean: f64, spread: f64) -> Vec<f64> {
        let mut stream = Stream::new(seed, 99, 0);
        (0..n)
            .map(|_| {
                let sum: f64 = (0..12)
                    .map(|_| stream.below(1 << 30) as f64 / f64::from(1 << 30))
                    .sum();
                mean + spread * (sum - 6.0)
            })
            .collect()
    }

    #[test]
    fn a_shift_is_found_and_measured() {
        let columns = [[noise(1, 40, 100.0, 2.0), noise(2, 40, 110.0, 2.0)]];
        let found = &compare_columns(&columns, EFFORT)[0];
        assert!(found.p.unwrap() <= 0.002);
        assert!(
            found.interval[0] > 8.0 && found.interval[1] < 12.0,
            "{:?}",
            found.interval
        );
        let (ratio, interval) = found.ratio.unwrap();
        assert!((ratio - 1.1).abs() < 0.01 && interval[0] > 1.08 && interval[1] < 1.12);
        assert!(found.interval90[0] > found.interval[0]);
    }

    #[test]
    fn exchanged_sides_give_the_same_with_other_signs() {
        for (n1, n2) in [(20, 20), (13, 31)] {
            let one = noise(4, n1, 10.0, 1.0);
            let two = noise(5, n2, 10.5, 3.0);
            let there = &compare_columns(&[[one.clone(), two.clone()]], EFFORT)[0];
            let back = &compare_columns(&[[two.clone(), one.clone()]], EFFORT)[0];
            assert_eq!(there.p, back.p);
            assert!((there.interval[0] + back.interval[1]).abs() < 1e-9);
            assert!((there.interval90[1] + back.interval90[0]).abs() < 1e-9);
            let (p, q) = (
                quantile_change(&one, &two, 0.5, Dependence::NONE, EFFORT),
                quantile_change(&two, &one, 0.5, Dependence::NONE, EFFORT),
            );
            assert!((p.1[0] + q.1[1]).abs() < 1e-9);
        }
    }

    #[test]
    fn a_quantile_needs_no_sorting() {
        for n in [1, 2, 3, 10, 41] {
            let values = noise(n as u64, n, 50.0, 9.0);
            for p in [0.0, 0.3, 0.5, 0.95, 0.99, 1.0] {
                let found = quantile_of(&mut values.clone(), p);
                let wanted = quantile(&sorted(&values), p);
                assert_eq!(found, wanted, "{n} {p}");
            }
        }
    }

    #[test]
    fn thousands_of_values_are_exchanged_in_blocks() {
        let columns = [[noise(1, 5000, 100.0, 9.0), noise(2, 5000, 101.0, 9.0)]];
        let found = &compare_columns(&columns, EFFORT)[0];
        assert_eq!(found.dependence.block, 5);
        // As the test of Student with these numbers says.
        assert!(found.p.unwrap() <= 0.002, "{found:?}");
        assert!(
            found.interval[0] > 0.5 && found.interval[1] < 1.5,
            "{found:?}"
        );
    }

    #[test]
    fn no_spread_no_values() {
        let found = &compare_columns(&[[vec![1.0; 6], vec![2.0; 6]]], EFFORT)[0];
        assert!((found.p.unwrap() - 2.0 / 924.0).abs() < 1e-12);
        assert_eq!(found.interval, [1.0, 1.0]);
        let same = &compare_columns(&[[vec![1.0; 6], vec![1.0; 6]]], EFFORT)[0];
        assert_eq!(same.p, Some(1.0));
        assert_eq!(compare_columns(&[[vec![1.0], vec![]]], EFFORT)[0].p, None);
        let huge = &compare_columns(&[[noise(1, 9, 1e13, 1e9), noise(2, 9, 2e13, 1e9)]], EFFORT)[0];
        assert!(huge.p.unwrap() < 0.01 && huge.interval[0] > 0.9e13);
    }

    #[test]
    fn one_far_value_does_not_decide() {
        let mut one = noise(21, 40, 500.0, 2.0);
        one[0] = 37.0;
        let two = noise(22, 40, 515.0, 2.0);
        let there = &compare_columns(&[[one.clone(), two.clone()]], EFFORT)[0];
        assert!(there.robust && there.p.unwrap() < 1e-3, "{there:?}");
        assert!(
            there.interval[0] > 12.0 && there.interval[1] < 18.0,
            "{there:?}"
        );
        let back = &compare_columns(&[[two, one]], EFFORT)[0];
        assert!((there.delta + back.delta).abs() < 1e-9 && back.robust);
        assert!(
            !compare_columns(&[[noise(1, 40, 9.0, 1.0), noise(2, 40, 9.0, 1.0)]], EFFORT)[0].robust
        );
    }
}
