//! An export: tables of a SQLite file, or of a folder of Parquet files.

use std::path::Path;

use byte_source::Source;
use sqlite_scan::{Database, Leaves, Value};

use crate::error::{Error, Result};
use crate::parquet_folder::Folder;
use crate::recognise::{DatabaseKind, arrow_folder};

/// An export of Nsight Systems, opened for reading. Tables and columns are found by name; those that are absent read as empty
/// and NULL, so every version of the schema is read alike.
#[derive(Debug)]
pub struct Export {
    tables: Tables,
}

#[derive(Debug)]
enum Tables {
    Sqlite(Box<Database>),
    Parquet(Folder),
}

impl Export {
    /// Opens a SQLite file or a folder of Parquet files.
    ///
    /// # Errors
    ///
    /// Same as [`Export::from_database`] and [`Database::open`]; for a folder, if it has no `StringIds.parquet`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if path.is_dir() {
            if let Some(error) = arrow_folder(path) {
                return Err(error);
            }
            let tables = Tables::Parquet(Folder::open(path)?);
            return Ok(Self { tables });
        }
        Self::from_database(Database::open(path)?)
    }

    /// Reads a database from any source: a file, a pipe, a member of an archive.
    ///
    /// # Errors
    ///
    /// Same as [`Export::from_database`] and [`Database::from_source`].
    pub fn from_source(source: Source, path: Option<&Path>) -> Result<Self> {
        Self::from_database(Database::from_source(source, path)?)
    }

    /// Reads an open database.
    ///
    /// # Errors
    ///
    /// Returns an error if it is a profile of nvprof, or lacks strings or events.
    pub fn from_database(database: Database) -> Result<Self> {
        let name = database.name().to_owned();
        match kind_of(&database) {
            DatabaseKind::Nsys => {}
            DatabaseKind::Nvprof => return Err(Error::Nvprof { name }),
            DatabaseKind::Other => return Err(Error::NoEvents { name }),
        }
        Ok(Self {
            tables: Tables::Sqlite(Box::new(database)),
        })
    }

    /// Returns the name of the input.
    pub fn name(&self) -> &str {
        match &self.tables {
            Tables::Sqlite(database) => database.name(),
            Tables::Parquet(folder) => folder.name(),
        }
    }

    /// Returns the size of its data in bytes, after decompression of the whole file.
    pub fn bytes(&self) -> u64 {
        match &self.tables {
            Tables::Sqlite(database) => database.bytes(),
            Tables::Parquet(folder) => folder.bytes(),
        }
    }

    /// Returns a sentence if a write-ahead log is read together with the file.
    pub fn warning(&self) -> Option<String> {
        match &self.tables {
            Tables::Sqlite(database) => database.log().map(|log| {
                format!(
                    "{}: read together with its write-ahead log {}",
                    database.name(),
                    log.display()
                )
            }),
            Tables::Parquet(_) => None,
        }
    }

    /// Returns the names of its plain tables.
    pub fn table_names(&self) -> impl Iterator<Item = &str> {
        let (database, folder) = match &self.tables {
            Tables::Sqlite(database) => (Some(database), None),
            Tables::Parquet(folder) => (None, Some(folder)),
        };
        let of_database = database.into_iter().flat_map(|database| {
            database
                .catalog()
                .tables
                .iter()
                .map(|table| table.name.as_str())
        });
        of_database.chain(folder.into_iter().flat_map(Folder::table_names))
    }

    /// Returns the names of tables and views that are not read: views, virtual tables, tables without row ids or with computed
    /// columns.
    pub fn unread_names(&self) -> impl Iterator<Item = &str> {
        let database = match &self.tables {
            Tables::Sqlite(database) => Some(database),
            Tables::Parquet(_) => None,
        };
        database.into_iter().flat_map(|database| {
            let ignored = database.catalog().ignored.iter();
            ignored.map(|other| other.name.as_str())
        })
    }

    /// Returns `true` if there is such a table with such a column.
    pub fn has_column(&self, table: &str, column: &str) -> bool {
        match &self.tables {
            Tables::Sqlite(database) => database
                .table(table)
                .is_some_and(|table| table.def().column(column).is_some()),
            Tables::Parquet(folder) => folder.has_column(table, column),
        }
    }

    /// Returns `true` if the table has rows.
    ///
    /// # Errors
    ///
    /// Returns an error if its first page is damaged.
    pub fn has_rows(&self, table: &str) -> Result<bool> {
        match &self.tables {
            Tables::Sqlite(database) => match database.table(table) {
                Some(table) => Ok(!table.is_empty()?),
                None => Ok(false),
            },
            Tables::Parquet(folder) => Ok(folder.rows(table) > 0),
        }
    }

    /// Passes columns of every row to `each`, with the number of the row; nothing if there is no such table.
    ///
    /// # Errors
    ///
    /// Returns an error if the table is damaged, or the first error of `each`.
    pub fn scan<const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
        each: impl FnMut(i64, [Value<'_>; N]) -> Result<()>,
    ) -> Result<()> {
        match &self.tables {
            Tables::Sqlite(database) => match database.table(table) {
                Some(table) => table.scan(columns, each),
                None => Ok(()),
            },
            Tables::Parquet(folder) => folder.scan(table, columns, each),
        }
    }

    /// Returns the columns of a table with their types as SQLite declares them; `None` if there is no such table.
    pub fn columns(&self, table: &str) -> Option<Vec<(String, String)>> {
        match &self.tables {
            Tables::Sqlite(database) => {
                let columns = database.table(table)?.def().columns.iter();
                Some(
                    columns
                        .map(|column| (column.name.clone(), column.declared.clone()))
                        .collect(),
                )
            }
            Tables::Parquet(folder) => {
                let columns = folder.columns(table)?.into_iter();
                Some(columns.map(|(name, ty)| (name, ty.to_owned())).collect())
            }
        }
    }

    /// Does the same as [`Export::scan`] with columns whose number is not known in advance.
    ///
    /// # Errors
    ///
    /// Same as [`Export::scan`].
    pub fn scan_list<E: From<Error> + From<sqlite_scan::Error>>(
        &self,
        table: &str,
        columns: &[&str],
        each: impl FnMut(i64, &[Value<'_>]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match &self.tables {
            Tables::Sqlite(database) => match database.table(table) {
                Some(table) => table.scan_list(columns, each),
                None => Ok(()),
            },
            Tables::Parquet(folder) => folder.scan_list(table, columns, each),
        }
    }

    /// Passes columns of every row to `each`, parts of the table on up to `threads` threads, each part with a state of its own;
    /// the states come back in the order of the rows. A Parquet file is one part.
    ///
    /// # Errors
    ///
    /// Returns an error if the table is damaged, or the first error of `fresh` or `each`.
    pub(crate) fn scan_parts<const N: usize, S: Send>(
        &self,
        table: &str,
        columns: [&str; N],
        threads: usize,
        fresh: impl Fn() -> Result<S> + Sync,
        each: impl Fn(&mut S, i64, [Value<'_>; N]) -> Result<()> + Sync,
    ) -> Result<Vec<S>> {
        match &self.tables {
            Tables::Sqlite(database) => match database.table(table) {
                Some(table) => table.scan_parts(columns, threads, fresh, each),
                None => Ok(Vec::new()),
            },
            Tables::Parquet(folder) => {
                let mut state = fresh()?;
                folder.scan(table, columns, |row, values| each(&mut state, row, values))?;
                Ok(vec![state])
            }
        }
    }

    /// Returns the leaves of the table of strings, if its ids are row ids, so that single strings can be looked up.
    pub(crate) fn string_leaves(&self) -> Result<Option<Leaves>> {
        let Tables::Sqlite(database) = &self.tables else {
            return Ok(None);
        };
        let Some(table) = database.table("StringIds") else {
            return Ok(None);
        };
        let mut columns = table.def().columns.iter();
        let is_rowid = columns.any(|column| column.is_rowid && column.name == "id");
        if !is_rowid {
            return Ok(None);
        }
        Ok(Some(Leaves::of(database.file(), table.def().root)?))
    }

    /// Returns the database, if it is one.
    pub(crate) fn database(&self) -> Option<&Database> {
        match &self.tables {
            Tables::Sqlite(database) => Some(database),
            Tables::Parquet(_) => None,
        }
    }
}

/// Returns the kind of an open database.
pub fn kind_of(database: &Database) -> DatabaseKind {
    let catalog = database.catalog();
    let tables = catalog.tables.iter().map(|table| table.name.as_str());
    let others = catalog.ignored.iter().map(|other| other.name.as_str());
    DatabaseKind::of(tables.chain(others))
}
