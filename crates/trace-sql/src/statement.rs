//! Which statements may run: those that read the tables, and make tables and views of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use trace_tables::OwnTable;
use trace_tables::catalogue::{
    BESIDE, ColumnSpec, FAILURES, FAILURES_COLUMNS, FAILURES_DOC, TABLES, VIEWS, any_table,
};

use crate::error::{SqlError, nearest};

/// Checks a plan before it runs.
///
/// # Errors
///
/// Returns an error for statements that write or read other files outside `allow_write`, or that change the engine.
pub(crate) fn check(plan: &LogicalPlan, allow_write: Option<&Path>) -> Result<(), SqlError> {
    match plan {
        LogicalPlan::Ddl(ddl) => match ddl {
            DdlStatement::CreateMemoryTable(made) => own(made.name.table()),
            DdlStatement::CreateView(made) => own(made.name.table()),
            DdlStatement::DropTable(dropped) => own(dropped.name.table()),
            DdlStatement::DropView(dropped) => own(dropped.name.table()),
            DdlStatement::CreateExternalTable(made) => made
                .locations
                .iter()
                .try_for_each(|location| inside(location, allow_write)),
            _ => Err(refused("this statement changes the engine")),
        },
        LogicalPlan::Copy(copy) => inside(&copy.output_url, allow_write),
        LogicalPlan::Dml(_) => Err(refused("INSERT, UPDATE and DELETE change tables")),
        LogicalPlan::Statement(_) => Err(refused(
            "SET, transactions and prepared statements change the engine",
        )),
        _ => Ok(()),
    }
}

fn refused(why: &str) -> SqlError {
    SqlError::usage(format!(
        "{why}; only queries, CREATE VIEW and CREATE TABLE ... AS are allowed"
    ))
}

/// Returns `true` for tables and views of the catalogue.
pub(crate) fn is_ours(name: &str) -> bool {
    any_table(name).is_some() || name == FAILURES || VIEWS.iter().any(|view| view.name == name)
}

/// Refuses to replace or drop tables of the catalogue.
fn own(name: &str) -> Result<(), SqlError> {
    match is_ours(name) {
        true => Err(SqlError::usage(format!(
            "`{name}` is a table of the catalogue: choose another name"
        ))),
        false => Ok(()),
    }
}

fn inside(location: &str, folder: Option<&Path>) -> Result<(), SqlError> {
    let Some(folder) = folder else {
        return Err(SqlError::usage(
            "statements that read or write other files are refused: name their folder with --allow-write DIR",
        ));
    };
    let local = location.strip_prefix("file://").unwrap_or(location);
    let path = PathBuf::from(local);
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let real = |path: &Path| path.canonicalize().ok();
    // The file itself, if it exists, may be a link.
    let target = real(&path)
        .or_else(|| Some(real(parent.unwrap_or(Path::new(".")))?.join(path.file_name()?)));
    let is_inside = match (target, real(folder)) {
        (Some(target), Some(folder)) => !local.contains("://") && target.starts_with(folder),
        _ => false,
    };
    match is_inside {
        true => Ok(()),
        false => Err(SqlError::usage(format!(
            "{location} is not in {}, the folder of --allow-write",
            folder.display()
        ))),
    }
}

/// Returns the catalogue for `SHOW TABLES`, and the tables that inputs bring along: name, kind, meaning.
pub(crate) fn show_tables(own: &[OwnTable]) -> Result<RecordBatch, SqlError> {
    let spec =
        |table: &'static trace_tables::catalogue::TableSpec| (table.name, "table", table.doc);
    let views = VIEWS.iter().map(|view| (view.name, "view", view.doc));
    let failures = [(FAILURES, "table", FAILURES_DOC)];
    let tables = TABLES.iter().map(spec).chain(failures);
    let own = own.iter();
    let own = own.map(|table| (table.name.as_str(), "table", table.doc.as_str()));
    listed(
        tables
            .chain(BESIDE.iter().map(spec))
            .chain(views)
            .chain(own),
    )
}

/// Returns tables for `SHOW TABLES`.
pub(crate) fn listed<'t>(
    tables: impl Iterator<Item = (&'t str, &'t str, &'t str)>,
) -> Result<RecordBatch, SqlError> {
    let rows: Vec<_> = tables.collect();
    batch([
        ("name", rows.iter().map(|row| row.0).collect()),
        ("kind", rows.iter().map(|row| row.1).collect()),
        ("rows", rows.iter().map(|row| row.2).collect()),
    ])
}

/// Returns the columns of a table of the catalogue for `DESCRIBE`; `None` if it has no table of this name.
pub(crate) fn describe(name: &str) -> Option<Result<RecordBatch, SqlError>> {
    let columns: Vec<&ColumnSpec> = match name {
        FAILURES => FAILURES_COLUMNS.iter().collect(),
        name => any_table(name)?.columns().collect(),
    };
    Some(batch([
        ("column", columns.iter().map(|column| column.name).collect()),
        (
            "type",
            columns.iter().map(|column| column.ty.sql()).collect(),
        ),
        ("unit", columns.iter().map(|column| column.unit).collect()),
        ("meaning", columns.iter().map(|column| column.doc).collect()),
    ]))
}

/// Returns the columns of a table that is not in the catalogue for `DESCRIBE`.
pub(crate) fn columns_of(schema: &Schema) -> Result<RecordBatch, SqlError> {
    let fields = || schema.fields().iter();
    let unit = |field: &Arc<Field>| field.metadata().get("unit").cloned().unwrap_or_default();
    let units: Vec<String> = fields().map(unit).collect();
    batch([
        (
            "column",
            fields().map(|field| field.name().as_str()).collect(),
        ),
        (
            "type",
            fields().map(|field| sql_type(field.data_type())).collect(),
        ),
        ("unit", units.iter().map(String::as_str).collect()),
        ("meaning", units.iter().map(|_| "").collect()),
    ])
}

/// Returns the name of a type in SQL.
fn sql_type(ty: &DataType) -> &'static str {
    match ty {
        DataType::Dictionary(_, value) => sql_type(value),
        ty if ty.is_integer() => "BIGINT",
        ty if ty.is_floating() => "DOUBLE",
        DataType::Boolean => "BOOLEAN",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTEA",
        _ => "VARCHAR",
    }
}

/// Returns the error for a table that `DESCRIBE` does not find.
pub(crate) fn no_table(name: &str, names: &[String]) -> SqlError {
    let hint = match nearest(name, names.iter().map(String::as_str)) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "SHOW TABLES lists them".to_owned(),
    };
    SqlError::usage(format!("no table `{name}`: {hint}"))
}

fn batch<const N: usize>(columns: [(&str, Vec<&str>); N]) -> Result<RecordBatch, SqlError> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, _)| Field::new(*name, DataType::Utf8, true))
        .collect();
    let arrays = columns
        .into_iter()
        .map(|(_, texts)| -> arrow_array::ArrayRef { Arc::new(StringArray::from(texts)) });
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays.collect())
        .map_err(|error| SqlError::new(crate::ErrorKind::Failed, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_in_the_folder() {
        let folder = std::env::temp_dir();
        let file = folder.join("x.csv");
        let text = file.to_str().unwrap();
        assert!(inside(text, None).is_err());
        assert!(inside(text, Some(&folder)).is_ok());
        assert!(inside(&format!("file://{text}"), Some(&folder)).is_ok());
        let outside = folder.join("../x.csv");
        assert!(inside(outside.to_str().unwrap(), Some(&folder)).is_err());
        assert!(inside("s3://bucket/x.csv", Some(&folder)).is_err());
    }
}
