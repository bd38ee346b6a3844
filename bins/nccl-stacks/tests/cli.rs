//! Tests of the command line: help, exit codes, destinations, unreadable input.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Made, demo, report, run_in, run_with, stacks, stderr, stdout};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn help_fits_80_columns_and_shows_how_to_record() {
    let out = run_in(here(), &["--help"]);
    assert_eq!(out.status.code(), Some(0));
    let help = stdout(&out);
    let longest = help.lines().max_by_key(|l| l.chars().count()).unwrap();
    assert!(longest.chars().count() <= 80, "{longest}");
    for word in [
        "SGLang",
        "vLLM",
        "PyTorch",
        "rocprofv3",
        "Example",
        "--capture",
        "--compat",
    ] {
        assert!(help.contains(word), "{word}");
    }
    assert_eq!(run_in(here(), &["-h"]).status.code(), Some(0));
}

#[test]
fn wrong_usage_is_2() {
    for args in [
        &[][..],
        &["t.json", "--no-such-option"],
        &["t.json", "--index", "one"],
        &["t.json", "--stack-depth", "1.5"],
        &["t.json", "--format", "xml"],
        &["t.json", "--first", "--last"],
    ] {
        let out = run_in(here(), args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        let said = stderr(&out);
        assert!(said.contains("Usage") || said.contains("--help"), "{said}");
        assert!(out.stdout.is_empty());
    }
}

#[test]
fn unreadable_input_is_3_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("empty.json", b"");
    write("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    write("notes.txt", b"hello");
    for name in ["missing.json", "empty.json", "picture.png", "notes.txt"] {
        let out = run_in(folder.path(), &[name]);
        assert_eq!(out.status.code(), Some(3), "{name}");
        assert!(out.stdout.is_empty());
        let said = stderr(&out);
        let last = said.lines().last().unwrap();
        assert!(last.contains(name), "{last}");
        assert!(last.starts_with("nccl-stacks: error: "), "{last}");
        assert_eq!(last.matches(name).count(), 1, "{last}");
    }
    let none = folder.path().join("nothing");
    std::fs::create_dir(&none).unwrap();
    let out = run_in(folder.path(), &["nothing"]);
    assert_eq!(out.status.code(), Some(3));
    assert!(stderr(&out).contains("nothing: this folder is empty: give one with traces"));
    let out = run_in(folder.path(), &["*.pftrace"]);
    assert_eq!(out.status.code(), Some(3));
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let trace = demo("demo-rank0.json.gz");
    let trace = trace.to_str().unwrap();
    let args = |path: &'static str| [trace, "--kernel", "nccl", "--output", path];
    let out = run_in(folder.path(), &args("no/such/folder.txt"));
    assert_eq!(out.status.code(), Some(5));
    assert!(stderr(&out).contains("no/such/folder.txt"));
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());

    let out = run_in(folder.path(), &args("report.txt"));
    assert!(out.status.success());
    assert!(out.stdout.is_empty());
    assert!(stderr(&out).contains("report.txt"));
    let written = std::fs::read_to_string(folder.path().join("report.txt")).unwrap();
    assert_eq!(written, stdout(&run_in(folder.path(), &args("-"))));

    // An existing file survives a run that fails.
    let out = run_in(
        folder.path(),
        &[trace, "--function-name", "nobody", "--output", "report.txt"],
    );
    assert_eq!(out.status.code(), Some(4));
    let kept = std::fs::read_to_string(folder.path().join("report.txt")).unwrap();
    assert_eq!(kept, written);
}

#[test]
fn standard_input_is_a_trace_too() {
    let bytes = std::fs::read(demo("demo-rank0.json.gz")).unwrap();
    let piped = run_with(&demo(""), &["-", "--kernel", "nccl"], &bytes);
    let opened = run_in(&demo(""), &["demo-rank0.json.gz", "--kernel", "nccl"]);
    assert!(piped.status.success(), "{}", stderr(&piped));
    assert_eq!(piped.stdout, opened.stdout);
}

#[test]
fn folders_and_globs_are_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    for rank in [2, 10, 1] {
        let mut made = Made::default();
        made.launched((1, 1), 5, 100 * rank, 5000, "nccl_Kernel_x")
            .slice((1, 1), (100 * rank + 30, 1), ("cpu_op", "x"), json!({}));
        made.write(folder.path(), &format!("trace_rank{rank}.json"));
    }
    let all = run_in(folder.path(), &[".", "--format", "csv"]);
    let ranks: Vec<String> = stdout(&all)
        .lines()
        .skip(1)
        .map(|l| l.split(',').next().unwrap().to_owned())
        .collect();
    assert_eq!(ranks, ["1", "2", "10"]);
    let some = run_in(folder.path(), &["trace_rank1*.json", "--format", "csv"]);
    assert_eq!(stdout(&some).lines().count(), 3);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nccl-stacks"))
        .args(["demo-rank0.json.gz", "--kernel", ".", "--json"])
        .current_dir(demo(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut first).unwrap();
    drop(pipe);
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(!stderr(&out).contains("error"));
}

#[test]
fn threads_do_not_change_a_byte() {
    let run = |threads: &str| {
        let args = [
            "demo-rank0.json.gz",
            "--kernel",
            ".",
            "--json",
            "--threads",
            threads,
        ];
        run_in(&demo(""), &args).stdout
    };
    let one = run("1");
    assert!(!one.is_empty());
    assert_eq!(one, run("4"));
}

#[test]
fn quiet_says_nothing() {
    let out = run_in(&demo(""), &["demo-rank0.json.gz", "-q"]);
    assert!(out.status.success());
    assert_eq!(stderr(&out), "");
}

#[cfg(unix)]
#[test]
fn an_interrupted_choice_is_cancelled() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nccl-stacks"))
        .args(["demo-rank0.json.gz", "--compat"])
        .current_dir(demo(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut pipe = child.stderr.take().unwrap();
    let mut byte = [0];
    while !said.contains("which one?") {
        assert_eq!(pipe.read(&mut byte).unwrap(), 1, "{said}");
        said.push(char::from(byte[0]));
    }
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    pipe.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("cancelled"));
}

#[test]
fn rows_of_the_user_say_what_a_collective_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = Made::default();
    made.slice(
        (1, 1),
        (0, 1_000),
        ("cpu_op", "mine::exchange"),
        Value::Null,
    )
    .launched((1, 1), 1, 100, 2_000, "my_exchange");
    made.write(folder.path(), "t.json");
    let rules = "# what my kernels are\ncommunication all_reduce/other my_exchange\n";
    std::fs::write(folder.path().join("my.rules"), rules).unwrap();
    let plain = report(folder.path(), &["t.json"]);
    assert_eq!(stacks(&plain), []);
    let own = report(folder.path(), &["t.json", "--classes", "my.rules"]);
    let found = stacks(&own);
    assert_eq!(found.len(), 1, "{own}");
    assert!(
        found[0]
            .0
            .iter()
            .any(|frame| frame.contains("mine::exchange")),
        "{own}"
    );
    std::fs::write(folder.path().join("bad.rules"), "kernal gemm x").unwrap();
    let out = run_in(folder.path(), &["t.json", "--classes", "bad.rules"]);
    assert_eq!(out.status.code(), Some(2), "{}", stderr(&out));
    assert!(stderr(&out).contains("line 1"), "{}", stderr(&out));
}
