//! Metadata of the file.

use crate::ids::Rank;
use crate::time::ClockDomain;

/// A process group of a distributed job.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ProcessGroup {
    /// Name, for example `0` or `tp:0`.
    pub name: String,
    /// Purpose.
    pub description: String,
    /// Communication backend.
    pub backend: String,
    /// Number of members.
    pub size: Option<u32>,
    /// Members.
    pub ranks: Vec<u32>,
}

/// Kineto's `distributedInfo`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Distributed {
    /// Communication backend.
    pub backend: Option<String>,
    /// Rank of the recorded process.
    pub rank: Option<Rank>,
    /// Number of ranks in the job.
    pub world_size: Option<u32>,
    /// Its process groups.
    pub groups: Vec<ProcessGroup>,
}

/// Metadata of the file.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Metadata {
    /// `chrome-json`, `perfetto` or another format's name.
    pub format: &'static str,
    /// Clock of the timestamps.
    pub clock: ClockDomain,
    /// Offset from a timestamp to Unix time in nanoseconds; 0 if the file does not state it.
    pub base_time_ns: i64,
    /// The distributed job it is part of.
    pub distributed: Option<Distributed>,
    /// Everything else, as key and raw text, in the order of the file.
    pub entries: Vec<(String, String)>,
    /// Uncompressed bytes read.
    pub input_bytes: u64,
    /// Number of all events of the file, including those that are no row of a table: for JSON the
    /// elements of the event list regardless of phase, for protobuf the packets with a track event.
    pub events: u64,
    /// Number of records of each kind in the file, for example packets by field.
    pub records: Vec<(String, u64)>,
}

impl Metadata {
    /// Returns the raw text of entry `key`.
    pub fn entry(&self, key: &str) -> Option<&str> {
        self.entries
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// Returns the rank of the recorded process, if the file states it.
    pub fn rank(&self) -> Option<Rank> {
        self.distributed.as_ref().and_then(|d| d.rank)
    }
}
