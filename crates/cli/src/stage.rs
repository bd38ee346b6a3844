//! How long the steps of a run take, for `-v`.

use std::time::Instant;

use crate::args::VerbosityArgs;
use crate::size::ByteSize;

/// A step being timed; with `-v` it says on standard error how long it took when dropped.
///
/// The line is `name: 1.234 s, peak memory 120.0 MiB`; memory is that of the whole process so
/// far, and left out where the system does not tell.
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
    /// Begins a step.
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

/// The largest resident set so far, from `VmHWM` of proc_pid_status(5).
fn peak_memory() -> Option<ByteSize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(ByteSize::of(kib << 10))
}
