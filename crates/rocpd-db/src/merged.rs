//! Records of all partitions in one order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::Result;
use crate::filter::Filter;
use crate::records::Record;
use crate::scan::{Order, Scan};
use crate::set::RocpdSet;

/// When a record comes: begin, later ends first, then row id.
type Key = (i64, Reverse<i64>, i64);

/// Scans of all partitions, merged: by begin, later ends first; what is equal, in the order of the partitions.
#[derive(Debug)]
pub(crate) struct Merged<'a, R> {
    scans: Vec<Scan<'a, R>>,
    next: BinaryHeap<Reverse<(Key, usize)>>,
    /// The scan whose record was given out last: its next one is not known yet.
    taken: Option<usize>,
}

impl<'a, R: Record<'a>> Merged<'a, R> {
    pub(crate) fn new(set: &'a RocpdSet, filter: &'a Filter) -> Result<Self> {
        let mut merged = Self {
            scans: Vec::new(),
            next: BinaryHeap::new(),
            taken: None,
        };
        for at in 0..set.partitions().len() {
            merged
                .scans
                .push(set.scan_partition(at, filter, Order::Start)?);
            merged.look(at)?;
        }
        Ok(merged)
    }

    /// Finds out when the next record of a scan comes.
    fn look(&mut self, at: usize) -> Result<()> {
        if let Some(scan) = self.scans.get_mut(at)
            && scan.ready()?
            && let Some(record) = scan.front()
        {
            self.next.push(Reverse((record.key(), at)));
        }
        Ok(())
    }
}

impl<'a, R: Record<'a>> Iterator for Merged<'a, R> {
    type Item = Result<R>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(at) = self.taken.take()
            && let Err(error) = self.look(at)
        {
            return Some(Err(error));
        }
        let Reverse((_, at)) = self.next.pop()?;
        self.taken = Some(at);
        self.scans.get_mut(at)?.next()
    }
}
