//! Measures the duration of the steps of a run, for `-v`.

use std::time::Instant;

use crate::args::VerbosityArgs;
use crate::size::ByteSize;

/// A timed step; with `-v` it reports its duration on standard error when dropped.
///
/// The line is `name: 1.234 s, peak memory 120.0 MiB`; memory is the peak of the whole process so
/// far, omitted if the system does not report it.
///
/// ```
/// let verbosity = cli::VerbosityArgs::default();
/// let sum = cli::Stage::time("sum", verbosity, || 1 + 1);
/// assert_eq!(sum, 2);
/// ```
#[derive(Debug)]
pub struct Stage {
    name: &'static str,
    verbosity: VerbosityArgs,
    started: Instant,
}

impl Stage {
    /// Starts a step.
    pub fn start(name: &'static str, verbosity: VerbosityArgs) -> Self {
        Self {
            name,
            verbosity,
            started: Instant::now(),
        }
    }

    /// Times a function.
    pub fn time<T>(name: &'static str, verbosity: VerbosityArgs, step: impl FnOnce() -> T) -> T {
        let _stage = Self::start(name, verbosity);
        step()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.verbosity.detail(|| {
            let seconds = self.started.elapsed().as_secs_f64();
            let memory = peak_memory()
                .map(|size| format!(", peak memory {size}"))
                .unwrap_or_default();
            format!("{}: {seconds:.3} s{memory}", self.name)
        });
    }
}

/// Returns the largest resident set so far, from `VmHWM` of proc_pid_status(5).
fn peak_memory() -> Option<ByteSize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(ByteSize::of(kib << 10))
}
