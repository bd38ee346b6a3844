//! Temporary files that must not outlive the process, also when a signal ends it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The temporary files that exist now.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A registered file; dropping this forgets it, and leaves it alone.
#[derive(Debug)]
pub(crate) struct Registered(PathBuf);

impl Drop for Registered {
    fn drop(&mut self) {
        live().retain(|path| *path != self.0);
    }
}

/// Has the file removed if a signal ends the process.
pub(crate) fn register(path: &Path) -> Registered {
    live().push(path.to_owned());
    Registered(path.to_owned())
}

/// Starts to listen for signals, once. Costs a thread, so only tools that write files do it.
///
/// After the files are gone the signal does what it would have done: the process ends by it,
/// which a shell shows as 130 for an interrupt.
#[cfg(unix)]
pub(crate) fn install() {
    use std::sync::Once;

    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Without a handler the files stay behind after a signal: no reason to refuse work.
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else {
            return;
        };
        let listening = std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    // Kept locked to the end: no file may come or go any more.
                    let files = live();
                    for path in files.iter() {
                        let _ = std::fs::remove_file(path);
                    }
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                    drop(files);
                }
            });
        drop(listening);
    });
}

/// Signals are a matter of Unix.
#[cfg(not(unix))]
pub(crate) fn install() {}
