//! Records as columns: Parquet, Arrow and JSON lines, a file for each kind.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions};
use report::{
    Cell, Column, JsonLayout, JsonRowsWriter, ParquetWriter, RowSink, SchemaVersion, Unit,
};
use rocpd_db::{
    ArrowScan, ColumnKind, Filter, KernelNames, RocpdSet, RowScan, SqlValue, TableKind,
};

use crate::file::OutputFile;
use crate::{Destination, Result};

/// Formats of tables, a file for each kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Parquet, compressed with zstd.
    Parquet,
    /// Arrow IPC, names as dictionaries.
    Arrow,
    /// JSON lines.
    Json,
}

impl Format {
    const fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::Json => "jsonl",
        }
    }
}

/// Writes a table for each kind of record that a filter accepts any of: `<base>_kernels.parquet`
/// and the like.
///
/// Columns and units are those of [`rocpd_db::TableKind`]; the metadata of Parquet and Arrow files
/// map each guid to its host, process id and rank. Cost: one pass over the records of each kind;
/// memory is independent of their number.
///
/// # Errors
///
/// Returns an error if a database cannot be read or a file cannot be written.
pub fn write(
    set: &RocpdSet,
    filter: &Filter,
    kernels: KernelNames,
    format: Format,
    to: &Destination,
) -> Result<()> {
    let processes = processes(set)?;
    for kind in TableKind::ALL {
        let path = to.file(&format!("{}.{}", kind.name(), format.extension()))?;
        if format == Format::Arrow {
            let batches = set.scan_arrow(kind, filter, kernels, BATCH_ROWS)?;
            arrow(batches, &path, &processes)?;
            continue;
        }
        let columns: Vec<Column> = kind.columns().iter().map(column).collect();
        let rows = set.rows(kind, filter, kernels)?;
        file(rows, path, &columns, &processes, format)?;
    }
    Ok(())
}

/// Rows of an Arrow batch.
const BATCH_ROWS: usize = 65_536;

/// Writes an Arrow file, which is created only if it has rows. Each batch adds its new entries to
/// the dictionaries.
fn arrow(batches: ArrowScan<'_>, path: &Path, processes: &str) -> Result<()> {
    let metadata = HashMap::from([(PROCESSES.to_owned(), processes.to_owned())]);
    let schema = batches.schema().as_ref().clone().with_metadata(metadata);
    let mut writer = None;
    for batch in batches {
        let batch = batch?;
        let writer = match &mut writer {
            Some(writer) => writer,
            none => {
                let options =
                    IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
                let out = OutputFile::create(path)?;
                none.insert(FileWriter::try_new_with_options(out, &schema, options)?)
            }
        };
        writer.write(&batch)?;
    }
    match writer {
        // Writes the positions of the batches, and returns the file.
        Some(writer) => writer.into_inner()?.finish(),
        None => Ok(()),
    }
}

/// Metadata key of the processes of the guids.
const PROCESSES: &str = "processes";

/// Returns host, process id and rank of each guid, as a JSON object.
fn processes(set: &RocpdSet) -> Result<String> {
    let mut all = serde_json::Map::new();
    for process in set.processes() {
        let who = serde_json::json!({
            "hostname": process.hostname,
            "pid": process.pid,
            "rank": process.rank,
        });
        all.insert(process.guid.clone(), who);
    }
    Ok(serde_json::to_string(&all)?)
}

fn column((name, kind): &(&'static str, ColumnKind)) -> Column {
    match kind {
        ColumnKind::Name | ColumnKind::Text => Column::text(*name),
        ColumnKind::Real => Column::real(*name),
        ColumnKind::Nanos => Column::int(*name).unit(Unit::Nanos),
        _ => Column::int(*name),
    }
}

fn cell(value: SqlValue<'_>) -> Cell<'_> {
    match value {
        SqlValue::Int(value) => Cell::Int(value),
        SqlValue::Real(value) => Cell::Real(value),
        SqlValue::Text(text) => Cell::Text(text),
        SqlValue::Null | SqlValue::Blob(_) => Cell::Null,
    }
}

/// Writes a Parquet or JSON file, which is created only if it has rows.
fn file(
    mut rows: RowScan<'_>,
    path: PathBuf,
    columns: &[Column],
    processes: &str,
    format: Format,
) -> Result<()> {
    let mut file = OutputFile::if_written(path);
    let mut sink: Box<dyn RowSink + '_> = match format {
        Format::Json => Box::new(JsonRowsWriter::new(&mut file, JsonLayout::Lines)),
        _ => {
            let writer = ParquetWriter::new(&mut file, SchemaVersion::new(1, 0));
            Box::new(writer.metadata(PROCESSES, processes))
        }
    };
    let mut begun = false;
    while let Some(written) = rows.next_with(|values| {
        if !begun {
            sink.begin(columns)?;
            begun = true;
        }
        sink.row(&values.iter().map(|value| cell(*value)).collect::<Vec<_>>())
    })? {
        written?;
    }
    if begun {
        sink.finish()?;
    }
    drop(sink);
    file.finish()
}

#[cfg(test)]
mod tests {
    use arrow_array::RecordBatch;
    use arrow_ipc::reader::FileReader;

    use super::*;

    #[test]
    fn a_dictionary_grows_from_batch_to_batch() {
        let folder = tempfile::tempdir().unwrap();
        rocpd_synth::generate(folder.path(), &rocpd_synth::Shape::small()).unwrap();
        let set = RocpdSet::open(&[folder.path()], &rocpd_db::OpenOptions::default()).unwrap();
        let filter = Filter::default();
        let scan = |rows| {
            let kernels = KernelNames::default();
            set.scan_arrow(TableKind::Regions, &filter, kernels, rows)
                .unwrap()
        };
        let path = folder.path().join("regions.arrow");
        arrow(scan(3), &path, "{}").unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let read: Vec<RecordBatch> = FileReader::try_new(file, None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(read.iter().all(|batch| batch.num_rows() <= 3));
        let shown = |batches: &[RecordBatch]| {
            let mut rows = Vec::new();
            for batch in batches {
                for row in 0..batch.num_rows() {
                    let cell = |column: &arrow_array::ArrayRef| {
                        arrow_cast::display::array_value_to_string(column, row).unwrap()
                    };
                    rows.push(batch.columns().iter().map(cell).collect::<Vec<_>>());
                }
            }
            rows
        };
        let whole: Vec<RecordBatch> = scan(1 << 20).map(Result::unwrap).collect();
        assert_eq!(whole.len(), 1);
        assert_eq!(shown(&read), shown(&whole));
        // There are more names than a batch of three rows can have.
        let names: std::collections::BTreeSet<String> = shown(&whole)
            .into_iter()
            .map(|mut row| row.remove(7))
            .collect();
        assert!(names.len() > 3, "{names:?}");
    }
}
