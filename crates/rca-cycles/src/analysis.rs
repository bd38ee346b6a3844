//! The default analysis: cycles, what each cost, and which stand out.

use std::collections::BTreeMap;

use trace_model::{SliceId, Trace};

use crate::compat::DivideBy;
use crate::cut::{self, Cuts, Partial};
use crate::engine::{self, Engine};
use crate::measure::{
    self, DeviceTimes, Function, Gaps, Launches, Skew, activity, functions, gaps, launches, skew,
};
use crate::num::{median, nanos, span};
use crate::outlier::{Interference, interference};
use crate::phase::{Phase, Workload, phases};
use crate::slack::{Flow, Slack};
use crate::step_time::{self, StepTime};
use crate::steps::{self, Method};
use crate::timeline::{Kind, Member, Timeline};
use crate::topology::Topology;

/// Options of [`analyse`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The function or range that is one step; found if none. If nothing is called so, a pattern with
    /// `*` and `?`, else a name without its numbers. Default is none.
    pub marker: Option<String>,
    /// What a cycle is. Default is one step of the engine.
    pub divide_by: DivideBy,
    /// Rules of engines. Default is those that come with the crate.
    pub engines: Vec<Engine>,
    /// What the machine is made of, if known. Default is none.
    pub topology: Option<Topology>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            marker: None,
            divide_by: DivideBy::Token,
            engines: engine::built_in(),
            topology: None,
        }
    }
}

/// Why there is no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The trace has no events.
    #[error("the trace has no events")]
    Empty,
    /// Nothing in it is a step.
    #[error("no step was found: there is neither host code nor work on a device to cut by")]
    NoSteps,
    /// Layers are asked for, and there are none.
    #[error("no Python function is named after layers, as in DecoderLayer.forward")]
    NoLayers,
    /// The function asked for is not called.
    #[error(
        "no call of {marker:?}; name a function or range of the trace as it is written there, with * for any text"
    )]
    NoMarker {
        /// The function.
        marker: String,
    },
}

/// One cycle.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Cycle {
    /// When it begins, ns in the trace's clock: at the end of the cycle before.
    pub start_ns: i64,
    /// When it ends: where the next one starts on the host, or where its own work ends on the device if that is later. The
    /// time of its *step* is that of [`StepPaths`](crate::StepPaths).
    pub end_ns: i64,
    /// Its part on the host, ns: from its start to that of the next one, or to its end before a pause.
    /// What is launched in there is its work.
    pub host_ns: (i64, i64),
    /// How long the host worked in that part and did not wait, ns.
    pub host_active_ns: i64,
    /// How long its own work kept the devices of the process busy, wherever that was, overlaps counted once, ns.
    pub gpu_ns: i64,
    /// How long a first step was queued behind earlier work, ns; not part of its time.
    pub queued_ns: i64,
    /// How long the engine waited for requests at its end where that is far longer than a step, ns; part of its time.
    pub idle_ns: i64,
    /// What it is for.
    pub phase: Phase,
    /// How sure that is, from 0 to 1.
    pub confidence: f64,
    /// Why it does not count, if it does not.
    pub partial: Option<Partial>,
    /// The call or range that is its step.
    pub anchor: Option<SliceId>,
    /// What its batch holds, where the trace says so.
    pub workload: Option<Workload>,
    /// Where its time went.
    pub gaps: Gaps,
    /// How long host and device waited for each other; nothing where no launch call was recorded.
    pub slack: Slack,
    /// How its work was launched.
    pub launches: Launches,
    /// Who came late to its collectives.
    pub skew: Option<Skew>,
    /// Time of the device by process: work launched in this cycle, ns. Only processes with any, in their order.
    pub device_ns: Vec<(u32, i64)>,
}

impl Cycle {
    /// How long it is, ns.
    pub fn length_ns(&self) -> i64 {
        self.end_ns - self.start_ns
    }
}

/// A counter over the whole trace.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CounterSeries {
    /// Name without instance.
    pub name: String,
    /// Host, if known.
    pub host: Option<String>,
    /// Device, process or core; -1 if there is only one.
    pub instance: i64,
    /// Value in each cycle: the mean of samples inside, else interpolated between the nearest.
    pub by_cycle: Vec<f64>,
    /// Distance of the nearest sample from the cycle, ns; 0 if one is inside.
    pub sample_age_ns: Vec<i64>,
}

/// The result of [`analyse`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Analysis {
    /// How steps were found.
    pub method: Method,
    /// The engine, if its rules matched.
    pub engine: Option<String>,
    /// The function, range or operator that marks steps; empty if the trace is one step.
    pub anchor: String,
    /// Processes that take part.
    pub members: Vec<Member>,
    /// Which of them the cycles are those of.
    pub reference: u32,
    /// The rank that the recording states; its file may be called otherwise.
    pub rank: Option<u32>,
    /// Cycles in order of time, partial ones too.
    pub cycles: Vec<Cycle>,
    /// What each function cost in each cycle.
    pub functions: Vec<Function>,
    /// Counters by cycle.
    pub counters: Vec<CounterSeries>,
    /// Functions that are slow in a few cycles only.
    pub interference: Vec<Interference>,
    /// How long the devices of each process worked in each cycle.
    pub device_times: Vec<DeviceTimes>,
    /// When the devices of the cycles' process did nothing but communicate: start and end, ns.
    pub exposed_communication: Vec<(i64, i64)>,
    /// What the machine is made of, as the options say.
    pub topology: Option<Topology>,
    /// The device of each process with work on one; none if it works on several.
    only_device: BTreeMap<u32, Option<i64>>,
}

impl Analysis {
    /// The device of the machine that a process means by `device`: every process may see its own as
    /// device 0. None if the topology does not say, or for a process that uses several.
    pub fn physical_device(&self, process: u32, device: i64) -> Option<i64> {
        let topology = self.topology.as_ref()?;
        if self
            .only_device
            .get(&process)
            .is_some_and(|only| *only != Some(device))
        {
            return None;
        }
        let member = self.members.get(process as usize)?;
        topology.gpu_of(member.host.as_deref().unwrap_or(""), member.pid)
    }

    /// Median length of whole cycles of a phase, ns; none without any.
    pub fn median_ns(&self, phase: Phase) -> Option<i64> {
        let list: Vec<f64> = self
            .cycles
            .iter()
            .filter(|c| c.partial.is_none() && c.phase == phase)
            .map(|c| span(c.length_ns()))
            .collect();
        (!list.is_empty()).then(|| nanos(median(&list)))
    }

    /// Median distance of the starts of consecutive cycles on the host, ns; none of fewer than two cycles.
    pub fn period_ns(&self) -> Option<i64> {
        let list: Vec<f64> = self
            .cycles
            .windows(2)
            .filter(|w| w[0].partial.is_none() && w[1].partial.is_none())
            .map(|w| span(w[1].host_ns.0 - w[0].host_ns.0))
            .collect();
        (!list.is_empty()).then(|| nanos(median(&list)))
    }
}

/// Cuts `trace` into the cycles of the engine and says what each spent its time on.
///
/// Cost: a few passes over the slices; memory about 30 bytes for each beside the trace.
///
/// # Errors
///
/// [`Failure`] when there is nothing to cut or to cut by.
pub fn analyse(trace: &Trace, options: &Options) -> Result<Analysis, Failure> {
    let (timeline, found, cuts) = cut_trace(trace, options)?;
    let engine = found.engine.and_then(|i| options.engines.get(i));
    let (cycles, exposed_communication) = cycles(&timeline, &cuts, engine, found.is_of_host());
    let functions = functions(&timeline, &cuts);
    let counters = counters(&timeline, &cuts);
    let device_times = measure::device_times(&timeline, &cycles);
    let interference = interference(&cycles, &functions);
    let mut only_device = BTreeMap::new();
    for f in functions.iter().filter(|f| f.kind.is_device()) {
        let only = only_device.entry(f.process).or_insert(Some(f.device));
        *only = only.filter(|device| *device == f.device);
    }
    Ok(Analysis {
        method: found.method,
        engine: engine.map(|e| e.name.clone()),
        anchor: found.anchor,
        members: timeline.members,
        reference: crate::num::row(cuts.reference),
        rank: trace.meta().rank().map(|rank| rank.0),
        cycles,
        functions,
        counters,
        interference,
        device_times,
        exposed_communication,
        topology: options.topology.clone(),
        only_device,
    })
}

/// Where a cycle lies on the host, without what it spent its time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Span {
    /// Begin and end on the host, in nanoseconds.
    pub host_ns: (i64, i64),
    /// Prefill, decode or both.
    pub phase: Phase,
    /// Why it is not whole, where only a part of it was recorded.
    pub partial: Option<Partial>,
}

/// Cuts `trace` into the cycles of the engine and says where they lie and how they were found; the cycles are those of
/// [`analyse`].
///
/// Cost: about half of that of [`analyse`].
///
/// # Errors
///
/// Those of [`analyse`].
pub fn spans(trace: &Trace, options: &Options) -> Result<(Method, Vec<Span>), Failure> {
    let (timeline, found, cuts) = cut_trace(trace, options)?;
    let engine = found.engine.and_then(|i| options.engines.get(i));
    let phases = phases(&timeline, &cuts, engine);
    let spans = cuts.cycles().iter().zip(phases);
    let spans = spans.map(|(window, verdict)| Span {
        host_ns: (window.start, window.end),
        phase: verdict.phase,
        partial: window.partial,
    });
    Ok((found.method, spans.collect()))
}

/// The slices of a trace, its steps, and where cycles begin and end.
fn cut_trace<'t>(
    trace: &'t Trace,
    options: &Options,
) -> Result<(Timeline<'t>, steps::Found, Cuts), Failure> {
    if trace.is_empty() {
        return Err(Failure::Empty);
    }
    let timeline = Timeline::new(trace);
    let found = steps::find(&timeline, options);
    let Some(found) = found else {
        return Err(match (&options.marker, options.divide_by) {
            (Some(marker), _) => Failure::NoMarker {
                marker: marker.clone(),
            },
            (None, DivideBy::Layer) => Failure::NoLayers,
            (None, DivideBy::Token) => Failure::NoSteps,
        });
    };
    let cuts = cut::cut(&timeline, &found, &options.engines);
    if cuts.cycles().is_empty() {
        return Err(Failure::NoSteps);
    }
    Ok((timeline, found, cuts))
}

/// The cycles, and when nothing but communication ran.
fn cycles(
    timeline: &Timeline<'_>,
    cuts: &Cuts,
    engine: Option<&Engine>,
    of_host: bool,
) -> (Vec<Cycle>, Vec<(i64, i64)>) {
    let windows = cuts.cycles();
    let lengths: Vec<f64> = windows
        .iter()
        .map(|w| span(w.end.saturating_sub(w.start)))
        .collect();
    let longest = nanos(2.0 * median(&lengths)).max(
        windows
            .iter()
            .map(|w| w.end.saturating_sub(w.start))
            .max()
            .unwrap_or(0),
    );
    let process = process_of_host(timeline, cuts);
    let doing = activity(timeline, process, longest);
    let verdicts = phases(timeline, cuts, engine);
    let work = measure::work_by_cycle(timeline, cuts);
    let free = measure::stream_free(timeline);
    let exposed = doing.communication.subtract(&doing.compute);
    let flow = Flow::new(timeline, process);
    let times = match of_host {
        true => step_time::step_times(timeline, cuts, (process, &doing), &work),
        false => windows.iter().map(StepTime::of_window).collect(),
    };
    let cycles = windows
        .iter()
        .enumerate()
        .map(|(i, w)| {
            let mut device_ns: BTreeMap<u32, i64> = BTreeMap::new();
            for &k in &work[i] {
                let one = &timeline.work[k as usize];
                if one.kind != Kind::Communication && one.end > one.ts {
                    *device_ns.entry(one.process).or_default() += one.end - one.ts;
                }
            }
            let own: Vec<u32> = work[i]
                .iter()
                .copied()
                .filter(|&k| timeline.work[k as usize].process == process)
                .collect();
            let busy: trace_model::interval::IntervalSet = own
                .iter()
                .map(|&k| &timeline.work[k as usize])
                .map(|w| (w.ts.max(times[i].start), w.end))
                .filter(|r| r.0 < r.1)
                .collect();
            Cycle {
                start_ns: times[i].start,
                end_ns: times[i].end,
                host_ns: (w.start, w.end),
                host_active_ns: step_time::host_part(&doing, w),
                gpu_ns: busy.measure().get(),
                queued_ns: times[i].queued_ns,
                idle_ns: w.idle_ns,
                phase: verdicts[i].phase,
                confidence: verdicts[i].confidence,
                partial: w.partial,
                anchor: w.anchor,
                workload: verdicts[i].workload,
                gaps: gaps(&doing, times[i].start, times[i].end),
                slack: flow
                    .as_ref()
                    .map_or_else(Slack::default, |f| f.between(times[i].start, times[i].end)),
                launches: launches(timeline, &own, &free, (w.start, w.end)),
                skew: skew(timeline, &work[i]),
                device_ns: device_ns.into_iter().collect(),
            }
        })
        .collect();
    (cycles, exposed.as_slice().to_vec())
}

/// The process whose host code and device work make up the cycles.
fn process_of_host(timeline: &Timeline<'_>, cuts: &Cuts) -> u32 {
    let reference = crate::num::row(cuts.reference);
    let with_work = |p: u32| timeline.work.iter().any(|w| w.process == p);
    if with_work(reference) {
        return reference;
    }
    // The scheduler may be a process of its own; then look at the first that works.
    timeline.work.first().map_or(reference, |w| w.process)
}

fn counters(timeline: &Timeline<'_>, cuts: &Cuts) -> Vec<CounterSeries> {
    timeline
        .counters
        .iter()
        .map(|c| {
            let (mut by_cycle, mut sample_age_ns) = (Vec::new(), Vec::new());
            for w in cuts.cycles() {
                let low = c.samples.partition_point(|s| s.0 < w.start);
                let high = c.samples.partition_point(|s| s.0 < w.end).max(low);
                if high > low {
                    let sum: f64 = c.samples[low..high].iter().map(|s| s.1).sum();
                    by_cycle.push(sum / crate::num::real(high - low));
                    sample_age_ns.push(0);
                    continue;
                }
                let middle = w.start + (w.end - w.start) / 2;
                by_cycle.push(interpolate(&c.samples, middle));
                let before = low.checked_sub(1).map(|i| w.start - c.samples[i].0);
                let after = c.samples.get(low).map(|s| s.0 - w.end);
                let age = before.into_iter().chain(after).min().unwrap_or(i64::MAX);
                sample_age_ns.push(age.max(0));
            }
            CounterSeries {
                name: c.name.clone(),
                host: c.host.clone(),
                instance: c.instance,
                by_cycle,
                sample_age_ns,
            }
        })
        .collect()
}

/// Linear between samples, constant outside.
fn interpolate(samples: &[(i64, f64)], at: i64) -> f64 {
    let next = samples.partition_point(|s| s.0 <= at);
    match (
        next.checked_sub(1).and_then(|i| samples.get(i)),
        samples.get(next),
    ) {
        (Some(a), Some(b)) => a.1 + (b.1 - a.1) * span(at - a.0) / span((b.0 - a.0).max(1)),
        (Some(one), None) | (None, Some(one)) => one.1,
        (None, None) => 0.0,
    }
}
