//! Streams of records: as stored, or in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::marker::PhantomData;

use crate::error::Result;
use crate::filter::Filter;
use crate::partition::{Partition, Table};
use crate::records::{Context, NARROW, Record, WIDTH, pick_of, start_of};
use crate::value::Fields;
use sqlite_scan::{Cursor, Pick, Value};

/// Leaves of a table that are looked at together when records are put in order. Their records are held, a few hundred bytes
/// each, and that for every table of every file that is read at once.
const LEAST_BLOCK_LEAVES: usize = 4;
/// Tables have no more blocks than this; of those beyond a gigabyte blocks are larger.
const MOST_BLOCKS: usize = 1 << 16;

/// In what order records come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As they are stored, by row id.
    #[default]
    Stored,
    /// By begin, later ends first, then row id; one partition after the other.
    ///
    /// Costs a pass over the begins, 16 bytes of memory per 4 pages of the table but 1 MB at most, and room for the
    /// records that are stored too early: few where rows are nearly in order or in several runs that are.
    Start,
}

/// Records of one kind, as an iterator.
#[derive(Debug)]
pub struct Scan<'a, R> {
    partitions: &'a [Partition],
    filter: &'a Filter,
    order: Order,
    current: Option<Part<'a, R>>,
}

impl<'a, R: Record<'a>> Scan<'a, R> {
    pub(crate) fn new(
        partitions: &'a [Partition],
        filter: &'a Filter,
        order: Order,
    ) -> Result<Self> {
        let mut scan = Self {
            partitions,
            filter,
            order,
            current: None,
        };
        scan.current = scan.open_next()?;
        Ok(scan)
    }

    fn open_next(&mut self) -> Result<Option<Part<'a, R>>> {
        while let Some((first, rest)) = self.partitions.split_first() {
            self.partitions = rest;
            if let Some(table) = first.table(R::TABLE) {
                return Part::new(first, table, self.filter, self.order).map(Some);
            }
        }
        Ok(None)
    }
}

impl<'a, R: Record<'a>> Scan<'a, R> {
    /// Whether there is a record to come, which [`Scan::front`] then shows.
    ///
    /// Looking at records where they are is faster than taking them: they are a few hundred bytes each.
    ///
    /// # Errors
    ///
    /// As the items of the iterator: the partition is given up, and the next one follows.
    #[inline]
    pub fn ready(&mut self) -> Result<bool> {
        loop {
            let Some(part) = &mut self.current else {
                return Ok(false);
            };
            match part.ready() {
                Ok(true) => return Ok(true),
                Ok(false) => match self.open_next() {
                    Ok(next) => self.current = next,
                    Err(error) => {
                        self.current = None;
                        return Err(error);
                    }
                },
                Err(error) => {
                    self.current = self.open_next().ok().flatten();
                    return Err(error);
                }
            }
        }
    }

    /// The record that [`Iterator::next`] would give; nothing unless [`Scan::ready`] said that there is one.
    #[inline]
    #[must_use]
    pub fn front(&self) -> Option<&R> {
        self.current.as_ref()?.front()
    }
}

impl<'a, R: Record<'a>> Iterator for Scan<'a, R> {
    type Item = Result<R>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.current.as_mut()?.next() {
                Ok(Some(record)) => return Some(Ok(record)),
                Ok(None) => match self.open_next() {
                    Ok(next) => self.current = next,
                    Err(error) => {
                        self.current = None;
                        return Some(Err(error));
                    }
                },
                Err(error) => {
                    self.current = self.open_next().ok().flatten();
                    return Some(Err(error));
                }
            }
        }
    }
}

/// The records of one partition.
#[derive(Debug)]
struct Part<'a, R> {
    table: &'a Table,
    context: Context<'a>,
    cursor: Cursor<'a>,
    pick: Pick<WIDTH>,
    sorted: Option<Sorted<R>>,
    /// The next record as stored, when it was looked at.
    held: Option<R>,
    /// Records that the block before had: room for the next.
    last_block: usize,
    kind: PhantomData<R>,
}

/// What puts records in order: blocks of leaves by their first begin, and those that were read, each in order by itself.
#[derive(Debug)]
struct Sorted<R> {
    /// Smallest begin and first leaf, to be popped from the end.
    blocks: Vec<(i64, usize)>,
    /// Leaves of a block.
    block_leaves: usize,
    /// The first record of each block that was read: when it comes, and where the block is in `read`.
    ///
    /// Few blocks overlap, so this is short, and records are moved once.
    first: BinaryHeap<Reverse<(Key, usize)>>,
    read: Vec<std::vec::IntoIter<R>>,
    /// Places in `read` that are empty.
    free: Vec<usize>,
}

/// When a record comes: begin, later ends first, then row id.
type Key = (i64, Reverse<i64>, i64);

impl<'a, R: Record<'a>> Sorted<R> {
    /// Takes the records of a block.
    fn add(&mut self, mut records: Vec<R>) {
        if !records.is_sorted_by_key(R::key) {
            records.sort_by_cached_key(R::key);
        }
        let Some(first) = records.first().map(R::key) else {
            return;
        };
        let records = records.into_iter();
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.read.push(Vec::new().into_iter());
                self.read.len() - 1
            }
        };
        if let Some(room) = self.read.get_mut(place) {
            *room = records;
            self.first.push(Reverse((first, place)));
        }
    }

    /// The next of the records that were read.
    fn front(&self) -> Option<&R> {
        let Reverse((_, place)) = self.first.peek()?;
        self.read.get(*place)?.as_slice().first()
    }

    /// Takes it.
    fn pop(&mut self) -> Option<R> {
        let mut top = self.first.peek_mut()?;
        let place = top.0.1;
        let block = self.read.get_mut(place)?;
        let record = block.next();
        match block.as_slice().first().map(R::key) {
            Some(next) => top.0.0 = next,
            None => {
                *block = Vec::new().into_iter();
                self.free.push(place);
                PeekMut::pop(top);
            }
        }
        record
    }
}

impl<'a, R: Record<'a>> Part<'a, R> {
    fn new(
        partition: &'a Partition,
        table: &'a Table,
        filter: &'a Filter,
        order: Order,
    ) -> Result<Self> {
        let mut part = Self {
            table,
            context: Context::new(partition, filter)?,
            cursor: table.cursor(partition)?,
            pick: pick_of::<R>(table),
            sorted: None,
            held: None,
            last_block: 0,
            kind: PhantomData,
        };
        if order == Order::Start
            && let Some((start, _)) = R::TIMES
        {
            let column = R::COLUMNS.get(start).copied().unwrap_or_default();
            let leaves = table.leaves(&partition.file)?.len();
            let block_leaves = leaves.div_ceil(MOST_BLOCKS).max(LEAST_BLOCK_LEAVES);
            part.sorted = Some(Sorted {
                blocks: part.blocks(column, block_leaves)?,
                block_leaves,
                first: BinaryHeap::new(),
                read: Vec::new(),
                free: Vec::new(),
            });
            part.cursor.select(0, 0);
        }
        Ok(part)
    }

    /// The smallest begin of each block, the first block last.
    fn blocks(&mut self, column: &'static str, block_leaves: usize) -> Result<Vec<(i64, usize)>> {
        let leaves = self.table.leaves(&self.context.partition.file)?.len();
        let pick = self.table.def.pick([column]);
        let mut blocks = Vec::with_capacity(leaves.div_ceil(block_leaves));
        for first in (0..leaves).step_by(block_leaves) {
            self.cursor.select(first, first + block_leaves);
            let mut smallest = None;
            while let Some((_, values)) = self.cursor.next(&pick)? {
                let start = start_of(&values);
                smallest = Some(smallest.map_or(start, |s: i64| s.min(start)));
            }
            if let Some(smallest) = smallest {
                blocks.push((smallest, first));
            }
        }
        blocks.sort_unstable_by_key(|&block| Reverse(block));
        Ok(blocks)
    }

    #[inline]
    fn next(&mut self) -> Result<Option<R>> {
        if self.sorted.is_none() {
            return match self.held.take() {
                Some(record) => Ok(Some(record)),
                None => self.stored(),
            };
        }
        if !self.ready()? {
            return Ok(None);
        }
        Ok(self.sorted.as_mut().and_then(Sorted::pop))
    }

    fn front(&self) -> Option<&R> {
        match &self.sorted {
            Some(sorted) => sorted.front(),
            None => self.held.as_ref(),
        }
    }

    /// Reads what is needed to know the next record; whether there is one.
    #[inline]
    fn ready(&mut self) -> Result<bool> {
        let Some(sorted) = &self.sorted else {
            if self.held.is_none() {
                self.held = self.stored()?;
            }
            return Ok(self.held.is_some());
        };
        // All that begins before the next block may come now. A clipped begin is never earlier than the stored one.
        let first = sorted.first.peek().map(|Reverse((key, _))| key.0);
        match (first, sorted.blocks.last()) {
            (Some(first), Some(&(next, _))) if first < next => Ok(true),
            (_, Some(_)) => self.read_blocks(),
            (first, None) => Ok(first.is_some()),
        }
    }

    /// Reads blocks until a record is known to be the next one; whether there is one.
    fn read_blocks(&mut self) -> Result<bool> {
        let Some(mut sorted) = self.sorted.take() else {
            return Ok(false);
        };
        let read = loop {
            let first = sorted.first.peek().map(|Reverse((key, _))| key.0);
            match (first, sorted.blocks.last().copied()) {
                (Some(first), Some((next, _))) if first < next => break Ok(true),
                (_, Some((_, leaf))) => {
                    sorted.blocks.pop();
                    match self.block(leaf, sorted.block_leaves) {
                        Ok(records) => sorted.add(records),
                        Err(error) => break Err(error),
                    }
                }
                (first, None) => break Ok(first.is_some()),
            }
        };
        self.sorted = Some(sorted);
        read
    }

    /// The records of the block that begins with a leaf.
    fn block(&mut self, leaf: usize, block_leaves: usize) -> Result<Vec<R>> {
        self.cursor.select(leaf, leaf + block_leaves);
        let mut records = Vec::with_capacity(self.last_block);
        while let Some(record) = self.stored()? {
            records.push(record);
        }
        self.last_block = records.len();
        Ok(records)
    }

    #[inline]
    fn stored(&mut self) -> Result<Option<R>> {
        if R::USED <= NARROW {
            self.stored_in::<NARROW>()
        } else {
            self.stored_in::<WIDTH>()
        }
    }

    /// The next record as stored, its row taken apart in room for `SLOTS` values.
    #[inline]
    fn stored_in<const SLOTS: usize>(&mut self) -> Result<Option<R>> {
        while let Some(row) = self.cursor.next_row()? {
            let rowid = row.rowid;
            let mut values = [Value::Null; SLOTS];
            if self
                .pick
                .decode_into(rowid, row.record, &mut values)
                .is_none()
            {
                return Err(row.damaged(&self.context.partition.file).into());
            }
            match R::read(&mut self.context, rowid, Fields(&values))? {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => {}
                Err(slot) => {
                    self.context
                        .partition
                        .bad_value(self.table, &R::COLUMNS, &values, rowid, slot);
                }
            }
        }
        Ok(None)
    }
}

/// First begin and last end of each timed table of a partition that has rows.
pub(crate) fn extremes(partition: &Partition) -> Result<Vec<(i64, i64)>> {
    const TIMED: [(&str, [&str; 2]); 7] = [
        ("rocpd_region", ["start", "end"]),
        ("rocpd_sample", ["timestamp", "timestamp"]),
        ("rocpd_kernel_dispatch", ["start", "end"]),
        ("rocpd_memory_copy", ["start", "end"]),
        ("rocpd_memory_allocate", ["start", "end"]),
        ("rocpd_graph_launch", ["start", "end"]),
        ("rocpd_hip_event", ["start", "end"]),
    ];
    let mut found = Vec::new();
    for (base, [start, end]) in TIMED {
        let Some(table) = partition.table(base) else {
            continue;
        };
        let pick = table.def.pick([start]);
        let both = if start == end {
            None
        } else {
            Some(table.def.pick([start, end]))
        };
        let mut cursor = table.cursor(partition)?;
        let mut extremes: Option<(i64, i64)> = None;
        let mut add = |start: Option<i64>, end: Option<i64>| {
            if let (Some(start), Some(end)) = (start, end) {
                let known = extremes.get_or_insert((start, end));
                *known = (known.0.min(start), known.1.max(end));
            }
        };
        match &both {
            Some(pick) => {
                while let Some((_, values)) = cursor.next(pick)? {
                    let row = Fields(&values);
                    add(row.int(0).ok().flatten(), row.int(1).ok().flatten());
                }
            }
            None => {
                while let Some((_, values)) = cursor.next(&pick)? {
                    let at = Fields(&values).int(0).ok().flatten();
                    add(at, at);
                }
            }
        }
        found.extend(extremes);
    }
    Ok(found)
}
