//! `trace-info kernels`.

use clap::{Args, ValueEnum};
use gpu_time::compat::tracelens::{self, Launcher};
use gpu_time::{ARG_KEYS, GpuWork, KernelOptions, KernelSort, Kernels, KernelsBy, kernels, tables};
use report::human;
use shell::Outcome;

use crate::args::ReportArgs;
use crate::document::{Destination, Document};
use crate::empty;
use crate::gpu::{RulesArgs, RulesName};

pub(crate) const HELP: &str = "\
Shares are of the sum of all durations (GPU time) and of the time in which
anything ran (busy time). Quantiles are interpolated; std is that of the sample.

Example:
  trace-info kernels t.json.gz --by class
  trace-info kernels t.json.gz --by module --top 10 --format md";

#[derive(Debug, Args)]
pub(crate) struct KernelsArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// What makes a group
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub(crate) by: ByName,
    /// The order, most first
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    pub(crate) sort: SortName,
    /// Groups shown of each trace [default: 20 in text, all otherwise]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// With --by module: keep the numbers of the instances
    #[arg(long)]
    pub(crate) numbered: bool,
    #[command(flatten)]
    pub(crate) rules: RulesArgs,
}

/// Groups, as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ByName {
    /// Name of the kernel
    #[default]
    Name,
    /// GEMM, attention, norm, collective, copy and so on
    Class,
    /// The operator that launched it
    Operator,
    /// The Python module that launched it
    Module,
    /// Device and stream
    Stream,
}

impl From<ByName> for KernelsBy {
    fn from(name: ByName) -> Self {
        match name {
            ByName::Name => Self::Name,
            ByName::Class => Self::Class,
            ByName::Operator => Self::Operator,
            ByName::Module => Self::Module,
            ByName::Stream => Self::Stream,
        }
    }
}

/// Orders, as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SortName {
    /// Sum of durations
    #[default]
    Sum,
    /// Number
    Count,
    /// Mean duration
    Mean,
    /// Longest duration
    Max,
    /// Name, ascending
    Name,
}

impl From<SortName> for KernelSort {
    fn from(name: SortName) -> Self {
        match name {
            SortName::Sum => Self::Sum,
            SortName::Count => Self::Count,
            SortName::Mean => Self::Mean,
            SortName::Max => Self::Max,
            SortName::Name => Self::Name,
        }
    }
}

struct Answer {
    trace: String,
    kernels: Kernels,
    launchers: Vec<Launcher>,
}

pub(crate) fn run(args: &KernelsArgs) -> anyhow::Result<Outcome> {
    args.rules.check()?;
    let report = &args.report;
    let to = Destination::open(report)?;
    let mut options = KernelOptions::default();
    options.by = args.by.into();
    options.sort = args.sort.into();
    options.numbered = args.numbered;
    let wants_launchers = args.rules.rules == RulesName::Tracelens && args.by == ByName::Operator;
    let each = empty::read_each(
        report,
        &report.traces()?,
        |options| trace_input::only_args(options, ARG_KEYS),
        |input| {
            let work = GpuWork::new(&input.trace);
            let events = args.rules.events(&work);
            let answer = Answer {
                trace: trace_input::short_name(&input.name).to_owned(),
                kernels: kernels(&work, &events, &options),
                launchers: match wants_launchers {
                    true => tracelens::launchers(&work, &tracelens::linked(&work)),
                    false => Vec::new(),
                },
            };
            Ok((answer, gpu_time::no_gpu_work(work.index())))
        },
    )?;
    let answers = &each.results;
    let mut document = Document::new(tables::SCHEMA_VERSION);
    let all = answers.iter().map(|a| (a.trace.as_str(), &a.kernels));
    document.tables = vec![tables::kernels(all, args.top.unwrap_or(usize::MAX))?];
    if wants_launchers {
        let all = answers
            .iter()
            .map(|a| (a.trace.as_str(), a.launchers.as_slice()));
        document.tables.push(tables::launchers(all)?);
    }
    for (answer, why) in each.with_reasons() {
        let k = &answer.kernels;
        document.heading(&answer.trace);
        if empty::instead_of_tables(&mut document, why) {
            continue;
        }
        document.line("events", human::count(k.events));
        let ns = |ns: i64| human::quantity(precise(ns), report::Unit::Nanos);
        document.line(
            "GPU time",
            format!("{}, busy {}", ns(k.total_dur_ns), ns(k.busy_ns)),
        );
        if let Some(unlinked) = k.unlinked.filter(|n| *n > 0) {
            let text = format!(
                "{} launched by no call in the trace",
                human::count(unlinked)
            );
            document.line("unlinked", text);
        }
        let top = args.top.unwrap_or(20);
        let shown = k.groups.len().min(top);
        document.line("groups", format!("{shown} of {} shown", k.groups.len()));
        document.table("", tables::kernels_narrow(k, top)?);
    }
    document.write(to)?;
    each.end(report)
}

/// A span as a number to scale for people.
#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
pub(crate) fn precise(ns: i64) -> f64 {
    ns as f64
}
