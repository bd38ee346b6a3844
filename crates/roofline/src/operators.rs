//! Operators of the host, nested by their times alone.

use std::cmp::Reverse;

use trace_model::kernel::{Activity, TraceIndex};
use trace_model::{Slice, SliceId, ThreadId, TrackId};

/// Stands for no place.
const NONE: u32 = u32::MAX;

/// Whose operators nest: those of a thread, whatever tracks its slices are on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Home {
    Thread(ThreadId),
    Track(TrackId),
}

impl Home {
    fn of(slice: Slice<'_>) -> Self {
        match slice.track().thread {
            Some(thread) => Self::Thread(thread),
            None => Self::Track(slice.track_id()),
        }
    }
}

/// One operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operator {
    pub(crate) slice: SliceId,
    home: Home,
    begin_ns: i64,
    end_ns: i64,
    /// The one around it.
    parent: u32,
}

/// Operators of a recording by thread.
///
/// A Python frame or an annotation that begins before an operator and ends within it moves one of the two to another track, so
/// the parents of the store do not tell which operators contain which. As `key_averages` of PyTorch, this looks at operators only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operators {
    all: Vec<Operator>,
}

impl Operators {
    /// Nests all operators of the recording.
    pub(crate) fn new(index: &TraceIndex<'_>) -> Self {
        Self::of(index, |_| true)
    }

    /// Nests the operators of threads whose slices are on several tracks: on one track alone, the parents of the store are right.
    pub(crate) fn of_overlaps(index: &TraceIndex<'_>) -> Self {
        let tracks = index.trace().tracks();
        let mut threads: Vec<ThreadId> = tracks.iter().filter_map(|track| track.thread).collect();
        threads.sort_unstable();
        let repeated = threads.windows(2).filter(|pair| pair[0] == pair[1]);
        let mut repeated: Vec<ThreadId> = repeated.map(|pair| pair[0]).collect();
        repeated.dedup();
        match repeated.is_empty() {
            true => Self::default(),
            false => Self::of(index, |home| match home {
                Home::Thread(thread) => repeated.binary_search(&thread).is_ok(),
                Home::Track(_) => false,
            }),
        }
    }

    fn of(index: &TraceIndex<'_>, wants: impl Fn(Home) -> bool) -> Self {
        let slices = index.trace().slices();
        let found = slices.filter(|slice| index.activity(*slice) == Activity::CpuOp);
        let found = found.filter_map(|slice| {
            let home = Home::of(slice);
            wants(home).then(|| Operator {
                slice: slice.id(),
                home,
                begin_ns: slice.ts().nanos(),
                end_ns: slice.end().nanos(),
                parent: NONE,
            })
        });
        let mut all: Vec<Operator> = found.collect();
        all.sort_by_key(|op| (op.home, op.begin_ns, Reverse(op.end_ns), op.slice));
        let mut open: Vec<u32> = Vec::new();
        for at in 0..all.len() {
            let own = all[at];
            while let Some(last) = open.last() {
                let outer = &all[*last as usize];
                let holds = outer.home == own.home
                    && own.begin_ns < outer.end_ns
                    && own.end_ns <= outer.end_ns;
                if holds {
                    all[at].parent = *last;
                    break;
                }
                open.pop();
            }
            open.push(u32::try_from(at).unwrap_or(NONE));
        }
        Self { all }
    }

    /// All operators, by thread and begin.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Operator> {
        self.all.iter()
    }

    /// The place of the operator around the one at a place.
    pub(crate) fn parent(&self, at: usize) -> Option<usize> {
        let parent = self.all.get(at)?.parent;
        (parent != NONE).then_some(parent as usize)
    }

    /// Places of the operators that contain the begin of a slice on its thread, innermost first.
    pub(crate) fn around(&self, slice: Slice<'_>) -> impl Iterator<Item = usize> {
        let (home, ns) = (Home::of(slice), slice.ts().nanos());
        let behind = self
            .all
            .partition_point(|op| (op.home, op.begin_ns) <= (home, ns));
        let last = behind
            .checked_sub(1)
            .filter(|at| self.all[*at].home == home);
        let mut next = last;
        std::iter::from_fn(move || {
            let at = next?;
            next = self.parent(at);
            Some(at)
        })
        .filter(move |at| ns < self.all[*at].end_ns)
    }

    /// The operator at a place.
    pub(crate) fn get(&self, at: usize) -> Option<&Operator> {
        self.all.get(at)
    }

    /// Returns `true` if the operators of the thread of `slice` are nested here.
    pub(crate) fn has_thread_of(&self, slice: Slice<'_>) -> bool {
        let home = Home::of(slice);
        let at = self.all.partition_point(|op| op.home < home);
        self.all.get(at).is_some_and(|op| op.home == home)
    }
}
