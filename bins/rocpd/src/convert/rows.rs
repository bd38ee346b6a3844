//! Records as columns: Parquet, Arrow and JSON lines, a file for each kind.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions};
use cli::Output;
use report::{
    Cell, Column, JsonLayout, JsonRowsWriter, ParquetWriter, RowSink, SchemaVersion, Unit,
};
use rocpd_db::{ArrowScan, ColumnKind, Filter, KernelNames, RocpdSet, SqlValue, TableKind};

use crate::args::{ConvertArgs, ConvertFormat};
use crate::names::OutputNames;
use crate::shared_buffer::SharedBuffer;

pub(super) fn write(
    set: &RocpdSet,
    filter: &Filter,
    args: &ConvertArgs,
    names: &OutputNames,
    format: ConvertFormat,
) -> anyhow::Result<()> {
    let processes = processes(set)?;
    let kernels = KernelNames::from(&args.names);
    let extension = match format {
        ConvertFormat::Json => "jsonl",
        format => format.word(),
    };
    for kind in TableKind::ALL {
        let path = names.with(&format!("{}.{extension}", kind.name()))?;
        if format == ConvertFormat::Arrow {
            let batches = set.scan_arrow(kind, filter, kernels, BATCH_ROWS)?;
            arrow(batches, &path, &processes)?;
            continue;
        }
        let columns = kind.columns().iter().map(column).collect();
        let mut file = File::new(path, columns, &processes, format);
        let mut rows = set.rows(kind, filter, kernels)?;
        while let Some(written) = rows.next_with(|values| file.row(values))? {
            written?;
        }
        file.finish()?;
    }
    Ok(())
}

/// Rows of a batch of Arrow.
const BATCH_ROWS: usize = 65_536;

/// Writes an Arrow file, which is there only if it has rows. Of dictionaries each batch adds what is new.
fn arrow(batches: ArrowScan<'_>, path: &Path, processes: &str) -> anyhow::Result<()> {
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
                let out = Output::file(path)?;
                none.insert(FileWriter::try_new_with_options(out, &schema, options)?)
            }
        };
        writer.write(&batch)?;
    }
    match writer {
        // Says where the batches are, and gives the file back.
        Some(writer) => writer.into_inner()?.finish(),
        None => Ok(()),
    }
}

/// Under which key the metadata of a file say whose the guids are.
const PROCESSES: &str = "processes";

/// Host, process id and rank of each guid, as a JSON object.
fn processes(set: &RocpdSet) -> anyhow::Result<String> {
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

/// Rows between looks at the bytes gathered.
const DRAIN_ROWS: u64 = 4096;

/// A Parquet or JSON file, which is there only if it has rows.
struct File<'p> {
    path: PathBuf,
    columns: Vec<Column>,
    processes: &'p str,
    format: ConvertFormat,
    sent: SharedBuffer,
    open: Option<(Box<dyn RowSink>, Output)>,
    rows: u64,
}

impl<'p> File<'p> {
    fn new(path: PathBuf, columns: Vec<Column>, processes: &'p str, format: ConvertFormat) -> Self {
        Self {
            path,
            columns,
            processes,
            format,
            sent: SharedBuffer::default(),
            open: None,
            rows: 0,
        }
    }

    fn row(&mut self, values: &[SqlValue<'_>]) -> anyhow::Result<()> {
        let (sink, _) = match &mut self.open {
            Some(open) => open,
            none => {
                let mut sink: Box<dyn RowSink> = match self.format {
                    ConvertFormat::Json => {
                        Box::new(JsonRowsWriter::new(self.sent.clone(), JsonLayout::Lines))
                    }
                    _ => {
                        let version = SchemaVersion::new(1, 0);
                        let writer = ParquetWriter::new(self.sent.clone(), version);
                        Box::new(writer.metadata(PROCESSES, self.processes))
                    }
                };
                sink.begin(&self.columns)?;
                none.insert((sink, Output::file(&self.path)?))
            }
        };
        sink.row(&values.iter().map(|value| cell(*value)).collect::<Vec<_>>())?;
        self.rows += 1;
        if self.rows.is_multiple_of(DRAIN_ROWS) {
            self.drain()?;
        }
        Ok(())
    }

    fn drain(&mut self) -> anyhow::Result<()> {
        let bytes = self.sent.take();
        if let Some((_, out)) = &mut self.open {
            std::io::Write::write_all(out, &bytes)?;
        }
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<()> {
        if let Some((sink, _)) = &mut self.open {
            sink.finish()?;
        }
        self.drain()?;
        match self.open {
            Some((_, out)) => out.finish(),
            None => Ok(()),
        }
    }
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
        // There are more names than one batch of three rows can have.
        let names: std::collections::BTreeSet<String> = shown(&whole)
            .into_iter()
            .map(|mut row| row.remove(7))
            .collect();
        assert!(names.len() > 3, "{names:?}");
    }
}
