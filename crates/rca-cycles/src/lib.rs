//! From a serving trace to cycles, what each cost, and why one was slow.
//!
//! A *cycle* is one step of the engine's loop: a batch is chosen, run on the device, and its results
//! are taken in. [`analyse`] finds the loop by the rules of known engines (which are data, see
//! [`engine`]), else as the outermost function that recurs, else as a sequence of operators or bursts
//! of device work that repeat; cuts the trace there; and says of each cycle which phase it is, where
//! its time went (parts that add up to its length exactly), what waited for what, how long launches
//! took, who came late to collectives, and what each function cost by own time. Cycles that are only
//! partly recorded are flagged and count nowhere. [`compare`] names the culprits of a slower run.
//!
//! [`compat`] computes what the published reference computes, cell by cell, its defects included.
//!
//! Counters are levels in time and no causes: that a clock was low while a kernel was slow is
//! coincidence until the kernels slowed down all alike.
//!
//! What this crate does not do: it reads no files and knows no format; it renders nothing.
//!
//! ```
//! use trace_model::{EventBatch, FinishOptions, Pid, Process, SliceData, Thread, Tid, TraceBuilder};
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
//! assert_eq!(analysis.engine.as_deref(), Some("sglang"));
//! assert_eq!(analysis.cycles.len(), 20);
//! assert_eq!(analysis.period_ns(), Some(30_000_000));
//! let gaps = analysis.cycles[0].gaps;
//! assert_eq!((gaps.exposed_host_ns, gaps.idle_ns), (29_000_000, 1_000_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod analysis;
pub mod anatomy;
mod blocking;
mod bottleneck;
mod cadence;
pub mod compare;
pub mod compat;
mod cut;
pub mod engine;
pub mod health;
mod marks;
mod measure;
mod num;
mod origin;
mod outlier;
mod paths;
pub mod period;
mod phase;
mod rows;
pub mod sentinel;
mod slack;
mod spanning;
mod statistics;
mod step_time;
mod steps;
mod timeline;
mod topology;
mod waits;

/// The keys of arguments, without prefix, that [`analyse`] looks at. A reader may leave out all others.
pub const ARG_KEYS: &[&str] = &trace_model::kernel::with_index_keys::<5, 15>([
    "hostname",
    "args",
    trace_model::kernel::COPY_SIZE_KEYS[0],
    trace_model::kernel::COPY_SIZE_KEYS[1],
    trace_model::kernel::COPY_SIZE_KEYS[2],
]);

pub use analysis::{Analysis, CounterSeries, Cycle, Failure, Options, Span, analyse, spans};
pub use bottleneck::{Bottleneck, Stalls, bottlenecks};
pub use cut::Partial;
pub use marks::step_marks;
pub use measure::{Cell, DeviceTimes, Function, Gaps, Launches, Skew, Wait};
pub use origin::{Origin, Origins};
pub use outlier::{Interference, MOST as MOST_OUTLIERS, limit as outlier_limit};
pub use paths::StepPaths;
pub use phase::{Phase, Workload, family, phase_in_name};
pub use rows::{add_events, reports};
pub use slack::{Limit, Slack, slack};
pub use steps::Method;
pub use timeline::{Kind, Member};
pub use topology::Topology;
