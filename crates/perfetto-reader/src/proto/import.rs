//! Processes packets in file order: state of sequences, clocks and descriptors; events continue in
//! `emit`.

use trace_model::{
    Arg, ClockDomain, Diagnostics, EventOrder, FinishOptions, FlowBinding, IssueKind, LaneId,
    Place, Trace, TraceBuilder,
};

use prost::Message as _;

use crate::proto::annotation::{ArgFilter, InlineNames, arg_name, intern_bytes};
use crate::proto::bundle::{self, Budget, BundleError, Codec};
use crate::proto::clock::{self, ClockId, Clocks, Reading, SourceTime};
use crate::proto::emit::Deferred;
use crate::proto::event::TrackEvent;
use crate::proto::keep::Keep;
use crate::proto::packet::{Packet, Payload};
use crate::proto::place::place_lanes;
use crate::proto::prefetch::{Lists, Plain, Sink};
use crate::proto::records::Records;
use crate::proto::schema;
use crate::proto::sequence::{Base, Category, Defaults, HeldTranslation, Location, Sequences};
use crate::proto::tracks::{Declared, Tracks};
use crate::proto::wire::{Cursor, Malformed, Value, low32};
use crate::{Error, ReadOptions};

/// Maximum nesting of bundles.
const MAX_LEVELS: usize = 2;

/// The time of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// The packet has no time.
    None,
    /// Trace time in ns.
    Known(i64),
    /// No snapshot relates its clock to the trace's clock so far.
    Later(Pending),
}

/// A time that waits for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// An absolute time.
    Absolute(SourceTime),
    /// The time as written, of a clock that no snapshot has contained.
    Raw(SourceTime),
}

/// Turns packets into events of a builder.
pub(super) struct Importer<'o> {
    pub(super) options: &'o ReadOptions,
    pub(super) builder: TraceBuilder,
    pub(super) clocks: Clocks,
    pub(super) sequences: Sequences,
    pub(super) tracks: Tracks,
    pub(super) keep: Keep,
    pub(super) arg_filter: ArgFilter,
    /// Offset of the current packet, or of its bundle.
    pub(super) at: u64,
    pub(super) deferred: Vec<Deferred>,
    /// For `compat`: events on tracks that share display lanes.
    pub(super) shared: Vec<crate::proto::share::Record>,
    records: Records,
    // Buffers reused for every event.
    pub(super) event: TrackEvent,
    pub(super) args: Vec<Arg>,
    pub(super) key: String,
    pub(super) key_bytes: usize,
    pub(super) inline_names: InlineNames,
    pub(super) samples: Vec<(LaneId, f64)>,
    /// For `compat`: the track without which the samples are ignored.
    pub(super) host: Option<LaneId>,
}

impl Sink for Importer<'_> {
    #[inline]
    fn plain(&mut self, at: u64, packet: &Plain, lists: Lists<'_>, bytes: &[u8]) {
        self.at = at;
        let id = packet.sequence_id.unwrap_or(0);
        let at = self.sequences.find(packet.machine_id, id);
        self.sequences[at].seen = true;
        if packet.needs_state && (id == 0 || !self.sequences[at].valid) {
            self.count(IssueKind::NeedsState);
            return;
        }
        // Also for events that cannot be used: deltas accumulate.
        let stamp = self.stamp(at, packet.timestamp, packet.clock_id);
        if self.counts_event(packet.sequence_id) {
            self.simple_event(at, (&packet.scalars, lists, bytes), stamp);
        }
    }

    fn whole(&mut self, at: u64, bytes: &[u8]) {
        self.at = at;
        self.packet_at_level(bytes, 0, None);
    }

    fn oversized(&mut self, at: u64) {
        self.at = at;
        self.note(IssueKind::BadPacket, "a packet of more than 256 MiB");
    }
}

impl<'o> Importer<'o> {
    pub(super) fn new(options: &'o ReadOptions) -> Self {
        let mut builder = TraceBuilder::new();
        builder.diagnostics = Diagnostics::with_places(options.places);
        Self {
            options,
            builder,
            clocks: Clocks::new(options.compat),
            sequences: Sequences::default(),
            tracks: Tracks::new(options.compat),
            keep: Keep::new(options),
            arg_filter: ArgFilter::new(&options.args),
            at: 0,
            deferred: Vec::new(),
            shared: Vec::new(),
            records: Records::default(),
            event: TrackEvent::default(),
            args: Vec::new(),
            key: String::new(),
            key_bytes: 0,
            inline_names: InlineNames::default(),
            samples: Vec::new(),
            host: None,
        }
    }

    pub(super) fn count(&mut self, kind: IssueKind) {
        self.builder.diagnostics.count(kind, Place::Byte(self.at));
    }

    pub(super) fn note(&mut self, kind: IssueKind, detail: &'static str) {
        self.builder
            .diagnostics
            .note(kind, Place::Byte(self.at), detail);
    }

    fn packet_at_level(&mut self, bytes: &[u8], level: usize, budget: Option<&mut Budget>) {
        let Ok(packet) = Packet::decode(bytes) else {
            self.count(IssueKind::BadPacket);
            return;
        };
        if packet.zlib.is_some() || packet.zstd.is_some() {
            self.bundle(&packet, level, budget);
        } else {
            self.plain_packet(&packet);
        }
    }

    fn bundle(&mut self, packet: &Packet<'_>, level: usize, outer: Option<&mut Budget>) {
        let (codec, compressed) = match (packet.zlib, packet.zstd) {
            (Some(bytes), _) => (Codec::Zlib, bytes),
            (None, bytes) => (Codec::Zstd, bytes.unwrap_or_default()),
        };
        self.records
            .count(if codec == Codec::Zlib { 50 } else { 133 });
        if level >= MAX_LEVELS {
            self.note(IssueKind::BadCompressedPacket, "bundles inside of bundles");
            return;
        }
        let mut own = Budget::new(compressed.len(), self.options.max_bundle_bytes);
        let budget = outer.unwrap_or(&mut own);
        let result = bundle::expand(codec, compressed, budget, |inner, budget| {
            self.packet_at_level(inner, level + 1, Some(budget));
            Ok::<(), std::convert::Infallible>(())
        });
        if let Err(BundleError::Broken(what)) = result {
            self.note(IssueKind::BadCompressedPacket, what);
        }
    }

    fn plain_packet(&mut self, packet: &Packet<'_>) {
        let id = packet.sequence_id.unwrap_or(0);
        let at = self.sequences.find(packet.machine_id, id);
        let has_sequence = packet.sequence_id.is_some();
        let sequence = &mut self.sequences[at];
        let is_new = !std::mem::replace(&mut sequence.seen, true);
        if packet.cleared || packet.dropped != 0 {
            if packet.cleared && has_sequence {
                sequence.clear();
            } else if packet.dropped != 0 && has_sequence {
                sequence.lose();
            }
            if packet.dropped != 0 && has_sequence && !is_new && !packet.first {
                self.loss(packet.dropped);
            }
        }
        if let Some(defaults) = packet.defaults {
            match decode_defaults(defaults) {
                Ok(defaults) if has_sequence => self.sequences[at].defaults = defaults,
                Ok(_) => {}
                Err(Malformed) => self.count(IssueKind::BadPacket),
            }
        }
        if let Some(interned) = packet.interned {
            if !self.sequences[at].valid {
                self.count(IssueKind::InternedWhileInvalid);
            } else if self.intern(at, interned).is_err() {
                self.count(IssueKind::BadPacket);
            }
        }
        if let Some(snapshot) = packet.clock_snapshot {
            self.records.count(6);
            self.snapshot(at, snapshot);
            return;
        }
        if packet.needs_state && (id == 0 || !self.sequences[at].valid) {
            self.count(IssueKind::NeedsState);
            return;
        }
        let stamp = self.stamp(at, packet.timestamp, packet.clock_id);
        self.payload(at, packet, stamp);
    }

    #[cold]
    fn loss(&mut self, reasons: u32) {
        const REASONS: [&str; 9] = [
            "cause not recorded",
            "gap while reading",
            "corrupt chunk",
            "continuation without start",
            "gap in reassembly",
            "broken chain",
            "overwritten",
            "writer aborted",
            "shared buffer full",
        ];
        let names: Vec<&str> = REASONS
            .iter()
            .enumerate()
            .skip(1)
            .filter(|&(bit, _)| reasons & (1 << bit) != 0)
            .map(|(_, &name)| name)
            .collect();
        let detail = match names.is_empty() {
            true => REASONS[0].to_owned(),
            false => names.join(", "),
        };
        self.builder
            .diagnostics
            .note(IssueKind::PacketLoss, Place::Byte(self.at), detail);
    }

    /// Returns the trace time of a packet. Must be called once for each packet with a timestamp,
    /// because deltas accumulate.
    #[inline]
    fn stamp(&mut self, at: usize, timestamp: Option<u64>, clock_id: u32) -> Stamp {
        let Some(timestamp) = timestamp else {
            return Stamp::None;
        };
        let timestamp = timestamp.cast_signed();
        let sequence = &self.sequences[at];
        let id = match clock_id {
            0 => sequence.defaults.clock_id,
            id => id,
        };
        if id == 0 || id == self.clocks.trace_clock() {
            self.clocks.mark_used();
            return Stamp::Known(timestamp);
        }
        if let Some(held) = sequence.held
            && held.clock_id == id
        {
            let ns = self.clocks.absolute_at(held.clock, timestamp);
            if held.version == self.clocks.version && held.translation.holds_at(ns) {
                return Stamp::Known(held.translation.apply(ns));
            }
            let clock = self.clock_of(at, id);
            return self.translate(at, SourceTime { clock, ns });
        }
        let clock = self.clock_of(at, id);
        match self.clocks.absolute(clock, timestamp) {
            Some(time) => self.translate(at, time),
            None => Stamp::Later(Pending::Raw(SourceTime {
                clock,
                ns: timestamp,
            })),
        }
    }

    fn clock_of(&self, at: usize, id: u32) -> ClockId {
        let sequence = &self.sequences[at];
        let scoped = clock::is_sequence_scoped(id);
        ClockId {
            id,
            sequence: if scoped { sequence.id } else { 0 },
            machine: sequence.machine,
        }
    }

    /// Returns the trace time of an absolute time, and caches the translation.
    fn translate(&mut self, at: usize, time: SourceTime) -> Stamp {
        let Some(translation) = self.clocks.translation(time) else {
            return Stamp::Later(Pending::Absolute(time));
        };
        self.sequences[at].held = self.clocks.find(time.clock).map(|clock| HeldTranslation {
            clock_id: time.clock.id,
            clock,
            version: self.clocks.version,
            translation,
        });
        Stamp::Known(translation.apply(time.ns))
    }

    fn payload(&mut self, at: usize, packet: &Packet<'_>, stamp: Stamp) {
        match packet.payload {
            Payload::TrackEvent(bytes) => {
                if self.counts_event(packet.sequence_id) {
                    self.track_event(at, bytes, stamp);
                }
            }
            Payload::None => {}
            other => self.rare_payload(at, packet, other),
        }
    }

    /// Counts a track event of this sequence. Returns `false` without a sequence: the event cannot
    /// be used.
    #[inline]
    fn counts_event(&mut self, sequence_id: Option<u32>) -> bool {
        self.records.count(11);
        if sequence_id.is_none() {
            self.note(IssueKind::BadTrackEvent, "a track event without a sequence");
        }
        sequence_id.is_some()
    }

    fn rare_payload(&mut self, at: usize, packet: &Packet<'_>, payload: Payload<'_>) {
        let machine = packet.machine_id;
        let decoded = match payload {
            Payload::TrackDescriptor(bytes) => {
                self.records.count(60);
                schema::TrackDescriptor::decode(bytes).map(|track| {
                    let declared = self.tracks.declare(&mut self.builder, machine, &track);
                    self.judge(declared);
                    if let (Some(thread), true) = (&track.thread, packet.sequence_id.is_some())
                        && declared != Declared::Incomplete
                    {
                        self.legacy_thread(at, thread);
                    }
                })
            }
            Payload::ProcessDescriptor(bytes) => {
                self.records.count(43);
                schema::ProcessDescriptor::decode(bytes).map(|process| {
                    let declared =
                        self.tracks
                            .declare_process(&mut self.builder, machine, &process);
                    self.judge(declared);
                })
            }
            Payload::ThreadDescriptor(bytes) => {
                self.records.count(44);
                schema::ThreadDescriptor::decode(bytes).map(|thread| {
                    if packet.sequence_id.is_none() || !self.sequences[at].valid {
                        self.count(IssueKind::NeedsState);
                        return;
                    }
                    let declared = self
                        .tracks
                        .declare_thread(&mut self.builder, machine, &thread);
                    self.judge(declared);
                    self.legacy_thread(at, &thread);
                })
            }
            Payload::ProcessTree(bytes) => {
                self.records.count(2);
                schema::ProcessTree::decode(bytes).map(|tree| {
                    self.tracks
                        .name_from_tree(&mut self.builder, machine, &tree)
                })
            }
            Payload::TraceUuid(bytes) => {
                self.records.count(89);
                schema::TraceUuid::decode(bytes).map(|uuid| {
                    let (msb, lsb) = (uuid.msb.unwrap_or(0), uuid.lsb.unwrap_or(0));
                    let text = format!("{msb:016x}{lsb:016x}");
                    self.builder
                        .meta
                        .entries
                        .push(("trace_uuid".to_owned(), text));
                })
            }
            Payload::ChromeEvents(bytes) => {
                self.records.count(5);
                match chrome_metadata(bytes) {
                    Ok(entries) if entries.is_empty() => {
                        self.count(IssueKind::PacketIgnored);
                        Ok(())
                    }
                    Ok(entries) => {
                        for (key, text) in entries {
                            crate::json::store_metadata(&mut self.builder, &key, text);
                        }
                        Ok(())
                    }
                    Err(_) => {
                        self.count(IssueKind::BadPacket);
                        Ok(())
                    }
                }
            }
            Payload::Other(field) => {
                self.records.count(field);
                if field != 36 {
                    self.count(IssueKind::PacketIgnored);
                }
                Ok(())
            }
            Payload::TrackEvent(_) | Payload::None => Ok(()),
        };
        if decoded.is_err() {
            self.count(IssueKind::BadPacket);
        }
    }

    fn judge(&mut self, declared: Declared) {
        match declared {
            Declared::New | Declared::Known => {}
            Declared::Conflict => self.count(IssueKind::TrackConflict),
            Declared::Incomplete => {
                self.note(
                    IssueKind::BadPacket,
                    "a descriptor without uuid, pid or tid",
                );
            }
        }
    }

    /// Sets the defaults for legacy events from a thread descriptor, if the state is valid.
    fn legacy_thread(&mut self, at: usize, thread: &schema::ThreadDescriptor) {
        let sequence = &mut self.sequences[at];
        if let (true, Some(pid), Some(tid)) = (sequence.valid, thread.pid, thread.tid) {
            sequence.describe((pid, tid));
            let micros = |us: Option<i64>| us.unwrap_or(0).saturating_mul(1000);
            sequence.base = Some(Base {
                ts_ns: micros(thread.reference_timestamp_us),
                thread_time_ns: micros(thread.reference_thread_time_us),
                instructions: thread.reference_thread_instruction_count.unwrap_or(0),
            });
        }
    }

    fn snapshot(&mut self, at: usize, bytes: &[u8]) {
        let Ok(snapshot) = schema::ClockSnapshot::decode(bytes) else {
            self.count(IssueKind::BadPacket);
            return;
        };
        let (machine, sequence) = (self.sequences[at].machine, self.sequences[at].id);
        let mut readings = Vec::with_capacity(snapshot.clocks.len());
        for clock in &snapshot.clocks {
            let id = clock.clock_id.unwrap_or(0);
            let scoped = clock::is_sequence_scoped(id);
            if scoped && sequence == 0 {
                self.note(IssueKind::BadClockSnapshot, "a clock of no sequence");
                return;
            }
            readings.push(Reading {
                clock: ClockId {
                    id,
                    sequence: if scoped { sequence } else { 0 },
                    machine,
                },
                timestamp: clock.timestamp.unwrap_or(0).cast_signed(),
                unit_ns: match clock.unit_multiplier_ns {
                    None | Some(0) => 1,
                    Some(unit) => i64::try_from(unit).unwrap_or(-1),
                },
                incremental: clock.is_incremental == Some(true),
            });
        }
        if let Some(primary) = snapshot.primary_trace_clock.filter(|&c| c != 0)
            && let Err(what) = self.clocks.set_trace_clock(primary.cast_unsigned())
        {
            self.note(IssueKind::BadClockSnapshot, what);
        }
        if let Err(what) = self.clocks.add_snapshot(&readings) {
            self.note(IssueKind::BadClockSnapshot, what);
        }
    }

    /// Adds dictionary entries to the current generation of a sequence.
    fn intern(&mut self, at: usize, bytes: &[u8]) -> Result<(), Malformed> {
        let mut repaired = 0;
        let interned = &mut self.sequences[at].interned;
        let events = &mut self.builder.events;
        let mut fields = Cursor::new(bytes);
        while let Some((number, value)) = fields.field()? {
            let Value::Bytes(entry) = value else { continue };
            if !matches!(number, 1..=4 | 29 | 43) {
                continue;
            }
            let (mut iid, mut text, mut function, mut line) = (0, &b""[..], None, 0);
            let mut entry = Cursor::new(entry);
            while let Some(field) = entry.field()? {
                match field {
                    (1, Value::Varint(n)) => iid = n,
                    (2, Value::Bytes(b)) => text = b,
                    (3, Value::Bytes(b)) => function = Some(b),
                    (4, Value::Varint(n)) => line = low32(n),
                    _ => {}
                }
            }
            if iid == 0 {
                continue;
            }
            let text = intern_bytes(&mut events.strings, text, &mut repaired);
            match number {
                1 => {
                    let id = events.category(text);
                    interned.categories.set(iid, Category { text, id });
                }
                2 => interned.names.set(iid, text),
                3 => {
                    let name = events.strings.get(text).to_owned();
                    let name = arg_name(&mut events.strings, &self.arg_filter, &name);
                    interned.arg_names.set(iid, name);
                }
                4 => {
                    let location = Location {
                        file: Some(text),
                        function: function
                            .map(|f| intern_bytes(&mut events.strings, f, &mut repaired)),
                        line,
                    };
                    interned.locations.set(iid, location);
                }
                43 => interned.correlations.set(iid, text),
                _ => interned.arg_texts.set(iid, text),
            }
        }
        self.repaired(repaired);
        Ok(())
    }

    pub(super) fn repaired(&mut self, count: u32) {
        for _ in 0..count {
            self.count(IssueKind::InvalidUtf8);
        }
    }

    /// Retries events that wait for snapshots, places the lanes and builds the trace.
    pub(super) fn finish(mut self) -> Result<Trace, Error> {
        self.retry_deferred();
        self.repaired(self.tracks.repaired);
        let sequences = &self.sequences;
        self.tracks.settle(&mut self.builder, |asked| {
            sequences[asked.at].thread_of(asked.generation)
        });
        place_lanes(&self.tracks, &mut self.builder);
        self.share_lanes();
        let meta = &mut self.builder.meta;
        meta.format = "perfetto";
        meta.clock = match self.clocks.trace_clock() {
            clock::BOOTTIME => ClockDomain::BootTime,
            clock::MONOTONIC => ClockDomain::Monotonic,
            clock::REALTIME => ClockDomain::RealTime,
            other => ClockDomain::Custom(other),
        };
        meta.base_time_ns = self.clocks.unix_offset().unwrap_or(0);
        meta.events = self.records.track_events();
        meta.records = self.records.list();
        let mut finish = FinishOptions::default();
        finish.order = EventOrder::File;
        finish.snap_ns = self.options.snap_ns;
        finish.keep_negative = self.options.keep_negative;
        finish.overlap = self.options.overlap;
        if self.options.compat {
            finish.binding = FlowBinding::TopOfStack;
            finish.overlap = trace_model::OverlapPolicy::Drop;
            finish.end_args_replace = true;
            finish.cut_all = true;
            finish.no_zero_thread_dur = true;
            finish.thread_time_of_threads = true;
        }
        // Free the dictionaries before the large tables are sorted.
        let builder = self.builder;
        drop((self.sequences, self.tracks, self.deferred));
        Ok(builder.finish(&finish)?)
    }
}

fn decode_defaults(bytes: &[u8]) -> Result<Defaults, Malformed> {
    let mut out = Defaults::default();
    let mut fields = Cursor::new(bytes);
    while let Some((number, value)) = fields.field()? {
        match (number, value) {
            (58, Value::Varint(n)) => out.clock_id = low32(n),
            (11, Value::Bytes(event)) => {
                let mut fields = Cursor::new(event);
                while let Some((number, value)) = fields.field()? {
                    match (number, value) {
                        (11, Value::Varint(n)) => out.track_uuid = Some(n),
                        (31, _) => value.push_varints(&mut out.extra_uuids)?,
                        (45, _) => value.push_varints(&mut out.extra_double_uuids)?,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(out)
}

/// Returns the metadata of a bundle of Chrome events that describe the recording: name, and text or
/// JSON.
fn chrome_metadata(bundle: &[u8]) -> Result<Vec<(String, &[u8])>, Malformed> {
    let mut entries = Vec::new();
    let mut fields = Cursor::new(bundle);
    while let Some((number, value)) = fields.field()? {
        let (2, Value::Bytes(entry)) = (number, value) else {
            continue;
        };
        let (mut name, mut text) = (None, None);
        let mut fields = Cursor::new(entry);
        while let Some((number, value)) = fields.field()? {
            match (number, value) {
                (1, Value::Bytes(bytes)) => name = std::str::from_utf8(bytes).ok(),
                (2 | 5, Value::Bytes(bytes)) => text = Some(bytes),
                _ => {}
            }
        }
        if let (Some(name), Some(text)) = (name, text)
            && (crate::json::is_metadata(name)
                || [
                    crate::json::LAUNCHES_WITHIN_PROCESS,
                    crate::source_issues::KEY,
                ]
                .contains(&name))
        {
            entries.push((name.to_owned(), text));
        }
    }
    Ok(entries)
}
