//! `trace-info ops`.

use clap::{Args, ValueEnum};
use cli::Outcome;
use gpu_time::{ARG_KEYS, GpuWork, Lack, Note, Recorder};
use report::{Column, SchemaVersion, Table, Unit};
use roofline::{CopyRow, Knowledge, OPS_KEYS, OpRow, OpSort, copies, copies_table, ops, ops_table};
use trace_input::only_args;

use crate::args::{ReportArgs, ReportFormat};
use crate::document::{Destination, Document};
use crate::empty;
use crate::part::PartArgs;

const VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 0 };

pub(crate) const HELP: &str = "\
The operators of the host, as key_averages of PyTorch has them: time without and
with the operators within, GPU time of what they launched, bytes allocated less
released (profile_memory=True), FLOPs of those whose sizes are recorded and that
have a model. A trace without GPU activity has these, too.

Example:
  trace-info ops t.json.gz
  trace-info ops t.json.gz --by shape --sort gpu --top 30
  trace-info ops t.json.gz --format csv --output ops.csv";

#[derive(Debug, Args)]
pub(crate) struct OpsArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Key of the rows
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub(crate) by: ByName,
    /// The order, most first
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    pub(crate) sort: SortName,
    /// Rows shown of each trace [default: 20 in text, all otherwise]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    #[command(flatten)]
    pub(crate) part: PartArgs,
}

/// Rows, as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ByName {
    /// Operator
    #[default]
    Op,
    /// Operator and shapes of its inputs
    Shape,
}

/// Orders, as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SortName {
    /// Time on the host without operators within
    #[default]
    Itself,
    /// Time on the host
    Total,
    /// Time of GPU activity
    Gpu,
    /// Number
    Calls,
    /// FLOPs
    Flops,
}

impl From<SortName> for OpSort {
    fn from(name: SortName) -> Self {
        match name {
            SortName::Itself => Self::SelfTime,
            SortName::Total => Self::Total,
            SortName::Gpu => Self::Gpu,
            SortName::Calls => Self::Calls,
            SortName::Flops => Self::Flops,
        }
    }
}

struct Answer {
    label: String,
    ops: Vec<OpRow>,
    copies: Vec<CopyRow>,
    notes: Vec<Note>,
    recorder: Recorder,
}

pub(crate) fn run(args: &OpsArgs) -> anyhow::Result<Outcome> {
    let report = &args.report;
    if args.part.by_step() {
        return Err(cli::usage(
            "ops takes windows, not steps: --window-of NAME has the operators within a slice",
        ));
    }
    let to = Destination::open(report)?;
    let knowledge = Knowledge::default();
    let by_shape = args.by == ByName::Shape;
    let each = empty::read_each(
        report,
        &report.traces()?,
        |options| {
            let keys: Vec<&str> = ARG_KEYS.iter().chain(OPS_KEYS).copied().collect();
            only_args(options, &keys);
        },
        |input| {
            let work = GpuWork::new(&input.trace);
            let (how, notes) = args.part.resolve(input, &work)?;
            let answer = Answer {
                label: input.label.clone(),
                ops: ops(
                    &work,
                    &knowledge.models,
                    by_shape,
                    how.window,
                    args.sort.into(),
                ),
                copies: copies(&work, how.window),
                notes,
                recorder: Recorder::of(&input.trace),
            };
            let why = match answer.ops.is_empty() {
                true => gpu_time::no_gpu_work(work.index()),
                false => None,
            };
            Ok((answer, why))
        },
    )?;
    let mut document = Document::new(VERSION);
    let all = each.results.iter();
    let tables: Vec<(&str, &[OpRow])> = all.clone().map(|a| (a.label.as_str(), &*a.ops)).collect();
    document.tables.push(ops_table(
        &tables,
        by_shape,
        args.top.unwrap_or(usize::MAX),
    )?);
    let tables: Vec<(&str, &[CopyRow])> = all.map(|a| (a.label.as_str(), &*a.copies)).collect();
    document.tables.push(copies_table(&tables, true)?);
    let is_text = matches!(
        report.format.format(),
        ReportFormat::Text | ReportFormat::Md
    );
    for answer in each.results.iter().filter(|_| is_text) {
        document.heading(&answer.label);
        document.notes(&answer.notes);
        if answer.ops.is_empty() {
            document.line(
                "operators",
                format!(
                    "none recorded: record them ({})",
                    Lack::Operators.how(answer.recorder)
                ),
            );
        } else {
            let top = args.top.unwrap_or(20).min(answer.ops.len());
            let title = format!("{top} of {} operators", answer.ops.len());
            document.table(&title, shown(&answer.ops[..top], by_shape)?);
        }
        if !answer.copies.is_empty() {
            document.table("copies", copies_table(&[("", &answer.copies)], false)?);
        }
    }
    document.write(to)?;
    each.end(report)
}

/// Operators for people: what is zero in all rows is left out.
fn shown(rows: &[OpRow], by_shape: bool) -> anyhow::Result<Table> {
    let has = |get: fn(&OpRow) -> bool| rows.iter().any(get);
    let has_gpu = has(|row| row.total_gpu_ns > 0);
    let has_cpu_bytes = has(|row| row.total_cpu_bytes != 0);
    let has_gpu_bytes = has(|row| row.total_gpu_bytes != 0);
    let has_flops = has(|row| row.flops.is_some());
    let mut columns = vec![Column::text("op")];
    if by_shape {
        columns.push(Column::text("shapes"));
    }
    let nanos = |name| Column::int(name).unit(Unit::Nanos);
    let bytes = |name| Column::int(name).unit(Unit::Bytes);
    columns.extend([
        Column::uint("calls").unit(Unit::Count),
        nanos("self CPU"),
        nanos("CPU"),
    ]);
    if has_gpu {
        columns.extend([nanos("self GPU"), nanos("GPU")]);
    }
    if has_cpu_bytes {
        columns.push(bytes("CPU memory"));
    }
    if has_gpu_bytes {
        columns.push(bytes("GPU memory"));
    }
    if has_flops {
        columns.push(Column::text("FLOP").align(report::Align::Right));
    }
    let mut table = Table::new("ops", columns)?;
    for row in rows {
        #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
        let flops = row.flops.map(|n| report::human::short_count(n as f64));
        let mut cells: Vec<report::Cell<'_>> = vec![row.name.as_str().into()];
        if by_shape {
            cells.push(row.dims.as_str().into());
        }
        cells.extend([
            report::Cell::from(row.calls),
            row.self_ns.into(),
            row.total_ns.into(),
        ]);
        if has_gpu {
            cells.extend([report::Cell::from(row.self_gpu_ns), row.total_gpu_ns.into()]);
        }
        if has_cpu_bytes {
            cells.push(row.total_cpu_bytes.into());
        }
        if has_gpu_bytes {
            cells.push(row.total_gpu_bytes.into());
        }
        if has_flops {
            cells.push(flops.as_deref().unwrap_or("").into());
        }
        table.push(&cells)?;
    }
    Ok(table)
}
