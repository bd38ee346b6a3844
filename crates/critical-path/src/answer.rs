//! Text of the answer: a sentence for each kind of step, the lines below it, and the caveats.

use std::collections::{BTreeMap, BTreeSet};

use gpu_time::Note;
use report::human;
use trace_model::kernel::display_names;
use trace_model::step_name::step_group;

use crate::{
    Analysis, Flag, Group, Groups, Limit, Prediction, RecordingRow, ReplayError, StepRow, Straggler,
};

/// Minimum share of a second group that the sentence names, in percent.
const ALSO: f64 = 5.0;

/// Minimum model error that makes predictions doubtful, in percent.
const DOUBTFUL: f64 = 5.0;

#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
fn shown(ns: i64) -> String {
    human::duration(ns as f64)
}

#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
pub(crate) fn share(part: i64, whole: i64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 * 100.0 / whole as f64,
    }
}

/// Returns a difference in percent with its sign.
fn signed(pct: f64) -> String {
    let sign = match pct {
        pct if pct > 0.0 => "+",
        pct if pct < 0.0 => "-",
        _ => "",
    };
    match human::percent(pct.abs()) {
        // The sign of a difference that is not shown would be the opposite of what it reads like.
        text if text.starts_with('<') => text,
        text => format!("{sign}{text}"),
    }
}

/// Minimum model error that makes the verdict itself doubtful, in percent.
const UNSURE: f64 = 25.0;

/// Minimum ratio of the share of a group to the gain without it from which the group counts as hidden by others.
const HIDDEN: f64 = 4.0;

/// Minimum time behind its end from which a recording is not called whole, in percent of its time.
const NOTABLE: f64 = 1.0;

/// Minimum time in no step, in percent of that of all steps, from which an answer does not speak for the recording.
const MUCH: f64 = 10.0;

fn is_much(analysis: &Analysis, ns: i64) -> bool {
    share(ns, analysis.window.duration_ns) >= MUCH
}

/// Returns the caveats: contradicted dependencies, a model that misses the recording, changes
/// without effect.
#[must_use]
pub fn doubts(analysis: &Analysis) -> Vec<Note> {
    let mut notes = Vec::new();
    let launches = analysis.edges.get("launch").copied().unwrap_or(0);
    if analysis.contradicted.saturating_mul(100) > launches.max(1) {
        notes.push(
            Note::new(
                "contradicted",
                "dependencies contradict the recorded times and are left out: the clocks of host and device, or of ranks, \
                 may differ",
            )
            .count(analysis.contradicted),
        );
    }
    notes.extend(thin(analysis));
    let each = analysis.recordings.iter();
    let without: u32 = each.map(|row| row.marks_without_work).sum();
    if without > 0 {
        let text = "marks hold neither GPU activity nor runtime calls: they are no steps, and their time is in the step that follows, if there is one";
        notes.push(Note::new("marks_without_work", text).count(u64::from(without)));
    }
    if analysis.left_out > 0 {
        let text = "steps are left out, as ranks whose recording begins later or ends earlier have no steps at that time";
        notes.push(Note::new("common_steps", text).count(analysis.left_out as u64));
    }
    let mut steps = analysis.steps.iter();
    if steps.any(|step| step.flags.contains(&Flag::Cut)) {
        let text = "the recording ends before the GPU work of the last step, which takes longer than recorded: launches of it have no \
                    GPU activity";
        notes.push(Note::new("cut", text));
    }
    notes.extend(lost(analysis));
    if let Some((ns, what)) = outside(analysis).filter(|(ns, _)| is_much(analysis, *ns)) {
        let text = format!("{} {what}: in no step, and in no number here", shown(ns));
        notes.push(Note::new("outside", text));
    }
    let others: u32 = analysis
        .recordings
        .iter()
        .map(|row| row.other_engines)
        .sum();
    if others > 0 {
        let text = "other processes in the recording mark steps of their own: the steps are those of the process with most marks \
                    and hold its work alone; give each process as a file of its own";
        notes.push(Note::new("other_engines", text).count(u64::from(others)));
    }
    if analysis.replay.model_error_pct.abs() > DOUBTFUL {
        let text = format!(
            "typical latencies alone miss the recorded time by {}: {} uncertain by as much",
            human::percent(analysis.replay.model_error_pct.abs()),
            match analysis.replay.is_large() {
                true => "verdict and gains are",
                false => "gains are",
            }
        );
        notes.push(Note::new("model_error", text));
    }
    for change in analysis.what_if.iter().filter(|change| change.touched == 0) {
        let text = format!(
            "the change {} touches nothing in the window: names have to be whole, as with --format csv, or patterns with *",
            change.change
        );
        notes.push(Note::new("touches_nothing", text));
    }
    notes
}

/// Returns a note on steps whose GPU work was not recorded.
fn lost(analysis: &Analysis) -> Option<Note> {
    let lost: BTreeSet<u32> = analysis
        .steps
        .iter()
        .filter(|step| step.flags.contains(&Flag::Lost))
        .map(|step| step.step)
        .collect();
    let named: Vec<String> = lost.iter().take(5).map(u32::to_string).collect();
    let more = match lost.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let steps = match lost.len() {
        0 => return None,
        1 => "step",
        _ => "steps",
    };
    let launches: u64 = analysis.recordings.iter().map(|row| row.lost_work).sum();
    let steps_of_all = analysis.steps.iter().map(|step| step.step);
    let has_others = lost.len() < steps_of_all.collect::<BTreeSet<u32>>().len();
    let (others, left_out) = match has_others {
        true => (", though others have", ", and medians leave them out"),
        false => ("", ""),
    };
    let text = format!(
        "launches of {steps} {}{more} have no GPU activity{others}: these steps take longer than recorded, and what they wait \
         for is not known{left_out}; end the recording behind a synchronisation, and record fewer steps or give \
         the profiler larger buffers",
        named.join(", ")
    );
    Some(Note::new("lost_work", text).count(launches))
}

/// Returns the assumptions that all predictions share, then those of single ones.
fn assumptions(changes: &[Prediction]) -> Vec<String> {
    let Some((first, others)) = changes.split_first() else {
        return Vec::new();
    };
    let is_common = |text: &&&str| others.iter().all(|other| other.assumes.contains(text));
    let common: Vec<&str> = first.assumes.iter().filter(is_common).copied().collect();
    let mut out: Vec<String> = Vec::new();
    if !common.is_empty() {
        out.push(common.join("; "));
    }
    for change in changes {
        let own = change.assumes.iter().filter(|text| !common.contains(text));
        let own: Vec<&str> = own.copied().collect();
        if !own.is_empty() {
            out.push(format!("{}: {}", change.change, own.join("; ")));
        }
    }
    out
}

/// Returns what recordings with runtime calls lack: GPU activities, or the links between the two.
fn thin(analysis: &Analysis) -> Vec<Note> {
    let mut with_calls = analysis.recordings.iter().filter(|row| row.calls > 0);
    let mut notes = Vec::new();
    if with_calls.clone().any(|row| row.ops == 0) {
        notes.push(Note::new(
            "no_gpu_activity",
            "no GPU activity is recorded: steps end with their last call, and how long the GPU works is not known; record it as \
             well (ProfilerActivity.CUDA, rocprofv3 --kernel-trace)",
        ));
    }
    let lost: u64 = analysis.recordings.iter().map(|row| row.lost_links).sum();
    if lost > 0 {
        let note = Note::new(
            "lost_links",
            "many GPU activities are not linked to the call that launched them, though such calls are recorded: no link is used, each \
             activity belongs to the step in which it starts, and launch and host time are part of unknown; keep the correlation \
             ids of the recording",
        );
        notes.push(note.count(lost));
    }
    // Where work is lost, its launches lack it, and not the links.
    let is_unlinked = |row: &RecordingRow| {
        row.ops > 0 && row.unlinked == row.ops && row.lost_links == 0 && row.lost_work == 0
    };
    if with_calls.any(is_unlinked) {
        notes.push(Note::new(
            "no_flows",
            "no GPU activity is linked to the call that launched it: each belongs to the step in which it starts, and launch and \
             host time are part of unknown; keep the correlation ids of the recording",
        ));
    }
    notes
}

impl ReplayError {
    /// Returns `true` if the model misses the recorded time by so much that a verdict is not sure.
    pub fn is_large(&self) -> bool {
        self.model_error_pct.abs() > UNSURE || self.step_error_median_pct > UNSURE
    }
}

/// Steps of one phase.
struct Phase<'a> {
    name: String,
    steps: Vec<&'a StepRow>,
}

impl Phase<'_> {
    fn lacks(&self, all: &Phase<'_>) -> bool {
        self.steps.len() < all.steps.len()
    }
}

fn phases(analysis: &Analysis) -> Vec<Phase<'_>> {
    let mut by_name: BTreeMap<String, Vec<&StepRow>> = BTreeMap::new();
    for step in &analysis.steps {
        by_name
            .entry(step_group(&step.name))
            .or_default()
            .push(step);
    }
    let phases = by_name.into_iter();
    let mut phases: Vec<Phase<'_>> = phases.map(|(name, steps)| Phase { name, steps }).collect();
    phases.sort_by_key(|phase| {
        let all: i64 = phase.steps.iter().map(|step| step.duration_ns).sum();
        std::cmp::Reverse(all)
    });
    phases
}

/// Returns a sentence for each phase of steps, longest total time first: how long its steps take,
/// what bounds them, and which other groups have a notable share.
#[must_use]
pub fn sentences(analysis: &Analysis) -> Vec<String> {
    let phases = phases(analysis);
    let mut recordings = analysis.recordings.iter();
    if !analysis.recordings.is_empty() && recordings.all(|row| row.is_capture) {
        let text = "What bounds a step cannot be said: this is the recording of a graph capture, whose launches ran on no GPU; record \
                    steps that replay the graph.";
        return vec![text.to_owned()];
    }
    phases
        .iter()
        .enumerate()
        .map(|(at, phase)| sentence(analysis, phase, at == 0))
        .collect()
}

/// Returns the median in whole nanoseconds; for an even number of steps the mean of the middle two.
fn median(steps: &[&StepRow]) -> i64 {
    let mut times: Vec<i64> = steps.iter().map(|step| step.duration_ns).collect();
    times.sort_unstable();
    let at = |place: usize| times.get(place).copied().unwrap_or(0);
    let (below, above) = (at((times.len().max(1) - 1) / 2), at(times.len() / 2));
    match times.len() % 2 {
        0 => below + (above - below) / 2,
        _ => below,
    }
}

/// Returns the time of the recording of a whole step, which is without marks, that lies behind its end.
fn behind(step: &StepRow) -> i64 {
    // Its host interval reaches one nanosecond beyond the last event.
    (step.host_end_ns - 1 - step.end_ns).max(0)
}

/// Returns what is recorded behind the last step of each rank and belongs to no step, as its time and what it is; `None` if that is
/// nothing.
fn outside(analysis: &Analysis) -> Option<(i64, &'static str)> {
    let mut last: BTreeMap<u32, &StepRow> = BTreeMap::new();
    for step in &analysis.steps {
        last.insert(step.rank, step);
    }
    let whole = last.values().filter(|step| step.name == "whole");
    if let Some(step) = whole.max_by_key(|step| behind(step)) {
        let ns = behind(step);
        let has_work = step.device_end_ns.is_some_and(|end| end > step.end_ns);
        let what = match has_work {
            true => "behind the last work of the main stream, with work on other streams",
            false => "of host time behind the last GPU work",
        };
        return (ns > 0).then_some((ns, what));
    }
    let work = last
        .values()
        .filter_map(|step| Some(step.device_end_ns? - step.end_ns));
    let ns = work.max().filter(|ns| *ns > 0)?;
    let what = "of work on other streams behind the last work on the main stream of the last step";
    Some((ns, what))
}

fn sentence(analysis: &Analysis, phase: &Phase<'_>, is_first: bool) -> String {
    let whole = whole_steps(&phase.steps);
    let is_lost = whole.is_empty();
    // Nothing is known of steps whose work is missing, unless that is all of them.
    let known = Phase {
        name: phase.name.clone(),
        steps: match whole.is_empty() {
            true => phase.steps.clone(),
            false => whole,
        },
    };
    let phase = &known;
    let at_least = if is_lost { "at least " } else { "" };
    let time = match phase.steps.as_slice() {
        // Of two steps, neither is the usual one.
        [a, b] if a.rank == b.rank => {
            format!(
                "{at_least}{} and {}",
                shown(a.duration_ns),
                shown(b.duration_ns)
            )
        }
        steps => format!("{at_least}{}", shown(median(steps))),
    };
    let middle = match (phase.steps.len(), time.contains(" and ")) {
        (2, true) => "",
        _ => "median ",
    };
    let ranks: BTreeSet<u32> = phase.steps.iter().map(|step| step.rank).collect();
    let time = ranks_apart(analysis, &phase.steps).unwrap_or(time);
    // The steps of one number on all ranks are one step of the job.
    let numbers: BTreeSet<u32> = phase.steps.iter().map(|step| step.step).collect();
    let of_ranks = match ranks.len() {
        0 | 1 => String::new(),
        n => format!(" of {} ranks", human::count(n as u64)),
    };
    let mut each = phase.steps.iter();
    let is_all = each.all(|step| share(behind(step), step.duration_ns) < NOTABLE);
    let subject = match (numbers.len(), phase.name.as_str()) {
        (1, "whole") if is_all => format!("The whole recording{of_ranks} takes {time}"),
        (1, "whole") => {
            format!("The recording{of_ranks} takes {time} to the last work of its main stream")
        }
        // A phase that nothing tells has no name.
        (1, "unknown") => format!("1 step{of_ranks} takes {time}"),
        (n, "unknown") => {
            let n = human::count(n as u64);
            format!("{n} steps{of_ranks}, {middle}{time}")
        }
        (1, name) => format!("1 {name} step{of_ranks} takes {time}"),
        (n, name) => {
            let n = human::count(n as u64);
            format!("{n} {name} steps{of_ranks}, {middle}{time}")
        }
    };
    let phase = &on_the_path(analysis, phase);
    let usual = Phase {
        name: phase.name.clone(),
        steps: usual_steps(&phase.steps),
    };
    let bound = bound_by(&usual.steps, &analysis.replay);
    let mut recordings = analysis.recordings.iter();
    if is_lost || recordings.all(|row| row.ops == 0 && row.calls > 0) {
        let bound = match is_lost {
            true => bound,
            false => {
                let what = if numbers.len() == 1 { "it" } else { "them" };
                format!("what bounds {what} cannot be said, as no GPU activity is recorded")
            }
        };
        return format!("{subject}: {bound}.");
    }
    let most = mostly(analysis, &usual).map_or_else(String::new, |text| format!("; {text}"));
    let most = match hidden(analysis, phase).filter(|_| is_first && !usual.lacks(phase)) {
        Some(text) => format!("{most}; {text}"),
        None => most,
    };
    let most = format!("{most}{}", slow_steps(analysis, phase, &usual));
    let rank = analysis.straggler.as_ref().filter(|_| is_first);
    let rank = rank.map_or_else(String::new, held_up);
    let has_gpu = analysis.recordings.iter().any(|row| row.ops > 0);
    let lacks = match has_gpu {
        true => "",
        false => ", of what is recorded: there is no GPU activity",
    };
    format!("{subject}: {bound}{most}{rank}{lacks}.")
}

/// Returns the least and the largest median of ranks that no collective joins: no rank takes a median over all of them.
fn ranks_apart(analysis: &Analysis, steps: &[&StepRow]) -> Option<String> {
    let mut of_ranks: BTreeMap<u32, Vec<&StepRow>> = BTreeMap::new();
    for step in steps {
        of_ranks.entry(step.rank).or_default().push(step);
    }
    let each = of_ranks.iter();
    let mut middle: Vec<(i64, u32)> = each.map(|(rank, steps)| (median(steps), *rank)).collect();
    middle.sort_unstable();
    let ((low, first), (high, last)) = (*middle.first()?, *middle.last()?);
    let is_apart = analysis.collectives == 0 && share(high - low, high) >= NOTABLE;
    is_apart.then(|| {
        format!(
            "{} (rank {first}) to {} (rank {last})",
            shown(low),
            shown(high)
        )
    })
}

/// Returns the steps of the rank whose path is that of the window, where collectives join ranks: the path of one rank then passes
/// through the others wherever they are late, and the shares of a sentence are those of the budget. All steps where ranks do not wait
/// for each other, or that rank has none of the phase.
fn on_the_path<'a>(analysis: &Analysis, phase: &Phase<'a>) -> Phase<'a> {
    let is_own = |step: &&&StepRow| step.rank == analysis.window.rank;
    let own: Vec<&StepRow> = match analysis.collectives {
        0 => Vec::new(),
        _ => phase.steps.iter().filter(is_own).copied().collect(),
    };
    Phase {
        name: phase.name.clone(),
        steps: match own.is_empty() {
            true => phase.steps.clone(),
            false => own,
        },
    }
}

/// Returns the steps whose GPU work is recorded.
#[must_use]
pub fn whole_steps<'a>(steps: &[&'a StepRow]) -> Vec<&'a StepRow> {
    let is_whole = |step: &&&StepRow| !step.flags.contains(&Flag::Lost);
    steps.iter().filter(is_whole).copied().collect()
}

/// Returns the steps that a median speaks for: all, without those of more than twice the median where these few take a notable
/// part of the time. A single compilation or garbage collection then does not decide what bounds the others.
#[must_use]
pub fn usual_steps<'a>(steps: &[&'a StepRow]) -> Vec<&'a StepRow> {
    let limit = median(steps).saturating_mul(2);
    let (usual, slow): (Vec<&StepRow>, Vec<&StepRow>) =
        steps.iter().partition(|step| step.duration_ns <= limit);
    let sum = |steps: &[&StepRow]| steps.iter().map(|step| step.duration_ns).sum::<i64>();
    let is_few = slow.len() * 4 <= steps.len();
    match is_few && share(sum(&slow), sum(steps)) >= ALSO {
        true => usual,
        false => steps.to_vec(),
    }
}

/// Returns how long the steps take that are not among the usual ones, and what bounds them.
fn slow_steps(analysis: &Analysis, phase: &Phase<'_>, usual: &Phase<'_>) -> String {
    if !usual.lacks(phase) {
        return String::new();
    }
    let known: BTreeSet<(u32, u32)> = usual.steps.iter().map(|s| (s.rank, s.step)).collect();
    let slow = phase.steps.iter().copied();
    let slow = Phase {
        name: phase.name.clone(),
        steps: slow
            .filter(|step| !known.contains(&(step.rank, step.step)))
            .collect(),
    };
    let numbers: BTreeSet<u32> = slow.steps.iter().map(|step| step.step).collect();
    let (count, time) = match numbers.len() {
        1 => ("1 slow step takes".to_owned(), shown(median(&slow.steps))),
        n => (
            format!("{} slow steps take a median of", human::count(n as u64)),
            shown(median(&slow.steps)),
        ),
    };
    let most = mostly(analysis, &slow).map_or_else(String::new, |text| format!(", {text}"));
    let bound = bound_by(&slow.steps, &analysis.replay);
    format!("; not in these shares, {count} {time}: {bound}{most}")
}

/// Returns that the window hardly shortens without the group with most time on the paths of steps. The path of a step begins
/// where the work of the step before ended: what takes most of it may run beside what makes the next one late.
fn hidden(analysis: &Analysis, phase: &Phase<'_>) -> Option<String> {
    let mut groups = Groups::default();
    for step in &phase.steps {
        groups.add_all(&step.groups);
    }
    let group = groups.largest()?;
    let row = analysis.limits.iter().find(|row| row.group == group)?;
    let part = share(
        analysis.window.groups.of(group),
        analysis.window.groups.total(),
    );
    let is_hidden = analysis.steps.len() > 1 && row.gain_pct * HIDDEN < part;
    is_hidden.then(|| {
        format!(
            "yet without {} only {} less, as other work runs meanwhile",
            group.words(),
            human::percent(row.gain_pct.max(0.0))
        )
    })
}

/// Returns what takes most of the time of the largest group, where that is not GPU work: a function, or one single call.
fn mostly(analysis: &Analysis, phase: &Phase<'_>) -> Option<String> {
    let mut groups = Groups::default();
    for step in &phase.steps {
        groups.add_all(&step.groups);
    }
    let group = groups.largest()?;
    if matches!(group, Group::Gpu | Group::Comm | Group::Unknown) {
        return None;
    }
    let half = groups.of(group) / 2;
    let steps: BTreeSet<(u32, u32)> = phase.steps.iter().map(|s| (s.rank, s.step)).collect();
    let rows = analysis.path.iter();
    let rows = rows.filter(|row| row.group == group && steps.contains(&(row.rank, row.step)));
    let mut by_name: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for row in rows.filter(|row| !row.name.is_empty()) {
        let sum = by_name.entry(&row.name).or_default();
        *sum = (sum.0 + row.path_ns, sum.1.max(row.longest_ns));
    }
    let (name, (ns, longest)) = by_name
        .into_iter()
        .max_by_key(|(name, sum)| (sum.0, std::cmp::Reverse(*name)))?;
    if longest > half {
        return Some(format!("{} of it in one {name}", shown(longest)));
    }
    // Calls that launch are what that group consists of.
    let is_telling = ns > half && group != Group::Launch;
    is_telling.then(|| format!("most of it in {name}"))
}

fn held_up(late: &Straggler) -> String {
    let gain = format!(
        "{} ({})",
        human::percent(late.gain_pct),
        shown(late.gain_ns)
    );
    let what = match late.name.as_str() {
        "" => "untraced host code".to_owned(),
        name if late.class.group() == Group::Gpu => display_names([name])
            .remove(name)
            .unwrap_or_else(|| name.to_owned()),
        name => name.to_owned(),
    };
    format!(
        "; rank {} holds up the others: as fast as the median rank, the window is {gain} shorter; {what} takes {} longer on \
         it{}",
        late.rank,
        shown(late.longer_ns),
        match late.common_steps {
            Some(1) => " in the step that all ranks recorded".to_owned(),
            Some(n) => format!(
                " in the {} steps that all ranks recorded",
                human::count(n as u64)
            ),
            None => String::new(),
        }
    )
}

/// Returns what bounds steps, as text: the verdict with its share of their time, and other groups with a notable share.
#[must_use]
pub fn bound_by(steps: &[&StepRow], replay: &ReplayError) -> String {
    let pronouns = |steps: &[&StepRow]| {
        let first = steps.first().map(|step| step.step);
        match steps.iter().all(|step| Some(step.step) == first) {
            true => ("it", "its"),
            false => ("them", "their"),
        }
    };
    if !steps.is_empty() && whole_steps(steps).is_empty() {
        let (what, whose) = pronouns(steps);
        return format!(
            "what bounds {what} cannot be said, as {whose} launches have no GPU activity"
        );
    }
    let total: i64 = steps.iter().map(|step| step.groups.total()).sum();
    let mut groups: Vec<(Group, i64)> = Group::ALL
        .into_iter()
        .map(|group| (group, steps.iter().map(|step| step.groups.of(group)).sum()))
        .collect();
    groups.sort_by_key(|(group, ns)| (std::cmp::Reverse(*ns), *group));
    let Some((largest, most)) = groups.first().copied().filter(|first| first.1 > 0) else {
        return "no time on the path is known".to_owned();
    };
    let limit = match largest {
        Group::Gpu => {
            common_limit(steps).map_or_else(String::new, |limit| format!(" ({})", limit.name()))
        }
        _ => String::new(),
    };
    let pct = share(most, total);
    // A median precedes where there are several steps: these are shares of the sum.
    let of_all = match steps.len() {
        1 => "",
        _ => " of their time",
    };
    let verdict = match largest {
        Group::Unknown => {
            let (what, _) = pronouns(steps);
            format!(
                "what bounds {what} is unknown for {}{of_all}",
                human::percent(pct)
            )
        }
        group if replay.is_large() => {
            let pct = human::percent(pct);
            format!(
                "perhaps {}{limit} {pct}{of_all} (the model misses the recorded time)",
                group.verdict()
            )
        }
        group => format!("{}{limit} {}{of_all}", group.verdict(), human::percent(pct)),
    };
    let several = match pct < 50.0 {
        true => ", the largest of several",
        false => "",
    };
    let rest = groups
        .iter()
        .skip(1)
        .filter(|(_, ns)| share(*ns, total) >= ALSO);
    let rest: Vec<String> = rest
        .map(|(group, ns)| format!("{} {}", group.name(), human::percent(share(*ns, total))))
        .collect();
    let queue: i64 = steps
        .iter()
        .filter_map(|step| step.classes.get("queue"))
        .sum();
    let gaps = match largest {
        Group::Gpu if share(queue, total) >= ALSO => {
            let queue = human::percent(share(queue, total));
            format!(" ({queue} of the time in gaps between queued work)")
        }
        _ => String::new(),
    };
    let rest = match rest.is_empty() {
        true => String::new(),
        false => format!("; {}", rest.join(", ")),
    };
    format!("{verdict}{several}{gaps}{rest}")
}

/// Returns the limit with the most time over the steps.
#[must_use]
pub fn common_limit(steps: &[&StepRow]) -> Option<Limit> {
    let mut times: BTreeMap<Limit, i64> = BTreeMap::new();
    for step in steps {
        if let Some(limit) = step.limit {
            *times.entry(limit).or_default() += step.duration_ns;
        }
    }
    let most = times.into_iter().max_by_key(|entry| entry.1);
    most.map(|(limit, _)| limit)
}

/// Returns label and text of each line below the answer: the largest gains, the model error, how
/// the steps were found (`steps_by`: "annotation", "cycle", "gpu_burst" or "whole"), ranks, and the time that
/// rests on guesses.
#[must_use]
pub fn lines(analysis: &Analysis, steps_by: &str) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let mut line = |label, text| lines.push((label, text));
    let mut limits: Vec<_> = analysis
        .limits
        .iter()
        .filter(|row| row.gain_ns > 0)
        .collect();
    limits.retain(|row| row.group != Group::Unknown);
    limits.sort_by_key(|row| std::cmp::Reverse(row.gain_ns));
    let gains: Vec<String> = limits
        .iter()
        .take(3)
        .map(|row| {
            format!(
                "without {}{} {} less ({})",
                row.group.words(),
                match row.group {
                    Group::Host => " (also between launches)",
                    _ => "",
                },
                human::percent(row.gain_pct),
                shown(row.gain_ns)
            )
        })
        .collect();
    if !gains.is_empty() {
        let as_recorded = match analysis.edges.get("input").copied().unwrap_or(0) {
            0 => "",
            _ => "; requests and data arrive as recorded",
        };
        line("at most", format!("{}{as_recorded}", gains.join("; ")));
    }
    for text in assumptions(&analysis.what_if) {
        line("assumes", text);
    }
    let replay = &analysis.replay;
    line(
        "model",
        format!(
            "typical latencies alone give {} ({}); a step is off by {} (median), {} (95th percentile); replay without \
             a change is off by {} ns",
            shown(replay.model_ns),
            signed(replay.model_error_pct),
            human::percent(replay.step_error_median_pct),
            human::percent(replay.step_error_p95_pct),
            replay.identity_error_ns
        ),
    );
    let how = match steps_by {
        "annotation" => "annotations of the engine",
        "cycle" => "cycles of the engine's loop",
        "gpu_burst" => {
            "bursts of GPU work that repeat, as no annotation and no host code shows the steps"
        }
        _ => "the whole recording",
    };
    let period = analysis.period_ns.map_or_else(String::new, |ns| {
        format!("; begin to begin on the host {} (median)", shown(ns))
    });
    line("steps", format!("{how}{period}"));
    if let [step] = analysis.steps.as_slice()
        && step.flags.contains(&Flag::Queued)
    {
        let ns = (step.begin_ns - step.host_begin_ns).max(0);
        let text = "behind its mark on the host, when earlier GPU work ends";
        line("queued", format!("the step begins {} {text}", shown(ns)));
    }
    // More is one of the doubts.
    if let Some((ns, what)) = outside(analysis).filter(|(ns, _)| !is_much(analysis, *ns)) {
        line("outside", format!("{} {what}", shown(ns)));
    }
    if analysis.collectives > 0 {
        let text = format!(
            "{} collectives join {} ranks; shares are of the path to the last step of rank {}; the paths of all ranks together \
             are {} on others",
            human::count(analysis.collectives),
            analysis.recordings.len(),
            analysis.window.rank,
            shown(analysis.steps.iter().map(|step| step.other_ranks_ns).sum())
        );
        line("ranks", text);
    }
    let guessed: Vec<String> = analysis
        .edges
        .iter()
        .filter(|(name, _)| name.contains('/'))
        .map(|(name, count)| format!("{} {}", human::count(*count), name.replace('/', " by ")))
        .collect();
    if !guessed.is_empty() {
        let on_path: i64 = analysis.steps.iter().map(|step| step.guessed_ns).sum();
        let text = format!(
            "{}; {} of the path rest on them",
            guessed.join(", "),
            shown(on_path)
        );
        line("guessed", text);
    }
    lines
}
