//! Finds the first of many ranges that holds an address at a time, however many lie above each other there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A stretch of addresses for a time, both half open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

/// No range.
const NOBODY: u32 = u32::MAX;

/// A tree over the borders of the ranges: each range is noted at the few nodes that make it up, and each node knows from when to
/// when which of its ranges is the first. Built in O(n log² n), a look-up is O(log² n); ranges that do not overlap are at one node
/// each, so that memory is O(n) for them and O(n log n) at worst.
#[derive(Debug, Clone, Default)]
pub(crate) struct RangeIndex {
    /// Where ranges begin and end. Between two of these nothing changes, which is a leaf of the tree.
    borders: Vec<u64>,
    /// Where the steps of each node begin; node `n` has the children `2n` and `2n + 1`, leaves come last.
    firsts: Vec<u32>,
    /// From when on which range is the first of a node.
    steps: Vec<(u64, u32)>,
}

impl RangeIndex {
    /// Builds the index. Where ranges overlap, the first in `spans` wins.
    pub(crate) fn new(spans: &[Span]) -> Self {
        let holds = |span: &&Span| span.start < span.end && span.from_ns < span.to_ns;
        let mut borders: Vec<u64> = spans
            .iter()
            .filter(holds)
            .flat_map(|span| [span.start, span.end])
            .collect();
        borders.sort_unstable();
        borders.dedup();
        let leaves = borders.len().saturating_sub(1);
        let leaf = |address| leaves + borders.partition_point(|border| *border < address);
        let mut placed: Vec<(u32, u32)> = Vec::with_capacity(spans.len());
        for (rank, span) in (0..NOBODY).zip(spans).filter(|(_, span)| holds(span)) {
            let (mut low, mut high) = (leaf(span.start), leaf(span.end));
            let mut note = |node| placed.push((u32::try_from(node).unwrap_or(NOBODY), rank));
            while low < high {
                if low & 1 == 1 {
                    note(low);
                    low += 1;
                }
                if high & 1 == 1 {
                    high -= 1;
                    note(high);
                }
                (low, high) = (low >> 1, high >> 1);
            }
        }
        placed.sort_unstable();
        let (mut firsts, mut steps) = (Vec::with_capacity(leaves * 2 + 1), Vec::new());
        let mut rest = placed.as_slice();
        for node in 0..u32::try_from(leaves * 2).unwrap_or(NOBODY) {
            firsts.push(u32::try_from(steps.len()).unwrap_or(NOBODY));
            let here = rest.partition_point(|(at, _)| *at <= node);
            let (own, later) = rest.split_at(here);
            rest = later;
            add_steps(own, spans, &mut steps);
        }
        firsts.push(u32::try_from(steps.len()).unwrap_or(NOBODY));
        Self {
            borders,
            firsts,
            steps,
        }
    }

    /// The place of the first range that holds the address at the time.
    pub(crate) fn find(&self, address: u64, time_ns: u64) -> Option<usize> {
        let leaves = self.borders.len().checked_sub(1)?;
        let leaf = self.borders.partition_point(|border| *border <= address);
        let mut node = leaves + leaf.checked_sub(1).filter(|leaf| *leaf < leaves)?;
        let mut best = NOBODY;
        while node > 0 {
            let bound = |at: usize| self.firsts.get(at).map(|first| *first as usize);
            let steps = self.steps.get(bound(node)?..bound(node + 1)?)?;
            let begun = steps.partition_point(|(from_ns, _)| *from_ns <= time_ns);
            if let Some((_, rank)) = begun.checked_sub(1).and_then(|last| steps.get(last)) {
                best = best.min(*rank);
            }
            node >>= 1;
        }
        (best != NOBODY).then_some(best as usize)
    }
}

/// Adds the steps of a node with these ranges, which are given by node and place.
fn add_steps(own: &[(u32, u32)], spans: &[Span], steps: &mut Vec<(u64, u32)>) {
    let span = |rank: u32| spans.get(rank as usize);
    if let [(_, rank)] = own {
        if let Some(span) = span(*rank) {
            steps.extend([(span.from_ns, *rank), (span.to_ns, NOBODY)]);
        }
        return;
    }
    let mut begins: Vec<(u64, u32)> = own
        .iter()
        .filter_map(|(_, rank)| Some((span(*rank)?.from_ns, *rank)))
        .collect();
    begins.sort_unstable();
    let mut times: Vec<u64> = own
        .iter()
        .filter_map(|(_, rank)| span(*rank))
        .flat_map(|span| [span.from_ns, span.to_ns])
        .collect();
    times.sort_unstable();
    times.dedup();
    let mut begins = begins.into_iter().peekable();
    // The first of those that have begun is on top; whether it has ended is seen when it is there.
    let mut open: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
    let mut last = NOBODY;
    for time in times {
        while let Some((_, rank)) = begins.next_if(|(from_ns, _)| *from_ns <= time) {
            open.push(Reverse(rank));
        }
        while let Some(Reverse(top)) = open.peek()
            && span(*top).is_none_or(|span| span.to_ns <= time)
        {
            open.pop();
        }
        let top = open.peek().map_or(NOBODY, |Reverse(top)| *top);
        if top != last {
            steps.push((time, top));
            last = top;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spans() -> impl Strategy<Value = Vec<Span>> {
        let edge = || prop_oneof![0_u64..40, Just(u64::MAX)];
        let one = (edge(), edge(), edge(), edge()).prop_map(|(start, end, from_ns, to_ns)| Span {
            start,
            end,
            from_ns,
            to_ns,
        });
        prop::collection::vec(one, 0..40)
    }

    proptest! {
        #[test]
        fn as_looking_at_all(spans in spans(), asked in prop::collection::vec((0_u64..42, 0_u64..42), 0..60)) {
            let index = RangeIndex::new(&spans);
            let ends = [(u64::MAX, 5), (5, u64::MAX), (u64::MAX - 1, u64::MAX - 1)];
            for (address, time) in asked.into_iter().chain(ends) {
                let holds = |span: &Span| {
                    (span.start..span.end).contains(&address) && (span.from_ns..span.to_ns).contains(&time)
                };
                prop_assert_eq!(index.find(address, time), spans.iter().position(holds));
            }
        }
    }

    #[test]
    fn what_lies_apart_or_above_each_other_is_kept_once() {
        let apart: Vec<Span> = (0..1000)
            .map(|at| Span {
                start: at * 10,
                end: at * 10 + 10,
                from_ns: 0,
                to_ns: 50,
            })
            .collect();
        assert_eq!(RangeIndex::new(&apart).steps.len(), 2000);
        let mut above = apart;
        for (at, span) in (0..).zip(&mut above) {
            (span.start, span.end) = (10, 20);
            (span.from_ns, span.to_ns) = (at, u64::MAX);
        }
        assert_eq!(RangeIndex::new(&above).steps.len(), 2);
    }
}
