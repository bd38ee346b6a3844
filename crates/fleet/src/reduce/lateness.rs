//! Which ranks the others wait for.

use std::collections::BTreeMap;

use gpu_time::comm::CollectiveTime;

use super::Ranks;
use super::composition::Speed;
use super::outlier::z;
use crate::finding::{Finding, Kind, Strength};
use crate::words::{count, counted, factor, real, shown};

/// Minimum share of the time that others spend in its collectives for a late rank to be a finding, in percent.
const LEAST_SHARE_PCT: f64 = 2.0;

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
    /// Time of the other ranks in its collectives.
    others_ns: i64,
    /// Its delays behind the rank before it, without those that are known to be passed on by others.
    own_late_ns: i64,
    /// Lower bound of its waits where a member is missing.
    waited_at_least_ns: i64,
    /// Own times between which it was last.
    range: Option<(i64, i64)>,
    /// Lateness behind the median rank by step.
    pub(crate) steps: BTreeMap<i64, i64>,
}

impl Late {
    pub(crate) fn delay_ns(&self) -> i64 {
        self.inflicted_ns.saturating_add(self.at_least_ns)
    }

    /// Returns `true` if others may have passed all of its delays on to it: where members are missing that is not taken out, and the rank is
    /// late by hardly more than it waited elsewhere.
    pub(crate) fn may_be_passed_on(&self) -> bool {
        let is_open = self.at_least_ns > 0 || self.waited_at_least_ns > 0;
        is_open && self.own_late_ns <= self.waited_ns.saturating_add(self.waited_ns / 10)
    }

    pub(crate) fn share_pct(&self) -> f64 {
        match self.others_ns {
            0 => 0.0,
            others => real(self.delay_ns()) * 100.0 / real(others),
        }
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

/// Measures the lateness of all ranks.
pub(crate) fn measure(ranks: &Ranks) -> Vec<Late> {
    let mut out = vec![Late::default(); ranks.members.len()];
    for (late, of_job) in out.iter_mut().zip(&ranks.job.ranks) {
        late.waited_ns = of_job.waited_ns;
        late.inflicted_ns = of_job.inflicted_ns;
        late.avoidable_ns = of_job.avoidable_ns;
    }
    let begins: Vec<Vec<(i64, i64, i64)>> = ranks
        .members
        .iter()
        .map(|member| {
            let steps = member.summary.steps.iter();
            steps
                .map(|step| (step.begin_ns, step.end_ns(), step.number))
                .collect()
        })
        .collect();
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
            if late_run.is_some() {
                let chance = 1.0 / count(known);
                late.expected += chance;
                late.variance += chance * (1.0 - chance);
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
            if let Some(behind) = behind.filter(|behind| *behind > c.error_ns) {
                let steps = begins.get(member).map_or(&[][..], Vec::as_slice);
                // What begins with the end of a step belongs to the next one.
                let next = steps.partition_point(|step| step.0 <= own.start_ns);
                let step = next.checked_sub(1).and_then(|at| steps.get(at));
                if let Some(step) = step.filter(|step| own.start_ns < step.1) {
                    let sum = late.steps.entry(step.2).or_default();
                    *sum = sum.saturating_add(behind);
                }
            }
        }
    }
    out
}

/// Returns the ranks that others wait for beyond chance.
pub(crate) fn findings(ranks: &Ranks, late: &[Late], speed: &[Option<Speed>]) -> Vec<Finding> {
    let mut out = Vec::new();
    for (member, late) in late.iter().enumerate() {
        let beyond = z(late.times_last, late.expected, late.variance);
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
        let host = ranks.members.get(member).and_then(|m| m.host.as_ref());
        let host = host.map_or_else(String::new, |host| format!(" on host {host}"));
        let why = match speed.get(member).copied().flatten() {
            Some(speed) if speed.is_slow => format!(
                "; its kernels take {} times as long as the same ones of the other ranks",
                factor(speed.ratio)
            ),
            _ => String::new(),
        };
        let title = format!(
            "Rank {rank}{host} makes others wait {at_least}{} ({} % of their time in its collectives): it is last in {} of {}{why}",
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
        let window = worst_step(ranks, member, late);
        let window = window.or_else(|| {
            let (begin, end) = late.range?;
            ranks.window(member, begin, end)
        });
        out.push(finding.of_ranks([rank]).at(window));
    }
    out
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
