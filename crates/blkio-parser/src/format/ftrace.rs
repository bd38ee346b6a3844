//! Lines with an ftrace prefix: raw tracefs, `trace-cmd report`, `perf script`, and the `blk` tracer's default layout.

use super::blkparse::{self, Before};
use super::prefix::{self, Found, Prefix};
use super::{Line, Sink, fields};
use crate::event::{Event, EventKind};
use crate::rwbs::Rwbs;
use crate::scan::{Cursor, contains, device, trim, whole_uint};

/// Parses one line.
pub(super) fn line(line: &[u8], sink: &mut Sink) -> Line {
    // Headings begin with the line; a task stands behind a blank.
    if line.first() == Some(&b'#') {
        return Line::Not;
    }
    let Prefix {
        name,
        pid,
        cpu,
        t_ns,
        rest,
    } = match prefix::find(line) {
        Found::Prefix(found) => found,
        Found::NoTime => return Line::Malformed("no time"),
        Found::Nothing => return without_prefix(line),
    };
    let mut cursor = Cursor::new(rest);
    cursor.blanks();
    let comm = sink.symbols.comm(name);
    if cursor.peek().is_some_and(|b| b.is_ascii_digit()) {
        let word = cursor.word();
        let Some(dev) = device(word) else {
            // What programs print has the address that printed it before it.
            return match word.strip_suffix(b":") {
                Some(_) => Line::Foreign,
                None => Line::Malformed("no device"),
            };
        };
        let before = Before {
            t_ns,
            dev,
            cpu,
            pid,
            comm,
        };
        return blkparse::body(&mut cursor, before, sink)
            .unwrap_or(Line::Malformed("not the body of a blk tracer line"));
    }
    let word = cursor.word();
    let Some(event) = word.strip_suffix(b":") else {
        return nameless(word, &mut cursor);
    };
    let event = event.strip_prefix(b"block:").unwrap_or(event);
    let Some(shape) = shape(event) else {
        return if event.starts_with(b"block_") || !contains(event, b"block") {
            Line::Foreign
        } else {
            Line::Malformed("unknown block event")
        };
    };
    let before = Before {
        t_ns,
        dev: 0,
        cpu,
        pid,
        comm,
    };
    match body(&mut cursor, shape, before, sink) {
        Some(()) => Line::Event,
        None => Line::Malformed("not the body of this event"),
    }
}

/// Returns what stands where an event's name should: records of perf other than samples, call chains of tracefs.
fn nameless(word: &[u8], cursor: &mut Cursor<'_>) -> Line {
    match word {
        b"PERF_RECORD_LOST" | b"PERF_RECORD_LOST_SAMPLES" => {
            let is_count = cursor.word() == b"lost";
            let count = whole_uint(cursor.word()).filter(|_| is_count);
            count.map_or(Line::Malformed("no number of lost events"), Line::Lost)
        }
        b"<stack" | b"<user" => Line::Stack,
        _ if word.starts_with(b"PERF_RECORD_") => Line::Foreign,
        _ => Line::Malformed("no event name"),
    }
}

/// Lines that are of no task: call chains, headings, or an event cut in its first columns.
fn without_prefix(line: &[u8]) -> Line {
    let indented = matches!(line.first(), Some(b' ' | b'\t'));
    let mut cursor = Cursor::new(trim(line));
    let first = cursor.word();
    let is_address = !first.is_empty() && first.iter().all(u8::is_ascii_hexdigit);
    if first == b"=>" || (indented && is_address && !cursor.word().is_empty()) {
        return Line::Stack;
    }
    if first.starts_with(b"cpus=") {
        return Line::Header;
    }
    Line::Not
}

/// How the body of an event is laid out.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// `DEV RWBS BYTES (CMD) SECTOR + NR [PRIO] [COMM]`
    Request(EventKind),
    /// `DEV RWBS (CMD) SECTOR + NR [PRIO] [ERROR]`
    Ended(EventKind),
    /// `DEV RWBS SECTOR + NR [COMM]`
    Bio(EventKind),
    /// `DEV RWBS SECTOR / NEW [COMM]`
    Split,
    /// `[COMM]` and a number
    Plug(EventKind),
}

impl Shape {
    fn kind(self) -> EventKind {
        match self {
            Self::Request(kind) | Self::Ended(kind) | Self::Bio(kind) | Self::Plug(kind) => kind,
            Self::Split => EventKind::Split,
        }
    }
}

fn shape(event: &[u8]) -> Option<Shape> {
    Some(match event {
        b"block_rq_issue" => Shape::Request(EventKind::Issue),
        b"block_rq_insert" => Shape::Request(EventKind::Insert),
        b"block_rq_merge" => Shape::Request(EventKind::Merge),
        b"block_rq_complete" => Shape::Ended(EventKind::Complete),
        b"block_rq_requeue" => Shape::Ended(EventKind::Requeue),
        b"block_bio_queue" => Shape::Bio(EventKind::Queue),
        b"block_getrq" => Shape::Bio(EventKind::GetRq),
        b"block_bio_backmerge" | b"block_bio_frontmerge" => Shape::Bio(EventKind::Merge),
        b"block_bio_remap" | b"block_rq_remap" => Shape::Bio(EventKind::Remap),
        b"block_bio_complete" | b"block_bio_bounce" | b"block_sleeprq" => {
            Shape::Bio(EventKind::Note)
        }
        b"block_split" => Shape::Split,
        b"block_plug" => Shape::Plug(EventKind::Plug),
        b"block_unplug" => Shape::Plug(EventKind::Unplug),
        _ => return None,
    })
}

fn body(cursor: &mut Cursor<'_>, shape: Shape, before: Before, sink: &mut Sink) -> Option<()> {
    let mut event = Event {
        t_ns: before.t_ns,
        sector: 0,
        pid: before.pid,
        comm: before.comm,
        cpu: before.cpu,
        kind: EventKind::Note,
        direction: crate::rwbs::Direction::Other,
        ..Event::BLANK
    };
    if let Shape::Plug(kind) = shape {
        let (rwbs, direction) = sink.symbols.rwbs(Rwbs::new(b"N")?)?;
        let has_fields = fields::begins(cursor.rest);
        if !has_fields {
            memchr::memrchr(b']', cursor.rest)?;
        }
        let released = match kind {
            EventKind::Unplug if has_fields => fields::released(cursor.rest),
            EventKind::Unplug => super::behind_bracket(cursor.rest),
            _ => 0,
        };
        sink.events.push(Event {
            rwbs,
            direction,
            kind,
            error: released,
            ..event
        });
        return Some(());
    }
    if fields::begins(cursor.rest) {
        event.kind = shape.kind();
        fields::fill(cursor.rest, &mut event, &mut sink.symbols)?;
        if event.kind == EventKind::Remap
            && let Some(upper) = fields::remapped_from(cursor.rest)
        {
            sink.counts.remapped(upper, event.dev);
        }
        sink.events.push(event);
        return Some(());
    }
    event.dev = device(cursor.word())?;
    (event.rwbs, event.direction) = sink.symbols.rwbs(Rwbs::new(cursor.word())?)?;
    cursor.blanks();
    let mut bytes = None;
    match shape {
        Shape::Request(kind) => {
            event.kind = kind;
            bytes = Some(cursor.wrapped32()?);
            command(cursor)?;
        }
        Shape::Ended(kind) => {
            event.kind = kind;
            command(cursor)?;
        }
        Shape::Bio(kind) => event.kind = kind,
        Shape::Split => event.kind = EventKind::Split,
        Shape::Plug(_) => {}
    }
    cursor.blanks();
    event.sector = cursor.uint()?;
    cursor.blanks();
    if matches!(shape, Shape::Split) {
        if !cursor.eat(b'/') {
            return None;
        }
        cursor.blanks();
        cursor.uint()?;
    } else {
        if !cursor.eat(b'+') {
            return None;
        }
        cursor.blanks();
        event.nr_sector = cursor.wrapped32()?;
    }
    event.bytes = bytes.unwrap_or(event.nr_sector.wrapping_mul(512));
    if event.kind == EventKind::Remap {
        if let Some(upper) = super::remapped_from(cursor.rest) {
            sink.counts.remapped(upper, event.dev);
        }
        sink.events.push(event);
        return Some(());
    }
    // The priority, where there is one, is no bracket.
    let rest = trim(cursor.rest);
    let open = memchr::memchr(b'[', rest)?;
    let close = memchr::memrchr(b']', rest).filter(|close| *close > open)?;
    let inside = rest.get(open + 1..close)?;
    match shape {
        Shape::Ended(_) => {
            event.error = i32::try_from(Cursor::new(trim(inside)).int()?).ok()?;
        }
        Shape::Request(_) => event.comm = sink.symbols.comm(inside),
        _ => {}
    }
    sink.events.push(event);
    Some(())
}

/// `(CMD)`, usually empty.
fn command(cursor: &mut Cursor<'_>) -> Option<()> {
    cursor.blanks();
    if !cursor.eat(b'(') {
        return None;
    }
    let end = memchr::memchr(b')', cursor.rest)?;
    cursor.skip(end + 1);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Event, Sink) {
        let mut sink = Sink::default();
        assert_eq!(line(text.as_bytes(), &mut sink), Line::Event, "{text}");
        (sink.events[0], sink)
    }

    #[test]
    fn one_request_in_five_layouts() {
        let lines = [
            "             fio-26257   [001] .....  1048.996254: block_rq_issue: 7,0 WS 131072 () 68920 + 256 be,0,4 [fio]",
            "             fio-26257   (26250) [001] d..2. 1048.996254: block_rq_issue: 7,0 WS 131072 () 68920 + 256 [fio]",
            "             fio-26257 [001]  1048.996254: block_rq_issue:       7,0 WS 131072 () 68920 + 256 0x2,0,4 [fio]",
            "bkio:        fio-26257 [001]  1048.996254: block_rq_issue:       7,0 WS 131072 () 68920 + 256 0x2,0,4 [fio]",
            "             fio 26257 [001]  1048.996254:    block:block_rq_issue: 7,0 WS 131072 () 68920 + 256 0x2,0,4 [fio]",
            "             fio 9/26257 [001]  1048.996254000:    block:block_rq_issue: 7,0 WS 131072 () 68920 + 256 [fio]",
            "             fio-26257   [001] d..1.  1048.996254:   7,0    D  WS 68920 + 256 [fio]",
        ];
        let (first, _) = parse(lines[0]);
        assert_eq!(first.t_ns, 1_048_996_254_000);
        assert_eq!(
            (first.bytes, first.sector, first.nr_sector),
            (131_072, 68_920, 256)
        );
        for text in lines {
            let (event, sink) = parse(text);
            assert_eq!(event, first, "{text}");
            assert_eq!(sink.symbols.comm_of(event.comm), b"fio", "{text}");
        }
    }

    #[test]
    fn events_printed_field_by_field() {
        let before = "            sync-20740   [000] ..... 48519.918894: ";
        for (name, plain, fields) in [
            (
                "block_rq_issue",
                "254,0 RA 16384 () 12947152 + 32 be,0,4 [my sector=1, job]",
                "dev=0xfe00000 (266338304) sector=0xc58ed0 (12947152) nr_sector=0x20 (32) bytes=0x4000 (16384) ioprio=0x4004 (16388) rwbs=RA comm=my sector=1, job cmd=",
            ),
            (
                "block_rq_complete",
                "254,0 FF () 18446744073709551615 + 0 none,0,0 [-5]",
                "dev=0xfe00000 (266338304) sector=0xffffffffffffffff (-1) nr_sector=0x0 (0) error=0xfffffffb (-5) ioprio=0x0 (0) rwbs=FF cmd=",
            ),
            (
                "block_bio_queue",
                "254,0 RA 12947152 + 32 [bash]",
                "dev=266338304 sector=12947152 nr_sector=32 rwbs=RA comm=bash",
            ),
            (
                "block_split",
                "254,0 RA 100 / 200 [bash]",
                "dev=0xfe00000 (266338304) sector=0x64 (100) new_sector=0xc8 (200) rwbs=RA comm=bash",
            ),
            ("block_unplug", "[sync] 1", "nr_rq=0x1 (1) comm=bash"),
            ("block_plug", "[sync]", "comm=bash"),
        ] {
            let (plain, known) = parse(&format!("{before}{name}: {plain}"));
            let (event, sink) = parse(&format!("{before}{name}: {fields}"));
            assert_eq!(event, plain, "{name}");
            assert_eq!(
                sink.symbols.comm_of(event.comm),
                known.symbols.comm_of(plain.comm)
            );
        }
        let cut = format!(
            "{before}block_rq_issue: dev=0xfe00000 (266338304) sector=0xc58ed0 (12947152) nr_sector=0x2"
        );
        let found = line(cut.as_bytes(), &mut Sink::default());
        assert!(matches!(found, Line::Malformed(_)), "{found:?}");
    }

    #[test]
    fn names_may_hold_anything() {
        let (event, sink) = parse(
            "    jbd2/loop0-8-25865   [001] .....  1169.024193: block_rq_issue: 7,0 WSM 4096 () 2884104 + 8 rt,4 [high pool[1], x]",
        );
        assert_eq!(event.pid, 25_865);
        assert_eq!(sink.symbols.comm_of(event.comm), b"high pool[1], x");
        let (event, _) = parse(
            " kworker/1:1H-kb    44 [001]  1168.997136:    block:block_rq_issue: 7,0 FF 0 () 0 + 0 0x0,0,0 [kworker/1:1H]",
        );
        assert_eq!(event.pid, 44);
        let (event, _) = parse(
            "     ksoftirqd/0-14      [000] ..s..  1049.004038: block_rq_complete: 7,0 RS () 68920 + 256 be,0,4 [-5]",
        );
        assert_eq!((event.error, event.bytes), (-5, 131_072));
    }

    #[test]
    fn what_is_no_block_event_is_no_error() {
        let mut sink = Sink::default();
        let found = |text: &str, sink: &mut Sink| line(text.as_bytes(), sink);
        assert_eq!(found("# tracer: nop", &mut sink), Line::Not);
        assert_eq!(found("cpus=2", &mut sink), Line::Header);
        assert_eq!(found("CPU:1 [LOST 7 EVENTS]", &mut sink), Line::Not);
        assert_eq!(
            found(
                "\tffffffff8111 blk_mq_start_request+0x7 ([kernel])",
                &mut sink
            ),
            Line::Stack
        );
        assert_eq!(
            found(
                "  fio-1 [000] ..... 1.000000: sched_switch: prev=fio",
                &mut sink
            ),
            Line::Foreign
        );
        assert_eq!(
            found("  fio-1 [000] ..... 1.000000: 0: hello", &mut sink),
            Line::Foreign
        );
        for (text, line) in [
            ("PERF_RECORD_LOST lost 3", Line::Lost(3)),
            ("PERF_RECORD_LOST_SAMPLES lost 4", Line::Lost(4)),
            ("PERF_RECORD_COMM: fio:7/7", Line::Foreign),
            ("PERF_RECORD_SWITCH_CPU_WIDE IN", Line::Foreign),
            ("<stack trace>", Line::Stack),
        ] {
            let text = format!("  fio 1 [000] 1.000000: {text}");
            assert_eq!(found(&text, &mut sink), line, "{text}");
        }
        assert_eq!(found(" => submit_bio", &mut sink), Line::Stack);
        assert_eq!(
            found("\t               0 [unknown] ([unknown])", &mut sink),
            Line::Stack
        );
        let whole = "  fio-26257   [001] .....  1048.996254: block_rq_issue: 7,0 WS 131072 () 68920 + 256 be,0,4 [fio]";
        for end in 40..whole.len() {
            let cut = found(&whole[..end], &mut sink);
            assert!(matches!(cut, Line::Malformed(_)), "{end} {cut:?}");
        }
        assert!(sink.events.is_empty());
    }
}
