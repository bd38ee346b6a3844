//! Reports about the launches of kernels: stacks, costs, waits and transfers of all ranks, in eight formats.
//!
//! * [`Answered`]: the answer of `launch-stacks` about one trace, with the reasons where there is none;
//! * [`Report`]: those of one or several ranks, joined; [`Report::write`] writes it in a [`Format`], in a [`Style`].
//!
//! The crate reads no files and chooses no windows or kernels.
//!
//! ```
//! use launch_report::{Answered, Format, Input, Report, Style};
//! use launch_stacks::{Query, analyse};
//! use trace_model::{FinishOptions, Rank, TraceBuilder};
//!
//! let trace = TraceBuilder::new().finish(&FinishOptions::default())?;
//! let answer = analyse(&trace, &Query::default(), &[])?;
//! let input = Input { path: "empty.json".to_owned(), sha256: None, rank: Rank(0), trace };
//! let mut traces = [Answered::new(input, answer)];
//! let report = Report::new(Style::default(), "collectives".to_owned(), &mut traces, &[]);
//! let mut out = Vec::new();
//! report.write(Format::Folded, &mut out)?;
//! assert!(out.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod csv;
mod document;
mod folded;
mod frame;
mod html;
mod json;
mod markdown;
mod speedscope;
mod svg;
mod tables;
mod text;

pub use document::{Answered, Format, Input, Report, Style, Weight};
pub use json::refusal;

use document::{Calls, Ranks};
