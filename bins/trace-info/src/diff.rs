//! `trace-info diff`.

use clap::{Args, ValueEnum};
use gpu_time::GpuWork;
use gpu_time::diff::{ARG_KEYS, Diff, diff, hta, tracelens};
use gpu_time::tables::{SCHEMA_VERSION, diff as tables};
use report::{Table, human};
use shell::{Outcome, Stage};
use trace_input::NamedTrace;

use crate::args::{ReportArgs, ReportFormat};
use crate::document::{Destination, Document};
use crate::empty::EmptyTraces;

pub(crate) const HELP: &str = "\
A is the first trace, B the second; differences are B - A. Kernels are compared
where both traces have the same operators and functions around the launch,
whatever they are called; each side adds up to the total of `trace-info
kernels`.

Example:
  trace-info diff h100.json.gz mi300.json.gz
  trace-info diff before.json.gz after.json.gz --table operators --format csv";

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Only this table; CSV and Parquet have the kernels unless given
    #[arg(long, value_enum, value_name = "TABLE")]
    pub(crate) table: Option<TableName>,
    /// How traces are compared
    #[arg(long, value_enum, value_name = "RULES", default_value_t)]
    pub(crate) rules: RulesName,
    /// Rows of each list [default: 15 in text, all in other formats]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
}

/// The tables, as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    /// Pairs of kernels at one place of the program
    Kernels,
    /// Operators with the device work that they launched themselves
    Operators,
    /// Both sides, and by what evidence they are matched
    Totals,
}

/// Rules, as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RulesName {
    /// By structure, then by name, then by class
    #[default]
    Structure,
    /// As HolisticTraceAnalysis: counts and durations by name
    Hta,
    /// As TraceLens: rows of its diff_stats_df
    Tracelens,
}

pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Outcome> {
    let report = &args.report;
    let [first, second] = report.files.as_slice() else {
        return Err(shell::usage("diff needs exactly two traces"));
    };
    shell::spare(&report.files, &report.output.output)?;
    let to = Destination::open(report)?;
    let read = |path| {
        trace_input::read(path, &report.input, report.verbosity, |options| {
            trace_input::only_args(options, &ARG_KEYS);
        })
    };
    let traces = [read(first)?, read(second)?];
    let people = matches!(
        report.format.format(),
        ReportFormat::Text | ReportFormat::Md
    );
    let top = args.top.unwrap_or(if people { 15 } else { usize::MAX });
    let _stage = Stage::start("compare", report.verbosity);
    let document = match args.rules {
        RulesName::Structure => structure(args, &traces, people, top)?,
        RulesName::Hta => {
            let rows = hta::compare(&traces[0].trace, &traces[1].trace);
            compat(|| tables::hta(&rows, top))?
        }
        RulesName::Tracelens => {
            let rows = tracelens::diff_stats(
                &GpuWork::new(&traces[0].trace),
                &GpuWork::new(&traces[1].trace),
            );
            compat(|| tables::tracelens(&rows, top))?
        }
    };
    document.write(to)?;
    let mut empty = EmptyTraces::default();
    for input in &traces {
        let why = gpu_time::no_gpu_work(GpuWork::new(&input.trace).index());
        empty.add(&input.name, why);
    }
    Ok(empty.end(report.empty, report.verbosity))
}

fn compat(table: impl Fn() -> report::Result<Table>) -> anyhow::Result<Document> {
    let mut document = Document::new(SCHEMA_VERSION);
    document.table("", table()?);
    document.tables.push(table()?);
    Ok(document)
}

fn structure(
    args: &DiffArgs,
    traces: &[NamedTrace; 2],
    people: bool,
    top: usize,
) -> anyhow::Result<Document> {
    let found = diff(
        &GpuWork::new(&traces[0].trace),
        &GpuWork::new(&traces[1].trace),
    );
    let names = [traces[0].name.as_str(), traces[1].name.as_str()];
    let mut document = Document::new(SCHEMA_VERSION);
    let wanted = |name: TableName| args.table.is_none_or(|t| t == name);
    if !people {
        for name in [TableName::Kernels, TableName::Operators, TableName::Totals] {
            if wanted(name) {
                document.tables.push(match name {
                    TableName::Kernels => tables::kernels(&found, top)?,
                    TableName::Operators => tables::operators(&found, top)?,
                    TableName::Totals => tables::totals(&found, names)?,
                });
            }
        }
        return Ok(document);
    }
    lines(&found, names, &mut document);
    if wanted(TableName::Totals) {
        let title = "device work, and by what it is matched";
        document.table(title, tables::totals_narrow(&found)?);
    }
    if wanted(TableName::Operators) {
        let title = "operators, largest difference first";
        document.table(title, tables::operators_narrow(&found, top)?);
    }
    if wanted(TableName::Kernels) {
        let title = "kernels, largest difference first";
        document.table(title, tables::kernels_narrow(&found, top)?);
    }
    Ok(document)
}

#[expect(clippy::cast_precision_loss, reason = "four digits are shown of spans")]
fn lines(found: &Diff, names: [&str; 2], document: &mut Document) {
    for (name, label) in names.into_iter().zip(["A", "B"]) {
        document.line(label, name);
    }
    let ns = |ns: i64| human::duration(ns as f64);
    let [a, b] = found.totals;
    document.line(
        "B - A",
        format!(
            "{} of device work: {} and {}",
            ns(b.ns.saturating_sub(a.ns)),
            ns(a.ns),
            ns(b.ns)
        ),
    );
    let only = |status: &str, side: usize| {
        let rows = || found.kernels.iter().filter(|k| k.status() == status);
        let count: u64 = rows().map(|k| k.count[side]).sum();
        let sum: i64 = rows().map(|k| k.ns[side]).sum();
        format!("{} ({})", human::count(count), ns(sum))
    };
    document.line(
        "unpaired",
        format!(
            "{} kernels only in A, {} only in B",
            only("gone", 0),
            only("new", 1)
        ),
    );
}
