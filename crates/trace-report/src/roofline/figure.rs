//! The roofline as a figure.

use std::collections::BTreeMap;

use charts::Svg;
use charts::html::{Page, Section};
use charts::plot::{Axis, Dot, LinePlot, Mark, Series};
use report::text::shorten;
use report::{Unit, human};
use roofline::{Analysis, Kind, PeakKey, Precision, Row, UnitKind, tables};
use trace_model::kernel::display_names;

use super::{Answer, analyses};
use crate::{Answered, Result, precise};

/// Operators with a colour of their own; the others share one, and roofs have those of the next round.
const NAMED: usize = 6;

/// Dots with a name beside them: those with most GPU time.
const LABELLED: usize = 6;

/// Characters of such a name.
const LABEL: usize = 28;

/// Radius of the dot with most GPU time, and the least one; areas are as GPU times.
const RADII: (f64, f64) = (9.0, 2.2);

/// Rows of the table on a page.
const ROWS: usize = 50;

/// Points from which on a roof is drawn, as a factor of the outermost intensities.
const MARGIN: f64 = 2.0;

/// Returns the roofline of the first recording; `None` if there is none.
#[must_use]
pub fn svg(answered: &[Answered<Answer>]) -> Option<Svg> {
    let first = answered.first()?;
    Some(draw(&first.label, &first.answer.analysis))
}

/// Returns a page with the roofline of each recording and its calls, those with most GPU time first.
///
/// # Errors
///
/// Returns an error if a table cannot be made.
pub fn page(answered: &[Answered<Answer>]) -> Result<String> {
    let mut page = Page::new("How far from the limit");
    for (label, analysis) in analyses(answered) {
        let table = tables::calls(&[(label, analysis)], ROWS)?;
        let section = Section::new(label.to_owned())
            .text(&roofline::text::answer(analysis))
            .figure(
                &draw(label, analysis),
                "Each dot is an operator with its shapes; its area is the GPU time that it takes",
            )
            .table_head(&table, ROWS, analysis.calls.rows.len());
        page = page.section(section);
    }
    Ok(page.to_html())
}

/// Dots of one operator.
#[derive(Default)]
struct Dots {
    time_ns: i64,
    points: Vec<(f64, f64)>,
    /// GPU time of each, and what it is.
    calls: Vec<(i64, String)>,
}

impl Dots {
    fn add(&mut self, other: Self) {
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.points.extend(other.points);
        self.calls.extend(other.calls);
    }

    /// The dots as a series: areas relative to `most`, names beside those of at least `labelled`.
    fn series(self, name: String, (most, labelled): (i64, i64)) -> Series {
        let dots = self.calls.into_iter().map(|(time_ns, tip)| {
            let share = gpu_time::percent(time_ns, most).unwrap_or(0.0) / 100.0;
            Dot {
                radius: Some((RADII.0 * share.sqrt()).max(RADII.1)),
                label: (time_ns >= labelled)
                    .then(|| tip.lines().next().unwrap_or_default())
                    .map(|name| shorten(name, LABEL).into_owned()),
                tip,
            }
        });
        let dots = dots.collect();
        let mut series = Series::new(name, Mark::Dots, self.points);
        series.dots = dots;
        series
    }
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
        own.calls.push((row.time_ns, said(kind, row)));
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
    let mut times: Vec<i64> = points
        .values()
        .flat_map(|dots| dots.calls.iter().map(|call| call.0))
        .collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    let most = times.first().copied().unwrap_or(0).max(1);
    let labelled = times.get(LABELLED - 1).copied().unwrap_or(1);
    let mut by_time: Vec<(&str, Dots)> = points.into_iter().collect();
    by_time.sort_by(|a, b| b.1.time_ns.cmp(&a.1.time_ns).then(a.0.cmp(b.0)));
    let others = by_time.split_off(by_time.len().min(NAMED));
    for (op, dots) in by_time {
        let series = dots.series(op.to_owned(), (most, labelled));
        plot.series.push(series);
    }
    let mut rest = Dots::default();
    others.into_iter().for_each(|(_, dots)| rest.add(dots));
    if !rest.points.is_empty() {
        let series = rest.series("other operators".to_owned(), (most, labelled));
        plot.series.push(series);
    }
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
    plot.draw()
}

/// What a dot is: the kernel or operator first, then its shapes, time and share of the limit.
fn said(kind: &Kind, row: &Row) -> String {
    let name = match kind.kernel.as_str() {
        "" => kind.op.clone(),
        kernel => display_names([kernel])
            .remove(kernel)
            .unwrap_or_else(|| kernel.to_owned()),
    };
    let shapes = roofline::text::shapes(&kind.dims);
    let of_limit = row.pct().map_or(String::new(), |pct| {
        format!(", {} of its limit", human::percent(pct))
    });
    let time = human::duration(precise(row.time_ns));
    let calls = human::count(row.calls);
    format!("{name}\n{shapes}\n{time} in {calls} calls{of_limit}")
}
