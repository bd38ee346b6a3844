//! Finds the position from which to continue after a broken event.
//!
//! An event whose brackets, commas and quotes are in order, but which has a bad escape or number,
//! is stepped over as a whole. Otherwise the next event is found by its form: `{"ph":`, or an
//! object that follows an object and a comma. This depends on the text alone, never on the end of a
//! piece.
//!
//! Cost: linear. Adversarial text is scanned at most once per level of nesting allowed here,
//! because a candidate inside an element that was read before is nested in it, and the search
//! continues after brackets that are nested too deep.

use super::config::Config;
use super::scan::{Fault, Stop, is_blank};
use super::walk::{Care, value_end};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resume {
    At(usize),
    /// The window ends too early to decide.
    More,
    /// No event follows.
    Nowhere,
    /// The window has no further event, and its contents need not be kept.
    Search,
}

/// Maximum depth to which brackets are matched.
const FORGIVING_DEPTH: usize = 128;

/// Returns the position from which to continue after the element at `at` with `fault`.
pub(super) fn resume_after(
    w: &[u8],
    at: usize,
    fault: Fault,
    is_last: bool,
    config: &Config,
) -> Resume {
    let is_too_long = w.len() - at > config.max_event;
    let mut from = at + 1;
    if fault != Fault::Length {
        match value_end(w, at, Care::Forgiving, FORGIVING_DEPTH) {
            Ok(end) => return Resume::At(end),
            Err(Stop::More) if !is_last && !is_too_long => return Resume::More,
            Err(Stop::Bad(Fault::Depth)) => from = behind_brackets(w, at),
            Err(_) => {}
        }
    }
    match candidate(w, from, at) {
        Candidate::At(next) => Resume::At(next),
        Candidate::Unclear if !is_last && !is_too_long => Resume::More,
        _ if is_last => Resume::Nowhere,
        _ if is_too_long => Resume::Search,
        _ => Resume::More,
    }
}

/// Returns the position after the first `FORGIVING_DEPTH` opening brackets from `at` on.
fn behind_brackets(w: &[u8], at: usize) -> usize {
    let rest = w.get(at..).unwrap_or_default();
    let last = memchr::memchr2_iter(b'{', b'[', rest)
        .take(FORGIVING_DEPTH)
        .last();
    at + 1 + last.unwrap_or(0)
}

enum Candidate {
    At(usize),
    /// The window ends where an event may start.
    Unclear,
    None,
}

/// Returns the next position at or after `from` that looks like an event.
fn candidate(w: &[u8], from: usize, broken: usize) -> Candidate {
    let mut at = from;
    while let Some(found) = memchr::memchr(b'{', w.get(at..).unwrap_or_default()) {
        at += found;
        match begins_with_phase(w, at) {
            None => return Candidate::Unclear,
            Some(true) => return Candidate::At(at),
            Some(false) => {}
        }
        if follows_object(w, at, broken) && begins_with_quote(w, at) == Some(true) {
            return Candidate::At(at);
        }
        at += 1;
    }
    Candidate::None
}

/// Returns the position of the next `{"ph":` at or after `from`.
pub(super) fn next_event(w: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'{', w.get(from..)?)
        .map(|found| from + found)
        .find(|&at| begins_with_phase(w, at) == Some(true))
}

/// Returns the position of the first non-blank byte at or after `at`.
fn blank_end(w: &[u8], at: usize) -> Option<usize> {
    let rest = w.get(at..)?;
    Some(at + rest.iter().position(|&b| !is_blank(b))?)
}

/// Returns `true` if `ph` is the first key of the object at `at`; `None` if the window ends too
/// early.
pub(super) fn begins_with_phase(w: &[u8], at: usize) -> Option<bool> {
    let key = blank_end(w, at + 1)?;
    for (i, expected) in (key..).zip(b"\"ph\"") {
        if w.get(i)? != expected {
            return Some(false);
        }
    }
    Some(w.get(blank_end(w, key + 4)?) == Some(&b':'))
}

pub(super) fn begins_with_quote(w: &[u8], at: usize) -> Option<bool> {
    Some(w.get(blank_end(w, at + 1)?) == Some(&b'"'))
}

/// Returns `true` if `},` precedes the object at `at`, after `limit`.
pub(super) fn follows_object(w: &[u8], at: usize, limit: usize) -> bool {
    let mut before = w
        .get(limit..at)
        .unwrap_or_default()
        .iter()
        .rev()
        .filter(|b| !is_blank(**b));
    before.next() == Some(&b',') && before.next() == Some(&b'}')
}
