//! Reads the input in pieces, which worker threads scan speculatively.
//!
//! Pieces are cut by offset alone. Workers take them in order and stay at most a few pieces ahead
//! of the one that is being merged, so memory is bounded by a few pieces.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use byte_source::{Chunk, ChunkOptions, Chunks, RandomAccess, Source};

use super::config::Config;
use super::speculate::{Speculation, speculate};
use crate::Error;

/// The bytes of a piece.
enum Bytes {
    Read(Vec<u8>),
    Streamed(Chunk),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Streamed(chunk) => chunk,
        }
    }
}

/// Source of the pieces.
enum Input {
    File(RandomAccess),
    Stream(Mutex<(Chunks, usize)>),
}

/// A piece and the result of its scan.
struct Piece<'c> {
    bytes: Bytes,
    speculation: Option<Speculation<'c>>,
}

/// Calls `take` with every piece of the source in order.
pub(super) fn for_each<'c>(
    source: Source,
    config: &'c Config,
    threads: usize,
    mut take: impl FnMut(&[u8], Option<Speculation<'c>>) -> Result<(), Error>,
) -> Result<(), Error> {
    let (input, threads) = match source.random_access() {
        Some(access) => (Input::File(access), threads),
        None => {
            let mut options = ChunkOptions::default();
            options.size = config.chunk;
            let chunks = source.into_chunks(options)?;
            // One thread more decompresses, which takes less time than scanning.
            (Input::Stream(Mutex::new((chunks, 0))), threads)
        }
    };
    let queue = Queue::new(config, input, 2 * threads + 2);
    if threads <= 1 {
        while let Some((_, piece)) = queue.next() {
            let piece = piece?;
            take(&piece.bytes, piece.speculation)?;
            queue.finished(piece.bytes);
        }
        return Ok(());
    }
    thread::scope(|scope| {
        let (to_merger, pieces) = channel();
        for _ in 0..threads {
            let (queue, to_merger) = (&queue, to_merger.clone());
            thread::Builder::new()
                .name("trace-json".to_owned())
                .spawn_scoped(scope, move || work(queue, &to_merger))
                .map_err(|source| Error::Io {
                    name: "worker thread".to_owned(),
                    source,
                })?;
        }
        drop(to_merger);
        merge(&queue, &pieces, take)
    })
}

type Numbered<'c> = (usize, Result<Piece<'c>, Error>);

fn work<'c>(queue: &Queue<'c>, to_merger: &Sender<Numbered<'c>>) {
    let _stop = StopOnPanic(queue);
    while let Some(piece) = queue.next() {
        if to_merger.send(piece).is_err() {
            return;
        }
    }
}

fn merge<'c>(
    queue: &Queue<'c>,
    pieces: &Receiver<Numbered<'c>>,
    mut take: impl FnMut(&[u8], Option<Speculation<'c>>) -> Result<(), Error>,
) -> Result<(), Error> {
    let _stop = StopAtEnd(queue);
    let mut early = BTreeMap::new();
    let mut expected = 0;
    while let Ok((number, piece)) = pieces.recv() {
        early.insert(number, piece);
        while let Some(piece) = early.remove(&expected) {
            let piece: Piece<'c> = piece?;
            take(&piece.bytes, piece.speculation)?;
            queue.finished(piece.bytes);
            expected += 1;
        }
    }
    Ok(())
}

/// Hands out pieces in order.
struct Queue<'c> {
    config: &'c Config,
    input: Input,
    /// Maximum number of pieces handed out at once.
    ahead: usize,
    state: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    next: usize,
    finished: usize,
    stopped: bool,
    spare: Vec<Vec<u8>>,
}

impl<'c> Queue<'c> {
    fn new(config: &'c Config, input: Input, ahead: usize) -> Self {
        Self {
            config,
            input,
            ahead,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next piece, read and scanned; blocks until it is within the limit.
    fn next(&self) -> Option<Numbered<'c>> {
        let (number, bytes) = match &self.input {
            Input::File(access) => {
                let (number, buffer) = self.turn()?;
                (number, self.read(access, number, buffer).transpose()?)
            }
            Input::Stream(stream) => {
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                self.turn()?;
                let number = stream.1;
                stream.1 += 1;
                let chunk = stream.0.next().map_err(Error::from);
                (number, chunk.map(|c| c.map(Bytes::Streamed)).transpose()?)
            }
        };
        let piece = bytes.map(|bytes| {
            let offset = number as u64 * self.config.chunk as u64;
            // The first piece starts before the events: it is not scanned on speculation.
            let speculation = (number > 0)
                .then(|| speculate(self.config, &bytes, offset))
                .flatten();
            Piece { bytes, speculation }
        });
        Some((number, piece))
    }

    fn turn(&self) -> Option<(usize, Vec<u8>)> {
        let mut state = self.state();
        while state.next - state.finished >= self.ahead && !state.stopped {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.stopped {
            return None;
        }
        let number = state.next;
        state.next += 1;
        Some((number, state.spare.pop().unwrap_or_default()))
    }

    fn read(
        &self,
        access: &RandomAccess,
        number: usize,
        mut buffer: Vec<u8>,
    ) -> Result<Option<Bytes>, Error> {
        let offset = number as u64 * self.config.chunk as u64;
        if offset >= access.len() {
            return Ok(None);
        }
        buffer.resize(self.config.chunk, 0);
        let count = access.read_at(offset, &mut buffer)?;
        buffer.truncate(count);
        Ok(Some(Bytes::Read(buffer)))
    }

    /// Records that a piece was merged.
    fn finished(&self, bytes: Bytes) {
        let mut state = self.state();
        state.finished += 1;
        if let Bytes::Read(buffer) = bytes {
            state.spare.push(buffer);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }
}

/// Wakes all waiting threads if the current one panics.
struct StopOnPanic<'a, 'c>(&'a Queue<'c>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

struct StopAtEnd<'a, 'c>(&'a Queue<'c>);

impl Drop for StopAtEnd<'_, '_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
