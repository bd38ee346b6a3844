//! Where periods of known length begin.

use std::collections::BTreeMap;

use crate::num::real;

/// The times, µs and ascending, at which periods begin, among events `(time, name)` of a stretch that
/// lasts `span`.
pub(super) fn seeds(list: &[(f64, u32)], period: f64, span: f64) -> Vec<f64> {
    by_count(list, period, span).unwrap_or_else(|| by_density(list, period))
}

/// All events of a name that recurs once in a period, or once in two or three.
fn by_count(list: &[(f64, u32)], period: f64, span: f64) -> Option<Vec<f64>> {
    let expected = span / period;
    let mut times: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for &(ts, name) in list {
        times.entry(name).or_default().push(ts);
    }
    let off = |t: &[f64]| (real(t.len()) - expected).abs();
    let least = times.values().map(|t| off(t)).fold(f64::INFINITY, f64::min);
    let followers = |t: &[f64]| {
        let first = t.first().copied().unwrap_or(0.0);
        let from = list.partition_point(|e| e.0 < first);
        let to = list.partition_point(|e| e.0 <= first + 0.1 * period);
        to - from
    };
    let mut best: Option<(usize, &Vec<f64>)> = None;
    for t in times.values().filter(|t| off(t) <= least) {
        let n = followers(t);
        if best.is_none_or(|b| n > b.0) {
            best = Some((n, t));
        }
    }
    let times = best?.1;
    let count = real(times.len());
    let room = (0.05 * expected).max(2.0);
    let fits = (0.85 * expected..=1.15 * expected).contains(&count)
        || (count - expected / 2.0).abs() < room
        || (count - expected / 3.0).abs() < room;
    fits.then(|| times.clone())
}

/// From the densest event near the steepest rise of density, in steps of a period both ways.
fn by_density(list: &[(f64, u32)], period: f64) -> Vec<f64> {
    let (Some(&(first, _)), Some(&(last, _))) = (list.first(), list.last()) else {
        return Vec::new();
    };
    let window = list.partition_point(|e| e.0 <= first + 3.0 * period);
    let head = &list[..window.max(50).min(list.len())];
    let density: Vec<usize> = head
        .iter()
        .map(|e| {
            let from = list.partition_point(|x| x.0 < e.0);
            list.partition_point(|x| x.0 <= e.0 + 0.1 * period) - from
        })
        .collect();
    let smooth: Vec<f64> = density
        .windows(5.min(density.len()))
        .map(|w| real(w.iter().sum()) / real(w.len()))
        .collect();
    let mut rise = (f64::NEG_INFINITY, 0);
    for (i, w) in smooth.windows(2).enumerate() {
        if w[1] - w[0] > rise.0 {
            rise = (w[1] - w[0], i + 1);
        }
    }
    // The middle of the window of five.
    let middle = head.get(rise.1 + 2).map_or(first, |e| e.0);
    let mut start = (0, middle);
    for (e, n) in head.iter().zip(&density) {
        if (e.0 - middle).abs() <= 0.5 * period && *n > start.0 {
            start = (*n, e.0);
        }
    }
    let nearest = |at: f64| {
        let i = list.partition_point(|e| e.0 < at);
        let near = [i.checked_sub(1), Some(i)].into_iter().flatten();
        near.filter_map(|i| list.get(i))
            .map(|e| e.0)
            .filter(|t| (t - at).abs() <= 0.25 * period)
            .min_by(|a, b| (a - at).abs().total_cmp(&(b - at).abs()))
    };
    let mut seeds = vec![start.1];
    for step in [-period, period] {
        let mut at = start.1 + step;
        while at >= first - 0.25 * period && at <= last + 0.25 * period {
            match nearest(at) {
                Some(found) => {
                    seeds.push(found);
                    at = found + step;
                }
                // Blindly over what is missing.
                None => at += step,
            }
        }
    }
    seeds.sort_by(f64::total_cmp);
    seeds.dedup();
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_without_a_name_of_their_own_are_stepped_through() {
        // Twenty events of one name at the head of each period of 1000 µs; the fifth burst is missing.
        let mut list = Vec::new();
        for i in (0..30).filter(|i| *i != 5) {
            for k in 0..20 {
                list.push((1000.0 * real(i) + 4.0 * real(k), 0));
            }
        }
        let found = seeds(&list, 1000.0, 29_080.0);
        assert_eq!(found.len(), 29, "{found:?}");
        assert!(found.iter().all(|t| t % 1000.0 < 80.0), "{found:?}");
    }

    #[test]
    fn a_name_once_a_period_is_taken_whole() {
        let mut list = Vec::new();
        for i in 0..40 {
            list.push((500.0 * real(i), 3));
            list.push((500.0 * real(i) + 10.0, 4));
            list.push((500.0 * real(i) + 250.0, 4));
        }
        let found = seeds(&list, 500.0, 20_000.0);
        assert_eq!(found.len(), 40);
        assert!((found[7] - 3500.0).abs() < 1e-9);
    }
}
