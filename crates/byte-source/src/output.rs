//! Output files that appear whole or not at all, and compression of outputs.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;

use crate::error::Error;
use crate::unfinished::Unfinished;

/// Number of bytes buffered before a write.
const BUFFER_BYTES: usize = 256 << 10;

/// Compresses written data with gzip and passes it to another writer. The output is deterministic:
/// it contains no time and no name.
///
/// ```
/// use byte_source::output::Gzip;
/// use std::io::Write as _;
///
/// let mut gzip = Gzip::new(Vec::new());
/// gzip.write_all(b"{}")?;
/// let packed = gzip.finish()?;
/// let mut source = byte_source::Source::from_bytes("a.json.gz", packed)?;
/// assert_eq!(source.head(2)?, b"{}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Gzip<W: Write>(GzEncoder<W>);

impl<W: Write> Gzip<W> {
    /// Begins a gzip stream.
    pub fn new(out: W) -> Self {
        Self(GzEncoder::new(out, Compression::default()))
    }

    /// Writes the end of the stream and returns the writer.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn finish(self) -> io::Result<W> {
        self.0.finish()
    }
}

impl<W: Write> Write for Gzip<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A file that replaces its target only when everything was written.
///
/// Writes are buffered and go to a hidden temporary file in the same directory.
/// [`AtomicFile::commit`] renames it over the target; dropping it without a commit removes it and
/// leaves an existing target untouched. This guards against failing and killed processes, not
/// against power loss: nothing is synced to disk.
///
/// A new file gets mode 0666 less the umask, a replaced one keeps its mode, and a symbolic link
/// keeps pointing to the file that is replaced. If a rename makes no sense (`/dev/null`,
/// `/dev/stdout`, a named pipe), the target is written directly.
///
/// A signal that kills the process leaves the temporary file behind unless a handler calls
/// [`unfinished::remove_all`](crate::unfinished::remove_all), as all of Inferscope's tools do.
///
/// ```
/// use byte_source::output::AtomicFile;
/// use std::io::Write as _;
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("report.json");
/// let mut file = AtomicFile::create(&path)?;
/// file.write_all(b"{}")?;
/// assert!(!path.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&path)?, b"{}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    name: String,
    target: PathBuf,
    writer: Writer,
}

#[derive(Debug)]
enum Writer {
    Temporary(BufWriter<NamedTempFile>, Unfinished),
    Direct(BufWriter<File>),
}

impl AtomicFile {
    /// Creates the temporary file next to `path`.
    ///
    /// # Errors
    ///
    /// [`Error::NoDirectory`] when the directory is missing, [`Error::Directory`] when `path`
    /// is one, [`Error::Write`] when the file cannot be created.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let failed = |source| Error::Write {
            name: name.clone(),
            step: "create",
            source,
        };
        let existing = fs::metadata(path).ok();
        if existing.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(Error::Directory { name });
        }
        if existing.as_ref().is_some_and(|found| !found.is_file()) {
            let file = File::options().write(true).open(path).map_err(failed)?;
            return Ok(Self {
                writer: Writer::Direct(BufWriter::with_capacity(BUFFER_BYTES, file)),
                target: path.to_owned(),
                name,
            });
        }
        let target = match &existing {
            Some(_) => fs::canonicalize(path).map_err(failed)?,
            None => path.to_owned(),
        };
        let directory = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !directory.is_dir() {
            return Err(Error::NoDirectory {
                directory: directory.display().to_string(),
                name,
            });
        }
        let prefix = match target.file_name() {
            // Long names leave no room for the suffix.
            Some(file) if file.len() < 200 => format!(".{}.", file.to_string_lossy()),
            _ => ".output.".to_owned(),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".tmp");
        #[cfg(unix)]
        builder.permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666));
        let (file, unfinished) =
            Unfinished::made(|| builder.tempfile_in(directory), NamedTempFile::path)
                .map_err(failed)?;
        if let Some(found) = &existing {
            keep_permissions(file.as_file(), found.permissions()).map_err(failed)?;
        }
        Ok(Self {
            writer: Writer::Temporary(BufWriter::with_capacity(BUFFER_BYTES, file), unfinished),
            target,
            name,
        })
    }

    /// Returns the path of the temporary file; `None` if the target is written directly.
    pub fn temporary_path(&self) -> Option<&Path> {
        match &self.writer {
            Writer::Temporary(writer, _) => Some(writer.get_ref().path()),
            Writer::Direct(_) => None,
        }
    }

    /// Flushes the buffer and renames the file to its target.
    ///
    /// # Errors
    ///
    /// [`Error::Write`]; the temporary file is then removed.
    pub fn commit(self) -> Result<(), Error> {
        let Self {
            name,
            target,
            writer,
        } = self;
        let failed = |step, source| Error::Write { name, step, source };
        match writer {
            Writer::Temporary(writer, _unfinished) => match writer.into_inner() {
                Ok(file) => file
                    .persist(target)
                    .map(drop)
                    .map_err(|error| failed("rename into place", error.error)),
                Err(error) => Err(failed("write", error.into_error())),
            },
            Writer::Direct(mut writer) => writer.flush().map_err(|error| failed("write", error)),
        }
    }
}

/// Gives the new file the mode of the file it replaces.
fn keep_permissions(file: &File, permissions: Permissions) -> io::Result<()> {
    if permissions.readonly() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the existing file is read-only",
        ));
    }
    file.set_permissions(permissions)
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.writer {
            Writer::Temporary(writer, _) => writer.write(bytes),
            Writer::Direct(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.writer {
            Writer::Temporary(writer, _) => writer.flush(),
            Writer::Direct(writer) => writer.flush(),
        }
    }
}
