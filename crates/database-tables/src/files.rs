//! Files with their tables.

use std::path::{Path, PathBuf};

use byte_source::{OpenOptions, Source};
use nsys_db::{DatabaseKind, Export};
use rocpd_db::{KernelNames, RocpdSet, SqlSession, SqlValue};
use rustc_hash::FxHashSet;
use sqlite_scan::{Database, Value};

/// Beginning of the tables of rocPD.
const ROCPD: &str = "rocpd_";

/// A table of rocPD that every process has; what follows its name ends the names of all tables of the process.
const STRINGS: &str = "rocpd_string";

/// Table of rocPD with the column that is never read.
const PROCESSES: &str = "rocpd_info_process";

/// The column: what the process had in its environment.
const ENVIRONMENT: &str = "environment";

/// Kind of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Nsys,
    Rocpd,
}

impl Format {
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Nsys => "nsys_",
            Self::Rocpd => ROCPD,
        }
    }
}

/// A part of a table: that of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// A table, by its name in the file.
    Table(String),
    /// A view of rocPD.
    View(String),
}

/// A file whose tables are listed.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Path as given.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    /// Each table without suffix, with its part.
    pub(crate) tables: Vec<(String, Part)>,
    /// Tables that are never read.
    pub(crate) private: Vec<String>,
}

/// An open file.
enum Open {
    Nsys(Box<Export>),
    Rocpd(Box<Database>),
}

/// Opens a file; `None` if it is neither of the two formats.
fn open(path: &Path) -> Result<Option<Open>, String> {
    if path.is_dir() {
        if !nsys_db::is_parquet_folder(path) {
            return Ok(None);
        }
        let export = Export::open(path).map_err(|error| error.to_string())?;
        return Ok(Some(Open::Nsys(Box::new(export))));
    }
    let Ok(mut source) = Source::open(path, &OpenOptions::default()) else {
        return Ok(None);
    };
    let head = source.head(16);
    if !head.is_ok_and(byte_source::magic::looks_like_sqlite) {
        return Ok(None);
    }
    let failed = |error: sqlite_scan::Error| error.to_string();
    let database = Database::from_source(source, Some(path)).map_err(failed)?;
    if nsys_db::kind_of(&database) == DatabaseKind::Nsys {
        let export = Export::from_database(database).map_err(|error| error.to_string())?;
        return Ok(Some(Open::Nsys(Box::new(export))));
    }
    let mut tables = database.catalog().tables.iter();
    let is_rocpd = tables.any(|table| table.name.starts_with(STRINGS));
    Ok(is_rocpd.then(|| Open::Rocpd(Box::new(database))))
}

/// Returns the tables of a rocPD database without the suffixes of their processes.
fn tables_of_rocpd(database: &Database) -> Vec<(String, Part)> {
    let names = database
        .catalog()
        .tables
        .iter()
        .map(|table| table.name.as_str());
    let names: Vec<&str> = names.filter(|name| !name.starts_with("sqlite_")).collect();
    let mut suffixes: Vec<&str> = names
        .iter()
        .filter_map(|name| name.strip_prefix(STRINGS))
        .filter(|suffix| !suffix.is_empty())
        .collect();
    suffixes.sort_by_key(|suffix| std::cmp::Reverse(suffix.len()));
    let plain = |name: &str| {
        let mut stripped = suffixes
            .iter()
            .filter_map(|suffix| name.strip_suffix(suffix));
        let own = stripped.next().filter(|_| name.starts_with(ROCPD));
        own.unwrap_or(name).to_owned()
    };
    let tables = names
        .iter()
        .map(|name| (plain(name), Part::Table((*name).to_owned())));
    let views = SqlSession::tables().filter(|name| !name.starts_with(ROCPD));
    let views = views.map(|name| (name.to_owned(), Part::View(name.to_owned())));
    tables.chain(views).collect()
}

impl File {
    /// Lists the tables of a file; `None` if it has no such tables.
    pub(crate) fn list(name: &str, path: &Path) -> Result<Option<Self>, String> {
        let mut private = Vec::new();
        let (format, tables) = match open(path)? {
            None => return Ok(None),
            Some(Open::Nsys(export)) => {
                let names = export.table_names();
                let hidden = names.filter(|name| nsys_db::is_private(name));
                private.extend(hidden.map(str::to_owned));
                let names = export.table_names();
                let shown =
                    names.filter(|name| !nsys_db::is_private(name) && !name.starts_with("sqlite_"));
                let tables = shown.map(|name| (name.to_owned(), Part::Table(name.to_owned())));
                (Format::Nsys, tables.collect())
            }
            Some(Open::Rocpd(database)) => (Format::Rocpd, tables_of_rocpd(&database)),
        };
        Ok(Some(Self {
            name: name.to_owned(),
            path: path.to_owned(),
            format,
            tables,
            private,
        }))
    }

    fn open(&self) -> Result<Open, String> {
        let gone = || format!("{}: it is no database any more", self.name);
        open(&self.path)?.ok_or_else(gone)
    }

    /// Returns the columns of a part with their declared types; `None` if the file does not have it.
    pub(crate) fn columns(&self, part: &Part) -> Result<Option<Vec<(String, String)>>, String> {
        match part {
            Part::View(view) => {
                let columns = with_view(&self.path, view, |rows| Ok(rows.columns()))?;
                let undeclared = |name| (name, String::new());
                Ok(columns.map(|columns| columns.into_iter().map(undeclared).collect()))
            }
            Part::Table(table) => match self.open()? {
                Open::Nsys(export) => Ok(export.columns(table)),
                Open::Rocpd(database) => Ok(database.table(table).map(|own| {
                    let columns = own.def().columns.iter();
                    let shown = columns.filter(|column| {
                        !(table.starts_with(PROCESSES) && column.name == ENVIRONMENT)
                    });
                    let shown = shown.map(|column| (column.name.clone(), column.declared.clone()));
                    shown.collect()
                })),
            },
        }
    }

    /// Passes columns of the rows of a part on until `each` returns `false`. A column that it does not have is NULL.
    pub(crate) fn scan(
        &self,
        part: &Part,
        columns: &[&str],
        each: &mut dyn FnMut(&[Value<'_>]) -> bool,
    ) -> Result<(), String> {
        match part {
            Part::View(view) => self.scan_view(view, columns, each),
            Part::Table(table) => match self.open()? {
                Open::Nsys(export) => scan_export(&export, table, columns, each),
                Open::Rocpd(database) => {
                    let Some(own) = database.table(table) else {
                        return Ok(());
                    };
                    let done = own.scan_list(columns, |_, values| match each(values) {
                        true => Ok(()),
                        false => Err(Ended::Enough),
                    });
                    Ended::result(done)
                }
            },
        }
    }

    fn scan_view(
        &self,
        view: &str,
        columns: &[&str],
        each: &mut dyn FnMut(&[Value<'_>]) -> bool,
    ) -> Result<(), String> {
        with_view(&self.path, view, |rows| {
            let known = rows.columns();
            let place = |name: &&str| known.iter().position(|own| own.eq_ignore_ascii_case(name));
            let places: Vec<Option<usize>> = columns.iter().map(place).collect();
            while let Some(row) = rows.next().map_err(|error| error.to_string())? {
                let value = |place: &Option<usize>| {
                    place.map_or(Value::Null, |place| match row.get(place) {
                        SqlValue::Null => Value::Null,
                        SqlValue::Int(value) => Value::Int(value),
                        SqlValue::Real(value) => Value::Real(value),
                        SqlValue::Text(text) => Value::Text(text.as_bytes()),
                        SqlValue::Blob(bytes) => Value::Blob(bytes),
                    })
                };
                let values: Vec<Value<'_>> = places.iter().map(value).collect();
                if !each(&values) {
                    break;
                }
            }
            Ok(())
        })?;
        // A view that this database lacks has no rows.
        Ok(())
    }
}

/// Runs a query over a view of a database; `None` if its tables are not there.
fn with_view<T>(
    path: &Path,
    view: &str,
    work: impl FnOnce(&mut rocpd_db::Rows<'_>) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let failed = |error: rocpd_db::Error| error.to_string();
    let set = RocpdSet::open(&[path], &rocpd_db::OpenOptions::default()).map_err(failed)?;
    let session = set.sql(None, KernelNames::default()).map_err(failed)?;
    let quoted = view.replace('"', "\"\"");
    let Ok(mut statement) = session.prepare(&format!("SELECT * FROM \"{quoted}\"")) else {
        return Ok(None);
    };
    let mut rows = statement.query(&[]).map_err(failed)?;
    work(&mut rows).map(Some)
}

/// Scans a table of an export. Of strings, only those that name something are passed on; names of processes lose their folders.
fn scan_export(
    export: &Export,
    table: &str,
    columns: &[&str],
    each: &mut dyn FnMut(&[Value<'_>]) -> bool,
) -> Result<(), String> {
    if nsys_db::is_private(table) {
        return Err(format!("{}: {table} is never read", export.name()));
    }
    let strings = match table.eq_ignore_ascii_case("StringIds") {
        true => Some(nsys_db::named_strings(export).map_err(|error| error.to_string())?),
        false => None,
    };
    let is_processes = table.eq_ignore_ascii_case("PROCESSES");
    let name = columns
        .iter()
        .position(|name| name.eq_ignore_ascii_case("name"));
    // The id, to decide on the row, behind the wanted columns.
    let mut read = columns.to_vec();
    if strings.is_some() {
        read.push("id");
    }
    let done = export.scan_list(table, &read, |_, values| {
        let (id, values) = match &strings {
            Some(_) => values.split_last().unwrap_or((&Value::Null, values)),
            None => (&Value::Null, values),
        };
        if !is_named(strings.as_ref(), *id) {
            return Ok(());
        }
        let is_wanted = match name.filter(|_| is_processes) {
            None => each(values),
            Some(at) => {
                let mut values = values.to_vec();
                if let Some(Value::Text(path)) = values.get(at).copied()
                    && let Some(slot) = values.get_mut(at)
                {
                    *slot = Value::Text(base_name(path));
                }
                each(&values)
            }
        };
        match is_wanted {
            true => Ok(()),
            false => Err(Ended::Enough),
        }
    });
    Ended::result(done)
}

fn is_named(strings: Option<&FxHashSet<i64>>, id: Value<'_>) -> bool {
    strings.is_none_or(|strings| id.as_int().is_some_and(|id| strings.contains(&id)))
}

fn base_name(path: &[u8]) -> &[u8] {
    let mut parts = path.rsplit(|byte| matches!(byte, b'/' | b'\\'));
    parts.next().unwrap_or(path)
}

/// The reason why a scan ended.
enum Ended {
    Enough,
    Failed(String),
}

impl From<sqlite_scan::Error> for Ended {
    fn from(error: sqlite_scan::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<nsys_db::Error> for Ended {
    fn from(error: nsys_db::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Ended {
    fn result(done: Result<(), Self>) -> Result<(), String> {
        match done {
            Ok(()) | Err(Self::Enough) => Ok(()),
            Err(Self::Failed(error)) => Err(error),
        }
    }
}
