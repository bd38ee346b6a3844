//! One clock for several reports.
//!
//! Each report states when its collection started in UTC, and newer ones in the system clock of the host as well. UTC is set from
//! outside and may jump; the system clock is the same for all processes of a host, so between reports of one host it is exact.

use std::hash::Hasher as _;

use sqlite_scan::Value;

use crate::error::Result;
use crate::export::Export;

/// Largest difference between the two clocks, in nanoseconds: more is another boot of the host, or another host of that name.
const MAX_DIFFERENCE_NS: i64 = 1_000_000_000;

/// Start of a collection in the clocks of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionClock {
    /// Stands for the name of the host, which is not kept.
    host: Option<u64>,
    /// Unix time.
    utc_ns: Option<i64>,
    /// Time of the system clock.
    system_ns: Option<i64>,
}

impl SessionClock {
    /// Reads the clocks of an export. Cost: two small tables.
    ///
    /// # Errors
    ///
    /// Returns an error if the export is damaged.
    pub fn read(export: &Export) -> Result<Self> {
        let mut clock = Self {
            host: None,
            utc_ns: None,
            system_ns: None,
        };
        let columns = ["utcEpochNs", "systemClockNs"];
        export.scan(
            "TARGET_INFO_SESSION_START_TIME",
            columns,
            |_, [utc, system]| {
                clock.utc_ns = clock.utc_ns.or(utc.as_int());
                clock.system_ns = clock.system_ns.or(system.as_int());
                Ok(())
            },
        )?;
        export.scan(
            "TARGET_INFO_SYSTEM_ENV",
            ["name", "value"],
            |_, [name, value]| {
                if let (Value::Text(b"Hostname"), Value::Text(host)) = (name, value) {
                    let mut hasher = rustc_hash::FxHasher::default();
                    hasher.write(host);
                    clock.host = clock.host.or(Some(hasher.finish()));
                }
                Ok(())
            },
        )?;
        Ok(clock)
    }
}

/// Reports on one clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alignment {
    /// Nanoseconds to add to the Unix time of each report.
    pub shifts_ns: Vec<i64>,
    /// Number of reports whose time comes from the system clock that they share with an earlier one.
    pub by_system_clock: usize,
    /// Largest error of UTC between these, in nanoseconds.
    pub utc_error_ns: i64,
    /// Number of reports for which only UTC is known, and an earlier report is of the same job.
    pub by_utc: usize,
}

/// Puts reports on one clock: those of one host by its system clock, others by UTC. `None` stands for something else than a
/// report.
pub fn align(clocks: &[Option<SessionClock>]) -> Alignment {
    let mut out = Alignment::default();
    // Of each host and boot the first report.
    let mut first: Vec<(u64, i64, i64)> = Vec::new();
    let mut reports = 0;
    for clock in clocks {
        let mut shift = 0;
        if let Some(clock) = clock {
            let mut is_placed = false;
            if let SessionClock {
                host: Some(host),
                utc_ns: Some(utc),
                system_ns: Some(system),
            } = *clock
            {
                let error = |(of, utc_0, system_0): &(u64, i64, i64)| {
                    let by_system = i128::from(system) - i128::from(*system_0);
                    let by_utc = i128::from(utc) - i128::from(*utc_0);
                    let error = i64::try_from(by_system - by_utc).ok()?;
                    (*of == host && error.saturating_abs() < MAX_DIFFERENCE_NS).then_some(error)
                };
                match first.iter().find_map(error) {
                    Some(error) => {
                        shift = error;
                        is_placed = true;
                        out.by_system_clock += 1;
                        out.utc_error_ns = out.utc_error_ns.max(error.saturating_abs());
                    }
                    None => first.push((host, utc, system)),
                }
            }
            out.by_utc += usize::from(!is_placed && reports > 0);
            reports += 1;
        }
        out.shifts_ns.push(shift);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_one_host_have_its_system_clock() {
        let clock = |host, utc, system| {
            Some(SessionClock {
                host: Some(host),
                utc_ns: Some(utc),
                system_ns: system,
            })
        };
        let found = align(&[
            clock(1, 1_000_000, Some(500)),
            None,
            clock(1, 1_900_000, Some(900_700)),
            clock(2, 7, Some(3)),
            clock(1, 5_000_000_000, Some(1)),
            clock(1, 9, None),
        ]);
        assert_eq!(found.shifts_ns, [0, 0, 200, 0, 0, 0]);
        assert_eq!(
            (found.by_system_clock, found.by_utc, found.utc_error_ns),
            (1, 3, 200)
        );
        assert!(
            align(&[
                clock(1, i64::MIN, Some(i64::MAX)),
                clock(1, i64::MAX, Some(i64::MIN))
            ])
            .shifts_ns
                == [0, 0]
        );
    }
}
