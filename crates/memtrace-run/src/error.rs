//! What can go wrong.

use std::io;

/// Why an experiment, or a part of one, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading, labelling or writing a trace.
    #[error(transparent)]
    Trace(#[from] memtrace_labeller::Error),
    /// The analysis.
    #[error(transparent)]
    Analysis(#[from] memtrace_analyser::Error),
    /// Bytes of an input or an output.
    #[error(transparent)]
    Source(#[from] byte_source::Error),
    /// A table.
    #[error(transparent)]
    Report(#[from] report::Error),
    /// A file or a folder.
    #[error("{name}: {source}")]
    Io {
        /// Which.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The configuration does not exist.
    #[error("Config file not found: {name}")]
    ConfigMissing {
        /// The file.
        name: String,
    },
    /// It holds nothing.
    #[error("Config file is empty")]
    ConfigEmpty,
    /// It is no YAML.
    #[error("Failed to parse YAML: {what}")]
    ConfigYaml {
        /// What the parser said.
        what: String,
    },
    /// Values that cannot be.
    #[error("Invalid experiment config: {}", list(.0))]
    ConfigInvalid(Vec<ConfigMistake>),
    /// A JSON file that cannot be read.
    #[error("{name}: {source}")]
    Json {
        /// The file.
        name: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// Nothing on this machine can collect.
    #[error("no collector can run here: {what}; 'memtrace doctor' says how to get one")]
    NoCollector {
        /// What was tried, and what was missing.
        what: String,
    },
    /// Less room than a collection needs.
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
        /// What the system said.
        source: io::Error,
    },
    /// The folder of a run has something in it, which a run never replaces.
    #[error("{folder}: exists and is not empty; a run needs a new folder")]
    FolderExists {
        /// The folder.
        folder: String,
    },
    /// A mark of a phase that cannot be used.
    #[error("phase mark '{argument}': {what}")]
    PhaseMark {
        /// As given.
        argument: String,
        /// What is wrong with it.
        what: String,
    },
    /// A limit of validity that cannot be set.
    #[error("limit '{argument}' {what}")]
    Limit {
        /// As given.
        argument: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The pipe or the socket for marks of phases could not be made.
    #[error("phase pipe: {what}")]
    PhasePipe {
        /// What the system said.
        what: String,
    },
    /// There was something to read, and none of it was a row: it is another format than it was read as.
    #[error(
        "{name}: read as {format}, none of {lines} lines is a sample; --input-format names the format"
    )]
    NothingRead {
        /// The input.
        name: String,
        /// As what it was read.
        format: &'static str,
        /// Lines that it has.
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
    /// Where: `models.0.engine`.
    pub field: String,
    /// What.
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

/// An input or output error with its name.
pub(crate) fn io_error(name: impl AsRef<std::path::Path>) -> impl FnOnce(io::Error) -> Error {
    let name = name.as_ref().display().to_string();
    move |source| Error::Io { name, source }
}
