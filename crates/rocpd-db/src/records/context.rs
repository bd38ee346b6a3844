//! What reading records needs: dictionaries, event rows, the filter.

use crate::error::Result;
use crate::filter::Filter;
use crate::info::{Agent, Channel, Names, Process, Thread, Track};
use crate::partition::Partition;
use crate::records::frames::{self, Lists};
use crate::records::types::{Event, EventTexts};
use crate::value::{BadSlot, Fields};
use sqlite_scan::{Lookup, Pick};

/// Columns of events that hold texts.
const TEXTS: [&str; 3] = ["extdata", "call_stack", "line_info"];

/// Reads event rows by id.
#[derive(Debug)]
pub(crate) struct Events<'a> {
    partition: &'a Partition,
    lookup: Lookup<'a>,
    numbers: Pick<4>,
    texts: Pick<3>,
    /// Ids of the two categories seen last and their texts.
    names: &'a Names,
    /// Call stacks and source lines where they are in tables of their own and texts are wanted.
    stacks: Lists,
    lines: Lists,
}

impl<'a> Events<'a> {
    fn get(&mut self, id: i64) -> Result<Option<Event<'a>>> {
        let Some(row) = self.lookup.get(id, &self.numbers)? else {
            return Ok(None);
        };
        let row = Fields(&row);
        // Numbers that are none are as good as missing.
        let number = |slot| row.int(slot).ok().flatten();
        let names = self.names;
        Ok(Some(Event {
            id,
            category: number(0).and_then(|id| names.category(id)),
            stack_id: number(1),
            parent_stack_id: number(2),
            correlation_id: number(3),
        }))
    }

    pub(super) fn texts(&mut self, id: i64) -> Result<EventTexts> {
        let partition = self.partition;
        let row = self.lookup.get(id, &self.texts)?;
        let row = row.unwrap_or_default();
        let row = Fields(&row);
        for slot in 0..TEXTS.len() {
            check_packed(partition, row, slot, id);
        }
        let text = |slot| row.text(slot).filter(|_| row.no_text(slot).is_none());
        Ok(EventTexts {
            extdata: text(0),
            call_stack: text(1).or_else(|| self.stacks.get(&id).cloned()),
            line_info: text(2).or_else(|| self.lines.get(&id).cloned()),
        })
    }

    /// The message that markers carry.
    pub(super) fn message(&mut self, id: i64) -> Result<Option<Box<str>>> {
        let partition = self.partition;
        let row = self.lookup.get(id, &self.texts)?.unwrap_or_default();
        check_packed(partition, Fields(&row), 0, id);
        Ok(message_of(Fields(&row).bytes(0)))
    }
}

/// Notes a text of an event that is compressed or no text, which is not read.
fn check_packed(partition: &Partition, row: Fields<'_, '_>, slot: usize, id: i64) {
    if let Some(found) = row.no_text(slot) {
        let column = TEXTS.get(slot).copied().unwrap_or("?");
        partition.unread_value("rocpd_event", column, id, found);
    }
}

/// Message and texts, as far as they are wanted.
pub(super) type Texts = (Option<Box<str>>, Option<Box<EventTexts>>);

/// The member `message` of a JSON object, as the text that SQL shows.
pub(crate) fn message_of(extdata: &[u8]) -> Option<Box<str>> {
    // Only objects have members; to the parser a list would do as well.
    if extdata.len() < 12 || !extdata.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    #[derive(serde::Deserialize)]
    struct Marker {
        message: Option<String>,
    }
    // Nearly always a text.
    if let Ok(marker) = serde_json::from_slice::<Marker>(extdata) {
        return marker.message.map(String::into_boxed_str);
    }
    let value: serde_json::Value = serde_json::from_slice(extdata).ok()?;
    text_of(value.get("message")?)
}

/// A JSON value as the text that `JSON_EXTRACT` makes of it.
pub(super) fn text_of(value: &serde_json::Value) -> Option<Box<str>> {
    match value {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.as_str().into()),
        serde_json::Value::Bool(value) => Some(u8::from(*value).to_string().into()),
        value => Some(value.to_string().into()),
    }
}

impl Names {
    pub(crate) fn category(&self, id: i64) -> Option<&str> {
        match &self.categories {
            Some(categories) => categories.get(id).or_else(|| self.strings.get(id)),
            None => self.strings.get(id),
        }
    }
}

/// Whose a record is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) process: &'a Process,
    /// Whether the row names that process; a row that names none or an unknown one goes to the only one there is.
    pub(super) named: bool,
    pub(super) nid: Option<i64>,
    pub(super) thread: Option<&'a Thread>,
    /// Where generation 4 keeps these.
    pub(super) track: Option<&'a Track>,
}

/// What reading the records of one partition needs.
#[derive(Debug)]
pub struct Context<'a> {
    pub(crate) partition: &'a Partition,
    pub(crate) number: usize,
    pub(crate) names: &'a Names,
    pub(crate) filter: &'a Filter,
    pub(crate) events: Option<Events<'a>>,
    pub(crate) only: Option<&'a Process>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(partition: &'a Partition, filter: &'a Filter) -> Result<Self> {
        let names = partition.names()?;
        let (stacks, lines) = match filter.texts {
            true => (
                frames::call_stacks(partition)?,
                frames::line_infos(partition)?,
            ),
            false => Default::default(),
        };
        let events = match partition.table("rocpd_event") {
            Some(table) => Some(Events {
                partition,
                lookup: table.lookup(partition)?,
                numbers: table.def.pick([
                    "category_id",
                    "stack_id",
                    "parent_stack_id",
                    "correlation_id",
                ]),
                texts: table.def.pick(TEXTS),
                names,
                stacks,
                lines,
            }),
            None => None,
        };
        let only = match partition.processes() {
            [one] => Some(one),
            _ => None,
        };
        Ok(Self {
            partition,
            number: partition.processes().first().map_or(0, |p| p.partition),
            names,
            filter,
            events,
            only,
        })
    }

    /// The process of a row. With a single one there is no doubt; NULL among several is nobody's.
    pub(super) fn process(&self, id: Option<i64>) -> Option<&'a Process> {
        match self.only {
            Some(only) => Some(only),
            None => self.partition.info().processes.get(id?),
        }
    }

    /// Whether an id is that of a process, so that joins find it.
    pub(super) fn names_process(&self, id: Option<i64>) -> bool {
        match self.only {
            Some(only) => id == Some(only.id),
            None => id.is_some_and(|id| self.partition.info().processes.get(id).is_some()),
        }
    }

    /// Whose a row is that has `nid`, `pid` and `tid` in its first slots, or a track; `None` for what belongs to nobody
    /// or to a process that is not wanted.
    #[inline]
    pub(super) fn owner(
        &self,
        row: Fields<'_, '_>,
        track: usize,
    ) -> std::result::Result<Option<Owner<'a>>, BadSlot> {
        self.owner_or(row, track, None)
    }

    /// As [`Self::owner`], but of the process `first`, if that is known.
    #[inline]
    pub(super) fn owner_or(
        &self,
        row: Fields<'_, '_>,
        track: usize,
        first: Option<i64>,
    ) -> std::result::Result<Option<Owner<'a>>, BadSlot> {
        let track = self.track(row.int(track)?);
        let id = row.int(1)?.or(track.and_then(|t| t.process_id));
        let Some(process) = self.process(first).or_else(|| self.process(id)) else {
            return Ok(None);
        };
        if !self.filter.accepts_process(process) {
            return Ok(None);
        }
        Ok(Some(Owner {
            process,
            named: self.names_process(id),
            nid: row.int(0)?.or(track.and_then(|t| t.nid)),
            thread: self.thread(row.int(2)?.or(track.and_then(|t| t.thread_id))),
            track,
        }))
    }

    pub(super) fn event(&mut self, id: Option<i64>) -> Result<Option<Event<'a>>> {
        match (&mut self.events, id) {
            (Some(events), Some(id)) => events.get(id),
            _ => Ok(None),
        }
    }

    /// Message and texts of an event as far as they are wanted.
    pub(super) fn texts(&mut self, event: Option<&Event<'a>>) -> Result<Texts> {
        let (Some(event), Some(events)) = (event, &mut self.events) else {
            return Ok((None, None));
        };
        let message = match event.category {
            Some(category)
                if category.starts_with("MARKER") || category.starts_with("rocm_marker") =>
            {
                events.message(event.id)?
            }
            _ => None,
        };
        let texts = match self.filter.texts {
            true => Some(Box::new(events.texts(event.id)?)),
            false => None,
        };
        Ok((message, texts))
    }

    pub(super) fn thread(&self, id: Option<i64>) -> Option<&'a Thread> {
        self.partition.info().threads.get(id?)
    }

    pub(super) fn agent(&self, id: Option<i64>) -> Option<&'a Agent> {
        self.partition.info().agents.get(id?)
    }

    pub(super) fn queue(&self, id: Option<i64>) -> Option<&'a Channel> {
        self.partition.info().queues.get(id?)
    }

    pub(super) fn stream(&self, id: Option<i64>) -> Option<&'a Channel> {
        self.partition.info().streams.get(id?)
    }

    pub(super) fn string(&self, id: Option<i64>) -> Option<&'a str> {
        self.names.strings.get(id?)
    }

    /// Generation 4 keeps a record's place in its track.
    pub(super) fn track(&self, id: Option<i64>) -> Option<&'a Track> {
        self.names.tracks.get(id?)
    }
}

#[cfg(test)]
mod tests {
    use super::message_of;

    #[test]
    fn messages_are_the_texts_that_sql_shows() {
        let shown = [
            (r#"{"message": "a \"b\""}"#, Some("a \"b\"")),
            (r#"{"message": 7, "more": [1]}"#, Some("7")),
            (r#"{"message": true}"#, Some("1")),
            (r#"{"message": [1, "x"]}"#, Some("[1,\"x\"]")),
            (r#"{"message": null}"#, None),
            (r#"{"other": "text"}"#, None),
            (r#"["a message"]"#, None),
            (r#"{"message": "cut"#, None),
        ];
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        for (extdata, expected) in shown {
            assert_eq!(
                message_of(extdata.as_bytes()).as_deref(),
                expected,
                "{extdata}"
            );
            let sql: Option<String> = sqlite
                .query_row(
                    "SELECT CAST(CASE WHEN JSON_VALID(?1) THEN JSON_EXTRACT(?1, '$.message') END AS TEXT)",
                    [extdata],
                    |row| row.get(0),
                )
                .unwrap();
            assert_eq!(sql.as_deref(), expected, "{extdata}");
        }
    }
}
