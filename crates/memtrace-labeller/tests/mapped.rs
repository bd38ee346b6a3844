//! Rows whose symbols say nothing, labelled by what was mapped where: against the planted truth of `testdata/memtrace`.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use byte_source::OpenOptions;
use memtrace_labeller::{
    Access, InputOptions, LabelOptions, Labeller, MapsSnapshot, ModelFile, Name, Names, RowStream,
    ranges_of_maps,
};
use serde_json::Value;

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/memtrace")
        .join(name)
}

fn rows(names: &mut Names) -> Vec<Access> {
    let path = testdata("mapped.perf.txt");
    let mut stream =
        RowStream::open_path(path, &OpenOptions::default(), &InputOptions::default()).unwrap();
    let mut rows = Vec::new();
    while stream.next_batch(names, &mut rows).unwrap() {}
    rows
}

#[test]
fn every_access_is_of_the_tensor_that_was_there_then() {
    let text = std::fs::read(testdata("mapped.maps.txt")).unwrap();
    let snapshots = MapsSnapshot::read("maps", &text).unwrap();
    let models =
        ["demo.gguf", "demo.safetensors"].map(|name| ModelFile::open(&testdata(name)).unwrap());
    let ranges = ranges_of_maps(&snapshots, &models);

    let mut names = Names::new();
    let mut labeller = Labeller::new(LabelOptions::native());
    labeller.register_address_ranges(&ranges, &mut names);
    let mut found: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for mut row in rows(&mut names) {
        assert!(labeller.label(&mut row, &mut names).unwrap());
        let region = labeller
            .region_map()
            .iter()
            .find(|region| region.region_id == row.region_id);
        let owner = match row.region_type {
            Name::WEIGHT => names.text(region.unwrap().name),
            other => names.text(other),
        };
        let counts = found.entry(owner.to_owned()).or_default();
        if row.is_store() {
            counts.1 += 1;
        } else {
            counts.0 += 1;
        }
    }
    let truth = std::fs::read(testdata("mapped.truth.json")).unwrap();
    let truth: Value = serde_json::from_slice(&truth).unwrap();
    let expected: BTreeMap<String, (i64, i64)> = truth["owners"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(owner, counts)| {
            let count = |op: &str| counts[op].as_i64().unwrap();
            (owner.clone(), (count("loads"), count("stores")))
        })
        .collect();
    assert_eq!(found, expected);
    // One region for each tensor that lies in one piece; the first one of the GGUF file is cut in two by its mappings.
    let regions = labeller.region_map();
    let weights = regions
        .iter()
        .filter(|region| region.region_type == Name::WEIGHT);
    assert_eq!(weights.count(), 4 + 3 + 1);
}

/// In the reference's way the pages of a range are typed, first come, first served, and time does not matter.
#[test]
fn the_reference_takes_the_same_ranges_by_page() {
    let text = std::fs::read(testdata("mapped.maps.txt")).unwrap();
    let snapshots = MapsSnapshot::read("maps", &text).unwrap();
    let model = ModelFile::open(&testdata("demo.gguf")).unwrap();
    let ranges = ranges_of_maps(&snapshots[..2], &[model]);
    let mut names = Names::new();
    let mut labeller = Labeller::new(LabelOptions::mrm());
    labeller.register_address_ranges(&ranges, &mut names);
    let mut row = Access::new(0, 0x7f10_0000_0010);
    labeller.label(&mut row, &mut names).unwrap();
    assert_eq!((row.region_type, row.region_id), (Name::WEIGHT, 1));
}

#[test]
fn a_block_lives_until_the_engine_frees_it() {
    let table = br#"{"base_address": 4096, "block_bytes": 256, "blocks": [
        {"block_id": 1, "alloc_ns": 10, "free_ns": 50}, {"block_id": 1, "alloc_ns": 60}]}"#;
    let mut names = Names::new();
    let mut labeller = Labeller::new(LabelOptions::native());
    let ranges = memtrace_labeller::kv_table_from_json("blocks", table).unwrap();
    labeller.register_address_ranges(&ranges, &mut names);
    // Stored to twice in its first life, which is no eviction when it is known when it was freed.
    for (time, op) in [
        (20, Name::STORE),
        (30, Name::STORE),
        (40, Name::LOAD),
        (70, Name::STORE),
    ] {
        let mut row = Access::new(time, 4096 + 256 + 8);
        row.op = op;
        assert!(labeller.label(&mut row, &mut names).unwrap());
        assert_eq!(row.region_type, Name::KV_CACHE);
    }
    let lives: Vec<_> = labeller
        .kv_blocks()
        .iter()
        .map(|block| {
            (
                block.address,
                block.write_ns,
                block.evict_ns,
                block.lifetime_ns(),
            )
        })
        .collect();
    assert_eq!(lives, [(4352, 20, Some(50), 40), (4352, 70, None, 10)]);
    // A block that the table does not list has no number of it.
    let mut other = Access::new(80, 0x10_0000);
    other.symbol = names.intern("llama_kv_read");
    assert!(labeller.label(&mut other, &mut names).unwrap());
    let numbers: Vec<_> = labeller
        .kv_blocks()
        .iter()
        .map(|block| (block.block_id, block.region_id))
        .collect();
    assert_eq!(numbers, [(1, 2), (1, 3), (1 + 4, 4)]);
    let region = labeller.region_map().get(0).unwrap();
    assert_eq!(
        (names.text(region.name), region.access_count),
        ("block 1", 3)
    );
}

/// Tokens are stored one after the other, a microsecond apart and in several stores each, and read from then on; then the block is used anew.
#[test]
fn a_block_lives_from_its_first_store_to_the_last_load_before_its_next_fill() {
    for block_bytes in [1024_u64, 4096, 16 << 10] {
        let mut names = Names::new();
        let mut options = LabelOptions::native();
        options.regions = memtrace_labeller::Regions::Native {
            kv_block_bytes: block_bytes,
            weight_extent_bytes: 2 << 20,
        };
        let mut labeller = Labeller::new(options);
        let mut put = |time: u64, at: u64, op| {
            let mut row = Access::new(time, (1 << 32) + at);
            (row.op, row.region_type, row.size_bytes) = (op, Name::KV_CACHE, 8);
            labeller.label(&mut row, &mut names).unwrap();
        };
        let mut last = [0; 2];
        for (fill, last) in (0_u64..).zip(&mut last) {
            for token in 0..8 {
                let time = 1000 + fill * 1_000_000_000 + token * 50_000_000;
                for at in 0..block_bytes / 64 {
                    put(
                        time + at * 1000,
                        token * block_bytes / 8 + at * 8,
                        Name::STORE,
                    );
                }
                for read in 0..=token {
                    *last = time + 20_000_000 + read;
                    put(*last, read * block_bytes / 8, Name::LOAD);
                }
            }
        }
        let blocks: Vec<_> = labeller.kv_blocks().iter().collect();
        let [block] = blocks.as_slice() else {
            panic!("{blocks:?}");
        };
        assert_eq!((block.start_ns, block.last_read_ns), (1000, last[0]));
        assert_eq!(block.lifetime_ns(), last[0] - 1000);
        assert_eq!(
            (block.evict_ns, block.fills, block.total_reads),
            (Some(1_000_001_000), 2, 36)
        );
    }
}
