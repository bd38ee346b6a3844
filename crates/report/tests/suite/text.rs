//! Tests text output: alignment, widths, escapes, Markdown, and human units.

use report::{
    Cell, Column, Error, Format, RealFormat, RowSink, Table, TextOptions, TextWriter, Unit, human,
    text,
};

fn table() -> Table {
    let columns = vec![
        Column::text("kernel"),
        Column::uint("launches").unit(Unit::Count),
        Column::uint("gpu_ns").unit(Unit::Nanos).title("GPU time"),
        Column::real("share_pct").unit(Unit::Pct).title("share"),
    ];
    let mut table = Table::new("kernels", columns).unwrap();
    table
        .push(&[
            "all_reduce".into(),
            12_345_u64.into(),
            1_234_567_u64.into(),
            98.76_f64.into(),
        ])
        .unwrap();
    table
        .push(&[
            "日本語".into(),
            7_u64.into(),
            999_u64.into(),
            0.001_f64.into(),
        ])
        .unwrap();
    table
        .push(&[
            Cell::Null,
            Cell::Null,
            59_000_000_000_u64.into(),
            Cell::Null,
        ])
        .unwrap();
    table
}

#[test]
fn columns_line_up_and_wide_characters_count_twice() {
    let expected = "\
kernel      launches  GPU time    share
──────────  ────────  ────────  ───────
all_reduce    12,345  1.235 ms  98.76 %
日本語             7    999 ns  <0.01 %
-                  -   59.00 s        -
";
    assert_eq!(table().to_text(&TextOptions::default()), expected);
}

#[test]
fn bare_numbers_with_machine_names_on_request() {
    let text = table().to_text(&TextOptions {
        human: false,
        ..TextOptions::default()
    });
    let first = text.lines().next().unwrap();
    assert_eq!(
        first.split_whitespace().collect::<Vec<_>>(),
        ["kernel", "launches", "gpu_ns", "share_pct"]
    );
    assert_eq!(
        text.lines()
            .nth(2)
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["all_reduce", "12345", "1234567", "98.76"]
    );
}

#[test]
fn the_widest_text_is_cut_in_the_middle_and_numbers_never() {
    let columns = vec![Column::text("a"), Column::text("b"), Column::uint("n")];
    let mut table = Table::new("t", columns).unwrap();
    table
        .push(&[
            "x".repeat(50).as_str().into(),
            "short".into(),
            u64::MAX.into(),
        ])
        .unwrap();
    // 20 + 2 + 5 + 2 + 11 = 40
    let cut = table.to_text(&TextOptions {
        width: Some(40),
        ..TextOptions::default()
    });
    assert_eq!(
        cut.lines().last().unwrap(),
        format!(
            "{}…{}  short  18446744073709551615",
            "x".repeat(5),
            "x".repeat(5)
        )
    );
    assert!(cut.lines().all(|line| line.chars().count() <= 40));
    let narrow = table.to_text(&TextOptions {
        width: Some(1),
        ..TextOptions::default()
    });
    assert!(narrow.contains("18446744073709551615") && narrow.contains("xxxx…xxx"));
    let whole = table.to_text(&TextOptions::default());
    assert!(whole.contains(&"x".repeat(50)));
}

#[test]
fn two_long_columns_share_the_loss() {
    let mut table = Table::new("t", vec![Column::text("a"), Column::text("b")]).unwrap();
    table
        .push(&[
            "a".repeat(100).as_str().into(),
            "b".repeat(60).as_str().into(),
        ])
        .unwrap();
    let cut = table.to_text(&TextOptions {
        width: Some(52),
        ..TextOptions::default()
    });
    let cells: Vec<usize> = cut
        .lines()
        .last()
        .unwrap()
        .split("  ")
        .map(|cell| cell.chars().count())
        .collect();
    assert_eq!(cells, [25, 25]);
}

#[test]
fn shortening_respects_display_width() {
    assert_eq!(text::shorten("abcdefghij", 10), "abcdefghij");
    assert_eq!(text::shorten("abcdefghij", 9), "abcd…ghij");
    assert_eq!(text::shorten("日本語日本語", 7), "日…語");
    assert_eq!(text::shorten("abc", 1), "…");
    assert_eq!(text::shorten("abc", 0), "…");
}

#[test]
fn a_terminal_cannot_be_attacked() {
    let hostile = "\u{1b}[2J\u{7}a\nb\tc\r\u{9b}31m\u{202e}\u{200b}\u{7f}";
    assert_eq!(
        text::printable(hostile),
        "\\x1b[2J\\x07a\\nb\\tc\\r\\u{9b}31m\\u{202e}\\u{200b}\\x7f"
    );
    let mut table = Table::new("t", vec![Column::text("a").title("\u{1b}]0;x")]).unwrap();
    table.push(&[hostile.into()]).unwrap();
    for markdown in [false, true] {
        let text = table.to_text(&TextOptions {
            markdown,
            ..TextOptions::default()
        });
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "{text:?}"
        );
        assert_eq!(text.lines().count(), 3);
    }
    assert!(matches!(
        text::printable("plain é 日本"),
        std::borrow::Cow::Borrowed(_)
    ));
}

#[test]
fn markdown_escapes_what_it_would_interpret() {
    let mut table = Table::new("t", vec![Column::text("name"), Column::int("n")]).unwrap();
    table.push(&["f<int>|*x*".into(), (-3_i64).into()]).unwrap();
    let mut out = Vec::new();
    let mut sink = Format::Markdown.sink(&mut out);
    table.write_to(sink.as_mut()).unwrap();
    drop(sink);
    let expected = "\
| name            |   n |
| :-------------- | --: |
| f\\<int\\>\\|\\*x\\* |  -3 |
";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn an_empty_table_says_so() {
    let table = Table::new("t", vec![Column::text("name")]).unwrap();
    assert_eq!(
        table.to_text(&TextOptions::default()),
        "name\n────\n(no rows)\n"
    );
}

#[test]
fn the_writer_and_the_table_agree() {
    let mut out = Vec::new();
    let mut sink = TextWriter::new(&mut out, TextOptions::default());
    assert!(matches!(
        sink.row(&[Cell::Null]),
        Err(Error::OutOfOrder { call: "row" })
    ));
    table().write_to(&mut sink).unwrap();
    assert!(matches!(
        sink.begin(&[Column::int("a")]),
        Err(Error::OutOfOrder { call: "begin" })
    ));
    assert_eq!(
        String::from_utf8(out).unwrap(),
        table().to_text(&TextOptions::default())
    );
}

#[test]
fn durations() {
    let cases: &[(f64, &str)] = &[
        (0.0, "0 ns"),
        (1.0, "1 ns"),
        (999.0, "999 ns"),
        (0.25, "0.250 ns"),
        (999.96, "1.000 µs"),
        (1000.0, "1.000 µs"),
        (1234.0, "1.234 µs"),
        (12_345.0, "12.35 µs"),
        (999_940.0, "999.9 µs"),
        (999_960.0, "1.000 ms"),
        (-1_500_000.0, "-1.500 ms"),
        (9_999_600.0, "10.00 ms"),
        (1e9, "1.000 s"),
        (119e9, "119.0 s"),
        (119.6e9, "2 min 00 s"),
        (725e9, "12 min 05 s"),
        (12_300e9, "3 h 25 min"),
        (-183_600e9, "-2 d 03 h"),
    ];
    for &(ns, expected) in cases {
        assert_eq!(human::duration(ns), expected, "{ns}");
    }
    assert_eq!(human::duration(f64::NAN), "NaN");
}

#[test]
fn sizes_rates_counts_and_percents() {
    assert_eq!(human::bytes(0.0), "0 B");
    assert_eq!(human::bytes(1023.0), "1023 B");
    assert_eq!(human::bytes(1024.0), "1.000 KiB");
    assert_eq!(human::bytes(1_048_575.0), "1.000 MiB");
    assert_eq!(human::bytes(3.25 * 1024.0 * 1024.0 * 1024.0), "3.250 GiB");
    assert_eq!(human::bytes(1000.0 * 1024.0 * 1024.0), "1000 MiB");
    assert_eq!(human::byte_rate(12.5e9), "12.50 GB/s");
    assert_eq!(human::count(0_u64), "0");
    assert_eq!(human::count(999_u64), "999");
    assert_eq!(human::count(1000_u64), "1,000");
    assert_eq!(human::count(u64::MAX), "18,446,744,073,709,551,615");
    assert_eq!(human::count(i64::MIN), "-9,223,372,036,854,775,808");
    assert_eq!(human::short_count(950.0), "950");
    assert_eq!(human::short_count(1234.5), "1.234 k");
    assert_eq!(human::quantity(1500.0, Unit::PerSecond), "1.500 k/s");
    assert_eq!(human::quantity(12.0, Unit::PerSecond), "12 /s");
    assert_eq!(human::percent(0.0), "0.00 %");
    assert_eq!(human::percent(0.004), "<0.01 %");
    assert_eq!(human::percent(-0.004), ">-0.01 %");
    assert_eq!(human::percent(100.0), "100.00 %");
    assert_eq!(human::quantity(1.5, Unit::Seconds), "1.500 s");
}

#[test]
fn reals_without_a_unit_keep_four_digits() {
    for (value, expected) in [
        (5.0, "5"),
        (0.333_333, "0.3333"),
        (12_345.678, "12346"),
        (0.001_234_5, "0.001234"),
        (1.5e-9, "1.500e-9"),
    ] {
        assert_eq!(human::quantity(value, Unit::None), expected);
    }
    let column = Column::real("ratio").reals(RealFormat::Fixed(1));
    assert_eq!(human::cell(&column, Cell::Real(0.25)), "0.2");
}
