//! Tables beside those of recordings, from the paths of a command line.
//!
//! [`Tables`] parts the paths: recordings for their reader; logs of block I/O and captures of memory accesses, told by content;
//! databases with tables of their own. It is the [`Beside`](trace_tables::Beside) of `sql` and `export`:
//!
//! * `findings` is the answer of `why` over the same paths (`why-input`);
//! * `block_requests` and `block_events` are those of `blkio`, `accesses` those of `memtrace`;
//! * tables of rocPD and of Nsight Systems are as they are in the files (`database-tables`).
//!
//! A table is read when a query asks for it. The crate computes nothing.

mod logs;
mod named;
mod tables;

pub use tables::Tables;
