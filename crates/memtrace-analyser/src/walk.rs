//! How each region is walked, in order of time: strides.

use crate::engine::{Extent, RegionState, spill};
use crate::error::Result;
use crate::options::{AnalysisOptions, Semantics};
use crate::quantile::{OrderStats, real};
use crate::record::{ByRegion, ByTime, Record};
use spill_sort::Sorter;

/// Locality of a region.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RegionWalk {
    pub(crate) mean_stride_bytes: f64,
    pub(crate) median_stride_bytes: f64,
    pub(crate) same_page_fraction: f64,
}

/// Locality of all regions.
#[derive(Debug)]
pub(crate) struct WalkScan {
    pub(crate) regions: Vec<RegionWalk>,
}

/// Walks all regions. With `by_time` the rows are handed on to it.
pub(crate) fn scan_walks(
    sorter: Sorter<ByRegion>,
    states: &[RegionState],
    _kinds: usize,
    _extent: Extent,
    options: &AnalysisOptions,
    mut by_time: Option<Sorter<ByTime>>,
) -> Result<(WalkScan, Option<Sorter<ByTime>>)> {
    let mut regions = vec![RegionWalk::default(); states.len()];
    let mut strides = OrderStats::new(spill(options, 8), options.approximate);
    let mut same_page = 0_u64;
    let is_reference = options.semantics == Semantics::Mrm;
    let mut lowest = 0_u64;
    let mut before: Option<Record> = None;
    let mut records = sorter.finish()?;
    loop {
        let record = records.next_item()?;
        let ends =
            before.is_some_and(|before| record.is_none_or(|now| now.region != before.region));
        if ends && let Some(done) = before {
            if let Some(region) = regions.get_mut(done.region as usize) {
                *region = walk(&mut strides, lowest, same_page)?;
            }
            same_page = 0;
            lowest = 0;
            before = None;
        }
        let Some(record) = record else { break };
        if let Some(by_time) = &mut by_time {
            by_time.push(record)?;
        }
        if let Some(before) = before {
            // As the reference: differences of two's complement, then their size.
            let difference = record.address.wrapping_sub(before.address).cast_signed();
            if is_reference && difference == i64::MIN {
                lowest += 1;
            } else {
                strides.push(difference.unsigned_abs())?;
            }
            same_page += u64::from(record.page == before.page);
        }
        before = Some(record);
    }
    Ok((WalkScan { regions }, by_time))
}

/// Locality from strides, and how often the difference was the lowest integer: of that the reference has no size, since two's
/// complement has none, and leaves it negative.
fn walk(strides: &mut OrderStats, lowest: u64, same_page: u64) -> Result<RegionWalk> {
    const LOWEST: f64 = -9_223_372_036_854_775_808.0;
    let sized = strides.count();
    let count = sized + lowest;
    if count == 0 {
        return Ok(RegionWalk::default());
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
    Ok(RegionWalk {
        mean_stride_bytes,
        median_stride_bytes: quantiles.first().copied().unwrap_or(0.0),
        same_page_fraction: real(same_page) / real(count),
    })
}
