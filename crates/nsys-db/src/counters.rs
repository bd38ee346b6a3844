//! Counters: metrics of GPUs and network adapters, numeric fields of generic events.

use rustc_hash::FxHashMap;
use sqlite_scan::Value;
use trace_model::{LaneId, Timestamp, Track, TrackKind, is_plausible};

use crate::error::Result;
use crate::load::Loader;
use crate::strings::text;

impl Loader<'_> {
    /// Reads all counters.
    pub(crate) fn counters(&mut self) -> Result<()> {
        self.gpu_metrics()?;
        self.network_metrics()?;
        self.generic_events()
    }

    fn counter_lane(&mut self, name: &str, unit: Option<&str>) -> LaneId {
        let name = self.builder.string(name);
        let unit = unit.map(|unit| self.builder.string(unit));
        let track = self.builder.track(Track {
            name: Some(name),
            unit_name: unit,
            ..Track::new(TrackKind::GlobalCounter)
        });
        self.builder.lane(Some(track))
    }

    fn sample(&mut self, table: &str, row: i64, lane: LaneId, time: Value<'_>, value: Value<'_>) {
        let Some(time) = time.as_int() else {
            self.bad_value(table, row, "timestamp");
            return;
        };
        let Some(value) = number(value) else {
            self.bad_value(table, row, "value");
            return;
        };
        if !is_plausible(time, time) {
            self.far_time(table, row);
            return;
        }
        if time < self.session.start_ns() {
            self.tally.before += 1;
            return;
        }
        self.count_row(table);
        self.extend(time, time);
        let range = self.options.range;
        if range.is_none_or(|range| range.contains(Timestamp::from_nanos(time))) {
            self.builder.events.counter(lane, time, value);
        }
    }

    fn gpu_metrics(&mut self) -> Result<()> {
        const TABLE: &str = "GPU_METRICS";
        let mut names: FxHashMap<(i64, i64), String> = FxHashMap::default();
        let columns = ["typeId", "metricId", "metricName"];
        self.export.scan(
            "TARGET_INFO_GPU_METRICS",
            columns,
            |_, [kind, metric, name]| {
                if let (Some(kind), Some(metric), Some(name)) =
                    (kind.as_int(), metric.as_int(), text(name))
                {
                    names.insert((kind, metric), name);
                }
                Ok(())
            },
        )?;
        let mut lanes: FxHashMap<(i64, i64), LaneId> = FxHashMap::default();
        let columns = ["timestamp", "typeId", "metricId", "value"];
        self.export
            .scan(TABLE, columns, |row, [time, kind, metric, value]| {
                let (Some(kind), Some(metric)) = (kind.as_int(), metric.as_int()) else {
                    self.bad_value(TABLE, row, "typeId or metricId");
                    return Ok(());
                };
                let key = (kind, metric);
                let lane = match lanes.get(&key) {
                    Some(lane) => *lane,
                    None => {
                        let name = names
                            .get(&key)
                            .cloned()
                            .unwrap_or_else(|| format!("metric {metric}"));
                        let unit = bracketed(&name).map(str::to_owned);
                        let lane = self
                            .counter_lane(&format!("GPU {} {name}", kind & 0xff), unit.as_deref());
                        lanes.insert(key, lane);
                        lane
                    }
                };
                self.sample(TABLE, row, lane, time, value);
                Ok(())
            })
    }

    fn network_metrics(&mut self) -> Result<()> {
        const TABLE: &str = "NET_NIC_METRIC";
        let mut adapters: FxHashMap<i64, String> = FxHashMap::default();
        let mut by_number: FxHashMap<i64, String> = FxHashMap::default();
        self.export.scan(
            "TARGET_INFO_NIC_INFO",
            ["nicId", "name"],
            |_, [id, name]| {
                if let (Some(id), Some(name)) = (id.as_int(), text(name)) {
                    by_number.insert(id, name);
                }
                Ok(())
            },
        )?;
        self.export
            .scan("NIC_ID_MAP", ["nicId", "globalId"], |_, [id, global]| {
                if let (Some(id), Some(global)) = (id.as_int(), global.as_int())
                    && let Some(name) = by_number.get(&id)
                {
                    adapters.insert(global, name.clone());
                }
                Ok(())
            })?;
        let mut metrics: FxHashMap<(i64, i64), (String, Option<String>)> = FxHashMap::default();
        let columns = ["metricsListId", "metricsIdx", "name", "unit"];
        self.export.scan(
            "TARGET_INFO_NETWORK_METRICS",
            columns,
            |_, [list, index, name, unit]| {
                if let (Some(list), Some(index), Some(name)) =
                    (list.as_int(), index.as_int(), text(name))
                {
                    metrics.insert((list, index), (name, text(unit)));
                }
                Ok(())
            },
        )?;
        let mut lanes: FxHashMap<(i64, i64, i64), LaneId> = FxHashMap::default();
        let columns = ["start", "globalId", "metricsListId", "metricsIdx", "value"];
        self.export.scan(
            TABLE,
            columns,
            |row, [time, adapter, list, index, value]| {
                let (Some(adapter), Some(list), Some(index)) =
                    (adapter.as_int(), list.as_int(), index.as_int())
                else {
                    self.bad_value(TABLE, row, "globalId, metricsListId or metricsIdx");
                    return Ok(());
                };
                let key = (adapter, list, index);
                let lane = match lanes.get(&key) {
                    Some(lane) => *lane,
                    None => {
                        let known = adapters.get(&adapter).or_else(|| by_number.get(&adapter));
                        let device = known.cloned().unwrap_or_else(|| format!("NIC {adapter}"));
                        let metric = metrics.get(&(list, index)).cloned();
                        let (name, unit) =
                            metric.unwrap_or_else(|| (format!("metric {index}"), None));
                        let lane = self.counter_lane(&format!("{device} {name}"), unit.as_deref());
                        lanes.insert(key, lane);
                        lane
                    }
                };
                self.sample(TABLE, row, lane, time, value);
                Ok(())
            },
        )
    }

    fn generic_events(&mut self) -> Result<()> {
        const TABLE: &str = "GENERIC_EVENTS";
        if !self.export.has_rows(TABLE)? {
            return Ok(());
        }
        let mut sources: FxHashMap<i64, String> = FxHashMap::default();
        self.export.scan(
            "GENERIC_EVENT_SOURCES",
            ["sourceId", "nameId"],
            |_, [id, name]| {
                if let (Some(id), Some(name)) = (id.as_int(), name.as_int()) {
                    let name = self
                        .text_of(name)?
                        .unwrap_or_else(|| format!("source {id}"));
                    sources.insert(id, name);
                }
                Ok(())
            },
        )?;
        let mut types: FxHashMap<i64, String> = FxHashMap::default();
        let columns = ["typeId", "sourceId", "nameId"];
        self.export
            .scan("GENERIC_EVENT_TYPES", columns, |_, [id, source, name]| {
                if let (Some(id), Some(name)) = (id.as_int(), name.as_int()) {
                    let name = self.text_of(name)?.unwrap_or_else(|| format!("type {id}"));
                    let source = source.as_int().and_then(|source| sources.get(&source));
                    let name = match source {
                        Some(source) => format!("{source} {name}"),
                        None => name,
                    };
                    types.insert(id, name);
                }
                Ok(())
            })?;
        let mut fields: FxHashMap<(i64, i64), String> = FxHashMap::default();
        let columns = ["typeId", "fieldIdx", "fieldNameId"];
        self.export.scan(
            "GENERIC_EVENT_TYPE_FIELDS",
            columns,
            |_, [kind, index, name]| {
                if let (Some(kind), Some(index), Some(name)) =
                    (kind.as_int(), index.as_int(), name.as_int())
                    && let Some(name) = self.text_of(name)?
                {
                    fields.insert((kind, index), name);
                }
                Ok(())
            },
        )?;
        let mut events: FxHashMap<i64, (i64, i64)> = FxHashMap::default();
        let mut named: FxHashMap<(i64, String), LaneId> = FxHashMap::default();
        let columns = ["genericEventId", "timestamp", "typeId", "data"];
        self.export
            .scan(TABLE, columns, |row, [id, time, kind, data]| {
                let (Some(at), Some(kind)) = (time.as_int(), kind.as_int()) else {
                    self.bad_value(TABLE, row, "timestamp or typeId");
                    return Ok(());
                };
                self.count_row(TABLE);
                if let Some(id) = id.as_int() {
                    events.insert(id, (at, kind));
                }
                // Older exports have all fields as JSON.
                let Some(data) = text(data) else {
                    return Ok(());
                };
                let Ok(serde_json::Value::Object(object)) = serde_json::from_str(&data) else {
                    self.counts.generic_other += 1;
                    return Ok(());
                };
                for (field, value) in object {
                    let value = match value {
                        serde_json::Value::Number(number) => number.as_f64(),
                        serde_json::Value::String(text) => {
                            text.parse().ok().filter(|n: &f64| n.is_finite())
                        }
                        _ => None,
                    };
                    let Some(value) = value else {
                        self.counts.generic_other += 1;
                        continue;
                    };
                    let lane = self.generic_lane(&mut named, &types, kind, field);
                    self.sample(TABLE, row, lane, time, Value::Real(value));
                }
                Ok(())
            })?;
        const DATA: &str = "GENERIC_EVENT_DATA";
        let columns = [
            "genericEventId",
            "fieldIdx",
            "intVal",
            "uintVal",
            "floatVal",
            "doubleVal",
        ];
        self.export.scan(
            DATA,
            columns,
            |row, [id, index, int, uint, float, double]| {
                let event = id.as_int().and_then(|id| events.get(&id).copied());
                let (Some((time, kind)), Some(index)) = (event, index.as_int()) else {
                    self.counts.generic_other += 1;
                    return Ok(());
                };
                let value = [int, uint, float, double]
                    .into_iter()
                    .find(|value| *value != Value::Null);
                let Some(value) = value else {
                    self.counts.generic_other += 1;
                    return Ok(());
                };
                let field = fields
                    .get(&(kind, index))
                    .cloned()
                    .unwrap_or_else(|| format!("field {index}"));
                let lane = self.generic_lane(&mut named, &types, kind, field);
                self.sample(DATA, row, lane, Value::Int(time), value);
                Ok(())
            },
        )
    }

    fn generic_lane(
        &mut self,
        lanes: &mut FxHashMap<(i64, String), LaneId>,
        types: &FxHashMap<i64, String>,
        kind: i64,
        field: String,
    ) -> LaneId {
        let key = (kind, field);
        if let Some(lane) = lanes.get(&key) {
            return *lane;
        }
        let of = types
            .get(&kind)
            .cloned()
            .unwrap_or_else(|| format!("generic {kind}"));
        let lane = self.counter_lane(&format!("{of}.{}", key.1), None);
        lanes.insert(key, lane);
        lane
    }
}

#[expect(clippy::cast_precision_loss, reason = "samples are stored as binary64")]
fn number(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Int(value) => Some(value as f64),
        Value::Real(value) => Some(value),
        _ => None,
    }
}

/// Returns the unit in a name such as `SMs Active [Throughput %]`.
fn bracketed(name: &str) -> Option<&str> {
    let (_, rest) = name.rsplit_once('[')?;
    rest.strip_suffix(']')
}
