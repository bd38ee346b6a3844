//! Less of a trace.

use rustc_hash::FxHashSet;
use trace_model::kernel::{Activity, TraceIndex, Vocabulary};
use trace_model::{BuildError, Slice, SliceId, TimeRange, Trace};

use crate::copy::{Edit, copy};

/// What a smaller copy of a trace leaves out.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Slim {
    /// Keep what overlaps this window, with the launches of GPU activity in it and the GPU activity of launches in it.
    pub window: Option<TimeRange>,
    /// Categories to leave out.
    pub drop_categories: Vec<String>,
    /// Keys of arguments to leave out, without prefix.
    pub drop_args: Vec<String>,
    /// Keys of arguments to keep, without prefix; all if `None`.
    pub keep_args: Option<Vec<String>>,
    /// Of Python functions keep those around calls of the GPU runtime: others are in no launch stack.
    pub launch_stacks: bool,
}

/// Returns a smaller copy.
///
/// # Errors
/// As [`TraceBuilder::finish`](trace_model::TraceBuilder::finish).
pub fn slim(trace: &Trace, options: &Slim) -> Result<Trace, BuildError> {
    let index = TraceIndex::new(trace, Vocabulary::of(trace));
    let mut edit = Less {
        options,
        index: &index,
        linked: FxHashSet::default(),
        around: FxHashSet::default(),
    };
    if options.window.is_some() {
        edit.linked = edit.linked();
    }
    if options.launch_stacks {
        edit.around = edit.around();
    }
    copy(trace, &mut edit, |_| {})
}

struct Less<'a, 't> {
    options: &'a Slim,
    index: &'a TraceIndex<'t>,
    /// Outside of the window, but the other end of a launch of which one end is inside.
    linked: FxHashSet<SliceId>,
    /// Python functions around calls of the GPU runtime.
    around: FxHashSet<SliceId>,
}

fn overlaps(window: TimeRange, slice: Slice<'_>) -> bool {
    let (begin, end) = (slice.ts(), slice.end());
    begin < window.end && (end > window.start || begin >= window.start)
}

impl Less<'_, '_> {
    fn is_inside(&self, slice: Slice<'_>) -> bool {
        self.options
            .window
            .is_none_or(|window| overlaps(window, slice))
    }

    fn linked(&self) -> FxHashSet<SliceId> {
        let mut linked = FxHashSet::default();
        let trace = self.index.trace();
        for id in self.index.activities().device_work() {
            let work = trace.slice(*id);
            let Some((launch, _)) = self.index.launch_of(work) else {
                continue;
            };
            match (self.is_inside(work), self.is_inside(launch)) {
                (true, false) => {
                    linked.insert(launch.id());
                    linked.extend(launch.ancestors().map(Slice::id));
                }
                (false, true) => {
                    linked.insert(*id);
                }
                _ => {}
            }
        }
        linked
    }

    fn around(&self) -> FxHashSet<SliceId> {
        let trace = self.index.trace();
        let mut around = FxHashSet::default();
        for call in self.index.activities().calls() {
            for slice in trace.slice(*call).ancestors() {
                // What is around it was met before.
                if self.is_python(slice) && !around.insert(slice.id()) {
                    break;
                }
            }
        }
        around
    }

    fn is_python(&self, slice: Slice<'_>) -> bool {
        self.index.activity(slice) == Activity::PythonFunction
    }
}

impl Edit for Less<'_, '_> {
    fn keeps(&self, slice: Slice<'_>) -> bool {
        let category = slice.category().unwrap_or("");
        let is_wanted = !self.options.drop_categories.iter().any(|c| c == category);
        let is_near = self.is_inside(slice) || self.linked.contains(&slice.id());
        let is_needed = !self.options.launch_stacks
            || !self.is_python(slice)
            || self.around.contains(&slice.id());
        is_wanted && is_near && is_needed
    }

    fn keeps_arg(&self, key: &str) -> bool {
        let kept = self.options.keep_args.as_ref();
        kept.is_none_or(|keys| keys.iter().any(|k| k == key))
            && !self.options.drop_args.iter().any(|k| k == key)
    }

    fn keeps_sample(&self, ns: i64) -> bool {
        let window = self.options.window;
        window.is_none_or(|w| w.start.nanos() <= ns && ns < w.end.nanos())
    }
}
