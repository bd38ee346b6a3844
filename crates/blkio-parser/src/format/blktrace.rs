//! Binary blktrace records, alone or with the context that the ftrace `blk` tracer puts before each.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Sink;
use crate::event::{Event, EventKind};
use crate::rwbs::Rwbs;
use blkio_companions::clock::Anchor;

/// Bytes of a record without its payload.
const RECORD: usize = 48;
/// Bytes of the ftrace context.
pub(crate) const CONTEXT: usize = 16;
/// The only known version.
const VERSION: u8 = 7;

// Category bits, in the high half of the action.
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNC: u32 = 1 << 3;
const NOTIFY: u32 = 1 << 10;
const AHEAD: u32 = 1 << 11;
const META: u32 = 1 << 12;
const DISCARD: u32 = 1 << 13;
const FUA: u32 = 1 << 15;
/// In the low half: the payload begins with a cgroup number.
const CGROUP: u32 = 0x100;

/// Returns where a magic stands, and whether the numbers are little-endian.
pub(crate) fn magic(bytes: &[u8]) -> Option<(bool, u8)> {
    match bytes {
        [version, b't', b'a', b'e', ..] => Some((true, *version)),
        [b'e', b'a', b't', version, ..] => Some((false, *version)),
        _ => None,
    }
}

/// Takes a stream of records apart, however it is cut.
#[derive(Debug)]
pub(crate) struct Records {
    /// Bytes before each record.
    context: usize,
    /// What is left of the last piece.
    rest: Vec<u8>,
    /// Bytes consumed before `rest`.
    offset: u64,
    /// Last sequence number by processor.
    sequences: FxHashMap<u32, u32>,
    /// Names of processes, as far as notes told them.
    names: BTreeMap<u32, u32>,
    /// An unknown version was met: the version and where.
    pub(crate) foreign_version: Option<(u8, u64)>,
    /// Sectors of an unfinished search for the next record.
    searching: bool,
}

impl Records {
    pub(crate) fn new(with_context: bool) -> Self {
        Self {
            context: if with_context { CONTEXT } else { 0 },
            rest: Vec::new(),
            offset: 0,
            sequences: FxHashMap::default(),
            names: BTreeMap::new(),
            foreign_version: None,
            searching: false,
        }
    }

    /// Takes the next piece of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8], sink: &mut Sink) {
        let mut data = std::mem::take(&mut self.rest);
        data.extend_from_slice(bytes);
        let mut at = 0;
        while self.foreign_version.is_none() {
            let Some(left) = data.get(at..) else { break };
            match self.record(left, at, sink) {
                Some(used) => at += used,
                None => break,
            }
        }
        self.offset += at as u64;
        self.rest = data.split_off(at.min(data.len()));
    }

    /// Ends the stream; a rest that is no record is counted.
    pub(crate) fn finish(&mut self, sink: &mut Sink) {
        if !self.rest.is_empty() && self.foreign_version.is_none() {
            sink.counts.unterminated_last_line = true;
            sink.counts.lines += 1;
            let line = sink.counts.lines;
            sink.counts.malformed(line, self.offset, "truncated");
        }
    }

    /// Processes and the numbers of their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = (u32, u32)> {
        self.names.iter().map(|(pid, name)| (*pid, *name))
    }

    /// Takes one record; says how many bytes it had, or `None` when more are needed.
    fn record(&mut self, left: &[u8], at: usize, sink: &mut Sink) -> Option<usize> {
        let record = left.get(self.context..)?.get(..RECORD.min(left.len()))?;
        let Some((little, version)) = magic(record) else {
            if record.len() < 4 {
                return None;
            }
            return Some(self.resynchronise(left, at, sink));
        };
        if version != VERSION {
            self.foreign_version = Some((version, self.offset + at as u64));
            return None;
        }
        if record.len() < RECORD {
            return None;
        }
        self.searching = false;
        let fields = Fields { record, little };
        let payload_bytes = usize::from(fields.u16(46));
        let start = self.context + RECORD;
        let payload = left.get(start..start + payload_bytes)?;
        sink.counts.lines += 1;
        self.sequence(&fields, sink);
        if self.event(&fields, payload, sink).is_some() {
            sink.counts.event_lines += 1;
        } else {
            sink.counts.other += 1;
        }
        Some(start + payload_bytes)
    }

    /// Skips to the next magic; a run of skipped bytes counts once.
    fn resynchronise(&mut self, left: &[u8], at: usize, sink: &mut Sink) -> usize {
        if !self.searching {
            self.searching = true;
            sink.counts.lines += 1;
            let line = sink.counts.lines;
            sink.counts
                .malformed(line, self.offset + at as u64, "no record begins here");
        }
        let found = (1..left.len().saturating_sub(self.context + 3)).find(|skip| {
            left.get(skip + self.context..)
                .and_then(magic)
                .is_some_and(|(_, version)| version == VERSION)
        });
        // Three bytes may be the beginning of a magic.
        found.unwrap_or_else(|| left.len().saturating_sub(self.context + 3).max(1))
    }

    fn sequence(&mut self, fields: &Fields<'_>, sink: &mut Sink) {
        let sequence = fields.u32(4);
        let cpu = fields.u32(40);
        // Notes are numbered apart, and zero says that nobody numbered, unless it is behind the largest number.
        let follows_largest = || self.sequences.get(&cpu) == Some(&u32::MAX);
        if fields.u32(28) >> 16 & NOTIFY != 0 || (sequence == 0 && !follows_largest()) {
            return;
        }
        if let Some(last) = self.sequences.insert(cpu, sequence) {
            let missing = sequence.wrapping_sub(last).wrapping_sub(1);
            // A number below the last one is another stream, no loss.
            if missing > 0 && missing < 1 << 31 {
                sink.counts.lost_lines += 1;
                sink.counts.lost_events += u64::from(missing);
            }
        }
    }

    fn event(&mut self, fields: &Fields<'_>, payload: &[u8], sink: &mut Sink) -> Option<()> {
        let action = fields.u32(28);
        let category = action >> 16;
        let pid = fields.u32(32);
        let payload = if action & CGROUP != 0 {
            payload.get(8..)?
        } else {
            payload
        };
        if category & NOTIFY != 0 {
            self.note(fields, action & 0xff, pid, payload, sink);
            return None;
        }
        let kind = match action & 0xff {
            1 => EventKind::Queue,
            2 | 3 => EventKind::Merge,
            4 => EventKind::GetRq,
            6 => EventKind::Requeue,
            7 => EventKind::Issue,
            8 => EventKind::Complete,
            9 => EventKind::Plug,
            10 | 11 => EventKind::Unplug,
            12 => EventKind::Insert,
            13 => EventKind::Split,
            15 => EventKind::Remap,
            5 | 14 => EventKind::Note,
            _ => return None,
        };
        let bytes = fields.u32(24);
        let (rwbs, direction) = sink.symbols.rwbs(letters(category, bytes)?)?;
        let error = i32::from(fields.u16(44).cast_signed());
        if kind == EventKind::Remap && payload.len() >= 8 {
            // The payload is big-endian whatever the recorder's byte order is.
            let from = Fields {
                record: payload,
                little: false,
            };
            sink.counts.remapped(from.u32(0), from.u32(4));
        }
        let mut released = 0;
        if kind == EventKind::Unplug && payload.len() >= 8 {
            let count = Fields {
                record: payload,
                little: false,
            };
            // Times that a broken record has are no counts.
            released = u16::try_from(count.u64(0)).unwrap_or(u16::MAX).into();
        }
        sink.events.push(Event {
            other_ns: 0,
            t_ns: fields.u64(8),
            sector: fields.u64(16),
            nr_sector: bytes >> 9,
            bytes,
            dev: fields.u32(36),
            pid,
            error: if kind == EventKind::Complete {
                error
            } else {
                released
            },
            comm: self.names.get(&pid).copied().unwrap_or(0),
            cpu: u16::try_from(fields.u32(40)).unwrap_or(u16::MAX),
            rwbs,
            kind,
            direction,
        });
        Some(())
    }

    /// Names of processes, and the wall clock.
    fn note(&mut self, fields: &Fields<'_>, what: u32, pid: u32, payload: &[u8], sink: &mut Sink) {
        match what {
            0 => {
                let end = payload.iter().position(|b| *b == 0);
                let name = payload.get(..end.unwrap_or(payload.len()));
                let name = sink.symbols.comm(name.unwrap_or_default());
                self.names.insert(pid, name);
            }
            1 if payload.len() >= 8 => {
                let clock = Fields {
                    record: payload,
                    little: fields.little,
                };
                let wall_ns = u64::from(clock.u32(0)) * 1_000_000_000 + u64::from(clock.u32(4));
                sink.counts.anchors.push(Anchor {
                    trace_ns: fields.u64(8),
                    wall_ns,
                    uncertainty_ns: 0,
                });
            }
            2 => {
                let first = sink.counts.first_message_ns.unwrap_or(u64::MAX);
                sink.counts.first_message_ns = Some(first.min(fields.u64(8)));
            }
            _ => {}
        }
    }
}

/// Returns the letters that blkparse rebuilds from the category bits.
fn letters(category: u32, bytes: u32) -> Option<Rwbs> {
    let mut text = [0_u8; 8];
    let mut len = 0;
    let mut add = |letter: u8, wanted: bool| {
        if let (true, Some(place)) = (wanted, text.get_mut(len)) {
            *place = letter;
            len += 1;
        }
    };
    add(b'F', category & FLUSH != 0);
    if category & DISCARD != 0 {
        add(b'D', true);
    } else if category & WRITE != 0 {
        add(b'W', true);
    } else if bytes > 0 {
        add(b'R', true);
    } else {
        add(b'N', true);
    }
    add(b'F', category & FUA != 0);
    add(b'A', category & AHEAD != 0);
    add(b'S', category & SYNC != 0);
    add(b'M', category & META != 0);
    Rwbs::new(text.get(..len)?)
}

/// Numbers of a record in its byte order; beyond its end they are 0.
struct Fields<'a> {
    record: &'a [u8],
    little: bool,
}

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        if let Some(found) = self.record.get(at..at + N) {
            bytes.copy_from_slice(found);
        }
        if !self.little {
            bytes.reverse();
        }
        bytes
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a record of the issue of a sync write, in the given byte order.
    fn record(sequence: u32, t_ns: u64, little: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |value: u64, width: usize| {
            if little {
                bytes.extend_from_slice(&value.to_le_bytes()[..width]);
            } else {
                bytes.extend_from_slice(&value.to_be_bytes()[8 - width..]);
            }
        };
        put(0x6561_7407, 4);
        put(u64::from(sequence), 4);
        put(t_ns, 8);
        put(6_000_000_000, 8);
        put(4096, 4);
        put(u64::from((WRITE | SYNC) << 16 | 7), 4);
        put(42, 4);
        put(7 << 20, 4);
        put(1, 4);
        put(0xffa1, 2);
        put(0, 2);
        bytes
    }

    #[test]
    fn records_in_both_byte_orders_cut_anywhere() {
        for little in [true, false] {
            let data = [
                record(1, 10, little),
                record(2, 20, little),
                record(5, 30, little),
            ]
            .concat();
            for step in [1, 7, 48, 1000] {
                let mut sink = Sink::default();
                let mut records = Records::new(false);
                for piece in data.chunks(step) {
                    records.push(piece, &mut sink);
                }
                records.finish(&mut sink);
                assert_eq!(sink.events.len(), 3, "{little} {step}");
                assert_eq!(sink.events[2].sector, 6_000_000_000);
                assert_eq!(sink.events[2].nr_sector, 8);
                assert_eq!(sink.counts.lost_events, 2);
                assert_eq!(sink.counts.malformed, 0);
                assert_eq!(sink.symbols.rwbs_of(0).unwrap().as_str(), "WS");
            }
        }
    }

    #[test]
    fn numbers_begin_again_behind_the_largest() {
        let lost = |numbers: &[u32]| {
            let records = numbers.iter().map(|number| record(*number, 1, true));
            let mut sink = Sink::default();
            Records::new(false).push(&records.collect::<Vec<_>>().concat(), &mut sink);
            sink.counts.lost_events
        };
        assert_eq!(lost(&[u32::MAX - 1, u32::MAX, 0, 1, 2]), 0);
        assert_eq!(lost(&[u32::MAX, 2]), 2);
        assert_eq!(lost(&[0, 0, 0]), 0);
    }

    #[test]
    fn garbage_is_skipped_once_and_a_cut_end_counted() {
        let mut data = record(1, 10, true);
        data.extend_from_slice(&[9; 31]);
        data.extend(record(2, 20, true));
        data.extend_from_slice(&record(3, 30, true)[..20]);
        let mut sink = Sink::default();
        let mut records = Records::new(false);
        records.push(&data, &mut sink);
        records.finish(&mut sink);
        assert_eq!((sink.events.len(), sink.counts.malformed), (2, 2));
        assert_eq!(sink.counts.malformed_samples[0].offset, 48);
    }

    #[test]
    fn other_versions_are_refused_by_name() {
        let mut data = record(1, 10, true);
        data[0] = 8;
        let mut records = Records::new(false);
        records.push(&data, &mut Sink::default());
        assert_eq!(records.foreign_version, Some((8, 0)));
    }

    #[test]
    fn letters_follow_blkparse() {
        let text = |category, bytes| letters(category, bytes).unwrap().as_str().to_owned();
        assert_eq!(text(META, 4096), "RM");
        assert_eq!(text(FLUSH, 0), "FN");
        assert_eq!(text(FLUSH | WRITE | FUA | SYNC | META, 4096), "FWFSM");
        assert_eq!(text(DISCARD | WRITE | SYNC, 4096), "DS");
        assert_eq!(text(AHEAD, 8), "RA");
    }
}
