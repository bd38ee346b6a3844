//! Why the GPU idles, in words.

use std::collections::{BTreeMap, BTreeSet};

use rank_align::real::real;
use report::human;

use trace_model::Waiting;

use crate::{Gap, Idle, IdleCause, IdleVerdict, LONG_CALL_NS, Lack, Recorder, percent};

/// Returns the bound of the GPU, how long no GPU ran anything, and why.
pub fn idle(parts: &[&Idle]) -> String {
    let verdict = IdleVerdict::of(parts.iter().copied());
    let (span, idle) = (verdict.span_ns, verdict.time.idle_ns);
    let lanes = parts.iter().flat_map(|idle| &idle.rows);
    let devices: BTreeSet<_> = lanes.filter_map(|row| row.device).collect();
    let who = match devices.len() {
        0 | 1 => "the GPU is".to_owned(),
        count => format!("with {count} GPUs, all of them together are"),
    };
    if idle == 0 && devices.len() > 1 {
        return format!(
            "At every instant at least one of {} GPUs runs; how long each is idle is below.",
            devices.len()
        );
    }
    if idle == 0 {
        return "The GPU is never idle between its first and its last activity.".to_owned();
    }
    let share = |ns: i64, of: i64| human::percent(percent(ns, of).unwrap_or(0.0));
    let causes = verdict.causes().into_iter().take(2);
    let causes: Vec<String> = causes
        .map(|(cause, ns)| format!("{} {}", share(ns, idle), cause.explanation()))
        .collect();
    let long = |cause: IdleCause| {
        let gaps = parts.iter().flat_map(|idle| &idle.gaps);
        let found = gaps.filter(|gap| gap.cause() == cause && gap.time.of(cause) > LONG_NS);
        found.max_by_key(|gap| gap.time.of(cause))
    };
    let longest = [IdleCause::LaunchCall, IdleCause::Blocked]
        .into_iter()
        .filter_map(|cause| Some((cause, long(cause)?)))
        .max_by_key(|(cause, gap)| gap.time.of(*cause));
    let longest = longest.map_or_else(String::new, |(cause, gap)| {
        let call = gap.call.as_deref().unwrap_or("its launch call");
        let what = match cause {
            IdleCause::LaunchCall => format!("in one {call}"),
            _ => format!("between one {call} and the start of its work"),
        };
        let time = human::duration(real(gap.time.of(cause)));
        format!(" {time} of it is a single gap {what}: not launch latency.")
    });
    format!(
        "{}: {who} idle {} of {} ({}): {}.{longest}",
        verdict.bound.words(),
        human::duration(real(idle)),
        human::duration(real(span)),
        share(idle, span),
        causes.join(", "),
    )
}

/// A single gap in a call, or of a blocked stream, that is worth a sentence.
const LONG_NS: i64 = LONG_CALL_NS;

/// Returns what the threads that launch work did in the longest gaps before they launched it. `recorder` is what recorded them.
pub fn host_in_gaps(parts: &[&Idle], recorder: Recorder) -> Option<String> {
    let mut by_host: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
    let gaps = || parts.iter().flat_map(|idle| &idle.gaps);
    let waited = |gap: &Gap| gap.time.host_wait_ns + gap.time.input_wait_ns;
    let is_host = |gap: &Gap| matches!(gap.cause(), IdleCause::HostWait | IdleCause::InputWait);
    for gap in gaps().filter(|gap| is_host(gap)) {
        if let Some(host) = gap.host.as_deref() {
            let entry = by_host.entry(host).or_default();
            entry.0 += 1;
            entry.1 += waited(gap);
        }
    }
    let unrecorded = || gaps().filter(|gap| gap.unrecorded && is_host(gap));
    let unrecorded_ns: i64 = unrecorded().map(waited).sum();
    let found = by_host.into_iter().max_by_key(|(_, (_, ns))| *ns);
    let found = found.filter(|(_, (_, ns))| *ns >= unrecorded_ns);
    let of = |count: usize, ns: i64| {
        let (all, time) = (gaps().count(), human::duration(real(ns)));
        format!("in {count} of the {all} longest gaps ({time})")
    };
    match found {
        Some((host, (count, ns))) => {
            let verb = match Waiting::of_own_time(host.split(" in ").next().unwrap_or(host)) {
                Some(_) => "waited",
                None => "was",
            };
            let which = of(count, ns);
            Some(format!(
                "{which} the launching thread {verb} mostly in {host}"
            ))
        }
        None if unrecorded_ns > 0 => Some(format!(
            "{} no function or operator is recorded on the launching thread for most of the time: \
             record Python functions to see what it did ({})",
            of(unrecorded().count(), unrecorded_ns),
            Lack::PythonFunctions.how(recorder)
        )),
        None => None,
    }
}
