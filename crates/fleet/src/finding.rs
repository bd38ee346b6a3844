//! Findings: what stands out, how sure that is, and where to look.

use serde::Serialize;

use crate::words::quoted;

/// What stands out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// Other ranks wait for a rank in their collectives.
    LateRank,
    /// The hosts of a rack are late.
    LateRack,
    /// The ranks of a host are late.
    LateHost,
    /// The same device of several hosts is late.
    LateDevice,
    /// A device runs the same kernels slower.
    SlowDevice,
    /// One kernel runs slower on a rank.
    SlowKernel,
    /// Collectives of a group transfer the same bytes slower.
    SlowLink,
    /// A rank runs other kernels.
    OtherKernels,
    /// A rank runs the same kernels more or less often in a step.
    OtherCounts,
    /// The clock of a host differs.
    HostClock,
    /// The clock of a rank differs.
    RankClock,
    /// A rank of the job has no recording.
    MissingRank,
    /// A rank has several recordings.
    Duplicate,
    /// A recording cannot be read.
    Unreadable,
    /// A recording has fewer steps than those of the other ranks.
    Truncated,
    /// A recording lost data.
    LostData,
}

impl Kind {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::LateRank => "late_rank",
            Self::LateRack => "late_rack",
            Self::LateHost => "late_host",
            Self::LateDevice => "late_device",
            Self::SlowDevice => "slow_device",
            Self::SlowKernel => "slow_kernel",
            Self::SlowLink => "slow_link",
            Self::OtherKernels => "other_kernels",
            Self::OtherCounts => "other_counts",
            Self::HostClock => "host_clock",
            Self::RankClock => "rank_clock",
            Self::MissingRank => "missing_rank",
            Self::Duplicate => "duplicate",
            Self::Unreadable => "unreadable",
            Self::Truncated => "truncated",
            Self::LostData => "lost_data",
        }
    }

    /// Returns `true` for findings about the recordings and not about the job.
    pub fn is_about_recordings(self) -> bool {
        matches!(
            self,
            Self::MissingRank
                | Self::Duplicate
                | Self::Unreadable
                | Self::Truncated
                | Self::LostData
        )
    }
}

/// How sure a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// It is beyond what chance and the scatter of the other ranks explain, and recorded.
    Established,
    /// It is beyond the scatter of the other ranks; something that is not recorded could explain it.
    Likely,
    /// It differs; whether it matters is open.
    Possible,
}

impl Strength {
    /// Returns the word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}

/// Part of a recording that shows a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Rank.
    pub rank: u32,
    /// Recording.
    pub file: String,
    /// Begin on the clock of the recording.
    pub begin_ns: i64,
    /// End.
    pub end_ns: i64,
    /// Begin in nanoseconds since 1970, if the recording states it.
    pub begin_since_1970_ns: Option<i64>,
}

impl Window {
    /// Returns the command that cuts the window out of the recording.
    pub fn command(&self) -> String {
        format!(
            "inferscope trace-info slim {} --window {}..{} -o rank{}.json.gz",
            quoted(&self.file),
            self.begin_ns,
            self.end_ns,
            self.rank
        )
    }
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Made of what it is about: `late_rank-17`.
    pub id: String,
    /// What stands out.
    pub kind: Kind,
    /// How sure it is.
    pub strength: Strength,
    /// One sentence with the numbers.
    pub title: String,
    /// Ranks it is about, ascending.
    pub ranks: Vec<u32>,
    /// Rack it is about.
    pub rack: Option<String>,
    /// Host it is about.
    pub host: Option<String>,
    /// Group of ranks it is about.
    pub group: Option<String>,
    /// Kernel it is about.
    pub kernel: Option<String>,
    /// Time that it costs all ranks together, where that can be told.
    pub cost_ns: Option<i64>,
    /// Share of the time that the affected ranks spend in collectives, in percent.
    pub share_pct: Option<f64>,
    /// Where to look.
    pub window: Option<Window>,
    /// Command that cuts the window out of the recording.
    pub command: Option<String>,
}

impl Finding {
    pub(crate) fn new(kind: Kind, what: &str, strength: Strength, title: String) -> Self {
        Self {
            id: format!("{}-{what}", kind.name()),
            kind,
            strength,
            title,
            ranks: Vec::new(),
            rack: None,
            host: None,
            group: None,
            kernel: None,
            cost_ns: None,
            share_pct: None,
            window: None,
            command: None,
        }
    }

    pub(crate) fn of_ranks(mut self, ranks: impl IntoIterator<Item = u32>) -> Self {
        self.ranks = ranks.into_iter().collect();
        self.ranks.sort_unstable();
        self
    }

    pub(crate) fn at(mut self, window: Option<Window>) -> Self {
        self.command = window.as_ref().map(Window::command);
        self.window = window;
        self
    }
}
