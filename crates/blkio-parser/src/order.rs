//! Putting events into the order of time while they arrive.
//!
//! Tracers drain their per-processor buffers one after the other, so lines step back in time. Events are held until no
//! earlier one can come, which is a window of time (one second unless stated otherwise). Up to a million events are held
//! whatever the window, so the order of small inputs is exact.

use crate::event::Event;

/// Events that are held before the window matters.
const HOLD: usize = 1 << 20;

/// Holds events back and hands them out in order.
#[derive(Debug)]
pub(crate) struct Order {
    held: Vec<Event>,
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
    pub(crate) fn new(window_ns: u64, keep_all: bool) -> Self {
        Self {
            held: Vec::new(),
            window_ns,
            hold: if keep_all { usize::MAX } else { HOLD },
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

    /// Takes events in the order of the input; gives those whose turn has come.
    pub(crate) fn push(&mut self, events: &[Event]) -> Option<Vec<Event>> {
        for event in events {
            if event.t_ns < self.previous_ns {
                self.backward_steps += 1;
                let step = self.previous_ns - event.t_ns;
                self.largest_backward_step_ns = self.largest_backward_step_ns.max(step);
            }
            self.previous_ns = event.t_ns;
            self.newest_ns = self.newest_ns.max(event.t_ns);
            self.late += u64::from(event.t_ns < self.handed_ns);
        }
        self.held.extend_from_slice(events);
        if self.held.len() < self.hold {
            return None;
        }
        sort(&mut self.held);
        let until = self.newest_ns.saturating_sub(self.window_ns);
        let count = self.held.partition_point(|event| event.t_ns < until);
        if count < self.held.len() / 4 {
            // The window holds nearly everything: look again when there is much more.
            self.hold = self.hold.saturating_mul(2);
        }
        if count == 0 {
            return None;
        }
        self.handed_ns = until;
        let rest = self.held.split_off(count);
        Some(std::mem::replace(&mut self.held, rest))
    }

    /// What is left, at the end.
    pub(crate) fn finish(&mut self) -> Vec<Event> {
        sort(&mut self.held);
        std::mem::take(&mut self.held)
    }
}

/// Sorts by time, issues before completions, else as it was. Nearly sorted input costs one pass.
fn sort(events: &mut [Event]) {
    let mut budget = events.len().saturating_mul(8).max(1 << 12);
    for at in 1..events.len() {
        let (Some(event), Some(before)) = (events.get(at), events.get(at - 1)) else {
            break;
        };
        let key = event.key();
        if key >= before.key() {
            continue;
        }
        // Search backwards in growing steps: most steps back are short.
        let mut step = 1;
        let mut low = at;
        while low > 0 && events.get(low - 1).is_some_and(|e| e.key() > key) {
            low = low.saturating_sub(step);
            step *= 2;
        }
        let Some(range) = events.get_mut(low..=at) else {
            break;
        };
        let place = range
            .get(..range.len() - 1)
            .map_or(0, |sorted| sorted.partition_point(|e| e.key() <= key));
        let moved = range.len() - place;
        if let Some(range) = range.get_mut(place..) {
            range.rotate_right(1);
        }
        if moved > budget {
            // Insertion keeps equal keys in order, so sorting on from here is stable, too.
            events.sort_by_key(Event::key);
            return;
        }
        budget -= moved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::rwbs::Direction;
    use proptest::prelude::*;

    fn event(t_ns: u64, number: u64, kind: EventKind) -> Event {
        Event {
            t_ns,
            sector: number,
            nr_sector: 0,
            bytes: 0,
            dev: 0,
            pid: 0,
            error: 0,
            comm: 0,
            cpu: 0,
            rwbs: 0,
            kind,
            direction: Direction::Read,
        }
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_a_stable_sort(times in prop::collection::vec((0_u64..40, any::<bool>()), 0..300)) {
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
            let mut sorted = events;
            sort(&mut sorted);
            prop_assert_eq!(sorted, twin);
        }
    }

    #[test]
    fn a_window_hands_out_early_and_counts_what_comes_too_late() {
        let mut order = Order::new(10, false);
        order.hold = 4;
        let events: Vec<Event> = [0, 5, 3, 30, 25]
            .map(|t| event(t, 0, EventKind::Issue))
            .into();
        let handed = order.push(&events).unwrap();
        assert_eq!(handed.iter().map(|e| e.t_ns).collect::<Vec<_>>(), [0, 3, 5]);
        assert_eq!(
            (order.largest_backward_step_ns, order.backward_steps),
            (5, 2)
        );
        order.push(&[event(7, 0, EventKind::Issue)]);
        assert_eq!(order.late, 1);
        assert_eq!(order.finish().len(), 3);
    }
}
