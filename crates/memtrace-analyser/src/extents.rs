//! Memory that rows cover which are larger than an access: allocations, regions that a monitor found accessed.

use std::cmp::Ordering;

use spill_sort::{Item, Merged, Order, Sorter, SpillOptions, word};

use crate::error::Result;

/// Bytes of the largest access of a processor. What is larger is an allocation or a region.
pub(crate) const LARGEST_ACCESS: u32 = 64;

/// Neighbouring pages of an owner: a type, a region, or everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    owner: u64,
    first: u64,
    last: u64,
}

impl Item for Stretch {
    const BYTES: usize = 24;

    fn put(&self, out: &mut Vec<u8>) {
        for value in [self.owner, self.first, self.last] {
            value.put(out);
        }
    }

    fn get(bytes: &[u8]) -> Self {
        Self {
            owner: word(bytes, 0),
            first: word(bytes, 8),
            last: word(bytes, 16),
        }
    }
}

/// By owner, then by page.
#[derive(Debug)]
pub(crate) struct ByOwner;

impl Order for ByOwner {
    type Item = Stretch;

    fn compare(a: &Stretch, b: &Stretch) -> Ordering {
        (a.owner, a.first, a.last).cmp(&(b.owner, b.first, b.last))
    }
}

/// Stretches of types, of regions, and of everything.
pub(crate) struct Extents {
    pub(crate) kinds: Sorter<ByOwner>,
    pub(crate) regions: Sorter<ByOwner>,
    pub(crate) all: Sorter<ByOwner>,
}

impl Extents {
    pub(crate) fn new(options: &SpillOptions) -> Self {
        let sorter = || Sorter::new(options.clone());
        Self {
            kinds: sorter(),
            regions: sorter(),
            all: sorter(),
        }
    }

    /// Adds a row that covers so many bytes from an address.
    pub(crate) fn add(&mut self, kind: u16, region: u32, address: u64, bytes: u32) -> Result<()> {
        let (first, end) = (address >> 12, address.saturating_add(u64::from(bytes) - 1));
        let stretch = |owner| Stretch {
            owner,
            first,
            last: end >> 12,
        };
        self.kinds.push(stretch(kind.into()))?;
        self.regions.push(stretch(region.into()))?;
        Ok(self.all.push(stretch(0))?)
    }
}

/// The union of stretches, walked in ascending order beside single pages.
pub(crate) struct Cover {
    stretches: Merged<ByOwner>,
    /// The stretch that pages are compared with, and the first one behind it.
    current: Option<Stretch>,
    next: Option<Stretch>,
}

impl Cover {
    pub(crate) fn new(sorter: Sorter<ByOwner>) -> Result<Self> {
        let mut stretches = sorter.finish()?;
        let next = stretches.next_item()?;
        Ok(Self {
            stretches,
            current: None,
            next,
        })
    }

    /// The next stretch that touches no other; its owner and pages.
    pub(crate) fn advance(&mut self) -> Result<Option<(u64, u64)>> {
        self.current = self.next.take();
        let Some(current) = &mut self.current else {
            return Ok(None);
        };
        loop {
            match self.stretches.next_item()? {
                Some(more)
                    if more.owner == current.owner
                        && more.first <= current.last.saturating_add(1) =>
                {
                    current.last = current.last.max(more.last);
                }
                next => {
                    self.next = next;
                    break;
                }
            }
        }
        Ok(Some((current.owner, current.last - current.first + 1)))
    }

    /// Whether a page is covered. `counted` is given the stretches on the way: owner and pages.
    pub(crate) fn covers(
        &mut self,
        owner: u64,
        page: u64,
        mut counted: impl FnMut(u64, u64),
    ) -> Result<bool> {
        let is_before = |at: &Stretch| (at.owner, at.last) < (owner, page);
        while self.current.as_ref().is_none_or(is_before) {
            match self.advance()? {
                Some((owner, pages)) => counted(owner, pages),
                None => return Ok(false),
            }
        }
        let holds = |at: &Stretch| at.owner == owner && at.first <= page;
        Ok(self.current.as_ref().is_some_and(holds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_once() {
        let options = SpillOptions {
            folder: std::env::temp_dir(),
            memory_bytes: 1 << 16,
        };
        let mut extents = Extents::new(&options);
        for (kind, address, bytes) in [
            (1, 0, 5000),
            (1, 4096, 4096),
            (1, 1 << 20, 1 << 16),
            (0, 8, 100),
        ] {
            extents.add(kind, 7, address, bytes).unwrap();
        }
        let mut cover = Cover::new(extents.kinds).unwrap();
        let mut pages = [0; 2];
        let mut at = |owner: u64, page| {
            cover
                .covers(owner, page, |owner, count| {
                    pages[usize::try_from(owner).unwrap()] += count
                })
                .unwrap()
        };
        assert!(at(0, 0) && !at(0, 1));
        assert!(at(1, 0) && at(1, 1) && !at(1, 2) && at(1, 256) && at(1, 271) && !at(1, 272));
        assert_eq!(pages, [1, 2 + 16]);
    }
}
