//! Tests the tool from its command line: formats, the gate, exit codes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panic"
)]

#[path = "../../../crates/perf-compare/examples/calibrate/simulate.rs"]
#[expect(dead_code, reason = "the calibration uses more of it")]
mod simulate;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use report::{Cell, Column, ParquetWriter, RowSink as _, SchemaVersion};
use serde_json::Value;
use simulate::World;

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_perf-compare"))
        .args(words)
        .output()
        .unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn world(cycles: usize) -> World {
    World {
        cycles,
        ..World::default()
    }
}

/// Writes one side in the published layout.
fn side(folder: &Path, world: &World, seed: u64) {
    fs::create_dir_all(folder).unwrap();
    let (perf, counters) = world.files(seed);
    fs::write(folder.join("result_perf_data.csv"), perf).unwrap();
    fs::write(folder.join("result_counters_data.csv"), counters).unwrap();
}

/// Returns rows of a serving benchmark: latency in milliseconds and throughput, `n` samples, `more`
/// percent slower.
fn rows(n: u32, more: f64, noise: f64) -> Vec<(&'static str, &'static str, f64, u32)> {
    (0..n)
        .flat_map(|i| {
            let wave = f64::from((i * 7) % 11) / 5.0 - 1.0;
            let latency = 10.0 * (1.0 + more / 100.0) * (1.0 + noise * wave);
            [
                ("ttft", "ms", latency, i),
                ("throughput", "1/s", 1000.0 / latency, i),
            ]
        })
        .collect()
}

fn csv(path: &Path, rows: &[(&str, &str, f64, u32)]) {
    let mut out = String::from("metric,unit,value,group,run,cycle\n");
    for (metric, unit, value, cycle) in rows {
        writeln!(out, "{metric},{unit},{value},chat,1,{cycle}").unwrap();
    }
    fs::write(path, out).unwrap();
}

fn parquet(path: &Path, rows: &[(&str, &str, f64, u32)]) {
    let file = fs::File::create(path).unwrap();
    let mut out = ParquetWriter::new(file, SchemaVersion::new(1, 0));
    let columns = [
        Column::text("metric"),
        Column::text("unit"),
        Column::real("value"),
        Column::text("group"),
        Column::uint("run"),
        Column::uint("cycle"),
    ];
    out.begin(&columns).unwrap();
    for (metric, unit, value, cycle) in rows {
        out.row(&[
            Cell::from(*metric),
            Cell::from(*unit),
            Cell::from(*value),
            Cell::from("chat"),
            Cell::from(1_u64),
            Cell::from(u64::from(*cycle)),
        ])
        .unwrap();
    }
    out.finish().unwrap();
}

#[test]
fn every_format_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    side(&a, &world(25), 1);
    let slow = World {
        kernel: |_, name| if name == "gemm_b" { 1.3 } else { 1.0 },
        ..world(25)
    };
    side(&b, &slow, 2);
    let call = |more: &[&str]| {
        let mut words = vec![text(&a), text(&b), "--permutations", "999"];
        words.extend(more);
        let output = run(&words);
        assert_eq!(code(&output), 0, "{output:?}");
        output
    };
    let report = json(&call(&["--format", "json"]));
    for key in ["schema_version", "comparability", "verdict", "findings"] {
        assert!(report.get(key).is_some(), "{key}");
    }
    for key in [
        "cause",
        "confidence",
        "on_critical_path",
        "evidence",
        "ruled_out",
        "runner_up",
    ] {
        assert!(report["verdict"].get(key).is_some(), "{key}");
    }
    assert_eq!(report["verdict"]["cause"], "gpu_kernel");
    assert_eq!(report["findings"][0]["name"], "gemm_b");
    assert_eq!(report["findings"][0]["change"], "slower");
    // Counters of the device on which the kernel changed are the third level.
    let third = report["counter_findings"].as_array().unwrap();
    assert!(third.iter().any(|c| c["metric"] == "gpu_sm_frequency"
        && c["verdict"] == "equivalent"
        && c["functions"][0] == "f1"));

    let shown = stdout(&call(&[]));
    assert!(shown.lines().count() <= 25, "{shown}");
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    assert!(shown.contains("cause: gpu_kernel"));
    let table = stdout(&call(&["--format", "csv"]));
    assert!(table.starts_with("id,kind,cycle_type,name"));
    assert!(table.lines().nth(1).unwrap().contains(",gemm_b,"));
    let md = stdout(&call(&["--format", "md"]));
    assert!(md.starts_with("## Performance") && md.contains("`gemm_b"));

    let page = folder.path().join("page.html");
    let file = folder.path().join("report.json");
    let output = call(&["--html", text(&page), "--json", "-o", text(&file)]);
    assert!(output.stdout.is_empty());
    let written: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(written, report);
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("<svg") && html.contains("gemm_b") && html.contains("gpu_kernel"));
    let outside = ["src=\"http", "href=\"http", "@import", "url(http"];
    assert!(
        outside.iter().all(|mark| !html.contains(mark)),
        "the page needs the network"
    );
}

#[test]
fn parquet_and_csv_tables_of_samples_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    csv(&at("a.csv"), &rows(30, 0.0, 0.01));
    csv(&at("b.csv"), &rows(30, 8.0, 0.01));
    parquet(&at("a.parquet"), &rows(30, 0.0, 0.01));
    parquet(&at("b.parquet"), &rows(30, 8.0, 0.01));
    let judge = |a: &str, b: &str| {
        let output = run(&[text(&at(a)), text(&at(b)), "--json"]);
        assert_eq!(code(&output), 0, "{output:?}");
        json(&output)["findings"].clone()
    };
    let plain = judge("a.csv", "b.csv");
    assert_eq!(plain.as_array().unwrap().len(), 2);
    assert_eq!(plain[0]["change"], "slower");
    assert_eq!(plain, judge("a.parquet", "b.parquet"));
    assert_eq!(plain, judge("a.csv", "b.parquet"));

    let mut cut = fs::read(at("a.parquet")).unwrap();
    cut.truncate(cut.len() / 2);
    fs::write(at("cut.parquet"), cut).unwrap();
    let output = run(&[text(&at("cut.parquet")), text(&at("b.csv"))]);
    assert_eq!(code(&output), 3);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("cut.parquet") && said.contains("Parquet"),
        "{said}"
    );
}

#[test]
fn the_gate_passes_fails_and_stays_open() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    csv(&at("main.csv"), &rows(40, 0.0, 0.01));
    csv(&at("same.csv"), &rows(44, 0.0, 0.01));
    csv(&at("slow.csv"), &rows(40, 6.0, 0.01));
    csv(&at("fast.csv"), &rows(40, -6.0, 0.01));
    csv(&at("noisy.csv"), &rows(8, 0.0, 0.4));
    csv(&at("few.csv"), &rows(3, 0.0, 0.01));
    let gate = |candidate: &str, more: &[&str]| {
        let (baseline, candidate) = (at("main.csv"), at(candidate));
        let mut words = vec!["--gate", "--baseline", text(&baseline), text(&candidate)];
        words.extend(more);
        run(&words)
    };
    let regressed = ["--fail-on", "regressed", "--min-effect", "2%"];
    assert_eq!(code(&gate("same.csv", &regressed)), 0);
    for (file, exit_code, said) in [
        ("slow.csv", 1, "gate: failed\n"),
        ("fast.csv", 0, "gate: passed\n"),
    ] {
        let out = gate(file, &regressed);
        assert_eq!(code(&out), exit_code);
        assert_eq!(String::from_utf8_lossy(&out.stderr), said);
    }
    assert_eq!(
        code(&gate(
            "fast.csv",
            &["--fail-on", "changed", "--min-effect", "2%"]
        )),
        1
    );
    assert_eq!(code(&gate("noisy.csv", &regressed)), 4);
    assert_eq!(code(&gate("few.csv", &regressed)), 4);
    // Significant, but smaller than the requested effect.
    assert_ne!(code(&gate("slow.csv", &["--min-effect", "20%"])), 1);
    // Without a minimum effect, significance decides.
    assert_eq!(code(&gate("same.csv", &[])), 0);
    assert_eq!(code(&gate("slow.csv", &[])), 1);

    let (junit, md) = (at("junit.xml"), at("pr.md"));
    let files = ["--junit", text(&junit), "--markdown", text(&md)];
    assert_eq!(
        code(&gate("slow.csv", &[&regressed[..], &files].concat())),
        1
    );
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(
        xml.contains("tests=\"2\" failures=\"2\" skipped=\"0\""),
        "{xml}"
    );
    assert!(xml.contains("<failure message=\"changed by at least"));
    let md_text = fs::read_to_string(&md).unwrap();
    let row = md_text.lines().find(|line| line.contains("`ttft`"));
    // Both sides and their difference have the unit.
    assert_eq!(
        row.map(|row| row.matches(" ms").count()),
        Some(3),
        "{md_text}"
    );
    gate("noisy.csv", &[&regressed[..], &files].concat());
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(
        xml.contains("failures=\"0\"") && xml.contains("<skipped"),
        "{xml}"
    );
}

#[test]
fn a_baseline_is_saved_and_used_in_place_of_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    side(&at("good"), &world(30), 1);
    side(&at("again"), &world(30), 2);
    let slow = World {
        kernel: |_, name| if name.starts_with("gemm") { 1.3 } else { 1.0 },
        ..world(30)
    };
    side(&at("slow"), &slow, 3);
    let (good, again, slow, saved) = (at("good"), at("again"), at("slow"), at("baseline.csv"));
    let first = run(&[text(&good), text(&again), "--save-baseline", text(&saved)]);
    assert_eq!(code(&first), 0);
    let gate = |candidate: &Path| {
        code(&run(&[
            "--gate",
            "--baseline",
            text(&saved),
            text(candidate),
            "--min-effect",
            "2%",
            "--fail-on",
            "regressed",
        ]))
    };
    assert_eq!(gate(&slow), 1);
    assert_eq!(gate(&good), 0);
}

#[test]
fn other_anchors_stop_unless_forced_or_declared_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    side(&a, &world(20), 1);
    let other = World {
        anchor: "Engine.step",
        ..world(20)
    };
    side(&b, &other, 2);
    let stopped = run(&[text(&a), text(&b), "--json"]);
    assert_eq!(code(&stopped), 4);
    let report = json(&stopped);
    assert_eq!(report["comparability"]["status"], "not-comparable");
    assert_eq!(report["findings"].as_array().unwrap().len(), 0);
    let forced = run(&[text(&a), text(&b), "--json", "--force"]);
    assert_eq!(code(&forced), 0);
    assert!(!json(&forced)["findings"].as_array().unwrap().is_empty());
    for same in [
        "Scheduler.run_batch=Engine.step",
        "Engine.step=Scheduler.run_batch",
    ] {
        let declared = run(&[text(&a), text(&b), "--json", "--same-anchor", same]);
        assert_eq!(code(&declared), 0);
        let report = json(&declared);
        assert_eq!(
            report["comparability"]["status"],
            "comparable-with-warnings"
        );
        assert_eq!(report["comparability"]["forced"], false);
    }
    assert_eq!(code(&run(&[text(&a), text(&b), "--same-anchor", "x"])), 2);
}

#[test]
fn wrong_usage_and_missing_files() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.csv");
    assert_eq!(code(&run(&[text(&missing), text(&missing)])), 3);
    assert_eq!(code(&run(&[text(folder.path()), text(folder.path())])), 3);
    assert_eq!(code(&run(&[text(&missing)])), 2);
    assert_eq!(code(&run(&["a", "b", "--no-such-option"])), 2);
    let twice = run(&["-", "-"]);
    assert_eq!(code(&twice), 2);
    assert!(String::from_utf8_lossy(&twice.stderr).contains("one of the two inputs"));
    let out = folder.path().join("out");
    let nothing = run(&["--compat", text(folder.path()), "-o", text(&out)]);
    assert_ne!(code(&nothing), 0);
}

#[test]
fn a_users_signatures_name_causes_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    side(&a, &world(20), 1);
    side(
        &b,
        &World {
            net_bps: 5e6,
            ..world(20)
        },
        2,
    );
    let own = folder.path().join("own.toml");
    fs::write(
        &own,
        "[[signature]]\ncause = 'chatty_sidecar'\ncovers = 'A sidecar that talks too much.'\nspecificity = 1.0\nneed = [ { metric = 'net_tx_rate', direction = 'up', pct = 200 } ]\n",
    )
    .unwrap();
    let report = json(&run(&[
        text(&a),
        text(&b),
        "--json",
        "--signatures",
        text(&own),
    ]));
    assert_eq!(report["verdict"]["cause"], "chatty_sidecar");
    fs::write(&own, "nonsense").unwrap();
    assert_eq!(
        code(&run(&[text(&a), text(&b), "--signatures", text(&own)])),
        2
    );
    let printed = stdout(&run(&["--print-signatures"]));
    assert!(printed.contains("cause = \"gpu_frequency\""));
}

#[test]
fn the_published_comparison_reads_compressed_files_and_names_what_it_writes() {
    let folder = tempfile::tempdir().unwrap();
    let case = folder.path().join("Cases").join("one");
    side(&case.join("normal_perf_data"), &world(12), 1);
    side(&case.join("abnormal_perf_data"), &world(12), 2);
    let out = folder.path().join("out");
    let output = run(&[
        "--compat",
        text(&folder.path().join("Cases")),
        "-o",
        text(&out),
    ]);
    assert_eq!(code(&output), 0, "{output:?}");
    let name = "Cases_one_pid4000_strict_comparison";
    let table = fs::read_to_string(out.join(format!("{name}.csv"))).unwrap();
    assert!(table.starts_with("Function Name,Metric Name,Device,Suspicion Score,"));
    assert!(out.join(format!("{name}.md")).is_file());
}

/// Writes one result of a benchmark, with the values of `n` requests.
fn result(path: &Path, model: &str, rate: f64, ttft: f64) {
    let values: Vec<String> = (0..40)
        .map(|i| format!("{}", ttft * (1.0 + 0.01 * f64::from(i * 7 % 11))))
        .collect();
    let text = format!(
        r#"{{"backend":"vllm","model_id":"{model}","num_prompts":40,"request_rate":{rate},"max_concurrency":8,"ttfts":[{}]}}"#,
        values.join(",")
    );
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn results_of_benchmarks_are_compared_like_with_like() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // A sweep of two rates on each side: slower at the higher one only.
    for (side, slower) in [("a", 1.0), ("b", 1.5)] {
        result(&path(&format!("{side}/rate4.json")), "llama", 4.0, 0.2);
        result(
            &path(&format!("{side}/rate8.json")),
            "llama",
            8.0,
            0.5 * slower,
        );
    }
    let output = run(&[text(&path("a")), text(&path("b"))]);
    let said = stdout(&output);
    assert_eq!(code(&output), 0, "{said}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.starts_with("TTFT at request_rate 8 is 50.0 % higher"),
        "{said}"
    );
    assert!(!said.contains("TTFT at request_rate 4"), "{said}");

    // Another load, or another model, is no comparison.
    result(&path("c.json"), "llama", 16.0, 0.2);
    let one = path("a/rate4.json");
    let output = run(&[text(&one), text(&path("c.json"))]);
    assert_eq!(code(&output), 4, "{}", stdout(&output));
    let said = stdout(&output)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(said.contains("request rate 4 -> 16"), "{said}");
    result(&path("d.json"), "qwen", 4.0, 0.2);
    let output = run(&[text(&one), text(&path("d.json")), "--json"]);
    assert_eq!(code(&output), 4);
    assert_eq!(
        json(&output)["comparability"]["reasons"][0]["code"],
        "settings"
    );
    let output = run(&[text(&one), text(&path("d.json")), "--force"]);
    assert_eq!(code(&output), 0);
}

#[test]
fn a_closed_pipe_does_not_pass_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a.csv", "b.csv"].map(|name| folder.path().join(name));
    csv(&a, &rows(40, 0.0, 0.01));
    csv(&b, &rows(40, 30.0, 0.01));
    let mut child = Command::new(env!("CARGO_BIN_EXE_perf-compare"))
        .args([text(&a), text(&b), "--gate"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
