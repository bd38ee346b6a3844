//! The newer layout: all calls in one file, quotes where needed.

use rocpd_db::{AllocLevel, AllocType, Allocation, Region, Sample};

use super::sheet::Field;
use super::{Job, agents, calls, copies, counters, kernels};
use crate::Result;

const ALLOCATIONS: &str = "Guid Kind Operation Agent_Id Allocation_Size Address Correlation_Id Start_Timestamp End_Timestamp";
const SCRATCH: &str =
    "Guid Kind Operation Agent_Id Queue_Id Thread_Id Alloc_Flags Start_Timestamp End_Timestamp";

pub(super) fn write(job: &Job<'_>) -> Result<()> {
    agents::write(job)?;
    let more = kernels::More {
        unified: true,
        graphs: job.has_column("rocpd_kernel_dispatch", "graph_exec_id"),
    };
    kernels::write(job, more)?;
    copies::write(job, job.has_column("rocpd_memory_copy", "graph_exec_id"))?;
    allocations(job)?;
    regions(job)?;
    counters::write(job, "counter_collection_trace.csv", true)?;
    counters::graph_launches(job)?;
    counters::spm(job)?;
    counters::hip_events(job)
}

fn allocations(job: &Job<'_>) -> Result<()> {
    let mut all = job.sheet("memory_allocation_trace.csv", ALLOCATIONS)?;
    let mut scratch = job.sheet("scratch_memory_trace.csv", SCRATCH)?;
    job.each(|r: Allocation<'_>| {
        if !r.in_view() {
            return Ok(());
        }
        let prefix = match r.level {
            AllocLevel::Virtual => "MEMORY_ALLOCATION_VMEM",
            AllocLevel::Scratch => "SCRATCH_MEMORY",
            _ => "MEMORY_ALLOCATION",
        };
        let operation = match r.kind {
            AllocType::Unknown => String::new(),
            AllocType::Alloc => format!("{prefix}_ALLOCATE"),
            kind => format!("{prefix}_{}", kind.text()),
        };
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
        ])?;
        if r.level != AllocLevel::Scratch {
            return Ok(());
        }
        scratch.row(&[
            Field::Text(&r.process.guid),
            Field::Text("SCRATCH_MEMORY"),
            Field::Text(&match r.kind {
                AllocType::Unknown => String::new(),
                kind => format!("SCRATCH_MEMORY_{}", kind.text()),
            }),
            Field::Text(&agent),
            Field::Maybe(r.queue_id),
            Field::Maybe(r.thread.map(|t| t.tid)),
            Field::Text(r.flags.as_deref().unwrap_or_default()),
            Field::Int(r.start_ns),
            Field::Int(r.end_ns),
        ])
    })?;
    all.finish()?;
    scratch.finish()
}

/// Writes calls as in the view `regions`; instants (marks) go to a file of their own, which the
/// reference does not have.
fn regions(job: &Job<'_>) -> Result<()> {
    let compat = job.options.reference_names;
    let mut sheet = job.sheet("regions_trace.csv", calls::COLUMNS)?;
    job.each(|r: Region<'_>| match r.in_view() {
        true if compat => calls::row(&mut sheet, &r, r.name),
        true => calls::row(&mut sheet, &r, r.shown_name()),
        false => Ok(()),
    })?;
    sheet.finish()?;
    if compat {
        return Ok(());
    }
    let mut sheet = job.sheet("samples_trace.csv", calls::COLUMNS)?;
    job.each(|sample: Sample<'_>| {
        let r = sample.as_region();
        match r.in_view() {
            true => calls::row(&mut sheet, &r, r.shown_name()),
            false => Ok(()),
        }
    })?;
    sheet.finish()
}
