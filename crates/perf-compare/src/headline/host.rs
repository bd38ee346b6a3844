//! Code of the host in words: a function, all of it, waits.

use super::work::how;
use super::{added, all_changed, from_to, of};
use crate::document::{Finding, Report};
use crate::report_text::label;
use crate::side::is_wait;

/// Part of the host's functions that have to be slower alike for all of its code to be.
const WHOLE: f64 = 60.0;

/// By how many percent all code of the host is slower (or was, where it is better), if most of it changed alike.
pub(super) fn whole_host(report: &Report) -> Option<f64> {
    let row = |metric: &str| report.counters.iter().find(|row| row.metric == metric);
    if report.verdict.cause != "host_code" || report.verdict.direction != "worse" {
        return None;
    }
    row("host_alike_functions_pct").filter(|row| row.candidate >= WHOLE)?;
    let slower = row("host_time_pct")?.candidate - 100.0;
    (slower >= 5.0).then_some(slower)
}

/// The function of the host that takes longer. One that waits is named as such: the time is that of something else.
pub(super) fn host(report: &Report, better: bool, tail: &str) -> String {
    if let Some(slower) = whole_host(report) {
        return format!(
            "All host code slower by {slower:.1} %, no function alone: CPU clock, contention or the interpreter; record CPU clocks to tell, {}",
            added(report, None)
        );
    }
    let found = || all_changed(report, &["host", "on_cpu", "memory_call"]);
    // A function of the program says more than the time of its threads on processors, if it is a good part of the change.
    let is_part = |f: &&Finding| f.explained_pct.is_none_or(|part| part.abs() >= 25.0);
    let of_program = all_changed(report, &["host"]).find(|f| !is_wait(&f.name) && is_part(f));
    if let Some(f) = of_program.or_else(|| found().find(|f| !is_wait(&f.name))) {
        let hidden = match report.verdict.on_critical_path {
            Some(false) if !better => ", hidden behind the work of the GPU",
            _ => "",
        };
        return format!(
            "Host function {} {}{hidden} ({}), {}",
            label(&f.name),
            how(f),
            from_to(f.effect.baseline, f.effect.candidate),
            added(report, Some(f))
        );
    }
    if let Some(f) = found().next() {
        let longer = if f.effect.delta > 0.0 {
            "longer"
        } else {
            "less"
        };
        return format!(
            "The host waits {longer} in {} ({}) for work that was not recorded: record the process it waits for; {}",
            label(&f.name),
            from_to(f.effect.baseline, f.effect.candidate),
            added(report, Some(f))
        );
    }
    if better {
        return format!("Host code takes less time{tail}");
    }
    format!("Host code takes longer, in no single function that was recorded{tail}")
}

/// What the engine waits for longer.
pub(super) fn input(report: &Report, better: bool) -> String {
    let row = of(report, "input_wait_us");
    let name = row.map_or("", |row| row.device.trim_start_matches("Host: "));
    let times = row.map_or(String::new(), |row| from_to(row.baseline, row.candidate));
    let words = if better {
        "The engine waits for input no longer"
    } else {
        "The engine waits for input, it is not slow"
    };
    format!(
        "{words}: {} {times}, {}; look at the load and at what feeds it",
        label(name),
        added(report, None)
    )
}
