//! The period of work that comes in bursts, without knowing what the work is.

use trace_model::StrId;

use crate::num::{median, quantile, real, span};

/// Where bursts of `(start, end, name)` in order of start begin; none if there is no rhythm.
///
/// Two ways, the steadier one wins: a name that occurs once a burst, found as the rarest name whose
/// distances in the sequence hardly vary; and pauses that stand out, found as the widest jump, as a
/// factor, in the sorted list of pauses. There is no shortest period.
pub fn bursts(list: &[(i64, i64, StrId)]) -> Option<Vec<i64>> {
    if list.len() < 8 {
        return None;
    }
    let by_pause = pauses(list);
    let by_name = rare_name(list);
    let score = |starts: &Option<Vec<i64>>, q: f64| match starts {
        Some(s) if s.len() >= 3 => unsteadiness(s, q),
        _ => f64::INFINITY,
    };
    // A pause inside of each burst halves them: then every other distance is short, which a middle one does not show.
    let (a, b) = (score(&by_pause, MOST), score(&by_name, MOST));
    let best = if a <= b { by_pause } else { by_name };
    best.filter(|starts| starts.len() >= 3 && unsteadiness(starts, 0.5) < 0.5)
}

/// Share of the distances that two ways to divide are compared by: a few stalls are left out.
const MOST: f64 = 0.75;

/// Deviation of the distances from their median over that, at the quantile `q`.
fn unsteadiness(starts: &[i64], q: f64) -> f64 {
    let gaps: Vec<f64> = starts.windows(2).map(|w| span(w[1] - w[0])).collect();
    let middle = median(&gaps);
    if middle <= 0.0 {
        return f64::INFINITY;
    }
    let deviations: Vec<f64> = gaps.iter().map(|g| (g - middle).abs()).collect();
    quantile(&deviations, q) / middle
}

fn pauses(list: &[(i64, i64, StrId)]) -> Option<Vec<i64>> {
    let mut end = list.first()?.1;
    let mut gaps: Vec<(i64, i64)> = Vec::new();
    for &(ts, e, _) in &list[1..] {
        gaps.push(((ts - end).max(0), ts));
        end = end.max(e);
    }
    let mut sorted: Vec<i64> = gaps.iter().map(|g| g.0).collect();
    sorted.sort_unstable();
    // At least two pauses above the jump, at most half of all.
    let from = sorted.len() / 2;
    let to = sorted.len().checked_sub(2)?;
    let mut widest = (0.0, i64::MAX);
    for i in from..=to {
        let (low, high) = (sorted[i.checked_sub(1)?].max(1000), sorted[i]);
        let factor = span(high) / span(low);
        if factor > widest.0 {
            widest = (factor, high);
        }
    }
    if widest.0 < 1.8 {
        return None;
    }
    let mut starts = vec![list.first()?.0];
    starts.extend(gaps.iter().filter(|g| g.0 >= widest.1).map(|g| g.1));
    Some(starts)
}

fn rare_name(list: &[(i64, i64, StrId)]) -> Option<Vec<i64>> {
    let mut places: std::collections::BTreeMap<StrId, Vec<usize>> =
        std::collections::BTreeMap::new();
    for (i, (_, _, name)) in list.iter().enumerate() {
        places.entry(*name).or_default().push(i);
    }
    let mut names: Vec<&Vec<usize>> = places.values().filter(|p| p.len() >= 3).collect();
    names.sort_by_key(|p| (p.len(), p.first().copied()));
    let best = names.into_iter().find(|p| {
        let gaps: Vec<f64> = p.windows(2).map(|w| real(w[1] - w[0])).collect();
        let middle = median(&gaps);
        let close = gaps.iter().filter(|g| (*g - middle).abs() <= 0.1 * middle);
        middle >= 4.0
            && real(close.count()) >= 0.8 * real(gaps.len())
            && middle * real(p.len()) >= 0.8 * real(list.len())
    })?;
    // The burst begins behind the widest pause before its mark.
    Some(best.iter().map(|&i| list[i].0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(i: usize) -> StrId {
        StrId::new(i).unwrap()
    }

    #[test]
    fn pauses_show_a_period_of_eight_milliseconds() {
        let mut list = Vec::new();
        for step in 0..100_i64 {
            for k in 0..32_i64 {
                let ts = step * 8_000_000 + k * 200_000 + (step * k) % 7_000;
                list.push((ts, ts + 190_000, name(usize::try_from(k % 4).unwrap())));
            }
        }
        let starts = bursts(&list).unwrap();
        assert_eq!(starts.len(), 100);
        assert_eq!(starts[50], 50 * 8_000_000);
    }

    #[test]
    fn a_pause_inside_of_each_burst_does_not_halve_it() {
        let mut list = Vec::new();
        for step in 0..12_i64 {
            let at = step * 900_000 + step * step * 37 % 11 * 10_000;
            list.push((at, at + 8_000, name(9)));
            for k in 0..10_i64 {
                let ts = at + 100_000 + k * 32_000;
                list.push((ts, ts + 30_000, name(usize::try_from(k % 4).unwrap())));
            }
        }
        let starts = bursts(&list).unwrap();
        let truth: Vec<i64> = list
            .iter()
            .filter(|work| work.2 == name(9))
            .map(|work| work.0)
            .collect();
        assert_eq!(starts, truth);
    }

    #[test]
    fn a_mark_is_found_where_there_are_no_pauses() {
        let list: Vec<(i64, i64, StrId)> = (0..400_i64)
            .map(|i| {
                let kind = if i % 20 == 0 { 9 } else { i % 5 };
                (
                    i * 1000,
                    i * 1000 + 1000,
                    name(usize::try_from(kind).unwrap()),
                )
            })
            .collect();
        assert_eq!(bursts(&list).unwrap().len(), 20);
    }
}
