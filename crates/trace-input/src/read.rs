//! Reads a file as a trace.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use byte_source::{Progress, Source};
use cli::{InputArgs, ProgressLine, Stage, VerbosityArgs};
use nsys_db::Deciding;
use perfetto_reader::{ArgPolicy, ReadOptions, SOURCE_INCOMPLETE};
use trace_model::parallel::in_parallel;
use trace_model::{IssueKind, Severity, Trace};

use crate::files::{is_package, short_name};
use crate::label::labels;
use crate::{nsys, rocprof};

/// Maximum clock difference of the recorders of one thread (operators, Python functions, runtime
/// calls), in ns; files of some producers are rounded to it. Real overlaps on a thread cannot be so
/// short.
const HOST_CLOCKS_NS: i64 = 1_000;

/// A trace with the name of its file.
#[derive(Debug)]
pub struct NamedTrace {
    /// Path as given, with the member of an archive after `!`.
    pub name: String,
    /// Name in tables: that of the file, with the folders that distinguish it from the others read
    /// with it.
    pub label: String,
    /// The trace.
    pub trace: Trace,
}

impl NamedTrace {
    /// Creates a trace labelled with its file name.
    pub fn new(name: String, trace: Trace) -> Self {
        let label = short_name(&name).to_owned();
        Self { name, label, trace }
    }
}

/// Reads a trace of any format, with progress on the terminal, and reports its issues on standard
/// error. `choose` sets the read options of the tool.
///
/// # Errors
///
/// Same as [`perfetto_reader::read`]; the errors name the file.
pub fn read(
    path: &Path,
    input: &InputArgs,
    verbosity: VerbosityArgs,
    choose: impl FnOnce(&mut ReadOptions),
) -> anyhow::Result<NamedTrace> {
    let line = ProgressLine::start("reading", verbosity);
    let (read, _) = read_quietly(path, input, verbosity, line.counter(), 0, (choose, None))?;
    drop(line);
    for warning in warnings(&read) {
        verbosity.note(warning);
    }
    Ok(read)
}

/// Takes GPU activities as they come.
pub(crate) struct Take<'t> {
    pub(crate) each: &'t mut dyn FnMut(&nsys_db::Work<'_>),
    /// If given, the calls that launched them are found, and the operators around these that can tell what kernels do.
    pub(crate) deciding: Option<Deciding<'t>>,
}

/// Reads a trace without a report; with `-v` prints the time it took. If there is a `take` and the format allows, GPU activities
/// go there and not into the trace; the second result says whether they did.
fn read_quietly(
    path: &Path,
    input: &InputArgs,
    verbosity: VerbosityArgs,
    counter: Arc<Progress>,
    clock_shift_ns: i64,
    (choose, take): (impl FnOnce(&mut ReadOptions), Option<Take<'_>>),
) -> anyhow::Result<(NamedTrace, bool)> {
    let mut options = ReadOptions::default();
    options.threads = input.threads().get();
    options.strict = input.strict;
    options.snap_ns = HOST_CLOCKS_NS;
    choose(&mut options);
    if options.compat {
        options.snap_ns = 0;
    }
    // Where outlines do not suffice, the file is read again.
    if !byte_source::remote::is_file(path) {
        options.outline = None;
    }
    let of = (&options, take);
    let (mut read, is_passed) = read_format(path, input, verbosity, counter, clock_shift_ns, of)?;
    read.trace.set_kernel_rules(options.kernel_rules);
    Ok((read, is_passed))
}

/// Reads a trace of whatever format it has.
fn read_format(
    path: &Path,
    input: &InputArgs,
    verbosity: VerbosityArgs,
    counter: Arc<Progress>,
    clock_shift_ns: i64,
    (options, take): (&ReadOptions, Option<Take<'_>>),
) -> anyhow::Result<(NamedTrace, bool)> {
    let whole = |name: String, trace: Trace| (NamedTrace::new(name, trace), false);
    if is_package(path) {
        let trace = Stage::time("read", verbosity, || database(path, verbosity))?;
        let name = path.display().to_string();
        return Ok(whole(name, trace));
    }
    if let Some((file, pid)) = nsys::process_of_copy(path) {
        let all = (options, None);
        let (read, _) = read_format(file, input, verbosity, counter, clock_shift_ns, all)?;
        let part = trace_convert::part_of_pid(&read.trace, pid);
        let part = part.with_context(|| format!("{}: no process {pid}", file.display()))?;
        let trace = trace_convert::part(&read.trace, &part)?;
        return Ok(whole(path.display().to_string(), trace));
    }
    if let Some(bytes) = fetched_bytes(path).filter(|bytes| *bytes > LARGE_COPY) {
        verbosity.note(format!(
            "note: {}: {} are fetched into a temporary folder (see TMPDIR), because a database is read by position",
            path.display(),
            cli::ByteSize::of(bytes)
        ));
    }
    if let Some(files) = rocprof::files(path) {
        let name = path.display().to_string();
        let trace = Stage::time("read", verbosity, || {
            let open = |at: usize| {
                let file: &Path = files.get(at).map_or(path, PathBuf::as_path);
                Source::open(file, &input.open_options(Some(Arc::clone(&counter))))
            };
            perfetto_reader::rocprof_csv::read(files.len(), open, options)
                .map_err(anyhow::Error::new)
        });
        return Ok(whole(name, trace?));
    }
    let (name, found) = match nsys::open_path(path)? {
        Some(found) => (path.display().to_string(), found),
        None => {
            let source = Source::open(path, &input.open_options(Some(Arc::clone(&counter))))?;
            (source.name().to_owned(), nsys::open(source, path)?)
        }
    };
    let source = match found {
        // Databases are read page by page, in place or from a decompressed copy.
        nsys::Found::Export(export, process) => {
            let load = || nsys::load(&export, process, options, clock_shift_ns, (verbosity, take));
            let (trace, is_passed) = Stage::time("read", verbosity, load)?;
            return Ok((NamedTrace::new(name, trace), is_passed));
        }
        nsys::Found::OtherDatabase => {
            let trace = Stage::time("read", verbosity, || database(path, verbosity));
            let trace = trace.map_err(of_neither)?;
            return Ok(whole(name, trace));
        }
        nsys::Found::Source(source) => *source,
    };
    let mut source = source;
    if xplane::begins(source.head(256)?) {
        let trace = Stage::time("read", verbosity, || xspace(source, options))?;
        return Ok(whole(name, trace));
    }
    let read = Stage::time("read", verbosity, || {
        let trace = perfetto_reader::read(source, options)?;
        let outlining = options.outline.as_ref();
        if outlining.is_none_or(|outlining| outlining.suffices(&trace)) {
            return Ok(trace);
        }
        drop(trace);
        let mut options = options.clone();
        options.outline = None;
        let again = Source::open(path, &input.open_options(Some(counter)))?;
        perfetto_reader::read(again, &options)
    });
    let trace = read.map_err(|error| {
        let names_the_file = error.to_string().starts_with(&name);
        let error = anyhow::Error::new(error);
        if names_the_file {
            error
        } else {
            error.context(name.clone())
        }
    })?;
    Ok(whole(name, trace))
}

/// Size from which on a temporary copy is announced, in bytes.
const LARGE_COPY: u64 = 256 << 20;

/// Returns the size of an object that is copied before it is read; `None` for all others.
fn fetched_bytes(path: &Path) -> Option<u64> {
    let name = path.to_str()?.to_ascii_lowercase();
    let is_database = [".db", ".sqlite", ".sqlite3"]
        .iter()
        .any(|end| name.ends_with(end));
    let object = is_database.then(|| byte_source::remote::stat(path).ok()?);
    Some(object??.bytes)
}

/// Reads an XSpace of JAX, XLA or TensorFlow.
fn xspace(source: Source, options: &ReadOptions) -> xplane::Result<Trace> {
    let mut load = xplane::LoadOptions::default();
    load.args = kept_args(options);
    load.categories.clone_from(&options.categories);
    load.range = options.range;
    load.places = options.places;
    xplane::read(source, &load)
}

/// Returns the keys of the arguments to keep; `None` for all.
pub(crate) fn kept_args(options: &ReadOptions) -> Option<Vec<String>> {
    match &options.args {
        ArgPolicy::All => None,
        ArgPolicy::Only(keys) => Some(keys.clone()),
        ArgPolicy::None => Some(Vec::new()),
    }
}

/// Describes a database of which nothing is known: its reader knows one of two formats.
fn of_neither(error: anyhow::Error) -> anyhow::Error {
    let Some(rocpd_db::Error::NotRocpd { name, found }) = error.downcast_ref() else {
        return error;
    };
    let found = match found.contains("Nsight Systems") {
        true => {
            "it has the strings of an export of Nsight Systems and none of the tables of events (CUPTI_ACTIVITY_KIND_*, NVTX_EVENTS, \
             OSRT_API): export the report again, with `nsys export --type sqlite REPORT.nsys-rep`"
        }
        false => *found,
    };
    anyhow::anyhow!("{name}: a SQLite database of neither rocPD nor Nsight Systems: {found}")
}

/// Reads a rocPD database, or all of a package together, and reports its issues.
fn database(path: &Path, verbosity: VerbosityArgs) -> anyhow::Result<Trace> {
    let set = rocpd_db::RocpdSet::open(&[path], &rocpd_db::OpenOptions::default())?;
    for warning in set.notes().iter().chain(set.warnings()) {
        verbosity.note(format!("warning: {warning}"));
    }
    let trace = rocpd_db::load(&set, &rocpd_db::Filter::default())?;
    for issue in set.issues() {
        verbosity.note(format!("warning: {issue}"));
    }
    Ok(trace)
}

/// Returns a warning if a file holds no event, so that its tables are empty.
pub fn nothing_inside(read: &NamedTrace) -> Option<String> {
    let trace = &read.trace;
    let is_empty = trace.is_empty() && trace.outlines().is_empty() && trace.counters().is_empty();
    is_empty.then(|| {
        format!(
            "warning: {}: the file holds no events: its tables are empty, which says nothing about the run",
            read.name
        )
    })
}

/// Returns one line per kind of issue of a trace: what is missing of it, and what is wrong with it.
pub fn warnings(read: &NamedTrace) -> Vec<String> {
    // Numbers of a trace without such a table look like those of a whole one.
    let limits = read.trace.meta().limits.iter();
    let unread = limits.filter(|limit| {
        (limit.is_reason && limit.code == "table_not_read")
            || ["bad_value", SOURCE_INCOMPLETE].contains(&limit.code)
    });
    let mut lines: Vec<String> = unread
        .map(|limit| format!("warning: {}: {}", read.name, limit.text))
        .collect();
    for issue in read.trace.diagnostics().issues() {
        // Overlapping slices are complete, on overflow tracks.
        if issue.kind.severity() == Severity::Info || issue.kind == IssueKind::Overlap {
            continue;
        }
        let first = issue.places.first();
        let what = format!("warning: {}: {}", read.name, issue.kind.explanation());
        lines.push(match (issue.count, first) {
            (1, Some(place)) => format!("{what} (at {place})"),
            (count, Some(place)) => format!("{what} ({count} times, first at {place})"),
            (count, None) => format!("{what} ({count} times)"),
        });
    }
    lines
}

/// Results of [`read_each`] for the readable traces, in the order of the paths.
#[derive(Debug)]
pub struct ReadEach<T> {
    /// One result per trace.
    pub results: Vec<T>,
    /// Error to end with after the results are written, if a trace could not be read.
    pub failed: Option<anyhow::Error>,
}

/// Reads several traces, some at once, and reduces each with `analyse`. The results do not depend
/// on the number of threads, and the number of traces in memory does not exceed it. A trace that
/// fails does not stop the others; its error is reported on standard error.
///
/// # Errors
///
/// The error of the only trace.
pub fn read_each<T: Send>(
    paths: &[PathBuf],
    input: &InputArgs,
    verbosity: VerbosityArgs,
    choose: impl Fn(&mut ReadOptions) + Sync,
    analyse: impl Fn(&NamedTrace) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<ReadEach<T>> {
    let never = || None::<()>;
    let take = |(): &mut (), _: &nsys_db::Work<'_>| {};
    let analyse = |read: &NamedTrace, _: Option<()>| analyse(read);
    let passing = (never, take, None);
    read_each_passing(paths, input, verbosity, choose, passing, analyse)
}

/// Reads several traces as [`read_each`] does. If `fresh` returns a state and the format allows, the GPU activities of a trace
/// are not kept: they go to `take` one after the other in order of start, with that state, which `analyse` then gets together
/// with the trace of the rest. With `deciding`, the calls that launched them are looked for, and the operators around these that
/// can tell what kernels do; without it, a recording that has operators is read as a trace. Memory grows by a few bytes for each
/// activity.
///
/// # Errors
///
/// The error of the only trace.
pub fn read_each_passing<T: Send, C>(
    paths: &[PathBuf],
    input: &InputArgs,
    verbosity: VerbosityArgs,
    choose: impl Fn(&mut ReadOptions) + Sync,
    (fresh, take, deciding): (
        impl Fn() -> Option<C> + Sync,
        impl Fn(&mut C, &nsys_db::Work<'_>) + Sync,
        Option<Deciding<'_>>,
    ),
    analyse: impl Fn(&NamedTrace, Option<C>) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<ReadEach<T>> {
    let line = ProgressLine::start("reading", verbosity);
    let threads = input.threads().get();
    let workers = threads.min(paths.len()).max(1);
    let names = paths.iter().map(|path| path.display().to_string());
    let short: Vec<String> = names.map(|name| short_name(&name).to_owned()).collect();
    let labels = labels(paths);
    let shifts = nsys::clock_shifts(paths, verbosity);
    let one = |at: usize, path: &PathBuf| -> anyhow::Result<(T, Vec<String>)> {
        let shift = shifts.get(at).copied().unwrap_or(0);
        let choose = |options: &mut ReadOptions| {
            options.threads = threads.div_ceil(workers);
            choose(options);
        };
        let mut state = fresh();
        let mut pass = state
            .as_mut()
            .map(|state| |work: &nsys_db::Work<'_>| take(state, work));
        let pass = pass.as_mut().map(|each| Take { each, deciding });
        let (mut read, is_passed) = read_quietly(
            path,
            input,
            verbosity,
            line.counter(),
            shift,
            (choose, pass),
        )?;
        let state = state.filter(|_| is_passed);
        // Otherwise the trace may be named after the member of an archive.
        if let Some(label) = labels.get(at).filter(|label| short.get(at) != Some(label)) {
            read.label.clone_from(label);
        }
        let _stage = Stage::start("analyse", verbosity);
        let result = analyse(&read, state).with_context(|| read.name.clone())?;
        Ok((result, warnings(&read)))
    };
    let all = in_parallel(paths, workers, one);
    drop(line);
    let mut each = ReadEach {
        results: Vec::with_capacity(all.len()),
        failed: None,
    };
    for (path, result) in paths.iter().zip(all) {
        match result {
            Ok((result, warnings)) => {
                warnings.iter().for_each(|line| verbosity.note(line));
                each.results.push(result);
            }
            Err(error) if paths.len() == 1 => return Err(error),
            Err(error) => {
                cli::complain(&error);
                // The first error determines the exit code.
                let text = format!(
                    "not all traces could be read, the last one was {}",
                    path.display()
                );
                each.failed = Some(cli::follows(text, each.failed.as_ref().unwrap_or(&error)));
            }
        }
    }
    Ok(each)
}

/// Keeps only the arguments with these keys.
pub fn only_args(options: &mut ReadOptions, keys: &[&str]) {
    options.args = ArgPolicy::Only(keys.iter().map(|key| (*key).to_owned()).collect());
}
