//! Results as text for people.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rca_cycles::health::ailments;
use rca_cycles::{Analysis, Phase};
use report::human;

use crate::document::{blame, sums};

#[expect(clippy::cast_precision_loss, reason = "shown with four digits")]
fn time(ns: i64) -> String {
    human::duration(ns as f64)
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn share(part: i64, whole: i64) -> String {
    human::percent(part as f64 / (whole.max(1)) as f64 * 100.0)
}

pub(crate) fn job(out: &mut dyn Write, job: &str, analysis: &Analysis) -> io::Result<()> {
    let partial = analysis
        .cycles
        .iter()
        .filter(|c| c.partial.is_some())
        .count();
    let engine = analysis.engine.as_deref();
    let how = format!(
        "({}{})",
        engine.map_or_else(String::new, |e| format!("{e}, ")),
        analysis.method.name()
    );
    // "  cut at " before it, and a blank.
    let room = 70_usize.saturating_sub(how.chars().count());
    writeln!(
        out,
        "{job}: {} cycles{}\n  cut at {} {how}",
        analysis.cycles.len(),
        if partial > 0 {
            format!(", {partial} of them partial")
        } else {
            String::new()
        },
        if analysis.anchor.is_empty() {
            "nothing".to_owned()
        } else {
            name(&analysis.anchor, room.min(60))
        },
    )?;
    if let Some(period) = analysis.period_ns() {
        writeln!(out, "  median period {}", time(period))?;
    }
    for phase in [Phase::Prefill, Phase::Decode, Phase::Mixed, Phase::Unknown] {
        let list: Vec<_> = analysis
            .cycles
            .iter()
            .filter(|c| c.partial.is_none() && c.phase == phase)
            .collect();
        let Some(median) = analysis.median_ns(phase) else {
            continue;
        };
        let total: i64 = list.iter().map(|c| c.length_ns()).sum();
        let sum =
            |f: &dyn Fn(&rca_cycles::Gaps) -> i64| list.iter().map(|c| f(&c.gaps)).sum::<i64>();
        writeln!(
            out,
            "\n  {} x {}, median {}",
            list.len(),
            phase.name(),
            time(median)
        )?;
        for (what, ns) in [
            ("device busy", sum(&|g| g.gpu_busy_ns)),
            (
                "exposed communication",
                sum(&|g| g.exposed_communication_ns),
            ),
            ("synchronisation", sum(&|g| g.synchronisation_ns)),
            ("exposed host code", sum(&|g| g.exposed_host_ns)),
            ("idle", sum(&|g| g.idle_ns)),
        ] {
            writeln!(out, "    {what:<22} {:>7}", share(ns, total))?;
        }
    }
    unwell(out, analysis)?;
    let whole: i64 = analysis
        .cycles
        .iter()
        .filter(|c| c.partial.is_none())
        .map(rca_cycles::Cycle::length_ns)
        .sum();
    writeln!(
        out,
        "\n  own time by function (of all cycles' time; threads and devices add up)"
    )?;
    let mut listed = blame(analysis);
    listed.truncate(15);
    let on_device = listed.iter().filter(|f| f.kind.is_device());
    let short = gpu_time::tables::short_names(on_device.map(|f| f.name.as_str()));
    for f in listed {
        let full = f.name.as_str();
        let shown = match f.kind.is_device() {
            true => short.get(full).map_or(full, String::as_str),
            false => full,
        };
        let (own, _, calls, _, _) = sums(analysis, f);
        let kind = f.kind.name();
        writeln!(
            out,
            "  {:>8} {:>9} {calls:>7} x {}  {kind}",
            share(own, whole),
            time(own),
            name(shown, 45_usize.saturating_sub(kind.len())),
        )?;
    }
    if !analysis.interference.is_empty() {
        writeln!(out, "\n  slow in a few cycles only")?;
    }
    for i in analysis.interference.iter().take(10) {
        let f = &analysis.functions[i.function];
        let shown: Vec<String> = i.cycles.iter().take(8).map(u32::to_string).collect();
        let more = if i.cycles.len() > shown.len() {
            ", ..."
        } else {
            ""
        };
        writeln!(
            out,
            "    {}\n      by {} in {} {} cycles: {}{more}",
            name(&f.name, 74),
            time(i.excess_ns),
            i.cycles.len(),
            i.phase.name(),
            shown.join(", ")
        )?;
    }
    Ok(())
}

/// Hosts whose counters are beyond a limit.
fn unwell(out: &mut dyn Write, analysis: &Analysis) -> io::Result<()> {
    let whole = |i: &usize| analysis.cycles[*i].partial.is_none();
    let cycles: Vec<usize> = (0..analysis.cycles.len()).filter(whole).collect();
    let mut found: BTreeMap<(u8, &str, Option<String>), usize> = BTreeMap::new();
    for ailment in cycles.iter().flat_map(|&i| ailments(analysis, i)) {
        let issue = ailment.issue;
        let key = (issue.priority(), issue.name(), ailment.host);
        *found.entry(key).or_default() += 1;
    }
    if !found.is_empty() {
        writeln!(out, "\n  hosts by their counters")?;
    }
    for ((_, issue, host), count) in found {
        let host = host.map_or_else(String::new, |h| format!(" on {}", name(&h, 30)));
        writeln!(
            out,
            "    {issue:<17} in {count} of {} cycles{host}",
            cycles.len()
        )?;
    }
    Ok(())
}

/// A name that fits into so many columns.
pub(crate) fn name(text: &str, columns: usize) -> String {
    report::text::shorten(&report::text::printable(text), columns).into_owned()
}

/// What the engine's log says, in a few lines.
pub(crate) fn serving(s: &kunlun_reader::Serving) -> String {
    let known = |text: Option<&str>| text.unwrap_or("unknown").to_owned();
    let mut lines = format!(
        "\n  served by {}: {}, {}\n",
        known(s.framework),
        name(&known(s.model.as_deref()), 40),
        known(s.precision.as_deref()),
    );
    let sizes: Vec<String> = s.parallel.iter().map(|(k, n)| format!("{k} {n}")).collect();
    if !sizes.is_empty() {
        lines.push_str(&format!("    {}\n", sizes.join(", ")));
    }
    for (what, list) in [("batches", &s.batch_sizes), ("inputs", &s.input_lengths)] {
        if let (Some(least), Some(most)) = (list.iter().min(), list.iter().max()) {
            lines.push_str(&format!("    {} {what} of {least} to {most}\n", list.len()));
        }
    }
    lines
}
