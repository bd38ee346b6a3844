//! Turns the paths of a command line into traces, in the same way in every tool.
//!
//! * [`expand`] expands folders and patterns to files, and leaves out files that are not traces;
//! * [`read()`] opens a trace of any format, shows progress and reports its issues on standard
//!   error;
//! * [`read_each`] reads several, some at once, with bounded memory;
//! * [`dumps()`] and [`read_dump`] recognise and read dumps of PyTorch that are no traces;
//! * [`ClassesArgs`] is `--classes`, the rules of the user for kernels;
//! * [`ranks`] determines which rank of the job recorded which trace.
//!
//! The crate does not analyse traces and prints no results.
//!
//! ```
//! use std::path::Path;
//! use trace_input::{is_trace, rank_in_name};
//!
//! assert!(is_trace(Path::new("run/rank3.json.xz")));
//! assert_eq!(rank_in_name("run/rank3.json.xz").map(|rank| rank.0), Some(3));
//! ```

mod classes;
mod dumps;
mod files;
mod label;
mod left_out;
mod nsys;
mod rank;
mod read;
mod rocprof;

pub use classes::{ClassesArgs, kernel_rules};
pub use dumps::{dumps, read_dump};
pub use files::{
    expand, expand_ranks, explain_folder, is_package, is_trace, short_name, without_events,
};
pub use label::labels;
pub use nsys::{file_of, is_large};
pub use nsys_db::{Deciding, Work as PassedWork, WorkKind as PassedKind};
pub use rank::{Ranks, doubt_on_rank, names_have_sizes, rank_in_name, ranks, refuse_other_jobs};
pub use read::{
    NamedTrace, ReadEach, nothing_inside, only_args, read, read_each, read_each_passing, warnings,
};
