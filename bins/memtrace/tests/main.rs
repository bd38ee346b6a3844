//! Tests the tool from its command line: every command, and bad input.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod claims;
mod collecting;
mod columns;
mod companions;
mod text_output;

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Returns a capture: two words of weights stored once and read `reads` times, one block of the KV
/// cache stored twice and read once.
fn capture(reads: u64) -> String {
    let mut text = String::from("# captured by perf\n\n");
    let mut row = |second: u64, event: &str, address: u64, symbol: &str| {
        let _ = writeln!(
            text,
            "llama-cli 4242 [001] {second}.000000000: {event}: {address:x} {symbol}+0x10 (/usr/lib/libggml.so)"
        );
    };
    row(1, "cpu/mem-stores/P", 0x7f3a_0000_0000, "llama_model_load");
    row(1, "cpu/mem-stores/P", 0x7f3a_0000_0040, "llama_model_load");
    row(2, "cpu/mem-stores/P", 0x7f5c_4000_0000, "llama_kv_store");
    for second in 3..3 + reads {
        row(second, "cpu/mem-loads/P", 0x7f3a_0000_0000, "ggml_mul_mat");
    }
    row(40, "cpu/mem-loads/P", 0x7f5c_4000_0000, "kv_read_block");
    row(41, "cpu/mem-stores/P", 0x7f5c_4000_0000, "llama_kv_store");
    text
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("perf.txt"), capture(5)).unwrap();
    folder
}

fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtrace"));
    command.current_dir(folder).args(words);
    command
}

fn call(folder: &Path, words: &[&str]) -> Output {
    command(folder, words).output().unwrap()
}

fn ok(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&ok(output)).unwrap()
}

/// Returns the error of a call that fails with `code`: one line that begins with the tool's name.
fn fails(folder: &Path, words: &[&str], code: i32) -> String {
    let output = call(folder, words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    assert!(
        said.starts_with("memtrace: ") || code == 2,
        "{words:?}: {said}"
    );
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// Returns the value of a column in the row of a type.
fn cell<'a>(document: &'a Value, table: &str, region_type: &str, column: &str) -> &'a Value {
    let rows = document[table]["rows"].as_array().unwrap();
    &rows
        .iter()
        .find(|row| row["region_type"] == region_type)
        .unwrap()[column]
}

/// A fixed period leads to no class, so that nothing recommends one or takes it by itself.
#[test]
fn recordings_are_recommended_by_frequency() {
    let folder = tempfile::tempdir().unwrap();
    let help = ok(&call(folder.path(), &["--help"]));
    assert!(help.contains("perf mem record -F 4000 "), "{help}");
    assert!(!help.contains("perf mem record -c"), "{help}");
    let run = ok(&call(folder.path(), &["run", "--help"]));
    let option = run.split("--frequency <N>").nth(1).unwrap();
    assert!(option.contains("[default: 4000]"), "{run}");
    let both = ["run", "--frequency", "9", "--period", "9", "--", "true"];
    assert_eq!(call(folder.path(), &both).status.code(), Some(2));
}

#[test]
fn analysing_finds_what_was_planted() {
    let folder = folder();
    let found = json(&call(folder.path(), &["analyse", "perf.txt", "--json"]));
    assert_eq!(found["semantics"], "native-1");
    assert_eq!(found["analysis"]["rows"], 10);
    assert_eq!(
        cell(&found, "retention_summary", "weight", "retention_p50_s"),
        6.0
    );
    assert_eq!(
        cell(&found, "retention_summary", "kv_cache", "n_regions"),
        1
    );
    assert_eq!(
        cell(&found, "working_set_summary", "weight", "total_pages"),
        1
    );
    let csv = ok(&call(
        folder.path(),
        &[
            "analyse",
            "perf.txt",
            "--format",
            "csv",
            "--table",
            "read_freq",
        ],
    ));
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(
        csv.starts_with("region_id,region_type,total_reads,"),
        "{csv}"
    );
    let mrm = json(&call(
        folder.path(),
        &["analyse", "perf.txt", "--compat", "mrm-0.1", "--json"],
    ));
    assert_eq!(mrm["retention_summary"]["columns"][0], "region_type");
}

#[test]
fn text_fits_eighty_columns() {
    let folder = folder();
    for words in [
        &["analyse", "perf.txt"][..],
        &["analyse", "perf.txt", "--summaries"],
        &["compare", "perf.txt", "perf.txt"],
        &["--help"],
        &["analyse", "--help"],
        &["export", "--help"],
    ] {
        let text = ok(&call(folder.path(), words));
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{words:?}: {widest:?}\n{text}");
    }
}

#[test]
fn rows_go_there_and_back() {
    let folder = folder();
    let dir = folder.path();
    ok(&call(dir, &["parse", "perf.txt", "-o", "rows.jsonl"]));
    let rows = std::fs::read_to_string(dir.join("rows.jsonl")).unwrap();
    assert_eq!(rows.lines().count(), 10);
    let first: Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    assert_eq!(first["address"], 0x7f3a_0000_0000_u64);
    assert_eq!(first["symbol"], "llama_model_load");
    ok(&call(
        dir,
        &["label", "rows.jsonl", "-o", "labelled.parquet"],
    ));
    ok(&call(
        dir,
        &["convert", "labelled.parquet", "-o", "back.jsonl"],
    ));
    let back = std::fs::read_to_string(dir.join("back.jsonl")).unwrap();
    let types: Vec<Value> = back
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["region_type"].clone())
        .collect();
    assert_eq!(types.iter().filter(|kind| **kind == "weight").count(), 7);
    assert_eq!(types.iter().filter(|kind| **kind == "kv_cache").count(), 3);
    // CSV as well, including symbols with commas and quotes.
    let odd = "c 1 [0] 9.5: ev: 10 std::map<int, char>::at(\"x\")+0x1 (/x.so)\n";
    std::fs::write(dir.join("odd.txt"), capture(5) + odd).unwrap();
    ok(&call(dir, &["label", "odd.txt", "-o", "odd.csv"]));
    ok(&call(dir, &["label", "odd.txt", "-o", "odd.jsonl"]));
    ok(&call(dir, &["convert", "odd.csv", "-o", "odd2.jsonl"]));
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    assert!(read("odd.csv").starts_with("run_id,sample_id,timestamp_ns,phase,address,"));
    assert_eq!(read("odd.jsonl"), read("odd2.jsonl"));
    assert!(read("odd2.jsonl").contains("std::map<int, char>::at"));
    for (text, problem) in [
        (
            "timestamp_ns,address\n5,6\n",
            "missing required columns address_page",
        ),
        (
            "run_id,sample_id,timestamp_ns,address,address_page,op_type\nr,0,x,5,0,load\n",
            "line 2: timestamp_ns: 'x'",
        ),
        (
            "run_id,sample_id,timestamp_ns,address,address_page,op_type\nr,0,5\n",
            "line 2: 3 cells",
        ),
    ] {
        std::fs::write(dir.join("bad.csv"), text).unwrap();
        let said = fails(dir, &["parse", "bad.csv"], 3);
        assert!(said.contains(problem), "{said}");
    }
    // Standard input and output, whatever the file's name.
    let mut child = command(dir, &["parse", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(capture(5).as_bytes()).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert_eq!(ok(&output).lines().count(), 10);
}

#[test]
fn rows_without_regions_are_labelled_whatever_they_are_kept_in() {
    let folder = folder();
    let dir = folder.path();
    let tables = |input: &str| {
        let mut found = json(&call(dir, &["analyse", input, "--json"]));
        // The recorded inputs differ.
        found.as_object_mut().unwrap().remove("input");
        found
    };
    let wanted = tables("perf.txt");
    ok(&call(dir, &["parse", "perf.txt", "-o", "rows.parquet"]));
    assert_eq!(tables("rows.parquet"), wanted);
    // Rules do not change rows that already have their regions.
    std::fs::write(dir.join("none.yaml"), "rules: []\n").unwrap();
    ok(&call(dir, &["label", "rows.parquet", "-o", "all.parquet"]));
    let words = ["analyse", "all.parquet", "--json", "--rules", "none.yaml"];
    let found = json(&call(dir, &words));
    assert_eq!(cell(&found, "read_freq", "weight", "total_reads"), 5);
}

#[test]
fn a_phase_that_ends_before_it_begins_holds_nothing_in_the_reference() {
    let folder = folder();
    let dir = folder.path();
    let text = r#"[{"phase": "generation", "start_ns": 9e9, "end_ns": 8e9},
        {"phase": "teardown", "start_ns": 40000000000.0, "end_ns": 18446744073709551615}]"#;
    std::fs::write(dir.join("phases.json"), text).unwrap();
    let words = ["parse", "perf.txt", "--phases", "phases.json"];
    assert!(fails(dir, &words, 3).contains("ends at 8000000000 before it starts"));
    let rows = ok(&call(dir, &[&words[..], &["--compat", "mrm-0.1"]].concat()));
    assert_eq!(rows.matches("\"phase\":\"teardown\"").count(), 2);
    assert_eq!(rows.matches("\"phase\":null").count(), 8);
}

#[test]
fn an_exported_run_is_whole_and_checked() {
    let folder = folder();
    let dir = folder.path();
    let words = ["export", "perf.txt", "-o", "run", "--json"];
    let kinds = if cfg!(feature = "pdf") {
        ["--figure-format", "svg,png,pdf"]
    } else {
        ["--figure-format", "svg,png"]
    };
    let manifest = json(&call(dir, &[&words[..], &kinds].concat()));
    let listed: Vec<&str> = manifest["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    for file in [
        "trace.parquet",
        "region_map.parquet",
        "kv_block_lifecycle.parquet",
        "metrics.csv",
        "metadata.json",
        "retention_histogram.svg",
        "retention_histogram.csv",
        "addresses_over_time.svg",
        "addresses_over_time.csv",
    ] {
        assert!(listed.contains(&file), "{file}: {listed:?}");
    }
    // Every access is in the map of addresses over time.
    let map = std::fs::read_to_string(dir.join("run/addresses_over_time.csv")).unwrap();
    let sum = |kind: &str| -> u64 {
        let rows = map.lines().filter(|line| line.starts_with(kind));
        rows.map(|line| line.rsplit(',').next().unwrap().parse::<u64>().unwrap())
            .sum()
    };
    assert_eq!(
        (
            sum("weight,0x7f3a00000000,1,"),
            sum("kv_cache,0x7f5c40000000,1,")
        ),
        (7, 3)
    );
    let metadata: Value =
        serde_json::from_slice(&std::fs::read(dir.join("run/metadata.json")).unwrap()).unwrap();
    assert_eq!(metadata["semantics"], "native-1");
    // A machine without fonts draws only SVG, and reports it.
    if metadata["figures_missing"].is_null() {
        let png = std::fs::read(dir.join("run/write_once.png")).unwrap();
        assert!(png.starts_with(b"\x89PNG\r\n"));
        if cfg!(feature = "pdf") {
            let pdf = std::fs::read(dir.join("run/write_once.pdf")).unwrap();
            assert!(pdf.starts_with(b"%PDF-"));
        }
    } else {
        assert!(!listed.contains(&"write_once.png"));
    }
    assert!(ok(&call(dir, &["check", "run"])).contains("fine"));
    let from_run = json(&call(dir, &["analyse", "run", "--json"]));
    let from_text = json(&call(dir, &["analyse", "perf.txt", "--json"]));
    assert_eq!(
        from_run["retention_summary"],
        from_text["retention_summary"]
    );
    // If the metadata names the collector, the data it must have recorded is checked.
    let file = dir.join("run/metadata.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let checked = |collector: &str| {
        let mut metadata: Value = serde_json::from_str(&text).unwrap();
        metadata["collector"] = serde_json::json!({"type": collector});
        std::fs::write(dir.join("more.json"), metadata.to_string()).unwrap();
        let words = [
            "export",
            "perf.txt",
            "-o",
            "with",
            "--metadata",
            "more.json",
            "--no-figures",
        ];
        ok(&call(dir, &words));
        let output = call(dir, &["check", "with", "--json"]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), found["quality"]["verdict"].clone())
    };
    assert_eq!(checked("perf"), (Some(1), "FAIL".into()));
    assert_eq!(checked("memray"), (Some(0), "PASS".into()));
    assert_eq!(checked("pagefaults"), (Some(0), "PASS".into()));
    // A changed, a missing and an unlisted file are found.
    std::fs::write(dir.join("run/metrics.csv"), "changed").unwrap();
    std::fs::remove_file(dir.join("run/write_once.svg")).unwrap();
    std::fs::write(dir.join("run/more.txt"), "more").unwrap();
    let output = call(dir, &["check", "run", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let paths: Vec<&str> = found["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    for path in ["metrics.csv", "write_once.svg", "more.txt"] {
        assert!(paths.contains(&path), "{path}: {paths:?}");
    }
    std::fs::remove_file(dir.join("run/manifest.json")).unwrap();
    let output = call(dir, &["check", "run"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("not complete"));
}

#[test]
fn a_dataset_gets_a_card_and_a_row_for_each_run() {
    let folder = folder();
    let dir = folder.path();
    for run in ["a", "b"] {
        let words = [
            "export", "perf.txt", "--format", "hf", "-o", "set", "--run-id", run,
        ];
        ok(&call(dir, &[&words[..], &["--no-figures"]].concat()));
    }
    let rows = std::fs::read_to_string(dir.join("set/manifest.csv")).unwrap();
    assert_eq!(rows.lines().count(), 3, "{rows}");
    // The folder of a run provides the metadata of the run.
    ok(&call(
        dir,
        &[
            "export",
            "perf.txt",
            "-o",
            "one",
            "--no-figures",
            "--run-id",
            "one",
        ],
    ));
    let file = dir.join("one/metadata.json");
    let mut metadata: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let input = &metadata["inputs"][0];
    assert_eq!(
        (&input["path"], &input["size_bytes"]),
        (&"perf.txt".into(), &capture(5).len().into())
    );
    let sum = Command::new("sha256sum").arg(dir.join("perf.txt")).output();
    if let Ok(sum) = sum {
        let sum = String::from_utf8_lossy(&sum.stdout).into_owned();
        assert!(sum.starts_with(input["sha256"].as_str().unwrap()), "{sum}");
    }
    metadata["machine_id"] = "here".into();
    std::fs::write(&file, metadata.to_string()).unwrap();
    std::fs::write(dir.join("one/prompt_outputs.json"), "{}").unwrap();
    ok(&call(
        dir,
        &[
            "export",
            "one",
            "--format",
            "hf",
            "-o",
            "set",
            "--no-figures",
        ],
    ));
    let rows = std::fs::read_to_string(dir.join("set/manifest.csv")).unwrap();
    let last = rows.lines().last().unwrap();
    assert!(
        last.starts_with("one,here,") && last.contains(",true,"),
        "{rows}"
    );
    assert!(dir.join("set/runs/one/prompt_outputs.json").is_file());
    let kept = std::fs::read_to_string(dir.join("set/runs/one/metadata.json")).unwrap();
    assert!(kept.contains("one/trace.parquet"), "{kept}");
    assert!(dir.join("set/README.md").is_file());
    assert!(dir.join("set/runs/b/trace.parquet").is_file());
    assert!(!dir.join("set/runs/b/write_once.svg").exists());
}

/// Captures in different folders often have the same name.
#[test]
fn a_dataset_keeps_runs_of_files_with_one_name_apart() {
    let folder = folder();
    let dir = folder.path();
    for (place, seconds) in [("first", 5), ("second", 9)] {
        std::fs::create_dir(dir.join(place)).unwrap();
        std::fs::write(dir.join(place).join("perf.txt"), capture(seconds)).unwrap();
    }
    let export = |file: &str, more: &[&str]| {
        let words = [
            "export",
            file,
            "--format",
            "hf",
            "-o",
            "set",
            "--no-figures",
        ];
        call(dir, &[&words[..], more].concat())
    };
    ok(&export("first/perf.txt", &[]));
    let kept = std::fs::read(dir.join("set/runs/perf/trace.parquet")).unwrap();
    let refused = export("second/perf.txt", &[]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("first/perf.txt") && said.contains("--run-id"),
        "{said}"
    );
    assert_eq!(
        std::fs::read(dir.join("set/runs/perf/trace.parquet")).unwrap(),
        kept
    );
    ok(&export("second/perf.txt", &["--run-id", "perf-2"]));
    assert!(dir.join("set/runs/perf-2/manifest.json").is_file());
    // A used name stays used, however it is requested; the run itself is rewritten.
    assert_eq!(
        export("second/perf.txt", &["--run-id", "perf"])
            .status
            .code(),
        Some(2)
    );
    ok(&export("first/perf.txt", &[]));
}

/// Rows that name their run keep that name, whatever their file's name.
#[test]
fn a_run_is_called_as_its_rows_say() {
    let folder = folder();
    let dir = folder.path();
    let words = ["parse", "perf.txt", "--run-id", "m1_rep1", "-o"];
    for file in ["rows.jsonl", "rows.csv", "rows.parquet"] {
        ok(&call(dir, &[&words[..], &[file]].concat()));
        let name = |out: &str, more: &[&str]| -> (String, String) {
            let words = ["export", file, "--no-figures", "-o", out];
            ok(&call(dir, &[&words[..], more].concat()));
            let read = |name: &str| -> Value {
                let bytes = std::fs::read(dir.join(out).join(name)).unwrap();
                serde_json::from_slice(&bytes).unwrap()
            };
            let name = |value: Value| value["run_id"].as_str().unwrap().to_owned();
            (name(read("metadata.json")), name(read("manifest.json")))
        };
        let own = ("m1_rep1".to_owned(), "m1_rep1".to_owned());
        assert_eq!(name("run", &[]), own, "{file}");
        let given = ("other".to_owned(), "other".to_owned());
        assert_eq!(name("run", &["--run-id", "other"]), given, "{file}");
        let set = format!("set-{file}");
        let words = ["export", file, "--format", "hf", "--no-figures", "-o", &set];
        ok(&call(dir, &words));
        let whole = dir.join(&set).join("runs/m1_rep1/trace.parquet");
        let rows = |path: &Path| {
            let found = call(dir, &["analyse", path.to_str().unwrap(), "--json"]);
            json(&found)["analysis"]["rows"].clone()
        };
        assert_eq!(rows(&whole), rows(&dir.join(file)), "{file}");
    }
    // A name that is a path denotes one folder, and perf's lines name no run.
    ok(&call(
        dir,
        &[
            "parse",
            "perf.txt",
            "--run-id",
            "../../m 1",
            "-o",
            "odd.csv",
        ],
    ));
    let words = ["--format", "hf", "--no-figures", "-o", "odd"];
    ok(&call(dir, &[&["export", "odd.csv"], &words[..]].concat()));
    ok(&call(dir, &[&["export", "perf.txt"], &words[..]].concat()));
    let mut runs: Vec<String> = std::fs::read_dir(dir.join("odd/runs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    runs.sort();
    assert_eq!(runs, ["..-..-m-1", "perf"]);
}

/// Reads rows from a silent pipe: the output is opened before more than the first bytes are
/// available.
#[cfg(unix)]
#[test]
fn a_silent_pipe_is_not_waited_for_too_early() {
    let folder = folder();
    let dir = folder.path();
    let rows = ok(&call(dir, &["parse", "perf.txt"]));
    let mut child = command(dir, &["export", "-", "--no-figures", "-o", "run"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // More than the bytes needed to detect the format, and fewer rows than a batch.
    pipe.write_all(rows.repeat(1 + 5000 / rows.len()).as_bytes())
        .unwrap();
    let start = std::time::Instant::now();
    while !dir.join("run").is_dir() {
        assert!(start.elapsed().as_secs() < 60, "no output was opened");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(pipe);
    assert!(child.wait().unwrap().success());
    assert!(dir.join("run/manifest.json").is_file());
}

#[test]
fn a_report_has_the_figures_asked_for() {
    let folder = folder();
    let dir = folder.path();
    let words = ["report", "perf.txt", "-o", "out", "--figure-format", "svg"];
    ok(&call(dir, &words));
    let page = std::fs::read_to_string(dir.join("out/report.html")).unwrap();
    assert!(page.contains("retention summary"));
    assert!(dir.join("out/working_set.svg").is_file());
    assert!(!dir.join("out/working_set.png").exists());
}

#[test]
fn runs_are_compared() {
    let folder = folder();
    let dir = folder.path();
    std::fs::write(dir.join("more.txt"), capture(9)).unwrap();
    let words = ["compare", "perf.txt", "more.txt", "--json"];
    let found = json(&call(dir, &words));
    let rows = found["comparison"]["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["region_type"] == "weight"));
    // Two regions are too few for an interval.
    assert!(rows.iter().all(|row| row["difference_low"].is_null()));
    let many = |reads: u64| {
        let mut text = String::new();
        for at in 0..40_u64 {
            let address = 0x7f5c_4000_0000 + at * 0x1_0000;
            let _ = writeln!(
                text,
                "c 1 [0] 1.0: mem-stores: {address:x} kv_update (/x.so)"
            );
            for second in 2..2 + reads + at % 3 {
                let _ = writeln!(
                    text,
                    "c 1 [0] {second}.0: mem-loads: {address:x} kv_read (/x.so)"
                );
            }
        }
        text
    };
    std::fs::write(dir.join("a.txt"), many(4)).unwrap();
    std::fs::write(dir.join("b.txt"), many(9)).unwrap();
    let found = json(&call(
        dir,
        &["compare", "a.txt", "b.txt", "--kv-block", "4K", "--json"],
    ));
    let rows = found["comparison"]["rows"].as_array().unwrap();
    let reads = rows
        .iter()
        .find(|row| row["metric"] == "reads_per_write_mean")
        .unwrap();
    let number = |column: &str| reads[column].as_f64().unwrap();
    assert!((number("difference") - 5.0).abs() < 1e-9, "{reads}");
    assert!(
        4.0 < number("difference_low") && number("difference_low") < 5.0,
        "{reads}"
    );
    assert!(
        5.0 < number("difference_high") && number("difference_high") < 6.0,
        "{reads}"
    );
    ok(&call(
        dir,
        &["compare", "perf.txt", "more.txt", "--format", "csv"],
    ));
}

#[test]
fn bad_input_ends_with_its_code() {
    let folder = folder();
    let dir = folder.path();
    fails(dir, &[], 2);
    fails(dir, &["analyse"], 2);
    fails(dir, &["analyse", "perf.txt", "--table", "nothing"], 2);
    fails(dir, &["analyse", "perf.txt", "--format", "csv"], 2);
    fails(
        dir,
        &["analyse", "perf.txt", "--input-format", "nothing"],
        2,
    );
    fails(dir, &["label", "perf.txt", "--unknown", "nothing"], 2);
    assert!(fails(dir, &["analyse", "missing.txt"], 3).contains("missing.txt"));
    fails(dir, &["parse", "perf.txt", "-o", "no/such/folder.jsonl"], 5);
    fails(dir, &["analyse", "perf.txt", "-o", "no/such/folder.txt"], 5);
    assert!(fails(dir, &["check", "missing"], 3).contains("missing"));
    // A single file is checked as a trace.
    let output = call(dir, &["check", "perf.txt"]);
    assert_eq!(output.status.code(), Some(1));
    fails(dir, &["analyse", "perf.txt", "--phases", "missing.json"], 3);
    // A folder denotes its trace.
    assert!(fails(dir, &["analyse", "."], 3).contains("trace.parquet"));
    std::fs::write(dir.join("noise.bin"), [0, 1, 2, 3, 0, 0, 9]).unwrap();
    assert!(fails(dir, &["parse", "noise.bin"], 3).contains("noise.bin"));
    // Unrecognised text is read as perf's, and no line of it is valid.
    std::fs::write(dir.join("prose.txt"), "It was a dark\nand stormy night.\n").unwrap();
    for command in ["analyse", "parse", "label"] {
        let output = if command == "analyse" {
            "a.txt"
        } else {
            "a.jsonl"
        };
        let said = call(dir, &[command, "prose.txt", "-o", output]);
        assert_eq!(said.status.code(), Some(3));
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains("none of 2 lines is a sample"), "{said}");
        assert!(!dir.join(output).exists());
    }
    let words = ["export", "prose.txt", "-o", "of-prose"];
    assert!(fails(dir, &words, 3).contains("prose.txt: read as perf-script, none of 2 lines"));
    assert!(!dir.join("of-prose").exists());
    std::fs::write(dir.join("phases.json"), "{").unwrap();
    fails(dir, &["analyse", "perf.txt", "--phases", "phases.json"], 3);
    std::fs::write(dir.join("rules.yaml"), "a: [").unwrap();
    fails(dir, &["label", "perf.txt", "--rules", "rules.yaml"], 3);
    ok(&call(dir, &["label", "perf.txt", "-o", "t.parquet"]));
    let bytes = std::fs::read(dir.join("t.parquet")).unwrap();
    std::fs::write(dir.join("cut.parquet"), &bytes[..bytes.len() / 2]).unwrap();
    assert!(fails(dir, &["analyse", "cut.parquet"], 3).contains("cut.parquet"));
}

/// Any list of fields in the order in which perf prints them; each list with the necessary fields
/// gives the same rows.
#[test]
fn texts_with_any_fields_are_read_alone_and_by_their_list() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let rows = [
        (
            "kv_update",
            "/opt/my app/x.so",
            0x7f3a_0000_1000_u64,
            "mem-stores",
        ),
        (
            "operator new(unsigned long)",
            "/x.so (deleted)",
            0x10,
            "mem-loads",
        ),
    ];
    let all = "comm,pid,tid,cpu,time,period,event,addr,data_src,weight,ip,sym,symoff,dso,phys_addr";
    // Each list, and whether a line without the list gives the same.
    let lists = [
        (all, true),
        (
            "comm,pid,tid,cpu,time,period,event,addr,ip,sym,symoff,dso",
            true,
        ),
        ("comm,tid,time,event,addr,ip,sym,dso", true),
        ("time,pid,addr,ip,sym,symoff,dso", true),
        ("comm,time,addr,ip,sym,dso", true),
        ("cpu,time,event,addr,weight,ip,sym,symoff,dso", false),
    ];
    for (list, alone) in lists {
        let has = |field: &str| list.split(',').any(|name| name == field);
        let mut text = String::from("# perf script\n\n");
        for (at, (symbol, dso, address, event)) in rows.iter().enumerate() {
            let mut put = |field: &str, words: String| {
                if has(field) {
                    text.push_str(&words);
                }
            };
            put("comm", "llama cli 7 ".to_owned());
            put("pid", "4242".to_owned());
            put(
                "tid",
                if has("pid") { "/4250 " } else { "4250 " }.to_owned(),
            );
            put("cpu", " [003] ".to_owned());
            put("time", format!(" {}.5: ", at + 1));
            put("period", "   4000 ".to_owned());
            put("event", format!("cpu/{event}/P: "));
            put("addr", format!("    {address:x}"));
            if has("sym") && has("event") {
                put("addr", " [unknown] ([heap])".to_owned());
            }
            let source = if *event == "mem-stores" {
                "5080184"
            } else {
                "5080142"
            };
            put(
                "data_src",
                format!("   {source} |OP x|LVL L1 hit|LCK No|BLK  N/A "),
            );
            put("weight", "   61 ".to_owned());
            put("ip", "  401136".to_owned());
            put("sym", format!(" {symbol}"));
            put("symoff", "+0x1c".to_owned());
            put("dso", format!(" ({dso})"));
            put("phys_addr", "   1234567".to_owned());
            text.push('\n');
        }
        std::fs::write(dir.join("perf.txt"), &text).unwrap();
        let with_list = ["parse", "perf.txt", "--strict", "--fields", list];
        let found = ok(&call(dir, &with_list));
        let found: Vec<Value> = found
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(found.len(), rows.len(), "{list}");
        for (at, (row, (symbol, dso, address, event))) in found.iter().zip(rows).enumerate() {
            assert_eq!(row["symbol"], symbol, "{list}\n{text}");
            assert_eq!(row["dso"], dso, "{list}");
            assert_eq!(row["address"], address, "{list}");
            assert_eq!(
                row["timestamp_ns"],
                (at as u64 + 1) * 1_000_000_000 + 500_000_000
            );
            let is_store = event == "mem-stores" && has("event");
            assert_eq!(
                row["op_type"],
                if is_store { "store" } else { "load" },
                "{list}"
            );
            let number = |field: &str, value: u64| {
                if has(field) {
                    value.into()
                } else {
                    Value::Null
                }
            };
            assert_eq!(row["cpu_id"], number("cpu", 3), "{list}");
            assert_eq!(row["access_latency_ns"], number("weight", 61), "{list}");
            let thread = if has("tid") {
                number("tid", 4250)
            } else {
                number("pid", 4242)
            };
            assert_eq!(row["thread_id"], thread, "{list}");
        }
        if alone {
            let without = ok(&call(dir, &["parse", "perf.txt", "--strict"]));
            let shown = |row: &Value| {
                // The last word of the command may look like a process id in a single line.
                [
                    "address",
                    "op_type",
                    "symbol",
                    "dso",
                    "cpu_id",
                    "access_latency_ns",
                ]
                .map(|column| row[column].clone())
            };
            for (line, row) in without.lines().zip(&found) {
                let line: Value = serde_json::from_str(line).unwrap();
                assert_eq!(shown(&line), shown(row), "{list}\n{text}");
            }
        }
    }
    for list in ["time,addr,nothing", "time", "addr", ""] {
        assert!(fails(dir, &["parse", "perf.txt", "--fields", list], 2).contains("--fields: "));
    }
    let both = ["parse", "perf.txt", "--fields", all, "--compat", "mrm-0.1"];
    fails(dir, &both, 2);
}

/// A strict reading rejects everything but comments and blank lines.
#[test]
fn lines_without_a_row_are_counted_by_reason() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let good = "c 1 [0] 1.0: ev: 10 f (/x.so)\n";
    let cases = [
        ("\n  \n", "blank", true),
        ("# comment\n", "comment", true),
        ("    7f3a00001000 main (/x.so)\n", "comment", true),
        ("c 1 [0] 1.0: no event at all\n", "no_event", false),
        ("c 1 [0] 100: ev: 10 f\n", "bad_time", false),
        ("c 1 [0] 99999999999999.0: ev: 10 f\n", "bad_time", false),
        ("c 1 [0] 1.0: ev: zz f\n", "bad_address", false),
        (
            "c 1 [0] 1.0: ev: 10000000000000000 f\n",
            "bad_address",
            false,
        ),
        (
            "c 1 [0] 1.0: ev: ffff888100000000 f\n",
            "kernel_address",
            false,
        ),
        ("c 1 [0] 1.0:", "truncated", false),
        ("c 1 [0] 1.0: ev:\n", "truncated", false),
    ];
    for (line, reason, harmless) in cases {
        std::fs::write(dir.join("perf.txt"), format!("{good}{good}{line}")).unwrap();
        let words = ["parse", "perf.txt", "-o", "rows.jsonl", "--json"];
        let output = call(dir, &words);
        ok(&output);
        let told: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(told["rows"], 2, "{line:?}");
        assert_eq!(
            told["skipped"].as_object().unwrap().len(),
            1,
            "{line:?}: {told}"
        );
        assert_eq!(
            told["skipped"][reason]["first_lines"][0], 3,
            "{line:?}: {told}"
        );
        let strict = call(dir, &[&words[..], &["--strict"]].concat());
        let code = if harmless { 0 } else { 3 };
        assert_eq!(strict.status.code(), Some(code), "{line:?}");
    }
    // Sixteen significant digits are an address, with any number of leading zeros.
    let line = "c 1 1.0: ev: 0000ffff88810000000f f\n";
    std::fs::write(dir.join("perf.txt"), line).unwrap();
    let row = ok(&call(dir, &["parse", "perf.txt", "--kernel", "--strict"]));
    let address = 0xffff_8881_0000_000f_u64;
    assert!(row.contains(&format!("\"address\":{address},")), "{row}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failed_output() {
    let folder = folder();
    for words in [
        ["parse", "perf.txt", "--json"],
        ["analyse", "perf.txt", "--quiet"],
        ["analyse", "perf.txt", "--json"],
    ] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = command(folder.path(), &words)
            .stdout(full)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{words:?}: {said}");
        let told = said.to_lowercase().matches("no space left").count();
        assert_eq!(told, 1, "{said}");
    }
}

#[test]
fn nothing_to_read_is_a_result() {
    let folder = folder();
    let dir = folder.path();
    std::fs::write(dir.join("empty.txt"), "").unwrap();
    let found = json(&call(dir, &["analyse", "empty.txt", "--json"]));
    assert_eq!(found["analysis"]["rows"], 0);
    assert_eq!(found["retention_summary"]["rows"], Value::Array(Vec::new()));
    let mrm = ["analyse", "empty.txt", "--json", "--compat", "mrm-0.1"];
    assert_eq!(json(&call(dir, &mrm)), serde_json::json!({}));
    let text = ok(&call(dir, &["analyse", "empty.txt"]));
    assert_eq!(text, "0 rows, 0 regions, 0 types\n");
    ok(&call(dir, &["export", "empty.txt", "-o", "run"]));
    assert!(ok(&call(dir, &["check", "run"])).contains("fine"));
}

#[test]
fn what_is_cut_off_is_counted_and_strict_refuses() {
    let folder = folder();
    let dir = folder.path();
    let text = capture(5);
    let cut = &text[..text.len() - 70];
    std::fs::write(dir.join("cut.txt"), cut).unwrap();
    let output = call(dir, &["analyse", "cut.txt", "--json"]);
    let found = json(&output);
    assert_eq!(found["input"]["rows"], 9);
    assert!(!found["input"]["skipped"].as_object().unwrap().is_empty());
    assert_eq!(
        call(dir, &["analyse", "cut.txt", "--strict"]).status.code(),
        Some(3)
    );
    // Comments and blank lines are normal in a file.
    ok(&call(dir, &["analyse", "perf.txt", "--strict"]));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = folder();
    let dir = folder.path();
    std::fs::write(dir.join("long.txt"), capture(5).repeat(5000)).unwrap();
    let mut child = command(dir, &["parse", "long.txt"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("panicked") && said.is_empty(), "{said}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_command_leaves_nothing() {
    let folder = folder();
    let dir = folder.path();
    for words in [
        &["parse", "-", "-o", "rows.jsonl"][..],
        &["label", "-", "-o", "rows.parquet"],
        &["export", "-", "-o", "run"],
    ] {
        let mut child = command(dir, words)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // More than the bytes needed to detect the format.
        pipe.write_all(capture(5).repeat(100).as_bytes()).unwrap();
        let place = dir.join(if words.contains(&"run") { "run" } else { "." });
        let hidden = || {
            std::fs::read_dir(&place)
                .into_iter()
                .flatten()
                .filter(|entry| {
                    let name = entry.as_ref().unwrap().file_name();
                    name.to_string_lossy().ends_with(".tmp")
                })
                .count()
        };
        // It waits for more input with its output open.
        let start = std::time::Instant::now();
        while hidden() == 0 {
            assert!(
                start.elapsed().as_secs() < 60,
                "{words:?}: no output was opened"
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let id = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &id])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(child.wait().unwrap().code(), None, "ended by the signal");
        assert_eq!(hidden(), 0, "{words:?}");
        drop(pipe);
    }
    assert!(!dir.join("rows.jsonl").exists());
    assert!(!dir.join("run/manifest.json").exists());
}

const CONFIG: &str = "experiment: {name: demo}\nmodels: [{id: m1, engine: vllm, hf_repo: a/b}]\nsweep: {repetitions: 2, warmup_runs: 1}\n";

#[test]
fn experiments_are_validated_and_planned() {
    let folder = folder();
    let dir = folder.path();
    std::fs::write(dir.join("good.yaml"), CONFIG).unwrap();
    let text = ok(&call(dir, &["validate", "--config", "good.yaml"]));
    assert!(text.contains("Config is valid."), "{text}");
    let plan = json(&call(dir, &["plan", "--config", "good.yaml", "--json"]));
    assert_eq!(plan["runs"].as_array().unwrap().len(), 3);
    assert_eq!(plan["runs"][0]["is_warmup"], true);
    let text = ok(&call(dir, &["plan", "--config", "good.yaml"]));
    assert!(
        text.contains("Total runs : 3  (1 warmup, 2 actual)"),
        "{text}"
    );
    std::fs::write(dir.join("bad.yaml"), CONFIG.replace("vllm", "tgi")).unwrap();
    let output = call(dir, &["validate", "--config", "bad.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("models.0.engine"));
    for name in ["missing.yaml", "bad.yaml"] {
        for command in ["validate", "plan", "run"] {
            let output = call(dir, &[command, "--config", name]);
            assert_eq!(output.status.code(), Some(1), "{command} {name}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_is_run_and_watched() {
    let folder = folder();
    let dir = folder.path();
    let words = ["run", "--collector", "monitor", "-o", "out", "--json", "--"];
    let missing = [&words[..], &["no-such-program-here"]].concat();
    fails(dir, &missing, 4);
    let result = json(&call(dir, &[&words[..], &["sleep", "0.4"]].concat()));
    assert_eq!(result["runs"][0]["exit_code"], 0);
    // A second run with that name changes nothing.
    let before = std::fs::read(dir.join("out/metadata.json")).unwrap();
    assert!(fails(dir, &[&words[..], &["true"]].concat(), 2).contains("new folder"));
    assert_eq!(
        std::fs::read(dir.join("out/metadata.json")).unwrap(),
        before
    );
    let unnamed = ["run", "--collector", "monitor", "--", "true"];
    for folder in ["results/run", "results/run-2", "results/run-3"] {
        assert!(ok(&call(dir, &unnamed)).contains(&format!("in {folder}\n")));
        assert!(dir.join(folder).join("manifest.json").is_file());
    }
    assert_eq!(result["runs"][0]["collector"], "monitor");
    assert!(dir.join("out/raw/process_monitor.csv").is_file());
    assert!(ok(&call(dir, &["check", "out"])).contains("fine"));
    let failing = ["run", "--collector", "monitor", "--", "false"];
    assert_eq!(call(dir, &failing).status.code(), Some(1));
    fails(dir, &["run"], 2);
    let nobody = ["run", "--collector", "nothing", "-o", "none", "--", "true"];
    fails(dir, &nobody, 4);
}

#[test]
fn the_machine_and_the_version_are_told() {
    let folder = folder();
    let output = call(folder.path(), &["doctor", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let code = output.status.code().unwrap();
    assert_eq!(found["exit_code"].as_i64(), Some(i64::from(code)));
    let checks = found["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 17);
    for check in checks {
        let members: Vec<&str> = check
            .as_object()
            .unwrap()
            .keys()
            .map(|key| &**key)
            .collect();
        for member in ["name", "status", "detail", "remediation", "data"] {
            assert!(members.contains(&member), "{check}");
        }
    }
    let disk = checks.iter().find(|check| check["name"] == "disk").unwrap();
    assert!(disk["data"]["free_bytes"].is_u64(), "{disk}");
    let text = call(folder.path(), &["doctor"]).stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let version = json(&call(folder.path(), &["version", "--json"]));
    let spelled = ["version", "--format", "json"];
    assert_eq!(json(&call(folder.path(), &spelled)), version);
    assert_eq!(version["memtrace"], env!("CARGO_PKG_VERSION"));
    assert!(ok(&call(folder.path(), &["version"])).starts_with("memtrace "));
}

/// Returns the phases of a run.
fn phases_of(folder: &Path) -> (Vec<String>, String) {
    let text = std::fs::read(folder.join("raw/phases.json")).unwrap();
    let found: Value = serde_json::from_slice(&text).unwrap();
    let metadata = std::fs::read(folder.join("metadata.json")).unwrap();
    let metadata: Value = serde_json::from_slice(&metadata).unwrap();
    assert_eq!(metadata["phases"], found);
    let names = found["phase_boundaries"].as_array().unwrap().iter();
    let names = names.map(|phase| phase["phase"].as_str().unwrap().to_owned());
    (
        names.collect(),
        found["source"].as_str().unwrap().to_owned(),
    )
}

#[cfg(target_os = "linux")]
#[test]
fn phases_are_marked_through_the_pipe_and_by_the_output() {
    let folder = folder();
    let dir = folder.path();
    let run = |options: &[&str], script: &str| {
        let _ = std::fs::remove_dir_all(dir.join("out"));
        let words = [
            &["run", "--collector", "monitor", "-o", "out"],
            options,
            &["--", "sh", "-c", script],
        ];
        let output = call(dir, &words.concat());
        (ok(&output), phases_of(&dir.join("out")))
    };
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(|n| (*n).to_owned()).collect() };
    let (said, found) = run(&[], "true");
    assert_eq!(found, (Vec::new(), "none".to_owned()));
    assert!(said.contains("phases none"), "{said}");
    let marks = "echo phase weight_load start 5 > $MEMTRACE_PHASES; printf 'phase weight_load end 9\\nphase generation start 9' > $MEMTRACE_PHASES; echo bad > $MEMTRACE_PHASES";
    let (_, found) = run(&[], &format!("test -p $MEMTRACE_PHASES && {marks}"));
    // An unterminated last write continues in the next one, and is not a mark.
    assert_eq!(found, (names(&["weight_load"]), "pipe".to_owned()));
    let text = std::fs::read_to_string(dir.join("out/raw/phases.json")).unwrap();
    assert!(text.contains("\"ignored_lines\": 1"), "{text}");
    let (_, found) = run(
        &["--phase-pipe", "here.pipe"],
        "echo phase mine start > here.pipe",
    );
    assert_eq!(found, (names(&["mine"]), "pipe".to_owned()));
    assert!(!dir.join("here.pipe").exists());
    let script = "echo loading; sleep 0.1; echo 'eval: 17 tokens' >&2; sleep 0.1; echo bye.";
    let regex = [
        "--phase-regex",
        "generation=eval: +[0-9]+ tok",
        "--phase-mark",
        "teardown=bye.",
    ];
    let (_, found) = run(&regex, script);
    let expected = names(&["weight_load", "generation", "teardown"]);
    assert_eq!(found, (expected, "output".to_owned()));
    // Mistakes are reported before anything runs.
    for mark in ["generation=(", "generation", "=x"] {
        let words = [
            "run",
            "-o",
            "none",
            "--phase-regex",
            mark,
            "--collector",
            "monitor",
        ];
        let said = fails(dir, &[&words[..], &["--", "true"]].concat(), 2);
        assert!(said.contains(mark), "{said}");
        assert!(!dir.join("none").exists());
    }
    let taken = [
        "run",
        "-o",
        "taken",
        "--phase-pipe",
        "perf.txt",
        "--collector",
        "monitor",
    ];
    assert!(fails(dir, &[&taken[..], &["--", "true"]].concat(), 5).contains("phase pipe"));
    assert_eq!(
        std::fs::read_to_string(dir.join("perf.txt")).unwrap(),
        capture(5)
    );
}

/// An interrupt ends the engine, and the collected data becomes the run.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let words = ["run", "--collector", "monitor", "-o", "out", "--json", "--"];
    let engine = ["sh", "-c", "echo ready > ready; sleep 300"];
    let child = command(dir, &[&words[..], &engine].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = std::time::Instant::now();
    while !dir.join("ready").exists() {
        assert!(start.elapsed().as_secs() < 60, "the engine did not start");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let kill = ["-INT", &child.id().to_string()];
    assert!(Command::new("kill").args(kill).status().unwrap().success());
    let result = json(&child.wait_with_output().unwrap());
    assert_eq!(result["runs"][0]["interrupted"], true);
    assert_eq!(result["runs"][0]["exit_code"], Value::Null);
    assert!(ok(&call(dir, &["check", "out"])).contains("fine"));
}

/// Quantiles of a sketch are within the stated error, and everything else is unchanged.
#[test]
fn approximate_quantiles_are_within_their_error() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (mut text, mut time) = (String::new(), 0_u64);
    for at in 0..90_000_u64 {
        time += 1000 + at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 9_000_000;
        let event = if at % 5 == 0 {
            "mem-stores"
        } else {
            "mem-loads"
        };
        let (second, part) = (time / 1_000_000_000, time % 1_000_000_000);
        let address = 0x7f3a_0000_0000 + at * 31 % 97 * 8;
        let _ = writeln!(
            text,
            "c 1 [0] {second}.{part:09}: {event}: {address:x} kv_update (/x.so)"
        );
    }
    std::fs::write(dir.join("many.txt"), text).unwrap();
    let words = ["analyse", "many.txt", "--json", "--kv-block", "4K"];
    let exact = json(&call(dir, &words));
    let near = call(dir, &[&words[..], &["--approx"]].concat());
    let other = call(
        dir,
        &[
            &words[..],
            &["--approx", "--memory", "1M", "--threads", "2"],
        ]
        .concat(),
    );
    assert_eq!(near.stdout, other.stdout);
    let near = json(&near);
    let bound = near["analysis"]["quantile_relative_error"]
        .as_f64()
        .unwrap();
    assert!(exact["analysis"]["quantile_relative_error"].is_null() && bound < 0.0011);
    let columns = ["iai_p50_ns", "iai_p90_ns", "iai_p99_ns"];
    let mut differ = 0;
    for column in columns {
        let of = |found: &Value| cell(found, "iai", "kv_cache", column).as_f64().unwrap();
        let (found, truth) = (of(&near), of(&exact));
        assert!(
            (found - truth).abs() <= bound * truth + 1.0,
            "{column}: {found} {truth}"
        );
        differ += usize::from(found.to_bits() != truth.to_bits());
    }
    assert!(differ > 0, "a sketch was asked for");
    assert_eq!(near["retention_summary"], exact["retention_summary"]);
    assert_eq!(near["read_freq"], exact["read_freq"]);
    let said = ok(&call(dir, &["analyse", "many.txt", "--approx"]));
    assert!(said.contains("within 0.10 percent"), "{said}");
    fails(
        dir,
        &["analyse", "many.txt", "--approx", "--compat", "mrm-0.1"],
        2,
    );
}

/// Phases without marks are inferred on demand, and marked as inferred.
#[test]
fn phases_are_inferred_on_demand() {
    let folder = folder();
    let dir = folder.path();
    let mut text = String::new();
    for at in 0..4000_u64 {
        let (event, page) = if at < 1000 {
            ("mem-stores", at)
        } else {
            ("mem-loads", at * 7 % 1000)
        };
        let (second, part) = (at / 100, at % 100 * 10);
        let address = 0x7f3a_0000_0000 + page * 4096;
        let _ = writeln!(
            text,
            "c 1 [0] {second}.{part:03}: {event}: {address:x} memcpy (/x.so)"
        );
    }
    std::fs::write(dir.join("load.txt"), text).unwrap();
    let words = ["analyse", "load.txt", "--infer-phases", "--json"];
    let output = call(dir, &words);
    let found = json(&output);
    assert_eq!(found["phases"]["source"], "inferred");
    let end = found["phases"]["phase_boundaries"][0]["end_ns"]
        .as_u64()
        .unwrap();
    assert!(end.abs_diff(10_000_000_000) < 50_000_000, "{end}");
    // Stores while the model is loaded are to weights.
    let weights = cell(&found, "working_set_summary", "weight", "total_pages");
    assert_eq!(*weights, 1000);
    assert!(String::from_utf8_lossy(&output.stderr).contains("phases inferred"));
    ok(&call(
        dir,
        &[
            "export",
            "load.txt",
            "--infer-phases",
            "--no-figures",
            "-o",
            "run",
        ],
    ));
    let metadata = std::fs::read(dir.join("run/metadata.json")).unwrap();
    let metadata: Value = serde_json::from_slice(&metadata).unwrap();
    assert_eq!(metadata["phases"], found["phases"]);
    // Without the option nothing is inferred, and if nothing can be found this is reported.
    assert!(json(&call(dir, &["analyse", "load.txt", "--json"]))["phases"].is_null());
    let none = call(dir, &["analyse", "perf.txt", "--infer-phases"]);
    ok(&none);
    assert!(String::from_utf8_lossy(&none.stderr).contains("no phases found"));
    fails(dir, &["analyse", "-", "--infer-phases"], 2);
    fails(
        dir,
        &["analyse", "load.txt", "--infer-phases", "--follow"],
        2,
    );
}

fn testdata(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/memtrace");
    folder.join(name).display().to_string()
}

/// Symbols are meaningless here; the mappings identify the touched tensor.
#[test]
fn tensors_are_found_in_the_mappings() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let [rows, maps, gguf, torch, truth] = [
        "mapped.perf.txt",
        "mapped.maps.txt",
        "demo.gguf",
        "demo.safetensors",
        "mapped.truth.json",
    ]
    .map(testdata);
    let models = ["--maps", &maps, "--model", &gguf, "--model", &torch];
    let out = ["label", &rows, "-o", "rows.parquet"];
    ok(&call(dir, &[&out[..], &models].concat()));
    let found = json(&call(dir, &["analyse", "rows.parquet", "--json"]));
    let truth: Value = serde_json::from_slice(&std::fs::read(truth).unwrap()).unwrap();
    let planted = |wanted: &dyn Fn(&str) -> bool| -> u64 {
        let owners = truth["owners"].as_object().unwrap();
        owners
            .iter()
            .filter(|(owner, _)| wanted(owner))
            .map(|(_, counts)| {
                counts["loads"].as_u64().unwrap() + counts["stores"].as_u64().unwrap()
            })
            .sum()
    };
    let sum_of = |region_type: &str| -> u64 {
        let rows = found["read_freq"]["rows"].as_array().unwrap();
        rows.iter()
            .filter(|row| row["region_type"] == region_type)
            .map(|row| row["total_accesses"].as_u64().unwrap())
            .sum()
    };
    assert_eq!(
        sum_of("weight"),
        planted(&|owner| owner.contains(".weight"))
    );
    assert_eq!(sum_of("kv_cache"), planted(&|owner| owner == "kv_cache"));
    assert_eq!(sum_of("unknown"), planted(&|owner| owner == "unknown"));

    // Unusable options are reported.
    fails(dir, &["label", &rows, "--model", &gguf], 2);
    let mixed = format!("5={maps}");
    assert!(fails(dir, &["label", &rows, "--maps", &mixed], 2).contains("times of its own"));
    let bytes = std::fs::read(&gguf).unwrap();
    std::fs::write(dir.join("cut.gguf"), &bytes[..200]).unwrap();
    std::fs::write(dir.join("short.gguf"), &bytes[..bytes.len() - 1000]).unwrap();
    let with = |model: &str, code: i32| {
        let words = [
            "label",
            &rows,
            "-o",
            "x.parquet",
            "--maps",
            &maps,
            "--model",
            model,
        ];
        fails(dir, &words, code)
    };
    assert!(with("cut.gguf", 3).contains("ends within its header"));
    assert!(with("short.gguf", 3).contains("beyond the end"));
    assert!(with(&rows, 3).contains("not recognised"));
    with("missing.gguf", 3);
    assert!(fails(dir, &["label", &rows, "--maps", &rows], 3).contains("line 1"));
    assert!(!dir.join("x.parquet").exists());
}

/// A script replaces llama.cpp: it is started like llama.cpp, and observed.
#[cfg(target_os = "linux")]
#[test]
fn an_engine_of_a_configuration_is_started_and_its_files_are_kept() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    std::fs::create_dir(dir.join("bin")).unwrap();
    let engine = dir.join("bin/llama-cli");
    std::fs::write(&engine, "#!/bin/sh\necho \"asked: $*\"\necho 'prompt eval time =  9.5 ms /  5 tokens ( x' >&2\necho '   eval time = 2000.0 ms /   7 runs ( x' >&2\nsleep 0.5\n").unwrap();
    std::fs::set_permissions(&engine, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::copy(testdata("demo.gguf"), dir.join("demo.gguf")).unwrap();
    let config = |prompts: &str| {
        let text = format!(
            "experiment: {{name: demo}}\nmodels: [{{id: tiny, engine: llamacpp, path: demo.gguf}}]\nsweep: {{context_lengths: [64], output_tokens: [7]}}\ncollector: {{primary: process_monitor, fallback: null, fallback_2: null}}\noutput: {{base_dir: results}}\n{prompts}"
        );
        std::fs::write(dir.join("config.yaml"), text).unwrap();
    };
    let run = || {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", dir.join("bin").display());
        let words = ["run", "--config", "config.yaml", "--json"];
        command(dir, &words).env("PATH", path).output().unwrap()
    };
    std::fs::write(dir.join("prompt.txt"), "Why is the sky blue?").unwrap();
    config("prompts: {source: prompt.txt}\n");
    let done = json(&run());
    assert_eq!(done["runs"][0]["exit_code"], 0);
    assert_eq!(done["runs"][0]["collector"], "process_monitor");
    let kept = dir.join(done["runs"][0]["folder"].as_str().unwrap());
    let log = std::fs::read_to_string(kept.join("raw/engine.stdout.log")).unwrap();
    assert_eq!(
        log,
        "asked: -m demo.gguf -p Why is the sky blue? -n 7 -c 64 --no-display-prompt\n"
    );
    // The prompt and the output are kept, with the token counts of the engine.
    let prompts = std::fs::read(kept.join("prompt_outputs.json")).unwrap();
    let prompts: Value = serde_json::from_slice(&prompts).unwrap();
    let prompt = &prompts["prompts"][0];
    assert_eq!(prompt["prompt"], "Why is the sky blue?");
    assert_eq!(
        (prompt["output"] == log, &prompt["tokens_generated"]),
        (true, &7.into())
    );
    let metadata = std::fs::read(kept.join("metadata.json")).unwrap();
    let metadata: Value = serde_json::from_slice(&metadata).unwrap();
    let generation = &metadata["generation"];
    assert_eq!(generation["total_output_tokens"], 7);
    assert_eq!(generation["avg_tokens_per_second"], 3.5);
    for (part, member) in [
        ("hardware", "cpu_model"),
        ("hardware_context", "pmu_facility_available"),
        ("software", "kernel"),
        ("baseline", "cpu_pct_max"),
        ("collector", "output_file_size_bytes"),
    ] {
        assert!(
            !metadata[part][member].is_null(),
            "{part}.{member}: {metadata}"
        );
    }
    assert_eq!(metadata["collector"]["sample_period"], Value::Null);
    // The script and the `sleep` it starts are observed, and their mappings kept.
    let monitor = std::fs::read_to_string(kept.join("raw/process_monitor.csv")).unwrap();
    assert!(
        monitor.starts_with("t_s,pid,cpu_pct,rss_mb,vms_mb,"),
        "{monitor}"
    );
    assert!(monitor.lines().count() >= 4, "{monitor}");
    let maps = std::fs::read_to_string(kept.join("raw/maps.txt")).unwrap();
    assert!(
        maps.starts_with("# pid ") && maps.contains("\n# time_ns "),
        "{maps}"
    );

    // If prompts cannot be read, no other prompt is used.
    config("prompts: {source: missing.txt}\n");
    let output = run();
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("missing.txt"), "{said}");
    let told = call(dir, &["validate", "--config", "config.yaml"]);
    assert!(ok(&told).contains("[WARN]  prompts.source: missing.txt"));
}

/// Lackey gives addresses of instructions, and a table of symbols maps these to functions.
#[test]
fn instructions_are_named_and_accesses_split_at_lines() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let text = "==1== Lackey, an example Valgrind tool\n\
                I  00401130,3\n S 1ffeff3c,8\nI  00401133,4\n L 1ffeff00,4\n\
                I  00501000,2\n M 1ffeff40,4\nI  00009999,2\n L 1ffefffc,8\n";
    std::fs::write(dir.join("lackey.txt"), text).unwrap();
    std::fs::write(dir.join("nm.txt"), "0000000000401130 T kv_update\n").unwrap();
    std::fs::write(
        dir.join("lib.txt"),
        "0000000000001000 0000000000000010 t ggml_add\n",
    )
    .unwrap();
    let rows = |words: &[&str]| -> Vec<(u64, u64, String)> {
        let all = [&["parse", "lackey.txt", "--strict"], words].concat();
        let text = ok(&call(dir, &all));
        text.lines()
            .map(|line| {
                let row: Value = serde_json::from_str(line).unwrap();
                let symbol = row["symbol"].as_str().unwrap().to_owned();
                (
                    row["address"].as_u64().unwrap(),
                    row["timestamp_ns"].as_u64().unwrap(),
                    symbol,
                )
            })
            .collect()
    };
    let row = |address, time, symbol: &str| (address, time, symbol.to_owned());
    let symbols = ["--symbols", "nm.txt", "--symbols", "500000=lib.txt"];
    let expected = [
        row(0x1ffe_ff3c, 1, "kv_update"),
        row(0x1ffe_ff00, 2, "kv_update"),
        row(0x1ffe_ff40, 3, "ggml_add"),
        row(0x1ffe_ff40, 3, "ggml_add"),
        row(0x1ffe_fffc, 4, ""),
    ];
    assert_eq!(rows(&symbols), expected);
    // Without symbols nothing is named; when split, an access across two lines counts in both.
    let split: Vec<u64> = rows(&["--split-bytes", "64"])
        .iter()
        .map(|row| row.0)
        .collect();
    let pieces = [
        0x1ffe_ff3c,
        0x1ffe_ff40,
        0x1ffe_ff00,
        0x1ffe_ff40,
        0x1ffe_ff40,
        0x1ffe_fffc,
        0x1fff_0000,
    ];
    assert_eq!(split, pieces);
    assert!(rows(&[]).iter().all(|row| row.2.is_empty()));
    let analysed = |words: &[&str]| {
        let all = [&["analyse", "lackey.txt", "--json"], words].concat();
        json(&call(dir, &all))["types"]["rows"][0]["distinct_lines"].clone()
    };
    assert_eq!(
        (analysed(&[]), analysed(&["--split-bytes", "64"])),
        (3.into(), 4.into())
    );
    // The rules contain the function.
    let labelled = call(dir, &[&["label", "lackey.txt"], &symbols[..]].concat());
    assert_eq!(ok(&labelled).matches("kv_cache").count(), 5);
    let bad = ["parse", "lackey.txt", "--symbols", "lackey.txt"];
    assert!(fails(dir, &bad, 3).contains("has no functions"));
    fails(dir, &["parse", "lackey.txt", "--symbols", "missing"], 3);
}

/// Analysing a growing file gives the same result as the whole file.
#[test]
fn a_text_that_grows_is_followed_to_its_end() {
    let folder = folder();
    let dir = folder.path();
    let text = capture(9);
    std::fs::write(dir.join("whole.txt"), &text).unwrap();
    // The first part ends within a line.
    let (first, rest) = text.split_at(text.len() / 2 + 7);
    std::fs::write(dir.join("grows.txt"), first).unwrap();
    let words = ["--kv-block", "4K", "--run-id", "r", "--json"];
    let mut following = command(
        dir,
        &["analyse", "grows.txt", "--follow", "--until-quiet", "4"],
    );
    let child = following
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(dir.join("grows.txt"))
        .unwrap();
    file.write_all(rest.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("weight "), "{said}");
    let followed = json(&output);
    let whole = json(&call(
        dir,
        &[&["analyse", "whole.txt"][..], &words].concat(),
    ));
    assert_eq!(followed, whole);
    fails(dir, &["analyse", "-", "--follow"], 2);
    fails(dir, &["analyse", "whole.txt", "--until-quiet", "1"], 2);
}
