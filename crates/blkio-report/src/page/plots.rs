//! The sections of the page that draw something.

use crate::phases::{GpuSpan, means};
use blkio_parser::analyse::traffic::DATA;
use blkio_parser::{Direction, Stats};
use charts::html::Section;
use charts::plot::{Axis, GAP, HeatMap, Histogram, LinePlot, Mark, Series};
use report::{Cell, Column, Table, Unit, human};
use serde_json::Value;

use super::{MIB, first_issue_ns, table};
use crate::scaled_heat_map::{Scaled, scaled};
use crate::value::{list, number};

/// Maximum number of devices whose heat maps are drawn.
pub(super) const MAPPED: usize = 8;

/// Maximum number of columns and rows of the heat map.
pub(super) const MAP: u64 = 240;

/// Maximum number of stretches in which the GPU is drawn.
pub(super) const STRETCHES: u64 = 600;
/// Shortest of them, in nanoseconds: readings are as far apart.
pub(super) const SHORTEST_NS: u64 = 200_000_000;

/// Returns the values of successive bins as a stepped line that ends where the last bin does.
pub(super) fn steps(name: &str, width: f64, mut points: Vec<(f64, f64)>) -> Series {
    if let Some((start, value)) = points.last().copied() {
        points.push((start + width, value));
    }
    Series::new(name.to_owned(), Mark::Step, points)
}

/// Points of the bins that are listed, by number; in those that are not the value is `missing`, or nothing is drawn.
pub(super) fn listed(
    bins: impl Iterator<Item = (f64, f64)>,
    (begin, width): (f64, f64),
    missing: Option<f64>,
) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut next = 0.0;
    for (bin, value) in bins {
        if bin > next {
            let start = begin + next * width;
            match (missing, points.last().copied()) {
                (Some(missing), _) => points.push((start, missing)),
                (None, Some((_, before))) => points.extend([(start, before), GAP]),
                (None, None) => {}
            }
        }
        points.push((begin + bin * width, value));
        next = bin + 1.0;
    }
    points
}

/// Returns where bin 0 of a series begins, in seconds since the first request, and how long its bins are.
pub(super) fn grid(document: &Value, series: &Value) -> (f64, f64) {
    let begin_ns = number(&series["first_bin_starts_ns"]) - first_issue_ns(document);
    (begin_ns / 1e9, number(&series["bin_ns"]) / 1e9)
}

/// Rates by bin, or by second where there are more bins than are listed. The last bin counts as long as the others.
pub(super) fn traffic(document: &Value) -> Section {
    let x = Axis::new("time since the first request", Unit::Seconds);
    let y = Axis::from_zero("issued, MiB/s", Unit::None);
    let mut plot = LinePlot::new("Reads and writes over time", x, y);
    let mut series = &document["extra"]["issued_per_bin"];
    let (mut begin_s, mut width_s) = grid(document, series);
    if DATA.iter().all(|of| series[of.name()]["bytes"].is_null()) {
        series = &document["metrics"]["per_second_from_first_issue"];
        (begin_s, width_s) = (0.0, 1.0);
    }
    for direction in DATA {
        let bytes = list(&series[direction.name()]["bytes"]);
        let points: Vec<(f64, f64)> = bytes
            .enumerate()
            .map(|(bin, bytes)| {
                (
                    begin_s + bin as f64 * width_s,
                    number(bytes) / width_s / MIB,
                )
            })
            .collect();
        plot.series.push(steps(direction.name(), width_s, points));
    }
    let caption = format!("bytes of issued requests in bins of {width_s} s, per second");
    Section::new("Traffic").figure(&plot.draw(), &caption)
}

/// Returns what a GPU did meanwhile, and how both clocks were brought together.
pub(super) fn beside(stats: &Stats, document: &Value, gpu: &[GpuSpan]) -> Option<Section> {
    let found = &document["gpu_against_io"];
    let section = Section::new("GPU");
    if let Some(reason) = found["refused"].as_str() {
        return Some(section.warning(&format!("not compared: {reason}")));
    }
    let first = stats.traffic.first_issue_ns?;
    let span_ns = stats.traffic.last_issue_ns - first;
    let method = found["alignment"]["method"].as_str()?;
    let time = |value: &Value| human::quantity(number(value), Unit::Nanos);
    let mut text = format!(
        "Clocks by {method}, give or take {}.",
        time(&found["alignment"]["uncertainty_ns"])
    );
    if let Some(assumed) = found["alignment"]["assumes"].as_str() {
        text += &format!(" That holds if {assumed}.");
    }
    if let Some(share) = found["stalled_on_storage_share"].as_f64() {
        text += &format!(
            " Idle while the device was busy: {:.1} % of the time.",
            share * 100.0
        );
    }
    let width_ns = (span_ns / STRETCHES + 1).max(SHORTEST_NS);
    let count = usize::try_from(span_ns / width_ns + 1).ok()?;
    let width_s = width_ns as f64 / 1e9;
    let known = (0_u32..).zip(means(gpu, width_ns, count));
    let known = known.filter_map(|(stretch, mean)| Some((stretch.into(), mean?)));
    let x =
        Axis::new("time since the first request", Unit::Seconds).range(0.0, span_ns as f64 / 1e9);
    let y = Axis::from_zero("busy", Unit::Pct).range(0.0, 100.0);
    let mut plot = LinePlot::new("Utilisation of the GPU over time", x, y);
    let points = listed(known, (0.0, width_s), None);
    plot.series.push(steps("", width_s, points));
    let caption = format!("means of {width_s:.1} s, where it was read");
    let section = section.text(&text).figure(&plot.draw(), &caption);
    let rows = list(&found["by_phase"]).map(|phase| {
        let at = |key: &str| Cell::Real((number(&phase[key]) - first as f64) / 1e9);
        let percent = |key: &str, scale: f64| {
            let value = phase[key].as_f64();
            value.map_or(Cell::Null, |value| Cell::Real(value * scale))
        };
        vec![
            Cell::from(phase["phase"].as_str().unwrap_or("")),
            at("start_ns"),
            at("end_ns"),
            percent("gpu_mean_percent", 1.0),
            percent("stalled_on_storage_share", 100.0),
        ]
    });
    let columns = vec![
        Column::text("phase"),
        Column::real("from").unit(Unit::Seconds),
        Column::real("to").unit(Unit::Seconds),
        Column::real("busy").unit(Unit::Pct),
        Column::real("waiting for the device").unit(Unit::Pct),
    ];
    match table("GPU by phase", columns, rows) {
        Some(table) => Some(section.table(&table, 100)),
        None => Some(section),
    }
}

pub(super) fn sizes(stats: &Stats) -> Section {
    let mut section = Section::new("Sizes");
    for direction in DATA {
        let mut histogram = Histogram::new(
            format!("Sizes of {}s", direction.name()),
            "request size",
            Unit::Bytes,
        );
        for (number, operation) in stats.traffic.operations.iter().enumerate() {
            let rwbs = stats.outcome.symbols.rwbs_all().get(number);
            if rwbs.is_some_and(|rwbs| rwbs.decode().direction == direction) {
                let mut sizes: Vec<(u32, u64)> =
                    operation.sizes.iter().map(|(b, c)| (*b, *c)).collect();
                sizes.sort_unstable();
                for (bytes, count) in sizes {
                    histogram.add_many(bytes.into(), count);
                }
            }
        }
        section = section.figure(&histogram.draw(), "powers of two");
    }
    section
}

pub(super) fn latency(stats: &Stats, document: &Value) -> Option<Section> {
    let latencies = document["metrics"]["pairing_newest"]["latency_ns"].as_object()?;
    let mut section = Section::new("Latency");
    for (direction, values) in latencies {
        let mut histogram = Histogram::new(
            format!("Latency of {direction} requests"),
            "issue to completion",
            Unit::Nanos,
        );
        let pairing = stats.newest.as_ref();
        let of = Direction::ALL.iter().position(|d| d.name() == direction);
        let of = pairing.zip(of).and_then(|(p, slot)| p.latency.get(slot));
        for (bits, count) in of.map(|of| of.log2_counts(1)).unwrap_or_default() {
            // Of a bin of the drawing all values are alike.
            let low = bits.checked_sub(1).map_or(0, |bit| 1_u64 << bit);
            histogram.add_many(low, count);
        }
        let p = |key: &str| values[key].as_f64().unwrap_or(0.0) / 1000.0;
        section = section.figure(
            &histogram.draw(),
            &format!(
                "p50 {:.1} µs, p99 {:.1} µs; bins are powers of two of nanoseconds",
                p("p50"),
                p("p99")
            ),
        );
    }
    let more = &document["extra"]["latency"];
    let by_bin = &more["by_bin_of_completion"];
    // Bins that are whole seconds of the clock are listed as such.
    let (bins, begin_s, width_s) = match by_bin["bins"].as_array() {
        Some(bins) => {
            let series = &document["extra"]["completed_per_bin"];
            let (begin_s, width_s) = grid(document, series);
            (bins.as_slice(), begin_s, width_s)
        }
        None => {
            let bins = more["by_second_of_completion"].as_array();
            let first_s = (first_issue_ns(document) / 1e9).fract();
            (bins.map_or(&[][..], Vec::as_slice), -first_s, 1.0)
        }
    };
    let at = |bin: &Value| match bin["bin"].as_f64() {
        Some(bin) => bin,
        None => number(&bin["since_first_issue_s"]),
    };
    let x = Axis::new("time since the first request", Unit::Seconds);
    let y = Axis::log("issue to completion", Unit::Nanos);
    let mut plot = LinePlot::new("Latency over time", x, y);
    for (name, key) in [
        ("median", "p50_ns"),
        ("99 of 100", "p99_ns"),
        ("largest", "max_ns"),
    ] {
        let values = bins.iter().map(|bin| (at(bin), number(&bin[key])));
        // Where nothing completed there is no latency.
        let points = listed(values, (begin_s, width_s), None);
        plot.series.push(steps(name, width_s, points));
    }
    let caption = format!("reads and writes by time of completion, in bins of {width_s} s");
    section = section.figure(&plot.draw(), &caption);
    if let Some(table) = processes(&more["by_process_ns"]) {
        section = section.table(&table, 20);
    }
    if let Some(table) = stages(document) {
        section = section
            .text("Time between stages: Q queued, G request taken, M merged, I in the scheduler, D issued to the driver, C completed. Counts and times of G2I, G2D, I2D and D2C are of requests, all others of bios; shares are of the time of all bios.")
            .table(&table, 20);
    }
    Some(section)
}

/// Distributions by name as rows: count, median, 99 of 100, largest.
pub(super) fn distributions(name: &'static str, values: &Value) -> Option<Table> {
    let mut values: Vec<(&String, &Value)> = values.as_object()?.iter().collect();
    values.sort_by_key(|(name, of)| (std::cmp::Reverse(of["count"].as_u64()), name.as_str()));
    let rows = values.into_iter().map(|(name, of)| {
        let time = |key: &str| Cell::Real(number(&of[key]));
        vec![
            Cell::from(name.as_str()),
            of["count"].as_u64().map_or(Cell::Null, Cell::UInt),
            time("p50"),
            time("p99"),
            time("max"),
        ]
    });
    let time = |name: &'static str| Column::real(name).unit(Unit::Nanos);
    let columns = vec![
        Column::text(name),
        Column::uint("count"),
        time("p50"),
        time("p99"),
        time("largest"),
    ];
    table(name, columns, rows)
}

pub(super) fn processes(values: &Value) -> Option<Table> {
    distributions("process", values)
}

/// Times between stages with their share of the time from queueing to completion.
pub(super) fn stages(document: &Value) -> Option<Table> {
    let rows = list(&document["extra"]["stage_table"]);
    let rows: Vec<Vec<Cell<'_>>> = rows
        .map(|row| {
            let real = |value: &Value, scale: f64| {
                let value = value.as_f64();
                value.map_or(Cell::Null, |value| Cell::Real(value * scale))
            };
            vec![
                Cell::from(row["stage"].as_str().unwrap_or("")),
                row["count"].as_u64().map_or(Cell::Null, Cell::UInt),
                real(&row["min_ns"], 1.0),
                real(&row["mean_ns"], 1.0),
                real(&row["max_ns"], 1.0),
                real(&row["share_of_q2c"], 100.0),
            ]
        })
        .collect();
    if rows.len() < 2 {
        return None;
    }
    let columns = vec![
        Column::text("stage"),
        Column::uint("count"),
        Column::real("min").unit(Unit::Nanos),
        Column::real("mean").unit(Unit::Nanos),
        Column::real("max").unit(Unit::Nanos),
        Column::real("of Q2C").unit(Unit::Pct),
    ];
    table("stages", columns, rows)
}

/// Returns how far from the end of one request the next starts.
pub(super) fn seeks(document: &Value) -> Option<Section> {
    let x = Axis::log("distance", Unit::Bytes);
    let y = Axis::from_zero("share of requests", Unit::None).range(0.0, 1.0);
    let mut plot = LinePlot::new("Seeks at most so far", x, y);
    for class in ["read", "write", "all"] {
        let points = &document["extra"]["sequentiality"][class]["seek_bytes_cumulative_share"];
        let points: Vec<(f64, f64)> = list(points)
            // No distance has no place on a logarithmic axis: it is drawn at one byte.
            .map(|point| (number(&point[0]).max(1.0), number(&point[1])))
            .collect();
        if !points.is_empty() {
            plot.series.push(Series::new(class, Mark::Step, points));
        }
    }
    if plot.series.is_empty() {
        return None;
    }
    let caption =
        "from the end of a request to the start of the next of its kind; sequential ones at 1 B";
    Some(Section::new("Seeks").figure(&plot.draw(), caption))
}

/// Distinct blocks touched in each stretch of the run.
pub(super) fn working_set(document: &Value) -> Option<Section> {
    let of = &document["extra"]["working_set_4k_blocks_by_window"];
    let width_s = number(&of["window_ns"]) / 1e9;
    list(&of["windows"]).next()?;
    let x = Axis::new("time since the first request", Unit::Seconds);
    let y = Axis::from_zero("touched", Unit::Bytes);
    let mut plot = LinePlot::new("Working set", x, y);
    for key in ["read", "write", "union"] {
        let windows = list(&of["windows"]);
        let points = windows
            .map(|w| (number(&w["window"]) * width_s, number(&w[key]) * 4096.0))
            .collect();
        plot.series.push(steps(key, width_s, points));
    }
    let caption = format!("distinct blocks of 4 KiB in windows of {width_s} s");
    Some(Section::new("Working set").figure(&plot.draw(), &caption))
}

/// Returns where was read and where written, over time, on each device.
pub(super) fn heat(stats: &Stats) -> Option<Section> {
    let devices = stats.devices.iter().take(MAPPED);
    let devices = devices.filter_map(|(dev, of)| {
        let name = stats.outcome.symbols.device_name(*dev);
        Some((format!(" of device {name}"), of.heat.as_ref()?))
    });
    let maps = stats.heat.iter().map(|map| (String::new(), map));
    let mut drawn = maps
        .chain(devices)
        .filter_map(|(name, map)| heat_of(&name, &scaled(map, MAP, MAP)))
        .peekable();
    drawn.peek()?;
    Some(
        drawn
            .flatten()
            .fold(Section::new("Places"), |section, map| {
                section.figure(&map.draw(), "bytes of a stretch of addresses and of time")
            }),
    )
}

/// Returns the maps of reads and of writes of a device.
pub(super) fn heat_of(name: &str, scaled: &Scaled) -> Option<Vec<HeatMap>> {
    if scaled.rows.is_empty() {
        return None;
    }
    let width = usize::try_from(scaled.time_bins).ok()?;
    let height = usize::try_from(scaled.address_bins).ok()?;
    let bin = scaled.address_bin_bytes as f64;
    let low = scaled.first_address_bin as f64;
    let long_s = scaled.time_bins as f64 * (scaled.time_bin_ns as f64 / 1e9);
    let mut maps = Vec::new();
    for (slot, direction) in DATA.iter().enumerate() {
        let mut cells = vec![0.0; width * height];
        let mut sum = 0;
        for (address, time, bytes) in &scaled.rows {
            let row = usize::try_from(address - scaled.first_address_bin).ok()?;
            let column = usize::try_from(*time).ok()?;
            let bytes = bytes.get(slot).copied().unwrap_or(0);
            sum += bytes;
            if let Some(cell) = cells.get_mut(row * width + column) {
                *cell += bytes as f64;
            }
        }
        if sum == 0 {
            continue;
        }
        let x = Axis::new("time since the first request", Unit::Seconds).range(0.0, long_s);
        let y = Axis::new("address", Unit::Bytes)
            .range(low * bin, (low + scaled.address_bins as f64) * bin);
        let title = format!("Address against time: {}s{name}", direction.name());
        let mut map = HeatMap::new(title, x, y, width, cells, Unit::Bytes);
        map.log_colour = true;
        maps.push(map);
    }
    Some(maps)
}

/// Returns the requests in flight over time.
pub(super) fn depth(document: &Value) -> Option<Section> {
    let by_bin = &document["extra"]["queue_depth"]["by_bin"];
    list(&by_bin["bins"]).next()?;
    let (begin_s, width_s) = grid(document, by_bin);
    let x = Axis::new("time since the first request", Unit::Seconds);
    let y = Axis::from_zero("requests in flight", Unit::None);
    let mut plot = LinePlot::new("Queue depth", x, y);
    for (name, key) in [("most", "max"), ("mean", "mean")] {
        let values = list(&by_bin["bins"]).map(|bin| (number(&bin["bin"]), number(&bin[key])));
        let points = listed(values, (begin_s, width_s), Some(0.0));
        plot.series.push(steps(name, width_s, points));
    }
    let caption = format!("between issue and completion, in bins of {width_s} s");
    Some(Section::new("Queue depth").figure(&plot.draw(), &caption))
}

pub(super) fn cache(document: &Value) -> Option<Section> {
    let curve = document["extra"]["lru_miss_ratio_by_cache_bytes"].as_array()?;
    let points: Vec<(f64, f64)> = curve
        .iter()
        .map(|row| {
            (
                row[0].as_f64().unwrap_or(0.0),
                row[1].as_f64().unwrap_or(0.0),
            )
        })
        .collect();
    if points.is_empty() {
        return None;
    }
    let mut plot = LinePlot::new(
        "Misses of an LRU cache",
        Axis::log("cache size", Unit::Bytes),
        Axis::from_zero("share of misses", Unit::None).range(0.0, 1.0),
    );
    plot.series.push(Series::new("", Mark::Step, points));
    Some(Section::new("Reuse").figure(&plot.draw(), "blocks of 128 KiB, reads and writes"))
}
