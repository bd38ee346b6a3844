//! Reads the arguments of an event, member by member.

use rustc_hash::FxHashMap;
use trace_model::{Arg, StrId};

use super::config::Wanted;
use super::event::value_after;
use super::number::{Number, Scalar, any_scalar, plain_integer};
use super::part::Part;
use super::scan::{Fault, Scan, Stop, bad, peek, skip_value, string_end, unexpected};
use super::text;
use super::walk::{Care, value_end};

/// An argument key that occurred before.
struct Key {
    /// Raw text between the quotes; empty if it contains escapes.
    raw: Box<[u8]>,
    /// Interned text; `None` if the arguments of this key are not kept.
    id: Option<StrId>,
    /// Index of the key that followed this one last time.
    next: usize,
    /// Index of the first key with the same text; that one may be written without escapes.
    same: usize,
    /// Number of the last list that contained the key, and its position in it.
    last: (u64, usize),
}

/// Returns the full key of an argument.
pub(super) fn arg_key(key: &str) -> String {
    format!("args.{key}")
}

/// All keys so far. Events of one kind have the same keys in the same order, so most keys are found
/// by one comparison with the key that followed last time.
#[derive(Default)]
pub(super) struct Keys {
    keys: Vec<Key>,
    by_raw: FxHashMap<Box<[u8]>, usize>,
    by_id: FxHashMap<StrId, usize>,
    /// Index of the key that came first last time.
    first: usize,
    /// Number of the current list.
    list: u64,
    /// Positions in the current list that a later null invalidated.
    void: Vec<usize>,
}

/// Iterates over the members of an object.
pub(super) struct Members {
    at: usize,
    is_first: bool,
}

/// Positions of the key and the value of one member.
pub(super) struct Member {
    pub(super) key: (usize, usize),
    pub(super) escaped: bool,
    pub(super) value: usize,
    pub(super) first: u8,
}

impl Members {
    /// Starts at the members of the object at `at`.
    pub(super) fn of(at: usize) -> Self {
        Self {
            at: at + 1,
            is_first: true,
        }
    }

    /// Returns the next member. The caller reports the end of its value with [`Members::resume`].
    pub(super) fn next(&mut self, w: &[u8]) -> Scan<Option<Member>> {
        let Some(quote) = self.next_key(w)? else {
            return Ok(None);
        };
        let (end, escaped) = string_end(w, quote + 1)?;
        let (value, first) = value_after(w, end + 1)?;
        Ok(Some(Member {
            key: (quote + 1, end),
            escaped,
            value,
            first,
        }))
    }

    /// Returns the position of the next key's opening quote; `None` after the last member.
    #[inline(always)]
    fn next_key(&mut self, w: &[u8]) -> Scan<Option<usize>> {
        let (mut at, mut b) = peek(w, self.at);
        if b == b'}' {
            self.at = at + 1;
            return Ok(None);
        }
        if !self.is_first {
            if b != b',' {
                return unexpected(w, at, Fault::Comma);
            }
            (at, b) = peek(w, at + 1);
        }
        self.is_first = false;
        if b != b'"' {
            return unexpected(w, at, Fault::Key);
        }
        Ok(Some(at))
    }

    /// Continues at `at`, the end of the last member's value.
    pub(super) fn resume(&mut self, at: usize) {
        self.at = at;
    }

    /// Returns the position after the object; valid once all members have been read.
    pub(super) fn end(&self) -> usize {
        self.at
    }
}

impl Part<'_> {
    /// Reads the object at `at` into `self.list`; returns the position after it.
    pub(super) fn args(&mut self, w: &[u8], at: usize) -> Scan<usize> {
        self.list.clear();
        self.keys.void.clear();
        let mut members = Members::of(at);
        let mut guess = self.keys.first;
        let mut previous = None;
        self.keys.list += 1;
        while let Some(quote) = members.next_key(w)? {
            let (key, key_end) = self.key(w, quote + 1, guess)?;
            match previous {
                None => self.keys.first = key,
                Some(previous) => {
                    let previous: &mut Key = &mut self.keys.keys[previous];
                    previous.next = key;
                }
            }
            previous = Some(key);
            let Key { id, next, same, .. } = self.keys.keys[key];
            guess = next;
            let (value, first) = value_after(w, key_end + 1)?;
            let Some(id) = id else {
                let end = skip_value(w, value, first, self.config.max_depth)?;
                members.resume(end);
                continue;
            };
            let (arg, end) = self.arg(w, value, first, id)?;
            members.resume(end);
            self.push_arg(same, arg);
        }
        self.drop_void();
        Ok(members.end())
    }

    /// Adds an argument to the list. The last of several equal keys counts, even if its value is
    /// null.
    #[inline(always)]
    fn push_arg(&mut self, key: usize, arg: Option<Arg>) {
        let key = &mut self.keys.keys[key];
        if key.last.0 == self.keys.list {
            let at = key.last.1;
            match arg {
                Some(arg) => self.list[at] = arg,
                None => {
                    self.keys.void.push(at);
                    key.last.0 = 0;
                }
            }
        } else if let Some(arg) = arg {
            key.last = (self.keys.list, self.list.len());
            self.list.push(arg);
        }
    }

    fn drop_void(&mut self) {
        if self.keys.void.is_empty() {
            return;
        }
        self.keys.void.sort_unstable();
        let (mut at, void) = (0, &self.keys.void);
        self.list.retain(|_| {
            at += 1;
            void.binary_search(&(at - 1)).is_err()
        });
        self.keys.void.clear();
    }

    /// Returns the index of the key whose text starts at `at`, and the position of its closing
    /// quote.
    #[inline(always)]
    fn key(&mut self, w: &[u8], at: usize, guess: usize) -> Scan<(usize, usize)> {
        if let Some(key) = self.keys.keys.get(guess) {
            let end = at + key.raw.len();
            if w.get(at..end) == Some(&*key.raw) && w.get(end) == Some(&b'"') && end > at {
                return Ok((guess, end));
            }
        }
        let (end, escaped) = string_end(w, at)?;
        let raw = w.get(at..end).unwrap_or_default();
        if !escaped && let Some(&key) = self.keys.by_raw.get(raw) {
            return Ok((key, end));
        }
        Ok((self.new_key(raw, escaped)?, end))
    }

    #[inline(never)]
    fn new_key(&mut self, raw: &[u8], escaped: bool) -> Scan<usize> {
        let mut key = String::new();
        let repairs = text::decode(raw, escaped, &mut key)?;
        if repairs.invalid_utf8 {
            self.note(trace_model::IssueKind::InvalidUtf8);
        }
        let is_wanted = match &self.config.args {
            Wanted::All => true,
            Wanted::None => false,
            Wanted::Only(list) => list.iter().any(|k| **k == *key.as_bytes()),
        };
        let id = is_wanted.then(|| self.batch.strings.intern(&arg_key(&key)));
        let keys = &mut self.keys;
        let at = keys.keys.len();
        let is_plain = !escaped && !repairs.invalid_utf8;
        let raw: Box<[u8]> = if is_plain { raw.into() } else { [].into() };
        if is_plain {
            keys.by_raw.insert(raw.clone(), at);
        }
        let same = id.map_or(at, |id| *keys.by_id.entry(id).or_insert(at));
        keys.keys.push(Key {
            raw,
            id,
            next: at + 1,
            same,
            last: (0, 0),
        });
        Ok(at)
    }

    /// Returns the value at `at` as argument `key` (`None` for null) and the position after it.
    #[inline(always)]
    fn arg(&mut self, w: &[u8], at: usize, first: u8, key: StrId) -> Scan<(Option<Arg>, usize)> {
        match first {
            b'"' => {
                let (end, escaped) = string_end(w, at + 1)?;
                let raw = w.get(at + 1..end).unwrap_or_default();
                let id = self.text(raw, escaped)?;
                Ok((Some(Arg::text(key, id)), end + 1))
            }
            b'{' | b'[' => {
                let end = skip_value(w, at, first, self.config.max_depth)?;
                let id = self.nested(w, at, end)?;
                Ok((Some(Arg::json(key, id)), end))
            }
            _ => {
                if let Some((n, end)) = plain_integer(w, at) {
                    return Ok((Some(Arg::int(key, n)), end));
                }
                let (scalar, end) = any_scalar(w, at)?;
                let arg = match scalar {
                    Scalar::Number(Number::Int(n)) => Some(Arg::int(key, n)),
                    Scalar::Number(Number::UInt(n)) => Some(Arg::uint(key, n)),
                    Scalar::Number(Number::Real(x)) => Some(Arg::real(key, x)),
                    Scalar::Bool(b) => Some(Arg::bool(key, b)),
                    Scalar::Null => None,
                };
                Ok((arg, end))
            }
        }
    }

    /// Interns the raw text of an array or object. Text that is already interned was checked
    /// before.
    #[inline]
    fn nested(&mut self, w: &[u8], at: usize, end: usize) -> Scan<StrId> {
        let raw = w.get(at..end).unwrap_or_default();
        if let Some(id) = self.batch.strings.find_bytes(raw) {
            return Ok(id);
        }
        match value_end(raw, 0, Care::Strict, self.config.max_depth) {
            Ok(end) if end == raw.len() => self.text(raw, false),
            Err(Stop::Bad(fault)) => bad(fault),
            _ => bad(Fault::Comma),
        }
    }

    /// Reads an `args` value that is not an object as a single argument named `args`.
    pub(super) fn lone_arg(&mut self, w: &[u8], at: usize, first: u8) -> Scan<usize> {
        self.list.clear();
        let key = self.batch.strings.intern("args");
        let (arg, end) = self.arg(w, at, first, key)?;
        self.list.extend(arg);
        Ok(end)
    }
}
