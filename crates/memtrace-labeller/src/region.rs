//! Regions and the life of KV blocks.

use rustc_hash::FxHashMap;

use crate::access::Access;
use crate::names::Name;

/// A region that rows were assigned to: a row of the region map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Region {
    /// Its id; 1 is the weights of the reference, 0 is never a region.
    pub region_id: u64,
    /// Type of the row that made it.
    pub region_type: Name,
    /// Lowest page seen.
    pub page_min: u64,
    /// Highest page seen.
    pub page_max: u64,
    /// Time of the first row seen, which is not the earliest when the input is out of order.
    pub first_seen_ns: u64,
    /// Latest time seen.
    pub last_seen_ns: u64,
    /// Rows.
    pub access_count: u64,
    /// What it holds, where that is known; [`Name::NULL`] otherwise.
    pub name: Name,
}

impl Region {
    pub(crate) fn new(region_id: u64, region_type: Name, page: u64, time_ns: u64) -> Self {
        Self {
            region_id,
            region_type,
            page_min: page,
            page_max: page,
            first_seen_ns: time_ns,
            last_seen_ns: time_ns,
            access_count: 0,
            name: Name::NULL,
        }
    }

    pub(crate) fn touch(&mut self, page: u64, time_ns: u64) {
        self.page_min = self.page_min.min(page);
        self.page_max = self.page_max.max(page);
        self.last_seen_ns = self.last_seen_ns.max(time_ns);
        self.access_count += 1;
    }
}

/// The life of a KV block: a row of the KV life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvBlock {
    /// Region of the access that made the entry.
    pub block_id: u64,
    /// Address of that access (of the block, when blocks have a known size).
    pub address: u64,
    /// Its page.
    pub address_page: u64,
    /// Time of the first store, 0 when there was none.
    pub write_ns: u64,
    /// Latest time of a load, 0 when there was none.
    pub last_read_ns: u64,
    /// When it was freed, where that is known; else the time of the first store at another time than the first one.
    pub evict_ns: Option<u64>,
    /// Accesses that are no stores.
    pub total_reads: u64,
    written: bool,
}

impl KvBlock {
    fn new(row: &Access, address: u64, address_page: u64) -> Self {
        Self {
            block_id: row.region_id,
            address,
            address_page,
            write_ns: 0,
            last_read_ns: 0,
            evict_ns: None,
            total_reads: 0,
            written: false,
        }
    }

    /// From the first store to the end: eviction, else the last load, else the store. A time of 0 counts as absent.
    #[must_use]
    pub fn lifetime_ns(&self) -> u64 {
        let end = match (self.evict_ns, self.last_read_ns) {
            (Some(evict), _) if evict > 0 => evict,
            (_, read) if read > 0 => read,
            _ => self.write_ns,
        };
        end.saturating_sub(self.write_ns)
    }

    fn touch(&mut self, row: &Access) {
        let time = row.timestamp_ns;
        if !row.is_store() {
            self.total_reads += 1;
            self.last_read_ns = self.last_read_ns.max(time);
        } else if !self.written {
            self.written = true;
            self.write_ns = time;
        } else if self.evict_ns.is_none() && time != self.write_ns {
            self.evict_ns = Some(time);
        }
    }
}

/// Follows the blocks of a KV cache, in order of their appearance.
#[derive(Debug, Clone, Default)]
pub(crate) struct KvTracker {
    blocks: Vec<KvBlock>,
    /// By number and era.
    by_key: FxHashMap<(u64, u32), u32>,
}

impl KvTracker {
    /// Counts an access of the block `key` that begins at `address`; where it is known when it is freed, that is its eviction.
    pub(crate) fn touch(
        &mut self,
        key: (u64, u32),
        address: u64,
        page: u64,
        freed_ns: Option<u64>,
        row: &Access,
    ) {
        let next = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        let at = *self.by_key.entry(key).or_insert(next);
        if at == next && next != u32::MAX {
            let mut block = KvBlock::new(row, address, page);
            block.evict_ns = freed_ns;
            self.blocks.push(block);
        }
        if let Some(block) = self.blocks.get_mut(at as usize) {
            block.touch(row);
        }
    }

    pub(crate) fn blocks(&self) -> &[KvBlock] {
        &self.blocks
    }
}

/// The reference's stand-alone tracker: one region for each page, one for all pages of weights.
///
/// Unlike the labeller it gives ids to unknown pages too, and a page keeps its first type. No command uses it; it is here
/// because programs that use the reference's library do.
#[derive(Debug, Clone)]
pub struct PageTracker {
    regions: Vec<Region>,
    by_page: FxHashMap<u64, usize>,
    weight: Option<usize>,
    next_id: u64,
}

impl Default for PageTracker {
    fn default() -> Self {
        Self {
            regions: Vec::new(),
            by_page: FxHashMap::default(),
            weight: None,
            next_id: 2,
        }
    }
}

impl PageTracker {
    /// Counts an access; gives the region's id and type.
    pub fn touch(&mut self, page: u64, region_type: Name, time_ns: u64) -> (u64, Name) {
        let at = match self.by_page.get(&page) {
            Some(at) => *at,
            None => {
                let at = match (region_type, self.weight) {
                    (Name::WEIGHT, Some(at)) => at,
                    _ => {
                        let id = if region_type == Name::WEIGHT {
                            self.weight = Some(self.regions.len());
                            1
                        } else {
                            self.next_id += 1;
                            self.next_id - 1
                        };
                        self.regions
                            .push(Region::new(id, region_type, page, time_ns));
                        self.regions.len() - 1
                    }
                };
                self.by_page.insert(page, at);
                at
            }
        };
        match self.regions.get_mut(at) {
            Some(region) => {
                region.touch(page, time_ns);
                (region.region_id, region.region_type)
            }
            None => (0, Name::UNKNOWN),
        }
    }

    /// The regions, in order of creation.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }
}
