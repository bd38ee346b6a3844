//! Flow arrows between slices.

use crate::ids::{SliceId, StrId};

/// A flow arrow from the slice that caused work to the slice that performed it.
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
