//! Annotations of the host that give the lengths of a step.

use trace_model::ThreadId;
use trace_model::kernel::{Activity, TraceIndex};

use crate::step_name::Lengths;

/// An annotation that gives lengths.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// Begin on the host.
    pub begin_ns: i64,
    /// End on the host.
    pub end_ns: i64,
    /// Requests and tokens that it gives.
    pub lengths: Lengths,
    thread: Option<ThreadId>,
}

/// All of them in ascending time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) all: Vec<Mark>,
    /// Latest end among the annotations up to each place.
    latest_end: Vec<i64>,
}

impl Marks {
    pub(crate) fn new(index: &TraceIndex<'_>) -> Self {
        let trace = index.trace();
        let mut known: Vec<Option<Option<Lengths>>> = vec![None; trace.strings().len()];
        let mut all: Vec<Mark> = Vec::new();
        for slice in trace.slices() {
            if index.activity(slice) != Activity::UserAnnotation {
                continue;
            }
            let Some(id) = slice.name_id() else { continue };
            let Some(slot) = known.get_mut(id.index()) else {
                continue;
            };
            if let Some(lengths) = *slot.get_or_insert_with(|| Lengths::of_name(trace.text(id))) {
                all.push(Mark {
                    name: trace.text(id).to_owned(),
                    begin_ns: slice.ts().nanos(),
                    end_ns: slice.end().nanos(),
                    lengths,
                    thread: slice.track().thread,
                });
            }
        }
        let mut latest = i64::MIN;
        let ends = all.iter().map(|mark| {
            latest = latest.max(mark.end_ns);
            latest
        });
        Self {
            latest_end: ends.collect(),
            all,
        }
    }

    /// The annotation around an instant of a thread: one of the same thread before others, one with sums before others, the
    /// innermost of those.
    pub(crate) fn at(&self, ns: i64, thread: Option<ThreadId>) -> Option<usize> {
        let from = self.all.partition_point(|mark| mark.begin_ns <= ns);
        let mut best: Option<((bool, bool), usize)> = None;
        for at in (0..from).rev() {
            if self.latest_end[at] <= ns {
                break;
            }
            let mark = &self.all[at];
            if mark.end_ns <= ns {
                continue;
            }
            let rank = (mark.thread == thread, mark.lengths.sums().is_some());
            if best.is_none_or(|(known, _)| rank > known) {
                best = Some((rank, at));
            }
        }
        best.map(|(_, at)| at)
    }
}
