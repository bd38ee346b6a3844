//! What the scanner needs to know of the options.

use trace_model::TimeRange;

use crate::{ArgPolicy, ReadOptions};

/// Which arguments of slices to keep.
pub(super) enum Wanted {
    All,
    None,
    Only(Vec<Box<[u8]>>),
}

pub(super) struct Config {
    pub(super) compat: bool,
    pub(super) args: Wanted,
    pub(super) categories: Option<Vec<Box<[u8]>>>,
    pub(super) range: TimeRange,
    pub(super) max_depth: usize,
    pub(super) places: usize,
    /// Size of the pieces that are read and scanned on their own.
    pub(super) chunk: usize,
    /// Longest event, in bytes.
    pub(super) max_event: usize,
}

/// Pieces of this size are read and scanned on their own. Half a core's second-level cache: what
/// was just read is still there when it is scanned.
const CHUNK: usize = 1 << 20;

/// Positions in a piece and what is carried to it are 32 bits.
const LONGEST_CHUNK: usize = 1 << 30;

/// Events longer than this are skipped, so that a missing bracket cannot make the reader hold the
/// rest of the file.
const MAX_EVENT: usize = 64 << 20;

impl Config {
    pub(super) fn new(options: &ReadOptions) -> Self {
        let bytes = |list: &Vec<String>| list.iter().map(|s| s.as_bytes().into()).collect();
        Self {
            compat: options.compat,
            args: match &options.args {
                ArgPolicy::All => Wanted::All,
                ArgPolicy::None => Wanted::None,
                ArgPolicy::Only(keys) => Wanted::Only(bytes(keys)),
            },
            categories: options.categories.as_ref().map(bytes),
            range: options.range.unwrap_or(TimeRange::ALL),
            max_depth: options.max_depth,
            places: options.places,
            chunk: match options.chunk_bytes {
                0 => CHUNK,
                n => n.min(LONGEST_CHUNK),
            },
            max_event: MAX_EVENT,
        }
    }

    /// Does the projection leave out slices?
    pub(super) fn is_projected(&self) -> bool {
        self.categories.is_some() || self.range != TimeRange::ALL
    }
}
