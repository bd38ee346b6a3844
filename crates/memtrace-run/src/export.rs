//! Writes the folder of a run: trace, region map, KV life cycle, metrics, metadata, figures,
//! manifest.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread;

use byte_source::output::AtomicFile;
use memtrace_analyser::Analysis;
use memtrace_labeller::{
    Compression, Names, ReadReport, Records, RegionMap, RowStream, TraceWriter, write_kv_blocks,
    write_region_map,
};
use serde_json::{Map, Value, json};

use crate::answers::answers;
use crate::error::{Error, Result, io_error};
use crate::figures::{Figure, FigureFormat, draw_figures};
use crate::manifest::{Manifest, hash, remove_manifest, write_json, write_manifest, write_whole};
use crate::metrics_csv::metrics_csv;
use crate::pipeline::{Processed, Steps, process};
use crate::tiers::{Tier, fits};

/// Writes the folder of a run.
///
/// Every file appears whole or not at all, and the manifest last: a run that was interrupted has
/// none.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunExporter {
    /// Folder of the run, created if missing.
    pub folder: PathBuf,
    /// Name of the run.
    pub run_id: String,
    /// If `true`, the run named in the first row takes precedence over `run_id`.
    pub run_of_rows: bool,
    /// Semantics of labels and metrics, for the metadata.
    pub semantics: &'static str,
    /// The input file, recorded with its hash in the metadata.
    pub input: Option<PathBuf>,
    /// If `true`, the export fails before writing anything if a non-empty input contains no row.
    pub needs_rows: bool,
    /// Additional members of `metadata.json`.
    pub metadata: Map<String, Value>,
    /// Compression of the trace.
    pub compression: Compression,
    /// Memory tiers that each type is compared with, in `metadata.json`.
    pub tiers: Vec<Tier>,
    /// File formats of figures; empty means no figures.
    pub figures: Vec<FigureFormat>,
}

impl RunExporter {
    /// Creates an exporter for a folder.
    #[must_use]
    pub fn new(
        folder: impl Into<PathBuf>,
        run_id: impl Into<String>,
        semantics: &'static str,
    ) -> Self {
        Self {
            folder: folder.into(),
            run_id: run_id.into(),
            run_of_rows: false,
            semantics,
            input: None,
            needs_rows: false,
            metadata: Map::new(),
            compression: Compression::Zstd,
            tiers: Vec::new(),
            figures: FigureFormat::ALL.to_vec(),
        }
    }

    /// Reads, labels, analyses and writes everything in one pass. The returned value no longer
    /// contains the region map, which is in its file.
    ///
    /// # Errors
    ///
    /// The first error of any step; files that are complete by then stay, without a manifest.
    pub fn export(
        &self,
        stream: RowStream,
        names: Names,
        steps: Steps,
    ) -> Result<(Processed, Manifest)> {
        let is_new = !self.folder.exists();
        fs::create_dir_all(&self.folder).map_err(io_error(&self.folder))?;
        remove_manifest(&self.folder)?;
        let mut writer = TraceWriter::new(
            "trace.parquet",
            AtomicFile::create(self.folder.join("trace.parquet"))?,
            self.semantics,
            self.compression,
        )
        .clock_step(stream.resolution_ns())
        .instruction_clock(stream.counts_instructions())
        .records(stream.records());
        let (mut processed, source) = thread::scope(|scope| -> Result<_> {
            let hashing = self
                .input
                .as_deref()
                .map(|input| scope.spawn(move || source_json(input)));
            let processed = process(stream, names, steps, Some(&mut writer))?;
            let source = hashing.map(|hashing| hashing.join().map_err(|_| Error::Thread)?);
            Ok((processed, source.transpose()?))
        })?;
        let report = &processed.report;
        if self.needs_rows && report.rows == 0 && report.is_damaged() {
            drop(writer);
            if is_new {
                // Files that others created in the meantime stay.
                let _ = fs::remove_dir(&self.folder);
            }
            let input = self.input.as_deref().unwrap_or(Path::new("-"));
            return Err(Error::NothingRead {
                name: input.display().to_string(),
                format: report.format,
                lines: report.lines,
            });
        }
        writer.finish()?.commit()?;
        self.write_region_map(&processed)?;
        // The region map may have an entry per page of the trace; figures need the memory.
        processed.regions = RegionMap::default();
        let manifest = self.written(&processed, source)?;
        Ok((processed, manifest))
    }

    /// Writes everything but the trace, which already exists.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be written.
    pub fn finish(&self, processed: &Processed) -> Result<Manifest> {
        let source = self.input.as_deref().map(source_json).transpose()?;
        self.write_region_map(processed)?;
        self.written(processed, source)
    }

    fn write_region_map(&self, processed: &Processed) -> Result<()> {
        let file = AtomicFile::create(self.folder.join("region_map.parquet"))?;
        write_region_map(file, &processed.regions, &processed.names, self.semantics)?.commit()?;
        Ok(())
    }

    fn written(
        &self,
        processed: &Processed,
        source: Option<Map<String, Value>>,
    ) -> Result<Manifest> {
        let path = |name: &str| self.folder.join(name);
        let file = AtomicFile::create(path("kv_block_lifecycle.parquet"))?;
        write_kv_blocks(file, &processed.kv_blocks, self.semantics)?.commit()?;
        if let Some(analysis) = &processed.analysis {
            write_whole(&path("metrics.csv"), metrics_csv(analysis).as_bytes())?;
            let mut file = AtomicFile::create(path("analysis.json"))?;
            analysis.write_json_tables(&mut file)?;
            file.commit()?;
        }
        let figures = match &processed.analysis {
            Some(analysis) if !self.figures.is_empty() => write_figures(
                &self.folder,
                &draw_figures(analysis, &processed.kv_blocks)?,
                &self.figures,
            )?,
            _ => Written::default(),
        };
        let mut metadata = self.metadata_of(processed, source);
        if let (Some(reason), Some(members)) = (figures.missing, metadata.as_object_mut()) {
            members.insert("figures_missing".to_owned(), reason.into());
        }
        write_json(&path("metadata.json"), &metadata)?;
        write_manifest(&self.folder, self.run_of(processed))
    }

    /// Returns the name of the run.
    fn run_of<'a>(&'a self, processed: &'a Processed) -> &'a str {
        let own = processed.report.run.filter(|_| self.run_of_rows);
        own.map_or(&self.run_id, |run| processed.names.text(run))
    }

    fn metadata_of(&self, processed: &Processed, source: Option<Map<String, Value>>) -> Value {
        let mut metadata = Map::new();
        metadata.insert("run_id".to_owned(), self.run_of(processed).into());
        metadata.insert("semantics".to_owned(), self.semantics.into());
        metadata.insert("clock".to_owned(), processed.report.clock.into());
        let mut input = report_json(&processed.report);
        if let (Some(source), Some(members)) = (source, input.as_object_mut()) {
            members.extend(source);
        }
        metadata.insert("inputs".to_owned(), Value::from(vec![input]));
        metadata.insert(
            "labels".to_owned(),
            json!({
                "given": processed.counts.given,
                "by_range": processed.counts.by_range,
                "by_page": processed.counts.by_page,
                "by_rule": processed.counts.by_rule,
                "unknown": processed.counts.unknown,
                "skipped": processed.counts.skipped,
                "kv_block_bytes": processed.kv_block_bytes,
            }),
        );
        if let Some(analysis) = &processed.analysis {
            metadata.insert("analysis".to_owned(), facts(analysis));
            let answers = answers(analysis);
            if !answers.is_empty() {
                metadata.insert("answers".to_owned(), json!(answers));
            }
            if !self.tiers.is_empty() {
                metadata.insert("tiers".to_owned(), json!(fits(analysis, &self.tiers)));
            }
        }
        for (key, value) in &self.metadata {
            metadata.insert(key.clone(), value.clone());
        }
        metadata.into()
    }
}

/// Returns the metadata of a run's folder about the run itself, without that about how its rows
/// were read and analysed; empty without the file.
///
/// # Errors
///
/// Returns an error if the file cannot be read or is not a JSON object.
pub fn run_metadata(folder: &Path) -> Result<Map<String, Value>> {
    let mut metadata = metadata_in(folder)?;
    metadata.retain(|member, _| !MADE_ANEW.contains(&member.as_str()));
    Ok(metadata)
}

/// Returns the input of a run's folder if it differs from `input` by content; `None` for a folder
/// without a run, or with the same input.
///
/// # Errors
///
/// Returns an error if the metadata cannot be read or is not a JSON object, or the input cannot be
/// read.
pub fn other_input(folder: &Path, input: Option<&Path>) -> Result<Option<String>> {
    let metadata = metadata_in(folder)?;
    if metadata.is_empty() {
        return Ok(None);
    }
    let known = metadata.get("inputs").and_then(|inputs| inputs.get(0));
    let text = |member: &str| known.and_then(|known| known.get(member)?.as_str());
    if let (Some(input), Some(known)) = (input, text("sha256"))
        && hash(input)?.1 == known
    {
        return Ok(None);
    }
    Ok(Some(text("path").unwrap_or("a pipe").to_owned()))
}

/// Returns the metadata in a run's folder; empty without the file.
fn metadata_in(folder: &Path) -> Result<Map<String, Value>> {
    let path = folder.join("metadata.json");
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
        text => text.map_err(io_error(&path))?,
    };
    serde_json::from_slice(&text).map_err(|source| Error::Json {
        name: path.display().to_string(),
        source,
    })
}

/// Members of the metadata that an export generates.
const MADE_ANEW: [&str; 9] = [
    "run_id",
    "semantics",
    "clock",
    "inputs",
    "labels",
    "analysis",
    "answers",
    "tiers",
    "figures_missing",
];

/// Returns name, size and hash of an input; the hash identifies it regardless of its place.
fn source_json(path: &Path) -> Result<Map<String, Value>> {
    let (size_bytes, sha256) = hash(path)?;
    let mut members = Map::new();
    members.insert("path".to_owned(), path.display().to_string().into());
    members.insert("size_bytes".to_owned(), size_bytes.into());
    members.insert("sha256".to_owned(), sha256.into());
    Ok(members)
}

/// Returns results of an analysis that are in no table.
#[must_use]
pub fn facts(analysis: &Analysis) -> Value {
    let mut facts = json!({
        "resolution_ns": analysis.resolution_ns,
        "rows": analysis.rows,
        "accesses": analysis.weighted_rows,
        "first_ns": analysis.first_ns,
        "last_ns": analysis.last_ns,
        "in_order": analysis.in_order,
        "distinct_pages": analysis.distinct_pages,
        "window_ns": analysis.window_ns,
        "reuse_sampled_share": analysis.reuse.as_ref().map(|reuse| reuse.sampled_share),
    });
    if let Some(members) = facts
        .as_object_mut()
        .filter(|_| analysis.quantile_error > 0.0)
    {
        members.insert(
            "quantile_relative_error".to_owned(),
            analysis.quantile_error.into(),
        );
    }
    if let Some(members) = facts.as_object_mut() {
        if analysis.made_up_clock {
            members.insert("clock".to_owned(), "instructions".into());
        }
        if analysis.processes > 1 {
            members.insert("processes".to_owned(), analysis.processes.into());
        }
        if analysis.records != Records::Accesses {
            members.insert("records".to_owned(), analysis.records.name().into());
        }
    }
    facts
}

/// Returns a reader's report as JSON.
#[must_use]
pub fn report_json(report: &ReadReport) -> Value {
    let skipped: Map<String, Value> = report
        .skipped
        .iter()
        .map(|(reason, skipped)| {
            let value = json!({"count": skipped.count, "first_lines": skipped.first});
            (reason.name().to_owned(), value)
        })
        .collect();
    let mut found = json!({
        "format": report.format,
        "clock": report.clock,
        "lines": report.lines,
        "rows": report.rows,
        "lost": report.lost,
        "skipped": skipped,
        "damage": report.damage,
    });
    if let (Some(note), Some(members)) = (report.note, found.as_object_mut()) {
        members.insert("note".to_owned(), note.into());
    }
    found
}

/// The written files of figures, and why some are missing.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) files: Vec<String>,
    pub(crate) missing: Option<String>,
}

/// Writes figures, each with its data; a figure that cannot be rendered is reported, but is not an
/// error.
pub(crate) fn write_figures(
    folder: &Path,
    figures: &[Figure],
    formats: &[FigureFormat],
) -> Result<Written> {
    let rendered: Vec<_> = thread::scope(|scope| {
        let drawing: Vec<_> = figures
            .iter()
            .map(|figure| scope.spawn(|| figure.rendered(formats)))
            .collect();
        drawing
            .into_iter()
            .map(|drawing| drawing.join().map_err(|_| Error::Thread))
            .collect()
    });
    let mut written = Written::default();
    for (figure, files) in figures.iter().zip(rendered) {
        for (format, bytes) in files? {
            match bytes {
                Ok(bytes) => {
                    let file = format!("{}.{}", figure.name, format.suffix());
                    write_whole(&folder.join(&file), &bytes)?;
                    written.files.push(file);
                }
                Err(error) => written.missing = Some(error.to_string()),
            }
        }
        let file = format!("{}.csv", figure.name);
        let path = folder.join(&file);
        let mut out = BufWriter::new(AtomicFile::create(&path)?);
        figure.data.write_csv(&mut out).map_err(io_error(&path))?;
        let out = out.into_inner().map_err(io::IntoInnerError::into_error);
        out.map_err(io_error(&path))?.commit()?;
        written.files.push(file);
    }
    Ok(written)
}

/// Appends a run to `manifest.csv` of a data set; the header is written if the file is new.
///
/// # Errors
///
/// Returns an error if the file cannot be written.
pub fn append_dataset_row(file: &Path, columns: &[(&str, String)]) -> Result<()> {
    let mut text = Vec::new();
    match fs::read(file) {
        Ok(old) => text = old,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let header: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
            writeln!(text, "{}", header.join(",")).map_err(io_error(file))?;
        }
        Err(error) => return Err(io_error(file)(error)),
    }
    let row: Vec<String> = columns
        .iter()
        .map(|(_, value)| {
            if value.contains([',', '"', '\n']) {
                format!("\"{}\"", value.replace('"', "\"\""))
            } else {
                value.clone()
            }
        })
        .collect();
    writeln!(text, "{}", row.join(",")).map_err(io_error(file))?;
    write_whole(file, &text)
}
