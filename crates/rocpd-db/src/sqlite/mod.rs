//! Tables of a SQLite file, read page by page without running any of its SQL.
//!
//! The layout is that of <https://www.sqlite.org/fileformat2.html>. Views, triggers, generated columns and virtual
//! tables of a file are never looked into, so nothing that is stored in an input is ever executed.

mod btree;
mod catalog;
mod columns;
mod file;
mod record;

pub(crate) use btree::{Cursor, Leaves, Lookup};
pub(crate) use catalog::{Catalog, CatalogTable};
pub(crate) use file::{PageFile, check_sidecars};
pub(crate) use record::{Pick, Value};
