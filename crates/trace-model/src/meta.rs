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

/// A limit of the recording that the reader found: data that is missing, or known less well than it looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Stable machine name.
    pub code: &'static str,
    /// Number of occurrences.
    pub count: u64,
    /// One sentence: what is limited, and how to record or export it completely.
    pub text: String,
    /// `true` if the trace is incomplete, `false` for a remark.
    pub is_reason: bool,
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
    /// Limits of the recording, in the order of their importance.
    pub limits: Vec<Limit>,
    /// Further facts of a format, as name of the section and JSON text.
    pub sections: Vec<(&'static str, String)>,
    /// `true` if GPU activities are on tracks of the process that launched them and correlation ids hold within a process
    /// only.
    pub launches_within_process: bool,
}

impl Metadata {
    /// Returns the raw text of entry `key`.
    pub fn entry(&self, key: &str) -> Option<&str> {
        self.entries
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// Returns `true` for exports of Nsight Systems, whose gaps other flags of the recorder close than those of PyTorch.
    pub fn is_nsys(&self) -> bool {
        self.format == "nsys"
    }

    /// Returns the limit `code`, if it was found.
    pub fn limit(&self, code: &str) -> Option<&Limit> {
        self.limits.iter().find(|limit| limit.code == code)
    }

    /// Returns the rank of the recorded process, if the file states it.
    pub fn rank(&self) -> Option<Rank> {
        self.distributed.as_ref().and_then(|d| d.rank)
    }
}
