//! Compares the summaries of all ranks.

mod clocks;
mod composition;
mod coverage;
mod duplicates;
mod explain;
mod factor;
mod groups;
mod hidden;
mod kernels;
mod late_racks;
mod lateness;
mod links;
mod outlier;
mod own;
mod parts;
mod range;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use gpu_time::comm::{Job, RankClock, RankDigest, assign_ranks};
use trace_model::ranks::NotOneJob;

use crate::finding::{Finding, Kind, Window};
use crate::racks::Racks;
use crate::summary::{RankSummary, collectives_digest};
pub use rows::{
    BudgetRow, Cell, ClassRow, FactorRow, Failure, Fleet, KernelRow, LinkRow, RankRow, Scope,
    is_document,
};

/// One rank: its summary without what is kept elsewhere.
pub(crate) struct Member {
    pub(crate) summary: RankSummary,
    /// Its kernels, by number.
    pub(crate) kernels: Vec<kernels::Stat>,
    /// Its host: as recorded, else as the paths of all recordings tell.
    pub(crate) host: Option<String>,
    /// Rack of the host, if a list of racks names it.
    pub(crate) rack: Option<String>,
}

/// All ranks and their collectives.
pub(crate) struct Ranks {
    pub(crate) members: Vec<Member>,
    pub(crate) digests: Vec<RankDigest>,
    pub(crate) job: Job,
    /// Part of the job that each rank is in: those that synchronizing collectives join.
    pub(crate) parts: Vec<Option<usize>>,
    /// Clock of each rank against that of the first rank of its part.
    pub(crate) clocks: Vec<Option<RankClock>>,
    pub(crate) kernels: kernels::Table,
}

impl Ranks {
    pub(crate) fn rank(&self, member: usize) -> u32 {
        self.digests.get(member).map_or(0, |digest| digest.rank.0)
    }

    /// Returns a part of the recording of a rank.
    pub(crate) fn window(&self, member: usize, begin_ns: i64, end_ns: i64) -> Option<Window> {
        let summary = &self.members.get(member)?.summary;
        let since_1970 = begin_ns.saturating_add(summary.base_time_ns);
        Some(Window {
            rank: self.rank(member),
            file: summary.file.clone(),
            begin_ns,
            end_ns: end_ns.max(begin_ns.saturating_add(1)),
            begin_since_1970_ns: (since_1970 >= SINCE_1970_NS).then_some(since_1970),
        })
    }

    /// Returns the step of a rank that is in the middle of its recording, as an example of all.
    pub(crate) fn middle_step(&self, member: usize) -> Option<Window> {
        let summary = &self.members.get(member)?.summary;
        let middle = summary.steps.len() / 2;
        match summary.steps.iter().nth(middle) {
            Some(step) => self.window(member, step.begin_ns, step.end_ns()),
            None => {
                let (begin, end) = summary.gpu_span_ns?;
                self.window(member, begin, end)
            }
        }
    }
}

/// Earlier times do not count from 1970, but from the start of a host: 2001-09-09.
pub(crate) const SINCE_1970_NS: i64 = 1_000_000_000_000_000_000;

/// Compares the summaries of the ranks of a job, in any order. Recordings that could not be read are given as failures, and the racks of
/// hosts where these are known.
///
/// Summaries are taken one by one; kept of each are its steps, its collectives and four numbers for each kernel.
///
/// # Errors
///
/// Returns an error if the recordings are not those of one job.
pub fn reduce(
    summaries: impl IntoIterator<Item = Result<RankSummary, Failure>>,
    mut failures: Vec<Failure>,
    racks: &Racks,
) -> Result<Fleet, NotOneJob> {
    let mut table = kernels::Table::default();
    let mut members = Vec::new();
    let mut digests = Vec::new();
    for summary in summaries {
        let mut summary = match summary {
            Ok(summary) => summary,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        digests.push(collectives_digest(&summary));
        let kernels = table.add(&mut summary);
        summary.collectives.forget_runs();
        members.push(Member {
            host: summary.host.clone(),
            rack: None,
            kernels,
            summary,
        });
    }
    failures.sort();
    let left_out = duplicates::leave_out(&mut members, &mut digests);
    let assigned = assign_ranks(&mut digests)?;
    // Digests are in order of rank now.
    let places: BTreeMap<&str, usize> = digests
        .iter()
        .enumerate()
        .map(|(place, digest)| (digest.source.as_str(), place))
        .collect();
    members.sort_by_key(|member| places.get(member.summary.file.as_str()).copied());
    drop(places);
    factor::name_hosts(&mut members);
    for member in &mut members {
        let rack = member.host.as_deref().and_then(|host| racks.of(host));
        member.rack = rack.map(str::to_owned);
    }
    let unknown = groups::name(&mut digests, &members);
    let parts = parts::analyse(&mut digests);
    let ranks = Ranks {
        members,
        digests,
        job: parts.job,
        parts: parts.of,
        clocks: parts.clocks,
        kernels: table,
    };
    let cut = coverage::cut(&ranks);
    let is_cut: BTreeSet<usize> = cut.iter().map(|(member, _)| *member).collect();
    let late = lateness::measure(&ranks);
    let speed = composition::speeds(&ranks);
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(lateness::findings(&ranks, &late, &speed));
    let (factors, of_factors) = factor::factors(&ranks, &late);
    findings.extend(of_factors);
    let alone = hidden::add(&ranks, &speed, &mut findings);
    let (links, of_links) = links::links(&ranks);
    findings.extend(of_links);
    let blameless = blameless(&ranks, &late, &speed, &findings);
    explain::join(&mut findings, &blameless);
    findings.extend(composition::findings(&ranks, &speed, &is_cut));
    findings.extend(clocks::findings(&ranks));
    let (mut scope, of_recordings) = coverage::coverage(&ranks, &failures, &left_out.ranks, &cut);
    scope.files += left_out.files;
    findings.extend(of_recordings);
    findings.extend(left_out.findings);
    findings.sort_by(|a, b| {
        let key = |finding: &Finding| {
            (
                finding.kind.is_about_recordings(),
                // What is known to cost nothing, or not to be told in time, comes last.
                std::cmp::Reverse(finding.cost_ns),
                finding.strength,
                finding.kind,
            )
        };
        key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
    });
    let mut notes: Vec<String> = assigned.doubts.iter().map(ToString::to_string).collect();
    if assigned.placed {
        notes.push(
            "neither the recordings nor their names state ranks: they are numbered in the order of their names"
                .to_owned(),
        );
    }
    notes.extend(coverage::notes(&ranks, unknown));
    notes.extend(coverage::without_rack(&ranks, racks));
    Ok(rows::fleet(
        &ranks,
        &late,
        &speed,
        rows::Found {
            scope,
            findings,
            factors,
            links,
            failures,
            notes,
            alone,
        },
    ))
}

/// Returns the members of a group as a recording lists them.
fn members_of(text: &str) -> Option<Vec<u32>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    inner
        .split(',')
        .map(|rank| rank.trim().parse().ok())
        .collect()
}

/// Returns the ranks of each slow group that are late in other groups only: the group delays them. One that is late within its group as
/// well, or whose device is slow, is late by itself.
fn blameless(
    ranks: &Ranks,
    late: &[lateness::Late],
    speed: &[Option<composition::Speed>],
    findings: &[Finding],
) -> BTreeMap<String, BTreeSet<u32>> {
    let slow = findings
        .iter()
        .filter(|finding| finding.kind == Kind::SlowLink);
    let each = slow.map(|finding| {
        let label = finding.group.as_deref().unwrap_or_default();
        let groups = ranks.job.groups.iter().enumerate();
        let groups: Vec<usize> = groups
            .filter(|(_, group)| group.key.label() == label)
            .map(|(number, _)| number)
            .collect();
        let all = late.iter().zip(speed).enumerate();
        let of = all.filter(|(_, (late, speed))| {
            let is_slow = speed.is_some_and(|speed| speed.is_slow);
            !is_slow && groups.iter().all(|group| !late.is_late_within(*group))
        });
        let numbers = of.map(|(member, _)| ranks.rank(member));
        // What one pair of a pipeline lacks, its other stages wait for.
        let lanes = groups
            .iter()
            .filter_map(|group| ranks.job.groups.get(*group));
        let lanes = lanes.filter_map(|group| members_of(group.key.ranks.as_deref()?));
        let mut inside: BTreeSet<u32> = finding.ranks.iter().copied().collect();
        inside.extend(lanes.flatten());
        let of_group = numbers.filter(|rank| inside.contains(rank)).collect();
        (finding.id.clone(), of_group)
    });
    each.collect()
}
