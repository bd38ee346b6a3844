//! Parses the summaries of blkparse and btt: totals and times of a trace, without its events.

use crate::Amount;
use crate::scan::{Cursor, contains, real, seconds_ns, trim};

/// Quantity in the summary of blkparse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum What {
    /// Bios queued.
    Queued,
    /// Requests dispatched to the driver.
    Dispatched,
    /// Requests returned by the driver.
    Requeued,
    /// Requests completed.
    Completed,
    /// Bios merged into a request.
    Merged,
}

/// Start of a line, and of its second half.
const ROWS: [(What, &[u8], &[u8]); 5] = [
    (What::Queued, b"Reads Queued:", b"Writes Queued:"),
    (What::Dispatched, b"Read Dispatches:", b"Write Dispatches:"),
    (What::Requeued, b"Reads Requeued:", b"Writes Requeued:"),
    (What::Completed, b"Reads Completed:", b"Writes Completed:"),
    (What::Merged, b"Read Merges:", b"Write Merges:"),
];

impl What {
    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Dispatched => "dispatched",
            Self::Requeued => "requeued",
            Self::Completed => "completed",
            Self::Merged => "merged",
        }
    }
}

/// A line of blkparse's summary about reads and writes: `LABEL: COUNT[, SIZE]` twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The counted quantity.
    pub what: What,
    /// Requests and bytes of reads and of writes. `None` if the count is rounded; bytes are
    /// truncated to the printed unit, and 0 if none are printed.
    pub amounts: [Option<Amount>; 2],
}

/// Parses such a line.
fn row(text: &[u8]) -> Option<Row> {
    let (what, read, write) = ROWS.iter().find(|(_, begin, _)| text.starts_with(begin))?;
    let split = memchr::memmem::find(text, write)?;
    let (reads, writes) = text.split_at_checked(split)?;
    let amount = |half: &[u8], label: &[u8]| {
        let mut cursor = Cursor::new(half.strip_prefix(label)?);
        cursor.blanks();
        let ios = cursor.uint()?;
        // A count with a unit is rounded.
        if cursor.peek().is_some_and(|b| b.is_ascii_alphabetic()) {
            return None;
        }
        let bytes = if cursor.eat(b',') {
            cursor.blanks();
            size(&mut cursor).unwrap_or(0)
        } else {
            0
        };
        Some(Amount { ios, bytes })
    };
    Some(Row {
        what: *what,
        amounts: [amount(reads, read), amount(writes, write)],
    })
}

/// Parses `534968KiB`, `1082MiB`.
fn size(cursor: &mut Cursor<'_>) -> Option<u64> {
    let number = cursor.uint()?;
    let unit = cursor.word();
    let unit = unit.split(|b| *b == b'/').next()?;
    let shift = match unit {
        b"KiB" => 10,
        b"MiB" => 20,
        b"GiB" => 30,
        b"TiB" => 40,
        b"" => 0,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// Parses `Events (NAME): N entries`.
fn entries(text: &[u8]) -> Option<u64> {
    if !text.starts_with(b"Events (") || !text.ends_with(b" entries") {
        return None;
    }
    let at = memchr::memmem::find(text, b"): ")? + 3;
    let mut cursor = Cursor::new(text.get(at..)?);
    cursor.blanks();
    let number = cursor.uint()?;
    let is_whole = cursor.peek().is_none_or(|b| !b.is_ascii_alphabetic());
    is_whole.then_some(number)
}

/// Totals of all devices and processors in the summary after the events of a `blkparse` output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PrintedTotals {
    /// Events printed.
    pub entries: Option<u64>,
    /// Requests dispatched to the driver: reads, writes.
    pub dispatched: [Option<u64>; 2],
    /// Requests completed: reads, writes.
    pub completed: [Option<u64>; 2],
}

impl PrintedTotals {
    /// Adopts the totals of later lines.
    pub fn append(&mut self, later: Self) {
        self.entries = later.entries.or(self.entries);
        for (mine, later) in [
            (&mut self.dispatched, later.dispatched),
            (&mut self.completed, later.completed),
        ] {
            for (mine, later) in mine.iter_mut().zip(later) {
                *mine = later.or(*mine);
            }
        }
    }

    /// Reads the totals from a line of blkparse's summary; those of all processors come last.
    pub fn take(&mut self, line: &[u8]) {
        let Some(row) = row(line) else {
            self.entries = entries(line).or(self.entries);
            return;
        };
        let ios = row.amounts.map(|amount| amount.map(|amount| amount.ios));
        match row.what {
            What::Dispatched => self.dispatched = ios,
            What::Completed => self.completed = ios,
            _ => {}
        }
    }
}

/// The summary of one device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Name as printed, which is often that of the files.
    pub device: String,
    /// Number of processors with events of the device.
    pub cpus: usize,
    /// Totals of all processors together.
    pub rows: Vec<Row>,
    /// Bytes per second read and written.
    pub bytes_per_s: Option<[u64; 2]>,
    /// Number of events.
    pub entries: Option<u64>,
    /// Gaps in the sequence numbers: missing events.
    pub skips: Option<u64>,
}

/// Parses the heading of the events of one processor or of all: `CPU0 (sda):`, `Total (sda):`.
fn heading(line: &[u8]) -> Option<(bool, &[u8])> {
    let open = memchr::memchr(b'(', line)?;
    let device = line.get(open + 1..)?.strip_suffix(b"):")?;
    let head = trim(line.get(..open)?);
    let number = head.strip_prefix(b"CPU");
    let is_cpu = number.is_some_and(|n| !n.is_empty() && n.iter().all(u8::is_ascii_digit));
    (is_cpu || head == b"Total").then_some((is_cpu, device))
}

/// Returns `true` if a text contains the summary of blkparse.
pub(crate) fn is_summary(head: &[u8]) -> bool {
    let mut lines = head.split(|b| *b == b'\n').map(trim);
    lines.any(|line| heading(line).is_some()) && {
        let mut lines = head.split(|b| *b == b'\n').map(trim);
        lines.any(|line| row(line).is_some())
    }
}

/// Returns the summaries of all devices of a text.
#[must_use]
pub fn summaries(text: &[u8]) -> Vec<Summary> {
    let mut found: Vec<Summary> = Vec::new();
    for line in text.split(|b| *b == b'\n').map(trim) {
        if let Some((is_cpu, device)) = heading(line) {
            let device = String::from_utf8_lossy(device).into_owned();
            if found.last().is_none_or(|last| last.device != device) {
                found.push(Summary {
                    device,
                    ..Summary::default()
                });
            }
            if let Some(last) = found.last_mut() {
                last.cpus += usize::from(is_cpu);
                // The totals of all processors follow those of each.
                last.rows.clear();
            }
            continue;
        }
        let Some(last) = found.last_mut() else {
            continue;
        };
        if let Some(row) = row(line) {
            last.rows.push(row);
        } else if let Some(rates) = line.strip_prefix(b"Throughput (R/W): ") {
            last.bytes_per_s = rates_of(rates);
        } else if let Some(rest) = line.strip_prefix(b"Skips: ") {
            last.skips = Cursor::new(rest).uint();
        } else {
            last.entries = entries(line).or(last.entries);
        }
    }
    found
}

/// Parses `48213KiB/s / 23824KiB/s`.
fn rates_of(text: &[u8]) -> Option<[u64; 2]> {
    let mut cursor = Cursor::new(text);
    let read = size(&mut cursor)?;
    cursor.blanks();
    cursor.eat(b'/');
    cursor.blanks();
    Some([read, size(&mut cursor)?])
}

/// A row of btt's times between stages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stage {
    /// Events that delimit the stage: `Q2C`, `D2C`.
    pub name: String,
    /// Minimum in nanoseconds.
    pub min_ns: u64,
    /// Mean in nanoseconds.
    pub mean_ns: u64,
    /// Maximum in nanoseconds.
    pub max_ns: u64,
    /// Number of values.
    pub count: u64,
}

/// Output of btt for a trace.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Btt {
    /// Times between stages, of all devices together.
    pub stages: Vec<Stage>,
    /// Bios queued and requests dispatched, of all devices.
    pub queued_and_dispatched: Option<(u64, u64)>,
    /// Sectors dispatched.
    pub sectors: Option<u64>,
    /// Share of the time in percent with a request in flight.
    pub live_percent: Option<f64>,
}

/// Heading of the first table of btt.
pub(crate) const BTT_HEADING: &[u8] = b"= All Devices =";

/// Reads the tables of all devices from btt's output; `None` if there is none.
#[must_use]
pub fn btt(text: &[u8]) -> Option<Btt> {
    let mut found = Btt::default();
    let mut table: &[u8] = b"";
    for line in text.split(|b| *b == b'\n').map(trim) {
        if line.starts_with(b"====") {
            let mut parts = line.split(|b| *b == b'=');
            table = trim(parts.find(|part| !part.is_empty()).unwrap_or_default());
            continue;
        }
        let mut cursor = Cursor::new(line);
        let mut words: Vec<&[u8]> = Vec::new();
        loop {
            match cursor.word() {
                b"" => break,
                word => words.push(word),
            }
        }
        match (table, words.as_slice()) {
            (b"All Devices", [name, min, mean, max, count]) => {
                found.stages.extend(stage(name, [min, mean, max], count));
            }
            (b"Device Merge Information", [first, .., queued, sent, _, b"|", _, _, _, sectors])
                if first.starts_with(b"(") =>
            {
                let number = |word: &[u8]| Cursor::new(word).uint();
                if let (Some(queued), Some(sent)) = (number(queued), number(sent)) {
                    let (q, d) = found.queued_and_dispatched.unwrap_or_default();
                    found.queued_and_dispatched = Some((q + queued, d + sent));
                }
                if let Some(sectors) = number(sectors) {
                    *found.sectors.get_or_insert(0) += sectors;
                }
            }
            (b"I/O Active Period Information", [b"Total", b"Sys", .., live]) => {
                found.live_percent = real(live);
            }
            _ => {}
        }
    }
    (!found.stages.is_empty()).then_some(found)
}

fn stage(name: &[u8], times: [&&[u8]; 3], count: &[u8]) -> Option<Stage> {
    // Lines of dashes and the heading have no times.
    let [min_ns, mean_ns, max_ns] = times.map(|time| seconds_ns(time));
    Some(Stage {
        name: String::from_utf8_lossy(name).into_owned(),
        min_ns: min_ns?,
        mean_ns: mean_ns?,
        max_ns: max_ns?,
        count: crate::scan::whole_uint(count)?,
    })
}

/// Returns `true` if a text is the output of btt.
pub(crate) fn is_btt(head: &[u8]) -> bool {
    contains(head, BTT_HEADING)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &[u8] = b"CPU0 (sda):\n Reads Queued:           4,       16KiB\t Writes Queued:          1,      512KiB\n Read depth:             6        \t Write depth:             8\nCPU1 (sda):\n Reads Queued:           6,       24KiB\t Writes Queued:          0,        0KiB\n\nTotal (sda):\n Reads Queued:          10,       40KiB\t Writes Queued:          1,      512KiB\n Read Dispatches:       1K,     1082MiB\t Write Dispatches:        1,      512KiB\n Reads Requeued:         3\t\t Writes Requeued:         0\n\nThroughput (R/W): 48213KiB/s / 23MiB/s\nEvents (sda): 100 entries\nSkips: 2 forward (7 -   0.1%)\nCPU0 (sdb):\n Reads Completed:         5,       20KiB\t Writes Completed:        2,        8KiB\nEvents (sdb): 7 entries\n";

    #[test]
    fn summaries_of_devices_with_several_processors_and_with_one() {
        assert!(is_summary(SUMMARY) && !is_summary(b"CPU0 (sda):\nnothing\n"));
        let found = summaries(SUMMARY);
        let [a, b] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((a.device.as_str(), a.cpus, b.cpus), ("sda", 2, 1));
        assert_eq!((a.entries, a.skips), (Some(100), Some(2)));
        assert_eq!(a.bytes_per_s, Some([48_213 << 10, 23 << 20]));
        let amount = |ios, bytes| Some(Amount { ios, bytes });
        let rows: Vec<_> = a.rows.iter().map(|row| (row.what, row.amounts)).collect();
        assert_eq!(
            rows,
            [
                (What::Queued, [amount(10, 40 << 10), amount(1, 512 << 10)]),
                (What::Dispatched, [None, amount(1, 512 << 10)]),
                (What::Requeued, [amount(3, 0), amount(0, 0)]),
            ]
        );
        let [row] = b.rows.as_slice() else {
            panic!("{b:?}");
        };
        assert_eq!(row.amounts, [amount(5, 20 << 10), amount(2, 8 << 10)]);
    }

    #[test]
    fn times_and_totals_of_btt() {
        let text = b"==================== All Devices ====================\n\n            ALL           MIN           AVG           MAX           N\n--------------- ------------- ------------- ------------- -----------\n\nQ2Q               0.000000201   0.001346606   2.014904808       16673\nD2C               0.000016965   0.001131335   0.021166567       16662\n\n==================== Device Merge Information ====================\n\n       DEV |       #Q       #D   Ratio |   BLKmin   BLKavg   BLKmax    Total\n---------- | -------- -------- ------- | -------- -------- -------- --------\n (  7,  0) |    16692    16690     1.0 |        8      193     2560  3235224\n (254, 16) |        2        1     2.0 |        8        8        8       16\n\n==================== I/O Active Period Information ====================\n\n       DEV |     # Live      Avg. Act     Avg. !Act % Live\n (  7,  0) |       7427   0.001181033   0.001842742  39.06\n---------- | ---------- ------------- ------------- ------\n Total Sys |       7427   0.001181033   0.001842742  39.06\n";
        let found = btt(text).unwrap();
        let [_, d2c] = found.stages.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(
            (d2c.name.as_str(), d2c.mean_ns, d2c.count),
            ("D2C", 1_131_335, 16_662)
        );
        assert_eq!(found.queued_and_dispatched, Some((16_694, 16_691)));
        assert_eq!(found.sectors, Some(3_235_240));
        assert_eq!(found.live_percent, Some(39.06));
        assert_eq!(btt(b"nothing"), None);
    }

    #[test]
    fn totals_that_blkparse_printed() {
        let mut printed = PrintedTotals::default();
        for line in [
            &b" Read Dispatches:      740,    59864KiB\t Write Dispatches:      337,    21064KiB"[..],
            b" Read Dispatches:      855,    88252KiB\t Write Dispatches:     1022,   136076KiB",
            b" Reads Completed:       1K,    88252KiB\t Writes Completed:     1031,   136076KiB",
            b" Reads Requeued:         0\t\t Writes Requeued:         0",
            b"Events (blk): 11209 entries",
        ] {
            printed.take(line.trim_ascii());
        }
        assert_eq!(printed.entries, Some(11_209));
        assert_eq!(printed.dispatched, [Some(855), Some(1022)]);
        assert_eq!(printed.completed, [None, Some(1031)]);
    }
}
