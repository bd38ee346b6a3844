//! Recordings of JAX, XLA and TensorFlow: `*.xplane.pb`, a protobuf message `XSpace`.
//!
//! An `XSpace` has planes (the host, each device), a plane has lines (threads, streams) of events, whose names and arguments
//! are numbers in tables of the plane. Planes become processes and lines become threads with the names that XLA's own
//! conversion to `trace.json.gz` gives them, so that both forms of one recording have the same GPU activity. The public
//! definition is `tsl/profiler/protobuf/xplane.proto`; the fields that are read are listed in the crate's `wire` module.
//!
//! Times are in picoseconds and are rounded to nanoseconds. Memory is that of the file and of the trace.
//!
//! ```
//! use byte_source::Source;
//! use xplane::{LoadOptions, read};
//!
//! // A plane `/host:CPU` with a line `main` at 5 ns and an event `step` from 2 ns after that on, of 3 ns.
//! let event = b"\x08\x01\x10\xd0\x0f\x18\xb8\x17";
//! let line = [b"\x12\x04main\x18\x05\x22\x08".as_slice(), event].concat();
//! let names = b"\x22\x0a\x08\x01\x12\x06\x12\x04step";
//! let plane = [b"\x12\x09/host:CPU\x1a\x12".as_slice(), &line, names].concat();
//! let space = [&[0x0a, plane.len() as u8], plane.as_slice()].concat();
//!
//! let trace = read(Source::from_bytes("host.xplane.pb", space)?, &LoadOptions::default())?;
//! let step = trace.slices().next().unwrap();
//! assert_eq!((step.name(), step.ts().nanos(), step.dur().unwrap().get()), (Some("step"), 7, 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod load;
mod plane;
mod wire;

pub use error::{Error, Result};
pub use load::{LoadOptions, begins, read};
