//! Tests of Perfetto traces, read back.

use std::collections::BTreeMap;
use std::path::Path;

use rocpd_db::{Arg, Copy, Dispatch, Filter, KernelNames, OpenOptions, Order, PmcEvent, RocpdSet};

use trace_model::kernel::{TraceIndex, Vocabulary};

use crate::support::{Run, ok, two};

fn trace(path: &Path) -> trace_model::Trace {
    let source = byte_source::Source::open(path, &byte_source::OpenOptions::default()).unwrap();
    perfetto_reader::read(source, &perfetto_reader::ReadOptions::default()).unwrap()
}

#[test]
fn perfetto_read_back_has_every_record_and_counter() {
    let mut shape = two();
    shape.steps = 20;
    let run = Run::new(&shape);
    ok(&run.call(&["convert", "-f", "pftrace", "-d", "out", "-o", "p"]));
    let trace = trace(&run.path("out/p_results.pftrace"));
    let of = |category: &str| -> (u64, i64) {
        trace
            .slices()
            .filter(|s| s.category() == Some(category))
            .fold((0, 0), |(n, sum), s| {
                (n + 1, sum + s.dur().map_or(0, |d| d.get()))
            })
    };
    let truth = || run.made.iter().map(|made| &made.truth);
    let (kernels, busy) = of("kernel_dispatch");
    assert_eq!(
        kernels,
        truth()
            .map(|t| t.dispatches + t.lost_dispatches)
            .sum::<u64>()
    );
    let (copies, copied) = of("memory_copy");
    assert_eq!(
        copies,
        truth()
            .map(|t| t.copies.values().map(|c| c.calls).sum::<u64>() + t.lost_copies)
            .sum::<u64>()
    );
    assert_eq!(
        busy + copied,
        truth().flat_map(|t| t.busy_ns.values()).sum::<i64>()
    );
    let (markers, marked) = of("marker_api");
    assert_eq!(
        markers,
        truth()
            .flat_map(|t| t.markers.values())
            .map(|m| m.calls)
            .sum::<u64>()
    );
    assert_eq!(
        marked,
        truth()
            .flat_map(|t| t.markers.values())
            .map(|m| m.total_ns)
            .sum::<i64>()
    );
    // Two nodes with equal ids are two processes.
    assert_eq!(trace.processes().len(), 2);
    // No slice of a device lies in another one: overlapping slices are on lanes.
    assert!(
        trace
            .slices()
            .filter(|s| s.category() == Some("kernel_dispatch"))
            .all(|s| s.depth() == 0)
    );
    // Counters end where the truth ends, and reach its peak.
    let mut ends: Vec<i64> = Vec::new();
    let mut peaks: Vec<i64> = Vec::new();
    for (id, track) in trace.track_ids().zip(trace.tracks()) {
        let name = track
            .name
            .map(|name| trace.strings().get(name))
            .unwrap_or_default();
        if name.starts_with("ALLOCATE BYTES") {
            let own = trace.counters().iter().filter(|sample| sample.track == id);
            let values: Vec<i64> = own.map(|sample| whole(sample.value)).collect();
            ends.push(*values.last().unwrap());
            peaks.push(*values.iter().max().unwrap());
        }
    }
    ends.sort_unstable();
    peaks.sort_unstable();
    let sorted = |get: fn(&rocpd_synth::Truth) -> i64| {
        let mut list: Vec<i64> = truth().map(get).collect();
        list.sort_unstable();
        list
    };
    assert_eq!(ends, sorted(|t| t.live_bytes_end));
    assert_eq!(peaks, sorted(|t| t.live_bytes_peak));
}

#[test]
fn perfetto_slices_and_counters_are_the_records_one_by_one() {
    let mut shape = two();
    shape.steps = 20;
    let run = Run::new(&shape);
    ok(&run.call(&["convert", "-f", "pftrace", "-d", "out", "-o", "p"]));
    let trace = trace(&run.path("out/p_results.pftrace"));
    let set = RocpdSet::open(&[run.path("in")], &OpenOptions::default()).unwrap();
    let filter = Filter::default();
    let mut records: Vec<(String, i64, i64)> = Vec::new();
    let mut starts: BTreeMap<(usize, i64), i64> = BTreeMap::new();
    for at in 0..set.partitions().len() {
        for region in set.regions_and_samples(at, &filter).unwrap() {
            let r = region.unwrap();
            let name = r.message.as_deref().or(r.name).unwrap();
            records.push((name.to_owned(), r.start_ns, r.duration_ns()));
        }
        for dispatch in set
            .scan_partition::<Dispatch<'_>>(at, &filter, Order::Stored)
            .unwrap()
        {
            let r = dispatch.unwrap();
            records.push((KernelNames::default().of(&r), r.start_ns, r.duration_ns()));
            starts.insert((at, r.event.unwrap().id), r.start_ns);
        }
        for copy in set
            .scan_partition::<Copy<'_>>(at, &filter, Order::Stored)
            .unwrap()
        {
            let r = copy.unwrap();
            records.push((r.name.unwrap().to_owned(), r.start_ns, r.duration_ns()));
        }
    }
    let mut slices: Vec<(String, i64, i64)> = trace
        .slices()
        .map(|slice| {
            (
                slice.name().unwrap().to_owned(),
                slice.ts().nanos(),
                slice.dur().map_or(0, |dur| dur.get()),
            )
        })
        .collect();
    records.sort();
    slices.sort();
    assert!(
        records == slices,
        "{} records, {} slices",
        records.len(),
        slices.len()
    );
    // A dispatch's counters have its own values from its begin on.
    let mut values: BTreeMap<(String, i64), i64> = BTreeMap::new();
    for event in set.scan::<PmcEvent<'_>>(&filter, Order::Stored).unwrap() {
        let event = event.unwrap();
        let start = starts[&(event.partition, event.event_id.unwrap())];
        let name = format!("PMC {}", event.pmc.unwrap().name);
        *values.entry((name, start)).or_default() += whole(event.value.unwrap());
    }
    assert!(!values.is_empty());
    for ((name, start), value) in values {
        let found = trace.counters().iter().any(|sample| {
            let track = trace.track(sample.track).name;
            let track = track.map(|id| trace.strings().get(id)).unwrap_or_default();
            track.ends_with(&name) && sample.ts.nanos() == start && whole(sample.value) == value
        });
        assert!(found, "{name} at {start} is not {value}");
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "counters of bytes are whole"
)]
fn whole(value: f64) -> i64 {
    value as i64
}

#[test]
fn perfetto_in_parts_is_the_same_in_sum() {
    let mut shape = two();
    shape.steps = 12;
    let run = Run::new(&shape);
    ok(&run.call(&["convert", "-f", "pftrace", "-d", "whole", "-o", ""]));
    ok(&run.call(&[
        "convert",
        "-f",
        "pftrace",
        "-d",
        "parts",
        "-o",
        "",
        "--split-time",
        "4",
    ]));
    let manifest = std::fs::read_to_string(run.path("parts/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let parts = manifest["parts"].as_array().unwrap();
    assert!(parts.len() > 1 && parts.len() <= 4);
    let total = |trace: &trace_model::Trace| -> i64 {
        trace
            .slices()
            .filter(|s| s.category() == Some("kernel_dispatch"))
            .map(|s| s.dur().map_or(0, |d| d.get()))
            .sum()
    };
    let sum: i64 = parts
        .iter()
        .map(|part| {
            total(&trace(
                &run.path("parts").join(part["file"].as_str().unwrap()),
            ))
        })
        .sum();
    assert_eq!(sum, total(&trace(&run.path("whole/results.pftrace"))));
    ok(&run.call(&[
        "convert",
        "-f",
        "pftrace",
        "-d",
        "nodes",
        "-o",
        "",
        "--split-by",
        "node",
        "--drop",
        "hsa",
    ]));
    for made in &run.made {
        let trace = trace(&run.path(&format!("nodes/{}_results.pftrace", made.truth.hostname)));
        assert_eq!(trace.processes().len(), 1);
        assert!(trace.slices().all(|s| s.category() != Some("hsa_api")));
    }
}

/// Name, begin, device, stream, and name and begin of the call that launched it.
type Work = (String, i64, i64, i64, Option<(String, i64)>);

/// Returns the GPU activity of a trace, by begin.
fn work_of(trace: &trace_model::Trace) -> Vec<Work> {
    let index = TraceIndex::new(trace, Vocabulary::default());
    let name = |slice: trace_model::Slice<'_>| slice.name().unwrap_or("").to_owned();
    let mut all: Vec<Work> = index
        .device_work()
        .map(|work| {
            let launch = index.launch_of(work);
            (
                name(work),
                work.ts().nanos(),
                index.device(work).0,
                index.stream(work).0,
                launch.map(|(call, _)| (name(call), call.ts().nanos())),
            )
        })
        .collect();
    all.sort();
    all
}

#[test]
fn a_database_and_its_perfetto_trace_are_understood_alike() {
    let mut one_node = two();
    one_node.nodes = 1;
    one_node.ranks = 3;
    for shape in [two(), one_node, rocpd_synth::Shape::small()] {
        let run = Run::new(&shape);
        let files: Vec<_> = run.made.iter().map(|made| made.path.as_path()).collect();
        let set = RocpdSet::open(&files, &OpenOptions::default()).unwrap();
        let expected = work_of(&rocpd_db::load(&set, &Filter::default()).unwrap());
        assert!(expected.iter().any(|work| work.4.is_some()));
        let convert = |more: &[&str]| {
            let mut call = vec!["convert", "-f", "pftrace", "-d", "out", "-o", "p"];
            call.extend(more);
            ok(&run.call(&call));
            work_of(&trace(&run.path("out/p_results.pftrace")))
        };
        assert_eq!(convert(&[]), expected);
        assert_eq!(convert(&["--group-by-queue"]), expected);
        // Without arguments, streams follow from the names of tracks, calls from flow arrows;
        // devices are unknown.
        let mut bare = convert(&["--no-annotations"]);
        for (found, want) in bare.iter_mut().zip(&expected) {
            found.2 = want.2;
        }
        assert_eq!(bare, expected);
    }
}

#[test]
fn chosen_arguments_and_categories_only() {
    let run = Run::new(&two());
    let out = ["convert", "-f", "pftrace", "-d", "out", "-o", "p"];
    let chosen = [
        "--annotations",
        "corr_id,kind",
        "--exclude-category",
        "hsa_core_api",
    ];
    ok(&run.call(&[&out[..], &chosen[..]].concat()));
    let trace = trace(&run.path("out/p_results.pftrace"));
    for slice in trace.slices() {
        // A record without an event has no correlation id.
        let keys: Vec<&str> = slice
            .args()
            .map(|(key, _)| trace_model::bare_key(key))
            .collect();
        assert!(["kind", "corr_id"].starts_with(&keys), "{keys:?}");
    }
    let full = trace.slices().filter(|slice| slice.args().count() == 2);
    assert!(full.count() > trace.len() / 2);
    assert!(trace.slices().any(|s| s.category() == Some("hip_api")));
    assert!(trace.slices().all(|s| s.category() != Some("hsa_api")));
}

/// Times of the format are unsigned: a record that begins earlier must not remove the others.
#[test]
fn records_before_time_zero_are_left_out_and_counted() {
    let run = Run::new(&two());
    let plain = rusqlite::Connection::open(&run.made[0].path).unwrap();
    let suffix = run.made[0].truth.guid.replace('-', "_");
    let table = format!("\"rocpd_kernel_dispatch_{suffix}\"");
    let sql =
        format!("UPDATE {table} SET start = ?1 WHERE id = (SELECT MIN(id) + ?2 FROM {table})");
    for (at, start) in [(0, -5000), (1, i64::MIN)] {
        assert_eq!(plain.execute(&sql, [start, at]).unwrap(), 1);
    }
    let output = run.call(&["convert", "-f", "pftrace", "-d", "out", "-o", "p"]);
    ok(&output);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("2 records begin before time 0"), "{errors}");
    let trace = trace(&run.path("out/p_results.pftrace"));
    let kernels = trace
        .slices()
        .filter(|s| s.category() == Some("kernel_dispatch"))
        .count() as u64;
    let truth = run.made.iter().map(|made| &made.truth);
    let all: u64 = truth.map(|t| t.dispatches + t.lost_dispatches).sum();
    assert_eq!(kernels, all - 2);
}

/// Recorded begin and end (negated, for the order), those shown, and the flag of a cut.
type Cut = (i64, i64, i64, i64, bool);

#[test]
fn overlapping_slices_are_cut_in_their_middle() {
    let mut shape = two();
    // Several threads launch on few streams, so that work overlaps.
    shape.streams = 1;
    shape.steps = 20;
    let run = Run::new(&shape);
    let convert = |out: &str, overlap: &str| {
        ok(&run.call(&[
            "convert",
            "-f",
            "pftrace",
            "-d",
            out,
            "-o",
            "p",
            "--overlap",
            overlap,
        ]));
        trace(&run.path(&format!("{out}/p_results.pftrace")))
    };
    let (raw, cut) = (convert("raw", "raw"), convert("split", "split"));
    let is_device = |slice: &trace_model::Slice<'_>| {
        matches!(slice.category(), Some("kernel_dispatch" | "memory_copy"))
    };
    // The arguments have the recorded times; on the track nothing overlaps and nothing gets longer.
    let mut tracks: BTreeMap<_, Vec<Cut>> = BTreeMap::new();
    for slice in cut.slices().filter(is_device) {
        let number = |key: &str| match slice.arg(key) {
            Some(trace_model::ArgValue::Int(value)) => value,
            other => panic!("{key} is {other:?}"),
        };
        let start = slice.ts().nanos();
        let end = start + slice.dur().map_or(0, |d| d.get());
        let times = (number("begin_ns"), number("end_ns"));
        assert!(times.0 <= start && end <= times.1.max(start));
        let clipped = slice.arg("clipped").is_some();
        assert_eq!(clipped, (start, end) != times, "{start} {end} {times:?}");
        let list = tracks.entry(slice.track_id()).or_default();
        list.push((times.0, -times.1, start, end, clipped));
    }
    let mut cuts = 0;
    for slices in tracks.values_mut() {
        slices.sort_unstable();
        for pair in slices.windows(2) {
            let (_, last, ..) = pair[0];
            let (next, next_end, start, ..) = pair[1];
            // Two adjacent slices that overlap only each other meet in the middle.
            if pair[0].2 == pair[0].0 && start != next && -last <= -next_end {
                assert_eq!(start, next + (-last - next) / 2);
                assert_eq!(pair[0].3, start);
                cuts += 1;
            }
        }
        let mut shown: Vec<(i64, i64)> = slices.iter().map(|s| (s.2, s.3)).collect();
        shown.sort_unstable();
        assert!(shown.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
    assert!(cuts > 0, "nothing overlaps");
    // The number of slices is unchanged, and counters do not follow the cuts.
    let count = |trace: &trace_model::Trace| trace.slices().filter(is_device).count();
    assert_eq!(count(&cut), count(&raw));
    let values = |trace: &trace_model::Trace| -> Vec<(i64, u64)> {
        let samples = trace.counters().iter();
        let mut list: Vec<_> = samples.map(|s| (s.ts.nanos(), s.value.to_bits())).collect();
        list.sort_unstable();
        list
    };
    assert!(!values(&cut).is_empty());
    assert_eq!(values(&cut), values(&raw));
}

/// Arguments of a slice that identify its record: begin, end, call, and the name.
type Recorded = (i64, i64, i64, String);

/// Cut slices of parts, joined, equal those of the whole trace.
#[test]
fn parts_are_cut_as_the_whole_trace() {
    let mut shape = two();
    shape.streams = 1;
    shape.steps = 20;
    let run = Run::new(&shape);
    // The shown time of a record: begin, end, and total duration.
    let shown = |traces: &[trace_model::Trace]| {
        let mut all: BTreeMap<Recorded, (i64, i64, i64)> = BTreeMap::new();
        for slice in traces.iter().flat_map(trace_model::Trace::slices) {
            if !matches!(slice.category(), Some("kernel_dispatch" | "memory_copy")) {
                continue;
            }
            let number = |key: &str| match slice.arg(key) {
                Some(trace_model::ArgValue::Int(value)) => value,
                _ => -1,
            };
            let name = slice.name().unwrap_or_default().to_owned();
            let key = (
                number("begin_ns"),
                number("end_ns"),
                number("corr_id"),
                name,
            );
            let start = slice.ts().nanos();
            let length = slice.dur().map_or(0, |d| d.get());
            let known = all.entry(key).or_insert((start, start, 0));
            known.0 = known.0.min(start);
            known.1 = known.1.max(start + length);
            known.2 += length;
        }
        all
    };
    let split = [
        "convert",
        "-f",
        "pftrace",
        "--overlap",
        "split",
        "-o",
        "",
        "-d",
    ];
    ok(&run.call(&[&split[..], &["whole"]].concat()));
    let whole = shown(&[trace(&run.path("whole/results.pftrace"))]);
    for (out, more) in [
        ("time", ["--split-time", "23"]),
        ("size", ["--split-bytes", "24K"]),
    ] {
        ok(&run.call(&[&split[..], &[out], &more].concat()));
        let manifest = std::fs::read_to_string(run.path(out).join("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        let parts = manifest["parts"].as_array().unwrap();
        assert!(parts.len() > 3, "{out}: {}", parts.len());
        let traces: Vec<trace_model::Trace> = parts
            .iter()
            .map(|part| trace(&run.path(out).join(part["file"].as_str().unwrap())))
            .collect();
        // No slice covers the same time in two parts.
        assert_eq!(shown(&traces), whole, "{out}");
        let clipped: u64 = parts
            .iter()
            .map(|part| part["clipped"].as_u64().unwrap())
            .sum();
        let flags = traces.iter().flat_map(trace_model::Trace::slices);
        let flags = flags.filter(|slice| slice.arg("clipped").is_some()).count();
        assert_eq!(clipped, flags as u64, "{out}");
    }
}

#[test]
fn packed_traces_are_the_same_traces() {
    let run = Run::new(&two());
    let out = ["convert", "-f", "pftrace", "-d", "out", "-o", "p"];
    ok(&run.call(&out));
    ok(&run.call(&[&out[..], &["--gzip"]].concat()));
    let plain = std::fs::read(run.path("out/p_results.pftrace")).unwrap();
    let packed = std::fs::read(run.path("out/p_results.pftrace.gz")).unwrap();
    assert!(packed.starts_with(&[0x1f, 0x8b]) && packed.len() < plain.len());
    let source = byte_source::Source::from_bytes("p.gz", packed).unwrap();
    let mut unpacked = Vec::new();
    let mut chunks = source.into_chunks(Default::default()).unwrap();
    while let Some(chunk) = chunks.next().unwrap() {
        unpacked.extend_from_slice(&chunk);
    }
    assert!(unpacked == plain);
    // The manifest states both sizes.
    ok(&run.call(&[
        "convert",
        "-f",
        "pftrace",
        "-d",
        "parts",
        "-o",
        "",
        "--gzip",
        "--split-by",
        "node",
    ]));
    let manifest = std::fs::read_to_string(run.path("parts/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    for part in manifest["parts"].as_array().unwrap() {
        let path = run.path("parts").join(part["file"].as_str().unwrap());
        let bytes = std::fs::metadata(path).unwrap().len();
        assert_eq!(part["bytes"], bytes);
        assert!(part["trace_bytes"].as_u64().unwrap() > bytes);
    }
}

/// Arguments and counters in the slices of a trace: by category, all keys with values and their
/// counts.
type Shown = BTreeMap<String, BTreeMap<(String, String), usize>>;

#[test]
fn arguments_of_calls_and_counters_are_shown_as_asked() {
    let mut shape = two();
    shape.kfd = true;
    let run = Run::new(&shape);
    let convert = |more: &[&str]| -> Shown {
        let mut call = vec!["convert", "-f", "pftrace", "-d", "out", "-o", "p"];
        call.extend(more);
        ok(&run.call(&call));
        let trace = trace(&run.path("out/p_results.pftrace"));
        let mut shown = Shown::new();
        for slice in trace.slices() {
            let own = shown
                .entry(slice.category().unwrap_or("").to_owned())
                .or_default();
            for (key, value) in slice.args() {
                let key = trace_model::bare_key(key);
                let value = match value {
                    trace_model::ArgValue::Str(text) => text.to_owned(),
                    trace_model::ArgValue::Real(value) => value.to_string(),
                    trace_model::ArgValue::Int(value) => value.to_string(),
                    other => format!("{other:?}"),
                };
                *own.entry((key.to_owned(), value)).or_default() += 1;
            }
        }
        shown
    };
    let args_in = |shown: &Shown, category: &str| -> BTreeMap<(String, String), usize> {
        let all = shown.get(category).into_iter().flatten();
        all.filter(|((key, _), _)| key.starts_with("args."))
            .map(|(arg, count)| (arg.clone(), *count))
            .collect()
    };
    // Stored arguments, by name and value.
    let set = RocpdSet::open(&[run.path("in")], &OpenOptions::default()).unwrap();
    let filter = Filter::default();
    let mut stored: BTreeMap<(String, String), usize> = BTreeMap::new();
    for arg in set.scan::<Arg>(&filter, Order::Stored).unwrap() {
        let arg = arg.unwrap();
        let key = (format!("args.{}", arg.name), arg.value.unwrap());
        *stored.entry(key).or_default() += 1;
    }
    let is_kfd = |key: &str| ["args.start_addr", "args.end_addr", "args.kind"].contains(&key);
    let kfd: BTreeMap<_, _> = stored
        .clone()
        .into_iter()
        .filter(|((key, _), _)| is_kfd(key))
        .collect();
    assert_eq!(kfd.values().sum::<usize>(), 2 * 4 * 3);
    let plain = convert(&[]);
    assert_eq!(args_in(&plain, "kfd_events"), kfd);
    assert!(args_in(&plain, "hip_api").is_empty());
    assert!(args_in(&convert(&["--no-annotate-kfd"]), "kfd_events").is_empty());
    let full = convert(&["--annotate-args"]);
    let mut found = args_in(&full, "hip_api");
    for category in ["hsa_api", "kfd_events"] {
        for (arg, count) in args_in(&full, category) {
            *found.entry(arg).or_default() += count;
        }
    }
    assert_eq!(found, stored);
    // The argument `kind` does not hide the annotation of that name.
    let kinds = full["kfd_events"].keys().filter(|(key, _)| key == "kind");
    assert_eq!(kinds.count(), 1);
    // Counters in slices of kernels.
    let waves = |shown: &Shown| -> usize {
        let all = shown["kernel_dispatch"].iter();
        all.filter(|((key, _), _)| key == "SQ_WAVES")
            .map(|(_, n)| n)
            .sum()
    };
    assert!(waves(&plain) > 0);
    assert_eq!(waves(&convert(&["--no-counters"])), 0);
    assert_eq!(waves(&convert(&["--no-annotations"])), 0);
    for more in [
        ["--no-counters", "--annotate-pmc"],
        ["--no-annotations", "--annotate-pmc"],
    ] {
        assert_eq!(waves(&convert(&more)), waves(&plain));
    }
    // Alone, they are the only arguments.
    let only = convert(&["--no-annotations", "--annotate-args", "--no-annotate-kfd"]);
    assert_eq!(
        only["hip_api"]
            .keys()
            .filter(|(key, _)| !key.starts_with("args."))
            .count(),
        0
    );
    assert!(!args_in(&only, "hip_api").is_empty());
    assert!(only["kfd_events"].is_empty());
}

/// A counter without value adds nothing; one sampled while kernels run belongs to no dispatch.
#[test]
fn counters_without_value_and_sampled_ones_are_not_of_dispatches() {
    let mut shape = two();
    shape.generation = 3;
    let run = Run::new(&shape);
    let mut whole_before = Vec::new();
    let mut sampled_before = Vec::new();
    for made in &run.made {
        let plain = rusqlite::Connection::open(&made.path).unwrap();
        let suffix = made.truth.guid.replace('-', "_");
        let table = format!("\"rocpd_pmc_event_{suffix}\"");
        let sum: f64 = plain
            .query_row(
                &format!("SELECT SUM(value) FROM {table} WHERE id % 3 = 0"),
                [],
                |row| row.get(0),
            )
            .unwrap();
        whole_before.push(sum);
        plain
            .execute_batch(&format!(
                "UPDATE {table} SET value = NULL WHERE id % 3 = 1; \
                 UPDATE {table} SET sample_id = (SELECT MIN(id) + {table}.id % 5 FROM \"rocpd_sample_{suffix}\"), xcc = 0, instance = id \
                 WHERE id % 3 = 2"
            ))
            .unwrap();
        // Times, values and names of the sampled counters, by SQL.
        let sampled = format!(
            "SELECT R.timestamp, PE.value, 'SPM ' || PI.name || ' [XCC: 0, Instance: ' || PE.id || ']' FROM {table} PE \
             JOIN \"rocpd_info_pmc_{suffix}\" PI ON PI.id = PE.pmc_id JOIN \"rocpd_sample_{suffix}\" R ON R.id = PE.sample_id"
        );
        let mut statement = plain.prepare(&sampled).unwrap();
        let rows = statement.query_map([], |row| {
            let value: f64 = row.get(1)?;
            Ok((
                row.get::<_, i64>(0)?,
                whole(value),
                row.get::<_, String>(2)?,
            ))
        });
        sampled_before.extend(rows.unwrap().map(Result::unwrap));
    }
    let output = run.call(&["convert", "-f", "pftrace", "json", "-d", "out", "-o", "p"]);
    ok(&output);
    // The remaining values belong to dispatches.
    let trace = trace(&run.path("out/p_results.pftrace"));
    let mut found = 0.0;
    let mut ends = 0;
    let mut sampled = Vec::new();
    for sample in trace.counters().iter() {
        let track = trace.track(sample.track).name;
        let track = track.map(|id| trace.strings().get(id)).unwrap_or_default();
        if track.contains("PMC") {
            found += sample.value;
            ends += usize::from(whole(sample.value) == 0);
        }
        if let Some(at) = track.find("SPM ") {
            assert!(track.starts_with("Agent ["), "{track}");
            sampled.push((
                sample.ts.nanos(),
                whole(sample.value),
                track[at..].to_owned(),
            ));
        }
    }
    assert!(ends > 0);
    sampled.sort();
    sampled_before.sort();
    assert!(!sampled.is_empty());
    assert_eq!(sampled, sampled_before);
    assert_eq!(whole(found), whole(whole_before.iter().sum::<f64>()));
    let text = std::fs::read_to_string(run.path("out/p_pmc.jsonl")).unwrap();
    assert!(text.contains("\"value\":null"));
}
