//! Keeps the changes of access counts by sector.
//!
//! The count changes only where requests begin and end. These changes are collected, sorted when there are many, and merged
//! into one list in order of the sector, kept as differences of two or three bytes a place. So memory follows the number of
//! distinct places: neither the number of requests nor the range of addresses matters.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::num::low8;

/// Changes that wait before they are merged, unless a quarter of the list is more.
const WAITING: usize = 1 << 18;

/// By how much the access count changes from a sector on.
pub(super) type Change = (u64, i64);

/// Changes of one access count by sector.
#[derive(Debug, Clone, Default)]
pub(super) struct AccessDeltas {
    /// Where accesses begin, and behind where they end, of those that are not merged.
    begins: Vec<u64>,
    ends: Vec<u64>,
    /// The merged changes: distance from the sector before and change, as numbers of seven bits a byte.
    merged: Vec<u8>,
    /// Their number, and the sector of the last one.
    places: usize,
    last: u64,
}

impl AccessDeltas {
    /// Counts one access more from here on.
    #[inline]
    pub(super) fn begin(&mut self, sector: u64) {
        self.begins.push(sector);
        self.merge_if_many();
    }

    /// Counts one access less from here on.
    #[inline]
    pub(super) fn end(&mut self, sector: u64) {
        self.ends.push(sector);
        self.merge_if_many();
    }

    #[inline]
    fn merge_if_many(&mut self) {
        if self.begins.len() + self.ends.len() >= WAITING.max(self.places / 4) {
            self.merge();
        }
    }

    fn merge(&mut self) {
        let (mut begins, mut ends) = (
            std::mem::take(&mut self.begins),
            std::mem::take(&mut self.ends),
        );
        begins.sort_unstable();
        ends.sort_unstable();
        let before = std::mem::take(&mut self.merged);
        self.merged
            .reserve_exact(before.len() + 3 * (begins.len() + ends.len()));
        (self.places, self.last) = (0, 0);
        let mut known = Changes::of(&before);
        let (mut more, mut less) = (begins.iter().copied(), ends.iter().copied());
        let (mut next, mut begin, mut end) = (known.next(), more.next(), less.next());
        loop {
            let sectors = [next.map(|(sector, _)| sector), begin, end];
            let Some(sector) = sectors.into_iter().flatten().min() else {
                break;
            };
            let mut by = 0;
            if let Some((at, change)) = next
                && at == sector
            {
                by = change;
                next = known.next();
            }
            while begin == Some(sector) {
                by += 1;
                begin = more.next();
            }
            while end == Some(sector) {
                by -= 1;
                end = less.next();
            }
            self.put(sector, by);
        }
        begins.clear();
        ends.clear();
        (self.begins, self.ends) = (begins, ends);
    }

    /// Adds a change behind all others.
    #[inline]
    fn put(&mut self, sector: u64, by: i64) {
        if by != 0 {
            put(&mut self.merged, sector - self.last);
            // The sign in the lowest bit keeps small numbers small.
            put(&mut self.merged, (by << 1 ^ by >> 63).cast_unsigned());
            self.places += 1;
            self.last = sector;
        }
    }
}

/// Adds a number of seven bits a byte, the lowest first.
#[inline]
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(low8(number) | 0x80);
        number >>= 7;
    }
    bytes.push(low8(number));
}

/// The changes of a merged list, in order of the sector.
struct Changes<'a> {
    bytes: std::slice::Iter<'a, u8>,
    sector: u64,
}

impl<'a> Changes<'a> {
    fn of(merged: &'a [u8]) -> Self {
        Self {
            bytes: merged.iter(),
            sector: 0,
        }
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = u64::from(*self.bytes.next()?);
            number |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
            shift += 7;
        }
    }
}

impl Iterator for Changes<'_> {
    type Item = Change;

    #[inline]
    fn next(&mut self) -> Option<Change> {
        self.sector += self.number()?;
        let by = self.number()?;
        Some((
            self.sector,
            (by >> 1).cast_signed() ^ -(by & 1).cast_signed(),
        ))
    }
}

/// Calls `take` with every change of several counts and the number of its count, in order of the sector.
pub(super) fn for_each_in_order(
    mut counts: Vec<AccessDeltas>,
    mut take: impl FnMut(usize, Change),
) {
    counts.iter_mut().for_each(AccessDeltas::merge);
    let mut lists: Vec<Changes<'_>> = counts.iter().map(|of| Changes::of(&of.merged)).collect();
    let heads = lists.iter_mut().map(Iterator::next).enumerate();
    let heads = heads.filter_map(|(number, head)| Some(Reverse((head?, number))));
    let mut heads: BinaryHeap<Reverse<(Change, usize)>> = heads.collect();
    while let Some(mut head) = heads.peek_mut() {
        let (change, number) = head.0;
        take(number, change);
        match lists.get_mut(number).and_then(Iterator::next) {
            Some(next) => head.0 = (next, number),
            None => _ = std::collections::binary_heap::PeekMut::pop(head),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn changes_of_one_place_become_one_however_often_they_are_merged(
            changes in prop::collection::vec((0_u64..40, 0_usize..3, any::<bool>()), 0..300),
            far in prop::sample::select(vec![0, 1 << 45, u64::MAX - 50]),
            part in 1_usize..40,
        ) {
            let mut counts = vec![AccessDeltas::default(); 3];
            let mut model: BTreeMap<(u64, usize), i64> = BTreeMap::new();
            for changes in changes.chunks(part) {
                for (sector, of, is_end) in changes {
                    let sector = if sector % 3 == 0 { sector + far } else { *sector };
                    let by = if *is_end { -1 } else { 1 };
                    if *is_end { counts[*of].end(sector) } else { counts[*of].begin(sector) }
                    *model.entry((sector, *of)).or_default() += by;
                }
                counts.iter_mut().for_each(AccessDeltas::merge);
            }
            model.retain(|_, by| *by != 0);
            let mut found = Vec::new();
            for_each_in_order(counts, |of, (sector, by)| found.push(((sector, of), by)));
            prop_assert!(found.windows(2).all(|pair| pair[0].0.0 <= pair[1].0.0));
            found.sort_unstable();
            prop_assert_eq!(found, model.into_iter().collect::<Vec<_>>());
        }
    }
}
