//! `trace-info critical-path`.

use std::path::PathBuf;

use byte_source::output::AtomicFile;
use clap::{Args, ValueEnum};
use cli::{OrExit as _, Outcome, Stage};
use critical_path::tables::Form;
use critical_path::{
    Analysis, Change, Error, Graph, Mark, Options, Part, PartOptions, analyse, doubts, lines,
    path_trace, sentences, tables,
};
use gpu_time::comm::{CommRules, Job, RankDigest, arg_keys, assign_ranks};
use gpu_time::{GpuWork, Lack, NoGpuWork, Note, Recorder};
use perfetto_reader::ArgPolicy;
use report::Table;
use serde::Serialize;
use trace_input::{ClassesArgs, NamedTrace, only_args};
use trace_model::Rank;
use trace_model::kernel::TraceIndex;

use crate::args::{ReportArgs, ReportFormat};
use crate::document::{Destination, Document};
use crate::empty;

/// Schema name of the JSON document.
const SCHEMA: &str = "critical-path/1";

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

/// Data kept of one trace.
struct Kept {
    part: Part,
    /// Its collectives, if needed.
    digest: Option<RankDigest>,
    /// Number of ranks of the job, if the file states it.
    world_size: Option<u32>,
    /// Method by which its steps were found.
    steps: &'static str,
    has_calls: bool,
    recorder: Recorder,
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
    let paths = trace_input::expand_ranks(&report.files, report.verbosity)?;
    let mut each = empty::read_each(
        report,
        &paths,
        |options| {
            only_args(options, critical_path::ARG_KEYS);
            if let ArgPolicy::Only(kept) = &mut options.args {
                kept.extend(arg_keys());
                kept.extend(rca_cycles::ARG_KEYS.iter().map(|key| (*key).to_owned()));
            }
        },
        |input| keep(args, input, paths.len() > 1),
    )?;
    let mut kept = std::mem::take(&mut each.results);
    let is_text = matches!(
        report.format.format(),
        ReportFormat::Text | ReportFormat::Md
    );
    if let Some(empty) = each
        .reasons_only(tables::SCHEMA_VERSION)
        .filter(|_| is_text)
        && kept.iter().all(|kept| !kept.has_calls)
    {
        empty.write(to)?;
        return each.end(report);
    }
    let mut notes = order(&mut kept, report)?;
    notes.extend(thin(args, &kept));
    let found_by = kept.first().map_or("whole", |kept| kept.steps);
    let graph = Stage::time("join", report.verbosity, || graph(kept));
    let mut options = Options::default();
    options.step = args.step;
    options.what_if.clone_from(&args.what_if);
    options.opportunities = args.opportunities;
    options.segments = args.path || perfetto.is_some();
    options.ops = args.ops;
    let found = Stage::time("replay", report.verbosity, || analyse(&graph, &options));
    let mut analysis = match found {
        Ok(analysis) => analysis,
        Err(error @ Error::NoSuchStep { .. }) => return Err(error).or_exit(Outcome::CannotAnswer),
        Err(error) => return Err(error).or_exit(Outcome::CannotAnswer),
    };
    notes.extend(doubts(&analysis));
    if let Some(mut file) = perfetto {
        perfetto_reader::write::write_trace(&path_trace(&analysis)?, &mut file)?;
        file.commit()?;
    }
    if !args.path {
        analysis.segments.clear();
    }
    for note in &notes {
        report.verbosity.note(format!("warning: {}", note.text));
    }
    match (to, report.format.format()) {
        (Destination::Stream(mut out, _), ReportFormat::Json) => {
            let document = Json {
                schema: SCHEMA,
                steps_by: found_by,
                notes: &notes,
                analysis: &analysis,
            };
            serde_json::to_writer(&mut out, &document)?;
            std::io::Write::write_all(&mut out, b"\n")?;
            out.finish()?;
            if cli::in_process::is_active() {
                let main = main_table(args, &analysis)?;
                cli::in_process::give(tables::SCHEMA_VERSION, vec![main], sentences(&analysis));
            }
        }
        (to, format) => {
            let mut document = Document::new(tables::SCHEMA_VERSION);
            match format {
                ReportFormat::Csv | ReportFormat::Parquet => {
                    document.tables.push(main_table(args, &analysis)?);
                }
                _ => text(&mut document, args, &analysis, found_by, &notes)?,
            }
            document.write(to)?;
        }
    }
    each.end(report)
}

/// The JSON document: its schema, and the method by which steps were found.
#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    steps_by: &'static str,
    notes: &'a [Note],
    #[serde(flatten)]
    analysis: &'a Analysis,
}

fn keep(
    args: &CriticalPathArgs,
    input: &NamedTrace,
    is_one_of_several: bool,
) -> anyhow::Result<(Kept, Option<NoGpuWork>)> {
    let work = GpuWork::with_vocabulary(&input.trace, args.classes.vocabulary());
    let index = work.index();
    let (marks, steps) = find_marks(args, index);
    let mut options = PartOptions::default();
    options.guesses = !args.no_guesses;
    let needs_collectives = is_one_of_several || args.what_if.iter().any(Change::needs_sizes);
    let digest = needs_collectives
        .then(|| RankDigest::of_part(&input.name, index, CommRules::Extended, |_| true));
    let meta = input.trace.meta();
    let rank = meta.rank().or_else(|| Rank::from_file_name(&input.name));
    let rank = digest.as_ref().map_or(rank, |digest| Some(digest.rank));
    let part = Part::new(index, rank.map_or(0, |rank| rank.0), &marks, options);
    let why = match work.events().is_empty() {
        true => gpu_time::no_gpu_work(index),
        false => None,
    };
    let has_calls = !index.activities().calls().is_empty();
    let kept = Kept {
        part,
        digest,
        world_size: meta.distributed.as_ref().and_then(|job| job.world_size),
        steps,
        has_calls,
        recorder: Recorder::of(&input.trace),
    };
    Ok((kept, why))
}

/// Returns the marks of the engine, else the cycles of its loop, else none: then the whole trace is
/// one step.
fn find_marks(args: &CriticalPathArgs, index: &TraceIndex<'_>) -> (Vec<Mark>, &'static str) {
    match args.steps {
        StepsName::Whole => (Vec::new(), "whole"),
        StepsName::Auto => rca_cycles::step_marks(index, args.step_pattern.as_deref()),
    }
}

/// Sorts the ranks, and returns notes on inconsistencies.
fn order(kept: &mut Vec<Kept>, report: &ReportArgs) -> anyhow::Result<Vec<Note>> {
    let mut notes = Vec::new();
    if kept.len() < 2 {
        return Ok(notes);
    }
    // The digests are sorted as in `comm`; recordings follow by their names.
    let mut digests: Vec<RankDigest> = kept
        .iter_mut()
        .filter_map(|one| one.digest.take())
        .collect();
    let sources = digests.iter().map(|digest| digest.source.clone());
    let mut parts: Vec<(String, Option<Kept>)> = sources.zip(kept.drain(..).map(Some)).collect();
    let found = trace_input::refuse_other_jobs(assign_ranks(&mut digests))?;
    for digest in digests {
        let slot = parts
            .iter_mut()
            .find(|(source, part)| *source == digest.source && part.is_some());
        if let Some(mut one) = slot.and_then(|slot| slot.1.take()) {
            one.part.set_rank(digest.rank.0);
            one.digest = Some(digest);
            kept.push(one);
        }
    }
    if found.placed {
        notes.push(Note::new(
            "ranks_by_place",
            "neither the files nor their names give every file a rank: ranks are numbered in the order of the names",
        ));
    }
    notes.extend(
        found
            .doubts
            .iter()
            .map(|doubt| Note::new(doubt.code(), doubt.to_string())),
    );
    report.verbosity.detail(|| format!("{} ranks", kept.len()));
    Ok(notes)
}

/// Returns notes on missing data, and what to record to get them.
fn thin(args: &CriticalPathArgs, kept: &[Kept]) -> Vec<Note> {
    let mut notes = Vec::new();
    if let Some(without) = kept.iter().find(|kept| !kept.has_calls) {
        notes.push(Note::new(
            "no_host_events",
            format!(
                "no runtime calls are recorded: the order on each stream is all that is known, launch and host time are part \
                 of unknown; record the calls of the host as well ({})",
                Lack::HostEvents.how(without.recorder)
            ),
        ));
    }
    if args.step_pattern.is_some() && kept.iter().all(|kept| kept.steps == "whole") {
        notes.push(Note::new(
            "no_such_steps",
            "no annotation has a name like the pattern: the whole recording is one step",
        ));
    }
    let world = kept.iter().filter_map(|kept| kept.world_size).max();
    if let Some(world) = world.filter(|world| kept.len() < *world as usize) {
        let text = format!(
            "of {world} ranks only {} recorded: waiting for the others is part of the time of collectives; give the traces of all \
             ranks",
            match kept.len() {
                1 => "1 is".to_owned(),
                n => format!("{n} are"),
            }
        );
        notes.push(Note::new("missing_ranks", text));
    }
    notes
}

fn graph(kept: Vec<Kept>) -> Graph {
    let (mut parts, mut digests) = (Vec::with_capacity(kept.len()), Vec::new());
    for one in kept {
        parts.push(one.part);
        digests.extend(one.digest);
    }
    if digests.len() != parts.len() {
        return Graph::new(parts, None);
    }
    let job = Job::new(&digests);
    Graph::new(parts, Some((&digests, &job)))
}

/// Returns the table for CSV and Parquet: steps, the list of `--path` or `--ops`, or the predictions of `--what-if` or `--opportunities`.
fn main_table(args: &CriticalPathArgs, analysis: &Analysis) -> report::Result<Table> {
    if args.path {
        return tables::segments(analysis, Form::Wide);
    }
    if args.ops {
        return tables::ops(analysis, Form::Wide);
    }
    if !args.what_if.is_empty() {
        return tables::what_if(analysis);
    }
    if !analysis.opportunities.is_empty() {
        return tables::opportunities(analysis);
    }
    tables::steps(analysis, Form::Wide, usize::MAX)
}

/// Maximum number of rows of truncated tables in text.
const ROWS: usize = 12;

fn text(
    document: &mut Document,
    args: &CriticalPathArgs,
    analysis: &Analysis,
    steps_by: &str,
    notes: &[Note],
) -> report::Result<()> {
    for sentence in sentences(analysis) {
        document.sentence(sentence);
    }
    for (label, text) in lines(analysis, steps_by) {
        match label {
            "guessed" => document.line(label, format!("{text} (--no-guesses leaves them out)")),
            label => document.line(label, text),
        }
    }
    document.notes(notes);
    document.table("budget", tables::budget(analysis)?);
    if !args.what_if.is_empty() {
        document.table("what if", tables::what_if(analysis)?);
    }
    if !analysis.opportunities.is_empty() {
        document.table(
            "without the largest names on the path",
            tables::opportunities(analysis)?,
        );
    }
    if analysis.steps.len() > 1 {
        document.table("steps", tables::steps(analysis, Form::Narrow, ROWS)?);
    }
    let largest = match analysis.recordings.len() {
        0 | 1 => "largest on the path",
        _ => "largest on the paths of all ranks, added up",
    };
    document.table(largest, tables::largest(analysis, ROWS)?);
    if args.path {
        document.table("path", tables::segments(analysis, Form::Narrow)?);
    }
    if args.ops {
        document.table("GPU activities", tables::ops(analysis, Form::Narrow)?);
    }
    Ok(())
}
