//! Collectives by type, group and size.

use std::collections::BTreeMap;

use serde::Serialize;
use trace_model::kernel::CommLibrary;
use trace_model::kernel::collective::CollectiveOp;

use crate::comm::digest::RankDigest;
use crate::comm::job::Job;
use rank_align::real::{count, real};
use stats::percentile;

/// Key of a row of collectives.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[non_exhaustive]
pub struct SummaryKey {
    /// Operation.
    pub op: Option<CollectiveOp>,
    /// Index of the group.
    pub group: usize,
    /// Dtype.
    pub dtype: Option<String>,
    /// Message size in bytes.
    pub bytes: Option<u64>,
    /// Library of the kernel.
    pub library: CommLibrary,
}

/// Collectives of one operation, group, dtype and size.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct CommSummary {
    /// Their key.
    pub key: SummaryKey,
    /// Number of collectives.
    pub collectives: usize,
    /// Number of these whose latency does not include waiting for ranks that are not recorded.
    pub complete: usize,
    /// Number of their kernels on all ranks.
    pub kernels: usize,
    /// Sum of the durations of all kernels.
    pub kernel_ns: i64,
    /// Part of `kernel_ns` in which no computation ran.
    pub exposed_ns: i64,
    /// Sum of latencies (shortest duration over ranks) of the complete collectives; if there are
    /// none, of all. The same holds for the other latencies.
    pub latency_ns: i64,
    /// Smallest latency.
    pub min_latency_ns: i64,
    /// Median latency.
    pub median_latency_ns: f64,
    /// Largest latency.
    pub max_latency_ns: i64,
    /// Mean skew of starts where it is known.
    pub mean_skew_ns: Option<f64>,
    /// Sum of all wait times; `None` if none is known.
    pub wait_ns: Option<i64>,
    /// `true` if latencies include waiting for ranks that are not recorded
    /// ([`CollectiveTime::includes_waiting`](crate::comm::CollectiveTime::includes_waiting)): if no
    /// collective is complete.
    pub includes_waiting: bool,
    /// Sum of message sizes divided by the sum of latencies, in bytes per second, over the complete
    /// collectives.
    pub algbw_bytes_per_s: Option<f64>,
    /// Bus bandwidth of `algbw_bytes_per_s`, in bytes per second.
    pub busbw_bytes_per_s: Option<f64>,
}

impl CommSummary {
    /// Returns the mean latency in nanoseconds, from which the bandwidths follow.
    pub fn mean_latency_ns(&self) -> Option<f64> {
        let n = self.measured();
        (n > 0).then(|| real(self.latency_ns) / count(n))
    }

    /// Returns the number of collectives that the latencies are of.
    pub fn measured(&self) -> usize {
        match self.complete {
            0 => self.collectives,
            complete => complete,
        }
    }

    /// Returns `true` if only a part of the collectives is complete.
    pub fn is_partly_complete(&self) -> bool {
        0 < self.complete && self.complete < self.collectives
    }
}

/// Summarizes the collectives of a job by operation, group, dtype, size and library; most kernel
/// time first.
pub fn summarise(digests: &[RankDigest], job: &Job) -> Vec<CommSummary> {
    #[derive(Default)]
    struct Sums {
        kernels: usize,
        kernel_ns: i64,
        exposed_ns: i64,
        /// Latencies of complete collectives; those of the others are in `with_waiting`.
        latencies: Vec<i64>,
        with_waiting: Vec<i64>,
        skews: Vec<i64>,
        wait_ns: Option<i64>,
        group_size: Option<u32>,
    }
    let mut table: BTreeMap<SummaryKey, Sums> = BTreeMap::new();
    for c in &job.collectives {
        let runs: Vec<_> = c
            .matched
            .runs
            .iter()
            .filter_map(|(member, place)| {
                let digest = digests.get(*member)?;
                Some((digest, digest.runs.get(*place)?))
            })
            .collect();
        let library = runs.first().map_or(CommLibrary::Other, |(_, r)| r.library);
        let key = SummaryKey {
            op: c.what.op,
            group: c.matched.group,
            dtype: c.what.dtype.clone(),
            bytes: c.what.bytes,
            library,
        };
        let sums = table.entry(key).or_default();
        sums.kernels += runs.len();
        sums.kernel_ns += runs.iter().map(|r| r.1.duration_ns()).sum::<i64>();
        sums.exposed_ns += runs.iter().map(|r| r.1.exposed_ns).sum::<i64>();
        match c.includes_waiting() {
            false => sums.latencies.push(c.latency_ns),
            true => sums.with_waiting.push(c.latency_ns),
        }
        sums.skews.extend(c.skew_ns);
        if c.knows_waits() {
            let wait = c.total_wait_ns();
            sums.wait_ns = Some(sums.wait_ns.map_or(wait, |sum| sum.saturating_add(wait)));
        }
        sums.group_size = sums.group_size.or(c.what.group_size);
    }
    let mut rows: Vec<CommSummary> = table
        .into_iter()
        .map(|(key, mut sums)| {
            let complete = sums.latencies.len();
            let collectives = complete + sums.with_waiting.len();
            if complete == 0 {
                sums.latencies = sums.with_waiting;
            }
            sums.latencies.sort_unstable();
            let n = sums.latencies.len();
            let latency_ns: i64 = sums.latencies.iter().sum();
            let at = |i: usize| sums.latencies.get(i).copied().unwrap_or(0);
            let algbw = (key.bytes.zip(sums.group_size))
                .filter(|(_, size)| *size > 1 && latency_ns > 0 && complete > 0)
                .map(|(bytes, _)| {
                    real(i64::try_from(bytes).unwrap_or(i64::MAX)) * count(n) / real(latency_ns)
                        * 1e9
                });
            let factor = key
                .op
                .zip(sums.group_size)
                .and_then(|(op, n)| op.bus_factor(n));
            CommSummary {
                collectives,
                complete,
                kernels: sums.kernels,
                kernel_ns: sums.kernel_ns,
                exposed_ns: sums.exposed_ns,
                latency_ns,
                min_latency_ns: at(0),
                median_latency_ns: percentile(&sums.latencies, 50.0),
                max_latency_ns: at(n.saturating_sub(1)),
                mean_skew_ns: (!sums.skews.is_empty())
                    .then(|| real(sums.skews.iter().sum()) / count(sums.skews.len())),
                wait_ns: sums.wait_ns,
                includes_waiting: complete == 0,
                algbw_bytes_per_s: algbw,
                busbw_bytes_per_s: algbw.zip(factor).map(|(b, f)| b * f),
                key,
            }
        })
        .collect();
    rows.sort_by_key(|r| std::cmp::Reverse(r.kernel_ns));
    rows
}
