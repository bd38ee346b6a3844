//! Functions that are slow in some cycles only: more often so on the abnormal side.
//!
//! A middle does not move when one cycle in ten is slow. So a cycle counts as slow for a function from
//! a limit on that both sides together set, slow cycles in a row as one episode, and the question is
//! whether episodes would fall on the abnormal side so often by chance: the hypergeometric tail, exact
//! for any distribution of times (Fisher's test). Only functions with slow cycles on either side are
//! asked, and only those with so many that they could be told from chance if all were of one side. Which they are does not
//! depend on the side, so the others need no adjustment (Tarone 1990).

use super::{Compared, Options};
use crate::num::real;
use crate::outlier::{MOST, limit};
use crate::statistics::{adjusted, tail_of_draws};

/// Fewer cycles than this on a side have no tail.
const LEAST: usize = 8;
/// Slow cycles that make up this share of a difference are all of it.
const MOST_OF_IT: f64 = 0.8;

/// A function with slow cycles.
pub(super) struct Tail {
    /// By place in the list of series.
    pub(super) series: usize,
    /// Slow cycles of the abnormal side, by place in the series.
    pub(super) slow: Vec<usize>,
    /// None if it is slower throughout by the other test: these cycles are then why.
    pub(super) adjusted: Option<f64>,
}

/// What slow cycles say.
struct Episodes {
    slow: Vec<usize>,
    /// More time per cycle because of them, ns.
    effect: f64,
    p: f64,
    /// The probability if all episodes were of the abnormal side.
    least_p: f64,
}

/// The functions that are slow more often on the abnormal side, and cost enough by it; by phase.
pub(super) fn tails(phases: &[Compared<'_>], options: &Options) -> Vec<Vec<Tail>> {
    let mut known: Vec<Vec<Tail>> = phases.iter().map(|_| Vec::new()).collect();
    let mut asked: Vec<(usize, usize, Episodes)> = Vec::new();
    for (p, phase) in phases.iter().enumerate() {
        let least = options.least_share * phase.length;
        let all = phase.series.iter().enumerate();
        for (i, s) in all.filter(|s| s.1.may_be_blamed()) {
            let Some(found) = episodes(&s.normal, &s.abnormal, phase.length, least) else {
                continue;
            };
            if !s.is_slower(options, phase.length) {
                if found.least_p <= options.alpha {
                    asked.push((p, i, found));
                }
            } else if found.effect >= MOST_OF_IT * s.effect.0 {
                known[p].push(Tail {
                    series: i,
                    slow: found.slow,
                    adjusted: None,
                });
            }
        }
    }
    let chances: Vec<f64> = asked.iter().map(|f| f.2.p).collect();
    for ((p, series, found), adjusted) in asked.into_iter().zip(adjusted(&chances)) {
        let least = options.least_share * phases[p].length;
        if adjusted <= options.alpha && found.effect >= least {
            known[p].push(Tail {
                series,
                slow: found.slow,
                adjusted: Some(adjusted),
            });
        }
    }
    known
}

/// None without slow cycles that cost as much on either side.
fn episodes(normal: &[f64], abnormal: &[f64], length: f64, least: f64) -> Option<Episodes> {
    let (n, m) = (normal.len(), abnormal.len());
    if n < LEAST || m < LEAST {
        return None;
    }
    let all: Vec<f64> = normal.iter().chain(abnormal).copied().collect();
    let (middle, limit) = limit(&all, 0, length);
    let slow = |values: &[f64]| -> Vec<usize> {
        let each = values.iter().enumerate();
        each.filter(|v| *v.1 > limit).map(|v| v.0).collect()
    };
    let cost = |values: &[f64], slow: &[usize]| {
        let excess: f64 = slow.iter().map(|&i| values[i] - middle).sum();
        excess / real(values.len())
    };
    let (before, after) = (slow(normal), slow(abnormal));
    let (x, y) = (cost(normal, &before), cost(abnormal, &after));
    let often = real(before.len() + after.len()) > MOST * real(n + m);
    if often || x.max(y) < least {
        return None;
    }
    let (a, b) = (in_a_row(&before), in_a_row(&after));
    // The other direction could have been as far off.
    let p = |abnormal: usize| (2.0 * tail_of_draws(abnormal, a + b, m, n + m)).min(1.0);
    Some(Episodes {
        slow: after,
        effect: y - x,
        p: p(b),
        least_p: p(a + b),
    })
}

/// How many runs of neighbours there are.
fn in_a_row(places: &[usize]) -> usize {
    let breaks = places.windows(2).filter(|w| w[1] > w[0] + 1).count();
    breaks + usize::from(!places.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times around 100 of which this share, drawn by chance, is three times as long.
    fn times(state: &mut u64, n: usize, permille: u64) -> Vec<f64> {
        let mut next = |below: u64| {
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (*state >> 33) % below
        };
        (0..n)
            .map(|_| {
                let usual = 100.0 + real(usize::try_from(next(8)).unwrap());
                if next(1000) < permille {
                    3.0 * usual
                } else {
                    usual
                }
            })
            .collect()
    }

    #[test]
    fn six_slow_cycles_of_sixty_are_no_chance_and_two_may_be() {
        let normal = vec![100.0; 60];
        let slow = |every: usize| -> Vec<f64> {
            let each = (0..60).map(|i| if i % every == 3 { 300.0 } else { 100.0 });
            each.collect()
        };
        let found = episodes(&normal, &slow(10), 1_000.0, 5.0).unwrap();
        assert_eq!(found.slow, [3, 13, 23, 33, 43, 53]);
        assert!((found.effect - 20.0).abs() < 1e-9);
        // Twice C(114, 54) / C(120, 60).
        let want: f64 = (0..6)
            .map(|i| f64::from(60 - i) / f64::from(120 - i))
            .product();
        assert!((found.p - 2.0 * want).abs() < 1e-12, "{}", found.p);
        let two = episodes(&normal, &slow(30), 1_000.0, 5.0).unwrap();
        assert!(two.p > 0.4 && two.least_p > 0.4);
        // Of both sides: no proof, but it could have been one.
        let shared = episodes(&slow(10), &slow(10), 1_000.0, 5.0).unwrap();
        assert!(shared.p > 0.9 && shared.least_p < 0.001);
        // One bad stretch is one episode, however long.
        let stretch: Vec<f64> = (0..60)
            .map(|i| if (20..30).contains(&i) { 300.0 } else { 100.0 })
            .collect();
        assert!(episodes(&normal, &stretch, 1_000.0, 5.0).unwrap().p > 0.99);
        assert!(episodes(&normal, &normal, 1_000.0, 5.0).is_none());
    }

    #[test]
    fn sides_that_are_slow_as_often_differ_no_more_often_than_stated() {
        for permille in [30, 100, 200] {
            let mut state = permille;
            let mut wrong = 0;
            for _ in 0..1_000 {
                let normal = times(&mut state, 60, permille);
                let abnormal = times(&mut state, 50, permille);
                let found = episodes(&normal, &abnormal, 1_000.0, 5.0);
                wrong += u32::from(found.is_some_and(|e| e.p <= 0.05 && e.effect > 0.0));
            }
            // One direction of two: 25 of 1000, and three deviations more.
            assert!(wrong <= 40, "{wrong} at {permille}");
        }
    }
}
