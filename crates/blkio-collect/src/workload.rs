//! Runs the traced command together with the GPU sampler.

use std::fs::{self, File};
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::guard::{Guard, alone, signal};

/// Interval at which the workload is checked, and time for it to end after it was told to.
const POLL: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the command, or waits without one; returns the exit status of a command that failed. `stop`
/// ends both.
///
/// # Errors
///
/// Returns an error if the command cannot be started.
pub(crate) fn workload(
    command: &[String],
    length: Duration,
    stop: &dyn Fn() -> bool,
    guard: &mut Guard,
) -> Result<Option<ExitStatus>> {
    let Some((program, rest)) = command.split_first() else {
        let started = Instant::now();
        while started.elapsed() < length && !stop() {
            thread::sleep(POLL);
        }
        return Ok(None);
    };
    let mut command = Command::new(program);
    command.args(rest);
    if std::io::stdin().is_terminal() {
        // A background group that reads from the terminal would be stopped.
        command.stdin(Stdio::null());
    }
    alone(&mut command);
    let mut child = command.spawn().map_err(|source| Error::NoCommand {
        program: program.clone(),
        source,
    })?;
    guard.group(&child);
    wait(&mut child, stop)
}

/// Waits for the command, and returns its status unless it succeeded or was told to end. An
/// interrupt is passed to it once.
fn wait(child: &mut Child, stop: &dyn Fn() -> bool) -> Result<Option<ExitStatus>> {
    let mut told: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            let is_failure = !status.success() && told.is_none();
            return Ok(is_failure.then_some(status));
        }
        let group = format!("-{}", child.id());
        match told {
            None if stop() => {
                told = Some(Instant::now());
                signal("INT", &group);
            }
            Some(since) if since.elapsed() > PATIENCE => {
                told = Some(Instant::now());
                signal("KILL", &group);
            }
            _ => {}
        }
        thread::sleep(POLL);
    }
}

/// Samples GPU utilisation during the trace, if there is a GPU.
pub(crate) fn gpu_sampler(out: &Path, guard: &mut Guard) -> Option<Child> {
    let file = File::create(out.join("gpu.csv")).ok()?;
    let mut command = Command::new("nvidia-smi");
    command
        .args([
            "--query-gpu=timestamp,index,utilization.gpu",
            "--format=csv",
            "-lms",
            "200",
        ])
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(Stdio::null());
    alone(&mut command);
    let child = command.spawn();
    match &child {
        Ok(child) => guard.process(child),
        // Without a GPU there is no empty file.
        Err(_) => _ = fs::remove_file(out.join("gpu.csv")),
    }
    child.ok()
}

pub(crate) fn end_sampler(gpu: Option<Child>) -> Result<()> {
    if let Some(mut gpu) = gpu {
        gpu.kill()?;
        gpu.wait()?;
    }
    Ok(())
}
