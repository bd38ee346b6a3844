//! The table of samples as Parquet.

use std::borrow::Cow;
use std::path::Path;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;

use super::samples::{Gathered, Row, Series};
use crate::error::{Error, Result};

/// How every Parquet file begins.
pub(super) const MAGIC: &[u8] = b"PAR1";

fn text(field: &Field) -> Cow<'_, str> {
    match field {
        Field::Null => Cow::Borrowed(""),
        Field::Str(text) => Cow::Borrowed(text.trim()),
        Field::Bytes(bytes) => Cow::Owned(String::from_utf8_lossy(bytes.data()).into_owned()),
        other => Cow::Owned(other.to_string()),
    }
}

fn number(field: &Field) -> Option<f64> {
    match field {
        Field::Double(value) => Some(*value),
        Field::Float(value) => Some(f64::from(*value)),
        Field::Null => None,
        // Whole numbers and decimals of any width are written the same way.
        other => text(other).parse().ok(),
    }
}

/// Reads a whole file; rows without a value are counted in the second result.
pub(super) fn parse(bytes: Bytes, file: &Path) -> Result<(Vec<Series>, u64)> {
    let error = |source: ParquetError| Error::Parquet {
        file: file.to_owned(),
        source: Box::new(source),
    };
    let reader = SerializedFileReader::new(bytes).map_err(error)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let has = |name: &str| schema.columns().iter().any(|c| c.path().string() == name);
    for column in ["metric", "value"] {
        if !has(column) {
            return Err(Error::Column {
                file: file.to_owned(),
                column,
            });
        }
    }
    let mut gathered = Gathered::default();
    for record in reader.get_row_iter(None).map_err(error)? {
        let record = record.map_err(error)?;
        let mut row = Row::default();
        for (name, field) in record.get_column_iter() {
            match name.as_str() {
                "metric" => row.metric = text(field),
                "unit" => row.unit = text(field),
                "group" => row.group = text(field),
                "run" => row.run = text(field),
                "workload" => row.workload = text(field),
                "cycle" => row.cycle = number(field),
                "value" => row.value = number(field),
                _ => {}
            }
        }
        gathered.push(&row);
    }
    Ok(gathered.finish())
}
