//! Writes the results of a trace as text.

use std::fmt::{self, Write as _};

use blkio_parser::Stats;
use report::human;
use serde_json::Value;

use crate::headline::{headline, name_in_list};
use crate::value::list;

fn given_phases(document: &Value, first_ns: u64, out: &mut String) -> fmt::Result {
    for phase in list(&document["given_phases"]) {
        phase_line(phase, "name", first_ns, out)?;
    }
    Ok(())
}

/// What the GPU did meanwhile, and what the engine's log says the time was spent on; or why neither is known.
fn beside(document: &Value, first_ns: u64, out: &mut String) -> fmt::Result {
    let time = |value: &Value| human::quantity(value.as_f64().unwrap_or(0.0), report::Unit::Nanos);
    let bytes = |value: &Value| human::quantity(value.as_f64().unwrap_or(0.0), report::Unit::Bytes);
    if let Some(mean) = document["gpu"]["time_weighted_mean_percent"].as_f64() {
        writeln!(out, "GPU: busy {mean:.1} % on average")?;
    }
    let gpu = &document["gpu_against_io"];
    if let Some(share) = gpu["stalled_on_storage_share"].as_f64() {
        let found = &gpu["alignment"];
        writeln!(
            out,
            "  idle while the device was busy: {:.1} % of the time\n  clocks by {}, give or take {}",
            share * 100.0,
            found["method"].as_str().unwrap_or("-"),
            time(&found["uncertainty_ns"])
        )?;
        if let Some(assumed) = found["assumes"].as_str() {
            writeln!(out, "  if {assumed}")?;
        }
    }
    let engine = &document["engine_phases"];
    let phases: Vec<&Value> = list(&engine["phases"]).collect();
    if !phases.is_empty() {
        writeln!(
            out,
            "engine: by {}, give or take {}",
            engine["anchor"].as_str().unwrap_or("-"),
            time(&engine["uncertainty_ns"])
        )?;
    }
    if let Some(caveat) = engine["caveat"].as_str() {
        writeln!(out, "  {caveat}")?;
    }
    for phase in phases {
        phase_line(phase, "name", first_ns, out)?;
        let per_token = &phase["per_token"];
        if per_token.is_object() {
            writeln!(
                out,
                "    per token {} read, {} written, {:.1} requests",
                bytes(&per_token["read_bytes"]),
                bytes(&per_token["write_bytes"]),
                per_token["requests"].as_f64().unwrap_or(0.0)
            )?;
        }
    }
    for (name, value) in [("GPU", gpu), ("engine", engine)] {
        if let Some(reason) = value["refused"].as_str() {
            writeln!(out, "{name} not compared: {reason}")?;
        }
    }
    Ok(())
}

/// When a phase was, what it did, and how long its requests took.
fn phase_line(phase: &Value, name: &str, first_ns: u64, out: &mut String) -> fmt::Result {
    let at = |active: &str, key: &str| {
        let time_ns = phase[active].as_u64().or(phase[key].as_u64());
        time_ns.unwrap_or(0).saturating_sub(first_ns) as f64 / 1e9
    };
    write!(
        out,
        "  {:>9.3} s to {:>9.3} s  {}",
        at("active_from_ns", "start_ns"),
        at("active_until_ns", "end_ns"),
        name_in_list(phase, name)
    )?;
    for direction in ["read", "write"] {
        let of = &phase[direction];
        if of["ios"].as_u64().unwrap_or(0) > 0
            && let Some(value) = of["bytes_per_s"].as_f64()
        {
            write!(out, ", {direction} {}", rate(value))?;
        }
    }
    if let Some(depth) = phase["mean_queue_depth"].as_f64() {
        write!(out, ", depth {depth:.2}")?;
    }
    let mut before = "p50 ";
    for direction in ["read", "write"] {
        if let Some(p50) = phase["latency_ns"][direction]["p50"].as_f64() {
            let p50 = human::quantity(p50, report::Unit::Nanos);
            write!(out, ", {before}{direction} {p50}")?;
            before = "";
        }
    }
    if let Some(limiter) = phase["limit"]["limiter"].as_str() {
        write!(out, ", limit: {limiter}")?;
        if let Some(device) = phase["limit"]["device"].as_str() {
            write!(out, " ({device})")?;
        }
    }
    writeln!(out)
}

/// Returns a rate in the units of the bytes beside it.
fn rate(bytes_per_s: f64) -> String {
    human::quantity(bytes_per_s, report::Unit::Bytes) + "/s"
}

/// How many devices there are, which lie on others, and what each did.
fn devices(document: &Value, out: &mut String) -> fmt::Result {
    let count = list(&document["devices"]).count();
    for pair in list(&document["stacked_devices"]) {
        let name = |key: &str| pair[key].as_str().unwrap_or("-");
        let (upper, lower) = (name("upper"), name("lower"));
        let share = pair["share_of_upper_found_below"].as_f64();
        let counted = match pair["upper_has_requests"] == false {
            true if pair["upper_is_left_out"] == true => {
                format!("bios are counted once, at {lower}")
            }
            true => format!("bios are counted twice; --device {lower} counts them once"),
            false if pair["upper_is_left_out"] == true => {
                format!("requests are counted once, at {lower}; --device {upper} shows the other")
            }
            false => format!("requests are counted twice; --device {lower} counts them once"),
        };
        writeln!(
            out,
            "{upper} lies on {lower} ({}): {counted}",
            name("evidence")
        )?;
        if let Some(share) = share.filter(|share| *share < 0.9) {
            writeln!(
                out,
                "  of the bytes of {upper}, {:.1} % were found below: the rest came from a cache or from devices that were not recorded",
                share * 100.0
            )?;
        }
    }
    let apart: Vec<&Value> = list(&document["devices_left_out"]).collect();
    let rows: Vec<&Value> = list(&document["devices"]).collect();
    if count >= 2 {
        writeln!(out, "{count} devices:")?;
        loads(&rows, out)?;
        places(&rows, out)?;
    }
    if !apart.is_empty() {
        writeln!(out, "not counted, since on others:")?;
        loads(&apart, out)?;
        places(&apart, out)?;
    }
    Ok(())
}

/// Returns a size, or that it is not known.
fn size(bytes: Option<f64>) -> String {
    bytes.map_or("-".to_owned(), |bytes| {
        human::quantity(bytes, report::Unit::Bytes)
    })
}

/// Returns a share in percent, or that it is not known.
fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// What each device moved, and how busy it was.
fn loads(rows: &[&Value], out: &mut String) -> fmt::Result {
    writeln!(
        out,
        "  {:<10} {:>9} {:>11} {:>11} {:>10} {:>6} {:>7}",
        "device", "requests", "read", "written", "p50", "depth", "busy"
    )?;
    for of in rows {
        let latency = &of["metrics"]["pairing_newest"]["latency_ns"];
        let p50 = latency["read"]["p50"]
            .as_f64()
            .or(latency["write"]["p50"].as_f64());
        let p50 = p50.map_or("-".to_owned(), |ns| {
            human::quantity(ns, report::Unit::Nanos)
        });
        let depth = &of["queue_depth"]["all"];
        let mean = depth["time_weighted_mean"].as_f64();
        writeln!(
            out,
            "  {:<10} {:>9} {:>11} {:>11} {:>10} {:>6} {:>7}",
            of["device"].as_str().unwrap_or("-"),
            of["metrics"]["issues"].as_u64().unwrap_or(0),
            size(of["read"]["bytes"].as_f64()),
            size(of["write"]["bytes"].as_f64()),
            p50,
            mean.map_or("-".to_owned(), |mean| format!("{mean:.2}")),
            percent(depth["utilisation"].as_f64())
        )?;
    }
    Ok(())
}

/// Where each device was read and written.
fn places(rows: &[&Value], out: &mut String) -> fmt::Result {
    writeln!(
        out,
        "  {:<10} {:>7} {:>11} {:>7} {:>11} {:>6}  limit",
        "device", "seq.", "seek p50", "merges", "working set", "reread"
    )?;
    for of in rows {
        let all = &of["metrics"]["sequentiality"]["all"];
        let share = all["requests"].as_f64().filter(|requests| *requests > 0.0);
        let share = share.map(|requests| all["sequential"].as_f64().unwrap_or(0.0) / requests);
        let seek = all["abs_seek_sectors_p50"].as_f64();
        let blocks = of["metrics"]["working_set_4k_blocks"]["union"].as_f64();
        let again = of["re_read_factor"].as_f64();
        let merges = of["merges"].as_u64();
        writeln!(
            out,
            "  {:<10} {:>7} {:>11} {:>7} {:>11} {:>6}  {}",
            of["device"].as_str().unwrap_or("-"),
            percent(share),
            size(seek.map(|sectors| sectors * 512.0)),
            merges.map_or("-".to_owned(), |merges| merges.to_string()),
            size(blocks.map(|blocks| blocks * 4096.0)),
            again.map_or("-".to_owned(), |again| format!("{again:.2}")),
            of["limit"]["limiter"].as_str().unwrap_or("-")
        )?;
    }
    Ok(())
}

/// Times between the stages of the block layer, where there are more than issue and completion.
fn stages(document: &Value, out: &mut String) -> fmt::Result {
    let extra = &document["extra"];
    let rows: Vec<&Value> = list(&extra["stage_table"]).collect();
    if rows.len() < 2 {
        return Ok(());
    }
    writeln!(
        out,
        "stages (Q queued, G request, M merged, I scheduler, D driver, C completed):\n  {:<6} {:>9} {:>10} {:>10} {:>10} {:>9}",
        "stage", "count", "min", "mean", "max", "of Q2C"
    )?;
    for row in rows {
        let time =
            |key: &str| human::quantity(row[key].as_f64().unwrap_or(0.0), report::Unit::Nanos);
        let share = row["share_of_q2c"].as_f64();
        writeln!(
            out,
            "  {:<6} {:>9} {:>10} {:>10} {:>10} {:>9}",
            row["stage"].as_str().unwrap_or("").to_uppercase(),
            row["count"].as_u64().unwrap_or(0),
            time("min_ns"),
            time("mean_ns"),
            time("max_ns"),
            share.map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0))
        )?;
    }
    let count = |key: &str| extra[key].as_u64().unwrap_or(0);
    let queued = count("queued");
    if queued > 0 {
        writeln!(
            out,
            "  (counts and times of G2I, G2D, I2D and D2C are of requests, all others of bios; shares are of the time of all bios)"
        )?;
        let issues = document["metrics"]["issues"]
            .as_f64()
            .unwrap_or(0.0)
            .max(1.0);
        writeln!(
            out,
            "  {queued} bios queued, {} merged, {:.2} bios a request, {} splits",
            count("merges"),
            queued as f64 / issues,
            count("splits")
        )?;
    }
    if count("unplugs") > 0 {
        let each = extra["ios_per_unplug"].as_f64();
        let each = each.map_or(String::new(), |each| format!(", {each:.2} IOs per unplug"));
        writeln!(
            out,
            "  {} plugs, {} unplugs{each}",
            count("plugs"),
            count("unplugs")
        )?;
    }
    Ok(())
}

/// Maximum number of processors that the text lists.
const CPUS: usize = 16;

/// Requests by processor, where the trace has stages, as blkparse prints them.
fn cpus(document: &Value, out: &mut String) -> fmt::Result {
    let extra = &document["extra"];
    let rows: Vec<&Value> = list(&extra["cpus"]).collect();
    if rows.len() < 2 || extra["queued"].as_u64().unwrap_or(0) == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "requests by CPU (read/write):\n  {:>4} {:>17} {:>17} {:>17} {:>15}",
        "cpu", "queued", "dispatched", "completed", "merged"
    )?;
    for row in rows.iter().take(CPUS) {
        let both = |key: &str| {
            let ios = |of: &str| row[key][of]["ios"].as_u64().unwrap_or(0);
            format!("{}/{}", ios("read"), ios("write"))
        };
        writeln!(
            out,
            "  {:>4} {:>17} {:>17} {:>17} {:>15}",
            row["cpu"].as_u64().unwrap_or(0),
            both("queued"),
            both("dispatched"),
            both("completed"),
            both("merged")
        )?;
    }
    if rows.len() > CPUS {
        writeln!(out, "  {} more CPUs are in --json", rows.len() - CPUS)?;
    }
    Ok(())
}

/// Columns of the text.
const WIDTH: usize = 80;
/// How far lines go in that continue others.
const INDENT: &str = "    ";

/// Returns what a trace comes to: the headline, then the evidence. Lines are at most 80 columns wide as far as they have blanks.
#[must_use]
pub fn text_summary(stats: &Stats, document: &Value) -> String {
    let mut text = String::new();
    // A string takes all that is written.
    whole(stats, document, &mut text).unwrap_or_default();
    let mut folded_text = String::new();
    for line in text.lines() {
        folded(line, &mut folded_text);
    }
    folded_text
}

/// Adds a line, broken at blanks where it is too wide.
fn folded(line: &str, out: &mut String) {
    let mut rest = line.to_owned();
    while rest.chars().count() > WIDTH {
        let begin = rest.len() - rest.trim_start().len();
        let end = rest
            .char_indices()
            .nth(WIDTH + 1)
            .map_or(rest.len(), |(at, _)| at);
        let within = rest.get(begin..end).unwrap_or_default();
        let Some(at) = within.rfind(' ').map(|at| at + begin) else {
            break;
        };
        let (head, tail) = rest.split_at(at);
        out.push_str(head.trim_end());
        out.push('\n');
        rest = format!("{INDENT}{}", tail.trim_start());
    }
    out.push_str(&rest);
    out.push('\n');
}

fn whole(stats: &Stats, document: &Value, out: &mut String) -> fmt::Result {
    let metrics = &document["metrics"];
    writeln!(out, "{}", headline(document))?;
    for input in document["inputs"].as_array().into_iter().flatten() {
        let text = |key: &str| input[key].as_str().unwrap_or("-").to_owned();
        writeln!(
            out,
            "{}: {} (clock {})",
            text("name"),
            text("format"),
            text("clock")
        )?;
    }
    devices(document, out)?;
    let rates = &document["extra"]["mean_rates"];
    let busy = &document["extra"]["rates_while_busy"];
    let span = rates["span_s"].as_f64().unwrap_or(0.0);
    match stats.traffic.completions {
        0 => writeln!(
            out,
            "{} requests issued over {span:.3} s; no completions, so no latency and no depth",
            stats.traffic.issues
        )?,
        completions => writeln!(
            out,
            "{} requests issued, {completions} completed, over {span:.3} s",
            stats.traffic.issues
        )?,
    }
    if let Some(totals) = metrics["totals"].as_object() {
        for (direction, amount) in totals {
            let ios = amount["ios"].as_u64().unwrap_or(0);
            let bytes = amount["bytes"].as_u64().unwrap_or(0);
            let over = |seconds: f64| {
                if seconds > 0.0 {
                    rate(bytes as f64 / seconds)
                } else {
                    "-".to_owned()
                }
            };
            write!(
                out,
                "  {direction:<8} {ios:>10} requests {:>12} {:>14} over the span",
                human::quantity(bytes as f64, report::Unit::Bytes),
                over(span)
            )?;
            let while_busy = busy[format!("{direction}_bytes_per_s")].as_f64();
            let busy_s = busy[format!("{direction}_busy_s")].as_f64();
            match while_busy.zip(busy_s).filter(|(of, _)| *of > 0.0) {
                Some((of, busy_s)) => {
                    writeln!(out)?;
                    writeln!(out, "{:>56} while busy ({busy_s:.3} s)", rate(of))?;
                }
                None => writeln!(out)?,
            }
        }
    }
    for class in ["read", "write"] {
        let of = &metrics["sequentiality"][class];
        let requests = of["requests"].as_f64().unwrap_or(0.0);
        if requests > 0.0 {
            let share = |key: &str| of[key].as_f64().unwrap_or(0.0) / requests * 100.0;
            writeln!(
                out,
                "  {class:<8} {:.1} % sequential, {:.1} % with 32 streams",
                share("sequential"),
                share("multi_stream_32")
            )?;
        }
        let latency = &metrics["pairing_newest"]["latency_ns"][class];
        if let Some(p50) = latency["p50"].as_f64() {
            let p99 = latency["p99"].as_f64().unwrap_or(0.0);
            writeln!(
                out,
                "  {class:<8} latency p50 {}, p99 {}",
                human::quantity(p50, report::Unit::Nanos),
                human::quantity(p99, report::Unit::Nanos)
            )?;
        }
    }
    let depth = &document["extra"]["queue_depth"]["all"];
    if let (Some(mean), Some(most)) = (depth["time_weighted_mean"].as_f64(), depth["max"].as_u64())
    {
        let busy = depth["utilisation"].as_f64().unwrap_or(0.0) * 100.0;
        writeln!(
            out,
            "  queue depth mean {mean:.2}, most {most}, {} busy {busy:.1} % of the time",
            if list(&document["devices"]).count() > 1 {
                "any device"
            } else {
                "device"
            }
        )?;
    }
    let blocks = metrics["working_set_4k_blocks"]["union"].as_f64();
    if let Some(blocks) = blocks {
        writeln!(
            out,
            "  working set {}",
            human::quantity(blocks * 4096.0, report::Unit::Bytes)
        )?;
    }
    stages(document, out)?;
    cpus(document, out)?;
    let first_ns = stats.traffic.first_issue_ns.unwrap_or(0);
    for phase in list(&document["phases"]["phases"]) {
        phase_line(phase, "label", first_ns, out)?;
    }
    given_phases(document, first_ns, out)?;
    beside(document, first_ns, out)?;
    let lines = &document["quality"]["lines"];
    let pieces = if stats.outcome.has_text() {
        "lines"
    } else {
        "records"
    };
    writeln!(
        out,
        "quality: {} {pieces}, {} malformed, {} events lost, maximum backward time jump {}",
        lines["lines"],
        lines["malformed"],
        lines["lost_events"],
        human::quantity(
            document["quality"]["largest_backward_step_ns"]
                .as_f64()
                .unwrap_or(0.0),
            report::Unit::Nanos
        )
    )?;
    Ok(())
}
