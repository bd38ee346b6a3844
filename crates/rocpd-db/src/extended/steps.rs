//! Steps that become slower or faster from some time on.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::filter::{Filter, domain_of};
use crate::info::Process;
use crate::numbers::real;
use crate::records::Region;
use crate::scan::Order;
use crate::set::RocpdSet;
use crate::stats::Quantiles;

/// A marker from which on markers of its kind take another time than before.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChangePoint<'a> {
    /// The process.
    pub process: &'a Process,
    /// Row id of the first marker that takes the new time.
    pub id: i64,
    /// Its begin, ns.
    pub start_ns: i64,
    /// The kind: its message, numbers as `#`.
    pub name: String,
    /// Median from here on, ns.
    pub after_ns: f64,
    /// Median before, ns.
    pub before_ns: f64,
    /// How clear it is: difference of the medians over the spread of both sides, times the root of what the smaller
    /// side counts.
    pub score: f64,
}

/// Shorter series have no two sides worth comparing.
const MIN_STEPS: usize = 12;
/// Markers on each side, at least.
const MIN_SIDE: usize = 4;
/// A change is reported from this score on, if it is also at least a tenth of the median before.
const CHANGE_SCORE: f64 = 8.0;
/// Longer series are looked at in their first part only, so that the time stays bounded.
const MAX_STEPS: usize = 1 << 16;

/// A marker of a series: row id, begin, duration.
type Step = (i64, i64, i64);

/// The clearest change of each series of markers (same process, thread and message apart from numbers), if there is one.
///
/// The place is where the sums of ranks before and after differ most from those of a series without change (the CUSUM
/// statistic, of ranks so that an outlier is one step and no more); medians and median absolute deviations of the two sides then say whether it is one. Memory: 24 bytes a
/// marker.
///
/// # Errors
///
/// When a file is damaged.
pub fn change_points<'a>(set: &'a RocpdSet, filter: &'a Filter) -> Result<Vec<ChangePoint<'a>>> {
    let mut out = Vec::new();
    for partition in 0..set.partitions().len() {
        let mut series: BTreeMap<(i64, i64, String), (&'a Process, Vec<Step>)> = BTreeMap::new();
        for region in set.scan_partition::<Region<'_>>(partition, filter, Order::Start)? {
            let r = region?;
            if domain_of(r.category()) != "MARKER" {
                continue;
            }
            let thread = r.thread.map_or(i64::MIN, |thread| thread.id);
            let name = kind_of(r.shown_name().unwrap_or("<none>"));
            let (_, steps) = series
                .entry((r.process.id, thread, name))
                .or_insert_with(|| (r.process, Vec::new()));
            if steps.len() < MAX_STEPS {
                steps.push((r.id, r.start_ns, r.duration_ns()));
            }
        }
        for ((_, _, name), (process, steps)) in series {
            if let Some(found) = clearest(process, name, &steps) {
                out.push(found);
            }
        }
    }
    Ok(out)
}

/// The message with every number as `#`.
fn kind_of(message: &str) -> String {
    let mut kind = String::with_capacity(message.len());
    for c in message.chars() {
        match c.is_ascii_digit() {
            false => kind.push(c),
            true if !kind.ends_with('#') => kind.push('#'),
            true => {}
        }
    }
    kind
}

/// Twice the rank of each step's duration; equal ones share their mean rank.
fn ranks(steps: &[Step]) -> Vec<i128> {
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|&at| steps[at].2);
    let mut ranks = vec![0; steps.len()];
    let mut from = 0;
    for tie in order.chunk_by(|&a, &b| steps[a].2 == steps[b].2) {
        let twice_the_mean = (2 * from + tie.len() - 1) as i128;
        for &at in tie {
            ranks[at] = twice_the_mean;
        }
        from += tie.len();
    }
    ranks
}

fn clearest<'a>(process: &'a Process, name: String, steps: &[Step]) -> Option<ChangePoint<'a>> {
    if steps.len() < MIN_STEPS {
        return None;
    }
    let count = i128::try_from(steps.len()).ok()?;
    let ranks = ranks(steps);
    let total: i128 = ranks.iter().sum();
    let mut sum = 0_i128;
    let mut best = (0.0, 0);
    for (at, rank) in ranks.iter().enumerate() {
        if (MIN_SIDE..=steps.len() - MIN_SIDE).contains(&at) {
            let before = i128::try_from(at).ok()?;
            let off = crate::numbers::real_i128((sum * count - before * total).abs());
            let weight = (crate::numbers::real_i128(before * (count - before))).sqrt();
            if off / weight > best.0 {
                best = (off / weight, at);
            }
        }
        sum += rank;
    }
    let (first, second) = steps.split_at_checked(best.1)?;
    let side = |steps: &[Step]| {
        let mut durations: Vec<i64> = steps.iter().map(|step| step.2).collect();
        Quantiles::of(&mut durations)
    };
    let (id, start_ns, _) = *second.first()?;
    if first.is_empty() {
        return None;
    }
    let (before, after) = (side(first), side(second));
    let difference = (after.p50_ns - before.p50_ns).abs();
    let spread = 1.4826 * before.mad_ns.max(after.mad_ns);
    let spread = spread.max(before.p50_ns * 0.01).max(1.0);
    let smaller = i64::try_from(first.len().min(second.len())).ok()?;
    let score = difference / spread * real(smaller).sqrt();
    (score >= CHANGE_SCORE && difference >= 0.1 * before.p50_ns).then_some(ChangePoint {
        process,
        id,
        start_ns,
        name,
        after_ns: after.p50_ns,
        before_ns: before.p50_ns,
        score,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(durations: impl Iterator<Item = i64>) -> Vec<Step> {
        (0..)
            .zip(durations)
            .map(|(id, duration)| (id, id * 1_000, duration))
            .collect()
    }

    #[test]
    fn a_step_that_becomes_slower_is_found_where_it_does() {
        let process = Process::default();
        // Around 1000, from the 20th on around 1300, with one outlier.
        let noise = [0, 12, -9, 4, -13, 7];
        let steps = series((0..40).map(|at| {
            let level = if at < 20 { 1_000 } else { 1_300 };
            let outlier = if at == 7 { 5_000 } else { 0 };
            level + outlier + noise[at % noise.len()]
        }));
        let found = clearest(&process, "step #".to_owned(), &steps).map(|found| found.id);
        assert_eq!(found, Some(20));
    }

    #[test]
    fn noise_and_outliers_are_no_change() {
        let process = Process::default();
        let steps = series((0..40).map(|at: i64| 1_000 + at * 37 % 50));
        assert!(clearest(&process, String::new(), &steps).is_none());
        let steps = series((0..40).map(|at: i64| if at % 9 == 5 { 9_000 } else { 1_000 }));
        assert!(clearest(&process, String::new(), &steps).is_none());
        assert!(clearest(&process, String::new(), &series(0..11)).is_none());
    }

    #[test]
    fn numbers_do_not_tell_kinds_apart() {
        assert_eq!(kind_of("step 12 of 400"), "step # of #");
        assert_eq!(kind_of("forward"), "forward");
    }
}
