//! The reference's period finder.

use std::collections::BTreeMap;

use trace_model::{StrId, Trace};

use super::cycles::{self, Cycle, Phase};
use super::event::{Event, Events, Kind};
use super::ownership;
use super::tree::Tree;
use super::virtuals::{self, Places, VirtualEvent};
use super::{Options, anchors};
use crate::cadence::{self, Beat, Limits, Signal};
use crate::num::micros;
use crate::period;

/// What periods are found by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeriodMethod {
    /// The cycles of Python functions.
    Python,
    /// The rhythm of probes in user space.
    Probe,
    /// The rhythm of kernels.
    Cuda,
}

impl PeriodMethod {
    /// All, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::Python, Self::Probe, Self::Cuda];

    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Probe => "probe",
            Self::Cuda => "cuda",
        }
    }
}

/// One period.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Period {
    /// Start, µs.
    pub start_us: f64,
    /// End, µs.
    pub end_us: f64,
    /// Number from 1.
    pub count: usize,
    /// 1 prefill, 2 decode, 3 not known.
    pub kind: u8,
}

/// What one method found.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Periods {
    /// In order of time.
    pub list: Vec<Period>,
    /// The function whose calls are periods, if they are.
    pub anchor: Option<String>,
    /// Events that stand for others, of [`PeriodMethod::Python`].
    pub virtuals: Vec<VirtualEvent>,
}

/// What is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    /// What the reference sees: periods from 20 ms on, kernels of the category `Kernel`.
    Reference,
    /// Periods of any length, kernels of any profiler.
    Full,
}

/// The periods of `trace` by one method; none if there is no rhythm.
pub fn periods(
    trace: &Trace,
    options: &Options,
    method: PeriodMethod,
    sight: Sight,
) -> Option<Periods> {
    let events = Events::new(trace);
    let found = match method {
        PeriodMethod::Python => python(&events, options)?,
        PeriodMethod::Probe | PeriodMethod::Cuda => rhythm(&events, options, method, sight),
    };
    (!found.list.is_empty()).then_some(found)
}

fn python(events: &Events<'_>, options: &Options) -> Option<Periods> {
    let mut tree = Tree::new(events);
    let candidates = tree.candidates(events);
    let anchors = anchors(events, &tree, &candidates, options).ok()?;
    let ownership = ownership::own(events, &mut tree, &anchors);
    let mut whole = options.clone();
    whole.whole_events = true;
    let list = cycles::cycles(events, &ownership, &anchors, &whole);
    let places = Places::new(events);
    let numbered = || list.iter().enumerate().map(|(i, c)| (i + 1, c));
    Some(Periods {
        list: numbered().map(|(n, c)| period(n, c)).collect(),
        anchor: Some(anchors.decode),
        virtuals: numbered()
            .flat_map(|(n, c)| virtuals::of_cycle(events, &tree, &places, c, n))
            .collect(),
    })
}

fn period(count: usize, cycle: &Cycle) -> Period {
    Period {
        start_us: cycle.start,
        end_us: cycle.end,
        count,
        kind: match cycle.phase {
            Phase::Prefill => 1,
            Phase::Decode => 2,
            Phase::Generic => 3,
        },
    }
}

fn rhythm(events: &Events<'_>, options: &Options, method: PeriodMethod, sight: Sight) -> Periods {
    let is_kernel = |e: &Event| {
        let category = events.trace.slice(e.slice).category();
        category.is_some_and(|c| c.eq_ignore_ascii_case("kernel"))
    };
    let wanted = |e: &&Event| match (method, sight) {
        (PeriodMethod::Cuda, Sight::Reference) => e.kind == Kind::Kernel,
        (PeriodMethod::Cuda, Sight::Full) => is_kernel(e),
        _ => events.names.get(e.tid).contains("probe"),
    };
    let signals: Vec<&Event> = events.list.iter().filter(wanted).collect();
    let beats = match sight {
        Sight::Reference => spectral(&signals, options),
        Sight::Full => in_bursts(events.trace, &signals),
    };
    let numbered = beats.iter().enumerate();
    Periods {
        list: numbered
            .map(|(i, b)| Period {
                start_us: b.start,
                end_us: b.end,
                count: i + 1,
                kind: b.kind,
            })
            .collect(),
        anchor: None,
        virtuals: Vec::new(),
    }
}

fn spectral(signals: &[&Event], options: &Options) -> Vec<Beat> {
    let signals: Vec<Signal> = signals
        .iter()
        .map(|e| Signal {
            pid: e.pid,
            tid: e.tid,
            name: crate::num::row(e.name.index()),
            ts: e.ts,
        })
        .collect();
    let limits = Limits {
        shortest: 20_000.0,
        align: options.align,
    };
    cadence::beats(&signals, limits)
}

/// The bursts of the process with most signals.
fn in_bursts(trace: &Trace, signals: &[&Event]) -> Vec<Beat> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    for e in signals {
        *counts.entry(e.pid).or_default() += 1;
    }
    let most = counts.iter().rev().max_by_key(|c| c.1);
    let own: Vec<(i64, i64, StrId)> = signals
        .iter()
        .filter(|e| most.is_some_and(|m| *m.0 == e.pid))
        .map(|e| {
            let range = trace.slice(e.slice).range();
            (range.start.nanos(), range.end.nanos(), e.name)
        })
        .collect();
    let (Some(starts), Some(last)) = (period::bursts(&own), own.iter().map(|e| e.1).max()) else {
        return Vec::new();
    };
    let ends = starts.iter().skip(1).chain(std::iter::once(&last));
    starts
        .iter()
        .zip(ends)
        .map(|(&start, &end)| Beat {
            start: micros(start),
            end: micros(end),
            kind: 3,
        })
        .collect()
}
