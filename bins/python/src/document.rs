//! The tables in a JSON document of a tool.
//!
//! A member with `columns` and `rows` states the kinds of its columns. A list of objects is a table, too: members of objects become
//! columns (`cost.median` is `cost_median`), lists become JSON text, and the kind of a column follows from all of its values.

use report::{Cell, Column, Kind, SchemaVersion, Table};
use serde_json::{Map, Value};

/// Depth to which objects in a row become columns.
const DEPTH: usize = 4;

/// Returns the version of a document, and its tables in their order.
pub(crate) fn tables(json: &[u8]) -> Result<(SchemaVersion, Vec<Table>), String> {
    let document: Value = match json.trim_ascii().is_empty() {
        true => Value::Object(Map::new()),
        false => serde_json::from_slice(json)
            .map_err(|error| format!("the answer is no JSON document: {error}"))?,
    };
    let mut found = Vec::new();
    match &document {
        Value::Array(rows) => found.extend(listed("rows", rows)?),
        Value::Object(members) => {
            if let Some(table) = stated("rows", members)? {
                found.push(table);
            }
            add(&mut found, "", members, 0)?;
        }
        _ => {}
    }
    Ok((version(&document), found))
}

/// Adds the tables among the members of an object, and of objects in it.
fn add(
    found: &mut Vec<Table>,
    prefix: &str,
    members: &Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    if members.contains_key("columns") && members.contains_key("rows") {
        return Ok(());
    }
    for (name, value) in members {
        let name = joined(prefix, name);
        match value {
            Value::Array(rows) => found.extend(listed(&name, rows)?),
            Value::Object(inner) => match stated(&name, inner)? {
                Some(table) => found.push(table),
                None if depth < DEPTH => add(found, &name, inner, depth + 1)?,
                None => {}
            },
            _ => {}
        }
    }
    Ok(())
}

/// Returns the version that a document states, as `1.2`, `1` or `name/1.2`.
fn version(document: &Value) -> SchemaVersion {
    let stated = ["schema_version", "schema"].iter().find_map(|key| {
        Some(match document.get(*key)? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    });
    let stated = stated.unwrap_or_default();
    let number = stated.rsplit('/').next().unwrap_or_default();
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    SchemaVersion::new(major.parse().unwrap_or(1), minor.parse().unwrap_or(0))
}

fn joined(prefix: &str, name: &str) -> String {
    match prefix {
        "" => name.to_owned(),
        _ => format!("{prefix}_{name}"),
    }
}

/// Returns the table of an object that has `columns` and `rows`.
fn stated(name: &str, object: &Map<String, Value>) -> Result<Option<Table>, String> {
    let parts = (object.get("columns"), object.get("rows"));
    let (Some(Value::Array(columns)), Some(Value::Array(rows))) = parts else {
        return Ok(None);
    };
    let columns: Option<Vec<(String, Kind, String)>> = columns
        .iter()
        .map(|column| {
            let text = |key: &str| column.get(key).and_then(Value::as_str);
            let kind = kind_named(text("kind")?)?;
            let title = text("title").unwrap_or_default().to_owned();
            Some((text("name")?.to_owned(), kind, title))
        })
        .collect();
    let Some(columns) = columns.filter(|columns| !columns.is_empty()) else {
        return Ok(None);
    };
    let made = columns.iter().map(|(name, kind, title)| {
        let column = Column::new(name.clone(), *kind);
        match title.is_empty() {
            true => column,
            false => column.title(title.clone()),
        }
    });
    let keys: Vec<(String, Kind)> = columns.iter().map(|c| (c.0.clone(), c.1)).collect();
    let rows = rows.iter().filter_map(Value::as_object);
    let rows = rows.map(|row| {
        row.iter()
            .map(|(key, value)| (key.clone(), value))
            .collect()
    });
    filled(name, made.collect(), &keys, rows).map(Some)
}

fn kind_named(name: &str) -> Option<Kind> {
    [Kind::Int, Kind::UInt, Kind::Real, Kind::Text, Kind::Bool]
        .into_iter()
        .find(|kind| kind.name() == name)
}

/// The values of a row by column.
type Row<'v> = Vec<(String, &'v Value)>;

/// Returns the table of a list of objects; `None` for other lists.
fn listed(name: &str, rows: &[Value]) -> Result<Option<Table>, String> {
    if rows.is_empty() || !rows.iter().all(Value::is_object) {
        return Ok(None);
    }
    let rows: Vec<Row<'_>> = rows
        .iter()
        .filter_map(Value::as_object)
        .map(|row| {
            let mut flat = Row::new();
            flatten("", row, 0, &mut flat);
            flat
        })
        .collect();
    let mut keys: Vec<(String, Option<Kind>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (key, value) in rows.iter().flatten() {
        let at = *places.entry(key.clone()).or_insert_with(|| {
            keys.push((key.clone(), None));
            keys.len() - 1
        });
        if let Some((_, kind)) = keys.get_mut(at) {
            *kind = wider(*kind, kind_of(value));
        }
    }
    if keys.is_empty() {
        return Ok(None);
    }
    // A column of nulls alone is text.
    let keys: Vec<(String, Kind)> = keys
        .into_iter()
        .map(|(key, kind)| (key, kind.unwrap_or(Kind::Text)))
        .collect();
    let columns = keys.iter();
    let columns = columns.map(|(key, kind)| Column::new(key.clone(), *kind));
    filled(name, columns.collect(), &keys, rows.into_iter()).map(Some)
}

fn flatten<'v>(prefix: &str, object: &'v Map<String, Value>, depth: usize, row: &mut Row<'v>) {
    for (name, value) in object {
        let name = joined(prefix, name);
        match value {
            Value::Object(inner) if depth < DEPTH && !inner.is_empty() => {
                flatten(&name, inner, depth + 1, row);
            }
            // The first of two members that join to one name is kept.
            _ if row.iter().any(|(known, _)| *known == name) => {}
            _ => row.push((name, value)),
        }
    }
}

fn kind_of(value: &Value) -> Option<Kind> {
    match value {
        Value::Null => None,
        Value::Bool(_) => Some(Kind::Bool),
        Value::Number(number) if number.is_i64() => Some(Kind::Int),
        Value::Number(number) if number.is_u64() => Some(Kind::UInt),
        Value::Number(_) => Some(Kind::Real),
        _ => Some(Kind::Text),
    }
}

/// Returns the kind that holds values of both.
fn wider(a: Option<Kind>, b: Option<Kind>) -> Option<Kind> {
    match (a, b) {
        (None, kind) | (kind, None) => kind,
        (Some(a), Some(b)) if a == b => Some(a),
        (Some(Kind::Int | Kind::UInt | Kind::Real), Some(Kind::Int | Kind::UInt | Kind::Real)) => {
            match (a, b) {
                (Some(Kind::Real), _) | (_, Some(Kind::Real)) => Some(Kind::Real),
                // Negative ones may be among them, which only text keeps exactly beside those beyond 2^63.
                _ => Some(Kind::Text),
            }
        }
        _ => Some(Kind::Text),
    }
}

fn filled<'v>(
    name: &str,
    columns: Vec<Column>,
    keys: &[(String, Kind)],
    rows: impl Iterator<Item = Row<'v>>,
) -> Result<Table, String> {
    let failed = |error: report::Error| format!("table {name}: {error}");
    let mut table = Table::new(name.to_owned(), columns).map_err(failed)?;
    for row in rows {
        let values: Vec<Option<&Value>> = keys
            .iter()
            .map(|(key, _)| row.iter().find(|(name, _)| name == key).map(|pair| pair.1))
            .collect();
        let texts: Vec<Option<String>> = keys
            .iter()
            .zip(&values)
            .map(|((_, kind), value)| match (kind, value) {
                (_, None | Some(Value::Null)) => None,
                (Kind::Text, Some(Value::String(text))) => Some(text.clone()),
                (Kind::Text, Some(other)) => Some(other.to_string()),
                _ => None,
            })
            .collect();
        let cells: Vec<Cell<'_>> = keys
            .iter()
            .zip(&values)
            .zip(&texts)
            .map(|(((_, kind), value), text)| {
                let value = value.unwrap_or(&Value::Null);
                let cell = match kind {
                    Kind::Int => value.as_i64().map(Cell::Int),
                    Kind::UInt => value.as_u64().map(Cell::UInt),
                    Kind::Real => value.as_f64().map(Cell::Real),
                    Kind::Bool => value.as_bool().map(Cell::Bool),
                    Kind::Text => text.as_deref().map(Cell::Text),
                };
                cell.unwrap_or(Cell::Null)
            })
            .collect();
        table.push(&cells).map_err(failed)?;
    }
    Ok(table)
}
