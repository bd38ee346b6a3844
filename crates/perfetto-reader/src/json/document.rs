//! Parses the document around the events: a state machine over pieces of text in file order.

use trace_model::{IssueKind, Place};

use super::array::Reached;
use super::config::Config;
use super::frames::{self, Frames};
use super::merge::Merged;
use super::meta;
use super::part::Part;
use super::recover::{begins_with_phase, next_event};
use super::scan::{Fault, Scan, Stop, bad, is_blank, string_end, token};
use super::skip::Skipper;
use super::speculate::Speculation;
use super::text;
use crate::Error;
use crate::foreign::{self, Foreign};

/// Maximum number of keys of the object that are kept to identify its kind.
const MAX_KEYS: usize = 16;

enum State {
    /// Before the first bracket.
    Start,
    /// Between the members of the object.
    Members,
    /// In the value of this key.
    Value(String, Skipper),
    /// Between the members of the table of stack frames.
    Frames,
    /// In an array of events.
    Events,
    /// In an array of events, searching for the start of the next event.
    Search,
    /// After the last bracket.
    Done,
    /// After text that does not belong to the document.
    Ignore,
}

/// Result of one step from a position of the carried text.
enum Step {
    /// Continue from this position.
    To(usize),
    /// More text is needed; everything before this position is consumed.
    Wait(usize),
}

/// Next element of the object.
enum Member {
    /// A key, and the position and first byte of its value.
    Value(String, usize, u8),
    /// The closing bracket before this position.
    End(usize),
}

/// The two forms of a document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Object,
    Array,
}

pub(super) struct Document<'c> {
    config: &'c Config,
    name: String,
    pub(super) merged: Merged,
    /// Stack frames to which events refer.
    pub(super) frames: Frames,
    state: State,
    form: Form,
    /// Text not consumed yet, and its offset in the document.
    carry: Vec<u8>,
    carry_at: u64,
    /// Minimum length of the carried text before it is examined again.
    wait_for: usize,
    /// `true` once an array of events was found.
    has_events: bool,
    /// The first keys of the object.
    keys: Vec<String>,
    /// `true` if a broken event was skipped, so that an apparent end of the array may not be one.
    has_recovered: bool,
    /// Number of lines before the carried text, and the offset where the last line starts.
    lines: (u64, u64),
}

impl<'c> Document<'c> {
    pub(super) fn new(config: &'c Config, name: String) -> Self {
        Self {
            config,
            name,
            merged: Merged::default(),
            frames: Frames::default(),
            state: State::Start,
            form: Form::Object,
            carry: Vec::new(),
            carry_at: 0,
            wait_for: 0,
            has_events: false,
            keys: Vec::new(),
            has_recovered: false,
            lines: (1, 0),
        }
    }

    /// Processes the next piece of text, with the result of its speculative scan.
    pub(super) fn piece(
        &mut self,
        piece: &[u8],
        speculation: Option<Speculation<'c>>,
    ) -> Result<(), Error> {
        // Examining the carried text costs no more than examining the piece, unless it is longer.
        let waits = self.carry.len() > piece.len() && self.carry.len() < self.wait_for;
        if let (State::Events, Some(found), false) = (&self.state, speculation, waits) {
            return self.join(piece, found);
        }
        self.carry.extend_from_slice(piece);
        self.drive(false)
    }

    /// Scans the seam between the text so far and the speculation's start. The speculation is right
    /// if this scan ends exactly there, between two events.
    fn join(&mut self, piece: &[u8], found: Speculation<'c>) -> Result<(), Error> {
        let (seam, rest) = piece.split_at(found.start.min(piece.len()));
        self.carry.extend_from_slice(seam);
        let mut part = Part::new(self.config);
        let reached = part.elements(&self.carry, 0, self.carry_at, false);
        if reached != Reached::Between {
            self.carry.extend_from_slice(rest);
            return self.drive(false);
        }
        self.add(part);
        self.consume(self.carry.len());
        self.add(found.part);
        let tail = match found.reached {
            Reached::Between | Reached::Lost => piece.len(),
            Reached::Inside(at) | Reached::End(at) => at,
        };
        self.carry_at += (tail - found.start) as u64;
        self.carry.clear();
        self.carry
            .extend_from_slice(piece.get(tail..).unwrap_or_default());
        self.wait_for = 0;
        if found.reached == Reached::Lost {
            self.state = State::Search;
        }
        if let Reached::End(_) = found.reached {
            // The text after the bracket decides whether the bracket closes the array: examine it
            // again.
            self.carry.insert(0, b']');
            self.carry_at -= 1;
            return self.drive(false);
        }
        Ok(())
    }

    fn add(&mut self, part: Part<'c>) {
        self.has_recovered |= part.diagnostics.count_of(IssueKind::JsonEventSkipped) > 0;
        self.merged.add(part);
    }

    /// Drops the first `count` bytes of the carried text.
    fn consume(&mut self, count: usize) {
        if !self.has_events {
            for at in memchr::memchr_iter(b'\n', self.carry.get(..count).unwrap_or_default()) {
                self.lines = (self.lines.0 + 1, self.carry_at + at as u64 + 1);
            }
        }
        self.carry.drain(..count);
        self.carry_at += count as u64;
    }

    /// Advances as far as the carried text allows.
    fn drive(&mut self, is_last: bool) -> Result<(), Error> {
        if self.carry.len() < self.wait_for && !is_last {
            return Ok(());
        }
        self.wait_for = 0;
        let mut at = 0;
        let used = loop {
            let step = match &mut self.state {
                State::Start => self.start(at, is_last)?,
                State::Members => self.member(at)?,
                State::Value(..) => self.value(at),
                State::Frames => self.frame(at)?,
                State::Events => self.events(at, is_last),
                State::Search => self.search(at),
                State::Done => self.trailing(at, is_last),
                State::Ignore => Step::Wait(self.carry.len()),
            };
            match step {
                Step::To(next) => at = next,
                Step::Wait(used) => break used,
            }
        };
        self.consume(used.min(self.carry.len()));
        if matches!(self.state, State::Events) {
            self.wait_for = self.carry.len() * 2;
        }
        Ok(())
    }

    fn start(&mut self, mut at: usize, is_last: bool) -> Result<Step, Error> {
        const BOM: &[u8] = b"\xef\xbb\xbf";
        let rest = self.carry.get(at..).unwrap_or_default();
        if self.carry_at == 0 && at == 0 && !rest.is_empty() {
            if BOM.starts_with(rest) && rest.len() < BOM.len() && !is_last {
                return Ok(Step::Wait(0));
            }
            if rest.starts_with(BOM) {
                at = BOM.len();
            }
        }
        let Ok((at, b)) = token(&self.carry, at) else {
            return Ok(Step::Wait(at));
        };
        match b {
            b'{' => self.state = State::Members,
            b'[' => {
                self.form = Form::Array;
                self.begin_events(at);
            }
            _ => return Err(self.broken(at, "an object or an array of events is expected")),
        }
        Ok(Step::To(at + 1))
    }

    fn begin_events(&mut self, at: usize) {
        if !self.has_events {
            self.consume_lines(at);
            self.has_events = true;
        }
        self.state = State::Events;
    }

    fn consume_lines(&mut self, count: usize) {
        for at in memchr::memchr_iter(b'\n', self.carry.get(..count).unwrap_or_default()) {
            self.lines = (self.lines.0 + 1, self.carry_at + at as u64 + 1);
        }
    }

    /// Steps from between two members to the start of a value.
    fn member(&mut self, at: usize) -> Result<Step, Error> {
        let (key, value, first) = match self.next_member(at) {
            Ok(Member::Value(key, value, first)) => (key, value, first),
            Ok(Member::End(end)) => {
                self.state = State::Done;
                return Ok(Step::To(end));
            }
            Err(Stop::More) => return Ok(Step::Wait(at)),
            Err(Stop::Bad(fault)) => return self.lost(at, fault.text()),
        };
        match (key.as_str(), first) {
            ("traceEvents", b'[') => {
                self.begin_events(value);
                return Ok(Step::To(value + 1));
            }
            ("traceEvents", _) => return self.lost(value, "traceEvents is not an array"),
            ("systemTraceEvents", _) => {
                let place = Place::Byte(self.carry_at + value as u64);
                let diagnostics = &mut self.merged.builder.diagnostics;
                diagnostics.count(IssueKind::SystemTraceSkipped, place);
            }
            _ => {}
        }
        if self.keys.len() < MAX_KEYS {
            self.keys.push(key.clone());
        }
        if key == frames::TABLE && first == b'{' && self.config.stacks {
            self.state = State::Frames;
            return Ok(Step::To(value + 1));
        }
        let skipper = Skipper::new(meta::is_wanted(&key));
        self.state = State::Value(key, skipper);
        Ok(Step::To(value))
    }

    /// Steps over one member of the table of stack frames, which may be of any size.
    fn frame(&mut self, at: usize) -> Result<Step, Error> {
        let (id, value, first) = match self.next_member(at) {
            Ok(Member::Value(id, value, first)) => (id, value, first),
            Ok(Member::End(end)) => {
                self.state = State::Members;
                return Ok(Step::To(end));
            }
            Err(Stop::More) => return Ok(Step::Wait(at)),
            Err(Stop::Bad(fault)) => return self.lost(at, fault.text()),
        };
        let mut skipper = Skipper::new(true);
        let rest = self.carry.get(value..).unwrap_or_default();
        let (used, ended) = skipper.feed(rest);
        if !ended && used < self.config.max_event {
            return Ok(Step::Wait(at));
        }
        let kept = skipper.into_kept().filter(|_| ended && first == b'{');
        if !kept.is_some_and(|kept| self.frames.add(&id, &kept)) {
            let place = Place::Byte(self.carry_at + value as u64);
            let diagnostics = &mut self.merged.builder.diagnostics;
            diagnostics.note(IssueKind::JsonBadField, place, frames::TABLE);
        }
        if !ended {
            return self.lost(value, "a stack frame is too long");
        }
        Ok(Step::To(value + used))
    }

    fn next_member(&self, at: usize) -> Scan<Member> {
        let w = &self.carry[..];
        let (mut at, mut b) = token(w, at)?;
        while b == b',' {
            (at, b) = token(w, at + 1)?;
        }
        if b == b'}' {
            return Ok(Member::End(at + 1));
        }
        if b != b'"' {
            return bad(Fault::Key);
        }
        let (end, escaped) = string_end(w, at + 1)?;
        let mut key = String::new();
        text::decode(w.get(at + 1..end).unwrap_or_default(), escaped, &mut key)?;
        let (colon, b':') = token(w, end + 1)? else {
            return bad(Fault::Colon);
        };
        let (value, first) = token(w, colon + 1)?;
        if matches!(first, b',' | b'}' | b']' | b':') {
            return bad(Fault::Token);
        }
        Ok(Member::Value(key, value, first))
    }

    fn value(&mut self, at: usize) -> Step {
        let rest = self.carry.get(at..).unwrap_or_default();
        let State::Value(_, skipper) = &mut self.state else {
            return Step::Wait(at);
        };
        let (used, ended) = skipper.feed(rest);
        if !ended {
            return Step::Wait(at + used);
        }
        if let State::Value(key, skipper) = std::mem::replace(&mut self.state, State::Members)
            && let Some(kept) = skipper.into_kept()
        {
            meta::store(&mut self.merged.builder, &key, &kept);
        }
        Step::To(at + used)
    }

    fn events(&mut self, at: usize, is_last: bool) -> Step {
        let mut part = Part::new(self.config);
        let reached = part.elements(&self.carry, at, self.carry_at, is_last);
        self.add(part);
        match reached {
            Reached::Between => Step::Wait(self.carry.len()),
            Reached::Lost => {
                self.state = State::Search;
                Step::Wait(self.carry.len())
            }
            Reached::Inside(from) => Step::Wait(from),
            Reached::End(end) => match self.is_true_end(end, is_last) {
                Some(true) => {
                    self.state = match self.form {
                        Form::Object => State::Members,
                        Form::Array => State::Done,
                    };
                    Step::To(end)
                }
                Some(false) => Step::To(end),
                None => Step::Wait(end - 1),
            },
        }
    }

    /// Searches for the next event.
    fn search(&mut self, at: usize) -> Step {
        match next_event(&self.carry, at) {
            Some(found) => {
                self.state = State::Events;
                Step::To(found)
            }
            // An event may begin at the end of the text.
            None => {
                let rest = self.carry.get(at..).unwrap_or_default();
                let last = memchr::memrchr(b'{', rest).filter(|&i| rest.len() - i < 1024);
                Step::Wait(last.map_or(self.carry.len(), |i| at + i))
            }
        }
    }

    /// Returns `true` if the bracket before `at` closes the events; after a broken event it may be
    /// a leftover. `None` if more text is needed to decide.
    fn is_true_end(&self, at: usize, is_last: bool) -> Option<bool> {
        if !self.has_recovered {
            return Some(true);
        }
        let w = &self.carry[..];
        let nothing = is_last.then_some(true);
        let Ok((next, b)) = token(w, at) else {
            return nothing;
        };
        match (self.form, b) {
            (Form::Object, b',') => match token(w, next + 1) {
                Ok((_, b)) => Some(b == b'"'),
                Err(_) => nothing,
            },
            (Form::Object, b'}') => match token(w, next + 1) {
                Ok(_) => Some(false),
                Err(_) => nothing,
            },
            _ => Some(false),
        }
    }

    /// Steps over text after the end of the document.
    fn trailing(&mut self, at: usize, is_last: bool) -> Step {
        let Ok((at, b)) = token(&self.carry, at) else {
            return Step::Wait(self.carry.len());
        };
        let goes_on = match b {
            b',' => Some(true),
            b'{' => begins_with_phase(&self.carry, at),
            _ => Some(false),
        };
        match goes_on {
            _ if self.has_recovered => return self.back_to_events(at),
            Some(true) => {
                self.count_skipped(at, "a bracket too many closes the events");
                return self.back_to_events(at);
            }
            None if !is_last => return Step::Wait(at),
            _ => {}
        }
        let place = Place::Byte(self.carry_at + at as u64);
        let diagnostics = &mut self.merged.builder.diagnostics;
        let kind = match b {
            b'{' | b'[' => IssueKind::SecondDocument,
            _ => IssueKind::TrailingBytes,
        };
        diagnostics.count(kind, place);
        self.state = State::Ignore;
        Step::To(at)
    }

    fn back_to_events(&mut self, at: usize) -> Step {
        self.state = State::Events;
        self.has_recovered = true;
        Step::To(at)
    }

    fn count_skipped(&mut self, at: usize, what: &'static str) {
        let place = Place::Byte(self.carry_at + at as u64);
        let diagnostics = &mut self.merged.builder.diagnostics;
        diagnostics.note(IssueKind::JsonEventSkipped, place, what);
    }

    /// Handles invalid text at `at`: before the events it is an error; after them it shows that
    /// they had not ended.
    fn lost(&mut self, at: usize, what: &'static str) -> Result<Step, Error> {
        if !self.has_events {
            return Err(self.broken(at, what));
        }
        if !self.has_recovered {
            self.count_skipped(at, what);
        }
        Ok(self.back_to_events(at))
    }

    fn broken(&mut self, at: usize, what: &'static str) -> Error {
        self.consume_lines(at);
        let byte = self.carry_at + at as u64;
        Error::Json {
            name: self.name.clone(),
            what,
            byte,
            line: self.lines.0,
            column: byte - self.lines.1 + 1,
        }
    }

    /// Processes the end of the text.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        self.drive(true)?;
        let is_pending = self.carry.iter().any(|&b| !is_blank(b));
        let is_complete = match self.state {
            State::Start => {
                return Err(Error::Empty {
                    name: self.name.clone(),
                });
            }
            State::Done | State::Ignore => true,
            // The closing bracket of a bare array may be missing.
            State::Events => self.form == Form::Array && !is_pending,
            State::Members | State::Value(..) | State::Frames | State::Search => false,
        };
        self.refuse_others(is_complete)?;
        if !is_complete {
            let kept = self.merged.events();
            let place = Place::Byte(self.carry_at);
            let diagnostics = &mut self.merged.builder.diagnostics;
            diagnostics.note(
                IssueKind::TruncatedJson,
                place,
                format!("{kept} events were kept"),
            );
        }
        Ok(())
    }

    /// Rejects an object without events that has none of the keys of a trace, unless it is
    /// truncated: the rest may have had them.
    fn refuse_others(&self, is_complete: bool) -> Result<(), Error> {
        let name = || self.name.clone();
        let is_trace = self.has_events || self.config.compat || self.keys.is_empty();
        if let Some(Foreign { what, remedy }) = foreign::of_keys(&self.keys).filter(|_| !is_trace) {
            let name = name();
            return Err(Error::NotATrace { name, what, remedy });
        }
        let is_known = |key: &String| meta::is_wanted(key) || key == "systemTraceEvents";
        if is_trace || !is_complete || self.keys.iter().any(is_known) {
            return Ok(());
        }
        let mut keys = self.keys.join(", ");
        if self.keys.len() == MAX_KEYS {
            keys.push_str(", ...");
        }
        Err(Error::NoEvents { name: name(), keys })
    }

    /// Returns the number of bytes of the document so far.
    pub(super) fn bytes(&self) -> u64 {
        self.carry_at + self.carry.len() as u64
    }
}
