//! Joins the recordings of the ranks of one job by their collectives: late ranks, waiting ranks, and the steps of each in the
//! graph of all of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use critical_path::{Graph, Group, Groups, Part, ReplayError, StepRow, step_rows};
use gpu_time::comm::{Cause, CommRules, Job, RankDigest, arg_keys, assign_ranks};
use rca_cycles::{Analysis, StepPaths};
use report::human;
use serde_json::{Value, json};
use trace_model::Trace;

use crate::text::time;

/// Returns the keys of arguments that joining needs.
#[must_use]
pub fn keys() -> Vec<String> {
    arg_keys()
}

/// Data of a recording for joining: its collectives, and the times of its cycles.
#[derive(Debug)]
pub struct Member {
    digest: RankDigest,
    /// Start and end of each cycle, in nanoseconds, and `true` if it counts.
    cycles: Vec<(i64, i64, bool)>,
    part: Option<Part>,
}

impl Member {
    /// Returns `None` without collectives.
    #[must_use]
    pub fn new(path: &str, trace: &Trace, analysis: &Analysis, part: Option<Part>) -> Option<Self> {
        let digest = RankDigest::new(path, trace, CommRules::Extended);
        if digest.runs.is_empty() {
            return None;
        }
        let each = analysis.cycles.iter();
        Some(Self {
            digest,
            cycles: each
                .map(|c| (c.start_ns, c.end_ns, c.partial.is_none()))
                .collect(),
            part,
        })
    }

    /// Returns the cycle of a collective of this recording.
    fn cycle_of(&self, start_ns: i64) -> Option<usize> {
        let at = self
            .cycles
            .partition_point(|c| c.0 <= start_ns)
            .checked_sub(1)?;
        (start_ns < self.cycles[at].1).then_some(at)
    }
}

/// Late arrivals of one cycle of one rank.
#[derive(Clone, Default)]
struct Late {
    collectives: usize,
    spread_ns: i64,
    waited_ns: i64,
    last: BTreeMap<u32, usize>,
}

/// Results for one rank of a joined job.
#[derive(Debug)]
pub struct OfRank {
    /// Index among the results.
    pub place: usize,
    /// Data for the JSON of the job.
    pub json: Value,
    /// The `skew` of each cycle in JSON.
    pub skew: Vec<Value>,
    /// Lines of text that follow those of the job.
    pub text: String,
    steps: Option<JoinedSteps>,
}

impl OfRank {
    /// Replaces the steps of the recording by those in the graph of all ranks. Returns `true` if there is such a graph, which
    /// takes every recording of the job.
    pub fn join(&mut self, paths: &mut StepPaths) -> bool {
        let Some(found) = self.steps.take() else {
            return false;
        };
        paths.join(found.rank, (found.steps, found.replay), found.path_ns);
        if paths.left_out() > 0 {
            self.text.push_str(&format!(
                "  {} of its steps left out, as not all ranks were recorded then\n",
                human::count(paths.left_out() as u64)
            ));
        }
        true
    }
}

/// Steps of a rank in the graph of all ranks.
#[derive(Debug)]
struct JoinedSteps {
    rank: u32,
    steps: Vec<StepRow>,
    replay: ReplayError,
    /// Time of their paths by rank.
    path_ns: BTreeMap<u32, i64>,
}

impl JoinedSteps {
    fn groups(&self) -> Groups {
        let mut groups = Groups::default();
        for step in &self.steps {
            groups.add_all(&step.groups);
        }
        groups
    }

    fn json(&self) -> Value {
        let by_rank = self.path_ns.iter();
        let groups = self.groups();
        json!({
            "verdict": groups.largest().unwrap_or(Group::Unknown).verdict(),
            "groups": groups,
            "path_ns_by_rank": by_rank
                .map(|(rank, ns)| json!({"rank": rank, "path_ns": ns}))
                .collect::<Vec<_>>(),
        })
    }

    /// Returns where most of the path lies, as a line of text; `None` if that is this rank.
    fn elsewhere(&self) -> Option<String> {
        let all: i64 = self.path_ns.values().sum();
        let most = self.path_ns.iter();
        let (rank, ns) = most.max_by_key(|(rank, ns)| (**ns, **rank == self.rank))?;
        (*rank != self.rank).then(|| {
            #[expect(clippy::cast_precision_loss, reason = "a share with four digits")]
            let share = human::percent(*ns as f64 / all.max(1) as f64 * 100.0);
            format!("  the path of its steps is on rank {rank} for {share}, see there\n")
        })
    }
}

/// A job of several recordings.
#[derive(Debug)]
pub struct Joined {
    /// The job as JSON.
    pub json: Value,
    /// The answer as a sentence.
    pub text: String,
    /// Its recordings.
    pub ranks: Vec<OfRank>,
}

/// Joins the recordings in one folder that state distinct ranks (in themselves or in their names)
/// and share collectives. `members` are the recordings by index among the results.
#[must_use]
pub fn join(members: Vec<(usize, PathBuf, Member)>) -> Vec<Joined> {
    let mut folders: BTreeMap<PathBuf, Vec<(usize, Member)>> = BTreeMap::new();
    for (place, path, member) in members {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        folders.entry(folder).or_default().push((place, member));
    }
    folders
        .into_iter()
        .filter(|(_, list)| list.len() > 1)
        .filter_map(|(folder, list)| one(&folder, list))
        .collect()
}

fn one(folder: &Path, list: Vec<(usize, Member)>) -> Option<Joined> {
    let (mut places, mut digests) = (BTreeMap::new(), Vec::new());
    for (place, member) in list {
        let source = member.digest.source.clone();
        places.insert(source, (place, member.cycles, member.part));
        digests.push(member.digest);
    }
    // Two recordings of one rank, or without ranks, are two jobs.
    let placed = assign_ranks(&mut digests).map_or(true, |found| found.placed);
    let worlds: Vec<u32> = digests.iter().filter_map(|d| d.world_size).collect();
    if placed || worlds.windows(2).any(|w| w[0] != w[1]) || places.len() != digests.len() {
        return None;
    }
    let job = Job::new(&digests);
    let shared = |c: &&gpu_time::comm::CollectiveTime| c.matched.runs.len() > 1;
    let collectives = job.collectives.iter().filter(shared).count();
    if collectives == 0 {
        return None;
    }
    let mut steps = joined_steps(&digests, &job, &mut places).into_iter();
    let members: Vec<(usize, Member)> = digests
        .into_iter()
        .filter_map(|digest| {
            let (place, cycles, _) = places.remove(&digest.source)?;
            let part = None;
            let member = Member {
                digest,
                cycles,
                part,
            };
            Some((place, member))
        })
        .collect();
    let rank = |member: usize| members[member].1.digest.rank.0;
    let mut late: Vec<Vec<Late>> = members
        .iter()
        .map(|m| vec![Late::default(); m.1.cycles.len()])
        .collect();
    for c in job
        .collectives
        .iter()
        .filter(shared)
        .filter(|c| !c.contradiction)
    {
        for (i, &(member, run)) in c.matched.runs.iter().enumerate() {
            let of = &members[member].1;
            let start = of.digest.runs.get(run).map(|r| r.start_ns);
            let Some(cycle) = start.and_then(|at| of.cycle_of(at)) else {
                continue;
            };
            let late = &mut late[member][cycle];
            late.collectives += 1;
            late.spread_ns += c.skew_ns.unwrap_or(0);
            late.waited_ns += c.wait_ns.get(i).copied().flatten().unwrap_or(0);
            if let Some((last, _)) = c.last.and_then(|i| c.matched.runs.get(i)) {
                *late.last.entry(rank(*last)).or_default() += 1;
            }
        }
    }
    let straggler = job.straggler.as_ref();
    let sentence = match straggler {
        Some(s) => {
            let before = causes(&job.ranks[s.member].causes);
            format!(
                "{} ranks of one job: rank {} comes last to {} of {collectives} collectives; the others wait {} for it{}.{before}",
                members.len(),
                rank(s.member),
                s.times_last,
                time(s.inflicted_ns),
                if s.persistent {
                    ""
                } else {
                    ", which may be chance"
                },
            )
        }
        None => format!(
            "{} ranks of one job: no rank is late to its {collectives} collectives by more than the clocks are uncertain.",
            members.len()
        ),
    };
    let is_ambiguous = job.groups.iter().any(|g| !g.ambiguous.is_empty());
    let caution = " The collectives repeat so evenly that they can be joined in more than one way: the one \
                   that joins most of them was taken.";
    let sentence = sentence + if is_ambiguous { caution } else { "" };
    let ranks = members
        .iter()
        .enumerate()
        .map(|(i, (place, member))| {
            let mut one = of_rank(*place, member, &late[i], &job.ranks[i], straggler, &rank);
            one.steps = steps.next();
            if let (Some(found), Value::Object(json)) = (&one.steps, &mut one.json) {
                one.text.extend(found.elsewhere());
                json.insert("joined".to_owned(), found.json());
            }
            one
        })
        .collect();
    Some(Joined {
        json: json!({
            "folder": folder.display().to_string(),
            "ranks": (0..members.len()).map(rank).collect::<Vec<_>>(),
            "collectives": collectives,
            "straggler": straggler.map(|s| json!({
                "rank": rank(s.member),
                "times_last": s.times_last,
                "inflicted_ns": s.inflicted_ns,
                "avoidable_ns": s.avoidable_ns,
                "persistent": s.persistent,
            })),
            "text": sentence,
        }),
        text: sentence,
        ranks,
    })
}

type Places = BTreeMap<String, (usize, Vec<(i64, i64, bool)>, Option<Part>)>;

/// Returns the steps of each rank, in the order of `digests`; empty if the recording of one is missing. The time that a rank waits
/// in a collective is then that of the rank that comes last.
fn joined_steps(digests: &[RankDigest], job: &Job, places: &mut Places) -> Vec<JoinedSteps> {
    let parts = digests.iter().map(|digest| {
        let mut part = places.get_mut(&digest.source)?.2.take()?;
        part.set_rank(digest.rank.0);
        Some(part)
    });
    let Some(parts) = parts.collect::<Option<Vec<Part>>>() else {
        return Vec::new();
    };
    let graph = Graph::new(parts, Some((digests, job)));
    let Ok(found) = step_rows(&graph) else {
        return Vec::new();
    };
    let mut by_rank: BTreeMap<u32, Vec<StepRow>> = BTreeMap::new();
    for step in found.steps {
        by_rank.entry(step.rank).or_default().push(step);
    }
    let each = digests.iter().enumerate().map(|(at, digest)| {
        let rank = digest.rank.0;
        JoinedSteps {
            rank,
            steps: by_rank.remove(&rank).unwrap_or_default(),
            replay: found.replay,
            path_ns: graph.path_by_rank(at),
        }
    });
    each.collect()
}

/// Returns the work of a rank before it was late: the most costly kind of cause, over all functions
/// of that kind.
fn causes(list: &[(Cause, usize, i64)]) -> String {
    let mut kinds: BTreeMap<&str, (i64, usize)> = BTreeMap::new();
    for (cause, times, ns) in list {
        let sum = kinds.entry(cause.kind.name()).or_default();
        *sum = (sum.0 + ns, sum.1 + times);
    }
    let Some((kind, (_, times))) = kinds.iter().max_by_key(|(_, sum)| **sum) else {
        return String::new();
    };
    let mut of_kind = list.iter().filter(|(c, _, _)| c.kind.name() == *kind);
    // The list is in order of cost.
    let name = of_kind.next().and_then(|(cause, own, _)| {
        let name = cause.short_name()?;
        let name = report::text::shorten(&name, 60).into_owned();
        Some(match own < times {
            true => format!(" (most often {name}, {own} times)"),
            false => format!(" ({name})"),
        })
    });
    format!(
        " Before {times} of them: {}{}.",
        kind.replace('_', " "),
        name.unwrap_or_default()
    )
}

fn of_rank(
    place: usize,
    member: &Member,
    late: &[Late],
    summary: &gpu_time::comm::RankSummary,
    straggler: Option<&gpu_time::comm::Straggler>,
    rank: &dyn Fn(usize) -> u32,
) -> OfRank {
    let skew = late.iter().map(|l| {
        let most = l.last.iter().max_by_key(|(r, n)| (**n, u32::MAX - **r));
        if l.collectives == 0 {
            return Value::Null;
        }
        json!({
            "collectives": l.collectives,
            "spread_ns": l.spread_ns,
            "waited_ns": l.waited_ns,
            "straggler": most.map(|m| json!({"rank": m.0})),
            "times_last": most.map(|m| m.1),
        })
    });
    let whole = member.cycles.iter().zip(late).filter(|(c, _)| c.2);
    let (mut steps, mut waited, mut total) = (0_i64, 0, 0);
    for (c, l) in whole {
        steps += 1;
        waited += l.waited_ns;
        total += c.1 - c.0;
    }
    let own = member.digest.rank.0;
    let late_rank = straggler.map(|s| rank(s.member));
    let mut text = format!("\n  rank {own} of the job: ");
    #[expect(clippy::cast_precision_loss, reason = "a share with four digits")]
    let share = human::percent(waited as f64 / total.max(1) as f64 * 100.0);
    match late_rank {
        Some(r) if r == own => text.push_str(&format!(
            "it comes last to {} collectives; others waited {} for it\n",
            summary.times_last,
            time(summary.inflicted_ns)
        )),
        _ => text.push_str(&format!(
            "it waits {} per step ({share}) in collectives for ranks that come later{}\n",
            time(waited / steps.max(1)),
            late_rank.map_or_else(String::new, |r| format!(", mostly for rank {r}")),
        )),
    }
    OfRank {
        place,
        json: json!({
            "rank": own,
            "times_last": summary.times_last,
            "waited_ns": summary.waited_ns,
            "inflicted_ns": summary.inflicted_ns,
        }),
        skew: skew.collect(),
        text,
        steps: None,
    }
}
