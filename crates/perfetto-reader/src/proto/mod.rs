//! Reads Perfetto protobuf traces.
//!
//! A trace is a list of packets ([`Packet`]) from many writers, each with its own dictionary,
//! defaults and clocks. [`read`] follows their state in file order, resolves every [`TrackEvent`]
//! to lane, name, category and arguments, and leaves order, nesting and flows to the trace store.
//! One packet is in memory at a time, in addition to the events kept.
//!
//! Differences of the default from Perfetto's tables (`compat` gives the latter):
//!
//! * a time is converted with the nearest of all snapshots that relate two clocks, not with the
//!   snapshots of one arbitrary set of clocks, so that a suspend is not missed;
//! * complete slices that overlap without nesting are moved to overflow tracks, not dropped;
//! * slices nest by track, even where viewers show several tracks of one name on shared lanes;
//! * states are slices, steps of older async operations belong to them, and phases of threads count
//!   on any track;
//! * flows by `bind_id`, by `flow_ids` and of phases `s`, `t`, `f` never meet;
//! * opaque messages and broken JSON in annotations are kept as texts;
//! * additions of the reference for its own export to JSON (`legacy_event.*`) and its rows for main
//!   threads without events are left out.
//!
//! The messages that files consist of are decoded by hand ([`Cursor`]); the rare ones, and all that
//! the writer creates, use [`prost`] ([`schema`]).

mod annotation;
mod base;
mod bundle;
mod clock;
mod counters;
mod emit;
mod event;
mod frame;
mod import;
mod keep;
mod legacy;
mod older_times;
mod packet;
mod place;
mod prefetch;
mod records;
pub mod schema;
mod sequence;
mod share;
mod tracks;
mod wire;

use byte_source::{ChunkOptions, Source};
use trace_model::Trace;

use crate::proto::import::Importer;
use crate::{Error, ReadOptions};

pub use event::{EventScalars, EventType, LegacyEvent, RareScalars, TrackEvent};
pub use packet::{Packet, Payload};
pub use wire::{Cursor, Malformed, Span, Value};

/// Reads a trace of this format.
///
/// Cost: one pass over the bytes and one sort of the events. One thread reads and decompresses
/// ahead, another decodes packets.
///
/// # Errors
///
/// Same as [`crate::read`]; of the errors of the format only [`Error::Protobuf`], for a top level
/// that is not a list of protobuf fields.
pub fn read(source: Source, options: &ReadOptions) -> Result<Trace, Error> {
    let name = source.name().to_owned();
    let chunks = source.into_chunks(ChunkOptions::default())?;
    let mut importer = Importer::new(options);
    let ended = prefetch::deliver(name, chunks, options, &mut importer)?;
    ended.note(&mut importer.builder.diagnostics);
    importer.builder.meta.input_bytes = ended.bytes;
    importer.finish()
}
