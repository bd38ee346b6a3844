//! Interned texts of the one sequence that the writer uses.

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;

use crate::write::encode::Encoder;

/// Entries of all tables together before a new generation begins.
const MAX_ENTRIES: usize = 1 << 17;
/// Bytes of all texts together before a new generation begins.
const MAX_BYTES: usize = 16 << 20;

/// Which dictionary of `InternedData`; the number is that of its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Category = 1,
    Name = 2,
    ArgName = 3,
    ArgText = 29,
}

/// Places in the memory of texts seen last.
const RECENT: usize = 64;

/// Texts by first appearance; ids count up from 1.
#[derive(Debug)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    index: HashTable<u32>,
    /// What a text at some address was last: callers give the same texts from the same places.
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
    fn get(&self, at: u32) -> &[u8] {
        let at = at as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    /// The id of `text`, and whether it is new.
    fn intern(&mut self, text: &str) -> (u64, bool) {
        let text = text.as_bytes();
        // A guess only: the text is compared.
        let address = text.as_ptr() as usize;
        let place = (address ^ (address >> 6) ^ text.len()) % RECENT;
        let guess = self.recent[place];
        if (guess as usize) < self.ends.len() && self.get(guess) == text {
            return (u64::from(guess) + 1, false);
        }
        let hash = FxBuildHasher.hash_one(text);
        if let Some(&at) = self.index.find(hash, |&at| self.get(at) == text) {
            self.recent[place] = at;
            return (u64::from(at) + 1, false);
        }
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
        (u64::from(at) + 1, true)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.index.clear();
    }
}

/// All dictionaries, and the entries that the next packet must carry.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    categories: Texts,
    names: Texts,
    arg_names: Texts,
    arg_texts: Texts,
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
            self.entry.clear();
            self.entry.uint(1, iid);
            self.entry.bytes(2, text.as_bytes());
            self.fresh.bytes(table as u32, &self.entry.0);
        }
        iid
    }

    /// Is it time to forget everything, so that memory stays bounded?
    pub(crate) fn is_full(&self) -> bool {
        let all = [
            &self.categories,
            &self.names,
            &self.arg_names,
            &self.arg_texts,
        ];
        all.iter().map(|t| t.ends.len()).sum::<usize>() > MAX_ENTRIES
            || all.iter().map(|t| t.bytes.len()).sum::<usize>() > MAX_BYTES
    }

    pub(crate) fn clear(&mut self) {
        self.categories.clear();
        self.names.clear();
        self.arg_names.clear();
        self.arg_texts.clear();
        self.fresh.clear();
    }
}
