//! Copies of a trace with less in them, with other names, on another clock, or of some processes only.
//!
//! * [`slim()`]: a window, some categories, some arguments, and only the call stacks that launch something;
//! * [`redact()`]: pseudonyms in place of names of hosts, users, processes and ranges, and of GPU UUIDs;
//! * [`repair()`]: overlapping slices on tracks of their own, an end for each slice;
//! * [`rank`]: one rank of a job as a part of a common file: on the clock of the first rank, with numbers of its own;
//! * [`manifest`]: clock offsets between files, as Perfetto reads them;
//! * [`parts`], [`part`]: the ranks that one file has, each by itself.
//!
//! All of them build a new sealed [`Trace`] from a given one: times, nesting, arrows and counters of what is kept are those of the
//! original.
//!
//! What this crate does not do: no files, no formats; damage of files is for their readers.
//!
//! ```
//! use byte_source::Source;
//! use trace_convert::Slim;
//! use trace_model::{TimeRange, Timestamp};
//!
//! let json = br#"[{"ph": "X", "pid": 1, "tid": 1, "ts": 5, "dur": 2, "name": "a", "args": {"x": 1}},
//!                 {"ph": "X", "pid": 1, "tid": 1, "ts": 9, "dur": 2, "name": "b"}]"#;
//! let trace = perfetto_reader::read(Source::from_bytes("t.json", json.to_vec())?, &Default::default())?;
//! let mut options = Slim::default();
//! options.window = Some(TimeRange::new(Timestamp::from_nanos(0), Timestamp::from_nanos(8_000)));
//! options.drop_args = vec!["x".to_owned()];
//! let small = trace_convert::slim(&trace, &options)?;
//! let left: Vec<_> = small.slices().map(|slice| (slice.name(), slice.args().len())).collect();
//! assert_eq!(left, [(Some("a"), 0)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Trace`]: trace_model::Trace

mod copy;
mod merge;
mod redact;
mod repair;
mod slim;
mod split;

pub use merge::{Alignment, copy_name, manifest, rank};
pub use redact::redact;
pub use repair::{Repaired, repair};
pub use slim::{Slim, slim};
pub use split::{Part, RANKS, part, part_of_pid, parts, stated_ranks};
