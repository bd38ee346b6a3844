//! Contradictions between files that should be the ranks of one job.

use std::collections::BTreeMap;
use std::fmt;

use super::{RankName, Recording};
use crate::ids::Rank;

/// A contradiction between the statements of files about their job, or between their recording
/// times.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RankDoubt {
    /// A file states a rank that its job does not have.
    NotInWorld {
        /// The file.
        file: String,
        /// The stated rank.
        rank: Rank,
        /// The stated number of ranks.
        world_size: u32,
    },
    /// The name of a file contains a rank that the job does not have, which is ignored.
    NameNotInWorld {
        /// The file.
        file: String,
        /// The number in its name.
        rank: Rank,
        /// The number of ranks of the job.
        world_size: u32,
    },
    /// The name of a file contains another rank than the file states; the stated one counts.
    NameDisagrees {
        /// The file.
        file: String,
        /// The stated rank.
        stated: Rank,
        /// The number in its name.
        named: Rank,
    },
    /// Files state different numbers of ranks.
    WorldSizes {
        /// Each number with the first file that states it, ascending.
        sizes: Vec<(u32, String)>,
    },
    /// Names contain sizes of tensor parallelism, which differ: numbers after `tp` that are not the ranks of one job.
    TensorSizes {
        /// Each size with the first file that is called so, ascending.
        sizes: Vec<(u32, String)>,
    },
    /// The recordings do not overlap in time.
    Apart {
        /// The recording that ends first.
        earlier: String,
        /// The recording that starts last.
        later: String,
        /// Time from the end of the former to the start of the latter.
        gap_ns: i64,
    },
}

/// Minimum gap to report: clocks of hosts that differ by more are not synchronized.
const REMARKABLE_GAP_NS: i64 = 10_000_000_000;

/// Minimum gap that indicates different sessions: no clock of a serving host is wrong by as much.
const OTHER_SESSION_NS: i64 = 600_000_000_000;

/// Earlier times do not count from 1970, but from the start of a host: 2001-09-09.
const SINCE_1970_NS: i64 = 1_000_000_000_000_000_000;

impl RankDoubt {
    /// Returns `true` if collectives must not be joined.
    pub fn excludes_a_join(&self) -> bool {
        match self {
            Self::NotInWorld { .. } | Self::NameNotInWorld { .. } | Self::NameDisagrees { .. } => {
                false
            }
            Self::WorldSizes { .. } | Self::TensorSizes { .. } => true,
            Self::Apart { gap_ns, .. } => *gap_ns >= OTHER_SESSION_NS,
        }
    }

    /// Returns the stable machine name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotInWorld { .. } | Self::NameNotInWorld { .. } => "rank_not_in_world",
            Self::NameDisagrees { .. } => "name_disagrees",
            Self::WorldSizes { .. } => "world_sizes_differ",
            Self::TensorSizes { .. } => "tensor_sizes_differ",
            Self::Apart { .. } => "recordings_apart",
        }
    }
}

impl fmt::Display for RankDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInWorld {
                file,
                rank,
                world_size,
            } => write!(
                f,
                "{file} states rank {rank} of a job of {world_size} ranks, which count from 0"
            ),
            Self::NameNotInWorld {
                file,
                rank,
                world_size,
            } => write!(
                f,
                "{file} is called rank {rank}, which a job of {world_size} ranks does not have: the number is not taken for its rank"
            ),
            Self::NameDisagrees {
                file,
                stated,
                named,
            } => write!(
                f,
                "{file} states rank {stated}, which counts, and is called rank {named}"
            ),
            Self::WorldSizes { sizes } => {
                write!(
                    f,
                    "files state different numbers of ranks ({})",
                    list(sizes)
                )
            }
            Self::TensorSizes { sizes } => write!(
                f,
                "the numbers after tp in the names are taken for sizes of jobs, not for ranks, which would follow each other ({}; \
                 call them rankN if they are ranks)",
                list(sizes)
            ),
            Self::Apart {
                earlier,
                later,
                gap_ns,
            } => write!(
                f,
                "{later} begins {} s after {earlier} ends",
                gap_ns / 1_000_000_000
            ),
        }
    }
}

/// Maximum number of sizes that a message names.
const NAMED: usize = 4;

/// Returns sizes with their files for a message.
fn list(sizes: &[(u32, String)]) -> String {
    let named = sizes.iter().take(NAMED);
    let mut all: Vec<String> = named
        .map(|(size, file)| format!("{size}: {file}"))
        .collect();
    if sizes.len() > NAMED {
        all.push(format!("and {} more", sizes.len() - NAMED));
    }
    all.join(", ")
}

/// Returns the contradictions between `files`, whose names contain the ranks `named`.
pub(super) fn of(files: &[Recording<'_>], named: &[Option<Rank>]) -> Vec<RankDoubt> {
    let mut doubts = Vec::new();
    let mut sizes: BTreeMap<u32, &str> = BTreeMap::new();
    for file in files {
        let Some(world_size) = file.world_size else {
            continue;
        };
        sizes.entry(world_size).or_insert(file.name);
        if let Some(rank) = file.stated.filter(|rank| rank.0 >= world_size) {
            doubts.push(RankDoubt::NotInWorld {
                file: file.name.to_owned(),
                rank,
                world_size,
            });
        }
    }
    let stated = files.iter().filter(|file| file.stated.is_some());
    doubts.extend(stated.filter_map(misnamed));
    if let Some((&world_size, _)) = sizes.last_key_value() {
        let named = files
            .iter()
            .zip(named)
            .filter(|(file, _)| file.stated.is_none());
        doubts.extend(named.filter_map(|(file, rank)| {
            let rank = rank.filter(|rank| rank.0 >= world_size)?;
            Some(RankDoubt::NameNotInWorld {
                file: file.name.to_owned(),
                rank,
                world_size,
            })
        }));
    }
    if sizes.len() > 1 {
        let sizes = sizes.into_iter();
        doubts.push(RankDoubt::WorldSizes {
            sizes: sizes.map(|(size, file)| (size, file.to_owned())).collect(),
        });
    }
    doubts.extend(apart(files));
    doubts
}

/// Returns the contradiction in the name of a file, if any: a number after `rank` that is not the
/// stated rank, or a number that its job does not have as a rank, where it states none.
pub fn misnamed(file: &Recording<'_>) -> Option<RankDoubt> {
    let name = file.name.rsplit(['/', '\\']).next().unwrap_or(file.name);
    let Some(stated) = file.stated else {
        let named = super::in_name(file.name)?;
        let world_size = file.world_size.filter(|size| named.0 >= *size)?;
        return Some(RankDoubt::NameNotInWorld {
            file: file.name.to_owned(),
            rank: named,
            world_size,
        });
    };
    let named = Rank(RankName::of(name).rank()?);
    (named != stated).then(|| RankDoubt::NameDisagrees {
        file: file.name.to_owned(),
        stated,
        named,
    })
}

/// Returns the largest gap between recordings whose clocks count since 1970.
fn apart(files: &[Recording<'_>]) -> Option<RankDoubt> {
    let times = files.iter().filter_map(|file| {
        let (start, end) = (file.start_ns?, file.end_ns?);
        (start >= SINCE_1970_NS).then_some((start, end, file.name))
    });
    let times: Vec<_> = times.collect();
    let earlier = times.iter().min_by_key(|(_, end, name)| (*end, *name))?;
    let later = times
        .iter()
        .max_by_key(|(start, _, name)| (*start, *name))?;
    let gap_ns = later.0.saturating_sub(earlier.1);
    (gap_ns >= REMARKABLE_GAP_NS).then(|| RankDoubt::Apart {
        earlier: earlier.2.to_owned(),
        later: later.2.to_owned(),
        gap_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{NotOneJob, assign};
    use super::*;

    const DAY: i64 = 1_760_000_000_000_000_000;

    fn file(name: &str, rank: u32, world_size: u32, start: i64) -> Recording<'_> {
        Recording {
            name,
            stated: Some(Rank(rank)),
            world_size: Some(world_size),
            start_ns: Some(start),
            end_ns: Some(start + 1_000_000_000),
        }
    }

    fn codes(files: &[Recording<'_>]) -> Vec<&'static str> {
        match assign(files) {
            Ok(found) => found.doubts.iter().map(RankDoubt::code).collect(),
            Err(NotOneJob::Doubt(doubt)) => vec!["refused", doubt.code()],
            Err(NotOneJob::SameRank(same)) => panic!("{same}"),
        }
    }

    #[test]
    fn contradictions_are_found_and_wrong_joins_refused() {
        let s = 1_000_000_000;
        let with = |rank, world, start| [file("a", 0, 8, DAY), file("b", rank, world, start)];
        assert!(codes(&with(1, 8, DAY)).is_empty());
        assert_eq!(codes(&with(9, 8, DAY)), ["rank_not_in_world"]);
        let swapped = [
            file("x/rank1.json", 0, 2, DAY),
            file("x/rank0.json", 1, 2, DAY),
        ];
        assert_eq!(codes(&swapped), ["name_disagrees", "name_disagrees"]);
        assert_eq!(assign(&swapped).unwrap().ranks, [Rank(0), Rank(1)]);
        assert_eq!(codes(&with(1, 16, DAY)), ["refused", "world_sizes_differ"]);
        assert!(codes(&with(1, 8, DAY + 9 * s)).is_empty());
        assert_eq!(codes(&with(1, 8, DAY + 30 * s)), ["recordings_apart"]);
        let refused = ["refused", "recordings_apart"];
        assert_eq!(codes(&with(1, 8, DAY + 3600 * s)), refused);
        assert_eq!(codes(&with(1, 8, DAY - 3600 * s)), refused);
        // Clocks that count from the start of their hosts are not compared.
        assert!(codes(&with(1, 8, 3600 * s)).is_empty());
    }
}
