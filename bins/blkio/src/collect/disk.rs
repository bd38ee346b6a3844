//! The disk that is traced.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use blkio_parser::collect::DiskStat;

/// A whole disk.
pub(super) struct Disk {
    pub(super) name: String,
    pub(super) major: u32,
    pub(super) minor: u32,
}

impl Disk {
    /// The disk of a device or partition. Requests carry the whole disk's number, so a partition's would find nothing.
    pub(super) fn of(path: &Path) -> anyhow::Result<Self> {
        let real = fs::canonicalize(path)
            .with_context(|| format!("{}: no such device", path.display()))?;
        let name = real
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        let class = PathBuf::from("/sys/class/block").join(name);
        let mut folder = fs::canonicalize(&class)
            .with_context(|| format!("{}: no block device", path.display()))?;
        if folder.join("partition").exists() {
            folder.pop();
        }
        let text = fs::read_to_string(folder.join("dev"))?;
        let (major, minor) = text
            .trim()
            .split_once(':')
            .with_context(|| format!("{text}: no device number"))?;
        let name = folder
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        Ok(Self {
            name: name.to_owned(),
            major: major.parse()?,
            minor: minor.parse()?,
        })
    }

    pub(super) fn stat(&self) -> anyhow::Result<DiskStat> {
        let path = format!("/sys/block/{}/stat", self.name);
        let text = fs::read_to_string(&path)?;
        DiskStat::parse(&text).with_context(|| format!("{path}: not the kernel's counters"))
    }

    /// Whether a folder lies on it: what is written there would be in the trace.
    pub(super) fn has(&self, folder: &Path) -> bool {
        let Ok(data) = folder.metadata() else {
            return false;
        };
        // The number that stat gives is coded another way than the kernel's.
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
