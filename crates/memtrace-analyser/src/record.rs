//! What the analysis keeps of a row.

use std::cmp::Ordering;

use spill_sort::{Item, Order, word};

/// Whether a row is a load.
pub(crate) const LOAD: u8 = 0;
/// Whether it is a store.
pub(crate) const STORE: u8 = 1;
/// Anything else.
pub(crate) const OTHER: u8 = 2;
/// Bits of an address within a page.
pub(crate) const PAGE_BITS: u32 = 12;

/// A row of an address in 32 bytes: regions and types are indexes into the analysis' tables.
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

/// A row of a region in 32 bytes, as its walk needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) time: u64,
    pub(crate) address: u64,
    /// Accesses that the row stands for; or a page that is not that of the address, for which the period has no room.
    detail: u64,
    pub(crate) region: u32,
    pub(crate) op: u8,
    has_own_page: bool,
}

impl Step {
    pub(crate) fn new(time: u64, address: u64, region: u32, op: u8, detail: Detail) -> Self {
        let (detail, has_own_page) = match detail {
            Detail::Period(period) => (period, false),
            Detail::Page(page) => (page, true),
        };
        Self {
            time,
            address,
            detail,
            region,
            op,
            has_own_page,
        }
    }

    pub(crate) fn page(&self) -> u64 {
        match self.has_own_page {
            true => self.detail,
            false => self.address >> PAGE_BITS,
        }
    }

    /// Accesses that the row stands for, 0 where they are counted elsewhere.
    pub(crate) fn period(&self) -> u64 {
        match self.has_own_page {
            true => 0,
            false => self.detail,
        }
    }
}

/// What a [`Step`] says beside its address.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Detail {
    Period(u64),
    Page(u64),
}

impl Item for Step {
    const BYTES: usize = 32;

    fn put(&self, out: &mut Vec<u8>) {
        self.time.put(out);
        self.address.put(out);
        self.detail.put(out);
        let tail =
            u64::from(self.region) | u64::from(self.op) << 32 | u64::from(self.has_own_page) << 40;
        tail.put(out);
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
            detail: word(bytes, 16),
            region: tail as u32,
            op: (tail >> 32) as u8,
            has_own_page: tail >> 40 & 1 == 1,
        }
    }
}

/// By region and time: how a region is walked.
#[derive(Debug)]
pub(crate) struct ByRegion;

impl Order for ByRegion {
    type Item = Step;

    fn compare(a: &Step, b: &Step) -> Ordering {
        (a.region, a.time).cmp(&(b.region, b.time))
    }
}

/// Two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair(pub(crate) u64, pub(crate) u64);

impl Item for Pair {
    const BYTES: usize = 16;

    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(bytes: &[u8]) -> Self {
        Self(word(bytes, 0), word(bytes, 8))
    }
}

/// By the first number alone: pages by time.
#[derive(Debug)]
pub(crate) struct ByFirst;

impl Order for ByFirst {
    type Item = Pair;

    fn compare(a: &Pair, b: &Pair) -> Ordering {
        a.0.cmp(&b.0)
    }
}

/// By both numbers: what is distinct.
#[derive(Debug)]
pub(crate) struct ByBoth;

impl Order for ByBoth {
    type Item = Pair;

    fn compare(a: &Pair, b: &Pair) -> Ordering {
        (a.0, a.1).cmp(&(b.0, b.1))
    }
}

/// Stores to an address of a region.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stores {
    pub(crate) region: u32,
    pub(crate) address: u64,
    pub(crate) count: u64,
}

impl Stores {
    pub(crate) fn place(&self) -> (u32, u64) {
        (self.region, self.address)
    }
}

impl Item for Stores {
    const BYTES: usize = 24;

    fn put(&self, out: &mut Vec<u8>) {
        u64::from(self.region).put(out);
        self.address.put(out);
        self.count.put(out);
    }

    fn get(bytes: &[u8]) -> Self {
        Self {
            region: u32::try_from(word(bytes, 0)).unwrap_or(u32::MAX),
            address: word(bytes, 8),
            count: word(bytes, 16),
        }
    }
}

/// By region and address.
#[derive(Debug)]
pub(crate) struct ByRegionAddress;

impl Order for ByRegionAddress {
    type Item = Stores;

    fn compare(a: &Stores, b: &Stores) -> Ordering {
        a.place().cmp(&b.place())
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
