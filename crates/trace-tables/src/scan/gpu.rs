//! Tables of GPU activity: every number is one of `gpu-time` or `launch-stacks`.

use arrow_array::ArrayRef;
use gpu_time::comm::{CommRules, RankDigest};
use gpu_time::{
    EachLaunch, Gap, GpuEvent, GpuWork, class_of, each_launch, idle, module_of, operator_of,
};
use trace_model::correlation::CorrelationColumn;
use trace_model::kernel::collective::SizeSource;
use trace_model::kernel::{TraceIndex, Vocabulary};
use trace_model::{ArgColumn, ArgValue, Slice, SliceId};

use super::column::{count, ints, names, texts};
use super::host::between;
use super::steps::{Stacks, host_intervals};
use super::{Chosen, Recording, Request, Rows};

pub(super) struct Kernels<'r> {
    recording: &'r Recording,
    work: GpuWork<'r>,
    correlation: CorrelationColumn,
    dims: ArgColumn,
    stacks: Option<Stacks>,
    /// Host interval of each step, with its number.
    steps: Vec<(i64, i64, u32)>,
}

impl<'r> Kernels<'r> {
    pub(super) fn new(recording: &'r Recording, wants: impl Fn(&[&str]) -> bool) -> Self {
        let trace = &recording.trace;
        Self {
            recording,
            work: GpuWork::new(trace),
            correlation: CorrelationColumn::new(trace),
            dims: trace.arg_column("Input Dims"),
            stacks: wants(&["stack_id"]).then(|| Stacks::new(recording)),
            steps: match wants(&["step"]) {
                true => host_intervals(recording),
                false => Vec::new(),
            },
        }
    }

    fn event(&self, row: usize) -> Option<&GpuEvent> {
        self.work.events().get(row)
    }

    fn call(&self, row: usize) -> Option<Slice<'r>> {
        self.work.launch_of(self.event(row)?)
    }

    fn shapes(&self, row: usize) -> Option<String> {
        let operator = operator_of(&self.work, self.call(row)?)?;
        let text = self.dims.get(operator).and_then(ArgValue::as_str)?;
        // Exporters write one number per line, or blanks of their own.
        Some(text.split_whitespace().collect())
    }

    fn step(&self, row: usize) -> Option<i64> {
        let at = self.call(row)?.ts().nanos();
        let behind = self.steps.partition_point(|step| step.0 <= at);
        let step = self.steps.get(behind.checked_sub(1)?)?;
        (at < step.1).then_some(i64::from(step.2))
    }
}

impl Rows for Kernels<'_> {
    fn len(&self) -> usize {
        self.work.events().len()
    }

    fn chosen(&self, request: &Request) -> Chosen {
        let time = |row| self.event(row).map_or(i64::MAX, |event| event.start_ns);
        let range = between(self.len(), request, time);
        let Some(wanted) = &request.names else {
            return Chosen::Range(range);
        };
        let strings = self.recording.trace.strings();
        let ids: Vec<_> = wanted
            .iter()
            .filter_map(|name| strings.find(name))
            .collect();
        let is_wanted = |row: &usize| {
            let name = self.event(*row).and_then(|event| event.name);
            name.is_some_and(|name| ids.contains(&name))
        };
        Chosen::List(range.filter(is_wanted).collect())
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let (recording, work) = (self.recording, &self.work);
        let event = |row| self.event(row);
        Some(match name {
            "id" => ints(rows, |row| Some(recording.id(event(row)?.slice.index()))),
            "ts" => ints(rows, |row| Some(event(row)?.start_ns)),
            "dur" => ints(rows, |row| Some(event(row)?.dur_ns())),
            "name" => names(recording, rows, |row| event(row)?.name),
            "kind" => texts(rows, |row| Some(event(row)?.kind.name())),
            "class" => texts(rows, |row| Some(class_of(work, event(row)?).name())),
            "device" => ints(rows, |row| Some(event(row)?.device.0)),
            "stream" => ints(rows, |row| Some(event(row)?.stream.0)),
            "correlation" => ints(rows, |row| {
                Some(self.correlation.of(work.slice(event(row)?))?.0)
            }),
            "launch_id" => ints(rows, |row| Some(recording.id(self.call(row)?.id().index()))),
            "operator" => names(recording, rows, |row| {
                let call = self.call(row)?;
                operator_of(work, call).unwrap_or(call).name_id()
            }),
            "module" => texts(rows, |row| module_of(work, self.call(row)?, false)),
            "shapes" => texts(rows, |row| self.shapes(row)),
            "stack_id" => ints(rows, |row| {
                let stack = self.stacks.as_ref()?.of(event(row)?.slice)?;
                Some(recording.id(stack))
            }),
            "step" => ints(rows, |row| self.step(row)),
            _ => return None,
        })
    }
}

pub(super) struct Launches<'r> {
    recording: &'r Recording,
    launches: Vec<EachLaunch>,
}

impl<'r> Launches<'r> {
    pub(super) fn new(recording: &'r Recording) -> Self {
        let mut launches = each_launch(&GpuWork::new(&recording.trace));
        // Slices are numbered in ascending time.
        launches.sort_by_key(|launch| (launch.call, launch.work));
        Self {
            recording,
            launches,
        }
    }
}

impl Rows for Launches<'_> {
    fn len(&self) -> usize {
        self.launches.len()
    }

    fn chosen(&self, request: &Request) -> Chosen {
        let call = |row: usize| Some(self.recording.trace.slice(self.launches.get(row)?.call));
        let time = |row| call(row).map_or(i64::MAX, |call| call.ts().nanos());
        Chosen::Range(between(self.len(), request, time))
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let recording = self.recording;
        let launch = |row: usize| self.launches.get(row);
        let slice = |id: SliceId| recording.trace.slice(id);
        let call = |row| Some(slice(launch(row)?.call));
        Some(match name {
            "kernel_id" => ints(rows, |row| Some(recording.id(launch(row)?.work.index()))),
            "launch_id" => ints(rows, |row| Some(recording.id(launch(row)?.call.index()))),
            "ts" => ints(rows, |row| Some(call(row)?.ts().nanos())),
            "dur" => ints(rows, |row| Some(call(row)?.range().duration().get())),
            "name" => names(recording, rows, |row| call(row)?.name_id()),
            "kind" => texts(rows, |row| Some(launch(row)?.kind.name())),
            "utid" => ints(rows, |row| {
                Some(recording.id(call(row)?.track().thread?.index()))
            }),
            "start_ns" => ints(rows, |row| Some(slice(launch(row)?.work).ts().nanos())),
            "latency_ns" => ints(rows, |row| Some(launch(row)?.latency_ns)),
            "in_call_ns" => ints(rows, |row| launch(row)?.in_call_ns),
            "queued_ns" => ints(rows, |row| launch(row)?.queued_ns),
            "dispatch_ns" => ints(rows, |row| launch(row)?.dispatch_ns),
            _ => return None,
        })
    }
}

pub(super) struct Gaps(Vec<Gap>);

impl Gaps {
    pub(super) fn new(recording: &Recording) -> Self {
        let mut gaps = idle(&GpuWork::new(&recording.trace), usize::MAX).gaps;
        gaps.sort_by_key(|gap| gap.start_ns);
        Self(gaps)
    }
}

impl Rows for Gaps {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn chosen(&self, request: &Request) -> Chosen {
        let time = |row: usize| self.0.get(row).map_or(i64::MAX, |gap| gap.start_ns);
        Chosen::Range(between(self.len(), request, time))
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let gap = |row: usize| self.0.get(row);
        let named = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        Some(match name {
            "ts" => ints(rows, |row| Some(gap(row)?.start_ns)),
            "dur" => ints(rows, |row| Some(gap(row)?.time.idle_ns)),
            "device" => ints(rows, |row| Some(gap(row)?.device.0)),
            "stream" => ints(rows, |row| Some(gap(row)?.stream.0)),
            "cause" => texts(rows, |row| Some(gap(row)?.cause().name())),
            "before" => texts(rows, |row| named(&gap(row)?.before)),
            "after" => texts(rows, |row| named(&gap(row)?.after)),
            "call" => texts(rows, |row| gap(row)?.call.as_deref()),
            "host_function" => texts(rows, |row| gap(row)?.host.as_deref()),
            "host_wait_ns" => ints(rows, |row| Some(gap(row)?.time.host_wait_ns)),
            "input_wait_ns" => ints(rows, |row| Some(gap(row)?.time.input_wait_ns)),
            "synchronisation_ns" => ints(rows, |row| Some(gap(row)?.time.synchronisation_ns)),
            "launch_call_ns" => ints(rows, |row| Some(gap(row)?.time.launch_call_ns)),
            "launch_latency_ns" => ints(rows, |row| Some(gap(row)?.time.launch_latency_ns)),
            "kernel_wait_ns" => ints(rows, |row| Some(gap(row)?.time.kernel_wait_ns)),
            "blocked_ns" => ints(rows, |row| Some(gap(row)?.time.blocked_ns)),
            "other_ns" => ints(rows, |row| Some(gap(row)?.time.other_ns)),
            _ => return None,
        })
    }
}

pub(super) struct Collectives(RankDigest);

impl Collectives {
    pub(super) fn new(recording: &Recording) -> Self {
        let index = TraceIndex::new(&recording.trace, Vocabulary::of(&recording.trace));
        let rules = CommRules::Extended;
        Self(RankDigest::of_part(&recording.file, &index, rules, |_| {
            true
        }))
    }
}

impl Rows for Collectives {
    fn len(&self) -> usize {
        self.0.runs.len()
    }

    fn chosen(&self, request: &Request) -> Chosen {
        let runs = &self.0.runs;
        let time = |row: usize| runs.get(row).map_or(i64::MAX, |run| run.start_ns);
        Chosen::Range(between(self.len(), request, time))
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let run = |row: usize| self.0.runs.get(row);
        let what = |row| self.0.what(run(row)?);
        Some(match name {
            "ts" => ints(rows, |row| Some(run(row)?.start_ns)),
            "dur" => ints(rows, |row| Some(run(row)?.duration_ns())),
            "end_ns" => ints(rows, |row| Some(run(row)?.end_ns)),
            "exposed_ns" => ints(rows, |row| Some(run(row)?.exposed_ns)),
            "launch_ns" => ints(rows, |row| run(row)?.launch_ns),
            "device" => ints(rows, |row| Some(run(row)?.device.0)),
            "stream" => ints(rows, |row| Some(run(row)?.stream.0)),
            "group_name" => texts(rows, |row| what(row)?.group.as_deref()),
            "group_ranks" => texts(rows, |row| what(row)?.ranks.as_deref()),
            "group_size" => ints(rows, |row| what(row)?.group_size.map(i64::from)),
            "seq" => ints(rows, |row| run(row)?.seq),
            "type" => texts(rows, |row| what(row)?.type_name()),
            "kernel" => texts(rows, |row| Some(self.0.kernel_name(run(row)?))),
            "library" => texts(rows, |row| Some(run(row)?.library.name())),
            "dtype" => texts(rows, |row| what(row)?.dtype.as_deref()),
            "in_bytes" => ints(rows, |row| {
                count(what(row)?.bytes_of(what(row)?.elements_in)?)
            }),
            "out_bytes" => ints(rows, |row| {
                count(what(row)?.bytes_of(what(row)?.elements_out)?)
            }),
            "message_bytes" => ints(rows, |row| count(what(row)?.bytes?)),
            "message_from" => texts(rows, |row| what(row)?.size_source.map(SizeSource::name)),
            _ => return None,
        })
    }
}
