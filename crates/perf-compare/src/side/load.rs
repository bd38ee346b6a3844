//! Finding and reading the files of a side.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use byte_source::{OpenOptions, Source};

use super::capture::{Capture, Part};
use super::counters::Counters;
use super::parquet_table::{self, MAGIC};
use super::rank::{self, Rank};
use super::recording::Recording;
use super::{Side, samples};
use crate::compat::{is_perf_data, job_and_phase, plain_name};
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
        side.add_files(&files, options)?;
    } else if is_perf_data(path) || is_perf_table(path, options)? {
        side.add_files(&[path.to_owned()], options)?;
    } else {
        side.add_samples(path, options)?;
    }
    side.captures
        .sort_by(|a, b| (&a.kind, &a.file).cmp(&(&b.kind, &b.file)));
    Ok(side)
}

/// A file of perf data that has been read.
struct Table {
    file: PathBuf,
    /// `prefill`, `decode`, `layer`, or nothing.
    kind: String,
    rank: Option<Rank>,
    rows: PerfTable,
    open: OpenOptions,
}

impl Table {
    fn read(
        file: &Path,
        rank: Option<Rank>,
        options: &LoadOptions,
        names: &mut Names,
    ) -> Result<Self> {
        let strictness = if options.strict {
            Strictness::Refuse
        } else {
            Strictness::Count
        };
        let rows = PerfTable::read(file, &options.open, names, strictness)?;
        Ok(Self {
            file: file.to_owned(),
            kind: kind_of(file),
            rank,
            rows,
            open: options.open.clone(),
        })
    }

    /// Start of the first cycle and end of the last.
    fn span(&self) -> (f64, f64) {
        let rows = || self.rows.rows.iter();
        (
            rows().map(|r| r.start_us).fold(f64::INFINITY, f64::min),
            rows()
                .map(|r| r.start_us + r.cycle_us)
                .fold(f64::NEG_INFINITY, f64::max),
        )
    }

    fn devices(&self, names: &Names) -> BTreeSet<String> {
        let all = self.rows.rows.iter().filter_map(|row| row.device);
        let all = all.map(|name| names.text(name).to_owned());
        all.filter(|name| name.starts_with("GPU")).collect()
    }
}

/// Type of the cycles of a file, by its name.
fn kind_of(file: &Path) -> String {
    job_and_phase(file).map_or_else(String::new, |(_, phase)| phase)
}

/// Returns `true` if the files are of devices of their own that worked at the same time: ranks of one run.
fn ran_together(tables: &[Table], names: &Names) -> bool {
    let mut seen = BTreeSet::new();
    for table in tables {
        let devices = table.devices(names);
        if devices.is_empty() || devices.iter().any(|device| !seen.insert(device.clone())) {
            return false;
        }
    }
    let spans: Vec<(f64, f64)> = tables.iter().map(Table::span).collect();
    let from = spans.iter().map(|s| s.0).fold(f64::NEG_INFINITY, f64::max);
    let to = spans.iter().map(|s| s.1).fold(f64::INFINITY, f64::min);
    spans.iter().all(|(a, b)| (to - from) > 0.5 * (b - a))
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
        side.note_table(file, &table);
        let part = Part {
            rank: None,
            rows: &table.rows,
        };
        let capture = Capture::gather(name.to_owned(), String::new(), &[part], &names);
        side.note_capture(&capture);
        side.captures.push(capture);
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

    /// Adds files as runs: files of several ranks in one folder, or of folders named after ranks, are one run.
    fn add_files(&mut self, files: &[PathBuf], options: &LoadOptions) -> Result<()> {
        type RankFile<'a> = (Option<Rank>, &'a PathBuf);
        let mut groups: BTreeMap<(PathBuf, String), Vec<RankFile<'_>>> = BTreeMap::new();
        for file in files {
            let (mut rank, folder) = rank::of(file);
            if let Some(recording) = Recording::beside(file)? {
                // What the recording states counts, whatever its file is called.
                if let Some(stated) = recording.rank.map(Rank::Number) {
                    if let Some(Rank::Number(_)) = &rank
                        && rank.as_ref() != Some(&stated)
                    {
                        self.notes.push(format!(
                            "{}: the recording states {stated}, which counts, and not the rank in its name",
                            file.display()
                        ));
                    }
                    rank = Some(stated);
                }
                if !self.recordings.contains(&recording) {
                    self.recordings.push(recording);
                }
            }
            let group = groups.entry((folder, kind_of(file))).or_default();
            group.push((rank, file));
        }
        for group in groups.into_values() {
            // The second file of a rank is of the second run.
            let mut runs: BTreeMap<usize, Vec<(Option<Rank>, &PathBuf)>> = BTreeMap::new();
            let mut counts: BTreeMap<Rank, usize> = BTreeMap::new();
            let mut others = Vec::new();
            for (rank, file) in group {
                match rank {
                    Some(rank) => {
                        let run = counts.entry(rank.clone()).or_default();
                        runs.entry(*run).or_default().push((Some(rank), file));
                        *run += 1;
                    }
                    None => others.push((None, file)),
                }
            }
            for run in runs.into_values() {
                let mut names = Names::default();
                let mut tables = run
                    .into_iter()
                    .map(|(rank, file)| Table::read(file, rank, options, &mut names))
                    .collect::<Result<Vec<Table>>>()?;
                tables.sort_by(|a, b| a.rank.cmp(&b.rank));
                self.add_run(tables, &names)?;
            }
            let mut names = Names::default();
            let tables = others
                .into_iter()
                .map(|(rank, file)| Table::read(file, rank, options, &mut names))
                .collect::<Result<Vec<Table>>>()?;
            if tables.len() > 1 && ran_together(&tables, &names) {
                self.add_run(tables, &names)?;
            } else {
                for table in tables {
                    self.add_run(vec![table], &names)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the files of one run: one, or one for each rank.
    fn add_run(&mut self, run: Vec<Table>, names: &Names) -> Result<()> {
        let Some(first) = run.first() else {
            return Ok(());
        };
        let mut shown = first.file.display().to_string();
        if run.len() > 1 {
            shown += &format!(" and {} more ranks", run.len() - 1);
        }
        for table in &run {
            self.note_table(&table.file, &table.rows);
        }
        let parts: Vec<Part<'_>> = run
            .iter()
            .map(|table| Part {
                rank: table.rank.clone().filter(|_| run.len() > 1),
                rows: &table.rows.rows,
            })
            .collect();
        let mut capture = Capture::gather(shown, first.kind.clone(), &parts, names);
        self.note_capture(&capture);
        for table in &run {
            let Some(beside) = counters_beside(&table.file) else {
                continue;
            };
            let source = Source::open(&beside, &table.open)?;
            let counters = Counters::parse(source.into_read()?, &beside)?;
            capture.has_counter_file |= !counters.by_name.is_empty();
            if counters.odd > 0 {
                self.notes.push(format!(
                    "{}: {} samples could not be read",
                    beside.display(),
                    counters.odd
                ));
            }
            capture.counters.merge(counters);
        }
        self.captures.push(capture);
        Ok(())
    }

    fn note_table(&mut self, file: &Path, table: &PerfTable) {
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
    }

    fn note_capture(&mut self, capture: &Capture) {
        let shown = &capture.file;
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
        if capture.partial_cycles > 0 {
            self.notes.push(format!(
                "{shown}: {} cycles that some ranks lack were left out",
                capture.partial_cycles
            ));
        }
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
