//! Pages of a file, and the journals next to it.

use std::path::{Path, PathBuf};

use byte_source::{OpenOptions, RandomAccess, Source};

use crate::error::{Error, Result};
use crate::log::Log;

/// Pages of a SQLite file, read by number. Independent of each other and of the order, so that threads may share it.
#[derive(Debug, Clone)]
pub struct PageFile {
    name: String,
    access: RandomAccess,
    page_bytes: usize,
    usable_bytes: usize,
    pages: u32,
    log: Option<Log>,
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
    /// Opens a plain file; messages call it `name`. Journals next to it are not looked at, see [`check_sidecars`].
    ///
    /// # Errors
    ///
    /// Same as [`PageFile::from_access`].
    pub fn open(path: &Path, name: &str) -> Result<Self> {
        let source = Source::open(path, &OpenOptions::default())?;
        let not_sqlite = || Error::NotSqlite {
            name: name.to_owned(),
        };
        let access = source.random_access().ok_or_else(not_sqlite)?;
        Self::from_access(access, name)
    }

    /// Reads the header of a database; messages call it `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are no SQLite database, fewer than the header states, or of another text encoding.
    pub fn from_access(access: RandomAccess, name: &str) -> Result<Self> {
        let not_sqlite = || Error::NotSqlite {
            name: name.to_owned(),
        };
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
            log: None,
        })
    }

    /// Reads pages from a write-ahead log where it has newer ones. Returns `false` if nothing in it is committed.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be read.
    pub fn add_log(&mut self, path: &Path) -> Result<bool> {
        let Some(log) = Log::open(path, &self.name, self.page_bytes)? else {
            return Ok(false);
        };
        self.pages = log.count;
        self.log = Some(log);
        Ok(true)
    }

    /// Returns the name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the size of a page in bytes.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns the size of a page without the bytes reserved at its end.
    pub fn usable_bytes(&self) -> usize {
        self.usable_bytes
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns the error of a damaged page.
    pub fn corrupt(&self, page: u32, what: &'static str) -> Error {
        Error::Corrupt {
            name: self.name.clone(),
            page,
            offset: u64::from(page.saturating_sub(1)) * self.page_bytes as u64,
            what,
        }
    }

    /// Reads `count` pages from `page` on into the begin of `buffer`, fewer at the end of the file; returns how many. The buffer
    /// grows as needed and never shrinks, because what it gets anew has to be cleared.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such page, or it cannot be read.
    pub fn read(&self, page: u32, count: u32, buffer: &mut Vec<u8>) -> Result<u32> {
        if page == 0 || page > self.pages {
            return Err(self.corrupt(page, "a page beyond the end of the file is named"));
        }
        let count = count.min(self.pages - page + 1);
        let bytes = count as usize * self.page_bytes;
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        let Some(buffer) = buffer.get_mut(..bytes) else {
            return Ok(0);
        };
        let offset = u64::from(page - 1) * self.page_bytes as u64;
        let read = self.access.read_at(offset, buffer)?;
        let Some(log) = &self.log else {
            return match read < bytes {
                true => Err(self.corrupt(page, "the file ends inside the page")),
                false => Ok(count),
            };
        };
        for (number, part) in (page..).zip(buffer.chunks_exact_mut(self.page_bytes)) {
            let end = u64::from(number - page + 1) * self.page_bytes as u64;
            let is_there = log.has(number) || read as u64 >= end;
            if !is_there || !log.replace(number, part)? {
                return Err(self.corrupt(number, "the file ends inside the page"));
            }
        }
        Ok(count)
    }
}

/// Looks for a write-ahead log or rollback journal next to `path` that must be taken into account.
///
/// Returns the log's path if it has frames.
///
/// # Errors
///
/// Returns an error if there is an unfinished rollback journal.
pub fn check_sidecars(path: &Path, name: &str) -> Result<Option<PathBuf>> {
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
