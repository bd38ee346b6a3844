//! Exports of NVIDIA Nsight Systems, read into traces.
//!
//! `nsys export --type sqlite` (and `--type parquetdir`) writes one table for each kind of event. [`Export`] opens such a file
//! or folder, [`load()`] reads it into a [`trace_model::Trace`], with the categories and arguments that the other readers use, so
//! that every analysis works on it. All versions of the schema are read by the columns that are there.
//!
//! * GPU activities are linked to the call of the same process and correlation id, and to no other;
//! * a graph that was recorded as a whole is one GPU activity of unknown composition;
//! * ranges of NVTX nest with the calls of their thread; those of NCCL carry size and communicator where they were recorded;
//! * what limits the recording (lost buffers, graphs, filters, shifted times) is in [`trace_model::Metadata::limits`].
//!
//! [`pass()`] passes GPU activities on in order of start and keeps none of them: for answers about the GPU alone, from exports of
//! any size.
//!
//! Exports hold the environment, arguments and output of processes. Strings are looked up only through columns that name
//! kernels, calls, ranges, threads and symbols, so none of these texts reaches a trace or a message.
//!
//! ```
//! use nsys_db::{Export, LoadOptions, load};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("a.sqlite");
//! # rusqlite::Connection::open(&path)?.execute_batch(
//! #     "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
//! #      CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, streamId INTEGER, demangledName INTEGER);
//! #      INSERT INTO StringIds VALUES (7, 'gemm'); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 7, 7);")?;
//! let export = Export::open(&path)?;
//! let trace = load(&export, &LoadOptions::default())?;
//! let kernel = trace.slices().next().unwrap();
//! assert_eq!((kernel.name(), kernel.category()), (Some("gemm"), Some("kernel")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chains;
mod clock;
mod collective;
mod counters;
mod device;
mod error;
mod export;
mod host;
mod identity;
mod ids;
mod limits;
mod links;
mod load;
mod naming;
mod nvtx;
mod nvtx_names;
mod operator;
mod parquet_folder;
mod pass;
mod payload;
mod private;
mod ranks;
mod recognise;
mod session;
mod strings;
mod tally;

pub use clock::{Alignment, SessionClock, align};
pub use error::{Error, Result};
pub use export::{Export, kind_of};
pub use ids::ProcessKey;
pub use load::{LoadOptions, load};
pub use pass::{Deciding, Work, WorkKind, pass};
pub use private::{is_private, named_strings};
pub use ranks::{RankProcess, communicating_processes};
pub use recognise::{DatabaseKind, arrow_folder, export_command, is_parquet_folder, not_exported};
