//! Every file of the reference: measures, series and line classes of synthetic, real and published inputs.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is not as it should be, and says so when it is skipped"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use blkio_parser::analyse::user_phases::Named;
use blkio_parser::{Direction, EventKind, Stats, StatsOptions, pipeline};
use blkio_report::document::{self, DocumentOptions};
use serde_json::Value;

/// The reference data of these tests.
fn data() -> PathBuf {
    test_data::reference("blkio")
}

/// The text of a file, decompressed.
fn content(path: &Path) -> String {
    let source = byte_source::Source::open(path, &byte_source::OpenOptions::default()).unwrap();
    let mut chunks = source
        .into_chunks(byte_source::ChunkOptions::default())
        .unwrap();
    let mut text = Vec::new();
    while let Some(chunk) = chunks.next().unwrap() {
        text.extend_from_slice(chunk.data());
    }
    String::from_utf8(text).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn document(paths: &[PathBuf], threads: usize, compat: bool) -> Value {
    let mut options = StatsOptions::default();
    options.read.threads = threads;
    let mut stats = Stats::of_files(paths, &options).unwrap();
    let mut options = DocumentOptions::default();
    options.compat = compat;
    document::stats(&mut stats, &options)
}

/// Collects where `found` differs from `wanted`; integers exactly, reals to 1e-9.
fn compare(at: &str, wanted: &Value, found: &Value, errors: &mut Vec<String>) {
    match (wanted, found) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().filter(|key| !b.contains_key(*key)) {
                errors.push(format!("{at}.{key} is missing"));
            }
            for key in b.keys().filter(|key| !a.contains_key(*key)) {
                errors.push(format!("{at}.{key} is too much"));
            }
            for (key, value) in a {
                if let Some(other) = b.get(key) {
                    compare(&format!("{at}.{key}"), value, other, errors);
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{at}[{i}]"), a, b, errors);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            if (a - b).abs() > 1e-9 * a.abs().max(1.0) {
                errors.push(format!("{at}: {a} is {b}"));
            }
        }
        (a, b) if a == b => {}
        (a, b) => errors.push(format!("{at}: {a} is {b}").chars().take(200).collect()),
    }
}

/// The inputs that an expected file is of.
fn inputs(data: &Path, stem: &str) -> Vec<PathBuf> {
    let real = |run: &str, file: &str| data.join("real").join(run).join(file);
    if let Some(run) = stem.strip_prefix("real-") {
        if let Some(run) = run.strip_suffix(".blktrace") {
            return (0..2)
                .map(|cpu| real(run, &format!("blk.blktrace.{cpu}.gz")))
                .collect();
        }
        if let Some(run) = run.strip_suffix(".events") {
            return vec![real(run, "events.txt.gz")];
        }
        if run == "misc-special-ops" {
            return vec![real("misc", "special-ops.events.txt")];
        }
        return vec![real(run, "issue.txt.gz")];
    }
    vec![data.join("synthetic").join(format!("{stem}.events.txt.gz"))]
}

fn expected(data: &Path, ending: &str) -> Vec<(String, Value)> {
    let mut found: Vec<(String, Value)> = std::fs::read_dir(data.join("expected"))
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name()?.to_str()?;
            let stem = name.strip_suffix(ending)?;
            Some((stem.to_owned(), json(&path)))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(!found.is_empty());
    found
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn metrics_equal_the_reference_with_any_number_of_threads() {
    let data = data();
    let mut errors = Vec::new();
    for (stem, wanted) in expected(&data, ".metrics.json") {
        let paths = inputs(&data, &stem);
        let found = document(&paths, 1, false);
        compare(&stem, &wanted, &found["metrics"], &mut errors);
        assert_eq!(found, document(&paths, 3, false), "{stem}");
    }
    assert!(
        errors.is_empty(),
        "{}\n{} differences",
        errors[..errors.len().min(60)].join("\n"),
        errors.len()
    );
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn series_equal_the_published_arithmetic() {
    let data = data();
    let mut errors = Vec::new();
    for (stem, wanted) in expected(&data, ".series.json") {
        let path = if stem.starts_with("real-") {
            inputs(&data, &stem)
        } else {
            let plain = data.join("synthetic").join(format!("{stem}.issue.txt"));
            vec![if plain.exists() {
                plain
            } else {
                plain.with_extension("txt.gz")
            }]
        };
        let found = document(&path, 2, true);
        let mut found = found["series"].clone();
        // Groups of neither reads nor writes are not in every file of the reference.
        if let (Some(found), Some(wanted)) = (found.as_object_mut(), wanted.as_object()) {
            found.retain(|key, _| wanted.contains_key(key));
        }
        compare(&stem, &wanted, &found, &mut errors);
    }
    assert!(
        errors.is_empty(),
        "{}\n{} differences",
        errors[..errors.len().min(60)].join("\n"),
        errors.len()
    );
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn line_classes_losses_and_bytes_equal_the_reference() {
    let data = data();
    let text = std::fs::read_to_string(data.join("expected/lines.jsonl")).unwrap();
    for line in text.lines() {
        let wanted: Value = serde_json::from_str(line).unwrap();
        let file = wanted["file"].as_str().unwrap();
        let path = if file.starts_with("synthetic/") {
            data.join(file)
        } else {
            data.join("real").join(file)
        };
        let mut stats = Stats::of_files(&[path], &StatsOptions::default()).unwrap();
        let document = document::stats(&mut stats, &DocumentOptions::default());
        let lines = &document["quality"]["lines"];
        for key in [
            "warning",
            "other",
            "header",
            "valid_events",
            "lost_events",
            "blank",
            "error",
            "malformed",
            "map_output",
            "lost_lines",
            "unterminated_last_line",
        ] {
            let wanted = wanted.get(key).cloned().unwrap_or(0.into());
            assert_eq!(lines[key], wanted, "{file} {key}");
        }
        assert_eq!(
            document["quality"]["largest_backward_step_ns"], wanted["largest_backward_step_ns"],
            "{file}"
        );
        let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
        for (number, operation) in stats.traffic.operations.iter().enumerate() {
            let rwbs = stats.outcome.symbols.rwbs_all()[number].to_string();
            let sum = operation.sizes.iter().map(|(b, c)| u64::from(*b) * c).sum();
            bytes.insert(rwbs, sum);
        }
        assert_eq!(
            serde_json::to_value(bytes).unwrap(),
            wanted["bytes_by_rwbs"],
            "{file}"
        );
    }
}

/// A request as every format must tell it: letters with one name for a flush, place, size.
type Request = (String, u64, u32);

fn requests(paths: &[PathBuf]) -> (Vec<Request>, usize) {
    let mut events = Vec::new();
    let outcome = pipeline::read(
        paths,
        &pipeline::ReadOptions::default(),
        &mut |batch| events.extend(batch.iter().copied()),
        &mut || unreachable!(),
    )
    .unwrap();
    let completions = events
        .iter()
        .filter(|e| e.kind == EventKind::Complete)
        .count();
    let mut issued: Vec<Request> = events
        .iter()
        .filter(|e| e.kind == EventKind::Issue)
        .map(|e| {
            let text = outcome.symbols.rwbs_of(e.rwbs).unwrap().to_string();
            let text = if e.direction == Direction::Flush {
                "FF".to_owned()
            } else {
                text
            };
            (text, e.sector, e.nr_sector)
        })
        .collect();
    issued.sort();
    (issued, completions)
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn one_run_in_nine_formats_is_one_run() {
    let data = data();
    let run = data.join("real/multi-e");
    let read = |file: &str| requests(&[run.join(file)]);
    let (binary, completions) =
        requests(&[run.join("blk.blktrace.0.gz"), run.join("blk.blktrace.1.gz")]);
    assert_eq!((binary.len(), completions), (1877, 1886));
    for file in [
        "blkparse.txt.gz",
        "ftrace-blk-tracer.txt.gz",
        "ftrace-blk-classic.txt.gz",
        "ftrace-blk-bin-with-context.bin.gz",
        "tracefs-raw.txt.gz",
        "trace-cmd-report.txt.gz",
    ] {
        let (found, completions) = read(file);
        assert_eq!(completions, 1886, "{file}");
        assert_eq!(found, binary, "{file}");
    }
    for file in ["issue.txt.gz", "events.txt.gz"] {
        let (found, _) = read(file);
        assert_eq!(found, binary, "{file}");
    }
    // perf lost some: what it has is there.
    let (perf, _) = read("perf-script.txt.gz");
    assert!(perf.len() > 1700);
    let all: std::collections::BTreeSet<_> = binary.iter().collect();
    assert!(perf.iter().all(|request| all.contains(request)));
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn fio_totals_of_direct_jobs_are_found_in_the_trace() {
    let data = data();
    for run in ["loop-ext4-a", "multi-e", "disk-ext4-c"] {
        let dir = data.join("real").join(run);
        let fio = std::fs::read(dir.join("fio.json")).unwrap();
        let fio = blkio_companions::fio::FioResult::parse("fio.json", &fio).unwrap();
        let direct: Vec<_> = fio.jobs.iter().filter(|job| job.direct).collect();
        let ios: u64 = direct.iter().map(|job| job.read.ios).sum();
        let bytes: u64 = direct.iter().map(|job| job.read.bytes).sum();
        let (trace, _) = requests(&[dir.join("issue.txt.gz")]);
        let reads: Vec<_> = trace.iter().filter(|(rwbs, ..)| rwbs == "RS").collect();
        assert_eq!(reads.len() as u64, ios, "{run}");
        let sum: u64 = reads.iter().map(|(_, _, nr)| u64::from(*nr) * 512).sum();
        assert_eq!(sum, bytes, "{run}");
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn published_gpu_logs_and_deepnvme_results() {
    let data = data();
    let wanted = json(&data.join("expected/published.json"));
    for (file, wanted) in wanted["gpu"].as_object().unwrap() {
        let text = std::fs::read(data.join("published").join(file)).unwrap();
        let log = blkio_companions::gpu::GpuLog::parse(file, &text).unwrap();
        assert_eq!(
            log.samples.len() as u64,
            wanted["samples"].as_u64().unwrap()
        );
        let close = |a: f64, key: &str| {
            let b = wanted[key].as_f64().unwrap();
            assert!((a - b).abs() < 1e-9, "{file} {key}: {a} {b}");
        };
        close(log.mean().unwrap(), "mean_percent");
        close(log.max().unwrap(), "max");
        close(log.zero_samples() as f64, "zero_samples");
        close(
            *log.published_x().last().unwrap(),
            "x_of_last_sample_in_original_plot_s",
        );
        let intervals = log.intervals_ns();
        close(
            *intervals.iter().max().unwrap() as f64 / 1e9,
            "max_interval_s",
        );
        close(intervals.iter().sum::<u64>() as f64 / 1e9, "span_s");
    }
    for (series, sizes) in wanted["deepnvme_gb_per_s"].as_object().unwrap() {
        let (engine, experiment) = series.split_once('-').unwrap();
        for (size, printed) in sizes.as_object().unwrap() {
            let path = data.join(format!(
                "published/deepnvme-results-ext4/{series}/deepnvme-{engine}-ext4-{experiment}-{size}-mb.txt"
            ));
            let found = blkio_companions::deepnvme::parse(&std::fs::read(path).unwrap()).unwrap();
            assert_eq!(Some(found.printed), printed.as_f64(), "{series} {size}");
            assert!(found.is_consistent(), "{series} {size}");
        }
    }
    for (file, tokens) in [
        ("opt-6.7b-kv-offload-bs-64-ext4.txt", (16384.0, 16384.0)),
        ("opt-13b-model-offload-bs-1-ext4.txt", (256.0, 32.0)),
    ] {
        let text = std::fs::read(data.join("published").join(file)).unwrap();
        let log = blkio_companions::engine::EngineLog::parse(&text);
        assert_eq!(log.tokens(), Some(tokens), "{file}");
        assert!(
            log.identities().iter().all(|i| i.holds),
            "{file} {:?}",
            log.identities()
        );
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn truth_of_the_synthetic_logs_and_their_phases() {
    let data = data();
    for stem in ["small-kv", "small-model", "big-lba", "edge", "medium-kv"] {
        let truth = json(&data.join(format!("synthetic/{stem}.truth.json")));
        let plain = data.join(format!("synthetic/{stem}.issue.txt"));
        let path = if plain.exists() {
            plain
        } else {
            plain.with_extension("txt.gz")
        };
        let found = document(&[path], 2, false);
        let boundary = &found["phases"]["prefill_decode_boundary_ns"];
        let end = |v: &Value, at: usize| v[at].as_u64().unwrap();
        let silence = &truth["phase_boundary_ns"];
        let bin = found["phases"]["bin_ns"].as_u64().unwrap();
        assert!(
            end(boundary, 0).abs_diff(end(silence, 0)) <= bin,
            "{stem} {boundary} {silence}"
        );
        assert!(
            end(boundary, 1).abs_diff(end(silence, 1)) <= bin,
            "{stem} {boundary} {silence}"
        );
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn figures_equal_what_the_published_scripts_plotted() {
    let data = data();
    for (file, number, gpu) in [
        (
            "small-model.fig3.json",
            3,
            "opt-13b-model-offload-bs-1-ext4-gpu.txt",
        ),
        (
            "edge.fig4.json",
            4,
            "opt-6.7b-kv-offload-bs-64-ext4-gpu.txt",
        ),
        (
            "small-kv.fig5-6.json",
            5,
            "opt-6.7b-kv-offload-bs-64-ext4-gpu.txt",
        ),
    ] {
        let wanted = json(&data.join("expected").join(file));
        let stem = file.split('.').next().unwrap();
        let log = data.join(format!("synthetic/{stem}.issue.txt"));
        let mut options = StatsOptions::default();
        options.read.first_sizes = true;
        let mut stats = Stats::of_files(&[log], &options).unwrap();
        let series = blkio_report::series::Series::published(&mut stats);
        let text = std::fs::read(data.join("published").join(gpu)).unwrap();
        let gpu = blkio_companions::gpu::GpuLog::parse(gpu, &text).unwrap();
        let (figures, missing) =
            blkio_report::cheops::run_figures(number, &series, &stats.traffic, Some(&gpu), true);
        assert!(missing.is_empty(), "{missing:?}");
        let stem = format!(
            "{}-bs-64-ext4",
            blkio_report::cheops::published_stem(number).unwrap()
        );
        let found: Vec<Value> = figures.iter().map(|f| f.to_json(&stem)).collect();
        let mut errors = Vec::new();
        compare(file, &wanted["figures"], &Value::Array(found), &mut errors);
        let average = blkio_report::cheops::average_line(Some(&gpu)).unwrap();
        assert_eq!(wanted["average_gpu_util_line"], average);
        let sizes = serde_json::to_value(
            series
                .groups
                .iter()
                .map(|(n, g)| (n.clone(), g.sizes_kib.clone()))
                .collect::<BTreeMap<_, _>>(),
        )
        .unwrap();
        // In two files of the reference these texts are of another log than the figures beside them: their sizes of
        // readahead are not those of the table in the same file.
        let table: BTreeMap<String, Value> = wanted["figures"][1]["table"]
            .as_array()
            .unwrap()
            .iter()
            .skip(1)
            .map(|row| (row[0].to_string(), row[1].clone()))
            .collect();
        if wanted["info"]["RA"] != serde_json::to_value(table).unwrap() {
            assert_ne!(number, 3);
            eprintln!("{file}: info and access counts are of another log: not compared");
            assert!(
                errors.is_empty(),
                "{}",
                errors[..errors.len().min(30)].join("\n")
            );
            continue;
        }
        compare("info", &wanted["info"], &sizes, &mut errors);
        for (name, group) in &series.groups {
            let order = wanted["info"][name.as_str()].as_object().unwrap().keys();
            let order: Vec<u64> = order.map(|kib| kib.parse().unwrap()).collect();
            assert_eq!(group.order_kib, order, "{file} {name}");
        }
        let access =
            serde_json::to_value(series.access.iter().cloned().collect::<BTreeMap<_, _>>())
                .unwrap();
        compare(
            "access",
            &wanted["sector_access_count"],
            &access,
            &mut errors,
        );
        let (min, max, most) = series.sectors.unwrap();
        let printed = format!(
            "[\"Min start_sector: {min}\\n\",\"Max start_sector: {max}\\n\",\"Max num_sectors: {most}\\n\"]"
        );
        let lines: Vec<String> = wanted["stdout_min_max"]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| l.as_str().unwrap().trim().to_owned())
            .collect();
        let ours: Vec<String> = serde_json::from_str::<Vec<String>>(&printed)
            .unwrap()
            .iter()
            .map(|l| l.trim().to_owned())
            .collect();
        assert_eq!(lines, ours, "{file}");
        assert!(
            errors.is_empty(),
            "{}",
            errors[..errors.len().min(30)].join("\n")
        );
    }
}

/// Times between stages as btt prints them for the same recording: name, mean in seconds, number.
fn btt_stages(text: &str) -> BTreeMap<String, (f64, u64)> {
    let all = text.split("====================").nth(2).unwrap();
    let rows = all
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter_map(|row| match row[..] {
        [name, _, mean, _, n] => Some((name.to_lowercase(), (mean.parse().ok()?, n.parse().ok()?))),
        _ => None,
    })
    .collect()
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn times_between_stages_are_those_of_btt() {
    let data = data();
    for run in ["loop-ext4-a", "multi-e"] {
        let document = document(&inputs(&data, &format!("real-{run}.blktrace")), 2, false);
        let stages = &document["extra"]["stages_ns"];
        let text = std::fs::read_to_string(data.join("real").join(run).join("btt.txt")).unwrap();
        let wanted = btt_stages(&text);
        assert!(wanted.len() >= 6, "{run}: {wanted:?}");
        // Q2G is not among them: btt counts flushes, which have no place, too.
        for name in ["q2q", "g2i", "q2m", "i2d", "m2d"] {
            let Some((mean_s, count)) = wanted.get(name) else {
                assert!(stages[name].is_null(), "{run} {name}");
                continue;
            };
            assert_eq!(stages[name]["count"], *count, "{run} {name}");
            let mean_ns = stages[name]["mean"].as_f64().unwrap();
            assert!((mean_ns / 1e9 - mean_s).abs() <= 1e-9, "{run} {name}");
        }
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn phases_add_up_to_the_run() {
    let data = data();
    for stem in [
        "real-loop-ext4-a.events",
        "small-kv",
        "real-disk-ext4-c.events",
    ] {
        let document = document(&inputs(&data, stem), 2, false);
        let phases = document["phases"]["phases"].as_array().unwrap();
        for direction in ["read", "write"] {
            let sum = |path: [&str; 2]| -> u64 {
                let values = phases.iter().map(|phase| &phase[path[0]]);
                let values = values.map(|value| {
                    if path[0] == "latency_ns" {
                        &value[direction]
                    } else {
                        value
                    }
                });
                values.filter_map(|value| value[path[1]].as_u64()).sum()
            };
            let totals = &document["metrics"]["totals"][direction];
            assert_eq!(
                sum([direction, "bytes"]),
                totals["bytes"].as_u64().unwrap(),
                "{stem}"
            );
            let latency = &document["metrics"]["pairing_newest"]["latency_ns"][direction];
            assert_eq!(
                sum(["latency_ns", "count"]),
                latency["count"].as_u64().unwrap(),
                "{stem}"
            );
            let most = phases
                .iter()
                .filter_map(|phase| phase["latency_ns"][direction]["max"].as_u64());
            assert_eq!(most.max(), latency["max"].as_u64(), "{stem}");
        }
        let spread = &document["extra"]["spread_per_bin"]["read"]["bytes"];
        assert!(spread.as_array().unwrap().len() > 1, "{stem}");
    }
}

/// The phases found, given once more by hand: another analysis, from single events, must say the same of them.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn phases_found_are_made_of_what_given_ones_are() {
    let data = data();
    for stem in [
        "real-loop-ext4-a.events",
        "small-kv",
        "real-disk-ext4-c.events",
    ] {
        let paths = inputs(&data, stem);
        let found = document(&paths, 2, false);
        assert_eq!(found["phases"]["compositions_are_exact"], true);
        let phases = found["phases"]["phases"].as_array().unwrap();
        let first = found["metrics"]["first_issue_ns"].as_u64().unwrap();
        let mut options = StatsOptions::default();
        let since = |value: &Value| value.as_u64().unwrap() - first;
        options.phases = phases
            .iter()
            .map(|phase| Named {
                name: "again".to_owned(),
                start_ns: since(&phase["start_ns"]),
                end_ns: since(&phase["end_ns"]),
            })
            .collect();
        let mut stats = Stats::of_files(&paths, &options).unwrap();
        let document = document::stats(&mut stats, &DocumentOptions::default());
        let given = document["given_phases"].as_array().unwrap();
        assert_eq!(given.len(), phases.len());
        let mut requests = 0;
        for (phase, given) in phases.iter().zip(given) {
            for key in ["operations", "size_bytes", "latency_ns"] {
                assert_eq!(phase[key], given[key], "{stem} {key}");
            }
            // Depth goes over the time of the requests in one, over the time given in the other.
            let [in_flight, again] = [phase, given].map(|of| {
                let depth = of["mean_queue_depth"].as_f64().unwrap_or(0.0);
                depth * of["duration_ns"].as_f64().unwrap()
            });
            assert!((in_flight - again).abs() <= 1e-9 * again, "{stem} depth");
            let operations = phase["operations"].as_object().unwrap().values();
            requests += operations
                .map(|of| of["ios"].as_u64().unwrap())
                .sum::<u64>();
            for direction in ["read", "write"] {
                let ios = phase[direction]["ios"].as_f64().unwrap();
                for key in ["sequential_share", "multi_stream_share"] {
                    let [a, b] =
                        [phase, given].map(|of| of["sequentiality"][direction][key].as_f64());
                    // The given phase knows nothing of the 32 requests before it.
                    let apart = a.unwrap_or(0.0) - b.unwrap_or(0.0);
                    assert!(
                        (0.0..=33.0).contains(&(apart * ios)),
                        "{stem} {direction} {key}"
                    );
                    assert_eq!(a.is_some(), ios > 0.0);
                }
            }
        }
        assert_eq!(found["metrics"]["issues"], requests, "{stem}");
    }
}

/// Depth by class and by bin adds up to the depth of all, and that is Little's law.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn depths_of_classes_and_bins_add_up() {
    let data = data();
    for stem in ["real-loop-ext4-a.events", "small-model"] {
        let document = document(&inputs(&data, stem), 2, false);
        let depth = &document["extra"]["queue_depth"];
        let whole = &document["metrics"]["pairing_newest"];
        assert_eq!(depth["all"]["max"], whole["queue_depth"]["max"]);
        let real = |value: &Value| value.as_f64().unwrap();
        let span = real(&depth["span_ns"]);
        for class in ["read", "write"] {
            let latency = &whole["latency_ns"][class];
            let stayed = real(&latency["mean"]) * real(&latency["count"]);
            let mean = real(&depth[class]["time_weighted_mean"]);
            assert!(
                (mean * span - stayed).abs() <= 1e-9 * stayed,
                "{stem} {class}"
            );
        }
        let bins = depth["by_bin"]["bins"].as_array().unwrap();
        let most = bins.iter().map(|bin| bin["max"].as_u64().unwrap()).max();
        assert_eq!(most, depth["all"]["max"].as_u64());
        let sum: f64 = bins.iter().map(|bin| real(&bin["mean"])).sum();
        let width = real(&depth["by_bin"]["bin_ns"]);
        let mean = real(&depth["all"]["time_weighted_mean"]);
        assert!(
            (sum * width - mean * span).abs() <= 1e-9 * mean * span,
            "{stem}"
        );
    }
}

/// Each process alone is what filtering the trace for it gives.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn processes_are_as_sequential_as_alone() {
    let data = data();
    let path = data.join("real/disk-ext4-c/events.txt.gz");
    let together = document(std::slice::from_ref(&path), 2, false);
    let text = content(&path);
    let pids = together["extra"]["sequentiality_by_pid"]["pids"]
        .as_array()
        .unwrap();
    assert!(pids.len() > 3);
    let dir = tempfile::tempdir().unwrap();
    for of in pids {
        let pid = of["pid"].to_string();
        let lines = text.lines().filter(|line| {
            let mut columns = line.split(", ");
            line.starts_with("I, ") && columns.nth(10) == Some(&pid)
        });
        let alone: String = lines.flat_map(|line| [line, "\n"]).collect();
        let path = dir.path().join(&pid);
        std::fs::write(&path, alone).unwrap();
        let alone = document(&[path], 1, false);
        for class in ["read", "write", "all"] {
            let wanted = &alone["metrics"]["sequentiality"][class];
            let requests = wanted["requests"].as_f64().unwrap();
            if requests == 0.0 {
                assert_eq!(of[class], Value::Null, "{pid} {class}");
                continue;
            }
            let found = &of[class];
            assert_eq!(found["requests"], wanted["requests"], "{pid} {class}");
            assert_eq!(found["runs"], wanted["runs"], "{pid} {class}");
            assert_eq!(found["longest_run"], wanted["longest_run"], "{pid} {class}");
            for (share, count) in [
                ("sequential_share", "sequential"),
                ("multi_stream_share", "multi_stream_32"),
                ("near_1mib_share", "near_1mib"),
            ] {
                let wanted = wanted[count].as_f64().unwrap() / requests;
                assert!(
                    (found[share].as_f64().unwrap() - wanted).abs() < 1e-12,
                    "{pid} {class}"
                );
            }
        }
    }
}

/// blkparse's summary, which follows its events on the same output, agrees with what was read; with an event less it does not.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn totals_that_blkparse_printed_are_ours() {
    let data = data();
    let run = data.join("real/multi-e");
    let events = content(&run.join("blkparse.txt.gz"));
    let summary = content(&run.join("blkparse-summary.txt"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.txt");
    let first_line = events.find('\n').unwrap() + 1;
    for (from, agree) in [(0, true), (first_line, false)] {
        std::fs::write(&path, format!("{}{summary}", &events[from..])).unwrap();
        let document = document(std::slice::from_ref(&path), 2, false);
        let printed = &document["quality"]["printed_totals"];
        assert_eq!(printed["entries"]["printed"], 11_209);
        assert_eq!(printed["dispatched"]["counted"], 1877);
        assert_eq!(printed["agree"], agree);
        let warnings = document["quality"]["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), usize::from(!agree), "{warnings:?}");
    }
}

/// One run, recorded with three clocks: a journal write was noted at 1168.999452 s, 1169.024196 s and about 1168.9970 s.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn clocks_of_two_recordings_of_one_run() {
    let data = data();
    let run = data.join("real/multi-e");
    let options = pipeline::ReadOptions::default();
    let against = |name: &str| {
        let (a, b) = (run.join("issue.txt.gz"), run.join(name));
        blkio_report::clock_match::clocks(&[a], &[b], &options)
            .unwrap()
            .unwrap()
    };
    for (name, apart_ns) in [
        ("tracefs-raw.txt.gz", 24_744_000),
        ("perf-script.txt.gz", -2_450_000),
    ] {
        let found = against(name);
        assert!(found.requests > 500, "{name} {found:?}");
        assert!(
            (found.offset_ns - apart_ns).abs() < 100_000,
            "{name} {found:?}"
        );
        assert!(found.spread_ns < 100_000, "{name} {found:?}");
    }
    assert_eq!(against("issue.txt.gz").offset_ns, 0);
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn checksums_are_those_in_the_compressed_files() {
    let data = data();
    let paths = [
        data.join("real/multi-e/blk.blktrace.0.gz"),
        data.join("synthetic/medium-kv.issue.txt.gz"),
        data.join("real/loop-ext4-a/events.txt.gz"),
    ];
    for path in paths {
        let document = document(std::slice::from_ref(&path), 2, false);
        // A gzip file ends with the checksum and the length of its content.
        let file = std::fs::read(&path).unwrap();
        let trailer: [u8; 4] = file[file.len() - 8..file.len() - 4].try_into().unwrap();
        let wanted = format!("{:08x}", u32::from_le_bytes(trailer));
        assert_eq!(document["inputs"][0]["crc32"], wanted);
        assert_eq!(document["quality"]["inputs"][0]["crc32"], wanted);
    }
}
