//! Tests that answers claim only what the recording shows.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use memtrace_analyser::{Analysis, AnalysisOptions, compute_all};
use memtrace_labeller::{Access, Name, Names};
use memtrace_run::answers;

const MS: u64 = 1_000_000;

fn row(time_ms: u64, region: u64, op: Name, period: u64) -> Access {
    let mut row = Access::new(time_ms * MS, region * 4096);
    (row.op, row.region_type, row.region_id) = (op, Name::KV_CACHE, region);
    row.period = period;
    row
}

fn analysed(rows: &[Access]) -> Analysis {
    compute_all(rows, &Names::new(), AnalysisOptions::default()).unwrap()
}

fn sentence(analysis: &Analysis) -> String {
    let mut all = answers(analysis);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0).sentence
}

/// Returns blocks that each live for 3 s and are loaded every 100 ms; every other one lacks its
/// stores.
fn blocks(period: u64) -> Vec<Access> {
    let mut rows = vec![row(0, 0, Name::STORE, period)];
    for block in 1..40 {
        let start = block * 500;
        if block % 2 == 0 {
            rows.push(row(start, block, Name::STORE, period));
        }
        rows.extend((1..30).map(|read| row(start + read * 100, block, Name::LOAD, period)));
    }
    rows.retain(|row| row.timestamp_ns < 20_000 * MS);
    rows.sort_by_key(|row| row.timestamp_ns);
    rows
}

#[test]
fn bounds_are_worded_as_bounds() {
    let text = sentence(&analysed(&blocks(1)));
    assert!(
        text.contains("at least 1 % of reads find data >="),
        "{text}"
    );
    let sampled = analysed(&blocks(20));
    let text = sentence(&sampled);
    assert!(
        text.contains("it cannot be decided") && !text.contains("still in use at the end,"),
        "{text}"
    );
    let mut loads = blocks(20);
    loads.retain(Access::is_load);
    let text = sentence(&analysed(&loads));
    assert!(!text.contains("of reads find data"), "{text}");
}

#[test]
fn a_fixed_period_is_told_apart_and_its_remedy_is_a_frequency() {
    // One store, then each 4000th load of the same blocks, as far apart in time as by the number of accesses.
    let mut rows = vec![row(0, 0, Name::STORE, 4000), row(1, 1, Name::STORE, 4000)];
    rows.extend((2..40_000).map(|at| row(at, at % 7, Name::LOAD, 4000)));
    let text = sentence(&analysed(&rows));
    for part in [
        "every Nth access",
        "perf mem record -F 4000",
        "without --period",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Samples taken at random have another remedy, which is no fixed period either.
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 20
    };
    rows.retain(|row| row.op == Name::STORE || random().is_multiple_of(5));
    let text = sentence(&analysed(&rows));
    assert!(
        text.contains("sample 10x denser (perf mem record -F ") && !text.contains("-c "),
        "{text}"
    );
}
