//! Jobs of thousands of ranks: a small summary of each rank, and what stands out among them.
//!
//! Two steps, of which only the first one reads recordings:
//!
//! * **summary**: [`summarise`] reduces a recording to a [`RankSummary`] of at most [`summary::MAX_BYTES`] as a file: data quality,
//!   budget by step and phase, kernels with quantile sketches that can be merged, times of collectives. [`store::summarise_all`] does it for
//!   many recordings, several at once, and skips those that are there already.
//! * **reduction**: [`reduce()`] compares the summaries: which ranks others wait for, racks, hosts and devices that several of these have in
//!   common,
//!   slow links, ranks that run other kernels or the same ones slower, missing and cut recordings, clocks.
//!
//! Numbers are those of the analyses (`gpu-time`, `critical-path`, `rank-align`, `trace-tables`); this crate compares them between ranks. Memory
//! follows the summaries, and results do not depend on the number of threads. What this crate does not do: read traces
//! ([`store::Recordings`] does), choose destinations of text.

mod answer;
mod finding;
mod page;
mod racks;
pub mod reduce;
mod sketch;
pub mod store;
pub mod summary;
pub mod tables;
mod words;

pub use answer::{lines, sentence};
pub use finding::{Finding, Kind, Strength};
pub use page::html;
pub use racks::{RackError, Racks};
pub use reduce::{Failure, Fleet, is_document, reduce};
pub use sketch::Sketch;
pub use summary::{RankSummary, summarise};

/// Name of the document in the folder of an answer.
pub const DOCUMENT: &str = "fleet.json";

/// Returns `true` for a folder with the answer of `fleet`.
#[must_use]
pub fn is_folder(path: &std::path::Path) -> bool {
    path.is_dir() && std::fs::read(path.join(DOCUMENT)).is_ok_and(|bytes| is_document(&bytes))
}
