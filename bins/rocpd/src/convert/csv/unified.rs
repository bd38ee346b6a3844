//! The newer layout: all calls in one file, quotes where needed.

use rocpd_db::{AllocLevel, AllocType, Allocation, Copy, Dispatch, KernelNames, Order, SqlValue};

use super::classic::{each_counter, field};
use super::sheet::{Field, Quotes, Sheet};
use super::{Job, agents};

const KERNELS: &str = "Guid Kind Agent_Id Queue_Id Stream_Id Thread_Id Dispatch_Id Kernel_Id Kernel_Name Correlation_Id \
    Start_Timestamp End_Timestamp Duration LDS_Block_Size Scratch_Size VGPR_Count Accum_VGPR_Count SGPR_Count Workgroup_Size_X \
    Workgroup_Size_Y Workgroup_Size_Z Grid_Size_X Grid_Size_Y Grid_Size_Z";
const COPIES: &str = "Guid Kind Direction Stream_Id Source_Agent_Id Destination_Agent_Id Correlation_Id Start_Timestamp \
    End_Timestamp Duration Size";
const ALLOCATIONS: &str = "Guid Kind Operation Agent_Id Allocation_Size Address Correlation_Id Start_Timestamp End_Timestamp Duration";
const SCRATCH: &str = "Guid Kind Operation Agent_Id Queue_Id Thread_Id Alloc_Flags Start_Timestamp End_Timestamp Duration";
const REGIONS: &str = "Guid Domain Function Process_Id Thread_Id Correlation_Id Start_Timestamp End_Timestamp Duration";
const COUNTERS: &str = "Guid Correlation_Id Dispatch_Id Agent_Id Queue_Id Process_Id Thread_Id Grid_Size Kernel_Id Kernel_Name \
    Workgroup_Size LDS_Block_Size Scratch_Size VGPR_Count Accum_VGPR_Count SGPR_Count Counter_Name Counter_Value \
    Start_Timestamp End_Timestamp";

pub(super) fn write(job: &Job<'_>) -> anyhow::Result<()> {
    agents::write(job, Quotes::Needed)?;
    let order = by_guid(job);
    kernels(job, &order)?;
    copies(job, &order)?;
    allocations(job, &order)?;
    regions(job, &order)?;
    counters(job)?;
    graph_launches(job)
}

/// Partitions by guid.
fn by_guid(job: &Job<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..job.partitions()).collect();
    order.sort_by_key(|&at| job.set.partitions().get(at).map(|p| p.guid().to_owned()));
    order
}

fn sheet(job: &Job<'_>, name: &str, columns: &str) -> anyhow::Result<Sheet> {
    Ok(Sheet::new(job.names.with(name)?, columns, Quotes::Needed))
}

fn kernels(job: &Job<'_>, order: &[usize]) -> anyhow::Result<()> {
    let has = |column: &str| {
        job.set.partitions().iter().any(|partition| {
            partition
                .columns("rocpd_kernel_dispatch")
                .is_some_and(|columns| columns.contains(&column))
        })
    };
    let graphs = has("graph_exec_id");
    let replays = has("replay_pass");
    let mut columns = KERNELS.to_owned();
    if graphs {
        columns += " Graph_Exec_Id Graph_Node_Id";
    }
    if replays {
        columns += " Replay_Pass";
    }
    let mut sheet = sheet(job, "kernel_trace.csv", &columns)?;
    let names = KernelNames::from(&job.args.names);
    for &partition in order {
        for record in job
            .set
            .scan_partition::<Dispatch<'_>>(partition, job.filter, Order::Start)?
        {
            let r = record?;
            if !r.in_view() {
                continue;
            }
            let agent = job.agent(r.agent);
            let name = names.of(&r);
            let symbol = r.symbol;
            let mut fields = vec![
                Field::Text(&r.process.guid),
                Field::Text("KERNEL_DISPATCH"),
                Field::Text(&agent),
                Field::Maybe(r.queue_id),
                Field::Maybe(r.stream_id),
                Field::Maybe(r.thread.map(|t| t.tid)),
                Field::Maybe(r.dispatch_id),
                Field::Maybe(r.kernel_id),
                Field::Text(&name),
                Field::Maybe(r.event.and_then(|e| e.stack_id)),
                Field::Int(r.start_ns),
                Field::Int(r.end_ns),
                Field::Int(r.duration_ns()),
                Field::Maybe(r.lds_bytes),
                Field::Maybe(r.scratch_bytes),
                Field::Maybe(symbol.and_then(|s| s.arch_vgpr_count)),
                Field::Maybe(symbol.and_then(|s| s.accum_vgpr_count)),
                Field::Maybe(symbol.and_then(|s| s.sgpr_count)),
            ];
            fields.extend(r.workgroup.map(Field::Maybe));
            fields.extend(r.grid.map(Field::Maybe));
            if graphs {
                fields.extend([Field::Maybe(r.graph_exec_id), Field::Maybe(r.graph_node_id)]);
            }
            if replays {
                fields.push(Field::Maybe(r.replay_pass));
            }
            sheet.row(&fields)?;
        }
    }
    sheet.finish()
}

fn copies(job: &Job<'_>, order: &[usize]) -> anyhow::Result<()> {
    let mut sheet = sheet(job, "memory_copy_trace.csv", COPIES)?;
    for &partition in order {
        for record in job
            .set
            .scan_partition::<Copy<'_>>(partition, job.filter, Order::Start)?
        {
            let r = record?;
            if !r.in_view() {
                continue;
            }
            sheet.row(&[
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
            ])?;
        }
    }
    sheet.finish()
}

fn allocations(job: &Job<'_>, order: &[usize]) -> anyhow::Result<()> {
    let mut all = sheet(job, "memory_allocation_trace.csv", ALLOCATIONS)?;
    let mut scratch = sheet(job, "scratch_memory_trace.csv", SCRATCH)?;
    for &partition in order {
        for record in
            job.set
                .scan_partition::<Allocation<'_>>(partition, job.filter, Order::Start)?
        {
            let r = record?;
            if !r.in_view() {
                continue;
            }
            let prefix = match r.level {
                AllocLevel::Virtual => "MEMORY_ALLOCATION_VMEM",
                AllocLevel::Scratch => "SCRATCH_MEMORY",
                _ => "MEMORY_ALLOCATION",
            };
            let operation = match (r.kind, r.level) {
                (AllocType::Alloc, level) if level != AllocLevel::Scratch => "ALLOCATE",
                (kind, _) => kind.text(),
            };
            let operation = format!("{prefix}_{operation}");
            let agent = job.agent(r.agent);
            all.row(&[
                Field::Text(&r.process.guid),
                Field::Text("MEMORY_ALLOCATION"),
                Field::Text(&operation),
                Field::Text(&agent),
                Field::Int(r.size_bytes),
                Field::Text(&format!("0x{:016X}", r.address.unwrap_or(0))),
                Field::Maybe(r.event.and_then(|e| e.stack_id)),
                Field::Int(r.start_ns),
                Field::Int(r.end_ns),
                Field::Int(r.duration_ns()),
            ])?;
            if r.level == AllocLevel::Scratch {
                scratch.row(&[
                    Field::Text(&r.process.guid),
                    Field::Text("SCRATCH_MEMORY"),
                    Field::Text(&operation),
                    Field::Text(&agent),
                    Field::Maybe(r.queue_id),
                    Field::Maybe(r.thread.map(|t| t.tid)),
                    Field::Text(r.flags.as_deref().unwrap_or_default()),
                    Field::Int(r.start_ns),
                    Field::Int(r.end_ns),
                    Field::Int(r.duration_ns()),
                ])?;
            }
        }
    }
    all.finish()?;
    scratch.finish()
}

fn regions(job: &Job<'_>, order: &[usize]) -> anyhow::Result<()> {
    let mut sheet = sheet(job, "regions_trace.csv", REGIONS)?;
    for &partition in order {
        for record in job.set.regions_and_samples(partition, job.filter)? {
            let r = record?;
            if r.event.is_none() || r.thread.is_none() {
                continue;
            }
            sheet.row(&[
                Field::Text(&r.process.guid),
                Field::Text(r.category().unwrap_or_default()),
                Field::Text(r.message.as_deref().or(r.name).unwrap_or_default()),
                Field::Int(r.process.pid),
                Field::Maybe(r.thread.map(|t| t.tid)),
                Field::Maybe(r.event.and_then(|e| e.stack_id)),
                Field::Int(r.start_ns),
                Field::Int(r.end_ns),
                Field::Int(r.duration_ns()),
            ])?;
        }
    }
    sheet.finish()
}

fn counters(job: &Job<'_>) -> anyhow::Result<()> {
    let mut sheet = sheet(job, "counter_collection_trace.csv", COUNTERS)?;
    each_counter(job, |get, agent, value| {
        let mut fields = vec![
            field(get(0)),
            field(get(1)),
            field(get(2)),
            Field::Text(agent),
            field(get(7)),
            field(get(8)),
            field(get(9)),
            field(get(10)),
            field(get(11)),
        ];
        fields.extend((12..20).map(|at| field(get(at))));
        fields.extend([Field::Bare(value), field(get(21)), field(get(22))]);
        sheet.row(&fields)
    })?;
    sheet.finish()
}

fn graph_launches(job: &Job<'_>) -> anyhow::Result<()> {
    let present = job
        .set
        .partitions()
        .iter()
        .any(|partition| partition.columns("rocpd_graph_launch").is_some());
    if !present {
        return Ok(());
    }
    let mut sheet = sheet(
        job,
        "graph_launch_trace.csv",
        "Guid Category Process_Id Thread_Id Agent_Id Queue_Id Start_Timestamp End_Timestamp Duration Graph_Exec_Id \
         Kernel_Dispatch_Count Correlation_Id",
    )?;
    let session = job.set.sql(job.filter.window, KernelNames::default())?;
    let mut statement = session.prepare(
        "SELECT guid, category, pid, tid, 'Agent ' || agent_log_index, queue_id, start, \"end\", duration, graph_exec_id, \
         kernel_dispatch_count, stack_id FROM graph_launches ORDER BY guid, start, \"end\" DESC",
    )?;
    let mut rows = statement.query(&[])?;
    while let Some(row) = rows.next()? {
        let fields: Vec<Field<'_>> = (0..row.len())
            .map(|at| match row.get(at) {
                SqlValue::Int(value) => Field::Int(value),
                SqlValue::Text(text) => Field::Text(text),
                _ => Field::Maybe(None),
            })
            .collect();
        sheet.row(&fields)?;
    }
    sheet.finish()
}
