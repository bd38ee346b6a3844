//! Iterates over all sources behind one path.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use crate::archive::{Archive, Entry};
use crate::error::Error;
use crate::options::OpenOptions;
use crate::source::{Opened, Raw, Source, open_path};

/// Iterates over the sources of an archive; a plain or compressed file yields itself.
///
/// Archives inside archives are expanded as well. Members come in the order of the archive's
/// directory and are opened when the iterator reaches them, so ten thousand members do not need ten
/// thousand decompressors. A member that cannot be opened is an `Err` item, and iteration
/// continues.
///
/// A zip or tar that is itself compressed or comes from a pipe is first unpacked into memory (up to
/// 64 MiB) or an unnamed temporary file. The checksum of a stored member is not verified.
///
/// ```
/// use byte_source::{Members, OpenOptions};
///
/// let plain = Members::from_bytes("t.json", b"{}".to_vec(), &OpenOptions::default())?;
/// let names: Vec<String> = plain
///     .map(|source| Ok(source?.name().to_owned()))
///     .collect::<Result<_, byte_source::Error>>()?;
/// assert_eq!(names, ["t.json"]);
/// # Ok::<(), byte_source::Error>(())
/// ```
pub struct Members {
    options: OpenOptions,
    /// Pending items; the next one is the last.
    queue: Vec<Item>,
}

enum Item {
    Source(Box<Source>),
    Entry(Arc<Archive>, Entry),
    Broken(Error),
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Members")
            .field("queued", &self.queue.len())
            .finish_non_exhaustive()
    }
}

impl Members {
    /// Opens a path, or standard input for `-`.
    ///
    /// # Errors
    ///
    /// Same as [`Source::open`], but several members are accepted.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        match open_path(path, options) {
            // It may be the name of a member.
            Err(Error::NotFound { .. } | Error::NoObject { .. }) => {
                Source::open(path, options).map(|source| Self::of(Opened::One(source), options))
            }
            opened => Ok(Self::of(opened?, options)),
        }
    }

    /// Reads bytes from any reader.
    ///
    /// # Errors
    ///
    /// Same as [`Members::open`].
    pub fn from_reader(
        name: impl Into<String>,
        reader: impl Read + Send + 'static,
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        let opened = Raw::reader(name.into(), Box::new(reader), options).unpack(options)?;
        Ok(Self::of(opened, options))
    }

    /// Reads bytes in memory.
    ///
    /// # Errors
    ///
    /// Same as [`Members::open`].
    pub fn from_bytes(
        name: impl Into<String>,
        bytes: Vec<u8>,
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        let opened = Raw::bytes(name.into(), bytes, options).unpack(options)?;
        Ok(Self::of(opened, options))
    }

    fn of(opened: Opened, options: &OpenOptions) -> Self {
        let mut members = Self {
            options: options.clone(),
            queue: Vec::new(),
        };
        members.enqueue(opened);
        members
    }

    fn enqueue(&mut self, opened: Opened) {
        match opened {
            Opened::One(source) => self.queue.push(Item::Source(Box::new(source))),
            Opened::Many(mut archive) => {
                self.queue.extend(archive.broken.take().map(Item::Broken));
                let entries = std::mem::take(&mut archive.entries);
                let archive = Arc::new(archive);
                self.queue.extend(
                    entries
                        .into_iter()
                        .rev()
                        .map(|entry| Item::Entry(Arc::clone(&archive), entry)),
                );
            }
        }
    }
}

/// Returns the names by which the members of an archive can be opened, in directory order; empty if
/// the file is not an archive.
///
/// Only the directory is read, so that a caller can choose; members of nested archives are not
/// listed. For a truncated archive, returns the members before the break and the error.
///
/// # Errors
///
/// Same as [`Members::open`].
pub fn member_names(
    path: impl AsRef<Path>,
    options: &OpenOptions,
) -> Result<(Vec<String>, Option<Error>), Error> {
    Ok(match open_path(path.as_ref(), options)? {
        Opened::One(_) => (Vec::new(), None),
        Opened::Many(archive) => (archive.names().collect(), archive.broken),
    })
}

impl Iterator for Members {
    type Item = Result<Source, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.queue.pop()? {
                Item::Source(source) => return Some(Ok(*source)),
                Item::Broken(error) => return Some(Err(error)),
                Item::Entry(archive, entry) => match archive.open(&entry, &self.options) {
                    Ok(opened) => self.enqueue(opened),
                    Err(error) => return Some(Err(error)),
                },
            }
        }
    }
}
