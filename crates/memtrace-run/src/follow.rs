//! Analyses an input while it grows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use byte_source::Source;
use memtrace_analyser::Analyser;
use memtrace_labeller::{
    Access, InputFormat, InputOptions, Labeller, Name, Names, Phases, ReadReport, RowStream,
};

use crate::error::{Error, Result, io_error};
use crate::pipeline::{Processed, Steps, mark_stores};

/// Interval at which a file that does not grow is checked.
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of bytes read at once.
const BLOCK_BYTES: u64 = 4 << 20;
/// Maximum length of a line in bytes; longer lines are split.
const MAX_LINE: usize = 16 << 20;

/// How long an input is followed, and the receiver of growth reports.
#[non_exhaustive]
pub struct Follow<'a> {
    /// Returns `true` to end now; called several times per second.
    pub ended: Box<dyn Fn() -> bool + 'a>,
    /// Ends when nothing was added for this long.
    pub quiet: Option<Duration>,
    /// Interval of growth reports.
    pub interval: Duration,
    /// Receives growth reports.
    pub told: Box<dyn FnMut(&Growth<'_>) + 'a>,
}

impl<'a> Follow<'a> {
    /// Follows until `ended` returns `true`, without growth reports.
    #[must_use]
    pub fn new(ended: impl Fn() -> bool + 'a) -> Self {
        Self {
            ended: Box::new(ended),
            quiet: None,
            interval: Duration::from_secs(1),
            told: Box::new(|_| {}),
        }
    }
}

impl std::fmt::Debug for Follow<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow")
            .field("quiet", &self.quiet)
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

/// Counts so far.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Growth<'a> {
    /// Number of rows.
    pub rows: u64,
    /// Number of regions.
    pub regions: usize,
    /// Type, loads, stores; ordered by type.
    pub types: Vec<(&'a str, u64, u64)>,
}

/// Reads a growing text (`perf script`, or rows as JSON) until `follow` ends it, and labels and
/// analyses the added rows. The result equals that of the whole file, except that the size of KV
/// blocks is not inferred: it is taken from the options.
///
/// # Errors
///
/// Same as [`process`](crate::process); [`memtrace_labeller::Error::Unrecognised`] for formats that
/// are not read line by line.
pub fn follow(
    path: &Path,
    input: &InputOptions,
    phases: &Phases,
    mut names: Names,
    steps: Steps,
    mut follow: Follow<'_>,
) -> Result<Processed> {
    let mut file = File::open(path).map_err(io_error(path))?;
    let mut labeller = steps.label.map(Labeller::new);
    if let Some(labeller) = &mut labeller {
        labeller.register_address_ranges(&steps.ranges, &mut names);
    }
    let mut state = State {
        path,
        input: input.clone(),
        phases,
        labeller,
        analyser: steps.analyse.map(Analyser::new),
        store_symbols: steps.store_symbols,
        report: None,
        types: BTreeMap::new(),
    };
    let mut held: Vec<u8> = Vec::new();
    let (mut grown, mut said) = (Instant::now(), Instant::now());
    loop {
        // Checked before reading: data written so far is still processed.
        let is_last =
            (follow.ended)() || follow.quiet.is_some_and(|quiet| grown.elapsed() >= quiet);
        let count = (&mut file)
            .take(BLOCK_BYTES)
            .read_to_end(&mut held)
            .map_err(io_error(path))?;
        let ends = is_last && count == 0;
        let whole = if ends || held.len() > MAX_LINE {
            held.len()
        } else {
            let newline = held.iter().rposition(|byte| *byte == b'\n');
            newline.map_or(0, |at| at + 1)
        };
        if whole > 0 {
            let rest = held.split_off(whole);
            state.block(std::mem::replace(&mut held, rest), &mut names)?;
        }
        if said.elapsed() >= follow.interval {
            said = Instant::now();
            (follow.told)(&state.growth(&names));
        }
        if ends {
            break;
        }
        if count == 0 {
            thread::sleep(PAUSE);
        } else {
            grown = Instant::now();
        }
    }
    state.end(names)
}

struct State<'a> {
    path: &'a Path,
    input: InputOptions,
    phases: &'a Phases,
    labeller: Option<Labeller>,
    analyser: Option<Analyser>,
    store_symbols: Vec<String>,
    report: Option<ReadReport>,
    /// Loads and stores by type.
    types: BTreeMap<Name, (u64, u64)>,
}

impl State<'_> {
    /// Processes whole lines.
    fn block(&mut self, bytes: Vec<u8>, names: &mut Names) -> Result<()> {
        let name = self.path.display().to_string();
        let format = self.input.format.or_else(|| InputFormat::sniff(&bytes));
        if !matches!(
            format,
            Some(InputFormat::PerfScript | InputFormat::RowsJson)
        ) {
            let head = bytes.get(..16).unwrap_or(&bytes);
            return Err(memtrace_labeller::Error::Unrecognised {
                name,
                head: byte_source::magic::hex_preview(head),
            }
            .into());
        }
        // All lines have the format of the first lines.
        self.input.format = format;
        let source = Source::from_bytes(name, bytes)?;
        let mut stream = RowStream::open(source, &self.input)?;
        // The reference assigns phases only to samples of perf.
        if format == Some(InputFormat::PerfScript) || !self.input.grammar.is_reference() {
            stream = stream.with_phases(self.phases.clone());
        }
        let mut rows = Vec::new();
        let mut more = true;
        while more {
            rows.clear();
            more = stream.next_batch(names, &mut rows)?;
            mark_stores(&mut rows, names, &self.store_symbols);
            self.rows(&mut rows, names)?;
        }
        let found = stream.report();
        match &mut self.report {
            Some(report) => {
                let before = report.lines;
                report.absorb(&found, before);
            }
            None => self.report = Some(found),
        }
        Ok(())
    }

    fn rows(&mut self, rows: &mut Vec<Access>, names: &mut Names) -> Result<()> {
        if let Some(labeller) = &mut self.labeller {
            let mut kept = Vec::with_capacity(rows.len());
            for mut row in rows.drain(..) {
                if labeller.label(&mut row, names)? {
                    kept.push(row);
                }
            }
            *rows = kept;
        }
        for row in &*rows {
            let counts = self.types.entry(row.region_type).or_default();
            counts.0 += u64::from(row.is_load());
            counts.1 += u64::from(row.is_store());
        }
        if let Some(analyser) = &mut self.analyser {
            analyser.reserve(self.labeller.as_ref().map_or(0, Labeller::heap_bytes));
            analyser.push(rows)?;
        }
        Ok(())
    }

    fn growth<'n>(&self, names: &'n Names) -> Growth<'n> {
        let mut types: Vec<(&str, u64, u64)> = self
            .types
            .iter()
            .map(|(name, (loads, stores))| (names.text(*name), *loads, *stores))
            .collect();
        types.sort_unstable();
        let labeller = self.labeller.as_ref();
        Growth {
            rows: self.report.as_ref().map_or(0, |report| report.rows),
            regions: labeller.map_or(0, Labeller::regions),
            types,
        }
    }

    fn end(self, names: Names) -> Result<Processed> {
        let counts = self.labeller.as_ref().map(Labeller::counts);
        let (regions, kv_blocks) = self.labeller.map(Labeller::into_maps).unwrap_or_default();
        let analysis = self.analyser.map(|analyser| analyser.finish(&names));
        let report = match self.report {
            Some(report) => report,
            None => {
                let stream = RowStream::open_path(
                    self.path,
                    &byte_source::OpenOptions::default(),
                    &self.input,
                )?;
                stream.report()
            }
        };
        Ok(Processed {
            report,
            regions,
            kv_blocks,
            counts: counts.unwrap_or_default(),
            kv_block_bytes: None,
            analysis: analysis.transpose().map_err(Error::from)?,
            names,
        })
    }
}
