//! Writes OTF2 trace archives (Open Trace Format 2, the format of Score-P, Vampir and Scalasca) without the C library.
//!
//! An archive named `run` consists of the anchor file `run.otf2`, the definitions `run.def`, and for each location
//! (a thread, a queue of a GPU) the events `run/N.evt` and the local definitions `run/N.def`. Files are written uncompressed
//! in chunks, byte for byte as OTF2 3.0 writes them, so every reader of that release or a later one can read them.
//!
//! Events are enters and leaves of regions, each with at most one attribute that is a string. They come first, in order of
//! time within each location; definitions follow, and [`Archive::finish`] writes what is buffered and then the anchor file:
//! an archive that lacks its anchor is incomplete. Memory: at most one chunk, 256 KiB, for each location.
//!
//! The crate does not read archives, compress them, or write records of messages and metrics.
//!
//! ```
//! use otf2_writer::{Archive, GroupKind, LocationKind, Role};
//!
//! # let folder = tempfile::tempdir()?;
//! let mut archive = Archive::create(folder.path(), "run", "example 1.0")?;
//! let thread = archive.add_location();
//! archive.enter(thread, 100, 0, None)?;
//! archive.leave(thread, 250, 0)?;
//!
//! archive.clock(1_000_000_000, 100, 150)?;
//! for text in ["", "node", "main"] {
//!     archive.string(text)?;
//! }
//! let node = archive.node(1, 1)?;
//! let group = archive.group(2, GroupKind::Process, node)?;
//! archive.location(thread, 2, LocationKind::Thread, group)?;
//! archive.region(2, Role::Function)?;
//! archive.finish()?;
//! assert!(folder.path().join("run.otf2").is_file());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod archive;
mod chunks;
mod encode;

use std::path::PathBuf;

pub use archive::Archive;

/// Number of a location of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location(pub(crate) u64);

/// Kind of a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocationKind {
    /// Thread of a CPU.
    Thread = 1,
    /// Stream or queue of an accelerator.
    AcceleratorStream = 2,
}

/// Kind of a group of locations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupKind {
    /// Process.
    Process = 1,
    /// Accelerator.
    Accelerator = 2,
}

/// Purpose of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Function or kernel.
    Function = 1,
    /// Copy of data.
    DataTransfer = 30,
    /// Allocation of memory.
    Allocate = 35,
    /// Release of memory.
    Deallocate = 36,
}

/// Error of writing an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be written.
    #[error("{}: cannot {step}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The failed operation.
        step: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// An event is earlier than the one before it in its location.
    #[error(
        "event at {time} after one at {before}: events of a location must come in order of time"
    )]
    Order {
        /// Time of the event, ticks of the clock.
        time: u64,
        /// Time of the previous event, ticks of the clock.
        before: u64,
    },
    /// The location does not exist in this archive.
    #[error("location {number} is not one of this archive")]
    UnknownLocation {
        /// The number of the location.
        number: u64,
    },
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
