//! Scans a piece speculatively, from the middle of what may be an array of events.
//!
//! The guessed start of an event need not be right: it is used only if the scan of everything
//! before arrives exactly there, between two events.

use super::array::Reached;
use super::config::Config;
use super::part::Part;
use super::recover::{begins_with_quote, follows_object, next_event};

/// Result of a speculative scan of a piece.
pub(super) struct Speculation<'c> {
    /// Position of the first event in the piece.
    pub(super) start: usize,
    pub(super) part: Part<'c>,
    pub(super) reached: Reached,
}

/// Maximum number of starts to try.
const TRIES: usize = 8;

pub(super) fn speculate<'c>(
    config: &'c Config,
    piece: &[u8],
    base: u64,
) -> Option<Speculation<'c>> {
    let mut from = 0;
    for _ in 0..TRIES {
        let start = likely_start(piece, from)?;
        let mut part = Part::new(config);
        if let Ok(end) = part.event(piece, start, base)
            && part.phases.iter().sum::<u64>() == 1
        {
            let reached = part.elements(piece, end, base, false);
            return Some(Speculation {
                start,
                part,
                reached,
            });
        }
        from = start + 1;
    }
    None
}

/// Returns the first position at or after `from` that looks like the start of an event.
fn likely_start(piece: &[u8], from: usize) -> Option<usize> {
    let by_place = memchr::memchr_iter(b'{', piece.get(from..)?)
        .map(|found| from + found)
        .find(|&at| {
            let limit = at.saturating_sub(256);
            follows_object(piece, at, limit) && begins_with_quote(piece, at) == Some(true)
        });
    let before = by_place.unwrap_or(piece.len());
    next_event(piece.get(..before)?, from).or(by_place)
}
