//! The table of arguments, whose number of rows is known only at their end.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};
use report::{Cell, Column, RowSink};

use super::{Recording, Request, column, projected};
use crate::catalogue::TableSpec;
use crate::table::{Table, TableOptions};

/// Bytes of text after which a batch ends.
const BATCH_TEXT: usize = 16 << 20;

/// A column of texts, many of which repeat.
type Texts = StringDictionaryBuilder<Int32Type>;

/// Collects rows into batches.
struct Batches<'a> {
    recording: &'a Recording,
    schema: SchemaRef,
    request: &'a Request,
    sink: &'a mut dyn FnMut(RecordBatch) -> bool,
    /// Rows so far, of all batches and of the current one.
    all: i64,
    rows: usize,
    text: usize,
    ids: Int64Builder,
    sets: Int64Builder,
    texts: [Texts; 5],
    ints: Int64Builder,
    reals: Float64Builder,
    wants_more: bool,
    failed: Option<ArrowError>,
}

pub(super) fn scan(
    recording: &Recording,
    table: &TableSpec,
    request: &Request,
    sink: &mut dyn FnMut(RecordBatch) -> bool,
) -> Result<(), ArrowError> {
    let mut batches = Batches {
        recording,
        schema: Arc::new(projected(table, request)?),
        request,
        sink,
        all: 0,
        rows: 0,
        text: 0,
        ids: Int64Builder::new(),
        sets: Int64Builder::new(),
        texts: std::array::from_fn(|_| Texts::new()),
        ints: Int64Builder::new(),
        reals: Float64Builder::new(),
        wants_more: true,
        failed: None,
    };
    let done = Table::Args.write(&recording.trace, &TableOptions::default(), &mut batches);
    match (batches.failed, done) {
        (Some(error), _) => Err(error),
        // The sink wants no more.
        (None, Err(_)) if !batches.wants_more => Ok(()),
        (None, Err(error)) => Err(ArrowError::ExternalError(Box::new(error))),
        (None, Ok(())) => Ok(()),
    }
}

fn text_of<'c>(cell: Option<&'c Cell<'_>>) -> Option<&'c str> {
    match cell? {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}

impl Batches<'_> {
    fn flush(&mut self) -> Result<(), ArrowError> {
        if self.rows == 0 {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        self.text = 0;
        let [flat, key, kind, string, display] = &mut self.texts;
        let made: [(&str, ArrayRef); 9] = [
            ("id", Arc::new(self.ids.finish())),
            ("arg_set_id", Arc::new(self.sets.finish())),
            ("flat_key", Arc::new(flat.finish())),
            ("key", Arc::new(key.finish())),
            ("value_type", Arc::new(kind.finish())),
            ("int_value", Arc::new(self.ints.finish())),
            ("string_value", Arc::new(string.finish())),
            ("real_value", Arc::new(self.reals.finish())),
            ("display_value", Arc::new(display.finish())),
        ];
        let columns = self.schema.fields().iter().map(|field| {
            let name = field.name().as_str();
            let own = made.iter().find(|(known, _)| *known == name);
            let own = own.map(|(_, array)| Arc::clone(array));
            own.or_else(|| column::common(self.recording, name, rows))
                .ok_or_else(|| ArrowError::SchemaError(format!("no column {name}")))
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        self.wants_more = (self.sink)(batch);
        Ok(())
    }
}

impl RowSink for Batches<'_> {
    fn begin(&mut self, _: &[Column]) -> report::Result<()> {
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> report::Result<()> {
        let (flat, key) = (text_of(cells.get(1)), text_of(cells.get(2)));
        let number = self.all;
        self.all += 1;
        if let Some(wanted) = &self.request.keys {
            let is_wanted =
                |name: Option<&str>| name.is_some_and(|n| wanted.iter().any(|w| w == n));
            if !is_wanted(flat) && !is_wanted(key) {
                return Ok(());
            }
        }
        let set = match cells.first() {
            Some(Cell::UInt(slice)) => usize::try_from(*slice).ok(),
            _ => None,
        };
        let (kind, value) = (text_of(cells.get(3)), text_of(cells.get(4)).unwrap_or(""));
        let int = match kind {
            Some("int") => value.parse().ok(),
            Some("uint") => value.parse::<u64>().ok().map(u64::cast_signed),
            Some("bool") => Some(i64::from(value == "true")),
            Some("pointer") => {
                let digits = value.strip_prefix("0x").unwrap_or(value);
                u64::from_str_radix(digits, 16).ok().map(u64::cast_signed)
            }
            _ => None,
        };
        let is_text = matches!(kind, Some("string" | "json"));
        self.ids.append_value(number);
        self.sets
            .append_option(set.map(|row| self.recording.id(row)));
        self.ints.append_option(int);
        self.reals.append_option(match kind {
            Some("real") => value.parse().ok(),
            _ => None,
        });
        let shown = [flat, key, kind, is_text.then_some(value), Some(value)];
        for (builder, text) in self.texts.iter_mut().zip(shown) {
            builder.append_option(text);
        }
        self.rows += 1;
        self.text += value.len();
        if self.rows >= self.request.batch_rows.max(1) || self.text >= BATCH_TEXT {
            if let Err(error) = self.flush() {
                self.failed = Some(error);
            }
            if self.failed.is_some() || !self.wants_more {
                return Err(std::io::Error::other("no more rows are wanted").into());
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> report::Result<()> {
        if let Err(error) = self.flush() {
            self.failed = Some(error);
        }
        Ok(())
    }
}
