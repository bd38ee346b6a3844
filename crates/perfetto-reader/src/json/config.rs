//! Options of the scanner.

use trace_model::TimeRange;

use crate::{ArgPolicy, Outlining, ReadOptions};

/// Selects the slice arguments to keep.
pub(super) enum Wanted {
    All,
    None,
    Only(Vec<Box<[u8]>>),
}

pub(super) struct Config {
    pub(super) compat: bool,
    pub(super) args: Wanted,
    pub(super) categories: Option<Vec<Box<[u8]>>>,
    /// Slices of which only the outline is kept.
    pub(super) outline: Option<Outlining>,
    pub(super) range: TimeRange,
    /// Whether the stacks of events are kept.
    pub(super) stacks: bool,
    pub(super) max_depth: usize,
    pub(super) places: usize,
    /// Size of the pieces that are read and scanned independently, in bytes.
    pub(super) chunk: usize,
    /// Maximum size of an event in bytes.
    pub(super) max_event: usize,
}

/// Size of the pieces that are read and scanned independently: half of a core's L2 cache, so that
/// the bytes read are still cached when they are scanned.
const CHUNK: usize = 1 << 20;

/// Maximum piece size: positions in a piece plus its carried text must fit in 32 bits.
const LONGEST_CHUNK: usize = 1 << 30;

/// Longer events are skipped, so that a missing bracket cannot make the reader hold the rest of the
/// file.
const MAX_EVENT: usize = 64 << 20;

impl Config {
    pub(super) fn new(options: &ReadOptions) -> Self {
        let bytes = |list: &Vec<String>| list.iter().map(|s| s.as_bytes().into()).collect();
        let mut config = Self {
            compat: options.compat,
            args: match &options.args {
                ArgPolicy::All => Wanted::All,
                ArgPolicy::None => Wanted::None,
                ArgPolicy::Only(keys) => Wanted::Only(bytes(keys)),
            },
            categories: options.categories.as_ref().map(bytes),
            outline: options.outline.clone().filter(|_| !options.compat),
            range: options.range.unwrap_or(TimeRange::ALL),
            stacks: false,
            max_depth: options.max_depth,
            places: options.places,
            chunk: match options.chunk_bytes {
                0 => CHUNK,
                n => n.min(LONGEST_CHUNK),
            },
            max_event: MAX_EVENT,
        };
        config.stacks = super::frames::are_wanted(&config);
        config
    }

    /// Returns `true` if the projection leaves out slices.
    pub(super) fn is_projected(&self) -> bool {
        self.categories.is_some() || self.range != TimeRange::ALL
    }
}
