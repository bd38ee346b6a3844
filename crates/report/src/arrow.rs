//! Tables as Arrow record batches.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, StringDictionaryBuilder,
    UInt64Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::cell::Cell;
use crate::column::{Column, Kind};
use crate::error::{Error, Result};
use crate::schema::SchemaVersion;
use crate::table::Table;

/// Bytes of text after which a batch ends: offsets of a text column are 32 bits wide.
const BATCH_TEXT: usize = 1 << 30;

/// Returns the Arrow schema of columns. Text is `Utf8` whether it repeats or not, so that values compare as text everywhere; each
/// field has its unit and title as metadata, the schema has `schema_version`.
#[must_use]
pub fn arrow_schema(columns: &[Column], version: SchemaVersion) -> SchemaRef {
    let fields = columns.iter().map(|column| {
        let mut metadata = unit(column);
        metadata.insert("title".to_owned(), column.heading().to_owned());
        Field::new(column.name(), plain(column.kind()), true).with_metadata(metadata)
    });
    let fields: Vec<Field> = fields.collect();
    let version = (SchemaVersion::KEY.to_owned(), version.to_string());
    Arc::new(Schema::new_with_metadata(fields, HashMap::from([version])))
}

/// Returns the rows of a table as record batches of [`arrow_schema()`]: one, unless its text is larger than 1 GiB.
///
/// # Errors
///
/// Returns an error if one text is longer than 2 GiB.
pub fn record_batches(table: &Table, version: SchemaVersion) -> Result<Vec<RecordBatch>> {
    let schema = arrow_schema(table.columns(), version);
    let new = || table.columns().iter().map(|c| Builder::plain(c.kind()));
    let mut builders: Vec<Builder> = new().collect();
    let mut batches = Vec::new();
    let (mut rows, mut text) = (0, 0);
    let mut cells = Vec::with_capacity(builders.len());
    let mut end = |builders: &mut Vec<Builder>, rows: usize| -> Result<()> {
        let arrays = builders.iter_mut().map(Builder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)?;
        batches.push(batch);
        Ok(())
    };
    for row in 0..table.rows() {
        table.row_into(row, &mut cells);
        let mut more = 0;
        for (cell, column) in cells.iter().zip(table.columns()) {
            if let Cell::Text(value) = cell {
                if i32::try_from(value.len()).is_err() {
                    return Err(Error::TextTooLong {
                        row: row as u64,
                        column: column.name().into(),
                        len: value.len(),
                    });
                }
                more += value.len();
            }
        }
        if rows > 0 && text + more > BATCH_TEXT {
            end(&mut builders, rows)?;
            (rows, text) = (0, 0);
        }
        for (builder, cell) in builders.iter_mut().zip(&cells) {
            builder.push(*cell);
        }
        rows += 1;
        text += more;
    }
    if rows > 0 || table.rows() == 0 {
        end(&mut builders, rows)?;
    }
    Ok(batches)
}

/// Collects the cells of one column.
pub(crate) enum Builder {
    Int(Int64Builder),
    UInt(UInt64Builder),
    Real(Float64Builder),
    Text(StringBuilder),
    /// A text column with repeated values; a batch has fewer rows than there are keys.
    Repeating(StringDictionaryBuilder<Int32Type>),
    Bool(BooleanBuilder),
}

impl Builder {
    /// Creates the builder of a column; repeated text becomes a dictionary.
    pub(crate) fn new(column: &Column) -> Self {
        match column.kind() {
            Kind::Text if column.is_repeating() => Self::Repeating(StringDictionaryBuilder::new()),
            kind => Self::plain(kind),
        }
    }

    fn plain(kind: Kind) -> Self {
        match kind {
            Kind::Int => Self::Int(Int64Builder::new()),
            Kind::UInt => Self::UInt(UInt64Builder::new()),
            Kind::Real => Self::Real(Float64Builder::new()),
            Kind::Text => Self::Text(StringBuilder::new()),
            Kind::Bool => Self::Bool(BooleanBuilder::new()),
        }
    }

    /// Appends a cell that the guard has checked: of this kind or null.
    pub(crate) fn push(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Self::Int(builder), Cell::Int(value)) => builder.append_value(value),
            (Self::Int(builder), _) => builder.append_null(),
            (Self::UInt(builder), Cell::UInt(value)) => builder.append_value(value),
            (Self::UInt(builder), _) => builder.append_null(),
            (Self::Real(builder), Cell::Real(value)) => builder.append_value(value),
            (Self::Real(builder), _) => builder.append_null(),
            (Self::Text(builder), Cell::Text(value)) => builder.append_value(value),
            (Self::Text(builder), _) => builder.append_null(),
            (Self::Repeating(builder), Cell::Text(value)) => builder.append_value(value),
            (Self::Repeating(builder), _) => builder.append_null(),
            (Self::Bool(builder), Cell::Bool(value)) => builder.append_value(value),
            (Self::Bool(builder), _) => builder.append_null(),
        }
    }

    pub(crate) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::UInt(builder) => Arc::new(builder.finish()),
            Self::Real(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Repeating(builder) => Arc::new(builder.finish()),
            Self::Bool(builder) => Arc::new(builder.finish()),
        }
    }
}

/// Returns the field of a column in Parquet: repeated text is a dictionary.
pub(crate) fn field(column: &Column) -> Field {
    let data_type = match column.kind() {
        Kind::Text if column.is_repeating() => {
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
        }
        kind => plain(kind),
    };
    Field::new(column.name(), data_type, true).with_metadata(unit(column))
}

fn plain(kind: Kind) -> DataType {
    match kind {
        Kind::Int => DataType::Int64,
        Kind::UInt => DataType::UInt64,
        Kind::Real => DataType::Float64,
        Kind::Text => DataType::Utf8,
        Kind::Bool => DataType::Boolean,
    }
}

fn unit(column: &Column) -> HashMap<String, String> {
    let symbol = column.unit_of().symbol();
    let unit = (!symbol.is_empty()).then(|| ("unit".to_owned(), symbol.to_owned()));
    unit.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float64Type, Int64Type};

    use super::*;
    use crate::column::Unit;

    #[test]
    fn cells_nulls_units_and_titles_survive() {
        let columns = vec![
            Column::text("name").repeating(),
            Column::int("dur_ns").unit(Unit::Nanos).title("duration"),
            Column::real("share"),
        ];
        let mut table = Table::new("t", columns).unwrap();
        table
            .push(&[Cell::Text("a"), Cell::Int(-3), Cell::Real(0.1)])
            .unwrap();
        table
            .push(&[Cell::Null, Cell::Int(i64::MAX), Cell::Null])
            .unwrap();
        let batches = record_batches(&table, SchemaVersion::new(1, 0)).unwrap();
        let [batch] = batches.as_slice() else {
            panic!("{} batches", batches.len())
        };
        let name = batch.column(0).as_string::<i32>();
        assert_eq!(name.iter().collect::<Vec<_>>(), [Some("a"), None]);
        let time = batch.column(1).as_primitive::<Int64Type>();
        assert_eq!(time.values(), &[-3, i64::MAX]);
        let share = batch.column(2).as_primitive::<Float64Type>();
        assert_eq!(share.iter().collect::<Vec<_>>(), [Some(0.1), None]);
        let schema = batch.schema();
        assert_eq!(schema.field(1).metadata()["unit"], Unit::Nanos.symbol());
        assert_eq!(schema.field(1).metadata()["title"], "duration");
        assert_eq!(schema.metadata()["schema_version"], "1.0");
    }

    #[test]
    fn an_empty_table_is_a_batch_without_rows() {
        let table = Table::new("t", vec![Column::bool("x")]).unwrap();
        let batches = record_batches(&table, SchemaVersion::new(1, 0)).unwrap();
        assert_eq!((batches.len(), batches[0].num_rows()), (1, 0));
    }
}
