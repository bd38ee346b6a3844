//! Code of the host in words: a function, all of it, waits.

use super::work::how;
use super::{added, all_changed, from_to, of};
use crate::document::{Change, Evidence, Finding, Report, SlowCalls};
use crate::report_text::{label, short, time};
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
    if let Some(graphs) = graphs(report, better) {
        return format!("{graphs}, {}", added(report, None));
    }
    if let Some(synchronises) = synchronises(report, better) {
        return format!("{synchronises}{tail}");
    }
    let found = || all_changed(report, &["host", "on_cpu", "memory_call", "blocked"]);
    // A function of the program says more than the time of its threads on processors, if it is a good part of the change.
    let is_part = |f: &&Finding| f.explained_pct.is_none_or(|part| part.abs() >= 25.0);
    let of_program = all_changed(report, &["host"]).find(|f| !is_wait(&f.name) && is_part(f));
    if let Some(f) = of_program.or_else(|| found().find(|f| !is_wait(&f.name))) {
        let hidden = match report.verdict.on_critical_path {
            Some(false) if !better => ", hidden behind the work of the GPU",
            _ => "",
        };
        let what = match f.members {
            Some(n) => format!("The {n} host functions"),
            None => "Host function".to_owned(),
        };
        let are = times(f).replacen("is ", if f.members.is_some() { "are " } else { "is " }, 1);
        return format!("{what} {} {are}{hidden}{tail}", label(&f.name));
    }
    if let Some(f) = found().next() {
        let longer = if f.effect.delta > 0.0 {
            "longer"
        } else {
            "less"
        };
        return format!(
            "The host waits {longer} in {} ({} per cycle), for a lock, a thread or a process that was not recorded: record what it waits for{tail}",
            label(&f.name),
            from_to(f.effect.baseline, f.effect.candidate),
        );
    }
    if better {
        return format!("Host code takes less time{tail}");
    }
    if let (true, Some(row)) = (nothing_recorded(report), of(report, "device_idle_us")) {
        return format!(
            "The GPU is idle {} longer per cycle, and no function that was recorded on the host takes that time: code without its Python functions, a lock, or waiting for requests; record the Python functions of the engine to tell{tail}",
            time(row.effect.abs())
        );
    }
    format!("Host code takes longer, in no single function that was recorded{tail}")
}

/// Calls that wait for the GPU and that are new or more: it runs empty at each, which no function of the host takes.
fn synchronises(report: &Report, better: bool) -> Option<String> {
    /// Part of the change that a function of the program explains from which on it is named instead.
    const PART: f64 = 50.0;
    /// Least part of the GPU's work that waits for such a call must cover, of what a cycle takes longer.
    const LEAST: f64 = 0.1;
    if better || report.verdict.on_critical_path != Some(true) {
        return None;
    }
    let mut of_program = all_changed(report, &["host"]).filter(|f| !is_wait(&f.name));
    if of_program.any(|f| f.explained_pct.is_some_and(|part| part >= PART)) {
        return None;
    }
    let cycle = report.cycle_time.iter().find(|t| t.effect.delta > 0.0)?;
    let more = all_changed(report, &["sync"]).find(|f| {
        let often = f.change == Change::New || f.calls_ratio.is_some_and(|calls| calls >= 1.1);
        often && f.effect.delta >= LEAST * cycle.effect.delta
    })?;
    let how = match more.calls_ratio {
        Some(calls) if more.change != Change::New => {
            format!("is called {} times as often", short(calls))
        }
        _ => "is new".to_owned(),
    };
    Some(format!(
        "The host waits for the GPU more often: {} {how} ({} per cycle){}, and the GPU runs empty at each such call",
        label(&more.name),
        from_to(more.effect.baseline, more.effect.candidate),
        within(report, more),
    ))
}

/// The function that makes new calls which wait: one that is new, or called more often, by about as many calls.
fn within(report: &Report, waits: &Finding) -> String {
    let more = |f: &Finding| match (f.change, f.calls_ratio) {
        (Change::New, _) => true,
        (_, Some(calls)) => calls >= 1.1,
        _ => false,
    };
    let own = all_changed(report, &["host", "blocked"]).filter(|f| {
        let is_call = ["cuda", "hip", "cu"]
            .iter()
            .any(|api| f.name.starts_with(api));
        !is_call && f.name != waits.name && more(f) && f.role == waits.role
    });
    // What reads a value back is the reason rather than what happens to be new beside it.
    let reads = |f: &Finding| is_wait(&f.name);
    let most = own.max_by(|a, b| {
        let key = |f: &Finding| (reads(f), f.change == Change::New, f.bound);
        let (x, y) = (key(a), key(b));
        (x.0, x.1).cmp(&(y.0, y.1)).then(x.2.total_cmp(&y.2))
    });
    most.map_or(String::new(), |f| {
        let how = if f.change == Change::New {
            "new"
        } else {
            "called more often"
        };
        format!(" with {}, which is {how}", label(&f.name))
    })
}

/// Returns `true` if the host is blamed for time in which nothing of it was recorded.
pub(super) fn nothing_recorded(report: &Report) -> bool {
    /// Part of the change in recorded functions from which on they explain it.
    const PART: f64 = 50.0;
    let mut rows = report.counters.iter();
    let part = rows.find(|row| row.metric == "host_part_pct");
    let classes = ["host", "on_cpu", "memory_call", "blocked", "disk"];
    report.verdict.cause == "host_code"
        && report.verdict.direction == "worse"
        && report.verdict.on_critical_path == Some(true)
        && of(report, "device_idle_us").is_some()
        && part.is_none_or(|row| row.candidate < PART)
        && synchronises(report, false).is_none()
        && all_changed(report, &classes).next().is_none()
}

/// Calls that allocate or free memory, where nothing else shows that memory is short: which ones.
pub(super) fn allocates(report: &Report) -> Option<String> {
    const SHOWN: usize = 2;
    let mut evidence = report.verdict.evidence.iter();
    if !evidence.all(|row| row.metric.starts_with("memory_call") || row.metric == "cycle_us") {
        return None;
    }
    let calls: Vec<String> = all_changed(report, &["memory_call"])
        .take(SHOWN)
        .map(|f| format!("{} {}", label(&f.name), times(f)))
        .collect();
    (!calls.is_empty()).then(|| {
        format!(
            "Memory is allocated or freed more, which a cache of blocks that is too small does: {}",
            calls.join(", ")
        )
    })
}

/// Graphs that are launched no more, or again.
fn graphs(report: &Report, better: bool) -> Option<String> {
    named_graphs(report, better).or_else(|| unnamed_graphs(report, better))
}

/// Kernels that something else than calls for one kernel each launched, and no more, or again.
fn unnamed_graphs(report: &Report, better: bool) -> Option<String> {
    let (beyond, launches) = (
        of(report, "kernels_beyond_launches")?,
        of(report, "launch_calls")?,
    );
    let what = match better {
        false => "Kernels are launched one by one that were launched many at a time, as graphs are",
        true => "Kernels are launched many at a time, as graphs are, and no longer one by one",
    };
    let counts = |row: &Evidence| format!("{} -> {}", plain(row.baseline), plain(row.candidate));
    Some(format!(
        "{what}: {} calls that launch one kernel and {} kernels beyond them per cycle",
        counts(launches),
        counts(beyond)
    ))
}

/// Graphs that calls with their name launch.
fn named_graphs(report: &Report, better: bool) -> Option<String> {
    let (graphs, launches) = (of(report, "graph_launches")?, of(report, "launch_calls")?);
    let what = match better {
        false => "GPU graphs are launched no longer, and each kernel is launched by itself",
        true => "Kernels are launched as graphs and no longer one by one",
    };
    let counts = |row: &Evidence| format!("{} -> {}", plain(row.baseline), plain(row.candidate));
    Some(format!(
        "{what}: {} graph launches and {} other launch calls per cycle",
        counts(graphs),
        counts(launches)
    ))
}

/// A count without decimals where it has none.
fn plain(count: f64) -> String {
    match (count - count.round()).abs() < 1e-6 {
        true => format!("{count:.0}"),
        false => short(count),
    }
}

/// How the time of a function changed, with its times.
fn times(f: &Finding) -> String {
    let [before, after] = [f.effect.baseline, f.effect.candidate].map(time);
    match f.change {
        Change::New => format!("is new ({after} per cycle)"),
        Change::Gone => format!("is gone ({before} per cycle before)"),
        _ if f.slow_calls.is_some() => {
            let calls = f
                .slow_calls
                .as_ref()
                .map_or_else(String::new, SlowCalls::said);
            let times = from_to(f.effect.baseline, f.effect.candidate);
            format!("{} ({times} per cycle: {calls})", how(f))
        }
        _ => format!(
            "{} ({} per cycle)",
            how(f),
            from_to(f.effect.baseline, f.effect.candidate)
        ),
    }
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
