//! Splits a source into chunks on a thread that reads and decompresses ahead.

use std::io::{self, Read};
use std::ops::Deref;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use crate::damage::DamageLog;
use crate::error::Error;
use crate::peek::Peek;

/// Options for splitting a source into chunks.
///
/// ```
/// let mut options = byte_source::ChunkOptions::default();
/// options.size = 256 << 10;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkOptions {
    /// Size of every chunk but the last in bytes, at least 1. Default 1 MiB.
    pub size: usize,
    /// Number of chunks decoded ahead of the consumer, at least 1. Default 4.
    pub in_flight: usize,
}

impl Default for ChunkOptions {
    fn default() -> Self {
        Self {
            size: 1 << 20,
            in_flight: 4,
        }
    }
}

/// A run of decompressed bytes. Dropping it recycles its buffer for another chunk.
#[derive(Debug)]
pub struct Chunk {
    offset: u64,
    buffer: Vec<u8>,
    len: usize,
    pool: Sender<Vec<u8>>,
}

impl Chunk {
    /// Returns the offset of the first byte in the decompressed source.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the bytes, as `Deref` does.
    pub fn data(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.data()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // If there is no reader any more, the buffer is dropped with the channel.
        let _ = self.pool.send(std::mem::take(&mut self.buffer));
    }
}

/// A filled buffer on its way from the thread.
struct Filled {
    buffer: Vec<u8>,
    len: usize,
}

/// Returns the chunks of a source in order.
///
/// A thread reads and decompresses at most [`ChunkOptions::in_flight`] chunks ahead; memory is that
/// many buffers plus those the consumer holds. Boundaries depend on the size alone. If this is
/// dropped early, the thread ends at its next chunk; a thread that waits for a silent pipe ends
/// with the pipe.
#[derive(Debug)]
pub struct Chunks {
    name: String,
    filled: Option<Receiver<Result<Filled, Error>>>,
    pool: Sender<Vec<u8>>,
    offset: u64,
    damage: DamageLog,
    thread: Option<thread::JoinHandle<()>>,
}

impl Chunks {
    pub(crate) fn start(
        name: String,
        stream: Peek,
        damage: DamageLog,
        options: ChunkOptions,
    ) -> Result<Self, Error> {
        let (to_consumer, filled) = sync_channel(options.in_flight.max(1) - 1);
        let (pool, returned) = channel();
        let worker = Worker {
            name: name.clone(),
            stream,
            size: options.size.max(1),
            returned,
            to_consumer,
        };
        let spawned = thread::Builder::new()
            .name("byte-source".to_owned())
            .spawn(move || worker.run());
        match spawned {
            Ok(thread) => Ok(Self {
                name,
                filled: Some(filled),
                pool,
                offset: 0,
                damage,
                thread: Some(thread),
            }),
            Err(source) => Err(Error::Thread { name, source }),
        }
    }

    /// Returns the next chunk, never empty; `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns an error if a limit is exceeded or reading fails. All bytes before were returned,
    /// and `None` follows. Damaged containers are not errors: see [`Chunks::damage`].
    #[expect(
        clippy::should_implement_trait,
        reason = "`while let Some(chunk) = chunks.next()?` reads best, and an Iterator could not offer it"
    )]
    pub fn next(&mut self) -> Result<Option<Chunk>, Error> {
        let Some(filled) = &self.filled else {
            return Ok(None);
        };
        match filled.recv() {
            Ok(Ok(Filled { buffer, len })) => {
                let chunk = Chunk {
                    offset: self.offset,
                    buffer,
                    len,
                    pool: self.pool.clone(),
                };
                self.offset += u64::try_from(len).unwrap_or(0);
                Ok(Some(chunk))
            }
            Ok(Err(error)) => {
                self.filled = None;
                Err(error)
            }
            Err(_) => {
                self.filled = None;
                match self.thread.take().map(thread::JoinHandle::join) {
                    Some(Err(_)) => Err(Error::ThreadDied {
                        name: self.name.clone(),
                    }),
                    _ => Ok(None),
                }
            }
        }
    }

    /// Returns the name of the source.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of decompressed bytes returned so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the damage log; complete once [`Chunks::next`] has returned `None`.
    pub fn damage(&self) -> DamageLog {
        self.damage.clone()
    }
}

/// The thread behind [`Chunks`].
struct Worker {
    name: String,
    stream: Peek,
    size: usize,
    returned: Receiver<Vec<u8>>,
    to_consumer: SyncSender<Result<Filled, Error>>,
}

impl Worker {
    fn run(mut self) {
        let mut offset = 0;
        loop {
            let mut buffer = self
                .returned
                .try_recv()
                .unwrap_or_else(|_| vec![0; self.size]);
            let (len, end) = fill(&mut self.stream, &mut buffer);
            offset += u64::try_from(len).unwrap_or(0);
            if len > 0 && self.to_consumer.send(Ok(Filled { buffer, len })).is_err() {
                return;
            }
            match end {
                None => {}
                Some(Ok(())) => return,
                Some(Err(error)) => {
                    let error = Error::from_io(&self.name, offset, error);
                    let _ = self.to_consumer.send(Err(error));
                    return;
                }
            }
        }
    }
}

/// Fills the buffer. Returns the number of bytes, and `Some` if the input ended or failed.
fn fill(stream: &mut Peek, buffer: &mut [u8]) -> (usize, Option<io::Result<()>>) {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => return (filled, Some(Ok(()))),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Some(Err(error))),
        }
    }
    (filled, None)
}
