//! The answer on a job's collectives in words: which rank is late, and the caveats.

use rank_align::real::real;
use report::human;

use crate::account::percent;
use crate::comm::digest::RankDigest;
use crate::comm::job::{CollectiveTime, Job, LeastWaiting, Straggler};
use crate::comm::summary::{CommSummary, summarise};
use crate::recorder::{Lack, Recorder};

/// Minimum share of the time in collectives that ranks wait for one rank, for it to be a finding, in
/// percent. Ranks never arrive at the same instant.
const MUCH_WAITING_PCT: f64 = 5.0;

fn shown(ns: i64) -> String {
    human::duration(real(ns))
}

fn n(n: usize) -> String {
    human::count(n as u64)
}

/// Returns `times` and a noun in its grammatical number.
fn counted(times: usize, one: &str, several: &str) -> String {
    match times {
        1 => format!("1 {one}"),
        times => format!("{} {several}", n(times)),
    }
}

/// Returns the names of the ranks of `members`: `rank 3`, `ranks 0, 1 and 3`.
fn ranks(digests: &[RankDigest], members: impl IntoIterator<Item = usize>) -> String {
    let members = members.into_iter();
    let names = members.filter_map(|member| Some(digests.get(member)?.rank.to_string()));
    let names: Vec<String> = names.collect();
    match names.as_slice() {
        [] => "no rank".to_owned(),
        [one] => format!("rank {one}"),
        [head @ .., last] => format!("ranks {} and {last}", head.join(", ")),
    }
}

/// Returns the sentence on which rank made the others wait, if that can be known.
pub fn answer(digests: &[RankDigest], job: &Job) -> String {
    let ambiguous = ambiguous(job) > 0 && job.knows_waits();
    let doubt = match ambiguous {
        false => "",
        true => {
            " This holds if the captures are joined rightly: they repeat so evenly that the collectives can be \
              joined in more than one way, and the one that joins most of them is taken."
        }
    };
    let graphs: u64 = digests.iter().map(|digest| digest.graphs_whole).sum();
    let has_runs = digests.iter().any(|digest| !digest.runs.is_empty());
    let unseen = match graphs > 0 && has_runs {
        true => format!(
            " This is of the collectives outside of CUDA graphs: {} recorded as a whole, and what runs inside is \
             not recorded; record with {NODE_MODE}.",
            graphs_are(graphs)
        ),
        false => String::new(),
    };
    sentence(digests, job) + doubt + &unseen
}

/// Flag that records what runs inside CUDA graphs.
const NODE_MODE: &str = "`nsys profile --cuda-graph-trace=node`";

fn graphs_are(graphs: u64) -> String {
    match graphs {
        1 => "1 graph is".to_owned(),
        n => format!("{} graphs are", human::count(n)),
    }
}

fn sentence(digests: &[RankDigest], job: &Job) -> String {
    let kernels: usize = digests.iter().map(|d| d.runs.len()).sum();
    if kernels == 0 {
        return match digests.iter().any(|d| !d.host.is_empty()) {
            true => {
                "Cannot say which rank is late: no collective ran on a GPU, and collectives of \
                     the host (below) show only how long each rank was in them."
                    .to_owned()
            }
            false => none_recorded(digests),
        };
    }
    if let [only] = digests {
        let time = &only.time;
        let share = match percent(time.exposed_ns, time.span_ns) {
            Some(share) => format!(" ({} of the span)", human::percent(share)),
            None => String::new(),
        };
        return format!(
            "Rank {} spends {} in collectives, {} of it exposed{share}. Cannot say how much of it \
             is waiting, nor bandwidth or stragglers: give the traces of all ranks.",
            only.rank,
            shown(time.comm_ns),
            shown(time.exposed_ns),
        );
    }
    if !job.knows_waits() && job.incomplete() > 0 {
        if let Some(least) = job.least_waiting.filter(|least| {
            percent(least.total_ns, comm_ns(digests)).unwrap_or(0.0) >= MUCH_WAITING_PCT
        }) {
            return lower_bound(digests, job, &least);
        }
        return format!(
            "Cannot say which rank is late, nor how much of the time is waiting: none of the {} \
             collectives that several ranks recorded is recorded by all members of its group. \
             Give the traces of all ranks.",
            n(job.incomplete())
        );
    }
    if !job.knows_waits() {
        return "Cannot say which rank is late: no collective that waits for all ranks is found on \
                two of them. Record the same steps on all ranks."
            .to_owned();
    }
    match &job.straggler {
        Some(straggler) => late_rank(digests, job, straggler),
        None => "No rank was late by more than the error of the clocks.".to_owned(),
    }
}

/// Returns the sentence on recordings without collectives.
fn none_recorded(digests: &[RankDigest]) -> String {
    let graphs: u64 = digests.iter().map(|digest| digest.graphs_whole).sum();
    if graphs > 0 {
        return format!(
            "Cannot say anything about collectives: {} recorded as a whole, and what runs inside, collectives \
             included, is not recorded; outside of them there is none. Record with {NODE_MODE}.",
            graphs_are(graphs)
        );
    }
    let recorder = digests
        .first()
        .map_or(Recorder::Torch, |digest| digest.recorder);
    let how = Lack::GpuActivity.how(recorder);
    format!(
        "Cannot say anything about collectives: none is recorded. Record GPU activity of the steps that \
         communicate, on all ranks ({how})."
    )
}

/// Returns the time of all ranks in collectives.
fn comm_ns(digests: &[RankDigest]) -> i64 {
    digests.iter().map(|digest| digest.time.comm_ns).sum()
}

fn lower_bound(digests: &[RankDigest], job: &Job, least: &LeastWaiting) -> String {
    let others = (0..digests.len()).filter(|member| *member != least.member);
    let share = percent(least.wait_ns, comm_ns(digests)).unwrap_or(0.0);
    let all = match least.total_ns == least.wait_ns {
        true => String::new(),
        false => format!(
            " All recorded ranks together waited at least {}.",
            shown(least.total_ns)
        ),
    };
    format!(
        "{} waited at least {} in sum for {}, which started last of the recorded ranks in {} of {} collectives \
         ({} of all time in collectives).{all} Cannot say whether a rank that is not recorded was later still: \
         none of the {} collectives that several ranks recorded is recorded by all members of its group. Give the \
         traces of all ranks.",
        upper_first(&ranks(digests, others)),
        shown(least.wait_ns),
        ranks(digests, [least.member]),
        n(least.times_last),
        n(least.collectives),
        human::percent(share),
        n(job.incomplete()),
    )
}

fn upper_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

fn late_rank(digests: &[RankDigest], job: &Job, straggler: &Straggler) -> String {
    let (Some(digest), Some(rank)) = (
        digests.get(straggler.member),
        job.ranks.get(straggler.member),
    ) else {
        return String::new();
    };
    let share = percent(straggler.inflicted_ns, comm_ns(digests)).unwrap_or(0.0);
    let start = match straggler.persistent {
        // Little waiting is no finding, also where one rank is last more often than by chance.
        _ if share < MUCH_WAITING_PCT => "Ranks hardly wait for each other; most costly is",
        true => "The straggler is",
        // Always being the last of two ranks is within chance for a few collectives, and a single
        // long wait for many.
        false if straggler.share > 0.5 => {
            "One rank causes most of the waiting, but too few late arrivals (or one long one) \
             cause it to tell a straggler from chance:"
        }
        false => {
            "No rank causes most of the waiting, and none is late persistently; most costly is"
        }
    };
    let cause = rank
        .causes
        .first()
        .map_or_else(String::new, |(cause, times, _)| {
            let times = match times {
                1 => "once".to_owned(),
                times => format!("{} times", n(*times)),
            };
            format!("; mostly {} ({times})", cause.sentence())
        });
    format!(
        "{start} rank {}, last in {} of {} collectives; others waited {} for it ({} of all time in collectives), \
         {} of that ({} % of all ranks') for it alone{cause}.",
        digest.rank,
        n(straggler.times_last),
        n(rank.collectives),
        shown(straggler.inflicted_ns),
        human::percent(share),
        shown(straggler.avoidable_ns),
        (straggler.share * 100.0).round(),
    )
}

/// Returns the number of captures that could be joined with the others in more than one way.
fn ambiguous(job: &Job) -> usize {
    job.groups.iter().map(|g| g.ambiguous.len()).sum()
}

/// Returns what the answer rests on and its caveats, each with its label.
pub fn lines(digests: &[RankDigest], job: &Job) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let sum = |f: fn(&RankDigest) -> usize| digests.iter().map(f).sum::<usize>();
    let kernels = sum(|d| d.runs.len());
    let joined = job.collectives.iter().filter(|c| c.matched.runs.len() > 1);
    let by_operator = match sum(|d| d.sized_by_operator) {
        0 => String::new(),
        more => format!(", size of {} more from their operators", n(more)),
    };
    let alone = match job.unmatched() {
        0 => String::new(),
        alone => format!(
            ", {} found on one rank only",
            counted(alone, "kernel", "kernels")
        ),
    };
    out.push((
        "job",
        format!(
            "{}, {}; {} recorded on several ranks{alone}; arguments known of {}{by_operator}, launch calls of {}",
            counted(digests.len(), "rank", "ranks"),
            counted(kernels, "collective kernel", "collective kernels"),
            counted(joined.count(), "collective", "collectives"),
            counted(sum(|d| d.annotated), "kernel", "kernels"),
            n(kernels - sum(|d| d.unlinked)),
        ),
    ));
    let ambiguous = ambiguous(job);
    if ambiguous > 0 {
        let text = format!(
            "{} so evenly that {} could be joined with the others in more than one way: collectives of other steps \
             may be taken for one, and waits, clocks and the straggler are then wrong",
            counted(ambiguous, "capture repeats", "captures repeat"),
            if ambiguous == 1 { "it" } else { "they" },
        );
        out.push(("caution", text));
    }
    if job.contradictions() > 0 {
        let text = format!(
            "in {} a rank ends before another starts: not counted in waits",
            counted(job.contradictions(), "collective", "collectives")
        );
        out.push(("caution", text));
    }
    if job.incomplete() > 0 {
        let text = format!(
            "of {} a member of the group is not recorded: waits and late arrivals are not known, and not counted",
            counted(job.incomplete(), "collective", "collectives")
        );
        out.push(("incomplete", text));
    }
    let apart = job.clocks.iter().filter(|c| c.is_none()).count();
    if apart > 0 {
        let text = format!(
            "{} no synchronising collective with the first one: {} not known",
            counted(apart, "rank shares", "ranks share"),
            match apart {
                1 => "its clock and waits are",
                _ => "their clocks and waits are",
            }
        );
        out.push(("clocks", text));
    }
    let rows = summarise(digests, job);
    if rows.iter().any(CommSummary::is_partly_complete) {
        let partial = rows.iter().filter(|row| row.is_partly_complete());
        let (complete, all) = partial.fold((0, 0), |(complete, all), row| {
            (complete + row.complete, all + row.collectives)
        });
        out.push((
            "complete",
            format!(
                "latency and bandwidth are over the {} of {} collectives that all members of the group recorded",
                n(complete),
                n(all)
            ),
        ));
    }
    if rows.iter().any(|row| row.includes_waiting) {
        out.push((
            "with wait",
            "of collectives that not all members of the group recorded the latency is the shortest \
             recorded duration, which may include waiting for the others: no bandwidth follows \
             from it"
                .to_owned(),
        ));
    }
    if job
        .collectives
        .iter()
        .any(CollectiveTime::is_delayed_by_others)
    {
        out.push((
            "passed on",
            "a delay that a rank has from waiting in another group is charged to the rank that it waited for"
                .to_owned(),
        ));
    }
    out
}
