//! Decodes `TracePacket`, the envelope of every record.

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use crate::proto::wire::{Cursor, Malformed, Value, bytes_tag, low32, varint_tag};

/// Contents of a packet besides its envelope. A packet has one payload; the last of several counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Payload<'a> {
    /// Nothing.
    #[default]
    None,
    /// A `TrackEvent` (11).
    TrackEvent(&'a [u8]),
    /// A `TrackDescriptor` (60).
    TrackDescriptor(&'a [u8]),
    /// A `ProcessDescriptor` (43), the older form.
    ProcessDescriptor(&'a [u8]),
    /// A `ThreadDescriptor` (44), the older form.
    ThreadDescriptor(&'a [u8]),
    /// A `ProcessTree` (2).
    ProcessTree(&'a [u8]),
    /// A `TraceUuid` (89).
    TraceUuid(&'a [u8]),
    /// A `ChromeEventBundle` (5).
    ChromeEvents(&'a [u8]),
    /// A message of another kind; only its field number is recorded.
    Other(u32),
}

/// A decoded packet, without copies; `SequenceFlags` and the older forms are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packet<'a> {
    /// `timestamp` (8), in the clock's own unit.
    pub timestamp: Option<u64>,
    /// `timestamp_clock_id` (58); 0 is not set.
    pub clock_id: u32,
    /// `trusted_packet_sequence_id` (10).
    pub sequence_id: Option<u32>,
    /// `machine_id` (98); 0 is the host.
    pub machine_id: u32,
    /// The incremental state starts anew: bit 1 of `sequence_flags` (13), or field 41.
    pub cleared: bool,
    /// Bit 2 of `sequence_flags`: useless without valid incremental state.
    pub needs_state: bool,
    /// `previous_packet_dropped` (42): 0, or a bit mask of the reasons for lost packets.
    pub dropped: u32,
    /// `first_packet_on_sequence` (87).
    pub first: bool,
    /// `interned_data` (12).
    pub interned: Option<&'a [u8]>,
    /// `trace_packet_defaults` (59).
    pub defaults: Option<&'a [u8]>,
    /// `clock_snapshot` (6).
    pub clock_snapshot: Option<&'a [u8]>,
    /// `compressed_packets` (50).
    pub zlib: Option<&'a [u8]>,
    /// `zstd_compressed_packets` (133).
    pub zstd: Option<&'a [u8]>,
    /// Everything else.
    pub payload: Payload<'a>,
}

impl<'a> Packet<'a> {
    /// Decodes a packet.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when the fields do not fill the bytes exactly.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        const TIMESTAMP: u64 = varint_tag(8);
        const SEQUENCE_ID: u64 = varint_tag(10);
        const TRACK_EVENT: u64 = bytes_tag(11);
        const SEQUENCE_FLAGS: u64 = varint_tag(13);
        const INTERNED_DATA: u64 = bytes_tag(12);
        const CLOCK_ID: u64 = varint_tag(58);
        let mut packet = Self::default();
        let mut fields = Cursor::new(bytes);
        while fields.remaining() > 0 {
            match fields.varint()? {
                TIMESTAMP => packet.timestamp = Some(fields.varint()?),
                SEQUENCE_ID => packet.sequence_id = Some(low32(fields.varint()?)),
                TRACK_EVENT => packet.payload = Payload::TrackEvent(fields.bytes()?),
                SEQUENCE_FLAGS => {
                    let flags = fields.varint()?;
                    packet.cleared |= flags & 1 != 0;
                    packet.needs_state = flags & 2 != 0;
                }
                INTERNED_DATA => packet.interned = Some(fields.bytes()?),
                CLOCK_ID => packet.clock_id = low32(fields.varint()?),
                tag => {
                    // A copy, so that the cursor itself stays in registers.
                    let mut rare = fields;
                    let (number, value) = rare.value(tag)?;
                    fields = rare;
                    packet.rare(number, value);
                }
            }
        }
        Ok(packet)
    }

    fn rare(&mut self, number: u32, value: Value<'a>) {
        match (number, value) {
            (41, Value::Varint(n)) => self.cleared |= n != 0,
            (42, Value::Varint(n)) => self.dropped = low32(n),
            (87, Value::Varint(n)) => self.first = n != 0,
            (98, Value::Varint(n)) => self.machine_id = low32(n),
            (59, Value::Bytes(b)) => self.defaults = Some(b),
            (6, Value::Bytes(b)) => self.clock_snapshot = Some(b),
            (50, Value::Bytes(b)) => self.zlib = Some(b),
            (133, Value::Bytes(b)) => self.zstd = Some(b),
            (60, Value::Bytes(b)) => self.payload = Payload::TrackDescriptor(b),
            (43, Value::Bytes(b)) => self.payload = Payload::ProcessDescriptor(b),
            (44, Value::Bytes(b)) => self.payload = Payload::ThreadDescriptor(b),
            (2, Value::Bytes(b)) => self.payload = Payload::ProcessTree(b),
            (89, Value::Bytes(b)) => self.payload = Payload::TraceUuid(b),
            (5, Value::Bytes(b)) => self.payload = Payload::ChromeEvents(b),
            // trusted_uid, trusted_pid and the service's notes on the buffer.
            (_, Value::Bytes(_)) => self.payload = Payload::Other(number),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_and_newer_flags_mean_the_same() {
        let old = Packet::decode(&[0xc8, 0x02, 0x01, 0x50, 0x07]).unwrap();
        let new = Packet::decode(&[0x68, 0x01, 0x50, 0x07]).unwrap();
        assert!(old.cleared && new.cleared && !new.needs_state);
        assert_eq!(old, new);
        assert_eq!(old.sequence_id, Some(7));
    }

    #[test]
    fn trailing_rubbish_is_an_error() {
        assert_eq!(Packet::decode(&[0x50, 0x07, 0xff]), Err(Malformed));
    }
}
