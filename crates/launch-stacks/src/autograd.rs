//! Finds the forward operator that recorded a backward operator.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use trace_model::kernel::Activity;
use trace_model::{ArgColumn, Slice, SliceId};

use trace_model::kernel::TraceIndex;

/// Finds forward operators, by arrow or by sequence number.
#[derive(Debug)]
pub(crate) struct Backward {
    sequence: ArgColumn,
    forward_thread: ArgColumn,
    /// Latest forward operator by sequence number, built on first use.
    forward: Option<HashMap<i64, SliceId, FxBuildHasher>>,
    has_arrows: bool,
}

impl Backward {
    pub(crate) fn new(index: &TraceIndex<'_>) -> Self {
        let trace = index.trace();
        let mut kinds: Vec<_> = trace.flows().iter().map(|f| f.category).collect();
        kinds.dedup();
        Self {
            sequence: trace.arg_column("Sequence number"),
            forward_thread: trace.arg_column("Fwd thread id"),
            forward: None,
            has_arrows: kinds.iter().flatten().any(|c| is_autograd(trace.text(*c))),
        }
    }

    /// Returns the forward operator of the innermost backward operator around `call`.
    pub(crate) fn forward_of<'t>(
        &mut self,
        index: &TraceIndex<'t>,
        call: Slice<'_>,
    ) -> Option<Slice<'t>> {
        if !self.has_arrows && self.forward_thread.is_empty() {
            return None;
        }
        let trace = index.trace();
        for op in call.ancestors() {
            if index.activity(op) != Activity::CpuOp {
                continue;
            }
            if self.has_arrows {
                let tail = trace
                    .flows_to(op.id())
                    .find(|(_, f)| f.category.is_some_and(|c| is_autograd(trace.text(c))));
                if let Some((_, flow)) = tail {
                    return Some(trace.slice(flow.from));
                }
            }
            // Forward operators have 0.
            if self.forward_thread.int(op).is_some_and(|t| t > 0)
                && let Some(sequence) = self.sequence.int(op)
            {
                let found = self.by_sequence(index).get(&sequence).copied();
                return found.filter(|f| *f < op.id()).map(|f| trace.slice(f));
            }
        }
        None
    }

    fn by_sequence(&mut self, index: &TraceIndex<'_>) -> &HashMap<i64, SliceId, FxBuildHasher> {
        let (sequence, thread) = (&self.sequence, &self.forward_thread);
        self.forward.get_or_insert_with(|| {
            index
                .trace()
                .slices()
                .filter(|s| index.activity(*s) == Activity::CpuOp)
                .filter(|s| thread.int(*s) == Some(0))
                .filter_map(|s| Some((sequence.int(s)?, s.id())))
                .collect()
        })
    }
}

fn is_autograd(category: &str) -> bool {
    matches!(category, "fwdbwd" | "forward_backward")
}
