//! Counts all parts of the summary.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use trace_model::kernel::{Activity, ActivityMap, TraceIndex, Vocabulary};
use trace_model::{ClockDomain, Place, StrId, Trace, Track};

use crate::summary::health::{findings, losses};
use crate::summary::links::kernel_links;
use crate::summary::{
    Edge, FileFacts, GroupFacts, IssueCount, KeyText, NameCount, PlaceFacts, ProcessCount,
    RowCounts, SUMMARY_VERSION, Summary, ThreadCount, TrackKindCount,
};

/// Maximum length of a repeated metadata entry; longer ones are device tables and the like.
const LONGEST_ENTRY: usize = 200;

/// Summarises `trace`, which came from a source called `name`. Correlation ids count only if the trace was read with
/// them. Cost: three passes over the slices.
#[must_use]
pub fn summarise(name: &str, trace: &Trace) -> Summary {
    let index = TraceIndex::new(trace, Vocabulary::default());
    let activities = index.activities();
    let tally = Tally::of(trace, activities);
    let kernels = kernel_links(&index);
    let losses = losses(trace, &kernels);
    let launches = index.launch_calls();
    let (reasons, remarks) = findings(trace, &tally.rows, &losses, &kernels, launches);
    Summary {
        schema_version: SUMMARY_VERSION,
        healthy: reasons.is_empty(),
        reasons,
        remarks,
        file: file_facts(name, trace),
        rows: tally.rows,
        losses,
        kernels,
        edges: tally.edges(trace),
        categories: tally.categories(trace),
        activities: descending(
            tally
                .by_activity
                .iter()
                .map(|(activity, n)| (Some(activity.name().to_owned()), *n)),
        ),
        track_kinds: tally.track_kinds(trace),
        processes: tally.processes(trace),
        threads: tally.threads(trace),
        issues: issues(trace),
    }
}

/// First start, last end and number of the slices of one side.
#[derive(Clone, Copy)]
struct Side {
    first: i64,
    last: i64,
    slices: u64,
}

/// Counts by dictionary entry or row id.
struct Tally {
    rows: RowCounts,
    by_category: Vec<u64>,
    uncategorised: u64,
    by_activity: BTreeMap<Activity, u64>,
    by_track: Vec<u64>,
    host: Option<Side>,
    device: Option<Side>,
}

impl Tally {
    fn of(trace: &Trace, activities: &ActivityMap) -> Self {
        let mut tally = Self {
            rows: RowCounts {
                slices: trace.len() as u64 + trace.outlines().len(),
                flows: trace.flows().len() as u64 + trace.outlines().arrows(),
                counter_samples: trace.counters().len() as u64,
                tracks: trace.tracks().len() as u64,
                processes: trace.processes().len() as u64,
                threads: trace.threads().len() as u64,
                ..RowCounts::default()
            },
            by_category: vec![0; trace.categories().len()],
            uncategorised: 0,
            by_activity: BTreeMap::new(),
            by_track: vec![0; trace.tracks().len()],
            host: None,
            device: None,
        };
        let mut named = vec![false; trace.strings().len()];
        let categories: BTreeMap<&str, usize> = trace
            .categories()
            .enumerate()
            .map(|(at, (_, name))| (name, at))
            .collect();
        // Consecutive slices mostly share their category.
        let mut last = None;
        for slice in trace.slices() {
            let id = slice.category_id();
            let at = match last {
                Some((known, at)) if known == id => at,
                _ => slice
                    .category()
                    .and_then(|name| categories.get(name).copied()),
            };
            last = Some((id, at));
            match at {
                Some(at) => tally.by_category[at] += 1,
                None => tally.uncategorised += 1,
            }
            tally.by_track[slice.track_id().index()] += 1;
            let activity = activities.of(slice);
            *tally.by_activity.entry(activity).or_insert(0) += 1;
            let range = (slice.ts().nanos(), slice.end().nanos());
            if activity.is_device_work() {
                extend(&mut tally.device, range, 1);
            } else if is_host(activity) {
                extend(&mut tally.host, range, 1);
            }
            tally.rows.instants += u64::from(slice.dur().is_some_and(|d| d.get() == 0));
            tally.rows.deepest = tally.rows.deepest.max(slice.depth() as u64 + 1);
            if let Some(name) = slice.name_id() {
                named[name.index()] = true;
            }
        }
        tally.outlines(trace, activities);
        for (at, named) in named.iter_mut().enumerate() {
            let name = StrId::new(at);
            *named |= name.is_some_and(|name| trace.outlines().has_name(name));
        }
        for sample in trace.counters().iter() {
            tally.by_track[sample.track.index()] += 1;
        }
        tally.rows.names = named.iter().filter(|is_named| **is_named).count() as u64;
        tally
    }

    /// Adds the slices of which only the outline was read.
    fn outlines(&mut self, trace: &Trace, activities: &ActivityMap) {
        for group in trace.outlines().groups() {
            let at = group.category.index();
            match at.and_then(|at| self.by_category.get_mut(at)) {
                Some(count) => *count += group.slices,
                None => self.uncategorised += group.slices,
            }
            self.by_track[group.track.index()] += group.slices;
            let activity = activities.of_category(group.category);
            *self.by_activity.entry(activity).or_insert(0) += group.slices;
            let side = match activity {
                activity if activity.is_device_work() => Some(&mut self.device),
                activity if is_host(activity) => Some(&mut self.host),
                _ => None,
            };
            if let Some(side) = side {
                extend(side, (group.first_ns, group.last_ns), group.slices);
            }
            self.rows.instants += group.instants;
        }
        self.rows.deepest = self.rows.deepest.max(trace.outlines().deepest());
    }

    fn categories(&self, trace: &Trace) -> Vec<NameCount> {
        let named = trace
            .categories()
            .zip(&self.by_category)
            .map(|((_, name), n)| (Some(name.to_owned()), *n));
        descending(named.chain([(None, self.uncategorised)]))
    }

    fn track_kinds(&self, trace: &Trace) -> Vec<TrackKindCount> {
        let mut kinds: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
        for (track, rows) in trace.tracks().iter().zip(&self.by_track) {
            let kind = kinds.entry(track.kind.type_name()).or_default();
            kind.0 += 1;
            kind.1 += rows;
        }
        let mut list: Vec<TrackKindCount> = kinds
            .into_iter()
            .map(|(kind, (tracks, rows))| TrackKindCount { kind, tracks, rows })
            .collect();
        list.sort_by_key(|k| Reverse(k.rows));
        list
    }

    fn processes(&self, trace: &Trace) -> Vec<ProcessCount> {
        let text = |id: Option<_>| id.map(|id| trace.text(id).to_owned());
        let mut list: Vec<ProcessCount> = trace
            .processes()
            .iter()
            .map(|process| ProcessCount {
                pid: (!process.artificial).then_some(process.pid.0),
                name: text(process.name),
                labels: text(process.labels),
                threads: 0,
                slices: 0,
                counter_samples: 0,
            })
            .collect();
        for thread in trace.threads() {
            if let Some(process) = thread.process {
                list[process.index()].threads += 1;
            }
        }
        for (track, rows) in trace.tracks().iter().zip(&self.by_track) {
            let Some(process) = process_of(trace, track) else {
                continue;
            };
            let process = &mut list[process];
            if track.kind.is_counter() {
                process.counter_samples += rows;
            } else {
                process.slices += rows;
            }
        }
        list.retain(|p| p.name.is_some() || p.slices + p.counter_samples > 0);
        list.sort_by_key(|p| Reverse(p.slices));
        list
    }

    fn threads(&self, trace: &Trace) -> Vec<ThreadCount> {
        let text = |id: Option<_>| id.map(|id| trace.text(id).to_owned());
        let mut list: Vec<ThreadCount> = trace
            .threads()
            .iter()
            .map(|thread| {
                let process = thread.process.map(|id| trace.process(id));
                ThreadCount {
                    pid: process.filter(|p| !p.artificial).map(|p| p.pid.0),
                    tid: (!thread.artificial).then_some(thread.tid.0),
                    name: text(thread.name),
                    process_name: text(process.and_then(|p| p.name)),
                    slices: 0,
                }
            })
            .collect();
        for (track, rows) in trace.tracks().iter().zip(&self.by_track) {
            if let Some(thread) = track.thread.filter(|_| !track.kind.is_counter()) {
                list[thread.index()].slices += rows;
            }
        }
        list.retain(|t| t.name.is_some() || t.slices > 0);
        list.sort_by_key(|t| Reverse(t.slices));
        list
    }

    fn edges(&self, trace: &Trace) -> Vec<Edge> {
        let span = trace.span();
        let edge = |side: &'static str, found: Option<Side>| {
            found.map(|found| Edge {
                side,
                slices: found.slices,
                first_ns: found.first,
                last_ns: found.last,
                gap_begin_ns: found.first.saturating_sub(span.start.nanos()),
                gap_end_ns: span.end.nanos().saturating_sub(found.last),
            })
        };
        [edge("host", self.host), edge("device", self.device)]
            .into_iter()
            .flatten()
            .collect()
    }
}

fn is_host(activity: Activity) -> bool {
    activity.is_api()
        || matches!(
            activity,
            Activity::PythonFunction | Activity::CpuOp | Activity::CollectiveApi
        )
}

fn extend(side: &mut Option<Side>, (start, end): (i64, i64), slices: u64) {
    let side = side.get_or_insert(Side {
        first: start,
        last: end,
        slices: 0,
    });
    side.first = side.first.min(start);
    side.last = side.last.max(end);
    side.slices += slices;
}

fn process_of(trace: &Trace, track: &Track) -> Option<usize> {
    let of_thread = || trace.thread(track.thread?).process;
    track.process.or_else(of_thread).map(|id| id.index())
}

/// Sorts descending by count, then by name; entries with count 0 are left out.
fn descending(counts: impl IntoIterator<Item = (Option<String>, u64)>) -> Vec<NameCount> {
    let mut list: Vec<NameCount> = counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| NameCount { name, count })
        .collect();
    list.sort_by(|a, b| (Reverse(a.count), &a.name).cmp(&(Reverse(b.count), &b.name)));
    list
}

fn file_facts(name: &str, trace: &Trace) -> FileFacts {
    let meta = trace.meta();
    let span = trace.span();
    let job = meta.distributed.as_ref();
    FileFacts {
        name: name.to_owned(),
        format: meta.format.to_owned(),
        uncompressed_bytes: meta.input_bytes,
        start_ns: span.start.nanos(),
        end_ns: span.end.nanos(),
        span_ns: (span.end - span.start).get(),
        clock: clock_name(meta.clock),
        base_time_ns: meta.base_time_ns,
        rank: meta.rank().map(|rank| rank.0),
        world_size: job.and_then(|job| job.world_size),
        backend: job.and_then(|job| job.backend.clone()),
        groups: job
            .map(|job| &job.groups[..])
            .unwrap_or_default()
            .iter()
            .map(|group| GroupFacts {
                name: group.name.clone(),
                description: group.description.clone(),
                backend: group.backend.clone(),
                size: group.size,
                ranks: group.ranks.clone(),
            })
            .collect(),
        producer: meta
            .entries
            .iter()
            .filter(|(_, text)| text.len() <= LONGEST_ENTRY)
            .map(|(key, text)| KeyText {
                key: key.clone(),
                text: text.clone(),
            })
            .collect(),
        records: meta
            .records
            .iter()
            .map(|(name, count)| NameCount {
                name: Some(name.clone()),
                count: *count,
            })
            .collect(),
    }
}

fn clock_name(clock: ClockDomain) -> String {
    match clock {
        ClockDomain::BootTime => "boottime".to_owned(),
        ClockDomain::Monotonic => "monotonic".to_owned(),
        ClockDomain::RealTime => "realtime".to_owned(),
        ClockDomain::KinetoRelative => "kineto-relative".to_owned(),
        ClockDomain::Session => "nsys-session".to_owned(),
        ClockDomain::Custom(number) => format!("clock {number}"),
        _ => "unknown".to_owned(),
    }
}

fn issues(trace: &Trace) -> Vec<IssueCount> {
    trace
        .diagnostics()
        .issues()
        .iter()
        .map(|issue| IssueCount {
            name: issue.kind.name(),
            severity: issue.kind.severity().name(),
            count: issue.count,
            text: issue.kind.explanation(),
            detail: issue.detail.as_ref().map(|d| d.clone().into_owned()),
            places: issue
                .places
                .iter()
                .filter_map(|place| match *place {
                    Place::Byte(n) => Some(PlaceFacts::Byte(n)),
                    Place::Row(n) => Some(PlaceFacts::Row(n)),
                    Place::At(n) => Some(PlaceFacts::AtNs(n)),
                    _ => None,
                })
                .collect(),
        })
        .collect()
}
