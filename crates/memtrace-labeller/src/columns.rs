//! The columns of a row, one after the other, for everything that writes rows as text.

use crate::access::Access;
use crate::names::{Name, Names};
use crate::schema::{NATIVE_COLUMNS, TRACE_COLUMNS};

/// A cell of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell<'a> {
    /// Nothing is known.
    Null,
    /// A text.
    Text(&'a str),
    /// A number.
    Number(u64),
    /// A number beyond 64 bits, in decimal.
    Wide(&'a str),
}

/// The names of the columns: those of every trace, then those of ours.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    TRACE_COLUMNS.into_iter().chain(NATIVE_COLUMNS)
}

/// How many of [`all`] columns are written: with `hardware` ours too.
pub(crate) const fn count(hardware: bool) -> usize {
    if hardware {
        TRACE_COLUMNS.len() + NATIVE_COLUMNS.len()
    } else {
        TRACE_COLUMNS.len()
    }
}

/// Place of a column among [`all`] of them.
pub(crate) fn place(name: &str) -> Option<usize> {
    all().position(|known| known == name)
}

/// Returns the cells of a row: those of [`TRACE_COLUMNS`], then those of [`NATIVE_COLUMNS`].
pub fn cells<'a>(row: &Access, names: &'a Names) -> [Cell<'a>; 24] {
    let text = |name: Name| names.get(name).map_or(Cell::Null, Cell::Text);
    fn number(value: Option<impl Into<u64>>) -> Cell<'static> {
        value.map_or(Cell::Null, |value| Cell::Number(value.into()))
    }
    let address = names
        .get(row.wide)
        .map_or(Cell::Number(row.address), Cell::Wide);
    [
        text(row.run_id),
        Cell::Number(row.sample_id),
        Cell::Number(row.timestamp_ns),
        text(row.phase),
        address,
        Cell::Number(row.address_page),
        text(row.op),
        text(row.symbol),
        text(row.dso),
        text(row.region_type),
        Cell::Number(row.region_id),
        number(row.access_latency_ns),
        text(row.cache_level),
        number(row.numa_node),
        number(row.cpu_id),
        number(row.thread_id),
        number(row.token_index),
        number(row.context_tokens),
        number(row.latency_cycles),
        // Rows that come from elsewhere have a bit of which we do not know what it says.
        number(row.numa_node.filter(|_| row.hops.is_some())),
        number(row.hops),
        number(Some(row.size_bytes).filter(|size| *size > 0)),
        number(Some(row.period).filter(|period| *period > 0)),
        number(row.process_id),
    ]
}
