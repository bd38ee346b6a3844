//! Links kernels to their launches.

use std::collections::BTreeSet;

use trace_model::kernel::{Activity, TraceIndex};

use crate::summary::KernelLinks;

/// Counts how the kernels of a trace are linked. Cost: one pass, and a lookup per kernel.
pub(super) fn kernel_links(index: &TraceIndex<'_>) -> KernelLinks {
    let (trace, activities) = (index.trace(), index.activities());
    let mut links = KernelLinks::default();
    let mut graphs = BTreeSet::new();
    for kernel in trace.slices() {
        match activities.of(kernel) {
            Activity::Kernel => {}
            Activity::Launch | Activity::GraphLaunch => {
                links.launches += 1;
                continue;
            }
            _ => continue,
        }
        links.kernels += 1;
        let flow = trace.flows_to(kernel.id()).next().is_some();
        let launch = index.correlation().launch_of(kernel, activities);
        let graph = launch.filter(|call| activities.of(*call) == Activity::GraphLaunch);
        graphs.extend(graph.map(|call| call.id()));
        links.by_flow += u64::from(flow);
        links.by_correlation += u64::from(launch.is_some());
        links.under_graph_launch += u64::from(graph.is_some());
        links.unlinked += u64::from(!flow && launch.is_none());
    }
    links.graph_launches = graphs.len() as u64;
    links
}
