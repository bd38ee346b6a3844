//! The reference's tables against a plain computation of their definitions, on random rows with every oddity at once.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the twin computes as the reference does, in doubles"
)]

use std::collections::{BTreeMap, BTreeSet};

use memtrace_analyser::{AnalysisOptions, compute_all};
use memtrace_labeller::{Access, Name, Names};
use proptest::prelude::*;
use serde_json::{Value, json};

type Rows<'a> = Vec<&'a Access>;

fn quantile(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len() - 1;
    let position = last as f64 * q;
    let low = position.floor() as usize;
    let share = position - low as f64;
    let (a, b) = (sorted[low], sorted[(low + 1).min(last)]);
    if share < 0.5 {
        a + (b - a) * share
    } else {
        b - (b - a) * (1.0 - share)
    }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.iter().sum::<f64>() / values.len() as f64
}

/// All tables by name, as rows of cells.
fn tables(rows: &[Access], names: &Names) -> BTreeMap<&'static str, Vec<Value>> {
    let mut regions: BTreeMap<u64, Rows<'_>> = BTreeMap::new();
    for row in rows {
        regions.entry(row.region_id).or_default().push(row);
    }
    let kind_of = |rows: &Rows<'_>| names.text(rows[0].region_type).to_owned();
    let mut tables: BTreeMap<&'static str, Vec<Value>> = BTreeMap::new();
    let mut by_kind: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (id, rows) in &regions {
        by_kind.entry(kind_of(rows)).or_default().push(*id);
    }
    let (mut retention, mut ratios) = (BTreeMap::new(), BTreeMap::new());
    let (mut walks, mut pages_of) = (BTreeMap::new(), BTreeMap::new());
    for (id, rows) in &regions {
        let kind = kind_of(rows);
        let times = |op: Name| {
            rows.iter()
                .filter(move |row| row.op == op)
                .map(|row| row.timestamp_ns)
        };
        let first = times(Name::STORE)
            .min()
            .unwrap_or_else(|| rows.iter().map(|row| row.timestamp_ns).min().unwrap());
        let last = times(Name::LOAD).max().unwrap_or(first);
        let kept = last.saturating_sub(first);
        retention.insert(*id, kept as f64 / 1e9);
        tables
            .entry("retention_per_region")
            .or_default()
            .push(json!([id, kind, first, last, kept, kept as f64 / 1e9]));

        let mut stores: BTreeMap<u64, u64> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.op == Name::STORE) {
            *stores.entry(row.address).or_default() += 1;
        }
        if !stores.is_empty() {
            let once = stores.values().filter(|count| **count == 1).count();
            let ratio = once as f64 / stores.len() as f64;
            ratios.insert(*id, ratio);
            tables.entry("write_once").or_default().push(json!([
                id,
                kind,
                stores.len(),
                once,
                ratio
            ]));
        }

        let (reads, writes) = (times(Name::LOAD).count(), times(Name::STORE).count());
        let all = reads + writes;
        let share = if all == 0 {
            0.0
        } else {
            reads as f64 / all as f64
        };
        let per_write = if writes == 0 {
            0.0
        } else {
            reads as f64 / writes as f64
        };
        tables
            .entry("read_freq")
            .or_default()
            .push(json!([id, kind, reads, writes, all, share, per_write]));

        let pages: BTreeSet<u64> = rows.iter().map(|row| row.address_page).collect();
        pages_of.insert(*id, pages.len());
        tables
            .entry("working_set_per_region")
            .or_default()
            .push(json!([id, pages.len(), kind, pages.len() * 4096]));

        let mut walk = rows.clone();
        walk.sort_by_key(|row| row.timestamp_ns);
        let pairs: Vec<(&Access, &Access)> =
            walk.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let strides: Vec<i64> = pairs
            .iter()
            .map(|(a, b)| (b.address.wrapping_sub(a.address) as i64).wrapping_abs())
            .collect();
        // The lowest integer stays negative, so floating point would cancel.
        let sum: i128 = strides.iter().map(|stride| i128::from(*stride)).sum();
        let same = pairs
            .iter()
            .filter(|(a, b)| a.address_page == b.address_page)
            .count();
        let (mean, median, same) = if strides.is_empty() {
            (0.0, 0.0, 0.0)
        } else {
            let ordered = sorted(strides.iter().map(|stride| *stride as f64).collect());
            let half = ordered.len() / 2;
            let median = if ordered.len() % 2 == 1 {
                ordered[half]
            } else {
                f64::midpoint(ordered[half - 1], ordered[half])
            };
            (
                sum as f64 / pairs.len() as f64,
                median,
                same as f64 / pairs.len() as f64,
            )
        };
        walks.insert(*id, [mean, median, same]);
        tables
            .entry("locality_per_region")
            .or_default()
            .push(json!([id, kind, rows.len(), mean, median, same]));
    }
    for (kind, ids) in &by_kind {
        let kept = sorted(ids.iter().map(|id| retention[id]).collect());
        let p = |q| quantile(&kept, q);
        tables.entry("retention_summary").or_default().push(json!([
            kind,
            ids.len(),
            p(0.5),
            p(0.9),
            p(0.99),
            mean(&kept)
        ]));
        let pages: Vec<usize> = ids.iter().map(|id| pages_of[id]).collect();
        let total: usize = pages.iter().sum();
        tables
            .entry("working_set_summary")
            .or_default()
            .push(json!([
                kind,
                ids.len(),
                total,
                total * 4096,
                total as f64 / ids.len() as f64,
                pages.iter().max().unwrap()
            ]));
        let of = |at: usize| mean(&ids.iter().map(|id| walks[id][at]).collect::<Vec<f64>>());
        tables
            .entry("locality_summary")
            .or_default()
            .push(json!([kind, of(0), of(1), of(2)]));
        let once = mean(
            &ids.iter()
                .filter_map(|id| ratios.get(id).copied())
                .collect::<Vec<f64>>(),
        );
        let class = if once >= 0.8 && p(0.99) >= 10.0 {
            "high_mrm"
        } else if once >= 0.5 && p(0.5) >= 1.0 {
            "medium_mrm"
        } else {
            "low_mrm"
        };
        tables
            .entry("suitability")
            .or_default()
            .push(json!([kind, once, p(0.99), p(0.5), class]));
    }
    let mut addresses: BTreeMap<(&str, u64), Vec<u64>> = BTreeMap::new();
    for row in rows {
        let key = (names.text(row.region_type), row.address);
        addresses.entry(key).or_default().push(row.timestamp_ns);
    }
    let mut intervals: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for ((kind, _), mut times) in addresses {
        times.sort_unstable();
        let found = times
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .filter(|gap| *gap > 0);
        let found: Vec<f64> = found.map(|gap| gap as f64).collect();
        if !found.is_empty() {
            intervals.entry(kind).or_default().extend(found);
        }
    }
    for (kind, found) in intervals {
        let found = sorted(found);
        let p = |q| quantile(&found, q).trunc() as u64;
        tables.entry("iai").or_default().push(json!([
            kind,
            found.len(),
            p(0.5),
            p(0.9),
            p(0.99),
            mean(&found)
        ]));
    }
    tables
}

fn same(ours: &Value, twin: &Value) -> bool {
    match (ours.as_f64(), twin.as_f64()) {
        // Sums may be in another order, but a whole number stays one.
        (Some(a), Some(b)) => (a - b).abs() <= 1e-12 * b.abs().max(1e-300),
        _ => ours == twin,
    }
}

const KINDS: [Name; 5] = [
    Name::WEIGHT,
    Name::KV_CACHE,
    Name::ACTIVATION,
    Name::RUNTIME,
    Name::UNKNOWN,
];

fn access() -> impl Strategy<Value = Access> {
    let address = prop_oneof![
        // Few, so that they meet again...
        4 => (0_u64..6).prop_map(|at| 0x7f00_0000_0000 + at * 1024),
        // ...at both ends of the address space, where differences wrap...
        1 => prop::sample::select(&[0, 1, u64::MAX, u64::MAX - 4095, 1 << 63, (1 << 63) - 1][..]),
        1 => any::<u64>(),
    ];
    let time = prop_oneof![0_u64..8, (0_u64..40).prop_map(|at| at * 777_777_777)];
    // ...in regions that hold several types, with pages that are not those of the addresses.
    (address, time, 0..5_usize, 0..3_u8, 0_u64..5, 0..8_u8).prop_map(
        |(address, time, kind, op, region, page)| {
            let mut row = Access::new(time, address);
            row.region_type = KINDS[if page < 6 { region as usize } else { kind }];
            row.op = [Name::LOAD, Name::STORE, Name::EMPTY][op as usize];
            if op == 2 && page > 1 {
                row.op = Name::STORE;
            }
            row.region_id = region * 1000;
            if page == 7 {
                row.address_page = 5;
            }
            row
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_table_is_its_definition(rows in prop::collection::vec(access(), 1..60), spilled in any::<bool>()) {
        let names = Names::new();
        let mut options = AnalysisOptions::mrm();
        if spilled {
            options.memory_bytes = 1;
        }
        let analysis = compute_all(&rows, &names, options).unwrap();
        let mut text = Vec::new();
        analysis.write_json_tables(&mut text).unwrap();
        let ours: Value = serde_json::from_slice(&text).unwrap();
        let twin = tables(&rows, &names);
        for (table, ours) in ours.as_object().unwrap() {
            let ours = ours["rows"].as_array().unwrap();
            let none = Vec::new();
            let twin = twin.get(table.as_str()).unwrap_or(&none);
            prop_assert_eq!(ours.len(), twin.len(), "{}", table);
            for (ours, twin) in ours.iter().zip(twin) {
                let (ours, twin) = (ours.as_array().unwrap(), twin.as_array().unwrap());
                prop_assert_eq!(ours.len(), twin.len(), "{}", table);
                for (ours, twin) in ours.iter().zip(twin) {
                    prop_assert!(same(ours, twin), "{}: {} is not {}", table, ours, twin);
                }
            }
        }
        for table in twin.keys() {
            prop_assert!(ours.get(table).is_some(), "{} is missing", table);
        }
    }
}
