//! Work that is counted: launches, calls that wait for the GPU, copies.

use super::signal::{Signal, Stat};
use crate::side::{Capture, Class, Function};

/// All quantities of counted work.
pub(super) fn signals(sides: [&[&Capture]; 2], out: &mut Vec<Signal>) {
    copied(sides, out);
    launches(sides, out);
    synchronisations(sides, out);
}

/// Values of all cycles of both sides.
fn by_cycle(sides: [&[&Capture]; 2], value: impl Fn(&Capture, usize) -> f64) -> [Vec<f64>; 2] {
    sides.map(|captures| {
        let mut out = Vec::new();
        for capture in captures {
            out.extend((0..capture.cycles.len()).map(|at| value(capture, at)));
        }
        out
    })
}

/// Calls per cycle of the wanted functions, of the process with most: ranks launch and wait alike, and their sum is that of no step.
/// NaN where nothing was recorded.
fn calls(
    sides: [&[&Capture]; 2],
    wanted: impl Fn(&Function) -> bool,
    on_device: bool,
) -> [Vec<f64>; 2] {
    by_cycle(sides, |capture, at| {
        if !capture.is_on(at, on_device) {
            return f64::NAN;
        }
        let mut each = vec![0.0; capture.processes.len()];
        let own = capture.functions.iter();
        for f in own.filter(|f| f.class.on_device() == on_device && wanted(f)) {
            if let (Some(sum), false) = (each.get_mut(f.process), f.calls[at].is_nan()) {
                *sum += f.calls[at];
            }
        }
        each.into_iter().fold(0.0, f64::max)
    })
}

/// Calls per cycle that launch graphs, where a side launches any; that launch kernels; and kernels beyond these, which something
/// else launched, whatever it is called.
fn launches(sides: [&[&Capture]; 2], out: &mut Vec<Signal>) {
    let is_graph = |f: &Function| f.name.contains("GraphLaunch");
    let is_launch = |f: &Function| f.name.contains("LaunchKernel") && !is_graph(f);
    let is_kernel = |f: &Function| matches!(f.class, Class::Kernel | Class::Collective);
    // Where calls of the runtime were recorded, those that are missing were not made.
    let has_calls = |side: &[&Capture]| {
        let mut all = side.iter().flat_map(|c| &c.functions);
        all.any(|f| !f.class.on_device() && Class::is_of_runtime(&f.name))
    };
    let all = || sides.into_iter().flatten().flat_map(|c| &c.functions);
    let any_graph = all().any(|f| !f.class.on_device() && is_graph(f));
    let any_launch = all().any(|f| !f.class.on_device() && is_launch(f));
    let launches_alone = any_launch && sides.iter().all(|side| has_calls(side));
    if !(any_graph || launches_alone) {
        return;
    }
    let launched = calls(sides, is_launch, false);
    let beyond = [calls(sides, is_kernel, true), launched.clone()];
    let beyond = [0, 1].map(|side| {
        let pairs = beyond[0][side].iter().zip(&beyond[1][side]);
        pairs
            .map(|(kernels, calls)| (kernels - calls).max(0.0) + 0.0 * (kernels + calls))
            .collect()
    });
    let series = [
        ("launch_calls", Some(launched)),
        ("kernels_beyond_launches", Some(beyond)),
        (
            "graph_launches",
            any_graph.then(|| calls(sides, is_graph, false)),
        ),
    ];
    for (metric, values) in series {
        let signal = values.and_then(|values| Signal::series(metric, "Host", "per cycle", values));
        out.extend(signal);
    }
}

/// Calls per cycle that wait for the GPU, of the process with most of them. Queries return at once and are repeated while the GPU
/// works, so that they are no such calls.
fn synchronisations(sides: [&[&Capture]; 2], out: &mut Vec<Signal>) {
    let wanted = |f: &Function| f.class == Class::Sync && !f.name.contains("Query");
    let mut all = sides.into_iter().flatten().flat_map(|c| &c.functions);
    // Tables without counts do not tell.
    let counted = all.any(|f| wanted(f) && f.calls.iter().any(|calls| *calls > 0.0));
    let signal = Signal::series(
        "sync_calls",
        "Host",
        "per cycle",
        calls(sides, wanted, false),
    );
    out.extend(signal.filter(|_| counted));
}

/// Sum of what is known; NaN where nothing is.
fn known(values: &mut dyn Iterator<Item = f64>) -> f64 {
    values
        .filter(|value| !value.is_nan())
        .fold(
            f64::NAN,
            |sum, value| if sum.is_nan() { value } else { sum + value },
        )
}

/// What copies take and move in a cycle: time of the rank with most of it, bytes of all ranks.
fn copied(sides: [&[&Capture]; 2], out: &mut Vec<Signal>) {
    type Wanted = fn(&Function) -> bool;
    // A capture without copies made none while it was on.
    let none = |capture: &Capture, at: usize| match capture.is_on(at, true) {
        true => 0.0,
        false => f64::NAN,
    };
    let times: [(&str, Wanted); 2] = [
        ("copy_us", |f| {
            matches!(f.class, Class::CopyToDevice | Class::CopyToHost)
        }),
        ("copy_on_device_us", |f| f.class == Class::CopyOnDevice),
    ];
    for (metric, is_copy) in times {
        let copies = |capture: &&Capture| capture.functions.iter().any(is_copy);
        if !sides.into_iter().flatten().any(copies) {
            continue;
        }
        let time = |capture: &Capture, at: usize| {
            let of_process = |process: usize| {
                let own = capture.functions.iter();
                let own = own.filter(|f| f.process == process && is_copy(f));
                known(&mut own.map(|f| f.dur_us[at]))
            };
            match copies(&capture) {
                true => (0..capture.processes.len())
                    .map(of_process)
                    .fold(f64::NAN, f64::max),
                false => none(capture, at),
            }
        };
        let signal = Signal::series(metric, "GPU", "us per cycle", by_cycle(sides, time));
        out.extend(signal);
    }
    let mut more = Vec::new();
    for (metric, class) in [
        ("copy_to_device_bytes", Class::CopyToDevice),
        ("copy_to_host_bytes", Class::CopyToHost),
    ] {
        let is_seen = |capture: &&Capture| capture.functions.iter().any(|f| f.class == class);
        if !sides.into_iter().flatten().any(is_seen) {
            continue;
        }
        let bytes = |capture: &Capture, at: usize| {
            let own = capture.functions.iter().filter(|f| f.class == class);
            match is_seen(&capture) {
                true => known(&mut own.map(|f| f.bytes[at])),
                false => none(capture, at),
            }
        };
        let signal = Signal::series(metric, "GPU", "B per cycle", by_cycle(sides, bytes));
        more.extend(signal.as_ref().map(|signal| {
            let [before, after] = signal.typical(Stat::Mean);
            after - before
        }));
        out.extend(signal);
    }
    // As many bytes to the host as back from it are of blocks that are moved out and in.
    if let [there, back] = more[..] {
        let (least, most) = (there.min(back).max(0.0), there.max(back));
        let both = if most > 0.0 {
            least / most * 100.0
        } else {
            0.0
        };
        out.extend(Signal::point(
            "copies_both_ways_pct",
            "GPU",
            "% of the bytes",
            [0.0, both],
        ));
    }
}
