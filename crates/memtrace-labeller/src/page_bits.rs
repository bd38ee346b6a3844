//! Sets of pages.

use std::hash::BuildHasher as _;

use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashSet};

/// Neighbouring pages that share an entry.
const TOGETHER: u64 = 16;
/// Pages of addresses end here; a page that a row brings may be beyond.
const END: u64 = 1 << 52;

/// Pages, of which neighbours share eight bytes: all of a mapping take half a byte each, one alone about ten.
#[derive(Debug, Clone, Default)]
pub(crate) struct PageBits {
    /// Number of sixteen pages above, and a bit for each below.
    groups: HashTable<u64>,
    beyond: FxHashSet<u64>,
}

fn hash(group: u64) -> u64 {
    FxBuildHasher.hash_one(group)
}

/// The group of a page, and the page's bit.
fn place(page: u64) -> (u64, u64) {
    (page / TOGETHER, 1 << (page % TOGETHER))
}

impl PageBits {
    pub(crate) fn contains(&self, page: u64) -> bool {
        if page >= END {
            return self.beyond.contains(&page);
        }
        let (group, bit) = place(page);
        let same = |entry: &u64| entry / (1 << TOGETHER) == group;
        let entry = self.groups.find(hash(group), same);
        entry.is_some_and(|entry| entry & bit != 0)
    }

    pub(crate) fn insert(&mut self, page: u64) {
        if page >= END {
            self.beyond.insert(page);
            return;
        }
        let (group, bit) = place(page);
        let same = |entry: &u64| entry / (1 << TOGETHER) == group;
        match self.groups.find_mut(hash(group), same) {
            Some(entry) => *entry |= bit,
            None => {
                let rehash = |entry: &u64| hash(entry / (1 << TOGETHER));
                self.groups
                    .insert_unique(hash(group), group << TOGETHER | bit, rehash);
            }
        }
    }

    /// Bytes that are held.
    pub(crate) fn heap_bytes(&self) -> usize {
        // An entry has a byte beside it.
        (self.groups.capacity() + self.beyond.capacity()) * (size_of::<u64>() + 1)
    }

    /// All pages, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        let group = |entry: &u64| {
            let (first, bits) = (entry / (1 << TOGETHER) * TOGETHER, *entry);
            (0..TOGETHER)
                .filter(move |at| bits >> at & 1 == 1)
                .map(move |at| first + at)
        };
        self.groups
            .iter()
            .flat_map(group)
            .chain(self.beyond.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_a_set(pages in prop::collection::vec((0_u64..70, 0_usize..4), 0..200)) {
            let bases = [0, (1 << 52) - 35, u64::MAX - 69, 0x7_f000_0000];
            let (mut bits, mut expected) = (PageBits::default(), BTreeSet::new());
            for (at, base) in pages {
                let page = bases[base] + at;
                prop_assert_eq!(bits.contains(page), expected.contains(&page));
                bits.insert(page);
                expected.insert(page);
            }
            prop_assert_eq!(bits.iter().collect::<BTreeSet<_>>(), expected);
        }
    }

    #[test]
    fn neighbours_share_an_entry() {
        let mut bits = PageBits::default();
        for page in 0x1000..0x2000 {
            bits.insert(page);
        }
        assert_eq!(bits.groups.len(), 256);
    }
}
