//! The figures of the published study, as data: what is drawn, with labels and axes.

mod deepnvme;
mod pickle;
mod plots;
mod run;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::series::{ALL_READS, ALL_WRITES, Group, Series};
use blkio_companions::deepnvme::{Results, SERIES, SIZES_MIB};
use blkio_companions::gpu::GpuLog;
use blkio_parser::analyse::traffic::Traffic;

pub use self::deepnvme::{DeepnvmeResults, deepnvme_results, figure_2};
pub use self::plots::draw;
pub use self::run::{Figures, figures_of_run};

/// Form in which a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mark {
    /// A line.
    Line,
    /// Bars.
    Bar,
}

/// One curve.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Curve {
    /// Name in the legend; the published scripts have none for single curves.
    pub label: String,
    /// Form in which it is drawn.
    pub mark: Mark,
    /// Places, x and y.
    pub points: Vec<(f64, f64)>,
}

/// Ends and ticks of both axes as published.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Axes {
    /// Largest x; the smallest is 0.
    pub x_max: f64,
    /// Distance of ticks.
    pub x_step: f64,
    /// Largest y; the smallest is 0, and there is a tick at every whole number from 1.
    pub y_max: f64,
}

/// One figure, or a table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Figure {
    /// End of the file name, without extension: `gpu_util`.
    pub suffix: String,
    /// What is drawn.
    pub curves: Vec<Curve>,
    /// Rows of a table, the heading apart.
    pub table: Option<Vec<(u64, u64)>>,
    /// Label of the x axis.
    pub x_label: String,
    /// Label of the y axis.
    pub y_label: String,
    /// The published axes; `None` where they follow the data.
    pub axes: Option<Axes>,
    /// Names of the x places, for categories.
    pub x_names: Vec<String>,
}

/// What is missing for a figure, in words.
pub type Missing = Vec<String>;

/// The choices that differ between figures 3 and 4 to 6.
struct Plan {
    histograms: [&'static str; 2],
    cdfs: [&'static str; 2],
    write: &'static str,
    axes: Axes,
    stem: &'static str,
}

fn plan(number: u8) -> Option<Plan> {
    let axes = |x_max, x_step, y_max| Axes {
        x_max,
        x_step,
        y_max,
    };
    Some(match number {
        3 => Plan {
            histograms: ["R", "WS"],
            cdfs: ["WS", "R"],
            write: "WS",
            axes: axes(240.0, 60.0, 10.0),
            stem: "opt-13b-model-offload",
        },
        4 => Plan {
            histograms: ["RA", "W"],
            cdfs: ["W", "RA"],
            write: "W",
            axes: axes(840.0, 60.0, 10.0),
            stem: "opt-30b-model-offload",
        },
        // The published scripts call the runs of OPT-6.7B so.
        5 | 6 => Plan {
            histograms: ["RA", "W"],
            cdfs: ["W", "RA"],
            write: "W",
            axes: axes(1500.0, 300.0, 3.0),
            stem: "opt-13b-model-offload",
        },
        _ => return None,
    })
}

/// Beginning of the names of the recordings that a figure is drawn from: `opt-6.7b-kv-offload`.
#[must_use]
pub fn run_stem(number: u8) -> Option<&'static str> {
    Some(match number {
        3 => "opt-13b-model-offload",
        4 => "opt-30b-model-offload",
        5 | 6 => "opt-6.7b-kv-offload",
        _ => return None,
    })
}

/// Beginning of the published file names of a figure: `opt-13b-model-offload`.
#[must_use]
pub fn published_stem(number: u8) -> Option<&'static str> {
    plan(number).map(|plan| plan.stem)
}

fn figure(suffix: impl Into<String>, x_label: &str, y_label: &str, curves: Vec<Curve>) -> Figure {
    Figure {
        suffix: suffix.into(),
        curves,
        table: None,
        x_label: x_label.to_owned(),
        y_label: y_label.to_owned(),
        axes: None,
        x_names: Vec::new(),
    }
}

fn curve(label: &str, mark: Mark, points: Vec<(f64, f64)>) -> Curve {
    Curve {
        label: label.to_owned(),
        mark,
        points,
    }
}

/// Returns the values at 1, 2, 3, ...
fn numbered(values: impl IntoIterator<Item = f64>) -> Vec<(f64, f64)> {
    values
        .into_iter()
        .enumerate()
        .map(|(i, y)| ((i + 1) as f64, y))
        .collect()
}

/// Figures 3 to 6 of a run. `compat` gives the published arithmetic; without it the GPU's axis is time, and bandwidth is of
/// exact bytes in seconds since the first request, on axes that show all of it.
#[must_use]
pub fn run_figures(
    number: u8,
    series: &Series,
    traffic: &Traffic,
    gpu: Option<&GpuLog>,
    compat: bool,
) -> (Vec<Figure>, Missing) {
    let mut missing = Missing::new();
    let mut figures = Vec::new();
    let Some(plan) = plan(number) else {
        return (
            figures,
            vec![format!("there is no figure {number} of a run")],
        );
    };
    match gpu {
        None => missing.push("GPU utilisation (*-gpu.txt)".to_owned()),
        Some(gpu) => figures.push(gpu_figure(gpu, compat)),
    }
    let empty = Group::default();
    let mut group = |name: &str| -> Group {
        match series.group(name) {
            Some(group) => group.clone(),
            None => {
                let what = format!("no request of kind {name}");
                // Several figures want it.
                if !missing.contains(&what) {
                    missing.push(what);
                }
                empty.clone()
            }
        }
    };
    let mut table = figure("bitesize-total-read", "", "", Vec::new());
    table.table = Some(group("RA").sizes_kib.into_iter().collect());
    figures.push(table);
    for name in plan.histograms {
        let sizes = group(name).sizes_kib;
        let points = sizes.iter().map(|(k, n)| (*k as f64, *n as f64)).collect();
        figures.push(figure(
            format!("size-hist-{name}"),
            "Bite size (KB)",
            "Count",
            vec![curve("g1", Mark::Bar, points)],
        ));
    }
    let mut bandwidth = figure(
        "bitesize-pre-sec-readwrite",
        if compat { "Time (minutes)" } else { "Time (s)" },
        "Bandwidth (GiB/s)",
        if compat {
            published_bandwidth(&group(ALL_READS), &group(ALL_WRITES))
        } else {
            exact_bandwidth(traffic)
        },
    );
    bandwidth.axes = compat.then_some(plan.axes);
    figures.push(bandwidth);
    let writes = group(plan.write).dense().unwrap_or_default();
    figures.push(figure(
        "bitesize-pre-sec-write",
        "Time (s)",
        "Write bandwidth (MiB/s)",
        vec![curve(
            "placeholder",
            Mark::Line,
            numbered(writes.iter().map(|kib| *kib as f64 / 1024.0)),
        )],
    ));
    for name in plan.cdfs {
        let cdf = series.access_cdf(name).unwrap_or_default();
        let points = cdf.iter().map(|(count, share)| (*count as f64, *share));
        figures.push(figure(
            format!("sector-access-cdf-{name}"),
            "Access count",
            "Aggregated ratio",
            vec![curve("placeholder", Mark::Line, points.collect())],
        ));
    }
    (figures, missing)
}

fn gpu_figure(gpu: &GpuLog, compat: bool) -> Figure {
    let first = gpu.samples.first().map_or(0, |sample| sample.t_ns);
    let points = gpu
        .samples
        .iter()
        .zip(gpu.published_x())
        .filter_map(|(sample, x)| {
            let x = if compat {
                x
            } else {
                sample.t_ns.saturating_sub(first) as f64 / 1e9
            };
            Some((x, sample.percent?))
        });
    figure(
        "gpu_util",
        if compat { "Time" } else { "Time (s)" },
        "GPU utilization (%)",
        vec![curve("placeholder", Mark::Line, points.collect())],
    )
}

/// Both directions on the seconds that either has.
fn published_bandwidth(reads: &Group, writes: &Group) -> Vec<Curve> {
    let ends = [reads.seconds(), writes.seconds()].into_iter().flatten();
    let Some((first, last)) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
        return Vec::new();
    };
    [("read", reads), ("write", writes)]
        .into_iter()
        .map(|(label, group)| {
            let kib = group.dense_between(first, last).unwrap_or_default();
            let values = kib.iter().map(|kib| *kib as f64 / 1024.0 / 1024.0);
            curve(label, Mark::Line, numbered(values))
        })
        .collect()
}

fn exact_bandwidth(traffic: &Traffic) -> Vec<Curve> {
    const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
    const MOST: u64 = 1 << 22;
    let Some(first) = traffic.first_issue_ns else {
        return Vec::new();
    };
    let length = ((traffic.last_issue_ns - first) / 1_000_000_000 + 1).min(MOST);
    ["read", "write"]
        .into_iter()
        .zip(&traffic.seconds)
        .map(|(label, bins)| {
            let bins = bins.finish();
            let points = (0..length).map(|second| {
                let bytes = bins.get(&second).map_or(0, |amount| amount.bytes);
                (second as f64, bytes as f64 / GIB)
            });
            curve(label, Mark::Line, points.collect())
        })
        .collect()
}

/// Figure 2: bandwidth of loading and of storing by tensor size. `compat` takes the printed two digits.
#[must_use]
pub fn deepnvme_figures(results: &Results, compat: bool) -> (Vec<Figure>, Missing) {
    let mut missing = Missing::new();
    let mut figures = Vec::new();
    for (what, x_label) in [("load", "Size (MiB)"), ("store", "Tensor Size (MiB)")] {
        let mut curves = Vec::new();
        for engine in ["py", "aio"] {
            for place in ["cpu", "gpu"] {
                let name = format!("{engine}-{what}-{place}");
                let known = SERIES
                    .into_iter()
                    .find(|series| *series == name)
                    .and_then(|series| results.get(series));
                let mut points = Vec::new();
                for (index, size) in SIZES_MIB.into_iter().enumerate() {
                    match known.and_then(|sizes| sizes.get(&size)) {
                        None => missing.push(format!("{name} at {size} MiB")),
                        Some(found) => points.push((
                            (index + 1) as f64,
                            if compat { found.printed } else { found.exact },
                        )),
                    }
                }
                curves.push(curve(&format!("{engine}-{place}"), Mark::Line, points));
            }
        }
        let mut drawn = figure(
            format!("deepnvme-{what}"),
            x_label,
            "Bandwidth (GiB/s)",
            curves,
        );
        drawn.x_names = SIZES_MIB.iter().map(u64::to_string).collect();
        figures.push(drawn);
    }
    (figures, missing)
}

/// Returns a number as the published scripts hold it: whole numbers without point.
fn plain(value: f64, whole: bool) -> Value {
    if whole && value.fract().abs() < f64::EPSILON && value.abs() < 9e15 {
        json!(blkio_companions::num::whole(value))
    } else {
        json!(value)
    }
}

impl Figure {
    /// Returns the figure in the layout of the published scripts' own dump. `stem` begins the file name.
    #[must_use]
    pub fn to_json(&self, stem: &str) -> Value {
        let mut map = Map::new();
        let whole_x = self.suffix != "gpu_util";
        let whole_y = self.suffix.starts_with("size-hist");
        let series: Vec<Value> = self
            .curves
            .iter()
            .map(|curve| {
                json!({
                    "kind": if curve.mark == Mark::Bar { "bar" } else { "line" },
                    "label": curve.label,
                    "x": curve.points.iter().map(|p| plain(p.0, whole_x)).collect::<Vec<_>>(),
                    "y": curve.points.iter().map(|p| plain(p.1, whole_y)).collect::<Vec<_>>(),
                })
            })
            .collect();
        map.insert("series".into(), series.into());
        if let Some(rows) = &self.table {
            let mut table = vec![json!(["size (KB)", "count"])];
            table.extend(rows.iter().map(|(size, count)| json!([size, count])));
            map.insert("table".into(), table.into());
        } else {
            map.insert("xlabel".into(), self.x_label.clone().into());
            map.insert("ylabel".into(), self.y_label.clone().into());
        }
        if let Some(axes) = &self.axes {
            let count = blkio_companions::num::whole(axes.x_max / axes.x_step);
            let step = blkio_companions::num::whole(axes.x_step);
            let ticks: Vec<u64> = (0..=count).map(|i| i * step).collect();
            let labels: Vec<String> = ticks.iter().map(|t| (t / 60).to_string()).collect();
            let y_max = blkio_companions::num::whole(axes.y_max);
            map.insert(
                "axes".into(),
                json!({
                    "set_xlim": [0, blkio_companions::num::whole(axes.x_max)],
                    "set_xticks": [ticks],
                    "set_xticklabels": [labels],
                    "set_ylim": [0, y_max],
                    "set_yticks": [(1..=y_max).collect::<Vec<_>>()],
                }),
            );
        }
        map.insert("file".into(), format!("{stem}-{}.pdf", self.suffix).into());
        Value::Object(map)
    }

    /// Returns the data as comma-separated values with a heading: one column of x and one per curve, or the table.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut out = String::new();
        if let Some(rows) = &self.table {
            out.push_str("size_kib,count\n");
            for (size, count) in rows {
                let _ = writeln!(out, "{size},{count}");
            }
            return out;
        }
        let mut rows: BTreeMap<u64, (f64, Vec<Option<f64>>)> = BTreeMap::new();
        for (column, curve) in self.curves.iter().enumerate() {
            for (x, y) in &curve.points {
                // Positive numbers sort as their bits do.
                let row = rows
                    .entry(x.to_bits())
                    .or_insert_with(|| (*x, vec![None; self.curves.len()]));
                if let Some(cell) = row.1.get_mut(column) {
                    *cell = Some(*y);
                }
            }
        }
        out.push('x');
        for curve in &self.curves {
            let single = self.curves.len() == 1;
            let _ = write!(out, ",{}", if single { "y" } else { &curve.label });
        }
        out.push('\n');
        for (x, cells) in rows.values() {
            let name = self.x_names.get(
                blkio_companions::num::index(blkio_companions::num::whole(*x)).saturating_sub(1),
            );
            match name {
                Some(name) => out.push_str(name),
                None => {
                    let _ = write!(out, "{x}");
                }
            }
            for cell in cells {
                out.push(',');
                if let Some(y) = cell {
                    let _ = write!(out, "{y}");
                }
            }
            out.push('\n');
        }
        out
    }
}

/// Returns the text results: the average GPU utilisation, and sizes of every group as maps, in the order in which the sizes first
/// stand in the log if that was noted, as the published scripts have them.
#[must_use]
pub fn info_text(series: &Series, gpu: Option<&GpuLog>) -> String {
    let mut out = String::new();
    if let Some(line) = average_line(gpu) {
        let _ = writeln!(out, "{line}\n");
    }
    for (name, group) in &series.groups {
        let _ = writeln!(out, "{name}\n{}\n", size_map(group));
    }
    out
}

/// `Average GPU Utilization: 20.09%`
#[must_use]
pub fn average_line(gpu: Option<&GpuLog>) -> Option<String> {
    let mean = gpu?.mean()?;
    Some(format!("Average GPU Utilization: {mean:.2}%"))
}

/// Access counts of every text of letters as the published script prints them. It takes the texts out of a set of Python,
/// whose order changes from run to run; here they are in the order of their first appearance, and counts ascend.
#[must_use]
pub fn access_text(series: &Series) -> String {
    let mut out = String::new();
    for (name, histogram) in &series.access {
        let _ = writeln!(out, "{name}\n{}", python_map(histogram));
    }
    out
}

/// Returns the same counts as a map of maps for Python's `pickle.load`: letters, then access count to number of sectors.
#[must_use]
pub fn access_pickle(series: &Series) -> Vec<u8> {
    pickle::of_maps(&series.access)
}

fn size_map(group: &Group) -> String {
    let count = |kib: &u64| {
        group
            .sizes_kib
            .get(kib)
            .map(|count| format!("{kib}: {count}"))
    };
    let items: Vec<String> = group.order_kib.iter().filter_map(count).collect();
    format!("{{{}}}", items.join(", "))
}

fn python_map(map: &BTreeMap<u64, u64>) -> String {
    let items: Vec<String> = map.iter().map(|(k, v)| format!("{k}: {v}")).collect();
    format!("{{{}}}", items.join(", "))
}
