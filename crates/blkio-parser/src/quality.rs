//! Counts what was in the input besides events: the part of every report that shows its data quality.

use std::collections::BTreeSet;

use blkio_companions::blkparse_summary::PrintedTotals;
use blkio_companions::clock::Anchor;

/// Maximum number of pairs of remapped devices that are kept.
const MAX_REMAPS: usize = 256;

/// Samples of malformed lines that are kept.
pub(crate) const SAMPLES: usize = 10;

/// One malformed line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// Line number from 1; record number for binary input.
    pub line: u64,
    /// Byte at which the line begins.
    pub offset: u64,
    /// What is wrong.
    pub reason: &'static str,
}

/// Counts of everything that was read from one input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineCounts {
    /// Lines of text, all kinds.
    pub lines: u64,
    /// Lines that are events.
    pub event_lines: u64,
    /// Empty lines and lines of blanks.
    pub blank: u64,
    /// `Attaching N probes`, column headings, comments of the tracers.
    pub header: u64,
    /// Lines that report lost events.
    pub lost_lines: u64,
    /// Events reported as lost.
    pub lost_events: u64,
    /// Warnings of the tracer.
    pub warning: u64,
    /// Errors of the tracer.
    pub error: u64,
    /// Lines of a Git LFS pointer in place of the log.
    pub lfs_pointer: u64,
    /// Printed maps.
    pub map_output: u64,
    /// Comment lines (`# ...`).
    pub comment: u64,
    /// Frames of call chains.
    pub stack: u64,
    /// Lines that are none of these.
    pub other: u64,
    /// Lines that look like events and are none.
    pub malformed: u64,
    /// The first of them.
    pub malformed_samples: Vec<Malformed>,
    /// `true` if the last line has no line feed.
    pub unterminated_last_line: bool,
    /// Requests the collector says were outstanding at its end.
    pub outstanding_at_end: Option<u64>,
    /// Pairs of clock readings in the input.
    pub anchors: Vec<Anchor>,
    /// Totals that the tool which wrote the input printed itself.
    pub printed: PrintedTotals,
    /// When the first message was written into a binary trace: its tools count from there when that is before all events.
    pub first_message_ns: Option<u64>,
    /// The clock that the input says its times are of.
    pub clock: Option<&'static str>,
    /// Pairs of devices between which bios were remapped: the upper one, the lower one. At most `MAX_REMAPS`.
    pub remaps: BTreeSet<(u32, u32)>,
}

impl LineCounts {
    /// Lines that are no event, malformed ones included.
    #[must_use]
    pub fn not_events(&self) -> u64 {
        self.lines - self.event_lines
    }

    /// Records that a bio of device `upper` was sent on to device `lower`.
    pub(crate) fn remapped(&mut self, upper: u32, lower: u32) {
        if upper != lower && self.remaps.len() < MAX_REMAPS {
            self.remaps.insert((upper, lower));
        }
    }

    /// Counts a malformed line and keeps it if it is one of the first.
    pub(crate) fn malformed(&mut self, line: u64, offset: u64, reason: &'static str) {
        self.malformed += 1;
        if self.malformed_samples.len() < SAMPLES {
            self.malformed_samples.push(Malformed {
                line,
                offset,
                reason,
            });
        }
    }

    /// Adds what a later piece of the same input had; its line numbers and offsets are moved behind this one's.
    pub(crate) fn append(&mut self, later: Self, line_base: u64, offset_base: u64) {
        for sample in later.malformed_samples {
            if self.malformed_samples.len() < SAMPLES {
                self.malformed_samples.push(Malformed {
                    line: sample.line + line_base,
                    offset: sample.offset + offset_base,
                    ..sample
                });
            }
        }
        self.lines += later.lines;
        self.event_lines += later.event_lines;
        self.blank += later.blank;
        self.header += later.header;
        self.lost_lines += later.lost_lines;
        self.lost_events += later.lost_events;
        self.warning += later.warning;
        self.error += later.error;
        self.lfs_pointer += later.lfs_pointer;
        self.map_output += later.map_output;
        self.comment += later.comment;
        self.stack += later.stack;
        self.other += later.other;
        self.malformed += later.malformed;
        self.unterminated_last_line |= later.unterminated_last_line;
        self.outstanding_at_end = later.outstanding_at_end.or(self.outstanding_at_end);
        self.anchors.extend(later.anchors);
        self.printed.append(later.printed);
        let messages = [self.first_message_ns, later.first_message_ns];
        self.first_message_ns = messages.into_iter().flatten().min();
        self.clock = later.clock.or(self.clock);
        for (upper, lower) in later.remaps {
            self.remapped(upper, lower);
        }
    }
}
