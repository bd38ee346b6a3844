//! Block I/O traces read, paired and measured in one pass.
//!
//! Made for the traces taken while a language model's weights or KV cache live on a disk. Eleven formats, told apart by
//! content, become one stream of [`Event`]s; analyses see each event once and keep results, not events, so a log of any
//! length fits into memory. Everything that is not an event is counted and reported ([`quality`]).
//!
//! * [`Stats`]: all analyses of one or several files, in [`analyse`]; latencies go by phase, process, size and second, and by
//!   stage of the block layer where the trace has the events; queue depth goes by direction and bin of time, sequentiality by
//!   direction and process, and what was issued by phase. [`Wanted`] leaves analyses out: totals, sizes and series alone
//!   ([`Wanted::TRAFFIC`]) of a long log take a fraction of the time;
//! * [`pipeline`]: the events themselves, in order; [`Reader`]: those of one input one by one, as its lines stand;
//! * [`document`]: the results as JSON;
//! * [`gpu`], [`engine`], [`deepnvme`], [`stacks`], [`histogram`], [`fio`], [`printed`]: what lies beside a trace. Stacks are
//!   also taken from traces that have call chains;
//! * [`cheops`]: the figures of the published study as data;
//! * [`clock`]: how the clocks of two streams lie to each other; [`matching`]: how those of two recordings of one run do;
//!   [`overlay`]: a trace beside a GPU and an engine, by readings of both clocks, by what goes together, or, with seconds of
//!   uncertainty, by the order in which the published pipeline starts its processes.
//!
//! What it does not do: collecting (the tool `blkio` does), drawing, tables.
//!
//! ```
//! use blkio_parser::{Stats, StatsOptions};
//! let dir = tempfile::tempdir()?;
//! let log = dir.path().join("issue.txt");
//! std::fs::write(&log, "Attaching 1 probe...\n10, RA, 4096, 64, 8\n20, W, 8192, 128, 16\nLost 3 events\n")?;
//! let stats = Stats::of_files(&[log], &StatsOptions::default())?;
//! assert_eq!(stats.traffic.issues, 2);
//! assert_eq!(stats.outcome.counts().lost_events, 3);
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
mod rwbs;
mod stats;

use blkio_companions::{num, scan};

pub use error::{Error, Result};
pub use event::{Event, EventKind, SECTOR_BYTES, Symbols};
pub use first_sizes::FirstSizes;
pub use format::{Format, Kind, block_event, detect};
pub use reader::Reader;
pub use rwbs::{Direction, Operation, Rwbs};
pub use stats::{Stacked, Stats, StatsOptions, Wanted};
