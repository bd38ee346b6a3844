//! `trace-info roofline`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use cli::{OrExit as _, Outcome};
use critical_path::Part;
use gpu_time::{GpuWork, Note, Split, StepRule};
use perfetto_reader::ArgPolicy;
use report::{Column, SchemaVersion, Table};
use roofline::config::{Config, Forward, Request};
use roofline::{
    Analysis, By, Call, CallOptions, Error, Knowledge, Options, PeakKey, Sort, analyse, document,
    model_document, tables, text,
};
use trace_input::{ClassesArgs, NamedTrace};

use crate::args::{ReportArgs, ReportFormat};
use crate::document::{Destination, Document};
use crate::empty;
use crate::part::{self, PartArgs};
use crate::{roofline_figure, roofline_known};

const VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 0 };

pub(crate) const HELP: &str = "\
Each call of an operator has the arithmetic and the bytes that it needs at least,
and the time that takes at the peaks of the device: its limit. Numbers come from
recorded shapes (record_shapes=True); where these do not tell all, the row says
on what its numbers rest (basis) and between which ends the bytes are. Calls
without numbers are listed with the reason.

Peaks: fp64 fp32 tf32 fp16 bf16 fp8 fp4 int8 vector in TFLOP/s, hbm link pcie in
GB/s one way, launch in us. docs/guide/limit.md has the columns, and the rows of
--extensions for operators and devices of your own.

Example:
  trace-info roofline t.json.gz
  trace-info roofline t.json.gz --capture graph.json.gz --model config.json
  trace-info roofline t.json.gz --by step --format csv --output steps.csv
  trace-info roofline --model config.json --tp 8 --gen 2000*128 --device h200";

#[derive(Debug, Args)]
#[command(mut_arg("files", |arg| arg.required(false)))]
pub(crate) struct RooflineArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Key of the rows [default: call, step with --per-step]
    #[arg(long, value_enum, value_name = "WHAT")]
    by: Option<ByName>,
    /// The order, most first; pct has the farthest from the limit first
    #[arg(long, value_enum, value_name = "ORDER")]
    pub(crate) sort: Option<SortName>,
    /// Rows shown of each trace [default: 20 in text, all otherwise]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Traces recorded while the graphs were captured that the traces replay
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Vec<PathBuf>,
    /// Configuration of the model (config.json of Hugging Face)
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Ranks of tensor parallelism [default: by the heads of queries, else 1]
    #[arg(long, value_name = "N", requires = "model")]
    pub(crate) tp: Option<u32>,
    /// Without traces: requests with Q new tokens of K keys, as Q:K or Q:K*N
    #[arg(long, value_name = "Q:K[*N],...", requires = "model", value_delimiter = ',', value_parser = context)]
    pub(crate) ctx: Vec<Request>,
    /// Without traces: requests with one new token of K keys, as K or K*N
    #[arg(long, value_name = "K[*N],...", requires = "model", value_delimiter = ',', value_parser = generation)]
    pub(crate) r#gen: Vec<Request>,
    /// Without traces: bytes of a value in the KV cache
    #[arg(long, value_name = "N", requires = "model", default_value_t = 2)]
    pub(crate) cache_bytes: u32,
    /// The device, whatever the trace states (--list-devices)
    #[arg(long, value_name = "KEY")]
    pub(crate) device: Option<String>,
    /// A peak in place of the device's; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = peak)]
    pub(crate) peak: Vec<(PeakKey, f64)>,
    /// The fraction of a peak that good kernels reach, for a second limit; may be repeated
    #[arg(long, value_name = "KEY=FRACTION", value_parser = fraction)]
    pub(crate) achievable: Vec<(PeakKey, f64)>,
    /// Operators and devices of your own, as TOML (docs/guide/limit.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) extensions: Option<PathBuf>,
    /// Write the roofline as a figure, SVG or HTML by the name
    #[arg(long, value_name = "FILE")]
    pub(crate) figure: Option<PathBuf>,
    /// List the devices with their peaks and sources, and end
    #[arg(long)]
    pub(crate) list_devices: bool,
    #[command(flatten)]
    pub(crate) part: PartArgs,
    #[command(flatten)]
    pub(crate) classes: ClassesArgs,
}

/// Rows, as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ByName {
    /// Operator, shapes, types and numbers; also op-shape
    #[default]
    #[value(alias = "op-shape")]
    Call,
    /// Operator
    Op,
    /// Name of the kernel
    Kernel,
    /// GEMM, attention, norm, collective, copy and so on
    Class,
    /// The Python module around the launch
    Module,
    /// The layer of the model around the launch
    Layer,
    /// Step of the engine, with its ladder of limits
    Step,
    /// Prefill, decode, mixed, idle
    Phase,
}

impl RooflineArgs {
    /// Key of the rows.
    pub(crate) fn by(&self) -> ByName {
        self.by.unwrap_or(match self.part.per_step {
            true => ByName::Step,
            false => ByName::Call,
        })
    }
}

impl ByName {
    fn by(self) -> By {
        match self {
            Self::Call | Self::Step => By::Call,
            Self::Op => By::Op,
            Self::Kernel => By::Kernel,
            Self::Class => By::Class,
            Self::Module => By::Module,
            Self::Layer => By::Layer,
            Self::Phase => By::Phase,
        }
    }

    /// Name of the rows, and of the column of their names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Call => "calls",
            Self::Op => "op",
            Self::Kernel => "kernel",
            Self::Class => "class",
            Self::Module => "module",
            Self::Layer => "layer",
            Self::Step => "steps",
            Self::Phase => "phase",
        }
    }
}

/// Orders, as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SortName {
    /// Time
    #[default]
    Time,
    /// Time beyond the limit
    Gain,
    /// Percent of the limit
    Pct,
    /// FLOPs
    Flops,
    /// Bytes
    Bytes,
}

impl From<SortName> for Sort {
    fn from(name: SortName) -> Self {
        match name {
            SortName::Time => Self::Time,
            SortName::Gain => Self::Gain,
            SortName::Pct => Self::Pct,
            SortName::Flops => Self::Flops,
            SortName::Bytes => Self::Bytes,
        }
    }
}

fn key_value(text: &str) -> Result<(PeakKey, f64), String> {
    let expected = || {
        let keys: Vec<&str> = PeakKey::all().map(PeakKey::name).collect();
        format!("expected KEY=NUMBER with one of {}", keys.join(" "))
    };
    let (key, value) = text.split_once('=').ok_or_else(expected)?;
    let key = PeakKey::of_name(key.trim()).ok_or_else(expected)?;
    let value: f64 = value.trim().parse().map_err(|_| expected())?;
    Ok((key, value))
}

fn peak(text: &str) -> Result<(PeakKey, f64), String> {
    let (key, value) = key_value(text)?;
    // The least time of a kernel may be none; a peak of 0 is no limit.
    let is_right = value > 0.0 || (value == 0.0 && key == PeakKey::Launch);
    match value.is_finite() && is_right {
        true => Ok((key, value)),
        false => Err("expected a number above 0".to_owned()),
    }
}

fn fraction(text: &str) -> Result<(PeakKey, f64), String> {
    let (key, value) = key_value(text)?;
    match value > 0.0 && value <= 1.0 {
        true => Ok((key, value)),
        false => Err("expected a fraction above 0 and up to 1".to_owned()),
    }
}

/// The largest number of tokens or requests, so that products of several stay exact.
const MOST: u128 = 1 << 40;

fn number(text: &str) -> Result<u128, String> {
    let found = text.trim().parse().ok().filter(|n| *n <= MOST);
    found.ok_or_else(|| format!("expected a number up to {MOST}, not {text:?}"))
}

fn with_count(text: &str) -> Result<(&str, u128), String> {
    match text.split_once('*') {
        Some((lengths, count)) => Ok((lengths, number(count)?)),
        None => Ok((text, 1)),
    }
}

fn context(text: &str) -> Result<Request, String> {
    let (lengths, count) = with_count(text)?;
    let (new, keys) = lengths
        .split_once(':')
        .ok_or("expected Q:K or Q:K*N, new tokens and keys with these")?;
    let (new, keys) = (number(new)?, number(keys)?);
    match new <= keys {
        true => Ok(Request { new, keys, count }),
        false => Err("a request has at least as many keys as new tokens: its own".to_owned()),
    }
}

fn generation(text: &str) -> Result<Request, String> {
    let (keys, count) = with_count(text)?;
    match number(keys)? {
        0 => Err("a request has at least one key: its own".to_owned()),
        keys => Ok(Request {
            new: 1,
            keys,
            count,
        }),
    }
}

/// Reads a file that the user names; what is wrong with it is wrong usage.
fn text_of(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path)
        .map_err(|error| anyhow::Error::new(error).context(path.display().to_string()))
        .or_exit(Outcome::Unreadable)
}

/// Knowledge besides the traces.
pub(crate) struct Known {
    knowledge: Knowledge,
    config: Option<Config>,
}

impl Known {
    /// Reads a user's own rows and the configuration of the model.
    pub(crate) fn new(extensions: Option<&Path>, model: Option<&Path>) -> anyhow::Result<Self> {
        let mut knowledge = Knowledge::default();
        if let Some(path) = extensions {
            let added = knowledge.extend(&text_of(path)?);
            added.map_err(|error| cli::usage(format!("{}: {error}", path.display())))?;
        }
        let config = match model {
            None => None,
            Some(path) => {
                let parsed = Config::parse(&text_of(path)?);
                Some(parsed.map_err(|error| cli::usage(format!("{}: {error}", path.display())))?)
            }
        };
        Ok(Self { knowledge, config })
    }

    /// Options of an analysis with this knowledge.
    pub(crate) fn options(&self, tp: Option<u32>, device: Option<&String>) -> Options<'_> {
        let mut calls = CallOptions::new(&self.knowledge);
        calls.config = self.config.as_ref();
        calls.tp = tp.map(u128::from);
        let mut options = Options::new(calls);
        options.devices.key = device.cloned();
        options.is_layer = rca_cycles::engine::is_layer;
        options
    }
}

/// Makes wrong usage of a failed analysis.
pub(crate) fn usage(error: Error) -> anyhow::Error {
    match error {
        Error::Device(error) => cli::usage(error.to_string()),
        error => cli::usage(format!("--model: {error}")),
    }
}

/// One trace, analysed.
struct Answered {
    label: String,
    analysis: Analysis,
    notes: Vec<Note>,
}

pub(crate) fn run(args: &RooflineArgs) -> anyhow::Result<Outcome> {
    let known = Known::new(args.extensions.as_deref(), args.model.as_deref())?;
    let report = &args.report;
    if args.list_devices {
        return list_devices(args, &known);
    }
    let asks = !args.ctx.is_empty() || !args.r#gen.is_empty();
    if report.files.is_empty() {
        return match (&known.config, asks) {
            (Some(config), true) => forward(args, config, &known),
            _ => Err(cli::usage(
                "no trace: give files, or --model with --ctx or --gen, or --list-devices",
            )),
        };
    }
    if asks {
        return Err(cli::usage(
            "--ctx and --gen are for a step that is not recorded: leave the traces out",
        ));
    }
    let to = Destination::open(report)?;
    let figure = roofline_figure::open(args)?;
    let captures = captures(&args.capture, report, |options| keep_args(args, options))?;
    let mut options = known.options(args.tp, args.device.as_ref());
    options.devices.peaks.clone_from(&args.peak);
    options.devices.achievable.clone_from(&args.achievable);
    if args.part.per_step && args.by() != ByName::Step {
        return Err(cli::usage(
            "--per-step lists steps: leave --by out, or choose steps with --step",
        ));
    }
    options.by = args.by().by();
    options.sort = args.sort.unwrap_or_default().into();
    let mut each = empty::read_each(
        report,
        &report.traces()?,
        |options| keep_args(args, options),
        |input| {
            let work = GpuWork::with_vocabulary(&input.trace, args.classes.vocabulary());
            let (how, notes) = args.part.resolve(input, &work)?;
            let captured: Vec<GpuWork<'_>> =
                captures.iter().map(|c| GpuWork::new(&c.trace)).collect();
            let captured: Vec<&GpuWork<'_>> = captured.iter().collect();
            // Before the analysis, so that what they need and its calls are not in memory together.
            let times = match needs_step_times(report.format.format()) {
                true => step_times(&work),
                false => Vec::new(),
            };
            let found = analyse(&work, &captured, &options, |call| wants(&how, call));
            let mut analysis = found.map_err(usage)?;
            add_step_times(&mut analysis, &times);
            let why = part::no_gpu_work(&work, &how);
            let label = input.label.clone();
            Ok((
                Answered {
                    label,
                    analysis,
                    notes,
                },
                why,
            ))
        },
    )?;
    let is_text = matches!(
        report.format.format(),
        ReportFormat::Text | ReportFormat::Md
    );
    if let Some(empty) = each.reasons_only(VERSION).filter(|_| is_text) {
        empty.write(to)?;
        return each.end(report);
    }
    let answered = std::mem::take(&mut each.results);
    let all: Vec<(&str, &Analysis)> = answered
        .iter()
        .map(|answered| (answered.label.as_str(), &answered.analysis))
        .collect();
    if let Some(figure) = figure {
        roofline_figure::write(figure, &all)?;
    }
    let top = args.top.unwrap_or(usize::MAX);
    match (to, report.format.format()) {
        (Destination::Stream(mut out, _), ReportFormat::Json) => {
            let json = document(&all, args.by().name(), top)?;
            serde_json::to_writer(&mut out, &json)?;
            out.write_all(b"\n")?;
            out.finish()?;
            if cli::in_process::is_active() {
                let sentences = all.iter().map(|(_, analysis)| text::answer(analysis));
                let main = main_table(args, &all, top)?;
                cli::in_process::give(VERSION, vec![main], sentences.collect());
            }
        }
        (to, format) => {
            let mut document = Document::new(VERSION);
            document.tables.push(main_table(args, &all, top)?);
            if is_text {
                for answered in &answered {
                    let shown = (answered.label.as_str(), &answered.analysis);
                    add_text(&mut document, args, shown, &answered.notes)?;
                }
            } else {
                debug_assert!(format != ReportFormat::Json);
                for (label, analysis) in &all {
                    let answer = text::answer(analysis);
                    report.verbosity.note(format!("{label}: {answer}"));
                }
            }
            document.write(to)?;
        }
    }
    let is_empty = all.iter().all(|(_, analysis)| analysis.coverage.is_empty());
    let outcome = each.end(report)?;
    if is_empty && is_text && outcome == Outcome::Fine {
        return Err(cli::cannot_answer(
            "no GPU activity has numbers: the line \"more\" says what would give it some",
        ));
    }
    Ok(outcome)
}

fn main_table(args: &RooflineArgs, all: &[(&str, &Analysis)], top: usize) -> anyhow::Result<Table> {
    Ok(match args.by() {
        ByName::Call => tables::calls(all, top)?,
        ByName::Step => tables::steps(all)?,
        by => tables::merged(all, by.name(), top)?,
    })
}

/// Adds the result for one trace as text.
fn add_text(
    document: &mut Document,
    args: &RooflineArgs,
    (label, analysis): (&str, &Analysis),
    notes: &[Note],
) -> anyhow::Result<()> {
    let shown = text::Shown {
        by: (args.by() != ByName::Step).then(|| args.by().by()),
        name: args.by().name(),
        is_sorted: args.sort.is_some(),
        top: args.top,
        achievable: &args.achievable,
    };
    let text = text::text(analysis, &shown)?;
    document.heading(label);
    for sentence in text.sentences {
        document.sentence(sentence);
    }
    for (label, line) in text.lines {
        document.line(label, line);
    }
    document.notes(notes);
    document.table(&text.title, text.table);
    for (label, line) in text.remarks {
        document.line(label, line);
    }
    Ok(())
}

fn keep_args(args: &RooflineArgs, options: &mut perfetto_reader::ReadOptions) {
    args.part.keep_args(options);
    if let ArgPolicy::Only(keys) = &mut options.args {
        keys.extend(roofline::ARG_KEYS.iter().map(|key| (*key).to_owned()));
        if needs_step_times(args.report.format.format()) {
            let more = critical_path::ARG_KEYS.iter();
            keys.extend(more.map(|key| (*key).to_owned()));
        }
    }
}

/// Reads the recordings of captures.
pub(crate) fn captures(
    paths: &[PathBuf],
    report: &ReportArgs,
    keep: impl Fn(&mut perfetto_reader::ReadOptions),
) -> anyhow::Result<Vec<NamedTrace>> {
    let verbosity = report.verbosity;
    let paths = match paths.is_empty() {
        true => Vec::new(),
        false => trace_input::expand(paths, verbosity)?,
    };
    let read = |path: &PathBuf| trace_input::read(path, &report.input, verbosity, &keep);
    paths.iter().map(read).collect()
}

/// Ladders are in text and JSON; their last line is the time of the step as `critical-path` has it.
fn needs_step_times(format: ReportFormat) -> bool {
    !matches!(format, ReportFormat::Csv | ReportFormat::Parquet)
}

/// Returns the steps with their times: from the end of the step before to the end of its last work on the main stream.
fn step_times(work: &GpuWork<'_>) -> Vec<critical_path::Step> {
    let marks = critical_path::marks(work.index(), None);
    match marks.is_empty() {
        true => Vec::new(),
        false => Part::steps_of(work.index(), &marks),
    }
}

fn add_step_times(analysis: &mut Analysis, times: &[critical_path::Step]) {
    for row in &mut analysis.steps {
        let same =
            |step: &&critical_path::Step| step.name == row.name && step.host_ns.0 == row.host_ns.0;
        let found = times.iter().find(same);
        row.step_ns = found
            .map(critical_path::Step::duration_ns)
            .filter(|ns| *ns > 0);
    }
}

/// Is the call in the part of the trace that is asked for? A window has the calls that begin in it.
pub(crate) fn wants(how: &Split, call: &Call<'_, '_>) -> bool {
    let is_in = |range: trace_model::TimeRange, ns: i64| {
        range.start.nanos() <= ns && ns < range.end.nanos()
    };
    if how
        .window
        .is_some_and(|window| !is_in(window, call.start_ns()))
    {
        return false;
    }
    let Some(steps) = &how.steps else {
        return true;
    };
    let at = match how.step_rule {
        StepRule::Time => Some(call.start_ns()),
        _ => call.launch_ns(),
    };
    at.is_some_and(|at| {
        let last = steps.partition_point(|step| step.range.start.nanos() <= at);
        let last = last.checked_sub(1).and_then(|last| steps.get(last));
        last.is_some_and(|step| is_in(step.range, at))
    })
}

/// Needs of a step that is not recorded.
fn forward(args: &RooflineArgs, config: &Config, known: &Known) -> anyhow::Result<Outcome> {
    let tp = u128::from(args.tp.unwrap_or(1));
    config
        .check_ranks(tp)
        .map_err(|error| cli::usage(format!("--tp: {error}")))?;
    let requests: Vec<Request> = args.ctx.iter().chain(&args.r#gen).copied().collect();
    let needs = config.forward(tp, &requests, u128::from(args.cache_bytes));
    let to = Destination::open(&args.report)?;
    if let (Destination::Stream(_, ReportFormat::Json), ReportFormat::Json) =
        (&to, args.report.format.format())
    {
        let Destination::Stream(mut out, _) = to else {
            return Ok(Outcome::Fine);
        };
        serde_json::to_writer(&mut out, &model_document(&needs))?;
        out.write_all(b"\n")?;
        out.finish()?;
        return Ok(Outcome::Fine);
    }
    let mut document = Document::new(VERSION);
    document.tables.push(forward_table(&needs)?);
    roofline_known::forward(&mut document, args, (config, &needs), &known.knowledge)?;
    document.write(to)?;
    Ok(Outcome::Fine)
}

fn forward_table(needs: &Forward) -> anyhow::Result<Table> {
    let columns = vec![Column::text("quantity"), Column::text("value")];
    let mut table = Table::new("model", columns)?;
    for (name, value) in text::quantities(needs) {
        let value = value.to_string();
        table.push(&[name.into(), value.as_str().into()])?;
    }
    Ok(table)
}

fn list_devices(args: &RooflineArgs, known: &Known) -> anyhow::Result<Outcome> {
    let to = Destination::open(&args.report)?;
    let mut columns = vec![Column::text("key"), Column::text("name")];
    let keys: Vec<PeakKey> = PeakKey::all()
        .filter(|key| *key != PeakKey::Launch)
        .collect();
    columns.extend(keys.iter().map(|key| Column::real(key.name())));
    columns.extend([
        Column::uint("sms"),
        Column::real("mem_gb"),
        Column::text("source"),
        Column::text("unsourced"),
        Column::text("note"),
    ]);
    let mut table = Table::new("devices", columns)?;
    for device in known.knowledge.devices.iter() {
        let unsourced: Vec<&str> = keys
            .iter()
            .filter(|key| device.peak(**key).is_some() && !device.is_sourced(**key))
            .map(|key| key.name())
            .collect();
        let unsourced = unsourced.join(" ");
        let mut cells = vec![device.key().into(), device.name().into()];
        cells.extend(keys.iter().map(|key| report::Cell::from(device.peak(*key))));
        cells.extend([
            report::Cell::from(device.sms()),
            device.memory_gb().into(),
            device.source().into(),
            unsourced.as_str().into(),
            device.note().into(),
        ]);
        table.push(&cells)?;
    }
    let mut document = Document::new(VERSION);
    roofline_known::devices(&mut document, &known.knowledge)?;
    document.tables.push(table);
    document.write(to)?;
    Ok(Outcome::Fine)
}
