//! The tables of several files as one catalogue.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use sqlite_scan::{MAX_LISTED, Value};
use trace_tables::scan::BATCH_ROWS;
use trace_tables::{OwnTable, TakeBatch};

use crate::columns::{Builder, Kind};
use crate::files::{File, Part};

/// Name of the column of the file.
const FILE: &str = "file";

/// Rows of each file that the types of columns are widened by.
const SAMPLED: usize = 10_000;

/// Bytes of texts and blobs after which a batch ends: offsets are 32 bits wide.
const BATCH_BYTES: usize = 256 << 20;

/// A table of the catalogue: parts by place of their file.
#[derive(Clone, Debug, Default)]
struct Table {
    doc: String,
    parts: Vec<(usize, Part)>,
}

/// The columns of a table, the one of the file first.
#[derive(Clone, Debug)]
struct Layout {
    schema: SchemaRef,
    /// Columns of the files.
    columns: Vec<(String, Kind)>,
}

/// The tables of several files.
#[derive(Debug)]
pub struct Databases {
    files: Vec<File>,
    tables: BTreeMap<String, Table>,
    /// Names in lower case of tables that are never read.
    private: BTreeSet<String>,
    layouts: Mutex<HashMap<String, Arc<Layout>>>,
    /// What was left out, a sentence each.
    notes: Mutex<Vec<String>>,
}

impl Databases {
    /// Lists the tables of those paths that are databases of the two formats. A table whose name `is_taken` gets the name of its format
    /// in front. Files that cannot be opened are left to the reader of their recordings, which reports them.
    pub fn list(paths: &[(String, PathBuf)], is_taken: impl Fn(&str) -> bool) -> Self {
        let mut files = Vec::new();
        let mut tables: BTreeMap<String, Table> = BTreeMap::new();
        let mut private = BTreeSet::new();
        for (name, path) in paths {
            let Ok(Some(file)) = File::list(name, path) else {
                continue;
            };
            let prefix = file.format.prefix();
            for (table, part) in &file.tables {
                let shown = match is_taken(table) {
                    true => format!("{prefix}{table}"),
                    false => table.clone(),
                };
                let slot = tables.entry(shown).or_default();
                slot.parts.push((files.len(), part.clone()));
                slot.doc = match part {
                    Part::View(_) => "View of rocPD over the databases of each file.".to_owned(),
                    Part::Table(_) if prefix == "nsys_" => "Table of Nsight Systems.".to_owned(),
                    Part::Table(_) => "Table of rocPD.".to_owned(),
                };
            }
            let hidden = file.private.iter();
            private.extend(hidden.map(|name| name.to_ascii_lowercase()));
            files.push(file);
        }
        Self {
            files,
            tables,
            private,
            layouts: Mutex::default(),
            notes: Mutex::default(),
        }
    }

    /// Returns the tables, sorted by name.
    pub fn tables(&self) -> Vec<OwnTable> {
        let table = |(name, table): (&String, &Table)| OwnTable {
            name: name.clone(),
            doc: table.doc.clone(),
        };
        self.tables.iter().map(table).collect()
    }

    /// Returns what was left out of the rows that were read since the last call, a sentence each.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the columns of a table; `None` if there is none of this name. Reads the first rows of each file.
    ///
    /// # Errors
    ///
    /// Returns one sentence if a file cannot be read, and for a table that is never read.
    pub fn schema(&self, name: &str) -> Option<Result<SchemaRef, String>> {
        let Some(table) = self.tables.get(name) else {
            let is_private = self.private.contains(&name.to_ascii_lowercase());
            return is_private.then(|| {
                Err(format!(
                    "{name} is never read: it holds the environment, command lines or output of processes"
                ))
            });
        };
        let layout = self.layout(name, table);
        Some(layout.map(|layout| Arc::clone(&layout.schema)))
    }

    fn layout(&self, name: &str, table: &Table) -> Result<Arc<Layout>, String> {
        let mut known = self.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layout) = known.get(name) {
            return Ok(Arc::clone(layout));
        }
        let mut columns: Vec<(String, Option<Kind>)> = Vec::new();
        for (file, part) in &table.parts {
            let Some(file) = self.files.get(*file) else {
                continue;
            };
            let own = file.columns(part)?.unwrap_or_default();
            let own: Vec<_> = own.into_iter().take(MAX_LISTED).collect();
            let names: Vec<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
            let mut seen: Vec<Option<Kind>> = own
                .iter()
                .map(|(_, declared)| Kind::declared(declared))
                .collect();
            let mut rows = 0;
            file.scan(part, &names, &mut |values| {
                for (kind, value) in seen.iter_mut().zip(values) {
                    *kind = joined(*kind, Kind::of(*value));
                }
                rows += 1;
                rows < SAMPLED
            })?;
            for (name, kind) in names.into_iter().zip(seen) {
                let slot = columns
                    .iter_mut()
                    .find(|(known, _)| known.eq_ignore_ascii_case(name));
                match slot {
                    Some((_, known)) => *known = joined(*known, kind),
                    None => columns.push((name.to_owned(), kind)),
                }
            }
        }
        if columns.is_empty() {
            return Err(format!("no file has the tables of the view `{name}`"));
        }
        // What is NULL everywhere fits any type.
        let columns: Vec<(String, Kind)> = columns
            .into_iter()
            .map(|(name, kind)| (name, kind.unwrap_or(Kind::Text)))
            .collect();
        let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let mut fields = vec![Field::new(FILE, text, false)];
        for (name, kind) in &columns {
            // A column of that name is the second one.
            let shown = match name.as_str() {
                FILE => "file_2",
                name => name,
            };
            fields.push(Field::new(shown, kind.arrow(), true));
        }
        let layout = Arc::new(Layout {
            schema: Arc::new(Schema::new(fields)),
            columns,
        });
        known.insert(name.to_owned(), Arc::clone(&layout));
        Ok(layout)
    }

    /// Reads columns of a table by their places, the file is column 0, and passes the rows on in batches until `take` returns `false`.
    ///
    /// # Errors
    ///
    /// Returns one sentence if a file is damaged or there is no such table.
    pub fn read(
        &self,
        name: &str,
        wanted: &[usize],
        take: &mut TakeBatch<'_>,
    ) -> Result<(), String> {
        let table = self.tables.get(name);
        let table = table.ok_or_else(|| format!("no table `{name}`"))?;
        let layout = self.layout(name, table)?;
        let schema = layout.schema.project(wanted);
        let schema = Arc::new(schema.map_err(|error| error.to_string())?);
        for (file, part) in &table.parts {
            let Some(file) = self.files.get(*file) else {
                continue;
            };
            let mut reader = Reader::new(file, &layout, wanted, Arc::clone(&schema));
            let columns: Vec<&str> = reader.columns.iter().map(|at| layout.name(*at)).collect();
            let mut failed = None;
            let mut wants_more = true;
            file.scan(part, &columns, &mut |values| {
                reader.push(values);
                if reader.rows < BATCH_ROWS && reader.bytes < BATCH_BYTES {
                    return true;
                }
                match reader.batch() {
                    Ok(batch) => wants_more = take(batch),
                    Err(error) => failed = Some(error),
                }
                wants_more && failed.is_none()
            })?;
            if failed.is_none() && wants_more && reader.rows > 0 {
                match reader.batch() {
                    Ok(batch) => wants_more = take(batch),
                    Err(error) => failed = Some(error),
                }
            }
            let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            for (at, count) in reader.columns.iter().zip(&reader.misfits) {
                if *count > 0 {
                    notes.push(format!(
                        "{}: {count} values of column `{}` of {name} do not fit its type and are null",
                        file.name,
                        layout.name(*at),
                    ));
                }
            }
            drop(notes);
            if let Some(error) = failed {
                return Err(format!("{}: {error}", file.name));
            }
            if !wants_more {
                break;
            }
        }
        Ok(())
    }
}

impl Layout {
    fn name(&self, at: usize) -> &str {
        self.columns.get(at).map_or("", |(name, _)| name.as_str())
    }
}

fn joined(known: Option<Kind>, more: Option<Kind>) -> Option<Kind> {
    match (known, more) {
        (Some(known), Some(more)) => Some(known.join(more)),
        (known, more) => known.or(more),
    }
}

/// Collects the rows of one file.
struct Reader {
    file: ArrayRef,
    schema: SchemaRef,
    /// For each wanted column its place in `columns`; `None` for that of the file.
    wanted: Vec<Option<usize>>,
    /// Places in the layout of the columns that are read.
    columns: Vec<usize>,
    builders: Vec<Builder>,
    /// Values of each column that did not fit.
    misfits: Vec<u64>,
    rows: usize,
    bytes: usize,
}

impl Reader {
    fn new(file: &File, layout: &Layout, wanted: &[usize], schema: SchemaRef) -> Self {
        let mut columns = Vec::new();
        let mut builders = Vec::new();
        let mut places = Vec::new();
        for at in wanted {
            let own = at
                .checked_sub(1)
                .and_then(|at| Some((at, layout.columns.get(at)?)));
            places.push(own.map(|(at, (_, kind))| {
                columns.push(at);
                builders.push(Builder::new(*kind));
                columns.len() - 1
            }));
        }
        Self {
            file: Arc::new(StringArray::from(vec![file.name.as_str()])),
            schema,
            wanted: places,
            misfits: vec![0; columns.len()],
            columns,
            builders,
            rows: 0,
            bytes: 0,
        }
    }

    fn push(&mut self, values: &[Value<'_>]) {
        for (at, (builder, misfits)) in self.builders.iter_mut().zip(&mut self.misfits).enumerate()
        {
            let value = values.get(at).copied().unwrap_or(Value::Null);
            match builder.push(value) {
                Some(bytes) => self.bytes += bytes,
                None => *misfits += 1,
            }
        }
        self.rows += 1;
    }

    fn batch(&mut self) -> Result<RecordBatch, String> {
        let made: Vec<ArrayRef> = self.builders.iter_mut().map(Builder::finish).collect();
        let (rows, file) = (self.rows, &self.file);
        (self.rows, self.bytes) = (0, 0);
        let array = |place: &Option<usize>| -> Result<ArrayRef, String> {
            match place {
                Some(at) => made
                    .get(*at)
                    .cloned()
                    .ok_or_else(|| "a column is missing".to_owned()),
                None => {
                    let keys = Int32Array::from(vec![0; rows]);
                    let array = DictionaryArray::try_new(keys, Arc::clone(file));
                    Ok(Arc::new(array.map_err(|error| error.to_string())?))
                }
            }
        };
        let arrays = self
            .wanted
            .iter()
            .map(array)
            .collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|error| error.to_string())
    }
}
