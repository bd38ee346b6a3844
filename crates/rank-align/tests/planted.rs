//! Tests random jobs with planted clocks, jitter, stragglers and lost ends: join and clocks are the
//! planted ones, or the doubt is reported.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_wrap,
    reason = "a failed step fails the test; numbers are small"
)]

use proptest::prelude::*;
use rank_align::{Arrivals, RankRun, clocks, match_ranks};
use trace_model::kernel::CommLibrary;
use trace_model::kernel::collective::{Collective, CollectiveOp};
use trace_model::{DeviceId, StreamId};

/// A rank: the lead of its clock, and how many of its first and last collectives are lost.
#[derive(Clone, Debug)]
struct Member {
    ahead: i64,
    lost: (usize, usize),
}

#[derive(Clone, Debug)]
struct Job {
    members: Vec<Member>,
    /// For each collective: arrival of the fastest rank, and the delay of each rank.
    starts: Vec<(i64, Vec<i64>)>,
    /// Difference of the ends between ranks.
    end_noise: Vec<Vec<i64>>,
}

const TRANSFER: i64 = 25_000;

/// Generates regular jobs: the same period throughout, up to the jitter.
fn job(jitter: i64, noise: i64, lost: usize) -> impl Strategy<Value = Job> {
    (2_usize..9, 40_usize..120).prop_flat_map(move |(ranks, n)| {
        let member =
            (-10_000_000_i64..10_000_000, 0..=lost, 0..=lost).prop_map(|(ahead, a, b)| Member {
                ahead,
                lost: (a, b),
            });
        let members = prop::collection::vec(member, ranks);
        let jitters = prop::collection::vec(prop::collection::vec(0..=jitter, ranks), n);
        let noises = prop::collection::vec(prop::collection::vec(0..=noise, ranks), n);
        let period = 150_000_i64..900_000;
        // Index of the straggler, its period in collectives, and its delay.
        let straggler = (0..ranks, 3_usize..9, 50_000_i64..400_000);
        (members, jitters, noises, period, straggler).prop_map(
            |(mut members, jitters, end_noise, period, who)| {
                members[0].ahead = 0;
                let mut at = 0;
                let starts = jitters.into_iter().enumerate().map(|(k, mut late)| {
                    if k % who.1 == who.1 - 1 {
                        late[who.0] += who.2;
                    }
                    let start = at;
                    at += period + late.iter().max().unwrap();
                    (start, late)
                });
                let starts = starts.collect();
                Job {
                    members,
                    starts,
                    end_noise,
                }
            },
        )
    })
}

/// Returns start and end of each collective of a rank on its own clock, with the number of the
/// collective.
fn recorded(job: &Job, rank: usize) -> Vec<(usize, i64, i64)> {
    let member = &job.members[rank];
    let kept = member.lost.0..job.starts.len() - member.lost.1;
    let base = 1_700_000_000_000_000_000 + member.ahead;
    kept.map(|k| {
        let (start, late) = &job.starts[k];
        let end = start + late.iter().max().unwrap() + TRANSFER + job.end_noise[k][rank];
        (k, base + start + late[rank], base + end)
    })
    .collect()
}

struct Found {
    /// Largest error of a clock, in nanoseconds.
    clock_error: i64,
    /// Number of joins of different collectives, and of collectives of all ranks that are not
    /// joined.
    wrong: usize,
    /// Wait time, found and planted.
    waits: (i64, i64),
    ambiguous: bool,
}

fn check(job: &Job) -> Found {
    let what = Collective::named("allreduce", Some(CollectiveOp::AllReduce));
    let lists: Vec<Vec<(usize, i64, i64)>> =
        (0..job.members.len()).map(|r| recorded(job, r)).collect();
    let runs: Vec<Vec<RankRun<'_>>> = lists
        .iter()
        .map(|list| {
            list.iter()
                .map(|(_, _, end_ns)| RankRun {
                    pair: None,
                    kernel: "ncclDevKernel_AllReduce",
                    what: Some(&what),
                    seq: None,
                    device: DeviceId(0),
                    stream: StreamId(7),
                    library: CommLibrary::Nccl,
                    end_ns: *end_ns,
                })
                .collect()
        })
        .collect();
    let joined = match_ranks(&runs);
    let clocks = clocks(&runs, &joined.collectives);
    let mut found = Found {
        clock_error: 0,
        wrong: 0,
        waits: (0, 0),
        ambiguous: joined.groups.iter().any(|g| !g.ambiguous.is_empty()),
    };
    for (member, clock) in job.members.iter().zip(&clocks) {
        let error = clock.map_or(i64::MAX, |c| (c.fit.ahead_ns - member.ahead).abs());
        found.clock_error = found.clock_error.max(error);
    }
    let all = job.members.len();
    let mut complete = 0;
    for collective in &joined.collectives {
        let number = |r: &(usize, usize)| lists[r.0][r.1].0;
        let first = number(&collective.runs[0]);
        found.wrong += collective
            .runs
            .iter()
            .filter(|r| number(r) != first)
            .count();
        if collective.runs.len() < all {
            continue;
        }
        complete += 1;
        let aligned: Vec<_> = collective
            .runs
            .iter()
            .map(|r| Some(clocks[r.0]?.align(lists[r.0][r.1].1, lists[r.0][r.1].2)))
            .collect();
        if let Some(arrivals) = Arrivals::of(&aligned) {
            found.waits.0 += arrivals.wait_ns.iter().flatten().sum::<i64>();
        }
    }
    let by_all = job.members.iter().map(|m| m.lost.0).max().unwrap()
        ..job.starts.len() - job.members.iter().map(|m| m.lost.1).max().unwrap();
    found.wrong += by_all.len().abs_diff(complete);
    for k in by_all {
        let late = &job.starts[k].1;
        let last = late.iter().max().unwrap();
        found.waits.1 += late.iter().map(|l| last - l).sum::<i64>();
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Nothing is lost: the join of most collectives is correct, however regular the job.
    #[test]
    fn whole_captures(job in prop_oneof![job(0, 0, 0), job(1_000, 0, 0), job(20_000, 800, 0), job(120_000, 3_000, 0)]) {
        let found = check(&job);
        prop_assert_eq!(found.wrong, 0);
        prop_assert!(found.clock_error <= 3_000, "{}", found.clock_error);
        let allowed = 6_000 * (job.starts.len() * job.members.len()) as i64;
        prop_assert!((found.waits.0 - found.waits.1).abs() <= allowed, "{:?}", found.waits);
    }

    /// Up to nine collectives are lost at each end: the truth is found, or the doubt is reported.
    #[test]
    fn cut_captures(job in prop_oneof![job(0, 0, 9), job(1_000, 0, 9), job(20_000, 800, 9), job(120_000, 3_000, 9)]) {
        let found = check(&job);
        prop_assert!(found.ambiguous || found.wrong == 0, "{} wrong", found.wrong);
    }

    /// With jitter well above the noise of the ends there is no doubt, and no error.
    #[test]
    fn cut_captures_with_jitter(job in job(20_000, 300, 9)) {
        let found = check(&job);
        prop_assert_eq!((found.wrong, found.ambiguous), (0, false));
        prop_assert!(found.clock_error <= 300, "{}", found.clock_error);
    }
}
