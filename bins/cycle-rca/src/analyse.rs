//! `cycle-rca analyse`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use byte_source::output::AtomicFile;
use charts::html::Section;
use cli::{Outcome, Output, Stage, VerbosityArgs};
use rca_cycles::anatomy::{Folding, anatomy};
use rca_cycles::{Analysis, StepPaths, compat, engine};
use rca_report::candidates::{self, Found};
use rca_report::document::Members;
use rca_report::{cycles, document, page, ranks, recording, reference, rows, text, tracks};
use report::{CsvOptions, CsvWriter, JsonDocument, ParquetWriter, RowSink};
use serde_json::Value;
use serving_logs::Serving;
use trace_input::{NamedTrace, only_args};
use trace_model::Trace;

use crate::args::{AnalyseArgs, CutArgs, Divide, ResultFormat};
use crate::files::{Job, jobs};
use crate::{names, perf, probes};

pub(crate) fn options(cut: &CutArgs) -> anyhow::Result<rca_cycles::Options> {
    let mut options = rca_cycles::Options::default();
    options.marker.clone_from(&cut.marker);
    options.divide_by = divide_by(cut);
    if let Some(path) = &cut.rules {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        options.engines = engine::parse(&text).with_context(|| path.display().to_string())?;
    }
    Ok(options)
}

/// Notes which command-line options have no effect.
pub(crate) fn note_ignored(cut: &CutArgs, verbosity: VerbosityArgs) {
    if !cut.compat && (cut.align || cut.anchor_only || cut.cpu_cores.is_some()) {
        verbosity.note("warning: --align, --anchor-only and --cpu-cores act with --compat only");
    }
}

fn divide_by(cut: &CutArgs) -> compat::DivideBy {
    match cut.divide_by {
        Divide::Token => compat::DivideBy::Token,
        Divide::Layer => compat::DivideBy::Layer,
    }
}

pub(crate) fn compat_options(cut: &CutArgs) -> compat::Options {
    let mut options = compat::Options::default();
    options.marker.clone_from(&cut.marker);
    options.divide_by = divide_by(cut);
    options.anchor_only = cut.anchor_only;
    options.align = cut.align;
    let cores = cut.cpu_cores.filter(|&n| n > 0);
    options.cpu_cores = cores.and_then(|n| usize::try_from(n).ok());
    options
}

/// Empty list of cycles.
const NONE: [Value; 0] = [];

/// Result of a job.
struct Done {
    name: String,
    json: Members,
    text: Vec<u8>,
    rows: Vec<compat::Report>,
    /// Candidates for steps, with --info.
    functions: Vec<compat::Candidate>,
    cycles: Vec<Vec<String>>,
    tracks: Option<tracks::Job>,
    /// Its answer and the sections of its page, with --html.
    page: Option<(Option<String>, Vec<Section>)>,
    /// Data that join it to other ranks of its job.
    member: Option<ranks::Member>,
    /// Its cycles and steps, which the other ranks may change.
    steps: Option<Box<(Analysis, StepPaths)>>,
    path: PathBuf,
    failed: Option<String>,
}

impl Done {
    fn new(name: &str, path: &str) -> serde_json::Result<Self> {
        let mut json = Members::default();
        json.insert("job", name)?;
        json.insert("path", path)?;
        Ok(Self {
            name: name.to_owned(),
            json,
            text: Vec::new(),
            rows: Vec::new(),
            functions: Vec::new(),
            cycles: Vec::new(),
            tracks: None,
            page: None,
            member: None,
            steps: None,
            path: PathBuf::from(path),
            failed: None,
        })
    }

    /// Writes what depends on the steps of its cycles, instead of what was written before.
    fn show(
        &mut self,
        args: &AnalyseArgs,
        analysis: &Analysis,
        paths: &StepPaths,
    ) -> anyhow::Result<()> {
        self.text.clear();
        text::job(&mut self.text, (&self.name, names()), analysis, paths)?;
        if args.format.format() == ResultFormat::Csv {
            self.cycles = cycles::rows(&self.name, analysis, paths);
        }
        if args.html.is_some() {
            let answer = page::answer(analysis, paths);
            self.page = Some((answer, page::sections(&self.name, analysis, paths)));
        }
        let tracks = self.tracks.take();
        self.tracks = tracks.map(|job| job.with_steps(analysis, paths));
        Ok(())
    }

    fn ends(&mut self, error: Option<&str>) -> serde_json::Result<()> {
        let status = if error.is_some() { "failed" } else { "ok" };
        self.json.insert("status", status)?;
        self.json.insert("error", &error)
    }
}

pub(crate) fn run(args: &AnalyseArgs) -> anyhow::Result<Outcome> {
    let format = args.format.format();
    if format == ResultFormat::Parquet && args.output.output.is_none() {
        return Err(cli::usage("--format parquet needs --output FILE"));
    }
    note_ignored(&args.cut, args.verbosity);
    // Options that write files without a given folder write to the reference's folder.
    let files = args.export_perf_data || args.debug_export_cycles || args.markdown;
    let folder = match (&args.output_dir, args.cut.compat || files) {
        (None, true) => Some(PathBuf::from("./results")),
        (given, _) => given.clone(),
    };
    let serving = args.serving_log.as_deref().map(probes::serving);
    let serving = serving.transpose()?;
    if args.csv {
        return tables(args, folder.as_deref(), serving.as_ref());
    }
    let list = jobs(&args.paths, folder.as_deref(), args.cut.compat)?;
    let options = options(&args.cut)?;
    let paths: Vec<PathBuf> = list.iter().map(|j| j.path.clone()).collect();
    cli::refuse_overwrite(
        &paths,
        args.output
            .output
            .iter()
            .chain(&args.perfetto)
            .chain(&args.html),
    )?;
    let by_path = |name: &str| -> Option<&Job> {
        list.iter()
            .find(|j| j.path.display().to_string() == name)
            .or_else(|| (list.len() == 1).then(|| list.first()).flatten())
    };
    let keep_all = folder.is_some();
    let of_ranks = ranks::keys();
    let several = list.len() > 1 && !args.cut.compat;
    let mut keys: Vec<&str> = rca_cycles::ARG_KEYS.to_vec();
    keys.extend(critical_path::ARG_KEYS);
    if several {
        keys.extend(of_ranks.iter().map(String::as_str));
    }
    let each = trace_input::read_each(
        &paths,
        &args.input,
        args.verbosity,
        |read| {
            // The reference treats times before zero like any other.
            read.keep_negative = args.cut.compat;
            read.kernel_rules = args.cut.classes.rules();
            if !keep_all {
                only_args(read, &keys);
            }
        },
        |read: &NamedTrace| {
            let job = by_path(&read.name);
            let name = job.map_or_else(|| read.name.clone(), |j| j.name.clone());
            // Of several jobs of one name, the last writes the files, regardless of which finishes
            // last.
            let last = list.iter().rev().find(|j| j.name == name);
            let writes = last.is_none_or(|l| job.is_none_or(|j| j.path == l.path));
            let folder = folder.as_deref().filter(|_| writes);
            one(args, &options, (folder, several), &name, read)
        },
    )?;
    let mut results = each.results;
    let joined = join_ranks(args, &mut results)?;
    tell(&mut results, serving.as_ref())?;
    if each.failed.is_some() {
        add_unread(&list, &mut results)?;
    }
    write_page(args, &mut results)?;
    report(args, &results, &joined, each.failed.is_some())
}

/// Joins the ranks of a job, and adds the results to those of each recording.
fn join_ranks(args: &AnalyseArgs, results: &mut [Done]) -> anyhow::Result<Vec<ranks::Joined>> {
    let members = results.iter_mut().enumerate();
    let members = members.filter_map(|(i, d)| Some((i, d.path.clone(), d.member.take()?)));
    let mut joined = ranks::join(members.collect());
    for rank in joined.iter_mut().flat_map(|j| &mut j.ranks) {
        let done = &mut results[rank.place];
        done.json.insert("rank", &rank.json)?;
        if let Some((analysis, mut paths)) = done.steps.take().map(|both| *both) {
            if rank.join(&mut paths) {
                done.show(args, &analysis, &paths)?;
            }
            if args.format.format() == ResultFormat::Json {
                document::join((&analysis, &paths), &rank.skew, &mut done.json)?;
            }
        }
        done.text.extend(rank.text.bytes());
    }
    Ok(joined)
}

/// Adds the jobs whose traces could not be read; the reason was reported.
fn add_unread(list: &[Job], results: &mut Vec<Done>) -> serde_json::Result<()> {
    for (place, job) in list.iter().enumerate() {
        if results.get(place).is_some_and(|d| d.name == job.name) {
            continue;
        }
        let mut done = Done::new(&job.name, &job.path.display().to_string())?;
        done.json.insert("cycles", &NONE)?;
        done.ends(Some("the trace cannot be read"))?;
        results.insert(place.min(results.len()), done);
    }
    Ok(())
}

/// Runs the command like [`run`], for recordings that are pairs of tables.
fn tables(
    args: &AnalyseArgs,
    folder: Option<&Path>,
    serving: Option<&Serving>,
) -> anyhow::Result<Outcome> {
    let options = options(&args.cut)?;
    let mut results = Vec::new();
    let mut failed = false;
    for pair in probes::pairs(&args.paths, args.verbosity)? {
        match pair.read(args.verbosity) {
            Ok(read) => results.push(one(args, &options, (folder, false), &pair.name, &read)?),
            Err(error) => {
                failed = true;
                cli::terminal::say(&format!("{}: {error:#}", pair.name));
            }
        }
    }
    tell(&mut results, serving)?;
    write_page(args, &mut results)?;
    report(args, &results, &[], failed)
}

/// Adds the data of the engine's log to each job.
fn tell(results: &mut [Done], serving: Option<&Serving>) -> serde_json::Result<()> {
    let Some(serving) = serving else {
        return Ok(());
    };
    for done in results {
        done.json.insert("serving", &document::serving(serving))?;
        done.text
            .extend(text::serving(names(), serving).into_bytes());
    }
    Ok(())
}

fn report(
    args: &AnalyseArgs,
    results: &[Done],
    joined: &[ranks::Joined],
    failed: bool,
) -> anyhow::Result<Outcome> {
    let format = args.format.format();
    let _stage = Stage::start("write", args.verbosity);
    if let (ResultFormat::Parquet, Some(path)) = (format, &args.output.output) {
        let all = merged(results)?;
        let mut file = AtomicFile::create(path)?;
        rows::functions(
            &all,
            args.cut.compat,
            &mut ParquetWriter::new(&mut file, document::VERSION),
        )?;
        file.commit()?;
        return finish(args, results, failed);
    }
    let mut out = args.output.open()?;
    let (functions, files) = all_info(results);
    if args.info && functions.is_empty() && files > 0 {
        bail!("no Python function is called more than twice");
    }
    match format {
        ResultFormat::Text if args.info => {
            out.write_all(candidates::table(&functions, files).as_bytes())?;
            for done in results {
                out.write_all(&done.text)?;
            }
        }
        ResultFormat::Text => {
            for job in joined {
                for line in report::text::wrapped(&job.text, 78) {
                    writeln!(out, "{line}")?;
                }
                writeln!(out)?;
            }
            for done in results {
                out.write_all(&done.text)?;
            }
        }
        ResultFormat::Json => {
            let mut document = JsonDocument::new(&mut out, document::VERSION)?;
            let jobs: Vec<&Members> = results.iter().map(|d| &d.json).collect();
            document.member("jobs", &jobs)?;
            if !joined.is_empty() {
                let list: Vec<&Value> = joined.iter().map(|j| &j.json).collect();
                document.member("rank_jobs", &list)?;
            }
            if args.info {
                let list: Vec<Value> = functions.iter().map(Found::json).collect();
                document.member("functions", &list)?;
            }
            document.finish()?;
        }
        ResultFormat::Csv => write_cycles(results, &mut out)?,
        ResultFormat::Parquet => {}
    }
    out.finish()?;
    finish(args, results, failed)
}

/// Writes the page of all recordings that could be analyzed, with --html.
fn write_page(args: &AnalyseArgs, results: &mut [Done]) -> anyhow::Result<()> {
    let Some(path) = &args.html else {
        return Ok(());
    };
    let (mut answer, mut jobs) = (None, Vec::new());
    for (own, sections) in results.iter_mut().filter_map(|done| done.page.take()) {
        answer = answer.or(own);
        jobs.push(sections);
    }
    let text = page::html(
        jobs,
        answer.unwrap_or_else(|| "No step was found.".to_owned()),
    );
    let mut file = Output::file(path)?;
    file.write_all(text.as_bytes())?;
    file.finish()
}

/// Finishes the run after the results are written.
fn finish(args: &AnalyseArgs, results: &[Done], unreadable: bool) -> anyhow::Result<Outcome> {
    if let Some(path) = &args.perfetto {
        let jobs: Vec<&tracks::Job> = results.iter().filter_map(|d| d.tracks.as_ref()).collect();
        perf::tracks(path, &jobs)?;
    }
    let mut unanswered = false;
    for why in results.iter().filter_map(|done| done.failed.as_ref()) {
        unanswered = true;
        cli::terminal::say(why);
    }
    Ok(if unreadable {
        Outcome::Unreadable
    } else if unanswered {
        Outcome::CannotAnswer
    } else {
        Outcome::Fine
    })
}

fn one(
    args: &AnalyseArgs,
    options: &rca_cycles::Options,
    (folder, several): (Option<&Path>, bool),
    name: &str,
    read: &NamedTrace,
) -> anyhow::Result<Done> {
    let trace = &read.trace;
    let mut done = Done::new(name, &read.name)?;
    let result = if args.info {
        info(trace, &mut done)?
    } else if args.cut.compat {
        by_reference(args, folder, (name, &read.name), trace, &mut done)?
    } else {
        ours(args, options, (folder, several), (name, read), &mut done)?
    };
    done.ends(result.as_ref().err().map(String::as_str))?;
    if let Err(why) = result {
        done.json.insert("cycles", &NONE)?;
        done.failed = Some(format!("{name}: {why}"));
    }
    Ok(done)
}

fn wanted(args: &AnalyseArgs) -> perf::Wanted {
    perf::Wanted {
        tables: args.export_perf_data,
        cycles: args.debug_export_cycles,
        compat: args.cut.compat,
    }
}

/// Result of an analysis, or the reason why there is none.
type Answer = Result<(), String>;

fn ours(
    args: &AnalyseArgs,
    options: &rca_cycles::Options,
    (folder, several): (Option<&Path>, bool),
    (name, read): (&str, &NamedTrace),
    done: &mut Done,
) -> anyhow::Result<Answer> {
    let trace = &read.trace;
    let mut options = options.clone();
    options.topology = probes::topology(&read.name, args.verbosity);
    let analysis = match rca_cycles::analyse(trace, &options) {
        Ok(analysis) => analysis,
        Err(failure) => return Ok(Err(failure.to_string())),
    };
    probes::note_rank(&read.name, trace, args.verbosity);
    let mut paths = StepPaths::new(trace, &analysis);
    if several {
        done.member = ranks::Member::new(&read.name, trace, &analysis, paths.take_part());
    }
    // A cycle takes two kilobytes and more, and there may be a hundred thousand cycles.
    if args.format.format() == ResultFormat::Json {
        document::job(trace, (&analysis, &paths), &mut done.json)?;
    }
    if args.perfetto.is_some() {
        let job = tracks::job(name, &analysis).with_steps(&analysis, &paths);
        done.tracks = Some(job.with_blame(trace, &analysis));
    }
    done.show(args, &analysis, &paths)?;
    let wants_rows = args.format.format() == ResultFormat::Parquet;
    if folder.is_some() || wants_rows {
        done.rows = rca_cycles::reports(trace, &analysis);
    }
    if let Some(folder) = folder {
        if args.markdown {
            let path = Path::new(&read.name);
            let folding = match args.aggressive {
                true => Folding::Aggressive,
                false => Folding::Wrappers,
            };
            let reports = (&done.rows[..], folding);
            write_anatomy(folder, name, path, trace, &analysis, reports)?;
        }
        if args.debug_export_cycles {
            rca_cycles::add_events(trace, &analysis, &mut done.rows);
        }
        perf::write(folder, name, trace, &done.rows, wanted(args))?;
        if args.export_perf_data {
            perf::recording(folder, name, &recording::recording(trace, &analysis))?;
        }
    }
    if !wants_rows {
        done.rows.clear();
    }
    if done.member.is_some() {
        done.steps = Some(Box::new((analysis, paths)));
    }
    Ok(Ok(()))
}

fn by_reference(
    args: &AnalyseArgs,
    folder: Option<&Path>,
    (name, path): (&str, &str),
    trace: &Trace,
    done: &mut Done,
) -> anyhow::Result<Answer> {
    let mut options = compat_options(&args.cut);
    options.topology = probes::topology(path, args.verbosity);
    let analysis = match compat::analyse(trace, &options) {
        Ok(analysis) => analysis,
        Err(failure) => return Ok(Err(failure.to_string())),
    };
    done.text = reference::text(name, &analysis).into_bytes();
    done.cycles = reference::rows(name, &analysis);
    reference::add(&analysis, &mut done.json)?;
    if let Some(folder) = folder {
        perf::write(folder, name, trace, &analysis.reports, wanted(args))?;
    }
    done.rows = analysis.reports;
    Ok(Ok(()))
}

/// Writes `<job>_report.md` and `<job>_calls.dot`, for the cycles that the reports chose.
fn write_anatomy(
    folder: &Path,
    job: &str,
    source: &Path,
    trace: &Trace,
    analysis: &Analysis,
    (reports, folding): (&[compat::Report], Folding),
) -> anyhow::Result<()> {
    let chosen = reports.iter().flat_map(|r| r.representatives.iter());
    let mut chosen: Vec<usize> = chosen.filter_map(|n| n.checked_sub(1)).collect();
    chosen.sort_unstable();
    let found = anatomy(trace, analysis, &chosen, folding);
    std::fs::create_dir_all(folder)?;
    let size = std::fs::metadata(source).map(|m| m.len()).ok();
    let report = rca_report::anatomy::markdown(job, size, analysis, &found);
    perf::text(&folder.join(format!("{job}_report.md")), &report)?;
    let calls = rca_report::anatomy::dot(&found.graph);
    perf::text(&folder.join(format!("{job}_calls.dot")), &calls)
}

/// Lists the candidates for steps.
fn info(trace: &Trace, done: &mut Done) -> serde_json::Result<Answer> {
    done.functions = compat::functions(trace);
    if done.functions.is_empty() {
        return Ok(Err("no Python function lasts longer than 10 us".to_owned()));
    }
    let (own, _) = candidates::together(std::iter::once(done.functions.as_slice()));
    let rows: Vec<Value> = own.iter().map(Found::json).collect();
    done.json.insert("functions", &rows)?;
    Ok(Ok(()))
}

/// Combines the candidates of all files.
fn all_info(results: &[Done]) -> (Vec<Found>, usize) {
    let with_some = results.iter().filter(|d| !d.functions.is_empty());
    candidates::together(with_some.map(|d| d.functions.as_slice()))
}

fn write_cycles(results: &[Done], out: &mut Output) -> anyhow::Result<()> {
    let mut sink = CsvWriter::new(out, CsvOptions::default());
    sink.begin(&cycles::COLUMNS.map(report::Column::text))?;
    for row in results.iter().flat_map(|d| &d.cycles) {
        let cells: Vec<report::Cell<'_>> = row.iter().map(|c| c.as_str().into()).collect();
        sink.row(&cells)?;
    }
    Ok(sink.finish()?)
}

/// Returns all rows of all jobs as one report.
fn merged(results: &[Done]) -> anyhow::Result<compat::Report> {
    let mut reports = results.iter().flat_map(|d| &d.rows).cloned();
    let mut all = reports.next().context("no trace gave a table")?;
    for more in reports {
        all.rows.extend(more.rows);
    }
    Ok(all)
}
