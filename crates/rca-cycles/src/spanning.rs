//! Frames that reach over several cycles.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trace_model::SliceId;

use crate::cut::Cuts;
use crate::timeline::Timeline;

/// A frame in one of the cycles that it reaches over.
pub(crate) struct FramePart {
    pub(crate) cycle: u32,
    /// From when to when it is in that cycle.
    pub(crate) at: (i64, i64),
    /// Own time there.
    pub(crate) own_ns: i64,
}

/// Frames of the threads of steps that reach over the end of a cycle, as the loop of an engine does: their own time belongs
/// to the cycles in which it passes, and is what a step spends between recorded calls.
pub(crate) struct Spanning {
    /// By the begin of the part.
    pub(crate) of: FxHashMap<SliceId, BTreeMap<i64, FramePart>>,
}

impl Spanning {
    /// Cost: a pass over the slices, and for each such frame the cycles that it reaches over.
    pub(crate) fn new(timeline: &Timeline<'_>, cuts: &Cuts) -> Self {
        let mut of: FxHashMap<SliceId, BTreeMap<i64, FramePart>> = FxHashMap::default();
        for slice in timeline.trace.slices() {
            let process = timeline.process(slice);
            let thread = cuts.threads.get(process as usize).copied().flatten();
            if thread != Some(timeline.thread(slice)) || !timeline.kind(slice).is_code() {
                continue;
            }
            let range = (slice.ts().nanos(), slice.end().nanos());
            // Time of the frame around it is not that frame's own.
            let mut around = slice.ancestors();
            if !of.is_empty()
                && let Some(parent) = around.find(|p| timeline.kind(*p).is_code())
                && let Some(parts) = of.get_mut(&parent.id())
            {
                for (_, inside) in cuts.within(process, range) {
                    // The part of the parent that this instant is in.
                    if let Some((_, part)) = parts.range_mut(..=inside.0).next_back() {
                        let end = inside.1.min(part.at.1);
                        part.own_ns -= (end - inside.0).max(0);
                    }
                }
            }
            let mut parts = cuts.within(process, range).map(|(cycle, at)| {
                let own_ns = at.1 - at.0;
                (at.0, FramePart { cycle, at, own_ns })
            });
            let (first, second) = (parts.next(), parts.next());
            let is_over = first
                .as_ref()
                .is_some_and(|(from, part)| *from > range.0 || part.at.1 < range.1);
            if is_over {
                let all = first.into_iter().chain(second).chain(parts);
                of.insert(slice.id(), all.collect());
            }
        }
        Self { of }
    }
}
