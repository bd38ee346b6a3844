//! Pairs under both policies, from the first completion on.

use super::Analyser;
use super::pairing::{Pairing, Policy};
use crate::event::{Event, EventKind};

/// Events that wait for a completion before the oldest are given up.
const WAITING: usize = 1 << 18;

/// Both policies side by side.
///
/// A log of issues alone has nothing to pair, and would leave every place it names outstanding. So events wait until a
/// completion comes, and those that were too old for it by then are dropped when they are many.
#[derive(Debug, Clone)]
pub struct Pairs {
    newest: Pairing,
    fifo: Pairing,
    stale_ns: u64,
    /// `None` once a completion has come.
    waiting: Option<Vec<Event>>,
    limit: usize,
}

impl Pairs {
    /// With the age at which an outstanding issue is given up.
    #[must_use]
    pub fn new(stale_ns: u64) -> Self {
        Self {
            newest: Pairing::new(Policy::Newest, stale_ns),
            fifo: Pairing::new(Policy::Fifo, stale_ns),
            stale_ns,
            waiting: Some(Vec::new()),
            limit: WAITING,
        }
    }

    fn feed(&mut self, events: &[Event]) {
        self.newest.observe_all(events);
        self.fifo.observe_all(events);
    }

    fn give_up(&mut self, events: &[Event]) {
        let issues = events.iter().filter(|e| e.kind == EventKind::Issue).count() as u64;
        self.newest.give_up(issues);
        self.fifo.give_up(issues);
    }

    /// The pairs by policy: newest, first in first out. Closes what is open.
    #[must_use]
    pub fn finish(mut self) -> (Pairing, Pairing) {
        if let Some(waiting) = self.waiting.take() {
            self.give_up(&waiting);
        }
        self.newest.finish();
        self.fifo.finish();
        (self.newest, self.fifo)
    }
}

impl Analyser for Pairs {
    fn observe(&mut self, event: &Event) {
        self.observe_all(std::slice::from_ref(event));
    }

    fn observe_all(&mut self, events: &[Event]) {
        let Some(mut waiting) = self.waiting.take() else {
            return self.feed(events);
        };
        if events.iter().any(|e| e.kind == EventKind::Complete) {
            self.feed(&waiting);
            return self.feed(events);
        }
        waiting.extend_from_slice(events);
        if waiting.len() > self.limit {
            let newest_ns = waiting.last().map_or(0, |event| event.t_ns);
            let until = newest_ns.saturating_sub(self.stale_ns);
            let old = waiting.partition_point(|event| event.t_ns < until);
            self.give_up(waiting.get(..old).unwrap_or_default());
            waiting.drain(..old);
            self.limit = WAITING.max(waiting.len() * 2);
        }
        self.waiting = Some(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rwbs::Direction;

    fn event(kind: EventKind, t_ns: u64, sector: u64) -> Event {
        Event {
            t_ns,
            sector,
            nr_sector: 8,
            bytes: 4096,
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

    #[test]
    fn issues_wait_for_the_first_completion() {
        let mut pairs = Pairs::new(1_000);
        pairs.limit = 10;
        for t in 0..100 {
            pairs.observe(&event(EventKind::Issue, t * 100, t));
        }
        pairs.observe(&event(EventKind::Complete, 9_950, 95));
        let (newest, fifo) = pairs.finish();
        for pairing in [newest, fifo] {
            assert_eq!(pairing.matching.pairs, 1);
            assert_eq!(pairing.matching.unmatched_issues, 99);
            assert_eq!(pairing.latency[0].all.max, 450);
        }
        let mut alone = Pairs::new(1_000);
        alone.observe(&event(EventKind::Issue, 5, 0));
        assert_eq!(alone.finish().0.matching.unmatched_issues, 1);
    }
}
