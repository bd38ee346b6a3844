//! TraceLens: the events that it treats as linked, and its table of launching operators.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;
use trace_model::interval::IntervalSet;
use trace_model::kernel::Activity;
use trace_model::{Slice, SliceId};

use crate::work::{GpuEvent, GpuWork};

/// Returns the events below a call in the event tree: those with a flow from the host, or, in a
/// trace without flows, those with the correlation id of a call. The tool's reports leave out all
/// others by default.
pub fn linked(work: &GpuWork<'_>) -> Vec<GpuEvent> {
    let trace = work.trace();
    let mut categories: Vec<_> = trace.flows().iter().map(|f| f.category).collect();
    categories.dedup();
    let is_launch = |c: &trace_model::StrId| trace.text(*c).starts_with("ac2g");
    let has_arrows = categories.iter().flatten().any(is_launch);
    let is_linked = |event: &&GpuEvent| {
        let arrow = || {
            trace
                .flows_to(event.slice)
                .any(|(_, f)| !work.index().activity(trace.slice(f.from)).is_device_work())
        };
        let by_id = || {
            let index = work.index();
            index
                .correlation()
                .launch_of(work.slice(event), index.activities())
                .is_some()
        };
        if has_arrows { arrow() } else { by_id() }
    };
    work.events().iter().filter(is_linked).copied().collect()
}

/// Operators of one name that launched kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Launcher {
    /// Name of the operator, or of the call if no operator is around it.
    pub name: String,
    /// Number of operators.
    pub count: u64,
    /// Time of the kernels that they launched directly: the union for each operator, summed.
    pub direct_ns: i64,
    /// Time of all kernels launched within them: the union for each operator, summed.
    pub subtree_ns: i64,
}

/// Returns the operator directly around a call, ignoring Python functions. If an annotation or
/// nothing is around the call, returns the call itself.
fn launcher<'t>(work: &GpuWork<'t>, call: Slice<'t>) -> Slice<'t> {
    let mut around = call
        .ancestors()
        .filter(|s| work.index().activity(*s) != Activity::PythonFunction);
    match around.next() {
        Some(op) if work.index().activity(op) == Activity::CpuOp => op,
        _ => call,
    }
}

/// Returns the launching operators of linked events by name, most direct time first. Kernels with
/// `nccl` in their name do not count.
pub fn launchers(work: &GpuWork<'_>, linked: &[GpuEvent]) -> Vec<Launcher> {
    let counted = linked.iter().filter(|e| !work.name(e).contains("nccl"));
    let pairs: Vec<(&GpuEvent, Slice<'_>)> = counted
        .filter_map(|event| Some((event, work.launch_of(event)?)))
        .collect();
    let mut by_op: FxHashMap<SliceId, (IntervalSet, IntervalSet)> = FxHashMap::default();
    for (event, call) in &pairs {
        let op = launcher(work, *call).id();
        by_op.entry(op).or_default().0.cover(event.interval());
    }
    for (event, call) in &pairs {
        for around in std::iter::once(*call).chain(call.ancestors()) {
            if let Some((_, subtree)) = by_op.get_mut(&around.id()) {
                subtree.cover(event.interval());
            }
        }
    }
    let mut by_name: BTreeMap<&str, Launcher> = BTreeMap::new();
    let mut ops: Vec<_> = by_op.into_iter().collect();
    ops.sort_by_key(|(op, _)| *op);
    for (op, (direct, subtree)) in ops {
        let name = work.trace().slice(op).name().unwrap_or("");
        let row = by_name.entry(name).or_default();
        row.count += 1;
        row.direct_ns += direct.measure().get();
        row.subtree_ns += subtree.measure().get();
    }
    let mut out: Vec<Launcher> = by_name
        .into_iter()
        .map(|(name, row)| Launcher {
            name: name.to_owned(),
            ..row
        })
        .collect();
    out.sort_by(|a, b| b.direct_ns.cmp(&a.direct_ns).then(a.name.cmp(&b.name)));
    out
}
