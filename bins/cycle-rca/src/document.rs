//! Results as JSON.

use critical_path::{Group, StepRow};
use perf_compare::document::{CycleTime, Statement};
use rca_cycles::compare::{Comparison, Culprit};
use rca_cycles::{Analysis, Cycle, Function, Interference, StepPaths, health};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use trace_model::{SliceId, Trace};

use report::SchemaVersion;

use crate::agreement::explained;

pub(crate) const VERSION: SchemaVersion = SchemaVersion::new(1, 0);

/// Members of an object, stored as JSON text: as values the thousands of cycles of a long trace
/// would take several times as much memory.
#[derive(Default)]
pub(crate) struct Members(Vec<(&'static str, Box<RawValue>)>);

impl Members {
    /// Adds a member; names must differ.
    pub(crate) fn insert<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> serde_json::Result<()> {
        self.0.push((name, to_raw_value(value)?));
        Ok(())
    }

    /// Sets a member of each object of the list `name` to the corresponding value; has no effect
    /// without such a list.
    pub(crate) fn set_in_each(
        &mut self,
        name: &str,
        member: &str,
        values: &[Value],
    ) -> serde_json::Result<()> {
        let Some((_, raw)) = self.0.iter_mut().find(|(n, _)| *n == name) else {
            return Ok(());
        };
        let mut list: Vec<Value> = serde_json::from_str(raw.get())?;
        for (item, value) in list.iter_mut().zip(values) {
            if let Some(object) = item.as_object_mut() {
                object.insert(member.to_owned(), value.clone());
            }
        }
        *raw = to_raw_value(&list)?;
        Ok(())
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// A list whose values are created one at a time.
struct Each<F>(F);

impl<F: Fn() -> I, I: Iterator<Item = Value>> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// Returns the data of the engine's log.
pub(crate) fn serving(s: &serving_logs::Serving) -> Value {
    json!({
        "framework": s.framework,
        "model": s.model,
        "precision": s.precision,
        "layers": s.layers,
        "max_position_embeddings": s.max_positions,
        "startup_config": s.startup,
        "batch_sizes": s.batch_sizes,
        "input_lengths": s.input_lengths,
        "parallel_config": s.parallel,
        "device": s.device,
        "devices": s.devices,
        "caches": s.caches,
        "skipped_lines": s.skipped,
    })
}

/// Returns a slice as evidence.
fn slice(trace: &Trace, id: SliceId) -> Value {
    let slice = trace.slice(id);
    json!({
        "slice_id": id.index(),
        "name": slice.name(),
        "ts_ns": slice.ts().nanos(),
        "dur_ns": slice.range().duration().get(),
    })
}

fn member(analysis: &Analysis, process: u32) -> Value {
    let m = &analysis.members[process as usize];
    json!({"host": m.host, "pid": m.pid})
}

/// Returns the step of a cycle.
fn step(row: &StepRow) -> Value {
    json!({
        "begin_ns": row.begin_ns,
        "end_ns": row.end_ns,
        "duration_ns": row.duration_ns,
        "flags": row.flags,
        "verdict": row.verdict,
        "limit": row.limit,
        "share_pct": row.share_pct,
        "groups": row.groups,
        "classes": row.classes,
        "model_ns": row.model_ns,
    })
}

fn cycle(
    trace: &Trace,
    (analysis, paths): (&Analysis, &StepPaths),
    index: usize,
    c: &Cycle,
) -> Value {
    let of_step = paths.of_cycle(index);
    json!({
        "index": index,
        "start_ns": c.start_ns,
        "end_ns": c.end_ns,
        "host_start_ns": c.host_ns.0,
        "host_end_ns": c.host_ns.1,
        "host_active_ns": c.host_active_ns,
        "gpu_ns": c.gpu_ns,
        "queued_ns": c.queued_ns,
        "bound": of_step.and_then(|row| row.groups.largest()).map(Group::name),
        "step": of_step.map(step),
        "phase": c.phase.name(),
        "phase_confidence": c.confidence,
        "partial": c.partial.is_some(),
        "partial_reason": c.partial.map(rca_cycles::Partial::name),
        "anchor": c.anchor.map(|id| slice(trace, id)),
        "workload": c.workload.map(|w| json!({
            "prefill_requests": w.prefill_requests,
            "prefill_tokens": w.prefill_tokens,
            "decode_requests": w.decode_requests,
            "prefill_kv_tokens": w.prefill_kv_tokens,
            "decode_kv_tokens": w.decode_kv_tokens,
        })),
        "gaps": {
            "gpu_busy_ns": c.gaps.gpu_busy_ns,
            "exposed_communication_ns": c.gaps.exposed_communication_ns,
            "synchronisation_ns": c.gaps.synchronisation_ns,
            "exposed_host_ns": c.gaps.exposed_host_ns,
            "idle_ns": c.gaps.idle_ns,
        },
        "launches": {
            "count": c.launches.count,
            "calls": c.launches.calls,
            "graphs": c.launches.graphs,
            "lead_median_ns": c.launches.lead_median_ns,
            "latency_median_ns": c.launches.latency_median_ns,
            "queue_median_ns": c.launches.queue_median_ns,
            "queue_total_ns": c.launches.queue_total_ns,
        },
        "skew": c.skew.map(|s| json!({
            "collectives": s.collectives,
            "spread_ns": s.spread_ns,
            "straggler": member(analysis, s.straggler),
            "times_last": s.times_last,
        })),
        "health": health::ailments(analysis, index).iter().map(|a| json!({
            "host": a.host,
            "issue": a.issue.name(),
            "value": a.value,
            "limit": a.limit,
            "sample_age_ns": a.sample_age_ns,
        })).collect::<Vec<_>>(),
        "device_ns": c.device_ns.iter().map(|(p, ns)| {
            json!({"process": member(analysis, *p), "busy_ns": ns})
        }).collect::<Vec<_>>(),
    })
}

/// Returns own time, total time, calls and cycles over whole cycles, and the longest event.
pub(crate) fn sums(analysis: &Analysis, f: &Function) -> (i64, i64, u64, usize, Option<SliceId>) {
    let (mut own, mut total, mut calls, mut cycles) = (0, 0, 0, 0);
    let mut longest: Option<(i64, SliceId)> = None;
    for cell in &f.cells {
        if analysis.cycles[cell.cycle as usize].partial.is_some() {
            continue;
        }
        own += cell.self_ns;
        total += cell.total_ns;
        calls += u64::from(cell.calls);
        cycles += 1;
        if longest.is_none_or(|l| cell.longest_ns > l.0) {
            longest = Some((cell.longest_ns, cell.longest));
        }
    }
    (own, total, calls, cycles, longest.map(|l| l.1))
}

/// Returns functions by own time, most first.
pub(crate) fn blame(analysis: &Analysis) -> Vec<&Function> {
    let mut list: Vec<(i64, &Function)> = analysis
        .functions
        .iter()
        .map(|f| (sums(analysis, f).0, f))
        .filter(|(own, _)| *own > 0)
        .collect();
    list.sort_by(|a, b| {
        b.0.cmp(&a.0)
            .then_with(|| a.1.name.cmp(&b.1.name))
            .then(a.1.process.cmp(&b.1.process))
            .then(a.1.device.cmp(&b.1.device))
    });
    list.into_iter().map(|l| l.1).collect()
}

/// Adds the members of one job other than its name.
pub(crate) fn job(
    trace: &Trace,
    (analysis, paths): (&Analysis, &StepPaths),
    members: &mut Members,
) -> serde_json::Result<()> {
    members.insert("engine", &analysis.engine)?;
    members.insert("method", analysis.method.name())?;
    members.insert("anchor", &analysis.anchor)?;
    members.insert("process", &member(analysis, analysis.reference))?;
    members.insert("period_ns", &analysis.period_ns())?;
    members.insert("bottlenecks", &crate::bound::document(analysis, paths))?;
    let cycles = || {
        let cycles = analysis.cycles.iter().enumerate();
        cycles.map(|(i, c)| cycle(trace, (analysis, paths), i, c))
    };
    members.insert("cycles", &Each(cycles))?;
    let functions = || {
        blame(analysis)
            .into_iter()
            .map(|f| function(trace, analysis, f))
    };
    members.insert("functions", &Each(functions))?;
    let interference = || {
        let found = analysis.interference.iter();
        found.map(|i| interfered(trace, analysis, i))
    };
    members.insert("interference", &Each(interference))?;
    let counters = || {
        analysis.counters.iter().map(|c| {
            json!({
                "name": c.name,
                "host": c.host,
                "instance": c.instance,
                "by_cycle": c.by_cycle,
                "sample_age_ns": c.sample_age_ns,
            })
        })
    };
    members.insert("counters", &Each(counters))
}

fn function(trace: &Trace, analysis: &Analysis, f: &Function) -> Value {
    let (own, total, calls, cycles, longest) = sums(analysis, f);
    let is_device = f.kind.is_device();
    let physical = is_device.then(|| analysis.physical_device(f.process, f.device));
    json!({
        "name": f.name,
        "kind": f.kind.name(),
        "process": member(analysis, f.process),
        "device": is_device.then_some(f.device),
        "physical_device": physical.flatten(),
        "self_ns": own,
        "total_ns": total,
        "calls": calls,
        "cycles": cycles,
        "evidence": longest.map(|id| slice(trace, id)),
    })
}

fn interfered(trace: &Trace, analysis: &Analysis, i: &Interference) -> Value {
    let f = &analysis.functions[i.function];
    let evidence: Vec<Value> = f
        .cells
        .iter()
        .filter(|c| i.cycles.binary_search(&c.cycle).is_ok())
        .map(|c| json!({"cycle": c.cycle + 1, "event": slice(trace, c.longest)}))
        .collect();
    json!({
        "function": f.name,
        "kind": f.kind.name(),
        "phase": i.phase.name(),
        "cycles": i.cycles.iter().map(|c| c + 1).collect::<Vec<u32>>(),
        "excess_ns": i.excess_ns,
        "evidence": evidence,
    })
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

/// Returns the ranked culprits of a pair, with the recordings of the abnormal side and the
/// verdict's cause.
pub(crate) fn culprits(
    abnormal: &[(&str, &Analysis)],
    comparison: &Comparison,
    cause: &str,
) -> Vec<Value> {
    let list = comparison.culprits.iter();
    list.map(|c| culprit(abnormal, c, cause)).collect()
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
pub(crate) fn whole_host(report: &perf_compare::Report) -> Value {
    let changed = |time: &&CycleTime| time.verdict == Statement::Changed;
    let time = report.cycle_time.iter().find(changed);
    let time = time.or_else(|| report.cycle_time.first());
    let effect = time.map(|time| &time.effect);
    let of = (effect.map(|e| e.delta), effect.and_then(|e| e.interval));
    let p = effect.and_then(|e| e.p);
    named_by_tables(("function", "all host code"), time, of, p, Vec::new())
}

/// Returns the classes of kernels that are to blame together as a culprit, with what they take longer per cycle.
pub(crate) fn kernel_class(report: &perf_compare::Report) -> Option<Value> {
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
pub(crate) fn layers(report: &perf_compare::Report) -> Vec<Value> {
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

/// Returns the functions with the pauses of the candidate, with their cost per cycle.
pub(crate) fn paused(report: &perf_compare::Report) -> Vec<Value> {
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

/// Returns the lengths of cycles by phase.
pub(crate) fn phases(comparison: &Comparison) -> Vec<Value> {
    comparison
        .phases
        .iter()
        .map(|p| {
            json!({
                "phase": p.phase.name(),
                "normal_cycles": p.normal_cycles,
                "abnormal_cycles": p.abnormal_cycles,
                "normal_median_ns": p.normal_ns,
                "abnormal_median_ns": p.abnormal_ns,
                "effect_ns": p.effect_ns,
                "interval_ns": [p.interval_ns.0, p.interval_ns.1],
                "p_value": p.p_value,
                "workload": p.normalisation.name(),
            })
        })
        .collect()
}
