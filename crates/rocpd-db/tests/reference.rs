//! The sample databases of the format, their truth, and what the reference makes of one.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocpd_db::{
    Filter, KernelNames, OpenOptions, RocpdSet, SqlValue, Summary, SummaryOptions, SummaryRow,
};
use serde_json::Value;

/// The reference data of these tests.
fn data() -> PathBuf {
    test_data::reference("rocpd")
}

/// Compressed databases are read as they are.
fn open(folder: &Path) -> RocpdSet {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "xz"))
        .collect();
    files.sort();
    RocpdSet::open(&files, &OpenOptions::default()).unwrap()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

/// Cells equal, numbers to a relative 1e-12.
fn assert_same(found: &[Vec<String>], path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let expected: Vec<Vec<String>> = text.lines().skip(1).map(csv_line).collect();
    assert_eq!(found.len(), expected.len(), "{}", path.display());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            let same = a == b || matches!((a.parse(), b.parse()), (Ok(a), Ok(b)) if near(a, b));
            assert!(same, "{}: {a} is not {b}", path.display());
        }
    }
}

fn csv_line(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cells.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    cells
}

fn cells(row: &SummaryRow, total: i128) -> Vec<String> {
    vec![
        row.name.clone(),
        row.stat.calls.to_string(),
        row.stat.total_ns.to_string(),
        row.stat.mean_ns().to_string(),
        row.stat.share_pct(total).unwrap().to_string(),
        row.stat.min_ns.to_string(),
        row.stat.max_ns.to_string(),
        row.stat
            .stddev_ns()
            .map_or_else(String::new, |s| s.to_string()),
    ]
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn summaries_of_the_reference() {
    let data = data();
    let set = open(&data.join("dev_small"));
    let filter = Filter::default();
    let summary = Summary::collect(&set, &filter, &SummaryOptions::default()).unwrap();
    let expected = data.join("dev_small_expected");
    assert_eq!(summary.views.len(), 8);
    for view in &summary.views {
        let rows = view.overall();
        let total = rows.iter().map(|row| row.stat.total_ns).sum();
        let found: Vec<Vec<String>> = rows.iter().map(|row| cells(row, total)).collect();
        assert_same(&found, &expected.join(format!("{}_summary.csv", view.view)));
        let found: Vec<Vec<String>> = view
            .by_rank(&summary.processes)
            .iter()
            .map(|row| {
                let process = summary.processes[row.process];
                let mut line = vec![process.pid.to_string(), process.hostname.clone()];
                line.extend(cells(row, total));
                line
            })
            .collect();
        assert_same(
            &found,
            &expected.join(format!("{}_summary_by_rank.csv", view.view)),
        );
    }
    // The sums of averages and deviations are the reference's; ours are those of all records.
    let lines = |rows: Vec<rocpd_db::DomainRow>, by_rank: bool| -> Vec<Vec<String>> {
        rows.iter()
            .map(|row| {
                let process = summary.processes[row.process];
                let mut line = match by_rank {
                    true => vec![process.pid.to_string(), process.hostname.clone()],
                    false => Vec::new(),
                };
                line.extend([
                    row.name.clone(),
                    row.stat.calls.to_string(),
                    row.stat.total_ns.to_string(),
                    row.sum_of_means_ns.to_string(),
                    row.share_pct.unwrap().to_string(),
                    row.stat.min_ns.to_string(),
                    row.stat.max_ns.to_string(),
                    row.sum_of_stddevs_ns.unwrap().to_string(),
                ]);
                line
            })
            .collect()
    };
    assert_same(
        &lines(summary.domains(), false),
        &expected.join("domain_summary.csv"),
    );
    assert_same(
        &lines(summary.domains_by_rank(), true),
        &expected.join("domain_summary_by_rank.csv"),
    );
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn views_of_the_reference() {
    let data = data();
    let set = open(&data.join("dev_small"));
    let session = set.sql(None, KernelNames::default()).unwrap();
    for view in ["top", "top_kernels", "busy"] {
        let mut statement = session
            .prepare(&format!("SELECT * FROM {view} ORDER BY 1"))
            .unwrap();
        let mut rows = statement.query(&[]).unwrap();
        let mut found = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let line = (0..row.len()).map(|at| match row.get(at) {
                SqlValue::Int(value) => value.to_string(),
                SqlValue::Real(value) => value.to_string(),
                SqlValue::Text(text) => text.to_owned(),
                other => panic!("{other:?}"),
            });
            found.push(line.collect());
        }
        let file = format!("view_{view}.csv");
        assert_same(&found, &data.join("dev_small_expected").join(file));
    }
}

/// Calls, total, shortest and longest by name.
type Rows = BTreeMap<String, (u64, i64, i64, i64)>;

fn planted(value: &Value) -> Rows {
    let number = |row: &Value, key: &str| row[key].as_i64().unwrap();
    value
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, row)| {
            let calls = row["calls"].as_u64().unwrap();
            (
                name.clone(),
                (
                    calls,
                    number(row, "total_ns"),
                    number(row, "min_ns"),
                    number(row, "max_ns"),
                ),
            )
        })
        .collect()
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn truth_of_all_samples() {
    let data = data();
    for sample in ["dev_small", "dev_two", "dev_edge"] {
        let set = open(&data.join(sample));
        let filter = Filter::default();
        let summary = Summary::collect(&set, &filter, &SummaryOptions::default()).unwrap();
        let truth = std::fs::read_to_string(data.join(sample).join("truth.json")).unwrap();
        let truth: Value = serde_json::from_str(&truth).unwrap();
        for process in truth["processes"].as_array().unwrap() {
            let guid = process["guid"].as_str().unwrap();
            let found = |view: &str| -> Rows {
                let view = summary.views.iter().find(|v| v.view == view);
                view.map(|view| view.by_rank(&summary.processes))
                    .unwrap_or_default()
                    .into_iter()
                    .filter(|row| summary.processes[row.process].guid == guid)
                    .map(|row| {
                        let total = i64::try_from(row.stat.total_ns).unwrap();
                        (
                            row.name,
                            (row.stat.calls, total, row.stat.min_ns, row.stat.max_ns),
                        )
                    })
                    .collect()
            };
            assert_eq!(found("kernels"), planted(&process["kernels"]), "{sample}");
            assert_eq!(
                found("memory_copies"),
                planted(&process["memory_copies"]),
                "{sample}"
            );
            assert_eq!(
                found("memory_allocations"),
                planted(&process["memory_allocations"]),
                "{sample}"
            );
            assert_eq!(
                found("scratch_memory"),
                planted(&process["scratch"]),
                "{sample}"
            );
            assert_eq!(found("markers"), planted(&process["markers"]), "{sample}");
            for (domain, rows) in process["regions"].as_object().unwrap() {
                assert_eq!(
                    found(&domain.to_ascii_lowercase()),
                    planted(rows),
                    "{sample}"
                );
            }
            let partition = set.partitions().iter().find(|p| p.guid() == guid).unwrap();
            for (table, rows) in process["counts"].as_object().unwrap() {
                if table.starts_with("rocpd_") {
                    assert_eq!(
                        partition.rows(table).unwrap(),
                        rows.as_u64().unwrap(),
                        "{table}"
                    );
                }
            }
        }
    }
}
