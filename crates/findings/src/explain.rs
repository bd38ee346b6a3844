//! From recordings to the answer.

use std::collections::BTreeMap;

use critical_path::{Change, Group};

use crate::beside::{Beside, Companion};
use crate::catalogue::{Catalogue, KindRole};
use crate::document::{
    Answer, Appendix, Confidence, Document, File, Finding, Missing, Next, Note, Role,
    SCHEMA_VERSION, Scope, Shape, Side, Trust,
};
use crate::draft::{Draft, Gain};
use crate::family::{Context, drafts};
use crate::job::{Choice, Job, NoJob, Phase, note};
use crate::numbers::{interval, share};
use crate::recording::Recording;
use crate::{budget, comparison, figures, sentence, words};

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The command line.
    pub command: String,
    /// Paths as given, for the commands that the answer proposes.
    pub paths: Vec<String>,
    /// Files, also those that are not used, with the reason.
    pub files: Vec<File>,
    /// What was chosen.
    pub choice: Choice,
    /// What was assumed about what belongs together.
    pub assumed: Vec<String>,
    /// Version of the tool.
    pub version: String,
    /// Storage beside the recordings.
    pub storage: Option<crate::storage::Reads>,
    /// Logs of GPUs and engines beside the recordings.
    pub logs: Vec<Companion>,
}

/// The choice takes nothing; the text lists what could be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NothingChosen(pub String);

impl std::fmt::Display for NothingChosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for NothingChosen {}

/// Answers why the steps of recordings take as long as they do.
///
/// Cost: the graph of all ranks, two replays, and one for each finding.
///
/// # Errors
///
/// Returns an error if the choice takes no step.
pub fn explain(recordings: Vec<Recording>, request: &Request) -> Result<Document, NothingChosen> {
    let catalogue = Catalogue::builtin();
    let mut document = Document {
        schema_version: SCHEMA_VERSION,
        scope: scope(request),
        appendix: Appendix {
            version: request.version.clone(),
            command: request.command.clone(),
            rules: Vec::new(),
            confidence: catalogue.confidence(),
        },
        ..Document::default()
    };
    let without: Vec<(String, gpu_time::Recorder)> = recordings
        .iter()
        .filter_map(|recording| Some((recording.facts.no_work.clone()?, recording.facts.recorder)))
        .collect();
    let read = recordings.len();
    let lost = recordings
        .iter()
        .map(|recording| recording.facts.lost)
        .sum();
    let notes: Vec<Note> = recordings
        .iter()
        .flat_map(|recording| {
            let name = recording.name();
            let notes = recording.facts.notes.iter();
            notes.map(move |(kind, text)| note(kind, &format!("{name}: {text}")))
        })
        .collect();
    let mut sides: BTreeMap<Side, Vec<Recording>> = BTreeMap::new();
    for recording in recordings {
        if recording.has_gpu_work() {
            sides
                .entry(recording.facts.side)
                .or_default()
                .push(recording);
        }
    }
    let mut jobs = Vec::new();
    for (_, list) in sides {
        let (list, foreign) = of_one_job(list);
        for (name, why) in foreign {
            let mut files = document.scope.files.iter_mut();
            if let Some(file) = files.find(|file| file.name == name) {
                file.role = Role::Unused;
                file.problem = Some(format!("of another job: {why}"));
            }
        }
        let (list, captures) = without_captures(list);
        for name in captures {
            let mut files = document.scope.files.iter_mut();
            if let Some(file) = files.find(|file| file.name == name) {
                file.role = Role::Capture;
            }
        }
        if let [only] = list.as_slice()
            && only.is_capture()
        {
            cannot_say(
                &mut document,
                "this is the recording of a graph capture, whose launches ran on no GPU; give it together with the recording that replays the graph",
            );
            continue;
        }
        match Job::new(list, &request.choice) {
            Ok(job) => jobs.push(job),
            Err(NoJob::NothingChosen(text)) => return Err(NothingChosen(text)),
            Err(NoJob::NoSteps(text)) => cannot_say(&mut document, &text),
            Err(NoJob::SeveralJobs(text)) => {
                let text = format!(
                    "{text}; give the recordings of one job, or --baseline and --candidate for two"
                );
                cannot_say(&mut document, &text);
            }
        }
    }
    let is_pair = document_is_pair(&request.files);
    if jobs.is_empty() || (is_pair && jobs.len() < 2) {
        if document.answer.sentence.is_empty() {
            let text = match without.first() {
                Some((text, _)) => text.clone(),
                None => none_read(&request.files),
            };
            cannot_say(&mut document, &text);
        }
        // Only what was read and holds no GPU activity lacks it.
        let gpu = without.first();
        document
            .not_recorded
            .extend(gpu.map(|(_, recorder)| Missing {
                what: "GPU activity".to_owned(),
                decides: "what the steps take their time for".to_owned(),
                record: gpu_time::Lack::HostEvents.how(*recorder).to_owned(),
            }));
        document.trust.files = read as u64;
        document.trust.events_lost = lost;
        document.trust.notes = notes;
        document.trust.notes.extend(unreadable(&request.files));
        return Ok(document);
    }
    let paths = paths(request);
    let mut kinds: Vec<String> = Vec::new();
    let mut ranked: Vec<(Finding, i64)> = Vec::new();
    let mut of_last = Vec::new();
    for job in &jobs {
        document.scope.assumed.extend(joined(job));
    }
    if let Some(reads) = &request.storage
        && !jobs.iter().any(|job| reads.meets(job))
    {
        let mut files = document.scope.files.iter_mut();
        if let Some(file) = files.find(|file| file.name == reads.name()) {
            file.problem = Some(
                "no read of it lies in the steps, or the recording states no wall time".to_owned(),
            );
        }
    }
    for job in &jobs {
        let logs = logs_of(job, request, &mut document);
        let context = Context {
            job,
            catalogue,
            reads: request.storage.as_ref(),
            logs: &logs,
            captures: captures(&document.scope.files, job.side),
            traces: match is_pair || !are_only_traces(request, job) {
                true => own_paths(job),
                false => paths.clone(),
            },
        };
        let found = findings(&context);
        kinds.extend(found.iter().map(|(finding, _)| finding.kind.clone()));
        ranked.extend(found);
        document.budget.extend(budget::budgets(job, catalogue));
        of_last = logs;
    }
    // The side that the answer is about comes first.
    ranked.sort_by(|(a, a_ns), (b, b_ns)| {
        let side = |finding: &Finding| std::cmp::Reverse(finding.place.side);
        side(a)
            .cmp(&side(b))
            .then_with(|| b_ns.cmp(a_ns))
            .then_with(|| b.share_pct.total_cmp(&a.share_pct))
            .then_with(|| a.id.cmp(&b.id))
    });
    document.findings = ranked.into_iter().map(|(finding, _)| finding).collect();
    document.total = document.findings.len() as u64;
    document.appendix.rules = catalogue.rules(kinds.iter().map(String::as_str));
    let Some(job) = jobs.last() else {
        return Ok(document);
    };
    document.trust = trust(job, &document.scope.files);
    for log in &of_last {
        let problem = log.problem(job).into_iter();
        let notes = problem.map(|problem| note("gpu_log", &format!("{}: {problem}", log.name)));
        document.trust.notes.extend(notes);
        let within = document.trust.clocks_within_ns.unwrap_or(0);
        document.trust.clocks_within_ns = Some(within.max(log.within_ns));
    }
    if let Some(reads) = request.storage.as_ref().filter(|reads| reads.meets(job)) {
        let within = document.trust.clocks_within_ns.unwrap_or(0);
        document.trust.clocks_within_ns = Some(within.max(reads.within_ns()));
    }
    document.trust.files = jobs.iter().map(|job| job.facts.len() as u64).sum();
    document.not_recorded = missing(job, catalogue);
    match jobs.as_slice() {
        [baseline, candidate] => {
            let (answer, comparison) =
                comparison::compare(baseline, candidate, catalogue, &document.findings);
            document.answer = answer;
            document.comparison = comparison;
        }
        _ => {
            document.answer =
                sentence::answer(job, catalogue, &document.findings, &document.not_recorded);
            if let Some(slowest) = &job.slowest {
                let sentence = &mut document.answer.sentence;
                *sentence = format!("{} {sentence}", slowest.text());
            }
        }
    }
    for facts in jobs.iter().flat_map(|job| &job.facts) {
        let mut files = document.scope.files.iter_mut();
        if let Some(file) = files.find(|file| file.name == facts.name) {
            file.rank = Some(facts.rank);
            file.clock_shift_ns = Some(facts.clock_shift_ns);
        }
    }
    document.figures = figures::figures(&jobs, request, &of_last);
    document.next = next(&document, &paths);
    Ok(document)
}

/// Returns why nothing was read, by the first file that was not used.
fn none_read(files: &[File]) -> String {
    let problem_of = |file: &File| Some((file.name.clone(), file.problem.clone()?));
    let unread = |(name, problem): (String, String)| {
        let name = crate::numbers::plain(&name, 200);
        format!("no recording could be read; {name}: {problem}")
    };
    let mut traces = files.iter().filter(|file| file.role == Role::Trace);
    if let Some(found) = traces.find_map(problem_of) {
        return unread(found);
    }
    // A log is read beside a recording: whatever else lies there, this is what was given.
    let read = files.iter().filter(|file| file.problem.is_none());
    let mut read: Vec<&File> = read.filter(|file| file.role != Role::Trace).collect();
    read.sort_by_key(|file| matches!(file.role, Role::Unused));
    if let Some(file) = read.first() {
        let name = crate::numbers::plain(&file.name, 200);
        let what = match file.role {
            Role::BlockIo => {
                "a log of block I/O, which inferscope blkio stats reads alone and which"
            }
            Role::GpuLog => "a log of GPU utilisation, which",
            Role::EngineLog => "a log of an engine, which",
            Role::Capture => "a capture of graphs, which",
            _ => "no trace, and it",
        };
        return format!(
            "no recording of steps is given: {name} is {what} is read here beside one; give a trace of the same time as well"
        );
    }
    files
        .iter()
        .find_map(problem_of)
        .map_or_else(|| "no recording could be read".to_owned(), unread)
}

/// Returns what was assumed about recordings of several ranks.
fn joined(job: &Job) -> Option<String> {
    let ranks: Vec<String> = job
        .facts
        .iter()
        .map(|facts| facts.rank.to_string())
        .collect();
    (ranks.len() > 1).then(|| {
        format!(
            "{} recordings are ranks {} of one job",
            ranks.len(),
            ranks.join(", ")
        )
    })
}

/// Puts the logs of a side on the clock of its job. Those that cannot be placed are named with the reason.
fn logs_of<'a>(job: &Job, request: &'a Request, document: &mut Document) -> Vec<Beside<'a>> {
    let mut out = Vec::new();
    for log in request.logs.iter().filter(|log| log.is_of(job.side)) {
        match log.on(job) {
            Ok(beside) => {
                let text = format!(
                    "{}: {}; on the clock of the recording within {}",
                    beside.name,
                    beside.how,
                    crate::numbers::time(beside.within_ns)
                );
                document.scope.assumed.push(text);
                out.push(beside);
            }
            Err(problem) => {
                let mut files = document.scope.files.iter_mut();
                if let Some(file) = files.find(|file| file.name == log.name()) {
                    file.problem = Some(problem);
                }
            }
        }
    }
    out
}

/// Leaves out recordings whose world size is not that of most. Returns the others, and names of those left out with the reason.
fn of_one_job(list: Vec<Recording>) -> (Vec<Recording>, Vec<(String, String)>) {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for world in list
        .iter()
        .filter_map(|recording| recording.facts.world_size)
    {
        *counts.entry(world).or_default() += 1;
    }
    let most = counts
        .iter()
        .max_by_key(|(world, count)| (**count, **world));
    let Some(most) = most.map(|(world, _)| *world) else {
        return (list, Vec::new());
    };
    let (mut kept, mut foreign) = (Vec::new(), Vec::new());
    for recording in list {
        let why = match recording.facts.world_size {
            Some(world) if world != most => format!("its world size is {world}"),
            // All ranks of a job are recorded alike.
            None if most > 1 => {
                format!("it states no world size, and the others are of a job of {most} ranks")
            }
            _ => {
                kept.push(recording);
                continue;
            }
        };
        foreign.push((recording.name().to_owned(), why));
    }
    (kept, foreign)
}

/// Leaves out recordings of a rank that is recorded twice, once replaying graphs and once not: those without are captures.
/// Returns the others, and the names of those left out.
fn without_captures(list: Vec<Recording>) -> (Vec<Recording>, Vec<String>) {
    let replays = Recording::replays_graphs;
    let replaying: Vec<u32> = list
        .iter()
        .filter(|r| replays(r))
        .map(Recording::rank)
        .collect();
    let (mut kept, mut captures) = (Vec::new(), Vec::new());
    for recording in list {
        match replays(&recording) || !replaying.contains(&recording.rank()) {
            true => kept.push(recording),
            false => captures.push(recording.name().to_owned()),
        }
    }
    (kept, captures)
}

fn document_is_pair(files: &[File]) -> bool {
    files.iter().any(|file| file.side == Side::Candidate)
}

fn scope(request: &Request) -> Scope {
    Scope {
        files: request.files.clone(),
        steps: request.choice.steps,
        window_ns: request.choice.window_ns,
        phase: request.choice.phase.clone(),
        rank: request.choice.rank,
        assumed: request.assumed.clone(),
    }
}

fn cannot_say(document: &mut Document, text: &str) {
    document.answer = Answer {
        shape: Shape::CannotSay,
        sentence: match text.ends_with(['.', '?']) {
            true => format!("Cannot say: {text}"),
            false => format!("Cannot say: {text}."),
        },
        ..Answer::default()
    };
}

/// Returns the paths for commands: those given.
fn paths(request: &Request) -> String {
    let quoted: Vec<String> = request
        .paths
        .iter()
        .map(|path| words::quoted(path))
        .collect();
    quoted.join(" ")
}

/// Returns `true` if the paths given hold the recordings of the job and nothing else: other tools take them then.
fn are_only_traces(request: &Request, job: &Job) -> bool {
    request.logs.is_empty()
        && request.storage.is_none()
        && request.files.len() == job.facts.len()
        && request.files.iter().all(|file| file.role == Role::Trace)
}

/// Returns the captures of a side as arguments of a command.
fn captures(files: &[File], side: Side) -> Vec<String> {
    let own = files
        .iter()
        .filter(|file| file.role == Role::Capture && file.side == side);
    own.map(|file| words::quoted(&file.name)).collect()
}

fn own_paths(job: &Job) -> String {
    let quoted: Vec<String> = job
        .facts
        .iter()
        .map(|facts| words::quoted(&facts.name))
        .collect();
    quoted.join(" ")
}

/// Smallest share of the time of all phases from which a phase has findings, in percent.
const LEAST_PHASE: f64 = 2.0;

/// Maximum number of drafts whose gain is replayed.
const REPLAYED: usize = 32;

fn findings(context: &Context<'_>) -> Vec<(Finding, i64)> {
    let job = context.job;
    let all: i64 = job.phases.iter().map(|phase| phase.total_ns).sum();
    let mut found: Vec<(Draft, &Phase)> = Vec::new();
    for phase in &job.phases {
        if share(phase.total_ns, all) < LEAST_PHASE {
            continue;
        }
        found.extend(
            drafts(context, phase)
                .into_iter()
                .map(|draft| (draft, phase)),
        );
    }
    found.retain(|(draft, phase)| draft.reported(context.catalogue, phase).is_some());
    found.sort_by_key(|(draft, _)| std::cmp::Reverse(draft.total_ns()));
    found.truncate(REPLAYED);
    // Equal changes are replayed once.
    let mut changes: Vec<Change> = Vec::new();
    let places: Vec<Option<usize>> = found
        .iter()
        .map(|(draft, _)| {
            let Gain::Replay { change, .. } = &draft.gain else {
                return None;
            };
            let known = changes.iter().position(|known| known == change);
            Some(known.unwrap_or_else(|| {
                changes.push(change.clone());
                changes.len() - 1
            }))
        })
        .collect();
    let predicted = job.predict(&changes);
    let each = found.into_iter().zip(places);
    let finished = each.filter_map(|((mut draft, phase), place)| {
        let kind = context.catalogue.kind(draft.kind)?;
        let new = place.and_then(|place| predicted.get(place));
        if new.is_some_and(|new| !new.touches_something) {
            draft.gain = Gain::Unknown;
        }
        let gain_ns: i64 = match (&draft.gain, new) {
            (Gain::Cost, _) => draft.total_ns(),
            (Gain::CostPart(part), _) => crate::numbers::part_of(draft.total_ns(), *part),
            (Gain::Replay { is_capped, .. }, Some(new)) => {
                // Of the affected steps if it is capped by their cost, else of all.
                let gain_of = |at: usize| {
                    let row = &job.steps[at].row;
                    new.gain_ns(row)
                };
                let own = match is_capped {
                    true => {
                        let values = draft.values.iter();
                        values
                            .map(|(at, ns)| gain_of(*at).clamp(0, (*ns).max(0)))
                            .sum()
                    }
                    false => phase
                        .steps
                        .iter()
                        .map(|at| gain_of(*at))
                        .sum::<i64>()
                        .max(0),
                };
                // What the step behind takes over is no gain.
                let all: i64 = (0..job.steps.len()).map(gain_of).sum();
                own.min(all.max(0))
            }
            _ => 0,
        };
        draft.explain_gain(job, phase, gain_ns);
        // The replay also takes what a function does between launches, which is no part of what is told of it.
        let gain_ns = match draft.kind {
            "host_bound" => gain_ns.min(draft.total_ns()),
            _ => gain_ns,
        };
        Some((draft.finish(kind, job, phase, gain_ns), gain_ns))
    });
    finished.collect()
}

/// Returns `true` for findings that may be the answer as a cause.
pub(crate) fn is_cause(catalogue: &Catalogue, finding: &Finding) -> bool {
    let role = catalogue.kind(&finding.kind).map(|kind| kind.role);
    role == Some(KindRole::Cause) && finding.confidence >= Confidence::Likely
}

fn trust(job: &Job, files: &[File]) -> Trust {
    let world = job.facts.iter().filter_map(|facts| facts.world_size).max();
    let present: Vec<u32> = job.facts.iter().map(|facts| facts.rank).collect();
    let missing = world.map_or_else(Vec::new, |world| {
        let all = 0..world.min(4_096);
        all.filter(|rank| !present.contains(rank)).collect()
    });
    let used = match job.focus {
        Some(_) => 1,
        None => job.steps.iter().filter(|step| step.is_used).count(),
    };
    let all = job.graph.steps(job.at).len();
    let clocks = job.comm.clocks.iter().flatten();
    let clocks = clocks.filter(|clock| clock.fit.samples > 0);
    let main = job.phases.first();
    let times = main.map(|phase| interval(job.of(phase).map(|step| step.row.duration_ns)));
    let half = times.filter(|_| main.is_some_and(|phase| phase.steps.len() > 1));
    let half = half.map(|times| (times.high - times.low) / 2);
    let replay = &job.analysis.replay;
    let mut notes: Vec<Note> = Vec::new();
    for facts in &job.facts {
        for (kind, text) in &facts.notes {
            let text = match job.facts.len() {
                1 => text.clone(),
                _ => format!("rank {} ({}): {text}", facts.rank, facts.name),
            };
            notes.push(note(kind, &text));
        }
    }
    let doubts = critical_path::doubts(&job.analysis).into_iter();
    notes.extend(doubts.map(|doubt| note(doubt.code, &doubt.text)));
    notes.extend(job.notes.iter().cloned());
    // What is not in the answer comes first.
    notes.splice(0..0, unreadable(files));
    let slowed = job.headline_facts().recorder_pct;
    if slowed >= crate::draft::SLOWED_PCT {
        let text = format!(
            "recording the host's events took about {} of the time (1 us each): host and launch times are upper bounds",
            crate::numbers::pct(slowed)
        );
        notes.insert(0, note("recorder_overhead", &text));
    }
    let cut: i64 = job
        .steps
        .iter()
        .filter(|step| step.row.flags.contains(&critical_path::Flag::Queued))
        .map(|step| (step.row.begin_ns - step.row.host_begin_ns).max(0))
        .sum();
    let total: i64 = job.phases.iter().map(|phase| phase.total_ns).sum();
    if share(cut, total) >= 10.0 {
        let text = format!(
            "{} before the begin of a step are not counted: the GPU still worked on what was launched before, or before the recording",
            crate::numbers::time(cut)
        );
        notes.push(note("queued", &text));
    }
    Trust {
        files: job.facts.len() as u64,
        ranks_present: present,
        ranks_missing: missing,
        steps_used: used as u64,
        steps_left_out: (all - used.min(all)) as u64,
        events_lost: job.facts.iter().map(|facts| facts.lost).sum(),
        clocks_within_ns: match job.facts.len() {
            1 => None,
            _ => clocks.map(|clock| clock.fit.ahead_error_ns).max(),
        },
        model_error_pct: Some(replay.model_error_pct),
        roofline_coverage_pct: job.headline_facts().limits.coverage_pct,
        headline_within_ns: half,
        smallest_effect_ns: times.map(|times| half.unwrap_or(0).max(times.median * 3 / 100)),
        notes,
    }
}

/// Returns a note for each file that is not used.
fn unreadable(files: &[File]) -> Vec<Note> {
    let files = files.iter().filter_map(|file| {
        let problem = file.problem.as_deref()?;
        Some(note("not_used", &format!("{}: {problem}", file.name)))
    });
    files.collect()
}

/// Returns what the recordings lack that would decide something here.
fn missing(job: &Job, catalogue: &Catalogue) -> Vec<Missing> {
    let facts = job.headline_facts();
    let total: i64 = job.phases.iter().map(|phase| phase.total_ns).sum();
    let group = |group: Group| -> f64 {
        let items = job.steps.iter().filter(|step| step.is_used);
        let ns = items
            .map(|step| step.sum(|item| item.group() == group))
            .sum();
        share(ns, total)
    };
    let mut lacks: Vec<&str> = Vec::new();
    if !facts.has_calls {
        lacks.push("host events");
    } else if !facts.has_python && group(Group::Host) + group(Group::Launch) >= 3.0 {
        lacks.push("Python functions");
    }
    let world = job.facts.iter().filter_map(|facts| facts.world_size).max();
    let has_collectives = job.digests.iter().any(|digest| !digest.runs.is_empty());
    if world.is_some_and(|world| (job.facts.len() as u64) < u64::from(world)) && has_collectives {
        lacks.push("other ranks");
    }
    if matches!(facts.steps_by, "whole" | "gpu_burst") {
        lacks.push("steps of the engine");
    }
    let coverage = facts.limits.coverage_pct.unwrap_or(0.0);
    let mut calls = facts.calls.iter();
    let has_graphs = calls.any(|call| call.kind == trace_model::kernel::Activity::GraphLaunch);
    // Numbers of work outside of the steps say nothing of what they replay.
    let main = job.phases.first();
    let is_unknown =
        has_graphs && main.is_some_and(|phase| crate::family_device_limit(job, phase).is_none());
    let lacks_sizes = coverage < 50.0 || facts.limits.device.is_empty() || is_unknown;
    if lacks_sizes && group(Group::Gpu) >= 20.0 {
        lacks.push(match has_graphs {
            _ if facts.graphs_whole > 0 => "kernels of graphs",
            true if facts.has_capture => "sizes of operators",
            true => "capture of the graphs",
            false => "sizes of operators",
        });
        // Recording the same again would not help.
        if has_graphs && facts.has_capture && facts.graphs_whole == 0 {
            lacks.pop();
        }
    }
    let lacks = lacks.into_iter().filter_map(|what| catalogue.lack(what));
    lacks
        .map(|lack| Missing {
            what: lack.what.clone(),
            decides: lack.decides.clone(),
            record: lack.how(facts.recorder).to_owned(),
        })
        .collect()
}

fn next(document: &Document, paths: &str) -> Vec<Next> {
    let mut out: Vec<Next> = Vec::new();
    let first = document.answer.finding.as_ref();
    let first = first.and_then(|id| document.findings.iter().find(|finding| finding.id == *id));
    let first = first.or_else(|| document.findings.first());
    if let Some(finding) = first {
        if finding.place.side == Side::Only {
            out.push(Next {
                command: format!("inferscope show {} {paths}", finding.id),
                shows: "this finding with all its evidence".to_owned(),
            });
        }
        out.extend(finding.commands.iter().map(|command| Next {
            command: command.clone(),
            shows: shows(command).to_owned(),
        }));
    }
    for other in document
        .findings
        .iter()
        .filter(|other| Some(other.id.as_str()) != first.map(|f| f.id.as_str()))
    {
        for command in other.commands.iter().take(1) {
            if out.len() < 5 && !out.iter().any(|known| known.command == *command) {
                out.push(Next {
                    command: command.clone(),
                    shows: shows(command).to_owned(),
                });
            }
        }
    }
    out.truncate(5);
    out
}

/// Returns what a command shows.
fn shows(command: &str) -> &'static str {
    let rules = [
        ("--what-if", "the step time under this change"),
        ("critical-path", "the path of the step, segment by segment"),
        ("trace-info launch", "launch gaps and queues"),
        ("trace-info comm", "waits and bandwidth of all collectives"),
        (
            "trace-info roofline",
            "the distance from the limit by operator",
        ),
        ("trace-info kernels", "kernels by time"),
        ("trace-info memory", "allocated and reserved memory"),
        ("cycle-rca", "phases and slow cycles"),
        ("blkio", "what limits the disk"),
    ];
    let found = rules.iter().find(|(part, _)| command.contains(part));
    found.map_or("more", |(_, text)| text)
}
