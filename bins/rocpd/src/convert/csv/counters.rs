//! Sheets that come from SQL over the views: counters, and what newer generations have.

use rocpd_db::{KernelNames, SqlRow, SqlValue};

use super::sheet::Field;
use super::{Job, plain};
use crate::args::AgentIndex;

/// Columns after the first.
const COUNTERS: &str = "Correlation_Id Dispatch_Id Agent_Id Queue_Id Process_Id Thread_Id Grid_Size Kernel_Id Kernel_Name \
    Workgroup_Size LDS_Block_Size Scratch_Size VGPR_Count Accum_VGPR_Count SGPR_Count Counter_Name Counter_Value \
    Start_Timestamp End_Timestamp";

/// Counters of dispatches, a row for each; `first` is what the layout calls the guid.
pub(super) fn write(job: &Job<'_>, file: &str, first: &str) -> anyhow::Result<()> {
    if rows(job, "rocpd_pmc_event")? == 0 {
        return Ok(());
    }
    let mut columns = format!("{first} {COUNTERS}");
    let replays = first == "Guid" && job.has_column("rocpd_kernel_dispatch", "replay_pass");
    if replays {
        columns += " Replay_Pass";
    }
    let mut sheet = job.sheet(file, &columns)?;
    let session = job
        .set
        .sql(job.filter.window, KernelNames::from(&job.args.names))?;
    let replay = match replays {
        true => {
            "(SELECT K.replay_pass FROM rocpd_kernel_dispatch K WHERE K.event_id = C.event_id AND K.guid = C.guid)"
        }
        false => "NULL",
    };
    let mut statement = session.prepare(&format!(
        "SELECT guid, stack_id, dispatch_id, agent_abs_index, agent_log_index, agent_type_index, agent_type, queue_id, pid, tid, \
         grid_size, kernel_id, kernel_name, workgroup_size, lds_block_size, scratch_size, vgpr_count, accum_vgpr_count, sgpr_count, \
         counter_name, value, start, \"end\", {replay} FROM counters_collection C ORDER BY guid, start, \"end\" DESC, id"
    ))?;
    let mut rows = statement.query(&[])?;
    while let Some(row) = rows.next()? {
        let agent = agent(job.args.agent_index_value, row, 3);
        let value = match row.get(20) {
            SqlValue::Real(value) => plain(value),
            SqlValue::Int(value) => value.to_string(),
            _ => String::new(),
        };
        let mut fields = Vec::with_capacity(24);
        fields.extend((0..3).map(|at| field(row.get(at))));
        // The classic layout has the guid without quotes.
        if first == "Pid"
            && let Some(Field::Text(guid)) = fields.first().copied()
        {
            fields[0] = Field::Bare(guid);
        }
        fields.push(Field::Text(&agent));
        fields.extend((7..20).map(|at| field(row.get(at))));
        fields.push(Field::Bare(&value));
        fields.extend((21..23).map(|at| field(row.get(at))));
        if replays {
            fields.push(field(row.get(23)));
        }
        sheet.row(&fields)?;
    }
    sheet.finish()
}

/// Rows of a table over all databases.
fn rows(job: &Job<'_>, table: &str) -> anyhow::Result<u64> {
    let mut rows = 0;
    for partition in job.set.partitions() {
        rows += partition.rows(table)?;
    }
    Ok(rows)
}

/// The agent of a row that has its absolute, logical and type index and its type in a row of columns.
fn agent(index: AgentIndex, row: SqlRow<'_>, at: usize) -> String {
    let number = |at| match row.get(at) {
        SqlValue::Int(value) => value,
        _ => 0,
    };
    match (index, row.get(at + 3)) {
        (AgentIndex::Absolute, _) => format!("Agent {}", number(at)),
        (AgentIndex::Relative, _) => format!("Agent {}", number(at + 1)),
        (AgentIndex::TypeRelative, SqlValue::Text(kind)) => format!("{kind} {}", number(at + 2)),
        (AgentIndex::TypeRelative, _) => format!("UNK {}", number(at + 2)),
    }
}

fn field(value: SqlValue<'_>) -> Field<'_> {
    match value {
        SqlValue::Int(value) => Field::Int(value),
        SqlValue::Text(text) => Field::Text(text),
        _ => Field::Maybe(None),
    }
}

/// A sheet of a view that only newer generations have rows in. The agent is the fourth of its columns, or none of them.
fn view(
    job: &Job<'_>,
    (table, file): (&str, &str),
    columns: &str,
    select: &str,
) -> anyhow::Result<()> {
    if rows(job, table)? == 0 {
        return Ok(());
    }
    let mut sheet = job.sheet(file, columns)?;
    let session = job.set.sql(job.filter.window, KernelNames::default())?;
    let mut statement = session.prepare(select)?;
    let mut rows = statement.query(&[])?;
    let with_agent = columns.split_whitespace().any(|name| name == "Agent_Id");
    while let Some(row) = rows.next()? {
        let agent = agent(job.args.agent_index_value, row, 0);
        let mut fields = Vec::with_capacity(row.len());
        for at in 4..row.len() {
            if with_agent && at == 8 {
                fields.push(Field::Text(&agent));
            }
            fields.push(field(row.get(at)));
        }
        sheet.row(&fields)?;
    }
    sheet.finish()
}

/// Launches of graphs, since schema 3.0.2.
pub(super) fn graph_launches(job: &Job<'_>) -> anyhow::Result<()> {
    view(
        job,
        ("rocpd_graph_launch", "graph_launch_trace.csv"),
        "Guid Category Process_Id Thread_Id Agent_Id Queue_Id Start_Timestamp End_Timestamp Duration Graph_Exec_Id \
         Kernel_Dispatch_Count Correlation_Id",
        "SELECT agent_abs_index, agent_log_index, agent_type_index, agent_type, guid, category, pid, tid, queue_id, start, \
         \"end\", duration, graph_exec_id, kernel_dispatch_count, stack_id FROM graph_launches \
         ORDER BY guid, start, \"end\" DESC, id",
    )
}

/// Records and waits of events, since schema 3.0.4.
pub(super) fn hip_events(job: &Job<'_>) -> anyhow::Result<()> {
    view(
        job,
        ("rocpd_hip_event", "hip_event_trace.csv"),
        "Guid Operation Process_Id Thread_Id Agent_Id Queue_Id Source_Queue_Id Stream_Id Start_Timestamp End_Timestamp Duration \
         Correlation_Id",
        "SELECT agent_abs_index, agent_log_index, agent_type_index, agent_type, guid, name, pid, tid, queue_id, \
         source_queue_id, stream_id, start, \"end\", duration, stack_id FROM hip_events ORDER BY guid, start, \"end\" DESC, id",
    )
}

/// Counters sampled while kernels run, since schema 3.0.3.
pub(super) fn spm(job: &Job<'_>) -> anyhow::Result<()> {
    if !job.has_column("rocpd_pmc_event", "sample_id") {
        return Ok(());
    }
    view(
        job,
        ("rocpd_pmc_event", "spm_counter_collection_trace.csv"),
        "Guid Sample_Id Timestamp Counter_Id Counter_Name Counter_Value Xcc Shader_Engine Shader_Array Wgp Instance",
        "SELECT NULL, NULL, NULL, NULL, guid, sample_id, timestamp, pmc_id, counter_name, \
         CASE WHEN counter_value = CAST(counter_value AS INTEGER) THEN CAST(counter_value AS INTEGER) \
         ELSE CAST(counter_value AS TEXT) END, xcc, shader_engine, shader_array, wgp, instance \
         FROM spm_counters ORDER BY guid, timestamp, id",
    )
}
