//! Reads an object part by part, some ahead of the reader.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use byte_source::{Error, Progress};
use futures::StreamExt as _;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt as _};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;

use crate::explain::{Failure, Found, explain};
use crate::runtime::handle;

/// Size of a part in bytes.
pub(crate) const PART: u64 = 4 << 20;

/// Parts that are downloaded while another is read.
const AHEAD: usize = 2;

/// Time after which a server that sends nothing is given up.
const SILENCE: Duration = Duration::from_secs(60);

/// Time between two looks at whether reading was stopped.
const LOOK: Duration = Duration::from_millis(100);

/// What identifies the content of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) bytes: u64,
    pub(crate) tag: Option<String>,
    modified: i64,
}

impl Version {
    pub(crate) fn of(meta: &ObjectMeta) -> Self {
        Self {
            bytes: meta.size,
            tag: meta.e_tag.clone(),
            modified: meta.last_modified.timestamp(),
        }
    }

    /// Returns `true` if an answer is of the same content. The time counts where there is no ETag.
    fn is_same(&self, other: &Self) -> bool {
        let is_equal_in_time = self.tag.is_some() || self.modified == other.modified;
        self.bytes == other.bytes && self.tag == other.tag && is_equal_in_time
    }
}

/// What to read.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Name in messages.
    pub(crate) name: String,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) key: Path,
}

impl Target {
    fn failed(&self, text: String) -> Error {
        Error::Remote {
            name: self.name.clone(),
            text,
        }
    }

    fn changed(&self) -> Error {
        self.failed(
            "the object changed while it was read: repeat the command when its upload has ended"
                .to_owned(),
        )
    }

    fn ended_early(&self, at: u64, bytes: u64) -> Error {
        self.failed(format!(
            "the download ended at byte {at} of {bytes}: repeat the command; if it ends there again, the server is at fault"
        ))
    }

    fn silent(&self, at: u64) -> Error {
        self.failed(format!(
            "the server sent nothing for {} s after byte {at}: repeat the command",
            SILENCE.as_secs()
        ))
    }

    /// Describes the failure of a request for an object that was there before.
    fn later(&self, error: &object_store::Error, at: u64, bytes: u64) -> Error {
        match explain(&self.name, error) {
            Error::NoObject { .. } => {
                self.failed("the object was removed while it was read".to_owned())
            }
            // The text of a connection that breaks says little.
            Error::Remote { text, .. } if text.starts_with("the request failed") => {
                self.ended_early(at, bytes)
            }
            other => other,
        }
    }
}

/// The begin of an object.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) version: Version,
    pub(crate) bytes: Vec<u8>,
    /// Whether the server gives parts.
    gives_parts: bool,
}

/// Reads the first `wanted` bytes of an object, with what identifies it.
///
/// # Errors
///
/// Returns one sentence with the reason.
pub(crate) async fn head(target: &Target, wanted: u64) -> Result<Head, Failure> {
    let range = Some(GetRange::Bounded(0..wanted));
    let options = GetOptions {
        range,
        ..GetOptions::default()
    };
    let (result, gives_parts) = match target.store.get_opts(&target.key, options).await {
        Ok(result) => (result, true),
        Err(error) => {
            let found = Found::of(&error);
            if !found.refuses_ranges() && !found.is_beyond_end() {
                return Err(Failure::of(&target.name, &error));
            }
            let whole = target.store.get(&target.key).await;
            let whole = whole.map_err(|error| Failure::of(&target.name, &error))?;
            (whole, false)
        }
    };
    let version = Version::of(&result.meta);
    let wanted = wanted.min(version.bytes);
    let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or_default());
    let taken = take(target, result, version.bytes, wanted, &mut bytes).await;
    taken.map_err(|error| Failure {
        error,
        is_answer: true,
    })?;
    Ok(Head {
        version,
        bytes,
        gives_parts,
    })
}

/// Reads `wanted` bytes of a response.
async fn take(
    target: &Target,
    result: GetResult,
    whole: u64,
    wanted: u64,
    bytes: &mut Vec<u8>,
) -> Result<(), Error> {
    let start = result.range.start;
    let mut stream = result.into_stream();
    let limit = usize::try_from(wanted).unwrap_or(usize::MAX);
    while bytes.len() < limit {
        let at = start + bytes.len() as u64;
        match tokio::time::timeout(SILENCE, stream.next()).await {
            Err(_) => return Err(target.silent(at)),
            Ok(None) => return Err(target.ended_early(at, whole)),
            Ok(Some(Err(error))) => return Err(target.later(&error, at, whole)),
            Ok(Some(Ok(piece))) => bytes.extend_from_slice(&piece),
        }
    }
    bytes.truncate(limit);
    Ok(())
}

async fn part(target: Target, version: Version, start: u64, end: u64) -> Result<Vec<u8>, Error> {
    let options = GetOptions {
        range: Some(GetRange::Bounded(start..end)),
        ..GetOptions::default()
    };
    let result = target.store.get_opts(&target.key, options).await;
    let result = match result {
        Ok(result) => result,
        // It has become shorter.
        Err(error) if Found::of(&error).is_beyond_end() => return Err(target.changed()),
        Err(error) => return Err(target.later(&error, start, version.bytes)),
    };
    if !version.is_same(&Version::of(&result.meta)) {
        return Err(target.changed());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(end - start).unwrap_or_default());
    take(&target, result, version.bytes, end - start, &mut bytes).await?;
    Ok(bytes)
}

/// A download that ends when it is dropped.
struct Download<T> {
    result: Receiver<T>,
    task: JoinHandle<()>,
}

impl<T> Drop for Download<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Piece = Result<Vec<u8>, Error>;

/// Called with the SHA-256 of an object that was read to its end.
pub(crate) type AtEnd = Box<dyn FnOnce(String) + Send>;

/// Reads an object from its start.
pub(crate) struct Parts {
    target: Target,
    version: Version,
    gives_parts: bool,
    /// What is read at present, and how much of it was.
    current: Vec<u8>,
    at: usize,
    /// Bytes handed out.
    done: u64,
    /// Begin of the next part that is asked for.
    next: u64,
    parts: VecDeque<Download<Piece>>,
    stream: Option<Download<Piece>>,
    progress: Option<Arc<Progress>>,
    hash: Option<(Sha256, AtEnd)>,
}

impl Parts {
    pub(crate) fn new(
        target: Target,
        head: Head,
        progress: Option<Arc<Progress>>,
        at_end: AtEnd,
    ) -> Self {
        Self {
            target,
            version: head.version,
            gives_parts: head.gives_parts,
            next: head.bytes.len() as u64,
            current: head.bytes,
            at: 0,
            done: 0,
            parts: VecDeque::new(),
            stream: None,
            progress,
            hash: Some((Sha256::new(), at_end)),
        }
    }

    /// Waits for a download; fails soon after reading was stopped.
    fn wait<T>(&self, download: &Download<T>) -> io::Result<Option<T>> {
        loop {
            if self.progress.as_ref().is_some_and(|p| p.is_stopped()) {
                return Err(io::Error::other("reading was stopped on request"));
            }
            match download.result.recv_timeout(LOOK) {
                Ok(result) => return Ok(Some(result)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// Asks for parts until enough are on their way.
    fn ask(&mut self) -> io::Result<()> {
        while self.parts.len() < AHEAD && self.next < self.version.bytes {
            let end = self.next.saturating_add(PART).min(self.version.bytes);
            let work = part(self.target.clone(), self.version.clone(), self.next, end);
            let (done, result) = sync_channel(1);
            let task = handle()?.spawn(async move {
                // Nobody waits for a part of a dropped reader.
                let _ = done.send(work.await);
            });
            self.parts.push_back(Download { result, task });
            self.next = end;
        }
        Ok(())
    }

    /// Makes the next bytes current. Returns `false` at the end.
    fn advance(&mut self) -> io::Result<bool> {
        let lost = || io::Error::other("the download stopped unexpectedly");
        if self.done == self.version.bytes {
            return Ok(false);
        }
        let piece = if self.gives_parts {
            self.ask()?;
            let download = self.parts.pop_front().ok_or_else(lost)?;
            // While this one is waited for, others come.
            self.ask()?;
            self.wait(&download)?.ok_or_else(lost)?
        } else {
            if self.stream.is_none() {
                self.stream = Some(self.start_stream()?);
            }
            let Some(stream) = &self.stream else {
                return Err(lost());
            };
            match self.wait(stream)? {
                Some(piece) => piece,
                None => Err(self.target.ended_early(self.done, self.version.bytes)),
            }
        };
        self.current = piece.map_err(io::Error::from)?;
        self.at = 0;
        Ok(true)
    }

    /// Reads all of the object in one response, from behind what was handed out.
    fn start_stream(&self) -> io::Result<Download<Piece>> {
        let (target, version) = (self.target.clone(), self.version.clone());
        let (out, result) = sync_channel::<Piece>(AHEAD);
        let task = handle()?.spawn(all(target, version, self.done, out));
        Ok(Download { result, task })
    }
}

/// Sends all of an object from byte `skip` on, piece by piece.
async fn all(target: Target, version: Version, mut skip: u64, out: SyncSender<Piece>) {
    let got = target.store.get(&target.key).await;
    let got = got.map_err(|error| target.later(&error, 0, version.bytes));
    let got = got.and_then(|got| match version.is_same(&Version::of(&got.meta)) {
        true => Ok(got),
        false => Err(target.changed()),
    });
    let mut stream = match got {
        Ok(got) => got.into_stream(),
        Err(error) => {
            deliver(&out, Err(error)).await;
            return;
        }
    };
    let mut at = 0;
    loop {
        let piece = match tokio::time::timeout(SILENCE, stream.next()).await {
            Err(_) => Err(target.silent(at)),
            // The reader knows how many bytes there should be.
            Ok(None) => return,
            Ok(Some(Err(error))) => Err(target.later(&error, at, version.bytes)),
            Ok(Some(Ok(bytes))) => {
                at += bytes.len() as u64;
                let known = usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len());
                skip -= known as u64;
                Ok(bytes.slice(known..).to_vec())
            }
        };
        let is_last = piece.is_err();
        if !deliver(&out, piece).await || is_last {
            return;
        }
    }
}

/// Sends a piece when there is room, without holding a thread. Returns `false` if it is not wanted any more.
async fn deliver(out: &SyncSender<Piece>, piece: Piece) -> bool {
    let mut piece = piece;
    loop {
        piece = match out.try_send(piece) {
            Ok(()) => return true,
            Err(TrySendError::Disconnected(_)) => return false,
            Err(TrySendError::Full(piece)) => piece,
        };
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while self.at >= self.current.len() {
            if !self.advance()? {
                return Ok(0);
            }
        }
        let ready = self.current.get(self.at..).unwrap_or_default();
        let count = ready.len().min(buffer.len());
        let ready = ready.get(..count).unwrap_or_default();
        if let Some(buffer) = buffer.get_mut(..count) {
            buffer.copy_from_slice(ready);
        }
        if let Some((hash, _)) = &mut self.hash {
            hash.update(ready);
        }
        self.at += count;
        self.done += count as u64;
        if self.done == self.version.bytes
            && let Some((hash, at_end)) = self.hash.take()
        {
            let bytes = hash.finalize();
            at_end(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        Ok(count)
    }
}
