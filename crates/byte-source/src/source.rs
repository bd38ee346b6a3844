//! Opens one source of bytes and unpacks its containers.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::access::RandomAccess;
use crate::archive::{self, Archive};
use crate::chunks::{ChunkOptions, Chunks};
use crate::codecs::{XzDecoder, ZstdDecoder};
use crate::damage::DamageLog;
use crate::decode::{Decode, DecodeReader, Guard};
use crate::detect::{Container, Detected, LOOK, detect};
use crate::error::Error;
use crate::gzip::GzipDecoder;
use crate::magic::looks_like_sqlite;
use crate::members::Members;
use crate::names::logical_name;
use crate::options::OpenOptions;
use crate::peek::Peek;
use crate::progress::Progress;
use crate::reader::Reader;
use crate::remote;

/// The decompressed bytes of one file, pipe, buffer or archive member.
///
/// Opening reads only what is needed to recognise the containers (512 bytes of each). Then look
/// ahead with [`Source::head`], and read the bytes in one of three ways: [`Source::random_access`]
/// for plain files and memory, [`Source::into_chunks`], or [`Source::into_read`].
pub struct Source {
    name: String,
    stream: Peek,
    access: Option<RandomAccess>,
    containers: Vec<Container>,
    damage: DamageLog,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .field("containers", &self.containers)
            .field("random_access", &self.access.is_some())
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Usual argument of [`Source::head`]: 16 KiB.
    pub const HEAD_BYTES: usize = 16 << 10;

    /// Opens a file, or standard input for `-`.
    ///
    /// Compression is detected by content and removed. An archive with one file is opened as that
    /// file; a member of any archive is opened by the name `archive.zip!member`. For all members
    /// see [`Members::open`].
    ///
    /// # Errors
    ///
    /// Returns an error if there is nothing to read ([`Error::NotFound`], [`Error::Denied`],
    /// [`Error::Directory`], [`Error::Empty`], [`Error::Terminal`]), if an archive has several
    /// files ([`Error::SeveralMembers`]) or is broken, and if a limit is exceeded.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        match open_path(path, options) {
            Err(missing @ (Error::NotFound { .. } | Error::NoObject { .. })) => {
                match archive::split_member(path) {
                    Some((archive, member)) => {
                        open_path(archive, options)?.into_member(member, options)
                    }
                    None => Err(missing),
                }
            }
            opened => opened?.into_one(options),
        }
    }

    /// Opens the bytes of a file, or of a member `archive.zip!member`, without decompression: a
    /// member is extracted, but stays compressed if it was.
    ///
    /// # Errors
    ///
    /// Same as [`Source::open`].
    pub fn open_as_is(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        match raw_path(path, options) {
            Err(missing @ (Error::NotFound { .. } | Error::NoObject { .. })) => {
                match archive::split_member(path) {
                    Some((archive, member)) => {
                        open_path(archive, options)?.into_raw_member(member, options)
                    }
                    None => Err(missing),
                }
            }
            raw => raw,
        }
        .map(Raw::into_source)
    }

    /// Opens every source behind a path: the members of an archive, or the one file.
    ///
    /// Short for [`Members::open`].
    ///
    /// # Errors
    ///
    /// Same as [`Members::open`]; members that cannot be opened are errors of the iterator.
    pub fn open_all(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Members, Error> {
        Members::open(path, options)
    }

    /// Reads bytes from any reader; `name` is used in messages.
    ///
    /// # Errors
    ///
    /// Same as [`Source::open`].
    pub fn from_reader(
        name: impl Into<String>,
        reader: impl Read + Send + 'static,
    ) -> Result<Self, Error> {
        Self::from_reader_with(name, reader, &OpenOptions::default())
    }

    /// Same as [`Source::from_reader`], with options.
    ///
    /// # Errors
    ///
    /// Same as [`Source::open`].
    pub fn from_reader_with(
        name: impl Into<String>,
        reader: impl Read + Send + 'static,
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        Raw::reader(name.into(), Box::new(reader), options)
            .unpack(options)?
            .into_one(options)
    }

    /// Reads bytes in memory; `name` is used in messages.
    ///
    /// # Errors
    ///
    /// Same as [`Source::open`].
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, Error> {
        Self::from_bytes_with(name, bytes, &OpenOptions::default())
    }

    /// Same as [`Source::from_bytes`], with options.
    ///
    /// # Errors
    ///
    /// Same as [`Source::open`].
    pub fn from_bytes_with(
        name: impl Into<String>,
        bytes: Vec<u8>,
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        Raw::bytes(name.into(), bytes, options)
            .unpack(options)?
            .into_one(options)
    }

    /// Returns the source's name in messages: the path, `stdin`, or `archive.zip!member`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file name without directories, archive and compression suffix; see
    /// [`logical_name`].
    pub fn logical_name(&self) -> &str {
        logical_name(&self.name)
    }

    /// Returns the opened containers, outermost first; empty for plain bytes.
    pub fn containers(&self) -> &[Container] {
        &self.containers
    }

    /// Returns the damage log; complete once everything was read.
    pub fn damage(&self) -> DamageLog {
        self.damage.clone()
    }

    /// Returns the first `wanted` bytes of content, or all if there are fewer, without consuming
    /// them.
    ///
    /// The look-ahead grows on demand and stays in memory until it is read; request
    /// [`Source::HEAD_BYTES`] first and more only if that is not enough.
    ///
    /// # Errors
    ///
    /// Returns an error if not even one byte could be read; a failure after some bytes is reported
    /// when reading reaches it.
    pub fn head(&mut self, wanted: usize) -> Result<&[u8], Error> {
        self.stream
            .peek(wanted)
            .map_err(|error| Error::from_io(&self.name, 0, error))
    }

    /// Returns an accessor for reads at any offset, if the bytes are plain on disk or in memory.
    ///
    /// `None` for pipes and compressed sources. The accessor is independent of the other ways to
    /// read, and of the look-ahead.
    pub fn random_access(&self) -> Option<RandomAccess> {
        self.access.clone()
    }

    /// Splits the source into chunks, read and decompressed on a separate thread.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the system does not start a thread.
    pub fn into_chunks(self, options: ChunkOptions) -> Result<Chunks, Error> {
        Chunks::start(self.name, self.stream, self.damage, options)
    }

    /// Provides the bytes as [`std::io::BufRead`], read and decompressed on a separate thread.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the system does not start a thread.
    pub fn into_read(self) -> Result<Reader, Error> {
        self.into_chunks(ChunkOptions::default()).map(Reader::new)
    }
}

/// A source after unpacking, or the archive found in it.
pub(crate) enum Opened {
    One(Source),
    Many(Archive),
}

impl Opened {
    /// Returns the single source; fails if there are several.
    fn into_one(self, options: &OpenOptions) -> Result<Source, Error> {
        match self {
            Self::One(source) => Ok(source),
            Self::Many(archive) => archive.into_only_member(options)?.into_one(options),
        }
    }

    /// Returns the member with this name; names of nested archives are separated by further `!`.
    fn into_member(self, member: &str, options: &OpenOptions) -> Result<Source, Error> {
        match self {
            Self::One(source) => Err(Error::NoSuchMember {
                archive: source.name,
                member: member.to_owned(),
            }),
            Self::Many(archive) => {
                let (entry, rest) = archive.named(member)?;
                let opened = archive.open(entry, options)?;
                match rest {
                    None => opened.into_one(options),
                    Some(rest) => opened.into_member(rest, options),
                }
            }
        }
    }

    /// Same as [`Opened::into_member`], without unpacking the member.
    fn into_raw_member(self, member: &str, options: &OpenOptions) -> Result<Raw, Error> {
        match self {
            Self::One(source) => Err(Error::NoSuchMember {
                archive: source.name,
                member: member.to_owned(),
            }),
            Self::Many(archive) => {
                let (entry, rest) = archive.named(member)?;
                match rest {
                    None => archive.raw(entry, options),
                    Some(rest) => archive.open(entry, options)?.into_raw_member(rest, options),
                }
            }
        }
    }
}

/// Opens a path and unpacks its containers.
pub(crate) fn open_path(path: &Path, options: &OpenOptions) -> Result<Opened, Error> {
    raw_path(path, options)?.unpack(options)
}

/// Opens a path without examining its content.
fn raw_path(path: &Path, options: &OpenOptions) -> Result<Raw, Error> {
    if path.as_os_str() == "-" {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Err(Error::Terminal);
        }
        let stdin = Box::new(stdin);
        return Ok(Raw::reader("stdin".to_owned(), stdin, options));
    }
    let name = path.display().to_string();
    if let Some(url) = remote::url(path) {
        let opened = remote::open(url, options.progress.clone())?;
        if let (Some(progress), Some(bytes)) = (&options.progress, opened.bytes) {
            progress.add_total(bytes);
        }
        let mut raw = Raw::reader(name, opened.reader, options);
        raw.remote = Some(path.to_owned());
        return Ok(raw);
    }
    local_path(path, name, options)
}

/// Opens a local file, which messages call `name`.
fn local_path(path: &Path, name: String, options: &OpenOptions) -> Result<Raw, Error> {
    let opening = |error| Error::opening(&name, error);
    let file = File::open(path).map_err(opening)?;
    let metadata = file.metadata().map_err(opening)?;
    if metadata.is_dir() {
        return Err(Error::Directory { name });
    }
    // Length 0 may also be a file that the system generates on reading.
    if metadata.is_file() && metadata.len() > 0 {
        let len = metadata.len();
        if let Some(progress) = &options.progress {
            progress.add_total(len);
        }
        let access = RandomAccess::file(&name, file, len, options.progress.clone());
        Ok(Raw::access(name, access))
    } else {
        Ok(Raw::reader(name, Box::new(file), options))
    }
}

/// Bytes that may still be in containers.
pub(crate) struct Raw {
    pub(crate) name: String,
    stream: Peek,
    access: Option<RandomAccess>,
    pub(crate) containers: Vec<Container>,
    pub(crate) damage: DamageLog,
    raw_bytes: Arc<AtomicU64>,
    decoders: usize,
    /// URL of an object, until it is fetched.
    remote: Option<PathBuf>,
}

impl Raw {
    pub(crate) fn reader(
        name: String,
        reader: Box<dyn Read + Send>,
        options: &OpenOptions,
    ) -> Self {
        let counted = Counted {
            inner: reader,
            progress: options.progress.clone(),
        };
        Self {
            name,
            stream: Peek::new(Box::new(counted)),
            access: None,
            containers: Vec::new(),
            damage: DamageLog::default(),
            raw_bytes: Arc::default(),
            decoders: 0,
            remote: None,
        }
    }

    pub(crate) fn bytes(name: String, bytes: Vec<u8>, options: &OpenOptions) -> Self {
        let access = RandomAccess::memory(&name, bytes, options.progress.clone());
        if let Some(progress) = &options.progress {
            progress.add_total(access.len());
        }
        Self::access(name, access)
    }

    pub(crate) fn access(name: String, access: RandomAccess) -> Self {
        // The accessor counts progress itself.
        let no_options = OpenOptions::default();
        let mut raw = Self::reader(name, Box::new(access.reader()), &no_options);
        raw.access = Some(access);
        raw
    }

    /// Takes the bytes as content.
    fn into_source(self) -> Source {
        Source {
            name: self.name,
            stream: self.stream,
            access: self.access,
            containers: self.containers,
            damage: self.damage,
        }
    }

    /// Adds a decompressor. Not for archives.
    pub(crate) fn decompressed(
        self,
        container: Container,
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        let max_bytes = options.limits.max_decoder_bytes;
        let decoder: io::Result<Box<dyn Decode>> = match container {
            Container::Zstd => ZstdDecoder::new(max_bytes).map(|decoder| Box::new(decoder) as _),
            Container::Xz => XzDecoder::new(max_bytes).map(|decoder| Box::new(decoder) as _),
            _ => Ok(Box::new(GzipDecoder::new())),
        };
        let decoder = decoder.map_err(|error| Error::from_io(&self.name, 0, error))?;
        Ok(self.decoded_by(container, decoder, options))
    }

    /// Adds a decoder.
    pub(crate) fn decoded_by(
        self,
        container: Container,
        decoder: Box<dyn Decode>,
        options: &OpenOptions,
    ) -> Self {
        let guard = Guard {
            name: self.name.clone(),
            limits: options.limits.clone(),
            raw_bytes: Arc::clone(&self.raw_bytes),
            is_first: self.decoders == 0,
        };
        let reader = DecodeReader::new(self.stream, container, decoder, self.damage.clone(), guard);
        Self {
            stream: Peek::new(Box::new(reader)),
            access: None,
            decoders: self.decoders + 1,
            ..self
        }
    }

    /// Opens containers until it reaches plain content or an archive.
    pub(crate) fn unpack(mut self, options: &OpenOptions) -> Result<Opened, Error> {
        loop {
            let head = match self.stream.peek(LOOK) {
                Ok(head) => head,
                Err(error) => return Err(Error::from_io(&self.name, 0, error)),
            };
            if head.is_empty() {
                return Err(match self.damage.records().pop() {
                    Some(damage) => Error::NothingDecoded {
                        name: self.name,
                        damage,
                    },
                    None => Error::Empty { name: self.name },
                });
            }
            let found = detect(head);
            let by_position = matches!(found, Detected::Container(Container::Zip | Container::Tar))
                || looks_like_sqlite(head);
            if by_position && let Some(url) = self.remote.take() {
                // Only the first bytes were read so far.
                let copy = remote::fetched(&url, options)?;
                return local_path(&copy, self.name, options)?.unpack(options);
            }
            let container = match found {
                Detected::Container(container) => container,
                Detected::Foreign(what, tool) if !options.pass_foreign => {
                    return Err(Error::Unsupported {
                        name: self.name,
                        what,
                        tool,
                    });
                }
                Detected::Plain | Detected::Foreign(..) => {
                    return Ok(Opened::One(self.into_source()));
                }
            };
            if self.containers.len() >= options.limits.max_nesting {
                return Err(Error::Nested {
                    name: self.name,
                    limit: options.limits.max_nesting,
                });
            }
            self.containers.push(container);
            if !matches!(container, Container::Zip | Container::Tar) {
                self = self.decompressed(container, options)?;
                continue;
            }
            let access = match self.access {
                Some(access) => access,
                None => archive::spool(&self.name, &mut self.stream, options)?,
            };
            let archive =
                Archive::list(self.name, container, access, self.containers, self.damage)?;
            return Ok(Opened::Many(archive));
        }
    }
}

/// Counts the bytes read from the outermost input for the progress display.
struct Counted {
    inner: Box<dyn Read + Send>,
    progress: Option<Arc<Progress>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(progress) = &self.progress {
            progress.check()?;
        }
        let count = self.inner.read(buffer)?;
        if let Some(progress) = &self.progress {
            progress.add_done(u64::try_from(count).unwrap_or(0));
        }
        Ok(count)
    }
}
