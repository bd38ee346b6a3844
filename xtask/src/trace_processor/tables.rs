//! Makes the tables of Perfetto's trace processor and of `trace-info tables --compat` comparable.

use anyhow::{Context as _, Result};
use serde_json::Value;
use std::collections::HashMap;

/// A table that both have.
pub(super) struct Pair {
    /// Name in `trace-info tables --table`.
    pub(super) name: &'static str,
    /// Query for the trace processor; its columns are the ones compared.
    pub(super) sql: &'static str,
    /// `true` if rows are in processing order, which must be equal.
    ordered: bool,
    /// Column with the number of a thread or process: the built-in idle one is not a row of ours,
    /// and this release loses the sign of a negative number.
    idle: Option<usize>,
    /// Names that differ between releases of the processor: differences are shown, not counted.
    pub(super) informative: bool,
    /// Column with the number of a track, which only identifies the rows that share one.
    label: Option<usize>,
}

/// An argument with the processor's own numbering of threads.
const THREAD_NUMBER: &str = "legacy_event.passthrough_utid";

/// All tables, with their columns as `trace-info` names them.
pub(super) const PAIRS: &[Pair] = &[
    Pair {
        name: "slice",
        sql: "select s.id, s.ts, s.dur, s.category as cat, s.name, s.depth, s.parent_id, t.type as track_type,
                t.name as track_name, coalesce(tp.pid, pp.pid) as pid, th.tid, s.thread_ts, s.thread_dur, s.track_id
              from slice s join track t on t.id = s.track_id
                left join thread_track tt on tt.id = t.id left join thread th on th.utid = tt.utid
                left join process tp on tp.upid = th.upid
                left join process_track pt on pt.id = t.id left join process pp on pp.upid = pt.upid
              order by s.id",
        ordered: true,
        idle: None,
        informative: false,
        label: Some(13),
    },
    Pair {
        name: "flow",
        sql: "select f.id, f.slice_out, f.slice_in, extract_arg(f.arg_set_id, 'cat') as cat,
                extract_arg(f.arg_set_id, 'name') as name, a.ts as out_ts, a.name as out_name, b.ts as in_ts,
                b.name as in_name
              from flow f left join slice a on a.id = f.slice_out left join slice b on b.id = f.slice_in
              order by f.id",
        ordered: true,
        idle: None,
        informative: false,
        label: None,
    },
    Pair {
        name: "counter",
        sql: "select c.ts, c.value, t.type as track_type, t.name as track_name, ct.unit,
                coalesce(tp.pid, pp.pid) as pid, th.tid
              from counter c join track t on t.id = c.track_id left join counter_track ct on ct.id = t.id
                left join thread_counter_track tt on tt.id = t.id left join thread th on th.utid = tt.utid
                left join process tp on tp.upid = th.upid
                left join process_counter_track pt on pt.id = t.id left join process pp on pp.upid = pt.upid",
        ordered: false,
        idle: None,
        informative: false,
        label: None,
    },
    Pair {
        name: "args",
        sql: "select s.id as slice_id, a.flat_key, a.key, a.value_type, a.display_value as value
              from slice s join args a using (arg_set_id)",
        ordered: false,
        idle: None,
        informative: false,
        label: None,
    },
    Pair {
        name: "thread",
        sql: "select th.tid, th.name, p.pid, p.name as process_name from thread th left join process p using (upid)",
        ordered: false,
        idle: Some(0),
        informative: false,
        label: None,
    },
    Pair {
        name: "process",
        sql: "select pid, name from process",
        ordered: false,
        idle: Some(0),
        informative: false,
        label: None,
    },
    Pair {
        name: "stats",
        sql: "select name, idx, severity, source, value from stats where value > 0 and severity != 'info'",
        ordered: false,
        idle: None,
        informative: true,
        label: None,
    },
];

/// Returns the rows of `table`, in the columns of `wanted`, as text that is equal for equal values.
pub(super) fn rows(pair: &Pair, table: &Value, wanted: &[String]) -> Result<Vec<Vec<String>>> {
    let columns = columns(table)?;
    let mut labels = HashMap::new();
    let mut all = Vec::new();
    for row in table["rows"].as_array().context("a table has rows")? {
        // Their rows are lists, ours objects keyed by column.
        let cell = |name: &String| match row {
            Value::Array(cells) => columns
                .iter()
                .position(|c| c == name)
                .and_then(|at| cells.get(at)),
            other => other.get(name),
        };
        let cells = wanted
            .iter()
            .map(|name| {
                cell(name)
                    .map(plain)
                    .with_context(|| format!("{} has no column {name}", pair.name))
            })
            .collect::<Result<Vec<_>>>()?;
        if cells.iter().any(|cell| cell == THREAD_NUMBER) {
            continue;
        }
        let mut cells = cells;
        if let Some(at) = pair.idle {
            if cells[at] == "0" || cells[at] == "null" {
                continue;
            }
            for cell in &mut cells {
                if cell == "4294967295" {
                    "-1".clone_into(cell);
                }
            }
        }
        if let Some(at) = pair.label {
            let next = labels.len().to_string();
            let label = labels.entry(cells[at].clone()).or_insert(next);
            cells[at].clone_from(label);
        }
        all.push(cells);
    }
    if !pair.ordered {
        all.sort();
    }
    if pair.idle.is_some() {
        // One process occurs twice: with and without the sign of its number.
        all.dedup();
    }
    Ok(all)
}

/// Returns the names of a table's columns.
pub(super) fn columns(table: &Value) -> Result<Vec<String>> {
    let columns = table["columns"]
        .as_array()
        .context("a table has columns")?
        .iter();
    Ok(columns
        .map(|column| plain(column.get("name").unwrap_or(column)))
        .collect())
}

/// Formats a value: the same text for 1 and 1.0, and for a text and the number in it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number
            .as_f64()
            .map_or_else(String::new, |real| real.to_string()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_are_comparable() {
        let pair = PAIRS.iter().find(|pair| pair.name == "thread").unwrap();
        let ours = json!({
            "columns": [{"name": "name"}, {"name": "tid"}],
            "rows": [{"name": "b", "tid": 2}, {"name": null, "tid": 0}, {"name": "a", "tid": 1}],
        });
        let theirs =
            json!({"columns": ["tid", "name"], "rows": [[1.0, "a"], [0, "swapper"], [2, "b"]]});
        let wanted = columns(&theirs).unwrap();
        let ours = rows(pair, &ours, &wanted).unwrap();
        assert_eq!(ours, rows(pair, &theirs, &wanted).unwrap());
        assert_eq!(ours, [["1", "a"], ["2", "b"]]);
    }

    #[test]
    fn tracks_keep_their_partition_only() {
        let pair = Pair {
            label: Some(0),
            ..PAIRS[0]
        };
        let of = |ids: [u64; 3]| {
            let table = json!({"columns": ["track_id"], "rows": [[ids[0]], [ids[1]], [ids[2]]]});
            rows(&pair, &table, &["track_id".to_owned()]).unwrap()
        };
        assert_eq!(of([7, 9, 7]), of([3, 4, 3]));
        assert_ne!(of([7, 9, 7]), of([3, 4, 4]));
    }
}
