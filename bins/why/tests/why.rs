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

/// Number of characters of the widest line that is no command.
fn widest(text: &str) -> usize {
    let lines = text.lines().filter(|line| !line.starts_with("next "));
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
fn missing_paths_and_present_outputs_are_errors_of_usage() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("none.json").display().to_string();
    assert_eq!(why(&[&missing]).status.code(), Some(2));
    let present = folder.path().join("present.pftrace");
    std::fs::write(&present, b"kept").expect("a file");
    let present = present.display().to_string();
    let healthy = data("serving/healthy");
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
