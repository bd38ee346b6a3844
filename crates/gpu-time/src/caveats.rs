//! Caveats of a GPU time breakdown: coverage, missing events, error bounds.

use report::human;
use trace_model::kernel::LaunchCalls;
use trace_model::{IssueKind, Severity, Trace};

use crate::account::{Account, GpuTime};
use crate::note::Note;
use crate::rules::{Roles, Rules};
use crate::work::{GpuEvent, GpuWork, Selection, WorkKind};

/// Returns the timestamp resolution: the largest step of which all durations of `events` and all
/// starts relative to the first are multiples. `None` for fewer than two events.
pub fn granularity_ns(events: &[GpuEvent]) -> Option<u64> {
    let first = events.first()?.start_ns;
    let mut step = 0;
    for event in events {
        if step == 1 {
            break;
        }
        step = gcd(step, event.start_ns.abs_diff(first));
        step = gcd(step, event.dur_ns().unsigned_abs());
    }
    (events.len() > 1 && step > 0).then_some(step)
}

pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
fn shown(ns: i64) -> String {
    human::duration(ns as f64)
}

/// Limits of a recording that bear on a breakdown of GPU time.
const LIMITS: [&str; 9] = [
    "source_incomplete",
    "events_lost",
    "process_without_work",
    "graph_launches_without_record",
    "graphs_whole",
    "several_devices",
    "device_identity_assumed",
    "export_filtered",
    "covers_part",
];

/// What the caveats of a breakdown are made of.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) selection: Selection,
    /// GPU activities that the rules leave out, if they have a window.
    pub(crate) outside: Option<u64>,
    /// Activities that no call in the trace launched, their time, and the breakdown of the others.
    pub(crate) unlinked: u64,
    pub(crate) unlinked_ns: i64,
    pub(crate) linked: GpuTime,
    /// Activities that start before their call does.
    pub(crate) skewed: u64,
    /// Timestamp resolution.
    pub(crate) step_ns: Option<u64>,
    /// Launches against the work that was recorded.
    pub(crate) launches: LaunchCalls,
    /// Number and time of kernels that communicate by other rules only.
    pub(crate) custom: (u64, i64),
}

/// Returns the caveats of the breakdown of a whole trace. Cost: a look-up of the launch of each GPU
/// activity, and the breakdown of the activities that have one.
pub fn notes(work: &GpuWork<'_>, rules: Rules, events: &[GpuEvent], time: &GpuTime) -> Vec<Note> {
    let mut found = Evidence {
        selection: work.selection(),
        step_ns: granularity_ns(events),
        custom: unseen_collectives(work, rules, events),
        launches: launch_calls(work),
        ..Evidence::default()
    };
    if rules == Rules::Hta {
        found.outside = Some((work.events().len() as u64).saturating_sub(events.len() as u64));
    }
    let (mut linked, mut roles) = (Account::new(), Roles::new(work, rules));
    for event in events {
        match work.launch_of(event) {
            Some(call) => {
                found.skewed += u64::from(call.ts().nanos() > event.start_ns);
                let role = roles.of(event);
                linked.add(event.kind, role, event.interval());
            }
            None => {
                found.unlinked += 1;
                found.unlinked_ns += event.dur_ns();
            }
        }
    }
    if found.unlinked > 0 {
        found.linked = linked.finish();
    }
    notes_of(work.trace(), rules, time, &found)
}

/// Counts launches without work. Large exports of Nsight Systems are passed on activity by activity, so that they cannot be counted;
/// an answer does not depend on the size, and such exports tell themselves what they lost.
pub fn launch_calls(work: &GpuWork<'_>) -> LaunchCalls {
    match work.trace().meta().is_nsys() {
        true => LaunchCalls::default(),
        false => work.index().launch_calls(),
    }
}

/// Returns the caveats that `found` gives.
pub(crate) fn notes_of(trace: &Trace, rules: Rules, time: &GpuTime, found: &Evidence) -> Vec<Note> {
    let mut notes = vec![Note::new(
        "rules",
        format!("{}: {}", rules.name(), rules.explanation()),
    )];
    let how = match found.selection {
        Selection::Category => "categories kernel, gpu_memcpy and gpu_memset",
        Selection::Vocabulary => {
            "found by names and rows: the trace has none of PyTorch's categories of GPU activity"
        }
    };
    notes.push(
        Note::new(
            "counted",
            format!(
                "{} kernels, {} memcpy, {} memset of {} events ({how})",
                human::count(time.kernels),
                human::count(time.memcpy),
                human::count(time.memset),
                human::count(trace.meta().events)
            ),
        )
        .count(time.gpu_events),
    );
    let limits = trace.meta().limits.iter();
    let limits = limits.filter(|limit| LIMITS.contains(&limit.code));
    notes.extend(limits.map(|limit| Note::new(limit.code, limit.text.clone()).count(limit.count)));
    if let Some(outside) = found.outside {
        let text = "events that these rules leave out: before or after the steps";
        notes.push(Note::new("window", text).count(outside));
    }
    if found.unlinked > 0 {
        let without = &found.linked;
        let busy = time.busy_ns - without.busy_ns;
        notes.push(
            Note::new(
                "unlinked",
                format!(
                    "launched by no call in the trace, {} of work; without it busy would be \
                     {} less and the span {} less",
                    shown(found.unlinked_ns),
                    shown(busy),
                    shown(time.span_ns - without.span_ns)
                ),
            )
            .count(found.unlinked)
            .ns(busy),
        );
    }
    if found.launches.without_work > 0 {
        let text = format!(
            "of {} launches have no GPU activity: it was lost, or the recording ends before it; busy is a lower bound, and idle an \
             upper one",
            human::count(found.launches.calls)
        );
        let note = Note::new("launches_without_work", text);
        notes.push(note.count(found.launches.without_work));
    }
    if found.skewed > 0 {
        let text = "start before their launch call does: the clocks of host and device disagree";
        notes.push(Note::new("skewed", text).count(found.skewed));
    }
    let concurrent = time.total_dur_ns - time.busy_ns;
    if concurrent > 0 {
        let text = format!(
            "durations add up to {} more than busy: work ran at the same time",
            shown(concurrent)
        );
        notes.push(Note::new("concurrent", text).ns(concurrent));
    }
    if time.zero_ns_events > 0 {
        let text = "have a duration of 0 ns: they are counted and add no busy time";
        notes.push(Note::new("zero_duration", text).count(time.zero_ns_events));
    }
    if let Some(step) = found.step_ns {
        let edges = i64::try_from(time.gpu_events)
            .unwrap_or(i64::MAX)
            .saturating_mul(2);
        let step = i64::try_from(step).unwrap_or(i64::MAX);
        let most = step
            .saturating_sub(1)
            .saturating_mul(edges)
            .min(time.span_ns);
        // An error bound close to the value itself is of no use.
        let is_useful = most < time.idle_ns.max(time.busy_ns) / 10;
        let text = match step {
            1 => "the clock counts nanoseconds: nothing is rounded".to_owned(),
            _ if !is_useful => format!("timestamp resolution {step} ns"),
            _ => format!(
                "timestamp resolution {step} ns: if all rounding went one way, busy and idle are off by {}",
                shown(most)
            ),
        };
        notes.push(Note::new("clock", text).ns(step));
    }
    let custom = found.custom;
    if custom.0 > 0 {
        let text = format!(
            "look like collectives of another kind ({} of work) and count as computation; \
             --rules extended counts them as communication",
            shown(custom.1)
        );
        notes.push(
            Note::new("custom_collectives", text)
                .count(custom.0)
                .ns(custom.1),
        );
    }
    notes.extend(damage(trace));
    notes
}

/// Returns notes on what the file lost: damaged or cut records, and events that could not be kept. Cost: linear in the kinds of issues.
#[must_use]
pub fn damage(trace: &Trace) -> Vec<Note> {
    let mut notes = Vec::new();
    for issue in trace.diagnostics().issues() {
        let lost = issue.kind == IssueKind::NegativeDuration
            || issue.kind.severity() == Severity::DataLoss
            || matches!(
                issue.kind,
                IssueKind::JsonNoDuration
                    | IssueKind::JsonNoTimestamp
                    | IssueKind::JsonEventSkipped
                    | IssueKind::OverlapDropped
            );
        if lost {
            notes.push(Note::new(issue.kind.name(), issue.kind.explanation()).count(issue.count));
        }
    }
    notes
}

/// Returns the number and time of kernels that are communication by [`Rules::Extended`] but not by
/// `rules`.
fn unseen_collectives(work: &GpuWork<'_>, rules: Rules, events: &[GpuEvent]) -> (u64, i64) {
    use crate::rules::Role::Communication;
    let (mut by_rules, mut extended) = (Roles::new(work, rules), Roles::new(work, Rules::Extended));
    let kernels = events.iter().filter(|e| e.kind == WorkKind::Kernel);
    kernels
        .filter(|e| extended.of(e) == Communication && by_rules.of(e) != Communication)
        .fold((0, 0), |(n, ns), e| (n + 1, ns + e.dur_ns()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_common_step() {
        assert_eq!(gcd(0, 0), 0);
        assert_eq!(gcd(0, 5000), 5000);
        assert_eq!(gcd(3000, 5000), 1000);
    }
}
