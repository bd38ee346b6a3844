//! Reads Perfetto protobuf, Chrome/Kineto JSON and rocprofv3 JSON traces into a [`trace_model::Trace`], and writes
//! traces as Perfetto protobuf.
//!
//! [`read`] takes a [`byte_source::Source`], detects the format by content, and returns the trace
//! with its diagnostics. The semantics (sequences, clocks, track trees, nesting, flows) are those of
//! Perfetto's trace processor except for documented improvements; [`ReadOptions::compat`] turns these
//! off.
//!
//! The readable part of a damaged file is kept; everything dropped, repaired or guessed is counted
//! in the trace's diagnostics. Memory is that of the trace and a few buffers: files are streamed.
//!
//! The crate does not analyse or render; packets other than track events and their descriptions are
//! counted and skipped.
//!
//! ```
//! use byte_source::Source;
//!
//! let json = br#"[{"ph": "X", "pid": 1, "tid": 1, "ts": 5, "dur": 2.5, "name": "decode"}]"#;
//! let trace = perfetto_reader::read(Source::from_bytes("rank0.json", json.to_vec())?, &Default::default())?;
//! let slice = trace.slices().next().expect("one slice");
//! assert_eq!((slice.name(), slice.dur().expect("closed").get()), (Some("decode"), 2_500));
//!
//! let protobuf = perfetto_reader::write::write_trace(&trace, Vec::new())?;
//! let again = perfetto_reader::read(Source::from_bytes("rank0.pftrace", protobuf)?, &Default::default())?;
//! assert_eq!(again.slices().next().expect("one slice").name(), Some("decode"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod foreign;
mod options;
mod rocprof;
pub mod rocprof_csv;
mod sniff;
mod source_issues;

pub mod json;
pub mod proto;
pub mod write;

use byte_source::Source;
use trace_model::Trace;

pub use error::Error;
pub use options::{ArgPolicy, HostSlices, Outlining, ReadOptions};
pub use sniff::{Format, sniff};
pub use source_issues::SOURCE_INCOMPLETE;

/// Reads a whole trace of any supported format.
///
/// # Errors
///
/// Returns an error if the source cannot be read, has no supported format, breaks its container,
/// or, with [`ReadOptions::strict`], has a record dropped or repaired. Odd records are counted in
/// [`Trace::diagnostics`] instead.
pub fn read(mut source: Source, options: &ReadOptions) -> Result<Trace, Error> {
    let format = sniff(&mut source)?;
    let mut trace = match format {
        Format::Json => json::read(source, options)?,
        Format::Protobuf => proto::read(source, options)?,
        Format::Rocprof => rocprof::read(source, options)?,
    };
    if options.strict
        && let Some(issue) = trace
            .diagnostics()
            .issues()
            .iter()
            .find(|i| i.kind.severity() != trace_model::Severity::Info)
    {
        return Err(Error::Strict {
            issue: Box::new(issue.clone()),
        });
    }
    trace.set_kernel_rules(options.kernel_rules.clone());
    Ok(trace)
}
