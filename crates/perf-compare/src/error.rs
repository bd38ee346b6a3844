//! What can go wrong.

use std::io;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why two sides could not be compared, one variant per cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes of an input could not be had, or an output not written.
    #[error(transparent)]
    Bytes(#[from] byte_source::Error),
    /// A file system call failed.
    #[error("{}: cannot {step}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A file that is not CSV.
    #[error("{}: not readable as CSV", file.display())]
    Csv {
        /// The file.
        file: PathBuf,
        /// What the CSV reader says.
        #[source]
        source: csv::Error,
    },
    /// A file that is not readable as Parquet, or in a compression that is not supported.
    #[error("{}: not readable as Parquet: write it anew, uncompressed or with zstd or snappy", file.display())]
    Parquet {
        /// The file.
        file: PathBuf,
        /// What the Parquet reader says.
        #[source]
        source: Box<parquet::errors::ParquetError>,
    },
    /// A column is missing.
    #[error("{}: no column `{column}`: is this perf data, or a table of samples (metric, value)?", file.display())]
    Column {
        /// The file.
        file: PathBuf,
        /// The column.
        column: &'static str,
    },
    /// A field that is no number, or a row with too many fields.
    #[error("{}, line {line}: column `{column}` cannot be read: correct or remove the row", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: u64,
        /// The column.
        column: &'static str,
    },
    /// A compressed file is cut or damaged.
    #[error("{}: the compressed data is damaged or cut: copy the file again", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
    },
    /// No file of the wanted kind was found.
    #[error("no files named *_perf_data.csv below {}: give the folder or the file of an export", inputs.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "))]
    NoPerfData {
        /// What was searched.
        inputs: Vec<PathBuf>,
    },
    /// The case folder lies outside the folder that names are relative to.
    #[error("{}: not below {}, to which names of results are relative: give one folder that holds all cases", case.display(), base.display())]
    OutsideBase {
        /// The case folder.
        case: PathBuf,
        /// The folder that it should be below.
        base: PathBuf,
    },
    /// A table of signatures that cannot be read.
    #[error("{name}: not a table of signatures")]
    Signatures {
        /// Where it came from.
        name: String,
        /// What the TOML reader says.
        #[source]
        source: Box<toml::de::Error>,
    },
}
