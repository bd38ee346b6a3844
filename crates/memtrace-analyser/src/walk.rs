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

/// The region whose rows come.
struct Region {
    before: Step,
    min_store: Option<u64>,
    min_any: u64,
    min_load: Option<u64>,
    max_store: Option<u64>,
    max_load: Option<u64>,
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
            self.min_store = self.min_store.or(Some(step.time));
            self.max_store = Some(step.time);
        } else if step.op == LOAD {
            self.loads += 1;
            self.weighted_loads = self.weighted_loads.saturating_add(step.period());
            self.min_load = self.min_load.or(Some(step.time));
            self.max_load = Some(step.time);
        }
    }

    fn stride(&mut self, step: &Step, strides: &mut OrderStats, is_reference: bool) -> Result<()> {
        // As the reference: differences of two's complement, then their size.
        let difference = step.address.wrapping_sub(self.before.address).cast_signed();
        if is_reference && difference == i64::MIN {
            self.lowest += 1;
        } else {
            strides.push(difference.unsigned_abs())?;
        }
        self.same_page += u64::from(step.page() == self.before.page());
        self.before = *step;
        Ok(())
    }

    /// Usual time between two accesses that matter: loads, else what there is.
    fn gap_ns(&self) -> u64 {
        let mean = |first: Option<u64>, last: Option<u64>, count: u64| {
            let span = last.unwrap_or(0).saturating_sub(first.unwrap_or(0));
            span / count.saturating_sub(1).max(1)
        };
        match self.loads {
            0 => mean(self.min_store, self.max_store, self.stores),
            1 => mean(self.min_store, self.max_load, 2),
            loads => mean(self.min_load, self.max_load, loads),
        }
    }

    fn end(self, strides: &mut OrderStats, regions: &Regions) -> Result<Placed> {
        let at = self.before.region;
        let first_write_ns = self.min_store.unwrap_or(self.min_any);
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
            begun_before: match (self.min_load, self.min_store) {
                (Some(load), Some(store)) => load < store,
                (load, _) => load.is_some(),
            },
        };
        Ok(Placed { at, metrics })
    }
}

/// Walks all regions. With `by_time` their pages are handed on to it.
pub(crate) fn scan_walks(
    sorter: Sorter<ByRegion>,
    regions: &Regions,
    options: &AnalysisOptions,
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
            scan.regions.push(done.end(&mut strides, regions)?)?;
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
