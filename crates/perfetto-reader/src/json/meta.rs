//! Reads the keys of the document that describe the recording.

use crate::source_issues;
use serde_json::Value;
use trace_model::{Distributed, IssueKind, Place, ProcessGroup, Rank, TraceBuilder};

/// Key that is true where correlation ids hold within a process only, as in recordings of several processes by one profiler.
pub(crate) const LAUNCHES_WITHIN_PROCESS: &str = "launchesWithinProcess";

/// Returns `true` if the value of this key is kept.
pub(super) fn is_wanted(key: &str) -> bool {
    const KEYS: &[&str] = &[
        "schemaVersion",
        "deviceProperties",
        "distributedInfo",
        "trace_id",
        "traceName",
        "displayTimeUnit",
        "baseTimeNanoseconds",
        "cupti_version",
        "roctracer_version",
        "with_stack",
        "with_flops",
        "with_modules",
        "record_shapes",
        "profile_memory",
        "host_name",
        "metadata",
        // Processes that are ranks of a job.
        "rankProcesses",
        LAUNCHES_WITHIN_PROCESS,
        source_issues::KEY,
    ];
    let is_version = key.ends_with("_version")
        && (key.starts_with("cuda_") || key.starts_with("hip_") || key.starts_with("rocm_"));
    KEYS.contains(&key) || is_version
}

/// Stores the raw text of a value in the metadata.
pub(crate) fn store(builder: &mut TraceBuilder, key: &str, raw: &[u8]) {
    let raw = String::from_utf8_lossy(raw);
    let raw = raw.trim();
    match key {
        "baseTimeNanoseconds" => match raw.trim_matches('"').parse() {
            Ok(base) => builder.meta.base_time_ns = base,
            Err(_) => bad_value(builder, key),
        },
        "distributedInfo" => match serde_json::from_str(raw) {
            Ok(value) => builder.meta.distributed = Some(distributed(&value)),
            Err(_) => bad_value(builder, key),
        },
        LAUNCHES_WITHIN_PROCESS => builder.meta.launches_within_process = raw == "true",
        source_issues::KEY if !source_issues::store(builder, raw) => bad_value(builder, key),
        _ => {}
    }
    if !is_own(key) {
        // Strings are decoded; other values stay as written.
        let text = serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned());
        let entries = &mut builder.meta.entries;
        entries.retain(|(k, _)| k != key);
        entries.push((key.to_owned(), text));
    }
}

/// Returns `true` for keys whose values have a place of their own in the metadata.
pub(super) fn is_own(key: &str) -> bool {
    [
        "baseTimeNanoseconds",
        LAUNCHES_WITHIN_PROCESS,
        source_issues::KEY,
    ]
    .contains(&key)
}

fn bad_value(builder: &mut TraceBuilder, key: &str) {
    let diagnostics = &mut builder.diagnostics;
    diagnostics.note(IssueKind::JsonBadField, Place::Byte(0), key.to_owned());
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        _ => None,
    }
}

/// Reads a count or rank; some writers put these in quotes.
fn number(value: &Value) -> Option<u32> {
    match value {
        Value::String(s) => s.parse().ok(),
        other => u32::try_from(other.as_u64()?).ok(),
    }
}

fn distributed(info: &Value) -> Distributed {
    let groups = info["pg_config"].as_array().map_or(&[][..], Vec::as_slice);
    Distributed {
        backend: text(&info["backend"]),
        rank: number(&info["rank"]).map(Rank),
        world_size: number(&info["world_size"]),
        groups: groups.iter().map(group).collect(),
    }
}

fn group(config: &Value) -> ProcessGroup {
    let ranks = config["ranks"].as_array().map_or(&[][..], Vec::as_slice);
    ProcessGroup {
        name: text(&config["pg_name"]).unwrap_or_default(),
        description: text(&config["pg_desc"]).unwrap_or_default(),
        backend: text(&config["backend_config"]).unwrap_or_default(),
        size: number(&config["pg_size"]),
        ranks: ranks.iter().filter_map(number).collect(),
    }
}
