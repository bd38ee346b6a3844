//! Compares the analysis of public recordings with the results of a prototype of the rules.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use critical_path::{Change, Group, Options, analyse};
use serde_json::Value;

use support::graph;

/// Returns the path of a trace.
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

/// Maximum difference of a gain or a share from the prototype's, in percent of the window.
const CLOSE: f64 = 1.0;

/// Intended differences: trace, label, size in percent of the window, why the answer here is kept.
const DIFFERENT: &[(&str, &str, f64, &str)] = &[
    (
        "hta_alexnet",
        "host",
        1.4,
        "three calls of cudaMalloc (561, 8 and 12 ms) within which a kernel ends: the prototype takes them for waits for that \
         kernel, and leaves the 579 ms behind its end unexplained; memory is allocated without waiting, and the record has the \
         name of the call",
    ),
    ("hta_alexnet", "unknown", 1.4, "the same calls"),
];

/// Changes whose selection differs: trace, change, change that selects what the prototype does, why.
const OTHERWISE: &[(&str, &str, &str, &str)] = &[(
    "mi300_resnet_nccl",
    "kernel:class:gemm=0.5",
    "kernel:*?emm*=0.5,kernel:Cijk_*=0.5",
    "kernels of MIOpen's and CK's convolutions have gemm in their names (igemm_fwd_*, GridwiseGemmMultipleD_*): convolutions \
     here, products there",
)];

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn public_recordings_have_the_answers_of_the_prototype() {
    let folder = test_data::reference("critical-path").join("expect");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 16, "only {} recordings found", files.len());
    let mut wrong: Vec<String> = Vec::new();
    for file in files {
        let expect: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        compare(&expect, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn compare(expect: &Value, wrong: &mut Vec<String>) {
    let name = expect["trace"].as_str().unwrap();
    let whole = !expect["args"].as_array().unwrap().is_empty();
    let graph = graph(&[path_of(name)], whole);
    let mut options = Options::default();
    let changes = expect["what_if"].as_object().unwrap();
    options.what_if = changes
        .keys()
        .map(|text| {
            let other = OTHERWISE
                .iter()
                .find(|row| row.0 == name && row.1 == text.as_str());
            let text = other.map_or(text.as_str(), |row| row.2);
            text.parse::<Change>().unwrap()
        })
        .collect();
    let found = analyse(&graph, &options).unwrap();
    let mut exact = |what: String, got: String, want: String| {
        if got != want {
            wrong.push(format!("{name} {what}: got {got}, want {want}"));
        }
    };
    let number = |value: &Value| value.as_i64().unwrap_or(i64::MIN);
    let identity = found.replay.identity_error_ns;
    exact("identity".into(), identity.to_string(), "0".into());
    let steps = expect["steps"].as_array().unwrap();
    let count = found.steps.len().to_string();
    exact("steps".into(), count, steps.len().to_string());
    for (got, want) in found.steps.iter().zip(steps) {
        let place = format!("step {}", got.step);
        for (what, got) in [
            ("host_begin_ns", got.host_begin_ns),
            ("host_end_ns", got.host_end_ns),
            ("device_begin_ns", got.device_begin_ns.unwrap_or(0)),
            ("device_end_ns", got.device_end_ns.unwrap_or(0)),
            ("begin_ns", got.begin_ns),
            ("end_ns", got.end_ns),
            ("duration_ns", got.duration_ns),
        ] {
            let want = number(&want[what]);
            exact(format!("{place} {what}"), got.to_string(), want.to_string());
        }
        let verdict = want["verdict"].as_str().unwrap().to_owned();
        exact(format!("{place} verdict"), got.verdict.to_owned(), verdict);
        let limit = got.limit.map(|limit| limit.name());
        let wanted = want["limit"].as_str();
        exact(
            format!("{place} limit"),
            format!("{limit:?}"),
            format!("{wanted:?}"),
        );
        let flags: Vec<&str> = got.flags.iter().map(|flag| flag.name()).collect();
        let flags = serde_json::to_string(&flags).unwrap();
        exact(format!("{place} flags"), flags, want["flags"].to_string());
    }
    let mut close = |what: &str, label: String, got: f64, want: f64| {
        let allowed = DIFFERENT.iter().find(|row| row.0 == name && row.1 == what);
        let allowed = allowed.map_or(CLOSE, |row| row.2);
        if (got - want).abs() > allowed {
            wrong.push(format!("{name} {label}: got {got:.4} %, want {want:.4} %"));
        }
    };
    let window = found.window.duration_ns as f64;
    let is_plain = expect["unexplained_pct"].as_f64() == Some(0.0);
    for (got, want) in found.steps.iter().zip(steps) {
        for group in Group::ALL {
            let (got, want) = (got.groups.of(group), number(&want["groups"][group.name()]));
            let share = |ns: i64| ns as f64 * 100.0 / window;
            let label = format!("group {}", group.name());
            close(group.name(), label.clone(), share(got), share(want));
            // The graph rests on recorded facts alone.
            if is_plain && got != want {
                close("", label, 100.0, 0.0);
            }
        }
    }
    for (got, (change, want)) in found.what_if.iter().zip(changes) {
        close(change, change.clone(), got.gain_pct, want.as_f64().unwrap());
    }
    for row in &found.limits {
        let want = expect["limits"][row.group.name()].as_f64().unwrap();
        let label = format!("limit {}", row.group.name());
        close(row.group.name(), label, row.gain_pct, want);
    }
}

/// Maximum error of the model in percent of a step: median, 95th percentile.
const MODEL: [f64; 2] = [1.0, 3.0];

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn typical_latencies_reproduce_the_steps_of_public_recordings() {
    let mut traces: Vec<std::path::PathBuf> = ["peers/traces", "perfetto/traces"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(test_data::root().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".json.gz"))
        // Captures of graphs are no steps.
        .filter(|path| !path.to_string_lossy().contains("capture"))
        .collect();
    traces.sort();
    // Some are in both folders.
    let mut sizes = std::collections::BTreeSet::new();
    traces.retain(|path| sizes.insert(std::fs::metadata(path).unwrap().len()));
    let (mut all, mut lines) = (Vec::new(), Vec::new());
    for path in &traces {
        let mut graph = graph(std::slice::from_ref(path), false);
        if analyse(&graph, &Options::default()).is_err() {
            graph = self::graph(std::slice::from_ref(path), true);
        }
        let found = analyse(&graph, &Options::default()).unwrap();
        let is_complete = found.recordings[0].calls > 0 && found.recordings[0].ops > 0;
        if !is_complete {
            continue;
        }
        let steps = found.steps.iter().filter(|step| step.duration_ns > 0);
        let errors = steps.map(|step| {
            let off = (step.model_ns - step.duration_ns) as f64;
            100.0 * off.abs() / step.duration_ns as f64
        });
        let mut errors: Vec<f64> = errors.collect();
        all.extend_from_slice(&errors);
        errors.sort_by(f64::total_cmp);
        let [median, high] = quantiles(&errors);
        // The output has the same.
        assert!((found.replay.step_error_median_pct - median).abs() < 1e-9);
        assert!((found.replay.step_error_p95_pct - high).abs() < 1e-9);
        let name = path.file_name().unwrap().to_string_lossy();
        lines.push(format!(
            "{name}: {} steps, {median:.3} %, {high:.3} %",
            errors.len()
        ));
    }
    all.sort_by(f64::total_cmp);
    let found = quantiles(&all);
    lines.push(format!(
        "all: {} steps, {:.3} %, {:.3} %",
        all.len(),
        found[0],
        found[1]
    ));
    let text = lines.join("\n");
    println!("{text}");
    assert!(lines.len() > 10, "{text}");
    assert!(found[0] <= MODEL[0] && found[1] <= MODEL[1], "{text}");
}

/// Returns the median and the 95th percentile of ascending values.
fn quantiles(sorted: &[f64]) -> [f64; 2] {
    [50, 95].map(|percent| {
        let hundredths = (sorted.len() - 1) * percent;
        let (low, part) = (hundredths / 100, hundredths % 100);
        let (a, b) = (sorted[low], sorted[hundredths.div_ceil(100)]);
        a + (b - a) * part as f64 / 100.0
    })
}
