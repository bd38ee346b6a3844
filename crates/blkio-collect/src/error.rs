//! Everything that can go wrong while recording.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Why nothing, or not everything, was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path is no block device.
    #[error("{}: no block device", path.display())]
    NoDevice {
        /// The path.
        path: PathBuf,
        /// What the system says, where it says more.
        #[source]
        source: Option<io::Error>,
    },
    /// What the kernel shows of the disk is not what is expected.
    #[error("{}: expected {expected}", path.display())]
    Kernel {
        /// The file in `/sys`.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// The process does not run as root.
    #[error("tracing needs root")]
    NotRoot,
    /// The folder of the recording exists already or cannot be made.
    #[error("{}: cannot create the folder (it must be new)", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The options need bpftrace, but tracefs was asked for.
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
        /// How it ended.
        status: ExitStatus,
        /// The line of its output that tells why.
        said: String,
    },
    /// bpftrace attached to no tracepoint in time.
    #[error("bpftrace did not attach within {seconds} s")]
    Late {
        /// How long it was waited for.
        seconds: u64,
    },
    /// The caller's interrupt came before the recording began.
    #[error("interrupted while bpftrace attached")]
    Interrupted,
    /// The instance of tracefs cannot be made, set or removed.
    #[error("{what}")]
    Tracefs {
        /// What failed.
        what: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The thread that copies the trace died; a defect.
    #[error("the thread that copies the trace died")]
    CopierDied,
    /// The command cannot be started.
    #[error("cannot start {program}")]
    NoCommand {
        /// The command.
        program: String,
        /// Why.
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

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns `true` if nothing could be recorded as asked: the device, the rights, the tracer or the command is missing.
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
