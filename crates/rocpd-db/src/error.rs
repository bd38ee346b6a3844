//! What can go wrong.

use std::io;
use std::path::Path;

/// Why databases could not be read, joined, queried or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened or read.
    #[error(transparent)]
    Source(#[from] byte_source::Error),
    /// The system refused an operation on a file or directory.
    #[error("{name}: cannot {step}")]
    Io {
        /// The path.
        name: String,
        /// What was tried.
        step: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// No input matched.
    #[error(
        "{name}: no rocPD database there: name *.db files, a directory of them, a .rpdb folder or its index.yaml"
    )]
    NoInput {
        /// What was named.
        name: String,
    },
    /// The file does not begin as SQLite databases do.
    #[error("{name}: not a SQLite database: rocPD files begin with \"SQLite format 3\"")]
    NotSqlite {
        /// The file.
        name: String,
    },
    /// A SQLite database of something else.
    #[error("{name}: a SQLite database without rocPD tables: {found}")]
    NotRocpd {
        /// The file.
        name: String,
        /// What it seems to be.
        found: &'static str,
    },
    /// A page of the database makes no sense.
    #[error(
        "{name}: damaged at page {page} (byte {offset}): {what}: copy the file again, or leave it out"
    )]
    Corrupt {
        /// The file.
        name: String,
        /// The page, counted from 1.
        page: u32,
        /// Where the page begins.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The file ends before its last page.
    #[error(
        "{name}: truncated: {expected} bytes by its header, {found} there: copy the file again, or leave it out"
    )]
    Truncated {
        /// The file.
        name: String,
        /// Bytes the header promises.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// A journal beside the file holds changes that are not in it.
    #[error("{name}: {sidecar} holds changes that are not in the database yet: {remedy}")]
    Sidecar {
        /// The database.
        name: String,
        /// The journal.
        sidecar: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A generation of the format that is not known.
    #[error(
        "{name}: rocPD schema {found}{}: supported are 3.x, and 4.x with the columns of the 4.1.0 draft", without(.lacks)
    )]
    UnsupportedSchema {
        /// The file.
        name: String,
        /// What its metadata say.
        found: String,
        /// A table and the column that it lacks, if that is why.
        lacks: Option<(&'static str, &'static str)>,
    },
    /// Texts of the database are compressed, as a draft of the format has them.
    #[error(
        "{name}: its texts are compressed ({compression}), a draft of the rocPD format that is not supported: record without \
         compression, or decompress the columns extdata, call_stack and line_info with the tool that wrote it"
    )]
    Compressed {
        /// The file.
        name: String,
        /// What its metadata say.
        compression: String,
    },
    /// Texts of the database are not UTF-8.
    #[error(
        "{name}: text encoding {found} of the database is not UTF-8: write it anew with `VACUUM` under PRAGMA encoding='UTF-8'"
    )]
    Encoding {
        /// The file.
        name: String,
        /// The number in the header.
        found: u32,
    },
    /// A table that must be there is not.
    #[error("{name}: no table {table}{suffix}: the recording was cut off or the file was altered")]
    MissingTable {
        /// The file.
        name: String,
        /// The table's name without suffix.
        table: &'static str,
        /// The suffix of this process's tables.
        suffix: String,
    },
    /// A value of another type than its column must have.
    #[error("{name}: table {table}, column {column}, row {rowid}: found {found}")]
    BadValue {
        /// The file.
        name: String,
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The row's id.
        rowid: i64,
        /// What was there.
        found: String,
    },
    /// The same process twice, but not the same data.
    #[error(
        "{first} and {second} both hold guid {guid}, with different rows: keep the complete one"
    )]
    DuplicatePartition {
        /// The guid.
        guid: String,
        /// The file that came first.
        first: String,
        /// The other.
        second: String,
    },
    /// A table name that is no plain identifier.
    #[error("{name}: table name `{found}` has characters that rocPD does not use")]
    BadIdentifier {
        /// The file.
        name: String,
        /// The name.
        found: String,
    },
    /// No marker has the message.
    #[error("{side} marker \"{message}\" not found")]
    MarkerNotFound {
        /// `start` or `end`.
        side: &'static str,
        /// The message looked for.
        message: String,
    },
    /// Several markers have the message.
    #[error(
        "Ambiguous reference - multiple {side} markers found with name \"{message}\" ({count}): choose one with --marker-occurrence"
    )]
    AmbiguousMarker {
        /// `start` or `end`.
        side: &'static str,
        /// The message looked for.
        message: String,
        /// How many there are.
        count: u64,
    },
    /// A time that cannot be understood.
    #[error(
        "Invalid time value '{text}' - must be percentage (e.g., '50%'), a relative time (e.g., '+1.5s') or a number (nanoseconds)"
    )]
    BadTime {
        /// What was given.
        text: String,
    },
    /// A percentage outside 0 to 100, where the reference refuses it.
    #[error("Invalid percentage '{text}' - must be between '0%' and '100%'")]
    BadPercentage {
        /// What was given.
        text: String,
    },
    /// The end lies before the start.
    #[error("Invalid time range - end time ({end_ns}) must not be before start time ({start_ns})")]
    BadWindow {
        /// The start.
        start_ns: i64,
        /// The end.
        end_ns: i64,
    },
    /// No data at these times.
    #[error(
        "the time window {start_ns} : {end_ns} nsec does not touch the data, which lie in {first_ns} : {last_ns} nsec"
    )]
    WindowOutsideData {
        /// Start of the window.
        start_ns: i64,
        /// End of the window.
        end_ns: i64,
        /// First time in the data.
        first_ns: i64,
        /// Last time in the data.
        last_ns: i64,
    },
    /// A region category that the data do not have.
    #[error("unknown region category '{found}': the data have {known}")]
    UnknownCategory {
        /// What was asked for.
        found: String,
        /// What there is.
        known: String,
    },
    /// SQLite refused a statement.
    #[error("Execution failed on sql '{sql}': {reason}")]
    Sql {
        /// The statement.
        sql: String,
        /// SQLite's reason.
        reason: String,
    },
    /// SQLite failed otherwise.
    #[error("{name}: {step}")]
    Sqlite {
        /// The file or step.
        name: String,
        /// What was tried.
        step: &'static str,
        /// SQLite's reason.
        #[source]
        source: rusqlite::Error,
    },
    /// An index of a package that cannot be understood.
    #[error(
        "{name}:{line}: {what}: an index has rocprofiler-sdk: rocpd: files: and a list of paths"
    )]
    BadIndex {
        /// The file.
        name: String,
        /// The line.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// Inputs of a merge that do not go together.
    #[error("{name}: {what}")]
    Merge {
        /// The file.
        name: String,
        /// Why not.
        what: String,
    },
    /// Clocks of machines that cannot be brought together.
    #[error("cannot align clocks: {what}")]
    Align {
        /// Why not.
        what: String,
    },
    /// Columns that do not make a record batch.
    #[cfg(feature = "arrow")]
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// The records could not become a trace.
    #[error(transparent)]
    Trace(#[from] trace_model::BuildError),
    /// The destination refused.
    #[error("cannot write")]
    Output(#[from] io::Error),
}

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;

/// What a schema is without, as an addition to its name.
fn without(lacks: &Option<(&str, &str)>) -> String {
    lacks.map_or_else(String::new, |(table, column)| {
        format!(", whose table {table} has no column {column}")
    })
}

impl From<sqlite_scan::Error> for Error {
    fn from(error: sqlite_scan::Error) -> Self {
        use sqlite_scan::Error as Scan;
        match error {
            Scan::Source(source) => Self::Source(source),
            Scan::Io { name, step, source } => Self::Io { name, step, source },
            Scan::NotSqlite { name } => Self::NotSqlite { name },
            Scan::Corrupt {
                name,
                page,
                offset,
                what,
            } => Self::Corrupt {
                name,
                page,
                offset,
                what,
            },
            Scan::Truncated {
                name,
                expected,
                found,
            } => Self::Truncated {
                name,
                expected,
                found,
            },
            Scan::Sidecar {
                name,
                sidecar,
                remedy,
            } => Self::Sidecar {
                name,
                sidecar,
                remedy,
            },
            Scan::Encoding { name, found } => Self::Encoding { name, found },
            other => Self::Output(io::Error::other(other)),
        }
    }
}

impl Error {
    /// Returns `true` if an output cannot be written: its folder is missing or full, or may not be written to.
    #[must_use]
    pub fn is_output(&self) -> bool {
        use io::ErrorKind as Kind;
        match self {
            Self::Source(error) => matches!(
                error,
                byte_source::Error::Write { .. } | byte_source::Error::NoDirectory { .. }
            ),
            Self::Io { source, .. } => matches!(
                source.kind(),
                Kind::StorageFull
                    | Kind::FileTooLarge
                    | Kind::QuotaExceeded
                    | Kind::ReadOnlyFilesystem
            ),
            _ => false,
        }
    }

    pub(crate) fn io(path: &Path, step: &'static str, source: io::Error) -> Self {
        Self::Io {
            name: path.display().to_string(),
            step,
            source,
        }
    }
}
