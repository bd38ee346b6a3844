//! Decodes packets on a separate thread, ahead of the import.
//!
//! The meaning of a packet depends on all packets before it, so the import uses one thread. Finding
//! the packets and their fields is independent: another thread does it and passes batches, in which
//! nearly all packets are [`Plain`]. The others are passed as bytes and decoded again.

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use byte_source::Chunks;
use trace_model::{Diagnostics, IssueKind, Place};

use crate::proto::event::{EventScalars, EventType};
use crate::proto::frame::{BadFrame, Framer, Tail};
use crate::proto::wire::{Cursor, Span, bytes_tag, fixed64_tag, low32, varint_tag};
use crate::{Error, ReadOptions};

/// Maximum number of packets of a batch, and of bytes: few enough to stay in the cache.
const PACKETS: usize = 1 << 12;
const BYTES: usize = 1 << 18;

/// Number of batches between the threads.
const IN_FLIGHT: usize = 4;

/// A packet that carries a simple track event ([`is_simple`](crate::proto::TrackEvent::is_simple)) and
/// changes no state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plain {
    pub(super) timestamp: Option<u64>,
    pub(super) sequence_id: Option<u32>,
    pub(super) clock_id: u32,
    pub(super) machine_id: u32,
    pub(super) needs_state: bool,
    pub(super) scalars: EventScalars,
}

/// A packet of a batch. It fits in a cache line: tens of millions of them move from one core to
/// another.
#[derive(Clone, Copy, Debug)]
struct Item {
    at: u64,
    timestamp: u64,
    track_uuid: u64,
    sequence_id: u32,
    clock_id: u32,
    machine_id: u32,
    name_iid: u32,
    category_iid: u32,
    name: Span,
    /// End of its bytes.
    end: u32,
    /// The number of the event's type.
    kind: u8,
    /// Number of annotations of the batch that belong to it, after those of earlier packets.
    annotations: u8,
    /// Number of flow ids.
    flow_ids: u8,
    /// Number of ids of flows that end here.
    terminating: u8,
    flags: u8,
}

/// The packet must be decoded again; no other field is set.
const WHOLE: u8 = 1;
const TIMESTAMP: u8 = 2;
const SEQUENCE: u8 = 4;
const NEEDS_STATE: u8 = 8;
const TRACK: u8 = 16;
const NAME: u8 = 32;

impl Item {
    /// Creates the item of a packet at `at` without decoded fields.
    const fn whole(at: u64) -> Self {
        Self {
            at,
            timestamp: 0,
            track_uuid: 0,
            sequence_id: 0,
            clock_id: 0,
            machine_id: 0,
            name_iid: 0,
            category_iid: 0,
            name: Span::EMPTY,
            end: 0,
            kind: 0,
            annotations: 0,
            flow_ids: 0,
            terminating: 0,
            flags: WHOLE,
        }
    }

    #[inline]
    fn unpacked(&self) -> Plain {
        let has = |flag: u8| self.flags & flag != 0;
        Plain {
            timestamp: has(TIMESTAMP).then_some(self.timestamp),
            sequence_id: has(SEQUENCE).then_some(self.sequence_id),
            clock_id: self.clock_id,
            machine_id: self.machine_id,
            needs_state: has(NEEDS_STATE),
            scalars: EventScalars {
                kind: EventType::of(u64::from(self.kind)),
                track_uuid: has(TRACK).then_some(self.track_uuid),
                name_iid: u64::from(self.name_iid),
                name: has(NAME).then_some(self.name),
                category_iid: u64::from(self.category_iid),
            },
        }
    }
}

/// Packets in file order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    items: Vec<Item>,
    /// The track events of plain packets, and all bytes of other packets.
    bytes: Vec<u8>,
    annotations: Vec<Span>,
    flow_ids: Vec<u64>,
    terminating_flow_ids: Vec<u64>,
    /// Offsets of packets that were too large to keep.
    oversized: Vec<u64>,
}

/// Receives packets.
pub(super) trait Sink {
    /// Receives the plain packet at offset `at`; `bytes` are those of its event.
    fn plain(&mut self, at: u64, packet: &Plain, event: Lists<'_>, bytes: &[u8]);
    /// Receives any other packet.
    fn whole(&mut self, at: u64, bytes: &[u8]);
    /// Receives the offset of a packet that was skipped because of its size.
    fn oversized(&mut self, at: u64);
}

/// Repeated fields of a simple event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lists<'a> {
    pub(super) annotations: &'a [Span],
    pub(super) flow_ids: &'a [u64],
    pub(super) terminating_flow_ids: &'a [u64],
}

impl Batch {
    fn clear(&mut self) {
        self.items.clear();
        self.bytes.clear();
        self.annotations.clear();
        self.flow_ids.clear();
        self.terminating_flow_ids.clear();
        self.oversized.clear();
    }

    fn is_full(&self) -> bool {
        self.items.len() >= PACKETS || self.bytes.len() >= BYTES
    }

    fn is_empty(&self) -> bool {
        self.items.is_empty() && self.oversized.is_empty()
    }

    fn push(&mut self, bytes: &[u8], at: u64) {
        let lists = (
            self.annotations.len(),
            self.flow_ids.len(),
            self.terminating_flow_ids.len(),
        );
        let (mut item, kept) = match self.plain(bytes, at) {
            // Without texts in it, the bytes are no longer needed.
            Some((item, _)) if item.annotations == 0 && item.flags & NAME == 0 => (item, &[][..]),
            Some(plain) => plain,
            None => {
                self.annotations.truncate(lists.0);
                self.flow_ids.truncate(lists.1);
                self.terminating_flow_ids.truncate(lists.2);
                (Item::whole(at), bytes)
            }
        };
        self.bytes.extend_from_slice(kept);
        // A batch exceeds `BYTES` by less than a packet, and a packet has at most 256 MiB.
        item.end = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.items.push(item);
    }

    /// Decodes the packet if it is plain and returns it with the bytes of its event; repeated
    /// fields go to the lists. Stops at the first field that a plain packet does not have, and at
    /// numbers too large for their field, which no writer produces.
    #[inline]
    fn plain<'a>(&mut self, bytes: &'a [u8], at: u64) -> Option<(Item, &'a [u8])> {
        const TRUSTED_UID: u64 = varint_tag(3);
        const TIMESTAMP_TAG: u64 = varint_tag(8);
        const SEQUENCE_ID: u64 = varint_tag(10);
        const TRACK_EVENT: u64 = bytes_tag(11);
        const SEQUENCE_FLAGS: u64 = varint_tag(13);
        const CLOCK_ID: u64 = varint_tag(58);
        const TRUSTED_PID: u64 = varint_tag(79);
        const MACHINE_ID: u64 = varint_tag(98);
        const STATE_NEEDED: u64 = 2;
        let mut item = Item {
            flags: 0,
            ..Item::whole(at)
        };
        let mut payload = None;
        let mut fields = Cursor::new(bytes);
        while fields.remaining() > 0 {
            match fields.varint().ok()? {
                TIMESTAMP_TAG => {
                    item.timestamp = fields.varint().ok()?;
                    item.flags |= TIMESTAMP;
                }
                SEQUENCE_ID => {
                    item.sequence_id = low32(fields.varint().ok()?);
                    item.flags |= SEQUENCE;
                }
                TRACK_EVENT => payload = Some(fields.bytes().ok()?),
                SEQUENCE_FLAGS => {
                    let flags = fields.varint().ok()?;
                    if flags & !STATE_NEEDED != 0 {
                        return None;
                    }
                    item.flags &= !NEEDS_STATE;
                    if flags != 0 {
                        item.flags |= NEEDS_STATE;
                    }
                }
                CLOCK_ID => item.clock_id = low32(fields.varint().ok()?),
                MACHINE_ID => item.machine_id = low32(fields.varint().ok()?),
                TRUSTED_UID | TRUSTED_PID => _ = fields.varint().ok()?,
                _ => return None,
            }
        }
        let payload = payload?;
        self.event(payload, &mut item)?;
        Some((item, payload))
    }

    /// Adds the fields of a simple track event to `item`.
    #[inline]
    fn event(&mut self, payload: &[u8], item: &mut Item) -> Option<()> {
        const CATEGORY_IID: u64 = varint_tag(3);
        const ANNOTATION: u64 = bytes_tag(4);
        const TYPE: u64 = varint_tag(9);
        const NAME_IID: u64 = varint_tag(10);
        const TRACK_UUID: u64 = varint_tag(11);
        const NAME_TAG: u64 = bytes_tag(23);
        const FLOW_ID: u64 = fixed64_tag(47);
        const LAST_FLOW_ID: u64 = fixed64_tag(48);
        let mut fields = Cursor::new(payload);
        while fields.remaining() > 0 {
            match fields.varint().ok()? {
                TYPE => item.kind = u8::try_from(fields.varint().ok()?).ok()?,
                TRACK_UUID => {
                    item.track_uuid = fields.varint().ok()?;
                    item.flags |= TRACK;
                }
                NAME_IID => item.name_iid = u32::try_from(fields.varint().ok()?).ok()?,
                CATEGORY_IID if item.category_iid == 0 => {
                    item.category_iid = u32::try_from(fields.varint().ok()?).ok()?;
                }
                ANNOTATION => {
                    item.annotations = item.annotations.checked_add(1)?;
                    let span = Span::of(fields.bytes().ok()?, payload);
                    self.annotations.push(span);
                }
                FLOW_ID => {
                    item.flow_ids = item.flow_ids.checked_add(1)?;
                    self.flow_ids.push(fields.fixed64().ok()?);
                }
                LAST_FLOW_ID => {
                    item.terminating = item.terminating.checked_add(1)?;
                    self.terminating_flow_ids.push(fields.fixed64().ok()?);
                }
                NAME_TAG => {
                    item.name = Span::of(fields.bytes().ok()?, payload);
                    item.flags |= NAME;
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// Passes all packets to `sink`, in file order.
    pub(super) fn deliver(&self, sink: &mut impl Sink) {
        let (mut start, mut annotations, mut flow_ids, mut terminating) = (0, 0, 0, 0);
        for item in &self.items {
            let end = item.end as usize;
            let bytes = part(&self.bytes, start..end);
            start = end;
            if item.flags == WHOLE {
                sink.whole(item.at, bytes);
                continue;
            }
            let lists = Lists {
                annotations: next(&self.annotations, &mut annotations, item.annotations),
                flow_ids: next(&self.flow_ids, &mut flow_ids, item.flow_ids),
                terminating_flow_ids: next(
                    &self.terminating_flow_ids,
                    &mut terminating,
                    item.terminating,
                ),
            };
            sink.plain(item.at, &item.unpacked(), lists, bytes);
        }
        for &at in &self.oversized {
            sink.oversized(at);
        }
    }
}

fn part<T>(list: &[T], range: Range<usize>) -> &[T] {
    list.get(range).unwrap_or_default()
}

fn next<'a, T>(list: &'a [T], from: &mut usize, count: u8) -> &'a [T] {
    let start = *from;
    *from += usize::from(count);
    part(list, start..*from)
}

/// Results that are known once all bytes have been read.
#[derive(Debug)]
pub(super) struct Ended {
    tail: Option<Tail>,
    damage: Vec<byte_source::Damage>,
    pub(super) bytes: u64,
}

impl Ended {
    /// Records the incomplete field at the end, and the damage of the container.
    pub(super) fn note(&self, diagnostics: &mut Diagnostics) {
        if let Some(tail) = self.tail {
            let detail = match tail.missing {
                Some(n) => format!("{n} bytes are missing"),
                None => "the length of the last packet is cut".to_owned(),
            };
            diagnostics.note(IssueKind::TruncatedTail, Place::Byte(tail.at), detail);
        }
        for damage in &self.damage {
            let kind = if damage.kind.is_harmless() {
                IssueKind::TrailingBytes
            } else {
                IssueKind::DamagedCompression
            };
            let place = Place::Byte(damage.uncompressed_offset);
            diagnostics.note(kind, place, damage.to_string());
        }
    }
}

/// State of the thread that decodes packets.
struct Ahead<'o> {
    name: String,
    options: &'o ReadOptions,
    framer: Framer,
    batch: Batch,
    filled: SyncSender<Batch>,
    returned: Receiver<Batch>,
}

impl Ahead<'_> {
    fn run(mut self, mut chunks: Chunks) -> Result<Ended, Error> {
        let mut framer = std::mem::take(&mut self.framer);
        while let Some(chunk) = chunks.next()? {
            if let Some(progress) = &self.options.progress {
                progress.add_done(chunk.len() as u64);
            }
            let pushed = framer.push(&chunk, |packet, at| {
                self.batch.push(packet, at);
                if self.batch.is_full() {
                    self.hand_over();
                }
                Ok::<(), BadFrame>(())
            });
            self.batch.oversized.extend(framer.take_oversized());
            if let Err(bad) = pushed {
                self.hand_over();
                return Err(Error::Protobuf {
                    name: self.name,
                    what: bad.what,
                    byte: bad.at,
                    packet: framer.packets,
                });
            }
        }
        self.hand_over();
        Ok(Ended {
            tail: framer.tail(),
            damage: chunks.damage().records(),
            bytes: framer.offset(),
        })
    }

    fn hand_over(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut empty = self.returned.try_recv().unwrap_or_default();
        empty.clear();
        let full = std::mem::replace(&mut self.batch, empty);
        // The receiver is gone only if the import panicked, and that panic is reported.
        let _ = self.filled.send(full);
    }
}

/// Passes all packets of `chunks` to `sink`, in file order.
///
/// # Errors
///
/// Errors of [`Chunks`], and [`Error::Protobuf`] for a broken top level; all packets before have
/// been delivered.
pub(super) fn deliver(
    name: String,
    chunks: Chunks,
    options: &ReadOptions,
    sink: &mut impl Sink,
) -> Result<Ended, Error> {
    thread::scope(|scope| {
        let (filled, batches) = sync_channel(IN_FLIGHT);
        let (pool, returned): (Sender<Batch>, _) = channel();
        let ahead = Ahead {
            name,
            options,
            framer: Framer::default(),
            batch: Batch::default(),
            filled,
            returned,
        };
        let worker = scope.spawn(move || ahead.run(chunks));
        for batch in &batches {
            batch.deliver(sink);
            // At the end the receiver is gone.
            let _ = pool.send(batch);
        }
        match worker.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::event::TrackEvent;
    use crate::proto::packet::{Packet, Payload};

    #[test]
    fn an_item_is_a_cache_line() {
        assert!(size_of::<Item>() <= 64, "{}", size_of::<Item>());
    }

    /// Delivered packets, reassembled.
    #[derive(Default)]
    struct Seen(Vec<(u64, Option<Event>, Vec<u8>)>);

    /// A plain packet, its annotations and its flows.
    type Event = (Plain, Vec<Vec<u8>>, [Vec<u64>; 2]);

    impl Sink for Seen {
        fn plain(&mut self, at: u64, packet: &Plain, lists: Lists<'_>, bytes: &[u8]) {
            let annotations = lists.annotations.iter();
            let annotations = annotations.map(|s| s.bytes(bytes).to_vec()).collect();
            let flows = [lists.flow_ids, lists.terminating_flow_ids].map(<[u64]>::to_vec);
            let event = (*packet, annotations, flows);
            self.0.push((at, Some(event), Vec::new()));
        }

        fn whole(&mut self, at: u64, bytes: &[u8]) {
            self.0.push((at, None, bytes.to_vec()));
        }

        fn oversized(&mut self, at: u64) {
            self.0.push((at, None, Vec::new()));
        }
    }

    /// One packet of every kind: plain ones with few and many fields, one with interned data, one
    /// that is not a packet, one with an id that is too large, one with a rare field.
    const PACKETS: &[&[u8]] = &[
        &[0x40, 9, 0x50, 7, 0x68, 2, 0x5a, 4, 0x48, 1, 0x50, 3],
        &[0x50, 7, 0x62, 0, 0x5a, 2, 0x48, 2],
        &[0x0a],
        &[
            0x40, 10, 0x50, 7, 0x5a, 13, 0x22, 2, 0x08, 9, 0x22, 0, 0xba, 0x01, 1, b'n', 0x58,
            0x80, 1,
        ],
        &[0x5a, 7, 0x50, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
        &[
            0x40, 11, 0xd0, 0x03, 6, 0x5a, 10, 0xf9, 0x02, 5, 0, 0, 0, 0, 0, 0, 0,
        ],
        &[0x40, 12, 0x5a, 3, 0xf0, 0x01, 5],
        &[0x5a, 0],
        &[
            0x40, 12, 0x50, 7, 0x5a, 20, 0xf9, 0x02, 5, 0, 0, 0, 0, 0, 0, 0, 0x81, 0x03, 6, 0, 0,
            0, 0, 0, 0, 0,
        ],
    ];

    #[test]
    fn what_is_delivered_is_what_was_pushed() {
        let mut batch = Batch::default();
        for (at, packet) in PACKETS.iter().enumerate() {
            batch.push(packet, at as u64);
        }
        let mut event = TrackEvent::default();
        let mut seen = Seen::default();
        batch.deliver(&mut seen);
        assert_eq!(seen.0.len(), PACKETS.len());
        let mut plain = 0;
        for (at, (bytes, (offset, delivered, whole))) in PACKETS.iter().zip(seen.0).enumerate() {
            assert_eq!(offset, at as u64);
            let Some((found, annotations, flow_ids)) = delivered else {
                assert_eq!(whole, *bytes, "{at}");
                continue;
            };
            plain += 1;
            let packet = Packet::decode(bytes).unwrap();
            let Payload::TrackEvent(payload) = packet.payload else {
                panic!("{at} has no event");
            };
            event.decode(payload).unwrap();
            let expected = Plain {
                timestamp: packet.timestamp,
                sequence_id: packet.sequence_id,
                clock_id: packet.clock_id,
                machine_id: packet.machine_id,
                needs_state: packet.needs_state,
                scalars: event.scalars,
            };
            assert_eq!(found, expected, "{at}");
            let spans = event.annotations.iter();
            let expected: Vec<&[u8]> = spans.map(|s| s.bytes(payload)).collect();
            assert_eq!(annotations, expected, "{at}");
            let expected = [&event.flow_ids, &event.terminating_flow_ids];
            assert_eq!(flow_ids.each_ref(), expected, "{at}");
        }
        assert_eq!(plain, 5);
    }
}
