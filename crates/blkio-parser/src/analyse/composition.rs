//! What was issued when, by operation letters and size: enough to describe stretches of the run that are known at its end
//! only, such as the phases found in its traffic.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::runs::{Batch, Run};
use super::sequential::Sequentiality;
// Bins as the detection of phases has them, so that its borders lie between these; longer traces have bins ten times as wide.
use super::traffic::{FINE_BINS, FINE_NS};

/// Rows that are kept; beyond, bins become twice as wide.
const MAX_ROWS: usize = 1 << 19;
/// Kinds that are kept apart in one bin; beyond, sizes are rounded up to powers of two.
const MAX_KINDS: usize = 1 << 12;

/// Requests that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub struct Alike {
    /// Number of the operation letters.
    pub rwbs: u16,
    /// Bytes of each.
    pub bytes: u32,
    /// `true` if they read or write sectors.
    pub is_data: bool,
}

/// Number of requests, and of those that continue others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Requests.
    pub ios: u64,
    /// Those that start where the one before of their direction ended.
    pub sequential: u64,
    /// Those that start where one of the last 32 ended.
    pub multi_stream: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.ios += other.ios;
        self.sequential += other.sequential;
        self.multi_stream += other.multi_stream;
    }

    fn times(self, times: u64) -> Self {
        Self {
            ios: self.ios * times,
            sequential: self.sequential * times,
            multi_stream: self.multi_stream * times,
        }
    }

    /// A request of which is known whether it continues the one before, or any of the last.
    fn one((sequential, multi_stream): (bool, bool)) -> Self {
        Self {
            ios: 1,
            sequential: sequential.into(),
            multi_stream: multi_stream.into(),
        }
    }
}

/// Requests by bin of time since the first issue, operation letters and size.
#[derive(Debug, Clone)]
pub struct Composition {
    width_ns: u64,
    most: usize,
    /// Closed bins.
    rows: Vec<(u64, Alike, Tally)>,
    /// The open bin, what time it covers, and what is in it.
    open_bin: u64,
    covers_ns: Range<u64>,
    open: FxHashMap<Alike, Tally>,
}

impl Default for Composition {
    fn default() -> Self {
        Self {
            width_ns: FINE_NS,
            most: MAX_ROWS,
            rows: Vec::new(),
            open_bin: 0,
            covers_ns: 0..FINE_NS,
            open: FxHashMap::default(),
        }
    }
}

impl Composition {
    /// Takes the next batch and hands it on to the analysis that knows what continues what.
    pub fn take(&mut self, batch: &Batch, sequentiality: &mut Sequentiality) {
        for run in &batch.runs {
            // Only requests of data continue others.
            let (first, others) = if run.is_data() {
                (sequentiality.step(run), (true, true))
            } else {
                ((false, false), (false, false))
            };
            let mut tally = Tally::one(first);
            tally.add(Tally::one(others).times(u64::from(run.count) - 1));
            // Runs lie within the finest bins.
            self.add(run, tally);
        }
    }

    fn add(&mut self, run: &Run, tally: Tally) {
        if !self.covers_ns.contains(&run.since_ns) {
            self.begin(run.since_ns);
        }
        let mut alike = Alike {
            rwbs: run.rwbs,
            bytes: run.bytes,
            is_data: run.is_data(),
        };
        if self.open.len() >= MAX_KINDS && !self.open.contains_key(&alike) {
            alike.bytes = alike.bytes.checked_next_power_of_two().unwrap_or(u32::MAX);
        }
        self.open.entry(alike).or_default().add(tally);
    }

    fn begin(&mut self, since_ns: u64) {
        self.close();
        if self.width_ns == FINE_NS && since_ns / FINE_NS >= FINE_BINS {
            self.widen(10);
        }
        while self.rows.len() > self.most && self.width_ns < 1 << 62 {
            self.widen(2);
        }
        self.open_bin = since_ns / self.width_ns;
        let start_ns = self.open_bin * self.width_ns;
        self.covers_ns = start_ns..start_ns.saturating_add(self.width_ns);
    }

    fn close(&mut self) {
        let bin = self.open_bin;
        let before = self.rows.len();
        let open = self.open.drain();
        self.rows
            .extend(open.map(|(alike, tally)| (bin, alike, tally)));
        if let Some(rows) = self.rows.get_mut(before..) {
            rows.sort_unstable_by_key(|row| row.1);
        }
    }

    fn widen(&mut self, times: u64) {
        self.width_ns *= times;
        for row in &mut self.rows {
            row.0 /= times;
        }
        self.join();
    }

    /// Puts rows of one bin and kind together, in order.
    fn join(&mut self) {
        // What came late is out of order.
        self.rows.sort_unstable_by_key(|row| (row.0, row.1));
        self.rows.dedup_by(|row, kept| {
            let same = (row.0, row.1) == (kept.0, kept.1);
            if same {
                kept.2.add(row.2);
            }
            same
        });
    }

    /// Closes what is open; call once after the last batch.
    pub fn finish(&mut self) {
        self.close();
        self.join();
    }

    /// Returns `true` if stretches that begin and end at multiples of this time hold exactly their own requests.
    #[must_use]
    pub fn is_exact(&self, border_ns: u64) -> bool {
        border_ns.is_multiple_of(self.width_ns)
    }

    /// Returns what was issued in a stretch of time since the first issue. A bin belongs to where its middle lies.
    #[must_use]
    pub fn within(&self, stretch: &Range<u64>) -> BTreeMap<Alike, Tally> {
        let bin = |t_ns: u64| t_ns.saturating_add(self.width_ns / 2) / self.width_ns;
        let (first, end) = (bin(stretch.start), bin(stretch.end));
        let start = self.rows.partition_point(|row| row.0 < first);
        let mut found: BTreeMap<Alike, Tally> = BTreeMap::new();
        let rows = self.rows.iter().skip(start);
        for (_, alike, tally) in rows.take_while(|row| row.0 < end) {
            found.entry(*alike).or_default().add(*tally);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analyse::runs::Runs;
    use crate::analyse::traffic::{Grid, SECOND};
    use crate::event::{Event, EventKind};
    use crate::rwbs::Direction;
    use proptest::prelude::*;

    /// Issues of streams and of anywhere with completions between, in time steps that cross bins.
    fn events() -> impl Strategy<Value = Vec<Event>> {
        let one = (
            0_u8..8,
            0_u8..6,
            prop::sample::select(vec![0_u64, 1_000_000, 3_000_000, 40_000_000, 900_000_000]),
        );
        prop::collection::vec(one, 1..150).prop_map(|steps| {
            let (mut t_ns, mut sector, mut nr_sector) = (5, 800, 8);
            let mut events = Vec::new();
            for (what, kind, gap) in steps {
                t_ns += gap;
                sector += u64::from(nr_sector);
                if what == 0 {
                    sector = 64 * u64::from(kind);
                }
                let (kind, direction) = match kind {
                    0 => (EventKind::Complete, Direction::Read),
                    1 => (EventKind::Issue, Direction::Flush),
                    2 if what < 4 => (EventKind::Issue, Direction::Write),
                    _ => (EventKind::Issue, Direction::Read),
                };
                if what == 1 {
                    nr_sector = 16;
                } else if what == 2 {
                    nr_sector = 8;
                }
                events.push(Event {
                    t_ns,
                    sector,
                    nr_sector,
                    bytes: nr_sector * 512,
                    rwbs: direction as u16,
                    kind,
                    direction,
                    ..Event::BLANK
                });
            }
            events
        })
    }

    proptest! {
        #[test]
        fn stretches_hold_what_was_issued_in_them(
            events in events(),
            parts in 1_usize..5,
            most in prop::sample::select(vec![3_usize, 1 << 19]),
        ) {
            let mut composition = Composition { most, ..Composition::default() };
            let mut sequentiality = Sequentiality::default();
            let mut runs = Runs::within(Grid::new(SECOND, false));
            for part in events.chunks(events.len().div_ceil(parts)) {
                let batch = runs.batch(Arc::new(part.to_vec()));
                composition.take(&batch, &mut sequentiality);
            }
            composition.finish();
            let issues = events.iter().filter(|e| e.kind == EventKind::Issue);
            let issues: Vec<&Event> = issues.collect();
            let first_ns = issues.first().map_or(0, |e| e.t_ns);
            let width = composition.width_ns;
            // One at a time through the other analysis.
            let mut single = Sequentiality::default();
            let mut model: BTreeMap<u64, BTreeMap<Alike, Tally>> = BTreeMap::new();
            for event in issues {
                let before = single.clone();
                if event.direction.is_data() && event.nr_sector > 0 {
                    single.step(&Run::of(event, 0));
                }
                let is_data = event.direction.is_data();
                let mut tally = Tally { ios: 1, ..Tally::default() };
                if is_data {
                    let slot = event.direction.slot();
                    let [was, is] = [&before, &single].map(|s| &s.classes[slot]);
                    tally.sequential = is.sequential - was.sequential;
                    tally.multi_stream = is.multi_stream - was.multi_stream;
                }
                let alike = Alike { rwbs: event.rwbs, bytes: event.bytes, is_data };
                let bin = (event.t_ns - first_ns) / width;
                model.entry(bin).or_default().entry(alike).or_default().add(tally);
            }
            for (bin, kinds) in &model {
                let stretch = bin * width..(bin + 1) * width;
                prop_assert_eq!(&composition.within(&stretch), kinds);
            }
            prop_assert!(composition.rows.len() <= most.max(12));
            let all = composition.within(&(0..u64::MAX));
            let ios = all.values().map(|tally| tally.ios).sum::<u64>();
            prop_assert_eq!(ios, model.values().flat_map(BTreeMap::values).map(|t| t.ios).sum::<u64>());
            prop_assert_eq!(single.classes[0].sequential, sequentiality.classes[0].sequential);
        }
    }
}
