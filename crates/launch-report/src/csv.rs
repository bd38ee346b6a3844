//! Writes one line for each stack of each trace.

use std::io::Write;

use report::{Cell, Column, CsvOptions, CsvWriter, RowSink as _, Unit};

use crate::{Report, tables};

/// Writes the report.
pub(crate) fn write(report: &Report<'_>, out: &mut dyn Write) -> report::Result<()> {
    let ns = |name: &'static str| Column::int(name).unit(Unit::Nanos);
    let real = |name: &'static str| Column::real(name);
    let columns = [
        Column::uint("rank"),
        Column::uint("stack"),
        Column::uint("launches"),
        Column::uint("kernels"),
        ns("gpu_total_ns"),
        ns("gpu_min_ns"),
        real("gpu_p50_ns").unit(Unit::Nanos),
        real("gpu_p90_ns").unit(Unit::Nanos),
        real("gpu_p99_ns").unit(Unit::Nanos),
        ns("gpu_max_ns"),
        real("gpu_mean_ns").unit(Unit::Nanos),
        real("gpu_stddev_ns").unit(Unit::Nanos),
        real("latency_p50_ns").unit(Unit::Nanos),
        ns("exposed_ns"),
        Column::uint("bytes").unit(Unit::Bytes),
        real("algbw_bytes_per_s"),
        real("busbw_bytes_per_s"),
        real("kernel_algbw_bytes_per_s"),
        real("kernel_busbw_bytes_per_s"),
        Column::text("linked_by"),
        Column::text("frames"),
    ];
    let mut sink = CsvWriter::new(out, CsvOptions::default());
    sink.begin(&columns)?;
    for trace in report.traces {
        for (i, stack) in trace.answer.groups.iter().enumerate() {
            let m = stack.measures.as_ref();
            let int = |of: fn(&launch_stacks::Measures) -> i64| Cell::from(m.map(of));
            let number = |of: fn(&launch_stacks::Measures) -> f64| Cell::from(m.map(of));
            sink.row(&[
                Cell::from(trace.input.rank.0),
                Cell::from(i),
                Cell::from(stack.group.count()),
                Cell::from(stack.kernels()),
                int(|m| m.gpu.total_ns),
                int(|m| m.gpu.min_ns),
                number(|m| m.gpu.p50_ns),
                number(|m| m.gpu.p90_ns),
                number(|m| m.gpu.p99_ns),
                int(|m| m.gpu.max_ns),
                number(|m| m.gpu.mean_ns),
                number(|m| m.gpu.stddev_ns),
                number(|m| m.latency.p50_ns),
                Cell::from(m.and_then(|m| m.exposed_ns)),
                Cell::from(m.and_then(|m| m.bytes)),
                Cell::from(m.and_then(|m| m.bandwidth.algbw_bytes_per_s())),
                Cell::from(m.and_then(|m| m.bandwidth.busbw_bytes_per_s())),
                Cell::from(m.and_then(|m| m.kernel_bandwidth.algbw_bytes_per_s())),
                Cell::from(m.and_then(|m| m.kernel_bandwidth.busbw_bytes_per_s())),
                Cell::from(&tables::methods(stack)),
                Cell::from(&report.frames(trace, stack).join(";")),
            ])?;
        }
    }
    sink.finish()?;
    Ok(())
}
