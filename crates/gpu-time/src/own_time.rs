//! Time of the slices of a thread without that of the slices within them.

use trace_model::interval::Interval;
use trace_model::{Slice, StrId, Trace, TrackId};

/// What a slice's own time is attributed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// That of this name.
    Of(Option<StrId>),
    /// Nobody's.
    Nobody,
    /// That of the slice around it.
    Around,
}

/// Calls `add` with the index of a window, a name and the own time of the slices of that name in it,
/// for each stretch of `track` in which one slice is innermost and each window that it touches.
/// `windows` are in ascending order and do not overlap.
///
/// Cost: the slices of the track.
pub(crate) fn within(
    trace: &Trace,
    track: TrackId,
    windows: &[Interval],
    owner: impl Fn(Slice<'_>) -> Owner,
    mut add: impl FnMut(usize, Option<StrId>, i64),
) {
    let mut low = 0;
    innermost(trace, track, owner, |from, to, owner| {
        while windows.get(low).is_some_and(|w| w.1 <= from) {
            low += 1;
        }
        let Owner::Of(name) = owner else {
            return;
        };
        for (at, window) in windows.iter().enumerate().skip(low) {
            if window.0 >= to {
                break;
            }
            let ns = to.min(window.1) - from.max(window.0);
            if ns > 0 {
                add(at, name, ns);
            }
        }
    });
}

/// Calls `visit` with the stretches of `track` in which one slice is innermost, in ascending time.
fn innermost(
    trace: &Trace,
    track: TrackId,
    owner: impl Fn(Slice<'_>) -> Owner,
    mut visit: impl FnMut(i64, i64, Owner),
) {
    let mut open: Vec<(i64, Owner)> = Vec::new();
    let mut at = i64::MIN;
    for id in trace.slices_on(track) {
        let slice = trace.slice(*id);
        let start = slice.ts().nanos();
        while let Some(&(end, owner)) = open.last() {
            if end > start {
                break;
            }
            visit(at, end, owner);
            at = at.max(end);
            open.pop();
        }
        let around = open.last().map(|last| last.1);
        if let Some(around) = around {
            visit(at, start, around);
        }
        at = start;
        let own = match (owner(slice), around) {
            (Owner::Around, around) => around.unwrap_or(Owner::Nobody),
            (own, _) => own,
        };
        open.push((slice.end().nanos(), own));
    }
    while let Some((end, owner)) = open.pop() {
        visit(at, end, owner);
        at = at.max(end);
    }
}
