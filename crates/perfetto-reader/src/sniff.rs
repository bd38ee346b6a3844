//! Detects the format of a source, by content and never by name.

use byte_source::Source;

use crate::Error;
use crate::foreign::{self, Foreign};
use crate::rocprof;

/// The formats that [`crate::read`] understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Chrome or Kineto JSON.
    Json,
    /// Perfetto protobuf.
    Protobuf,
    /// JSON of rocprofv3.
    Rocprof,
}

/// Number of bytes to look ahead.
const LOOK_AHEAD: usize = 16 * 1024;
/// Maximum amount of leading white space to skip, in bytes.
const MAX_BLANK: usize = 16 * 1024 * 1024;

/// Detects the format without consuming anything.
///
/// # Errors
///
/// For an empty source and for one of no supported format; known other kinds, such as a SQLite
/// database, are named.
pub fn sniff(source: &mut Source) -> Result<Format, Error> {
    let name = source.name().to_owned();
    let mut want = LOOK_AHEAD;
    loop {
        let head = source.head(want)?;
        if head.is_empty() {
            return Err(Error::Empty { name });
        }
        if byte_source::magic::looks_like_sqlite(head) {
            return Err(Error::Sqlite { name });
        }
        let named = |Foreign { what, remedy }| Error::NotATrace {
            name: name.clone(),
            what,
            remedy,
        };
        if let Some(found) = foreign::xplane(head).or_else(|| foreign::pprof(head)) {
            return Err(named(found));
        }
        if head.first() == Some(&0x0a) && looks_like_packets(head) {
            return Ok(Format::Protobuf);
        }
        if matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
            return Ok(Format::Json);
        }
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        match text.iter().find(|b| !b.is_ascii_whitespace()) {
            Some(b'{') if rocprof::begins(head) => return Ok(Format::Rocprof),
            Some(b'[') if is_other_list(text) => return Err(named(foreign::OTHER_LIST)),
            Some(b'{' | b'[') => return Ok(Format::Json),
            None if head.len() >= want && want < MAX_BLANK => want *= 4,
            // White space to the end.
            None if head.len() < want => return Err(Error::Empty { name }),
            _ => {
                if let Some(found) = foreign::of_head(&name, head) {
                    return Err(named(found));
                }
                let head = head
                    .iter()
                    .take(16)
                    .map(|b| format!("{b:02x}"))
                    .collect::<Vec<_>>();
                return Err(Error::UnknownFormat {
                    name,
                    head: head.join(" "),
                });
            }
        }
    }
}

/// Returns `true` for a JSON list whose first element is no object.
fn is_other_list(text: &[u8]) -> bool {
    let inside = text.trim_ascii_start().strip_prefix(b"[");
    let first = inside.and_then(|inside| inside.trim_ascii_start().first());
    first.is_some_and(|first| first.is_ascii_alphanumeric() || b"\"-[".contains(first))
}

/// Returns `true` if this is field 1, length-delimited, with plausible fields inside. A lone 0x0a
/// may also be a newline before JSON.
fn looks_like_packets(head: &[u8]) -> bool {
    let mut rest = head;
    let mut packets = 0;
    while packets < 8 {
        let Some((&0x0a, after)) = rest.split_first() else {
            return packets > 0 && plausible_tag(rest);
        };
        let Some((len, body)) = varint(after) else {
            return packets > 0;
        };
        let Ok(len) = usize::try_from(len) else {
            return false;
        };
        if !plausible_fields(body.get(..len).unwrap_or(body), body.len() < len) {
            return false;
        }
        packets += 1;
        match body.get(len..) {
            Some(next) if !next.is_empty() => rest = next,
            _ => return true,
        }
    }
    true
}

fn plausible_tag(rest: &[u8]) -> bool {
    varint(rest).is_some_and(|(tag, _)| tag >> 3 != 0 && matches!(tag & 7, 0 | 1 | 2 | 5))
}

fn plausible_fields(mut rest: &[u8], cut: bool) -> bool {
    while !rest.is_empty() {
        let Some((tag, after)) = varint(rest) else {
            return cut;
        };
        if tag >> 3 == 0 {
            return false;
        }
        let size = match tag & 7 {
            0 => match varint(after) {
                Some((_, next)) => after.len() - next.len(),
                None => return cut,
            },
            1 => 8,
            5 => 4,
            2 => match varint(after) {
                Some((len, next)) => match usize::try_from(len) {
                    Ok(len) => (after.len() - next.len()).saturating_add(len),
                    Err(_) => return false,
                },
                None => return cut,
            },
            _ => return false,
        };
        match after.get(size..) {
            Some(next) => rest = next,
            None => return cut,
        }
    }
    true
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (i, &b) in bytes.iter().take(10).enumerate() {
        value |= u64::from(b & 0x7f) << (7 * i).min(63);
        if b < 0x80 {
            return Some((value, bytes.get(i + 1..)?));
        }
    }
    None
}
