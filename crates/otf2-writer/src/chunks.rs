//! Writes files of records in chunks of fixed size, padded with zeros; only the last one may be
//! shorter.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use crate::encode::{CHUNK, END};
use crate::{Error, Result};

/// A file under construction. It is open only while a chunk is written, so there may be any number
/// of them.
#[derive(Debug)]
pub(crate) struct Chunks {
    path: PathBuf,
    size: usize,
    records: Vec<u8>,
    /// Number of events in earlier chunks, and in this one.
    before: u64,
    events: u64,
    exists: bool,
}

/// Size of the header: mark, byte order, numbers of the first and the last event.
const HEADER: usize = 18;

impl Chunks {
    pub(crate) const fn new(path: PathBuf, size: usize) -> Self {
        Self {
            path,
            size,
            records: Vec::new(),
            before: 0,
            events: 0,
            exists: false,
        }
    }

    /// Returns `true` if this many bytes fit into the current chunk.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        HEADER + self.records.len() + bytes + END.len() <= self.size
    }

    /// Adds whole records; begins a new chunk if they do not fit.
    pub(crate) fn push(&mut self, records: &[u8], events: u64) -> Result<()> {
        if !self.has_room(records.len()) {
            self.next()?;
        }
        self.records.extend_from_slice(records);
        self.events += events;
        Ok(())
    }

    /// Returns the number of events so far.
    pub(crate) const fn events(&self) -> u64 {
        self.before + self.events
    }

    /// Writes the current chunk at its full size and begins another one.
    pub(crate) fn next(&mut self) -> Result<()> {
        self.records.resize(self.size - HEADER, 0);
        self.write()
    }

    /// Writes the last chunk.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.records.extend_from_slice(&END);
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        let mut options = OpenOptions::new();
        match self.exists {
            true => options.append(true),
            false => options.write(true).create(true).truncate(true),
        };
        let last = match self.events {
            0 => 0,
            events => self.before + events,
        };
        let mut head = Vec::with_capacity(HEADER);
        head.extend_from_slice(&CHUNK);
        head.extend_from_slice(&(self.before + 1).to_le_bytes());
        head.extend_from_slice(&last.to_le_bytes());
        let write = || {
            let mut file = options.open(&self.path)?;
            file.write_all(&head)?;
            file.write_all(&self.records)
        };
        write().map_err(|source| Error::Io {
            path: self.path.clone(),
            step: "write",
            source,
        })?;
        self.exists = true;
        self.records.clear();
        self.before += self.events;
        self.events = 0;
        Ok(())
    }
}
