//! Measures wall time, CPU time and peak memory of a command with GNU time.

use anyhow::{Context as _, Result, ensure};
use std::process::{Command, Stdio};
use std::time::Instant;

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) wall_s: f64,
    /// User and system time of all threads, in steps of 10 ms.
    pub(super) cpu_s: f64,
    pub(super) peak_kb: u64,
}

/// Returns the fastest of `runs` runs, after one that fills the page cache.
pub(super) fn measure(command: &mut Command, runs: u64) -> Result<Sample> {
    once(command)?;
    let mut best: Option<Sample> = None;
    for _ in 0..runs.max(1) {
        let sample = once(command)?;
        best = Some(
            best.filter(|best| best.wall_s <= sample.wall_s)
                .unwrap_or(sample),
        );
    }
    best.context("no run")
}

/// Runs a command once.
pub(super) fn once(command: &Command) -> Result<Sample> {
    let mut timed = Command::new("/usr/bin/time");
    timed
        .args(["-q", "-f", "%U %S %M"])
        .arg(command.get_program())
        .args(command.get_args());
    let start = Instant::now();
    let output = timed
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("starting /usr/bin/time; measurements need GNU time (package `time`)")?;
    let wall_s = start.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.trim_end().rsplit('\n').next().unwrap_or_default();
    ensure!(output.status.success(), "{}: {text}", output.status);
    parse(last, wall_s).with_context(|| format!("GNU time wrote {last:?}"))
}

fn parse(line: &str, wall_s: f64) -> Option<Sample> {
    let mut words = line.split(' ');
    let (user, system): (f64, f64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Sample {
        wall_s,
        cpu_s: user + system,
        peak_kb: words.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Sample, parse};

    #[test]
    fn the_line_of_gnu_time_is_user_system_memory() {
        assert_eq!(
            parse("1.25 0.50 4096", 1.5),
            Some(Sample {
                wall_s: 1.5,
                cpu_s: 1.75,
                peak_kb: 4096
            })
        );
        assert_eq!(parse("time: not found", 1.5), None);
    }
}
