//! Writes the series and distributions of a trace as tables, CSV or Parquet.

use std::io::Write;
use std::path::Path;

use blkio_parser::Stats;
use blkio_parser::analyse::heat::HeatMap;
use byte_source::output::AtomicFile;
use report::{Cell, Column, Format, Kind, RowSink, SchemaVersion};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::series::Series;
use crate::value::{list, members};

/// Layout of the tables.
const VERSION: SchemaVersion = SchemaVersion::new(1, 0);

/// Where tables go, and how.
struct Folder<'a> {
    dir: &'a Path,
    parquet: bool,
}

impl Folder<'_> {
    /// Writes a table; one without rows is written, too, so that a reader finds it.
    fn table(
        &self,
        name: &str,
        columns: &[Column],
        rows: impl IntoIterator<Item = Vec<Value>>,
    ) -> Result<()> {
        let extension = if self.parquet { "parquet" } else { "csv" };
        let mut file = AtomicFile::create(self.dir.join(format!("{name}.{extension}")))?;
        let mut sink: Box<dyn RowSink + '_> = if self.parquet {
            Box::new(report::ParquetWriter::new(&mut file, VERSION))
        } else {
            report::Format::Csv.sink(&mut file)
        };
        write_rows(sink.as_mut(), columns, rows)?;
        drop(sink);
        Ok(file.commit()?)
    }
}

fn write_rows(
    sink: &mut dyn RowSink,
    columns: &[Column],
    rows: impl IntoIterator<Item = Vec<Value>>,
) -> Result<()> {
    sink.begin(columns)?;
    for row in rows {
        let cells: Vec<Cell<'_>> = row.iter().zip(columns).map(|(v, c)| cell(v, c)).collect();
        sink.row(&cells)?;
    }
    Ok(sink.finish()?)
}

/// Prints a table, as CSV or aligned text.
///
/// # Errors
///
/// Those of `out`.
pub fn print_table(
    out: &mut dyn Write,
    format: Format,
    columns: &[Column],
    rows: impl IntoIterator<Item = Vec<Value>>,
) -> Result<()> {
    write_rows(format.sink(out).as_mut(), columns, rows)
}

/// Returns a value as a column of this kind takes it.
fn cell<'v>(value: &'v Value, column: &Column) -> Cell<'v> {
    match (value, column.kind()) {
        (Value::String(text), _) => Cell::Text(text),
        (Value::Number(number), Kind::Int) => number.as_i64().map_or(Cell::Null, Cell::Int),
        (Value::Number(number), Kind::Real) => number.as_f64().map_or(Cell::Null, Cell::Real),
        (Value::Number(number), _) => number.as_u64().map_or(Cell::Null, Cell::UInt),
        _ => Cell::Null,
    }
}

fn uints(names: &[&'static str]) -> Vec<Column> {
    names.iter().map(|name| Column::uint(*name)).collect()
}

/// Columns of text and then whole numbers.
#[must_use]
pub fn named_columns(texts: &[&'static str], numbers: &[&'static str]) -> Vec<Column> {
    let texts = texts.iter().map(|name| Column::text(*name));
    texts.chain(uints(numbers)).collect()
}

/// Returns the values of some members, in that order.
fn pick(value: &Value, keys: &[&str]) -> Vec<Value> {
    keys.iter().map(|key| value[*key].clone()).collect()
}

/// Returns a key that is a number, as that.
fn number(key: &str) -> Value {
    key.parse::<u64>().map_or(Value::Null, Value::from)
}

/// Makes an output folder if there is none.
///
/// # Errors
///
/// A folder that cannot be made.
pub fn make_folder(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|source| Error::File {
        what: format!("{}: cannot create the folder", dir.display()),
        source,
    })
}

/// Writes all tables into a folder, which is made if need be.
///
/// # Errors
///
/// A folder or file that cannot be written.
pub fn write_tables(dir: &Path, parquet: bool, stats: &mut Stats, document: &Value) -> Result<()> {
    make_folder(dir)?;
    let folder = Folder { dir, parquet };
    requests(&folder, document)?;
    places(&folder, stats, document)?;
    waiting(&folder, document)?;
    let series = Series::of(stats);
    let rows = series.access.iter().flat_map(|(name, histogram)| {
        let row = move |(count, sectors): (&u64, &u64)| {
            vec![
                Value::from(name.as_str()),
                (*count).into(),
                (*sectors).into(),
            ]
        };
        histogram.iter().map(row)
    });
    let columns = named_columns(&["operation"], &["access_count", "sectors"]);
    folder.table("sector_access", &columns, rows)
}

/// How much, how large, in which phases.
fn requests(folder: &Folder<'_>, document: &Value) -> Result<()> {
    let metrics = &document["metrics"];
    let seconds = &metrics["per_second_from_first_issue"];
    let length = list(&seconds["read"]["ios"]).count();
    let rows = (0..length).map(|at| {
        let mut row = vec![Value::from(at)];
        for (direction, key) in [
            ("read", "ios"),
            ("read", "bytes"),
            ("write", "ios"),
            ("write", "bytes"),
        ] {
            row.push(seconds[direction][key][at].clone());
        }
        row
    });
    let columns = uints(&[
        "second",
        "read_ios",
        "read_bytes",
        "write_ios",
        "write_bytes",
    ]);
    folder.table("per_second", &columns, rows)?;
    per_bin(folder, &document["extra"])?;
    let sizes = members(&metrics["size_histogram_bytes"]);
    let rows = sizes.flat_map(|(direction, sizes)| {
        members(sizes).map(move |(size, count)| {
            vec![Value::from(direction.as_str()), number(size), count.clone()]
        })
    });
    let columns = named_columns(&["direction"], &["size_bytes", "requests"]);
    folder.table("sizes", &columns, rows)?;
    let sizes = members(&document["extra"]["size_histogram_bytes_by_operation"]);
    let rows = sizes.flat_map(|(letters, sizes)| {
        members(sizes).map(move |(size, count)| {
            vec![Value::from(letters.as_str()), number(size), count.clone()]
        })
    });
    let columns = named_columns(&["operation"], &["size_bytes", "requests"]);
    folder.table("sizes_per_operation", &columns, rows)?;
    let keys = ["start_ns", "end_ns", "ios", "bytes", "idle_after_ns"];
    let rows = list(&document["extra"]["bursts"]).map(|burst| {
        let mut row = pick(burst, &keys);
        row.extend([real(&burst["iops"]), real(&burst["bytes_per_s"])]);
        row
    });
    let mut columns = uints(&keys);
    columns.extend(["iops", "bytes_per_s"].map(Column::real));
    folder.table("bursts", &columns, rows)?;
    let found = list(&document["phases"]["phases"]).map(|phase| ("label", phase));
    let given = list(&document["given_phases"]).map(|phase| ("name", phase));
    let of_engine = list(&document["engine_phases"]["phases"]).map(|phase| ("name", phase));
    let rows = found.chain(given).chain(of_engine).map(|(name, phase)| {
        let mut row = pick(phase, &[name, "start_ns", "end_ns"]);
        for direction in ["read", "write"] {
            row.extend(pick(&phase[direction], &["ios", "bytes"]));
            row.extend(pick(&phase["latency_ns"][direction], &["p50", "p99"]));
        }
        row
    });
    let numbers = [
        "start_ns",
        "end_ns",
        "read_ios",
        "read_bytes",
        "read_p50_ns",
        "read_p99_ns",
        "write_ios",
        "write_bytes",
        "write_p50_ns",
        "write_p99_ns",
    ];
    folder.table("phases", &named_columns(&["phase"], &numbers), rows)
}

/// Columns of requests that are neither read nor write.
const REST_IOS: [(&str, &str); 3] = [
    ("discard_ios", "discard"),
    ("flush_ios", "flush"),
    ("none_ios", "none"),
];

/// Traffic by the bins of `--bin`: where it was issued, where it completed, and spread over the time in flight.
fn per_bin(folder: &Folder<'_>, extra: &Value) -> Result<()> {
    let of = |series: &str, direction: &str, key: &str| {
        let values = extra[series][direction][key].as_array();
        values.cloned().unwrap_or_default()
    };
    let mut columns = uints(&["bin", "start_ns"]);
    let mut values = Vec::new();
    for (direction, series, key, name) in [
        ("read", "issued_per_bin", "ios", "read_ios"),
        ("read", "issued_per_bin", "bytes", "read_bytes"),
        ("write", "issued_per_bin", "ios", "write_ios"),
        ("write", "issued_per_bin", "bytes", "write_bytes"),
        ("read", "completed_per_bin", "ios", "completed_read_ios"),
        ("read", "completed_per_bin", "bytes", "completed_read_bytes"),
        ("write", "completed_per_bin", "ios", "completed_write_ios"),
        (
            "write",
            "completed_per_bin",
            "bytes",
            "completed_write_bytes",
        ),
        ("read", "spread_per_bin", "bytes", "spread_read_bytes"),
        ("write", "spread_per_bin", "bytes", "spread_write_bytes"),
    ] {
        columns.push(Column::uint(name));
        values.push(of(series, direction, key));
    }
    for (name, direction) in REST_IOS {
        columns.push(Column::uint(name));
        values.push(of("issued_per_bin", direction, "ios"));
    }
    let issued = &extra["issued_per_bin"];
    let (begin_ns, width_ns) = (&issued["first_bin_starts_ns"], &issued["bin_ns"]);
    let (begin_ns, width_ns) = (begin_ns.as_u64().unwrap_or(0), width_ns.as_u64());
    let length = values.iter().map(Vec::len).max().unwrap_or(0);
    let rows = (0_u64..).take(length).zip(0..).map(|(bin, at)| {
        let start_ns = width_ns.and_then(|width| begin_ns.checked_add(bin.checked_mul(width)?));
        let cells = values
            .iter()
            .map(|of| of.get(at).cloned().unwrap_or(Value::Null));
        let start = [Value::from(bin), start_ns.into()];
        start.into_iter().chain(cells).collect()
    });
    folder.table("per_bin", &columns, rows)
}

/// Where, and how often again.
fn places(folder: &Folder<'_>, stats: &mut Stats, document: &Value) -> Result<()> {
    let extra = &document["extra"];
    let heat = stats.heat.as_ref();
    let (bins, seconds) = heat.map_or((1, 1), HeatMap::cell);
    let rows = heat.into_iter().flat_map(HeatMap::rows);
    let rows = rows.map(|(address, time, [read, write])| {
        [address * bins, time * seconds, read + write, *read, *write]
            .map(Value::from)
            .to_vec()
    });
    let columns = [
        "address_64mib",
        "second",
        "bytes",
        "read_bytes",
        "write_bytes",
    ];
    if stats.devices.is_empty() {
        folder.table("heatmap", &uints(&columns), rows)?;
    } else {
        let rows = stats.devices.iter().flat_map(|(dev, of)| {
            let name = stats.outcome.symbols.device_name(*dev);
            let heat = of.heat.as_ref();
            let (bins, seconds) = heat.map_or((1, 1), HeatMap::cell);
            let rows = heat.into_iter().flat_map(HeatMap::rows);
            rows.map(move |(address, time, [read, write])| {
                let numbers = [address * bins, time * seconds, read + write, *read, *write];
                let numbers = numbers.into_iter().map(Value::from);
                [Value::from(name.as_str())]
                    .into_iter()
                    .chain(numbers)
                    .collect()
            })
        });
        folder.table("heatmap", &named_columns(&["device"], &columns), rows)?;
    }
    let pids = list(&extra["sequentiality_by_pid"]["pids"]);
    let rows = pids.flat_map(|of| {
        ["read", "write", "all"]
            .into_iter()
            .filter(|class| of[*class].is_object())
            .map(|class| {
                let found = &of[class];
                let mut row = vec![of["process"].clone(), class.into(), of["pid"].clone()];
                row.extend(pick(found, &["requests", "runs", "longest_run"]));
                row.extend([
                    real(&found["sequential_share"]),
                    real(&found["multi_stream_share"]),
                ]);
                row
            })
    });
    let numbers = ["pid", "requests", "runs", "longest_run"];
    let mut columns = named_columns(&["process", "class"], &numbers);
    columns.extend(["sequential_share", "multi_stream_share"].map(Column::real));
    folder.table("sequentiality_per_pid", &columns, rows)?;
    let rows = members(&extra["sequentiality"]).flat_map(|(class, of)| {
        list(&of["seek_bytes_cumulative_share"]).map(move |point| {
            vec![
                Value::from(class.as_str()),
                point[0].clone(),
                real(&point[1]),
            ]
        })
    });
    let mut columns = named_columns(&["class"], &["seek_bytes_at_most"]);
    columns.push(Column::real("share"));
    folder.table("seeks", &columns, rows)?;
    let rows = list(&extra["lru_miss_ratio_by_cache_bytes"])
        .map(|point| vec![point[0].clone(), real(&point[1])]);
    let columns = [Column::uint("cache_bytes"), Column::real("miss_ratio")];
    folder.table("miss_ratio", &columns, rows)?;
    let windows = list(&extra["working_set_4k_blocks_by_window"]["windows"]);
    let keys = ["window", "read", "write", "both", "union"];
    let rows = windows.map(|window| pick(window, &keys));
    folder.table("working_set", &uints(&keys), rows)
}

/// How long, and how many at once.
fn waiting(folder: &Folder<'_>, document: &Value) -> Result<()> {
    let latency = &document["extra"]["latency"];
    let row = |direction: &str, class: &str, values: &Value| {
        let mut row = vec![Value::from(direction), Value::from(class)];
        row.extend(pick(values, &["count", "min", "max", "p50", "p90", "p99"]));
        row.push(real(&values["mean"]));
        row
    };
    let mut rows = Vec::new();
    for (direction, of) in members(latency) {
        let all = &of["issue_to_complete_ns"];
        if all.is_object() {
            rows.push(row(direction, "all", all));
            rows.extend(members(&of["by_size"]).map(|(class, v)| row(direction, class, v)));
        }
    }
    let numbers = ["count", "min_ns", "max_ns", "p50_ns", "p90_ns", "p99_ns"];
    let mut columns = named_columns(&["direction", "size"], &numbers);
    columns.push(Column::real("mean_ns"));
    folder.table("latency", &columns, rows)?;
    let keys = ["clock_second", "count", "p50_ns", "p99_ns", "max_ns"];
    let rows = list(&latency["by_second_of_completion"]).map(|second| pick(second, &keys));
    folder.table("latency_per_second", &uints(&keys), rows)?;
    let keys = ["bin", "count", "p50_ns", "p99_ns", "max_ns"];
    let rows = list(&latency["by_bin_of_completion"]["bins"]).map(|bin| pick(bin, &keys));
    folder.table("latency_per_bin", &uints(&keys), rows)?;
    distributions(
        folder,
        "latency_per_process",
        "process",
        &latency["by_process_ns"],
    )?;
    let extra = &document["extra"];
    distributions(folder, "stages", "stage", &extra["stages_ns"])?;
    distributions(
        folder,
        "block_intervals",
        "interval",
        &extra["intervals_of_128k_blocks_ns"],
    )?;
    depths(folder, &extra["queue_depth"])
}

/// How many at once: by depth, and over time.
fn depths(folder: &Folder<'_>, depth: &Value) -> Result<()> {
    let time_at = |class: &str, depth_of: &str| depth[class]["time_by_depth_ns"][depth_of].clone();
    let mut depths: Vec<(u64, &String)> = members(&depth["all"]["time_by_depth_ns"])
        .filter_map(|(text, _)| Some((text.parse().ok()?, text)))
        .collect();
    depths.sort_unstable_by_key(|(depth, _)| *depth);
    let rows = depths.into_iter().map(|(depth, text)| {
        let times = ["all", "read", "write"].map(|class| time_at(class, text));
        [vec![depth.into()], times.to_vec()].concat()
    });
    let columns = ["depth", "time_ns", "read_time_ns", "write_time_ns"];
    folder.table("queue_depth", &uints(&columns), rows)?;
    let bins = list(&depth["by_bin"]["bins"]);
    let rows = bins.map(|bin| vec![bin["bin"].clone(), bin["max"].clone(), real(&bin["mean"])]);
    let mut columns = uints(&["bin", "max"]);
    columns.push(Column::real("mean"));
    folder.table("queue_depth_per_bin", &columns, rows)
}

/// Distributions of times by name, one a row.
fn distributions(
    folder: &Folder<'_>,
    table: &str,
    name: &'static str,
    values: &Value,
) -> Result<()> {
    let rows = members(values).map(|(name, of)| {
        let mut row = vec![Value::from(name.as_str())];
        row.extend(pick(of, &["count", "min", "max", "p50", "p90", "p99"]));
        row.push(real(&of["mean"]));
        row
    });
    let numbers = ["count", "min_ns", "max_ns", "p50_ns", "p90_ns", "p99_ns"];
    let mut columns = named_columns(&[name], &numbers);
    columns.push(Column::real("mean_ns"));
    folder.table(table, &columns, rows)
}

/// Returns a number as a real one, because its column holds such.
fn real(value: &Value) -> Value {
    value.as_f64().map_or(Value::Null, Value::from)
}
