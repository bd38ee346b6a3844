//! Limits of the recording, and the facts of the export that a summary shows.

use serde_json::{Value as Json, json};
use sqlite_scan::Value;
use trace_model::{Distributed, Limit, Rank};

use crate::error::Result;
use crate::identity::Source;
use crate::load::Loader;
use crate::recognise::is_events;

/// Share of the session, in percent, below which rows cover only a part.
const COVERED_PCT: i128 = 90;

/// Collects limits that were reached.
#[derive(Default)]
struct Limits(Vec<Limit>);

impl Limits {
    fn reason(&mut self, code: &'static str, count: u64, text: impl FnOnce() -> String) {
        self.add(code, count, true, text);
    }

    fn remark(&mut self, code: &'static str, count: u64, text: impl FnOnce() -> String) {
        self.add(code, count, false, text);
    }

    fn add(
        &mut self,
        code: &'static str,
        count: u64,
        is_reason: bool,
        text: impl FnOnce() -> String,
    ) {
        if count > 0 {
            self.0.push(Limit {
                code,
                count,
                text: text(),
                is_reason,
            });
        }
    }
}

impl Loader<'_> {
    /// Finds the limits of the recording, and completes the metadata.
    pub(crate) fn limits(&mut self) -> Result<()> {
        let lost = self.events_lost()?;
        self.keep_record();
        let unread = self.unread();
        let has_schemas = self.export.has_rows("NVTX_PAYLOAD_SCHEMAS")?;
        let counts = &self.counts;
        let session = &self.session;
        let mut limits = Limits::default();
        // Work that no process is known of may be that of any that made calls.
        let unattributed = match self.sole_process {
            Some(None) => counts.unattributed,
            _ => 0,
        };
        limits.reason("unattributed_work", unattributed, || {
            "GPU activities state no process (column globalPid) and several processes made calls, so nothing is linked: export the report again with `nsys export --type sqlite`, without cutting columns".to_owned()
        });
        limits.reason("no_device_work", u64::from(counts.device_work == 0), || {
            "the export has no GPU activity: record with `nsys profile --trace=cuda,nvtx,osrt` and let the process end, or stop the collection, so that buffers are written".to_owned()
        });
        if unattributed == 0 && (counts.device_work > 0 || self.launching.len() > 1) {
            let idle = self.launching.difference(&self.working).count() as u64;
            limits.reason("process_without_work", idle, || {
                format!("{} made launch calls and have no GPU activity: forked after CUDA was initialised, or their buffers were lost; record with `nsys profile --trace-fork-before-exec=true --cuda-flush-interval=1000`",
                    n(idle, "process", "processes"))
            });
        }
        limits.reason("events_lost", lost, || {
            format!("{} of the recorder report lost or missing events (shown with -v as codes): record a shorter time, or fewer kinds of events (`nsys profile --duration=... --trace=...`)", n(lost, "message", "messages"))
        });
        let missing = self
            .graph_launches
            .values()
            .filter(|found| !**found)
            .count() as u64;
        limits.reason("graph_launches_without_record", missing, || {
            format!("{} have no record of what ran: their buffers were lost; flush them more often (`nsys profile --cuda-flush-interval=1000`)", n(missing, "launch of a CUDA graph", "launches of CUDA graphs"))
        });
        limits.remark("graphs_whole", counts.graphs, || {
            format!("{} recorded as a whole: {} of busy time of unknown composition, in which communication and idle time cannot be seen; record with `nsys profile --cuda-graph-trace=node`", n(counts.graphs, "graph is", "graphs are"), shown(counts.graph_ns))
        });
        limits.remark("no_ranges", u64::from(counts.ranges == 0), || {
            "no NVTX ranges: record with `--trace=nvtx`, and let the engine mark its steps"
                .to_owned()
        });
        limits.remark("call_chains", counts.chains, || {
            format!("{} of {} calls have a call chain: the recorder takes them for calls longer than a threshold (`--cudabacktrace=all:0`)", counts.chains, counts.api_calls)
        });
        limits.remark("api_subset", u64::from(session.is_api_subset), || {
            "some calls of the CUDA API were not recorded, so a missing call is no evidence: `nsys profile --cuda-trace-all-apis=true`".to_owned()
        });
        limits.remark("export_filtered", u64::from(session.is_filtered), || {
            "the export is limited to some tables or times, which may cut kernels from their launches: export without `--tables` and `--times`".to_owned()
        });
        let covered = self.covered();
        limits.remark("covers_part", u64::from(covered.is_some_and(|pct| pct < COVERED_PCT)), || {
            format!("the rows cover {} % of the session: the file was cut, or the collection started late", covered.unwrap_or(0))
        });
        let lacks = has_schemas && !self.collectives.is_empty() && counts.payloads == 0;
        limits.remark("payloads_not_exported", u64::from(lacks), || {
            "the export describes payloads of NCCL and holds none, so message sizes are unknown: `nsys export --include-blobs true --include-json true`".to_owned()
        });
        limits.remark("damaged_payloads", counts.damaged_payloads, || {
            format!(
                "{} could not be decoded; the ranges are complete otherwise",
                n(counts.damaged_payloads, "payload", "payloads")
            )
        });
        let is_assumed = self
            .identity
            .as_ref()
            .is_some_and(|i| i.source == Source::Assumed);
        limits.remark("device_identity_assumed", u64::from(is_assumed), || {
            "several processes record the same device number, and nothing maps them to GPUs: each counts as a GPU of its own; export with Nsight Systems 2024.5 or later".to_owned()
        });
        limits.remark("time_normalised", u64::from(session.is_normalised), || {
            "times are Unix times (`--ts-normalize`)".to_owned()
        });
        limits.remark("time_shifted", u64::from(session.shift_ns != 0), || {
            format!("the export moved all times by {} ns (`--ts-shift`); that the base time moves with them is an assumption", session.shift_ns)
        });
        limits.remark("before_recording", self.tally.before, || {
            format!(
                "{} ended before the collection started and are left out",
                n(self.tally.before, "row", "rows")
            )
        });
        limits.remark("profiler_overhead", counts.overhead, || {
            format!(
                "{} of profiler overhead are recorded; idle time in them is not the program's",
                n(counts.overhead, "period", "periods")
            )
        });
        let devices = self
            .identity
            .as_ref()
            .map_or(0, |i| i.devices().len() as u64);
        limits.remark("several_devices", if devices > 1 { devices } else { 0 }, || {
            format!("{devices} GPUs in one file: in a single breakdown, communication on one GPU counts as overlapped by computation on another; use --per-device")
        });
        let is_needed = |name: &String| {
            crate::device::TABLES.contains(&name.as_str())
                || matches!(name.as_str(), "StringIds" | "CUPTI_ACTIVITY_KIND_RUNTIME")
        };
        let lacks_needed = unread.iter().any(is_needed);
        limits.add("table_not_read", unread.len() as u64, lacks_needed, || {
            let list = unread.join(", ");
            match unread.len() {
                1 => format!("{list} is no plain table (a view, virtual, or without row ids) and is not read: export the report again with `nsys export --type sqlite`"),
                n => format!("{n} are no plain tables (views, virtual, or without row ids) and are not read: {list}; export the report again with `nsys export --type sqlite`"),
            }
        });
        limits.remark("bad_value", self.tally.bad, || {
            format!(
                "{} whose start or end is no integer, or no possible time, were left out",
                n(self.tally.bad, "row", "rows")
            )
        });
        let facts = self.facts(missing, covered, lost);
        let mut entries = self.device_entries();
        let mut ranks = Vec::new();
        for process in &self.options.ranks {
            let rank = self.rank_of(*process)?;
            ranks.push(json!([process.pid(), rank]));
        }
        if !ranks.is_empty() {
            entries.push(("rankProcesses".to_owned(), Json::from(ranks).to_string()));
        }
        let (rank, world) = self.own_rank()?;
        let meta = &mut self.builder.meta;
        meta.limits = limits.0;
        meta.sections.push(("nsys", facts.to_string()));
        meta.entries.extend(entries);
        if rank.is_some() || world.is_some() {
            meta.distributed = Some(Distributed {
                rank,
                world_size: world,
                ..Distributed::default()
            });
        }
        meta.records = std::mem::take(&mut self.records).into_iter().collect();
        Ok(())
    }

    /// Returns the names of events that exist as something else than a plain table.
    fn unread(&self) -> Vec<String> {
        let known = |name: &&str| {
            is_events(name)
                || matches!(
                    *name,
                    "StringIds" | "PROCESSES" | "ThreadNames" | "CUDA_CALLCHAINS"
                )
                || name.starts_with("TARGET_INFO_")
                || name.starts_with("META_DATA_")
                || name.starts_with("NVTX_PAYLOAD_")
        };
        self.export
            .unread_names()
            .filter(known)
            .map(str::to_owned)
            .collect()
    }

    /// Returns the share of the session that rows cover, in percent.
    fn covered(&self) -> Option<i128> {
        let (first, last) = self.tally.extent?;
        let duration = self.session.duration_ns.filter(|duration| *duration > 0)?;
        let start = self.session.start_ns();
        let end = start.saturating_add(duration);
        let covered = i128::from(last.min(end)) - i128::from(first.max(start));
        Some(covered.max(0) * 100 / i128::from(duration))
    }

    /// Counts the diagnostics that report lost events. Their texts hold paths, so only their number is kept.
    fn events_lost(&mut self) -> Result<u64> {
        let mut lost = 0;
        self.export
            .scan("DIAGNOSTIC_EVENT", ["text"], |_, [text]| {
                if let Value::Text(text) = text {
                    lost += u64::from(reports_loss(&String::from_utf8_lossy(text)));
                }
                Ok(())
            })?;
        Ok(lost)
    }

    /// Facts of the export for a summary. No text of the file other than names of domains, devices and versions.
    fn facts(&self, missing: u64, covered: Option<i128>, lost: u64) -> Json {
        let (session, counts) = (&self.session, &self.counts);
        let read: Vec<&String> = self.records.keys().collect();
        let mut present: Vec<&str> = self
            .export
            .table_names()
            .filter(|name| !read.iter().any(|read| read == name))
            .collect();
        present.sort_unstable();
        let devices = self.identity.as_ref().map(|identity| {
            let list = identity.devices().into_iter().map(|(number, name, processes)| {
                let pids: Vec<i64> = processes.iter().map(|key| key.pid()).collect();
                json!({ "device": number, "name": name, "pids": pids, "mapping": identity.source.name() })
            });
            list.collect::<Vec<Json>>()
        });
        let domains = self.domains.iter().map(|((process, name), [ranges, marks])| {
            json!({ "pid": process.pid(), "domain": name, "ranges": ranges, "marks": marks })
        });
        json!({
            "schema": session.schema,
            "exporter": session.exporter,
            "session_ns": session.duration_ns,
            "covered_pct": covered.map(|pct| i64::try_from(pct).unwrap_or(100)),
            "start_ns": session.start_ns(),
            "time_normalised": session.is_normalised,
            "time_shift_ns": session.shift_ns,
            "graph_mode": session.graph_mode,
            "graphs_whole": counts.graphs,
            "graph_ns": counts.graph_ns,
            "kernels_in_graphs": counts.kernels_in_graphs,
            "graph_launches": self.graph_launches.len(),
            "graph_launches_without_record": missing,
            "api_calls": counts.api_calls,
            "call_chains": counts.chains,
            "events_lost": lost,
            "cuda_events_without_time": counts.events_without_time,
            "cpu_samples": counts.samples,
            "devices": devices,
            "domains": domains.collect::<Vec<Json>>(),
            "include_blobs": session.has_blobs,
            "include_json": session.has_json,
            "export_filtered": session.is_filtered,
            "tables_not_read": present,
        })
    }

    /// Returns the devices as Kineto lists them, which other analyses read.
    fn device_entries(&self) -> Vec<(String, String)> {
        let Some(identity) = &self.identity else {
            return Vec::new();
        };
        let devices: Vec<Json> = identity
            .devices()
            .into_iter()
            .filter_map(|(number, name, _)| Some(json!({ "id": number, "name": name? })))
            .collect();
        let mut entries = Vec::new();
        if !devices.is_empty() {
            entries.push((
                "deviceProperties".to_owned(),
                Json::from(devices).to_string(),
            ));
        }
        entries
    }

    /// Returns rank and size of the job, if all GPU activity in the trace is of one process.
    fn own_rank(&mut self) -> Result<(Option<Rank>, Option<u32>)> {
        let mut working = self.working.iter();
        let (Some(&only), None) = (working.next(), working.next()) else {
            return Ok((None, None));
        };
        let rank = self.rank_of(only)?;
        // A communicator may be a part of the job, so its size is not that of the job.
        Ok((rank.map(Rank), None))
    }
}

/// Returns `true` for texts of the recorder that report missing events. `No CUDA events collected` is written for each process
/// that was never profiled and does not count.
fn reports_loss(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let has = |part: &str| text.contains(part);
    if text.starts_with("no ") && has("events collected") {
        return false;
    }
    (text.starts_with("not all ") && has("collected"))
        || has("dropped")
        || has("events lost")
        || has("were lost")
        || has("may be missing")
        || has("might be missing")
        || has("are missing")
        || (has("buffer") && (has("fail") || has("overflow") || has("exhausted") || has("full")))
        || (has("limit") && (has("reached") || has("exceeded")))
}

/// Milliseconds to the microsecond.
fn shown(ns: i64) -> String {
    let us = ns / 1000;
    format!("{}.{:03} ms", us / 1000, us % 1000)
}

fn n(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::reports_loss;

    #[test]
    fn what_reports_lost_events() {
        for text in [
            "Not all CUDA events might have been collected.",
            "CUDA: buffer allocation failed, 3 buffers were dropped.",
            "The report size limit was reached.",
        ] {
            assert!(reports_loss(text), "{text}");
        }
        for text in [
            "No CUDA events collected. Does the process use CUDA?",
            "Buffers holding CUDA trace data will be flushed on CudaProfilerStop() call.",
            "Number of CUPTI events produced: \t421, CUPTI buffers: 50.",
            "Profiling has started.",
        ] {
            assert!(!reports_loss(text), "{text}");
        }
    }
}
