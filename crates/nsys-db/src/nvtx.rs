//! Ranges and marks of NVTX.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sqlite_scan::Value;
use trace_model::{Arg, LaneId, SliceData, TrackKind, is_plausible};

use crate::collective::{Call, CommRange};
use crate::error::Result;
use crate::ids::ProcessKey;
use crate::load::{FreeLanes, Loader};
use crate::nvtx_names::{DomainKey, Names};
use crate::operator::Operator;
use crate::payload::{Field, Named, Payload, Schemas};
use crate::strings::lossy;
use crate::tally::Tally;

pub(crate) const TABLE: &str = "NVTX_EVENTS";

/// Columns of a range.
pub(crate) const COLUMNS: [&str; 18] = [
    "start",
    "end",
    "eventType",
    "category",
    "color",
    "text",
    "globalTid",
    "textId",
    "domainId",
    "uint64Value",
    "int64Value",
    "doubleValue",
    "uint32Value",
    "int32Value",
    "floatValue",
    "jsonTextId",
    "jsonText",
    "binaryData",
];

/// Kind of a row, by `eventType`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    PushPop,
    StartEnd,
    Mark,
    /// Names of categories, threads and domains, and types of no meaning here.
    Other,
}

impl Kind {
    pub(crate) fn of(event_type: Value<'_>) -> Self {
        match event_type.as_int() {
            // Reduced exports lack the column.
            None | Some(59 | 70) => Self::PushPop,
            Some(60 | 71) => Self::StartEnd,
            Some(34) => Self::Mark,
            _ => Self::Other,
        }
    }
}

/// What is known of ranges and marks only after the last row.
#[derive(Default)]
pub(crate) struct Held {
    /// Number of ranges and of marks.
    rows: BTreeMap<DomainKey, [u64; 2]>,
    free: Vec<Free>,
}

/// A range from a start to an end that may be on another thread.
struct Free {
    process: ProcessKey,
    domain: i64,
    start: i64,
    end: Option<i64>,
    row: i64,
    data: SliceData,
}

impl Loader<'_> {
    /// Reads all ranges and marks.
    pub(crate) fn nvtx(&mut self, names: &Names) -> Result<()> {
        let schemas = Schemas::read(self.export)?;
        let mut held = Held::default();
        self.export.scan(TABLE, COLUMNS, |row, values| {
            self.range_or_mark((names, &schemas), (row, values), &mut held)
        })?;
        self.put_held(names, held)
    }

    /// Puts what the rows that were added left in `held`.
    pub(crate) fn put_held(&mut self, names: &Names, held: Held) -> Result<()> {
        self.put_collectives()?;
        self.put_free(names, held.free);
        for ((process, domain), rows) in held.rows {
            self.count_domain(names.shown(process, domain), process, rows);
        }
        Ok(())
    }

    /// Adds numbers of ranges and of marks to those of a domain.
    pub(crate) fn count_domain(&mut self, name: String, process: ProcessKey, rows: [u64; 2]) {
        let [ranges, marks] = self.domains.entry((process, name)).or_default();
        *ranges += rows[0];
        *marks += rows[1];
        self.counts.ranges += rows[0];
    }

    /// Adds one row.
    pub(crate) fn range_or_mark(
        &mut self,
        (names, schemas): (&Names, &Schemas),
        (row, values): (i64, [Value<'_>; COLUMNS.len()]),
        held: &mut Held,
    ) -> Result<()> {
        let [
            start,
            end,
            kind,
            category,
            color,
            label,
            thread,
            label_id,
            domain,
            uint64,
            int64,
            double,
            uint32,
            int32,
            float,
            json_id,
            json,
            binary,
        ] = values;
        let kind = Kind::of(kind);
        if kind == Kind::Other {
            return Ok(());
        }
        let Some(thread) = thread.as_int() else {
            self.bad_value(TABLE, row, "globalTid");
            return Ok(());
        };
        let process = ProcessKey::of(thread);
        if !self.wants_process(process) {
            return Ok(());
        }
        let domain = domain.as_int().unwrap_or(0);
        let is_library = names.libraries.contains(&(process, domain));
        let label = match lossy(label) {
            Some(label) => label,
            None => match label_id.as_int() {
                Some(id) => Cow::Owned(
                    self.text_of(id)?
                        .unwrap_or_else(|| format!("[string {id}]")),
                ),
                None => Cow::Borrowed(""),
            },
        };
        let payload = Payload::of(schemas, [json_id, json, binary], |id| self.text_of(id))?;
        let fields = payload.map_or_else(Vec::new, |payload| self.count_payload(payload));
        let call = is_library.then(|| Call::new(&label, &fields));
        if let Some(call) = &call {
            self.collectives.learn(process, call);
        }
        let Some((start, end)) = times_of(&mut self.tally, row, kind, (start, end)) else {
            return Ok(());
        };
        self.count_row(TABLE);
        held.rows.entry((process, domain)).or_default()[usize::from(kind == Kind::Mark)] += 1;
        self.list.clear();
        let is_operator = domain == 0 && kind == Kind::PushPop;
        let operator = is_operator.then(|| Operator::parse(&label)).flatten();
        let is_left_out = operator.is_none() && self.leaves_out(&label);
        if is_left_out {
            self.extend(start, end.unwrap_or(start));
            return Ok(());
        }
        if domain != 0 {
            self.arg_text(self.keys.domain, &names.shown(process, domain));
        }
        if let Some(number) = category.as_int().filter(|number| *number != 0) {
            match names.categories.get(&(process, domain, number)) {
                Some(name) => self.arg_text(self.keys.category, name),
                None => self.int(self.keys.category, Some(number)),
            }
        }
        self.int(self.keys.color, color.as_int());
        for (key, value) in [
            ("uint64Value", uint64),
            ("int64Value", int64),
            ("doubleValue", double),
            ("uint32Value", uint32),
            ("int32Value", int32),
            ("floatValue", float),
        ] {
            match value {
                Value::Int(number) => {
                    let key = self.own_key(key);
                    self.int(key, Some(number));
                }
                Value::Real(number) => {
                    if let Some(key) = self.own_key(key) {
                        self.list.push(Arg::real(key, number));
                    }
                }
                _ => {}
            }
        }
        for field in &fields {
            self.field(field);
        }
        let mut name = &*label;
        let mut slice_category = "nvtx";
        if let Some(operator) = operator {
            (name, slice_category) = (operator.name, "cpu_op");
            self.int(self.keys.seq, operator.seq);
            self.int(self.keys.op_id, operator.id);
            if let (Some(key), Some(sizes)) = (self.keys.input_dims, operator.sizes) {
                let sizes = self.builder.string(sizes);
                self.list.push(Arg::json(key, sizes));
            }
        }
        let name = self.builder.string(name);
        if kind == Kind::PushPop
            && let Some(call) = call
        {
            let args = std::mem::take(&mut self.list);
            self.collectives.add(CommRange {
                thread,
                start,
                end,
                name,
                args,
                call,
            });
            return Ok(());
        }
        let Some(data) = self.data(Some(name), slice_category) else {
            return Ok(());
        };
        match kind {
            Kind::StartEnd => held.free.push(Free {
                process,
                domain,
                start,
                end,
                row,
                data,
            }),
            Kind::Mark => {
                let lane = self.thread(thread);
                self.mark(lane, start, data);
            }
            _ => {
                let lane = self.thread(thread);
                self.put(lane, start, end, data);
            }
        }
        Ok(())
    }

    /// Returns `true` if only operators and what launched GPU activity are kept, and a range is not named like what else is wanted.
    fn leaves_out(&self, label: &str) -> bool {
        let (Some(_), Some(names)) = (&self.linked, &self.options.host_names) else {
            return false;
        };
        !names.iter().any(|name| label.starts_with(name))
    }

    fn mark(&mut self, lane: LaneId, time: i64, data: SliceData) {
        self.extend(time, time);
        let range = self.options.range;
        if range.is_none_or(|range| range.contains(trace_model::Timestamp::from_nanos(time))) {
            self.builder.events.instant(lane, time, data);
        }
    }

    /// Counts a payload; returns its fields.
    fn count_payload(&mut self, payload: Payload) -> Vec<Named> {
        self.counts.payloads += 1;
        self.counts.damaged_payloads += u64::from(payload.is_damaged);
        payload.fields
    }

    fn field(&mut self, field: &Named) {
        let Some(key) = self.own_key(&field.name) else {
            return;
        };
        let arg = match &field.value {
            Field::Int(value) => Arg::int(key, *value),
            Field::UInt(value) => match i64::try_from(*value) {
                Ok(value) => Arg::int(key, value),
                Err(_) => Arg::uint(key, *value),
            },
            Field::Real(value) => Arg::real(key, *value),
            Field::Text(text) => Arg::text(key, self.builder.string(text)),
        };
        self.list.push(arg);
    }

    /// Puts ranges that may cross each other on as many tracks of their process and domain as are needed.
    fn put_free(&mut self, names: &Names, ranges: Vec<Free>) {
        let named = ranges.into_iter();
        let named = named.map(|range| (names.shown(range.process, range.domain), range));
        let mut ranges: Vec<(String, Free)> = named.collect();
        ranges.sort_by(|(a_domain, a), (b_domain, b)| {
            (a.process, a_domain, a.start, a.row).cmp(&(b.process, b_domain, b.start, b.row))
        });
        let mut lanes = FreeLanes::new();
        for (domain, range) in ranges {
            let name = match domain.as_str() {
                "" => "NVTX ranges".to_owned(),
                domain => format!("NVTX ranges {domain}"),
            };
            let times = (range.start, range.end.unwrap_or(i64::MAX));
            let lane = lanes.get((range.process, domain), times, || {
                self.named_lane(range.process, TrackKind::ProcessChildUnmerged, &name)
            });
            self.put(lane, range.start, range.end, range.data);
        }
    }
}

/// Checks the times of a range, which may have no end, and counts what cannot be used.
pub(crate) fn times_of(
    tally: &mut Tally,
    row: i64,
    kind: Kind,
    (start, end): (Value<'_>, Value<'_>),
) -> Option<(i64, Option<i64>)> {
    if kind == Kind::Mark || end == Value::Null {
        let Some(time) = start.as_int() else {
            tally.bad_value(TABLE, row, "start");
            return None;
        };
        if !is_plausible(time, time) {
            tally.far_time(TABLE, row);
            return None;
        }
        if kind == Kind::Mark && time < tally.start_ns {
            tally.before += 1;
            return None;
        }
        return Some((time, None));
    }
    let (start, end) = tally.within(TABLE, row, start, end)?;
    Some((start, Some(end)))
}
