//! Puts events into the order of time while they arrive.
//!
//! Tracers drain their per-processor buffers one after the other, so lines step back in time. Events are held until no
//! earlier one can come, which is a window of time (one second unless stated otherwise). Of an input that cannot be read
//! again, up to a million events are held whatever the window, so that the order of small ones is exact.

use std::collections::VecDeque;

use crate::event::Event;

/// Events that are held before the window matters, when the input cannot be read again.
const HOLD: usize = 1 << 20;
/// The same when it can: few enough to stay near the processor.
const HOLD_SHORTLY: usize = 1 << 14;
/// Events of a block when blocks have to be cut anew.
const BLOCK: usize = 1 << 15;

/// The events of one piece of input in order of time, and what the piece looked like before.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    events: Vec<Event>,
    /// Time of the event that came first.
    first_ns: u64,
    /// Time of the event that came last.
    last_ns: u64,
    steps: u64,
    largest_step_ns: u64,
}

impl Piece {
    /// Sorts events that come in the order of the input. This is what costs time, and can be done on any thread.
    pub(crate) fn new(mut events: Vec<Event>) -> Self {
        let mut steps = 0;
        let mut largest_step_ns = 0;
        let first_ns = events.first().map_or(0, |event| event.t_ns);
        let mut previous_ns = first_ns;
        for event in &events {
            if event.t_ns < previous_ns {
                steps += 1;
                largest_step_ns = largest_step_ns.max(previous_ns - event.t_ns);
            }
            previous_ns = event.t_ns;
        }
        if !events.is_sorted_by_key(Event::key) {
            // Moves each event once, however far it is from its place.
            events.sort_by_cached_key(Event::key);
        }
        Self {
            events,
            first_ns,
            last_ns: previous_ns,
            steps,
            largest_step_ns,
        }
    }

    /// Returns the events, to change what is not their time.
    pub(crate) fn events_mut(&mut self) -> &mut [Event] {
        &mut self.events
    }
}

/// Holds events back and hands them out in order, in blocks.
///
/// Blocks stay as they came: only where two of them overlap in time are events moved.
#[derive(Debug)]
pub(crate) struct Order {
    /// Each in order; one with the next only after [`Order::settle`].
    blocks: VecDeque<Vec<Event>>,
    held: usize,
    keep_all: bool,
    window_ns: u64,
    hold: usize,
    newest_ns: u64,
    /// Everything before this time has been handed out.
    handed_ns: u64,
    /// Events that came after later ones had been handed out.
    pub(crate) late: u64,
    previous_ns: u64,
    /// Largest step back from one event to the next.
    pub(crate) largest_backward_step_ns: u64,
    /// Events that stepped back.
    pub(crate) backward_steps: u64,
}

impl Order {
    pub(crate) fn new(window_ns: u64, keep_all: bool, can_repeat: bool) -> Self {
        Self {
            blocks: VecDeque::new(),
            held: 0,
            keep_all,
            window_ns,
            hold: if can_repeat { HOLD_SHORTLY } else { HOLD },
            newest_ns: 0,
            handed_ns: 0,
            late: 0,
            previous_ns: 0,
            largest_backward_step_ns: 0,
            backward_steps: 0,
        }
    }

    /// Another input begins: its first event is no step back.
    pub(crate) fn next_input(&mut self) {
        self.previous_ns = 0;
    }

    /// Takes the next piece of the input; gives the blocks whose turn has come.
    pub(crate) fn push(&mut self, piece: Piece) -> Vec<Vec<Event>> {
        let events = &piece.events;
        let Some(newest) = events.last() else {
            return Vec::new();
        };
        self.newest_ns = self.newest_ns.max(newest.t_ns);
        if piece.first_ns < self.previous_ns {
            self.backward_steps += 1;
            let step = self.previous_ns - piece.first_ns;
            self.largest_backward_step_ns = self.largest_backward_step_ns.max(step);
        }
        self.backward_steps += piece.steps;
        self.largest_backward_step_ns = self.largest_backward_step_ns.max(piece.largest_step_ns);
        self.previous_ns = piece.last_ns;
        let handed_ns = self.handed_ns;
        self.late += events.partition_point(|e| e.t_ns < handed_ns) as u64;
        self.held += events.len();
        self.blocks.push_back(piece.events);
        if self.keep_all || self.held < self.hold {
            return Vec::new();
        }
        self.settle();
        let until = self.newest_ns.saturating_sub(self.window_ns);
        let before = self.held;
        let mut ready = Vec::new();
        while let Some(block) = self.blocks.front()
            && block.last().is_none_or(|event| event.t_ns < until)
        {
            let Some(block) = self.blocks.pop_front() else {
                break;
            };
            self.held -= block.len();
            if let Some(last) = block.last() {
                self.handed_ns = last.t_ns + 1;
            }
            ready.push(block);
        }
        if before - self.held < before / 4 {
            // The window holds nearly everything: look again when there is much more.
            self.hold = self.hold.saturating_mul(2);
        }
        ready
    }

    /// Returns what is left, at the end.
    pub(crate) fn finish(&mut self) -> VecDeque<Vec<Event>> {
        self.settle();
        self.held = 0;
        std::mem::take(&mut self.blocks)
    }

    /// Puts the blocks in order among themselves.
    fn settle(&mut self) {
        let blocks = self.blocks.make_contiguous();
        for at in 1..blocks.len() {
            let Some([before, after]) = blocks.get_mut(at - 1..=at) else {
                break;
            };
            if !join(before, after, at == 1) {
                self.sort_all();
                return;
            }
        }
    }

    /// As [`Order::settle`] for blocks that lie across each other: one sort of everything.
    fn sort_all(&mut self) {
        let mut all = Vec::with_capacity(self.held);
        for block in std::mem::take(&mut self.blocks) {
            all.extend_from_slice(&block);
        }
        // The blocks are runs, which the sort finds and merges.
        all.sort_by_key(Event::key);
        self.blocks = all.chunks(BLOCK).map(<[Event]>::to_vec).collect();
    }
}

/// Puts the end of one block and the beginning of the next in order; returns `false` if the overlap goes through the whole first
/// block, so that the one before it might be concerned, which cannot be if it `is_first`.
fn join(before: &mut [Event], after: &mut [Event], is_first: bool) -> bool {
    let (Some(last), Some(first)) = (before.last(), after.first()) else {
        return before.is_empty() && is_first || after.is_empty();
    };
    let (last, first) = (last.key(), first.key());
    if last <= first {
        return true;
    }
    let tail = before.partition_point(|event| event.key() <= first);
    if tail == 0 && !is_first {
        return false;
    }
    let head = after.partition_point(|event| event.key() < last);
    let mut overlap = before.get(tail..).unwrap_or_default().to_vec();
    overlap.extend_from_slice(after.get(..head).unwrap_or_default());
    overlap.sort_by_key(Event::key);
    let (early, late) = overlap.split_at(before.len() - tail);
    if let (Some(tail), Some(head)) = (before.get_mut(tail..), after.get_mut(..head)) {
        tail.copy_from_slice(early);
        head.copy_from_slice(late);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use proptest::prelude::*;

    fn event(t_ns: u64, number: u64, kind: EventKind) -> Event {
        Event {
            t_ns,
            sector: number,
            kind,
            ..Event::BLANK
        }
    }

    fn times(blocks: impl IntoIterator<Item = Vec<Event>>) -> Vec<u64> {
        blocks.into_iter().flatten().map(|e| e.t_ns).collect()
    }

    proptest! {
        #[test]
        fn blocks_hand_out_what_a_stable_sort_gives(
            times in prop::collection::vec((0_u64..60, any::<bool>()), 0..300),
            drift in 0_u64..3,
            size in 1_usize..20,
            hold in 1_usize..100,
        ) {
            let events: Vec<Event> = (0_u64..)
                .zip(&times)
                .map(|(i, (t, done))| {
                    let kind = if *done { EventKind::Complete } else { EventKind::Issue };
                    event(t + i * drift, i, kind)
                })
                .collect();
            let mut order = Order::new(60, false, false);
            order.hold = hold;
            let mut out = Vec::new();
            for piece in events.chunks(size) {
                out.extend(order.push(Piece::new(piece.to_vec())).into_iter().flatten());
            }
            out.extend(order.finish().into_iter().flatten());
            let mut model = events.clone();
            model.sort_by_key(|e| (e.t_ns, e.kind == EventKind::Complete));
            prop_assert_eq!(order.late, 0);
            prop_assert_eq!(out, model);
            let steps = events.windows(2).filter(|w| w[1].t_ns < w[0].t_ns);
            prop_assert_eq!(order.backward_steps, steps.count() as u64);
        }
    }

    #[test]
    fn a_window_hands_out_early_and_counts_what_comes_too_late() {
        let mut order = Order::new(10, false, false);
        order.hold = 4;
        let issues = |times: &[u64]| {
            Piece::new(
                times
                    .iter()
                    .map(|t| event(*t, 0, EventKind::Issue))
                    .collect(),
            )
        };
        assert!(order.push(issues(&[0, 5])).is_empty());
        // The second block lies across the first.
        let handed = order.push(issues(&[3, 30, 25]));
        assert_eq!(times(handed), [0, 3]);
        assert_eq!(
            (order.largest_backward_step_ns, order.backward_steps),
            (5, 2)
        );
        order.push(issues(&[2]));
        assert_eq!(order.late, 1);
        assert_eq!(times(order.finish()), [2, 5, 25, 30]);
    }
}
