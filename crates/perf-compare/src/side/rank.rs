//! Which rank a file is of, by its name or that of its folder.

use std::fmt;
use std::path::{Path, PathBuf};

use trace_model::ranks::RankName;

use crate::compat::plain_name;

/// A rank: its number, or its place in each kind of parallelism.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// `rank3`.
    Number(u32),
    /// `TP-1-DP-0`, by kind.
    Places(Vec<(&'static str, u32)>),
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "rank {number}"),
            Self::Places(places) => {
                let shown: Vec<String> = places
                    .iter()
                    .map(|(kind, number)| format!("{}{number}", kind.to_ascii_uppercase()))
                    .collect();
                write!(f, "rank {}", shown.join(" "))
            }
        }
    }
}

fn in_text(text: &str) -> Option<Rank> {
    let name = RankName::of(text);
    if let Some(number) = name.number() {
        return Some(Rank::Number(number));
    }
    let places = name.places();
    (!places.is_empty()).then_some(Rank::Places(places))
}

/// Returns the rank of a file and the folder in which the other ranks are: the rank is part of the file's name, or of its
/// folder's.
pub(super) fn of(file: &Path) -> (Option<Rank>, PathBuf) {
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    if let Some(rank) = in_text(&plain_name(file)) {
        return (Some(rank), folder);
    }
    let name = folder
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    match name.and_then(|name| in_text(&name)) {
        Some(rank) => {
            let above = folder.parent().unwrap_or(Path::new("")).to_owned();
            (Some(rank), above)
        }
        None => (None, folder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_engines() {
        let rank = |name: &str| of(Path::new(name)).0.map(|rank| rank.to_string());
        let one = |text: &str| Some(text.to_owned());
        assert_eq!(
            rank("x/rank0.17.pt.trace_decode_perf_data.csv"),
            one("rank 0")
        );
        assert_eq!(
            rank("dp0_pp0_tp1_dcp0_ep1_rank12.17_perf_data.csv"),
            one("rank 12")
        );
        assert_eq!(rank("1757-TP-3-DP-1_perf_data.csv.gz"), one("rank DP1 TP3"));
        assert_eq!(rank("run/rank_4/result_perf_data.csv"), one("rank 4"));
        assert_eq!(rank("run1/result_perf_data.csv"), None);
        assert_eq!(rank("franking_perf_data.csv"), None);
        // As trace-info reads names: workers and single letters are ranks, times and process numbers are not.
        assert_eq!(rank("host_worker2_perf_data.csv"), one("rank 2"));
        assert_eq!(rank("r3_perf_data.csv"), one("rank 3"));
        assert_eq!(rank("tp_rank_3_perf_data.csv"), one("rank TP3"));
        assert_eq!(rank("rank1740461679_perf_data.csv"), None);
        let (_, folder) = of(Path::new("run/rank4/result_perf_data.csv"));
        assert_eq!(folder, Path::new("run"));
    }
}
