//! Finds the call that launched a GPU activity, by the ids that producers write.
//!
//! A launch API call and the GPU activity that it caused carry the same id: `correlation` in Kineto
//! traces, `corr_id` in those of rocprofiler. One call may cause many activities (a graph launch,
//! thousands of kernels), and several calls may carry one id. `External id` joins both to the
//! operator around the call.

mod id_map;
mod launch;

use crate::ids::{CorrelationId, SliceId};
use crate::kernel::{Activity, ActivityMap};
use crate::trace::{ArgColumn, Slice, Trace};
use id_map::IdMap;
use launch::{Crowd, FEW, are_ambiguous, choose};

/// The keys, without prefix, under which producers write correlation ids.
pub const CORRELATION_KEYS: [&str; 3] = ["correlation", "corr_id", "correlation_id"];

/// Key, without prefix, that joins GPU activity and runtime API calls to operators.
pub const EXTERNAL_ID_KEY: &str = "External id";

/// Evidence that joins a kernel to its launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum LinkMethod {
    /// Equal correlation ids.
    Correlation,
    /// A flow arrow.
    Flow,
    /// Equal external ids: the operator is known, but not the call.
    ExternalId,
    /// The k-th launch of a kernel name matches its k-th run.
    Order,
}

impl LinkMethod {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Correlation => "correlation",
            Self::Flow => "flow",
            Self::ExternalId => "external_id",
            Self::Order => "order",
        }
    }
}

/// Reads the correlation id of slices of one trace.
#[derive(Clone, Debug)]
pub struct CorrelationColumn {
    columns: Vec<ArgColumn>,
}

impl CorrelationColumn {
    /// Finds the keys of ids in the shapes of `trace`.
    pub fn new(trace: &Trace) -> Self {
        let columns = CORRELATION_KEYS.iter().map(|key| trace.arg_column(key));
        Self {
            columns: columns.filter(|c| !c.is_empty()).collect(),
        }
    }

    /// Returns the correlation id of `slice`; 0 counts as none.
    pub fn of(&self, slice: Slice<'_>) -> Option<CorrelationId> {
        let id = self.columns.iter().find_map(|c| c.int(slice))?;
        (id != 0).then_some(CorrelationId(id))
    }
}

/// Index from correlation id to host calls.
///
/// Ids are unique only within a process. If calls of several processes carry one id, the call in
/// the process of the GPU activity counts; where device tracks have processes of their own
/// (Kineto), the one with a flow arrow to the activity, else the last call before it. If the format
/// states the process of each activity ([`Metadata::launches_within_process`]), calls of other processes never count.
///
/// [`Metadata::launches_within_process`]: crate::Metadata::launches_within_process
#[derive(Clone, Debug)]
pub struct CorrelationIndex {
    column: CorrelationColumn,
    calls: IdMap,
    /// Calls of ids that many calls carry, ascending.
    crowds: Vec<Crowd>,
    /// `true` if GPU activities are on tracks of the process that launched them, so that calls of other processes never
    /// match.
    within_process: bool,
}

impl CorrelationIndex {
    /// Indexes the calls of `trace`. Time and memory are linear in the number of calls.
    pub fn new(trace: &Trace, activities: &ActivityMap) -> Self {
        let column = CorrelationColumn::new(trace);
        let entries = if column.columns.is_empty() {
            Vec::new()
        } else {
            activities
                .calls()
                .iter()
                .map(|call| trace.slice(*call))
                .filter_map(|s| Some((column.of(s)?.0, s.id())))
                .collect()
        };
        let calls = IdMap::new(entries);
        let crowds = calls
            .groups()
            .filter(|(_, calls)| calls.len() > FEW)
            .map(|(id, calls)| Crowd::new(id, calls, trace, activities))
            .collect();
        Self {
            column,
            calls,
            crowds,
            within_process: trace.meta().launches_within_process,
        }
    }

    /// Returns the correlation id of `slice`; 0 counts as none.
    pub fn id_of(&self, slice: Slice<'_>) -> Option<CorrelationId> {
        self.column.of(slice)
    }

    /// Returns all calls that carry `id`, in ascending time.
    pub fn calls(&self, id: CorrelationId) -> &[SliceId] {
        self.calls.get(id.0)
    }

    /// Returns the call that launched `work`. Of several with the same id: one named as a launch,
    /// else one where a flow starts, else the earliest.
    pub fn launch_of<'t>(&self, work: Slice<'t>, activities: &ActivityMap) -> Option<Slice<'t>> {
        let id = self.id_of(work)?;
        let found = self.best_of(id, work, activities)?;
        let is_foreign = self.within_process && found.track().process != work.track().process;
        (!is_foreign).then_some(found)
    }

    /// Returns the best call of an id; one of the process of `work` if there is one.
    fn best_of<'t>(
        &self,
        id: CorrelationId,
        work: Slice<'t>,
        activities: &ActivityMap,
    ) -> Option<Slice<'t>> {
        match self.calls(id) {
            [] => None,
            [only] => Some(work.trace().slice(*only)),
            several if several.len() <= FEW => choose(
                several,
                are_ambiguous(several, work.trace()),
                work,
                activities,
            ),
            many => {
                let at = self.crowds.binary_search_by_key(&id.0, |crowd| crowd.id);
                self.crowds.get(at.ok()?)?.launch_of(work, many, activities)
            }
        }
    }
}

/// Index from external id to the operator or annotation on the host.
#[derive(Clone, Debug)]
pub struct ExternalIndex {
    column: ArgColumn,
    ops: IdMap,
}

impl ExternalIndex {
    /// Indexes the operators and annotations of `trace`. Cost: one pass over the slices.
    pub fn new(trace: &Trace, activities: &ActivityMap) -> Self {
        let column = trace.arg_column(EXTERNAL_ID_KEY);
        let entries = if column.is_empty() {
            Vec::new()
        } else {
            let mut entries: Vec<_> = trace
                .slices()
                .filter(|s| {
                    matches!(
                        activities.of(*s),
                        Activity::CpuOp | Activity::UserAnnotation
                    )
                })
                .filter_map(|s| Some((column.int(s).filter(|id| *id != 0)?, s.id())))
                .collect();
            // Operators sort first, so that the first entry of an id is the preferred one.
            entries.sort_by_key(|e| activities.of(trace.slice(e.1)) != Activity::CpuOp);
            entries
        };
        Self {
            column,
            ops: IdMap::new(entries),
        }
    }

    /// Returns the operator of `slice` (GPU activity or a call); an operator is preferred to an
    /// annotation if both carry the id.
    pub fn op_of<'t>(&self, slice: Slice<'t>) -> Option<Slice<'t>> {
        let id = self.column.int(slice).filter(|id| *id != 0)?;
        let trace = slice.trace();
        self.ops
            .get(id)
            .iter()
            .map(|op| trace.slice(*op))
            .find(|op| op.id() != slice.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::batch::{FlowPoint, FlowRole, FlowSpace, SliceData};
    use crate::builder::{FinishOptions, TraceBuilder};
    use crate::ids::{LaneId, Pid, Tid};
    use crate::kernel::Vocabulary;
    use crate::table::args::Arg;
    use crate::table::track::{Process, Thread, Track, TrackKind};
    use proptest::prelude::*;

    fn slice_id(i: usize) -> SliceId {
        SliceId::new(i).unwrap()
    }

    fn lane(b: &mut TraceBuilder, pid: i64) -> LaneId {
        let process = b.process(Process::new(Pid(pid)));
        let thread = b.thread(Thread::new(Tid(pid), Some(process)));
        let mut track = Track::new(TrackKind::Thread);
        (track.thread, track.process) = (Some(thread), Some(process));
        let track = b.track(track);
        b.lane(Some(track))
    }

    fn add(b: &mut TraceBuilder, lane: LaneId, ts: i64, what: (&str, &str), args: &[(&str, i64)]) {
        let e = &mut b.events;
        let list: Vec<Arg> = args
            .iter()
            .map(|(k, v)| Arg::int(e.strings.intern(&format!("args.{k}")), *v))
            .collect();
        let category = e.strings.intern(what.0);
        let data = SliceData {
            category: e.category(category),
            name: Some(e.strings.intern(what.1)),
            args: e.args(&list),
        };
        b.events.complete(lane, ts, 10, data);
    }

    fn launch_names(trace: &Trace) -> Vec<Option<(&str, i64)>> {
        let activities = ActivityMap::new(trace, &Vocabulary::default());
        let index = CorrelationIndex::new(trace, &activities);
        activities
            .device_work()
            .iter()
            .map(|k| {
                let launch = index.launch_of(trace.slice(*k), &activities)?;
                Some((launch.name()?, launch.ts().nanos()))
            })
            .collect()
    }

    #[test]
    fn of_calls_with_one_id_the_launch_is_meant_then_the_tail_of_an_arrow_then_the_earliest() {
        let mut b = TraceBuilder::new();
        let (host, device) = (lane(&mut b, 100), lane(&mut b, 0));
        let c = |n: i64| [("correlation", n)];
        add(&mut b, host, 0, ("cuda_runtime", "cudaMalloc"), &c(1));
        add(&mut b, host, 20, ("cuda_driver", "cuLaunchKernel"), &c(1));
        add(
            &mut b,
            host,
            40,
            ("cuda_runtime", "cudaFuncGetAttributes"),
            &c(2),
        );
        add(&mut b, host, 60, ("cuda_runtime", "cudaSomething"), &c(2));
        b.events.attach_flow(FlowPoint {
            id: 2,
            category: None,
            name: None,
            space: FlowSpace::Chrome,
            role: FlowRole::Start,
        });
        add(&mut b, host, 80, ("cuda_runtime", "cudaOne"), &c(3));
        add(&mut b, host, 95, ("cuda_runtime", "cudaTwo"), &c(3));
        add(
            &mut b,
            host,
            110,
            ("cuda_runtime", "cudaLaunchKernel"),
            &c(0),
        );
        for (i, n) in [1, 2, 3, 0, 9].into_iter().enumerate() {
            let ts = 1000 + 20 * i64::try_from(i).unwrap();
            add(&mut b, device, ts, ("kernel", "k"), &c(n));
            if n == 2 {
                b.events.attach_flow(FlowPoint {
                    id: 2,
                    category: None,
                    name: None,
                    space: FlowSpace::Chrome,
                    role: FlowRole::End,
                });
            }
        }
        let trace = b.finish(&FinishOptions::default()).unwrap();
        assert_eq!(
            launch_names(&trace),
            [
                Some(("cuLaunchKernel", 20)),
                Some(("cudaSomething", 60)),
                Some(("cudaOne", 80)),
                None, // 0 is no id
                None, // launched before the recording
            ]
        );
    }

    #[test]
    fn ids_of_another_process_do_not_mix() {
        let mut b = TraceBuilder::new();
        let (p, q) = (lane(&mut b, 1), lane(&mut b, 2));
        for (lane, ts) in [(p, 0), (q, 100)] {
            add(
                &mut b,
                lane,
                ts,
                ("hip_api", "hipLaunchKernel"),
                &[("corr_id", 7)],
            );
            add(
                &mut b,
                lane,
                ts + 300,
                ("kernel_dispatch", "k"),
                &[("corr_id", 7)],
            );
        }
        let trace = b.finish(&FinishOptions::default()).unwrap();
        let want = |ts| Some(("hipLaunchKernel", ts));
        assert_eq!(launch_names(&trace), [want(0), want(100)]);
    }

    #[test]
    fn where_the_process_is_known_a_call_of_another_one_is_no_launch() {
        for within in [false, true] {
            let mut b = TraceBuilder::new();
            b.meta.launches_within_process = within;
            let (p, q) = (lane(&mut b, 1), lane(&mut b, 2));
            let id = [("correlation", 7)];
            for at in 0..i64::try_from(FEW).unwrap() + 1 {
                add(
                    &mut b,
                    q,
                    at * 20,
                    ("cuda_runtime", "cudaLaunchKernel"),
                    &id,
                );
            }
            add(&mut b, p, 1_000, ("kernel", "k"), &id);
            add(&mut b, q, 1_000, ("kernel", "k"), &id);
            let trace = b.finish(&FinishOptions::default()).unwrap();
            let found = launch_names(&trace);
            assert_eq!(found[0].is_some(), !within);
            assert!(found[1].is_some());
        }
    }

    #[test]
    fn external_id_names_the_operator_before_the_annotation() {
        let mut b = TraceBuilder::new();
        let (host, device) = (lane(&mut b, 100), lane(&mut b, 0));
        let x = [("External id", 5)];
        add(&mut b, host, 0, ("user_annotation", "step"), &x);
        add(&mut b, host, 1, ("cpu_op", "aten::mm"), &x);
        add(&mut b, device, 50, ("kernel", "k"), &x);
        let trace = b.finish(&FinishOptions::default()).unwrap();
        let activities = ActivityMap::new(&trace, &Vocabulary::default());
        let index = ExternalIndex::new(&trace, &activities);
        let kernel = trace.slices().last().unwrap();
        let op = index.op_of(kernel).unwrap();
        assert_eq!(op.name(), Some("aten::mm"));
    }

    proptest! {
        #[test]
        fn of_many_calls_with_one_id_the_one_is_found_that_looking_at_all_finds(
            processes in 1_i64..4,
            calls in prop::collection::vec((0_i64..4, 0_i64..60, 0_usize..2, 0_i64..9), FEW + 1..60),
            work in prop::collection::vec((0_i64..5, 0_i64..70, 0_i64..9), 1..20),
        ) {
            let mut b = TraceBuilder::new();
            let lanes: Vec<LaneId> = (0..5).map(|pid| lane(&mut b, pid)).collect();
            // An arrow where the id is above 4; device work is of the processes of calls, or of one of its own.
            let flow = |b: &mut TraceBuilder, id: i64, role: FlowRole| {
                if let Some(id) = u64::try_from(id).ok().filter(|id| *id > 4) {
                    let (category, name, space) = (None, None, FlowSpace::Chrome);
                    b.events.attach_flow(FlowPoint { id, category, name, space, role });
                }
            };
            let one = [("correlation", 1)];
            for (pid, ts, named, id) in &calls {
                let lane = lanes[usize::try_from(pid % processes).unwrap()];
                let name = ["cudaMalloc", "cudaLaunchKernel"][*named];
                add(&mut b, lane, *ts * 20, ("cuda_runtime", name), &one);
                flow(&mut b, *id, FlowRole::Start);
            }
            for (pid, ts, id) in &work {
                add(&mut b, lanes[usize::try_from(*pid).unwrap()], *ts * 20 + 11, ("kernel", "k"), &one);
                flow(&mut b, *id, FlowRole::End);
            }
            let trace = b.finish(&FinishOptions::default()).unwrap();
            let activities = ActivityMap::new(&trace, &Vocabulary::default());
            let index = CorrelationIndex::new(&trace, &activities);
            let calls = index.calls(CorrelationId(1));
            let ambiguous = are_ambiguous(calls, &trace);
            for work in activities.device_work() {
                let work = trace.slice(*work);
                let found = index.launch_of(work, &activities).map(|s| s.id());
                let wanted = choose(calls, ambiguous, work, &activities).map(|s| s.id());
                prop_assert_eq!(found, wanted);
            }
        }

        #[test]
        fn every_id_finds_its_slices(
            ids in prop::collection::vec(prop_oneof![-5_i64..40, any::<i64>()], 0..40),
            ask in -8_i64..50,
        ) {
            let entries: Vec<_> = ids.iter().enumerate().map(|(i, &id)| (id, slice_id(i))).collect();
            let map = IdMap::new(entries.clone());
            for id in ids.iter().copied().chain([ask]) {
                let want: Vec<_> = entries.iter().filter(|e| e.0 == id).map(|e| e.1).collect();
                prop_assert_eq!(map.get(id), want);
            }
        }
    }
}
