//! Time that each rank takes by itself between two collectives of a group, and the late ranks that later ones hide.
//!
//! Only the last rank of a collective is waited for: one that is late as well, but less, only waits a little less than the others. Its own
//! time shows it: from the end of one collective of a group to its start of the next one, without the collectives of other groups in
//! between, in which it waited for others. Of the ranks of a collective, those that need longer than the usual one by a clear gap are late.
//!
//! Where most ranks are late, the usual one is late as well, and only the few that come earliest wait: [`Prompt::Few`] compares with these.

use std::collections::{BTreeMap, BTreeSet};

use gpu_time::comm::{CollectiveTime, RankDigest};

use super::Ranks;
use super::lateness::StepNumbers;
use crate::summary::Collectives;

/// A rank in the collectives of a group in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    member: usize,
    /// Excess of its own time over that of the usual rank, summed over the collectives.
    own_ns: i64,
    /// The same, in each collective at most its lateness behind the usual rank: what others wait for.
    late_ns: i64,
    /// Its lateness behind the usual rank, by whatever reason.
    behind_ns: i64,
    duration_ns: i64,
}

/// The collectives of a group in one step; a single collective where steps are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unit {
    group: usize,
    step: Option<i64>,
    /// Error of the clocks.
    error_ns: i64,
    values: Vec<Value>,
}

/// How many ranks of a collective are prompt at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prompt {
    /// Half of them (of three, one): what differs from them is late.
    Half,
    /// An eighth of them, at least one: whether the others are late or these have less to do is not recorded.
    Few,
}

impl Prompt {
    /// Returns the minimum number of prompt ones among all ranks of a collective.
    fn of(self, all: usize) -> usize {
        let share = match self {
            Self::Half => 2,
            Self::Few => 8,
        };
        (all / share).max(1)
    }
}

/// Own times of all ranks.
pub(super) struct OwnTimes {
    units: Vec<Unit>,
}

/// How often a rank is late by itself in one group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Often {
    /// Number of steps (or collectives) of the group.
    pub(super) units: usize,
    /// Number of these in which any rank is late.
    pub(super) late_units: usize,
    /// Number of these in which this one is.
    pub(super) times: usize,
    /// Expectation of that number if all ranks were late equally often.
    pub(super) expected: f64,
    /// Number of units with late ranks in which this one is prompt, by the gap between the two.
    pub(super) prompt: usize,
}

/// Lateness of a rank if those named before it were prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Hidden {
    pub(super) by_group: BTreeMap<usize, Often>,
    /// Time that the prompt ranks would wait for it alone.
    pub(super) delay_ns: i64,
    /// Time of the others in its collectives.
    pub(super) others_ns: i64,
    /// Number of the step in which it is latest, and by how much.
    pub(super) worst: Option<(i64, i64)>,
}

/// Times in which a rank communicates: its kept collectives as disjoint intervals, and the time in those that its summary dropped.
struct Busy {
    /// Begin, end, and time in all intervals before.
    intervals: Vec<(i64, i64, i64)>,
    /// Start of each kept run, and time in dropped ones before it.
    dropped: Vec<(i64, i64)>,
}

impl Busy {
    fn new(digest: &RankDigest, collectives: &Collectives) -> Self {
        let mut runs: Vec<(i64, i64)> = digest
            .runs
            .iter()
            .map(|run| (run.start_ns, run.end_ns))
            .collect();
        runs.sort_unstable();
        let mut intervals: Vec<(i64, i64, i64)> = Vec::with_capacity(runs.len());
        for (start, end) in runs {
            match intervals.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                last => {
                    let before = last.map_or(0, |last| last.2 + (last.1 - last.0));
                    intervals.push((start, end.max(start), before));
                }
            }
        }
        Self {
            intervals,
            dropped: collectives.dropped().to_vec(),
        }
    }

    /// Returns the time in collectives before an instant.
    fn before(&self, instant: i64) -> i64 {
        let next = self.intervals.partition_point(|of| of.0 < instant);
        let last = next.checked_sub(1).and_then(|at| self.intervals.get(at));
        last.map_or(0, |(start, end, before)| {
            before + (instant.min(*end) - start)
        })
    }

    fn dropped_before(&self, start: i64) -> i64 {
        let next = self.dropped.partition_point(|of| of.0 <= start);
        let last = next.checked_sub(1).and_then(|at| self.dropped.get(at));
        last.map_or(0, |of| of.1)
    }

    /// Returns the time outside collectives from the end of one run to the start of a later one.
    fn own_ns(&self, one: (i64, i64), other_start: i64) -> i64 {
        let dropped = self.dropped_before(other_start) - self.dropped_before(one.0);
        let busy = self.before(other_start) - self.before(one.1);
        (other_start - one.1 - busy - dropped).max(0)
    }
}

/// Returns the place of the usual rank among `n` in ascending order: the last one of the prompt half, so that half of the ranks may be late.
fn usual(n: usize) -> usize {
    (n / 2).max(1) - 1
}

/// Returns the value at the place of the usual rank.
fn usual_of(values: impl Iterator<Item = i64>) -> i64 {
    let mut sorted: Vec<i64> = values.collect();
    sorted.sort_unstable();
    sorted.get(usual(sorted.len())).copied().unwrap_or(0)
}

impl OwnTimes {
    /// Measures the own times of all ranks. Cost: linear in the collectives and their runs, with a search in those of the rank for each.
    pub(super) fn measure(ranks: &Ranks) -> Self {
        let busy = ranks.digests.iter().zip(&ranks.members);
        let busy: Vec<Busy> = busy
            .map(|(digest, member)| Busy::new(digest, &member.summary.collectives))
            .collect();
        let steps = StepNumbers::new(ranks);
        let mut units: Vec<Unit> = Vec::new();
        // The collective of the same group before.
        let mut before: Option<&CollectiveTime> = None;
        for c in &ranks.job.collectives {
            if !c.synchronising || c.contradiction {
                continue;
            }
            let previous = before.filter(|before| before.matched.group == c.matched.group);
            before = Some(c);
            let Some((values, step)) = previous.and_then(|p| values(ranks, &busy, &steps, p, c))
            else {
                continue;
            };
            let same = units.last_mut().filter(|unit| {
                let members = unit.values.iter().map(|value| value.member);
                unit.group == c.matched.group
                    && unit.step.is_some()
                    && unit.step == step
                    && members.eq(values.iter().map(|value| value.member))
            });
            match same {
                Some(unit) => {
                    unit.error_ns = unit.error_ns.max(c.error_ns);
                    for (sum, value) in unit.values.iter_mut().zip(&values) {
                        sum.own_ns = sum.own_ns.saturating_add(value.own_ns);
                        sum.late_ns = sum.late_ns.saturating_add(value.late_ns);
                        sum.behind_ns = sum.behind_ns.saturating_add(value.behind_ns);
                        sum.duration_ns = sum.duration_ns.saturating_add(value.duration_ns);
                    }
                }
                None => units.push(Unit {
                    group: c.matched.group,
                    step,
                    error_ns: c.error_ns,
                    values,
                }),
            }
        }
        Self { units }
    }

    /// Returns how late each rank would be if those in `named` were prompt.
    pub(super) fn without(
        &self,
        members: usize,
        named: &BTreeSet<usize>,
        prompt: Prompt,
    ) -> Vec<Hidden> {
        let mut out = vec![Hidden::default(); members];
        for unit in &self.units {
            unit.count(named, prompt, &mut out);
        }
        out
    }

    /// Returns the time that the other ranks would wait for each rank alone, if those in `named` but itself were prompt: behind the usual
    /// rank, or, with [`Prompt::Few`], behind the slowest of the others where most are named.
    pub(super) fn alone(
        &self,
        members: usize,
        named: &BTreeSet<usize>,
        prompt: Prompt,
    ) -> Vec<Option<i64>> {
        let mut out = vec![None; members];
        for unit in &self.units {
            let is_named = |value: &&Value| named.contains(&value.member);
            let late = unit.values.iter().filter(is_named).count();
            // Where most are late, the usual one is as well: the slowest of the others takes its place.
            let others = unit.values.iter().filter(|value| !is_named(value));
            let half = unit.values.len() - Prompt::Half.of(unit.values.len());
            let is_most = prompt == Prompt::Few && late > half;
            let reference = others.max_by_key(|value| value.own_ns);
            let reference = reference.filter(|_| is_most);
            for value in &unit.values {
                let waiting = unit.values.len() - late - usize::from(!is_named(&value));
                let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
                if let Some(slot) = out.get_mut(value.member) {
                    let late_ns = reference.map_or(value.late_ns, |of| value.behind(of));
                    let own = late_ns.max(0).saturating_mul(waiting);
                    *slot = Some(slot.unwrap_or(0_i64).saturating_add(own));
                }
            }
        }
        out
    }
}

impl Value {
    /// Returns its lateness behind another rank that others wait for.
    fn behind(&self, other: &Self) -> i64 {
        let own = self.own_ns.saturating_sub(other.own_ns);
        own.min(self.behind_ns.saturating_sub(other.behind_ns))
    }
}

/// Returns the ranks of a collective that were in the one before it as well, and the step. Those whose clock is unknown are left out.
fn values(
    ranks: &Ranks,
    busy: &[Busy],
    steps: &StepNumbers,
    before: &CollectiveTime,
    c: &CollectiveTime,
) -> Option<(Vec<Value>, Option<i64>)> {
    let earlier: BTreeMap<usize, usize> = before.matched.runs.iter().copied().collect();
    let mut all: Vec<(usize, i64, i64, i64)> = Vec::with_capacity(c.matched.runs.len());
    let mut step = None;
    for (start, (member, place)) in c.start_ns.iter().zip(&c.matched.runs) {
        let found = earlier.get(member).and_then(|earlier| {
            let digest = ranks.digests.get(*member)?;
            let (last, run) = (digest.runs.get(*earlier)?, digest.runs.get(*place)?);
            let own = busy.get(*member)?;
            let own = own.own_ns((last.start_ns, last.end_ns), run.start_ns);
            Some((own, run))
        });
        if let Some(((own, run), start)) = found.zip(*start) {
            if all.is_empty() {
                step = steps.of(*member, run.start_ns);
            }
            all.push((*member, own, start, run.duration_ns()));
        }
    }
    if all.len() < 2 {
        return None;
    }
    let (own, start) = (
        usual_of(all.iter().map(|of| of.1)),
        usual_of(all.iter().map(|of| of.2)),
    );
    let mut values: Vec<Value> = all
        .into_iter()
        .map(|of| Value {
            member: of.0,
            own_ns: of.1 - own,
            late_ns: (of.1 - own).min(of.2 - start),
            behind_ns: of.2 - start,
            duration_ns: of.3,
        })
        .collect();
    values.sort_unstable_by_key(|value| value.member);
    Some((values, step))
}

impl Unit {
    /// Counts the ranks that are late by themselves among those that are not named: those above the largest gap, at most so many that
    /// enough of all ranks are prompt.
    fn count(&self, named: &BTreeSet<usize>, prompt: Prompt, out: &mut [Hidden]) {
        let mut rest: Vec<&Value> = self.values.iter().collect();
        rest.retain(|value| !named.contains(&value.member));
        let most = (rest.len()).saturating_sub(prompt.of(self.values.len()));
        if most == 0 {
            return;
        }
        // By own times alone, which are alike for ranks that only pass delays on.
        rest.sort_by_key(|value| (std::cmp::Reverse(value.own_ns), value.member));
        let gaps = rest.windows(2).take(most).enumerate();
        let gaps = gaps.filter_map(|(at, pair)| match pair {
            [one, next] => Some((one.own_ns - next.own_ns, at + 1)),
            _ => None,
        });
        let cut = gaps.max_by_key(|(gap, late)| (*gap, std::cmp::Reverse(*late)));
        let late = cut.filter(|(gap, _)| *gap > self.error_ns);
        let late = late.map_or(0, |(_, late)| late);
        // The slowest prompt one, where the usual one may be late.
        let reference = match prompt {
            Prompt::Half => None,
            Prompt::Few => rest.get(late).copied(),
        };
        let late_ns = |value: &Value| reference.map_or(value.late_ns, |of| value.behind(of));
        // Waits for named ranks would be gone.
        let latest = self.values.iter().map(|value| value.behind_ns).max();
        let latest_of_rest = rest.iter().map(|value| value.behind_ns).max();
        let gone = latest.unwrap_or(0) - latest_of_rest.unwrap_or(0);
        // Each would still wait for the latest of those that are left.
        let latest_ns = rest.iter().map(|value| late_ns(value)).max().unwrap_or(0);
        let duration = |value: &Value| {
            let wait = latest_ns.saturating_sub(late_ns(value).max(0));
            (value.duration_ns - gone).max(wait).max(0)
        };
        let durations: i64 = rest.iter().map(|value| duration(value)).sum();
        let chance = crate::words::count(late) / crate::words::count(rest.len());
        let waiting = i64::try_from(rest.len() - late).unwrap_or(i64::MAX);
        for (at, value) in rest.iter().enumerate() {
            let Some(hidden) = out.get_mut(value.member) else {
                continue;
            };
            hidden.others_ns = hidden.others_ns.saturating_add(durations - duration(value));
            let often = hidden.by_group.entry(self.group).or_default();
            often.units += 1;
            often.expected += chance;
            often.late_units += usize::from(late > 0);
            often.prompt += usize::from(late > 0 && at >= late);
            let behind = late_ns(value);
            if at < late && behind > self.error_ns {
                often.times += 1;
                hidden.delay_ns = hidden
                    .delay_ns
                    .saturating_add(behind.saturating_mul(waiting));
                if let Some(step) = self.step
                    && hidden.worst.is_none_or(|(_, most)| behind > most)
                {
                    hidden.worst = Some((step, behind));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(late: &[i64]) -> Unit {
        let values = late.iter().enumerate().map(|(member, late_ns)| Value {
            member,
            own_ns: *late_ns,
            late_ns: *late_ns,
            behind_ns: *late_ns,
            duration_ns: 3_000 - late_ns,
        });
        Unit {
            group: 0,
            step: Some(1),
            error_ns: 10,
            values: values.collect(),
        }
    }

    #[test]
    fn the_second_latest_is_late_without_the_latest() {
        let times = OwnTimes {
            units: vec![unit(&[0, 5, 2_000, -5, 1_000, 0, 3, 1])],
        };
        let first = times.without(8, &BTreeSet::new(), Prompt::Half);
        // Gaps of 1000 to both sides: the smaller group.
        assert_eq!(first[2].by_group[&0].times, 1);
        assert_eq!(first[4].by_group[&0].times, 0);
        let second = times.without(8, &BTreeSet::from([2]), Prompt::Half);
        let of = &second[4];
        assert_eq!((of.by_group[&0].times, of.delay_ns), (1, 6_000));
        assert!((of.by_group[&0].expected - 1.0 / 7.0).abs() < 1e-12);
        assert_eq!(of.worst, Some((1, 1_000)));
        // The others would last as long as it is late, without the wait for the latest one.
        assert_eq!(of.others_ns, 6 * 2_000 - 4);
        assert!(second[2].by_group.is_empty());
        let third = times.without(8, &BTreeSet::from([2, 4]), Prompt::Half);
        assert!(
            third
                .iter()
                .all(|of| of.by_group.values().all(|o| o.times == 0))
        );
        let alone = times.alone(8, &BTreeSet::from([2, 4]), Prompt::Few);
        assert_eq!((alone[2], alone[4]), (Some(12_000), Some(6_000)));
    }

    #[test]
    fn half_of_the_ranks_are_prompt() {
        let times = OwnTimes {
            units: vec![unit(&[0, 0, 1_000, 1_000])],
        };
        let found = times.without(4, &BTreeSet::new(), Prompt::Half);
        assert_eq!(found[2].by_group[&0].times, 1);
        assert_eq!(found[2].delay_ns, 2_000);
        assert!(
            times.without(4, &BTreeSet::from([2, 3]), Prompt::Half)[0]
                .by_group
                .is_empty()
        );
        // Of two, one may be late.
        let times = OwnTimes {
            units: vec![unit(&[0, 500])],
        };
        assert_eq!(
            times.without(2, &BTreeSet::new(), Prompt::Half)[1].delay_ns,
            500
        );
        assert!(
            times.without(2, &BTreeSet::from([1]), Prompt::Half)[0]
                .by_group
                .is_empty()
        );
    }

    #[test]
    fn three_of_four_are_late_behind_the_first() {
        let times = OwnTimes {
            units: vec![unit(&[0, 1_000, 900, 1_100])],
        };
        let few = times.without(4, &BTreeSet::new(), Prompt::Few);
        let of = |at: usize| (few[at].by_group[&0].times, few[at].delay_ns);
        assert_eq!(
            [of(0), of(1), of(2), of(3)],
            [(0, 0), (1, 1_000), (1, 900), (1, 1_100)]
        );
        assert_eq!(few[0].by_group[&0].prompt, 1);
        // Only the first one waits.
        let alone = times.alone(4, &BTreeSet::from([1, 2, 3]), Prompt::Few);
        assert_eq!(alone, [Some(0), Some(1_000), Some(900), Some(1_100)]);
        // One early rank of more than eight is the exception itself.
        let times = OwnTimes {
            units: vec![unit(&[
                0, 1_000, 1_003, 1_001, 999, 1_000, 1_002, 1_004, 1_000, 1_001, 1_002, 998, 1_001,
                1_000, 1_003, 1_001,
            ])],
        };
        let few = times.without(16, &BTreeSet::new(), Prompt::Few);
        assert!(few.iter().all(|of| of.delay_ns < 100), "{few:?}");
    }

    #[test]
    fn own_time_is_without_collectives_of_others() {
        let busy = Busy {
            intervals: vec![(0, 100, 0), (150, 250, 100), (300, 400, 200)],
            dropped: vec![(0, 0), (150, 0), (300, 20)],
        };
        assert_eq!(busy.own_ns((0, 100), 300), 80);
        assert_eq!(busy.own_ns((0, 100), 150), 50);
        assert_eq!(busy.own_ns((150, 250), 300), 30);
    }
}
