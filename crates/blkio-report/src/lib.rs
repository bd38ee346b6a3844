//! Reports of block I/O traces.
//!
//! The analyses of `blkio-parser` ([`Stats`](blkio_parser::Stats)) become what people and programs read:
//!
//! * [`document`]: everything as one JSON document, with [`phases`] found in the traffic and what [limits](limit) it;
//!   [`document_csv`], [`tables`] and [`text_summary()`] write it in other forms, [`page()`] as HTML with plots;
//! * [`overlay`]: a trace beside the utilisation of a GPU and the log of an engine, whose clocks it aligns;
//! * [`comparison`]: two traces side by side; [`clock_match`]: the clocks of two recordings of one run;
//! * [`cheops`]: the figures of the published study, in its own arithmetic where asked for;
//! * [`event_table`], [`request_table`]: events and requests as tables; [`stacks`]: stacks of issued requests by kind of I/O; [`fio_check`]: fio's totals
//!   beside a trace's; [`yardstick`]: what a device can do;
//! * [`recordings`], [`device_names`], [`files`]: from paths and names to inputs.
//!
//! ```
//! use blkio_parser::{Stats, StatsOptions};
//! use blkio_report::document::{self, DocumentOptions};
//! use blkio_report::text_summary;
//!
//! let dir = tempfile::tempdir()?;
//! let log = dir.path().join("issue.txt");
//! std::fs::write(&log, "1000, W, 8192, 128, 16\n900000, R, 4096, 128, 8\n")?;
//! let mut stats = Stats::of_files(&[log], &StatsOptions::default())?;
//! let document = document::stats(&mut stats, &DocumentOptions::default());
//! assert_eq!(document["metrics"]["totals"]["write"]["bytes"], 8192);
//! assert!(text_summary(&stats, &document).contains("2 requests issued"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod access_shares;
mod call_chains;
pub mod cheops;
pub mod clock_match;
pub mod companion_values;
pub mod comparison;
pub mod device_names;
pub mod document;
pub mod document_csv;
mod error;
pub mod event_table;
pub mod files;
pub mod fio_check;
mod headline;
pub mod limit;
mod loss;
pub mod overlay;
mod page;
pub mod phase_yardsticks;
pub mod phases;
pub mod recordings;
pub mod request_table;
mod scaled_heat_map;
pub mod series;
mod stack_output;
pub mod stacks;
pub mod tables;
mod text_summary;
mod value;
pub mod value_text;
pub mod yardstick;

pub use error::{Error, Result};
pub use headline::headline;
pub use page::page;
pub use text_summary::text_summary;
