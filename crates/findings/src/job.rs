//! All recordings of one job: their graph, their steps, and where the time of each step went.

use critical_path::{Analysis, Change, Class, Flag, Graph, Group, Options, StepRow, analyse};
use gpu_time::comm::{CollectiveTime, Job as CommJob, RankDigest, assign_ranks};
use rustc_hash::FxHashMap;
use trace_model::Waiting;
use trace_model::interval::Interval;
use trace_model::step_name::{step_batch, step_group};

use crate::chains::{Chain, Chains, Links};
use crate::document::{Note, Side};
use crate::left_out::{leave_out_behind_others, leave_out_warm_up, lost_work};
use crate::place_in_code::place_in_code;
use crate::ranks_apart::Slowest;
use crate::recording::{Facts, Recording};

/// Part of the time in collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Portion {
    /// Not divided: the class alone.
    Whole,
    /// Waiting for another rank that came later.
    Wait,
    /// The collective itself, once all ranks were there.
    Transfer,
}

/// Time of a step by class and name.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) class: Class,
    pub(crate) portion: Portion,
    pub(crate) name: String,
    pub(crate) on_rank: u32,
    pub(crate) ns: i64,
    pub(crate) count: u64,
    pub(crate) longest_ns: i64,
    /// Part of it in which the GPU of its rank had nothing to do; of collectives in which it computed nothing beside them.
    pub(crate) idle_ns: i64,
    pub(crate) guessed_ns: i64,
    /// Begin of the longest stretch.
    pub(crate) at_ns: i64,
}

impl Item {
    /// Returns the name of its class in a budget.
    pub(crate) fn class_name(&self) -> String {
        match self.portion {
            Portion::Whole => self.class.name(),
            Portion::Wait => "comm.wait".to_owned(),
            Portion::Transfer => "comm.transfer".to_owned(),
        }
    }

    pub(crate) fn group(&self) -> Group {
        match self.portion {
            Portion::Wait => Group::Comm,
            _ => self.class.group(),
        }
    }
}

/// A stretch of the path between GPU activities.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    pub(crate) begin_ns: i64,
    pub(crate) end_ns: i64,
    /// Its time without waiting for requests and data.
    pub(crate) ns: i64,
    /// The path of the step begins with it: it lies between two steps.
    pub(crate) is_first: bool,
    /// It begins with a wait for the GPU: a synchronising call, or a memcpy to the host.
    pub(crate) is_sync: bool,
    /// The longest time in it of one function, or of one wait for something else than the GPU.
    pub(crate) longest_ns: i64,
}

/// A step of the rank that the answer is about.
#[derive(Clone, Debug)]
pub(crate) struct StepFact {
    pub(crate) row: StepRow,
    pub(crate) phase: String,
    /// Its time by class and name, most first; adds up to the step time.
    pub(crate) items: Vec<Item>,
    /// Runs of elementwise kernels with nothing but reductions between them.
    pub(crate) chains: Vec<Chain>,
    /// Attention in separate kernels: product, softmax and what is between, product.
    pub(crate) attention: Vec<Chain>,
    /// Time of the path in which the recorder worked and the GPU had nothing to do.
    pub(crate) overhead_ns: i64,
    /// Stretches without GPU activity, ascending.
    pub(crate) gaps: Vec<Gap>,
    /// The step before it is one of another phase: what the host still does of that falls to this one.
    pub(crate) is_behind_other: bool,
    /// Whether the answer uses it.
    pub(crate) is_used: bool,
    pub(crate) batch: Option<u64>,
    pub(crate) tokens: Option<u64>,
}

impl StepFact {
    pub(crate) fn host(&self) -> Interval {
        (self.row.host_begin_ns, self.row.host_end_ns)
    }

    /// Returns the time before its own begin on the host: it begins where the GPU work of the step before ends, of which the host may
    /// have more to do. Without its waits for requests and data, which belong to no step before it.
    pub(crate) fn before_ns(&self) -> i64 {
        let before = self.row.host_begin_ns - self.row.begin_ns;
        let waits = self.sum(|item| matches!(item.group(), Group::Wait | Group::Input));
        (before - waits).max(0)
    }

    /// Sum of the time of items that a predicate takes in which the GPU had nothing to do.
    pub(crate) fn idle(&self, takes: impl Fn(&Item) -> bool) -> i64 {
        let items = self.items.iter().filter(|item| takes(item));
        items.map(|item| item.idle_ns).sum()
    }

    /// Sum of the items that a predicate takes.
    pub(crate) fn sum(&self, takes: impl Fn(&Item) -> bool) -> i64 {
        let items = self.items.iter().filter(|item| takes(item));
        items.map(|item| item.ns).sum()
    }
}

/// What the user chose of the recordings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// First and last step, from 1.
    pub steps: Option<(u32, u32)>,
    /// Half-open window.
    pub window_ns: Option<(i64, i64)>,
    /// Phase.
    pub phase: Option<String>,
    /// Rank.
    pub rank: Option<u32>,
}

impl Choice {
    pub(crate) fn takes(&self, step: &StepRow, phase: &str) -> bool {
        self.steps
            .is_none_or(|(first, last)| first <= step.step && step.step <= last)
            && self
                .window_ns
                .is_none_or(|(begin, end)| begin <= step.begin_ns && step.end_ns <= end)
            && self.phase.as_deref().is_none_or(|wanted| wanted == phase)
    }
}

/// Steps of one phase.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) name: String,
    /// Places in [`Job::steps`].
    pub(crate) steps: Vec<usize>,
    pub(crate) total_ns: i64,
}

/// Recordings of one job, analysed.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) side: Side,
    /// By rank.
    pub(crate) facts: Vec<Facts>,
    pub(crate) digests: Vec<RankDigest>,
    pub(crate) comm: CommJob,
    pub(crate) graph: Graph,
    pub(crate) analysis: Analysis,
    /// Place of the rank that the answer is about.
    pub(crate) at: usize,
    /// Its steps.
    pub(crate) steps: Vec<StepFact>,
    /// Its phases, most time first.
    pub(crate) phases: Vec<Phase>,
    /// Place of the only step that was asked for, which is compared with its neighbours.
    pub(crate) focus: Option<usize>,
    /// Base of all times: that of the first recording.
    pub(crate) base_ns: i64,
    /// The rank whose steps take longest, where no collective joins ranks.
    pub(crate) slowest: Option<Slowest>,
    pub(crate) notes: Vec<Note>,
}

/// Why there is no job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoJob {
    /// Nothing in the recordings is a step.
    NoSteps(String),
    /// The choice takes no step.
    NothingChosen(String),
    /// The files are not the ranks of one job.
    SeveralJobs(String),
}

impl Job {
    /// Joins the recordings and takes the steps apart.
    ///
    /// Cost: that of the graph, two replays, and a pass over the paths of one rank.
    pub(crate) fn new(recordings: Vec<Recording>, choice: &Choice) -> Result<Self, NoJob> {
        let side = recordings.first().map_or(Side::Only, |r| r.facts.side);
        let mut notes = Vec::new();
        let mut kept: Vec<(Facts, Option<critical_path::Part>)> = Vec::new();
        let mut digests = Vec::new();
        for recording in recordings {
            kept.push((recording.facts, Some(recording.part)));
            digests.push(recording.digest);
        }
        if digests.len() > 1 {
            match assign_ranks(&mut digests) {
                Ok(found) => {
                    if found.placed {
                        notes.push(note(
                            "ranks_by_place",
                            "neither the files nor their names give every file a rank: ranks are numbered in the order of the names",
                        ));
                    }
                    let doubts = found.doubts.iter();
                    notes.extend(doubts.map(|doubt| note(doubt.code(), &doubt.to_string())));
                }
                Err(error) => return Err(NoJob::SeveralJobs(error.to_string())),
            }
        }
        let (mut facts, mut parts) = (Vec::new(), Vec::new());
        for digest in &digests {
            let found = kept
                .iter()
                .position(|(facts, part)| facts.name == digest.source && part.is_some());
            let Some(slot) = found.and_then(|at| kept.get_mut(at)) else {
                continue;
            };
            let Some(mut part) = slot.1.take() else {
                continue;
            };
            part.set_rank(digest.rank.0);
            parts.push(part);
            facts.push(found.unwrap_or(0));
        }
        let mut slots: Vec<Option<Facts>> =
            kept.into_iter().map(|(facts, _)| Some(facts)).collect();
        let facts = facts.into_iter().filter_map(|at| slots.get_mut(at)?.take());
        let mut facts: Vec<Facts> = facts.collect();
        let comm = CommJob::new(&digests);
        let base_ns = digests.first().map_or(0, |digest| digest.base_time_ns);
        for ((facts, digest), clock) in facts.iter_mut().zip(&digests).zip(&comm.clocks) {
            facts.rank = digest.rank.0;
            let own = digest.base_time_ns;
            let middle = digest
                .runs
                .get(digest.runs.len() / 2)
                .map_or(0, |run| run.start_ns);
            facts.clock_shift_ns = match clock {
                Some(clock) if clock.fit.samples > 0 => {
                    let at = clock.fit.to_reference(middle.saturating_add(own));
                    at.saturating_sub(base_ns).saturating_sub(middle)
                }
                _ => own.saturating_sub(base_ns),
            };
            match clock {
                Some(clock) if clock.fit.samples > 0 => facts.shift(|at| {
                    let at = clock.fit.to_reference(at.saturating_add(own));
                    at.saturating_sub(base_ns)
                }),
                _ if own != base_ns => {
                    facts.shift(|at| at.saturating_add(own).saturating_sub(base_ns));
                }
                _ => {}
            }
        }
        let meets = comm
            .collectives
            .iter()
            .any(|one| one.matched.runs.len() > 1);
        let is_placed = notes.iter().any(|note| note.kind == "ranks_by_place");
        if is_placed && !meets {
            return Err(NoJob::SeveralJobs(format!(
                "neither a rank in a file or its name nor a collective joins these {} recordings",
                digests.len()
            )));
        }
        let joined = (digests.len() > 1).then_some((digests.as_slice(), &comm));
        let graph = Graph::new(parts, joined);
        let analysis = analyse(&graph, &Options::default())
            .map_err(|error| NoJob::NoSteps(error.to_string()))?;
        let mut job = Self {
            side,
            facts,
            digests,
            comm,
            graph,
            analysis,
            at: 0,
            steps: Vec::new(),
            phases: Vec::new(),
            focus: None,
            base_ns,
            slowest: None,
            notes,
        };
        job.slowest = (!meets && choice.rank.is_none())
            .then(|| Slowest::of(&job.analysis.steps))
            .flatten();
        job.at = job.headline(choice)?;
        job.take_apart(choice)?;
        Ok(job)
    }

    /// Returns the place of the rank that the answer is about: the chosen one, else the one that holds up the others, else the
    /// first one with GPU activity.
    fn headline(&self, choice: &Choice) -> Result<usize, NoJob> {
        if let Some(rank) = choice.rank {
            let found = self.facts.iter().position(|facts| facts.rank == rank);
            return found.ok_or_else(|| {
                let ranks: Vec<String> = self.facts.iter().map(|f| f.rank.to_string()).collect();
                NoJob::NothingChosen(format!(
                    "no rank {rank}: the recorded ranks are {}",
                    ranks.join(", ")
                ))
            });
        }
        let slowest = self.slowest.map(|slowest| slowest.rank);
        let slowest = |facts: &Facts| Some(facts.rank) == slowest;
        if let Some(at) = self.facts.iter().position(slowest) {
            return Ok(at);
        }
        let late = self.comm.straggler.as_ref().filter(|late| late.persistent);
        if let Some(late) = late {
            return Ok(late.member);
        }
        // Where groups do not state their members, the rank that came last of those recorded.
        let least = self.comm.least_waiting.as_ref();
        let least = least.filter(|least| least.times_last * 2 > least.collectives);
        if let Some(least) = least {
            return Ok(least.member);
        }
        let first = self.facts.iter().position(|facts| facts.has_work);
        Ok(first.unwrap_or(0))
    }

    /// Returns `true` if waits in collectives are known, or at least those for recorded ranks.
    pub(crate) fn knows_waits(&self) -> bool {
        self.facts.len() > 1
            && self
                .comm
                .collectives
                .iter()
                .any(|one| !waits(one).is_empty())
    }

    /// Returns `true` if waits are known also for the ranks that are not recorded: then the rest of a collective is its transfer.
    pub(crate) fn knows_all_waits(&self) -> bool {
        self.facts.len() > 1 && self.comm.knows_waits()
    }

    pub(crate) fn headline_facts(&self) -> &Facts {
        &self.facts[self.at]
    }

    pub(crate) fn rank(&self) -> u32 {
        self.headline_facts().rank
    }

    /// Stretches in which the rank waited in a collective for a later one, ascending and apart.
    fn own_waits(&self) -> Vec<Interval> {
        let mut out = Vec::new();
        for collective in &self.comm.collectives {
            if collective.contradiction {
                continue;
            }
            let waits = waits(collective);
            for (at, (member, _)) in collective.matched.runs.iter().enumerate() {
                let start = collective.start_ns.get(at).copied().flatten();
                let wait = waits.get(at).copied().flatten();
                if let (true, Some(start), Some(wait)) = (*member == self.at, start, wait) {
                    let start = start.saturating_sub(self.base_ns);
                    out.push((start, start.saturating_add(wait)));
                }
            }
        }
        out.sort_unstable();
        let mut apart: Vec<Interval> = Vec::with_capacity(out.len());
        for (begin, end) in out {
            match apart.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => apart.push((begin, end)),
            }
        }
        apart
    }

    fn take_apart(&mut self, choice: &Choice) -> Result<(), NoJob> {
        let waits = self.own_waits();
        // A single step is compared with all of its phase.
        let single = choice.steps.filter(|(first, last)| first == last);
        let mut whole = choice.clone();
        if single.is_some() {
            whole.steps = None;
        }
        // Where all ranks are known, what is left of a collective is its transfer.
        let knows_waits = self.knows_all_waits();
        let rank = self.rank();
        let rows: FxHashMap<u32, &StepRow> = self
            .analysis
            .steps
            .iter()
            .filter(|step| step.rank == rank)
            .map(|step| (step.step, step))
            .collect();
        let has_whole = rows.values().any(|row| !row.flags.contains(&Flag::Lost));
        if !rows.is_empty() && !has_whole {
            return Err(NoJob::NoSteps(lost_work(&self.analysis, rank)));
        }
        let busy: FxHashMap<u32, usize> = self
            .facts
            .iter()
            .enumerate()
            .map(|(at, facts)| (facts.rank, at))
            .collect();
        let busy_of_recorder = |rank: u32, span: Interval| {
            let facts = busy.get(&rank).map(|at| &self.facts[*at]);
            facts.map_or(0, |facts| overlap(&facts.recording_at, span))
        };
        let mut steps = Vec::new();
        let mut links = Links::default();
        let mut known: Vec<String> = Vec::new();
        let mut last_phase: Option<String> = None;
        let mut sums: FxHashMap<(Class, Portion, u32, String), Item> = FxHashMap::default();
        for step in self.graph.steps(self.at) {
            let Some(row) = rows.get(&step.number) else {
                continue;
            };
            let phase = step_group(&step.name);
            let before = last_phase.replace(phase.clone());
            let is_behind_other = before.is_some_and(|before| before != phase);
            if !known.contains(&phase) {
                known.push(phase.clone());
            }
            if !whole.takes(row, &phase) {
                continue;
            }
            sums.clear();
            let mut gaps: Vec<Gap> = Vec::new();
            let mut gap: Option<Gap> = None;
            let mut in_gap: FxHashMap<String, i64> = FxHashMap::default();
            let mut is_first = true;
            let mut overhead = 0;
            let mut chains = Chains::default();
            let mut attention = crate::attention::Separate::default();
            for segment in self.graph.path(self.at, step) {
                let whole = segment.end_ns - segment.begin_ns;
                let is_wait = segment.class.group() == Group::Sync;
                let is_input = matches!(segment.class.group(), Group::Wait | Group::Input)
                    || Waiting::of_call(&segment.name) == Some(Waiting::Input);
                match segment.class.group() {
                    Group::Gpu | Group::Comm => {
                        gaps.extend(gap.take());
                        in_gap.clear();
                        is_first = false;
                    }
                    _ => {
                        let gap = gap.get_or_insert(Gap {
                            begin_ns: segment.begin_ns,
                            end_ns: segment.begin_ns,
                            ns: 0,
                            is_first,
                            is_sync: false,
                            longest_ns: 0,
                        });
                        // Waiting for requests and data is no matter of what came before.
                        if !is_input {
                            gap.ns += whole;
                        }
                        gap.end_ns = segment.end_ns;
                        gap.is_sync |= is_wait;
                        let is_named = is_input
                            || matches!(segment.class, Class::HostPython | Class::HostOther);
                        if is_named && !segment.name.is_empty() {
                            let sum = in_gap.entry(segment.name.clone()).or_default();
                            *sum += whole;
                            gap.longest_ns = gap.longest_ns.max(*sum);
                        }
                    }
                }
                chains.add(links.of(segment.class, &segment.name), whole);
                attention.add(segment.class, whole);
                let idle = match segment.class.group() {
                    Group::Gpu => 0,
                    Group::Comm => {
                        let computing = busy
                            .get(&segment.on_rank)
                            .map_or(&[][..], |at| self.facts[*at].computing.as_slice());
                        whole - overlap(computing, (segment.begin_ns, segment.end_ns))
                    }
                    _ => {
                        let busy = busy
                            .get(&segment.on_rank)
                            .map_or(&[][..], |at| self.facts[*at].busy.as_slice());
                        let span = (segment.begin_ns, segment.end_ns);
                        let recorder = busy_of_recorder(segment.on_rank, span);
                        overhead += recorder;
                        (whole - overlap(busy, span) - recorder).max(0)
                    }
                };
                let name = match segment.class {
                    Class::HostOther => place_in_code(&segment.name),
                    _ => segment.name.clone(),
                };
                let is_other = segment.on_rank != rank;
                let waited = match is_other {
                    true => overlap(&waits, (segment.begin_ns, segment.end_ns)),
                    false => 0,
                };
                let portion = match segment.class {
                    Class::Comm if knows_waits => Portion::Transfer,
                    _ => Portion::Whole,
                };
                for (portion, ns) in [(Portion::Wait, waited), (portion, whole - waited)] {
                    if ns == 0 {
                        continue;
                    }
                    let key = (segment.class, portion, segment.on_rank, name.clone());
                    let item = sums.entry(key).or_insert_with(|| Item {
                        class: segment.class,
                        portion,
                        name: name.clone(),
                        on_rank: segment.on_rank,
                        ns: 0,
                        count: 0,
                        longest_ns: 0,
                        idle_ns: 0,
                        guessed_ns: 0,
                        at_ns: segment.begin_ns,
                    });
                    item.ns += ns;
                    if portion != Portion::Wait {
                        item.idle_ns += idle;
                    }
                    item.count += 1;
                    if ns > item.longest_ns {
                        (item.longest_ns, item.at_ns) = (ns, segment.begin_ns);
                    }
                    if segment.evidence != critical_path::Evidence::Sure {
                        item.guessed_ns += ns;
                    }
                }
            }
            gaps.extend(gap);
            let mut items: Vec<Item> = sums.drain().map(|(_, item)| item).collect();
            items.sort_by(|a, b| {
                let key = |item: &Item| (std::cmp::Reverse(item.ns), item.class, item.portion);
                key(a)
                    .cmp(&key(b))
                    .then_with(|| a.name.cmp(&b.name))
                    .then_with(|| a.on_rank.cmp(&b.on_rank))
            });
            let batch = step_batch(&step.name);
            let is_partial = |flag: &Flag| matches!(flag, Flag::Clipped | Flag::Cut | Flag::Lost);
            let is_partial = row.flags.iter().any(is_partial);
            steps.push(StepFact {
                row: (*row).clone(),
                phase,
                items,
                chains: chains.finish(),
                attention: attention.found,
                gaps,
                overhead_ns: overhead,
                is_behind_other,
                is_used: row.duration_ns > 0 && !is_partial,
                batch: batch.and_then(|batch| batch.batch_size()),
                tokens: batch.and_then(|batch| batch.all_tokens()),
            });
        }
        self.focus = single.and_then(|(number, _)| {
            let found = steps
                .iter()
                .position(|step: &StepFact| step.row.step == number)?;
            steps[found].is_used = true;
            Some(found)
        });
        if steps.is_empty() || (single.is_some() && self.focus.is_none()) {
            let count = self.graph.steps(self.at).len();
            known.sort_unstable();
            let last = self
                .graph
                .steps(self.at)
                .last()
                .map_or(0, |step| step.end_ns);
            let first = self
                .graph
                .steps(self.at)
                .first()
                .map_or(0, |step| step.begin_ns);
            return Err(NoJob::NothingChosen(format!(
                "nothing is chosen: the steps are numbered 1 to {count}, the phases are {}, the window is {first}..{last} ns",
                known.join(", ")
            )));
        }
        if let Some(text) = leave_out_warm_up(&mut steps, self.focus) {
            self.notes.push(note("warm_up", &text));
        }
        // The step in which the file ends is not used; its missing work shows it as well.
        let mut flags = steps.iter().flat_map(|step| &step.row.flags);
        let is_known = flags.any(|flag| *flag == Flag::Cut);
        if self.headline_facts().is_cut && !is_known {
            let last = steps.iter().rposition(|step| step.is_used);
            if let Some(last) = last.filter(|at| self.focus != Some(*at)) {
                steps[last].is_used = false;
            }
            if steps.iter().all(|step| !step.is_used) {
                return Err(NoJob::NoSteps(
                    "the file ends early, within the only step of it; export or copy it again"
                        .to_owned(),
                ));
            }
        }
        if let Some(text) = leave_out_behind_others(&mut steps, self.focus) {
            self.notes.push(note("behind_other", &text));
        }
        if steps.iter().all(|step| !step.is_used) {
            steps.iter_mut().for_each(|step| step.is_used = true);
        }
        let mut phases: Vec<Phase> = Vec::new();
        for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.is_used) {
            let found = phases.iter().position(|phase| phase.name == step.phase);
            let place = found.unwrap_or_else(|| {
                phases.push(Phase {
                    name: step.phase.clone(),
                    steps: Vec::new(),
                    total_ns: 0,
                });
                phases.len() - 1
            });
            phases[place].steps.push(at);
            phases[place].total_ns += step.row.duration_ns;
        }
        phases.sort_by(|a, b| {
            b.total_ns
                .cmp(&a.total_ns)
                .then_with(|| a.name.cmp(&b.name))
        });
        if let Some(at) = self.focus {
            phases.retain(|phase| phase.name == steps[at].phase);
        }
        self.steps = steps;
        self.phases = phases;
        Ok(())
    }

    /// Returns the used steps of a phase.
    pub(crate) fn of<'a>(&'a self, phase: &'a Phase) -> impl Iterator<Item = &'a StepFact> + Clone {
        phase.steps.iter().map(|at| &self.steps[*at])
    }

    /// Predicts the step times of the rank under each of the changes.
    pub(crate) fn predict(&self, changes: &[Change]) -> Vec<Predicted> {
        let rank = self.rank();
        let all = critical_path::predictions(&self.graph, changes).unwrap_or_default();
        let each = all.into_iter().map(|prediction| {
            let own = prediction.steps.iter().filter(|step| step.rank == rank);
            Predicted {
                touches_something: prediction.touched > 0,
                by_step: own.map(|step| (step.step, step.predicted_ns)).collect(),
            }
        });
        each.collect()
    }
}

/// The steps of a rank under a change.
pub(crate) struct Predicted {
    /// `false` if the change matches nothing that was recorded: the replay then says nothing about it.
    pub(crate) touches_something: bool,
    /// New duration by number of the step, in nanoseconds.
    by_step: FxHashMap<u32, i64>,
}

impl Predicted {
    /// Returns how much shorter a step is, in nanoseconds.
    pub(crate) fn gain_ns(&self, row: &StepRow) -> i64 {
        row.duration_ns
            - self
                .by_step
                .get(&row.step)
                .copied()
                .unwrap_or(row.duration_ns)
    }
}

/// Returns the length of the part of an interval that lies in a list of intervals, which are ascending and apart.
pub(crate) fn overlap(all: &[Interval], (begin, end): Interval) -> i64 {
    let from = all.partition_point(|(_, last)| *last <= begin);
    let mut sum = 0;
    for (first, last) in all.get(from..).unwrap_or_default() {
        if *first >= end {
            break;
        }
        sum += last.min(&end) - first.max(&begin);
    }
    sum
}

/// Returns the wait of each run of a collective: for the last rank, or where a member is not known to be recorded, for the last
/// recorded one.
pub(crate) fn waits(collective: &CollectiveTime) -> &[Option<i64>] {
    match collective.knows_waits() {
        true => &collective.wait_ns,
        false => &collective.least_wait_ns,
    }
}

pub(crate) fn note(kind: &str, text: &str) -> Note {
    Note {
        kind: kind.to_owned(),
        text: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_those_of_single_instants() {
        let all = [(2, 5), (7, 8), (10, 20)];
        for begin in 0..22 {
            for end in begin..22 {
                let each = (begin..end).filter(|at| all.iter().any(|(a, b)| a <= at && at < b));
                assert_eq!(overlap(&all, (begin, end)), each.count() as i64);
            }
        }
    }
}
