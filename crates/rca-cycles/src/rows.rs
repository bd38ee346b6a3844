//! The default analysis in the reference's tables, so that what reads those reads these.

use trace_model::Trace;
use trace_model::kernel::{Activity, KernelClass, Vocabulary};

use crate::analysis::{Analysis, CounterSeries};
use crate::compat::metrics::FuncType;
use crate::compat::{CallTimes, CounterRow, CycleEvent, CycleRow, PerfRow, Report, text};
use crate::measure::{Cell, Function, Wait};
use crate::num::{mean_std, micros, span};
use crate::phase::{Phase, label};
use crate::timeline::Kind;

/// The tables of an analysis, one report for each phase that occurs. Partial cycles are left out.
///
/// Counters are those of the cycle, the same for every function of a device: levels in time, no
/// causes. Each is in the unit that it was recorded in, times 100 as all columns in percent are.
pub fn reports(trace: &Trace, analysis: &Analysis) -> Vec<Report> {
    let phases: Vec<Phase> = [Phase::Prefill, Phase::Decode, Phase::Mixed, Phase::Unknown]
        .into_iter()
        .filter(|p| whole(analysis).any(|(_, c)| c.phase == *p))
        .collect();
    let rows = perf_rows(trace, analysis);
    phases
        .iter()
        .map(|&phase| {
            let suffix = match phase {
                _ if phases.len() == 1 => "",
                Phase::Prefill => "_prefill",
                Phase::Decode => "_decode",
                Phase::Mixed => "_mixed",
                Phase::Unknown => "_unknown",
            };
            report(trace, analysis, phase, suffix, &rows)
        })
        .collect()
}

/// Fills in the events of all cycles; [`reports`] has only those of cycles that stand out.
pub fn add_events(trace: &Trace, analysis: &Analysis, reports: &mut [Report]) {
    for cycle in reports.iter_mut().flat_map(|r| &mut r.cycles) {
        let of = cycle.number.checked_sub(1);
        if let Some(c) = of.and_then(|i| analysis.cycles.get(i)) {
            cycle.events = events(trace, c.host_ns.0.min(c.start_ns), c.end_ns);
        }
    }
}

fn whole(analysis: &Analysis) -> impl Iterator<Item = (usize, &crate::Cycle)> {
    analysis
        .cycles
        .iter()
        .enumerate()
        .filter(|(_, c)| c.partial.is_none())
}

fn report(
    trace: &Trace,
    analysis: &Analysis,
    phase: Phase,
    suffix: &'static str,
    rows: &[Vec<PerfRow>],
) -> Report {
    let list: Vec<usize> = whole(analysis)
        .filter(|(_, c)| c.phase == phase)
        .map(|(i, _)| i)
        .collect();
    let lengths: Vec<f64> = list
        .iter()
        .map(|&i| span(analysis.cycles[i].length_ns()))
        .collect();
    let (mean, std) = mean_std(&lengths);
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by(|&a, &b| {
        let z = |i: usize| (lengths[i] - mean) / std.max(1.0);
        z(b).total_cmp(&z(a)).then(a.cmp(&b))
    });
    let mut representatives: Vec<usize> = order.iter().take(2).map(|&i| list[i] + 1).collect();
    representatives.sort_unstable();
    let named = |keep: &dyn Fn(usize) -> bool| -> Vec<(usize, &[PerfRow])> {
        let kept = list.iter().filter(|i| keep(**i + 1));
        kept.map(|&i| (i + 1, rows[i].as_slice())).collect()
    };
    let title = match phase {
        Phase::Prefill => "Prefill",
        Phase::Decode => "Decode",
        Phase::Mixed => "Mixed",
        Phase::Unknown => "All Phases",
    };
    let cycles = list
        .iter()
        .map(|&i| {
            let c = &analysis.cycles[i];
            let chosen = representatives.contains(&(i + 1));
            CycleRow {
                number: i + 1,
                start_us: micros(c.start_ns),
                end_us: micros(c.end_ns),
                phase: match phase {
                    Phase::Prefill => crate::compat::Phase::Prefill,
                    Phase::Decode => crate::compat::Phase::Decode,
                    _ => crate::compat::Phase::Generic,
                },
                anchor: analysis.anchor.clone(),
                delayed: false,
                diagnosis: None,
                events: if chosen {
                    events(trace, c.host_ns.0.min(c.start_ns), c.end_ns)
                } else {
                    Vec::new()
                },
                virtuals: Vec::new(),
            }
        })
        .collect();
    Report {
        suffix,
        cycles,
        rows: list.iter().flat_map(|&i| rows[i].iter().cloned()).collect(),
        counters: counters(trace, analysis, &list),
        text: text::report(
            &format!("Per-Cycle Performance Report ({title})"),
            &named(&|_| true),
        ),
        representative_text: Some(text::report(
            &format!("Per-Cycle Performance Report ({title} Representative Cycles)"),
            &named(&|n| representatives.contains(&n)),
        )),
        representatives,
    }
}

fn events(trace: &Trace, start: i64, end: i64) -> Vec<CycleEvent> {
    let range = trace_model::TimeRange::new(
        trace_model::Timestamp::from_nanos(start),
        trace_model::Timestamp::from_nanos(end),
    );
    trace
        .starting_in(range)
        .map(|s| {
            let r = s.range();
            CycleEvent {
                slice: s.id(),
                ts_us: micros(r.start.nanos()),
                dur_us: micros(r.duration().get()),
                cut: false,
            }
        })
        .collect()
}

fn counters(trace: &Trace, analysis: &Analysis, list: &[usize]) -> Vec<CounterRow> {
    let origins = crate::Origins::new(trace, false);
    let mut rows = Vec::new();
    let windows: Vec<(i64, i64)> = list
        .iter()
        .map(|&i| (analysis.cycles[i].start_ns, analysis.cycles[i].end_ns))
        .collect();
    for sample in trace.counters().iter() {
        let at = sample.ts.nanos();
        let next = windows.partition_point(|w| w.0 <= at);
        if next.checked_sub(1).is_none_or(|i| at >= windows[i].1) {
            continue;
        }
        let full = trace.track(sample.track).name.map_or("", |n| trace.text(n));
        let name = full.strip_suffix(" value").unwrap_or(full);
        let origin = origins.of(sample.track);
        let (_, instance) = crate::timeline::identity(name, &origin.tid);
        rows.push(CounterRow {
            name: name.to_owned(),
            ts_us: micros(at),
            value: sample.value,
            hostname: origin.host.clone().unwrap_or_default(),
            instance,
        });
    }
    rows.sort_by(|a, b| {
        (a.name.as_str(), a.instance)
            .cmp(&(b.name.as_str(), b.instance))
            .then(a.ts_us.total_cmp(&b.ts_us))
    });
    rows
}

fn func_type(function: &Function) -> (&'static str, Option<FuncType>) {
    let known = match function.kind {
        Kind::Compute => FuncType::GpuCompute,
        Kind::Communication => FuncType::GpuComm,
        Kind::Copy if function.name.contains("DtoH") => FuncType::MemcpyD2h,
        Kind::Copy if function.name.contains("DtoD") => FuncType::MemcpyD2d,
        Kind::Copy => FuncType::MemcpyH2d,
        Kind::OnCpu => FuncType::OnCpu,
        Kind::RunQueue => FuncType::RunQ,
        Kind::SyscallMemory => FuncType::SyscallMem,
        Kind::Disk => FuncType::Disk,
        Kind::Sync => FuncType::CpuSync,
        other => {
            let name = function.waits.map_or(other.name(), Wait::name);
            return (name, None);
        }
    };
    (known.name(), Some(known))
}

/// What the step of a cycle is called: by its own name where that states its phase or its batch.
fn anchor_of(trace: &Trace, vocabulary: &Vocabulary, analysis: &Analysis, cycle: usize) -> String {
    let own = analysis.cycles[cycle].anchor.and_then(|id| {
        let slice = trace.slice(id);
        let (category, name) = (slice.category().unwrap_or(""), slice.name()?);
        let is_marked = vocabulary.activity(category, name) == Activity::UserAnnotation;
        is_marked.then(|| label(name)).flatten()
    });
    own.unwrap_or_else(|| analysis.anchor.clone())
}

/// Rows of every cycle, those of largest share first.
fn perf_rows(trace: &Trace, analysis: &Analysis) -> Vec<Vec<PerfRow>> {
    let vocabulary = Vocabulary::of(trace);
    let anchors: Vec<String> = (0..analysis.cycles.len())
        .map(|i| anchor_of(trace, &vocabulary, analysis, i))
        .collect();
    let mut rows: Vec<Vec<PerfRow>> = vec![Vec::new(); analysis.cycles.len()];
    let ranks = crate::compare::ranks(analysis);
    for function in &analysis.functions {
        let (type_name, known) = func_type(function);
        let physical = function
            .kind
            .is_device()
            .then(|| analysis.physical_device(function.process, function.device))
            .flatten();
        // Without a topology, devices are taken to be in the order of the processes.
        let rank = ranks.iter().position(|&r| r == function.process);
        let device = physical.unwrap_or(match rank {
            Some(rank) if function.device == 0 => i64::try_from(rank).unwrap_or(0),
            _ => function.device,
        });
        let simple = crate::compat::simple_name(&function.name);
        for cell in &function.cells {
            let Some(list) = rows.get_mut(cell.cycle as usize) else {
                continue;
            };
            let shown = physical.unwrap_or(function.device);
            let mut row = row(analysis, function, (cell, shown), type_name, &simple);
            row.anchor_name.clone_from(&anchors[cell.cycle as usize]);
            row.device_us = analysis
                .device_times
                .iter()
                .find(|times| times.process == function.process)
                .and_then(|times| times.by_cycle_ns.get(cell.cycle as usize))
                .map(|&(busy, exposed)| (micros(busy), micros(exposed)));
            let levels =
                known.map_or_else(Vec::new, |k| levels(analysis, (function, device), cell, k));
            if levels.is_empty() {
                list.push(row);
                continue;
            }
            for (name, mu, age) in levels {
                list.push(PerfRow {
                    metric: Some((name, mu, 0.0)),
                    // Interpolated values are never passed off as observed.
                    interpolation: if age > 0 { "**" } else { " " },
                    ..row.clone()
                });
            }
        }
    }
    for list in &mut rows {
        list.sort_by(|a, b| {
            a.pid
                .cmp(&b.pid)
                .then(b.beta_pct.total_cmp(&a.beta_pct))
                .then_with(|| a.function_name.cmp(&b.function_name))
                .then_with(|| a.device.cmp(&b.device))
                .then_with(|| a.metric.map(|m| m.0).cmp(&b.metric.map(|m| m.0)))
        });
    }
    rows
}

fn row(
    analysis: &Analysis,
    function: &Function,
    (cell, device): (&Cell, i64),
    func_type: &'static str,
    simple: &str,
) -> PerfRow {
    let cycle = &analysis.cycles[cell.cycle as usize];
    let member = &analysis.members[function.process as usize];
    let length = span(cycle.length_ns().max(1));
    PerfRow {
        cycle: cell.cycle as usize + 1,
        pid: member.pid,
        hostname: member.host.clone().unwrap_or_default(),
        beta_pct: span(cell.self_ns) / length * 100.0,
        function_name: function.name.clone(),
        metric: None,
        device: if function.kind.is_device() {
            format!("GPU {device}")
        } else {
            "Host".to_owned()
        },
        func_type,
        duration_us: micros(cell.self_ns),
        interpolation: " ",
        anchor_name: String::new(),
        anchor_dur_us: micros(cycle.length_ns()),
        cycle_start_us: micros(cycle.start_ns),
        instances: cell.calls as usize,
        simple_name: simple.to_owned(),
        copy_bytes: (cell.bytes > 0).then_some(cell.bytes),
        kernel_class: function.class.map_or("", KernelClass::name),
        device_us: None,
        calls: call_times(cell),
    }
}

/// Times of the calls, if there are several.
fn call_times(cell: &Cell) -> Option<CallTimes> {
    (cell.calls > 1).then(|| CallTimes {
        shortest_us: micros(cell.shortest_ns),
        longest_us: micros(cell.longest_ns),
        longest: cell.longest_call + 1,
    })
}

/// The counters that speak of a function, with their level in the cycle and its age.
fn levels(
    analysis: &Analysis,
    (function, device): (&Function, i64),
    cell: &Cell,
    known: FuncType,
) -> Vec<(&'static str, f64, i64)> {
    let member = &analysis.members[function.process as usize];
    let mut found = Vec::new();
    for &base in known.counters() {
        let wanted = |c: &&CounterSeries| {
            let instance = if base.starts_with("process_") {
                member.pid
            } else if known.is_gpu() && function.device >= 0 {
                device
            } else {
                c.instance
            };
            c.name == base
                && (c.instance == instance || c.instance == -1)
                && (c.host.is_none() || member.host.is_none() || c.host == member.host)
        };
        if let Some(c) = analysis.counters.iter().find(wanted) {
            let i = cell.cycle as usize;
            let share = ["usage", "rate", "util", "occupancy"]
                .iter()
                .any(|w| base.contains(w));
            let by = if share { 1.0 } else { 100.0 };
            found.push((base, c.by_cycle[i] * by, c.sample_age_ns[i]));
        }
    }
    found.sort_by_key(|f| f.0);
    found
}
