//! Records of all kinds and processes in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use rocpd_db::{
    Allocation, Copy, Dispatch, Filter, Order, Region, RegionsAndSamples, RocpdSet, Scan,
};

/// A borrowed record.
#[derive(Debug, Clone, std::marker::Copy)]
pub(super) enum Item<'r, 'a> {
    Region(&'r Region<'a>),
    Dispatch(&'r Dispatch<'a>),
    Copy(&'r Copy<'a>),
    Allocation(&'r Allocation<'a>),
}

/// An owned record.
#[derive(Debug, Clone)]
pub(super) enum Kept<'a> {
    Region(Region<'a>),
    Dispatch(Dispatch<'a>),
    Copy(Copy<'a>),
    Allocation(Allocation<'a>),
}

impl<'r, 'a> Item<'r, 'a> {
    pub(super) fn start_ns(self) -> i64 {
        self.times().0
    }

    pub(super) fn end_ns(self) -> i64 {
        self.times().1
    }

    fn times(self) -> (i64, i64) {
        match self {
            Self::Region(r) => (r.start_ns, r.end_ns),
            Self::Dispatch(r) => (r.start_ns, r.end_ns),
            Self::Copy(r) => (r.start_ns, r.end_ns),
            Self::Allocation(r) => (r.start_ns, r.end_ns),
        }
    }

    pub(super) fn kept(self) -> Kept<'a> {
        match self {
            Self::Region(r) => Kept::Region(r.clone()),
            Self::Dispatch(r) => Kept::Dispatch(r.clone()),
            Self::Copy(r) => Kept::Copy(r.clone()),
            Self::Allocation(r) => Kept::Allocation(r.clone()),
        }
    }
}

impl<'a> Kept<'a> {
    pub(super) fn item(&self) -> Item<'_, 'a> {
        match self {
            Self::Region(r) => Item::Region(r),
            Self::Dispatch(r) => Item::Dispatch(r),
            Self::Copy(r) => Item::Copy(r),
            Self::Allocation(r) => Item::Allocation(r),
        }
    }
}

/// Records of one kind of one partition, in order of time.
enum Source<'a> {
    Regions(Box<RegionsAndSamples<'a>>),
    Dispatches(Scan<'a, Dispatch<'a>>),
    Copies(Scan<'a, Copy<'a>>),
    Allocations(Scan<'a, Allocation<'a>>),
}

impl<'a> Source<'a> {
    /// Returns the next record, once [`Self::key`] has found it.
    #[inline]
    fn front(&self) -> Option<Item<'_, 'a>> {
        match self {
            Self::Regions(scan) => scan.front().map(Item::Region),
            Self::Dispatches(scan) => scan.front().map(Item::Dispatch),
            Self::Copies(scan) => scan.front().map(Item::Copy),
            Self::Allocations(scan) => scan.front().map(Item::Allocation),
        }
    }

    /// Returns the sort key of the next record: begin, later ends first.
    #[inline]
    fn key(&mut self) -> rocpd_db::Result<Option<(i64, Reverse<i64>)>> {
        let ready = match self {
            Self::Regions(scan) => scan.ready()?,
            Self::Dispatches(scan) => scan.ready()?,
            Self::Copies(scan) => scan.ready()?,
            Self::Allocations(scan) => scan.ready()?,
        };
        let times = self.front().filter(|_| ready).map(Item::times);
        Ok(times.map(|(start, end)| (start, Reverse(end))))
    }

    /// Skips the next record.
    #[inline]
    fn skip(&mut self) -> rocpd_db::Result<()> {
        let failed = match self {
            Self::Regions(scan) => scan.next().and_then(Result::err),
            Self::Dispatches(scan) => scan.next().and_then(Result::err),
            Self::Copies(scan) => scan.next().and_then(Result::err),
            Self::Allocations(scan) => scan.next().and_then(Result::err),
        };
        failed.map_or(Ok(()), Err)
    }
}

/// Sort key of the next record of a source, and the index of the source.
type Next = Reverse<(i64, Reverse<i64>, usize)>;

/// Merges the records of all partitions by begin, later ends first.
///
/// Records are borrowed where they were decoded: moving them costs as much as decoding them.
pub(super) struct Items<'a> {
    sources: Vec<Source<'a>>,
    next: BinaryHeap<Next>,
    /// `true` if the first of `next` was returned.
    shown: bool,
}

impl<'a> Items<'a> {
    pub(super) fn new(set: &'a RocpdSet, filter: &'a Filter) -> rocpd_db::Result<Self> {
        let mut sources = Vec::new();
        for at in 0..set.partitions().len() {
            let regions = set.regions_and_samples(at, filter)?;
            sources.push(Source::Regions(Box::new(regions)));
            let scan = set.scan_partition(at, filter, Order::Start)?;
            sources.push(Source::Dispatches(scan));
            let scan = set.scan_partition(at, filter, Order::Start)?;
            sources.push(Source::Copies(scan));
            let scan = set.scan_partition(at, filter, Order::Start)?;
            sources.push(Source::Allocations(scan));
        }
        let mut next = BinaryHeap::with_capacity(sources.len());
        for (at, source) in sources.iter_mut().enumerate() {
            if let Some((start, end)) = source.key()? {
                next.push(Reverse((start, end, at)));
            }
        }
        Ok(Self {
            sources,
            next,
            shown: false,
        })
    }

    /// Returns the next record; it is valid until the next call.
    #[inline]
    pub(super) fn next(&mut self) -> rocpd_db::Result<Option<Item<'_, 'a>>> {
        if self.shown
            && let Some(mut first) = self.next.peek_mut()
            && let Some(source) = self.sources.get_mut(first.0.2)
        {
            self.shown = false;
            source.skip()?;
            match source.key()? {
                Some((start, end)) => {
                    first.0.0 = start;
                    first.0.1 = end;
                }
                None => {
                    PeekMut::pop(first);
                }
            }
        }
        let Some(Reverse((_, _, at))) = self.next.peek() else {
            return Ok(None);
        };
        self.shown = true;
        Ok(self.sources.get(*at).and_then(Source::front))
    }
}
