//! `why` on recordings with known truth, and its output against the published schema.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn why(words: &[&str]) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_why")).args(words).output();
    run.expect("the tool runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

fn json(words: &[&str]) -> Value {
    let mut all = words.to_vec();
    all.push("--json");
    let output = why(&all);
    let text = text(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn data(path: &str) -> String {
    root().join("testdata").join(path).display().to_string()
}

/// Checks a value against a schema: type, enum, required and further properties, items, references.
fn check(value: &Value, schema: &Value, whole: &Value, place: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/$defs/");
        return check(value, &whole["$defs"][name], whole, place);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        // A null beside one definition.
        if value.is_null() {
            assert!(any.iter().any(|one| one["type"] == "null"), "{place}");
            return;
        }
        return check(value, &any[0], whole, place);
    }
    if let Some(values) = schema["enum"].as_array() {
        assert!(values.contains(value), "{place}: {value}");
        return;
    }
    let is = |wanted: &str| match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    };
    let fits = match &schema["type"] {
        Value::String(wanted) => is(wanted),
        Value::Array(list) => list.iter().any(|one| is(one.as_str().expect("a type"))),
        other => panic!("{place}: no type but {other}"),
    };
    assert!(fits, "{place}: {value} is not {}", schema["type"]);
    if let (Some(least), Some(number)) = (schema["minimum"].as_i64(), value.as_i64()) {
        assert!(number >= least, "{place}: {number}");
    }
    if let Some(object) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            assert!(
                object.contains_key(name.as_str().expect("a name")),
                "{place}: no {name}"
            );
        }
        for (name, value) in object {
            let property = &schema["properties"][name];
            assert!(!property.is_null(), "{place}: unknown {name}");
            check(value, property, whole, &format!("{place}.{name}"));
        }
    }
    if let Some(list) = value.as_array() {
        for (at, item) in list.iter().enumerate() {
            let schema = match schema["prefixItems"].as_array() {
                Some(each) => &each[at],
                None => &schema["items"],
            };
            check(item, schema, whole, &format!("{place}[{at}]"));
        }
    }
}

/// Whatever the recording, these hold.
fn check_document(document: &Value) {
    let schema = std::fs::read_to_string(root().join("docs/why.schema.json")).expect("the schema");
    let schema: Value = serde_json::from_str(&schema).expect("the schema is JSON");
    check(document, &schema, &schema, "document");
    let number = |value: &Value| value.as_i64().expect("an integer");
    for budget in document["budget"].as_array().expect("budgets") {
        let parts = budget["parts"].as_array().expect("parts").iter();
        let sum: i64 = parts.map(|part| number(&part["total_ns"])).sum();
        assert_eq!(sum, number(&budget["total_ns"]), "the parts add up");
    }
    if let Some(comparison) = document["comparison"].as_object() {
        let parts = comparison["parts"].as_array().expect("parts").iter();
        let sum: i64 = parts.map(|part| number(&part["difference_ns"])).sum();
        let median = number(&comparison["difference_ns"]["median"]);
        assert_eq!(sum + number(&comparison["unexplained_ns"]), median);
    }
}

/// Number of characters of the widest line; a path alone on a line stays whole.
fn widest(text: &str) -> usize {
    let lines = text.lines().filter(|line| {
        let words = line
            .trim()
            .trim_start_matches("next")
            .trim_end_matches('\\');
        words.split_whitespace().count() > 1
    });
    lines.map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn planted_faults_are_named() {
    for fault in ["collector", "disk-reads", "late-host"] {
        let folder = data(&format!("serving/{fault}"));
        let truth = std::fs::read_to_string(format!("{folder}/job.truth.json")).expect("the truth");
        let truth: Value = serde_json::from_str(&truth).expect("the truth is JSON");
        let document = json(&[&folder]);
        check_document(&document);
        assert_eq!(
            document["answer"]["shape"], "cause",
            "{fault}: {}",
            document["answer"]
        );
        let id = &document["answer"]["finding"];
        let findings = document["findings"].as_array().expect("findings");
        let finding = findings
            .iter()
            .find(|finding| finding["id"] == *id)
            .expect("the finding");
        let kind = finding["kind"].as_str().expect("a kind");
        let kinds = truth["kinds"].as_array().expect("kinds").iter();
        let mut kinds = kinds.filter_map(Value::as_str);
        assert!(kinds.any(|word| kind.contains(word)), "{fault}: {kind}");
        let cost = finding["cost_ns_per_step"]["median"]
            .as_f64()
            .expect("a cost");
        let planted = truth["cost_ns_per_step"].as_f64().expect("a cost");
        assert!(
            (cost - planted).abs() <= 0.1 * planted,
            "{fault}: {cost} instead of {planted}"
        );
        if !truth["rank"].is_null() {
            assert_eq!(finding["where"]["rank"], truth["rank"], "{fault}");
        }
        let lines = text(&why(&[&folder]).stdout);
        assert!(lines.lines().count() <= 40, "{lines}");
        assert!(widest(&lines) <= 80, "{lines}");
    }
}

#[test]
fn nothing_is_established_without_a_fault() {
    for path in ["serving/healthy", "demo"] {
        let document = json(&[&data(path)]);
        check_document(&document);
        let causes = findings::Catalogue::builtin();
        for finding in document["findings"].as_array().expect("findings") {
            let kind = causes
                .kind(finding["kind"].as_str().expect("a kind"))
                .expect("a known kind");
            let is_cause = kind.role == findings::KindRole::Cause;
            assert!(
                !(is_cause && finding["confidence"] == "established"),
                "{path}: {finding}"
            );
        }
    }
}

#[test]
fn two_sides_are_compared() {
    let (before, after) = (data("pair/normal"), data("pair/abnormal"));
    let document = json(&["--baseline", &before, "--candidate", &after]);
    check_document(&document);
    assert!(document["comparison"].is_object());
    let same = json(&["--baseline", &before, "--candidate", &before]);
    check_document(&same);
    assert_eq!(same["answer"]["shape"], "nothing", "{}", same["answer"]);
}

#[test]
fn a_few_slow_steps_are_a_difference_though_the_median_stays() {
    let (before, after) = (data("serving/healthy"), data("serving/collector"));
    let document = json(&["--baseline", &before, "--candidate", &after]);
    check_document(&document);
    assert_eq!(document["answer"]["shape"], "cause");
    let difference = &document["comparison"]["difference_ns"]["median"];
    let difference = difference.as_f64().expect("a difference");
    // Planted: 875,705 ns a step on average.
    assert!((difference - 875_705.0).abs() < 20_000.0, "{difference}");
    let id = document["answer"]["finding"].as_str().expect("a finding");
    assert!(id.starts_with("periodic_stall."), "{id}");
}

#[test]
fn a_missing_path_is_named_and_a_present_output_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("none.json").display().to_string();
    let healthy = data("serving/healthy");
    for (paths, code) in [(vec![&missing], 3), (vec![&missing, &healthy], 0)] {
        let paths: Vec<&str> = paths.into_iter().map(String::as_str).collect();
        let output = why(&paths);
        assert_eq!(output.status.code(), Some(code));
        let said = text(&output.stderr);
        assert!(
            said.contains("none.json: no such file: check the path"),
            "{said}"
        );
    }
    let present = folder.path().join("present.pftrace");
    std::fs::write(&present, b"kept").expect("a file");
    let present = present.display().to_string();
    assert_eq!(
        why(&[&healthy, "--perfetto", &present]).status.code(),
        Some(2)
    );
    assert_eq!(std::fs::read(&present).expect("the file"), b"kept");
}

#[test]
fn a_capture_alone_says_what_it_is() {
    let capture = data("demo/demo-capture-rank0.json.gz");
    let output = why(&[&capture]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_the_rest_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..2 {
        let name = format!("rank{rank}.json.gz");
        let from = data(&format!("serving/healthy/{name}"));
        std::fs::copy(from, folder.path().join(name)).expect("a copy");
    }
    std::fs::write(folder.path().join("rank2.json"), b"[{\"ph\": ").expect("a file");
    std::fs::write(folder.path().join("rank3.json.gz"), b"no archive").expect("a file");
    let path = folder.path().display().to_string();
    let document = json(&[&path]);
    check_document(&document);
    let files = document["scope"]["files"].as_array().expect("files");
    let broken: Vec<&str> = files
        .iter()
        .filter(|file| !file["problem"].is_null())
        .filter_map(|file| file["name"].as_str())
        .collect();
    assert!(
        broken.iter().any(|name| name.ends_with("rank3.json.gz")),
        "{files:?}"
    );
    for file in files {
        let name = file["name"].as_str().expect("a name");
        let problem = file["problem"].as_str().unwrap_or("");
        assert!(!problem.contains(name), "{name} is named twice: {problem}");
    }
    assert_ne!(document["answer"]["shape"], "cannot_say");
    assert_eq!(why(&[&path, "--strict"]).status.code(), Some(3));
}

#[test]
fn scopes_are_echoed_and_empty_ones_list_the_choices() {
    let folder = data("serving/healthy");
    let document = json(&[&folder, "--step", "3..6"]);
    check_document(&document);
    assert_eq!(document["scope"]["steps"], serde_json::json!([3, 6]));
    assert_eq!(document["trust"]["steps_used"], 4);
    let one = json(&[&folder, "--step", "5"]);
    check_document(&one);
    assert!(
        one["answer"]["sentence"]
            .as_str()
            .is_some_and(|text| text.starts_with("Step 5 "))
    );
    let empty = why(&[&folder, "--phase", "training"]);
    assert_eq!(empty.status.code(), Some(2));
    assert!(
        text(&empty.stderr).contains("decode"),
        "{}",
        text(&empty.stderr)
    );
    assert_eq!(why(&[&folder, "--rank", "7"]).status.code(), Some(2));
}

#[test]
fn conditions_end_with_one_and_what_cannot_be_said_with_three() {
    let late = data("serving/late-host");
    assert_eq!(
        why(&[&late, "--fail-on", "rank_skew"]).status.code(),
        Some(1)
    );
    assert_eq!(why(&[&late, "--fail-on", "5%"]).status.code(), Some(1));
    assert_eq!(
        why(&[&late, "--fail-on", "allocation"]).status.code(),
        Some(0)
    );
    assert_eq!(
        why(&[&late, "--fail-on", "nonsense"]).status.code(),
        Some(2)
    );
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("no-gpu.json");
    std::fs::write(
        &path,
        b"[{\"ph\":\"X\",\"ts\":1,\"dur\":2,\"pid\":1,\"tid\":1,\"name\":\"a\"}]",
    )
    .expect("a file");
    let path = path.display().to_string();
    assert_eq!(why(&[&path]).status.code(), Some(3));
    check_document(&json(&[&path]));
}

#[test]
fn cut_answers_and_tracks_are_of_the_same_document() {
    let folder = data("serving/late-host");
    let whole = json(&[&folder]);
    let cut = json(&[&folder, "--limit", "1"]);
    check_document(&cut);
    assert_eq!(cut["total"], whole["total"]);
    assert_eq!(cut["findings"][0]["id"], whole["findings"][0]["id"]);
    assert!(serde_json::to_string(&cut).expect("text").len() <= 25_000);
    let out = tempfile::tempdir().expect("a folder");
    let tracks = out.path().join("why.pftrace").display().to_string();
    assert_eq!(
        why(&[&folder, "--perfetto", &tracks]).status.code(),
        Some(0)
    );
    assert!(std::fs::metadata(&tracks).is_ok_and(|meta| meta.len() > 1_000));
    let same = text(&why(&[&folder, "--threads", "1", "--json"]).stdout);
    let whole = text(&why(&[&folder, "--threads", "3", "--json"]).stdout);
    let command = |text: &str| text.replace("--threads 1", "").replace("--threads 3", "");
    assert_eq!(
        command(&same),
        command(&whole),
        "the same for any number of threads"
    );
}

/// A copy of the healthy job, whose steps lie at 2026-03-31 23:33:20.05 UTC, with more files.
fn healthy_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..2 {
        let name = format!("rank{rank}.json.gz");
        let from = data(&format!("serving/healthy/{name}"));
        std::fs::copy(from, folder.path().join(name)).expect("a copy");
    }
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

fn kinds(document: &Value) -> Vec<&str> {
    let findings = document["findings"].as_array().expect("findings").iter();
    findings
        .filter_map(|finding| finding["kind"].as_str())
        .collect()
}

/// What the log of vLLM states at some seconds after 23:33:00: running, waiting, use of the KV cache.
fn engine_log(hour: u32, lines: &[(u32, u32, u32, f64)]) -> String {
    let each = lines.iter().map(|(second, running, waiting, cache)| {
        format!(
            "INFO 03-31 {hour:02}:33:{second:02} [loggers.py:127] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 900.0 tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {cache}%\n"
        )
    });
    each.collect()
}

#[test]
fn an_engine_log_is_put_on_the_clock_of_the_trace() {
    let full = [(10, 32, 9, 99.1), (20, 32, 8, 99.4), (30, 30, 4, 98.0)];
    let mut log = engine_log(23, &full);
    log += "WARNING 03-31 23:33:20 [scheduler.py:1057] Sequence group 7 is preempted by PreemptionMode.RECOMPUTE mode\n";
    let folder = healthy_with(&[("server.log", &log)]);
    let path = folder.path().display().to_string();
    let document = json(&[&path]);
    check_document(&document);
    let found = kinds(&document);
    assert!(found.contains(&"kv_cache_full"), "{found:?}");
    assert!(found.contains(&"preemption"), "{found:?}");
    let logs = document["figures"]["logs"].as_array().expect("logs");
    assert_eq!(logs[0]["clock_within_ns"], 1_000_000_000);
    assert_eq!(logs[0]["preempted"], 1);
    let assumed = document["scope"]["assumed"].to_string();
    assert!(assumed.contains("taken as UTC"), "{assumed}");
    // They are no cost: no condition on costs is met, one on the kind is.
    assert_eq!(why(&[&path, "--fail-on", "50%"]).status.code(), Some(0));
    let fails = why(&[&path, "--fail-on", "kv_cache_full"]);
    assert_eq!(fails.status.code(), Some(1));
    assert!(widest(&text(&why(&[&path]).stdout)) <= 80);
    // Printed in a zone two hours behind.
    let folder = healthy_with(&[("server.log", &engine_log(21, &full))]);
    let document = json(&[&folder.path().display().to_string()]);
    assert!(kinds(&document).contains(&"kv_cache_full"));
    let assumed = document["scope"]["assumed"].to_string();
    assert!(assumed.contains("UTC-2"), "{assumed}");
    // With room in the cache, and of another minute.
    let room = [(10, 32, 9, 60.0), (20, 32, 8, 60.0), (30, 30, 4, 60.0)];
    let folder = healthy_with(&[("server.log", &engine_log(23, &room))]);
    let document = json(&[&folder.path().display().to_string()]);
    assert!(!kinds(&document).contains(&"kv_cache_full"));
    let early = engine_log(23, &full).replace(":33:", ":12:");
    let folder = healthy_with(&[("server.log", &early)]);
    let document = json(&[&folder.path().display().to_string()]);
    check_document(&document);
    let problem = document["scope"]["files"].to_string();
    assert!(problem.contains("do not cover the recording"), "{problem}");
}

/// A recording of forty steps of 500 ms, in each of which the GPU works 250 ms.
fn half_busy() -> String {
    let mut events = Vec::new();
    for step in 0..40 {
        let at = step * 500_000;
        let mut event = |cat: &str, name: &str, tid: u32, ts: i64, dur: i64, args: &str| {
            events.push(format!(
                "{{\"ph\":\"X\",\"cat\":\"{cat}\",\"name\":\"{name}\",\"pid\":{},\"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"args\":{{{args}}}}}",
                if cat == "kernel" { 0 } else { 4242 }
            ));
        };
        event(
            "user_annotation",
            "execute_context_0(0)_generation_8(8)",
            1,
            at,
            95_000,
            "",
        );
        event("python_function", "a.py(1): think", 1, at + 10, 200_000, "");
        let id = format!("\"correlation\":{}", step + 1);
        event("cuda_runtime", "cudaLaunchKernel", 1, at + 200_100, 10, &id);
        let id = format!("{id},\"device\":0,\"stream\":7");
        event("kernel", "gemm_kernel", 7, at + 200_120, 250_000, &id);
        event(
            "cuda_runtime",
            "cudaStreamSynchronize",
            1,
            at + 40_200,
            50_000,
            "",
        );
    }
    format!(
        "{{\"schemaVersion\":1,\"baseTimeNanoseconds\":1775000000000000000,\"traceEvents\":[{}]}}",
        events.join(",")
    )
}

#[test]
fn a_gpu_log_confirms_or_contradicts_the_recording() {
    let log = |pct: u32| {
        let rows = (0..55).map(|n| {
            let ms = n * 400;
            format!(
                "2026/03/31 23:33:{:02}.{:03}, 0, {pct} %, 1980 MHz\n",
                19 + ms / 1_000,
                ms % 1_000
            )
        });
        let head = "timestamp, index, utilization.gpu [%], clocks.current.sm [MHz]\n";
        head.to_owned() + &rows.collect::<String>()
    };
    let answer = |pct: u32| {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("gpu.csv"), log(pct)).expect("a file");
        std::fs::write(folder.path().join("trace.json"), half_busy()).expect("a file");
        json(&[&folder.path().display().to_string()])
    };
    let same = answer(50);
    check_document(&same);
    let host = |document: &Value| {
        let findings = document["findings"].as_array().expect("findings").clone();
        findings
            .into_iter()
            .find(|f| f["kind"] == "host_bound")
            .expect("a finding")
    };
    let logs = &same["figures"]["logs"][0];
    assert_eq!(logs["utilisation_pct"], 50.0);
    let busy = logs["recorded_busy_pct"].as_f64().expect("a share");
    assert!((busy - 50.0).abs() < 2.0, "{busy}");
    assert!(host(&same)["evidence"].to_string().contains("confirms it"));
    assert!(!kinds(&same).contains(&"gpu_log_differs"));
    assert_eq!(host(&same)["confidence"], "established");
    let other = answer(100);
    check_document(&other);
    assert!(kinds(&other).contains(&"gpu_log_differs"));
    assert_eq!(host(&other)["confidence"], "possible");
}

#[test]
fn files_that_are_no_recordings_are_named() {
    let folder = healthy_with(&[
        ("notes.txt", "bought more memory\n"),
        (
            "metrics.prom",
            "# HELP vllm:num_requests_running n\nvllm:num_requests_running 3\n",
        ),
    ]);
    let document = json(&[&folder.path().display().to_string()]);
    check_document(&document);
    let files = document["scope"]["files"].as_array().expect("files");
    for name in ["notes.txt", "metrics.prom"] {
        let file = files.iter().find(|file| {
            let own = file["name"].as_str().expect("a name");
            own.ends_with(name)
        });
        assert!(
            file.is_some_and(|file| file["problem"].is_string()),
            "{name}"
        );
    }
    assert_eq!(document["answer"]["shape"], "limit");
}

#[test]
fn recordings_are_not_joined_if_that_is_asked() {
    let folder = data("serving/late-host");
    let joined = json(&[&folder]);
    assert!(
        joined["scope"]["assumed"]
            .to_string()
            .contains("ranks 0, 1 of one job")
    );
    let alone = json(&[&folder, "--no-join"]);
    check_document(&alone);
    assert_eq!(alone["trust"]["ranks_present"], serde_json::json!([0]));
    assert!(!kinds(&alone).contains(&"rank_skew"));
    let second = json(&[&folder, "--no-join", "--rank", "1"]);
    assert_eq!(second["trust"]["ranks_present"], serde_json::json!([1]));
    // Half of what the other rank sees is waiting, which cannot be told from transfer.
    assert_eq!(
        alone["answer"]["shape"], "cannot_say",
        "{}",
        alone["answer"]
    );
}

#[test]
fn columns_are_obeyed_and_stacks_are_written_for_speedscope() {
    let folder = data("serving/late-host");
    let run = Command::new(env!("CARGO_BIN_EXE_why"))
        .args([&folder])
        .env("COLUMNS", "120")
        .output()
        .expect("the tool runs");
    let wide = text(&run.stdout);
    assert!(wide.lines().any(|line| line.chars().count() > 80), "{wide}");
    let out = tempfile::tempdir().expect("a folder");
    let path = out
        .path()
        .join("stacks.speedscope.json")
        .display()
        .to_string();
    assert_eq!(
        why(&[&folder, "--speedscope", &path]).status.code(),
        Some(0)
    );
    let profile = std::fs::read_to_string(&path).expect("the profile");
    let profile: Value = serde_json::from_str(&profile).expect("JSON");
    let document = json(&[&folder]);
    let stacks = document["figures"]["stacks"].as_array().expect("stacks");
    let sum: i64 = stacks.iter().filter_map(|row| row["gpu_ns"].as_i64()).sum();
    assert_eq!(profile["profiles"][0]["endValue"], sum);
}

#[test]
fn rows_of_the_user_decide_what_a_kernel_is() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("my.rules");
    std::fs::write(&rules, "kernel moe *gemm* | *nvjet* | *gemv*\n").unwrap();
    let recordings = data("serving/late-host");
    let classes = |words: &[&str]| {
        let text = json(words).to_string();
        ["kernel.gemm", "kernel.moe"].map(|class| text.contains(&format!("\"{class}\"")))
    };
    assert_eq!(classes(&[&recordings]), [true, false]);
    let rules = rules.display().to_string();
    assert_eq!(classes(&[&recordings, "--classes", &rules]), [false, true]);
    std::fs::write(folder.path().join("bad.rules"), "kernal moe x\n").unwrap();
    let bad = folder.path().join("bad.rules").display().to_string();
    assert_eq!(
        why(&[&recordings, "--classes", &bad]).status.code(),
        Some(2)
    );
}
