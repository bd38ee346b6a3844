//! Reads Chrome-format JSON traces, notably those of PyTorch's Kineto.
//!
//! Both forms are read, the object with `traceEvents` and the bare array, from files and streams of
//! any size. Times are converted from decimal text to integer nanoseconds; broken events are
//! skipped and counted, and truncated files give every complete event.
//!
//! A plain file is split into pieces that worker threads scan speculatively: each guesses where an
//! event starts in its piece, and the guess is used only if the scan of everything before arrives
//! exactly there. The result is that of a sequential scan, whatever the number of threads.
//!
//! The stack of an event, from the document's table of frames or of its own, becomes the argument `call chain` of its slice.
//!
//! The contents of arguments that are not kept are stepped over and not checked. With a projection
//! by category or time, flows bind only to slices that start exactly at the time of the flow event:
//! others may be hidden by slices that were not kept.

mod args;
mod array;
mod assemble;
mod config;
mod connect;
mod describe;
mod document;
mod emit;
mod event;
mod frames;
mod merge;
mod meta;
mod number;
mod part;
mod pieces;
mod recover;
mod scan;
mod share;
mod skip;
mod speculate;
mod text;
mod utf16;
mod walk;

use byte_source::{DamageKind, DamageLog, RandomAccess, Source};
use trace_model::{
    ClockDomain, Diagnostics, EventOrder, FinishOptions, FlowBinding, IssueKind, Place, Trace,
};

use self::config::Config;
use self::document::Document;
use crate::{Error, ReadOptions};

/// Reads a trace of this format.
///
/// ```
/// use byte_source::Source;
/// use perfetto_reader::{ReadOptions, json};
///
/// let text = br#"[{"ph": "X", "ts": 4909914190160.684, "dur": 0.5, "pid": 251, "tid": 251,
///     "cat": "cpu_op", "name": "aten::mm", "args": {"External id": 7}}"#;
/// let trace = json::read(Source::from_bytes("t.json", text.to_vec())?, &ReadOptions::default())?;
/// let slice = trace.slices().next().ok_or("no slice")?;
/// assert_eq!(slice.ts().nanos(), 4_909_914_190_160_684);
/// assert_eq!(trace.arg_column("External id").int(slice), Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns an error if the source cannot be read or is not JSON before its first event, and if there
/// are more events than a trace can hold. Everything else is counted in [`Trace::diagnostics`].
pub fn read(mut source: Source, options: &ReadOptions) -> Result<Trace, Error> {
    let config = Config::new(options);
    let name = source.name().to_owned();
    let damage = source.damage();
    let mut document = Document::new(&config, name.clone());
    let is_utf16 = utf16::is_utf16(source.head(2)?);
    if is_utf16 {
        let transcoder =
            utf16::Transcoder::new(source.into_read()?).map_err(|source| Error::Io {
                name: name.clone(),
                source,
            })?;
        source = Source::from_reader(name, transcoder)?;
    }
    let access = source.random_access();
    pieces::for_each(
        source,
        &config,
        options.worker_threads(),
        |piece, speculation| {
            if let Some(progress) = &options.progress {
                progress.add_done(piece.len() as u64);
            }
            document.piece(piece, speculation)
        },
    )?;
    document.finish()?;

    let input_bytes = document.bytes();
    let frames = std::mem::take(&mut document.frames);
    let mut merged = document.merged;
    if config.stacks {
        frames.resolve(&mut merged.builder);
        drop(frames);
    }
    let diagnostics = &mut merged.builder.diagnostics;
    if is_utf16 {
        diagnostics.count(IssueKind::Utf16Transcoded, Place::Byte(0));
    }
    count_damage(diagnostics, &damage);
    if let Some(access) = access {
        locate_first_skipped(diagnostics, &access);
    }
    let records = merged.records();
    let mut builder = assemble::assemble(merged, config.compat);
    builder.meta.format = "chrome-json";
    builder.meta.input_bytes = input_bytes;
    // Events skipped for their syntax count as events.
    builder.meta.events = records.iter().map(|r| r.1).sum::<u64>()
        + builder.diagnostics.count_of(IssueKind::JsonEventSkipped);
    builder.meta.records = records;
    if builder.meta.base_time_ns != 0 {
        builder.meta.clock = ClockDomain::KinetoRelative;
    }
    let mut finish = FinishOptions::default();
    finish.order = EventOrder::Chrome;
    finish.overlap = options.overlap;
    finish.snap_ns = options.snap_ns;
    finish.keep_negative = options.keep_negative;
    finish.cut_all = config.compat;
    if let Some(outlining) = &config.outline {
        finish.keep_outlines = outlining.keeps();
        finish.whole_within_kept = outlining.is_whole_within_kept();
    }
    finish.binding = match (config.is_projected(), config.compat) {
        (true, _) => FlowBinding::ExactOnly,
        (_, true) => FlowBinding::TopOfStack,
        _ => FlowBinding::Exact,
    };
    Ok(builder.finish(&finish)?)
}

/// Returns `true` if the value of the document key is also kept in traces of other formats.
pub(crate) fn is_metadata(key: &str) -> bool {
    meta::is_wanted(key) && !meta::is_own(key)
}

pub(crate) use meta::{LAUNCHES_WITHIN_PROCESS, store as store_metadata};

fn count_damage(diagnostics: &mut Diagnostics, log: &DamageLog) {
    for damage in log.records() {
        let kind = match damage.kind {
            DamageKind::TrailingGarbage => IssueKind::TrailingBytes,
            _ => IssueKind::DamagedCompression,
        };
        let place = Place::Byte(damage.uncompressed_offset);
        diagnostics.note(kind, place, damage.to_string());
    }
}

/// Adds line and column to the first broken event, if the text can be read again.
fn locate_first_skipped(diagnostics: &mut Diagnostics, access: &RandomAccess) {
    let issue = diagnostics
        .issues()
        .iter()
        .find(|i| i.kind == IssueKind::JsonEventSkipped);
    let Some(issue) = issue else {
        return;
    };
    let (Some(&Place::Byte(byte)), Some(what)) = (issue.places.first(), &issue.detail) else {
        return;
    };
    let what = what.clone();
    let (mut line, mut line_start, mut at) = (1_u64, 0_u64, 0_u64);
    let mut buffer = vec![0; 1 << 20];
    while at < byte {
        let Ok(count @ 1..) = access.read_at(at, &mut buffer) else {
            return;
        };
        let before = usize::try_from(byte - at).map_or(count, |n| n.min(count));
        for found in memchr::memchr_iter(b'\n', &buffer[..before]) {
            line += 1;
            line_start = at + found as u64 + 1;
        }
        at += before as u64;
    }
    let column = byte - line_start + 1;
    diagnostics.set_detail(
        IssueKind::JsonEventSkipped,
        format!("first in line {line}, column {column}: {what}"),
    );
}
