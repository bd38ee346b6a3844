//! Converts debug annotations to arguments: one per leaf, with the path as key.

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::fmt::Write as _;

use rustc_hash::FxHashMap;
use trace_model::{Arg, StrId, StringTable};

use crate::ArgPolicy;
use crate::proto::sequence::{ArgName, Interned};
use crate::proto::wire::{Cursor, Malformed, Value, bytes_tag, varint_tag};

/// Prefix of all annotation keys.
const PREFIX: &str = "debug.";
/// Maximum length of a key. Longer keys are dropped with everything below them: real keys are
/// short, and a tree of long names would multiply in size.
const MAX_KEY: usize = 1024;
/// Maximum total size of nested keys per file, in bytes.
const MAX_KEY_BYTES: usize = 256 << 20;

/// Selects the arguments to keep.
#[derive(Debug)]
pub(crate) struct ArgFilter {
    policy: ArgPolicy,
}

impl ArgFilter {
    pub(crate) fn new(policy: &ArgPolicy) -> Self {
        Self {
            policy: policy.clone(),
        }
    }

    /// Returns `true` if no argument is kept.
    pub(crate) fn keeps_none(&self) -> bool {
        self.policy == ArgPolicy::None
    }

    /// Returns `true` if `bare` or a key below it may be selected.
    fn wants_below(&self, bare: &str) -> bool {
        match &self.policy {
            ArgPolicy::All => true,
            ArgPolicy::None => false,
            ArgPolicy::Only(keys) => keys.iter().any(|key| {
                key.strip_prefix(bare)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            }),
        }
    }

    /// Returns `true` if exactly this key (without prefix) is selected.
    pub(crate) fn wants(&self, bare: &str) -> bool {
        match &self.policy {
            ArgPolicy::All => true,
            ArgPolicy::None => false,
            ArgPolicy::Only(keys) => keys.iter().any(|key| key == bare),
        }
    }
}

/// Counts of dropped and repaired values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArgIssues {
    /// Names or texts that are not valid UTF-8.
    pub(crate) repaired: u32,
    /// References to entries that do not exist.
    pub(crate) unknown: u32,
    /// Annotations that cannot be decoded, have no name or are nested too deep.
    pub(crate) dropped: u32,
}

/// Interns bytes; invalid UTF-8 is repaired and counted.
pub(crate) fn intern_bytes(strings: &mut StringTable, bytes: &[u8], repaired: &mut u32) -> StrId {
    match std::str::from_utf8(bytes) {
        Ok(text) => strings.intern(text),
        Err(_) => {
            *repaired += 1;
            strings.intern(&String::from_utf8_lossy(bytes))
        }
    }
}

/// Appends a name, with the characters of the path grammar replaced.
fn push_safe(key: &mut String, name: &str) {
    key.extend(name.chars().map(|c| match c {
        '.' | '[' | ']' => '_',
        c => c,
    }));
}

/// Makes the argument name from an annotation's name.
pub(crate) fn arg_name(strings: &mut StringTable, filter: &ArgFilter, name: &str) -> ArgName {
    let mut key = String::with_capacity(PREFIX.len() + name.len());
    key.push_str(PREFIX);
    push_safe(&mut key, name);
    ArgName {
        key: strings.intern(&key),
        wanted: filter.wants_below(key.strip_prefix(PREFIX).unwrap_or_default()),
    }
}

/// A value. If a message has several, the variant declared first wins.
#[derive(Clone, Copy, Debug)]
enum Leaf<'a> {
    Bool(bool),
    UInt(u64),
    Int(i64),
    Real(f64),
    Text(&'a [u8]),
    TextIid(u64),
    Pointer(u64),
    Dict,
    Array,
    Json(&'a [u8]),
    Nested(&'a [u8]),
    Proto(&'a [u8]),
    None,
}

impl Leaf<'_> {
    fn rank(self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::UInt(_) => 1,
            Self::Int(_) => 2,
            Self::Real(_) => 3,
            Self::Text(_) => 4,
            Self::TextIid(_) => 5,
            Self::Pointer(_) => 6,
            Self::Dict => 7,
            Self::Array => 8,
            Self::Json(_) => 9,
            Self::Nested(_) => 10,
            Self::Proto(_) => 11,
            Self::None => 12,
        }
    }
}

/// Fields of a decoded annotation.
#[derive(Clone, Copy, Debug)]
struct Annotation<'a> {
    name_iid: u64,
    name: Option<&'a [u8]>,
    value: Leaf<'a>,
}

impl<'a> Annotation<'a> {
    #[inline]
    fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        const NAME_IID: u64 = varint_tag(1);
        const UINT: u64 = varint_tag(3);
        const INT: u64 = varint_tag(4);
        const TEXT: u64 = bytes_tag(6);
        const NAME: u64 = bytes_tag(10);
        const TEXT_IID: u64 = varint_tag(17);
        let mut out = Self {
            name_iid: 0,
            name: None,
            value: Leaf::None,
        };
        let mut fields = Cursor::new(bytes);
        while fields.remaining() > 0 {
            let leaf = match fields.varint()? {
                NAME_IID => {
                    out.name_iid = fields.varint()?;
                    continue;
                }
                NAME => {
                    out.name = Some(fields.bytes()?);
                    continue;
                }
                INT => Leaf::Int(fields.varint()?.cast_signed()),
                UINT => Leaf::UInt(fields.varint()?),
                TEXT => Leaf::Text(fields.bytes()?),
                TEXT_IID => Leaf::TextIid(fields.varint()?),
                tag => match fields.value(tag)? {
                    (2, Value::Varint(n)) => Leaf::Bool(n != 0),
                    (5, Value::Fixed64(n)) => Leaf::Real(f64::from_bits(n)),
                    (7, Value::Varint(n)) => Leaf::Pointer(n),
                    (11, Value::Bytes(_)) => Leaf::Dict,
                    (12, Value::Bytes(_)) => Leaf::Array,
                    (9, Value::Bytes(b)) => Leaf::Json(b),
                    (8, Value::Bytes(b)) => Leaf::Nested(b),
                    (14, Value::Bytes(b)) => Leaf::Proto(b),
                    _ => continue,
                },
            };
            if leaf.rank() <= out.value.rank() {
                out.value = leaf;
            }
        }
        Ok(out)
    }
}

/// Reads annotations into a list of arguments.
pub(crate) struct ArgReader<'a> {
    pub(crate) strings: &'a mut StringTable,
    pub(crate) interned: &'a Interned,
    pub(crate) filter: &'a ArgFilter,
    pub(crate) list: &'a mut Vec<Arg>,
    /// Buffer for building keys.
    pub(crate) key: &'a mut String,
    /// Total size of the nested keys made so far in this file, in bytes.
    pub(crate) key_bytes: &'a mut usize,
    /// Names that were recently written inline.
    pub(crate) names: &'a mut InlineNames,
    pub(crate) max_depth: usize,
    pub(crate) issues: ArgIssues,
    /// Resolves corner cases as the reference does.
    pub(crate) compat: bool,
}

/// Cache of argument names written inline, by their bytes; some producers intern no names.
#[derive(Debug, Default)]
pub(crate) struct InlineNames {
    known: FxHashMap<Box<[u8]>, ArgName>,
}

/// Maximum number of cached names; further names are made anew each time.
const MAX_INLINE_NAMES: usize = 4096;

impl ArgReader<'_> {
    /// Adds the arguments of one annotation of an event.
    #[inline]
    pub(crate) fn annotation(&mut self, bytes: &[u8]) {
        let Ok(annotation) = Annotation::decode(bytes) else {
            self.issues.dropped += 1;
            return;
        };
        let name = if annotation.name_iid != 0 {
            let Some(name) = self.interned.arg_names.get(annotation.name_iid) else {
                self.issues.unknown += 1;
                return;
            };
            name
        } else if let Some(name) = annotation.name {
            self.inline_name(name)
        } else {
            self.issues.dropped += 1;
            return;
        };
        if !name.wanted {
            return;
        }
        let key = name.key;
        let arg = match annotation.value {
            Leaf::Int(n) => Arg::int(key, n),
            Leaf::UInt(n) => Arg::uint(key, n),
            Leaf::Bool(b) => Arg::bool(key, b),
            Leaf::Real(x) => Arg::real(key, x),
            Leaf::Pointer(n) => Arg::pointer(key, n),
            Leaf::Text(text) => {
                let text = intern_bytes(self.strings, text, &mut self.issues.repaired);
                Arg::text(key, text)
            }
            Leaf::TextIid(iid) => match self.interned.arg_texts.get(iid) {
                Some(text) => Arg::text(key, text),
                None => {
                    self.issues.unknown += 1;
                    return;
                }
            },
            Leaf::None => return,
            nested => {
                self.key.clear();
                self.key.push_str(self.strings.get(key));
                self.value(nested, bytes, 1);
                return;
            }
        };
        if self.filter_all() || self.wants(key) {
            self.list.push(arg);
        }
    }

    fn filter_all(&self) -> bool {
        self.filter.policy == ArgPolicy::All
    }

    fn wants(&self, key: StrId) -> bool {
        let key = self.strings.get(key);
        self.filter.wants(key.strip_prefix(PREFIX).unwrap_or(key))
    }

    fn inline_name(&mut self, name: &[u8]) -> ArgName {
        match self.names.known.get(name) {
            Some(&known) => known,
            None => self.new_inline_name(name),
        }
    }

    #[cold]
    fn new_inline_name(&mut self, bytes: &[u8]) -> ArgName {
        let name = self.repaired_name(bytes);
        // Names that are not valid text are counted each time.
        let is_text = std::str::from_utf8(bytes).is_ok();
        if is_text && self.names.known.len() < MAX_INLINE_NAMES {
            self.names.known.insert(bytes.into(), name);
        }
        name
    }

    fn repaired_name(&mut self, name: &[u8]) -> ArgName {
        let text = String::from_utf8_lossy(name);
        self.issues.repaired += u32::from(std::str::from_utf8(name).is_err());
        arg_name(self.strings, self.filter, &text)
    }

    /// Adds a leaf under the key built so far.
    fn leaf(&mut self, make: impl FnOnce(StrId) -> Arg) -> bool {
        let bare = self.key.strip_prefix(PREFIX).unwrap_or(self.key);
        if !self.filter.wants(bare) {
            return true;
        }
        if self.key.len() > MAX_KEY || *self.key_bytes > MAX_KEY_BYTES {
            self.issues.dropped += 1;
            return true;
        }
        let before = self.strings.len();
        let key = self.strings.intern(self.key);
        if self.strings.len() > before {
            *self.key_bytes += self.key.len();
        }
        self.list.push(make(key));
        true
    }

    /// Adds the values below the key built so far. Returns `true` if there were any.
    fn value(&mut self, value: Leaf<'_>, bytes: &[u8], depth: usize) -> bool {
        if depth > self.max_depth || self.key.len() > MAX_KEY {
            self.issues.dropped += 1;
            return false;
        }
        match value {
            Leaf::None => false,
            Leaf::Bool(b) => self.leaf(|key| Arg::bool(key, b)),
            Leaf::UInt(n) => self.leaf(|key| Arg::uint(key, n)),
            Leaf::Int(n) => self.leaf(|key| Arg::int(key, n)),
            Leaf::Real(x) => self.leaf(|key| Arg::real(key, x)),
            Leaf::Pointer(n) => self.leaf(|key| Arg::pointer(key, n)),
            Leaf::Text(text) => {
                let text = intern_bytes(self.strings, text, &mut self.issues.repaired);
                self.leaf(|key| Arg::text(key, text))
            }
            Leaf::TextIid(iid) => match self.interned.arg_texts.get(iid) {
                Some(text) => self.leaf(|key| Arg::text(key, text)),
                None => {
                    self.issues.unknown += 1;
                    false
                }
            },
            // The reference cannot decode it either, and shows nothing.
            Leaf::Proto(_) if self.compat => true,
            // The schema of the message is unknown: keep its bytes in hexadecimal.
            Leaf::Proto(message) => {
                let mut hex = String::with_capacity(message.len() * 2);
                for byte in message {
                    let _ = write!(hex, "{byte:02x}");
                }
                let text = self.strings.intern(&hex);
                self.leaf(|key| Arg::text(key, text))
            }
            Leaf::Json(text) => self.json(text, depth),
            Leaf::Nested(message) => self.nested(message, depth),
            Leaf::Dict => self.dict(bytes, depth) || self.compat,
            Leaf::Array => self.array(bytes, depth) || self.compat,
        }
    }

    fn dict(&mut self, bytes: &[u8], depth: usize) -> bool {
        let mut any = false;
        let mut fields = Cursor::new(bytes);
        while let Ok(Some((number, value))) = fields.field() {
            let (11, Value::Bytes(entry)) = (number, value) else {
                continue;
            };
            let Ok(annotation) = Annotation::decode(entry) else {
                self.issues.dropped += 1;
                continue;
            };
            let before = self.key.len();
            self.key.push('.');
            if annotation.name_iid != 0 {
                let Some(name) = self.interned.arg_names.get(annotation.name_iid) else {
                    self.issues.unknown += 1;
                    self.key.truncate(before);
                    continue;
                };
                let text = self.strings.get(name.key);
                self.key.push_str(text.strip_prefix(PREFIX).unwrap_or(text));
            } else if let Some(name) = annotation.name {
                self.issues.repaired += u32::from(std::str::from_utf8(name).is_err());
                push_safe(self.key, &String::from_utf8_lossy(name));
            } else {
                self.issues.dropped += 1;
                self.key.truncate(before);
                continue;
            }
            any |= self.value(annotation.value, entry, depth + 1);
            self.key.truncate(before);
        }
        any
    }

    fn array(&mut self, bytes: &[u8], depth: usize) -> bool {
        let mut index = 0_usize;
        let mut fields = Cursor::new(bytes);
        while let Ok(Some((number, value))) = fields.field() {
            let (12, Value::Bytes(element)) = (number, value) else {
                continue;
            };
            let Ok(annotation) = Annotation::decode(element) else {
                self.issues.dropped += 1;
                continue;
            };
            let before = self.push_index(index);
            if self.value(annotation.value, element, depth + 1) {
                index += 1;
            }
            self.key.truncate(before);
        }
        index > 0
    }

    fn push_index(&mut self, index: usize) -> usize {
        let before = self.key.len();
        let _ = write!(self.key, "[{index}]");
        before
    }

    /// Adds nested values in the older form.
    fn nested(&mut self, message: &[u8], depth: usize) -> bool {
        if depth > self.max_depth || self.key.len() > MAX_KEY {
            self.issues.dropped += 1;
            return false;
        }
        let mut kind = 0;
        let mut leaf = Leaf::None;
        let mut fields = Cursor::new(message);
        loop {
            let value = match fields.field() {
                Ok(Some((1, Value::Varint(n)))) => {
                    kind = n;
                    continue;
                }
                Ok(Some((7, Value::Varint(n)))) => Leaf::Bool(n != 0),
                Ok(Some((5, Value::Varint(n)))) => Leaf::Int(n.cast_signed()),
                Ok(Some((6, Value::Fixed64(n)))) => Leaf::Real(f64::from_bits(n)),
                Ok(Some((8, Value::Bytes(b)))) => Leaf::Text(b),
                Ok(Some(_)) => continue,
                Ok(None) => break,
                Err(Malformed) => {
                    self.issues.dropped += 1;
                    return false;
                }
            };
            if value.rank() <= leaf.rank() {
                leaf = value;
            }
        }
        match kind {
            1 => self.nested_dict(message, depth) || self.compat,
            2 => self.nested_array(message, depth),
            _ => self.value(leaf, &[], depth),
        }
    }

    fn nested_dict(&mut self, message: &[u8], depth: usize) -> bool {
        let of = |wanted: u32| {
            let mut fields = Cursor::new(message);
            std::iter::from_fn(move || {
                loop {
                    match fields.field() {
                        Ok(Some((number, Value::Bytes(b)))) if number == wanted => return Some(b),
                        Ok(Some(_)) => {}
                        _ => return None,
                    }
                }
            })
        };
        let mut any = false;
        for (name, value) in of(2).zip(of(3)) {
            let before = self.key.len();
            self.key.push('.');
            self.issues.repaired += u32::from(std::str::from_utf8(name).is_err());
            push_safe(self.key, &String::from_utf8_lossy(name));
            any |= self.nested(value, depth + 1);
            self.key.truncate(before);
        }
        any
    }

    fn nested_array(&mut self, message: &[u8], depth: usize) -> bool {
        let mut index = 0;
        let mut fields = Cursor::new(message);
        while let Ok(Some((number, value))) = fields.field() {
            let (4, Value::Bytes(element)) = (number, value) else {
                continue;
            };
            let before = self.push_index(index);
            if self.nested(element, depth + 1) {
                index += 1;
            }
            self.key.truncate(before);
        }
        index > 0
    }

    fn json(&mut self, text: &[u8], depth: usize) -> bool {
        // The reference waits for more digits when a number ends with its text; but each of its
        // texts is an element of a list.
        let is_cut = self.compat && text.last().is_some_and(u8::is_ascii_digit);
        match serde_json::from_slice::<serde_json::Value>(text) {
            Ok(_) if is_cut => true,
            Ok(value) => self.json_value(&value, depth) || self.compat,
            Err(_) if self.compat => true,
            Err(_) => {
                let text = intern_bytes(self.strings, text, &mut self.issues.repaired);
                self.leaf(|key| Arg::text(key, text))
            }
        }
    }

    fn json_value(&mut self, value: &serde_json::Value, depth: usize) -> bool {
        use serde_json::Value as Json;
        let compat = self.compat;
        if depth > self.max_depth || self.key.len() > MAX_KEY {
            self.issues.dropped += 1;
            return false;
        }
        match value {
            Json::Null => false,
            Json::Bool(b) => self.leaf(|key| Arg::bool(key, *b)),
            Json::Number(n) => self.leaf(|key| match (n.as_i64(), n.as_u64()) {
                (Some(n), _) => Arg::int(key, n),
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "what the reference shows is this inexact"
                )]
                (_, Some(n)) if compat => Arg::real(key, n.cast_signed() as f64),
                (_, Some(n)) => Arg::uint(key, n),
                _ => Arg::real(key, n.as_f64().unwrap_or(f64::NAN)),
            }),
            Json::String(s) => {
                let text = self.strings.intern(s);
                self.leaf(|key| Arg::text(key, text))
            }
            Json::Array(list) => {
                let mut index = 0;
                for element in list {
                    let before = self.push_index(index);
                    let is_something = self.json_value(element, depth + 1);
                    if is_something || (compat && !element.is_null()) {
                        index += 1;
                    }
                    self.key.truncate(before);
                }
                index > 0
            }
            Json::Object(map) => {
                let mut any = false;
                for (name, member) in map {
                    let before = self.key.len();
                    self.key.push('.');
                    match compat {
                        true => self.key.push_str(name),
                        false => push_safe(self.key, name),
                    }
                    any |= self.json_value(member, depth + 1);
                    self.key.truncate(before);
                }
                any
            }
        }
    }
}
