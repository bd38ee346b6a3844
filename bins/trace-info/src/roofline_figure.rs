//! The roofline as a figure.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use byte_source::output::AtomicFile;
use charts::Svg;
use charts::html::{Page, Section};
use charts::plot::{Axis, LinePlot, Mark, Series};
use report::Unit;
use roofline::{Analysis, PeakKey, Precision, UnitKind, tables};

use crate::roofline::RooflineArgs;

/// Operators with a colour of their own; the others share one.
const NAMED: usize = 8;

/// Rows of the table on a page.
const ROWS: usize = 50;

/// Points from which on a roof is drawn, as a factor of the outermost intensities.
const MARGIN: f64 = 2.0;

/// A file for the figure, and whether it is a page.
pub(crate) struct FigureFile {
    file: AtomicFile,
    is_page: bool,
}

pub(crate) fn open(args: &RooflineArgs) -> anyhow::Result<Option<FigureFile>> {
    let Some(path) = &args.figure else {
        return Ok(None);
    };
    let extension = Path::new(path).extension().and_then(|e| e.to_str());
    let is_page = match extension {
        Some("svg") => false,
        Some("html") => true,
        _ => {
            return Err(cli::usage(
                "--figure: the name of the file ends with .svg or .html",
            ));
        }
    };
    cli::refuse_overwrite(&args.report.traces()?, &args.figure)?;
    Ok(Some(FigureFile {
        file: AtomicFile::create(path)?,
        is_page,
    }))
}

pub(crate) fn write(figure: FigureFile, all: &[(&str, &Analysis)]) -> anyhow::Result<()> {
    let FigureFile { mut file, is_page } = figure;
    if is_page {
        let mut page = Page::new("How far from the limit");
        for (label, analysis) in all {
            let table = tables::calls(&[(*label, *analysis)], ROWS)?;
            let section = Section::new((*label).to_owned())
                .text(&roofline::text::answer(analysis))
                .figure(
                    &draw(label, analysis),
                    "Each dot is an operator with its shapes",
                )
                .table_head(&table, ROWS, analysis.calls.rows.len());
            page = page.section(section);
        }
        file.write_all(page.to_html().as_bytes())?;
    } else if let Some((label, analysis)) = all.first() {
        file.write_all(draw(label, analysis).as_str().as_bytes())?;
    }
    file.commit()?;
    Ok(())
}

/// Dots of one operator.
#[derive(Default)]
struct Dots {
    time_ns: i64,
    points: Vec<(f64, f64)>,
}

/// The roofs of the device with most GPU time, and the calls that have both intensity and rate.
fn draw(label: &str, analysis: &Analysis) -> Svg {
    let mut points: BTreeMap<&str, Dots> = BTreeMap::new();
    let mut used: Vec<Precision> = Vec::new();
    let mut has_vector = false;
    for row in &analysis.calls.rows {
        let Some(kind) = analysis.list.kinds.get(row.name as usize) else {
            continue;
        };
        let (Ok(numbers), Some(x), Some(y)) = (&kind.answer, row.intensity(), row.tflops()) else {
            continue;
        };
        if x <= 0.0 || y <= 0.0 {
            continue;
        }
        let own = points.entry(kind.op.as_str()).or_default();
        own.time_ns = own.time_ns.saturating_add(row.time_ns);
        own.points.push((x, y));
        used.extend(numbers.precision);
        has_vector |= numbers.unit == UnitKind::Vector;
    }
    used.sort_unstable();
    used.dedup();
    let all = || points.values().flat_map(|dots| &dots.points);
    let low = all().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let high = all().map(|p| p.0).fold(0.0, f64::max);
    let mut plot = LinePlot::new(
        "Roofline",
        Axis::log("FLOP for each byte of memory traffic", Unit::None),
        Axis::log("TFLOP/s", Unit::None),
    );
    plot.subtitle = label.to_owned().into();
    plot.height_px = 420.0;
    let device = analysis.devices.get(analysis.main_device);
    if let Some(device) = device.filter(|d| d.peaks.is_known() && low.is_finite()) {
        let mut roofs: Vec<(String, f64)> = Vec::new();
        if has_vector && let Some(peak) = device.peaks.get(PeakKey::Vector) {
            roofs.push(("vector".to_owned(), peak));
        }
        for precision in used {
            if let Some((peak, _)) = device.peaks.matrix(precision) {
                roofs.push((precision.name().to_owned(), peak));
            }
        }
        let hbm = device.peaks.get(PeakKey::Hbm).unwrap_or(0.0);
        // The slope that all roofs share, up to the lowest of them.
        let lowest = roofs
            .iter()
            .map(|roof| roof.1)
            .fold(f64::INFINITY, f64::min);
        if lowest.is_finite() {
            let ridge = lowest * 1e3 / hbm;
            let from = low.min(ridge) / MARGIN;
            let slope = vec![(from, from * hbm / 1e3), (ridge, lowest)];
            let name = format!("memory, {hbm} GB/s");
            plot.series.push(Series::new(name, Mark::Line, slope));
        }
        for (name, peak) in roofs {
            // GB/s times FLOP for each byte are GFLOP/s.
            let ridge = peak * 1e3 / hbm;
            let (from, to) = (low.min(ridge) / MARGIN, high.max(ridge) * MARGIN);
            let roof = vec![(from, from * hbm / 1e3), (ridge, peak), (to, peak)];
            plot.series.push(Series::new(
                format!("limit of {name}, {peak} TFLOP/s"),
                Mark::Line,
                roof,
            ));
        }
    }
    let mut by_time: Vec<(&str, Dots)> = points.into_iter().collect();
    by_time.sort_by(|a, b| b.1.time_ns.cmp(&a.1.time_ns).then(a.0.cmp(b.0)));
    let others = by_time.split_off(by_time.len().min(NAMED));
    let mut add = |name: String, points: Vec<(f64, f64)>| {
        plot.series.push(Series::new(name, Mark::Dots, points));
    };
    for (op, dots) in by_time {
        add(op.to_owned(), dots.points);
    }
    if !others.is_empty() {
        let points = others.into_iter().flat_map(|(_, dots)| dots.points);
        add("other operators".to_owned(), points.collect());
    }
    plot.draw()
}
