//! `trace-info roofline`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use byte_source::output::AtomicFile;
use clap::{Args, ValueEnum};
use cli::{OrExit as _, Outcome};
use perfetto_reader::ArgPolicy;
use roofline::config::{Config, Request};
use roofline::{Knowledge, PeakKey, Sort};
use trace_input::{ClassesArgs, NamedTrace};
use trace_model::Trace;
use trace_report::roofline::{
    self as limits, Answer, Forward, Known, Question, RowsBy, VERSION, document,
};
use trace_report::{Answered, reasons_only};

use crate::args::{ReportArgs, ReportFormat};
use crate::document::{Destination, explain};
use crate::empty;
use crate::part::PartArgs;

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
    fn question(&self) -> Question {
        let mut question = Question::default();
        question.part = self.part.choice();
        question.vocabulary = self.classes.vocabulary();
        question.by = match self.by {
            Some(by) => by.into(),
            None if self.part.per_step => RowsBy::Step,
            None => RowsBy::Call,
        };
        question.sort = self.sort.map(Sort::from);
        question.top = self.top;
        question.tp = self.tp;
        question.device.clone_from(&self.device);
        question.peaks.clone_from(&self.peak);
        question.achievable.clone_from(&self.achievable);
        question.form = self.report.form();
        question
    }
}

impl From<ByName> for RowsBy {
    fn from(name: ByName) -> Self {
        match name {
            ByName::Call => Self::Call,
            ByName::Op => Self::Op,
            ByName::Kernel => Self::Kernel,
            ByName::Class => Self::Class,
            ByName::Module => Self::Module,
            ByName::Layer => Self::Layer,
            ByName::Step => Self::Step,
            ByName::Phase => Self::Phase,
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

/// Reads a user's own rows and the configuration of the model.
pub(crate) fn known(extensions: Option<&Path>, model: Option<&Path>) -> anyhow::Result<Known> {
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
    Ok(Known::new(knowledge, config))
}

/// Reads the recordings of captures, with the arguments of these keys.
pub(crate) fn captures(
    paths: &[PathBuf],
    report: &ReportArgs,
    keys: &[String],
) -> anyhow::Result<Vec<NamedTrace>> {
    let verbosity = report.verbosity;
    let paths = match paths.is_empty() {
        true => Vec::new(),
        false => trace_input::expand(paths, verbosity)?,
    };
    let read = |path: &PathBuf| {
        trace_input::read(path, &report.input, verbosity, |options| {
            options.args = ArgPolicy::Only(keys.to_vec());
        })
    };
    paths.iter().map(read).collect()
}

/// A file for the figure, and whether it is a page.
struct FigureFile {
    file: AtomicFile,
    is_page: bool,
}

impl FigureFile {
    fn open(args: &RooflineArgs) -> anyhow::Result<Option<Self>> {
        let Some(path) = &args.figure else {
            return Ok(None);
        };
        let extension = path.extension().and_then(|end| end.to_str());
        let is_page = match extension {
            Some("svg") => false,
            Some("html") => true,
            _ => {
                return Err(cli::usage(
                    "--figure: the name of the file ends with .svg or .html",
                ));
            }
        };
        cli::refuse_overwrite(&args.report.traces()?, &args.figure)?;
        let file = AtomicFile::create(path)?;
        Ok(Some(Self { file, is_page }))
    }

    fn write(mut self, answered: &[Answered<Answer>]) -> anyhow::Result<()> {
        if self.is_page {
            let page = limits::page(answered).map_err(explain)?;
            self.file.write_all(page.as_bytes())?;
        } else if let Some(svg) = limits::svg(answered) {
            self.file.write_all(svg.as_str().as_bytes())?;
        }
        self.file.commit()?;
        Ok(())
    }
}

pub(crate) fn run(args: &RooflineArgs) -> anyhow::Result<Outcome> {
    let known = known(args.extensions.as_deref(), args.model.as_deref())?;
    let report = &args.report;
    if args.list_devices {
        let to = Destination::open(report)?;
        to.write(limits::devices(&known.knowledge).map_err(explain)?)?;
        return Ok(Outcome::Fine);
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
    let figure = FigureFile::open(args)?;
    let question = args.question();
    let keys = question.arg_keys();
    let captures = captures(&args.capture, report, &keys)?;
    let captures: Vec<&Trace> = captures.iter().map(|capture| &capture.trace).collect();
    if args.part.per_step && question.by != RowsBy::Step {
        return Err(cli::usage(
            "--per-step lists steps: leave --by out, or choose steps with --step",
        ));
    }
    let (answered, end) = empty::read_each(
        report,
        &report.traces()?,
        &keys,
        |_| {},
        |input| {
            let trace = (input.label.as_str(), &input.trace);
            Answer::new(&question, &known, &captures, trace)
        },
    )?;
    let is_text = question.form.is_text();
    if let Some(empty) = reasons_only(&answered, VERSION).filter(|_| is_text) {
        to.write(empty)?;
        return end.outcome(report);
    }
    if let Some(figure) = figure {
        figure.write(&answered)?;
    }
    write(&question, &answered, to, report)?;
    let is_empty = answered.iter().all(|one| one.answer.is_empty());
    let outcome = end.outcome(report)?;
    if is_empty && is_text && outcome == Outcome::Fine {
        return Err(cli::cannot_answer(
            "no GPU activity has numbers: the line \"more\" says what would give it some",
        ));
    }
    Ok(outcome)
}

fn write(
    question: &Question,
    answered: &[Answered<Answer>],
    to: Destination,
    report: &ReportArgs,
) -> anyhow::Result<()> {
    let main = || document(question, answered).map_err(explain);
    let sentences = answered.iter().map(|one| one.answer.sentence());
    match to {
        Destination::Stream(mut out, ReportFormat::Json) => {
            let json = limits::json(question, answered).map_err(explain)?;
            serde_json::to_writer(&mut out, &json)?;
            out.write_all(b"\n")?;
            out.finish()?;
            if cli::in_process::is_active() {
                let tables = main()?.into_tables();
                cli::in_process::give(VERSION, tables, sentences.collect());
            }
        }
        to => {
            let main = main()?;
            if !question.form.is_text() {
                for (one, sentence) in answered.iter().zip(sentences) {
                    let text = format!("{}: {sentence}", one.label);
                    report.verbosity.note(text);
                }
            }
            to.write(main)?;
        }
    }
    Ok(())
}

/// Answers about a step that is not recorded.
fn forward(args: &RooflineArgs, config: &Config, known: &Known) -> anyhow::Result<Outcome> {
    let requests: Vec<Request> = args.ctx.iter().chain(&args.r#gen).copied().collect();
    let forward = Forward::new(config, &requests, args.tp.unwrap_or(1), args.cache_bytes)
        .map_err(|error| cli::usage(format!("--tp: {error}")))?;
    match Destination::open(&args.report)? {
        Destination::Stream(mut out, ReportFormat::Json) => {
            serde_json::to_writer(&mut out, &forward.json())?;
            out.write_all(b"\n")?;
            out.finish()?;
        }
        to => {
            let device = args.device.as_deref();
            let document = forward.document(&known.knowledge, device, &args.peak);
            to.write(document.map_err(explain)?)?;
        }
    }
    Ok(Outcome::Fine)
}
