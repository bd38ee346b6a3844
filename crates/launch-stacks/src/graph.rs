//! Finds launches of recorded graphs and the kernels that each of them ran.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use trace_model::{CorrelationId, SliceId};

use crate::link::Launch;
use trace_model::kernel::TraceIndex;

/// One launch of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphLaunch {
    /// The launch call.
    pub launch: SliceId,
    /// Its correlation id.
    pub correlation: Option<CorrelationId>,
    /// All kernels it ran, selected or not, in order of start.
    pub kernels: Vec<SliceId>,
}

/// Returns the graph launches among `links`, in ascending time, each with all its kernels. Cost:
/// none without graph launches, else a look-up per kernel of the trace.
pub fn graph_launches(index: &TraceIndex<'_>, links: &[Launch]) -> Vec<GraphLaunch> {
    let mut calls: Vec<SliceId> = links.iter().filter(|l| l.graph).map(|l| l.launch).collect();
    calls.sort_unstable();
    calls.dedup();
    if calls.is_empty() {
        return Vec::new();
    }
    let trace = index.trace();
    let mut kernels: HashMap<SliceId, Vec<SliceId>, FxBuildHasher> = HashMap::default();
    for slice in index.kernels() {
        if let Some(call) = index.correlation().launch_of(slice, index.activities())
            && calls.binary_search(&call.id()).is_ok()
        {
            kernels.entry(call.id()).or_default().push(slice.id());
        }
    }
    calls
        .into_iter()
        .map(|launch| GraphLaunch {
            launch,
            correlation: index.correlation().id_of(trace.slice(launch)),
            // Slices are already in ascending time.
            kernels: kernels.remove(&launch).unwrap_or_default(),
        })
        .collect()
}
