//! The layout of August 2025: one file for each API, every text in quotes.

use rocpd_db::{
    AllocLevel, AllocType, Allocation, Copy, Dispatch, Filter, KernelNames, Order, SqlValue,
};

use super::sheet::{Field, Quotes, Sheet};
use super::{Job, agents, plain};

const KERNELS: &str = "Guid Kind Agent_Id Queue_Id Stream_Id Thread_Id Dispatch_Id Kernel_Id Kernel_Name Correlation_Id \
    Start_Timestamp End_Timestamp LDS_Block_Size Scratch_Size VGPR_Count Accum_VGPR_Count SGPR_Count Workgroup_Size_X \
    Workgroup_Size_Y Workgroup_Size_Z Grid_Size_X Grid_Size_Y Grid_Size_Z";
const COPIES: &str = "Guid Kind Direction Stream_Id Source_Agent_Id Destination_Agent_Id Correlation_Id Start_Timestamp End_Timestamp";
const ALLOCATIONS: &str = "Guid Kind Operation Agent_Id Allocation_Size Address Correlation_Id Start_Timestamp End_Timestamp";
const SCRATCH: &str =
    "Kind Operation Agent_Id Queue_Id Thread_Id Alloc_Flags Start_Timestamp End_Timestamp";
const CALLS: &str =
    "Guid Domain Function Process_Id Thread_Id Correlation_Id Start_Timestamp End_Timestamp";
const COUNTERS: &str = "Pid Correlation_Id Dispatch_Id Agent_Id Queue_Id Process_Id Thread_Id Grid_Size Kernel_Id Kernel_Name \
    Workgroup_Size LDS_Block_Size Scratch_Size VGPR_Count Accum_VGPR_Count SGPR_Count Counter_Name Counter_Value \
    Start_Timestamp End_Timestamp";

/// File of a domain of calls.
const APIS: [(&str, &str); 6] = [
    ("HIP", "hip_api_trace.csv"),
    ("HSA", "hsa_api_trace.csv"),
    ("RCCL", "rccl_api_trace.csv"),
    ("ROCDECODE", "rocdecode_api_trace.csv"),
    ("ROCJPEG", "rocjpeg_api_trace.csv"),
    ("MARKER", "marker_api_trace.csv"),
];

pub(super) fn write(job: &Job<'_>) -> anyhow::Result<()> {
    agents::write(job, Quotes::All)?;
    kernels(job)?;
    copies(job)?;
    allocations(job)?;
    calls(job)?;
    counters(job)
}

fn sheet(job: &Job<'_>, name: &str, columns: &str) -> anyhow::Result<Sheet> {
    Ok(Sheet::new(job.names.with(name)?, columns, Quotes::All))
}

fn kernels(job: &Job<'_>) -> anyhow::Result<()> {
    let mut sheet = sheet(job, "kernel_trace.csv", KERNELS)?;
    let names = KernelNames::from(&job.args.names);
    for partition in 0..job.partitions() {
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
            sheet.row(&[
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
                Field::Maybe(r.lds_bytes),
                Field::Maybe(r.scratch_bytes),
                Field::Maybe(symbol.and_then(|s| s.arch_vgpr_count)),
                Field::Maybe(symbol.and_then(|s| s.accum_vgpr_count)),
                Field::Maybe(symbol.and_then(|s| s.sgpr_count)),
                Field::Maybe(r.workgroup[0]),
                Field::Maybe(r.workgroup[1]),
                Field::Maybe(r.workgroup[2]),
                Field::Maybe(r.grid[0]),
                Field::Maybe(r.grid[1]),
                Field::Maybe(r.grid[2]),
            ])?;
        }
    }
    sheet.finish()
}

fn copies(job: &Job<'_>) -> anyhow::Result<()> {
    let mut sheet = sheet(job, "memory_copy_trace.csv", COPIES)?;
    for partition in 0..job.partitions() {
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
            ])?;
        }
    }
    sheet.finish()
}

fn allocations(job: &Job<'_>) -> anyhow::Result<()> {
    let mut all = sheet(job, "memory_allocation_trace.csv", ALLOCATIONS)?;
    let mut scratch = sheet(job, "scratch_memory_trace.csv", SCRATCH)?;
    for partition in 0..job.partitions() {
        for record in
            job.set
                .scan_partition::<Allocation<'_>>(partition, job.filter, Order::Start)?
        {
            let r = record?;
            if !r.in_view() {
                continue;
            }
            let operation = match r.kind {
                AllocType::Alloc => "ALLOCATE",
                kind => kind.text(),
            };
            // Frees have no agent: the reference writes a cell that holds one quote.
            let agent = r.agent.map_or_else(
                || "\"".to_owned(),
                |agent| job.args.agent_index_value.label(agent),
            );
            all.row(&[
                Field::Text(&r.process.guid),
                Field::Text("MEMORY_ALLOCATION"),
                Field::Text(&format!("MEMORY_ALLOCATION_{operation}")),
                Field::Text(&agent),
                Field::Int(r.size_bytes),
                Field::Text(&format!("0x{:016x}", r.address.unwrap_or(0))),
                Field::Maybe(r.event.and_then(|e| e.stack_id)),
                Field::Int(r.start_ns),
                Field::Int(r.end_ns),
            ])?;
            if r.level == AllocLevel::Scratch {
                scratch.row(&[
                    Field::Text("SCRATCH_MEMORY"),
                    Field::Text(&format!("SCRATCH_MEMORY_{}", r.kind.text())),
                    Field::Text(&job.agent(r.agent)),
                    Field::Maybe(r.queue_id),
                    Field::Maybe(r.thread.map(|t| t.tid)),
                    Field::Bare(r.flags.as_deref().unwrap_or_default()),
                    Field::Int(r.start_ns),
                    Field::Int(r.end_ns),
                ])?;
            }
        }
    }
    all.finish()?;
    scratch.finish()
}

fn calls(job: &Job<'_>) -> anyhow::Result<()> {
    let mut sheets = Vec::new();
    for (domain, file) in APIS {
        sheets.push((format!("{domain}_"), sheet(job, file, CALLS)?));
    }
    for partition in 0..job.partitions() {
        for record in job.set.regions_and_samples(partition, job.filter)? {
            let r = record?;
            let is_sample = r.start_ns == r.end_ns;
            let category = r.category().unwrap_or_default().to_owned();
            let Some((domain, sheet)) = sheets
                .iter_mut()
                .find(|(domain, _)| category.starts_with(domain.as_str()))
            else {
                continue;
            };
            let marker = domain == "MARKER_";
            if r.event.is_none()
                || r.thread.is_none()
                || (r.name.is_none() && !(marker && is_sample))
            {
                continue;
            }
            let name = match marker {
                true => r.message.as_deref().or(r.name),
                false => r.name,
            };
            sheet.row(&[
                Field::Text(&r.process.guid),
                Field::Text(&category),
                Field::Text(name.unwrap_or_default()),
                Field::Int(r.process.pid),
                Field::Maybe(r.thread.map(|t| t.tid)),
                Field::Maybe(r.event.and_then(|e| e.stack_id)),
                Field::Int(r.start_ns),
                Field::Int(r.end_ns),
            ])?;
        }
    }
    for (_, sheet) in sheets {
        sheet.finish()?;
    }
    Ok(())
}

/// A row of the view of counters, as far as the sheets show it.
pub(super) fn each_counter(
    job: &Job<'_>,
    mut take: impl for<'v> FnMut(&dyn Fn(usize) -> SqlValue<'v>, &str, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let has_counters = job
        .set
        .partitions()
        .iter()
        .map(|p| p.rows("rocpd_pmc_event"))
        .collect::<Result<Vec<_>, _>>()?;
    if has_counters.iter().sum::<u64>() == 0 {
        return Ok(());
    }
    let filter: &Filter = job.filter;
    let session = job
        .set
        .sql(filter.window, KernelNames::from(&job.args.names))?;
    let mut statement = session.prepare(
        "SELECT guid, stack_id, dispatch_id, agent_abs_index, agent_log_index, agent_type_index, agent_type, queue_id, pid, tid, \
         grid_size, kernel_id, kernel_name, workgroup_size, lds_block_size, scratch_size, vgpr_count, accum_vgpr_count, sgpr_count, \
         counter_name, value, start, \"end\", kernel_region FROM counters_collection ORDER BY guid, start, \"end\" DESC, id",
    )?;
    let mut rows = statement.query(&[])?;
    while let Some(row) = rows.next()? {
        let number = |at| match row.get(at) {
            SqlValue::Int(value) => Some(value),
            _ => None,
        };
        let (label, index) = match job.args.agent_index_value {
            crate::args::AgentIndex::Absolute => ("Agent", number(3)),
            crate::args::AgentIndex::Relative => ("Agent", number(4)),
            crate::args::AgentIndex::TypeRelative => match row.get(6) {
                SqlValue::Text("CPU") => ("CPU", number(5)),
                _ => ("GPU", number(5)),
            },
        };
        let agent = format!("{label} {}", index.unwrap_or(0));
        let value = match row.get(20) {
            SqlValue::Real(value) => plain(value),
            SqlValue::Int(value) => value.to_string(),
            _ => String::new(),
        };
        take(&|at| row.get(at), &agent, &value)?;
    }
    Ok(())
}

pub(super) fn field<'v>(value: SqlValue<'v>) -> Field<'v> {
    match value {
        SqlValue::Int(value) => Field::Int(value),
        SqlValue::Text(text) => Field::Text(text),
        _ => Field::Maybe(None),
    }
}

fn counters(job: &Job<'_>) -> anyhow::Result<()> {
    let mut sheet = sheet(job, "counter_collection.csv", COUNTERS)?;
    each_counter(job, |get, agent, value| {
        let guid = match get(0) {
            SqlValue::Text(guid) => guid,
            _ => "",
        };
        let mut fields = vec![
            Field::Bare(guid),
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
