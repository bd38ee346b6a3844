//! Writes reports and data sets.

use std::fs;
use std::path::Path;

use charts::html::{Page, Section};
use memtrace_analyser::{Analysis, AnalysisTable};
use memtrace_labeller::Records;
use report::{Cell, Column, Table, Unit};
use serde_json::{Map, Value};

use crate::answers::answers;
use crate::error::{Result, io_error};
use crate::export::write_figures;
use crate::figures::{FigureFormat, draw_figures};
use crate::manifest::{iso_now, write_whole};
use crate::metrics_csv::metrics_csv;
use crate::pipeline::Processed;
use crate::tensors::hottest;
use crate::tiers::{Tier, fits, fits_table};

/// Maximum number of rows of a table by type on the page.
const ROWS: usize = 40;
/// Maximum number of rows of a longer table on the page.
const FEW_ROWS: usize = 10;

/// Writes figures, their data, `metrics.csv` and `report.html` into a folder, with each type
/// compared with the tiers; returns the file names.
///
/// # Errors
///
/// Returns an error if a file cannot be written.
pub fn write_report(
    folder: &Path,
    title: &str,
    processed: &Processed,
    formats: &[FigureFormat],
    tiers: &[Tier],
) -> Result<Vec<String>> {
    fs::create_dir_all(folder).map_err(io_error(folder))?;
    let Some(analysis) = &processed.analysis else {
        return Ok(Vec::new());
    };
    let figures = draw_figures(analysis, &processed.kv_blocks)?;
    let mut files = write_figures(folder, &figures, formats)?.files;
    write_whole(
        &folder.join("metrics.csv"),
        metrics_csv(analysis).as_bytes(),
    )?;
    let mut page = Page::new(format!("Memory of {title}"));
    let mut section = Section::new("Answer");
    for answer in answers(analysis) {
        section = section.text(&format!(
            "{} (confidence {})",
            answer.sentence, answer.confidence
        ));
    }
    if analysis.made_up_clock {
        section = section.warning("The recording has no clock: times count instructions.");
    }
    match analysis.records {
        Records::Allocations => {
            section = section.warning("The recording has allocations, no loads or stores.");
        }
        Records::Regions => {
            section = section
                .warning("The recording has regions that were found accessed, no loads or stores.");
        }
        _ => {}
    }
    page = page.section(section);
    let fits = fits(analysis, tiers);
    if !fits.is_empty() {
        page = page.section(Section::new("What-if by tier").table(&fits_table(&fits)?, fits.len()));
    }
    let hot = hottest(processed, ROWS);
    if !hot.is_empty() {
        let columns = vec![
            Column::text("name"),
            Column::text("region_type"),
            Column::uint("samples").unit(Unit::Count),
            Column::uint("span_bytes").unit(Unit::Bytes),
        ];
        let mut table = Table::new("hottest_tensors", columns)?;
        for tensor in &hot {
            table.push(&[
                Cell::Text(&tensor.name),
                Cell::Text(&tensor.region_type),
                tensor.samples.into(),
                tensor.span_bytes.into(),
            ])?;
        }
        page = page.section(Section::new("Hottest tensors").table(&table, ROWS));
    }
    let mut section = Section::new("Figures");
    for figure in &figures {
        section = section.figure(&figure.svg, figure.caption);
    }
    page = page.section(section);
    // Tables by type come first, those with a row per region or window last.
    let (by_type, long): (Vec<_>, Vec<_>) = AnalysisTable::of(analysis)
        .into_iter()
        .partition(|table| table.is_by_type());
    for (heading, tables, limit) in [
        ("By type", by_type, ROWS),
        ("By region, window and cache size", long, FEW_ROWS),
    ] {
        let mut section = Section::new(heading);
        for table in tables {
            let (head, rows) = analysis.table_head(table, limit)?;
            if rows > 0 {
                section = section
                    .text(&table.name().replace('_', " "))
                    .table_head(&head, limit, rows);
            }
        }
        page = page.section(section);
    }
    write_whole(&folder.join("report.html"), page.to_html().as_bytes())?;
    files.extend(["metrics.csv".to_owned(), "report.html".to_owned()]);
    files.sort();
    Ok(files)
}

/// Returns the columns of a run in a data set's `manifest.csv`, from its metadata and analysis, and
/// whether its prompts are kept.
///
/// # Errors
///
/// Returns an error if spilled regions cannot be read back.
pub fn dataset_columns(
    run_id: &str,
    metadata: &Map<String, Value>,
    analysis: Option<&Analysis>,
    has_prompts: bool,
) -> Result<Vec<(&'static str, String)>> {
    let at = |path: &[&str]| -> String {
        let mut value = metadata.get(path.first().copied().unwrap_or_default());
        for key in path.iter().skip(1) {
            value = value.and_then(|value| value.get(key));
        }
        match value {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    };
    let either = |first: String, second: String| if first.is_empty() { second } else { first };
    #[expect(clippy::cast_precision_loss, reason = "means are reals")]
    let mean = |(sum, count): (f64, u64)| {
        if count == 0 {
            String::new()
        } else {
            format!("{:.4}", sum / count as f64)
        }
    };
    let add = |(sum, count): (f64, u64), value: f64| (sum + value, count + 1);
    let types = analysis.map(|analysis| &analysis.types);
    let known = types
        .into_iter()
        .flatten()
        .filter(|kind| kind.has_accesses());
    let retentions = known.map(|kind| kind.retention_s[2]);
    let retention = retentions.fold((0.0, 0), add);
    let mut ratios = (0.0, 0);
    for region in analysis.iter().flat_map(|analysis| &analysis.regions) {
        if let Some(ratio) = region?.write_once_ratio() {
            ratios = add(ratios, ratio);
        }
    }
    let pages: u64 = types.map_or(0, |types| types.iter().map(|kind| kind.total_pages).sum());
    Ok(vec![
        ("run_id", run_id.to_owned()),
        ("machine_id", at(&["machine_id"])),
        (
            "model_id",
            either(at(&["model", "id"]), at(&["model", "hf_repo"])),
        ),
        ("collector", at(&["collector", "type"])),
        ("context_length", at(&["generation", "context_length"])),
        ("batch_size", at(&["generation", "batch_size"])),
        (
            "max_tokens_per_prompt",
            at(&["generation", "output_tokens"]),
        ),
        ("rep", at(&["generation", "rep_index"])),
        ("run_validity", at(&["thermal", "run_validity"])),
        ("peak_temp_c", at(&["thermal", "peak_temp_c"])),
        ("throttle_events", at(&["thermal", "throttle_events"])),
        ("total_wall_s", at(&["timing", "total_wall_duration_s"])),
        (
            "avg_tok_per_s",
            at(&["generation", "avg_tokens_per_second"]),
        ),
        (
            "total_output_tokens",
            at(&["generation", "total_output_tokens"]),
        ),
        ("retention_p99_s", mean(retention)),
        ("write_once_ratio_mean", mean(ratios)),
        ("working_set_pages_total", pages.to_string()),
        ("cpu_model", at(&["hardware", "cpu_model"])),
        (
            "cpu_freq_scaling_max_mhz",
            at(&["hardware", "cpu_freq_scaling_max_mhz"]),
        ),
        ("os", at(&["software", "os"])),
        ("kernel", at(&["software", "kernel"])),
        ("has_prompt_outputs", has_prompts.to_string()),
        ("recorded_at", iso_now()),
    ])
}

/// Writes the data card of a data set, unless it has one.
///
/// # Errors
///
/// Returns an error if it cannot be written.
pub fn write_dataset_card(folder: &Path, front_matter: bool) -> Result<()> {
    let path = folder.join("README.md");
    if path.exists() {
        return Ok(());
    }
    let mut text = String::new();
    if front_matter {
        text.push_str(
            "---\npretty_name: Memory traces of LLM inference\nconfigs:\n  - config_name: trace\n    data_files: runs/*/trace.parquet\n  - config_name: region_map\n    data_files: runs/*/region_map.parquet\n  - config_name: kv_block_lifecycle\n    data_files: runs/*/kv_block_lifecycle.parquet\n---\n\n",
        );
    }
    text.push_str(
        "# Memory traces of LLM inference\n\nOne folder for each run under `runs/`; `manifest.csv` lists them. Each folder has its own `manifest.json` with hashes,\nand `metadata.json` with what was measured and how. Parquet files carry their schema version under\n`mrm_trace_schema_version`.\n",
    );
    write_whole(&path, text.as_bytes())
}
