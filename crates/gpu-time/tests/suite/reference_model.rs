//! Compares every interval computation with a reference model that visits one instant after the
//! other.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use byte_source::Source;
use gpu_time::{
    GpuTime, GpuWork, IdleScope, KernelOptions, KernelsBy, LaunchKind, PlaceKind, Roles, Rules,
    Split, Step, StepRule, gpu_time, idle, idle_parts, kernels, launch_parts, launches, split,
};
use perfetto_reader::ReadOptions;
use proptest::prelude::*;
use trace_model::{TimeRange, Timestamp, Trace};

/// Number of instants visited.
const WIDTH: usize = 90;

/// A GPU activity, in units of time.
#[derive(Clone, Debug)]
struct Work {
    start: usize,
    dur: usize,
    category: &'static str,
    name: &'static str,
    stream: u8,
    /// Start and length of its launch API call, and whether the host waits before it.
    call: Option<(usize, usize)>,
}

impl Work {
    fn covers(&self, t: usize) -> bool {
        self.start <= t && t < self.start + self.dur
    }
    fn is_comm(&self) -> bool {
        self.category == "kernel" && self.name.to_lowercase().contains("ccl")
    }
    fn is_comp(&self) -> bool {
        self.category == "gpu_memset" || (self.category == "kernel" && !self.is_comm())
    }
    fn is_kernel_comp(&self) -> bool {
        self.category == "kernel" && !self.is_comm() && !self.name.starts_with("Mem")
    }
    fn is_memcpy(&self) -> bool {
        self.category == "gpu_memcpy"
    }
}

fn some_work() -> impl Strategy<Value = Vec<Work>> {
    let kinds = prop::sample::select(vec![
        ("kernel", "gemm"),
        ("kernel", "ncclDevKernel_AllReduce"),
        ("kernel", "a_RCCL_thing"),
        ("kernel", "Memset kernel"),
        ("gpu_memcpy", "Memcpy DtoD"),
        ("gpu_memset", "Memset (Device)"),
    ]);
    let one = (
        0_usize..60,
        0_usize..20,
        kinds,
        0_u8..3,
        prop::option::of((0_usize..60, 1_usize..6)),
    );
    let one = one.prop_map(|(start, dur, (category, name), stream, call)| Work {
        start,
        dur,
        category,
        name,
        stream,
        call,
    });
    prop::collection::vec(one, 0..14)
}

/// Returns the activity as a recording, each unit being `unit` nanoseconds.
fn trace(work: &[Work], unit: usize) -> Trace {
    let us = |units: usize| {
        let ns = units * unit;
        format!("{}.{:03}", ns / 1000, ns % 1000)
    };
    let mut text = String::from("[");
    for (i, w) in work.iter().enumerate() {
        let id = i + 1;
        let _ = write!(
            text,
            r#"{{"ph":"X","cat":"{}","name":"{}","pid":0,"tid":{},"ts":{},"dur":{},"args":{{"device":0,"stream":{},"correlation":{id}}}}},"#,
            w.category,
            w.name,
            w.stream,
            us(w.start),
            us(w.dur),
            w.stream
        );
        if let Some((start, dur)) = w.call {
            // Each call has a thread of its own, so that calls do not nest.
            let _ = write!(
                text,
                r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":{},"ts":{},"dur":{},"args":{{"correlation":{id}}}}},"#,
                100 + i,
                us(start),
                us(dur)
            );
        }
    }
    let text = format!("{}]", text.trim_end_matches(','));
    let source = Source::from_bytes("made.json", text.into_bytes()).unwrap();
    perfetto_reader::read(source, &ReadOptions::default()).unwrap()
}

fn ns(units: usize, unit: usize) -> i64 {
    i64::try_from(units * unit).unwrap()
}

/// Returns the runs of `false` between the first and last `true`, as start and end.
fn holes(bits: &[bool]) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let mut last = None;
    for (t, _) in bits.iter().enumerate().filter(|(_, b)| **b) {
        if let Some(last) = last
            && t > last + 1
        {
            out.push((last + 1, t));
        }
        last = Some(t);
    }
    out
}

/// Computes the breakdown of `window` instant by instant.
fn slow(work: &[&Work], unit: usize, window: Option<(usize, usize)>) -> GpuTime {
    let inside = |w: &&&Work| {
        window.is_none_or(|(from, to)| {
            let end = w.start + w.dur;
            if w.dur == 0 {
                from <= w.start && w.start < to
            } else {
                w.start.max(from) < end.min(to)
            }
        })
    };
    let kept: Vec<&Work> = work.iter().filter(inside).copied().collect();
    let (from, to) = window.unwrap_or_else(|| {
        let start = kept.iter().map(|w| w.start).min().unwrap_or(0);
        let end = kept.iter().map(|w| w.start + w.dur).max().unwrap_or(0);
        (start, end)
    });
    let any = |t: usize, f: &dyn Fn(&Work) -> bool| kept.iter().any(|w| w.covers(t) && f(w));
    let count = |f: &dyn Fn(usize) -> bool| ns((from..to).filter(|t| f(*t)).count(), unit);
    let number = |f: &dyn Fn(&Work) -> bool| kept.iter().filter(|w| f(w)).count() as u64;
    let all = |_: &Work| true;
    let mut time = GpuTime::default();
    time.gpu_events = kept.len() as u64;
    time.kernels = number(&|w| w.category == "kernel");
    time.memcpy = number(&|w| w.category == "gpu_memcpy");
    time.memset = number(&|w| w.category == "gpu_memset");
    time.comm_kernels = number(&Work::is_comm);
    time.start_ns = ns(from, unit);
    time.span_ns = ns(to - from, unit);
    time.busy_ns = count(&|t| any(t, &all));
    time.idle_ns = count(&|t| !any(t, &all));
    time.comp_ns = count(&|t| any(t, &Work::is_comp));
    time.comm_ns = count(&|t| any(t, &Work::is_comm));
    time.memcpy_ns = count(&|t| any(t, &Work::is_memcpy));
    time.exposed_comm_ns = count(&|t| any(t, &Work::is_comm) && !any(t, &Work::is_comp));
    time.exposed_memcpy_ns =
        count(&|t| any(t, &Work::is_memcpy) && !any(t, &Work::is_comp) && !any(t, &Work::is_comm));
    time.kernel_comp_ns = count(&|t| any(t, &Work::is_kernel_comp));
    time.overlap_ns = count(&|t| any(t, &Work::is_comm) && any(t, &Work::is_kernel_comp));
    let mut bits: Vec<bool> = (from..to).map(|t| any(t, &all)).collect();
    // Idle time at the ends counts too: between activities of zero length, and in windows.
    bits.insert(0, true);
    bits.push(true);
    for (a, b) in holes(&bits) {
        let gap = ns(b - a, unit);
        if gap >= 10_000 {
            time.gaps_ge_10us += 1;
            time.macro_idle_ns += gap;
        } else {
            time.micro_idle_ns += gap;
        }
    }
    for w in &kept {
        let end = (w.start + w.dur).min(window.map_or(usize::MAX, |w| w.1));
        let dur = ns(end - w.start.max(window.map_or(0, |w| w.0)), unit);
        time.subus_gpu_events += u64::from(dur < 1000);
        time.zero_ns_events += u64::from(dur == 0);
        time.total_dur_ns += dur;
    }
    time
}

fn range(unit: usize, (from, to): (usize, usize)) -> TimeRange {
    TimeRange::new(
        Timestamp::from_nanos(ns(from, unit)),
        Timestamp::from_nanos(ns(to, unit)),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn accounts(made in some_work(), unit in prop::sample::select(vec![1_usize, 2500]), a in 0_usize..80, b in 0_usize..80) {
        let trace = trace(&made, unit);
        let work = GpuWork::new(&trace);
        let all: Vec<&Work> = made.iter().collect();
        let time = gpu_time(&work, Rules::Exact);
        prop_assert_eq!(time, slow(&all, unit, None));
        prop_assert_eq!(
            time.comp_ns + time.exposed_comm_ns + time.exposed_memcpy_ns + time.exposed_other_ns + time.idle_ns,
            time.span_ns
        );
        prop_assert_eq!(time.micro_idle_ns + time.macro_idle_ns, time.idle_ns);

        let mut roles = Roles::new(&work, Rules::Exact);
        let window = (a.min(b), a.max(b));
        let mut how = Split::default();
        how.window = Some(range(unit, window));
        let parts = split(&work, &mut roles, work.events(), &how);
        prop_assert_eq!(parts.len(), 1);
        prop_assert_eq!(parts[0].time, slow(&all, unit, Some(window)));

        let mut how = Split::default();
        how.by_place = Some(PlaceKind::Stream);
        let parts = split(&work, &mut roles, work.events(), &how);
        let mut streams: BTreeMap<i64, Vec<&Work>> = BTreeMap::new();
        for w in &made {
            streams.entry(i64::from(w.stream)).or_default().push(w);
        }
        prop_assert_eq!(parts.len(), streams.len());
        for (part, (stream, of_stream)) in parts.iter().zip(streams) {
            prop_assert_eq!(part.stream.unwrap().0, stream);
            prop_assert_eq!(part.time, slow(&of_stream, unit, None));
        }
    }

    #[test]
    fn idle_causes(made in some_work()) {
        let unit = 1;
        let trace = trace(&made, unit);
        let work = GpuWork::new(&trace);
        let found = idle(&work, 3);
        let all: Vec<&Work> = made.iter().collect();
        let mut scopes: Vec<(IdleScope, Option<i64>, Vec<&Work>)> = Vec::new();
        if !made.is_empty() {
            scopes.push((IdleScope::Trace, None, made.iter().collect()));
            scopes.push((IdleScope::Device, None, made.iter().collect()));
        }
        for stream in 0..3_u8 {
            let of_stream: Vec<&Work> = made.iter().filter(|w| w.stream == stream).collect();
            if !of_stream.is_empty() {
                scopes.push((IdleScope::Stream, Some(i64::from(stream)), of_stream));
            }
        }
        prop_assert_eq!(found.rows.len(), scopes.len());
        for (row, (scope, stream, of_scope)) in found.rows.iter().zip(scopes) {
            prop_assert_eq!((row.scope, row.stream.map(|s| s.0)), (scope, stream));
            let end = of_scope.iter().map(|w| w.start + w.dur).max().unwrap();
            let start = of_scope.iter().map(|w| w.start).min().unwrap();
            let busy = |t: usize| of_scope.iter().any(|w| w.covers(t));
            prop_assert_eq!(row.span_ns, ns(end - start, unit));
            prop_assert_eq!(row.busy_ns, ns((start..end).filter(|t| busy(*t)).count(), unit));
            let t = &row.time;
            prop_assert_eq!(t.idle_ns, row.span_ns - row.busy_ns);
            let sum = t.host_wait_ns + t.input_wait_ns + t.synchronisation_ns + t.launch_call_ns + t.launch_latency_ns + t.kernel_wait_ns + t.blocked_ns + t.other_ns;
            prop_assert_eq!(sum, t.idle_ns);

            // For each instant: the activity that ends the gap, and the state of its call.
            let mut causes = [0_i64; 4];
            for t in (start..end).filter(|t| !busy(*t)) {
                // The activity that starts first after the gap began; the first in the file of
                // equal ones.
                let ran_dry = (start..=t).rev().find(|s| *s == start || busy(s - 1) || of_scope.iter().any(|w| w.dur == 0 && w.start == *s)).unwrap();
                let next = of_scope.iter().filter(|w| w.start > t).min_by_key(|w| w.start).unwrap();
                let at = match next.call {
                    None => 3,
                    Some((called, _)) if t < called && called > ran_dry => 0,
                    Some((called, dur)) if called + dur > ran_dry => 1,
                    Some(_) if waits_for_launch(&all, next, ran_dry) => 1,
                    Some(_) => 2,
                };
                causes[at] += 1;
            }
            prop_assume!(ties(&of_scope));
            prop_assert_eq!([t.host_wait_ns, t.launch_call_ns + t.launch_latency_ns, t.kernel_wait_ns, t.other_ns], causes);
        }
        prop_assert!(found.gaps.is_sorted_by_key(|g| std::cmp::Reverse(g.time.idle_ns)));
    }

    #[test]
    fn kernels_and_launches(made in some_work()) {
        let unit = 1;
        let trace = trace(&made, unit);
        let work = GpuWork::new(&trace);
        for by in [KernelsBy::Name, KernelsBy::Stream, KernelsBy::Class, KernelsBy::Operator, KernelsBy::Module] {
            let mut options = KernelOptions::default();
            options.by = by;
            let found = kernels(&work, work.events(), &options);
            prop_assert_eq!(found.groups.iter().map(|g| g.spread.count).sum::<u64>(), made.len() as u64);
            let total: usize = made.iter().map(|w| w.dur).sum();
            prop_assert_eq!(found.groups.iter().map(|g| g.spread.sum_ns).sum::<i64>(), ns(total, unit));
            if by == KernelsBy::Name {
                for g in &found.groups {
                    let of_name = |w: &&Work| w.name == g.name && w.category == g.kind.unwrap().category();
                    let busy = (0..WIDTH).filter(|t| made.iter().filter(of_name).any(|w| w.covers(*t)));
                    prop_assert_eq!(g.busy_ns, ns(busy.count(), unit));
                }
            }
        }
        let found = launches(&work, 7);
        prop_assert_eq!(found.linked, made.iter().filter(|w| w.call.is_some()).count() as u64);
        for row in &found.depth {
            let waits: Vec<(usize, usize)> = made
                .iter()
                .filter(|w| i64::from(w.stream) == row.stream.0)
                .filter_map(|w| Some((w.call?.0, w.start)))
                .filter(|(called, start)| called < start)
                .collect();
            let depth = |t: usize| waits.iter().filter(|(a, b)| *a <= t && t < *b).count();
            prop_assert_eq!(row.max, (0..WIDTH).map(depth).max().unwrap() as u64);
            let area: usize = (0..WIDTH).map(depth).sum();
            let span = i32::try_from(row.span_ns).unwrap();
            prop_assert!((row.mean * f64::from(span) - f64::from(u32::try_from(area).unwrap())).abs() < 1e-6);
            let series = found.series.iter().filter(|p| p.stream == row.stream);
            let of_series: f64 = series
                .map(|p| p.mean * f64::from(i32::try_from(p.end_ns - p.start_ns).unwrap()))
                .sum();
            prop_assert!((of_series - f64::from(u32::try_from(area).unwrap())).abs() < 1e-6);
        }
        for row in found.rows.iter().filter(|r| r.kind == LaunchKind::All) {
            let t = &row.times;
            let forwards: i64 = made
                .iter()
                .filter(|w| row.stream.is_none_or(|s| s.1.0 == i64::from(w.stream)))
                .filter_map(|w| Some(ns(w.start, 1) - ns(w.call?.0, 1)))
                .filter(|latency| *latency >= 0)
                .sum();
            prop_assert_eq!(t.in_call.sum_ns + t.queued.sum_ns + t.dispatch.sum_ns, forwards);
            prop_assert!(t.queued.min_ns >= 0 && t.dispatch.min_ns >= 0 && t.in_call.min_ns >= 0);
        }
    }

    #[test]
    fn windows_and_steps_of_idle_time_and_launches(made in some_work(), mut at in prop::array::uniform3(0_usize..85)) {
        at.sort_unstable();
        let unit = 1;
        let trace = trace(&made, unit);
        let work = GpuWork::new(&trace);
        let mut roles = Roles::new(&work, Rules::Exact);
        let all: Vec<&Work> = made.iter().collect();
        prop_assume!(ties(&all));

        // Two adjacent steps are two windows.
        let windows = [(at[0], at[1]), (at[1], at[2])];
        let mut how = Split::default();
        how.steps = Some(windows.map(|w| Step::new("step", range(unit, w))).into());
        how.step_rule = StepRule::Time;
        let (idles, queues) = (idle_parts(&work, &how, 3), launch_parts(&work, &how, 4));
        let accounts = split(&work, &mut roles, work.events(), &how);
        prop_assert_eq!(idles.iter().map(|p| p.step).collect::<Vec<_>>(), [Some(0), Some(1)]);
        for (i, part) in idles.iter().enumerate() {
            let mut alone = Split::default();
            alone.window = Some(range(unit, windows[i]));
            let one = idle_parts(&work, &alone, 3);
            prop_assert_eq!(&one[0].idle, &part.idle);
            let account = accounts.iter().find(|a| a.step == Some(i)).unwrap();
            prop_assert_eq!(part.idle.rows[0].time.idle_ns, account.time.idle_ns);
            let queue = queues.iter().find(|p| p.step == Some(i)).unwrap();
            let one = launch_parts(&work, &alone, 4);
            prop_assert_eq!(&one[0].launches, &queue.launches);

            let window = windows[i];
            for row in &part.idle.rows {
                let of_row: Vec<&Work> = made.iter().filter(|w| row.stream.is_none_or(|s| s.0 == i64::from(w.stream))).collect();
                let busy = (window.0..window.1).filter(|t| of_row.iter().any(|w| w.covers(*t))).count();
                prop_assert_eq!(row.span_ns, ns(window.1 - window.0, unit));
                prop_assert_eq!(row.busy_ns, ns(busy, unit));
                prop_assert!(row.stream.is_none() || busy > 0);
                let t = &row.time;
                prop_assert_eq!([t.host_wait_ns, t.launch_call_ns + t.launch_latency_ns, t.kernel_wait_ns, t.other_ns], causes(&all, &of_row, window));
            }
            let inside = |w: &&Work| window.0 <= w.start && w.start < window.1;
            let linked = made.iter().filter(inside).filter(|w| w.call.is_some()).count();
            prop_assert_eq!(queue.launches.linked, linked as u64);
            prop_assert_eq!(queue.launches.unlinked, made.iter().filter(inside).count() as u64 - linked as u64);
            for row in &queue.launches.depth {
                let of_stream = |w: &&Work| i64::from(w.stream) == row.stream.0;
                let depth = |t: usize| made.iter().filter(of_stream).filter(|w| w.call.is_some_and(|c| c.0 <= t && t < w.start)).count();
                let length = window.1 - window.0;
                let area: usize = (window.0..window.1).map(depth).sum();
                let empty = (window.0..window.1).filter(|t| depth(*t) == 0).count();
                prop_assert_eq!(row.max, (window.0..window.1).map(depth).max().unwrap() as u64);
                let real = |n: usize| f64::from(u32::try_from(n).unwrap());
                prop_assert!((row.mean * real(length) - real(area)).abs() < 1e-6);
                prop_assert!((row.empty_pct * real(length) - 100.0 * real(empty)).abs() < 1e-6);
            }
        }

        // Steps by launch: the same parts as the breakdown, and every launch in one of them.
        how.step_rule = StepRule::Launch;
        let (idles, queues) = (idle_parts(&work, &how, 3), launch_parts(&work, &how, 0));
        let accounts = split(&work, &mut roles, work.events(), &how);
        for part in &idles {
            let account = accounts.iter().find(|a| a.step == part.step).unwrap();
            let found = part.idle.rows.first().map_or((0, 0), |row| (row.span_ns, row.time.idle_ns));
            prop_assert_eq!(found, (account.time.span_ns, account.time.idle_ns));
        }
        for part in &queues {
            let called = |w: &&Work| {
                let step = w.call.and_then(|c| windows.iter().position(|s| s.0 <= c.0 && c.0 < s.1));
                step == part.step
            };
            let count = made.iter().filter(called).count() as u64;
            prop_assert_eq!(part.launches.linked + part.launches.unlinked, count);
        }
        let sum: u64 = queues.iter().map(|p| p.launches.linked + p.launches.unlinked).sum();
        prop_assert_eq!(sum, made.len() as u64);
    }
}

/// Returns the idle instants in `window` by cause: host wait, launch latency, kernel wait, other.
fn causes(all: &[&Work], work: &[&Work], window: (usize, usize)) -> [i64; 4] {
    let mut causes = [0; 4];
    for t in (window.0..window.1).filter(|t| !work.iter().any(|w| w.covers(*t))) {
        let ran_dry = work
            .iter()
            .map(|w| w.start + w.dur)
            .filter(|end| *end <= t)
            .max();
        let next = work.iter().filter(|w| w.start > t).min_by_key(|w| w.start);
        let after = |called: usize| ran_dry.is_none_or(|dry| called > dry);
        let cause = match next.and_then(|next| next.call) {
            None => 3,
            Some((called, _)) if after(called) && t < called => 0,
            Some((called, dur)) if after(called + dur) => 1,
            Some(_) if waits_for_launch(all, next.unwrap(), ran_dry.unwrap()) => 1,
            Some(_) => 2,
        };
        causes[cause] += 1;
    }
    causes
}

/// Returns `true` if `next`, whose call returned before the device ran dry, is nearer to the typical
/// latency of launches of its kind than to the end of the work before. That latency is the median of
/// those that found nothing running, but no more than the lower quartile of all with two or fewer
/// unfinished ones ahead, of the last three on their stream.
fn waits_for_launch(all: &[&Work], next: &Work, ran_dry: usize) -> bool {
    let kind = |w: &Work| match w.category {
        "gpu_memcpy" => 1,
        "gpu_memset" => 2,
        _ => 0,
    };
    let mut order: Vec<&Work> = all.to_vec();
    order.sort_by_key(|w| w.start);
    let (mut any, mut idle) = (Vec::new(), Vec::new());
    for (i, w) in order.iter().enumerate() {
        let Some((called, dur)) = w.call.filter(|_| kind(w) == kind(next)) else {
            continue;
        };
        let returned = called + dur;
        let of_stream = order[..i].iter().rev().filter(|v| v.stream == w.stream);
        if of_stream
            .take(3)
            .filter(|v| v.start + v.dur > returned)
            .count()
            > 2
        {
            continue;
        }
        let latency = w.start.saturating_sub(returned);
        any.push(latency);
        if order[..i].iter().all(|v| v.start + v.dur <= returned) {
            idle.push(latency);
        }
    }
    any.sort_unstable();
    idle.sort_unstable();
    let Some(quartile) = any.get(any.len().saturating_sub(1) / 4) else {
        return false;
    };
    let typical = idle
        .get(idle.len().saturating_sub(1) / 2)
        .unwrap_or(quartile);
    let (called, dur) = next.call.unwrap();
    let ready = called + dur + typical.min(quartile);
    2 * ready >= ran_dry + next.start
}

/// Returns `true` if the activity that ends each gap is unambiguous: no two start together, and none
/// has zero length.
fn ties(work: &[&Work]) -> bool {
    let mut starts: Vec<usize> = work.iter().map(|w| w.start).collect();
    starts.sort_unstable();
    starts.windows(2).all(|w| w[0] != w[1]) && work.iter().all(|w| w.dur > 0)
}
