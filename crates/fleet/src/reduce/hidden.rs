//! Ranks and hosts that are late by themselves, but hidden by others that are later still.

use std::collections::{BTreeMap, BTreeSet};

use super::Ranks;
use super::composition::Speed;
use super::late_racks;
use super::lateness::{LEAST_SHARE_PCT, share_pct, slower};
use super::outlier::binomial_sf;
use super::own::{Hidden, Often, OwnTimes, Prompt};
use crate::finding::{Finding, Kind, Strength, Window};
use crate::words::{count, counted, real, shown};

/// Maximum probability of chance, over all ranks (or hosts) together.
const CHANCE: f64 = 0.01;

/// Share of the late arrivals of a host up to which one of its ranks is not the reason alone.
const ONE_PART: f64 = 2.0 / 3.0;

/// Excess of what others would wait for some ranks alone over what they wait for them, from which it is reported.
const MORE: f64 = 1.25;

/// What recordings cannot tell where most ranks of a collective are late.
const MOST_ARE_LATE: &str =
    "; as most ranks are late, it may as well be that those that arrive first have less to do";

/// Adds the ranks and hosts that are late if those of the findings so far were prompt, those that are late without these as well, and so
/// on, at last where most of the ranks of a collective are late; corrects costs that others hide; and adds the racks all of whose hosts are
/// late. Returns the time that the others would wait for each rank alone.
pub(super) fn add(
    ranks: &Ranks,
    speed: &[Option<Speed>],
    findings: &mut Vec<Finding>,
) -> Vec<Option<i64>> {
    let number = ranks.members.len();
    let own = OwnTimes::measure(ranks);
    let places: BTreeMap<u32, usize> = (0..number).map(|at| (ranks.rank(at), at)).collect();
    let members = |findings: &[Finding]| -> BTreeSet<usize> {
        let late = findings.iter().filter(|finding| is_late(finding));
        let ranks = late.flat_map(|finding| &finding.ranks);
        ranks.filter_map(|rank| places.get(rank).copied()).collect()
    };
    let mut named = members(findings);
    for prompt in [Prompt::Half, Prompt::Few] {
        loop {
            let round = Round::new(&own, number, &named, prompt);
            let mut found = late_ranks(ranks, &round, speed);
            found.extend(late_hosts(ranks, &own, &round));
            let before = named.len();
            named.extend(members(&found));
            if named.len() == before {
                break;
            }
            // A host whose ranks are named one by one in earlier rounds is not named again.
            found.retain(|finding| findings.iter().all(|known| known.id != finding.id));
            findings.extend(found);
        }
    }
    let alone = own.alone(number, &named, Prompt::Few);
    let behind_usual = own.alone(number, &named, Prompt::Half);
    for finding in findings.iter_mut().filter(|finding| is_late(finding)) {
        let of = finding.ranks.iter().filter_map(|rank| places.get(rank));
        let of: Vec<usize> = of.copied().collect();
        let sum = |each: &[Option<i64>]| -> i64 {
            let known = of.iter().filter_map(|at| each.get(*at).copied().flatten());
            known.sum()
        };
        let all = sum(&alone);
        if let Some(cost) = finding.cost_ns
            && real(all) > MORE * real(cost)
        {
            finding.cost_ns = Some(all);
            finding.title = format!(
                "{}; others that are late as well hide a part of it: alone it would cost them {}",
                finding.title,
                shown(all)
            );
        }
        // It is hardly later than the usual rank, which is late itself.
        let is_usual = sum(&behind_usual).saturating_mul(3) < all;
        if is_usual && finding.strength < Strength::Likely {
            finding.strength = Strength::Likely;
            finding.title.push_str(MOST_ARE_LATE);
        }
    }
    let racks = late_racks::of_hosts(ranks, findings);
    findings.extend(racks);
    alone
}

fn is_late(finding: &Finding) -> bool {
    matches!(
        finding.kind,
        Kind::LateRank | Kind::LateHost | Kind::LateDevice | Kind::LateRack
    )
}

/// Who is late if those named so far were prompt.
struct Round<'n> {
    named: &'n BTreeSet<usize>,
    prompt: Prompt,
    hidden: Vec<Hidden>,
    /// Probability of chance that the same ranks are the few that come first, for each group of which most ranks are late.
    first: BTreeMap<usize, f64>,
}

impl<'n> Round<'n> {
    fn new(own: &OwnTimes, members: usize, named: &'n BTreeSet<usize>, prompt: Prompt) -> Self {
        let hidden = own.without(members, named, prompt);
        let mut first: BTreeMap<usize, f64> = BTreeMap::new();
        let all = hidden.iter().flat_map(|of| &of.by_group);
        for (group, often) in all.filter(|(_, of)| of.prompt > 0 && is_usual(of.prompt, of.units)) {
            let chance = 1.0 - often.expected / count(often.late_units);
            let chance = binomial_sf(often.prompt, often.late_units, chance);
            let least = first.entry(*group).or_insert(1.0);
            *least = least.min(chance);
        }
        Self {
            named,
            prompt,
            hidden,
            first,
        }
    }

    /// Returns the group in which a rank is late beyond chance, with the probability of chance in this group.
    fn most_certain(&self, hidden: &Hidden) -> Option<(Often, f64)> {
        let groups = hidden.by_group.iter().filter(|(_, of)| of.times > 0);
        let each = groups.filter_map(|(group, often)| {
            let chance = match self.prompt {
                // What is late now and then is load that moves.
                Prompt::Half if often.times * 2 < often.units => return None,
                Prompt::Half => {
                    let chance = often.expected / count(often.late_units.max(1));
                    binomial_sf(often.times, often.late_units, chance)
                }
                // That one of many is late is no evidence where most are; that the same few are not is.
                Prompt::Few if is_usual(often.times, often.units) => *self.first.get(group)?,
                Prompt::Few => return None,
            };
            Some((*often, chance))
        });
        each.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns how a late one was missed so far.
    fn hidden_by(&self) -> &'static str {
        match (self.prompt, self.named.is_empty()) {
            (Prompt::Few, _) => ", as most ranks in its collectives are",
            (Prompt::Half, true) => ", together with others",
            (Prompt::Half, false) => ", hidden by ranks that are later still",
        }
    }

    /// Returns who would wait, and what the data cannot tell.
    fn others(&self) -> (&'static str, &'static str) {
        match self.prompt {
            Prompt::Half => ("the others", ""),
            Prompt::Few => ("the ranks that arrive first", MOST_ARE_LATE),
        }
    }

    fn strength(&self) -> Strength {
        match self.prompt {
            Prompt::Half => Strength::Established,
            Prompt::Few => Strength::Likely,
        }
    }
}

/// Returns `true` for what happens in at least three quarters of the steps.
fn is_usual(times: usize, units: usize) -> bool {
    times * 4 >= units * 3
}

/// Number of groups in which a rank is compared.
fn groups(hidden: &Hidden) -> usize {
    let late = hidden
        .by_group
        .values()
        .filter(|often| often.late_units > 0);
    late.count().max(1)
}

fn worst_step(ranks: &Ranks, member: usize, hidden: &Hidden) -> Option<Window> {
    let (number, _) = hidden.worst?;
    let summary = &ranks.members.get(member)?.summary;
    let step = summary.steps.iter().find(|step| step.number == number)?;
    ranks.window(member, step.begin_ns, step.end_ns())
}

fn late_ranks(ranks: &Ranks, round: &Round<'_>, speed: &[Option<Speed>]) -> Vec<Finding> {
    let tests: usize = round.hidden.iter().map(groups).sum();
    let (others, doubt) = round.others();
    let mut out = Vec::new();
    for (member, of) in round.hidden.iter().enumerate() {
        let share = share_pct(of.delay_ns, of.others_ns);
        let certain = round.most_certain(of);
        let Some((often, chance)) = certain.filter(|_| share >= LEAST_SHARE_PCT) else {
            continue;
        };
        if chance * count(tests) > CHANCE {
            continue;
        }
        let rank = ranks.rank(member);
        let host = ranks.members.get(member).and_then(|m| m.host.as_ref());
        let on = host.map_or_else(String::new, |host| format!(" on host {host}"));
        let title = format!(
            "Rank {rank}{on} is late by its own work in {} of {}{}: for it alone {others} would wait {} ({} % of their time in its \
             collectives){}{doubt}",
            often.times,
            match of.worst {
                Some(_) => counted(often.units, "step", "steps"),
                None => counted(often.units, "collective", "collectives"),
            },
            round.hidden_by(),
            shown(of.delay_ns),
            (share * 10.0).round() / 10.0,
            slower(speed.get(member).copied().flatten()),
        );
        let mut finding = Finding::new(Kind::LateRank, &rank.to_string(), round.strength(), title);
        finding.cost_ns = Some(of.delay_ns);
        finding.share_pct = Some(share);
        finding.host = host.cloned();
        let window = worst_step(ranks, member, of).or_else(|| ranks.middle_step(member));
        out.push(finding.of_ranks([rank]).at(window));
    }
    out
}

fn late_hosts(ranks: &Ranks, own: &OwnTimes, round: &Round<'_>) -> Vec<Finding> {
    let named = round.named;
    let (others, doubt) = round.others();
    let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, member) in ranks.members.iter().enumerate() {
        if let Some(host) = &member.host {
            members.entry(host).or_default().push(at);
        }
    }
    let mut hosts: BTreeMap<&str, Vec<(usize, Hidden)>> = BTreeMap::new();
    for (host, all) in members {
        let left = all.iter().filter(|at| !named.contains(at)).count();
        // What is left of a host whose ranks are named is no host; few that are named by themselves are a part of it.
        if left < 2 || left * 2 <= all.len() {
            continue;
        }
        let again = (left < all.len()).then(|| {
            let inside: BTreeSet<usize> = all.iter().copied().collect();
            own.without(ranks.members.len(), &(named - &inside), round.prompt)
        });
        let of = again.as_deref().unwrap_or(&round.hidden);
        let each = all
            .iter()
            .filter_map(|at| Some((*at, of.get(*at)?.clone())));
        hosts.insert(host, each.collect());
    }
    let tests: usize = hosts
        .values()
        .map(|of| of.iter().map(|(_, of)| groups(of)).max().unwrap_or(1))
        .sum();
    let mut out = Vec::new();
    for (host, members) in &hosts {
        // Ranks of a host wait for each other, so that all of them are no more than one.
        let chances = members
            .iter()
            .map(|(_, of)| round.most_certain(of).map_or(1.0, |of| of.1));
        let chances: Vec<f64> = chances.collect();
        let delay: i64 = members.iter().map(|(_, of)| of.delay_ns).sum();
        let time: i64 = members.iter().map(|(_, of)| of.others_ns).sum();
        let Some((worst, of_worst)) = members.iter().max_by_key(|(_, of)| of.delay_ns) else {
            continue;
        };
        let share = share_pct(delay, time);
        let is_one = real(of_worst.delay_ns) > ONE_PART * real(delay);
        let is_chance = stats::median(&chances) * count(tests) > CHANCE;
        if is_one || is_chance || share < LEAST_SHARE_PCT {
            continue;
        }
        let title = format!(
            "The {} ranks on host {host} are late by their own work{}: for them alone {others} would wait {} ({} % of their time in these \
             collectives){doubt}",
            members.len(),
            round.hidden_by(),
            shown(delay),
            (share * 10.0).round() / 10.0,
        );
        let mut finding = Finding::new(Kind::LateHost, host, round.strength(), title);
        finding.cost_ns = Some(delay);
        finding.share_pct = Some(share);
        finding.host = Some((*host).to_owned());
        let window = worst_step(ranks, *worst, of_worst).or_else(|| ranks.middle_step(*worst));
        let of_rank = members.iter().map(|(member, _)| ranks.rank(*member));
        out.push(finding.of_ranks(of_rank).at(window));
    }
    out
}
