//! Decodes `TrackEvent`, the record that files consist of, into a reusable struct.

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use crate::proto::wire::{
    Cursor, Malformed, Span, Value, bytes_tag, fixed64_tag, int32, low32, varint_tag,
};

/// Types of track events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum EventType {
    /// Not set: a legacy event gives the type.
    #[default]
    Unspecified,
    /// Begin of a slice (1).
    SliceBegin,
    /// End of a slice (2).
    SliceEnd,
    /// An instant (3).
    Instant,
    /// A sample of a counter (4).
    Counter,
    /// A state that lasts until the next one on its track (5).
    State,
    /// An unknown number.
    Unknown(u32),
}

impl EventType {
    #[inline]
    pub(crate) fn of(n: u64) -> Self {
        match n {
            0 => Self::Unspecified,
            1 => Self::SliceBegin,
            2 => Self::SliceEnd,
            3 => Self::Instant,
            4 => Self::Counter,
            5 => Self::State,
            n => Self::Unknown(low32(n)),
        }
    }
}

/// Fields that most events have; they are reset together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EventScalars {
    /// `type` (9).
    pub kind: EventType,
    /// `track_uuid` (11).
    pub track_uuid: Option<u64>,
    /// `name_iid` (10); 0 is not set.
    pub name_iid: u64,
    /// `name` (23).
    pub name: Option<Span>,
    /// The first of `category_iids` (3); 0 is not set.
    pub category_iid: u64,
}

/// Fields that few events have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RareScalars {
    /// `counter_value` (30).
    pub counter_value: Option<i64>,
    /// `double_counter_value` (44).
    pub double_counter_value: Option<f64>,
    /// `timestamp_delta_us` (1).
    pub delta_us: Option<i64>,
    /// `timestamp_absolute_us` (16); 0 is not set.
    pub absolute_us: i64,
    /// `thread_time_delta_us` (2).
    pub thread_time_delta_us: Option<i64>,
    /// `thread_time_absolute_us` (17).
    pub thread_time_absolute_us: Option<i64>,
    /// `thread_instruction_count_delta` (8).
    pub instructions_delta: Option<i64>,
    /// `thread_instruction_count_absolute` (20).
    pub instructions_absolute: Option<i64>,
    /// `legacy_event` (6).
    pub legacy: Option<Span>,
    /// `correlation_id` (52).
    pub correlation_id: Option<u64>,
    /// `correlation_id_str` (53).
    pub correlation_text: Option<Span>,
    /// `correlation_id_str_iid` (54).
    pub correlation_iid: Option<u64>,
    /// `callstack` (55).
    pub callstack: Option<Span>,
    /// `source_location` (33).
    pub source_location: Option<Span>,
    /// `source_location_iid` (34).
    pub source_location_iid: Option<u64>,
    /// `task_execution` (5).
    pub task_execution: Option<Span>,
}

/// Fields of one track event. Nested texts and messages are [`Span`]s of the decoded bytes, so that
/// one value serves for a whole file.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TrackEvent {
    /// Common singular fields.
    pub scalars: EventScalars,
    /// Rare singular fields.
    pub rare: RareScalars,
    /// `category_iids` (3) after the first.
    pub more_category_iids: Vec<u64>,
    /// `categories` (22).
    pub categories: Vec<Span>,
    /// `debug_annotations` (4).
    pub annotations: Vec<Span>,
    /// `flow_ids` (47).
    pub flow_ids: Vec<u64>,
    /// `flow_ids_old` (36).
    pub flow_ids_old: Vec<u64>,
    /// `terminating_flow_ids` (48).
    pub terminating_flow_ids: Vec<u64>,
    /// `terminating_flow_ids_old` (42).
    pub terminating_flow_ids_old: Vec<u64>,
    /// `extra_counter_track_uuids` (31).
    pub extra_uuids: Vec<u64>,
    /// `extra_counter_values` (12), signed.
    pub extra_values: Vec<u64>,
    /// `extra_double_counter_track_uuids` (45).
    pub extra_double_uuids: Vec<u64>,
    /// `extra_double_counter_values` (46), bits of doubles.
    pub extra_double_values: Vec<u64>,
    /// `true` if fields other than the first scalars, annotations and the newer lists of flows may
    /// be set.
    touched: bool,
}

/// Annotations, flows through the event and flows that end there.
pub(crate) type TakenLists = (Vec<Span>, [Vec<u64>; 2]);

impl TrackEvent {
    /// Resets the fields and decodes `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed`]; the fields are then unspecified.
    #[inline]
    pub fn decode(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.annotations.clear();
        self.flow_ids.clear();
        self.terminating_flow_ids.clear();
        if self.touched {
            self.clear_rare();
        }
        const CATEGORY_IID: u64 = varint_tag(3);
        const ANNOTATION: u64 = bytes_tag(4);
        const TYPE: u64 = varint_tag(9);
        const NAME_IID: u64 = varint_tag(10);
        const TRACK_UUID: u64 = varint_tag(11);
        const NAME: u64 = bytes_tag(23);
        const FLOW_ID: u64 = fixed64_tag(47);
        const LAST_FLOW_ID: u64 = fixed64_tag(48);
        let mut one = EventScalars::default();
        let mut fields = Cursor::new(bytes);
        while fields.remaining() > 0 {
            match fields.varint()? {
                TYPE => one.kind = EventType::of(fields.varint()?),
                TRACK_UUID => one.track_uuid = Some(fields.varint()?),
                NAME_IID => one.name_iid = fields.varint()?,
                CATEGORY_IID if one.category_iid == 0 && !self.touched => {
                    one.category_iid = fields.varint()?;
                }
                ANNOTATION => self.annotations.push(Span::of(fields.bytes()?, bytes)),
                FLOW_ID => self.flow_ids.push(fields.fixed64()?),
                LAST_FLOW_ID => self.terminating_flow_ids.push(fields.fixed64()?),
                NAME => one.name = Some(Span::of(fields.bytes()?, bytes)),
                tag => {
                    // A copy, so that the cursor itself stays in registers.
                    let mut rare = fields;
                    let (number, value) = rare.value(tag)?;
                    fields = rare;
                    self.rare_field(number, value, bytes)?;
                }
            }
        }
        if one.category_iid == 0 && !self.more_category_iids.is_empty() {
            one.category_iid = self.more_category_iids.remove(0);
        }
        self.scalars = one;
        Ok(())
    }

    /// Moves out the annotations and the two flow lists of a simple event, so that the event can be
    /// borrowed elsewhere; [`Self::give_lists`] puts them back.
    pub(crate) fn take_lists(&mut self) -> TakenLists {
        let flow_ids = std::mem::take(&mut self.flow_ids);
        let terminating = std::mem::take(&mut self.terminating_flow_ids);
        (
            std::mem::take(&mut self.annotations),
            [flow_ids, terminating],
        )
    }

    /// Returns the lists, so that their memory is reused.
    pub(crate) fn give_lists(&mut self, (annotations, flows): TakenLists) {
        self.annotations = annotations;
        [self.flow_ids, self.terminating_flow_ids] = flows;
    }

    fn clear_rare(&mut self) {
        self.touched = false;
        self.rare = RareScalars::default();
        for list in [
            &mut self.more_category_iids,
            &mut self.flow_ids_old,
            &mut self.terminating_flow_ids_old,
            &mut self.extra_uuids,
            &mut self.extra_values,
            &mut self.extra_double_uuids,
            &mut self.extra_double_values,
        ] {
            list.clear();
        }
        self.categories.clear();
    }

    fn rare_field(&mut self, number: u32, value: Value<'_>, bytes: &[u8]) -> Result<(), Malformed> {
        self.touched = true;
        let one = &mut self.rare;
        match (number, value) {
            (30, Value::Varint(n)) => one.counter_value = Some(n.cast_signed()),
            (44, Value::Fixed64(n)) => one.double_counter_value = Some(f64::from_bits(n)),
            (1, Value::Varint(n)) => one.delta_us = Some(n.cast_signed()),
            (16, Value::Varint(n)) => one.absolute_us = n.cast_signed(),
            (2, Value::Varint(n)) => one.thread_time_delta_us = Some(n.cast_signed()),
            (17, Value::Varint(n)) => one.thread_time_absolute_us = Some(n.cast_signed()),
            (8, Value::Varint(n)) => one.instructions_delta = Some(n.cast_signed()),
            (20, Value::Varint(n)) => one.instructions_absolute = Some(n.cast_signed()),
            (6, Value::Bytes(b)) => one.legacy = Some(Span::of(b, bytes)),
            (52, Value::Varint(n)) => one.correlation_id = Some(n),
            (53, Value::Bytes(b)) => one.correlation_text = Some(Span::of(b, bytes)),
            (54, Value::Varint(n)) => one.correlation_iid = Some(n),
            (55, Value::Bytes(b)) => one.callstack = Some(Span::of(b, bytes)),
            (33, Value::Bytes(b)) => one.source_location = Some(Span::of(b, bytes)),
            (34, Value::Varint(n)) => one.source_location_iid = Some(n),
            (5, Value::Bytes(b)) => one.task_execution = Some(Span::of(b, bytes)),
            _ => return self.lists(number, value, bytes),
        }
        Ok(())
    }

    fn lists(&mut self, number: u32, value: Value<'_>, bytes: &[u8]) -> Result<(), Malformed> {
        match (number, value) {
            (3, _) => value.push_varints(&mut self.more_category_iids)?,
            (22, Value::Bytes(b)) => self.categories.push(Span::of(b, bytes)),
            (47, _) => value.push_fixed64s(&mut self.flow_ids)?,
            (36, _) => value.push_varints(&mut self.flow_ids_old)?,
            (48, _) => value.push_fixed64s(&mut self.terminating_flow_ids)?,
            (42, _) => value.push_varints(&mut self.terminating_flow_ids_old)?,
            (31, _) => value.push_varints(&mut self.extra_uuids)?,
            (12, _) => value.push_varints(&mut self.extra_values)?,
            (45, _) => value.push_varints(&mut self.extra_double_uuids)?,
            (46, _) => value.push_fixed64s(&mut self.extra_double_values)?,
            _ => {}
        }
        Ok(())
    }

    /// Returns the ids of flows through this event: the newer field, else the older.
    pub fn flows(&self) -> &[u64] {
        newer_or_older(&self.flow_ids, &self.flow_ids_old)
    }

    /// Returns the ids of flows that end at this event: the newer field, else the older.
    pub fn terminating_flows(&self) -> &[u64] {
        newer_or_older(&self.terminating_flow_ids, &self.terminating_flow_ids_old)
    }

    /// Returns `true` if the event has only type, track, name, one category, annotations,
    /// `flow_ids` and `terminating_flow_ids`.
    #[inline]
    pub fn is_simple(&self) -> bool {
        !self.touched
    }

    /// Returns `true` if the event has values of extra counters.
    pub fn has_extra_counters(&self) -> bool {
        self.touched && !(self.extra_values.is_empty() && self.extra_double_values.is_empty())
    }
}

fn newer_or_older<'a>(newer: &'a [u64], older: &'a [u64]) -> &'a [u64] {
    if newer.is_empty() { older } else { newer }
}

/// `TrackEvent.LegacyEvent`: fields converted from Chrome's older format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LegacyEvent {
    /// `name_iid` (1); 0 is not set.
    pub name_iid: u64,
    /// `phase` (2), an ASCII letter; 0 is not set.
    pub phase: u8,
    /// `duration_us` (3).
    pub duration_us: i64,
    /// `thread_duration_us` (4).
    pub thread_duration_us: i64,
    /// `unscoped_id` (6).
    pub unscoped_id: Option<u64>,
    /// `local_id` (10).
    pub local_id: Option<u64>,
    /// `global_id` (11).
    pub global_id: Option<u64>,
    /// `id_scope` (7).
    pub id_scope: Option<Span>,
    /// `bind_id` (8).
    pub bind_id: Option<u64>,
    /// `bind_to_enclosing` (12).
    pub bind_to_enclosing: bool,
    /// `flow_direction` (13): 1 in, 2 out, 3 both.
    pub flow_direction: u32,
    /// `instant_event_scope` (14): 1 global, 2 process, 3 or 0 thread.
    pub instant_scope: u32,
    /// `pid_override` (18).
    pub pid_override: Option<i32>,
    /// `tid_override` (19).
    pub tid_override: Option<i32>,
}

impl LegacyEvent {
    /// Value for events that were never in the older format.
    pub(crate) const NONE: Self = Self {
        name_iid: 0,
        phase: 0,
        duration_us: 0,
        thread_duration_us: 0,
        unscoped_id: None,
        local_id: None,
        global_id: None,
        id_scope: None,
        bind_id: None,
        bind_to_enclosing: false,
        flow_direction: 0,
        instant_scope: 0,
        pid_override: None,
        tid_override: None,
    };

    /// Decodes `bytes`.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when the fields do not fill the bytes exactly.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut out = Self::default();
        let mut fields = Cursor::new(bytes);
        while let Some((number, value)) = fields.field()? {
            match (number, value) {
                (1, Value::Varint(n)) => out.name_iid = n,
                (2, Value::Varint(n)) => out.phase = u8::try_from(n).unwrap_or(0),
                (3, Value::Varint(n)) => out.duration_us = n.cast_signed(),
                (4, Value::Varint(n)) => out.thread_duration_us = n.cast_signed(),
                (6, Value::Varint(n)) => out.unscoped_id = Some(n),
                (7, Value::Bytes(b)) => out.id_scope = Some(Span::of(b, bytes)),
                (8, Value::Varint(n)) => out.bind_id = Some(n),
                (10, Value::Varint(n)) => out.local_id = Some(n),
                (11, Value::Varint(n)) => out.global_id = Some(n),
                (12, Value::Varint(n)) => out.bind_to_enclosing = n != 0,
                (13, Value::Varint(n)) => out.flow_direction = low32(n),
                (14, Value::Varint(n)) => out.instant_scope = low32(n),
                (18, Value::Varint(n)) => out.pid_override = Some(int32(n)),
                (19, Value::Varint(n)) => out.tid_override = Some(int32(n)),
                _ => {}
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_event_before_is_left() {
        let mut event = TrackEvent::default();
        // Two flows (one packed), a second category, a name, an annotation and an extra value.
        let mut bytes = vec![
            0x18, 5, 0x18, 6, 0x48, 1, 0xba, 0x01, 1, b'n', 0x22, 2, 0x08, 9,
        ];
        bytes.extend([0xf9, 0x02, 1, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([0xfa, 0x02, 8, 2, 0, 0, 0, 0, 0, 0, 0, 0x60, 3]);
        event.decode(&bytes).unwrap();
        assert_eq!(event.scalars.kind, EventType::SliceBegin);
        assert_eq!(
            (event.scalars.category_iid, &event.more_category_iids[..]),
            (5, &[6][..])
        );
        assert_eq!(event.flows(), [1, 2]);
        assert_eq!(event.annotations[0].bytes(&bytes), [0x08, 9]);
        assert_eq!(event.scalars.name.unwrap().bytes(&bytes), b"n");
        assert!(event.has_extra_counters());
        event.decode(&[0x48, 2]).unwrap();
        let fresh = TrackEvent {
            scalars: EventScalars {
                kind: EventType::SliceEnd,
                ..EventScalars::default()
            },
            ..TrackEvent::default()
        };
        assert_eq!(event, fresh);
    }
}
