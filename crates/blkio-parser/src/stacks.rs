//! Stacks counted at every issued request, and what kind of I/O each is.

use std::collections::BTreeMap;

use crate::scan::trim;

/// A stack and how often it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Name of the printed map, without `@`; of a trace with call chains that of the event.
    pub map: String,
    /// Frames as printed, leaf first.
    pub frames: Vec<String>,
    /// Requests.
    pub count: u64,
    /// What kind of I/O it is.
    pub class: String,
    /// How it was submitted (`aio`, `io_uring`), where that shows.
    pub submission: Option<&'static str>,
}

/// A rule: a class and the beginnings of function names that mean it.
type Rule = (&'static str, &'static [&'static str]);

/// Rules in order of precedence; the first that any frame fits decides.
const RULES: [Rule; 11] = [
    (
        "flush",
        &[
            "blkdev_issue_flush",
            "blk_flush",
            "mq_flush",
            "blk_kick_flush",
        ],
    ),
    (
        "discard",
        &[
            "ext4_trim",
            "blkdev_issue_discard",
            "__blkdev_issue_discard",
            "xfs_discard",
        ],
    ),
    ("journal", &["jbd2_", "xlog_", "xfs_log_", "kjournald"]),
    (
        "readahead",
        &[
            "page_cache_ra_",
            "read_pages",
            "force_page_cache_ra",
            "ondemand_readahead",
            "filemap_fault",
            "page_cache_sync_ra",
            "page_cache_async_ra",
        ],
    ),
    (
        "direct",
        &[
            "iomap_dio_rw",
            "__iomap_dio_rw",
            "__blkdev_direct_IO",
            "blkdev_direct",
        ],
    ),
    ("aio", &["aio_read", "aio_write", "io_submit"]),
    ("io_uring", &["io_uring_", "io_read", "io_write"]),
    (
        "writeback",
        &[
            "wb_workfn",
            "writeback_",
            "do_writepages",
            "ext4_writepages",
            "xfs_vm_writepages",
        ],
    ),
    ("swap", &["swap_writepage", "swap_read_folio"]),
    ("metadata_read", &["ext4_bread", "xfs_buf_", "__bread"]),
    ("requeue_worker", &["blk_mq_requeue_work", "kblockd"]),
];

/// Classes of the user's own, which go before the built-in ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnRules {
    rules: Vec<(String, Vec<String>)>,
}

impl OwnRules {
    /// Reads rules, one a line: a class, then the beginnings of function names that mean it, with blanks between. Earlier
    /// rules win. Empty lines and those that begin with `#` are passed over.
    ///
    /// # Errors
    ///
    /// The number of a line that has a class alone.
    pub fn parse(text: &str) -> Result<Self, usize> {
        let mut rules = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let mut words = line.split_whitespace().map(str::to_owned);
            let Some(class) = words.next().filter(|class| !class.starts_with('#')) else {
                continue;
            };
            let starts: Vec<String> = words.collect();
            if starts.is_empty() {
                return Err(number);
            }
            rules.push((class, starts));
        }
        Ok(Self { rules })
    }

    fn class(&self, frames: &[String]) -> Option<&str> {
        let fits = |starts: &[String]| {
            let mut names = frames.iter().map(|frame| function(frame));
            names.any(|name| starts.iter().any(|start| name.starts_with(start)))
        };
        let rule = self.rules.iter().find(|(_, starts)| fits(starts));
        rule.map(|(class, _)| class.as_str())
    }
}

/// Stacks of a log.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    /// Distinct stacks, in the order of their first appearance.
    pub stacks: Vec<Stack>,
    /// Entries printed twice with the same count.
    pub duplicates: u64,
    /// Entries that were not closed.
    pub malformed: u64,
}

impl Stacks {
    /// Reads a log. A map that was printed twice counts once; of different counts the last is kept. A trace whose events have
    /// call chains is read, too: one map for each of its events.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        Self::parse_with(text, &OwnRules::default())
    }

    /// As [`Stacks::parse`], with classes of the user's own.
    #[must_use]
    pub fn parse_with(text: &[u8], own: &OwnRules) -> Self {
        let mut found = Self::default();
        let mut places: BTreeMap<(String, Vec<String>), usize> = BTreeMap::new();
        let mut open: Option<(String, Vec<String>)> = None;
        for line in text.split(|b| *b == b'\n') {
            let text = String::from_utf8_lossy(trim(line));
            if let Some(name) = text.strip_prefix('@') {
                found.malformed += u64::from(open.take().is_some());
                if let Some((name, count)) = name.split_once("[]: ") {
                    if let Ok(count) = count.parse() {
                        found.add(&mut places, name.to_owned(), Vec::new(), count);
                    }
                } else if let Some(name) = name.strip_suffix('[') {
                    open = Some((name.to_owned(), Vec::new()));
                }
            } else if let Some(count) = text.strip_prefix("]: ") {
                match (open.take(), count.parse()) {
                    (Some((name, frames)), Ok(count)) => {
                        found.add(&mut places, name, frames, count);
                    }
                    _ => found.malformed += 1,
                }
            } else if let Some((_, frames)) = &mut open
                && !text.is_empty()
            {
                frames.push(text.into_owned());
            }
        }
        found.malformed += u64::from(open.is_some());
        if found.stacks.is_empty() {
            crate::call_chains::each(text, &mut |event, frames| {
                found.count(&mut places, event, frames);
            });
        }
        for stack in &mut found.stacks {
            if let Some(class) = own.class(&stack.frames) {
                class.clone_into(&mut stack.class);
            }
        }
        found
    }

    /// Counts a chain of one event.
    fn count(
        &mut self,
        places: &mut BTreeMap<(String, Vec<String>), usize>,
        map: &str,
        frames: Vec<String>,
    ) {
        let key = (map.to_owned(), frames);
        match places.get(&key).and_then(|at| self.stacks.get_mut(*at)) {
            Some(known) => known.count += 1,
            None => self.add(places, key.0, key.1, 1),
        }
    }

    fn add(
        &mut self,
        places: &mut BTreeMap<(String, Vec<String>), usize>,
        map: String,
        frames: Vec<String>,
        count: u64,
    ) {
        let key = (map, frames);
        if let Some(known) = places.get(&key).and_then(|at| self.stacks.get_mut(*at)) {
            self.duplicates += u64::from(known.count == count);
            known.count = count;
            return;
        }
        let (class, submission) = classify(&key.1);
        self.stacks.push(Stack {
            map: key.0.clone(),
            frames: key.1.clone(),
            count,
            class: class.to_owned(),
            submission,
        });
        places.insert(key, self.stacks.len() - 1);
    }

    /// Requests by class of the stacks of one map, largest first.
    #[must_use]
    pub fn classes(&self, map: &str) -> Vec<(&str, u64)> {
        self.sums(map, |stack| Some(stack.class.as_str()))
    }

    /// Requests by way of submission of the stacks of one map, largest first; those that do not show it are left out.
    #[must_use]
    pub fn submissions(&self, map: &str) -> Vec<(&str, u64)> {
        self.sums(map, |stack| stack.submission)
    }

    fn sums<'a>(
        &'a self,
        map: &str,
        of: impl Fn(&'a Stack) -> Option<&'a str>,
    ) -> Vec<(&'a str, u64)> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for stack in self.stacks.iter().filter(|stack| stack.map == map) {
            if let Some(name) = of(stack) {
                let sum = sums.entry(name).or_default();
                *sum = sum.saturating_add(stack.count);
            }
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        sums
    }

    /// Names of the maps, in order of first appearance.
    #[must_use]
    pub fn maps(&self) -> Vec<&str> {
        let mut maps: Vec<&str> = Vec::new();
        for stack in &self.stacks {
            if !maps.contains(&stack.map.as_str()) {
                maps.push(&stack.map);
            }
        }
        maps
    }

    /// Lines of a flame graph tool: `root;...;leaf COUNT`.
    #[must_use]
    pub fn folded(&self) -> String {
        let mut out = String::new();
        for stack in &self.stacks {
            let mut frames: Vec<&str> = vec![&stack.map];
            frames.extend(stack.frames.iter().rev().map(|frame| function(frame)));
            out.push_str(&frames.join(";"));
            out.push_str(&format!(" {}\n", stack.count));
        }
        out
    }
}

/// The function of a frame: without offset and module.
fn function(frame: &str) -> &str {
    let name = frame.split(' ').next().unwrap_or(frame);
    name.split_once('+').map_or(name, |(name, _)| name)
}

/// Class and way of submission of a stack.
fn classify(frames: &[String]) -> (&'static str, Option<&'static str>) {
    let fits = |starts: &[&str]| {
        frames
            .iter()
            .map(|frame| function(frame))
            .any(|name| starts.iter().any(|start| name.starts_with(start)))
    };
    let has = |ending: &str| frames.iter().any(|frame| function(frame).ends_with(ending));
    let mut submission = None;
    for (class, starts) in RULES {
        if !fits(starts) {
            continue;
        }
        match class {
            "aio" | "io_uring" => submission = submission.or(Some(class)),
            "direct" => {
                let class = if has("_write_iter")
                    || (fits(&["vfs_write", "aio_write"]) && !has("_read_iter"))
                {
                    "direct_write"
                } else {
                    "direct_read"
                };
                return (class, submission_of(&fits));
            }
            class => return (class, submission_of(&fits)),
        }
    }
    ("unknown", submission)
}

fn submission_of(fits: &dyn Fn(&[&str]) -> bool) -> Option<&'static str> {
    RULES
        .iter()
        .find(|(class, starts)| matches!(*class, "aio" | "io_uring") && fits(starts))
        .map(|(class, _)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &[u8] = b"Kernel Stack Traces:\n@k[\n    blk_mq_start_request+207\n    read_pages+377\n    vfs_read+570\n]: 3\n@k[\n    submit_bio+1\n    iomap_dio_rw+3\n    ext4_file_write_iter+9\n    aio_write+1\n]: 7\n@k[\n    submit_bio+1\n    jbd2_journal_commit_transaction+3 (jbd2)\n]: 2\n@u[]: 6\n@k[\n    blk_mq_start_request+207\n    read_pages+377\n    vfs_read+570\n]: 3\n@u[\n    0x7f\n";

    #[test]
    fn chains_of_a_trace_are_stacks() {
        let event =
            "fio 28464 [000]  1169.077687:    block:block_rq_issue: 7,0 RS 4096 () 8 + 8 [fio]\n";
        let direct = "\tffff81 blk_mq_start_request+0xc4 ([kernel])\n\tffff82 iomap_dio_rw+0x5 ([kernel])\n\tffff83 ext4_file_read_iter+0x5 ([kernel])\n\tffff84 aio_read+0x5 ([kernel])\n\n";
        let journal = "\tffff81 jbd2_journal_commit_transaction+0x5 ([jbd2])\n\n";
        let text = [event, direct, event, journal, event, direct].concat();
        let found = Stacks::parse(text.as_bytes());
        assert_eq!(
            found.classes("block_rq_issue"),
            [("direct_read", 2), ("journal", 1)]
        );
        assert_eq!(found.submissions("block_rq_issue"), [("aio", 2)]);
        assert!(found.folded().starts_with(
            "block_rq_issue;aio_read;ext4_file_read_iter;iomap_dio_rw;blk_mq_start_request 2\n"
        ));
    }

    #[test]
    fn classes_duplicates_and_unclosed_entries() {
        let found = Stacks::parse(LOG);
        assert_eq!((found.duplicates, found.malformed), (1, 1));
        assert_eq!(
            found.classes("k"),
            [("direct_write", 7), ("readahead", 3), ("journal", 2)]
        );
        assert_eq!(found.stacks[1].submission, Some("aio"));
        assert_eq!(found.submissions("k"), [("aio", 7)]);
        let own =
            OwnRules::parse("# mine\n\ncheckpoint ext4_file_write xfs_file_write\nall blk_\n");
        let own = Stacks::parse_with(LOG, &own.unwrap());
        assert_eq!(
            own.classes("k"),
            [("checkpoint", 7), ("all", 3), ("journal", 2)]
        );
        assert_eq!(OwnRules::parse("a b\nalone\n"), Err(2));
        assert_eq!(found.maps(), ["k", "u"]);
        assert!(
            found
                .folded()
                .starts_with("k;vfs_read;read_pages;blk_mq_start_request 3\n")
        );
    }
}
