//! Clock synchronisation: snapshots record what several clocks showed at one moment, and packets
//! are stamped with any of these clocks.
//!
//! Rules (spec section 3.3, after Perfetto's `clock_synchronizer.cc`): clocks that shared a
//! snapshot are neighbours, and times are converted from neighbour to neighbour ([`route`]).

mod route;

use route::Path;
pub(crate) use route::Translation;
use rustc_hash::FxHashMap;

/// Wall clock since 1970.
pub(crate) const REALTIME: u32 = 1;
/// Time since boot, excluding suspends.
pub(crate) const MONOTONIC: u32 = 3;
/// Time since boot, including suspends; the default of traces.
pub(crate) const BOOTTIME: u32 = 6;

/// Maximum number of clocks in one snapshot; real ones have a few.
const MAX_READINGS: usize = 64;

/// A clock of a machine; ids 64 to 127 belong to one sequence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ClockId {
    pub(crate) id: u32,
    /// 0 for clocks that all sequences share.
    pub(crate) sequence: u32,
    pub(crate) machine: u32,
}

/// Returns `true` if the clock is private to a sequence.
pub(crate) fn is_sequence_scoped(id: u32) -> bool {
    (64..128).contains(&id)
}

/// One reading of a snapshot, as written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) clock: ClockId,
    pub(crate) timestamp: i64,
    pub(crate) unit_ns: i64,
    pub(crate) incremental: bool,
}

/// A set of clocks that are read together.
#[derive(Debug)]
struct Family {
    /// Indices of the clocks, ascending.
    members: Vec<usize>,
    /// One row per snapshot: the readings in ns in the order of `members`.
    rows: Vec<Vec<i64>>,
}

#[derive(Debug)]
struct Domain {
    id: ClockId,
    unit_ns: i64,
    incremental: bool,
    /// Sum of the deltas since the last snapshot, in ns.
    last_ns: i64,
    /// `true` if times of this clock can be converted; `false` once it went backwards.
    source: bool,
    /// Families of which the clock is a member.
    families: Vec<usize>,
    /// Cached path to the trace's clock, with the number of the graph it was found in.
    path: Option<(u32, Option<Path>)>,
}

/// A timestamp of a clock, made absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceTime {
    pub(crate) clock: ClockId,
    pub(crate) ns: i64,
}

/// Information on all clocks so far.
#[derive(Debug)]
pub(crate) struct Clocks {
    by_id: FxHashMap<ClockId, usize>,
    domains: Vec<Domain>,
    families: Vec<Family>,
    family_of: FxHashMap<Vec<usize>, usize>,
    /// Incremented when the neighbour relation changes.
    graph: u32,
    trace_clock: u32,
    used: bool,
    /// Incremented with each snapshot, so that cached translations expire.
    pub(crate) version: u32,
    /// Uses one family for all times of a hop, as Perfetto does, instead of the nearest snapshot.
    compat: bool,
}

impl Default for Clocks {
    fn default() -> Self {
        Self {
            by_id: FxHashMap::default(),
            domains: Vec::new(),
            families: Vec::new(),
            family_of: FxHashMap::default(),
            graph: 1,
            trace_clock: BOOTTIME,
            used: false,
            version: 1,
            compat: false,
        }
    }
}

impl Clocks {
    /// Creates the state without any clock.
    pub(crate) fn new(compat: bool) -> Self {
        Self {
            compat,
            ..Self::default()
        }
    }

    /// Returns the clock of the trace's timestamps.
    pub(crate) fn trace_clock(&self) -> u32 {
        self.trace_clock
    }

    /// Records that a time was taken as trace time.
    pub(crate) fn mark_used(&mut self) {
        self.used = true;
    }

    /// Makes `clock` the trace's clock. Fails once times have been converted.
    pub(crate) fn set_trace_clock(&mut self, clock: u32) -> Result<(), &'static str> {
        if clock == self.trace_clock {
            return Ok(());
        }
        if self.used {
            return Err("a primary clock that comes after the first timestamp");
        }
        self.trace_clock = clock;
        self.version += 1;
        self.graph += 1;
        Ok(())
    }

    fn domain(&mut self, reading: &Reading) -> usize {
        *self.by_id.entry(reading.clock).or_insert_with(|| {
            self.domains.push(Domain {
                id: reading.clock,
                unit_ns: reading.unit_ns,
                incremental: reading.incremental,
                last_ns: 0,
                source: true,
                families: Vec::new(),
                path: None,
            });
            self.domains.len() - 1
        })
    }

    /// Returns an error if a snapshot contradicts the rules or earlier snapshots.
    fn check(&self, readings: &[Reading]) -> Result<(), &'static str> {
        if readings.len() > MAX_READINGS {
            return Err("a snapshot of more than 64 clocks");
        }
        for (i, r) in readings.iter().enumerate() {
            let earlier = readings.get(..i).unwrap_or_default();
            if earlier.iter().any(|e| e.clock == r.clock) {
                return Err("a clock occurs twice in one snapshot");
            }
            if r.clock.id == self.trace_clock && r.unit_ns != 1 {
                return Err("the clock of the trace does not count nanoseconds");
            }
            if r.incremental && r.clock.sequence == 0 {
                return Err("a clock that all sequences share is incremental");
            }
            if r.unit_ns < 0 || r.timestamp.checked_mul(r.unit_ns).is_none() {
                return Err("a reading does not fit 64 bits");
            }
            if let Some(&at) = self.by_id.get(&r.clock)
                && (self.domains[at].unit_ns, self.domains[at].incremental)
                    != (r.unit_ns, r.incremental)
            {
                return Err("a clock changes its unit or encoding");
            }
        }
        Ok(())
    }

    /// Adds a snapshot.
    pub(crate) fn add_snapshot(&mut self, readings: &[Reading]) -> Result<(), &'static str> {
        self.check(readings)?;
        let mut row: Vec<(usize, i64)> = readings
            .iter()
            .map(|r| (self.domain(r), r.timestamp.saturating_mul(r.unit_ns)))
            .collect();
        row.sort_by_key(|&(at, _)| at);
        let members: Vec<usize> = row.iter().map(|&(at, _)| at).collect();
        let family = self.family_of.get(&members).copied();
        if let Some(last) = family.and_then(|f| self.families[f].rows.last()) {
            let backwards: Vec<usize> = row
                .iter()
                .zip(last)
                .filter(|&(&(_, now), &before)| now < before)
                .map(|(&(at, _), _)| at)
                .collect();
            let is_trace_clock = |at: usize| self.domains[at].id.id == self.trace_clock;
            if backwards.iter().any(|&at| is_trace_clock(at)) {
                return Err("the clock of the trace goes backwards");
            }
            for at in backwards {
                self.domains[at].source = false;
                self.graph += 1;
            }
        }
        for &(at, ns) in &row {
            self.domains[at].last_ns = ns;
        }
        let values = row.iter().map(|&(_, ns)| ns).collect();
        match family {
            Some(f) => self.families[f].rows.push(values),
            None => {
                let family = self.families.len();
                for &at in &members {
                    self.domains[at].families.push(family);
                }
                self.families.push(Family {
                    members: members.clone(),
                    rows: vec![values],
                });
                self.family_of.insert(members, family);
                self.graph += 1;
            }
        }
        self.version += 1;
        Ok(())
    }

    /// Returns the index of a clock that a snapshot contained; it never changes.
    pub(crate) fn find(&self, clock: ClockId) -> Option<usize> {
        self.by_id.get(&clock).copied()
    }

    /// Makes a timestamp absolute: multiplies by the unit and accumulates deltas. Must be called
    /// once for every stamped packet. Returns `None` for a clock that no snapshot has contained so
    /// far and that is not the trace's clock.
    pub(crate) fn absolute(&mut self, clock: ClockId, timestamp: i64) -> Option<SourceTime> {
        let ns = match self.find(clock) {
            Some(at) => self.absolute_at(at, timestamp),
            None if clock.id == self.trace_clock => timestamp,
            None => return None,
        };
        Some(SourceTime { clock, ns })
    }

    /// Same as [`Clocks::absolute`], for a clock with a known index.
    #[inline]
    pub(crate) fn absolute_at(&mut self, at: usize, timestamp: i64) -> i64 {
        let domain = &mut self.domains[at];
        let ns = timestamp.saturating_mul(domain.unit_ns);
        if domain.incremental {
            domain.last_ns = domain.last_ns.saturating_add(ns);
            domain.last_ns
        } else {
            ns
        }
    }

    /// Returns `true` if the timestamps of the clock are deltas.
    pub(crate) fn is_incremental(&self, clock: ClockId) -> bool {
        let at = self.by_id.get(&clock);
        at.is_some_and(|&at| self.domains[at].incremental)
    }

    /// Returns the offset from trace time to Unix time in ns, if a snapshot relates the two.
    pub(crate) fn unix_offset(&self) -> Option<i64> {
        let at = |id| {
            let clock = ClockId {
                id,
                sequence: 0,
                machine: 0,
            };
            self.by_id.get(&clock).copied()
        };
        let (real, trace) = (at(REALTIME)?, at(self.trace_clock)?);
        self.families.iter().find_map(|f| {
            let real = f.members.binary_search(&real).ok()?;
            let trace = f.members.binary_search(&trace).ok()?;
            let row = f.rows.first()?;
            Some(row[real].saturating_sub(row[trace]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(id: u32) -> ClockId {
        ClockId {
            id,
            sequence: if is_sequence_scoped(id) { 7 } else { 0 },
            machine: 0,
        }
    }

    fn read(id: u32, timestamp: i64) -> Reading {
        Reading {
            clock: clock(id),
            timestamp,
            unit_ns: 1,
            incremental: false,
        }
    }

    fn convert(clocks: &mut Clocks, id: u32, ts: i64) -> Option<i64> {
        let time = clocks.absolute(clock(id), ts)?;
        clocks.convert(time)
    }

    #[test]
    fn the_last_snapshot_not_later_counts() {
        let mut c = Clocks::default();
        c.add_snapshot(&[read(MONOTONIC, 100), read(BOOTTIME, 1_000)])
            .unwrap();
        c.add_snapshot(&[read(MONOTONIC, 200), read(BOOTTIME, 5_000)])
            .unwrap();
        for (mono, boot) in [
            (50, 950),
            (100, 1_000),
            (199, 1_099),
            (200, 5_000),
            (300, 5_100),
        ] {
            assert_eq!(convert(&mut c, MONOTONIC, mono), Some(boot), "{mono}");
        }
        let time = SourceTime {
            clock: clock(MONOTONIC),
            ns: 150,
        };
        let held = c.translation(time).unwrap();
        assert!(!held.holds_at(99) && held.holds_at(199) && !held.holds_at(200));
        let held = c.translation(SourceTime { ns: 250, ..time }).unwrap();
        assert!(!held.holds_at(199) && held.holds_at(200) && held.holds_at(i64::MAX - 1));
    }

    #[test]
    fn families_are_separate_and_paths_have_four_hops() {
        let mut c = Clocks::default();
        c.add_snapshot(&[read(128, 0), read(129, 10)]).unwrap();
        c.add_snapshot(&[read(129, 0), read(130, 100)]).unwrap();
        c.add_snapshot(&[read(130, 0), read(131, 1_000)]).unwrap();
        c.add_snapshot(&[read(131, 0), read(BOOTTIME, 10_000)])
            .unwrap();
        c.add_snapshot(&[read(132, 0), read(128, 0)]).unwrap();
        assert_eq!(convert(&mut c, 128, 1), Some(11_111));
        assert_eq!(convert(&mut c, 132, 1), None);
        assert_eq!(convert(&mut c, 140, 1), None);
    }

    #[test]
    fn the_nearest_snapshot_of_several_families_counts() {
        let snapshots: [&[Reading]; 3] = [
            &[read(MONOTONIC, 100), read(BOOTTIME, 1_000)],
            &[read(MONOTONIC, 200), read(BOOTTIME, 1_100), read(64, 0)],
            &[read(MONOTONIC, 300), read(BOOTTIME, 5_000)],
        ];
        for (compat, expected) in [
            (false, [950, 1_050, 1_150, 5_050]),
            (true, [950, 1_050, 1_150, 1_250]),
        ] {
            let mut c = Clocks::new(compat);
            for snapshot in snapshots {
                c.add_snapshot(snapshot).unwrap();
            }
            for (mono, boot) in [50, 150, 250, 350].into_iter().zip(expected) {
                assert_eq!(
                    convert(&mut c, MONOTONIC, mono),
                    Some(boot),
                    "{mono} {compat}"
                );
            }
            let time = SourceTime {
                clock: clock(MONOTONIC),
                ns: 150,
            };
            let held = c.translation(time).unwrap();
            assert!(held.holds_at(199) && !held.holds_at(200), "{compat}");
        }
    }

    #[test]
    fn deltas_add_up_from_the_snapshot() {
        let mut c = Clocks::default();
        let micros = Reading {
            unit_ns: 1_000,
            incremental: true,
            ..read(64, 5)
        };
        c.add_snapshot(&[micros, read(BOOTTIME, 1_000_000)])
            .unwrap();
        assert_eq!(convert(&mut c, 64, 2), Some(1_002_000));
        assert_eq!(convert(&mut c, 64, 3), Some(1_005_000));
        c.add_snapshot(&[micros, read(BOOTTIME, 2_000_000)])
            .unwrap();
        assert_eq!(convert(&mut c, 64, 1), Some(2_001_000));
        assert!(
            c.add_snapshot(&[read(64, 5), read(BOOTTIME, 3_000_000)])
                .is_err()
        );
        let global = Reading {
            incremental: true,
            ..read(128, 5)
        };
        assert!(
            c.add_snapshot(&[global, read(BOOTTIME, 3_000_000)])
                .is_err()
        );
    }

    #[test]
    fn clocks_that_go_backwards_are_no_sources() {
        let mut c = Clocks::default();
        c.add_snapshot(&[read(REALTIME, 100), read(BOOTTIME, 10)])
            .unwrap();
        assert_eq!(convert(&mut c, REALTIME, 110), Some(20));
        c.add_snapshot(&[read(REALTIME, 50), read(BOOTTIME, 20)])
            .unwrap();
        assert_eq!(convert(&mut c, REALTIME, 110), None);
        assert!(
            c.add_snapshot(&[read(REALTIME, 60), read(BOOTTIME, 15)])
                .is_err()
        );
        assert_eq!(c.unix_offset(), Some(90));
    }

    #[test]
    fn the_primary_clock_is_fixed_by_the_first_use() {
        let mut c = Clocks::default();
        c.set_trace_clock(MONOTONIC).unwrap();
        assert_eq!(convert(&mut c, MONOTONIC, 5), Some(5));
        assert!(c.set_trace_clock(BOOTTIME).is_err());
        assert!(c.set_trace_clock(MONOTONIC).is_ok());
    }
}
