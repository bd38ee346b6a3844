//! An `XSpace` as a trace.

use std::io::Read as _;

use byte_source::Source;
use rustc_hash::FxHashMap;
use trace_model::{
    Arg, ArgsRef, CategoryId, EventOrder, FinishOptions, IssueKind, Pid, Place, Process, SliceData,
    StrId, Thread, Tid, TimeRange, Timestamp, Trace, TraceBuilder, Track, TrackKind, is_plausible,
};

use crate::error::{Error, Result};
use crate::plane::{Event, Line, Plane, Stat, StatValue};
use crate::wire::{Damage, Fields, Value};

/// Longest name of a plane that is looked at to recognise the format.
const NAME_BYTES: usize = 64;

/// Process number that XLA gives the host in `trace.json.gz`.
const HOST_PID: i64 = 701;
/// Process number of the first device, and of the first plane that is neither.
const DEVICE_PID: i64 = 1;
const OTHER_PID: i64 = 1001;

/// What to read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Keep only arguments with these keys, if given. Default is all.
    pub args: Option<Vec<String>>,
    /// Keep only slices of these categories, if given: none, because events have no category. Default is all.
    pub categories: Option<Vec<String>>,
    /// Keep only events that start in this range. Default is everything.
    pub range: Option<TimeRange>,
    /// Maximum size of the message in bytes. Default is 8 GiB.
    pub max_bytes: u64,
    /// Maximum number of places kept per kind of issue. Default is [`trace_model::DEFAULT_PLACES`].
    pub places: usize,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            args: None,
            categories: None,
            range: None,
            max_bytes: 8 << 30,
            places: trace_model::DEFAULT_PLACES,
        }
    }
}

/// Returns `true` if `head` begins an `XSpace`: its planes, field 1, begin with an id and a name such as `/host:CPU`.
pub fn begins(head: &[u8]) -> bool {
    let name = || {
        let mut rest = head.strip_prefix(b"\x0a")?;
        rest = after_varint(rest)?;
        if let Some(id) = rest.strip_prefix(b"\x08") {
            rest = after_varint(id)?;
        }
        let name = after_varint(rest.strip_prefix(b"\x12")?)?;
        name.get(..name.len().min(NAME_BYTES))
    };
    let names: [&[u8]; 4] = [b"/host:", b"/device:", b"/task:", b"Task Environment"];
    name().is_some_and(|name| names.iter().any(|known| name.starts_with(known)))
}

fn after_varint(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().take(10).position(|byte| *byte < 0x80)?;
    bytes.get(end + 1..)
}

/// Reads an `XSpace` into a trace.
///
/// # Errors
///
/// Returns an error if the source cannot be read, the message is cut off or damaged, or its events do not fit in a trace.
pub fn read(source: Source, options: &LoadOptions) -> Result<Trace> {
    let name = source.name().to_owned();
    let mut bytes = Vec::new();
    let mut reader = source
        .into_read()?
        .take(options.max_bytes.saturating_add(1));
    let read = reader.read_to_end(&mut bytes);
    read.map_err(|source| Error::Io {
        name: name.clone(),
        source,
    })?;
    if bytes.len() as u64 > options.max_bytes {
        return Err(Error::TooLarge {
            name,
            limit_bytes: options.max_bytes,
        });
    }
    let mut loader = Loader::new(options);
    loader.builder.meta.input_bytes = bytes.len() as u64;
    let mut at = 0;
    let mut loaded = Ok(());
    for field in Fields::new(&bytes) {
        loaded = match field {
            Ok((1, Value::Bytes(plane))) => {
                // The offset of damage is known to the plane it is in.
                at = end_of(plane, &bytes);
                loader.plane(plane)
            }
            Ok(_) => Ok(()),
            Err(damage) => {
                at = bytes.len();
                Err(damage)
            }
        };
        if loaded.is_err() {
            break;
        }
    }
    match loaded {
        Ok(()) => loader.finish(),
        Err(damage) => Err(Error::Damaged {
            name,
            byte: at.saturating_sub(damage.left) as u64,
            what: damage.what,
        }),
    }
}

/// Returns the offset of the end of a part of `all`.
fn end_of(part: &[u8], all: &[u8]) -> usize {
    let start = part.as_ptr().addr().saturating_sub(all.as_ptr().addr());
    start + part.len()
}

struct Loader<'o> {
    options: &'o LoadOptions,
    builder: TraceBuilder,
    devices: i64,
    others: i64,
    /// Events left out because they have no time of their own.
    sums: u64,
    keys: FxHashMap<String, Option<StrId>>,
}

impl<'o> Loader<'o> {
    fn new(options: &'o LoadOptions) -> Self {
        let mut builder = TraceBuilder::new();
        builder.diagnostics = trace_model::Diagnostics::with_places(options.places);
        builder.meta.format = "xplane";
        Self {
            options,
            builder,
            devices: 0,
            others: 0,
            sums: 0,
            keys: FxHashMap::default(),
        }
    }

    fn plane(&mut self, message: &[u8]) -> std::result::Result<(), Damage> {
        let plane = Plane::read(message)?;
        if plane.name == "Task Environment" {
            for stat in plane.own_stats()? {
                let start = match stat.value {
                    StatValue::UInt(ns) => i64::try_from(ns).ok(),
                    StatValue::Int(ns) => Some(ns),
                    _ => None,
                };
                if stat.name == "profile_start_time"
                    && let Some(start) = start
                {
                    self.builder.meta.base_time_ns = start;
                }
            }
        }
        if plane.lines.is_empty() {
            return Ok(());
        }
        let pid = match () {
            () if plane.name.starts_with("/host:CPU") => HOST_PID,
            () if plane.name.starts_with("/device:") => {
                self.devices += 1;
                DEVICE_PID + self.devices - 1
            }
            () => {
                self.others += 1;
                OTHER_PID + self.others - 1
            }
        };
        let mut process = Process::new(Pid(pid));
        process.name = Some(self.builder.string(&plane.name));
        let process = self.builder.process(process);
        let mut names: FxHashMap<i64, StrId> = FxHashMap::default();
        let mut stats: Vec<Stat<'_>> = Vec::new();
        for message in &plane.lines {
            let line = Line::read(message)?;
            let mut thread = Thread::new(Tid(line.id), Some(process));
            thread.name = (!line.name.is_empty()).then(|| self.builder.string(&line.name));
            let thread = self.builder.thread(thread);
            let track = self.builder.track(Track {
                process: Some(process),
                thread: Some(thread),
                ..Track::new(TrackKind::Thread)
            });
            let lane = self.builder.lane(Some(track));
            for message in &line.events {
                self.builder.meta.events += 1;
                let event = Event::read(message)?;
                if event.is_sum {
                    self.sums += 1;
                    continue;
                }
                let Some((start, dur)) = self.times(&line, &event) else {
                    continue;
                };
                let range = self.options.range;
                let is_in = range.is_none_or(|range| range.contains(Timestamp::from_nanos(start)));
                // Events have no category.
                if !is_in || self.options.categories.is_some() {
                    continue;
                }
                let name = *names.entry(event.kind).or_insert_with(|| {
                    let text = plane.kind(event.kind).map(|kind| kind.name.as_ref());
                    let text = text.filter(|text| !text.is_empty());
                    match text {
                        Some(text) => self.builder.string(text),
                        None => self.builder.string(&format!("event {}", event.kind)),
                    }
                });
                plane.event_stats(&event, &mut stats)?;
                let args = self.args(&stats);
                let data = SliceData {
                    name: Some(name),
                    category: CategoryId::NONE,
                    args,
                };
                self.builder.events.complete(lane, start, dur, data);
            }
        }
        Ok(())
    }

    /// Returns start and duration in nanoseconds, rounded as in `trace.json.gz`.
    fn times(&mut self, line: &Line<'_>, event: &Event<'_>) -> Option<(i64, i64)> {
        let place = Place::Row(self.builder.meta.events);
        if event.duration_ps < 0 {
            let diagnostics = &mut self.builder.diagnostics;
            diagnostics.note(IssueKind::NegativeDuration, place, "an event");
            return None;
        }
        let start = i128::from(line.start_ns) * 1000 + i128::from(event.offset_ps);
        let nanos = |ps: i128| i64::try_from((ps + 500).div_euclid(1000)).ok();
        let times = nanos(start).zip(nanos(event.duration_ps.into()));
        let times = times.filter(|(start, dur)| {
            let end = start.checked_add(*dur);
            end.is_some_and(|end| is_plausible(*start, end))
        });
        if times.is_none() {
            self.builder
                .diagnostics
                .note(IssueKind::FarTime, place, "an event");
        }
        times
    }

    fn args(&mut self, stats: &[Stat<'_>]) -> ArgsRef {
        let mut list: Vec<Arg> = Vec::with_capacity(stats.len());
        for stat in stats {
            let Some(key) = self.key(&stat.name) else {
                continue;
            };
            if list.iter().any(|known| known.key == key) {
                continue;
            }
            list.push(match &stat.value {
                StatValue::Int(number) => Arg::int(key, *number),
                StatValue::UInt(number) => match i64::try_from(*number) {
                    Ok(number) => Arg::int(key, number),
                    Err(_) => Arg::uint(key, *number),
                },
                StatValue::Real(number) => Arg::real(key, *number),
                StatValue::Text(text) => Arg::text(key, self.builder.string(text)),
                StatValue::Bytes => continue,
            });
        }
        match list.is_empty() {
            true => ArgsRef::NONE,
            false => self.builder.events.args(&list),
        }
    }

    fn key(&mut self, name: &str) -> Option<StrId> {
        if let Some(known) = self.keys.get(name) {
            return *known;
        }
        let wanted = self.options.args.as_ref();
        let is_wanted = wanted.is_none_or(|keys| keys.iter().any(|key| key == name));
        let key = is_wanted.then(|| self.builder.string(name));
        self.keys.insert(name.to_owned(), key);
        key
    }

    fn finish(mut self) -> Result<Trace> {
        if self.sums > 0 {
            self.builder
                .meta
                .records
                .push(("XEvent without time".to_owned(), self.sums));
        }
        let mut options = FinishOptions::default();
        options.order = EventOrder::Chrome;
        options.keep_negative = true;
        Ok(self.builder.finish(&options)?)
    }
}
