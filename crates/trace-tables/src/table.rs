//! Which tables there are.

use std::fmt;
use std::str::FromStr;

use report::{Column, RowSink, SchemaVersion};
use trace_model::Trace;

use crate::{args, counters, flows, owners, slices, stats};

/// Version of the tables' columns and of the summary.
pub const SCHEMA_VERSION: SchemaVersion = SchemaVersion::new(1, 0);

/// How values are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TableOptions {
    /// Display values as Perfetto's trace processor does: process and thread numbers that do not fit
    /// 32 bits as 0, unnamed JSON events as `[No name]`, reals among arguments with 15 digits, only issues that are worse
    /// than information. Default is false: numbers as they were written, every digit, every issue.
    pub compat: bool,
}

impl TableOptions {
    /// The display rules of the trace processor, or ours.
    #[must_use]
    pub fn compat(compat: bool) -> Self {
        Self { compat }
    }
}

/// A table that a trace can be laid out as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// One row a slice, in processing order: `id`, `ts`, `dur` (-1 if it was never closed), `cat`, `name`, `depth`,
    /// `parent_id`, `track_type`, `track_name`, `pid`, `tid`, `thread_ts`, `thread_dur`, `track_id` (the display lane).
    /// Where a text stood in place of a process or thread number, the number only joins with the other tables.
    Slice,
    /// One row an arrow, in order of creation: `id`, `slice_out`, `slice_in`, `cat`, `name`, `out_ts`, `out_name`,
    /// `in_ts`, `in_name`.
    Flow,
    /// One row a sample, ordered by time, then name of the track: `ts`, `value`, `track_type`, `track_name`, `unit`,
    /// `pid`, `tid`.
    Counter,
    /// One row a track, in the order the reader met them: `id`, `kind`, `type`, `name`, `parent_id`, `upid`, `utid`,
    /// `pid`, `tid`, `uuid`, `unit`.
    Track,
    /// One row a process: `upid`, `pid`, `name`, `sort_index`, `labels`, `machine`.
    Process,
    /// One row a thread, ordered by process and thread number: `tid`, `name`, `pid`, `process_name`.
    Thread,
    /// One row for each value of each slice's arguments, ordered by slice, then key: `slice_id`, `flat_key`, `key`,
    /// `value_type`, `value`.
    Args,
    /// One row for each kind of oddity: `name`, `idx`, `severity`, `source`, `value` (how often).
    Stats,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 8] = [
        Self::Slice,
        Self::Flow,
        Self::Counter,
        Self::Track,
        Self::Process,
        Self::Thread,
        Self::Args,
        Self::Stats,
    ];

    /// Its name: `slice`, `flow`, `counter`, `track`, `process`, `thread`, `args`, `stats`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slice => "slice",
            Self::Flow => "flow",
            Self::Counter => "counter",
            Self::Track => "track",
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Args => "args",
            Self::Stats => "stats",
        }
    }

    /// Its columns.
    #[must_use]
    pub fn columns(self) -> Vec<Column> {
        match self {
            Self::Slice => slices::columns(),
            Self::Flow => flows::columns(),
            Self::Counter => counters::columns(),
            Self::Track => owners::track_columns(),
            Self::Process => owners::process_columns(),
            Self::Thread => owners::thread_columns(),
            Self::Args => args::columns(),
            Self::Stats => stats::columns(),
        }
    }

    /// Streams the whole table into `sink`. Memory: a few bytes a track; nothing that grows with the rows, except for
    /// `thread`, `process` and `track`, which are small. Cost: one pass.
    ///
    /// # Errors
    ///
    /// Those of the sink.
    pub fn write(
        self,
        trace: &Trace,
        options: &TableOptions,
        sink: &mut dyn RowSink,
    ) -> report::Result<()> {
        sink.begin(&self.columns())?;
        match self {
            Self::Slice => slices::rows(trace, options, sink)?,
            Self::Flow => flows::rows(trace, options, sink)?,
            Self::Counter => counters::rows(trace, options, sink)?,
            Self::Track => owners::track_rows(trace, options, sink)?,
            Self::Process => owners::process_rows(trace, options, sink)?,
            Self::Thread => owners::thread_rows(trace, options, sink)?,
            Self::Args => args::rows(trace, options, sink)?,
            Self::Stats => stats::rows(trace, options, sink)?,
        }
        sink.finish()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no table of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no table `{name}`: choose slice, flow, counter, track, process, thread, args or stats")]
pub struct UnknownTable {
    /// The name asked for.
    pub name: String,
}

impl FromStr for Table {
    type Err = UnknownTable;

    fn from_str(name: &str) -> Result<Self, UnknownTable> {
        Self::ALL
            .into_iter()
            .find(|t| t.name() == name)
            .ok_or_else(|| UnknownTable {
                name: name.to_owned(),
            })
    }
}
