//! Rows of calls: API calls, ranges and marks.

use rocpd_db::Region;

use super::sheet::{Field, Sheet};
use crate::Result;

pub(super) const COLUMNS: &str =
    "Guid Domain Function Process_Id Thread_Id Correlation_Id Start_Timestamp End_Timestamp";

/// Adds a call; layouts differ in the name of its function.
pub(super) fn row(sheet: &mut Sheet, r: &Region<'_>, name: Option<&str>) -> Result<()> {
    sheet.row(&[
        Field::Text(&r.process.guid),
        Field::Text(r.category().unwrap_or_default()),
        Field::Text(name.unwrap_or_default()),
        Field::Int(r.process.pid),
        Field::Maybe(r.thread.map(|t| t.tid)),
        Field::Maybe(r.event.and_then(|e| e.stack_id)),
        Field::Int(r.start_ns),
        Field::Int(r.end_ns),
    ])
}
