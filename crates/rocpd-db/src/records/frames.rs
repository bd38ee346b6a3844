//! Call stacks and source lines of events, which the 4.1.0 draft keeps in tables of their own, as the JSON lists that the views show.

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::partition::Partition;
use crate::value::Fields;

/// JSON lists by id of the event.
pub(super) type Lists = FxHashMap<i64, String>;

/// What a row has of the source: function, file and line.
type Place = (Option<String>, Option<String>, Option<i64>);

/// Frames or lines of an event before they are a list: where they come, row id, place.
type Rows = FxHashMap<i64, Vec<(i64, i64, Place)>>;

/// Call stacks, the innermost frame (depth 0) first. Memory: the text of each list.
pub(super) fn call_stacks(partition: &Partition) -> Result<Lists> {
    let (Some(table), false) = (
        partition.table("rocpd_call_stack"),
        partition.has_column("rocpd_event", "call_stack"),
    ) else {
        return Ok(Lists::default());
    };
    let places = places(partition, "rocpd_info_pc", "line")?;
    let pick = table.def.pick(["event_id", "depth", "pc_id"]);
    let mut cursor = table.cursor(partition)?;
    let mut rows = Rows::default();
    while let Some((rowid, values)) = cursor.next(&pick)? {
        let row = Fields(&values);
        let number = |slot| row.int(slot).ok().flatten();
        if let (Some(event), Some(depth)) = (number(0), number(1)) {
            let place = number(2).and_then(|pc| places.get(&pc)).cloned();
            let frames = rows.entry(event).or_default();
            frames.push((depth, rowid, place.unwrap_or_default()));
        }
    }
    Ok(lists(rows, |depth| format!("\"depth\":{depth},")))
}

/// Source lines in the order of their rows.
pub(super) fn line_infos(partition: &Partition) -> Result<Lists> {
    let (Some(table), false) = (
        partition.table("rocpd_line_info"),
        partition.has_column("rocpd_event", "line_info"),
    ) else {
        return Ok(Lists::default());
    };
    let counters = places(partition, "rocpd_info_pc", "line")?;
    let sources = places(partition, "rocpd_info_source_code", "line_number")?;
    let pick = table.def.pick(["event_id", "pc_id", "source_code_id"]);
    let mut cursor = table.cursor(partition)?;
    let mut rows = Rows::default();
    while let Some((rowid, values)) = cursor.next(&pick)? {
        let row = Fields(&values);
        let number = |slot| row.int(slot).ok().flatten();
        let of = |places: &FxHashMap<i64, Place>, id: Option<i64>| {
            id.and_then(|id| places.get(&id))
                .cloned()
                .unwrap_or_default()
        };
        if let Some(event) = number(0) {
            let (function, file, line) = of(&counters, number(1));
            let (_, source_file, source_line) = of(&sources, number(2));
            let place = (function, source_file.or(file), source_line.or(line));
            rows.entry(event).or_default().push((0, rowid, place));
        }
    }
    Ok(lists(rows, |_| String::new()))
}

/// Function, file and line of each row of a table.
fn places(partition: &Partition, base: &str, line: &'static str) -> Result<FxHashMap<i64, Place>> {
    let mut found = FxHashMap::default();
    let Some(table) = partition.table(base) else {
        return Ok(found);
    };
    let pick = table.def.pick(["id", "function", "file", line]);
    let mut cursor = table.cursor(partition)?;
    while let Some((_, values)) = cursor.next(&pick)? {
        let row = Fields(&values);
        if let Ok(Some(id)) = row.int(0) {
            let line = row.int(3).ok().flatten();
            found.insert(id, (row.text(1), row.text(2), line));
        }
    }
    Ok(found)
}

/// The JSON lists; `head` makes the members before the place.
fn lists(rows: Rows, head: impl Fn(i64) -> String) -> Lists {
    let text = |value: Option<String>| {
        value.map_or("null".to_owned(), |text| {
            serde_json::Value::from(text).to_string()
        })
    };
    let list = |mut frames: Vec<(i64, i64, Place)>| {
        frames.sort_by_key(|(depth, rowid, _)| (*depth, *rowid));
        let frames = frames
            .into_iter()
            .map(|(depth, _, (function, file, line))| {
                let line = line.map_or("null".to_owned(), |line| line.to_string());
                format!(
                    "{{{}\"function\":{},\"file\":{},\"line\":{line}}}",
                    head(depth),
                    text(function),
                    text(file)
                )
            });
        format!("[{}]", frames.collect::<Vec<_>>().join(","))
    };
    rows.into_iter()
        .map(|(event, frames)| (event, list(frames)))
        .collect()
}
