//! Putting events into the order of time while they arrive.
//!
//! Tracers drain their per-processor buffers one after the other, so lines step back in time. Events are held until no
//! earlier one can come, which is a window of time (one second unless stated otherwise). Of an input that cannot be read
//! again, up to a million events are held whatever the window, so that the order of small ones is exact.

use std::collections::VecDeque;
use std::ops::Range;

use crate::analyse::runs::Shape;
use crate::event::Event;
use crate::num::{bit_length, index};
use crate::radix::by_digits;

/// Events that are held before the window matters, when the input cannot be read again.
const HOLD: usize = 1 << 20;
/// The same when it can: few enough to stay near the processor.
const HOLD_SHORTLY: usize = 1 << 14;
/// Events of a block when blocks have to be cut anew.
const BLOCK: usize = 1 << 15;

/// Events in order, and their shape where it is known.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) events: Vec<Event>,
    pub(crate) shape: Option<Shape>,
}

impl Held {
    /// After these events were replaced.
    fn mend_shape(&mut self, changed: Range<usize>) {
        if let Some(shape) = &mut self.shape
            && !shape.mend(&self.events, changed)
        {
            self.shape = None;
        }
    }
}

/// The events of one piece of input in order of time, and what the piece looked like before.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    held: Held,
    /// Time of the event that came first.
    first_ns: u64,
    /// Time of the event that came last.
    last_ns: u64,
    steps: u64,
    largest_step_ns: u64,
}

impl Piece {
    /// Sorts events that come in the order of the input. This is what costs time, and can be done on any thread.
    ///
    /// `shaping` is the time of the first issue of the trace, when shapes are wanted, and memory for one.
    pub(crate) fn new(
        mut events: Vec<Event>,
        shaping: Option<(u64, Shape)>,
        scratch: &mut Scratch,
    ) -> Self {
        let mut steps = 0;
        let mut largest_step_ns = 0;
        let mut previous = events.first().map_or(0, |event| event.t_ns);
        let mut in_order = true;
        let mut previous_key = (0, false);
        for event in &events {
            if event.t_ns < previous {
                steps += 1;
                largest_step_ns = largest_step_ns.max(previous - event.t_ns);
            }
            previous = event.t_ns;
            in_order &= event.key() >= previous_key;
            previous_key = event.key();
        }
        let first_ns = events.first().map_or(0, |event| event.t_ns);
        if !in_order {
            sort(&mut events, steps, scratch);
        }
        let shape = shaping
            .map(|(first_issue_ns, spare)| Shape::of(&events, &mut Some(first_issue_ns), spare));
        Self {
            held: Held { events, shape },
            first_ns,
            last_ns: previous,
            steps,
            largest_step_ns,
        }
    }

    /// The events, to change what is not their time. Their shape is forgotten.
    pub(crate) fn events_mut(&mut self) -> &mut [Event] {
        self.held.shape = None;
        &mut self.held.events
    }
}

/// Holds events back and hands them out in order, in blocks.
///
/// Blocks stay as they came: only where two of them overlap in time are events moved.
#[derive(Debug)]
pub(crate) struct Order {
    /// Each in order; one with the next only after [`Order::settle`].
    blocks: VecDeque<Held>,
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
    pub(crate) fn push(&mut self, piece: Piece) -> Vec<Held> {
        let events = &piece.held.events;
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
        self.blocks.push_back(piece.held);
        if self.keep_all || self.held < self.hold {
            return Vec::new();
        }
        self.settle();
        let until = self.newest_ns.saturating_sub(self.window_ns);
        let before = self.held;
        let mut ready = Vec::new();
        while let Some(block) = self.blocks.front()
            && block.events.last().is_none_or(|event| event.t_ns < until)
        {
            let Some(block) = self.blocks.pop_front() else {
                break;
            };
            self.held -= block.events.len();
            if let Some(last) = block.events.last() {
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

    /// What is left, at the end.
    pub(crate) fn finish(&mut self) -> VecDeque<Held> {
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
            match join(&mut before.events, &mut after.events, at == 1) {
                Joined::Apart => {}
                Joined::Moved { tail, head } => {
                    before.mend_shape(tail..before.events.len());
                    after.mend_shape(0..head);
                }
                Joined::Across => {
                    self.sort_all();
                    return;
                }
            }
        }
    }

    /// As [`Order::settle`] for blocks that lie across each other: one sort of everything.
    fn sort_all(&mut self) {
        let mut all = Vec::with_capacity(self.held);
        for block in std::mem::take(&mut self.blocks) {
            all.extend_from_slice(&block.events);
        }
        // The blocks are runs, which the sort finds and merges.
        all.sort_by_key(Event::key);
        let blocks = all.chunks(BLOCK).map(|events| Held {
            events: events.to_vec(),
            shape: None,
        });
        self.blocks = blocks.collect();
    }
}

/// How two successive blocks lie to each other.
enum Joined {
    /// One behind the other.
    Apart,
    /// They overlapped, and do no longer: events moved between the end of the first, from a place on, and the beginning of the
    /// second, up to a place.
    Moved { tail: usize, head: usize },
    /// They overlap so much that others may be concerned.
    Across,
}

/// Puts the end of one block and the beginning of the next in order, unless the overlap goes through the whole first block,
/// so that the one before it might be concerned, which cannot be if it `is_first`.
fn join(before: &mut [Event], after: &mut [Event], is_first: bool) -> Joined {
    let (Some(last), Some(first)) = (before.last(), after.first()) else {
        return if before.is_empty() && is_first || after.is_empty() {
            Joined::Apart
        } else {
            Joined::Across
        };
    };
    let (last, first) = (last.key(), first.key());
    if last <= first {
        return Joined::Apart;
    }
    let tail = before.partition_point(|event| event.key() <= first);
    if tail == 0 && !is_first {
        return Joined::Across;
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
    Joined::Moved { tail, head }
}

/// Memory for sorting, used again from piece to piece.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    keys: Vec<u64>,
    sorted: Vec<u64>,
    events: Vec<Event>,
}

/// Sorts by time, issues before completions, else as it was; `steps` events are before the one in front of them.
///
/// A few short steps back are put right one by one, which costs little more than looking at the events. Otherwise words of
/// time and place are sorted by their digits, which costs the same whatever the disorder.
fn sort(events: &mut Vec<Event>, steps: u64, scratch: &mut Scratch) {
    if steps.saturating_mul(FEW) <= events.len() as u64 && insert(events) {
        return;
    }
    let times = || events.iter().map(|event| event.t_ns);
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        return;
    };
    let place_bits = bit_length(events.len() as u64);
    let key_bits = bit_length(last - first) + 1;
    if place_bits + key_bits > u64::BITS {
        events.sort_by_key(Event::key);
        return;
    }
    let keys = &mut scratch.keys;
    keys.clear();
    keys.extend((0_u64..).zip(&*events).map(|(place, event)| {
        let (t_ns, is_completion) = event.key();
        ((t_ns - first) << 1 | u64::from(is_completion)) << place_bits | place
    }));
    by_digits(keys, &mut scratch.sorted, |key| key >> place_bits);
    let place = (1_u64 << place_bits) - 1;
    if let Some(any) = events.first().copied() {
        let at = |key: &u64| events.get(index(key & place)).copied();
        let in_order = keys.iter().map(|key| at(key).unwrap_or(any));
        scratch.events.clear();
        scratch.events.extend(in_order);
        std::mem::swap(events, &mut scratch.events);
    }
}

/// Steps back are few when there is one to this many events.
const FEW: u64 = 8;
/// Sorts events that are mostly in order, by putting each that is too late where it belongs; `false` when that is not
/// finished because it is too far for many of them. Equal ones keep their order either way.
fn insert(events: &mut [Event]) -> bool {
    let mut budget = events.len().max(1 << 10);
    for at in 1..events.len() {
        let Some((late, sorted)) = events.get_mut(..=at).and_then(<[Event]>::split_last_mut) else {
            break;
        };
        let key = late.key();
        let before = sorted
            .iter()
            .rev()
            .take_while(|event| event.key() > key)
            .take(budget);
        let distance = before.count();
        if distance == 0 {
            continue;
        }
        let Some(left) = budget.checked_sub(distance).filter(|left| *left > 0) else {
            return false;
        };
        budget = left;
        if let Some(range) = events.get_mut(at - distance..=at) {
            range.rotate_right(1);
        }
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

    proptest! {
        #[test]
        fn the_order_is_that_of_a_stable_sort(times in prop::collection::vec((prop_oneof![0_u64..40, any::<u64>().prop_map(|t| t >> 1), any::<u64>()], any::<bool>()), 0..300)) {
            let events: Vec<Event> = times
                .iter()
                .enumerate()
                .map(|(i, (t, done))| {
                    let kind = if *done { EventKind::Complete } else { EventKind::Issue };
                    event(*t, i as u64, kind)
                })
                .collect();
            let mut twin = events.clone();
            twin.sort_by_key(|e| (e.t_ns, e.kind == EventKind::Complete));
            for steps in [0, u64::MAX] {
                let mut sorted = events.clone();
                sort(&mut sorted, steps, &mut Scratch::default());
                prop_assert_eq!(&sorted, &twin);
            }
        }
    }

    fn times(blocks: impl IntoIterator<Item = Held>) -> Vec<u64> {
        let events = blocks.into_iter().flat_map(|held| held.events);
        events.map(|e| e.t_ns).collect()
    }

    proptest! {
        #[test]
        fn blocks_hand_out_what_a_stable_sort_gives(
            times in prop::collection::vec(0_u64..60, 0..300),
            drift in 0_u64..3,
            size in 1_usize..20,
            hold in 1_usize..100,
        ) {
            let events: Vec<Event> = (0_u64..)
                .zip(&times)
                .map(|(i, t)| event(t + i * drift, i, EventKind::Issue))
                .collect();
            let mut order = Order::new(60, false, false);
            order.hold = hold;
            let mut out = Vec::new();
            for piece in events.chunks(size) {
                out.extend(order.push(Piece::new(piece.to_vec(), None, &mut Scratch::default())).into_iter().flat_map(|held| held.events));
            }
            out.extend(order.finish().into_iter().flat_map(|held| held.events));
            let mut twin = events.clone();
            twin.sort_by_key(|e| e.t_ns);
            prop_assert_eq!(order.late, 0);
            prop_assert_eq!(out, twin);
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
                None,
                &mut Scratch::default(),
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
