//! Tests of the tool as used.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

mod live;
#[path = "../../../xtask/src/dataset/faults/model.rs"]
#[expect(dead_code, reason = "the corpus uses more of it")]
mod model;
mod planted;
mod ranks;
mod text_output;

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

/// Returns track, name and duration of all slices in a file of tracks.
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
    // The second run does not read the first one's output.
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
    // The documented members exist, with the right types.
    for c in case["culprits"].as_array().unwrap() {
        assert!(c["name"].is_string() && c["effect_ns"].is_i64(), "{c}");
        let kind = c["kind"].as_str().unwrap();
        assert!(["kernel", "function", "counter", "rank"].contains(&kind));
        assert_eq!(c["interval_ns"].as_array().unwrap().len(), 2);
        assert!(c["evidence"].is_array() && c.get("rank").is_some() && c.get("device").is_some());
    }
    // Tables of another run, of traces that no longer exist, do not count.
    let verdict = case["verdict"].clone();
    for side in ["normal", "abnormal"] {
        let tables = out.join("x/case1").join(format!("{side}_perf_data"));
        let own = tables.join("result_perf_data.csv");
        // As if the devices of the abnormal side had been even slower.
        let text = std::fs::read_to_string(own).unwrap();
        let slower = text.replace(",Host,", ",GPU 3,");
        std::fs::write(tables.join("gone_perf_data.csv"), slower).unwrap();
        std::fs::write(tables.join("notes.txt"), "mine").unwrap();
    }
    assert_eq!(json(&batch())["cases"][0]["verdict"], verdict);
    let tables = out.join("x/case1/normal_perf_data");
    assert!(!tables.join("gone_perf_data.csv").exists());
    assert!(tables.join("notes.txt").exists());
    // Times on other GPUs are not comparable with these.
    for (side, name) in [
        ("normal", "NVIDIA H100"),
        ("abnormal", "AMD Instinct MI300X"),
    ] {
        let path = root.join("x/case1").join(side).join("result.json");
        let made = std::fs::read_to_string(&path).unwrap();
        let events: Value = serde_json::from_str(&made).unwrap();
        let events = events.get("traceEvents").unwrap_or(&events);
        let document = serde_json::json!({
            "deviceProperties": [{"id": 0, "name": name}],
            "traceEvents": events,
        });
        std::fs::write(&path, document.to_string()).unwrap();
    }
    let output = batch();
    assert_eq!(output.status.code(), Some(4));
    let case = &json(&output)["cases"][0];
    let why = case["not_comparable"].as_str().unwrap();
    assert!(why.contains("H100") && why.contains("MI300X"), "{why}");
    assert_eq!(case["culprits"], serde_json::json!([]));
    assert_eq!(case["verdict"], Value::Null);
    let headline = case["headline"].as_str().unwrap();
    assert!(headline.starts_with("Not comparable"), "{headline}");
    // A side without a trace fails only its case.
    std::fs::create_dir_all(root.join("y/normal")).unwrap();
    std::fs::create_dir_all(root.join("y/abnormal")).unwrap();
    let output = batch();
    assert_eq!(output.status.code(), Some(3));
    let document = json(&output);
    assert_eq!(document["cases"].as_array().unwrap().len(), 2);
    assert!(document["cases"][1]["error"].is_string());
    assert!(document["cases"][1]["verdict"].is_null());
}

#[test]
fn an_address_of_an_object_makes_no_new_function() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("in");
    for (side, address) in [("normal", "7f3a5c1b2d80"), ("abnormal", "7fa9c1b2d111")] {
        let config = Config {
            seed: 5,
            fault: match side {
                "normal" => Fault::None,
                _ => Fault::SlowKernel(KERNELS[1].0, 200),
            },
            ..Config::default()
        };
        let path = root.join(side).join("result.json");
        write(&path, config);
        let trace = std::fs::read_to_string(&path).unwrap();
        let method = format!("<built-in method run of torch._C._Sampler object at 0x{address}>");
        let named = trace.replace("Sampler.forward", &method);
        assert_ne!(named, trace);
        std::fs::write(&path, named).unwrap();
    }
    let out = folder.path().join("out");
    let document = json(&run(&[
        "batch",
        text(&root),
        "-o",
        text(&out),
        "--format",
        "json",
    ]));
    let culprits = document["cases"][0]["culprits"].as_array().unwrap();
    assert_eq!(culprits[0]["name"], KERNELS[1].0);
    let names: Vec<&str> = culprits.iter().filter_map(|c| c["name"].as_str()).collect();
    assert!(
        !names.iter().any(|name| name.contains("_Sampler")),
        "{names:?}"
    );
}

#[test]
fn batch_takes_every_recording_of_a_side_and_shows_what_it_found() {
    let folder = tempfile::tempdir().unwrap();
    for (side, fault, seed) in [
        ("normal", Fault::None, 5),
        ("abnormal", Fault::SlowKernel(KERNELS[1].0, 150), 9),
    ] {
        for part in 0..2 {
            // Two short recordings each: a single one has too few cycles for the rank test.
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
    // Tracks must not overwrite a recording.
    let recording = folder.path().join("abnormal/part0.json");
    let before = std::fs::read(&recording).unwrap();
    let refused = ["batch", text(folder.path()), "--perfetto", text(&recording)];
    assert_eq!(run(&refused).status.code(), Some(2));
    assert_eq!(std::fs::read(&recording).unwrap(), before);
    let shown = run(&["batch", text(folder.path()), "-o", text(&out)]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    // The symbol is shown as a name, as in trace-info.
    assert!(shown.contains("  kernel paged_attention_kern\n"), "{shown}");
    assert!(shown.lines().all(|l| l.chars().count() <= 80), "{shown}");
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
    // Every dispatch that the generator reports is there once.
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

/// Returns starts and ends of the cycles of a job, and their phases.
fn cycles(job: &Value) -> (Vec<(i64, i64)>, Vec<&str>) {
    let list = job["cycles"].as_array().unwrap();
    let ns = |c: &Value, key: &str| c[key].as_i64().unwrap();
    let spans = list.iter().map(|c| (ns(c, "start_ns"), ns(c, "end_ns")));
    let phases = list.iter().map(|c| c["phase"].as_str().unwrap());
    (spans.collect(), phases.collect())
}

/// Returns starts and ends of the cycles of a job on the host. The time of a cycle is the longer of
/// host and device: the times follow each other.
fn host_parts(job: &Value) -> Vec<(i64, i64)> {
    let list = job["cycles"].as_array().unwrap();
    let at = |c: &Value, key: &str| c[key].as_i64().unwrap();
    for two in list.windows(2) {
        assert_eq!(at(&two[0], "end_ns"), at(&two[1], "start_ns"));
        assert!(at(&two[0], "end_ns") >= at(&two[0], "host_end_ns"));
    }
    let each = list.iter();
    each.map(|c| (at(c, "host_start_ns"), at(c, "host_end_ns")))
        .collect()
}

/// Extends each marked step to the start of the next.
fn start_to_start(marks: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let next = marks.iter().skip(1).map(|m| m.0);
    let ends = next.chain(marks.last().map(|m| m.1));
    marks.iter().zip(ends).map(|(m, end)| (m.0, end)).collect()
}

#[test]
fn ranges_in_databases_are_steps() {
    for (seed, threads) in [(1, 1), (2, 2), (3, 3)] {
        let folder = tempfile::tempdir().unwrap();
        let mut shape = rocpd_synth::Shape::small();
        (shape.seed, shape.threads, shape.steps) = (seed, threads, 12);
        shape.ranks = 2;
        let made = rocpd_synth::generate(folder.path(), &shape).unwrap();
        let all = run(&["analyse", text(folder.path()), "--format", "json"]);
        assert_eq!(all.status.code(), Some(0));
        let document = json(&all);
        assert_eq!(document["jobs"].as_array().unwrap().len(), 2);
        for (job, made) in document["jobs"].as_array().unwrap().iter().zip(&made) {
            assert_eq!(job["method"], "ranges");
            assert_eq!(job["anchor"], "decode");
            let (_, phases) = cycles(job);
            assert_eq!(
                host_parts(job),
                start_to_start(&made.truth.steps_ns),
                "seed {seed}"
            );
            assert_eq!(phases[0], "prefill");
            assert!(phases[1..].iter().all(|p| *p == "decode"), "{phases:?}");
            let marked = |name: &str| {
                let words = ["analyse", text(&made.path), "--marker", name];
                json(&run(&[&words[..], &["--format", "json"]].concat()))
            };
            let decodes = marked("decode");
            assert_eq!(decodes["jobs"][0]["method"], "marker");
            assert_eq!(
                host_parts(&decodes["jobs"][0]),
                start_to_start(&made.truth.steps_ns)[1..]
            );
            // A pattern, and a name without its number.
            assert_eq!(
                host_parts(&marked("*e*od*")["jobs"][0]),
                start_to_start(&made.truth.steps_ns)[1..]
            );
            let layers = |name: &str| cycles(&marked(name)["jobs"][0]).0.len();
            assert_eq!((layers("layer_1"), layers("layer")), (12, 24));
        }
    }
}

#[test]
fn a_package_of_databases_is_one_recording() {
    let folder = tempfile::tempdir().unwrap();
    let loose = folder.path().join("loose");
    let mut shape = rocpd_synth::Shape::small();
    (shape.ranks, shape.nodes, shape.steps) = (2, 2, 12);
    // Two machines with equal process ids.
    shape.equal_pids = true;
    let made = rocpd_synth::generate(&loose, &shape).unwrap();
    let mut how = rocpd_db::PackageOptions::default();
    (how.consolidate, how.copy) = (true, true);
    let package = folder.path().join("run.rpdb");
    rocpd_db::package(&[&loose], &package, &how).unwrap();
    let output = run(&["analyse", text(folder.path()), "--format", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let document = json(&output);
    let jobs = document["jobs"].as_array().unwrap();
    let names: Vec<&str> = jobs.iter().map(|j| j["job"].as_str().unwrap()).collect();
    let [first, second, whole] = names[..] else {
        panic!("{names:?}")
    };
    assert!(first != second && whole == "run", "{names:?}");
    let job = &jobs[2];
    assert_eq!(host_parts(job), start_to_start(&made[0].truth.steps_ns));
    // Each process on its own, with its host and all activity that it launched.
    for (host, made) in ["host-0", "host-1"].into_iter().zip(&made) {
        let of = |key: &str| -> u64 {
            let list = job["functions"].as_array().unwrap().iter();
            let own = list.filter(|f| f["process"]["host"] == host && f["process"]["pid"] == 4000);
            own.filter(|f| f["kind"].as_str().unwrap().ends_with(key))
                .map(|f| f["calls"].as_u64().unwrap())
                .sum()
        };
        let truth = &made.truth;
        assert_eq!(of("_kernel"), truth.dispatches + truth.lost_dispatches);
        let all = 12 * 2 * 3;
        assert_eq!(of("_kernel"), all, "{host}");
    }
    let marked = ["analyse", text(&package), "--marker", "layer_0", "--format"];
    let layers = json(&run(&[&marked[..], &["json"]].concat()));
    assert_eq!(cycles(&layers["jobs"][0]).0.len(), 12);
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
    let period = json(&run(&["period", text(&trace), "--json"]));
    assert_eq!(period["periods"].as_array().unwrap().len(), 60);
    // A file gets the same; text and CSV have a line for each.
    let file = folder.path().join("period.json");
    let words = ["period", text(&trace), "-o", text(&file)];
    assert_eq!(run(&words).status.code(), Some(0));
    let written: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(written, period);
    let table = run(&["period", text(&trace), "--format", "csv"]).stdout;
    let table = String::from_utf8(table).unwrap();
    assert_eq!(table.lines().count(), 61);
    let start = period["periods"][7]["start_ns"].as_i64().unwrap();
    let row = table.lines().nth(8).unwrap();
    assert!(row.starts_with(&format!("8,{start},")), "{row}");
    let said = run(&["period", text(&trace)]).stdout;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("median period"), "{said}");
    assert_eq!(said.lines().count(), 5 + 60);
    // Each cycle as a file of its own, in both modes.
    for mode in [&["--compat"][..], &[]] {
        let to = folder.path().join(format!("debug{}", mode.len()));
        let mut words = vec!["analyse", text(&trace), "--output-dir", text(&to)];
        words.extend(["--debug-export-cycles", "--markdown"]);
        words.extend(mode);
        assert_eq!(run(&words).status.code(), Some(0));
        let cycles = to.join("t_debug_cycles");
        let count = std::fs::read_dir(&cycles).unwrap().count();
        assert_eq!(count, 60, "{mode:?}");
        let seventh = std::fs::read(cycles.join("cycle_7.json")).unwrap();
        let events: Vec<Value> = serde_json::from_slice(&seventh).unwrap();
        let named = |name: &str| events.iter().filter(|e| e["name"] == name).count();
        assert_eq!(named(KERNELS[0].0), 8, "{mode:?}: one in each layer");
        assert_eq!(named("cycle_7_kernels"), 0, "layers have operators");
        assert_eq!(named("Qwen3Attention_kernels") > 0, mode.len() == 1);
        if mode.is_empty() {
            let report = std::fs::read_to_string(to.join("t_report.md")).unwrap();
            for part in [
                "\n## Overview\n",
                "| Kernel | 1920 |",
                "* `Qwen3DecoderLayer.forward` ",
                " [x8], ",
                "paged_attention_kern(float*",
            ] {
                assert!(report.contains(part), "{part}: {report}");
            }
            let graph = std::fs::read_to_string(to.join("t_calls.dot")).unwrap();
            assert!(graph.starts_with("digraph calls {") && graph.contains("[label=\"480\""));
        }
        // Events cut to the cycle have their original times.
        for e in events.iter().filter(|e| e["args"]["is_slice"] == true) {
            assert!(e["args"]["original_dur"].as_f64() > e["dur"].as_f64());
        }
    }
}

/// Returns the trace with its nanoseconds as microseconds: whole numbers, which binary64 adds
/// without rounding regardless of the origin. With `first`, the values of `key` are shifted so that
/// it is the minimum.
fn whole(json: &str, key: &str, first: Option<i64>) -> String {
    let key = format!("\"{key}\":");
    let mut parts = json.split(&key);
    let mut out = parts.next().unwrap().to_owned();
    let parts: Vec<(i64, &str)> = parts
        .map(|part| {
            let (number, rest) = part.split_at(part.find([',', '}']).unwrap());
            let (whole, thousandths) = number.split_once('.').unwrap();
            assert_eq!(thousandths.len(), 3);
            (format!("{whole}{thousandths}").parse().unwrap(), rest)
        })
        .collect();
    let least = parts.iter().map(|part| part.0).min().unwrap();
    let moved = first.map_or(0, |first| first - least);
    for (number, rest) in parts {
        out.push_str(&format!("{key}{}{rest}", number + moved));
    }
    out
}

/// The reference treats times before zero like any other: a trace that begins long before it has
/// the same cycles.
#[test]
fn compat_keeps_what_is_before_time_zero() {
    let folder = tempfile::tempdir().unwrap();
    let json = whole(&make(Config::default()).json, "dur", None);
    let table = |name: &str, first: i64| {
        let trace = folder.path().join(format!("{name}.json"));
        std::fs::write(&trace, whole(&json, "ts", Some(first))).unwrap();
        let out = folder.path().join("out");
        let words = ["--compat", "--export-perf-data", "--output-dir", text(&out)];
        let output = run(&[&["analyse", text(&trace)][..], &words].concat());
        assert_eq!(output.status.code(), Some(0));
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!errors.contains("before time zero"), "{errors}");
        let csv = std::fs::read_to_string(out.join(format!("{name}_perf_data.csv"))).unwrap();
        // Names of kernels have commas, between quotes.
        let columns = |line: &str| -> Vec<String> {
            let mut quoted = false;
            let column = |c: char| {
                quoted ^= c == '"';
                c == ',' && !quoted
            };
            line.split(column).map(str::to_owned).collect()
        };
        csv.lines().map(columns).collect::<Vec<_>>()
    };
    let (late, early) = (table("late", 0), table("early", -1_000_000_000));
    assert_eq!(late.len(), early.len());
    let start = late[0].iter().position(|c| c == "cycle_start_ts").unwrap();
    let mut starts = Vec::new();
    for (mut late, mut early) in late.into_iter().zip(early).skip(1) {
        let [late_start, early_start] =
            [&mut late, &mut early].map(|row| row.remove(start).parse::<f64>().unwrap());
        assert!((late_start - early_start - 1e9).abs() < 0.01);
        assert_eq!(late, early);
        starts.push(early_start);
    }
    assert!(starts[0] < 0.0 && starts.last() > Some(&0.0));
}

#[test]
fn of_jobs_of_one_name_the_last_replaces_the_others_with_compat() {
    let folder = tempfile::tempdir().unwrap();
    let traces = folder.path().join("in");
    for (part, iterations) in [("a", 12), ("b", 40), ("c", 9)] {
        let config = Config {
            iterations,
            ..Config::default()
        };
        write(&traces.join(part).join("result.json"), config);
    }
    let written = |threads: &str| {
        let out = folder.path().join(threads);
        let words = ["analyse", text(&traces), "--compat", "--threads", threads];
        let more = ["--export-perf-data", "--output-dir", text(&out)];
        assert_eq!(run(&[&words[..], &more].concat()).status.code(), Some(0));
        let mut files: Vec<_> = std::fs::read_dir(&out)
            .unwrap()
            .map(|e| e.unwrap().path())
            .map(|p| (p.file_name().unwrap().to_owned(), std::fs::read(p).unwrap()))
            .collect();
        files.sort();
        files
    };
    let (one, many) = (written("1"), written("4"));
    assert!(one == many);
    let table = one.iter().find(|f| f.0 == "result_perf_data.csv").unwrap();
    let cycles = String::from_utf8_lossy(&table.1);
    assert!(cycles.contains("\n9,") && !cycles.contains("\n10,"));
}

#[test]
fn wrong_usage_and_failed_jobs_have_codes_of_their_own() {
    for command in ["analyse", "period"] {
        assert_eq!(
            run(&[command, "nosuch"]).status.code(),
            Some(3),
            "{command}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        run(&["analyse", "no/such/file.json"]).status.code(),
        Some(3)
    );
    assert_eq!(
        run(&["analyse", text(folder.path())]).status.code(),
        Some(2)
    );
    let empty = folder.path().join("empty.json");
    std::fs::write(&empty, "[]").unwrap();
    assert_eq!(run(&["analyse", text(&empty)]).status.code(), Some(4));
    assert_eq!(run(&["batch", text(&empty)]).status.code(), Some(3));
}

#[test]
fn files_that_cannot_be_read_are_among_the_jobs_and_functions_are_counted_over_all() {
    let folder = tempfile::tempdir().unwrap();
    let steps = |iterations| Config {
        iterations,
        ..Config::default()
    };
    write(&folder.path().join("a.json"), steps(12));
    std::fs::write(folder.path().join("b.json"), "").unwrap();
    write(&folder.path().join("c.json"), steps(20));
    let output = run(&["analyse", text(folder.path()), "--format", "json"]);
    assert_eq!(output.status.code(), Some(3));
    let document = json(&output);
    let told: Vec<(&str, &str, usize)> = document["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|j| {
            let cycles = j["cycles"].as_array().unwrap().len();
            let word = |key: &str| j[key].as_str().unwrap();
            assert_eq!(j["error"].is_null(), word("status") == "ok");
            (word("job"), word("status"), cycles)
        })
        .collect();
    assert_eq!(told, [("a", "ok", 12), ("b", "failed", 0), ("c", "ok", 20)]);
    std::fs::remove_file(folder.path().join("b.json")).unwrap();
    let own = folder.path().join("d.json");
    let call = r#"[{"name":"load","cat":"python","ph":"X","pid":1,"tid":1,"ts":1,"dur":50},
        {"name":"load","cat":"python","ph":"X","pid":1,"tid":1,"ts":60,"dur":50},
        {"name":"load","cat":"python","ph":"X","pid":1,"tid":1,"ts":120,"dur":50}]"#;
    std::fs::write(own, call).unwrap();
    let info = ["analyse", text(folder.path()), "--info"];
    let document = json(&run(&[&info[..], &["--format", "json"]].concat()));
    let functions = document["functions"].as_array().unwrap();
    let of = |name: &str| functions.iter().find(|f| f["name"] == name).unwrap();
    let step = of("Scheduler.run_batch");
    assert_eq!(
        (&step["count"], &step["files"]),
        (&Value::from(32), &Value::from(2))
    );
    // 10 - floor(10 * 2 / 3), and 10 - floor(10 / 3).
    assert_eq!(
        (&step["stars"], &of("load")["stars"]),
        (&Value::from(4), &Value::from(7))
    );
    let shown = String::from_utf8(run(&info).stdout).unwrap();
    assert!(
        shown.contains("2/3") && shown.contains("Scheduler.run_batch ****\n"),
        "{shown}"
    );
}

#[test]
fn a_topology_says_which_device_a_process_means() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.json");
    let config = Config {
        ranks: 2,
        iterations: 12,
        ..Config::default()
    };
    write(&trace, config);
    // Device, and counter level in the second cycle, of a kernel of each process.
    let told = || -> Vec<(String, String)> {
        let out = folder.path().join("out");
        let words = [
            "analyse",
            text(&trace),
            "--export-perf-data",
            "--output-dir",
        ];
        let output = run(&[&words[..], &[text(&out)]].concat());
        assert_eq!(output.status.code(), Some(0));
        let table = std::fs::read_to_string(out.join("t_perf_data.csv")).unwrap();
        let of = |pid: &str| {
            let cells = |l: &'_ str| l.split(',').map(str::to_owned).collect::<Vec<_>>();
            let mut rows = table.lines().map(cells);
            let row = rows.find(|r| {
                r[0] == "2" && r[1] == pid && r[4] == KERNELS[0].0 && r[5] == "gpu_mem_used"
            });
            let row = row.unwrap();
            (row[6].clone(), row[8].clone())
        };
        vec![of("4000"), of("4001")]
    };
    let before = told();
    assert_eq!((&*before[0].0, &*before[1].0), ("GPU 0", "GPU 0"));
    assert_ne!(before[0].1, before[1].1);
    let topology = r#"name,life_time,category,uuid,type,rank,position,loc1,loc1_type,loc2,loc2_type,loc3,loc3_type,config,inventory,details
a,,CAT_PROCESS,a,,0,,,,,,,,"{""env"":{""hostname"":""node0""}}","{""macro"":{""pid"":4000.0,""gpu_index"":1}}",
b,,CAT_PROCESS,b,,0,,,,,,,,"{""env"":{""hostname"":""node0""}}","{""macro"":{""pid"":4001,""gpu_index"":0}}",
"#;
    std::fs::write(folder.path().join("topo_component.csv"), topology).unwrap();
    let after = told();
    assert_eq!((&*after[0].0, &*after[1].0), ("GPU 1", "GPU 0"));
    assert_eq!((&after[0].1, &after[1].1), (&before[1].1, &before[0].1));
    let document = json(&run(&["analyse", text(&trace), "--format", "json"]));
    for f in document["jobs"][0]["functions"].as_array().unwrap() {
        let wants = match f["device"].is_null() {
            true => Value::Null,
            false => Value::from(4001 - f["process"]["pid"].as_i64().unwrap()),
        };
        assert_eq!(f["physical_device"], wants, "{f}");
    }
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
    let log = folder.path().join("serving.log");
    let batch = r#"{"kunlunClassAttr":{"module":"sglang.srt.x","attr":"batch_size"},"Value":"5"}"#;
    std::fs::write(&log, format!("{batch}\n{batch}\n")).unwrap();
    let mut words = vec!["analyse", text(folder.path()), "--csv", "--format", "json"];
    words.extend(["--serving-log", text(&log)]);
    assert_eq!(run(&words).status.code(), Some(2));
    std::fs::write(job.join("macro_counter.csv"), "name,value,timestamp\n").unwrap();
    let document = json(&run(&words));
    assert_eq!(document["jobs"][0]["job"], "job7");
    let serving = &document["jobs"][0]["serving"];
    assert_eq!(serving["framework"], "sglang");
    assert_eq!(serving["batch_sizes"], serde_json::json!([5, 5]));
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
    // Without any step there is no result.
    let none = folder.path().join("none.csv");
    let header = table(false).lines().next().unwrap().to_owned();
    std::fs::write(&none, header + "\n").unwrap();
    let words = ["sentinel", "watch", text(&none), "--model", text(&model)];
    assert_eq!(run(&words).status.code(), Some(4));
    let watch = |steps: &Path, format: &str| {
        let words = ["sentinel", "watch", text(steps), "--model", text(&model)];
        run(&[&words[..], &["--format", format]].concat())
    };
    let broken = watch(&bad, "json");
    assert_eq!(broken.status.code(), Some(1));
    let document = json(&broken);
    let steps = document["steps"].as_array().unwrap();
    let alarm = |range: std::ops::Range<usize>| steps[range].iter().any(|s| s["alarm"] == true);
    assert!(alarm(50..56));
    assert!(steps[60]["band_ns"][1].as_f64() < steps[60]["duration_ns"].as_f64());
    // The same as text and as a table.
    let alarms = document["alarms"].as_u64().unwrap();
    let said = String::from_utf8(watch(&bad, "text").stdout).unwrap();
    let first = format!("{alarms} of 100 steps alarm\n");
    assert!(said.starts_with(&first), "{said}");
    // One sentence for each stretch of alarms, of which the slow half is one.
    let stretches = said.matches(" slower than expected in steps ").count() as u64;
    assert_eq!(stretches, 1, "{said}");
    assert_eq!(said.lines().count() as u64, alarms + stretches + 4);
    let table = String::from_utf8(watch(&bad, "csv").stdout).unwrap();
    assert_eq!(table.lines().count(), 101);
    assert_eq!(table.matches(",true\n").count() as u64, alarms);
}

#[test]
fn hosts_that_are_unwell_are_named_by_cycle() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.json");
    let made = make(Config::default());
    let hot = made.iterations[30].start;
    let mut document: Value = serde_json::from_str(&made.json).unwrap();
    let list = match &mut document {
        Value::Array(list) => list,
        object => object["traceEvents"].as_array_mut().unwrap(),
    };
    for iteration in &made.iterations {
        let degrees = if iteration.start < hot { 70 } else { 91 };
        list.push(serde_json::json!({
            "ph": "C", "cat": "CAT_XPU", "name": "gpu_temp", "pid": "node0", "tid": "CAT_XPU_0",
            "ts": (iteration.start + 1_000_000) / 1000, "args": {"value": degrees},
        }));
    }
    std::fs::write(&trace, document.to_string()).unwrap();
    let found = json(&run(&["analyse", text(&trace), "--json"]));
    for (i, cycle) in found["jobs"][0]["cycles"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        let issues = cycle["health"].as_array().unwrap();
        if i < 30 {
            assert!(issues.is_empty(), "{i}: {issues:?}");
            continue;
        }
        assert_eq!(issues.len(), 1, "{i}");
        assert_eq!(issues[0]["issue"], "GPU_TEMPERATURE");
        assert_eq!(
            (&issues[0]["value"], &issues[0]["limit"]),
            (&91.0.into(), &85.0.into())
        );
        assert_eq!(issues[0]["host"], "node0");
    }
    let said = String::from_utf8(run(&["analyse", text(&trace)]).stdout).unwrap();
    assert!(
        said.contains("GPU_TEMPERATURE   in 30 of 60 cycles on node0"),
        "{said}"
    );
    // The reference's format, for each of its cycles.
    // In this mode results go to a folder, which is not to be that of the test.
    let out = folder.path().join("results");
    let words = ["analyse", text(&trace), "--compat", "--json"];
    let compat = json(&run(&[&words[..], &["--output-dir", text(&out)]].concat()));
    for cycle in compat["jobs"][0]["cycles"].as_array().unwrap() {
        let diagnosis = &cycle["diagnosis"];
        let hot = cycle["index"].as_u64().unwrap() >= 30;
        assert_eq!(
            diagnosis["fingerprint"] == "GPU_TEMPERATURE",
            hot,
            "{cycle}"
        );
        assert!(diagnosis["z"].is_f64() && diagnosis["score"].is_f64());
    }
}

#[test]
fn a_topology_is_added_up_by_host() {
    let folder = tempfile::tempdir().unwrap();
    let line = |name: &str, category: &str, host: &str, inventory: &str| {
        let config = match host {
            "" => String::from("{}"),
            host => format!("{{\"env\":{{\"hostname\":\"{host}\"}}}}"),
        };
        let quoted = |text: &str| text.replace('"', "\"\"");
        let inventory = format!("{{\"macro\":{inventory}}}");
        format!(
            "{name},{category},\"{}\",\"{}\"\n",
            quoted(&config),
            quoted(&inventory)
        )
    };
    let table = [
        "name,category,config,inventory\n".to_owned(),
        line("CPU0", "CAT_CPU", "a", r#"{"cores":32,"freq":"4000 MHz"}"#),
        line("CPU1", "CAT_CPU", "a", r#"{"cores":32,"freq":"3900 MHz"}"#),
        line("M0", "CAT_MEMORY", "a", r#"{"size":16384}"#),
        line(
            "G1",
            "CAT_XPU",
            "b",
            r#"{"index":1,"memory_capacity":85899345920}"#,
        ),
        line("p", "CAT_PROCESS", "b", r#"{"pid":"77.0","gpu_index":1}"#),
        line("n", "CAT_NVLINK", "", "{}"),
    ];
    let path = folder.path().join("topo_component.csv");
    std::fs::write(&path, table.concat()).unwrap();
    let found = json(&run(&[
        "topology",
        text(folder.path()),
        "--json",
        "--report",
        "detailed",
    ]));
    let (a, b) = (&found["hosts"][0], &found["hosts"][1]);
    assert_eq!(
        (&a["host"], &a["cores"], &a["cpu_max_mhz"]),
        (&"a".into(), &64.0.into(), &3900.0.into())
    );
    assert_eq!(a["memory_gib"], 16.0);
    assert_eq!(
        b["gpus"],
        serde_json::json!([{"index": 1, "memory_gib": 80.0}])
    );
    assert_eq!(
        b["processes"],
        serde_json::json!([{"pid": 77, "gpu_index": 1}])
    );
    assert_eq!(found["rows_without_host"], 1);
    let cpus = &found["categories"][0];
    assert_eq!(
        (&cpus["category"], &cpus["count"]),
        (&"CAT_CPU".into(), &2.into())
    );
    assert_eq!(cpus["components"][1]["inventory"]["freq"], "3900 MHz");
    let said = String::from_utf8(run(&["topology", text(&path)]).stdout).unwrap();
    assert!(
        said.starts_with("a\n  64 cores up to 3900 MHz, 16 GiB\n"),
        "{said}"
    );
    let rows =
        String::from_utf8(run(&["topology", text(&path), "--format", "csv"]).stdout).unwrap();
    assert_eq!(rows.lines().count(), 6);
    std::fs::write(&path, "a,b\n").unwrap();
    assert_eq!(run(&["topology", text(&path)]).status.code(), Some(3));
}

#[test]
fn periods_by_each_method() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.json");
    let config = Config {
        iterations: 200,
        layers: 2,
        ..Config::default()
    };
    write(&trace, config);
    let all = folder.path().join("annotated.json");
    let output = run(&[
        "period",
        text(&trace),
        "--compat",
        "--export-annotated-json",
        text(&all),
    ]);
    assert_eq!(output.status.code(), Some(0));
    let list = json(&output);
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 200);
    assert_eq!(
        (&list[3]["count"], &list[3]["type"]),
        (&Value::from(4), &Value::from(2))
    );
    let length = list[3]["end_ts"].as_f64().unwrap() - list[3]["start_ts"].as_f64().unwrap();
    assert!((25_000.0..35_000.0).contains(&length), "{length}");
    // The unchanged trace, plus the results of all methods that found something.
    let read = |path: &Path| -> Vec<Value> {
        let document: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        document["traceEvents"].as_array().unwrap().clone()
    };
    let (before, after) = (read(&trace), read(&all));
    assert_eq!(after[..before.len()], before[..]);
    let named = |start: &str| {
        let names = after.iter().map(|e| e["name"].as_str().unwrap());
        names.filter(|n| n.starts_with(start)).count()
    };
    assert_eq!(named("period_2_python"), 200);
    assert!((198..=202).contains(&named("period_3_cuda")));
    assert!(named("Qwen3MLP_kernels") > 0);
    // Bursts of kernels, without the reference's limits; there are no probes to find.
    let cuda = json(&run(&[
        "period",
        text(&trace),
        "--method",
        "cuda",
        "--json",
    ]));
    assert_eq!(cuda["method"], "cuda");
    let found = cuda["period_ns"].as_i64().unwrap();
    let made = make(config);
    let truth = (made.iterations[199].start - made.iterations[0].start) / 199;
    assert!((found - truth).abs() * 50 < truth, "{found} for {truth}");
    let probe = run(&["period", text(&trace), "--method", "probe"]);
    assert_eq!(probe.status.code(), Some(4));
    assert!(probe.stdout.is_empty());
}

#[test]
fn what_is_no_trace_is_said_in_a_line_and_text_fits_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content, code, says) in [
        ("empty.json", "", 3, "empty"),
        ("wrong.json", "hello", 3, "unknown format"),
        // It is readable, but holds no result.
        ("cut.json", "[{\"ph\":\"X\",", 4, "no events"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        for command in ["analyse", "period"] {
            let output = run(&[command, text(&path)]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(code), "{command} {name}: {said}");
            assert!(said.contains(says), "{command} {name}: {said}");
            assert!(output.stdout.is_empty());
        }
    }
    // Options without effect are reported.
    let trace = folder.path().join("t.json");
    write(&trace, Config::default());
    for (words, warns) in [(&["--align"][..], true), (&["--align", "--compat"], false)] {
        let to = folder.path().join("to");
        let mut all = vec!["analyse", text(&trace), "--output-dir", text(&to)];
        all.extend(words);
        let said = String::from_utf8(run(&all).stderr).unwrap();
        assert_eq!(said.contains("--align"), warns, "{said}");
    }
    let fault = Fault::Intermittent;
    write(
        &trace,
        Config {
            fault,
            ..Config::default()
        },
    );
    // As wide as a terminal.
    let output = Command::new(env!("CARGO_BIN_EXE_cycle-rca"))
        .args(["analyse", text(&trace)])
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("slow in a few cycles only"), "{shown}");
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn rows_of_the_user_decide_what_a_kernel_is() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("my.rules");
    std::fs::write(&rules, "kernel moe *FlashAttn*\n").unwrap();
    let recording = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/demo/demo-rank0.json.gz")
        .canonicalize()
        .unwrap();
    let classes = |more: &[&str]| {
        let mut words = vec!["analyse", text(&recording), "--json"];
        words.extend(more);
        let document = json(&run(&words)).to_string();
        ["attention", "moe"].map(|class| document.contains(&format!("\"class\":\"{class}\"")))
    };
    assert_eq!(classes(&[]), [true, false]);
    assert_eq!(classes(&["--classes", text(&rules)]), [false, true]);
    let both = run(&[
        "analyse",
        text(&recording),
        "--compat",
        "--classes",
        text(&rules),
    ]);
    assert_eq!(both.status.code(), Some(2));
}
