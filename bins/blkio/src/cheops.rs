//! `blkio cheops25`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use blkio_parser::cheops::{self, Figure};
use blkio_parser::gpu::GpuLog;
use blkio_parser::series::{Group, Series};
use blkio_parser::{Error, Stats, StatsOptions, Wanted, document};
use cli::{OrExit as _, Outcome, Output, ProgressLine};
use serde_json::{Value, json};

use crate::NO_INPUT;
use crate::args::CheopsArgs;
use crate::draw::draw;
use crate::side::{engine_value, gpu_value, whole};

/// Pixels of a PNG per unit of the figure.
const PNG_SCALE: f64 = 2.0;

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

/// The name of a file without the ending that says that it is compressed.
pub(crate) fn uncompressed(name: &str) -> &str {
    let mut endings = [".gz", ".zst", ".xz"].iter();
    let plain = endings.find_map(|ending| name.strip_suffix(ending));
    plain.unwrap_or(name)
}

pub(crate) fn files_in(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if dir.is_file() {
        return Err(anyhow::anyhow!(
            "{}: a file, where the folder of the results is needed (`blkio info` says what it is)",
            dir.display()
        ))
        .or_exit(NO_INPUT);
    }
    if !dir.exists() {
        return Err(anyhow::anyhow!(
            "{}: no such folder: check the path",
            dir.display()
        ))
        .or_exit(NO_INPUT);
    }
    let entries = std::fs::read_dir(dir)
        .with_context(|| format!("{}: cannot list the folder", dir.display()))
        .or_exit(NO_INPUT)?;
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

/// The files of one run; of several runs in a folder, that of the figure.
fn find(dir: &Path, figure: u8) -> anyhow::Result<Found> {
    let files = files_in(dir)?;
    let name = |path: &Path| -> String {
        let name = path.file_name().and_then(|n| n.to_str());
        name.unwrap_or("").to_owned()
    };
    let model = cheops::run_stem(figure).unwrap_or("");
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

pub(crate) fn run(args: &CheopsArgs) -> anyhow::Result<Outcome> {
    if args.figure == 2 {
        return crate::deepnvme::figure_2(args);
    }
    let mut found = find(&args.dir, args.figure)?;
    let Some(named) = found.block.clone().or_else(|| found.gpu.clone()) else {
        return Err(anyhow::anyhow!(
            "{}: neither a block I/O log (*-bpftrace-block.txt) nor GPU utilisation (*-gpu.txt)",
            args.dir.display()
        ))
        .or_exit(NO_INPUT);
    };
    let progress = ProgressLine::start("reading", args.verbosity);
    let mut options = StatsOptions::default();
    options.read.threads = args.input.threads().get();
    options.read.strict = args.input.strict;
    // The published texts have sizes in the order of the log.
    options.read.first_sizes = true;
    options.read.open = args.input.open_options(Some(progress.counter()));
    options.wanted = Wanted {
        access: true,
        ..Wanted::TRAFFIC
    };
    let mut unreadable = Vec::new();
    let mut stats = match Stats::of_files(found.block.as_slice(), &options) {
        // The published repository has its large logs so; what lies beside them can still be drawn.
        Err(error @ Error::LfsPointer { .. }) if found.gpu.is_some() => {
            unreadable.push(error.to_string());
            found.block = None;
            Stats::of_files(&[], &options).or_exit(NO_INPUT)?
        }
        read => read.or_exit(NO_INPUT)?,
    };
    drop(progress);
    let gpu = match &found.gpu {
        None => None,
        Some(path) => match GpuLog::parse(&path.display().to_string(), &whole(path)?) {
            Ok(log) => Some(log),
            Err(error) => {
                unreadable.push(error.to_string());
                None
            }
        },
    };
    let engine = match &found.engine {
        None => None,
        Some(path) => {
            let mut text = whole(path)?;
            if let Some(command) = &found.command {
                text.push(b'\n');
                text.extend(whole(command)?);
            }
            Some(blkio_parser::engine::EngineLog::parse(&text))
        }
    };
    let series = Series::by(&mut stats, args.compat);
    let (mut figures, mut missing) = cheops::run_figures(
        args.figure,
        &series,
        &stats.traffic,
        gpu.as_ref(),
        args.compat,
    );
    missing.extend(unreadable);
    if engine.is_none() {
        missing.push("engine log".to_owned());
    }
    if found.block.is_none() {
        missing.retain(|what| !what.starts_with("no request of kind"));
        missing
            .push("block I/O log (*-bpftrace-block.txt), so all figures but the GPU's".to_owned());
        figures.retain(|figure| figure.curves.iter().any(|curve| !curve.points.is_empty()));
    }
    // The published names are of one model each, whatever the results are of.
    let of_results = run_model(&named).filter(|_| !args.compat);
    if let (Some(model), Some(studied)) = (&of_results, cheops::run_stem(args.figure))
        && model != studied
    {
        args.verbosity.note(format!(
            "blkio: warning: the results are of {model}; figure {} of the study is of {studied}",
            args.figure
        ));
    }
    let published = cheops::published_stem(args.figure).unwrap_or("figure");
    let stem = format!(
        "{}{}",
        of_results.as_deref().unwrap_or(published),
        run_suffix(&named)
    );
    let document = json!({
        "schema_version": 1,
        "figure": args.figure,
        "compat": args.compat,
        "missing": missing,
        "quality": document::quality(&stats),
        "gpu": gpu.as_ref().map(gpu_value),
        "engine": engine.as_ref().map(engine_value),
        "average_gpu_util_line": cheops::average_line(gpu.as_ref()),
        "info": map(series.groups.iter().map(|(name, group)| (name, sizes(group)))),
        "sector_access_count": map(series.access.iter().map(|(name, h)| (name, histogram(h)))),
        "stdout_min_max": series.sectors.map(|(min, max, most)| [
            format!("Min start_sector: {min}"),
            format!("Max start_sector: {max}"),
            format!("Max num_sectors: {most}"),
        ]),
        "figures": figures.iter().map(|f| f.to_json(&stem)).collect::<Vec<_>>(),
    });
    if let Some(dir) = &args.out {
        save(dir, &stem, &figures, args.compat)?;
        write(
            &dir.join(format!("{stem}-info.txt")),
            cheops::info_text(&series, gpu.as_ref()).as_bytes(),
        )?;
        let access = cheops::access_text(&series);
        write(
            &dir.join(format!("{stem}-sector-access-count-all.txt")),
            access.as_bytes(),
        )?;
        if args.compat {
            write(
                &dir.join(format!("{stem}-sector-access-count-all.pkl")),
                &cheops::access_pickle(&series),
            )?;
        }
    }
    let figures: Vec<_> = figures.into_iter().map(|f| (stem.clone(), f)).collect();
    finish(args, &document, &figures)
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

fn histogram(counts: &std::collections::BTreeMap<u64, u64>) -> Value {
    Value::Object(
        counts
            .iter()
            .map(|(key, count)| (key.to_string(), json!(count)))
            .collect(),
    )
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = Output::file(path)?;
    out.write_all(bytes)?;
    out.finish()
}

/// Each figure as SVG, PNG, PDF and CSV.
pub(crate) fn save(dir: &Path, stem: &str, figures: &[Figure], compat: bool) -> anyhow::Result<()> {
    crate::tables::make_folder(dir)?;
    for figure in figures {
        let name = format!("{stem}-{}", figure.suffix);
        let svg = draw(figure, stem, compat);
        let path = |extension: &str| dir.join(format!("{name}.{extension}"));
        write(&path("svg"), svg.as_str().as_bytes())?;
        write(&path("csv"), figure.to_csv().as_bytes())?;
        write(&path("png"), &charts::render::png(&svg, PNG_SCALE)?)?;
        write(&path("pdf"), &charts::render::pdf(&svg)?)?;
    }
    Ok(())
}

/// Prints the document, or how much each of the figures shows; each comes with the stem of its name.
pub(crate) fn finish(
    args: &CheopsArgs,
    document: &Value,
    figures: &[(String, Figure)],
) -> anyhow::Result<Outcome> {
    let mut out = args.output.open()?;
    match args.format.format() {
        cli::Format::Json => {
            serde_json::to_writer_pretty(&mut out, document)?;
            writeln!(out)?;
        }
        cli::Format::Csv => {
            // The name of the figure, then its own table.
            for (stem, figure) in figures {
                writeln!(out, "# {stem}-{}", figure.suffix)?;
                out.write_all(figure.to_csv().as_bytes())?;
            }
        }
        cli::Format::Text => {
            for (stem, figure) in figures {
                let points: usize = figure.curves.iter().map(|c| c.points.len()).sum();
                let rows = figure.table.as_ref().map_or(points, Vec::len);
                writeln!(out, "{stem}-{}: {rows} values", figure.suffix)?;
            }
            if let Some(line) = document["average_gpu_util_line"].as_str() {
                writeln!(out, "{line}")?;
            }
            for line in document["stdout_min_max"].as_array().into_iter().flatten() {
                writeln!(out, "{}", line.as_str().unwrap_or_default())?;
            }
        }
    }
    out.finish()?;
    for what in document["missing"].as_array().into_iter().flatten() {
        args.verbosity
            .note(format!("blkio: missing: {}", what.as_str().unwrap_or("")));
    }
    Ok(Outcome::Fine)
}
