//! Records block I/O traces without loss, with bpftrace or tracefs.
//!
//! [`record`] traces one disk while a command runs, or for a given time, and writes a folder:
//! `events.txt` (the trace, which `blkio-parser` reads), `manifest.json` (recorded requests
//! compared with the device's counters), `clock.json` (readings of boot time and wall time), and
//! `gpu.csv` if there is an NVIDIA GPU. A recording that cannot begin leaves no folder.
//!
//! bpftrace is used if it works: its program prints only at completion, because the kernel skips a
//! completion interrupt that meets a running tracing program on its processor. Otherwise an
//! instance of tracefs records the same events. Recording needs root and a kernel with block
//! tracepoints.
//!
//! * [`script()`]: the bpftrace program of a device, without running it;
//! * [`Disk`]: the whole disk of a device or partition;
//! * [`Tail`]: a log that grows while it is read;
//! * [`record`]: a whole recording with [`RecordOptions`], which returns a [`Recording`].
//!
//! ```
//! use blkio_collect::{ScriptOptions, script};
//!
//! let program = script(259, 0, &ScriptOptions::default());
//! assert!(program.contains("args->dev == ((259 << 20) | 0)"));
//! ```

mod clock_reading;
mod disk;
mod error;
mod follow;
mod guard;
mod recording;
mod script;
mod tracer;
mod unfinished;
mod workload;

pub use disk::Disk;
pub use error::{Error, Result};
pub use follow::{Follow, Grown, Tail};
pub use recording::{Ended, Note, RecordOptions, Recording, record};
pub use script::{ScriptOptions, script};
pub use tracer::Method;
