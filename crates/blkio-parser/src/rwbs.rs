//! The operation letters of the kernel.

use std::fmt;

/// Longest text: the kernel's own buffer has grown from 8 to 10 bytes over the years.
const MAX: usize = 15;

/// The operation letters of one request as the trace prints them: `R`, `WSM`, `FF`, `FWFS`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rwbs([u8; MAX + 1]);

impl Rwbs {
    /// From 1 to 15 capital letters; anything else is none.
    #[must_use]
    pub fn new(letters: &[u8]) -> Option<Self> {
        if letters.is_empty() || letters.len() > MAX {
            return None;
        }
        let mut text = [0; MAX + 1];
        for (to, from) in text.iter_mut().zip(letters) {
            if !from.is_ascii_uppercase() {
                return None;
            }
            *to = *from;
        }
        Some(Self(text))
    }

    /// The letters.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(MAX);
        self.0.get(..end).unwrap_or_default()
    }

    /// The letters as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Capital letters only, by construction.
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// What the letters say.
    #[must_use]
    pub fn decode(&self) -> Operation {
        let text = self.as_bytes();
        let mut rest = text;
        let mut operation = Operation::default();
        let take = |rest: &mut &[u8], letter: u8| {
            let found = rest.first() == Some(&letter);
            if found {
                *rest = rest.get(1..).unwrap_or_default();
            }
            found
        };
        if rest.first() == Some(&b'F') {
            match rest.get(1) {
                Some(b'R' | b'W' | b'D' | b'Z' | b'E' | b'B') => {
                    operation.preflush = true;
                    rest = rest.get(1..).unwrap_or_default();
                }
                // The tracepoints print FF, the blk tracer FN.
                Some(b'F' | b'N') => {
                    operation.preflush = true;
                    operation.direction = Direction::Flush;
                    rest = rest.get(2..).unwrap_or_default();
                }
                _ => {
                    operation.direction = Direction::Flush;
                    rest = rest.get(1..).unwrap_or_default();
                }
            }
        }
        if operation.direction == Direction::Other {
            operation.direction = match rest.first() {
                Some(b'R') => Direction::Read,
                Some(b'W') => Direction::Write,
                Some(b'D' | b'E') => Direction::Discard,
                Some(b'N') => Direction::None,
                Some(b'Z') => Direction::Zone,
                _ => Direction::Other,
            };
            if operation.direction == Direction::Zone {
                // The letters of the zone operation are no flags.
                return operation;
            }
            if rest.first() == Some(&b'D') {
                rest = rest.get(1..).unwrap_or_default();
                operation.secure = take(&mut rest, b'E');
            } else if operation.direction != Direction::Other {
                rest = rest.get(1..).unwrap_or_default();
            }
        }
        operation.fua = take(&mut rest, b'F');
        operation.ahead = take(&mut rest, b'A');
        operation.sync = take(&mut rest, b'S');
        operation.meta = take(&mut rest, b'M');
        operation.atomic = take(&mut rest, b'U');
        operation
    }

    /// Whether the published scripts take this for a read: there is an `R` anywhere.
    #[must_use]
    pub fn contains_r(&self) -> bool {
        self.0.contains(&b'R')
    }

    /// Whether the published scripts take this for a write: there is a `W` anywhere.
    #[must_use]
    pub fn contains_w(&self) -> bool {
        self.0.contains(&b'W')
    }
}

impl fmt::Debug for Rwbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Rwbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Direction {
    /// Data from the device.
    Read,
    /// Data to the device.
    Write,
    /// Blocks given up (TRIM), also secure erase.
    Discard,
    /// The device's cache is emptied.
    Flush,
    /// Passthrough, and WRITE_ZEROES on kernels without a letter for it.
    None,
    /// An operation on zones.
    Zone,
    /// Letters that name no operation.
    #[default]
    Other,
}

impl Direction {
    /// All directions, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Write,
        Self::Discard,
        Self::Flush,
        Self::None,
        Self::Zone,
        Self::Other,
    ];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Discard => "discard",
            Self::Flush => "flush",
            Self::None => "none",
            Self::Zone => "zone",
            Self::Other => "other",
        }
    }

    /// Whether data moves: reads and writes.
    #[must_use]
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Returns the position in [`Direction::ALL`].
    #[must_use]
    pub const fn slot(self) -> usize {
        self as usize
    }
}

/// The letters taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "these are the kernel's independent flags"
)]
pub struct Operation {
    /// What the request does.
    pub direction: Direction,
    /// The cache is flushed before.
    pub preflush: bool,
    /// Secure erase rather than discard.
    pub secure: bool,
    /// Forced unit access.
    pub fua: bool,
    /// Read ahead of demand.
    pub ahead: bool,
    /// Somebody waits for it.
    pub sync: bool,
    /// Metadata of a file system.
    pub meta: bool,
    /// Atomic write.
    pub atomic: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Operation {
        Rwbs::new(text.as_bytes()).unwrap().decode()
    }

    #[test]
    fn directions_follow_the_operation_and_not_any_letter() {
        let table = [
            ("R", Direction::Read),
            ("RA", Direction::Read),
            ("RSM", Direction::Read),
            ("W", Direction::Write),
            ("FWFSM", Direction::Write),
            ("FWS", Direction::Write),
            ("WFS", Direction::Write),
            ("D", Direction::Discard),
            ("DS", Direction::Discard),
            ("DE", Direction::Discard),
            ("E", Direction::Discard),
            ("FF", Direction::Flush),
            ("FN", Direction::Flush),
            ("N", Direction::None),
            ("NS", Direction::None),
            ("ZR", Direction::Zone),
            ("ZRA", Direction::Zone),
            ("ZA", Direction::Zone),
            ("B", Direction::Other),
            ("F", Direction::Flush),
        ];
        for (text, direction) in table {
            assert_eq!(decode(text).direction, direction, "{text}");
        }
    }

    #[test]
    fn flags_are_told_apart_by_place() {
        let all = decode("FWFSM");
        assert!(all.preflush && all.fua && all.sync && all.meta);
        let fua = decode("WF");
        assert!(fua.fua && !fua.preflush);
        let flush = decode("FF");
        assert!(!flush.fua && flush.preflush);
        assert!(decode("RA").ahead && !decode("RA").sync);
        assert!(decode("DES").secure && decode("DES").sync);
        assert!(!decode("ZRA").ahead, "a reset of all zones is no readahead");
    }

    #[test]
    fn only_short_capital_texts_are_accepted() {
        assert!(Rwbs::new(b"").is_none());
        assert!(Rwbs::new(b"r").is_none());
        assert!(Rwbs::new(b"R1").is_none());
        assert!(Rwbs::new(&[b'W'; 16]).is_none());
        assert_eq!(Rwbs::new(&[b'W'; 15]).unwrap().as_str(), "W".repeat(15));
    }

    #[test]
    fn the_published_rule_looks_for_letters_anywhere() {
        let reset = Rwbs::new(b"ZR").unwrap();
        assert!(reset.contains_r() && !reset.contains_w());
        assert!(!Rwbs::new(b"FF").unwrap().contains_r());
    }
}
