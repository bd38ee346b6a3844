//! Reads files, parses on several threads, puts events in order and hands them on.
//!
//! Every analysis sees the same events in the same order whatever the number of threads, because blocks are put back into
//! the order of the input before anything is counted.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use byte_source::{ChunkOptions, OpenOptions, Source};

use crate::blocks::{Block, Blocks, Done, Parsed};
use crate::error::{Error, Result};
use crate::event::{Event, Symbols};
use crate::first_sizes::FirstSizes;
use crate::format::blktrace::Records;
use crate::format::{Format, Kind, Sink, detect};
use crate::merge::Merge;
use crate::order::Order;
use crate::quality::LineCounts;

/// Bytes looked at to tell the format.
pub const HEAD_BYTES: usize = 64 << 10;
/// Bytes that are parsed at once: their events are to stay in the cache of a processor until they are in order.
const CHUNK_BYTES: usize = 512 << 10;

/// Blocks on their way to and from each thread.
const IN_FLIGHT: usize = 2;

/// Options of reading.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Format, instead of telling it from the content.
    pub format: Option<Format>,
    /// Fail on the first malformed line.
    pub strict: bool,
    /// Threads to work with, at least 1.
    pub threads: usize,
    /// Backward time jump of lines that is put right without holding everything, in nanoseconds.
    pub window_ns: u64,
    /// Only events of this device (`major << 20 | minor`); events without a device stay.
    pub device: Option<u32>,
    /// Options of opening files.
    pub open: OpenOptions,
    /// The only input, where it was opened before.
    pub opened: Option<Opened>,
    /// Note in which order sizes first stand in the inputs.
    pub first_sizes: bool,
}

/// An input that was opened before and cannot be opened again: standard input, a pipe, a file that grows. It is read once.
#[derive(Debug, Clone)]
pub struct Opened(Arc<Mutex<Option<Source>>>);

impl Opened {
    /// Holds what was opened; `None` for an empty input.
    #[must_use]
    pub fn new(source: Option<Source>) -> Self {
        Self(Arc::new(Mutex::new(source)))
    }

    fn take(&self) -> Option<Source> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            format: None,
            strict: false,
            threads: 1,
            window_ns: 1_000_000_000,
            device: None,
            open: OpenOptions::default(),
            opened: None,
            first_sizes: false,
        }
    }
}

/// What was in one input.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Input {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its lines.
    pub counts: LineCounts,
    /// Bytes of content, decompressed.
    pub bytes: u64,
    /// Pieces of the container that could not be decoded.
    pub damaged: u64,
    /// CRC-32 of the content, decompressed: that of gzip.
    pub crc32: u32,
}

impl Input {
    /// Returns the clock of its times: the one that it names, else that of its format; `None` where there are no events.
    #[must_use]
    pub fn clock(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Events(format) => Some(self.counts.clock.unwrap_or(format.clock())),
            _ => None,
        }
    }
}

/// What was in all inputs together.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// One by one.
    pub inputs: Vec<Input>,
    /// The texts of the events.
    pub symbols: Symbols,
    /// Largest step back in time from one event to the next of the same input.
    pub largest_backward_step_ns: u64,
    /// Steps back in time.
    pub backward_steps: u64,
    /// Events that came after later ones had been handed on; only for standard input.
    pub late_events: u64,
    /// The device that was asked for, which is that of events without one.
    pub device: Option<u32>,
    /// The order in which sizes first appear in the inputs, if that was asked for.
    pub first_sizes: Option<FirstSizes>,
}

impl Outcome {
    /// Returns the lines of all inputs.
    #[must_use]
    pub fn counts(&self) -> LineCounts {
        let mut sum = LineCounts::default();
        for input in &self.inputs {
            sum.append(input.counts.clone(), 0, 0);
        }
        sum
    }

    /// Returns `true` if any input is text. An empty file beside binary ones is a processor that saw nothing.
    #[must_use]
    pub fn has_text(&self) -> bool {
        let is_binary =
            |input: &Input| matches!(input.kind, Kind::Events(format) if format.is_binary());
        let any_binary = self.inputs.iter().any(is_binary);
        let is_text = |input: &Input| !is_binary(input) && (input.bytes > 0 || !any_binary);
        self.inputs.iter().any(is_text)
    }
}

/// Reads inputs as one trace and hands all events, in order, to `take` in batches.
///
/// Steps back in time within the window are put right while streaming. When an input steps back further, everything handed
/// on so far is wrong: `restart` is called, and all inputs are read again and held. That is not possible for standard input,
/// where such events are handed on late and counted.
///
/// ```
/// use std::cell::Cell;
///
/// use blkio_parser::EventKind;
/// use blkio_parser::pipeline::{ReadOptions, read};
///
/// let dir = tempfile::tempdir()?;
/// let log = dir.path().join("issue.txt");
/// std::fs::write(&log, "20, W, 8192, 128, 16\n10, RA, 4096, 64, 8\n")?;
/// // Both closures need the sum: one adds, one begins anew.
/// let sum = Cell::new(0);
/// let outcome = read(
///     &[log],
///     &ReadOptions::default(),
///     &mut |batch| {
///         let issues = batch.iter().filter(|event| event.kind == EventKind::Issue);
///         sum.set(sum.get() + issues.map(|event| event.bytes).sum::<u32>());
///     },
///     &mut || sum.set(0),
/// )?;
/// assert_eq!((sum.get(), outcome.largest_backward_step_ns), (12_288, 10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// What cannot be opened or is no trace; with `strict` the first malformed line.
pub fn read(
    paths: &[PathBuf],
    options: &ReadOptions,
    take: &mut dyn FnMut(Arc<Vec<Event>>),
    restart: &mut dyn FnMut(),
) -> Result<Outcome> {
    let take = &mut |events: Arc<Vec<Event>>, _: &Symbols| take(events);
    match read_pass(paths, options, Pass::Streaming, take)? {
        Some(outcome) => Ok(outcome),
        None => {
            restart();
            Ok(read_pass(paths, options, Pass::Holding, take)?.unwrap_or_default())
        }
    }
}

/// The way in which a pass over the inputs keeps events in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pass {
    /// It holds a window of them.
    Streaming,
    /// It holds all.
    Holding,
}

/// Reads inputs as [`read`] does, in one pass, and also hands on the texts known so far: all that the events refer to.
///
/// A streaming pass gives `None` when an input that could be read again steps back further than the window: what was
/// handed on is then in the wrong order, and a holding pass gives the right one.
///
/// # Errors
///
/// As [`read`].
pub fn read_pass(
    paths: &[PathBuf],
    options: &ReadOptions,
    pass: Pass,
    take: &mut dyn FnMut(Arc<Vec<Event>>, &Symbols),
) -> Result<Option<Outcome>> {
    let again = options.opened.is_none() && !paths.iter().any(|path| is_pipe(path));
    let (keep_all, may_restart) = match pass {
        Pass::Streaming => (false, again),
        Pass::Holding => (true, false),
    };
    let order = Order::new(options.window_ns, keep_all, may_restart);
    let mut merge = Merge::new(order, take);
    merge.first_sizes = options.first_sizes.then(FirstSizes::default);
    read_once(paths, options, may_restart, merge)
}

/// Returns `true` if the bytes can be had only once.
#[must_use]
pub fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-" || path.metadata().is_ok_and(|data| !data.is_file())
}

/// One pass; `None` when it has to be done again with everything held.
fn read_once(
    paths: &[PathBuf],
    options: &ReadOptions,
    may_restart: bool,
    mut merge: Merge<'_, '_>,
) -> Result<Option<Outcome>> {
    let mut inputs = Vec::with_capacity(paths.len());
    for path in paths {
        merge.order.next_input();
        inputs.push(read_input(path, options, &mut merge)?);
        if may_restart && merge.order.late > 0 {
            return Ok(None);
        }
    }
    for block in merge.order.finish() {
        merge.hand_on(block);
    }
    Ok(Some(Outcome {
        inputs,
        symbols: merge.symbols,
        largest_backward_step_ns: merge.order.largest_backward_step_ns,
        backward_steps: merge.order.backward_steps,
        late_events: merge.order.late,
        device: options.device,
        first_sizes: merge.first_sizes,
    }))
}

/// Says what a file is; `None` when it is empty.
///
/// # Errors
///
/// When it cannot be opened.
pub fn identify(path: &Path, open: &OpenOptions) -> Result<Option<(Source, Kind)>> {
    opened_or_empty(Source::open(path, open))
}

fn opened_or_empty(
    opened: std::result::Result<Source, byte_source::Error>,
) -> Result<Option<(Source, Kind)>> {
    match opened {
        Ok(source) => told(source).map(Some),
        Err(byte_source::Error::Empty { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn told(mut source: Source) -> Result<(Source, Kind)> {
    let head = source.head(HEAD_BYTES)?;
    let kind = detect(head);
    Ok((source, kind))
}

fn read_input(path: &Path, options: &ReadOptions, merge: &mut Merge<'_, '_>) -> Result<Input> {
    let opened = match &options.opened {
        Some(opened) => opened.take().map(told).transpose()?,
        None => identify(path, &options.open)?,
    };
    let Some((mut source, found)) = opened else {
        return Ok(Input {
            name: path.display().to_string(),
            kind: Kind::NoEvents,
            counts: LineCounts::default(),
            bytes: 0,
            damaged: 0,
            crc32: 0,
        });
    };
    let name = source.name().to_owned();
    let kind = match (options.format, found) {
        (Some(format), _) => Kind::Events(format),
        (None, kind) => kind,
    };
    let format = match kind {
        Kind::Events(format) => format,
        // Counting its lines is what can be done.
        Kind::NoEvents => Format::FiveColumn,
        Kind::Unknown | Kind::Text => return Err(Error::UnknownFormat { name }),
        Kind::LfsPointer => {
            let head = source.head(HEAD_BYTES)?;
            let size = lfs_size(head);
            return Err(Error::LfsPointer { name, size });
        }
        other => {
            return Err(Error::WrongKind {
                name,
                found: other.name(),
                wanted: "a trace of block I/O",
            });
        }
    };
    let damage = source.damage();
    let (counts, bytes, crc32) = if format.is_binary() {
        read_records(source, format, options, merge)?
    } else {
        read_lines(source, format, options, merge)?
    };
    Ok(Input {
        name,
        kind,
        counts,
        bytes,
        damaged: damage.records().len() as u64,
        crc32,
    })
}

fn lfs_size(head: &[u8]) -> u64 {
    head.split(|b| *b == b'\n')
        .find_map(|line| crate::scan::whole_uint(line.strip_prefix(b"size ")?))
        .unwrap_or(0)
}

fn read_records(
    source: Source,
    format: Format,
    options: &ReadOptions,
    merge: &mut Merge<'_, '_>,
) -> Result<(LineCounts, u64, u32)> {
    let name = source.name().to_owned();
    let mut records = Records::new(format == Format::BlktraceFtrace);
    let mut sink = Sink::default();
    let mut chunks = source.into_chunks(ChunkOptions::default())?;
    let mut take_records = |sink: &mut Sink| {
        let events = std::mem::take(&mut sink.events);
        merge.block(Parsed::new(
            events,
            sink.symbols.clone(),
            options.device,
            options.first_sizes,
        ));
    };
    let mut crc = crc32fast::Hasher::new();
    while let Some(chunk) = chunks.next()? {
        crc.update(chunk.data());
        records.push(chunk.data(), &mut sink);
        if let Some((version, offset)) = records.foreign_version {
            return Err(Error::BlktraceVersion {
                name,
                version,
                offset,
            });
        }
        take_records(&mut sink);
    }
    records.finish(&mut sink);
    take_records(&mut sink);
    // Each process is named in the file of one processor.
    merge.name_processes(records.names(), &sink.symbols);
    if options.strict {
        fail_on_malformed(&name, &sink.counts)?;
    }
    Ok((sink.counts, chunks.offset(), crc.finalize()))
}

fn fail_on_malformed(name: &str, counts: &LineCounts) -> Result<()> {
    match counts.malformed_samples.first() {
        None => Ok(()),
        Some(first) => Err(Error::Malformed {
            name: name.to_owned(),
            line: first.line,
            offset: first.offset,
            reason: first.reason,
        }),
    }
}

/// Counts and events of blocks that are back in order.
struct Gather<'m, 'a, 't> {
    name: String,
    counts: LineCounts,
    strict: bool,
    merge: &'m mut Merge<'a, 't>,
}

impl Gather<'_, '_, '_> {
    /// Takes the next block.
    fn take(&mut self, block: Done) -> Result<()> {
        if block.is_behind_too_long {
            self.counts.lines += 1;
            let line = self.counts.lines;
            self.counts
                .malformed(line, block.offset, "line longer than 4 KiB");
        }
        let lines = self.counts.lines;
        self.counts.append(block.counts, lines, block.offset);
        if self.strict {
            fail_on_malformed(&self.name, &self.counts)?;
        }
        self.merge.block(block.parsed);
        Ok(())
    }
}

fn read_lines(
    source: Source,
    format: Format,
    options: &ReadOptions,
    merge: &mut Merge<'_, '_>,
) -> Result<(LineCounts, u64, u32)> {
    let name = source.name().to_owned();
    let mut chunks = ChunkOptions::default();
    chunks.size = CHUNK_BYTES;
    let mut blocks = Blocks::new(source.into_chunks(chunks)?);
    let mut gather = Gather {
        name,
        counts: LineCounts::default(),
        strict: options.strict,
        merge,
    };
    if options.threads <= 1 {
        while let Some(mut block) = blocks.next()? {
            gather.merge.equip(&mut block);
            gather.take(block.parse(format, options.device))?;
        }
    } else {
        on_threads(&mut blocks, format, options, &mut gather)?;
    }
    let bytes = blocks.bytes();
    Ok((gather.counts, bytes, blocks.crc32()))
}

/// Parses blocks on threads, each the next one, and takes them in order.
fn on_threads(
    blocks: &mut Blocks,
    format: Format,
    options: &ReadOptions,
    gather: &mut Gather<'_, '_, '_>,
) -> Result<()> {
    let device = options.device;
    thread::scope(|scope| {
        // Dropped on every way out of this closure, so that the workers end.
        let mut workers = Vec::new();
        for _ in 0..options.threads {
            let (to_worker, jobs) = sync_channel::<Block>(IN_FLIGHT);
            let (to_here, done) = sync_channel::<Done>(IN_FLIGHT);
            scope.spawn(move || {
                let mut parsed = jobs.into_iter().map(|block| block.parse(format, device));
                while parsed
                    .next()
                    .is_some_and(|block| to_here.send(block).is_ok())
                {}
            });
            workers.push((to_worker, done));
        }
        let name = gather.name.clone();
        let died = move || Error::ThreadDied { name: name.clone() };
        // The worker of each block on its way, in order.
        let mut flying = VecDeque::new();
        let mut turns = workers.iter().cycle();
        loop {
            while flying.len() < options.threads * IN_FLIGHT
                && let Some(mut block) = blocks.next()?
            {
                gather.merge.equip(&mut block);
                let (to_worker, done) = turns.next().ok_or_else(&died)?;
                to_worker.send(block).map_err(|_| died())?;
                flying.push_back(done);
            }
            let Some(done) = flying.pop_front() else {
                return Ok(());
            };
            gather.take(done.recv().map_err(|_| died())?)?;
        }
    })
}
