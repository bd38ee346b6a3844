//! Lays out a [`trace_model::Trace`] as tables, with a data-quality summary; computes nothing else.
//!
//! * [`catalogue`]: the names, columns, types, units and meanings of all tables, as data;
//! * [`scan()`]: a recording as these tables, in Arrow batches of bounded size, with only the wanted columns; numbers are those
//!   of the analyses (`gpu-time`, `critical-path`, `launch-stacks`, `rca-cycles`);
//! * [`Beside`]: tables of other inputs than recordings; [`Batches`] turns rows of reports into their batches;
//! * [`Table`]: the tables of Perfetto's trace processor, cell by cell;
//! * [`summarise`]: what a trace holds and what it lacks.
//!
//! Each [`Table`] streams its rows into a [`report::RowSink`], so a table of millions of rows is
//! never in memory; CSV, JSON and Parquet are up to the sink. Column names and row order are those
//! of the reference, so that results can be compared cell by cell; with [`TableOptions::compat`]
//! its display rules apply as well.
//!
//! Out of scope: reading traces, analysing their contents, choosing format or destination.
//!
//! ```
//! use report::Format;
//! use trace_model::{ArgsRef, CategoryId, FinishOptions, Pid, Process, SliceData, Thread, Tid};
//! use trace_model::{TraceBuilder, Track, TrackKind};
//! use trace_tables::{Table, TableOptions};
//!
//! let mut b = TraceBuilder::new();
//! let process = Some(b.process(Process::new(Pid(10))));
//! let thread = Some(b.thread(Thread::new(Tid(11), process)));
//! let track = b.track(Track { thread, process, ..Track::new(TrackKind::Thread) });
//! let lane = b.lane(Some(track));
//! let name = Some(b.string("aten::mm"));
//! b.events.complete(lane, 1_000, 50, SliceData { name, category: CategoryId::NONE, args: ArgsRef::NONE });
//! let trace = b.finish(&FinishOptions::default())?;
//!
//! let mut csv = Vec::new();
//! Table::Slice.write(&trace, &TableOptions::default(), &mut *Format::Csv.sink(&mut csv))?;
//! assert_eq!(
//!     String::from_utf8_lossy(&csv),
//!     "id,ts,dur,cat,name,depth,parent_id,track_type,track_name,pid,tid,thread_ts,thread_dur,track_id\n\
//!      0,1000,50,,aten::mm,0,,thread_execution,,10,11,,,0\n"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod args;
mod beside;
pub mod catalogue;
mod counters;
mod display;
mod flatten;
mod flows;
mod lanes;
mod owners;
pub mod scan;
mod slices;
mod stats;
pub mod summary;
mod table;

pub use beside::{Batches, Beside, NothingBeside, OwnTable, TakeBatch};
pub use lanes::Lanes;
pub use scan::{Recording, Request, scan};
pub use summary::{SUMMARY_VERSION, Summary, summarise};
pub use table::{SCHEMA_VERSION, Table, TableOptions, UnknownTable};
