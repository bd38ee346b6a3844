//! The results as one JSON document.

use report::{Cell, Table};
use serde_json::{Map, Number, Value, json};

use crate::analysis::Analysis;
use crate::config::Forward;
use crate::limit::RecordedDevice;
use crate::numbers::Basis;
use crate::tables;
use crate::views::By;

/// Version of the document.
const SCHEMA: &str = "roofline/1.0";

/// Rows of a table as objects.
fn objects(table: &Table) -> Vec<Value> {
    let names: Vec<&str> = table.columns().iter().map(|column| column.name()).collect();
    let rows = (0..table.rows()).map(|row| {
        let mut object = Map::new();
        for (at, name) in names.iter().enumerate() {
            let value = match table.cell(row, at) {
                Some(Cell::Int(n)) => n.into(),
                Some(Cell::UInt(n)) => n.into(),
                Some(Cell::Real(x)) => real(x),
                Some(Cell::Text(text)) => text.into(),
                Some(Cell::Bool(is)) => is.into(),
                Some(Cell::Null) | None => Value::Null,
            };
            object.insert((*name).to_owned(), value);
        }
        Value::Object(object)
    });
    rows.collect()
}

fn real(x: f64) -> Value {
    Number::from_f64(x).map_or(Value::Null, Value::Number)
}

/// Sizes and types are JSON themselves.
fn parsed(object: &mut Value, key: &str) {
    if let Some(slot) = object.get_mut(key)
        && let Some(text) = slot.as_str()
    {
        *slot = serde_json::from_str(text).unwrap_or(Value::Null);
    }
}

fn device(device: &RecordedDevice) -> Value {
    let mut peaks = Map::new();
    for (key, peak) in device.peaks.iter() {
        let entry = json!({"value": real(peak.value), "unit": key.unit(), "source": peak.source});
        peaks.insert(key.name().to_owned(), entry);
    }
    json!({
        "id": device.id,
        "key": device.key,
        "name": device.name,
        "how": device.how,
        "peaks": peaks,
    })
}

/// Needs of a forward pass; numbers beyond 64 bits are texts.
fn forward(forward: &Forward) -> Value {
    let mut object = Map::new();
    let fields = [
        ("tokens", forward.tokens),
        ("requests", forward.requests),
        ("weight_bytes", forward.weight_bytes),
        ("weight_bytes_low", forward.weight_bytes_low),
        ("weight_bytes_high", forward.weight_bytes_high),
        ("kv_bytes", forward.kv_bytes),
        ("linear_flops", forward.linear_flops),
        ("attention_flops", forward.attention_flops),
        ("allreduce_bytes", forward.allreduce_bytes),
    ];
    for (name, n) in fields {
        let value = match u64::try_from(n) {
            Ok(n) => n.into(),
            Err(_) => n.to_string().into(),
        };
        object.insert(name.to_owned(), value);
    }
    Value::Object(object)
}

/// The document of a forward pass without recording.
pub fn model_document(needs: &Forward) -> Value {
    json!({"schema_version": SCHEMA, "model": forward(needs)})
}

fn one(trace: &str, analysis: &Analysis, what: &'static str, top: usize) -> report::Result<Value> {
    let alone = [(trace, analysis)];
    let mut coverage = Map::new();
    for (basis, share) in Basis::ALL.iter().zip(&analysis.coverage.by_basis) {
        let share = json!({"time_ns": share.time_ns, "calls": share.calls});
        coverage.insert(basis.name().to_owned(), share);
    }
    let main = analysis.devices.get(analysis.main_device);
    let mut calls = objects(&tables::calls(&alone, top)?);
    for call in &mut calls {
        parsed(call, "dims");
        parsed(call, "types");
    }
    let mut steps = objects(&tables::steps(&alone)?);
    for ((step, row), needs) in steps.iter_mut().zip(&analysis.steps).zip(&analysis.forward) {
        let Value::Object(step) = step else { continue };
        let ladder = row.ladder();
        let ladder = ladder.iter().map(|rung| {
            json!({
                "line": rung.line,
                "ns": real(rung.ns),
                "at_least": rung.at_least,
                "difference": rung.difference,
                "tokens_per_s": rung.tokens_per_s.map_or(Value::Null, real),
            })
        });
        step.insert("ladder".to_owned(), ladder.collect());
        step.insert(
            "known_pct".to_owned(),
            row.known_pct().map_or(Value::Null, real),
        );
        let of_step = row
            .share_of_time()
            .map_or(Value::Null, |(pct, _)| real(pct));
        step.insert("share_of_step_pct".to_owned(), of_step);
        let share = row.share_of_limit();
        let ends = share.map_or([None; 2], |(_, ends)| ends);
        for (name, pct) in [
            ("share_pct", share.map(|(pct, _)| pct)),
            ("share_low_pct", ends[0]),
            ("share_high_pct", ends[1]),
        ] {
            step.insert(name.to_owned(), pct.map_or(Value::Null, real));
        }
        let rows = row.rows.and_then(|n| u64::try_from(n).ok());
        step.insert("product_rows".to_owned(), rows.into());
        let balance = row.balance_tokens.map_or(Value::Null, real);
        step.insert("balance_tokens".to_owned(), balance);
        let model = needs.as_ref().map_or(Value::Null, |own| {
            let mut object = forward(&own.needs);
            if let Value::Object(object) = &mut object {
                object.insert("at_least".to_owned(), own.at_least.into());
                let limit = own.limit_ns.map_or(Value::Null, real);
                object.insert("limit_ns".to_owned(), limit);
            }
            object
        });
        step.insert("model".to_owned(), model);
    }
    let mut object = Map::new();
    object.insert("trace".to_owned(), trace.into());
    object.insert("coverage".to_owned(), Value::Object(coverage));
    let pct = analysis.coverage.known_pct().map_or(Value::Null, real);
    object.insert("coverage_pct".to_owned(), pct);
    object.insert("pct".to_owned(), analysis.pct().map_or(Value::Null, real));
    object.insert("device".to_owned(), main.map_or(Value::Null, device));
    let devices: Vec<Value> = analysis.devices.iter().map(device).collect();
    if devices.len() > 1 {
        object.insert("devices".to_owned(), devices.into());
    }
    let missing =
        analysis.coverage.missing.iter().map(
            |m| json!({"reason": m.reason, "cause": m.cause, "op": m.op, "time_ns": m.time_ns, "calls": m.calls}),
        );
    object.insert("missing".to_owned(), missing.collect());
    let captures = analysis.list.captures;
    object.insert(
        "captures".to_owned(),
        json!({
            "recordings": captures.recordings,
            "captures": captures.captures,
            "matched": captures.matched,
            "nearly": captures.nearly,
            "unmatched": captures.unmatched,
            "too_small": captures.too_small,
            "unsure": captures.unsure,
        }),
    );
    let fallbacks = analysis.fallbacks.iter();
    let fallbacks =
        fallbacks.map(|(own, taken)| json!({"dtype": own.name(), "peak": taken.name()}));
    object.insert("fallbacks".to_owned(), fallbacks.collect());
    object.insert("shortest_kernel_ns".to_owned(), analysis.shortest_ns.into());
    object.insert("calls".to_owned(), calls.into());
    if analysis.rows.by != By::Call {
        let rows = objects(&tables::merged(&alone, what, top)?);
        object.insert(what.to_owned(), rows.into());
    }
    object.insert("steps".to_owned(), steps.into());
    Ok(Value::Object(object))
}

/// The document of one recording, or of several as a list; rows that are not by call are called `what`.
///
/// # Errors
/// None but defects: the columns of the tables are fixed.
pub fn document(
    analyses: &[(&str, &Analysis)],
    what: &'static str,
    top: usize,
) -> report::Result<Value> {
    let mut object = Map::new();
    object.insert("schema_version".to_owned(), SCHEMA.into());
    if let [(trace, analysis)] = analyses {
        let Value::Object(own) = one(trace, analysis, what, top)? else {
            return Ok(Value::Null);
        };
        object.extend(own);
        return Ok(Value::Object(object));
    }
    let all = analyses.iter();
    let all = all.map(|(trace, analysis)| one(trace, analysis, what, top));
    let all: report::Result<Vec<Value>> = all.collect();
    object.insert("traces".to_owned(), all?.into());
    Ok(Value::Object(object))
}
