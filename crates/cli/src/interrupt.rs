//! An interrupt that ends what runs, instead of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user has asked to end.
///
/// For tools that record or watch until they are told to stop, and then report. The first interrupt sets the flag; a second
/// one ends the process, without the files that are not finished by then.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on. Where signals cannot be listened to, the flag stays unset.
    #[must_use]
    pub fn listen() -> Self {
        let interrupt = Self::default();
        #[cfg(unix)]
        interrupt.listen_on_a_thread();
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

    /// Whether it has come.
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
