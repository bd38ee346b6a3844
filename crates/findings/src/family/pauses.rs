//! Steps far longer than their neighbours, and what they spend more time on.

use std::collections::BTreeMap;

use critical_path::{Class, Group};

use super::{Context, without};
use crate::draft::{Draft, Gain, Strength, longest_of, said};
use crate::job::{Item, Phase, Portion, StepFact};
use crate::numbers::{median, time};
use crate::words;

/// Fewer steps than this have no typical length.
const LEAST_STEPS: usize = 8;

/// What a step spends more time on than its neighbours.
#[derive(Clone, Debug)]
pub(crate) struct Excess {
    pub(crate) class: Class,
    pub(crate) portion: Portion,
    pub(crate) name: String,
    pub(crate) ns: i64,
    pub(crate) calls: i64,
}

type Key = (Class, Portion, String);

fn key(item: &Item) -> Key {
    (item.class, item.portion, item.name.clone())
}

/// Returns what steps spend more time on than others, summed over them, most first.
pub(crate) fn excess(steps: &[&StepFact], others: &[&StepFact]) -> Vec<Excess> {
    let mut here: BTreeMap<Key, (i64, i64)> = BTreeMap::new();
    for item in steps.iter().flat_map(|step| &step.items) {
        let sum = here.entry(key(item)).or_default();
        *sum = (sum.0 + item.ns, sum.1 + count(item));
    }
    let mut usual: BTreeMap<&Key, Vec<(i64, i64)>> = BTreeMap::new();
    for (at, step) in others.iter().enumerate() {
        for item in &step.items {
            if let Some((key, _)) = here.get_key_value(&key(item)) {
                let list = usual.entry(key).or_default();
                list.resize(at + 1, (0, 0));
                if let Some(last) = list.last_mut() {
                    *last = (last.0 + item.ns, last.1 + count(item));
                }
            }
        }
    }
    let n = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    let mut out: Vec<Excess> = here
        .iter()
        .map(|(key, (ns, calls))| {
            let mut list = usual.remove(key).unwrap_or_default();
            list.resize(others.len(), (0, 0));
            let ns_usual = median(list.iter().map(|l| l.0));
            let calls_usual = median(list.iter().map(|l| l.1));
            Excess {
                class: key.0,
                portion: key.1,
                name: key.2.clone(),
                ns: ns - ns_usual * n,
                calls: calls - calls_usual * n,
            }
        })
        .collect();
    out.sort_by(|a, b| {
        b.ns.cmp(&a.ns)
            .then_with(|| a.class.cmp(&b.class))
            .then_with(|| a.name.cmp(&b.name))
    });
    out
}

fn count(item: &Item) -> i64 {
    i64::try_from(item.count).unwrap_or(i64::MAX)
}

impl Excess {
    /// Returns it in the engineer's words.
    pub(crate) fn words(&self) -> String {
        match (self.portion, self.class.group()) {
            (Portion::Wait, _) => "waiting for a late rank".to_owned(),
            (_, Group::Gpu | Group::Comm) if !self.name.is_empty() => words::kernel(&self.name),
            (_, Group::Host) => words::function(&self.name),
            _ if self.name.is_empty() => self.class.name(),
            _ => words::function(&self.name),
        }
    }
}

/// Returns `true` for slices of a garbage collector.
fn is_collector(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut words = name.split(|c: char| !(c.is_ascii_alphanumeric()));
    name.contains("garbage")
        || name.contains("built-in function collect")
        || words.any(|word| word == "gc" || word == "gcollect" || word == "pythongc")
}

/// Evidence for graphs that are captured within steps.
fn captures(context: &Context<'_>, steps: &[&StepFact]) -> Option<crate::document::Evidence> {
    let job = context.job;
    let at = &job.headline_facts().captures_at;
    let own = steps.iter().filter(|step| {
        let (begin, end) = step.host();
        at.iter().any(|at| begin <= *at && *at < end)
    });
    let own: Vec<String> = own.map(|step| step.row.step.to_string()).collect();
    (!own.is_empty()).then(|| {
        said(
            job,
            format!(
                "a CUDA graph is captured in {} {}: captures belong to the start of the engine",
                if own.len() == 1 { "step" } else { "steps" },
                own.join(", ")
            ),
        )
    })
}

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    if let Some(focus) = job.focus {
        let usual: Vec<&StepFact> = phase
            .steps
            .iter()
            .filter(|at| **at != focus)
            .map(|at| &job.steps[*at])
            .collect();
        let middle = median(usual.iter().map(|step| step.row.duration_ns));
        let is_longer = !usual.is_empty() && job.steps[focus].row.duration_ns > middle;
        let is_own = !begins_behind_another(job, focus, middle);
        return (is_longer && is_own).then(|| of(context, phase, &[focus], &usual, middle))?;
    }
    if phase.steps.len() < LEAST_STEPS {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "times of steps")]
    let lengths: Vec<f64> = job
        .of(phase)
        .map(|step| step.row.duration_ns as f64)
        .collect();
    let middle = median(job.of(phase).map(|step| step.row.duration_ns));
    #[expect(clippy::cast_precision_loss, reason = "times of steps")]
    let (_, limit) = rca_cycles::outlier_limit(&lengths, 0, middle as f64);
    type Steps = Vec<(usize, f64)>;
    let (slow, usual): (Steps, Steps) = phase
        .steps
        .iter()
        .copied()
        .zip(lengths)
        .partition(|(_, ns)| *ns > limit);
    #[expect(clippy::cast_precision_loss, reason = "numbers of steps")]
    let most = rca_cycles::MOST_OUTLIERS * phase.steps.len() as f64;
    #[expect(clippy::cast_precision_loss, reason = "numbers of steps")]
    let is_few = !slow.is_empty() && slow.len() as f64 <= most;
    if !is_few {
        return None;
    }
    // The first step of a recording has none before it that its host could run ahead of.
    let slow: Vec<usize> = slow
        .into_iter()
        .map(|(at, _)| at)
        .filter(|at| *at > 0 && !begins_behind_another(job, *at, middle))
        .collect();
    if slow.is_empty() {
        return None;
    }
    let usual: Vec<&StepFact> = usual.into_iter().map(|(at, _)| &job.steps[at]).collect();
    of(context, phase, &slow, &usual, middle)
}

/// Returns `true` if a step is longer for what its host still does of a step of another phase: that step ends with its last GPU work,
/// and what the host does behind it falls to the next one.
pub(crate) fn begins_behind_another(job: &crate::job::Job, at: usize, usual: i64) -> bool {
    let step = &job.steps[at];
    let is_behind = step.is_behind_other;
    is_behind && step.before_ns() * 2 >= step.row.duration_ns - usual
}

/// The draft for steps that are longer than their neighbours.
pub(crate) fn of(
    context: &Context<'_>,
    phase: &Phase,
    slow: &[usize],
    usual: &[&StepFact],
    middle: i64,
) -> Option<Draft> {
    let job = context.job;
    let steps: Vec<&StepFact> = slow.iter().map(|at| &job.steps[*at]).collect();
    // Longer work is no pause.
    let batch = |steps: &[&StepFact]| {
        let each = steps.iter().filter_map(|step| step.tokens.or(step.batch));
        median(each.map(|n| i64::try_from(n).unwrap_or(i64::MAX)))
    };
    let is_larger = batch(&steps) > batch(usual) + batch(usual) / 10;
    let all = excess(&steps, usual);
    let first = all.first()?;
    let more: i64 = steps.iter().map(|step| step.row.duration_ns - middle).sum();
    if is_larger && first.class.group() == Group::Gpu {
        return None;
    }
    let captures = captures(context, &steps);
    let is_gc = is_collector(&first.name);
    let waits = matches!(first.class, Class::Requests | Class::Blocked | Class::Input)
        || trace_model::Waiting::of_call(&first.name) == Some(trace_model::Waiting::Input);
    let is_allocation = first.class == Class::Api && crate::recording::is_allocation(&first.name);
    let is_most = first.ns * 2 > more;
    let is_copy = is_most && matches!(first.class, Class::MemcpyH2d | Class::MemcpyD2h);
    let kind = match (is_gc, waits) {
        (true, _) => "periodic_stall",
        (_, true) => "input_starvation",
        _ if is_allocation => "allocation",
        _ if is_copy => "copy",
        _ => "pause",
    };
    let takes = |item: &Item| {
        item.class == first.class && item.name == first.name && item.portion == first.portion
    };
    let mut draft = Draft::new(kind, phase);
    draft.values = slow
        .iter()
        .map(|at| (*at, job.steps[*at].row.duration_ns - middle))
        .collect();
    draft.reported(context.catalogue, phase)?;
    if is_most {
        // Steps that are longer for another reason are none of these; waiting costs what it takes, whatever else they do.
        let usual = median(usual.iter().map(|step| step.sum(takes)));
        let own = |at: usize| job.steps[at].sum(takes) - usual;
        let mut values = draft.values.clone();
        values.retain(|(at, ns)| own(*at) * 2 > *ns);
        if waits {
            values
                .iter_mut()
                .for_each(|(at, ns)| *ns = (*ns).min(own(*at)));
        }
        if !values.is_empty() {
            draft.values = values;
        }
        draft.reported(context.catalogue, phase)?;
    }
    let steps: Vec<&StepFact> = draft.values.iter().map(|(at, _)| &job.steps[*at]).collect();
    let guessed = steps.iter().flat_map(|step| &step.items);
    draft.guessed_ns = guessed
        .filter(|item| takes(item))
        .map(|item| item.guessed_ns)
        .sum();
    draft.strength = match (is_most, first.class) {
        // Kernels are longer where there is more to do.
        (_, Class::HostUntraced | Class::Unexplained | Class::Kernel(_)) => Strength::Fits,
        // That the steps are longer is recorded, what makes them so is several things.
        (false, _) => match context.job.focus {
            Some(_) => Strength::Fits,
            None => Strength::Favoured,
        },
        _ => Strength::Recorded,
    };
    draft.gain = match without(first.class, &first.name) {
        // The neighbours are the replay.
        _ if !is_most || is_allocation || first.class == Class::Blocked => Gain::Cost,
        Gain::Replay { change, .. } => Gain::Replay {
            change,
            is_capped: true,
        },
        other => other,
    };
    draft.rank = Some(steps.first().map_or(job.rank(), |step| {
        let item = step.items.iter().find(|item| takes(item));
        item.map_or(job.rank(), |item| item.on_rank)
    }));
    if job.facts.len() > 1 && super::is_on_all(job, &first.name) {
        draft.rank = None;
    }
    draft.about = first.name.clone();
    draft.name = Some(first.name.clone()).filter(|name| !name.is_empty());
    draft
        .evidence
        .extend(longest_of(job, &steps, &first.name, takes));
    draft.evidence.extend(captures);
    for other in all.iter().take(4) {
        if other.ns * 20 < more {
            break;
        }
        let calls = match other.calls {
            0 => String::new(),
            n if n > 0 => format!(", in {n} more stretches"),
            n => format!(", in {} fewer stretches", -n),
        };
        draft.evidence.push(said(
            job,
            format!(
                "{}: {} more than usual{calls}",
                other.words(),
                time(other.ns)
            ),
        ));
    }
    let rank = draft.rank.unwrap_or_else(|| job.rank());
    let facts = job.facts.iter().find(|facts| facts.rank == rank);
    let named = facts.and_then(|facts| facts.examples.of(&first.name));
    draft.stack = named.map_or_else(Vec::new, |named| named.stack.clone());
    draft.commands.push(context.path_command(&draft));
    let typical = median(draft.values.iter().map(|(_, ns)| *ns));
    let draft_count = draft.values.len();
    let does = format!(
        "makes {draft_count} of {} {} steps {} longer than their neighbours",
        phase.steps.len(),
        crate::draft::phase_word(&phase.name),
        time(typical)
    );
    Some(
        draft
            .word("does", does)
            .word(
                "are",
                match draft_count {
                    1 => "is",
                    _ => "are",
                },
            )
            .word("count", draft_count.to_string())
            .word("of", phase.steps.len().to_string())
            .word("place", " within steps")
            .word("excess", time(typical))
            .word(
                "name",
                match (kind, is_most) {
                    ("input_starvation", _) => format!(
                        "{} (in {})",
                        match first.class {
                            Class::Blocked => super::host::blocked_on(&first.name),
                            _ => "requests or data",
                        },
                        first.words()
                    ),
                    ("allocation", _) => format!("{} allocates or frees", first.words()),
                    (_, false) => format!("several things, the largest part {}", first.words()),
                    _ => first.words(),
                },
            ),
    )
}
