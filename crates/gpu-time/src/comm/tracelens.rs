//! The tables of TraceLens' `NcclAnalyser`, by its rules: to compare with, and to see why numbers
//! differ.
//!
//! * [`long`]: one row for each collective kernel. Only metadata of the kernel itself counts, kernels
//!   without any are of the group `Unknown_Group`; the k-th kernel of a group on one rank is the
//!   same collective as the k-th on another. When no kernel has a group and each rank has one
//!   stream, all are of the group `all`.
//! * [`implicit_sync`]: one row for each all-reduce, reduce-scatter, all-gather and all-to-all:
//!   latency is the shortest duration, skew the difference of the starts *by the clocks as they
//!   are*. Bandwidths are in 2^30 bytes per second.
//! * [`long_summary`], [`implicit_sync_summary`]: both by kind and size.
//!
//! Digests must have been made with [`CommRules::TraceLens`](crate::comm::CommRules). Times are in
//! nanoseconds, TraceLens' in microseconds.

use std::collections::BTreeMap;

use serde::Serialize;
use trace_model::Rank;
use trace_model::kernel::collective::{Collective, CollectiveOp};

use crate::comm::digest::RankDigest;
use rank_align::real::{count, real};

/// One collective kernel on one rank.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct LongRow {
    /// Group and number, `0_19`.
    pub collective_id: String,
    /// Number of the kernel in its group on its rank, in ascending time.
    pub index_in_group: usize,
    /// Rank.
    pub rank: Rank,
    /// Process group, or `Unknown_Group`.
    pub group: String,
    /// Metadata of the kernel; `None` without any.
    pub what: Option<Collective>,
    /// Stream.
    pub stream: i64,
    /// Start as recorded in the file.
    pub ts_ns: i64,
    /// Duration.
    pub dur_ns: i64,
}

impl LongRow {
    /// Returns the size of `elements` in MiB; `None` for dtypes that TraceLens does not know.
    fn mib(&self, elements: impl Fn(&Collective) -> Option<u64>) -> Option<f64> {
        let what = self.what.as_ref()?;
        let known = [
            "Float", "Int", "Long", "BFloat16", "Bool", "Byte", "Double", "Half", "Short",
        ];
        known.contains(&what.dtype.as_deref()?).then_some(())?;
        let bytes = what.bytes_of(elements(what))?;
        Some(real(i64::try_from(bytes).ok()?) / (1024.0 * 1024.0))
    }

    /// Returns the input size in MiB.
    pub fn in_mib(&self) -> Option<f64> {
        self.mib(|w| w.elements_in)
    }

    /// Returns the output size in MiB.
    pub fn out_mib(&self) -> Option<f64> {
        self.mib(|w| w.elements_out)
    }
}

/// Group of kernels without metadata.
const UNKNOWN: &str = "Unknown_Group";

/// Returns one row for each kernel: by rank, then in ascending time.
pub fn long(digests: &[RankDigest]) -> Vec<LongRow> {
    let group_of =
        |d: &RankDigest, i: usize| -> Option<String> { d.what(d.runs.get(i)?)?.group.clone() };
    let known = digests
        .iter()
        .any(|d| (0..d.runs.len()).any(|i| group_of(d, i).is_some()));
    let one_stream = digests
        .iter()
        .all(|d| d.runs.windows(2).all(|w| w[0].stream == w[1].stream));
    let simple = !known && one_stream;
    let mut rows = Vec::new();
    for digest in digests {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (i, run) in digest.runs.iter().enumerate() {
            let group = match (simple, group_of(digest, i)) {
                (true, _) => "all".to_owned(),
                (false, Some(group)) => group,
                (false, None) => UNKNOWN.to_owned(),
            };
            let next = seen.entry(group.clone()).or_default();
            let index_in_group = *next;
            *next += 1;
            let stated = digest.what(run).filter(|w| !w.name.is_empty()).cloned();
            let collective_id = match simple {
                true => index_in_group.to_string(),
                false => format!("{group}_{index_in_group}"),
            };
            rows.push(LongRow {
                collective_id,
                index_in_group,
                rank: digest.rank,
                group,
                what: stated,
                stream: run.stream.0,
                ts_ns: run.start_ns,
                dur_ns: run.duration_ns(),
            });
        }
    }
    rows
}

/// One collective that waits for all its ranks.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct SyncRow {
    /// Group and number.
    pub collective_id: String,
    /// The collective, as recorded by the first rank.
    pub what: Collective,
    /// Input size in MiB.
    pub in_mib: Option<f64>,
    /// Output size in MiB.
    pub out_mib: Option<f64>,
    /// Message size in MiB: the output of an all-gather, the input of the others.
    pub full_mib: Option<f64>,
    /// Shortest duration.
    pub latency_ns: i64,
    /// Time from the first to the last start.
    pub start_skew_ns: i64,
    /// The rank that started first.
    pub earliest: Rank,
    /// Mean wait for the last start.
    pub mean_wait_ns: f64,
    /// Time from the first to the last end.
    pub end_skew_ns: i64,
    /// Message size divided by latency, in 2^30 bytes per second.
    pub algbw_gib_s: Option<f64>,
    /// Algorithm bandwidth times the factor of the operation.
    pub busbw_gib_s: Option<f64>,
}

/// Returns the operation of collectives that TraceLens treats as synchronizing.
fn implicit(name: &str) -> Option<CollectiveOp> {
    match name {
        "allreduce" | "allreduce_coalesced" => Some(CollectiveOp::AllReduce),
        "reducescatter" | "_reduce_scatter_base" | "reduce_scatter_tensor_coalesced" => {
            Some(CollectiveOp::ReduceScatter)
        }
        "allgather"
        | "all_gather"
        | "_allgather_base"
        | "all_gather_into_tensor_coalesced"
        | "allgather_into_tensor_coalesced" => Some(CollectiveOp::AllGather),
        "all_to_all" => Some(CollectiveOp::AllToAll),
        _ => None,
    }
}

/// Returns one row for each synchronizing collective, in order of first appearance.
pub fn implicit_sync(rows: &[LongRow]) -> Vec<SyncRow> {
    let mut order: Vec<&str> = Vec::new();
    let mut table: BTreeMap<&str, Vec<&LongRow>> = BTreeMap::new();
    for row in rows {
        let list = table.entry(&row.collective_id).or_default();
        if list.is_empty() {
            order.push(&row.collective_id);
        }
        list.push(row);
    }
    order
        .into_iter()
        .filter_map(|id| sync_row(id, table.get(id)?))
        .collect()
}

fn sync_row(id: &str, rows: &[&LongRow]) -> Option<SyncRow> {
    let first = rows.first()?;
    let what = first.what.clone()?;
    let op = implicit(&what.name)?;
    let end = |r: &&LongRow| r.ts_ns.saturating_add(r.dur_ns);
    let last_start = rows.iter().map(|r| r.ts_ns).max()?;
    let latency_ns = rows.iter().map(|r| r.dur_ns).min()?;
    // Of equal longest waits the highest rank counts.
    let (wait, earliest) = rows.iter().map(|r| (last_start - r.ts_ns, r.rank)).max()?;
    let waits: i64 = rows.iter().map(|r| last_start - r.ts_ns).sum();
    let (in_mib, out_mib) = (first.in_mib(), first.out_mib());
    let full_mib = match op {
        CollectiveOp::AllGather => out_mib,
        _ => in_mib,
    };
    let algbw = full_mib
        .filter(|_| latency_ns > 0)
        .map(|mib| (mib / 1024.0) / (real(latency_ns) / 1e9));
    let factor = what.group_size.map(f64::from).map(|n| match op {
        CollectiveOp::AllReduce => 2.0 * (n - 1.0) / n,
        _ => (n - 1.0) / n,
    });
    Some(SyncRow {
        collective_id: id.to_owned(),
        in_mib,
        out_mib,
        full_mib,
        latency_ns,
        start_skew_ns: wait,
        earliest,
        mean_wait_ns: real(waits) / count(rows.len()),
        end_skew_ns: rows.iter().map(end).max()? - rows.iter().map(end).min()?,
        algbw_gib_s: algbw,
        busbw_gib_s: algbw.zip(factor).map(|(b, f)| b * f),
        what,
    })
}

/// Mean and standard deviation of a sample (divided by n - 1; none below two values).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct MeanStd {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample.
    pub std: Option<f64>,
}

impl MeanStd {
    fn of(values: &[f64]) -> Self {
        let n = count(values.len());
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        Self {
            mean,
            std: (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()),
        }
    }
}

/// Kernels of one rank, kind and size.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct LongSummary {
    /// Rank.
    pub rank: Rank,
    /// The collective.
    pub what: Collective,
    /// Stream.
    pub stream: i64,
    /// Input size in MiB.
    pub in_mib: Option<f64>,
    /// Output size in MiB.
    pub out_mib: Option<f64>,
    /// Sum of durations.
    pub sum_ns: i64,
    /// Mean and deviation of durations in nanoseconds.
    pub dur: MeanStd,
    /// Minimum duration.
    pub min_ns: i64,
    /// Maximum duration.
    pub max_ns: i64,
    /// Number of kernels.
    pub count: usize,
}

/// Summarizes kernels by rank, kind, size and stream, longest first. Kernels with incomplete
/// metadata are left out, as TraceLens drops rows without a key.
pub fn long_summary(rows: &[LongRow]) -> Vec<LongSummary> {
    let mut table: BTreeMap<(Rank, String, i64), Vec<&LongRow>> = BTreeMap::new();
    for row in rows {
        let Some(what) = &row.what else { continue };
        let key = [
            what.group.clone(),
            what.ranks.clone(),
            Some(what.name.clone()),
            what.group_size.map(|n| n.to_string()),
            what.dtype.clone(),
            what.elements_in.map(|n| n.to_string()),
            what.elements_out.map(|n| n.to_string()),
            what.split_in.clone(),
            what.split_out.clone(),
        ];
        if let Some(key) = key.into_iter().collect::<Option<Vec<_>>>() {
            let key = (row.rank, key.join("\n"), row.stream);
            table.entry(key).or_default().push(row);
        }
    }
    let mut out: Vec<LongSummary> = table
        .into_values()
        .filter_map(|rows| {
            let first = rows.first()?;
            let durations: Vec<f64> = rows.iter().map(|r| real(r.dur_ns)).collect();
            Some(LongSummary {
                rank: first.rank,
                what: first.what.clone()?,
                stream: first.stream,
                in_mib: first.in_mib(),
                out_mib: first.out_mib(),
                sum_ns: rows.iter().map(|r| r.dur_ns).sum(),
                dur: MeanStd::of(&durations),
                min_ns: rows.iter().map(|r| r.dur_ns).min()?,
                max_ns: rows.iter().map(|r| r.dur_ns).max()?,
                count: rows.len(),
            })
        })
        .collect();
    out.sort_by_key(|s| std::cmp::Reverse(s.sum_ns));
    out
}

/// Synchronizing collectives of one kind and size.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct SyncSummary {
    /// The first of these collectives.
    pub what: Collective,
    /// Message size in MiB.
    pub full_mib: Option<f64>,
    /// Latencies in nanoseconds.
    pub latency: MeanStd,
    /// Skews of the starts in nanoseconds.
    pub start_skew: MeanStd,
    /// Skews of the ends in nanoseconds.
    pub end_skew: MeanStd,
    /// Algorithm bandwidths in 2^30 bytes per second.
    pub algbw: Option<MeanStd>,
    /// Bus bandwidths.
    pub busbw: Option<MeanStd>,
    /// Number of collectives.
    pub count: usize,
    /// Sum of latencies in nanoseconds.
    pub total_latency_ns: i64,
}

/// Summarizes synchronizing collectives by name, dtype and number of elements, longest first.
pub fn implicit_sync_summary(rows: &[SyncRow]) -> Vec<SyncSummary> {
    type Key<'r> = (&'r str, Option<&'r str>, Option<u64>);
    let mut table: BTreeMap<Key<'_>, Vec<&SyncRow>> = BTreeMap::new();
    for row in rows {
        let key = (
            row.what.name.as_str(),
            row.what.dtype.as_deref(),
            row.what.elements_in,
        );
        table.entry(key).or_default().push(row);
    }
    let mut out: Vec<SyncSummary> = table
        .into_values()
        .filter_map(|rows| {
            let first = rows.first()?;
            let all = |f: &dyn Fn(&SyncRow) -> Option<f64>| -> Option<MeanStd> {
                let values: Vec<f64> = rows.iter().filter_map(|r| f(r)).collect();
                (!values.is_empty()).then(|| MeanStd::of(&values))
            };
            Some(SyncSummary {
                what: first.what.clone(),
                full_mib: first.full_mib,
                latency: all(&|r| Some(real(r.latency_ns)))?,
                start_skew: all(&|r| Some(real(r.start_skew_ns)))?,
                end_skew: all(&|r| Some(real(r.end_skew_ns)))?,
                algbw: all(&|r| r.algbw_gib_s),
                busbw: all(&|r| r.busbw_gib_s),
                count: rows.len(),
                total_latency_ns: rows.iter().map(|r| r.latency_ns).sum(),
            })
        })
        .collect();
    out.sort_by_key(|s| std::cmp::Reverse(s.total_latency_ns));
    out
}
