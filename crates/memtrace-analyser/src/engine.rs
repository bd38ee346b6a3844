//! Takes rows, gives the analysis.

use std::thread;

use memtrace_labeller::{Access, Name, Names, Processes};
use rustc_hash::FxHashMap;

use crate::addresses::{AddressScan, scan_addresses};
use crate::drift::Drift;
use crate::error::{Error, Result};
use crate::evidence::Periods;
use crate::extents::{Extents, LARGEST_ACCESS};
use crate::options::{AnalysisOptions, Semantics};
use crate::record::{
    ByAddress, ByRegion, Detail, LOAD, OTHER, PAGE_BITS, Pair, Record, STORE, Step,
};
use crate::regions::{BlockLife, Regions};
use crate::result::Analysis;
use crate::reuse::ReuseScan;
use crate::spacing::Spacing;
use crate::summary::summarise;
use crate::tokens::TokenCounts;
use crate::walk::{WalkScan, scan_walks};
use spill_sort::{Sorter, SpillOptions};

/// Facts of the whole trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) rows: u64,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) wide: bool,
    pub(crate) sorted: bool,
    pub(crate) weighted: u64,
    /// Whether samples are spaced evenly.
    pub(crate) is_even: bool,
    /// The largest mean period of stores at any time, where samples that are spaced evenly leave the rhythm of the program all the same.
    pub(crate) drift: Option<f64>,
}

/// Takes rows in any order and any portions, and gives the [`Analysis`].
///
/// Rows beyond the budget go to a file without a name; what stays of a region is some ten bytes, and its metrics go there, too, when they are many.
///
/// ```
/// use memtrace_analyser::{Analyser, AnalysisOptions};
/// use memtrace_labeller::{Access, Name, Names};
///
/// let mut store = Access::new(1_000_000_000, 0x1000);
/// (store.op, store.region_type, store.region_id) = (Name::STORE, Name::WEIGHT, 1);
/// let mut load = Access::new(31_000_000_000, 0x1000);
/// (load.region_type, load.region_id) = (Name::WEIGHT, 1);
///
/// let mut analyser = Analyser::new(AnalysisOptions::default());
/// analyser.push(&[store, load])?;
/// let analysis = analyser.finish(&Names::new())?;
/// let region = analysis.regions.get(0)?;
/// assert_eq!(region.map(|region| region.retention_ns), Some(30_000_000_000));
/// assert_eq!(analysis.types[0].region_type, "weight");
/// # Ok::<(), memtrace_analyser::Error>(())
/// ```
pub struct Analyser {
    options: AnalysisOptions,
    regions: Regions,
    kinds: Vec<Name>,
    kind_of: FxHashMap<Name, u16>,
    by_address: Sorter<ByAddress>,
    by_region: Sorter<ByRegion>,
    /// Bytes of the budget that others hold.
    reserved: u64,
    reuse: Option<ReuseScan>,
    tokens: TokenCounts,
    extent: Extent,
    /// By type.
    periods: Vec<Periods>,
    extents: Extents,
    spacing: Spacing,
    drift: Drift,
    processes: Processes,
    /// By id of the region.
    lives: FxHashMap<u64, BlockLife>,
}

impl std::fmt::Debug for Analyser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Analyser")
            .field("rows", &self.extent.rows)
            .field("regions", &self.regions.ids.len())
            .finish_non_exhaustive()
    }
}

impl Analyser {
    /// An analysis of nothing.
    #[must_use]
    pub fn new(options: AnalysisOptions) -> Self {
        let native = options.semantics == Semantics::Native;
        Self {
            by_address: Sorter::new(spill(&options, 4)),
            by_region: Sorter::new(spill(&options, 4)),
            reserved: 0,
            extents: Extents::new(&spill(&options, 64)),
            reuse: native.then(ReuseScan::default),
            options,
            regions: Regions::default(),
            kinds: Vec::new(),
            kind_of: FxHashMap::default(),
            tokens: TokenCounts::default(),
            periods: Vec::new(),
            lives: FxHashMap::default(),
            extent: Extent {
                rows: 0,
                first_ns: u64::MAX,
                last_ns: 0,
                wide: false,
                sorted: true,
                weighted: 0,
                is_even: false,
                drift: None,
            },
            spacing: Spacing::default(),
            drift: Drift::default(),
            processes: Processes::default(),
        }
    }

    /// Adds labelled rows.
    ///
    /// # Errors
    ///
    /// When rows cannot be spilled, or there are more than 65 535 types.
    pub fn push(&mut self, rows: &[Access]) -> Result<()> {
        for row in rows {
            self.add(row)?;
        }
        let share = usize::try_from(self.budget_of_rows() / 4).unwrap_or(usize::MAX);
        self.by_address.set_memory(share);
        self.by_region.set_memory(share);
        Ok(())
    }

    /// Says how many bytes of the budget others hold now, as a labeller does: fewer rows stay in memory then.
    pub fn reserve(&mut self, bytes: u64) {
        self.reserved = bytes;
    }

    /// States when a region was allocated and freed, where something beside the recording says it: a table of KV blocks. Its data was
    /// not stored before the one, and is not read after the other.
    pub fn set_life(&mut self, region_id: u64, life: BlockLife) {
        self.lives.insert(region_id, life);
    }

    /// What is left of the budget for rows. A quarter is there for what is kept of regions; when that is not enough they take from the
    /// rows, which get along with little.
    fn budget_of_rows(&self) -> u64 {
        let all = self.options.memory_bytes;
        let held = self.reserved.saturating_add(self.regions.heap_bytes());
        let beyond = held.saturating_sub(all / 4).saturating_mul(2);
        all.saturating_sub(beyond).max(all / 8)
    }

    fn add(&mut self, row: &Access) -> Result<()> {
        let kind = self.kind(row.region_type)?;
        let op = match row.op {
            Name::LOAD => LOAD,
            Name::STORE => STORE,
            _ => OTHER,
        };
        if let Some(periods) = self.periods.get_mut(usize::from(kind)) {
            periods.add(op, row.period);
        }
        // What states no period stands for itself.
        let period = row.period.max(1);
        let (time, address, page) = (row.timestamp_ns, row.address, row.address_page);
        let has_own_page = page != address >> PAGE_BITS;
        let (of_process, page_of_process) = match self.options.semantics {
            Semantics::Native => self.processes.place(row),
            Semantics::Mrm => (address, page),
        };
        let region = self
            .regions
            .touch(row.region_id, kind, has_own_page)
            .ok_or(Error::TooManyRegions { limit: u32::MAX })?;
        if row.size_bytes > LARGEST_ACCESS && self.options.semantics == Semantics::Native {
            self.extents.add(kind, region, of_process, row.size_bytes)?;
        }
        let detail = if has_own_page {
            if op != OTHER {
                self.regions.weigh(region, op == STORE, period);
            }
            Detail::Page(page_of_process)
        } else {
            Detail::Period(period)
        };
        let extent = &mut self.extent;
        extent.sorted &= extent.rows == 0 || time >= extent.last_ns;
        extent.rows += 1;
        extent.first_ns = extent.first_ns.min(time);
        extent.last_ns = extent.last_ns.max(time);
        extent.wide |= !row.wide.is_null();
        // A period is what the input says, and may be anything.
        extent.weighted = extent.weighted.saturating_add(period);
        if let Some(token) = row.token_index {
            self.tokens.add(token, kind, op);
        }
        if self.extent.sorted
            && let Some(reuse) = &mut self.reuse
        {
            self.spacing.add(op, time);
            self.drift.add(row.thread_id.unwrap_or(0), op, row.period);
            reuse.touch(page_of_process);
        }
        self.by_address.push(Record {
            time,
            address: of_process,
            page: page_of_process,
            region,
            kind,
            op,
            thread: row.thread_id.map_or(0, |thread| thread.to_le_bytes()[0]),
        })?;
        let step = Step::new(time, of_process, region, op, detail);
        Ok(self.by_region.push(step)?)
    }

    fn kind(&mut self, name: Name) -> Result<u16> {
        if let Some(kind) = self.kind_of.get(&name) {
            return Ok(*kind);
        }
        let limit = usize::from(u16::MAX);
        let kind = u16::try_from(self.kinds.len())
            .ok()
            .filter(|kind| *kind != u16::MAX)
            .ok_or(Error::TooManyTypes { limit })?;
        self.kinds.push(name);
        self.periods.push(Periods::default());
        self.kind_of.insert(name, kind);
        Ok(kind)
    }

    /// Rows so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.extent.rows
    }

    /// Ends the analysis.
    ///
    /// # Errors
    ///
    /// When spilled rows cannot be read back.
    pub fn finish(mut self, names: &Names) -> Result<Analysis> {
        self.options.memory_bytes = self.budget_of_rows();
        if self.options.semantics == Semantics::Native {
            self.regions.set_lives(&self.lives);
        }
        let periods = Periods::means(&self.periods);
        self.extent.is_even = self.extent.sorted && self.spacing.is_even(periods);
        if self.extent.is_even {
            self.extent.drift = self.drift.largest_store_period();
        }
        let processes = self.processes.count();
        let (options, regions, extent) = (&self.options, &self.regions, self.extent);
        let native = options.semantics == Semantics::Native;
        let periods = &self.periods;
        let (by_address, by_region, extents) = (self.by_address, self.by_region, self.extents);
        let (addresses, walks): (Result<AddressScan>, Result<WalkScan>) = thread::scope(|scope| {
            let addresses = scope
                .spawn(|| scan_addresses(by_address, extents, regions, periods, extent, options));
            let by_time = (native && !extent.sorted).then(|| Sorter::new(spill(options, 8)));
            let walks = scan_walks(by_region, regions, options, extent.first_ns, by_time);
            (addresses.join().unwrap_or(Err(Error::Thread)), walks)
        });
        let (mut walks, addresses) = (walks?, addresses?);
        drop(self.regions);
        let mut reuse = self.reuse;
        if let Some(by_time) = walks.by_time.take() {
            let mut scan = ReuseScan::default();
            let mut pages = by_time.finish()?;
            while let Some(Pair(_, page)) = pages.next_item()? {
                scan.touch(page);
            }
            reuse = Some(scan);
        }
        let kinds = self
            .kinds
            .iter()
            .map(|kind| names.text(*kind).to_owned())
            .collect();
        let mut analysis = summarise(
            self.options,
            kinds,
            extent,
            addresses,
            walks,
            reuse,
            self.tokens,
        )?;
        analysis.processes = processes;
        Ok(analysis)
    }
}

/// A share of the budget.
pub(crate) fn spill(options: &AnalysisOptions, share: u64) -> SpillOptions {
    SpillOptions {
        folder: options.spill_folder.clone(),
        memory_bytes: usize::try_from(options.memory_bytes / share).unwrap_or(usize::MAX),
    }
}
