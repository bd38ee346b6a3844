//! The reference's analysis, step by step and number by number, its defects included.
//!
//! Times are binary64 microseconds, since that is what the reference computes with. For anything but
//! comparing with it, use [`crate::analyse`].

mod choose;
mod cycles;
mod event;
mod finder;
pub(crate) mod metrics;
mod ownership;
pub(crate) mod text;
mod tree;
mod virtuals;

use trace_model::{SliceId, Trace};

pub use self::choose::Diagnosis;
pub use self::cycles::Phase;
pub use self::finder::{Period, PeriodMethod, Periods, Sight, periods};
pub use self::tree::Candidate;
pub use self::virtuals::VirtualEvent;
pub use crate::topology::Topology;

use self::cycles::Cycle;
use self::event::Events;
use self::tree::{Anchors, Tree};
use self::virtuals::Places;

/// What a cycle is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DivideBy {
    /// One step of the engine.
    #[default]
    Token,
    /// One layer of the model.
    Layer,
}

/// Options of [`analyse`]. The default is the reference's.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The function that cuts cycles; chosen from the trace if none.
    pub marker: Option<String>,
    /// What a cycle is.
    pub divide_by: DivideBy,
    /// Leave out what no anchor owns.
    pub anchor_only: bool,
    /// Leave out what no anchor owns and sticks out of its cycle, instead of cutting it.
    pub whole_events: bool,
    /// Join the anchors of several processes to one cycle.
    pub align: bool,
    /// Cores of the host; estimated if none.
    pub cpu_cores: Option<usize>,
    /// What the machine is made of.
    pub topology: Option<Topology>,
}

/// Why there is no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The trace has no events.
    #[error("[Failed] no events in the trace")]
    NoEvents,
    /// No function is called often enough.
    #[error("[Failed] Could not automatically find any suitable anchor functions")]
    NoAnchor,
    /// No layer is called at the top of any stack.
    #[error("[Failed] Layer division failed: no function at the top of a stack is called a layer")]
    NoLayer,
    /// The anchor cuts no cycles.
    #[error("[Aborted] no cycles")]
    NoCycles,
}

/// One row of the performance table: a function on a device in a cycle, and one counter.
#[derive(Clone, Debug, PartialEq)]
pub struct PerfRow {
    /// Number of the cycle, from 1.
    pub cycle: usize,
    /// Process.
    pub pid: i64,
    /// Host of the process.
    pub hostname: String,
    /// Duration as share of the cycle, %.
    pub beta_pct: f64,
    /// Name as recorded.
    pub function_name: String,
    /// Counter with weighted mean and spread, both times 100.
    pub metric: Option<(&'static str, f64, f64)>,
    /// `Host` or the device.
    pub device: String,
    /// Class of function.
    pub func_type: &'static str,
    /// Sum of durations, µs.
    pub duration_us: f64,
    /// `**`, `*` or a blank: were counters interpolated always, sometimes, never?
    pub interpolation: &'static str,
    /// Function that cut the cycle.
    pub anchor_name: String,
    /// Length of the cycle, µs.
    pub anchor_dur_us: f64,
    /// Start of the cycle, µs.
    pub cycle_start_us: f64,
    /// Number of events.
    pub instances: usize,
    /// Name made short.
    pub simple_name: String,
    /// Bytes that copies moved, if known; the reference does not write it.
    pub copy_bytes: Option<i64>,
    /// What a kernel computes, empty for all else; the reference does not write it.
    pub kernel_class: &'static str,
    /// How long the devices of the process worked in the cycle, whatever ran at once counted once, and how long of that they did
    /// nothing but communicate, µs; the reference does not write it.
    pub device_us: Option<(f64, f64)>,
    /// The shortest and the longest of several calls; the reference does not write it.
    pub calls: Option<CallTimes>,
}

/// Times of the calls of a function in one cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallTimes {
    /// Own time of the shortest call, µs.
    pub shortest_us: f64,
    /// Own time of the longest call, µs.
    pub longest_us: f64,
    /// Which of the calls that is, in order of time from 1.
    pub longest: u32,
}

/// One sample of a counter inside a cycle.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterRow {
    /// Name as recorded.
    pub name: String,
    /// When, µs.
    pub ts_us: f64,
    /// Value as recorded.
    pub value: f64,
    /// Host, empty if unknown.
    pub hostname: String,
    /// Device, process or core; -1 if there is only one.
    pub instance: i64,
}

/// One cycle of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct CycleRow {
    /// Number of the cycle, from 1 over all cycles of the job.
    pub number: usize,
    /// Start, µs.
    pub start_us: f64,
    /// End, µs.
    pub end_us: f64,
    /// Phase.
    pub phase: Phase,
    /// The function that cut it.
    pub anchor: String,
    /// Did some process start late?
    pub delayed: bool,
    /// What limits it; none in reports of the default analysis, whose cycles say more.
    pub diagnosis: Option<Diagnosis>,
    /// Its events.
    pub events: Vec<CycleEvent>,
    /// Events that stand for others, which no trace holds.
    pub virtuals: Vec<VirtualEvent>,
}

/// An event of a cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CycleEvent {
    /// The event.
    pub slice: SliceId,
    /// Start, µs.
    pub ts_us: f64,
    /// Duration, µs.
    pub dur_us: f64,
    /// Start and duration are those of the part inside the cycle.
    pub cut: bool,
}

/// One report: the cycles of one phase.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Behind the job's name in file names: empty, `_prefill`, `_decode`, `_layer`.
    pub suffix: &'static str,
    /// Its cycles.
    pub cycles: Vec<CycleRow>,
    /// The performance table.
    pub rows: Vec<PerfRow>,
    /// Counter samples inside its cycles.
    pub counters: Vec<CounterRow>,
    /// Numbers of the cycles that stand out, in ascending order.
    pub representatives: Vec<usize>,
    /// The report as text.
    pub text: String,
    /// The same for representatives only; none without any.
    pub representative_text: Option<String>,
}

/// The result of [`analyse`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Analysis {
    /// Functions that may be anchors, best first.
    pub candidates: Vec<Candidate>,
    /// The anchor.
    pub anchor: String,
    /// The anchor of prefills, if it is another.
    pub prefill_anchor: Option<String>,
    /// One report, or one for each phase.
    pub reports: Vec<Report>,
}

/// Cuts `trace` into cycles and measures functions in them, as the reference does.
///
/// # Errors
///
/// [`Failure`] when there are no events, no anchors or no cycles.
pub fn analyse(trace: &Trace, options: &Options) -> Result<Analysis, Failure> {
    let events = Events::new(trace);
    if events.list.is_empty() {
        return Err(Failure::NoEvents);
    }
    let mut tree = Tree::new(&events);
    let candidates = tree.candidates(&events);
    let anchors = anchors(&events, &tree, &candidates, options)?;
    let ownership = ownership::own(&events, &mut tree, &anchors);
    let cycles = cycles::cycles(&events, &ownership, &anchors, options);
    if cycles.is_empty() {
        return Err(Failure::NoCycles);
    }
    let places = Places::new(&events);
    let reports = split(&cycles, options)
        .into_iter()
        .map(|(suffix, list)| report((&events, &tree, &places), suffix, &list, options))
        .collect();
    Ok(Analysis {
        candidates,
        anchor: anchors.decode,
        prefill_anchor: anchors.prefill,
        reports,
    })
}

fn anchors(
    events: &Events<'_>,
    tree: &Tree,
    candidates: &[Candidate],
    options: &Options,
) -> Result<Anchors, Failure> {
    let main = match (&options.marker, options.divide_by) {
        (Some(marker), _) => match candidates.iter().find(|c| c.name == *marker) {
            Some(c) => c,
            None => {
                return Ok(Anchors {
                    decode: marker.clone(),
                    prefill: None,
                });
            }
        },
        (None, _) if candidates.is_empty() => return Err(Failure::NoAnchor),
        (None, DivideBy::Token) => candidates.first().ok_or(Failure::NoAnchor)?,
        (None, DivideBy::Layer) => tree::layer_anchor(candidates).ok_or(Failure::NoLayer)?,
    };
    let prefill = match options.divide_by {
        DivideBy::Token => tree::prefill_anchor(tree, events, candidates, main),
        DivideBy::Layer => None,
    };
    Ok(Anchors {
        decode: main.name.clone(),
        prefill,
    })
}

/// Cycles with their numbers, by report.
type Numbered<'c> = Vec<(usize, &'c Cycle)>;

fn split<'c>(cycles: &'c [Cycle], options: &Options) -> Vec<(&'static str, Numbered<'c>)> {
    let of = |keep: &dyn Fn(Phase) -> bool| -> Numbered<'c> {
        let numbered = cycles.iter().enumerate().map(|(i, c)| (i + 1, c));
        numbered.filter(|(_, c)| keep(c.phase)).collect()
    };
    if options.divide_by == DivideBy::Layer {
        return vec![("_layer", of(&|_| true))];
    }
    let has = |phase| cycles.iter().any(|c| c.phase == phase);
    if has(Phase::Prefill) {
        let both = vec![
            ("_prefill", of(&|p| p == Phase::Prefill)),
            ("_decode", of(&|p| p == Phase::Decode)),
        ];
        return both.into_iter().filter(|(_, l)| !l.is_empty()).collect();
    }
    if has(Phase::Decode) {
        return vec![("", of(&|p| p == Phase::Decode))];
    }
    vec![("", of(&|_| true))]
}

fn report(
    (events, tree, places): (&Events<'_>, &Tree, &Places),
    suffix: &'static str,
    list: &Numbered<'_>,
    options: &Options,
) -> Report {
    let devices = metrics::devices(events, options.topology.as_ref());
    let by_cycle: Vec<Vec<PerfRow>> = list
        .iter()
        .map(|(n, c)| metrics::rows(events, c, *n, options, &devices))
        .collect();
    let diagnoses = choose::diagnoses(events, list, &by_cycle);
    let representatives = choose::representatives(list, &diagnoses);
    let title = match suffix {
        "_prefill" => " (Prefill",
        "_decode" => " (Decode",
        "_layer" => " (Layer",
        _ => "",
    };
    let chosen: Vec<(usize, &[PerfRow])> = list
        .iter()
        .zip(&by_cycle)
        .filter(|((n, _), _)| representatives.contains(n))
        .map(|((n, _), rows)| (*n, rows.as_slice()))
        .collect();
    let all: Vec<(usize, &[PerfRow])> = list
        .iter()
        .zip(&by_cycle)
        .map(|((n, _), rows)| (*n, rows.as_slice()))
        .collect();
    let close = if title.is_empty() { "" } else { ")" };
    let text = text::report(&format!("Per-Cycle Performance Report{title}{close}"), &all);
    let representative_title = if title.is_empty() {
        "Per-Cycle Performance Report (Representative Cycles)".to_owned()
    } else {
        format!("Per-Cycle Performance Report{title} Representative Cycles)")
    };
    let representative_text =
        (!chosen.is_empty()).then(|| text::report(&representative_title, &chosen));
    let counters = counters(events, list);
    let cycles = list
        .iter()
        .zip(diagnoses)
        .map(|((n, c), diagnosis)| CycleRow {
            number: *n,
            start_us: c.start,
            end_us: c.end,
            phase: c.phase,
            anchor: events.name(c.representative as usize).to_owned(),
            delayed: c.delayed,
            diagnosis: Some(diagnosis),
            events: shown(events, c),
            virtuals: virtuals::of_cycle(events, tree, places, c, *n),
        })
        .collect();
    Report {
        suffix,
        cycles,
        rows: by_cycle.into_iter().flatten().collect(),
        counters,
        representatives,
        text,
        representative_text,
    }
}

/// The events of a cycle as they are shown: Python functions of one thread that end together are
/// shortened by one microsecond more each, so that viewers nest them.
fn shown(events: &Events<'_>, cycle: &Cycle) -> Vec<CycleEvent> {
    let mut list: Vec<CycleEvent> = cycle
        .members
        .iter()
        .map(|m| {
            let e = &events.list[m.event as usize];
            CycleEvent {
                slice: e.slice,
                ts_us: m.ts,
                dur_us: m.dur,
                cut: m.ts.total_cmp(&e.ts).is_ne() || m.dur.total_cmp(&e.dur).is_ne(),
            }
        })
        .collect();
    let mut ends: Vec<(u32, f64, f64, usize)> = cycle
        .members
        .iter()
        .enumerate()
        .filter(|(_, m)| events.list[m.event as usize].kind == event::Kind::Python)
        .map(|(i, m)| (events.list[m.event as usize].tid, m.ts + m.dur, m.ts, i))
        .collect();
    ends.sort_by(|a, b| {
        (a.0.cmp(&b.0))
            .then(a.1.total_cmp(&b.1))
            .then(a.2.total_cmp(&b.2))
            .then(a.3.cmp(&b.3))
    });
    for together in ends.chunk_by(|a, b| a.0 == b.0 && a.1.total_cmp(&b.1).is_eq()) {
        for (k, &(.., i)) in together.iter().enumerate().skip(1) {
            let by = crate::num::real(k);
            if list[i].dur_us > by {
                list[i].dur_us -= by;
            }
        }
    }
    list
}

fn counters(events: &Events<'_>, list: &Numbered<'_>) -> Vec<CounterRow> {
    let mut rows = Vec::new();
    for (_, cycle) in list {
        for s in metrics::samples_of(events, cycle) {
            rows.push(CounterRow {
                name: events.names.get(s.name).to_owned(),
                ts_us: s.ts,
                value: s.value,
                hostname: s.host.map_or("", |h| events.names.get(h)).to_owned(),
                instance: s.instance,
            });
        }
    }
    rows.sort_by(|a, b| {
        a.name
            .cmp(&b.name)
            .then(a.ts_us.total_cmp(&b.ts_us))
            .then(a.value.total_cmp(&b.value))
            .then_with(|| a.hostname.cmp(&b.hostname))
    });
    // The reference does not tell instances apart.
    rows.dedup_by(|a, b| {
        (&a.name, &a.hostname) == (&b.name, &b.hostname)
            && a.ts_us.total_cmp(&b.ts_us).is_eq()
            && a.value.total_cmp(&b.value).is_eq()
    });
    rows
}

/// A kernel's name without what differs between sizes and types, for the families that the
/// reference knows.
pub fn simple_name(name: &str) -> String {
    for (prefix, short) in [
        (
            "void at::native::elementwise_kernel",
            "at::native::elementwise_kernel",
        ),
        (
            "void at::native::unrolled_elementwise_kernel",
            "at::native::unrolled_elementwise_kernel",
        ),
        (
            "void at::native::vectorized_elementwise_kernel",
            "at.native.vectorized_elementwise_kernel",
        ),
        (
            "void pytorch_flash::flash_fwd_kernel",
            "pytorch_flash::flash_fwd_kernel",
        ),
        ("ampere_bf16_s16816gemm", "ampere_bf16_gemm"),
        ("triton_", "triton_kernel"),
    ] {
        if name.starts_with(prefix) {
            return short.to_owned();
        }
    }
    if let Some(at) = name.find("ncclDevKernel") {
        let word: String = name[at..]
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        // The operation alone: what follows it is algorithm and type.
        let mut parts = word.splitn(3, '_');
        return match (parts.next(), parts.next()) {
            (Some(head), Some(op)) => format!("{head}_{op}"),
            _ => word,
        };
    }
    name.to_owned()
}

/// Calls of Python functions that last more than 10 µs, by total duration.
pub fn functions(trace: &Trace) -> Vec<Candidate> {
    let events = Events::new(trace);
    let mut map: std::collections::BTreeMap<&str, Vec<f64>> = std::collections::BTreeMap::new();
    for e in &events.list {
        if e.kind == event::Kind::Python && e.dur > 10.0 {
            map.entry(events.text(e.name)).or_default().push(e.dur);
        }
    }
    let mut list: Vec<Candidate> = map
        .into_iter()
        .map(|(name, durs)| {
            let (average_us, std) = crate::num::mean_std(&durs);
            Candidate {
                name: name.to_owned(),
                count: durs.len(),
                total_us: durs.iter().sum(),
                average_us,
                instability: std / average_us,
                average_depth: 0.0,
                min_depth: 0,
            }
        })
        .collect();
    list.sort_by(|a, b| {
        b.total_us
            .total_cmp(&a.total_us)
            .then_with(|| a.name.cmp(&b.name))
    });
    list
}
