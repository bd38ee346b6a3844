//! Sheets from SQL over the views: counters, and the tables of newer generations.

use rocpd_db::{KernelNames, SqlRow, SqlValue};

use super::kernels::{NEEDS, UNIFIED_NEEDS};
use super::sheet::Field;
use super::{Job, plain};
use crate::{AgentIndex, Result};

/// Columns between the number of the dispatch and the resources of the kernel.
const WHERE: &str =
    "Agent_Id Queue_Id Process_Id Thread_Id Grid_Size Kernel_Id Kernel_Name Workgroup_Size";

/// Writes the counters of dispatches, a row for each.
pub(super) fn write(job: &Job<'_>, file: &str, unified: bool) -> Result<()> {
    if rows(job, "rocpd_pmc_event")? == 0 {
        return Ok(());
    }
    let session = job.set.sql(job.filter.window, job.options.kernels)?;
    // Passes are recorded only if dispatches were replayed.
    let replays = unified
        && job.has_column("rocpd_kernel_dispatch", "replay_pass")
        && session
            .prepare("SELECT 1 FROM rocpd_kernel_dispatch WHERE replay_pass IS NOT NULL LIMIT 1")?
            .query(&[])?
            .next()?
            .is_some();
    let (first, pass, needs) = match (unified, replays) {
        (false, _) => ("Pid", "", NEEDS),
        (true, false) => ("Guid", "", UNIFIED_NEEDS),
        (true, true) => ("Guid", "Replay_Pass", UNIFIED_NEEDS),
    };
    let columns = format!(
        "{first} Correlation_Id Dispatch_Id {pass} {WHERE} {needs} Counter_Name Counter_Value Start_Timestamp End_Timestamp"
    );
    let mut sheet = job.sheet(file, &columns)?;
    let replay = if replays { "replay_pass" } else { "NULL" };
    let mut statement = session.prepare(&format!(
        "SELECT guid, stack_id, dispatch_id, agent_abs_index, agent_log_index, agent_type_index, agent_type, queue_id, pid, tid, \
         grid_size, kernel_id, kernel_name, workgroup_size, lds_block_size, scratch_size, vgpr_count, accum_vgpr_count, sgpr_count, \
         counter_name, value, start, \"end\", {replay} FROM counters_collection ORDER BY guid, start, \"end\" DESC, id"
    ))?;
    let mut rows = statement.query(&[])?;
    while let Some(row) = rows.next()? {
        let agent = agent(job.options.agents, row, 3);
        let value = match row.get(20) {
            SqlValue::Real(value) => plain(value),
            SqlValue::Int(value) => value.to_string(),
            _ => String::new(),
        };
        let mut fields = Vec::with_capacity(24);
        fields.extend((0..3).map(|at| field(row.get(at))));
        // The classic layout has the guid without quotes.
        if !unified && let Some(Field::Text(guid)) = fields.first().copied() {
            fields[0] = Field::Bare(guid);
        }
        if replays {
            fields.push(field(row.get(23)));
        }
        fields.push(Field::Text(&agent));
        fields.extend((7..20).map(|at| field(row.get(at))));
        fields.push(Field::Bare(&value));
        fields.extend((21..23).map(|at| field(row.get(at))));
        sheet.row(&fields)?;
    }
    sheet.finish()
}

/// Returns the number of rows of a table over all databases.
fn rows(job: &Job<'_>, table: &str) -> Result<u64> {
    let mut rows = 0;
    for partition in job.set.partitions() {
        rows += partition.rows(table)?;
    }
    Ok(rows)
}

/// Returns the agent of a row that has its absolute, logical and type index and its type in
/// consecutive columns; empty if unknown.
fn agent(index: AgentIndex, row: SqlRow<'_>, at: usize) -> String {
    let (number, label) = match index {
        AgentIndex::Absolute => (row.get(at), SqlValue::Text("Agent")),
        AgentIndex::Relative => (row.get(at + 1), SqlValue::Text("Agent")),
        AgentIndex::TypeRelative => (row.get(at + 2), row.get(at + 3)),
    };
    match (label, number) {
        (SqlValue::Text(label), SqlValue::Int(number)) => format!("{label} {number}"),
        _ => String::new(),
    }
}

fn field(value: SqlValue<'_>) -> Field<'_> {
    match value {
        SqlValue::Int(value) => Field::Int(value),
        SqlValue::Text(text) => Field::Text(text),
        _ => Field::Maybe(None),
    }
}

/// Writes the sheet of a view that has rows only in newer generations. The select lists the columns
/// that name the agent first.
fn view(job: &Job<'_>, (table, file): (&str, &str), columns: &str, select: &str) -> Result<()> {
    if rows(job, table)? == 0 {
        return Ok(());
    }
    let mut sheet = job.sheet(file, columns)?;
    let session = job.set.sql(job.filter.window, KernelNames::default())?;
    let mut statement = session.prepare(select)?;
    let mut rows = statement.query(&[])?;
    let agent_at = columns
        .split_whitespace()
        .position(|name| name == "Agent_Id");
    while let Some(row) = rows.next()? {
        let agent = agent(job.options.agents, row, 0);
        let reals: Vec<String> = (4..row.len())
            .map(|at| match row.get(at) {
                SqlValue::Real(value) => plain(value),
                _ => String::new(),
            })
            .collect();
        let mut fields = Vec::with_capacity(row.len());
        for (at, real) in (4..).zip(&reals) {
            if agent_at == Some(fields.len()) {
                fields.push(Field::Text(&agent));
            }
            fields.push(match row.get(at) {
                SqlValue::Real(_) => Field::Bare(real),
                value => field(value),
            });
        }
        sheet.row(&fields)?;
    }
    sheet.finish()
}

/// Writes the launches of graphs, since schema 3.0.2.
pub(super) fn graph_launches(job: &Job<'_>) -> Result<()> {
    view(
        job,
        ("rocpd_graph_launch", "graph_launch_trace.csv"),
        "Guid Kind Agent_Id Queue_Id Thread_Id Correlation_Id Start_Timestamp End_Timestamp Duration Graph_Exec_Id \
         Kernel_Dispatch_Count",
        "SELECT agent_abs_index, agent_log_index, agent_type_index, agent_type, guid, 'Graph Launch', queue_id, tid, stack_id, \
         start, \"end\", duration, graph_exec_id, kernel_dispatch_count FROM graph_launches \
         ORDER BY guid, start, \"end\" DESC, id",
    )
}

/// Writes the records and waits of events, since schema 3.0.4.
pub(super) fn hip_events(job: &Job<'_>) -> Result<()> {
    view(
        job,
        ("rocpd_hip_event", "hip_event_trace.csv"),
        "Guid Kind Operation Agent_Id Queue_Id Stream_Id Thread_Id Event_Handle Source_Queue_Id Correlation_Id Start_Timestamp \
         End_Timestamp Duration",
        "SELECT agent_abs_index, agent_log_index, agent_type_index, agent_type, guid, 'HIP_EVENT', name, queue_id, stream_id, tid, \
         hip_event_handle, source_queue_id, stack_id, start, \"end\", duration FROM hip_events ORDER BY guid, start, \"end\" DESC, id",
    )
}

/// Writes the counters sampled while kernels run, since schema 3.0.3.
pub(super) fn spm(job: &Job<'_>) -> Result<()> {
    if !job.has_column("rocpd_pmc_event", "sample_id") {
        return Ok(());
    }
    view(
        job,
        ("rocpd_pmc_event", "spm_counter_collection_trace.csv"),
        &format!(
            "Guid Correlation_Id Dispatch_Id {WHERE} {UNIFIED_NEEDS} Counter_Name Counter_Value Timestamp"
        ),
        "SELECT agent_abs_index, agent_log_index, agent_type_index, agent_type, guid, stack_id, dispatch_id, queue_id, pid, tid, \
         grid_size, kernel_id, kernel_name, workgroup_size, lds_block_size, scratch_size, vgpr_count, accum_vgpr_count, sgpr_count, \
         counter_name || CASE WHEN COALESCE(xcc, shader_engine, shader_array, wgp, instance) IS NULL THEN '' ELSE '[' || \
         SUBSTR(COALESCE(', XCC: ' || xcc, '') || COALESCE(', SE: ' || shader_engine, '') || COALESCE(', SA: ' || shader_array, '') || \
         COALESCE(', WGP: ' || wgp, '') || COALESCE(', Instance: ' || instance, ''), 3) || ']' END, \
         value, timestamp \
         FROM spm_counters ORDER BY guid, timestamp, id",
    )
}
