//! Gives every row a region type and a region.

use std::str::FromStr;

use rustc_hash::FxHashMap;

use crate::access::{Access, PAGE_BITS};
use crate::error::{Error, Result};
use crate::kv_blocks::{KvBlocks, KvKey};
use crate::munmap_log::{Eras, Unmap};
use crate::names::{Name, Names};
use crate::page_bits::PageBits;
use crate::processes::Processes;
use crate::ranges::{AddressRange, PageSet, RangeMap};
use crate::region_map::{Class, RegionMap};
use crate::rules::RuleSet;

/// Bits of the era of an address below the number of its process, and the largest number that is told apart.
const PROCESS_SHIFT: u32 = 20;
const MOST_PROCESSES: u32 = (1 << (u32::BITS - PROCESS_SHIFT)) - 1;

/// What becomes of rows that nothing classifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UnknownPolicy {
    /// They stay, with the type `unknown` and the region 0.
    #[default]
    Keep,
    /// They are left out.
    Skip,
    /// They are an error.
    Error,
    /// They are taken for `runtime`.
    Runtime,
}

impl FromStr for UnknownPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "keep" => Ok(Self::Keep),
            "skip" => Ok(Self::Skip),
            "error" => Ok(Self::Error),
            "runtime" => Ok(Self::Runtime),
            _ => Err(Error::Policy {
                policy: text.to_owned(),
            }),
        }
    }
}

/// What makes a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Regions {
    /// As the reference: all weights are region 1, every address of the KV cache is one, every other page is one; the KV
    /// life cycle is kept for each page.
    Mrm,
    /// Weights by named range or by extent, the KV cache by block, everything else by page.
    Native {
        /// Bytes of a KV block.
        kv_block_bytes: u64,
        /// Bytes of an extent of weights without a name.
        weight_extent_bytes: u64,
    },
}

impl Regions {
    /// Blocks of a page; extents of 2 MiB at multiples of 2 MiB, as huge pages lie. Extents counted from the first weight would
    /// depend on the order of rows.
    pub const NATIVE: Self = Self::Native {
        kv_block_bytes: 4096,
        weight_extent_bytes: 2 << 20,
    };
}

/// How to label.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LabelOptions {
    /// Rules for rows whose page has no type yet.
    pub rules: RuleSet,
    /// What becomes of the rest.
    pub unknown: UnknownPolicy,
    /// What makes a region.
    pub regions: Regions,
    /// Whether the region map and the KV life cycle are kept. Without them a region takes about 25 bytes, with them 50, and a block of the
    /// KV cache 80 more.
    pub maps: bool,
    /// Whether the type that a row came with only counts where nothing else classifies the row. Our regions only.
    pub relabel: bool,
}

impl LabelOptions {
    /// As the reference labels.
    #[must_use]
    pub fn mrm() -> Self {
        Self {
            rules: RuleSet::llama_cpp(),
            unknown: UnknownPolicy::Keep,
            regions: Regions::Mrm,
            maps: true,
            relabel: false,
        }
    }

    /// As we label: the reference's rules, regions of known size.
    #[must_use]
    pub fn native() -> Self {
        Self {
            regions: Regions::NATIVE,
            ..Self::mrm()
        }
    }
}

impl Default for LabelOptions {
    fn default() -> Self {
        Self::native()
    }
}

/// A range: its number in the order of registration, and what it holds.
#[derive(Debug, Clone, Copy)]
struct RangeId {
    rank: usize,
    name: Name,
    /// Where it begins and when it ends, when it is one block of the KV cache.
    block: Option<Block>,
}

/// A block of an engine's table: its number, where it begins, when it was allocated and freed.
#[derive(Debug, Clone, Copy)]
struct Block {
    id: Option<u64>,
    address: u64,
    allocated_ns: Option<u64>,
    freed_ns: Option<u64>,
}

/// Labels rows one after the other, in the order in which they come.
///
/// The first row that classifies a page decides for it, so the order matters. Memory follows the number of regions,
/// and of pages whose neighbours have none.
///
/// ```
/// use memtrace_labeller::{Access, LabelOptions, Labeller, Name, Names};
/// let mut names = Names::new();
/// let mut labeller = Labeller::new(LabelOptions::mrm());
/// let mut row = Access::new(10, 0x7f00_0000_1040);
/// row.symbol = names.intern("llama_kv_cell");
/// assert!(labeller.label(&mut row, &mut names)?);
/// assert_eq!((row.region_type, row.region_id), (Name::KV_CACHE, 2));
/// assert_eq!(labeller.region_map().get(0).map(|region| region.access_count), Some(1));
/// # Ok::<(), memtrace_labeller::Error>(())
/// ```
#[derive(Debug)]
pub struct Labeller {
    options: LabelOptions,
    ranges: RangeMap,
    /// Pages of `ranges`, in the reference's way of labelling.
    range_pages: PageSet,
    /// Verdicts of the rules by phase, operation, symbol, object.
    verdicts: FxHashMap<[Name; 4], Option<Name>>,
    last: Option<([Name; 4], Option<Name>)>,
    /// Pages of weights and of the KV cache. Others with a type are regions.
    weight_pages: PageBits,
    kv_pages: PageBits,
    regions: RegionMap,
    eras: Eras,
    processes: Processes,
    /// Types of pages and regions by key, of what was mapped anew or is of another process, and of pages whose region has another type.
    later_types: FxHashMap<(u64, u32), Name>,
    later_keys: FxHashMap<(Class, u64, u32), u32>,
    kv: KvBlocks,
    /// Rows by what became of them.
    counts: LabelCounts,
}

/// How many rows were labelled how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LabelCounts {
    /// Rows that came with a type.
    pub given: u64,
    /// Rows typed by an address range.
    pub by_range: u64,
    /// Rows typed by their page.
    pub by_page: u64,
    /// Rows typed by a rule.
    pub by_rule: u64,
    /// Rows that nothing classified.
    pub unknown: u64,
    /// Rows that were left out.
    pub skipped: u64,
}

impl Labeller {
    /// A labeller that has seen nothing.
    #[must_use]
    pub fn new(options: LabelOptions) -> Self {
        let (extent_bytes, kv_bytes) = match options.regions {
            // Each address is a block.
            Regions::Mrm => (1, 1),
            Regions::Native {
                kv_block_bytes,
                weight_extent_bytes,
            } => (weight_extent_bytes.max(1), kv_block_bytes.max(1)),
        };
        Self {
            regions: RegionMap::new(extent_bytes, kv_bytes, options.maps),
            options,
            ranges: RangeMap::default(),
            range_pages: PageSet::default(),
            verdicts: FxHashMap::default(),
            last: None,
            weight_pages: PageBits::default(),
            kv_pages: PageBits::default(),
            eras: Eras::default(),
            processes: Processes::default(),
            later_types: FxHashMap::default(),
            later_keys: FxHashMap::default(),
            kv: KvBlocks::new(kv_bytes),
            counts: LabelCounts::default(),
        }
    }

    /// Makes ranges known; the first one that covers an address wins. In the reference's way of labelling they type whole pages
    /// that have no type yet, and the number of those pages is returned; else the number of pages covered.
    pub fn register_address_ranges(&mut self, list: &[AddressRange], names: &mut Names) -> u64 {
        if self.options.regions != Regions::Mrm {
            self.ranges.extend(list, names);
            self.kv.number_after(self.ranges.last_block_id());
            return list
                .iter()
                .map(|range| range.pages())
                .map(|(first, last)| last - first + 1)
                .sum();
        }
        // Pages typed one by one, or by an earlier range, keep their type.
        let typed_alone = self.weight_pages.iter().chain(self.kv_pages.iter());
        let typed_apart = self.later_types.keys().map(|(page, _)| *page);
        let typed = typed_alone.chain(typed_apart);
        let mut known: Vec<u64> = typed.chain(self.regions.pages()).collect();
        known.sort_unstable();
        known.dedup();
        let mut typed = 0;
        let pages: Vec<AddressRange> = list
            .iter()
            .map(|range| {
                let (first, last) = range.pages();
                for (first, last) in self.range_pages.add(first, last) {
                    let taken = known.partition_point(|page| *page <= last)
                        - known.partition_point(|page| *page < first);
                    typed += last - first + 1 - taken as u64;
                }
                AddressRange::new(
                    first << PAGE_BITS,
                    last.saturating_add(1).saturating_mul(1 << PAGE_BITS),
                    range.region_type.clone(),
                )
            })
            .collect();
        self.ranges.extend(&pages, names);
        typed
    }

    /// Makes known when addresses were mapped and unmapped, all at once: what a page was before does not hold after, and what lies
    /// there then is another region. The reference knows nothing of it, so its way of labelling does not go by it.
    pub fn register_unmaps(&mut self, unmaps: &[Unmap]) {
        if !self.is_mrm() {
            self.eras = Eras::new(unmaps);
        }
    }

    /// Labels a row. `false` means that it is left out.
    ///
    /// # Errors
    ///
    /// [`Error::Unclassified`] under the policy `error`.
    pub fn label(&mut self, row: &mut Access, names: &mut Names) -> Result<bool> {
        let mut range = None;
        let era = self.era(row);
        let given = row.region_type != Name::UNKNOWN && !row.region_type.is_null();
        let region_type = if given && (self.is_mrm() || !self.options.relabel) {
            self.counts.given += 1;
            // The type says nothing about which block it was, and how long that lived.
            let block = self.by_valid_range(row);
            range = block
                .filter(|(found, kind)| found.block.is_some() && *kind == row.region_type)
                .map(|(found, _)| found);
            row.region_type
        } else if let Some((found, region_type)) = self.by_valid_range(row) {
            self.counts.by_range += 1;
            range = Some(found);
            region_type
        } else if let Some(known) = self.page_type(row.address_page, era) {
            self.counts.by_page += 1;
            known
        } else if let Some(region_type) = self.by_mrm_range(row) {
            self.counts.by_range += 1;
            region_type
        } else if let Some(verdict) = self.verdict(row, names) {
            self.counts.by_rule += 1;
            verdict
        } else if given {
            self.counts.given += 1;
            row.region_type
        } else {
            self.counts.unknown += 1;
            match self.options.unknown {
                UnknownPolicy::Keep => {
                    row.region_type = Name::UNKNOWN;
                    row.region_id = 0;
                    return Ok(true);
                }
                UnknownPolicy::Skip => {
                    self.counts.skipped += 1;
                    return Ok(false);
                }
                UnknownPolicy::Error => {
                    return Err(Error::Unclassified {
                        page: row.address_page,
                        symbol: names.text(row.symbol).to_owned(),
                        dso: names.text(row.dso).to_owned(),
                    });
                }
                UnknownPolicy::Runtime => Name::RUNTIME,
            }
        };
        row.region_type = region_type;
        if range.is_none() {
            self.learn(row, era, region_type);
        }
        self.assign(row, range, era);
        Ok(true)
    }

    /// Returns what an address is of, of those that are equal: the memory of a process, from one mapping to the next.
    fn era(&mut self, row: &Access) -> u32 {
        let era = self.eras.at(row.address, row.timestamp_ns);
        if self.is_mrm() {
            return era;
        }
        match u32::from(self.processes.number(row)) {
            0 => era,
            number => {
                era.min((1 << PROCESS_SHIFT) - 1) | number.min(MOST_PROCESSES) << PROCESS_SHIFT
            }
        }
    }

    fn page_type(&self, page: u64, era: u32) -> Option<Name> {
        if era > 0 {
            return self.later_types.get(&(page, era)).copied();
        }
        if self.weight_pages.contains(page) {
            Some(Name::WEIGHT)
        } else if self.kv_pages.contains(page) {
            Some(Name::KV_CACHE)
        } else if let Some(known) = self.later_types.get(&(page, era)) {
            Some(*known)
        } else {
            // A page that is a region had no type when it became one, or is known above.
            let at = self.regions.find((Class::Page, page))?;
            self.regions.region_type(at)
        }
    }

    /// Gives the row's page its type, unless it has one.
    fn learn(&mut self, row: &Access, era: u32, region_type: Name) {
        let page = row.address_page;
        if era > 0 {
            self.later_types.entry((page, era)).or_insert(region_type);
            return;
        }
        // In the reference's way a range has typed its pages, whatever their rows say.
        let learned = self.by_mrm_range(row).unwrap_or(region_type);
        let is_alone = learned == Name::WEIGHT || learned == Name::KV_CACHE;
        if (!is_alone && learned == region_type) || self.page_type(page, era).is_some() {
            // The page becomes a region, which knows its type.
            return;
        }
        match learned {
            Name::WEIGHT => self.weight_pages.insert(page),
            Name::KV_CACHE => self.kv_pages.insert(page),
            other => {
                self.later_types.insert((page, era), other);
            }
        }
    }

    fn is_mrm(&self) -> bool {
        self.options.regions == Regions::Mrm
    }

    /// Ranges decide before pages in our way of labelling, ...
    fn by_valid_range(&self, row: &Access) -> Option<(RangeId, Name)> {
        if self.ranges.is_empty() || self.is_mrm() {
            return None;
        }
        let range = self.ranges.find(row.address, row.timestamp_ns)?;
        let block = range.is_block.then(|| Block {
            id: range.block_id,
            address: range.start,
            allocated_ns: Some(range.from_ns).filter(|time| *time > 0),
            freed_ns: Some(range.to_ns).filter(|time| *time < u64::MAX),
        });
        let found = RangeId {
            rank: range.rank,
            name: range.name,
            block,
        };
        Some((found, range.region_type))
    }

    /// ... and are the types of pages in the reference's.
    fn by_mrm_range(&self, row: &Access) -> Option<Name> {
        if self.ranges.is_empty() || !self.is_mrm() {
            return None;
        }
        let start = row.address_page.checked_mul(1 << PAGE_BITS)?;
        let range = self.ranges.find(start, row.timestamp_ns)?;
        Some(range.region_type)
    }

    fn verdict(&mut self, row: &Access, names: &mut Names) -> Option<Name> {
        // Everything that a process touches for the first time while it loads is touched then: the phase is no evidence of its type.
        let phase = if row.is_page_fault() && !self.is_mrm() {
            Name::NULL
        } else {
            row.phase
        };
        let key = [phase, row.op, row.symbol, row.dso];
        if let Some((known, verdict)) = &self.last
            && *known == key
        {
            return *verdict;
        }
        let verdict = match self.verdicts.get(&key) {
            Some(verdict) => *verdict,
            None => {
                let found = self
                    .options
                    .rules
                    .classify(
                        names.get(phase),
                        names.text(row.op),
                        names.text(row.symbol),
                        names.text(row.dso),
                    )
                    .map(str::to_owned);
                let verdict = found.map(|found| names.intern(&found));
                self.verdicts.insert(key, verdict);
                verdict
            }
        };
        self.last = Some((key, verdict));
        verdict
    }

    fn assign(&mut self, row: &mut Access, range: Option<RangeId>, era: u32) {
        let (class, number) = match (self.options.regions, row.region_type) {
            (Regions::Mrm, Name::WEIGHT) => (Class::Weights, 0),
            (Regions::Mrm, Name::KV_CACHE) => (Class::Kv, row.address),
            (Regions::Mrm, _) => (Class::Page, row.address_page),
            (Regions::Native { kv_block_bytes, .. }, Name::KV_CACHE)
                if range.is_none_or(|range| range.block.is_none()) =>
            {
                (Class::Kv, row.address / kv_block_bytes.max(1))
            }
            (
                Regions::Native {
                    weight_extent_bytes,
                    ..
                },
                region_type,
            ) => match range {
                Some(range) => (Class::Range, range.rank as u64),
                None if region_type == Name::WEIGHT => {
                    (Class::Extent, row.address / weight_extent_bytes.max(1))
                }
                None => (Class::Page, row.address_page),
            },
        };
        let key = (class, number);
        let name = range.map_or(Name::NULL, |range| range.name);
        let regions = &mut self.regions;
        let at = match (era, class) {
            // A range has its own time.
            (0, _) | (_, Class::Range) => match regions.find(key) {
                Some(at) => at,
                None => regions.add_found(key, row.region_type, name),
            },
            (era, _) => *self
                .later_keys
                .entry((class, number, era))
                .or_insert_with(|| regions.add(key, row.region_type, name)),
        };
        regions.touch(at, row.address_page, row.timestamp_ns);
        row.region_id = regions.id(at);
        if row.region_type == Name::KV_CACHE && self.options.maps {
            let key = match self.options.regions {
                Regions::Mrm => KvKey::Page {
                    page: row.address_page,
                    address: row.address,
                },
                Regions::Native { kv_block_bytes, .. } => {
                    let bytes = kv_block_bytes.max(1);
                    match range {
                        Some(RangeId {
                            rank,
                            block: Some(block),
                            ..
                        }) => KvKey::Listed {
                            rank: rank as u64,
                            id: block.id,
                            address: block.address,
                            allocated_ns: block.allocated_ns,
                            freed_ns: block.freed_ns,
                        },
                        _ => KvKey::At {
                            address: row.address / bytes * bytes,
                            era,
                        },
                    }
                }
            };
            self.kv.touch(key, row);
        }
    }

    /// The regions, in order of creation; none when the options do not ask for [`LabelOptions::maps`].
    #[must_use]
    pub fn region_map(&self) -> &RegionMap {
        &self.regions
    }

    /// The blocks of the KV cache, in order of creation; none when the options do not ask for [`LabelOptions::maps`].
    #[must_use]
    pub fn kv_blocks(&self) -> &KvBlocks {
        &self.kv
    }

    /// How many regions there are, kept or not.
    #[must_use]
    pub fn regions(&self) -> usize {
        self.regions.made()
    }

    /// Bytes held for pages, regions and blocks, about.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        let later = self.later_types.capacity() * size_of::<((u64, u32), Name, u8)>()
            + self.later_keys.capacity() * size_of::<((Class, u64, u32), u32, u8)>();
        let pages = self.weight_pages.heap_bytes() + self.kv_pages.heap_bytes();
        self.regions.heap_bytes() + self.kv.heap_bytes() + (pages + later) as u64
    }

    /// The regions and the blocks of the KV cache, without what only labelling needs.
    #[must_use]
    pub fn into_maps(mut self) -> (RegionMap, KvBlocks) {
        self.regions.close();
        self.kv.close();
        (self.regions, self.kv)
    }

    /// What became of the rows.
    #[must_use]
    pub fn counts(&self) -> LabelCounts {
        self.counts
    }
}

/// The size of KV blocks as the addresses of stores suggest it: the greatest common divisor of the distances between
/// neighbouring addresses that were stored to, at least 64 and at most a page; a page when there are fewer than three.
///
/// ```
/// let stores = [0x1000, 0x1100, 0x1300, 0x1100, 0x2000];
/// assert_eq!(memtrace_labeller::infer_kv_block_bytes(&stores), 256);
/// ```
#[must_use]
pub fn infer_kv_block_bytes(store_addresses: &[u64]) -> u64 {
    let mut addresses = store_addresses.to_vec();
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.len() < 3 {
        return crate::access::PAGE_BYTES;
    }
    let step = addresses
        .windows(2)
        .map(|pair| match pair {
            [low, high] => high - low,
            _ => 0,
        })
        .fold(0, gcd);
    // Regions start at multiples of the size, so a size that does not divide the addresses is none.
    let step = addresses.first().map_or(step, |first| gcd(step, *first));
    step.clamp(64, crate::access::PAGE_BYTES)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
