//! Removes temporary files when a signal ends the process, and says what stays.

use std::sync::{Mutex, PoisonError};

/// What a signal that ends the process leaves, in words.
static LAST_WORDS: Mutex<Option<String>> = Mutex::new(None);

/// Says a sentence on standard error if a signal ends the process before this is dropped: for a tool whose work so far is kept, what is
/// there and how to go on. Nothing is said where the tool runs in another program, whose signals are not ours.
#[derive(Debug)]
#[must_use = "nothing is said after it is dropped"]
pub struct LastWords(());

impl LastWords {
    /// Keeps the sentence for a signal, which replaces that of another call.
    pub fn new(text: impl Into<String>) -> Self {
        if !crate::in_process::is_active() {
            *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.into());
            install();
        }
        Self(())
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Starts to handle signals, once. Costs a thread, so only tools that write files do it.
///
/// After the files are removed the signal has its usual effect: it ends the process, which a shell
/// reports as 130 for an interrupt.
#[cfg(unix)]
pub(crate) fn install() {
    use std::sync::Once;

    use signal_hook::iterator::Signals;

    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Without a handler the files stay behind after a signal, which is no reason to fail.
        let Ok(mut signals) = Signals::new(ending()) else {
            return;
        };
        let listening = std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    end_by(signal);
                }
            });
        drop(listening);
    });
}

/// Returns the signals by which a user ends a tool: an interrupt, a request to end, the end of the
/// terminal. The last one is left alone under `nohup`, and when it is not known whether it is
/// ignored.
#[cfg(unix)]
pub(crate) fn ending() -> Vec<i32> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| {
        let mask = line.strip_prefix("SigIgn:")?.trim();
        u64::from_str_radix(mask, 16).ok()
    });
    let mut signals = vec![SIGINT, SIGTERM];
    // The lowest bit is that of signal 1.
    signals.extend(ignored.is_some_and(|mask| mask & 1 == 0).then_some(SIGHUP));
    signals
}

/// Removes unfinished files and ends the process by the signal.
#[cfg(unix)]
pub(crate) fn end_by(signal: i32) {
    byte_source::unfinished::remove_all(|| {
        let words = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(words) = words.as_ref() {
            crate::terminal::say(words);
        }
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    });
}

/// Signals exist only on Unix.
#[cfg(not(unix))]
pub(crate) fn install() {}
