//! What recordings state about themselves, and what follows for their comparison.

use std::fs;
use std::path::Path;

use perf_compare::document::Status;
use perf_compare::{LoadOptions, Options, Side, compare, load};

use crate::simulate::World;

/// A recording of one process with its statement beside it.
fn side(folder: &Path, world: &World, seed: u64, stated: &str) -> Side {
    fs::create_dir_all(folder).unwrap();
    let (perf, _) = world.files(seed);
    fs::write(folder.join("job_decode_perf_data.csv"), perf).unwrap();
    fs::write(folder.join("job_recording.toml"), stated).unwrap();
    load(folder, &LoadOptions::default()).unwrap()
}

fn options() -> Options {
    let mut options = Options::default();
    options.permutations = 999;
    options.resamples = 299;
    options
}

const ALIKE: &str = "gpus = [\"NVIDIA H100\"]\nengine = \"sglang\"\n[capture]\nwith_stack = true\n";

#[test]
fn other_hardware_and_engines_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let world = World {
        cycles: 20,
        ..World::default()
    };
    let of = |part: &str, seed, stated: &str| side(&folder.path().join(part), &world, seed, stated);
    let normal = of("a", 1, ALIKE);
    for (what, other) in [("MI300X", "AMD MI300X"), ("A100", "NVIDIA A100")] {
        let other = of(what, 2, &ALIKE.replace("NVIDIA H100", other));
        let report = compare(&normal, &other, &options());
        assert_eq!(report.comparability.status, Status::NotComparable);
        assert!(report.headline.contains(what), "{}", report.headline);
    }
    let other = of("engine", 2, &ALIKE.replace("sglang", "vllm-v1"));
    let report = compare(&normal, &other, &options());
    assert_eq!(report.comparability.status, Status::NotComparable);
    assert!(report.headline.contains("vllm-v1"), "{}", report.headline);
    // What one side does not state is no reason, nor is a device without a name.
    let unnamed = ALIKE.replace("NVIDIA H100", "");
    for (part, stated) in [("silent", ""), ("unnamed", unnamed.as_str())] {
        let report = compare(&normal, &of(part, 2, stated), &options());
        assert_eq!(report.comparability.status, Status::Comparable, "{part}");
    }
}

#[test]
fn a_profiler_that_does_more_on_one_side_is_said_first_and_leaves_causes_open() {
    let folder = tempfile::tempdir().unwrap();
    let healthy = World {
        cycles: 30,
        ..World::default()
    };
    let mut slower = healthy.clone();
    slower.host_us *= 1.3;
    slower.python_us *= 3.0;
    let normal = side(
        &folder.path().join("a"),
        &healthy,
        1,
        &ALIKE.replace("true", "false"),
    );
    for (part, world) in [("same", &healthy), ("slower", &slower)] {
        let traced = side(&folder.path().join(part), world, 2, ALIKE);
        let report = compare(&normal, &traced, &options());
        assert_eq!(report.comparability.status, Status::ComparableWithWarnings);
        let first = report.headline.split('.').next().unwrap();
        assert!(
            first.starts_with("Only the candidate was recorded with with_stack"),
            "{}",
            report.headline
        );
        let certainty = if part == "same" { "open" } else { "possible" };
        assert_eq!(report.verdict.certainty, certainty, "{}", report.headline);
        assert_eq!(report.verdict.doubt.is_some(), part == "slower");
    }
}

/// Files of ranks of a job of four.
fn of_ranks(folder: &Path, ranks: &[usize], world: &World, seed: u64) -> Side {
    fs::create_dir_all(folder).unwrap();
    for rank in ranks {
        let (perf, _) = world.files(seed + *rank as u64);
        fs::write(folder.join(format!("rank{rank}_perf_data.csv")), perf).unwrap();
        fs::write(
            folder.join(format!("rank{rank}_recording.toml")),
            format!("rank = {rank}\nworld_size = 4\n"),
        )
        .unwrap();
    }
    load(folder, &LoadOptions::default()).unwrap()
}

#[test]
fn ranks_without_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let world = World {
        cycles: 12,
        ..World::default()
    };
    let all = of_ranks(&folder.path().join("a"), &[0, 1, 2, 3], &world, 10);
    for (part, ranks, said) in [
        (
            "b",
            &[0, 1][..],
            "the files of ranks 2, 3 are missing in the candidate",
        ),
        (
            "c",
            &[0, 2, 3],
            "the file of rank 1 is missing in the candidate",
        ),
    ] {
        let some = of_ranks(&folder.path().join(part), ranks, &world, 20);
        let report = compare(&all, &some, &options());
        assert_eq!(report.comparability.status, Status::NotComparable);
        assert!(report.headline.contains(said), "{}", report.headline);
        assert!(report.headline.contains("a job of 4 ranks"));
        let back = compare(&some, &all, &options());
        let said = said.replace("candidate", "baseline");
        assert!(back.headline.contains(&said), "{}", back.headline);
    }
    // Both sides lack the same files: what is there is compared.
    let one = of_ranks(&folder.path().join("d"), &[0, 1], &world, 30);
    let two = of_ranks(&folder.path().join("e"), &[0, 1], &world, 40);
    let report = compare(&one, &two, &options());
    assert_ne!(report.comparability.status, Status::NotComparable);
}

#[test]
fn a_rank_is_what_the_recording_states() {
    let folder = tempfile::tempdir().unwrap();
    let (perf, _) = World {
        cycles: 12,
        ..World::default()
    }
    .files(1);
    for (name, stated) in [("rank0", 1), ("rank1", 0)] {
        let of = |end: &str| folder.path().join(format!("{name}{end}"));
        fs::write(of("_perf_data.csv"), &perf).unwrap();
        fs::write(
            of("_recording.toml"),
            format!("rank = {stated}\nworld_size = 2\n"),
        )
        .unwrap();
    }
    let side = load(folder.path(), &LoadOptions::default()).unwrap();
    let report = compare(&side, &side, &options());
    let stated: Vec<_> = report
        .roles
        .iter()
        .map(|role| role.ranks[0].as_deref())
        .collect();
    assert_eq!(stated, [Some("rank 0"), Some("rank 1")]);
    let notes = report
        .notes
        .iter()
        .filter(|note| note.contains("which counts"));
    assert!(notes.count() >= 2, "{:#?}", report.notes);
}
