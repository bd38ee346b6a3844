//! Assigns the files of a job to its ranks; all tools share this decision.

mod doubts;
mod name;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use doubts::{RankDoubt, misnamed};
pub(crate) use name::in_name;
pub use name::{RankName, names_have_sizes};

use crate::Metadata;
use crate::ids::Rank;
use name::Place;

/// Known properties of one file of a job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recording<'a> {
    /// Path of the file.
    pub name: &'a str,
    /// The rank that the file, or all its collectives, state.
    pub stated: Option<Rank>,
    /// Number of ranks in the job, if the file states it.
    pub world_size: Option<u32>,
    /// Time of the first event in nanoseconds since 1970, if known.
    pub start_ns: Option<i64>,
    /// Time of the last event in nanoseconds since 1970, if known.
    pub end_ns: Option<i64>,
}

impl<'a> Recording<'a> {
    /// Returns what the metadata of a file state, without times.
    #[must_use]
    pub fn new(name: &'a str, meta: &Metadata) -> Self {
        Self {
            name,
            stated: meta.rank(),
            world_size: meta.distributed.as_ref().and_then(|job| job.world_size),
            ..Self::default()
        }
    }

    /// Returns the rank of the file by itself: the one that it states, else the one in its name, if its job has that many ranks. With
    /// `sizes_in_names`, which is [`names_have_sizes`] of all files that are looked at, a number after `tp` counts only if the file
    /// states the size of its job.
    ///
    /// ```
    /// use trace_model::Rank;
    /// use trace_model::ranks::Recording;
    ///
    /// let of = |name, world_size| Recording { name, world_size, ..Recording::default() };
    /// assert_eq!(of("rank7.json", Some(8)).rank(false), Some(Rank(7)));
    /// assert_eq!(of("rank9.json", Some(8)).rank(false), None);
    /// assert_eq!(of("rank9.json", None).rank(false), Some(Rank(9)));
    /// assert_eq!(of("tp4.json", None).rank(true), None);
    /// ```
    #[must_use]
    pub fn rank(&self, sizes_in_names: bool) -> Option<Rank> {
        let mut name = name::of_path(self.name);
        if sizes_in_names && self.world_size.is_none() {
            name = name.without_sizes();
        }
        let is_rank = |rank: &Rank| self.has_rank(*rank);
        self.stated.or_else(|| name.single().filter(is_rank))
    }

    /// Returns `true` unless the job is known to have fewer ranks.
    fn has_rank(&self, rank: Rank) -> bool {
        self.world_size.is_none_or(|size| rank.0 < size)
    }
}

/// Evidence for the ranks of several files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RankEvidence {
    /// The files state them.
    Stated,
    /// Some or all come from the names of the files.
    FileName,
    /// Neither files nor names distinguish ranks: ranks are the positions of the files in the order
    /// of their names.
    Place,
}

/// Ranks of files, in the order of the files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RanksOfFiles {
    /// Rank of each file, all different.
    pub ranks: Vec<Rank>,
    /// Evidence for the ranks.
    pub evidence: RankEvidence,
    /// Evidence against the files being the ranks of one job.
    pub doubts: Vec<RankDoubt>,
}

/// Reason why several files are not the ranks of one job.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NotOneJob {
    /// Several files have the same rank.
    SameRank(SameRank),
    /// The contents or recording times of the files exclude it.
    Doubt(RankDoubt),
}

impl fmt::Display for NotOneJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameRank(same) => same.fmt(f),
            Self::Doubt(doubt) => write!(
                f,
                "{doubt}: they are not ranks of one job; name the files of one session"
            ),
        }
    }
}

impl std::error::Error for NotOneJob {}

/// Several files with the same rank, so that they are not the ranks of one job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SameRank {
    /// The rank.
    pub rank: Rank,
    /// Its files.
    pub files: Vec<String>,
    /// `true` if all files state the rank, `false` if some have it by name only.
    pub is_stated: bool,
    /// Files of one session, one per rank: those that begin closest to the first of `files`, else
    /// the first by name.
    pub session: Vec<String>,
}

/// Maximum number of files that a message names.
const NAMED: usize = 4;

impl fmt::Display for SameRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.is_stated {
            ""
        } else {
            " by their names"
        };
        let (rank, count) = (self.rank, self.files.len());
        let named = self.files.get(..NAMED).unwrap_or(&self.files);
        let files = match count - named.len() {
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        };
        write!(
            f,
            "{count} files are recordings of rank {rank}{by} ({files}): they are several sessions and not ranks of one \
             job; name the files of one session, for example {}",
            self.session.join(" ")
        )
    }
}

impl std::error::Error for SameRank {}

/// Assigns a rank to each file: the one that it states, else the one in its name.
///
/// If some file has neither, all files without a stated rank get the positions of the files in the
/// order of their names. Numbers after `tp` that cannot be ranks ([`names_have_sizes`]) are sizes of jobs.
///
/// ```
/// use trace_model::Rank;
/// use trace_model::ranks::{Recording, assign};
///
/// let file = |name| Recording { name, ..Recording::default() };
/// let found = assign(&[file("job/rank-3.json"), file("job/rank-1.json")])?;
/// assert_eq!(found.ranks, [Rank(3), Rank(1)]);
/// assert!(assign(&[file("rank0_step5.json"), file("rank0_step9.json")]).is_err());
/// # Ok::<(), trace_model::ranks::NotOneJob>(())
/// ```
///
/// # Errors
///
/// Returns an error if two files have the same rank, as joining them would merge two processes, if
/// files state different sizes of the job or are named after different ones, or if they were recorded
/// long after each other.
pub fn assign(files: &[Recording<'_>]) -> Result<RanksOfFiles, NotOneJob> {
    let (named, sizes) = by_names(files);
    // A number in a name is a rank only if the job has it.
    let world_size = files.iter().filter_map(|file| file.world_size).max();
    let is_rank = |rank: &Rank| world_size.is_none_or(|size| rank.0 < size);
    let known: Vec<Option<Rank>> = files
        .iter()
        .zip(&named)
        .map(|(file, named)| file.stated.or(named.filter(is_rank)))
        .collect();
    let mut of_rank: BTreeMap<Rank, Vec<usize>> = BTreeMap::new();
    for (at, rank) in known.iter().enumerate() {
        if let Some(rank) = rank {
            of_rank.entry(*rank).or_default().push(at);
        }
    }
    if let Some((rank, same)) = of_rank.iter().find(|(_, same)| same.len() > 1) {
        let same = same_rank(files, *rank, same, &of_rank);
        return Err(NotOneJob::SameRank(same));
    }
    let mut doubts = doubts::of(files, &named);
    doubts.extend(sizes);
    if let Some(doubt) = doubts.iter().find(|doubt| doubt.excludes_a_join()) {
        return Err(NotOneJob::Doubt(doubt.clone()));
    }
    let ranks: Option<Vec<Rank>> = known.into_iter().collect();
    if let Some(ranks) = ranks {
        let is_stated = files.iter().all(|file| file.stated.is_some());
        let evidence = if is_stated {
            RankEvidence::Stated
        } else {
            RankEvidence::FileName
        };
        return Ok(RanksOfFiles {
            ranks,
            evidence,
            doubts,
        });
    }
    // Stated ranks are kept; the other files get the remaining positions.
    let stated: BTreeSet<Rank> = files.iter().filter_map(|file| file.stated).collect();
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.retain(|at| files[*at].stated.is_none());
    order.sort_by_key(|at| files[*at].name);
    let mut free = (0..=u32::MAX)
        .map(Rank)
        .filter(|rank| !stated.contains(rank));
    let mut ranks: Vec<Rank> = files
        .iter()
        .map(|file| file.stated.unwrap_or(Rank(0)))
        .collect();
    for at in order {
        ranks[at] = free.next().unwrap_or(Rank(u32::MAX));
    }
    Ok(RanksOfFiles {
        ranks,
        evidence: RankEvidence::Place,
        doubts,
    })
}

fn same_rank(
    files: &[Recording<'_>],
    rank: Rank,
    same: &[usize],
    of_rank: &BTreeMap<Rank, Vec<usize>>,
) -> SameRank {
    let mut order = same.to_vec();
    order.sort_by_key(|at| (files[*at].start_ns, files[*at].name));
    let first = order.first().and_then(|at| files[*at].start_ns);
    let closest = |all: &Vec<usize>| {
        let mut all = all.clone();
        all.sort_by_key(|at| {
            let start = files[*at].start_ns;
            let away = start.zip(first).map(|(start, first)| start.abs_diff(first));
            (away, files[*at].name)
        });
        all.first().map(|at| files[*at].name.to_owned())
    };
    SameRank {
        rank,
        files: order.iter().map(|at| files[*at].name.to_owned()).collect(),
        is_stated: same.iter().all(|at| files[*at].stated.is_some()),
        session: of_rank.values().filter_map(closest).collect(),
    }
}

/// Returns the ranks in the names, and the doubt that numbers in them are sizes, which then are no ranks. If names
/// distinguish data, pipeline and tensor parallel ranks, they are numbered in this order.
fn by_names(files: &[Recording<'_>]) -> (Vec<Option<Rank>>, Option<RankDoubt>) {
    let paths: Vec<&str> = files.iter().map(|file| file.name).collect();
    let mut names = name::of_paths(&paths);
    // A job that has as many ranks says itself that the number may be one.
    let is_rank = |file: &Recording<'_>, tp| file.world_size.is_some() && file.has_rank(Rank(tp));
    let open = files.iter().zip(&names).filter(|(file, name)| {
        file.stated.is_none() && !name.tp().is_some_and(|tp| is_rank(file, tp))
    });
    let sizes = name::sizes(open.map(|(_, name)| name));
    let doubt = (!sizes.is_empty()).then(|| {
        let of = |size: &u32| {
            let mut all = files.iter().zip(&names);
            let first = all.find(|(file, name)| file.stated.is_none() && name.tp() == Some(*size));
            first.map(|(file, _)| (*size, file.name.to_owned()))
        };
        RankDoubt::TensorSizes {
            sizes: sizes.iter().filter_map(of).collect(),
        }
    });
    if doubt.is_some() {
        names = names.iter().map(RankName::without_sizes).collect();
    }
    (ranks_of(&names), doubt)
}

/// Returns the ranks that names give together.
fn ranks_of(names: &[RankName]) -> Vec<Option<Rank>> {
    let places: Option<Vec<Place>> = names.iter().map(RankName::place).collect();
    let places = places.filter(|_| names.iter().all(|name| !name.is_of_job()));
    let places = places.filter(|places| places.len() > 1);
    match places.as_deref().and_then(by_places) {
        Some(ranks) => ranks.into_iter().map(Some).collect(),
        None => names.iter().map(RankName::single).collect(),
    }
}

/// Returns the ranks from several parallel places, if these distinguish the files and no single
/// number does.
///
/// Data parallel ranks of one set of tensor parallel ranks (attention of `SGLang`) follow from the
/// latter and do not count.
fn by_places(places: &[Place]) -> Option<Vec<Rank>> {
    let is_distinct = |keys: &[usize]| {
        let distinct: BTreeSet<Vec<u32>> = places
            .iter()
            .map(|place| keys.iter().map(|key| place[*key]).collect())
            .collect();
        distinct.len() == places.len()
    };
    let size = |key: usize| {
        let sizes = places.iter().map(|place| u64::from(place[key]) + 1);
        sizes.max().unwrap_or(1)
    };
    let is_full = |keys: &[usize]| {
        let all = keys.iter().map(|key| size(*key));
        is_distinct(keys) && all.product::<u64>() == places.len() as u64
    };
    let [dp, pp, tp, ep] = [0, 1, 2, 3];
    let follows = || {
        let mut sorted: Vec<[u32; 3]> = places.iter().map(|p| [p[pp], p[tp], p[dp]]).collect();
        sorted.sort_unstable();
        let mut pairs = sorted.windows(2);
        pairs.all(|pair| pair[0][0] != pair[1][0] || pair[0][2] <= pair[1][2])
    };
    let keys: &[usize] = if is_full(&[dp, pp, tp]) {
        &[dp, pp, tp]
    } else if is_distinct(&[pp, tp]) && follows() {
        &[pp, tp]
    } else if is_distinct(&[dp, pp, tp]) {
        &[dp, pp, tp]
    } else if is_distinct(&[dp, pp, tp, ep]) {
        &[dp, pp, tp, ep]
    } else {
        return None;
    };
    let rank = |place: &Place| {
        let number = keys.iter().try_fold(0_u64, |rank, key| {
            rank.checked_mul(size(*key))?
                .checked_add(u64::from(place[*key]))
        });
        u32::try_from(number?).ok().map(Rank)
    };
    places.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, stated: Option<u32>, start_ns: i64) -> Recording<'_> {
        Recording {
            name,
            stated: stated.map(Rank),
            world_size: Some(8),
            start_ns: Some(start_ns),
            end_ns: None,
        }
    }

    fn ranks(files: &[Recording<'_>]) -> (Vec<u32>, RankEvidence) {
        let found = assign(files).unwrap();
        (found.ranks.iter().map(|r| r.0).collect(), found.evidence)
    }

    #[test]
    fn a_message_names_few_files() {
        let said = |names: &[&str]| {
            let own = SameRank {
                rank: Rank(0),
                files: names.iter().map(|name| (*name).to_owned()).collect(),
                is_stated: true,
                session: vec!["a".to_owned()],
            };
            own.to_string()
        };
        let four = said(&["a", "b", "c", "d"]);
        assert!(
            four.starts_with("4 files are recordings of rank 0 (a, b, c, d): "),
            "{four}"
        );
        let six = said(&["a", "b", "c", "d", "e", "f"]);
        assert!(
            six.starts_with("6 files are recordings of rank 0 (a, b, c, d and 2 more): "),
            "{six}"
        );
    }

    #[test]
    fn what_files_state_wins_over_their_names() {
        let all = [
            file("rank1.json", Some(5), 0),
            file("rank9.json", Some(2), 0),
        ];
        assert_eq!(ranks(&all), (vec![5, 2], RankEvidence::Stated));
        let all = [file("rank1.json", None, 0), file("x.json", Some(2), 0)];
        assert_eq!(ranks(&all), (vec![1, 2], RankEvidence::FileName));
        // 8 is not a rank of a job of 8.
        let all = [file("rank8.json", None, 0), file("rank1.json", None, 0)];
        assert_eq!(ranks(&all), (vec![1, 0], RankEvidence::Place));
        let names = [
            "dp0_tp0.json",
            "dp1_tp1.json",
            "dp0_tp1.json",
            "dp1_tp0.json",
        ];
        let all = names.map(|name| file(name, None, 0));
        assert_eq!(ranks(&all), (vec![0, 3, 1, 2], RankEvidence::FileName));
    }

    #[test]
    fn numbers_that_the_job_does_not_have_are_no_ranks() {
        let other = Recording {
            world_size: None,
            ..file("rank9.json", None, 0)
        };
        let all = [other, file("y.json", Some(0), 0)];
        let found = assign(&all).unwrap();
        assert_eq!(found.ranks, [Rank(1), Rank(0)]);
        assert_eq!(found.evidence, RankEvidence::Place);
        let [doubt] = found.doubts.as_slice() else {
            panic!("{:?}", found.doubts);
        };
        assert_eq!(doubt.code(), "rank_not_in_world");
        let text = doubt.to_string();
        assert!(
            text.contains("rank9.json") && text.contains("8 ranks"),
            "{text}"
        );
    }

    #[test]
    fn ranks_of_several_kinds_are_counted_together() {
        for (names, want) in [
            // The size of the job is unknown, and these are some of its ranks.
            (["TP-0-DP-0-PP-1-EP-0", "TP-1-DP-0-PP-0-EP-1"], vec![2, 1]),
            (["deepseek-r1-TP-1", "deepseek-r1-TP-0"], vec![1, 0]),
            // The data parallel rank follows from the tensor parallel one.
            (["TP-3-DP-1-PP-0-EP-3", "TP-1-DP-0-PP-0-EP-1"], vec![3, 1]),
            // The data parallel rank is independent.
            (["dp1_pp0_tp0", "dp0_pp0_tp1"], vec![2, 1]),
            (["dp1_pp0_tp0", "dp0_pp0_tp0"], vec![1, 0]),
            (["dp0_ep1_tp0", "dp0_ep0_tp0"], vec![1, 0]),
        ] {
            let all = names.map(|name| file(name, None, 0));
            assert_eq!(ranks(&all), (want, RankEvidence::FileName), "{names:?}");
        }
        let all = ["TP-0-PP-1", "TP-0-PP-1-copy"].map(|name| file(name, None, 0));
        assert!(assign(&all).is_err());
        // Every second GPU of two nodes.
        let names = ["TP-0-DP-0", "TP-2-DP-1", "TP-4-DP-2", "TP-6-DP-3"];
        let all = names.map(|name| file(name, None, 0));
        assert_eq!(ranks(&all).0, [0, 2, 4, 6]);
    }

    #[test]
    fn sizes_in_names_are_no_ranks() {
        let unknown = |name| Recording {
            name,
            ..Recording::default()
        };
        let found = |names: &[&'static str]| {
            let files: Vec<Recording<'_>> = names.iter().map(|name| unknown(name)).collect();
            match assign(&files) {
                Ok(found) => Ok(found.ranks.iter().map(|rank| rank.0).collect::<Vec<u32>>()),
                Err(NotOneJob::Doubt(doubt)) => Err(doubt.code()),
                Err(NotOneJob::SameRank(_)) => Err("same_rank"),
            }
        };
        for sizes in [
            &["llama_tp4.json", "llama_tp8.json"][..],
            &["x/tp2/a.json", "x/tp4/a.json", "x/tp8/a.json"],
            &["qwen-tp1-pp2.json", "qwen-tp4-pp1.json"],
            &["a_tp8.json", "b_tp8.json", "c_tp2.json"],
        ] {
            assert_eq!(found(sizes), Err("tensor_sizes_differ"), "{sizes:?}");
        }
        for (names, ranks) in [
            (&["tp1.json", "tp0.json"][..], vec![1, 0]),
            (&["tp1.json", "tp2.json"], vec![1, 2]),
            // Ranks of the second host, and some of those that count from 0.
            (
                &["17-TP-4.json", "17-TP-5.json", "17-TP-6.json"],
                vec![4, 5, 6],
            ),
            (&["tp0.json", "tp3.json"], vec![0, 3]),
            (&["17-TP-2-DP-0.json", "17-TP-6-DP-1.json"], vec![2, 6]),
            (&["tp8_rank0.json", "tp8_rank1.json"], vec![0, 1]),
            (&["tp4_rank0.json", "tp8_rank1.json"], vec![0, 1]),
        ] {
            assert_eq!(found(names), Ok(ranks), "{names:?}");
        }
        // Two recordings of one size are two of one name, as before.
        assert_eq!(found(&["a_tp8.json", "b_tp8.json"]), Err("same_rank"));
        // The files state a job that has these ranks.
        let stated = ["tp4.json", "tp6.json"].map(|name| file(name, None, 0));
        assert_eq!(ranks(&stated), (vec![4, 6], RankEvidence::FileName));
        let of_own_size = [("llama_tp4.json", 4), ("llama_tp8.json", 8)].map(|(name, size)| {
            let world_size = Some(size);
            Recording {
                world_size,
                ..unknown(name)
            }
        });
        assert!(assign(&of_own_size).is_err());
        let said = assign(&["llama_tp4.json", "llama_tp8.json"].map(unknown));
        let said = said.unwrap_err().to_string();
        assert!(
            said.contains("4: llama_tp4.json, 8: llama_tp8.json")
                && said.contains("not ranks of one job"),
            "{said}"
        );
    }

    #[test]
    fn sessions_are_told_apart_by_their_starts() {
        let all = [
            file("a0.json", Some(0), 900),
            file("b1.json", Some(1), 910),
            file("c0.json", Some(0), 100),
            file("d1.json", Some(1), 90),
        ];
        let Err(NotOneJob::SameRank(same)) = assign(&all) else {
            panic!("two files of one rank");
        };
        assert_eq!((same.rank, same.is_stated), (Rank(0), true));
        assert_eq!(same.files, ["c0.json", "a0.json"]);
        assert_eq!(same.session, ["c0.json", "d1.json"]);
        let by_name = ["x/rank1.json", "y/rank1.json"].map(|name| Recording {
            name,
            ..Recording::default()
        });
        let text = assign(&by_name).unwrap_err().to_string();
        assert!(
            text.contains("rank 1 by their names (x/rank1.json, y/rank1.json)"),
            "{text}"
        );
    }
}
