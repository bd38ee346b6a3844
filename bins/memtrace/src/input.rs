//! Turns arguments into streams of rows and the steps applied to them.

use std::io::Read as _;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use byte_source::{OpenOptions, Source};
use cli::{ByteSize, OrExit as _, Outcome, usage};
use memtrace_analyser::AnalysisOptions;
use memtrace_labeller::{
    AddressRange, FieldList, Grammar, InputFormat, InputOptions, LabelOptions, MapsSnapshot,
    ModelFile, Names, PhaseBoundary, Phases, ReadReport, Regions, RowStream, RuleSet, SymbolTable,
    boundaries_from_json, kv_table_from_json, phase_doubts, ranges_from_json, ranges_of_maps,
    unmaps_from_log,
};
use memtrace_run::{Error, Steps, Tier, infer_phases, phases_json, run_name};
use serde_json::Value;

use crate::args::{Compat, ComputeArgs, LabelArgs, ReadArgs};

/// Assigns the outcome to an error of the libraries.
pub(crate) fn coded<T, E: Into<Error>>(result: Result<T, E>) -> anyhow::Result<T> {
    result.map_err(Into::into).or_else(|error: Error| {
        let outcome = outcome(&error);
        Err(error).or_exit(outcome)
    })
}

fn outcome(error: &Error) -> Outcome {
    use byte_source::Error as Bytes;
    use memtrace_labeller::Error as Trace;
    match error {
        Error::Source(Bytes::Write { .. } | Bytes::NoDirectory { .. })
        | Error::Trace(
            Trace::Source(Bytes::Write { .. } | Bytes::NoDirectory { .. })
            | Trace::ParquetWrite { .. },
        )
        | Error::Report(report::Error::Io(_))
        | Error::Analysis(_)
        | Error::DiskFull { .. }
        | Error::PhasePipe { .. } => Outcome::OutputFailed,
        Error::Io { source, .. } if source.kind() != std::io::ErrorKind::NotFound => {
            Outcome::OutputFailed
        }
        Error::Trace(Trace::Policy { .. })
        | Error::PhaseMark { .. }
        | Error::Limit { .. }
        | Error::FolderExists { .. } => Outcome::Usage,
        Error::NoCollector { .. } | Error::Start { .. } => Outcome::CannotAnswer,
        _ => Outcome::Unreadable,
    }
}

/// An open input, and the phases of its rows.
pub(crate) struct Opened {
    pub(crate) stream: RowStream,
    /// The phases and their source, if there are any.
    pub(crate) phases: Option<Value>,
}

/// Formats inferred phases as text.
fn inferred_text(phases: &[PhaseBoundary]) -> String {
    if phases.is_empty() {
        return "no phases found in the accesses".to_owned();
    }
    let shown: Vec<String> = phases
        .iter()
        .map(|phase| {
            let [from, to] = [phase.start_ns, phase.end_ns]
                .map(|time| format!("{}.{:03}", time / 1_000_000_000, time / 1_000_000 % 1000));
            format!("{} {from} to {to} s", phase.phase)
        })
        .collect();
    format!("phases inferred from the accesses: {}", shown.join(", "))
}

impl ReadArgs {
    /// Returns the options for reading the input.
    pub(crate) fn options(&self, path: &Path) -> anyhow::Result<InputOptions> {
        let mut options = match self.compat {
            None => InputOptions::default(),
            Some(Compat::Mrm010) => InputOptions::mrm_010(),
            Some(Compat::Mrm023) => InputOptions::mrm_023(),
        };
        if let Some(fields) = &self.fields {
            let list = fields.parse::<FieldList>();
            options.grammar =
                Grammar::Listed(list.map_err(|what| usage(format!("--fields: {what}")))?);
            options.format = Some(InputFormat::PerfScript);
        }
        if !options.grammar.is_reference() {
            options.drop_kernel = !self.kernel;
        }
        options.threads = self.input.threads();
        options.ns_per_instruction = self.ns_per_instruction;
        options.core_mhz = self.core_mhz;
        options.period = self.period.map_or(0, NonZeroU64::get);
        options.split_bytes = self.split_bytes.map_or(0, ByteSize::bytes);
        options.symbols = self.symbol_table()?;
        options.run_id = self.run_id.clone().unwrap_or_else(|| run_name(path));
        if let Some(format) = &self.input_format {
            let known = InputFormat::ALL.map(InputFormat::name).join(", ");
            options.format = Some(
                format
                    .parse()
                    .map_err(|()| usage(format!("--input-format is one of {known}")))?,
            );
        }
        Ok(options)
    }

    /// Returns the functions of all files with symbols.
    fn symbol_table(&self) -> anyhow::Result<Option<Arc<SymbolTable>>> {
        let mut all: Option<SymbolTable> = None;
        for argument in &self.symbols {
            let based = argument
                .split_once('=')
                .map(|(base, file)| (base.strip_prefix("0x").unwrap_or(base), file))
                .and_then(|(base, file)| Some((u64::from_str_radix(base, 16).ok()?, file)));
            let (base, file) = based.unwrap_or((0, argument));
            let table = coded(SymbolTable::read(file, &read(Path::new(file))?, base))?;
            match &mut all {
                Some(all) => all.join(table),
                None => all = Some(table),
            }
        }
        Ok(all.map(Arc::new))
    }

    /// Opens the input; a folder denotes its trace.
    pub(crate) fn open(&self, path: &Path, names: &mut Names) -> anyhow::Result<Opened> {
        let path = trace_of(path);
        let options = self.options(&path)?;
        let open = || {
            coded(RowStream::open_path(
                &path,
                &self.input.open_options(None),
                &options,
            ))
        };
        let (boundaries, source) = if self.infer_phases {
            if path.as_os_str() == "-" {
                return Err(usage("--infer-phases reads the input twice: give a file"));
            }
            let found = coded(infer_phases(&mut open()?))?;
            self.verbosity.note(inferred_text(&found));
            (found, "inferred")
        } else {
            (self.boundaries()?, "file")
        };
        let stream = open()?;
        // The reference assigns phases only to samples of perf; rows have their own.
        if boundaries.is_empty()
            || self.compat.is_some() && stream.format() != InputFormat::PerfScript
        {
            return Ok(Opened {
                stream,
                phases: None,
            });
        }
        let phases = coded(Phases::new(&boundaries, names))?;
        Ok(Opened {
            stream: stream.with_phases(phases),
            phases: Some(phases_json(&boundaries, source)),
        })
    }

    /// Returns the phases in a file, empty without one.
    pub(crate) fn boundaries(&self) -> anyhow::Result<Vec<PhaseBoundary>> {
        let Some(file) = &self.phases else {
            return Ok(Vec::new());
        };
        let text = read(file)?;
        let mut list = coded(boundaries_from_json(&file.display().to_string(), &text))?;
        if self.compat.is_none() {
            if list.is_empty() {
                let name = file.display();
                self.verbosity.note(format!(
                    "{name}: no phases ('phase_boundaries' is empty or missing)"
                ));
            }
            if let Some(never) = list.iter().find(|phase| phase.start_ns == i64::MAX) {
                let what = format!(
                    "{}: '{}' starts after the end of all clocks",
                    file.display(),
                    never.phase
                );
                return coded(Err(memtrace_labeller::Error::Phases { what }));
            }
            // A phase that ends before it begins is an error, which stands alone.
            if list.iter().all(|phase| phase.start_ns <= phase.end_ns) {
                for doubt in phase_doubts(&list) {
                    self.verbosity.note(format!("{}: {doubt}", file.display()));
                }
            }
        }
        if self.compat.is_some() {
            // The reference accepts a phase that ends before it begins, and finds nothing in it.
            list.retain(|phase| phase.start_ns <= phase.end_ns);
        }
        Ok(list)
    }

    /// Returns the name of the semantics.
    pub(crate) fn semantics(&self) -> &'static str {
        if self.compat.is_some() {
            "mrm-0.1"
        } else {
            "native-1"
        }
    }
}

/// Fails if a non-empty input contains no row: it has another format than detected.
pub(crate) fn refuse_nothing(
    path: &Path,
    report: &ReadReport,
    read: &ReadArgs,
) -> anyhow::Result<()> {
    // The reference treats a file with only other lines as one without rows.
    if report.rows > 0 || !report.is_damaged() || read.compat.is_some() {
        return Ok(());
    }
    coded(Err(Error::NothingRead {
        name: path.display().to_string(),
        format: report.format,
        lines: report.lines,
    }))
}

/// Maximum size of a companion file in bytes, which is read as a whole.
const SIDE_FILE_BYTES: u64 = 1 << 30;

/// Reads a small file as a whole, compressed or not.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let source = match Source::open(path, &OpenOptions::default()) {
        Ok(source) => source,
        Err(byte_source::Error::Empty { .. }) => return Ok(Vec::new()),
        Err(error) => return coded(Err(error)),
    };
    let mut bytes = Vec::new();
    coded(source.into_read())?
        .take(SIDE_FILE_BYTES)
        .read_to_end(&mut bytes)
        .with_context(|| path.display().to_string())
        .or_exit(Outcome::Unreadable)?;
    Ok(bytes)
}

/// Returns the trace in the folder of a run, or the path itself.
pub(crate) fn trace_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        path.join("trace.parquet")
    } else {
        path.to_owned()
    }
}

impl LabelArgs {
    /// Returns the labelling steps, unless the rows are already labelled.
    pub(crate) fn steps(&self, read_args: &ReadArgs, is_labelled: bool) -> anyhow::Result<Steps> {
        let mut steps = Steps::default();
        steps.store_symbols.clone_from(&read_args.store_symbols);
        // A table of blocks has more information than the types of rows.
        if is_labelled && !self.relabel && self.kv_table.is_empty() {
            self.note_unused(read_args);
            return Ok(steps);
        }
        let mut options = if read_args.compat.is_some() {
            LabelOptions::mrm()
        } else {
            LabelOptions::native()
        };
        options.relabel = self.relabel;
        options.unknown = coded(self.unknown.parse::<memtrace_labeller::UnknownPolicy>())?;
        if let Some(rules) = &self.rules {
            options.rules = if rules.as_os_str() == "engines" {
                RuleSet::engines()
            } else {
                let text = read(rules)?;
                coded(RuleSet::from_yaml(&String::from_utf8_lossy(&text)))?
            };
        }
        if let Regions::Native { kv_block_bytes, .. } = &mut options.regions {
            match self.kv_block {
                Some(size) if size.bytes() == 0 => {
                    return Err(usage("--kv-block: a block has at least one byte"));
                }
                Some(size) => *kv_block_bytes = size.bytes(),
                None => steps.infer_kv_blocks = true,
            }
        }
        // The first range of an address holds: a block says more than the region around it.
        for file in &self.kv_table {
            let table = kv_table_from_json(&file.display().to_string(), &read(file)?);
            steps.ranges.extend(coded(table)?);
        }
        for file in &self.ranges {
            steps.ranges.extend(ranges(file)?);
        }
        steps.ranges.extend(self.mapped()?);
        for file in &self.unmaps {
            let log = unmaps_from_log(&file.display().to_string(), &read(file)?);
            steps.unmaps.extend(coded(log)?);
        }
        steps.label = Some(options);
        Ok(steps)
    }
}

impl LabelArgs {
    /// Reports options without effect on rows that are already labelled.
    fn note_unused(&self, read_args: &ReadArgs) {
        let given = [
            ("--ranges", !self.ranges.is_empty()),
            ("--rules", self.rules.is_some()),
            ("--maps", !self.maps.is_empty()),
            ("--unmaps", !self.unmaps.is_empty()),
            ("--kv-block", self.kv_block.is_some()),
        ];
        for (option, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
            let what = "the rows are labelled already; add --relabel to label them again";
            read_args
                .verbosity
                .note(format!("{option} not used: {what}"));
        }
    }

    /// Returns the ranges in the snapshots of mappings and the model files.
    fn mapped(&self) -> anyhow::Result<Vec<AddressRange>> {
        let mut snapshots = Vec::new();
        for argument in &self.maps {
            let (time_ns, file) = match argument.split_once('=') {
                Some((time, file))
                    if !time.is_empty() && time.bytes().all(|b| b.is_ascii_digit()) =>
                {
                    let time = time.parse::<u64>();
                    let time = time.map_err(|_| usage(format!("--maps: no time: {argument}")))?;
                    (Some(time), file)
                }
                _ => (None, argument.as_str()),
            };
            let mut found = coded(MapsSnapshot::read(file, &read(Path::new(file))?))?;
            if time_ns.is_some() {
                match found.as_mut_slice() {
                    [one] if one.time_ns.is_none() => one.time_ns = time_ns,
                    _ => {
                        let problem = "has times of its own, or not one snapshot";
                        return Err(usage(format!("--maps {argument}: the file {problem}")));
                    }
                }
            }
            snapshots.append(&mut found);
        }
        let timed = snapshots.iter().filter(|one| one.time_ns.is_some()).count();
        if timed > 0 && timed < snapshots.len() {
            return Err(usage(
                "--maps: give a time with every snapshot or with none: --maps NS=FILE",
            ));
        }
        snapshots.sort_by_key(|snapshot| snapshot.time_ns);
        let models: Vec<ModelFile> = self
            .model
            .iter()
            .map(|path| coded(ModelFile::open(path)))
            .collect::<anyhow::Result<_>>()?;
        Ok(ranges_of_maps(&snapshots, &models))
    }
}

fn ranges(file: &Path) -> anyhow::Result<Vec<AddressRange>> {
    let text = read(file)?;
    coded(ranges_from_json(&file.display().to_string(), &text))
}

impl ComputeArgs {
    /// Returns the tiers to compare with.
    pub(crate) fn tiers(&self) -> anyhow::Result<Vec<Tier>> {
        let parsed = self.tier.iter().map(|tier| Tier::parse(tier));
        let parsed: Result<Vec<Tier>, String> = parsed.collect();
        let mut tiers = parsed.map_err(|what| usage(format!("--tier: {what}")))?;
        if let Some(file) = &self.tiers_file {
            let text = read(file)?;
            let more = Tier::from_toml(&String::from_utf8_lossy(&text));
            tiers.extend(more.map_err(|what| usage(format!("{}: {what}", file.display())))?);
        }
        Ok(tiers)
    }

    pub(crate) fn options(&self, compat: Option<Compat>) -> anyhow::Result<AnalysisOptions> {
        let mut options = if compat.is_some() {
            AnalysisOptions::mrm()
        } else {
            AnalysisOptions::default()
        };
        options.memory_bytes = self.memory.bytes();
        if let Some(folder) = &self.spill_dir {
            options.spill_folder.clone_from(folder);
        }
        options.min_samples = self.min_samples;
        options.windows = self.windows;
        options.approximate = self.approx;
        for threshold in &self.threshold {
            let set = options.limits.set(threshold);
            set.map_err(|what| usage(format!("--threshold: {what}")))?;
        }
        Ok(options)
    }
}
