//! Parses ranks in the names of files and folders.

use std::collections::BTreeSet;

use crate::ids::Rank;

/// Data, pipeline, tensor and expert parallel rank.
pub(super) type Place = [u32; 4];

/// Ranks in the name of a file and in those of its folders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankName {
    rank: Option<u32>,
    worker: Option<u32>,
    /// Number after `r` as the first word. Runs and models are named like this too (`r1`), so that
    /// all others take precedence.
    r: Option<u32>,
    /// Number after a weaker word: `r` further on (`deepseek-r1`), or `local_rank`.
    weak: Option<u32>,
    dp: Option<u32>,
    pp: Option<u32>,
    tp: Option<u32>,
    ep: Option<u32>,
}

/// Returns the parts of a path, the file's name last. A member of an archive follows the archive's
/// name.
fn parts(path: &str) -> Vec<&str> {
    let parts = path.split(['/', '\\', '!']);
    parts.filter(|part| !part.is_empty()).collect()
}

/// Returns the names of the files at `paths`, in their order.
///
/// Folders count if the name of the file contains no rank, innermost first. With several files,
/// folders that all of them share distinguish nothing and count only after the word `rank`: `r7`
/// may be the seventh run.
pub(super) fn of_paths(paths: &[&str]) -> Vec<RankName> {
    let all: Vec<Vec<&str>> = paths.iter().map(|path| parts(path)).collect();
    let folders = |parts: &[&str]| parts.len().saturating_sub(1);
    let shared = match all.split_first() {
        Some((first, others)) if !others.is_empty() => {
            let alike = |at: &usize| {
                let part = first.get(*at);
                others
                    .iter()
                    .all(|o| folders(o) > *at && o.get(*at) == part)
            };
            (0..folders(first)).take_while(alike).count()
        }
        _ => 0,
    };
    let of = |parts: &Vec<&str>| {
        let Some((file, folders)) = parts.split_last() else {
            return RankName::default();
        };
        let mut name = RankName::read(file, false);
        for (at, folder) in folders.iter().enumerate().rev() {
            let outer = RankName::read(folder, true);
            if at < shared {
                let is_called_so = folder.to_ascii_lowercase().contains("rank");
                name = name.or(RankName {
                    rank: outer.rank.filter(|_| is_called_so),
                    ..RankName::default()
                });
            } else {
                name = name.or(outer);
            }
        }
        name
    };
    let mut names: Vec<RankName> = all.iter().map(of).collect();
    // A weak number is a rank only if such numbers distinguish all files.
    let weak: Option<BTreeSet<u32>> = names.iter().map(RankName::only_weak).collect();
    let tells_apart = weak.is_some_and(|weak| weak.len() == names.len());
    for name in &mut names {
        let weak = name.weak.take();
        if tells_apart && paths.len() > 1 {
            name.r = weak;
        }
    }
    names
}

impl RankName {
    /// Returns the weak number, if the name has no other.
    fn only_weak(&self) -> Option<u32> {
        let others = [self.rank, self.worker, self.r, self.dp, self.pp, self.tp];
        let has_others = others.iter().any(Option::is_some) || self.ep.is_some();
        self.weak.filter(|_| !has_others)
    }

    /// Returns this name, with the additions of the surrounding folder's name.
    fn or(self, outer: Self) -> Self {
        if self.rank.is_some() || self.worker.is_some() {
            return self;
        }
        let is_place = |name: Self| [name.dp, name.pp, name.tp].iter().any(Option::is_some);
        if !is_place(self) && self.ep.is_none() {
            return Self {
                r: self.r.or(outer.r),
                weak: self.weak.or(outer.weak),
                ..outer
            };
        }
        if !is_place(outer) || outer.rank.is_some() || outer.worker.is_some() {
            return self;
        }
        Self {
            dp: self.dp.or(outer.dp),
            pp: self.pp.or(outer.pp),
            tp: self.tp.or(outer.tp),
            ..self
        }
    }

    /// Parses one part of a path. With `whole_words`, only separators may be next to a word and its
    /// number, so that folders of random names yield nothing.
    fn read(name: &str, whole_words: bool) -> Self {
        let lower = name.to_ascii_lowercase();
        let bytes = lower.as_bytes();
        let mut found = Self::default();
        let mut at = 0;
        let mut scope = None;
        let mut is_first = true;
        while at < bytes.len() {
            if !bytes[at].is_ascii_alphabetic() {
                at += 1;
                continue;
            }
            let end = at + word_length(&name.as_bytes()[at..]);
            let word = &lower[at..end];
            let is_apart = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
            let is_inside = at > 0 && bytes[at - 1].is_ascii_digit();
            at = end;
            let is_first = std::mem::take(&mut is_first);
            let number = number_after(bytes, end, whole_words);
            let Some(number) = number.filter(|_| !(is_inside && whole_words)) else {
                // `tp_rank_3`: the word before determines the kind of rank.
                scope = Some(word).filter(|w| matches!(*w, "dp" | "pp" | "tp" | "ep" | "local"));
                continue;
            };
            let key = match (word, scope.take()) {
                ("rank", Some(scope)) => scope,
                (word, _) => word,
            };
            let slot = match key {
                "dp" | "dprank" => &mut found.dp,
                "pp" | "pprank" => &mut found.pp,
                "tp" | "tprank" => &mut found.tp,
                "ep" | "eprank" => &mut found.ep,
                "worker" => &mut found.worker,
                "rank" | "globalrank" | "worldrank" => &mut found.rank,
                "local" | "localrank" if word.ends_with("rank") => &mut found.weak,
                "r" if !is_apart || is_in_word(bytes, end) => continue,
                "r" if is_first => &mut found.r,
                "r" => &mut found.weak,
                _ => continue,
            };
            *slot = Some(number);
        }
        found
    }

    /// Parses a name without folders.
    ///
    /// ```
    /// use trace_model::ranks::RankName;
    ///
    /// assert_eq!(RankName::of("host_worker2").number(), Some(2));
    /// assert_eq!(RankName::of("1757-TP-1-DP-0").places(), [("dp", 0), ("tp", 1)]);
    /// assert_eq!(RankName::of("rank1740461679"), RankName::default());
    /// ```
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self::read(name, false)
    }

    /// Returns the number of the rank or worker.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        let first = self.r.filter(|_| self.places().is_empty());
        self.rank.or(self.worker).or(first)
    }

    /// Returns the number after the word `rank` alone: not that of a worker, which may count within
    /// a host.
    #[must_use]
    pub fn rank(&self) -> Option<u32> {
        self.rank
    }

    /// Returns the rank in each kind of parallelism in the name.
    #[must_use]
    pub fn places(&self) -> Vec<(&'static str, u32)> {
        [
            ("dp", self.dp),
            ("pp", self.pp),
            ("tp", self.tp),
            ("ep", self.ep),
        ]
        .into_iter()
        .filter_map(|(kind, number)| Some((kind, number?)))
        .collect()
    }

    /// Returns the number after `tp`, if the name contains no other rank or worker.
    pub(super) fn tp(&self) -> Option<u32> {
        self.tp
            .filter(|_| self.rank.is_none() && self.worker.is_none())
    }

    /// Returns the name without the numbers of parallel ranks if there is one after `tp`, since they are sizes ([`sizes`]).
    pub(super) fn without_sizes(&self) -> Self {
        let [dp, pp, tp, ep] = match self.tp() {
            Some(_) => [None; 4],
            None => [self.dp, self.pp, self.tp, self.ep],
        };
        Self {
            dp,
            pp,
            tp,
            ep,
            ..*self
        }
    }

    /// Returns `true` if the name contains the rank of the whole job.
    pub(super) fn is_of_job(&self) -> bool {
        self.rank.is_some()
    }

    /// Returns the rank that a name gives by itself.
    pub(super) fn single(&self) -> Option<Rank> {
        let one = |places: &[Option<u32>]| {
            let mut known = places.iter().flatten().filter(|number| **number > 0);
            let first = known.next().copied().unwrap_or(0);
            known.next().is_none().then_some(first)
        };
        let places = [self.dp, self.pp, self.tp];
        let of_places = || match (places.iter().any(Option::is_some), self.ep) {
            (true, _) => one(&places),
            (false, ep) => ep,
        };
        let has_place = places.iter().any(Option::is_some) || self.ep.is_some();
        match self.rank.or(self.worker) {
            None if has_place => of_places().map(Rank),
            None => self.r.map(Rank),
            rank => rank.map(Rank),
        }
    }

    /// Returns the data, pipeline, tensor and expert parallel ranks, if the name gives one of the
    /// first three.
    pub(super) fn place(&self) -> Option<Place> {
        let places = [self.dp, self.pp, self.tp];
        let is_any = self.worker.is_none() && places.iter().any(Option::is_some);
        is_any.then(|| [self.dp, self.pp, self.tp, self.ep].map(|place| place.unwrap_or(0)))
    }
}

/// Returns the length of the word at the start of `name`: 2 for `myRank`.
fn word_length(name: &[u8]) -> usize {
    let is_end = |pair: &[u8]| {
        let starts_another = pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
        starts_another || !pair[1].is_ascii_alphabetic()
    };
    name.windows(2)
        .position(is_end)
        .map_or(name.len(), |at| at + 1)
}

/// Returns `true` if letters follow the number at `at`, as in `r7b`.
fn is_in_word(bytes: &[u8], at: usize) -> bool {
    let rest = bytes.get(at..).unwrap_or_default().iter();
    let next = rest.copied().find(|b| !b.is_ascii_digit());
    next.is_some_and(|b| b.is_ascii_alphabetic())
}

/// Returns the number after a word: directly, or after one separator or bracket, and not part of a
/// longer word or decimal.
fn number_after(bytes: &[u8], at: usize, whole_words: bool) -> Option<u32> {
    let separators = bytes.get(at..)?.iter().take(2);
    let skipped = separators.take_while(|b| b"_-=[(: #".contains(b)).count();
    let digits = bytes.get(at + skipped..)?;
    let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    if whole_words && digits.get(count).is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    let text = std::str::from_utf8(digits.get(..count)?).ok()?;
    // Longer numbers are times and process ids.
    text.parse().ok().filter(|_| count < 7)
}

/// Returns the numbers after `tp` in the names of several files, ascending, if they are sizes (`llama_tp4`, `llama_tp8`) and not ranks: the
/// ranks of a job follow each other, or other numbers beside them count from 0. Else, and for one file, there are none.
pub(super) fn sizes<'n>(names: impl Iterator<Item = &'n RankName>) -> Vec<u32> {
    let names: Vec<&RankName> = names.filter(|name| name.tp().is_some()).collect();
    let numbers: BTreeSet<u32> = names.iter().filter_map(|name| name.tp()).collect();
    let numbers: Vec<u32> = numbers.into_iter().collect();
    let follow = numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let mut places = names.iter().flat_map(|name| name.places());
    // No job has the size 0.
    if follow || places.any(|(_, number)| number == 0) {
        return Vec::new();
    }
    numbers
}

/// Returns `true` if the numbers after `tp` in the names of files that are looked at together are sizes of jobs and not ranks.
///
/// ```
/// use trace_model::ranks::names_have_sizes;
///
/// assert!(names_have_sizes(&["llama_tp4.json", "llama_tp8.json"]));
/// assert!(!names_have_sizes(&["tp0.json", "tp1.json"]));
/// ```
#[must_use]
pub fn names_have_sizes<P: AsRef<str>>(paths: &[P]) -> bool {
    let names = paths.iter().flat_map(|path| of_paths(&[path.as_ref()]));
    let names: Vec<RankName> = names.collect();
    !sizes(names.iter()).is_empty()
}

/// Returns the name of a file, which is looked at by itself.
pub(super) fn of_path(path: &str) -> RankName {
    of_paths(&[path]).pop().unwrap_or_default()
}

/// Returns the rank in the name of a file, else in that of a folder around it.
pub(crate) fn in_name(path: &str) -> Option<Rank> {
    of_path(path).single()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_behind_a_word_for_ranks_only() {
        for (name, want) in [
            ("/x/trace-rank3.json.gz", Some(3)),
            ("decode_bs32_rank_0.json", Some(0)),
            ("rank[3].json", Some(3)),
            ("rank-12.pt.trace.json", Some(12)),
            ("RANK=5.json", Some(5)),
            ("TP7.json", Some(7)),
            ("tp-3.json", Some(3)),
            ("run2-worker11.pt.trace.json", Some(11)),
            ("worker0_step_12.json", Some(0)),
            ("r0-iter200.json", Some(0)),
            ("r3.json", Some(3)),
            ("r3_bs8.json", Some(3)),
            // As likely a model or a run as a rank.
            ("run_r3_bs8.json", None),
            ("deepseek-r1.json", None),
            ("deepseek-r1-TP-0.json", Some(0)),
            ("DeepSeek-R1-rank3.json", Some(3)),
            ("r1-distill-TP-2.json", Some(2)),
            ("command-r7b-TP-3.json", Some(3)),
            ("r7b.json", None),
            ("librank7.json", None),
            ("frank2.json", None),
            ("http3.json", None),
            ("myRank7.json", Some(7)),
            ("global_rank_7.json", Some(7)),
            ("local_rank_7.json", None),
            ("TP-0-DP-0-PP-1-EP-0.json", Some(1)),
            ("1700-TP-0-DP-0-PP-0-EP-0.trace.json.gz", Some(0)),
            ("1740461679.47-TP-2.trace.json.gz", Some(2)),
            ("1740461679.47-TP-2-DP-0.trace.json.gz", Some(2)),
            ("rank0.1740461679470630000.pt.trace.json.gz", Some(0)),
            ("dp0_pp0_tp1_dcp0_ep1_rank1.1740.pt.trace.json.gz", Some(1)),
            ("dp0_pp0_tp3.json", Some(3)),
            ("tp_rank_3.json", Some(3)),
            ("job.tar!run/rank7.json", Some(7)),
            ("dp1_tp1.json", None),
            ("decode_bs32.json", None),
            ("cpu_step5.json", None),
            ("profile-2024-11-03.json", None),
            ("err404.json", None),
            ("rank5/trace.json", Some(5)),
            ("rank5/\u{e4}rger7", Some(5)),
            ("job/tp_1/profile/trace.json", Some(1)),
            ("job.zip!worker2/trace.json", Some(2)),
            (".tmp9TP3ab/trace.json", None),
            ("dp0/tp3.json", Some(3)),
            ("rank1/rank2.json", Some(2)),
            ("run12/trace.json", None),
            ("llama3r.json", None),
            ("gpt4r2.json", None),
            ("trace.json", None),
        ] {
            assert_eq!(in_name(name).map(|r| r.0), want, "{name}");
        }
    }

    #[test]
    fn folders_that_all_files_share_distinguish_nothing() {
        let singles = |paths: &[&str]| -> Vec<Option<u32>> {
            let names = of_paths(paths);
            names.iter().map(|n| n.single().map(|r| r.0)).collect()
        };
        let some = |numbers: [u32; 2]| numbers.map(Some).to_vec();
        assert_eq!(singles(&["r7/a.json", "r7/b.json"]), [None, None]);
        assert_eq!(singles(&["r7/tp0.json", "r7/tp1.json"]), some([0, 1]));
        assert_eq!(singles(&["x/r7/t.json", "x/r8/t.json"]), some([7, 8]));
        assert_eq!(singles(&["rank3/a.json", "rank3/b.json"]), some([3, 3]));
        assert_eq!(singles(&["r1/tp0.json", "r2/tp0.json"]), some([0, 0]));
        // Weak numbers count if they distinguish the files.
        for prefix in ["run_r", "deepseek-r1_run_r", "local_rank_"] {
            let [a, b] = [2, 10].map(|n| format!("{prefix}{n}.json"));
            assert_eq!(singles(&[&a, &b]), some([2, 10]));
        }
        let model = ["deepseek-r1-a.json", "deepseek-r1-b.json"];
        assert_eq!(singles(&model), [None, None]);
        assert_eq!(
            singles(&["deepseek-r1/a.json", "qwen3/a.json"]),
            [None, None]
        );
        assert_eq!(singles(&["r0_a.json", "r0_b.json"]), some([0, 0]));
    }
}
