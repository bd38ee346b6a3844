//! The sheet of dispatches, similar in both layouts.

use rocpd_db::Dispatch;

use super::Job;
use super::sheet::Field;
use crate::Result;

/// Columns, between which the newer layout has additional ones.
const PLACE: &str = "Guid Kind Agent_Id Queue_Id Stream_Id";
const WHAT: &str =
    "Thread_Id Dispatch_Id Kernel_Id Kernel_Name Correlation_Id Start_Timestamp End_Timestamp";
const SIZES: &str =
    "Workgroup_Size_X Workgroup_Size_Y Workgroup_Size_Z Grid_Size_X Grid_Size_Y Grid_Size_Z";
/// Resources of kernels. The newer layout has capitalized titles.
pub(super) const NEEDS: &str = "LDS_Block_Size Scratch_Size VGPR_Count Accum_VGPR_Count SGPR_Count";
pub(super) const UNIFIED_NEEDS: &str =
    "Lds_Block_Size Scratch_Size Vgpr_Count Accum_Vgpr_Count Sgpr_Count";

/// Additional columns of the newer layout, if the databases have them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct More {
    /// `true` for the newer layout, which has durations.
    pub(super) unified: bool,
    pub(super) graphs: bool,
}

pub(super) fn write(job: &Job<'_>, more: More) -> Result<()> {
    let graphs = if more.graphs {
        "Graph_Exec_Id Graph_Node_Id"
    } else {
        ""
    };
    let needs = match more.unified {
        true => format!("Duration {UNIFIED_NEEDS}"),
        false => NEEDS.to_owned(),
    };
    let columns = format!("{PLACE} {graphs} {WHAT} {needs} {SIZES}");
    let mut sheet = job.sheet("kernel_trace.csv", &columns)?;
    let names = job.options.kernels;
    job.each(|r: Dispatch<'_>| {
        if !r.in_view() {
            return Ok(());
        }
        let agent = job.agent(r.agent);
        let name = names.in_view(&r).unwrap_or_default();
        let symbol = r.symbol;
        let mut fields = Vec::with_capacity(32);
        fields.extend([
            Field::Text(&r.process.guid),
            Field::Text("KERNEL_DISPATCH"),
            Field::Text(&agent),
            Field::Maybe(r.queue_id),
            Field::Maybe(r.stream_id),
        ]);
        if more.graphs {
            fields.extend([r.graph_exec_id, r.graph_node_id].map(Field::Maybe));
        }
        fields.extend([
            Field::Maybe(r.thread.map(|t| t.tid)),
            Field::Maybe(r.dispatch_id),
            Field::Maybe(r.kernel_id),
            Field::Text(&name),
            Field::Maybe(r.event.and_then(|e| e.stack_id)),
            Field::Int(r.start_ns),
            Field::Int(r.end_ns),
        ]);
        if more.unified {
            fields.push(Field::Int(r.duration_ns()));
        }
        fields.extend([
            Field::Maybe(r.lds_bytes),
            Field::Maybe(r.scratch_bytes),
            Field::Maybe(symbol.and_then(|s| s.arch_vgpr_count)),
            Field::Maybe(symbol.and_then(|s| s.accum_vgpr_count)),
            Field::Maybe(symbol.and_then(|s| s.sgpr_count)),
        ]);
        fields.extend(r.workgroup.map(Field::Maybe));
        fields.extend(r.grid.map(Field::Maybe));
        sheet.row(&fields)
    })?;
    sheet.finish()
}
