//! From scans to the result.

use memtrace_labeller::Records;
use spill_sort::SpillList;

use crate::addresses::{AddressScan, KindAddresses, Windows};
use crate::engine::{Extent, spill};
use crate::error::Result;
use crate::evidence::{Rate, Recording};
use crate::late::LateStores;
use crate::lives::Lives;
use crate::options::{AnalysisOptions, Semantics};
use crate::quantile::{OrderStats, real};
use crate::region_list::RegionList;
use crate::result::{
    Analysis, Estimate, Intervals, RegionMetrics, Reuse, Sampling, TokenAccesses, TypeMetrics,
    Values,
};
use crate::reuse::ReuseScan;
use crate::sketch::RELATIVE_ERROR;
use crate::tokens::TokenCounts;
use crate::verdict::{Bounds, Grounds, class_of, verdict};
use crate::walk::WalkScan;

const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// Design effect from which the periods of samples differ.
const VARYING: f64 = 1.05;
/// Two-sided 95 % of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

pub(crate) fn summarise(
    options: AnalysisOptions,
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

    let mut sums: Vec<TypeSums> = order
        .iter()
        .map(|kind| {
            let rate = addresses.kinds.get(*kind).map(|kind| kind.evidence.rate());
            let complete = rate == Some(Rate::Complete);
            TypeSums::new(&options, order.len(), complete, extent.last_ns)
        })
        .collect();
    let mut regions = SpillList::new(spill(&options, 16));
    let mut placed = walks.regions.finish()?;
    while let Some(region) = placed.next_item()? {
        let (at, mut region) = (region.at, region.metrics);
        region.type_index = rank.get(region.type_index).copied().unwrap_or(0);
        let covered = addresses.regions.covered.get(&at).copied().unwrap_or(0);
        region.unique_pages = addresses.regions.pages.get(at).max(covered);
        region.n_written_addresses = addresses.regions.written.get(at);
        region.n_write_once_addresses = addresses.regions.written_once.get(at);
        if options.semantics == Semantics::Mrm {
            (region.weighted_reads, region.weighted_writes) =
                (region.total_reads, region.total_writes);
            round_as_reference(&mut region, walks.without_stores, walks.without_loads);
        }
        if let Some(sums) = sums.get_mut(region.type_index) {
            sums.add(&region)?;
        }
        regions.push(region)?;
    }
    for sums in &mut sums {
        sums.end_pauses()?;
    }
    for region in &regions {
        let region = region?;
        if let Some(sums) = sums.get_mut(region.type_index) {
            sums.life(&region)?;
        }
    }

    let recording = addresses.recording;
    let mut kind_scans: Vec<Option<KindAddresses>> =
        addresses.kinds.into_iter().map(Some).collect();
    let mut types = Vec::with_capacity(order.len());
    for (kind, sums) in order.iter().zip(sums) {
        let scan = kind_scans.get_mut(*kind).and_then(Option::take);
        let name = kinds.get(*kind).cloned().unwrap_or_default();
        types.push(of_type(name, sums, scan, recording, &options)?);
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
        regions: RegionList::new(regions),
        types,
        distinct_pages: addresses.pages,
        window_ns: Windows::new(extent, options.windows).width,
        reuse,
        tokens,
        resolution_ns: options.resolution_ns,
        made_up_clock: options.made_up_clock,
        processes: 0,
        records: match options.semantics {
            Semantics::Mrm => Records::Accesses,
            Semantics::Native => options.records,
        },
        quantile_error: if options.approximate {
            RELATIVE_ERROR
        } else {
            0.0
        },
    })
}

/// The reference's columns pass through doubles when any region lacks a store (or a load).
fn round_as_reference(region: &mut RegionMetrics, without_stores: bool, without_loads: bool) {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the loss is what the reference does"
    )]
    let through_double = |time: u64| (time as f64) as u64;
    if without_stores {
        region.first_write_ns = through_double(region.first_write_ns);
    }
    if without_loads {
        region.last_read_ns = through_double(region.last_read_ns);
    }
    region.retention_ns = region.last_read_ns.saturating_sub(region.first_write_ns);
}

/// What the regions of a type add up to, in order of their ids.
struct TypeSums {
    /// Whether every access was recorded.
    complete: bool,
    end_ns: u64,
    /// Retention that is known to be no longer, of regions of which that is known.
    retention_at_most: OrderStats,
    cut_by_end: u64,
    begun_before: u64,
    /// Regions of which only a part of the life is known.
    partly: u64,
    lives: Lives,
    pauses: OrderStats,
    usual_pause: u64,
    regions: u64,
    retention: OrderStats,
    retention_s: f64,
    retention_by_accesses: f64,
    retention_by_pages: f64,
    accesses: u64,
    pages: u64,
    max_pages: u64,
    ratios: f64,
    written_regions: u64,
    written: u64,
    written_once: u64,
    reads_per_write: f64,
    mean_stride: f64,
    median_stride: f64,
    same_page: f64,
    loads: u64,
    stores: u64,
    weighted_loads: u64,
    weighted_stores: u64,
}

impl TypeSums {
    fn new(options: &AnalysisOptions, types: usize, complete: bool, end_ns: u64) -> Self {
        let stats = || OrderStats::new(spill(options, 32 * types.max(1) as u64), false);
        Self {
            complete,
            end_ns,
            retention_at_most: stats(),
            cut_by_end: 0,
            begun_before: 0,
            partly: 0,
            lives: Lives::new(spill(options, 32 * types.max(1) as u64)),
            pauses: stats(),
            usual_pause: 0,
            regions: 0,
            retention: stats(),
            retention_s: 0.0,
            retention_by_accesses: 0.0,
            retention_by_pages: 0.0,
            accesses: 0,
            pages: 0,
            max_pages: 0,
            ratios: 0.0,
            written_regions: 0,
            written: 0,
            written_once: 0,
            reads_per_write: 0.0,
            mean_stride: 0.0,
            median_stride: 0.0,
            same_page: 0.0,
            loads: 0,
            stores: 0,
            weighted_loads: 0,
            weighted_stores: 0,
        }
    }

    fn add(&mut self, region: &RegionMetrics) -> Result<()> {
        let retention_s = region.retention_s();
        self.regions += 1;
        self.retention.push(region.retention_ns)?;
        self.retention_s += retention_s;
        let weighted = region.weighted_reads.saturating_add(region.weighted_writes);
        self.retention_by_accesses += retention_s * real(weighted);
        self.retention_by_pages += retention_s * real(region.unique_pages);
        self.accesses += region.n_accesses;
        self.pages += region.unique_pages;
        self.max_pages = self.max_pages.max(region.unique_pages);
        if let Some(ratio) = region.write_once_ratio() {
            self.ratios += ratio;
            self.written_regions += 1;
        }
        self.written += region.n_written_addresses;
        self.written_once += region.n_write_once_addresses;
        self.reads_per_write += region.reads_per_write();
        self.mean_stride += region.mean_stride_bytes;
        self.median_stride += region.median_stride_bytes;
        self.same_page += region.same_page_fraction;
        self.loads += region.total_reads;
        self.stores += region.total_writes;
        // Periods are what the input says, and may be anything.
        self.weighted_loads = self.weighted_loads.saturating_add(region.weighted_reads);
        self.weighted_stores = self.weighted_stores.saturating_add(region.weighted_writes);
        self.pauses.push(self.pause_of(region))
    }

    /// Longest time for which a region was idle before it was accessed again.
    fn pause_of(&self, region: &RegionMetrics) -> u64 {
        // A sampled address comes again only when it is sampled again, which says nothing about its period.
        match self.complete {
            true => region.gap_ns.max(region.return_ns),
            false => region.gap_ns,
        }
    }

    /// Finds the pause that is usual, when all regions are known: a session that waits for its user is idle for longer than it ever
    /// was, which others show that were awake again within the recording.
    fn end_pauses(&mut self) -> Result<()> {
        let found = self.pauses.take_quantiles(&[0.99])?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time from 0"
        )]
        let usual = found.first().copied().unwrap_or(0.0) as u64;
        self.usual_pause = usual;
        Ok(())
    }

    /// What is known of the end of a region's life. What was idle for up to twice as long as it or its like had been before may be
    /// accessed again after the end of the recording; what was sampled may have been accessed before and after its samples.
    fn life(&mut self, region: &RegionMetrics) -> Result<()> {
        let last = region.last_read_ns.max(region.first_write_ns);
        let idle = self.pause_of(region).max(self.usual_pause);
        // One sample shows no pause at all.
        let is_single = !self.complete && region.n_accesses < 2;
        let is_freed = region.freed_ns.is_some_and(|freed| freed <= self.end_ns);
        let cut =
            !is_freed && (is_single || self.end_ns.saturating_sub(last) <= idle.saturating_mul(2));
        self.cut_by_end += u64::from(cut);
        // Between samples may have been a store.
        self.begun_before += u64::from(region.begun_before && self.complete);
        let is_part = cut || region.begun_before || region.may_begin_before;
        self.partly += u64::from(is_part);
        if self.complete {
            self.lives.push(region.retention_ns, is_part)?;
        }
        if is_part {
            return Ok(());
        }
        if let (false, Some(allocated), Some(freed)) =
            (self.complete, region.allocated_ns, region.freed_ns)
        {
            let whole = freed.saturating_sub(allocated);
            self.retention_at_most
                .push(whole.max(region.retention_ns))?;
            return Ok(());
        }
        if !self.complete && region.total_reads < 2 {
            return Ok(());
        }
        let hidden = match self.complete {
            true => 0,
            false => region.gap_ns.saturating_mul(3),
        };
        self.retention_at_most
            .push(region.retention_ns.saturating_add(hidden))?;
        Ok(())
    }

    /// Accesses that the loads and stores stand for.
    fn weighted(&self) -> u64 {
        self.weighted_loads.saturating_add(self.weighted_stores)
    }

    /// Bounds of quantiles of retention, seconds, from those of what was seen.
    fn retention_bounds(&mut self, seen_s: [f64; 2]) -> Result<[Bounds; 2]> {
        let bounded = self.retention_at_most.count();
        // The rank among all regions, of which those without a bound are the longest.
        let rank = [0.5, 0.99].map(|q| q * real(self.regions.saturating_sub(1)));
        let last = real(bounded.saturating_sub(1));
        let wanted = rank.map(|rank| {
            if last > 0.0 {
                (rank / last).min(1.0)
            } else {
                0.0
            }
        });
        let found = self
            .retention_at_most
            .take_quantiles_of(&wanted, |ns| real(ns) / 1e9)?;
        let mut found = found.into_iter();
        let [a, b] = rank.map(|rank| found.next().filter(|_| bounded > 0 && rank <= last));
        // Where too many lives are cut off, those that are not show how long the others may last.
        let [c, d] = match self.complete && self.partly > 0 && (a.is_none() || b.is_none()) {
            true => self.lives.take_at_most([0.5, 0.99])?,
            false => [None; 2],
        };
        let [p50, p99] = seen_s;
        let high = |known: Option<f64>, estimated: Option<f64>, low: f64| {
            known.or(estimated).map(|high| high.max(low))
        };
        Ok([
            Bounds::new(p50, high(a, c, p50)),
            Bounds::new(p99, high(b, d, p99)),
        ])
    }
}

/// A sum over a count, 0 for none.
fn average(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / real(count) }
}

fn of_type(
    region_type: String,
    mut own: TypeSums,
    scan: Option<KindAddresses>,
    recording: Recording,
    options: &AnalysisOptions,
) -> Result<TypeMetrics> {
    let native = options.semantics == Semantics::Native;
    let n = own.regions;
    let quantiles = own
        .retention
        .take_quantiles_of(&QUANTILES, |ns| real(ns) / 1e9)?;
    let quantile_of = |at: usize| quantiles.get(at).copied().unwrap_or(0.0);
    let retention_s = [
        quantile_of(0),
        quantile_of(1),
        quantile_of(2),
        average(own.retention_s, n),
    ];
    let written_regions = own.written_regions;
    let mut metrics = TypeMetrics {
        n_regions: n,
        retention_s,
        retention_mean_by_accesses_s: average(own.retention_by_accesses, own.weighted()),
        retention_mean_by_bytes_s: average(own.retention_by_pages, own.pages),
        write_once_ratio_mean: (written_regions > 0).then(|| average(own.ratios, written_regions)),
        write_once_ratio_by_addresses: (own.written > 0)
            .then(|| real(own.written_once) / real(own.written)),
        reads_per_write_mean: average(own.reads_per_write, n),
        total_pages: own.pages,
        max_pages_per_region: own.max_pages,
        mean_stride_bytes: average(own.mean_stride, n),
        median_stride_bytes: average(own.median_stride, n),
        same_page_fraction: average(own.same_page, n),
        intervals: None,
        suitability: "low_mrm",
        verdict: None,
        samples: own.accesses,
        loads: own.loads,
        weighted_loads: own.weighted_loads,
        weighted_stores: own.weighted_stores,
        stores: own.stores,
        late_stores: LateStores::default(),
        distinct_pages: 0,
        late_pages: 0,
        distinct_lines: 0,
        shared_pages: 0,
        values: None,
        sampling: None,
        window_pages: Vec::new(),
        periods_vary: false,
        window_loads: Vec::new(),
        window_stores: Vec::new(),
        bands: Vec::new(),
        region_type,
    };
    let [p50, _, p99, _] = metrics.retention_s;
    let ratio = metrics.write_once_ratio_mean;
    metrics.suitability = class_of(&options.limits, ratio.unwrap_or(0.0), p50, p99);
    if let Some(mut scan) = scan {
        metrics.intervals = intervals(&mut scan.intervals, native)?;
        if native {
            metrics.sampling = sampling(&own, &scan);
            let (values, ages) = values(&mut scan)?;
            metrics.values = Some(values);
            let bounds = |(low, high)| Bounds::new(low, Some(high));
            let has_accesses = options.records == Records::Accesses;
            let grounds = Grounds {
                rate: scan.evidence.rate(),
                coverage: metrics.sampling.map_or(0.0, |sampling| sampling.coverage),
                // By addresses, as samples bound it.
                write_once: (scan
                    .evidence
                    .write_once(metrics.write_once_ratio_by_addresses))
                .filter(|_| has_accesses)
                .map(bounds),
                retention_s: own.retention_bounds([p50, p99])?,
                cut_by_end: own.cut_by_end,
                begun_before: own.begun_before,
                partly: own.partly,
                never_stored: own.stores == 0 && own.loads > 0 && recording.is_complete,
                unchanged: scan
                    .late
                    .unchanged(&scan.evidence, recording.store_probability),
                shows_rewriting: scan.evidence.shows_rewriting(),
                data_since_ns: recording
                    .last_ns
                    .saturating_sub(scan.first_store_ns.unwrap_or(recording.first_ns)),
                read_age_ns: match scan.evidence.rate() {
                    // Pairs with stores that a recording cannot have bound no age.
                    _ if !has_accesses || !recording.has_stores => None,
                    Rate::Complete => ages,
                    Rate::Sampled(_) => scan
                        .evidence
                        .read_age(QUANTILES)
                        .map(|ages| ages.map(|(low, high)| Bounds::new(low, high))),
                    Rate::Unknown => None,
                },
                pairs: scan.evidence.pairs(),
                is_even: scan.evidence.is_even(),
                is_in_step: scan.evidence.is_in_step(),
            };
            let verdict = verdict(&metrics, grounds, options);
            metrics.suitability = verdict.class;
            metrics.verdict = Some(verdict);
            metrics.late_stores = scan.late.half;
            metrics.distinct_pages = scan.pages;
            metrics.late_pages = scan.late_pages;
            metrics.distinct_lines = scan.lines;
            metrics.shared_pages = scan.shared_pages;
            metrics.window_pages = scan.window_pages;
            metrics.periods_vary = scan.design.iter().any(|design| *design > VARYING);
            metrics.window_loads = scan.window_loads;
            metrics.window_stores = scan.window_stores;
            metrics.bands = scan.bands.bands;
        }
    }
    Ok(metrics)
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

fn four(stats: &mut OrderStats) -> Result<Option<[f64; 4]>> {
    if stats.count() == 0 {
        return Ok(None);
    }
    let mean = stats.mean();
    let quantiles = stats.take_quantiles(&QUANTILES)?;
    let at = |at: usize| quantiles.get(at).copied().unwrap_or(0.0);
    Ok(Some([at(0), at(1), at(2), mean]))
}

/// What stores leave, and bounds of the age of data when it is read: loads of what was stored before the recording began may have
/// found it at any age.
fn values(scan: &mut KindAddresses) -> Result<(Values, Option<[Bounds; 3]>)> {
    let (known, before) = (scan.read_age.count(), scan.reads_before_store);
    let since = scan.reads_since_allocation;
    let all = known + before + since;
    let share = average(real(before + since), all);
    let low = QUANTILES.map(|q| ((q - share) / (1.0 - share).max(f64::MIN_POSITIVE)).max(0.0));
    // Data that was stored since an allocation is at most as old.
    let share_before = average(real(before), all);
    let high = QUANTILES.map(|q| q / (1.0 - share_before).max(f64::MIN_POSITIVE));
    let oldest = match since {
        0 => None,
        _ => {
            let wanted = high.map(|q| q.min(1.0));
            Some(scan.age_at_most.take_quantiles(&wanted)?)
        }
    };
    let mean = scan.read_age.mean();
    let wanted: Vec<f64> = [QUANTILES, low, high]
        .as_flattened()
        .iter()
        .map(|q| q.min(1.0))
        .collect();
    let found = match known {
        0 => Vec::new(),
        _ => scan.read_age.take_quantiles(&wanted)?,
    };
    let at = |at: usize| found.get(at).copied().unwrap_or(0.0);
    let bound = |of: usize| {
        let is_known = high.get(of).is_some_and(|q| *q <= 1.0);
        let highest = match &oldest {
            Some(oldest) => oldest.get(of).copied().unwrap_or(0.0),
            None => at(6 + of),
        };
        Bounds::new(at(3 + of), is_known.then_some(highest.max(at(3 + of))))
    };
    let values = Values {
        n_values: scan.value_retention.count(),
        n_read: scan.values_read,
        n_below_resolution: scan.values_below,
        n_reads: known,
        n_reads_before_store: before,
        n_reads_since_allocation: since,
        retention_ns: four(&mut scan.value_retention)?,
        read_age_ns: (known > 0).then(|| [at(0), at(1), at(2), mean]),
    };
    let has_bounds = known + since > 0;
    Ok((values, has_bounds.then(|| [bound(0), bound(1), bound(2)])))
}

fn sampling(own: &TypeSums, scan: &KindAddresses) -> Option<Sampling> {
    let n = own.loads + own.stores;
    if n == 0 {
        return None;
    }
    let rows = [own.loads, own.stores].map(real);
    let weighted = [own.weighted_loads, own.weighted_stores].map(real);
    let all: f64 = weighted.iter().sum();
    // Samples are thinned accesses: with a share kept of 1/period, counts vary binomially. Loads and stores have periods of their own.
    let variance: f64 = rows
        .iter()
        .zip(&weighted)
        .zip(scan.design)
        .map(|((rows, weighted), design)| {
            let period = weighted / rows.max(1.0);
            weighted * (period * design - 1.0).max(0.0)
        })
        .sum();
    let spread = Z * variance.sqrt();
    let accesses = Estimate {
        value: all,
        low: (all - spread).max(real(n)),
        high: all + spread,
    };
    Some(Sampling {
        accesses,
        read_fraction: wilson(weighted, effective(rows, weighted, scan.design)),
        addresses: chao(scan.addresses, scan.seen_once, scan.seen_twice),
        coverage: 1.0 - real(scan.seen_once) / real(n),
    })
}

/// Number of equally sampled accesses whose share of loads is as uncertain as that of these rows: by the delta method from the
/// variances of the two estimated counts. It is the number of rows where all have the same period.
fn effective(rows: [f64; 2], weighted: [f64; 2], design: [f64; 2]) -> f64 {
    let [loads, stores] = weighted;
    if loads <= 0.0 || stores <= 0.0 {
        return rows.iter().zip(design).map(|(n, design)| n / design).sum();
    }
    let all = loads + stores;
    let relative: f64 = rows.iter().zip(design).map(|(n, design)| design / n).sum();
    all * all / (loads * stores * relative)
}

/// Wilson's interval of the share of the first of two counts, from so many observations.
fn wilson([hits, others]: [f64; 2], n: f64) -> Estimate {
    let share = hits / (hits + others);
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
pub(crate) fn chao(seen: u64, once: u64, twice: u64) -> Estimate {
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
