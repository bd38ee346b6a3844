//! Samples a process and its descendants from /proc.
//!
//! The started process may be a profiler or a shell that starts the engine; therefore all its
//! descendants are sampled, and the profiler is left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Instant;

use crate::doctor::system_text;

/// Ticks per second in /proc; Linux has never used another value for user space.
const TICKS: f64 = 100.0;
const PAGE_MB: f64 = 4096.0 / 1_048_576.0;
/// Maximum size of the stored snapshots of mappings, in bytes.
const MAPS_BYTES: usize = 64 << 20;

/// Header of the monitor's log.
pub(super) const LOG_HEADER: &str = "t_s,pid,cpu_pct,rss_mb,vms_mb,shared_mb,threads,open_fds,read_bytes,write_bytes,ctx_voluntary,ctx_involuntary";

/// Sample of a process.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ProcessSample {
    pub(super) pid: u32,
    /// CPU share since the previous sample, percent; `None` for the first.
    pub(super) cpu_pct: Option<f64>,
    pub(super) rss_mb: f64,
    vms_mb: f64,
    shared_mb: f64,
    threads: u64,
    open_fds: Option<usize>,
    read_bytes: Option<u64>,
    pub(super) write_bytes: Option<u64>,
    voluntary: Option<u64>,
    involuntary: Option<u64>,
}

impl ProcessSample {
    /// Formats a line of the log; unknown values are empty.
    pub(super) fn line(&self, at_s: f64) -> String {
        fn shown<T: ToString>(value: Option<T>) -> String {
            value.map_or(String::new(), |value| value.to_string())
        }
        format!(
            "{at_s:.3},{},{},{:.2},{:.2},{:.2},{},{},{},{},{},{}",
            self.pid,
            self.cpu_pct
                .map_or(String::new(), |cpu| format!("{cpu:.2}")),
            self.rss_mb,
            self.vms_mb,
            self.shared_mb,
            self.threads,
            shown(self.open_fds),
            shown(self.read_bytes),
            shown(self.write_bytes),
            shown(self.voluntary),
            shown(self.involuntary),
        )
    }
}

/// Samples processes; CPU shares refer to the time since the previous sample.
#[derive(Debug, Default)]
pub(super) struct Processes {
    before: BTreeMap<u32, (f64, Instant)>,
}

impl Processes {
    /// Samples a process, if it exists and is readable.
    pub(super) fn sample(&mut self, pid: u32) -> Option<ProcessSample> {
        let stat = system_text(&format!("/proc/{pid}/stat"))?;
        // The command's name may contain any character, but it ends at the last bracket.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        let used = (number(11)? + number(12)?) / TICKS;
        let now = Instant::now();
        let before = self.before.insert(pid, (used, now));
        let cpu_pct = before.map(|(used_before, then)| {
            let passed = now.duration_since(then).as_secs_f64().max(1e-3);
            (used - used_before) / passed * 100.0
        });
        let statm = system_text(&format!("/proc/{pid}/statm")).unwrap_or_default();
        let pages: Vec<f64> = statm
            .split_whitespace()
            .filter_map(|field| field.parse().ok())
            .collect();
        let io = system_text(&format!("/proc/{pid}/io")).unwrap_or_default();
        let status = system_text(&format!("/proc/{pid}/status")).unwrap_or_default();
        Some(ProcessSample {
            pid,
            cpu_pct,
            rss_mb: number(21)? * PAGE_MB,
            vms_mb: pages.first().copied().unwrap_or(0.0) * PAGE_MB,
            shared_mb: pages.get(2).copied().unwrap_or(0.0) * PAGE_MB,
            threads: fields.get(17).and_then(|field| field.parse().ok())?,
            open_fds: fs::read_dir(format!("/proc/{pid}/fd"))
                .ok()
                .map(Iterator::count),
            read_bytes: field(&io, "read_bytes:"),
            write_bytes: field(&io, "write_bytes:"),
            voluntary: field(&status, "voluntary_ctxt_switches:"),
            involuntary: field(&status, "nonvoluntary_ctxt_switches:"),
        })
    }
}

/// Returns the number after a key at the start of a line.
fn field(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().parse().ok()
}

/// Returns a process and all its descendants, the process first.
pub(super) fn family(root: u32) -> Vec<u32> {
    let mut all = vec![root];
    let mut at = 0;
    while let Some(pid) = all.get(at).copied() {
        at += 1;
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for task in tasks.filter_map(Result::ok) {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children
                .split_whitespace()
                .filter_map(|pid| pid.parse().ok())
            {
                if !all.contains(&child) {
                    all.push(child);
                }
            }
        }
    }
    all
}

/// Stores the mappings of each process whenever they change.
#[derive(Debug, Default)]
pub(super) struct MapsLog {
    snapshots: BTreeMap<u32, Vec<(i64, String)>>,
    peak: Option<(f64, u32)>,
    bytes: usize,
}

impl MapsLog {
    pub(super) fn look(&mut self, pid: u32, rss_mb: f64, time_ns: i64) {
        if self.peak.is_none_or(|(most, _)| rss_mb > most) {
            self.peak = Some((rss_mb, pid));
        }
        if self.bytes > MAPS_BYTES {
            return;
        }
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/maps")) else {
            return;
        };
        let known = self.snapshots.entry(pid).or_default();
        let is_new = known
            .last()
            .is_none_or(|(time, last)| *last != text && *time < time_ns);
        if is_new && !text.is_empty() {
            self.bytes += text.len();
            known.push((time_ns, text));
        }
    }

    /// Returns the snapshots of the largest process, in the format that `MapsSnapshot` reads.
    pub(super) fn text(&self) -> Option<String> {
        let (_, pid) = self.peak?;
        let snapshots = self.snapshots.get(&pid)?;
        let mut text = format!("# pid {pid}\n");
        for (time_ns, maps) in snapshots {
            // Writing to memory does not fail.
            let _ = write!(text, "# time_ns {time_ns}\n{maps}");
        }
        Some(text)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use memtrace_labeller::MapsSnapshot;

    use super::*;

    #[test]
    fn this_process_is_there_with_its_mappings() {
        let pid = std::process::id();
        let mut processes = Processes::default();
        let first = processes.sample(pid).unwrap();
        assert!(first.cpu_pct.is_none() && first.rss_mb > 0.1 && first.threads >= 1);
        assert!(processes.sample(pid).unwrap().cpu_pct.is_some());
        let columns = LOG_HEADER.split(',').count();
        assert_eq!(first.line(0.0).split(',').count(), columns);
        assert_eq!(family(pid).first(), Some(&pid));
        assert!(processes.sample(u32::MAX).is_none());

        let mut maps = MapsLog::default();
        maps.look(pid, 1.0, 7);
        maps.look(pid, 1.0, 7);
        let text = maps.text().unwrap();
        let snapshots = MapsSnapshot::read("maps", text.as_bytes()).unwrap();
        assert_eq!(snapshots.len(), 1);
        assert_eq!(snapshots[0].time_ns, Some(7));
        let named = |mapping: &memtrace_labeller::Mapping| mapping.path == "[stack]";
        assert!(snapshots[0].mappings.iter().any(named));
    }
}
