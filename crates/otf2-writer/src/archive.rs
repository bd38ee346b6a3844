//! Writes the files of an archive.

use std::path::{Path, PathBuf};

use crate::chunks::Chunks;
use crate::encode::{
    ATTRIBUTE, ATTRIBUTES, CHUNK, CLOCK_PROPERTIES, Content, END, ENTER, LEAVE, LOCATION,
    LOCATION_GROUP, REGION, STRING, SYSTEM_TREE_NODE, TIMESTAMP, TYPE_STRING,
};
use crate::{Error, GroupKind, Location, LocationKind, Result, Role};

/// Size of a chunk of events in bytes: the minimum of the format.
const EVENT_CHUNK: usize = 256 << 10;
/// Size of a chunk of definitions in bytes.
const DEFINITION_CHUNK: usize = 4 << 20;
/// Maximum length of a text in bytes: a record must fit into a chunk.
const LONGEST_TEXT: usize = 1 << 20;
/// Start of an anchor file after the mark of its chunk: the format's name, its version, and the
/// release of the library (3.0.2) whose files are reproduced.
const FORMAT: &[u8] = b"OTF2\0\x03\x02\x03\x00\x02";
/// Marks uncompressed files.
const PLAIN: [u8; 2] = [1, 1];

/// An archive being written.
#[derive(Debug)]
pub struct Archive {
    folder: PathBuf,
    name: String,
    creator: String,
    locations: Vec<Events>,
    definitions: Chunks,
    /// Number of definitions by kind, in the order of [`Kind`].
    defined: [u32; 5],
    definition_count: u64,
    /// A hash of the contents.
    identity: u64,
}

/// Numbered kinds of definitions.
#[derive(Debug, Clone, Copy)]
enum Kind {
    String,
    Attribute,
    Node,
    Group,
    Region,
}

/// The events of a location.
#[derive(Debug)]
struct Events {
    chunks: Chunks,
    /// Time of the last event; `None` at the start of a chunk, which must begin with a time.
    stamped: Option<u64>,
    last: u64,
}

impl Events {
    fn push(&mut self, time: u64, event: &[u8]) -> Result<()> {
        if time < self.last {
            return Err(Error::Order {
                time,
                before: self.last,
            });
        }
        if !self.chunks.has_room(event.len() + 9) {
            self.chunks.next()?;
            self.stamped = None;
        }
        if self.stamped != Some(time) {
            let mut stamp = [TIMESTAMP; 9];
            stamp[1..].copy_from_slice(&time.to_le_bytes());
            self.chunks.push(&stamp, 0)?;
            self.stamped = Some(time);
        }
        self.last = time;
        self.chunks.push(event, 1)
    }
}

impl Archive {
    /// Creates an archive: `<folder>/<name>.otf2` and its other files. Existing files are replaced.
    ///
    /// `creator` names the program that made it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the folder of the events cannot be created.
    pub fn create(folder: &Path, name: &str, creator: &str) -> Result<Self> {
        let events = folder.join(name);
        std::fs::create_dir_all(&events).map_err(|source| Error::Io {
            path: events,
            step: "make a folder",
            source,
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            creator: creator.to_owned(),
            locations: Vec::new(),
            definitions: Chunks::new(folder.join(format!("{name}.def")), DEFINITION_CHUNK),
            defined: [0; 5],
            definition_count: 0,
            // The offset basis of FNV-1a.
            identity: 0xcbf2_9ce4_8422_2325,
        })
    }

    fn event_path(&self, number: u64, extension: &str) -> PathBuf {
        let file = format!("{number}.{extension}");
        self.folder.join(&self.name).join(file)
    }

    /// Adds a location. Locations are numbered from 0.
    pub fn add_location(&mut self) -> Location {
        let number = self.locations.len() as u64;
        self.locations.push(Events {
            chunks: Chunks::new(self.event_path(number, "evt"), EVENT_CHUNK),
            stamped: None,
            last: 0,
        });
        Location(number)
    }

    fn events(&mut self, location: Location) -> Result<&mut Events> {
        let unknown = Error::UnknownLocation { number: location.0 };
        let at = usize::try_from(location.0).unwrap_or(usize::MAX);
        self.locations.get_mut(at).ok_or(unknown)
    }

    /// Enters a region at a time in ticks; `attribute` is the number of an attribute and that of
    /// its string value.
    ///
    /// # Errors
    ///
    /// [`Error::Order`] when the time is before that of the location's last event; [`Error::Io`].
    pub fn enter(
        &mut self,
        location: Location,
        time: u64,
        region: u32,
        attribute: Option<(u32, u32)>,
    ) -> Result<()> {
        let mut event = match attribute {
            Some((attribute, string)) => Content::default()
                .reference(1)
                .reference(attribute)
                .byte(TYPE_STRING)
                .reference(string)
                .record(ATTRIBUTES),
            None => Vec::new(),
        };
        event.push(ENTER);
        event.extend_from_slice(&Content::default().reference(region).0);
        self.events(location)?.push(time, &event)
    }

    /// Leaves a region at a time in ticks.
    ///
    /// # Errors
    ///
    /// Same as [`Archive::enter`].
    pub fn leave(&mut self, location: Location, time: u64, region: u32) -> Result<()> {
        let event = Content::default().reference(region).0;
        let event = [&[LEAVE], event.as_slice()].concat();
        self.events(location)?.push(time, &event)
    }

    fn define(&mut self, record: &[u8]) -> Result<()> {
        for byte in record {
            self.identity = (self.identity ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.definition_count += 1;
        self.definitions.push(record, 0)
    }

    /// Returns the number of the next definition of a kind.
    fn number(&mut self, kind: Kind) -> u32 {
        let next = &mut self.defined[kind as usize];
        let number = *next;
        *next = next.saturating_add(1);
        number
    }

    /// Defines the clock: its resolution, the start and the length of the trace in ticks.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], as for all definitions.
    pub fn clock(&mut self, ticks_per_second: u64, offset: u64, length: u64) -> Result<()> {
        let content = Content::default()
            .integer(ticks_per_second)
            .integer(offset)
            .integer(length)
            .integer(u64::MAX);
        self.define(&content.record(CLOCK_PROPERTIES))
    }

    /// Defines a string and returns its number; strings are numbered from 0. Texts are truncated at
    /// 1 MiB.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn string(&mut self, text: &str) -> Result<u32> {
        let own = self.number(Kind::String);
        let mut end = text.len().min(LONGEST_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = text.get(..end).unwrap_or_default();
        let content = Content::default().reference(own).text(text);
        self.define(&content.record(STRING))?;
        Ok(own)
    }

    /// Defines an attribute whose values are strings and returns its number, from 0; name and description are strings.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn string_attribute(&mut self, name: u32, description: u32) -> Result<u32> {
        let own = self.number(Kind::Attribute);
        let content = Content::default().reference(own).reference(name);
        let content = content.byte(TYPE_STRING).reference(description);
        self.define(&content.record(ATTRIBUTE))?;
        Ok(own)
    }

    /// Defines a machine and returns its number, from 0; name and class (`node`) are strings.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn node(&mut self, name: u32, class: u32) -> Result<u32> {
        let own = self.number(Kind::Node);
        let content = Content::default().reference(own).reference(name);
        let content = content.reference(class).reference(None);
        self.define(&content.record(SYSTEM_TREE_NODE))?;
        Ok(own)
    }

    /// Defines a group of locations on a machine and returns its number, from 0.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn group(&mut self, name: u32, kind: GroupKind, node: u32) -> Result<u32> {
        let own = self.number(Kind::Group);
        let content = Content::default().reference(own).reference(name);
        let content = content.byte(kind as u8).reference(node).reference(None);
        self.define(&content.record(LOCATION_GROUP))?;
        Ok(own)
    }

    /// Defines a location; its events must have been written before.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownLocation`]; [`Error::Io`].
    pub fn location(
        &mut self,
        location: Location,
        name: u32,
        kind: LocationKind,
        group: u32,
    ) -> Result<()> {
        let events = self.events(location)?.chunks.events();
        let content = Content::default().integer(location.0).reference(name);
        let content = content.byte(kind as u8).integer(events).reference(group);
        self.define(&content.record(LOCATION))
    }

    /// Defines a region and returns its number, from 0; the name is a string.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn region(&mut self, name: u32, role: Role) -> Result<u32> {
        let own = self.number(Kind::Region);
        // The region kind that roles replaced; only functions still have one.
        let kind = u8::from(role == Role::Function);
        let content = Content::default()
            .reference(own)
            .reference(name)
            .reference(name)
            .byte(kind)
            // Source file, first line, last line.
            .reference(None)
            .reference(0)
            .reference(0)
            // The canonical name.
            .reference(name)
            .byte(role as u8)
            // Paradigm and flags.
            .byte(0)
            .reference(0);
        self.define(&content.record(REGION))?;
        Ok(own)
    }

    /// Writes the buffered data, the empty local definitions, and the anchor file.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<()> {
        let count = self.locations.len() as u64;
        for (number, events) in (0..count).zip(std::mem::take(&mut self.locations)) {
            events.chunks.finish()?;
            let path = self.event_path(number, "def");
            Chunks::new(path, DEFINITION_CHUNK).finish()?;
        }
        let mut anchor = [&CHUNK, FORMAT].concat();
        anchor.extend_from_slice(&(EVENT_CHUNK as u64).to_le_bytes());
        anchor.extend_from_slice(&(DEFINITION_CHUNK as u64).to_le_bytes());
        anchor.extend_from_slice(&PLAIN);
        anchor.extend_from_slice(&count.to_le_bytes());
        anchor.extend_from_slice(&self.definition_count.to_le_bytes());
        // Machine, creator and description.
        let texts = Content::default().text("").text(&self.creator).text("");
        anchor.extend_from_slice(&texts.0);
        // No properties.
        anchor.extend_from_slice(&0_u32.to_le_bytes());
        anchor.extend_from_slice(&self.identity.to_le_bytes());
        // No snapshots and no thumbnails.
        anchor.extend_from_slice(&0_u64.to_le_bytes());
        anchor.extend_from_slice(&END);
        anchor.push(0);
        self.definitions.finish()?;
        let path = self.folder.join(format!("{}.otf2", self.name));
        std::fs::write(&path, anchor).map_err(|source| Error::Io {
            path,
            step: "write",
            source,
        })
    }
}
