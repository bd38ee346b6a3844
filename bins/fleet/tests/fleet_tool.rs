//! Tests the tool: what it writes, repetition, exit codes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serving_synth::fleet::Fleet;

/// Writes a job of 16 ranks with one slow GPU.
fn job(folder: &Path) -> std::io::Result<PathBuf> {
    let job = Fleet {
        ranks: 16,
        slow_gpu: Some((3, 1250)),
        ..Fleet::default()
    };
    let line = job.timeline();
    let traces = folder.join("traces");
    for rank in 0..job.ranks {
        let path = traces.join(Fleet::name(rank));
        fs::create_dir_all(path.parent().unwrap_or(&traces))?;
        fs::write(path, line.rank(rank))?;
    }
    Ok(traces)
}

fn run(paths: &[&Path], out: &Path, more: &[&str]) -> u8 {
    let mut words: Vec<OsString> = vec!["fleet".into(), "-q".into(), "-o".into(), out.into()];
    words.extend(paths.iter().map(OsString::from));
    words.extend(more.iter().map(OsString::from));
    fleet_tool::main_from(words)
}

/// Returns what the tool prints, and its exit code.
fn printed(paths: &[&Path], out: &Path, more: &[&str]) -> std::io::Result<(String, i32)> {
    let answer = std::process::Command::new(env!("CARGO_BIN_EXE_inferscope-fleet"))
        .args(["-q", "-o"])
        .arg(out)
        .args(paths)
        .args(more)
        .output()?;
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    Ok((text, answer.status.code().unwrap_or(-1)))
}

#[test]
fn a_folder_gets_answer_tables_and_page() {
    let folder = tempfile::tempdir().unwrap();
    let (traces, out) = (job(folder.path()).unwrap(), folder.path().join("out"));
    let (text, code) = printed(&[&traces], &out, &[]).unwrap();
    assert_eq!(code, 0);
    assert!(
        text.starts_with("Rank 3 on host host000 makes others wait"),
        "{text}"
    );
    for line in text
        .lines()
        .filter(|line| !line.contains("trace-info slim"))
    {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let document = fs::read_to_string(out.join("fleet.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["schema_version"], "inferscope-fleet-1.3");
    assert_eq!(document["ranks"].as_array().unwrap().len(), 16);
    assert_eq!(document["findings"][0]["kind"], "late_rank");
    let page = fs::read_to_string(out.join("fleet.html")).unwrap();
    assert!(page.len() < 2_000_000 && page.contains("Lateness by rank and step"));
    // Its tables have words as headings, those of files are names.
    assert!(page.contains("others wait for it") && !page.contains("inflicted_ns"));
    for table in [
        "findings", "ranks", "factors", "links", "budgets", "steps", "kernels", "classes",
        "failures",
    ] {
        assert!(out.join(format!("{table}.parquet")).is_file(), "{table}");
    }
    // The document on standard output is that of the file, also where nothing is read again.
    let (json, code) = printed(&[&traces], &out, &["--json", "--tables", "csv"]).unwrap();
    assert_eq!(code, 0);
    assert_eq!(json, fs::read_to_string(out.join("fleet.json")).unwrap());
    let csv = fs::read_to_string(out.join("ranks.csv")).unwrap();
    assert_eq!(csv.lines().count(), 17);
    assert!(
        csv.lines().nth(1).unwrap().starts_with("3,host000,,3,12,"),
        "{csv}"
    );
}

#[test]
fn exit_codes_tell_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let (traces, out) = (job(folder.path()).unwrap(), folder.path().join("out"));
    // One that cannot be read is named, and the others are compared.
    fs::write(traces.join(Fleet::name(5)), b"\x1f\x8b no gzip").unwrap();
    assert_eq!(run(&[&traces], &out, &[]), 3);
    let document = fs::read_to_string(out.join("fleet.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["scope"]["ranks"], 15);
    assert_eq!(document["failures"][0]["rank"], 5);
    // Files of another program are not replaced, and those of an earlier answer are.
    assert_eq!(run(&[&traces], &out, &[]), 3);
    for name in ["fleet.json", "fleet.html", "ranks.parquet"] {
        let other = folder.path().join(format!("other-{name}"));
        fs::create_dir(&other).unwrap();
        fs::write(other.join(name), "{\"mine\": 1}").unwrap();
        assert_eq!(run(&[&traces], &other, &[]), 5);
        assert_eq!(fs::read(other.join(name)).unwrap(), b"{\"mine\": 1}");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
    }
    // What is not there leaves no folder.
    let (nowhere, none) = (folder.path().join("nowhere"), folder.path().join("none"));
    assert_eq!(run(&[&nowhere], &none, &[]), 3);
    assert!(!none.exists());
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_eq!(run(&[&traces], &file, &[]), 5);
    // A folder of something else is refused.
    let foreign = folder.path().join("foreign");
    fs::create_dir_all(foreign.join("summaries")).unwrap();
    fs::write(foreign.join("summaries/notes.txt"), "x").unwrap();
    assert_eq!(run(&[&traces], &foreign, &[]), 5);
    // Nothing to read.
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert_eq!(run(&[&empty], &out, &[]), 3);
    assert_eq!(run(&[], &out, &[]), 2);
}

/// What a killed run leaves is no summary: the next one makes what is missing.
#[test]
fn an_interrupted_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (traces, out) = (job(folder.path()).unwrap(), folder.path().join("out"));
    let (whole, _) = printed(&[&traces], &out, &["--json"]).unwrap();
    // As after a kill: a summary is gone, another one is cut, and the state has leftovers.
    let ranks = out.join("summaries/ranks");
    fs::remove_file(ranks.join("part-000002.json.gz")).unwrap();
    let cut = ranks.join("part-000004.json.gz");
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let aside = out.join("summaries/_inferscope/tmp/000007");
    fs::create_dir_all(&aside).unwrap();
    fs::write(aside.join("summary"), "x").unwrap();
    let (again, code) = printed(&[&traces], &out, &["--json"]).unwrap();
    assert_eq!((again, code), (whole, 0));
    assert!(!aside.exists());
}

/// An interrupt says what is kept, and the next call goes on from there.
#[cfg(unix)]
#[test]
fn an_interrupt_says_how_to_go_on() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    let folder = tempfile::tempdir().unwrap();
    // Long recordings, so that the interrupt comes before all are read.
    let job = Fleet {
        ranks: 16,
        padding: 2_000,
        ..Fleet::default()
    };
    let line = job.timeline();
    let (traces, out) = (folder.path().join("traces"), folder.path().join("out"));
    for rank in 0..job.ranks {
        let path = traces.join(Fleet::name(rank));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, line.rank(rank)).unwrap();
    }
    let tool = Command::new(env!("CARGO_BIN_EXE_inferscope-fleet"))
        .args(["--threads", "1", "-o"])
        .args([&out, &traces])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let first = out.join("summaries/ranks");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !fs::read_dir(&first).is_ok_and(|mut files| files.next().is_some()) {
        assert!(Instant::now() < deadline, "no summary appeared");
        std::thread::sleep(Duration::from_millis(2));
    }
    let killed = Command::new("kill")
        .args(["-INT", &tool.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    let answer = tool.wait_with_output().unwrap();
    assert!(!answer.status.success());
    let said = String::from_utf8_lossy(&answer.stderr);
    let kept = out.join("summaries").display().to_string();
    assert!(
        said.contains("fleet: interrupted") && said.contains(&kept),
        "{said}"
    );
    let made = fs::read_dir(&first).unwrap().count();
    assert!((1..16).contains(&made), "{made}");
    let (text, code) = printed(&[&traces], &out, &["--json"]).unwrap();
    assert_eq!(code, 0);
    assert!(text.contains("\"ranks\": 16"), "{text}");
}

#[test]
fn summaries_with_other_classes_are_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (traces, out) = (job(folder.path()).unwrap(), folder.path().join("out"));
    let rules = folder.path().join("own.rules");
    fs::write(&rules, "kernel moe *xmma_gemm*\n").unwrap();
    let classes = |more: &[&str]| {
        let (text, code) = printed(&[&traces], &out, more).unwrap();
        assert_eq!(code, 0);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rows = document["classes"].as_array().unwrap().iter();
        let each = rows.map(|row| {
            let class = row["class"].as_str().unwrap();
            (class.to_owned(), row["count"].as_u64().unwrap())
        });
        each.collect::<std::collections::BTreeMap<String, u64>>()
    };
    let own = ["--json", "--classes", rules.to_str().unwrap()];
    let built_in = classes(&["--json"]);
    let with_rules = classes(&own);
    // Four layers with three matrix products in each of twelve steps of sixteen ranks.
    assert_eq!(built_in.get("gemm"), Some(&(16 * 12 * 4 * 3)));
    assert_eq!(with_rules.get("moe"), built_in.get("gemm"));
    assert_eq!(with_rules.get("gemm"), None);
    assert_eq!(classes(&["--json"]), built_in);
    // A part of the ranks cannot have other rules than the rest.
    let first = traces.join(Fleet::name(0));
    assert_eq!(run(&[&first], &out, &own[1..]), 5);
}
