//! Data quality: what was read, and what is missing.

use serde_json::{Value, json};

use super::{keyed, text};
use blkio_companions::clock::from_anchors;
use blkio_parser::Stats;
use blkio_parser::analyse::pairing::Pairing;
use blkio_parser::analyse::traffic::Amount;
use blkio_parser::pipeline::{Input, Outcome};
use blkio_parser::quality::LineCounts;
use blkio_parser::{Format, Kind};

fn counts_value(counts: &LineCounts) -> Value {
    let samples: Vec<Value> = counts
        .malformed_samples
        .iter()
        .map(|m| json!({"line": m.line, "offset": m.offset, "reason": m.reason}))
        .collect();
    json!({
        "lines": counts.lines,
        "event_lines": counts.event_lines,
        "valid_events": counts.event_lines,
        "header": counts.header,
        "warning": counts.warning,
        "error": counts.error,
        "blank": counts.blank,
        "lost_lines": counts.lost_lines,
        "lost_events": counts.lost_events,
        "lfs_pointer": counts.lfs_pointer,
        "map_output": counts.map_output,
        "comment": counts.comment,
        "stack": counts.stack,
        "other": counts.other,
        "malformed": counts.malformed,
        "malformed_samples": samples,
        "unterminated_last_line": counts.unterminated_last_line,
        "outstanding_at_end": counts.outstanding_at_end,
    })
}

/// One entry per input: what it is and what was in it.
#[must_use]
pub fn inputs(stats: &Stats) -> Value {
    stats
        .outcome
        .inputs
        .iter()
        .map(|input| {
            json!({
                "name": input.name,
                "format": input.kind.name(),
                "clock": input.clock(),
                "bytes": input.bytes,
                "damaged_pieces": input.damaged,
                "crc32": format!("{:08x}", input.crc32),
                "lines": counts_value(&input.counts),
            })
        })
        .collect()
}

/// Returns how far to trust the numbers: always part of a report.
#[must_use]
pub fn quality(stats: &Stats) -> Value {
    let outcome = &stats.outcome;
    let traffic = &stats.traffic;
    let counts = outcome.counts();
    let paired = stats.newest.as_ref().filter(|_| traffic.completions > 0);
    let matching = paired.map(|p| p.matching).unwrap_or_default();
    let has_pairs = paired.is_some();
    let ratio = |a: u64, b: u64| (b > 0).then(|| a as f64 / b as f64);
    let real_completions = traffic.completions - traffic.sequence_ends;
    let mut devices: Vec<(u32, Amount)> = traffic.devices.iter().map(|(d, a)| (*d, *a)).collect();
    devices.sort_unstable_by_key(|(dev, _)| *dev);
    let mut processes: Vec<(u32, Amount)> =
        traffic.processes.iter().map(|(c, a)| (*c, *a)).collect();
    processes.sort_unstable_by_key(|(comm, a)| (std::cmp::Reverse(a.ios), *comm));
    let printed = printed_totals(stats, &counts);
    let tracers = ["bpftrace", "blktrace", "perf", "trace-cmd"];
    let tracer_ios: u64 = processes
        .iter()
        .filter(|(comm, _)| tracers.contains(&text(outcome.symbols.comm_of(*comm)).as_str()))
        .map(|(_, amount)| amount.ios)
        .sum();
    // The one that moves most is taken for the engine.
    let main = processes
        .iter()
        .max_by_key(|(comm, amount)| (amount.bytes, std::cmp::Reverse(*comm)));
    let named: u64 = processes.iter().map(|(_, amount)| amount.ios).sum();
    let mut warnings: Vec<String> = Vec::new();
    if counts.lost_events > 0 {
        warnings.push(format!(
            "the tracer reports {} lost events: every total is too small",
            counts.lost_events
        ));
    } else if counts.lost_lines > 0 {
        warnings.push("the tracer reports lost events, but not how many".to_owned());
    }
    for input in outcome.inputs.iter().filter(|input| input.damaged > 0) {
        warnings.push(format!(
            "{}: the compressed file is damaged or ends early: requests are missing",
            input.name
        ));
    }
    if counts.malformed > 0 {
        warnings.push(format!("malformed lines, left out: {}", counts.malformed));
    }
    if has_pairs && matching.unmatched_issues > 0 {
        warnings.push(format!(
            "{} of {} issued requests have no completion: latency and depth are of the others",
            matching.unmatched_issues, traffic.issues
        ));
    }
    if outcome.late_events > 0 {
        warnings.push(format!(
            "{} events came later than the reorder window allows, and count out of order",
            outcome.late_events
        ));
    }
    for pair in stats.stacked.iter().filter(|pair| !pair.is_left_out) {
        let what = if pair.upper_has_requests {
            "requests"
        } else {
            "bios"
        };
        warnings.push(format!(
            "device {} lies on {} ({}): its {what} are counted twice; choose one device",
            outcome.symbols.device_name(pair.upper),
            outcome.symbols.device_name(pair.lower),
            pair.evidence.text(),
        ));
    }
    for dev in &stats.bios_left_out {
        warnings.push(format!(
            "device {} has bios but no requests: they are not counted, since they are queued again at the devices that it lies on",
            outcome.symbols.device_name(*dev),
        ));
    }
    if stats.duplicates.count > 0 {
        warnings.push(format!(
            "{} events are there twice: do the inputs overlap?",
            stats.duplicates.count
        ));
    }
    if tracer_ios > 0 {
        warnings.push(format!(
            "{tracer_ios} requests are of the tracer itself: it writes to the traced device"
        ));
    }
    if printed["agree"] == Value::Bool(false) {
        warnings.push(
            "the totals that blkparse printed behind its events are not those of the events"
                .to_owned(),
        );
    }
    let nameless = |input: &&Input| input.kind == Kind::Events(Format::FiveColumn);
    let nameless = outcome.inputs.iter().filter(nameless).count();
    if nameless > 1 && outcome.device.is_none() {
        warnings.push(format!(
            "{nameless} inputs have no column of devices and are taken as parts of one device's trace: if they are of several devices, analyse each for itself"
        ));
    }
    let clocks = outcome.inputs.iter().filter_map(Input::clock);
    let clocks: std::collections::BTreeSet<&str> = clocks.collect();
    if clocks.len() > 1 {
        warnings.push("the inputs have different clocks, which are not aligned".to_owned());
    }
    let missing = if has_pairs {
        ratio(matching.unmatched_issues, traffic.issues)
    } else if traffic.completions > 0 {
        // At least so many, where nothing was paired.
        ratio(
            traffic.issues.saturating_sub(real_completions),
            traffic.issues,
        )
    } else {
        ratio(
            counts.lost_events,
            counts.lost_events.saturating_add(traffic.issues),
        )
    };
    let gaps: Vec<Value> = traffic
        .gaps
        .iter()
        .map(|(from, to)| json!({"start_ns": from, "end_ns": to}))
        .collect();
    let checksums = outcome.inputs.iter().map(|input| {
        let crc32 = format!("{:08x}", input.crc32);
        json!({"name": input.name, "format": input.kind.name(), "crc32": crc32})
    });
    json!({
        "inputs": checksums.collect::<Vec<_>>(),
        "tool_version": env!("CARGO_PKG_VERSION"),
        "lines": counts_value(&counts),
        "printed_totals": printed,
        "lost_events": counts.lost_events,
        "malformed": counts.malformed,
        "largest_backward_step_ns": outcome.largest_backward_step_ns,
        "backward_steps": outcome.backward_steps,
        "late_events": outcome.late_events,
        "duplicates": stats.duplicates.count,
        "unmatched_issues": has_pairs.then_some(matching.unmatched_issues),
        "unmatched_completions": has_pairs.then_some(matching.unmatched_completions),
        "superseded_issues": has_pairs.then_some(matching.superseded_issues),
        "stale_dropped": has_pairs.then_some(matching.stale_dropped),
        "sequence_end_completions": (traffic.completions > 0).then_some(traffic.sequence_ends),
        "queued_without_issue": stats.newest.as_ref().map(Pairing::queued_without_issue),
        "completions_per_issue": (traffic.completions > 0).then(|| ratio(real_completions, traffic.issues)),
        "missing_share_estimate": missing,
        "first_event_ns": traffic.span_ns.map(|(first, _)| first),
        "last_event_ns": traffic.span_ns.map(|(_, last)| last),
        "gaps_over_1s": {"count": traffic.gap_count, "first": gaps},
        "clocks": clocks,
        "clock_alignment": alignment(&counts),
        "devices": keyed(devices.iter().map(|(dev, a)| (device_of(*dev, outcome), json!({"ios": a.ios, "bytes": a.bytes})))),
        "main_process": main.map(|(comm, _)| text(outcome.symbols.comm_of(*comm))),
        "foreign_processes_share": main.and_then(|(_, main)| ratio(named - main.ios, named)),
        "processes": keyed(processes.iter().take(20).map(|(comm, a)| (text(outcome.symbols.comm_of(*comm)), json!({"ios": a.ios, "bytes": a.bytes})))),
        "warnings": warnings,
    })
}

/// Returns the totals that blkparse printed beside ours, and whether they agree; null where it printed none. It counts flushes as
/// reads, so directions are taken together. They are of one device, and of one input.
fn printed_totals(stats: &Stats, counts: &LineCounts) -> Value {
    let both = |[a, b]: [Option<u64>; 2]| Some(a?.saturating_add(b?));
    let rows = [
        ("entries", counts.printed.entries, counts.event_lines),
        (
            "dispatched",
            both(counts.printed.dispatched),
            stats.traffic.issues,
        ),
        (
            "completed",
            both(counts.printed.completed),
            stats.traffic.completions,
        ),
    ];
    let printed = rows
        .iter()
        .filter_map(|(name, printed, ours)| Some((*name, (*printed)?, *ours)));
    let printed: Vec<(&str, u64, u64)> = printed.collect();
    if printed.is_empty() {
        return Value::Null;
    }
    let is_comparable = stats.outcome.inputs.len() == 1 && stats.traffic.devices.len() <= 1;
    let agree = printed.iter().all(|(_, printed, ours)| printed == ours);
    let mut value = keyed(
        printed
            .into_iter()
            .map(|(name, printed, ours)| (name, json!({"printed": printed, "counted": ours}))),
    );
    value["agree"] = is_comparable.then_some(agree).into();
    value
}

/// Returns the name of a device; that of events without one is the one asked for.
fn device_of(dev: u32, outcome: &Outcome) -> String {
    match (dev, outcome.device) {
        (0, None) => "not recorded".to_owned(),
        (0, Some(given)) => outcome.symbols.device_name(given),
        (dev, _) => outcome.symbols.device_name(dev),
    }
}

fn alignment(counts: &LineCounts) -> Value {
    match from_anchors(&counts.anchors) {
        None => Value::Null,
        Some(found) => json!({
            "method": found.method,
            "wall_minus_trace_ns": i64::try_from(found.offset_ns).ok(),
            "uncertainty_ns": found.uncertainty_ns,
            "drift_ppm": found.drift_ppm,
            "anchors": counts.anchors.len(),
        }),
    }
}
