//! Writers of Perfetto protobuf and of Chrome JSON.
//!
//! [`TraceWriter`] takes events as they come and needs little memory, whatever the size of the
//! trace; [`write_trace`] writes a whole [`trace_model::Trace`], and [`write_chrome_json`] does so as JSON.

mod annotations;
mod chrome;
mod declare;
mod dictionary;
mod encode;
mod flows;
mod nested;
mod spec;
mod stream;
mod trace;

pub use chrome::{write_chrome_json, write_chrome_json_gz};
pub use spec::{CounterUnit, EventData, TrackSpec, WriterOptions, WriterTrack};
pub use stream::TraceWriter;
pub use trace::{write_part, write_trace};
