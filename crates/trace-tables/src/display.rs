//! Displays names and numbers of the store.

use trace_model::{Process, Slice, StrId, Thread, Trace, Track, TrackKind};

use crate::TableOptions;

/// Name that the reference shows for a JSON event without a name.
const NO_NAME: &str = "[No name]";

/// Returns `true` if the trace comes from JSON events.
pub(crate) fn is_json(trace: &Trace) -> bool {
    trace.meta().format == "chrome-json"
}

/// Displays the names of slices.
pub(crate) struct SliceNames {
    /// `true` to show a placeholder for missing names.
    fill: bool,
    /// `true` to truncate at NUL.
    cut: bool,
}

impl SliceNames {
    pub(crate) fn new(trace: &Trace, options: &TableOptions) -> Self {
        Self {
            fill: options.compat && is_json(trace),
            cut: options.compat,
        }
    }

    pub(crate) fn of<'t>(&self, slice: Slice<'t>) -> Option<&'t str> {
        let name = slice.name().map(|name| text(name, self.cut));
        name.or_else(|| {
            let filled = self.fill
                && match slice.track().kind {
                    TrackKind::Thread | TrackKind::ThreadOverflow => true,
                    // Async begins get a placeholder, async instants do not.
                    TrackKind::GlobalAsync | TrackKind::ProcessAsync => {
                        slice.dur().is_none_or(|d| d.get() != 0)
                    }
                    _ => false,
                };
            filled.then_some(NO_NAME)
        })
    }
}

/// Returns a text as displayed: the reference truncates at NUL.
pub(crate) fn text(text: &str, cut: bool) -> &str {
    match text.find('\0') {
        Some(end) if cut => &text[..end],
        _ => text,
    }
}

/// Returns the name of a track; tracks of threads are named by their thread.
pub(crate) fn track_name(track: &Track) -> Option<StrId> {
    match track.kind {
        TrackKind::Thread | TrackKind::ThreadOverflow => None,
        _ => track.name,
    }
}

/// Returns the process of a track: its own, or that of its thread.
pub(crate) fn process_of<'t>(trace: &'t Trace, track: &Track) -> Option<&'t Process> {
    let of_thread = || trace.thread(track.thread?).process;
    track.process.or_else(of_thread).map(|id| trace.process(id))
}

/// Returns a process number as displayed.
pub(crate) fn pid(trace: &Trace, process: &Process, options: &TableOptions) -> i64 {
    number(trace, process.pid.0, options)
}

/// Returns a thread number as displayed.
pub(crate) fn tid(trace: &Trace, thread: &Thread, options: &TableOptions) -> i64 {
    number(trace, thread.tid.0, options)
}

/// Converts a number as displayed: the reference stores JSON numbers in 32 unsigned bits, and 0 for
/// numbers that do not fit.
fn number(trace: &Trace, written: i64, options: &TableOptions) -> i64 {
    if options.compat && is_json(trace) && u32::try_from(written).is_err() {
        0
    } else {
        written
    }
}

/// Returns the unit of a counter: as the producer wrote it, or the name of a known one.
pub(crate) fn unit<'t>(trace: &'t Trace, track: &Track) -> Option<&'t str> {
    use trace_model::Unit;
    if let Some(id) = track.unit_name {
        return Some(trace.text(id));
    }
    match track.unit? {
        Unit::Nanos => Some("ns"),
        Unit::Bytes => Some("bytes"),
        Unit::BytesPerSecond => Some("bytes/s"),
        Unit::Count => Some("count"),
        Unit::Percent => Some("%"),
        Unit::Hertz => Some("Hz"),
        Unit::Watts => Some("W"),
        Unit::Celsius => Some("°C"),
        _ => None,
    }
}
