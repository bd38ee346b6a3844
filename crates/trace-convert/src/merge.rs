//! Ranks of a job in one file, on one clock.

use std::borrow::Cow;

use serde_json::{Value, json};
use trace_model::{BuildError, Trace};

use crate::copy::{Edit, Text, copy};

/// Where the numbers of one rank begin after those of the one before: above all that systems and profilers assign.
const STRIDE: i64 = 10_000_000;

/// Keys of arguments that identify something within one recording.
const IDS: &[&str] = &[
    "correlation",
    "External id",
    "external id",
    "corr_id",
    "correlation_id",
];

/// The clock of a rank against that of the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Alignment {
    /// Added to the times of the rank's file, it gives those of the first rank's file.
    pub offset_ns: i64,
    /// Half the width of the interval around it, where it is measured.
    pub error_ns: Option<i64>,
}

/// Returns one rank of a job as a part of a common file: its times on the clock of the first rank, its processes named by `label`, with
/// numbers that no other `place` has. `base_ns` is the base time of the first rank.
///
/// # Errors
/// As [`TraceBuilder::finish`](trace_model::TraceBuilder::finish).
pub fn rank(
    trace: &Trace,
    place: u32,
    label: &str,
    alignment: Alignment,
    base_ns: i64,
) -> Result<Trace, BuildError> {
    let mut edit = Placed {
        first: i64::from(place).saturating_mul(STRIDE),
        label,
        offset_ns: alignment.offset_ns,
        has_devices: place > 0,
    };
    copy(trace, &mut edit, |builder| {
        builder.meta.base_time_ns = base_ns;
        builder.meta.entries.retain(|(key, _)| key != crate::RANKS);
        if place > 0 {
            builder.meta.entries.clear();
            builder.meta.distributed = None;
        }
        let first = i64::from(place).saturating_mul(STRIDE);
        for (at, process) in (1..).zip(builder.processes_mut()) {
            process.sort_index = process.sort_index.map(|own| own.saturating_add(first));
            // Texts in place of numbers would get the same number in each rank.
            if process.artificial {
                process.artificial = false;
                process.pid.0 = first.saturating_add(STRIDE - at);
            }
        }
        for track in builder.tracks_mut() {
            track.uuid = None;
        }
        let unnamed: Vec<usize> = builder
            .processes_mut()
            .iter()
            .enumerate()
            .filter(|(_, process)| process.name.is_none())
            .map(|(at, _)| at)
            .collect();
        if !unnamed.is_empty() {
            let name = builder.string(label);
            for at in unnamed {
                builder.processes_mut()[at].name = Some(name);
            }
        }
    })
}

struct Placed<'a> {
    first: i64,
    label: &'a str,
    offset_ns: i64,
    has_devices: bool,
}

impl Edit for Placed<'_> {
    fn text<'t>(&mut self, what: Text<'_>, text: &'t str) -> Cow<'t, str> {
        match what {
            Text::Process => Cow::Owned(format!("{}: {text}", self.label)),
            _ => Cow::Borrowed(text),
        }
    }

    fn integer(&self, key: &str, value: i64) -> i64 {
        let is_id = IDS.contains(&key) || (self.has_devices && key == "device");
        // 0 and less link nothing; a device may be 0.
        match is_id && (value > 0 || key == "device") {
            true => value.saturating_add(self.first),
            false => value,
        }
    }

    fn pid(&self, pid: i64) -> i64 {
        pid.saturating_add(self.first)
    }

    fn time(&self, ns: i64) -> i64 {
        ns.saturating_add(self.offset_ns)
    }
}

/// Returns the name of a Perfetto copy of a recording whose format Perfetto does not open; of a process of an export, its own.
///
/// ```
/// assert_eq!(trace_convert::copy_name("run.sqlite!70001"), "run.sqlite-70001.pftrace");
/// ```
pub fn copy_name(name: &str) -> String {
    format!("{}.pftrace", name.replace('!', "-"))
}

/// Returns the clock offsets between files as Perfetto reads them from an archive (`perfetto_manifest`, version 1): for each file its name,
/// its alignment with the first, and `true` if it is a Perfetto trace, whose times are those of the boot-time clock.
pub fn manifest(files: &[(String, Alignment, bool)]) -> Value {
    let first = files.first();
    let reference = |is_perfetto: bool| {
        let name = first.map_or("", |(name, _, _)| name.as_str());
        match is_perfetto {
            true => json!({"file": name, "clock": "BOOTTIME"}),
            false => json!({"file": name}),
        }
    };
    let first_is_perfetto = first.is_some_and(|(_, _, is)| *is);
    let entries = files
        .iter()
        .enumerate()
        .map(|(at, (name, own, is_perfetto))| {
            let mut entry = json!({"path": name, "machine": {"name": name}});
            if at > 0 {
                let mut clocks = json!({
                    "sync_to": reference(first_is_perfetto),
                    "offset_ns": own.offset_ns,
                });
                if *is_perfetto {
                    clocks["clock"] = "BOOTTIME".into();
                }
                entry["clocks"] = clocks;
            }
            entry
        });
    let entries: Vec<Value> = entries.collect();
    json!({"perfetto_manifest": {"version": 1, "files": entries}})
}
