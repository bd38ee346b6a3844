//! One plane: its tables of names, and its lines.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::wire::{Damage, Fields, Value};

/// An argument: its name and value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stat<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) value: StatValue<'a>,
}

/// Value of an argument. Bytes are compiled programs and the like, and are not kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StatValue<'a> {
    Int(i64),
    UInt(u64),
    Real(f64),
    Text(Cow<'a, str>),
    Bytes,
}

/// What all events of one kind share.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventKind<'a> {
    pub(crate) name: Cow<'a, str>,
    stats: Vec<&'a [u8]>,
}

/// A plane, as references into the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plane<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) lines: Vec<&'a [u8]>,
    kinds: FxHashMap<i64, EventKind<'a>>,
    stat_names: FxHashMap<i64, Cow<'a, str>>,
    stats: Vec<&'a [u8]>,
}

/// A line without its events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line<'a> {
    pub(crate) id: i64,
    pub(crate) name: Cow<'a, str>,
    pub(crate) start_ns: i64,
    pub(crate) events: Vec<&'a [u8]>,
}

/// An event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event<'a> {
    pub(crate) kind: i64,
    pub(crate) offset_ps: i64,
    pub(crate) duration_ps: i64,
    /// A sum over several occurrences, without a time.
    pub(crate) is_sum: bool,
    stats: Vec<&'a [u8]>,
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Returns key and message of an entry of a map.
fn entry(message: &[u8]) -> Result<(i64, &[u8]), Damage> {
    let (mut key, mut of) = (0, [].as_slice());
    for field in Fields::new(message) {
        match field? {
            (1, value) => key = value.int(),
            (2, value) => of = value.bytes(),
            _ => {}
        }
    }
    Ok((key, of))
}

impl<'a> Plane<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Result<Self, Damage> {
        let mut plane = Self::default();
        for field in Fields::new(message) {
            match field? {
                (2, value) => plane.name = text(value.bytes()),
                (3, value) => plane.lines.push(value.bytes()),
                (4, value) => {
                    let (id, message) = entry(value.bytes())?;
                    let mut kind = EventKind::default();
                    let mut shown = None;
                    for field in Fields::new(message) {
                        match field? {
                            (2, value) => kind.name = text(value.bytes()),
                            (4, value) => shown = Some(value.bytes()),
                            (5, value) => kind.stats.push(value.bytes()),
                            _ => {}
                        }
                    }
                    if let Some(shown) = shown.filter(|shown| !shown.is_empty()) {
                        kind.name = text(shown);
                    }
                    plane.kinds.insert(id, kind);
                }
                (5, value) => {
                    let (id, message) = entry(value.bytes())?;
                    for field in Fields::new(message) {
                        if let (2, value) = field? {
                            plane.stat_names.insert(id, text(value.bytes()));
                        }
                    }
                }
                (6, value) => plane.stats.push(value.bytes()),
                _ => {}
            }
        }
        Ok(plane)
    }

    pub(crate) fn kind(&self, id: i64) -> Option<&EventKind<'a>> {
        self.kinds.get(&id)
    }

    fn stat(&self, message: &'a [u8]) -> Result<Option<Stat<'a>>, Damage> {
        let (mut id, mut found) = (0, None);
        for field in Fields::new(message) {
            found = Some(match field? {
                (1, value) => {
                    id = value.int();
                    continue;
                }
                (2, Value::Fixed64(bits)) => StatValue::Real(f64::from_bits(bits)),
                (3, value) => StatValue::UInt(value.uint()),
                (4, value) => StatValue::Int(value.int()),
                (5, value) => StatValue::Text(text(value.bytes())),
                (6, _) => StatValue::Bytes,
                // The text is the name of another stat.
                (7, value) => match self.stat_names.get(&value.int()) {
                    Some(name) => StatValue::Text(name.clone()),
                    None => StatValue::UInt(value.uint()),
                },
                _ => continue,
            });
        }
        let name = self.stat_names.get(&id).cloned();
        let name = name.unwrap_or_else(|| Cow::Owned(format!("stat {id}")));
        // A value of zero is not encoded.
        Ok(Some(Stat {
            name,
            value: found.unwrap_or(StatValue::Int(0)),
        }))
    }

    fn stats_of(&self, messages: &[&'a [u8]], out: &mut Vec<Stat<'a>>) -> Result<(), Damage> {
        for message in messages {
            out.extend(self.stat(message)?);
        }
        Ok(())
    }

    /// Returns the arguments of the plane.
    pub(crate) fn own_stats(&self) -> Result<Vec<Stat<'a>>, Damage> {
        let mut out = Vec::new();
        self.stats_of(&self.stats, &mut out)?;
        Ok(out)
    }

    /// Returns the arguments of an event, then those that all of its kind share.
    pub(crate) fn event_stats(
        &self,
        event: &Event<'a>,
        out: &mut Vec<Stat<'a>>,
    ) -> Result<(), Damage> {
        out.clear();
        self.stats_of(&event.stats, out)?;
        match self.kind(event.kind) {
            Some(kind) => self.stats_of(&kind.stats, out),
            None => Ok(()),
        }
    }
}

impl<'a> Line<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Result<Self, Damage> {
        let mut line = Self::default();
        let (mut shown_id, mut shown_name) = (0, [].as_slice());
        for field in Fields::new(message) {
            match field? {
                (1, value) => line.id = value.int(),
                (2, value) => line.name = text(value.bytes()),
                (3, value) => line.start_ns = value.int(),
                (4, value) => line.events.push(value.bytes()),
                (10, value) => shown_id = value.int(),
                (11, value) => shown_name = value.bytes(),
                _ => {}
            }
        }
        if shown_id != 0 {
            line.id = shown_id;
        }
        if !shown_name.is_empty() {
            line.name = text(shown_name);
        }
        Ok(line)
    }
}

impl<'a> Event<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Result<Self, Damage> {
        let mut event = Self::default();
        for field in Fields::new(message) {
            match field? {
                (1, value) => event.kind = value.int(),
                (2, value) => event.offset_ps = value.int(),
                (3, value) => event.duration_ps = value.int(),
                (4, value) => event.stats.push(value.bytes()),
                (5, _) => event.is_sum = true,
                _ => {}
            }
        }
        Ok(event)
    }
}
