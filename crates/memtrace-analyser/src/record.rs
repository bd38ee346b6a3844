//! What the analysis keeps of a row.

use std::cmp::Ordering;

use spill_sort::{Item, Order, word};

/// Whether a row is a load.
pub(crate) const LOAD: u8 = 0;
/// Whether it is a store.
pub(crate) const STORE: u8 = 1;
/// Anything else.
pub(crate) const OTHER: u8 = 2;

/// A row in 32 bytes: regions and types are indexes into the analysis' tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) time: u64,
    pub(crate) address: u64,
    pub(crate) page: u64,
    pub(crate) region: u32,
    pub(crate) kind: u16,
    pub(crate) op: u8,
    /// Low bits of the thread, to tell sharing apart.
    pub(crate) thread: u8,
}

impl Item for Record {
    const BYTES: usize = 32;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.time.to_le_bytes());
        out.extend_from_slice(&self.address.to_le_bytes());
        out.extend_from_slice(&self.page.to_le_bytes());
        let tail = u64::from(self.region)
            | u64::from(self.kind) << 32
            | u64::from(self.op) << 48
            | u64::from(self.thread) << 56;
        out.extend_from_slice(&tail.to_le_bytes());
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the fields are cut out of the word"
    )]
    fn get(bytes: &[u8]) -> Self {
        let tail = word(bytes, 24);
        Self {
            time: word(bytes, 0),
            address: word(bytes, 8),
            page: word(bytes, 16),
            region: tail as u32,
            kind: (tail >> 32) as u16,
            op: (tail >> 48) as u8,
            thread: (tail >> 56) as u8,
        }
    }
}

/// By type, address, time: what happens to each address.
#[derive(Debug)]
pub(crate) struct ByAddress;

impl Order for ByAddress {
    type Item = Record;

    fn compare(a: &Record, b: &Record) -> Ordering {
        (a.kind, a.address, a.time).cmp(&(b.kind, b.address, b.time))
    }
}

/// By region and time: how a region is walked.
#[derive(Debug)]
pub(crate) struct ByRegion;

impl Order for ByRegion {
    type Item = Record;

    fn compare(a: &Record, b: &Record) -> Ordering {
        (a.region, a.time).cmp(&(b.region, b.time))
    }
}

/// By time alone.
#[derive(Debug)]
pub(crate) struct ByTime;

impl Order for ByTime {
    type Item = Record;

    fn compare(a: &Record, b: &Record) -> Ordering {
        a.time.cmp(&b.time)
    }
}

/// Plain numbers, ascending.
#[derive(Debug)]
pub(crate) struct Ascending;

impl Order for Ascending {
    type Item = u64;

    fn compare(a: &u64, b: &u64) -> Ordering {
        a.cmp(b)
    }
}
