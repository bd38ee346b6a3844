//! Finds why the last rank of a collective was late, by comparing its work since the collective
//! before with the work of the other ranks in the same time.

use std::collections::BTreeMap;

use serde::Serialize;
use trace_model::Waiting;
use trace_model::align::kernel_stem;

use crate::comm::digest::RankDigest;
use crate::comm::job::CollectiveTime;
use crate::comm::preceding_work::{Before, Spent};
use rank_align::RankClock;
use rank_align::real::median;

/// Kind of the cause of a late rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum CauseKind {
    /// The same kernels took longer.
    SlowerKernels,
    /// The rank ran more kernels.
    MoreKernels,
    /// The GPU waited while a host function took longer.
    SlowerHost,
    /// The GPU waited for an unknown reason.
    DeviceIdle,
    /// The rank waited for another one in a collective of another group, which is named.
    PassedOn,
    /// The collective came late although GPU and host behaved like those of the other ranks: the
    /// rank left the collective before late, or waited for something that is not recorded.
    NotOnRecord,
    /// It is the first recorded collective: when the ranks diverged is unknown.
    NoHistory,
}

impl CauseKind {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::SlowerKernels => "slower_kernels",
            Self::MoreKernels => "more_kernels",
            Self::SlowerHost => "slower_host",
            Self::DeviceIdle => "device_idle",
            Self::PassedOn => "passed_on",
            Self::NotOnRecord => "not_on_record",
            Self::NoHistory => "no_history",
        }
    }

    /// Returns the cause in words, for sentences and tables of text output.
    pub fn words(self) -> &'static str {
        match self {
            Self::SlowerKernels => "slower kernel",
            Self::MoreKernels => "more kernels",
            Self::SlowerHost => "slower host code",
            Self::DeviceIdle => "GPU idle, host alike",
            Self::PassedOn => "waited for",
            Self::NotOnRecord => "nothing recorded",
            Self::NoHistory => "first collective",
        }
    }
}

/// Cause of a late rank. The numbers of the other ranks are medians.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[non_exhaustive]
pub struct Cause {
    /// Kind of the cause.
    pub kind: CauseKind,
    /// The kernel or host function with the largest excess.
    pub name: Option<String>,
    /// Time of that kernel or function on the late rank.
    pub here_ns: i64,
    /// Its time on the other ranks.
    pub others_ns: i64,
    /// Number of its runs on the late rank; for host functions, the number of stretches.
    pub here_count: i64,
    /// Number of its runs on the other ranks.
    pub others_count: i64,
    /// Delay of the start of the rank against the median of the other ranks.
    pub lateness_ns: i64,
}

impl Cause {
    /// Returns the time in excess of the other ranks.
    pub fn excess_ns(&self) -> i64 {
        self.here_ns.saturating_sub(self.others_ns)
    }

    /// Returns the name for text output: kernels without template arguments and parameters.
    pub fn short_name(&self) -> Option<String> {
        let name = self.name.as_deref()?;
        Some(match self.kind {
            CauseKind::SlowerKernels | CauseKind::MoreKernels => kernel_stem(name),
            _ => name.to_owned(),
        })
    }

    /// Returns the cause in words with its name, for sentences.
    pub fn sentence(&self) -> String {
        let name = self.short_name().unwrap_or_default();
        match self.kind {
            CauseKind::MoreKernels if is_copy(&name) => format!("it copied more ({name})"),
            CauseKind::SlowerKernels if is_copy(&name) => format!("its {name} took longer"),
            CauseKind::SlowerKernels => format!("its kernel {name} took longer"),
            CauseKind::MoreKernels => format!("it ran more kernels {name}"),
            CauseKind::SlowerHost if Waiting::of_own_time(&name) == Some(Waiting::Input) => {
                format!("its host waited longer in {name}")
            }
            CauseKind::SlowerHost => format!("its host spent longer in {name}"),
            CauseKind::DeviceIdle => {
                "its GPU idled longer, for a reason that is not recorded".to_owned()
            }
            CauseKind::PassedOn => format!("it had waited for {name} in another group"),
            CauseKind::NotOnRecord => "its recorded work does not explain it".to_owned(),
            CauseKind::NoHistory => {
                "no collective is recorded before, to compare the ranks from".to_owned()
            }
        }
    }

    /// Returns the cause without its numbers.
    pub(crate) fn kind_and_name(&self) -> Self {
        Self {
            kind: self.kind,
            name: self.name.clone(),
            here_ns: 0,
            others_ns: 0,
            here_count: 0,
            others_count: 0,
            lateness_ns: 0,
        }
    }
}

/// Divisor of the lateness that gives the minimum excess of a cause.
const LEAST_PART: i64 = 4;

struct Excess {
    name: String,
    here: (i64, i64),
    others: (i64, i64),
}

/// Time and count on the late rank, and on each other rank that has any.
type Entry = (i64, i64, Vec<(i64, i64)>);

/// Returns the entry with the largest excess over the median of the other ranks.
fn largest_excess(
    (digest, here): (&RankDigest, &[Spent]),
    others: &[(&RankDigest, &[Spent])],
) -> Option<Excess> {
    let mut table: BTreeMap<&str, Entry> = BTreeMap::new();
    for spent in here {
        let entry = table.entry(digest.text(spent.name)).or_default();
        entry.0 += spent.ns;
        entry.1 += i64::from(spent.count);
    }
    for (digest, list) in others {
        let mut sums: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        for spent in *list {
            let sum = sums.entry(digest.text(spent.name)).or_default();
            sum.0 += spent.ns;
            sum.1 += i64::from(spent.count);
        }
        for (name, sum) in sums {
            if let Some(entry) = table.get_mut(name) {
                entry.2.push(sum);
            }
        }
    }
    table
        .into_iter()
        .map(|(name, (ns, n, mut list))| {
            list.resize(others.len(), (0, 0));
            Excess {
                name: name.to_owned(),
                here: (ns, n),
                others: (
                    median(list.iter().map(|l| l.0).collect()).unwrap_or(0),
                    median(list.iter().map(|l| l.1).collect()).unwrap_or(0),
                ),
            }
        })
        .max_by_key(|e| (e.here.0 - e.others.0, std::cmp::Reverse(e.name.clone())))
}

pub(crate) fn explain(
    digests: &[RankDigest],
    clocks: &[Option<RankClock>],
    collective: &CollectiveTime,
) -> Option<Cause> {
    let last = collective.last?;
    let start = |i: usize| collective.start_ns.get(i).copied().flatten();
    let side = |i: usize| -> Option<(&RankDigest, &Before)> {
        let (member, place) = collective.matched.runs.get(i)?;
        clocks.get(*member)?.as_ref()?;
        let digest = digests.get(*member)?;
        Some((digest, digest.before.get(*place)?))
    };
    let places = 0..collective.matched.runs.len();
    let others: Vec<usize> = places
        .filter(|i| *i != last && start(*i).is_some())
        .collect();
    let usual = median(others.iter().filter_map(|i| start(*i)).collect())?;
    let lateness_ns = start(last)?.saturating_sub(usual);
    let (digest, here) = side(last)?;
    let sides: Vec<(&RankDigest, &Before)> = others
        .iter()
        .filter_map(|i| side(*i))
        .filter(|s| s.1.has_previous)
        .collect();
    let bare = |kind| Cause {
        kind,
        name: None,
        here_ns: 0,
        others_ns: 0,
        here_count: 0,
        others_count: 0,
        lateness_ns,
    };
    if !here.has_previous || sides.is_empty() {
        return Some(bare(CauseKind::NoHistory));
    }
    let of = |f: fn(&Before) -> i64| median(sides.iter().map(|s| f(s.1)).collect()).unwrap_or(0);
    let idle_others = of(|b| b.idle_ns);
    let idle_excess = here.idle_ns.saturating_sub(idle_others);
    let busy = |b: &Before| b.window_ns.saturating_sub(b.idle_ns);
    let busy_excess = busy(here).saturating_sub(of(|b| b.window_ns.saturating_sub(b.idle_ns)));
    let least = lateness_ns / LEAST_PART;
    let found = |kind, e: Excess| Cause {
        kind,
        name: Some(e.name),
        here_ns: e.here.0,
        others_ns: e.others.0,
        here_count: e.here.1,
        others_count: e.others.1,
        lateness_ns,
    };
    if busy_excess >= idle_excess && busy_excess > least {
        let lists: Vec<_> = sides.iter().map(|s| (s.0, s.1.device.as_slice())).collect();
        let kernel = largest_excess((digest, &here.device), &lists)?;
        let kind = match kernel.here.1 > kernel.others.1 {
            true => CauseKind::MoreKernels,
            false => CauseKind::SlowerKernels,
        };
        return Some(found(kind, kernel));
    }
    if idle_excess > least {
        let lists: Vec<_> = sides.iter().map(|s| (s.0, s.1.host.as_slice())).collect();
        if let Some(function) = largest_excess((digest, &here.host), &lists)
            && function.here.0 - function.others.0 > least
        {
            return Some(found(CauseKind::SlowerHost, function));
        }
        return Some(Cause {
            here_ns: here.idle_ns,
            others_ns: idle_others,
            ..bare(CauseKind::DeviceIdle)
        });
    }
    Some(bare(CauseKind::NotOnRecord))
}

/// Returns `true` for the names of memcpys and memsets, which are no kernels.
fn is_copy(name: &str) -> bool {
    name.starts_with("Memcpy") || name.starts_with("Memset")
}
