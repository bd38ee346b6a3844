//! Counters of a file: values that change at later times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

use perfetto_reader::write::{CounterUnit, TraceWriter, TrackSpec, WriterTrack};
use rustc_hash::FxHashMap;

use super::places::{Key, Places};
use crate::Result;

/// A change of a counter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// Sets the value to this real number, owned by a holder.
    Set(u64, u64),
    /// Sets the value to 0 if the holder still owns it.
    Clear(u64),
    /// Adds to the value.
    Add(i64),
}

/// A counter of the file.
#[derive(Debug)]
struct Counter {
    key: Key,
    track: WriterTrack,
    total: i64,
    holder: u64,
}

/// Counters of one file with their pending changes.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    counters: Vec<Counter>,
    numbers: FxHashMap<Key, usize>,
    /// Pending changes: time, order, counter, change.
    pending: BinaryHeap<Reverse<(i64, u64, usize, Change)>>,
    order: u64,
    last_ns: Option<i64>,
}

/// State that one file leaves to the next: values, and changes after its end.
#[derive(Debug, Clone, Default)]
pub(super) struct Rest {
    pub(super) totals: Vec<(Key, i64)>,
    pub(super) pending: Vec<(i64, Key, i64)>,
}

impl Timeline {
    /// Returns the number of a counter, which is declared if it is new.
    pub(super) fn counter<W: Write>(
        &mut self,
        writer: &mut TraceWriter<W>,
        places: &Places,
        key: &Key,
        unit: CounterUnit<'_>,
    ) -> Result<usize> {
        if let Some(&number) = self.numbers.get(key) {
            return Ok(number);
        }
        let mut spec = TrackSpec::default();
        spec.name = Some(&key.name);
        spec.parent = places.process(key.partition, key.process);
        let track = writer.counter_track(&spec, unit)?;
        self.counters.push(Counter {
            key: key.clone(),
            track,
            total: 0,
            holder: 0,
        });
        let number = self.counters.len() - 1;
        self.numbers.insert(key.clone(), number);
        Ok(number)
    }

    /// Adds to a counter at a time.
    pub(super) fn add(&mut self, at: i64, counter: usize, change: i64) {
        self.later(at, counter, Change::Add(change));
    }

    /// Sets a value from one time to another.
    pub(super) fn hold(&mut self, counter: usize, value: f64, start: i64, end: Option<i64>) {
        let holder = self.order + 1;
        self.later(start, counter, Change::Set(value.to_bits(), holder));
        if let Some(end) = end {
            self.later(end, counter, Change::Clear(holder));
        }
    }

    fn later(&mut self, at: i64, counter: usize, change: Change) {
        self.order += 1;
        self.pending
            .push(Reverse((at, self.order, counter, change)));
    }

    /// Writes values up to a time.
    pub(super) fn flush<W: Write>(
        &mut self,
        writer: &mut TraceWriter<W>,
        until: i64,
    ) -> Result<()> {
        while let Some(Reverse((at, _, number, change))) = self.pending.peek().copied()
            && at <= until
        {
            self.pending.pop();
            let Some(counter) = self.counters.get_mut(number) else {
                continue;
            };
            let value = match change {
                Change::Set(bits, holder) => {
                    counter.holder = holder;
                    f64::from_bits(bits)
                }
                Change::Clear(holder) if counter.holder == holder => 0.0,
                Change::Clear(_) => continue,
                Change::Add(change) => {
                    counter.total = counter.total.saturating_add(change);
                    real(counter.total)
                }
            };
            // Of several changes at one time the last counts.
            let same =
                |next: &Reverse<(i64, u64, usize, Change)>| next.0.0 == at && next.0.2 == number;
            if self.pending.peek().is_some_and(same) {
                continue;
            }
            let at = self.last_ns.map_or(at, |last| last.max(at));
            self.last_ns = Some(at);
            writer.counter(counter.track, at, value)?;
        }
        if until != i64::MAX {
            self.last_ns = Some(self.last_ns.map_or(until, |last| last.max(until)));
        }
        Ok(())
    }

    /// Returns the state for the next file.
    pub(super) fn rest(self) -> Rest {
        let mut rest = Rest::default();
        for Reverse((time, _, counter, change)) in self.pending.into_sorted_vec().into_iter().rev()
        {
            if let (Change::Add(change), Some(counter)) = (change, self.counters.get(counter)) {
                rest.pending.push((time, counter.key.clone(), change));
            }
        }
        for counter in self.counters {
            if counter.total != 0 {
                rest.totals.push((counter.key, counter.total));
            }
        }
        rest
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counters are reals in the format; whole ones below 2^53 stay exact"
)]
fn real(value: i64) -> f64 {
    value as f64
}
