//! What comes out.

use memtrace_labeller::Records;

use crate::evidence::Rate;
use crate::late::LateStores;
use crate::options::Semantics;
use crate::region_list::RegionList;
use crate::verdict::Verdict;

/// A region.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct RegionMetrics {
    /// Its id.
    pub region_id: u64,
    /// Index of its type in [`Analysis::types`], that of its first row.
    pub type_index: usize,
    /// Earliest store, or earliest row when nothing was stored.
    pub first_write_ns: u64,
    /// Latest load, or `first_write_ns` when nothing was loaded.
    pub last_read_ns: u64,
    /// From the first to the second, at least 0.
    pub retention_ns: u64,
    /// Loads.
    pub total_reads: u64,
    /// Stores.
    pub total_writes: u64,
    /// Loads, each counted as the accesses it stands for; in the reference's semantics, which has no periods, each counted once.
    pub weighted_reads: u64,
    /// Stores, counted in the same way.
    pub weighted_writes: u64,
    /// Distinct pages.
    pub unique_pages: u64,
    /// Distinct addresses that were stored to.
    pub n_written_addresses: u64,
    /// Those of them that were stored to exactly once.
    pub n_write_once_addresses: u64,
    /// Rows.
    pub n_accesses: u64,
    /// Mean distance between one access and the next.
    pub mean_stride_bytes: f64,
    /// Median of the same.
    pub median_stride_bytes: f64,
    /// Share of neighbouring accesses on the same page.
    pub same_page_fraction: f64,
    /// Longest time between two loads (between store and load if there is one load, between stores if there is none). Loads come in
    /// bursts, so that what is usual within a burst says nothing about when the next one is due.
    pub gap_ns: u64,
    /// Time after which the region's first addresses are loaded again: the period of a region that is loaded from end to end. The whole
    /// time from the first store to the last load where none of them was loaded twice.
    pub return_ns: u64,
    /// `true` if the region was loaded from before any store to it was recorded: its life began earlier.
    pub begun_before: bool,
    /// `true` if its life may have begun earlier: it is stored to over and over, and was so within that time of the beginning of the
    /// recording.
    pub may_begin_before: bool,
    /// When the region was allocated, where that is known: a block of a table of KV blocks.
    pub allocated_ns: Option<u64>,
    /// When it was freed, where that is known.
    pub freed_ns: Option<u64>,
}

impl RegionMetrics {
    /// Retention in seconds.
    #[must_use]
    pub fn retention_s(&self) -> f64 {
        crate::quantile::real(self.retention_ns) / 1e9
    }

    /// Share of the written addresses that were written once; `None` when nothing was written.
    #[must_use]
    pub fn write_once_ratio(&self) -> Option<f64> {
        (self.n_written_addresses > 0).then(|| {
            crate::quantile::real(self.n_write_once_addresses)
                / crate::quantile::real(self.n_written_addresses)
        })
    }

    /// Loads among loads and stores, 0 when there are neither. Loads and stores may be sampled with different periods, so each row
    /// counts as the accesses it stands for.
    #[must_use]
    pub fn read_fraction(&self) -> f64 {
        let all = self.weighted_reads.saturating_add(self.weighted_writes);
        if all == 0 {
            0.0
        } else {
            crate::quantile::real(self.weighted_reads) / crate::quantile::real(all)
        }
    }

    /// Loads for each store, each row counted as the accesses it stands for; 0 when nothing was stored.
    #[must_use]
    pub fn reads_per_write(&self) -> f64 {
        if self.weighted_writes == 0 {
            0.0
        } else {
            crate::quantile::real(self.weighted_reads) / crate::quantile::real(self.weighted_writes)
        }
    }
}

/// Intervals between accesses of the same address.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Intervals {
    /// How many.
    pub n_intervals: u64,
    /// Median; see the semantics for how it is rounded.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Mean.
    pub mean_ns: f64,
}

/// Values: what a store leaves, until the next store to the same address.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Values {
    /// Values, one for each store.
    pub n_values: u64,
    /// Those that a load read.
    pub n_read: u64,
    /// Those of them whose last load came within a step of the clock ([`Analysis::resolution_ns`]): all that is known of their
    /// retention is that it is shorter.
    pub n_below_resolution: u64,
    /// Quantiles of the time from the store to the last load of its value (0 for values that nothing read): 50, 90, 99 %, mean.
    /// `None` without values.
    pub retention_ns: Option<[f64; 4]>,
    /// Loads whose value's store was seen.
    pub n_reads: u64,
    /// Loads whose value was stored before the capture began, as far as is known.
    pub n_reads_before_store: u64,
    /// Loads whose store was not recorded, of a region that was allocated while the recording ran: their data is at most as old as
    /// the allocation.
    pub n_reads_since_allocation: u64,
    /// Quantiles of the time from the store to the load: 50, 90, 99 %, mean. The 99 % are the retention that memory must
    /// give so that 99 % of the loads find their data. `None` where no load's store was seen.
    pub read_age_ns: Option<[f64; 4]>,
}

/// An estimate with a confidence interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What sampling hides, estimated.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Sampling {
    /// Accesses that the samples stand for.
    pub accesses: Estimate,
    /// Share of loads (Wilson's interval).
    pub read_fraction: Estimate,
    /// Distinct addresses, at least (Chao's estimate of 1984 in its bias-corrected form, with Chao's log-normal interval of 1987).
    pub addresses: Estimate,
    /// Share of the accesses that go to addresses that were seen (Good and Turing).
    pub coverage: f64,
}

impl TypeMetrics {
    /// Returns `true` if the type has loads or stores. Without them nothing is known about its retention.
    #[must_use]
    pub fn has_accesses(&self) -> bool {
        self.loads + self.stores > 0
    }

    /// Returns `true` if every access of the type was recorded, as far as can be told.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let rate = self.verdict.as_ref().map(|verdict| verdict.rate);
        rate == Some(Rate::Complete)
    }

    /// Returns `true` if it is known that accesses of the type are missing.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        let rate = self.verdict.as_ref().map(|verdict| verdict.rate);
        matches!(rate, Some(Rate::Sampled(_)))
    }

    /// Mean share of written addresses that are written once. In our semantics only where every access was recorded: samples show too
    /// few stores.
    #[must_use]
    pub fn write_once(&self) -> Option<f64> {
        let is_known = self
            .verdict
            .as_ref()
            .is_none_or(|verdict| verdict.write_once.is_some());
        let is_whole = self.verdict.is_none() || self.is_complete();
        self.write_once_ratio_mean.filter(|_| is_known && is_whole)
    }

    /// Age of data when it is read, ns: 50, 90, 99 %, each where its bounds are less than a factor of two apart.
    #[must_use]
    pub fn read_ages(&self) -> [Option<f64>; 3] {
        let ages = self
            .verdict
            .as_ref()
            .and_then(|verdict| verdict.read_age_ns);
        ages.map_or([None; 3], |ages| ages.map(|age| age.value()))
    }
}

/// A region type.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TypeMetrics {
    /// Its name.
    pub region_type: String,
    /// Regions whose first row has this type; 0 for a type that only later rows of other regions have.
    pub n_regions: u64,
    /// Quantiles of retention over regions, seconds: 50, 90, 99 %, mean. Without loads and stores they are 0 and mean nothing.
    pub retention_s: [f64; 4],
    /// Mean retention with regions weighted by their accesses, seconds.
    pub retention_mean_by_accesses_s: f64,
    /// Mean retention with regions weighted by their pages, seconds.
    pub retention_mean_by_bytes_s: f64,
    /// Mean write-once ratio of the regions that were written.
    pub write_once_ratio_mean: Option<f64>,
    /// The same, with regions weighted by their written addresses.
    pub write_once_ratio_by_addresses: Option<f64>,
    /// Mean of reads per write over regions.
    pub reads_per_write_mean: f64,
    /// Pages, a page counted once for each region that has it.
    pub total_pages: u64,
    /// Pages of the largest region.
    pub max_pages_per_region: u64,
    /// Mean stride over regions.
    pub mean_stride_bytes: f64,
    /// Mean over regions of their median strides.
    pub median_stride_bytes: f64,
    /// Mean over regions.
    pub same_page_fraction: f64,
    /// Intervals between accesses of the same address; `None` when there are none.
    pub intervals: Option<Intervals>,
    /// Suitability: `high_mrm`, `medium_mrm`, `low_mrm`; in our semantics also `unknown`, `too_few_samples` and
    /// `cannot_say`, see [`Verdict`].
    pub suitability: &'static str,
    /// What can be concluded, and how sure that is; our semantics only.
    pub verdict: Option<Verdict>,
    /// Rows of this type.
    pub samples: u64,
    /// Loads among the rows.
    pub loads: u64,
    /// Accesses that the loads among the rows stand for; equal to `loads` where no period is stated.
    pub weighted_loads: u64,
    /// Accesses that the stores among the rows stand for.
    pub weighted_stores: u64,
    /// Stores among the rows. Rows that are neither are first touches (page faults), of which only place and time are known.
    pub stores: u64,
    /// Stores in the second half of the recording; our semantics only.
    pub late_stores: LateStores,
    /// Distinct pages. Our semantics only, as all that follow; 0 otherwise.
    pub distinct_pages: u64,
    /// Pages that were touched first in the last quarter of the recording.
    pub late_pages: u64,
    /// Distinct lines of 64 bytes.
    pub distinct_lines: u64,
    /// Pages that several threads touched.
    pub shared_pages: u64,
    /// What stores leave.
    pub values: Option<Values>,
    /// What sampling hides.
    pub sampling: Option<Sampling>,
    /// Distinct pages in each window.
    pub window_pages: Vec<u64>,
    /// `true` if samples stand for different numbers of accesses: counts of samples over time then do not show how many accesses
    /// there were.
    pub periods_vary: bool,
    /// Loads in each window.
    pub window_loads: Vec<u64>,
    /// Stores in each window.
    pub window_stores: Vec<u64>,
    /// Accesses in each window by where they went, in order of addresses.
    pub bands: Vec<AddressBand>,
}

/// Neighbouring pages of a type that were touched, and how often over time. Pages that nobody touched are in none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddressBand {
    /// The first of the pages.
    pub first_page: u64,
    /// How many.
    pub pages: u64,
    /// Accesses in each window.
    pub accesses: Vec<u64>,
}

/// Reuse of pages.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Reuse {
    /// Share of the pages that was followed; 1 when exact.
    pub sampled_share: f64,
    /// First touches.
    pub cold: u64,
    /// Accesses by the number of other pages touched since the last time: largest distance of a bucket, count.
    pub histogram: Vec<(u64, u64)>,
    /// Miss ratio by cache size in pages, for a cache that evicts what was used longest ago.
    pub miss_ratios: Vec<(u64, f64)>,
}

/// Accesses of a type while a token was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenAccesses {
    /// The token.
    pub token_index: u32,
    /// Index of the type in [`Analysis::types`].
    pub type_index: usize,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
}

/// Everything.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Analysis {
    /// Whether definitions are the tool's own or those of the reference.
    pub semantics: Semantics,
    /// Rows.
    pub rows: u64,
    /// Accesses that the rows stand for.
    pub weighted_rows: u64,
    /// Earliest time; 0 without rows.
    pub first_ns: u64,
    /// Latest time.
    pub last_ns: u64,
    /// Whether the rows came in order of time.
    pub in_order: bool,
    /// Whether addresses beyond 64 bits were met, with which the reference has neither locality nor suitability.
    pub wide_addresses: bool,
    /// Regions by id.
    pub regions: RegionList,
    /// Types in byte order.
    pub types: Vec<TypeMetrics>,
    /// Distinct pages of the whole trace; our semantics only.
    pub distinct_pages: u64,
    /// Length of a window.
    pub window_ns: u64,
    /// Reuse of pages; our semantics only.
    pub reuse: Option<Reuse>,
    /// Accesses by token, where rows say the token.
    pub tokens: Vec<TokenAccesses>,
    /// Largest relative error of quantiles over values, intervals and strides; 0 when they are exact.
    pub quantile_error: f64,
    /// Step of the clock, 0 when times are exact.
    pub resolution_ns: u64,
    /// `true` if times are no times: see [`AnalysisOptions::made_up_clock`](crate::AnalysisOptions::made_up_clock).
    pub made_up_clock: bool,
    /// What the rows are; accesses in the reference's semantics.
    pub records: Records,
    /// Processes that rows state, whose equal addresses are different memory; 0 where they state none, or in the reference's semantics.
    pub processes: usize,
}
