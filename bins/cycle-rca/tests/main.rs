//! The tool as its users call it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

#[path = "../../../xtask/src/dataset/faults/model.rs"]
#[expect(dead_code, reason = "the corpus uses more of it")]
mod model;

use std::path::Path;
use std::process::{Command, Output};

use model::{Config, Fault, KERNELS, make};
use serde_json::Value;

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cycle-rca"))
        .args(words)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn write(path: &Path, config: Config) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, make(config).json).unwrap();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Track, name and duration of everything in a file of tracks, as our reader reads it.
fn spans(path: &Path) -> Vec<(String, String, i64)> {
    let source = byte_source::Source::open(path, &Default::default()).unwrap();
    let trace = perfetto_reader::read(source, &Default::default()).unwrap();
    let each = trace.slices().map(|s| {
        let track = trace.text(s.track().name.unwrap()).to_owned();
        let dur = s.range().duration().get();
        (track, s.name().unwrap_or("").to_owned(), dur)
    });
    each.collect()
}

#[test]
fn analysis_is_the_same_with_any_number_of_threads_and_writes_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    for side in ["a", "b"] {
        let config = Config {
            prefill_every: 20,
            ..Config::default()
        };
        write(&folder.path().join(side).join("result.json"), config);
    }
    let out = folder.path().join("out");
    let one = |threads: &str| {
        let output = run(&[
            "analyse",
            text(folder.path()),
            "--output-dir",
            text(&out),
            "--export-perf-data",
            "--format",
            "json",
            "--threads",
            threads,
        ]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        output
    };
    let first = one("1");
    // The second run does not take the first one's output for input.
    let second = one("4");
    assert_eq!(first.stdout, second.stdout);
    let document = json(&first);
    let jobs = document["jobs"].as_array().unwrap();
    let names: Vec<&str> = jobs.iter().map(|j| j["job"].as_str().unwrap()).collect();
    assert_eq!(names, ["a_result", "b_result"]);
    let cycles = jobs[0]["cycles"].as_array().unwrap();
    assert_eq!(cycles.len(), 60);
    assert_eq!(cycles[5]["phase"], "prefill");
    assert_eq!(cycles[5]["partial"], false);
    let gaps = cycles[5]["gaps"].as_object().unwrap();
    let sum: i64 = gaps.values().map(|v| v.as_i64().unwrap()).sum();
    let length = cycles[5]["end_ns"].as_i64().unwrap() - cycles[5]["start_ns"].as_i64().unwrap();
    assert_eq!(sum, length);
    for name in [
        "a_result_decode_analysis.txt",
        "a_result_decode_perf_data.csv",
        "a_result_prefill_counters_data.csv",
        "b_result_prefill_representative_analysis.txt",
    ] {
        assert!(out.join(name).is_file(), "{name}");
    }
}

#[test]
fn batch_names_the_culprit_and_fails_for_a_failed_side() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("in");
    for (side, fault) in [
        ("normal", Fault::None),
        ("abnormal", Fault::SlowKernel(KERNELS[1].0, 200)),
    ] {
        let config = Config {
            seed: 5,
            fault,
            ..Config::default()
        };
        write(&root.join("x/case1").join(side).join("result.json"), config);
    }
    let out = folder.path().join("out");
    let batch = || run(&["batch", text(&root), "-o", text(&out), "--format", "json"]);
    let output = batch();
    assert_eq!(output.status.code(), Some(0));
    let document = json(&output);
    let case = &document["cases"][0];
    assert_eq!(case["case"], "x/case1");
    assert!(case["error"].is_null());
    assert_eq!(case["culprits"][0]["name"], KERNELS[1].0);
    assert_eq!(case["culprits"][0]["kind"], "kernel");
    assert!(
        out.join("x/case1/abnormal_perf_data/result_perf_data.csv")
            .is_file()
    );
    // A side without a trace fails its case and nothing else.
    std::fs::create_dir_all(root.join("y/normal")).unwrap();
    std::fs::create_dir_all(root.join("y/abnormal")).unwrap();
    let output = batch();
    assert_eq!(output.status.code(), Some(1));
    let document = json(&output);
    assert_eq!(document["cases"].as_array().unwrap().len(), 2);
    assert!(document["cases"][1]["error"].is_string());
    assert!(document["cases"][1]["verdict"].is_null());
}

#[test]
fn batch_takes_every_recording_of_a_side_and_shows_what_it_found() {
    let folder = tempfile::tempdir().unwrap();
    for (side, fault, seed) in [
        ("normal", Fault::None, 5),
        ("abnormal", Fault::SlowKernel(KERNELS[1].0, 150), 9),
    ] {
        for part in 0..2 {
            // Two short recordings each: one alone has too few cycles for the rank test.
            let config = Config {
                seed: seed + part,
                iterations: 7,
                ranks: 2,
                fault,
                ..Config::default()
            };
            let name = format!("part{part}.json");
            write(&folder.path().join(side).join(name), config);
        }
    }
    let out = folder.path().join("out");
    let tracks = folder.path().join("culprits.pftrace");
    let output = run(&[
        "batch",
        text(folder.path()),
        "-o",
        text(&out),
        "--format",
        "json",
        "--perfetto",
        text(&tracks),
    ]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let document = json(&output);
    let case = &document["cases"][0];
    assert_eq!(case["case"], ".");
    assert_eq!(case["phases"][0]["normal_cycles"], 14);
    let first = &case["culprits"][0];
    assert_eq!(first["name"], KERNELS[1].0);
    let explained = &first["explained_by_verdict"];
    match case["verdict"]["cause"].as_str().unwrap() {
        "gpu_kernel" => assert_eq!(*explained, true),
        "unknown" => assert!(explained.is_null()),
        _ => assert!(explained.is_boolean()),
    }
    assert!(out.join("abnormal_perf_data/part1_perf_data.csv").is_file());
    let spans = spans(&tracks);
    let culprit = format!("culprit 1: kernel {}", KERNELS[1].0);
    assert!(spans.iter().any(|s| s.0 == culprit && s.2 > 0), "{spans:?}");
    let exposed: i64 = spans
        .iter()
        .filter(|s| s.0 == "exposed communication")
        .map(|s| s.2)
        .sum();
    assert!(exposed > 0);
    assert_eq!(spans.iter().filter(|s| s.0 == "cycles").count(), 14);
}

#[test]
fn rocpd_databases_are_cut_too() {
    let folder = tempfile::tempdir().unwrap();
    let made = rocpd_synth::generate(folder.path(), &rocpd_synth::Shape::small()).unwrap();
    let database = text(&made[0].path);
    let read = |threads: &str| {
        run(&[
            "analyse",
            database,
            "--format",
            "json",
            "--threads",
            threads,
        ])
    };
    let output = read("1");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.stdout, read("2").stdout);
    let document = json(&output);
    let job = &document["jobs"][0];
    let cycles = job["cycles"].as_array().unwrap();
    assert!(!cycles.is_empty());
    // Every dispatch that the generator says it wrote is there once.
    let kernels: u64 = job["functions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|f| f["kind"].as_str().unwrap().ends_with("_kernel"))
        .map(|f| f["calls"].as_u64().unwrap())
        .sum();
    let truth = &made[0].truth;
    assert_eq!(kernels, truth.dispatches + truth.lost_dispatches);
}

#[test]
fn compat_and_other_formats() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.json");
    write(&trace, Config::default());
    let out = folder.path().join("out");
    let output = run(&[
        "analyse",
        text(&trace),
        "--compat",
        "--output-dir",
        text(&out),
        "--export-perf-data",
    ]);
    assert_eq!(output.status.code(), Some(0));
    let table = std::fs::read_to_string(out.join("t_perf_data.csv")).unwrap();
    assert!(table.starts_with("cycle,pid,hostname,beta_pct,function_name,metric_name,device,"));
    let csv = run(&["analyse", text(&trace), "--format", "csv"]);
    assert_eq!(String::from_utf8_lossy(&csv.stdout).lines().count(), 61);
    let tracks = folder.path().join("tracks.pftrace");
    let parquet = folder.path().join("t.parquet");
    let output = run(&[
        "analyse",
        text(&trace),
        "--perfetto",
        text(&tracks),
        "--format",
        "parquet",
        "--output",
        text(&parquet),
    ]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(std::fs::read(&parquet).unwrap().starts_with(b"PAR1"));
    let spans = spans(&tracks);
    let on = |track: &str| spans.iter().filter(|s| s.0 == track).count();
    assert_eq!(on("cycles"), 60);
    assert_eq!(on("phases"), 1);
    assert!(
        spans.iter().any(|s| s.0.starts_with("cost 1: ")),
        "{spans:?}"
    );
    let period = json(&run(&["period", text(&trace)]));
    assert_eq!(period["periods"].as_array().unwrap().len(), 60);
}

#[test]
fn wrong_usage_and_failed_jobs_have_codes_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        run(&["analyse", "no/such/file.json"]).status.code(),
        Some(2)
    );
    assert_eq!(
        run(&["analyse", text(folder.path())]).status.code(),
        Some(2)
    );
    let empty = folder.path().join("empty.json");
    std::fs::write(&empty, "[]").unwrap();
    assert_eq!(run(&["analyse", text(&empty)]).status.code(), Some(1));
    assert_eq!(run(&["batch", text(&empty)]).status.code(), Some(1));
}

#[test]
fn probes_write_tables_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut micro = String::from("name,cat,ph,pid,tid,ts,dur,args\n");
    for i in 0..10 {
        let ts = 1_700_000_000_000_000_i64 + i * 30_000;
        micro.push_str(&format!(
            "Scheduler.run_batch,python,X,node0(7),t,{ts},29000,{{}}\nScheduler.process_batch_result,python,X,node0(7),t,{},500,{{}}\n",
            ts + 29_000
        ));
    }
    let job = folder.path().join("job7");
    std::fs::create_dir_all(&job).unwrap();
    std::fs::write(job.join("micro_event.csv"), micro).unwrap();
    let words = ["analyse", text(folder.path()), "--csv", "--format", "json"];
    assert_eq!(run(&words).status.code(), Some(2));
    std::fs::write(job.join("macro_counter.csv"), "name,value,timestamp\n").unwrap();
    let document = json(&run(&words));
    assert_eq!(document["jobs"][0]["job"], "job7");
    assert_eq!(document["jobs"][0]["cycles"].as_array().unwrap().len(), 10);
}

#[test]
fn sentinel_learns_a_law_and_sees_it_broken() {
    let folder = tempfile::tempdir().unwrap();
    let table = |slow: bool| {
        let mut text =
            String::from("start_ts,duration_us,batch_size,avg_input_length,avg_output_length\n");
        for i in 0..100_i64 {
            let (batch, input) = (1 + i * 7 % 32, 100 + i * 37 % 900);
            let law = 8000 + 50 * batch + batch * input / 25 + i * 13 % 80;
            let law = if slow && i >= 50 { law * 12 / 10 } else { law };
            text.push_str(&format!("{},{law},{batch},{input},10\n", i * 30_000));
        }
        text
    };
    let (good, bad) = (
        folder.path().join("good.csv"),
        folder.path().join("bad.csv"),
    );
    std::fs::write(&good, table(false)).unwrap();
    std::fs::write(&bad, table(true)).unwrap();
    let model = folder.path().join("model.json");
    let fit = run(&["sentinel", "fit", text(&good), "-o", text(&model)]);
    assert_eq!(fit.status.code(), Some(0));
    let watch = |steps: &Path| run(&["sentinel", "watch", text(steps), "--model", text(&model)]);
    let broken = watch(&bad);
    assert_eq!(broken.status.code(), Some(1));
    let document = json(&broken);
    let steps = document["steps"].as_array().unwrap();
    let alarm = |range: std::ops::Range<usize>| steps[range].iter().any(|s| s["alarm"] == true);
    assert!(alarm(50..56));
    assert!(steps[60]["band_ns"][1].as_f64() < steps[60]["duration_ns"].as_f64());
}
