//! Reads result logs of deepnvme: the transfers between tensors and files in figure 2.

use std::collections::BTreeMap;

use crate::scan::{real, trim};

/// Sizes of the published runs in MiB.
pub const SIZES_MIB: [u64; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Engines and experiments, in the order of the published legend.
pub const SERIES: [&str; 8] = [
    "py-store-cpu",
    "py-store-gpu",
    "py-load-cpu",
    "py-load-gpu",
    "aio-store-cpu",
    "aio-store-gpu",
    "aio-load-cpu",
    "aio-load-gpu",
];

/// The result of one log.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Bandwidth {
    /// GiB/s as printed, with two digits.
    pub printed: f64,
    /// GiB/s from the printed size and time.
    pub exact: f64,
    /// GiB moved.
    pub gib: f64,
    /// Duration in seconds.
    pub seconds: f64,
}

impl Bandwidth {
    /// Returns `true` if the printed value is the exact one rounded.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        (self.printed - self.exact).abs() <= 0.005 + 1e-9
    }
}

/// Parses the result of a log: the last line of the form `ENGINE WHAT: N GB, T secs,  B GB/sec`.
#[must_use]
pub fn parse(text: &[u8]) -> Option<Bandwidth> {
    text.split(|b| *b == b'\n').rev().find_map(result_line)
}

fn result_line(line: &[u8]) -> Option<Bandwidth> {
    let colon = memchr::memmem::find(line, b": ")?;
    let mut parts = line.get(colon + 2..)?.split(|b| *b == b',').map(trim);
    let gib = real(trim(parts.next()?.strip_suffix(b"GB")?))?;
    let seconds = real(trim(parts.next()?.strip_suffix(b"secs")?))?;
    let printed = real(trim(parts.next()?.strip_suffix(b"GB/sec")?))?;
    Some(Bandwidth {
        printed,
        exact: gib / seconds,
        gib,
        seconds,
    })
}

/// Returns the run of a file from its name `deepnvme-ENGINE-FS-EXPERIMENT-SIZE-mb.txt`: series
/// (`aio-load-cpu`), file system and size in MiB.
#[must_use]
pub fn run_of(file_name: &str) -> Option<(&'static str, String, u64)> {
    let rest = file_name
        .strip_prefix("deepnvme-")?
        .strip_suffix("-mb.txt")?;
    let (engine, rest) = rest.split_once('-')?;
    let (file_system, rest) = rest.split_once('-')?;
    let (experiment, size) = rest.rsplit_once('-')?;
    let name = format!("{engine}-{experiment}");
    let series = SERIES.into_iter().find(|series| *series == name)?;
    Some((series, file_system.to_owned(), size.parse().ok()?))
}

/// Results by series and size.
pub type Results = BTreeMap<&'static str, BTreeMap<u64, Bandwidth>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_result_counts_wherever_it_stands() {
        let text = b"Time to load aio op: 2.2 seconds\naio load_cpu: 1 GB, 0.5 secs,  2.00 GB/sec\naio load_cpu: 0.0009765625 GB, 0.0003050152001378592 secs,  3.20 GB/sec\ntrailing noise\n";
        let found = parse(text).unwrap();
        assert!(found.is_consistent());
        assert!((found.exact - 3.201_684_4).abs() < 1e-6);
        assert!(parse(b"noise\n").is_none());
        let wrong = parse(b"x: 1 GB, 0.5 secs,  2.50 GB/sec").unwrap();
        assert!(!wrong.is_consistent());
    }

    #[test]
    fn names_say_the_run() {
        assert_eq!(
            run_of("deepnvme-aio-ext4-load-cpu-1024-mb.txt"),
            Some(("aio-load-cpu", "ext4".to_owned(), 1024))
        );
        assert_eq!(run_of("deepnvme-zzz-ext4-load-cpu-1-mb.txt"), None);
        assert_eq!(run_of("README.md"), None);
    }
}
