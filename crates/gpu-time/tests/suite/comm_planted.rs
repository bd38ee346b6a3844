//! Tests that planted clocks, delays and losses are found in jobs of many ranks.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a failed step fails the test; clocks are made with reals, sizes are small"
)]

use crate::support::{Dice, Maker, Value};
use gpu_time::comm::{CauseKind, CommRules, Job, RankDigest, assign_ranks};
use trace_model::{Distributed, Rank, Trace};

/// Cause of the delay of one rank.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// One of its kernels takes longer in every third step.
    SlowKernel(usize),
    /// A function of its host takes longer in every fourth step.
    SlowHost(usize),
    /// It runs an additional kernel in every fifth step.
    MoreKernels(usize),
}

struct Plan {
    ranks: usize,
    steps: usize,
    seed: u64,
    numbered: bool,
    metadata: bool,
    fault: Fault,
}

/// Clock of a rank: ahead of true time by `offset`, and faster by the fraction `drift`.
#[derive(Clone, Copy)]
struct Clock {
    offset: i64,
    drift: f64,
}

impl Clock {
    fn at(self, true_ns: i64) -> i64 {
        true_ns + self.offset + (true_ns as f64 * self.drift).round() as i64
    }
}

struct Planted {
    clocks: Vec<Clock>,
    /// True starts by step and rank.
    starts: Vec<Vec<i64>>,
    traces: Vec<Trace>,
}

const TRANSFER: i64 = 30_000;

/// Generates a job of steps: a product, a norm and an all-reduce that ends when all ranks have
/// arrived. Every rank loses some of its first, last and middle collectives.
fn made(plan: &Plan) -> Planted {
    let mut dice = Dice(plan.seed);
    let clocks: Vec<Clock> = (0..plan.ranks)
        .map(|rank| Clock {
            offset: if rank == 0 {
                0
            } else {
                dice.below(100_000_000) - 50_000_000
            },
            drift: if rank == 0 {
                0.0
            } else {
                (dice.below(40_001) - 20_000) as f64 * 1e-9
            },
        })
        .collect();
    let mut makers: Vec<Maker> = (0..plan.ranks).map(|_| Maker::new()).collect();
    let lost: Vec<(usize, usize, usize)> = (0..plan.ranks)
        .map(|_| {
            (
                dice.below(6) as usize,
                dice.below(6) as usize,
                7 + dice.below(30) as usize,
            )
        })
        .collect();
    let mut starts = Vec::new();
    // No clock may show less than 0.
    let mut begin = 100_000_000_i64;
    for step in 0..plan.steps {
        let mut ready = Vec::new();
        // Layers and batches differ: ranks share only the rhythm.
        let common = dice.below(20_000);
        for (rank, (maker, clock)) in makers.iter_mut().zip(&clocks).enumerate() {
            let faulty = |every: usize, who: usize| rank == who && step % every == 1;
            let mut product = 80_000 + common + dice.below(15_000);
            let mut function = 20_000 + dice.below(3_000);
            let mut more = false;
            match plan.fault {
                Fault::SlowKernel(who) if faulty(3, who) => product += 150_000,
                Fault::SlowHost(who) if faulty(4, who) => function += 400_000,
                Fault::MoreKernels(who) if faulty(5, who) => more = true,
                _ => {}
            }
            let span = |from: i64, length: i64| {
                let start = clock.at(begin + from);
                (start, clock.at(begin + from + length) - start)
            };
            let id = |n: usize| ("correlation", Value::Int((step * 10 + n + 1) as i64));
            maker.host(
                span(0, function + 10_000),
                "python_function",
                "model.py(3): layer",
                &[],
            );
            maker.host(
                span(1_000, 2_000),
                "cuda_runtime",
                "cudaLaunchKernel",
                &[id(0)],
            );
            maker.host(
                span(3_500, 2_000),
                "cuda_runtime",
                "cudaLaunchKernel",
                &[id(1)],
            );
            maker.host(
                span(5_600, function),
                "python_function",
                "sample.py(7): pick",
                &[],
            );
            maker.host(
                span(5_700 + function, 2_000),
                "cuda_runtime",
                "cudaLaunchKernel",
                &[id(2)],
            );
            maker.kernel(7, span(4_000, product), "gemm_128x128", &[id(0)]);
            maker.kernel(7, span(4_500 + product, 9_000), "rms_norm_kernel", &[id(1)]);
            let mut at = 14_000 + product;
            if more {
                maker.kernel(7, span(at, 120_000), "recompute_kernel", &[id(3)]);
                at += 121_000;
            }
            ready.push(begin + at.max(function + 8_500));
        }
        let last = *ready.iter().max().unwrap();
        for (rank, (maker, clock)) in makers.iter_mut().zip(&clocks).enumerate() {
            let (head, tail, middle) = lost[rank];
            if step < head || step + tail >= plan.steps || step % middle == middle - 1 {
                continue;
            }
            let start = clock.at(ready[rank]);
            let end = clock.at(last + TRANSFER + dice.below(401));
            let mut args = vec![("correlation", Value::Int((step * 10 + 3) as i64))];
            if plan.metadata {
                let members: Vec<String> = (0..plan.ranks).map(|r| r.to_string()).collect();
                args.extend([
                    ("Collective name", Value::Text("allreduce".into())),
                    ("In msg nelems", Value::Int(1 << 20)),
                    ("Out msg nelems", Value::Int(1 << 20)),
                    ("Group size", Value::Int(plan.ranks as i64)),
                    ("dtype", Value::Text("BFloat16".into())),
                    ("Process Group Name", Value::Text("3".into())),
                    (
                        "Process Group Ranks",
                        Value::Text(format!("[{}]", members.join(", "))),
                    ),
                ]);
            }
            if plan.numbered {
                args.push(("Seq", Value::Int(step as i64)));
            }
            let name = if plan.metadata {
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
            } else {
                "void vllm::cross_device_reduce_1stage<half, 8>(vllm::RankData*)"
            };
            maker.kernel(7, (start, end - start), name, &args);
        }
        starts.push(ready);
        begin = last + TRANSFER + 1_000;
    }
    let traces = makers
        .into_iter()
        .enumerate()
        .map(|(rank, mut maker)| {
            // The zeros of the clocks differ too, and the files state by how much.
            maker.builder.meta.base_time_ns = 1_700_000_000_000_000_000;
            maker.builder.meta.distributed = Some(Distributed {
                rank: Some(Rank(rank as u32)),
                world_size: Some(plan.ranks as u32),
                ..Distributed::default()
            });
            maker.finish()
        })
        .collect();
    Planted {
        clocks,
        starts,
        traces,
    }
}

/// Returns digests of the ranks that `keep` accepts, in an order given by the seed.
fn digests(planted: &Planted, keep: impl Fn(usize) -> bool, seed: u64) -> Vec<RankDigest> {
    let mut dice = Dice(seed);
    let mut all: Vec<(i64, RankDigest)> = planted
        .traces
        .iter()
        .enumerate()
        .filter(|(rank, _)| keep(*rank))
        .map(|(rank, trace)| {
            let digest = RankDigest::new(&format!("rank{rank}.json"), trace, CommRules::Extended);
            (dice.below(1 << 30), digest)
        })
        .collect();
    all.sort_by_key(|d| d.0);
    let mut digests: Vec<RankDigest> = all.into_iter().map(|d| d.1).collect();
    assert!(!assign_ranks(&mut digests).unwrap().placed);
    assert!(digests.windows(2).all(|w| w[0].rank < w[1].rank));
    digests
}

/// Returns the step of a run, from its launch's correlation id.
fn step_of(planted: &Planted, digest: &RankDigest, run: usize) -> usize {
    let rank = digest.rank.0 as usize;
    let start = digest.runs[run].start_ns;
    let clock = planted.clocks[rank];
    planted
        .starts
        .iter()
        .position(|s| clock.at(s[rank]) == start)
        .unwrap()
}

fn check_clocks_and_skews(plan: &Plan, missing: &[usize]) {
    let planted = made(plan);
    let digests = digests(&planted, |rank| !missing.contains(&rank), plan.seed);
    let job = Job::new(&digests);
    let context = format!("{} ranks, seed {}", plan.ranks, plan.seed);
    let reference = planted.clocks[digests[0].rank.0 as usize];
    for (digest, clock) in digests.iter().zip(&job.clocks) {
        let fit = clock
            .unwrap_or_else(|| panic!("{context}: rank {} alone {:?}", digest.rank, plan.metadata))
            .fit;
        let own = planted.clocks[digest.rank.0 as usize];
        for step in [0, plan.steps / 2, plan.steps - 1] {
            let truth = planted.starts[step][0];
            let base = 1_700_000_000_000_000_000;
            let ours = fit.to_reference(own.at(truth) + base);
            let error = ours - (reference.at(truth) + base);
            assert!(
                error.abs() <= fit.error_at(own.at(truth) + base) + 1,
                "{context}: rank {} off by {error}: {fit:?}",
                digest.rank
            );
            assert!(
                error.abs() <= 500,
                "{context}: rank {} off by {error}: {fit:?}",
                digest.rank
            );
        }
        let drift = (own.drift - reference.drift) * 1e9;
        if fit.samples > 0 {
            assert!(
                fit.drift_low_ppb - 0.1 <= drift && drift <= fit.drift_high_ppb + 0.1,
                "{context}: drift {drift}: {fit:?}"
            );
        }
    }
    let mut joined = 0;
    for c in job.collectives.iter().filter(|c| c.matched.runs.len() > 1) {
        let steps: Vec<usize> = c
            .matched
            .runs
            .iter()
            .map(|(member, run)| step_of(&planted, &digests[*member], *run))
            .collect();
        assert!(
            steps.windows(2).all(|w| w[0] == w[1]),
            "{context}: joined {steps:?}"
        );
        joined += 1;
        let true_starts: Vec<i64> = c
            .matched
            .runs
            .iter()
            .map(|(member, _)| planted.starts[steps[0]][digests[*member].rank.0 as usize])
            .collect();
        let truth = true_starts.iter().max().unwrap() - true_starts.iter().min().unwrap();
        let error = c.skew_ns.unwrap() - truth;
        assert!(error.abs() <= 1_000, "{context}: skew off by {error} ns");
        assert!(
            error.abs() <= c.error_ns,
            "{context}: skew off by {error} ns, {} stated",
            c.error_ns
        );
        let last = true_starts.iter().max().unwrap();
        let complete = c.matched.runs.len() == plan.ranks;
        if plan.metadata {
            assert_eq!(c.knows_waits(), complete, "{context}");
            assert_eq!(c.busbw_bytes_per_s().is_some(), complete, "{context}");
        }
        for (wait, start) in c.wait_ns.iter().zip(&true_starts) {
            assert!((wait.unwrap() - (last - start)).abs() <= 1_000);
        }
        assert!(!c.contradiction);
    }
    if plan.metadata && !missing.is_empty() {
        assert!(!job.knows_waits() && job.straggler.is_none(), "{context}");
        assert_eq!(job.incomplete(), joined);
    }
    // Every step recorded by two ranks is present.
    let recorded = |step: usize| {
        let has = |d: &RankDigest| (0..d.runs.len()).any(|r| step_of(&planted, d, r) == step);
        digests.iter().filter(|d| has(d)).count() > 1
    };
    assert_eq!(
        joined,
        (0..plan.steps).filter(|s| recorded(*s)).count(),
        "{context}"
    );
}

#[test]
fn clocks_and_skews_of_8_to_64_ranks() {
    for (ranks, seed, missing) in [
        (8, 1, vec![3]),
        (8, 2, vec![]),
        (16, 3, vec![0, 9]),
        (32, 4, vec![31, 7, 8]),
        (64, 5, vec![0, 1, 33]),
    ] {
        for (numbered, metadata) in [(true, true), (false, true), (false, false)] {
            let plan = Plan {
                ranks,
                steps: 120,
                seed: seed * 10 + u64::from(numbered) * 2 + u64::from(metadata),
                numbered,
                metadata,
                fault: Fault::None,
            };
            check_clocks_and_skews(&plan, &missing);
        }
    }
}

#[test]
fn the_straggler_is_named_with_what_it_did() {
    for (fault, kind, name) in [
        (
            Fault::SlowKernel(5),
            CauseKind::SlowerKernels,
            "gemm_128x128",
        ),
        (
            Fault::SlowHost(2),
            CauseKind::SlowerHost,
            "sample.py(7): pick",
        ),
        (
            Fault::MoreKernels(6),
            CauseKind::MoreKernels,
            "recompute_kernel",
        ),
    ] {
        let plan = Plan {
            ranks: 8,
            steps: 100,
            seed: 11,
            numbered: false,
            metadata: true,
            fault,
        };
        let planted = made(&plan);
        let digests = digests(&planted, |_| true, 1);
        let job = Job::new(&digests);
        let straggler = job.straggler.as_ref().unwrap();
        let (Fault::SlowKernel(who) | Fault::SlowHost(who) | Fault::MoreKernels(who)) = fault
        else {
            panic!("a fault was planted");
        };
        assert_eq!(digests[straggler.member].rank.0 as usize, who);
        assert!(straggler.persistent, "{straggler:?}");
        assert!(straggler.share > 0.6, "{straggler:?}");
        let (cause, times, ns) = &job.ranks[who].causes[0];
        assert_eq!((cause.kind, cause.name.as_deref()), (kind, Some(name)));
        assert!(
            *times >= 12 && *ns * 10 > straggler.avoidable_ns * 8,
            "{times} {ns} {straggler:?}"
        );
        // The single late arrivals have the planted sizes: 150, 400 and 121 us.
        let late = job.late();
        let first = late[0].cause.as_ref().unwrap();
        let planted_ns = match fault {
            Fault::SlowKernel(_) => 150_000,
            Fault::SlowHost(_) => 400_000,
            _ => 120_000,
        };
        assert!((first.excess_ns() - planted_ns).abs() < 20_000, "{first:?}");
    }
}

#[test]
fn chance_makes_nobody_a_persistent_straggler() {
    for seed in 21..26 {
        let plan = Plan {
            ranks: 8,
            steps: 100,
            seed,
            numbered: true,
            metadata: true,
            fault: Fault::None,
        };
        let planted = made(&plan);
        let job = Job::new(&digests(&planted, |_| true, seed));
        assert!(job.straggler.is_none_or(|s| !s.persistent), "seed {seed}");
    }
}

#[test]
fn the_order_of_files_does_not_matter() {
    let plan = Plan {
        ranks: 12,
        steps: 60,
        seed: 77,
        numbered: false,
        metadata: true,
        fault: Fault::SlowKernel(3),
    };
    let planted = made(&plan);
    let first = Job::new(&digests(&planted, |r| r != 4, 1));
    for seed in 2..5 {
        assert_eq!(Job::new(&digests(&planted, |r| r != 4, seed)), first);
    }
}

/// All-reduces of inference engines have no metadata; the operator around the launch has a shape.
#[test]
fn the_size_of_a_custom_all_reduce_is_that_of_the_operators_input() {
    let mut maker = Maker::new();
    let text = |t: &str| Value::Text(t.to_owned());
    let shaped = [
        ("Input Dims", text("[[], [64, 4096], [64, 4096], [], []]")),
        (
            "Input type",
            text("['Scalar', 'c10::BFloat16', 'c10::BFloat16', 'Scalar', 'Scalar']"),
        ),
    ];
    let other = [
        ("Input Dims", text("[[7, 7]]")),
        ("Input type", text("['float']")),
    ];
    maker.host((0, 100), "cpu_op", "_C_custom_ar::all_reduce", &shaped);
    maker.host((200, 100), "cpu_op", "aten::mul", &other);
    maker.host((400, 100), "cpu_op", "_C_custom_ar::all_reduce", &[]);
    for (id, at) in [(1, 10), (2, 210), (3, 410)] {
        let correlation = [("correlation", Value::Int(id))];
        maker.host((at, 5), "cuda_runtime", "cudaLaunchKernel", &correlation);
        let name = "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)";
        maker.kernel(7, (at + 20, 10_000 / 200), name, &correlation);
    }
    let digest = RankDigest::new("rank0.json", &maker.finish(), CommRules::Extended);
    let found: Vec<_> = digest
        .runs
        .iter()
        .map(|run| {
            let what = digest.what(run).unwrap();
            (
                what.bytes,
                what.size_source.map(|s| s.name()),
                what.group_size,
            )
        })
        .collect();
    let known = (Some(64 * 4096 * 2), Some("operator_input"), Some(8));
    let unknown = (None, None, Some(8));
    assert_eq!(found, [known, unknown, unknown]);
    // 524,288 bytes in 50 ns over 8 ranks.
    let what = digest.what(&digest.runs[0]).unwrap();
    assert!((what.algbw(50).unwrap() - 10_485.76).abs() < 1e-9);
}

/// Two communicators of one library without metadata, whose kernels interleave differently on every
/// rank, have a stream each.
#[test]
fn communicators_without_names_are_told_apart_by_their_streams() {
    const STREAMS: [i64; 2] = [20, 21];
    let mut dice = Dice(11);
    let mut makers: Vec<Maker> = (0..4).map(|_| Maker::new()).collect();
    // End of each collective on all ranks, by stream and position.
    let mut ends = [Vec::new(), Vec::new()];
    for (stream, ends) in STREAMS.iter().zip(&mut ends) {
        let mut end = 100_000_000 + dice.below(50_000);
        for place in 0..80 {
            end += 100_000 + dice.below(60_000);
            ends.push(end);
            for (rank, maker) in makers.iter_mut().enumerate() {
                // Each rank misses some of them.
                if (place + rank) % 17 == 3 {
                    continue;
                }
                let start = end - 40_000 - dice.below(50_000);
                let name =
                    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
                maker.kernel(*stream, (start, end + dice.below(300) - start), name, &[]);
            }
        }
    }
    let digests: Vec<RankDigest> = makers
        .into_iter()
        .enumerate()
        .map(|(rank, maker)| {
            let trace = maker.finish();
            RankDigest::new(&format!("rank{rank}.json"), &trace, CommRules::Extended)
        })
        .collect();
    let job = Job::new(&digests);
    let labels: Vec<String> = job.groups.iter().map(|g| g.key.label()).collect();
    assert_eq!(labels, ["(nccl, stream 20)", "(nccl, stream 21)"]);
    for c in &job.collectives {
        let ends = &ends[c.matched.group];
        let places: Vec<usize> = c
            .matched
            .runs
            .iter()
            .map(|(member, run)| {
                let end = digests[*member].runs[*run].end_ns;
                ends.iter()
                    .position(|e| (0..300).contains(&(end - e)))
                    .unwrap()
            })
            .collect();
        assert!(places.windows(2).all(|w| w[0] == w[1]), "joined {places:?}");
    }
    assert_eq!(job.collectives.len(), 160);
}
