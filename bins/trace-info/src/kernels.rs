//! `trace-info kernels`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cli::Outcome;
use gpu_time::{KernelSort, KernelsBy, PassingKernels};
use perfetto_reader::HostSlices;
use trace_model::Trace;
use trace_report::kernels::{Answer, Question, document};
use trace_report::roofline::Details;

use crate::args::ReportArgs;
use crate::document::{Destination, explain};
use crate::empty;
use crate::part::{PartArgs, outlining};
use crate::roofline::{captures, known};
use crate::rules::{RulesArgs, RulesName};

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

impl KernelsArgs {
    fn question(&self) -> anyhow::Result<Question> {
        let mut question = Question::default();
        question.part = self.part.choice();
        question.part.per_step |= self.by.contains(&ByName::Step);
        question.rules = self.rules.choice();
        question.by = self.by.iter().filter_map(|by| by.key()).collect();
        if question.by.is_empty() {
            return Err(cli::usage("--by step needs another key: class,step"));
        }
        question.sort = self.sort.into();
        question.numbered = self.numbered;
        question.launchers =
            self.rules.rules == RulesName::Tracelens && self.by == [ByName::Operator];
        question.top = self.top;
        Ok(question)
    }
}

pub(crate) fn run(args: &KernelsArgs) -> anyhow::Result<Outcome> {
    args.rules.check()?;
    if args.details {
        return details(args);
    }
    let report = &args.report;
    let to = Destination::open(report)?;
    let question = args.question()?;
    let (answered, end) = empty::read_each_passing(
        report,
        &report.traces()?,
        &question.arg_keys(),
        |options| {
            if question.needs_launches_only() {
                options.host = HostSlices::Launching(Vec::new());
            }
            if let Some(outlined) = question.outlined() {
                options.outline = outlining(&question.part, outlined);
            }
        },
        (|| question.passing(), PassingKernels::add, None),
        |input, passed| match passed {
            Some(passed) => Ok(Answer::passed(&input.label, &input.trace, passed)),
            None => Answer::new(&question, &input.label, &input.trace),
        },
    )?;
    to.write(document(&question, &answered).map_err(explain)?)?;
    end.outcome(report)
}

/// Answers `--details`.
fn details(args: &KernelsArgs) -> anyhow::Result<Outcome> {
    let report = &args.report;
    let to = Destination::open(report)?;
    let known = known(args.extensions.as_deref(), args.model.as_deref())?;
    let (part, rules) = (args.part.choice(), args.rules.choice());
    let keys = Details::arg_keys(&part);
    let captures = captures(&args.capture, report, &keys)?;
    let captures: Vec<&Trace> = captures.iter().map(|capture| &capture.trace).collect();
    let (answered, end) = empty::read_each(
        report,
        &report.traces()?,
        &keys,
        |_| {},
        |input| {
            let known = (&known, args.tp, args.device.as_deref());
            let trace = (input.label.as_str(), &input.trace);
            Details::new((&part, &rules), known, &captures, trace)
        },
    )?;
    let document = Details::document(&answered, args.top, report.form()).map_err(explain)?;
    if !report.form().is_text() {
        for one in &answered {
            let text = format!("{}: {}", one.label, one.answer.sentence());
            report.verbosity.note(text);
        }
    }
    to.write(document)?;
    end.outcome(report)
}
