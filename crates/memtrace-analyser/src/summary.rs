//! From scans to the result.

use crate::addresses::{AddressScan, KindAddresses, Windows};
use crate::engine::{Extent, RegionState};
use crate::error::Result;
use crate::options::{AnalysisOptions, Semantics};
use crate::quantile::{OrderStats, mean, quantile, real};
use crate::result::{
    Analysis, Estimate, Intervals, RegionMetrics, Reuse, Sampling, TokenAccesses, TypeMetrics,
    Values,
};
use crate::reuse::ReuseScan;
use crate::sketch::RELATIVE_ERROR;
use crate::tokens::TokenCounts;
use crate::walk::WalkScan;

const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// Two-sided 95 % of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

#[expect(
    clippy::too_many_arguments,
    reason = "the parts of the analysis meet here, once"
)]
pub(crate) fn summarise(
    options: AnalysisOptions,
    states: Vec<RegionState>,
    kinds: Vec<String>,
    extent: Extent,
    addresses: AddressScan,
    walks: WalkScan,
    reuse: Option<ReuseScan>,
    tokens: TokenCounts,
) -> Result<Analysis> {
    // Types in byte order.
    let mut order: Vec<usize> = (0..kinds.len()).collect();
    order.sort_by(|a, b| kinds.get(*a).cmp(&kinds.get(*b)));
    let mut rank = vec![0; kinds.len()];
    for (at, kind) in order.iter().enumerate() {
        if let Some(place) = rank.get_mut(*kind) {
            *place = at;
        }
    }
    let rank_of = |kind: u16| rank.get(usize::from(kind)).copied().unwrap_or(0);

    let mut regions: Vec<RegionMetrics> = states
        .iter()
        .zip(&addresses.regions)
        .zip(&walks.regions)
        .map(|((state, seen), walk)| {
            let first_write_ns = state.min_store.unwrap_or(state.min_any);
            let last_read_ns = state.max_load.unwrap_or(first_write_ns);
            RegionMetrics {
                region_id: state.id,
                type_index: rank_of(state.kind),
                first_write_ns,
                last_read_ns,
                retention_ns: last_read_ns.saturating_sub(first_write_ns),
                total_reads: state.loads,
                total_writes: state.stores,
                weighted_reads: state.weighted_loads,
                weighted_writes: state.weighted_stores,
                unique_pages: seen.pages,
                n_written_addresses: seen.written,
                n_write_once_addresses: seen.written_once,
                n_accesses: state.rows,
                mean_stride_bytes: walk.mean_stride_bytes,
                median_stride_bytes: walk.median_stride_bytes,
                same_page_fraction: walk.same_page_fraction,
            }
        })
        .collect();
    regions.sort_by_key(|region| region.region_id);
    if options.semantics == Semantics::Mrm {
        round_as_reference(&mut regions, &states);
    }

    let mut kind_scans: Vec<Option<KindAddresses>> =
        addresses.kinds.into_iter().map(Some).collect();
    let mut by_type: Vec<Vec<&RegionMetrics>> = vec![Vec::new(); order.len()];
    for region in &regions {
        if let Some(own) = by_type.get_mut(region.type_index) {
            own.push(region);
        }
    }
    let mut types = Vec::with_capacity(order.len());
    for (at, kind) in order.iter().enumerate() {
        let own = by_type.get_mut(at).map(std::mem::take).unwrap_or_default();
        let scan = kind_scans.get_mut(*kind).and_then(Option::take);
        let name = kinds.get(*kind).cloned().unwrap_or_default();
        types.push(of_type(name, &own, scan, &options, extent)?);
    }
    let reuse = reuse.map(|scan| Reuse {
        sampled_share: scan.sampled_share(),
        cold: scan.cold(),
        histogram: scan.histogram(),
        miss_ratios: scan.miss_ratios(),
    });
    let tokens = tokens
        .by_token
        .into_iter()
        .map(|((token_index, kind), (loads, stores))| TokenAccesses {
            token_index,
            type_index: rank_of(kind),
            loads,
            stores,
        })
        .collect();
    Ok(Analysis {
        semantics: options.semantics,
        rows: extent.rows,
        weighted_rows: extent.weighted,
        first_ns: if extent.rows == 0 { 0 } else { extent.first_ns },
        last_ns: extent.last_ns,
        in_order: extent.sorted,
        wide_addresses: extent.wide,
        regions,
        types,
        distinct_pages: addresses.pages,
        window_ns: Windows::new(extent, options.windows).width,
        reuse,
        tokens,
        resolution_ns: options.resolution_ns,
        quantile_error: if options.approximate {
            RELATIVE_ERROR
        } else {
            0.0
        },
    })
}

/// The reference's columns pass through doubles when a region lacks a store (or a load).
fn round_as_reference(regions: &mut [RegionMetrics], states: &[RegionState]) {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the loss is what the reference does"
    )]
    let through_double = |time: u64| (time as f64) as u64;
    let stores_missing = states.iter().any(|state| state.min_store.is_none());
    let loads_missing = states.iter().any(|state| state.max_load.is_none());
    for region in regions {
        if stores_missing {
            region.first_write_ns = through_double(region.first_write_ns);
        }
        if loads_missing {
            region.last_read_ns = through_double(region.last_read_ns);
        }
        region.retention_ns = region.last_read_ns.saturating_sub(region.first_write_ns);
    }
}

fn of_type(
    region_type: String,
    own: &[&RegionMetrics],
    scan: Option<KindAddresses>,
    options: &AnalysisOptions,
    extent: Extent,
) -> Result<TypeMetrics> {
    let native = options.semantics == Semantics::Native;
    let n = own.len() as u64;
    let average = |of: &dyn Fn(&RegionMetrics) -> f64| {
        if own.is_empty() {
            0.0
        } else {
            own.iter().map(|region| of(region)).sum::<f64>() / real(n)
        }
    };
    let weighted = |weight: &dyn Fn(&RegionMetrics) -> u64| {
        let all: u64 = own.iter().map(|region| weight(region)).sum();
        if all == 0 {
            return 0.0;
        }
        own.iter()
            .map(|region| region.retention_s() * real(weight(region)))
            .sum::<f64>()
            / real(all)
    };
    let mut retention: Vec<f64> = own.iter().map(|region| region.retention_s()).collect();
    retention.sort_by(f64::total_cmp);
    let quantile_of = |q| {
        quantile(retention.len(), q, |at| {
            retention.get(at).copied().unwrap_or(0.0)
        })
    };
    let retention_s = [
        quantile_of(0.5),
        quantile_of(0.9),
        quantile_of(0.99),
        average(&RegionMetrics::retention_s),
    ];
    let ratios: Vec<f64> = own
        .iter()
        .filter_map(|region| region.write_once_ratio())
        .collect();
    let write_once_ratio_mean =
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / real(ratios.len() as u64));
    let written: u64 = own.iter().map(|region| region.n_written_addresses).sum();
    let once: u64 = own.iter().map(|region| region.n_write_once_addresses).sum();
    let samples: u64 = own.iter().map(|region| region.n_accesses).sum();
    let mut metrics = TypeMetrics {
        n_regions: n,
        retention_s,
        retention_mean_by_accesses_s: weighted(&|region| region.n_accesses),
        retention_mean_by_bytes_s: weighted(&|region| region.unique_pages),
        write_once_ratio_mean,
        write_once_ratio_by_addresses: (written > 0).then(|| real(once) / real(written)),
        reads_per_write_mean: average(&RegionMetrics::reads_per_write),
        total_pages: own.iter().map(|region| region.unique_pages).sum(),
        max_pages_per_region: own
            .iter()
            .map(|region| region.unique_pages)
            .max()
            .unwrap_or(0),
        mean_stride_bytes: average(&|region| region.mean_stride_bytes),
        median_stride_bytes: average(&|region| region.median_stride_bytes),
        same_page_fraction: average(&|region| region.same_page_fraction),
        intervals: None,
        suitability: "low_mrm",
        samples,
        distinct_pages: 0,
        distinct_lines: 0,
        shared_pages: 0,
        values: None,
        sampling: None,
        window_pages: Vec::new(),
        window_loads: Vec::new(),
        window_stores: Vec::new(),
        bands: Vec::new(),
        region_type,
    };
    metrics.suitability = suitability(&metrics, options);
    if let Some(mut scan) = scan {
        metrics.intervals = intervals(&mut scan.intervals, native)?;
        if native {
            metrics.sampling = sampling(own, &scan, extent);
            metrics.values = Some(values(&mut scan)?);
            metrics.distinct_pages = scan.pages;
            metrics.distinct_lines = scan.lines;
            metrics.shared_pages = scan.shared_pages;
            metrics.window_pages = scan.window_pages;
            metrics.window_loads = scan.window_loads;
            metrics.window_stores = scan.window_stores;
            metrics.bands = scan.bands.bands;
        }
    }
    Ok(metrics)
}

fn suitability(metrics: &TypeMetrics, options: &AnalysisOptions) -> &'static str {
    if options.semantics == Semantics::Native {
        if metrics.region_type == "unknown" {
            return "unknown";
        }
        if metrics.samples < options.min_samples {
            return "too_few_samples";
        }
    }
    let limits = options.limits;
    let ratio = metrics.write_once_ratio_mean.unwrap_or(0.0);
    let [p50, _, p99, _] = metrics.retention_s;
    if ratio >= limits.high_write_once && p99 >= limits.high_retention_s {
        "high_mrm"
    } else if ratio >= limits.medium_write_once && p50 >= limits.medium_retention_s {
        "medium_mrm"
    } else {
        "low_mrm"
    }
}

fn intervals(stats: &mut OrderStats, native: bool) -> Result<Option<Intervals>> {
    let n_intervals = stats.count();
    if n_intervals == 0 {
        return Ok(None);
    }
    let mean_ns = stats.mean();
    let quantiles = stats.take_quantiles(&QUANTILES)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole nanoseconds are wanted"
    )]
    let whole = |at: usize| {
        let value = quantiles.get(at).copied().unwrap_or(0.0);
        // The reference cuts the fraction off; we round, ties to even.
        (if native {
            value.round_ties_even()
        } else {
            value
        }) as u64
    };
    Ok(Some(Intervals {
        n_intervals,
        p50_ns: whole(0),
        p90_ns: whole(1),
        p99_ns: whole(2),
        mean_ns,
    }))
}

fn four(stats: &mut OrderStats) -> Result<[f64; 4]> {
    let mean = stats.mean();
    let quantiles = stats.take_quantiles(&QUANTILES)?;
    let at = |at: usize| quantiles.get(at).copied().unwrap_or(0.0);
    Ok([at(0), at(1), at(2), mean])
}

fn values(scan: &mut KindAddresses) -> Result<Values> {
    Ok(Values {
        n_values: scan.value_retention.count(),
        n_read: scan.values_read,
        n_below_resolution: scan.values_below,
        n_reads: scan.read_age.count(),
        n_reads_before_store: scan.reads_before_store,
        retention_ns: four(&mut scan.value_retention)?,
        read_age_ns: four(&mut scan.read_age)?,
    })
}

fn sampling(own: &[&RegionMetrics], scan: &KindAddresses, extent: Extent) -> Option<Sampling> {
    let loads: u64 = own.iter().map(|region| region.total_reads).sum();
    let stores: u64 = own.iter().map(|region| region.total_writes).sum();
    let weighted: u64 = own
        .iter()
        .map(|region| region.weighted_reads + region.weighted_writes)
        .sum();
    let n = loads + stores;
    if n == 0 {
        return None;
    }
    let period = mean(u128::from(extent.weighted), extent.rows);
    // Samples are thinned accesses: with a share kept of 1/period, counts vary binomially.
    let spread = Z * (real(weighted) * (period - 1.0).max(0.0)).sqrt();
    let accesses = Estimate {
        value: real(weighted),
        low: (real(weighted) - spread).max(real(n)),
        high: real(weighted) + spread,
    };
    Some(Sampling {
        accesses,
        read_fraction: wilson(loads, n),
        addresses: chao(scan.addresses, scan.seen_once, scan.seen_twice),
        coverage: 1.0 - real(scan.seen_once) / real(n),
    })
}

/// Wilson's interval of a share.
fn wilson(hits: u64, n: u64) -> Estimate {
    let (n, share) = (real(n), real(hits) / real(n));
    let scale = 1.0 + Z * Z / n;
    let centre = (share + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    Estimate {
        value: share,
        low: (centre - half).max(0.0),
        high: (centre + half).min(1.0),
    }
}

/// Chao's lower bound of a number of kinds, from those seen, seen once and seen twice.
fn chao(seen: u64, once: u64, twice: u64) -> Estimate {
    let (d, f1, f2) = (real(seen), real(once), real(twice));
    let unseen = f1 * (f1 - 1.0).max(0.0) / (2.0 * (f2 + 1.0));
    if unseen <= 0.0 {
        return Estimate {
            value: d,
            low: d,
            high: d,
        };
    }
    let ratio = f1 / (f2 + 1.0);
    let variance = if twice > 0 {
        let r = f1 / f2;
        f2 * (r * r / 2.0 + r * r * r + r * r * r * r / 4.0)
    } else {
        unseen + f1 * (2.0 * f1 - 1.0) * (2.0 * f1 - 1.0) / 4.0 - f1.powi(4) / (4.0 * (d + unseen))
    };
    let factor = (Z * (1.0 + variance.max(ratio) / (unseen * unseen)).ln().sqrt()).exp();
    Estimate {
        value: d + unseen,
        low: d + unseen / factor,
        high: d + unseen * factor,
    }
}
