//! The tables of a trace, one file each.

pub(crate) mod args;
pub(crate) mod counter;
pub(crate) mod flow;
pub(crate) mod slice;
pub(crate) mod track;
