//! Values of hardware counters by event.

use std::path::Path;

use rocpd_db::{Event, Filter, Order as ScanOrder, PmcEvent, Process, RocpdSet};
use rustc_hash::FxHashMap;
use spill_sort::{Item, word};

use super::Options;
use super::by_event::{Builder, ByEvent, Key, MEMORY_BYTES, OfEvent, small, sorter};
use crate::Result;

/// Value of a counter at an event; one for each instance until they are summed.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Value {
    key: Key,
    counter: u32,
    value: f64,
}

impl Item for Value {
    const BYTES: usize = 24;

    fn put(&self, out: &mut Vec<u8>) {
        let (partition, event) = self.key;
        let head = u64::from(partition) << 32 | u64::from(self.counter);
        out.extend_from_slice(&head.to_le_bytes());
        out.extend_from_slice(&event.to_le_bytes());
        out.extend_from_slice(&self.value.to_bits().to_le_bytes());
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "both halves are cut out of the word"
    )]
    fn get(bytes: &[u8]) -> Self {
        let head = word(bytes, 0);
        Self {
            key: ((head >> 32) as u32, word(bytes, 8).cast_signed()),
            counter: head as u32,
            value: f64::from_bits(word(bytes, 16)),
        }
    }
}

impl OfEvent for Value {
    fn key(&self) -> Key {
        self.key
    }
}

/// Sums of counters by event.
pub(super) struct CounterSums {
    sums: ByEvent<Value>,
    names: Vec<String>,
}

impl CounterSums {
    /// Reads all counters; `folder` stores them if they are many.
    pub(super) fn read(set: &RocpdSet, options: &Options, folder: &Path) -> Result<Self> {
        if !options.counters && !options.counters_in_slices {
            return Adder::new(folder, MEMORY_BYTES).finish(Vec::new());
        }
        let mut names: Vec<String> = Vec::new();
        let mut sorter = sorter::<Value>(folder);
        let filter = Filter::default();
        let mut numbers: FxHashMap<(usize, i64), u32> = FxHashMap::default();
        let mut by_name: FxHashMap<String, u32> = FxHashMap::default();
        for row in set.scan::<PmcEvent<'_>>(&filter, ScanOrder::Stored)? {
            let row = row?;
            // Sampled while kernels ran (since schema 3.0.3): these belong to instants, not to
            // dispatches.
            if row.sample_id.is_some() {
                continue;
            }
            let (Some(event), Some(pmc), Some(value)) = (row.event_id, row.pmc, row.value) else {
                continue;
            };
            let counter = *numbers
                .entry((row.partition, row.pmc_id))
                .or_insert_with(|| {
                    *by_name.entry(pmc.name.clone()).or_insert_with(|| {
                        names.push(pmc.name.clone());
                        u32::try_from(names.len() - 1).unwrap_or(u32::MAX)
                    })
                });
            sorter.push(Value {
                key: (small(row.partition), event),
                counter,
                value,
            })?;
        }
        let mut sorted = sorter.finish()?;
        let mut adder = Adder::new(folder, MEMORY_BYTES);
        while let Some(value) = sorted.next_item()? {
            adder.add(value)?;
        }
        adder.finish(names)
    }

    /// Stores counter and sum of an event in `found`, in the order in which the counters were
    /// stored.
    pub(super) fn find(
        &self,
        process: &Process,
        event: Option<Event<'_>>,
        found: &mut Vec<(usize, f64)>,
    ) -> Result<()> {
        found.clear();
        match event {
            Some(event) => self.at((small(process.partition), event.id), found),
            None => Ok(()),
        }
    }

    fn at(&self, key: Key, found: &mut Vec<(usize, f64)>) -> Result<()> {
        self.sums
            .find(key, |sum| found.push((sum.counter as usize, sum.value)))
    }

    pub(super) fn name(&self, counter: usize) -> &str {
        self.names.get(counter).map_or("?", String::as_str)
    }
}

/// Sums values that come in order of their keys.
struct Adder<'p> {
    builder: Builder<'p, Value>,
    /// The current event.
    current: Option<Key>,
    sums: Vec<(u32, f64)>,
    /// Index of each counter of the event in `sums`.
    places: FxHashMap<u32, usize>,
}

impl<'p> Adder<'p> {
    fn new(folder: &'p Path, memory_bytes: usize) -> Self {
        Self {
            builder: Builder::new(folder, memory_bytes),
            current: None,
            sums: Vec::new(),
            places: FxHashMap::default(),
        }
    }

    fn add(&mut self, value: Value) -> Result<()> {
        if self.current != Some(value.key) {
            self.close()?;
            self.current = Some(value.key);
        }
        let next = self.sums.len();
        let place = *self.places.entry(value.counter).or_insert(next);
        match self.sums.get_mut(place) {
            Some((_, sum)) => *sum += value.value,
            None => self.sums.push((value.counter, value.value)),
        }
        Ok(())
    }

    /// Ends the current event.
    fn close(&mut self) -> Result<()> {
        let Some(key) = self.current.take() else {
            return Ok(());
        };
        for (counter, value) in self.sums.drain(..) {
            // Removed one by one: the event before may have had a thousand.
            self.places.remove(&counter);
            self.builder.add(Value {
                key,
                counter,
                value,
            })?;
        }
        Ok(())
    }

    fn finish(mut self, names: Vec<String>) -> Result<CounterSums> {
        self.close()?;
        Ok(CounterSums {
            sums: self.builder.finish()?,
            names,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the sums of generated values with those of a map.
    fn check(memory_bytes: usize) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let mut builder = Adder::new(folder.path(), memory_bytes);
        let mut expected: FxHashMap<Key, Vec<(usize, f64)>> = FxHashMap::default();
        // Some events have more sums than fit on a page.
        for partition in 0..2_u32 {
            for event in (-300..300_i64).step_by(2) {
                let counters = if event % 75 == 0 { 1100 } else { 30 };
                for instance in 0..2_u32 {
                    for counter in (0..counters).rev() {
                        let value = f64::from(counter + instance) + 0.25;
                        let key = (partition, event);
                        builder.add(Value {
                            key,
                            counter,
                            value,
                        })?;
                        let own = expected.entry(key).or_default();
                        match own.iter_mut().find(|sum| sum.0 == counter as usize) {
                            Some(sum) => sum.1 += value,
                            None => own.push((counter as usize, value)),
                        }
                    }
                }
            }
        }
        let sums = builder.finish(Vec::new())?;
        assert_eq!(sums.sums.is_on_disk(), memory_bytes < 1 << 20);
        let mut found = Vec::new();
        for partition in 0..3 {
            for event in -310..310 {
                found.clear();
                sums.at((partition, event), &mut found)?;
                let want = expected.get(&(partition, event));
                assert_eq!(Some(&found), want.or(Some(&Vec::new())));
            }
        }
        Ok(())
    }

    #[test]
    fn spilled_or_not_the_sums_are_those_of_a_map() -> Result<()> {
        check(1 << 30)?;
        check(1000)
    }
}
