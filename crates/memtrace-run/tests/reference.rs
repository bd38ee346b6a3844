//! Compares configuration, validity and run folders with the recorded results of the reference.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use byte_source::OpenOptions;
use memtrace_analyser::AnalysisOptions;
use memtrace_labeller::{InputOptions, LabelOptions, Names, Phases, RowStream};
use memtrace_run::{
    Disturbance, Error, Experiment, Naming, ObserverEffect, ObserverSample, ObserverVersion,
    RunExporter, Steps, ValidityLimits, classify, plan_text, throttle_events, verify_manifest,
};
use serde_json::Value;
use support::{data, read};

const VERSIONS: [(&str, ObserverVersion, ValidityLimits); 2] = [
    ("0.1.0", ObserverVersion::Mrm010, ValidityLimits::MRM_010),
    ("0.1.23", ObserverVersion::Mrm023, ValidityLimits::MRM_023),
];

fn real(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn classes_of_validity_are_those_of_the_reference() {
    let folder = data();
    for (version, _, limits) in VERSIONS {
        let cases = support::json(&folder.join(format!("unit_{version}/validity.json.gz")));
        assert_eq!(cases.as_array().unwrap().len(), 400);
        for case in cases.as_array().unwrap() {
            let given = &case["in"];
            let mut seen = Disturbance::none();
            seen.cpu_pct = real(&given["observer_cpu_overhead_pct_max"]);
            seen.memory_frac = real(&given["observer_memory_frac"]);
            seen.throttle_events = given["thermal_throttle_events"].as_u64().unwrap();
            seen.baseline_cpu_pct = real(&given["baseline_cpu_pct"]);
            seen.io_contention = given["io_contention_detected"].as_bool().unwrap();
            let (class, reasons) = classify(&seen, &limits);
            assert_eq!(class.name(), case["run_validity"], "{version}: {case}");
            assert_eq!(
                reasons.len() as u64,
                case["n_failures"],
                "{version}: {case}"
            );
        }
    }
    let cases = support::json(&folder.join("unit_0.1.23/validity_temperature.json"));
    for case in cases.as_array().unwrap() {
        let mut seen = Disturbance::none();
        seen.peak_temperature_c = real(&case["peak_temp_c"]);
        let (class, _) = classify(&seen, &ValidityLimits::MRM_023);
        assert_eq!(class.name(), case["run_validity"], "{case}");
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn summaries_of_the_observer_are_those_of_the_reference() {
    let folder = data();
    for (version, rule, limits) in VERSIONS {
        let cases = support::json(&folder.join(format!("unit_{version}/observer_effect.json.gz")));
        for case in cases.as_array().unwrap() {
            let observer: Vec<ObserverSample> = case["observer"]
                .as_array()
                .unwrap()
                .iter()
                .map(|s| ObserverSample::new(real(&s[0]), real(&s[1]), s[2].as_u64().unwrap()))
                .collect();
            let target: Vec<f64> = case["target_rss_mb"]
                .as_array()
                .unwrap()
                .iter()
                .map(real)
                .collect();
            let effect = ObserverEffect::new(
                &observer,
                &target,
                case["throttle"].as_u64().unwrap(),
                real(&case["baseline"]),
                rule,
            );
            let ours = serde_json::to_value(&effect).unwrap();
            for (key, theirs) in case["out"].as_object().unwrap() {
                let same = match (ours[key].as_f64(), theirs.as_f64()) {
                    (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * b.abs(),
                    _ => ours[key] == *theirs,
                };
                assert!(
                    same,
                    "{version}: {key}: ours {}, reference {theirs}",
                    ours[key]
                );
            }
            let (class, _) = classify(&effect.disturbance(rule), &limits);
            assert_eq!(class.name(), case["validity"], "{version}: {case}");
        }
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn throttle_events_are_counted_as_by_the_reference() {
    let folder = data();
    let cases = support::json(&folder.join("unit_0.1.0/thermal.json"));
    for case in cases.as_array().unwrap() {
        let counts = |key: &str| -> BTreeMap<String, u64> {
            serde_json::from_value(case[key].clone()).unwrap()
        };
        let events = throttle_events(&counts("before"), &counts("after"));
        assert_eq!(events, case["events"], "{case}");
    }
}

/// Replaces the time in a name.
fn stamp(text: &str) -> String {
    text.replace("<TS>", "20250102T030405Z")
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn configurations_are_read_validated_and_planned_as_by_the_reference() {
    let folder = data();
    for version in ["0.1.0", "0.1.23"] {
        let cases = support::json(&folder.join(format!("unit_{version}/configs.json.gz")));
        let place = tempfile::tempdir().unwrap();
        for (name, case) in cases.as_object().unwrap() {
            let text = case["yaml"].as_str().unwrap();
            let experiment = match Experiment::from_yaml(text) {
                Ok(experiment) => experiment,
                Err(error) => {
                    assert_eq!(case["load"], "ValueError", "{name}: {error}");
                    let head = case["error_head"].as_str().unwrap();
                    let head = head.split(": while").next().unwrap().trim_end_matches(':');
                    assert!(error.to_string().starts_with(head), "{name}: {error}");
                    if let Error::ConfigInvalid(mistakes) = error {
                        for field in case["error_fields"].as_array().unwrap() {
                            let field = field.as_str().unwrap();
                            assert!(
                                mistakes.iter().any(|m| m.field == field),
                                "{name}: {mistakes:?}"
                            );
                        }
                    }
                    continue;
                }
            };
            assert_eq!(case["load"], "ok", "{name}");
            if case["model_dump"].is_object() {
                let dump = serde_json::to_value(&experiment.config).unwrap();
                assert_eq!(dump, case["model_dump"], "{name}");
            }
            let runs = experiment.plan_at("20250102T030405Z", Naming::Mrm);
            assert_eq!(runs.len() as u64, case["n_runs"], "{name}");
            for (run, theirs) in runs
                .iter()
                .zip(case["runs"].as_array().into_iter().flatten())
            {
                assert_eq!(run.run_id, stamp(theirs[6].as_str().unwrap()), "{name}");
                let folder = run.output_dir.to_string_lossy();
                assert_eq!(folder, stamp(theirs[7].as_str().unwrap()), "{name}");
                assert_eq!(run.is_warmup, theirs[5], "{name}");
            }
            let printed = case["plan"]["stdout"].as_str().unwrap();
            assert!(
                plan_text(&experiment.config.experiment.name, &runs).starts_with(printed),
                "{name}"
            );
            check_findings(name, case, text, place.path());
        }
    }
}

/// The reference validated a file `cfg.yaml` in its own folder, without perf.
fn check_findings(name: &str, case: &Value, text: &str, place: &Path) {
    fs::write(place.join("cfg.yaml"), text).unwrap();
    let text = text.replace("cfg.yaml", &place.join("cfg.yaml").display().to_string());
    let found = Experiment::from_yaml(&text).unwrap().validate(|_| false);
    let printed = case["validate"]["stdout"].as_str().unwrap();
    for warning in &found.warnings {
        assert!(
            printed.contains(&format!("  [WARN]  {warning}\n")),
            "{name}: {warning}"
        );
    }
    let expected = printed.matches("[WARN]").count();
    assert_eq!(found.warnings.len(), expected, "{name}");
    assert_eq!(
        u64::from(!found.errors.is_empty()),
        case["validate"]["exit"],
        "{name}"
    );
    if let Some(error) = found.errors.first() {
        let error = format!("  [ERROR] {error}").replace(&format!("{}/", place.display()), "");
        assert_eq!(error, case["validate"]["stderr_first"], "{name}");
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn run_folders_have_what_the_reference_writes() {
    let folder = data();
    let mut seen = 0;
    for entry in fs::read_dir(folder.join("expected_0.1.0")).unwrap() {
        let case = entry.unwrap().file_name().into_string().unwrap();
        // Addresses of more than 64 bits cannot be stored in Parquet.
        if case == "overflow_addr" {
            continue;
        }
        let out = tempfile::tempdir().unwrap();
        let mut names = Names::new();
        let truth = read(&folder.join(format!("inputs/{case}.truth.json")));
        let phases = Phases::from_json(&case, &truth, &mut names).unwrap();
        let text = folder.join(format!("inputs/{case}.perf.txt.gz"));
        let is_text = text.exists();
        let path = if is_text {
            text
        } else {
            folder.join(format!("inputs/{case}.rows.jsonl.gz"))
        };
        let mut stream =
            RowStream::open_path(path, &OpenOptions::default(), &InputOptions::mrm_010()).unwrap();
        if is_text {
            stream = stream.with_phases(phases);
        }
        let mut steps = Steps::default();
        steps.label = Some(LabelOptions::mrm());
        steps.analyse = Some(AnalysisOptions::mrm());
        let exporter = RunExporter::new(out.path(), &case, "mrm-0.1");
        let (done, manifest) = exporter.export(stream, names, steps).unwrap();
        assert!(verify_manifest(out.path()).unwrap().1.is_empty(), "{case}");
        let has = |name: &str| manifest.files.iter().any(|file| file.path == name);
        for name in [
            "trace.parquet",
            "region_map.parquet",
            "kv_block_lifecycle.parquet",
            "metrics.csv",
            "metadata.json",
        ] {
            assert!(has(name), "{case}: {name}");
        }
        let expected = folder.join(format!("expected_0.1.0/{case}/metrics.csv"));
        if expected.exists() {
            // The reference's sums occasionally differ in the last digit.
            let ours = fs::read_to_string(out.path().join("metrics.csv")).unwrap();
            let theirs = fs::read_to_string(expected).unwrap();
            assert_eq!(ours.lines().count(), theirs.lines().count(), "{case}");
            for (ours, theirs) in ours.split([',', '\n']).zip(theirs.split([',', '\n'])) {
                let same = match (ours.parse::<f64>(), theirs.parse::<f64>()) {
                    (Ok(a), Ok(b)) => {
                        (a - b).abs()
                            <= 1e-9 * b.abs().max(if case == "epoch_ns" { 256.0 } else { 0.0 })
                    }
                    _ => ours == theirs,
                };
                assert!(same, "{case}: ours {ours}, reference {theirs}");
            }
            seen += 1;
        }
        // Written data reads back unchanged.
        let mut stream = RowStream::open_path(
            out.path().join("trace.parquet"),
            &OpenOptions::default(),
            &InputOptions::default(),
        )
        .unwrap();
        let (mut names, mut rows) = (Names::new(), Vec::new());
        while stream.next_batch(&mut names, &mut rows).unwrap() {}
        assert_eq!(rows.len() as u64, done.report.rows, "{case}");
    }
    assert!(seen >= 10, "only {seen} cases");
}
