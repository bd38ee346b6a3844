//! A finding before its gain is known.

use critical_path::Change;

use crate::catalogue::{Catalogue, Kind};
use crate::document::{Confidence, Evidence, Finding, Interval, Place};
use crate::job::{Item, Job, Phase, StepFact, overlap};
use crate::numbers::{counted, interval, plain, share, time};
use crate::program::Program;

/// How strong the evidence of a draft is at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    /// Recorded: established above the threshold of its kind.
    Recorded,
    /// The evidence favours it.
    Favoured,
    /// It fits.
    Fits,
}

/// How the gain of a draft is found.
#[derive(Clone, Debug)]
pub(crate) enum Gain {
    /// A replay with this change; of each step at most the cost if `is_capped`.
    Replay { change: Change, is_capped: bool },
    /// What the affected steps take longer than the others of the same graph: nothing is left to replay.
    Cost,
    /// This part of the cost.
    CostPart(f64),
    /// No change is known that would remove it.
    Unknown,
}

impl Gain {
    /// Limits the gain of each step to its cost.
    pub(crate) fn capped(self) -> Self {
        match self {
            Self::Replay { change, .. } => Self::Replay {
                change,
                is_capped: true,
            },
            other => other,
        }
    }
}

/// Fewer steps than this establish nothing.
const LEAST_STEPS: usize = 5;

/// Estimated share of the recording that its recorder took from which times of the host are not established, in percent.
pub(crate) const SLOWED_PCT: f64 = 10.0;

/// Kinds whose times a recorder of host events makes longer.
const HOST_KINDS: [&str; 4] = [
    "launch_bound",
    "host_bound",
    "graph_coverage",
    "synchronisation",
];

/// Minimum part of the steps, in percent, in which nothing is computed to be told of a host that may wait for it.
const ALONE_PCT: f64 = 3.0;

/// How long the GPU works without computing in the steps of a phase.
fn without_computing(job: &Job, phase: &Phase) -> Option<Evidence> {
    let facts = job.headline_facts();
    let spans = job
        .of(phase)
        .map(|step| (step.row.begin_ns, step.row.end_ns));
    let alone = spans.map(|span| overlap(&facts.busy, span) - overlap(&facts.computing, span));
    let ns: i64 = alone.sum();
    let pct = share(ns, phase.total_ns);
    let text = format!(
        "the GPU communicates or copies and computes nothing for {} in {} ({})",
        time(ns),
        counted(phase.steps.len() as u64, "step", "steps"),
        crate::numbers::pct(pct)
    );
    (pct >= ALONE_PCT).then(|| said(job, text))
}

/// Ratio of cost to replayed gain from which other work hides most of the cost.
const HIDDEN: i64 = 4;

/// A finding before its gain is known.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) kind: &'static str,
    /// What it is about, for its id.
    pub(crate) about: String,
    pub(crate) phase: String,
    /// Place of each affected step among those of the job, and the time that it costs there.
    pub(crate) values: Vec<(usize, i64)>,
    /// The same with the whole time on the path, part of which runs beside GPU work: what a gain beyond the cost comes from.
    pub(crate) on_path: Vec<(usize, i64)>,
    /// Number and time of the steps that the share is of; those of the phase if none.
    pub(crate) whole: Option<(usize, i64)>,
    /// Part of the cost that rests on guessed dependencies.
    pub(crate) guessed_ns: i64,
    /// It is a state of the steps: `values` are their times, and what it costs is not known.
    pub(crate) is_state: bool,
    pub(crate) strength: Strength,
    pub(crate) gain: Gain,
    pub(crate) rank: Option<u32>,
    pub(crate) name: Option<String>,
    pub(crate) stack: Vec<String>,
    /// Values of the places in the title.
    pub(crate) words: Vec<(&'static str, String)>,
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) commands: Vec<String>,
}

impl Draft {
    /// A draft of a kind in a phase.
    pub(crate) fn new(kind: &'static str, phase: &Phase) -> Self {
        Self {
            kind,
            about: String::new(),
            phase: phase.name.clone(),
            values: Vec::new(),
            on_path: Vec::new(),
            whole: None,
            guessed_ns: 0,
            is_state: false,
            strength: Strength::Favoured,
            gain: Gain::Unknown,
            rank: None,
            name: None,
            stack: Vec::new(),
            words: Vec::new(),
            evidence: Vec::new(),
            commands: Vec::new(),
        }
    }

    /// Sets the affected steps: those in which a predicate takes time, with that time.
    pub(crate) fn over(mut self, job: &Job, phase: &Phase, takes: impl Fn(&Item) -> bool) -> Self {
        let each = phase
            .steps
            .iter()
            .map(|at| (*at, job.steps[*at].sum(&takes)));
        self.values = each.collect();
        let guessed = job.of(phase).flat_map(|step| &step.items);
        let guessed = guessed.filter(|item| takes(item));
        self.guessed_ns = guessed.map(|item| item.guessed_ns).sum();
        self.keep_affected();
        self
    }

    /// The same with the time in which the GPU had nothing to do: what runs beside GPU work keeps nothing waiting.
    pub(crate) fn over_idle(
        mut self,
        job: &Job,
        phase: &Phase,
        takes: impl Fn(&Item) -> bool,
    ) -> Self {
        self = self.over(job, phase, &takes);
        self.on_path = std::mem::take(&mut self.values);
        let each = phase
            .steps
            .iter()
            .map(|at| (*at, job.steps[*at].idle(&takes)));
        self.values = each.collect();
        self.keep_affected();
        self
    }

    /// Takes the whole time on the path as the cost where that alone explains the gain: the GPU works meanwhile.
    pub(crate) fn explain_gain(&mut self, job: &Job, phase: &Phase, gain_ns: i64) {
        let is_beyond = gain_ns.saturating_mul(10) > self.total_ns().saturating_mul(13);
        if self.kind != "host_bound" || !is_beyond || self.on_path.is_empty() {
            return;
        }
        let idle_ns = self.total_ns();
        self.values = std::mem::take(&mut self.on_path);
        let all_ns = self.total_ns();
        let beside_ns = all_ns - idle_ns;
        let is_beside = beside_ns.saturating_mul(10) > all_ns;
        // A host that has nothing to launch while the GPU works may wait for it in a way that was not recorded.
        let is_mostly_beside = beside_ns.saturating_mul(2) > all_ns;
        let has_waits = job.headline_facts().has_waits;
        let does = match (is_mostly_beside, is_beside, has_waits) {
            (_, true, false) => {
                "is on the critical path, yet the GPU works during part of it and no call that waits for the GPU is recorded: it may be \
                 waiting for that work"
            }
            (true, ..) => {
                "is on the critical path, yet the GPU works during most of it: it may be waiting for that work"
            }
            (_, true, _) => "is on the critical path, in part beside GPU work",
            (_, false, _) => "is on the critical path",
        };
        let may_wait = is_mostly_beside || (is_beside && !has_waits);
        self.strength = match may_wait {
            true => Strength::Fits,
            false => Strength::Favoured,
        };
        if may_wait {
            self.evidence.extend(without_computing(job, phase));
        }
        for (name, value) in &mut self.words {
            if *name == "does" {
                does.clone_into(value);
            }
        }
    }

    /// Keeps the steps that are affected: those with at least a quarter of the longest time. Where these are most, all with any
    /// time.
    pub(crate) fn keep_affected(&mut self) {
        let longest = self.values.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
        let is_large = |ns: i64| ns > 0 && ns >= longest / 4;
        let large = self.values.iter().filter(|(_, ns)| is_large(*ns)).count();
        let is_in_most = is_most(large, self.values.len());
        self.values
            .retain(|(_, ns)| *ns > 0 && (is_in_most || is_large(*ns)));
    }

    pub(crate) fn total_ns(&self) -> i64 {
        self.values.iter().map(|(_, ns)| *ns).sum()
    }

    pub(crate) fn word(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.words.push((name, value.into()));
        self
    }

    fn whole(&self, phase: &Phase) -> (usize, i64) {
        self.whole.unwrap_or((phase.steps.len(), phase.total_ns))
    }

    /// Returns its share of the time of the phase, in percent.
    pub(crate) fn share_pct(&self, phase: &Phase) -> f64 {
        share(self.total_ns(), self.whole(phase).1)
    }

    /// Returns the kind if the draft reaches its threshold.
    pub(crate) fn reported<'c>(&self, catalogue: &'c Catalogue, phase: &Phase) -> Option<&'c Kind> {
        let kind = catalogue.kind(self.kind)?;
        (self.total_ns() > 0 && self.share_pct(phase) >= kind.least_pct).then_some(kind)
    }

    /// Makes the finding; `gain` is that of the affected steps.
    pub(crate) fn finish(mut self, kind: &Kind, job: &Job, phase: &Phase, gain_ns: i64) -> Finding {
        if let Some(step) = since(&self, job, phase) {
            let text = format!("it begins with step {step}: none of the steps before is affected");
            self.evidence.push(said(job, text));
        }
        let share_pct = self.share_pct(phase);
        let affected = match self.is_state {
            true => Interval::default(),
            false => interval(self.values.iter().map(|(_, ns)| *ns)),
        };
        let (steps, whole_ns) = self.whole(phase);
        let n = i64::try_from(steps).unwrap_or(i64::MAX).max(1);
        let steps_all = steps as u64;
        let cost = match is_most(self.values.len(), steps) {
            _ if self.is_state => Interval::default(),
            true => {
                let rest = steps.saturating_sub(self.values.len());
                let zeros = std::iter::repeat_n(0, rest);
                interval(self.values.iter().map(|(_, ns)| *ns).chain(zeros))
            }
            false => interval([self.total_ns() / n]),
        };
        let mut confidence = self.confidence(kind, share_pct);
        // Few steps establish nothing, nor do times of a host that its recorder slows down.
        let is_host = HOST_KINDS.contains(&self.kind);
        let is_slowed = job.headline_facts().recorder_pct >= SLOWED_PCT;
        if steps < LEAST_STEPS || (is_host && is_slowed) {
            confidence = confidence.min(Confidence::Likely);
        }
        // What other work hides costs less than the path shows.
        let is_replayed = matches!(self.gain, Gain::Replay { .. });
        if is_replayed && gain_ns.saturating_mul(HIDDEN) < self.total_ns() {
            confidence = Confidence::Possible;
        }
        let mut by_cost = self.values.clone();
        by_cost.sort_by_key(|(at, ns)| (std::cmp::Reverse(*ns), *at));
        let steps = by_cost.iter().take(20);
        let steps = steps.map(|(at, _)| job.steps[*at].row.step).collect();
        let share_text = crate::numbers::pct(share_pct);
        let cost_text = time(affected.median);
        let mut words: Vec<(&str, &str)> =
            self.words.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let phase_word = phase_word(&self.phase);
        words.extend([
            ("share", share_text.as_str()),
            ("cost", cost_text.as_str()),
            ("phase", phase_word.as_str()),
        ]);
        let place = Place {
            side: job.side,
            rank: self.rank,
            device: None,
            phase: Some(self.phase.clone()),
            steps,
            step_count: self.values.len() as u64,
            name: self.name.as_deref().map(|name| plain(name, 1_000)),
            stack: self.stack,
        };
        Finding {
            id: id(self.kind, &self.phase, self.rank, &self.about),
            kind: self.kind.to_owned(),
            title: sentence_case(&crate::catalogue::fill(&kind.title, &words)),
            place,
            cost_ns_per_step: cost,
            cost_ns_total: match self.is_state {
                true => 0,
                false => self.values.iter().map(|(_, ns)| *ns).sum(),
            },
            of_steps: steps_all,
            share_pct,
            is_gain_known: !matches!(self.gain, Gain::Unknown),
            cost_ns_per_affected_step: affected,
            gain_ceiling_ns_per_step: gain_ns / n,
            gain_pct: share(gain_ns, whole_ns),
            confidence,
            evidence: self.evidence,
            commands: self.commands,
            refute: kind.refute.clone(),
            // Loading data is what training waits for.
            remedy: kind.remedy(match self.about.as_str() {
                "input data" => Program::Training,
                _ => job.headline_facts().program,
            }),
        }
    }

    fn confidence(&self, kind: &Kind, share_pct: f64) -> Confidence {
        let is_guessed = self.guessed_ns * 2 > self.total_ns();
        let is_sure = kind.sure_pct.is_some_and(|sure| share_pct >= sure);
        match self.strength {
            Strength::Recorded if is_sure && !is_guessed => Confidence::Established,
            Strength::Recorded | Strength::Favoured if !is_guessed => Confidence::Likely,
            _ => Confidence::Possible,
        }
    }
}

/// Returns `true` if a number of steps is nearly all of them: a median then is that of these steps.
fn is_most(number: usize, all: usize) -> bool {
    number * 5 >= all * 4
}

/// Returns the step from which on a draft affects nearly all steps, where it affects none of those before.
fn since(draft: &Draft, job: &Job, phase: &Phase) -> Option<u32> {
    let first = draft.values.iter().map(|(at, _)| *at).min()?;
    let before = phase.steps.iter().filter(|at| **at < first).count();
    let after = phase.steps.len() - before;
    let is_sudden = before >= 3 && after >= 3 && is_most(draft.values.len(), after);
    is_sudden.then(|| job.steps[first].row.step)
}

/// Returns the name of a phase within a sentence.
pub(crate) fn phase_word(phase: &str) -> String {
    match phase {
        "whole" => "recorded".to_owned(),
        // What recurs on the host: iterations, or blocks of one.
        "unknown" => "recurring".to_owned(),
        // Names of marks are no words.
        name if name.contains(['*', '#', '(', '[']) => "recorded".to_owned(),
        name => plain(name, 40),
    }
}

fn sentence_case(text: &str) -> String {
    plain(text.trim(), 400)
}

/// Returns an id that is the same in every run: kind, phase, rank and what it is about, as one word.
fn id(kind: &str, phase: &str, rank: Option<u32>, about: &str) -> String {
    let mut out = format!("{kind}.{}", slug(phase));
    if let Some(rank) = rank {
        out += &format!(".rank{rank}");
    }
    if !about.is_empty() {
        let short = slug(about);
        out.push('.');
        // Long names have a number instead, which is the same in every run.
        match short.len() <= 20 {
            true => out += &short,
            false => out += &format!("{:08x}", hash(about)),
        }
    }
    out
}

fn slug(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii_alphanumeric() || c == '_' {
            true => out.push(c),
            false if !out.ends_with('-') && !out.is_empty() => out.push('-'),
            false => {}
        }
    }
    out.trim_end_matches('-').to_owned()
}

/// FNV-1a: the same on every machine.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Returns evidence for the longest stretch of a name among steps: the event of the recording where it is kept, else the stretch.
pub(crate) fn longest_of(
    job: &Job,
    steps: &[&StepFact],
    name: &str,
    takes: impl Fn(&Item) -> bool,
) -> Option<Evidence> {
    let all = steps.iter().flat_map(|step| {
        let items = step.items.iter().filter(|item| takes(item));
        items.map(move |item| (*step, item))
    });
    let (step, item) =
        all.max_by_key(|(step, item)| (item.longest_ns, std::cmp::Reverse(step.row.step)))?;
    let facts = job.facts.iter().find(|facts| facts.rank == item.on_rank)?;
    let (begin, end) = step.host();
    let event = facts.examples.within(name, (begin, end));
    let shown = crate::words::function(name);
    let text = match event {
        Some(event) => format!(
            "{shown} takes {} in step {}; {} of it on the path",
            time(event.duration_ns),
            step.row.step,
            time(item.longest_ns.min(event.duration_ns))
        ),
        None => format!(
            "{shown} is on the path of step {} for {}",
            step.row.step,
            time(item.longest_ns)
        ),
    };
    Some(Evidence {
        text,
        file: Some(facts.name.clone()),
        rank: Some(facts.rank),
        step: Some(step.row.step),
        event_id: event.map(|event| event.id),
        name: Some(plain(name, 1_000)),
        begin_ns: Some(event.map_or(item.at_ns, |event| event.begin_ns)),
        duration_ns: Some(event.map_or(item.longest_ns, |event| event.duration_ns)),
    })
}

/// Returns evidence without an event.
pub(crate) fn said(job: &Job, text: String) -> Evidence {
    let facts = job.headline_facts();
    Evidence {
        text,
        file: Some(facts.name.clone()),
        rank: Some(facts.rank),
        ..Evidence::default()
    }
}
