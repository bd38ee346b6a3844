//! Text of the answer: a sentence for each kind of step, the lines below it, and the caveats.

use std::collections::{BTreeMap, BTreeSet};

use gpu_time::Note;
use report::human;
use trace_model::step_name::step_group;

use crate::{Analysis, Group, Limit, StepRow};

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

/// Minimum model error that makes the verdict itself doubtful, in percent.
const UNSURE: f64 = 25.0;

/// Minimum time behind its end from which a recording is not called whole, in percent of its time.
const NOTABLE: f64 = 1.0;

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
    if analysis.replay.model_error_pct.abs() > DOUBTFUL {
        let text = format!(
            "typical latencies alone miss the recorded time by {}: {} uncertain by as much",
            human::percent(analysis.replay.model_error_pct.abs()),
            match is_unsure(analysis) {
                true => "verdict and gains are",
                false => "gains are",
            }
        );
        notes.push(Note::new("model_error", text));
    }
    for change in analysis.what_if.iter().filter(|change| change.touched == 0) {
        let text = format!("the change {} touches nothing in the window", change.change);
        notes.push(Note::new("touches_nothing", text));
    }
    notes
}

fn is_unsure(analysis: &Analysis) -> bool {
    analysis.replay.model_error_pct.abs() > UNSURE
}

/// Steps of one phase.
struct Phase<'a> {
    name: String,
    steps: Vec<&'a StepRow>,
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
    let is_unsure = is_unsure(analysis);
    let phases = phases(analysis);
    phases
        .iter()
        .map(|phase| sentence(phase, is_unsure))
        .collect()
}

fn median(steps: &[&StepRow]) -> i64 {
    let mut times: Vec<i64> = steps.iter().map(|step| step.duration_ns).collect();
    times.sort_unstable();
    times
        .get((times.len().max(1) - 1) / 2)
        .copied()
        .unwrap_or(0)
}

/// Returns the time of the recording of a whole step, which is without marks, that lies behind its end.
fn behind(step: &StepRow) -> i64 {
    // Its host interval reaches one nanosecond beyond the last event.
    (step.host_end_ns - 1 - step.end_ns).max(0)
}

/// Returns what is recorded behind the last step of each rank and belongs to no step; `None` if that is nothing.
fn outside(analysis: &Analysis) -> Option<String> {
    let mut last: BTreeMap<u32, &StepRow> = BTreeMap::new();
    for step in &analysis.steps {
        last.insert(step.rank, step);
    }
    let whole = last.values().filter(|step| step.name == "whole");
    if let Some(ns) = whole.map(|step| behind(step)).max() {
        return (ns > 0).then(|| format!("{} of host time behind the last GPU work", shown(ns)));
    }
    let work = last
        .values()
        .filter_map(|step| Some(step.device_end_ns? - step.end_ns));
    let ns = work.max().filter(|ns| *ns > 0)?;
    let text = "of work on other streams behind the last work on the main stream of the last step";
    Some(format!("{} {text}", shown(ns)))
}

fn sentence(phase: &Phase<'_>, is_unsure: bool) -> String {
    let time = shown(median(&phase.steps));
    let ranks: BTreeSet<u32> = phase.steps.iter().map(|step| step.rank).collect();
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
        (1, name) => format!("1 {name} step{of_ranks} takes {time}"),
        (n, name) => {
            let n = human::count(n as u64);
            format!("{n} {name} steps{of_ranks}, median {time}")
        }
    };
    let total: i64 = phase.steps.iter().map(|step| step.groups.total()).sum();
    let mut groups: Vec<(Group, i64)> = Group::ALL
        .into_iter()
        .map(|group| {
            (
                group,
                phase.steps.iter().map(|step| step.groups.of(group)).sum(),
            )
        })
        .collect();
    groups.sort_by_key(|(group, ns)| (std::cmp::Reverse(*ns), *group));
    let Some((largest, most)) = groups.first().copied().filter(|first| first.1 > 0) else {
        return format!("{subject}: no time on the path is known.");
    };
    let limit = match largest {
        Group::Gpu => common_limit(&phase.steps),
        _ => String::new(),
    };
    let pct = share(most, total);
    let verdict = match largest {
        Group::Unknown => {
            let what = if numbers.len() == 1 { "it" } else { "them" };
            format!("what bounds {what} is unknown for {}", human::percent(pct))
        }
        group if is_unsure => {
            let pct = human::percent(pct);
            format!(
                "perhaps {}{limit} {pct} (the model misses the recorded time)",
                group.verdict()
            )
        }
        group => format!("{}{limit} {}", group.verdict(), human::percent(pct)),
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
    let rest = match rest.is_empty() {
        true => String::new(),
        false => format!("; {}", rest.join(", ")),
    };
    format!("{subject}: {verdict}{several}{rest}.")
}

/// Returns the limit with the most time over the steps.
fn common_limit(steps: &[&StepRow]) -> String {
    let mut times: BTreeMap<Limit, i64> = BTreeMap::new();
    for step in steps {
        if let Some(limit) = step.limit {
            *times.entry(limit).or_default() += step.duration_ns;
        }
    }
    let most = times.into_iter().max_by_key(|entry| entry.1);
    match most {
        Some((limit, _)) => format!(" ({})", limit.name()),
        None => String::new(),
    }
}

/// Returns label and text of each line below the answer: the largest gains, the model error, how
/// the steps were found (`steps_by`: "annotation", "cycle" or "whole"), ranks, and the time that
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
                "without {} {} less ({})",
                group_words(row.group),
                human::percent(row.gain_pct),
                shown(row.gain_ns)
            )
        })
        .collect();
    if !gains.is_empty() {
        line("at most", gains.join("; "));
    }
    let replay = &analysis.replay;
    line(
        "model",
        format!(
            "typical latencies alone give {} ({}{}); replay without a change is off by {} ns",
            shown(replay.model_ns),
            if replay.model_error_pct > 0.0 {
                "+"
            } else {
                ""
            },
            human::percent(replay.model_error_pct),
            replay.identity_error_ns
        ),
    );
    let how = match steps_by {
        "annotation" => "annotations of the engine",
        "cycle" => "cycles of the engine's loop",
        _ => "the whole recording",
    };
    let period = analysis.period_ns.map_or_else(String::new, |ns| {
        format!("; begin to begin on the host {} (median)", shown(ns))
    });
    line("steps", format!("{how}{period}"));
    if let Some(text) = outside(analysis) {
        line("outside", text);
    }
    if analysis.collectives > 0 {
        let text = format!(
            "{} collectives join {} ranks; {} on the path on other ranks",
            human::count(analysis.collectives),
            analysis.recordings.len(),
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

fn group_words(group: Group) -> &'static str {
    match group {
        Group::Gpu => "GPU work",
        Group::Comm => "communication",
        Group::Launch => "launches",
        Group::Host => "host code (also between launches)",
        Group::Sync => "synchronisation",
        Group::Wait => "waiting for requests",
        Group::Input => "input",
        Group::Unknown => "unexplained time",
    }
}
