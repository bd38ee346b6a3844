//! The life of KV blocks, in columns: there may be one for each line of a cache.

use std::hash::BuildHasher as _;

use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::access::{Access, PAGE_BITS};
use crate::kv_fills::Fills;

/// The life of a KV block: a row of the KV life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvBlock {
    /// Number of the block in the engine's table. Of a block that no table lists the number of its region, behind the largest number of the
    /// table where there is one.
    pub block_id: u64,
    /// Region of the access that made the entry.
    pub region_id: u64,
    /// Address of that access (of the block, when blocks have a known size).
    pub address: u64,
    /// Its page.
    pub address_page: u64,
    /// Time of the first store, 0 when there was none.
    pub write_ns: u64,
    /// Latest time of a load of the first fill, 0 when there was none. In the reference's way of any load.
    pub last_read_ns: u64,
    /// When it was freed, where that is known; else when its next fill began: the first store over something that was stored and
    /// read before. In the reference's way the time of the first store at another time than the first one.
    pub evict_ns: Option<u64>,
    /// Accesses that are no stores, before the next fill. In the reference's way all.
    pub total_reads: u64,
    /// Recorded fills; the entry is of the first one. 0 in the reference's way, and where a table of blocks says when it was allocated
    /// or freed.
    pub fills: u64,
    is_native: bool,
    /// When the block's life began: its allocation, where a table of blocks says it, else the first store, else the first access. In
    /// the reference's way the first store, or 0.
    pub start_ns: u64,
    /// `true` if `start_ns` is an allocation or a store. The life of another block began earlier than that.
    pub start_known: bool,
    /// When the block was allocated, where a table of blocks says it.
    pub allocated_ns: Option<u64>,
    /// When it was freed, where a table of blocks says it.
    pub freed_ns: Option<u64>,
}

impl KvBlock {
    /// Time from [`KvBlock::start_ns`] to the end: when it was freed, else the last load before its next fill, else the store. Without a known start or
    /// end the life is at least as long. In the reference's way an eviction comes before the last load, and a time of 0 counts as absent.
    #[must_use]
    pub fn lifetime_ns(&self) -> u64 {
        let evicted = match self.is_native {
            true => self.freed_ns,
            false => self.evict_ns,
        };
        let end = match (evicted, self.last_read_ns) {
            (Some(evict), _) if evict > 0 => evict,
            (_, read) if read > 0 => read,
            _ => self.write_ns,
        };
        end.saturating_sub(self.start_ns)
    }
}

const WRITTEN: u8 = 1;
const EVICTED: u8 = 2;
const ALLOCATED: u8 = 4;
const FREED: u8 = 8;

/// Which block an access belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KvKey {
    /// A page, as the reference has it; the address is that of the access.
    Page { page: u64, address: u64 },
    /// The block that begins at an address, if `era` is 0; later blocks in its place are kept apart.
    At { address: u64, era: u32 },
    /// A block of an engine's table: its rank and number, where it begins, when it was allocated and freed.
    Listed {
        rank: u64,
        id: Option<u64>,
        address: u64,
        allocated_ns: Option<u64>,
        freed_ns: Option<u64>,
    },
}

/// The blocks of a KV cache, in order of their appearance: the KV life cycle.
#[derive(Debug, Clone, Default)]
pub struct KvBlocks {
    /// Less one, of the access that made the entry.
    regions: Vec<u32>,
    /// Numbers in an engine's table, by index.
    ids: FxHashMap<u32, u64>,
    /// The largest number of the table; 0 without one.
    last_id: u64,
    addresses: Vec<u64>,
    /// Where they are not those of the addresses: in the reference's way.
    pages: Vec<u64>,
    writes: Vec<u64>,
    /// When lives began; none in the reference's way.
    starts: Vec<u64>,
    reads: Vec<u64>,
    evictions: Vec<u64>,
    counts: Vec<u64>,
    states: Vec<u8>,
    /// Recorded fills, none in the reference's way.
    fills: Vec<u32>,
    parts: Fills,
    /// By page, or by address.
    by_key: HashTable<u32>,
    /// By address and era, or by rank and [`LISTED`].
    apart: FxHashMap<(u64, u32), u32>,
}

/// The era of blocks of an engine's table.
const LISTED: u32 = u32::MAX;

fn hash(key: u64) -> u64 {
    FxBuildHasher.hash_one(key)
}

impl KvBlocks {
    /// No blocks yet; those that no table lists have so many bytes.
    pub(crate) fn new(block_bytes: u64) -> Self {
        Self {
            parts: Fills::new(block_bytes),
            ..Self::default()
        }
    }

    /// Numbers the blocks that no table lists behind the largest number of the tables.
    pub(crate) fn number_after(&mut self, last_id: Option<u64>) {
        self.last_id = last_id.unwrap_or(0);
    }

    /// Counts an access.
    pub(crate) fn touch(&mut self, key: KvKey, row: &Access) {
        let at = match key {
            KvKey::Page { page, .. } => self.found(page, true, key, row),
            KvKey::At { address, era: 0 } => self.found(address, false, key, row),
            KvKey::At { address, era } => self.found_apart((address, era), key, row),
            KvKey::Listed { rank, .. } => self.found_apart((rank, LISTED), key, row),
        };
        self.count(at as usize, row, matches!(key, KvKey::At { .. }));
    }

    /// The block of a page or an address, made when it is not there.
    fn found(&mut self, number: u64, is_page: bool, key: KvKey, row: &Access) -> u32 {
        let column = if is_page {
            &self.pages
        } else {
            &self.addresses
        };
        let same = |at: &u32| column.get(*at as usize) == Some(&number);
        if let Some(at) = self.by_key.find(hash(number), same) {
            return *at;
        }
        let at = self.add(key, row);
        let column = if is_page {
            &self.pages
        } else {
            &self.addresses
        };
        let rehash = |at: &u32| column.get(*at as usize).map_or(0, |number| hash(*number));
        self.by_key.insert_unique(hash(number), at, rehash);
        at
    }

    fn found_apart(&mut self, place: (u64, u32), key: KvKey, row: &Access) -> u32 {
        if let Some(at) = self.apart.get(&place) {
            return *at;
        }
        let at = self.add(key, row);
        self.apart.insert(place, at);
        at
    }

    fn add(&mut self, key: KvKey, row: &Access) -> u32 {
        let at = u32::try_from(self.addresses.len()).unwrap_or(u32::MAX);
        let (address, allocated_ns, freed_ns) = match key {
            KvKey::Page { page, address } => {
                self.pages.push(page);
                (address, None, None)
            }
            KvKey::At { address, .. } => (address, None, None),
            KvKey::Listed {
                id,
                address,
                allocated_ns,
                freed_ns,
                ..
            } => {
                self.ids.extend(id.map(|id| (at, id)));
                (address, allocated_ns, freed_ns)
            }
        };
        if !matches!(key, KvKey::Page { .. }) {
            self.starts.push(allocated_ns.unwrap_or(row.timestamp_ns));
            self.fills.push(0);
        }
        self.addresses.push(address);
        // Regions have indexes of 32 bits, and ids from 1.
        let region = row.region_id.saturating_sub(1);
        self.regions.push(u32::try_from(region).unwrap_or(u32::MAX));
        self.writes.push(0);
        self.reads.push(0);
        self.evictions.push(freed_ns.unwrap_or(0));
        self.counts.push(0);
        let state = |set: bool, bit: u8| if set { bit } else { 0 };
        self.states.push(
            state(freed_ns.is_some(), EVICTED | FREED) | state(allocated_ns.is_some(), ALLOCATED),
        );
        at
    }

    /// Counts an access of a block, by fills where the block itself says nothing about its end.
    fn count(&mut self, at: usize, row: &Access, by_fills: bool) {
        let time = row.timestamp_ns;
        let (Some(state), Some(write)) = (self.states.get_mut(at), self.writes.get_mut(at)) else {
            return;
        };
        if *state & (ALLOCATED | WRITTEN) == 0
            && let Some(start) = self.starts.get_mut(at)
        {
            // The first store, else the first access, whatever the order of rows.
            *start = match row.is_store() {
                true => time,
                false => time.min(*start),
            };
        }
        let offset = row
            .address
            .saturating_sub(self.addresses.get(at).copied().unwrap_or(0));
        if !row.is_store() {
            if by_fills {
                self.parts.load(at, offset, row.size_bytes);
                // A load of a later fill.
                if *state & EVICTED != 0 {
                    return;
                }
            }
            if let Some(count) = self.counts.get_mut(at) {
                *count += 1;
            }
            if let Some(read) = self.reads.get_mut(at) {
                *read = time.max(*read);
            }
            return;
        }
        let is_first = *state & WRITTEN == 0;
        if is_first {
            *state |= WRITTEN;
            *write = time;
        }
        let is_over = match by_fills {
            true => {
                let begins = self.parts.store(at, offset, row.size_bytes);
                if let Some(fills) = self.fills.get_mut(at).filter(|_| is_first || begins) {
                    *fills = fills.saturating_add(1);
                }
                begins
            }
            false => time != *write,
        };
        if !is_first && *state & EVICTED == 0 && is_over {
            *state |= EVICTED;
            if let Some(evicted) = self.evictions.get_mut(at) {
                *evicted = time;
            }
        }
    }

    /// Bytes that are held.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        let columns = [
            &self.addresses,
            &self.pages,
            &self.writes,
            &self.starts,
            &self.reads,
            &self.evictions,
            &self.counts,
        ];
        let columns: usize = columns.iter().map(|column| column.capacity()).sum();
        let bytes = columns * size_of::<u64>()
            + self.regions.capacity() * size_of::<u32>()
            + self.states.capacity()
            + self.fills.capacity() * size_of::<u32>()
            + self.parts.heap_bytes()
            // An entry of a table has a byte beside it.
            + self.by_key.capacity() * (size_of::<u32>() + 1)
            + self.ids.capacity() * size_of::<(u32, u64, u8)>()
            + self.apart.capacity() * size_of::<((u64, u32), u32, u8)>();
        bytes as u64
    }

    /// Forgets what only labelling needs.
    pub(crate) fn close(&mut self) {
        self.by_key = HashTable::new();
        self.apart = FxHashMap::default();
        self.parts.close();
    }

    /// How many blocks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The block at an index from 0, in order of appearance.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<KvBlock> {
        let address = *self.addresses.get(at)?;
        let state = *self.states.get(at)?;
        let is_evicted = state & EVICTED != 0;
        let write_ns = *self.writes.get(at)?;
        let region_id = u64::from(*self.regions.get(at)?) + 1;
        let listed = u32::try_from(at).ok().and_then(|at| self.ids.get(&at));
        Some(KvBlock {
            block_id: listed
                .copied()
                .unwrap_or(self.last_id.saturating_add(region_id)),
            region_id,
            address,
            address_page: match self.pages.get(at) {
                Some(page) => *page,
                None => address >> PAGE_BITS,
            },
            write_ns,
            start_ns: self.starts.get(at).copied().unwrap_or(write_ns),
            start_known: state & (WRITTEN | ALLOCATED) != 0,
            allocated_ns: self
                .starts
                .get(at)
                .copied()
                .filter(|_| state & ALLOCATED != 0),
            freed_ns: self
                .evictions
                .get(at)
                .copied()
                .filter(|_| state & FREED != 0),
            last_read_ns: *self.reads.get(at)?,
            evict_ns: is_evicted
                .then(|| self.evictions.get(at).copied())
                .flatten(),
            total_reads: *self.counts.get(at)?,
            fills: self.fills.get(at).copied().map_or(0, u64::from),
            is_native: !self.starts.is_empty(),
        })
    }

    /// The blocks, in order of appearance.
    pub fn iter(&self) -> impl Iterator<Item = KvBlock> {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}
