//! Ranges and marks of NVTX.

use rustc_hash::{FxHashMap, FxHashSet};
use sqlite_scan::Value;
use trace_model::{Arg, LaneId, SliceData, TrackKind, is_plausible};

use crate::collective::{Call, CommRange};
use crate::error::Result;
use crate::ids::ProcessKey;
use crate::load::{FreeLanes, Loader};
use crate::naming::without_folders;
use crate::payload::{Field, Named, Schemas};
use crate::strings::text;

const TABLE: &str = "NVTX_EVENTS";

/// Kind of a row, by `eventType`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    PushPop,
    StartEnd,
    Mark,
    /// Names of categories, threads and domains, and types of no meaning here.
    Other,
}

impl Kind {
    fn of(event_type: Value<'_>) -> Self {
        match event_type.as_int() {
            // Reduced exports lack the column.
            None | Some(59 | 70) => Self::PushPop,
            Some(60 | 71) => Self::StartEnd,
            Some(34) => Self::Mark,
            _ => Self::Other,
        }
    }
}

/// Names that rows give, and the domains of communication libraries.
#[derive(Default)]
struct Names {
    domains: FxHashMap<(ProcessKey, i64), String>,
    categories: FxHashMap<(ProcessKey, i64, i64), String>,
    /// Domains whose ranges are those of NCCL or RCCL.
    libraries: FxHashSet<(ProcessKey, i64)>,
}

/// A range from a start to an end that may be on another thread.
struct Free {
    process: ProcessKey,
    domain: String,
    start: i64,
    end: Option<i64>,
    row: i64,
    data: SliceData,
}

impl Loader<'_> {
    /// Reads all ranges and marks.
    pub(crate) fn nvtx(&mut self) -> Result<()> {
        if !self.export.has_rows(TABLE)? {
            return Ok(());
        }
        let names = self.nvtx_names()?;
        let schemas = Schemas::read(self.export)?;
        let mut free: Vec<Free> = Vec::new();
        let columns = [
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
        self.export.scan(TABLE, columns, |row, values| {
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
            let label = match text(label) {
                Some(label) => label,
                None => match label_id.as_int() {
                    Some(id) => self
                        .text_of(id)?
                        .unwrap_or_else(|| format!("[string {id}]")),
                    None => String::new(),
                },
            };
            let fields = self.fields(&schemas, [json_id, json, binary])?;
            let call = is_library.then(|| Call::new(&label, &fields));
            if let Some(call) = &call {
                self.collectives.learn(process, call);
            }
            let Some((start, end)) = self.range(row, kind, start, end) else {
                return Ok(());
            };
            self.count_row(TABLE);
            self.list.clear();
            let is_operator = domain == 0 && kind == Kind::PushPop;
            let operator = is_operator.then(|| Operator::parse(&label)).flatten();
            let is_left_out = operator.is_none() && self.leaves_out(&label);
            let shown_domain = match domain {
                0 => String::new(),
                _ => match names.domains.get(&(process, domain)) {
                    Some(name) => name.clone(),
                    None => format!("domain {domain}"),
                },
            };
            if is_left_out {
                let counted = self.domains.entry((process, shown_domain)).or_default();
                counted[usize::from(kind == Kind::Mark)] += 1;
                self.counts.ranges += u64::from(kind != Kind::Mark);
                self.extend(start, end.unwrap_or(start));
                return Ok(());
            }
            if domain != 0 {
                self.arg_text(self.keys.domain, &shown_domain);
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
            let mut name = label.as_str();
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
            let counted = self
                .domains
                .entry((process, shown_domain.clone()))
                .or_default();
            counted[usize::from(kind == Kind::Mark)] += 1;
            self.counts.ranges += u64::from(kind != Kind::Mark);
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
                Kind::StartEnd => free.push(Free {
                    process,
                    domain: shown_domain,
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
        })?;
        self.put_collectives()?;
        self.put_free(free);
        Ok(())
    }

    /// Returns `true` if a range of a thread has no end. Cost: two columns of all ranges.
    pub(crate) fn has_open_ranges(&self) -> Result<bool> {
        let mut found = false;
        self.export
            .scan(TABLE, ["eventType", "end"], |_, [kind, end]| {
                found |= end == Value::Null && Kind::of(kind) == Kind::PushPop;
                Ok(())
            })?;
        Ok(found)
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

    /// Checks the times of a range, which may have no end.
    fn range(
        &mut self,
        row: i64,
        kind: Kind,
        start: Value<'_>,
        end: Value<'_>,
    ) -> Option<(i64, Option<i64>)> {
        if kind == Kind::Mark || end == Value::Null {
            let Some(time) = start.as_int() else {
                self.bad_value(TABLE, row, "start");
                return None;
            };
            if !is_plausible(time, time) {
                self.far_time(TABLE, row);
                return None;
            }
            if kind == Kind::Mark && time < self.session.start_ns() {
                self.tally.before += 1;
                return None;
            }
            return Some((time, None));
        }
        let (start, end) = self.within(TABLE, row, start, end)?;
        Some((start, Some(end)))
    }

    /// Reads the names of domains, categories and threads, which are valid at any time.
    fn nvtx_names(&mut self) -> Result<Names> {
        let mut names = Names::default();
        // Labels of the ranges of each domain.
        let mut labels: FxHashMap<(ProcessKey, i64), FxHashSet<i64>> = FxHashMap::default();
        let mut others: FxHashSet<(ProcessKey, i64)> = FxHashSet::default();
        let mut used: FxHashSet<(ProcessKey, i64)> = FxHashSet::default();
        let columns = [
            "eventType",
            "text",
            "textId",
            "globalTid",
            "domainId",
            "category",
        ];
        self.export.scan(
            TABLE,
            columns,
            |_, [kind, label, label_id, thread, domain, category]| {
                let Some(thread) = thread.as_int() else {
                    return Ok(());
                };
                let process = ProcessKey::of(thread);
                let domain = domain.as_int().unwrap_or(0);
                let key = (process, domain);
                let kind_number = kind.as_int();
                match kind_number {
                    Some(33 | 39 | 75 | 76) => {}
                    _ => {
                        let is_range = matches!(Kind::of(kind), Kind::PushPop | Kind::StartEnd);
                        if domain == 0 || !is_range {
                            return Ok(());
                        }
                        used.insert(key);
                        match label {
                            Value::Text(text) => {
                                if !is_library_label(text) {
                                    others.insert(key);
                                }
                            }
                            _ => {
                                labels.entry(key).or_default().extend(label_id.as_int());
                            }
                        }
                        return Ok(());
                    }
                }
                let label = match text(label) {
                    Some(label) => Some(label),
                    None => match label_id.as_int() {
                        Some(id) => self.text_of(id)?,
                        None => None,
                    },
                };
                let Some(label) = label.filter(|label| !label.is_empty()) else {
                    return Ok(());
                };
                match kind_number {
                    Some(33) => {
                        if let Some(category) = category.as_int() {
                            names
                                .categories
                                .entry((process, domain, category))
                                .or_insert(label);
                        }
                    }
                    Some(39) => {
                        let name = self.builder.string(&without_folders(&label));
                        self.thread_names.entry(thread).or_insert(name);
                    }
                    _ => {
                        names.domains.entry(key).or_insert(label);
                    }
                }
                Ok(())
            },
        )?;
        let mut used: Vec<(ProcessKey, i64)> = used.into_iter().collect();
        used.sort_unstable();
        for key in used {
            let is_library = match names.domains.get(&key) {
                Some(name) => {
                    name.eq_ignore_ascii_case("nccl") || name.eq_ignore_ascii_case("rccl")
                }
                None => {
                    let mut all = !others.contains(&key);
                    for id in labels.get(&key).into_iter().flatten() {
                        let label = self.text_of(*id)?;
                        all &= label.is_some_and(|label| is_library_label(label.as_bytes()));
                    }
                    all
                }
            };
            if is_library {
                names.libraries.insert(key);
            }
        }
        Ok(names)
    }

    /// Decodes the payload of a row: JSON, else bytes.
    fn fields(
        &mut self,
        schemas: &Schemas,
        [json_id, json, binary]: [Value<'_>; 3],
    ) -> Result<Vec<Named>> {
        let json = match (text(json), json_id.as_int()) {
            (Some(json), _) => Some(json),
            (None, Some(id)) => self.text_of(id)?,
            (None, None) => None,
        };
        if let Some(json) = json {
            self.counts.payloads += 1;
            let parsed = serde_json::from_str::<serde_json::Value>(&json);
            return Ok(match parsed {
                Ok(serde_json::Value::Object(object)) => {
                    object.into_iter().map(json_field).collect()
                }
                Ok(other) => vec![Named {
                    name: "json".to_owned(),
                    kind: 0,
                    value: Field::Text(other.to_string()),
                }],
                Err(_) => {
                    self.counts.damaged_payloads += 1;
                    Vec::new()
                }
            });
        }
        if binary == Value::Null {
            return Ok(Vec::new());
        }
        self.counts.payloads += 1;
        Ok(schemas.decode(binary).unwrap_or_else(|| {
            self.counts.damaged_payloads += 1;
            Vec::new()
        }))
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
    fn put_free(&mut self, mut ranges: Vec<Free>) {
        ranges.sort_by(|a, b| {
            (a.process, &a.domain, a.start, a.row).cmp(&(b.process, &b.domain, b.start, b.row))
        });
        let mut lanes = FreeLanes::new();
        for range in ranges {
            let name = match range.domain.as_str() {
                "" => "NVTX ranges".to_owned(),
                domain => format!("NVTX ranges {domain}"),
            };
            let times = (range.start, range.end.unwrap_or(i64::MAX));
            let lane = lanes.get((range.process, range.domain), times, || {
                self.named_lane(range.process, TrackKind::ProcessChildUnmerged, &name)
            });
            self.put(lane, range.start, range.end, range.data);
        }
    }
}

fn is_library_label(label: &[u8]) -> bool {
    label.starts_with(b"nccl") || label.starts_with(b"rccl")
}

fn json_field((name, value): (String, serde_json::Value)) -> Named {
    let value = match value {
        serde_json::Value::String(text) => Field::Text(text),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Field::Int(value),
            (None, Some(value)) => Field::UInt(value),
            _ => Field::Real(number.as_f64().unwrap_or(f64::NAN)),
        },
        other => Field::Text(other.to_string()),
    };
    Named {
        name,
        kind: 0,
        value,
    }
}

/// A range of PyTorch's `emit_nvtx`: `NAME, seq = N, op_id = N, sizes = [...], input_op_ids = [...]`, each part after the name
/// optional, at least one there.
#[derive(Debug, PartialEq)]
struct Operator<'l> {
    name: &'l str,
    seq: Option<i64>,
    id: Option<i64>,
    sizes: Option<&'l str>,
}

impl<'l> Operator<'l> {
    fn parse(label: &'l str) -> Option<Self> {
        const PARTS: [&str; 4] = [", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "];
        let at = first_of(label, &PARTS)?;
        let (name, mut rest) = label.split_at_checked(at)?;
        let mut operator = Self {
            name,
            seq: None,
            id: None,
            sizes: None,
        };
        for (number, part) in PARTS.iter().enumerate() {
            let Some(value) = rest.strip_prefix(part) else {
                continue;
            };
            let next = first_of(value, PARTS.get(number + 1..).unwrap_or_default());
            let (value, after) = value.split_at_checked(next.unwrap_or(value.len()))?;
            rest = after;
            match number {
                0 => operator.seq = Some(value.parse().ok()?),
                1 => operator.id = Some(value.parse().ok()?),
                2 => operator.sizes = Some(value).filter(|sizes| is_list(sizes)),
                _ => {}
            }
            let is_valid = number < 2 || is_list(value);
            if !is_valid {
                return None;
            }
        }
        (rest.is_empty() && !name.is_empty()).then_some(operator)
    }
}

/// Returns where the first of `parts` begins, each of which begins with a comma. Labels are long and there is one for each operator, so
/// each is searched once.
fn first_of(text: &str, parts: &[&str]) -> Option<usize> {
    let mut commas = text.match_indices(',');
    let starts = |at: usize| {
        text.get(at..)
            .is_some_and(|rest| parts.iter().any(|part| rest.starts_with(part)))
    };
    commas.find_map(|(at, _)| starts(at).then_some(at))
}

fn is_list(text: &str) -> bool {
    text.starts_with('[') && text.ends_with(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_pytorch() {
        let parsed = |label| Operator::parse(label);
        let operator = parsed(
            "aten::addmm, seq = 12, op_id = 7, sizes = [[8, 4], [4]], input_op_ids = [(1, 0)]",
        )
        .unwrap();
        assert_eq!(
            (operator.name, operator.seq, operator.id),
            ("aten::addmm", Some(12), Some(7))
        );
        assert_eq!(operator.sizes, Some("[[8, 4], [4]]"));
        assert_eq!(parsed("detach_, op_id = 990353").unwrap().name, "detach_");
        assert_eq!(parsed("a, b, seq = 3").unwrap().name, "a, b");
        assert_eq!(parsed("phase 1"), None);
        assert_eq!(parsed("x, seq = many"), None);
        assert_eq!(parsed(", seq = 1"), None);
        assert_eq!(parsed("x, seq = 1 of 3"), None);
    }
}
