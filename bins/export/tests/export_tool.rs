//! Tests the tool: what it writes, repetition, exit codes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/demo")
        .join(name)
}

fn run(paths: &[&Path], out: &Path, more: &[&str]) -> u8 {
    let mut words: Vec<OsString> = vec!["export".into(), "-q".into(), "-o".into(), out.into()];
    words.extend(paths.iter().map(OsString::from));
    words.extend(more.iter().map(OsString::from));
    export::main_from(words)
}

#[test]
fn recordings_become_a_data_set() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("data");
    let (first, second) = (demo("demo-rank0.json.gz"), demo("demo-rank1.json.gz"));
    assert_eq!(run(&[&first], &out, &["--tables", "kernels"]), 0);
    assert!(
        out.join("table=kernels/run=demo/rank=0/part-000000.parquet")
            .is_file()
    );
    assert!(
        out.join("table=files/run=demo/rank=0/part-000000.parquet")
            .is_file()
    );
    assert!(!out.join("table=slices").exists());
    // More tables, and a second recording.
    assert_eq!(
        run(&[&first, &second], &out, &["--tables", "kernels,threads"]),
        0
    );
    assert!(
        out.join("table=threads/run=demo/rank=0/part-000000.parquet")
            .is_file()
    );
    assert!(
        out.join("table=threads/run=demo/rank=1/part-000001.parquet")
            .is_file()
    );
    let manifest: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["inputs"].as_array().unwrap().len(), 2);
    let hash = manifest["inputs"][1]["done"]["hash"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
}

#[test]
fn findings_are_written_when_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("data");
    let (first, second) = (demo("demo-rank0.json.gz"), demo("demo-rank1.json.gz"));
    let part = out.join("table=findings/part-000000.parquet");
    assert_eq!(run(&[&first, &second], &out, &[]), 0);
    assert!(out.join("table=kernels").is_dir() && !part.exists());
    // All others are there already.
    let wish = ["--tables", "all,findings"];
    assert_eq!(run(&[&first, &second], &out, &wish), 0);
    let of_two = fs::read(&part).unwrap();
    assert_eq!(&of_two[..4], b"PAR1");
    // Those of another call replace them; repeated, they are the same.
    assert_eq!(run(&[&first], &out, &["--tables", "findings"]), 0);
    assert_ne!(fs::read(&part).unwrap(), of_two);
    assert_eq!(run(&[&first, &second], &out, &wish), 0);
    assert_eq!(fs::read(&part).unwrap(), of_two);
    assert_eq!(run(&[&first], &out, &["--tables", "accesses"]), 2);
}

#[test]
fn exit_codes_tell_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("data");
    let rank = demo("demo-rank0.json.gz");
    let missing = folder.path().join("missing.json");
    assert_eq!(run(&[&rank, &missing], &out, &["--tables", "kernels"]), 3);
    assert!(
        out.join("table=kernels/run=demo/rank=0/part-000000.parquet")
            .is_file()
    );
    assert_eq!(run(&[&rank], &out, &["--tables", "no_such_table"]), 2);
    // A folder with other files.
    assert_eq!(run(&[&rank], &demo(""), &["--tables", "kernels"]), 5);
}

#[test]
fn files_with_other_classes_are_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("data");
    let (first, second) = (demo("demo-rank0.json.gz"), demo("demo-rank1.json.gz"));
    let part = out.join("table=kernels/run=demo/rank=0/part-000000.parquet");
    let read = || {
        (
            fs::read(&part).unwrap(),
            fs::metadata(&part).unwrap().modified().unwrap(),
        )
    };
    let rules = folder.path().join("own.rules");
    fs::write(&rules, "kernel norm nvjet_*\n").unwrap();
    let own = ["--tables", "kernels", "--classes", rules.to_str().unwrap()];
    let plain = ["--tables", "kernels"];
    assert_eq!(run(&[&first], &out, &plain), 0);
    let built_in = read();
    assert_eq!(run(&[&first], &out, &own), 0);
    let with_rules = read();
    assert_ne!(with_rules.0, built_in.0);
    // The same rows are the same rules.
    fs::write(&rules, "# ours\nkernel   norm  nvjet_*\n").unwrap();
    assert_eq!(run(&[&first], &out, &own), 0);
    assert_eq!(read(), with_rules);
    // One folder has one set of rules.
    assert_eq!(run(&[&second], &out, &plain), 5);
    assert_eq!(read(), with_rules);
    assert!(!out.join("table=kernels/run=demo/rank=1").exists());
    fs::write(&rules, "kernel moe nvjet_*\n").unwrap();
    assert_eq!(run(&[&second], &out, &own), 5);
    assert_eq!(run(&[&first, &second], &out, &own), 0);
    assert_ne!(read().0, with_rules.0);
    assert_eq!(run(&[&first, &second], &out, &plain), 0);
    assert_eq!(read().0, built_in.0);
}
