//! What an export holds of the environment, the command lines and the output of processes, and who may see which string.

use rustc_hash::FxHashSet;
use sqlite_scan::Value;

use crate::error::Result;
use crate::export::Export;

/// Tables that are never read.
const TABLES: [&str; 5] = [
    "TARGET_INFO_SYSTEM_ENV",
    "ProcessStreams",
    "ANALYSIS_FILE",
    "DIAGNOSTIC_EVENT",
    "OSRT_FILE_ACCESS_DESCRIPTORS",
];

/// Beginnings of the names of others.
const PREFIXES: [&str; 4] = ["META_DATA_", "EXPORT_", "PROCESS_STREAM", "ProcessStream"];

/// Columns whose numbers are ids of strings that name kernels, calls, ranges, threads and symbols.
const NAMES: [&str; 9] = [
    "demangledName",
    "shortName",
    "mangledName",
    "nameId",
    "textId",
    "jsonTextId",
    "symbol",
    "fieldNameId",
    "typeNameId",
];

/// Returns `true` for tables that hold the environment, command lines, output or files of processes.
///
/// ```
/// assert!(nsys_db::is_private("META_DATA_CAPTURE"));
/// assert!(!nsys_db::is_private("CUPTI_ACTIVITY_KIND_KERNEL"));
/// ```
pub fn is_private(table: &str) -> bool {
    let is = |known: &&str| table.eq_ignore_ascii_case(known);
    let begins = |prefix: &&str| {
        let start = table.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    TABLES.iter().any(is) || PREFIXES.iter().any(begins)
}

/// Returns the ids of the strings that name kernels, calls, ranges, threads and symbols. The table of strings holds others that nothing
/// refers to, such as the environment of every process. Reads these columns of all tables.
///
/// # Errors
///
/// Returns an error if a table is damaged.
pub fn named_strings(export: &Export) -> Result<FxHashSet<i64>> {
    let mut ids = FxHashSet::default();
    let tables: Vec<&str> = export
        .table_names()
        .filter(|name| !is_private(name))
        .collect();
    for table in tables {
        let columns = export.columns(table).unwrap_or_default();
        let is_name = |name: &str| NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
        let names: Vec<&str> = columns
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| is_name(name))
            .collect();
        if names.is_empty() {
            continue;
        }
        export.scan_list(table, &names, |_, values| {
            ids.extend(values.iter().filter_map(Value::as_int));
            Ok::<_, crate::Error>(())
        })?;
    }
    Ok(ids)
}
