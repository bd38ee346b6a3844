//! Reference data with its tables, and traces generated for tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use byte_source::{OpenOptions, Source};
use trace_model::{
    Arg, ArgsRef, FinishOptions, LaneId, Pid, Process, SliceData, Thread, Tid, Trace, TraceBuilder,
    Track, TrackKind,
};

/// Returns the folder of the reference data of these tests.
pub(crate) fn peers() -> PathBuf {
    test_data::reference("peers")
}

/// Reads a trace with all arguments.
pub(crate) fn read(path: &Path) -> Trace {
    let source = Source::open(path, &OpenOptions::default()).unwrap();
    perfetto_reader::read(source, &perfetto_reader::ReadOptions::default()).unwrap()
}

/// Returns the rows of a CSV file as maps from column to text.
pub(crate) fn csv(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut rows: Vec<Vec<String>> = vec![vec![String::new()]];
    let mut quoted = false;
    for c in text.chars() {
        let row = rows.last_mut().unwrap();
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(String::new()),
            '\n' if !quoted => rows.push(vec![String::new()]),
            '\r' if !quoted => {}
            c => row.last_mut().unwrap().push(c),
        }
    }
    let header = rows.remove(0);
    rows.into_iter()
        .filter(|r| r.len() == header.len())
        .map(|r| header.iter().cloned().zip(r).collect())
        .collect()
}

/// Returns a number of a table; `None` if the cell is empty.
pub(crate) fn number(row: &BTreeMap<String, String>, column: &str) -> Option<f64> {
    let text = row
        .get(column)
        .unwrap_or_else(|| panic!("no column {column}"));
    (!text.is_empty()).then(|| text.parse().unwrap())
}

/// A linear congruential generator, which gives the same numbers on every machine.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Returns a number from 0 to `n - 1`.
    pub(crate) fn below(&mut self, n: i64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.0 >> 33).unwrap() % n
    }
}

/// Value of an argument.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Int(i64),
    Text(String),
}

/// Builds a trace with one host thread and some streams.
pub(crate) struct Maker {
    pub(crate) builder: TraceBuilder,
    host: LaneId,
    streams: BTreeMap<i64, LaneId>,
}

impl Maker {
    pub(crate) fn new() -> Self {
        let mut builder = TraceBuilder::new();
        let host = lane(&mut builder, 100, 100);
        Self {
            builder,
            host,
            streams: BTreeMap::new(),
        }
    }

    fn data(&mut self, category: &str, name: &str, args: &[(&str, Value)]) -> SliceData {
        let list: Vec<Arg> = args
            .iter()
            .map(|(key, value)| {
                let key = self.builder.string(&format!("args.{key}"));
                match value {
                    Value::Int(n) => Arg::int(key, *n),
                    Value::Text(t) => {
                        let text = self.builder.string(t);
                        Arg::text(key, text)
                    }
                }
            })
            .collect();
        let category = self.builder.string(category);
        SliceData {
            category: self.builder.events.category(category),
            name: Some(self.builder.string(name)),
            args: if list.is_empty() {
                ArgsRef::NONE
            } else {
                self.builder.events.args(&list)
            },
        }
    }

    /// Adds a slice of the host thread.
    pub(crate) fn host(
        &mut self,
        (start, duration): (i64, i64),
        category: &str,
        name: &str,
        args: &[(&str, Value)],
    ) {
        let data = self.data(category, name, args);
        self.builder
            .events
            .complete(self.host, start, duration, data);
    }

    /// Adds a kernel.
    pub(crate) fn kernel(
        &mut self,
        stream: i64,
        (start, duration): (i64, i64),
        name: &str,
        args: &[(&str, Value)],
    ) {
        let lane = match self.streams.get(&stream) {
            Some(lane) => *lane,
            None => {
                let lane = lane(&mut self.builder, 0, stream);
                self.streams.insert(stream, lane);
                lane
            }
        };
        let mut args = args.to_vec();
        args.push(("stream", Value::Int(stream)));
        args.push(("device", Value::Int(0)));
        let data = self.data("kernel", name, &args);
        self.builder.events.complete(lane, start, duration, data);
    }

    pub(crate) fn finish(self) -> Trace {
        self.builder.finish(&FinishOptions::default()).unwrap()
    }
}

fn lane(builder: &mut TraceBuilder, pid: i64, tid: i64) -> LaneId {
    let process = builder.process(Process::new(Pid(pid)));
    let thread = builder.thread(Thread::new(Tid(tid), Some(process)));
    let mut track = Track::new(TrackKind::Thread);
    (track.process, track.thread) = (Some(process), Some(thread));
    let track = builder.track(track);
    builder.lane(Some(track))
}
