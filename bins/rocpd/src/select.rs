//! From arguments to a set, a window and a filter.

use anyhow::Context as _;
use rocpd_db::{
    Bound, Edge, Filter, Occurrence, OpenOptions, RocpdSet, TimePoint, Window, WindowRequest,
};
use shell::{VerbosityArgs, usage};

use crate::args::{FilterArgs, SharedArgs, WindowArgs};
use crate::console;

/// Opens the inputs; warnings go to standard error.
pub(crate) fn open(shared: &SharedArgs) -> anyhow::Result<RocpdSet> {
    for input in &shared.input {
        let text = input.to_string_lossy();
        if !input.exists() && !text.contains(['*', '?']) {
            return Err(usage(format!("File '{text}' does not exist.")));
        }
    }
    let mut options = OpenOptions::default();
    options.keep_going = shared.keep_going;
    let set = RocpdSet::open(&shared.input, &options)?;
    for warning in set.warnings() {
        shared.verbosity.note(format!("warning: {warning}"));
    }
    Ok(set)
}

/// Rows that were left out, after the work.
pub(crate) fn report_issues(set: &RocpdSet, verbosity: VerbosityArgs) {
    for issue in set.issues() {
        verbosity.note(format!("warning: {issue}"));
    }
}

fn bound(time: Option<&String>, marker: Option<&String>) -> anyhow::Result<Bound> {
    Ok(match (time, marker) {
        (Some(time), _) => Bound::Time(TimePoint::parse(time)?),
        (None, Some(message)) => Bound::Marker(message.clone()),
        (None, None) => Bound::Open,
    })
}

/// The window asked for, if any; says what it does as the reference does.
pub(crate) fn window(
    set: &RocpdSet,
    args: &WindowArgs,
    shared: &SharedArgs,
) -> anyhow::Result<Option<Window>> {
    let sides = [&args.start, &args.end, &args.start_marker, &args.end_marker];
    if sides.iter().all(|side| side.is_none()) {
        return Ok(None);
    }
    let mut request = WindowRequest::default();
    request.start = bound(args.start.as_ref(), args.start_marker.as_ref())?;
    request.end = bound(args.end.as_ref(), args.end_marker.as_ref())?;
    request.occurrence = match args.marker_occurrence.as_deref() {
        None => Occurrence::Only,
        Some("first") => Occurrence::First,
        Some("last") => Occurrence::Last,
        Some(number) => {
            Occurrence::Nth(number.parse().ok().filter(|n| *n > 0).with_context(|| {
                format!("--marker-occurrence {number}: a number from 1, first or last")
            })?)
        }
    };
    let inclusive = ["true", "t", "yes", "1"]
        .iter()
        .any(|yes| args.inclusive.eq_ignore_ascii_case(yes));
    request.edge = match (args.clip, inclusive) {
        (true, _) => Edge::Clipped,
        (false, true) => Edge::Inside,
        (false, false) => Edge::Overlapping,
    };
    let Some(before) = set.time_bounds(&Filter::default())? else {
        shared
            .verbosity
            .note("warning: no timed records: the time window has no effect");
        return Ok(None);
    };
    let (window, warnings) = set.window(&request)?;
    for warning in warnings {
        shared.verbosity.note(format!("warning: {warning}"));
    }
    let after = set.time_bounds(&Filter::in_window(window))?;
    let mut lines = format!(
        "#  Initial time bounds: {} : {} nsec (delta={} nsec)\n",
        before.first_ns,
        before.last_ns,
        before.span_ns()
    );
    match after {
        Some(after) => {
            lines += &format!(
                "# Windowed time bounds: {} : {} nsec (delta={} nsec)\n",
                after.first_ns,
                after.last_ns,
                after.span_ns()
            );
            lines += &format!(
                "# Time windowing reduced the duration by {:6.2}%\n",
                reduction_pct(before.span_ns(), after.span_ns())
            );
        }
        None => shared
            .verbosity
            .note("warning: no records lie in the time window"),
    }
    if shared.compat {
        console::print(&lines)?;
    } else {
        shared.verbosity.note(lines.trim_end());
    }
    Ok(Some(window))
}

#[expect(clippy::cast_precision_loss, reason = "a share for display")]
fn reduction_pct(before_ns: i64, after_ns: i64) -> f64 {
    if before_ns == 0 {
        return 0.0;
    }
    100.0 * (1.0 - after_ns as f64 / before_ns as f64)
}

/// The filter of the arguments, with a window.
pub(crate) fn filter(args: &FilterArgs, window: Option<Window>) -> Filter {
    fn list<T: Clone>(values: &[T]) -> Option<Vec<T>> {
        (!values.is_empty()).then(|| values.to_vec())
    }
    Filter {
        window,
        domains: list(&args.keep_domain),
        without_domains: args.drop.clone(),
        categories: list(&args.include_category),
        without_categories: args.exclude_category.clone(),
        name: args.name_regex.clone(),
        guids: list(&args.guids),
        pids: list(&args.pids),
        ranks: list(&args.ranks),
        hosts: list(&args.nodes),
        agents: list(&args.agents),
        streams: list(&args.streams),
        min_duration_ns: args.min_duration,
        texts: false,
    }
}
