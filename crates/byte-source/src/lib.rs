//! Bytes of a trace from a file, a pipe or a compressed container: sniffed by content,
//! bounded, streamed.
//!
//! [`Source::open`] takes a path or `-`, finds out from the first bytes whether they are
//! gzip, zstd, xz, zip or tar (up to three inside one another, names do not matter), and hands
//! on what is inside:
//!
//! * [`Source::head`]: look ahead, to decide which reader to call;
//! * [`Source::random_access`]: reads at any offset from several threads, for plain files;
//! * [`Source::into_chunks`]: chunks in order, read and decompressed on a thread of their own
//!   at the inflater's speed, with recycled buffers;
//! * [`Source::into_read`]: the same as `BufRead`, for line readers;
//! * [`Members`]: every file of an archive.
//!
//! Truncated and corrupt streams keep what was decoded: what is wrong, and at which
//! compressed and uncompressed byte, is in the [`DamageLog`]. [`Limits`] stop decompression bombs.
//! Memory is a few buffers, whatever the size of the input; nothing is memory-mapped.
//!
//! Besides: [`expand_inputs`] and [`logical_name`] for the names of inputs, [`Progress`] to count
//! bytes, and [`output::AtomicFile`] for outputs that appear whole or not at all.
//!
//! It does not know any trace format (the readers sniff those, [`magic`] helps), does not convert
//! text encodings, does not draw progress, and does not read remote files.
//!
//! ```
//! use byte_source::Source;
//! use std::io::Write as _;
//!
//! let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
//! gzip.write_all(b"{\"traceEvents\": []}")?;
//!
//! let mut source = Source::from_bytes("rank0.json.gz", gzip.finish()?)?;
//! assert_eq!(source.logical_name(), "rank0.json");
//! assert_eq!(source.head(1)?, b"{");
//!
//! let mut chunks = source.into_chunks(Default::default())?;
//! while let Some(chunk) = chunks.next()? {
//!     assert_eq!(chunk.offset(), 0);
//!     assert_eq!(&chunk[..], b"{\"traceEvents\": []}");
//! }
//! assert!(chunks.damage().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

mod access;
mod archive;
mod chunks;
mod codecs;
mod damage;
mod decode;
mod detect;
mod error;
mod gzip;
pub mod magic;
mod members;
mod names;
mod options;
pub mod output;
mod peek;
mod progress;
mod reader;
mod source;
pub mod unfinished;

pub use access::RandomAccess;
pub use chunks::{Chunk, ChunkOptions, Chunks};
pub use damage::{Damage, DamageKind, DamageLog};
pub use detect::Container;
pub use error::Error;
pub use members::{Members, member_names};
pub use names::{expand_inputs, logical_name};
pub use options::{Limits, OpenOptions};
pub use progress::Progress;
pub use reader::Reader;
pub use source::Source;
