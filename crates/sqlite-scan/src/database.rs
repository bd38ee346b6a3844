//! A file with its tables.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use byte_source::{OpenOptions, Source};

use crate::btree::{Cursor, Leaves};
use crate::catalog::{Catalog, CatalogTable};
use crate::error::{Error, Result};
use crate::file::{PageFile, check_sidecars};
use crate::record::Value;
use crate::scratch::Scratch;

/// Leaves of a part of a parallel scan: a megabyte or two, so that few rows are read in vain before an error.
const PART_LEAVES: usize = 512;

/// Maximum number of columns of [`Table::scan_list`].
pub const MAX_LISTED: usize = 254;

/// A SQLite file, opened for reading.
#[derive(Debug)]
pub struct Database {
    file: PageFile,
    catalog: Catalog,
    log: Option<PathBuf>,
    // Removed with the database.
    _copy: Option<Scratch>,
}

impl Database {
    /// Opens a file; see [`Database::from_source`].
    ///
    /// # Errors
    ///
    /// Same as [`Database::from_source`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let source = Source::open(path, &OpenOptions::default())?;
        Self::from_source(source, Some(path))
    }

    /// Opens the database in `source`; compressed ones and pipes are copied to a temporary file. `path` is the path of a
    /// plain file: journals next to it are taken into account, and a write-ahead log is read together with it.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are no SQLite database, are truncated or damaged where tables are described, have
    /// texts that are not UTF-8, or if a transaction on the file was interrupted.
    pub fn from_source(source: Source, path: Option<&Path>) -> Result<Self> {
        let name = source.name().to_owned();
        let mut copy = None;
        let (access, log) = match source.random_access() {
            Some(access) => {
                let log = match path {
                    Some(path) => check_sidecars(path, &name)?,
                    None => None,
                };
                (access, log)
            }
            None => {
                let failed = |source| Error::Io {
                    name: name.clone(),
                    step: "make a temporary copy",
                    source,
                };
                let scratch = Scratch::new().map_err(failed)?;
                let place = scratch.path().join("copy.sqlite");
                let mut reader = source.into_read()?;
                let mut file = std::fs::File::create(&place).map_err(failed)?;
                std::io::copy(&mut reader, &mut file).map_err(failed)?;
                copy = Some(scratch);
                let copied = Source::open_as_is(&place, &OpenOptions::default())?;
                let not_sqlite = || Error::NotSqlite { name: name.clone() };
                (copied.random_access().ok_or_else(not_sqlite)?, None)
            }
        };
        let mut file = PageFile::from_access(access, &name)?;
        let log = match log {
            Some(path) => file.add_log(&path)?.then_some(path),
            None => None,
        };
        let catalog = Catalog::read(&file)?;
        Ok(Self {
            file,
            catalog,
            log,
            _copy: copy,
        })
    }

    /// Returns the name of the input in messages.
    pub fn name(&self) -> &str {
        self.file.name()
    }

    /// Returns the size of the database in bytes, after decompression.
    pub fn bytes(&self) -> u64 {
        u64::from(self.file.pages()) * self.file.page_bytes() as u64
    }

    /// Returns the write-ahead log that is read together with the file.
    pub fn log(&self) -> Option<&Path> {
        self.log.as_deref()
    }

    /// Returns the descriptions of all tables, and the names of everything that is never read.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the pages.
    pub fn file(&self) -> &PageFile {
        &self.file
    }

    /// Returns the plain table of that name; `None` also for views and other tables that are not read.
    pub fn table(&self, name: &str) -> Option<Table<'_>> {
        let table = self.catalog.table(name)?;
        Some(Table {
            file: &self.file,
            table,
        })
    }
}

/// A plain table of a database.
#[derive(Debug, Clone, Copy)]
pub struct Table<'d> {
    file: &'d PageFile,
    table: &'d CatalogTable,
}

impl<'d> Table<'d> {
    /// Returns its description.
    pub fn def(&self) -> &'d CatalogTable {
        self.table
    }

    /// Passes the columns of every row to `each`, in order of row ids, until it fails. A column that the table lacks is
    /// NULL. Cost: tens of nanoseconds a row.
    ///
    /// # Errors
    ///
    /// Returns the first error of `each`, or that of a damaged page; all rows before it were passed on.
    pub fn scan<const N: usize, E: From<Error>>(
        &self,
        columns: [&str; N],
        mut each: impl FnMut(i64, [Value<'_>; N]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let pick = self.table.pick(columns);
        let leaves = Leaves::of(self.file, self.table.root)?;
        let mut cursor = Cursor::new(self.file, &leaves);
        while let Some((rowid, values)) = cursor.next(&pick)? {
            each(rowid, values)?;
        }
        Ok(())
    }

    /// Does the same with columns whose number is not known in advance: at most [`MAX_LISTED`], further ones are left out.
    ///
    /// # Errors
    ///
    /// Same as [`Table::scan`].
    pub fn scan_list<E: From<Error>>(
        &self,
        columns: &[&str],
        mut each: impl FnMut(i64, &[Value<'_>]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        // No column has an empty name, so that what is too much reads as NULL and is not passed on.
        fn filled<'c, const N: usize>(columns: &[&'c str]) -> [&'c str; N] {
            std::array::from_fn(|at| columns.get(at).copied().unwrap_or_default())
        }
        let count = columns.len().min(MAX_LISTED);
        let mut pass =
            |rowid: i64, values: &[Value<'_>]| each(rowid, values.get(..count).unwrap_or_default());
        match count {
            0..=8 => self.scan(filled::<8>(columns), |id, values| pass(id, &values)),
            9..=32 => self.scan(filled::<32>(columns), |id, values| pass(id, &values)),
            _ => self.scan(filled::<MAX_LISTED>(columns), |id, values| {
                pass(id, &values)
            }),
        }
    }

    /// Passes the columns of every row to `each`, parts of the table on up to `threads` threads. Each part has a state of its
    /// own, made by `fresh`; the states are returned in the order of the row ids. The parts depend on the file alone, so the
    /// result does not depend on the number of threads.
    ///
    /// # Errors
    ///
    /// Returns the error of the first part that fails.
    pub fn scan_parts<const N: usize, S: Send, E: From<Error> + Send>(
        &self,
        columns: [&str; N],
        threads: usize,
        fresh: impl Fn() -> std::result::Result<S, E> + Sync,
        each: impl Fn(&mut S, i64, [Value<'_>; N]) -> std::result::Result<(), E> + Sync,
    ) -> std::result::Result<Vec<S>, E> {
        let pick = self.table.pick(columns);
        let leaves = Leaves::of(self.file, self.table.root)?;
        let parts = leaves.len().div_ceil(PART_LEAVES);
        let (next, is_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let part = |cursor: &mut Cursor<'_>, at: usize| {
            let mut state = fresh()?;
            cursor.select(at * PART_LEAVES, (at + 1) * PART_LEAVES);
            while let Some((rowid, values)) = cursor.next(&pick)? {
                each(&mut state, rowid, values)?;
            }
            Ok(state)
        };
        let work = || {
            let mut done = Vec::new();
            let mut cursor = Cursor::new(self.file, &leaves);
            // Parts are begun in order, so all before the first that fails are read to their end.
            while !is_failed.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= parts {
                    break;
                }
                let result = part(&mut cursor, at);
                is_failed.fetch_or(result.is_err(), Ordering::Relaxed);
                done.push((at, result));
            }
            done
        };
        let workers = threads.clamp(1, parts.max(1));
        let mut all = thread::scope(|scope| {
            let handles: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
            let mut all = work();
            for handle in handles {
                all.extend(handle.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            all
        });
        all.sort_unstable_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, result)| result).collect()
    }

    /// Returns where its leaves are, for a [`Cursor`].
    ///
    /// # Errors
    ///
    /// Returns an error if an interior page is damaged.
    pub fn leaves(&self) -> Result<Leaves> {
        Leaves::of(self.file, self.table.root)
    }

    /// Returns the number of rows. Cost: reads every page of the table once.
    ///
    /// # Errors
    ///
    /// Returns an error if a page is damaged.
    pub fn rows(&self) -> Result<u64> {
        let mut rows = 0;
        self.scan([], |_, []| {
            rows += 1;
            Ok::<_, Error>(())
        })?;
        Ok(rows)
    }

    /// Returns `true` if the table has no rows. Cost: the first page.
    ///
    /// # Errors
    ///
    /// Returns an error if that page is damaged.
    pub fn is_empty(&self) -> Result<bool> {
        let leaves = Leaves::of(self.file, self.table.root)?;
        Ok(Cursor::new(self.file, &leaves).next_row()?.is_none())
    }
}
