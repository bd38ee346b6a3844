//! Rows that are kept until all of them have arrived: in memory, and in a temporary file from a size on.

use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::disk_manager::DiskManager;
use datafusion::execution::spill_file::SpillFile;

use crate::error::{ErrorKind, SqlError};

/// Bytes in memory.
const MEMORY: usize = 64 << 20;

fn failed(error: impl std::fmt::Display) -> SqlError {
    SqlError::new(ErrorKind::Failed, error.to_string())
}

/// Returns the path of a temporary file.
fn local(file: &dyn SpillFile) -> Result<&Path> {
    let path = file.path();
    path.ok_or_else(|| DataFusionError::Internal("a temporary file has no path".to_owned()))
}

/// A temporary file with rows, and who writes it.
type Spilled = (StreamWriter<BufWriter<std::fs::File>>, Arc<dyn SpillFile>);

/// Rows of one result.
pub(crate) struct Kept {
    schema: SchemaRef,
    disk: Arc<DiskManager>,
    memory: usize,
    batches: Vec<RecordBatch>,
    bytes: usize,
    rows: usize,
    file: Option<Spilled>,
}

impl Kept {
    /// Creates an empty result; `disk` has its file.
    pub(crate) fn new(schema: SchemaRef, disk: &Arc<DiskManager>) -> Self {
        Self {
            schema,
            disk: Arc::clone(disk),
            memory: MEMORY,
            batches: Vec::new(),
            bytes: 0,
            rows: 0,
            file: None,
        }
    }

    /// Returns the schema of the rows.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of rows so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows.
    pub(crate) fn add(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        self.bytes = self.bytes.saturating_add(batch.get_array_memory_size());
        self.batches.push(batch);
        if self.bytes <= self.memory {
            return Ok(());
        }
        if self.file.is_none() {
            let file = self.disk.create_tmp_file("result of a query")?;
            let out = std::fs::File::create(local(file.as_ref())?)?;
            let writer = StreamWriter::try_new(BufWriter::new(out), &self.schema)?;
            self.file = Some((writer, file));
        }
        if let Some((writer, _)) = &mut self.file {
            for batch in self.batches.drain(..) {
                writer.write(&batch)?;
            }
        }
        self.bytes = 0;
        Ok(())
    }

    /// Passes all rows on, in their order, until `sink` returns `false`.
    pub(crate) fn drain(
        mut self,
        sink: &mut dyn FnMut(&RecordBatch) -> std::result::Result<bool, SqlError>,
    ) -> std::result::Result<(), SqlError> {
        if let Some((mut writer, file)) = self.file.take() {
            writer.finish().map_err(failed)?;
            drop(writer);
            let path = local(file.as_ref()).map_err(failed)?;
            let stored = std::fs::File::open(path).map_err(failed)?;
            let stored = StreamReader::try_new(BufReader::new(stored), None);
            for batch in stored.map_err(failed)? {
                if !sink(&batch.map_err(failed)?)? {
                    return Ok(());
                }
            }
        }
        for batch in &self.batches {
            if !sink(batch)? {
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::Int64Type;
    use datafusion::execution::runtime_env::RuntimeEnv;

    use super::*;

    #[test]
    fn rows_come_back_in_order_from_memory_and_from_a_file() {
        let batch = |n: i64| {
            let column = Arc::new(Int64Array::from_iter_values(n * 10..n * 10 + 10)) as _;
            RecordBatch::try_from_iter([("a", column)]).unwrap()
        };
        for memory in [0, 200, usize::MAX] {
            let disk = &RuntimeEnv::default().disk_manager;
            let mut kept = Kept::new(batch(0).schema(), disk);
            kept.memory = memory;
            for n in 0..7 {
                kept.add(batch(n)).unwrap();
            }
            assert_eq!(kept.rows(), 70);
            assert_eq!(kept.file.is_some(), memory < usize::MAX);
            let mut rows: Vec<i64> = Vec::new();
            let done = kept.drain(&mut |batch| {
                rows.extend(batch.column(0).as_primitive::<Int64Type>().values());
                Ok(rows.len() < 60)
            });
            done.unwrap();
            assert_eq!(rows, (0..60).collect::<Vec<_>>());
        }
    }
}
