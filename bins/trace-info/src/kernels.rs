//! `trace-info kernels`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cli::Outcome;
use gpu_time::compat::tracelens::{self, Launcher};
use gpu_time::tables::{self, RowKey};
use gpu_time::{
    KernelOptions, KernelSort, Kernels, KernelsBy, Note, PassingKernels, Split, events_by_part,
    kernels,
};
use report::human;

use crate::args::ReportArgs;
use crate::document::{Destination, Document};
use crate::empty;
use crate::gpu::{RulesArgs, RulesName};
use crate::part::{self, PartArgs};

pub(crate) const HELP: &str = "\
Shares are of the sum of all durations (GPU time) and of the time in which
anything ran (busy time). Quantiles are interpolated; std is that of the sample.
A window, and a step with --step-by time, has the kernels that start in it.

Example:
  trace-info kernels t.json.gz --by class
  trace-info kernels t.json.gz --by name,shape --step 'step[DECODE*'
  trace-info kernels t.json.gz --by module --top 10 --format md";

#[derive(Debug, Args)]
pub(crate) struct KernelsArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// What makes a group, several separated by commas: name,shape
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        value_delimiter = ',',
        default_value = "name"
    )]
    pub(crate) by: Vec<ByName>,
    /// The order, most first
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    pub(crate) sort: SortName,
    /// Groups shown of each trace [default: 20 in text, all otherwise]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// With --by module: keep the numbers of the instances
    #[arg(long)]
    pub(crate) numbered: bool,
    /// Add shapes, dtype, TFLOP/s, GB/s, percent of the limit, grid, block, registers, occupancy
    #[arg(long, conflicts_with_all = ["by", "sort", "numbered"])]
    pub(crate) details: bool,
    /// With --details: the device, whatever the trace states (trace-info roofline --list-devices)
    #[arg(long, value_name = "KEY", requires = "details")]
    pub(crate) device: Option<String>,
    /// With --details: traces recorded while the graphs were captured that the traces replay
    #[arg(long, value_name = "FILE", requires = "details")]
    pub(crate) capture: Vec<PathBuf>,
    /// With --details: configuration of the model (config.json of Hugging Face)
    #[arg(long, value_name = "FILE", requires = "details")]
    pub(crate) model: Option<PathBuf>,
    /// With --model: ranks of tensor parallelism [default: by the heads of queries, else 1]
    #[arg(long, value_name = "N", requires = "model")]
    pub(crate) tp: Option<u32>,
    /// With --details: operators and devices of your own, as TOML (docs/guide/limit.md)
    #[arg(long, value_name = "FILE", requires = "details")]
    pub(crate) extensions: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) part: PartArgs,
    #[command(flatten)]
    pub(crate) rules: RulesArgs,
}

/// Grouping keys, as command-line values.
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
    /// Shapes of the inputs of the operator that launched it
    Shape,
    /// Step of the engine, as --per-step; next to another
    Step,
}

impl ByName {
    /// Returns the column of a key, if there are several keys.
    fn column(self) -> &'static str {
        match self {
            Self::Name => "by_name",
            Self::Class => "by_class",
            Self::Operator => "by_operator",
            Self::Module => "by_module",
            Self::Stream => "by_stream",
            Self::Shape => "by_shape",
            Self::Step => "step",
        }
    }
}

impl ByName {
    /// Returns the key within a step; `None` for the step itself.
    fn key(self) -> Option<KernelsBy> {
        Some(match self {
            Self::Name => KernelsBy::Name,
            Self::Class => KernelsBy::Class,
            Self::Operator => KernelsBy::Operator,
            Self::Module => KernelsBy::Module,
            Self::Stream => KernelsBy::Stream,
            Self::Shape => KernelsBy::Shape,
            Self::Step => return None,
        })
    }
}

/// Orders, as command-line values.
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
    parts: Vec<(RowKey, Kernels)>,
    notes: Vec<Note>,
    launchers: Vec<Launcher>,
}

pub(crate) fn run(args: &KernelsArgs) -> anyhow::Result<Outcome> {
    args.rules.check()?;
    if args.details {
        return crate::kernel_details::run(args);
    }
    let report = &args.report;
    let to = Destination::open(report)?;
    let mut options = KernelOptions::default();
    let mut wanted = args.part.clone();
    wanted.per_step |= args.by.contains(&ByName::Step);
    let mut by = args.by.iter().filter_map(|by| by.key());
    options.by = match by.next() {
        Some(first) => first,
        None => return Err(cli::usage("--by step needs another key: class,step")),
    };
    options.also = by.collect();
    options.sort = args.sort.into();
    options.numbered = args.numbered;
    let wants_launchers = args.rules.rules == RulesName::Tracelens && args.by == [ByName::Operator];
    let needs_launch = options.needs_launch();
    let is_lean = !needs_launch && wanted.is_whole() && args.rules.needs_launches_only();
    let fresh = || {
        let may_pass = is_lean && !args.rules.linked_only;
        may_pass.then(|| PassingKernels::new(args.rules.classes.vocabulary(), &options))?
    };
    let each = empty::read_each_passing(
        report,
        &report.traces()?,
        |options| {
            wanted.keep_args(options);
            if args.by.contains(&ByName::Shape)
                && let perfetto_reader::ArgPolicy::Only(keys) = &mut options.args
            {
                keys.push("Input Dims".to_owned());
            }
            if is_lean {
                options.host = perfetto_reader::HostSlices::Launching(Vec::new());
            }
            if !needs_launch && args.rules.needs_launches_only() {
                let outlining = crate::outlined::but_deciding(args.rules.classes.vocabulary());
                options.outline = wanted.outline(outlining);
            }
        },
        (fresh, PassingKernels::add, false),
        |input, passed| {
            if let Some(passed) = passed {
                let trace = input.label.clone();
                let of = part::of(&trace, &Split::default(), None);
                let answer = Answer {
                    parts: vec![(of, passed.finish())],
                    trace,
                    notes: part::notes(input),
                    launchers: Vec::new(),
                };
                return Ok((answer, None));
            }
            let work = args.rules.work(&input.trace);
            let kept = args.rules.events(&work);
            let events = &*kept;
            let trace = input.label.clone();
            let (how, notes) = wanted.resolve(input, &work)?;
            let parts = events_by_part(&work, events, &how).into_iter();
            let answer = Answer {
                parts: parts
                    .filter(|(step, _)| wanted.wants(*step))
                    .map(|(step, events)| {
                        (
                            part::of(&trace, &how, step),
                            kernels(&work, &events, &options),
                        )
                    })
                    .collect(),
                trace,
                notes,
                launchers: match wants_launchers {
                    true => tracelens::launchers(&work, &tracelens::linked(&work)),
                    false => Vec::new(),
                },
            };
            Ok((answer, part::no_gpu_work(&work, &how)))
        },
    )?;
    let answers = &each.results;
    let mut document = Document::new(tables::SCHEMA_VERSION);
    let all: Vec<(RowKey, &Kernels)> = answers
        .iter()
        .flat_map(|a| a.parts.iter().map(|(of, kernels)| (of.clone(), kernels)))
        .collect();
    let keys = args.by.iter().filter(|by| by.key().is_some());
    let by: Vec<&'static str> = keys.map(|by| by.column()).collect();
    let top = args.top.unwrap_or(usize::MAX);
    document.tables = vec![tables::kernels(&all, &by, top)?];
    if wants_launchers {
        let all = answers
            .iter()
            .map(|a| (a.trace.as_str(), a.launchers.as_slice()));
        document.tables.push(tables::launchers(all)?);
    }
    for (answer, why) in each.with_reasons() {
        document.heading(&answer.trace);
        if empty::instead_of_tables(&mut document, why) {
            continue;
        }
        document.notes(&answer.notes);
        for (of, k) in &answer.parts {
            let top = args.top.unwrap_or(if wanted.by_step() { 5 } else { 20 });
            let shown = k.groups.len().min(top);
            let ns = |ns: i64| human::quantity(precise(ns), report::Unit::Nanos);
            let mut title = String::new();
            if wanted.by_step() {
                title = format!(
                    "{}: {} events, GPU time {}, busy {}, {shown} of {} groups",
                    of.step_label(),
                    human::count(k.events),
                    ns(k.total_dur_ns),
                    ns(k.busy_ns),
                    k.groups.len()
                );
            } else {
                document.line("events", human::count(k.events));
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
                document.line("groups", format!("{shown} of {} shown", k.groups.len()));
            }
            document.table(&title, tables::kernels_narrow(k, &by, top)?);
        }
    }
    document.write(to)?;
    each.end(report)
}

/// Returns a duration as a real number, to be scaled for text output.
#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
pub(crate) fn precise(ns: i64) -> f64 {
    ns as f64
}
