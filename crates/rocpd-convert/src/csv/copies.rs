//! Memcpys, in both layouts.

use rocpd_db::Copy;

use super::Job;
use super::sheet::Field;
use crate::Result;

/// Columns before and after the graph columns.
const BEFORE: &str = "Guid Kind Direction Stream_Id";
const AFTER: &str =
    "Source_Agent_Id Destination_Agent_Id Correlation_Id Start_Timestamp End_Timestamp";

/// Writes the sheet of memcpys, with their places in graphs if `graphs`.
pub(super) fn write(job: &Job<'_>, graphs: bool) -> Result<()> {
    let between = if graphs {
        "Graph_Exec_Id Graph_Node_Id"
    } else {
        ""
    };
    let columns = format!("{BEFORE} {between} {AFTER}");
    let mut sheet = job.sheet("memory_copy_trace.csv", &columns)?;
    job.each(|r: Copy<'_>| {
        if !r.in_view() {
            return Ok(());
        }
        let src_agent = job.agent(r.src_agent);
        let dst_agent = job.agent(r.dst_agent);
        let mut fields = Vec::with_capacity(11);
        fields.extend([
            Field::Text(&r.process.guid),
            Field::Text("MEMORY_COPY"),
            Field::Text(r.name.unwrap_or_default()),
            Field::Maybe(r.stream_id),
        ]);
        if graphs {
            fields.extend([r.graph_exec_id, r.graph_node_id].map(Field::Maybe));
        }
        fields.extend([
            Field::Text(&src_agent),
            Field::Text(&dst_agent),
            Field::Maybe(r.event.and_then(|e| e.stack_id)),
            Field::Int(r.start_ns),
            Field::Int(r.end_ns),
        ]);
        sheet.row(&fields)
    })?;
    sheet.finish()
}
