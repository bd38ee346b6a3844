//! The tables of a file, from its schema table.

use crate::error::Result;
use crate::sqlite::btree::{Cursor, Leaves};
use crate::sqlite::columns::{ColumnDef, columns_of};
use crate::sqlite::file::PageFile;
use crate::sqlite::record::{Pick, Value};

/// A table as the schema describes it.
#[derive(Debug, Clone)]
pub(crate) struct CatalogTable {
    pub(crate) name: String,
    pub(crate) root: u32,
    pub(crate) columns: Vec<ColumnDef>,
}

/// All plain tables, and the names of everything else.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) tables: Vec<CatalogTable>,
    /// What is never used, by name: views, triggers, virtual tables and tables without row ids or with computed columns; `true`
    /// for tables.
    pub(crate) ignored: Vec<(String, bool)>,
}

impl Catalog {
    pub(crate) fn read(file: &PageFile) -> Result<Self> {
        let leaves = Leaves::of(file, 1)?;
        let mut cursor = Cursor::new(file, &leaves);
        let pick = Pick::new([Some(0), Some(1), Some(3), Some(4)], None, |_| None);
        let mut catalog = Self::default();
        while let Some((_, row)) = cursor.next(&pick)? {
            let [
                Value::Text(kind),
                Value::Text(name),
                Value::Int(root),
                Value::Text(sql),
            ] = row
            else {
                continue;
            };
            let columns = match (kind, std::str::from_utf8(sql)) {
                (b"table", Ok(sql)) => columns_of(sql),
                (b"index", _) => continue,
                _ => None,
            };
            let (Some(columns), Ok(root @ 2..), Ok(name)) =
                (columns, u32::try_from(root), std::str::from_utf8(name))
            else {
                let name = String::from_utf8_lossy(name).into_owned();
                catalog.ignored.push((name, kind == b"table"));
                continue;
            };
            catalog.tables.push(CatalogTable {
                name: name.to_owned(),
                root,
                columns,
            });
        }
        Ok(catalog)
    }

    /// The table of that name.
    pub(crate) fn table(&self, name: &str) -> Option<&CatalogTable> {
        self.tables.iter().find(|table| table.name == name)
    }
}

impl CatalogTable {
    /// The number of a column.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Slots for columns by name; those the table lacks read as NULL.
    pub(crate) fn pick<const N: usize>(&self, names: [&str; N]) -> Pick<N> {
        Pick::new(
            names.map(|name| self.column(name)),
            self.columns.iter().position(|column| column.is_rowid),
            |column| self.columns.get(column).and_then(|column| column.default),
        )
    }
}
