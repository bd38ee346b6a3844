//! Reads the events of one input one by one, in the order of its lines: for programs that want no analyses.

use std::collections::VecDeque;
use std::io::{BufRead, Read as _};

use crate::error::{Error, Result};
use crate::event::{Event, Symbols};
use crate::format::blktrace::Records;
use crate::format::{Format, Kind, MAX_LINE, Sink, detect, read_line};
use crate::pipeline::HEAD_BYTES;
use crate::quality::LineCounts;

/// Reads events; each malformed line is an error, after which reading goes on.
///
/// Times are as the lines stand, which is not in order: [`pipeline`](crate::pipeline) puts events in order, uses several
/// threads and joins files.
///
/// ```
/// use blkio_parser::{Format, Reader};
/// let log = b"Attaching 1 probe...\n20, RA, 4096, 64, 8\n30, W, x\n10, W, 8192, 128, 16\n";
/// let mut reader = Reader::new("issue.txt", &log[..], Format::FiveColumn);
/// let first = reader.next().ok_or("no event")??;
/// assert_eq!((first.t_ns, first.sector), (20, 64));
/// assert_eq!(reader.symbols().rwbs_of(first.rwbs).ok_or("no letters")?.as_str(), "RA");
/// assert!(reader.next().ok_or("no error")?.is_err());
/// assert_eq!(reader.filter_map(Result::ok).count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    name: String,
    input: R,
    format: Format,
    /// What is left of the head that told the format.
    head: std::io::Cursor<Vec<u8>>,
    records: Option<Records>,
    sink: Sink,
    ready: VecDeque<Event>,
    line: Vec<u8>,
    offset: u64,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// A reader of a known format. The name is that of error messages.
    pub fn new(name: impl Into<String>, input: R, format: Format) -> Self {
        let records = format.is_binary();
        Self {
            name: name.into(),
            input,
            format,
            head: std::io::Cursor::default(),
            records: records.then(|| Records::new(format == Format::BlktraceFtrace)),
            sink: Sink::default(),
            ready: VecDeque::new(),
            line: Vec::new(),
            offset: 0,
            ended: false,
        }
    }

    /// Returns a reader of the format that the first 64 KiB tell.
    ///
    /// # Errors
    ///
    /// What cannot be read or is no trace.
    pub fn detect(name: impl Into<String>, mut input: R) -> Result<Self> {
        let name = name.into();
        let mut head = Vec::new();
        let read = (&mut input).take(HEAD_BYTES as u64).read_to_end(&mut head);
        read.map_err(|error| unreadable(&name, &error))?;
        match detect(&head) {
            Kind::Events(format) => {
                let mut reader = Self::new(name, input, format);
                reader.head = std::io::Cursor::new(head);
                Ok(reader)
            }
            Kind::Unknown | Kind::Text => Err(Error::UnknownFormat { name }),
            kind => Err(Error::WrongKind {
                name,
                found: kind.name(),
                wanted: "a trace of block I/O",
            }),
        }
    }

    /// Returns the format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the texts that the events refer to, so far.
    pub fn symbols(&self) -> &Symbols {
        &self.sink.symbols
    }

    /// Returns what the lines were, so far.
    pub fn counts(&self) -> &LineCounts {
        &self.sink.counts
    }

    /// Reads on until there is an event or the input ends.
    fn fill(&mut self) -> Result<()> {
        while self.ready.is_empty() && !self.ended {
            let read = if self.records.is_some() {
                self.next_records()
            } else {
                self.next_line()
            };
            self.ready.extend(self.sink.events.drain(..));
            read?;
        }
        Ok(())
    }

    /// Takes the next line, of which no more is kept than a line may have.
    fn next_line(&mut self) -> Result<()> {
        self.line.clear();
        let mut is_whole = false;
        let mut length = 0_u64;
        let mut input = (&mut self.head).chain(&mut self.input);
        while !is_whole {
            let piece = input
                .fill_buf()
                .map_err(|error| unreadable(&self.name, &error));
            let piece = piece.inspect_err(|_| self.ended = true)?;
            if piece.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', piece);
            let taken = end.map_or(piece.len(), |end| end + 1);
            is_whole = end.is_some();
            let room = (MAX_LINE + 2).saturating_sub(self.line.len());
            let kept = piece.get(..end.unwrap_or(taken).min(room));
            self.line.extend_from_slice(kept.unwrap_or_default());
            length += taken as u64;
            input.consume(taken);
        }
        if length == 0 {
            self.ended = true;
            return Ok(());
        }
        let offset = self.offset;
        self.offset += length;
        match read_line(self.format, &self.line, offset, !is_whole, &mut self.sink) {
            None => Ok(()),
            Some(reason) => Err(Error::Malformed {
                name: self.name.clone(),
                line: self.sink.counts.lines,
                offset,
                reason,
            }),
        }
    }

    /// Takes the next piece of records.
    fn next_records(&mut self) -> Result<()> {
        let Some(records) = &mut self.records else {
            return Ok(());
        };
        let mut input = (&mut self.head).chain(&mut self.input);
        let piece = match input.fill_buf() {
            Ok(piece) => piece,
            Err(error) => {
                self.ended = true;
                return Err(unreadable(&self.name, &error));
            }
        };
        let length = piece.len();
        if length == 0 {
            self.ended = true;
            records.finish(&mut self.sink);
            return Ok(());
        }
        records.push(piece, &mut self.sink);
        input.consume(length);
        match records.foreign_version {
            None => Ok(()),
            Some((version, offset)) => {
                self.ended = true;
                Err(Error::BlktraceVersion {
                    name: self.name.clone(),
                    version,
                    offset,
                })
            }
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.fill() {
            Ok(()) => self.ready.pop_front().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }
}

fn unreadable(name: &str, error: &std::io::Error) -> Error {
    Error::Unreadable {
        name: name.to_owned(),
        reason: format!("cannot be read: {error}"),
    }
}
