//! Serialization other than field by field (feature `serde`): names and units.

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use crate::kernel::collective::{Collective, CollectiveKind, CollectiveOp, SizeSource};
use crate::kernel::{CommLibrary, KernelClass};
use crate::{SliceId, TimeRange};

macro_rules! by_name {
    ($($of:ty),*) => {$(
        impl Serialize for $of {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    )*};
}

by_name!(CollectiveOp, CommLibrary, KernelClass, SizeSource);

/// Serializes the fields of its kind and its own side by side.
impl Serialize for Collective {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Flat<'c> {
            #[serde(flatten)]
            kind: &'c CollectiveKind,
            seq: Option<i64>,
        }
        let flat = Flat {
            kind: &self.kind,
            seq: self.seq,
        };
        flat.serialize(serializer)
    }
}

impl Serialize for SliceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.index() as u64)
    }
}

impl Serialize for TimeRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut range = serializer.serialize_struct("TimeRange", 2)?;
        range.serialize_field("start_ns", &self.start.nanos())?;
        range.serialize_field("end_ns", &self.end.nanos())?;
        range.end()
    }
}
