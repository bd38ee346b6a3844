//! Tests that the analyses of `blkio-parser` find the generated truth.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is not as it should be"
)]

use std::collections::BTreeMap;

use blkio_parser::{Stats, StatsOptions};
use blkio_synth::{Lines, Spec, write};
use serde_json::{Value, json};

fn analyse(spec: &Spec, seed: u64) -> (Stats, Value) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let mut text = Vec::new();
    let truth = write(spec, seed, Lines::Events, &mut text).unwrap();
    std::fs::write(&path, text).unwrap();
    (
        Stats::of_files(&[path], &StatsOptions::default()).unwrap(),
        truth,
    )
}

#[test]
fn the_analyses_find_the_planted_truth() {
    for seed in 1..6 {
        let (stats, truth) = analyse(&Spec::default(), seed);
        let newest = stats.newest.unwrap();
        assert_eq!(newest.matching.pairs, truth["events"]["pairs"]);
        let sum: u128 = newest.latency.iter().map(|l| l.sum).sum();
        // Flushes may overlap: which completion is of which is not known, and the sum of their latencies is the same.
        assert_eq!(newest.matching.superseded_issues, 0);
        assert_eq!(
            u64::try_from(sum).unwrap(),
            truth["events"]["latency_sum_ns"]
        );
        for (number, operation) in stats.traffic.operations.iter().enumerate() {
            let name = stats.outcome.symbols.rwbs_all()[number].as_str();
            let count: u64 = operation.sizes.values().sum();
            assert_eq!(count, truth["count_by_op"][name], "{name}");
        }
        let phases = blkio_report::phases::of(&stats.traffic, &[]);
        let first = stats.traffic.first_issue_ns.unwrap();
        let (end, start) = phases.boundary_ns.unwrap();
        let silence = &truth["phase_boundary_ns"];
        let bin = phases.bin_ns;
        assert!((first + end).abs_diff(silence[0].as_u64().unwrap()) <= bin);
        assert!((first + start).abs_diff(silence[1].as_u64().unwrap()) <= bin);
    }
}

#[test]
fn lost_completions_hardly_move_the_median() {
    let mut spec = Spec::default();
    spec.requests = 20_000;
    let whole = analyse(&spec, 3).0;
    spec.lost_completions = 0.06;
    let lossy = analyse(&spec, 3).0;
    let p50 = |stats: Stats| stats.newest.unwrap().latency[0].percentiles(&[50.0])[0] as f64;
    let (whole, lossy) = (p50(whole), p50(lossy));
    assert!((lossy / whole - 1.0).abs() < 0.03, "{whole} {lossy}");
}

/// Analyses reads of 64 KiB with additional parameters.
fn reads(more: &str) -> (Stats, Value) {
    let text = format!(
        "{{\"requests\": 4000, \"prefill_share\": 0, \"noise_share\": 0, \"sizes\": {{\"65536\": 1}}, {more}}}"
    );
    analyse(&Spec::from_json(text.as_bytes()).unwrap(), 7)
}

#[test]
fn patterns_are_found_by_the_analyses() {
    let class = |more: &str| {
        let (mut stats, _) = reads(more);
        let access = stats.access.take().unwrap();
        let hot = blkio_report::access_shares::hottest(&access.sectors, &[5])[0].1;
        let [reads, ..] = stats.sequentiality.take().unwrap().classes;
        (reads, hot, access.distinct_blocks().read)
    };
    let (onward, _, blocks) = class("\"pattern\": \"sequential\"");
    assert_eq!((onward.sequential, blocks), (3999, 4000 * 16));
    let (looped, _, blocks) = class("\"pattern\": \"loop\"");
    assert_eq!((looped.backward, blocks), (3, 1024 * 16));
    let (strided, ..) = class("\"pattern\": \"strided\", \"stride_bytes\": 524288");
    assert_eq!(strided.top_strides(1)[0].0, 1024);
    assert!(strided.top_strides(1)[0].1 > 3900);
    let (streams, ..) = class("\"pattern\": \"sequential\", \"streams\": 8");
    assert!(streams.sequential < 1000 && streams.multi_stream > 3800);
    let (random, even, _) = class("\"pattern\": \"random\"");
    let (_, uneven, _) = class("\"pattern\": \"zipf\", \"zipf_exponent\": 1.2");
    assert!(
        random.sequential < 20 && even < 0.3 && uneven > 0.5,
        "{even} {uneven}"
    );
}

#[test]
fn arrivals_latencies_and_sizes_are_as_asked() {
    let (stats, truth) = reads("\"arrivals\": \"constant\", \"latency_law\": \"constant\"");
    assert_eq!(
        (stats.arrivals.gaps.min, stats.arrivals.gaps.max),
        (500_000, 500_000)
    );
    let newest = stats.newest.unwrap();
    assert_eq!(
        (newest.latency[0].min, newest.latency[0].max),
        (120_000, 120_000)
    );
    assert_eq!(truth["events"]["max_depth"], 1);
    let (stats, _) = reads("\"arrivals\": \"bursts\", \"mean_gap_ns\": 4000000");
    assert_eq!(stats.arrivals.bursts, 4000_u64.div_ceil(64));
    for law in ["uniform", "pareto", "exponential"] {
        let (stats, truth) = reads(&format!("\"latency_law\": \"{law}\""));
        let newest = stats.newest.unwrap();
        let all = &newest.latency[0];
        assert_eq!(
            u64::try_from(all.sum).unwrap(),
            truth["events"]["latency_sum_ns"]
        );
        assert!(
            (all.sum as f64 / 4000.0 / 120_000.0 - 1.0).abs() < 0.1,
            "{law}"
        );
        assert_eq!(newest.depth.all.max(), truth["events"]["max_depth"]);
    }
    let spec = Spec::from_json(br#"{"sizes": {"4096": 3, "131072": 1}}"#).unwrap();
    let (stats, truth) = analyse(&spec, 2);
    for (number, operation) in stats.traffic.operations.iter().enumerate() {
        let name = stats.outcome.symbols.rwbs_all()[number].as_str();
        let sizes: BTreeMap<String, u64> = operation
            .sizes
            .iter()
            .map(|(size, n)| (size.to_string(), *n))
            .collect();
        assert_eq!(json!(sizes), truth["sizes_by_op"][name], "{name}");
    }
    let small = truth["sizes_by_op"]["RA"]["4096"].as_f64().unwrap();
    let large = truth["sizes_by_op"]["RA"]["131072"].as_f64().unwrap();
    assert!((small / large / 3.0 - 1.0).abs() < 0.2);
}

#[test]
fn specifications_are_checked() {
    assert_eq!(Spec::from_json(b"{\"requests\": 5}").unwrap().requests, 5);
    for wrong in [
        r#"{"pattern": "Zipf"}"#,
        r#"{"arrivals": 1}"#,
        r#"{"sizes": {}}"#,
        r#"{"sizes": {"100": 1}}"#,
        r#"{"sizes": {"512": 0}}"#,
        r#"{"streams": 0}"#,
        r#"{"zipf_exponent": -1}"#,
    ] {
        assert!(Spec::from_json(wrong.as_bytes()).is_err(), "{wrong}");
    }
    assert!(Spec::from_json(b"{\"request\": 5}").is_err());
    assert!(Spec::from_json(b"{\"noise_share\": 2}").is_err());
    assert!(Spec::from_json(b"[]").is_err());
}
