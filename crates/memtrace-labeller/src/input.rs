//! Any input as a stream of rows.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use byte_source::magic::{first_non_blank, hex_preview};
use byte_source::{OpenOptions, Source};

use crate::access::Access;
use crate::damon::DamonRows;
use crate::error::{Error, Result};
use crate::heaptrack::{HeaptrackRows, is_heaptrack};
use crate::lackey::LackeyRows;
use crate::memray::MemrayRows;
use crate::names::{Name, Names};
use crate::parquet_file::ParquetRows;
use crate::perf_data::PerfDataRows;
use crate::perf_text::Grammar;
use crate::perf_text::reader::{LineRows, perf_lines};
use crate::phases::Phases;
use crate::report::{ReadReport, Records};
use crate::rows_csv::{CsvRows, is_header};
use crate::rows_json::JsonRows;
use crate::symbols::SymbolTable;

/// What an input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InputFormat {
    /// Text of `perf script`.
    PerfScript,
    /// `perf.data`.
    PerfData,
    /// A memray capture.
    Memray,
    /// Valgrind Lackey with `--trace-mem=yes`.
    Lackey,
    /// Records of DAMON as `damo report raw` prints them.
    Damon,
    /// Files of heaptrack, raw or interpreted.
    Heaptrack,
    /// Canonical rows as JSON lines.
    RowsJson,
    /// Canonical rows as CSV with a header.
    RowsCsv,
    /// A trace as Parquet.
    Parquet,
}

impl InputFormat {
    /// All formats.
    pub const ALL: [Self; 9] = [
        Self::PerfScript,
        Self::PerfData,
        Self::Memray,
        Self::Lackey,
        Self::Damon,
        Self::Heaptrack,
        Self::RowsJson,
        Self::RowsCsv,
        Self::Parquet,
    ];

    /// The format's name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerfScript => "perf-script",
            Self::PerfData => "perf-data",
            Self::Memray => "memray",
            Self::Lackey => "lackey",
            Self::Damon => "damon",
            Self::Heaptrack => "heaptrack",
            Self::RowsJson => "rows-jsonl",
            Self::RowsCsv => "rows-csv",
            Self::Parquet => "parquet",
        }
    }

    /// Step of the clock of such captures; 0 where times are as exact as they are written.
    #[must_use]
    pub const fn resolution_ns(self) -> u64 {
        match self {
            Self::Memray | Self::Heaptrack => 10_000_000,
            _ => 0,
        }
    }

    /// Recognises a format by the first bytes of the content; an empty input is perf text without lines.
    #[must_use]
    pub fn sniff(head: &[u8]) -> Option<Self> {
        if head.starts_with(b"PAR1") {
            Some(Self::Parquet)
        } else if head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP") {
            Some(Self::PerfData)
        } else if head.starts_with(b"memray\0") || head.starts_with(&[0x04, 0x22, 0x4d, 0x18]) {
            Some(Self::Memray)
        } else if head.starts_with(b"==") && memchr::memmem::find(head, b"== Lackey").is_some() {
            Some(Self::Lackey)
        } else if memchr::memmem::find(head, b"base_time_absolute:").is_some()
            || memchr::memmem::find(head, b"monitoring_start:").is_some()
        {
            Some(Self::Damon)
        } else if head.iter().filter(|byte| **byte == 0).count() * 100 > head.len() {
            // Text may have a damaged byte.
            None
        } else if first_non_blank(head) == Some(b'{') {
            Some(Self::RowsJson)
        } else if is_header(head) {
            Some(Self::RowsCsv)
        } else if looks_like_lackey(head) {
            Some(Self::Lackey)
        } else if is_heaptrack(head) {
            Some(Self::Heaptrack)
        } else {
            Some(Self::PerfScript)
        }
    }
}

/// Lines like ` L 1ffeff,8` without the banner.
fn looks_like_lackey(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').take(3).all(|line| {
        matches!(
            line,
            [b'I', b' ', b' ', ..] | [b' ', b'L' | b'S' | b'M', b' ', ..]
        )
    })
}

impl FromStr for InputFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or(())
    }
}

/// How to read an input.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InputOptions {
    /// The format, when it is not to be found out.
    pub format: Option<InputFormat>,
    /// Grammar of `perf script` text.
    pub grammar: Grammar,
    /// Whether rows of the kernel's half of the addresses are left out.
    pub drop_kernel: bool,
    /// Name of the run, for inputs that do not say one.
    pub run_id: String,
    /// Nanoseconds that an instruction counts for, where instructions are the only clock.
    pub ns_per_instruction: u64,
    /// Clock of the cores in MHz, where it is known: latencies in nanoseconds are then made from cycles.
    pub core_mhz: Option<NonZeroU32>,
    /// Accesses of Lackey are split at multiples of so many bytes; 0 leaves them whole.
    pub split_bytes: u64,
    /// Accesses that a sample stands for, where the capture does not state it; 0 when that is not known.
    pub period: u64,
    /// Names the functions of instructions, where a capture gives their addresses alone.
    pub symbols: Option<Arc<SymbolTable>>,
    /// Threads that parse.
    pub threads: NonZeroUsize,
}

impl Default for InputOptions {
    fn default() -> Self {
        Self {
            format: None,
            grammar: Grammar::Native,
            drop_kernel: true,
            run_id: String::new(),
            ns_per_instruction: 1,
            core_mhz: None,
            split_bytes: 0,
            period: 0,
            symbols: None,
            threads: NonZeroUsize::MIN,
        }
    }
}

impl InputOptions {
    /// As the reference's version 0.1.0 reads.
    #[must_use]
    pub fn mrm_010() -> Self {
        Self {
            grammar: Grammar::Mrm010,
            drop_kernel: false,
            ..Self::default()
        }
    }

    /// As the reference's version 0.1.23 reads.
    #[must_use]
    pub fn mrm_023() -> Self {
        Self {
            grammar: Grammar::Mrm023,
            drop_kernel: false,
            ..Self::default()
        }
    }
}

#[derive(Debug)]
enum Reader {
    /// Nothing was there to be read.
    Empty,
    Lines(LineRows),
    Json(Box<JsonRows>),
    Csv(Box<CsvRows>),
    Parquet(Box<ParquetRows>),
    Lackey(Box<LackeyRows>),
    Memray(Box<MemrayRows>),
    PerfData(Box<PerfDataRows>),
    Damon(Box<DamonRows>),
    Heaptrack(Box<HeaptrackRows>),
}

/// Rows of an input, in batches.
///
/// ```
/// use byte_source::{OpenOptions, Source};
/// use memtrace_labeller::{InputOptions, Names, RowStream};
///
/// let text = b"cli 42 [0] 1.5: cpu/mem-stores/P: 7f3a00001000 kv_update+0x10 (/x.so)\n";
/// let source = Source::from_bytes("perf.txt", text.to_vec())?;
/// let (mut names, mut rows) = (Names::new(), Vec::new());
/// let mut stream = RowStream::open(source, &InputOptions::default())?;
/// while stream.next_batch(&mut names, &mut rows)? {}
/// assert_eq!(rows[0].timestamp_ns, 1_500_000_000);
/// assert_eq!(stream.report().lines, 1);
/// # Ok::<(), memtrace_labeller::Error>(())
/// ```
#[derive(Debug)]
pub struct RowStream {
    reader: Reader,
    format: InputFormat,
    run_id: String,
    run_name: Option<Name>,
    phases: Phases,
    latency: Latency,
    /// The period of rows that state none.
    period: u64,
    /// The run that the first row names, once there was one.
    first_run: Option<Name>,
    /// Rows that were read to know their run.
    held: Option<Vec<Access>>,
}

/// What becomes of the latencies that a reader found.
#[derive(Debug, Clone, Copy, Default)]
struct Latency {
    /// They are cycles of the core, by our semantics.
    is_cycles: bool,
    core_mhz: Option<NonZeroU32>,
}

impl Latency {
    fn new(format: InputFormat, options: &InputOptions) -> Self {
        let is_sampled = match format {
            InputFormat::PerfScript => !options.grammar.is_reference(),
            format => format == InputFormat::PerfData,
        };
        Self {
            is_cycles: is_sampled,
            core_mhz: options.core_mhz,
        }
    }

    fn tell(self, row: &mut Access) {
        if self.is_cycles {
            // Where a store has no latency, its sample has a zero.
            let is_known = |cycles: &u32| *cycles > 0 || !row.is_store();
            row.latency_cycles = row.access_latency_ns.filter(is_known);
        }
        let Some(mhz) = self.core_mhz else { return };
        if self.is_cycles || row.latency_cycles.is_some() {
            let mhz = u64::from(mhz.get());
            row.access_latency_ns = row.latency_cycles.map(|cycles| {
                let ns = (u64::from(cycles) * 1000 + mhz / 2) / mhz;
                u32::try_from(ns).unwrap_or(u32::MAX)
            });
        }
    }
}

impl RowStream {
    /// Opens an input.
    ///
    /// # Errors
    ///
    /// [`Error::Unrecognised`], and what the format's reader says.
    pub fn open(mut source: Source, options: &InputOptions) -> Result<Self> {
        let name = source.name().to_owned();
        let head = source.head(4096)?;
        let format = options
            .format
            .or_else(|| InputFormat::sniff(head))
            .ok_or_else(|| Error::Unrecognised {
                name: name.clone(),
                head: hex_preview(head),
            })?;
        let reader = match format {
            InputFormat::PerfScript => Reader::Lines(LineRows::new(
                source,
                perf_lines(options.grammar, options.drop_kernel),
                options.threads,
                format.name(),
                "perf",
            )?),
            InputFormat::RowsJson => Reader::Json(Box::new(JsonRows::new(source)?)),
            InputFormat::RowsCsv => Reader::Csv(Box::new(CsvRows::new(source)?)),
            InputFormat::Parquet => Reader::Parquet(Box::new(ParquetRows::new(source)?)),
            InputFormat::Lackey => Reader::Lackey(Box::new(LackeyRows::new(source, options)?)),
            InputFormat::Memray => Reader::Memray(Box::new(MemrayRows::new(source)?)),
            InputFormat::PerfData => {
                Reader::PerfData(Box::new(PerfDataRows::new(source, options.drop_kernel)?))
            }
            InputFormat::Damon => Reader::Damon(Box::new(DamonRows::new(source)?)),
            InputFormat::Heaptrack => {
                let symbols = options.symbols.clone();
                Reader::Heaptrack(Box::new(HeaptrackRows::new(source, symbols)?))
            }
        };
        Ok(Self {
            reader,
            format,
            run_id: options.run_id.clone(),
            run_name: None,
            phases: Phases::default(),
            latency: Latency::new(format, options),
            period: match options.period {
                // These record everything.
                0 if matches!(
                    format,
                    InputFormat::Lackey | InputFormat::Memray | InputFormat::Heaptrack
                ) =>
                {
                    1
                }
                period => period,
            },
            first_run: None,
            held: None,
        })
    }

    /// Opens a path, or standard input for `-`. An empty input is one without rows.
    ///
    /// # Errors
    ///
    /// As [`RowStream::open`], and when the path cannot be opened.
    pub fn open_path(
        path: impl AsRef<Path>,
        open: &OpenOptions,
        options: &InputOptions,
    ) -> Result<Self> {
        // Captures of memray are packed in LZ4 as they are written.
        let mut open = open.clone();
        open.pass_foreign = true;
        match Source::open(path, &open) {
            Ok(source) => Self::open(source, options),
            Err(byte_source::Error::Empty { .. }) => Ok(Self {
                reader: Reader::Empty,
                format: options.format.unwrap_or(InputFormat::PerfScript),
                run_id: options.run_id.clone(),
                run_name: None,
                phases: Phases::default(),
                latency: Latency::default(),
                period: 0,
                first_run: None,
                held: None,
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Rows without a phase get the one of their time.
    #[must_use]
    pub fn with_phases(mut self, phases: Phases) -> Self {
        self.phases = phases;
        self
    }

    /// What the input is.
    #[must_use]
    pub fn format(&self) -> InputFormat {
        self.format
    }

    /// Whether the rows come with regions. A Parquet file does unless its own statistics say that no row has one.
    #[must_use]
    pub fn is_labelled(&self) -> bool {
        matches!(&self.reader, Reader::Parquet(rows) if rows.has_regions())
    }

    /// Step of the clock of the rows: that of the capture, which a trace of ours remembers; 0 where times are as exact as they
    /// are written.
    #[must_use]
    pub fn resolution_ns(&self) -> u64 {
        match &self.reader {
            Reader::Parquet(rows) => rows.clock_step_ns(),
            _ => self.format.resolution_ns(),
        }
    }

    /// Returns `true` if times count instructions: such captures have no clock, which a trace of ours remembers.
    #[must_use]
    pub fn counts_instructions(&self) -> bool {
        match &self.reader {
            Reader::Parquet(rows) => rows.counts_instructions(),
            _ => self.format == InputFormat::Lackey,
        }
    }

    /// What the rows are, which a trace of ours remembers.
    #[must_use]
    pub fn records(&self) -> Records {
        match (&self.reader, self.format) {
            (Reader::Parquet(rows), _) => rows.records(),
            (_, InputFormat::Memray | InputFormat::Heaptrack) => Records::Allocations,
            (_, InputFormat::Damon) => Records::Regions,
            _ => Records::Accesses,
        }
    }

    /// The run that the first row names, where rows name one; else that of the options.
    ///
    /// Reads as far as the first row, where rows can name a run at all; [`RowStream::next_batch`] gives it then.
    ///
    /// # Errors
    ///
    /// As [`RowStream::next_batch`].
    pub fn run_of_rows(&mut self, names: &mut Names) -> Result<String> {
        if matches!(
            self.reader,
            Reader::Json(_) | Reader::Csv(_) | Reader::Parquet(_)
        ) && self.held.is_none()
        {
            let mut rows = Vec::new();
            let mut more = true;
            while more && rows.is_empty() {
                more = self.read_batch(names, &mut rows)?;
            }
            self.held = Some(rows);
        }
        let own = self.first_run.filter(|run| *run != Name::EMPTY);
        Ok(own
            .map_or(self.run_id.as_str(), |run| names.text(run))
            .to_owned())
    }

    /// Appends the next rows, some thousands at most; `false` when there are no more. A batch may be empty.
    ///
    /// # Errors
    ///
    /// When the input cannot be read, or is not what it should be.
    pub fn next_batch(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<bool> {
        match self.held.take() {
            Some(mut held) if !held.is_empty() => {
                rows.append(&mut held);
                Ok(true)
            }
            _ => self.read_batch(names, rows),
        }
    }

    fn read_batch(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<bool> {
        let before = rows.len();
        let more = match &mut self.reader {
            Reader::Empty => false,
            Reader::Lines(lines) => lines.next_batch(names, rows)?,
            Reader::Json(json) => json.next_batch(names, rows)?,
            Reader::Csv(csv) => csv.next_batch(names, rows)?,
            Reader::Parquet(parquet) => parquet.next_batch(names, rows)?,
            Reader::Lackey(lackey) => lackey.next_batch(names, rows)?,
            Reader::Memray(memray) => memray.next_batch(names, rows)?,
            Reader::PerfData(perf) => perf.next_batch(names, rows)?,
            Reader::Damon(damon) => damon.next_batch(names, rows)?,
            Reader::Heaptrack(heaptrack) => heaptrack.next_batch(names, rows)?,
        };
        if let (None, Some(first)) = (self.first_run, rows.get(before)) {
            self.first_run = Some(first.run_id);
        }
        let run_id = &self.run_id;
        let run = *self.run_name.get_or_insert_with(|| names.intern(run_id));
        for row in rows.iter_mut().skip(before) {
            self.latency.tell(row);
            if row.period == 0 {
                row.period = self.period;
            }
            if row.run_id == Name::EMPTY {
                row.run_id = run;
            }
            if row.phase.is_null() && !self.phases.is_empty() {
                row.phase = self.phases.at(row.timestamp_ns);
            }
        }
        Ok(more)
    }

    /// What was found so far beside the rows.
    #[must_use]
    pub fn report(&self) -> ReadReport {
        let mut report = match &self.reader {
            Reader::Empty => ReadReport::new(self.format.name(), "unknown"),
            Reader::Lines(lines) => lines.report(),
            Reader::Json(json) => json.report(),
            Reader::Csv(csv) => csv.report(),
            Reader::Parquet(parquet) => parquet.report(),
            Reader::Lackey(lackey) => lackey.report(),
            Reader::Memray(memray) => memray.report(),
            Reader::PerfData(perf) => perf.report(),
            Reader::Damon(damon) => damon.report(),
            Reader::Heaptrack(heaptrack) => heaptrack.report(),
        };
        report.run = self.first_run.filter(|run| *run != Name::EMPTY);
        report
    }
}
