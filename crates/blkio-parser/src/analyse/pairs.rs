//! Pairs under both policies, from the first completion on.

use std::collections::VecDeque;
use std::sync::Arc;

use super::pairing::{Agreement, Pairing, Policy};
use super::runs::Batch;
use super::traffic::Grid;
use crate::event::EventKind;

/// Both policies side by side.
///
/// A log of issues alone has nothing to pair, and would leave every place it names outstanding. So events wait until a
/// completion comes, and those that were too old for it by then are dropped when they are many.
///
/// In a trace without loss the policies hardly ever differ. So the second begins where they first do, from what both made
/// of the events until then.
#[derive(Debug, Clone)]
pub struct Pairs {
    newest: Pairing,
    /// `None` while both policies say the same.
    fifo: Option<Box<Pairing>>,
    stale_ns: u64,
    grid: Grid,
    has_begun: bool,
    /// `None` once a completion has come.
    waiting: Option<VecDeque<Arc<Batch>>>,
}

impl Pairs {
    /// Returns the pairs of no events, with the age at which an outstanding issue is given up, and the bins of queue depth,
    /// latency and bytes in flight.
    #[must_use]
    pub fn new(stale_ns: u64, grid: Grid) -> Self {
        Self {
            newest: Pairing::new(Policy::Newest, stale_ns),
            fifo: None,
            stale_ns,
            grid,
            has_begun: false,
            waiting: Some(VecDeque::new()),
        }
    }

    fn feed(&mut self, batch: &Batch) {
        let mut events = batch.events.as_slice();
        if self.fifo.is_none() {
            let apart = events
                .iter()
                .position(|event| self.newest.take_alike(event) == Agreement::Apart);
            let Some(apart) = apart else { return };
            self.fifo = Some(Box::new(self.newest.to_fifo()));
            events = events.get(apart..).unwrap_or_default();
        }
        self.newest.observe_all(events);
        if let Some(fifo) = &mut self.fifo {
            fifo.observe_all(events);
        }
    }

    fn give_up(&mut self, batch: &Batch) {
        self.newest.give_up(batch.issues);
        if let Some(fifo) = &mut self.fifo {
            fifo.give_up(batch.issues);
        }
    }

    /// Closes what is open; call once after the last event.
    pub fn finish(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.iter().for_each(|batch| self.give_up(batch));
        }
        self.newest.finish();
        if let Some(fifo) = &mut self.fifo {
            fifo.finish();
        }
    }

    /// Returns the policy of the first of [`Pairs::both`].
    pub(crate) fn policy(&self) -> Policy {
        match self.fifo.is_some() && self.newest.replaced_wrongly() {
            true => Policy::Fifo,
            false => Policy::Newest,
        }
    }

    /// Returns the pairs by policy: newest, first in first out.
    ///
    /// The newest request replaces another of its place because completions get lost. In a recording that lost none of them,
    /// requests of one place were in flight at once: there both are first in first out.
    #[must_use]
    pub fn both(self) -> (Pairing, Pairing) {
        match self.fifo {
            None => {
                let fifo = self.newest.of_all();
                (self.newest, fifo)
            }
            Some(fifo) if self.newest.replaced_wrongly() => {
                let light = fifo.of_all();
                (*fifo, light)
            }
            Some(fifo) => (self.newest, fifo.of_all()),
        }
    }
}

impl Pairs {
    /// Takes the next events, which are kept rather than copied while they wait.
    pub fn take(&mut self, batch: &Arc<Batch>) {
        if !self.has_begun
            && let Some(first) = batch.events.iter().find(|e| e.kind == EventKind::Issue)
        {
            self.has_begun = true;
            self.newest.in_bins(self.grid, first.t_ns);
        }
        let Some(mut waiting) = self.waiting.take() else {
            return self.feed(batch);
        };
        if batch.completions > 0 {
            waiting.iter().for_each(|batch| self.feed(batch));
            return self.feed(batch);
        }
        waiting.push_back(Arc::clone(batch));
        let newest_ns = batch.events.last().map_or(0, |event| event.t_ns);
        let until = newest_ns.saturating_sub(self.stale_ns);
        while let Some(oldest) = waiting.front()
            && oldest.events.last().is_none_or(|e| e.t_ns < until)
        {
            self.give_up(oldest);
            waiting.pop_front();
        }
        self.waiting = Some(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::runs::Runs;
    use crate::event::Event;

    fn event(kind: EventKind, t_ns: u64, sector: u64) -> Event {
        Event {
            t_ns,
            sector,
            nr_sector: 8,
            bytes: 4096,
            kind,
            ..Event::BLANK
        }
    }

    #[test]
    fn issues_wait_for_the_first_completion() {
        let mut pairs = Pairs::new(1_000, Grid::new(500, false));
        let one = |event| Arc::new(Runs::within(Grid::new(1, false)).batch(Arc::new(vec![event])));
        for t in 0..100 {
            pairs.take(&one(event(EventKind::Issue, t * 100, t)));
            assert!(pairs.waiting.as_ref().unwrap().len() <= 11);
        }
        pairs.take(&one(event(EventKind::Complete, 9_950, 95)));
        pairs.finish();
        let (newest, fifo) = pairs.both();
        // Bins begin at the first issue, which was given up long ago.
        let bins = newest.depth.bins.as_ref().unwrap().bins();
        let found: Vec<_> = bins.iter().map(|(bin, b)| (*bin, b.integral)).collect();
        assert_eq!(found, [(19, 450)]);
        for pairing in [newest, fifo] {
            assert_eq!(pairing.matching.pairs, 1);
            assert_eq!(pairing.matching.unmatched_issues, 99);
            assert_eq!(pairing.latency[0].max, 450);
        }
        let mut alone = Pairs::new(1_000, Grid::new(500, false));
        alone.take(&one(event(EventKind::Issue, 5, 0)));
        alone.finish();
        assert_eq!(alone.both().0.matching.unmatched_issues, 1);
    }
}
