//! A result folder of the published pipeline: its files, and the figures of its run.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use blkio_companions::engine::EngineLog;
use blkio_companions::gpu::GpuLog;
use blkio_parser::{AnalysisSet, Error as TraceError, Stats, StatsOptions};
use byte_source::output::AtomicFile;
use serde_json::{Value, json};

use super::plots::draw;
use super::{
    Figure, access_pickle, access_text, average_line, info_text, published_stem, run_figures,
};
use crate::companion_values::{engine_value, gpu_value};
use crate::document;
use crate::error::{Error, Result};
use crate::files::whole;
use crate::series::{Group, Series};
use crate::tables::make_folder;

/// Pixels of a PNG per unit of the figure.
const PNG_SCALE: f64 = 2.0;

/// Figures of a folder of results.
#[derive(Debug)]
#[non_exhaustive]
pub struct Figures {
    /// Everything as one object.
    pub document: Value,
    /// The figures, each with the stem of its file name.
    pub figures: Vec<(String, Figure)>,
    /// What is missing in the folder.
    pub missing: Vec<String>,
    /// What is doubtful, a sentence each.
    pub warnings: Vec<String>,
}

/// The files of a result folder, found by the ends of their names, plain or compressed.
struct Found {
    block: Option<PathBuf>,
    gpu: Option<PathBuf>,
    engine: Option<PathBuf>,
    /// The command that began the run (`SCRIPT-log.txt`), which tells the batch and the lengths.
    command: Option<PathBuf>,
}

fn ends(path: &Path, suffix: &str) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
    uncompressed(name).ends_with(suffix)
}

/// Returns the name of a file without the ending that says that it is compressed.
pub(super) fn uncompressed(name: &str) -> &str {
    let mut endings = [".gz", ".zst", ".xz"].iter();
    let plain = endings.find_map(|ending| name.strip_suffix(ending));
    plain.unwrap_or(name)
}

pub(super) fn files_in(dir: &Path) -> Result<Vec<PathBuf>> {
    if dir.is_file() {
        return Err(Error::Input(format!(
            "{}: a file, where the folder of the results is needed",
            dir.display()
        )));
    }
    if !dir.exists() {
        return Err(Error::Input(format!(
            "{}: no such folder: check the path",
            dir.display()
        )));
    }
    let failed = |error| {
        Error::Input(format!(
            "{}: cannot list the folder: {error}",
            dir.display()
        ))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

/// Returns the files of one run; of several runs in a folder, that of the figure.
fn find(dir: &Path, figure: u8) -> Result<Found> {
    let files = files_in(dir)?;
    let name = |path: &Path| -> String {
        let name = path.file_name().and_then(|n| n.to_str());
        name.unwrap_or("").to_owned()
    };
    let model = super::run_stem(figure).unwrap_or("");
    let first = |is: &dyn Fn(&Path) -> bool, stem: &str| -> Option<PathBuf> {
        let of_run = files.iter().find(|p| is(p) && name(p).starts_with(stem));
        of_run.or_else(|| files.iter().find(|p| is(p))).cloned()
    };
    let block = first(&|path| ends(path, "-bpftrace-block.txt"), model);
    let run = block
        .as_deref()
        .map(name)
        .and_then(|name| Some(name.split_once("-bpftrace-block")?.0.to_owned()))
        .unwrap_or_else(|| model.to_owned());
    let gpu = first(&|path| ends(path, "-gpu.txt"), &run);
    let is_engine = |path: &Path| {
        let name = name(path);
        ends(path, ".txt")
            && !ends(path, "-bpftrace-block.txt")
            && !ends(path, "-gpu.txt")
            && !name.contains("-log.")
            && !name.contains("call-stack")
            && !name.starts_with("LICENSE")
            && name.contains("-bs-")
    };
    let engine = first(&is_engine, &run);
    let command = first(&|path| ends(path, "-log.txt"), &run);
    Ok(Found {
        block,
        gpu,
        engine,
        command,
    })
}

/// `opt-6.7b-kv-offload` out of a file name; `None` where it does not name a run.
fn run_model(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (model, _) = name.split_once("-bs-")?;
    (!model.is_empty()).then(|| model.to_owned())
}

/// `-bs-64-ext4` out of a file name.
fn run_suffix(path: &Path) -> String {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
    let Some(at) = name.find("-bs-") else {
        return String::new();
    };
    let rest = &name[at..];
    let end = ["-bpftrace-block", "-gpu", "."]
        .iter()
        .filter_map(|stop| rest.find(stop))
        .min()
        .unwrap_or(rest.len());
    rest[..end].to_owned()
}

/// Makes figure 3, 4, 5 or 6 of the study from a folder of results, and writes them and the published texts into `out`. `read`
/// says how the trace is read.
///
/// # Errors
///
/// A folder without a block I/O log and without GPU utilisation, a trace that cannot be read, files that cannot be written.
pub fn figures_of_run(
    dir: &Path,
    figure: u8,
    compat: bool,
    mut read: StatsOptions,
    out: Option<&Path>,
) -> Result<Figures> {
    let mut found = find(dir, figure)?;
    let Some(named) = found.block.clone().or_else(|| found.gpu.clone()) else {
        return Err(Error::Input(format!(
            "{}: neither a block I/O log (*-bpftrace-block.txt) nor GPU utilisation (*-gpu.txt)",
            dir.display()
        )));
    };
    // The published texts have sizes in the order of the log.
    read.read.first_sizes = true;
    read.wanted = AnalysisSet::TRAFFIC;
    read.wanted.access = true;
    let mut missing_inputs = Vec::new();
    let mut stats = match Stats::of_files(found.block.as_slice(), &read) {
        // The published repository has its large logs so; what lies beside them can still be drawn.
        Err(error @ TraceError::LfsPointer { .. }) if found.gpu.is_some() => {
            missing_inputs.push(error.to_string());
            found.block = None;
            Stats::of_files(&[], &read)?
        }
        read => read?,
    };
    let mut gpu = None;
    if let Some(path) = &found.gpu {
        match GpuLog::parse(&path.display().to_string(), &whole(path)?) {
            Ok(log) => gpu = Some(log),
            Err(error) => missing_inputs.push(error.to_string()),
        }
    }
    let mut engine = None;
    if let Some(path) = &found.engine {
        let mut text = whole(path)?;
        if let Some(command) = &found.command {
            text.push(b'\n');
            text.extend(whole(command)?);
        }
        engine = Some(EngineLog::parse(&text));
    }
    let series = Series::by(&mut stats, compat);
    let (mut figures, mut missing) =
        run_figures(figure, &series, &stats.traffic, gpu.as_ref(), compat);
    missing.extend(missing_inputs);
    if engine.is_none() {
        missing.push("engine log".to_owned());
    }
    if found.block.is_none() {
        missing.retain(|what| !what.starts_with("no request of kind"));
        missing
            .push("block I/O log (*-bpftrace-block.txt), so all figures but the GPU's".to_owned());
        figures.retain(|figure| figure.curves.iter().any(|curve| !curve.points.is_empty()));
    }
    let mut warnings = Vec::new();
    // The published names are of one model each, whatever the results are of.
    let of_results = run_model(&named).filter(|_| !compat);
    if let (Some(model), Some(studied)) = (&of_results, super::run_stem(figure))
        && model != studied
    {
        warnings.push(format!(
            "the results are of {model}; figure {figure} of the study is of {studied}"
        ));
    }
    let published = published_stem(figure).unwrap_or("figure");
    let stem = format!(
        "{}{}",
        of_results.as_deref().unwrap_or(published),
        run_suffix(&named)
    );
    let document = json!({
        "schema_version": 1,
        "figure": figure,
        "compat": compat,
        "missing": missing,
        "quality": document::quality(&stats),
        "gpu": gpu.as_ref().map(gpu_value),
        "engine": engine.as_ref().map(engine_value),
        "average_gpu_util_line": average_line(gpu.as_ref()),
        "info": map(series.groups.iter().map(|(name, group)| (name, sizes(group)))),
        "sector_access_count": map(series.access.iter().map(|(name, h)| (name, histogram(h)))),
        "stdout_min_max": series.sectors.map(|(min, max, most)| [
            format!("Min start_sector: {min}"),
            format!("Max start_sector: {max}"),
            format!("Max num_sectors: {most}"),
        ]),
        "figures": figures.iter().map(|f| f.to_json(&stem)).collect::<Vec<_>>(),
    });
    if let Some(dir) = out {
        save(dir, &stem, &figures, compat)?;
        let path = |end: &str| dir.join(format!("{stem}-{end}"));
        write(
            &path("info.txt"),
            info_text(&series, gpu.as_ref()).as_bytes(),
        )?;
        let access = access_text(&series);
        write(&path("sector-access-count-all.txt"), access.as_bytes())?;
        if compat {
            write(
                &path("sector-access-count-all.pkl"),
                &access_pickle(&series),
            )?;
        }
    }
    let figures = figures.into_iter().map(|figure| (stem.clone(), figure));
    Ok(Figures {
        document,
        figures: figures.collect(),
        missing,
        warnings,
    })
}

fn map<'a>(items: impl Iterator<Item = (&'a String, Value)>) -> Value {
    Value::Object(items.map(|(key, value)| (key.clone(), value)).collect())
}

/// In the order of the log.
fn sizes(group: &Group) -> Value {
    let counts = group.order_kib.iter();
    let counts = counts.filter_map(|kib| {
        let count = group.sizes_kib.get(kib)?;
        Some((kib.to_string(), json!(count)))
    });
    Value::Object(counts.collect())
}

fn histogram(counts: &BTreeMap<u64, u64>) -> Value {
    Value::Object(
        counts
            .iter()
            .map(|(key, count)| (key.to_string(), json!(count)))
            .collect(),
    )
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut out = AtomicFile::create(path)?;
    out.write_all(bytes)?;
    Ok(out.commit()?)
}

/// Writes each figure as SVG, PNG and CSV, and as PDF where that is built in.
pub(super) fn save(dir: &Path, stem: &str, figures: &[Figure], compat: bool) -> Result<()> {
    make_folder(dir)?;
    for figure in figures {
        let name = format!("{stem}-{}", figure.suffix);
        let svg = draw(figure, stem, compat);
        let path = |extension: &str| dir.join(format!("{name}.{extension}"));
        write(&path("svg"), svg.as_str().as_bytes())?;
        write(&path("csv"), figure.to_csv().as_bytes())?;
        write(&path("png"), &charts::render::png(&svg, PNG_SCALE)?)?;
        match charts::render::pdf(&svg) {
            Err(charts::render::RenderError::NoPdf) => {}
            pdf => write(&path("pdf"), &pdf?)?,
        }
    }
    Ok(())
}
