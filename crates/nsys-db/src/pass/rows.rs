//! Reads the rows of one table of GPU activities, in batches.

use rustc_hash::{FxHashMap, FxHashSet};
use sqlite_scan::{Cursor, Pick, Value};

use crate::device::{TABLES, graph_name, memcpy_name, memset_name};
use crate::error::Result;
use crate::identity::{Identity, Recorded};
use crate::ids::ProcessKey;
use crate::links::CallStarts;
use crate::pass::WorkKind;
use crate::pass::operators::Around;
use crate::strings::{Strings, text};
use crate::tally::Tally;

/// Rows passed from one thread to another at a time.
const BATCH: usize = 4096;

pub(super) fn kind_of(table: &str) -> WorkKind {
    match TABLES.iter().position(|name| *name == table) {
        Some(0) => WorkKind::Kernel,
        Some(2) => WorkKind::Memset,
        Some(3) => WorkKind::Graph,
        _ => WorkKind::Memcpy,
    }
}

/// Columns of a row: those that all activities have, then three that give the name.
pub(super) fn columns_of(table: &str) -> [&'static str; 10] {
    let names = match TABLES.iter().position(|name| *name == table) {
        Some(0) => ["demangledName", "shortName", "mangledName"],
        Some(1) => ["copyKind", "srcKind", "dstKind"],
        Some(2) => ["memKind", "", ""],
        Some(3) => ["graphId", "graphExecId", ""],
        _ => [""; 3],
    };
    let [first, second, third] = names;
    let [a, b, c, d, e, f, g] = crate::device::COMMON;
    [a, b, c, d, e, f, g, first, second, third]
}

/// A row, with the number of its name within its table.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) device: i64,
    pub(super) stream: i64,
    pub(super) launch_ns: Option<i64>,
    pub(super) name: Option<u32>,
    /// Number of the list of operators around its call.
    pub(super) operators: Option<u32>,
}

/// Counts of the rows of one table.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) tally: Option<Tally>,
    pub(super) rows: u64,
    pub(super) dur_ns: i64,
    pub(super) unattributed: u64,
    pub(super) working: FxHashSet<ProcessKey>,
    pub(super) launched_graphs: FxHashSet<(ProcessKey, i64)>,
}

/// Rows of one table, and what came up with them.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) rows: Vec<Row>,
    /// Names that no batch before had.
    pub(super) names: Vec<String>,
    pub(super) unattributed: u64,
    pub(super) working: FxHashSet<ProcessKey>,
    pub(super) launched_graphs: FxHashSet<(ProcessKey, i64)>,
    /// With the last batch.
    pub(super) tally: Option<Tally>,
}

/// Names by what a row has of them.
#[derive(Default)]
pub(super) struct Names {
    pub(super) by_id: FxHashMap<i64, u32>,
    pub(super) by_kinds: FxHashMap<[Option<i64>; 3], u32>,
    pub(super) by_text: FxHashMap<String, u32>,
    pub(super) count: u32,
}

impl Names {
    pub(super) fn add(&mut self, text: String, new: &mut Vec<String>) -> u32 {
        if let Some(known) = self.by_text.get(&text) {
            return *known;
        }
        let number = self.count;
        self.count += 1;
        self.by_text.insert(text.clone(), number);
        new.push(text);
        number
    }
}

/// Reads the rows of one table.
pub(super) struct Rows<'p> {
    pub(super) table: &'static str,
    pub(super) kind: WorkKind,
    pub(super) cursor: Cursor<'p>,
    pub(super) pick: Pick<10>,
    pub(super) strings: Strings<'p>,
    pub(super) identity: Option<&'p Identity>,
    pub(super) starts: &'p CallStarts,
    pub(super) around: &'p Around,
    pub(super) graph_launches: &'p FxHashMap<(ProcessKey, i64), bool>,
    pub(super) wanted: Option<ProcessKey>,
    pub(super) missing: ProcessKey,
    pub(super) tally: Tally,
    pub(super) names: Names,
    /// The last place with its numbers.
    pub(super) last: Option<(Recorded, i64, i64)>,
    pub(super) is_done: bool,
}

impl Rows<'_> {
    /// Returns the next rows; `None` after the last.
    pub(super) fn batch(&mut self) -> Result<Option<Batch>> {
        if self.is_done {
            return Ok(None);
        }
        let mut batch = Batch::default();
        batch.rows.reserve(BATCH);
        let mut last_process = None;
        while batch.rows.len() < BATCH {
            let Some((row, values)) = self.cursor.next(&self.pick)? else {
                self.is_done = true;
                let empty = self.tally.fresh();
                batch.tally = Some(std::mem::replace(&mut self.tally, empty));
                break;
            };
            let [start, end, process, device, context, stream, id, names @ ..] = values;
            let process = process.as_int().map_or(self.missing, ProcessKey::of);
            if self.wanted.is_some_and(|wanted| wanted != process) {
                continue;
            }
            let Some((start, end)) = self.tally.within(self.table, row, start, end) else {
                continue;
            };
            let place = Recorded {
                process,
                device: device.as_int().unwrap_or(0),
                context: context.as_int().unwrap_or(0),
                stream: stream.as_int().unwrap_or(0),
            };
            let id = id.as_int().filter(|id| *id != 0);
            let name = name_of(
                (&mut self.names, &mut self.strings),
                (self.table, names),
                &mut batch.names,
            )?;
            self.tally.extend(start, end);
            if !process.is_known() {
                batch.unattributed += 1;
            } else if last_process != Some(process) {
                last_process = Some(process);
                batch.working.insert(process);
            }
            if let Some(id) = id
                && !self.graph_launches.is_empty()
                && self.graph_launches.contains_key(&(process, id))
            {
                batch.launched_graphs.insert((process, id));
            }
            let (device, stream) = match self.last {
                Some((last, device, stream)) if last == place => (device, stream),
                _ => {
                    let identity = self.identity;
                    let device = identity.map_or(place.device, |i| i.device(process, place.device));
                    let stream = identity.map_or(place.stream, |i| i.stream(place));
                    self.last = Some((place, device, stream));
                    (device, stream)
                }
            };
            batch.rows.push(Row {
                start,
                end,
                device,
                stream,
                launch_ns: id.and_then(|id| self.starts.of(process, id)),
                name,
                operators: match self.kind {
                    WorkKind::Kernel => id.and_then(|id| self.around.of(process, id)),
                    _ => None,
                },
            });
        }
        Ok(Some(batch))
    }
}

pub(super) fn name_of(
    (names, strings): (&mut Names, &mut Strings<'_>),
    (table, values): (&str, [Value<'_>; 3]),
    new: &mut Vec<String>,
) -> Result<Option<u32>> {
    if table == TABLES[0] {
        for value in values {
            if let Some(id) = value.as_int() {
                if let Some(known) = names.by_id.get(&id) {
                    return Ok(Some(*known));
                }
                let text = strings.get(id)?;
                let number = names.add(text.unwrap_or_else(|| format!("[string {id}]")), new);
                names.by_id.insert(id, number);
                return Ok(Some(number));
            }
            if let Some(text) = text(value) {
                return Ok(Some(names.add(text, new)));
            }
        }
        return Ok(None);
    }
    let kinds = values.map(|value| value.as_int());
    if let Some(known) = names.by_kinds.get(&kinds) {
        return Ok(Some(*known));
    }
    let [first, second, third] = kinds;
    let text = match TABLES.iter().position(|name| *name == table) {
        Some(1) => memcpy_name(first, second, third),
        Some(2) => memset_name(first),
        Some(3) => graph_name(first, second),
        _ => "Decompress".to_owned(),
    };
    let number = names.add(text, new);
    names.by_kinds.insert(kinds, number);
    Ok(Some(number))
}
