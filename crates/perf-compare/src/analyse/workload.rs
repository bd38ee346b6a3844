//! Samples of different workloads made comparable.
//!
//! When one side served larger batches, its times differ for that reason alone. Where each sample
//! says what it served, sides are compared within each workload (a stratum): every sample is moved by
//! what its workload costs more than the average, the cost of a workload being the mean of both
//! sides' means. What is left differs between the sides, not between the workloads (direct
//! standardisation; section 8.3 of the method this tool follows asks for it).

use std::collections::BTreeMap;

use crate::side::Series;
use crate::stats::mean;

/// Samples by run, after the workload's part was taken out.
pub(super) struct Adjusted {
    pub(super) runs: [Vec<Vec<f64>>; 2],
    /// Workloads that both sides served.
    pub(super) strata: usize,
    /// Samples of workloads that only one side served.
    pub(super) left_out: [usize; 2],
}

/// Adjusts both sides of one metric; `None` where a side does not say its workloads or they have none
/// in common. Values are multiplied by `scales` first. Cost: linear in the samples.
pub(super) fn adjusted(sides: [&Series; 2], scales: [f64; 2]) -> Option<Adjusted> {
    if sides.iter().any(|side| !side.has_workloads()) {
        return None;
    }
    let mut strata: BTreeMap<&str, [Vec<f64>; 2]> = BTreeMap::new();
    for (at, (side, scale)) in sides.iter().zip(scales).enumerate() {
        for (workload, value) in side.with_workloads() {
            strata.entry(workload).or_default()[at].push(value * scale);
        }
    }
    let mut left_out = [0; 2];
    strata.retain(|_, values| {
        let common = values.iter().all(|side| !side.is_empty());
        if !common {
            for (count, side) in left_out.iter_mut().zip(values.iter()) {
                *count += side.len();
            }
        }
        common
    });
    if strata.is_empty() {
        return None;
    }
    let cost = |values: &[Vec<f64>; 2]| f64::midpoint(mean(&values[0]), mean(&values[1]));
    let counts = strata
        .values()
        .map(|v| (v[0].len() + v[1].len(), cost(v)))
        .collect::<Vec<_>>();
    let all: usize = counts.iter().map(|c| c.0).sum();
    #[expect(clippy::cast_precision_loss, reason = "numbers of samples")]
    let average = counts.iter().map(|(n, c)| *n as f64 * c).sum::<f64>() / all as f64;
    let moves: BTreeMap<&str, f64> = strata
        .iter()
        .map(|(workload, values)| (*workload, average - cost(values)))
        .collect();
    let runs = [0, 1].map(|at| {
        let side = sides[at];
        side.runs
            .iter()
            .zip(&side.workloads)
            .map(|(values, workloads)| {
                values
                    .iter()
                    .zip(workloads)
                    .filter_map(|(v, w)| Some(v * scales[at] + moves.get(w.as_str())?))
                    .collect()
            })
            .collect()
    });
    Some(Adjusted {
        runs,
        strata: strata.len(),
        left_out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(samples: &[(&str, f64)]) -> Series {
        Series {
            group: String::new(),
            metric: "cycle".to_owned(),
            unit: "us".to_owned(),
            runs: vec![samples.iter().map(|s| s.1).collect()],
            workloads: vec![samples.iter().map(|s| s.0.to_owned()).collect()],
        }
    }

    #[test]
    fn only_what_differs_within_a_workload_remains() {
        // Workload b costs 100 more; the candidate is 10 slower and serves more of b.
        let one = series(&[("a", 50.0), ("a", 52.0), ("a", 48.0), ("b", 150.0)]);
        let two = series(&[
            ("b", 160.0),
            ("b", 162.0),
            ("b", 158.0),
            ("a", 60.0),
            ("c", 9.0),
        ]);
        let found = adjusted([&one, &two], [1.0, 1.0]).unwrap();
        assert_eq!((found.strata, found.left_out), (2, [0, 1]));
        let [a, b] = found.runs.map(|runs| mean(&runs[0]));
        assert!((b - a - 10.0).abs() < 1e-9, "{a} {b}");
        // Spread within a workload stays.
        let runs = adjusted([&one, &two], [1.0, 1.0]).unwrap().runs;
        assert!((runs[0][0][1] - runs[0][0][0] - 2.0).abs() < 1e-9);
    }

    #[test]
    fn without_common_workloads_nothing_is_adjusted() {
        let (one, two) = (series(&[("a", 1.0)]), series(&[("b", 2.0)]));
        assert!(adjusted([&one, &two], [1.0, 1.0]).is_none());
        let silent = Series {
            workloads: Vec::new(),
            ..one.clone()
        };
        assert!(adjusted([&one, &silent], [1.0, 1.0]).is_none());
        assert!(adjusted([&one, &one], [1.0, 1.0]).is_some());
    }
}
