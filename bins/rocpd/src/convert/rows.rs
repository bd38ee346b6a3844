//! Records as columns: Parquet and JSON lines, a file for each kind.

use std::sync::{Arc, Mutex, PoisonError};

use report::{
    Cell, Column, JsonLayout, JsonRowsWriter, ParquetWriter, RowSink, SchemaVersion, Unit,
};
use rocpd_db::{Allocation, Arg, Copy, Dispatch, Filter, KernelNames, Order, PmcEvent, RocpdSet};
use shell::Output;

use crate::args::{ConvertArgs, ConvertFormat};
use crate::names::OutputNames;

pub(super) fn write(
    set: &RocpdSet,
    filter: &Filter,
    args: &ConvertArgs,
    names: &OutputNames,
    format: ConvertFormat,
) -> anyhow::Result<()> {
    let kernel_names = KernelNames::from(&args.names);
    let open = |name: &str, columns: Vec<Column>| File::new(names, name, columns, format);
    let text = |name: &'static str| Column::text(name);
    let int = |name: &'static str| Column::int(name);
    let ns = |name: &'static str| Column::int(name).unit(Unit::Nanos);
    let common = |mut more: Vec<Column>| {
        let mut columns = vec![
            text("guid"),
            text("hostname"),
            int("pid"),
            int("rank"),
            int("id"),
            int("tid"),
        ];
        columns.append(&mut more);
        columns
    };

    let mut file = open(
        "kernels",
        common(vec![
            text("name"),
            text("region"),
            int("agent_abs_index"),
            int("queue_id"),
            int("stream_id"),
            int("dispatch_id"),
            ns("start_ns"),
            ns("end_ns"),
            ns("duration_ns"),
            int("grid_x"),
            int("grid_y"),
            int("grid_z"),
            int("workgroup_x"),
            int("workgroup_y"),
            int("workgroup_z"),
            int("lds_bytes"),
            int("scratch_bytes"),
            int("vgpr_count"),
            int("accum_vgpr_count"),
            int("sgpr_count"),
            int("stack_id"),
            int("parent_stack_id"),
            int("corr_id"),
        ]),
    )?;
    for record in set.scan::<Dispatch<'_>>(filter, Order::Start)? {
        let r = record?;
        let made;
        let name = match kernel_names.plain(&r) {
            Some(name) => name,
            None => {
                made = kernel_names.of(&r);
                &made
            }
        };
        let symbol = r.symbol;
        file.row(&[
            Cell::Text(&r.process.guid),
            Cell::Text(&r.process.hostname),
            Cell::Int(r.process.pid),
            r.process.rank.into(),
            Cell::Int(r.id),
            r.thread.map(|t| t.tid).into(),
            Cell::Text(name),
            r.region.into(),
            r.agent.and_then(|a| a.absolute_index).into(),
            r.queue_id.into(),
            r.stream_id.into(),
            r.dispatch_id.into(),
            Cell::Int(r.start_ns),
            Cell::Int(r.end_ns),
            Cell::Int(r.duration_ns()),
            r.grid[0].into(),
            r.grid[1].into(),
            r.grid[2].into(),
            r.workgroup[0].into(),
            r.workgroup[1].into(),
            r.workgroup[2].into(),
            r.lds_bytes.into(),
            r.scratch_bytes.into(),
            symbol.and_then(|s| s.arch_vgpr_count).into(),
            symbol.and_then(|s| s.accum_vgpr_count).into(),
            symbol.and_then(|s| s.sgpr_count).into(),
            r.event.and_then(|e| e.stack_id).into(),
            r.event.and_then(|e| e.parent_stack_id).into(),
            r.event.and_then(|e| e.correlation_id).into(),
        ])?;
    }
    file.finish()?;

    let mut file = open(
        "memory_copies",
        common(vec![
            text("name"),
            int("src_agent_abs_index"),
            int("dst_agent_abs_index"),
            int("stream_id"),
            int("size_bytes"),
            ns("start_ns"),
            ns("end_ns"),
            ns("duration_ns"),
            int("stack_id"),
            int("corr_id"),
        ]),
    )?;
    for record in set.scan::<Copy<'_>>(filter, Order::Start)? {
        let r = record?;
        file.row(&[
            Cell::Text(&r.process.guid),
            Cell::Text(&r.process.hostname),
            Cell::Int(r.process.pid),
            r.process.rank.into(),
            Cell::Int(r.id),
            r.thread.map(|t| t.tid).into(),
            r.name.into(),
            r.src_agent.and_then(|a| a.absolute_index).into(),
            r.dst_agent.and_then(|a| a.absolute_index).into(),
            r.stream_id.into(),
            Cell::Int(r.size_bytes),
            Cell::Int(r.start_ns),
            Cell::Int(r.end_ns),
            Cell::Int(r.duration_ns()),
            r.event.and_then(|e| e.stack_id).into(),
            r.event.and_then(|e| e.correlation_id).into(),
        ])?;
    }
    file.finish()?;

    let mut file = open(
        "memory_allocations",
        common(vec![
            text("type"),
            text("level"),
            int("agent_abs_index"),
            int("address"),
            int("size_bytes"),
            ns("start_ns"),
            ns("end_ns"),
            ns("duration_ns"),
            int("stack_id"),
        ]),
    )?;
    for record in set.scan::<Allocation<'_>>(filter, Order::Start)? {
        let r = record?;
        file.row(&[
            Cell::Text(&r.process.guid),
            Cell::Text(&r.process.hostname),
            Cell::Int(r.process.pid),
            r.process.rank.into(),
            Cell::Int(r.id),
            r.thread.map(|t| t.tid).into(),
            Cell::Text(r.kind.text()),
            Cell::Text(r.level.text()),
            r.agent.and_then(|a| a.absolute_index).into(),
            r.address.into(),
            Cell::Int(r.size_bytes),
            Cell::Int(r.start_ns),
            Cell::Int(r.end_ns),
            Cell::Int(r.duration_ns()),
            r.event.and_then(|e| e.stack_id).into(),
        ])?;
    }
    file.finish()?;

    // Samples come as regions without duration, as in the view of that name.
    let mut file = open(
        "regions",
        common(vec![
            text("category"),
            text("name"),
            text("message"),
            ns("start_ns"),
            ns("end_ns"),
            ns("duration_ns"),
            int("event_id"),
            int("stack_id"),
            int("parent_stack_id"),
            int("corr_id"),
        ]),
    )?;
    for partition in 0..set.partitions().len() {
        for record in set.regions_and_samples(partition, filter)? {
            let r = record?;
            file.row(&[
                Cell::Text(&r.process.guid),
                Cell::Text(&r.process.hostname),
                Cell::Int(r.process.pid),
                r.process.rank.into(),
                Cell::Int(r.id),
                r.thread.map(|t| t.tid).into(),
                r.category().into(),
                r.name.into(),
                r.message.as_deref().into(),
                Cell::Int(r.start_ns),
                Cell::Int(r.end_ns),
                Cell::Int(r.duration_ns()),
                r.event.map(|e| e.id).into(),
                r.event.and_then(|e| e.stack_id).into(),
                r.event.and_then(|e| e.parent_stack_id).into(),
                r.event.and_then(|e| e.correlation_id).into(),
            ])?;
        }
    }
    file.finish()?;

    let guid = |partition: usize| {
        set.partitions()
            .get(partition)
            .map(rocpd_db::Partition::guid)
    };
    let mut file = open(
        "pmc",
        vec![
            text("guid"),
            int("id"),
            int("event_id"),
            text("counter"),
            Column::real("value"),
        ],
    )?;
    for record in set.scan::<PmcEvent<'_>>(filter, Order::Stored)? {
        let r = record?;
        file.row(&[
            guid(r.partition).into(),
            Cell::Int(r.id),
            r.event_id.into(),
            r.pmc.map(|p| p.name.as_str()).into(),
            Cell::Real(r.value),
        ])?;
    }
    file.finish()?;

    let mut file = open(
        "args",
        vec![
            text("guid"),
            int("id"),
            int("event_id"),
            int("position"),
            text("type"),
            text("name"),
            text("value"),
        ],
    )?;
    for record in set.scan::<Arg>(filter, Order::Stored)? {
        let r = record?;
        file.row(&[
            guid(r.partition).into(),
            Cell::Int(r.id),
            Cell::Int(r.event_id),
            Cell::Int(r.position),
            Cell::Text(&r.kind),
            Cell::Text(&r.name),
            r.value.as_deref().into(),
        ])?;
    }
    file.finish()
}

/// Bytes on their way to the output, which cannot change threads.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
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

    fn row(&mut self, cells: &[Cell<'_>]) -> anyhow::Result<()> {
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
            sink.row(cells)?;
        }
        self.rows += 1;
        if self.rows.is_multiple_of(DRAIN_ROWS) {
            self.drain()?;
        }
        Ok(())
    }

    fn drain(&mut self) -> anyhow::Result<()> {
        let bytes =
            std::mem::take(&mut *self.sent.0.lock().unwrap_or_else(PoisonError::into_inner));
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
