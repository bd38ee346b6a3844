//! Pickles of plain data, protocols 0 to 5.
//!
//! A pickle is a program for a stack machine. The instructions that build numbers, texts, lists, tuples, sets and dictionaries
//! are carried out; those that import, call or set the state of anything are refused by name before anything else is read.

mod input;
mod machine;
mod text;

use std::io::Read;

use crate::data::{Data, Id};
use crate::error::Result;

/// Bounds of reading a pickle.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum memory of all values. Default 16 GiB; a pickle of n bytes never needs more than about 60 n.
    pub memory_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 16 << 30,
        }
    }
}

/// Returns `true` if these are the first bytes of a pickle of any protocol whose value is a dictionary, a list, or an object.
pub fn begins(head: &[u8]) -> bool {
    match head {
        [0x80, 2..=5, ..] => true,
        // Protocols 0 and 1 have no header. An empty container is stored in the memo at once.
        [b'(', b'd' | b'l', b'p', b'0'..=b'9', ..] | [b'}' | b']', b'q', 0, ..] => true,
        [b'c', rest @ ..] => {
            let mut lines = rest.splitn(3, |b| *b == b'\n');
            let is_name = |line: Option<&[u8]>| {
                let is_letter = |b: &u8| b.is_ascii_alphanumeric() || b"._".contains(b);
                line.is_some_and(|line| !line.is_empty() && line.iter().all(is_letter))
            };
            is_name(lines.next()) && is_name(lines.next()) && lines.next().is_some()
        }
        _ => false,
    }
}

/// Reads a pickle, and returns its values and the one that it stands for. Memory: at most that of `limits`.
///
/// # Errors
///
/// Returns an error if the pickle is cut off or damaged, needs more memory, or would run code.
pub fn read(name: &str, reader: impl Read, limits: &Limits) -> Result<(Data, Id)> {
    machine::Machine::new(name, reader, limits).run()
}
