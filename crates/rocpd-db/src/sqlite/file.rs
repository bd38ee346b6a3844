//! The pages of a file.

use std::path::{Path, PathBuf};

use byte_source::{OpenOptions, RandomAccess, Source};

use crate::error::{Error, Result};

/// A SQLite file of which pages are read by number.
#[derive(Debug, Clone)]
pub(crate) struct PageFile {
    name: String,
    access: RandomAccess,
    page_bytes: usize,
    usable_bytes: usize,
    pages: u32,
}

fn be16(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at..at + 2) {
        Some(&[a, b]) => usize::from(a) << 8 | usize::from(b),
        _ => 0,
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..at + 4) {
        Some(&[a, b, c, d]) => u32::from_be_bytes([a, b, c, d]),
        _ => 0,
    }
}

impl PageFile {
    /// Opens a plain file; `name` is what messages call it.
    pub(crate) fn open(path: &Path, name: &str) -> Result<Self> {
        let source = Source::open(path, &OpenOptions::default())?;
        let not_sqlite = || Error::NotSqlite {
            name: name.to_owned(),
        };
        let access = source.random_access().ok_or_else(not_sqlite)?;
        let mut head = [0_u8; 100];
        let read = access.read_at(0, &mut head)?;
        if !byte_source::magic::looks_like_sqlite(&head) {
            return Err(not_sqlite());
        }
        let truncated = |expected| Error::Truncated {
            name: name.to_owned(),
            expected,
            found: access.len(),
        };
        if read < head.len() {
            return Err(truncated(512));
        }
        let page_bytes = match be16(&head, 16) {
            1 => 65_536,
            size if size >= 512 && size.is_power_of_two() => size,
            _ => {
                return Err(Error::Corrupt {
                    name: name.to_owned(),
                    page: 1,
                    offset: 0,
                    what: "the page size is no power of two from 512 to 65536",
                });
            }
        };
        let reserved = usize::from(head[20]);
        let encoding = be32(&head, 56);
        if encoding > 1 {
            return Err(Error::Encoding {
                name: name.to_owned(),
                found: encoding,
            });
        }
        let there = access.len() / page_bytes as u64;
        let mut pages = u64::from(be32(&head, 28));
        // Old writers leave the count alone; it holds when the change counters agree.
        if pages == 0 || be32(&head, 24) != be32(&head, 92) {
            pages = there;
        }
        if pages > there {
            return Err(truncated(pages * page_bytes as u64));
        }
        Ok(Self {
            name: name.to_owned(),
            page_bytes,
            usable_bytes: page_bytes - reserved.min(page_bytes - 480),
            pages: u32::try_from(pages).unwrap_or(u32::MAX),
            access,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Bytes of a page without those reserved at its end.
    pub(crate) fn usable_bytes(&self) -> usize {
        self.usable_bytes
    }

    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    pub(crate) fn corrupt(&self, page: u32, what: &'static str) -> Error {
        Error::Corrupt {
            name: self.name.clone(),
            page,
            offset: u64::from(page.saturating_sub(1)) * self.page_bytes as u64,
            what,
        }
    }

    /// Reads `count` pages from `page` into `buffer`; fewer at the end of the file.
    pub(crate) fn read(&self, page: u32, count: u32, buffer: &mut Vec<u8>) -> Result<u32> {
        if page == 0 || page > self.pages {
            return Err(self.corrupt(page, "a page beyond the end of the file is named"));
        }
        let count = count.min(self.pages - page + 1);
        let bytes = count as usize * self.page_bytes;
        buffer.resize(bytes, 0);
        let offset = u64::from(page - 1) * self.page_bytes as u64;
        if self.access.read_at(offset, buffer)? < bytes {
            return Err(self.corrupt(page, "the file ends inside the page"));
        }
        Ok(count)
    }
}

/// Looks for a write-ahead log or rollback journal that must be taken into account.
///
/// Returns the log's path when it holds frames; an unfinished rollback journal is an error.
pub(crate) fn check_sidecars(path: &Path, name: &str) -> Result<Option<PathBuf>> {
    let beside = |suffix: &str| {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        PathBuf::from(file)
    };
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    let journal = beside("-journal");
    if size(&journal) > 0 {
        // The first bytes are cleared when a transaction is complete.
        let mut head = [0_u8; 8];
        let read = std::fs::File::open(&journal)
            .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
        if read.is_err() || head != [0; 8] {
            return Err(Error::Sidecar {
                name: name.to_owned(),
                sidecar: journal.display().to_string(),
                remedy: "the recording did not end: open a copy of both with sqlite3 to roll it back",
            });
        }
    }
    let wal = beside("-wal");
    // 32 bytes are the log's header alone.
    Ok((size(&wal) > 32).then_some(wal))
}
