//! The sealed trace and the views of its rows.

use crate::builder::seal::ThreadTime;
use crate::diagnostics::Diagnostics;
use crate::ids::{FlowId, ProcessId, SliceId, StrId, ThreadId, TrackId};
use crate::intern::StringTable;
use crate::kernel::KernelRules;
use crate::meta::Metadata;
use crate::outline::Outlines;
use crate::parallel::both;
use crate::table::args::{ArgKind, ArgStore, ArgValue, ArgsRef, bare_key};
use crate::table::counter::CounterTable;
use crate::table::flow::Flow;
use crate::table::slice::{CategoryId, OPEN, SliceTable};
use crate::table::track::{Process, Thread, Track};
use crate::time::{Nanos, TimeRange, Timestamp};

/// An immutable timeline: built by [`crate::TraceBuilder::finish`], freely shared between threads.
///
/// Slices are stored in processing order, which is ascending time with parents before children; a
/// [`SliceId`] is the index in that order.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub(crate) slices: SliceTable,
    pub(crate) outlines: Outlines,
    thread_time: ThreadTime,
    /// Slices by track: those of track `t` are `by_track[track_start[t]..track_start[t + 1]]`.
    by_track: Vec<SliceId>,
    track_start: Vec<u32>,
    flows: Vec<Flow>,
    /// Flows by tail and by head.
    flows_by_from: Vec<u32>,
    flows_by_to: Vec<u32>,
    counters: CounterTable,
    processes: Vec<Process>,
    threads: Vec<Thread>,
    tracks: Vec<Track>,
    strings: StringTable,
    args: ArgStore,
    categories: Vec<StrId>,
    meta: Metadata,
    diagnostics: Diagnostics,
    end: i64,
    /// Rules of the reader for kernels, which precede the built-in ones.
    kernel_rules: KernelRules,
}

/// A slice: a cheap handle of trace and row.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'t> {
    trace: &'t Trace,
    row: usize,
}

/// Position of one argument in each shape; created by [`Trace::arg_column`].
#[derive(Clone, Debug)]
pub struct ArgColumn {
    /// Position and kind by shape.
    at: Vec<Option<(u16, ArgKind)>>,
}

impl Trace {
    #[expect(
        clippy::too_many_arguments,
        reason = "the one call is in `seal`, part by part"
    )]
    pub(crate) fn seal(
        (slices, outlines): (SliceTable, Outlines),
        thread_time: ThreadTime,
        flows: Vec<Flow>,
        counters: CounterTable,
        (processes, threads, tracks): (Vec<Process>, Vec<Thread>, Vec<Track>),
        (strings, args, categories): (StringTable, ArgStore, Vec<StrId>),
        meta: Metadata,
        diagnostics: Diagnostics,
    ) -> Self {
        // Slice and flow are packed into one key: the sort moves 8 bytes and needs no look-up.
        let index = |slice: fn(&Flow) -> SliceId| {
            let pack = |(i, f): (usize, &Flow)| ((slice(f).index() as u64) << 32) | i as u64;
            let mut keys: Vec<u64> = flows.iter().enumerate().map(pack).collect();
            if !keys.is_sorted() {
                keys.sort_unstable();
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "flow indices are below 2^32"
            )]
            keys.into_iter().map(|k| k as u32).collect::<Vec<u32>>()
        };
        let ends_and_flows = || {
            let ends = slices.ts.iter().zip(&slices.dur);
            let ends = ends.map(|(&t, &d)| t.saturating_add(d.max(0)));
            let outlined = outlines.groups().iter().map(|group| group.last_ns);
            let ends = ends.chain(counters.ts.iter().copied());
            let end = ends.chain(outlined).max().unwrap_or(0);
            (end, index(|f| f.from), index(|f| f.to))
        };
        let ((by_track, track_start), (end, flows_by_from, flows_by_to)) = both(
            slices.len(),
            || index_by_track(&slices.track, tracks.len()),
            ends_and_flows,
        );
        Self {
            slices,
            outlines,
            thread_time,
            by_track,
            track_start,
            flows,
            flows_by_from,
            flows_by_to,
            counters,
            processes,
            threads,
            tracks,
            strings,
            args,
            categories,
            meta,
            diagnostics,
            end,
            kernel_rules: KernelRules::default(),
        }
    }

    /// Returns the number of slices.
    pub fn len(&self) -> usize {
        self.slices.len()
    }

    /// Returns the slices of which only the outline is kept: none, unless the reader was told to.
    pub fn outlines(&self) -> &Outlines {
        &self.outlines
    }

    /// Returns `true` if there are no slices.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all slices in ascending time.
    pub fn slices(&self) -> impl DoubleEndedIterator<Item = Slice<'_>> + ExactSizeIterator {
        (0..self.len()).map(|row| Slice { trace: self, row })
    }

    /// Returns a slice.
    ///
    /// # Panics
    ///
    /// Panics for an id of another, longer trace, as all look-ups by id do.
    pub fn slice(&self, id: SliceId) -> Slice<'_> {
        assert!(id.index() < self.len(), "slice id of another trace");
        Slice {
            trace: self,
            row: id.index(),
        }
    }

    /// Returns the slices that start in `range`, in ascending time. Cost: two binary searches.
    pub fn starting_in(
        &self,
        range: TimeRange,
    ) -> impl DoubleEndedIterator<Item = Slice<'_>> + ExactSizeIterator {
        let from = self.slices.ts.partition_point(|&t| t < range.start.nanos());
        let to = self
            .slices
            .ts
            .partition_point(|&t| t < range.end.nanos())
            .max(from);
        (from..to).map(|row| Slice { trace: self, row })
    }

    /// Returns the slices of one track in ascending time, parents before children.
    pub fn slices_on(&self, track: TrackId) -> &[SliceId] {
        let bound = |i: usize| self.track_start.get(i).map_or(0, |&n| n as usize);
        self.by_track
            .get(bound(track.index())..bound(track.index() + 1))
            .unwrap_or(&[])
    }

    /// Returns all tracks, in the order of the reader, overflow tracks last.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Returns a track.
    pub fn track(&self, id: TrackId) -> &Track {
        &self.tracks[id.index()]
    }

    /// Returns the ids of all tracks.
    pub fn track_ids(&self) -> impl ExactSizeIterator<Item = TrackId> + use<> {
        (0..self.tracks.len()).filter_map_exact(TrackId::new)
    }

    /// Returns all threads.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Returns a thread.
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.index()]
    }

    /// Returns all processes.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Returns a process.
    pub fn process(&self, id: ProcessId) -> &Process {
        &self.processes[id.index()]
    }

    /// Returns all flow arrows in order of creation.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Returns the flow arrows that leave `slice`. Cost: a binary search.
    pub fn flows_from(&self, slice: SliceId) -> impl Iterator<Item = (FlowId, &Flow)> {
        self.flows_at(&self.flows_by_from, |f| f.from, slice)
    }

    /// Returns the flow arrows that arrive at `slice`. Cost: a binary search.
    pub fn flows_to(&self, slice: SliceId) -> impl Iterator<Item = (FlowId, &Flow)> {
        self.flows_at(&self.flows_by_to, |f| f.to, slice)
    }

    fn flows_at<'t>(
        &'t self,
        index: &'t [u32],
        key: fn(&Flow) -> SliceId,
        slice: SliceId,
    ) -> impl Iterator<Item = (FlowId, &'t Flow)> {
        let first = index.partition_point(|&i| key(&self.flows[i as usize]) < slice);
        index[first..].iter().map_while(move |&i| {
            let flow = &self.flows[i as usize];
            (key(flow) == slice).then_some((FlowId::new(i as usize)?, flow))
        })
    }

    /// Returns all counter samples.
    pub fn counters(&self) -> &CounterTable {
        &self.counters
    }

    /// Returns all strings.
    pub fn strings(&self) -> &StringTable {
        &self.strings
    }

    /// Returns the text of a string id.
    pub fn text(&self, id: StrId) -> &str {
        self.strings.get(id)
    }

    /// Returns the metadata of the file.
    pub fn meta(&self) -> &Metadata {
        &self.meta
    }

    /// Returns the rules for kernels of whoever reads this trace; none unless [`Trace::set_kernel_rules`] gave some.
    pub fn kernel_rules(&self) -> &KernelRules {
        &self.kernel_rules
    }

    /// Sets rules that precede the built-in ones wherever kernels of this trace are classified with [`Vocabulary::of`].
    ///
    /// [`Vocabulary::of`]: crate::kernel::Vocabulary::of
    pub fn set_kernel_rules(&mut self, rules: KernelRules) {
        self.kernel_rules = rules;
    }

    /// Returns the issues of the input.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.diagnostics
    }

    /// Returns the time from the first start to the last end; empty at 0 for an empty trace.
    pub fn span(&self) -> TimeRange {
        let outlined = self.outlines.groups().iter().map(|group| group.first_ns);
        let stored = self.slices.ts.first().into_iter();
        let first = stored
            .chain(self.counters.ts.first())
            .copied()
            .chain(outlined)
            .min();
        TimeRange::new(
            Timestamp::from_nanos(first.unwrap_or(0)),
            Timestamp::from_nanos(self.end),
        )
    }

    /// Looks up an argument in every shape once, so that reading it from a slice is one index.
    /// `key` has no prefix: `correlation` finds `args.correlation` and `debug.correlation`; of
    /// equal keys in one slice the last counts.
    pub fn arg_column(&self, key: &str) -> ArgColumn {
        let at = self
            .args
            .shapes
            .iter()
            .map(|shape| {
                let found = shape
                    .iter()
                    .rposition(|&(k, _)| bare_key(self.strings.get(k)) == key)?;
                Some((u16::try_from(found).ok()?, shape[found].1))
            })
            .collect();
        ArgColumn { at }
    }

    /// Returns the names of all categories.
    pub fn categories(&self) -> impl ExactSizeIterator<Item = (CategoryId, &str)> {
        self.categories.iter().enumerate().map(|(i, &c)| {
            let id = u16::try_from(i).map_or(CategoryId::NONE, CategoryId);
            (id, self.strings.get(c))
        })
    }

    /// Returns the name of a category.
    pub(crate) fn category_name(&self, id: CategoryId) -> Option<&str> {
        let name = self.categories.get(id.index()?)?;
        Some(self.strings.get(*name))
    }

    /// Returns the dictionary entry of a category, if any slice of the file used it.
    pub fn find_category(&self, name: &str) -> Option<CategoryId> {
        self.categories()
            .find(|&(_, n)| n == name)
            .map(|(id, _)| id)
    }

    /// Returns the memory used, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.slices.heap_bytes()
            + self.outlines.heap_bytes()
            + self.by_track.capacity() * 4
            + self.flows.capacity() * size_of::<Flow>()
            + (self.flows_by_from.capacity() + self.flows_by_to.capacity()) * 4
            + self.counters.len() * 20
            + self.strings.heap_bytes()
            + self.args.heap_bytes()
    }
}

trait FilterMapExact: ExactSizeIterator<Item = usize> + Sized {
    /// Returns ids of existing rows: below the limit by construction.
    fn filter_map_exact<T>(self, id: fn(usize) -> Option<T>) -> impl ExactSizeIterator<Item = T>;
}

impl<I: ExactSizeIterator<Item = usize>> FilterMapExact for I {
    fn filter_map_exact<T>(self, id: fn(usize) -> Option<T>) -> impl ExactSizeIterator<Item = T> {
        self.map(move |i| id(i).expect("a stored row has an id"))
    }
}

fn index_by_track(track: &[TrackId], tracks: usize) -> (Vec<SliceId>, Vec<u32>) {
    let mut start = vec![0_u32; tracks + 1];
    for t in track {
        start[t.index() + 1] += 1;
    }
    for i in 0..tracks {
        start[i + 1] += start[i];
    }
    let mut next = start.clone();
    let mut list = vec![SliceId::new(0); track.len()];
    for (row, t) in track.iter().enumerate() {
        let place = &mut next[t.index()];
        list[*place as usize] = SliceId::new(row);
        *place += 1;
    }
    (list.into_iter().flatten().collect(), start)
}

impl<'t> Slice<'t> {
    /// Returns its id.
    pub fn id(self) -> SliceId {
        SliceId::new(self.row).expect("a stored slice has an id")
    }

    /// Returns its trace.
    pub fn trace(self) -> &'t Trace {
        self.trace
    }

    /// Returns its start.
    pub fn ts(self) -> Timestamp {
        Timestamp::from_nanos(self.trace.slices.ts[self.row])
    }

    /// Returns its duration; `None` if it was never closed.
    pub fn dur(self) -> Option<Nanos> {
        let dur = self.trace.slices.dur[self.row];
        (dur != OPEN).then_some(Nanos::new(dur))
    }

    /// Returns its end; a slice that was never closed ends with the trace.
    pub fn end(self) -> Timestamp {
        match self.dur() {
            Some(dur) => self.ts() + dur,
            None => Timestamp::from_nanos(self.trace.end).max(self.ts()),
        }
    }

    /// Returns the range from start to end.
    pub fn range(self) -> TimeRange {
        TimeRange::new(self.ts(), self.end())
    }

    /// Returns its name.
    pub fn name(self) -> Option<&'t str> {
        self.name_id().map(|id| self.trace.strings.get(id))
    }

    /// Returns its name as an id of the trace's strings.
    pub fn name_id(self) -> Option<StrId> {
        self.trace.slices.name[self.row]
    }

    /// Returns its category; `None` differs from an empty one.
    pub fn category(self) -> Option<&'t str> {
        let id = self.category_id();
        self.trace
            .categories
            .get(usize::from(id.0))
            .map(|&c| self.trace.strings.get(c))
    }

    /// Returns its category as a dictionary entry.
    pub fn category_id(self) -> CategoryId {
        self.trace.slices.category[self.row]
    }

    /// Returns the id of its track.
    pub fn track_id(self) -> TrackId {
        self.trace.slices.track[self.row]
    }

    /// Returns its track.
    pub fn track(self) -> &'t Track {
        self.trace.track(self.track_id())
    }

    /// Returns the enclosing slice.
    pub fn parent(self) -> Option<Slice<'t>> {
        let parent = self.trace.slices.parent[self.row]?;
        Some(Slice {
            trace: self.trace,
            row: parent.index(),
        })
    }

    /// Returns the number of enclosing slices.
    pub fn depth(self) -> usize {
        usize::from(self.trace.slices.depth[self.row])
    }

    /// Returns the enclosing slices, from the innermost outwards.
    pub fn ancestors(self) -> impl Iterator<Item = Slice<'t>> {
        std::iter::successors(self.parent(), |s| s.parent())
    }

    /// Returns its arguments with full keys, in the order of the file.
    pub fn args(self) -> impl ExactSizeIterator<Item = (&'t str, ArgValue<'t>)> {
        let trace = self.trace;
        trace.args.list(self.args_ref()).map(move |arg| {
            (
                trace.strings.get(arg.key),
                ArgStore::decode(arg, &trace.strings),
            )
        })
    }

    /// Returns one argument by its key without prefix. For many slices use [`Trace::arg_column`].
    pub fn arg(self, key: &str) -> Option<ArgValue<'t>> {
        self.args()
            .filter(|(k, _)| bare_key(k) == key)
            .last()
            .map(|(_, v)| v)
    }

    fn args_ref(self) -> ArgsRef {
        ArgsRef {
            shape: self.trace.slices.args_shape[self.row],
            offset: self.trace.slices.args_offset[self.row],
        }
    }

    /// Returns the CPU time of the thread at its start, and the CPU time spent in it, if recorded.
    pub fn thread_time(self) -> Option<(i64, Option<i64>)> {
        let list = &self.trace.thread_time;
        let at = list.binary_search_by_key(&self.row, |t| t.0.index()).ok()?;
        Some((list[at].1, list[at].2))
    }
}

impl ArgColumn {
    /// Returns the argument of `slice`, if it has one of this key.
    pub fn get<'t>(&self, slice: Slice<'t>) -> Option<ArgValue<'t>> {
        let at = slice.args_ref();
        let (position, kind) = (*self.at.get(usize::from(at.shape.0))?)?;
        let trace = slice.trace;
        let word = *trace
            .args
            .words
            .get(at.offset as usize + usize::from(position))?;
        let key = StrId::new(0)?;
        Some(ArgStore::decode(
            crate::table::args::Arg { key, kind, word },
            &trace.strings,
        ))
    }

    /// Returns the argument of `slice` as a signed integer.
    pub fn int(&self, slice: Slice<'_>) -> Option<i64> {
        self.get(slice).and_then(ArgValue::as_i64)
    }

    /// Returns `true` if no slice of the trace has the argument.
    pub fn is_empty(&self) -> bool {
        self.at.iter().all(Option::is_none)
    }
}
