//! Phase marks: from the engine's output, a named pipe or a socket.

use std::sync::{Arc, Mutex};

use memtrace_labeller::PhaseBoundary;
use regex::bytes::Regex;

use super::clock::monotonic_ns;
use crate::error::{Error, Result};

/// Maximum number of marks kept; more frequent marks do not mark phases.
const MAX_MARKS: usize = 65_536;

/// Meaning of a mark for its phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    Start,
    End,
    /// The phase begins, and ends the previous one.
    Next,
}

#[derive(Debug, Clone)]
struct Mark {
    phase: String,
    edge: Edge,
    time_ns: i64,
}

/// Marks of a run so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    output: Vec<Mark>,
    /// Marks of the pipe and the socket, in order of arrival.
    pipe: Vec<Mark>,
    /// Number of their lines that do not follow the protocol.
    ignored: u64,
}

impl Marks {
    /// Records the start of a phase that the output shows; each phase begins once.
    pub(super) fn begins(&self, phase: &str) {
        if let Ok(mut kept) = self.0.lock()
            && !kept.output.iter().any(|mark| mark.phase == phase)
        {
            kept.output.push(Mark {
                phase: phase.to_owned(),
                edge: Edge::Next,
                time_ns: monotonic_ns(),
            });
        }
    }

    /// Records a line of the pipe or the socket: `phase NAME start|end [MONOTONIC_NS]`.
    pub(super) fn line(&self, line: &[u8]) {
        let now = monotonic_ns();
        let Ok(mut kept) = self.0.lock() else { return };
        let text = String::from_utf8_lossy(line);
        if text.trim().is_empty() {
            return;
        }
        match mark_of(&text, now) {
            Some(mark) if kept.pipe.len() < MAX_MARKS => kept.pipe.push(mark),
            _ => kept.ignored += 1,
        }
    }

    /// Returns the number of unusable lines of the pipe and the socket.
    pub(super) fn ignored(&self) -> u64 {
        self.0.lock().map_or(0, |kept| kept.ignored)
    }

    /// Returns the phases and their source. Those of the pipe come first and win where both
    /// overlap.
    pub(super) fn phases(&self, start_ns: i64, end_ns: i64) -> (Vec<PhaseBoundary>, &'static str) {
        let Ok(kept) = self.0.lock() else {
            return (Vec::new(), "none");
        };
        let mut phases = of_pipe(&kept.pipe, start_ns, end_ns);
        let from_pipe = !phases.is_empty();
        let from_output = of_output(&kept.output, start_ns, end_ns);
        let source = match (from_pipe, from_output.is_empty()) {
            (true, true) => "pipe",
            (true, false) => "pipe and output",
            (false, false) => "output",
            (false, true) => "none",
        };
        phases.extend(from_output);
        (phases, source)
    }
}

fn mark_of(text: &str, now: i64) -> Option<Mark> {
    let mut words = text.split_whitespace();
    if words.next()? != "phase" {
        return None;
    }
    let phase = words.next()?.to_owned();
    let edge = match words.next()? {
        "start" => Edge::Start,
        "end" => Edge::End,
        _ => return None,
    };
    let time_ns = match words.next() {
        Some(time) => time.parse().ok()?,
        None => now,
    };
    words.next().is_none().then_some(Mark {
        phase,
        edge,
        time_ns,
    })
}

/// Pairs each start with the next end of the same name. A phase without an end lasts until the
/// run's end; one without a start began with the run.
fn of_pipe(marks: &[Mark], start_ns: i64, end_ns: i64) -> Vec<PhaseBoundary> {
    let mut open: Vec<(&str, i64)> = Vec::new();
    let mut phases = Vec::new();
    for mark in marks {
        if mark.edge == Edge::Start {
            open.push((&mark.phase, mark.time_ns));
            continue;
        }
        let place = open.iter().rposition(|(name, _)| *name == mark.phase);
        let from = match place {
            Some(at) => open.remove(at).1,
            None => start_ns.min(mark.time_ns),
        };
        if from <= mark.time_ns {
            phases.push(PhaseBoundary::new(&*mark.phase, from, mark.time_ns));
        }
    }
    for (name, from) in open {
        phases.push(PhaseBoundary::new(name, from, end_ns.max(from)));
    }
    phases.sort_by_key(|phase| phase.start_ns);
    phases
}

/// Returns phases that each last until the next.
fn of_output(marks: &[Mark], start_ns: i64, end_ns: i64) -> Vec<PhaseBoundary> {
    let mut starts: Vec<(&str, i64)> = marks
        .iter()
        .map(|mark| (&*mark.phase, mark.time_ns))
        .collect();
    // Standard output and error are read by two threads.
    starts.sort_by_key(|(_, time)| *time);
    if starts
        .first()
        .is_some_and(|(name, _)| *name == "generation")
    {
        starts.insert(0, ("weight_load", start_ns));
    }
    let ends = starts.iter().skip(1).map(|(_, time)| *time).chain([end_ns]);
    starts
        .iter()
        .zip(ends)
        .map(|((name, from), to)| PhaseBoundary::new(*name, *from, to.max(*from)))
        .collect()
}

/// `PHASE=PATTERN`: the phase begins with the first line of output that matches the pattern.
#[derive(Debug, Clone)]
pub(super) struct OutputPattern {
    pub(super) phase: String,
    pub(super) pattern: Regex,
}

/// Parses patterns from arguments; with `literal` the text is matched literally.
pub(super) fn patterns(arguments: &[String], literal: bool) -> Result<Vec<OutputPattern>> {
    let pattern = |argument: &String| {
        let wrong = |what: String| Error::PhaseMark {
            argument: argument.clone(),
            what,
        };
        let (phase, text) = argument
            .split_once('=')
            .filter(|(phase, text)| !phase.is_empty() && !text.is_empty())
            .ok_or_else(|| wrong("is not PHASE=TEXT".to_owned()))?;
        let text = if literal {
            regex::escape(text)
        } else {
            text.to_owned()
        };
        let pattern = Regex::new(&text).map_err(|error| wrong(error.to_string()))?;
        Ok(OutputPattern {
            phase: phase.to_owned(),
            pattern,
        })
    };
    arguments.iter().map(pattern).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(phases: &[PhaseBoundary]) -> Vec<String> {
        phases
            .iter()
            .map(|phase| format!("{} {} {}", phase.phase, phase.start_ns, phase.end_ns))
            .collect()
    }

    #[test]
    fn lines_become_phases() {
        let marks = Marks::default();
        for line in [
            "phase weight_load start 10",
            "phase weight_load end 20\r",
            "",
            "phase generation start 20",
            "phase generation end 30",
            "phase generation start 35",
            "nonsense",
            "phase generation begin 3",
            "phase generation end soon",
            "phase teardown end 3",
        ] {
            marks.line(line.as_bytes());
        }
        let (phases, source) = marks.phases(5, 50);
        let expected = [
            "teardown 3 3",
            "weight_load 10 20",
            "generation 20 30",
            "generation 35 50",
        ];
        assert_eq!(shown(&phases), expected);
        assert_eq!((source, marks.ignored()), ("pipe", 3));
    }

    #[test]
    fn what_the_output_begins_lasts_until_the_next() {
        let marks = Marks::default();
        assert_eq!(marks.phases(1, 2), (Vec::new(), "none"));
        marks.begins("generation");
        marks.begins("generation");
        let (phases, source) = marks.phases(0, i64::MAX);
        assert_eq!((phases.len(), source), (2, "output"));
        assert_eq!(phases[0].phase, "weight_load");
        assert_eq!(
            (phases[0].end_ns, phases[1].end_ns),
            (phases[1].start_ns, i64::MAX)
        );
    }

    #[test]
    fn patterns_are_checked_before_anything_is_started() {
        let of = |text: &str, literal| patterns(&[text.to_owned()], literal);
        let found = of(r"generation=eval\s+time", false).unwrap();
        assert!(found[0].pattern.is_match(b"prompt eval  time"));
        assert!(
            of("generation=eval (", true).unwrap()[0]
                .pattern
                .is_match(b"eval (x")
        );
        for (text, literal) in [
            ("generation=(", false),
            ("generation", true),
            ("=x", true),
            ("x=", true),
        ] {
            assert!(
                of(text, literal).unwrap_err().to_string().contains(text),
                "{text}"
            );
        }
    }
}
