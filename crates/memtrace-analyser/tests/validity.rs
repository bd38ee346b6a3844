//! Synthetic traces with known answers.

#![expect(
    clippy::unwrap_used,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    reason = "a failed step fails the test; planted numbers are exact and small"
)]

use memtrace_analyser::{Analysis, AnalysisOptions, AnalysisTable, TypeMetrics, compute_all};
use memtrace_labeller::{Access, LabelOptions, Labeller, Name, Names};

const SECOND: u64 = 1_000_000_000;

fn row(time: u64, address: u64, op: Name, kind: Name) -> Access {
    let mut row = Access::new(time, address);
    row.op = op;
    row.region_type = kind;
    row
}

/// Labels rows, whose types are given, and analyses them.
fn analyse(rows: &[Access], label: LabelOptions, options: AnalysisOptions) -> Analysis {
    let mut names = Names::new();
    let mut labeller = Labeller::new(label);
    let mut rows = rows.to_vec();
    for row in &mut rows {
        labeller.label(row, &mut names).unwrap();
    }
    compute_all(&rows, &names, options).unwrap()
}

fn mrm(rows: &[Access]) -> Analysis {
    analyse(rows, LabelOptions::mrm(), AnalysisOptions::mrm())
}

fn native(rows: &[Access]) -> Analysis {
    analyse(rows, LabelOptions::native(), AnalysisOptions::default())
}

fn only(analysis: &Analysis) -> &TypeMetrics {
    assert_eq!(analysis.types.len(), 1);
    &analysis.types[0]
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} is not {b}");
}

/// As numpy: two's complement has no size of its lowest number, so that of the reference is negative; ours is its size.
#[test]
fn a_stride_of_half_of_all_addresses() {
    let half = 1_u64 << 63;
    let strides = |addresses: &[u64]| {
        let rows: Vec<Access> = (1..)
            .zip(addresses)
            .map(|(time, address)| row(time, *address, Name::STORE, Name::WEIGHT))
            .collect();
        [mrm(&rows), native(&rows)].map(|analysis| {
            let region = analysis.regions.get(0).unwrap().unwrap();
            [region.mean_stride_bytes, region.median_stride_bytes]
        })
    };
    let power = 9_223_372_036_854_775_808.0;
    assert_eq!(strides(&[0, half])[0], [-power, -power]);
    assert_eq!(
        strides(&[0, half, 0, 100])[0],
        [(-2.0 * power + 100.0) / 3.0, -power]
    );
    // The middle two of four: the lowest, and 100.
    assert_eq!(
        strides(&[0, half, 0, 100, 300])[0],
        [(-2.0 * power + 300.0) / 4.0, (-power + 100.0) / 2.0]
    );
    assert_eq!(strides(&[0, 100, 300, 700, 700 + half])[0][1], 150.0);
    // Regions of ours are not of all addresses.
    assert!(strides(&[0, half])[1].iter().all(|stride| *stride >= 0.0));
}

/// A small deterministic source of numbers.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn weights_loaded_once_and_read_for_30_seconds() {
    let mut rows = Vec::new();
    for page in 0..64 {
        rows.push(row(
            page * 15_625_000,
            page << 12,
            Name::STORE,
            Name::WEIGHT,
        ));
        rows.push(row(
            2 * SECOND + page * 100_000_000,
            page << 12,
            Name::LOAD,
            Name::WEIGHT,
        ));
    }
    rows.push(row(30 * SECOND, 0, Name::LOAD, Name::WEIGHT));
    let analysis = mrm(&rows);
    let weights = only(&analysis);
    assert_eq!(weights.retention_s, [30.0; 4]);
    assert_eq!(weights.write_once_ratio_mean, Some(1.0));
    assert_eq!(weights.suitability, "high_mrm");
}

#[test]
fn kv_blocks_of_known_lifetimes() {
    let mut rows = Vec::new();
    for block in 0..16_u64 {
        let stored = SECOND + block * SECOND;
        rows.push(row(stored, block << 12, Name::STORE, Name::KV_CACHE));
        let life = (block + 1) * SECOND / 2;
        for part in 1..=4 {
            rows.push(row(
                stored + life * part / 4,
                block << 12,
                Name::LOAD,
                Name::KV_CACHE,
            ));
        }
    }
    for analysis in [mrm(&rows), native(&rows)] {
        let cache = only(&analysis);
        let [p50, p90, p99, mean] = cache.retention_s;
        close(p50, 4.25);
        close(p90, 7.25);
        close(p99, 7.925);
        close(mean, 4.25);
        assert_eq!(cache.write_once_ratio_mean, Some(1.0));
        close(cache.reads_per_write_mean, 4.0);
    }
    // Each value lives as long as its block.
    let values = only(&native(&rows)).values.unwrap();
    assert_eq!(
        (values.n_values, values.n_read, values.n_reads),
        (16, 16, 64)
    );
    close(values.retention_ns.unwrap()[3], 4.25e9);
}

#[test]
fn rewritten_pages_keep_values_for_the_gap_only() {
    let mut rows = Vec::new();
    for at in 0..500_u64 {
        for page in 0..8 {
            rows.push(row(at * 1000, page << 12, Name::STORE, Name::ACTIVATION));
            rows.push(row(
                at * 1000 + 300,
                page << 12,
                Name::LOAD,
                Name::ACTIVATION,
            ));
        }
    }
    let analysis = native(&rows);
    let activations = only(&analysis);
    assert_eq!(activations.write_once_ratio_mean, Some(0.0));
    close(activations.reads_per_write_mean, 1.0);
    assert_eq!(activations.suitability, "low_mrm");
    // From the first store to the last load it is nearly the run; what a store leaves lives 300 ns.
    close(activations.retention_s[0], 499_300e-9);
    let values = activations.values.unwrap();
    assert_eq!(values.n_values, 4000);
    assert_eq!(values.retention_ns, Some([300.0; 4]));
    assert_eq!(values.read_age_ns, Some([300.0; 4]));
}

#[test]
fn a_constant_interval_is_every_quantile() {
    let rows: Vec<Access> = (0..100)
        .map(|at| row(at * 7919, 0x5000, Name::LOAD, Name::RUNTIME))
        .collect();
    for analysis in [mrm(&rows), native(&rows)] {
        let intervals = only(&analysis).intervals.unwrap();
        assert_eq!(intervals.n_intervals, 99);
        assert_eq!(
            [intervals.p50_ns, intervals.p90_ns, intervals.p99_ns],
            [7919; 3]
        );
        close(intervals.mean_ns, 7919.0);
    }
}

#[test]
fn a_strided_walk_has_its_stride() {
    let (stride, pages) = (256_u64, 10_u64);
    let n = pages * 4096 / stride;
    let rows: Vec<Access> = (0..n)
        .map(|at| row(at, at * stride, Name::LOAD, Name::WEIGHT))
        .collect();
    let analysis = mrm(&rows);
    let region = analysis.regions.get(0).unwrap().unwrap();
    close(region.mean_stride_bytes, 256.0);
    close(region.median_stride_bytes, 256.0);
    close(region.same_page_fraction, 1.0 - 9.0 / (n - 1) as f64);
    assert_eq!(region.unique_pages, pages);
}

#[test]
fn poor_traces_break_nothing() {
    let cases: [Vec<Access>; 6] = [
        Vec::new(),
        (0..50)
            .map(|at| row(at, at << 12, Name::LOAD, Name::ACTIVATION))
            .collect(),
        (0..50)
            .map(|at| row(at, at << 12, Name::STORE, Name::ACTIVATION))
            .collect(),
        (0..50)
            .map(|at| row(7, at << 8, Name::LOAD, Name::KV_CACHE))
            .collect(),
        (0..50)
            .map(|at| row(at, at << 12, Name::LOAD, Name::UNKNOWN))
            .collect(),
        vec![row(u64::MAX, u64::MAX, Name::STORE, Name::RUNTIME)],
    ];
    for rows in &cases {
        for analysis in [mrm(rows), native(rows)] {
            assert_eq!(analysis.rows, rows.len() as u64);
            for table in AnalysisTable::MRM.into_iter().chain(AnalysisTable::NATIVE) {
                let held = analysis.table(table).unwrap();
                assert_eq!(
                    held.columns().len(),
                    table.columns_in(analysis.semantics).len()
                );
            }
        }
    }
    // Nothing is said of what is not known, and nothing of too few samples.
    assert_eq!(only(&native(&cases[4])).suitability, "unknown");
    assert_eq!(only(&native(&cases[5])).suitability, "too_few_samples");
    let empty = mrm(&[]);
    let mut text = Vec::new();
    empty.write_json_tables(&mut text).unwrap();
    assert_eq!(text, b"{}\n");
}

/// A trace in which each page has one type.
fn mixed(seed: u64) -> Vec<Access> {
    let mut random = numbers(seed);
    let kinds = [
        Name::WEIGHT,
        Name::KV_CACHE,
        Name::ACTIVATION,
        Name::RUNTIME,
    ];
    (0..2000_u64)
        .map(|at| {
            let page = random(64);
            let op = if random(3) == 0 {
                Name::STORE
            } else {
                Name::LOAD
            };
            let address = (0x1000 + page) << 12 | random(64) << 6;
            row(
                SECOND + at * 1_000_003,
                address,
                op,
                kinds[(page % 4) as usize],
            )
        })
        .collect()
}

/// The tables by type, which do not name regions.
fn summaries(analysis: &Analysis) -> Vec<String> {
    analysis
        .types
        .iter()
        .map(|kind| {
            format!(
                "{} {} {:?} {:?} {} {} {:?} {:.9e}",
                kind.region_type,
                kind.n_regions,
                kind.retention_s.map(|s| (s * 1e9).round()),
                kind.write_once_ratio_mean.map(|r| (r * 1e12).round()),
                kind.total_pages,
                kind.max_pages_per_region,
                kind.intervals.map(|i| (i.n_intervals, i.p50_ns, i.p99_ns)),
                kind.mean_stride_bytes,
            )
        })
        .collect()
}

#[test]
fn order_of_rows_changes_nothing_by_type() {
    let rows = mixed(1);
    let mut shuffled = rows.clone();
    let mut random = numbers(9);
    for at in (1..shuffled.len()).rev() {
        shuffled.swap(at, random(at as u64 + 1) as usize);
    }
    assert_eq!(summaries(&mrm(&rows)), summaries(&mrm(&shuffled)));
    let (straight, mixed) = (native(&rows), native(&shuffled));
    assert!(straight.in_order && !mixed.in_order);
    assert_eq!(summaries(&straight), summaries(&mixed));
    let reuse = |analysis: &Analysis| analysis.reuse.clone().unwrap().miss_ratios;
    assert_eq!(reuse(&straight), reuse(&mixed));
}

#[test]
fn shifts_change_no_metric_and_scaling_scales() {
    let rows = mixed(2);
    let plain = mrm(&rows);
    let moved = |time: u64, address: u64, scale: u64| -> Analysis {
        let rows: Vec<Access> = rows
            .iter()
            .map(|old| {
                let at = old.timestamp_ns * scale + time;
                row(at, old.address + address, old.op, old.region_type)
            })
            .collect();
        mrm(&rows)
    };
    assert_eq!(summaries(&plain), summaries(&moved(5 * SECOND, 0, 1)));
    assert_eq!(summaries(&plain), summaries(&moved(0, 4096 * 1024, 1)));
    let scaled = moved(0, 0, 3);
    for (plain, scaled) in plain.types.iter().zip(&scaled.types) {
        for (before, after) in plain.retention_s.iter().zip(scaled.retention_s) {
            close(after, before * 3.0);
        }
        let (before, after) = (plain.intervals.unwrap(), scaled.intervals.unwrap());
        close(after.mean_ns, before.mean_ns * 3.0);
    }
}

/// Extents of weights lie at multiples of their size, as huge pages do: shifts by whole extents change nothing.
#[test]
fn shifts_by_extents_change_no_metric_of_ours() {
    let mut next = numbers(5);
    // 6 MiB of weights with gaps, each line stored once, and some of them read often.
    let mut rows: Vec<Access> = (0..1500_u64)
        .map(|at| {
            row(
                at,
                (1 << 32) + at * 4096 / 64 * 64,
                Name::STORE,
                Name::WEIGHT,
            )
        })
        .collect();
    for at in 0..4000 {
        let line = next(1500) * 4096;
        rows.push(row(
            SECOND + at * SECOND / 100,
            (1 << 32) + line,
            Name::LOAD,
            Name::WEIGHT,
        ));
    }
    let moved = |pages: u64| {
        let rows: Vec<Access> = rows
            .iter()
            .map(|old| {
                row(
                    old.timestamp_ns,
                    old.address + pages * 4096,
                    old.op,
                    old.region_type,
                )
            })
            .collect();
        native(&rows)
    };
    let plain = moved(0);
    assert!(plain.regions.len() > 1);
    for pages in [512, 1024, 512 * 1_000_003] {
        assert_eq!(summaries(&plain), summaries(&moved(pages)), "{pages}");
    }
}

/// A sample of one access in k, with its period: the estimates cover the truth as often as they promise.
#[test]
fn estimates_from_samples_cover_the_truth() {
    let k = 10;
    let mut covered = [0; 2];
    for seed in 0..200 {
        let mut random = numbers(seed + 100);
        let all: Vec<Access> = (0..5000)
            .map(|at| {
                let op = if random(4) == 0 {
                    Name::STORE
                } else {
                    Name::LOAD
                };
                row(at, random(512) << 6, op, Name::WEIGHT)
            })
            .collect();
        let sampled: Vec<Access> = all
            .iter()
            .filter(|_| random(k) == 0)
            .map(|row| {
                let mut row = *row;
                row.period = k;
                row
            })
            .collect();
        let found = only(&native(&sampled)).sampling.unwrap();
        let loads = all.iter().filter(|row| row.is_load()).count() as f64;
        let truth = [all.len() as f64, loads / all.len() as f64];
        for ((estimate, truth), count) in [found.accesses, found.read_fraction]
            .iter()
            .zip(truth)
            .zip(&mut covered)
        {
            *count += usize::from(estimate.low <= truth && truth <= estimate.high);
        }
    }
    assert!(covered.iter().all(|count| *count >= 180), "{covered:?}");
}

/// Two words of known history: one written once and read 60 times, one written 20 times and read 40.
#[test]
fn generations_of_values_are_counted_by_store() {
    let mut rows = vec![row(1, 0x40_4080, Name::STORE, Name::WEIGHT)];
    for at in 0..20_u64 {
        rows.push(row(10 + at * 100, 0x40_40c0, Name::STORE, Name::KV_CACHE));
        for read in 0..3 {
            rows.push(row(
                20 + at * 100 + read,
                0x40_4080,
                Name::LOAD,
                Name::WEIGHT,
            ));
        }
        for read in 0..2 {
            rows.push(row(
                30 + at * 100 + read,
                0x40_40c0,
                Name::LOAD,
                Name::KV_CACHE,
            ));
        }
    }
    let mut names = Names::new();
    for row in &mut rows {
        row.region_id = u64::from(row.region_type.number());
    }
    names.intern("unused");
    let analysis = compute_all(&rows, &names, AnalysisOptions::default()).unwrap();
    let [cache, weight] = &analysis.types[..] else {
        panic!("two types")
    };
    assert_eq!(weight.write_once_ratio_mean, Some(1.0));
    assert_eq!(cache.write_once_ratio_mean, Some(0.0));
    assert_eq!(cache.values.unwrap().n_values, 20);
    assert_eq!(weight.values.unwrap().n_reads, 60);
}
