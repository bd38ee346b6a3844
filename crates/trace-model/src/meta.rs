//! What the file says about itself.

use crate::ids::Rank;
use crate::time::ClockDomain;

/// A process group of a distributed job.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ProcessGroup {
    /// Name, for example `0` or `tp:0`.
    pub name: String,
    /// What it is for.
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
    /// Ranks in the job.
    pub world_size: Option<u32>,
    /// Its process groups.
    pub groups: Vec<ProcessGroup>,
}

/// What the file says about itself.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Metadata {
    /// `chrome-json`, `perfetto` or another format's name.
    pub format: &'static str,
    /// What the timestamps count.
    pub clock: ClockDomain,
    /// Add to a timestamp to get Unix time in nanoseconds; 0 if the file does not say.
    pub base_time_ns: i64,
    /// The distributed job it is part of.
    pub distributed: Option<Distributed>,
    /// Everything else, as key and raw text, in the order of the file.
    pub entries: Vec<(String, String)>,
    /// Uncompressed bytes read.
    pub input_bytes: u64,
    /// Events of the file in all, also those that are no row of a table: of JSON the elements of the
    /// event list whatever their phase, of protobuf the packets with a track event.
    pub events: u64,
    /// How many of each kind of record the file had, for example packets by field.
    pub records: Vec<(String, u64)>,
}

impl Metadata {
    /// The raw text of entry `key`.
    pub fn entry(&self, key: &str) -> Option<&str> {
        self.entries
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// The rank of the recorded process, if the file says.
    pub fn rank(&self) -> Option<Rank> {
        self.distributed.as_ref().and_then(|d| d.rank)
    }
}
