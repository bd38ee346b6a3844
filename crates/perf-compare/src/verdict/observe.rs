//! Everything measured, as signals.

use std::collections::{BTreeMap, BTreeSet};

use super::signal::{Signal, Stat};
use super::{host, kernels, ranks};
use crate::document::Role;
use crate::side::{Capture, Class, DeviceCounter, Function, Side, Work};

/// Maximum number of spans of time that samples of counters are averaged over.
const SPANS: usize = 16;

/// Samples of a counter on a side from which on their dependence in time is reckoned with.
const IN_TIME: usize = 20;

/// Places of processes in the captures of a side, as roles.
pub(crate) fn roles_by_place(
    captures: &[&Capture],
    roles: &[Role],
    side: usize,
) -> Vec<Option<usize>> {
    captures.first().map_or(Vec::new(), |first| {
        (0..first.processes.len())
            .map(|at| roles.iter().position(|role| role.places[side] == at))
            .collect()
    })
}

/// All signals of two sides of captures. `comparable` says whether cycles mean the same on both, `by_run` that runs are
/// the observations: cycles of one run resemble each other more than those of two runs of the same condition.
pub(crate) fn observe(
    sides: [&[&Capture]; 2],
    roles: &[Role],
    comparable: bool,
    by_run: bool,
) -> Vec<Signal> {
    let mut signals = observe_cycles(sides, roles, comparable);
    if !by_run {
        return signals;
    }
    let by_run: [Vec<Vec<Signal>>; 2] = [0, 1].map(|side| {
        sides[side]
            .iter()
            .map(|run| {
                let mut alone = sides;
                alone[side] = std::slice::from_ref(run);
                observe_cycles(alone, roles, comparable)
            })
            .collect()
    });
    for signal in &mut signals {
        let same = |other: &&Signal| {
            (&other.metric, &other.device, other.unit)
                == (&signal.metric, &signal.device, signal.unit)
        };
        let runs = [0, 1].map(|side| -> Vec<Signal> {
            let all = by_run[side].iter();
            all.filter_map(|run| run.iter().find(same).cloned())
                .collect()
        });
        if !signal.point {
            signal.reduce(&runs);
        }
    }
    signals
}

fn observe_cycles(sides: [&[&Capture]; 2], roles: &[Role], comparable: bool) -> Vec<Signal> {
    let mut out = Vec::new();
    counters(sides, &mut out);
    device_counters(sides, roles, &mut out);
    for signal in &mut out {
        signal.is_counter = true;
    }
    classes(sides, comparable, &mut out);
    kernels::signals(sides, roles, comparable, &mut out);
    ranks::signals(sides, roles, comparable, &mut out);
    if comparable {
        super::counted::signals(sides, &mut out);
        cycles(sides, &mut out);
        super::stalls::signals(sides, roles, &mut out);
        host::signals(sides, roles, &mut out);
    }
    // What steps did is known, not measured.
    let measured = |signal: &&mut Signal| {
        // Of few samples of a counter, how much neighbours resemble each other cannot be told.
        let tells = |side: &Vec<f64>| !signal.is_counter || side.len() >= IN_TIME;
        !signal.metric.starts_with("step_") && signal.values.iter().all(tells)
    };
    for signal in out.iter_mut().filter(measured) {
        signal.follow_in_time();
    }
    out.sort_by(|a, b| (&a.metric, &a.device).cmp(&(&b.metric, &b.device)));
    out
}

/// Metrics of tables of samples, under their own names.
pub(crate) fn observe_samples(a: &Side, b: &Side) -> Vec<Signal> {
    a.series
        .iter()
        .filter_map(|x| {
            let y = b
                .series
                .iter()
                .find(|y| y.metric == x.metric && y.group == x.group && y.unit == x.unit)?;
            Signal::series(&x.metric, "all", "", [x.runs.concat(), y.runs.concat()])
        })
        .collect()
}

/// The unit of a counter in its own file.
fn unit(metric: &str) -> &'static str {
    match metric {
        _ if metric.contains("frequency") => "MHz",
        _ if metric.contains("link_") || metric.contains("pcie_") || metric.ends_with("_rate") => {
            "B/s"
        }
        "gpu_sm_util" | "gpu_sm_occupancy" => "%",
        _ if metric.contains("usage") && !metric.ends_with("gpu_mem_usage") => "%",
        "host_mem_available" | "host_mem_free" | "host_mem_buffer" | "host_mem_cache" => "kB",
        _ if metric.contains("temp") => "°C",
        _ if metric.contains("power") => "W",
        _ => "B",
    }
}

/// Counters from their own files: the only real samples.
fn counters(sides: [&[&Capture]; 2], out: &mut Vec<Signal>) {
    let series = sides.map(|captures| {
        let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for capture in captures {
            for (name, values) in capture.counters.binned(SPANS) {
                all.entry(name.to_owned()).or_default().extend(values);
            }
        }
        all
    });
    for (name, one) in &series[0] {
        if let Some(two) = series[1].get(name) {
            let device = if is_device_counter(name) {
                "all GPUs"
            } else {
                "Host"
            };
            out.extend(Signal::series(
                name,
                device,
                unit(name),
                in_percent(name, [one.clone(), two.clone()]),
            ));
        }
    }
}

/// Some recorders give the use of multiprocessors as a fraction, others in percent.
fn in_percent(metric: &str, mut sides: [Vec<f64>; 2]) -> [Vec<f64>; 2] {
    let fractions = || sides.iter().flatten().all(|value| *value <= 1.0);
    if matches!(metric, "gpu_sm_util" | "gpu_sm_occupancy") && fractions() {
        for value in sides.iter_mut().flatten() {
            *value *= 100.0;
        }
    }
    sides
}

/// Whether the samples of several devices are mixed under this name in the counters file.
fn is_device_counter(name: &str) -> bool {
    ["gpu_", "container_gpu_", "process_gpu_"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// A value of the rows in native units: the recorder multiplies by 100, divides utilisations by 100 before that, and with a
/// topology gives some metrics as a percentage of the capacity.
pub(crate) fn native(metric: &str, value: f64) -> (f64, &'static str) {
    let share = ["usage", "rate", "util", "occupancy"]
        .iter()
        .any(|part| metric.contains(part));
    match metric {
        "cpu_frequency" if value <= 150.0 => (value, "% of maximum"),
        "gpu_mem_used" | "process_mem_usage" if value <= 150.0 => (value, "%"),
        "gpu_mem_used" => (value / 100.0, "B"),
        _ if share => (value, unit(metric)),
        _ => (value / 100.0, unit(metric)),
    }
}

/// The values of a counter that count as observations of their own: those of cycles into which a sample fell, or, where that says
/// less, those that are half a second apart. Recorders sample once a second and interpolate between, so that the cycles of one
/// second have one value among them.
fn observations(capture: &Capture, counter: &DeviceCounter) -> Vec<f64> {
    const APART_US: f64 = 5e5;
    let known = || {
        counter
            .values
            .iter()
            .enumerate()
            .filter(|(_, v)| !v.is_nan())
    };
    let is_sampled = |at: usize| counter.sampled.get(at).copied().unwrap_or(false);
    let sampled = known().filter(|(at, _)| is_sampled(*at));
    let sampled: Vec<f64> = sampled.map(|(_, v)| *v).collect();
    let (mut apart, mut now, mut last) = (Vec::new(), 0.0, f64::NEG_INFINITY);
    for (cycle, value) in capture.cycles.iter().zip(&counter.values) {
        if !value.is_nan() && now - last >= APART_US {
            apart.push(*value);
            last = now;
        }
        now += cycle.dur_us;
    }
    if sampled.len() >= apart.len() {
        sampled
    } else {
        apart
    }
}

/// Counters that rows carry, by role: the file of samples does not say which device a sample is of.
fn device_counters(sides: [&[&Capture]; 2], roles: &[Role], out: &mut Vec<Signal>) {
    let from_files: BTreeSet<String> = out.iter().map(|s| s.metric.clone()).collect();
    type Found = BTreeMap<(String, usize, bool, &'static str), Vec<f64>>;
    let found: [Found; 2] = [0, 1].map(|side| {
        let places = roles_by_place(sides[side], roles, side);
        let mut found = Found::new();
        for capture in sides[side] {
            for counter in &capture.device_counters {
                let Some(role) = places.get(counter.process).copied().flatten() else {
                    continue;
                };
                let host = !counter.device.starts_with("GPU");
                for value in observations(capture, counter) {
                    let (value, unit) = native(&counter.metric, value);
                    found
                        .entry((counter.metric.clone(), role, host, unit))
                        .or_default()
                        .push(value);
                }
            }
        }
        found
    });
    for (key, one) in &found[0] {
        let (metric, role, host, unit) = key;
        let Some(two) = found[1].get(key) else {
            continue;
        };
        if *host && from_files.contains(metric) {
            continue;
        }
        let device = if *host {
            "Host".to_owned()
        } else {
            roles.get(*role).map_or(String::new(), |r| r.device(1))
        };
        out.extend(Signal::series(
            metric,
            &device,
            unit,
            in_percent(metric, [one.clone(), two.clone()]),
        ));
    }
    // What others do on the same device.
    for (role, entry) in roles.iter().enumerate() {
        let of = |side: usize, metric: &str| {
            let own = found[side].get(&(metric.to_owned(), role, false, "%"));
            own.map(|v| crate::stats::median(v)).or_else(|| {
                // What is known of all GPUs is known of the only one.
                let all = out
                    .iter()
                    .find(|s| s.metric == metric && s.device == "all GPUs");
                let all = all.filter(|s| roles.len() == 1 && s.unit == "%");
                all.map(|s| s.typical(Stat::Median)[side])
            })
        };
        let others = [0, 1]
            .map(|side| Some((of(side, "gpu_usage")? - of(side, "process_gpu_usage")?).max(0.0)));
        if let [Some(one), Some(two)] = others {
            out.extend(Signal::point(
                "gpu_usage_of_others",
                &entry.device(1),
                "%",
                [one, two],
            ));
        }
    }
}

/// Time by kind of work, per time of the cycle and per call: valid also for cycles of another length.
fn classes(sides: [&[&Capture]; 2], comparable: bool, out: &mut Vec<Signal>) {
    let is_seen = |class: Class| {
        let mut all = sides.into_iter().flatten().flat_map(|c| &c.functions);
        all.any(|f| f.class == class)
    };
    // Memory calls of the runtime alone are recorded with its other calls.
    let of_runtime = {
        let all = sides.into_iter().flatten().flat_map(|c| &c.functions);
        let mut memory = all.filter(|f| f.class == Class::MemoryCall);
        memory.all(|f| Class::is_of_runtime(&f.name))
    };
    let by_cycle = |side: usize, class: Class, what: fn(f64, f64, f64) -> f64| -> Vec<f64> {
        let mut values = Vec::new();
        for capture in sides[side] {
            let members: Vec<_> = capture
                .functions
                .iter()
                .filter(|f| f.class == class)
                .collect();
            for (at, cycle) in capture.cycles.iter().enumerate() {
                let sum = |pick: fn(&Function, usize) -> f64| {
                    members
                        .iter()
                        .map(|f| pick(f, at))
                        .filter(|x| !x.is_nan())
                        .sum::<f64>()
                };
                // A kind of work that a side never does takes no time there.
                let seen = members.iter().any(|f| !f.dur_us[at].is_nan())
                    || (members.is_empty()
                        && (class.is_recorded_with_others()
                            || (class == Class::MemoryCall && of_runtime))
                        && capture.is_on(at, class.on_device()));
                let (dur, calls) = (sum(|f, at| f.dur_us[at]), sum(|f, at| f.calls[at]));
                values.push(if seen {
                    what(dur, calls, cycle.dur_us)
                } else {
                    f64::NAN
                });
            }
        }
        values
    };
    let share = |dur: f64, _: f64, cycle: f64| dur / cycle * 100.0;
    let per_call = |dur: f64, calls: f64, _: f64| dur / calls;
    let mut add = |metric: &str, device: &str, unit, class, what: fn(f64, f64, f64) -> f64| {
        if !is_seen(class) {
            return;
        }
        out.extend(Signal::series(
            metric,
            device,
            unit,
            [by_cycle(0, class, what), by_cycle(1, class, what)],
        ));
    };
    add("on_cpu_pct", "Host", "% of cycle", Class::OnCpu, share);
    add(
        "run_queue_pct",
        "Host",
        "% of cycle",
        Class::RunQueue,
        share,
    );
    add(
        "run_queue_us_per_call",
        "Host",
        "us",
        Class::RunQueue,
        per_call,
    );
    add("disk_pct", "Host", "% of cycle", Class::Disk, share);
    add("disk_us_per_call", "Host", "us", Class::Disk, per_call);
    add(
        "memory_call_pct",
        "Host",
        "% of cycle",
        Class::MemoryCall,
        share,
    );
    add(
        "memory_call_us_per_call",
        "Host",
        "us",
        Class::MemoryCall,
        per_call,
    );
    add("sync_pct", "Host", "% of cycle", Class::Sync, share);
    add(
        "copy_to_device_us_per_call",
        "GPU",
        "us",
        Class::CopyToDevice,
        per_call,
    );
    add(
        "copy_to_host_us_per_call",
        "GPU",
        "us",
        Class::CopyToHost,
        per_call,
    );
    add(
        "copy_on_device_us_per_call",
        "GPU",
        "us",
        Class::CopyOnDevice,
        per_call,
    );
    add(
        "collective_pct",
        "all ranks",
        "% of cycle, all ranks",
        Class::Collective,
        share,
    );
    if comparable {
        let time = |dur: f64, _: f64, _: f64| dur;
        add("on_cpu_us", "Host", "us per cycle", Class::OnCpu, time);
        add("kernel_us", "GPU", "us per cycle", Class::Kernel, time);
        let calls = |_: f64, calls: f64, _: f64| calls;
        add(
            "copies_to_device",
            "GPU",
            "per cycle",
            Class::CopyToDevice,
            calls,
        );
        add(
            "copies_to_host",
            "GPU",
            "per cycle",
            Class::CopyToHost,
            calls,
        );
        add(
            "copies_on_device",
            "GPU",
            "per cycle",
            Class::CopyOnDevice,
            calls,
        );
        add(
            "collective_us",
            "all ranks",
            "us per cycle, all ranks",
            Class::Collective,
            time,
        );
    }
}

/// The cycles that capture saw whole, if they are enough; else all.
fn whole(capture: &Capture) -> std::ops::Range<usize> {
    let (from, to) = capture.whole;
    if to - from < 5 {
        0..capture.cycles.len()
    } else {
        from..to
    }
}

/// Cycle time, and the part of it in which no kernel can have run.
fn cycles(sides: [&[&Capture]; 2], out: &mut Vec<Signal>) {
    let lengths = sides.map(|captures| {
        captures
            .iter()
            .flat_map(|c| whole(c).map(|at| c.cycles[at].dur_us))
            .collect::<Vec<f64>>()
    });
    out.extend(Signal::series("cycle_us", "all", "us", lengths));
    work(sides, out);
    exposed(sides, out);
    let device = |captures: &&[&Capture]| {
        let mut all = captures.iter().flat_map(|c| &c.functions);
        all.any(|f| f.class.on_device())
    };
    if !sides.iter().all(device) {
        return;
    }
    let idle = sides.map(|captures| {
        let mut values = Vec::new();
        for capture in captures {
            for at in whole(capture) {
                let cycle = &capture.cycles[at];
                let busiest = (0..capture.processes.len())
                    .map(|process| busy(capture, process, at))
                    .fold(0.0, f64::max);
                values.push((cycle.dur_us - cycle.apart_us - busiest).max(0.0));
            }
        }
        values
    });
    out.extend(Signal::series(
        "device_idle_us",
        "all",
        "us per cycle",
        idle,
    ));
}

/// How long the devices of a process worked in a cycle: as the table states it, else the sum of all their work, which is more
/// where streams worked at once.
fn busy(capture: &Capture, process: usize, at: usize) -> f64 {
    let stated = capture.device_times.get(process);
    let stated = stated.and_then(|times| times.busy_us.get(at).copied());
    stated.filter(|us| !us.is_nan()).unwrap_or_else(|| {
        let own = capture
            .functions
            .iter()
            .filter(|f| f.process == process && f.class.on_device() && !f.dur_us[at].is_nan());
        own.map(|f| f.dur_us[at]).sum()
    })
}

/// Communication that nothing else ran beside, of the rank that has least of it: the others wait for one that is late. And how
/// much of the time in collectives that leaves beside other work.
fn exposed(sides: [&[&Capture]; 2], out: &mut Vec<Signal>) {
    let mut series = [(); 2].map(|()| [Vec::new(), Vec::new()]);
    for (side, captures) in sides.into_iter().enumerate() {
        for capture in captures {
            for at in whole(capture) {
                let of = |process: usize| {
                    let exposed = *capture.device_times.get(process)?.exposed_us.get(at)?;
                    let own = capture.functions.iter();
                    let own = own.filter(|f| f.process == process && f.class == Class::Collective);
                    let all = own
                        .map(|f| f.dur_us[at])
                        .filter(|us| !us.is_nan())
                        .sum::<f64>();
                    (!exposed.is_nan() && all > 0.0).then_some((exposed, all))
                };
                let least = (0..capture.processes.len()).filter_map(of);
                let least = least.min_by(|a, b| a.0.total_cmp(&b.0));
                let (us, beside) = least.map_or((f64::NAN, f64::NAN), |(exposed, all)| {
                    (exposed, (1.0 - exposed / all).max(0.0) * 100.0)
                });
                series[0][side].push(us);
                series[1][side].push(beside);
            }
        }
    }
    let [us, beside] = series;
    let place = "the rank that waits least";
    out.extend(Signal::series("exposed_comm_us", place, "us per cycle", us));
    let unit = "% of collectives";
    out.extend(Signal::series("comm_beside_work_pct", place, unit, beside));
}

/// What steps did, as their names have it.
fn work(sides: [&[&Capture]; 2], out: &mut Vec<Signal>) {
    let known = |side: usize| {
        let cycles = sides[side].iter().flat_map(|c| &c.cycles);
        cycles.filter_map(|cycle| cycle.work.as_ref())
    };
    let names: BTreeSet<&'static str> = known(0)
        .chain(known(1))
        .flat_map(Work::keys)
        .copied()
        .collect();
    for name in names {
        let values = [0, 1].map(|side| known(side).filter_map(|w| w.get(name).copied()).collect());
        let metric = format!("step_{}", name.replace(' ', "_"));
        out.extend(Signal::series(&metric, "all", "per step", values));
    }
}
