//! Plain PerfettoSQL in both: the queries of a test of `sql`, over any trace.

use crate::workspace::{capture, cargo};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The queries, with the rows of the trace processor for one trace of `testdata/`.
const QUERIES: &str = include_str!("../../../bins/sql/tests/perfetto_queries.json");

/// Runs the queries in the trace processor and in `sql --compat`, and returns the number of those that differ.
pub(super) fn differing(driver: &Path, assets: &Path, trace: &Path) -> Result<usize> {
    let cases: Vec<Value> = serde_json::from_str(QUERIES)?;
    let queries: Vec<&str> = cases
        .iter()
        .filter_map(|case| case["sql"].as_str())
        .collect();
    let mut node = Command::new("node");
    node.arg(driver).arg(assets).arg(trace).args(&queries);
    let theirs: Vec<Value> = serde_json::from_slice(&capture(&mut node)?)
        .context("the answers of the trace processor")?;
    let mut differing = 0;
    for (query, theirs) in queries.iter().zip(&theirs) {
        let mut ours = cargo(&["run", "--quiet", "--package", "inferscope-sql", "--"]);
        ours.args(["--compat", "--json", "--quiet", query])
            .arg(std::path::absolute(trace)?);
        let ours: Vec<Value> = serde_json::from_slice(&capture(&mut ours)?)?;
        let equal = is_equal(&ours, theirs);
        differing += usize::from(!equal);
        let title: String = query.chars().take(60).collect();
        let verdict = if equal { "equal" } else { "DIFFERS" };
        println!("  {verdict:<8} {:>6} rows  {title}", ours.len());
    }
    Ok(differing)
}

/// Compares rows: integers exactly, quotients within the last digits.
fn is_equal(ours: &[Value], theirs: &Value) -> bool {
    let (Some(columns), Some(rows)) = (theirs["columns"].as_array(), theirs["rows"].as_array())
    else {
        return false;
    };
    let same = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
        (Some(_), Some(_)) if a.is_i64() && b.is_i64() => a == b,
        (Some(a), Some(b)) => (a - b).abs() <= b.abs() * 1e-12,
        _ => a == b,
    };
    ours.len() == rows.len()
        && ours.iter().zip(rows).all(|(own, row)| {
            let cells = row.as_array().into_iter().flatten();
            let mut pairs = columns.iter().filter_map(Value::as_str).zip(cells);
            pairs.all(|(name, cell)| same(&own[name], cell))
        })
}
