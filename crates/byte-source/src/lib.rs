//! Reads the bytes of a trace from a file, a pipe or a compressed container: detected by content,
//! bounded, streamed.
//!
//! [`Source::open`] takes a path or `-`, detects gzip, zstd, xz, zip or tar from the first bytes
//! (up to three containers inside one another; names do not matter), and gives access to the
//! content:
//!
//! * [`Source::head`]: look-ahead, to decide which reader to call;
//! * [`Source::random_access`]: reads at any offset from several threads, for plain files;
//! * [`Source::into_chunks`]: chunks in order, read and decompressed on a separate thread at the
//!   inflater's speed, with recycled buffers;
//! * [`Source::into_read`]: the same as `BufRead`, for line readers;
//! * [`Members`]: every file of an archive.
//!
//! The decoded part of truncated and corrupt streams is kept; the [`DamageLog`] records kind and
//! location of the damage (compressed and uncompressed byte). [`Limits`] stop decompression bombs.
//! Memory is a few buffers, whatever the size of the input; nothing is memory-mapped.
//!
//! Other items: [`expand_inputs`] and [`logical_name`] for the names of inputs, [`Progress`] to
//! count bytes, and [`output::AtomicFile`] for outputs that appear whole or not at all.
//!
//! The crate does not know any trace format (the readers detect those, [`magic`] helps), does not
//! convert text encodings, does not display progress, and contains no network protocol: objects named by a
//! URL come from the [`remote::Store`] that the program installs.
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
pub mod remote;
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
