//! The operation letters of the kernel.

use std::fmt;

/// Longest text: the kernel's own buffer has grown from 8 to 10 bytes over the years.
const MAX: usize = 15;

/// The operation letters of one request as the trace prints them: `R`, `WSM`, `FF`, `FWFS`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rwbs([u8; MAX + 1]);

impl Rwbs {
    /// Takes 1 to 15 capital letters; returns `None` for anything else.
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

    /// Returns the letters.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(MAX);
        self.0.get(..end).unwrap_or_default()
    }

    /// Returns the letters as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Capital letters only, by construction.
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// Returns what the letters say.
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

    /// Returns `true` if the published scripts take this for a read: there is an `R` anywhere.
    #[must_use]
    pub fn contains_r(&self) -> bool {
        self.0.contains(&b'R')
    }

    /// Returns `true` if the published scripts take this for a write: there is a `W` anywhere.
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
#[non_exhaustive]
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

    /// Returns the name in reports.
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

    /// Returns `true` if data moves: reads and writes.
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
#[non_exhaustive]
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
