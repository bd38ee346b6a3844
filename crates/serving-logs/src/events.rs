//! Reads `micro_event.csv` and `macro_counter.csv`: a recording as two tables.

use rustc_hash::FxHashMap;
use serde_json::Value;
use trace_model::{
    Arg, EventOrder, FinishOptions, LaneId, Pid, Process, ProcessId, SliceData, StrId, Thread,
    ThreadId, Tid, Trace, TraceBuilder, Track, TrackKind,
};

use crate::Error;
use crate::csv::{Table, cell};

/// Result of reading the tables.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recording {
    /// The trace.
    pub trace: Trace,
    /// Rows of either table that could not be read.
    pub skipped: usize,
}

/// Reads the texts of a `micro_event.csv` and its `macro_counter.csv`.
///
/// # Errors
///
/// Returns an error if a table lacks a required column, and for too many events.
pub fn events(micro: &str, counters: &str) -> Result<Recording, Error> {
    let mut reader = Reader {
        builder: TraceBuilder::new(),
        processes: FxHashMap::default(),
        threads: FxHashMap::default(),
        lanes: FxHashMap::default(),
        skipped: 0,
    };
    reader.micro(micro)?;
    reader.macros(counters)?;
    let mut options = FinishOptions::default();
    options.order = EventOrder::Chrome;
    let trace = reader
        .builder
        .finish(&options)
        .map_err(|_| Error::TooMany)?;
    Ok(Recording {
        trace,
        skipped: reader.skipped,
    })
}

struct Reader {
    builder: TraceBuilder,
    processes: FxHashMap<String, ProcessId>,
    threads: FxHashMap<(ProcessId, String), ThreadId>,
    lanes: FxHashMap<(ThreadId, String), LaneId>,
    skipped: usize,
}

/// Converts decimal microseconds to nanoseconds from the text: a real would lose digits.
fn nanos(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    if digits.contains(['e', 'E']) {
        let micros: f64 = text.parse().ok()?;
        return format!("{:.0}", micros * 1000.0).parse().ok();
    }
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: i64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut ns = 0;
    for i in 0..3 {
        let digit = part.as_bytes().get(i).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        ns = ns * 10 + i64::from(digit - b'0');
    }
    whole.checked_mul(1000)?.checked_add(ns)?.checked_mul(sign)
}

impl Reader {
    /// Returns the process identified by a text.
    fn process(&mut self, text: &str) -> ProcessId {
        if let Some(&found) = self.processes.get(text) {
            return found;
        }
        let row = match text.parse() {
            Ok(pid) => Process::new(Pid(pid)),
            Err(_) => Process {
                name: Some(self.builder.string(text)),
                artificial: true,
                ..Process::new(Pid(
                    4_000_000_000 + i64::try_from(self.processes.len()).unwrap_or(0)
                ))
            },
        };
        let id = self.builder.process(row);
        self.processes.insert(text.to_owned(), id);
        id
    }

    fn thread(&mut self, process: ProcessId, text: &str) -> ThreadId {
        if let Some(&found) = self.threads.get(&(process, text.to_owned())) {
            return found;
        }
        let row = match text.parse() {
            Ok(tid) => Thread::new(Tid(tid), Some(process)),
            Err(_) => Thread {
                name: Some(self.builder.string(text)),
                artificial: true,
                ..Thread::new(
                    Tid(4_000_000_000 + i64::try_from(self.threads.len()).unwrap_or(0)),
                    Some(process),
                )
            },
        };
        let id = self.builder.thread(row);
        self.threads.insert((process, text.to_owned()), id);
        id
    }

    /// Returns the lane of a thread's slices, or of one of its counters.
    fn lane(&mut self, process: &str, tid: &str, counter: &str) -> LaneId {
        let process = self.process(process);
        let thread = self.thread(process, tid);
        if let Some(&found) = self.lanes.get(&(thread, counter.to_owned())) {
            return found;
        }
        let kind = if counter.is_empty() {
            TrackKind::Thread
        } else {
            TrackKind::JsonCounter
        };
        let name = (!counter.is_empty()).then(|| self.builder.string(&format!("{counter} value")));
        let track = self.builder.track(Track {
            name,
            process: Some(process),
            thread: Some(thread),
            ..Track::new(kind)
        });
        let lane = self.builder.lane(Some(track));
        self.lanes.insert((thread, counter.to_owned()), lane);
        lane
    }

    fn text(&mut self, text: &str) -> StrId {
        self.builder.events.strings.intern(text)
    }

    fn micro(&mut self, text: &str) -> Result<(), Error> {
        let mut table = Table::new(text);
        let (name, ts) = (table.needs("name")?, table.needs("ts")?);
        let [cat, ph, pid, tid, dur, args] =
            ["cat", "ph", "pid", "tid", "dur", "args"].map(|c| table.column(c));
        while let Some(row) = table.row() {
            let phase = cell(&row, ph);
            let time = nanos(cell(&row, Some(ts)));
            let length = match cell(&row, dur) {
                "" => Some(0),
                text => nanos(text),
            };
            let (Some(time), Some(length)) = (time, length) else {
                self.skipped += 1;
                continue;
            };
            if !matches!(phase, "X" | "") {
                continue;
            }
            let category = match cell(&row, cat) {
                "" => "default",
                other => other,
            };
            let lane = self.lane(cell(&row, pid), cell(&row, tid), "");
            let category = self.text(category);
            let args = self.args(cell(&row, args));
            let data = SliceData {
                name: Some(self.text(cell(&row, Some(name)))),
                category: self.builder.events.category(category),
                args: self.builder.events.args(&args),
            };
            self.builder
                .events
                .complete(lane, time, length.max(0), data);
        }
        Ok(())
    }

    fn args(&mut self, text: &str) -> Vec<Arg> {
        let Ok(Value::Object(map)) = serde_json::from_str(text) else {
            return Vec::new();
        };
        map.iter()
            .map(|(key, value)| {
                let key = self.text(&format!("args.{key}"));
                match value {
                    Value::Number(n) if n.is_i64() => Arg::int(key, n.as_i64().unwrap_or(0)),
                    Value::Number(n) => Arg::real(key, n.as_f64().unwrap_or(0.0)),
                    Value::Bool(b) => Arg::bool(key, *b),
                    Value::String(s) => {
                        let s = self.text(s);
                        Arg::text(key, s)
                    }
                    other => {
                        let s = self.text(&other.to_string());
                        Arg::json(key, s)
                    }
                }
            })
            .collect()
    }

    fn macros(&mut self, text: &str) -> Result<(), Error> {
        let mut table = Table::new(text);
        let name = table.needs("name")?;
        let (value, ts) = (table.needs("value")?, table.needs("timestamp")?);
        let (category, host) = (table.column("category"), table.column("hostname"));
        let places: Vec<(Option<usize>, Option<usize>)> = ["loc1", "loc2", "loc3"]
            .iter()
            .map(|l| (table.column(l), table.column(&format!("{l}_type"))))
            .collect();
        while let Some(row) = table.row() {
            let time = nanos(cell(&row, Some(ts)));
            let number: Option<f64> = cell(&row, Some(value)).parse().ok();
            let (Some(time), Some(number)) = (time, number) else {
                self.skipped += 1;
                continue;
            };
            let at = |kind: &str| {
                places
                    .iter()
                    .find(|p| cell(&row, p.1) == kind)
                    .map_or("", |p| cell(&row, p.0))
            };
            let host = match cell(&row, host) {
                "" => at("CAT_HOST"),
                named => named,
            };
            let category = cell(&row, category);
            let instance = at(category);
            let tid = if category == "CAT_XPU" {
                format!("{category}_{instance}")
            } else {
                category.to_owned()
            };
            let process = if host.is_empty() { "-1" } else { host };
            let lane = self.lane(process, &tid, cell(&row, Some(name)));
            self.builder.events.counter(lane, time, number);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tables_make_one_trace() {
        let micro = "name,cat,ph,pid,tid,ts,dur,args\n\
            run,python,X,node0(7),t,1700000000000912.751,2.5,\"{\"\"correlation\"\":3}\"\n\
            bad,python,X,node0(7),t,soon,2.5,\n";
        let counters = "name,value,timestamp,category,loc1_type,loc1,loc2_type,loc2\n\
            gpu_usage,90,1700000000000000,CAT_XPU,CAT_XPU,4,CAT_HOST,node0\n";
        let made = events(micro, counters).unwrap();
        assert_eq!(made.skipped, 1);
        let slice = made.trace.slices().next().unwrap();
        assert_eq!(slice.ts().nanos(), 1_700_000_000_000_912_751);
        assert_eq!(slice.category(), Some("python"));
        assert_eq!(made.trace.arg_column("correlation").int(slice), Some(3));
        let sample = made.trace.counters().iter().next().unwrap();
        let track = made.trace.track(sample.track);
        let thread = made.trace.thread(track.thread.unwrap());
        assert_eq!(made.trace.text(thread.name.unwrap()), "CAT_XPU_4");
    }

    #[test]
    fn times_keep_their_digits() {
        assert_eq!(
            nanos("1700000000000912.751"),
            Some(1_700_000_000_000_912_751)
        );
        assert_eq!(nanos("-1.5"), Some(-1500));
        assert_eq!(nanos("1.5e3"), Some(1_500_000));
        assert_eq!(nanos("x"), None);
    }
}
