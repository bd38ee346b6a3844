//! Binds flows: applies each point of a flow once its slice is known.
//!
//! The rules follow Perfetto's trace processor (`flow_tracker.cc`).

use std::sync::mpsc::{Receiver, Sender, channel};

use crate::builder::attached::AttachedFlows;
use crate::builder::batch::{FlowPoint, FlowRole};
use crate::builder::flow_ends::FlowEnds;
use crate::builder::nest::OUTLINED;
use crate::diagnostics::{Diagnostics, IssueKind, Place};
use crate::ids::SliceId;
use crate::table::flow::Flow;

/// The slice of an event to which flows are attached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundEvent {
    pub(crate) ts: i64,
    /// Index of the event in the file.
    pub(crate) event: u32,
    /// `None` if the event was dropped.
    pub(crate) slice: Option<SliceId>,
}

/// Number of events in a batch that is sent to another thread.
const BATCH: usize = 1 << 12;

/// Sends events to a [`Binder`] that works at its own pace.
#[derive(Debug)]
pub(crate) struct Outbox {
    batch: Vec<BoundEvent>,
    to: Sender<Vec<BoundEvent>>,
}

/// Returns an outbox and the receiver of its events; the receiver ends when the outbox is dropped.
pub(crate) fn post() -> (Outbox, Receiver<Vec<BoundEvent>>) {
    let (to, from) = channel();
    let batch = Vec::new();
    (Outbox { batch, to }, from)
}

impl Outbox {
    #[inline]
    pub(crate) fn push(&mut self, bound: BoundEvent) {
        self.batch.push(bound);
        if self.batch.len() >= BATCH {
            self.send();
        }
    }

    fn send(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        // A send fails only after the binder has panicked; that panic is reported when its thread
        // is joined.
        let _ = self.to.send(batch);
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.send();
    }
}

/// Binds flows, in processing order.
#[derive(Debug)]
pub(crate) struct Binder {
    attached: AttachedFlows,
    ends: FlowEnds,
    arrows: Vec<Flow>,
    /// Arrows from or to a slice of which only the outline is kept: all, and those whose other end is kept.
    outlined: (u64, u64),
    diagnostics: Diagnostics,
}

impl Binder {
    /// Creates a binder for flows attached to events, and builds their index. `number` gives the
    /// flows numbers, which requires that no flow has an event of its own. Issues go to
    /// `diagnostics`.
    pub(crate) fn new(mut attached: AttachedFlows, number: bool, diagnostics: Diagnostics) -> Self {
        attached.build_index();
        if number {
            attached.number();
        }
        Self {
            ends: FlowEnds::new(attached.numbered()),
            attached,
            arrows: Vec::new(),
            outlined: (0, 0),
            diagnostics,
        }
    }

    /// Binds the flows of all received events.
    pub(crate) fn bind_all(&mut self, from: Receiver<Vec<BoundEvent>>) {
        for batch in from {
            for bound in batch {
                self.bind_attached(bound);
            }
        }
    }

    /// Binds the flows attached to an event.
    pub(crate) fn bind_attached(&mut self, bound: BoundEvent) {
        let BoundEvent { ts, event, slice } = bound;
        let mut row = self.attached.first(event);
        while let Some((point, number)) = self.attached.get(row, event) {
            row += 1;
            match slice {
                Some(slice) => self.bind(slice, ts, point, number),
                None => self.no_slice(ts),
            }
        }
    }

    /// Counts a flow event that has no slice.
    pub(crate) fn no_slice(&mut self, ts: i64) {
        self.diagnostics
            .count(IssueKind::FlowNoSlice, Place::At(ts));
    }

    /// Binds a point to a slice.
    pub(crate) fn bind(&mut self, slice: SliceId, ts: i64, point: FlowPoint, number: Option<u32>) {
        let last = self.ends.last(point, number);
        let odd = match (point.role, last) {
            (FlowRole::Start | FlowRole::Through, None) => {
                self.ends.begin(point, number, slice);
                return;
            }
            (FlowRole::Step | FlowRole::Through, Some(last)) => {
                let from = std::mem::replace(last, slice);
                self.arrow(from, slice, point);
                return;
            }
            (FlowRole::End | FlowRole::EndAtNext, Some(&mut from)) => {
                self.arrow(from, slice, point);
                return;
            }
            (FlowRole::Terminate, Some(&mut from)) => {
                self.arrow(from, slice, point);
                self.ends.forget(point, number);
                return;
            }
            // There is nothing to terminate.
            (FlowRole::Terminate, None) => return,
            (FlowRole::Start, Some(_)) => IssueKind::FlowDuplicate,
            (FlowRole::Step, None) => IssueKind::FlowStepWithoutStart,
            (FlowRole::End | FlowRole::EndAtNext, None) => IssueKind::FlowEndWithoutStart,
        };
        self.diagnostics.count(odd, Place::At(ts));
    }

    fn arrow(&mut self, from: SliceId, to: SliceId, point: FlowPoint) {
        if from == OUTLINED || to == OUTLINED {
            self.outlined.0 += 1;
            self.outlined.1 += u64::from(from != to);
            return;
        }
        self.arrows.push(Flow {
            from,
            to,
            id: point.id,
            category: point.category,
            name: point.name,
        });
    }

    /// Returns the number of arrows from or to slices of which only the outline is kept, and of those whose other end is kept.
    pub(crate) fn outlined(&self) -> (u64, u64) {
        self.outlined
    }

    /// Returns all arrows and issues. `ts` are the slices' times: an arrow runs from the earlier
    /// slice to the later one regardless of the order of the events.
    pub(crate) fn finish(mut self, ts: &[i64]) -> (Vec<Flow>, Diagnostics) {
        for arrow in &mut self.arrows {
            // Slices are numbered by time.
            let (from, to) = (arrow.from.index(), arrow.to.index());
            if from > to && ts[from] > ts[to] {
                std::mem::swap(&mut arrow.from, &mut arrow.to);
            }
        }
        (self.arrows, self.diagnostics)
    }
}
