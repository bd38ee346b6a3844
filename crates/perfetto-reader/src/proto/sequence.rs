//! State of one writer: dictionary entries, defaults and bases of deltas, valid until the writer
//! clears its incremental state.

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use rustc_hash::FxHashMap;
use trace_model::{CategoryId, StrId};

use crate::proto::clock::Translation;

/// Values by interning id; ids count from 1, so most are in the vector.
#[derive(Debug)]
pub(crate) struct IidTable<T> {
    small: Vec<Option<T>>,
    large: FxHashMap<u64, T>,
}

impl<T> Default for IidTable<T> {
    fn default() -> Self {
        Self {
            small: Vec::new(),
            large: FxHashMap::default(),
        }
    }
}

impl<T: Copy> IidTable<T> {
    #[inline]
    pub(crate) fn get(&self, iid: u64) -> Option<T> {
        let at = usize::try_from(iid).ok()?;
        match self.small.get(at) {
            Some(&Some(value)) => Some(value),
            _ if self.large.is_empty() => None,
            _ => self.large.get(&iid).copied(),
        }
    }

    pub(crate) fn set(&mut self, iid: u64, value: T) {
        // An entry at most doubles the vector, so that a single large id takes no memory.
        let limit = self.small.len() as u64 * 2 + 64;
        match usize::try_from(iid) {
            Ok(at) if iid < limit => {
                if at >= self.small.len() {
                    self.small.resize_with(at + 1, || None);
                }
                if let Some(slot) = self.small.get_mut(at) {
                    *slot = Some(value);
                }
            }
            _ => {
                self.large.insert(iid, value);
            }
        }
    }

    fn clear(&mut self) {
        self.small.clear();
        self.large.clear();
    }
}

/// A category as text and as an entry of the trace's dictionary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Category {
    pub(crate) text: StrId,
    pub(crate) id: CategoryId,
}

/// Name of an annotation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArgName {
    /// Key with prefix, with the characters of the path grammar replaced.
    pub(crate) key: StrId,
    /// `true` if this key, or a key below it, may be selected.
    pub(crate) wanted: bool,
}

/// A place in the source code.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Location {
    pub(crate) file: Option<StrId>,
    pub(crate) function: Option<StrId>,
    pub(crate) line: u32,
}

/// Dictionary of one generation.
#[derive(Debug, Default)]
pub(crate) struct Interned {
    pub(crate) categories: IidTable<Category>,
    pub(crate) names: IidTable<StrId>,
    pub(crate) arg_names: IidTable<ArgName>,
    pub(crate) arg_texts: IidTable<StrId>,
    pub(crate) locations: IidTable<Location>,
    pub(crate) correlations: IidTable<StrId>,
}

impl Interned {
    fn clear(&mut self) {
        self.categories.clear();
        self.names.clear();
        self.arg_names.clear();
        self.arg_texts.clear();
        self.locations.clear();
        self.correlations.clear();
    }
}

/// Defaults of packets and track events.
#[derive(Debug, Default)]
pub(crate) struct Defaults {
    pub(crate) clock_id: u32,
    pub(crate) track_uuid: Option<u64>,
    pub(crate) extra_uuids: Vec<u64>,
    pub(crate) extra_double_uuids: Vec<u64>,
}

/// Bases of the deltas of legacy events, in ns and instructions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Base {
    pub(crate) ts_ns: i64,
    pub(crate) thread_time_ns: i64,
    pub(crate) instructions: i64,
}

/// Last conversion of a sequence, valid until the next snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldTranslation {
    pub(crate) clock_id: u32,
    /// Index of the clock.
    pub(crate) clock: usize,
    pub(crate) version: u32,
    pub(crate) translation: Translation,
}

/// State of one writer.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    pub(crate) machine: u32,
    pub(crate) id: u32,
    /// `true` once a packet of it has been read.
    pub(crate) seen: bool,
    /// `true` if its incremental state is complete.
    pub(crate) valid: bool,
    pub(crate) interned: Interned,
    pub(crate) defaults: Defaults,
    /// Sums of incremental counters.
    pub(crate) counters: FxHashMap<u64, f64>,
    /// pid and tid of the last thread descriptor; survives clears.
    pub(crate) thread: Option<(i32, i32)>,
    /// Number of times the state was cleared.
    pub(crate) generation: u32,
    /// Last described thread of each generation, ascending.
    threads: Vec<(u32, (i32, i32))>,
    pub(crate) base: Option<Base>,
    pub(crate) held: Option<HeldTranslation>,
}

impl Sequence {
    /// Records the thread of a descriptor.
    pub(crate) fn describe(&mut self, thread: (i32, i32)) {
        self.thread = Some(thread);
        match self.threads.last_mut() {
            Some((generation, last)) if *generation == self.generation => *last = thread,
            _ => self.threads.push((self.generation, thread)),
        }
    }

    /// Returns the last described thread at the end of a generation.
    pub(crate) fn thread_of(&self, generation: u32) -> Option<(i32, i32)> {
        let after = self.threads.partition_point(|&(g, _)| g <= generation);
        Some(self.threads.get(after.checked_sub(1)?)?.1)
    }

    /// Starts a new generation.
    pub(crate) fn clear(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.valid = true;
        self.interned.clear();
        self.defaults = Defaults::default();
        self.counters.clear();
        self.base = None;
    }

    /// Records that packets are missing: earlier entries stay readable, but are not relied on.
    pub(crate) fn lose(&mut self) {
        self.valid = false;
        self.base = None;
    }
}

/// States of all writers.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    list: Vec<Sequence>,
    index: FxHashMap<(u32, u32), usize>,
    last: Option<((u32, u32), usize)>,
}

impl Sequences {
    /// Returns the index of a writer; creates it if needed.
    #[inline]
    pub(crate) fn find(&mut self, machine: u32, id: u32) -> usize {
        let key = (machine, id);
        if let Some((last, at)) = self.last
            && last == key
        {
            return at;
        }
        let at = *self.index.entry(key).or_insert_with(|| {
            self.list.push(Sequence {
                machine,
                id,
                ..Sequence::default()
            });
            self.list.len() - 1
        });
        self.last = Some((key, at));
        at
    }
}

impl std::ops::Index<usize> for Sequences {
    type Output = Sequence;

    #[expect(clippy::indexing_slicing, reason = "places come from `find`")]
    fn index(&self, at: usize) -> &Sequence {
        &self.list[at]
    }
}

impl std::ops::IndexMut<usize> for Sequences {
    #[expect(clippy::indexing_slicing, reason = "places come from `find`")]
    fn index_mut(&mut self, at: usize) -> &mut Sequence {
        &mut self.list[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_definition_counts_wherever_it_is_kept() {
        let mut table = IidTable::default();
        table.set(u64::MAX, 1);
        table.set(100, 2);
        assert_eq!(table.get(100), Some(2));
        for iid in 1..=200 {
            table.set(iid, 10);
        }
        assert_eq!(table.get(100), Some(10));
        assert_eq!(
            (table.get(u64::MAX), table.get(0), table.get(201)),
            (Some(1), None, None)
        );
        assert!(table.small.capacity() < 1024);
        table.clear();
        assert_eq!((table.get(u64::MAX), table.get(7)), (None, None));
    }
}
