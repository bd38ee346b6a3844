//! Builds a set, a window and a filter from the arguments.

use std::path::PathBuf;

use anyhow::Context as _;
use cli::{OrExit as _, VerbosityArgs, usage};
use rocpd_db::{
    Bound, Edge, Filter, Occurrence, OpenOptions, RocpdSet, TimeBounds, TimePoint, Window,
    WindowRequest,
};

use crate::args::{FilterArgs, SharedArgs, WindowArgs};
use crate::console;

/// Opens the inputs; warnings go to standard error.
pub(crate) fn open(shared: &SharedArgs) -> anyhow::Result<RocpdSet> {
    let inputs = shared.input.paths();
    check_inputs(&inputs, shared.compat)?;
    let mut options = OpenOptions::default();
    options.keep_going = shared.keep_going;
    let set = RocpdSet::open(&inputs, &options)?;
    tell(&set, shared.verbosity);
    Ok(set)
}

/// Reports what was noticed while opening.
pub(crate) fn tell(set: &RocpdSet, verbosity: VerbosityArgs) {
    for note in set.notes() {
        verbosity.note(format!("note: {note}"));
    }
    for warning in set.warnings() {
        verbosity.note(format!("warning: {warning}"));
    }
}

/// Refuses inputs that do not exist or never end, before any other work.
pub(crate) fn check_inputs(inputs: &[PathBuf], compat: bool) -> anyhow::Result<()> {
    for input in inputs {
        let text = input.to_string_lossy();
        if !input.exists() && !text.contains(['*', '?']) {
            let text = format!("File '{text}' does not exist.");
            return Err(match compat {
                true => Verbatim { text, code: 2 }.into(),
                false => usage(text),
            });
        }
        if input.exists() && !input.is_file() && !input.is_dir() {
            return Err(usage(format!(
                "'{text}' is no file or folder: databases are read in any order, so a pipe or device will not do"
            )));
        }
    }
    Ok(())
}

/// An error in the reference's words, with its exit code.
#[derive(Debug)]
pub(crate) struct Verbatim {
    pub(crate) text: String,
    pub(crate) code: u8,
}

impl std::fmt::Display for Verbatim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Verbatim {}

/// Reports rows that were left out, after the work.
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

/// Returns the requested window, if any; prints the same messages as the reference.
pub(crate) fn window(
    set: &RocpdSet,
    args: &WindowArgs,
    shared: &SharedArgs,
) -> anyhow::Result<Option<Window>> {
    let sides = [&args.start, &args.end, &args.start_marker, &args.end_marker];
    if sides.iter().all(|side| side.is_none()) {
        return Ok(None);
    }
    let Some(before) = set.time_bounds(&Filter::default())? else {
        shared
            .verbosity
            .note("warning: no timed records: the time window has no effect");
        return Ok(None);
    };
    let say = |line: String| -> anyhow::Result<()> {
        match shared.compat {
            true => console::print(&format!("{line}\n"))?,
            false => shared.verbosity.note(line),
        }
        Ok(())
    };
    say(format!(
        "#  Initial time bounds: {} : {} nsec (delta={} nsec)",
        before.first_ns,
        before.last_ns,
        before.span_ns()
    ))?;
    if shared.compat {
        refused(args, before)?;
    }
    let mut request = WindowRequest::default();
    request.start =
        bound(args.start.as_ref(), args.start_marker.as_ref()).or_exit(cli::Outcome::Usage)?;
    request.end =
        bound(args.end.as_ref(), args.end_marker.as_ref()).or_exit(cli::Outcome::Usage)?;
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
    let (window, warnings) = set.window(&request)?;
    for warning in warnings {
        shared.verbosity.note(format!("warning: {warning}"));
    }
    let after = set.time_bounds(&Filter::in_window(window))?;
    match after {
        Some(after) => {
            say(format!(
                "# Windowed time bounds: {} : {} nsec (delta={} nsec)",
                after.first_ns,
                after.last_ns,
                after.span_ns()
            ))?;
            say(format!(
                "# Time windowing reduced the duration by {:6.2}%",
                reduction_pct(before.span_ns(), after.span_ns())
            ))?;
        }
        None => shared
            .verbosity
            .note("warning: no records lie in the time window"),
    }
    Ok(Some(window))
}

/// Returns an error for windows that the reference refuses, in its words; it has no offsets, so
/// those are not checked.
fn refused(args: &WindowArgs, bounds: TimeBounds) -> anyhow::Result<()> {
    let refuse = |text: String| anyhow::Error::new(Verbatim { text, code: 1 });
    let time = |side: &Option<String>, open: i64| -> anyhow::Result<Option<f64>> {
        let Some(text) = side.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(Some(real(open)));
        };
        if text.contains('%') {
            let number = text.replace('%', "");
            let share: f64 = number
                .trim()
                .parse()
                .map_err(|_| refuse(format!("could not convert string to float: '{number}'")))?;
            if !(0.0..=1.0).contains(&(share / 100.0)) {
                return Err(refuse(format!(
                    "ERROR: Invalid percentage '{text}' - must be between '0%' and '100%'"
                )));
            }
            let span = real(bounds.last_ns) - real(bounds.first_ns);
            return Ok(Some(real(bounds.first_ns) + span * (share / 100.0)));
        }
        match (TimePoint::parse(text), text.trim().parse()) {
            (Ok(TimePoint::Offset(_)), _) => Ok(None),
            (_, Ok(time)) => Ok(Some(time)),
            _ => Err(refuse(format!(
                "ERROR: Invalid time value '{text}' - must be percentage (e.g., '50%') or a number (nanoseconds since epoch) "
            ))),
        }
    };
    let start = time(&args.start, bounds.first_ns)?;
    let end = time(&args.end, bounds.last_ns)?;
    let has_marker = args.start_marker.is_some() || args.end_marker.is_some();
    match (start, end) {
        (Some(start), Some(end))
            if !has_marker && end.partial_cmp(&start) != Some(std::cmp::Ordering::Greater) =>
        {
            Err(refuse(format!(
                "ERROR: Invalid time range - end time ({end:?}) must be greater than start time ({start:?})"
            )))
        }
        _ => Ok(()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "the reference counts in reals")]
fn real(time_ns: i64) -> f64 {
    time_ns as f64
}

#[expect(clippy::cast_precision_loss, reason = "a share for display")]
fn reduction_pct(before_ns: i64, after_ns: i64) -> f64 {
    if before_ns == 0 {
        return 0.0;
    }
    100.0 * (1.0 - after_ns as f64 / before_ns as f64)
}

/// Returns the filter of the arguments, with a window.
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
