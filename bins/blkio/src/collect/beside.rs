//! What runs beside the tracer: the command that is traced, and the sampler of the GPU.

use std::fs::{self, File};
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cli::Interrupt;

use crate::args::CollectArgs;
use crate::guard::{Guard, alone, signal};

/// How often the workload is looked at, and what it has to end in when it is told to.
const POLL: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(30);
/// How what was to be recorded went.
pub(super) enum Work {
    /// To its end, or to an interrupt; an error is that of the command.
    Ended(anyhow::Result<()>),
    /// The command cannot be run.
    NotStarted(anyhow::Error),
}

/// Runs the command, or waits; an interrupt ends both.
pub(super) fn workload(args: &CollectArgs, interrupt: &Interrupt, guard: &mut Guard) -> Work {
    let Some((program, rest)) = args.command.split_first() else {
        let length = Duration::from_secs_f64(args.seconds.clamp(0.0, 86_400.0));
        let started = Instant::now();
        while started.elapsed() < length && !interrupt.has_come() {
            thread::sleep(POLL);
        }
        return Work::Ended(Ok(()));
    };
    let mut command = Command::new(program);
    command.args(rest);
    if std::io::stdin().is_terminal() {
        // A group in the background that reads from the terminal is stopped.
        command.stdin(Stdio::null());
    }
    alone(&mut command);
    match command.spawn() {
        Ok(mut child) => {
            guard.group(&child);
            Work::Ended(wait(&mut child, program, interrupt))
        }
        Err(error) => {
            Work::NotStarted(anyhow::Error::new(error).context(format!("cannot start {program}")))
        }
    }
}

/// Waits for the command; an interrupt is handed on to it, once.
fn wait(child: &mut Child, program: &str, interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut told: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            // How a command ends that was told to end is its own affair.
            anyhow::ensure!(
                status.success() || told.is_some(),
                "{program} ended with {status}"
            );
            return Ok(());
        }
        let group = format!("-{}", child.id());
        match told {
            None if interrupt.has_come() => {
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

/// Samples GPU utilisation beside the trace, where there is a GPU.
pub(super) fn gpu_sampler(out: &Path, guard: &mut Guard) -> Option<Child> {
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
        // No GPU: no file that says nothing.
        Err(_) => _ = fs::remove_file(out.join("gpu.csv")),
    }
    child.ok()
}

pub(super) fn end_sampler(gpu: Option<Child>) -> anyhow::Result<()> {
    if let Some(mut gpu) = gpu {
        gpu.kill()?;
        gpu.wait()?;
    }
    Ok(())
}
