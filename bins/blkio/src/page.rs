//! The page with plots.

use blkio_parser::Stats;
use blkio_parser::analyse::traffic::DATA;
use charts::html::{Page, Section};
use charts::plot::{Axis, HeatMap, Histogram, LinePlot, Mark, Series};
use report::Unit;
use serde_json::Value;

/// Most columns and rows of the heat map.
const MAP: usize = 240;

/// Builds the page of a trace.
pub(crate) fn build(stats: &mut Stats, document: &Value) -> Page {
    let name = document["inputs"][0]["name"]
        .as_str()
        .unwrap_or("trace")
        .to_owned();
    let mut page = Page::new("Block I/O").subtitle(name);
    let mut quality = Section::new("Quality");
    let warnings = document["quality"]["warnings"].as_array();
    for warning in warnings.into_iter().flatten().filter_map(Value::as_str) {
        quality = quality.warning(warning);
    }
    let lines = &document["quality"]["lines"];
    quality = quality.text(&format!(
        "{} lines, {} events, {} malformed, {} lost.",
        lines["lines"], lines["event_lines"], lines["malformed"], lines["lost_events"]
    ));
    page = page.section(quality);
    page = page.section(traffic(document));
    page = page.section(sizes(stats));
    if let Some(section) = latency(document) {
        page = page.section(section);
    }
    if let Some(section) = heat(stats) {
        page = page.section(section);
    }
    if let Some(section) = cache(document) {
        page = page.section(section);
    }
    page
}

fn traffic(document: &Value) -> Section {
    let x = Axis::new("time since the first request", Unit::Seconds);
    let y = Axis::from_zero("issued", Unit::BytesPerSecond);
    let mut plot = LinePlot::new("Reads and writes per second", x, y);
    for direction in DATA {
        let bytes = &document["metrics"]["per_second_from_first_issue"][direction.name()]["bytes"];
        let points = bytes
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(second, value)| (second as f64, value.as_f64().unwrap_or(0.0)))
            .collect();
        plot.series
            .push(Series::new(direction.name(), Mark::Step, points));
    }
    let mut section =
        Section::new("Traffic").figure(&plot.draw(), "bytes of issued requests by whole second");
    for phase in document["phases"]["phases"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let length =
            phase["end_ns"].as_f64().unwrap_or(0.0) - phase["start_ns"].as_f64().unwrap_or(0.0);
        section = section.text(&format!(
            "{}: {:.1} s, {} bytes read, {} bytes written.",
            phase["label"].as_str().unwrap_or(""),
            length / 1e9,
            phase["read"]["bytes"],
            phase["write"]["bytes"]
        ));
    }
    section
}

fn sizes(stats: &Stats) -> Section {
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

fn latency(document: &Value) -> Option<Section> {
    let latencies = document["metrics"]["pairing_newest"]["latency_ns"].as_object()?;
    let mut section = Section::new("Latency");
    for (direction, values) in latencies {
        let mut histogram = Histogram::new(
            format!("Latency of {direction} requests"),
            "issue to completion",
            Unit::Nanos,
        );
        for (bits, count) in values["log2_us_histogram"]
            .as_object()
            .into_iter()
            .flatten()
        {
            let bits: u32 = bits.parse().unwrap_or(0);
            let low = if bits == 0 {
                0
            } else {
                1000_u64 << (bits - 1).min(40)
            };
            histogram.add_many(low, count.as_u64().unwrap_or(0));
        }
        let p = |key: &str| values[key].as_f64().unwrap_or(0.0) / 1000.0;
        section = section.figure(
            &histogram.draw(),
            &format!(
                "p50 {:.1} us, p99 {:.1} us; bins are powers of two of microseconds",
                p("p50"),
                p("p99")
            ),
        );
    }
    Some(section)
}

fn heat(stats: &mut Stats) -> Option<Section> {
    let rows = stats.heat.as_mut()?.rows();
    let low = rows.first()?.0;
    let high = rows.last()?.0 + 1;
    let seconds = rows.iter().map(|row| row.1).max()? + 1;
    let scale = |span: u64| span.div_ceil(MAP as u64).max(1);
    let (tall, wide) = (scale(high - low), scale(seconds));
    let columns = usize::try_from(seconds.div_ceil(wide)).ok()?;
    let height = usize::try_from((high - low).div_ceil(tall)).ok()?;
    let mut cells = vec![0.0; columns * height];
    for (address, second, bytes) in rows {
        let row = usize::try_from((address - low) / tall).ok()?;
        let column = usize::try_from(second / wide).ok()?;
        if let Some(cell) = cells.get_mut(row * columns + column) {
            *cell += bytes as f64;
        }
    }
    const BIN: f64 = 64.0 * 1024.0 * 1024.0;
    let x = Axis::new("time since the first request", Unit::Seconds)
        .range(0.0, columns as f64 * wide as f64);
    let y = Axis::new("address", Unit::Bytes).range(
        low as f64 * BIN,
        (low as f64 + height as f64 * tall as f64) * BIN,
    );
    let mut map = HeatMap::new("Address against time", x, y, columns, cells, Unit::Bytes);
    map.log_colour = true;
    Some(Section::new("Places").figure(&map.draw(), "bytes read and written"))
}

fn cache(document: &Value) -> Option<Section> {
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
