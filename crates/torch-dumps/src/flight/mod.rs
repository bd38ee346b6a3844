//! Dumps of the Flight Recorder: the last collectives of each rank with their state, as `TORCH_NCCL_TRACE_BUFFER_SIZE` keeps
//! them and `TORCH_NCCL_DUMP_ON_TIMEOUT` writes them, one file for each rank.

mod answer;
mod compare;
mod job;
mod problem;
pub mod tables;

use std::collections::BTreeMap;

use byte_source::logical_name;

use crate::data::{Data, Id, Node};
use crate::error::{Error, Result};
pub use crate::frames::{StackId, Stacks};

pub use answer::ranks_text;
pub use compare::Mismatch;
pub use job::{Group, Job, Unfinished};
pub use problem::{Problem, ProblemKind};

/// State of a collective on one rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// The host called it; the GPU has not begun.
    Scheduled,
    /// The GPU has begun.
    Started,
    /// Done.
    Completed,
}

impl State {
    /// Returns the word of the dumps.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Started => "started",
            Self::Completed => "completed",
        }
    }
}

/// Tensors of a call: sizes and dtypes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct Tensors {
    /// Dimensions of each tensor.
    pub sizes: Vec<Vec<i64>>,
    /// Dtypes, in the order of the tensors.
    pub dtypes: Vec<String>,
}

impl Tensors {
    /// Returns the sizes as text: `[1024, 8]`.
    pub fn sizes_text(&self) -> String {
        let one = |sizes: &Vec<i64>| {
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            format!("[{}]", sizes.join(", "))
        };
        let all: Vec<String> = self.sizes.iter().map(one).collect();
        all.join(" ")
    }

    /// Returns the different dtypes.
    pub fn dtypes_text(&self) -> String {
        let mut all = self.dtypes.clone();
        all.sort();
        all.dedup();
        all.join(" ")
    }
}

/// A call of a collective, or of a send or receive, on one rank.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// Name of its process group.
    pub group: String,
    /// Number of the group within the process.
    group_number: Option<i64>,
    /// Number of the collective in its group, from 1; calls of one coalesced group share it.
    pub seq: i64,
    /// Operation: `all_reduce`, `send`.
    pub operation: String,
    /// Sender and receiver as ranks in the group, of a send or receive. The sender may be unknown.
    pub peers: Option<(Option<u32>, u32)>,
    /// Inputs.
    pub inputs: Tensors,
    /// Outputs.
    pub outputs: Tensors,
    /// State.
    pub state: State,
    /// Time of the call in ns since 1970.
    pub created_ns: Option<i64>,
    /// Where it was called.
    pub stack: StackId,
}

impl Entry {
    /// Returns `true` for sends and receives.
    pub fn is_p2p(&self) -> bool {
        self.peers.is_some()
    }
}

/// Last collectives of a group that a process knows of, even where their entries were overwritten.
#[derive(Clone, Copy, Default, Debug)]
struct Status {
    called: i64,
    started: i64,
    completed: i64,
}

/// A process group as one rank describes it.
#[derive(Clone, Debug)]
struct Config {
    description: String,
    ranks: Vec<u32>,
}

/// The dump of one rank.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RankDump {
    /// Name of the input.
    pub name: String,
    /// The rank, by the name of the file; `None` if the name has no number.
    pub rank: Option<u32>,
    /// Calls, in the order in which they were made.
    pub entries: Vec<Entry>,
    /// Stacks of the calls.
    pub stacks: Stacks,
    /// `true` if older calls were overwritten.
    pub is_cut: bool,
    /// Records that lack what they need, and were left out.
    pub skipped: u64,
    configs: BTreeMap<String, Config>,
    status: BTreeMap<i64, Status>,
}

/// Returns `true` if these are data of a dump.
pub(crate) fn is_dump(data: &Data, root: Id) -> bool {
    data.field(root, "pg_config").is_some()
        || data
            .list(root, "entries")
            .iter()
            .any(|entry| data.field(*entry, "profiling_name").is_some())
}

impl RankDump {
    pub(crate) fn of(name: &str, data: &Data, root: Id) -> Result<Self> {
        let mut dump = Self {
            name: name.to_owned(),
            rank: data
                .int_of(root, "rank")
                .and_then(|rank| u32::try_from(rank).ok())
                .or_else(|| rank_in_name(name)),
            entries: Vec::new(),
            stacks: Stacks::default(),
            is_cut: false,
            skipped: 0,
            configs: configs(data, root),
            status: BTreeMap::new(),
        };
        let status = data
            .field(root, "pg_status")
            .map_or(&[][..], |id| data.pairs(id));
        for (number, of) in status {
            let last = |key| data.int_of(*of, key).unwrap_or(0);
            if let Some(number) = data.int(*number) {
                let status = Status {
                    called: last("last_enqueued_collective"),
                    started: last("last_started_collective"),
                    completed: last("last_completed_collective"),
                };
                dump.status.insert(number, status);
            }
        }
        let list = data.list(root, "entries");
        let first = list.first().and_then(|id| data.int_of(*id, "record_id"));
        dump.is_cut = first.is_some_and(|first| first > 0);
        for id in list {
            match entry(data, *id, &mut dump.stacks) {
                Some(entry) => dump.entries.push(entry),
                None => dump.skipped += 1,
            }
        }
        dump.stacks.seal();
        Ok(dump)
    }

    /// Returns `true` if the rank, by the name of the file, is a member of none of the groups that the dump describes.
    pub(crate) fn is_doubtful(&self) -> bool {
        let mut configs = self.configs.values();
        !self.configs.is_empty()
            && self
                .rank
                .is_some_and(|rank| !configs.any(|config| config.ranks.contains(&rank)))
    }

    /// Returns the rank.
    ///
    /// # Errors
    ///
    /// Returns an error if it is unknown.
    pub fn known_rank(&self) -> Result<u32> {
        self.rank.ok_or_else(|| Error::Rank {
            name: self.name.clone(),
            what: "the rank of this Flight Recorder dump is not known: the number at the end of the file's name is the \
                   rank, as in nccl_trace_rank_3"
                .to_owned(),
        })
    }
}

fn entry(data: &Data, id: Id, stacks: &mut Stacks) -> Option<Entry> {
    let name = data.text_of(id, "profiling_name")?;
    let operation = name
        .rsplit_once(':')
        .map_or(name, |(_, operation)| operation);
    let (operation, peers) = match operation.split_once(' ') {
        Some((operation, peers)) => (operation, Some(parse_peers(operation, peers)?)),
        None => (operation, None),
    };
    // Until version 2.2, the group was a name alone.
    let of = data.field(id, "process_group");
    let group = of.and_then(|of| match data.items(of).first() {
        Some(name) => group_name(data, *name),
        None => group_name(data, of),
    });
    let seq = data
        .int_of(id, "collective_seq_id")
        .or_else(|| data.int_of(id, "seq_id"));
    let tensors = |sizes: &str, dtypes: &str| Tensors {
        sizes: data
            .list(id, sizes)
            .iter()
            .map(|tensor| {
                data.items(*tensor)
                    .iter()
                    .filter_map(|n| data.int(*n))
                    .collect()
            })
            .collect(),
        dtypes: data
            .list(id, dtypes)
            .iter()
            .filter_map(|dtype| data.text(*dtype).map(str::to_owned))
            .collect(),
    };
    let group_number = data.int_of(id, "pg_id");
    Some(Entry {
        group: group.or_else(|| group_number.map(|number| number.to_string()))?,
        group_number,
        seq: match peers {
            Some(_) => data.int_of(id, "p2p_seq_id").or(seq)?,
            None => seq?,
        },
        operation: operation.to_owned(),
        peers,
        inputs: tensors("input_sizes", "input_dtypes"),
        outputs: tensors("output_sizes", "output_dtypes"),
        state: match data.text_of(id, "state")? {
            "completed" => State::Completed,
            "started" => State::Started,
            _ => State::Scheduled,
        },
        created_ns: data.int_of(id, "time_created_ns").filter(|time| *time > 0),
        stack: stacks.add(data, data.field(id, "frames")),
    })
}

/// Returns sender and receiver of `1->2` or `2<-1`; the sender may be `?`.
fn parse_peers(operation: &str, peers: &str) -> Option<(Option<u32>, u32)> {
    let (from, to) = match operation {
        "recv" => {
            let (to, from) = peers.split_once("<-")?;
            (from, to)
        }
        _ => peers.split_once("->")?,
    };
    Some((from.trim().parse().ok(), to.trim().parse().ok()?))
}

fn group_name(data: &Data, id: Id) -> Option<String> {
    match data.get(id) {
        Node::Text(text) => Some(text.to_string()),
        Node::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

fn configs(data: &Data, root: Id) -> BTreeMap<String, Config> {
    let list = data
        .field(root, "pg_config")
        .map_or(&[][..], |id| data.pairs(id));
    let one = |(key, of): &(Id, Id)| {
        let name = group_name(data, *key)?;
        let ranks = data.field(*of, "ranks")?;
        let mut ranks: Vec<u32> = match data.get(ranks) {
            // The list is written as text.
            Node::Text(text) => text
                .split(|c: char| !c.is_ascii_digit())
                .filter_map(|number| number.parse().ok())
                .collect(),
            _ => {
                let items = data.items(ranks).iter();
                items
                    .filter_map(|id| u32::try_from(data.int(*id)?).ok())
                    .collect()
            }
        };
        ranks.sort_unstable();
        ranks.dedup();
        let description = data.text_of(*of, "desc").unwrap_or_default();
        let description = match description {
            "undefined" => String::new(),
            text => text.to_owned(),
        };
        Some((name, Config { description, ranks }))
    };
    list.iter().filter_map(one).collect()
}

/// Returns the rank in the name of a dump: the number after the word `rank`, else the one at its end.
///
/// ```
/// assert_eq!(torch_dumps::flight::rank_in_name("/tmp/nccl_trace_rank_3"), Some(3));
/// ```
pub fn rank_in_name(name: &str) -> Option<u32> {
    let file = name.rsplit(['/', '\\', '!']).next().unwrap_or(name);
    let file = logical_name(file).to_ascii_lowercase();
    let stem = [".pickle", ".pkl", ".json", ".txt", ".bin", ".dump"]
        .iter()
        .find_map(|end| file.strip_suffix(end))
        .unwrap_or(&file);
    let digits_at = |text: &str| {
        let end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        text.get(..end)?.parse().ok()
    };
    let after_word = || {
        let at = stem.rfind("rank")? + "rank".len();
        digits_at(stem.get(at..)?.trim_start_matches(['_', '-', '.', '=']))
    };
    let at_end = || {
        let start = stem.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| {
            at + stem
                .get(at..)
                .and_then(|rest| rest.chars().next())
                .map_or(1, char::len_utf8)
        });
        digits_at(stem.get(start..)?)
    };
    after_word().or_else(at_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_in_names() {
        for (name, rank) in [
            ("/tmp/nccl_trace_rank_3", Some(3)),
            ("nccl_trace_rank_12.pickle", Some(12)),
            ("fr2/rank5_host7.json.gz", Some(5)),
            ("dump7", Some(7)),
            ("comm_fr_trace_é2", Some(2)),
            ("42", Some(42)),
            ("dump", None),
            ("", None),
        ] {
            assert_eq!(rank_in_name(name), rank, "{name}");
        }
    }

    #[test]
    fn peers_of_sends_and_receives() {
        assert_eq!(parse_peers("send", "1->2"), Some((Some(1), 2)));
        assert_eq!(parse_peers("recv", "3<-0"), Some((Some(0), 3)));
        assert_eq!(parse_peers("recv", "3<-?"), Some((None, 3)));
        assert_eq!(parse_peers("recv", "3"), None);
    }
}
