//! The culprits of a slower side, as JSON: those that the comparison of cycles ranks and the verdict about the tables allows.

use std::collections::BTreeSet;

use perf_compare::document::{CycleTime, Statement};
use rca_cycles::Analysis;
use rca_cycles::compare::{Comparison, Culprit, CulpritKind, Normalisation};
use serde_json::{Value, json};
use trace_model::Waiting;

use crate::agreement::explained;

/// Returns the culprits that the verdict allows: the verdict decides, as in `perf-compare`, and the
/// comparison of cycles ranks. Without a cause there are no culprits, and with too few cycles no
/// time is one.
#[must_use]
pub fn culprits(
    abnormal: &[(&str, &Analysis)],
    comparison: &Comparison,
    report: &perf_compare::Report,
) -> Vec<Value> {
    let cause = report.verdict.cause.as_str();
    if cause == "none" || report.identical {
        return Vec::new();
    }
    let mut culprits = comparison
        .culprits
        .iter()
        .map(|c| culprit(abnormal, c, cause))
        .collect::<Vec<_>>();
    if cause != "workload_shift" {
        // What the work of a step explains is to blame for nothing.
        let is_explained = |culprit: &Value| {
            let mut findings = report.findings.iter();
            findings.any(|f| f.by_work && culprit["name"] == f.name.as_str())
        };
        culprits.retain(|culprit| !is_explained(culprit));
        let mut phases = comparison.phases.iter();
        let is_outside = phases.any(|phase| phase.normalisation == Normalisation::Outside);
        if culprits.is_empty() && is_outside {
            culprits = beyond_work(report);
        }
    }
    let mut times = report.cycle_time.iter();
    if times.all(|time| time.verdict == Statement::Insufficient) {
        culprits.retain(|culprit| culprit["kind"] == "counter");
    }
    if cause == "drift" {
        // The comparison of cycles does not detect drift; that of tables does.
        let declared = |culprit: &Value| {
            let mut findings = report.findings.iter();
            findings.any(|f| f.verdict == Statement::Changed && culprit["name"] == f.name.as_str())
        };
        culprits.retain(declared);
        if culprits.is_empty() {
            culprits = grown(report);
        }
    }
    let waits = |culprit: &Value| {
        let name = culprit["name"].as_str().unwrap_or("");
        Waiting::of_own_time(name).is_some()
    };
    if cause == "waiting_for_input" {
        // The wait that the verdict is about, then others.
        let mut rows = report.verdict.evidence.iter();
        let row = rows.find(|row| row.metric == "input_wait_us");
        let name = row.map_or("", |row| row.device.trim_start_matches("Host: "));
        culprits.sort_by_key(|culprit| (culprit["name"] != name, !waits(culprit)));
    } else if !culprits.iter().all(waits) {
        // A waiting function is not a culprit while there is another one.
        culprits.retain(|culprit| !waits(culprit));
    }
    if cause == "pauses" && culprits.is_empty() {
        culprits = paused(report);
    }
    if report.is_whole_host() {
        culprits.insert(0, whole_host(report));
    }
    let parts = report.findings.iter().filter(|f| f.part_of.is_some());
    let parts: BTreeSet<&str> = parts.map(|f| f.name.as_str()).collect();
    culprits.retain(|culprit| {
        !culprit["name"]
            .as_str()
            .is_some_and(|name| parts.contains(name))
    });
    if !report.is_whole_host() {
        culprits.splice(..0, layers(report));
    }
    if let Some(class) = kernel_class(report) {
        culprits.insert(0, class);
    }
    culprits
}

fn culprit(abnormal: &[(&str, &Analysis)], c: &Culprit, cause: &str) -> Value {
    let evidence: Vec<Value> = c
        .evidence
        .iter()
        .filter_map(|e| {
            let (name, analysis) = abnormal.get(e.run)?;
            Some(json!({
                "side": "abnormal",
                "trace": name,
                "cycle": e.cycle + 1,
                "event": {
                    "slice_id": e.slice.index(),
                    "name": analysis.functions.get(e.function)?.name,
                    "ts_ns": e.at_ns.0,
                    "dur_ns": e.at_ns.1 - e.at_ns.0,
                },
            }))
        })
        .collect();
    let slow: Vec<Value> = c
        .slow_cycles
        .iter()
        .filter_map(|&(run, cycle)| {
            Some(json!({"trace": abnormal.get(run)?.0, "cycle": cycle + 1}))
        })
        .collect();
    json!({
        "name": c.name,
        "kind": c.kind.name(),
        "device": c.device,
        "rank": c.rank,
        "phase": c.phase.name(),
        "effect_ns": c.effect_ns,
        "interval_ns": [c.interval_ns.0, c.interval_ns.1],
        "p_adjusted": c.p_adjusted,
        "normal": c.normal,
        "abnormal": c.abnormal,
        "is_new": c.is_new,
        "slow_cycles": slow,
        "explained_by_verdict": explained(c.kind, &c.name, cause),
        "evidence": evidence,
    })
}

/// Returns a culprit from the comparison of tables, in the form of the others. Times are in
/// microseconds.
fn named_by_tables(
    (kind, name): (&str, &str),
    time: Option<&CycleTime>,
    (effect, interval): (Option<f64>, Option<[f64; 2]>),
    p: Option<f64>,
    slow: Vec<Value>,
) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "times of cycles")]
    let ns = |us: f64| (us * 1000.0).round() as i64;
    json!({
        "name": name,
        "kind": kind,
        "device": null,
        "rank": null,
        "phase": time.map_or("", |time| time.cycle_type.as_str()),
        "effect_ns": effect.map(ns),
        "interval_ns": interval.map(|ends| ends.map(ns)),
        "p_adjusted": p,
        "normal": null,
        "abnormal": null,
        "is_new": false,
        "slow_cycles": slow,
        "explained_by_verdict": true,
        "evidence": [],
    })
}

/// Returns all host code as a culprit, with the increase of a cycle.
fn whole_host(report: &perf_compare::Report) -> Value {
    let changed = |time: &&CycleTime| time.verdict == Statement::Changed;
    let time = report.cycle_time.iter().find(changed);
    let time = time.or_else(|| report.cycle_time.first());
    let effect = time.map(|time| &time.effect);
    let of = (effect.map(|e| e.delta), effect.and_then(|e| e.interval));
    let p = effect.and_then(|e| e.p);
    named_by_tables(("function", "all host code"), time, of, p, Vec::new())
}

/// Returns the classes of kernels that are to blame together as a culprit, with what they take longer per cycle.
fn kernel_class(report: &perf_compare::Report) -> Option<Value> {
    if report.verdict.cause != "gpu_kernel" {
        return None;
    }
    let mut rows = report.verdict.evidence.iter();
    let row = rows.find(|row| row.metric == "kernel_class_us")?;
    let (_, classes) = row.device.split_once(": ")?;
    let name = format!("all {classes} kernels");
    let of = (Some(row.effect), row.interval);
    let time = report.cycle_time.first();
    Some(named_by_tables(
        ("kernel_class", &name),
        time,
        of,
        None,
        Vec::new(),
    ))
}

/// Returns the layers or modules that changed together as one culprit each, with what they take longer per cycle.
fn layers(report: &perf_compare::Report) -> Vec<Value> {
    let host = report.verdict.cause == "host_code" && report.verdict.direction == "worse";
    let of_cause = report.findings.iter().filter(|_| host);
    let grown = of_cause.filter(|f| f.verdict == Statement::Changed && f.effect.delta > 0.0);
    grown
        .filter_map(|f| {
            let name = format!("{} ({} of them)", f.name, f.members?);
            let mut times = report.cycle_time.iter();
            let time = times.find(|time| time.cycle_type == f.cycle_type);
            let of = (Some(f.effect.delta), f.effect.interval);
            let culprit = named_by_tables(("function", &name), time, of, f.q, Vec::new());
            Some(culprit)
        })
        .collect()
}

/// Returns the functions that changed by more than the work of a step explains, where cycles of the sides did other work and so
/// cannot be compared one with another.
fn beyond_work(report: &perf_compare::Report) -> Vec<Value> {
    const SHOWN: usize = 10;
    let kind = |class: &str| match class {
        "kernel" | "collective" => Some(CulpritKind::Kernel),
        "host" => Some(CulpritKind::Function),
        _ => None,
    };
    let better = report.verdict.direction == "better";
    let own = report.findings.iter().filter(|f| {
        f.verdict == Statement::Changed
            && !f.by_work
            && f.part_of.is_none()
            && f.members.is_none()
            && f.kind == "function"
            && (f.effect.delta < 0.0) == better
    });
    let culprits = own.filter_map(|f| {
        let kind = kind(f.class)?;
        let mut times = report.cycle_time.iter();
        let time = times.find(|time| time.cycle_type == f.cycle_type);
        let of = (Some(f.effect.delta), f.effect.interval);
        let mut culprit = named_by_tables((kind.name(), &f.name), time, of, f.q, Vec::new());
        // Numbers, as those of the comparison of cycles.
        let number = |text: &str, of: &str| text.strip_prefix(of)?.parse::<u32>().ok();
        culprit["device"] = json!(number(&f.device, "GPU "));
        culprit["rank"] = json!(f.rank.as_deref().and_then(|rank| number(rank, "rank ")));
        culprit["explained_by_verdict"] = json!(explained(kind, &f.name, &report.verdict.cause));
        Some(culprit)
    });
    culprits.take(SHOWN).collect()
}

/// Returns the functions that grow within the candidate, with what they take longer at its end than at its begin.
fn grown(report: &perf_compare::Report) -> Vec<Value> {
    let found = report.cycle_time.iter().find_map(|time| {
        let growth = time.growth.as_ref()?;
        Some((time, growth))
    });
    let Some((time, growth)) = found else {
        return Vec::new();
    };
    let each = growth.functions.iter().map(|f| {
        let of = (Some(f.excess_us), None);
        named_by_tables(("function", &f.name), Some(time), of, None, Vec::new())
    });
    each.collect()
}

/// Returns the functions with the pauses of the candidate, with their cost per cycle.
fn paused(report: &perf_compare::Report) -> Vec<Value> {
    let with_pauses = report.cycle_time.iter().find_map(|time| {
        let pauses = time.pauses.as_ref()?;
        (pauses.established && pauses.more_in_candidate).then_some((time, pauses))
    });
    let Some((time, pauses)) = with_pauses else {
        return Vec::new();
    };
    #[expect(clippy::cast_precision_loss, reason = "numbers of cycles")]
    let part = pauses.pauses[1] as f64 / pauses.of[1].max(1) as f64;
    let slow = || {
        let numbers = pauses.numbers.iter();
        numbers
            .map(|cycle| json!({"trace": null, "cycle": cycle}))
            .collect()
    };
    let each = pauses.functions.iter().map(|f| {
        let of = (Some(f.excess_us * part), None);
        named_by_tables(
            ("function", &f.name),
            Some(time),
            of,
            Some(pauses.p),
            slow(),
        )
    });
    each.collect()
}
