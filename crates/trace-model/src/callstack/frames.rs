//! Reads the frames around a slice.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use crate::callstack::{NO_NAME, Normalise, StackId, StackTable};
use crate::ids::StrId;
use crate::kernel::{Activity, ActivityMap};
use crate::trace::{Slice, Trace};

/// Selects the slices around a launch API call that become frames. The call itself always does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FrameFilter {
    /// All slices.
    #[default]
    All,
    /// Python functions.
    Python,
    /// Everything except Python functions: operators, annotations, runtime API calls.
    Ops,
    /// Everything except functions that only forward a call: `_call_impl` of modules, decorators,
    /// `<built-in …>`.
    NoWrappers,
}

impl FrameFilter {
    /// Returns `true` if a slice of this activity and name becomes a frame.
    pub fn keeps(self, activity: Activity, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Python => activity == Activity::PythonFunction,
            Self::Ops => activity != Activity::PythonFunction,
            Self::NoWrappers => activity != Activity::PythonFunction || !is_wrapper(name),
        }
    }
}

/// Functions, by file and name, that only forward a call.
const WRAPPERS: &[(&str, &str)] = &[
    ("torch/nn/modules/module.py", "_call_impl"),
    ("torch/nn/modules/module.py", "_wrapped_call_impl"),
    ("contextlib.py", ""),
    ("torch/utils/_contextlib.py", ""),
    ("torch/_ops.py", "__call__"),
    ("functools.py", "wrapper"),
    ("torch/distributed/c10d_logger.py", "wrapper"),
    ("torch/_dynamo/eval_frame.py", ""),
    ("", "decorate_context"),
    ("", "wrapper"),
    ("", "custom_wrapper"),
    ("", "outer_wrapper"),
    ("", "wrapper_custom"),
];

fn is_wrapper(name: &str) -> bool {
    if name.starts_with("<built-in ") {
        return true;
    }
    let Some((place, function)) = name.rsplit_once("): ") else {
        return false;
    };
    let file = place.rsplit_once('(').map_or(place, |p| p.0);
    WRAPPERS
        .iter()
        .any(|(f, n)| file.ends_with(f) && (n.is_empty() || *n == function))
}

/// Options of reading stacks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StackRules {
    /// Maximum number of frames above the launch API call. Default is 12.
    pub depth: usize,
    /// Normalization of frame names. Default is [`Normalise::Digits`].
    pub normalise: Normalise,
    /// Selection of frames. Default is [`FrameFilter::All`].
    pub filter: FrameFilter,
    /// `true` to write an immediately repeated run of frames only once. Default is `false`.
    pub collapse_recursion: bool,
}

impl Default for StackRules {
    fn default() -> Self {
        Self {
            depth: 12,
            normalise: Normalise::Digits,
            filter: FrameFilter::All,
            collapse_recursion: false,
        }
    }
}

/// Maximum length of a repeated run of frames that counts as recursion.
const LONGEST_CYCLE: usize = 8;

/// Reads the stacks of slices of one trace into a [`StackTable`]; every name is normalized once.
#[derive(Debug)]
pub struct StackReader<'t> {
    trace: &'t Trace,
    activities: &'t ActivityMap,
    rules: StackRules,
    /// Frame of the table, by name of the trace.
    frames: HashMap<Option<StrId>, StrId, FxBuildHasher>,
    /// Result of the filter, by activity and name.
    kept: HashMap<(Activity, Option<StrId>), bool, FxBuildHasher>,
    /// Frames from the innermost outwards; the buffer is reused.
    list: Vec<StrId>,
}

impl<'t> StackReader<'t> {
    /// Creates a reader of `trace`'s stacks.
    pub fn new(trace: &'t Trace, activities: &'t ActivityMap, rules: StackRules) -> Self {
        Self {
            trace,
            activities,
            rules,
            frames: HashMap::default(),
            kept: HashMap::default(),
            list: Vec::new(),
        }
    }

    /// Returns the options.
    pub fn rules(&self) -> StackRules {
        self.rules
    }

    /// Returns the stack of `leaf`: its own name and its ancestors', on top of `caller`. The second
    /// value is `true` if the depth limit cut frames off.
    ///
    /// Cost: a few hashes for each frame.
    pub fn stack(
        &mut self,
        leaf: Slice<'_>,
        caller: StackId,
        table: &mut StackTable,
    ) -> (StackId, bool) {
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        list.push(table.frame(leaf.name().unwrap_or(NO_NAME)));
        let cut = self.ancestors(leaf, &mut list, table);
        let id = list
            .iter()
            .rev()
            .fold(caller, |stack, frame| table.push_frame(stack, *frame));
        self.list = list;
        (id, cut)
    }

    /// Appends the frames around `leaf`, innermost first, to `list`. Returns `true` if the depth
    /// limit cut some off.
    pub fn ancestors(
        &mut self,
        leaf: Slice<'_>,
        list: &mut Vec<StrId>,
        table: &mut StackTable,
    ) -> bool {
        let base = list.len();
        for slice in leaf.ancestors() {
            if !self.keeps(slice) {
                continue;
            }
            if list.len() - base == self.rules.depth {
                return true;
            }
            let frame = self.frame(slice.name_id(), table);
            list.push(frame);
            if self.rules.collapse_recursion {
                collapse_end(list, base);
            }
        }
        false
    }

    fn keeps(&mut self, slice: Slice<'_>) -> bool {
        if self.rules.filter == FrameFilter::All {
            return true;
        }
        let activity = self.activities.of(slice);
        let filter = self.rules.filter;
        *self
            .kept
            .entry((activity, slice.name_id()))
            .or_insert_with(|| filter.keeps(activity, slice.name().unwrap_or(NO_NAME)))
    }

    fn frame(&mut self, name: Option<StrId>, table: &mut StackTable) -> StrId {
        let (trace, normalise) = (self.trace, self.rules.normalise);
        *self.frames.entry(name).or_insert_with(|| match name {
            Some(id) => table.frame(&normalise.apply(trace.text(id))),
            None => table.frame(NO_NAME),
        })
    }
}

/// Removes the last run of frames if the run before it is equal.
fn collapse_end(list: &mut Vec<StrId>, base: usize) {
    let n = list.len();
    for cycle in 1..=LONGEST_CYCLE.min((n - base) / 2) {
        if list[n - cycle..] == list[n - 2 * cycle..n - cycle] {
            list.truncate(n - cycle);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::batch::SliceData;
    use crate::builder::{FinishOptions, TraceBuilder};
    use crate::kernel::Vocabulary;
    use crate::table::args::ArgsRef;
    use crate::table::slice::CategoryId;
    use crate::table::track::{Track, TrackKind};

    /// Builds nested slices `(category, name)` from the outermost inwards; "" is a null name.
    fn nest(slices: &[(&str, &str)]) -> Trace {
        let mut b = TraceBuilder::new();
        let track = b.track(Track::new(TrackKind::Thread));
        let lane = b.lane(Some(track));
        for (i, (category, name)) in slices.iter().enumerate() {
            let category = b.string(category);
            let data = SliceData {
                category: b.events.category(category),
                name: (!name.is_empty()).then(|| b.string(name)),
                args: ArgsRef::NONE,
            };
            assert_ne!(data.category, CategoryId::NONE);
            let i = i64::try_from(i).unwrap();
            b.events.complete(lane, i, 1000 - 2 * i, data);
        }
        b.finish(&FinishOptions::default()).unwrap()
    }

    fn read(trace: &Trace, rules: StackRules) -> (Vec<String>, bool) {
        let activities = ActivityMap::new(trace, &Vocabulary::default());
        let mut table = StackTable::new();
        let mut reader = StackReader::new(trace, &activities, rules);
        let leaf = trace.slices().last().unwrap();
        let (id, cut) = reader.stack(leaf, StackId::EMPTY, &mut table);
        (table.leaf_first(id).map(str::to_owned).collect(), cut)
    }

    fn with_depth(depth: usize) -> StackRules {
        StackRules {
            depth,
            ..StackRules::default()
        }
    }

    #[test]
    fn depth_counts_ancestors_and_digits_go_from_them_only() {
        let trace = nest(&[
            ("x", "root"),
            ("x", "12"),
            ("x", ""),
            ("x", "Layer_31"),
            ("x", "launch7"),
        ]);
        let all = ["launch7", "Layer_", NO_NAME, "", "root"];
        for (depth, frames, cut) in [
            (0, 1, true),
            (1, 2, true),
            (3, 4, true),
            (4, 5, false),
            (99, 5, false),
        ] {
            let (got, was_cut) = read(&trace, with_depth(depth));
            assert_eq!(got, all[..frames], "depth {depth}");
            assert_eq!(was_cut, cut, "depth {depth}");
        }
    }

    #[test]
    fn filters_count_only_what_they_keep() {
        let trace = nest(&[
            ("user_annotation", "step"),
            ("python_function", "a.py(1): f"),
            (
                "python_function",
                "torch/nn/modules/module.py(1779): _call_impl",
            ),
            ("python_function", "<built-in function linear>"),
            ("cpu_op", "aten::linear"),
            ("cuda_runtime", "cudaLaunchKernel"),
        ]);
        let filtered = |filter, depth| {
            let rules = StackRules {
                filter,
                depth,
                ..StackRules::default()
            };
            read(&trace, rules).0
        };
        assert_eq!(
            filtered(FrameFilter::Ops, 2),
            ["cudaLaunchKernel", "aten::linear", "step"]
        );
        assert_eq!(
            filtered(FrameFilter::NoWrappers, 9),
            ["cudaLaunchKernel", "aten::linear", "a.py(1): f", "step"]
        );
        assert_eq!(filtered(FrameFilter::Python, 9).len(), 4);
    }

    #[test]
    fn recursion_is_written_once() {
        let frames = ["main", "f", "g", "f", "g", "f", "g", "h", "h", "leaf"];
        let slices: Vec<_> = frames.iter().map(|f| ("x", *f)).collect();
        let rules = StackRules {
            collapse_recursion: true,
            ..StackRules::default()
        };
        assert_eq!(
            read(&nest(&slices), rules).0,
            ["leaf", "h", "g", "f", "main"]
        );
    }
}
