//! Tables as they are: each process keeps its own.

use std::path::Path;

use rusqlite::Connection;

use super::{Failed, Merged, check_rows, declared, each_partition, quoted, say_offsets};
use crate::align::Offsets;
use crate::error::{Error, Result};
use crate::partition::Partition;
use crate::set::RocpdSet;

/// A table that was copied: without suffix, its name, its columns.
type Copied = (&'static str, String, Vec<String>);

pub(super) fn fill(
    connection: &Connection,
    set: &RocpdSet,
    offsets: &Offsets,
    path: &Path,
    merged: &mut Merged,
) -> Result<()> {
    let mut names: Vec<Copied> = Vec::new();
    each_partition(connection, set, Failed { path }, |partition| {
        copy_partition(connection, partition, offsets, &mut names, merged, path)
    })?;
    // Those of the format follow, with everything that is made of them.
    for base in crate::partition::TABLES {
        if !crate::sql::is_unified(base) {
            add_view(connection, base, &names, path)?;
        }
    }
    Ok(())
}

/// A plain view over all tables of one kind.
fn add_view(connection: &Connection, base: &str, names: &[Copied], path: &Path) -> Result<()> {
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
        return Ok(());
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
        .map_err(Failed { path }.to("add views"))
}

fn copy_partition(
    connection: &Connection,
    partition: &Partition,
    offsets: &Offsets,
    names: &mut Vec<Copied>,
    merged: &mut Merged,
    path: &Path,
) -> Result<()> {
    let failed = Failed { path };
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
        let declarations: Vec<String> = columns.iter().map(|c| declared(base, c)).collect();
        let list: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
        let values: Vec<String> = columns
            .iter()
            .map(|column| match (base, *column) {
                // The suffix may be new.
                ("rocpd_metadata", "value") => {
                    format!("CASE WHEN tag = 'uuid' THEN '{suffix}' ELSE value END")
                }
                (_, column) => {
                    let value = format!("X.{}", quoted(column));
                    crate::align::moved(offsets, partition, base, column, value)
                }
            })
            .collect();
        connection
            .execute_batch(&format!(
                "CREATE TABLE main.{} ({})",
                quoted(&to),
                declarations.join(", ")
            ))
            .map_err(failed.to("make a table"))?;
        let copied = connection
            .execute(
                &format!(
                    "INSERT INTO main.{} ({}) SELECT {} FROM one.{} X",
                    quoted(&to),
                    list.join(", "),
                    values.join(", "),
                    quoted(from)
                ),
                [],
            )
            .map_err(failed.to("copy a table"))?;
        check_rows(partition, base, copied, merged)?;
        if base == "rocpd_metadata" {
            say_offsets(connection, &to, partition, offsets, failed)?;
        }
        merged.tables += 1;
        names.push((base, to, columns.into_iter().map(str::to_owned).collect()));
    }
    Ok(())
}
