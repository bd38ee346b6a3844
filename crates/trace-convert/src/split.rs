//! The ranks that one file has, each by itself.

use rustc_hash::FxHashMap;
use trace_model::kernel::{TraceIndex, Vocabulary};
use trace_model::{BuildError, ProcessId, Rank, Slice, Trace};

use crate::copy::{Edit, copy};

/// Processes that belong together: a host process and the rows of the GPUs that it launches on.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Part {
    /// Number of its host process; the smallest, if there are several.
    pub pid: i64,
    /// Its processes.
    pub processes: Vec<ProcessId>,
}

/// Returns the ranks that a file has, in the order of their process numbers, which is how `comm` numbers them: processes are of one rank if one launches GPU activity on a row of
/// the other. Processes without launches belong to all. One part if there is nothing to part.
pub fn parts(trace: &Trace) -> Vec<Part> {
    let index = TraceIndex::new(trace, Vocabulary::of(trace));
    let count = trace.processes().len();
    let mut root: Vec<usize> = (0..count).collect();
    fn find(root: &mut [usize], mut at: usize) -> usize {
        while root[at] != at {
            root[at] = root[root[at]];
            at = root[at];
        }
        at
    }
    let process_of = |slice: Slice<'_>| {
        let track = slice.track();
        let of_thread = track.thread.and_then(|id| trace.thread(id).process);
        track.process.or(of_thread).map(ProcessId::index)
    };
    // Hosts by process.
    let mut launches = vec![false; count];
    for id in index.activities().device_work() {
        let work = trace.slice(*id);
        let Some((launch, _)) = index.launch_of(work) else {
            continue;
        };
        if let (Some(host), Some(device)) = (process_of(launch), process_of(work)) {
            launches[host] = true;
            let (a, b) = (find(&mut root, host), find(&mut root, device));
            root[a.max(b)] = a.min(b);
        }
    }
    let mut by_root: FxHashMap<usize, Part> = FxHashMap::default();
    let mut shared: Vec<ProcessId> = Vec::new();
    let mut has_launch: FxHashMap<usize, bool> = FxHashMap::default();
    for (at, launched) in launches.iter().enumerate() {
        let own = find(&mut root, at);
        *has_launch.entry(own).or_default() |= launched;
    }
    for (at, launched) in launches.iter().enumerate() {
        let own = find(&mut root, at);
        let Some(id) = ProcessId::new(at) else {
            continue;
        };
        if has_launch.get(&own) != Some(&true) {
            shared.push(id);
            continue;
        }
        let pid = trace.process(id).pid.0;
        let part = by_root.entry(own).or_insert(Part {
            pid: i64::MAX,
            processes: Vec::new(),
        });
        part.processes.push(id);
        if *launched {
            part.pid = part.pid.min(pid);
        }
    }
    let mut parts: Vec<Part> = by_root.into_values().collect();
    parts.sort_by(|a, b| (a.pid, &a.processes).cmp(&(b.pid, &b.processes)));
    for part in &mut parts {
        part.processes.extend(&shared);
        part.processes.sort_unstable();
    }
    parts
}

/// Key of the processes of a recording that are ranks of a job, in its metadata: a list of process numbers, each with its rank if
/// that is known, as in `[[5017,0],[5000,1]]` or `[[10,null],[11,null]]`.
pub const RANKS: &str = "rankProcesses";

/// Returns the ranks that the metadata of a recording lists.
pub fn stated_ranks(text: &str) -> Vec<(i64, Option<u32>)> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Returns a copy with the slices of the processes of one part, and with what is in no process.
///
/// # Errors
/// As [`TraceBuilder::finish`](trace_model::TraceBuilder::finish).
pub fn part(trace: &Trace, part: &Part) -> Result<Trace, BuildError> {
    copy(trace, &mut Of { part }, |builder| {
        let meta = &mut builder.meta;
        let stated = stated_ranks(meta.entry(RANKS).unwrap_or_default());
        let rank = stated.iter().find(|(pid, _)| *pid == part.pid);
        meta.entries.retain(|(key, _)| key != RANKS);
        if let Some(rank) = rank.and_then(|(_, rank)| *rank) {
            meta.distributed.get_or_insert_default().rank = Some(Rank(rank));
        }
    })
}

/// Returns the part of the processes of this number, and of those without GPU activity; `None` if there is no such process.
pub fn part_of_pid(trace: &Trace, pid: i64) -> Option<Part> {
    let ranks = stated_ranks(trace.meta().entry(RANKS).unwrap_or_default());
    let is_other = |own: i64| own != pid && ranks.iter().any(|(rank, _)| *rank == own);
    let own = trace.processes().iter().enumerate();
    let processes: Vec<ProcessId> = own
        .filter(|(_, process)| !is_other(process.pid.0))
        .filter_map(|(at, _)| ProcessId::new(at))
        .collect();
    let is_there = trace.processes().iter().any(|process| process.pid.0 == pid);
    is_there.then_some(Part { pid, processes })
}

struct Of<'a> {
    part: &'a Part,
}

impl Edit for Of<'_> {
    fn keeps(&self, slice: Slice<'_>) -> bool {
        let track = slice.track();
        let of_thread = track.thread.and_then(|id| slice.trace().thread(id).process);
        let process = track.process.or(of_thread);
        process.is_none_or(|id| self.part.processes.binary_search(&id).is_ok())
    }
}
