//! Scans the elements of an array of events and recovers from broken ones.

use trace_model::{IssueKind, Place};

use super::part::Part;
use super::recover::{Resume, resume_after};
use super::scan::{Fault, Stop, is_blank, skip_value};

/// Reason why a scan over elements stopped, with a position in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// The text ended between two elements.
    Between,
    /// The element at this position is not complete.
    Inside(usize),
    /// The array ended before this position.
    End(usize),
    /// The text ended inside something too long to be an event; the start of the next event must be
    /// searched for.
    Lost,
}

impl Part<'_> {
    /// Scans elements from `at` to the end of the window or of the array. `base` is the window's
    /// offset in the document; `is_last` is `true` if no text follows the window.
    pub(super) fn elements(
        &mut self,
        w: &[u8],
        mut at: usize,
        base: u64,
        is_last: bool,
    ) -> Reached {
        loop {
            let Some(&b) = w.get(at) else {
                return Reached::Between;
            };
            if is_blank(b) || b == b',' {
                at += 1;
                continue;
            }
            let scanned = match b {
                b'{' => self.event(w, at, base),
                b']' => return Reached::End(at + 1),
                // These are leftovers of a broken element; a superfluous opening bracket is
                // followed by ordinary events.
                b'}' | b':' | b'[' => Ok(self.skipped(at, at + 1, base, Fault::Token)),
                _ => skip_value(w, at, b, self.config.max_depth)
                    .map(|end| self.skipped(at, end, base, Fault::Key)),
            };
            let fault = match scanned {
                Ok(end) => {
                    at = end;
                    continue;
                }
                Err(Stop::Bad(fault)) => fault,
                Err(Stop::More) if w.len() - at > self.config.max_event => Fault::Length,
                Err(Stop::More) if !is_last => return Reached::Inside(at),
                // The text ends inside an element: either the file ends here, or a missing bracket
                // swallowed the rest.
                Err(Stop::More) => match super::recover::next_event(w, at + 1) {
                    Some(_) => Fault::Comma,
                    None => return Reached::Inside(at),
                },
            };
            match resume_after(w, at, fault, is_last, self.config) {
                Resume::At(next) => at = self.skipped(at, next, base, fault),
                Resume::More => return Reached::Inside(at),
                Resume::Search => {
                    self.skipped(at, w.len(), base, fault);
                    return Reached::Lost;
                }
                Resume::Nowhere => {
                    self.skipped(at, w.len(), base, fault);
                    return Reached::Between;
                }
            }
        }
    }

    /// Counts the broken element at `at` and returns the position to continue from.
    fn skipped(&mut self, at: usize, next: usize, base: u64, fault: Fault) -> usize {
        self.notes.clear();
        self.diagnostics.note(
            IssueKind::JsonEventSkipped,
            Place::Byte(base + at as u64),
            fault.text(),
        );
        next
    }
}
