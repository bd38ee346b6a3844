//! Bios between their queueing and the issue of the request that carries them.

use std::collections::{BTreeMap, VecDeque};

use crate::event::Event;

/// Bios that wait at once; beyond, the oldest is given up.
const MOST: usize = 1 << 20;

/// Where a bio waits.
type Place = (u32, u64);

/// Bios that wait.
///
/// Not every bio is issued where it was queued: the bios of a stacked device are issued by the devices below it, a cache may
/// answer one, and a trace may lose events. So one that waits longer than the stale limit is given up.
#[derive(Debug, Clone)]
pub(super) struct Queued {
    stale_ns: u64,
    most: usize,
    /// Times of queueing, the oldest first.
    places: BTreeMap<Place, VecDeque<u64>>,
    /// All that were queued, in order of time; those that were issued since are still there.
    order: VecDeque<(u64, Place)>,
    given_up: u64,
}

impl Queued {
    pub(super) fn new(stale_ns: u64) -> Self {
        Self {
            stale_ns,
            most: MOST,
            places: BTreeMap::new(),
            order: VecDeque::new(),
            given_up: 0,
        }
    }

    /// Takes a bio with sectors.
    pub(super) fn add(&mut self, event: &Event) {
        let place = (event.dev, event.sector);
        self.places.entry(place).or_default().push_back(event.t_ns);
        self.order.push_back((event.t_ns, place));
        let until = event.t_ns.saturating_sub(self.stale_ns);
        while let Some((t_ns, place)) = self.order.front().copied()
            && (t_ns < until || self.order.len() > self.most)
        {
            self.order.pop_front();
            self.give_up(t_ns, place);
        }
    }

    /// Gives up the bio that was queued there and then, if it still waits.
    fn give_up(&mut self, t_ns: u64, place: Place) {
        let Some(times) = self.places.get_mut(&place) else {
            return;
        };
        if times.front() == Some(&t_ns) {
            times.pop_front();
            self.given_up += 1;
        }
        if times.is_empty() {
            self.places.remove(&place);
        }
    }

    /// Returns the times at which the bios of a request were queued: those that start in its sectors.
    pub(super) fn take(&mut self, request: &Event) -> Vec<u64> {
        if self.places.is_empty() || !request.direction.is_data() {
            return Vec::new();
        }
        let end = request.sector.saturating_add(request.nr_sector.into());
        let range = (request.dev, request.sector)..(request.dev, end);
        let places: Vec<Place> = self.places.range(range).map(|(place, _)| *place).collect();
        let found = places.iter().filter_map(|place| self.places.remove(place));
        found.flatten().collect()
    }

    /// Bios that were never issued, as far as the trace tells; those that still wait are among them.
    pub(super) fn without_issue(&self) -> u64 {
        let waiting: usize = self.places.values().map(VecDeque::len).sum();
        self.given_up + waiting as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;

    fn event(t_ns: u64, sector: u64, nr_sector: u32) -> Event {
        Event {
            t_ns,
            sector,
            nr_sector,
            kind: EventKind::Queue,
            ..Event::BLANK
        }
    }

    #[test]
    fn bios_that_are_never_issued_are_dropped_and_counted() {
        let mut queued = Queued::new(100);
        // Every tenth is issued; the others are of a device whose requests the trace does not have.
        for number in 0..10_000_u64 {
            queued.add(&event(number * 10, number * 8, 8));
            if number % 10 == 0 {
                let times = queued.take(&event(number * 10 + 1, number * 8, 8));
                assert_eq!(times, [number * 10]);
            }
            assert!(queued.places.len() <= 11 && queued.order.len() <= 11);
        }
        assert_eq!(queued.without_issue(), 9_000);
    }

    #[test]
    fn a_place_that_is_used_again_keeps_its_newer_bio() {
        let mut queued = Queued::new(100);
        queued.add(&event(0, 8, 8));
        assert_eq!(queued.take(&event(5, 8, 8)), [0]);
        queued.add(&event(60, 8, 8));
        // The first would be too old by now, had it not been issued.
        queued.add(&event(120, 800, 8));
        assert_eq!(queued.take(&event(130, 8, 8)), [60]);
        assert_eq!(queued.without_issue(), 1);
    }

    #[test]
    fn many_at_one_time_are_bounded() {
        let mut queued = Queued::new(u64::MAX);
        queued.most = 50;
        for number in 0..1000 {
            queued.add(&event(7, number, 1));
        }
        assert_eq!((queued.places.len(), queued.without_issue()), (50, 1000));
        assert_eq!(queued.take(&event(8, 990, 5)).len(), 5);
        assert_eq!(queued.without_issue(), 995);
    }
}
