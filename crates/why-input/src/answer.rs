//! From paths to the answer.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use byte_source::remote;
use cli::{ProgressLine, Stage, VerbosityArgs};
use findings::{
    Companion, Document, File, Reads, Recording, RecordingOptions, Request, Role, Side, arg_keys,
    explain,
};
use perfetto_reader::ArgPolicy;
use trace_model::parallel::in_parallel;

use crate::{Question, sniff};

/// A recording to read.
struct Source {
    path: PathBuf,
    side: Side,
}

/// What the paths of a side are.
#[derive(Default)]
struct Inputs {
    traces: Vec<Source>,
    files: Vec<File>,
    block_io: Vec<PathBuf>,
    clocks: Vec<PathBuf>,
    /// Logs of GPUs and engines.
    logs: Vec<(PathBuf, Role, Side)>,
}

/// Answers a question. `command` is the command line that asks it, which is part of the answer.
///
/// # Errors
///
/// Returns an error if nothing that was given can be read, or nothing is chosen.
pub fn answer(question: &Question, command: String) -> anyhow::Result<Document> {
    if let Some(document) = tables(question, &command) {
        return Ok(document);
    }
    let mut inputs = Inputs::default();
    let sides: [(Side, &[PathBuf]); 3] = [
        (Side::Only, &question.paths),
        (Side::Baseline, &question.baseline),
        (Side::Candidate, &question.candidate),
    ];
    for (side, paths) in sides {
        find(&mut inputs, side, paths, question)?;
    }
    let storage = match question.no_join {
        true => None,
        false => storage(&mut inputs),
    };
    let logs = match question.no_join {
        true => Vec::new(),
        false => logs(&mut inputs),
    };
    let options = RecordingOptions {
        step_pattern: question.step_pattern.clone(),
        whole: false,
    };
    let read = Stage::time("read", question.verbosity, || {
        read(&inputs.traces, question, &options)
    });
    let read = match question.no_join {
        true => read,
        false => join_captures(read, &inputs.traces, question, &options),
    };
    let replaying: Vec<(u32, Side)> = read
        .iter()
        .zip(&inputs.traces)
        .filter_map(|(result, source)| Some((result.as_ref().ok()?, source.side)))
        .filter(|(recording, _)| recording.replays_graphs())
        .map(|(recording, side)| (recording.rank(), side))
        .collect();
    let mut recordings = Vec::new();
    let mut taken: Vec<Side> = Vec::new();
    // Without anything that could be read there is no answer to give.
    let is_all_unread = !read.is_empty() && read.iter().all(Result::is_err);
    let has_others = !inputs.files.is_empty();
    for (source, result) in inputs.traces.iter().zip(read) {
        let mut file = File {
            name: source.path.display().to_string(),
            side: source.side,
            bytes: size(&source.path),
            ..File::default()
        };
        match result {
            Ok(mut recording) => {
                recording.set_side(source.side);
                let rank = question
                    .rank_of
                    .iter()
                    .find(|(name, _)| is_file(&source.path, name));
                if let Some((_, rank)) = rank {
                    recording.set_rank(*rank);
                }
                file.format = recording.format().to_owned();
                file.rank = Some(recording.rank());
                let is_replayed = replaying.contains(&(recording.rank(), source.side));
                match recording.no_gpu_work() {
                    // The capture of what another recording replays.
                    Some(_) if is_replayed && !recording.replays_graphs() => {
                        file.role = Role::Capture;
                    }
                    Some(text) => file.problem = Some(text.to_owned()),
                    None => {}
                }
                let is_wanted = question.rank.is_none_or(|rank| rank == recording.rank());
                let is_first = is_wanted && !taken.contains(&source.side);
                if question.no_join && recording.has_gpu_work() && !is_first {
                    file.role = Role::Unused;
                    file.problem = Some("not joined (--no-join): ask about it alone".to_owned());
                } else {
                    if recording.has_gpu_work() {
                        taken.push(source.side);
                    }
                    recordings.push(recording);
                }
            }
            Err(error) => {
                if question.input.strict || (is_all_unread && !has_others) {
                    return Err(of_all(error, &inputs.traces));
                }
                file.role = Role::Unused;
                // The file is named beside its problem.
                let text = one_line(&error);
                let own = text.strip_prefix(&format!("{}: ", file.name));
                file.problem = Some(own.unwrap_or(&text).to_owned());
                question
                    .verbosity
                    .note(format!("warning: not used: {}", one_line(&error)));
            }
        }
        inputs.files.push(file);
    }
    let all = [&question.paths, &question.baseline, &question.candidate];
    let request = Request {
        command,
        paths: all
            .into_iter()
            .flatten()
            .map(|path| path.display().to_string())
            .collect(),
        files: inputs.files,
        choice: question.choice(),
        assumed: Vec::new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        storage,
        logs,
    };
    let document = Stage::time("explain", question.verbosity, || {
        explain(recordings, &request)
    });
    document.map_err(|error| cli::usage(error.to_string()))
}

/// Returns the error of the first file, with the number of others that could not be read either.
fn of_all(error: anyhow::Error, sources: &[Source]) -> anyhow::Error {
    match sources.len() {
        0 | 1 => error,
        n => error.context(format!(
            "none of {n} files could be read; the first of them"
        )),
    }
}

/// Answers for two sides that are tables of cycles or samples; `None` if they are not.
fn tables(question: &Question, command: &str) -> Option<Document> {
    let ([baseline], [candidate]) = (question.baseline.as_slice(), question.candidate.as_slice())
    else {
        return None;
    };
    let has_table = |path: &Path| match path.is_dir() {
        true => {
            let entries = std::fs::read_dir(path).ok()?;
            let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            names.find(|name| name.contains("_perf_data.csv"))
        }
        false => path
            .to_string_lossy()
            .contains(".csv")
            .then(|| path.display().to_string()),
    };
    has_table(baseline).and(has_table(candidate))?;
    let options = perf_compare::LoadOptions::default();
    let load = |path: &Path| perf_compare::load(path, &options).ok();
    let (one, two) = (load(baseline)?, load(candidate)?);
    let file = |path: &Path, side| File {
        name: path.display().to_string(),
        format: "tables of cycles".to_owned(),
        role: Role::Samples,
        side,
        ..File::default()
    };
    let request = Request {
        command: command.to_owned(),
        paths: [baseline, candidate]
            .map(|path| path.display().to_string())
            .to_vec(),
        files: vec![
            file(baseline, Side::Baseline),
            file(candidate, Side::Candidate),
        ],
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Request::default()
    };
    Some(findings::explain_tables(&one, &two, &request))
}

/// Returns `true` for the names of tables that [`tables`] reads.
fn is_table(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.contains("_perf_data.csv") || name.contains("_counters_data.csv"))
}

/// Returns the size of a file or an object; 0 if it is not known.
fn size(path: &Path) -> u64 {
    match remote::stat(path) {
        Ok(Some(object)) => object.bytes,
        _ => path.metadata().map_or(0, |meta| meta.len()),
    }
}

/// Returns `true` if a name given by the user means this file.
fn is_file(path: &Path, name: &str) -> bool {
    path == Path::new(name) || path.file_name().is_some_and(|own| own == name)
}

fn find(
    inputs: &mut Inputs,
    side: Side,
    paths: &[PathBuf],
    question: &Question,
) -> anyhow::Result<()> {
    let mut traces: Vec<PathBuf> = Vec::new();
    let mut others: Vec<(PathBuf, Role)> = Vec::new();
    let mut plain: Vec<PathBuf> = Vec::new();
    for path in paths {
        let is_pattern = path.to_string_lossy().contains(['*', '?']) && !remote::exists(path);
        match is_pattern {
            true => plain.extend(byte_source::expand_inputs([path], |_| true)?),
            false => plain.push(path.clone()),
        }
    }
    for path in plain {
        if remote::is_dir(&path) {
            let beside = sniff::others_in(&path);
            let roles = beside.into_iter().filter_map(|path| {
                let role = match sniff::role(&path) {
                    // A text that is no log: named, so that nobody believes that it was used.
                    Role::Trace if sniff::is_text(&path) => Role::Unused,
                    Role::Trace => return None,
                    role => role,
                };
                Some((path, role))
            });
            let roles: Vec<(PathBuf, Role)> = roles.collect();
            let clock = path.join("clock.json");
            inputs
                .clocks
                .extend(remote::is_file(&clock).then_some(clock));
            let denied = sniff::unreadable_in(&path);
            if question.input.strict
                && let Some((folder, reason)) = denied.first()
            {
                anyhow::bail!("{}: {reason}", folder.display());
            }
            let found = match denied.is_empty() {
                true => trace_input::expand_ranks(&[path], question.verbosity),
                false => around(&path, &denied, question.verbosity),
            };
            match found {
                Ok(found) => traces.extend(found),
                // A folder may hold logs alone.
                Err(_) if !roles.is_empty() => {}
                Err(error) => return Err(error),
            }
            for (folder, reason) in denied {
                question
                    .verbosity
                    .note(format!("warning: not used: {}: {reason}", folder.display()));
                inputs.files.push(File {
                    name: folder.display().to_string(),
                    role: Role::Unused,
                    side,
                    problem: Some(reason),
                    ..File::default()
                });
            }
            others.extend(roles);
            continue;
        }
        match sniff::role(&path) {
            Role::Trace => {
                // What cannot be opened is reported by its reader.
                let found =
                    trace_input::expand_ranks(std::slice::from_ref(&path), question.verbosity);
                match found {
                    Ok(found) => traces.extend(found),
                    Err(error) if question.input.strict => return Err(error),
                    Err(_) => traces.push(path),
                }
            }
            role => others.push((path, role)),
        }
    }
    inputs
        .traces
        .extend(traces.into_iter().map(|path| Source { path, side }));
    for (path, role) in others {
        if path.file_name().is_some_and(|name| name == "clock.json") {
            inputs.clocks.push(path);
            continue;
        }
        let problem = match role {
            Role::BlockIo | Role::GpuLog | Role::EngineLog if question.no_join => {
                Some("not joined with the recordings (--no-join)")
            }
            Role::BlockIo => None,
            Role::GpuLog | Role::EngineLog => {
                inputs.logs.push((path.clone(), role, side));
                None
            }
            Role::Samples => Some(
                "results of a benchmark or metrics: compare two with 'inferscope perf-compare'",
            ),
            _ if is_table(&path) => Some(
                "a table of cycles or samples: give the slower side with --candidate and the other one with --baseline",
            ),
            _ => Some("no recording, and no log that is used beside one"),
        };
        if role == Role::BlockIo {
            inputs.block_io.push(path.clone());
        }
        inputs.files.push(File {
            name: path.display().to_string(),
            role,
            side,
            bytes: size(&path),
            problem: problem.map(str::to_owned),
            ..File::default()
        });
    }
    Ok(())
}

/// Returns the traces of a folder of which some folders cannot be listed.
fn around(
    folder: &Path,
    denied: &[(PathBuf, String)],
    verbosity: VerbosityArgs,
) -> anyhow::Result<Vec<PathBuf>> {
    let is_around = |path: &Path| denied.iter().any(|(own, _)| own.starts_with(path));
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    entries.sort();
    let mut found = Vec::new();
    for path in entries {
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_hidden || denied.iter().any(|(own, _)| *own == path) {
            continue;
        }
        match (path.is_dir(), is_around(&path)) {
            (true, true) => found.extend(around(&path, denied, verbosity)?),
            // Folders without traces are no error beside others.
            (true, false) => {
                found.extend(trace_input::expand_ranks(&[path], verbosity).unwrap_or_default());
            }
            (false, _) if trace_input::is_trace(&path) && !trace_input::without_events(&path) => {
                found.extend(trace_input::expand_ranks(&[path], verbosity)?);
            }
            (false, _) => {}
        }
    }
    Ok(found)
}

/// Returns the files of the first block I/O log: those by processor are one.
fn first_log(logs: &[PathBuf]) -> Vec<PathBuf> {
    let recording = |path: &Path| {
        let (name, _) = blkio_companions::parts::part(path)?;
        Some(path.with_file_name(name))
    };
    let Some(first) = logs.first() else {
        return Vec::new();
    };
    let own = recording(first);
    let is_own = |path: &&PathBuf| *path == first || (own.is_some() && recording(path) == own);
    logs.iter().filter(is_own).cloned().collect()
}

/// Reads the first block I/O log; others are named as not used.
fn storage(inputs: &mut Inputs) -> Option<Reads> {
    let paths = first_log(&inputs.block_io);
    let path = paths.first()?.clone();
    let beside = path.with_file_name("clock.json");
    let clock = match remote::is_file(&beside) {
        true => Some(beside),
        false => inputs.clocks.first().cloned(),
    };
    let clock = clock.and_then(|path| remote::read(&path).ok());
    let found = Reads::new(&paths, clock.as_deref());
    let name = path.display().to_string();
    let mut set = |name: &str, problem: String| {
        if let Some(file) = inputs.files.iter_mut().find(|file| file.name == name) {
            file.problem = Some(problem);
        }
    };
    for other in inputs
        .block_io
        .iter()
        .filter(|other| !paths.contains(other))
    {
        set(
            &other.display().to_string(),
            "one block I/O log is used, the first one given".to_owned(),
        );
    }
    match found {
        Ok(reads) => {
            if let Some(problem) = reads.problem() {
                set(&name, problem.to_owned());
            }
            Some(reads).filter(|reads| reads.problem().is_none())
        }
        Err(error) => {
            set(&name, error);
            None
        }
    }
}

/// Maximum number of bytes of a log that are read.
const LOG_BYTES: u64 = 1 << 30;

fn whole(path: &Path) -> anyhow::Result<Vec<u8>> {
    let source = byte_source::Source::open(path, &byte_source::OpenOptions::default())?;
    let mut bytes = Vec::new();
    source
        .into_read()?
        .take(LOG_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the logs of GPUs and engines; those that cannot be read are named with the reason.
fn logs(inputs: &mut Inputs) -> Vec<Companion> {
    let mut out = Vec::new();
    for (path, role, side) in &inputs.logs {
        let name = path.display().to_string();
        let read = whole(path).map_err(|error| error.to_string());
        let found = read.and_then(|bytes| match role {
            Role::GpuLog => Companion::gpu(&name, *side, &bytes),
            _ => Companion::engine(&name, *side, &String::from_utf8_lossy(&bytes)),
        });
        match found {
            Ok(log) => out.push(log),
            Err(error) => {
                let mut files = inputs.files.iter_mut();
                if let Some(file) = files.find(|file| file.name == name) {
                    let own = error.strip_prefix(&format!("{name}: "));
                    file.problem = Some(own.unwrap_or(&error).to_owned());
                }
            }
        }
    }
    out
}

/// Reads recordings, several at once, and keeps of each what the answer needs. The results are in the order of the sources.
fn read(
    sources: &[Source],
    question: &Question,
    options: &RecordingOptions,
) -> Vec<anyhow::Result<Recording>> {
    let (workers, input) = question.input.shared_by(sources.len());
    let quiet = VerbosityArgs {
        quiet: true,
        verbose: false,
    };
    let line = ProgressLine::start("reading", question.verbosity);
    let counter = line.counter();
    let bytes = |source: &Source| size(&source.path);
    counter.add_total(sources.iter().map(bytes).sum());
    let one = |source: &Source| -> anyhow::Result<Recording> {
        let read = trace_input::read(&source.path, &input, quiet, |options| {
            options.args = ArgPolicy::Only(arg_keys().into_iter().collect());
            options.kernel_rules = question.classes.rules();
        })?;
        let name = source.path.display().to_string();
        Ok(Recording::new(&name, &read.trace, options))
    };
    let read = in_parallel(sources, workers, |_, source| {
        let read = one(source);
        counter.add_done(bytes(source));
        read
    });
    drop(line);
    read
}

/// Maximum number of captures of one rank: each is read again for each of its replays.
const CAPTURES: usize = 4;

/// Reads recordings that replay graphs again, together with the captures of the same rank, which hold the sizes of operators.
fn join_captures(
    mut read: Vec<anyhow::Result<Recording>>,
    sources: &[Source],
    question: &Question,
    options: &RecordingOptions,
) -> Vec<anyhow::Result<Recording>> {
    let captures: Vec<(usize, u32, Side, bool)> = read
        .iter()
        .zip(sources)
        .enumerate()
        .filter_map(|(at, (result, source))| {
            let recording = result.as_ref().ok().filter(|r| !r.replays_graphs())?;
            Some((at, recording.rank(), source.side, recording.is_capture()))
        })
        .collect();
    let quiet = VerbosityArgs {
        quiet: true,
        verbose: false,
    };
    let open = |path: &Path| {
        trace_input::read(path, &question.input, quiet, |options| {
            options.args = ArgPolicy::Only(arg_keys().into_iter().collect());
            options.kernel_rules = question.classes.rules();
        })
    };
    for (at, source) in sources.iter().enumerate() {
        let Some(Ok(recording)) = read.get(at) else {
            continue;
        };
        let rank = recording.rank();
        let own = captures
            .iter()
            .filter(|(_, of, side, _)| *of == rank && *side == source.side);
        let mut own: Vec<(usize, bool)> = own.map(|(at, _, _, is)| (*at, *is)).collect();
        // Many recordings of one rank are sessions of their own, of which only those that capture belong to a replay.
        if own.len() > CAPTURES {
            own.retain(|(_, is_capture)| *is_capture);
            own.truncate(CAPTURES);
        }
        let own: Vec<usize> = own.into_iter().map(|(at, _)| at).collect();
        if !recording.replays_graphs() || own.is_empty() {
            continue;
        }
        let opened: Vec<_> = own
            .iter()
            .filter_map(|at| open(&sources.get(*at)?.path).ok())
            .collect();
        let traces: Vec<_> = opened.iter().map(|named| &named.trace).collect();
        let name = source.path.display().to_string();
        if let (Ok(named), Some(slot)) = (open(&source.path), read.get_mut(at)) {
            *slot = Ok(Recording::with_captures(
                &name,
                &named.trace,
                &traces,
                options,
            ));
        }
    }
    read
}

fn one_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
