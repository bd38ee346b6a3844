//! Positional reads of a plain file, a stored archive member, or memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use crate::error::Error;
use crate::progress::Progress;

/// Reads at any offset, from several threads at once.
///
/// There is no memory map: every read copies into the caller's buffer, so resident memory is that
/// of the buffers, and a file that shrinks during reading is an error, not a signal. Bytes appended
/// after opening are not visible. Clones are cheap and share the file.
#[derive(Debug, Clone)]
pub struct RandomAccess {
    store: Arc<Store>,
    start: u64,
    len: u64,
    progress: Option<Arc<Progress>>,
}

#[derive(Debug)]
struct Store {
    name: String,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    #[cfg(unix)]
    File(File),
    #[cfg(not(unix))]
    File(std::sync::Mutex<File>),
    Memory(Vec<u8>),
}

impl RandomAccess {
    /// Creates an accessor for the first `len` bytes of a regular file.
    pub(crate) fn file(name: &str, file: File, len: u64, progress: Option<Arc<Progress>>) -> Self {
        #[cfg(unix)]
        let bytes = Bytes::File(file);
        #[cfg(not(unix))]
        let bytes = Bytes::File(std::sync::Mutex::new(file));
        Self::over(name, bytes, len, progress)
    }

    /// Creates an accessor for bytes in memory.
    pub(crate) fn memory(name: &str, bytes: Vec<u8>, progress: Option<Arc<Progress>>) -> Self {
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Self::over(name, Bytes::Memory(bytes), len, progress)
    }

    fn over(name: &str, bytes: Bytes, len: u64, progress: Option<Arc<Progress>>) -> Self {
        Self {
            store: Arc::new(Store {
                name: name.to_owned(),
                bytes,
            }),
            start: 0,
            len,
            progress,
        }
    }

    /// Returns the part of `len` bytes from `start`, truncated at the end of this one.
    pub(crate) fn part(&self, start: u64, len: u64) -> Self {
        let start = start.min(self.len);
        Self {
            start: self.start + start,
            len: len.min(self.len - start),
            ..self.clone()
        }
    }

    /// Returns the length in bytes at the time the source was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `true` if there are no bytes; an opened source always has some.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `buffer` with the bytes from `offset` and returns the number of bytes read.
    ///
    /// The buffer is filled completely unless the source ends first, so a smaller number, or 0,
    /// means the end.
    ///
    /// # Errors
    ///
    /// [`Error::Shrunk`] when the file has become shorter than [`RandomAccess::len`],
    /// [`Error::Read`] when the system fails.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        if let Some(progress) = &self.progress {
            let stopped = |error| Error::from_io(&self.store.name, self.start + offset, error);
            progress.check().map_err(stopped)?;
        }
        let left = self.len.saturating_sub(offset);
        let wanted = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let buffer = buffer.get_mut(..wanted).unwrap_or_default();
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let at = self.start + offset + u64::try_from(filled).unwrap_or(u64::MAX);
            match self.store.bytes.read(at, rest) {
                Ok(0) => {
                    return Err(Error::Shrunk {
                        name: self.store.name.clone(),
                        expected: self.start + self.len,
                        offset: at,
                    });
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::from_io(&self.store.name, at, error)),
            }
        }
        if let Some(progress) = &self.progress {
            progress.add_done(u64::try_from(filled).unwrap_or(u64::MAX));
        }
        Ok(filled)
    }

    /// Returns a sequential reader from the start.
    pub(crate) fn reader(&self) -> SequentialReader {
        SequentialReader {
            access: self.clone(),
            at: 0,
        }
    }
}

impl Bytes {
    /// Performs one positional read of the operating system.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            #[cfg(unix)]
            Self::File(file) => std::os::unix::fs::FileExt::read_at(file, buffer, offset),
            #[cfg(not(unix))]
            Self::File(file) => {
                let mut file = file
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                file.seek(SeekFrom::Start(offset))?;
                file.read(buffer)
            }
            Self::Memory(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                let mut rest = bytes.get(from..).unwrap_or_default();
                rest.read(buffer)
            }
        }
    }
}

/// Implements `Read` and `Seek` over a [`RandomAccess`]; each reader has its own position.
#[derive(Debug)]
pub(crate) struct SequentialReader {
    access: RandomAccess,
    at: u64,
}

impl Read for SequentialReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.access.read_at(self.at, buffer)?;
        self.at += u64::try_from(count).unwrap_or(0);
        Ok(count)
    }
}

impl Seek for SequentialReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.access.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_inside_their_whole() {
        let whole = RandomAccess::memory("m", b"0123456789".to_vec(), None);
        let part = whole.part(3, 4).part(1, 100);
        assert_eq!(part.len(), 3);
        let mut buffer = [0; 8];
        assert_eq!(part.read_at(0, &mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..3], b"456");
        assert_eq!(part.read_at(3, &mut buffer).unwrap(), 0);
        assert_eq!(part.read_at(u64::MAX, &mut buffer).unwrap(), 0);
        assert_eq!(whole.part(99, 1).len(), 0);
    }

    #[test]
    fn a_shrunken_file_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100).unwrap();
        let access = RandomAccess::file("t.json", file.try_clone().unwrap(), 100, None);
        let mut buffer = [1; 64];
        assert_eq!(access.read_at(50, &mut buffer).unwrap(), 50);
        file.set_len(60).unwrap();
        match access.read_at(50, &mut buffer) {
            Err(Error::Shrunk {
                expected, offset, ..
            }) => assert_eq!((expected, offset), (100, 60)),
            other => panic!("{other:?}"),
        }
    }
}
