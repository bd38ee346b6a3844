//! What limits a trace, in sentences.

use report::{Unit, human};
use serde_json::Value;

/// Share of time without requests from which the whole trace is judged, rather than its longest phase.
const IDLE: f64 = 0.2;
/// How much more the trace must have recorded elsewhere to be named as a yardstick.
const BETTER: f64 = 1.25;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn bytes(value: f64) -> String {
    human::quantity(value, Unit::Bytes)
}

fn time(ns: f64) -> String {
    human::quantity(ns, Unit::Nanos)
}

/// The answer to what limits the trace, with its evidence.
pub(crate) fn headline(document: &Value) -> String {
    if document["metrics"]["issues"].as_u64().unwrap_or(0) == 0 {
        return "The recording has no requests.".to_owned();
    }
    let devices = document["devices"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let of_most = |of: &&Value| number(&of["read"]["bytes"]) + number(&of["write"]["bytes"]);
    let main = devices
        .iter()
        .max_by(|a, b| of_most(a).total_cmp(&of_most(b)));
    if let Some(main) = main.filter(|_| devices.len() > 1) {
        let name = main["device"].as_str().unwrap_or("-");
        let sentence = sentence(&main["limit"], document);
        return format!("Device {name}, which moved most: {}", lower(&sentence));
    }
    let whole = &document["limit"];
    let phases = document["phases"]["phases"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let working = phases
        .iter()
        .filter(|phase| phase["label"] != "idle" && phase["limit"].is_object());
    let longest =
        working.max_by(|a, b| number(&a["duration_ns"]).total_cmp(&number(&b["duration_ns"])));
    let is_idle = number(&whole["idle_share"]) >= IDLE;
    match longest.filter(|_| phases.len() > 1) {
        Some(phase)
            if is_idle
                && phase["limit"]["limiter"] != whole["limiter"]
                && phase["limit"]["limiter"] != "cannot say" =>
        {
            format!(
                "{} In its longest phase ({}): {}",
                sentence(whole, document),
                phase["label"].as_str().unwrap_or(""),
                lower(&sentence(&phase["limit"], document))
            )
        }
        Some(phase) if !is_idle => {
            let name = phase["label"].as_str().unwrap_or("");
            let sentence = lower(&sentence(&phase["limit"], document));
            format!("Longest phase ({name}): {sentence}")
        }
        _ => sentence(whole, document),
    }
}

/// With a small first letter, to go on behind a colon.
fn lower(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_lowercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// What limits a stretch of time, why, and what would help.
pub(crate) fn sentence(limit: &Value, document: &Value) -> String {
    let Some(limiter) = limit["limiter"].as_str() else {
        return "Cannot say what limits it: the trace has no completions; record issues and completions (blkio collect)."
            .to_owned();
    };
    let direction = limit["direction"].as_str().unwrap_or("read");
    let rate = number(&limit["bytes_per_s"]);
    let idle = number(&limit["idle_share"]);
    let depth = number(&limit["depth_while_busy"]);
    let size = bytes(number(&limit["size_bytes"]));
    let gain = limit["gain_per_depth"].as_f64();
    let busy = (1.0 - idle) * 100.0;
    let at_a_time = if depth < 1.25 {
        "one at a time".to_owned()
    } else {
        format!("{depth:.1} at a time")
    };
    let more = room(limit, document);
    match limiter {
        "think time" => format!(
            "Not limited by the device but by think time of the application: nothing is in flight {:.1} % of the time (median pause {} between completion and next issue), and requests come {at_a_time}. While busy it moves {}/s: without the pauses up to {:.2}x of now ({}/s).",
            idle * 100.0,
            time(number(&limit["gap_p50_ns"])),
            bytes(number(&limit["bytes_per_busy_s"])),
            1.0 / (1.0 - idle).max(1e-9),
            bytes(rate)
        ),
        "queue depth" if depth < 1.25 => format!(
            "Limited by queue depth: {direction}s of {size} come one at a time (depth {depth:.2}) without pauses (busy {busy:.1} %), {}/s. {}",
            bytes(rate),
            more.unwrap_or_else(|| "How much a deeper queue would give cannot be said from this trace: record the same job with more threads or iodepth, or give --yardstick.".to_owned())
        ),
        "queue depth" => format!(
            "Limited by queue depth: {} at depth {depth:.1}, {}/s. {}",
            match gain {
                Some(gain) if gain >= 0.5 => format!("throughput grows with depth (gain {gain:.2}; 1 is proportional, 0 none)"),
                _ => "far below the yardstick with requests always in flight".to_owned(),
            },
            bytes(rate),
            more.unwrap_or_else(|| "How much more depth would give beyond what was recorded cannot be said: record a deeper queue, or give --yardstick.".to_owned())
        ),
        "request size" => format!(
            "Limited by request size: the device is at its rate of requests, {} of {size} at depth {depth:.1}, {}/s (busy {busy:.1} %{}). {}",
            human::quantity(number(&limit["iops"]), Unit::PerSecond),
            bytes(rate),
            flat(gain),
            more.unwrap_or_else(|| "How much larger requests would move cannot be said from this trace: record them, or give --yardstick.".to_owned())
        ),
        "device" => format!(
            "Limited by the device: busy {busy:.1} % of the time at depth {depth:.1}{}, {}/s of {size} {direction}s{}. More threads or iodepth would only add latency.",
            flat(gain),
            bytes(rate),
            reached(limit)
        ),
        _ => unknown(limit, depth, busy),
    }
}

/// That latency grows with depth.
fn flat(gain: Option<f64>) -> String {
    match gain {
        Some(gain) if gain < 0.5 => format!(
            ", and latency grows with depth (throughput gain {:.2}; 1 is proportional, 0 none)",
            gain.max(0.0)
        ),
        _ => String::new(),
    }
}

/// The share of the yardstick that is reached.
fn reached(limit: &Value) -> String {
    let of = &limit["yardstick"];
    match of["share_of_bytes_per_s"].as_f64() {
        Some(share) => format!(
            ", {:.0} % of the yardstick ({})",
            share * 100.0,
            of["name"].as_str().unwrap_or("-")
        ),
        None => String::new(),
    }
}

/// Why nothing can be said.
fn unknown(limit: &Value, depth: f64, busy: f64) -> String {
    let requests = limit["requests"].as_u64().unwrap_or(0);
    if requests < 50 {
        return format!(
            "Cannot say what limits it: only {requests} completed requests; record longer."
        );
    }
    match limit["gain_per_depth"].as_f64() {
        None => format!(
            "Cannot say whether the device or the queue depth limits it: busy {busy:.1} % of the time, and requests come at one depth only ({depth:.1}). Record the same job at half the depth, or give --yardstick."
        ),
        Some(gain) => format!(
            "Cannot say whether the device or the queue depth limits it: busy {busy:.1} % at depth {depth:.1}, and throughput gains {gain:.2} ± {:.2} with depth (1 is proportional, 0 none). Record the same job at other depths, or give --yardstick.",
            number(&limit["gain_error"])
        ),
    }
}

/// How much more there is, by the yardstick, else by what the trace itself has elsewhere.
fn room(limit: &Value, document: &Value) -> Option<String> {
    let rate = number(&limit["bytes_per_s"]);
    let of = &limit["yardstick"];
    if let Some(most) = of["bytes_per_s"]
        .as_f64()
        .filter(|most| rate > 0.0 && *most > rate)
    {
        return Some(format!(
            "The yardstick ({}) moved {}/s: up to {:.2}x.",
            of["name"].as_str().unwrap_or("-"),
            bytes(most),
            most / rate
        ));
    }
    let direction = limit["direction"].as_str()?;
    let peak = &document["extra"]["peak_per_bin"][direction]["100ms"]["bytes"];
    let most = number(peak) * 10.0;
    (rate > 0.0 && most >= BETTER * rate).then(|| {
        format!(
            "The best 100 ms of {direction}s in this trace moved {}/s: up to {:.2}x.",
            bytes(most),
            most / rate
        )
    })
}
