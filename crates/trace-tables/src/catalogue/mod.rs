//! The catalogue of tables: names, columns, types, units and documentation, as data.
//!
//! SQL, Parquet, Arrow and the guide are made from it, so a column has one name and one meaning everywhere.

mod beside;
mod guide;
mod perfetto;
mod tables;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

pub use beside::BESIDE;
pub use guide::markdown;
pub use perfetto::VIEWS;
pub use tables::TABLES;

/// Name of the table of files that cannot be read. It has no columns but its own.
pub const FAILURES: &str = "failures";

/// Meaning of a row of [`FAILURES`].
pub const FAILURES_DOC: &str = "One row for each file that cannot be read.";

/// Columns of [`FAILURES`].
pub const FAILURES_COLUMNS: [ColumnSpec; 3] = [
    int("file_id", "Number of the file; it has no row in `files`."),
    text("file", "Path as given."),
    text("error", "Why it cannot be read."),
];

/// Version of the catalogue. The first number changes when a column changes its meaning or disappears.
pub const CATALOGUE_VERSION: report::SchemaVersion = report::SchemaVersion::new(1, 1);

/// Type of a column. Every column may be null.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnType {
    /// `i64`.
    Int,
    /// `f64`.
    Real,
    /// UTF-8: a dictionary in Arrow, a plain string in Parquet.
    Text,
    /// Truth value.
    Bool,
}

impl ColumnType {
    /// Returns the name of the type in SQL.
    #[must_use]
    pub const fn sql(self) -> &'static str {
        match self {
            Self::Int => "BIGINT",
            Self::Real => "DOUBLE",
            Self::Text => "VARCHAR",
            Self::Bool => "BOOLEAN",
        }
    }

    /// Returns the Arrow type.
    #[must_use]
    pub fn arrow(self) -> DataType {
        match self {
            Self::Int => DataType::Int64,
            Self::Real => DataType::Float64,
            Self::Text => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            Self::Bool => DataType::Boolean,
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnSpec {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub ty: ColumnType,
    /// Unit: `ns`, `bytes`, `%`, or empty.
    pub unit: &'static str,
    /// Meaning.
    pub doc: &'static str,
}

/// Arguments of slices that a table is made from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ArgKeys {
    /// None.
    #[default]
    None,
    /// Those with these keys, without prefix.
    Only(Vec<String>),
    /// All.
    All,
}

impl ArgKeys {
    /// Adds the arguments of another table.
    pub fn add(&mut self, more: &Self) {
        match (&mut *self, more) {
            (Self::All, _) | (_, Self::None) => {}
            (_, Self::All) => *self = Self::All,
            (Self::None, Self::Only(_)) => *self = more.clone(),
            (Self::Only(own), Self::Only(more)) => {
                for key in more {
                    if !own.contains(key) {
                        own.push(key.clone());
                    }
                }
            }
        }
    }

    /// Returns `true` if a trace read with these arguments has all that `other` needs.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) | (_, Self::None) => true,
            (Self::Only(own), Self::Only(more)) => more.iter().all(|key| own.contains(key)),
            _ => false,
        }
    }
}

/// A table of the catalogue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableSpec {
    /// Name.
    pub name: &'static str,
    /// Meaning of a row.
    pub doc: &'static str,
    /// Columns that tables of its kind begin with.
    head: &'static [ColumnSpec],
    /// Columns that only this table has; [`TableSpec::columns`] has all.
    own: &'static [ColumnSpec],
    /// Column that rows of a file ascend in, if any.
    pub sorted_by: Option<&'static str>,
}

/// A view with the name and the columns of a table of Perfetto's trace processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ViewSpec {
    /// Name.
    pub name: &'static str,
    /// Its rows, as a query over the tables.
    pub sql: &'static str,
    /// Meaning of a row.
    pub doc: &'static str,
}

/// Columns that every table of [`TABLES`] begins with.
const COMMON: [ColumnSpec; 2] = [
    int("file_id", "File of the row: `files.file_id`."),
    int(
        "rank",
        "Rank of the file: as the file states it, else by its name; null if unknown.",
    ),
];

impl TableSpec {
    /// Returns all columns.
    pub fn columns(&self) -> impl Iterator<Item = &ColumnSpec> {
        self.head.iter().chain(self.own)
    }

    /// Returns the Arrow schema; fields have their unit as metadata `unit`.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        let field = |column: &ColumnSpec| {
            let field = Field::new(column.name, column.ty.arrow(), true);
            match column.unit {
                "" => field,
                unit => field.with_metadata([("unit".to_owned(), unit.to_owned())].into()),
            }
        };
        Arc::new(Schema::new(self.columns().map(field).collect::<Vec<_>>()))
    }
}

/// Returns the table of [`TABLES`] of a name.
#[must_use]
pub fn table(name: &str) -> Option<&'static TableSpec> {
    TABLES.iter().find(|table| table.name == name)
}

/// Returns the table of [`TABLES`] or [`BESIDE`] of a name.
#[must_use]
pub fn any_table(name: &str) -> Option<&'static TableSpec> {
    let mut all = TABLES.iter().chain(BESIDE);
    all.find(|table| table.name == name)
}

const fn column(
    name: &'static str,
    ty: ColumnType,
    unit: &'static str,
    doc: &'static str,
) -> ColumnSpec {
    ColumnSpec {
        name,
        ty,
        unit,
        doc,
    }
}

const fn int(name: &'static str, doc: &'static str) -> ColumnSpec {
    column(name, ColumnType::Int, "", doc)
}

const fn ns(name: &'static str, doc: &'static str) -> ColumnSpec {
    column(name, ColumnType::Int, "ns", doc)
}

const fn bytes(name: &'static str, doc: &'static str) -> ColumnSpec {
    column(name, ColumnType::Int, "bytes", doc)
}

const fn real(name: &'static str, unit: &'static str, doc: &'static str) -> ColumnSpec {
    column(name, ColumnType::Real, unit, doc)
}

const fn text(name: &'static str, doc: &'static str) -> ColumnSpec {
    column(name, ColumnType::Text, "", doc)
}

const fn flag(name: &'static str, doc: &'static str) -> ColumnSpec {
    column(name, ColumnType::Bool, "", doc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_plain() {
        let plain = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let tables = || TABLES.iter().chain(BESIDE);
        let mut names: Vec<&str> = tables().map(|table| table.name).collect();
        names.extend(VIEWS.iter().map(|view| view.name));
        names.push(FAILURES);
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for table in tables() {
            assert!(
                plain(table.name) && table.doc.ends_with('.'),
                "{}",
                table.name
            );
            let mut columns: Vec<&str> = table.columns().map(|column| column.name).collect();
            assert!(columns.iter().all(|name| plain(name)), "{columns:?}");
            let all = columns.len();
            if let Some(sorted) = table.sorted_by {
                assert!(columns.contains(&sorted));
            }
            columns.sort_unstable();
            columns.dedup();
            assert_eq!(columns.len(), all, "{}", table.name);
        }
    }

    #[test]
    fn argument_keys_add_up() {
        let only = |keys: &[&str]| ArgKeys::Only(keys.iter().map(|k| (*k).to_owned()).collect());
        let mut keys = ArgKeys::None;
        keys.add(&only(&["a"]));
        keys.add(&only(&["b", "a"]));
        assert_eq!(keys, only(&["a", "b"]));
        assert!(keys.covers(&only(&["b"])) && keys.covers(&ArgKeys::None));
        assert!(!keys.covers(&only(&["c"])) && !keys.covers(&ArgKeys::All));
        keys.add(&ArgKeys::All);
        assert!(keys.covers(&only(&["c"])));
    }
}
