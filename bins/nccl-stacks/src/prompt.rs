//! Asks the user to choose one of several windows.

use std::io::BufRead;

use cli::terminal::say;
use launch_stacks::{Pick, Window};

/// Prints the candidates on standard error: index, start, duration, end.
pub(crate) fn list(candidates: &[Window]) {
    say(&format!(
        "{:<8}{:<20}{:<20}{:<20}",
        "index", "start_ns", "duration_ns", "end_ns"
    ));
    say(&"-".repeat(80));
    for (i, w) in candidates.iter().enumerate() {
        let (start, end) = (w.start.nanos(), w.end.nanos());
        let line = format!("{i:<8}{start:<20}{:<20}{end:<20}", w.duration_ns());
        say(line.trim_end());
    }
}

/// From now on an interrupt prints a message and ends the process with 1, as the end of input does.
/// Nothing has been written yet that would need to be undone.
#[cfg(unix)]
pub(crate) fn cancel_on_interrupt() {
    use signal_hook::consts::SIGINT;
    use signal_hook::iterator::Signals;

    // Without a handler the interrupt still ends the process.
    let Ok(mut signals) = Signals::new([SIGINT]) else {
        return;
    };
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            say("nccl-stacks: cancelled");
            #[expect(clippy::exit, reason = "the main thread is blocked in a read")]
            std::process::exit(1);
        }
    });
}

/// Does nothing: signals exist only on Unix.
#[cfg(not(unix))]
pub(crate) fn cancel_on_interrupt() {}

/// Prints the candidates and reads an index until it is valid.
///
/// # Errors
///
/// Returns an error if the input ends first.
pub(crate) fn choose(candidates: &[Window], answers: &mut dyn BufRead) -> anyhow::Result<Pick> {
    list(candidates);
    let last = candidates.len().saturating_sub(1);
    loop {
        say(&format!("which one? enter an index from 0 to {last}:"));
        let mut line = Vec::new();
        if answers.read_until(b'\n', &mut line)? == 0 {
            return Err(cli::usage("cancelled: no index was given"));
        }
        let text = String::from_utf8_lossy(&line);
        match text.trim().parse::<i64>() {
            Err(_) => say(&format!("'{}' is not a whole number", text.trim())),
            Ok(index) if usize::try_from(index).is_ok_and(|i| i <= last) => {
                return Ok(Pick::Index(index));
            }
            Ok(index) => say(&format!("{index} is out of range: valid are 0 to {last}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_until_the_answer_is_valid() {
        let windows = [Window::whole_trace(), Window::whole_trace()];
        let mut answers: &[u8] = b"garbage\n\xff\n2\n-1\n 1 \n0\n";
        let pick = choose(&windows, &mut answers).unwrap();
        assert_eq!(pick, Pick::Index(1));
        assert_eq!(answers, b"0\n", "reads no further than it must");
    }

    #[test]
    fn an_ended_input_cancels() {
        let mut answers: &[u8] = b"9\n";
        let error = choose(&[Window::whole_trace()], &mut answers).unwrap_err();
        assert!(error.to_string().contains("cancelled"));
    }
}
