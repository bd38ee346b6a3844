//! Builds the HTML page with plots.

mod plots;

use blkio_parser::Stats;
use blkio_parser::analyse::traffic::DATA;
use charts::html::{Page, Section};
use report::{Cell, Column, Table, Unit, human};
use serde_json::Value;

use crate::headline::{headline, name_in_list};
use crate::phases::GpuSpan;
use crate::value::{list, number};
use plots::{beside, cache, depth, heat, latency, seeks, sizes, traffic, working_set};

/// Bytes of the unit of rates: all rates of the page are binary, as the sizes are.
const MIB: f64 = 1_048_576.0;

/// Builds the HTML page of a trace with its plots, with what a GPU did meanwhile where that is known.
#[must_use]
pub fn page(stats: &mut Stats, document: &Value, gpu: &[GpuSpan]) -> Page {
    let name = document["inputs"][0]["name"]
        .as_str()
        .unwrap_or("trace")
        .to_owned();
    let mut page = Page::new("Block I/O")
        .subtitle(name)
        .section(answer(document));
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
    page = page.section(traffic(document));
    page = beside(stats, document, gpu)
        .into_iter()
        .fold(page, Page::section);
    page = phases(document).into_iter().fold(page, Page::section);
    page = devices(document).into_iter().fold(page, Page::section);
    page = page.section(sizes(stats));
    let sections = [
        latency(stats, document),
        depth(document),
        heat(stats),
        seeks(document),
        cache(document),
        working_set(document),
    ];
    let page = sections.into_iter().flatten().fold(page, Page::section);
    page.section(quality)
}

/// Returns what limits the trace, and what it moved.
fn answer(document: &Value) -> Section {
    let mut section = Section::new("Answer").text(&headline(document));
    let warnings = list(&document["quality"]["warnings"]).count();
    if warnings > 0 {
        section = section.warning(&format!("{warnings} caveats: see Quality at the end"));
    }
    let extra = &document["extra"];
    let rows = DATA.map(|direction| {
        let name = direction.name();
        let of = &document["metrics"]["totals"][name];
        let rate = |rates: &Value| {
            let rate = rates[format!("{name}_bytes_per_s")].as_f64();
            rate.map_or(Cell::Null, |rate| Cell::Real(rate / MIB))
        };
        let latency = &document["metrics"]["pairing_newest"]["latency_ns"][name];
        let time = |key: &str| latency[key].as_f64().map_or(Cell::Null, Cell::Real);
        vec![
            Cell::from(name),
            of["ios"].as_u64().map_or(Cell::UInt(0), Cell::UInt),
            Cell::Real(number(&of["bytes"])),
            rate(&extra["mean_rates"]),
            rate(&extra["rates_while_busy"]),
            time("p50"),
            time("p99"),
        ]
    });
    let columns = vec![
        Column::text("direction"),
        Column::uint("requests"),
        Column::real("bytes").unit(Unit::Bytes),
        Column::real("MiB/s over the span"),
        Column::real("MiB/s while busy"),
        Column::real("latency p50").unit(Unit::Nanos),
        Column::real("latency p99").unit(Unit::Nanos),
    ];
    if let Some(table) = table("totals", columns, rows) {
        section = section.table(&table, 10);
    }
    let depth = &extra["queue_depth"]["all"];
    let span = number(&extra["mean_rates"]["span_s"]);
    let mut text = format!(
        "From the first issue to the last completion: {}.",
        human::quantity(span, Unit::Seconds)
    );
    if let (Some(mean), Some(busy)) = (
        depth["time_weighted_mean"].as_f64(),
        depth["utilisation"].as_f64(),
    ) {
        text += &format!(
            " Busy {:.1} % of it; queue depth mean {mean:.2}, most {}.",
            busy * 100.0,
            depth["max"]
        );
    }
    section.text(&text)
}

/// Returns what each of several devices did, and which lie on others.
fn devices(document: &Value) -> Option<Section> {
    let mut section = Section::new("Devices");
    for pair in list(&document["stacked_devices"]) {
        let name = |key: &str| pair[key].as_str().unwrap_or("-");
        let counted = if pair["upper_is_left_out"] == true {
            "once, at the lower one"
        } else {
            "twice"
        };
        let what = if pair["upper_has_requests"] == false {
            "bios"
        } else {
            "requests"
        };
        section = section.text(&format!(
            "{} lies on {} ({}): {what} are counted {counted}.",
            name("upper"),
            name("lower"),
            name("evidence")
        ));
    }
    let apart = list(&document["devices_left_out"]).map(|of| (of, "no"));
    let counted = list(&document["devices"]).map(|of| (of, "yes"));
    let rows: Vec<Vec<Cell<'_>>> = counted
        .chain(apart)
        .map(|(of, is_counted)| {
            let real = |value: &Value| value.as_f64().map_or(Cell::Null, Cell::Real);
            let all = &of["metrics"]["sequentiality"]["all"];
            let share = number(&all["sequential"]) / number(&all["requests"]).max(1.0);
            let blocks = of["metrics"]["working_set_4k_blocks"]["union"].as_f64();
            let depth = &of["queue_depth"]["all"];
            let busy = depth["utilisation"].as_f64().map(|share| share * 100.0);
            let latency = &of["metrics"]["pairing_newest"]["latency_ns"];
            vec![
                Cell::from(of["device"].as_str().unwrap_or("-")),
                of["metrics"]["issues"]
                    .as_u64()
                    .map_or(Cell::Null, Cell::UInt),
                real(&of["read"]["bytes"]),
                real(&of["write"]["bytes"]),
                Cell::Real(share * 100.0),
                blocks.map_or(Cell::Null, |blocks| Cell::Real(blocks * 4096.0)),
                real(&of["re_read_factor"]),
                real(&latency["read"]["p50"]),
                real(&latency["write"]["p50"]),
                real(&depth["time_weighted_mean"]),
                busy.map_or(Cell::Null, Cell::Real),
                Cell::from(of["limit"]["limiter"].as_str().unwrap_or("-")),
                Cell::from(is_counted),
            ]
        })
        .collect();
    if rows.is_empty() {
        return list(&document["stacked_devices"]).next().map(|_| section);
    }
    let columns = vec![
        Column::text("device"),
        Column::uint("requests"),
        Column::real("read").unit(Unit::Bytes),
        Column::real("written").unit(Unit::Bytes),
        Column::real("sequential").unit(Unit::Pct),
        Column::real("working set").unit(Unit::Bytes),
        Column::real("read again"),
        Column::real("read p50").unit(Unit::Nanos),
        Column::real("write p50").unit(Unit::Nanos),
        Column::real("depth"),
        Column::real("busy").unit(Unit::Pct),
        Column::text("limit"),
        Column::text("in the totals"),
    ];
    let table = table("devices", columns, rows)?;
    Some(section.table(&table, 64))
}

/// Returns a table of these rows; `None` when cells and columns do not fit.
fn table<'a>(
    name: &'static str,
    columns: Vec<Column>,
    rows: impl IntoIterator<Item = Vec<Cell<'a>>>,
) -> Option<Table> {
    let mut table = Table::new(name, columns).ok()?;
    for row in rows {
        table.push(&row).ok()?;
    }
    Some(table)
}

/// When the first request was issued, by the trace's clock.
fn first_issue_ns(document: &Value) -> f64 {
    number(&document["metrics"]["first_issue_ns"])
        + number(&document["extra"]["metrics_time_base_ns"])
}

/// Returns what each phase read and wrote, and how long its requests took.
fn phases(document: &Value) -> Option<Section> {
    let first = first_issue_ns(document);
    let found = list(&document["phases"]["phases"]).map(|phase| ("label", phase));
    let given = list(&document["given_phases"]).map(|phase| ("name", phase));
    let engine = &document["engine_phases"];
    let of_engine = list(&engine["phases"]).map(|phase| ("name", phase));
    let has_several = list(&document["devices"]).count() > 1;
    // A row for each direction: both side by side would be wider than a screen.
    let rows: Vec<Vec<Cell<'_>>> = found
        .chain(given)
        .chain(of_engine)
        .flat_map(|(name, phase)| {
            let has = |direction: &str| phase[direction]["ios"].as_u64().unwrap_or(0) > 0;
            let mut of: Vec<&str> = DATA.map(|direction| direction.name()).to_vec();
            of.retain(|direction| has(direction));
            // What has neither is a row all the same.
            if of.is_empty() {
                of.push("-");
            }
            of.into_iter()
                .map(move |direction| (name, phase, direction))
        })
        .map(|(name, phase, direction)| {
            let at = |active: &str, key: &str| {
                let time_ns = phase[active].as_f64().unwrap_or(number(&phase[key]));
                Cell::Real((time_ns - first) / 1e9)
            };
            let real = |value: &Value| value.as_f64().map_or(Cell::Null, Cell::Real);
            let share = |value: &Value| {
                let percent = value.as_f64().map(|share| share * 100.0);
                percent.map_or(Cell::Null, Cell::Real)
            };
            let of = &phase[direction];
            let latency = &phase["latency_ns"][direction];
            vec![
                Cell::from(name_in_list(phase, name)),
                at("active_from_ns", "start_ns"),
                at("active_until_ns", "end_ns"),
                Cell::from(direction),
                of["ios"].as_u64().map_or(Cell::Null, Cell::UInt),
                of["bytes_per_s"]
                    .as_f64()
                    .map_or(Cell::Null, |rate| Cell::Real(rate / MIB)),
                share(&phase["sequentiality"][direction]["sequential_share"]),
                real(&latency["p50"]),
                real(&latency["p99"]),
                real(&phase["mean_queue_depth"]),
                share(&phase["busy_share"]),
                Cell::from(phase["limit"]["limiter"].as_str().unwrap_or("-")),
            ]
            .into_iter()
            .chain(
                has_several.then(|| Cell::from(phase["limit"]["device"].as_str().unwrap_or("-"))),
            )
            .collect()
        })
        .collect();
    let refused = engine["refused"].as_str();
    let refused = refused.map(|reason| format!("engine not compared: {reason}"));
    if rows.is_empty() {
        return refused.map(|reason| Section::new("Phases").warning(&reason));
    }
    let mut columns = vec![
        Column::text("phase"),
        Column::real("from").unit(Unit::Seconds),
        Column::real("to").unit(Unit::Seconds),
        Column::text("direction"),
        Column::uint("requests"),
        Column::real("MiB/s"),
        Column::real("sequential").unit(Unit::Pct),
        Column::real("p50").unit(Unit::Nanos),
        Column::real("p99").unit(Unit::Nanos),
        Column::real("depth"),
        Column::real("busy").unit(Unit::Pct),
        Column::text("limit"),
    ];
    columns.extend(has_several.then(|| Column::text("limit of")));
    let table = table("phases", columns, rows)?;
    let mut section = Section::new("Phases").table(&table, 100);
    if has_several {
        section = section.text(
            "Rates, depth and busy time are of all devices together; the limit is of the device named beside it.",
        );
    }
    let doubt = engine["caveat"].as_str().map(str::to_owned);
    if let Some(reason) = refused.or(doubt) {
        section = section.warning(&reason);
    }
    let Some(anchor) = engine["anchor"].as_str() else {
        return Some(section);
    };
    let uncertainty = human::quantity(number(&engine["uncertainty_ns"]), Unit::Nanos);
    let count = list(&engine["phases"]).count();
    Some(section.text(&format!(
        "The last {count} are the engine's, by {anchor}, give or take {uncertainty}."
    )))
}
