//! Answers about recordings: where GPU time goes, what it waits for, how far it is from the limit of the device, as typed
//! results, documents, sentences, tables and figures.
//!
//! Each module answers one question. Its `Question` states what is asked and of which part of a recording, `Answer::new` reduces
//! one recording to its [`Answered`] result, and `document` makes a [`Document`] of the results of all recordings. Times are
//! integer nanoseconds.
//!
//! * [`summary`]: what is in a recording and what is missing in it;
//! * [`gpu`], [`kernels`], [`idle`], [`launch`], [`memory`], [`ops`], [`roofline`]: one recording, or several side by side;
//! * [`comm`], [`critical_path`]: the recordings of the ranks of one job;
//! * [`diff`]: two recordings of one model;
//! * [`snapshots`], [`flight`]: dumps of PyTorch that are no recordings;
//! * [`merge`], [`Joined`]: recordings, or their tables, as one;
//! * [`part`], [`Outlined`]: a window or steps of a recording, and what of the host needs to be read.
//!
//! The crate reads and names no files, and knows no command line: where a sentence advises what to ask instead, the program that
//! asks gives the words.
//!
//! ```
//! use byte_source::{OpenOptions, Source};
//! use trace_report::{Document, Form, gpu};
//!
//! let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/demo/demo-rank0.json.gz");
//! let source = Source::open(path, &OpenOptions::default())?;
//! let trace = perfetto_reader::read(source, &perfetto_reader::ReadOptions::default())?;
//! let question = gpu::Question::default();
//! let answered = gpu::Answer::new(&question, "rank 0", &trace)?;
//! let row = &answered.answer.rows()[0];
//! let parts = row.time.comp_ns + row.time.exposed_comm_ns + row.time.exposed_memcpy_ns + row.time.idle_ns;
//! assert_eq!(parts, row.time.span_ns);
//! let document: Document = gpu::document(&question, &[answered])?;
//! let mut text = Vec::new();
//! document.write_text(None, &mut text)?;
//! assert!(String::from_utf8(text)?.starts_with("rank 0\n"));
//! assert_eq!(document.tables()[0].rows(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answered;
pub mod comm;
pub mod critical_path;
pub mod diff;
mod document;
mod error;
pub mod flight;
pub mod gpu;
mod headline;
pub mod idle;
mod joined;
pub mod kernels;
pub mod launch;
pub mod memory;
pub mod merge;
pub mod ops;
mod outlined;
pub mod part;
pub mod roofline;
mod rules;
pub mod snapshots;
pub mod summary;
mod summary_text;

pub use answered::{Answered, reasons_only};
pub use document::{Document, Form};
pub use error::{Error, Result};
pub use joined::Joined;
pub use outlined::Outlined;
pub use part::{PartChoice, StepChoice, StepSource};
pub use rules::RulesChoice;

/// Converts a number to a real one, to be scaled for text output.
#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
fn precise(number: i64) -> f64 {
    number as f64
}
