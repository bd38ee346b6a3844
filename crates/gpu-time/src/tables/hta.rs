//! Tables of HolisticTraceAnalysis.

use report::{Cell, Column, Result, Table};

use super::{nanos, rows_of};
use crate::compat::hta::{Combination, StreamIdle};

/// Returns the idle time by the rules of HTA.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn hta_idle<'r>(
    results: impl IntoIterator<Item = (&'r str, &'r [StreamIdle])>,
) -> Result<Table> {
    let columns = [
        Column::int("stream"),
        nanos("host_wait_ns", "host wait"),
        nanos("kernel_wait_ns", "kernel wait"),
        nanos("other_ns", "other"),
    ];
    rows_of("hta_idle", columns, results, |row| {
        [
            row.stream.into(),
            row.host_wait_ns.into(),
            row.kernel_wait_ns.into(),
            row.other_ns.into(),
        ]
    })
}

/// Returns the combinations of kernel types by the rules of HTA.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn hta_types<'r>(
    results: impl IntoIterator<Item = (&'r str, &'r [Combination])>,
) -> Result<Table> {
    let columns = [
        Column::text("types"),
        nanos("exact_ns", "exact"),
        nanos("cut_ns", "as HTA adds it up"),
    ];
    rows_of("hta_types", columns, results, |row| {
        [
            Cell::from(&row.types),
            row.exact_ns.into(),
            row.cut_ns.into(),
        ]
    })
}
