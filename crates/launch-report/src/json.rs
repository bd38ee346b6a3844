//! One JSON document with exact values.

use std::io::Write;

use launch_stacks::{Absence, Distribution, MeasuredStack, Measures, Window, compare};
use serde_json::{Value, json};

use crate::{Answered, Ranks, Report, tables};

/// Version of the document: the minor part grows when a member is added, the major one when a
/// member is removed or changes its meaning.
pub(crate) const SCHEMA: &str = "2.0";

/// Maximum number of example launches of a stack in the document.
const EXAMPLES: usize = 3;

/// Writes the report.
pub(crate) fn write(report: &Report<'_>, out: &mut dyn Write) -> report::Result<()> {
    let mut document = head();
    match report.traces {
        [only] => extend(&mut document, trace(report, only)),
        several => {
            let all: Vec<Value> = several.iter().map(|t| trace(report, t)).collect();
            extend(&mut document, json!({ "traces": all }));
            extend(&mut document, json!({ "warnings": report.warnings }));
            if let Some(ranks) = &report.ranks {
                extend(&mut document, across(report, ranks));
            }
            if let [first, second] = several
                && report.style.diff
            {
                let rows: Vec<Value> = compare(&first.answer, &second.answer)
                    .into_iter()
                    .map(|d| {
                        json!({
                            "frames": d.frames,
                            "launches": d.launches,
                            "kernels": d.kernels,
                            "gpu_ns": d.gpu_ns,
                        })
                    })
                    .collect();
                extend(&mut document, json!({ "difference": rows }));
            }
        }
    }
    write_value(&document, out)
}

/// Writes a document that explains why there is no report.
///
/// # Errors
///
/// Returns an error if `out` does.
pub fn refusal(outcome: &str, message: &str, out: &mut dyn Write) -> report::Result<()> {
    let mut document = head();
    extend(
        &mut document,
        json!({ "outcome": outcome, "message": message }),
    );
    write_value(&document, out)
}

fn write_value(document: &Value, out: &mut dyn Write) -> report::Result<()> {
    let mut text = serde_json::to_vec_pretty(document).map_err(std::io::Error::from)?;
    text.push(b'\n');
    out.write_all(&text)?;
    Ok(())
}

fn head() -> Value {
    json!({
        "schema": SCHEMA,
        "tool": { "name": "nccl-stacks", "version": env!("CARGO_PKG_VERSION") },
    })
}

fn extend(document: &mut Value, more: Value) {
    if let (Some(all), Value::Object(more)) = (document.as_object_mut(), more) {
        all.extend(more);
    }
}

fn trace(report: &Report<'_>, trace: &Answered) -> Value {
    let answer = &trace.answer;
    let windows: Vec<Value> = answer.windows.iter().map(|w| window(trace, w)).collect();
    let stacks: Vec<Value> = answer
        .groups
        .iter()
        .map(|s| stack(report, trace, s))
        .collect();
    json!({
        "trace": {
            "path": trace.input.path,
            "sha256": trace.input.sha256,
            "rank": trace.input.rank.0,
            "base_time_ns": trace.input.trace.meta().base_time_ns,
        },
        "compat": report.style.compat,
        "exposed_means": tables::EXPOSED,
        "matching_slices": answer.candidates,
        "window": windows.first(),
        "windows": windows,
        "kernels": report.kernels,
        "outcome": answer.outcome.name(),
        "unique_stacks": answer.groups.len() + answer.left_out,
        "stacks": stacks,
        "left_out": answer.left_out,
        "total": answer.total.as_ref().map(measures),
        "devices": answer.devices.iter().map(|(device, t)| json!({
            "device": device.0,
            "collective_union_ns": t.collective_ns,
            "other_union_ns": t.other_ns,
            "exposed_ns": t.exposed_ns,
            "hidden_ns": t.hidden_ns,
        })).collect::<Vec<_>>(),
        "collectives": collectives(trace),
        "graphs": graphs(report, trace),
        "untracked": untracked(trace),
        "kernels_in_window": answer.absence.as_ref().map(|a| a.kernels.len()),
        "related_kernels": answer.absence.as_ref().map(related),
        "diagnostics": diagnostics(trace),
    })
}

fn window(trace: &Answered, w: &Window) -> Value {
    if w.is_whole_trace() {
        return json!({ "whole_trace": true });
    }
    let slice = w.slice.map(|s| trace.input.trace.slice(s));
    json!({
        "start_ts": w.start.nanos(),
        "duration": w.duration_ns(),
        "end_ts": w.end.nanos(),
        "slice": slice.and_then(|s| s.name()),
        "never_closed": w.open,
    })
}

fn stack(report: &Report<'_>, trace: &Answered, s: &MeasuredStack) -> Value {
    let all = &trace.input.trace;
    let correlation = all.arg_column("correlation");
    let examples: Vec<Value> = s
        .group
        .launches
        .iter()
        .take(EXAMPLES)
        .map(|l| {
            let call = all.slice(*l);
            json!({ "launch_ts": call.ts().nanos(), "correlation": correlation.int(call) })
        })
        .collect();
    let mut value = json!({
        "frames": report.frames(trace, s),
        "launches": s.group.count(),
        "kernels": s.kernels(),
        "truncated": s.group.cut > 0,
        "link_method": tables::methods(s),
    });
    if let Some(m) = &s.measures {
        let ratio = |part: i64, whole: Option<i64>| {
            #[expect(clippy::cast_precision_loss, reason = "a share")]
            whole
                .filter(|w| *w > 0)
                .map(|w| part as f64 / w as f64 * 100.0)
        };
        let windows: i64 = trace
            .answer
            .windows
            .iter()
            .filter(|w| !w.is_whole_trace())
            .map(Window::duration_ns)
            .sum();
        let all_collectives: i64 = trace.answer.collectives.iter().map(|c| c.duration_ns).sum();
        extend(&mut value, measures(m));
        extend(
            &mut value,
            json!({
                "share_of_window_pct": ratio(m.gpu.total_ns, Some(windows)),
                "share_of_collectives_pct": m.exposed_ns.and(ratio(m.gpu.total_ns, Some(all_collectives))),
            }),
        );
    }
    if let Some(breakdown) = &s.breakdown {
        let kernels: Vec<Value> = breakdown
            .kernels
            .iter()
            .map(|k| json!({ "name": k.name, "kernels": k.kernels, "gpu_ns": k.gpu_ns }))
            .collect();
        let streams: Vec<Value> = breakdown
            .streams
            .iter()
            .map(|s| {
                json!({
                    "device": s.device.0,
                    "stream": s.stream.0,
                    "kernels": s.kernels,
                    "gpu_ns": s.gpu_ns,
                })
            })
            .collect();
        extend(
            &mut value,
            json!({ "by_kernel": kernels, "by_stream": streams }),
        );
    }
    extend(&mut value, json!({ "examples": examples }));
    value
}

fn distribution(d: &Distribution) -> Value {
    json!({
        "total": d.total_ns,
        "mean": d.mean_ns,
        "min": d.min_ns,
        "p50": d.p50_ns,
        "p90": d.p90_ns,
        "p99": d.p99_ns,
        "max": d.max_ns,
        "stddev": d.stddev_ns,
    })
}

fn measures(m: &Measures) -> Value {
    let sizes: Vec<Value> = m
        .sizes
        .iter()
        .map(|(bytes, n)| json!({ "bytes": bytes, "count": n }))
        .collect();
    let histogram: Vec<Value> = m
        .size_histogram()
        .iter()
        .map(|(bytes, n)| json!({ "from_bytes": bytes, "count": n }))
        .collect();
    json!({
        "launches": m.launches,
        "kernels": m.kernels,
        "gpu_ns": distribution(&m.gpu),
        "latency_ns": distribution(&m.latency),
        "negative_latencies": m.negative_latencies,
        "queue_ns": distribution(&m.queue),
        "exposed_ns": m.exposed_ns,
        "bytes": m.bytes,
        "algbw_bytes_per_s": m.bandwidth.algbw_bytes_per_s(),
        "busbw_bytes_per_s": m.bandwidth.busbw_bytes_per_s(),
        "kernel_algbw_bytes_per_s": m.kernel_bandwidth.algbw_bytes_per_s(),
        "kernel_busbw_bytes_per_s": m.kernel_bandwidth.busbw_bytes_per_s(),
        "sizes": sizes,
        "size_histogram": histogram,
        "collectives": m.collectives,
    })
}

fn collectives(trace: &Answered) -> Vec<Value> {
    let per_second = |per_ns: Option<f64>| per_ns.map(|x| x * 1e9);
    trace
        .answer
        .collectives
        .iter()
        .enumerate()
        .map(|(at, run)| {
            let kernel = trace.input.trace.slice(run.kernel);
            let transfer = trace.transfers.get(at).and_then(Option::as_ref);
            json!({
                "kernel": kernel.name(),
                "ts_ns": kernel.ts().nanos(),
                "dur_ns": run.duration_ns,
                "collective": run.what.name,
                "op": run.what.op.map(|o| o.name()),
                "bytes": run.what.bytes,
                "group": run.what.group,
                "group_size": run.what.group_size,
                "seq": run.what.seq,
                "shortest_dur_ns": transfer.map(|t| t.latency_ns),
                "algbw_bytes_per_s": per_second(transfer.and_then(|t| t.what.algbw(t.latency_ns))),
                "busbw_bytes_per_s": per_second(transfer.and_then(|t| t.what.busbw(t.latency_ns))),
                "kernel_algbw_bytes_per_s": per_second(run.what.algbw(run.duration_ns)),
                "kernel_busbw_bytes_per_s": per_second(run.what.busbw(run.duration_ns)),
            })
        })
        .collect()
}

fn graphs(report: &Report<'_>, trace: &Answered) -> Vec<Value> {
    let available: Vec<usize> = trace
        .answer
        .captures
        .iter()
        .map(|c| c.nodes.len())
        .collect();
    trace
        .answer
        .graphs
        .iter()
        .map(|g| {
            json!({
                "graph_launch_correlation": g.graph.correlation.map(|c| c.0),
                "launch_ts": trace.input.trace.slice(g.graph.launch).ts().nanos(),
                "kernels": g.graph.kernels.len(),
                "captures_available": available,
                "capture_index": g.capture,
                "capture": g.source.and_then(|s| report.captures.get(s)).map(|c| &c.0),
                "matched": g.matched(),
                "matched_pct": tables::matched_pct(g),
                "one_to_one": g.one_to_one,
            })
        })
        .collect()
}

fn untracked(trace: &Answered) -> Value {
    let unlinked = &trace.answer.launches.unlinked;
    let all = &trace.input.trace;
    let examples: Vec<Value> = unlinked
        .iter()
        .take(EXAMPLES)
        .map(|k| json!({ "kernel": all.slice(*k).name(), "ts": all.slice(*k).ts().nanos() }))
        .collect();
    json!({ "kernels": unlinked.len(), "examples": examples })
}

fn related(absence: &Absence) -> Vec<Value> {
    absence
        .related
        .iter()
        .map(|k| json!({ "count": k.count, "name": k.name }))
        .collect()
}

fn diagnostics(trace: &Answered) -> Value {
    let launches = &trace.answer.launches;
    let all = &trace.input.trace;
    let by_method: serde_json::Map<String, Value> = launches
        .by_method()
        .into_iter()
        .map(|(m, n)| (m.name().to_owned(), json!(n)))
        .collect();
    let conflicts: Vec<Value> = launches
        .conflicts
        .iter()
        .take(100)
        .map(|c| {
            json!({
                "kernel": all.slice(c.kernel).name(),
                "kernel_ts": all.slice(c.kernel).ts().nanos(),
                "launch_by_correlation_ts": all.slice(c.by_correlation).ts().nanos(),
                "launch_by_flow_ts": all.slice(c.by_flow).ts().nanos(),
            })
        })
        .collect();
    let issues: Vec<Value> = all
        .diagnostics()
        .issues()
        .iter()
        .map(|i| {
            json!({
                "name": i.kind.name(),
                "severity": i.kind.severity().name(),
                "count": i.count,
            })
        })
        .collect();
    json!({
        "selected_kernels": launches.kernels,
        "linked_by": by_method,
        "under_graph_launch": launches.under_graphs(),
        "conflict_count": launches.conflicts.len(),
        "conflicts": conflicts,
        "input": issues,
    })
}

fn across(report: &Report<'_>, ranks: &Ranks) -> Value {
    let number = |i: &usize| report.traces.get(*i).map(|t| t.input.rank.0);
    let merged: Vec<Value> = ranks
        .merged
        .iter()
        .map(|m| {
            let missing: Vec<_> = m.missing().iter().map(number).collect();
            json!({
                "frames": m.frames,
                "launches": m.ranks.iter().map(|r| r.launches).collect::<Vec<_>>(),
                "kernels": m.ranks.iter().map(|r| r.kernels).collect::<Vec<_>>(),
                "gpu_ns": m.ranks.iter().map(|r| r.gpu_ns).collect::<Vec<_>>(),
                "missing_on_ranks": missing,
                "count_skew": m.count_skew(),
                "time_skew": m.time_skew(),
            })
        })
        .collect();
    let waits: Vec<Value> = ranks
        .waits
        .iter()
        .map(|w| {
            json!({
                "collective": w.what.name,
                "group": w.what.group,
                "seq": w.what.seq,
                "ranks": w.members.iter().map(number).collect::<Vec<_>>(),
                "wait_ns": w.wait_ns,
                "complete": w.complete,
                "last_rank": w.last.as_ref().and_then(number),
                "start_spread_ns": w.spread_ns,
                "transfer_ns": w.transfer_ns,
                "transfer_busbw_bytes_per_s": w.transfer_busbw().map(|x| x * 1e9),
            })
        })
        .collect();
    let by_stack: Vec<Value> = ranks
        .by_stack
        .iter()
        .map(|w| {
            json!({
                "frames": w.frames,
                "wait_ns": w.wait_ns,
                "last": w.last,
                "longest_ns": w.longest_ns,
            })
        })
        .collect();
    json!({
        "merged": merged,
        "ranks": report.traces.iter().map(|t| t.input.rank.0).collect::<Vec<_>>(),
        "clock_ahead_ns": (0..report.traces.len()).map(|i| ranks.alignment.ahead_ns(i)).collect::<Vec<_>>(),
        "ranks_joined_ambiguously": ranks.alignment.ambiguous(),
        "waits_by_stack": by_stack,
        "waits": waits,
    })
}
