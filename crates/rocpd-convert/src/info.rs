//! What databases hold and what is wrong with them, as a document, a table and a text.

use report::{Cell, Column, CsvOptions, CsvWriter, RowSink as _};
use rocpd_db::{Filter, Partition, RocpdSet, Summary, SummaryOptions};
use serde_json::{Value, json};

use crate::Result;

/// Returns all that is known of the databases: files, processes, agents, rows by table, warnings, values that cannot be read, keys that name no
/// row, times that cannot be. Cost: one pass over all records.
///
/// # Errors
///
/// A database that cannot be read.
pub fn document(set: &RocpdSet) -> Result<Value> {
    let mut partitions = Vec::new();
    for (number, partition) in set.partitions().iter().enumerate() {
        partitions.push(describe(set, partition, number)?);
    }
    let odd_times = set.odd_times()?;
    let issues: Vec<Value> = set
        .issues()
        .iter()
        .map(|issue| {
            json!({"file": issue.file, "table": issue.table, "column": issue.column, "rows": issue.count,
                   "first_rowid": issue.first_rowid, "found": issue.found, "only_value": issue.only_value})
        })
        .collect();
    let (everything, as_it_is) = (Filter::default(), SummaryOptions::default());
    let bounds = set.time_bounds(&everything)?;
    let orphans = set.orphans()?;
    let summary = Summary::collect(set, &everything, &as_it_is)?;
    let unviewed: Vec<Value> = summary
        .lost
        .counts()
        .map(|(count, what)| json!({"records": count, "what": what, "says": format!("{count} {what}: they are in no view, and summary does not count them")}))
        .collect();
    // Records may lack what a view joins: they are whole, and named below.
    let healthy = issues.is_empty()
        && set.warnings().is_empty()
        && orphans.is_empty()
        && odd_times.is_empty();
    let odd_times: Vec<Value> = odd_times
        .iter()
        .map(|odd| {
            json!({"file": odd.file, "guid": odd.guid, "table": odd.table, "reversed": odd.reversed, "negative": odd.negative, "implausible": odd.implausible, "negative_sizes": odd.negative_sizes, "valueless": odd.valueless,
                   "first_rowid": odd.first_rowid, "says": odd.to_string()})
        })
        .collect();
    let orphans: Vec<Value> = orphans
        .iter()
        .map(|orphans| {
            json!({"file": orphans.file, "guid": orphans.guid, "table": orphans.table, "column": orphans.column,
                   "target": orphans.target, "rows": orphans.rows, "first_rowid": orphans.first_rowid, "says": orphans.to_string()})
        })
        .collect();
    Ok(json!({
        "schema_version": "1.6",
        "files": set.files().collect::<Vec<_>>(),
        "start_ns": bounds.map(|b| b.first_ns),
        "end_ns": bounds.map(|b| b.last_ns),
        "partitions": partitions,
        "warnings": set.warnings(),
        "notes": set.notes(),
        "issues": issues,
        "orphans": orphans,
        "odd_times": odd_times,
        "in_no_view": unviewed,
        "healthy": healthy,
    }))
}

fn describe(set: &RocpdSet, partition: &Partition, number: usize) -> Result<Value> {
    let mut rows = serde_json::Map::new();
    for table in partition.tables() {
        rows.insert(table.to_owned(), partition.rows(table)?.into());
    }
    let own = |guid: &str| guid == partition.guid();
    let processes: Vec<Value> = partition
        .processes()
        .iter()
        .map(|p| {
            json!({"guid": p.guid, "pid": p.pid, "ppid": p.ppid, "nid": p.nid, "hostname": p.hostname, "rank": p.rank,
                   "init_ns": p.init_ns, "fini_ns": p.fini_ns, "command": p.command})
        })
        .collect();
    let nodes: Vec<Value> = set
        .nodes()
        .filter(|(guid, _)| own(guid))
        .map(|(_, n)| json!({"nid": n.id, "hostname": n.hostname, "machine_id": n.machine_id, "release": n.release}))
        .collect();
    let agents: Vec<Value> = set
        .agents()
        .filter(|(process, _)| process.partition == number)
        .map(|(_, a)| {
            json!({"type": a.kind, "absolute_index": a.absolute_index, "logical_index": a.logical_index,
                   "type_index": a.type_index, "name": a.name, "product_name": a.product_name,
                   "model_name": a.model_name})
        })
        .collect();
    let foreign = partition.foreign_tables()?.into_iter();
    let foreign = foreign.map(|(table, rows)| (table.to_owned(), rows.into()));
    let replay = partition.replays()?;
    Ok(json!({
        "file": partition.path(),
        "guid": partition.guid(),
        "schema": partition.schema(),
        "suffix": partition.suffix(),
        "nodes": nodes,
        "processes": processes,
        "threads": set.threads().filter(|(process, _)| process.partition == number).count(),
        "agents": agents,
        "rows": rows,
        "unknown_tables": partition.unknown_tables().collect::<Vec<_>>(),
        "other_tables": foreign.collect::<serde_json::Map<String, Value>>(),
        "replay": replay.map(|(dispatches, passes)| json!({"repeated_dispatches": dispatches, "passes": passes})),
    }))
}

/// Returns the first recorded name of an agent that is not empty.
fn agent_name(agent: &Value) -> Option<&str> {
    let names = ["product_name", "model_name", "name"];
    let mut known = names.iter().filter_map(|key| agent[key].as_str());
    known.find(|name| !name.trim().is_empty())
}

/// Returns a row for each table of each partition of a [`document`], as CSV.
///
/// # Errors
///
/// A cell that CSV cannot hold.
pub fn csv(document: &Value) -> Result<String> {
    let mut out = Vec::new();
    let mut sink = CsvWriter::new(&mut out, CsvOptions::default());
    sink.begin(&[
        Column::text("file"),
        Column::text("guid"),
        Column::text("schema"),
        Column::text("table"),
        Column::uint("rows"),
    ])?;
    for partition in document["partitions"].as_array().into_iter().flatten() {
        let of = |key: &str| Cell::from(partition[key].as_str());
        for (table, rows) in partition["rows"].as_object().into_iter().flatten() {
            sink.row(&[
                of("file"),
                of("guid"),
                of("schema"),
                Cell::from(table),
                Cell::from(rows.as_u64()),
            ])?;
        }
    }
    sink.finish()?;
    drop(sink);
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Returns a [`document`] as text.
#[must_use]
pub fn text(document: &Value) -> String {
    let mut out = String::new();
    let shown = |value: &Value| match value {
        Value::String(text) => report::text::printable(text).into_owned(),
        Value::Null => "-".to_owned(),
        value => value.to_string(),
    };
    out += &format!(
        "files: {}\ntime: {} to {} ns\nhealthy: {}\n",
        document["files"].as_array().map_or(0, Vec::len),
        shown(&document["start_ns"]),
        shown(&document["end_ns"]),
        if document["healthy"] == true {
            "yes"
        } else {
            "no"
        },
    );
    for partition in document["partitions"].as_array().into_iter().flatten() {
        out += &format!(
            "\n{}\n  guid {}  schema {}\n",
            shown(&partition["file"]),
            shown(&partition["guid"]),
            shown(&partition["schema"])
        );
        for process in partition["processes"].as_array().into_iter().flatten() {
            out += &format!(
                "  process {} on {} (rank {}): {}\n",
                shown(&process["pid"]),
                shown(&process["hostname"]),
                shown(&process["rank"]),
                shown(&process["command"])
            );
        }
        for agent in partition["agents"].as_array().into_iter().flatten() {
            out += &format!(
                "  {} {} (absolute {}): {}\n",
                shown(&agent["type"]),
                shown(&agent["type_index"]),
                shown(&agent["absolute_index"]),
                agent_name(agent).map_or_else(
                    || "no name recorded".to_owned(),
                    |name| report::text::printable(name).into_owned()
                )
            );
        }
        for (table, rows) in partition["rows"].as_object().into_iter().flatten() {
            if rows != 0 {
                let unknown = partition["unknown_tables"].as_array();
                let note = match unknown.is_some_and(|list| list.contains(&json!(table))) {
                    true => "  (not known to this version: merge keeps it, query shows it)",
                    false => "",
                };
                out += &format!("  {:>12}  {table}{note}\n", rows.to_string());
            }
        }
        for (table, rows) in partition["other_tables"].as_object().into_iter().flatten() {
            out += &format!(
                "  {:>12}  {}  (not part of the format: merge leaves it out)\n",
                rows.to_string(),
                report::text::printable(table)
            );
        }
        if let Some(repeated) = partition["replay"]["repeated_dispatches"].as_u64() {
            out += &format!(
                "  kernel replay: {repeated} dispatches repeat others, in {} passes; calls and durations of kernels count every pass\n",
                partition["replay"]["passes"]
            );
        }
    }
    for note in document["notes"].as_array().into_iter().flatten() {
        out += &format!("note: {}\n", shown(note));
    }
    for warning in document["warnings"].as_array().into_iter().flatten() {
        out += &format!("warning: {}\n", shown(warning));
    }
    for issue in document["issues"].as_array().into_iter().flatten() {
        out += &format!(
            "warning: {}: {} rows of {} {}: column {} has {} in row {}\n",
            shown(&issue["file"]),
            issue["rows"],
            shown(&issue["table"]),
            match issue["only_value"] == true {
                true => "are read without a value",
                false => "cannot be read",
            },
            shown(&issue["column"]),
            shown(&issue["found"]),
            issue["first_rowid"]
        );
    }
    for list in ["orphans", "odd_times", "in_no_view"] {
        for found in document[list].as_array().into_iter().flatten() {
            out += &format!("warning: {}\n", shown(&found["says"]));
        }
    }
    out
}
