//! Accounts of parts: of a window, by stream, by step.

use std::collections::BTreeMap;
use std::str::FromStr;

use trace_model::kernel::{Activity, NamePattern};
use trace_model::{DeviceId, StreamId, TimeRange, Timestamp};

use crate::account::{Account, GpuTime};
use crate::error::Error;
use crate::rules::Roles;
use crate::work::{GpuEvent, GpuWork};

/// A window as people write it: `A..B`, each end an instant of the trace's clock in nanoseconds, or
/// with `+` in front a time after the first device work, with a unit if wanted: `+1.5ms..+2ms`. An
/// end left out is the first or last of the device work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowSpec {
    from: Option<Bound>,
    to: Option<Bound>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bound {
    At(i64),
    After(i64),
}

impl FromStr for WindowSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::BadWindow {
            text: text.to_owned(),
        };
        let (from, to) = text.split_once("..").ok_or_else(bad)?;
        let bound = |text: &str| match text.trim() {
            "" => Ok(None),
            text => bound(text).map(Some).ok_or_else(bad),
        };
        Ok(Self {
            from: bound(from)?,
            to: bound(to)?,
        })
    }
}

fn bound(text: &str) -> Option<Bound> {
    match text.strip_prefix('+') {
        Some(after) => Some(Bound::After(nanos(after)?)),
        None => Some(Bound::At(nanos(text)?)),
    }
}

/// A decimal number with a unit of time; nanoseconds without one.
fn nanos(text: &str) -> Option<i64> {
    let units = [("ns", 0), ("us", 3), ("µs", 3), ("ms", 6), ("s", 9)];
    let found = units
        .iter()
        .find_map(|(unit, digits)| Some((text.strip_suffix(unit)?, *digits)));
    let (number, digits) = found.unwrap_or((text, 0));
    let (whole, part) = number.trim().split_once('.').unwrap_or((number.trim(), ""));
    let is_number = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    let negative = whole.strip_prefix('-');
    let whole = negative.unwrap_or(whole);
    if whole.is_empty() || !is_number(whole) || !is_number(part) || part.len() > digits {
        return None;
    }
    let text = format!("{whole}{part:0<digits$}");
    let value: i64 = text.parse().ok()?;
    Some(if negative.is_some() { -value } else { value })
}

impl WindowSpec {
    /// The window in the time of a trace; none without device work to count from.
    pub fn resolve(&self, work: &GpuWork<'_>) -> Option<TimeRange> {
        let span = work.span()?;
        let at = |bound: Option<Bound>, default: Timestamp| match bound {
            None => default.nanos(),
            Some(Bound::At(ns)) => ns,
            Some(Bound::After(ns)) => span.start.nanos().saturating_add(ns),
        };
        Some(TimeRange::new(
            Timestamp::from_nanos(at(self.from, span.start)),
            Timestamp::from_nanos(at(self.to, span.end)),
        ))
    }
}

/// The annotations that are taken for steps unless a pattern is given: the first of these that any
/// annotation matches.
pub const STEP_PATTERNS: &[&str] = &[
    "ProfilerStep#*",
    "execute_*context_*",
    "execute_model*",
    "gpu_model_runner: forward*",
    "step[*",
];

/// A step: a stretch of host time that an annotation marks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Name of the annotation.
    pub name: String,
    /// The time it spans.
    pub range: TimeRange,
}

/// The steps of a trace in ascending time: outermost annotations of the host whose name matches
/// `pattern` (a glob, alternatives separated by `|`), or else one of [`STEP_PATTERNS`].
pub fn steps(work: &GpuWork<'_>, pattern: Option<&str>) -> Vec<Step> {
    match pattern {
        Some(pattern) => steps_of(work, pattern, true),
        None => STEP_PATTERNS
            .iter()
            .map(|pattern| steps_of(work, pattern, false))
            .find(|steps| !steps.is_empty())
            .unwrap_or_default(),
    }
}

fn steps_of(work: &GpuWork<'_>, pattern: &str, any_slice: bool) -> Vec<Step> {
    let patterns: Vec<NamePattern> = pattern.split('|').map(NamePattern::glob).collect();
    let trace = work.trace();
    let mut known: Vec<Option<bool>> = vec![None; trace.strings().len()];
    let mut out: Vec<Step> = Vec::new();
    for slice in trace.slices() {
        let activity = work.index().activity(slice);
        let fits = activity == Activity::UserAnnotation
            || (any_slice && !activity.is_device_work() && activity != Activity::GpuAnnotation);
        let Some(name) = slice.name_id().filter(|_| fits) else {
            continue;
        };
        let matches = *known[name.index()].get_or_insert_with(|| {
            let name = trace.text(name);
            patterns.iter().any(|p| p.matches(name))
        });
        let range = slice.range();
        if matches && out.last().is_none_or(|last| range.start >= last.range.end) {
            out.push(Step {
                name: trace.text(name).to_owned(),
                range,
            });
        }
    }
    out
}

/// What joins device work to a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum StepRule {
    /// Its launch call starts in the step.
    #[default]
    Launch,
    /// It runs in the step; it is cut at the ends.
    Time,
}

/// Where work ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PlaceKind {
    /// On which device.
    Device,
    /// On which stream of which device.
    Stream,
}

/// How to split an account.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Split {
    /// One account for each device or stream.
    pub by_place: Option<PlaceKind>,
    /// One account for each of these.
    pub steps: Option<Vec<Step>>,
    /// What belongs to a step.
    pub step_rule: StepRule,
    /// Only what lies in this window; its ends cut work.
    pub window: Option<TimeRange>,
}

/// The account of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// The step, by number, for splits by step; `None` in these for work of no step.
    pub step: Option<usize>,
    /// The device, for splits by device or stream.
    pub device: Option<DeviceId>,
    /// The stream, for splits by stream.
    pub stream: Option<StreamId>,
    /// Its account.
    pub time: GpuTime,
}

type Key = (usize, Option<DeviceId>, Option<StreamId>);

/// The accounts of the parts of `events`, steps in their order, then what belongs to no step, and
/// of each the streams in ascending order. Without a split, one account.
///
/// Cost: a pass over the events, for steps with a look-up of each launch.
pub fn split(
    work: &GpuWork<'_>,
    roles: &mut Roles<'_, '_>,
    events: &[GpuEvent],
    split: &Split,
) -> Vec<Part> {
    let fresh = |range: Option<TimeRange>| match (range, split.window) {
        (None, None) => Account::new(),
        (Some(range), None) | (None, Some(range)) => Account::within(range),
        (Some(a), Some(b)) => {
            Account::within(a.intersect(b).unwrap_or(TimeRange::new(a.start, a.start)))
        }
    };
    let mut parts: BTreeMap<Key, Account> = BTreeMap::new();
    let steps = split.steps.as_deref().unwrap_or(&[]);
    if split.steps.is_none() && split.by_place.is_none() {
        parts.insert((0, None, None), fresh(None));
    }
    for event in events {
        let role = roles.of(event);
        let device = split.by_place.map(|_| event.device);
        let is_stream = split.by_place == Some(PlaceKind::Stream);
        let stream = is_stream.then_some(event.stream);
        let mut add = |at: usize, range: Option<TimeRange>| {
            let account = parts
                .entry((at, device, stream))
                .or_insert_with(|| fresh(range));
            account.add(event.kind, role, event.interval());
        };
        match split.step_rule {
            _ if split.steps.is_none() => add(0, None),
            StepRule::Launch => {
                let called = work.launch_of(event).map(|call| call.ts());
                let at = called.and_then(|ts| {
                    let at = steps
                        .partition_point(|s| s.range.start <= ts)
                        .checked_sub(1)?;
                    steps[at].range.contains(ts).then_some(at)
                });
                add(at.unwrap_or(steps.len()), None);
            }
            StepRule::Time => {
                let start = Timestamp::from_nanos(event.start_ns);
                let end = Timestamp::from_nanos(event.end_ns);
                let from = steps.partition_point(|s| s.range.end <= start);
                let to = steps
                    .partition_point(|s| s.range.start < end.max(start))
                    .max(from);
                for (at, step) in steps.iter().enumerate().take(to).skip(from) {
                    add(at, Some(step.range));
                }
                // Of no step only what touches none: the rest of what is cut belongs nowhere.
                if from == to {
                    add(steps.len(), None);
                }
            }
        }
    }
    let parts = parts.into_iter().filter(|(_, account)| {
        split.window.is_none() || account.finish().gpu_events > 0 || split.by_place.is_none()
    });
    parts
        .map(|((at, device, stream), account)| Part {
            step: (split.steps.is_some() && at < steps.len()).then_some(at),
            device,
            stream,
            time: account.finish(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_as_people_write_them() {
        let parse = |text: &str| text.parse::<WindowSpec>().ok();
        let spec = |from, to| Some(WindowSpec { from, to });
        assert_eq!(parse("5..9"), spec(Some(Bound::At(5)), Some(Bound::At(9))));
        assert_eq!(
            parse("+1.5ms..+2s"),
            spec(
                Some(Bound::After(1_500_000)),
                Some(Bound::After(2_000_000_000))
            )
        );
        assert_eq!(parse("..+3us"), spec(None, Some(Bound::After(3_000))));
        assert_eq!(parse("-4ns.."), spec(Some(Bound::At(-4)), None));
        for bad in ["5", "a..b", "1.5..2", "1.2345us..", "+..", "1h..2h"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
