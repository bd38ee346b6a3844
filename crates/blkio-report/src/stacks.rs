//! Stacks counted at every issued request, with their kind of I/O.

use std::collections::BTreeMap;

use blkio_companions::scan::trim;

/// A stack and how often it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stack {
    /// Name of the printed map, without `@`; of a trace with call chains that of the event.
    pub map: String,
    /// What else the map is keyed by, as printed (`fio, 123` of `@[comm, pid, kstack]`); empty where the stack is all.
    pub key: String,
    /// Frames as printed, leaf first. Of a map keyed by two stacks those of the first, then those of the second.
    pub frames: Vec<String>,
    /// Requests.
    pub count: u64,
    /// What kind of I/O it is.
    pub class: String,
    /// Way of submission (`aio`, `io_uring`), where that shows.
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
    /// Entries that were not closed, or whose value is no count.
    pub malformed: u64,
    /// Where the stack of a map, key and frames is.
    places: BTreeMap<(String, String, Vec<String>), usize>,
}

/// An entry of a map, as it is read.
#[derive(Debug, Clone, Default)]
struct Entry {
    key: String,
    frames: Vec<String>,
    count: u64,
}

impl Entry {
    /// Takes a part of the key that is no stack.
    fn add_key(&mut self, part: &str) {
        let part = part.trim().trim_matches(',').trim();
        if !part.is_empty() {
            let comma = if self.key.is_empty() { "" } else { ", " };
            self.key.push_str(comma);
            self.key.push_str(part);
        }
    }
}

/// Where the reading of an entry is.
enum State {
    /// Outside of entries.
    Outside,
    /// In the key of this entry of this map.
    Key(String, Entry),
    /// In the histogram that is the value of an entry.
    Histogram(String, Entry),
}

/// What stands behind `]:`.
enum Value {
    Count(u64),
    /// Rows of a histogram follow.
    Rows,
    None,
}

fn value(text: &str) -> Value {
    let text = text.trim();
    if text.is_empty() {
        return Value::Rows;
    }
    // `stats()` prints a count and more.
    let number = match text.strip_prefix("count ") {
        Some(rest) => rest.split(',').next().unwrap_or(rest),
        None => text,
    };
    number.parse().map_or(Value::None, Value::Count)
}

/// Returns the entries of all maps that are keyed by a stack, in order.
///
/// A key of several parts has them behind each other with `, ` between, each stack on lines of its own:
/// `@m[fio, ` or `, fio]: 3` or, between two stacks, `, `.
fn entries(text: &[u8], malformed: &mut u64) -> Vec<(String, Entry)> {
    let mut found: Vec<(String, Entry)> = Vec::new();
    let mut state = State::Outside;
    for line in text.split(|b| *b == b'\n') {
        let trimmed = trim(line);
        state = match state {
            State::Histogram(map, mut entry) => {
                if let Some(count) = blkio_companions::latency_histogram::row_count(trimmed) {
                    entry.count = entry.count.saturating_add(count);
                    State::Histogram(map, entry)
                } else {
                    found.push((map, entry));
                    State::Outside
                }
            }
            other => other,
        };
        let text = String::from_utf8_lossy(trimmed);
        if let Some((map, inside)) = text.strip_prefix('@').and_then(|rest| rest.split_once('[')) {
            *malformed += u64::from(matches!(state, State::Key(..)));
            state = State::Outside;
            let map = map.to_owned();
            let mut entry = Entry::default();
            match inside.rsplit_once("]:") {
                None => {
                    entry.add_key(inside);
                    state = State::Key(map, entry);
                }
                // A stack that is empty leaves nothing between its commas.
                Some((key, count)) if is_empty_stack(key) => {
                    entry.add_key(key);
                    state = end(map, entry, count, &mut found, malformed);
                }
                // A map of something else.
                Some(_) => {}
            }
            continue;
        }
        state = match state {
            State::Key(map, mut entry) => {
                let closing = text.starts_with([']', ',']).then(|| text.rsplit_once("]:"));
                match closing {
                    Some(Some((key, count))) => {
                        entry.add_key(key);
                        end(map, entry, count, &mut found, malformed)
                    }
                    Some(None) => {
                        entry.add_key(&text);
                        State::Key(map, entry)
                    }
                    None => {
                        if !text.is_empty() {
                            entry.frames.push(text.into_owned());
                        }
                        State::Key(map, entry)
                    }
                }
            }
            other => {
                *malformed += u64::from(text.starts_with("]: "));
                other
            }
        };
    }
    match state {
        State::Key(..) => *malformed += 1,
        State::Histogram(map, entry) => found.push((map, entry)),
        State::Outside => {}
    }
    found
}

/// Returns `true` if a key that is printed on one line has a stack without frames: `@m[]`, `@m[, fio]`, `@m[fio, ]`.
fn is_empty_stack(key: &str) -> bool {
    key.split(',').any(|part| part.trim().is_empty())
}

/// Takes the value of an entry.
fn end(
    map: String,
    mut entry: Entry,
    text: &str,
    found: &mut Vec<(String, Entry)>,
    malformed: &mut u64,
) -> State {
    match value(text) {
        Value::Rows => return State::Histogram(map, entry),
        Value::None => *malformed += 1,
        Value::Count(count) => {
            entry.count = count;
            found.push((map, entry));
        }
    }
    State::Outside
}

impl Stacks {
    /// Reads a log. A map that was printed twice counts once; of different counts the last is kept. A trace whose events have
    /// call chains is read, too: one map for each of its events.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        Self::parse_with(text, &OwnRules::default())
    }

    /// Parses as [`Stacks::parse`] does, with classes of the user's own.
    #[must_use]
    pub fn parse_with(text: &[u8], own: &OwnRules) -> Self {
        let mut found = Self::default();
        for (map, entry) in entries(text, &mut found.malformed) {
            found.add(map, entry);
        }
        if found.stacks.is_empty() {
            crate::call_chains::each(text, &mut |event, frames| found.count(event, frames));
        }
        for stack in &mut found.stacks {
            if let Some(class) = own.class(&stack.frames) {
                class.clone_into(&mut stack.class);
            }
        }
        found
    }

    /// Counts a chain of one event.
    fn count(&mut self, map: &str, frames: Vec<String>) {
        let entry = Entry {
            frames,
            ..Entry::default()
        };
        match self.known(map, &entry) {
            Some(known) => known.count += 1,
            None => self.add(map.to_owned(), Entry { count: 1, ..entry }),
        }
    }

    fn known(&mut self, map: &str, entry: &Entry) -> Option<&mut Stack> {
        let key = (map.to_owned(), entry.key.clone(), entry.frames.clone());
        let at = self.places.get(&key)?;
        self.stacks.get_mut(*at)
    }

    fn add(&mut self, map: String, entry: Entry) {
        let count = entry.count;
        if let Some(known) = self.known(&map, &entry) {
            let is_same = known.count == count;
            known.count = count;
            self.duplicates += u64::from(is_same);
            return;
        }
        let (class, submission) = classify(&entry.frames);
        let place = (map.clone(), entry.key.clone(), entry.frames.clone());
        self.places.insert(place, self.stacks.len());
        self.stacks.push(Stack {
            map,
            key: entry.key,
            frames: entry.frames,
            count,
            class: class.to_owned(),
            submission,
        });
    }

    /// Returns the requests by what else a map is keyed by, largest first; nothing for maps of stacks alone.
    #[must_use]
    pub fn keys(&self, map: &str) -> Vec<(&str, u64)> {
        self.sums(map, |stack| {
            Some(stack.key.as_str()).filter(|key| !key.is_empty())
        })
    }

    /// Returns the requests by class of the stacks of one map, largest first.
    #[must_use]
    pub fn classes(&self, map: &str) -> Vec<(&str, u64)> {
        self.sums(map, |stack| Some(stack.class.as_str()))
    }

    /// Returns the requests by way of submission of the stacks of one map, largest first; those that do not show it are left out.
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

    /// Returns the names of the maps, in order of first appearance.
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
            let key = stack.key.replace(';', ":");
            let mut frames: Vec<&str> = vec![&stack.map];
            frames.extend(Some(key.as_str()).filter(|key| !key.is_empty()));
            frames.extend(stack.frames.iter().rev().map(|frame| function(frame)));
            out.push_str(&frames.join(";"));
            out.push_str(&format!(" {}\n", stack.count));
        }
        out
    }
}

/// Returns the function of a frame: without address (`kstack(perf)` prints one before it), offset and module. Names of C++ and Rust
/// may hold blanks, brackets and plus signs.
fn function(frame: &str) -> &str {
    let mut name = frame.trim();
    if let Some((address, rest)) = name.split_once(' ')
        && address.len() >= 8
        && address.bytes().all(|b| b.is_ascii_hexdigit())
    {
        name = rest.trim_start();
    }
    if name.ends_with(')')
        && let Some((before, _)) = name.rsplit_once(" (")
    {
        name = before;
    }
    let is_offset = |text: &str| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit())
    };
    match name.rsplit_once('+') {
        Some((function, offset)) if is_offset(offset) && !function.is_empty() => function,
        _ => name,
    }
}

/// Class and way of submission of a stack.
fn classify(frames: &[String]) -> (&'static str, Option<&'static str>) {
    let fits = |starts: &[&str]| {
        frames
            .iter()
            .map(|frame| function(frame))
            // Kernels before 5.16 release a plug with it, which is no flush of the device's cache.
            .filter(|name| !name.starts_with("blk_flush_plug"))
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
    fn maps_keyed_by_more_than_the_stack() {
        // As bpftrace 0.17 prints them.
        let text = b"Attaching 2 probes...\n\n@e[dd, 24642]: 1\n@e[opt cgu.01, 21649]: 9\n\n@a[my, job, \n    submit_bio+1\n    iomap_dio_rw+3\n]: 3\n@a[bash, \n    submit_bio+1\n]: 5\n@a[cat, ]: 2\n@b[\n    submit_bio+1\n    wb_workfn+3\n, kworker/u8:2, 124]: 7\n@b[, fio, 3]: 1\n@c[\n    read_pages+1\n, \n    0x7f686ccbf090\n    main+3 (/bin/x)\n]: 11\n@d[\n    read_pages+1\n, bash, \n    0x7f686ccbf090\n]: 12\n@p[\n\tffffffff81b0785f blk_mq_start_request+207\n\tffffffff81b0785f read_pages+377\n, bash]: 2\n@usecs[\n    submit_bio+1\n]: \n[4K, 8K)               1 |@@|\n[8K, 16K)              4 |@@@@|\n\n@s[\n    submit_bio+1\n]: count 1985, average 16010, total 31780864\n@avg[\n    submit_bio+1\n]: x\n";
        let found = Stacks::parse(text);
        assert_eq!((found.malformed, found.duplicates), (1, 0));
        assert_eq!(found.maps(), ["a", "b", "c", "d", "p", "usecs", "s"]);
        assert_eq!(found.keys("a"), [("bash", 5), ("my, job", 3), ("cat", 2)]);
        assert_eq!(found.classes("a"), [("unknown", 7), ("direct_read", 3)]);
        assert_eq!(found.keys("b"), [("kworker/u8:2, 124", 7), ("fio, 3", 1)]);
        assert_eq!(found.classes("b"), [("writeback", 7), ("unknown", 1)]);
        assert_eq!(found.keys("c"), []);
        assert_eq!(found.stacks[5].frames.len(), 3);
        assert_eq!(found.keys("d"), [("bash", 12)]);
        assert_eq!(found.classes("p"), [("readahead", 2)]);
        assert_eq!(found.classes("usecs"), [("unknown", 5)]);
        assert_eq!(found.classes("s"), [("unknown", 1985)]);
        let folded = found.folded();
        assert!(folded.contains("\nb;kworker/u8:2, 124;wb_workfn;submit_bio 7\n"));
        assert!(folded.contains("\nc;main;0x7f686ccbf090;read_pages 11\n"));
    }

    #[test]
    fn releasing_a_plug_is_no_flush() {
        let class = |text: &[u8]| Stacks::parse(text).stacks[0].class.clone();
        let old = b"@[\n    blk_mq_start_request+1\n    blk_mq_flush_plug_list+1\n    blk_flush_plug_list+2\n    blk_finish_plug+3\n    read_pages+4\n]: 3\n";
        assert_eq!(class(old), "readahead");
        let flush = b"@[\n    blk_flush_complete_seq+1\n    read_pages+4\n]: 3\n";
        assert_eq!(class(flush), "flush");
    }

    #[test]
    fn functions_of_all_sorts_of_frames() {
        for (frame, name) in [
            ("blk_mq_start_request+207", "blk_mq_start_request"),
            ("submit_bio+0xc4 ([kernel.kallsyms])", "submit_bio"),
            ("ext4_x+1 (ext4)", "ext4_x"),
            (
                "std::vec::Vec<u8, A>::push+17 (/bin/x)",
                "std::vec::Vec<u8, A>::push",
            ),
            ("operator+(a, b)", "operator+(a, b)"),
            ("\tffffffff81b0785f read_pages+377", "read_pages"),
            ("0x7f686ccbf090", "0x7f686ccbf090"),
        ] {
            assert_eq!(function(frame), name);
        }
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
