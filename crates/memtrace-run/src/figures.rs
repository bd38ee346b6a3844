//! Figures of an analysis.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Arc;

use charts::Svg;
use charts::plot::{Axis, Bar, BarChart, HeatMap, LinePlot, Mark, Series};
use charts::render::RenderError;
use memtrace_analyser::{Analysis, Semantics, TypeMetrics};
use memtrace_labeller::{KvBlock, KvBlocks, Records};
use report::Unit;

use crate::error::Result as RunResult;

/// Number of bins of the retention histogram, as in the reference's figure.
const BINS: usize = 30;
/// Pixels per unit of the SVG, which has 96 per inch.
const PNG_SCALE: f64 = 150.0 / 96.0;
/// Number of points of the KV cache's occupancy.
const STEPS: u64 = 100;

/// A figure and its data.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Figure {
    /// File name without suffix.
    pub name: &'static str,
    /// Caption, one sentence.
    pub caption: &'static str,
    /// The figure.
    pub svg: Svg,
    /// Data of the figure.
    pub data: FigureData,
}

/// Data of a figure.
#[derive(Debug, Clone)]
pub struct FigureData(Data);

#[derive(Debug, Clone)]
enum Data {
    Csv(String),
    /// Retention of the regions of each type, ascending.
    Retentions(Arc<Retentions>),
}

type Retentions = Vec<(String, Vec<f64>)>;

impl FigureData {
    /// Writes the data as CSV.
    ///
    /// # Errors
    ///
    /// Returns an error if writing to `out` fails.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let types = match &self.0 {
            Data::Csv(text) => return out.write_all(text.as_bytes()),
            Data::Retentions(types) => types,
        };
        writeln!(out, "region_type,retention_s,share")?;
        for (kind, values) in types.iter() {
            for (value, share) in shares(values) {
                writeln!(out, "{kind},{value},{share}")?;
            }
        }
        Ok(())
    }
}

impl From<String> for FigureData {
    fn from(csv: String) -> Self {
        Self(Data::Csv(csv))
    }
}

/// File format of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FigureFormat {
    /// Scalable Vector Graphics.
    Svg,
    /// Portable Network Graphics, at about 150 dots per inch.
    Png,
    /// Portable Document Format.
    Pdf,
}

impl FigureFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Svg, Self::Png, Self::Pdf];

    /// Returns the file suffix, which is also the name in configurations.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Png => "png",
            Self::Pdf => "pdf",
        }
    }
}

impl FromStr for FigureFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|format| format.suffix() == text)
            .ok_or(())
    }
}

/// Contents of a file, or the reason why there are none.
pub(crate) type Rendered = Result<Vec<u8>, RenderError>;

impl Figure {
    /// Renders the figure in each format.
    pub(crate) fn rendered(&self, formats: &[FigureFormat]) -> Vec<(FigureFormat, Rendered)> {
        formats
            .iter()
            .map(|format| {
                let bytes = match format {
                    FigureFormat::Svg => Ok(self.svg.as_str().as_bytes().to_vec()),
                    FigureFormat::Png => charts::render::png(&self.svg, PNG_SCALE),
                    FigureFormat::Pdf => charts::render::pdf(&self.svg),
                };
                (*format, bytes)
            })
            .collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "places in a figure")]
fn real(value: u64) -> f64 {
    value as f64
}

/// Draws all figures that the analysis has data for.
///
/// # Errors
///
/// Returns an error if spilled regions cannot be read back.
pub fn draw_figures(analysis: &Analysis, kv_blocks: &KvBlocks) -> RunResult<Vec<Figure>> {
    let retentions = Arc::new(retentions(analysis)?);
    let time = match analysis.made_up_clock {
        true => "Retention, an instruction as 1 ns",
        false => "Retention",
    };
    let mut figures = Vec::new();
    // Regions of allocations are pages that several allocations use.
    if analysis.records != Records::Allocations {
        figures.push(retention_histogram(&retentions, time));
        figures.push(retention_cdf(retentions, time));
    }
    figures.extend([working_set(analysis), write_once(analysis)]);
    figures.extend(pages_over_time(analysis));
    figures.extend(addresses_over_time(analysis));
    figures.extend(miss_ratio(analysis));
    figures.extend(kv_occupancy(kv_blocks));
    Ok(figures)
}

/// Returns, per type with regions, their retention in seconds, ascending.
fn retentions(analysis: &Analysis) -> RunResult<Retentions> {
    let mut types: Retentions = analysis
        .types
        .iter()
        .map(|kind| (kind.region_type.clone(), Vec::new()))
        .collect();
    // First touches have no retention.
    let has_some = |kind: &TypeMetrics| kind.has_accesses() || analysis.semantics == Semantics::Mrm;
    for region in &analysis.regions {
        let region = region?;
        if !analysis.types.get(region.type_index).is_some_and(has_some) {
            continue;
        }
        if let Some((_, values)) = types.get_mut(region.type_index) {
            values.push(region.retention_s());
        }
    }
    types.retain(|(_, values)| !values.is_empty());
    for (_, values) in &mut types {
        values.sort_unstable_by(f64::total_cmp);
    }
    Ok(types)
}

/// Returns each value with the share of values up to it.
fn shares(values: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    let all = real(values.len() as u64);
    (1_u64..)
        .zip(values)
        .map(move |(at, value)| (*value, real(at) / all))
}

fn retention_histogram(retentions: &Retentions, time: &'static str) -> Figure {
    let mut plot = LinePlot::new(
        "Retention by region type",
        Axis::from_zero(time, Unit::Seconds),
        Axis::from_zero("Region count", Unit::Count),
    );
    let mut csv = String::from("region_type,from_s,to_s,regions\n");
    for (kind, values) in retentions {
        let (low, high) = match (values.first(), values.last()) {
            (Some(low), Some(high)) if high > low => (*low, *high),
            (Some(low), _) => (low - 0.5, low + 0.5),
            _ => continue,
        };
        let width = (high - low) / real(BINS as u64);
        let mut points = vec![(low, 0.0)];
        let mut rest = &values[..];
        for bin in 1..=BINS as u64 {
            let end = low + width * real(bin);
            let inside = if bin == BINS as u64 {
                rest.len()
            } else {
                rest.partition_point(|value| *value < end)
            };
            let (bin_values, after) = rest.split_at(inside);
            rest = after;
            let count = real(bin_values.len() as u64);
            points.extend([(end - width, count), (end, count)]);
            let _ = writeln!(csv, "{kind},{},{end},{}", end - width, bin_values.len());
        }
        points.push((high, 0.0));
        plot.series
            .push(Series::new(kind.clone(), Mark::Line, points));
    }
    Figure {
        name: "retention_histogram",
        caption: "Regions by the time from their first store to their last load, as far as it was recorded.",
        svg: plot.draw(),
        data: csv.into(),
    }
}

fn retention_cdf(retentions: Arc<Retentions>, time: &'static str) -> Figure {
    let mut plot = LinePlot::new(
        "Share of regions with at most this retention",
        Axis::from_zero(time, Unit::Seconds),
        Axis::from_zero("Share", Unit::None),
    );
    for (kind, values) in retentions.iter() {
        let points = shares(values).collect();
        plot.series
            .push(Series::new(kind.clone(), Mark::Line, points));
    }
    Figure {
        name: "retention_cdf",
        caption: "Share of regions whose first store and last load are at most so far apart.",
        svg: plot.draw(),
        data: FigureData(Data::Retentions(retentions)),
    }
}

fn working_set(analysis: &Analysis) -> Figure {
    let mut chart = BarChart::new("Working set by region type", "Working set", Unit::Bytes);
    let mut csv = String::from("region_type,total_bytes\n");
    for kind in analysis.types.iter().filter(|kind| kind.n_regions > 0) {
        let pages = match analysis.semantics {
            Semantics::Mrm => kind.total_pages,
            _ => kind.distinct_pages,
        };
        let bytes = pages * 4096;
        chart
            .bars
            .push(Bar::new(kind.region_type.clone(), real(bytes)));
        let _ = writeln!(csv, "{},{bytes}", kind.region_type);
    }
    Figure {
        name: "working_set",
        caption: match analysis.semantics {
            Semantics::Mrm => {
                "Memory of each type that was touched; a page counts once for each region that has it."
            }
            _ => "Memory of each type that was touched; of a sampled recording at least this.",
        },
        svg: chart.draw(),
        data: csv.into(),
    }
}

fn write_once(analysis: &Analysis) -> Figure {
    let mut chart = BarChart::new(
        "Mean write-once ratio by region type",
        "Write-once ratio",
        Unit::None,
    );
    chart.axis = chart.axis.range(0.0, 1.05);
    chart.subtitle = "high_mrm needs 0.8".into();
    let mut csv = String::from("region_type,write_once_ratio_mean\n");
    for kind in analysis.types.iter().filter(|kind| kind.n_regions > 0) {
        let ratio = match &kind.verdict {
            None => kind.write_once_ratio_mean.unwrap_or(0.0),
            Some(_) => match kind.write_once() {
                Some(ratio) => ratio,
                // Samples show too few stores, and types without stores have no ratio.
                None => continue,
            },
        };
        chart.bars.push(Bar::new(kind.region_type.clone(), ratio));
        let _ = writeln!(csv, "{},{ratio}", kind.region_type);
    }
    Figure {
        name: "write_once",
        caption: "Share of written addresses that were written once, of types of which every access was recorded: 1 is data that never changes.",
        svg: chart.draw(),
        data: csv.into(),
    }
}

/// Draws distinct pages over time, one line per type.
fn pages_over_time(analysis: &Analysis) -> Option<Figure> {
    analysis
        .types
        .first()
        .filter(|kind| !kind.window_pages.is_empty())?;
    let mut csv = String::from("region_type,start_ns,distinct_pages\n");
    let mut plot = LinePlot::new(
        "Distinct pages over time",
        Axis::from_zero("Time since the first access", Unit::Nanos),
        Axis::from_zero("Pages", Unit::Count),
    );
    for kind in &analysis.types {
        let mut points = Vec::new();
        for (at, pages) in (0_u64..).zip(&kind.window_pages) {
            let since = at * analysis.window_ns;
            points.push((real(since), real(*pages)));
            let start = analysis.first_ns + since;
            let _ = writeln!(csv, "{},{start},{pages}", kind.region_type);
        }
        plot.series
            .push(Series::new(kind.region_type.clone(), Mark::Line, points));
    }
    Some(Figure {
        name: "pages_over_time",
        caption: "Pages of each type that were touched in each window of time.",
        svg: plot.draw(),
        data: csv.into(),
    })
}

/// Draws touched pages by type and address over time, with accesses as colour.
fn addresses_over_time(analysis: &Analysis) -> Option<Figure> {
    let columns = analysis
        .types
        .iter()
        .find_map(|kind| kind.bands.first())
        .map(|band| band.accesses.len())
        .filter(|columns| *columns > 0)?;
    let mut csv = String::from("region_type,first_address,pages,start_ns,accesses\n");
    let (mut cells, mut order, mut rows) = (Vec::new(), Vec::new(), 0);
    for kind in &analysis.types {
        for band in &kind.bands {
            rows += 1;
            for (at, accesses) in (0_u64..).zip(&band.accesses) {
                cells.push(real(*accesses));
                let start = analysis.first_ns + at * analysis.window_ns;
                let (kind, pages) = (&kind.region_type, band.pages);
                let address = u128::from(band.first_page) * 4096;
                let _ = writeln!(csv, "{kind},{address:#x},{pages},{start},{accesses}");
            }
        }
        if !kind.bands.is_empty() {
            order.push(format!("{} ({})", kind.region_type, kind.bands.len()));
        }
    }
    let span = real(columns as u64 * analysis.window_ns);
    let mut map = HeatMap::new(
        "Accesses by time and address",
        Axis::from_zero("Time since the first access", Unit::Nanos).range(0.0, span),
        Axis::from_zero("Band of touched pages", Unit::Count).range(0.0, real(rows)),
        columns,
        cells,
        Unit::Count,
    );
    map.subtitle = format!("bands from below: {}", order.join(", ")).into();
    map.log_colour = true;
    Some(Figure {
        name: "addresses_over_time",
        caption: "Accesses by time and place: each row is a band of neighbouring pages that were touched.",
        svg: map.draw(),
        data: csv.into(),
    })
}

fn miss_ratio(analysis: &Analysis) -> Option<Figure> {
    let reuse = analysis.reuse.as_ref()?;
    let mut csv = String::from("cache_bytes,miss_ratio\n");
    let points: Vec<(f64, f64)> = reuse
        .miss_ratios
        .iter()
        .map(|(pages, ratio)| {
            let _ = writeln!(csv, "{},{ratio}", pages * 4096);
            (real(pages * 4096), *ratio)
        })
        .collect();
    if points.is_empty() {
        return None;
    }
    let mut plot = LinePlot::new(
        "Miss ratio by cache size",
        Axis::log("Cache size", Unit::Bytes),
        Axis::from_zero("Miss ratio", Unit::None).range(0.0, 1.0),
    );
    plot.series
        .push(Series::new("all accesses", Mark::Line, points));
    Some(Figure {
        name: "miss_ratio",
        caption: "Share of accesses that miss in a cache of this size that evicts what was used longest ago.",
        svg: plot.draw(),
        data: csv.into(),
    })
}

/// Returns the number of live blocks by age, at points in time.
///
/// A block is alive from its allocation (else its first store, else its first access) to its
/// eviction or last load. Age groups: under 1 s, under 10 s, under 60 s, older.
#[must_use]
pub fn kv_age_pyramid(kv_blocks: &KvBlocks, steps: u64) -> Vec<(u64, [u64; 4])> {
    let life = |block: KvBlock| (block.start_ns, block.start_ns + block.lifetime_ns());
    let known = |block: &KvBlock| block.start_known || block.start_ns > 0;
    let alive = || kv_blocks.iter().filter(known).map(life);
    let (Some(start), Some(end)) = (
        alive().map(|(from, _)| from).min(),
        alive().map(|(_, to)| to).max(),
    ) else {
        return Vec::new();
    };
    let steps = steps.max(1);
    let at = |step: u64| {
        let offset = u128::from(end - start) * u128::from(step) / u128::from(steps);
        start + u64::try_from(offset).unwrap_or(0)
    };
    let mut pyramid: Vec<(u64, [u64; 4])> = (0..=steps).map(|step| (at(step), [0; 4])).collect();
    for (from, to) in alive() {
        let born = pyramid.partition_point(|(time, _)| *time < from);
        let then = pyramid.iter_mut().skip(born);
        for (time, ages) in then.take_while(|(time, _)| *time <= to) {
            let [second, ten, minute, older] = ages;
            let class = match *time - from {
                0..1_000_000_000 => second,
                1_000_000_000..10_000_000_000 => ten,
                10_000_000_000..60_000_000_000 => minute,
                _ => older,
            };
            *class += 1;
        }
    }
    pyramid
}

fn kv_occupancy(kv_blocks: &KvBlocks) -> Option<Figure> {
    let pyramid = kv_age_pyramid(kv_blocks, STEPS);
    let (start, _) = *pyramid.first()?;
    let mut csv = String::from("time_ns,under_1s,under_10s,under_60s,older\n");
    let mut plot = LinePlot::new(
        "Blocks of the KV cache alive, by age",
        Axis::from_zero("Time since the first access", Unit::Nanos),
        Axis::from_zero("Blocks", Unit::Count),
    );
    for (time, [a, b, c, d]) in &pyramid {
        let _ = writeln!(csv, "{time},{a},{b},{c},{d}");
    }
    // Each line is stacked on those of the younger ages.
    for (upto, name) in [
        (1, "under 1 s"),
        (2, "under 10 s"),
        (3, "under 60 s"),
        (4, "all"),
    ] {
        let points = pyramid
            .iter()
            .map(|(time, ages)| (real(time - start), real(ages.iter().take(upto).sum())))
            .collect();
        plot.series.push(Series::new(name, Mark::Line, points));
    }
    Some(Figure {
        name: "kv_occupancy",
        caption: "Blocks of the KV cache that are alive, by age. A block lives from its allocation, first store or first access to its eviction or last load.",
        svg: plot.draw(),
        data: csv.into(),
    })
}
