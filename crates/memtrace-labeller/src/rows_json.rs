//! Canonical rows as JSON, one object a line.

use std::borrow::Cow;
use std::str::FromStr;

use byte_source::Source;
use serde::{Deserialize, Deserializer};

use crate::access::{Access, PAGE_BITS};
use crate::columns::{self, Cell};
use crate::error::{Error, Result};
use crate::lines::{Line, Lines};
use crate::names::{Name, Names};
use crate::perf_text::Skip;
use crate::report::ReadReport;
use crate::schema::{REQUIRED_ROW_COLUMNS, TRACE_COLUMNS};

const BATCH_ROWS: usize = 16_384;
/// Longer lines are no rows.
const MAX_LINE: usize = 16 << 20;

/// A column that is there, null or not; absent is `None`.
fn there<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(from).map(Some)
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A row as a text gives it: each column perhaps absent, and perhaps null.
#[derive(Deserialize, Default)]
pub(crate) struct Row<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    run_id: Option<Option<Text<'a>>>,
    #[serde(default, deserialize_with = "there")]
    sample_id: Option<Option<u64>>,
    #[serde(default, deserialize_with = "there")]
    timestamp_ns: Option<Option<u64>>,
    #[serde(default, deserialize_with = "there")]
    address: Option<Option<u64>>,
    #[serde(default, deserialize_with = "there")]
    address_page: Option<Option<u64>>,
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
    region_id: Option<u64>,
    #[serde(default)]
    access_latency_ns: Option<u32>,
    #[serde(borrow, default)]
    cache_level: Option<Text<'a>>,
    #[serde(default)]
    numa_node: Option<u8>,
    #[serde(default)]
    cpu_id: Option<u16>,
    #[serde(default)]
    thread_id: Option<u32>,
    #[serde(default)]
    token_index: Option<u32>,
    #[serde(default)]
    context_tokens: Option<u32>,
    #[serde(default)]
    latency_cycles: Option<u32>,
    #[serde(default)]
    remote: Option<u8>,
    #[serde(default)]
    hops: Option<u8>,
    #[serde(default)]
    size_bytes: Option<u32>,
    #[serde(default)]
    period: Option<u64>,
}

impl<'a> Row<'a> {
    /// Sets a column by its place among those of a trace; an empty text is a null.
    ///
    /// # Errors
    ///
    /// What is wrong, when it should be a number and is none.
    pub(crate) fn set(&mut self, column: usize, cell: Cow<'a, str>) -> Result<(), String> {
        fn number<T: FromStr>(column: usize, cell: &str) -> Result<Option<T>, String> {
            if cell.is_empty() {
                return Ok(None);
            }
            let name = columns::all().nth(column).unwrap_or_default();
            let wrong = |_| format!("{name}: '{cell}' is no number that fits");
            cell.parse().map(Some).map_err(wrong)
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
        let address = self.address.flatten().unwrap_or_default();
        let page = self.address_page.flatten().unwrap_or_default();
        let mut row = Access::new(self.timestamp_ns.flatten().unwrap_or_default(), address);
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
        row.sample_id = self.sample_id.flatten().unwrap_or_default();
        row.region_id = self.region_id.unwrap_or_default();
        row.access_latency_ns = self.access_latency_ns;
        row.latency_cycles = self.latency_cycles;
        row.numa_node = self.numa_node.or(self.remote);
        row.hops = self.hops;
        row.size_bytes = self.size_bytes.unwrap_or(0);
        row.period = self.period.unwrap_or(1).max(1);
        row.cpu_id = self.cpu_id;
        row.thread_id = self.thread_id;
        row.token_index = self.token_index;
        row.context_tokens = self.context_tokens;
        row
    }
}

/// Reads canonical rows, one JSON object a line.
///
/// Missing optional columns get their defaults, unknown ones are dropped, a page of 0 is computed. A line that is no row is an
/// error: rows are written by programs.
#[derive(Debug)]
pub(crate) struct JsonRows {
    lines: Lines,
    line: Vec<u8>,
    report: ReadReport,
}

impl JsonRows {
    pub(crate) fn new(source: Source) -> Result<Self> {
        Ok(Self {
            lines: Lines::new(source, MAX_LINE)?,
            line: Vec::new(),
            report: ReadReport::new("rows-jsonl", "unknown"),
        })
    }

    fn row(&self, number: u64, names: &mut Names) -> Result<Access> {
        let bad = |what: String| Error::Row {
            name: self.lines.name().to_owned(),
            line: number,
            what,
        };
        let row: Row<'_> =
            serde_json::from_slice(&self.line).map_err(|error| bad(error.to_string()))?;
        let missing = row.missing();
        if missing.is_empty() {
            return Ok(row.access(names));
        }
        let present: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(&self.line).map_err(|error| bad(error.to_string()))?;
        let mut present: Vec<String> = present.into_iter().map(|(key, _)| key).collect();
        present.sort_unstable();
        Err(Error::MissingColumns {
            name: self.lines.name().to_owned(),
            line: number,
            missing: missing.join(", "),
            present: present.join(", "),
        })
    }

    pub(crate) fn next_batch(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<bool> {
        let before = rows.len();
        for _ in 0..BATCH_ROWS {
            let found = self.lines.read(&mut self.line)?;
            self.report.lines += 1;
            match found {
                Line::Whole => {}
                Line::End => {
                    self.report.lines -= 1;
                    return Ok(rows.len() > before);
                }
                Line::Overlong => {
                    return Err(Error::Row {
                        name: self.lines.name().to_owned(),
                        line: self.report.lines,
                        what: "a line of more than 16 MiB".to_owned(),
                    });
                }
            }
            if self.line.iter().all(u8::is_ascii_whitespace) {
                self.report.skip(Skip::Blank, self.report.lines);
                continue;
            }
            rows.push(self.row(self.report.lines, names)?);
            self.report.rows += 1;
        }
        Ok(true)
    }

    pub(crate) fn report(&self) -> ReadReport {
        let mut report = self.report.clone();
        report.damage = self.lines.damage();
        report
    }
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
