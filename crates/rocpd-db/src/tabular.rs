//! Records as rows of plain columns, the same for every format that has columns.

use crate::error::Result;
use crate::filter::Filter;
use crate::kernel_names::KernelNames;
use crate::merged::Merged;
use crate::records::{Allocation, Arg, Copy, Dispatch, Event, PmcEvent, Region, Sample};
use crate::scan::{Order, Scan};
use crate::set::RocpdSet;
use crate::sql::SqlValue;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnKind {
    /// A text that comes again and again: a name, a category, whose row it is.
    Name,
    /// A text that may be another in every row.
    Text,
    /// An integer.
    Int,
    /// An integer: nanoseconds, a time or a length of time.
    Nanos,
    /// A real number.
    Real,
}

use ColumnKind::{Int, Name, Nanos, Real, Text};

/// Name and kind of a column.
pub type TableColumn = (&'static str, ColumnKind);

/// A kind of record as a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// Dispatches.
    Kernels,
    /// Copies.
    MemoryCopies,
    /// Allocations and frees, scratch too.
    MemoryAllocations,
    /// Regions.
    Regions,
    /// Samples: points in time.
    Samples,
    /// Values of counters.
    Pmc,
    /// Arguments of calls.
    Args,
}

/// Columns of records that a thread of a process made: whose they are, then what they say. The macro `record` fills them.
macro_rules! whose {
    ($($column:expr),* $(,)?) => {
        &[
            ("guid", Name),
            ("hostname", Name),
            ("pid", Int),
            ("rank", Int),
            ("id", Int),
            ("tid", Int),
            $($column),*
        ]
    };
}

/// Gives a record's values for the columns of [`whose`] to `take`, and behind them those it is called with.
macro_rules! record {
    ($record:expr, $take:expr, [$($value:expr),* $(,)?]) => {
        $take(&[
            SqlValue::Text(&$record.process.guid),
            SqlValue::Text(&$record.process.hostname),
            SqlValue::Int($record.process.pid),
            int($record.process.rank),
            SqlValue::Int($record.id),
            int($record.thread.map(|thread| thread.tid)),
            $($value),*
        ])
    };
}

const KERNELS: &[TableColumn] = whose![
    ("name", Name),
    ("region", Name),
    ("agent_abs_index", Int),
    ("queue_id", Int),
    ("stream_id", Int),
    ("dispatch_id", Int),
    ("start_ns", Nanos),
    ("end_ns", Nanos),
    ("duration_ns", Nanos),
    ("grid_x", Int),
    ("grid_y", Int),
    ("grid_z", Int),
    ("workgroup_x", Int),
    ("workgroup_y", Int),
    ("workgroup_z", Int),
    ("lds_bytes", Int),
    ("scratch_bytes", Int),
    ("vgpr_count", Int),
    ("accum_vgpr_count", Int),
    ("sgpr_count", Int),
    ("stack_id", Int),
    ("parent_stack_id", Int),
    ("corr_id", Int),
    ("event_id", Int),
];

const COPIES: &[TableColumn] = whose![
    ("name", Name),
    ("src_agent_abs_index", Int),
    ("dst_agent_abs_index", Int),
    ("stream_id", Int),
    ("size_bytes", Int),
    ("start_ns", Nanos),
    ("end_ns", Nanos),
    ("duration_ns", Nanos),
    ("stack_id", Int),
    ("corr_id", Int),
    ("event_id", Int),
];

const ALLOCATIONS: &[TableColumn] = whose![
    ("type", Name),
    ("level", Name),
    ("agent_abs_index", Int),
    ("address", Int),
    ("size_bytes", Int),
    ("start_ns", Nanos),
    ("end_ns", Nanos),
    ("duration_ns", Nanos),
    ("stack_id", Int),
    ("event_id", Int),
];

const REGIONS: &[TableColumn] = whose![
    ("category", Name),
    ("name", Name),
    ("message", Text),
    ("start_ns", Nanos),
    ("end_ns", Nanos),
    ("duration_ns", Nanos),
    ("event_id", Int),
    ("stack_id", Int),
    ("parent_stack_id", Int),
    ("corr_id", Int),
];

const SAMPLES: &[TableColumn] = whose![
    ("category", Name),
    ("name", Name),
    ("message", Text),
    ("timestamp_ns", Nanos),
    ("event_id", Int),
    ("stack_id", Int),
    ("parent_stack_id", Int),
    ("corr_id", Int),
];

const PMC: &[TableColumn] = &[
    ("guid", Name),
    ("id", Int),
    ("event_id", Int),
    ("counter", Name),
    ("value", Real),
];

const ARGS: &[TableColumn] = &[
    ("guid", Name),
    ("id", Int),
    ("event_id", Int),
    ("position", Int),
    ("type", Name),
    ("name", Name),
    ("value", Text),
];

impl TableKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Kernels,
        Self::MemoryCopies,
        Self::MemoryAllocations,
        Self::Regions,
        Self::Samples,
        Self::Pmc,
        Self::Args,
    ];

    /// The name of the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernels => "kernels",
            Self::MemoryCopies => "memory_copies",
            Self::MemoryAllocations => "memory_allocations",
            Self::Regions => "regions",
            Self::Samples => "samples",
            Self::Pmc => "pmc",
            Self::Args => "args",
        }
    }

    /// Its columns, in order.
    #[must_use]
    pub const fn columns(self) -> &'static [TableColumn] {
        match self {
            Self::Kernels => KERNELS,
            Self::MemoryCopies => COPIES,
            Self::MemoryAllocations => ALLOCATIONS,
            Self::Regions => REGIONS,
            Self::Samples => SAMPLES,
            Self::Pmc => PMC,
            Self::Args => ARGS,
        }
    }
}

/// Where rows come from.
#[derive(Debug)]
enum Source<'a> {
    Kernels(Merged<'a, Dispatch<'a>>),
    Copies(Merged<'a, Copy<'a>>),
    Allocations(Merged<'a, Allocation<'a>>),
    Regions(Merged<'a, Region<'a>>),
    Samples(Merged<'a, Sample<'a>>),
    Pmc(Scan<'a, PmcEvent<'a>>),
    Args(Scan<'a, Arg>),
}

/// Records of one kind as rows, streamed.
#[derive(Debug)]
pub struct RowScan<'a> {
    set: &'a RocpdSet,
    names: KernelNames,
    source: Source<'a>,
}

impl RocpdSet {
    /// Streams the records that a filter wants as rows: those of all processes by begin, later ends first.
    ///
    /// Counters and arguments have no times and come as they are stored, process after process.
    ///
    /// # Errors
    ///
    /// As [`RocpdSet::scan`].
    pub fn rows<'a>(
        &'a self,
        kind: TableKind,
        filter: &'a Filter,
        names: KernelNames,
    ) -> Result<RowScan<'a>> {
        let source = match kind {
            TableKind::Kernels => Source::Kernels(Merged::new(self, filter)?),
            TableKind::MemoryCopies => Source::Copies(Merged::new(self, filter)?),
            TableKind::MemoryAllocations => Source::Allocations(Merged::new(self, filter)?),
            TableKind::Regions => Source::Regions(Merged::new(self, filter)?),
            TableKind::Samples => Source::Samples(Merged::new(self, filter)?),
            TableKind::Pmc => Source::Pmc(self.scan(filter, Order::Stored)?),
            TableKind::Args => Source::Args(self.scan(filter, Order::Stored)?),
        };
        Ok(RowScan {
            set: self,
            names,
            source,
        })
    }
}

impl RowScan<'_> {
    /// Gives the next row to `take` and returns what it makes of it; `None` after the last row.
    ///
    /// # Errors
    ///
    /// When a file is damaged.
    pub fn next_with<T>(&mut self, take: impl FnOnce(&[SqlValue<'_>]) -> T) -> Result<Option<T>> {
        let names = self.names;
        match &mut self.source {
            Source::Kernels(scan) => each(scan, |r| kernel(&r, names, take)),
            Source::Copies(scan) => each(scan, |r| copy(&r, take)),
            Source::Allocations(scan) => each(scan, |r| allocation(&r, take)),
            Source::Regions(scan) => each(scan, |r| region(&r, take)),
            Source::Samples(scan) => each(scan, |r| sample(&r, take)),
            Source::Pmc(scan) => each(scan, |r| {
                take(&[
                    text(guid(self.set, r.partition)),
                    SqlValue::Int(r.id),
                    int(r.event_id),
                    text(r.pmc.map(|pmc| pmc.name.as_str())),
                    r.value.map_or(SqlValue::Null, SqlValue::Real),
                ])
            }),
            Source::Args(scan) => each(scan, |r| {
                take(&[
                    text(guid(self.set, r.partition)),
                    SqlValue::Int(r.id),
                    SqlValue::Int(r.event_id),
                    SqlValue::Int(r.position),
                    SqlValue::Text(&r.kind),
                    SqlValue::Text(&r.name),
                    text(r.value.as_deref()),
                ])
            }),
        }
    }
}

/// Gives the next record to `take`.
fn each<R, T>(
    scan: &mut impl Iterator<Item = Result<R>>,
    take: impl FnOnce(R) -> T,
) -> Result<Option<T>> {
    scan.next().map(|record| record.map(take)).transpose()
}

fn guid(set: &RocpdSet, partition: usize) -> Option<&str> {
    set.partitions().get(partition).map(crate::Partition::guid)
}

fn int(value: Option<i64>) -> SqlValue<'static> {
    value.map_or(SqlValue::Null, SqlValue::Int)
}

fn text(value: Option<&str>) -> SqlValue<'_> {
    value.map_or(SqlValue::Null, SqlValue::Text)
}

/// A type or level; those that the format does not know have no text.
fn known(text: &'static str) -> SqlValue<'static> {
    match text {
        "" => SqlValue::Null,
        text => SqlValue::Text(text),
    }
}

fn stack(event: Option<Event<'_>>) -> SqlValue<'static> {
    int(event.and_then(|event| event.stack_id))
}

fn parent(event: Option<Event<'_>>) -> SqlValue<'static> {
    int(event.and_then(|event| event.parent_stack_id))
}

fn event(event: Option<Event<'_>>) -> SqlValue<'static> {
    int(event.map(|event| event.id))
}

fn correlation(event: Option<Event<'_>>) -> SqlValue<'static> {
    int(event.and_then(|event| event.correlation_id))
}

fn kernel<T>(r: &Dispatch<'_>, names: KernelNames, take: impl FnOnce(&[SqlValue<'_>]) -> T) -> T {
    let made;
    let name = match names.plain(r) {
        Some(name) => name,
        None => {
            made = names.of(r);
            &made
        }
    };
    let symbol = |get: fn(&crate::Symbol) -> Option<i64>| int(r.symbol.and_then(get));
    record!(
        r,
        take,
        [
            SqlValue::Text(name),
            text(r.region),
            int(r.agent.and_then(|agent| agent.absolute_index)),
            int(r.queue_id),
            int(r.stream_id),
            int(r.dispatch_id),
            SqlValue::Int(r.start_ns),
            SqlValue::Int(r.end_ns),
            SqlValue::Int(r.duration_ns()),
            int(r.grid[0]),
            int(r.grid[1]),
            int(r.grid[2]),
            int(r.workgroup[0]),
            int(r.workgroup[1]),
            int(r.workgroup[2]),
            int(r.lds_bytes),
            int(r.scratch_bytes),
            symbol(|s| s.arch_vgpr_count),
            symbol(|s| s.accum_vgpr_count),
            symbol(|s| s.sgpr_count),
            stack(r.event),
            parent(r.event),
            correlation(r.event),
            event(r.event),
        ]
    )
}

fn copy<T>(r: &Copy<'_>, take: impl FnOnce(&[SqlValue<'_>]) -> T) -> T {
    record!(
        r,
        take,
        [
            text(r.name),
            int(r.src_agent.and_then(|agent| agent.absolute_index)),
            int(r.dst_agent.and_then(|agent| agent.absolute_index)),
            int(r.stream_id),
            SqlValue::Int(r.size_bytes),
            SqlValue::Int(r.start_ns),
            SqlValue::Int(r.end_ns),
            SqlValue::Int(r.duration_ns()),
            stack(r.event),
            correlation(r.event),
            event(r.event),
        ]
    )
}

fn allocation<T>(r: &Allocation<'_>, take: impl FnOnce(&[SqlValue<'_>]) -> T) -> T {
    record!(
        r,
        take,
        [
            known(r.kind.text()),
            known(r.level.text()),
            int(r.agent.and_then(|agent| agent.absolute_index)),
            int(r.address),
            SqlValue::Int(r.size_bytes),
            SqlValue::Int(r.start_ns),
            SqlValue::Int(r.end_ns),
            SqlValue::Int(r.duration_ns()),
            stack(r.event),
            event(r.event),
        ]
    )
}

fn region<T>(r: &Region<'_>, take: impl FnOnce(&[SqlValue<'_>]) -> T) -> T {
    record!(
        r,
        take,
        [
            text(r.category()),
            text(r.name),
            text(r.message.as_deref()),
            SqlValue::Int(r.start_ns),
            SqlValue::Int(r.end_ns),
            SqlValue::Int(r.duration_ns()),
            event(r.event),
            stack(r.event),
            parent(r.event),
            correlation(r.event),
        ]
    )
}

fn sample<T>(r: &Sample<'_>, take: impl FnOnce(&[SqlValue<'_>]) -> T) -> T {
    record!(
        r,
        take,
        [
            text(r.category()),
            text(r.name),
            text(r.message.as_deref()),
            SqlValue::Int(r.timestamp_ns),
            event(r.event),
            stack(r.event),
            parent(r.event),
            correlation(r.event),
        ]
    )
}
