//! The single values of a document as `key,value`.

use std::io::{self, Write};

use serde_json::Value;

use crate::value::list;

/// Members of the lists that are told by their place instead of a name.
const PHASES: &str = "phases";

/// Writes the measures, then what limits the trace, its rates, stages, devices and phases, each under a prefix of its own.
///
/// # Errors
///
/// Those of `out`.
pub fn write_csv(document: &Value, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "key,value")?;
    member(&document["metrics"], "", out)?;
    let extra = &document["extra"];
    member(&document["limit"], "limit", out)?;
    for name in ["mean_rates", "rates_while_busy", "best_100ms"] {
        member(&extra[name], name, out)?;
    }
    for stage in list(&extra["stage_table"]) {
        named(stage, "stages", "stage", out)?;
    }
    for name in ["devices", "devices_left_out"] {
        for device in list(&document[name]) {
            named(device, name, "device", out)?;
        }
    }
    let found = [
        (PHASES, &document["phases"]["phases"]),
        ("given_phases", &document["given_phases"]),
        ("engine_phases", &document["engine_phases"]["phases"]),
    ];
    for (name, phases) in found {
        for (number, phase) in (1..).zip(list(phases)) {
            member(phase, &format!("{name}.{number}"), out)?;
        }
    }
    Ok(())
}

/// The members of an element of a list, under the name that it has itself.
fn named(value: &Value, prefix: &str, key: &str, out: &mut dyn Write) -> io::Result<()> {
    let name = value[key].as_str().unwrap_or("-");
    member(value, &format!("{prefix}.{name}"), out)
}

/// The members of an object, and those of the objects in it. Lists are tables of their own (--out).
fn member(value: &Value, prefix: &str, out: &mut dyn Write) -> io::Result<()> {
    let Value::Object(map) = value else {
        return Ok(());
    };
    for (key, value) in map {
        let path = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            Value::Object(_) => member(value, &path, out)?,
            Value::Array(_) | Value::Null => {}
            Value::String(text) => writeln!(out, "{},{}", field(&path), field(text))?,
            value => writeln!(out, "{},{value}", field(&path))?,
        }
    }
    Ok(())
}

/// Returns a field of CSV, quoted where it must be.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
