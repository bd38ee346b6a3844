//! A folder of Parquet files, one for each table (`nsys export --type parquetdir`).

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use sqlite_scan::Value;

use crate::error::{Error, Result};

/// Rows decoded at a time.
const BATCH: usize = 8192;

/// The tables of a folder.
#[derive(Debug)]
pub(crate) struct Folder {
    name: String,
    tables: BTreeMap<String, Table>,
}

#[derive(Debug)]
struct Table {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
}

impl Folder {
    /// Reads the descriptions of all tables.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let list = |source| Error::Io {
            name: name.clone(),
            step: "list the folder",
            source,
        };
        let mut tables = BTreeMap::new();
        for entry in std::fs::read_dir(path).map_err(list)? {
            let path = entry.map_err(list)?.path();
            let table = path.file_name().and_then(|name| name.to_str());
            let Some(table) = table.and_then(|name| name.strip_suffix(".parquet")) else {
                continue;
            };
            let failed = |reason: String| Error::Parquet {
                name: path.display().to_string(),
                reason,
            };
            let file = File::open(&path).map_err(|error| failed(error.to_string()))?;
            let metadata = ArrowReaderMetadata::load(&file, Default::default())
                .map_err(|error| failed(error.to_string()))?;
            tables.insert(table.to_owned(), Table { path, metadata });
        }
        if !tables.contains_key("StringIds") {
            return Err(Error::NoEvents { name });
        }
        for (table, of) in &tables {
            let needed = match table.as_str() {
                "StringIds" => &["id", "value"][..],
                _ if table.starts_with("CUPTI_ACTIVITY_KIND_CUDA_EVENT") => &[],
                _ if table.starts_with("CUPTI_ACTIVITY_KIND_") || table == "OSRT_API" => {
                    &["start", "end"]
                }
                "NVTX_EVENTS" => &["start"],
                _ => &[],
            };
            let missing = needed.iter().find(|column| of.column(column).is_none());
            if let Some(column) = missing {
                return Err(Error::NoColumn {
                    name: of.path.display().to_string(),
                    table: table.clone(),
                    column,
                });
            }
        }
        Ok(Self { name, tables })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn bytes(&self) -> u64 {
        let sizes = self
            .tables
            .values()
            .map(|table| std::fs::metadata(&table.path));
        sizes.flatten().map(|found| found.len()).sum()
    }

    pub(crate) fn table_names(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    pub(crate) fn has_column(&self, table: &str, column: &str) -> bool {
        self.tables
            .get(table)
            .is_some_and(|table| table.column(column).is_some())
    }

    /// Returns the columns of a table, each with the name of its type in SQLite.
    pub(crate) fn columns(&self, table: &str) -> Option<Vec<(String, &'static str)>> {
        let fields = self.tables.get(table)?.metadata.schema().fields();
        let column = |field: &std::sync::Arc<arrow_schema::Field>| {
            (field.name().clone(), type_name(field.data_type()))
        };
        Some(fields.iter().map(column).collect())
    }

    pub(crate) fn rows(&self, table: &str) -> u64 {
        let rows = |table: &Table| table.metadata.metadata().file_metadata().num_rows();
        self.tables
            .get(table)
            .and_then(|table| u64::try_from(rows(table)).ok())
            .unwrap_or(0)
    }

    /// Passes columns of every row on; only these columns are read.
    pub(crate) fn scan<const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
        mut each: impl FnMut(i64, [Value<'_>; N]) -> Result<()>,
    ) -> Result<()> {
        self.scan_list(table, &columns, |number, values| {
            let value = |at: usize| values.get(at).copied().unwrap_or(Value::Null);
            each(number, std::array::from_fn(value))
        })
    }

    /// Does the same with columns whose number is not known in advance.
    pub(crate) fn scan_list<E: From<Error>>(
        &self,
        table: &str,
        columns: &[&str],
        mut each: impl FnMut(i64, &[Value<'_>]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some(table) = self.tables.get(table) else {
            return Ok(());
        };
        let failed = |reason: String| Error::Parquet {
            name: table.path.display().to_string(),
            reason,
        };
        let file = File::open(&table.path).map_err(|error| failed(error.to_string()))?;
        let places = columns.iter().map(|column| table.column(column));
        let places: Vec<Option<usize>> = places.collect();
        let mut wanted: Vec<usize> = places.iter().flatten().copied().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let schema = table.metadata.metadata().file_metadata().schema_descr();
        let mask = ProjectionMask::roots(schema, wanted.iter().copied());
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, table.metadata.clone());
        let reader = builder
            .with_projection(mask)
            .with_batch_size(BATCH)
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let mut number = 0;
        for batch in reader {
            let batch = batch.map_err(|error| failed(error.to_string()))?;
            let mut of = Vec::with_capacity(places.len());
            for place in &places {
                let place = *place;
                let at = place.and_then(|place| wanted.binary_search(&place).ok());
                let column = at.map(|at| Column::new(batch.column(at)));
                of.push(column.transpose().map_err(failed)?);
            }
            for row in 0..batch.num_rows() {
                number += 1;
                let mut values = vec![Value::Null; of.len()];
                for (value, column) in values.iter_mut().zip(&of) {
                    if let Some(column) = column {
                        *value = column.value(row);
                    }
                }
                each(number, &values)?;
            }
        }
        Ok(())
    }
}

impl Table {
    fn column(&self, name: &str) -> Option<usize> {
        let fields = self.metadata.schema().fields();
        fields
            .iter()
            .position(|field| field.name().eq_ignore_ascii_case(name))
    }
}

/// Returns the type in SQLite of the values that [`Column`] makes.
fn type_name(ty: &DataType) -> &'static str {
    match ty {
        DataType::Dictionary(_, value) => type_name(value),
        DataType::Boolean | DataType::Timestamp(..) | DataType::Duration(_) => "INTEGER",
        ty if ty.is_integer() => "INTEGER",
        ty if ty.is_floating() => "REAL",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "BLOB",
        _ => "TEXT",
    }
}

/// A column as the values of SQLite: integers of any width, reals, texts, bytes.
enum Column {
    Int(ArrayRef),
    UInt(ArrayRef),
    Real(ArrayRef),
    Text(ArrayRef),
    Bytes(ArrayRef),
}

impl Column {
    fn new(array: &ArrayRef) -> std::result::Result<Self, String> {
        let cast = |to: DataType| arrow_cast::cast(array, &to).map_err(|error| error.to_string());
        let kind = match array.data_type() {
            DataType::Dictionary(_, value) => value.as_ref(),
            kind => kind,
        };
        Ok(match kind {
            DataType::UInt64 => Self::UInt(cast(DataType::UInt64)?),
            kind if kind.is_integer() || *kind == DataType::Boolean => {
                Self::Int(cast(DataType::Int64)?)
            }
            DataType::Timestamp(..) | DataType::Duration(_) => Self::Int(cast(DataType::Int64)?),
            kind if kind.is_floating() => Self::Real(cast(DataType::Float64)?),
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Bytes(cast(DataType::LargeBinary)?),
            _ => Self::Text(cast(DataType::LargeUtf8)?),
        })
    }

    fn value(&self, row: usize) -> Value<'_> {
        let (Self::Int(array)
        | Self::UInt(array)
        | Self::Real(array)
        | Self::Text(array)
        | Self::Bytes(array)) = self;
        if array.is_null(row) {
            return Value::Null;
        }
        match self {
            Self::Int(array) => Value::Int(array.as_primitive::<Int64Type>().value(row)),
            // Global ids are unsigned; SQLite stores the same bits.
            Self::UInt(array) => {
                Value::Int(array.as_primitive::<UInt64Type>().value(row).cast_signed())
            }
            Self::Real(array) => Value::Real(array.as_primitive::<Float64Type>().value(row)),
            Self::Text(array) => Value::Text(array.as_string::<i64>().value(row).as_bytes()),
            Self::Bytes(array) => Value::Blob(array.as_binary::<i64>().value(row)),
        }
    }
}
