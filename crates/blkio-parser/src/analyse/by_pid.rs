//! Sequentiality of the requests of each process.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Analyser;
use super::runs::{Batch, Run};
use super::sequential::Sequentiality;
use crate::event::Event;

/// Processes that are kept apart.
const MOST: usize = 128;

/// The requests of one process.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OfPid {
    /// Number of its name when it was first seen.
    pub comm: u32,
    /// Where its requests start.
    pub sequentiality: Sequentiality,
}

/// Sequentiality by process, of the first 128 that issue data requests.
#[derive(Debug, Clone, Default)]
pub struct ByPid {
    pids: FxHashMap<u32, OfPid>,
    /// Data requests of the others.
    pub other_requests: u64,
}

impl ByPid {
    /// Returns the processes, by process id.
    #[must_use]
    pub fn pids(&self) -> BTreeMap<u32, &OfPid> {
        self.pids.iter().map(|(pid, of)| (*pid, of)).collect()
    }

    /// Closes what is open; call once after the last event.
    pub fn finish(&mut self) {
        #[expect(clippy::iter_over_hash_type, reason = "each is finished on its own")]
        for of in self.pids.values_mut() {
            of.sequentiality.finish_small();
        }
    }
}

impl Analyser for ByPid {
    fn observe(&mut self, batch: &Batch) {
        if batch.has_processes {
            batch.issued().for_each(|event| self.add(event));
        }
    }
}

impl ByPid {
    fn add(&mut self, event: &Event) {
        let is_known = event.pid != 0 || event.comm != 0;
        if !event.direction.is_data() || event.nr_sector == 0 || !is_known {
            return;
        }
        let has_room = self.pids.len() < MOST;
        if !has_room && !self.pids.contains_key(&event.pid) {
            self.other_requests += 1;
            return;
        }
        let of = self.pids.entry(event.pid).or_insert_with(|| OfPid {
            comm: event.comm,
            sequentiality: Sequentiality::small(),
        });
        of.sequentiality.step_small(&Run::of(event, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sequential_readers_are_not_one_random_one() {
        let mut by_pid = ByPid::default();
        let mut together = Sequentiality::default();
        let mut next = [0_u64, 1 << 30, 1 << 40];
        for number in 0..30_000_u32 {
            let pid = number % 3;
            let sector = &mut next[pid as usize];
            // The third jumps between any two.
            *sector += if pid == 2 { 5000 } else { 8 };
            let event = Event {
                sector: *sector,
                nr_sector: 8,
                bytes: 4096,
                pid,
                comm: 7,
                ..Event::BLANK
            };
            by_pid.add(&event);
            together.step(&Run::of(&event, 0));
        }
        by_pid.finish();
        together.finish();
        assert_eq!(together.classes[0].sequential, 0);
        let shares: Vec<(u64, u64, u64)> = by_pid
            .pids()
            .values()
            .map(|of| &of.sequentiality.classes[0])
            .map(|class| (class.requests, class.sequential, class.runs))
            .collect();
        assert_eq!(
            shares,
            [(10_000, 9_999, 1), (10_000, 9_999, 1), (10_000, 0, 10_000)]
        );
        // Many seeks are counted in bins, so that many processes need little memory.
        let jumps = &by_pid.pids()[&2].sequentiality.classes[2].seeks;
        assert_eq!((jumps.count, jumps.is_exact()), (9_999, false));
    }

    #[test]
    fn processes_are_bounded() {
        let mut by_pid = ByPid::default();
        for pid in 0..1000 {
            by_pid.add(&Event {
                nr_sector: 8,
                pid,
                ..Event::BLANK
            });
        }
        // A process of number zero and no name is none.
        assert_eq!((by_pid.pids().len(), by_pid.other_requests), (128, 871));
    }
}
