//! rocPD databases in other formats.
//!
//! The records that a [`Filter`](rocpd_db::Filter) leaves of a [`RocpdSet`](rocpd_db::RocpdSet), whatever number of databases it
//! has, are written as
//!
//! * [`pftrace`]: Perfetto traces, with arrows, counters and lanes of devices;
//! * [`csv`]: the CSV files of rocprofv3, in either layout;
//! * [`otf2`]: archives for Vampir and the like;
//! * [`rows`]: Parquet, Arrow and JSON lines, a table for each kind of record;
//! * [`tables`]: results of queries and summaries, in any of a dozen formats.
//!
//! Records stream: memory does not follow their number. Files appear whole or not at all, and never in place of an input
//! ([`Destination`]).
//!
//! ```
//! use rocpd_convert::{Destination, pftrace};
//! use rocpd_db::{Filter, OpenOptions, RocpdSet};
//!
//! let dir = tempfile::tempdir()?;
//! rocpd_synth::generate(dir.path(), &rocpd_synth::Shape::small())?;
//! let set = RocpdSet::open(&[dir.path()], &OpenOptions::default())?;
//! let to = Destination::new(dir.path(), "run", set.files());
//! let report = pftrace::write(&set, &Filter::default(), &pftrace::Options::default(), &to)?;
//! assert_eq!(report.parts[0].file, "run_results.pftrace");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent_names;
pub mod csv;
mod destination;
mod error;
pub mod extended;
mod file;
mod headline;
pub mod info;
mod items;
pub mod otf2;
mod path_keys;
pub mod pftrace;
pub mod rows;
pub mod summary_tables;
pub mod tables;
mod wide;

pub use agent_names::AgentIndex;
pub use destination::Destination;
pub use error::{Error, Result};
pub use headline::headline;
pub use path_keys::{PathKeys, now};
