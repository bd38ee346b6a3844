//! Plain PerfettoSQL gives the rows of Perfetto's own trace processor (release 55.3), which `cargo xtask trace-processor` runs again.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

/// Queries over `testdata/demo/demo-rank0.json.gz`, with the columns and rows of the trace processor.
const QUERIES: &str = include_str!("perfetto_queries.json");

fn ours(sql: &str) -> Vec<Value> {
    let trace =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/demo/demo-rank0.json.gz");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let words: [OsString; 8] = [
        "sql".into(),
        "-q".into(),
        "--json".into(),
        "--compat".into(),
        "-o".into(),
        out.clone().into(),
        sql.into(),
        trace.into(),
    ];
    assert_eq!(sql::main_from(words), 0, "{sql}");
    serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap()
}

fn is_same(ours: &Value, theirs: &Value) -> bool {
    match (ours.as_f64(), theirs.as_f64()) {
        // Integers exactly, quotients within the last digits.
        (Some(_), Some(_)) if ours.is_i64() && theirs.is_i64() => ours == theirs,
        (Some(a), Some(b)) => (a - b).abs() <= b.abs() * 1e-12,
        _ => ours == theirs,
    }
}

#[test]
fn plain_queries_give_the_rows_of_the_trace_processor() {
    let cases: Vec<Value> = serde_json::from_str(QUERIES).unwrap();
    assert!(cases.len() > 10);
    for case in cases {
        let sql = case["sql"].as_str().unwrap();
        let (rows, found) = (case["rows"].as_array().unwrap(), ours(sql));
        assert_eq!(found.len(), rows.len(), "{sql}");
        for (row, own) in rows.iter().zip(&found) {
            let names = case["columns"].as_array().unwrap();
            for (name, cell) in names.iter().zip(row.as_array().unwrap()) {
                let own = &own[name.as_str().unwrap()];
                assert!(is_same(own, cell), "{sql}\n{name}: {own} instead of {cell}");
            }
        }
    }
}
