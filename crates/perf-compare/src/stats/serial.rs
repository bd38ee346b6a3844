//! Dependence between neighbouring values.

use ::stats::student_quantile;

/// Autocorrelation of the pooled residuals of both sides at `lag`: deviations from the side's own mean.
fn correlation(sides: [&[f64]; 2], lag: usize) -> f64 {
    let (mut product, mut square) = (0.0, 0.0);
    for side in sides {
        let mean = side.iter().sum::<f64>() / side.len().max(1) as f64;
        let scale = side.iter().fold(0.0_f64, |a, x| a.max((x - mean).abs()));
        if scale <= 0.0 {
            continue;
        }
        // Scaled, so that neither side's spread nor its unit decides alone, and nothing overflows.
        let spread = side
            .iter()
            .map(|x| ((x - mean) / scale).powi(2))
            .sum::<f64>();
        let lagged: f64 = side
            .iter()
            .zip(side.iter().skip(lag))
            .map(|(a, b)| (a - mean) / scale * ((b - mean) / scale))
            .sum();
        let weight = side.len() as f64 / spread;
        product += lagged * weight;
        square += spread * weight;
    }
    if square > 0.0 { product / square } else { 0.0 }
}

/// Largest correlation that is reckoned with: beyond it a series is not stationary for its length.
const LARGEST: f64 = 0.98;

/// Values that a memory must be shorter than a third of, to be told from a trend: the decay that goes with it.
const LONGEST_MEMORY: f64 = 3.0;

/// Values of a side from which on the decay is estimated apart from the correlation of neighbours.
const MEMORY_FROM: usize = 20;

/// Independent values below which intervals are as wide as a cautious estimate of the dependence makes them.
const FEW: f64 = 6.0;

/// Maximum number of lags that the sum of correlations goes to.
const FARTHEST: usize = 256;

/// Sum of the correlations at all lags from 1, each corrected for the bias of short series, by the initial monotone sequence
/// (Geyer 1992): correlations are added in pairs of neighbouring lags until a pair is not positive, none larger than the pair
/// before it. A factor estimated from three lags alone is unstable for short series: noise in them makes almost any sum.
fn total(one: &[f64], two: &[f64], per_side: f64) -> f64 {
    let at = |lag| correlation([one, two], lag) + 1.0 / per_side;
    let lags = (one.len().min(two.len()) / 2).min(FARTHEST);
    let (mut sum, mut last) = (0.0, f64::INFINITY);
    for lag in (1..lags).step_by(2) {
        let pair = (at(lag) + at(lag + 1)).min(last);
        if pair.is_nan() || pair <= 0.0 {
            break;
        }
        sum += pair;
        last = pair;
    }
    sum
}

/// What is known about the dependence of successive values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dependence {
    /// Correlation of neighbours, corrected for the bias of short series, between 0 and [`LARGEST`].
    pub(crate) rho: f64,
    /// Factor from the correlation at one lag to that at the next, at least `rho`: larger where a slow process is mixed with
    /// noise that has no memory.
    pub(crate) decay: f64,
    /// Whether the correlation of neighbours is beyond chance.
    pub(crate) established: bool,
    /// Length of blocks that are exchanged and resampled together.
    pub(crate) block: usize,
}

impl Dependence {
    /// Values that may be exchanged freely, such as means of runs.
    pub(crate) const NONE: Self = Self {
        rho: 0.0,
        decay: 0.0,
        established: false,
        block: 1,
    };

    /// From both sides in the order of time.
    ///
    /// The block ends at the first lag whose correlation is below 1.96/√n; at least 5 blocks stay on each side.
    pub(crate) fn of(one: &[f64], two: &[f64]) -> Self {
        let n = one.len().min(two.len());
        if n < 5 {
            return Self::NONE;
        }
        let all = (one.len() + two.len()) as f64;
        let per_side = all / 2.0;
        let bound = 1.96 / all.sqrt();
        let longest = (n / 5).max(1);
        let block = (1..longest)
            .find(|&lag| correlation([one, two], lag).abs() < bound)
            .unwrap_or(longest);
        let raw = correlation([one, two], 1);
        let established = raw > bound;
        // E[r] is near rho − (1 + 3 rho)/n for a series of n values (Kendall 1954, Marriott and Pope 1954).
        let rho = (per_side * raw + 1.0) / (per_side - 3.0).max(1.0);
        // Half a standard error (Bartlett) on the safe side: too little dependence makes false findings, too much only
        // costs some power.
        let rho = rho + 0.5 * ((1.0 - rho.clamp(0.0, 1.0).powi(2)) / all).sqrt();
        let rho = rho.clamp(0.0, LARGEST);
        let decay = if established && n >= MEMORY_FROM {
            // The decay with this sum of correlations rho decay^(k - 1).
            1.0 - rho / total(one, two, per_side).max(rho)
        } else {
            rho
        };
        Self {
            rho,
            decay: decay.max(rho).min(LARGEST),
            established,
            block,
        }
    }

    /// Variance of a mean relative to independent values. The correlation at lag k is taken to be rho decay^(k - 1), that of
    /// a first-order autoregressive process observed with noise.
    pub(crate) fn inflation(self) -> f64 {
        1.0 + 2.0 * self.rho / (1.0 - self.decay)
    }

    /// Variance of a mean of `length` neighbours relative to independent values.
    fn inflation_of(self, length: f64) -> f64 {
        let mut sum = 1.0;
        let mut power = self.rho;
        let mut lag = 1.0;
        // What is left after that many lags is below the last digit of the sum.
        while lag < length && power > 1e-12 {
            sum += 2.0 * (1.0 - lag / length) * power;
            power *= self.decay;
            lag += 1.0;
        }
        sum
    }

    /// The same with no longer a memory than a series of `n` values can show: estimates beyond that are those of a trend or of
    /// chance, and would make intervals of any width.
    fn within(self, n: f64) -> Self {
        let largest = (1.0 - LONGEST_MEMORY / n).clamp(0.0, LARGEST);
        Self {
            rho: self.rho.min(largest),
            decay: self.decay.min(largest),
            ..self
        }
    }

    /// The factor still missing in standard errors taken from blocks; at least 1.
    pub(crate) fn widening(self) -> f64 {
        let seen = self.inflation_of(self.block as f64);
        (self.inflation() / seen).sqrt().max(1.0)
    }

    /// The factor still missing in the spread of a resampled mean of `n` values; at least 1.
    ///
    /// Let v(k) = w(k)/k be the variance of a mean of k neighbours. What is wanted is v(n). Blocks of length b do not see
    /// the dependence across their ends, and they vary about the mean of the same values, which follows them: their spread
    /// shows (b/n) (v(b) − v(n)). The variance therefore lacks the factor w(n) / (w(b) − w(n) b/n), which for independent
    /// values is the well-known n/(n − 1).
    pub(crate) fn resampled_widening(self, n: usize) -> f64 {
        self.within(n as f64).missing(n)
    }

    /// The same without the limits that a short series sets, for claims that there is a difference.
    pub(crate) fn cautious_widening(self, n: usize) -> f64 {
        self.missing(n)
    }

    fn missing(self, n: usize) -> f64 {
        let (n, block) = (n as f64, self.block as f64);
        let whole = self.inflation_of(n);
        let seen = self.inflation_of(block) - whole * block / n;
        (whole / seen.max(1e-3)).sqrt().max(1.0)
    }

    /// The factor by which a test statistic is divided: [`Self::widening`], and the ratio of far quantiles of Student's
    /// distribution with the effective and the nominal number of values, since dependence makes heavy tails.
    pub(crate) fn caution(self, one: usize, two: usize) -> f64 {
        const FAR: f64 = 0.9995;
        let nominal = (one + two) as f64 - 2.0;
        let effective = (self.independent(one + two) - 2.0).max(2.0);
        if nominal <= effective {
            return self.widening();
        }
        self.widening() * student_quantile(FAR, effective) / student_quantile(FAR, nominal)
    }

    /// The same with correlations a standard error (Bartlett) larger, where they reach far: estimates from two short series
    /// vary that much, and a slow process in them looks faster than it is.
    pub(crate) fn cautious(self, one: usize, two: usize) -> Self {
        const FAR: f64 = 0.5;
        if !self.established || self.decay < FAR {
            return self;
        }
        let error = |r: f64| ((1.0 - r * r).max(0.0) / (one + two).max(1) as f64).sqrt();
        let rho = (self.rho + error(self.rho)).min(LARGEST);
        Self {
            rho,
            decay: (self.decay + error(self.decay)).min(LARGEST).max(rho),
            ..self
        }
    }

    /// Returns `true` if few values of a side may be independent: the dependence is beyond chance, and the largest that is compatible
    /// with it at 95 % leaves fewer than [`FEW`]. Short series of a slow process often look like those of a faster one.
    pub(crate) fn may_leave_few(self, one: usize, two: usize) -> bool {
        const FAR: f64 = 1.65;
        if !self.established {
            return false;
        }
        let error = |r: f64| ((1.0 - r * r).max(0.0) / (one + two).max(1) as f64).sqrt();
        let upper = |r: f64| (r + FAR * error(r)).min(LARGEST);
        let largest = Self {
            rho: upper(self.rho),
            decay: upper(self.decay),
            ..self
        };
        largest.effective(one.min(two)) < FEW
    }

    /// The dependence that intervals reckon with: the cautious one where few values may be independent.
    pub(crate) fn for_intervals(self, one: usize, two: usize) -> Self {
        match self.may_leave_few(one, two) {
            true => self.cautious(one, two),
            false => self,
        }
    }

    /// Number of independent values whose mean is as certain as that of `n` of these; from 1 to `n`.
    pub(crate) fn effective(self, n: usize) -> f64 {
        let n = n as f64;
        (n / self.within(n).inflation_of(n)).clamp(1.0_f64.min(n), n)
    }

    /// The same for tests, without the limits that a short series sets: the spread about its own mean hides a part of what a
    /// slow process does, which the missing correlations beyond its length would.
    pub(crate) fn independent(self, n: usize) -> f64 {
        n as f64 / self.inflation()
    }

    /// Factor between the variance of a mean of `n` values, for any larger number of them as well, and that of independent ones.
    pub(crate) fn inflation_from(self, n: usize) -> f64 {
        self.within(n as f64).inflation()
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "planted numbers are exact")]
mod tests {
    use super::super::random::Stream;
    use super::*;

    #[test]
    fn alternation_and_trend() {
        let trend: Vec<f64> = (0..60).map(|i| f64::from(i / 20)).collect();
        let d = Dependence::of(&trend, &trend);
        assert!(d.rho > 0.9 && d.block > 5, "{d:?}");
        assert!(d.effective(60) < 4.0);
        let alternating: Vec<f64> = (0..60).map(|i| f64::from(i % 2)).collect();
        let d = Dependence::of(&alternating, &alternating);
        assert_eq!(d.rho, 0.0);
        assert_eq!(d.widening(), 1.0);
    }

    #[test]
    fn noise_does_not_hide_a_slow_process() {
        // Two regimes of 20 cycles each, under noise as large as their distance: neighbours correlate little, for long.
        let series: Vec<f64> = (0..80)
            .map(|i| f64::from(i / 20 % 2) * 4.0 + f64::from(i * 7 % 5))
            .collect();
        let d = Dependence::of(&series, &series);
        assert!(d.established && d.decay > d.rho + 0.1, "{d:?}");
        let first_order = (1.0 + d.rho) / (1.0 - d.rho);
        assert!(d.inflation() > 1.5 * first_order, "{d:?}");
    }

    #[test]
    fn little_correlation_leaves_many_values() {
        // First-order processes of 49 values: three lags alone gave as little as one effective value.
        for rho in [0.2, 0.33, 0.45] {
            for seed in 0..40 {
                let mut stream = Stream::new(seed, 7, 0);
                let mut value = 0.0;
                let mut series = || -> Vec<f64> {
                    let next = |_| {
                        let uniform = stream.below(1 << 20) as f64 / f64::from(1 << 20) - 0.5;
                        value = rho * value + uniform;
                        value
                    };
                    (0..49).map(next).collect()
                };
                let d = Dependence::of(&series(), &series());
                let nominal = 49.0 * (1.0 - rho) / (1.0 + rho);
                assert!(d.effective(49) > nominal / 5.0, "{rho} {seed}: {d:?}");
            }
        }
    }

    #[test]
    fn no_series_counts_as_less_than_one_value() {
        // The slowest processes: AR(0.9), a random walk, a trend. Exact for AR: n / (1 + 2 sum (1 - k/n) rho^k).
        for rho in [0.9, 0.95, 1.0] {
            for seed in 0..40 {
                let mut stream = Stream::new(seed, 11, 0);
                let mut value = 0.0;
                let mut series = || -> Vec<f64> {
                    let next = |_| {
                        value =
                            rho * value + stream.below(1 << 20) as f64 / f64::from(1 << 20) - 0.5;
                        value
                    };
                    (0..29).map(next).collect()
                };
                let d = Dependence::of(&series(), &series());
                let effective = d.effective(29);
                assert!(
                    (1.0..=29.0).contains(&effective),
                    "{rho} {seed}: {effective}"
                );
                assert!(d.resampled_widening(29) < 5.0, "{rho} {seed}: {d:?}");
            }
        }
        let trend: Vec<f64> = (0..29).map(f64::from).collect();
        assert!(Dependence::of(&trend, &trend).effective(29) >= 1.0);
        assert!((Dependence::NONE.effective(1) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn widening_completes_what_blocks_see() {
        let of = |rho, block| Dependence {
            rho,
            decay: rho,
            established: true,
            block,
        };
        let d = of(0.5, 1);
        assert!((d.widening() - 3.0_f64.sqrt()).abs() < 1e-12);
        assert!(of(0.5, 50).widening() < 1.05);
        // Without dependence only the degree of freedom of the mean is missing.
        assert!((Dependence::NONE.resampled_widening(10) - (10.0_f64 / 9.0).sqrt()).abs() < 1e-12);
        let d = of(0.6, 4);
        assert!(d.resampled_widening(57) > d.widening());
        assert_eq!(
            Dependence::of(&[1.0; 9], &[1.0; 9]).rho.clamp(0.0, 0.3),
            Dependence::of(&[1.0; 9], &[1.0; 9]).rho
        );
    }
}
