//! The records of a recording, one type for each kind.

mod context;
mod frames;
mod read;
mod types;

use crate::error::Result;
use crate::partition::Table;
use crate::value::{BadSlot, Fields};
use sqlite_scan::{Pick, Value};

#[expect(unreachable_pub, reason = "the sealed trait names it")]
pub use context::Context;
pub use types::{
    AllocLevel, AllocType, Allocation, Arg, Copy, Dispatch, Event, EventTexts, PmcEvent, Region,
    Sample,
};

/// The most columns that a record reads.
pub(crate) const WIDTH: usize = 25;
/// The columns of regions, of which there are most: a row needs no room for more.
pub(crate) const NARROW: usize = 8;

/// A record that [`crate::RocpdSet::scan`] can read. Sealed: implemented by the types of this module.
pub trait Record<'a>: Sized + sealed::Read<'a> {}

impl<'a, T: sealed::Read<'a>> Record<'a> for T {}

pub(crate) mod sealed {
    use super::{BadSlot, Context, Fields, Result, WIDTH};

    /// How a record is read from its row.
    pub trait Read<'a>: Sized {
        /// The table, without suffix.
        const TABLE: &'static str;
        /// The columns it needs.
        const COLUMNS: [&'static str; WIDTH];
        /// How many those are.
        const USED: usize = super::used(&Self::COLUMNS);
        /// Columns of begin and end among them.
        const TIMES: Option<(usize, usize)>;
        /// Makes the record; `None` when the filter does not want it.
        fn read(
            context: &mut Context<'a>,
            rowid: i64,
            row: Fields<'_, '_>,
        ) -> Result<std::result::Result<Option<Self>, BadSlot>>;
        /// Begin, end and row id; no times where it has none.
        fn times(&self) -> (i64, i64, i64);
        /// Order in time: begin, later ends first.
        #[inline]
        fn key(&self) -> (i64, std::cmp::Reverse<i64>, i64) {
            let (start, end, id) = self.times();
            (start, std::cmp::Reverse(end), id)
        }
    }
}

/// The columns of a list that is filled up with empty names.
const fn used(columns: &[&str; WIDTH]) -> usize {
    let mut at = 0;
    while at < WIDTH && !columns[at].is_empty() {
        at += 1;
    }
    at
}

/// Slots of a table for the columns of a record.
pub(crate) fn pick_of<'a, R: sealed::Read<'a>>(table: &Table) -> Pick<WIDTH> {
    table.def.pick(R::COLUMNS)
}

/// The time of begin that a row has, for ordering.
pub(crate) fn start_of(values: &[Value<'_>]) -> i64 {
    Fields(values).int(0).ok().flatten().unwrap_or(i64::MIN)
}
