//! Finding and reading the files of a side.

use std::io::Read;
use std::path::{Path, PathBuf};

use byte_source::{OpenOptions, Source};

use super::capture::Capture;
use super::counters::Counters;
use super::parquet_table::{self, MAGIC};
use super::{Side, samples};
use crate::compat::{is_perf_data, job_and_suffix, plain_name};
use crate::error::{Error, Result};
use crate::table::{Names, PerfTable, Strictness};

/// How a side is read.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// How files are opened.
    pub open: OpenOptions,
    /// Fail on the first row that cannot be read, instead of counting such rows.
    pub strict: bool,
}

/// Reads one side: a folder with perf-data files (searched through all its subfolders), one such file, or a table of
/// samples (CSV or Parquet) with the columns `metric`, `value` and optionally `unit`, `group`, `run`, `cycle`, `workload`. Files may be
/// compressed. Counters are taken from the `*_counters_data.csv` beside a perf-data file, if there is one.
///
/// # Errors
///
/// Nothing found, a file that cannot be read or has not the columns, and with `strict` a row that cannot be read.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Side> {
    let mut side = Side {
        name: path.display().to_string(),
        ..Side::default()
    };
    if path.is_dir() {
        let mut files = match byte_source::expand_inputs([path], is_perf_data) {
            Ok(files) => files,
            Err(byte_source::Error::NoInputs { .. }) => {
                return Err(Error::NoPerfData {
                    inputs: vec![path.to_owned()],
                });
            }
            Err(error) => return Err(error.into()),
        };
        // Of a plain and a compressed copy only one counts.
        files.sort_by_key(|file| (file.with_file_name(plain_name(file)), file.clone()));
        files.dedup_by_key(|file| file.with_file_name(plain_name(file)));
        for file in &files {
            side.add_perf_data(file, options)?;
        }
    } else if is_perf_data(path) || is_perf_table(path, options)? {
        side.add_perf_data(path, options)?;
    } else {
        side.add_samples(path, options)?;
    }
    side.captures
        .sort_by(|a, b| (&a.kind, &a.file).cmp(&(&b.kind, &b.file)));
    Ok(side)
}

/// Whether the header is that of perf data, whatever the file is called.
fn is_perf_table(path: &Path, options: &LoadOptions) -> Result<bool> {
    let mut source = Source::open(path, &options.open)?;
    let head = source.head(4096)?;
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    Ok(line.contains("function_name") && line.contains("anchor_dur_us"))
}

impl Side {
    /// A side from perf data, and perhaps counters, in memory. Rows that cannot be read are counted in the notes of
    /// comparisons.
    ///
    /// # Errors
    ///
    /// Text that is not CSV with the needed columns.
    pub fn from_csv(name: &str, perf: impl Read, counters: Option<impl Read>) -> Result<Self> {
        let mut side = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        let mut names = Names::default();
        let file = Path::new(name);
        let table = PerfTable::parse(perf, file, &mut names, Strictness::Count)?;
        side.add_table(file, String::new(), &table, &names);
        if let (Some(counters), Some(capture)) = (counters, side.captures.last_mut()) {
            capture.counters = Counters::parse(counters, file)?;
            capture.has_counter_file = !capture.counters.by_name.is_empty();
        }
        Ok(side)
    }

    /// A side from a table of samples in memory: `metric,unit,value` and optionally `group,run,cycle`.
    ///
    /// # Errors
    ///
    /// Text that is not CSV with the columns `metric` and `value`.
    pub fn from_samples_csv(name: &str, table: impl Read) -> Result<Self> {
        let mut side = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        let (series, odd) = samples::parse(table, Path::new(name))?;
        if odd > 0 {
            side.notes.push(format!(
                "{name}: {odd} rows without a usable value were left out"
            ));
        }
        side.series = series;
        Ok(side)
    }

    fn add_perf_data(&mut self, file: &Path, options: &LoadOptions) -> Result<()> {
        let strictness = if options.strict {
            Strictness::Refuse
        } else {
            Strictness::Count
        };
        let mut names = Names::default();
        let table = PerfTable::read(file, &options.open, &mut names, strictness)?;
        let kind = job_and_suffix(file)
            .map(|(_, suffix)| suffix)
            .unwrap_or_default();
        let kind = kind.trim_start_matches('_').to_owned();
        self.add_table(file, kind, &table, &names);
        if let Some(beside) = counters_beside(file) {
            let source = Source::open(&beside, &options.open)?;
            let counters = Counters::parse(source.into_read()?, &beside)?;
            let Some(capture) = self.captures.last_mut() else {
                return Ok(());
            };
            capture.counters = counters;
            capture.has_counter_file = !capture.counters.by_name.is_empty();
            if capture.counters.odd > 0 {
                self.notes.push(format!(
                    "{}: {} samples could not be read",
                    beside.display(),
                    capture.counters.odd
                ));
            }
        }
        Ok(())
    }

    fn add_table(&mut self, file: &Path, kind: String, table: &PerfTable, names: &Names) {
        let shown = file.display();
        if table.odd > 0 {
            self.notes.push(format!(
                "{shown}: {} rows could not be read (the first in line {})",
                table.odd, table.first_odd_line
            ));
        }
        if table.replaced {
            self.notes
                .push(format!("{shown}: bytes that are no UTF-8 were replaced"));
        }
        if table.damaged {
            self.notes.push(format!(
                "{shown}: compressed data is damaged or cut; what came before is used"
            ));
        }
        let capture = Capture::gather(shown.to_string(), kind, &table.rows, names);
        if capture.contradictions > 0 {
            self.notes.push(format!(
                "{shown}: {} rows repeat a cycle, process, function and device with another duration; the first one counts",
                capture.contradictions
            ));
        }
        if capture.bad_cycles > 0 {
            self.notes.push(format!(
                "{shown}: {} cycles without a positive length were left out",
                capture.bad_cycles
            ));
        }
        self.captures.push(capture);
    }

    fn add_samples(&mut self, file: &Path, options: &LoadOptions) -> Result<()> {
        let mut source = Source::open(file, &options.open)?;
        let (series, odd) = if source.head(MAGIC.len())?.starts_with(MAGIC) {
            let mut bytes = Vec::new();
            let read = source.into_read()?.read_to_end(&mut bytes);
            read.map_err(|source| Error::Io {
                path: file.to_owned(),
                step: "read",
                source,
            })?;
            parquet_table::parse(bytes.into(), file)?
        } else {
            samples::parse(source.into_read()?, file)?
        };
        if odd > 0 {
            self.notes.push(format!(
                "{}: {odd} rows without a usable value were left out",
                file.display()
            ));
        }
        self.series = series;
        Ok(())
    }
}

/// The counters file that goes with a perf-data file.
fn counters_beside(file: &Path) -> Option<PathBuf> {
    let stem = plain_name(file);
    let wanted = format!("{}_counters_data.csv", stem.strip_suffix("_perf_data.csv")?);
    let folder = file.parent()?;
    ["", ".gz", ".zst", ".xz"]
        .iter()
        .map(|end| folder.join(format!("{wanted}{end}")))
        .find(|path| path.is_file())
}
