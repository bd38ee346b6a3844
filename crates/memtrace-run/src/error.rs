//! Errors of this crate.

use std::io;

/// Error of an experiment or a part of one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading, labelling or writing a trace failed.
    #[error(transparent)]
    Trace(#[from] memtrace_labeller::Error),
    /// The analysis failed.
    #[error(transparent)]
    Analysis(#[from] memtrace_analyser::Error),
    /// Reading an input or writing an output failed.
    #[error(transparent)]
    Source(#[from] byte_source::Error),
    /// A table could not be built or written.
    #[error(transparent)]
    Report(#[from] report::Error),
    /// A file or folder operation failed.
    #[error("{name}: {source}")]
    Io {
        /// Name of the file or folder.
        name: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The configuration does not exist.
    #[error("Config file not found: {name}")]
    ConfigMissing {
        /// The file.
        name: String,
    },
    /// The configuration is empty.
    #[error("Config file is empty")]
    ConfigEmpty,
    /// The configuration is not YAML.
    #[error("Failed to parse YAML: {what}")]
    ConfigYaml {
        /// Message of the parser.
        what: String,
    },
    /// The configuration contains invalid values.
    #[error("Invalid experiment config: {}", list(.0))]
    ConfigInvalid(Vec<ConfigMistake>),
    /// A JSON file could not be read.
    #[error("{name}: {source}")]
    Json {
        /// The file.
        name: String,
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// No collector can run on this machine.
    #[error("no collector can run here: {what}; 'memtrace doctor' says how to get one")]
    NoCollector {
        /// Collectors that were tried, and what they lack.
        what: String,
    },
    /// There is less free space than a collection needs.
    #[error("{folder}: {free_bytes} bytes free, a collection needs {needed_bytes}")]
    DiskFull {
        /// The folder.
        folder: String,
        /// Bytes free.
        free_bytes: u64,
        /// Bytes needed.
        needed_bytes: u64,
    },
    /// A command could not be started.
    #[error("starting {command}: {source}")]
    Start {
        /// The command.
        command: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The folder of a run is not empty; a run never replaces another.
    #[error("{folder}: exists and is not empty; a run needs a new folder")]
    FolderExists {
        /// The folder.
        folder: String,
    },
    /// A phase mark is invalid.
    #[error("phase mark '{argument}': {what}")]
    PhaseMark {
        /// The argument as given.
        argument: String,
        /// Description of the problem.
        what: String,
    },
    /// A validity limit cannot be set.
    #[error("limit '{argument}' {what}")]
    Limit {
        /// The argument as given.
        argument: String,
        /// Description of the problem.
        what: &'static str,
    },
    /// The pipe or the socket for phase marks could not be created.
    #[error("phase pipe: {what}")]
    PhasePipe {
        /// Message of the operating system.
        what: String,
    },
    /// The input is not empty, but contains no row: it has another format than the one it was read
    /// as.
    #[error(
        "{name}: read as {format}, none of {lines} lines is a sample; --input-format names the format"
    )]
    NothingRead {
        /// The input.
        name: String,
        /// The format used.
        format: &'static str,
        /// Number of lines of the input.
        lines: u64,
    },
    /// A thread failed.
    #[error("a worker thread failed")]
    Thread,
}

/// A mistake in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigMistake {
    /// Place of the mistake: `models.0.engine`.
    pub field: String,
    /// Description of the mistake.
    pub what: String,
}

fn list(mistakes: &[ConfigMistake]) -> String {
    mistakes
        .iter()
        .map(|mistake| format!("{}: {}", mistake.field, mistake.what))
        .collect::<Vec<_>>()
        .join("; ")
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Wraps an input or output error with the file's name.
pub(crate) fn io_error(name: impl AsRef<std::path::Path>) -> impl FnOnce(io::Error) -> Error {
    let name = name.as_ref().display().to_string();
    move |source| Error::Io { name, source }
}
