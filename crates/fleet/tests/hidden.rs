//! Late ranks and hosts that hide each other: a collective has one last rank, and what is planted has several.

mod written_jobs;

use std::collections::BTreeSet;

use fleet::store::{read, stored};
use fleet::{Finding, Kind, Racks, Strength, reduce, summary};
use serving_synth::fleet as synth;
use written_jobs::{findings, run, run_in, titles, write};

const MS: i64 = 1_000_000;

/// A job with jitter whose hosts begin each step late.
fn job(ranks: u32, steps: u32, late: &[(u32, i64)], seed: u64) -> synth::Fleet {
    let per_host = synth::PER_HOST;
    let late = late.iter();
    synth::Fleet {
        ranks,
        steps,
        layers: 3,
        seed,
        moving_start_ns: 20_000,
        late_ranks: late
            .map(|(host, ns)| (host * per_host, (host + 1) * per_host, *ns))
            .collect(),
        ..synth::Fleet::default()
    }
}

fn is_late(finding: &&Finding) -> bool {
    matches!(
        finding.kind,
        Kind::LateRank | Kind::LateHost | Kind::LateDevice | Kind::LateRack
    )
}

/// Ids of the findings of late ranks and hosts.
fn late(found: &fleet::Fleet) -> BTreeSet<String> {
    let late = found.findings.iter().filter(is_late);
    late.map(|finding| finding.id.clone()).collect()
}

fn of_hosts(late: &[(u32, i64)]) -> BTreeSet<String> {
    late.iter()
        .map(|(host, _)| format!("late_host-host{host:03}"))
        .collect()
}

#[test]
fn late_hosts_are_named_together() {
    let planted: [(u32, &[(u32, i64)]); 7] = [
        (24, &[(0, 2 * MS), (1, MS)]),
        (32, &[(1, 2 * MS), (2, MS)]),
        (32, &[(1, MS), (2, MS)]),
        (64, &[(1, 2 * MS), (4, MS), (6, 400_000)]),
        (64, &[(0, 10 * MS), (7, 300_000)]),
        (64, &[(2, MS), (3, MS), (5, MS)]),
        (64, &[(3, MS)]),
    ];
    for (ranks, hosts) in planted {
        for seed in 1..4 {
            let steps = 16;
            let (found, _) = findings(&job(ranks, steps, hosts, seed));
            let rows: Vec<_> = found.ranks.iter().step_by(8).collect();
            assert_eq!(
                late(&found),
                of_hosts(hosts),
                "{ranks} ranks, seed {seed}: {:#?} {rows:#?}",
                titles(&found)
            );
            // Each rank delays those of the prompt hosts at its place; the first step has no collective before it.
            let prompt = i64::from(ranks / 8) - i64::try_from(hosts.len()).unwrap();
            for (host, ns) in hosts {
                let id = format!("late_host-host{host:03}");
                let finding = found.findings.iter().find(|f| f.id == id).unwrap();
                let least = ns * prompt * 8 * (i64::from(steps) - 1) * 9 / 10;
                let cost = finding.cost_ns.unwrap();
                // The latest one also delays those that are late themselves.
                let most = ns * (i64::from(ranks / 8) - 1) * 8 * i64::from(steps) * 12 / 10;
                assert!((least..=most).contains(&cost), "{cost}: {finding:#?}");
            }
            // In the order of what they cost.
            let costs = found.findings.iter().map(|f| f.cost_ns);
            assert!(costs.is_sorted_by(|a, b| a >= b), "{:#?}", titles(&found));
        }
    }
}

/// Where most hosts are late, only the few that are prompt wait, and whether these have less to do is not recorded.
#[test]
fn most_hosts_that_are_late_are_named_with_a_doubt() {
    let planted: [(u32, &[(u32, i64)]); 5] = [
        (32, &[(0, MS), (1, MS), (2, MS)]),
        (32, &[(1, MS), (2, MS), (3, MS)]),
        (32, &[(0, 3 * MS), (1, 2 * MS), (2, MS)]),
        (64, &[(1, MS), (2, MS), (4, MS), (6, MS), (7, MS)]),
        (
            40,
            &[(0, 500_000), (1, 500_000), (2, 500_000), (3, 500_000)],
        ),
    ];
    for (ranks, hosts) in planted {
        for seed in 1..4 {
            let steps = 16;
            let (found, _) = findings(&job(ranks, steps, hosts, seed));
            assert_eq!(
                late(&found),
                of_hosts(hosts),
                "{ranks}, seed {seed}: {:#?}",
                titles(&found)
            );
            let prompt = i64::from(ranks / 8) - i64::try_from(hosts.len()).unwrap();
            let (_, least_late) = *hosts.iter().min_by_key(|of| of.1).unwrap();
            for (host, ns) in hosts {
                let id = format!("late_host-host{host:03}");
                let finding = found.findings.iter().find(|f| f.id == id).unwrap();
                // That the latest of all are late needs no doubt.
                if *ns == least_late {
                    assert_eq!(finding.strength, Strength::Likely, "{finding:#?}");
                    assert!(finding.title.contains("less to do"), "{}", finding.title);
                }
                let least = ns * prompt * 8 * (i64::from(steps) - 1) * 9 / 10;
                assert!(finding.cost_ns.unwrap() >= least, "{finding:#?}");
                assert!(finding.share_pct.is_none_or(|share| share <= 100.0));
            }
            // What the ranks of the prompt hosts wait for is the time of the others.
            let is_late = |rank: u32| hosts.iter().any(|(host, _)| rank / 8 == *host);
            for row in &found.ranks {
                let own = row.own_delay_ns.unwrap();
                assert_eq!(is_late(row.rank), own > least_late, "{row:#?}");
            }
        }
    }
}

#[test]
fn most_ranks_of_a_host_that_are_late_are_named() {
    for seed in 1..4 {
        let mut job = job(32, 20, &[], seed);
        job.late_ranks = vec![(8, 13, MS)];
        let (found, _) = findings(&job);
        let named: BTreeSet<u32> = found
            .findings
            .iter()
            .filter(is_late)
            .flat_map(|finding| finding.ranks.clone())
            .collect();
        assert!(
            (8..13).all(|rank| named.contains(&rank)),
            "{:#?}",
            titles(&found)
        );
    }
}

#[test]
fn late_racks_that_hide_each_other_are_named() {
    let racks = "SwitchName=leaf0 Nodes=host[000-001]\nSwitchName=leaf1 Nodes=host[002-003]\n\
                 SwitchName=leaf2 Nodes=host[004-005]\nSwitchName=leaf3 Nodes=host[006-007]";
    let racks = Racks::parse(racks).unwrap();
    let two = |a: i64, b: i64| vec![(2, a), (3, a), (6, b), (7, b)];
    for (hosts, expected) in [
        (two(2 * MS, MS), vec!["late_rack-leaf1", "late_rack-leaf3"]),
        (two(MS, MS), vec!["late_rack-leaf1", "late_rack-leaf3"]),
        (
            two(300_000, 3 * MS),
            vec!["late_rack-leaf1", "late_rack-leaf3"],
        ),
        // One host of each rack is no rack.
        (
            vec![(2, 2 * MS), (6, MS)],
            vec!["late_host-host002", "late_host-host006"],
        ),
    ] {
        for seed in 1..4 {
            let folder = tempfile::tempdir().unwrap();
            let job = job(64, 16, &hosts, seed);
            let inputs = write(&job, folder.path(), &[]);
            let (found, _) = run_in(&inputs, &folder.path().join("out"), 2, &racks);
            let ids = late(&found);
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            assert_eq!(ids, expected, "{seed}: {:#?}", titles(&found));
        }
    }
}

#[test]
fn late_ranks_of_one_host_and_of_two_are_named() {
    for (first, second) in [(11, 42), (11, 13), (40, 4)] {
        for seed in 1..4 {
            let mut job = job(64, 16, &[], seed);
            job.late_ranks = vec![(first, first + 1, 2 * MS), (second, second + 1, MS)];
            let (found, _) = findings(&job);
            let expected = [first, second].map(|rank| format!("late_rank-{rank}"));
            assert_eq!(
                late(&found),
                expected.into(),
                "{first} {second} {seed}: {:#?}",
                titles(&found)
            );
        }
    }
}

#[test]
fn a_slow_device_beside_a_late_host_is_named() {
    for host_ns in [200_000, MS, 5 * MS] {
        for seed in 1..4 {
            let mut job = job(64, 16, &[(2, host_ns)], seed);
            job.slow_gpu = Some((41, 1300));
            let (found, by_kind) = findings(&job);
            let of = |kind: Kind| by_kind.get(&kind).map_or(&[][..], Vec::as_slice);
            assert_eq!(of(Kind::SlowDevice)[0].ranks, [41]);
            let expected = ["late_host-host002", "late_rank-41"].map(str::to_owned);
            assert_eq!(
                late(&found),
                expected.into(),
                "{host_ns} {seed}: {:#?}",
                titles(&found)
            );
        }
    }
}

#[test]
fn slow_devices_of_one_host_and_of_two_are_late() {
    for second in [13, 42] {
        for seed in 1..4 {
            let mut job = job(64, 16, &[], seed);
            job.slow_gpus = vec![(11, 1400), (second, 1200)];
            let (found, _) = findings(&job);
            let expected = ["late_rank-11".to_owned(), format!("late_rank-{second}")];
            assert_eq!(late(&found), expected.into(), "{:#?}", titles(&found));
        }
    }
}

#[test]
fn jitter_blames_nobody() {
    for ranks in [8, 16, 24, 32, 64] {
        for (start_ns, load) in [(20_000, 0), (200_000, 3), (1_000_000, 0), (0, 15)] {
            for seed in 1..5 {
                let job = synth::Fleet {
                    moving_start_ns: start_ns,
                    moving_load: load,
                    ..job(ranks, 20, &[], seed)
                };
                let (found, _) = findings(&job);
                assert!(
                    late(&found).is_empty(),
                    "{ranks} {start_ns} {load} {seed}: {:#?}",
                    titles(&found)
                );
            }
        }
    }
}

/// Summaries that drop collectives keep the time in them, so that waits there are nobody's own time.
#[test]
fn thinned_summaries_name_the_same() {
    let mut passed_on = job(32, 120, &[(3, 300_000)], 1);
    passed_on.slow_gpus = vec![(11, 1300)];
    let hosts = job(32, 120, &[(1, 2 * MS), (2, MS)], 1);
    for job in [passed_on, hosts] {
        let folder = tempfile::tempdir().unwrap();
        let inputs = write(&job, folder.path(), &[]);
        let out = folder.path().join("out");
        let (whole, _) = run(&inputs, &out, 2);
        let small = stored(&out).unwrap().summaries;
        let small = small.iter().map(|(file, path)| {
            let limit = usize::try_from(std::fs::metadata(path).unwrap().len()).unwrap() / 2;
            let bytes = summary::write_within(&read(file, path).unwrap(), limit).unwrap();
            Ok(summary::read(file, bytes).unwrap())
        });
        let found = reduce(small, Vec::new(), &Racks::default()).unwrap();
        assert!(found.scope.collectives < whole.scope.collectives);
        assert_eq!(
            late(&found),
            late(&whole),
            "{:#?} {:#?}",
            titles(&found),
            titles(&whole)
        );
        assert_eq!(late(&whole).len(), 2, "{:#?}", titles(&whole));
    }
}
