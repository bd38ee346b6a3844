//! Reads block I/O traces, pairs issues with completions, and measures everything in one pass.
//!
//! Made for the traces taken while the weights or the KV cache of a language model live on a disk. Twelve formats, detected by
//! content, become one stream of [`Event`]s in order of time; analyses see each event once and keep results, not events, so a
//! log of any length fits into memory. Everything that is not an event is counted ([`quality`]).
//!
//! * [`Stats`]: all analyses of one or several files; the types of their results are in [`analyse`]. [`AnalysisSet`] leaves analyses
//!   out: totals, sizes and series alone ([`AnalysisSet::TRAFFIC`]) of a long log take a fraction of the time;
//! * [`pipeline::read`]: the events themselves, in order, in batches; [`Reader`]: those of one input one by one, as its lines
//!   stand;
//! * [`read_requests`]: requests one by one, each with its issue and completion;
//! * [`detect`]: what a file is.
//!
//! It draws nothing and writes no tables: `blkio-report` does. It does not record: `blkio-collect` does.
//!
//! # Example
//!
//! A write of 8 KiB and a read that takes 250 µs, with a line of the tracer between:
//!
//! ```
//! use blkio_parser::{Direction, Stats, StatsOptions};
//!
//! let dir = tempfile::tempdir()?;
//! let log = dir.path().join("events.txt");
//! std::fs::write(
//!     &log,
//!     "# blkio-events 1\n\
//!      I, 1000000, 0, 259, 0, W, 8192, 128, 16, 0, 77, engine\n\
//!      C, 1100000, 0, 259, 0, W, 8192, 128, 16, 0, 0, swapper\n\
//!      Lost 3 events\n\
//!      I, 2000000, 0, 259, 0, R, 4096, 128, 8, 0, 77, engine\n\
//!      C, 2250000, 0, 259, 0, R, 4096, 128, 8, 0, 0, swapper\n",
//! )?;
//! let mut stats = Stats::of_files(&[log], &StatsOptions::default())?;
//!
//! assert_eq!((stats.traffic.issues, stats.traffic.completions), (2, 2));
//! assert_eq!(stats.outcome.counts().lost_events, 3);
//!
//! // Latencies by direction, of pairs in which a lost completion costs one request.
//! let pairs = stats.newest.as_mut().ok_or("nothing was paired")?;
//! let reads = &mut pairs.latency[Direction::Read.slot()];
//! assert_eq!(reads.percentiles(&[50.0]), [250_000]);
//!
//! // The read finds what was written: two blocks of 4 KiB are touched, one of them by both.
//! let access = stats.access.as_ref().ok_or("places were not wanted")?;
//! assert_eq!((access.distinct_blocks().union, access.distinct_blocks().both), (2, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod analyse;
mod blocks;
mod error;
mod event;
mod first_sizes;
mod format;
mod merge;
mod order;
pub mod pipeline;
pub mod quality;
mod reader;
mod requests;
mod rwbs;
mod stats;

use blkio_companions::{num, scan};

pub use error::{Error, Result};
pub use event::{Event, EventKind, SECTOR_BYTES, Symbols};
pub use first_sizes::FirstSizes;
pub use format::{Format, Kind, block_event, detect};
pub use reader::Reader;
pub use requests::{Request, read_requests};
pub use rwbs::{Direction, Operation, Rwbs};
pub use stats::{AnalysisSet, Stacked, Stats, StatsOptions};
