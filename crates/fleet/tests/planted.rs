//! Compares the answers with what is planted in generated jobs.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use byte_source::{OpenOptions, Source};
use fleet::store::{Recordings, Store, read, stored, summarise_all};
use fleet::{Finding, Kind, reduce, summary};
use perfetto_reader::{ArgPolicy, ReadOptions};
use serving_synth::fleet as synth;
use trace_dataset::Input;
use trace_model::Trace;

/// Reads recordings, and counts them.
struct Files<'f> {
    inputs: &'f [Input],
    read: AtomicUsize,
}

impl Recordings for Files<'_> {
    fn open(&self, place: usize) -> Result<(String, Trace), String> {
        self.read.fetch_add(1, Ordering::Relaxed);
        let name = &self.inputs[place].name;
        let mut options = ReadOptions::default();
        options.args = ArgPolicy::Only(summary::arg_keys());
        options.threads = 1;
        options.strict = false;
        let source = Source::open(Path::new(name), &OpenOptions::default());
        let source = source.map_err(|error| error.to_string())?;
        let trace = perfetto_reader::read(source, &options);
        Ok((name.clone(), trace.map_err(|error| error.to_string())?))
    }
}

/// Writes a job, without the ranks in `missing`.
fn write(job: &synth::Fleet, folder: &Path, missing: &[u32]) -> Vec<Input> {
    let line = job.timeline();
    let mut inputs = Vec::new();
    for rank in (0..job.ranks).filter(|rank| !missing.contains(rank)) {
        let path = folder.join(synth::Fleet::name(rank));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, line.rank(rank)).unwrap();
        inputs.push(input(&path));
    }
    inputs
}

fn input(path: &Path) -> Input {
    Input {
        name: path.display().to_string(),
        path: Some(path.to_owned()),
    }
}

/// Summarises and reduces; returns the number of recordings that were read as well.
fn run(inputs: &[Input], folder: &Path, threads: usize) -> (fleet::Fleet, usize) {
    let files = Files {
        inputs,
        read: AtomicUsize::new(0),
    };
    let store = Store {
        folder,
        tool_version: "0",
        threads,
    };
    summarise_all(inputs, &files, store).unwrap();
    let there = stored(folder).unwrap();
    for (_, path) in &there.summaries {
        let bytes = fs::metadata(path).unwrap().len();
        assert!(bytes <= summary::MAX_BYTES as u64, "{bytes} bytes");
    }
    let summaries = there.summaries.iter().map(|(file, path)| read(file, path));
    let found = reduce(summaries, there.failures).unwrap();
    (found, files.read.into_inner())
}

/// Runs a job and returns the findings by kind.
fn findings(job: &synth::Fleet) -> (fleet::Fleet, BTreeMap<Kind, Vec<Finding>>) {
    let folder = tempfile::tempdir().unwrap();
    let inputs = write(job, folder.path(), &[]);
    let (found, _) = run(&inputs, &folder.path().join("out"), 2);
    let by_kind = by_kind(&found);
    (found, by_kind)
}

fn by_kind(found: &fleet::Fleet) -> BTreeMap<Kind, Vec<Finding>> {
    let mut by_kind: BTreeMap<Kind, Vec<Finding>> = BTreeMap::new();
    for finding in &found.findings {
        by_kind
            .entry(finding.kind)
            .or_default()
            .push(finding.clone());
    }
    by_kind
}

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
        let rows = found.ranks.iter().take(9);
        let rows: Vec<(u32, i64, i64, i64, i64, usize)> = rows
            .map(|row| {
                (
                    row.rank,
                    row.waited_ns,
                    row.inflicted_ns,
                    row.inflicted_at_least_ns,
                    row.avoidable_ns,
                    row.times_last,
                )
            })
            .collect();
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
    let found = reduce(small, Vec::new()).unwrap();
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
