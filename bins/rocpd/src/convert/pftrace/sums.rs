//! Values of hardware counters by event.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::Context as _;
use rocpd_db::{Event, Filter, Order as ScanOrder, PmcEvent, Process, RocpdSet};
use rustc_hash::FxHashMap;
use spill_sort::{Item, Order, Sorter, SpillOptions, word};

use crate::args::ConvertArgs;

/// Bytes of sums that stay in memory; more wait in a file without a name.
const MEMORY_BYTES: usize = 8 << 20;
/// Sums that are read together.
const PAGE_SUMS: usize = 128;
/// Pages kept at hand: dispatches come by time, and their events are numbered in nearly that order.
const CACHED_PAGES: usize = 64;

/// Partition and event.
type Key = (u32, i64);

/// A counter's value at an event; of several instances, until they are added.
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

/// By partition and event: rows of one event stay in the order in which they are stored, which is that of adding them.
struct ByEvent;

impl Order for ByEvent {
    type Item = Value;

    fn compare(a: &Value, b: &Value) -> Ordering {
        a.key.cmp(&b.key)
    }
}

/// Sums of counters by event. Memory does not follow their number but for one key in [`PAGE_SUMS`].
pub(super) struct CounterSums {
    /// The key of each page's first sum.
    pages: Vec<Key>,
    sums: Sums,
    names: Vec<String>,
}

/// A page that was read: its number and bytes.
type Page = (usize, Vec<u8>);

/// Sums as bytes, in order of their keys.
enum Sums {
    Memory(Vec<u8>),
    Disk {
        file: File,
        /// By page number, none at first.
        cache: RefCell<Vec<Option<Page>>>,
    },
}

impl CounterSums {
    /// Reads all counters; `folder` is where they wait if they are many.
    pub(super) fn read(set: &RocpdSet, args: &ConvertArgs, folder: &Path) -> anyhow::Result<Self> {
        if args.perfetto.no_counters {
            return Builder::new(folder, MEMORY_BYTES).finish(Vec::new());
        }
        let mut names: Vec<String> = Vec::new();
        let mut sorter = Sorter::<ByEvent>::new(SpillOptions {
            folder: folder.to_owned(),
            memory_bytes: MEMORY_BYTES,
        });
        let filter = Filter::default();
        let mut numbers: FxHashMap<(usize, i64), u32> = FxHashMap::default();
        for row in set.scan::<PmcEvent<'_>>(&filter, ScanOrder::Stored)? {
            let row = row?;
            let (Some(event), Some(pmc)) = (row.event_id, row.pmc) else {
                continue;
            };
            let counter = *numbers
                .entry((row.partition, row.pmc_id))
                .or_insert_with(|| {
                    let known = names.iter().position(|name| *name == pmc.name);
                    let number = known.unwrap_or_else(|| {
                        names.push(pmc.name.clone());
                        names.len() - 1
                    });
                    u32::try_from(number).unwrap_or(u32::MAX)
                });
            sorter.push(Value {
                key: (small(row.partition), event),
                counter,
                value: row.value,
            })?;
        }
        let mut sorted = sorter.finish()?;
        let mut builder = Builder::new(folder, MEMORY_BYTES);
        while let Some(value) = sorted.next_item()? {
            builder.add(value)?;
        }
        builder.finish(names)
    }

    /// Puts counter and sum of an event into `found`, in the order in which the counters were stored.
    pub(super) fn find(
        &self,
        process: &Process,
        event: Option<Event<'_>>,
        found: &mut Vec<(usize, f64)>,
    ) -> anyhow::Result<()> {
        found.clear();
        match event {
            Some(event) => self.at((small(process.partition), event.id), found),
            None => Ok(()),
        }
    }

    fn at(&self, key: Key, found: &mut Vec<(usize, f64)>) -> anyhow::Result<()> {
        if self.pages.is_empty() {
            return Ok(());
        }
        // The sums of an event may begin on one page and end on the next.
        let first = self.pages.partition_point(|first| *first < key);
        for page in first.saturating_sub(1)..self.pages.len() {
            if self.pages.get(page).is_some_and(|first| *first > key) {
                break;
            }
            self.with_page(page, |bytes| {
                let sums = bytes.as_chunks::<{ Value::BYTES }>().0;
                let before = sums.partition_point(|sum| Value::get(sum).key < key);
                let own = sums.iter().skip(before).map(|sum| Value::get(sum));
                let own = own.take_while(|sum| sum.key == key);
                found.extend(own.map(|sum| (sum.counter as usize, sum.value)));
            })?;
        }
        Ok(())
    }

    fn with_page(&self, page: usize, look: impl FnOnce(&[u8])) -> anyhow::Result<()> {
        const BYTES: usize = PAGE_SUMS * Value::BYTES;
        match &self.sums {
            Sums::Memory(bytes) => {
                let bytes = bytes.get(page * BYTES..).unwrap_or_default();
                look(bytes.get(..BYTES).unwrap_or(bytes));
            }
            Sums::Disk { file, cache } => {
                let mut cache = cache.borrow_mut();
                let Some(slot) = cache.get_mut(page % CACHED_PAGES) else {
                    return Ok(());
                };
                let (known, bytes) = slot.get_or_insert_with(|| (usize::MAX, vec![0; BYTES]));
                if *known != page {
                    *known = usize::MAX;
                    file.read_exact_at(bytes, (page * BYTES) as u64)
                        .context("cannot read counters back from their temporary file")?;
                    *known = page;
                }
                look(bytes);
            }
        }
        Ok(())
    }

    pub(super) fn name(&self, counter: usize) -> &str {
        self.names.get(counter).map_or("?", String::as_str)
    }
}

/// Adds up values that come in order of their keys.
struct Builder<'p> {
    folder: &'p Path,
    memory_bytes: usize,
    pages: Vec<Key>,
    /// How many sums there are.
    written: usize,
    /// Bytes that are not in the file.
    bytes: Vec<u8>,
    file: Option<File>,
    /// The sums of the current event.
    current: Option<Key>,
    sums: Vec<(u32, f64)>,
}

impl<'p> Builder<'p> {
    fn new(folder: &'p Path, memory_bytes: usize) -> Self {
        Self {
            folder,
            memory_bytes,
            pages: Vec::new(),
            written: 0,
            bytes: Vec::new(),
            file: None,
            current: None,
            sums: Vec::new(),
        }
    }

    fn add(&mut self, value: Value) -> anyhow::Result<()> {
        if self.current != Some(value.key) {
            self.close()?;
            self.current = Some(value.key);
        }
        let known = self.sums.iter_mut().find(|sum| sum.0 == value.counter);
        match known {
            Some((_, sum)) => *sum += value.value,
            None => self.sums.push((value.counter, value.value)),
        }
        Ok(())
    }

    /// Ends the current event.
    fn close(&mut self) -> anyhow::Result<()> {
        let Some(key) = self.current.take() else {
            return Ok(());
        };
        for (counter, value) in self.sums.drain(..) {
            if self.written.is_multiple_of(PAGE_SUMS) {
                self.pages.push(key);
            }
            self.written += 1;
            Value {
                key,
                counter,
                value,
            }
            .put(&mut self.bytes);
        }
        if self.bytes.len() > self.memory_bytes {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> anyhow::Result<()> {
        let failed = || format!("cannot keep counters in {}", self.folder.display());
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(self.folder).with_context(failed)?),
        };
        file.write_all(&self.bytes).with_context(failed)?;
        self.bytes.clear();
        // What comes now is written in pieces.
        self.memory_bytes = self.memory_bytes.min(1 << 20);
        Ok(())
    }

    fn finish(mut self, names: Vec<String>) -> anyhow::Result<CounterSums> {
        self.close()?;
        if self.file.is_some() {
            // Pages are read whole.
            let whole = self.pages.len() * PAGE_SUMS;
            let missing = (whole - self.written) * Value::BYTES;
            self.bytes.resize(self.bytes.len() + missing, u8::MAX);
            self.spill()?;
        }
        let sums = match self.file {
            Some(file) => Sums::Disk {
                file,
                cache: RefCell::new(vec![None; CACHED_PAGES]),
            },
            None => Sums::Memory(self.bytes),
        };
        Ok(CounterSums {
            pages: self.pages,
            sums,
            names,
        })
    }
}

fn small(partition: usize) -> u32 {
    u32::try_from(partition).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of made-up values, and the same from a map.
    fn check(memory_bytes: usize) -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let mut builder = Builder::new(folder.path(), memory_bytes);
        let mut expected: FxHashMap<Key, Vec<(usize, f64)>> = FxHashMap::default();
        // Every seventh event has more sums than fit on a page.
        for partition in 0..2_u32 {
            for event in (-300..300_i64).step_by(2) {
                let counters = if event % 7 == 0 { 300 } else { 3 };
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
        assert_eq!(
            matches!(sums.sums, Sums::Disk { .. }),
            memory_bytes < 1 << 20
        );
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
    fn spilled_or_not_the_sums_are_those_of_a_map() -> anyhow::Result<()> {
        check(1 << 30)?;
        check(1000)
    }
}
