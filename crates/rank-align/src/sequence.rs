//! Aligns the collectives of one rank with those of others if pieces are missing at the beginning,
//! in the middle and at the end, and clocks differ by any amount.
//!
//! Two recordings of the same collectives are certain to share only their rhythm: the times between
//! ends. A few ends of the rank are compared with all ends of the others; the offset on which most
//! pairs agree is a candidate, and from a pair with this offset the match grows in both directions,
//! following the drift of the clocks.

use crate::real::{count, median, real};

/// Properties that must agree for two runs to be one collective; unknown ones agree with
/// everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Token {
    /// Operation, by number.
    pub(crate) op: Option<u8>,
    /// Number of input elements.
    pub(crate) elements: Option<u64>,
    /// Sequence number and the number of its earlier occurrences.
    pub(crate) seq: Option<(i64, u32)>,
    /// Kernel name without templates, by number; compared only if neither side has more
    /// information.
    pub(crate) stem: u32,
}

impl Token {
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        fn may<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            a.zip(b).is_none_or(|(a, b)| a == b)
        }
        if self.seq.is_some() && other.seq.is_some() {
            return self.seq == other.seq && may(self.op, other.op);
        }
        let bare = |t: &Self| t.elements.is_none() && t.seq.is_none();
        may(self.op, other.op)
            && may(self.elements, other.elements)
            && (!(bare(self) && bare(other)) || self.stem == other.stem)
    }
}

/// One end of a collective on one clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beat {
    pub(crate) end_ns: i64,
    pub(crate) token: Token,
}

/// Pairs of indices (in the first list, in the second), ascending in the second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matching {
    pub(crate) pairs: Vec<(usize, usize)>,
    /// `true` if another alignment was nearly as good.
    pub(crate) ambiguous: bool,
}

/// Number of ends, spread over the second list, that are compared with all of the first.
const PROBES: usize = 32;
/// Number of adjacent ends that are compared with all of the first, at three places.
const BLOCK: usize = 20;
/// Number of offsets that are tried for each set of ends.
const CANDIDATES: usize = 4;
/// Tolerance of votes of spread ends, in nanoseconds: within it, plus a 10,000th of the span for
/// clocks of different speed, they count for one offset.
const WIDE: i64 = 50_000;
/// Tolerance of votes of adjacent ends, in nanoseconds.
const NARROW: i64 = 2_000;
/// Tolerance of votes for candidates that only the noise of the ends distinguishes, in nanoseconds.
const FINE: i64 = 200;
/// Minimum difference of the ends of one collective, in nanoseconds: timestamps are no finer.
const FINEST: i64 = 100;
/// Cost of an end without a partner between two pairs, as a negative logarithm of a likelihood.
const LOST: f64 = 8.0;
/// Excess cost that refutes a join against another one: a likelihood ratio of a million.
const CERTAIN: f64 = 14.0;
/// Maximum number of steps for all shifts by a whole number of ends together.
const SHIFT_STEPS: usize = 60_000;
/// Maximum difference of the ends of one collective after clock alignment, in nanoseconds.
const FARTHEST: i64 = 5_000_000;

/// Aligns `b` with `a`, both in ascending time. Numbered runs are joined by their numbers, the
/// others by rhythm. Cost: n log n, with the constants above.
pub(crate) fn align(a: &[Beat], b: &[Beat]) -> Matching {
    if a.is_empty() || b.is_empty() {
        return Matching::default();
    }
    let anchors = numbered(a, b);
    if !anchors.is_empty() {
        let pairs = grow(a, b, &anchors);
        return Matching {
            pairs,
            ambiguous: false,
        };
    }
    let mut tried: Vec<Vec<(usize, usize)>> = Vec::new();
    for seed in seeds(a, b) {
        let pairs = grow(a, b, &[seed]);
        if !pairs.is_empty() && !tried.contains(&pairs) {
            tried.push(pairs);
        }
    }
    choose(a, b, tried)
}

/// Selects the join that pairs most ends, except joins that another one refutes
/// ([`Join::refutes`]); of equally large ones the one with the smallest offset. Near agreement of
/// the clocks does not count otherwise: among joins that differ by whole periods one is always near
/// zero.
fn choose(a: &[Beat], b: &[Beat], mut tried: Vec<Vec<(usize, usize)>>) -> Matching {
    let most = tried.iter().map(Vec::len).max().unwrap_or(0);
    // Smaller joins overlap too little to compare residuals.
    tried.retain(|pairs| pairs.len() * 10 >= most * 3);
    let steps = |pairs: &[(usize, usize)]| -> Vec<i64> {
        let offsets: Vec<i64> = pairs.iter().map(|p| offset(a, b, *p)).collect();
        let step = |w: &[i64]| match w {
            [x, y] => y.saturating_sub(*x).saturating_abs(),
            _ => 0,
        };
        offsets.windows(2).map(step).collect()
    };
    let noise = tried.iter().filter_map(|pairs| median(steps(pairs))).min();
    let scale = noise.unwrap_or(0).max(FINEST);
    let joins: Vec<Join> = tried
        .into_iter()
        .map(|pairs| Join::new(a, b, pairs, scale))
        .collect();
    let mut possible: Vec<&Join> = joins
        .iter()
        .filter(|join| !joins.iter().any(|other| other.refutes(join)))
        .collect();
    possible.sort_by_cached_key(|join| {
        let offsets = join.pairs.iter().map(|p| offset(a, b, *p)).collect();
        let distance = median(offsets).map(i64::saturating_abs);
        (std::cmp::Reverse(join.pairs.len()), distance)
    });
    Matching {
        ambiguous: possible.len() > 1,
        pairs: possible
            .first()
            .map_or_else(Vec::new, |join| join.pairs.clone()),
    }
}

/// A join with its costs.
struct Join {
    pairs: Vec<(usize, usize)>,
    /// Indices in the second list from the first pair to the last.
    range: std::ops::Range<usize>,
    /// Sums of costs before each index of `range`, and before its end: the negative logarithm of a
    /// Cauchy density for each change of the offset between neighbouring pairs, which a few large
    /// ones do not dominate, and [`LOST`] for each end without a partner.
    costs: Vec<f64>,
}

impl Join {
    fn new(a: &[Beat], b: &[Beat], pairs: Vec<(usize, usize)>, scale: i64) -> Self {
        let first = pairs.first().map_or(0, |p| p.1);
        let end = pairs.last().map_or(0, |p| p.1 + 1);
        let mut costs = Vec::with_capacity(end - first + 1);
        costs.push(0.0);
        let mut sum = 0.0;
        for (k, &(i, j)) in pairs.iter().enumerate() {
            if let Some(&before) = k.checked_sub(1).and_then(|k| pairs.get(k)) {
                let lost = (j - before.1 - 1) + i.abs_diff(before.0).saturating_sub(1);
                let step = offset(a, b, (i, j)).saturating_sub(offset(a, b, before));
                let relative = real(step) / real(scale);
                while costs.len() <= j - first {
                    costs.push(sum);
                }
                sum += relative.mul_add(relative, 1.0).ln() + LOST * count(lost);
            }
            costs.push(sum);
        }
        Self {
            pairs,
            range: first..end,
            costs,
        }
    }

    fn cost(&self, range: &std::ops::Range<usize>) -> f64 {
        let before = |j: usize| {
            let at = j.saturating_sub(self.range.start);
            self.costs.get(at).copied().unwrap_or(0.0)
        };
        // The first index has no step within the range.
        before(range.end) - before(range.start + 1)
    }

    /// Returns `true` if this join costs so much less than `other` over the ends that both join
    /// that chance does not explain it.
    fn refutes(&self, other: &Self) -> bool {
        let common = self.range.start.max(other.range.start)..self.range.end.min(other.range.end);
        common.len() > 2 && other.cost(&common) - self.cost(&common) > CERTAIN
    }
}

fn offset(a: &[Beat], b: &[Beat], (i, j): (usize, usize)) -> i64 {
    match (a.get(i), b.get(j)) {
        (Some(x), Some(y)) => y.end_ns.saturating_sub(x.end_ns),
        _ => 0,
    }
}

/// Returns the pairs with equal sequence numbers.
fn numbered(a: &[Beat], b: &[Beat]) -> Vec<(usize, usize)> {
    let mut by_number: Vec<((i64, u32), usize)> = a
        .iter()
        .enumerate()
        .filter_map(|(i, x)| Some((x.token.seq?, i)))
        .collect();
    by_number.sort_unstable();
    b.iter()
        .enumerate()
        .filter_map(|(j, y)| {
            let seq = y.token.seq?;
            let from = by_number.partition_point(|n| n.0 < seq);
            let same = by_number.iter().skip(from).take_while(|n| n.0 == seq);
            same.map(|n| n.1)
                .find(|i| a.get(*i).is_some_and(|x| x.token.agrees(&y.token)))
                .map(|i| (i, j))
        })
        .collect()
}

/// Returns the pairs that agree with many others on the offset of the clocks, each once.
fn seeds(a: &[Beat], b: &[Beat]) -> Vec<(usize, usize)> {
    let mut out: Vec<(usize, usize)> = Vec::new();
    let mut add = |seed: (usize, usize)| {
        if !out.contains(&seed) {
            out.push(seed);
        }
    };
    // Adjacent ends: clocks cannot have drifted, so that equal offsets are really equal.
    for quarter in 1..4 {
        let from = (b.len() * quarter / 4).saturating_sub(BLOCK / 2);
        let votes = votes(a, b, from..(from + BLOCK).min(b.len()));
        popular(&votes, NARROW).for_each(&mut add);
        popular(&votes, FINE).for_each(&mut add);
    }
    // Spread ends: a repeating rhythm may differ elsewhere.
    let step = b.len().div_ceil(PROBES);
    let votes = votes(a, b, (step / 2..b.len()).step_by(step));
    let span = |l: &[Beat]| match (l.first(), l.last()) {
        (Some(first), Some(last)) => last.end_ns.saturating_sub(first.end_ns),
        _ => 0,
    };
    popular(&votes, WIDE + span(a).min(span(b)) / 10_000).for_each(&mut add);
    // The offset of the clocks themselves, and equal indices counted from the beginning and from
    // the end.
    if let Some(near) = votes.iter().min_by_key(|v| v.0.saturating_abs()) {
        add((near.1, near.2));
    }
    let shortest = a.len().min(b.len());
    let same_place = [
        (shortest / 2, shortest / 2),
        (a.len() - 1 - shortest / 2, b.len() - 1 - shortest / 2),
    ];
    // All shifts from there, as far as time allows: in a regular job each of them gets equally many
    // votes.
    let shifts = (SHIFT_STEPS / b.len()).min(a.len() + b.len()) / 4;
    for shift in 0..=shifts {
        for (i, j) in same_place {
            for (i, j) in [
                (i.checked_sub(shift), Some(j)),
                (Some(i), j.checked_sub(shift)),
            ] {
                // The nearest index from which both continue alike.
                let agreeing = i.zip(j).and_then(|(i, j)| {
                    (0..8).map(|k| (i + k, j + k)).find(|(i, j)| {
                        let both = a.get(*i).zip(b.get(*j));
                        both.is_some_and(|(x, y)| x.token.agrees(&y.token))
                    })
                });
                agreeing.into_iter().for_each(&mut add);
            }
        }
    }
    out
}

/// Returns the offsets of some ends of `b` to all of `a`, ascending, with the indices.
fn votes(a: &[Beat], b: &[Beat], probes: impl Iterator<Item = usize>) -> Vec<(i64, usize, usize)> {
    let mut votes: Vec<(i64, usize, usize)> = Vec::new();
    for j in probes {
        let Some(y) = b.get(j) else { continue };
        for (i, x) in a.iter().enumerate() {
            if x.token.agrees(&y.token) {
                votes.push((y.end_ns.saturating_sub(x.end_ns), i, j));
            }
        }
    }
    votes.sort_unstable();
    votes
}

/// Returns a pair for each of the offsets with most votes within `width`, most votes first.
fn popular(votes: &[(i64, usize, usize)], width: i64) -> impl Iterator<Item = (usize, usize)> {
    // Windows of offsets as (votes, first, last).
    let mut windows: Vec<(usize, usize, usize)> = Vec::with_capacity(votes.len());
    let mut first = 0;
    for (last, vote) in votes.iter().enumerate() {
        while votes
            .get(first)
            .is_some_and(|f| vote.0.saturating_sub(f.0) > width)
        {
            first += 1;
        }
        windows.push((last + 1 - first, first, last));
    }
    windows.sort_by_key(|w| (std::cmp::Reverse(w.0), w.1));
    let mut taken: Vec<(usize, usize)> = Vec::new();
    for (_, first, last) in windows {
        if taken.len() == CANDIDATES {
            break;
        }
        if !taken.iter().any(|t| first <= t.1 && t.0 <= last) {
            taken.push((first, last));
        }
    }
    let middle = |t: (usize, usize)| votes.get(usize::midpoint(t.0, t.1)).map(|v| (v.1, v.2));
    let pairs: Vec<(usize, usize)> = taken.into_iter().filter_map(middle).collect();
    pairs.into_iter()
}

/// Extends a match from certain pairs, ascending in the second index.
fn grow(a: &[Beat], b: &[Beat], certain: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut partner: Vec<Option<usize>> = vec![None; b.len()];
    let mut used = vec![false; a.len()];
    for &(i, j) in certain {
        if let (Some(partner), Some(used)) = (partner.get_mut(j), used.get_mut(i))
            && !*used
        {
            (*partner, *used) = (Some(i), true);
        }
    }
    let first = certain.first().map_or(0, |c| c.1);
    let mut walk = |order: &mut dyn Iterator<Item = usize>| {
        let mut recent: Vec<i64> = Vec::new();
        for j in order {
            if let Some(Some(i)) = partner.get(j) {
                remember(&mut recent, offset(a, b, (*i, j)));
                continue;
            }
            let Some(ahead) = median(recent.clone()) else {
                continue;
            };
            if let Some(i) = nearest_in(a, b, j, ahead, &used) {
                remember(&mut recent, offset(a, b, (i, j)));
                if let (Some(partner), Some(used)) = (partner.get_mut(j), used.get_mut(i)) {
                    (*partner, *used) = (Some(i), true);
                }
            }
        }
    };
    walk(&mut (first..b.len()));
    walk(&mut (0..b.len().min(first + 1)).rev());
    partner
        .iter()
        .enumerate()
        .filter_map(|(j, i)| Some(((*i)?, j)))
        .collect()
}

fn remember(recent: &mut Vec<i64>, offset: i64) {
    if recent.len() == 5 {
        recent.remove(0);
    }
    recent.push(offset);
}

/// Returns the index in `a` whose end is nearest to that of `b[j]`, if the two are nearer than half
/// the distance to any other candidate.
fn nearest_in(a: &[Beat], b: &[Beat], j: usize, ahead: i64, used: &[bool]) -> Option<usize> {
    let mine = b.get(j)?;
    let target = mine.end_ns.saturating_sub(ahead);
    let at = a.partition_point(|x| x.end_ns < target);
    let around = at.saturating_sub(4)..(at + 4).min(a.len());
    let distance = |i: usize| a.get(i).map_or(u64::MAX, |x| x.end_ns.abs_diff(target));
    let best = around
        .filter(|i| used.get(*i) == Some(&false))
        .filter(|i| a.get(*i).is_some_and(|x| x.token.agrees(&mine.token)))
        .min_by_key(|i| (distance(*i), *i))?;
    let apart = |list: &[Beat], i: usize| {
        let here = list.get(i).map_or(0, |x| x.end_ns);
        let near = |k: Option<usize>| {
            let other = list.get(k?)?;
            Some(other.end_ns.abs_diff(here))
        };
        let both = [near(i.checked_sub(1)), near(i.checked_add(1))];
        both.into_iter().flatten().min().unwrap_or(u64::MAX)
    };
    let room = (apart(a, best).min(apart(b, j)) / 2).min(FARTHEST.unsigned_abs());
    (distance(best) <= room).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Generates ends at irregular times with a linear congruential generator.
    fn beats(n: usize, seed: u64) -> Vec<Beat> {
        let mut state = seed;
        let mut at = 0_i64;
        (0..n)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                at += 100_000 + i64::try_from((state >> 33) % 40_000).unwrap();
                Beat {
                    end_ns: at,
                    token: Token {
                        op: Some(0),
                        elements: Some(1024),
                        ..Token::default()
                    },
                }
            })
            .collect()
    }

    #[test]
    fn what_is_missing_at_the_ends_and_in_the_middle_is_found_by_rhythm() {
        let a = beats(400, 5);
        let kept: Vec<usize> = (17..390).filter(|i| i % 41 != 3).collect();
        let b: Vec<Beat> = kept
            .iter()
            .map(|i| {
                let end = a[*i].end_ns;
                Beat {
                    end_ns: end
                        + 987_654_321_000
                        + end / 20_000
                        + i64::try_from(i * 37 % 500).unwrap(),
                    ..a[*i]
                }
            })
            .collect();
        let found = align(&a, &b);
        let want: Vec<(usize, usize)> = kept.iter().copied().zip(0..).collect();
        assert_eq!(found.pairs, want);
        assert!(!found.ambiguous);
    }

    #[test]
    fn numbers_decide_where_there_are_any() {
        let numbered = |mut list: Vec<Beat>, from: i64| {
            for (i, beat) in list.iter_mut().enumerate() {
                beat.token.seq = Some((from + i64::try_from(i).unwrap(), 0));
            }
            list
        };
        let a = numbered(beats(50, 1), 0);
        let b = numbered(beats(50, 2), 10);
        let pairs = align(&a, &b).pairs;
        let want: Vec<(usize, usize)> = (0..40).map(|j| (j + 10, j)).collect();
        assert_eq!(pairs, want);
    }

    #[test]
    fn a_perfect_rhythm_is_said_to_be_ambiguous() {
        let even = |n: i64, from: i64| -> Vec<Beat> {
            (0..n)
                .map(|i| Beat {
                    end_ns: from + i * 100_000,
                    token: Token::default(),
                })
                .collect()
        };
        assert!(align(&even(30, 0), &even(28, 12_345_678)).ambiguous);
        assert!(align(&even(30, 0), &[]).pairs.is_empty());
    }
}
