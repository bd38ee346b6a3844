//! Write-ahead logs: the newest committed content of pages.

use std::collections::HashMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use byte_source::{OpenOptions, RandomAccess, Source};

use crate::error::{Error, Result};

/// Bytes of the header of a log, and of a frame's header.
const HEADER: usize = 32;
const FRAME: usize = 24;

/// Pages of a log that replace those of its database.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    access: RandomAccess,
    /// Offset of the newest committed content by page.
    pages: Arc<HashMap<u32, u64>>,
    /// Number of pages of the database after the last commit.
    pub(crate) count: u32,
}

impl Log {
    /// Reads the frames of a log up to the last commit; `None` if nothing in it is committed. Frames after a broken
    /// checksum are remains of an earlier log and do not count, as for SQLite.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be read.
    pub(crate) fn open(path: &Path, name: &str, page_bytes: usize) -> Result<Option<Self>> {
        let failed = |source| Error::Io {
            name: name.to_owned(),
            step: "read the write-ahead log next to it",
            source,
        };
        let mut file = std::fs::File::open(path).map_err(failed)?;
        let mut head = [0_u8; HEADER];
        if file.read_exact(&mut head).is_err() {
            return Ok(None);
        }
        let magic = word(&head, 0, true);
        let big = match magic {
            0x377f_0682 => false,
            0x377f_0683 => true,
            _ => return Ok(None),
        };
        let mut sum = checksum(&head[..24], (0, 0), big);
        if sum != (word(&head, 24, true), word(&head, 28, true))
            || usize::try_from(word(&head, 8, true)).ok() != Some(page_bytes)
        {
            return Ok(None);
        }
        let salts = (word(&head, 16, true), word(&head, 20, true));
        let (mut pages, mut pending) = (HashMap::new(), Vec::new());
        let mut count = None;
        let mut frame = vec![0_u8; FRAME + page_bytes];
        let mut at = HEADER as u64;
        file.seek(SeekFrom::Start(at)).map_err(failed)?;
        let mut reader = std::io::BufReader::with_capacity(1 << 18, file);
        while reader.read_exact(&mut frame).is_ok() {
            let (header, page) = frame.split_at(FRAME);
            sum = checksum(&header[..8], sum, big);
            sum = checksum(page, sum, big);
            let is_valid = (word(header, 8, true), word(header, 12, true)) == salts
                && (word(header, 16, true), word(header, 20, true)) == sum;
            if !is_valid {
                break;
            }
            pending.push((word(header, 0, true), at + FRAME as u64));
            let size = word(header, 4, true);
            if size > 0 {
                pages.extend(pending.drain(..));
                count = Some(size);
            }
            at += (FRAME + page_bytes) as u64;
        }
        let Some(count) = count else {
            return Ok(None);
        };
        let source = Source::open_as_is(path, &OpenOptions::default())?;
        let Some(access) = source.random_access() else {
            return Ok(None);
        };
        Ok(Some(Self {
            access,
            pages: Arc::new(pages),
            count,
        }))
    }

    /// Replaces `into`, the content of `page` in the database, by that of the log. Returns `false` if the log cannot be read.
    pub(crate) fn replace(&self, page: u32, into: &mut [u8]) -> Result<bool> {
        match self.pages.get(&page) {
            Some(&offset) => Ok(self.access.read_at(offset, into)? == into.len()),
            None => Ok(true),
        }
    }

    /// Returns `true` if the log has newer content of the page.
    pub(crate) fn has(&self, page: u32) -> bool {
        self.pages.contains_key(&page)
    }
}

fn word(bytes: &[u8], at: usize, big: bool) -> u32 {
    match bytes.get(at..at + 4) {
        Some(&[a, b, c, d]) if big => u32::from_be_bytes([a, b, c, d]),
        Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
        _ => 0,
    }
}

/// Continues the checksum of a log over `bytes`, whose length is a multiple of 8.
fn checksum(bytes: &[u8], (mut a, mut b): (u32, u32), big: bool) -> (u32, u32) {
    for pair in bytes.chunks_exact(8) {
        a = a.wrapping_add(word(pair, 0, big)).wrapping_add(b);
        b = b.wrapping_add(word(pair, 4, big)).wrapping_add(a);
    }
    (a, b)
}
