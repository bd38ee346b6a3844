//! How each region is walked, in order of time: lives, counts, strides.

use crate::engine::spill;
use crate::error::Result;
use crate::options::{AnalysisOptions, Semantics};
use crate::quantile::{OrderStats, real};
use crate::record::{ByFirst, ByRegion, LOAD, Pair, STORE, Step};
use crate::region_list::{ById, Placed};
use crate::regions::Regions;
use crate::result::RegionMetrics;
use spill_sort::Sorter;

/// Bits of a virtual address below those that tell processes apart.
const ADDRESS_BITS: u32 = 48;

/// Locality of a region.
#[derive(Debug, Clone, Copy, Default)]
struct Locality {
    mean_stride_bytes: f64,
    median_stride_bytes: f64,
    same_page_fraction: f64,
}

/// What the walk over all regions gave.
pub(crate) struct WalkScan {
    /// The regions, without what needs each address' rows together.
    pub(crate) regions: Sorter<ById>,
    /// Whether some region was never stored to, or never read.
    pub(crate) without_stores: bool,
    pub(crate) without_loads: bool,
    /// Pages by time, when they were asked for.
    pub(crate) by_time: Option<Sorter<ByFirst>>,
}

/// Addresses of a region that are followed.
const FOLLOWED: usize = 4;

/// When the first addresses of a region come again.
#[derive(Debug, Clone, Copy, Default)]
struct Returns {
    /// Address, last time, longest time between two accesses if there were two.
    followed: [Option<(u64, u64, Option<u64>)>; FOLLOWED],
}

impl Returns {
    fn access(&mut self, address: u64, time: u64) {
        for place in &mut self.followed {
            match place {
                None => *place = Some((address, time, None)),
                Some((known, last, longest)) if *known == address => {
                    let gap = time.saturating_sub(*last);
                    *longest = Some(longest.map_or(gap, |longest| longest.max(gap)));
                    *last = time;
                }
                Some(_) => continue,
            }
            return;
        }
    }

    /// Longest time between two accesses of the address where that is shortest: an address that is seldom accessed says nothing about
    /// the others. `None` if none was accessed twice.
    fn period(&self) -> Option<u64> {
        let known = self.followed.iter().flatten();
        known.filter_map(|(_, _, longest)| *longest).min()
    }
}

/// The region whose rows come.
struct Region {
    before: Step,
    min_store: Option<u64>,
    min_any: u64,
    min_load: Option<u64>,
    max_store: Option<u64>,
    max_load: Option<u64>,
    /// Longest time between two loads, and between two stores.
    load_gap: u64,
    store_gap: u64,
    load_returns: Returns,
    store_returns: Returns,
    loads: u64,
    stores: u64,
    rows: u64,
    weighted_loads: u64,
    weighted_stores: u64,
    same_page: u64,
    /// Differences that have no size in two's complement.
    lowest: u64,
}

impl Region {
    fn new(first: Step, regions: &Regions) -> Self {
        let [weighted_loads, weighted_stores] = regions.weighed(first.region);
        Self {
            before: first,
            min_store: None,
            min_any: first.time,
            min_load: None,
            max_store: None,
            max_load: None,
            load_gap: 0,
            store_gap: 0,
            load_returns: Returns::default(),
            store_returns: Returns::default(),
            loads: 0,
            stores: 0,
            rows: 0,
            weighted_loads,
            weighted_stores,
            same_page: 0,
            lowest: 0,
        }
    }

    fn count(&mut self, step: &Step) {
        self.rows += 1;
        if step.op == STORE {
            self.stores += 1;
            self.weighted_stores = self.weighted_stores.saturating_add(step.period());
            // Rows come in order of time.
            let before = self.max_store.unwrap_or(step.time);
            self.store_gap = self.store_gap.max(step.time.saturating_sub(before));
            self.store_returns.access(step.address, step.time);
            self.min_store = self.min_store.or(Some(step.time));
            self.max_store = Some(step.time);
        } else if step.op == LOAD {
            self.loads += 1;
            self.weighted_loads = self.weighted_loads.saturating_add(step.period());
            let before = self.max_load.unwrap_or(step.time);
            self.load_gap = self.load_gap.max(step.time.saturating_sub(before));
            self.load_returns.access(step.address, step.time);
            self.min_load = self.min_load.or(Some(step.time));
            self.max_load = Some(step.time);
        }
    }

    fn stride(&mut self, step: &Step, strides: &mut OrderStats, is_reference: bool) -> Result<()> {
        // As the reference: differences of two's complement, then their size.
        let (here, before) = (step.address, self.before.address);
        let difference = if is_reference || (here ^ before) >> ADDRESS_BITS == 0 {
            here.wrapping_sub(before).cast_signed()
        } else {
            // Two processes in a range that the user names.
            let low = |address: u64| address & ((1 << ADDRESS_BITS) - 1);
            low(here).wrapping_sub(low(before)).cast_signed()
        };
        if is_reference && difference == i64::MIN {
            self.lowest += 1;
        } else {
            strides.push(difference.unsigned_abs())?;
        }
        self.same_page += u64::from(step.page() == self.before.page());
        self.before = *step;
        Ok(())
    }

    /// Time from the first store, else the first load, to the last load.
    fn span_ns(&self) -> u64 {
        let first = self.min_store.or(self.min_load).unwrap_or(0);
        self.max_load.unwrap_or(0).saturating_sub(first)
    }

    /// Longest time between two accesses that matter: loads, else what there is.
    fn gap_ns(&self) -> u64 {
        match self.loads {
            0 => self.store_gap,
            1 => self.span_ns(),
            _ => self.load_gap,
        }
    }

    /// Time after which the region is accessed again from its beginning.
    fn return_ns(&self) -> u64 {
        match self.loads {
            0 => self.store_returns.period().unwrap_or(self.store_gap),
            _ => self.load_returns.period().unwrap_or_else(|| self.span_ns()),
        }
    }

    /// Whether the region was in use before the recording.
    fn begun_before(&self) -> bool {
        match self.min_store {
            None => self.min_load.is_some(),
            Some(store) => self.min_load.is_some_and(|load| load < store),
        }
    }

    /// Whether the region may have been in use before the recording, which began at `start_ns`: what is stored to every so often may
    /// have had its turn before, unless the recording began longer ago than that.
    fn may_begin_before(&self, start_ns: u64) -> bool {
        let period = self.store_returns.period().zip(self.min_store);
        period.is_some_and(|(period, store)| store.saturating_sub(start_ns) < period)
    }

    fn end(self, strides: &mut OrderStats, regions: &Regions, start_ns: u64) -> Result<Placed> {
        let at = self.before.region;
        let life = regions.life(at);
        // What was loaded before any store to it was recorded was stored since its allocation, if that is known.
        let is_late = self
            .min_store
            .is_none_or(|store| self.min_load.is_some_and(|load| load < store));
        let first_write_ns = match life.allocated_ns.filter(|_| is_late) {
            Some(allocated) => allocated.min(self.min_any),
            None => self.min_store.unwrap_or(self.min_any),
        };
        let last_read_ns = self.max_load.unwrap_or(first_write_ns);
        let locality = locality(strides, self.lowest, self.same_page)?;
        let metrics = RegionMetrics {
            region_id: regions.ids.id(at),
            type_index: usize::from(regions.kind(at)),
            first_write_ns,
            last_read_ns,
            retention_ns: last_read_ns.saturating_sub(first_write_ns),
            total_reads: self.loads,
            total_writes: self.stores,
            weighted_reads: self.weighted_loads,
            weighted_writes: self.weighted_stores,
            unique_pages: 0,
            n_written_addresses: 0,
            n_write_once_addresses: 0,
            n_accesses: self.rows,
            mean_stride_bytes: locality.mean_stride_bytes,
            median_stride_bytes: locality.median_stride_bytes,
            same_page_fraction: locality.same_page_fraction,
            gap_ns: self.gap_ns(),
            return_ns: self.return_ns(),
            begun_before: life.allocated_ns.is_none() && self.begun_before(),
            may_begin_before: life.allocated_ns.is_none() && self.may_begin_before(start_ns),
            allocated_ns: life.allocated_ns,
            freed_ns: life.freed_ns,
        };
        Ok(Placed { at, metrics })
    }
}

/// Walks all regions. With `by_time` their pages are handed on to it.
pub(crate) fn scan_walks(
    sorter: Sorter<ByRegion>,
    regions: &Regions,
    options: &AnalysisOptions,
    start_ns: u64,
    by_time: Option<Sorter<ByFirst>>,
) -> Result<WalkScan> {
    let mut scan = WalkScan {
        regions: Sorter::new(spill(options, 32)),
        without_stores: false,
        without_loads: false,
        by_time,
    };
    let mut strides = OrderStats::new(spill(options, 8), options.approximate);
    let is_reference = options.semantics == Semantics::Mrm;
    let mut region: Option<Region> = None;
    let mut steps = sorter.finish()?;
    loop {
        let step = steps.next_item()?;
        let ends = |region: &mut Region| {
            let at = region.before.region;
            step.is_none_or(|step| step.region != at)
        };
        if let Some(done) = region.take_if(ends) {
            scan.without_stores |= done.min_store.is_none();
            scan.without_loads |= done.max_load.is_none();
            scan.regions
                .push(done.end(&mut strides, regions, start_ns)?)?;
        }
        let Some(step) = step else { break };
        if let Some(by_time) = &mut scan.by_time {
            by_time.push(Pair(step.time, step.page()))?;
        }
        match &mut region {
            Some(region) => {
                region.stride(&step, &mut strides, is_reference)?;
                region.count(&step);
            }
            None => region.insert(Region::new(step, regions)).count(&step),
        }
    }
    Ok(scan)
}

/// Locality from strides, and how often the difference was the lowest integer: of that the reference has no size, since two's
/// complement has none, and leaves it negative.
fn locality(strides: &mut OrderStats, lowest: u64, same_page: u64) -> Result<Locality> {
    const LOWEST: f64 = -9_223_372_036_854_775_808.0;
    let sized = strides.count();
    let count = sized + lowest;
    if count == 0 {
        return Ok(Locality::default());
    }
    let mean_stride_bytes = match lowest {
        0 => strides.mean(),
        _ => strides.mean_with_lowest(lowest),
    };
    // The median of an even number is the mean of the middle two, which interpolation in the middle is too.
    let quantiles = if lowest == 0 {
        strides.take_quantiles(&[0.5])?
    } else {
        // The lowest come first, and the middle two are looked for among the others.
        let last = sized.saturating_sub(1);
        let of = |place: u64| match place.checked_sub(lowest) {
            Some(place) if last > 0 => Some(real(place) / real(last)),
            Some(_) => Some(0.0),
            None => None,
        };
        let middle = [(count - 1) / 2, count / 2].map(of);
        let wanted: Vec<f64> = middle.into_iter().flatten().collect();
        let mut found = strides.take_quantiles(&wanted)?.into_iter();
        let [low, high] = middle.map(|place| match place {
            Some(_) => found.next().unwrap_or(0.0),
            None => LOWEST,
        });
        vec![f64::midpoint(low, high)]
    };
    Ok(Locality {
        mean_stride_bytes,
        median_stride_bytes: quantiles.first().copied().unwrap_or(0.0),
        same_page_fraction: real(same_page) / real(count),
    })
}
