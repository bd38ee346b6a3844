//! Filters launches: those in the windows, on the selected threads.

use trace_model::{Slice, SliceId, Timestamp};

use crate::link::Launch;
use crate::window::Window;
use trace_model::kernel::TraceIndex;

/// Conditions on launch calls.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LaunchFilter {
    /// Thread numbers or names; empty means all.
    pub threads: Vec<String>,
    /// Process numbers; empty means all.
    pub pids: Vec<i64>,
    /// `true` if the call must be a descendant of the slice of the window.
    pub within: bool,
}

/// Windows sorted for look-up: a call at `ts` is in one of them if, among those that start before
/// `ts`, the latest end is after it.
struct Windows {
    starts: Vec<Timestamp>,
    latest_end: Vec<Timestamp>,
    slices: Vec<SliceId>,
}

impl Windows {
    fn new(windows: &[Window]) -> Self {
        let mut sorted = windows.to_vec();
        sorted.sort_by_key(|w| w.start);
        let mut latest = Timestamp::from_nanos(i64::MIN);
        let mut slices: Vec<SliceId> = windows.iter().filter_map(|w| w.slice).collect();
        slices.sort_unstable();
        Self {
            starts: sorted.iter().map(|w| w.start).collect(),
            latest_end: sorted
                .iter()
                .map(|w| {
                    latest = latest.max(w.end);
                    latest
                })
                .collect(),
            slices,
        }
    }

    fn contain(&self, ts: Timestamp) -> bool {
        let before = self.starts.partition_point(|s| *s < ts);
        before > 0 && ts < self.latest_end[before - 1]
    }
}

/// Returns the links whose launch call is in one of `windows` and meets the conditions, in their
/// order.
pub fn in_windows(
    index: &TraceIndex<'_>,
    links: &[Launch],
    windows: &[Window],
    filter: &LaunchFilter,
) -> Vec<Launch> {
    let trace = index.trace();
    let everything = windows.iter().any(Window::is_whole_trace);
    let lookup = Windows::new(windows);
    links
        .iter()
        .filter(|l| {
            let call = trace.slice(l.launch);
            (everything || lookup.contain(call.ts()))
                && filter.accepts_row(call)
                && (!filter.within
                    || call
                        .ancestors()
                        .any(|a| lookup.slices.binary_search(&a.id()).is_ok()))
        })
        .copied()
        .collect()
}

impl LaunchFilter {
    /// Returns `true` if thread and process of `call` are selected.
    fn accepts_row(&self, call: Slice<'_>) -> bool {
        let trace = call.trace();
        let track = call.track();
        let thread_ok = || {
            track.thread.is_some_and(|t| {
                let thread = trace.thread(t);
                let name = thread.name.map(|n| trace.text(n));
                let number = thread.tid.0.to_string();
                self.threads
                    .iter()
                    .any(|wanted| *wanted == number || Some(wanted.as_str()) == name)
            }) || track
                .name
                .is_some_and(|n| self.threads.iter().any(|w| w == trace.text(n)))
        };
        let pid_ok = || {
            track
                .process
                .is_some_and(|p| self.pids.contains(&trace.process(p).pid.0))
        };
        (self.threads.is_empty() || thread_ok()) && (self.pids.is_empty() || pid_ok())
    }
}
