//! Events that are printed field by field: by tracefs with `fields` among its `trace_options`, by `trace-cmd report -R`:
//! `dev=0xfe00000 (266338304) sector=0xc58ed0 (12947152) nr_sector=0x20 (32) rwbs=RA comm=bash`.

use crate::event::{Event, EventKind, Symbols};
use crate::num::low32;
use crate::rwbs::Rwbs;
use crate::scan::{Cursor, trim};

/// Returns `true` if the body of an event begins with a field rather than with a device or a name in brackets.
pub(super) fn begins(body: &[u8]) -> bool {
    let word = Cursor::new(body).word();
    let equals = memchr::memchr(b'=', word).filter(|at| *at > 0);
    let name = equals.and_then(|at| word.get(..at)).unwrap_or_default();
    !name.is_empty()
        && name
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'_')
}

/// Puts the fields of a body into an event whose kind is known.
pub(super) fn fill(body: &[u8], event: &mut Event, symbols: &mut Symbols) -> Option<()> {
    // A name may hold anything, so it is cut off first: the command alone can stand behind it.
    let (fields, comm) = match memchr::memmem::find(body, b" comm=") {
        Some(at) => (body.get(..at)?, body.get(at + 6..)),
        None => (body, None),
    };
    event.dev = low32(number(fields, b"dev=")?);
    (event.rwbs, event.direction) = symbols.rwbs(Rwbs::new(value(fields, b"rwbs=")?)?)?;
    event.sector = number(fields, b"sector=")?;
    if event.kind != EventKind::Split {
        event.nr_sector = low32(number(fields, b"nr_sector=")?);
    }
    event.bytes = match number(fields, b"bytes=") {
        Some(bytes) => low32(bytes),
        // These have the field; without it the line is cut.
        None if matches!(event.kind, EventKind::Issue | EventKind::Insert) => return None,
        None => event.nr_sector.wrapping_mul(512),
    };
    if let Some(error) = number(fields, b"error=") {
        event.error = low32(error).cast_signed();
    }
    let names_task = matches!(
        event.kind,
        EventKind::Issue | EventKind::Insert | EventKind::Merge
    );
    if let Some(comm) = comm.filter(|_| names_task) {
        let end = memchr::memmem::rfind(comm, b" cmd=").unwrap_or(comm.len());
        event.comm = symbols.comm(unquoted(trim(comm.get(..end)?)));
    }
    Some(())
}

/// Returns the number of requests that an unplug released; 0 without one.
pub(super) fn released(body: &[u8]) -> i32 {
    let count = number(body, b"nr_rq=").and_then(|count| i32::try_from(count).ok());
    count.unwrap_or(0)
}

/// Returns the device that a bio was remapped from.
pub(super) fn remapped_from(body: &[u8]) -> Option<u32> {
    number(body, b"old_dev=").map(low32)
}

/// Returns the text behind a field's name.
fn value<'a>(fields: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut cursor = Cursor::new(fields);
    loop {
        let word = cursor.word();
        if word.is_empty() {
            return None;
        }
        if let Some(value) = word.strip_prefix(name) {
            return Some(unquoted(value));
        }
    }
}

fn unquoted(text: &[u8]) -> &[u8] {
    let inside = text.strip_prefix(b"\"").and_then(|t| t.strip_suffix(b"\""));
    inside.unwrap_or(text)
}

/// Returns a number, in hexadecimal with `0x`; a negative one as its two's complement.
fn number(fields: &[u8], name: &[u8]) -> Option<u64> {
    let value = value(fields, name)?;
    if let Some(digits) = value.strip_prefix(b"0x") {
        let digits = std::str::from_utf8(digits).ok()?;
        return u64::from_str_radix(digits, 16).ok();
    }
    if value.starts_with(b"-") {
        return Cursor::new(value).int().map(i64::cast_unsigned);
    }
    crate::scan::whole_uint(value)
}
