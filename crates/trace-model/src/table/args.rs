//! Arguments, stored by shape.
//!
//! A trace has a few distinct *shapes* (ordered lists of key and kind) for hundreds of thousands of
//! slices. A shape is stored once; a slice stores the index of its shape and the position of its
//! 8-byte values. This is lossless and costs 8 bytes per value.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::ids::StrId;
use crate::intern::StringTable;

/// Interpretation of a value word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ArgKind {
    /// Signed integer.
    Int,
    /// Unsigned integer.
    UInt,
    /// Binary64.
    Real,
    /// 0 or 1.
    Bool,
    /// Text.
    Str,
    /// Raw JSON text of an array or an object, as the producer wrote it.
    Json,
    /// An address.
    Pointer,
}

/// One argument's value. Texts borrow from the trace.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum ArgValue<'a> {
    /// Signed integer.
    Int(i64),
    /// Unsigned integer.
    UInt(u64),
    /// Binary64.
    Real(f64),
    /// Truth value.
    Bool(bool),
    /// Text.
    Str(&'a str),
    /// Raw JSON text of an array or an object.
    Json(&'a str),
    /// An address.
    Pointer(u64),
}

impl<'a> ArgValue<'a> {
    /// Returns the value as a signed integer: integers in range, integral reals, and texts that are
    /// one decimal number (Kineto writes some ids as text).
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(n),
            Self::UInt(n) | Self::Pointer(n) => i64::try_from(n).ok(),
            Self::Real(x) if x.fract() == 0.0 && x.abs() < 9.0e15 =>
            {
                #[expect(clippy::cast_possible_truncation, reason = "integral and below 2^53")]
                Some(x as i64)
            }
            Self::Str(s) => s.trim().parse().ok(),
            _ => None,
        }
    }

    /// Returns the value as binary64: any number, or a text that is a number.
    pub fn as_f64(self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "the caller asks for binary64")]
        match self {
            Self::Int(n) => Some(n as f64),
            Self::UInt(n) | Self::Pointer(n) => Some(n as f64),
            Self::Real(x) => Some(x),
            Self::Str(s) => s.trim().parse().ok(),
            _ => None,
        }
    }

    /// Returns the text, for `Str` and `Json`.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Self::Str(s) | Self::Json(s) => Some(s),
            _ => None,
        }
    }
}

/// An argument before it is stored: texts are ids of the batch's string table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arg {
    /// Full key with its prefix, for example `args.stream` or `debug.corr_id`.
    pub key: StrId,
    /// Interpretation of `word`.
    pub kind: ArgKind,
    /// Value: integer or binary64 bits, 0 or 1, or the index of a [`StrId`].
    pub word: u64,
}

impl Arg {
    /// Creates a signed integer.
    pub fn int(key: StrId, value: i64) -> Self {
        Self {
            key,
            kind: ArgKind::Int,
            word: value.cast_unsigned(),
        }
    }

    /// Creates an unsigned integer.
    pub fn uint(key: StrId, value: u64) -> Self {
        Self {
            key,
            kind: ArgKind::UInt,
            word: value,
        }
    }

    /// Creates a binary64 number.
    pub fn real(key: StrId, value: f64) -> Self {
        Self {
            key,
            kind: ArgKind::Real,
            word: value.to_bits(),
        }
    }

    /// Creates a truth value.
    pub fn bool(key: StrId, value: bool) -> Self {
        Self {
            key,
            kind: ArgKind::Bool,
            word: u64::from(value),
        }
    }

    /// Creates a text.
    pub fn text(key: StrId, value: StrId) -> Self {
        Self {
            key,
            kind: ArgKind::Str,
            word: value.index() as u64,
        }
    }

    /// Creates raw JSON of an array or object.
    pub fn json(key: StrId, value: StrId) -> Self {
        Self {
            key,
            kind: ArgKind::Json,
            word: value.index() as u64,
        }
    }

    /// Creates an address.
    pub fn pointer(key: StrId, value: u64) -> Self {
        Self {
            key,
            kind: ArgKind::Pointer,
            word: value,
        }
    }
}

/// Index of a shape; [`ArgShapeId::NONE`] has no arguments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ArgShapeId(pub(crate) u16);

impl ArgShapeId {
    /// No arguments.
    pub const NONE: Self = Self(u16::MAX);
}

/// Location of a slice's arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArgsRef {
    pub(crate) shape: ArgShapeId,
    pub(crate) offset: u32,
}

impl ArgsRef {
    /// No arguments.
    pub const NONE: Self = Self {
        shape: ArgShapeId::NONE,
        offset: 0,
    };

    /// Returns `true` if there are no arguments.
    pub fn is_none(self) -> bool {
        self.shape == ArgShapeId::NONE
    }
}

pub(crate) type Shape = Box<[(StrId, ArgKind)]>;

/// Value words and their shapes.
#[derive(Clone, Debug, Default)]
pub struct ArgStore {
    pub(crate) words: Vec<u64>,
    pub(crate) shapes: Vec<Shape>,
    index: HashTable<u16>,
    scratch: Vec<(StrId, ArgKind)>,
    /// Indices of the words that are string ids, so that another store can adopt them.
    text_words: Vec<u32>,
    /// Number of argument lists refused because shapes or words ran out.
    pub(crate) refused: u64,
}

impl ArgStore {
    /// Stores a list. An empty list costs nothing. Lists that exceed the limits (65,535 shapes or
    /// 2^32 words) are refused: the caller gets `None` and can store a single text instead.
    pub fn push(&mut self, args: &[Arg]) -> Option<ArgsRef> {
        if args.is_empty() {
            return Some(ArgsRef::NONE);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend(args.iter().map(|a| (a.key, a.kind)));
        let shape = self.shape_id(&scratch);
        self.scratch = scratch;
        let (Some(shape), Ok(offset)) = (shape, u32::try_from(self.words.len())) else {
            self.refused += 1;
            return None;
        };
        for arg in args {
            self.push_word(*arg);
        }
        Some(ArgsRef { shape, offset })
    }

    /// Returns for each shape the position of the last text with this key.
    pub(crate) fn text_positions(&self, key: StrId) -> Vec<Option<usize>> {
        let shapes = self.shapes.iter();
        shapes
            .map(|shape| shape.iter().rposition(|one| *one == (key, ArgKind::Str)))
            .collect()
    }

    fn push_word(&mut self, arg: Arg) {
        if matches!(arg.kind, ArgKind::Str | ArgKind::Json)
            && let Ok(at) = u32::try_from(self.words.len())
        {
            self.text_words.push(at);
        }
        self.words.push(arg.word);
    }

    /// Stores the single text that replaces a refused list; its shape may use the last index.
    pub(crate) fn push_reserved(&mut self, arg: Arg) -> Option<ArgsRef> {
        let shape = self.shape_id_below(&[(arg.key, arg.kind)], u16::MAX)?;
        let offset = u32::try_from(self.words.len()).ok()?;
        self.push_word(arg);
        Some(ArgsRef { shape, offset })
    }

    /// Takes over the lists of a later part whose string `i` is `strings[i]` here.
    pub(crate) fn adopt(&mut self, part: &mut Self, strings: &[StrId]) -> Adopted {
        for &at in &part.text_words {
            let word = &mut part.words[at as usize];
            if let Some(id) = usize::try_from(*word).ok().and_then(|i| strings.get(i)) {
                *word = id.index() as u64;
            }
        }
        let base = u32::try_from(self.words.len()).unwrap_or(u32::MAX);
        let fits = (self.words.len() + part.words.len()) < u32::MAX as usize;
        self.refused += part.refused;
        let shapes: Vec<ArgShapeId> = part
            .shapes
            .iter()
            .map(|shape| {
                let mapped: Vec<_> = shape
                    .iter()
                    .map(|&(key, kind)| (strings[key.index()], kind))
                    .collect();
                self.shape_id_below(&mapped, u16::MAX)
                    .filter(|_| fits)
                    .unwrap_or(ArgShapeId::NONE)
            })
            .collect();
        if fits {
            self.words.append(&mut part.words);
        }
        Adopted { shapes, base }
    }

    pub(crate) fn shape_id(&mut self, shape: &[(StrId, ArgKind)]) -> Option<ArgShapeId> {
        self.shape_id_below(shape, u16::MAX - 1)
    }

    fn shape_id_below(&mut self, shape: &[(StrId, ArgKind)], limit: u16) -> Option<ArgShapeId> {
        let hash = FxBuildHasher.hash_one(shape);
        let shapes = &self.shapes;
        if let Some(&id) = self
            .index
            .find(hash, |&id| *shapes[usize::from(id)] == *shape)
        {
            return Some(ArgShapeId(id));
        }
        let id = u16::try_from(self.shapes.len())
            .ok()
            .filter(|&id| id < limit)?;
        self.shapes.push(shape.into());
        let shapes = &self.shapes;
        self.index.insert_unique(hash, id, |&i| {
            FxBuildHasher.hash_one(&*shapes[usize::from(i)])
        });
        Some(ArgShapeId(id))
    }

    pub(crate) fn shape(&self, id: ArgShapeId) -> &[(StrId, ArgKind)] {
        self.shapes.get(usize::from(id.0)).map_or(&[], |s| s)
    }

    pub(crate) fn values(&self, at: ArgsRef) -> &[u64] {
        let start = at.offset as usize;
        self.words
            .get(start..start + self.shape(at.shape).len())
            .unwrap_or(&[])
    }

    /// Returns the arguments at `at` in the order of the producer.
    pub fn list(&self, at: ArgsRef) -> impl ExactSizeIterator<Item = Arg> + '_ {
        self.shape(at.shape)
            .iter()
            .zip(self.values(at))
            .map(|(&(key, kind), &word)| Arg { key, kind, word })
    }

    /// Returns the number of distinct shapes.
    pub fn shape_count(&self) -> usize {
        self.shapes.len()
    }

    /// Returns the memory used, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.words.capacity() * 8
            + self
                .shapes
                .iter()
                .map(|s| s.len() * size_of::<(StrId, ArgKind)>())
                .sum::<usize>()
    }

    pub(crate) fn decode<'a>(arg: Arg, strings: &'a StringTable) -> ArgValue<'a> {
        let text = || {
            usize::try_from(arg.word)
                .ok()
                .and_then(StrId::new)
                .map_or("", |id| strings.get(id))
        };
        match arg.kind {
            ArgKind::Int => ArgValue::Int(arg.word.cast_signed()),
            ArgKind::UInt => ArgValue::UInt(arg.word),
            ArgKind::Real => ArgValue::Real(f64::from_bits(arg.word)),
            ArgKind::Bool => ArgValue::Bool(arg.word != 0),
            ArgKind::Str => ArgValue::Str(text()),
            ArgKind::Json => ArgValue::Json(text()),
            ArgKind::Pointer => ArgValue::Pointer(arg.word),
        }
    }
}

/// New locations of the lists of an adopted part.
pub(crate) struct Adopted {
    shapes: Vec<ArgShapeId>,
    base: u32,
}

impl Adopted {
    pub(crate) fn of(&self, at: ArgsRef) -> ArgsRef {
        match self.shapes.get(usize::from(at.shape.0)) {
            Some(&shape) if shape != ArgShapeId::NONE => ArgsRef {
                shape,
                offset: at.offset + self.base,
            },
            _ => ArgsRef::NONE,
        }
    }
}

/// Returns a key without its format's prefix: `stream` for `args.stream` and `debug.stream`.
pub fn bare_key(key: &str) -> &str {
    key.strip_prefix("args.")
        .or_else(|| key.strip_prefix("debug."))
        .unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shapes_are_stored_once() {
        let mut strings = StringTable::new();
        let (k, v) = (strings.intern("args.a"), strings.intern("x"));
        let mut store = ArgStore::default();
        let first = store.push(&[Arg::int(k, -5), Arg::text(k, v)]).unwrap();
        let second = store.push(&[Arg::int(k, 7), Arg::text(k, v)]).unwrap();
        assert_eq!((store.shape_count(), store.words.len()), (1, 4));
        let read: Vec<_> = store
            .list(second)
            .map(|a| ArgStore::decode(a, &strings))
            .collect();
        assert_eq!(read, [ArgValue::Int(7), ArgValue::Str("x")]);
        assert_eq!(first.shape, second.shape);
        assert!(store.push(&[]).unwrap().is_none());
    }

    #[test]
    fn too_many_shapes_are_refused_and_counted() {
        let mut strings = StringTable::new();
        let mut store = ArgStore::default();
        for i in 0..65_534 {
            let key = strings.intern(&format!("k{i}"));
            assert!(store.push(&[Arg::int(key, 1)]).is_some());
        }
        let key = strings.intern("one more");
        assert!(store.push(&[Arg::int(key, 1)]).is_none());
        assert_eq!(store.refused, 1);
    }
}
