//! Records of DAMON, as `damo report raw` prints them: for each stretch of time, regions and how often they were found accessed.

use byte_source::Source;

use crate::access::Access;
use crate::error::Result;
use crate::lines::{Line, Lines};
use crate::names::{Name, Names};
use crate::perf_text::Skip;
use crate::report::ReadReport;

/// Longer lines are no records.
const MAX_LINE: usize = 4096;

/// Reads one row for each region that was found accessed, at its start and at the end of the stretch of time, standing for as many
/// findings as there were. DAMON checks pages of a region now and then: its rows are neither loads nor stores.
#[derive(Debug)]
pub(crate) struct DamonRows {
    lines: Lines,
    base_ns: u64,
    time_ns: u64,
    report: ReadReport,
}

impl DamonRows {
    pub(crate) fn new(source: Source) -> Result<Self> {
        Ok(Self {
            lines: Lines::new(source, MAX_LINE)?,
            base_ns: 0,
            time_ns: 0,
            report: ReadReport::new("damon", "damon"),
        })
    }

    pub(crate) fn next_batch(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<bool> {
        let mut line = Vec::new();
        let op = names.intern("region_access");
        for _ in 0..16_384 {
            let record = match self.lines.read(&mut line)? {
                Line::End => return Ok(false),
                Line::Overlong => Err(Skip::Truncated),
                Line::Whole => self.record(&String::from_utf8_lossy(&line), op),
            };
            self.report.lines += 1;
            self.report.take_line(record, rows);
        }
        Ok(true)
    }

    fn record(&mut self, line: &str, op: Name) -> Result<Option<Access>, Skip> {
        let line = line.trim();
        if line.is_empty() {
            return Err(Skip::Blank);
        }
        if let Some(text) = line.strip_prefix("base_time_absolute:") {
            self.base_ns = span_ns(text).ok_or(Skip::BadTime)?;
            return Ok(None);
        }
        if let Some(text) = line.strip_prefix("monitoring_end:") {
            self.time_ns = self
                .base_ns
                .saturating_add(span_ns(text).ok_or(Skip::BadTime)?);
            return Ok(None);
        }
        let Some((range, rest)) = line.split_once('(') else {
            return Err(Skip::OtherRecord);
        };
        let (start, end) = range.split_once('-').ok_or(Skip::NoEvent)?;
        let hex = |text: &str| u64::from_str_radix(text.trim(), 16).map_err(|_| Skip::BadAddress);
        let (start, end) = (hex(start)?, hex(end)?);
        let count = rest
            .rsplit_once(':')
            .and_then(|(_, count)| count.split_whitespace().next())
            .and_then(|count| count.parse::<u64>().ok())
            .ok_or(Skip::Truncated)?;
        if count == 0 {
            return Err(Skip::OtherRecord);
        }
        let mut row = Access::new(self.time_ns, start);
        row.op = op;
        row.period = count;
        row.size_bytes = u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX);
        Ok(Some(row))
    }

    pub(crate) fn report(&self) -> ReadReport {
        let mut report = self.report.clone();
        report.damage = self.lines.damage();
        report
    }
}

/// A span as `8 m 59.809 s` or `104.599 ms`.
fn span_ns(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut total = 0_u64;
    for pair in words.chunks(2) {
        let [number, unit] = pair else { return None };
        let scale: u64 = match *unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole: u64 = whole.replace(',', "").parse().ok()?;
        let mut part = 0;
        let mut weight = scale;
        for digit in fraction.bytes() {
            weight /= 10;
            part += u64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?) * weight;
        }
        total = total
            .checked_add(whole.checked_mul(scale)?)?
            .checked_add(part)?;
    }
    (!words.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_that_were_accessed_become_rows() {
        let text = "base_time_absolute: 8 m 59.809 s\n\nmonitoring_start:                0 ns\nmonitoring_end:            104.599 ms\nmonitoring_duration:       104.599 ms\ntarget_id: 1\nnr_regions: 2\n563ebaa00000-563ebc99e000(  31.617 MiB):\t1\n7f938d7e1000-7f938ddfc000(   6.105 MiB):\t0\n";
        let source = Source::from_bytes("damon.txt", text.as_bytes().to_vec()).unwrap();
        let mut rows = Vec::new();
        let mut reader = DamonRows::new(source).unwrap();
        while reader.next_batch(&mut Names::new(), &mut rows).unwrap() {}
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (rows[0].timestamp_ns, rows[0].address),
            (539_913_599_000, 0x563e_baa0_0000)
        );
        assert_eq!(rows[0].size_bytes, 0x1f9_e000);
        assert!(!rows[0].is_load() && !rows[0].is_store());
    }
}
