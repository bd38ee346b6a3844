//! Several databases into one.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Result};
use crate::partition::Partition;
use crate::set::RocpdSet;

/// How to merge.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct MergeOptions {}

/// What was merged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// Databases.
    pub files: usize,
    /// Tables.
    pub tables: usize,
    /// Rows.
    pub rows: u64,
}

/// Writes all tables of a set into one database, which appears complete or not at all.
///
/// Each process keeps its tables under their own names, so the merged file holds several partitions; a set of tables
/// without suffix gets one from its guid. Plain views (`rocpd_region`, ...) over all of them are added. Nothing of the
/// inputs' schemas is executed: tables are made from the names of their columns.
///
/// Rows are copied by SQLite from one attached database at a time, in constant memory, in one transaction on a temporary
/// file that is forced to the disk and renamed. Rows are counted on both sides.
///
/// # Errors
///
/// When an input cannot be read, two inputs have tables of the same name, or the output cannot be written.
pub fn merge(set: &RocpdSet, path: &Path, _options: &MergeOptions) -> Result<Merged> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let file = tempfile::Builder::new()
        .prefix(".merge.")
        .suffix(".tmp")
        .tempfile_in(folder)
        .map_err(|e| Error::io(folder, "make a temporary file", e))?;
    let failed = |step: &'static str| {
        let name = path.display().to_string();
        move |source| Error::Sqlite { name, step, source }
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file.path(), flags).map_err(failed("open"))?;
    // The temporary file is thrown away when anything fails: no journal is needed.
    connection
        .execute_batch(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA foreign_keys=OFF; PRAGMA trusted_schema=OFF; PRAGMA cache_size=-32768",
        )
        .map_err(failed("set up"))?;
    let mut merged = Merged {
        files: set.places().len(),
        ..Merged::default()
    };
    let mut names: Vec<(&'static str, String, Vec<String>)> = Vec::new();
    for (name, place) in set.places() {
        connection
            .execute("ATTACH DATABASE ?1 AS one", [crate::sql::uri(place)])
            .map_err(failed("attach an input"))?;
        connection.execute_batch("BEGIN").map_err(failed("begin"))?;
        for partition in set.partitions().iter().filter(|p| p.path() == name) {
            copy_partition(&connection, partition, &mut names, &mut merged, path)?;
        }
        connection
            .execute_batch("COMMIT; DETACH DATABASE one")
            .map_err(failed("commit"))?;
    }
    for base in crate::partition::TABLES {
        let own: Vec<_> = names.iter().filter(|(table, ..)| *table == base).collect();
        // Columns of all generations; NULL where a table lacks one.
        let mut columns: Vec<&String> = Vec::new();
        for (_, _, list) in &own {
            for column in list {
                if !columns.contains(&column) {
                    columns.push(column);
                }
            }
        }
        if own.is_empty() || own.iter().any(|(_, name, _)| name == base) {
            continue;
        }
        let selects: Vec<String> = own
            .iter()
            .map(|(_, name, list)| {
                let values: Vec<String> = columns
                    .iter()
                    .map(|column| match list.contains(column) {
                        true => quoted(column),
                        false => format!("NULL AS {}", quoted(column)),
                    })
                    .collect();
                format!("SELECT {} FROM {}", values.join(", "), quoted(name))
            })
            .collect();
        connection
            .execute_batch(&format!(
                "CREATE VIEW {base} AS {}",
                crate::sql::union(&selects)
            ))
            .map_err(failed("add views"))?;
    }
    connection
        .close()
        .map_err(|(_, error)| failed("close")(error))?;
    file.as_file()
        .sync_all()
        .map_err(|e| Error::io(path, "force the file to the disk", e))?;
    open_to_others(&file, path)?;
    file.persist(path)
        .map_err(|e| Error::io(path, "put the file in place", e.error))?;
    Ok(merged)
}

/// Temporary files are private; the result is as readable as any new file.
#[cfg(unix)]
fn open_to_others(file: &tempfile::NamedTempFile, path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).map_or(0o644, |found| found.permissions().mode());
    file.as_file()
        .set_permissions(std::fs::Permissions::from_mode(mode))
        .map_err(|e| Error::io(path, "set the mode of the file", e))
}

#[cfg(not(unix))]
fn open_to_others(_: &tempfile::NamedTempFile, _: &Path) -> Result<()> {
    Ok(())
}

fn copy_partition(
    connection: &Connection,
    partition: &Partition,
    names: &mut Vec<(&'static str, String, Vec<String>)>,
    merged: &mut Merged,
    path: &Path,
) -> Result<()> {
    let failed = |step: &'static str| {
        let name = path.display().to_string();
        move |source| Error::Sqlite { name, step, source }
    };
    // Tables without suffix would collide with the views.
    let suffix = match partition.suffix() {
        "" => format!(
            "_{}",
            partition
                .guid()
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
                .collect::<String>()
        ),
        suffix => suffix.to_owned(),
    };
    for base in partition.tables() {
        let (Some(from), Some(columns)) = (partition.table_name(base), partition.columns(base))
        else {
            continue;
        };
        let to = format!("{base}{suffix}");
        if names.iter().any(|(_, known, _)| *known == to) {
            return Err(Error::Merge {
                name: partition.path().to_owned(),
                what: format!("table {to} comes twice: the same process is in two inputs"),
            });
        }
        let declared: Vec<String> = columns
            .iter()
            .map(|column| match *column {
                "id" => "\"id\" INTEGER PRIMARY KEY NOT NULL".to_owned(),
                column => format!("{} {}", quoted(column), affinity(base, column)),
            })
            .collect();
        let list: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
        let values: Vec<String> = columns
            .iter()
            .map(|column| match (base, *column) {
                // The suffix may be new.
                ("rocpd_metadata", "value") => {
                    format!("CASE WHEN tag = 'uuid' THEN '{suffix}' ELSE value END")
                }
                (_, column) => quoted(column),
            })
            .collect();
        connection
            .execute_batch(&format!(
                "CREATE TABLE main.{} ({})",
                quoted(&to),
                declared.join(", ")
            ))
            .map_err(failed("make a table"))?;
        let copied = connection
            .execute(
                &format!(
                    "INSERT INTO main.{} ({}) SELECT {} FROM one.{}",
                    quoted(&to),
                    list.join(", "),
                    values.join(", "),
                    quoted(from)
                ),
                [],
            )
            .map_err(failed("copy a table"))?;
        let copied = copied as u64;
        let expected = partition.rows(base)?;
        if copied != expected {
            return Err(Error::Merge {
                name: partition.path().to_owned(),
                what: format!("table {from} has {expected} rows, of which {copied} were copied"),
            });
        }
        merged.tables += 1;
        merged.rows += copied;
        names.push((base, to, columns.into_iter().map(str::to_owned).collect()));
    }
    Ok(())
}

/// The type that a column is declared with, as far as it matters to what SQLite stores.
fn affinity(base: &str, column: &str) -> &'static str {
    match column {
        "guid" | "string" | "name" | "tag" | "type" | "level" | "command" | "kernel_name"
        | "display_name" => "TEXT",
        "value" if base == "rocpd_pmc_event" => "REAL",
        "value" => "TEXT",
        "extdata" | "environment" | "call_stack" | "line_info" => "JSONB",
        "start" | "end" | "timestamp" | "init" | "fini" | "size" | "pid" | "nid" | "tid"
        | "ppid" => "BIGINT",
        column if column.ends_with("_id") => "INTEGER",
        _ => "",
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
