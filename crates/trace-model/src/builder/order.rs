//! Determines the order in which events are processed.

use crate::builder::EventOrder;
use crate::builder::batch::{EventColumns, EventKind};
use crate::parallel::both;
use crate::time::is_plausible;

/// Numbers of events that are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LeftOut {
    /// Before time zero.
    pub(crate) negative: u64,
    /// At no possible time.
    pub(crate) far: u64,
}

/// Returns `true` for an event at a time, or of a duration, that no recording can have.
pub(crate) fn is_far(columns: &EventColumns, event: usize) -> bool {
    let (start, tag) = (columns.ts[event], columns.tag.get(event));
    let dur = match tag {
        Some(tag) if tag.kind() == EventKind::Complete => columns.dur[tag.row()].max(0),
        Some(tag) if tag.kind() == EventKind::Hidden => {
            columns.outlined_dur(tag.row()).unwrap_or(0)
        }
        _ => 0,
    };
    !is_plausible(start, start.saturating_add(dur))
}

/// Returns the events in processing order, as indices into the columns, and the numbers of events
/// that are left out. `None` instead of a list means file order.
pub(crate) fn processing_order(
    columns: &EventColumns,
    order: EventOrder,
    keep_negative: bool,
) -> (Option<Vec<u32>>, LeftOut) {
    let ts = &columns.ts;
    let mut left_out = LeftOut::default();
    let Some(span) = Span::of(ts) else {
        return (None, left_out);
    };
    let drops = span.first < 0 && !keep_negative;
    let longest = columns.longest();
    // One look at the extremes, as nearly no file has such times.
    let has_far = !is_plausible(span.first, span.first)
        || !is_plausible(span.last, span.last)
        || !is_plausible(span.last, span.last.saturating_add(longest));
    if !drops && !has_far && order == EventOrder::File && span.ascends {
        return (None, left_out);
    }
    if has_far {
        left_out.far = (0..ts.len()).filter(|&e| is_far(columns, e)).count() as u64;
    }
    if drops {
        left_out.negative = (0..ts.len())
            .filter(|&e| ts[e] < 0 && !(has_far && is_far(columns, e)))
            .count() as u64;
    }
    let mut list = match Keys::sorted(ts, &span) {
        Some(keys) if order == EventOrder::Chrome => keys.chrome_order(columns),
        Some(keys) => keys.merged(|key| keys.event(key)),
        None => {
            // The times are too far apart for packed keys.
            let mut list: Vec<u32> = (0..to_u32(ts.len())).collect();
            match order {
                EventOrder::File => list.sort_by_key(|&e| ts[e as usize]),
                EventOrder::Chrome => {
                    list.sort_by_cached_key(|&e| (ts[e as usize], rank(columns, e)));
                }
            }
            list
        }
    };
    if left_out.negative > 0 {
        list.retain(|&e| ts[e as usize] >= 0);
    }
    if left_out.far > 0 {
        list.retain(|&e| !is_far(columns, e as usize));
    }
    (Some(list), left_out)
}

fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Result of one pass over all times.
struct Span {
    first: i64,
    last: i64,
    /// `true` if, in file order, each is at or after the one before.
    ascends: bool,
}

impl Span {
    /// Returns `None` without events.
    fn of(ts: &[i64]) -> Option<Self> {
        let start = *ts.first()?;
        let mut before = start;
        let mut span = Self {
            first: start,
            last: start,
            ascends: true,
        };
        for &t in ts {
            span.first = span.first.min(t);
            span.last = span.last.max(t);
            span.ascends &= before <= t;
            before = t;
        }
        Some(span)
    }
}

/// Events sorted by time, stably. A key of 64 bits holds the time relative to the first event and
/// the index, so that the sort moves 8 bytes an event and never looks at the columns.
struct Keys {
    /// Two sorted halves.
    keys: Vec<u64>,
    index_bits: u32,
}

impl Keys {
    /// Returns `None` if time and index do not fit into 64 bits together.
    fn sorted(ts: &[i64], span: &Span) -> Option<Self> {
        let first = span.first;
        let span = span.last.abs_diff(first);
        let index_bits = usize::BITS - ts.len().leading_zeros();
        if index_bits > span.leading_zeros() {
            return None;
        }
        let mut keys: Vec<u64> = Vec::with_capacity(ts.len());
        keys.extend(
            ts.iter()
                .enumerate()
                .map(|(i, &t)| (t.abs_diff(first) << index_bits) | i as u64),
        );
        // The standard stable sort finds ascending runs, of which profiles are made (one per thread
        // and kind of event); a radix sort was no faster on shuffled events and slower on real ones.
        let (left, right) = keys.split_at_mut(ts.len() / 2);
        both(ts.len(), || left.sort(), || right.sort());
        Some(Self { keys, index_bits })
    }

    /// Applies `of` to each key, in ascending order of keys. The halves are merged from both ends
    /// at once.
    fn merged<T: Copy + Default + Send>(&self, of: impl Fn(u64) -> T + Sync) -> Vec<T> {
        let half = self.keys.len() / 2;
        let (left, right) = self.keys.split_at(half);
        let mut out = vec![T::default(); self.keys.len()];
        let (front, back) = out.split_at_mut(half);
        both(
            self.keys.len(),
            || merge_smallest(left, right, front, &of),
            || merge_largest(left, right, back, &of),
        );
        out
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "event indices are below 2^32"
    )]
    fn event(&self, key: u64) -> u32 {
        (key & ((1 << self.index_bits) - 1)) as u32
    }

    /// Returns all events; events at equal times are in the order of Chrome's format.
    fn chrome_order(self, columns: &EventColumns) -> Vec<u32> {
        let mut list = self.merged(|key| self.event(key));
        drop(self);
        let time = |event: u32| columns.ts[event as usize];
        let mut start = 0;
        for i in 1..=list.len() {
            if i == list.len() || time(list[i]) != time(list[start]) {
                if i - start > 1 {
                    order_ties(columns, &mut list[start..i]);
                }
                start = i;
            }
        }
        list
    }
}

/// Fills `out` with the smallest of two sorted lists, ascending.
fn merge_smallest<'k, T>(mut a: &'k [u64], mut b: &'k [u64], out: &mut [T], of: impl Fn(u64) -> T) {
    for slot in out {
        let from_a = match (a.first(), b.first()) {
            (Some(x), Some(y)) => x < y,
            (first, _) => first.is_some(),
        };
        let list = if from_a { &mut a } else { &mut b };
        if let Some((&key, rest)) = list.split_first() {
            *slot = of(key);
            *list = rest;
        }
    }
}

/// Fills `out` with the largest of two sorted lists, ascending.
fn merge_largest<'k, T>(mut a: &'k [u64], mut b: &'k [u64], out: &mut [T], of: impl Fn(u64) -> T) {
    for slot in out.iter_mut().rev() {
        let from_a = match (a.last(), b.last()) {
            (Some(x), Some(y)) => x > y,
            (last, _) => last.is_some(),
        };
        let list = if from_a { &mut a } else { &mut b };
        if let Some((&key, rest)) = list.split_last() {
            *slot = of(key);
            *list = rest;
        }
    }
}

/// At equal times: ends of phase `E`, complete events from long to short, the rest; file order
/// within each. Complete events of duration 0 belong to the rest.
fn rank(columns: &EventColumns, event: u32) -> (u8, i64) {
    let tag = columns.tag[event as usize];
    match tag.kind() {
        EventKind::EndFirst => (0, 0),
        EventKind::Complete if columns.dur[tag.row()] > 0 => (1, -columns.dur[tag.row()]),
        EventKind::Hidden => match columns.outlined_dur(tag.row()) {
            Some(dur @ 1..) => (1, -dur),
            _ => (2, 0),
        },
        _ => (2, 0),
    }
}

/// Sorts events of one time, which are in file order. Nearly all ties are a slice and its flow.
fn order_ties(columns: &EventColumns, ties: &mut [u32]) {
    match ties {
        [a, b] => {
            if rank(columns, *a) > rank(columns, *b) {
                std::mem::swap(a, b);
            }
        }
        _ => ties.sort_by_cached_key(|&e| rank(columns, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn impossible_times_and_durations_are_left_out() {
        let mut batch = crate::builder::batch::EventBatch::new();
        let data = crate::builder::batch::SliceData {
            name: None,
            category: crate::CategoryId::NONE,
            args: crate::ArgsRef::NONE,
        };
        let lane = crate::LaneId::new(0).unwrap();
        let cases = [
            (5, 10, true),
            (1_700_000_000_000_000_000, 1 << 50, true),
            (7, i64::MAX, false),
            (1 << 62, 10, false),
            (-(1 << 62), 10, false),
            (i64::MIN, i64::MAX, false),
            (-3, 1, true),
        ];
        for (start, dur, _) in cases {
            batch.complete(lane, start, dur, data);
        }
        let (order, left_out) = processing_order(&batch.columns, EventOrder::Chrome, true);
        assert_eq!(order, Some(vec![6, 0, 1]));
        assert_eq!(
            left_out,
            LeftOut {
                negative: 0,
                far: 4
            }
        );
        let (order, left_out) = processing_order(&batch.columns, EventOrder::File, false);
        assert_eq!(order, Some(vec![0, 1]));
        assert_eq!(
            left_out,
            LeftOut {
                negative: 1,
                far: 4
            }
        );
    }

    proptest! {
        #[test]
        fn processing_order_is_a_stable_sort_by_time(
            ts in prop::collection::vec(prop_oneof![0..50_i64, 0..1_i64 << 40, Just(i64::MAX)], 0..300),
        ) {
            let mut expected: Vec<u32> = (0..to_u32(ts.len())).filter(|&e| ts[e as usize] < i64::MAX).collect();
            expected.sort_by_key(|&e| ts[e as usize]);
            let columns = EventColumns { ts, ..EventColumns::default() };
            let (order, left_out) = processing_order(&columns, EventOrder::File, false);
            prop_assert_eq!(left_out.far, (columns.ts.len() - expected.len()) as u64);
            prop_assert_eq!(order.unwrap_or_else(|| (0..to_u32(columns.ts.len())).collect()), expected);
        }
    }
}
