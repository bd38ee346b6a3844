//! Tests CSV: quoting, nulls, reals, and reading back.

use proptest::prelude::*;
use report::{Cell, Column, CsvOptions, CsvWriter, Error, Kind, RealFormat, RowSink, real_text};

fn csv(options: CsvOptions, columns: &[Column], rows: &[&[Cell<'_>]]) -> String {
    let mut out = Vec::new();
    let mut sink = CsvWriter::new(&mut out, options);
    sink.begin(columns).unwrap();
    for row in rows {
        sink.row(row).unwrap();
    }
    sink.finish().unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn fields_are_quoted_only_when_they_must_be() {
    let cases = [
        ("plain", "plain"),
        ("two words", "two words"),
        ("a,b", "\"a,b\""),
        ("a\"b", "\"a\"\"b\""),
        ("\"", "\"\"\"\""),
        ("a\nb", "\"a\nb\""),
        ("a\rb", "\"a\rb\""),
        ("tab\there", "tab\there"),
        (" padded ", " padded "),
        ("", ""),
        ("'=cmd'", "'=cmd'"),
        ("é \"\\", "\"é \"\"\\\""),
        ("f<float, 4>", "\"f<float, 4>\""),
    ];
    for (field, expected) in cases {
        let columns = [
            Column::uint("id"),
            Column::text("text"),
            Column::bool("last"),
        ];
        let row = [Cell::UInt(1), Cell::Text(field), Cell::Bool(true)];
        let text = csv(CsvOptions::default(), &columns, &[&row]);
        assert_eq!(
            text,
            format!("id,text,last\n1,{expected},true\n"),
            "{field:?}"
        );
    }
    // A special byte after the first block.
    let long = format!("{}\"{}", "x".repeat(200), "y".repeat(70));
    let text = csv(
        CsvOptions {
            header: false,
            ..CsvOptions::default()
        },
        &[Column::text("t")],
        &[&[Cell::Text(&long)]],
    );
    assert_eq!(
        text,
        format!("\"{}\"\"{}\"\n", "x".repeat(200), "y".repeat(70))
    );
}

#[test]
fn null_text_header_and_extremes() {
    let columns = [Column::int("a"), Column::uint("b"), Column::text("c,d")];
    let rows: [&[Cell<'_>]; 2] = [
        &[Cell::Int(i64::MIN), Cell::UInt(u64::MAX), Cell::Text("")],
        &[Cell::Null; 3],
    ];
    let options = CsvOptions {
        null: "\\N".into(),
        ..CsvOptions::default()
    };
    let expected = "a,b,\"c,d\"\n-9223372036854775808,18446744073709551615,\n\\N,\\N,\\N\n";
    assert_eq!(csv(options, &columns, &rows), expected);
    let options = CsvOptions {
        null: "no, nothing".into(),
        header: false,
        ..CsvOptions::default()
    };
    assert_eq!(
        csv(options, &columns[..1], &[&[Cell::Null]]),
        "\"no, nothing\"\n"
    );
}

/// A reader skips blank lines, so a lone empty field must not become one.
#[test]
fn a_lone_empty_field_is_still_a_row() {
    assert_eq!(
        csv(
            CsvOptions::default(),
            &[Column::text("t")],
            &[&[Cell::Text("")], &[Cell::Null]]
        ),
        "t\n\"\"\n\"\"\n"
    );
}

#[test]
fn significant15_against_c_and_sqlite() {
    // printf("%.15g") of each, with the point that SQLite adds.
    let table: &[(f64, &str)] = &[
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (5.0, "5.0"),
        (-4.0, "-4.0"),
        (0.1, "0.1"),
        (0.1 + 0.2, "0.3"),
        (1.0 / 3.0, "0.333333333333333"),
        (2.0 / 3.0, "0.666666666666667"),
        (300.25, "300.25"),
        (1e300, "1.0e+300"),
        (1e-300, "1.0e-300"),
        (1.5e300, "1.5e+300"),
        (f64::MAX, "1.79769313486232e+308"),
        (f64::MIN_POSITIVE, "2.2250738585072e-308"),
        (5e-324, "4.94065645841247e-324"),
        (-9_223_372_036_854_775_808.0, "-9.22337203685478e+18"),
        (123_456_789_012_345.0, "123456789012345.0"),
        (999_999_999_999_999.0, "999999999999999.0"),
        (1e15, "1.0e+15"),
        (999_999_999_999_999.9, "1.0e+15"),
        (1e14, "100000000000000.0"),
        (0.0001, "0.0001"),
        (0.00012345, "0.00012345"),
        (0.0000123, "1.23e-05"),
        (0.000_099_999_999_999_999_99, "0.0001"),
        (12_345.678_901_234_567, "12345.6789012346"),
        (100.0, "100.0"),
        (1e10, "10000000000.0"),
    ];
    for &(value, expected) in table {
        assert_eq!(
            real_text(value, RealFormat::Significant15),
            expected,
            "{value:e}"
        );
    }
}

#[test]
fn the_other_real_formats() {
    // Value, shortest, Python's repr, three decimals.
    let table: &[(f64, &str, &str, &str)] = &[
        (5.0, "5", "5.0", "5.000"),
        (0.1, "0.1", "0.1", "0.100"),
        (-0.0, "-0", "-0.0", "-0.000"),
        (1e16, "10000000000000000", "1e+16", "10000000000000000.000"),
        (
            1e15,
            "1000000000000000",
            "1000000000000000.0",
            "1000000000000000.000",
        ),
        (
            1.25e22,
            "1.25e22",
            "1.25e+22",
            "12499999999999998951424.000",
        ),
        (1e-5, "0.00001", "1e-05", "0.000"),
        (1.5e-9, "1.5e-9", "1.5e-09", "0.000"),
        (
            0.055_110_165_104_495_956,
            "0.055110165104495956",
            "0.055110165104495956",
            "0.055",
        ),
        (0.0625, "0.0625", "0.0625", "0.062"),
        (f64::NAN, "NaN", "NaN", "NaN"),
        (f64::NEG_INFINITY, "-inf", "-inf", "-inf"),
    ];
    for &(value, shortest, point, fixed) in table {
        assert_eq!(real_text(value, RealFormat::Shortest), shortest);
        assert_eq!(real_text(value, RealFormat::ShortestPoint), point);
        assert_eq!(real_text(value, RealFormat::Fixed(3)), fixed);
    }
}

#[test]
fn the_writer_format_wins_over_the_column() {
    let columns = [
        Column::real("a"),
        Column::real("b").reals(RealFormat::Fixed(6)),
    ];
    let row: &[Cell<'_>] = &[Cell::Real(2.5), Cell::Real(2.5)];
    assert_eq!(
        csv(CsvOptions::default(), &columns, &[row]),
        "a,b\n2.5,2.500000\n"
    );
    let options = CsvOptions {
        reals: Some(RealFormat::Significant15),
        ..CsvOptions::default()
    };
    assert_eq!(csv(options, &columns, &[row]), "a,b\n2.5,2.5\n");
}

#[test]
fn misuse_is_named() {
    let mut sink = CsvWriter::new(Vec::new(), CsvOptions::default());
    assert!(matches!(
        sink.row(&[Cell::Null]),
        Err(Error::OutOfOrder { call: "row" })
    ));
    assert!(matches!(sink.begin(&[]), Err(Error::NoColumns)));
    let twice = [Column::int("a"), Column::text("b"), Column::real("a")];
    assert!(matches!(sink.begin(&twice), Err(Error::DuplicateColumn { name }) if &*name == "a"));
    sink.begin(&twice[..2]).unwrap();
    sink.row(&[Cell::Int(1), Cell::Null]).unwrap();
    let error = sink.row(&[Cell::Int(1)]).unwrap_err();
    assert!(matches!(
        error,
        Error::RowWidth {
            row: 1,
            found: 1,
            expected: 2
        }
    ));
    let error = sink.row(&[Cell::UInt(1), Cell::Null]).unwrap_err();
    assert!(matches!(
        &error,
        Error::CellKind {
            row: 1,
            expected: Kind::Int,
            found: Kind::UInt,
            ..
        }
    ));
    assert_eq!(
        error.to_string(),
        "row 1, column `a`: the column holds int values, not uint"
    );
    sink.finish().unwrap();
    assert!(matches!(
        sink.finish(),
        Err(Error::OutOfOrder { call: "finish" })
    ));
}

/// A closed pipe must reach the caller unchanged, so that a tool can treat it as success.
#[test]
fn a_broken_pipe_keeps_its_kind() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut sink = CsvWriter::new(Closed, CsvOptions::default());
    sink.begin(&[Column::int("a")]).unwrap();
    assert!(
        matches!(sink.finish(), Err(Error::Io(e)) if e.kind() == std::io::ErrorKind::BrokenPipe)
    );
}

/// Parses records and fields according to RFC 4180; a quoted field is marked.
fn parse(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut field = String::new();
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(
        !quoted && row.is_empty() && field.is_empty(),
        "ends inside a record"
    );
    rows
}

proptest! {
    #[test]
    fn csv_reads_back(rows in prop::collection::vec((".{0,12}", any::<i64>(), any::<f64>(), "[,\"\r\na]{0,4}"), 0..40)) {
        let columns = [Column::text("text"), Column::int("int"), Column::real("real"), Column::text("hostile")];
        let cells: Vec<[Cell<'_>; 4]> =
            rows.iter().map(|(a, b, c, d)| [a.into(), (*b).into(), (*c).into(), d.into()]).collect();
        let cells: Vec<&[Cell<'_>]> = cells.iter().map(|row| &row[..]).collect();
        for format in [RealFormat::Shortest, RealFormat::ShortestPoint] {
            let options = CsvOptions { reals: Some(format), header: false, ..CsvOptions::default() };
            let parsed = parse(&csv(options, &columns, &cells));
            prop_assert_eq!(parsed.len(), rows.len());
            for (fields, (a, b, c, d)) in parsed.iter().zip(&rows) {
                prop_assert_eq!(fields.len(), 4);
                prop_assert_eq!(&fields[0], a);
                prop_assert_eq!(fields[1].parse::<i64>().unwrap(), *b);
                let real: f64 = fields[2].parse().unwrap();
                prop_assert!(real.to_bits() == c.to_bits() || (real.is_nan() && c.is_nan()));
                prop_assert_eq!(&fields[3], d);
            }
        }
    }

    /// `%.15g` loses at most half a unit in the fifteenth digit, and always parses as a real.
    #[test]
    fn significant15_is_close_and_has_a_point(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
        let text = real_text(value, RealFormat::Significant15);
        prop_assert!(text.contains('.'), "{}", text);
        let exact = format!("{value:.14e}").parse::<f64>().unwrap();
        prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), exact.to_bits());
    }
}
