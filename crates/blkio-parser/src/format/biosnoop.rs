//! `biosnoop` of bcc, libbpf and bpftrace: one line per request, printed when it completes.

use super::{Line, Sink};
use crate::event::{Event, EventKind, NAMED_DEVICE};
use crate::rwbs::Rwbs;
use crate::scan::{Cursor, device_number, seconds_ns, whole_uint};

/// Added to all times: the tool counts from its first line, and that request was issued before.
pub(crate) const SHIFT_NS: u64 = 1_000_000_000_000;

/// Parses one line.
pub(super) fn line(line: &[u8], sink: &mut Sink) -> Line {
    let mut cursor = Cursor::new(line);
    let mut words: Vec<&[u8]> = Vec::with_capacity(12);
    loop {
        let word = cursor.word();
        if word.is_empty() {
            break;
        }
        words.push(word);
    }
    if words == [&b"MAJOR"[..], b"MINOR"] {
        return Line::Header;
    }
    match words.first() {
        Some(first) if first.starts_with(b"TIME(") || *first == b"TIMESTAMP" => {
            return Line::Header;
        }
        Some(first) if first.first().is_some_and(u8::is_ascii_digit) => {}
        _ => return Line::Not,
    }
    let is_bpftrace = words.first().is_some_and(|time| !time.contains(&b'.'));
    let found = if is_bpftrace {
        latency_only(line, &words, sink)
    } else {
        columns(&words, sink)
    };
    match found {
        Some(()) => Line::Event,
        None => Line::Malformed("not the columns of a biosnoop line"),
    }
}

/// Returns the columns counted from the end, because a name may hold blanks.
fn columns(words: &[&[u8]], sink: &mut Sink) -> Option<()> {
    let from_end = |n: usize| words.len().checked_sub(n).and_then(|at| words.get(at));
    // With the queue time and with the pattern there is one more column each.
    let (letters, rwbs) = (4..=6).find_map(|place| Some((place, Rwbs::new(from_end(place)?)?)))?;
    let sector = match *from_end(letters - 1)? {
        b"-1" | b"?" => u64::MAX,
        text => whole_uint(text)?,
    };
    let bytes = u32::try_from(whole_uint(from_end(letters - 2)?)?).ok()?;
    let disk = *from_end(letters + 1)?;
    let pid = pid(from_end(letters + 2)?)?;
    let name = words.get(1..words.len().checked_sub(letters + 2)?)?;
    let time = *words.first()?;
    let since_ns = match of_day_ns(time) {
        Some(since_ns) => since_ns,
        None => nanoseconds(time, 1_000_000_000)?,
    };
    let end_ns = SHIFT_NS.checked_add(since_ns)?;
    let issue_ns = end_ns.checked_sub(nanoseconds(from_end(1)?, 1_000_000)?)?;
    let request = Event {
        sector,
        nr_sector: bytes.div_ceil(512),
        bytes,
        pid,
        ..Event::BLANK
    };
    let device = Device::Name(disk);
    push(request, (issue_ns, end_ns), rwbs, (device, name), sink)
}

/// Nanoseconds since midnight, of a wall time as `biosnoop -t` of libbpf prints it: `13:02:59.042`.
fn of_day_ns(time: &[u8]) -> Option<u64> {
    let mut parts = time.split(|b| *b == b':');
    let hours = whole_uint(parts.next()?).filter(|hours| *hours < 24)?;
    let minutes = whole_uint(parts.next()?).filter(|minutes| *minutes < 60)?;
    let seconds_ns = seconds_ns(parts.next()?)?;
    if parts.next().is_some() || seconds_ns >= 61_000_000_000 {
        return None;
    }
    Some((hours * 60 + minutes) * 60_000_000_000 + seconds_ns)
}

/// Where the process stands on the rows of the first `biosnoop.bt`, which had no column of disks.
const PROCESS_WITHOUT_DISK: usize = 30;

/// Returns a row of bpftrace's `biosnoop.bt`: `TIME(ms) DISK COMM PID LAT(ms)`, of its newest versions with the device's numbers in
/// place of its name, of its first without either. It does not say what was requested or where: each row gets a place of its
/// own, so that its latency is paired with nothing else, and no bytes.
fn latency_only(line: &[u8], words: &[&[u8]], sink: &mut Sink) -> Option<()> {
    let (before, [process, latency]) = words.split_last_chunk()?;
    let (time, before) = before.split_first()?;
    let process_at = (process.as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
    let (device, name) = match before {
        [major, minor, name @ ..] if !name.is_empty() && whole_uint(major).is_some() => {
            let device = device_number(whole_uint(major)?, whole_uint(minor)?)?;
            (Device::Number(device), name)
        }
        name if name.len() < 2 || process_at == PROCESS_WITHOUT_DISK => (Device::Unknown, name),
        [disk, name @ ..] => (Device::Name(disk), name),
        [] => return None,
    };
    if name.is_empty() {
        return None;
    }
    let end_ms = whole_uint(time)?;
    let end_ns = SHIFT_NS.checked_add(end_ms.checked_mul(1_000_000)?)?;
    let issue_ns = end_ns.checked_sub(nanoseconds(latency, 1_000_000)?)?;
    let request = Event {
        sector: end_ms << 20 | (sink.events.len() as u64 & 0xf_ffff),
        nr_sector: 1,
        pid: pid(process)?,
        ..Event::BLANK
    };
    push(
        request,
        (issue_ns, end_ns),
        Rwbs::new(b"N")?,
        (device, name),
        sink,
    )
}

/// What a row tells of the device.
#[derive(Debug, Clone, Copy)]
enum Device<'a> {
    Unknown,
    Number(u32),
    Name(&'a [u8]),
}

/// Returns the issue and the completion of a request.
fn push(
    request: Event,
    (issue_ns, end_ns): (u64, u64),
    rwbs: Rwbs,
    (device, name): (Device<'_>, &[&[u8]]),
    sink: &mut Sink,
) -> Option<()> {
    let (rwbs, direction) = sink.symbols.rwbs(rwbs)?;
    let issue = Event {
        t_ns: issue_ns,
        other_ns: end_ns,
        comm: sink.symbols.comm(&name.join(&b' ')),
        dev: match device {
            Device::Unknown => 0,
            Device::Number(number) => number,
            Device::Name(disk) => NAMED_DEVICE | sink.symbols.comm(disk),
        },
        rwbs,
        direction,
        ..request
    };
    sink.events.push(issue);
    sink.events.push(Event {
        t_ns: end_ns,
        other_ns: issue_ns,
        kind: EventKind::Complete,
        ..issue
    });
    Some(())
}

/// Returns a process; -1 is none.
fn pid(text: &[u8]) -> Option<u32> {
    match text {
        b"-1" => Some(0),
        text => whole_uint(text).and_then(|pid| u32::try_from(pid).ok()),
    }
}

/// Returns a decimal number of units of so many nanoseconds. Digits below a nanosecond of a second are dropped.
fn nanoseconds(text: &[u8], unit_ns: u64) -> Option<u64> {
    if !text.contains(&b'.') {
        return whole_uint(text)?.checked_mul(unit_ns);
    }
    Some(seconds_ns(text)? / (1_000_000_000 / unit_ns))
}

/// Returns `true` if the last number of a line that the input cuts may be whole: the tools print two digits behind the point or three,
/// and milliseconds without point tell nothing.
pub(super) fn ends_whole(line: &[u8]) -> bool {
    let last = line.trim_ascii_end();
    let point = memchr::memrchr(b'.', last).filter(|at| {
        last.get(at + 1..)
            .is_some_and(|rest| rest.iter().all(u8::is_ascii_digit))
    });
    point.is_some_and(|at| last.len() - at > 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_queue_time() {
        let mut sink = Sink::default();
        let rows: [&[u8]; 3] = [
            b"0.000004       supervise      1950   xvda1   W 13092560   4096       0.74",
            b"0.000178       my job         1950   xvda1   WS 13092432   4096  0.10   0.61",
            b"0.5            fio            7      sda     FF -1   0  0.05",
        ];
        for row in rows {
            assert_eq!(line(row, &mut sink), Line::Event);
        }
        assert_eq!(sink.events[1].t_ns - sink.events[0].t_ns, 740_000);
        assert_eq!(sink.events[3].t_ns - sink.events[2].t_ns, 610_000);
        assert_eq!(sink.symbols.comm_of(sink.events[2].comm), b"my job");
        assert_eq!(sink.events[2].nr_sector, 8);
        assert_ne!(sink.events[4].dev, sink.events[0].dev);
        assert_eq!(line(b"TIME(s)  COMM  PID", &mut sink), Line::Header);
        assert!(matches!(
            line(b"0.5 fio 7 sda R", &mut sink),
            Line::Malformed(_)
        ));
    }

    #[test]
    fn columns_that_options_add() {
        let mut sink = Sink::default();
        for row in [
            &b"0.500000 sup R 1 -1 xvda1 W 13092560 4096 0.10 S 0.74"[..],
            b"0.500000 sup R 1 -1 xvda1 W 13092560 4096 S 0.74",
            b"0.500000 sup R 1 -1 xvda1 W 13092560 4096 0.10 0.74",
            b"0.500000 sup R 1 -1 xvda1 W 13092560 4096 0.74",
        ] {
            assert_eq!(line(row, &mut sink), Line::Event);
        }
        assert!(sink.events.chunks(2).all(|pair| pair == &sink.events[..2]));
        let [issue, end] = sink.events[..2] else {
            panic!("two events a line");
        };
        assert_eq!((end.t_ns - issue.t_ns, issue.bytes), (740_000, 4096));
        assert_eq!((issue.sector, issue.pid), (13_092_560, 0));
        assert_eq!(sink.symbols.comm_of(issue.comm), b"sup R 1");
    }

    #[test]
    fn rows_of_bpftrace_have_a_latency_alone() {
        let mut sink = Sink::default();
        for row in [
            &b"611          nvme0n1 bash             4179        10"[..],
            b"611          nvme0n1 my cksum         4179         0",
        ] {
            assert_eq!(line(row, &mut sink), Line::Event);
        }
        let [a, end, b, _] = sink.events[..] else {
            panic!("two events a line");
        };
        assert_eq!((end.t_ns - a.t_ns, a.bytes), (10_000_000, 0));
        assert_ne!(a.sector, b.sector);
        assert_eq!(sink.symbols.comm_of(b.comm), b"my cksum");
        assert!(matches!(
            line(b"611 nvme0n1 bash", &mut sink),
            Line::Malformed(_)
        ));
    }

    #[test]
    fn rows_of_the_first_and_of_the_newest_bpftrace() {
        let mut sink = Sink::default();
        for row in [
            &b"611          259   0        bash             4179        10"[..],
            b"611          259   0        my cksum         4179        10",
            b"611          bash             4179        10",
            b"611          my cksum         4179        10",
            b"611          nvme0n1 my cksum         4179        10",
        ] {
            assert_eq!(line(row, &mut sink), Line::Event);
        }
        let devices: Vec<String> = sink
            .events
            .iter()
            .step_by(2)
            .map(|e| sink.symbols.device_name(e.dev))
            .collect();
        assert_eq!(devices, ["259:0", "259:0", "0:0", "0:0", "nvme0n1"]);
        let names: Vec<&[u8]> = sink
            .events
            .iter()
            .step_by(2)
            .map(|e| sink.symbols.comm_of(e.comm))
            .collect();
        assert_eq!(
            names,
            [&b"bash"[..], b"my cksum", b"bash", b"my cksum", b"my cksum"]
        );
        assert!(sink.events.iter().all(|e| e.pid == 4179));
        for heading in [
            &b"             MAJOR MINOR"[..],
            b"TIMESTAMP    COMM           PID",
            b"TIME(ms)     DISK ID        COMM",
        ] {
            assert_eq!(line(heading, &mut sink), Line::Header);
        }
    }

    #[test]
    fn wall_times_of_libbpf() {
        let mut sink = Sink::default();
        let row =
            b"13:02:59.042 my job         1950    sda     WS   13092432   4096      0.100   0.610";
        assert_eq!(line(row, &mut sink), Line::Event);
        assert_eq!(sink.events[1].t_ns - SHIFT_NS, 46_979_042_000_000);
        assert_eq!(sink.events[1].t_ns - sink.events[0].t_ns, 610_000);
        for wrong in [
            &b"25:02:59.042 a 1 sda W 8 4096 0.1"[..],
            b"13:02 a 1 sda W 8 4096 0.1",
            b"1:2:3:4.0 a 1 sda W 8 4096 0.1",
        ] {
            assert!(matches!(line(wrong, &mut sink), Line::Malformed(_)));
        }
    }

    #[test]
    fn numbers_that_may_be_cut() {
        assert!(ends_whole(b"1.000000 a 1 sda R 8 4096   0.74"));
        for cut in [
            &b"1.000000 a 1 sda R 8 4096   0.7"[..],
            b"1.000000 a 1 sda R 8 4096 0",
            b"611 sda a 1 1",
        ] {
            assert!(!ends_whole(cut));
        }
    }
}
