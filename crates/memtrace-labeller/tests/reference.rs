//! Parsing and labelling against the recorded results of the reference, every case of both versions.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use byte_source::{OpenOptions, Source};
use memtrace_labeller::{
    Access, InputOptions, LabelOptions, Labeller, Name, Names, PageTracker, Phases, RowStream,
    RuleSet, Schema, UnknownPolicy, is_compatible,
};
use serde_json::{Map, Value, json};
use support::{data, read};

fn options(version: &str) -> InputOptions {
    let mut options = if version == "0.1.0" {
        InputOptions::mrm_010()
    } else {
        InputOptions::mrm_023()
    };
    options.threads = NonZeroUsize::new(2).unwrap();
    options
}

/// Rows of a case, with its run id and its phases.
fn rows(folder: &Path, case: &str, version: &str, names: &mut Names) -> Vec<Access> {
    let truth = read(&folder.join(format!("inputs/{case}.truth.json")));
    let phases = Phases::from_json(case, &truth, names).unwrap();
    let mut options = options(version);
    let truth: Value = serde_json::from_slice(&truth).unwrap();
    options.run_id = truth["run_id"].as_str().unwrap().to_owned();
    let text = folder.join(format!("inputs/{case}.perf.txt.gz"));
    let path = if text.exists() {
        text
    } else {
        folder.join(format!("inputs/{case}.rows.jsonl.gz"))
    };
    let mut stream = RowStream::open_path(path, &OpenOptions::default(), &options).unwrap();
    if stream.format().name() == "perf-script" {
        stream = stream.with_phases(phases);
    }
    let mut rows = Vec::new();
    while stream.next_batch(names, &mut rows).unwrap() {}
    rows
}

/// A row as the reference's dictionary.
fn dictionary(row: &Access, names: &Names) -> Map<String, Value> {
    let text = |name: Name| names.get(name).map_or(Value::Null, Value::from);
    let address = match names.get(row.wide) {
        Some(wide) => serde_json::from_str(wide).unwrap(),
        None => Value::from(row.address),
    };
    let value = json!({
        "run_id": text(row.run_id),
        "sample_id": row.sample_id,
        "timestamp_ns": row.timestamp_ns,
        "phase": text(row.phase),
        "address": address,
        "address_page": row.address_page,
        "op_type": text(row.op),
        "symbol": text(row.symbol),
        "dso": text(row.dso),
        "region_type": text(row.region_type),
        "region_id": row.region_id,
        "access_latency_ns": row.access_latency_ns,
        "cache_level": text(row.cache_level),
        "numa_node": row.numa_node,
        "cpu_id": row.cpu_id,
        "thread_id": row.thread_id,
        "token_index": row.token_index,
        "context_tokens": row.context_tokens,
    });
    value.as_object().unwrap().clone()
}

/// Numbers beyond 64 bits are doubles in our JSON reader, here and there alike.
fn assert_rows(what: &str, ours: &[Access], names: &Names, expected: &[Value]) {
    assert_eq!(ours.len(), expected.len(), "{what}: rows");
    for (row, expected) in ours.iter().zip(expected) {
        assert_eq!(
            Value::Object(dictionary(row, names)),
            *expected,
            "{what}: sample {}",
            row.sample_id
        );
    }
}

fn cases(folder: &Path) -> Vec<(String, String)> {
    let mut cases = Vec::new();
    for version in ["0.1.0", "0.1.23"] {
        for entry in fs::read_dir(folder.join(format!("expected_{version}"))).unwrap() {
            let case = entry.unwrap().file_name().into_string().unwrap();
            cases.push((version.to_owned(), case));
        }
    }
    cases.sort();
    cases
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn every_case_is_parsed_and_labelled_as_by_the_reference() {
    let folder = data();
    let mut seen = 0;
    for (version, case) in cases(&folder) {
        let what = format!("{case} of {version}");
        let expected = folder.join(format!("expected_{version}/{case}"));
        let mut names = Names::new();
        let raw = rows(&folder, &case, &version, &mut names);
        let parsed = expected.join("parsed.json.gz");
        if parsed.exists() {
            assert_rows(
                &what,
                &raw,
                &names,
                support::json(&parsed).as_array().unwrap(),
            );
        }
        let status = support::json(&expected.join("status.json"));
        let stages = &status["stages"];
        assert_eq!(stages["parse"]["rows"], raw.len(), "{what}");

        let mut labeller = Labeller::new(LabelOptions::mrm());
        let mut labelled = raw.clone();
        for row in &mut labelled {
            assert!(labeller.label(row, &mut names).unwrap());
        }
        compare_labels(&what, &expected, &labelled, &mut names);
        compare_regions(&what, &expected, &labeller, &names);

        let kept = with_policy(UnknownPolicy::Skip, &raw, &mut names).unwrap();
        assert_eq!(stages["label_skip"]["rows"], kept, "{what}: skip");
        match with_policy(UnknownPolicy::Error, &raw, &mut names) {
            Ok(count) => assert_eq!(stages["label_error"]["rows"], count, "{what}: error"),
            Err(error) => {
                let message = stages["label_error"]["message"].as_str().unwrap();
                let (theirs, _) = message.split_once(". Set").unwrap();
                let ours = error.to_string().to_lowercase();
                assert!(ours.starts_with(&theirs.to_lowercase()), "{what}: {ours}");
            }
        }
        seen += 1;
    }
    assert!(seen >= 30, "only {seen} cases");
}

fn with_policy(
    policy: UnknownPolicy,
    raw: &[Access],
    names: &mut Names,
) -> memtrace_labeller::Result<usize> {
    let mut options = LabelOptions::mrm();
    options.unknown = policy;
    let mut labeller = Labeller::new(options);
    let mut kept = 0;
    for row in raw {
        kept += usize::from(labeller.label(&mut row.clone(), names)?);
    }
    Ok(kept)
}

fn compare_labels(what: &str, expected: &Path, labelled: &[Access], names: &mut Names) {
    let json = expected.join("labelled.json.gz");
    if json.exists() {
        assert_rows(
            what,
            labelled,
            names,
            support::json(&json).as_array().unwrap(),
        );
        return;
    }
    let source = Source::open(expected.join("labelled.parquet"), &OpenOptions::default()).unwrap();
    let mut stream = RowStream::open(source, &InputOptions::default()).unwrap();
    let mut theirs = Vec::new();
    while stream.next_batch(names, &mut theirs).unwrap() {}
    assert_eq!(labelled.len(), theirs.len(), "{what}: labelled rows");
    for (ours, theirs) in labelled.iter().zip(&mut theirs) {
        // The recorded files leave the run out.
        theirs.run_id = ours.run_id;
        assert_eq!(ours, theirs, "{what}: sample {}", ours.sample_id);
    }
}

fn compare_regions(what: &str, expected: &Path, labeller: &Labeller, names: &Names) {
    let map: Vec<Value> = labeller
        .region_map()
        .iter()
        .map(|region| {
            json!({
                "region_id": region.region_id,
                "region_type": names.text(region.region_type),
                "page_min": region.page_min,
                "page_max": region.page_max,
                "first_seen_ns": region.first_seen_ns,
                "last_seen_ns": region.last_seen_ns,
                "access_count": region.access_count,
            })
        })
        .collect();
    let kv: Vec<Value> = labeller
        .kv_blocks()
        .iter()
        .map(|block| {
            json!({
                "block_id": block.block_id,
                "address": block.address,
                "address_page": block.address_page,
                "write_ns": block.write_ns,
                "last_read_ns": block.last_read_ns,
                "evict_ns": block.evict_ns,
                "total_reads": block.total_reads,
                "lifetime_ns": block.lifetime_ns(),
            })
        })
        .collect();
    let theirs = support::json(&expected.join("regions.json.gz"));
    assert_eq!(Value::from(map), theirs["region_map"], "{what}");
    assert_eq!(Value::from(kv), theirs["kv_block_lifecycle"], "{what}");
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn symbols_are_classified_as_by_the_reference() {
    let folder = data();
    let rules = RuleSet::llama_cpp();
    for version in ["0.1.0", "0.1.23"] {
        let table = support::json(&folder.join(format!("unit_{version}/symbols.json.gz")));
        let rows = table["rows"].as_array().unwrap();
        assert!(rows.len() >= 700);
        for row in rows {
            let text = |at: usize| row[at].as_str();
            let ours = rules.classify(
                text(2),
                text(3).unwrap_or_default(),
                text(0).unwrap_or_default(),
                text(1).unwrap_or_default(),
            );
            assert_eq!(ours, text(4), "{row}");
        }
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn the_page_tracker_is_that_of_the_reference() {
    let folder = data();
    for version in ["0.1.0", "0.1.23"] {
        let oracle = support::json(&folder.join(format!("unit_{version}/address_tracker.json.gz")));
        let mut names = Names::new();
        let mut tracker = PageTracker::default();
        for op in oracle["ops"].as_array().unwrap() {
            let kind = names.intern(op[1].as_str().unwrap());
            let (id, kind) = tracker.touch(op[0].as_u64().unwrap(), kind, op[2].as_u64().unwrap());
            assert_eq!(
                (id, names.text(kind)),
                (op[3].as_u64().unwrap(), op[4].as_str().unwrap())
            );
        }
        let rows: Vec<Value> = tracker
            .regions()
            .iter()
            .map(|region| {
                json!({
                    "region_id": region.region_id,
                    "region_type": names.text(region.region_type),
                    "page_min": region.page_min,
                    "page_max": region.page_max,
                    "first_seen_ns": region.first_seen_ns,
                    "last_seen_ns": region.last_seen_ns,
                    "access_count": region.access_count,
                })
            })
            .collect();
        assert_eq!(Value::from(rows), oracle["rows"]);
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn schema_versions_are_judged_as_by_the_reference() {
    let folder = data();
    for version in ["0.1.0", "0.1.23"] {
        let oracle = support::json(&folder.join(format!("unit_{version}/schema_versions.json")));
        for row in oracle["compat"].as_array().unwrap() {
            let ours = is_compatible(row[0].as_str().unwrap(), row[1].as_str().unwrap());
            match row[2].as_bool() {
                Some(compatible) => assert_eq!(ours.unwrap(), compatible, "{row}"),
                None => assert!(ours.is_err(), "{row}"),
            }
        }
        for (schema, missing) in oracle["missing_from_empty"].as_object().unwrap() {
            let ours =
                Schema::named(schema).map_or(Vec::new(), |schema| schema.missing_columns(&[]));
            assert_eq!(Value::from(ours), *missing, "{schema}");
        }
    }
}
