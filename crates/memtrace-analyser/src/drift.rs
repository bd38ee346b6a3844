//! Whether samples of varying periods leave the rhythm of a program.
//!
//! A sampler at a steady rate (`perf record -F`) spaces its samples evenly in time, but adjusts its period all the time. Where the sum of
//! successive periods varies by a good part of one period, the sampler comes to other accesses each time that the program repeats itself, so that
//! nothing the program does again and again is missed for ever. What happens within a few samples stays dependent.

use rustc_hash::FxHashMap;

use crate::quantile::real;
use crate::record::{LOAD, STORE};

/// Threads that are looked at, the first ones, and the share of the samples that they must have.
const THREADS: usize = 64;
const NEARLY: f64 = 0.9;
/// Successive periods of a thread that are looked at, the last ones.
const KEPT: usize = 1 << 13;
/// Fewest periods that show anything.
const FEWEST: usize = 1024;
/// Most samples apart that are compared, and places where.
const FARTHEST: usize = 2048;
const PLACES: usize = 512;
/// Standard deviation of a sum of periods, in mean periods, by which samples have left the rhythm, and below which it never is from some distance
/// on: a sampler that is locked to the program has a length of the program at whose multiples sums are equal.
const LEFT: f64 = 0.5;
const KEEPS: f64 = 0.25;
/// Median of the size of the difference of two normally distributed numbers of variance 1.
const MEDIAN: f64 = 0.9539;
/// Samples over which the period at a time is averaged.
const NEAR: u64 = 16;

/// Periods of the loads or of the stores of a thread, in order of time.
#[derive(Debug, Clone, Default)]
struct Course {
    count: u64,
    /// The last periods; the oldest at `next` once it is full.
    last: Vec<u64>,
    next: usize,
    near: (u64, u64),
    largest: u64,
}

impl Course {
    fn add(&mut self, period: u64) {
        self.count += 1;
        match self.last.get_mut(self.next) {
            Some(oldest) => *oldest = period,
            None => self.last.push(period),
        }
        self.next = (self.next + 1) % KEPT;
        let (count, sum) = self.near;
        self.near = (count + 1, sum.saturating_add(period));
        if self.near.0 == NEAR {
            self.largest = self.largest.max(self.near.1);
            self.near = (0, 0);
        }
    }

    /// Returns `true` if the samples leave whatever rhythm they had.
    fn drifts(&self) -> bool {
        if self.last.len() < FEWEST {
            return false;
        }
        let (newer, older) = self.last.split_at(self.next.min(self.last.len()));
        let periods = older.iter().chain(newer);
        let sums = periods.scan(0_u64, |sum, period| {
            *sum = sum.saturating_add(*period);
            Some(*sum)
        });
        let sums: Vec<u64> = std::iter::once(0).chain(sums).collect();
        let count = self.last.len();
        let mean = sums
            .last()
            .map_or(0.0, |all| real(*all) / real(count as u64));
        let farthest = FARTHEST.min(count / 4);
        let step = ((count - farthest) / PLACES).max(1);
        // Of sums that follow each other: what changes slowly, or once, leaves the rhythm in between as it is.
        let deviation = |apart: usize| {
            let ends = sums.iter().skip(apart).zip(sums.iter().skip(2 * apart));
            let all = sums.iter().zip(ends).step_by(step);
            let mut differences: Vec<u64> = all
                .map(|(from, (middle, to))| (middle - from).abs_diff(to - middle))
                .collect();
            let half = differences.len() / 2;
            let (_, median, _) = differences.select_nth_unstable(half);
            real(*median) / mean / MEDIAN
        };
        if mean <= 0.0 {
            return false;
        }
        let deviations: Vec<f64> = (1..=farthest).map(deviation).collect();
        let in_step = deviations.iter().rposition(|deviation| *deviation < KEEPS);
        let from = in_step.map_or(0, |at| at + 1);
        let mut beyond = deviations.iter().skip(from);
        from * 2 <= farthest && beyond.any(|deviation| *deviation >= LEFT)
    }
}

/// Periods of loads and of stores by thread, since each has its own counter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drift(FxHashMap<u32, [Course; 2]>);

impl Drift {
    /// Adds a row, in order of time.
    pub(crate) fn add(&mut self, thread: u32, op: u8, period: u64) {
        if self.0.len() >= THREADS && !self.0.contains_key(&thread) {
            return;
        }
        let [loads, stores] = self.0.entry(thread).or_default();
        match op {
            LOAD => loads.add(period),
            STORE => stores.add(period),
            _ => {}
        }
    }

    /// Returns the largest mean period of the stores at any time, if nearly all loads and nearly all stores leave the rhythm of the
    /// program; `None` if not.
    pub(crate) fn largest_store_period(&self) -> Option<f64> {
        let drift = |op: usize| {
            let courses = self.0.values().filter_map(|courses| courses.get(op));
            let (mut all, mut part) = (0, 0);
            for course in courses {
                all += course.count;
                if course.drifts() {
                    part += course.count;
                }
            }
            all > 0 && real(part) >= NEARLY * real(all)
        };
        let largest = self.0.values().map(|[_, stores]| stores.largest).max();
        (drift(1) && drift(0)).then(|| real(largest.unwrap_or(0)) / real(NEAR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drifts(period: impl Fn(u64) -> u64) -> bool {
        let mut course = Course::default();
        (0..100_000).for_each(|at| course.add(period(at)));
        course.drifts()
    }

    fn random(at: u64) -> u64 {
        let mixed = at
            .wrapping_add(0x9e37_79b9_7f4a_7c15)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33
    }

    #[test]
    fn fixed_periods_and_locked_ones_keep_the_rhythm() {
        assert!(!drifts(|_| 4000));
        // By a thousandth: after all that is looked at still at the same accesses.
        assert!(!drifts(|at| 4000 + random(at) % 8));
        // Adjusted in step with a program that repeats itself after 37 samples.
        assert!(!drifts(|at| 3000 + at % 37 * 50));
        // Another period from some time on.
        assert!(!drifts(|at| if at < 96_000 { 1000 } else { 3000 }));
        assert!(drifts(|at| 3800 + random(at) % 400));
        assert!(drifts(|at| 2000 + random(at / 8) % 4000));
        assert!(drifts(|at| 3000 + at % 37 * 50 + random(at) % 500));
        let mut few = Course::default();
        (0..1000).for_each(|at| few.add(2000 + random(at) % 4000));
        assert!(!few.drifts());
    }

    #[test]
    fn the_largest_period_is_that_of_a_while() {
        let mut drift = Drift::default();
        for at in 0..8000 {
            let slow = if at >= 4000 { 3 } else { 1 };
            drift.add(7, LOAD, 1000 + random(at) % 500);
            drift.add(7, STORE, slow * (1000 + random(at) % 500));
        }
        let found = drift.largest_store_period().unwrap_or(0.0);
        assert!((3600.0..4500.0).contains(&found), "{found}");
        // Two threads of fixed periods, which differ, are in step each.
        let mut fixed = Drift::default();
        for at in 0..20_000 {
            let thread = u32::from(random(at).is_multiple_of(2));
            let period = 1000 + 4000 * u64::from(thread);
            fixed.add(thread, LOAD, period);
            fixed.add(thread, STORE, period);
        }
        assert_eq!(fixed.largest_store_period(), None);
    }
}
