//! Calls of a function that are far slower than its others: an average over all calls of a name hides that it is one of many.

use std::collections::BTreeMap;

use crate::document::SlowCalls;
use crate::stats::median;

/// Fewest calls per cycle of which some can be few.
const FEWEST: f64 = 3.0;
/// Factor that the longest call grows by at least.
const SLOWER: f64 = 1.5;
/// Part of the calls that are slow at most.
const FEW: f64 = 0.4;
/// The shortest call, and the number of calls, differ by no more than this part.
const SAME: f64 = 0.12;
/// Part of the cycles in which the longest call is at the same place for it to be named.
const MOST: f64 = 0.6;

/// What the calls of a function took on one side, by cycle.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    pub(super) durs: Vec<f64>,
    pub(super) calls: Vec<f64>,
    pub(super) shortest: Vec<f64>,
    pub(super) longest: Vec<f64>,
    /// Which call is the longest, from 1.
    pub(super) place: Vec<f64>,
}

/// Typical times of a cycle on one side.
struct Typical {
    calls: f64,
    total: f64,
    shortest: f64,
    longest: f64,
}

impl Calls {
    /// `None` where no cycle states single calls.
    fn typical(&self) -> Option<Typical> {
        let known = |values: &[f64]| {
            let known: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
            (!known.is_empty()).then(|| median(&known))
        };
        Some(Typical {
            calls: known(&self.calls)?,
            total: known(&self.durs)?,
            shortest: known(&self.shortest)?,
            longest: known(&self.longest)?,
        })
    }

    /// The place of the longest call, if it is the same in most cycles.
    fn place(&self) -> Option<usize> {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for place in self.place.iter().filter(|place| **place >= 1.0) {
            *counts.entry(place.to_bits()).or_default() += 1;
        }
        let (place, n) = counts.into_iter().max_by_key(|(_, n)| *n)?;
        let is_most = n as f64 >= MOST * self.place.len() as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "numbers of calls in a cycle"
        )]
        let place = f64::from_bits(place) as usize;
        is_most.then_some(place)
    }
}

/// Returns how many calls of a cycle are slower than the others on the side that takes longer, if these are few and the rest is as
/// long as on the other side. What one slow call took there is what is left when the others are taken to be as before.
pub(super) fn slow_calls(sides: [&Calls; 2]) -> Option<SlowCalls> {
    let [one, two] = [sides[0].typical()?, sides[1].typical()?];
    let slower_in_candidate = two.total >= one.total;
    let (usual, slow, side) = match slower_in_candidate {
        true => (one, two, sides[1]),
        false => (two, one, sides[0]),
    };
    let is_same = |a: f64, b: f64| (b / a - 1.0).abs() <= SAME;
    if usual.calls < FEWEST || !is_same(usual.calls, slow.calls) {
        return None;
    }
    if slow.longest < SLOWER * usual.longest || !is_same(usual.shortest, slow.shortest) {
        return None;
    }
    let excess = slow.total - usual.total;
    let each = usual.total / usual.calls;
    let count = (excess / (slow.longest - each)).round().max(1.0);
    // A single slow call took before what is left without the excess.
    let before = match count {
        1.0 => slow.longest - excess,
        _ => each,
    };
    if count > FEW * slow.calls || before < 0.5 * usual.shortest || before * SLOWER > slow.longest {
        return None;
    }
    let times = [before, slow.longest];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers of calls in a cycle"
    )]
    let [calls, slower] = [slow.calls.round(), count].map(|n| n as usize);
    Some(SlowCalls {
        slower,
        calls,
        place: side.place().filter(|_| slower == 1),
        us: match slower_in_candidate {
            true => times,
            false => [times[1], times[0]],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(each: &[f64], cycles: usize) -> Calls {
        let place = each.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let place = place.map_or(f64::NAN, |(at, _)| at as f64 + 1.0);
        let of = |x: f64| vec![x; cycles];
        Calls {
            durs: of(each.iter().sum()),
            calls: of(each.len() as f64),
            shortest: of(each.iter().copied().fold(f64::INFINITY, f64::min)),
            longest: of(each.iter().copied().fold(0.0, f64::max)),
            place: of(place),
        }
    }

    #[test]
    fn one_of_many_and_which() {
        let before = calls(&[10.0, 10.1, 9.9, 10.0, 10.0, 10.0], 20);
        let after = calls(&[10.0, 10.1, 9.9, 70.0, 10.0, 10.0], 20);
        let found = slow_calls([&before, &after]).unwrap();
        assert_eq!((found.slower, found.calls, found.place), (1, 6, Some(4)));
        assert!((found.us[1] / found.us[0] - 7.0).abs() < 0.01, "{found:?}");
        let back = slow_calls([&after, &before]).unwrap();
        assert!(back.us[0] > 6.9 * back.us[1]);
        // Two of them; all of them; none; other numbers of calls.
        let two = calls(&[10.0, 70.0, 9.9, 70.0, 10.0, 10.0], 20);
        let found = slow_calls([&before, &two]).unwrap();
        assert_eq!((found.slower, found.place), (2, None));
        let all = calls(&[20.0; 6], 20);
        assert!(slow_calls([&before, &all]).is_none());
        assert!(slow_calls([&before, &before]).is_none());
        let more = calls(&[10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 70.0], 20);
        assert!(slow_calls([&before, &more]).is_none());
        assert!(slow_calls([&Calls::default(), &after]).is_none());
    }
}
