//! Counts ranges and marks, parts of their table on all threads, and finds the few that an answer needs.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use sqlite_scan::{Leaves, Lookup, Value};

use crate::collective::{Call, Collectives};
use crate::error::Result;
use crate::ids::ProcessKey;
use crate::load::Loader;
use crate::nvtx::{COLUMNS, Held, Kind, TABLE, times_of};
use crate::nvtx_names::{DomainKey, Names};
use crate::operator::Operator;
use crate::pass::merge::AllNames;
use crate::pass::operators::{Covered, Inner, Wanted, Where};
use crate::payload::{Payload, Schemas};
use crate::strings::{Strings, lossy};
use crate::tally::Tally;

/// Ranges and marks of a part of their table.
struct RangesPart<'e> {
    tally: Tally,
    rows: BTreeMap<DomainKey, [u64; 2]>,
    /// Number of payloads, and of damaged ones.
    payloads: [u64; 2],
    collectives: Collectives,
    strings: Strings<'e>,
    /// Whether strings begin like the names that are kept.
    is_kept: FxHashMap<i64, bool>,
    kept: Vec<i64>,
    operators: Vec<Inner>,
    names: AllNames,
    is_across: bool,
}

/// The operators that can matter, and those within them.
#[derive(Default)]
pub(super) struct Operators {
    pub(super) list: Vec<Inner>,
    pub(super) names: AllNames,
    /// They cross each other or are too many.
    pub(super) is_unknown: bool,
}

impl<'e> Loader<'e> {
    /// Counts ranges and marks, adds those that are named as wanted, and returns the operators within `covered` time.
    pub(super) fn count_ranges(
        &mut self,
        (names, wanted, covered): (&Names, &Wanted<'_>, &Covered),
        leaves: Option<&'e Leaves>,
    ) -> Result<Operators> {
        let columns = [
            "start",
            "end",
            "eventType",
            "text",
            "globalTid",
            "textId",
            "domainId",
            "jsonTextId",
            "jsonText",
            "binaryData",
        ];
        let export = self.export;
        let schemas = Schemas::read(export)?;
        let (process_wanted, empty) = (self.options.process, &self.tally);
        let marks = self.options.host_names.as_deref().unwrap_or_default();
        let begins = |label: &[u8]| marks.iter().any(|mark| label.starts_with(mark.as_bytes()));
        let parts = export.scan_parts(
            TABLE,
            columns,
            self.options.threads,
            || {
                Ok(RangesPart {
                    tally: empty.fresh(),
                    rows: BTreeMap::new(),
                    payloads: [0; 2],
                    collectives: Collectives::default(),
                    strings: Strings::new(export, leaves)?,
                    is_kept: FxHashMap::default(),
                    kept: Vec::new(),
                    operators: Vec::new(),
                    names: AllNames::default(),
                    is_across: false,
                })
            },
            |part, row, values| {
                let [
                    start,
                    end,
                    kind,
                    label,
                    thread,
                    label_id,
                    domain,
                    payload @ ..,
                ] = values;
                let kind = Kind::of(kind);
                if kind == Kind::Other {
                    return Ok(());
                }
                let Some(thread) = thread.as_int() else {
                    part.tally.bad_value(TABLE, row, "globalTid");
                    return Ok(());
                };
                let process = ProcessKey::of(thread);
                if process_wanted.is_some_and(|wanted| wanted != process) {
                    return Ok(());
                }
                let is_kept = match (label, label_id.as_int()) {
                    (Value::Text(label) | Value::Blob(label), _) => begins(label),
                    (_, Some(id)) => match part.is_kept.get(&id) {
                        Some(known) => *known,
                        None => {
                            let text = part.strings.get(id)?;
                            let is_kept = text.is_some_and(|text| begins(text.as_bytes()));
                            part.is_kept.insert(id, is_kept);
                            is_kept
                        }
                    },
                    (_, None) => false,
                };
                if is_kept {
                    part.kept.push(row);
                    return Ok(());
                }
                let domain = domain.as_int().unwrap_or(0);
                let payload = Payload::of(&schemas, payload, |id| part.strings.get(id))?;
                if let Some(payload) = payload {
                    part.payloads[0] += 1;
                    part.payloads[1] += u64::from(payload.is_damaged);
                    // Ranges of libraries tell the ranks of processes, by their payloads.
                    if names.libraries.contains(&(process, domain)) {
                        let call = Call::new("", &payload.fields);
                        part.collectives.learn(process, &call);
                    }
                }
                let Some((start, end)) = times_of(&mut part.tally, row, kind, (start, end)) else {
                    return Ok(());
                };
                part.rows.entry((process, domain)).or_default()[usize::from(kind == Kind::Mark)] +=
                    1;
                part.tally.extend(start, end.unwrap_or(start));
                if let Some(end) = end
                    && domain == 0
                    && kind == Kind::PushPop
                {
                    part.add_operator((wanted, covered), label, (thread, (start, end), row));
                }
                Ok(())
            },
        )?;
        let mut operators = Operators::default();
        let mut kept = Vec::new();
        let mut rows: BTreeMap<DomainKey, [u64; 2]> = BTreeMap::new();
        for part in parts {
            self.tally.absorb(part.tally);
            self.counts.payloads += part.payloads[0];
            self.counts.damaged_payloads += part.payloads[1];
            self.collectives.absorb(part.collectives);
            for (key, [ranges, marks]) in part.rows {
                let all = rows.entry(key).or_default();
                all[0] += ranges;
                all[1] += marks;
                self.count_rows(TABLE, ranges + marks);
            }
            kept.extend(part.kept);
            let numbers = part.names.texts.into_iter();
            let numbers: Vec<usize> = numbers.map(|name| operators.names.number(name)).collect();
            operators
                .list
                .extend(part.operators.into_iter().filter_map(|one| {
                    let name = *numbers.get(one.name as usize)?;
                    let name = u32::try_from(name).ok()?;
                    Some(Inner { name, ..one })
                }));
            operators.is_unknown |= part.is_across;
        }
        for ((process, domain), rows) in rows {
            self.count_domain(names.shown(process, domain), process, rows);
        }
        self.add_kept((names, &schemas), &kept)?;
        Ok(operators)
    }

    /// Adds single rows.
    fn add_kept(&mut self, of: (&Names, &Schemas), rows: &[i64]) -> Result<()> {
        let Some(table) = self.export.database().and_then(|all| all.table(TABLE)) else {
            return Ok(());
        };
        let (leaves, pick) = (table.leaves()?, table.def().pick(COLUMNS));
        let Some(database) = self.export.database() else {
            return Ok(());
        };
        let mut lookup = Lookup::new(database.file(), &leaves);
        let mut held = Held::default();
        for row in rows {
            if let Some(values) = lookup.get(*row, &pick)? {
                self.range_or_mark(of, (*row, values), &mut held)?;
            }
        }
        self.put_held(of.0, held)
    }
}

impl RangesPart<'_> {
    /// Adds a range that is an operator within covered time.
    fn add_operator(
        &mut self,
        (wanted, covered): (&Wanted<'_>, &Covered),
        label: Value<'_>,
        (thread, times, row): (i64, (i64, i64), i64),
    ) {
        let place = covered.place(thread, times);
        if place == Where::Outside {
            return;
        }
        let label = lossy(label).unwrap_or_default();
        let Some(operator) = Operator::parse(&label) else {
            return;
        };
        if place == Where::Across || !wanted.may_keep() {
            self.is_across = true;
            return;
        }
        let name = self.names.number(operator.name.to_owned());
        self.operators.push(Inner {
            thread,
            times,
            row,
            name: u32::try_from(name).unwrap_or(u32::MAX),
        });
    }
}
