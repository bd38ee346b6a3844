//! Allocated memory, from allocation events and counters.

use std::collections::BTreeMap;

use serde::Serialize;
use trace_model::{TimeRange, Trace};

/// Name of PyTorch's allocation events.
const EVENT: &str = "[memory]";

/// Keys of arguments, without prefix, that [`memory`] reads.
pub const MEMORY_KEYS: &[&str] = &[
    "Total Allocated",
    "Total Reserved",
    "Bytes",
    "Device Id",
    "Device Type",
];

/// Source of memory numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum MemorySource {
    /// PyTorch's allocator, one event for each allocation and each release.
    Allocator,
    /// A counter whose name or unit refers to memory.
    Counter,
}

impl MemorySource {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocator => "allocator",
            Self::Counter => "counter",
        }
    }
}

/// The memory of one device, or of one counter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MemoryRow {
    /// Source of the numbers.
    pub source: MemorySource,
    /// Device type as PyTorch numbers them (`cpu`, `cuda` and so on), or the counter's name.
    pub what: String,
    /// The device; -1 for the host.
    pub device: Option<i64>,
    /// Number of events or samples.
    pub samples: u64,
    /// Number of allocations.
    pub allocations: u64,
    /// Number of releases.
    pub releases: u64,
    /// Bytes of all allocations.
    pub allocated_bytes: u64,
    /// Bytes of all releases.
    pub released_bytes: u64,
    /// Bytes allocated after the first event.
    pub first_bytes: i64,
    /// Maximum of allocated bytes, or of the counter.
    pub peak_bytes: i64,
    /// Time of the first maximum.
    pub peak_at_ns: i64,
    /// Value at the end.
    pub last_bytes: i64,
    /// Maximum of the bytes that the allocator had reserved from the device.
    pub peak_reserved_bytes: Option<i64>,
    /// Bytes reserved at the end.
    pub last_reserved_bytes: Option<i64>,
}

/// Memory of one device in one interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MemoryPoint {
    /// Device type or counter; see [`MemoryRow::what`].
    pub what: String,
    /// Device; see [`MemoryRow::device`].
    pub device: Option<i64>,
    /// Start of the interval.
    pub start_ns: i64,
    /// End of the interval.
    pub end_ns: i64,
    /// Maximum of allocated bytes in it.
    pub peak_bytes: i64,
    /// Bytes allocated at its end.
    pub last_bytes: i64,
}

/// Memory of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Memory {
    /// Devices first, then counters.
    pub rows: Vec<MemoryRow>,
    /// Memory over time.
    pub series: Vec<MemoryPoint>,
    /// `true` if the file states that memory was to be recorded (`profile_memory`).
    pub was_asked_for: bool,
}

type Key = (MemorySource, String, Option<i64>);

#[derive(Clone, Copy)]
struct Sample {
    at_ns: i64,
    bytes: i64,
    change: Option<i64>,
    reserved: Option<i64>,
}

/// Reads PyTorch's allocation events (`profile_memory=True`) and memory counters; the series has
/// `points` intervals of equal length from the first sample to the last, none if 0.
///
/// Cost: one pass over the slices' names and one over the counters.
pub fn memory(trace: &Trace, points: u32) -> Memory {
    MemoryLines::new(trace).within(None, points)
}

/// Memory samples of a trace, from which several windows can be summarized.
pub struct MemoryLines {
    lines: BTreeMap<Key, Vec<Sample>>,
    was_asked_for: bool,
}

impl std::fmt::Debug for MemoryLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.lines.keys()).finish()
    }
}

impl MemoryLines {
    /// Reads the samples as [`memory`] does.
    pub fn new(trace: &Trace) -> Self {
        lines_of(trace)
    }

    /// Summarizes `window`, or all time if `None`. Memory allocated before a window and not
    /// released is its first value, and its last if nothing happens in it.
    pub fn within(&self, window: Option<TimeRange>, points: u32) -> Memory {
        let mut out = Memory {
            was_asked_for: self.was_asked_for,
            ..Memory::default()
        };
        for (key, samples) in &self.lines {
            let Some(window) = window else {
                out.rows.push(row(key, samples));
                course(key, samples, points, &mut out.series);
                continue;
            };
            let (from, to) = (window.start.nanos(), window.end.nanos());
            let before = samples.partition_point(|s| s.at_ns < from);
            let until = samples.partition_point(|s| s.at_ns < to).max(before);
            let (earlier, rest) = samples.split_at(before);
            let (here, _) = rest.split_at(until - before);
            let carried = earlier.last().map(|last| Sample {
                at_ns: from,
                change: None,
                ..*last
            });
            let is_carried = carried.is_some();
            let part: Vec<Sample> = carried.into_iter().chain(here.iter().copied()).collect();
            if part.is_empty() {
                continue;
            }
            let mut row = row(key, &part);
            row.samples -= u64::from(is_carried);
            out.rows.push(row);
            course(key, &part, points, &mut out.series);
        }
        out
    }
}

fn lines_of(trace: &Trace) -> MemoryLines {
    let mut lines: BTreeMap<Key, Vec<Sample>> = BTreeMap::new();
    if let Some(event) = trace.strings().find(EVENT) {
        let keys = [
            "Total Allocated",
            "Total Reserved",
            "Bytes",
            "Device Id",
            "Device Type",
        ];
        let [total, reserved, bytes, id, kind] = keys.map(|key| trace.arg_column(key));
        for slice in trace.slices().filter(|s| s.name_id() == Some(event)) {
            let change = bytes.int(slice);
            let Some(allocated) = total.int(slice).or(change) else {
                continue;
            };
            let what = device_type(kind.int(slice));
            let key = (MemorySource::Allocator, what, id.int(slice));
            lines.entry(key).or_default().push(Sample {
                at_ns: slice.ts().nanos(),
                bytes: allocated,
                change,
                reserved: reserved.int(slice),
            });
        }
    }
    let counters: Vec<Option<Key>> = trace
        .track_ids()
        .map(|id| {
            let track = trace.track(id);
            let name = trace.text(track.name.filter(|_| track.kind.is_counter())?);
            let unit = track.unit_name.map_or("", |unit| trace.text(unit));
            let is_memory = track.unit == Some(trace_model::Unit::Bytes)
                || unit.eq_ignore_ascii_case("bytes")
                || ["memory", "alloc", "reserved", "bytes"]
                    .iter()
                    .any(|word| name.to_ascii_lowercase().contains(word));
            let is_memory = is_memory && !unit.ends_with("/s") && !moves(name);
            let process = track.process.map(|p| trace.process(p).pid.0);
            is_memory.then(|| (MemorySource::Counter, name.to_owned(), process))
        })
        .collect();
    for sample in trace.counters().iter() {
        let key = counters.get(sample.track.index()).cloned().flatten();
        if let Some(key) = key
            && sample.value.is_finite()
        {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "held at the ends of the range"
            )]
            let bytes = sample.value.round() as i64;
            lines.entry(key).or_default().push(Sample {
                at_ns: sample.ts.nanos(),
                bytes,
                change: None,
                reserved: None,
            });
        }
    }
    let asked = |(key, text): &(String, String)| {
        key == "profile_memory" && ["1", "true"].contains(&text.as_str())
    };
    // Several tracks may belong to one line.
    for samples in lines.values_mut() {
        samples.sort_by_key(|sample| sample.at_ns);
    }
    MemoryLines {
        was_asked_for: trace.meta().entries.iter().any(asked),
        lines,
    }
}

/// Returns `true` if a counter is of data that move, by the words of its name: these are not held.
fn moves(name: &str) -> bool {
    const WORDS: [&str; 22] = [
        "sent",
        "send",
        "received",
        "receive",
        "recv",
        "rcv",
        "rx",
        "tx",
        "xmit",
        "transmit",
        "transmitted",
        "transferred",
        "read",
        "reads",
        "write",
        "writes",
        "written",
        "throughput",
        "bandwidth",
        "traffic",
        "rate",
        "utilization",
    ];
    let name = name.to_ascii_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| WORDS.contains(&word)) || name.contains("/s")
}

fn row(key: &Key, samples: &[Sample]) -> MemoryRow {
    let (source, what, device) = key.clone();
    let changes = || samples.iter().filter_map(|s| s.change);
    let sum = |list: &mut dyn Iterator<Item = i64>| list.map(i64::unsigned_abs).sum();
    let count = |list: &mut dyn Iterator<Item = i64>| list.count() as u64;
    // Of equal peaks the first counts.
    let peak = samples.iter().rev().max_by_key(|s| s.bytes);
    MemoryRow {
        source,
        what,
        device,
        samples: samples.len() as u64,
        allocations: count(&mut changes().filter(|c| *c > 0)),
        releases: count(&mut changes().filter(|c| *c < 0)),
        allocated_bytes: sum(&mut changes().filter(|c| *c > 0)),
        released_bytes: sum(&mut changes().filter(|c| *c < 0)),
        first_bytes: samples.first().map_or(0, |s| s.bytes),
        peak_bytes: peak.map_or(0, |s| s.bytes),
        peak_at_ns: peak.map_or(0, |s| s.at_ns),
        last_bytes: samples.last().map_or(0, |s| s.bytes),
        peak_reserved_bytes: samples.iter().filter_map(|s| s.reserved).max(),
        last_reserved_bytes: samples.iter().rev().find_map(|s| s.reserved),
    }
}

fn course(key: &Key, samples: &[Sample], points: u32, out: &mut Vec<MemoryPoint>) {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return;
    };
    let length = i128::from(last.at_ns) - i128::from(first.at_ns) + 1;
    let bound = |i: u32| {
        let offset = length * i128::from(i) / i128::from(points.max(1));
        first.at_ns + i64::try_from(offset).unwrap_or(0)
    };
    let mut rest = samples;
    let mut bytes = first.bytes;
    for i in 0..points {
        let (from, to) = (bound(i), bound(i + 1));
        if from == to {
            continue;
        }
        let count = rest.partition_point(|s| s.at_ns < to);
        let (here, later) = rest.split_at(count);
        let peak = here.iter().map(|s| s.bytes).chain([bytes]).max();
        bytes = here.last().map_or(bytes, |s| s.bytes);
        rest = later;
        out.push(MemoryPoint {
            what: key.1.clone(),
            device: key.2,
            start_ns: from,
            end_ns: to,
            peak_bytes: peak.unwrap_or(bytes),
            last_bytes: bytes,
        });
    }
}

/// Returns the name of PyTorch's device type, numbered as in `c10/core/DeviceType.h`.
fn device_type(number: Option<i64>) -> String {
    let known = match number {
        None => "unknown",
        Some(0) => "cpu",
        Some(1) => "cuda",
        Some(6) => "hip",
        Some(9) => "xla",
        Some(12) => "xpu",
        Some(13) => "mps",
        Some(15) => "hpu",
        Some(19) => "mtia",
        Some(other) => return format!("device type {other}"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::moves;

    #[test]
    fn what_moves_is_not_held() {
        for name in [
            "mlx5_0 Bytes sent",
            "rx_bytes",
            "GPU 0 DRAM Read Bandwidth",
            "Memory Throughput [%]",
            "Bytes/s",
        ] {
            assert!(moves(name), "{name}");
        }
        for name in [
            "GPU memory",
            "Total Allocated",
            "reserved bytes",
            "Bytes in use",
            "thread memory",
        ] {
            assert!(!moves(name), "{name}");
        }
    }
}
