//! The table of one row per cycle, function, process, device and metric.

use std::io::Read;
use std::path::Path;

use byte_source::{OpenOptions, Source};
use csv::ByteRecord;

use super::{Name, Names, is_missing, parse_real};
use crate::error::{Error, Result};

/// One row. Numbers that are missing are NaN, names that are missing `None`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PerfRow {
    pub(crate) cycle: i64,
    pub(crate) pid: i64,
    pub(crate) host: Option<Name>,
    pub(crate) function: Option<Name>,
    pub(crate) metric: Option<Name>,
    pub(crate) device: Option<Name>,
    pub(crate) func_type: Option<Name>,
    pub(crate) anchor: Option<Name>,
    pub(crate) beta_pct: f64,
    pub(crate) mu_pct: f64,
    pub(crate) dur_us: f64,
    pub(crate) cycle_us: f64,
    pub(crate) start_us: f64,
    pub(crate) calls: f64,
    /// Bytes that copies moved.
    pub(crate) copy_bytes: f64,
    /// What a kernel computes, as the recorder found it by what launched the kernel.
    pub(crate) kernel_class: Option<Name>,
    /// How long the devices of the process worked in the cycle, work at once counted once, and how long of that they did nothing
    /// but communicate.
    pub(crate) busy_us: f64,
    pub(crate) exposed_us: f64,
    /// Shortest and longest of several calls, and which of them is the longest, from 1.
    pub(crate) shortest_us: f64,
    pub(crate) longest_us: f64,
    pub(crate) longest: f64,
    /// Whether a sample of the counter fell into the function; else its value is interpolated.
    pub(crate) sampled: bool,
}

/// What to do with a row that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// The file is refused, as the reference implementation does.
    Refuse,
    /// The row is left out and counted.
    Count,
}

/// A whole file.
#[derive(Debug, Default)]
pub(crate) struct PerfTable {
    pub(crate) rows: Vec<PerfRow>,
    /// Rows left out, with the line of the first.
    pub(crate) odd: u64,
    pub(crate) first_odd_line: u64,
    /// Bytes that are no UTF-8 were replaced.
    pub(crate) replaced: bool,
    /// The decompressor met damage: the table may be cut.
    pub(crate) damaged: bool,
}

/// Where the columns are.
struct Columns {
    cycle: usize,
    pid: Option<usize>,
    host: Option<usize>,
    function: usize,
    metric: Option<usize>,
    device: Option<usize>,
    func_type: Option<usize>,
    anchor: Option<usize>,
    beta_pct: Option<usize>,
    mu_pct: Option<usize>,
    dur_us: Option<usize>,
    cycle_us: usize,
    start_us: Option<usize>,
    calls: Option<usize>,
    copy_bytes: Option<usize>,
    kernel_class: Option<usize>,
    busy_us: Option<usize>,
    exposed_us: Option<usize>,
    shortest_us: Option<usize>,
    longest_us: Option<usize>,
    longest: Option<usize>,
    interpolation: Option<usize>,
    width: usize,
}

/// The columns that section 2 of the published tool needs.
const COMPAT: [&str; 9] = [
    "cycle",
    "pid",
    "hostname",
    "beta_pct",
    "function_name",
    "metric_name",
    "device",
    "mu_pct",
    "anchor_dur_us",
];

impl Columns {
    fn find(header: &ByteRecord, file: &Path, strictness: Strictness) -> Result<Self> {
        let at = |name: &str| {
            header
                .iter()
                .position(|field| strip_mark(field).trim_ascii() == name.as_bytes())
        };
        let need = |name: &'static str| {
            at(name).ok_or_else(|| Error::Column {
                file: file.to_owned(),
                column: name,
            })
        };
        if strictness == Strictness::Refuse {
            for name in COMPAT {
                need(name)?;
            }
        }
        let beta_pct = at("beta_pct");
        let dur_us = match (at("duration"), beta_pct) {
            (None, None) => Some(need("duration")?),
            (found, _) => found,
        };
        Ok(Self {
            cycle: need("cycle")?,
            pid: at("pid"),
            host: at("hostname"),
            function: need("function_name")?,
            metric: at("metric_name"),
            device: at("device"),
            func_type: at("func_type"),
            anchor: at("anchor_name"),
            beta_pct,
            mu_pct: at("mu_pct"),
            dur_us,
            cycle_us: need("anchor_dur_us")?,
            start_us: at("cycle_start_ts"),
            calls: at("instances_count"),
            copy_bytes: at("copy_bytes"),
            kernel_class: at("kernel_class"),
            busy_us: at("device_busy_us"),
            exposed_us: at("exposed_comm_us"),
            shortest_us: at("shortest_call_us"),
            longest_us: at("longest_call_us"),
            longest: at("longest_call"),
            interpolation: at("interpolation_status"),
            width: header.len(),
        })
    }
}

/// Without the byte order mark that some spreadsheets put in front.
fn strip_mark(field: &[u8]) -> &[u8] {
    field.strip_prefix(b"\xef\xbb\xbf").unwrap_or(field)
}

impl PerfTable {
    /// Reads a file, plain or compressed.
    pub(crate) fn read(
        file: &Path,
        options: &OpenOptions,
        names: &mut Names,
        strictness: Strictness,
    ) -> Result<Self> {
        let source = Source::open(file, options)?;
        let mut reader = source.into_read()?;
        let mut table = Self::parse(&mut reader, file, names, strictness)?;
        table.damaged = !reader.damage().is_empty();
        if table.damaged && strictness == Strictness::Refuse {
            return Err(Error::Damaged {
                file: file.to_owned(),
            });
        }
        Ok(table)
    }

    /// Reads text; `file` is for messages.
    pub(crate) fn parse(
        reader: impl Read,
        file: &Path,
        names: &mut Names,
        strictness: Strictness,
    ) -> Result<Self> {
        let mut csv = csv::ReaderBuilder::new().flexible(true).from_reader(reader);
        let csv_error = |source| Error::Csv {
            file: file.to_owned(),
            source,
        };
        let header = csv.byte_headers().map_err(csv_error)?.clone();
        let columns = Columns::find(&header, file, strictness)?;
        let mut table = Self::default();
        let mut record = ByteRecord::new();
        while csv.read_byte_record(&mut record).map_err(csv_error)? {
            let line = record.position().map_or(0, csv::Position::line);
            match table.row(&record, &columns, names) {
                Ok(row) => table.rows.push(row),
                Err(column) if strictness == Strictness::Refuse => {
                    return Err(Error::Field {
                        file: file.to_owned(),
                        line,
                        column,
                    });
                }
                Err(_) => {
                    if table.odd == 0 {
                        table.first_odd_line = line;
                    }
                    table.odd += 1;
                }
            }
        }
        Ok(table)
    }

    /// One record, or the column that is wrong.
    fn row(
        &mut self,
        record: &ByteRecord,
        columns: &Columns,
        names: &mut Names,
    ) -> Result<PerfRow, &'static str> {
        if record.len() > columns.width {
            return Err("(more fields than the header)");
        }
        let field = |at: Option<usize>| at.and_then(|at| record.get(at)).unwrap_or_default();
        let real = |at: Option<usize>, name: &'static str| {
            let text = field(at);
            if is_missing(text) {
                Ok(f64::NAN)
            } else {
                parse_real(text).ok_or(name)
            }
        };
        let mut name = |at: Option<usize>| {
            let text = field(at);
            if is_missing(text) {
                return None;
            }
            let text = String::from_utf8_lossy(text);
            self.replaced |= matches!(text, std::borrow::Cow::Owned(_));
            Some(names.id(&text))
        };
        Ok(PerfRow {
            cycle: whole(field(Some(columns.cycle))).ok_or("cycle")?,
            pid: match columns.pid {
                Some(at) => whole(field(Some(at))).ok_or("pid")?,
                None => 0,
            },
            host: name(columns.host),
            function: name(Some(columns.function)),
            metric: name(columns.metric),
            device: name(columns.device),
            func_type: name(columns.func_type),
            anchor: name(columns.anchor),
            kernel_class: name(columns.kernel_class),
            beta_pct: real(columns.beta_pct, "beta_pct")?,
            mu_pct: real(columns.mu_pct, "mu_pct")?,
            dur_us: real(columns.dur_us, "duration")?,
            cycle_us: real(Some(columns.cycle_us), "anchor_dur_us")?,
            start_us: real(columns.start_us, "cycle_start_ts")?,
            calls: real(columns.calls, "instances_count")?,
            copy_bytes: real(columns.copy_bytes, "copy_bytes")?,
            busy_us: real(columns.busy_us, "device_busy_us")?,
            exposed_us: real(columns.exposed_us, "exposed_comm_us")?,
            shortest_us: real(columns.shortest_us, "shortest_call_us")?,
            longest_us: real(columns.longest_us, "longest_call_us")?,
            longest: real(columns.longest, "longest_call")?,
            // Two stars: all interpolated; one: some.
            sampled: field(columns.interpolation).trim_ascii() != b"**",
        })
    }
}

/// A whole number, also in the form that a table library gives a column with gaps: `4000.0`.
fn whole(field: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(field.trim_ascii()).ok()?;
    let text = text.strip_suffix(".0").unwrap_or(text);
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,\
interpolation_status,anchor_name,anchor_dur_us,cycle_start_ts,instances_count,simple_name\n";

    fn parse(rows: &str, strictness: Strictness) -> Result<(PerfTable, Names)> {
        let mut names = Names::default();
        let text = format!("{HEADER}{rows}");
        PerfTable::parse(text.as_bytes(), Path::new("x.csv"), &mut names, strictness)
            .map(|table| (table, names))
    }

    #[test]
    fn commas_and_quotes_in_kernel_names() {
        let (table, names) = parse(
            "1,7,,2.5,\"void f<a, \"\"b\"\">(int, int)\",N/A,GPU 0,gpu_compute,,,25.0, ,step,1000.0,5.25,3,f\n",
            Strictness::Refuse,
        )
        .unwrap();
        let row = table.rows[0];
        assert_eq!(
            names.text(row.function.unwrap()),
            "void f<a, \"b\">(int, int)"
        );
        assert_eq!(row.metric, None);
        assert!(row.mu_pct.is_nan());
        assert_eq!((row.dur_us, row.cycle_us, row.calls), (25.0, 1000.0, 3.0));
    }

    #[test]
    fn odd_rows_are_refused_or_counted() {
        let rows = "1,7,,x,f,m,Host,oncpu,1,0,25.0, ,step,1000.0,5.25,3,f\n2,7,,1,f,m,Host,oncpu,1,0,25.0, ,step,1000.0,5.25,3,f\n";
        let error = parse(rows, Strictness::Refuse).unwrap_err();
        assert!(matches!(
            error,
            Error::Field {
                line: 2,
                column: "beta_pct",
                ..
            }
        ));
        let (table, _) = parse(rows, Strictness::Count).unwrap();
        assert_eq!(
            (table.rows.len(), table.odd, table.first_odd_line),
            (1, 1, 2)
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut names = Names::default();
        let mut bytes = HEADER.as_bytes().to_vec();
        bytes.extend(b"1,7,,1,caf\xe9,m,Host,oncpu,1,0,25.0, ,step,1000.0,5.25,3,f\n");
        let table =
            PerfTable::parse(&*bytes, Path::new("x.csv"), &mut names, Strictness::Refuse).unwrap();
        assert!(table.replaced);
        assert_eq!(names.text(table.rows[0].function.unwrap()), "caf\u{fffd}");
    }
}
