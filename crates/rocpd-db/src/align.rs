//! Clocks of several machines brought together.

use rusqlite::types::Value;
use rusqlite::{Connection, functions::FunctionFlags};
use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::info::Process;
use crate::partition::Partition;
use crate::set::RocpdSet;

/// What is taken to have happened at the same time on all nodes, whose clocks are not synchronised.
///
/// Processes of one node share a clock, so all of them move together. The node of the first process keeps its times.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Align {
    /// The begin of the recording (`init`) of the node's earliest process; when that is not known, its start.
    Init,
    /// The begin of the node's first marker with this message.
    Marker(String),
    /// Nothing: these nanoseconds are added to the times of these hosts, machine ids or guids. Others stay.
    Offsets(Vec<(String, i64)>),
}

/// By how many nanoseconds the times of a node move.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockOffset {
    /// Its host name, else its machine id.
    pub node: String,
    /// What is added, ns.
    pub offset_ns: i64,
}

/// What is added to the times of each process, by partition and process id; nothing for most.
pub(crate) type Offsets = FxHashMap<(usize, i64), i64>;

/// The columns that are times, in whatever table.
const TIMES: [&str; 5] = ["start", "end", "timestamp", "init", "fini"];
/// The function of SQL that moves a time.
const MOVED: &str = "rocpd_moved";

/// The nodes of a set: equal machine ids are one, else equal host names.
struct Nodes<'a> {
    /// Key and name, in order of appearance.
    list: Vec<(&'a str, &'a str)>,
    of_process: FxHashMap<(usize, i64), usize>,
}

impl<'a> Nodes<'a> {
    fn of(set: &'a RocpdSet) -> Self {
        let mut nodes = Self {
            list: Vec::new(),
            of_process: FxHashMap::default(),
        };
        for partition in set.partitions() {
            for process in partition.processes() {
                let machine = partition.info().nodes.get(process.nid);
                let machine = machine.map_or("", |node| node.machine_id.as_str());
                let key = match machine {
                    "" => process.hostname.as_str(),
                    machine => machine,
                };
                let name = match process.hostname.as_str() {
                    "" => machine,
                    name => name,
                };
                let known = nodes.list.iter().position(|(known, _)| *known == key);
                let at = known.unwrap_or_else(|| {
                    nodes.list.push((key, name));
                    nodes.list.len() - 1
                });
                nodes.of_process.insert((process.partition, process.id), at);
            }
        }
        nodes
    }

    fn at(&self, process: &Process) -> usize {
        let at = self.of_process.get(&(process.partition, process.id));
        at.copied().unwrap_or(0)
    }

    /// Offsets that make these times equal to that of the first node.
    fn equal(&self, times: &[Option<i64>], what: &str) -> Result<Vec<i64>> {
        let mut offsets = Vec::with_capacity(times.len());
        let mut first = None;
        for (time, (_, name)) in times.iter().zip(&self.list) {
            let time = time.ok_or_else(|| Error::Align {
                what: format!("node {name} has no {what}"),
            })?;
            let by = first.get_or_insert(time).checked_sub(time);
            offsets.push(by.ok_or_else(|| Error::Align {
                what: format!("the clock of node {name} is further away than times reach"),
            })?);
        }
        Ok(offsets)
    }
}

impl Align {
    /// By how much the times of each process move, and those of each node that has processes.
    pub(crate) fn offsets(&self, set: &RocpdSet) -> Result<(Offsets, Vec<ClockOffset>)> {
        let nodes = Nodes::of(set);
        let mut times: Vec<Option<i64>> = vec![None; nodes.list.len()];
        let mut earliest = |process: &Process, time: i64| {
            if let Some(known) = times.get_mut(nodes.at(process)) {
                *known = Some(known.map_or(time, |known| known.min(time)));
            }
        };
        let by_node = match self {
            Self::Init => {
                for process in set.processes() {
                    let known = |time: &i64| *time != 0;
                    let init = process.init_ns.filter(known);
                    if let Some(time) = init.or(process.start_ns.filter(known)) {
                        earliest(process, time);
                    }
                }
                nodes.equal(&times, "process that says when it began")?
            }
            Self::Marker(message) => {
                set.each_marker(message, |process, start, _| earliest(process, start))?;
                nodes.equal(&times, &format!("marker \"{message}\""))?
            }
            Self::Offsets(list) => return given(list, set, &nodes),
        };
        let offsets = set.processes().map(|process| {
            let by = by_node.get(nodes.at(process)).copied().unwrap_or(0);
            ((process.partition, process.id), by)
        });
        let names = nodes.list.iter().zip(&by_node);
        let named = names.map(|((_, name), by)| ClockOffset {
            node: (*name).to_owned(),
            offset_ns: *by,
        });
        Ok((offsets.collect(), named.collect()))
    }
}

/// Offsets as they were given: for a guid before its node, for a machine id before a host name.
fn given(
    list: &[(String, i64)],
    set: &RocpdSet,
    nodes: &Nodes<'_>,
) -> Result<(Offsets, Vec<ClockOffset>)> {
    let mut used = vec![false; list.len()];
    let mut offsets = Offsets::default();
    let mut named: Vec<ClockOffset> = Vec::new();
    for process in set.processes() {
        let (key, name) = nodes
            .list
            .get(nodes.at(process))
            .copied()
            .unwrap_or_default();
        let words = [process.guid.as_str(), key, name];
        let mut chosen = None;
        for ((word, by), used) in list.iter().zip(&mut used) {
            let Some(rank) = words.iter().position(|known| known == word) else {
                continue;
            };
            *used = true;
            if chosen.is_none_or(|(before, _)| rank < before) {
                chosen = Some((rank, *by));
            }
        }
        let (rank, by) = chosen.unwrap_or((2, 0));
        offsets.insert((process.partition, process.id), by);
        let node = if rank == 0 { &process.guid } else { name };
        if !named.iter().any(|known| known.node == node) {
            named.push(ClockOffset {
                node: node.to_owned(),
                offset_ns: by,
            });
        }
    }
    match list.iter().zip(&used).find(|(_, used)| !**used) {
        Some(((word, _), _)) => Err(Error::Align {
            what: format!(
                "no host, machine id or guid is called {word}: the hosts are {}",
                nodes
                    .list
                    .iter()
                    .map(|(_, name)| *name)
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        }),
        None => Ok((offsets, named)),
    }
}

/// Makes known to a connection how times move: NULL and what is no time stay as they are.
pub(crate) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function(MOVED, 2, flags, |context| {
        let by: i64 = context.get(1)?;
        let value: Value = context.get(0)?;
        let time = match &value {
            Value::Integer(time) => Some(*time),
            Value::Real(time) => crate::numbers::whole(*time),
            Value::Text(text) => text.trim().parse().ok(),
            Value::Null | Value::Blob(_) => None,
        };
        match time {
            Some(time) => time.checked_add(by).map(Value::Integer).ok_or_else(|| {
                let what = format!("a time of {time} ns cannot move by {by} ns");
                rusqlite::Error::UserFunctionError(what.into())
            }),
            None => Ok(value),
        }
    })
}

/// The value of a column of a table `X` of a partition, moved if it is a time.
pub(crate) fn moved(
    offsets: &Offsets,
    partition: &Partition,
    base: &str,
    column: &str,
    value: String,
) -> String {
    if !TIMES.contains(&column) {
        return value;
    }
    let by = |process: &Process| {
        let by = offsets.get(&(process.partition, process.id));
        by.copied().unwrap_or(0)
    };
    let mut own: Vec<(&str, i64)> = Vec::new();
    for process in partition.processes() {
        own.push((&process.guid, by(process)));
    }
    let by = match own.as_slice() {
        [] => return value,
        [(_, first), rest @ ..] if rest.iter().all(|(_, by)| by == first) => first.to_string(),
        own if partition.has_column(base, "guid") => {
            let cases = own.iter().map(|(guid, by)| {
                let guid = guid.replace('\'', "''");
                format!(" WHEN '{guid}' THEN {by}")
            });
            format!("CASE X.guid{} ELSE 0 END", cases.collect::<String>())
        }
        _ => return value,
    };
    if by == "0" {
        return value;
    }
    // Of processes and threads, 0 says that a time is not known.
    match base.starts_with("rocpd_info_") {
        true => format!("CASE {value} WHEN 0 THEN 0 ELSE {MOVED}({value}, {by}) END"),
        false => format!("{MOVED}({value}, {by})"),
    }
}
