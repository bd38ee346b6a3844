//! Records the order in which request sizes first appear in the input: the published scripts print their maps in that order,
//! which is not that of time.

use rustc_hash::FxHashSet;

use crate::event::{Event, EventKind, Renumber};

/// Operation letters and whole KiB of issued requests, in the order of the lines of the inputs.
#[derive(Debug, Clone, Default)]
pub struct FirstSizes {
    order: Vec<(u16, u32)>,
    known: FxHashSet<(u16, u32)>,
}

impl FirstSizes {
    /// Those of events that are still in the order of their lines.
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut found = Self::default();
        let mut last = None;
        for event in events.iter().filter(|e| e.kind == EventKind::Issue) {
            let size = (event.rwbs, event.bytes >> 10);
            if last != Some(size) {
                found.add(size);
                last = Some(size);
            }
        }
        found
    }

    fn add(&mut self, size: (u16, u32)) {
        if self.known.insert(size) {
            self.order.push(size);
        }
    }

    /// Adds those of the lines behind, whose letters have these numbers here.
    pub(crate) fn append(&mut self, behind: &Self, renumber: &Renumber) {
        for (rwbs, kib) in &behind.order {
            self.add((renumber.rwbs(*rwbs), *kib));
        }
    }

    /// Returns the number of the operation letters, and the size in whole KiB.
    #[must_use]
    pub fn in_order(&self) -> &[(u16, u32)] {
        &self.order
    }
}
