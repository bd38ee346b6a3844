//! Errors of opening, reading and writing bytes.

use std::io;

use crate::damage::Damage;
use crate::detect::Container;

/// Error of reading a source or writing an output.
///
/// Every variant names the source (`name` is the path as given, `stdin`, or `archive.zip!member`)
/// and, if there is one, the remedy. Damage that leaves usable data is not an error: see
/// [`Damage`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing exists at the path.
    #[error("{name}: no such file: check the path")]
    NotFound {
        /// The path as given.
        name: String,
    },
    /// No object has this URL.
    #[error("{name}: no such object: check the bucket and the key (names are case-sensitive)")]
    NoObject {
        /// The URL.
        name: String,
    },
    /// An object cannot be read.
    #[error("{name}: {text}")]
    Remote {
        /// The URL, without credentials.
        name: String,
        /// Reason and remedy.
        text: String,
    },
    /// The operating system refused access.
    #[error("{name}: permission denied: make it readable for this user")]
    Denied {
        /// The path as given.
        name: String,
    },
    /// The path is a directory, but a file is required.
    #[error("{name}: is a directory: name a file in it")]
    Directory {
        /// The path as given.
        name: String,
    },
    /// The source has no bytes at all.
    #[error("{name}: empty (0 bytes): was the recording finished and copied completely?")]
    Empty {
        /// Name of the source.
        name: String,
    },
    /// Standard input was requested, but it is a terminal.
    #[error("stdin is a terminal: name a file, or pipe data in")]
    Terminal,
    /// Reading failed.
    #[error("{name}: read failed at byte {offset}")]
    Read {
        /// Name of the source.
        name: String,
        /// Offset in the bytes being read; before decompression if the file itself failed.
        offset: u64,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file became shorter while it was read.
    #[error(
        "{name}: file shrank while being read: {expected} bytes at first, none at byte {offset} now: copy it before reading"
    )]
    Shrunk {
        /// The file.
        name: String,
        /// Its length when it was opened, in bytes.
        expected: u64,
        /// Offset at which the bytes ended.
        offset: u64,
    },
    /// A compressed stream produced no usable data.
    #[error("{name}: nothing could be decompressed: {damage}")]
    NothingDecoded {
        /// The source.
        name: String,
        /// Damage of the stream.
        damage: Damage,
    },
    /// Containers are nested more deeply than allowed.
    #[error("{name}: more than {limit} containers inside one another: unpack the outer ones first")]
    Nested {
        /// The source.
        name: String,
        /// The limit, as a number of containers.
        limit: usize,
    },
    /// Decompression produced more bytes than allowed.
    #[error(
        "{name}: more than {limit_bytes} bytes after decompression: if the file is trusted, raise max-uncompressed"
    )]
    OutputLimit {
        /// The source.
        name: String,
        /// The limit in force ([`Limits::max_uncompressed_bytes`](crate::Limits)).
        limit_bytes: u64,
    },
    /// The data expands like a decompression bomb.
    #[error(
        "{name}: {compressed_bytes} compressed bytes gave {uncompressed_bytes}, over {limit}:1, as a decompression bomb does: \
         if the file is trusted, set max-ratio to the ratio expected"
    )]
    Bomb {
        /// The source.
        name: String,
        /// The ratio in force ([`Limits::max_ratio`](crate::Limits)).
        limit: u64,
        /// Number of compressed bytes read so far.
        compressed_bytes: u64,
        /// Number of bytes after decompression.
        uncompressed_bytes: u64,
    },
    /// Decoding needs more memory than allowed.
    #[error(
        "{name}: {container} needs a window of more than {limit_bytes} bytes: recompress it, or raise max-decoder-memory"
    )]
    DecoderMemory {
        /// The source.
        name: String,
        /// The format.
        container: Container,
        /// The limit in force ([`Limits::max_decoder_bytes`](crate::Limits)).
        limit_bytes: u64,
    },
    /// This crate does not read the container.
    #[error("{name}: {what} is not supported: unpack it first, for example with `{tool}`")]
    Unsupported {
        /// The source.
        name: String,
        /// Description of the container.
        what: &'static str,
        /// A command that unpacks it.
        tool: &'static str,
    },
    /// The directory of an archive cannot be read.
    #[error("{name}: broken {container} archive: {remedy}")]
    Archive {
        /// The archive.
        name: String,
        /// Its format.
        container: Container,
        /// Possible remedy.
        remedy: &'static str,
        /// Error of the archive reader.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The archive contains no file.
    #[error("{name}: the {container} archive holds no files")]
    NoMembers {
        /// The archive.
        name: String,
        /// Its format.
        container: Container,
    },
    /// One source was requested, but the archive has several.
    #[error(
        "{name}: the {container} archive holds {count} files: name one of them, such as `{first}`"
    )]
    SeveralMembers {
        /// The archive.
        name: String,
        /// Its format.
        container: Container,
        /// Number of files in the archive.
        count: usize,
        /// Name of the first file, in a form that can be opened.
        first: String,
    },
    /// The archive has no member with this name.
    #[error("{archive}: no member `{member}` in the archive")]
    NoSuchMember {
        /// The archive.
        archive: String,
        /// The requested member.
        member: String,
    },
    /// An input path matches no file.
    #[error("{name}: no matching files")]
    NoInputs {
        /// The directory or pattern.
        name: String,
    },
    /// The system did not start a thread.
    #[error("{name}: cannot start the decompression thread")]
    Thread {
        /// The source.
        name: String,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The decompression thread panicked: a defect of this crate or of a decompressor.
    #[error("{name}: the decompression thread stopped unexpectedly: please report this file")]
    ThreadDied {
        /// The source.
        name: String,
    },
    /// The directory of an output file does not exist.
    #[error("{name}: no directory `{directory}`: create it first")]
    NoDirectory {
        /// The output.
        name: String,
        /// The missing directory.
        directory: String,
    },
    /// An output file could not be created, written or put in place.
    #[error("{name}: cannot {step}")]
    Write {
        /// The output.
        name: String,
        /// The failed step: `create`, `write` or `rename into place`.
        step: &'static str,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Converts an operating system error about `name` at `offset` to a variant.
    ///
    /// An [`Error`] wrapped in the `io::Error` is returned unchanged.
    pub(crate) fn from_io(name: &str, offset: u64, source: io::Error) -> Self {
        match source.downcast::<Self>() {
            Ok(inner) => inner,
            Err(source) => Self::Read {
                name: name.to_owned(),
                offset,
                source,
            },
        }
    }

    /// Same as [`Error::from_io`], for a failure to open.
    pub(crate) fn opening(name: &str, source: io::Error) -> Self {
        let name = name.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NotFound { name },
            io::ErrorKind::PermissionDenied => Self::Denied { name },
            io::ErrorKind::IsADirectory => Self::Directory { name },
            _ => Self::Read {
                name,
                offset: 0,
                source,
            },
        }
    }
}

impl From<Error> for io::Error {
    /// Wraps the error so that it can pass through `Read`; `io::Error::downcast` unwraps it.
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::NotFound { .. } | Error::NoObject { .. } => io::ErrorKind::NotFound,
            Error::Denied { .. } => io::ErrorKind::PermissionDenied,
            Error::Read { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
