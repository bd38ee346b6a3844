//! Records of all kinds and processes in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rocpd_db::{Allocation, Copy, Dispatch, Filter, Order, Region, RocpdSet};

/// A record.
#[derive(Debug, Clone)]
pub(super) enum Item<'a> {
    Region(Region<'a>),
    Dispatch(Dispatch<'a>),
    Copy(Copy<'a>),
    Allocation(Allocation<'a>),
}

impl Item<'_> {
    pub(super) fn start_ns(&self) -> i64 {
        match self {
            Self::Region(r) => r.start_ns,
            Self::Dispatch(r) => r.start_ns,
            Self::Copy(r) => r.start_ns,
            Self::Allocation(r) => r.start_ns,
        }
    }

    pub(super) fn end_ns(&self) -> i64 {
        match self {
            Self::Region(r) => r.end_ns,
            Self::Dispatch(r) => r.end_ns,
            Self::Copy(r) => r.end_ns,
            Self::Allocation(r) => r.end_ns,
        }
    }
}

type Source<'a> = Box<dyn Iterator<Item = rocpd_db::Result<Item<'a>>> + 'a>;

/// Merges the records of all partitions by begin, later ends first.
pub(super) struct Items<'a> {
    sources: Vec<Source<'a>>,
    /// Begin, end and source of the next record of each.
    next: BinaryHeap<Reverse<(i64, Reverse<i64>, usize)>>,
    held: Vec<Option<Item<'a>>>,
    failed: Option<rocpd_db::Error>,
}

impl<'a> Items<'a> {
    pub(super) fn new(set: &'a RocpdSet, filter: &'a Filter) -> anyhow::Result<Self> {
        let mut sources: Vec<Source<'a>> = Vec::new();
        for at in 0..set.partitions().len() {
            let regions = set.regions_and_samples(at, filter)?;
            sources.push(Box::new(regions.map(|r| r.map(Item::Region))));
            let scan = set.scan_partition::<Dispatch<'_>>(at, filter, Order::Start)?;
            sources.push(Box::new(scan.map(|r| r.map(Item::Dispatch))));
            let scan = set.scan_partition::<Copy<'_>>(at, filter, Order::Start)?;
            sources.push(Box::new(scan.map(|r| r.map(Item::Copy))));
            let scan = set.scan_partition::<Allocation<'_>>(at, filter, Order::Start)?;
            sources.push(Box::new(scan.map(|r| r.map(Item::Allocation))));
        }
        let mut items = Self {
            held: (0..sources.len()).map(|_| None).collect(),
            sources,
            next: BinaryHeap::new(),
            failed: None,
        };
        for at in 0..items.sources.len() {
            items.refill(at);
        }
        Ok(items)
    }

    fn refill(&mut self, at: usize) {
        match self.sources.get_mut(at).and_then(Iterator::next) {
            Some(Ok(item)) => {
                self.next
                    .push(Reverse((item.start_ns(), Reverse(item.end_ns()), at)));
                if let Some(place) = self.held.get_mut(at) {
                    *place = Some(item);
                }
            }
            Some(Err(error)) => self.failed = Some(error),
            None => {}
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = rocpd_db::Result<Item<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let Reverse((_, _, at)) = self.next.pop()?;
        let item = self.held.get_mut(at)?.take()?;
        self.refill(at);
        Some(Ok(item))
    }
}
