//! How much of the job is recorded: missing, unreadable and cut recordings.

use std::collections::{BTreeMap, BTreeSet};

use super::Ranks;
use super::groups::Unknown;
use super::rows::{Failure, Scope};
use crate::finding::{Finding, Kind, Strength};
use crate::racks::Racks;
use crate::words::{counted, ranks as named, real};

/// Share of the median number of steps, or of collectives, below which a recording is cut.
const CUT: f64 = 0.9;

/// Maximum number of ranks of a job that are looked for: a number beyond it is no job.
const MOST_RANKS: u32 = 1 << 20;

/// Returns the scope of the answer and findings about the recordings. `left_out` are ranks whose recordings are not compared, and `cut` those
/// whose recordings end early.
pub(super) fn coverage(
    ranks: &Ranks,
    failures: &[Failure],
    left_out: &BTreeSet<u32>,
    cut: &[(usize, String)],
) -> (Scope, Vec<Finding>) {
    let stated = ranks.digests.iter().filter_map(|digest| digest.world_size);
    let world = stated.max().filter(|world| *world <= MOST_RANKS);
    let present: BTreeSet<u32> = ranks.digests.iter().map(|digest| digest.rank.0).collect();
    let unreadable = failures.iter().filter_map(|failure| failure.rank);
    let unreadable: BTreeSet<u32> = unreadable.chain(left_out.iter().copied()).collect();
    // Ranks count from 0: without a stated size, those below the largest one belong to the job.
    let largest = present.iter().chain(&unreadable).max();
    let size = world.or_else(|| {
        largest
            .filter(|rank| **rank < MOST_RANKS)
            .map(|rank| rank + 1)
    });
    let missing: Vec<u32> = (0..size.unwrap_or(0))
        .filter(|rank| !present.contains(rank) && !unreadable.contains(rank))
        .collect();
    let mut findings = Vec::new();
    if !missing.is_empty() {
        let title = format!(
            "{} of the job {} no recording",
            upper(&named(&missing)),
            if missing.len() == 1 { "has" } else { "have" },
        );
        let finding = Finding::new(Kind::MissingRank, "ranks", Strength::Established, title);
        findings.push(finding.of_ranks(missing.iter().copied()));
    }
    for failure in failures {
        let rank = failure.rank;
        let of = rank.map_or_else(String::new, |rank| format!(" of rank {rank}"));
        let title = format!(
            "The recording{of} cannot be read: {}: {}",
            failure.file,
            failure.reason()
        );
        let what = rank.map_or_else(|| failure.file.clone(), |rank| rank.to_string());
        let finding = Finding::new(Kind::Unreadable, &what, Strength::Established, title);
        findings.push(finding.of_ranks(rank));
    }
    for (member, what) in cut {
        let rank = ranks.rank(*member);
        let title = format!("The recording of rank {rank} is cut: {what}");
        let finding = Finding::new(Kind::Truncated, &rank.to_string(), Strength::Likely, title);
        let span = ranks
            .members
            .get(*member)
            .and_then(|m| m.summary.gpu_span_ns);
        let window = span.and_then(|(begin, end)| ranks.window(*member, begin, end));
        findings.push(finding.of_ranks([rank]).at(window));
    }
    findings.extend(lost(ranks));
    let scope = Scope {
        files: ranks.members.len() + failures.len(),
        ranks: ranks.members.len(),
        world_size: world,
        missing,
        unreadable: failures.len(),
        truncated: cut.iter().map(|(member, _)| ranks.rank(*member)).collect(),
        hosts: {
            let hosts: BTreeSet<&String> = ranks
                .members
                .iter()
                .filter_map(|m| m.host.as_ref())
                .collect();
            hosts.len()
        },
        collectives: ranks
            .job
            .collectives
            .iter()
            .filter(|c| c.matched.runs.len() > 1)
            .count(),
        steps: ranks.members.iter().map(|m| m.summary.steps.total).sum(),
        bytes: ranks.members.iter().map(|m| m.summary.quality.bytes).sum(),
    };
    (scope, findings)
}

/// Number of ranks whose losses a sentence tells one by one.
const TOLD: usize = 4;

/// Returns what was lost in the recordings that lost data.
fn lost(ranks: &Ranks) -> Option<Finding> {
    let lossy = ranks.members.iter().enumerate().filter(|(_, member)| {
        let quality = &member.summary.quality;
        quality.lost > 0 || quality.dropped > 0
    });
    let lossy: Vec<usize> = lossy.map(|(member, _)| member).collect();
    let numbers: Vec<u32> = lossy.iter().map(|member| ranks.rank(*member)).collect();
    let told = lossy
        .iter()
        .zip(&numbers)
        .take(TOLD)
        .filter_map(|(member, rank)| {
            let quality = &ranks.members.get(*member)?.summary.quality;
            let mut parts = quality.reasons.clone();
            if quality.dropped > 0 {
                let events = usize::try_from(quality.dropped).unwrap_or(usize::MAX);
                parts.push(match events {
                    1 => "1 event is unusable".to_owned(),
                    _ => format!("{} are unusable", counted(events, "event", "events")),
                });
            }
            if parts.is_empty() {
                let places = usize::try_from(quality.lost).unwrap_or(usize::MAX);
                parts.push(format!(
                    "data is missing in {}",
                    counted(places, "place", "places")
                ));
            }
            Some(match numbers.len() {
                1 => parts.join("; "),
                _ => format!("rank {rank}: {}", parts.join("; ")),
            })
        });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        return None;
    }
    let title = format!("{} lost data: {}", upper(&named(&numbers)), told.join("; "));
    let finding = Finding::new(Kind::LostData, "ranks", Strength::Established, title);
    Some(finding.of_ranks(numbers))
}

/// Returns the recordings that end early, each with what it lacks. Steps tell it, and without them collectives, compared with the ranks
/// that share collectives with it: replicas of a model work on other requests. A shorter span alone tells nothing: a rank may idle.
pub(super) fn cut(ranks: &Ranks) -> Vec<(usize, String)> {
    if ranks.members.len() < 3 {
        return Vec::new();
    }
    // Bursts of the GPU are no steps that every rank has.
    let is_marked =
        |member: &super::Member| !matches!(member.summary.steps_by.as_str(), "whole" | "gpu_burst");
    let steps = |member: &super::Member| member.summary.steps.total;
    let collectives = |member: &super::Member| member.summary.collectives.total;
    let share = |count: u64| real(i64::try_from(count).unwrap_or(i64::MAX));
    let mut by_part: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (at, part) in ranks.parts.iter().enumerate() {
        by_part.entry(*part).or_default().push(at);
    }
    let mut out = Vec::new();
    for (part, members) in by_part {
        let of = || {
            let members = members
                .iter()
                .filter_map(|at| Some((*at, ranks.members.get(*at)?)));
            members.collect::<Vec<_>>()
        };
        let marked: Vec<f64> = of()
            .into_iter()
            .filter(|(_, member)| is_marked(member))
            .map(|(_, member)| share(steps(member)))
            .collect();
        let runs: Vec<f64> = of().iter().map(|(_, m)| share(collectives(m))).collect();
        // Two ranks do not tell which one is whole, nor do ranks that share nothing.
        if members.len() < 3 || part.is_none() {
            continue;
        }
        let (usual_steps, usual_runs) = (stats::median(&marked), stats::median(&runs));
        for (at, member) in of() {
            if is_marked(member) {
                if share(steps(member)) < CUT * usual_steps {
                    let own = usize::try_from(steps(member)).unwrap_or(usize::MAX);
                    let own = counted(own, "step", "steps");
                    out.push((at, format!("it has {own}, the median rank {usual_steps}")));
                }
            } else if share(collectives(member)) < CUT * usual_runs {
                let own = usize::try_from(collectives(member)).unwrap_or(usize::MAX);
                let own = counted(own, "collective", "collectives");
                out.push((at, format!("it has {own}, the median rank {usual_runs}")));
            }
        }
    }
    out.sort_unstable();
    out
}

/// Says which hosts a list of racks does not name.
pub(super) fn without_rack(ranks: &Ranks, racks: &Racks) -> Option<String> {
    let members = ranks.members.iter().filter(|member| member.rack.is_none());
    let without = members.count();
    (without > 0 && !racks.is_empty()).then(|| {
        let one = ranks.members.iter().find(|member| member.rack.is_none());
        let host = match one.and_then(|member| member.host.as_deref()) {
            Some(host) => format!(", such as {host}"),
            None => String::new(),
        };
        let ranks = counted(without, "rank", "ranks");
        format!("the list of racks does not name the hosts of {ranks}{host}: they are compared without a rack")
    })
}

/// Returns what was thinned or could not be told, one sentence each.
pub(super) fn notes(ranks: &Ranks, unknown: Unknown) -> Vec<String> {
    let mut out = Vec::new();
    let thinned =
        |of: fn(&super::Member) -> u32| ranks.members.iter().filter(|m| of(m) > 0).count();
    let runs = thinned(|member| member.summary.collectives.thinned);
    if runs > 0 {
        out.push(format!(
            "the summaries of {} keep only every second, fourth or further collective (by sequence number), because a summary has at most \
             {} bytes: waits are those of the kept ones",
            counted(runs, "rank", "ranks"),
            report::human::count(crate::summary::MAX_BYTES as u64),
        ));
    }
    let steps = thinned(|member| member.summary.steps.thinned);
    if steps > 0 {
        out.push(format!(
            "the summaries of {} keep only every second, fourth or further step; budgets by phase are over all steps",
            counted(steps, "rank", "ranks"),
        ));
    }
    let incomplete = ranks.job.incomplete();
    if incomplete > 0 {
        out.push(format!(
            "in {} a member of the group has no recording: waits there are lower bounds",
            counted(incomplete, "collective", "collectives"),
        ));
    }
    if ranks.job.contradictions() > 0 {
        out.push(format!(
            "in {} a rank ends before another starts: these are not counted",
            counted(ranks.job.contradictions(), "collective", "collectives"),
        ));
    }
    if unknown.runs > 0 {
        out.push(format!(
            "{} of {} state no group, as in CUDA graphs, and several groups are possible: no clock and no wait is taken from these",
            counted(unknown.runs, "collective", "collectives"),
            counted(unknown.ranks, "rank", "ranks"),
        ));
    }
    let parts: BTreeSet<usize> = ranks.parts.iter().flatten().copied().collect();
    if parts.len() > 1 {
        out.push(format!(
            "the ranks form {} parts without a synchronizing collective in common: waits and clocks are those within each part",
            parts.len(),
        ));
    }
    let apart = ranks.parts.iter().filter(|part| part.is_none()).count();
    if apart > 0 && !parts.is_empty() {
        let words = match apart {
            1 => "1 rank shares no synchronizing collective with another one: its clock and waits are not known".to_owned(),
            n => format!(
                "{} share no synchronizing collective with another rank: their clocks and waits are not known",
                counted(n, "rank", "ranks")
            ),
        };
        out.push(words);
    }
    out
}

fn upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
