//! Ends by a signal leave no temporary files behind.

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
                    end_by(signal);
                }
            });
        drop(listening);
    });
}

/// Removes unfinished files and ends the process by the signal.
#[cfg(unix)]
pub(crate) fn end_by(signal: i32) {
    byte_source::unfinished::remove_all(|| {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    });
}

/// Signals are a matter of Unix.
#[cfg(not(unix))]
pub(crate) fn install() {}
