//! Sets of half-open intervals of integer nanoseconds: union, intersection, difference, measure,
//! and fair division of time among intervals that overlap. All by sweeping, all exact.

use crate::time::{Nanos, TimeRange};

/// One half-open interval `[start, end)`; empty when `end <= start`.
pub type Interval = (i64, i64);

/// The instants covered by any of a number of intervals, stored as sorted intervals that neither
/// overlap nor touch.
///
/// ```
/// use trace_model::interval::IntervalSet;
///
/// let communication: IntervalSet = [(10, 40), (35, 60)].into_iter().collect();
/// let computation: IntervalSet = [(0, 20), (50, 55)].into_iter().collect();
/// let exposed = communication.subtract(&computation);
/// assert_eq!(exposed.as_slice(), [(20, 50), (55, 60)]);
/// assert_eq!(exposed.measure().get(), 35);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntervalSet {
    spans: Vec<Interval>,
}

impl FromIterator<Interval> for IntervalSet {
    /// Returns the union of intervals in any order. Cost: a sort, unless starts are non-decreasing.
    fn from_iter<I: IntoIterator<Item = Interval>>(iter: I) -> Self {
        let mut spans: Vec<Interval> = iter.into_iter().filter(|(s, e)| s < e).collect();
        if !spans.is_sorted_by_key(|s| s.0) {
            spans.sort_unstable();
        }
        let mut kept = 0;
        for i in 0..spans.len() {
            let (start, end) = spans[i];
            if kept > 0 && start <= spans[kept - 1].1 {
                spans[kept - 1].1 = spans[kept - 1].1.max(end);
            } else {
                spans[kept] = (start, end);
                kept += 1;
            }
        }
        spans.truncate(kept);
        Self { spans }
    }
}

impl IntervalSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the intervals in ascending order.
    pub fn as_slice(&self) -> &[Interval] {
        &self.spans
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Adds an interval. Amortized O(1) if starts are non-decreasing, O(n) otherwise; memory is
    /// that of the union, regardless of the number of intervals added.
    pub fn cover(&mut self, (start, end): Interval) {
        if end <= start {
            return;
        }
        match self.spans.last_mut() {
            Some(last) if start < last.0 => {
                *self = self.union(&[(start, end)].into_iter().collect());
            }
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => self.spans.push((start, end)),
        }
    }

    /// Returns the total length.
    pub fn measure(&self) -> Nanos {
        self.spans
            .iter()
            .map(|(s, e)| Nanos::new(e.saturating_sub(*s)))
            .sum()
    }

    /// Returns `true` if instant `at` is covered. Cost: a binary search.
    pub fn contains(&self, at: i64) -> bool {
        let i = self.spans.partition_point(|s| s.0 <= at);
        i > 0 && at < self.spans[i - 1].1
    }

    /// Returns the instants in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut merged = Vec::with_capacity(self.spans.len() + other.spans.len());
        let (mut a, mut b) = (self.spans.as_slice(), other.spans.as_slice());
        while let (Some(x), Some(y)) = (a.first(), b.first()) {
            if x.0 <= y.0 {
                merged.push(*x);
                a = &a[1..];
            } else {
                merged.push(*y);
                b = &b[1..];
            }
        }
        merged.extend_from_slice(a);
        merged.extend_from_slice(b);
        merged.into_iter().collect()
    }

    /// Returns the instants in both sets.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let mut spans = Vec::new();
        let (mut i, mut j) = (0, 0);
        while let (Some(a), Some(b)) = (self.spans.get(i), other.spans.get(j)) {
            let (start, end) = (a.0.max(b.0), a.1.min(b.1));
            if start < end {
                spans.push((start, end));
            }
            if a.1 <= b.1 {
                i += 1;
            } else {
                j += 1;
            }
        }
        Self { spans }
    }

    /// Returns the instants in this set and not in `other`.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        let mut spans = Vec::new();
        let mut j = 0;
        for &(start, end) in &self.spans {
            let mut from = start;
            while other.spans.get(j).is_some_and(|o| o.1 <= from) {
                j += 1;
            }
            let mut k = j;
            while let Some(&(hole, resume)) = other.spans.get(k).filter(|o| o.0 < end) {
                if from < hole {
                    spans.push((from, hole));
                }
                from = resume;
                k += 1;
            }
            if from < end {
                spans.push((from, end));
            }
            j = k.saturating_sub(1).max(j);
        }
        Self { spans }
    }

    /// Returns the part inside `range`. Cost: two binary searches and a copy of that part.
    #[must_use]
    pub fn clip(&self, range: TimeRange) -> Self {
        let (start, end) = (range.start.nanos(), range.end.nanos());
        let from = self.spans.partition_point(|s| s.1 <= start);
        let to = self.spans.partition_point(|s| s.0 < end).max(from);
        let clipped = self.spans[from..to]
            .iter()
            .map(|s| (s.0.max(start), s.1.min(end)));
        Self {
            spans: clipped.filter(|(s, e)| s < e).collect(),
        }
    }

    /// Returns the parts of `range` that the set does not cover.
    #[must_use]
    pub fn gaps(&self, range: TimeRange) -> Self {
        let all: Self = [(range.start.nanos(), range.end.nanos())]
            .into_iter()
            .collect();
        all.subtract(self)
    }
}

/// Divides the time of `pool` among `claims`: every nanosecond goes in equal parts to the claims
/// that cover it. Returns the share of each claim. Indivisible nanoseconds are carried over to the
/// next interval, so that no share is off by more than a few of them and the shares add up exactly
/// to the measure that pool and claims have in common.
///
/// Cost: a sort of the ends.
///
/// ```
/// use trace_model::interval::{IntervalSet, share};
///
/// let pool: IntervalSet = [(0, 10)].into_iter().collect();
/// let shares = share(&[(0, 6), (4, 9), (20, 30)], &pool);
/// assert_eq!(shares, [5, 4, 0]); // 4 ns alone and half of 2; half of 2 and 3 alone; outside
/// ```
pub fn share(claims: &[Interval], pool: &IntervalSet) -> Vec<i64> {
    let mut shares = vec![0_i64; claims.len()];
    let mut edges: Vec<(i64, bool, usize)> = Vec::with_capacity(claims.len() * 2);
    for (i, &(start, end)) in claims.iter().enumerate() {
        if start < end {
            edges.push((start, true, i));
            edges.push((end, false, i));
        }
    }
    // At equal times ends come first.
    edges.sort_unstable();
    let mut spans = pool.spans.iter().copied().peekable();
    let mut at = i64::MIN;
    let mut active = 0_i64;
    // `level` is the share of a claim present from the beginning, `carry` the indivisible rest.
    let (mut level, mut carry) = (0_i64, 0_i64);
    for (i, &(time, starts, claim)) in edges.iter().enumerate() {
        let mut covered = 0_i64;
        while let Some(&(start, end)) = spans.peek() {
            let (from, to) = (start.max(at), end.min(time));
            if from < to {
                covered = covered.saturating_add(to.saturating_sub(from));
            }
            if end > time {
                break;
            }
            spans.next();
        }
        at = time;
        if active > 0 {
            let amount = covered.saturating_add(carry);
            level = level.saturating_add(amount / active);
            carry = amount % active;
        }
        if starts {
            shares[claim] = level;
            active += 1;
            continue;
        }
        shares[claim] = level.saturating_sub(shares[claim]);
        active -= 1;
        if active == 0 {
            // All active claims end here, and they outnumber the indivisible nanoseconds.
            for &(_, _, claim) in edges[..=i].iter().rev() {
                if carry == 0 {
                    break;
                }
                shares[claim] += 1;
                carry -= 1;
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;
    use proptest::prelude::*;

    const WIDTH: i64 = 48;

    fn set(list: &[Interval]) -> IntervalSet {
        list.iter().copied().collect()
    }

    fn covers(list: &[Interval], at: i64) -> bool {
        list.iter().any(|&(s, e)| s <= at && at < e)
    }

    /// Returns the set as a bit for each instant; every operation must agree with it.
    fn bits(s: &IntervalSet) -> Vec<bool> {
        (0..WIDTH).map(|t| covers(s.as_slice(), t)).collect()
    }

    fn lists() -> impl Strategy<Value = Vec<Interval>> {
        prop::collection::vec((0..WIDTH, 0..WIDTH), 0..12)
    }

    #[test]
    fn empty_and_inverted_intervals_hold_nothing() {
        assert!(set(&[(5, 5), (9, 3)]).is_empty());
        assert_eq!(set(&[(1, 2), (2, 3)]).as_slice(), [(1, 3)]);
    }

    #[test]
    fn measure_is_held_at_the_largest_span() {
        assert_eq!(set(&[(i64::MIN, i64::MAX)]).measure().get(), i64::MAX);
    }

    #[test]
    fn odd_nanoseconds_are_not_lost() {
        let pool = set(&[(0, 7)]);
        assert_eq!(share(&[(0, 7), (0, 7), (0, 7)], &pool), [2, 2, 3]);
        assert_eq!(share(&[(0, 7), (0, 7), (0, 8)], &pool), [2, 2, 3]);
    }

    proptest! {
        #[test]
        fn operations_agree_with_a_bit_for_each_instant(a in lists(), b in lists(), from in 0..WIDTH, to in 0..WIDTH) {
            let (x, y) = (set(&a), set(&b));
            let each = |f: &dyn Fn(i64) -> bool| (0..WIDTH).map(f).collect::<Vec<_>>();
            prop_assert_eq!(bits(&x), each(&|t| covers(&a, t)));
            prop_assert_eq!(bits(&x.union(&y)), each(&|t| covers(&a, t) || covers(&b, t)));
            prop_assert_eq!(bits(&x.intersect(&y)), each(&|t| covers(&a, t) && covers(&b, t)));
            prop_assert_eq!(bits(&x.subtract(&y)), each(&|t| covers(&a, t) && !covers(&b, t)));
            let range = TimeRange::new(Timestamp::from_nanos(from), Timestamp::from_nanos(to));
            let inside = |t: i64| range.contains(Timestamp::from_nanos(t));
            prop_assert_eq!(bits(&x.clip(range)), each(&|t| covers(&a, t) && inside(t)));
            prop_assert_eq!(bits(&x.gaps(range)), each(&|t| !covers(&a, t) && inside(t)));
            for s in [&x.union(&y), &x.intersect(&y), &x.subtract(&y), &x.clip(range)] {
                prop_assert!(s.as_slice().windows(2).all(|w| w[0].1 < w[1].0), "canonical: {:?}", s);
                let count = bits(s).iter().filter(|b| **b).count();
                prop_assert_eq!(s.measure().get(), i64::try_from(count).unwrap());
                prop_assert!((0..WIDTH).all(|t| s.contains(t) == covers(s.as_slice(), t)));
            }
            let mut one_by_one = IntervalSet::new();
            a.iter().for_each(|&interval| one_by_one.cover(interval));
            prop_assert_eq!(&one_by_one, &x);
            let parts = x.subtract(&y).measure() + x.intersect(&y).measure();
            prop_assert_eq!(parts, x.measure());
        }

        #[test]
        fn shares_add_up_and_are_fair(claims in lists(), pool in lists()) {
            let p = set(&pool);
            let shares = share(&claims, &p);
            let common = set(&claims).intersect(&p).measure().get();
            prop_assert_eq!(shares.iter().sum::<i64>(), common);
            for (i, &claim) in claims.iter().enumerate() {
                let mut fair = 0.0;
                let mut stretches = 1.0;
                for t in (0..WIDTH).filter(|&t| covers(&[claim], t)) {
                    stretches += 1.0;
                    if p.contains(t) {
                        let rivals = claims.iter().filter(|&&c| covers(&[c], t)).count();
                        fair += 1.0 / f64::from(u32::try_from(rivals).unwrap());
                    }
                }
                let got = f64::from(i32::try_from(shares[i]).unwrap());
                prop_assert!((got - fair).abs() <= stretches, "claim {i}: {got} against {fair}");
            }
        }
    }
}
