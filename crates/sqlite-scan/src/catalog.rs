//! The tables of a file, from its schema table.

use crate::btree::{Cursor, Leaves};
use crate::columns::{ColumnDef, columns_of};
use crate::error::Result;
use crate::file::PageFile;
use crate::record::{Pick, Value};

/// Description of a plain table.
#[derive(Debug, Clone)]
pub struct CatalogTable {
    /// Name.
    pub name: String,
    /// Page at which its tree begins.
    pub root: u32,
    /// Columns in stored order.
    pub columns: Vec<ColumnDef>,
    /// `true` if there are other columns, which SQLite computes when they are read.
    pub has_computed: bool,
}

/// A table or view that is never read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredTable {
    /// Name.
    pub name: String,
    /// `true` for tables: virtual ones, and those without row ids. `false` for views and triggers.
    pub is_table: bool,
}

/// All plain tables, and the names of everything else.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Plain tables, in the order of the schema.
    pub tables: Vec<CatalogTable>,
    /// Tables, views and triggers that are never read.
    pub ignored: Vec<IgnoredTable>,
}

impl Catalog {
    /// Reads the schema.
    ///
    /// # Errors
    ///
    /// Returns an error if its pages are damaged.
    pub fn read(file: &PageFile) -> Result<Self> {
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
                let is_table = kind == b"table";
                catalog.ignored.push(IgnoredTable { name, is_table });
                continue;
            };
            catalog.tables.push(CatalogTable {
                name: name.to_owned(),
                root,
                columns: columns.stored,
                has_computed: columns.has_computed,
            });
        }
        Ok(catalog)
    }

    /// Returns the plain table of that name.
    pub fn table(&self, name: &str) -> Option<&CatalogTable> {
        self.tables.iter().find(|table| table.name == name)
    }
}

impl CatalogTable {
    /// Returns the position of a column. Case is ignored, as in SQLite.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Returns how to read columns by name; those that the table lacks read as NULL.
    pub fn pick<const N: usize>(&self, names: [&str; N]) -> Pick<N> {
        Pick::new(
            names.map(|name| self.column(name)),
            self.columns.iter().position(|column| column.is_rowid),
            |column| self.columns.get(column).and_then(|column| column.default),
        )
    }
}
