//! How much of the job is recorded: missing, unreadable and cut recordings.

use std::collections::BTreeSet;

use super::Ranks;
use super::rows::{Failure, Scope};
use crate::finding::{Finding, Kind, Strength};
use crate::words::{counted, ranks as named, real};

/// Share of the median number of steps, or of the median span, below which a recording is cut.
const CUT: f64 = 0.9;

/// Maximum number of ranks of a job that are looked for: a number beyond it is no job.
const MOST_RANKS: u32 = 1 << 20;

/// Returns the scope of the answer and findings about the recordings.
pub(super) fn coverage(ranks: &Ranks, failures: &[Failure]) -> (Scope, Vec<Finding>) {
    let stated = ranks.digests.iter().filter_map(|digest| digest.world_size);
    let world = stated.max().filter(|world| *world <= MOST_RANKS);
    let present: BTreeSet<u32> = ranks.digests.iter().map(|digest| digest.rank.0).collect();
    let unreadable: BTreeSet<u32> = failures.iter().filter_map(|failure| failure.rank).collect();
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
    let cut = cut(ranks);
    for (member, what) in &cut {
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
    let lossy = ranks.members.iter().enumerate().filter(|(_, member)| {
        let quality = &member.summary.quality;
        quality.lost > 0 || quality.dropped > 0
    });
    let lossy: Vec<usize> = lossy.map(|(member, _)| member).collect();
    if !lossy.is_empty() {
        let numbers: Vec<u32> = lossy.iter().map(|member| ranks.rank(*member)).collect();
        let sum = |of: fn(&crate::summary::Quality) -> u64| -> u64 {
            let all = lossy.iter().filter_map(|member| ranks.members.get(*member));
            all.map(|member| of(&member.summary.quality)).sum()
        };
        let title = format!(
            "{} lost data: {} events are unusable, in {} places the recorder or the file lost some",
            upper(&named(&numbers)),
            report::human::count(sum(|quality| quality.dropped)),
            report::human::count(sum(|quality| quality.lost)),
        );
        let finding = Finding::new(Kind::LostData, "ranks", Strength::Established, title);
        findings.push(finding.of_ranks(numbers));
    }
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

/// Returns the recordings that end early, each with what it lacks.
fn cut(ranks: &Ranks) -> Vec<(usize, String)> {
    let is_marked = |member: &super::Member| member.summary.steps_by != "whole";
    let steps: Vec<f64> = ranks
        .members
        .iter()
        .filter(|member| is_marked(member))
        .map(|member| real(i64::try_from(member.summary.steps.total).unwrap_or(i64::MAX)))
        .collect();
    let spans: Vec<f64> = ranks
        .members
        .iter()
        .map(|m| real(m.summary.time.span_ns))
        .collect();
    if ranks.members.len() < 3 {
        return Vec::new();
    }
    let (usual_steps, usual_span) = (stats::median(&steps), stats::median(&spans));
    let mut out = Vec::new();
    for (at, member) in ranks.members.iter().enumerate() {
        let own = real(i64::try_from(member.summary.steps.total).unwrap_or(i64::MAX));
        if is_marked(member) && own < CUT * usual_steps {
            let steps = usize::try_from(member.summary.steps.total).unwrap_or(usize::MAX);
            out.push((
                at,
                format!(
                    "it has {}, the median rank {usual_steps}",
                    counted(steps, "step", "steps")
                ),
            ));
        } else if real(member.summary.time.span_ns) < CUT * usual_span {
            out.push((
                at,
                format!(
                    "its GPU activity spans {}, that of the median rank {}",
                    report::human::duration(real(member.summary.time.span_ns)),
                    report::human::duration(usual_span)
                ),
            ));
        }
    }
    out
}

/// Returns what was thinned or could not be told, one sentence each.
pub(super) fn notes(ranks: &Ranks) -> Vec<String> {
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
            "of {} a member of the group is not recorded: waits in these are lower bounds",
            counted(incomplete, "collective", "collectives"),
        ));
    }
    if ranks.job.contradictions() > 0 {
        out.push(format!(
            "in {} a rank ends before another starts: not counted",
            counted(ranks.job.contradictions(), "collective", "collectives"),
        ));
    }
    let apart = ranks
        .job
        .clocks
        .iter()
        .filter(|clock| clock.is_none())
        .count();
    if apart > 0 && ranks.members.len() > 1 {
        out.push(format!(
            "{} no synchronizing collective with the first rank: its clock and waits are not known",
            counted(apart, "rank shares", "ranks share"),
        ));
    }
    out
}

fn upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
