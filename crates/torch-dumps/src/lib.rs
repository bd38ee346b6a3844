//! Dumps of PyTorch that are no traces: snapshots of the memory allocator, and what the Flight Recorder kept of collectives.
//!
//! Both are Python pickles, or JSON. [`pickle`] reads the plain data of a pickle (numbers, texts, lists, dictionaries) and runs
//! nothing: an instruction that would import or call anything is refused by its name. Memory is bounded by the size of the
//! file, and no input recurses.
//!
//! * [`memory`]: who holds the memory at its peak, by stack and category; fragmentation; the course of allocated bytes;
//! * [`flight`]: which rank did not arrive at a collective, and the first call of each group that differs between ranks.
//!
//! ```
//! use byte_source::Source;
//! use torch_dumps::{Dump, read};
//!
//! // {'segments': [], 'device_traces': []}
//! let pickle = b"\x80\x02}(X\x08\x00\x00\x00segments]X\x0d\x00\x00\x00device_traces]u.";
//! let dump = read(Source::from_bytes("snapshot.pickle", pickle.to_vec())?)?;
//! assert!(matches!(dump, Dump::Memory(snapshot) if snapshot.devices.is_empty()));
//!
//! let hostile = b"cposix\nsystem\n(S'id'\ntR.";
//! let error = read(Source::from_bytes("hostile.pickle", hostile.to_vec())?).unwrap_err();
//! assert!(error.to_string().contains("posix.system"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod data;
mod error;
pub mod flight;
mod frames;
mod json;
pub mod memory;
pub mod pickle;

use byte_source::Source;

pub use data::{Data, Id, Node};
pub use error::{Error, Result};

/// A dump of PyTorch.
#[derive(Debug)]
pub enum Dump {
    /// A snapshot of the memory allocator.
    Memory(memory::Snapshot),
    /// What the Flight Recorder of one rank kept.
    Flight(flight::RankDump),
}

/// Kind of a dump, from its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A pickle: either kind of dump, or something else.
    Pickle,
    /// JSON with the keys of a memory snapshot.
    MemoryJson,
    /// JSON with the keys of a Flight Recorder dump.
    FlightJson,
}

/// Number of bytes that [`kind_of`] needs to recognise a dump.
pub const HEAD: usize = 64 * 1024;

/// Returns the kind of dump that begins with `head`, of which [`HEAD`] bytes are enough; `None` for everything else.
pub fn kind_of(head: &[u8]) -> Option<Kind> {
    if pickle::begins(head) {
        return Some(Kind::Pickle);
    }
    let text = byte_source::magic::skip_utf8_bom(head).trim_ascii_start();
    if text.first() != Some(&b'{') {
        return None;
    }
    let has = |key: &str| text.windows(key.len()).any(|part| part == key.as_bytes());
    // Traces have none of these keys.
    if has("\"traceEvents\"") {
        return None;
    }
    if has("\"pg_config\"") || (has("\"entries\"") && has("\"collective_seq_id\"")) {
        return Some(Kind::FlightJson);
    }
    let is_snapshot = has("\"device_traces\"") || (has("\"segments\"") && has("\"blocks\""));
    is_snapshot.then_some(Kind::MemoryJson)
}

/// Reads a dump, pickle or JSON.
///
/// # Errors
///
/// Returns an error if the source cannot be read, is cut off or damaged, would run code, or holds neither kind of dump.
pub fn read(mut source: Source) -> Result<Dump> {
    let name = source.name().to_owned();
    let is_pickle = pickle::begins(source.head(16)?);
    let reader = source.into_read()?;
    let (data, root) = match is_pickle {
        true => pickle::read(&name, reader, &pickle::Limits::default())?,
        false => json::read(&name, reader)?,
    };
    if memory::is_snapshot(&data, root) {
        return Ok(Dump::Memory(memory::Snapshot::of(&name, &data, root)?));
    }
    if flight::is_dump(&data, root) {
        return Ok(Dump::Flight(flight::RankDump::of(&name, &data, root)?));
    }
    let keys = data
        .pairs(root)
        .iter()
        .filter_map(|(key, _)| data.text(*key));
    let keys: Vec<&str> = keys.take(8).collect();
    Err(Error::OtherData {
        name,
        keys: match keys.is_empty() {
            true => "no dictionary".to_owned(),
            false => keys.join(", "),
        },
    })
}
