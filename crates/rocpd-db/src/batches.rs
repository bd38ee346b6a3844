//! Rows as Arrow record batches.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::RecordBatch;
use arrow_array::builder::{
    BinaryBuilder, Float64Builder, Int64Builder, StringBuilder, StringDictionaryBuilder,
};
use arrow_array::types::Int32Type;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::error::Result;
use crate::filter::Filter;
use crate::kernel_names::KernelNames;
use crate::set::RocpdSet;
use crate::sql::{Rows, SqlValue};
use crate::tabular::{ColumnKind, RowScan, TableKind};

/// Bytes of text after which a batch of records ends: its offsets have 32 bits, and it lies in memory.
const BATCH_TEXT_BYTES: usize = 16 << 20;

/// Records of one kind as Arrow record batches; see [`RocpdSet::scan_arrow`].
#[derive(Debug)]
pub struct ArrowScan<'a> {
    rows: RowScan<'a>,
    schema: SchemaRef,
    columns: Vec<Building>,
    batch_rows: usize,
    done: bool,
}

impl RocpdSet {
    /// Streams the records that a filter wants as Arrow record batches of at most `batch_rows` rows.
    ///
    /// Columns are those of [`TableKind::columns`]: names as dictionaries (`Int32` keys), other texts as `Utf8`, times and
    /// other integers as `Int64`, so that nanoseconds stay exact. A dictionary only grows from batch to batch: a key means
    /// the same in all of them, and files of Arrow's IPC format take them with dictionaries as deltas. Memory: one batch,
    /// which ends early where its texts are long, and the names.
    ///
    /// ```
    /// use rocpd_db::{Filter, KernelNames, OpenOptions, RocpdSet, TableKind};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # rocpd_synth::generate(folder.path(), &rocpd_synth::Shape::small())?;
    /// let set = RocpdSet::open(&[folder.path()], &OpenOptions::default())?;
    /// let filter = Filter::default();
    /// let mut rows = 0;
    /// for batch in set.scan_arrow(TableKind::Kernels, &filter, KernelNames::default(), 100)? {
    ///     let batch = batch?;
    ///     assert!(batch.num_rows() <= 100);
    ///     assert!(batch.column_by_name("duration_ns").is_some());
    ///     rows += batch.num_rows();
    /// }
    /// assert!(rows > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`RocpdSet::scan`].
    pub fn scan_arrow<'a>(
        &'a self,
        kind: TableKind,
        filter: &'a Filter,
        names: KernelNames,
        batch_rows: usize,
    ) -> Result<ArrowScan<'a>> {
        let mut fields = Vec::new();
        let mut columns = Vec::new();
        for (name, kind) in kind.columns() {
            let column = match kind {
                ColumnKind::Name => Building::Names(StringDictionaryBuilder::new()),
                ColumnKind::Text => Building::Texts(StringBuilder::new()),
                ColumnKind::Real => Building::Reals(Float64Builder::new()),
                ColumnKind::Int | ColumnKind::Nanos => Building::Ints(Int64Builder::new()),
            };
            fields.push(Field::new(*name, column.data_type(), true));
            columns.push(column);
        }
        Ok(ArrowScan {
            rows: self.rows(kind, filter, names)?,
            schema: Arc::new(Schema::new(fields)),
            columns,
            batch_rows: batch_rows.max(1),
            done: false,
        })
    }
}

impl ArrowScan<'_> {
    /// The columns of all batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn fill(&mut self) -> Result<Option<RecordBatch>> {
        let columns = &mut self.columns;
        let mut count = 0;
        let mut text_bytes = 0;
        while count < self.batch_rows && text_bytes < BATCH_TEXT_BYTES {
            let row = self.rows.next_with(|values| {
                for (column, value) in columns.iter_mut().zip(values) {
                    column.push(*value);
                    if let (Building::Texts(_), SqlValue::Text(text)) = (column, value) {
                        text_bytes += text.len();
                    }
                }
            })?;
            if row.is_none() {
                self.done = true;
                break;
            }
            count += 1;
        }
        if count == 0 {
            return Ok(None);
        }
        let arrays = columns.iter_mut().map(Building::finish).collect();
        Ok(Some(RecordBatch::try_new(self.schema(), arrays)?))
    }
}

impl Iterator for ArrowScan<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let batch = self.fill();
        self.done |= batch.is_err();
        batch.transpose()
    }
}

impl Rows<'_> {
    /// The next rows, at most `batch_rows`, as an Arrow record batch; `None` after the last.
    ///
    /// A column has the type of its values in this batch: `Int64`, `Float64` (also where integers and reals meet),
    /// `Utf8`, `Binary`, or `Null` where all are NULL; where others meet, they become text. SQLite types values, not
    /// columns: to be certain over all batches, `CAST` in the query.
    ///
    /// ```
    /// use rocpd_db::{KernelNames, OpenOptions, RocpdSet, SqlValue};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # rocpd_synth::generate(folder.path(), &rocpd_synth::Shape::small())?;
    /// // connect, execute with parameters, fetch many.
    /// let set = RocpdSet::open(&[folder.path()], &OpenOptions::default())?;
    /// let session = set.sql(None, KernelNames::default())?;
    /// let mut statement = session.prepare(
    ///     "SELECT name, COUNT(*) AS calls, AVG(duration) AS mean_ns FROM kernels WHERE duration > ?1 GROUP BY name",
    /// )?;
    /// let mut rows = statement.query(&[SqlValue::Int(1_000)])?;
    /// while let Some(batch) = rows.next_batch(1_000)? {
    ///     assert_eq!(batch.schema().field(1).data_type().to_string(), "Int64");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Sql`](crate::Error::Sql) when SQLite fails on the way.
    pub fn next_batch(&mut self, batch_rows: usize) -> Result<Option<RecordBatch>> {
        let names = self.columns();
        let mut columns: Vec<Building> = names.iter().map(|_| Building::Nulls(0)).collect();
        let mut count = 0;
        while count < batch_rows.max(1) {
            let Some(row) = self.next()? else { break };
            for (at, column) in columns.iter_mut().enumerate() {
                column.push(row.get(at));
            }
            count += 1;
        }
        if count == 0 {
            return Ok(None);
        }
        let fields: Vec<Field> = names
            .iter()
            .zip(&columns)
            .map(|(name, column)| Field::new(name, column.data_type(), true))
            .collect();
        let arrays = columns.iter_mut().map(Building::finish).collect();
        let schema = Arc::new(Schema::new(fields));
        Ok(Some(RecordBatch::try_new(schema, arrays)?))
    }
}

/// A column under construction; it changes its type when a value asks for it.
enum Building {
    Nulls(usize),
    Ints(Int64Builder),
    Reals(Float64Builder),
    Texts(StringBuilder),
    Bytes(BinaryBuilder),
    /// Texts that come again and again; what was there stays from one batch to the next.
    Names(StringDictionaryBuilder<Int32Type>),
}

// By hand: the builder of dictionaries has no `Debug`.
impl std::fmt::Debug for Building {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Building").field(&self.data_type()).finish()
    }
}

impl Building {
    fn data_type(&self) -> DataType {
        match self {
            Self::Nulls(_) => DataType::Null,
            Self::Ints(_) => DataType::Int64,
            Self::Reals(_) => DataType::Float64,
            Self::Texts(_) => DataType::Utf8,
            Self::Bytes(_) => DataType::Binary,
            Self::Names(_) => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
            }
        }
    }

    fn push(&mut self, value: SqlValue<'_>) {
        match (&mut *self, value) {
            (Self::Nulls(count), SqlValue::Null) => *count += 1,
            (Self::Ints(column), SqlValue::Int(value)) => column.append_value(value),
            (Self::Ints(column), SqlValue::Null) => column.append_null(),
            (Self::Reals(column), SqlValue::Real(value)) => column.append_value(value),
            (Self::Reals(column), SqlValue::Int(value)) => {
                column.append_value(crate::numbers::real(value));
            }
            (Self::Reals(column), SqlValue::Null) => column.append_null(),
            (Self::Texts(column), SqlValue::Null) => column.append_null(),
            (Self::Texts(column), value) => column.append_value(plain(value)),
            (Self::Bytes(column), SqlValue::Blob(value)) => column.append_value(value),
            (Self::Bytes(column), SqlValue::Null) => column.append_null(),
            (Self::Names(column), SqlValue::Null) => column.append_null(),
            (Self::Names(column), value) => column.append_value(plain(value)),
            (_, value) => {
                self.widen(value);
                self.push(value);
            }
        }
    }

    /// Becomes a column that takes a value of another type too.
    fn widen(&mut self, value: SqlValue<'_>) {
        *self = match (&mut *self, value) {
            (Self::Nulls(count), value) => {
                let mut column = match value {
                    SqlValue::Int(_) => Self::Ints(Int64Builder::new()),
                    SqlValue::Real(_) => Self::Reals(Float64Builder::new()),
                    SqlValue::Blob(_) => Self::Bytes(BinaryBuilder::new()),
                    SqlValue::Text(_) | SqlValue::Null => Self::Texts(StringBuilder::new()),
                };
                for _ in 0..*count {
                    column.push(SqlValue::Null);
                }
                column
            }
            (Self::Ints(column), SqlValue::Real(_)) => {
                let mut wider = Float64Builder::new();
                for value in &column.finish() {
                    wider.append_option(value.map(crate::numbers::real));
                }
                Self::Reals(wider)
            }
            (column, _) => {
                let mut wider = StringBuilder::new();
                match column {
                    Self::Ints(column) => {
                        for value in &column.finish() {
                            wider.append_option(value.map(|value| value.to_string()));
                        }
                    }
                    Self::Reals(column) => {
                        for value in &column.finish() {
                            wider.append_option(value.map(|value| format!("{value:?}")));
                        }
                    }
                    Self::Bytes(column) => {
                        for value in &column.finish() {
                            wider.append_option(value.map(String::from_utf8_lossy));
                        }
                    }
                    _ => {}
                }
                Self::Texts(wider)
            }
        };
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Nulls(count) => Arc::new(arrow_array::NullArray::new(std::mem::take(count))),
            Self::Ints(column) => Arc::new(column.finish()),
            Self::Reals(column) => Arc::new(column.finish()),
            Self::Texts(column) => Arc::new(column.finish()),
            Self::Bytes(column) => Arc::new(column.finish()),
            Self::Names(column) => Arc::new(column.finish_preserve_values()),
        }
    }
}

/// A value as text.
fn plain(value: SqlValue<'_>) -> std::borrow::Cow<'_, str> {
    match value {
        SqlValue::Text(text) => text.into(),
        SqlValue::Int(value) => value.to_string().into(),
        SqlValue::Real(value) => format!("{value:?}").into(),
        SqlValue::Blob(bytes) => String::from_utf8_lossy(bytes),
        SqlValue::Null => "".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_take_the_type_that_all_their_values_have() {
        let built = |values: &[SqlValue<'_>]| {
            let mut column = Building::Nulls(0);
            for value in values {
                column.push(*value);
            }
            let kind = column.data_type();
            let array = column.finish();
            assert_eq!(array.len(), values.len());
            (
                kind,
                arrow_cast::display::array_value_to_string(&array, 1).ok(),
            )
        };
        let (null, one) = (SqlValue::Null, SqlValue::Int(1));
        assert_eq!(built(&[null, null]).0, DataType::Null);
        assert_eq!(built(&[null, one]).0, DataType::Int64);
        assert_eq!(built(&[one, SqlValue::Real(0.5)]).0, DataType::Float64);
        assert_eq!(
            built(&[SqlValue::Real(0.5), one]),
            (DataType::Float64, Some("1.0".to_owned()))
        );
        assert_eq!(
            built(&[one, SqlValue::Text("a")]),
            (DataType::Utf8, Some("a".to_owned()))
        );
        assert_eq!(built(&[SqlValue::Blob(b"a"), null]).0, DataType::Binary);
        assert_eq!(
            built(&[SqlValue::Blob(b"a"), one]),
            (DataType::Utf8, Some("1".to_owned()))
        );
    }
}
