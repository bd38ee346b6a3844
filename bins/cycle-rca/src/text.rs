//! Results as text for people.

use std::io::{self, Write};

use rca_cycles::{Analysis, Phase};
use report::human;
use trace_model::Trace;

use crate::document::{blame, sums};

#[expect(clippy::cast_precision_loss, reason = "shown with four digits")]
fn time(ns: i64) -> String {
    human::duration(ns as f64)
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn share(part: i64, whole: i64) -> String {
    human::percent(part as f64 / (whole.max(1)) as f64 * 100.0)
}

pub(crate) fn job(
    out: &mut dyn Write,
    name: &str,
    trace: &Trace,
    analysis: &Analysis,
) -> io::Result<()> {
    let partial = analysis
        .cycles
        .iter()
        .filter(|c| c.partial.is_some())
        .count();
    writeln!(
        out,
        "{name}: {} cycles{} cut at {} ({}{})",
        analysis.cycles.len(),
        if partial > 0 {
            format!(", {partial} of them partial,")
        } else {
            String::new()
        },
        if analysis.anchor.is_empty() {
            "nothing"
        } else {
            &analysis.anchor
        },
        analysis
            .engine
            .as_deref()
            .map_or_else(String::new, |e| format!("{e}, ")),
        analysis.method.name(),
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
    let whole: i64 = analysis
        .cycles
        .iter()
        .filter(|c| c.partial.is_none())
        .map(rca_cycles::Cycle::length_ns)
        .sum();
    writeln!(out, "\n  own time by function (share of all cycles)")?;
    for f in blame(analysis).into_iter().take(15) {
        let (own, _, calls, _, longest) = sums(analysis, f);
        let at = longest.map_or_else(String::new, |id| {
            format!("longest at {} ns", trace.slice(id).ts().nanos())
        });
        writeln!(
            out,
            "    {:>7}  {:>10}  {calls:>8} x  {:<20} {}  {at}",
            share(own, whole),
            time(own),
            f.kind.name(),
            report::text::shorten(&report::text::printable(&f.name), 70),
        )?;
    }
    if !analysis.interference.is_empty() {
        writeln!(out, "\n  slow in a few cycles only")?;
    }
    for i in analysis.interference.iter().take(10) {
        let f = &analysis.functions[i.function];
        writeln!(
            out,
            "    {} by {} in {} of the {} cycles: {:?}",
            report::text::shorten(&report::text::printable(&f.name), 70),
            time(i.excess_ns),
            i.cycles.len(),
            i.phase.name(),
            i.cycles
        )?;
    }
    Ok(())
}
