//! How long regions live, where the end of a recording cuts some lives off.

use spill_sort::{Sorter, SpillOptions};

use crate::error::Result;
use crate::quantile::real;
use crate::record::Ascending;

/// One-sided 95 % of the normal distribution.
const Z: f64 = 1.644_853_626_951_472;
/// Chance of an error that is accepted.
const ERROR: f64 = 0.05;

/// Lives of regions: whole ones, and parts of longer ones.
///
/// A recording that ends cuts off the lives of what is then in use, of every server that goes on. Which ones are cut off depends on when
/// they began and not on how long they would last, so that those that are whole show how long the others last (Kaplan and Meier).
pub(crate) struct Lives {
    /// Twice the time, and 1 more for a part.
    times: Sorter<Ascending>,
    options: SpillOptions,
    count: u64,
}

impl Lives {
    pub(crate) fn new(options: SpillOptions) -> Self {
        Self {
            times: Sorter::new(options.clone()),
            options,
            count: 0,
        }
    }

    pub(crate) fn push(&mut self, time_ns: u64, is_part: bool) -> Result<()> {
        self.count += 1;
        let time = time_ns.min(u64::MAX >> 1);
        Ok(self.times.push(time << 1 | u64::from(is_part))?)
    }

    /// Upper bounds of quantiles, seconds, `None` where there is none, and forgets everything.
    ///
    /// A quantile is below a time if so few lives are known or estimated to be longer that, would more be, not all of these would be
    /// among those that are cut off before.
    pub(crate) fn take_at_most(&mut self, quantiles: [f64; 2]) -> Result<[Option<f64>; 2]> {
        let times = std::mem::replace(&mut self.times, Sorter::new(self.options.clone()));
        let mut times = times.finish()?;
        let all = real(self.count);
        let mut found = [None; 2];
        let (mut left, mut cut, mut survival, mut variance) = (self.count, 0_u64, 1.0_f64, 0.0_f64);
        while let Some(time) = times.next_item()? {
            if time & 1 == 1 {
                cut += 1;
                left -= 1;
                continue;
            }
            // Greenwood's variance.
            survival *= 1.0 - 1.0 / real(left);
            variance += match left {
                1 => 0.0,
                _ => 1.0 / (real(left) * real(left - 1)),
            };
            left -= 1;
            let known = real(left);
            let hidden = (all * survival - known).max(0.0);
            let spread = Z * all * survival * variance.sqrt();
            for (q, at_most) in quantiles.iter().zip(&mut found) {
                let allowed = (1.0 - q) * (all - 1.0) - known;
                let more = (allowed - hidden - if cut > 0 { spread } else { 0.0 }).floor() + 1.0;
                let is_below = more >= 1.0 && (real(cut) / all).powf(more) <= ERROR;
                if at_most.is_none() && is_below {
                    *at_most = Some(real(time >> 1) / 1e9);
                }
            }
        }
        self.count = 0;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(lives: &[(u64, bool)]) -> [Option<f64>; 2] {
        let options = SpillOptions {
            folder: std::env::temp_dir(),
            memory_bytes: 1 << 16,
        };
        let mut all = Lives::new(options);
        for (time, is_part) in lives {
            all.push(*time, *is_part).unwrap();
        }
        all.take_at_most([0.5, 0.99]).unwrap()
    }

    #[test]
    fn whole_lives_bound_those_that_are_cut_off() {
        let whole = (1..=1000_u64).map(|at| (at * 3_000_000, false));
        let at = |life: Option<f64>| life.unwrap();
        let exact: Vec<_> = whole.clone().collect();
        let [p50, p99] = bounds(&exact);
        assert!((at(p50) - 1.5).abs() < 0.01 && (at(p99) - 2.97).abs() < 0.01);
        // A process that goes on: lives of all ages are cut off.
        let cut = |count: u64, at_ms: u64| {
            (0..count).map(move |part| (part * at_ms * 1_000_000 / count, true))
        };
        let [p50, p99] = bounds(&whole.clone().chain(cut(50, 3000)).collect::<Vec<_>>());
        assert!(
            at(p50) < 1.7 && (2.97..=3.0).contains(&at(p99)),
            "{p50:?} {p99:?}"
        );
        // Some that live on are seen to.
        let long = (0..30).map(|_| (50_000_000_000, true));
        let [p50, p99] = bounds(&whole.clone().chain(long).collect::<Vec<_>>());
        assert!(at(p50) < 1.7 && p99.is_none(), "{p99:?}");
        // Few whole lives say nothing about many that are not.
        assert_eq!(
            bounds(&whole.take(3).chain(cut(900, 3000)).collect::<Vec<_>>()),
            [None; 2]
        );
        assert_eq!(bounds(&[(5, true)]), [None; 2]);
    }

    /// Against the truth of a process that goes on: the bound is wrong in no more than the accepted share of recordings.
    #[test]
    fn bounds_hold_for_random_lives() {
        let mut state = 7_u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            real(state >> 11) / real(1 << 53)
        };
        let (mut wrong, mut given) = (0, 0);
        for recording in 0..400_u64 {
            let count = 100 + recording % 7 * 200;
            let mut lives = Vec::new();
            let mut truth = Vec::new();
            for _ in 0..count {
                let (begin, life) = (random() * 60.0, -3.0 * random().max(1e-12).ln());
                truth.push(life);
                let ns = |s: f64| {
                    u64::try_from(std::time::Duration::from_secs_f64(s).as_nanos()).unwrap()
                };
                lives.push((ns(life.min(60.0 - begin)), life > 60.0 - begin));
            }
            truth.sort_by(f64::total_cmp);
            for (bound, q) in bounds(&lives).iter().zip([0.5, 0.99]) {
                let at = stats::quantile_at(truth.len(), q, |at| truth[at]).unwrap();
                given += u32::from(bound.is_some());
                wrong += u32::from(bound.is_some_and(|bound| bound < at));
            }
        }
        assert!(given > 600 && wrong * 20 <= given, "{wrong} of {given}");
    }
}
