//! Keys that name no row: what joins lose without a word.

use crate::error::Result;
use crate::partition::{Partition, TABLES, Table};
use crate::set::RocpdSet;
use crate::value::Fields;
use sqlite_scan::Value;

/// Rows of a table whose key names no row of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Orphans {
    /// The file.
    pub file: String,
    /// Guid of the tables.
    pub guid: String,
    /// The table, without suffix.
    pub table: &'static str,
    /// The column that holds the key.
    pub column: &'static str,
    /// The table, without suffix, that should have the row.
    pub target: &'static str,
    /// How many rows; those with NULL too where the format wants a value.
    pub rows: u64,
    /// Row id of the first of them.
    pub first_rowid: i64,
}

impl std::fmt::Display for Orphans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: {} rows of {} name no row of {} in column {} (first in row {})",
            self.file, self.rows, self.table, self.target, self.column, self.first_rowid
        )
    }
}

/// A column that names rows of another table.
struct Key {
    column: &'static str,
    target: &'static str,
    /// The format allows NULL.
    optional: bool,
}

const fn must(column: &'static str, target: &'static str) -> Key {
    Key {
        column,
        target,
        optional: false,
    }
}

const fn may(column: &'static str, target: &'static str) -> Key {
    Key {
        column,
        target,
        optional: true,
    }
}

const AGENT: &str = "rocpd_info_agent";
const CATEGORY: &str = "rocpd_info_category";
const CODE: &str = "rocpd_info_code_object";
const EVENT: &str = "rocpd_event";
const NODE: &str = "rocpd_info_node";
const PC: &str = "rocpd_info_pc";
const PMC: &str = "rocpd_info_pmc";
const PROCESS: &str = "rocpd_info_process";
const QUEUE: &str = "rocpd_info_queue";
const RANGE: &str = "rocpd_info_address_range";
const SAMPLE: &str = "rocpd_sample";
const SOURCE: &str = "rocpd_info_source_code";
const STREAM: &str = "rocpd_info_stream";
const STRING: &str = "rocpd_string";
const SYMBOL: &str = "rocpd_info_kernel_symbol";
const THREAD: &str = "rocpd_info_thread";
const TRACK: &str = "rocpd_track";

const OF_NODE: Key = must("nid", NODE);
const OF_PROCESS: Key = must("pid", PROCESS);

/// The keys of generation 3, and the tracks, call stacks and source lines of generation 4. What a file does not have, be it table or column, is not looked at.
const KEYS: [(&str, &[Key]); 23] = [
    (PROCESS, &[OF_NODE]),
    (THREAD, &[OF_NODE, OF_PROCESS]),
    (AGENT, &[OF_NODE, OF_PROCESS]),
    (QUEUE, &[OF_NODE, OF_PROCESS]),
    (STREAM, &[OF_NODE, OF_PROCESS]),
    (PMC, &[OF_NODE, OF_PROCESS, may("agent_id", AGENT)]),
    (CODE, &[OF_NODE, OF_PROCESS, may("agent_id", AGENT)]),
    (SYMBOL, &[OF_NODE, OF_PROCESS, must("code_object_id", CODE)]),
    (
        TRACK,
        &[
            OF_NODE,
            may("pid", PROCESS),
            may("tid", THREAD),
            may("name_id", STRING),
            may("agent_id", AGENT),
            may("queue_id", QUEUE),
            may("stream_id", STREAM),
        ],
    ),
    (EVENT, &[may("category_id", STRING)]),
    ("rocpd_arg", &[must("event_id", EVENT)]),
    (
        "rocpd_pmc_event",
        &[
            may("event_id", EVENT),
            must("pmc_id", PMC),
            may("sample_id", SAMPLE),
        ],
    ),
    (
        "rocpd_region",
        &[
            OF_NODE,
            OF_PROCESS,
            must("tid", THREAD),
            must("name_id", STRING),
            may("event_id", EVENT),
            may("track_id", TRACK),
        ],
    ),
    (SAMPLE, &[must("track_id", TRACK), may("event_id", EVENT)]),
    (
        "rocpd_kernel_dispatch",
        &[
            OF_NODE,
            OF_PROCESS,
            may("tid", THREAD),
            must("agent_id", AGENT),
            must("kernel_id", SYMBOL),
            must("queue_id", QUEUE),
            must("stream_id", STREAM),
            may("region_name_id", STRING),
            may("event_id", EVENT),
            may("track_id", TRACK),
        ],
    ),
    (
        "rocpd_memory_copy",
        &[
            OF_NODE,
            OF_PROCESS,
            may("tid", THREAD),
            must("name_id", STRING),
            may("dst_agent_id", AGENT),
            may("src_agent_id", AGENT),
            may("queue_id", QUEUE),
            may("stream_id", STREAM),
            may("region_name_id", STRING),
            may("event_id", EVENT),
            may("track_id", TRACK),
        ],
    ),
    (
        "rocpd_memory_allocate",
        &[
            OF_NODE,
            OF_PROCESS,
            may("tid", THREAD),
            may("agent_id", AGENT),
            may("queue_id", QUEUE),
            may("stream_id", STREAM),
            may("event_id", EVENT),
            may("track_id", TRACK),
        ],
    ),
    (
        "rocpd_call_stack",
        &[must("event_id", EVENT), may("pc_id", PC)],
    ),
    (
        "rocpd_line_info",
        &[
            must("event_id", EVENT),
            may("pc_id", PC),
            may("source_code_id", SOURCE),
        ],
    ),
    (PC, &[OF_NODE, OF_PROCESS, may("address_id", RANGE)]),
    (SOURCE, &[OF_NODE, OF_PROCESS, may("address_id", RANGE)]),
    (
        "rocpd_graph_launch",
        &[
            OF_NODE,
            OF_PROCESS,
            may("tid", THREAD),
            may("agent_id", AGENT),
            may("queue_id", QUEUE),
            may("event_id", EVENT),
        ],
    ),
    (
        "rocpd_hip_event",
        &[
            OF_NODE,
            OF_PROCESS,
            may("tid", THREAD),
            may("agent_id", AGENT),
            may("queue_id", QUEUE),
            may("stream_id", STREAM),
            may("event_id", EVENT),
        ],
    ),
];

/// Columns of a table that are looked at together.
const COLUMNS: usize = 11;

impl RocpdSet {
    /// Counts the rows whose keys name no row: views and summaries leave most of them out.
    ///
    /// Time: a pass over every table. Memory: 16 bytes for each run of consecutive ids, of which a recording has few.
    ///
    /// # Errors
    ///
    /// When a file is damaged.
    pub fn orphans(&self) -> Result<Vec<Orphans>> {
        let mut found = Vec::new();
        for partition in self.partitions() {
            let mut known = Known {
                partition,
                ids: Vec::new(),
            };
            for (base, keys) in &KEYS {
                if let Some(table) = partition.table(base) {
                    known.check(base, table, keys, &mut found)?;
                }
            }
            strangers(partition, &mut found)?;
        }
        Ok(found)
    }
}

/// Finds rows whose guid is that of no process: joins over several processes lose them.
fn strangers(partition: &Partition, found: &mut Vec<Orphans>) -> Result<()> {
    let mut guids: Vec<Vec<u8>> = vec![partition.guid().as_bytes().to_vec()];
    let processes = partition.processes().iter();
    guids.extend(processes.map(|process| process.guid.as_bytes().to_vec()));
    each_guid(partition, PROCESS, |_, guid| {
        if !guids.iter().any(|known| known == guid) {
            guids.push(guid.to_vec());
        }
    })?;
    for base in TABLES.into_iter().filter(|base| *base != PROCESS) {
        let (mut rows, mut first_rowid) = (0, 0);
        each_guid(partition, base, |rowid, guid| {
            if !guids.iter().any(|known| known == guid) {
                if rows == 0 {
                    first_rowid = rowid;
                }
                rows += 1;
            }
        })?;
        if rows > 0 {
            found.push(Orphans {
                file: partition.path().to_owned(),
                guid: partition.guid().to_owned(),
                table: base,
                column: "guid",
                target: PROCESS,
                rows,
                first_rowid,
            });
        }
    }
    Ok(())
}

/// Reads the guids of a table, of rows that have one.
fn each_guid(partition: &Partition, base: &str, mut take: impl FnMut(i64, &[u8])) -> Result<()> {
    let Some(table) = partition.table(base) else {
        return Ok(());
    };
    if table.def.column("guid").is_none() {
        return Ok(());
    }
    let pick = table.def.pick(["guid"]);
    let mut cursor = table.cursor(partition)?;
    while let Some((rowid, values)) = cursor.next(&pick)? {
        if let [Value::Text(guid)] = values {
            take(rowid, guid);
        }
    }
    Ok(())
}

/// The row ids of the tables of a partition, as they are needed.
struct Known<'a> {
    partition: &'a Partition,
    ids: Vec<(&'static str, Ids)>,
}

impl Known<'_> {
    /// Where the ids of a table are; nothing if it is not there, which is told elsewhere.
    fn of(&mut self, base: &'static str) -> Result<Option<usize>> {
        if let Some(at) = self.ids.iter().position(|(known, _)| *known == base) {
            return Ok(Some(at));
        }
        let Some(table) = self.partition.table(base) else {
            return Ok(None);
        };
        let ids = Ids::of(self.partition, table)?;
        self.ids.push((base, ids));
        Ok(Some(self.ids.len() - 1))
    }

    fn check(
        &mut self,
        base: &'static str,
        table: &Table,
        keys: &'static [Key],
        found: &mut Vec<Orphans>,
    ) -> Result<()> {
        let partition = self.partition;
        let mut names = [""; COLUMNS];
        let mut wanted = Vec::new();
        for (slot, key) in keys.iter().take(COLUMNS).enumerate() {
            // Generation 4 keeps what categories are called in a table of its own.
            let target = match key.column {
                "category_id" if partition.table(CATEGORY).is_some() => CATEGORY,
                _ => key.target,
            };
            if !partition.has_column(base, key.column) {
                continue;
            }
            if let (Some(ids), Some(name)) = (self.of(target)?, names.get_mut(slot)) {
                *name = key.column;
                wanted.push((slot, key, target, ids, 0_u64, 0_i64));
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let pick = table.def.pick(names);
        let mut cursor = table.cursor(partition)?;
        while let Some((rowid, values)) = cursor.next(&pick)? {
            let row = Fields(&values);
            for (slot, key, _, ids, rows, first) in &mut wanted {
                let named = match row.int(*slot) {
                    Ok(Some(id)) => self.ids.get(*ids).is_some_and(|(_, ids)| ids.has(id)),
                    Ok(None) => key.optional,
                    // A value of another type is told where its row is read.
                    Err(_) => true,
                };
                if !named {
                    if *rows == 0 {
                        *first = rowid;
                    }
                    *rows += 1;
                }
            }
        }
        for (_, key, target, _, rows, first_rowid) in wanted {
            if rows > 0 {
                found.push(Orphans {
                    file: partition.path().to_owned(),
                    guid: partition.guid().to_owned(),
                    table: base,
                    column: key.column,
                    target,
                    rows,
                    first_rowid,
                });
            }
        }
        Ok(())
    }
}

/// Row ids as runs of consecutive ones, first and last.
#[derive(Debug, Default)]
struct Ids(Vec<(i64, i64)>);

impl Ids {
    fn of(partition: &Partition, table: &Table) -> Result<Self> {
        let mut ids = Self::default();
        let pick = table.def.pick(["id"]);
        let mut cursor = table.cursor(partition)?;
        while let Some((rowid, values)) = cursor.next(&pick)? {
            // The column is another name of the row's number, unless someone made the table anew without its key.
            let id = match values {
                [Value::Null] => rowid,
                values => Fields(&values).int(0).ok().flatten().unwrap_or(rowid),
            };
            ids.push(id);
        }
        ids.0.sort_unstable();
        Ok(ids)
    }

    fn push(&mut self, id: i64) {
        match self.0.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(id) => *last = id,
            _ => self.0.push((id, id)),
        }
    }

    fn has(&self, id: i64) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < id);
        self.0.get(at).is_some_and(|(first, _)| *first <= id)
    }
}

#[cfg(test)]
mod tests {
    use super::Ids;

    #[test]
    fn ids_are_kept_as_runs() {
        let mut ids = Ids::default();
        for id in [i64::MIN, -1, 0, 1, 5, 7, 8, i64::MAX] {
            ids.push(id);
        }
        assert_eq!(ids.0.len(), 5);
        let has: Vec<i64> = (-3..10).filter(|id| ids.has(*id)).collect();
        assert_eq!(has, [-1, 0, 1, 5, 7, 8]);
        assert!(ids.has(i64::MIN) && ids.has(i64::MAX) && !ids.has(i64::MAX - 1));
    }
}
