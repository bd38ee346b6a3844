//! Tables of the trace itself: slices, flows, counters, owners.

use std::collections::HashMap;

use arrow_array::ArrayRef;
use trace_model::kernel::{ActivityMap, Vocabulary};
use trace_model::{CategoryId, CounterSample, ProcessId, Slice, SliceId, StrId, Track};

use super::column::{count, flags, ints, names, reals, texts};
use super::{Chosen, Recording, Request, Rows};
use crate::display;
use crate::owners::kind_name;

/// Owner of a track: thread and process as rows of the store.
fn process_of(recording: &Recording, track: &Track) -> Option<ProcessId> {
    let of_thread = || recording.trace.thread(track.thread?).process;
    track.process.or_else(of_thread)
}

pub(super) struct Slices<'r> {
    recording: &'r Recording,
    activities: Option<ActivityMap>,
    categories: HashMap<CategoryId, StrId>,
}

impl<'r> Slices<'r> {
    pub(super) fn new(recording: &'r Recording, with_activity: bool) -> Self {
        let activities = || ActivityMap::new(&recording.trace, &Vocabulary::default());
        let strings = recording.trace.strings();
        let categories = recording.trace.categories();
        let categories = categories.filter_map(|(id, name)| Some((id, strings.find(name)?)));
        Self {
            recording,
            activities: with_activity.then(activities),
            categories: categories.collect(),
        }
    }

    fn slice(&self, row: usize) -> Option<Slice<'r>> {
        let id = SliceId::new(row).filter(|id| id.index() < self.recording.trace.len())?;
        Some(self.recording.trace.slice(id))
    }

    fn track(&self, row: usize) -> Option<&'r Track> {
        Some(self.slice(row)?.track())
    }
}

/// Returns the rows of ascending times that lie between two of them, both included.
pub(super) fn between(
    len: usize,
    request: &Request,
    time: impl Fn(usize) -> i64,
) -> std::ops::Range<usize> {
    let Some((from, to)) = request.between else {
        return 0..len;
    };
    let first = |keep: &dyn Fn(i64) -> bool| {
        let (mut low, mut high) = (0, len);
        while low < high {
            let middle = low.midpoint(high);
            if keep(time(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    };
    let start = first(&|time| time < from);
    start..first(&|time| time <= to).max(start)
}

impl Rows for Slices<'_> {
    fn len(&self) -> usize {
        self.recording.trace.len()
    }

    fn chosen(&self, request: &Request) -> Chosen {
        let time = |row| self.slice(row).map_or(i64::MAX, |slice| slice.ts().nanos());
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
            let name = self.slice(*row).and_then(Slice::name_id);
            name.is_some_and(|name| ids.contains(&name))
        };
        Chosen::List(range.filter(is_wanted).collect())
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let recording = self.recording;
        let trace = &recording.trace;
        let slice = |row| self.slice(row);
        let thread = |row| Some(trace.thread(self.track(row)?.thread?));
        let process = |row| Some(trace.process(process_of(recording, self.track(row)?)?));
        Some(match name {
            "id" => ints(rows, |row| Some(recording.id(row))),
            "ts" => ints(rows, |row| Some(slice(row)?.ts().nanos())),
            "dur" => ints(rows, |row| {
                Some(slice(row)?.dur().map_or(-1, |dur| dur.get()))
            }),
            "track_id" => ints(rows, |row| {
                Some(recording.id(slice(row)?.track_id().index()))
            }),
            "category" => names(recording, rows, |row| {
                self.categories.get(&slice(row)?.category_id()).copied()
            }),
            "name" => names(recording, rows, |row| slice(row)?.name_id()),
            "depth" => ints(rows, |row| count(slice(row)?.depth())),
            "parent_id" => ints(rows, |row| {
                Some(recording.id(slice(row)?.parent()?.id().index()))
            }),
            "arg_set_id" => ints(rows, |row| {
                let has_args = slice(row)?.args().len() > 0;
                has_args.then(|| recording.id(row))
            }),
            "thread_ts" => ints(rows, |row| Some(slice(row)?.thread_time()?.0)),
            "thread_dur" => ints(rows, |row| slice(row)?.thread_time()?.1),
            "activity" => texts(rows, |row| {
                Some(self.activities.as_ref()?.of(slice(row)?).name())
            }),
            "utid" => ints(rows, |row| {
                Some(recording.id(self.track(row)?.thread?.index()))
            }),
            "upid" => ints(rows, |row| {
                Some(recording.id(process_of(recording, self.track(row)?)?.index()))
            }),
            "tid" => ints(rows, |row| Some(thread(row)?.tid.0)),
            "pid" => ints(rows, |row| Some(process(row)?.pid.0)),
            "track_name" => names(recording, rows, |row| display::track_name(self.track(row)?)),
            "thread_name" => names(recording, rows, |row| thread(row)?.name),
            "process_name" => names(recording, rows, |row| process(row)?.name),
            _ => return None,
        })
    }
}

pub(super) struct Flows<'r>(pub(super) &'r Recording);

impl Rows for Flows<'_> {
    fn len(&self) -> usize {
        self.0.trace.flows().len()
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let recording = self.0;
        let flow = |row: usize| recording.trace.flows().get(row);
        Some(match name {
            "id" => ints(rows, |row| Some(recording.id(row))),
            "slice_out" => ints(rows, |row| Some(recording.id(flow(row)?.from.index()))),
            "slice_in" => ints(rows, |row| Some(recording.id(flow(row)?.to.index()))),
            // The bits of the id, as SQL engines have no unsigned numbers of this size.
            "trace_id" => ints(rows, |row| Some(flow(row)?.id.cast_signed())),
            "category" => names(recording, rows, |row| flow(row)?.category),
            "name" => names(recording, rows, |row| flow(row)?.name),
            _ => return None,
        })
    }
}

pub(super) struct Counters<'r> {
    recording: &'r Recording,
    samples: Vec<CounterSample>,
}

impl<'r> Counters<'r> {
    pub(super) fn new(recording: &'r Recording) -> Self {
        Self {
            recording,
            samples: recording.trace.counters().iter().collect(),
        }
    }
}

impl Rows for Counters<'_> {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn chosen(&self, request: &Request) -> Chosen {
        let time = |row: usize| {
            let sample = self.samples.get(row);
            sample.map_or(i64::MAX, |sample| sample.ts.nanos())
        };
        Chosen::Range(between(self.len(), request, time))
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let recording = self.recording;
        let sample = |row: usize| self.samples.get(row);
        let track = |row| Some(recording.trace.track(sample(row)?.track));
        Some(match name {
            "id" => ints(rows, |row| Some(recording.id(row))),
            "ts" => ints(rows, |row| Some(sample(row)?.ts.nanos())),
            "track_id" => ints(rows, |row| Some(recording.id(sample(row)?.track.index()))),
            "value" => reals(rows, |row| Some(sample(row)?.value)),
            "name" => names(recording, rows, |row| track(row)?.name),
            "unit" => texts(rows, |row| display::unit(&recording.trace, track(row)?)),
            "utid" => ints(rows, |row| Some(recording.id(track(row)?.thread?.index()))),
            "upid" => ints(rows, |row| {
                Some(recording.id(process_of(recording, track(row)?)?.index()))
            }),
            _ => return None,
        })
    }
}

pub(super) struct Processes<'r>(pub(super) &'r Recording);

impl Rows for Processes<'_> {
    fn len(&self) -> usize {
        self.0.trace.processes().len()
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let recording = self.0;
        let process = |row: usize| recording.trace.processes().get(row);
        Some(match name {
            "upid" => ints(rows, |row| Some(recording.id(row))),
            "pid" => ints(rows, |row| Some(process(row)?.pid.0)),
            "name" => names(recording, rows, |row| process(row)?.name),
            "labels" => names(recording, rows, |row| process(row)?.labels),
            "sort_index" => ints(rows, |row| process(row)?.sort_index),
            _ => return None,
        })
    }
}

pub(super) struct Threads<'r>(pub(super) &'r Recording);

impl Rows for Threads<'_> {
    fn len(&self) -> usize {
        self.0.trace.threads().len()
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let recording = self.0;
        let thread = |row: usize| recording.trace.threads().get(row);
        Some(match name {
            "utid" => ints(rows, |row| Some(recording.id(row))),
            "tid" => ints(rows, |row| Some(thread(row)?.tid.0)),
            "name" => names(recording, rows, |row| thread(row)?.name),
            "upid" => ints(rows, |row| {
                Some(recording.id(thread(row)?.process?.index()))
            }),
            "is_main_thread" => flags(rows, |row| Some(thread(row)?.is_main)),
            "sort_index" => ints(rows, |row| thread(row)?.sort_index),
            _ => return None,
        })
    }
}

pub(super) struct Tracks<'r>(pub(super) &'r Recording);

impl Rows for Tracks<'_> {
    fn len(&self) -> usize {
        self.0.trace.tracks().len()
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let recording = self.0;
        let track = |row: usize| recording.trace.tracks().get(row);
        Some(match name {
            "id" => ints(rows, |row| Some(recording.id(row))),
            "name" => names(recording, rows, |row| display::track_name(track(row)?)),
            "type" => texts(rows, |row| Some(track(row)?.kind.type_name())),
            "kind" => texts(rows, |row| Some(kind_name(track(row)?.kind))),
            "parent_id" => ints(rows, |row| Some(recording.id(track(row)?.parent?.index()))),
            "utid" => ints(rows, |row| Some(recording.id(track(row)?.thread?.index()))),
            "upid" => ints(rows, |row| {
                Some(recording.id(process_of(recording, track(row)?)?.index()))
            }),
            "unit" => texts(rows, |row| display::unit(&recording.trace, track(row)?)),
            _ => return None,
        })
    }
}
