//! Writes packets as producers do (sequences, interning, clocks) and records their meaning.

use super::super::json::{Json, object};
use super::super::pack;
use super::super::proto::Message;
use std::collections::BTreeMap;

/// Timestamp format of a sequence.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    /// Plain trace time.
    Boot,
    /// Clock 64, private to the sequence: each event as the difference from the previous one.
    /// Contains the last event's trace time.
    Incremental(i64),
    /// Another built-in clock, and its offset to trace time.
    Other(u64, i64),
}

/// One producer thread.
#[derive(Debug)]
struct Sequence {
    clock: Clock,
    names: BTreeMap<String, u64>,
    categories: BTreeMap<String, u64>,
    /// First interned id after the last clear; it changes, so that ids differ between generations.
    first_iid: u64,
}

/// A written slice.
#[derive(Debug)]
struct Row {
    name: String,
    cat: String,
    track: u64,
    ts: i64,
    dur: i64,
    depth: usize,
    parent: Option<String>,
}

/// A trace under construction and its truth.
#[derive(Debug, Default)]
pub(super) struct Writer {
    trace: Message,
    bundle: Option<Message>,
    sequences: BTreeMap<u64, Sequence>,
    open: BTreeMap<u64, Vec<usize>>,
    rows: Vec<Row>,
    tracks: BTreeMap<u64, String>,
}

pub(super) const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

impl Writer {
    pub(super) fn packet(&mut self, packet: &Message) {
        self.bundle
            .as_mut()
            .unwrap_or(&mut self.trace)
            .message(1, packet);
    }

    /// Collects packets until [`Writer::pack_bundle`] into one compressed packet.
    pub(super) fn start_bundle(&mut self) {
        self.bundle = Some(Message::new());
    }

    pub(super) fn pack_bundle(&mut self) {
        if let Some(bundle) = self.bundle.take() {
            let mut packet = Message::new();
            packet.bytes(50, &pack::zlib(&bundle.0));
            self.packet(&packet);
        }
    }

    /// Starts a sequence, or a new generation of its state. Without `track`, events name their
    /// tracks.
    pub(super) fn clear(&mut self, sequence: u64, clock: Clock, track: Option<u64>) {
        let before = self
            .sequences
            .get(&sequence)
            .map(|sequence| sequence.first_iid);
        let mut packet = Message::new();
        packet.uint(10, sequence).uint(13, CLEARED);
        if before.is_none() {
            packet.uint(87, 1);
        }
        packet.nested(59, |defaults| {
            if let Some(track) = track {
                defaults.nested(11, |event| {
                    event.uint(11, track);
                });
            }
            match clock {
                Clock::Boot => {}
                Clock::Incremental(_) => _ = defaults.uint(58, 64),
                Clock::Other(id, _) => _ = defaults.uint(58, id),
            }
        });
        self.packet(&packet);
        let first_iid = before.map_or(1, |first| first + 100);
        let state = Sequence {
            clock,
            names: BTreeMap::new(),
            categories: BTreeMap::new(),
            first_iid,
        };
        self.sequences.insert(sequence, state);
    }

    /// Writes readings of several clocks at one moment: (clock id, value). Clock 64 is incremental
    /// and in nanoseconds.
    pub(super) fn snapshot(&mut self, sequence: u64, clocks: &[(u64, i64)]) {
        let mut packet = Message::new();
        packet.uint(10, sequence).nested(6, |snapshot| {
            for &(id, value) in clocks {
                snapshot.nested(1, |clock| {
                    clock.uint(1, id).int(2, value);
                    if id == 64 {
                        clock.uint(3, 1).uint(4, 1);
                    }
                });
            }
            snapshot.uint(2, 6);
        });
        self.packet(&packet);
    }

    /// Declares a track and its name in the truth.
    pub(super) fn track(
        &mut self,
        uuid: u64,
        parent: u64,
        called: &str,
        more: impl FnOnce(&mut Message),
    ) {
        self.tracks.insert(uuid, called.to_owned());
        let mut packet = Message::new();
        packet.uint(10, 1).nested(60, |track| {
            track.uint(1, uuid);
            if parent > 0 {
                track.uint(5, parent);
            }
            more(track);
        });
        self.packet(&packet);
    }

    /// Returns the encoded time of `ts` on a sequence.
    fn stamp(&mut self, sequence: u64, ts: i64) -> i64 {
        match self
            .sequences
            .get_mut(&sequence)
            .map(|sequence| &mut sequence.clock)
        {
            Some(Clock::Incremental(last)) => ts - std::mem::replace(last, ts),
            Some(Clock::Other(_, offset)) => ts - *offset,
            Some(Clock::Boot) | None => ts,
        }
    }

    /// Writes one track event with interned name and category; empty ones are left out.
    pub(super) fn event(
        &mut self,
        sequence: u64,
        ts: i64,
        name: &str,
        cat: &str,
        fill: impl FnOnce(&mut Message),
    ) {
        let stamp = self.stamp(sequence, ts);
        let mut interned = Message::new();
        let mut event = Message::new();
        if let Some(state) = self.sequences.get_mut(&sequence) {
            let mut intern = |table: &mut BTreeMap<String, u64>, kind: u64, text: &str| {
                let next = state.first_iid + u64::try_from(table.len()).unwrap_or(0);
                *table.entry(text.to_owned()).or_insert_with(|| {
                    interned.nested(kind, |entry| {
                        entry.uint(1, next).text(2, text);
                    });
                    next
                })
            };
            if !cat.is_empty() {
                event.uint(3, intern(&mut state.categories, 1, cat));
            }
            if !name.is_empty() {
                event.uint(10, intern(&mut state.names, 2, name));
            }
        }
        fill(&mut event);
        let mut packet = Message::new();
        packet.int(8, stamp).uint(10, sequence).message(11, &event);
        if !interned.0.is_empty() {
            packet.message(12, &interned);
        }
        packet.uint(13, NEEDS_STATE);
        self.packet(&packet);
    }

    /// Begins a slice; `at` is its sequence and track.
    pub(super) fn begin(
        &mut self,
        at: (u64, u64),
        ts: i64,
        name: &str,
        cat: &str,
        more: impl FnOnce(&mut Message),
    ) {
        self.event(at.0, ts, name, cat, |event| {
            event.uint(9, 1).uint(11, at.1);
            more(event);
        });
        self.note(at.1, ts, -1, name, cat);
    }

    /// Ends the innermost slice of the track.
    pub(super) fn end(&mut self, at: (u64, u64), ts: i64, more: impl FnOnce(&mut Message)) {
        self.event(at.0, ts, "", "", |event| {
            event.uint(9, 2).uint(11, at.1);
            more(event);
        });
        if let Some(row) = self.open.get_mut(&at.1).and_then(Vec::pop) {
            self.rows[row].dur = ts - self.rows[row].ts;
        }
    }

    /// Records a slice that the caller wrote. Slices of unknown length stay open.
    pub(super) fn note(&mut self, track: u64, ts: i64, dur: i64, name: &str, cat: &str) {
        let stack = self.open.entry(track).or_default();
        let parent = stack.last().map(|&row| self.rows[row].name.clone());
        let depth = stack.len();
        if dur < 0 {
            stack.push(self.rows.len());
        }
        self.rows.push(Row {
            name: name.to_owned(),
            cat: cat.to_owned(),
            track,
            ts,
            dur,
            depth,
            parent,
        });
    }

    /// Returns the finished bytes and the slices in them, ordered by time.
    pub(super) fn finish(mut self) -> (Vec<u8>, Json) {
        self.rows.sort_by_key(|row| row.ts);
        let row = |row: Row| {
            object! {
                "name": row.name, "cat": Some(row.cat).filter(|cat| !cat.is_empty()),
                "track": self.tracks.get(&row.track).map_or("undeclared", String::as_str),
                "ts_ns": row.ts, "dur_ns": row.dur, "depth": row.depth, "parent": row.parent,
            }
        };
        (
            self.trace.0,
            Json::Arr(self.rows.into_iter().map(row).collect()),
        )
    }
}

/// Adds a named debug annotation.
pub(super) fn note(event: &mut Message, name: &str, fill: impl FnOnce(&mut Message)) {
    event.nested(4, |annotation| {
        annotation.text(10, name);
        fill(annotation);
    });
}
