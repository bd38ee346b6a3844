//! Streaming writer: events in ascending time, bounded memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use prost::Message as _;
use trace_model::{ArgValue, ClockDomain, LaneTimes};

use crate::proto::schema;
use crate::write::dictionary::Dictionary;
use crate::write::encode::Encoder;
use crate::write::nested::SliceEncoder;
use crate::write::spec::{EventData, WriterOptions, WriterTrack};

/// The only sequence of the file.
pub(super) const SEQUENCE: u32 = 1;
/// The clock whose timestamps are deltas.
const DELTA_CLOCK: u32 = 64;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u64 = 2;
/// Number of bytes buffered before they go to the output.
const CHUNK_BYTES: usize = 64 << 10;

/// A slice on the stack of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// `None` for a begin whose end the caller reports later.
    pub(super) end: Option<i64>,
    pub(super) order: u64,
    /// `true` if no slice has it as its parent.
    pub(super) is_leaf: bool,
}

/// A track of the file. Overlapping complete slices need several lanes per track of the caller.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) uuid: u64,
    pub(super) stack: Vec<Open>,
    /// The caller's track, and the index among its lanes.
    pub(super) track: WriterTrack,
    pub(super) place: usize,
    /// Time of the lane's last event, if that was an instant.
    pub(super) instant: Option<i64>,
}

impl Lane {
    pub(super) fn new(uuid: u64, track: WriterTrack, place: usize) -> Self {
        Self {
            uuid,
            stack: Vec::new(),
            track,
            place,
            instant: None,
        }
    }

    /// Returns the latest possible end of a slice that is pushed on top.
    fn room(&self) -> i64 {
        let top = self.stack.last();
        top.and_then(|open| open.end).unwrap_or(i64::MAX)
    }
}

#[derive(Debug)]
pub(super) struct TrackState {
    /// The declared track, then those for overlapping slices.
    pub(super) lanes: Vec<usize>,
    /// [`Lane::room`] of each lane, once there are several.
    pub(super) rooms: LaneTimes,
    pub(super) name: Option<String>,
    pub(super) parent: u64,
    /// `true` for a thread or process: tracks for overlapping slices become its children.
    pub(super) is_root: bool,
}

/// Writes Perfetto protobuf as it gets events; readable by this crate, Perfetto's trace processor
/// and its viewer.
///
/// ```
/// use perfetto_reader::write::{EventData, TraceWriter, WriterOptions};
/// use trace_model::ArgValue;
///
/// let mut file = TraceWriter::new(Vec::new(), WriterOptions::default())?;
/// let process = file.process(42, Some("server"))?;
/// let thread = file.thread(process, 42, 43, Some("scheduler"))?;
/// let args = [("batch", ArgValue::Int(8))];
/// let data = EventData { name: Some("decode"), args: &args, ..EventData::default() };
/// file.complete(thread, 1_000, 250, &data)?;
/// let bytes = file.finish()?;
///
/// let source = byte_source::Source::from_bytes("memory", bytes)?;
/// let trace = perfetto_reader::read(source, &Default::default())?;
/// let slice = trace.slices().next().unwrap();
/// assert_eq!((slice.name(), slice.dur().unwrap().get()), (Some("decode"), 250));
/// assert_eq!(slice.arg("batch"), Some(ArgValue::Int(8)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Memory: the open slices, the declared tracks, and dictionaries of at most 16 MiB, which then
/// start anew.
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    pub(super) out: W,
    pub(super) options: WriterOptions,
    pub(super) tracks: Vec<TrackState>,
    pub(super) lanes: Vec<Lane>,
    pub(super) uuids: rustc_hash::FxHashSet<u64>,
    pub(super) dictionary: Dictionary,
    /// Pending ends of complete slices: (time, later begins first, lane).
    pub(super) ends: BinaryHeap<Reverse<(i64, Reverse<u64>, usize)>>,
    pub(super) order: u64,
    pub(super) last_ts: i64,
    /// Number of bytes passed to the output.
    pub(super) bytes: u64,
    // Buffers reused for every event.
    pub(super) event: Encoder,
    pub(super) packet: Encoder,
    /// Frames not yet passed to the output.
    pub(super) frame: Encoder,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace. The output receives pieces of about 64 KiB, the rest with
    /// [`TraceWriter::finish`].
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails, as for all methods.
    pub fn new(out: W, options: WriterOptions) -> io::Result<Self> {
        let mut writer = Self {
            out,
            options,
            tracks: Vec::new(),
            lanes: Vec::new(),
            uuids: rustc_hash::FxHashSet::default(),
            dictionary: Dictionary::default(),
            ends: BinaryHeap::new(),
            order: 0,
            last_ts: 0,
            bytes: 0,
            event: Encoder::default(),
            packet: Encoder::default(),
            frame: Encoder::default(),
        };
        writer.uuids.insert(0);
        writer.begin_generation(true)?;
        Ok(writer)
    }

    /// Returns Perfetto's number of the trace's clock.
    fn clock_id(&self) -> u32 {
        match self.options.clock {
            ClockDomain::Monotonic => 3,
            ClockDomain::RealTime => 1,
            _ => 6,
        }
    }

    /// Clears the dictionaries, and defines the timestamps of the following packets.
    fn begin_generation(&mut self, first: bool) -> io::Result<()> {
        self.dictionary.clear();
        let clock_id = self.clock_id();
        let now = self.last_ts.cast_unsigned();
        let clock = |id, timestamp, incremental| schema::Clock {
            clock_id: Some(id),
            timestamp: Some(timestamp),
            is_incremental: incremental,
            unit_multiplier_ns: None,
        };
        let mut clocks = vec![
            clock(clock_id, now, None),
            clock(DELTA_CLOCK, now, Some(true)),
        ];
        if let (Some(offset), true) = (self.options.unix_offset_ns, clock_id != 1) {
            let unix = self.last_ts.saturating_add(offset).cast_unsigned();
            clocks.push(clock(1, unix, None));
        }
        let snapshot = schema::TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            clock_snapshot: Some(schema::ClockSnapshot {
                clocks,
                primary_trace_clock: i32::try_from(clock_id).ok(),
            }),
            ..schema::TracePacket::default()
        };
        let cleared = schema::TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(STATE_CLEARED),
            first_packet_on_sequence: first.then_some(true),
            trace_packet_defaults: Some(schema::TracePacketDefaults {
                timestamp_clock_id: Some(DELTA_CLOCK),
                track_event_defaults: None,
            }),
            ..schema::TracePacket::default()
        };
        self.write_packet(&cleared)?;
        self.write_packet(&snapshot)
    }

    pub(super) fn write_packet(&mut self, packet: &schema::TracePacket) -> io::Result<()> {
        self.write_frame(&packet.encode_to_vec())
    }

    /// Writes properties of the recording as Chrome metadata: `ChromeEventBundle.metadata` with
    /// name and JSON text.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub(super) fn metadata<'m>(
        &mut self,
        entries: impl Iterator<Item = (&'m str, &'m str)>,
    ) -> io::Result<()> {
        let mut bundle = Encoder::default();
        for (name, text) in entries {
            let mut entry = Encoder::default();
            entry.bytes(1, name.as_bytes());
            entry.bytes(5, text.as_bytes());
            bundle.bytes(2, entry.as_slice());
        }
        if bundle.is_empty() {
            return Ok(());
        }
        let mut packet = Encoder::default();
        packet.uint(10, u64::from(SEQUENCE));
        packet.bytes(5, bundle.as_slice());
        self.write_frame(packet.as_slice())
    }

    fn write_frame(&mut self, packet: &[u8]) -> io::Result<()> {
        self.frame.bytes(1, packet);
        self.pass_on()
    }

    /// Writes the begin of a slice that [`TraceWriter::end`] closes. Slices of one track must nest.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn begin(&mut self, track: WriterTrack, ts: i64, data: &EventData<'_>) -> io::Result<()> {
        self.write_ends_before(ts)?;
        let lane = self.tracks[track.0 as usize].lanes[0];
        self.close_until(lane, ts)?;
        self.order += 1;
        self.push(lane, None, self.order, false);
        self.write_event(1, lane, ts, Some(data))
    }

    /// Writes the end of the innermost open slice of the track; does nothing if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn end(&mut self, track: WriterTrack, ts: i64) -> io::Result<()> {
        self.write_ends_before(ts)?;
        let lane = self.tracks[track.0 as usize].lanes[0];
        self.close_until(lane, ts)?;
        match self.lanes[lane].stack.last() {
            Some(Open { end: None, .. }) => {
                self.pop(lane);
                self.write_event(2, lane, ts, None)
            }
            _ => Ok(()),
        }
    }

    /// Writes an instant.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn instant(&mut self, track: WriterTrack, ts: i64, data: &EventData<'_>) -> io::Result<()> {
        self.write_ends_before(ts)?;
        let lane = self.tracks[track.0 as usize].lanes[0];
        self.write_event(3, lane, ts, Some(data))
    }

    /// Writes a sample of a counter.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn counter(&mut self, track: WriterTrack, ts: i64, value: f64) -> io::Result<()> {
        self.write_ends_before(ts)?;
        let lane = self.tracks[track.0 as usize].lanes[0];
        self.event.clear();
        self.event.uint(9, 4);
        self.event.uint(11, self.lanes[lane].uuid);
        match exact_integer(value) {
            Some(n) => self.event.uint(30, n.cast_unsigned()),
            None => self.event.fixed64(44, value.to_bits()),
        }
        self.write_event_packet(ts)
    }

    /// Writes a slice of known duration. Its end is written once a later event is written, so these
    /// calls must come in ascending `ts`. A slice that overlaps another one of the track without
    /// nesting goes to a sibling track of the same name.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails; [`io::ErrorKind::InvalidInput`] when `ts` is before that
    /// of the previous event, or `dur` is negative.
    pub fn complete(
        &mut self,
        track: WriterTrack,
        ts: i64,
        dur: i64,
        data: &EventData<'_>,
    ) -> io::Result<()> {
        if dur < 0 || ts < self.last_ts {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "complete slices must come in ascending time and cannot have a negative duration",
            ));
        }
        if dur == 0 {
            return self.instant(track, ts, data);
        }
        self.write_ends_before(ts)?;
        let end = ts.saturating_add(dur);
        let lane = self.lane_with_room(track, ts, end)?;
        self.order += 1;
        self.push(lane, Some(end), self.order, false);
        self.write_event(1, lane, ts, Some(data))
    }

    /// Returns the first lane of the track on which a slice until `end` nests; creates one if there
    /// is none. Closes slices that have ended on the lanes before it.
    fn lane_with_room(&mut self, track: WriterTrack, ts: i64, end: i64) -> io::Result<usize> {
        let mut next = Some(0);
        while let Some(place) = next {
            let state = &self.tracks[track.0 as usize];
            let lane = state.lanes[place];
            self.close_until(lane, ts)?;
            if end <= self.lanes[lane].room() {
                return Ok(lane);
            }
            // The lanes in between have neither room nor an ended slice.
            let rooms = &self.tracks[track.0 as usize].rooms;
            next = rooms.first_outside(place + 1, ts, end);
        }
        self.new_lane(track)
    }

    /// Creates a sibling track for slices that do not nest.
    pub(super) fn new_lane(&mut self, track: WriterTrack) -> io::Result<usize> {
        let uuid = self.new_uuid(None);
        let state = &self.tracks[track.0 as usize];
        let name = match (&state.name, state.is_root) {
            (Some(name), false) => name.clone(),
            _ => "overlapping slices".to_owned(),
        };
        let descriptor = schema::TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid: (state.parent != 0).then_some(state.parent),
            name: Some(name.into_bytes()),
            ..schema::TrackDescriptor::default()
        };
        self.describe(descriptor)?;
        let state = &mut self.tracks[track.0 as usize];
        let lane = self.lanes.len();
        self.lanes.push(Lane::new(uuid, track, state.lanes.len()));
        state.lanes.push(lane);
        for &lane in state.lanes.iter().skip(state.rooms.len()) {
            state.rooms.push(self.lanes[lane].room());
        }
        Ok(lane)
    }

    /// Pushes a slice on the stack of a lane and schedules its end.
    pub(super) fn push(&mut self, lane: usize, end: Option<i64>, order: u64, is_leaf: bool) {
        self.lanes[lane].stack.push(Open {
            end,
            order,
            is_leaf,
        });
        self.note_room(lane);
        if let Some(end) = end {
            self.ends.push(Reverse((end, Reverse(order), lane)));
        }
    }

    /// Pops the top of a lane's stack.
    pub(super) fn pop(&mut self, lane: usize) {
        self.lanes[lane].stack.pop();
        self.note_room(lane);
    }

    /// Updates the room of a lane; must be called when the top of its stack changes.
    #[inline]
    fn note_room(&mut self, lane: usize) {
        let lane = &self.lanes[lane];
        let rooms = &mut self.tracks[lane.track.0 as usize].rooms;
        if !rooms.is_empty() {
            rooms.set(lane.place, lane.room());
        }
    }

    /// Writes all ends that come before `ts`.
    pub(super) fn write_ends_before(&mut self, ts: i64) -> io::Result<()> {
        while let Some(&Reverse((end, Reverse(order), lane))) = self.ends.peek()
            && end < ts
        {
            self.ends.pop();
            self.write_end(lane, order, end)?;
        }
        Ok(())
    }

    /// Writes the ends on one lane that come at or before `ts`, inner ones first.
    pub(super) fn close_until(&mut self, lane: usize, ts: i64) -> io::Result<()> {
        while let Some(&Open { end: Some(end), .. }) = self.lanes[lane].stack.last()
            && end <= ts
        {
            self.pop(lane);
            self.write_event(2, lane, end, None)?;
        }
        Ok(())
    }

    /// Writes a scheduled end, unless it was already written.
    fn write_end(&mut self, lane: usize, order: u64, end: i64) -> io::Result<()> {
        let top = self.lanes[lane].stack.last();
        if top.is_some_and(|open| open.order == order) {
            self.pop(lane);
            self.write_event(2, lane, end, None)?;
        }
        Ok(())
    }

    pub(super) fn write_event(
        &mut self,
        kind: u64,
        lane: usize,
        ts: i64,
        data: Option<&EventData<'_>>,
    ) -> io::Result<()> {
        self.begin_event(kind, lane);
        if let Some(data) = data {
            let names = (data.name, data.category);
            let flows = (data.flows, data.terminating_flows);
            self.encode_data(names, data.args.iter().copied(), flows);
        }
        self.write_event_packet(ts)
    }

    pub(super) fn begin_event(&mut self, kind: u64, lane: usize) {
        let uuid = self.lanes[lane].uuid;
        self.event.clear();
        self.event.fields(|fields| {
            fields.uint(9, kind);
            fields.uint(11, uuid);
        });
    }

    /// Adds name, category, arguments and flows to the event under construction.
    fn encode_data<'a>(
        &mut self,
        (name, category): (Option<&str>, Option<&str>),
        args: impl Iterator<Item = (&'a str, ArgValue<'a>)>,
        (flows, terminating): (&[u64], &[u64]),
    ) {
        let mut encoder = SliceEncoder {
            event: &mut self.event,
            dictionary: &mut self.dictionary,
            lifetime: std::marker::PhantomData,
        };
        encoder.names(name, category);
        encoder.flows(flows, terminating);
        encoder.args(args);
    }

    /// Wraps the event under construction in a packet and writes it.
    pub(super) fn write_event_packet(&mut self, ts: i64) -> io::Result<()> {
        self.packet.clear();
        let (time, clock) = match ts.checked_sub(self.last_ts) {
            Some(delta) if delta >= 0 => {
                self.last_ts = ts;
                (delta, None)
            }
            // Late event: the delta clock does not move.
            _ => (ts, Some(self.clock_id())),
        };
        self.packet.fields(|fields| {
            fields.uint(8, time.cast_unsigned());
            if let Some(clock) = clock {
                fields.uint(58, clock.into());
            }
            fields.uint(10, SEQUENCE.into());
            fields.uint(13, NEEDS_STATE);
        });
        // The packet is written into its frame in pieces, so that the event is copied once.
        let fresh = &self.dictionary.fresh;
        let mut length = self.packet.len() + Encoder::bytes_len(11, self.event.len());
        if !fresh.is_empty() {
            length += Encoder::bytes_len(12, fresh.len());
        }
        self.frame.header(1, length);
        self.frame.append(self.packet.as_slice());
        if !fresh.is_empty() {
            self.frame.bytes(12, fresh.as_slice());
            self.dictionary.fresh.clear();
        }
        self.frame.bytes(11, self.event.as_slice());
        self.pass_on()?;
        if self.dictionary.is_full() {
            self.begin_generation(false)?;
        }
        Ok(())
    }

    /// Passes frames to the output once enough are buffered.
    #[inline]
    fn pass_on(&mut self) -> io::Result<()> {
        if self.frame.len() < CHUNK_BYTES {
            return Ok(());
        }
        self.pass_all_on()
    }

    fn pass_all_on(&mut self) -> io::Result<()> {
        self.bytes += self.frame.len() as u64;
        self.out.write_all(self.frame.as_slice())?;
        self.frame.clear();
        Ok(())
    }

    /// Returns the number of bytes written so far.
    pub fn bytes_written(&self) -> u64 {
        self.bytes + self.frame.len() as u64
    }

    /// Writes the ends that are still scheduled and flushes; slices begun and not ended stay open.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_ends_before(i64::MAX)?;
        while let Some(Reverse((end, Reverse(order), lane))) = self.ends.pop() {
            self.write_end(lane, order, end)?;
        }
        self.pass_all_on()?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Returns the value as an integer, if that is exact.
fn exact_integer(value: f64) -> Option<i64> {
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    if value.fract() != 0.0 || value.abs() > LIMIT || (value == 0.0 && value.is_sign_negative()) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "integral and below 2^53")]
    Some(value as i64)
}
