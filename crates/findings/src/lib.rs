//! What limits an inference, why, and what would help by how much.
//!
//! * [`Recording`]: what is kept of one trace, so that it can be dropped before the next one is read;
//! * [`explain()`]: all recordings of a job, or two sides, to one [`Document`];
//! * [`Document`]: the answer as data. Text, pages and tracks are made of it alone;
//! * [`text()`], [`show`]: the answer as text; [`write_rows`]: findings as rows of a table; [`tracks()`]: as events for a timeline;
//!   [`cut_out`]: the window of a finding;
//! * [`Catalogue`]: kinds of findings with thresholds, words and remedies, as data;
//! * [`Reads`]: reads from storage beside the steps; [`Companion`]: logs of GPUs and engines beside them.
//!
//! The numbers are those of other crates: step times, verdicts, budgets and gains of `critical-path`, waiting in collectives of
//! `gpu-time`, limits of `roofline`, outliers of `rca-cycles`. A finding is reported from the threshold of its kind on, and is
//! *established* only where it was recorded directly. Gains are replays of the graph without the finding, never ratios of sums.
//!
//! What this crate does not do: it reads no traces, and measures nothing that an instrument measures.
//!
//! ```
//! use findings::{Document, Request, Shape, explain, text};
//!
//! let nothing = explain(Vec::new(), &Request::default())?;
//! assert_eq!(nothing.answer.shape, Shape::CannotSay);
//! assert!(text(&nothing, 80).starts_with("Cannot say: "));
//! # Ok::<(), findings::NothingChosen>(())
//! ```

mod attention;
mod beside;
mod budget;
mod catalogue;
mod chains;
mod comparison;
mod cut;
mod document;
mod draft;
mod examples;
mod explain;
mod family;
mod figures;
mod job;
mod left_out;
mod limits;
mod numbers;
mod place_in_code;
mod program;
mod ranges;
mod ranks_apart;
mod recording;
mod rows;
mod sentence;
mod single;
mod speedscope;
mod storage;
mod tables;
mod text;
mod tracks;
mod wall;
mod words;

pub use beside::Companion;
pub use catalogue::{Catalogue, Kind, KindRole};
pub use document::*;
pub use explain::{NothingChosen, Request, explain};
pub use job::Choice;
pub use program::Program;
pub use recording::{Recording, RecordingOptions, arg_keys};
pub use rows::{Ids, write_rows};
pub use speedscope::speedscope;
pub use storage::Reads;
pub use tables::explain_tables;
pub use text::{show, text};
pub use tracks::{cut_out, tracks};

use family::device_limit as family_device_limit;
