//! Typed identifiers: rows of the store, and identities written by producers.
//!
//! Row ids are 32-bit indices with a niche, so `Option<SliceId>` takes four bytes. They are valid
//! only for the [`crate::Trace`] (or builder) that issued them.

use std::fmt;
use std::num::NonZeroU32;

/// Maximum number of rows of any table: one value of the index is the niche.
pub const MAX_ROWS: usize = u32::MAX as usize - 1;

macro_rules! row_id {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// Returns the id of row `index`, or `None` past [`MAX_ROWS`].
            #[inline]
            pub const fn new(index: usize) -> Option<Self> {
                if index > MAX_ROWS {
                    return None;
                }
                #[expect(clippy::cast_possible_truncation, reason = "checked against MAX_ROWS above")]
                match NonZeroU32::new(!(index as u32)) {
                    Some(n) => Some(Self(n)),
                    None => None,
                }
            }

            /// Returns the row of the id.
            #[inline]
            pub const fn index(self) -> usize {
                !self.0.get() as usize
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                self.index().cmp(&other.index())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.index())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.index().fmt(f)
            }
        }
    )*};
}

row_id! {
    /// A slice, counted in processing order: ascending time, parents before children.
    SliceId
    /// A row of slices that nest: a thread, a GPU stream, an async identity, a counter.
    TrackId
    /// A thread.
    ThreadId
    /// A process.
    ProcessId
    /// An interned string.
    StrId
    /// An arrow between two slices, counted in order of creation.
    FlowId
    /// A reader's number for the place of an event before its track is known (see
    /// [`crate::TraceBuilder`]).
    LaneId
}

macro_rules! identity {
    ($($(#[$doc:meta])* $name:ident($inner:ty))*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize), serde(transparent))]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

identity! {
    /// Process number as the producer wrote it; for GPU rows of Kineto traces the device.
    Pid(i64)
    /// Thread number as the producer wrote it; for GPU rows of Kineto traces the stream.
    Tid(i64)
    /// Accelerator index.
    DeviceId(i64)
    /// Queue of an accelerator.
    StreamId(i64)
    /// Joins a launch API call and the GPU activity that it caused; unique per file and process
    /// group.
    CorrelationId(i64)
    /// Rank of a process in its distributed job.
    Rank(u32)
}

impl Rank {
    /// Returns the rank in a file name: a number after `rank`, `r`, `worker`, or after the kind of
    /// a parallel rank (`tp`, `pp`, `dp`, `ep`) where at most one of these is not 0. If the file
    /// name contains none, the names of its folders count, innermost first.
    ///
    /// ```
    /// use trace_model::Rank;
    /// assert_eq!(Rank::from_file_name("run2/decode-rank_13.json.gz"), Some(Rank(13)));
    /// assert_eq!(Rank::from_file_name("TP7.json"), Some(Rank(7)));
    /// assert_eq!(Rank::from_file_name("decode_bs32_step5.json"), None);
    /// ```
    pub fn from_file_name(path: &str) -> Option<Self> {
        crate::ranks::in_name(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_of_a_row_id_is_four_bytes() {
        assert_eq!(size_of::<Option<SliceId>>(), 4);
    }

    #[test]
    fn ids_order_by_row_and_stop_at_the_limit() {
        let (a, b) = (SliceId::new(0).unwrap(), SliceId::new(7).unwrap());
        assert!(a < b);
        assert_eq!(b.index(), 7);
        assert_eq!(SliceId::new(MAX_ROWS).unwrap().index(), MAX_ROWS);
        assert_eq!(SliceId::new(MAX_ROWS + 1), None);
    }
}
