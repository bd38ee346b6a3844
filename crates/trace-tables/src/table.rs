//! The available tables.

use std::fmt;
use std::str::FromStr;

use report::{Column, RowSink, SchemaVersion};
use trace_model::Trace;

use crate::{args, counters, flows, owners, slices, stats};

/// Version of the tables' columns and of the summary.
pub const SCHEMA_VERSION: SchemaVersion = SchemaVersion::new(1, 0);

/// Display options of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TableOptions {
    /// Displays values as Perfetto's trace processor does: process and thread numbers that do not
    /// fit in 32 bits as 0, unnamed JSON events as `[No name]`, real arguments with 15 digits, only
    /// issues worse than information. Default is false: numbers as written, every digit, every
    /// issue.
    pub compat: bool,
}

impl TableOptions {
    /// Creates options with the display rules of the trace processor or the default ones.
    #[must_use]
    pub fn compat(compat: bool) -> Self {
        Self { compat }
    }
}

/// A table of the contents of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// One row per slice, in processing order: `id`, `ts`, `dur` (-1 if it was never closed),
    /// `cat`, `name`, `depth`, `parent_id`, `track_type`, `track_name`, `pid`, `tid`, `thread_ts`,
    /// `thread_dur`, `track_id` (the display lane). If the file has a text instead of a process or
    /// thread number, the number only serves to join with the other tables.
    Slice,
    /// One row per flow, in order of creation: `id`, `slice_out`, `slice_in`, `cat`, `name`,
    /// `out_ts`, `out_name`, `in_ts`, `in_name`.
    Flow,
    /// One row per sample, ordered by time, then name of the track: `ts`, `value`, `track_type`,
    /// `track_name`, `unit`, `pid`, `tid`.
    Counter,
    /// One row per track, in reading order: `id`, `kind`, `type`, `name`, `parent_id`, `upid`,
    /// `utid`, `pid`, `tid`, `uuid`, `unit`.
    Track,
    /// One row per process: `upid`, `pid`, `name`, `sort_index`, `labels`, `machine`.
    Process,
    /// One row per thread, ordered by process and thread number: `tid`, `name`, `pid`,
    /// `process_name`.
    Thread,
    /// One row per value of a slice's arguments, ordered by slice, then key: `slice_id`,
    /// `flat_key`, `key`, `value_type`, `value`.
    Args,
    /// One row per kind of issue: `name`, `idx`, `severity`, `source`, `value` (number of
    /// occurrences).
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

    /// Returns the name of the table: `slice`, `flow`, `counter`, `track`, `process`, `thread`,
    /// `args`, `stats`.
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

    /// Returns the columns of the table.
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

    /// Streams the whole table into `sink`. Memory: a few bytes per track; nothing that grows with
    /// the rows, except for the small tables `thread`, `process` and `track`. Cost: one pass.
    ///
    /// # Errors
    ///
    /// Errors of the sink.
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

/// Error for an unknown table name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no table `{name}`: choose slice, flow, counter, track, process, thread, args or stats")]
pub struct UnknownTable {
    /// The requested name.
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
