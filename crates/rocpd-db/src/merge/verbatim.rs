//! Tables as they are: each process keeps its own.

use std::path::Path;

use rusqlite::Connection;

use super::{Failed, Merged, check_rows, declared, each_partition, quoted, say_offsets};
use crate::align::Offsets;
use crate::error::{Error, Result};
use crate::partition::Partition;
use crate::set::RocpdSet;

pub(super) fn fill(
    connection: &Connection,
    set: &RocpdSet,
    offsets: &Offsets,
    path: &Path,
    merged: &mut Merged,
) -> Result<()> {
    let mut names: Vec<String> = Vec::new();
    each_partition(connection, set, Failed { path }, |partition| {
        copy_partition(connection, partition, offsets, &mut names, merged, path)
    })
}

fn copy_partition(
    connection: &Connection,
    partition: &Partition,
    offsets: &Offsets,
    names: &mut Vec<String>,
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
        if names.contains(&to) {
            return Err(Error::Merge {
                name: partition.path().to_owned(),
                what: format!("table {to} comes twice: the same process is in two inputs"),
            });
        }
        let declarations = columns.iter().map(|c| declared(partition, base, c));
        let declarations: Vec<String> = declarations.collect();
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
        names.push(to);
    }
    Ok(())
}
