//! Pipelines: messages between two ranks pass delays on from stage to stage, and the origin is named.

mod written_jobs;

use std::collections::BTreeSet;

use fleet::Kind;
use serving_synth::fleet as synth;
use written_jobs::{findings, titles};

const MS: i64 = 1_000_000;

fn pipeline(ranks: u32, stages: u32, seed: u64) -> synth::Fleet {
    synth::Fleet {
        ranks,
        stages,
        steps: 24,
        layers: 2,
        seed,
        moving_start_ns: 10_000,
        ..synth::Fleet::default()
    }
}

fn late(found: &fleet::Fleet) -> BTreeSet<String> {
    let late = found.findings.iter().filter(|finding| {
        matches!(
            finding.kind,
            Kind::LateRank | Kind::LateHost | Kind::LateDevice | Kind::LateRack
        )
    });
    late.map(|finding| finding.id.clone()).collect()
}

fn assert_shares(found: &fleet::Fleet) {
    let of_findings = found
        .findings
        .iter()
        .filter_map(|finding| finding.share_pct);
    let of_ranks = found.ranks.iter().filter_map(|row| row.delay_share_pct);
    for share in of_findings.chain(of_ranks) {
        assert!((0.0..=100.0).contains(&share), "{share}");
    }
}

#[test]
fn stages_that_are_alike_blame_nobody() {
    for (ranks, stages) in [(16, 2), (32, 2), (32, 4), (64, 4)] {
        for seed in 1..4 {
            let (found, _) = findings(&pipeline(ranks, stages, seed));
            assert!(
                late(&found).is_empty(),
                "{ranks} {stages} {seed}: {:#?}",
                titles(&found)
            );
            assert_shares(&found);
        }
    }
}

#[test]
fn a_slow_device_is_named_and_not_the_stages_behind_it() {
    for (ranks, stages, slow) in [
        (32, 2, 3),
        (32, 2, 19),
        (32, 2, 12),
        (64, 4, 11),
        (32, 4, 11),
    ] {
        for seed in 1..4 {
            let mut job = pipeline(ranks, stages, seed);
            job.slow_gpu = Some((slow, 1300));
            let (found, by_kind) = findings(&job);
            assert_eq!(by_kind[&Kind::SlowDevice][0].ranks, [slow]);
            let expected = BTreeSet::from([format!("late_rank-{slow}")]);
            assert_eq!(
                late(&found),
                expected,
                "{ranks} {stages} {seed}: {:#?}",
                titles(&found)
            );
            assert_shares(&found);
        }
    }
}

/// Its stage waits for no one of its own, but the ranks at the same stage of the other pipelines do, and so do those behind it.
#[test]
fn a_late_host_is_named_and_not_the_stages_around_it() {
    for (ranks, stages, host) in [(32, 2, 0), (64, 2, 2), (64, 2, 5), (64, 4, 1), (96, 4, 6)] {
        for seed in 1..4 {
            let mut job = pipeline(ranks, stages, seed);
            job.late_hosts = Some((host, host + 1, MS));
            let (found, _) = findings(&job);
            let expected = BTreeSet::from([format!("late_host-host{host:03}")]);
            assert_eq!(
                late(&found),
                expected,
                "{ranks} {stages} {seed}: {:#?}",
                titles(&found)
            );
            assert_shares(&found);
        }
    }
}
