//! Serializes kinds by their stable machine names, as in tables.

use serde::{Serialize, Serializer};

use crate::comm::{CauseKind, RankSource};
use crate::diff::Evidence;
use crate::memory::MemorySource;

macro_rules! by_name {
    ($($of:ty),*) => {$(
        impl Serialize for $of {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    )*};
}

by_name!(CauseKind, RankSource, Evidence, MemorySource);
