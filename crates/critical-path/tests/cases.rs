//! Checks every file of the hand-made traces against its expected answers.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use std::collections::BTreeMap;

use critical_path::{Graph, Group, Options, Step, analyse};
use serde_json::Value;

use support::graph;

fn groups_of(step: &Value) -> BTreeMap<String, i64> {
    let groups = step["groups"].as_object().unwrap();
    groups
        .iter()
        .map(|(name, ns)| (name.clone(), ns.as_i64().unwrap()))
        .collect()
}

fn main_checks(name: &str, expect: &Value, graph: &Graph, wrong: &mut Vec<String>) {
    let t0 = expect["t0_ns"].as_i64().unwrap();
    for want in expect["steps"].as_array().unwrap() {
        let rank = usize::try_from(want["rank"].as_u64().unwrap()).unwrap();
        let number = want["step"].as_u64().unwrap();
        let Some(step): Option<&Step> = graph
            .steps(rank)
            .iter()
            .find(|step| u64::from(step.number) == number)
        else {
            wrong.push(format!("{name}: no step {number} of rank {rank}"));
            continue;
        };
        let place = format!("{name} rank {rank} step {number}");
        let mut check = |what: &str, got: String, want: String| {
            if got != want {
                wrong.push(format!("{place} {what}: got {got}, want {want}"));
            }
        };
        check(
            "begin",
            (step.begin_ns - t0).to_string(),
            want["begin_ns"].to_string(),
        );
        check(
            "end",
            (step.end_ns - t0).to_string(),
            want["end_ns"].to_string(),
        );
        check(
            "duration",
            step.duration_ns().to_string(),
            want["duration_ns"].to_string(),
        );
        let flags: Vec<&str> = step.flags.iter().map(|flag| flag.name()).collect();
        check(
            "flags",
            serde_json::to_string(&flags).unwrap(),
            want["flags"].to_string(),
        );
        let found = graph.summary(rank, step);
        let mut groups = BTreeMap::new();
        for group in Group::ALL {
            if found.groups.of(group) != 0 {
                groups.insert(group.name().to_owned(), found.groups.of(group));
            }
        }
        check(
            "groups",
            format!("{groups:?}"),
            format!("{:?}", groups_of(want)),
        );
        check(
            "verdict",
            format!("\"{}\"", found.verdict()),
            want["verdict"].to_string(),
        );
        let limit = found.limit().map(|limit| limit.name());
        check(
            "limit",
            serde_json::to_string(&limit).unwrap(),
            want["limit"].to_string(),
        );
        if let Some(other) = want.get("other_ranks_ns") {
            check(
                "other ranks",
                found.other_ranks_ns.to_string(),
                other.to_string(),
            );
        }
        if let Some(segments) = want.get("segments") {
            let got: Vec<String> = graph
                .path(rank, step)
                .iter()
                .map(|s| {
                    serde_json::json!([
                        s.begin_ns - t0,
                        s.end_ns - t0,
                        s.class.name(),
                        s.name,
                        s.evidence.name()
                    ])
                    .to_string()
                })
                .collect();
            let want: Vec<String> = segments
                .as_array()
                .unwrap()
                .iter()
                .map(ToString::to_string)
                .collect();
            check("segments", format!("{got:#?}"), format!("{want:#?}"));
        }
    }
}

fn predictions(name: &str, expect: &Value, graph: &Graph, args: &[&str], wrong: &mut Vec<String>) {
    let mut options = Options::default();
    options.ops = true;
    if let Some(at) = args.iter().position(|arg| *arg == "--step") {
        options.step = Some(args[at + 1].parse().unwrap());
    }
    let list = |key: &str| expect[key].as_array().cloned().unwrap_or_default();
    for want in list("what_if") {
        let change = want["change"].as_str().unwrap();
        options.what_if.push(change.parse().unwrap());
    }
    let found = analyse(graph, &options).unwrap();
    let mut check = |what: String, got: String, want: String| {
        if got != want {
            wrong.push(format!("{name} {what}: got {got}, want {want}"));
        }
    };
    for (got, want) in found.what_if.iter().zip(list("what_if")) {
        let predicted = want["predicted_ns"].to_string();
        check(
            format!("what if {}", got.change),
            got.predicted_ns.to_string(),
            predicted,
        );
        if let Some(steps) = want.get("steps_ns") {
            let new: Vec<i64> = got.steps.iter().map(|step| step.predicted_ns).collect();
            let new = serde_json::to_string(&new).unwrap();
            check(format!("steps of {}", got.change), new, steps.to_string());
        }
    }
    for want in list("limits") {
        let group = want["group"].as_str().unwrap();
        let got = found
            .limits
            .iter()
            .find(|row| row.group.name() == group)
            .unwrap();
        check(
            format!("limit {group}"),
            got.predicted_ns.to_string(),
            want["predicted_ns"].to_string(),
        );
    }
    let t0 = expect["t0_ns"].as_i64().unwrap();
    for want in list("slack") {
        let (op, begin) = (
            want["name"].as_str().unwrap(),
            want["begin_ns"].as_i64().unwrap(),
        );
        let got = found
            .ops
            .iter()
            .find(|row| row.name == op && row.begin_ns - t0 == begin);
        let got = got.map(|row| row.slack_ns.to_string()).unwrap_or_default();
        check(
            format!("slack of {op} at {begin}"),
            got,
            want["slack_ns"].to_string(),
        );
    }
    check(
        "contradicted".to_owned(),
        found.contradicted.to_string(),
        expect["contradicted"].to_string(),
    );
    check(
        "identity".to_owned(),
        found.replay.identity_error_ns.to_string(),
        "0".to_owned(),
    );
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn every_hand_made_trace_has_its_answer() {
    let folder = test_data::reference("critical-path").join("cases");
    let mut wrong = Vec::new();
    let mut seen = 0;
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".expect.json"))
        .collect();
    files.sort();
    for file in files {
        let expect: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let name = expect["case"].as_str().unwrap();
        let args: Vec<&str> = expect["args"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let paths: Vec<_> = expect["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| folder.join(file.as_str().unwrap()))
            .collect();
        let graph = graph(&paths, args.contains(&"whole"));
        main_checks(name, &expect, &graph, &mut wrong);
        predictions(name, &expect, &graph, &args, &mut wrong);
        seen += 1;
    }
    assert!(seen >= 24, "only {seen} cases found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
