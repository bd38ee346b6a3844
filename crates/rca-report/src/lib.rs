//! The answer about the cycles of a serving engine: what `rca-cycles` and `perf-compare` find, as documents, sentences, tables,
//! pages and tracks.
//!
//! * [`text`], [`document`], [`page`], [`cycles`], [`tracks`]: one recording;
//! * [`ranks`]: the recordings of the ranks of one job;
//! * [`culprits`], [`cases`]: a normal and an abnormal side;
//! * `reference`, [`annotated`]: the answer of the reference's analysis, and its periods in the JSON of a recording;
//! * [`rows`], [`anatomy`], [`recording`]: the tables and reports of a job, as `perf-compare` and others read them;
//! * [`candidates`], [`period`], [`topology`], [`capacity()`]: functions at which a recording may be cut, its periods, the machine;
//! * [`watch`], [`fitted`]: steps that are watched, and the models of usual ones.
//!
//! The crate reads and names no files.
//!
//! ```
//! use rca_report::text::{self, Names};
//! use trace_model::{FinishOptions, Pid, Process, SliceData, Thread, Tid, TraceBuilder};
//! use trace_model::{ArgsRef, Track, TrackKind};
//!
//! let mut builder = TraceBuilder::new();
//! let process = builder.process(Process::new(Pid(1)));
//! let thread = builder.thread(Thread::new(Tid(1), Some(process)));
//! let track = builder.track(Track {
//!     process: Some(process),
//!     thread: Some(thread),
//!     ..Track::new(TrackKind::Thread)
//! });
//! let lane = builder.lane(Some(track));
//! let name = builder.events.strings.intern("Scheduler.run_batch");
//! let python = builder.events.strings.intern("python");
//! let category = builder.events.category(python);
//! for step in 0..20 {
//!     let data = SliceData { name: Some(name), category, args: ArgsRef::NONE };
//!     builder.events.complete(lane, step * 30_000_000, 29_000_000, data);
//! }
//! let trace = builder.finish(&FinishOptions::default())?;
//! let analysis = rca_cycles::analyse(&trace, &rca_cycles::Options::default())?;
//! let paths = rca_cycles::StepPaths::new(&trace, &analysis);
//! let mut out = Vec::new();
//! text::job(&mut out, ("decode", Names::Whole), &analysis, &paths)?;
//! assert!(String::from_utf8(out)?.starts_with("decode: 20 cycles"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agreement;
pub mod anatomy;
pub mod annotated;
mod bound;
pub mod candidates;
mod capacity;
pub mod cases;
pub mod culprits;
pub mod cycles;
pub mod document;
pub mod fitted;
pub mod page;
pub mod period;
pub mod ranks;
pub mod recording;
pub mod reference;
pub mod rows;
pub mod text;
pub mod topology;
pub mod tracks;
pub mod watch;

pub use capacity::capacity;

/// Converts microseconds to whole nanoseconds.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
pub fn nanos(us: f64) -> i64 {
    (us * 1000.0).round() as i64
}
