//! Tests of jobs with several groups, missing ranks and messages between pairs, with planted truth.

use gpu_time::comm::{CauseKind, CommRules, Job, RankDigest, answer, assign_ranks, summarise};
use trace_model::kernel::collective::CollectiveOp;
use trace_model::{Distributed, Rank};

use crate::support::{Dice, Maker, Value};

const ALL_REDUCE: &str =
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const TRANSFER: i64 = 30_000;

/// Recordings of the ranks `0..n` of a job of `world`.
struct Made {
    makers: Vec<Maker>,
    world: u32,
}

impl Made {
    fn new(n: usize, world: u32) -> Self {
        let makers = (0..n).map(|_| Maker::new()).collect();
        Self { makers, world }
    }

    /// Adds a collective of `members`, each of which starts at its time; all end with the transfer
    /// after the last start.
    fn collective(&mut self, group: &str, seq: i64, members: &[(usize, i64)]) -> i64 {
        let last = members.iter().map(|member| member.1).max().unwrap();
        let end = last + TRANSFER;
        for (rank, start) in members {
            let ranks: Vec<usize> = members.iter().map(|member| member.0).collect();
            self.kernel(
                *rank,
                group,
                &format!("{ranks:?}"),
                seq,
                (*start, end),
                "allreduce",
                &[],
            );
        }
        end
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a record of a collective has as many fields"
    )]
    fn kernel(
        &mut self,
        rank: usize,
        group: &str,
        ranks: &str,
        seq: i64,
        (start, end): (i64, i64),
        op: &str,
        more: &[(&str, Value)],
    ) {
        let text = |t: &str| Value::Text(t.to_owned());
        let members = i64::try_from(ranks.split(',').count()).unwrap();
        let mut args = vec![
            ("Collective name", text(op)),
            ("In msg nelems", Value::Int(1 << 20)),
            ("Out msg nelems", Value::Int(1 << 20)),
            ("Group size", Value::Int(members)),
            ("dtype", text("BFloat16")),
            ("Process Group Name", text(group)),
            ("Process Group Ranks", text(ranks)),
            ("Seq", Value::Int(seq)),
        ];
        args.extend_from_slice(more);
        let name = match op {
            "allreduce" => ALL_REDUCE,
            _ => "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        };
        self.makers[rank].kernel(20, (start, end - start), name, &args);
    }

    /// Returns the digests of the ranks that `keep` accepts.
    fn digests(self, keep: impl Fn(usize) -> bool) -> Vec<RankDigest> {
        let world = self.world;
        let all = self.makers.into_iter().enumerate();
        let mut digests: Vec<RankDigest> = all
            .filter(|(rank, _)| keep(*rank))
            .map(|(rank, mut maker)| {
                maker.builder.meta.distributed = Some(Distributed {
                    rank: Some(Rank(u32::try_from(rank).unwrap())),
                    world_size: Some(world),
                    ..Distributed::default()
                });
                let name = format!("rank{rank}.json");
                RankDigest::new(&name, &maker.finish(), CommRules::Extended)
            })
            .collect();
        assign_ranks(&mut digests).unwrap();
        digests
    }
}

/// Rank 1 is slow. Rank 0 waits for it in their tensor-parallel group, and is therefore late in its
/// data-parallel group, where rank 2 waits.
#[test]
fn a_delay_that_is_passed_on_is_charged_to_its_origin() {
    const LATE: i64 = 400_000;
    let mut dice = Dice(3);
    let mut made = Made::new(4, 4);
    let mut at = 1_000_000;
    for step in 0..25 {
        let mut jitter = || dice.below(900);
        let late = if step % 3 == 1 { LATE } else { 0 };
        let low = made.collective(
            "tp0",
            step,
            &[(0, at + jitter()), (1, at + late + jitter())],
        );
        let high = made.collective("tp1", step, &[(2, at + jitter()), (3, at + jitter())]);
        let (a, b, c, d) = (jitter(), jitter(), jitter(), jitter());
        let first = made.collective("dp0", step, &[(0, low + 5_000 + a), (2, high + 5_000 + b)]);
        let second = made.collective("dp1", step, &[(1, low + 5_000 + c), (3, high + 5_000 + d)]);
        at = first.max(second) + 60_000 + dice.below(90_000);
    }
    let digests = made.digests(|_| true);
    let job = Job::new(&digests);
    let straggler = job.straggler.as_ref().unwrap();
    assert_eq!(straggler.member, 1);
    assert!(
        straggler.persistent && straggler.share > 0.98,
        "{straggler:?}"
    );
    // Each of the eight delays costs rank 0 once, and ranks 2 and 3.
    let cost = job.ranks[1].avoidable_ns;
    assert!((cost - 8 * 3 * LATE).abs() < 8 * 3 * 2_000, "{cost}");
    assert!(job.ranks[0].avoidable_ns < LATE / 4, "{:?}", job.ranks[0]);
    let (cause, times, _) = job.ranks[0]
        .causes
        .iter()
        .find(|(cause, _, _)| cause.kind == CauseKind::PassedOn)
        .unwrap();
    assert_eq!(cause.name.as_deref(), Some("rank 1"));
    // Delays of the length of the jitter are passed on, too.
    assert!(*times >= 8, "{times}");
    // Charging moves waits between ranks and loses none.
    let known = job.collectives.iter().filter(|c| c.last.is_some());
    let waits: i64 = known.map(|c| c.total_wait_ns()).sum();
    let charged: i64 = job.ranks.iter().map(|rank| rank.inflicted_ns).sum();
    assert_eq!(charged, waits);
    let text = answer(&digests, &job);
    assert!(text.starts_with("The straggler is rank 1"), "{text}");
}

/// Both ranks leave the collective before together: what comes later is a rank's own delay.
#[test]
fn a_wait_with_the_same_ranks_before_excuses_nobody() {
    let mut dice = Dice(5);
    let mut made = Made::new(2, 2);
    let mut at = 1_000_000;
    for step in 0..30 {
        // Rank 1 waits for rank 0, then is itself late by as much.
        let first = made.collective("a", step, &[(0, at + 200_000), (1, at + dice.below(500))]);
        let next = [(0, first + 9_000 + dice.below(500)), (1, first + 209_000)];
        at = made.collective("b", step, &next) + 40_000 + dice.below(70_000);
    }
    let digests = made.digests(|_| true);
    let job = Job::new(&digests);
    assert!(job.collectives.iter().all(|c| c.passed_on_ns == 0));
    let costs = [0, 1].map(|rank: usize| job.ranks[rank].avoidable_ns);
    for cost in costs {
        assert!((cost - 30 * 199_750).abs() < 30 * 1_000, "{costs:?}");
    }
}

#[test]
fn bandwidth_is_that_of_the_complete_collectives() {
    let mut dice = Dice(7);
    let mut made = Made::new(2, 2);
    let mut at = 1_000_000;
    for step in 0..20 {
        let starts = [(0, at + dice.below(3_000)), (1, at + dice.below(3_000))];
        if step < 3 {
            // Only rank 0 recorded the first ones, whose durations include waiting.
            let span = (at, at + 900_000);
            made.kernel(0, "0", "[0, 1]", step, span, "allreduce", &[]);
            at += 900_000;
        } else {
            at = made.collective("0", step, &starts);
        }
        at += 50_000 + dice.below(80_000);
    }
    let digests = made.digests(|_| true);
    let job = Job::new(&digests);
    let rows = summarise(&digests, &job);
    let [row] = rows.as_slice() else {
        panic!("{rows:?}");
    };
    assert_eq!((row.complete, row.collectives), (17, 20));
    assert!(!row.includes_waiting);
    assert_eq!(
        (row.latency_ns, row.max_latency_ns),
        (17 * TRANSFER, TRANSFER)
    );
    // 2 MiB in 30 us; two ranks: factor 1.
    let want = f64::from(2 << 20) / 30_000.0 * 1e9;
    let bus = row.busbw_bytes_per_s.unwrap();
    assert!((bus - want).abs() < want * 1e-12, "{bus} {want}");
}

#[test]
fn waiting_has_a_lower_bound_with_a_rank_missing() {
    let mut dice = Dice(9);
    let mut made = Made::new(4, 4);
    let (mut at, mut truth) = (1_000_000, 0);
    for step in 0..24 {
        let late = if step % 4 == 3 { 0 } else { 300_000 };
        let starts = [0, 1, 2, 3].map(|rank| {
            let own = if rank == 3 { late } else { 0 };
            (rank, at + own + dice.below(2_000))
        });
        let recorded = [starts[0].1, starts[1].1, starts[3].1];
        let last = recorded.iter().max().unwrap();
        if recorded[2] == *last && late > 0 {
            truth += recorded.iter().map(|start| last - start).sum::<i64>();
        }
        at = made.collective("0", step, &starts) + 70_000 + dice.below(90_000);
    }
    let digests = made.digests(|rank| rank != 2);
    let job = Job::new(&digests);
    assert!(!job.knows_waits() && job.straggler.is_none());
    let least = job.least_waiting.unwrap();
    assert_eq!((least.member, least.collectives), (2, 24));
    assert!((18..=24).contains(&least.times_last), "{least:?}");
    // The alignment of the clocks is exact; rounds that are not late add at most their jitter.
    assert!(
        (least.wait_ns - truth).abs() <= 6 * 4_000,
        "{least:?} {truth}"
    );
    let text = answer(&digests, &job);
    assert!(
        text.starts_with("Ranks 0 and 1 waited at least 1"),
        "{text}"
    );
    assert!(text.contains("for rank 3"), "{text}");
    assert!(
        text.contains("Cannot say whether a rank that is not recorded"),
        "{text}"
    );
}

/// A pipeline of three stages. Each rank numbers all its messages, so that the numbers of both sides
/// of one message differ.
#[test]
fn messages_between_two_ranks_are_joined() {
    for is_numbered_alike in [false, true] {
        let mut dice = Dice(13);
        let mut made = Made::new(3, 3);
        let mut at = 1_000_000;
        let mut seq = [0_i64; 3];
        let mut durations = Vec::new();
        for round in 0..24 {
            for (from, to) in [(0, 1), (1, 2)] {
                // The receiver waits; the sender moves the data.
                let sender = at + 20_000 + dice.below(200_000);
                let end = sender + 40_000 + dice.below(900);
                let ends = [("Src Rank", Value::Int(from)), ("Dst Rank", Value::Int(to))];
                for (rank, op, start) in [(from, "send", sender), (to, "recv", at)] {
                    let rank = usize::try_from(rank).unwrap();
                    let number = if is_numbered_alike { round } else { seq[rank] };
                    made.kernel(rank, "pp", "[0, 1, 2]", number, (start, end), op, &ends);
                    seq[rank] += 1;
                }
                durations.push(end - sender);
                at = end + 5_000 + dice.below(60_000);
            }
        }
        let digests = made.digests(|_| true);
        let job = Job::new(&digests);
        assert_eq!(job.unmatched(), 0, "{is_numbered_alike}");
        assert_eq!(job.collectives.len(), 48);
        let mut found: Vec<i64> = job.collectives.iter().map(|c| c.latency_ns).collect();
        found.sort_unstable();
        durations.sort_unstable();
        assert_eq!(found, durations);
        for c in &job.collectives {
            assert_eq!(c.what.op, Some(CollectiveOp::SendRecv));
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let want = f64::from(2 << 20) / c.latency_ns as f64 * 1e9;
            let rate = c.busbw_bytes_per_s().unwrap();
            assert!((rate - want).abs() < want * 1e-12);
        }
        let labels: Vec<String> = job.groups.iter().map(|group| group.key.label()).collect();
        assert_eq!(labels, ["pp 0>1", "pp 1>2"]);
    }
}

/// Two pipelines of three stages with one rank each: 0 to 2 to 4, and 1 to 3 to 5. Rank 0 is late in each third step; ranks 2 and 4 wait
/// for its message and are therefore late in their data-parallel groups, where ranks 3 and 5 wait.
#[test]
fn a_delay_that_messages_pass_on_is_charged_to_the_first_stage() {
    const LATE: i64 = 400_000;
    let mut dice = Dice(5);
    let mut made = Made::new(6, 6);
    let mut at = [1_000_000_i64; 6];
    // Joins the clocks of all stages.
    let all = |at: &[i64; 6]| at.iter().copied().enumerate().collect::<Vec<_>>();
    at = [made.collective("all", 0, &all(&at)) + 2_000; 6];
    for step in 0..24 {
        for pipeline in 0..2 {
            let late = if step % 3 == 1 && pipeline == 0 {
                LATE
            } else {
                0
            };
            at[pipeline] += late;
            for (from, to) in [(pipeline, pipeline + 2), (pipeline + 2, pipeline + 4)] {
                // The work of the sender, then the message: both sides wait for the later one.
                let sender = at[from] + 90_000 + dice.below(900);
                let receiver = at[to] + dice.below(900);
                let end = sender.max(receiver) + 12_000;
                let ends = [
                    ("Src Rank", Value::Int(i64::try_from(from).unwrap())),
                    ("Dst Rank", Value::Int(i64::try_from(to).unwrap())),
                ];
                let ranks = format!("{:?}", [pipeline, pipeline + 2, pipeline + 4]);
                let group = format!("pp{pipeline}");
                for (rank, op, start) in [(from, "send", sender), (to, "recv", receiver)] {
                    made.kernel(rank, &group, &ranks, step, (start, end), op, &ends);
                    at[rank] = end;
                }
            }
        }
        for stage in 0..3 {
            let (one, other) = (stage * 2, stage * 2 + 1);
            let starts = [
                (one, at[one] + 5_000 + dice.below(900)),
                (other, at[other] + 5_000 + dice.below(900)),
            ];
            let end = made.collective(&format!("dp{stage}"), step, &starts);
            (at[one], at[other]) = (end + 2_000, end + 2_000);
        }
    }
    made.collective("all", 1, &all(&at));
    let job = Job::new(&made.digests(|_| true));
    let inflicted: Vec<i64> = job.ranks.iter().map(|rank| rank.inflicted_ns).collect();
    // Eight times in each of three groups.
    let planted = LATE * 8 * 3;
    assert!(
        (inflicted[0] - planted).abs() < planted / 10,
        "{inflicted:?}"
    );
    assert!(inflicted[1..].iter().all(|ns| *ns < LATE), "{inflicted:?}");
    let passed_on = job.collectives.iter().filter(|c| !c.origins.is_empty());
    let large = passed_on.filter(|c| c.passed_on_ns > LATE / 2);
    let origins: Vec<usize> = large.map(|c| c.origins[0].0).collect();
    assert_eq!(origins, vec![0; 16]);
    let cause = job.collectives.iter().filter_map(|c| c.cause.as_ref());
    let cause = cause.filter(|cause| cause.kind == CauseKind::PassedOn);
    assert!(cause.clone().count() >= 16);
    assert!(
        cause
            .filter(|cause| cause.lateness_ns > LATE / 2)
            .all(|cause| cause.name.as_deref() == Some("rank 0"))
    );
}
