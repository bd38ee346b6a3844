//! Interns strings in one arena of bytes with a hash table of ids.

use std::hash::{BuildHasher, Hasher};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::ids::StrId;

/// Interned strings. Ids count up from 0 in order of first appearance.
#[derive(Clone, Debug, Default)]
pub struct StringTable {
    bytes: String,
    /// End of each string in `bytes`.
    ends: Vec<usize>,
    ids: HashTable<StrId>,
}

impl StringTable {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the id of `text`, and stores it if it is new. Cost: one hash of the text.
    ///
    /// # Panics
    ///
    /// Panics after 4,294,967,294 distinct strings, which take more memory than the readers' limits
    /// allow.
    pub fn intern(&mut self, text: &str) -> StrId {
        let hash = hash(text.as_bytes());
        let (bytes, ends) = (&self.bytes, &self.ends);
        if let Some(&id) = self.ids.find(hash, |&id| slice_of(bytes, ends, id) == text) {
            return id;
        }
        let id = StrId::new(self.ends.len()).expect("fewer than 2^32 distinct strings");
        self.bytes.push_str(text);
        self.ends.push(self.bytes.len());
        let (bytes, ends) = (&self.bytes, &self.ends);
        self.ids.insert_unique(hash, id, |&other| {
            self::hash(slice_of(bytes, ends, other).as_bytes())
        });
        id
    }

    /// Returns the id of `text` if it is in the table.
    pub fn find(&self, text: &str) -> Option<StrId> {
        self.find_bytes(text.as_bytes())
    }

    /// Returns the id of the string with these bytes, if it is in the table. A reader that finds
    /// its raw bytes here need not check that they are UTF-8.
    pub fn find_bytes(&self, text: &[u8]) -> Option<StrId> {
        self.ids
            .find(hash(text), |&id| self.get(id).as_bytes() == text)
            .copied()
    }

    /// Returns the text of `id`; an id of another table gives that row's text, or "" past the end.
    pub fn get(&self, id: StrId) -> &str {
        slice_of(&self.bytes, &self.ends, id)
    }

    /// Returns the number of distinct strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns `true` if the table is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns all strings with their ids, in order of first appearance.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (StrId, &str)> {
        (0..self.ends.len()).map(|i| {
            let id = StrId::new(i).expect("a stored string has an id");
            (id, self.get(id))
        })
    }

    /// Returns the memory used, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.ids.capacity() * (size_of::<StrId>() + 1)
    }
}

fn hash(text: &[u8]) -> u64 {
    let mut hasher = FxBuildHasher.build_hasher();
    hasher.write(text);
    hasher.finish()
}

fn slice_of<'a>(bytes: &'a str, ends: &[usize], id: StrId) -> &'a str {
    let i = id.index();
    let end = ends.get(i).copied().unwrap_or(0);
    let start = if i == 0 {
        0
    } else {
        ends.get(i - 1).copied().unwrap_or(end)
    };
    bytes.get(start..end).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_text_has_one_id_and_order_is_first_appearance() {
        let mut t = StringTable::new();
        let a = t.intern("aten::mm");
        let empty = t.intern("");
        assert_eq!(t.intern("aten::mm"), a);
        assert_eq!((a.index(), empty.index(), t.len()), (0, 1, 2));
        assert_eq!((t.get(a), t.get(empty)), ("aten::mm", ""));
        assert_eq!(t.find("nothing"), None);
        assert_eq!(t.find_bytes(b"aten::mm"), Some(a));
        assert_eq!(t.find_bytes(b"aten::\xff"), None);
    }

    #[test]
    fn survives_growth() {
        let mut t = StringTable::new();
        let ids: Vec<_> = (0..10_000).map(|i| t.intern(&format!("s{i}"))).collect();
        for (i, id) in ids.iter().enumerate() {
            assert_eq!(t.get(*id), format!("s{i}"));
            assert_eq!(t.find(&format!("s{i}")), Some(*id));
        }
    }
}
