//! Lines of limited length, for formats that are read line by line.

use std::io::{self, BufRead};

use byte_source::{DamageLog, Reader, Source};

use crate::error::{Error, Result};

/// What was found where a line was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, without its end.
    Whole,
    /// A line of more than the limit; its beginning is kept, its end passed over.
    Overlong,
    /// Nothing more.
    End,
}

/// The lines of an input, one after the other.
#[derive(Debug)]
pub(crate) struct Lines {
    name: String,
    reader: Reader,
    limit: usize,
}

impl Lines {
    /// Lines of at most `limit` bytes.
    pub(crate) fn new(source: Source, limit: usize) -> Result<Self> {
        Ok(Self {
            name: source.name().to_owned(),
            reader: source.into_read()?,
            limit,
        })
    }

    /// The input's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reads the next line; a carriage return before its end belongs to it.
    pub(crate) fn read(&mut self, line: &mut Vec<u8>) -> Result<Line> {
        read_line(&mut self.reader, line, self.limit).map_err(|source| Error::Io {
            name: self.name.clone(),
            source,
        })
    }

    /// What is broken in the container, as far as it was read.
    pub(crate) fn damage(&self) -> Vec<String> {
        damage(&self.reader.damage())
    }
}

/// Damage as text; what does no harm is left out.
pub(crate) fn damage(log: &DamageLog) -> Vec<String> {
    log.records()
        .iter()
        .filter(|damage| !damage.kind.is_harmless())
        .map(ToString::to_string)
        .collect()
}

/// Reads a line into `line`; memory is bounded by `limit`, whatever the input is.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>, limit: usize) -> io::Result<Line> {
    line.clear();
    let (mut any, mut overlong) = (false, false);
    loop {
        let buffer = match reader.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffer.is_empty() {
            break;
        }
        any = true;
        let end = memchr::memchr(b'\n', buffer);
        let part = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or(buffer);
        let room = limit.saturating_sub(line.len());
        overlong |= part.len() > room;
        line.extend_from_slice(part.get(..room).unwrap_or(part));
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            break;
        }
    }
    Ok(match (any, overlong) {
        (false, _) => Line::End,
        (true, true) => Line::Overlong,
        (true, false) => Line::Whole,
    })
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn long_lines_are_cut_and_the_next_one_is_whole() {
        let text = b"abc\n\nabcdefghij\nabcde\nxy";
        for buffer in 1..30 {
            let mut reader = BufReader::with_capacity(buffer, &text[..]);
            let mut line = Vec::new();
            let mut found = Vec::new();
            loop {
                match read_line(&mut reader, &mut line, 5).unwrap() {
                    Line::End => break,
                    kind => found.push((kind, String::from_utf8(line.clone()).unwrap())),
                }
            }
            let expected = [
                (Line::Whole, "abc"),
                (Line::Whole, ""),
                (Line::Overlong, "abcde"),
                (Line::Whole, "abcde"),
                (Line::Whole, "xy"),
            ];
            assert_eq!(found, expected.map(|(kind, text)| (kind, text.to_owned())));
        }
    }
}
