//! Finds the conversion from one clock to another.
//!
//! A time is converted along the shortest path. Each hop uses the last snapshot of its set of
//! clocks that is not later than the time, and adds the difference; no slope, no interpolation.
//!
//! If several sets contain both clocks, Perfetto takes the one that a hash orders first, regardless
//! of the time. We take the set with the nearest snapshot, so that a suspend recorded by only one
//! set is not missed; `compat` takes the newest set, as the reference tables show.

use std::collections::hash_map::Entry;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::{ClockId, Clocks, SourceTime};

/// Maximum length of a conversion path in hops.
const MAX_HOPS: usize = 4;
/// Maximum number of families that are searched; with more, only the path's family is used.
const MAX_FAMILIES: usize = 64;
/// Hops as (clock, family of the snapshots).
pub(super) type Path = Rc<[(usize, usize)]>;

/// One hop of a conversion.
#[derive(Clone, Copy, Debug)]
struct Hop {
    /// Time of the snapshot used, if it is not later than the time.
    from_ns: Option<i64>,
    /// Time of the next snapshot.
    to_ns: Option<i64>,
    add: i64,
    /// Time of the first snapshot, for times before all of them.
    first: Option<i64>,
}

/// A conversion that is valid for a range of source times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translation {
    from_ns: i64,
    to_ns: i64,
    add: i64,
}

impl Clocks {
    /// Returns the translation of an absolute time to trace time, with the range in which it is
    /// valid. `None` if no snapshots relate the clocks.
    pub(crate) fn translation(&mut self, time: SourceTime) -> Option<Translation> {
        self.used = true;
        if time.clock.id == self.trace_clock {
            return Some(Translation {
                from_ns: i64::MIN,
                to_ns: i64::MAX,
                add: 0,
            });
        }
        let path = self.path(time.clock)?;
        let mut held = Translation {
            from_ns: i64::MIN,
            to_ns: i64::MAX,
            add: 0,
        };
        let mut from = *self.by_id.get(&time.clock)?;
        for &(to, family) in path.iter() {
            let now = time.ns.saturating_add(held.add);
            let hop = if self.compat {
                self.hop(from, to, family, now)?
            } else {
                self.nearest_hop(from, to, family, now)?
            };
            let back = |ns: i64| ns.saturating_sub(held.add);
            held = Translation {
                from_ns: hop
                    .from_ns
                    .map_or(held.from_ns, |ns| held.from_ns.max(back(ns))),
                to_ns: hop.to_ns.map_or(held.to_ns, |ns| held.to_ns.min(back(ns))),
                add: held.add.saturating_add(hop.add),
            };
            from = to;
        }
        Some(held)
    }

    /// Returns the hop that the snapshots of one family give.
    fn hop(&self, from: usize, to: usize, family: usize, now: i64) -> Option<Hop> {
        let family = self.families.get(family)?;
        let column = |clock: usize| family.members.binary_search(&clock).ok();
        let (source, target) = (column(from)?, column(to)?);
        let after = family.rows.partition_point(|row| row[source] <= now);
        let row = family.rows.get(after.saturating_sub(1))?;
        Some(Hop {
            // Before the first snapshot, its difference applies.
            from_ns: (after > 0).then_some(row[source]),
            to_ns: family.rows.get(after).map(|next| next[source]),
            add: row[target].saturating_sub(row[source]),
            first: None,
        })
    }

    /// Returns the hop that the last snapshot before `now` gives, over all families with both
    /// clocks.
    fn nearest_hop(&self, from: usize, to: usize, family: usize, now: i64) -> Option<Hop> {
        let families = &self.domains.get(from)?.families;
        if families.len() == 1 || families.len() > MAX_FAMILIES {
            return self.hop(from, to, family, now);
        }
        let mut best: Option<Hop> = None;
        let mut until: Option<i64> = None;
        for &f in families {
            let Some(hop) = self.hop(from, to, f, now) else {
                continue;
            };
            let next = if hop.from_ns.is_some() {
                hop.to_ns
            } else {
                self.first_of(from, f)
            };
            until = [until, next].into_iter().flatten().min();
            // Before all snapshots, the earliest applies.
            let better = match &best {
                None => true,
                Some(best) if best.from_ns.is_none() && hop.from_ns.is_none() => next < best.first,
                Some(best) => hop.from_ns >= best.from_ns,
            };
            if better {
                best = Some(Hop { first: next, ..hop });
            }
        }
        best.map(|hop| Hop {
            to_ns: until,
            ..hop
        })
    }

    /// Returns the reading of the clock in the first snapshot of a family.
    fn first_of(&self, clock: usize, family: usize) -> Option<i64> {
        let family = self.families.get(family)?;
        let column = family.members.binary_search(&clock).ok()?;
        family.rows.first().map(|row| row[column])
    }

    /// Converts an absolute time to trace time.
    pub(crate) fn convert(&mut self, time: SourceTime) -> Option<i64> {
        Some(self.translation(time)?.apply(time.ns))
    }

    /// Returns the shortest path to the trace's clock of the same machine.
    fn path(&mut self, from: ClockId) -> Option<Path> {
        let start = *self.by_id.get(&from)?;
        if let Some((graph, path)) = &self.domains[start].path
            && *graph == self.graph
        {
            return path.clone();
        }
        let path = self.search(start, from.machine).map(Path::from);
        self.domains[start].path = Some((self.graph, path.clone()));
        path
    }

    /// Searches breadth first; neighbours are visited in ascending order of id.
    fn search(&self, start: usize, machine: u32) -> Option<Vec<(usize, usize)>> {
        let target = *self.by_id.get(&ClockId {
            id: self.trace_clock,
            sequence: 0,
            machine,
        })?;
        // Per clock: the clock before it and the family of the hop.
        let mut reached: FxHashMap<usize, (usize, usize)> = FxHashMap::default();
        let mut layer = vec![start];
        for _ in 0..MAX_HOPS {
            let mut next = Vec::new();
            for &clock in &layer {
                let domain = &self.domains[clock];
                if !domain.source {
                    continue;
                }
                // The family that appeared last.
                let direct = domain
                    .families
                    .iter()
                    .rev()
                    .find(|&&f| self.families[f].members.binary_search(&target).is_ok());
                if let Some(&family) = direct {
                    reached.insert(target, (clock, family));
                    return Some(trail(&reached, start, target));
                }
                let mut neighbours: Vec<(ClockId, usize, usize)> = domain
                    .families
                    .iter()
                    .flat_map(|&f| self.families[f].members.iter().map(move |&m| (f, m)))
                    .filter(|(_, m)| *m != start && !reached.contains_key(m))
                    .map(|(f, m)| (self.domains[m].id, f, m))
                    .collect();
                neighbours.sort();
                for (_, family, member) in neighbours {
                    if let Entry::Vacant(free) = reached.entry(member) {
                        free.insert((clock, family));
                        next.push(member);
                    }
                }
            }
            layer = next;
        }
        None
    }
}

fn trail(
    reached: &FxHashMap<usize, (usize, usize)>,
    start: usize,
    target: usize,
) -> Vec<(usize, usize)> {
    let mut path = Vec::new();
    let mut at = target;
    while at != start
        && let Some(&(before, family)) = reached.get(&at)
    {
        path.push((at, family));
        at = before;
    }
    path.reverse();
    path
}

impl Translation {
    /// Returns `true` if the translation is valid at this source time.
    #[inline]
    pub(crate) fn holds_at(self, ns: i64) -> bool {
        self.from_ns <= ns && ns < self.to_ns
    }

    /// Returns the converted time.
    #[inline]
    pub(crate) fn apply(self, ns: i64) -> i64 {
        ns.saturating_add(self.add)
    }
}
