//! Records as columns: Parquet, Arrow and JSON lines, a file for each kind.

use report::{
    Cell, Column, JsonLayout, JsonRowsWriter, ParquetWriter, RowSink, SchemaVersion, Unit,
};
use rocpd_db::{ColumnKind, Filter, KernelNames, RocpdSet, SqlValue, TableKind};
use shell::Output;

use crate::args::{ConvertArgs, ConvertFormat};
use crate::names::OutputNames;
use crate::sent::Sent;
use crate::tables::{self, RowTaker};

pub(super) fn write(
    set: &RocpdSet,
    filter: &Filter,
    args: &ConvertArgs,
    names: &OutputNames,
    format: ConvertFormat,
) -> anyhow::Result<()> {
    let processes = processes(set)?;
    for kind in TableKind::ALL {
        let columns = kind.columns().iter().map(column).collect();
        let mut file = File::new(names, kind.name(), columns, &processes, format)?;
        let mut rows = set.rows(kind, filter, KernelNames::from(&args.names))?;
        while let Some(written) = rows.next_with(|values| file.row(values))? {
            written?;
        }
        file.finish()?;
    }
    Ok(())
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
        ColumnKind::Text => Column::text(*name),
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

/// A file, which is there only if it has rows.
struct File<'p> {
    path: std::path::PathBuf,
    columns: Vec<Column>,
    processes: &'p str,
    format: ConvertFormat,
    sent: Sent,
    open: Option<Open>,
    rows: u64,
}

/// What rows go to.
enum Open {
    Sink(Box<dyn RowSink>, Output),
    Taker(Box<dyn RowTaker>),
}

impl<'p> File<'p> {
    fn new(
        names: &OutputNames,
        name: &str,
        columns: Vec<Column>,
        processes: &'p str,
        format: ConvertFormat,
    ) -> anyhow::Result<Self> {
        let extension = match format {
            ConvertFormat::Json => "jsonl",
            format => format.word(),
        };
        Ok(Self {
            path: names.with(&format!("{name}.{extension}"))?,
            columns,
            processes,
            format,
            sent: Sent::default(),
            open: None,
            rows: 0,
        })
    }

    fn row(&mut self, values: &[SqlValue<'_>]) -> anyhow::Result<()> {
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                let first = match self.format {
                    ConvertFormat::Arrow => {
                        let metadata = [(PROCESSES, self.processes)];
                        Open::Taker(tables::arrow(&self.columns, &metadata, &self.path)?)
                    }
                    format => {
                        let mut sink: Box<dyn RowSink> = match format {
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
                        Open::Sink(sink, Output::file(&self.path)?)
                    }
                };
                none.insert(first)
            }
        };
        match open {
            Open::Sink(sink, _) => {
                sink.row(&values.iter().map(|value| cell(*value)).collect::<Vec<_>>())?;
            }
            Open::Taker(taker) => {
                taker.row(&|at| values.get(at).copied().unwrap_or(SqlValue::Null))?;
            }
        }
        self.rows += 1;
        if self.rows.is_multiple_of(DRAIN_ROWS) {
            self.drain()?;
        }
        Ok(())
    }

    fn drain(&mut self) -> anyhow::Result<()> {
        let bytes = self.sent.take();
        if let Some(Open::Sink(_, out)) = &mut self.open {
            std::io::Write::write_all(out, &bytes)?;
        }
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<()> {
        if let Some(Open::Sink(sink, _)) = &mut self.open {
            sink.finish()?;
        }
        self.drain()?;
        match self.open {
            Some(Open::Sink(_, out)) => out.finish(),
            Some(Open::Taker(taker)) => taker.finish(),
            None => Ok(()),
        }
    }
}
