//! Processes real captures with the whole pipeline and compares the results with what the captured
//! programs did (section 11 of the specification).

#![expect(
    clippy::unwrap_used,
    dead_code,
    reason = "a failed step fails the test; what is shared is not all used here"
)]

mod support;

use std::path::Path;

use byte_source::OpenOptions;
use memtrace_analyser::{AnalysisOptions, RegionMetrics, TypeMetrics};
use memtrace_labeller::{
    AddressRange, InputOptions, LabelOptions, Names, RowStream, boundaries_from_json,
};
use memtrace_run::{Processed, Steps, infer_phases, process};
use support::{data, read};

fn processed(path: &Path, ranges: &[AddressRange], store_symbols: &[&str]) -> Processed {
    let stream =
        RowStream::open_path(path, &OpenOptions::default(), &InputOptions::default()).unwrap();
    let mut steps = Steps::default();
    steps.label = Some(LabelOptions::native());
    steps.ranges = ranges.to_vec();
    steps.store_symbols = store_symbols
        .iter()
        .map(|word| (*word).to_owned())
        .collect();
    steps.analyse = Some(AnalysisOptions::default());
    process(stream, Names::new(), steps, None).unwrap()
}

fn of<'a>(done: &'a Processed, region_type: &str) -> &'a TypeMetrics {
    let types = &done.analysis.as_ref().unwrap().types;
    types
        .iter()
        .find(|one| one.region_type == region_type)
        .unwrap()
}

fn regions(done: &Processed, region_type: &str) -> Vec<RegionMetrics> {
    let analysis = done.analysis.as_ref().unwrap();
    let kind =
        |region: &RegionMetrics| analysis.types[region.type_index].region_type == region_type;
    let regions = analysis.regions.iter().map(Result::unwrap);
    regions.filter(kind).collect()
}

/// Word A was stored once and loaded 60 times; word B was stored 20 times, which makes 20 values,
/// and loaded 40 times.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn values_of_words_under_breakpoints_are_those_of_the_program() {
    let folder = data();
    let ranges = [
        AddressRange::new(0x40_4080, 0x40_4088, "weight"),
        AddressRange::new(0x40_40c0, 0x40_40c8, "kv_cache"),
    ];
    let file = folder.join("real/bp.script_full.txt.gz");
    let done = processed(&file, &ranges, &["load_weight", "kv_update"]);
    for (region_type, once, stores, loads) in [("weight", 1, 1, 60), ("kv_cache", 0, 20, 40)] {
        let regions = regions(&done, region_type);
        assert_eq!(regions.len(), 1);
        let region = regions[0];
        assert_eq!((region.total_writes, region.total_reads), (stores, loads));
        let written = (region.n_written_addresses, region.n_write_once_addresses);
        assert_eq!(written, (1, once), "{region_type}");
        let values = of(&done, region_type).values.unwrap();
        assert_eq!((values.n_values, values.n_reads), (stores, loads));
        assert_eq!(values.n_reads_before_store, 0);
    }
}

/// Lackey records every access: each word of W is stored once and read six times, the cache's bytes
/// once.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn lackey_gives_weights_that_are_written_once() {
    let folder = data();
    let ranges = [
        AddressRange::new(0x403_6000, 0x403_7000, "weight"),
        AddressRange::new(0x403_8000, 0x403_8180, "kv_cache"),
        AddressRange::new(0x403_a000, 0x403_a180, "kv_cache"),
    ];
    let done = processed(&folder.join("real/lackey_kvmm.txt.gz"), &ranges, &[]);
    let weights = of(&done, "weight").values.unwrap();
    assert_eq!((weights.n_values, weights.n_read), (1024, 1024));
    assert_eq!((weights.n_reads, weights.n_reads_before_store), (6144, 0));
    let cache = of(&done, "kv_cache").values.unwrap();
    assert_eq!(cache.n_reads + cache.n_reads_before_store, 2 * 336);
    for region in regions(&done, "weight") {
        let written = (region.n_written_addresses, region.n_write_once_addresses);
        assert_eq!(written, (1024, 1024));
    }
}

/// Loading, generation and teardown are found where the generator put them, for any order of the
/// lines.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn phases_are_found_in_the_accesses() {
    let folder = data();
    for case in ["llm_small", "llm_medium", "llm_short", "unsorted"] {
        let inputs = folder.join("inputs");
        let truth = read(&inputs.join(format!("{case}.truth.json")));
        let truth = boundaries_from_json(case, &truth).unwrap();
        let path = inputs.join(format!("{case}.perf.txt.gz"));
        let mut stream =
            RowStream::open_path(path, &OpenOptions::default(), &InputOptions::default()).unwrap();
        let found = infer_phases(&mut stream).unwrap();
        let names = |phases: &[memtrace_labeller::PhaseBoundary]| -> Vec<String> {
            phases.iter().map(|phase| phase.phase.clone()).collect()
        };
        assert_eq!(names(&found), names(&truth), "{case}");
        let run = truth[2].end_ns - truth[0].start_ns;
        for (found, truth) in found.iter().zip(&truth).skip(1) {
            let off = (found.start_ns - truth.start_ns).abs();
            assert!(
                off * 100 < run,
                "{case}: {} is off by {off} ns",
                truth.phase
            );
        }
    }
    // First touches have no stores: weights are loaded, then no new pages are touched.
    for case in [
        "only_stores",
        "only_loads",
        "same_ts",
        "one_row",
        "empty",
        "retention_5s",
    ] {
        let path = folder.join(format!("inputs/{case}.perf.txt.gz"));
        let mut stream =
            RowStream::open_path(path, &OpenOptions::default(), &InputOptions::default()).unwrap();
        let found = infer_phases(&mut stream).unwrap();
        assert!(found.len() != 1 && found.len() <= 3, "{case}: {found:?}");
        assert!(found.is_sorted_by_key(|phase| phase.start_ns), "{case}");
    }
}
