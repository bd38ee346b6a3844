//! What happens to each address, in order of time: intervals, stores, values.

use memtrace_labeller::Records;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bands::Bands;
use crate::engine::{Extent, spill};
use crate::error::Result;
use crate::evidence::{Evidence, Periods, Recent, Recording};
use crate::extents::{Cover, Extents};
use crate::late::Late;
use crate::options::{AnalysisOptions, Semantics};
use crate::quantile::OrderStats;
use crate::record::{
    Ascending, ByAddress, ByBoth, ByRegionAddress, LOAD, Pair, Record, STORE, Stores,
};
use crate::regions::{BlockLife, Regions, SmallCounts};
use spill_sort::Sorter;

/// Distinct things of regions, by their index.
#[derive(Debug)]
pub(crate) struct RegionAddresses {
    pub(crate) pages: SmallCounts,
    pub(crate) written: SmallCounts,
    pub(crate) written_once: SmallCounts,
    /// Pages that rows larger than an access cover, of regions with such rows.
    pub(crate) covered: FxHashMap<u32, u64>,
}

/// Figures of a type that need each address' rows together.
pub(crate) struct KindAddresses {
    pub(crate) intervals: OrderStats,
    pub(crate) value_retention: OrderStats,
    pub(crate) read_age: OrderStats,
    /// Stores that a later load read.
    pub(crate) values_read: u64,
    /// Those of them that were read last within a step of the clock after their store.
    pub(crate) values_below: u64,
    resolution_ns: u64,
    /// Loads of which no store was seen before.
    pub(crate) reads_before_store: u64,
    /// Loads of which no store was seen, of regions that were allocated meanwhile.
    pub(crate) reads_since_allocation: u64,
    /// Ages of data at loads, where only the allocation is known the time since then; empty unless an allocation is known.
    pub(crate) age_at_most: OrderStats,
    /// Whether allocations of some regions are known.
    has_lives: bool,
    /// Until when a value lasts that nothing read: an allocation that was not released.
    unread_until: Option<u64>,
    pub(crate) addresses: u64,
    pub(crate) seen_once: u64,
    pub(crate) seen_twice: u64,
    pub(crate) pages: u64,
    pub(crate) lines: u64,
    /// Pages that more than one thread touched.
    pub(crate) shared_pages: u64,
    /// Pages that were touched first in the last quarter of the windows.
    pub(crate) late_pages: u64,
    /// Distinct pages in each window of time.
    pub(crate) window_pages: Vec<u64>,
    /// Loads and stores in each window.
    pub(crate) window_loads: Vec<u64>,
    pub(crate) window_stores: Vec<u64>,
    pub(crate) bands: Bands,
    pub(crate) evidence: Evidence,
    pub(crate) late: Late,
    /// Earliest recorded store.
    pub(crate) first_store_ns: Option<u64>,
    /// See [`Periods::design`].
    pub(crate) design: [f64; 2],
}

/// What the walk over all addresses gave.
pub(crate) struct AddressScan {
    pub(crate) regions: RegionAddresses,
    pub(crate) kinds: Vec<KindAddresses>,
    /// Pages of the whole trace, each once.
    pub(crate) pages: u64,
    pub(crate) recording: Recording,
}

/// The windows that the run is divided into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    pub(crate) start: u64,
    pub(crate) width: u64,
    pub(crate) count: usize,
}

impl Windows {
    pub(crate) fn new(extent: Extent, wanted: usize) -> Self {
        let wanted = wanted.clamp(1, 4096);
        let span = extent
            .last_ns
            .saturating_sub(extent.first_ns)
            .saturating_add(1);
        let width = span.div_ceil(wanted as u64).max(1);
        let count = usize::try_from(span.div_ceil(width)).unwrap_or(wanted);
        Self {
            start: extent.first_ns,
            width,
            count: if extent.rows == 0 { 0 } else { count },
        }
    }

    fn at(self, time: u64) -> usize {
        usize::try_from(time.saturating_sub(self.start) / self.width).unwrap_or(0)
    }
}

/// Rows of the page that is being walked over.
struct Page {
    page: u64,
    windows: FxHashSet<u32>,
    threads: [bool; 256],
    rows: u64,
    line: Option<u64>,
    /// Times of the first and of the last store.
    stored: Option<(u64, u64)>,
}

struct Address {
    kind: u16,
    address: u64,
    /// Region of the newest access, and the time of its allocation.
    region: u32,
    allocated: Option<u64>,
    /// Whether another block lies there later.
    goes_on: bool,
    time: Option<u64>,
    seen: u64,
    stores: StoreCounts,
    stored_at: Option<u64>,
    read_at: Option<u64>,
    recent: Recent,
}

/// Stores to one address by region. That is nearly always one; an address that is mapped over and over has as many as it had eras.
#[derive(Default)]
struct StoreCounts {
    few: Vec<(u32, u64)>,
    many: FxHashMap<u32, u64>,
}

impl StoreCounts {
    const FEW: usize = 8;

    fn add(&mut self, region: u32) {
        if let Some((_, count)) = self.few.iter_mut().find(|(known, _)| *known == region) {
            *count += 1;
        } else if self.few.len() < Self::FEW {
            self.few.push((region, 1));
        } else {
            *self.many.entry(region).or_default() += 1;
        }
    }

    /// In no order.
    fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        let many = self.many.iter().map(|(region, count)| (*region, *count));
        self.few.iter().copied().chain(many)
    }
}

/// Regions that have an access on the page that is being walked over.
#[derive(Default)]
struct PageRegions {
    at: Option<(u16, u64)>,
    few: Vec<u32>,
    many: FxHashSet<u32>,
}

impl PageRegions {
    const FEW: usize = 8;

    /// Whether this is the region's first access of the page.
    fn is_first(&mut self, kind: u16, page: u64, region: u32) -> bool {
        if self.at != Some((kind, page)) {
            self.at = Some((kind, page));
            self.few.clear();
            self.many.clear();
        }
        if self.few.contains(&region) {
            return false;
        }
        if self.few.len() < Self::FEW {
            self.few.push(region);
            return true;
        }
        self.many.insert(region)
    }
}

struct Scan<'a> {
    /// What large rows cover, by type and of all types.
    cover: Cover,
    cover_all: Cover,
    known: &'a Regions,
    native: bool,
    windows: Windows,
    out: AddressScan,
    page_regions: PageRegions,
    /// Regions and their pages, of regions whose addresses do not come page by page.
    irregular_pages: Sorter<ByBoth>,
    last_irregular: Option<Pair>,
    /// Stores to addresses of such regions, which several types may share.
    irregular_stores: Sorter<ByRegionAddress>,
    /// Pages of all types, of which several may share one.
    all_pages: Option<Sorter<Ascending>>,
}

pub(crate) fn scan_addresses(
    sorter: Sorter<ByAddress>,
    extents: Extents,
    known: &Regions,
    periods: &[Periods],
    extent: Extent,
    options: &AnalysisOptions,
) -> Result<AddressScan> {
    let native = options.semantics == Semantics::Native;
    let windows = Windows::new(extent, options.windows);
    // Three collections for each type share an eighth of the budget: the rows themselves have half of it.
    let share = 24 * periods.len().max(1) as u64;
    let stats = || OrderStats::new(spill(options, share), options.approximate);
    let kind = |periods: &Periods| KindAddresses {
        evidence: Evidence::new(periods.probability(), extent),
        late: Late::new(
            extent.first_ns,
            extent.last_ns,
            options.limits.high_retention_s,
        ),
        first_store_ns: None,
        design: periods.design(),
        intervals: stats(),
        value_retention: stats(),
        read_age: stats(),
        values_read: 0,
        values_below: 0,
        resolution_ns: options.resolution_ns,
        reads_before_store: 0,
        reads_since_allocation: 0,
        age_at_most: stats(),
        has_lives: known.has_lives(),
        unread_until: (native && options.records == Records::Allocations).then_some(extent.last_ns),
        addresses: 0,
        seen_once: 0,
        seen_twice: 0,
        pages: 0,
        lines: 0,
        shared_pages: 0,
        late_pages: 0,
        window_pages: vec![0; windows.count],
        window_loads: vec![0; windows.count],
        window_stores: vec![0; windows.count],
        bands: Bands::default(),
    };
    let counts = || SmallCounts::new(known.ids.len());
    let mut covered = FxHashMap::default();
    let mut regions = Cover::new(extents.regions)?;
    while let Some((region, pages)) = regions.advance()? {
        let region = u32::try_from(region).unwrap_or(u32::MAX);
        *covered.entry(region).or_default() += pages;
    }
    let mut scan = Scan {
        cover: Cover::new(extents.kinds)?,
        cover_all: Cover::new(extents.all)?,
        known,
        native,
        windows,
        out: AddressScan {
            regions: RegionAddresses {
                pages: counts(),
                written: counts(),
                written_once: counts(),
                covered,
            },
            kinds: periods.iter().map(kind).collect(),
            pages: 0,
            recording: Recording::new(periods, extent),
        },
        page_regions: PageRegions::default(),
        irregular_pages: Sorter::new(spill(options, 32)),
        last_irregular: None,
        irregular_stores: Sorter::new(spill(options, 32)),
        all_pages: (native && periods.len() > 1).then(|| Sorter::new(spill(options, 32))),
    };
    let mut records = sorter.finish()?;
    let mut address: Option<Address> = None;
    let mut page: Option<(u16, Page)> = None;
    while let Some(record) = records.next_item()? {
        let same = address
            .as_ref()
            .is_some_and(|at| (at.kind, at.address) == (record.kind, record.address));
        // Where a block is allocated in the place of another one, what the other one held is gone.
        let is_anew = address.as_ref().is_some_and(|at| {
            at.region != record.region
                && [at.region, record.region]
                    .map(|region| known.life(region))
                    .iter()
                    .any(|life| *life != BlockLife::default())
        });
        if !same || is_anew {
            let seen = address.as_ref().filter(|_| same).map_or(0, |at| at.seen);
            if let Some(mut done) = address.take() {
                done.goes_on = same;
                scan.end_address(&done)?;
            }
            address = Some(Address {
                kind: record.kind,
                address: record.address,
                region: record.region,
                goes_on: false,
                allocated: native
                    .then(|| known.life(record.region).allocated_ns)
                    .flatten(),
                time: None,
                seen,
                stores: StoreCounts::default(),
                stored_at: None,
                read_at: None,
                recent: Recent::default(),
            });
        }
        scan.region_page(&record)?;
        if let Some(at) = &mut address {
            scan.step(at, &record)?;
        }
        if native {
            let number = record.address >> 12;
            if page
                .as_ref()
                .is_none_or(|(kind, at)| (*kind, at.page) != (record.kind, number))
            {
                if let Some((kind, done)) = page.take() {
                    scan.end_page(kind, &done)?;
                }
                if let Some(kind) = scan.out.kinds.get_mut(usize::from(record.kind)) {
                    kind.bands.page(number, windows.count);
                }
                page = Some((
                    record.kind,
                    Page {
                        page: number,
                        windows: FxHashSet::default(),
                        threads: [false; 256],
                        rows: 0,
                        line: None,
                        stored: None,
                    },
                ));
            }
            if let Some((_, at)) = &mut page {
                scan.page_step(at, &record);
            }
        }
    }
    if let Some(done) = address {
        scan.end_address(&done)?;
    }
    if let Some((kind, done)) = page {
        scan.end_page(kind, &done)?;
    }
    scan.end()
}

impl Scan<'_> {
    /// Counts the pages of regions. Addresses ascend, so a page of a regular region comes in one piece.
    fn region_page(&mut self, record: &Record) -> Result<()> {
        if self.known.is_irregular(record.region) {
            let pair = Pair(u64::from(record.region), record.page);
            if self.last_irregular != Some(pair) {
                self.last_irregular = Some(pair);
                self.irregular_pages.push(pair)?;
            }
        } else if self
            .page_regions
            .is_first(record.kind, record.page, record.region)
        {
            self.out.regions.pages.add_one(record.region);
        }
        Ok(())
    }

    fn step(&mut self, at: &mut Address, record: &Record) -> Result<()> {
        let Some(kind) = self.out.kinds.get_mut(usize::from(record.kind)) else {
            return Ok(());
        };
        at.seen += 1;
        if let Some(before) = at.time
            && record.time > before
        {
            kind.intervals.push(record.time - before)?;
        }
        at.time = Some(record.time);
        if record.op == STORE {
            at.stores.add(record.region);
        }
        if !self.native {
            return Ok(());
        }
        at.region = record.region;
        kind.evidence
            .access(record.op, record.time, at.allocated, &mut at.recent);
        kind.late
            .access(record.op, record.time, at.stored_at.is_some());
        if record.op == STORE {
            let first = kind.first_store_ns.unwrap_or(record.time);
            kind.first_store_ns = Some(first.min(record.time));
            close_value(at, kind)?;
            at.stored_at = Some(record.time);
            at.read_at = None;
        } else if record.op == LOAD {
            match at.stored_at {
                Some(stored) => {
                    kind.read_age.push(record.time - stored)?;
                    if kind.has_lives {
                        kind.age_at_most.push(record.time - stored)?;
                    }
                    at.read_at = Some(record.time);
                }
                None => match at.allocated {
                    Some(allocated) => {
                        kind.reads_since_allocation += 1;
                        let age = record.time.saturating_sub(allocated);
                        kind.age_at_most.push(age)?;
                    }
                    None => kind.reads_before_store += 1,
                },
            }
        }
        Ok(())
    }

    fn end_address(&mut self, at: &Address) -> Result<()> {
        for (region, count) in at.stores.iter() {
            if self.known.is_irregular(region) {
                self.irregular_stores.push(Stores {
                    region,
                    address: at.address,
                    count,
                })?;
            } else {
                self.out.regions.stored(region, count);
            }
        }
        if let Some(kind) = self.out.kinds.get_mut(usize::from(at.kind)) {
            close_value(at, kind)?;
            if self.native {
                let stores = at.stores.iter().map(|(_, count)| count).sum();
                kind.evidence.address(at.address, stores, &at.recent);
            }
            if !at.goes_on {
                kind.late.end_address();
                kind.addresses += 1;
                kind.seen_once += u64::from(at.seen == 1);
                kind.seen_twice += u64::from(at.seen == 2);
            }
        }
        Ok(())
    }

    fn page_step(&mut self, at: &mut Page, record: &Record) {
        let window = self.windows.at(record.time);
        at.rows += 1;
        at.windows.insert(u32::try_from(window).unwrap_or(u32::MAX));
        if let Some(seen) = at.threads.get_mut(usize::from(record.thread)) {
            *seen = true;
        }
        let Some(kind) = self.out.kinds.get_mut(usize::from(record.kind)) else {
            return;
        };
        kind.bands.access(window);
        let line = record.address >> 6;
        if at.line != Some(line) {
            at.line = Some(line);
            kind.lines += 1;
        }
        if record.op == STORE {
            let (first, last) = at.stored.unwrap_or((record.time, record.time));
            at.stored = Some((first.min(record.time), last.max(record.time)));
        }
        let counts = match record.op {
            LOAD => &mut kind.window_loads,
            STORE => &mut kind.window_stores,
            _ => return,
        };
        if let Some(count) = counts.get_mut(window) {
            *count += 1;
        }
    }

    fn end_page(&mut self, kind: u16, at: &Page) -> Result<()> {
        let kinds = &mut self.out.kinds;
        let covered = self.cover.covers(kind.into(), at.page, |owner, pages| {
            count_covered(kinds, owner, pages);
        })?;
        match &mut self.all_pages {
            Some(pages) => pages.push(at.page)?,
            None => {
                let all = &mut self.out.pages;
                let covered = self
                    .cover_all
                    .covers(0, at.page, |_, pages| *all += pages)?;
                *all += u64::from(!covered);
            }
        }
        let Some(kind) = self.out.kinds.get_mut(usize::from(kind)) else {
            return Ok(());
        };
        kind.pages += u64::from(!covered);
        let [pages, once, twice] = &mut kind.evidence.pages;
        *pages += 1;
        *once += u64::from(at.rows == 1);
        *twice += u64::from(at.rows == 2);
        // An eighth of the recording is longer than a page takes to be filled.
        let apart = self.windows.width.saturating_mul(self.windows.count as u64) / 8;
        let is_again = |(first, last): (u64, u64)| last - first > apart;
        kind.evidence.stored_again += u64::from(at.stored.is_some_and(is_again));
        let first = at.windows.iter().min().map_or(0, |window| *window as usize);
        kind.late_pages += u64::from(first * 4 >= self.windows.count * 3);
        kind.shared_pages += u64::from(at.threads.iter().filter(|seen| **seen).count() > 1);
        #[expect(
            clippy::iter_over_hash_type,
            reason = "counters are added to, in any order"
        )]
        for window in &at.windows {
            if let Some(count) = kind.window_pages.get_mut(*window as usize) {
                *count += 1;
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<AddressScan> {
        let regions = &mut self.out.regions;
        let mut pages = self.irregular_pages.finish()?;
        let mut last = None;
        while let Some(pair) = pages.next_item()? {
            if last.replace(pair) != Some(pair) {
                regions
                    .pages
                    .add_one(u32::try_from(pair.0).unwrap_or(u32::MAX));
            }
        }
        let mut stores = self.irregular_stores.finish()?;
        let mut same: Option<Stores> = None;
        loop {
            let next = stores.next_item()?;
            match (&mut same, next) {
                (Some(same), Some(next)) if same.place() == next.place() => {
                    same.count += next.count;
                }
                (same, next) => {
                    if let Some(done) = std::mem::replace(same, next) {
                        regions.stored(done.region, done.count);
                    }
                }
            }
            if next.is_none() {
                break;
            }
        }
        if let Some(pages) = self.all_pages {
            let mut pages = pages.finish()?;
            let mut last = None;
            let all = &mut self.out.pages;
            while let Some(page) = pages.next_item()? {
                let is_new = last.replace(page) != Some(page);
                if is_new && !self.cover_all.covers(0, page, |_, pages| *all += pages)? {
                    *all += 1;
                }
            }
        }
        while let Some((_, pages)) = self.cover_all.advance()? {
            self.out.pages += pages;
        }
        while let Some((kind, pages)) = self.cover.advance()? {
            count_covered(&mut self.out.kinds, kind, pages);
        }
        Ok(self.out)
    }
}

impl RegionAddresses {
    /// Counts an address that was stored to.
    fn stored(&mut self, region: u32, count: u64) {
        self.written.add_one(region);
        if count == 1 {
            self.written_once.add_one(region);
        }
    }
}

/// Counts pages of a type that large rows cover.
fn count_covered(kinds: &mut [KindAddresses], kind: u64, pages: u64) {
    let at = usize::try_from(kind).unwrap_or(usize::MAX);
    if let Some(kind) = kinds.get_mut(at) {
        kind.pages += pages;
    }
}

/// The value that a store left ends: at the next store, or with the trace.
fn close_value(at: &Address, kind: &mut KindAddresses) -> Result<()> {
    if let Some(stored) = at.stored_at {
        let kept = at.read_at.map(|read| read - stored);
        let unread = kind
            .unread_until
            .map_or(0, |until| until.saturating_sub(stored));
        kind.values_read += u64::from(kept.is_some());
        kind.values_below += u64::from(kept.is_some_and(|kept| kept < kind.resolution_ns));
        kind.value_retention.push(kept.unwrap_or(unread))?;
    }
    Ok(())
}
