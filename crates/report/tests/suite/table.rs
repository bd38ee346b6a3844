//! Tests that tables return their values and use little memory.

use proptest::prelude::*;
use report::{Cell, Column, Error, Kind, Table};

const KINDS: [Kind; 5] = [Kind::Int, Kind::UInt, Kind::Real, Kind::Text, Kind::Bool];

/// One value of any kind, owned.
#[derive(Debug, Clone)]
struct Row(
    Option<i64>,
    Option<u64>,
    Option<f64>,
    Option<String>,
    Option<bool>,
);

impl Row {
    fn cells(&self) -> [Cell<'_>; 5] {
        [
            self.0.into(),
            self.1.into(),
            self.2.into(),
            self.3.as_ref().into(),
            self.4.into(),
        ]
    }
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let real =
        prop::option::of(prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::INFINITE);
    let row = (
        any::<Option<i64>>(),
        any::<Option<u64>>(),
        real,
        prop::option::of(".{0,9}"),
        any::<Option<bool>>(),
    );
    prop::collection::vec(row.prop_map(|(a, b, c, d, e)| Row(a, b, c, d, e)), 0..300)
}

fn table(rows: &[Row]) -> Table {
    let columns = KINDS
        .iter()
        .map(|kind| Column::new(kind.name(), *kind))
        .collect();
    let mut table = Table::new("all kinds", columns).unwrap();
    for row in rows {
        table.push(&row.cells()).unwrap();
    }
    table
}

proptest! {
    #[test]
    fn tables_give_back_their_rows(rows in rows()) {
        let table = table(&rows);
        prop_assert_eq!(table.rows(), rows.len());
        let mut cells = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            table.row_into(index, &mut cells);
            prop_assert_eq!(&cells[..], &row.cells()[..]);
        }
        prop_assert_eq!(table.cell(rows.len(), 0), None);
        prop_assert_eq!(table.cell(0, 5), None);
    }
}

#[test]
fn a_refused_row_changes_nothing() {
    let mut table = Table::new("t", vec![Column::int("a"), Column::text("b")]).unwrap();
    table.push(&[1_i64.into(), "x".into()]).unwrap();
    assert!(matches!(
        table.push(&[2_i64.into(), 3_i64.into()]),
        Err(Error::CellKind {
            row: 1,
            found: Kind::Int,
            ..
        })
    ));
    assert_eq!(table.rows(), 1);
    table.push(&[2_i64.into(), Cell::Null]).unwrap();
    assert_eq!(
        (table.cell(1, 0), table.cell(1, 1)),
        (Some(Cell::Int(2)), Some(Cell::Null))
    );
}

/// Two numbers and a text of ten bytes in 100,000 rows: 8 + 8 + 8 + 10 bytes each, at most doubled
/// by growing vectors.
#[test]
fn memory_per_row_is_bounded() {
    let columns = vec![
        Column::int("ts"),
        Column::uint("dur_ns"),
        Column::text("name"),
    ];
    let mut table = Table::new("t", columns).unwrap();
    for row in 0..100_000_i64 {
        table
            .push(&[row.into(), 5_u64.into(), "ten bytes!".into()])
            .unwrap();
    }
    let per_row = table.heap_bytes() / 100_000;
    assert!((34..=68).contains(&per_row), "{per_row} bytes per row");
}

#[cfg(feature = "parquet")]
mod parquet_round_trip {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use report::{ParquetWriter, RowSink as _, SchemaVersion, Unit};

    fn file(table: &Table) -> bytes::Bytes {
        let mut out = Vec::new();
        table
            .write_to(&mut ParquetWriter::new(&mut out, SchemaVersion::new(3, 1)))
            .unwrap();
        out.into()
    }

    fn read(file: bytes::Bytes) -> Vec<Row> {
        let mut rows = Vec::new();
        for batch in ParquetRecordBatchReaderBuilder::try_new(file)
            .unwrap()
            .build()
            .unwrap()
        {
            let batch = batch.unwrap();
            let ints = batch.column(0).as_primitive::<Int64Type>();
            let uints = batch.column(1).as_primitive::<UInt64Type>();
            let reals = batch.column(2).as_primitive::<Float64Type>();
            let texts = batch.column(3).as_string::<i32>();
            let bools = batch.column(4).as_boolean();
            for i in 0..batch.num_rows() {
                rows.push(Row(
                    ints.is_valid(i).then(|| ints.value(i)),
                    uints.is_valid(i).then(|| uints.value(i)),
                    reals.is_valid(i).then(|| reals.value(i)),
                    texts.is_valid(i).then(|| texts.value(i).to_owned()),
                    bools.is_valid(i).then(|| bools.value(i)),
                ));
            }
        }
        rows
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn parquet_gives_back_the_rows(rows in rows()) {
            let table = table(&rows);
            let first = file(&table);
            prop_assert_eq!(&first, &file(&table));
            let back = read(first);
            prop_assert_eq!(back.len(), rows.len());
            for (left, right) in back.iter().zip(&rows) {
                prop_assert_eq!(left.cells(), right.cells());
            }
        }
    }

    #[test]
    fn many_batches_and_long_texts_arrive() {
        let mut table = table(&[]);
        let long = "x".repeat(300_000);
        for row in 0..150_000_u64 {
            let text = if row % 1000 == 0 { long.as_str() } else { "y" };
            table
                .push(&[
                    Cell::Null,
                    row.into(),
                    Cell::Null,
                    text.into(),
                    (row % 2 == 0).into(),
                ])
                .unwrap();
        }
        let back = read(file(&table));
        assert_eq!(back.len(), 150_000);
        assert_eq!(back[149_000].3.as_ref().unwrap().len(), 300_000);
        assert_eq!(
            back.iter().map(|row| row.1.unwrap()).sum::<u64>(),
            149_999 * 150_000 / 2
        );
    }

    #[test]
    fn repeating_texts_are_a_dictionary() {
        use arrow_array::types::Int32Type;
        use arrow_schema::DataType;
        let columns = vec![
            Column::text("op").repeating(),
            Column::uint("n").repeating(),
        ];
        let mut out = Vec::new();
        let mut writer = ParquetWriter::new(&mut out, SchemaVersion::new(1, 0));
        assert!(writer.add_metadata("late", "x").is_err());
        writer.begin(&columns).unwrap();
        // More rows than a batch holds.
        for row in 0..100_000_u64 {
            let text = ["RA", "WS", "RA"][usize::try_from(row % 3).unwrap()];
            let cell = if row == 99_999 {
                Cell::Null
            } else {
                text.into()
            };
            writer.row(&[cell, row.into()]).unwrap();
        }
        writer.add_metadata("late", "word").unwrap();
        writer.finish().unwrap();
        assert!(writer.add_metadata("late", "x").is_err());
        drop(writer);
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(out)).unwrap();
        assert_eq!(*builder.schema().field(1).data_type(), DataType::UInt64);
        let pairs = builder
            .metadata()
            .file_metadata()
            .key_value_metadata()
            .unwrap();
        let late = pairs.iter().find(|pair| pair.key == "late").unwrap();
        assert_eq!(late.value.as_deref(), Some("word"));
        let mut counts = [0, 0, 0];
        for batch in builder.build().unwrap() {
            let batch = batch.unwrap();
            let texts = batch.column(0).as_dictionary::<Int32Type>();
            let texts = texts.downcast_dict::<arrow_array::StringArray>().unwrap();
            for text in texts {
                let place = match text {
                    Some("RA") => 0,
                    Some("WS") => 1,
                    None => 2,
                    other => panic!("{other:?}"),
                };
                counts[place] += 1;
            }
        }
        assert_eq!(counts, [66_666, 33_333, 1]);
    }

    #[test]
    fn units_and_version_are_in_the_file() {
        let mut table = Table::new(
            "t",
            vec![Column::uint("dur_ns").unit(Unit::Nanos), Column::uint("id")],
        )
        .unwrap();
        table.push(&[1_u64.into(), 2_u64.into()]).unwrap();
        let builder = ParquetRecordBatchReaderBuilder::try_new(file(&table)).unwrap();
        assert_eq!(
            builder
                .schema()
                .field(0)
                .metadata()
                .get("unit")
                .map(String::as_str),
            Some("ns")
        );
        assert_eq!(builder.schema().field(1).metadata().get("unit"), None);
        let keys = builder
            .metadata()
            .file_metadata()
            .key_value_metadata()
            .unwrap();
        let version = keys
            .iter()
            .find(|pair| pair.key == SchemaVersion::KEY)
            .unwrap();
        assert_eq!(version.value.as_deref(), Some("3.1"));
    }
}
