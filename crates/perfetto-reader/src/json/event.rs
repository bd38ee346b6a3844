//! Parses the text of one event into its fields.

use super::config::Wanted;
use super::number::{
    Nanos, Number, Scalar, any_micros, any_scalar, micros_in_string, plain_integer, plain_micros,
};
use super::part::Part;
use super::scan::{Fault, Scan, Stop, bad, peek, skip_object, string_end, token, unexpected, word};
use super::text;
use super::walk::{Care, value_end};

/// Location of a string in the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    start: u32,
    end: u32,
    pub(super) escaped: bool,
}

/// Converts a position in a window. Windows are far below 4 GiB: a piece and the longest event.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "see above")]
fn position(at: usize) -> u32 {
    debug_assert!(u32::try_from(at).is_ok());
    at as u32
}

impl Text {
    #[inline(always)]
    fn new(start: usize, end: usize, escaped: bool) -> Self {
        Self {
            start: position(start),
            end: position(end),
            escaped,
        }
    }

    #[inline(always)]
    pub(super) fn raw(self, w: &[u8]) -> &[u8] {
        w.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

/// A field that may be a number or a string.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Field {
    #[default]
    Missing,
    Number(Number, Text),
    Text(Text),
    Bool(bool),
    /// An array or object.
    Nested(usize, u8),
}

impl Field {
    /// Stores an integer that ends before `end`, and returns `end`.
    #[inline(always)]
    fn set_integer(&mut self, n: i64, at: usize, end: usize) -> usize {
        *self = Self::Number(Number::Int(n), Text::new(at, end, false));
        end
    }
}

/// Location of the arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Args {
    pub(super) start: usize,
    /// End of the text that later reads of the arguments may examine.
    pub(super) end: usize,
    pub(super) first: u8,
}

impl Args {
    /// Returns the window up to the end of the arguments. Positions stay the same.
    pub(super) fn window(self, w: &[u8]) -> &[u8] {
        w.get(..self.end).unwrap_or(w)
    }
}

/// The well-formed fields of one event. The last of several equal keys counts.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// First character of the phase, 0 if there is none.
    pub(super) phase: u8,
    pub(super) category: Option<Text>,
    pub(super) name: Option<Text>,
    pub(super) pid: Field,
    pub(super) tid: Field,
    pub(super) ts: Option<Nanos>,
    pub(super) dur: Option<Nanos>,
    pub(super) thread_ts: Option<Nanos>,
    pub(super) thread_dur: Option<Nanos>,
    pub(super) id: Field,
    pub(super) id2: Field,
    pub(super) bind_id: Field,
    pub(super) scope: Field,
    pub(super) bind_point: Field,
    pub(super) flow_in: bool,
    pub(super) flow_out: bool,
    /// Id of the frame of the table that was running.
    pub(super) stack_frame: Field,
    /// The frames that were running, the outermost first.
    pub(super) stack: Field,
    pub(super) args: Option<Args>,
    /// `true` if the arguments are already in the part's list.
    pub(super) args_read: bool,
    /// `true` if a field has a text or number where neither is valid.
    pub(super) bad_field: bool,
    /// `true` if the object has any members.
    pub(super) has_members: bool,
}

/// Packs a key of at most eight bytes into a number.
const fn key(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut packed = 0;
    let mut i = bytes.len();
    while i > 0 {
        i -= 1;
        packed = packed << 8 | bytes[i] as u64;
    }
    packed
}

const PH: u64 = key("ph");
const CAT: u64 = key("cat");
const NAME: u64 = key("name");
const PID: u64 = key("pid");
const TID: u64 = key("tid");
const TS: u64 = key("ts");
const DUR: u64 = key("dur");
const TTS: u64 = key("tts");
const TDUR: u64 = key("tdur");
const ID: u64 = key("id");
const ID2: u64 = key("id2");
const BIND_ID: u64 = key("bind_id");
const FLOW_IN: u64 = key("flow_in");
const FLOW_OUT: u64 = key("flow_out");
const SCOPE: u64 = key("s");
const BP: u64 = key("bp");
const ARGS: u64 = key("args");
const SF: u64 = key("sf");
const STACK: u64 = key("stack");
/// A value that no key packs to: a zero byte before others.
const UNKNOWN: u64 = 1 << 8;

const ONES: u64 = 0x0101_0101_0101_0101;

/// Returns the packed key that starts at `at` and the position of its closing quote, if there is a
/// quote within nine bytes. For known keys the quote is the end, because they contain no backslash.
#[inline(always)]
fn short_key(w: &[u8], at: usize) -> (u64, usize) {
    let Some(word) = word(w, at) else {
        return (UNKNOWN, at);
    };
    let x = word ^ (ONES * b'"' as u64);
    // High bit of the lowest byte that is a quote.
    let quotes = x.wrapping_sub(ONES) & !x & (ONES << 7);
    if quotes == 0 {
        let is_quote = w.get(at + 8) == Some(&b'"');
        return (if is_quote { word } else { UNKNOWN }, at + 8);
    }
    let bits = quotes.trailing_zeros() & !7;
    (word & ((1 << bits) - 1), at + (bits / 8) as usize)
}

#[inline(never)]
fn long_key(w: &[u8], at: usize) -> Scan<(u64, usize)> {
    let (end, escaped) = string_end(w, at)?;
    let mut raw = w.get(at..end).unwrap_or_default();
    let mut decoded = String::new();
    if escaped {
        text::decode(raw, true, &mut decoded)?;
        raw = decoded.as_bytes();
    }
    let packed = match raw.len() {
        0..=8 if !raw.contains(&0) => raw.iter().rev().fold(0, |k, &b| k << 8 | u64::from(b)),
        _ => UNKNOWN,
    };
    Ok((packed, end))
}

/// Returns `true` if the key is that of a field.
#[inline(always)]
fn is_known(key: u64) -> bool {
    matches!(
        key,
        PH | CAT
            | NAME
            | PID
            | TID
            | TS
            | DUR
            | TTS
            | TDUR
            | ID
            | ID2
            | BIND_ID
            | FLOW_IN
            | FLOW_OUT
            | SCOPE
            | BP
            | ARGS
            | SF
            | STACK
    )
}

/// Returns position and first byte of the value of a key that ended before `at`.
#[inline(always)]
pub(super) fn value_after(w: &[u8], at: usize) -> Scan<(usize, u8)> {
    let (colon, b) = peek(w, at);
    if b != b':' {
        return unexpected(w, colon, Fault::Colon);
    }
    token(w, colon + 1)
}

impl Part<'_> {
    /// Scans the event at `at`, emits it if it is complete, and returns the position after it.
    #[inline]
    pub(super) fn event(&mut self, w: &[u8], at: usize, base: u64) -> Scan<usize> {
        self.notes.clear();
        let mut fields = Fields::default();
        let end = self.fields(w, at, &mut fields)?;
        if end - at > self.config.max_event {
            return bad(Fault::Length);
        }
        // `{}` is not an event.
        if fields.has_members {
            match self.emit(w, &fields) {
                Ok(()) => self.count_notes(base + at as u64),
                // The event is complete: more text would not help.
                Err(Stop::More) => return bad(Fault::Token),
                Err(stop) => return Err(stop),
            }
        } else {
            self.phases[0] += 1;
        }
        Ok(end)
    }

    #[inline(always)]
    fn fields(&mut self, w: &[u8], at: usize, fields: &mut Fields) -> Scan<usize> {
        let (mut at, mut b) = peek(w, at + 1);
        if b == b'}' {
            return Ok(at + 1);
        }
        fields.has_members = true;
        loop {
            if b != b'"' {
                return unexpected(w, at, Fault::Key);
            }
            let (key, quote) = short_key(w, at + 1);
            at = if is_known(key) {
                let (value, first) = value_after(w, quote + 1)?;
                self.field(w, key, value, first, fields)?
            } else {
                self.odd_field(w, at + 1, fields)?
            };
            (at, b) = peek(w, at);
            match b {
                b',' => (at, b) = peek(w, at + 1),
                b'}' => return Ok(at + 1),
                _ => return unexpected(w, at, Fault::Comma),
            }
        }
    }

    /// Reads a member whose key is long, contains escapes, or is unknown.
    #[inline(never)]
    fn odd_field(&mut self, w: &[u8], at: usize, fields: &mut Fields) -> Scan<usize> {
        let (key, quote) = long_key(w, at)?;
        let (value, first) = value_after(w, quote + 1)?;
        if is_known(key) {
            self.field(w, key, value, first, fields)
        } else {
            self.checked_value(w, value, first)
        }
    }

    /// Reads the value of one field; returns the position after it.
    #[inline(always)]
    fn field(
        &mut self,
        w: &[u8],
        key: u64,
        at: usize,
        first: u8,
        fields: &mut Fields,
    ) -> Scan<usize> {
        match key {
            PH => {
                if first == b'"' && w.get(at + 2) == Some(&b'"') && w[at + 1] != b'\\' {
                    fields.phase = w[at + 1];
                    return Ok(at + 3);
                }
                let (text, end) = self.string(w, at, first, &mut fields.bad_field)?;
                fields.phase = match text {
                    Some(text) => self.first_byte(w, text)?,
                    None => 0,
                };
                Ok(end)
            }
            CAT => {
                let (text, end) = self.string(w, at, first, &mut fields.bad_field)?;
                fields.category = text;
                Ok(end)
            }
            NAME => {
                let (text, end) = self.string(w, at, first, &mut fields.bad_field)?;
                fields.name = text;
                Ok(end)
            }
            PID => match self.last_pid.read(w, at) {
                Some((n, end)) => Ok(fields.pid.set_integer(n, at, end)),
                None => self.any_field(w, at, first, &mut fields.pid),
            },
            TID => match self.last_tid.read(w, at) {
                Some((n, end)) => Ok(fields.tid.set_integer(n, at, end)),
                None => self.any_field(w, at, first, &mut fields.tid),
            },
            ID => self.plain_field(w, at, first, &mut fields.id),
            TS => self.time(w, at, first, &mut fields.ts),
            DUR => self.time(w, at, first, &mut fields.dur),
            ARGS => {
                fields.args_read = first == b'{' && self.reads_args_now(w, fields)?;
                let end = if fields.args_read {
                    self.args(w, at)?
                } else if first == b'{' {
                    skip_object(w, at, self.config.max_depth)?
                } else {
                    self.checked_value(w, at, first)?
                };
                let start = at;
                fields.args = Some(Args { start, end, first });
                Ok(end)
            }
            BP => self.any_field(w, at, first, &mut fields.bind_point),
            SCOPE => self.any_field(w, at, first, &mut fields.scope),
            TTS => self.time(w, at, first, &mut fields.thread_ts),
            TDUR => self.time(w, at, first, &mut fields.thread_dur),
            ID2 => self.any_field(w, at, first, &mut fields.id2),
            BIND_ID => self.any_field(w, at, first, &mut fields.bind_id),
            SF => self.any_field(w, at, first, &mut fields.stack_frame),
            STACK => self.any_field(w, at, first, &mut fields.stack),
            FLOW_IN => self.flag(w, at, first, &mut fields.flow_in),
            FLOW_OUT => self.flag(w, at, first, &mut fields.flow_out),
            _ => self.checked_value(w, at, first),
        }
    }

    /// Returns `true` if it is already certain that this event's arguments are kept.
    #[inline(always)]
    fn reads_args_now(&mut self, w: &[u8], fields: &Fields) -> Scan<bool> {
        if matches!(self.config.args, Wanted::None) || !has_arguments(fields.phase) {
            return Ok(false);
        }
        if self.config.categories.is_none() {
            return Ok(true);
        }
        match fields.category {
            Some(text) => Ok(self.category(text.raw(w), text.escaped)?.is_wanted),
            None => Ok(false),
        }
    }

    /// Reads a string; for any other value it returns nothing and adds a note.
    #[inline(always)]
    fn string(
        &mut self,
        w: &[u8],
        at: usize,
        first: u8,
        odd: &mut bool,
    ) -> Scan<(Option<Text>, usize)> {
        if first == b'"' {
            let (end, escaped) = string_end(w, at + 1)?;
            let text = Text::new(at + 1, end, escaped);
            return Ok((Some(text), end + 1));
        }
        *odd |= first != b'n';
        Ok((None, self.checked_value(w, at, first)?))
    }

    /// Steps over a value that has no meaning here.
    #[inline(never)]
    fn checked_value(&mut self, w: &[u8], at: usize, first: u8) -> Scan<usize> {
        match first {
            b'"' => string_end(w, at + 1).map(|(end, _)| end + 1),
            b'{' | b'[' => value_end(w, at, Care::Strict, self.config.max_depth),
            _ => any_scalar(w, at).map(|(_, end)| end),
        }
    }

    fn first_byte(&mut self, w: &[u8], text: Text) -> Scan<u8> {
        let mut decoded = String::new();
        text::decode(text.raw(w), text.escaped, &mut decoded)?;
        Ok(decoded.bytes().next().unwrap_or(0))
    }

    #[inline(always)]
    fn plain_field(&mut self, w: &[u8], at: usize, first: u8, field: &mut Field) -> Scan<usize> {
        if let Some((n, end)) = plain_integer(w, at) {
            return Ok(field.set_integer(n, at, end));
        }
        self.any_field(w, at, first, field)
    }

    #[inline(never)]
    pub(super) fn any_field(
        &mut self,
        w: &[u8],
        at: usize,
        first: u8,
        field: &mut Field,
    ) -> Scan<usize> {
        match first {
            b'"' => {
                let (end, escaped) = string_end(w, at + 1)?;
                *field = Field::Text(Text::new(at + 1, end, escaped));
                Ok(end + 1)
            }
            b'{' | b'[' => {
                *field = Field::Nested(at, first);
                self.checked_value(w, at, first)
            }
            _ => {
                let (scalar, end) = any_scalar(w, at)?;
                let text = Text::new(at, end, false);
                *field = match scalar {
                    Scalar::Number(n) => Field::Number(n, text),
                    Scalar::Bool(b) => Field::Bool(b),
                    Scalar::Null => Field::Missing,
                };
                Ok(end)
            }
        }
    }

    #[inline(always)]
    fn time(&mut self, w: &[u8], at: usize, first: u8, time: &mut Option<Nanos>) -> Scan<usize> {
        if !self.config.compat
            && let Some((nanos, end)) = plain_micros(w, at)
        {
            *time = Some(nanos);
            return Ok(end);
        }
        self.odd_time(w, at, first, time)
    }

    #[inline(never)]
    fn odd_time(
        &mut self,
        w: &[u8],
        at: usize,
        first: u8,
        time: &mut Option<Nanos>,
    ) -> Scan<usize> {
        *time = None;
        match first {
            b'"' => {
                let (end, escaped) = string_end(w, at + 1)?;
                let mut decoded = String::new();
                text::decode(
                    w.get(at + 1..end).unwrap_or_default(),
                    escaped,
                    &mut decoded,
                )?;
                *time = micros_in_string(decoded.as_bytes(), self.config.compat);
                Ok(end + 1)
            }
            b'{' | b'[' => self.checked_value(w, at, first),
            _ => {
                let (nanos, end) = any_micros(w, at, self.config.compat)?;
                *time = nanos;
                Ok(end)
            }
        }
    }

    fn flag(&mut self, w: &[u8], at: usize, first: u8, flag: &mut bool) -> Scan<usize> {
        let mut field = Field::Missing;
        let end = self.any_field(w, at, first, &mut field)?;
        *flag = matches!(field, Field::Bool(true));
        Ok(end)
    }
}

/// Returns `true` if events of this phase keep their arguments.
pub(super) fn has_arguments(phase: u8) -> bool {
    matches!(
        phase,
        b'X' | b'B' | b'E' | b'b' | b'e' | b'n' | b'i' | b'I' | b'R' | b'S' | b'T' | b'p' | b'F'
    )
}
