//! Reads the call chains behind the events of a trace: those of `perf script` and of tracefs with `stacktrace`.

use blkio_companions::scan::{Cursor, contains, trim};
use blkio_parser::block_event;

/// Calls `found` with the name of the event and its frames, leaf first, for every chain behind an event of the block layer.
pub(crate) fn each(text: &[u8], found: &mut dyn FnMut(&str, Vec<String>)) {
    let mut open: Option<(&[u8], Vec<String>)> = None;
    let mut end = |open: Option<(&[u8], Vec<String>)>| {
        if let Some((event, frames)) = open.filter(|(_, frames)| !frames.is_empty()) {
            found(&String::from_utf8_lossy(event), frames);
        }
    };
    for line in text.split(|b| *b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(frame) = frame(line) {
            if let Some((_, frames)) = &mut open {
                frames.push(frame);
            }
        } else if let Some(event) = block_event(line) {
            end(open.take());
            open = Some((event, Vec::new()));
        } else if !begins_chain(line) {
            // A chain ends with a blank line, or with the event of somebody else.
            end(open.take());
        }
    }
    end(open);
}

/// Returns a line of tracefs that announces the chain of the event before it.
fn begins_chain(line: &[u8]) -> bool {
    contains(line, b"<stack trace")
}

/// `ADDRESS symbol+0xOFFSET (module)` of perf, ` => symbol` of tracefs.
fn frame(line: &[u8]) -> Option<String> {
    let mut cursor = Cursor::new(line);
    let first = cursor.word();
    if first == b"=>" {
        return Some(String::from_utf8_lossy(cursor.word()).into_owned());
    }
    let is_indented = matches!(line.first(), Some(b' ' | b'\t'));
    if !is_indented || first.is_empty() || !first.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let symbol = trim(cursor.rest);
    if symbol.is_empty() {
        return None;
    }
    if symbol.starts_with(b"[unknown]") {
        return Some(format!("0x{}", String::from_utf8_lossy(first)));
    }
    Some(String::from_utf8_lossy(symbol).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_perf_and_of_tracefs() {
        let perf = b"fio 28464 [000]  1169.077687:    block:block_rq_issue: 7,0 RS 4096 () 8 + 8 [fio]\n\tffffffff81 blk_mq_start_request+0xc4 ([kernel.kallsyms])\n\t    7f3c2d [unknown] (/usr/lib/libc.so.6)\n\nfio 1 [000] 1.0: sched:sched_switch: x\n\tffffffff81 schedule+0x4 ([kernel])\n\nfio 28464 [000]  1169.5:    block:block_rq_issue: 7,0 RS 4096 () 8 + 8 [fio]\n\n";
        let mut found = Vec::new();
        each(perf, &mut |event, frames| {
            found.push((event.to_owned(), frames))
        });
        let [(event, frames)] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(event, "block_rq_issue");
        let wanted = ["blk_mq_start_request+0xc4 ([kernel.kallsyms])", "0x7f3c2d"];
        assert_eq!(frames, &wanted);
        let tracefs = b"  fio-1 [001] ..... 1.000001: block_bio_queue: 7,0 R 8 + 8 [fio]\n  fio-1 [001] ..... 1.000002: <stack trace>\n => submit_bio_noacct\n => submit_bio\n  fio-1 [001] ..... 1.000003: block_rq_issue: 7,0 R 4096 () 8 + 8 [fio]\n";
        let mut found = Vec::new();
        each(tracefs, &mut |event, frames| {
            found.push((event.to_owned(), frames))
        });
        let wanted = ["submit_bio_noacct", "submit_bio"].map(str::to_owned);
        assert_eq!(found, [("block_bio_queue".to_owned(), wanted.to_vec())]);
    }
}
