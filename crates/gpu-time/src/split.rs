//! Breakdowns of parts: of a window, by stream, by step.

use std::collections::BTreeMap;
use std::ops::Range;
use std::str::FromStr;

use serde::Serialize;
use trace_model::kernel::{Activity, NamePattern};
use trace_model::{DeviceId, StreamId, TimeRange, Timestamp};

use crate::account::{Account, GpuTime};
use crate::error::Error;
use crate::marks::step_marks;
use crate::rules::Roles;
use crate::work::{GpuEvent, GpuWork};

/// A window in text form: `A..B`. Each end is an instant of the trace's clock in nanoseconds or,
/// with `+` in front, a time after the first GPU activity, with an optional unit: `+1.5ms..+2ms`. A
/// missing end is the first or last instant of the GPU activity.
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
        let (from, to) = (bound(from)?, bound(to)?);
        let is_inverted = match (from, to) {
            (Some(Bound::At(from)), Some(Bound::At(to)))
            | (Some(Bound::After(from)), Some(Bound::After(to))) => to <= from,
            _ => false,
        };
        if is_inverted {
            let text = text.to_owned();
            return Err(Error::InvertedWindow { text });
        }
        Ok(Self { from, to })
    }
}

fn bound(text: &str) -> Option<Bound> {
    match text.strip_prefix('+') {
        Some(after) => Some(Bound::After(nanos(after)?)),
        None => Some(Bound::At(nanos(text)?)),
    }
}

/// Parses a decimal number with a unit of time; the default unit is nanoseconds.
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
    /// Returns the window in the time of a trace; `None` without GPU activity to count from.
    ///
    /// # Errors
    /// Returns [`Error::InvertedWindow`] if the window does not end after it starts. This depends
    /// on the trace if one end is absolute and the other counts from the first GPU activity.
    pub fn resolve(&self, work: &GpuWork<'_>) -> Result<Option<TimeRange>, Error> {
        let Some(span) = work.span() else {
            return Ok(None);
        };
        let at = |bound: Option<Bound>, default: Timestamp| match bound {
            None => default.nanos(),
            Some(Bound::At(ns)) => ns,
            Some(Bound::After(ns)) => span.start.nanos().saturating_add(ns),
        };
        let (from, to) = (at(self.from, span.start), at(self.to, span.end));
        if to <= from && self.from.is_some() && self.to.is_some() {
            let text = format!("{from}..{to}");
            return Err(Error::InvertedWindow { text });
        }
        Ok(Some(TimeRange::new(
            Timestamp::from_nanos(from),
            Timestamp::from_nanos(to),
        )))
    }
}

pub use trace_model::step_name::STEP_PATTERNS;

/// A step: an interval of host time, marked by an annotation or found by another analysis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Step {
    /// Name.
    pub name: String,
    /// Time range.
    #[serde(flatten)]
    pub range: TimeRange,
    /// Reason why only a part of it was recorded, if so.
    pub partial: Option<String>,
    /// Index among all steps of the trace, if it was chosen from them.
    pub number: Option<usize>,
    /// From the end of the work of the step before to the end of its own, if the caller knows: step times that add up to the
    /// window. Step times of `critical-path` are such.
    #[serde(skip)]
    pub took: Option<TimeRange>,
}

impl Step {
    /// Creates a complete step.
    pub fn new(name: impl Into<String>, range: TimeRange) -> Self {
        Self {
            name: name.into(),
            range,
            partial: None,
            number: None,
            took: None,
        }
    }

    /// Sets the step time.
    #[must_use]
    pub fn took(mut self, range: TimeRange) -> Self {
        self.took = Some(range);
        self
    }

    /// Sets the reason why only a part of the step was recorded.
    #[must_use]
    pub fn partial(mut self, why: Option<impl Into<String>>) -> Self {
        self.partial = why.map(Into::into);
        self
    }
}

/// Returns the steps of a trace in ascending time: outermost slices of the host whose name matches
/// `pattern` (a glob, alternatives separated by `|`), or without a pattern the marks that engines
/// record ([`step_marks`]).
pub fn steps(work: &GpuWork<'_>, pattern: Option<&str>) -> Vec<Step> {
    match pattern {
        Some(pattern) => steps_of(work, pattern),
        None => step_marks(work.index(), None),
    }
}

fn steps_of(work: &GpuWork<'_>, pattern: &str) -> Vec<Step> {
    let patterns: Vec<NamePattern> = pattern.split('|').map(NamePattern::glob).collect();
    let trace = work.trace();
    let mut known: Vec<Option<bool>> = vec![None; trace.strings().len()];
    let mut out: Vec<Step> = Vec::new();
    for slice in trace.slices() {
        let activity = work.index().activity(slice);
        let fits = !activity.is_device_work() && activity != Activity::GpuAnnotation;
        let Some(name) = slice.name_id().filter(|_| fits) else {
            continue;
        };
        let matches = *known[name.index()].get_or_insert_with(|| {
            let name = trace.text(name);
            patterns.iter().any(|p| p.matches(name))
        });
        let range = slice.range();
        if matches && out.last().is_none_or(|last| range.start >= last.range.end) {
            out.push(Step::new(trace.text(name), range));
        }
    }
    out
}

/// Rule that assigns GPU activity to a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum StepRule {
    /// The launch API call starts in the step.
    #[default]
    Launch,
    /// The activity runs in the step; it is cut at the ends.
    Time,
}

/// Granularity of a split by place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PlaceKind {
    /// Device.
    Device,
    /// Stream of a device.
    Stream,
}

/// Options of a split.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Split {
    /// `Some` to compute a breakdown for each device or stream.
    pub by_place: Option<PlaceKind>,
    /// Steps to compute a breakdown for, in ascending time and without overlap.
    pub steps: Option<Vec<Step>>,
    /// Rule that assigns GPU activity to a step.
    pub step_rule: StepRule,
    /// Window to which the analysis is limited; activity is cut at its ends.
    pub window: Option<TimeRange>,
}

impl Split {
    /// Returns the steps; empty unless the split is by step.
    pub(crate) fn steps(&self) -> &[Step] {
        self.steps.as_deref().unwrap_or(&[])
    }

    /// Returns the index range of steps that the time `[start, end)` touches.
    pub(crate) fn touched(&self, (start, end): (i64, i64)) -> Range<usize> {
        let steps = self.steps();
        let from = steps.partition_point(|s| s.range.end.nanos() <= start);
        let to = steps.partition_point(|s| s.range.start.nanos() < end.max(start));
        // An activity of zero length belongs to the step that begins with it.
        let at_start = |s: &Step| start == end && s.range.start.nanos() == start;
        let to = to + usize::from(steps.get(to).is_some_and(at_start));
        from..to.max(from)
    }

    /// Returns the index of the step that contains an instant.
    pub(crate) fn step_at(&self, at: Timestamp) -> Option<usize> {
        let steps = self.steps();
        let last = steps.partition_point(|s| s.range.start <= at);
        let last = last.checked_sub(1)?;
        steps.get(last)?.range.contains(at).then_some(last)
    }

    /// Returns the index of the step in which the launch API call of `event` starts.
    pub(crate) fn launched_in(&self, work: &GpuWork<'_>, event: &GpuEvent) -> Option<usize> {
        self.step_at(work.launch_of(event)?.ts())
    }

    /// Returns the part of a step's time in the window; `None` if they do not touch.
    pub(crate) fn in_window(&self, step: TimeRange) -> Option<TimeRange> {
        match self.window {
            None => Some(step),
            Some(window) => step.intersect(window),
        }
    }
}

/// Breakdown of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Part {
    /// Index of the step, for splits by step; `None` for activity outside of all steps.
    pub step: Option<usize>,
    /// Device, for splits by device or stream.
    pub device: Option<DeviceId>,
    /// Stream, for splits by stream.
    pub stream: Option<StreamId>,
    /// Breakdown.
    pub time: GpuTime,
}

type Key = (usize, Option<DeviceId>, Option<StreamId>);

/// Returns the breakdowns of the parts of `events`: all steps in their order, then activity outside
/// of all steps, each with its streams in ascending order. Without a split, a single breakdown.
///
/// Cost: one pass over the events; for steps also a look-up of each launch.
pub fn split(
    work: &GpuWork<'_>,
    roles: &mut Roles<'_, '_>,
    events: &[GpuEvent],
    how: &Split,
) -> Vec<Part> {
    let fresh = |range: Option<TimeRange>| match (range, how.window) {
        (None, None) => Account::new(),
        (Some(range), None) | (None, Some(range)) => Account::within(range),
        (Some(a), Some(b)) => {
            Account::within(a.intersect(b).unwrap_or(TimeRange::new(a.start, a.start)))
        }
    };
    let mut parts: BTreeMap<Key, Account> = BTreeMap::new();
    let steps = how.steps();
    let cut = |at: usize| match how.step_rule {
        StepRule::Launch => None,
        StepRule::Time => steps.get(at).map(|step| step.range),
    };
    if how.by_place.is_none() {
        if how.steps.is_none() {
            parts.insert((0, None, None), fresh(None));
        }
        // A step without GPU activity is a part too.
        for (at, step) in steps.iter().enumerate() {
            if how.in_window(step.range).is_some() {
                parts.insert((at, None, None), fresh(cut(at)));
            }
        }
    }
    for event in events {
        let role = roles.of(event);
        let device = how.by_place.map(|_| event.device);
        let is_stream = how.by_place == Some(PlaceKind::Stream);
        let stream = is_stream.then_some(event.stream);
        let mut add = |at: usize| {
            let account = parts
                .entry((at, device, stream))
                .or_insert_with(|| fresh(cut(at)));
            account.add(event.kind, role, event.interval());
        };
        match how.step_rule {
            _ if how.steps.is_none() => add(0),
            StepRule::Launch => add(how.launched_in(work, event).unwrap_or(steps.len())),
            StepRule::Time => {
                let touched = how.touched(event.interval());
                // Only activity that touches no step is outside of all steps: the cut-off rest of
                // other activity belongs nowhere.
                match touched.is_empty() {
                    true => add(steps.len()),
                    false => touched.for_each(add),
                }
            }
        }
    }
    let parts = parts.into_iter().filter(|(_, account)| {
        how.window.is_none() || account.finish().gpu_events > 0 || how.by_place.is_none()
    });
    parts
        .map(|((at, device, stream), account)| Part {
            step: (how.steps.is_some() && at < steps.len()).then_some(at),
            device,
            stream,
            time: account.finish(),
        })
        .collect()
}

/// Returns the events of each part that `how` selects, uncut and in ascending time: events that
/// start in the window and, for a step, are launched or start in it, by its rule. Steps come first,
/// then events outside of all steps; without steps there is one part. The events are not split by
/// device or stream.
///
/// Cost: one pass over the events; for steps also a look-up of each launch.
pub fn events_by_part(
    work: &GpuWork<'_>,
    events: &[GpuEvent],
    how: &Split,
) -> Vec<(Option<usize>, Vec<GpuEvent>)> {
    let steps = how.steps();
    let mut parts: Vec<Vec<GpuEvent>> = vec![Vec::new(); steps.len() + 1];
    for event in events {
        let start = Timestamp::from_nanos(event.start_ns);
        if how.window.is_some_and(|window| !window.contains(start)) {
            continue;
        }
        let at = match how.step_rule {
            StepRule::Launch => how.launched_in(work, event),
            StepRule::Time => how.step_at(start),
        };
        if let Some(part) = parts.get_mut(at.unwrap_or(steps.len())) {
            part.push(*event);
        }
    }
    let parts = parts.into_iter().enumerate();
    parts
        .filter(|(at, events)| match steps.get(*at) {
            Some(step) => how.in_window(step.range).is_some(),
            None => how.steps.is_none() || !events.is_empty(),
        })
        .map(|(at, events)| ((at < steps.len()).then_some(at), events))
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
