//! Finds devices by number, or by a name that the trace, its recording, the kernel's numbering or this machine resolves.

use std::path::{Path, PathBuf};

use blkio_parser::pipeline::ReadOptions;
use blkio_parser::{AnalysisSet, Stats, StatsOptions};

use crate::error::{Error, Result};

/// A device as a user writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceChoice {
    /// `MAJOR:MINOR`, as the kernel's number.
    Number(u32),
    /// A name such as `nvme0n1`.
    Name(String),
}

impl DeviceChoice {
    /// Parses `259:4`, `nvme0n1` or `/dev/sda`.
    ///
    /// # Errors
    ///
    /// What was expected.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        if let Some(number) = number(text) {
            return Ok(Self::Number(number));
        }
        let name = text.strip_prefix("/dev/").unwrap_or(text);
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_!".contains(&b));
        if is_name {
            Ok(Self::Name(name.to_owned()))
        } else {
            Err("expected MAJOR:MINOR or a name, for example 259:4 or nvme0n1".to_owned())
        }
    }

    /// Returns the number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Name(_) => None,
        }
    }
}

fn number(text: &str) -> Option<u32> {
    let (major, minor) = text.trim().split_once(':')?;
    let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

/// Finds the device of a name among those of a trace; returns `None` if the choice is no name.
///
/// # Errors
///
/// A trace that cannot be read, or that has no such device.
pub fn named_device(
    choice: Option<&DeviceChoice>,
    files: &[PathBuf],
    read: &ReadOptions,
) -> Result<Option<u32>> {
    let Some(DeviceChoice::Name(name)) = choice else {
        return Ok(None);
    };
    if files.iter().any(|path| path == Path::new("-")) {
        return Err(Error::Input(
            "a name of a device is looked up in the trace, which needs a file: give MAJOR:MINOR for standard input".to_owned(),
        ));
    }
    let mut options = StatsOptions::default();
    options.read = read.clone();
    options.read.opened = None;
    options.wanted = AnalysisSet::TRAFFIC;
    let stats = Stats::of_files(files, &options)?;
    let symbols = &stats.outcome.symbols;
    let mut devices: Vec<u32> = stats.traffic.devices.keys().copied().collect();
    devices.extend(stats.apart.iter().map(|(dev, _)| *dev));
    devices.sort_unstable();
    let is_here = |dev: &u32| devices.contains(dev);
    let by_name = devices
        .iter()
        .find(|dev| symbols.device_name(**dev) == *name);
    if let Some(dev) = by_name {
        return Ok(Some(*dev));
    }
    let numbered: Vec<u32> = devices
        .iter()
        .copied()
        .filter(|dev| *dev != 0 && !symbols.is_named_device(*dev))
        .collect();
    let found = files
        .iter()
        .find_map(|path| recorded(path, name))
        .or_else(|| by_rule(name, &numbered))
        .or_else(|| of_this_machine(name));
    if let Some(dev) = found.filter(is_here) {
        return Ok(Some(dev));
    }
    let known: Vec<String> = devices
        .iter()
        .map(|dev| symbols.device_name(*dev))
        .collect();
    Err(Error::Input(format!(
        "no device {name} in this trace, which has {}: give one of them",
        known.join(", ")
    )))
}

/// Returns what the manifest beside a recording of `blkio collect` has for a name.
fn recorded(path: &Path, name: &str) -> Option<u32> {
    let text = std::fs::read(path.parent()?.join("manifest.json")).ok()?;
    let manifest: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let device = &manifest["device"];
    let is_it = device["name"].as_str() == Some(name);
    is_it.then(|| number(device["number"].as_str()?)).flatten()
}

/// Returns the kernel's numbering: fixed numbers of sd, md, loop, xvd and nbd; of those given on demand the one device that fits.
fn by_rule(name: &str, devices: &[u32]) -> Option<u32> {
    let rest = |beginning: &str| name.strip_prefix(beginning);
    let index = |beginning: &str| {
        let number = rest(beginning)?.parse::<u32>().ok()?;
        // Minor numbers have 20 bits.
        (number < 1 << 15).then_some(number)
    };
    let letters = |beginning: &str| {
        let rest = rest(beginning).filter(|rest| !rest.is_empty() && rest.len() <= 3)?;
        let is_lower = rest.bytes().all(|b| b.is_ascii_lowercase());
        // Other characters are no letters of a disk: partitions have numbers behind them.
        is_lower.then(|| {
            let digits = rest.bytes().map(|b| u32::from(b - b'a') + 1);
            digits.fold(0, |sum, digit| sum * 26 + digit) - 1
        })
    };
    if let Some(disk) = letters("sd") {
        // Sixteen disks for each of the majors 8, 65 to 71 and 128 to 135.
        let major = match disk / 16 {
            0 => 8,
            group @ 1..=7 => 64 + group,
            group @ 8..=15 => 120 + group,
            _ => return None,
        };
        return Some((major << 20) | (disk % 16 * 16));
    }
    let fixed = [("md", 9, 1), ("loop", 7, 1), ("nbd", 43, 32)];
    for (beginning, major, minors) in fixed {
        if let Some(index) = index(beginning) {
            return Some((major << 20) | (index * minors));
        }
    }
    if let Some(disk) = letters("xvd") {
        return Some((202 << 20) | (disk * 16));
    }
    let dynamic = |dev: &&u32| (232..=254).contains(&(**dev >> 20));
    let minor = if let Some(index) = index("dm-") {
        index
    } else if let Some(disk) = letters("vd") {
        disk * 16
    } else if name.starts_with("nvme") {
        // Numbers of NVMe disks are given in the order of their discovery, partitions included.
        let mut disks = devices.iter().filter(|dev| **dev >> 20 == 259);
        return disks.next().copied().filter(|_| disks.next().is_none());
    } else {
        return None;
    };
    let mut fitting = devices
        .iter()
        .filter(dynamic)
        .filter(|dev| **dev & 0xf_ffff == minor);
    fitting.next().copied().filter(|_| fitting.next().is_none())
}

/// Returns the number that the name has on this machine, which may not be the recorded one.
fn of_this_machine(name: &str) -> Option<u32> {
    let text =
        std::fs::read_to_string(Path::new("/sys/class/block").join(name).join("dev")).ok()?;
    number(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_numbering_of_the_kernel() {
        let dev = |major: u32, minor: u32| major << 20 | minor;
        let trace = [dev(8, 0), dev(253, 1), dev(259, 3), dev(254, 16)];
        for (name, wanted) in [
            ("sda", Some(dev(8, 0))),
            ("sdq", Some(dev(65, 0))),
            ("sdaa", Some(dev(65, 160))),
            ("md127", Some(dev(9, 127))),
            ("loop3", Some(dev(7, 3))),
            ("dm-1", Some(dev(253, 1))),
            ("vdb", Some(dev(254, 16))),
            ("nvme0n1", Some(dev(259, 3))),
            ("dm-7", None),
            ("sda1", None),
        ] {
            assert_eq!(by_rule(name, &trace), wanted, "{name}");
        }
        let two = [dev(259, 0), dev(259, 1)];
        assert_eq!(by_rule("nvme0n1", &two), None);
        assert_eq!(
            DeviceChoice::parse("259:4"),
            Ok(DeviceChoice::Number(dev(259, 4)))
        );
        assert_eq!(
            DeviceChoice::parse("/dev/dm-0"),
            Ok(DeviceChoice::Name("dm-0".to_owned()))
        );
        assert!(DeviceChoice::parse("4096:0").is_err());
    }
}
