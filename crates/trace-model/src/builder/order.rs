//! The order in which events are processed.

use crate::builder::EventOrder;
use crate::builder::batch::{EventColumns, EventKind};
use crate::parallel::both;

/// Events in processing order, as indices into the columns. Events before time zero are left out
/// and their number is the second result. `None` instead of a list means file order.
pub(crate) fn processing_order(
    columns: &EventColumns,
    order: EventOrder,
) -> (Option<Vec<u32>>, u64) {
    let ts = &columns.ts;
    let Some(span) = Span::of(ts) else {
        return (None, 0);
    };
    if span.first >= 0 && order == EventOrder::File && span.ascends {
        return (None, 0);
    }
    let negative = match span.first < 0 {
        true => ts.iter().filter(|&&t| t < 0).count() as u64,
        false => 0,
    };
    let mut list = match Keys::sorted(ts, &span) {
        Some(keys) => {
            let mut list = keys.events();
            if order == EventOrder::Chrome {
                keys.for_each_tie(|tie| order_ties(columns, &mut list[tie]));
            }
            list
        }
        None => {
            // Times too far apart for packed keys.
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
    if negative > 0 {
        list.retain(|&e| ts[e as usize] >= 0);
    }
    (Some(list), negative)
}

fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// What one look at all times tells.
struct Span {
    first: i64,
    last: i64,
    /// In file order each is at or after the one before.
    ascends: bool,
}

impl Span {
    /// None without events.
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
    keys: Vec<u64>,
    index_bits: u32,
}

impl Keys {
    /// `None` if time and index do not fit 64 bits together.
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
        // Two runs now: one merge.
        keys.sort();
        Some(Self { keys, index_bits })
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "event indices are below 2^32"
    )]
    fn events(&self) -> Vec<u32> {
        let mask = (1_u64 << self.index_bits) - 1;
        self.keys.iter().map(|k| (k & mask) as u32).collect()
    }

    /// Calls `found` with each range of more than one event at the same time.
    fn for_each_tie(&self, mut found: impl FnMut(std::ops::Range<usize>)) {
        let time = |i: usize| self.keys[i] >> self.index_bits;
        let mut start = 0;
        for i in 1..=self.keys.len() {
            if i == self.keys.len() || time(i) != time(start) {
                if i - start > 1 {
                    found(start..i);
                }
                start = i;
            }
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

    proptest! {
        #[test]
        fn processing_order_is_a_stable_sort_by_time(
            ts in prop::collection::vec(prop_oneof![0..50_i64, 0..1_i64 << 40, Just(i64::MAX)], 0..300),
        ) {
            let mut expected: Vec<u32> = (0..to_u32(ts.len())).collect();
            expected.sort_by_key(|&e| ts[e as usize]);
            let columns = EventColumns { ts, ..EventColumns::default() };
            let (order, _) = processing_order(&columns, EventOrder::File);
            prop_assert_eq!(order.unwrap_or_else(|| (0..to_u32(columns.ts.len())).collect()), expected);
        }
    }
}
