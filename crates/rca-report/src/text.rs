//! The answer about a recording as text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use critical_path::Group;
use rca_cycles::health::ailments;
use rca_cycles::{Analysis, Bottleneck, Function, StepPaths, bottlenecks};
use report::human;
use report::text::wrapped;
use trace_model::kernel::display_names;

use crate::bound;
use crate::document::{blame, sums};

/// How long names may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// As they are, for programs and pages.
    Whole,
    /// Cut to the columns of a terminal.
    Cut,
}

impl Names {
    /// Returns a name that can be shown in this many columns.
    #[must_use]
    pub fn fit(self, text: &str, columns: usize) -> String {
        let plain = report::text::printable(text);
        match self {
            Self::Whole => plain.into_owned(),
            Self::Cut => report::text::shorten(&plain, columns).into_owned(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with four digits")]
pub(crate) fn time(ns: i64) -> String {
    human::duration(ns as f64)
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn share(part: i64, whole: i64) -> String {
    human::percent(part as f64 / (whole.max(1)) as f64 * 100.0)
}

/// Writes the answer about a recording.
///
/// # Errors
///
/// Those of `out`.
pub fn job(
    out: &mut dyn Write,
    (job, names): (&str, Names),
    analysis: &Analysis,
    paths: &StepPaths,
) -> io::Result<()> {
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
    // The line begins with "  cut at " and a blank.
    let room = 70_usize.saturating_sub(how.chars().count());
    writeln!(
        out,
        "{job}: {}{}\n  cut at {} {how}",
        match analysis.cycles.len() {
            1 => "1 cycle".to_owned(),
            n => format!("{n} cycles"),
        },
        if partial > 0 {
            format!(", {partial} of them partial")
        } else {
            String::new()
        },
        if analysis.anchor.is_empty() {
            "nothing".to_owned()
        } else {
            names.fit(&analysis.anchor, room.min(60))
        },
    )?;
    for b in bottlenecks(analysis, paths) {
        phase(out, names, analysis, &b)?;
    }
    unwell(out, names, analysis)?;
    costs(out, names, analysis)?;
    if !analysis.interference.is_empty() {
        writeln!(out, "\n  slow in a few cycles only")?;
    }
    let short = kernel_names(analysis);
    for i in analysis.interference.iter().take(10) {
        let f = &analysis.functions[i.function];
        let first = i.cycles.iter().take(8);
        let shown: Vec<String> = first.map(|c| (c + 1).to_string()).collect();
        let more = if i.cycles.len() > shown.len() {
            ", ..."
        } else {
            ""
        };
        writeln!(
            out,
            "    {}\n      by {} in {} {} cycles: {}{more}",
            names.fit(shown_name(&short, f), 74),
            time(i.excess_ns),
            i.cycles.len(),
            i.phase.name(),
            shown.join(", ")
        )?;
    }
    Ok(())
}

/// Writes the limit of the steps of a phase, and where their time goes.
fn phase(out: &mut dyn Write, names: Names, analysis: &Analysis, b: &Bottleneck) -> io::Result<()> {
    writeln!(out)?;
    for sentence in bound::sentences(names, analysis, b) {
        for (i, line) in wrapped(&sentence, 74).iter().enumerate() {
            writeln!(out, "  {}{line}", if i > 0 { "  " } else { "" })?;
        }
    }
    let [p50, p95, p99] = b.step_ns.map(time);
    let steps = if b.steps == 1 { "step" } else { "steps" };
    match b.steps {
        1 => writeln!(out, "    1 step of {p50}")?,
        n => writeln!(out, "    {n} {steps}: p50 {p50}, p95 {p95}, p99 {p99}")?,
    }
    if b.verdict.is_none() {
        return Ok(());
    }
    let total = b.budget.total();
    for group in Group::ALL {
        match b.budget.of(group) {
            0 => {}
            ns => writeln!(out, "    {:<22} {:>7}", group.words(), share(ns, total))?,
        }
    }
    Ok(())
}

/// Writes kernels by their share of the GPU time, and host functions by own time, separately: a
/// host that runs ahead works in one step for the next.
fn costs(out: &mut dyn Write, names: Names, analysis: &Analysis) -> io::Result<()> {
    let all = blame(analysis);
    let (kernels, host): (Vec<_>, Vec<_>) = all.into_iter().partition(|f| f.kind.is_device());
    let total: i64 = kernels.iter().map(|f| sums(analysis, f).0).sum();
    let short = kernel_names(analysis);
    if !kernels.is_empty() {
        writeln!(
            out,
            "\n  GPU time by kernel, of {} in whole steps",
            time(total)
        )?;
    }
    for f in kernels.iter().take(10) {
        let shown = shown_name(&short, f);
        let (own, _, calls, _, _) = sums(analysis, f);
        let kind = f.kind.name();
        writeln!(
            out,
            "  {:>8} {:>9} {calls:>7} x {}  {kind}",
            share(own, total),
            time(own),
            names.fit(shown, 45_usize.saturating_sub(kind.len())),
        )?;
    }
    let steps = analysis
        .cycles
        .iter()
        .filter(|c| c.partial.is_none())
        .count();
    let per_step = |ns: i64| ns / i64::try_from(steps.max(1)).unwrap_or(1);
    if !host.is_empty() {
        writeln!(out, "\n  own time of host functions per step, all threads")?;
    }
    for f in host.iter().take(10) {
        let (own, _, calls, _, _) = sums(analysis, f);
        let kind = f.kind.name();
        writeln!(
            out,
            "  {:>9} {calls:>8} x {}  {kind}",
            time(per_step(own)),
            names.fit(&f.name, 53_usize.saturating_sub(kind.len())),
        )?;
    }
    Ok(())
}

/// Writes the hosts whose counters exceed a limit.
fn unwell(out: &mut dyn Write, names: Names, analysis: &Analysis) -> io::Result<()> {
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
        let host = host.map_or_else(String::new, |h| format!(" on {}", names.fit(&h, 30)));
        writeln!(
            out,
            "    {issue:<17} in {count} of {} cycles{host}",
            cycles.len()
        )?;
    }
    Ok(())
}

/// Returns the short names of the GPU activity of a recording, as in all tools.
pub(crate) fn kernel_names(analysis: &Analysis) -> BTreeMap<&str, String> {
    let device = analysis.functions.iter().filter(|f| f.kind.is_device());
    display_names(device.map(|f| f.name.as_str()))
}

/// Returns the name of a function for text output.
pub(crate) fn shown_name<'f>(short: &'f BTreeMap<&str, String>, f: &'f Function) -> &'f str {
    let full = f.name.as_str();
    let of_kernel = short.get(full).filter(|_| f.kind.is_device());
    of_kernel.map_or(full, String::as_str)
}

/// Returns the data of the engine's log in a few lines.
#[must_use]
pub fn serving(names: Names, s: &serving_logs::Serving) -> String {
    let known = |text: Option<&str>| text.unwrap_or("unknown").to_owned();
    let mut lines = format!(
        "\n  served by {}: {}, {}\n",
        known(s.framework),
        names.fit(&known(s.model.as_deref()), 40),
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
