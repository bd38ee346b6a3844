//! Public recordings, compared with what a prototype of the rules said of them.

mod support;

use critical_path::{Change, Group, Options, analyse};
use serde_json::Value;

use support::graph;

/// Where a trace is.
fn path_of(name: &str) -> std::path::PathBuf {
    let other = match name {
        "h100_bert" => "h100_gaunernst_bert-small-uncased",
        "mi300_nsfw" => "mi300_Falconsai_nsfw_image_detection",
        "sglang_decode" => "sglang_Qwen3-8B_decode",
        name => name,
    };
    let folders = ["critical-path/traces", "peers/traces", "perfetto/traces"];
    folders
        .iter()
        .map(|folder| {
            test_data::root()
                .join(folder)
                .join(format!("{other}.json.gz"))
        })
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("no trace {name}"))
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn public_recordings_have_the_answers_of_the_prototype() {
    let folder = test_data::reference("critical-path").join("expect");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut wrong: Vec<String> = Vec::new();
    for file in files {
        let expect: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let name = expect["trace"].as_str().unwrap();
        if std::env::var("ONLY").is_ok_and(|only| !name.contains(&only[..])) {
            continue;
        }
        let whole = !expect["args"].as_array().unwrap().is_empty();
        let graph = graph(&[path_of(name)], whole);
        let mut options = Options::default();
        let changes = expect["what_if"].as_object().unwrap();
        options.what_if = changes
            .keys()
            .map(|text| text.parse::<Change>().unwrap())
            .collect();
        let found = analyse(&graph, &options).unwrap();
        println!(
            "== {name} edges {:?} contradicted {}",
            found.edges, found.contradicted
        );
        for row in &found.recordings {
            println!(
                "   lags {:?}",
                row.lags
                    .iter()
                    .map(|(name, lag)| format!(
                        "{name} {} {} n{}",
                        lag.typical_ns, lag.high_ns, lag.samples
                    ))
                    .collect::<Vec<_>>()
            );
        }
        let mut say = |what: String, got: String, want: String| {
            if got != want {
                println!("   {what}: got {got}, want {want}");
                wrong.push(format!("{name} {what}: got {got}, want {want}"));
            }
        };
        let number = |value: &Value| value.as_i64().unwrap_or(i64::MIN);
        say(
            "identity".into(),
            found.replay.identity_error_ns.to_string(),
            "0".into(),
        );
        say(
            "model".into(),
            found.replay.model_ns.to_string(),
            number(&expect["replay"]["model_ns"]).to_string(),
        );
        let steps = expect["steps"].as_array().unwrap();
        say(
            "steps".into(),
            found.steps.len().to_string(),
            steps.len().to_string(),
        );
        for (got, want) in found.steps.iter().zip(steps) {
            let place = format!("step {}", got.step);
            for (what, got) in [
                ("host_begin_ns", got.host_begin_ns),
                ("host_end_ns", got.host_end_ns),
                ("device_begin_ns", got.device_begin_ns.unwrap_or(0)),
                ("device_end_ns", got.device_end_ns.unwrap_or(0)),
                ("begin_ns", got.begin_ns),
                ("end_ns", got.end_ns),
            ] {
                say(
                    format!("{place} {what}"),
                    got.to_string(),
                    number(&want[what]).to_string(),
                );
            }
            say(
                format!("{place} verdict"),
                got.verdict.to_string(),
                want["verdict"].as_str().unwrap().into(),
            );
            let limit = got.limit.map(|limit| limit.name());
            say(
                format!("{place} limit"),
                format!("{limit:?}"),
                format!("{:?}", want["limit"].as_str()),
            );
            let got_groups: Vec<i64> = Group::ALL
                .iter()
                .map(|group| got.groups.of(*group))
                .collect();
            let want_groups: Vec<i64> = Group::ALL
                .iter()
                .map(|group| number(&want["groups"][group.name()]))
                .collect();
            say(
                format!("{place} groups"),
                format!("{got_groups:?}"),
                format!("{want_groups:?}"),
            );
        }
        let close = |got: f64, want: &Value| (got - want.as_f64().unwrap()).abs() < 0.001;
        for (got, (change, want)) in found.what_if.iter().zip(changes) {
            if !close(got.gain_pct, want) {
                say(
                    change.clone(),
                    format!("{:.4}", got.gain_pct),
                    want.to_string(),
                );
            }
        }
        for row in &found.limits {
            let want = &expect["limits"][row.group.name()];
            if !close(row.gain_pct, want) {
                say(
                    format!("limit {}", row.group.name()),
                    format!("{:.4}", row.gain_pct),
                    want.to_string(),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ", wrong.len());
}
