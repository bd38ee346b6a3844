//! Which ranks the others wait for.

use std::collections::BTreeMap;

use critical_path::Group;
use gpu_time::comm::CollectiveTime;

use super::Ranks;
use super::composition::Speed;
use super::outlier::z;
use super::range::stretch;
use crate::finding::{Finding, Kind, Strength};
use crate::words::{count, counted, factor, real, shown};

/// Minimum share of the time that others spend in its collectives for a late rank to be a finding, in percent.
pub(super) const LEAST_SHARE_PCT: f64 = 2.0;

/// Excess of the time in kernels that explains why a rank is late.
const SLOWER: f64 = 1.05;

/// Number of standard deviations beyond chance from which being last is no chance.
const LEAST_Z: f64 = 4.0;

/// Lateness of a rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Late {
    /// Collectives in which its wait, or a lower bound of it, is known.
    pub(crate) collectives: usize,
    pub(crate) waited_ns: i64,
    /// Time that others waited for it, in collectives of which all members are recorded.
    pub(crate) inflicted_ns: i64,
    /// Lower bound of that time in the other collectives.
    pub(crate) at_least_ns: i64,
    /// Part that it would have avoided by arriving with the rank before it.
    pub(crate) avoidable_ns: i64,
    pub(crate) times_last: usize,
    /// Expectation and variance of `times_last` if all members were last equally often.
    expected: f64,
    variance: f64,
    /// The same by step, with the numbers of steps of the recording: what happens in one step is not independent.
    by_step: BTreeMap<i64, Last>,
    /// The same by group.
    by_group: BTreeMap<usize, Last>,
    /// Time of the other ranks in its collectives, and of all ranks in those to which its delays were passed on.
    others_ns: i64,
    /// `true` if its delays were passed on to collectives that it is no member of.
    passes_on: bool,
    /// Its delays behind the rank before it, without those that are known to be passed on by others.
    own_late_ns: i64,
    /// Lower bound of its waits where a member is missing.
    waited_at_least_ns: i64,
    /// Own times between which it was last.
    range: Option<(i64, i64)>,
    /// Lateness behind the median rank by step.
    pub(crate) steps: BTreeMap<i64, i64>,
}

/// How often a rank was last, against chance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Last {
    times: usize,
    expected: f64,
    variance: f64,
}

impl Last {
    fn add(&mut self, chance: f64, is_last: bool) {
        self.times += usize::from(is_last);
        self.expected += chance;
        self.variance += chance * (1.0 - chance);
    }
}

impl Late {
    /// Returns `true` if it is last beyond chance in the collectives of a group.
    pub(crate) fn is_late_within(&self, group: usize) -> bool {
        let of = self.by_group.get(&group);
        of.is_some_and(|last| z(last.times, last.expected, last.variance) >= LEAST_Z)
    }

    /// Returns the squares of the differences between the times it was last in a step and what is expected of a rank that is last as
    /// often, and what they add up to if collectives of a step are independent.
    fn scatter_of_steps(&self) -> (f64, f64) {
        if self.expected <= 0.0 {
            return (0.0, 0.0);
        }
        let often = count(self.times_last) / self.expected;
        let squares = self.by_step.values().map(|step| {
            let off = count(step.times) - often * step.expected;
            off * off
        });
        let independent = self.by_step.values().map(|step| often * step.variance);
        (squares.sum(), independent.sum())
    }

    pub(crate) fn delay_ns(&self) -> i64 {
        self.inflicted_ns.saturating_add(self.at_least_ns)
    }

    /// Returns `true` if it takes part in collectives of which a member is missing: what others passed on to it there is not known.
    pub(crate) fn is_open(&self) -> bool {
        self.at_least_ns > 0 || self.waited_at_least_ns > 0
    }

    /// Returns `true` if others may have passed all of its delays on to it: where members are missing that is not taken out, and the rank is
    /// late by hardly more than it waited elsewhere.
    pub(crate) fn may_be_passed_on(&self) -> bool {
        self.is_open() && self.own_late_ns <= self.waited_ns.saturating_add(self.waited_ns / 10)
    }

    /// Returns the share of the delay that it causes in the time of the ranks that it delays in their collectives, in percent.
    pub(crate) fn share_pct(&self) -> f64 {
        share_pct(self.delay_ns(), self.others_ns)
    }
}

/// Returns the share of a delay in the time of those who wait, in percent. Clocks have errors, so that a delay may seem longer than that time.
pub(super) fn share_pct(delay_ns: i64, others_ns: i64) -> f64 {
    match others_ns > 0 {
        true => (real(delay_ns) * 100.0 / real(others_ns)).clamp(0.0, 100.0),
        false => 0.0,
    }
}

/// Returns the waits of a collective, or the lower bounds where a member is missing.
fn waits(c: &CollectiveTime) -> &[Option<i64>] {
    match c.knows_waits() {
        true => &c.wait_ns,
        false => &c.least_wait_ns,
    }
}

/// Returns the run that started last by more than the error of the clocks, and by how much.
fn last(c: &CollectiveTime) -> Option<(usize, i64)> {
    let waits = waits(c);
    let mut zero = waits
        .iter()
        .enumerate()
        .filter(|(_, wait)| **wait == Some(0));
    let (at, _) = zero.next()?;
    if zero.next().is_some() {
        return None;
    }
    let late = waits.iter().flatten().filter(|wait| **wait > 0).min()?;
    (*late > c.error_ns).then_some((at, *late))
}

/// Steps of each rank: begin, end and number, in ascending time.
pub(super) struct StepNumbers(Vec<Vec<(i64, i64, i64)>>);

impl StepNumbers {
    pub(super) fn new(ranks: &Ranks) -> Self {
        let each = ranks.members.iter().map(|member| {
            let steps = member.summary.steps.iter();
            steps
                .map(|step| (step.begin_ns, step.end_ns(), step.number))
                .collect()
        });
        Self(each.collect())
    }

    /// Returns the number of the step of a rank in which something starts.
    pub(super) fn of(&self, member: usize, start_ns: i64) -> Option<i64> {
        let steps = self.0.get(member).map_or(&[][..], Vec::as_slice);
        // What begins with the end of a step belongs to the next one.
        let next = steps.partition_point(|step| step.0 <= start_ns);
        let step = next.checked_sub(1).and_then(|at| steps.get(at))?;
        (start_ns < step.1).then_some(step.2)
    }
}

/// Returns how much slower the kernels of a rank are, as the end of a sentence; empty unless its device is slow.
pub(super) fn slower(speed: Option<Speed>) -> String {
    match speed {
        Some(speed) if speed.is_slow => format!(
            "; its kernels take {} times as long as the same ones of the other ranks",
            factor(speed.ratio)
        ),
        _ => String::new(),
    }
}

/// Measures the lateness of all ranks.
pub(crate) fn measure(ranks: &Ranks) -> Vec<Late> {
    let mut out = vec![Late::default(); ranks.members.len()];
    for (late, of_job) in out.iter_mut().zip(&ranks.job.ranks) {
        late.waited_ns = of_job.waited_ns;
        late.inflicted_ns = of_job.inflicted_ns;
        late.avoidable_ns = of_job.avoidable_ns;
    }
    let steps = StepNumbers::new(ranks);
    for c in &ranks.job.collectives {
        let waits = waits(c);
        let known = waits.iter().flatten().count();
        if c.contradiction || known < 2 {
            continue;
        }
        let run = |at: usize| {
            let (member, place) = c.matched.runs.get(at)?;
            Some((*member, ranks.digests.get(*member)?.runs.get(*place)?))
        };
        let durations: i64 = (0..waits.len())
            .filter_map(|at| Some(run(at)?.1.duration_ns()))
            .sum();
        for (origin, _) in &c.origins {
            let is_inside = c.matched.runs.iter().any(|run| run.0 == *origin);
            if let Some(late) = out.get_mut(*origin).filter(|_| !is_inside) {
                late.others_ns = late.others_ns.saturating_add(durations);
                late.passes_on = true;
            }
        }
        let mut starts: Vec<i64> = c.start_ns.iter().flatten().copied().collect();
        starts.sort_unstable();
        let usual = starts.get(starts.len().saturating_sub(1) / 2).copied();
        let late_run = last(c);
        for (at, wait) in waits.iter().enumerate() {
            let (Some(wait), Some((member, own))) = (wait, run(at)) else {
                continue;
            };
            let Some(late) = out.get_mut(member) else {
                continue;
            };
            late.collectives += 1;
            late.others_ns = late.others_ns.saturating_add(durations - own.duration_ns());
            if !c.knows_waits() {
                late.waited_ns = late.waited_ns.saturating_add(*wait);
                late.waited_at_least_ns = late.waited_at_least_ns.saturating_add(*wait);
            }
            let step = steps.of(member, own.start_ns);
            if let Some((last, _)) = late_run {
                let chance = 1.0 / count(known);
                late.expected += chance;
                late.variance += chance * (1.0 - chance);
                let group = late.by_group.entry(c.matched.group).or_default();
                group.add(chance, last == at);
                if let Some(step) = step {
                    late.by_step
                        .entry(step)
                        .or_default()
                        .add(chance, last == at);
                }
            }
            if let Some((last, by)) = late_run
                && last == at
            {
                late.times_last += 1;
                let own_late = by.saturating_sub(c.passed_on_ns).max(0);
                late.own_late_ns = late.own_late_ns.saturating_add(own_late);
                let range = late.range.get_or_insert((own.start_ns, own.end_ns));
                *range = (range.0.min(own.start_ns), range.1.max(own.end_ns));
                if !c.knows_waits() {
                    let all: i64 = waits.iter().flatten().sum();
                    late.at_least_ns = late.at_least_ns.saturating_add(all);
                    let others = i64::try_from(known - 1).unwrap_or(i64::MAX);
                    late.avoidable_ns = late.avoidable_ns.saturating_add(by.saturating_mul(others));
                }
            }
            let start = c.start_ns.get(at).copied().flatten();
            let behind = start.zip(usual).map(|(start, usual)| start - usual);
            if let Some(behind) = behind.filter(|behind| *behind > c.error_ns)
                && let Some(step) = step
            {
                let sum = late.steps.entry(step).or_default();
                *sum = sum.saturating_add(behind);
            }
        }
    }
    out
}

/// Returns the ranks that others wait for beyond chance.
pub(crate) fn findings(ranks: &Ranks, late: &[Late], speed: &[Option<Speed>]) -> Vec<Finding> {
    let mut out = Vec::new();
    let scatters: Vec<(f64, f64)> = late.iter().map(Late::scatter_of_steps).collect();
    let sum = scatters
        .iter()
        .fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    for ((member, late), own) in late.iter().enumerate().zip(&scatters) {
        // Where load moves from step to step, one rank is last throughout a step: the scatter of the other ranks tells how many
        // collectives count as one.
        let others = (sum.0 - own.0, sum.1 - own.1);
        let together = if others.1 > 0.0 {
            (others.0 / others.1).max(1.0)
        } else {
            1.0
        };
        let beyond = z(late.times_last, late.expected, late.variance * together);
        let is_cost = late.avoidable_ns.saturating_mul(2) >= late.delay_ns();
        let is_delay = late.share_pct() >= LEAST_SHARE_PCT;
        if !is_delay || beyond < LEAST_Z || late.avoidable_ns == 0 || late.may_be_passed_on() {
            continue;
        }
        let rank = ranks.rank(member);
        let at_least = if late.at_least_ns > 0 {
            "at least "
        } else {
            ""
        };
        let beyond_own = match late.passes_on {
            true => " and in those to which they pass the delay on",
            false => "",
        };
        let host = ranks.members.get(member).and_then(|m| m.host.as_ref());
        let host = host.map_or_else(String::new, |host| format!(" on host {host}"));
        let why = slower(speed.get(member).copied().flatten());
        let part = part(ranks, member, late);
        let when = part
            .as_ref()
            .map_or_else(String::new, |part| part.words.clone());
        let title = format!(
            "Rank {rank}{host} makes others wait {at_least}{} ({} % of their time in its collectives{beyond_own}){when}: it is last in {} of {}{why}",
            shown(late.delay_ns()),
            (late.share_pct() * 10.0).round() / 10.0,
            late.times_last,
            counted(late.collectives, "collective", "collectives"),
        );
        // Where several ranks arrive together, none of them alone would gain the time.
        let strength = match is_cost {
            true => Strength::Established,
            false => Strength::Likely,
        };
        let mut finding = Finding::new(Kind::LateRank, &rank.to_string(), strength, title);
        finding.cost_ns = Some(late.delay_ns());
        finding.share_pct = Some(late.share_pct());
        finding.host = ranks.members.get(member).and_then(|m| m.host.clone());
        let window = part.and_then(|part| part.window);
        let window = window.or_else(|| worst_step(ranks, member, late));
        let window = window.or_else(|| {
            let (begin, end) = late.range?;
            ranks.window(member, begin, end)
        });
        out.push(finding.of_ranks([rank]).at(window));
    }
    out
}

/// Part of the steps in which a rank is late.
struct Part {
    words: String,
    window: Option<crate::finding::Window>,
}

/// Returns the time of a rank in kernels, on the critical path of the steps from one number to another, as a multiple of that of the median
/// rank of its part of the job; `None` if fewer than two others have these steps.
fn pace(ranks: &Ranks, member: usize, range: (i64, i64)) -> Option<f64> {
    let gpu = Group::ALL.iter().position(|group| *group == Group::Gpu)?;
    let part = ranks.parts.get(member)?;
    let time = |of: usize| {
        let summary = &ranks.members.get(of)?.summary;
        let steps = summary.steps.iter();
        let inside = steps.filter(|step| (range.0..=range.1).contains(&step.number));
        let (mut number, mut sum) = (0, 0.0);
        for step in inside {
            number += 1;
            sum += real(summary.steps.group(step.place, gpu));
        }
        Some((number, sum))
    };
    let own = time(member)?;
    let others = ranks
        .parts
        .iter()
        .enumerate()
        .filter(|(at, of)| *at != member && *of == part);
    let others: Vec<f64> = others
        .filter_map(|(at, _)| time(at).filter(|other| other.0 == own.0))
        .map(|other| other.1)
        .collect();
    let usual = stats::median(&others);
    (others.len() > 1 && usual > 0.0).then(|| own.1 / usual)
}

/// Returns the part of the steps that holds most of the lateness of a rank; `None` if it is late throughout.
fn part(ranks: &Ranks, member: usize, late: &Late) -> Option<Part> {
    let steps: Vec<(i64, i64, i64)> = {
        let steps = ranks.members.get(member)?.summary.steps.iter();
        steps
            .map(|step| (step.number, step.begin_ns, step.end_ns()))
            .collect()
    };
    let of = |step: &(i64, i64, i64)| late.steps.get(&step.0).copied().unwrap_or(0);
    let values: Vec<i64> = steps.iter().map(of).collect();
    let found = stretch(&values)?;
    let (first, last) = (steps.get(found.first)?, steps.get(found.last)?);
    let pace = pace(ranks, member, (first.0, last.0));
    let pace = pace
        .filter(|pace| *pace >= SLOWER)
        .map_or_else(String::new, |pace| {
            format!(
                ", where it spends {} times the median rank's time in kernels",
                factor(pace)
            )
        });
    let steps_of = match first.0 == last.0 {
        true => format!("step {}", first.0),
        false => format!("steps {} to {}", first.0, last.0),
    };
    Some(Part {
        words: format!(
            ", {} % of its lateness in {steps_of} of {}{pace}",
            (found.share_pct * 10.0).round() / 10.0,
            steps.len(),
        ),
        window: ranks.window(member, first.1, last.2),
    })
}

/// Returns the step in which a rank is latest.
fn worst_step(ranks: &Ranks, member: usize, late: &Late) -> Option<crate::finding::Window> {
    let (number, _) = late
        .steps
        .iter()
        .max_by_key(|(number, behind)| (**behind, std::cmp::Reverse(**number)))?;
    let summary = &ranks.members.get(member)?.summary;
    let step = summary.steps.iter().find(|step| step.number == *number)?;
    ranks.window(member, step.begin_ns, step.end_ns())
}
