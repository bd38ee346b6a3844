//! Any number of rocPD databases, read as one.
//!
//! rocPD is the SQLite format of ROCm's profilers: one file for each process. A [`RocpdSet`] opens files, folders, patterns
//! and packages read-only and offers
//!
//! * [`RocpdSet::scan`]: typed records ([`Dispatch`], `Copy`, [`Allocation`], [`Region`], [`Sample`], [`PmcEvent`],
//!   [`Arg`]), streamed as stored or in order of time, with a [`Filter`];
//! * [`RocpdSet::sql`]: SQL over the tables and views of the format, each covering all databases, through a cursor;
//! * [`RocpdSet::rows`]: the same records as rows of plain columns; with the feature `arrow` as Arrow record batches
//!   (`RocpdSet::scan_arrow`), and results of SQL too (`Rows::next_batch`);
//! * [`Summary`], [`RocpdSet::window`], [`load()`] (into a `trace-model` trace), [`merge()`] and [`package()`].
//!
//! Records are keyed by the guid of their process, so equal process ids of two machines never mix. Scans read the pages of
//! the files themselves, and SQL runs over views defined here: views and triggers stored in an input are never executed,
//! and nothing is written beside an input. Generations 3.0.0 to 3.0.5 are told apart by the columns that are there, the
//! draft of 4.1.0 is read where its columns are found.
//!
//! Clocks of different machines are not synchronised; [`merge()`] can move times so that they agree ([`Align`]), and nothing
//! else does. It does not write Perfetto or CSV files (the `rocpd` tool does), and does not read the older rocmProfileData
//! (`.rpd`).
//!
//! ```
//! use rocpd_db::{Dispatch, Filter, KernelNames, OpenOptions, Order, RocpdSet, SqlValue};
//!
//! # let folder = tempfile::tempdir()?;
//! # let made = rocpd_synth::generate(folder.path(), &rocpd_synth::Shape::small())?;
//! let set = RocpdSet::open(&[folder.path()], &OpenOptions::default())?;
//!
//! // Typed records.
//! let filter = Filter::default();
//! let mut longest = 0;
//! for dispatch in set.scan::<Dispatch>(&filter, Order::Stored)? {
//!     longest = longest.max(dispatch?.duration_ns());
//! }
//!
//! // The same with SQL: connect, execute, fetch.
//! let session = set.sql(None, KernelNames::default())?;
//! let mut statement = session.prepare("SELECT MAX(\"end\" - start) FROM rocpd_kernel_dispatch WHERE id > ?1")?;
//! let mut rows = statement.query(&[SqlValue::Int(0)])?;
//! while let Some(row) = rows.next()? {
//!     assert_eq!(row.get(0), SqlValue::Int(longest));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod align;
#[cfg(feature = "arrow")]
mod batches;
mod devices;
mod error;
mod extended;
mod filter;
mod ids;
mod info;
mod inputs;
mod issues;
mod kernel_names;
mod load;
mod lookup;
mod merge;
mod merged;
mod numbers;
mod orphans;
mod package;
mod partition;
mod quality;
mod records;
mod scan;
mod set;
mod sql;
mod stats;
mod summary;
mod tabular;
mod value;
mod view_scan;
mod window;

pub use crate::align::{Align, ClockOffset};
#[cfg(feature = "arrow")]
pub use crate::batches::ArrowScan;
pub use crate::devices::DeviceNumbers;
pub use crate::error::{Error, Result};
pub use crate::extended::{
    Busy, ChangePoint, Exclusive, Imbalance, LaunchLatency, LiveMemory, OUTLIER_SCORE, Outlier,
    busy, change_points, exclusive, launch_latency, live_memory, outliers,
};
pub use crate::filter::{Edge, Filter, Window, domain_of};
pub use crate::info::{Agent, Channel, Node, Pmc, Process, Symbol, Thread};
pub use crate::inputs::expand;
pub use crate::issues::Issue;
pub use crate::kernel_names::{KernelNames, truncate};
pub use crate::load::{load, slice_category};
pub use crate::lookup::Lookup;
pub use crate::merge::{MergeOptions, Merged, merge};
pub use crate::orphans::Orphans;
pub use crate::package::{PackageOptions, package};
pub use crate::partition::Partition;
pub use crate::quality::OddTimes;
pub use crate::records::{
    AllocLevel, AllocType, Allocation, Arg, Copy, Dispatch, Event, EventTexts, PmcEvent, Record,
    Region, Sample,
};
pub use crate::scan::{Order, Scan};
pub use crate::set::{OpenOptions, RegionsAndSamples, RocpdSet};
pub use crate::sql::{Rows, SqlRow, SqlSession, SqlValue, Statement};
pub use crate::stats::{Quantiles, Stat};
pub use crate::summary::{DomainRow, Lost, Summary, SummaryOptions, SummaryRow, SummaryView};
pub use crate::tabular::{ColumnKind, RowScan, TableColumn, TableKind};
pub use crate::view_scan::ViewScan;
pub use crate::window::{Bound, Occurrence, TimeBounds, TimePoint, WindowRequest};
pub use trace_model::kernel::demangle;
