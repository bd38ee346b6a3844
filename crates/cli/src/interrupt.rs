//! Turns an interrupt into a request to stop, instead of ending the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flag that is set when the user asks to stop.
///
/// For tools that record or watch until they are stopped, and then report. The first interrupt sets
/// the flag; a second one ends the process and discards unfinished files.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Starts to listen for interrupts. Where signals are not available, or those of another program that runs the tool, the flag is
    /// never set.
    #[must_use]
    pub fn listen() -> Self {
        let interrupt = Self::default();
        #[cfg(unix)]
        if !crate::in_process::is_active() {
            interrupt.listen_on_a_thread();
        }
        interrupt
    }

    #[cfg(unix)]
    fn listen_on_a_thread(&self) {
        use signal_hook::iterator::Signals;

        let Ok(mut signals) = Signals::new(crate::cleanup::ending()) else {
            return;
        };
        let flag = Arc::clone(&self.0);
        let listening = std::thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    if flag.swap(true, Ordering::AcqRel) {
                        crate::cleanup::end_by(signal);
                    }
                }
            });
        drop(listening);
    }

    /// Returns `true` if an interrupt was received.
    #[must_use]
    pub fn has_come(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_signal_sets_the_flag_and_nothing_else() {
        let interrupt = Interrupt::listen();
        assert!(!interrupt.has_come());
        signal_hook::low_level::raise(signal_hook::consts::SIGTERM).ok();
        while !interrupt.has_come() {
            std::thread::yield_now();
        }
    }
}
