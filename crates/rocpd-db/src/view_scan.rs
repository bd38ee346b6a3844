//! Whole views without the SQL engine.

use crate::error::Error;
use crate::filter::{Filter, Window};
use crate::records::{Allocation, Copy, Dispatch, Region};
use crate::scan::Order;
use crate::set::RocpdSet;
use crate::sql::SqlValue;

/// A view that can be read with a scan, a few times faster than through SQL.
///
/// ```
/// use rocpd_db::ViewScan;
/// assert!(ViewScan::of_query("select * from kernels;").is_some());
/// assert!(ViewScan::of_query("SELECT name FROM kernels").is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewScan(View);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Kernels,
    Regions,
    Copies,
    Allocations,
}

const KERNELS: [&str; 38] = [
    "id",
    "guid",
    "tid",
    "category",
    "region",
    "name",
    "nid",
    "pid",
    "agent_abs_index",
    "agent_log_index",
    "agent_type_index",
    "agent_type",
    "code_object_id",
    "kernel_id",
    "dispatch_id",
    "stream_id",
    "queue_id",
    "queue",
    "stream",
    "start",
    "end",
    "duration",
    "grid_x",
    "grid_y",
    "grid_z",
    "workgroup_x",
    "workgroup_y",
    "workgroup_z",
    "lds_size",
    "scratch_size",
    "vgpr_count",
    "accum_vgpr_count",
    "sgpr_count",
    "static_lds_size",
    "static_scratch_size",
    "stack_id",
    "parent_stack_id",
    "corr_id",
];

const REGIONS: [&str; 17] = [
    "id",
    "guid",
    "category",
    "name",
    "nid",
    "pid",
    "tid",
    "start",
    "end",
    "duration",
    "event_id",
    "stack_id",
    "parent_stack_id",
    "corr_id",
    "extdata",
    "call_stack",
    "line_info",
];

const COPIES: [&str; 31] = [
    "id",
    "guid",
    "category",
    "nid",
    "pid",
    "tid",
    "start",
    "end",
    "duration",
    "name",
    "region_name",
    "stream_id",
    "queue_id",
    "stream_name",
    "queue_name",
    "size",
    "dst_device",
    "dst_agent_abs_index",
    "dst_agent_log_index",
    "dst_agent_type_index",
    "dst_agent_type",
    "dst_address",
    "src_device",
    "src_agent_abs_index",
    "src_agent_log_index",
    "src_agent_type_index",
    "src_agent_type",
    "src_address",
    "stack_id",
    "parent_stack_id",
    "corr_id",
];

const ALLOCATIONS: [&str; 25] = [
    "id",
    "guid",
    "category",
    "nid",
    "pid",
    "tid",
    "start",
    "end",
    "duration",
    "type",
    "level",
    "agent_name",
    "agent_abs_index",
    "agent_log_index",
    "agent_type_index",
    "agent_type",
    "address",
    "size",
    "queue_id",
    "queue_name",
    "stream_id",
    "stream_name",
    "stack_id",
    "parent_stack_id",
    "corr_id",
];

impl ViewScan {
    /// The view that a query of the form `SELECT * FROM view` asks for.
    #[must_use]
    pub fn of_query(sql: &str) -> Option<Self> {
        let words: Vec<String> = sql
            .trim()
            .trim_end_matches(';')
            .split_whitespace()
            .map(str::to_ascii_lowercase)
            .collect();
        let [select, star, from, view] = words.as_slice() else {
            return None;
        };
        if select != "select" || star != "*" || from != "from" {
            return None;
        }
        Some(Self(match view.as_str() {
            "kernels" => View::Kernels,
            "regions" => View::Regions,
            "memory_copies" => View::Copies,
            "memory_allocations" => View::Allocations,
            _ => return None,
        }))
    }

    /// Returns `true` if a scan gives what SQL gives: not for regions of databases that keep call stacks or source lines
    /// in tables of their own, as the draft of 4.1.0 does.
    #[must_use]
    pub fn is_faithful(self, set: &RocpdSet) -> bool {
        let kept_apart = ["rocpd_call_stack", "rocpd_line_info"];
        self.0 != View::Regions
            || !set
                .partitions()
                .iter()
                .any(|p| kept_apart.iter().any(|table| p.table(table).is_some()))
    }

    /// Names of the columns, in the order of the view.
    #[must_use]
    pub fn columns(self, set: &RocpdSet) -> Vec<&'static str> {
        let any = |table: &str, column: &str| {
            set.partitions().iter().any(|p| p.has_column(table, column))
        };
        let graphs = any("rocpd_kernel_dispatch", "graph_exec_id");
        let mut columns = match self.0 {
            View::Kernels => KERNELS.to_vec(),
            View::Regions => REGIONS.to_vec(),
            View::Copies => COPIES.to_vec(),
            View::Allocations => ALLOCATIONS.to_vec(),
        };
        if graphs && matches!(self.0, View::Kernels | View::Copies) {
            columns.extend(["graph_exec_id", "graph_node_id"]);
        }
        if self.0 == View::Kernels && any("rocpd_pmc_event", "sample_id") {
            columns.push("event_id");
        }
        columns
    }

    /// Gives every row of the view, in stored order, perhaps only those in a window.
    ///
    /// # Errors
    ///
    /// When a file is damaged, and what `take` fails with.
    pub fn each<E: From<Error>>(
        self,
        set: &RocpdSet,
        window: Option<Window>,
        mut take: impl for<'v> FnMut(&dyn Fn(usize) -> SqlValue<'v>) -> Result<(), E>,
    ) -> Result<(), E> {
        let filter = Filter {
            window,
            texts: self.0 == View::Regions,
            ..Filter::default()
        };
        let columns = self.columns(set);
        // Where the columns of newer generations are.
        let event_at = columns.iter().position(|column| *column == "event_id");
        match self.0 {
            View::Kernels => {
                for record in set.scan::<Dispatch<'_>>(&filter, Order::Stored)? {
                    let record = record?;
                    if record.in_view() {
                        take(&|at| match Some(at) == event_at {
                            true => int(record.event.map(|event| event.id)),
                            false => kernel(&record, at),
                        })?;
                    }
                }
            }
            View::Regions => {
                for record in set.scan::<Region<'_>>(&filter, Order::Stored)? {
                    let record = record?;
                    if record.in_view() {
                        take(&|at| region(&record, at))?;
                    }
                }
            }
            View::Copies => {
                for record in set.scan::<Copy<'_>>(&filter, Order::Stored)? {
                    let record = record?;
                    if record.in_view() {
                        take(&|at| copy(&record, at))?;
                    }
                }
            }
            View::Allocations => {
                for record in set.scan::<Allocation<'_>>(&filter, Order::Stored)? {
                    let record = record?;
                    if record.in_view() {
                        take(&|at| allocation(&record, at))?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn int(value: Option<i64>) -> SqlValue<'static> {
    value.map_or(SqlValue::Null, SqlValue::Int)
}

fn text(value: Option<&str>) -> SqlValue<'_> {
    value.map_or(SqlValue::Null, SqlValue::Text)
}

fn kernel<'r>(r: &'r Dispatch<'_>, at: usize) -> SqlValue<'r> {
    let agent = |get: fn(&crate::Agent) -> Option<i64>| int(r.agent.and_then(get));
    let symbol = |get: fn(&crate::Symbol) -> Option<i64>| int(r.symbol.and_then(get));
    match at {
        0 => SqlValue::Int(r.id),
        1 => SqlValue::Text(&r.process.guid),
        2 => int(r.thread.map(|thread| thread.tid)),
        3 => text(r.event.as_ref().and_then(|event| event.category)),
        4 => text(r.region),
        5 => text(r.symbol.and_then(|symbol| symbol.display_name.as_deref())),
        6 => int(r.nid),
        7 => SqlValue::Int(r.process.pid),
        8 => agent(|a| a.absolute_index),
        9 => agent(|a| a.logical_index),
        10 => agent(|a| a.type_index),
        11 => text(r.agent.and_then(|agent| agent.kind.as_deref())),
        12 => symbol(|s| s.code_object_id),
        13 => int(r.kernel_id),
        14 => int(r.dispatch_id),
        15 => int(r.stream_id),
        16 => int(r.queue_id),
        17 => text(r.queue.and_then(|queue| queue.name.as_deref())),
        18 => text(r.stream.and_then(|stream| stream.name.as_deref())),
        19 => SqlValue::Int(r.start_ns),
        20 => SqlValue::Int(r.end_ns),
        21 => SqlValue::Int(r.duration_ns()),
        22..=24 => int(r.grid.get(at - 22).copied().flatten()),
        25..=27 => int(r.workgroup.get(at - 25).copied().flatten()),
        28 => int(r.lds_bytes),
        29 => int(r.scratch_bytes),
        30 => symbol(|s| s.arch_vgpr_count),
        31 => symbol(|s| s.accum_vgpr_count),
        32 => symbol(|s| s.sgpr_count),
        33 => symbol(|s| s.group_segment_size),
        34 => symbol(|s| s.private_segment_size),
        35 => int(r.event.and_then(|event| event.stack_id)),
        36 => int(r.event.and_then(|event| event.parent_stack_id)),
        37 => int(r.event.and_then(|event| event.correlation_id)),
        38 => int(r.graph_exec_id),
        39 => int(r.graph_node_id),
        _ => SqlValue::Null,
    }
}

fn region<'r>(r: &'r Region<'_>, at: usize) -> SqlValue<'r> {
    let texts = r.texts.as_deref();
    match at {
        0 => SqlValue::Int(r.id),
        1 => SqlValue::Text(&r.process.guid),
        2 => text(r.category()),
        3 => text(r.name),
        4 => int(r.nid),
        5 => SqlValue::Int(r.process.pid),
        6 => int(r.thread.map(|thread| thread.tid)),
        7 => SqlValue::Int(r.start_ns),
        8 => SqlValue::Int(r.end_ns),
        9 => SqlValue::Int(r.duration_ns()),
        10 => int(r.event.map(|event| event.id)),
        11 => int(r.event.and_then(|event| event.stack_id)),
        12 => int(r.event.and_then(|event| event.parent_stack_id)),
        13 => int(r.event.and_then(|event| event.correlation_id)),
        14 => text(texts.and_then(|texts| texts.extdata.as_deref())),
        15 => text(texts.and_then(|texts| texts.call_stack.as_deref())),
        16 => text(texts.and_then(|texts| texts.line_info.as_deref())),
        _ => SqlValue::Null,
    }
}

fn copy<'r>(r: &'r Copy<'_>, at: usize) -> SqlValue<'r> {
    let agent = |agent: Option<&'r crate::Agent>, at: usize| match at {
        0 => text(agent.and_then(|agent| agent.name.as_deref())),
        1 => int(agent.and_then(|agent| agent.absolute_index)),
        2 => int(agent.and_then(|agent| agent.logical_index)),
        3 => int(agent.and_then(|agent| agent.type_index)),
        _ => text(agent.and_then(|agent| agent.kind.as_deref())),
    };
    match at {
        0 => SqlValue::Int(r.id),
        1 => SqlValue::Text(&r.process.guid),
        2 => text(r.event.as_ref().and_then(|event| event.category)),
        3 => int(r.nid),
        4 => SqlValue::Int(r.process.pid),
        5 => int(r.thread.map(|thread| thread.tid)),
        6 => SqlValue::Int(r.start_ns),
        7 => SqlValue::Int(r.end_ns),
        8 => SqlValue::Int(r.duration_ns()),
        9 => text(r.name),
        10 => text(r.region),
        11 => int(r.stream_id),
        12 => int(r.queue_id),
        13 => text(r.stream.and_then(|stream| stream.name.as_deref())),
        14 => text(r.queue.and_then(|queue| queue.name.as_deref())),
        15 => SqlValue::Int(r.size_bytes),
        16..=20 => agent(r.dst_agent, at - 16),
        21 => int(r.dst_address),
        22..=26 => agent(r.src_agent, at - 22),
        27 => int(r.src_address),
        28 => int(r.event.and_then(|event| event.stack_id)),
        29 => int(r.event.and_then(|event| event.parent_stack_id)),
        30 => int(r.event.and_then(|event| event.correlation_id)),
        31 => int(r.graph_exec_id),
        32 => int(r.graph_node_id),
        _ => SqlValue::Null,
    }
}

fn allocation<'r>(r: &'r Allocation<'_>, at: usize) -> SqlValue<'r> {
    let known = |text: &'static str| match text {
        "" => SqlValue::Null,
        text => SqlValue::Text(text),
    };
    match at {
        0 => SqlValue::Int(r.id),
        1 => SqlValue::Text(&r.process.guid),
        2 => text(r.event.as_ref().and_then(|event| event.category)),
        3 => int(r.nid),
        4 => SqlValue::Int(r.process.pid),
        5 => int(r.thread.map(|thread| thread.tid)),
        6 => SqlValue::Int(r.start_ns),
        7 => SqlValue::Int(r.end_ns),
        8 => SqlValue::Int(r.duration_ns()),
        9 => known(r.kind.text()),
        10 => known(r.level.text()),
        11 => text(r.agent.and_then(|agent| agent.name.as_deref())),
        12 => int(r.agent.and_then(|agent| agent.absolute_index)),
        13 => int(r.agent.and_then(|agent| agent.logical_index)),
        14 => int(r.agent.and_then(|agent| agent.type_index)),
        15 => text(r.agent.and_then(|agent| agent.kind.as_deref())),
        16 => int(r.address),
        17 => SqlValue::Int(r.size_bytes),
        18 => int(r.queue_id),
        19 => text(r.queue.and_then(|queue| queue.name.as_deref())),
        20 => int(r.stream_id),
        21 => text(r.stream.and_then(|stream| stream.name.as_deref())),
        22 => int(r.event.and_then(|event| event.stack_id)),
        23 => int(r.event.and_then(|event| event.parent_stack_id)),
        24 => int(r.event.and_then(|event| event.correlation_id)),
        _ => SqlValue::Null,
    }
}
