//! Runs of an experiment: running, finding, analysing, reporting.

use std::fs;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;

use byte_source::OpenOptions;
use memtrace_analyser::AnalysisOptions;
use memtrace_labeller::{InputOptions, Names, RowStream};

use crate::collect::{RunOptions, RunResult, run_experiment};
use crate::error::{Result, io_error};
use crate::experiment::{Experiment, slug};
use crate::figures::FigureFormat;
use crate::manifest::MANIFEST_FILE;
use crate::page::write_report;
use crate::pipeline::{Processed, Steps, process};

impl Experiment {
    /// Runs the whole plan, see [`run_experiment`].
    ///
    /// # Errors
    ///
    /// Same as [`run_experiment`].
    pub fn run(&self, options: &RunOptions) -> Result<Vec<RunResult>> {
        run_experiment(self, options)
    }

    /// Returns the folders of this experiment's models whose runs are complete (they have a
    /// manifest), sorted; empty before the first run.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) when a folder cannot be listed.
    pub fn finished_runs(&self) -> Result<Vec<PathBuf>> {
        let base = Path::new(&self.config.output.base_dir);
        let mut found = Vec::new();
        for model in &self.config.models {
            let folder = base.join(slug(&model.id));
            let runs = match fs::read_dir(&folder) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                runs => runs.map_err(io_error(&folder))?,
            };
            for run in runs {
                let run = run.map_err(io_error(&folder))?.path();
                if run.join(MANIFEST_FILE).is_file() {
                    found.push(run);
                }
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }
}

/// Analyses the trace in the folder of a run, with its existing labels.
///
/// # Errors
///
/// Returns an error if there is no trace (as for a run that was only monitored), or it cannot be
/// read.
pub fn analyse_run(folder: &Path, options: AnalysisOptions) -> Result<Processed> {
    let mut input = InputOptions::default();
    input.threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let trace = folder.join("trace.parquet");
    let stream = RowStream::open_path(trace, &OpenOptions::default(), &input)?;
    let steps = Steps {
        analyse: Some(options),
        ..Steps::default()
    };
    process(stream, Names::new(), steps, None)
}

/// Writes the figures and the page of a run into another folder; returns the file names.
///
/// # Errors
///
/// Same as [`analyse_run`] and [`write_report`].
pub fn report_run(folder: &Path, output: &Path, formats: &[FigureFormat]) -> Result<Vec<String>> {
    let processed = analyse_run(folder, AnalysisOptions::default())?;
    let title = folder
        .file_name()
        .map_or("run".to_owned(), |name| name.to_string_lossy().into_owned());
    write_report(output, &title, &processed, formats, &[])
}
