//! All records in one set of tables, with ids that are unique.

use std::path::Path;

use rusqlite::Connection;
use rustc_hash::FxHashMap;

use super::{Failed, Merged, check_rows, declared, each_partition, quoted, say_offsets};
use crate::align::Offsets;
use crate::error::{Error, Result};
use crate::partition::{Partition, TABLES};
use crate::set::RocpdSet;

/// Tables that are small and whose ids are handles of the system, anywhere among the integers: they are counted anew,
/// by way of a table of old and new ids. Ids of all others grow by what the partitions before have used.
const COUNTED: [&str; 11] = [
    "rocpd_info_node",
    "rocpd_info_process",
    "rocpd_info_thread",
    "rocpd_info_agent",
    "rocpd_info_queue",
    "rocpd_info_stream",
    "rocpd_info_pmc",
    "rocpd_info_code_object",
    "rocpd_info_kernel_symbol",
    "rocpd_info_category",
    "rocpd_track",
];

/// The table that a column names a row of.
fn target(base: &str, column: &str, has_categories: bool) -> Option<&'static str> {
    Some(match (base, column) {
        // Ids of the operating system.
        ("rocpd_info_process", "pid") | ("rocpd_info_thread", "tid") => return None,
        (_, "nid") => "rocpd_info_node",
        (_, "pid") => "rocpd_info_process",
        (_, "tid") => "rocpd_info_thread",
        (_, "agent_id" | "dst_agent_id" | "src_agent_id") => "rocpd_info_agent",
        (_, "queue_id") => "rocpd_info_queue",
        (_, "stream_id") => "rocpd_info_stream",
        (_, "pmc_id") => "rocpd_info_pmc",
        (_, "code_object_id") => "rocpd_info_code_object",
        (_, "kernel_id") => "rocpd_info_kernel_symbol",
        (_, "track_id") => "rocpd_track",
        (_, "event_id") => "rocpd_event",
        (_, "sample_id") => "rocpd_sample",
        (_, "category_id") if has_categories => "rocpd_info_category",
        (_, "name_id" | "region_name_id" | "category_id") => "rocpd_string",
        (_, "address_range_id" | "address_id") => "rocpd_info_address_range",
        (_, "source_code_id") => "rocpd_info_source_code",
        (_, "pc_id") => "rocpd_info_pc",
        _ => return None,
    })
}

/// How the ids of one table of one partition change.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// By a table of old and new ids.
    Counted,
    /// By adding, between these two.
    Shifted { first: i64, last: i64, by: i64 },
    /// There are no rows.
    Nothing,
}

impl Change {
    /// The new id for an old one; NULL for one that no row has, so that it never names the row of another process.
    fn of(self, base: &str, value: &str) -> String {
        match self {
            Self::Counted => {
                format!("(SELECT M.new FROM temp.\"map_{base}\" M WHERE M.old = {value})")
            }
            Self::Shifted { first, last, by } => {
                format!("CASE WHEN {value} BETWEEN {first} AND {last} THEN {value} + {by} END")
            }
            Self::Nothing => "NULL".to_owned(),
        }
    }
}

pub(super) fn fill(
    connection: &Connection,
    set: &RocpdSet,
    offsets: &Offsets,
    path: &Path,
    merged: &mut Merged,
) -> Result<()> {
    let failed = Failed { path };
    let generation = |partition: &Partition| {
        let schema = partition.schema();
        schema.split('.').next().unwrap_or(schema).to_owned()
    };
    let Some(first) = set.partitions().first() else {
        return Ok(());
    };
    for partition in set.partitions() {
        if generation(partition) != generation(first) {
            return Err(Error::Merge {
                name: partition.path().to_owned(),
                what: format!(
                    "schema {} cannot share tables with schema {} of {}: merge without new ids",
                    partition.schema(),
                    first.schema(),
                    first.path()
                ),
            });
        }
    }
    // Columns of all generations; NULL where an input lacks one.
    let mut columns: Vec<(&str, Vec<String>)> = Vec::new();
    let mut bases = TABLES.to_vec();
    for base in set.partitions().iter().flat_map(Partition::unknown_tables) {
        if !bases.contains(&base) {
            bases.push(base);
        }
    }
    for base in bases {
        let mut list: Vec<String> = Vec::new();
        for partition in set.partitions() {
            for column in partition.columns(base).unwrap_or_default() {
                if !list.iter().any(|known| known == column) {
                    list.push(column.to_owned());
                }
            }
        }
        if base == "rocpd_metadata" {
            for column in ["value", "tag", "id"] {
                if !list.iter().any(|known| known == column) {
                    list.insert(0, column.to_owned());
                }
            }
        } else if list.is_empty() {
            continue;
        }
        if !list.iter().any(|column| column == "guid") {
            list.push("guid".to_owned());
        }
        let with_table = set.partitions().iter().find(|p| p.table(base).is_some());
        let partition = with_table.unwrap_or(first);
        let declarations = list.iter().map(|c| declared(partition, base, c));
        let declarations: Vec<String> = declarations.collect();
        connection
            .execute_batch(&format!(
                "CREATE TABLE {base} ({})",
                declarations.join(", ")
            ))
            .map_err(failed.to("make a table"))?;
        merged.tables += 1;
        columns.push((base, list));
    }
    for base in COUNTED {
        connection
            .execute_batch(&format!(
                "CREATE TEMP TABLE \"map_{base}\" (old INTEGER PRIMARY KEY, new INTEGER)"
            ))
            .map_err(failed.to("make a table of ids"))?;
    }
    let mut next: FxHashMap<&str, i64> = FxHashMap::default();
    each_partition(connection, set, failed, |partition| {
        copy_partition(
            connection, partition, &columns, offsets, &mut next, merged, path,
        )
    })?;
    // The version of the newest input: its columns are there.
    let newest = set
        .partitions()
        .iter()
        .map(Partition::schema)
        .max_by_key(|schema| {
            let numbers: Vec<u32> = schema.split('.').map(|n| n.parse().unwrap_or(0)).collect();
            numbers
        })
        .unwrap_or("3");
    connection
        .execute(
            "INSERT INTO rocpd_metadata (tag, value) VALUES ('schema_version', ?1), ('uuid', ''), ('guid', ?2)",
            [newest, first.guid()],
        )
        .map_err(failed.to("write the metadata"))?;
    for partition in set.partitions() {
        say_offsets(connection, "rocpd_metadata", partition, offsets, failed)?;
    }
    Ok(())
}

fn copy_partition<'b>(
    connection: &Connection,
    partition: &Partition,
    columns: &[(&'b str, Vec<String>)],
    offsets: &Offsets,
    next: &mut FxHashMap<&'b str, i64>,
    merged: &mut Merged,
    path: &Path,
) -> Result<()> {
    let failed = Failed { path };
    let mut changes: FxHashMap<&str, Change> = FxHashMap::default();
    for (base, _) in columns {
        changes.insert(*base, change(connection, partition, base, next, path)?);
    }
    let guid = match partition.is_shared() {
        true => "X.guid".to_owned(),
        false => format!("'{}'", partition.guid().replace('\'', "''")),
    };
    let has_categories = partition.table("rocpd_info_category").is_some();
    for (base, all) in columns {
        let (Some(from), Some(own)) = (partition.table_name(base), partition.columns(base)) else {
            continue;
        };
        if *base == "rocpd_metadata" {
            merged.rows += copy_metadata(connection, partition, (from, all, &own), &guid, failed)?;
            continue;
        }
        let mut names = Vec::new();
        let mut values = Vec::new();
        let is_unknown = !TABLES.contains(base);
        let mut unknown = Unknown::default();
        for column in all {
            let value = format!("X.{}", quoted(column));
            let there = own.contains(&column.as_str());
            let change_of = |table: &str| changes.get(table).copied().unwrap_or(Change::Nothing);
            values.push(match column.as_str() {
                "guid" if !there && partition.is_shared() => "NULL".to_owned(),
                "guid" => guid.clone(),
                _ if !there => continue,
                "id" if is_unknown && !partition.is_keyed(base) => value,
                "id" => change_of(base).of(base, &value),
                column if is_unknown => match target(base, column, has_categories) {
                    Some(table)
                        if all_named(
                            connection,
                            from,
                            &value,
                            change_of(table),
                            table,
                            failed,
                        )? =>
                    {
                        unknown.changed.push(column);
                        change_of(table).of(table, &value)
                    }
                    _ => {
                        unknown.kept.push(column);
                        crate::align::moved(offsets, partition, base, column, value)
                    }
                },
                "extdata" if *base == "rocpd_arg" => {
                    stream_of_argument(change_of("rocpd_info_stream"))
                }
                column => match target(base, column, has_categories) {
                    Some(table) => change_of(table).of(table, &value),
                    None => crate::align::moved(offsets, partition, base, column, value),
                },
            });
            names.push(quoted(column));
        }
        if !is_unknown {
            let keys = keys(own.iter().copied(), base, has_categories, &changes);
            merged.notes.extend(dangling(
                connection,
                partition,
                (base, from),
                &keys,
                failed,
            )?);
        }
        let copied = connection
            .execute(
                &format!(
                    "INSERT INTO main.{base} ({}) SELECT {} FROM one.{} X",
                    names.join(", "),
                    values.join(", "),
                    quoted(from)
                ),
                [],
            )
            .map_err(failed.to("copy a table"))?;
        check_rows(partition, base, copied, merged)?;
        if is_unknown {
            merged.notes.push(unknown.says(partition, base));
        }
    }
    Ok(())
}

/// Tags of the metadata that are written once for all, at the end.
const OF_ALL: &str = "('schema_version', 'uuid', 'guid')";

/// Copies the rows of the metadata that say something else than what the merged file is, with new ids and the guid that they are of.
/// The rows that are the same in several inputs stay apart by that. Returns how many there are.
fn copy_metadata(
    connection: &Connection,
    partition: &Partition,
    (from, all, own): (&str, &[String], &[&str]),
    guid: &str,
    failed: Failed<'_>,
) -> Result<u64> {
    let kept = all
        .iter()
        .map(String::as_str)
        .filter(|column| !matches!(*column, "id" | "guid") && own.contains(column));
    let kept: Vec<String> = kept.map(quoted).collect();
    let guid = match (own.contains(&"guid"), partition.is_shared()) {
        (true, _) => "X.guid",
        (false, true) => "NULL",
        (false, false) => guid,
    };
    let values: Vec<String> = kept.iter().map(|column| format!("X.{column}")).collect();
    let copied = connection
        .execute(
            &format!(
                "INSERT INTO main.rocpd_metadata ({}, guid) SELECT {}, {guid} FROM one.{} X WHERE COALESCE(X.tag, '') NOT IN {OF_ALL} ORDER BY X.rowid",
                kept.join(", "),
                values.join(", "),
                quoted(from)
            ),
            [],
        )
        .map_err(failed.to("copy the metadata"))?;
    Ok(copied as u64)
}

/// The columns of a table that name rows of others: column, table, value before and after.
fn keys<'c>(
    columns: impl Iterator<Item = &'c str>,
    base: &str,
    has_categories: bool,
    changes: &FxHashMap<&str, Change>,
) -> Vec<(&'c str, &'static str, String, String)> {
    columns
        .filter_map(|column| {
            let table = target(base, column, has_categories)?;
            let change = changes.get(table).copied().unwrap_or(Change::Nothing);
            let value = format!("X.{}", quoted(column));
            let new = change.of(table, &value);
            Some((column, table, value, new))
        })
        .collect()
}

/// Says which keys name no row: with new ids they become NULL, since an id that is free now may be of another process later.
fn dangling(
    connection: &Connection,
    partition: &Partition,
    (base, from): (&str, &str),
    keys: &[(&str, &'static str, String, String)],
    failed: Failed<'_>,
) -> Result<Vec<String>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let counts = keys
        .iter()
        .map(|(_, _, old, new)| format!("TOTAL({old} IS NOT NULL AND ({new}) IS NULL)"));
    let counts: Vec<String> = counts.collect();
    let sql = format!("SELECT {} FROM one.{} X", counts.join(", "), quoted(from));
    let found: Vec<f64> = connection
        .query_row(&sql, [], |row| {
            (0..keys.len()).map(|at| row.get(at)).collect()
        })
        .map_err(failed.to("look at keys"))?;
    let found = keys.iter().zip(found).filter(|(_, count)| *count > 0.0);
    let notes = found.map(|((column, table, _, _), count)| {
        format!(
            "{}: table {base}: {count} rows have a {column} that names no row of {table}: it is NULL in the merged file",
            partition.path()
        )
    });
    Ok(notes.collect())
}

/// Columns of a table that the format does not know.
#[derive(Debug, Default)]
struct Unknown<'c> {
    changed: Vec<&'c str>,
    kept: Vec<&'c str>,
}

impl Unknown<'_> {
    fn says(&self, partition: &Partition, base: &str) -> String {
        let list = |columns: &[&str]| match columns {
            [] => "none".to_owned(),
            columns => columns.join(", "),
        };
        format!(
            "{}: table {base} is not one of the format: columns with new ids: {}; columns as recorded: {}",
            partition.path(),
            list(&self.changed),
            list(&self.kept)
        )
    }
}

/// Returns `true` if every value of a column of a table `X` of the input names a row of the table that its name says.
fn all_named(
    connection: &Connection,
    from: &str,
    value: &str,
    change: Change,
    table: &str,
    failed: Failed<'_>,
) -> Result<bool> {
    let new = change.of(table, value);
    let sql = format!(
        "SELECT NOT EXISTS (SELECT 1 FROM one.{} X WHERE {value} IS NOT NULL AND {new} IS NULL)",
        quoted(from)
    );
    connection
        .query_row(&sql, [], |row| row.get(0))
        .map_err(failed.to("look at keys"))
}

/// The JSON of an argument `X`, in which arguments named `stream` name theirs by id.
fn stream_of_argument(change: Change) -> String {
    let new = change.of(
        "rocpd_info_stream",
        "JSON_EXTRACT(X.extdata, '$.stream_id')",
    );
    // CASE looks at its conditions in order, so what is no JSON is not taken apart.
    format!(
        "CASE WHEN X.name <> 'stream' OR NOT JSON_VALID(X.extdata) THEN X.extdata \
         WHEN JSON_EXTRACT(X.extdata, '$.stream_id') IS NULL THEN X.extdata \
         ELSE JSON_SET(X.extdata, '$.stream_id', {new}) END"
    )
}

/// How the ids of a table change, and remembers what is used up.
fn change<'b>(
    connection: &Connection,
    partition: &Partition,
    base: &'b str,
    next: &mut FxHashMap<&'b str, i64>,
    path: &Path,
) -> Result<Change> {
    let failed = Failed { path };
    let Some(from) = partition.table_name(base) else {
        return Ok(Change::Nothing);
    };
    let is_keyed = TABLES.contains(&base) || partition.is_keyed(base);
    if base == "rocpd_metadata" || !partition.has_column(base, "id") || !is_keyed {
        return Ok(Change::Nothing);
    }
    let from = quoted(from);
    let free = next.entry(base).or_insert(1);
    if COUNTED.contains(&base) {
        connection
            .execute_batch(&format!("DELETE FROM temp.\"map_{base}\""))
            .map_err(failed.to("count ids"))?;
        let counted = connection
            .execute(
                &format!(
                    "INSERT INTO temp.\"map_{base}\" SELECT id, {free} - 1 + ROW_NUMBER() OVER (ORDER BY id) FROM one.{from}"
                ),
                [],
            )
            .map_err(failed.to("count ids"))?;
        *free = free.saturating_add(i64::try_from(counted).unwrap_or(i64::MAX));
        return Ok(Change::Counted);
    }
    let ends: (Option<i64>, Option<i64>) = connection
        .query_row(
            &format!("SELECT (SELECT MIN(id) FROM one.{from}), (SELECT MAX(id) FROM one.{from})"),
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .map_err(failed.to("read ids"))?;
    let (Some(first), Some(last)) = ends else {
        return Ok(Change::Nothing);
    };
    let shifted = || -> Option<(i64, i64)> {
        let by = free.checked_sub(first)?;
        Some((by, last.checked_add(by)?.checked_add(1)?))
    };
    let Some((by, after)) = shifted() else {
        return Err(Error::Merge {
            name: partition.path().to_owned(),
            what: format!("ids of {base} reach from {first} to {last}: there is no room for more"),
        });
    };
    *free = after;
    Ok(Change::Shifted { first, last, by })
}
