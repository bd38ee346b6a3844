//! Copies, in both layouts.

use rocpd_db::Copy;

use super::Job;
use super::sheet::Field;

/// Columns that only the unified layout has come last.
const MORE: usize = 2;

/// Writes the sheet of copies, with durations and sizes if there is `more`.
pub(super) fn write(job: &Job<'_>, columns: &str, more: bool) -> anyhow::Result<()> {
    let mut sheet = job.sheet("memory_copy_trace.csv", columns)?;
    job.each(|r: Copy<'_>| {
        if !r.in_view() {
            return Ok(());
        }
        let fields = [
            Field::Text(&r.process.guid),
            Field::Text("MEMORY_COPY"),
            Field::Text(r.name.unwrap_or_default()),
            Field::Maybe(r.stream_id),
            Field::Text(&job.agent(r.src_agent)),
            Field::Text(&job.agent(r.dst_agent)),
            Field::Maybe(r.event.and_then(|e| e.stack_id)),
            Field::Int(r.start_ns),
            Field::Int(r.end_ns),
            Field::Int(r.duration_ns()),
            Field::Int(r.size_bytes),
        ];
        let few = fields.get(..fields.len() - MORE).unwrap_or_default();
        sheet.row(if more { &fields } else { few })
    })?;
    sheet.finish()
}
