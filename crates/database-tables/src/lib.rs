//! The tables of rocPD databases and of exports of Nsight Systems, as they are in the files.
//!
//! [`Databases`] lists the tables of several files as one catalogue and reads them as Arrow batches: names and columns are those of the
//! files, behind a column `file`; rows follow each other in the order of the files, columns are joined by name. Types are those that
//! columns are declared with, widened by the first rows, because SQLite takes a declaration for a preference.
//!
//! Tables are read page by page with `sqlite-scan`, or from Parquet, so nothing that is stored in a file is executed; the views of
//! rocPD are those of `rocpd-db`. What holds the environment, command lines or output of processes is left out.
//!
//! It does not interpret the tables: `nsys-db` and `rocpd-db` do.

mod columns;
mod databases;
mod files;

pub use databases::Databases;
