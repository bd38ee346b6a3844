//! Compares the answers with what is planted in generated jobs.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod written_jobs;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;

use fleet::store::{Store, read, stored, summarise_all};
use fleet::{Kind, Racks, reduce, summary};
use serving_synth::fleet as synth;
use trace_dataset::Input;
use written_jobs::{Files, by_kind, findings, input, run, run_in, titles, write};

#[test]
fn nothing_stands_out_of_alike_ranks() {
    for seed in 1..4 {
        let job = synth::Fleet {
            seed,
            ..synth::Fleet::default()
        };
        let (found, _) = findings(&job);
        let titles: Vec<&str> = found.findings.iter().map(|f| f.title.as_str()).collect();
        assert!(titles.is_empty(), "{titles:#?}");
        assert!(
            found.answer.starts_with("No rank, host or link stands out"),
            "{}",
            found.answer
        );
        assert_eq!((found.scope.ranks, found.scope.world_size), (64, Some(64)));
        assert_eq!(found.scope.hosts, 8);
    }
}

#[test]
fn a_slow_device_is_the_late_rank() {
    let job = synth::Fleet {
        steps: 40,
        slow_gpu: Some((17, 1250)),
        ..synth::Fleet::default()
    };
    let (found, by_kind) = findings(&job);
    let late = &by_kind[&Kind::LateRank];
    assert_eq!(late.len(), 1, "{late:#?}");
    assert_eq!(late[0].ranks, [17]);
    let slow = &by_kind[&Kind::SlowDevice];
    assert_eq!((slow.len(), &slow[0].ranks[..]), (1, &[17][..]));
    assert_eq!(found.ranks[0].rank, 17);
    let ratio = found.ranks[0].kernel_time_ratio.unwrap();
    assert!((ratio - 1.25).abs() < 0.03, "{ratio}");
    assert!(found.answer.starts_with("Rank 17"), "{}", found.answer);
    assert!(!by_kind.contains_key(&Kind::SlowLink), "{by_kind:#?}");
    // The window lies in the recording, and the command has it.
    let window = late[0].window.as_ref().unwrap();
    assert!(
        window.file.ends_with("host002/rank17.json"),
        "{}",
        window.file
    );
    let text = format!("--window {}..{}", window.begin_ns, window.end_ns);
    assert!(late[0].command.as_ref().unwrap().contains(&text));
    // The others of its host are not late themselves, and the host is no factor.
    assert!(!by_kind.contains_key(&Kind::LateHost), "{by_kind:#?}");
}

#[test]
fn a_slow_link_is_a_group() {
    let job = synth::Fleet {
        slow_link: Some((5, 3000)),
        ..synth::Fleet::default()
    };
    let (found, by_kind) = findings(&job);
    let slow = &by_kind[&Kind::SlowLink];
    assert_eq!(slow.len(), 1, "{slow:#?}");
    assert_eq!(slow[0].group.as_deref(), Some("tp:5"));
    assert_eq!(slow[0].ranks, [40, 41, 42, 43, 44, 45, 46, 47]);
    let row = found.links.iter().find(|row| row.is_slow).unwrap();
    assert!((row.ratio - 3.0).abs() < 0.05, "{row:?}");
    assert!(!by_kind.contains_key(&Kind::SlowDevice));
}

#[test]
fn another_kernel_and_a_late_clock_are_named() {
    let job = synth::Fleet {
        other_kernel: Some(30),
        clock: Some((3, -52_000_000)),
        ..synth::Fleet::default()
    };
    let (found, by_kind) = findings(&job);
    let other = &by_kind[&Kind::OtherKernels];
    assert_eq!((other.len(), &other[0].ranks[..]), (1, &[30][..]));
    assert_eq!(other[0].kernel.as_deref(), Some(synth::OTHER_KERNEL));
    let clock = &by_kind[&Kind::HostClock];
    assert_eq!(clock.len(), 1, "{clock:#?}");
    assert_eq!(clock[0].host.as_deref(), Some("host003"));
    assert_eq!(clock[0].ranks, [24, 25, 26, 27, 28, 29, 30, 31]);
    for row in &found.ranks {
        let planted = if row.rank / 8 == 3 { -52_000_000 } else { 0 };
        let (ahead, error) = row.clock_ahead_ns.zip(row.clock_error_ns).unwrap();
        assert!((ahead - planted).abs() <= error.max(2_000), "{row:?}");
    }
    assert_eq!(by_kind.len(), 2, "{by_kind:#?}");
}

#[test]
fn corrupt_missing_and_cut_recordings_leave_the_answer_of_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let job = synth::Fleet {
        slow_gpu: Some((17, 1250)),
        cut: Some((33, 5)),
        ..synth::Fleet::default()
    };
    let inputs = write(&job, folder.path(), &[61]);
    let corrupt = folder.path().join(synth::Fleet::name(50));
    fs::write(&corrupt, b"\x1f\x8b\x08\0 this is no gzip").unwrap();
    let (found, _) = run(&inputs, &folder.path().join("out"), 2);
    let by_kind = by_kind(&found);
    assert_eq!(found.scope.ranks, 62);
    assert_eq!(found.scope.missing, [61]);
    assert_eq!(by_kind[&Kind::MissingRank][0].ranks, [61]);
    assert_eq!(by_kind[&Kind::Unreadable][0].ranks, [50]);
    assert_eq!(by_kind[&Kind::Truncated][0].ranks, [33]);
    assert!(!by_kind.contains_key(&Kind::OtherCounts), "{by_kind:#?}");
    assert_eq!(found.failures.len(), 1);
    let late: Vec<&[u32]> = by_kind[&Kind::LateRank]
        .iter()
        .map(|f| &f.ranks[..])
        .collect();
    assert_eq!(late, [&[17][..]]);
    assert!(
        found
            .answer
            .contains("1 recording cannot be read, rank 61 is missing"),
        "{}",
        found.answer
    );
}

/// Delays go on from the group of the host to those over all hosts. Ranks that only pass them on are not blamed, with all ranks or without one.
#[test]
fn delays_that_are_passed_on_blame_their_origin() {
    for missing in [&[][..], &[20], &[12]] {
        let folder = tempfile::tempdir().unwrap();
        let job = synth::Fleet {
            ranks: 32,
            steps: 100,
            layers: 2,
            slow_gpu: Some((11, 1250)),
            ..synth::Fleet::default()
        };
        let inputs = write(&job, folder.path(), missing);
        let (found, _) = run(&inputs, &folder.path().join("out"), 2);
        let late = found.findings.iter();
        let late = late.filter(|f| matches!(f.kind, Kind::LateRank | Kind::LateHost));
        let late: Vec<&[u32]> = late.map(|f| &f.ranks[..]).collect();
        let rows: Vec<_> = found.ranks.iter().take(9).collect();
        assert_eq!(late, [&[11][..]], "without {missing:?}: {rows:#?}");
    }
}

#[test]
fn threads_and_repetition_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let job = synth::Fleet {
        ranks: 16,
        slow_gpu: Some((3, 1250)),
        ..synth::Fleet::default()
    };
    let inputs = write(&job, folder.path(), &[]);
    let outs: Vec<PathBuf> = (0..3)
        .map(|n| folder.path().join(format!("out{n}")))
        .collect();
    let (one, reads) = run(&inputs, &outs[0], 1);
    assert_eq!(reads, 16);
    let (four, _) = run(&inputs, &outs[1], 4);
    let text = |found: &fleet::Fleet| serde_json::to_string(found).unwrap();
    assert_eq!(text(&one), text(&four));
    let bytes = |out: &Path| -> Vec<Vec<u8>> {
        let files = stored(out).unwrap().summaries;
        files
            .iter()
            .map(|(_, path)| fs::read(path).unwrap())
            .collect()
    };
    assert_eq!(bytes(&outs[0]), bytes(&outs[1]));
    // Nothing is read again, and in parts it is the same.
    let (again, reads) = run(&inputs, &outs[0], 2);
    assert_eq!((text(&again), reads), (text(&one), 0));
    let (_, reads) = run(&inputs[..5], &outs[2], 2);
    assert_eq!(reads, 5);
    let (rest, reads) = run(&inputs, &outs[2], 2);
    assert_eq!((text(&rest), reads), (text(&one), 11));
    // A changed recording is read again.
    let path = inputs[2].path.as_ref().unwrap();
    let longer = fs::read_to_string(path).unwrap() + "\n";
    fs::write(path, longer).unwrap();
    assert_eq!(run(&inputs, &outs[0], 2).1, 1);
    // What another program left in the folder is refused.
    let foreign = folder.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("notes.txt"), "x").unwrap();
    assert!(stored(&foreign).is_err());
}

#[test]
fn budgets_add_up_and_equal_those_of_the_critical_path() {
    let job = synth::Fleet {
        ranks: 8,
        ..synth::Fleet::default()
    };
    let (found, _) = findings(&job);
    assert_eq!(found.budgets.len(), 8);
    for row in &found.budgets {
        assert_eq!((row.phase.as_str(), row.steps), ("decode", 12));
        assert_eq!(row.groups.values().sum::<i64>(), row.time_ns);
        let steps = found.steps.iter().filter(|step| step.rank == row.rank);
        assert_eq!(steps.map(|step| step.duration_ns).sum::<i64>(), row.time_ns);
    }
    for step in &found.steps {
        assert_eq!(step.groups.iter().sum::<i64>(), step.duration_ns);
    }
    // A layer has six kernels and an all-reduce, and a step one more all-reduce.
    let runs: u64 = found.kernels.iter().map(|row| row.count).sum();
    assert_eq!(runs, 8 * 12 * (4 * 7 + 1));
    let classes: u64 = found.classes.iter().map(|row| row.count).sum();
    assert_eq!(classes, runs);
}

#[test]
fn long_recordings_are_thinned_to_the_same_answer() {
    let folder = tempfile::tempdir().unwrap();
    let job = synth::Fleet {
        ranks: 8,
        steps: 150,
        layers: 2,
        slow_gpu: Some((5, 1250)),
        ..synth::Fleet::default()
    };
    let inputs = write(&job, folder.path(), &[]);
    let out = folder.path().join("out");
    let (whole, _) = run(&inputs, &out, 2);
    assert!(whole.notes.is_empty(), "{:?}", whole.notes);
    let small = stored(&out).unwrap().summaries;
    let small = small.iter().map(|(file, path)| {
        let limit = usize::try_from(fs::metadata(path).unwrap().len()).unwrap() * 6 / 10;
        let bytes = summary::write_within(&read(file, path).unwrap(), limit).unwrap();
        assert!(bytes.len() <= limit, "{} bytes", bytes.len());
        Ok(summary::read(file, bytes).unwrap())
    });
    let found = reduce(small, Vec::new(), &Racks::default()).unwrap();
    assert!(
        found.notes.iter().any(|note| note.contains("keep only")),
        "{:?}",
        found.notes
    );
    assert!(found.scope.collectives < whole.scope.collectives);
    let late = |found: &fleet::Fleet| {
        let late = found.findings.iter().filter(|f| f.kind == Kind::LateRank);
        late.map(|f| f.ranks.clone()).collect::<Vec<_>>()
    };
    assert_eq!(late(&found), [vec![5]]);
    assert_eq!(late(&found), late(&whole));
    // Budgets are over all steps.
    assert_eq!(found.budgets, whole.budgets);
}

#[test]
fn the_page_is_one_file_of_bounded_size() {
    let job = synth::Fleet {
        ranks: 16,
        slow_gpu: Some((3, 1250)),
        ..synth::Fleet::default()
    };
    let (mut found, _) = findings(&job);
    let page = fleet::html(&found).unwrap();
    assert!(page.contains("Lateness by rank and step") && page.contains("trace-info slim"));
    assert!(!page.contains("<script") && !page.contains("http-equiv=\"refresh\""));
    // Thousands of ranks with a value in each cell.
    let cells = found.steps.clone();
    found.steps.clear();
    for rank in 0..3000 {
        for step in 0..400_i64 {
            let mut cell = cells[0].clone();
            (cell.rank, cell.step) = (rank, step + 1);
            cell.late_ns = 1 + i64::from(rank) * 7919 % 1009 * (step * 104_729 % 1013);
            found.steps.push(cell);
        }
    }
    let page = fleet::html(&found).unwrap();
    assert!(page.len() <= 2_000_000, "{} bytes", page.len());
    assert!(page.contains("shows the largest value"));
}

/// Returns the time that others wait for each rank: in each collective, for the one that starts last. Read from the files, whose clocks agree.
fn waits(inputs: &[Input]) -> BTreeMap<u32, i64> {
    let mut starts: BTreeMap<(String, i64), Vec<(i64, u32)>> = BTreeMap::new();
    for input in inputs {
        let text = fs::read_to_string(input.path.as_ref().unwrap()).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rank = document["distributedInfo"]["rank"].as_u64().unwrap();
        let rank = u32::try_from(rank).unwrap();
        for event in document["traceEvents"].as_array().unwrap() {
            let args = &event["args"];
            if let (Some(group), Some(seq)) =
                (args["Process Group Name"].as_str(), args["Seq"].as_i64())
            {
                let ns = (event["ts"].as_f64().unwrap() * 1000.0).round();
                let key = (group.to_owned(), seq);
                starts.entry(key).or_default().push((whole(ns), rank));
            }
        }
    }
    let mut out: BTreeMap<u32, i64> = BTreeMap::new();
    for arrivals in starts.values() {
        let (last, rank) = arrivals.iter().max().unwrap();
        *out.entry(*rank).or_default() += arrivals.iter().map(|(ns, _)| last - ns).sum::<i64>();
    }
    out
}

/// Returns a time in whole nanoseconds.
#[expect(
    clippy::cast_possible_truncation,
    reason = "times of these files are far below 2^53"
)]
fn whole(ns: f64) -> i64 {
    ns as i64
}

/// Replicas without a common group: the waits of each are known, and nothing stands out of healthy ones.
#[test]
fn replicas_apart_are_analysed_each_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = synth::Fleet {
        ranks: 32,
        steps: 25,
        is_apart: true,
        ..synth::Fleet::default()
    };
    let (healthy, _) = findings(&job);
    assert!(healthy.findings.is_empty(), "{:#?}", titles(&healthy));
    job.slow_gpu = Some((19, 1200));
    let inputs = write(&job, folder.path(), &[]);
    let (found, _) = run(&inputs, &folder.path().join("out"), 2);
    let kinds = by_kind(&found);
    assert_eq!(kinds[&Kind::LateRank][0].ranks, [19]);
    assert_eq!(kinds[&Kind::SlowDevice][0].ranks, [19]);
    assert_eq!(found.findings.len(), 2, "{:#?}", titles(&found));
    let parts: std::collections::BTreeSet<_> = found.ranks.iter().map(|row| row.part).collect();
    assert_eq!(parts.len(), 4);
    let truth = waits(&inputs);
    for row in &found.ranks {
        assert_eq!(row.collectives, 100, "{row:?}");
        let (own, truth) = (row.inflicted_ns.unwrap(), truth.get(&row.rank).copied());
        let off = (own - truth.unwrap_or(0)).abs();
        // Ends scatter by 0.3 µs, and so do clocks that follow from them.
        assert!(off <= own / 50 + 100_000, "{row:?}: {truth:?}");
    }
    let late = found.ranks.iter().find(|row| row.rank == 19).unwrap();
    let off = (late.inflicted_ns.unwrap() - truth[&19]).abs();
    assert!(off * 50 <= truth[&19], "{late:?}: {}", truth[&19]);
}

/// A replica that ran fewer steps is whole, and one without partners has no waits instead of waits of zero.
#[test]
fn replicas_of_other_lengths_are_not_cut() {
    let folder = tempfile::tempdir().unwrap();
    let job = |steps: u32| synth::Fleet {
        ranks: 32,
        steps,
        is_apart: true,
        ..synth::Fleet::default()
    };
    let (long, short) = (job(24), job(12));
    let mut inputs = write(&long, folder.path(), &(16..32).collect::<Vec<_>>());
    let missing: Vec<u32> = (0..16).chain(25..32).collect();
    inputs.extend(write(&short, folder.path(), &missing));
    let (found, _) = run(&inputs, &folder.path().join("out"), 2);
    let by_kind = by_kind(&found);
    assert!(!by_kind.contains_key(&Kind::Truncated), "{by_kind:#?}");
    let alone = found.ranks.iter().find(|row| row.rank == 24).unwrap();
    assert_eq!((alone.part, alone.collectives), (None, 0));
    assert_eq!((alone.inflicted_ns, alone.waited_ns), (None, None));
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.contains("1 rank shares no"))
    );
}

/// Collectives of CUDA graphs state no group. The head of the file lists three: all ranks, the host, the place.
#[test]
fn collectives_in_graphs_are_those_of_their_group() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = synth::Fleet {
        ranks: 32,
        steps: 20,
        moving_load: 4,
        graphs: true,
        ..synth::Fleet::default()
    };
    let (healthy, _) = findings(&job);
    let late = healthy.findings.iter().filter(|f| f.kind == Kind::LateRank);
    assert_eq!(late.count(), 0, "{:#?}", titles(&healthy));
    for row in &healthy.ranks {
        let (ahead, error) = row.clock_ahead_ns.zip(row.clock_error_ns).unwrap();
        assert!(ahead.abs() <= error.max(1_000), "{row:?}");
        assert_eq!(row.collectives, 20 * 5);
        assert_eq!(row.inflicted_at_least_ns, Some(0));
    }
    assert!(healthy.notes.is_empty(), "{:?}", healthy.notes);
    job.slow_gpu = Some((21, 1300));
    let (found, by_kind) = findings(&job);
    assert_eq!(
        by_kind[&Kind::LateRank][0].ranks,
        [21],
        "{:#?}",
        titles(&found)
    );
    // Where a rank of the host recorded fewer of them, nothing tells the group of these.
    job.cut = Some((3, 11));
    let inputs = write(&job, folder.path(), &[]);
    let (found, _) = run(&inputs, &folder.path().join("out"), 2);
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.contains("state no group")),
        "{:?}",
        found.notes
    );
    let late: Vec<&[u32]> = found
        .findings
        .iter()
        .filter(|f| f.kind == Kind::LateRank)
        .map(|f| &f.ranks[..])
        .collect();
    assert_eq!(late, [&[21][..]]);
}

#[test]
fn a_clock_that_is_off_is_named_among_two_and_four_hosts() {
    for (ranks, host, ns) in [(16, 1, 600_000), (32, 2, -900_000_000), (32, 0, 5_000_000)] {
        let job = synth::Fleet {
            ranks,
            clock: Some((host, ns)),
            ..synth::Fleet::default()
        };
        let (found, by_kind) = findings(&job);
        let clocks = by_kind.get(&Kind::HostClock).map_or(&[][..], Vec::as_slice);
        assert_eq!(clocks.len(), 1, "{host} {ns}: {:#?}", titles(&found));
        let name = format!("host{host:03}");
        assert_eq!(clocks[0].host.as_deref(), Some(name.as_str()));
        let side = if ns > 0 { "ahead of" } else { "behind" };
        assert!(clocks[0].title.contains(side), "{}", clocks[0].title);
        assert_eq!(found.findings.len(), 1, "{:#?}", titles(&found));
    }
    // The clocks of NTP differ by less than a step tolerates.
    let job = synth::Fleet {
        ranks: 16,
        clock: Some((1, 40_000)),
        ..synth::Fleet::default()
    };
    let (found, _) = findings(&job);
    assert!(found.findings.is_empty(), "{:#?}", titles(&found));
}

#[test]
fn a_slow_link_stands_out_of_one_or_three_other_groups() {
    for (ranks, permille) in [(16, 1500_i32), (32, 3000)] {
        let job = synth::Fleet {
            ranks,
            slow_link: Some((1, permille.into())),
            ..synth::Fleet::default()
        };
        let (found, by_kind) = findings(&job);
        let slow = &by_kind[&Kind::SlowLink];
        assert_eq!(slow.len(), 1, "{:#?}", titles(&found));
        assert_eq!(slow[0].group.as_deref(), Some("tp:1"));
        // Its ranks arrive late at the groups over the hosts, for which they are not to blame.
        assert_eq!(found.findings.len(), 1, "{:#?}", titles(&found));
        let row = found.links.iter().find(|row| row.is_slow).unwrap();
        let ratio = f64::from(permille) / 1000.0;
        assert!((row.ratio / ratio - 1.0).abs() < 0.03, "{row:?}");
    }
}

#[test]
fn a_late_host_is_one_finding_where_its_ranks_are_a_group() {
    for (ranks, ns) in [(32, 1_000_000), (32, 200_000), (64, 1_000_000)] {
        let job = synth::Fleet {
            ranks,
            late_hosts: Some((2, 3, ns)),
            ..synth::Fleet::default()
        };
        let (found, by_kind) = findings(&job);
        let hosts = by_kind.get(&Kind::LateHost).map_or(&[][..], Vec::as_slice);
        assert_eq!(
            hosts.len(),
            1,
            "{ns}: {:#?} {:#?}",
            titles(&found),
            found.factors
        );
        assert_eq!(hosts[0].host.as_deref(), Some("host002"));
        assert_eq!(found.findings.len(), 1, "{:#?}", titles(&found));
    }
}

#[test]
fn late_hosts_of_a_rack_are_that_rack() {
    let racks = "SwitchName=leaf0 Nodes=host[000-001]\nSwitchName=leaf1 Nodes=host[002-003]\n\
                 SwitchName=leaf2 Nodes=host[004-005]\nSwitchName=leaf3 Nodes=host[006-007]";
    let racks = Racks::parse(racks).unwrap();
    for (end, kind, ids) in [
        (4, Kind::LateRack, ["late_rack-leaf1"]),
        (3, Kind::LateHost, ["late_host-host002"]),
    ] {
        let job = synth::Fleet {
            late_hosts: Some((2, end, 1_000_000)),
            ..synth::Fleet::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let inputs = write(&job, folder.path(), &[]);
        let (found, _) = run_in(&inputs, &folder.path().join("out"), 2, &racks);
        let all: Vec<&str> = found.findings.iter().map(|f| f.id.as_str()).collect();
        assert_eq!(all, ids, "{:#?} {:#?}", titles(&found), found.factors);
        let first = &found.findings[0];
        let expected = (kind == Kind::LateRack).then_some("leaf1");
        assert_eq!((first.kind, first.rack.as_deref()), (kind, expected));
        let of_rank = |rank: u32| found.ranks.iter().find(|row| row.rank == rank);
        assert_eq!(of_rank(63).unwrap().rack.as_deref(), Some("leaf3"));
        // Without the list there are hosts only.
        let (found, _) = run(&inputs, &folder.path().join("out"), 2);
        let kinds: Vec<Kind> = found.findings.iter().map(|f| f.kind).collect();
        assert!(kinds.contains(&Kind::LateHost), "{:#?}", titles(&found));
        assert!(!kinds.contains(&Kind::LateRack), "{:#?}", titles(&found));
        assert!(found.ranks.iter().all(|row| row.rack.is_none()));
    }
}

#[test]
fn load_that_moves_from_step_to_step_blames_no_rank() {
    for seed in 1..5 {
        let job = synth::Fleet {
            ranks: 16,
            moving_load: 15,
            seed,
            ..synth::Fleet::default()
        };
        let (found, by_kind) = findings(&job);
        assert!(
            !by_kind.contains_key(&Kind::LateRank),
            "{:#?}",
            titles(&found)
        );
        assert!(
            !by_kind.contains_key(&Kind::LateHost),
            "{:#?}",
            titles(&found)
        );
    }
}

#[test]
fn a_fault_of_some_steps_has_their_range() {
    let job = synth::Fleet {
        ranks: 16,
        steps: 30,
        slow_gpu: Some((14, 1500)),
        slow_steps: Some((20, 26)),
        ..synth::Fleet::default()
    };
    let (found, by_kind) = findings(&job);
    let late = &by_kind[&Kind::LateRank][0];
    assert_eq!(late.ranks, [14]);
    let steps: Vec<_> = found.steps.iter().filter(|step| step.rank == 14).collect();
    let range = format!("in steps {} to {} of 30", steps[20].step, steps[25].step);
    assert!(late.title.contains(&range), "{}", late.title);
    let pace = late.title.split("it spends ").nth(1).unwrap();
    let pace: f64 = pace.split(' ').next().unwrap().parse().unwrap();
    // Gaps between kernels take as long as ever.
    assert!((1.4..=1.52).contains(&pace), "{}", late.title);
    let window = late.window.as_ref().unwrap();
    assert_eq!(window.begin_ns, steps[20].begin_ns);
    assert_eq!(window.end_ns, steps[25].begin_ns + steps[25].duration_ns);
}

#[test]
fn several_recordings_of_a_rank_leave_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let job = synth::Fleet {
        ranks: 16,
        slow_gpu: Some((3, 1250)),
        ..synth::Fleet::default()
    };
    let mut inputs = write(&job, folder.path(), &[]);
    let copy = folder.path().join("host000/rank2 (copy).json");
    fs::copy(folder.path().join(synth::Fleet::name(2)), &copy).unwrap();
    inputs.insert(0, input(&copy));
    let (found, _) = run(&inputs, &folder.path().join("out"), 2);
    assert_eq!((found.scope.ranks, found.scope.files), (16, 17));
    let kinds = by_kind(&found);
    let duplicate = &kinds[&Kind::Duplicate][0];
    assert_eq!(
        serde_json::to_value(duplicate.kind).unwrap(),
        duplicate.kind.name()
    );
    assert!(
        duplicate.title.contains("rank2.json and"),
        "{}",
        duplicate.title
    );
    assert!(
        duplicate.title.contains("rank2 (copy).json"),
        "{}",
        duplicate.title
    );
    assert_eq!(kinds[&Kind::LateRank][0].ranks, [3]);
    let row = found.ranks.iter().find(|row| row.rank == 2).unwrap();
    assert!(row.file.ends_with("/rank2.json"), "{}", row.file);
    // Recordings that differ are both left out, and the rank is not called missing.
    let other = synth::Fleet {
        seed: 9,
        ..job.clone()
    };
    fs::write(&copy, other.timeline().rank(2)).unwrap();
    let (found, _) = run(&inputs, &folder.path().join("out"), 2);
    assert_eq!(found.scope.ranks, 15);
    assert!(found.scope.missing.is_empty());
    let kinds = by_kind(&found);
    assert!(kinds[&Kind::Duplicate][0].title.contains("that differ"));
    assert_eq!(kinds[&Kind::SlowDevice][0].ranks, [3]);
    // Two sessions are no job.
    let mut all = inputs.clone();
    for rank in 0..16 {
        let path = folder.path().join(format!("second/rank{rank}.json"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, other.timeline().rank(rank)).unwrap();
        all.push(input(&path));
    }
    let files = Files {
        inputs: &all,
        read: AtomicUsize::new(0),
    };
    let out = folder.path().join("both");
    let store = Store {
        folder: &out,
        tool_version: "0",
        rules: None,
        threads: 2,
    };
    summarise_all(&all, &files, store).unwrap();
    let there = stored(&out).unwrap();
    let summaries = there.summaries.iter().map(|(file, path)| read(file, path));
    assert!(reduce(summaries, there.failures, &Racks::default()).is_err());
}
