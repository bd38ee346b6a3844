//! Writer of Perfetto protobuf.
//!
//! [`TraceWriter`] takes events as they come and needs little memory, whatever the size of the
//! trace; [`write_trace`] writes a whole [`trace_model::Trace`].

mod annotations;
mod declare;
mod dictionary;
mod encode;
mod flows;
mod nested;
mod spec;
mod stream;
mod trace;

pub use spec::{CounterUnit, EventData, TrackSpec, WriterOptions, WriterTrack};
pub use stream::TraceWriter;
pub use trace::write_trace;
