//! Records as columns: Parquet and JSON lines, a file for each kind.

use report::{
    Cell, Column, JsonLayout, JsonRowsWriter, ParquetWriter, RowSink, SchemaVersion, Unit,
};
use rocpd_db::{ColumnKind, Filter, KernelNames, RocpdSet, SqlValue, TableKind};
use shell::Output;

use crate::args::{ConvertArgs, ConvertFormat};
use crate::names::OutputNames;
use crate::sent::Sent;

pub(super) fn write(
    set: &RocpdSet,
    filter: &Filter,
    args: &ConvertArgs,
    names: &OutputNames,
    format: ConvertFormat,
) -> anyhow::Result<()> {
    for kind in TableKind::ALL {
        let columns = kind.columns().iter().map(column).collect();
        let mut file = File::new(names, kind.name(), columns, format)?;
        let mut rows = set.rows(kind, filter, KernelNames::from(&args.names))?;
        while let Some(written) = rows.next_with(|values| file.row(values))? {
            written?;
        }
        file.finish()?;
    }
    Ok(())
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
struct File {
    path: std::path::PathBuf,
    columns: Vec<Column>,
    format: ConvertFormat,
    sent: Sent,
    open: Option<(Box<dyn RowSink>, Output)>,
    rows: u64,
}

impl File {
    fn new(
        names: &OutputNames,
        name: &str,
        columns: Vec<Column>,
        format: ConvertFormat,
    ) -> anyhow::Result<Self> {
        let extension = match format {
            ConvertFormat::Json => "jsonl",
            format => format.word(),
        };
        Ok(Self {
            path: names.with(&format!("{name}.{extension}"))?,
            columns,
            format,
            sent: Sent::default(),
            open: None,
            rows: 0,
        })
    }

    fn row(&mut self, values: &[SqlValue<'_>]) -> anyhow::Result<()> {
        if self.open.is_none() {
            let out = Output::file(&self.path)?;
            let mut sink: Box<dyn RowSink> = match self.format {
                ConvertFormat::Json => {
                    Box::new(JsonRowsWriter::new(self.sent.clone(), JsonLayout::Lines))
                }
                _ => Box::new(ParquetWriter::new(
                    self.sent.clone(),
                    SchemaVersion::new(1, 0),
                )),
            };
            sink.begin(&self.columns)?;
            self.open = Some((sink, out));
        }
        if let Some((sink, _)) = &mut self.open {
            sink.row(&values.iter().map(|value| cell(*value)).collect::<Vec<_>>())?;
        }
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
