//! Arrows between slices.

use crate::ids::{SliceId, StrId};

/// An arrow from the slice where work was caused to the slice where it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Tail.
    pub from: SliceId,
    /// Head.
    pub to: SliceId,
    /// The producer's id.
    pub id: u64,
    /// Category (JSON flows).
    pub category: Option<StrId>,
    /// Name (JSON flows).
    pub name: Option<StrId>,
}
