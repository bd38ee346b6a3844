//! The traced disk, and the kernel's counters of it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A whole disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Disk {
    /// Name, as in `/sys/block`.
    pub name: String,
    /// The kernel's major number.
    pub major: u32,
    /// The kernel's minor number.
    pub minor: u32,
}

impl Disk {
    /// Finds the disk of a device or partition. Requests carry the whole disk's number; a
    /// partition's would match none.
    ///
    /// # Errors
    ///
    /// Returns an error if the path does not exist or is not a block device.
    pub fn of(path: &Path) -> Result<Self> {
        let missing = |source| Error::NoDevice {
            path: path.to_owned(),
            source,
        };
        let real = fs::canonicalize(path).map_err(|error| missing(Some(error)))?;
        let class = PathBuf::from("/sys/class/block").join(real.file_name().unwrap_or_default());
        let mut folder = fs::canonicalize(&class).map_err(|error| missing(Some(error)))?;
        if folder.join("partition").exists() {
            folder.pop();
        }
        let numbers = folder.join("dev");
        let text = fs::read_to_string(&numbers)?;
        let found = text.trim().split_once(':');
        let found =
            found.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let (major, minor) = found.ok_or(Error::Kernel {
            path: numbers,
            expected: "MAJOR:MINOR",
        })?;
        let name = folder.file_name().and_then(|name| name.to_str());
        Ok(Self {
            name: name.ok_or_else(|| missing(None))?.to_owned(),
            major,
            minor,
        })
    }

    pub(crate) fn stat(&self) -> Result<DiskStat> {
        let path = PathBuf::from(format!("/sys/block/{}/stat", self.name));
        let text = fs::read_to_string(&path)?;
        DiskStat::parse(&text).ok_or(Error::Kernel {
            path,
            expected: "the kernel's counters",
        })
    }

    /// Returns `true` if a folder is on this disk, so that writes to it appear in the trace.
    pub(crate) fn has(&self, folder: &Path) -> bool {
        let Ok(data) = folder.metadata() else {
            return false;
        };
        // The device number in stat is encoded differently from the kernel's.
        let dev = data.dev();
        let major = (dev >> 8) & 0xfff | (dev >> 32) & !0xfff;
        let minor = dev & 0xff | (dev >> 12) & !0xff;
        let link = format!("/sys/dev/block/{major}:{minor}");
        fs::canonicalize(link).is_ok_and(|path| {
            path.components()
                .any(|c| c.as_os_str() == self.name.as_str())
        })
    }
}

/// Counters of `/sys/block/DEV/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DiskStat {
    /// Reads completed.
    pub(crate) read_ios: u64,
    /// Bytes read.
    pub(crate) read_bytes: u64,
    /// Writes completed.
    pub(crate) write_ios: u64,
    /// Bytes written.
    pub(crate) write_bytes: u64,
    /// Discards completed.
    pub(crate) discard_ios: u64,
    /// Flushes completed.
    pub(crate) flush_ios: u64,
}

impl DiskStat {
    /// Parses the counters; columns that an old kernel lacks are 0.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let numbers: Vec<u64> = text
            .split_whitespace()
            .map_while(|n| n.parse().ok())
            .collect();
        let at = |place: usize| numbers.get(place).copied();
        Some(Self {
            read_ios: at(0)?,
            read_bytes: at(2)? * 512,
            write_ios: at(4)?,
            write_bytes: at(6)? * 512,
            discard_ios: at(11).unwrap_or(0),
            flush_ios: at(15).unwrap_or(0),
        })
    }

    /// Returns the increase since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let minus = |a: u64, b: u64| a.wrapping_sub(b);
        Self {
            read_ios: minus(self.read_ios, earlier.read_ios),
            read_bytes: minus(self.read_bytes, earlier.read_bytes),
            write_ios: minus(self.write_ios, earlier.write_ios),
            write_bytes: minus(self.write_bytes, earlier.write_bytes),
            discard_ios: minus(self.discard_ios, earlier.discard_ios),
            flush_ios: minus(self.flush_ios, earlier.flush_ios),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_parsed_and_subtracted() {
        let a = DiskStat::parse("  10 0 80 3 5 0 40 2 0 9 9 1 0 8 0 4 1\n").unwrap();
        assert_eq!(
            (a.read_bytes, a.write_bytes, a.flush_ios),
            (40_960, 20_480, 4)
        );
        let b = DiskStat { read_ios: 13, ..a };
        assert_eq!(b.since(&a).read_ios, 3);
        assert!(DiskStat::parse("x").is_none());
    }
}
