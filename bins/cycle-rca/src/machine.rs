//! What recordings were made on, and whether durations of two sides may be compared.

use std::collections::BTreeSet;

use rca_cycles::Analysis;
use serde_json::Value;
use trace_model::Trace;

/// GPU models and engine of a recording, as far as it states them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    models: BTreeSet<String>,
    engine: Option<String>,
}

impl Machine {
    pub(crate) fn new(trace: &Trace, analysis: &Analysis) -> Self {
        let listed = trace.meta().entry("deviceProperties").unwrap_or_default();
        let used = analysis.functions.iter().filter(|f| f.kind.is_device());
        Self {
            models: models(listed, &used.map(|f| f.device).collect()),
            engine: analysis.engine.clone(),
        }
    }
}

/// The names of the GPUs that worked; of all that are listed, if none of these is.
fn models(listed: &str, used: &BTreeSet<i64>) -> BTreeSet<String> {
    let listed: Value = serde_json::from_str(listed).unwrap_or_default();
    let all = listed.as_array().map_or(&[][..], Vec::as_slice);
    let names = |of: &dyn Fn(&&Value) -> bool| -> BTreeSet<String> {
        let found = all.iter().filter(of).filter_map(|gpu| gpu["name"].as_str());
        found.map(|name| name.trim().to_owned()).collect()
    };
    let own = names(&|gpu| gpu["id"].as_i64().is_some_and(|id| used.contains(&id)));
    if own.is_empty() {
        names(&|_| true)
    } else {
        own
    }
}

/// Returns why durations of the sides say nothing about each other, if so: other GPUs or another engine. What only one
/// side states is no reason.
pub(crate) fn difference(normal: &[Machine], abnormal: &[Machine]) -> Option<String> {
    let both = |of: &dyn Fn(&Machine) -> BTreeSet<String>| {
        let [a, b] = [normal, abnormal].map(|list| list.iter().flat_map(of).collect());
        let (a, b): (BTreeSet<String>, BTreeSet<String>) = (a, b);
        let shown = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" and ");
        (a != b && !a.is_empty() && !b.is_empty()).then(|| (shown(&a), shown(&b)))
    };
    let reasons = [
        ("GPUs", both(&|m| m.models.clone())),
        ("engines", both(&|m| m.engine.iter().cloned().collect())),
    ];
    let mut reasons = reasons.into_iter().filter_map(|(what, differ)| {
        let (a, b) = differ?;
        Some(format!(
            "the sides ran on other {what}: {a} (normal) and {b} (abnormal)"
        ))
    });
    reasons.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(gpus: &str, engine: Option<&str>) -> Machine {
        Machine {
            models: models(gpus, &[1].into()),
            engine: engine.map(str::to_owned),
        }
    }

    #[test]
    fn other_gpus_and_engines_are_not_comparable() {
        const H100: &str = r#"[{"id": 0, "name": "T4"}, {"id": 1, "name": "NVIDIA H100"}]"#;
        const MI300: &str = r#"[{"id": 4, "name": "AMD Instinct MI300X "}]"#;
        let differ = |a: Machine, b: Machine| difference(&[a], &[b]);
        assert_eq!(
            differ(on(H100, None), on(MI300, Some("vllm-v1"))).as_deref(),
            Some(
                "the sides ran on other GPUs: NVIDIA H100 (normal) and AMD Instinct MI300X (abnormal)"
            )
        );
        assert_eq!(
            differ(on(H100, Some("sglang")), on(H100, Some("sglang"))),
            None
        );
        assert_eq!(differ(on(H100, None), on("", Some("sglang"))), None);
        let engines = differ(on("", Some("sglang")), on("x", Some("vllm-v1")));
        assert!(engines.is_some_and(|why| why.contains("sglang (normal) and vllm-v1")));
    }
}
