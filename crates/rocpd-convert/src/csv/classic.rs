//! The layout of August 2025: one file for each API, every text in quotes.

use rocpd_db::{AllocLevel, AllocType, Allocation, Region};

use super::sheet::Field;
use super::{Job, agents, calls, copies, counters, kernels};
use crate::Result;

const ALLOCATIONS: &str = "Guid Kind Operation Agent_Id Allocation_Size Address Correlation_Id Start_Timestamp End_Timestamp";
const SCRATCH: &str =
    "Kind Operation Agent_Id Queue_Id Thread_Id Alloc_Flags Start_Timestamp End_Timestamp";
/// File of each domain of calls.
const APIS: [(&str, &str); 5] = [
    ("HIP_", "hip_api_trace.csv"),
    ("HSA_", "hsa_api_trace.csv"),
    ("RCCL_", "rccl_api_trace.csv"),
    ("ROCDECODE_", "rocdecode_api_trace.csv"),
    ("ROCJPEG_", "rocjpeg_api_trace.csv"),
];

pub(super) fn write(job: &Job<'_>) -> Result<()> {
    agents::write(job)?;
    kernels::write(job, kernels::More::default())?;
    copies::write(job, false)?;
    allocations(job)?;
    apis(job)?;
    markers(job)?;
    counters::write(job, "counter_collection.csv", false)
}

fn allocations(job: &Job<'_>) -> Result<()> {
    let mut all = job.sheet("memory_allocation_trace.csv", ALLOCATIONS)?;
    let mut scratch = job.sheet("scratch_memory_trace.csv", SCRATCH)?;
    job.each(|r: Allocation<'_>| {
        if !r.in_view() {
            return Ok(());
        }
        let operation = match r.kind {
            AllocType::Alloc => "ALLOCATE",
            kind => kind.text(),
        };
        // For frees the reference writes a cell with a single quote, regardless of their agent.
        let agent = match r.kind {
            AllocType::Free => "\"".to_owned(),
            _ => job.agent(r.agent),
        };
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
        if r.level != AllocLevel::Scratch {
            return Ok(());
        }
        scratch.row(&[
            Field::Text("SCRATCH_MEMORY"),
            Field::Text(&format!("SCRATCH_MEMORY_{}", r.kind.text())),
            Field::Text(&job.agent(r.agent)),
            Field::Maybe(r.queue_id),
            Field::Maybe(r.thread.map(|t| t.tid)),
            Field::Bare(r.flags.as_deref().unwrap_or_default()),
            Field::Int(r.start_ns),
            Field::Int(r.end_ns),
        ])
    })?;
    all.finish()?;
    scratch.finish()
}

/// Writes the regions of the APIs. Samples are in none of these files.
fn apis(job: &Job<'_>) -> Result<()> {
    let mut sheets = Vec::new();
    for (domain, file) in APIS {
        sheets.push((domain, job.sheet(file, calls::COLUMNS)?));
    }
    job.each(|r: Region<'_>| {
        let category = r.category().unwrap_or_default();
        let own = sheets
            .iter_mut()
            .find(|(domain, _)| category.starts_with(domain));
        match own {
            Some((_, sheet)) if r.in_view() => calls::row(sheet, &r, r.name),
            _ => Ok(()),
        }
    })?;
    for (_, sheet) in sheets {
        sheet.finish()?;
    }
    Ok(())
}

/// Writes ranges and marks, named by their messages.
fn markers(job: &Job<'_>) -> Result<()> {
    let mut sheet = job.sheet("marker_api_trace.csv", calls::COLUMNS)?;
    for &partition in &job.order {
        for record in job.set.regions_and_samples(partition, job.filter)? {
            let r = record?;
            let is_marker = r.category().is_some_and(|c| c.starts_with("MARKER_"));
            if is_marker && r.in_view() {
                calls::row(&mut sheet, &r, r.shown_name())?;
            }
        }
    }
    sheet.finish()
}
