//! Texts of a trace, each stored once.

use std::borrow::Cow;
use std::hash::BuildHasher as _;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// A text of a [`Names`] table, or no text at all ([`Name::NULL`]).
///
/// The words that the format itself uses have fixed numbers, so that they can be compared without the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)+) => {
        impl Name {
            $($(#[$doc])* pub const $name: Self = Self($number);)+
        }
        const FIXED: &[&str] = &[$($text),+];
    };
}

fixed! {
    /// The empty text.
    EMPTY = 0, "";
    /// The operation `load`.
    LOAD = 1, "load";
    /// The operation `store`.
    STORE = 2, "store";
    /// The region type `unknown`.
    UNKNOWN = 3, "unknown";
    /// The region type `weight`.
    WEIGHT = 4, "weight";
    /// The region type `kv_cache`.
    KV_CACHE = 5, "kv_cache";
    /// The region type `activation`.
    ACTIVATION = 6, "activation";
    /// The region type `runtime`.
    RUNTIME = 7, "runtime";
    /// The phase `weight_load`.
    WEIGHT_LOAD = 8, "weight_load";
    /// The phase `generation`.
    GENERATION = 9, "generation";
    /// The phase `teardown`.
    TEARDOWN = 10, "teardown";
    /// The cache level `L1`.
    L1 = 11, "L1";
    /// The cache level `L2`.
    L2 = 12, "L2";
    /// The cache level `L3`.
    L3 = 13, "L3";
    /// The cache level `L4`.
    L4 = 14, "L4";
    /// The cache level `LFB`, the line fill buffer.
    LFB = 15, "LFB";
    /// The cache level `DRAM`.
    DRAM = 16, "DRAM";
    /// The operation `page_fault`: the first touch of a page, of which nobody knows whether it was a load or a store.
    PAGE_FAULT = 17, "page_fault";
}

impl Name {
    /// No text.
    pub const NULL: Self = Self(u32::MAX);

    /// Whether there is no text.
    #[must_use]
    pub fn is_null(self) -> bool {
        self == Self::NULL
    }

    /// The number of the text in its table.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Every text of a trace once: symbols, objects, phases, types.
///
/// At most 2^32 - 2 texts; beyond that texts become [`Name::NULL`].
///
/// ```
/// use memtrace_labeller::{Name, Names};
/// let mut names = Names::new();
/// let symbol = names.intern("ggml_mul_mat");
/// assert_eq!(names.get(symbol), Some("ggml_mul_mat"));
/// assert_eq!(names.intern("load"), Name::LOAD);
/// ```
#[derive(Debug, Clone)]
pub struct Names {
    texts: Vec<Box<str>>,
    table: HashTable<u32>,
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

impl Names {
    /// A table of the fixed words.
    #[must_use]
    pub fn new() -> Self {
        let mut names = Self {
            texts: Vec::new(),
            table: HashTable::new(),
        };
        for text in FIXED {
            names.intern(text);
        }
        names
    }

    /// The number of a text, which is added when it is new.
    pub fn intern(&mut self, text: &str) -> Name {
        let hash = hash(text);
        let texts = &self.texts;
        let same = |at: &u32| {
            texts
                .get(*at as usize)
                .is_some_and(|known| **known == *text)
        };
        if let Some(&known) = self.table.find(hash, same) {
            return Name(known);
        }
        let Ok(number) = u32::try_from(self.texts.len()) else {
            return Name::NULL;
        };
        if number == u32::MAX {
            return Name::NULL;
        }
        self.texts.push(text.into());
        let texts = &self.texts;
        self.table.insert_unique(hash, number, |at| {
            texts
                .get(*at as usize)
                .map_or(0, |text| crate::names::hash(text))
        });
        Name(number)
    }

    /// As [`Names::intern`], from bytes; what is not UTF-8 is replaced by U+FFFD.
    pub fn intern_bytes(&mut self, bytes: &[u8]) -> Name {
        match String::from_utf8_lossy(bytes) {
            Cow::Borrowed(text) => self.intern(text),
            Cow::Owned(text) => self.intern(&text),
        }
    }

    /// The text of a number of this table; `None` for [`Name::NULL`].
    #[must_use]
    pub fn get(&self, name: Name) -> Option<&str> {
        self.texts.get(name.0 as usize).map(|text| &**text)
    }

    /// The text, or the empty one.
    #[must_use]
    pub fn text(&self, name: Name) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// How many texts there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are no texts; never, since the fixed words are always there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The texts from a number on, in their order: what to intern in a second table to keep it equal to this one.
    pub fn since(&self, from: usize) -> impl Iterator<Item = &str> {
        self.texts.iter().skip(from).map(|text| &**text)
    }

    /// Where the texts of `other` are in this table, in the order of their numbers; new ones are added.
    pub fn absorb(&mut self, other: &Self) -> Vec<Name> {
        other.texts.iter().map(|text| self.intern(text)).collect()
    }
}

fn hash(text: &str) -> u64 {
    FxBuildHasher.hash_one(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_words_have_their_numbers_and_texts_are_kept_once() {
        let mut names = Names::new();
        assert_eq!(names.intern("DRAM"), Name::DRAM);
        assert_eq!(names.intern(""), Name::EMPTY);
        let count = names.len();
        let a = names.intern("a");
        assert_eq!(names.intern("a"), a);
        assert_eq!(names.len(), count + 1);
        assert_eq!(names.get(Name::NULL), None);
        let bad = names.intern_bytes(b"x\xff");
        assert_eq!(names.text(bad), "x\u{fffd}");
    }
}
