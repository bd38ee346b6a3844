//! Compares the summaries of all ranks.

mod clocks;
mod composition;
mod coverage;
mod explain;
mod factor;
mod kernels;
mod lateness;
mod links;
mod outlier;
mod rows;

use std::collections::BTreeMap;

use gpu_time::comm::{Job, RankDigest, assign_ranks};
use trace_model::ranks::NotOneJob;

use crate::finding::{Finding, Window};
use crate::summary::{RankSummary, collectives_digest};
pub use rows::{
    BudgetRow, Cell, ClassRow, FactorRow, Failure, Fleet, KernelRow, LinkRow, RankRow, Scope,
};

/// One rank: its summary without what is kept elsewhere.
pub(crate) struct Member {
    pub(crate) summary: RankSummary,
    /// Its kernels, by number.
    pub(crate) kernels: Vec<kernels::Stat>,
    /// Its host: as recorded, else as the paths of all recordings tell.
    pub(crate) host: Option<String>,
}

/// All ranks and their collectives.
pub(crate) struct Ranks {
    pub(crate) members: Vec<Member>,
    pub(crate) digests: Vec<RankDigest>,
    pub(crate) job: Job,
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

/// Compares the summaries of the ranks of a job, in any order. Recordings that could not be read are given as failures.
///
/// Summaries are taken one by one; kept of each are its steps, its collectives and four numbers for each kernel.
///
/// # Errors
///
/// Returns an error if the recordings are not those of one job.
pub fn reduce(
    summaries: impl IntoIterator<Item = Result<RankSummary, Failure>>,
    mut failures: Vec<Failure>,
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
            kernels,
            summary,
        });
    }
    failures.sort();
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
    let job = Job::new(&digests);
    let ranks = Ranks {
        members,
        digests,
        job,
        kernels: table,
    };
    let late = lateness::measure(&ranks);
    let speed = composition::speeds(&ranks);
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(lateness::findings(&ranks, &late, &speed));
    let (factors, of_factors) = factor::factors(&ranks, &late);
    findings.extend(of_factors);
    let (links, of_links) = links::links(&ranks);
    findings.extend(of_links);
    explain::join(&mut findings);
    findings.extend(composition::findings(&ranks, &speed));
    findings.extend(clocks::findings(&ranks));
    let (scope, of_recordings) = coverage::coverage(&ranks, &failures);
    findings.extend(of_recordings);
    findings.sort_by(|a, b| {
        let key = |finding: &Finding| {
            (
                finding.kind.is_about_recordings(),
                finding.strength,
                std::cmp::Reverse(finding.cost_ns),
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
    notes.extend(coverage::notes(&ranks));
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
        },
    ))
}
