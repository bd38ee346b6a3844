//! Tests JSON: every layout parses, keys keep their order, numbers are exact.

use report::{
    Cell, Column, JsonDocument, JsonLayout, JsonRowsWriter, RowSink, SchemaVersion, Table, Unit,
};
use serde_json::{Value, json};

fn columns() -> Vec<Column> {
    vec![
        Column::text("name"),
        Column::uint("dur_ns").unit(Unit::Nanos).title("duration"),
        Column::real("share_pct").unit(Unit::Pct),
        Column::int("delta"),
        Column::bool("linked"),
    ]
}

fn json(layout: JsonLayout, rows: &[[Cell<'_>; 5]]) -> String {
    let mut out = Vec::new();
    let mut sink = JsonRowsWriter::new(&mut out, layout);
    sink.begin(&columns()).unwrap();
    for row in rows {
        sink.row(row).unwrap();
    }
    sink.finish().unwrap();
    String::from_utf8(out).unwrap()
}

const ROW: [Cell<'static>; 5] = [
    Cell::Text("a\"\u{1}\n"),
    Cell::UInt(u64::MAX),
    Cell::Real(0.1),
    Cell::Int(i64::MIN),
    Cell::Bool(false),
];

#[test]
fn rows_are_objects_in_column_order_with_exact_numbers() {
    let text = json(JsonLayout::Array, &[ROW, [Cell::Null; 5]]);
    let expected = "[\n{\"name\":\"a\\\"\\u0001\\n\",\"dur_ns\":18446744073709551615,\"share_pct\":0.1,\
                    \"delta\":-9223372036854775808,\"linked\":false},\n\
                    {\"name\":null,\"dur_ns\":null,\"share_pct\":null,\"delta\":null,\"linked\":null}\n]\n";
    assert_eq!(text, expected);
    let parsed: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed[0]["name"], "a\"\u{1}\n");
    assert_eq!(parsed[0]["dur_ns"].as_u64(), Some(u64::MAX));
}

#[test]
fn what_json_cannot_say_is_null() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut row = ROW;
        row[2] = Cell::Real(value);
        let parsed: Value = serde_json::from_str(&json(JsonLayout::Array, &[row])).unwrap();
        assert_eq!(parsed[0]["share_pct"], Value::Null);
    }
}

#[test]
fn no_rows_is_an_empty_list() {
    assert_eq!(
        serde_json::from_str::<Value>(&json(JsonLayout::Array, &[])).unwrap(),
        json!([])
    );
    assert_eq!(json(JsonLayout::Lines, &[]), "");
}

#[test]
fn lines_are_documents_of_their_own() {
    let text = json(JsonLayout::Lines, &[ROW, ROW, ROW]);
    let parsed: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(parsed.len(), 3);
    assert_eq!(parsed[2]["delta"].as_i64(), Some(i64::MIN));
}

#[test]
fn a_document_tells_its_version_and_columns() {
    let parsed: Value = serde_json::from_str(&json(
        JsonLayout::Document(SchemaVersion::new(2, 1)),
        &[ROW],
    ))
    .unwrap();
    assert_eq!(parsed["schema_version"], "2.1");
    assert_eq!(
        parsed["columns"][1],
        json!({"name": "dur_ns", "kind": "uint", "unit": "ns", "title": "duration"})
    );
    assert_eq!(parsed["columns"].as_array().unwrap().len(), 5);
    assert_eq!(parsed["rows"].as_array().unwrap().len(), 1);
}

#[test]
fn a_document_mixes_members_and_tables() {
    let mut table = Table::new("kernels", columns()).unwrap();
    table.push(&ROW).unwrap();
    let mut out = Vec::new();
    let mut document = JsonDocument::new(&mut out, SchemaVersion::new(1, 0)).unwrap();
    document.member("tool", "nccl-stacks").unwrap();
    document.table("kernels", &table).unwrap();
    document.member("window", &(1, 2)).unwrap();
    document.finish().unwrap();
    let parsed: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(parsed["schema_version"], "1.0");
    assert_eq!(
        parsed["kernels"]["rows"][0]["dur_ns"].as_u64(),
        Some(u64::MAX)
    );
    assert_eq!(parsed["window"], json!([1, 2]));
    let order: Vec<usize> = ["schema_version", "tool", "\"kernels\"", "window"]
        .iter()
        .map(|key| std::str::from_utf8(&out).unwrap().find(key).unwrap())
        .collect();
    assert!(order.is_sorted());
}
