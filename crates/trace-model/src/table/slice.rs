//! Slices as columns, in processing order.

use crate::ids::{SliceId, StrId, TrackId};
use crate::table::args::ArgShapeId;

/// Index into the dictionary of categories.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CategoryId(pub(crate) u16);

impl CategoryId {
    /// No category, which differs from an empty one.
    pub const NONE: Self = Self(u16::MAX);

    /// Returns the index in the dictionary; `None` for no category.
    pub fn index(self) -> Option<usize> {
        (self != Self::NONE).then_some(usize::from(self.0))
    }
}

/// Duration value of a slice that was never closed.
pub(crate) const OPEN: i64 = -1;

/// Columns of slices: 36 bytes per slice, and 4 more for the index by track that [`crate::Trace`]
/// keeps.
///
/// | column | bytes |
/// |---|---|
/// | ts, dur | 8 + 8 |
/// | name, track, parent, args offset | 4 + 4 + 4 + 4 |
/// | category, depth (args shape is counted with the args) | 2 + 2 |
#[derive(Clone, Debug, Default)]
pub(crate) struct SliceTable {
    pub(crate) ts: Vec<i64>,
    pub(crate) dur: Vec<i64>,
    pub(crate) name: Vec<Option<StrId>>,
    pub(crate) track: Vec<TrackId>,
    pub(crate) parent: Vec<Option<SliceId>>,
    pub(crate) category: Vec<CategoryId>,
    pub(crate) depth: Vec<u16>,
    pub(crate) args_offset: Vec<u32>,
    pub(crate) args_shape: Vec<ArgShapeId>,
}

impl SliceTable {
    pub(crate) fn len(&self) -> usize {
        self.ts.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.ts.capacity() * 8
            + self.dur.capacity() * 8
            + self.name.capacity() * 4
            + self.track.capacity() * 4
            + self.parent.capacity() * 4
            + self.category.capacity() * 2
            + self.depth.capacity() * 2
            + self.args_offset.capacity() * 4
            + self.args_shape.capacity() * 2
    }
}
