//! Canonical rows as JSON, one object a line.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use byte_source::Source;
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::access::{Access, PAGE_BITS};
use crate::columns::{self, Cell};
use crate::error::Result;
use crate::names::{Name, Names};
use crate::report::ReadReport;
use crate::row_lines::RowLines;
use crate::schema::{REQUIRED_ROW_COLUMNS, TRACE_COLUMNS};

/// Longer lines are no rows.
const MAX_LINE_MIB: usize = 16;

/// A column that is there, null or not; absent is `None`.
fn there<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(from).map(Some)
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A whole number, also as `3.0`: data frames turn columns with gaps into floating point.
#[derive(Debug, Clone, Copy)]
struct Whole<T>(T);

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Numbers<T>(PhantomData<T>);
        impl<T: TryFrom<u64>> Visitor<'_> for Numbers<T> {
            type Value = Whole<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number of {} bits", 8 * size_of::<T>())
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Whole<T>, E> {
                let wrong = |_| E::invalid_value(Unexpected::Unsigned(number), &self);
                T::try_from(number).map(Whole).map_err(wrong)
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Whole<T>, E> {
                whole(number)
                    .and_then(|number| T::try_from(number).ok())
                    .map(Whole)
                    .ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
            }
        }
        from.deserialize_u64(Numbers(PhantomData))
    }
}

/// The whole number that a real one is.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole and in range"
)]
fn whole(number: f64) -> Option<u64> {
    let fits = number.fract() == 0.0 && (0.0..18_446_744_073_709_551_616.0).contains(&number);
    fits.then_some(number as u64)
}

/// A row as a text gives it: each column perhaps absent, and perhaps null.
#[derive(Deserialize, Default)]
pub(crate) struct Row<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    run_id: Option<Option<Text<'a>>>,
    #[serde(default, deserialize_with = "there")]
    sample_id: Option<Option<Whole<u64>>>,
    #[serde(default, deserialize_with = "there")]
    timestamp_ns: Option<Option<Whole<u64>>>,
    #[serde(default, deserialize_with = "there")]
    address: Option<Option<Whole<u64>>>,
    #[serde(default, deserialize_with = "there")]
    address_page: Option<Option<Whole<u64>>>,
    #[serde(borrow, default, deserialize_with = "there")]
    op_type: Option<Option<Text<'a>>>,
    #[serde(borrow, default)]
    phase: Option<Text<'a>>,
    #[serde(borrow, default)]
    symbol: Option<Text<'a>>,
    #[serde(borrow, default)]
    dso: Option<Text<'a>>,
    #[serde(borrow, default)]
    region_type: Option<Text<'a>>,
    #[serde(default)]
    region_id: Option<Whole<u64>>,
    #[serde(default)]
    access_latency_ns: Option<Whole<u32>>,
    #[serde(borrow, default)]
    cache_level: Option<Text<'a>>,
    #[serde(default)]
    numa_node: Option<Whole<u8>>,
    #[serde(default)]
    cpu_id: Option<Whole<u16>>,
    #[serde(default)]
    thread_id: Option<Whole<u32>>,
    #[serde(default)]
    token_index: Option<Whole<u32>>,
    #[serde(default)]
    context_tokens: Option<Whole<u32>>,
    #[serde(default)]
    latency_cycles: Option<Whole<u32>>,
    #[serde(default)]
    remote: Option<Whole<u8>>,
    #[serde(default)]
    hops: Option<Whole<u8>>,
    #[serde(default)]
    size_bytes: Option<Whole<u32>>,
    #[serde(default)]
    period: Option<Whole<u64>>,
    #[serde(default)]
    process_id: Option<Whole<u32>>,
}

impl<'a> Row<'a> {
    /// Sets a column by its place among those of a trace; an empty text is a null.
    ///
    /// # Errors
    ///
    /// What is wrong, when it should be a number and is none.
    pub(crate) fn set(&mut self, column: usize, cell: Cow<'a, str>) -> Result<(), String> {
        fn number<T: FromStr + TryFrom<u64>>(
            column: usize,
            cell: &str,
        ) -> Result<Option<Whole<T>>, String> {
            if cell.is_empty() {
                return Ok(None);
            }
            let name = columns::all().nth(column).unwrap_or_default();
            let real = || T::try_from(whole(cell.parse().ok()?)?).ok();
            let number = cell.parse().ok().or_else(real).map(Whole);
            let wrong = || format!("{name}: '{cell}' is no number that fits");
            number.map(Some).ok_or_else(wrong)
        }
        let text = |cell: Cow<'a, str>| (!cell.is_empty()).then_some(Text(cell));
        match column {
            0 => self.run_id = Some(text(cell)),
            1 => self.sample_id = Some(number(column, &cell)?),
            2 => self.timestamp_ns = Some(number(column, &cell)?),
            3 => self.phase = text(cell),
            4 => self.address = Some(number(column, &cell)?),
            5 => self.address_page = Some(number(column, &cell)?),
            6 => self.op_type = Some(text(cell)),
            7 => self.symbol = text(cell),
            8 => self.dso = text(cell),
            9 => self.region_type = text(cell),
            10 => self.region_id = number(column, &cell)?,
            11 => self.access_latency_ns = number(column, &cell)?,
            12 => self.cache_level = text(cell),
            13 => self.numa_node = number(column, &cell)?,
            14 => self.cpu_id = number(column, &cell)?,
            15 => self.thread_id = number(column, &cell)?,
            16 => self.token_index = number(column, &cell)?,
            17 => self.context_tokens = number(column, &cell)?,
            18 => self.latency_cycles = number(column, &cell)?,
            19 => self.remote = number(column, &cell)?,
            20 => self.hops = number(column, &cell)?,
            21 => self.size_bytes = number(column, &cell)?,
            22 => self.period = number(column, &cell)?,
            23 => self.process_id = number(column, &cell)?,
            _ => {}
        }
        Ok(())
    }

    /// Required columns that are absent, sorted.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let present = [
            self.run_id.is_some(),
            self.sample_id.is_some(),
            self.timestamp_ns.is_some(),
            self.address.is_some(),
            self.address_page.is_some(),
            self.op_type.is_some(),
        ];
        let mut missing: Vec<&'static str> = REQUIRED_ROW_COLUMNS
            .into_iter()
            .zip(present)
            .filter_map(|(name, present)| (!present).then_some(name))
            .collect();
        missing.sort_unstable();
        missing
    }

    /// The row, with defaults for what is absent.
    pub(crate) fn access(&self, names: &mut Names) -> Access {
        let mut name = |text: Option<&Text<'_>>, absent: Name| {
            text.map_or(absent, |text| names.intern(&text.0))
        };
        let required = |number: Option<Option<Whole<u64>>>| number.flatten().map_or(0, |n| n.0);
        let address = required(self.address);
        let page = required(self.address_page);
        let mut row = Access::new(required(self.timestamp_ns), address);
        if page != 0 {
            row.address_page = page;
        } else {
            row.address_page = address >> PAGE_BITS;
        }
        row.run_id = name(self.run_id.as_ref().and_then(Option::as_ref), Name::EMPTY);
        row.op = name(self.op_type.as_ref().and_then(Option::as_ref), Name::NULL);
        row.phase = name(self.phase.as_ref(), Name::NULL);
        row.symbol = name(self.symbol.as_ref(), Name::EMPTY);
        row.dso = name(self.dso.as_ref(), Name::EMPTY);
        row.region_type = name(self.region_type.as_ref(), Name::UNKNOWN);
        row.cache_level = name(self.cache_level.as_ref(), Name::NULL);
        row.sample_id = required(self.sample_id);
        row.region_id = self.region_id.map_or(0, |number| number.0);
        row.access_latency_ns = self.access_latency_ns.map(|number| number.0);
        row.latency_cycles = self.latency_cycles.map(|number| number.0);
        row.numa_node = self.numa_node.or(self.remote).map(|number| number.0);
        row.hops = self.hops.map(|number| number.0);
        row.size_bytes = self.size_bytes.map_or(0, |number| number.0);
        row.period = self.period.map_or(0, |number| number.0);
        row.cpu_id = self.cpu_id.map(|number| number.0);
        row.thread_id = self.thread_id.map(|number| number.0);
        row.process_id = self.process_id.map(|number| number.0);
        row.token_index = self.token_index.map(|number| number.0);
        row.context_tokens = self.context_tokens.map(|number| number.0);
        row
    }
}

/// Reads canonical rows, one JSON object a line.
///
/// Missing optional columns get their defaults, unknown ones are dropped, a page of 0 is computed.
#[derive(Debug)]
pub(crate) struct JsonRows {
    lines: RowLines,
}

impl JsonRows {
    pub(crate) fn new(source: Source) -> Result<Self> {
        let lines = RowLines::new(source, "rows-jsonl", MAX_LINE_MIB)?;
        Ok(Self { lines })
    }

    pub(crate) fn next_batch(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<bool> {
        self.lines.next_batch(rows, |lines| row(lines, names))
    }

    pub(crate) fn report(&self) -> ReadReport {
        self.lines.report()
    }
}

fn row(lines: &RowLines, names: &mut Names) -> Result<Access> {
    let bad = |error: serde_json::Error| lines.bad(error.to_string());
    let row: Row<'_> = serde_json::from_slice(lines.line()).map_err(bad)?;
    let missing = row.missing();
    if missing.is_empty() {
        return Ok(row.access(names));
    }
    let present: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(lines.line()).map_err(bad)?;
    Err(lines.missing(&missing, present.keys().map(String::as_str).collect()))
}

/// Appends a row as a line of JSON, the columns in their order; those that only our traces have, where something is known.
///
/// ```
/// use memtrace_labeller::{Access, Names, push_json_row};
/// let mut text = Vec::new();
/// push_json_row(&Access::new(5, 0x1000), &Names::new(), &mut text);
/// assert!(text.starts_with(br#"{"run_id":"","sample_id":0,"timestamp_ns":5,"phase":null,"address":4096,"address_page":1,"#));
/// ```
pub fn push_json_row(row: &Access, names: &Names, out: &mut Vec<u8>) {
    let cells = columns::cells(row, names).into_iter().enumerate();
    for ((at, cell), name) in cells.zip(columns::all()) {
        if at >= TRACE_COLUMNS.len() && cell == Cell::Null {
            continue;
        }
        out.extend_from_slice(if at == 0 { b"{\"" } else { b",\"" });
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        match cell {
            Cell::Null => out.extend_from_slice(b"null"),
            Cell::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
            // Writing a text into memory cannot fail.
            Cell::Text(text) => drop(serde_json::to_writer(&mut *out, text)),
            Cell::Wide(number) => out.extend_from_slice(number.as_bytes()),
        }
    }
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_have_a_point() {
        fn row(text: &str) -> Result<Row<'_>, String> {
            serde_json::from_str(text).map_err(|error| error.to_string())
        }
        let mut names = Names::new();
        let read =
            row(r#"{"cpu_id": 3.0, "timestamp_ns": 1.5e9, "address": 18446744073709551615}"#)
                .unwrap()
                .access(&mut names);
        assert_eq!((read.cpu_id, read.timestamp_ns), (Some(3), 1_500_000_000));
        assert_eq!(read.address, u64::MAX);
        for wrong in [
            r#"{"cpu_id": 3.5}"#,
            r#"{"cpu_id": 65536}"#,
            r#"{"cpu_id": -1}"#,
            r#"{"address": 18446744073709551616}"#,
        ] {
            assert!(row(wrong).is_err(), "{wrong}");
        }
        let mut cells = Row::default();
        cells.set(11, Cow::Borrowed("300.0")).unwrap();
        assert_eq!(cells.access(&mut names).access_latency_ns, Some(300));
        assert!(cells.set(11, Cow::Borrowed("300.5")).is_err());
    }
}
