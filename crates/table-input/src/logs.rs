//! Logs of block I/O and captures of memory accesses among paths.

use std::path::{Path, PathBuf};

use byte_source::{OpenOptions, Source};
use memtrace_labeller::{InputFormat, InputOptions, Names, RowStream, VERSION_KEY};

/// Bytes that tell what a file is.
const HEAD: usize = 64 << 10;

/// Kind of a file that is no recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    BlockIo,
    Accesses,
}

/// What paths are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sorted {
    /// Paths of recordings, and everything else.
    pub(crate) recordings: Vec<PathBuf>,
    /// Logs of block I/O, each with its files: those of blktrace are one for each processor.
    pub(crate) block_io: Vec<(PathBuf, Vec<PathBuf>)>,
    /// Captures of memory accesses.
    pub(crate) accesses: Vec<PathBuf>,
}

impl Sorted {
    /// Sorts paths by content. A folder stays among the recordings unless it holds nothing but logs.
    pub(crate) fn of(paths: &[PathBuf]) -> Self {
        let mut out = Self::default();
        for path in paths {
            if path.is_dir() {
                let before = out.logs();
                for path in why_input::others_in(path) {
                    if let Some(kind) = kind(&path) {
                        out.add(&path, kind);
                    }
                }
                let has_logs = out.logs() > before;
                if !has_logs || has_recordings(path) {
                    out.recordings.push(path.clone());
                }
                continue;
            }
            match blkio_report::recordings::parts_of(path) {
                Some(files) => out.block_io.push((path.clone(), files)),
                None => match kind(path) {
                    Some(kind) => out.add(path, kind),
                    None => out.recordings.push(path.clone()),
                },
            }
        }
        out
    }

    fn logs(&self) -> usize {
        self.block_io.len() + self.accesses.len()
    }

    fn add(&mut self, path: &Path, kind: Kind) {
        if kind == Kind::Accesses {
            self.accesses.push(path.to_owned());
            return;
        }
        // Parts of one recording of blktrace are one log.
        let name = name_of_parts(path);
        let same = |(_, files): &&mut (PathBuf, Vec<PathBuf>)| {
            let first = files.first().and_then(|first| name_of_parts(first));
            name.is_some() && first == name
        };
        match self.block_io.iter_mut().find(same) {
            Some((shown, files)) => {
                files.push(path.to_owned());
                if let Some(name) = &name {
                    shown.clone_from(name);
                }
            }
            None => self.block_io.push((path.to_owned(), vec![path.to_owned()])),
        }
    }
}

/// Returns the name of the recording that `NAME.blktrace.N` is a part of.
fn name_of_parts(path: &Path) -> Option<PathBuf> {
    let path = byte_source::logical_name(path.to_str()?);
    let (name, number) = path.rsplit_once(".blktrace.")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| PathBuf::from(name))
}

fn has_recordings(folder: &Path) -> bool {
    let quiet = cli::VerbosityArgs {
        quiet: true,
        verbose: false,
    };
    trace_input::expand_ranks(&[folder.to_owned()], quiet).is_ok()
}

/// Returns the kind of a file; `None` for a recording and for what is not known.
fn kind(path: &Path) -> Option<Kind> {
    // Thousands of ranks are not opened for their names.
    if path.as_os_str() == "-" || !path.is_file() || trace_input::is_trace(path) {
        return None;
    }
    match why_input::role(path) {
        findings::Role::BlockIo => Some(Kind::BlockIo),
        _ => has_accesses(path).then_some(Kind::Accesses),
    }
}

/// Returns `true` for a capture of memory accesses. Formats without a mark of their own have to have rows in their first bytes.
fn has_accesses(path: &Path) -> bool {
    let mut open = OpenOptions::default();
    // Captures of memray are packed as they are written.
    open.pass_foreign = true;
    let Ok(mut source) = Source::open(path, &open) else {
        return false;
    };
    let Ok(head) = source.head(HEAD) else {
        return false;
    };
    let head = head.to_vec();
    match InputFormat::sniff(&head) {
        None => false,
        Some(InputFormat::Parquet) => is_ours(path),
        Some(InputFormat::PerfData | InputFormat::Damon | InputFormat::RowsCsv) => true,
        Some(InputFormat::Memray) => head.starts_with(b"memray\0") || is_lz4_of_memray(path),
        Some(format) => begins_with_rows(format, head),
    }
}

/// Returns `true` for Parquet of memory accesses, which states its version.
fn is_ours(path: &Path) -> bool {
    let size = std::fs::metadata(path).map_or(0, |meta| meta.len());
    let Ok(mut file) = std::fs::File::open(path) else {
        return false;
    };
    use std::io::{Read as _, Seek as _, SeekFrom};
    let from = size.saturating_sub(HEAD as u64);
    let mut end = Vec::new();
    let read = file
        .seek(SeekFrom::Start(from))
        .and_then(|_| file.read_to_end(&mut end));
    let key = VERSION_KEY.as_bytes();
    read.is_ok() && end.windows(key.len()).any(|part| part == key)
}

/// Returns `true` if a file in LZ4 is a capture of memray.
fn is_lz4_of_memray(path: &Path) -> bool {
    let mut open = OpenOptions::default();
    open.pass_foreign = true;
    let mut names = Names::new();
    let mut rows = Vec::new();
    let stream = RowStream::open_path(path, &open, &InputOptions::default());
    stream.is_ok_and(|mut stream| {
        stream.format() == InputFormat::Memray && stream.next_batch(&mut names, &mut rows).is_ok()
    })
}

/// Returns `true` if the whole lines at the beginning of a file are rows, but for a few.
fn begins_with_rows(format: InputFormat, mut head: Vec<u8>) -> bool {
    if head.len() >= HEAD {
        let end = head.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        head.truncate(end);
    }
    let Ok(source) = Source::from_bytes("head", head) else {
        return false;
    };
    let mut options = InputOptions::default();
    options.format = Some(format);
    let (mut names, mut rows) = (Names::new(), Vec::new());
    let Ok(mut stream) = RowStream::open(source, &options) else {
        return false;
    };
    while let Ok(true) = stream.next_batch(&mut names, &mut rows) {}
    let report = stream.report();
    report.rows > 0 && report.rows > report.skipped_total()
}
