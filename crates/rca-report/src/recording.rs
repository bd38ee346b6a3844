//! Properties that a recording states about itself, for comparisons with another.

use std::collections::{BTreeMap, BTreeSet};

use perf_compare::{CAPTURE_SETTINGS, Recording};
use rca_cycles::Analysis;
use serde_json::Value;
use trace_model::Trace;

/// Returns GPU models, engine, rank and settings of the profiler, as far as the recording states them.
#[must_use]
pub fn recording(trace: &Trace, analysis: &Analysis) -> Recording {
    let meta = trace.meta();
    let listed = meta.entry("deviceProperties").unwrap_or_default();
    let used = analysis.functions.iter().filter(|f| f.kind.is_device());
    let job = meta.distributed.as_ref();
    let mut recording = Recording::default();
    recording.gpus = models(listed, &used.map(|f| f.device).collect());
    recording.engine.clone_from(&analysis.engine);
    recording.rank = meta.rank().map(|rank| rank.0);
    recording.world_size = job.and_then(|job| job.world_size);
    recording.capture = capture(|name| meta.entry(name));
    recording
}

/// Returns the settings of the profiler. Kineto states its schema always and a setting only where it is on.
fn capture<'t>(entry: impl Fn(&str) -> Option<&'t str>) -> BTreeMap<String, bool> {
    let unstated = entry("schemaVersion").map(|_| false);
    let settings = CAPTURE_SETTINGS.into_iter();
    settings
        .filter_map(|name| {
            let on = match entry(name) {
                Some(text) => is_on(text),
                None => unstated,
            };
            Some((name.to_owned(), on?))
        })
        .collect()
}

/// Parses a switch as Kineto writes it.
fn is_on(text: &str) -> Option<bool> {
    match text.trim().trim_matches('"') {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// Returns the names of the GPUs that were used; of all listed GPUs if none of these is listed.
fn models(listed: &str, used: &BTreeSet<i64>) -> BTreeSet<String> {
    let listed: Value = serde_json::from_str(listed).unwrap_or_default();
    let all = listed.as_array().map_or(&[][..], Vec::as_slice);
    let names = |of: &dyn Fn(&&Value) -> bool| -> BTreeSet<String> {
        let found = all.iter().filter(of).filter_map(|gpu| gpu["name"].as_str());
        // Some profilers list devices without their names.
        let known = found.map(str::trim).filter(|name| !name.is_empty());
        known.map(str::to_owned).collect()
    };
    let own = names(&|gpu| gpu["id"].as_i64().is_some_and(|id| used.contains(&id)));
    if own.is_empty() {
        names(&|_| true)
    } else {
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gpus_that_worked_are_those_of_the_recording() {
        const LISTED: &str = r#"[{"id": 0, "name": "T4"}, {"id": 1, "name": "NVIDIA H100 "}]"#;
        let of = |used: i64| {
            models(LISTED, &[used].into())
                .into_iter()
                .collect::<Vec<_>>()
        };
        assert_eq!(of(1), ["NVIDIA H100"]);
        let unnamed = models(r#"[{"id": 0, "name": ""}]"#, &[0].into());
        assert!(unnamed.is_empty(), "{unnamed:?}");
        // Devices with other numbers than those listed.
        assert_eq!(of(7), ["NVIDIA H100", "T4"]);
        assert_eq!(
            (is_on("1"), is_on("false"), is_on("[]")),
            (Some(true), Some(false), None)
        );
    }
    #[test]
    fn a_setting_that_kineto_does_not_state_is_off() {
        let on = |entries: &[(&str, &'static str)]| -> Vec<String> {
            let of = |name: &str| entries.iter().find(|e| e.0 == name).map(|e| e.1);
            let capture = capture(of).into_iter();
            capture.map(|(name, on)| format!("{name} {on}")).collect()
        };
        let stated = [
            ("schemaVersion", "1"),
            ("with_flops", "1"),
            ("with_stack", "[]"),
        ];
        assert_eq!(
            on(&stated),
            [
                "profile_memory false",
                "record_shapes false",
                "with_flops true",
                "with_modules false"
            ]
        );
        // What is not of Kineto states nothing by leaving it out.
        assert_eq!(on(&stated[1..]), ["with_flops true"]);
    }
}
