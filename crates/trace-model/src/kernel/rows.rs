//! Classifies slices without a category by their track: XLA names its tracks and writes no
//! categories.

use crate::kernel::{Activity, NamePattern};
use crate::table::track::Track;
use crate::trace::Trace;

/// One row of the table: case-insensitive globs, alternatives separated by `|`.
#[derive(Clone, Copy, Debug)]
pub struct RowRule {
    /// Name of the process.
    pub process: &'static str,
    /// Name of the thread.
    pub thread: &'static str,
    /// Name of the slice.
    pub name: &'static str,
    /// Activity of matching slices.
    pub activity: Activity,
}

const fn rule(
    process: &'static str,
    thread: &'static str,
    name: &'static str,
    activity: Activity,
) -> RowRule {
    RowRule {
        process,
        thread,
        name,
        activity,
    }
}

const GPU: &str = "/device:GPU:*|* /device:GPU:*";
const TPU: &str = "/device:TPU:*|* /device:TPU:*";
const HOST: &str = "/host:*|* /host:*";

/// Rules for the tracks of JAX, TensorFlow and PyTorch/XLA (XLA's trace viewer export); the first
/// match counts.
///
/// A stream of a GPU holds kernels, memcpys and memsets. The other tracks of a device (`XLA
/// Modules`, `XLA Ops`, `Steps`, `Framework Name Scope`) repeat their time by module, operator and
/// step. A TPU has no streams: its tracks are annotations.
pub const ROW_RULES: &[RowRule] = &[
    rule(GPU, "Stream #*", "Memcpy*", Activity::GpuMemcpy),
    rule(GPU, "Stream #*", "Memset*", Activity::GpuMemset),
    rule(GPU, "Stream #*", "*", Activity::Kernel),
    rule(GPU, "*", "*", Activity::GpuAnnotation),
    rule(TPU, "*", "*", Activity::GpuAnnotation),
    rule(
        HOST,
        "*",
        "cu*GraphLaunch*|hipGraphLaunch*",
        Activity::GraphLaunch,
    ),
    rule(
        HOST,
        "*",
        "cu*Launch*Kernel*|hip*Launch*Kernel*",
        Activity::Launch,
    ),
    rule(
        HOST,
        "*",
        "cuMemcpy*|cudaMemcpy*|hipMemcpy*",
        Activity::MemcpyApi,
    ),
    rule(
        HOST,
        "*",
        "cuMemset*|cudaMemset*|hipMemset*",
        Activity::MemsetApi,
    ),
    rule(
        HOST,
        "*",
        "cu*Synchronize|hip*Synchronize",
        Activity::SyncApi,
    ),
    rule(HOST, "*", "$*", Activity::PythonFunction),
];

/// Rules of one track: those whose process and thread match.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RowNames(Vec<(Vec<NamePattern>, Activity)>);

impl RowNames {
    /// Returns the activity of a slice of this name on the track.
    pub(crate) fn activity(&self, name: &str) -> Activity {
        let found = self.0.iter().find(|(n, _)| super::any(n, name));
        found.map_or(Activity::Other, |(_, activity)| *activity)
    }
}

/// Returns the distinct sets of rules, and for each track the index of its set, if any rule matches
/// it.
///
/// Cost: one look at each process, and the patterns once for each thread of those that the rules name.
pub(crate) fn of_tracks(trace: &Trace) -> (Vec<RowNames>, Vec<Option<usize>>) {
    let (mut sets, mut of) = (Vec::new(), Vec::new());
    let is_named = |text: &str| text.contains("/device:") || text.contains("/host:");
    let names = trace.processes().iter().filter_map(|p| p.name);
    if !names.into_iter().any(|name| is_named(trace.text(name))) {
        return (sets, of);
    }
    let rules: Vec<_> = ROW_RULES
        .iter()
        .map(|r| [r.process, r.thread, r.name].map(super::alternatives))
        .zip(ROW_RULES.iter().map(|r| r.activity))
        .collect();
    for track in trace.tracks() {
        let (process, thread) = row_name(trace, track);
        let rows = rules
            .iter()
            .filter(|([p, t, _], _)| super::any(p, process) && super::any(t, thread));
        let set = RowNames(rows.map(|([_, _, n], a)| (n.clone(), *a)).collect());
        let at = sets.iter().position(|known| *known == set);
        of.push((!set.0.is_empty()).then(|| {
            at.unwrap_or_else(|| {
                sets.push(set);
                sets.len() - 1
            })
        }));
    }
    (sets, of)
}

/// Returns the names of a track's process and thread, empty if there is none.
fn row_name<'t>(trace: &'t Trace, track: &Track) -> (&'t str, &'t str) {
    let thread = track.thread.map(|id| trace.thread(id));
    let process = track.process.or_else(|| thread.and_then(|t| t.process));
    let process = process.and_then(|id| trace.process(id).name);
    let thread = thread.and_then(|t| t.name);
    (
        process.map_or("", |name| trace.text(name)),
        thread.map_or("", |name| trace.text(name)),
    )
}

/// Returns the device and stream that an XLA track names: `/device:GPU:1` and `Stream
/// #13(Compute)`.
pub(crate) fn place(trace: &Trace, track: &Track) -> Option<(i64, i64)> {
    let (process, thread) = row_name(trace, track);
    let number = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit());
        text.get(..end.unwrap_or(text.len()))?.parse().ok()
    };
    let device = number(process.split_once("/device:GPU:")?.1)?;
    Some((device, number(thread.strip_prefix("Stream #")?)?))
}
