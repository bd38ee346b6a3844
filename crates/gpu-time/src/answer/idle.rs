//! Why the GPU idles, in words.

use std::collections::{BTreeMap, BTreeSet};

use rank_align::real::real;
use report::human;

use crate::{Idle, IdleCause, IdleVerdict, LONG_CALL_NS, percent};

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

/// Returns what the threads that launch work did in the longest gaps before they launched it.
pub fn host_in_gaps(parts: &[&Idle]) -> Option<String> {
    let mut by_host: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
    let gaps = || parts.iter().flat_map(|idle| &idle.gaps);
    for gap in gaps() {
        let waited = gap.time.host_wait_ns + gap.time.input_wait_ns;
        let is_host = matches!(gap.cause(), IdleCause::HostWait | IdleCause::InputWait);
        if let Some(host) = gap.host.as_deref().filter(|_| is_host) {
            let entry = by_host.entry(host).or_default();
            entry.0 += 1;
            entry.1 += waited;
        }
    }
    let (host, (count, ns)) = by_host.into_iter().max_by_key(|(_, (_, ns))| *ns)?;
    Some(format!(
        "in {count} of the {} longest gaps ({}) the launching thread was mostly in {host}",
        gaps().count(),
        human::duration(real(ns)),
    ))
}
