//! Whether the GPU waits for launches, in words.

use rank_align::real::real;
use report::human;

use crate::{IdleBound, IdleVerdict, Lack, LaunchKind, Launches, Recorder, percent};

/// Returns whether the GPU waits for launches, as its idle time decides. `recorder` is what recorded them.
pub fn launch(parts: &[&Launches], idle: &IdleVerdict, recorder: Recorder) -> String {
    let sum = |f: fn(&Launches) -> u64| parts.iter().map(|part| f(part)).sum::<u64>();
    let (calls, onto_idle) = (sum(|l| l.calls), sum(|l| l.onto_idle));
    if calls == 0 {
        return format!(
            "Cannot say whether work is launch-bound: no launch call of it is in the trace; \
             record the calls of the host too ({}).",
            Lack::HostEvents.how(recorder)
        );
    }
    let share = |n: u64| 100.0 * real_count(n) / real_count(calls);
    let bound = idle.bound;
    let word = match bound {
        _ if bound.is_launch() => bound.words().to_owned(),
        IdleBound::NotIdle => "Not launch-bound".to_owned(),
        other => format!("{}, not launch-bound", other.words()),
    };
    let causes = idle.causes().into_iter().take(2);
    let causes: Vec<String> = causes
        .map(|(cause, ns)| {
            let part = percent(ns, idle.time.idle_ns).unwrap_or(0.0);
            format!("{} {}", human::percent(part), cause.explanation())
        })
        .collect();
    let causes = match causes.is_empty() {
        true => String::new(),
        false => format!(" ({})", causes.join(", ")),
    };
    // Calls of different kinds take different times: the median of all would be that of none.
    let commonest = |l: &Launches| {
        let rows = l.rows.iter();
        rows.filter(|row| row.stream.is_none() && row.kind != LaunchKind::All)
            .max_by_key(|row| row.times.call.count)
            .map(|row| (row.kind, row.times.clone()))
    };
    let times = match parts {
        [only] => commonest(only),
        _ => None,
    };
    let times = times.map_or_else(String::new, |(kind, times)| {
        format!(
            "; the call of a {} takes {}, after it the {0} waits {} for earlier work (medians)",
            kind.name(),
            human::duration(times.call.median_ns),
            human::duration(times.queued.median_ns)
        )
    });
    format!(
        "{word}: the GPU idles {} of {}{causes}. {} of {} launch calls find their stream idle, {} \
         take longer than the work they launch{times}.",
        human::percent(idle.idle_pct()),
        human::duration(real(idle.span_ns)),
        human::percent(share(onto_idle)),
        human::count(calls),
        human::percent(share(sum(|l| l.longer_than_work))),
    )
}

#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
fn real_count(n: u64) -> f64 {
    n as f64
}
