//! The files of one job.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use cli::Output;
use perf_compare::Recording;
use rca_cycles::compat::{CycleRow, Report};
use rca_report::rows::{self, counters, functions};
use rca_report::tracks::Job;
use report::{CsvOptions, CsvWriter};
use trace_model::Trace;

/// Files to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// `true` for the tables of functions and counters.
    pub(crate) tables: bool,
    /// `true` for the events of every cycle.
    pub(crate) cycles: bool,
    /// `true` to write only the reference's columns.
    pub(crate) compat: bool,
}

/// Removes the files that [`write()`] wrote to this folder before, since they belong to other
/// traces.
pub(crate) fn clear(folder: &Path) -> anyhow::Result<()> {
    remove(folder, &|_| true)
}

/// Removes the files that [`write()`] wrote for a job, whatever its phases were.
pub(crate) fn clear_job(folder: &Path, job: &str) -> anyhow::Result<()> {
    const PHASES: [&str; 5] = ["", "_prefill", "_decode", "_mixed", "_unknown"];
    const FILES: [&str; 5] = [
        "_perf_data.csv",
        "_counters_data.csv",
        "_analysis.txt",
        "_representative_analysis.txt",
        "_recording.toml",
    ];
    let is_own = |name: &str| {
        PHASES.iter().any(|phase| {
            let rest = name.strip_prefix(&format!("{job}{phase}"));
            rest.is_some_and(|rest| {
                FILES.contains(&rest) || rest.starts_with("_representative_cycle_")
            })
        })
    };
    remove(folder, &is_own)
}

/// Removes the files of these names, if they are of the kinds that [`write()`] writes.
fn remove(folder: &Path, wanted: &dyn Fn(&str) -> bool) -> anyhow::Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let own = [
            "_perf_data.csv",
            "_counters_data.csv",
            "_analysis.txt",
            "_recording.toml",
        ];
        let is_cycle = name.contains("_representative_cycle_") && name.ends_with(".json");
        if path.is_file()
            && wanted(&name)
            && (is_cycle || own.iter().any(|end| name.ends_with(end)))
        {
            std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Writes the reports of a job to a folder.
pub(crate) fn write(
    folder: &Path,
    job: &str,
    trace: &Trace,
    reports: &[Report],
    wanted: Wanted,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for report in reports {
        let stem = format!("{job}{}", report.suffix);
        text(&folder.join(format!("{stem}_analysis.txt")), &report.text)?;
        if let Some(chosen) = &report.representative_text {
            let name = format!("{stem}_representative_analysis.txt");
            text(&folder.join(name), chosen)?;
        }
        for cycle in &report.cycles {
            if report.representatives.contains(&cycle.number) {
                let name = format!("{stem}_representative_cycle_{}.json", cycle.number);
                events(&folder.join(name), trace, cycle)?;
            }
        }
        if wanted.cycles {
            let debug = folder.join(format!("{stem}_debug_cycles"));
            std::fs::create_dir_all(&debug).with_context(|| debug.display().to_string())?;
            for cycle in &report.cycles {
                let name = format!("cycle_{}.json", cycle.number);
                events(&debug.join(name), trace, cycle)?;
            }
        }
        if wanted.tables {
            let mut out = Output::file(folder.join(format!("{stem}_perf_data.csv")))?;
            functions(
                report,
                wanted.compat,
                &mut CsvWriter::new(&mut out, CsvOptions::default()),
            )?;
            out.finish()?;
            let mut out = Output::file(folder.join(format!("{stem}_counters_data.csv")))?;
            counters(
                report,
                wanted.compat,
                &mut CsvWriter::new(&mut out, CsvOptions::default()),
            )?;
            out.finish()?;
        }
    }
    Ok(())
}

pub(crate) fn text(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut out = Output::file(path)?;
    out.write_all(text.as_bytes())?;
    out.finish()
}

fn events(path: &Path, trace: &Trace, cycle: &CycleRow) -> anyhow::Result<()> {
    let mut out = Output::file(path)?;
    rows::events(&mut out, trace, cycle)?;
    out.finish()
}

/// Writes what a recording states about itself next to the tables of its job.
pub(crate) fn recording(folder: &Path, job: &str, recording: &Recording) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    text(
        &folder.join(Recording::file_name(job)),
        &recording.to_toml(),
    )
}

/// Writes cycles as tracks to open next to the trace.
pub(crate) fn tracks(path: &Path, jobs: &[&Job]) -> anyhow::Result<()> {
    let trace = rca_report::tracks::trace(jobs)?;
    let mut out = Output::file(path)?;
    perfetto_reader::write::write_trace(&trace, &mut out)?;
    out.finish()
}
