//! Requests that continue each other, taken as one.
//!
//! Most requests of an offloading engine start where the one before ended. What asks where requests lie (working set, reuse,
//! heat map, sequentiality, access counts) and how many there are (totals, series) sees such a run as one, with the same
//! result as one by one.

use std::ops::Range;
use std::sync::Arc;

use super::traffic::{FINE_NS, SECOND};
use super::working_set::MAX_SECTORS;
use crate::event::{Event, EventKind};
use crate::num::index;
use crate::rwbs::Direction;

/// Successive issues of one operation, size, device and process, each starting where the one before ended, within the same
/// 10 ms since the first issue and the same whole second of the trace's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Time of its first request since the first issue of the trace.
    pub since_ns: u64,
    /// The same on the trace's own clock.
    pub t_ns: u64,
    /// Time of its last request on the trace's own clock.
    pub last_ns: u64,
    /// First sector of the first request.
    pub sector: u64,
    /// Sectors of each request.
    pub nr_sector: u32,
    /// Bytes of each request.
    pub bytes: u32,
    /// Requests, at least 1; 1 for those without sectors.
    pub count: u32,
    /// Device, as in [`Event::dev`].
    pub dev: u32,
    /// Number of the process name, as in [`Event::comm`].
    pub comm: u32,
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
            t_ns: event.t_ns,
            last_ns: event.t_ns,
            sector: event.sector,
            nr_sector: event.nr_sector,
            bytes: event.bytes,
            count: 1,
            dev: event.dev,
            comm: event.comm,
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

/// What the issues among some events come to.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// Issues.
    pub issues: u64,
    /// Completions.
    pub completions: u64,
    /// Whether any event names its process.
    pub has_processes: bool,
    /// The issues, in order.
    pub runs: Vec<Run>,
    /// The times of the issues.
    pub times: Vec<u64>,
    /// The first issue of the trace, where there are runs.
    first_issue_ns: u64,
}

impl Shape {
    /// Of these events, in memory that is not needed any more. `first_issue_ns` is the first of the trace, which may be among
    /// them.
    pub(crate) fn of(events: &[Event], first_issue_ns: &mut Option<u64>, spare: Self) -> Self {
        let Self {
            mut runs,
            mut times,
            ..
        } = spare;
        runs.clear();
        times.clear();
        let mut completions = 0;
        let mut processes = 0;
        let mut open: Option<(Run, Continuation)> = None;
        for event in events {
            processes |= event.pid | event.comm;
            completions += u64::from(event.kind == EventKind::Complete);
            if event.kind != EventKind::Issue {
                continue;
            }
            times.push(event.t_ns);
            let first = *first_issue_ns.get_or_insert(event.t_ns);
            match &mut open {
                Some((run, next)) if next.is(run, event) => {
                    run.count += 1;
                    run.last_ns = event.t_ns;
                    next.sector += u64::from(event.nr_sector);
                }
                _ => {
                    let since_ns = event.t_ns.saturating_sub(first);
                    let run = Run::of(event, since_ns);
                    let next = Continuation::of(&run);
                    if let Some((run, _)) = open.replace((run, next)) {
                        runs.push(run);
                    }
                }
            }
        }
        runs.extend(open.map(|(run, _)| run));
        Self {
            issues: times.len() as u64,
            completions,
            has_processes: processes != 0,
            runs,
            times,
            first_issue_ns: first_issue_ns.unwrap_or(0),
        }
    }

    /// After some of the events, which are issues only, were replaced by other issues: the same as a shape found anew.
    /// `false` when it has to be found anew, because not all are issues.
    pub(crate) fn mend(&mut self, events: &[Event], changed: Range<usize>) -> bool {
        let Some(times) = self
            .times
            .get_mut(changed.clone())
            .filter(|_| self.issues == events.len() as u64)
        else {
            return false;
        };
        let replaced = events.get(changed.clone()).unwrap_or_default();
        for (time, event) in times.iter_mut().zip(replaced) {
            *time = event.t_ns;
            self.has_processes |= event.pid | event.comm != 0;
        }
        // From the run of the event in front of these to the first that neither begins with nor follows one of them: where
        // one ends and the next begins depends on two successive events alone.
        let (mut from, mut start) = (0, 0);
        let (mut until, mut end) = (self.runs.len(), events.len());
        let mut place = 0;
        for (number, run) in self.runs.iter().enumerate() {
            if place < changed.start {
                (from, start) = (number, place);
            } else if place > changed.end {
                (until, end) = (number, place);
                break;
            }
            place += index(u64::from(run.count));
        }
        let between = events.get(start..end).unwrap_or_default();
        let mut first_issue_ns = Some(self.first_issue_ns);
        let found = Self::of(between, &mut first_issue_ns, Self::default());
        self.runs.splice(from..until, found.runs);
        true
    }
}

impl Shape {
    /// The first issue of the trace, as far as it is known.
    pub(crate) fn first_issue(&self) -> Option<u64> {
        (self.issues > 0).then_some(self.first_issue_ns)
    }
}

/// Events that are handed on together.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The events, in order.
    pub events: Arc<Vec<Event>>,
    /// Their issues.
    pub shape: Shape,
}

impl Batch {
    /// Whether there are events of other kinds than issues and completions.
    #[must_use]
    pub fn has_others(&self) -> bool {
        self.shape.issues + self.shape.completions < self.events.len() as u64
    }
}

/// Finds runs, batch by batch.
#[derive(Debug, Clone, Default)]
pub struct Runs {
    first_issue_ns: Option<u64>,
}

impl Runs {
    /// A batch of these events, with its runs in memory that is not needed any more.
    #[must_use]
    pub fn batch(&mut self, events: Arc<Vec<Event>>, spare: Shape) -> Batch {
        let shape = Shape::of(&events, &mut self.first_issue_ns, spare);
        Batch { events, shape }
    }
}

/// What the next request of a run must be.
#[derive(Debug, Clone, Copy)]
struct Continuation {
    /// Where it starts.
    sector: u64,
    /// Before which time.
    until_ns: u64,
}

impl Continuation {
    fn of(run: &Run) -> Self {
        // Without sectors, or more than a request can have, it is continued by none.
        let sectors = u64::from(run.nr_sector);
        let can_be = (1..=MAX_SECTORS).contains(&sectors);
        let left = (FINE_NS - run.since_ns % FINE_NS).min(SECOND - run.t_ns % SECOND);
        Self {
            sector: run.end(),
            until_ns: if can_be {
                run.t_ns.saturating_add(left)
            } else {
                0
            },
        }
    }

    #[inline]
    fn is(&self, run: &Run, event: &Event) -> bool {
        event.sector == self.sector
            && event.nr_sector == run.nr_sector
            && event.bytes == run.bytes
            && event.rwbs == run.rwbs
            && event.dev == run.dev
            && event.comm == run.comm
            && (run.last_ns..self.until_ns).contains(&event.t_ns)
            // No end is beyond the largest sector.
            && event.sector < u64::MAX - MAX_SECTORS
            && run.count < u32::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::Analyser;
    use std::collections::BTreeMap;

    use crate::analyse::access::SectorAccess;
    use crate::analyse::bursts::Arrivals;
    use crate::analyse::heat::HeatMap;
    use crate::analyse::intervals::Intervals;
    use crate::analyse::reuse::Reuse;
    use crate::analyse::sequential::Sequentiality;
    use crate::analyse::traffic::{Bins, Traffic};
    use crate::analyse::working_set::WindowedSet;
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

    /// Requests of a few streams, from a few numbers.
    fn requests(numbers: &[(u64, u64, u32)]) -> Vec<Event> {
        let mut ends = [0_u64; 3];
        let mut t_ns = 5;
        let event = |(gap, stream, kind): &(u64, u64, u32)| {
            t_ns += gap;
            let nr_sector = 8 << (kind % 2);
            let end = ends.get_mut(index(stream % 3))?;
            let sector = *end;
            *end += u64::from(nr_sector);
            Some(Event {
                t_ns,
                sector,
                nr_sector,
                bytes: nr_sector * 512,
                rwbs: u16::from(kind % 5 == 0),
                ..Event::BLANK
            })
        };
        numbers.iter().filter_map(event).collect()
    }

    proptest! {
        #[test]
        fn a_mended_shape_is_that_of_the_new_events(
            numbers in prop::collection::vec((0_u64..2_000_000, prop_oneof![4 => Just(0_u64), 1 => 1_u64..3], prop_oneof![5 => Just(2_u32), 1 => 0_u32..10]), 1..80),
            others in prop::collection::vec((0_u64..2_000_000, 0_u64..2, Just(2_u32)), 1..80),
            ends in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let mut events = requests(&numbers);
            let mut shape = Shape::of(&events, &mut Some(3), Shape::default());
            let (a, b) = (ends.0.index(events.len() + 1), ends.1.index(events.len() + 1));
            let changed = a.min(b)..a.max(b);
            for (event, other) in events[changed.clone()].iter_mut().zip(requests(&others)) {
                *event = other;
            }
            prop_assert!(shape.mend(&events, changed));
            let twin = Shape::of(&events, &mut Some(3), Shape::default());
            prop_assert_eq!(shape.runs, twin.runs);
            prop_assert_eq!(shape.times, twin.times);
            events.push(Event { kind: EventKind::Complete, ..Event::BLANK });
            let mut shape = Shape::of(&events, &mut Some(3), Shape::default());
            prop_assert!(!shape.mend(&events, 0..1));
        }
    }

    proptest! {
        #[test]
        fn runs_give_what_single_requests_give(events in events()) {
            let batch = Runs::default().batch(Arc::new(events.clone()), Shape::default());
            prop_assert_eq!(batch.shape.runs.iter().map(|r| u64::from(r.count)).sum::<u64>(), batch.shape.issues);

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
            for bin_ns in [SECOND, 30_000_000, 7] {
                let series = both(&Traffic::new(bin_ns), &events, &batch).map(|mut traffic| {
                    traffic.finish();
                    let operations: Vec<_> = traffic.operations.iter().map(|of| {
                        let sizes: BTreeMap<u32, u64> = of.sizes.iter().map(|(s, n)| (*s, *n)).collect();
                        (sizes, of.kib_per_second.finish())
                    }).collect();
                    let bins = traffic.bins().each_ref().map(Bins::finish);
                    let tenths = traffic.tenths.each_ref().map(Bins::finish);
                    ((traffic.issues, traffic.first_issue_ns, traffic.last_issue_ns, traffic.span_ns, traffic.gap_count),
                        traffic.peaks(), traffic.largest, operations, bins, tenths)
                });
                prop_assert_eq!(&series[0], &series[1]);
            }
            let arrivals = both(&Arrivals::new(1_000_000), &events, &batch).map(|mut arrivals| {
                arrivals.finish();
                (arrivals.gaps.sum, arrivals.gaps.max, arrivals.bursts, arrivals.idle_ns, arrivals.fano().collect::<Vec<_>>(), arrivals.first)
            });
            prop_assert_eq!(&arrivals[0], &arrivals[1]);
            let windows = both(&WindowedSet::new(SECOND), &events, &batch).map(|mut set| { set.finish(); set.windows().to_vec() });
            prop_assert_eq!(&windows[0], &windows[1]);
            let heats = both(&HeatMap::default(), &events, &batch).map(|mut map| { map.finish(); map.rows().to_vec() });
            prop_assert_eq!(&heats[0], &heats[1]);
            let accesses = both(&SectorAccess::default(), &events, &batch).map(|mut access| {
                access.finish();
                let blocks = access.distinct_blocks();
                (blocks, access.operations, access.min_sector, access.max_sector, access.max_sectors)
            });
            prop_assert_eq!(&accesses[0], &accesses[1]);
            let small: Vec<Event> = events.iter().filter(|e| e.nr_sector < 1 << 20).copied().collect();
            let batch = Runs::default().batch(Arc::new(small.clone()), Shape::default());
            let times = both(&Intervals::default(), &small, &batch).map(|mut intervals| {
                intervals.finish();
                assert!(intervals.is_exact());
                [intervals.reuse, intervals.read_after_write, intervals.write_to_write].map(|times| (times.count, times.sum, times.max))
            });
            prop_assert_eq!(&times[0], &times[1]);
            for block_sectors in [256, 8, 7] {
                // Blocks of a request of the largest size are many.
                let small: Vec<Event> = events.iter().filter(|e| e.nr_sector < 1 << 20).copied().collect();
                let batch = Runs::default().batch(Arc::new(small.clone()), Shape::default());
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
