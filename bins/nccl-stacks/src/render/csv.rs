//! One line for each stack of each trace.

use std::io::Write;

use report::{Cell, Column, CsvOptions, CsvWriter, RowSink as _, Unit};

use crate::render::{Report, tables};

/// Writes the report.
pub(crate) fn write(report: &Report<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let ns = |name: &'static str| Column::int(name).unit(Unit::Nanos);
    let columns = [
        Column::uint("rank"),
        Column::uint("stack"),
        Column::uint("launches"),
        Column::uint("kernels"),
        ns("gpu_total_ns"),
        ns("gpu_min_ns"),
        ns("gpu_p50_ns"),
        ns("gpu_p90_ns"),
        ns("gpu_p99_ns"),
        ns("gpu_max_ns"),
        Column::real("gpu_mean_ns").unit(Unit::Nanos),
        Column::real("gpu_stddev_ns").unit(Unit::Nanos),
        ns("latency_p50_ns"),
        ns("exposed_ns"),
        Column::uint("bytes").unit(Unit::Bytes),
        Column::real("algbw_gb_per_s"),
        Column::real("busbw_gb_per_s"),
        Column::text("linked_by"),
        Column::text("frames"),
    ];
    let mut sink = CsvWriter::new(out, CsvOptions::default());
    sink.begin(&columns)?;
    for trace in report.traces {
        for (i, stack) in trace.answer.groups.iter().enumerate() {
            let m = stack.measures.as_ref();
            let int = |of: fn(&launch_stacks::Measures) -> i64| Cell::from(m.map(of));
            sink.row(&[
                Cell::from(trace.input.rank.0),
                Cell::from(i),
                Cell::from(stack.group.count()),
                Cell::from(stack.kernels()),
                int(|m| m.gpu.total_ns),
                int(|m| m.gpu.min_ns),
                int(|m| m.gpu.p50_ns),
                int(|m| m.gpu.p90_ns),
                int(|m| m.gpu.p99_ns),
                int(|m| m.gpu.max_ns),
                Cell::from(m.map(|m| m.gpu.mean_ns)),
                Cell::from(m.map(|m| m.gpu.stddev_ns)),
                int(|m| m.latency.p50_ns),
                Cell::from(m.and_then(|m| m.exposed_ns)),
                Cell::from(m.and_then(|m| m.bytes)),
                Cell::from(m.and_then(|m| m.algbw_gb_per_s)),
                Cell::from(m.and_then(|m| m.busbw_gb_per_s)),
                Cell::from(&tables::methods(stack)),
                Cell::from(&report.frames(trace, stack).join(";")),
            ])?;
        }
    }
    sink.finish()?;
    Ok(())
}
