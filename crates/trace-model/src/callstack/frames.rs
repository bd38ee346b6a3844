//! From a slice to the frames around it.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use crate::callstack::{NO_NAME, Normalise, StackId, StackTable};
use crate::ids::StrId;
use crate::kernel::{Activity, ActivityMap};
use crate::trace::{Slice, Trace};

/// Which of the slices around a launch call become frames. The call itself always does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FrameFilter {
    /// All of them.
    #[default]
    All,
    /// Python functions.
    Python,
    /// Everything but Python functions: operators, annotations, runtime calls.
    Ops,
    /// All but those that only pass a call on: `_call_impl` of modules, decorators, `<built-in …>`.
    NoWrappers,
}

impl FrameFilter {
    /// Does a slice of this activity and name become a frame?
    pub fn keeps(self, activity: Activity, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Python => activity == Activity::PythonFunction,
            Self::Ops => activity != Activity::PythonFunction,
            Self::NoWrappers => activity != Activity::PythonFunction || !is_wrapper(name),
        }
    }
}

/// Functions, by file and name, that only pass a call on.
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

/// How stacks are read.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StackRules {
    /// Maximum number of frames above the launch call. Default is 12.
    pub depth: usize,
    /// Default is [`Normalise::Digits`].
    pub normalise: Normalise,
    /// Default is [`FrameFilter::All`].
    pub filter: FrameFilter,
    /// Write a run of frames that repeats at once only once. Default is false.
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

/// The longest run of frames that counts as recursion.
const LONGEST_CYCLE: usize = 8;

/// Reads the stacks of slices of one trace into a [`StackTable`]; every name is normalised once.
#[derive(Debug)]
pub struct StackReader<'t> {
    trace: &'t Trace,
    activities: &'t ActivityMap,
    rules: StackRules,
    /// By name of the trace: the frame of the table.
    frames: HashMap<Option<StrId>, StrId, FxBuildHasher>,
    /// By activity and name: does the filter keep it?
    kept: HashMap<(Activity, Option<StrId>), bool, FxBuildHasher>,
    /// Frames from the innermost outwards, reused.
    list: Vec<StrId>,
}

impl<'t> StackReader<'t> {
    /// A reader of `trace`'s stacks.
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

    /// The rules it follows.
    pub fn rules(&self) -> StackRules {
        self.rules
    }

    /// The stack of `leaf`: its own name and its ancestors', on top of `caller`. The second value
    /// says whether the depth cap cut frames off.
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

    /// Appends the frames around `leaf`, innermost first, to `list`; says whether the depth cap cut
    /// some off.
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

/// Cuts the last run of frames when the run before it is the same.
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

    /// Nested slices `(category, name)` from the outermost inwards; null name as "".
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
