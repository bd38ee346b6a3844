//! The longest events of each name, which findings show as evidence.

use std::collections::BTreeMap;

use gpu_time::GpuWork;
use trace_model::{Slice, SliceId};

/// An event of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: u64,
    pub(crate) begin_ns: i64,
    pub(crate) duration_ns: i64,
}

/// Events of one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    /// Longest first.
    pub(crate) longest: Vec<Event>,
    /// Host stack of the longest one, outermost first; of GPU work that of its launch.
    pub(crate) stack: Vec<String>,
}

/// Number of events kept of each name.
const KEPT: usize = 8;

/// Number of names kept, those with most time.
const NAMES: usize = 3_000;

/// Maximum number of frames of a stack.
const FRAMES: usize = 64;

/// The longest events of each name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Examples {
    names: BTreeMap<String, Named>,
}

#[derive(Clone, Default)]
struct Slot {
    count: u64,
    total_ns: i64,
    /// Duration and id, the longest first.
    longest: Vec<(i64, SliceId)>,
}

impl Examples {
    /// Collects them in one pass over the slices.
    pub(crate) fn new(work: &GpuWork<'_>) -> Self {
        let trace = work.trace();
        let mut slots: Vec<Slot> = vec![Slot::default(); trace.strings().len()];
        for slice in trace.slices() {
            let Some(slot) = slice.name_id().and_then(|name| slots.get_mut(name.index())) else {
                continue;
            };
            let ns = slice.end().nanos().saturating_sub(slice.ts().nanos());
            slot.count += 1;
            slot.total_ns = slot.total_ns.saturating_add(ns);
            let at = slot.longest.partition_point(|(longer, _)| *longer >= ns);
            if at < KEPT {
                slot.longest.insert(at, (ns, slice.id()));
                slot.longest.truncate(KEPT);
            }
        }
        let mut all: Vec<Slot> = slots.into_iter().filter(|slot| slot.count > 0).collect();
        all.sort_by_key(|slot| {
            let first = slot.longest.first().map(|(_, id)| id.index());
            (std::cmp::Reverse(slot.total_ns), first)
        });
        all.truncate(NAMES);
        let mut names = BTreeMap::new();
        for slot in all {
            let Some((_, first)) = slot.longest.first() else {
                continue;
            };
            let slice = trace.slice(*first);
            let events = slot.longest.iter().map(|(ns, id)| Event {
                id: id.index() as u64,
                begin_ns: trace.slice(*id).ts().nanos(),
                duration_ns: *ns,
            });
            let named = Named {
                longest: events.collect(),
                stack: stack(work, slice),
            };
            names.insert(slice.name().unwrap_or("").to_owned(), named);
        }
        Self { names }
    }

    /// Moves all events to another clock.
    pub(crate) fn shift(&mut self, to: impl Fn(i64) -> i64) {
        for event in self.names.values_mut().flat_map(|named| &mut named.longest) {
            event.begin_ns = to(event.begin_ns);
        }
    }

    /// Returns the events of a name.
    pub(crate) fn of(&self, name: &str) -> Option<&Named> {
        self.names.get(name)
    }

    /// Returns the longest kept event of a name that begins in an interval.
    pub(crate) fn within(&self, name: &str, (begin, end): (i64, i64)) -> Option<Event> {
        let named = self.names.get(name)?;
        let mut events = named.longest.iter();
        events
            .find(|event| begin <= event.begin_ns && event.begin_ns < end)
            .copied()
    }
}

fn stack(work: &GpuWork<'_>, slice: Slice<'_>) -> Vec<String> {
    let index = work.index();
    let start = match index.activity(slice).is_device_work() {
        true => match index.launch_of(work.trace().slice(slice.id())) {
            Some((launch, _)) => launch,
            None => return Vec::new(),
        },
        false => slice,
    };
    let frames = start.ancestors().filter_map(|slice| slice.name());
    let mut frames: Vec<String> = frames
        .take(FRAMES)
        .map(|name| crate::numbers::plain(name, 200))
        .collect();
    frames.reverse();
    frames
}
