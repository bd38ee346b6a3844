//! Exports whose operators tell what their kernels do: answers with and without a trace of them.

use std::path::Path;

use crate::nsys::{export, out};

const MACHINE: i64 = 1 << 48;

/// Names of kernels: one of unknown purpose, one that only operators place, a product, and a collective.
const KERNELS: [&str; 4] = [
    "mystery_kernel",
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)",
    "ampere_sgemm_128x64_nn",
    "ncclDevKernel_SendRecv",
];

/// Operators: some communicate, one copies within them, and some are of no rule.
const OPERATORS: [&str; 6] = [
    "c10d::alltoall_base_",
    "record_param_comms",
    "aten::add",
    "aten::mm",
    "my::layer",
    "mystery_kernel",
];

/// Numbers of a small generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((self.0 >> 33) % end).unwrap_or(0)
    }

    fn pick<'n>(&mut self, names: &[&'n str]) -> &'n str {
        let at = usize::try_from(self.below(names.len() as u64)).unwrap_or(0);
        names.get(at).copied().unwrap_or_default()
    }
}

/// Rows of one thread after the other.
struct Rows {
    random: Random,
    ranges: Vec<String>,
    calls: Vec<String>,
    kernels: Vec<(i64, String)>,
    id: i64,
}

impl Rows {
    /// Adds what happens on a thread from `from` to `to`: operators within operators, and calls within these. Ranges come in order of
    /// their ends.
    fn add(&mut self, thread: i64, (from, to): (i64, i64), depth: u64) {
        let process = thread & !0xff_ffff;
        let mut at = from;
        while to - at > 40 {
            let end = (at + 20 + self.random.below(900)).min(to);
            if depth < 4 && self.random.below(3) > 0 {
                let within = at + self.random.below(2);
                self.add(thread, (within, end), depth + 1);
                let name = self.random.pick(&OPERATORS);
                let seq = self.id;
                self.ranges.push(format!(
                    "({at}, {end}, 59, '{name}, seq = {seq}, op_id = 7', {thread}, 0)"
                ));
            } else {
                self.id += 1;
                let (id, call) = (
                    self.id,
                    [4, 4, 4, 1, 2][usize::try_from(self.random.below(5)).unwrap()],
                );
                self.calls
                    .push(format!("({at}, {end}, 0, {thread}, {id}, {call})"));
                let start = end + self.random.below(3_000);
                let runs = start + self.random.below(800);
                let name = 10 + self.random.below(KERNELS.len() as u64);
                let stream = 7 + self.random.below(2);
                self.kernels.push((
                    start,
                    format!("({start}, {runs}, 0, 1, {stream}, {id}, {process}, {name})"),
                ));
            }
            at = end + self.random.below(60);
        }
    }
}

/// Makes an export; of a `reversed` one the rows of kernels must be sorted, so that a trace of all is needed.
fn made(folder: &Path, name: &str, seed: u64, is_reversed: bool, more: &str) -> String {
    let mut rows = Rows {
        random: Random(seed),
        ranges: Vec::new(),
        calls: Vec::new(),
        kernels: Vec::new(),
        id: 0,
    };
    for (pid, tid) in [(10, 10), (10, 11), (12, 12)] {
        rows.add(MACHINE | pid << 24 | tid, (1_000, 60_000), 0);
    }
    rows.kernels.sort();
    if is_reversed {
        rows.kernels.reverse();
    }
    let kernels: Vec<String> = rows.kernels.into_iter().map(|(_, row)| row).collect();
    let names = KERNELS.iter().enumerate();
    let names: Vec<String> = names
        .map(|(at, name)| format!("({}, '{name}')", at + 10))
        .collect();
    let sql = format!(
        "INSERT INTO StringIds VALUES {};
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
         correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES {};
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
         correlationId INTEGER, nameId INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES {};
         CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, domainId INTEGER,
         textId INTEGER);
         INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES {}; {more}",
        names.join(", "),
        kernels.join(", "),
        rows.calls.join(", "),
        rows.ranges.join(", ")
    );
    export(folder, name, &sql)
}

/// Returns the answer about an export, without its name.
fn answer(words: &[&str], path: &str) -> String {
    let text = out(&[words, &[path]].concat());
    let name = Path::new(path).file_stem().and_then(|name| name.to_str());
    text.replace(path, "X").replace(name.unwrap_or("-"), "X")
}

#[test]
fn operators_tell_what_kernels_do_with_and_without_a_trace_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let thread = MACHINE | 10 << 24 | 10;
    // Ranges that cross others or take no time, a call across an operator, another call of an id, a label that is a string, a
    // collective of the host, a range without end.
    let range = |rows: &str| {
        format!(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES {rows}"
        )
    };
    let cases = [
        String::new(),
        range(&format!("(1100, 9000, 59, 'c10d::barrier, seq = 1', {thread}, 0)")),
        range(&format!("(2000, 2000, 59, 'c10d::barrier, seq = 1', {thread}, 0)")),
        range(&format!("(900, 70000, 59, 'c10d::barrier, seq = 1', {thread}, 0)")),
        range(&format!("(900, 70000, 59, 'aten::add, seq = 1', {thread}, 0)")),
        range(&format!("(5, 25, 59, 'gloo:all_reduce, seq = 1', {thread}, 0), (30, 40, 59, 'gloo:barrier', {thread}, 3)")),
        range(&format!("(50, NULL, 59, 'step', {thread}, 0)")),
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT start - 3, end + 40, 0, globalTid, correlationId + 100000, nameId
             FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId % 9 = 0".to_owned(),
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT start + 1, end - 1, 0, globalTid, correlationId, 2
             FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId % 5 = 0".to_owned(),
        "INSERT INTO StringIds VALUES (90, 'c10d::send, seq = 3'); UPDATE NVTX_EVENTS SET text = NULL, textId = 90
             WHERE start % 7 = 0".to_owned(),
    ];
    let mut communicating = 0;
    for (seed, more) in (1..).zip(&cases) {
        let of = |name: &str, is_reversed| {
            let name = format!("{name}{seed}.sqlite");
            made(folder.path(), &name, seed, is_reversed, more)
        };
        let (passed, kept) = (of("passed", false), of("kept", true));
        for words in [
            &["gpu", "--json"][..],
            &["gpu", "--json", "--rules", "exact", "--threads", "1"],
            &["gpu", "--json", "--per-stream"],
            &["kernels", "--json"],
            &["kernels", "--json", "--by", "class"],
        ] {
            let (got, want) = (answer(words, &passed), answer(words, &kept));
            let differ = got
                .lines()
                .zip(want.lines())
                .find(|(got, want)| got != want);
            assert_eq!(differ, None, "{more} {words:?}");
            assert_eq!(got.len(), want.len());
        }
        let plain = made(
            folder.path(),
            &format!("plain{seed}.sqlite"),
            seed,
            false,
            "DELETE FROM NVTX_EVENTS",
        );
        let comm = |path: &str| {
            let found: serde_json::Value =
                serde_json::from_str(&out(&["gpu", "--json", path])).unwrap();
            found["gpu"]["rows"][0]["comm_ns"].as_i64().unwrap()
        };
        communicating += i64::from(comm(&passed) > comm(&plain));
    }
    assert_eq!(communicating, 10, "operators must make kernels communicate");
}
