//! Requests that continue each other, taken as one.
//!
//! Most requests of an offloading engine start where the one before ended. What asks where requests lie (working set, reuse,
//! heat map, sequentiality, access counts) sees such a run as one, with the same result as one by one.

use std::sync::Arc;

use super::traffic::SECOND;
use super::working_set::MAX_SECTORS;
use crate::event::{Event, EventKind};
use crate::rwbs::Direction;

/// Successive issues of one operation and size, each starting where the one before ended, within one whole second since the
/// first issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Time of its first request since the first issue of the trace.
    pub since_ns: u64,
    /// First sector of the first request.
    pub sector: u64,
    /// Sectors of each request.
    pub nr_sector: u32,
    /// Bytes of each request.
    pub bytes: u32,
    /// Requests, at least 1; 1 for those without sectors.
    pub count: u32,
    /// Number of the operation letters.
    pub rwbs: u16,
    /// What they mean.
    pub direction: Direction,
}

impl Run {
    /// A single issue, `since_ns` after the first.
    #[must_use]
    pub fn of(event: &Event, since_ns: u64) -> Self {
        Self {
            since_ns,
            sector: event.sector,
            nr_sector: event.nr_sector,
            bytes: event.bytes,
            count: 1,
            rwbs: event.rwbs,
            direction: event.direction,
        }
    }

    /// Whether it moves data.
    #[must_use]
    pub fn is_data(&self) -> bool {
        self.direction.is_data() && self.nr_sector > 0
    }

    /// Sectors of each request, no more than a request can have.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        u64::from(self.nr_sector).min(MAX_SECTORS)
    }

    /// Behind its last sector.
    #[must_use]
    pub fn end(&self) -> u64 {
        let sectors = self.sectors() * u64::from(self.count);
        self.sector.saturating_add(sectors)
    }
}

/// Events that are handed on together, and their issues as runs.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The events, in order.
    pub events: Arc<Vec<Event>>,
    /// Issues among them.
    pub issues: u64,
    /// Completions among them.
    pub completions: u64,
    /// Whether any of them names its process.
    pub has_processes: bool,
    /// Their issues, in the same order.
    pub runs: Vec<Run>,
}

impl Batch {
    /// Whether there are events of other kinds.
    #[must_use]
    pub fn has_others(&self) -> bool {
        self.issues + self.completions < self.events.len() as u64
    }
}

/// Finds runs, batch by batch.
#[derive(Debug, Clone, Default)]
pub struct Runs {
    first_issue_ns: Option<u64>,
}

impl Runs {
    /// A batch of these events, with its runs in the memory of `runs`.
    #[must_use]
    pub fn batch(&mut self, events: Arc<Vec<Event>>, mut runs: Vec<Run>) -> Batch {
        runs.clear();
        let mut issues = 0;
        let mut completions = 0;
        let mut processes = 0;
        let mut open: Option<(Run, Continuation)> = None;
        for event in &*events {
            processes |= event.pid | event.comm;
            completions += u64::from(event.kind == EventKind::Complete);
            if event.kind != EventKind::Issue {
                continue;
            }
            issues += 1;
            let first = *self.first_issue_ns.get_or_insert(event.t_ns);
            let since_ns = event.t_ns.saturating_sub(first);
            match &mut open {
                Some((run, next)) if next.is(run, event, since_ns) => {
                    run.count += 1;
                    next.sector += u64::from(event.nr_sector);
                }
                _ => {
                    let run = Run::of(event, since_ns);
                    let next = Continuation::of(&run);
                    if let Some((run, _)) = open.replace((run, next)) {
                        runs.push(run);
                    }
                }
            }
        }
        runs.extend(open.map(|(run, _)| run));
        Batch {
            events,
            issues,
            completions,
            has_processes: processes != 0,
            runs,
        }
    }
}

/// What the next request of a run must be.
#[derive(Debug, Clone, Copy)]
struct Continuation {
    /// Where it starts.
    sector: u64,
    /// When: the rest of the second, as a whole.
    from_ns: u64,
    until_ns: u64,
}

impl Continuation {
    fn of(run: &Run) -> Self {
        let second_ns = run.since_ns - run.since_ns % SECOND;
        // Without sectors, or more than a request can have, it is continued by none.
        let sectors = u64::from(run.nr_sector);
        let can_be = (1..=MAX_SECTORS).contains(&sectors);
        Self {
            sector: run.end(),
            from_ns: second_ns,
            until_ns: if can_be {
                second_ns.saturating_add(SECOND)
            } else {
                0
            },
        }
    }

    #[inline]
    fn is(&self, run: &Run, event: &Event, since_ns: u64) -> bool {
        event.sector == self.sector
            && event.nr_sector == run.nr_sector
            && event.bytes == run.bytes
            && event.rwbs == run.rwbs
            && (self.from_ns..self.until_ns).contains(&since_ns)
            // No end is beyond the largest sector.
            && event.sector < u64::MAX - MAX_SECTORS
            && run.count < u32::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::Analyser;
    use crate::analyse::access::SectorAccess;
    use crate::analyse::heat::HeatMap;
    use crate::analyse::reuse::Reuse;
    use crate::analyse::sequential::Sequentiality;
    use crate::analyse::working_set::{WindowedSet, WorkingSet};
    use proptest::prelude::*;

    fn kind_of(number: u8) -> (EventKind, Direction) {
        match number {
            0 => (EventKind::Issue, Direction::Write),
            1 => (EventKind::Issue, Direction::Discard),
            2 => (EventKind::Issue, Direction::Flush),
            3 => (EventKind::Complete, Direction::Read),
            _ => (EventKind::Issue, Direction::Read),
        }
    }

    /// Requests of which most continue the one before.
    fn events() -> impl Strategy<Value = Vec<Event>> {
        let one = (
            0_u8..20,
            prop::sample::select(vec![0_u32, 1, 8, 24, 256, 300, 1 << 23, u32::MAX]),
            prop::sample::select(vec![0_u64, 5, 4096, 1 << 30, u64::MAX - 300]),
            0_u8..8,
            prop::sample::select(vec![0_u64, 1_000, 400_000_000]),
        );
        prop::collection::vec(one, 1..120).prop_map(|requests| {
            let (mut t_ns, mut sector, mut nr_sector) = (77, 0_u64, 8);
            let mut events = Vec::new();
            for (kind, sectors, place, jump, gap) in requests {
                let (kind, direction) = kind_of(kind);
                t_ns += gap;
                sector = sector.saturating_add(u64::from(nr_sector));
                if jump == 0 {
                    (sector, nr_sector) = (place, sectors);
                }
                events.push(Event {
                    t_ns,
                    sector,
                    nr_sector,
                    bytes: nr_sector.wrapping_mul(512),
                    rwbs: direction as u16,
                    kind,
                    direction,
                    ..Event::BLANK
                });
            }
            events
        })
    }

    fn both<A: Analyser + Clone>(empty: &A, events: &[Event], batch: &Batch) -> [A; 2] {
        let (mut single, mut whole) = (empty.clone(), empty.clone());
        events.iter().for_each(|event| single.observe(event));
        whole.observe_batch(batch);
        [single, whole]
    }

    proptest! {
        #[test]
        fn runs_give_what_single_requests_give(events in events()) {
            let batch = Runs::default().batch(Arc::new(events.clone()), Vec::new());
            prop_assert_eq!(batch.runs.iter().map(|r| u64::from(r.count)).sum::<u64>(), batch.issues);

            let sequentialities = both(&Sequentiality::default(), &events, &batch).map(|mut s| {
                s.finish();
                s.classes.map(|mut class| {
                    let seeks = class.seeks.percentiles(&[0.0, 50.0, 99.0]);
                    let counts = [class.requests, class.sequential, class.forward, class.backward, class.near,
                        class.multi_stream, class.runs, class.longest_run, class.bytes_in_long_runs];
                    (counts, class.run_lengths, class.top_strides(9), seeks, class.seeks.sum)
                })
            });
            prop_assert_eq!(&sequentialities[0], &sequentialities[1]);
            let sets = both(&WorkingSet::default(), &events, &batch).map(|set| set.blocks());
            prop_assert_eq!(sets[0], sets[1]);
            let windows = both(&WindowedSet::new(SECOND), &events, &batch).map(|set| set.windows());
            prop_assert_eq!(&windows[0], &windows[1]);
            let heats = both(&HeatMap::default(), &events, &batch).map(|mut map| map.rows());
            prop_assert_eq!(&heats[0], &heats[1]);
            let accesses = both(&SectorAccess::default(), &events, &batch).map(|mut access| {
                let counts: Vec<_> = access.operations.iter_mut().map(|of| of.histogram()).collect();
                (counts, access.min_sector, access.max_sector, access.max_sectors)
            });
            prop_assert_eq!(&accesses[0], &accesses[1]);
            for block_sectors in [256, 8, 7] {
                // Blocks of a request of the largest size are many.
                let small: Vec<Event> = events.iter().filter(|e| e.nr_sector < 1 << 20).copied().collect();
                let batch = Runs::default().batch(Arc::new(small.clone()), Vec::new());
                let reuses = both(&Reuse::new(block_sectors), &small, &batch).map(|mut reuse| {
                    reuse.finish();
                    let log2: Vec<_> = reuse.log2_histogram().collect();
                    (reuse.accesses, reuse.cold, reuse.distances.sum, log2)
                });
                prop_assert_eq!(&reuses[0], &reuses[1]);
            }
        }
    }
}
