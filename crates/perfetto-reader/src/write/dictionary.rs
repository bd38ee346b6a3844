//! Interns the texts of the writer's single sequence.

use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashSet};
use std::hash::BuildHasher;

use crate::write::encode::Encoder;

/// Maximum number of entries of all tables together; then a new generation begins.
const MAX_ENTRIES: usize = 1 << 17;
/// Maximum size of all texts together in bytes; then a new generation begins.
const MAX_BYTES: usize = 16 << 20;

/// A dictionary of `InternedData`; the number is that of its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Category = 1,
    Name = 2,
    ArgName = 3,
    ArgText = 29,
}

/// Number of slots of the cache of recent texts.
const RECENT: usize = 256;

/// Texts by first appearance; ids count from 1.
#[derive(Debug)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    index: HashTable<u32>,
    /// Last index per address: callers pass the same texts from the same addresses.
    recent: [u32; RECENT],
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            index: HashTable::new(),
            recent: [0; RECENT],
        }
    }
}

impl Texts {
    #[inline]
    fn get(&self, at: u32) -> &[u8] {
        let at = at as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    /// Returns the slot of `recent` for a text.
    #[inline]
    fn place(text: &[u8]) -> usize {
        let address = text.as_ptr() as usize;
        (address ^ (address >> 8) ^ text.len()) % RECENT
    }

    /// Returns the index of a known text.
    #[inline]
    fn find(&mut self, text: &[u8]) -> Option<u32> {
        // Only a guess: the text is compared.
        let place = Self::place(text);
        let guess = self.recent[place];
        if (guess as usize) < self.ends.len() && same(self.get(guess), text) {
            return Some(guess);
        }
        let hash = FxBuildHasher.hash_one(text);
        let at = *self.index.find(hash, |&at| self.get(at) == text)?;
        self.recent[place] = at;
        Some(at)
    }

    /// Returns the id of `text`, and `true` if it is new.
    #[inline]
    fn intern(&mut self, text: &str) -> (u64, bool) {
        let text = text.as_bytes();
        match self.find(text) {
            Some(at) => (u64::from(at) + 1, false),
            None => (self.add(text), true),
        }
    }

    fn add(&mut self, text: &[u8]) -> u64 {
        let hash = FxBuildHasher.hash_one(text);
        let at = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        let (bytes, ends) = (&self.bytes, &self.ends);
        let text_at = |at: u32| {
            let at = at as usize;
            let start = if at == 0 { 0 } else { ends[at - 1] };
            &bytes[start..ends[at]]
        };
        self.index
            .insert_unique(hash, at, |&other| FxBuildHasher.hash_one(text_at(other)));
        u64::from(at) + 1
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.index.clear();
    }
}

/// Compares two texts; short ones without a function call.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    // Two overlapping words cover a text of 8 to 16 bytes.
    match (a.first_chunk::<8>(), b.first_chunk::<8>()) {
        (Some(a_start), Some(b_start)) if a.len() <= 16 => {
            u64::from_ne_bytes(*a_start) == u64::from_ne_bytes(*b_start)
                && a.last_chunk::<8>() == b.last_chunk::<8>()
        }
        (None, None) => a.iter().zip(b).all(|(a, b)| a == b),
        _ => a == b,
    }
}

/// All dictionaries, and the entries that the next packet must carry.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    categories: Texts,
    names: Texts,
    arg_names: Texts,
    arg_texts: Texts,
    /// Hashes of the long texts that were written inline.
    inline: FxHashSet<u64>,
    /// For each entry of `arg_names`: `true` if it is not a path.
    plain: Vec<bool>,
    /// `InternedData` of the next packet.
    pub(crate) fresh: Encoder,
    entry: Encoder,
}

impl Dictionary {
    pub(crate) fn intern(&mut self, table: Table, text: &str) -> u64 {
        let texts = match table {
            Table::Category => &mut self.categories,
            Table::Name => &mut self.names,
            Table::ArgName => &mut self.arg_names,
            Table::ArgText => &mut self.arg_texts,
        };
        let (iid, is_new) = texts.intern(text);
        if is_new {
            if table == Table::ArgName {
                self.plain.push(!text.contains(['.', '[']));
            }
            self.entry.clear();
            self.entry.uint(1, iid);
            self.entry.bytes(2, text.as_bytes());
            self.fresh.bytes(table as u32, self.entry.as_slice());
        }
        iid
    }

    /// Returns `true` if a long text was written before.
    pub(crate) fn repeats(&mut self, text: &str) -> bool {
        !self.inline.insert(FxBuildHasher.hash_one(text))
    }

    /// Returns the id of an argument's key, unless the key is a path.
    #[inline]
    pub(crate) fn plain_key(&mut self, key: &str) -> Option<u64> {
        if let Some(at) = self.arg_names.find(key.as_bytes()) {
            let plain = self.plain.get(at as usize).is_some_and(|plain| *plain);
            return plain.then(|| u64::from(at) + 1);
        }
        if key.contains(['.', '[']) {
            return None;
        }
        Some(self.intern(Table::ArgName, key))
    }

    /// Returns `true` if the tables must be cleared to bound the memory.
    pub(crate) fn is_full(&self) -> bool {
        let all = [
            &self.categories,
            &self.names,
            &self.arg_names,
            &self.arg_texts,
        ];
        all.iter().map(|t| t.ends.len()).sum::<usize>() > MAX_ENTRIES
            || self.inline.len() > MAX_ENTRIES
            || all.iter().map(|t| t.bytes.len()).sum::<usize>() > MAX_BYTES
    }

    pub(crate) fn clear(&mut self) {
        self.categories.clear();
        self.names.clear();
        self.arg_names.clear();
        self.arg_texts.clear();
        self.plain.clear();
        self.inline.clear();
        self.fresh.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_same_in_every_byte() {
        let text = b"abcdefghijklmnopqrstuvwxyz";
        for length in 0..text.len() {
            let one = &text[..length];
            let again = one.to_vec();
            assert!(same(one, &again));
            assert!(!same(one, &text[..length + 1]));
            for at in 0..length {
                let mut other = one.to_vec();
                other[at] ^= 1;
                assert!(!same(one, &other), "{length} {at}");
            }
        }
    }

    #[test]
    fn keys_that_are_paths_stay_apart() {
        let mut dictionary = Dictionary::default();
        assert_eq!(dictionary.plain_key("a.b"), None);
        assert_eq!(dictionary.plain_key("a"), Some(1));
        // As a component of a path it may be interned, yet it is not a plain key.
        assert_eq!(dictionary.intern(Table::ArgName, "c.d"), 2);
        assert_eq!(dictionary.plain_key("c.d"), None);
        dictionary.clear();
        assert_eq!(dictionary.plain_key("c"), Some(1));
    }
}
