//! Correlation ids of GPU activities, and when the calls of these ids started.

use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use crate::ids::ProcessKey;

/// Correlation ids by process: one bit each, because ids are dense.
#[derive(Debug, Default)]
pub(crate) struct LinkedIds {
    blocks: FxHashMap<(ProcessKey, i64), u64>,
    /// The block of the last id, which the next one mostly is in.
    last: Option<((ProcessKey, i64), u64)>,
}

fn place(id: i64) -> (i64, u64) {
    (id >> 6, 1 << (id & 63))
}

impl LinkedIds {
    pub(crate) fn insert(&mut self, process: ProcessKey, id: i64) {
        let (block, bit) = place(id);
        let key = (process, block);
        match &mut self.last {
            Some((last, bits)) if *last == key => *bits |= bit,
            _ => {
                self.flush();
                self.last = Some((key, bit));
            }
        }
    }

    fn flush(&mut self) {
        if let Some((key, bits)) = self.last.take() {
            *self.blocks.entry(key).or_default() |= bits;
        }
    }

    /// Adds the ids of another part.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        self.flush();
        other.flush();
        if self.blocks.is_empty() {
            self.blocks = other.blocks;
            return;
        }
        other.blocks.into_iter().for_each(|(key, bits)| {
            *self.blocks.entry(key).or_default() |= bits;
        });
    }

    /// Gives the ids of one process to another.
    pub(crate) fn rename(&mut self, from: ProcessKey, to: ProcessKey) {
        self.flush();
        let mut moved: Vec<(i64, u64)> = Vec::new();
        self.blocks.retain(|(process, block), bits| {
            let stays = *process != from;
            if !stays {
                moved.push((*block, *bits));
            }
            stays
        });
        for (block, bits) in moved {
            *self.blocks.entry((to, block)).or_default() |= bits;
        }
    }

    /// Returns `true` if a GPU activity has this id. All ids have been inserted and [`LinkedIds::sealed`].
    pub(crate) fn contains(&self, process: ProcessKey, id: i64) -> bool {
        let (block, bit) = place(id);
        self.blocks
            .get(&(process, block))
            .is_some_and(|bits| bits & bit != 0)
    }

    /// Completes the ids after the last was inserted.
    pub(crate) fn sealed(mut self) -> Self {
        self.flush();
        self
    }
}

/// No call of the id was seen.
const NONE: u64 = u64::MAX;

/// What a call that is not named as a launch adds to its key: of several calls with one id, the earliest launch is meant.
const OTHER: u64 = 1 << 63;

/// Starts of the calls of ids, filled by several threads.
#[derive(Debug)]
pub(crate) struct CallStarts {
    /// Ids of a block, and how many ids the blocks before have.
    blocks: FxHashMap<(ProcessKey, i64), (u64, usize)>,
    keys: Vec<AtomicU64>,
}

impl CallStarts {
    /// Creates an empty table of these ids; without `keeps`, it only tells which ids GPU activities have.
    pub(crate) fn new(ids: LinkedIds, keeps: bool) -> Self {
        let mut before = 0;
        let blocks = ids.blocks.into_iter().map(|(key, bits)| {
            let first = before;
            before += bits.count_ones() as usize;
            (key, (bits, first))
        });
        let blocks: FxHashMap<(ProcessKey, i64), (u64, usize)> = blocks.collect();
        let kept = if keeps { before } else { 0 };
        let keys = (0..kept).map(|_| AtomicU64::new(NONE)).collect();
        Self { blocks, keys }
    }

    /// Returns the place of an id, if a GPU activity has it.
    fn place(&self, process: ProcessKey, id: i64) -> Option<usize> {
        let (block, bit) = place(id);
        let (bits, before) = self.blocks.get(&(process, block))?;
        if bits & bit == 0 {
            return None;
        }
        let rank = (bits & (bit - 1)).count_ones() as usize;
        Some(before + rank)
    }

    /// Adds a call. Returns `true` if a GPU activity has its id.
    pub(crate) fn add(&self, process: ProcessKey, id: i64, start_ns: i64, launches: bool) -> bool {
        let Some(place) = self.place(process, id) else {
            return false;
        };
        let Some(slot) = self.keys.get(place) else {
            return true;
        };
        // Possible times are far from the limits, so order survives the move to unsigned numbers.
        let moved = start_ns.cast_unsigned().wrapping_add(1 << 62) & (OTHER - 1);
        let key = if launches { moved } else { moved | OTHER };
        slot.fetch_min(key.min(NONE - 1), Ordering::Relaxed);
        true
    }

    /// Returns the start of the call that launched the activities of an id.
    pub(crate) fn of(&self, process: ProcessKey, id: i64) -> Option<i64> {
        if self.keys.is_empty() {
            return None;
        }
        let slot = self.keys.get(self.place(process, id)?)?;
        let key = slot.load(Ordering::Relaxed);
        let moved = key & (OTHER - 1);
        (key != NONE).then(|| moved.wrapping_sub(1 << 62).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_processes_are_apart_and_the_earliest_launch_is_meant() {
        let (one, two) = (ProcessKey::of(1 << 24), ProcessKey::of(2 << 24));
        let mut ids = LinkedIds::default();
        for id in [1, 2, 64, 200, -5, i64::MAX, i64::MIN] {
            ids.insert(one, id);
        }
        let mut other = LinkedIds::default();
        other.insert(ProcessKey::UNKNOWN, 3);
        ids.absorb(other);
        ids.rename(ProcessKey::UNKNOWN, two);
        let ids = ids.sealed();
        assert!(ids.contains(two, 3) && !ids.contains(one, 3) && ids.contains(one, i64::MIN));
        let starts = CallStarts::new(ids, true);
        assert!(starts.add(one, 2, -700, false));
        assert!(starts.add(one, 2, 40, true) && starts.add(one, 2, 30, true));
        assert!(starts.add(one, -5, -9, false));
        assert!(!starts.add(one, 3, 1, true) && !starts.add(two, 2, 1, true));
        let found = [2, -5, 1, 3].map(|id| starts.of(one, id));
        assert_eq!(found, [Some(30), Some(-9), None, None]);
    }
}
