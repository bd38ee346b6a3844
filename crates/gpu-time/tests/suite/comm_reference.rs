//! Compares with the tables of TraceLens' `NcclAnalyser`, built from the same traces.

#![expect(
    clippy::cast_precision_loss,
    reason = "a failed step fails the test; nanoseconds become the reference's microseconds"
)]

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{csv, number, peers, read};
use gpu_time::comm::tracelens::{
    MeanStd, implicit_sync, implicit_sync_summary, long, long_summary,
};
use gpu_time::comm::{CommRules, Job, RankDigest, assign_ranks, summarise};

type Row = BTreeMap<String, String>;

const CASES: [(&str, &[&str]); 3] = [
    ("hta_nccl_data", &["hta_nccl_data"]),
    ("mi300_resnet_nccl", &["mi300_resnet_nccl"]),
    // The order is reversed on purpose: the files state their ranks.
    ("sampled_2rank", &["sampled_rank1", "sampled_rank0"]),
];

fn digests(peers: &Path, files: &[&str], rules: CommRules) -> Vec<RankDigest> {
    let mut all: Vec<RankDigest> = files
        .iter()
        .map(|name| {
            let trace = read(&peers.join(format!("traces/{name}.json.gz")));
            RankDigest::new(name, &trace, rules)
        })
        .collect();
    assert!(!assign_ranks(&mut all).unwrap().placed);
    all
}

/// Equality up to the last few bits of the reference's floating point; sums of times involve epoch
/// microseconds.
fn close(ours: Option<f64>, row: &Row, column: &str, tolerance: f64) {
    let theirs = number(row, column);
    match (ours, theirs) {
        (Some(a), Some(b)) => {
            let allowed = tolerance + 1e-9 * b.abs();
            assert!(
                (a - b).abs() <= allowed,
                "{column}: {a} against {b} in {row:?}"
            );
        }
        (None, None) => {}
        other => panic!("{column}: {other:?} in {row:?}"),
    }
}

fn same(ours: Option<&str>, row: &Row, column: &str) {
    assert_eq!(ours.unwrap_or(""), row[column], "{column} in {row:?}");
}

fn whole(ours: Option<u64>, row: &Row, column: &str) {
    close(ours.map(|n| n as f64), row, column, 0.0);
}

fn mean_std(ours: Option<MeanStd>, scale: f64, row: &Row, column: &str, tolerance: f64) {
    close(
        ours.map(|m| m.mean * scale),
        row,
        &format!("{column}_mean"),
        tolerance,
    );
    close(
        ours.and_then(|m| m.std).map(|s| s * scale),
        row,
        &format!("{column}_std"),
        tolerance,
    );
}

/// Microseconds per nanosecond.
const US: f64 = 1e-3;

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn all_kernels() {
    let peers = peers();
    for (case, files) in CASES {
        let rows = long(&digests(&peers, files, CommRules::TraceLens));
        let theirs = csv(&peers.join(case).join("tracelens_nccl/build_df_long.csv"));
        assert_eq!(rows.len(), theirs.len(), "{case}");
        let by_key: BTreeMap<(String, String), &Row> = theirs
            .iter()
            .map(|r| ((r["rank"].clone(), r["collective_id"].clone()), r))
            .collect();
        assert_eq!(by_key.len(), theirs.len());
        for ours in &rows {
            let key = (ours.rank.to_string(), ours.collective_id.clone());
            let row = by_key[&key];
            let what = ours.what.as_ref();
            whole(Some(ours.index_in_group as u64), row, "index_in_group");
            same(Some(&ours.group), row, "Process Group Name");
            same(
                what.and_then(|w| w.ranks.as_deref()),
                row,
                "Process Group Ranks",
            );
            same(what.map(|w| w.name.as_str()), row, "Collective name");
            whole(
                what.and_then(|w| w.group_size).map(u64::from),
                row,
                "Group size",
            );
            same(what.and_then(|w| w.dtype.as_deref()), row, "dtype");
            whole(what.and_then(|w| w.elements_in), row, "In msg nelems");
            whole(what.and_then(|w| w.elements_out), row, "Out msg nelems");
            close(ours.in_mib(), row, "In msg size (MB)", 0.0);
            close(ours.out_mib(), row, "Out msg size (MB)", 0.0);
            same(
                what.and_then(|w| w.split_in.as_deref()),
                row,
                "In split size",
            );
            same(
                what.and_then(|w| w.split_out.as_deref()),
                row,
                "Out split size",
            );
            close(Some(ours.stream as f64), row, "stream", 0.0);
            let (us, ns) = (ours.ts_ns / 1000, ours.ts_ns % 1000);
            let text = format!("{us}.{ns:03}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            same(Some(text), row, "ts");
            close(Some(ours.dur_ns as f64 * US), row, "dur", 0.0);
        }
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn synchronising_collectives() {
    let peers = peers();
    let mut compared = 0;
    for (case, files) in CASES {
        let path = peers
            .join(case)
            .join("tracelens_nccl/build_df_nccl_implicit_sync_cat.csv");
        let rows = implicit_sync(&long(&digests(&peers, files, CommRules::TraceLens)));
        if !path.exists() {
            assert!(rows.is_empty(), "{case}");
            continue;
        }
        let theirs = csv(&path);
        assert_eq!(rows.len(), theirs.len(), "{case}");
        for ours in &rows {
            let row = theirs
                .iter()
                .find(|r| r["collective_id"] == ours.collective_id)
                .unwrap();
            same(Some(&ours.what.name), row, "Collective name");
            close(ours.in_mib, row, "In msg size (MB)", 0.0);
            close(ours.out_mib, row, "Out msg size (MB)", 0.0);
            close(ours.full_mib, row, "Full msg size (MB)", 0.0);
            close(Some(ours.latency_ns as f64 * US), row, "comm_latency", 0.0);
            close(
                Some(ours.start_skew_ns as f64 * US),
                row,
                "skew in start time",
                0.0,
            );
            whole(
                Some(u64::from(ours.earliest.0)),
                row,
                "earliest arrival rank",
            );
            close(Some(ours.mean_wait_ns * US), row, "avg_wait_time", 0.0);
            close(
                Some(ours.end_skew_ns as f64 * US),
                row,
                "skew in end time",
                0.0,
            );
            close(ours.algbw_gib_s, row, "algo bw (GB/s)", 0.0);
            close(ours.busbw_gib_s, row, "bus bw (GB/s)", 0.0);
            compared += 1;
        }
    }
    assert_eq!(compared, 21);
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn summaries() {
    let peers = peers();
    for (case, files) in CASES {
        let folder = peers.join(case).join("tracelens_nccl");
        let rows = long(&digests(&peers, files, CommRules::TraceLens));
        let ours = long_summary(&rows);
        let theirs = csv(&folder.join("build_df_summary_long.csv"));
        assert_eq!(ours.len(), theirs.len(), "{case}");
        for (ours, row) in ours.iter().zip(&theirs) {
            whole(ours.what.elements_in, row, "In msg nelems");
            same(Some(&ours.what.name), row, "Collective name");
            close(ours.in_mib, row, "In msg size (MB)_first", 0.0);
            close(ours.out_mib, row, "Out msg size (MB)_first", 0.0);
            close(Some(ours.sum_ns as f64 * US), row, "dur_sum", 0.0);
            mean_std(Some(ours.dur), US, row, "dur", 0.0);
            close(Some(ours.min_ns as f64 * US), row, "dur_min", 0.0);
            close(Some(ours.max_ns as f64 * US), row, "dur_max", 0.0);
            whole(Some(ours.count as u64), row, "operation_count");
        }
        let path = folder.join("build_df_summary_nccl_implicit_sync_cat.csv");
        let ours = implicit_sync_summary(&implicit_sync(&rows));
        let theirs = if path.exists() {
            csv(&path)
        } else {
            Vec::new()
        };
        assert_eq!(ours.len(), theirs.len(), "{case}");
        for (ours, row) in ours.iter().zip(&theirs) {
            whole(ours.what.elements_in, row, "In msg nelems");
            close(ours.full_mib, row, "Full msg size (MB)", 0.0);
            mean_std(Some(ours.latency), US, row, "comm_latency", 0.0);
            mean_std(Some(ours.start_skew), US, row, "skew in start time", 0.0);
            mean_std(Some(ours.end_skew), US, row, "skew in end time", 0.0);
            mean_std(ours.algbw, 1.0, row, "algo bw (GB/s)", 0.0);
            mean_std(ours.busbw, 1.0, row, "bus bw (GB/s)", 0.0);
            whole(Some(ours.count as u64), row, "count");
            close(
                Some(ours.total_latency_ns as f64 * 1e-6),
                row,
                "Total comm latency (ms)",
                0.0,
            );
        }
    }
}

/// Checks that the communication time of whole traces equals the exact reference.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn exposed_time_is_that_of_the_exact_reference() {
    let peers = peers();
    let mut compared = 0;
    for row in csv(&peers.join("reference_gpu_time.csv")) {
        if row["comm_kernels"] == "0" {
            continue;
        }
        let digests = digests(&peers, &[row["trace"].as_str()], CommRules::TraceLens);
        let digest = &digests[0];
        let us = |ns: i64| format!("{}.{:03}", ns / 1000, ns % 1000);
        assert_eq!(us(digest.time.comm_ns), row["comm_us"]);
        assert_eq!(us(digest.time.exposed_ns), row["exposed_comm_us"]);
        assert_eq!(us(digest.time.busy_ns), row["busy_us"]);
        assert_eq!(us(digest.time.computation_ns), row["comp_us"]);
        assert_eq!(us(digest.time.span_ns), row["span_us"]);
        for run in &digest.runs {
            assert_eq!(run.exposed_ns + run.overlapped_ns(), run.duration_ns());
        }
        compared += 1;
    }
    assert!(compared >= 4, "{compared}");
}

/// Two ranks of 128 with send-and-receive kernels without metadata; both captures are in pieces.
/// Half of the kernels of each rank end together with one of the other rank (187,835 us on both,
/// for example); these are joined, instead of the k-th with the k-th.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn collectives_are_joined_by_their_ends_and_not_by_their_number() {
    let peers = peers();
    let digests = digests(
        &peers,
        &["sampled_rank1", "sampled_rank0"],
        CommRules::Extended,
    );
    assert_eq!(digests[0].source, "sampled_rank0");
    let job = Job::new(&digests);
    let mut joined: Vec<(usize, usize)> = job
        .collectives
        .iter()
        .filter(|c| c.matched.runs.len() == 2)
        .map(|c| (c.matched.runs[0].1, c.matched.runs[1].1))
        .collect();
    joined.sort_unstable();
    assert_eq!(joined, [(1, 0), (2, 2), (4, 4), (8, 8), (9, 9)]);
    assert_eq!(job.unmatched(), 10);
    let rows = summarise(&digests, &job);
    let total: i64 = rows.iter().map(|r| r.kernel_ns).sum();
    let runs: i64 = digests
        .iter()
        .flat_map(|d| &d.runs)
        .map(|r| r.duration_ns())
        .sum();
    assert_eq!(total, runs);
}
