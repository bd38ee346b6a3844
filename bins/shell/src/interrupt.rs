//! An interrupt that ends what runs, instead of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user has asked to end.
///
/// For tools that record or watch until they are told to stop, and then report. The first interrupt sets the flag; a second
/// one ends the process.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on. Where signals cannot be listened to, the flag stays unset.
    #[must_use]
    pub fn listen() -> Self {
        let interrupt = Self::default();
        #[cfg(unix)]
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            let flag = &interrupt.0;
            // In this order: the first signal finds the flag unset and sets it, the second one finds it set.
            let ends = signal_hook::flag::register_conditional_default(signal, Arc::clone(flag));
            if ends.is_ok() {
                let _ = signal_hook::flag::register(signal, Arc::clone(flag));
            }
        }
        interrupt
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
        assert!(interrupt.has_come());
    }
}
