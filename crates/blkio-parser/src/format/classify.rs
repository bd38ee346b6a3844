//! Classifies lines that are no events: what the tracers and the shell write in between.

use crate::quality::LineCounts;
use crate::scan::{Cursor, contains, trim, whole_uint};
use blkio_companions::clock::Anchor;

/// What our collector writes before the name of the clock that a tracefs instance was set to.
pub(crate) const TRACE_CLOCK: &[u8] = b"trace clock:";

/// Counts a line that is no event in its class.
pub(super) fn count(line: &[u8], counts: &mut LineCounts) {
    let text = trim(line);
    match text.first() {
        None => counts.blank += 1,
        Some(b'@') => counts.map_output += 1,
        Some(b'#') => {
            counts.comment += 1;
            comment(text, counts);
        }
        Some(_) if text.starts_with(b"Attaching ") || text.starts_with(b"Attached ") => {
            counts.header += 1;
        }
        Some(_) if lost(text, counts) => {}
        Some(_)
            if text.starts_with(b"version https://git-lfs")
                || text.starts_with(b"oid sha256:")
                || is_lfs_size(text) =>
        {
            counts.lfs_pointer += 1;
        }
        Some(_) if contains(text, b"WARNING:") || text.starts_with(b"WARNING") => {
            counts.warning += 1;
        }
        Some(_) if contains(text, b"ERROR:") || text.starts_with(b"ERROR") => counts.error += 1,
        Some(_) => {
            counts.other += 1;
            counts.printed.take(text);
        }
    }
}

/// `Lost N events` of bpftrace, `Possibly lost N samples` of bcc, `lost N events on CPU #n` of libbpf's tools, `LOST n events!` of perf, `CPU:n [LOST m EVENTS]` of tracefs, `CPU:n [m EVENTS DROPPED]` of
/// trace-cmd, which may leave the number out and stands behind the name of an instance; `Processed n events and lost m chunks!`
/// of perf, whose chunks are of no known number of events.
fn lost(text: &[u8], counts: &mut LineCounts) -> bool {
    let begins = [
        &b"Lost "[..],
        b"LOST ",
        b"lost ",
        b"Possibly lost ",
        b"WARNING: Lost ",
    ];
    let behind = begins.iter().find_map(|begin| text.strip_prefix(*begin));
    let number = if let Some(rest) = behind {
        let mut cursor = Cursor::new(rest);
        let number = cursor.uint();
        let what = trim(cursor.rest);
        number.filter(|_| what.starts_with(b"events") || what.starts_with(b"samples"))
    } else if text.starts_with(b"Processed ") && text.ends_with(b" chunks!") {
        Some(0)
    } else if text.starts_with(b"CPU:") || contains(text, b": CPU:") {
        let inside = memchr::memrchr(b'[', text).and_then(|at| text.get(at + 1..));
        let inside = inside.unwrap_or_default();
        match inside.strip_prefix(b"LOST ") {
            Some(number) => Cursor::new(number).uint(),
            None if inside.ends_with(b"EVENTS DROPPED]") => {
                Some(Cursor::new(inside).uint().unwrap_or(0))
            }
            None => None,
        }
    } else {
        None
    };
    let Some(number) = number else { return false };
    counts.lost_lines += 1;
    counts.lost_events = counts.lost_events.saturating_add(number);
    true
}

fn is_lfs_size(text: &[u8]) -> bool {
    text.strip_prefix(b"size ")
        .is_some_and(|n| whole_uint(n).is_some())
}

/// Takes clock readings and closing counts out of our collector's comments, and overwrites out of tracefs headings.
fn comment(text: &[u8], counts: &mut LineCounts) {
    let body = trim(text.get(1..).unwrap_or_default());
    if let Some(rest) = body.strip_prefix(b"clock:") {
        counts.anchors.extend(anchor(rest));
    } else if let Some(rest) = body.strip_prefix(TRACE_CLOCK) {
        counts.clock = of_kernel(trim(rest)).or(counts.clock);
    } else if let Some(rest) = body.strip_prefix(b"outstanding:") {
        counts.outstanding_at_end = whole_uint(trim(rest));
    } else if let Some(rest) = body.strip_prefix(b"entries-in-buffer/entries-written:") {
        counts.lost_events = counts.lost_events.saturating_add(overwritten(trim(rest)));
    } else if let Some(rest) = body.strip_prefix(b"latency:")
        && let Some(at) = memchr::memchr(b'#', rest)
    {
        // The latency format: `latency: 0 us, #8354/8400, CPU#0 | ...`
        let rest = rest.get(at + 1..).unwrap_or_default();
        counts.lost_events = counts.lost_events.saturating_add(overwritten(rest));
    }
}

/// Returns the number of entries that a ring overwrote, from the text `KEPT/WRITTEN`.
fn overwritten(text: &[u8]) -> u64 {
    let mut cursor = Cursor::new(text);
    match (cursor.uint(), cursor.eat(b'/'), cursor.uint()) {
        (Some(kept), true, Some(written)) => written.saturating_sub(kept),
        _ => 0,
    }
}

/// ` nsecs=N wall=YYYY-MM-DDTHH:MM:SS.micros`
fn anchor(text: &[u8]) -> Option<Anchor> {
    let mut cursor = Cursor::new(text);
    let mut trace_ns = None;
    let mut wall_ns = None;
    loop {
        let word = cursor.word();
        if word.is_empty() {
            break;
        }
        if let Some(value) = word.strip_prefix(b"nsecs=") {
            trace_ns = whole_uint(value);
        } else if let Some(value) = word.strip_prefix(b"wall=") {
            wall_ns = blkio_companions::wall_clock::parse_wall(value);
        }
    }
    Some(Anchor {
        trace_ns: trace_ns?,
        wall_ns: wall_ns?,
        uncertainty_ns: 0,
    })
}

/// Our name of a trace clock of the kernel.
fn of_kernel(name: &[u8]) -> Option<&'static str> {
    Some(match name {
        b"boot" => "boottime",
        b"local" => "local",
        b"global" => "global",
        b"mono" => "monotonic",
        b"mono_raw" => "monotonic-raw",
        b"perf" => "perf",
        b"tai" => "tai",
        b"uptime" => "uptime",
        b"counter" => "counter",
        b"x86-tsc" => "x86-tsc",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwritten_entries_of_both_headings() {
        for (line, lost) in [
            (&b"# entries-in-buffer/entries-written: 20/25   #P:2"[..], 5),
            (
                b"# latency: 0 us, #8354/8400, CPU#0 | (M:PREEMPT VP:0, KP:0, SP:0 HP:0 #P:2)",
                46,
            ),
            (b"# latency: 0 us, #8354/8354, CPU#0 | (M:PREEMPT)", 0),
            (b"# latency: what #is", 0),
        ] {
            let mut counts = LineCounts::default();
            count(line, &mut counts);
            assert_eq!(counts.lost_events, lost);
        }
    }

    #[test]
    fn losses_as_tracers_report_them() {
        for (line, events) in [
            (&b"Lost 12 events"[..], 12),
            (b"LOST 13 events!", 13),
            (b"Possibly lost 7 samples", 7),
            (b"lost 8 events on CPU #3", 8),
            (b"WARNING: Lost 9 events", 9),
            (b"CPU:1 [LOST 14 EVENTS]", 14),
            (b"CPU:7 [204600 EVENTS DROPPED]", 204_600),
            (b"bkio: CPU:0 [15 EVENTS DROPPED]", 15),
            (b"CPU:0 [EVENTS DROPPED]", 0),
            (b"Processed 100 events and lost 3 chunks!", 0),
        ] {
            let mut counts = LineCounts::default();
            count(line, &mut counts);
            assert_eq!((counts.lost_lines, counts.lost_events), (1, events));
        }
        for line in [&b"Lost 12 ev"[..], b"CPU:1 [LOST", b"CPU 1 is empty"] {
            let mut counts = LineCounts::default();
            count(line, &mut counts);
            assert_eq!((counts.lost_lines, counts.other), (0, 1));
        }
    }

    #[test]
    fn what_tracers_say_when_they_begin() {
        for line in [&b"Attaching 1 probe..."[..], b"Attached 3 probes"] {
            let mut counts = LineCounts::default();
            count(line, &mut counts);
            assert_eq!(counts.header, 1);
        }
    }

    #[test]
    fn the_clock_that_the_collector_set() {
        let mut counts = LineCounts::default();
        count(b"# trace clock: boot", &mut counts);
        count(b"# trace clock: sundial", &mut counts);
        assert_eq!((counts.clock, counts.comment), (Some("boottime"), 2));
    }
}
