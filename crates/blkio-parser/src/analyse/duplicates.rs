//! Counts events that are there twice, as when files that overlap are read as one.

use super::Analyser;
use super::runs::Batch;
use crate::event::Event;

/// Events of one time that are looked through.
const MOST: usize = 64;

/// Counts events that are equal to another of the same time in all that is known of them.
#[derive(Debug, Clone, Default)]
pub struct Duplicates {
    /// Number of events beyond the first of each.
    pub count: u64,
    /// The last events, all of one time.
    last: Vec<Event>,
}

impl Duplicates {
    /// Looks through the events before one of the same time.
    fn compare<'a>(&mut self, event: &Event, before: impl Iterator<Item = &'a Event>) -> bool {
        let same_time = before.take_while(|other| other.t_ns == event.t_ns);
        same_time.take(MOST).any(|other| other == event)
    }
}

impl Analyser for Duplicates {
    fn observe(&mut self, batch: &Batch) {
        self.add(&batch.events);
    }
}

impl Duplicates {
    fn add(&mut self, events: &[Event]) {
        let mut before_ns = self.last.last().map(|event| event.t_ns);
        for (at, event) in events.iter().enumerate() {
            // Nearly all times differ.
            if before_ns.replace(event.t_ns) == Some(event.t_ns) {
                let last = std::mem::take(&mut self.last);
                let here = events.get(..at).unwrap_or_default().iter().rev();
                let is_known = self.compare(event, here.chain(last.iter().rev()));
                self.count += u64::from(is_known);
                self.last = last;
            }
        }
        let Some(end) = events.last() else { return };
        if self.last.last().is_some_and(|last| last.t_ns != end.t_ns) {
            self.last.clear();
        }
        let same_time = events.iter().rev().take_while(|e| e.t_ns == end.t_ns);
        let room = MOST.saturating_sub(self.last.len());
        self.last.extend(same_time.take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_events_of_one_time_are_counted_across_batches(
            events in prop::collection::vec((0_u64..3, 0_u64..3), 0..80),
            part in 1_usize..9,
        ) {
            let (mut t_ns, mut all) = (0, Vec::new());
            for (step, sector) in events {
                t_ns += step / 2;
                all.push(Event { t_ns, sector, ..Event::BLANK });
            }
            let mut duplicates = Duplicates::default();
            all.chunks(part).for_each(|part| duplicates.add(part));
            let model = (0..all.len()).filter(|at| all[..*at].contains(&all[*at])).count();
            // More than are looked through are not made here.
            prop_assert_eq!(duplicates.count, model as u64);
        }
    }
}
