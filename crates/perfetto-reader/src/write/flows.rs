//! Writes the arrows of a trace as flow ids of events.

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::{Flow, FlowId, SliceId, Trace};

/// State of the arrows with one id.
#[derive(Clone, Copy)]
struct Chain {
    last: SliceId,
    /// `true` if each arrow starts where the one before ends.
    intact: bool,
    arrows: u32,
}

/// Assigns an id to every arrow in the file.
///
/// In track events an id connects each event with the previous event that has it. Arrows that form
/// such a chain keep their id; if one slice sends several arrows of one id, every arrow gets a new
/// id.
pub(super) struct FlowIds<'t> {
    trace: &'t Trace,
    /// New ids by arrow; empty if all arrows keep theirs.
    fresh: FxHashMap<FlowId, u64>,
    chains: FxHashMap<u64, Chain>,
}

/// Flow ids of one slice.
#[derive(Debug, Default)]
pub(super) struct SliceFlows {
    pub(super) through: Vec<u64>,
    pub(super) terminating: Vec<u64>,
}

impl<'t> FlowIds<'t> {
    pub(super) fn new(trace: &'t Trace) -> Self {
        let mut chains: FxHashMap<u64, Chain> = FxHashMap::default();
        for flow in trace.flows() {
            let forward = flow.from < flow.to;
            chains
                .entry(flow.id)
                .and_modify(|chain| {
                    chain.intact &= forward && chain.last == flow.from;
                    chain.last = flow.to;
                    chain.arrows += 1;
                })
                .or_insert(Chain {
                    last: flow.to,
                    intact: forward,
                    arrows: 1,
                });
        }
        let mut used: FxHashSet<u64> = chains.keys().copied().collect();
        let mut fresh = FxHashMap::default();
        let mut next = 1_u64 << 63;
        for (i, flow) in trace.flows().iter().enumerate() {
            let keeps = chains
                .get(&flow.id)
                .is_some_and(|c| c.intact || c.arrows == 1);
            if keeps {
                continue;
            }
            while !used.insert(next) {
                next += 1;
            }
            if let Some(id) = FlowId::new(i) {
                fresh.insert(id, next);
            }
        }
        Self {
            trace,
            fresh,
            chains,
        }
    }

    /// Collects the ids to write with a slice.
    pub(super) fn of(&self, slice: SliceId, out: &mut SliceFlows) {
        out.through.clear();
        out.terminating.clear();
        if self.trace.flows().is_empty() {
            return;
        }
        for (id, flow) in self.trace.flows_to(slice) {
            match self.fresh.get(&id) {
                // Even if reversed, the arrow ends at the event that is read last.
                Some(&fresh) => Self::one_end(slice, flow, fresh, out),
                None if self.ends_at(slice, flow) => out.terminating.push(flow.id),
                None => out.through.push(flow.id),
            }
        }
        for (id, flow) in self.trace.flows_from(slice) {
            match self.fresh.get(&id) {
                Some(&fresh) => Self::one_end(slice, flow, fresh, out),
                None if flow.from > flow.to => out.terminating.push(flow.id),
                None if out.through.contains(&flow.id) => {}
                None => out.through.push(flow.id),
            }
        }
    }

    /// Returns `true` if this slice is the last of the arrows with the flow's id.
    fn ends_at(&self, slice: SliceId, flow: &Flow) -> bool {
        flow.from <= flow.to && self.chains.get(&flow.id).is_some_and(|c| c.last == slice)
    }

    fn one_end(slice: SliceId, flow: &Flow, id: u64, out: &mut SliceFlows) {
        if slice == flow.from.max(flow.to) {
            // An arrow from a slice to itself begins and ends there.
            if flow.from == flow.to && !out.through.contains(&id) {
                out.through.push(id);
                out.terminating.push(id);
            } else if flow.from != flow.to {
                out.terminating.push(id);
            }
        } else {
            out.through.push(id);
        }
    }
}
