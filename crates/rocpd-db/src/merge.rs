//! Several databases into one.

mod reassign;
mod temporary;
mod verbatim;

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::align::{Align, ClockOffset, Offsets};
use crate::error::{Error, Result};
use crate::set::{OpenOptions, RocpdSet};
use temporary::Temporary;

/// How to merge.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MergeOptions {
    /// Give all records new ids and put them into one set of tables without suffix, in which the column `guid` tells
    /// processes apart: fast for SQL by other tools, since nothing has to be united.
    pub reassign_ids: bool,
    /// Move the times of nodes so that their clocks agree. Rows of the metadata, `clock_offset_ns:` and a guid, say by
    /// how much.
    pub align: Option<Align>,
}

/// What was merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// Databases.
    pub files: usize,
    /// Tables.
    pub tables: usize,
    /// Rows.
    pub rows: u64,
    /// By how much the times of each node were moved, if that was asked for.
    pub offsets: Vec<ClockOffset>,
    /// What of the inputs could not be brought to new ids, in words.
    pub notes: Vec<String>,
    /// Temporary files of merges that were killed, found beside the output and removed.
    pub removed: Vec<String>,
}

/// Writes all tables of a set into one database, which appears complete or not at all.
///
/// Each process keeps its tables under their own names, so the merged file holds several partitions; a set of tables
/// without suffix gets one from its guid. Plain views (`rocpd_region`, ...) over all of them are added. With
/// [`MergeOptions::reassign_ids`] all are rows of one set of tables instead. Either way the views of the format (`kernels`,
/// `counters_collection`, `top`, ...) are defined anew, for tools that read them by name. Nothing of the inputs' schemas is executed:
/// tables are made from the names of their columns. Tables `rocpd_*` that this version does not know are copied, too; with new
/// ids, columns that have the name of a key of the format follow their rows and all others stay as recorded, which
/// [`Merged::notes`] lists.
///
/// Rows are copied by SQLite from one attached database at a time, in constant memory, to a temporary file beside the
/// output that is forced to the disk and renamed. Rows are counted on both sides. A merge that is killed leaves a file
/// `.merge.*.tmp`, which the next one into the same folder removes.
///
/// # Errors
///
/// When an input cannot be read, has a view or computed columns where the format has a table, two inputs have tables of the same name, or the output cannot be written; with new ids
/// also when the inputs are of different generations. [`Error::Align`] when clocks are to be aligned by what a node lacks.
pub fn merge(set: &RocpdSet, path: &Path, options: &MergeOptions) -> Result<Merged> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if set.files().any(|file| same_file(Path::new(file), path)) {
        return Err(Error::Merge {
            name: path.display().to_string(),
            what: "it is one of the inputs: choose another name for the output".to_owned(),
        });
    }
    for partition in set.partitions() {
        if let [first, ..] = partition.unreadable_tables() {
            return Err(Error::Merge {
                name: partition.path().to_owned(),
                what: format!(
                    "{first} is no plain table (a view, or without row ids, or with computed columns): its rows would be lost"
                ),
            });
        }
    }
    let (offsets, moved) = match &options.align {
        Some(align) => align.offsets(set)?,
        None => Default::default(),
    };
    let removed = temporary::remove_stale(folder);
    let file = Temporary::new(folder)?;
    let failed = Failed { path };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file.path(), flags).map_err(failed.to("open"))?;
    // The temporary file is thrown away when anything fails: no journal is needed.
    connection
        .execute_batch(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA foreign_keys=OFF; PRAGMA trusted_schema=OFF; PRAGMA cache_size=-32768; PRAGMA temp_store=FILE",
        )
        .map_err(failed.to("set up"))?;
    crate::align::register(&connection).map_err(failed.to("set up"))?;
    let mut merged = Merged {
        files: set.places().len(),
        offsets: moved,
        removed,
        ..Merged::default()
    };
    if options.reassign_ids {
        reassign::fill(&connection, set, &offsets, path, &mut merged)?;
    } else {
        verbatim::fill(&connection, set, &offsets, path, &mut merged)?;
    }
    if !set.partitions().is_empty() {
        let merged = RocpdSet::open(&[file.path()], &OpenOptions::default())?;
        connection
            .execute_batch(&crate::sql::stored_views(&merged))
            .map_err(failed.to("add views"))?;
    }
    merged
        .notes
        .extend(foreign_tables(&connection, set, failed)?);
    connection
        .close()
        .map_err(|(_, error)| failed.to("close")(error))?;
    file.put_in_place(path)?;
    Ok(merged)
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// What names the output in errors.
#[derive(Clone, Copy)]
struct Failed<'p> {
    path: &'p Path,
}

impl Failed<'_> {
    fn to(self, step: &'static str) -> impl FnOnce(rusqlite::Error) -> Error {
        let name = self.path.display().to_string();
        move |source| Error::Sqlite { name, step, source }
    }
}

/// Does something with each partition while its file is attached as `one`.
fn each_partition(
    connection: &Connection,
    set: &RocpdSet,
    failed: Failed<'_>,
    mut copy: impl FnMut(&crate::Partition) -> Result<()>,
) -> Result<()> {
    for (name, place) in set.places() {
        connection
            .execute("ATTACH DATABASE ?1 AS one", [crate::sql::uri(place)])
            .map_err(failed.to("attach an input"))?;
        connection
            .execute_batch("BEGIN")
            .map_err(failed.to("begin"))?;
        for partition in set.partitions().iter().filter(|p| p.path() == name) {
            copy(partition)?;
        }
        connection
            .execute_batch("COMMIT; DETACH DATABASE one")
            .map_err(failed.to("commit"))?;
    }
    Ok(())
}

/// Names the tables of the inputs that are not copied, since they do not belong to any process of the format.
fn foreign_tables(
    connection: &Connection,
    set: &RocpdSet,
    failed: Failed<'_>,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for (name, place) in set.places() {
        connection
            .execute("ATTACH DATABASE ?1 AS one", [crate::sql::uri(place)])
            .map_err(failed.to("attach an input"))?;
        let mut copied: Vec<&str> = Vec::new();
        for partition in set.partitions().iter().filter(|p| p.path() == name) {
            copied.extend(
                partition
                    .tables()
                    .filter_map(|base| partition.table_name(base)),
            );
        }
        let tables: Vec<String> = connection
            .prepare(
                "SELECT name FROM one.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
            )
            .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
            .map_err(failed.to("list tables"))?;
        let foreign = tables
            .iter()
            .filter(|table| !copied.contains(&table.as_str()));
        for table in foreign {
            let rows = connection.query_row(
                &format!("SELECT COUNT(*) FROM one.{}", quoted(table)),
                [],
                |row| row.get::<_, i64>(0),
            );
            let rows = rows.map_or_else(|_| "unknown".to_owned(), |rows| rows.to_string());
            notes.push(format!(
                "{name}: table {table} is not part of the format and is not in the merged file (rows: {rows})"
            ));
        }
        connection
            .execute_batch("DETACH DATABASE one")
            .map_err(failed.to("detach an input"))?;
    }
    Ok(notes)
}

/// Says in the metadata by how much the times of a partition's processes were moved.
fn say_offsets(
    connection: &Connection,
    table: &str,
    partition: &crate::Partition,
    offsets: &Offsets,
    failed: Failed<'_>,
) -> Result<()> {
    for process in partition.processes() {
        let by = offsets.get(&(process.partition, process.id)).copied();
        let Some(by) = by.filter(|by| *by != 0) else {
            continue;
        };
        let tag = format!("clock_offset_ns:{}", process.guid);
        connection
            .execute(
                &format!(
                    "INSERT INTO main.{} (tag, value) VALUES (?1, ?2)",
                    quoted(table)
                ),
                [tag, by.to_string()],
            )
            .map_err(failed.to("write the metadata"))?;
    }
    Ok(())
}

/// The rows that were copied must be those that there are.
fn check_rows(
    partition: &crate::Partition,
    base: &str,
    copied: usize,
    merged: &mut Merged,
) -> Result<()> {
    let copied = copied as u64;
    let expected = partition.rows(base)?;
    if copied != expected {
        return Err(Error::Merge {
            name: partition.path().to_owned(),
            what: format!("table {base} has {expected} rows, of which {copied} were copied"),
        });
    }
    merged.rows += copied;
    Ok(())
}

/// How a column is declared, as far as it matters to what SQLite stores.
///
/// Values of tables that the format does not know are stored as they are.
fn declared(partition: &crate::Partition, base: &str, column: &str) -> String {
    if !(crate::partition::TABLES.contains(&base) || column == "id" && partition.is_keyed(base)) {
        return quoted(column);
    }
    let affinity = match column {
        "id" => return "\"id\" INTEGER PRIMARY KEY NOT NULL".to_owned(),
        "guid" | "string" | "name" | "tag" | "type" | "level" | "command" | "kernel_name"
        | "display_name" => "TEXT",
        "value" if base == "rocpd_pmc_event" => "REAL",
        "value" => "TEXT",
        "extdata" | "environment" | "call_stack" | "line_info" => "JSONB",
        "start" | "end" | "timestamp" | "init" | "fini" | "size" | "pid" | "nid" | "tid"
        | "ppid" => "BIGINT",
        column if column.ends_with("_id") => "INTEGER",
        _ => "",
    };
    format!("{} {affinity}", quoted(column))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
