//! Writes the requests of a trace as one table.

use std::path::PathBuf;

use blkio_parser::pipeline::{Outcome, ReadOptions};
use blkio_parser::{Request, SECTOR_BYTES, StatsOptions, Symbols, read_requests};
use report::{Cell, Column, RowSink, Unit};

use crate::error::Result;

fn columns() -> Vec<Column> {
    vec![
        Column::text("device").repeating(),
        Column::uint("issue_ns"),
        Column::uint("complete_ns"),
        Column::uint("latency_ns").unit(Unit::Nanos),
        Column::uint("queue_ns").unit(Unit::Nanos),
        Column::uint("first_issue_ns"),
        Column::uint("sector"),
        Column::uint("offset_bytes").unit(Unit::Bytes),
        Column::uint("size_bytes").unit(Unit::Bytes),
        Column::text("operation").repeating(),
        Column::text("direction").repeating(),
        Column::uint("pid"),
        Column::text("command").repeating(),
    ]
}

/// Passes a row on for each request with issue and completion, in the order of completion; latencies are those of the statistics.
///
/// # Errors
///
/// A trace that cannot be read, or read twice, and the error of the sink.
pub fn pass_requests(
    traces: &[PathBuf],
    read: &ReadOptions,
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    sink.begin(&columns())?;
    let given = read.device.unwrap_or(0);
    let mut failed = None;
    let stale_ns = StatsOptions::default().stale_ns;
    let outcome = read_requests(traces, read, stale_ns, &mut |requests, symbols| {
        for request in requests {
            if failed.is_none() {
                failed = row(request, symbols, given, sink).err();
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    sink.finish()?;
    Ok(outcome)
}

fn row(
    request: &Request,
    symbols: &Symbols,
    given: u32,
    sink: &mut dyn RowSink,
) -> report::Result<()> {
    let dev = match request.dev {
        0 => given,
        dev => dev,
    };
    let device = (dev != 0).then(|| symbols.device_name(dev));
    let letters = symbols.rwbs_of(request.rwbs);
    let command = String::from_utf8_lossy(symbols.comm_of(request.comm));
    let is_named = request.pid != 0 || request.comm != 0;
    let since = |from: u64, to: u64| Cell::UInt(to.saturating_sub(from));
    let queue = request.queued_ns;
    sink.row(&[
        Cell::from(device.as_ref()),
        Cell::UInt(request.issue_ns),
        Cell::UInt(request.complete_ns),
        since(request.issue_ns, request.complete_ns),
        queue.map_or(Cell::Null, |from| since(from, request.issue_ns)),
        request.first_issue_ns.map_or(Cell::Null, Cell::UInt),
        Cell::UInt(request.sector),
        Cell::UInt(request.sector.saturating_mul(SECTOR_BYTES)),
        Cell::UInt(request.bytes.into()),
        letters
            .as_ref()
            .map_or(Cell::Null, |letters| Cell::Text(letters.as_str())),
        Cell::Text(request.direction.name()),
        match is_named {
            true => Cell::UInt(request.pid.into()),
            false => Cell::Null,
        },
        match request.comm {
            0 => Cell::Null,
            _ => Cell::Text(&command),
        },
    ])
}
