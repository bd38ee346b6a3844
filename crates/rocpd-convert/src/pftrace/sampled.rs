//! Counters sampled while kernels run (SPM): instantaneous values, in order of time.

use std::io::Write;

use rocpd_db::{
    Agent, Filter, KernelNames, Process, RocpdSet, Rows, SqlRow, SqlSession, SqlValue, Statement,
};
use rustc_hash::FxHashMap;

use super::part::Part;
use crate::Result;

/// In order of time; SQLite sorts on disk if memory does not suffice.
const SELECT: &str = "SELECT timestamp, guid, process_id, agent_id, counter_name, counter_value, xcc, shader_engine, shader_array, \
     wgp, instance FROM spm_counters WHERE counter_value IS NOT NULL ORDER BY timestamp, guid, id";

/// Labels that distinguish the instances of a counter, by column from the first one.
const PLACES: [&str; 5] = ["XCC", "SE", "SA", "WGP", "Instance"];
const FIRST_PLACE: usize = 6;

/// Returns an SQL session over a set with such values; `None` without any.
pub(super) fn session(set: &RocpdSet, filter: &Filter) -> Result<Option<SqlSession>> {
    let mut has = false;
    for partition in set.partitions() {
        let columns = partition.columns("rocpd_pmc_event").unwrap_or_default();
        has |= columns.contains(&"sample_id") && partition.rows("rocpd_pmc_event")? > 0;
    }
    Ok(match has {
        true => Some(set.sql(filter.window, KernelNames::default())?),
        false => None,
    })
}

/// Returns the statement that [`Sampled`] reads.
pub(super) fn statement(session: &SqlSession) -> Result<Statement<'_>> {
    Ok(session.prepare(SELECT)?)
}

/// An instantaneous value.
struct Value<'a> {
    at: i64,
    process: &'a Process,
    agent: Option<&'a Agent>,
    /// Name of the counter and its instance.
    name: String,
    value: f64,
}

/// Values not yet written.
pub(super) struct Sampled<'a, 's> {
    rows: Option<Rows<'s>>,
    filter: &'a Filter,
    processes: FxHashMap<(&'a str, i64), &'a Process>,
    /// Agents by guid and id.
    agents: FxHashMap<(&'a str, i64), &'a Agent>,
    next: Option<Value<'a>>,
}

impl<'a, 's> Sampled<'a, 's> {
    pub(super) fn new(
        set: &'a RocpdSet,
        filter: &'a Filter,
        statement: Option<&'s mut Statement<'_>>,
    ) -> Result<Self> {
        let key = |process: &'a Process, id: i64| (process.guid.as_str(), id);
        let mut sampled = Self {
            rows: statement
                .map(|statement| statement.query(&[]))
                .transpose()?,
            filter,
            processes: set.processes().map(|p| (key(p, p.id), p)).collect(),
            agents: set.agents().map(|(p, a)| (key(p, a.id), a)).collect(),
            next: None,
        };
        sampled.read()?;
        Ok(sampled)
    }

    /// Writes the values before a time.
    pub(super) fn write<W: Write>(&mut self, part: &mut Part<'_, W>, until: i64) -> Result<()> {
        while let Some(value) = self.next.take_if(|value| value.at < until) {
            part.sampled(
                value.process,
                value.agent,
                &value.name,
                value.at,
                value.value,
            )?;
            self.read()?;
        }
        Ok(())
    }

    /// Reads the next value that is selected and has a track.
    fn read(&mut self) -> Result<()> {
        self.next = None;
        let Some(rows) = &mut self.rows else {
            return Ok(());
        };
        while self.next.is_none() {
            let Some(row) = rows.next()? else {
                self.rows = None;
                return Ok(());
            };
            let (SqlValue::Int(at), SqlValue::Text(guid), SqlValue::Text(counter)) =
                (row.get(0), row.get(1), row.get(4))
            else {
                continue;
            };
            let value = match row.get(5) {
                SqlValue::Real(value) => value,
                SqlValue::Int(value) => real(value),
                _ => continue,
            };
            let process = int(row, 2).and_then(|id| self.processes.get(&(guid, id)));
            let agent = int(row, 3)
                .and_then(|id| self.agents.get(&(guid, id)))
                .copied();
            let Some(process) = process.filter(|process| self.filter.accepts_process(process))
            else {
                continue;
            };
            let index = agent.and_then(|agent| agent.absolute_index);
            if at < 0 || !self.filter.accepts_place(index, None) {
                continue;
            }
            self.next = Some(Value {
                at,
                process,
                agent,
                name: name(counter, row),
                value,
            });
        }
        Ok(())
    }
}

fn int(row: SqlRow<'_>, at: usize) -> Option<i64> {
    match row.get(at) {
        SqlValue::Int(value) => Some(value),
        _ => None,
    }
}

/// Returns the name of a counter with its instance, as far as it is known: `SQ_WAVES [XCC: 0, SE:
/// 1]`.
fn name(counter: &str, row: SqlRow<'_>) -> String {
    let places = PLACES.iter().zip(FIRST_PLACE..);
    let known: Vec<String> = places
        .filter_map(|(place, at)| Some(format!("{place}: {}", int(row, at)?)))
        .collect();
    match known.is_empty() {
        true => counter.to_owned(),
        false => format!("{counter} [{}]", known.join(", ")),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counters are reals in the format; whole ones below 2^53 stay exact"
)]
fn real(value: i64) -> f64 {
    value as f64
}
