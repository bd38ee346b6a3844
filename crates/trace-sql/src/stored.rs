//! The files of a data set, for functions that look rows up by the id of a slice.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use byte_source::remote;
use bytes::Bytes;
use datafusion::arrow::compute::filter_record_batch;
use datafusion::common::{DataFusionError, Result, plan_err};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;
use trace_tables::scan::split_id;

use crate::error::{ErrorKind, SqlError};
use crate::functions::Value;

/// Values of one key by slice.
type Values = HashMap<i64, Value>;

/// A data set.
#[derive(Debug)]
pub(crate) struct Stored {
    folder: PathBuf,
    /// All of its objects, if it is in an object store.
    objects: Option<Vec<PathBuf>>,
    /// Files that are not to be read.
    left_out: BTreeSet<PathBuf>,
    /// What was read so far of the arguments, by key without prefix.
    args: Mutex<HashMap<String, Arc<Values>>>,
}

fn failed(path: &Path, error: impl std::fmt::Display) -> DataFusionError {
    DataFusionError::External(format!("{}: {error}", path.display()).into())
}

impl Stored {
    /// Returns the data set in a folder.
    ///
    /// # Errors
    ///
    /// Returns an error if an object store does not list it.
    pub(crate) fn new(folder: &Path, left_out: &[PathBuf]) -> std::result::Result<Self, SqlError> {
        let objects = match remote::is_url(folder) {
            true => {
                let listed = remote::list(folder);
                let listed =
                    listed.map_err(|error| SqlError::new(ErrorKind::Input, error.to_string()))?;
                Some(listed.into_iter().map(|object| object.url).collect())
            }
            false => None,
        };
        Ok(Self {
            folder: folder.to_owned(),
            objects,
            left_out: left_out.iter().cloned().collect(),
            args: Mutex::default(),
        })
    }

    /// Returns the URL of a data set in an object store.
    pub(crate) fn url(&self) -> Option<String> {
        remote::url(&self.folder).map(str::to_owned)
    }

    /// Returns the folder, and the files that are not to be read.
    pub(crate) fn parts(&self) -> (PathBuf, Vec<PathBuf>) {
        (self.folder.clone(), self.left_out.iter().cloned().collect())
    }

    /// Returns the folder of a table; `None` if the data set does not have it.
    pub(crate) fn table(&self, name: &str) -> Option<PathBuf> {
        let folder = self.folder.join(format!("table={name}"));
        let is_there = match &self.objects {
            Some(objects) => objects.iter().any(|object| object.starts_with(&folder)),
            None => folder.is_dir(),
        };
        is_there.then_some(folder)
    }

    /// Returns `true` if files of a table are left out.
    pub(crate) fn lacks(&self, folder: &Path) -> bool {
        self.left_out.iter().any(|file| file.starts_with(folder))
    }

    /// Returns the files of a table, in a stable order.
    pub(crate) fn files(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let is_file = |path: &PathBuf| {
            path.extension().is_some_and(|end| end == "parquet") && !self.left_out.contains(path)
        };
        if let Some(objects) = &self.objects {
            let own = objects.iter().filter(|object| object.starts_with(folder));
            return Ok(own.filter(|path| is_file(path)).cloned().collect());
        }
        let mut files = Vec::new();
        let mut open = vec![folder.to_owned()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder).map_err(|error| failed(&folder, error))? {
                let path = entry.map_err(|error| failed(&folder, error))?.path();
                if path.is_dir() {
                    open.push(path);
                } else if is_file(&path) {
                    files.push(path);
                }
            }
        }
        files.sort();
        Ok(files)
    }

    fn required(&self, name: &str) -> Result<Vec<PathBuf>> {
        match self.table(name) {
            Some(folder) => self.files(&folder),
            None => plan_err!(
                "the data set has no table `{name}`, which this function reads: add it with `inferscope export --tables {name}`"
            ),
        }
    }

    /// Returns the values of an argument by slice; they are read once.
    pub(crate) fn arg(&self, key: &str) -> Result<Arc<Values>> {
        let key = trace_model::bare_key(key);
        let mut known = self.args.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(values) = known.get(key) {
            return Ok(Arc::clone(values));
        }
        let mut values = Values::new();
        for path in self.required("args")? {
            let columns = ["arg_set_id", "key", "int_value", "display_value"];
            for batch in read(&path, Some(&columns))? {
                let batch = batch?;
                add_values(&batch, key, &mut values)
                    .ok_or_else(|| failed(&path, "the table of arguments lacks a column"))?;
            }
        }
        let values = Arc::new(values);
        known.insert(key.to_owned(), Arc::clone(&values));
        Ok(values)
    }

    /// Returns the rows of the slices around a slice, or within it, with their schema.
    pub(crate) fn relatives(
        &self,
        id: i64,
        downwards: bool,
    ) -> Result<Option<(SchemaRef, Vec<RecordBatch>)>> {
        let files = self.required("slices")?;
        let Some((file, _)) = split_id(id) else {
            return Ok(None);
        };
        let name = format!("part-{file:06}.parquet");
        let own = files.iter().find(|path| path.ends_with(&name));
        let Some(path) = own else {
            return Ok(None);
        };
        let parents = parents(path)?;
        let mut wanted: HashSet<i64> = HashSet::new();
        match downwards {
            // Parents are first.
            true => {
                let mut inside = HashSet::from([id]);
                for (slice, parent) in &parents {
                    if parent.is_some_and(|parent| inside.contains(&parent)) {
                        inside.insert(*slice);
                        wanted.insert(*slice);
                    }
                }
            }
            false => {
                let parents: HashMap<i64, Option<i64>> = parents.into_iter().collect();
                let mut next = parents.get(&id).copied().flatten();
                while let Some(parent) = next.filter(|parent| wanted.insert(*parent)) {
                    next = parents.get(&parent).copied().flatten();
                }
            }
        }
        let mut batches = Vec::new();
        let mut schema: Option<SchemaRef> = None;
        for batch in read(path, None)? {
            let batch = batch?;
            schema.get_or_insert_with(|| batch.schema());
            let ids = batch.column_by_name("id");
            let ids = ids.and_then(|ids| ids.as_primitive_opt::<Int64Type>());
            let ids = ids.ok_or_else(|| failed(path, "the table of slices has no ids"))?;
            let is_wanted = |id: Option<i64>| id.is_some_and(|id| wanted.contains(&id));
            let keep: BooleanArray = ids.iter().map(|id| Some(is_wanted(id))).collect();
            if keep.true_count() > 0 {
                batches.push(filter_record_batch(&batch, &keep)?);
            }
        }
        Ok(schema.map(|schema| (schema, batches)))
    }
}

/// Reads a file, with all columns or with some. An object is fetched whole.
fn read(
    path: &Path,
    columns: Option<&[&str]>,
) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
    let reader = match remote::is_url(path) {
        true => {
            let bytes = remote::read(path).map_err(|error| failed(path, error))?;
            reader(Bytes::from(bytes), columns)
        }
        false => {
            let file = File::open(path).map_err(|error| failed(path, error))?;
            reader(file, columns)
        }
    };
    let reader = reader.map_err(|error| failed(path, error))?;
    let path = path.to_owned();
    Ok(reader.map(move |batch| batch.map_err(|error| failed(&path, error))))
}

fn reader(
    file: impl ChunkReader + 'static,
    columns: Option<&[&str]>,
) -> std::result::Result<ParquetRecordBatchReader, ParquetError> {
    let mut builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
    if let Some(columns) = columns {
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
        builder = builder.with_projection(mask);
    }
    builder.build()
}

/// Returns all slices of a file with their parents, in the order of the file.
fn parents(path: &Path) -> Result<Vec<(i64, Option<i64>)>> {
    let mut parents = Vec::new();
    for batch in read(path, Some(&["id", "parent_id"]))? {
        let batch = batch?;
        let column = |name| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
        let (Some(ids), Some(up)) = (column("id"), column("parent_id")) else {
            return Err(failed(path, "the table of slices lacks a column"));
        };
        let rows = ids.iter().zip(up);
        parents.extend(rows.filter_map(|(id, parent)| Some((id?, parent))));
    }
    Ok(parents)
}

/// Adds the values of one key. Returns `None` if a column is missing.
fn add_values(batch: &RecordBatch, key: &str, values: &mut Values) -> Option<()> {
    let ints = |name| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
    let texts = |name| batch.column_by_name(name)?.as_string_opt::<i32>();
    let (sets, numbers) = (ints("arg_set_id")?, ints("int_value")?);
    let (keys, shown) = (texts("key")?, texts("display_value")?);
    for row in 0..batch.num_rows() {
        if keys.is_null(row) || sets.is_null(row) || shown.is_null(row) {
            continue;
        }
        if trace_model::bare_key(keys.value(row)) != key {
            continue;
        }
        let value = Value {
            text: shown.value(row).to_owned(),
            int: (!numbers.is_null(row)).then(|| numbers.value(row)),
        };
        values.entry(sets.value(row)).or_insert(value);
    }
    Some(())
}
