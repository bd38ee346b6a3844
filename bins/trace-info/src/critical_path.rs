//! `trace-info critical-path`.

use std::io::Write as _;
use std::path::PathBuf;

use byte_source::output::AtomicFile;
use clap::{Args, ValueEnum};
use cli::{Outcome, Stage};
use critical_path::Change;
use trace_input::ClassesArgs;
use trace_report::Form;
use trace_report::critical_path::{Question, Ranks, nothing};

use crate::args::{ReportArgs, ReportFormat};
use crate::document::{Destination, explain};
use crate::empty;

pub(crate) const HELP: &str = "\
A step lasts from the end of the step before to the end of its last work on the
main stream. Give all ranks of a job: their collectives join the graph.

Changes, several with commas: TARGET[:SELECTOR]=FACTOR (0.5, 1/2)
  targets   kernel memcpy memset comm host api dispatch launch gap sync requests
            input unexplained
  selector  a glob of the name, or class:NAME; launch:call, launch:latency,
            comm:wait, comm:transfer, memcpy:h2d, memcpy:d2h, memcpy:d2d
  graph     the launches of each run become one graph launch of 10 us
  async     synchronisations that launches follow are gone
  fuse:GLOB[=FACTOR]  neighbours become one kernel, without the gaps
  comm=link:GB/s      collectives as long as their bytes at that bus bandwidth
  rank:N=median|FACTOR  one rank as fast as the median one, or by a factor

Example:
  trace-info critical-path t.json.gz
  trace-info critical-path rank*.json.gz --what-if graph --what-if kernel:class:gemm=0.8
  trace-info critical-path t.json.gz --step 3 --path --format csv --output path.csv";

#[derive(Debug, Args)]
pub(crate) struct CriticalPathArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Only the step of this number, from 1
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u32>,
    /// Predict the step time under a change; may be repeated
    #[arg(long, value_name = "CHANGE", value_parser = change)]
    pub(crate) what_if: Vec<Change>,
    /// Predict the step time without each of the N largest names on the path
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) opportunities: usize,
    /// List the segments of the path
    #[arg(long)]
    pub(crate) path: bool,
    /// List the GPU activities with their slack
    #[arg(long)]
    pub(crate) ops: bool,
    /// Leave out dependencies that rest on stated rules or on timing
    #[arg(long)]
    pub(crate) no_guesses: bool,
    /// Steps are slices of this name (* any text, ? any character, | or)
    #[arg(long, value_name = "PATTERN", conflicts_with = "steps")]
    pub(crate) step_pattern: Option<String>,
    /// What a step is
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub(crate) steps: StepsName,
    /// Write the path as tracks with arrows, to be opened with the trace
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) classes: ClassesArgs,
}

/// Sources of steps, as command-line values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum StepsName {
    /// Annotations of the engine, else cycles, else the whole trace
    #[default]
    Auto,
    /// All of the trace is one step
    Whole,
}

fn change(text: &str) -> Result<Change, String> {
    text.parse()
        .map_err(|error: critical_path::ChangeError| error.to_string())
}

impl CriticalPathArgs {
    fn question(&self) -> Question {
        let mut question = Question::default();
        question.whole = self.steps == StepsName::Whole;
        question.step_pattern.clone_from(&self.step_pattern);
        question.step = self.step;
        question.what_if.clone_from(&self.what_if);
        question.opportunities = self.opportunities;
        question.path = self.path;
        question.ops = self.ops;
        question.tracks = self.perfetto.is_some();
        question.no_guesses = self.no_guesses;
        question.no_guesses_remedy = "--no-guesses leaves them out".into();
        question.vocabulary = self.classes.vocabulary();
        question
    }
}

pub(crate) fn run(args: &CriticalPathArgs) -> anyhow::Result<Outcome> {
    let report = &args.report;
    let to = Destination::open(report)?;
    let perfetto = match &args.perfetto {
        Some(path) => {
            cli::refuse_overwrite(&report.traces()?, &args.perfetto)?;
            Some(AtomicFile::create(path)?)
        }
        None => None,
    };
    let question = args.question();
    let paths = trace_input::expand_ranks(&report.files, report.verbosity)?;
    let is_several = paths.len() > 1;
    let (recordings, end) = empty::read_each(
        report,
        &paths,
        &question.arg_keys(),
        |_| {},
        |input| {
            let names = (input.name.as_str(), input.label.as_str());
            Ok(question.recording(names, &input.trace, is_several))
        },
    )?;
    if let Some(empty) = nothing(&recordings).filter(|_| report.form().is_text()) {
        to.write(empty)?;
        return end.outcome(report);
    }
    let ranks = Ranks::new(&question, recordings).map_err(explain)?;
    if ranks.count() > 1 {
        let count = ranks.count();
        report.verbosity.detail(|| format!("{count} ranks"));
    }
    let job = Stage::time("join", report.verbosity, || ranks.join());
    let found = Stage::time("replay", report.verbosity, || job.answer(&question));
    let mut answer = found.map_err(explain)?;
    if let Some(mut file) = perfetto {
        perfetto_reader::write::write_trace(&answer.take_tracks(&question)?, &mut file)?;
        file.commit()?;
    }
    for note in answer.notes() {
        report.verbosity.note(format!("warning: {}", note.text));
    }
    match to {
        Destination::Stream(mut out, ReportFormat::Json) => {
            serde_json::to_writer(&mut out, &answer.json())?;
            out.write_all(b"\n")?;
            out.finish()?;
            if cli::in_process::is_active() {
                let main = answer.document(&question, Form::MainTable);
                let main = main.map_err(explain)?;
                let version = main.version();
                cli::in_process::give(version, main.into_tables(), answer.sentences());
            }
        }
        to => {
            let document = answer.document(&question, report.form());
            to.write(document.map_err(explain)?)?;
        }
    }
    end.outcome(report)
}
