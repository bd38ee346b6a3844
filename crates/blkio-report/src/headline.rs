//! Says in sentences what limits a trace.

use report::{Unit, human};
use serde_json::Value;

use crate::document::{DIFFERS, is_at_work};
use crate::value::number;

/// Share of time without requests from which that is said beside the limit.
const IDLE: f64 = 0.2;
/// Share of time without requests up to which they come without pauses.
const NO_PAUSES: f64 = 0.05;
/// Share of time without requests from which pauses are the limit whatever the device does meanwhile.
const IDLE_AT_MOST: f64 = 0.5;
/// Share of the time in which the device stands still from which that is said, and from which it is the limit.
const STALL: f64 = 0.05;
const STALLED: f64 = 0.5;
/// How much more the device must do at its best to be named.
const MORE_AT_DEPTH: f64 = 1.1;
/// Share of requests that are issued as another completes, from which an application is taken to wait for them.
const FOLLOWING: f64 = 0.5;
/// Share of requests that find no other in flight from which they come one at a time.
const ALONE: f64 = 0.99;
/// Maximum number of other devices or phases named in the answer.
const OTHERS: usize = 4;
/// How much more the trace must have recorded elsewhere to be named as a yardstick.
const BETTER: f64 = 1.25;

fn bytes(value: f64) -> String {
    human::quantity(value, Unit::Bytes)
}

fn time(ns: f64) -> String {
    human::quantity(ns, Unit::Nanos)
}

/// Returns the answer to what limits the trace, with its evidence, as sentences.
#[must_use]
pub fn headline(document: &Value) -> String {
    if document["metrics"]["issues"].as_u64().unwrap_or(0) == 0 {
        return "The recording has no requests.".to_owned();
    }
    if document["devices"].as_array().map_or(0, Vec::len) > 1 {
        return of_devices(document);
    }
    let whole = &document["limit"];
    let phases = document["phases"]["phases"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let working: Vec<&Value> = phases.iter().filter(|phase| is_at_work(phase)).collect();
    let by_length =
        |a: &&&Value, b: &&&Value| number(&a["duration_ns"]).total_cmp(&number(&b["duration_ns"]));
    let Some(longest) = working
        .iter()
        .max_by(by_length)
        .filter(|_| phases.len() > 1)
    else {
        return sentence(whole, document);
    };
    let span_ns = number(&document["extra"]["mean_rates"]["span_s"]) * 1e9;
    let share_of = |phase: &Value| number(&phase["duration_ns"]) / span_ns.max(1.0) * 100.0;
    let label = format!(
        "{}, {:.1} % of the time",
        label_of(longest),
        share_of(longest)
    );
    // The best stretch of the whole trace is no yardstick for a phase of another kind.
    let best = if working.len() > 1 {
        &Value::Null
    } else {
        document
    };
    let of_longest = lower(&sentence(&longest["limit"], best));
    let idle = number(&whole["idle_share"]);
    if whole["limiter"] == DIFFERS {
        let others = working.iter().filter(|phase| **phase != *longest);
        let mut others: Vec<&&Value> = others.collect();
        others.sort_by(|a, b| by_length(b, a));
        let others: Vec<String> = others
            .iter()
            .take(OTHERS)
            .map(|phase| {
                let label = label_of(phase);
                let limiter = phase["limit"]["limiter"].as_str().unwrap_or("cannot say");
                format!(
                    "{label} ({}, {:.1} %): {limiter}{}",
                    time(number(&phase["duration_ns"])),
                    share_of(phase),
                    shown_by(&phase["limit"])
                )
            })
            .collect();
        return format!(
            "Limits differ by phase. Longest phase ({label}): {of_longest} Other phases: {}.",
            others.join(", ")
        );
    }
    if idle < IDLE {
        return format!("Longest phase ({label}): {of_longest}");
    }
    let (limiter, of_whole) = (&longest["limit"]["limiter"], &whole["limiter"]);
    let is_of_whole = working.len() == 1 || *of_whole == "think time";
    if is_of_whole && *of_whole != "cannot say" && (limiter == of_whole || *limiter == "cannot say")
    {
        return sentence(&with_other_phase(whole, longest), document);
    }
    // Pauses between phases limit none of them.
    format!(
        "Longest phase ({label}): {of_longest} Over the whole trace nothing is in flight {:.1} % of the time.",
        idle * 100.0
    )
}

/// Name of a phase that has requests.
fn label_of(phase: &Value) -> &str {
    match phase["label"].as_str().unwrap_or("") {
        // Little traffic may be all that a slow device can serve.
        "idle" if number(&phase["busy_share"]) >= 0.5 => "little traffic",
        "idle" => "nearly idle",
        label => label,
    }
}

/// Name of a phase in a list, whose names are in member `name`. That of a detected one never contradicts how busy the device is.
pub(crate) fn name_in_list<'p>(phase: &'p Value, name: &str) -> &'p str {
    match name {
        "label" if label_of(phase) == "nearly idle" => "idle",
        "label" => label_of(phase),
        name => phase[name].as_str().unwrap_or(""),
    }
}

/// The limit of the whole trace, with the phase that shows what limits its longest one.
fn with_other_phase(whole: &Value, longest: &Value) -> Value {
    let mut whole = whole.clone();
    if whole["other_phase"].is_null() {
        whole["other_phase"] = longest["limit"]["other_phase"].clone();
    }
    whole
}

/// The answer for several devices: that of the most limiting one, and what the others are limited by.
fn of_devices(document: &Value) -> String {
    let lead = &document["limit"];
    if lead["as_one"].is_object() {
        return together(lead);
    }
    let name = lead["device"].as_str().unwrap_or("-");
    let devices = document["devices"].as_array().into_iter().flatten();
    let busy_ns = |of: &Value| of["queue_depth"]["all"]["busy_ns"].as_u64();
    let of_lead = devices.clone().find(|of| of["device"] == lead["device"]);
    let of_lead = of_lead.and_then(busy_ns);
    let alike: Vec<&str> = devices
        .clone()
        .filter(|of| of["device"] != lead["device"] && of_lead.is_some() && busy_ns(of) == of_lead)
        .filter_map(|of| of["device"].as_str())
        .collect();
    let why = if lead["is_saturated"] == true {
        "saturated".to_owned()
    } else if alike.is_empty() {
        "the busiest".to_owned()
    } else {
        format!("as busy as {}", alike.join(" and "))
    };
    let others = devices.filter(|of| of["device"] != lead["device"]);
    let others: Vec<String> = others
        .take(OTHERS)
        .map(|of| {
            let name = of["device"].as_str().unwrap_or("-");
            let busy = number(&of["queue_depth"]["all"]["utilisation"]) * 100.0;
            match of["limit"]["limiter"].as_str() {
                Some(limiter) => format!("{name} busy {busy:.1} % ({limiter})"),
                None => format!("{name} without completions"),
            }
        })
        .collect();
    // The best stretch of the whole trace is that of all devices, and no yardstick for one.
    format!(
        "Device {name}, {why}: {} Others: {}.",
        lower(&sentence(lead, &Value::Null)),
        others.join(", ")
    )
}

/// The answer for devices whose pauses are turns on the others.
fn together(lead: &Value) -> String {
    let names = lead["as_one"]["devices"].as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    let why = match lead["as_one"]["volume"].as_str() {
        Some(volume) => format!("below {volume}"),
        None => "one request at a time over all".to_owned(),
    };
    let named = names.get(..OTHERS + 1).unwrap_or(&names);
    let devices = match names.len() - named.len() {
        0 => named.join(" and "),
        more => format!("{} and {more} more", named.join(", ")),
    };
    format!(
        "Devices {devices} as one ({why}): {}",
        lower(&sentence(lead, &Value::Null))
    )
}

/// With a small first letter, to go on behind a colon.
fn lower(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_lowercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// The answer for devices that serve one after the other.
fn turns(limit: &Value) -> String {
    let all = &limit["turns"];
    let busy = 1.0 - number(&limit["idle_share"]);
    format!(
        "Limited by queue depth: requests take turns on the devices. It is busy {:.1} % of the time, any of them {:.1} %, with {:.2} requests at a time over all (at most {}). With a request for each device at any time it moves up to {:.2}x of now ({}/s).",
        busy * 100.0,
        (1.0 - number(&all["idle_share"])) * 100.0,
        number(&all["depth_while_busy"]),
        all["max_depth"].as_u64().unwrap_or(0),
        1.0 / busy.max(1e-9),
        bytes(number(&limit["bytes_per_s"])),
    )
}

/// Returns what limits a stretch of time, why, and what would help.
fn sentence(limit: &Value, document: &Value) -> String {
    if limit["turns"].is_object() {
        return turns(limit);
    }
    let Some(limiter) = limit["limiter"].as_str() else {
        if let Some(others) = without_data(document) {
            return others;
        }
        return "Cannot say what limits it: the trace has no completions; record issues and completions (blkio collect)."
            .to_owned();
    };
    let direction = limit["direction"].as_str().unwrap_or("read");
    let at_work = format!(
        "{}/s{}",
        bytes(rate_at_work(limit)),
        match limit["breaks"].as_u64() {
            None | Some(0) => "",
            Some(_) => " without the pauses",
        }
    );
    let idle = number(&limit["idle_share"]);
    let depth = number(&limit["depth_while_busy"]);
    let size = bytes(number(&limit["size_bytes"]));
    let think = number(&limit["think_share"]);
    let gain = limit["gain_per_depth"].as_f64();
    let busy = (1.0 - idle) * 100.0;
    let at_a_time = if number(&limit["share_alone"]) >= ALONE {
        "one at a time".to_owned()
    } else {
        let most = limit["max_depth"].as_u64().unwrap_or(0);
        format!("at a mean depth of {depth:.2} while busy (at most {most})")
    };
    let more = room(limit, document);
    let of = &limit["yardstick"];
    let name = of["name"].as_str().unwrap_or("-");
    let too_low = if of["is_disproved"] == true {
        format!(
            " The yardstick ({name}) is too low, and is not used: while busy this is {:.0} % of it.",
            number(&of["share_while_busy"]) * 100.0
        )
    } else {
        String::new()
    };
    let text = match limiter {
        "think time" if limit["limiter_while_busy"] == "device" && idle < IDLE_AT_MOST => format!(
            "Limited by think time of the application more than by the device: nothing is in flight {:.1} % of the time (half of it in pauses of {} and more), and requests come {at_a_time}. {} of now ({at_work}), with a device twice as fast at most {:.2}x.",
            idle * 100.0,
            time(number(&limit["gap_half_ns"])),
            match at_depth(limit) {
                Some((most, what)) => format!("{what}{}: without the pauses about {most:.2}x", flat(gain)),
                None => format!(
                    "While busy the device is at its limit, {}/s{}: without the pauses up to {:.2}x",
                    bytes(number(&limit["bytes_per_busy_s"])),
                    flat(gain),
                    1.0 / (1.0 - think).max(1e-9)
                ),
            },
            2.0 / (1.0 + think),
        ),
        "think time" if idle < IDLE_AT_MOST && limit["max_depth"] == 1 => format!(
            "Limited by think time of the application more than by the device or the queue depth: nothing is in flight {:.1} % of the time (half of it in pauses of {} and more), and requests come {at_a_time}. While busy it moves {}/s: without the pauses {}.",
            idle * 100.0,
            time(number(&limit["gap_half_ns"])),
            bytes(number(&limit["bytes_per_busy_s"])),
            without_pauses(limit),
        ),
        "think time" if idle < IDLE_AT_MOST => own_arrivals(limit, &at_a_time, &at_work),
        "flush" => flushes(limit, direction, &at_a_time, &at_work),
        "device" if number(&limit["stalls"]["share"]) >= STALLED => stalled(limit, depth),
        "think time" => format!(
            "Not limited by the device but by think time of the application: nothing is in flight {:.1} % of the time (half of it in pauses of {} and more between completion and next issue), and requests come {at_a_time}. While busy it moves {}/s: without the pauses {}.",
            idle * 100.0,
            time(number(&limit["gap_half_ns"])),
            bytes(number(&limit["bytes_per_busy_s"])),
            without_pauses(limit),
        ),
        "queue depth" if depth < 1.25 => format!(
            "Limited by queue depth: {direction}s of {size} come {at_a_time}{} (busy {busy:.1} %), {}. {}",
            if idle < NO_PAUSES { " without pauses" } else { "" },
            at_work,
            more.unwrap_or_else(|| format!("How much a deeper queue would give cannot be said from this trace: record the same job with more threads or iodepth{}.", or_yardstick(limit)))
        ),
        "queue depth" => format!(
            "Limited by queue depth: {} at depth {depth:.1}, {}. {}{}",
            match gain {
                Some(gain) if gain >= 0.5 => format!("throughput grows with depth (gain {gain:.2}; 1 is proportional, 0 none)"),
                _ if by_phase(limit, "depth").is_some() => "a phase of greater depth moves more".to_owned(),
                _ => "far below the yardstick with requests always in flight".to_owned(),
            },
            at_work,
            more.unwrap_or_else(|| format!("How much more depth would give beyond what was recorded cannot be said: record a deeper queue{}.", or_yardstick(limit))),
            own_pace(limit)
        ),
        "request size" => format!(
            "Limited by request size: the device is at its rate of requests, {} of {} at depth {depth:.1}, {} (busy {busy:.1} %{}). {}",
            rate_of_requests(limit, idle),
            mean_size(limit),
            at_work,
            flat(gain),
            more.unwrap_or_else(|| format!("How much larger requests would move cannot be said from this trace: record them{}.", or_yardstick(limit)))
        ),
        "device" => format!(
            "Limited by the device: busy {busy:.1} % of the time at depth {depth:.1}{}, {} of {direction}s of {}{}. More threads or iodepth would {}.",
            match by_phase(limit, "depth") {
                Some(that) => format!(", and {that}"),
                None => flat(gain),
            },
            at_work,
            mean_size(limit),
            reached(limit),
            match at_depth(limit) {
                Some((most, _)) => format!(
                    "fill the pauses and the queue at most: about {most:.2}x, as in the best {} successive requests",
                    number(&limit["most_at_depth"]["requests"])
                ),
                None if think < NO_PAUSES => "only add latency".to_owned(),
                None => format!("fill the pauses at most: up to {:.2}x", 1.0 / (1.0 - think).max(1e-9)),
            }
        ),
        _ => unknown(limit, &at_a_time, &at_work),
    };
    let pauses = if limiter == "think time" {
        String::new()
    } else {
        pauses(limit, idle)
    };
    // What limits the rest of the time may not be known, but what the pauses cost is.
    let pauses = if limiter == "cannot say" && think >= IDLE && limit["is_enough"] == true {
        format!(
            "{pauses} Without think time it would move {}.",
            without_pauses(limit)
        )
    } else {
        pauses
    };
    let still = stalls(limit, limiter);
    text + &too_low + &pauses + &still + &other_size(limit) + &unused(limit) + &lost(limit)
}

/// Returns how much more the device does at its best than now, and that in words; `None` where it is no more than without pauses.
fn at_depth(limit: &Value) -> Option<(f64, String)> {
    let of = &limit["most_at_depth"];
    let most = of["factor"].as_f64()?;
    let without_pauses = 1.0 / (1.0 - number(&limit["think_share"])).max(1e-9);
    (most >= MORE_AT_DEPTH * without_pauses).then(|| {
        let what = format!(
            "In its best {} successive requests, at depth {:.1}, the device moves {}/s",
            number(&of["requests"]),
            number(&of["depth"]),
            bytes(rate_at_work(limit) * most)
        );
        (most, what)
    })
}

/// That requests come when the application wants them, and not when others complete.
fn own_arrivals(limit: &Value, at_a_time: &str, at_work: &str) -> String {
    let more = match at_depth(limit) {
        Some((most, what)) => format!("{what}, {most:.2}x of now ({at_work})"),
        None => format!(
            "How much more than now ({at_work}) it could do cannot be said: record with requests that come faster{}",
            or_yardstick(limit)
        ),
    };
    format!(
        "Not limited by the device but by think time of the application, or by the pace at which requests arrive: {:.0} % of them are issued when another completes, hardly more than by chance, and they come {at_a_time}. {more}. If they arrive at a pace of their own, a deeper queue changes nothing.",
        number(&limit["following_share"]) * 100.0
    )
}

/// That nothing completes for long although requests are in flight.
fn stalled(limit: &Value, depth: f64) -> String {
    let of = &limit["stalls"];
    let still_ns = number(&of["time_ns"]);
    let busy_ns = number(&limit["time_ns"]) * (1.0 - number(&limit["idle_share"]));
    let moving = busy_ns / (busy_ns - still_ns).max(1.0);
    format!(
        "Limited by the device, which stands still: for {} of {} ({:.1} % of the time) nothing completes although requests are in flight ({}, the longest {}; such a request usually takes {}). Otherwise it moves {}/s at depth {depth:.1}. Meanwhile a deeper queue moves nothing: look for what stops the device (its log, throttling, its own housekeeping, the host's storage).",
        time(still_ns),
        time(number(&limit["time_ns"])),
        number(&of["share"]) * 100.0,
        times(of),
        time(number(&of["longest_ns"])),
        time(number(&of["usual_latency_ns"])),
        bytes(number(&limit["bytes_per_busy_s"]) * moving),
    )
}

/// How often.
fn times(stalls: &Value) -> String {
    match stalls["count"].as_u64() {
        Some(1) => "once".to_owned(),
        count => format!("{} times", count.unwrap_or(0)),
    }
}

/// That the device stands still for a part of the time; empty where it is small, or said already.
fn stalls(limit: &Value, limiter: &str) -> String {
    let of = &limit["stalls"];
    let share = number(&of["share"]);
    if share < STALL || limiter == "device" && share >= STALLED {
        return String::new();
    }
    format!(
        " For {:.1} % of the time nothing completes although requests are in flight: the device stands still ({}, the longest {}; such a request usually takes {}).",
        share * 100.0,
        times(of),
        time(number(&of["longest_ns"])),
        time(number(&of["usual_latency_ns"]))
    )
}

/// That completions were lost, and what is taken for them; empty where none were.
fn lost(limit: &Value) -> String {
    let share = number(&limit["lost_share"]);
    if share <= 0.0 {
        return String::new();
    }
    format!(
        " {:.1} % of the requests lost their completion: rates are of all that were issued, busy time and depth are estimated as if the lost ones took as long as the others.",
        share * 100.0
    )
}

/// The answer for a recording whose requests move no data; `None` where there are others, or none completed.
fn without_data(document: &Value) -> Option<String> {
    let count = |direction: &str| {
        document["metrics"]["totals"][direction]["ios"]
            .as_u64()
            .unwrap_or(0)
    };
    let latency = &document["metrics"]["pairing_newest"]["latency_ns"];
    if count("read") + count("write") > 0 || latency.as_object().is_none_or(|of| of.is_empty()) {
        return None;
    }
    let mut kinds = Vec::new();
    for name in ["flush", "discard", "none", "zone", "other"] {
        let of = &latency[name];
        if let Some(completed) = of["count"].as_u64() {
            let name = match (name, completed) {
                ("flush", 1) => "flush".to_owned(),
                ("flush", _) => "flushes".to_owned(),
                _ => format!("requests of kind {name}"),
            };
            kinds.push(format!(
                "{completed} {name} (mean {})",
                time(number(&of["mean"]))
            ));
        }
    }
    Some(format!(
        "No read or write limits it: the recording has only {}, and the device is busy {:.1} % of the time.",
        kinds.join(", "),
        number(&document["extra"]["queue_depth"]["all"]["utilisation"]) * 100.0
    ))
}

/// That the device flushes while the application waits.
fn flushes(limit: &Value, direction: &str, at_a_time: &str, at_work: &str) -> String {
    let count = number(&limit["flushes"]);
    let flush_ns = number(&limit["flush_ns"]);
    let all_ns = number(&limit["latency_ns"]);
    format!(
        "Limited by flushes of the device: they are {:.1} % of the time of all requests in flight ({count:.0}, mean {}, {:.2} for each {direction}), and nothing is in flight {:.1} % of the time. {} come {at_a_time}, {at_work}. Fewer flushes (one for several {direction}s) would give up to {:.2}x.",
        number(&limit["flush_share"]) * 100.0,
        time(flush_ns / count.max(1.0)),
        count / number(&limit["requests"]).max(1.0),
        number(&limit["think_share"]) * 100.0,
        if direction == "write" {
            "Writes"
        } else {
            "Reads"
        },
        all_ns / (all_ns - flush_ns).max(1.0)
    )
}

/// That requests which do not follow completions may come at a pace of their own; empty where they follow.
fn own_pace(limit: &Value) -> String {
    let share = number(&limit["following_share"]);
    if share >= FOLLOWING {
        return String::new();
    }
    format!(
        " Only {:.0} % of the requests are issued when another completes: if they arrive at a pace of their own, that limits, and a deeper queue changes nothing.",
        share * 100.0
    )
}

/// Returns the requests per second that the device serves: while it is busy, since its pauses say nothing of it.
fn rate_of_requests(limit: &Value, idle: f64) -> String {
    let rate = |of: f64| human::quantity(of, Unit::PerSecond);
    let iops = number(&limit["iops"]);
    if idle < NO_PAUSES {
        return rate(iops);
    }
    rate(iops / (1.0 - idle).max(1e-9)) + " while busy,"
}

/// Returns the size of the requests: the commonest, or the mean where others add much.
fn mean_size(limit: &Value) -> String {
    let (common, mean) = (number(&limit["size_bytes"]), number(&limit["mean_bytes"]));
    if (mean / common.max(1.0) - 1.0).abs() < NO_PAUSES {
        return bytes(common);
    }
    format!(
        "{} on average (the commonest size is {})",
        bytes(mean),
        bytes(common)
    )
}

/// Returns the bytes per second of a stretch of time without its breaks, which limit nothing of what came before and
/// after them.
fn rate_at_work(limit: &Value) -> f64 {
    let time_ns = number(&limit["time_ns"]);
    let work_ns = time_ns - number(&limit["breaks_ns"]);
    let rate = number(&limit["bytes_per_s"]);
    if work_ns > 0.0 {
        rate * time_ns / work_ns
    } else {
        rate
    }
}

/// That nothing is in flight for a part of the time, and in which pauses; empty where that part is small.
fn pauses(limit: &Value, idle: f64) -> String {
    if idle < IDLE {
        return String::new();
    }
    let breaks = limit["breaks"].as_u64().unwrap_or(0);
    let share = number(&limit["breaks_ns"]) / number(&limit["time_ns"]).max(1.0);
    let most = match breaks {
        0 => format!(
            "half of it in pauses of {} and more",
            time(number(&limit["gap_half_ns"]))
        ),
        1 => format!(
            "{:.1} % in one pause of {}",
            share * 100.0,
            time(number(&limit["breaks_ns"]))
        ),
        _ => format!("{:.1} % in {breaks} long pauses", share * 100.0),
    };
    format!(
        " Nothing is in flight {:.1} % of the time: {most}.",
        idle * 100.0
    )
}

/// That a yardstick of requests of another size is no aim for these; empty where sizes are alike.
fn other_size(limit: &Value) -> String {
    let of = &limit["yardstick"];
    let name = of["name"].as_str().unwrap_or("-");
    let these = bytes(number(&limit["mean_bytes"]));
    match of["requests_are"].as_str() {
        Some("unknown") => format!(
            " The yardstick ({name}) has no size of requests, and these have {these} on average: a rate of larger ones is no aim for them."
        ),
        Some("smaller" | "larger") => format!(
            " The yardstick ({name}) is of requests of {}, these have {these} on average: not compared.",
            bytes(number(&of["size_bytes"]))
        ),
        _ => String::new(),
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

/// Returns the share of the yardstick that is reached.
fn reached(limit: &Value) -> String {
    let of = &limit["yardstick"];
    let share = of["share_of_bytes_per_s"].as_f64();
    let is_used = of["is_disproved"] != true && of["requests_are"] != "larger";
    match share.filter(|_| is_used) {
        Some(share) => format!(
            ", {:.0} % of the yardstick ({})",
            share * 100.0,
            of["name"].as_str().unwrap_or("-")
        ),
        None => String::new(),
    }
}

/// Why nothing can be said.
fn unknown(limit: &Value, at_a_time: &str, at_work: &str) -> String {
    let requests = limit["requests"].as_u64().unwrap_or(0);
    if requests < 50 {
        return format!(
            "Cannot say what limits it: only {requests} completed requests; record longer."
        );
    }
    let depth = number(&limit["depth_while_busy"]);
    let busy = (1.0 - number(&limit["idle_share"])) * 100.0;
    let what = "Cannot say whether the device or the queue depth limits it";
    let or = or_yardstick(limit);
    match limit["gain_per_depth"].as_f64() {
        None if depth < 1.5 => format!(
            "{what}: requests come {at_a_time} (busy {busy:.1} %), {at_work}, and a device that serves one after the other looks the same. Record the same job with depth 4{or}."
        ),
        None => format!(
            "{what}: busy {busy:.1} % of the time, and requests come at one depth only ({depth:.1}), {at_work}. Record the same job with depth {:.0}{or}.",
            depth * 2.0
        ),
        Some(gain) => format!(
            "{what}: busy {busy:.1} % at depth {depth:.1}, {at_work}, and throughput gains {gain:.2} ± {:.2} with depth (1 is proportional, 0 none). Record the same job with depth {:.0}{or}.",
            number(&limit["gain_error"]),
            (depth * 2.0).max(4.0)
        ),
    }
}

/// That a yardstick would help; empty where one was given.
fn or_yardstick(limit: &Value) -> &'static str {
    if limit["yardstick"].is_object() {
        ""
    } else {
        ", or give --yardstick"
    }
}

/// How a yardstick that was given compares, where nothing else says it.
fn unused(limit: &Value) -> String {
    let of = &limit["yardstick"];
    if !of.is_object() {
        return String::new();
    }
    let name = of["name"].as_str().unwrap_or("-");
    let rate = number(&limit["bytes_per_s"]);
    let Some(most) = of["bytes_per_s"].as_f64() else {
        return format!(
            " The yardstick ({name}) has no rate of {}s.",
            limit["direction"].as_str().unwrap_or("read")
        );
    };
    let limiter = limit["limiter"].as_str().unwrap_or("");
    if of["is_disproved"] == true
        || of["requests_are"] != "alike"
        || limiter == "device"
        || rate <= 0.0
    {
        return String::new();
    }
    let is_room = limiter == "queue depth" || limiter == "request size";
    if is_room && most > rate && by_phase(limit, "depth").is_none() {
        return String::new();
    }
    let seeks = if limiter == "cannot say" && limit["may_seek"] == true {
        "; it decides nothing if it is of sequential requests, since these are random"
    } else {
        ""
    };
    format!(
        " The yardstick ({name}) moved {}/s: this is {:.1} % of it{seeks}.",
        bytes(most),
        rate / most * 100.0
    )
}

/// What another phase of the same recording moved that differs in this; `None` where there is none.
fn by_phase(limit: &Value, differs_in: &str) -> Option<String> {
    let of = &limit["other_phase"];
    if of["differs_in"] != differs_in {
        return None;
    }
    let what = if differs_in == "size" {
        format!("requests of {}", bytes(number(&of["mean_bytes"])))
    } else {
        format!("depth {:.1}", number(&of["depth_while_busy"]))
    };
    Some(format!(
        "the phase at {} with {what} moved {}/s, {:.2}x of this",
        time(number(&of["starts_after_ns"])),
        bytes(number(&of["bytes_per_busy_s"])),
        number(&of["factor"])
    ))
}

/// The phase that shows the limit of another, in brackets; empty where none does.
fn shown_by(limit: &Value) -> String {
    let found = by_phase(limit, "depth").or_else(|| by_phase(limit, "size"));
    found.map_or(String::new(), |that| format!(" ({that})"))
}

/// How much more there is, by the yardstick, by another phase, else by what the trace itself has elsewhere.
fn room(limit: &Value, document: &Value) -> Option<String> {
    let phase = by_phase(limit, "depth").or_else(|| by_phase(limit, "size"));
    if let Some(phase) = phase {
        let mut letters = phase.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        return Some(first.into_iter().chain(letters).collect::<String>() + ".");
    }
    if let Some(more) = most_of_yardstick(limit) {
        return Some(more);
    }
    let rate = rate_at_work(limit);
    let direction = limit["direction"].as_str()?;
    let most = number(&document["extra"]["best_100ms"][format!("{direction}_bytes_per_s")]);
    (rate > 0.0 && most >= BETTER * rate).then(|| {
        format!(
            "The best 100 ms of {direction}s in this trace moved {}/s: up to {:.2}x.",
            bytes(most),
            most / rate
        )
    })
}

/// What the application would gain without pauses: at least the rate while busy, since the queue is then no shorter, and no more
/// than its threads or the yardstick allow. Where requests come one at a time, these are the same.
fn without_pauses(limit: &Value) -> String {
    let now = number(&limit["bytes_per_s"]);
    let least = 1.0 / (1.0 - number(&limit["idle_share"])).max(1e-9);
    let of = &limit["yardstick"];
    let is_used = of["is_disproved"] != true && of["requests_are"] != "larger";
    let yardstick = of["bytes_per_s"].as_f64().map(|most| most / now.max(1e-9));
    let yardstick = yardstick.filter(|most| now > 0.0 && *most >= 1.0 && is_used);
    let threads = limit["most_without_pauses"].as_f64();
    let most = threads.into_iter().chain(yardstick).min_by(f64::total_cmp);
    let now = bytes(now);
    if limit["max_depth"] == 1
        && let Some(most) = most.filter(|_| threads.is_some())
    {
        return format!("up to {most:.2}x of now ({now}/s)");
    }
    // Rounded up, for it is a bound.
    let up = |value: f64| (value * 100.0).ceil() / 100.0;
    match most {
        Some(most) => {
            let why = match threads {
                Some(threads) if yardstick.is_none_or(|yardstick| threads < yardstick) => format!(
                    "{} at a time all the time, at the least latency recorded",
                    limit["max_depth"]
                ),
                _ => "the rate of the yardstick".to_owned(),
            };
            format!(
                "about {:.2}x of now ({now}/s) or more, up to {:.2}x ({why})",
                least.min(most),
                up(most)
            )
        }
        None => format!(
            "about {least:.2}x of now ({now}/s) or more; how much more cannot be said, since pauses also keep the queue short, and may hide threads. Record the same job without its pauses{}",
            or_yardstick(limit)
        ),
    }
}

/// Returns how much more the yardstick moved than the trace, if it did.
fn most_of_yardstick(limit: &Value) -> Option<String> {
    let rate = number(&limit["bytes_per_s"]);
    let of = &limit["yardstick"];
    let most = of["bytes_per_s"].as_f64()?;
    let is_alike = of["requests_are"] == "alike";
    (is_alike && rate > 0.0 && most > rate).then(|| {
        format!(
            "The yardstick ({}) moved {}/s: up to {:.2}x.",
            of["name"].as_str().unwrap_or("-"),
            bytes(most),
            most / rate
        )
    })
}
