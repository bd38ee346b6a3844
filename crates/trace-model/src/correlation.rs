//! From device work to the call that launched it, by the ids that producers write.
//!
//! A launch call and the work it caused carry the same id: `correlation` in Kineto traces,
//! `corr_id` in those of rocprofiler. One call may cause much work (a graph launch, thousands of
//! kernels), and several calls may carry one id. `External id` joins both to the operator around
//! the call.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::ids::{CorrelationId, ProcessId, SliceId};
use crate::kernel::{Activity, ActivityMap};
use crate::time::Timestamp;
use crate::trace::{ArgColumn, Slice, Trace};

/// The keys, without prefix, under which producers write correlation ids.
pub const CORRELATION_KEYS: [&str; 3] = ["correlation", "corr_id", "correlation_id"];

/// The key, without prefix, that joins device work and runtime calls to operators.
pub const EXTERNAL_ID_KEY: &str = "External id";

/// The evidence that joined a kernel to its launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum LinkMethod {
    /// Equal correlation ids.
    Correlation,
    /// An arrow.
    Flow,
    /// Equal external ids: the operator is known, the call is not.
    ExternalId,
    /// The k-th launch of a kernel name is taken for its k-th run.
    Order,
}

impl LinkMethod {
    /// Stable machine name.
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
    /// Finds the id's key in the shapes of `trace`.
    pub fn new(trace: &Trace) -> Self {
        let columns = CORRELATION_KEYS.iter().map(|key| trace.arg_column(key));
        Self {
            columns: columns.filter(|c| !c.is_empty()).collect(),
        }
    }

    /// The correlation id of `slice`; 0 counts as none.
    pub fn of(&self, slice: Slice<'_>) -> Option<CorrelationId> {
        let id = self.columns.iter().find_map(|c| c.int(slice))?;
        (id != 0).then_some(CorrelationId(id))
    }
}

/// Slices by a producer's id. Dense ids, the usual case, cost four bytes each.
#[derive(Clone, Debug, Default)]
struct IdMap {
    /// The slices of all ids, those of one id side by side in the order in which they came.
    rows: Vec<SliceId>,
    /// Where those of an id start in `rows`; one entry more at the end.
    starts: Vec<u32>,
    keys: Keys,
}

#[derive(Clone, Debug)]
enum Keys {
    /// The id of `starts[0]`; the following ids count up.
    From(i64),
    /// The id of each start, ascending.
    Listed(Vec<i64>),
}

impl Default for Keys {
    fn default() -> Self {
        Self::From(0)
    }
}

impl IdMap {
    fn new(mut entries: Vec<(i64, SliceId)>) -> Self {
        let range = entries
            .iter()
            .map(|e| e.0)
            .fold(None, |range: Option<(i64, i64)>, id| {
                Some(range.map_or((id, id), |(lo, hi)| (lo.min(id), hi.max(id))))
            });
        let Some((low, high)) = range else {
            return Self::default();
        };
        let width = usize::try_from(high.saturating_sub(low)).unwrap_or(usize::MAX);
        if width <= entries.len().saturating_mul(8) + 1024 {
            let at = |id: i64| usize::try_from(id - low).unwrap_or(0);
            let mut starts = vec![0_u32; width + 2];
            for (id, _) in &entries {
                starts[at(*id) + 1] += 1;
            }
            for i in 0..=width {
                starts[i + 1] += starts[i];
            }
            let mut rows: Vec<SliceId> = entries.iter().map(|e| e.1).collect();
            for (id, slice) in &entries {
                let next = &mut starts[at(*id)];
                rows[*next as usize] = *slice;
                *next += 1;
            }
            // Every start has moved to the next id's.
            starts.rotate_right(1);
            starts[0] = 0;
            starts.pop();
            starts.push(u32::try_from(rows.len()).unwrap_or(u32::MAX));
            return Self {
                rows,
                starts,
                keys: Keys::From(low),
            };
        }
        entries.sort_by_key(|e| e.0);
        let (mut ids, mut starts) = (Vec::new(), Vec::new());
        for (i, (id, _)) in entries.iter().enumerate() {
            if ids.last() != Some(id) {
                ids.push(*id);
                starts.push(u32::try_from(i).unwrap_or(u32::MAX));
            }
        }
        starts.push(u32::try_from(entries.len()).unwrap_or(u32::MAX));
        Self {
            rows: entries.into_iter().map(|e| e.1).collect(),
            starts,
            keys: Keys::Listed(ids),
        }
    }

    /// Every id with its slices, ids ascending.
    fn groups(&self) -> impl Iterator<Item = (i64, &[SliceId])> {
        self.starts.windows(2).enumerate().map(|(i, bounds)| {
            let id = match &self.keys {
                Keys::From(low) => low + i64::try_from(i).unwrap_or(0),
                Keys::Listed(ids) => ids.get(i).copied().unwrap_or(0),
            };
            let rows = self.rows.get(bounds[0] as usize..bounds[1] as usize);
            (id, rows.unwrap_or(&[]))
        })
    }

    fn get(&self, id: i64) -> &[SliceId] {
        let at = match &self.keys {
            Keys::From(low) => id.checked_sub(*low).and_then(|i| usize::try_from(i).ok()),
            Keys::Listed(ids) => ids.binary_search(&id).ok(),
        };
        let bound = |i: usize| self.starts.get(i).map(|&n| n as usize);
        at.and_then(|i| self.rows.get(bound(i)?..bound(i + 1)?))
            .unwrap_or(&[])
    }
}

/// Correlation id → calls on the host.
///
/// Ids are unique only within a process. When calls of several processes carry one id, the call in
/// the process of the device work is meant; where device rows have processes of their own (Kineto),
/// the one with an arrow to the work, else the last call before it.
#[derive(Clone, Debug)]
pub struct CorrelationIndex {
    column: CorrelationColumn,
    calls: IdMap,
    /// Of ids that many calls carry, ascending.
    crowds: Vec<Crowd>,
}

/// Calls of one id up to which they are looked at one by one.
const FEW: usize = 16;

/// The many calls of one id, so ranked that the one that is meant is found without looking at all: where a producer writes the
/// same id everywhere, work and calls are as many.
#[derive(Clone, Debug)]
struct Crowd {
    id: i64,
    /// Whether the calls are of several processes.
    ambiguous: bool,
    all: Ranked,
    /// By process, ascending.
    by_process: Vec<(ProcessId, Ranked)>,
}

/// Calls by how much they look like launches.
#[derive(Clone, Debug, Default)]
struct Ranked {
    /// Neither, where an arrow starts, launches, both; each in ascending time.
    ranks: [Vec<SliceId>; 4],
}

impl Ranked {
    /// The call that is meant: of the highest rank the last one that began by `before`, if that is asked for and there is one,
    /// else the earliest.
    fn best(&self, trace: &Trace, before: Option<Timestamp>) -> Option<SliceId> {
        let calls = self.ranks.iter().rev().find(|calls| !calls.is_empty())?;
        let ts = |call: &SliceId| trace.slice(*call).ts();
        let last = before.and_then(|time| {
            let after = calls.partition_point(|call| ts(call) <= time);
            let last = calls.get(after.checked_sub(1)?)?;
            // Of those that began with it, the first.
            calls.get(calls.partition_point(|call| ts(call) < ts(last)))
        });
        last.or(calls.first()).copied()
    }
}

impl Crowd {
    /// `calls` in ascending time, more than a few.
    fn new(id: i64, calls: &[SliceId], trace: &Trace, activities: &ActivityMap) -> Self {
        let (mut all, mut by_process) = (Ranked::default(), BTreeMap::<_, Ranked>::new());
        for call in calls {
            let rank = rank_of(trace.slice(*call), activities);
            all.ranks[rank].push(*call);
            let own = by_process.entry(process_of(trace.slice(*call)));
            own.or_default().ranks[rank].push(*call);
        }
        Self {
            id,
            ambiguous: by_process.len() > 1,
            all,
            by_process: by_process
                .into_iter()
                .filter_map(|(process, ranked)| Some((process?, ranked)))
                .collect(),
        }
    }

    /// As [`choose`] of `calls`, all of this id.
    fn launch_of<'t>(
        &self,
        work: Slice<'t>,
        calls: &[SliceId],
        by: &ActivityMap,
    ) -> Option<Slice<'t>> {
        let trace = work.trace();
        let home = process_of(work);
        let own = home.and_then(|home| {
            let at = self.by_process.binary_search_by_key(&home, |own| own.0);
            Some(&self.by_process.get(at.ok()?)?.1)
        });
        if self.ambiguous {
            // Tails of arrows come before all others.
            let mut tails: Vec<SliceId> = trace
                .flows_to(work.id())
                .map(|(_, flow)| flow.from)
                .filter(|from| calls.binary_search(from).is_ok())
                .filter(|from| own.is_none() || process_of(trace.slice(*from)) == home)
                .collect();
            tails.sort_unstable();
            tails.dedup();
            if !tails.is_empty() {
                return choose(&tails, true, work, by);
            }
        }
        let best = own
            .unwrap_or(&self.all)
            .best(trace, self.ambiguous.then(|| work.ts()));
        Some(trace.slice(best?))
    }
}

/// Whether a call is named as a launch, and whether an arrow starts there.
fn rank_of(call: Slice<'_>, activities: &ActivityMap) -> usize {
    let launches = matches!(
        activities.of(call),
        Activity::Launch | Activity::GraphLaunch
    );
    let starts_flow = call.trace().flows_from(call.id()).next().is_some();
    usize::from(launches) * 2 + usize::from(starts_flow)
}

/// Whether the calls are of several processes.
fn are_ambiguous(calls: &[SliceId], trace: &Trace) -> bool {
    let mut processes = calls.iter().map(|id| process_of(trace.slice(*id)));
    let first = processes.next();
    processes.any(|process| Some(process) != first)
}

/// As [`CorrelationIndex::launch_of`], of these calls; looks at each.
fn choose<'t>(
    calls: &[SliceId],
    ambiguous: bool,
    work: Slice<'t>,
    activities: &ActivityMap,
) -> Option<Slice<'t>> {
    let trace = work.trace();
    let home = process_of(work);
    let is_tail = |s: &Slice<'_>| {
        trace
            .flows_to(work.id())
            .any(|(_, flow)| flow.from == s.id())
    };
    let several = calls.iter().map(|id| trace.slice(*id));
    several.max_by_key(|s| {
        let before = s.ts() <= work.ts();
        (
            home.is_some() && process_of(*s) == home,
            ambiguous && is_tail(s),
            rank_of(*s, activities),
            (ambiguous && before).then_some(s.ts()),
            Reverse(s.id()),
        )
    })
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
        }
    }

    /// The correlation id of `slice`; 0 counts as none.
    pub fn id_of(&self, slice: Slice<'_>) -> Option<CorrelationId> {
        self.column.of(slice)
    }

    /// All calls that carry `id`, in ascending time.
    pub fn calls(&self, id: CorrelationId) -> &[SliceId] {
        self.calls.get(id.0)
    }

    /// The call that launched `work`. Of several with the same id: one that is named as a launch,
    /// else one where an arrow starts, else the earliest.
    pub fn launch_of<'t>(&self, work: Slice<'t>, activities: &ActivityMap) -> Option<Slice<'t>> {
        let id = self.id_of(work)?;
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

fn process_of(slice: Slice<'_>) -> Option<ProcessId> {
    slice.track().process
}

/// External id → operator or annotation on the host.
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
            // Operators first, so that the first of an id is the one that is meant.
            entries.sort_by_key(|e| activities.of(trace.slice(e.1)) != Activity::CpuOp);
            entries
        };
        Self {
            column,
            ops: IdMap::new(entries),
        }
    }

    /// The operator that `slice` (device work or a call) belongs to; an operator rather than an
    /// annotation when both carry the id.
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
