//! Tables of steps, functions and stacks: every number is one of `critical-path`, `rca-cycles` or `launch-stacks`.

use std::collections::HashMap;

use arrow_array::ArrayRef;
use critical_path::{Graph, Group, Part, PartOptions, StepRow, step_rows};
use launch_stacks::{KernelSelector, Linking, NameMatch, StackOptions, launches, stacks};
use rca_cycles::{Analysis, Cell, Cycle, Function, step_marks};
use trace_model::SliceId;
use trace_model::kernel::{TraceIndex, Vocabulary};
use trace_model::step_name::{step_batch, step_phase};

use super::column::{count, flags, ints, reals, texts};
use super::{Recording, Rows};

/// Returns the host interval of each step, with its number, in ascending order.
pub(super) fn host_intervals(recording: &Recording) -> Vec<(i64, i64, u32)> {
    let index = TraceIndex::new(&recording.trace, Vocabulary::of(&recording.trace));
    let (marks, _) = step_marks(&index, None);
    let steps = Part::steps_of(&index, &marks).into_iter();
    let mut steps: Vec<_> = steps
        .map(|step| (step.host_ns.0, step.host_ns.1, step.number))
        .collect();
    steps.sort_unstable();
    steps
}

pub(super) struct Steps {
    steps: Vec<StepRow>,
    found_by: &'static str,
}

impl Steps {
    pub(super) fn new(recording: &Recording) -> Self {
        let index = TraceIndex::new(&recording.trace, Vocabulary::of(&recording.trace));
        let (marks, found_by) = step_marks(&index, None);
        let rank = recording.rank.map_or(0, |rank| rank.0);
        let part = Part::new(&index, rank, &marks, PartOptions::default());
        // A recording without work has no steps.
        let steps = step_rows(&Graph::new(vec![part], None));
        Self {
            steps: steps.map(|found| found.steps).unwrap_or_default(),
            found_by,
        }
    }
}

impl Rows for Steps {
    fn len(&self) -> usize {
        self.steps.len()
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let step = |row: usize| self.steps.get(row);
        let group = |group: Group| ints(rows, move |row| Some(step(row)?.groups.of(group)));
        Some(match name {
            "step" => ints(rows, |row| Some(i64::from(step(row)?.step))),
            "name" => texts(rows, |row| Some(&step(row)?.name)),
            "found_by" => texts(rows, |_| Some(self.found_by)),
            "phase" => texts(rows, |row| Some(step_phase(&step(row)?.name)?.name())),
            "requests" => ints(rows, |row| {
                count(step_batch(&step(row)?.name)?.batch_size()?)
            }),
            "tokens" => ints(rows, |row| {
                count(step_batch(&step(row)?.name)?.all_tokens()?)
            }),
            "ts" => ints(rows, |row| Some(step(row)?.begin_ns)),
            "dur" => ints(rows, |row| Some(step(row)?.duration_ns)),
            "host_ts" => ints(rows, |row| Some(step(row)?.host_begin_ns)),
            "host_dur" => ints(rows, |row| {
                Some(
                    step(row)?
                        .host_end_ns
                        .saturating_sub(step(row)?.host_begin_ns),
                )
            }),
            "device_ts" => ints(rows, |row| step(row)?.device_begin_ns),
            "device_dur" => ints(rows, |row| {
                Some(
                    step(row)?
                        .device_end_ns?
                        .saturating_sub(step(row)?.device_begin_ns?),
                )
            }),
            "verdict" => texts(rows, |row| Some(step(row)?.verdict)),
            "share_pct" => reals(rows, |row| Some(step(row)?.share_pct)),
            "gpu_ns" => group(Group::Gpu),
            "comm_ns" => group(Group::Comm),
            "launch_ns" => group(Group::Launch),
            "host_ns" => group(Group::Host),
            "sync_ns" => group(Group::Sync),
            "wait_ns" => group(Group::Wait),
            "input_ns" => group(Group::Input),
            "unknown_ns" => group(Group::Unknown),
            "model_ns" => ints(rows, |row| Some(step(row)?.model_ns)),
            "flags" => texts(rows, |row| {
                let flags = step(row)?.flags.iter().map(|flag| flag.name());
                Some(flags.collect::<Vec<_>>().join(",")).filter(|flags| !flags.is_empty())
            }),
            _ => return None,
        })
    }
}

pub(super) struct Functions {
    analysis: Option<Analysis>,
    /// Function and cell of each row.
    rows: Vec<(usize, usize)>,
}

impl Functions {
    pub(super) fn new(recording: &Recording) -> Self {
        let analysis = rca_cycles::analyse(&recording.trace, &rca_cycles::Options::default()).ok();
        let functions = analysis
            .iter()
            .flat_map(|found| &found.functions)
            .enumerate();
        let rows = functions
            .flat_map(|(at, function)| (0..function.cells.len()).map(move |cell| (at, cell)));
        Self {
            rows: rows.collect(),
            analysis,
        }
    }

    fn at(&self, row: usize) -> Option<(&Function, &Cell, &Cycle)> {
        let (function, cell) = *self.rows.get(row)?;
        let analysis = self.analysis.as_ref()?;
        let function = analysis.functions.get(function)?;
        let cell = function.cells.get(cell)?;
        Some((function, cell, analysis.cycles.get(cell.cycle as usize)?))
    }
}

impl Rows for Functions {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let function = |row| Some(self.at(row)?.0);
        let cell = |row| Some(self.at(row)?.1);
        let cycle = |row| Some(self.at(row)?.2);
        Some(match name {
            "cycle" => ints(rows, |row| Some(i64::from(cell(row)?.cycle) + 1)),
            "phase" => texts(rows, |row| Some(cycle(row)?.phase.name())),
            "partial" => flags(rows, |row| Some(cycle(row)?.partial.is_some())),
            "name" => texts(rows, |row| Some(&function(row)?.name)),
            "kind" => texts(rows, |row| Some(function(row)?.kind.name())),
            "class" => texts(rows, |row| Some(function(row)?.class?.name())),
            "device" => ints(rows, |row| Some(function(row)?.device)),
            "calls" => ints(rows, |row| Some(i64::from(cell(row)?.calls))),
            "self_ns" => ints(rows, |row| Some(cell(row)?.self_ns)),
            "total_ns" => ints(rows, |row| Some(cell(row)?.total_ns)),
            "longest_ns" => ints(rows, |row| Some(cell(row)?.longest_ns)),
            "longest_ts" => ints(rows, |row| Some(cell(row)?.longest_at.0)),
            _ => return None,
        })
    }
}

/// The distinct stacks that launched kernels.
pub(super) struct Stacks {
    found: launch_stacks::Stacks,
    by_kernel: HashMap<SliceId, usize>,
}

impl Stacks {
    pub(super) fn new(recording: &Recording) -> Self {
        let index = TraceIndex::new(&recording.trace, Vocabulary::of(&recording.trace));
        let all = KernelSelector::from(NameMatch::glob("*"));
        let links = launches(&index, &all, Linking::Best).links;
        let found = stacks(&index, &links, StackOptions::default(), &[], &[]);
        let groups = found.groups.iter();
        let by_kernel = groups.flat_map(|group| {
            let stack = group.stack.index();
            group.links.iter().map(move |link| (link.kernel, stack))
        });
        Self {
            by_kernel: by_kernel.collect(),
            found,
        }
    }

    /// Returns the stack of a kernel.
    pub(super) fn of(&self, kernel: SliceId) -> Option<usize> {
        self.by_kernel.get(&kernel).copied()
    }
}

pub(super) struct Frames<'r> {
    recording: &'r Recording,
    /// Stack, position, text, launches.
    rows: Vec<(usize, usize, String, usize)>,
}

impl<'r> Frames<'r> {
    pub(super) fn new(recording: &'r Recording) -> Self {
        let stacks = Stacks::new(recording);
        let mut rows = Vec::new();
        for group in &stacks.found.groups {
            let frames = stacks.found.table.root_first(group.stack);
            for (depth, frame) in frames.into_iter().enumerate() {
                rows.push((group.stack.index(), depth, frame.to_owned(), group.count()));
            }
        }
        Self { recording, rows }
    }
}

impl Rows for Frames<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let frame = |row: usize| self.rows.get(row);
        Some(match name {
            "id" => ints(rows, |row| Some(self.recording.id(frame(row)?.0))),
            "depth" => ints(rows, |row| count(frame(row)?.1)),
            "frame" => texts(rows, |row| Some(&frame(row)?.2)),
            "launches" => ints(rows, |row| count(frame(row)?.3)),
            _ => return None,
        })
    }
}
