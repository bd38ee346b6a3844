//! The log of block I/O beside a job, as the collector of `blkio` writes it, with readings of wall time.

use super::{File, START};
use std::fmt::Write as _;

/// A read of a disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    /// True time of its issue.
    pub(super) issue_ns: i64,
    /// True time of its completion.
    pub(super) done_ns: i64,
    /// First sector.
    pub(super) sector: i64,
    /// Sectors.
    pub(super) sectors: i64,
}

/// Time since the boot of the machine at [`START`].
const UP_NS: i64 = 86_400_000_000_000;

/// [`START`] as the log writes it.
const WALL: &str = "2026-03-31T23:33:20.000000Z";

/// Returns the log of `reads`, one line for each; nothing without reads.
pub(super) fn log(reads: &[Read]) -> Vec<File> {
    if reads.is_empty() {
        return Vec::new();
    }
    let mut text = format!(
        "# blkio-events 2\n# fields: R, issue_ns, complete_ns, cpu, major, minor, rwbs, bytes, sector, nr_sector, error, pid, comm\n\
         # clock: nsecs={UP_NS} wall={WALL}\n# device: 259:0\n"
    );
    let mut reads = reads.to_vec();
    reads.sort_by_key(|read| (read.done_ns, read.sector));
    for read in reads {
        let up = |at: i64| at - START + UP_NS;
        writeln!(
            text,
            "R, {}, {}, 3, 259, 0, R, {}, {}, {}, 0, 4242, VLLM::Worker",
            up(read.issue_ns),
            up(read.done_ns),
            read.sectors * 512,
            read.sector,
            read.sectors
        )
        .expect("a string can be written to");
    }
    vec![File {
        name: "disk.events.txt".to_owned(),
        text,
    }]
}
