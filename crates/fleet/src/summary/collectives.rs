//! The collectives of a rank in columns, and back to the digest that the analysis of a job takes.

use gpu_time::comm::{CommLibrary, RankDigest, RankSource, Run};
use serde::{Deserialize, Serialize};
use trace_model::kernel::collective::{Collective, CollectiveKind, CollectiveOp, SizeSource};
use trace_model::{DeviceId, Rank, StreamId};

use super::RankSummary;

/// Collectives of a rank. Runs that differ only in number and time share a lane; numbers and starts are differences to the run before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collectives {
    /// Number of collective kernels in the recording.
    pub total: u64,
    /// Kept are the runs whose sequence number is a multiple of two to the power of this, and of those without a number the first ones
    /// of each lane.
    pub thinned: u32,
    /// Number of runs with metadata.
    pub annotated: u64,
    /// Number of runs whose launch is not recorded.
    pub unlinked: u64,
    /// Number of graphs that are recorded as a whole.
    pub graphs_whole: u64,
    names: Vec<String>,
    kinds: Vec<StoredKind>,
    lanes: Vec<Lane>,
    lane: Vec<u32>,
    seq: Vec<Option<i64>>,
    start: Vec<i64>,
    duration: Vec<i64>,
    /// Time in dropped runs since the kept run before, for each run; empty unless runs are dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    between: Vec<i64>,
    /// Start of each run, and the time in dropped runs up to it. Kept where the runs themselves are not.
    #[serde(skip)]
    dropped: Vec<(i64, i64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Lane {
    kernel: u32,
    kind: u32,
    device: i64,
    stream: i64,
    library: String,
}

/// A collective without its place in the sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredKind {
    name: String,
    op: Option<String>,
    bytes: Option<u64>,
    size_source: Option<String>,
    elements: [Option<u64>; 2],
    dtype: Option<String>,
    group_size: Option<u32>,
    group: Option<String>,
    ranks: Option<Members>,
    split: [Option<String>; 2],
    ends: [Option<u32>; 2],
}

/// Members of a group: regular lists are stored by their rule, because those of large groups fill the summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Members {
    Regular { first: u32, step: u32, count: u32 },
    Text(String),
}

impl Members {
    fn new(text: &str) -> Self {
        let numbers = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'))
            .map(|text| text.split(", ").map(|n| n.parse::<u32>().ok()).collect());
        let numbers: Option<Vec<u32>> = numbers.flatten();
        if let Some([first, second, ..]) = numbers.as_deref()
            && let Some(step) = second.checked_sub(*first)
            && let Some(count) = numbers
                .as_ref()
                .and_then(|all| u32::try_from(all.len()).ok())
        {
            let rule = Self::Regular {
                first: *first,
                step,
                count,
            };
            if rule.text() == text {
                return rule;
            }
        }
        Self::Text(text.to_owned())
    }

    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Regular { first, step, count } => {
                // A damaged file must not ask for more than any job has.
                let count = (*count).min(1 << 20);
                let member = |n: u32| u64::from(*first) + u64::from(*step) * u64::from(n);
                let all: Vec<String> = (0..count).map(|n| member(n).to_string()).collect();
                format!("[{}]", all.join(", "))
            }
        }
    }
}

/// A process group that the head of a recording lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatedGroup {
    /// Its name.
    pub name: String,
    members: Members,
}

impl StatedGroup {
    /// Returns the members as a recording writes them: `[0, 1, 2]`.
    pub fn members(&self) -> String {
        self.members.text()
    }
}

/// Returns the groups of several ranks that a recording lists.
pub(super) fn stated_groups(meta: &trace_model::Metadata) -> Vec<StatedGroup> {
    let groups = meta.distributed.iter().flat_map(|job| &job.groups);
    let several = groups.filter(|group| group.ranks.len() > 1);
    let each = several.map(|group| {
        let ranks: Vec<String> = group.ranks.iter().map(u32::to_string).collect();
        StatedGroup {
            name: group.name.clone(),
            members: Members::new(&format!("[{}]", ranks.join(", "))),
        }
    });
    each.collect()
}

impl StoredKind {
    fn new(what: &Collective) -> Self {
        Self {
            name: what.name.clone(),
            op: what.op.map(|op| op.name().to_owned()),
            bytes: what.bytes,
            size_source: what.size_source.map(|source| source.name().to_owned()),
            elements: [what.elements_in, what.elements_out],
            dtype: what.dtype.clone(),
            group_size: what.group_size,
            group: what.group.clone(),
            ranks: what.ranks.as_deref().map(Members::new),
            split: [what.split_in.clone(), what.split_out.clone()],
            ends: what.ends,
        }
    }

    fn kind(&self) -> CollectiveKind {
        let op = self.op.as_deref();
        let op = CollectiveOp::ALL
            .into_iter()
            .find(|known| Some(known.name()) == op);
        let mut kind = CollectiveKind::named(&self.name, op);
        kind.bytes = self.bytes;
        let source = self.size_source.as_deref();
        let sources = [SizeSource::Metadata, SizeSource::Operator];
        kind.size_source = sources
            .into_iter()
            .find(|known| Some(known.name()) == source);
        [kind.elements_in, kind.elements_out] = self.elements;
        kind.dtype.clone_from(&self.dtype);
        kind.group_size = self.group_size;
        kind.group.clone_from(&self.group);
        kind.ranks = self.ranks.as_ref().map(Members::text);
        let [split_in, split_out] = &self.split;
        kind.split_in.clone_from(split_in);
        kind.split_out.clone_from(split_out);
        kind.ends = self.ends;
        kind
    }
}

impl Collectives {
    pub(super) fn new(digest: &RankDigest) -> Self {
        let mut out = Self {
            total: digest.runs.len() as u64,
            annotated: digest.annotated as u64,
            unlinked: digest.unlinked as u64,
            graphs_whole: digest.graphs_whole,
            kinds: digest.kinds.iter().map(StoredKind::new).collect(),
            ..Self::default()
        };
        out.fill(digest, &digest.runs);
        out
    }

    /// Writes runs, which are in ascending time, as columns.
    fn fill(&mut self, digest: &RankDigest, runs: &[Run]) {
        self.names.clear();
        self.lanes.clear();
        self.lane.clear();
        self.seq.clear();
        self.start.clear();
        self.duration.clear();
        // Last number of each lane.
        let mut numbers: Vec<i64> = Vec::new();
        let mut last_start = 0_i64;
        for run in runs {
            let name = super::make::short(digest.kernel_name(run));
            let kernel = self.names.iter().position(|known| *known == name);
            let kernel = kernel.unwrap_or_else(|| {
                self.names.push(name);
                self.names.len() - 1
            });
            let lane = Lane {
                kernel: u32::try_from(kernel).unwrap_or(u32::MAX),
                kind: run.kind,
                device: run.device.0,
                stream: run.stream.0,
                library: run.library.name().to_owned(),
            };
            let at = self.lanes.iter().position(|known| *known == lane);
            let at = at.unwrap_or_else(|| {
                self.lanes.push(lane);
                numbers.push(0);
                self.lanes.len() - 1
            });
            self.lane.push(u32::try_from(at).unwrap_or(u32::MAX));
            let before = numbers.get_mut(at);
            self.seq.push(run.seq.zip(before).map(|(seq, before)| {
                let step = seq.wrapping_sub(*before);
                *before = seq;
                step
            }));
            self.start.push(run.start_ns.saturating_sub(last_start));
            self.duration.push(run.duration_ns());
            last_start = run.start_ns;
        }
    }

    /// Returns the start of each kept run, ascending, with the time in dropped runs up to it, after [`Self::forget_runs`]; empty if no run
    /// is dropped.
    pub(crate) fn dropped(&self) -> &[(i64, i64)] {
        &self.dropped
    }

    /// Drops the runs, of which a digest was made, and keeps the totals and the time in runs that are not kept.
    pub(crate) fn forget_runs(&mut self) {
        let (mut start, mut sum) = (0_i64, 0_i64);
        let each = self.start.iter().zip(&self.between).map(|(step, between)| {
            start = start.saturating_add(*step);
            sum = sum.saturating_add(*between);
            (start, sum)
        });
        let mut dropped: Vec<(i64, i64)> = each.collect();
        dropped.sort_unstable();
        let totals = Self {
            total: self.total,
            thinned: self.thinned,
            annotated: self.annotated,
            unlinked: self.unlinked,
            graphs_whole: self.graphs_whole,
            dropped,
            ..Self::default()
        };
        *self = totals;
    }

    /// Returns the number of kept runs.
    pub fn len(&self) -> usize {
        self.lane.len()
    }

    /// Returns `true` if no run is kept.
    pub fn is_empty(&self) -> bool {
        self.lane.is_empty()
    }

    /// Drops about half of the runs.
    pub(super) fn thin(&mut self, rank: u32) {
        self.thinned += 1;
        let every = 1_i64.checked_shl(self.thinned).unwrap_or(i64::MAX);
        let digest = self.filled(RankDigest::empty("", Rank(rank), RankSource::Place));
        let mut of_lane: std::collections::BTreeMap<(u32, u32), usize> =
            std::collections::BTreeMap::new();
        let unnumbered = |run: &&Run| run.seq.is_none();
        for run in digest.runs.iter().filter(unnumbered) {
            *of_lane.entry((run.kernel, run.kind)).or_default() += 1;
        }
        for left in of_lane.values_mut() {
            *left /= 2;
        }
        let mut is_kept = |run: &Run| match run.seq {
            Some(seq) => seq % every == 0,
            None => {
                let left = of_lane.entry((run.kernel, run.kind)).or_default();
                let is_kept = *left > 0;
                *left = left.saturating_sub(1);
                is_kept
            }
        };
        let (mut kept, mut between, mut since) = (Vec::new(), Vec::new(), 0_i64);
        for (at, run) in digest.runs.iter().enumerate() {
            since = since.saturating_add(self.between.get(at).copied().unwrap_or(0));
            if is_kept(run) {
                kept.push(run.clone());
                between.push(std::mem::take(&mut since));
            } else {
                since = since.saturating_add(run.duration_ns());
            }
        }
        self.fill(&digest, &kept);
        self.between = between;
    }

    /// Adds the kept runs to an empty digest.
    fn filled(&self, mut digest: RankDigest) -> RankDigest {
        digest.names.clone_from(&self.names);
        digest.kinds = self.kinds.iter().map(|kind| kind.kind().into()).collect();
        digest.annotated = usize::try_from(self.annotated).unwrap_or(usize::MAX);
        digest.unlinked = usize::try_from(self.unlinked).unwrap_or(usize::MAX);
        digest.graphs_whole = self.graphs_whole;
        let libraries: Vec<CommLibrary> = self
            .lanes
            .iter()
            .map(|lane| {
                let known = CommLibrary::ALL.into_iter();
                let mut known = known.filter(|library| library.name() == lane.library);
                known.next().unwrap_or(CommLibrary::Other)
            })
            .collect();
        let mut numbers = vec![0_i64; self.lanes.len()];
        let mut start = 0_i64;
        let columns = self.lane.iter().zip(&self.seq).zip(&self.start);
        for (((lane, seq), step), duration) in columns.zip(&self.duration) {
            start = start.saturating_add(*step);
            let at = *lane as usize;
            let (Some(lane), Some(library), Some(number)) =
                (self.lanes.get(at), libraries.get(at), numbers.get_mut(at))
            else {
                continue;
            };
            let end = start.saturating_add(*duration);
            let mut run = Run::new(lane.kernel, lane.kind, start, end);
            run.seq = seq.map(|step| {
                *number = number.wrapping_add(step);
                *number
            });
            run.device = DeviceId(lane.device);
            run.stream = StreamId(lane.stream);
            run.library = *library;
            digest.runs.push(run);
        }
        digest
    }
}

/// Returns the digest of a summary for [`gpu_time::comm::Job`]. The work before each collective is not kept, so that the job tells who was
/// late and not why.
pub(crate) fn digest(summary: &RankSummary) -> RankDigest {
    let sources = [
        RankSource::Stated,
        RankSource::Arguments,
        RankSource::FileName,
        RankSource::Place,
    ];
    let source = sources
        .into_iter()
        .find(|known| known.name() == summary.rank_source);
    let source = source.unwrap_or(RankSource::Place);
    let mut digest = RankDigest::empty(&summary.file, Rank(summary.rank), source);
    digest.world_size = summary.world_size;
    digest.base_time_ns = summary.base_time_ns;
    if summary.is_nsys {
        digest.recorder = gpu_time::Recorder::Nsys;
    }
    summary.collectives.filled(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_text() {
        for text in [
            "[0, 1, 2, 3]",
            "[1, 9, 17]",
            "[3]",
            "[]",
            "[0, 1, 3]",
            "[0,1,2]",
            "0",
        ] {
            let members = Members::new(text);
            assert_eq!(members.text(), text);
        }
        assert!(matches!(
            Members::new("[1, 9, 17]"),
            Members::Regular {
                first: 1,
                step: 8,
                count: 3
            }
        ));
    }
}
