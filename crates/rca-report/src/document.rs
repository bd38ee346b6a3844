//! Results as JSON.

use critical_path::{Group, StepRow};
use rca_cycles::compare::Comparison;
use rca_cycles::{Analysis, Cycle, Function, Interference, StepPaths, health};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use trace_model::{SliceId, Trace};

use report::SchemaVersion;

/// The version of the documents.
pub const VERSION: SchemaVersion = SchemaVersion::new(1, 0);

/// Members of an object, stored as JSON text: as values the thousands of cycles of a long trace
/// would take several times as much memory.
#[derive(Debug, Default)]
pub struct Members(Vec<(&'static str, Box<RawValue>)>);

impl Members {
    /// Adds a member; names must differ.
    ///
    /// # Errors
    ///
    /// A value that JSON cannot hold.
    pub fn insert<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> serde_json::Result<()> {
        self.0.push((name, to_raw_value(value)?));
        Ok(())
    }

    /// Replaces a member; has no effect without it.
    ///
    /// # Errors
    ///
    /// A value that JSON cannot hold.
    fn replace<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> serde_json::Result<()> {
        if let Some((_, raw)) = self.0.iter_mut().find(|(n, _)| *n == name) {
            *raw = to_raw_value(value)?;
        }
        Ok(())
    }

    /// Sets members of each object of the list `name`, given by its place in the list; has no effect
    /// without such a list.
    ///
    /// # Errors
    ///
    /// A value that JSON cannot hold.
    pub fn set_in_each(
        &mut self,
        name: &str,
        members: impl Fn(usize) -> Vec<(&'static str, Value)>,
    ) -> serde_json::Result<()> {
        let Some((_, raw)) = self.0.iter_mut().find(|(n, _)| *n == name) else {
            return Ok(());
        };
        let mut list: Vec<Value> = serde_json::from_str(raw.get())?;
        for (at, item) in list.iter_mut().enumerate() {
            if let Some(object) = item.as_object_mut() {
                let own = members(at).into_iter();
                object.extend(own.map(|(member, value)| (member.to_owned(), value)));
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
#[must_use]
pub fn serving(s: &serving_logs::Serving) -> Value {
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

/// Returns the step of a cycle and what bounds it.
fn step(paths: &StepPaths, cycle: usize) -> [(&'static str, Value); 2] {
    let row = paths.of_cycle(cycle);
    let bound = row.and_then(|row| row.groups.largest()).map(Group::name);
    [("bound", json!(bound)), ("step", json!(row.map(step_row)))]
}

fn step_row(row: &StepRow) -> Value {
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
        "other_ranks_ns": row.other_ranks_ns,
        "model_ns": row.model_ns,
    })
}

fn cycle(
    trace: &Trace,
    (analysis, paths): (&Analysis, &StepPaths),
    index: usize,
    c: &Cycle,
) -> Value {
    let [(_, bound), (_, step)] = step(paths, index);
    json!({
        "index": index,
        "start_ns": c.start_ns,
        "end_ns": c.end_ns,
        "host_start_ns": c.host_ns.0,
        "host_end_ns": c.host_ns.1,
        "host_active_ns": c.host_active_ns,
        "gpu_ns": c.gpu_ns,
        "queued_ns": c.queued_ns,
        "bound": bound,
        "step": step,
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
///
/// # Errors
///
/// A value that JSON cannot hold.
pub fn job(
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

/// Replaces what [`job()`] wrote by what is known only with all ranks of the job: what bounds the steps, the step of each cycle,
/// and who came late to its collectives.
///
/// # Errors
///
/// A value that JSON cannot hold.
pub fn join(
    (analysis, paths): (&Analysis, &StepPaths),
    skew: &[Value],
    members: &mut Members,
) -> serde_json::Result<()> {
    members.replace("bottlenecks", &crate::bound::document(analysis, paths))?;
    members.set_in_each("cycles", |at| {
        let skew = skew.get(at).map(|skew| ("skew", skew.clone()));
        step(paths, at).into_iter().chain(skew).collect()
    })
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

/// Returns the lengths of cycles by phase.
#[must_use]
pub fn phases(comparison: &Comparison) -> Vec<Value> {
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
