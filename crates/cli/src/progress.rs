//! Progress line on the terminal.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byte_source::Progress;

use crate::args::VerbosityArgs;
use crate::in_process;
use crate::size::ByteSize;
use crate::terminal;

/// Delay of the first line: shorter jobs display nothing.
const PATIENCE: Duration = Duration::from_millis(300);
const INTERVAL: Duration = Duration::from_millis(100);

/// Displays a counter on standard error until it is dropped, then erases it.
///
/// It appears only on a terminal, without `-q`, and after 0.3 s; otherwise it costs only the
/// counter. [`terminal::say`] and its callers write above the line.
///
/// ```
/// let line = cli::ProgressLine::start("reading", cli::VerbosityArgs::default());
/// let mut options = byte_source::OpenOptions::default();
/// options.progress = Some(line.counter());
/// // Open sources with the options, read them.
/// drop(line);
/// ```
#[derive(Debug)]
pub struct ProgressLine {
    counter: Arc<Progress>,
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

impl ProgressLine {
    /// Starts with a counter at zero.
    pub fn start(label: &'static str, verbosity: VerbosityArgs) -> Self {
        let counter = Arc::new(Progress::default());
        let call = in_process::current();
        if let Some(call) = &call {
            call.watch(&counter);
        }
        let wanted = call.is_none() && !verbosity.quiet && io::stderr().is_terminal();
        let drawing = wanted.then(|| draw(label, Arc::clone(&counter))).flatten();
        Self { counter, drawing }
    }

    /// Returns the counter to pass to readers.
    pub fn counter(&self) -> Arc<Progress> {
        Arc::clone(&self.counter)
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.drawing.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Starts the thread that draws; it ends when the sender is dropped.
fn draw(label: &'static str, counter: Arc<Progress>) -> Option<(Sender<()>, JoinHandle<()>)> {
    let (stop, stopped) = channel::<()>();
    let thread = std::thread::Builder::new()
        .name("progress".to_owned())
        .spawn(move || {
            let started = Instant::now();
            let mut wait = PATIENCE;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = INTERVAL;
                let line = line(label, &counter, started.elapsed());
                let fitting: String = line.chars().take(columns().saturating_sub(1)).collect();
                terminal::show(&fitting);
            }
            terminal::show("");
        });
    thread.ok().map(|thread| (stop, thread))
}

/// Returns the columns of the terminal on standard error.
fn columns() -> usize {
    terminal_size::terminal_size_of(io::stderr())
        .map_or(terminal::DEFAULT_WIDTH, |(width, _)| usize::from(width.0))
}

/// Returns the text of the line; ASCII if the label is.
fn line(label: &str, counter: &Progress, elapsed: Duration) -> String {
    let done = counter.done();
    let rate = u128::from(done) * 1000 / elapsed.as_millis().max(1);
    let rate = ByteSize::of(u64::try_from(rate).unwrap_or(u64::MAX));
    let done_size = ByteSize::of(done);
    match counter.fraction() {
        Some(fraction) => format!(
            "{label} {:3.0} %  {done_size} of {}  {rate}/s",
            // Rounded down: 100 % means complete.
            (fraction * 100.0).floor(),
            ByteSize::of(counter.total()),
        ),
        None => format!("{label} {done_size}  {rate}/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let counter = Progress::default();
        counter.add_done(3 << 20);
        let elapsed = Duration::from_secs(2);
        assert_eq!(
            line("reading", &counter, elapsed),
            "reading 3.0 MiB  1.5 MiB/s"
        );
        counter.add_total(4 << 20);
        assert_eq!(
            line("reading", &counter, elapsed),
            "reading  75 %  3.0 MiB of 4.0 MiB  1.5 MiB/s"
        );
    }
}
