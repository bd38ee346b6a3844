//! Times of steps and of their parts, given as numbers instead of files.

use super::{Options, pauses, samples};
use crate::document::Finding;
use crate::side::{Series, Side};

/// Times of one thing on both sides, in nanoseconds and in the order of time: one for each step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    /// Baseline and candidate.
    pub ns: [Vec<f64>; 2],
    /// What each step served, in the shape of `ns`; empty where it is not known. Steps are then compared within what they served.
    pub served: [Vec<String>; 2],
}

/// Compares times that are tested together, as samples of metrics are: the same tests, intervals and statements. Returns one row
/// for each of `times`, in their order and in nanoseconds, and remarks.
///
/// Cost: proportional to permutations × steps × rows.
///
/// ```
/// use perf_compare::{Options, Times, compare_times};
///
/// let around = |middle: f64| (0..20).map(|n| middle + f64::from(n % 3)).collect();
/// let times = Times { ns: [around(100.0), around(140.0)], ..Times::default() };
/// let (rows, _) = compare_times(&[times], &Options::default());
/// assert!((rows[0].effect.delta - 40.0).abs() < 1e-9);
/// assert!(rows[0].q.is_some_and(|q| q < 0.01));
/// ```
#[must_use]
pub fn compare_times(times: &[Times], options: &Options) -> (Vec<Finding>, Vec<String>) {
    let side = |at: usize| Side {
        series: times
            .iter()
            .enumerate()
            .map(|(number, times)| Series {
                group: String::new(),
                metric: number.to_string(),
                unit: "ns".to_owned(),
                runs: vec![times.ns[at].clone()],
                workloads: match times.served[at].len() == times.ns[at].len() {
                    true => vec![times.served[at].clone()],
                    false => Vec::new(),
                },
            })
            .collect(),
        ..Side::default()
    };
    let inferred = samples::compare(&side(0), &side(1), options);
    let mut rows = inferred.findings;
    rows.sort_by_key(|row| row.name.parse::<usize>().unwrap_or(usize::MAX));
    let is_of_first = |note: &String| note.starts_with("0: ");
    let notes = inferred.notes.into_iter().filter(is_of_first);
    // What holds of the first row holds of all: they are of the same steps.
    let notes = notes.map(|note| note.trim_start_matches("0: ").to_owned());
    (rows, notes.collect())
}

/// Probability that by chance at least as many of the slow steps of both sides are on the side that has more of them for its size:
/// Fisher's exact test. `slow` and `of` are numbers of slow and of all steps, baseline first.
#[must_use]
pub fn slow_steps_by_chance(slow: [usize; 2], of: [usize; 2]) -> f64 {
    let more = usize::from(slow[1] * of[0] >= slow[0] * of[1]);
    pauses::by_chance(slow[more], slow[0] + slow[1], of[more], of[1 - more])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Statement;

    /// Values without memory around a middle.
    fn noise(middle: f64, spread: f64, n: u32) -> Vec<f64> {
        let one = |at: u32| f64::from(at.wrapping_mul(2_654_435_761) >> 16) / 65_536.0 - 0.5;
        (1..=n).map(|at| middle + spread * one(at)).collect()
    }

    #[test]
    fn rows_stay_in_order_and_only_what_changed_is_declared() {
        let step = noise(1e6, 2e4, 40);
        let slower: Vec<f64> = step.iter().rev().map(|ns| ns + 1e5).collect();
        let mut all = Vec::new();
        for n in 0..12 {
            let (one, two) = (
                noise(f64::from(n + 1) * 1e4, 500.0, 40),
                noise(f64::from(n + 1) * 1e4, 700.0, 41),
            );
            all.push(Times {
                ns: [one, two],
                ..Times::default()
            });
        }
        all.insert(
            11,
            Times {
                ns: [step, slower],
                ..Times::default()
            },
        );
        let (rows, notes) = compare_times(&all, &Options::default());
        assert!(notes.is_empty());
        for (at, row) in rows.iter().enumerate() {
            assert_eq!(row.verdict == Statement::Changed, at == 11, "{at}: {row:?}");
        }
        let [low, high] = rows[11].effect.interval.unwrap();
        assert!(low < 1e5 && 1e5 < high, "{low} {high}");
    }

    #[test]
    fn what_the_steps_served_is_no_difference() {
        // Steps of 8 requests cost 500 more, and the candidate has more of them.
        let side = |large: u32| -> (Vec<f64>, Vec<String>) {
            let each = (0..30).map(|n| {
                let is_large = n % 3 < large;
                let ns = 1_000.0 + f64::from(n % 7) + if is_large { 500.0 } else { 0.0 };
                (ns, if is_large { "8" } else { "4" }.to_owned())
            });
            each.unzip()
        };
        let ((a, served_a), (b, served_b)) = (side(1), side(2));
        let times = Times {
            ns: [a, b],
            served: [served_a, served_b],
        };
        let bare = Times {
            served: Default::default(),
            ..times.clone()
        };
        let (rows, notes) = compare_times(&[times], &Options::default());
        assert!(rows[0].effect.delta.abs() < 2.0, "{:?}", rows[0].effect);
        assert_eq!(notes, ["compared within 2 workloads"]);
        let (rows, _) = compare_times(&[bare], &Options::default());
        assert!(rows[0].effect.delta > 150.0);
    }

    #[test]
    fn few_slow_steps_may_be_chance() {
        // 2 of 16 and none of 16: C(16, 2) / C(32, 2).
        assert!((slow_steps_by_chance([0, 2], [16, 16]) - 120.0 / 496.0).abs() < 1e-12);
        assert!((slow_steps_by_chance([2, 0], [16, 16]) - 120.0 / 496.0).abs() < 1e-12);
        assert!(slow_steps_by_chance([0, 9], [40, 40]) < 0.01);
    }
}
