//! From the paths of a command line to traces, the same way in every tool.
//!
//! * [`expand`] makes files of folders and patterns, and leaves out what is beside the traces;
//! * [`read()`] opens one, whatever its format, shows progress and says on standard error what was
//!   wrong with it;
//! * [`read_each`] reads several, some at once, with bounded memory;
//! * [`kernel_rules`] reads the rows of `--classes`;
//! * [`ranks`] tells which rank of the job recorded which trace.
//!
//! It decides nothing about what is done with a trace, and prints no results.
//!
//! ```
//! use std::path::Path;
//! use trace_input::{is_trace, rank_in_name};
//!
//! assert!(is_trace(Path::new("run/rank3.json.xz")));
//! assert_eq!(rank_in_name("run/rank3.json.xz").map(|rank| rank.0), Some(3));
//! ```

mod classes;
mod files;
mod label;
mod left_out;
mod rank;
mod read;

pub use classes::kernel_rules;
pub use files::{expand, expand_ranks, is_package, is_trace, short_name, without_events};
pub use label::labels;
pub use rank::{Ranks, rank_in_name, ranks, refuse_other_jobs};
pub use read::{NamedTrace, ReadEach, only_args, read, read_each};
