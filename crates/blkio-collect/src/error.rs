//! Errors of recording.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Reason why nothing, or not everything, was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path is not a block device.
    #[error("{}: no block device", path.display())]
    NoDevice {
        /// The path.
        path: PathBuf,
        /// Error of the operating system, if any.
        #[source]
        source: Option<io::Error>,
    },
    /// The kernel's information on the disk is not as expected.
    #[error("{}: expected {expected}", path.display())]
    Kernel {
        /// The file in `/sys`.
        path: PathBuf,
        /// Expected contents.
        expected: &'static str,
    },
    /// The process does not run as root.
    #[error("tracing needs root")]
    NotRoot,
    /// The folder of the recording already exists or cannot be created.
    #[error("{}: cannot create the folder (it must be new)", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The options require bpftrace, but tracefs was requested.
    #[error("the options of the bpftrace program cannot be used with tracefs")]
    NeedsBpftrace,
    /// tracefs is not mounted.
    #[error("no tracefs: mount it with `mount -t tracefs tracefs /sys/kernel/tracing`")]
    NoTracefs,
    /// The kernel has no block tracepoints.
    #[error(
        "this kernel has no block tracepoints (CONFIG_BLK_DEV_IO_TRACE): nothing can be recorded"
    )]
    NoTracepoints,
    /// bpftrace cannot be started.
    #[error("cannot start bpftrace: is it installed?")]
    NoBpftrace(#[source] io::Error),
    /// bpftrace ended by itself.
    #[error("bpftrace ended with {status}: {said}")]
    BpftraceEnded {
        /// Its exit status.
        status: ExitStatus,
        /// The line of its output with the reason.
        said: String,
    },
    /// bpftrace did not attach to a tracepoint in time.
    #[error("bpftrace did not attach within {seconds} s")]
    Late {
        /// Time waited, in seconds.
        seconds: u64,
    },
    /// The caller's interrupt came before the recording began.
    #[error("interrupted while bpftrace attached")]
    Interrupted,
    /// The instance of tracefs cannot be created, configured or removed.
    #[error("{what}")]
    Tracefs {
        /// The failed operation.
        what: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The thread that copies the trace panicked; a defect.
    #[error("the thread that copies the trace died")]
    CopierDied,
    /// The command cannot be started.
    #[error("cannot start {program}")]
    NoCommand {
        /// The command.
        program: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A file of the recording cannot be written.
    #[error(transparent)]
    Output(#[from] byte_source::Error),
    /// The recording cannot be read back.
    #[error(transparent)]
    Trace(#[from] blkio_parser::Error),
    /// A description of the recording cannot be written.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns `true` if recording as requested is impossible: the device, the rights, the tracer
    /// or the command is missing.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        !matches!(
            self,
            Self::Folder { .. } | Self::Io(_) | Self::Output(_) | Self::Trace(_) | Self::Json(_)
        )
    }
}

/// Formats an error with its causes, separated by colons.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = fmt::Write::write_fmt(&mut text, format_args!(": {error}"));
        cause = error.source();
    }
    text
}
