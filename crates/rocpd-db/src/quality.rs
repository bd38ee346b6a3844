//! Data quality: values of the wrong type, and times that cannot be.

use crate::error::Result;
use crate::filter::Filter;
use crate::partition::Partition;
use crate::records::{Allocation, Arg, Copy, Dispatch, PmcEvent, Record, Region, Sample};
use crate::scan::Order;
use crate::set::RocpdSet;
use crate::value::Fields;
use sqlite_scan::Value;
use trace_model::is_plausible;

/// Tables with times, their columns (one for moments), and whether records are read from them (then a value of the wrong type is reported
/// where the record is read).
const TIMED: [(&str, [&str; 2], bool); 7] = [
    ("rocpd_region", ["start", "end"], true),
    ("rocpd_sample", ["timestamp", ""], true),
    ("rocpd_kernel_dispatch", ["start", "end"], true),
    ("rocpd_memory_copy", ["start", "end"], true),
    ("rocpd_memory_allocate", ["start", "end"], true),
    ("rocpd_graph_launch", ["start", "end"], false),
    ("rocpd_hip_event", ["start", "end"], false),
];

/// Rows of a table with times that cannot be: an end before the start, or a time before the clock began; sizes below 0; and
/// counters without a value.
///
/// Such rows are read like all others and shown as recorded, so durations below 0 go into sums. Of a counter with an instance
/// that has no value no sum is given.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OddTimes {
    /// The file.
    pub file: String,
    /// Guid of the tables.
    pub guid: String,
    /// The table, without suffix.
    pub table: &'static str,
    /// Number of rows that end before they start.
    pub reversed: u64,
    /// Number of rows with a time below 0.
    pub negative: u64,
    /// Number of rows that last longer, or lie farther from the origin of the clock, than a recording can
    /// ([`trace_model::is_plausible`]): such a time is damage, or stands for "unknown".
    pub implausible: u64,
    /// Number of rows with a size below 0.
    pub negative_sizes: u64,
    /// Number of rows without the value that they were recorded for.
    pub valueless: u64,
    /// Row id of the first row of any kind.
    pub first_rowid: i64,
}

impl OddTimes {
    /// Number of findings, of which a row may have several.
    const fn rows(&self) -> u64 {
        self.reversed + self.negative + self.implausible + self.negative_sizes + self.valueless
    }
}

impl std::fmt::Display for OddTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            (self.reversed, "end before they start"),
            (self.negative, "have times below 0"),
            (
                self.implausible,
                "last longer than 104 days or lie beyond the year 2043",
            ),
            (self.negative_sizes, "have sizes below 0"),
            (self.valueless, "have no value"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts
            .map(|(count, what)| format!("{count} rows {what}"))
            .collect();
        write!(
            f,
            "{}: table {}: {} (first in row {})",
            self.file,
            self.table,
            parts.join(", "),
            self.first_rowid
        )
    }
}

impl RocpdSet {
    /// Reads every record and returns the tables whose times cannot be; [`RocpdSet::issues`] then has all rows that are left
    /// out because of a value of the wrong type.
    ///
    /// Time: two passes over the tables of records. Each call counts issues anew on top of those found before.
    ///
    /// # Errors
    ///
    /// When a file is damaged.
    pub fn odd_times(&self) -> Result<Vec<OddTimes>> {
        let filter = Filter::default();
        self.read_all::<Dispatch<'_>>(&filter)?;
        self.read_all::<Copy<'_>>(&filter)?;
        self.read_all::<Allocation<'_>>(&filter)?;
        self.read_all::<Region<'_>>(&filter)?;
        self.read_all::<Sample<'_>>(&filter)?;
        self.read_all::<PmcEvent<'_>>(&filter)?;
        self.read_all::<Arg>(&filter)?;
        let mut found = Vec::new();
        for partition in self.partitions() {
            for (base, columns, is_record) in TIMED {
                found.extend(times_of(partition, base, columns, !is_record)?);
            }
            found.extend(values_of(partition)?);
        }
        Ok(found)
    }

    fn read_all<'a, R: Record<'a>>(&'a self, filter: &'a Filter) -> Result<()> {
        for record in self.scan::<R>(filter, Order::Stored)? {
            record?;
        }
        Ok(())
    }
}

/// Reports the values of the wrong type in the times of a table that no records are read from.
pub(crate) fn check_times(partition: &Partition, base: &str) -> Result<()> {
    for (known, columns, _) in TIMED {
        if known == base {
            times_of(partition, known, columns, true)?;
        }
    }
    Ok(())
}

/// Counts the counters without a value.
fn values_of(partition: &Partition) -> Result<Option<OddTimes>> {
    let base = "rocpd_pmc_event";
    let Some(table) = partition
        .table(base)
        .filter(|table| table.def.column("value").is_some())
    else {
        return Ok(None);
    };
    let mut odd = OddTimes {
        file: partition.path().to_owned(),
        guid: partition.guid().to_owned(),
        table: base,
        reversed: 0,
        negative: 0,
        implausible: 0,
        negative_sizes: 0,
        valueless: 0,
        first_rowid: 0,
    };
    let pick = table.def.pick(["value"]);
    let mut cursor = table.cursor(partition)?;
    while let Some((rowid, values)) = cursor.next(&pick)? {
        if let [Value::Null] = values {
            if odd.valueless == 0 {
                odd.first_rowid = rowid;
            }
            odd.valueless += 1;
        }
    }
    Ok((odd.valueless > 0).then_some(odd))
}

fn times_of(
    partition: &Partition,
    base: &'static str,
    columns: [&str; 2],
    report: bool,
) -> Result<Option<OddTimes>> {
    let Some(table) = partition.table(base) else {
        return Ok(None);
    };
    let mut odd = OddTimes {
        file: partition.path().to_owned(),
        guid: partition.guid().to_owned(),
        table: base,
        reversed: 0,
        negative: 0,
        implausible: 0,
        negative_sizes: 0,
        valueless: 0,
        first_rowid: 0,
    };
    let has_size = table.def.column("size").is_some();
    let [first, last] = columns;
    let size = if has_size { "size" } else { "" };
    let columns = [first, last, size];
    let pick = table.def.pick(columns);
    let mut cursor = table.cursor(partition)?;
    while let Some((rowid, values)) = cursor.next(&pick)? {
        let row = Fields(&values);
        // A moment has one time.
        let end = usize::from(!columns[1].is_empty());
        let (start, end) = match (row.need(0), row.need(end)) {
            (Ok(start), Ok(end)) => (start, end),
            (Err(slot), _) | (_, Err(slot)) => {
                if report {
                    partition.bad_value(table, &columns, &values, rowid, slot);
                }
                continue;
            }
        };
        if odd.rows() == 0 {
            odd.first_rowid = rowid;
        }
        // A size of the wrong type is reported where its record is read.
        odd.negative_sizes += u64::from(has_size && row.need(2).is_ok_and(|size| size < 0));
        odd.reversed += u64::from(end < start);
        odd.negative += u64::from(start < 0 || end < 0);
        odd.implausible += u64::from(!is_plausible(start, end));
    }
    Ok((odd.rows() > 0).then_some(odd))
}
