//! Damaged inputs of every format: whatever happens, nothing panics, hangs or makes rows that are not counted.

#![expect(
    clippy::unwrap_used,
    dead_code,
    reason = "a failed step fails the test; what is shared is not all used here"
)]

#[path = "../fuzz/body.rs"]
mod body;
mod support;

use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use support::read;

const TEXTS: [&str; 9] = [
    "cli 42/43 [000] 1.5: 1 cpu/mem-loads,ldlat=20/P: 7f3a00001000 f+0x1 (/x.so) 1a05080144 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK N/A 61\n# c\n\n42 1.5: 7f00\n",
    "==1== Lackey\nI  04001000,3\n L 1ffeff,8\n S 04036000,4\n M 04036004,4\n",
    "base_time_absolute: 8 m 59.809 s\nmonitoring_start: 0 ns\nmonitoring_end: 104.599 ms\n563ebaa00000-563ebc99e000(  31.617 MiB):\t1\n",
    "{\"run_id\":\"r\",\"sample_id\":0,\"timestamp_ns\":5,\"address\":18446744073709551615,\"address_page\":0,\"op_type\":\"load\",\"symbol\":\"f\"}\n",
    "{\"regions\": [{\"addr_start\": 0, \"addr_end\": 18446744073709551615, \"region_type\": \"weight\", \"from_ns\": 3}], \"phase_boundaries\": [{\"phase\": \"p\", \"start_ns\": -5, \"end_ns\": 9}]}",
    "v 10400 3\nx 2 /a\nX ./a\nm 1 x 400000 0 2000\nt 401136 0\n+ 40 1 7f0010\nc 64\n- 7f0010\n",
    "v 10400 3\nX ./a\ns 2 /a\ns 4 keep\ni 401136 1 2\nt 1 0\na 40 1\n+ 0\nc 64\n- 0\n",
    "5 munmap 0x7f0000001000 8192\n9 mmap 7f0000000000 65536\n7 munmap ffffffffffffe000 8192\n",
    "{\"base_address\": 4096, \"block_bytes\": 256, \"blocks\": [{\"block_id\": 2, \"alloc_ns\": 5, \"free_ns\": 9}, {\"block_id\": 3}]}",
];

/// A small trace as Parquet.
fn packed(codec: Compression) -> Vec<u8> {
    let numbers = |step: u64| -> ArrayRef {
        let values = (0..300).map(|at| at * step);
        Arc::new(UInt64Array::from_iter_values(values))
    };
    let ops: ArrayRef = Arc::new(StringArray::from(vec!["load"; 300]));
    let columns = [
        ("timestamp_ns", numbers(1000)),
        ("address", numbers(64)),
        ("op_type", ops),
    ];
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_compression(codec).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.into_inner().unwrap()
}

/// Healthy inputs to be damaged.
static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut seeds: Vec<Vec<u8>> = TEXTS.iter().map(|text| text.as_bytes().to_vec()).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/memtrace");
    for name in ["demo.gguf", "demo.safetensors", "mapped.maps.txt"] {
        seeds.push(read(&folder.join(name)));
    }
    seeds.push(
        b"run_id,sample_id,timestamp_ns,address,address_page,op_type\nr,0,5,4096,1,\"lo\"\"ad\"\n"
            .to_vec(),
    );
    for codec in [
        Compression::ZSTD(ZstdLevel::default()),
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::BROTLI(BrotliLevel::default()),
    ] {
        seeds.push(packed(codec));
    }
    // Real recordings are more seeds, where they are at hand.
    let real = test_data::root().join("memtrace/real");
    if real.is_dir() {
        seeds.push(read(&real.join("bp.perf.data")));
        let memray = read(&real.join("numpy_infer.memray.bin"));
        // What is packed breaks at once, so it is damaged within.
        let mut plain = Vec::new();
        let mut frame = lz4_flex::frame::FrameDecoder::new(&memray[..]);
        std::io::Read::read_to_end(&mut frame, &mut plain).unwrap();
        plain.truncate(16 << 10);
        seeds.push(plain);
    }
    seeds
});

fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let numbers =
        prop::sample::select(&[0_u64, 1, 0x7f, 0xff, 1 << 31, 1 << 32, 1 << 63, u64::MAX][..]);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), numbers, 0..10_usize), 0..6);
    let seed = any::<prop::sample::Index>();
    // Headers are short, so half of the damage is done there.
    (
        seed,
        edits,
        any::<bool>(),
        any::<prop::sample::Index>(),
        0..4_u8,
    )
        .prop_map(|(seed, edits, in_header, cut, cuts)| {
            let mut bytes = seed.get(&SEEDS).clone();
            for (at, number, width) in edits {
                let room = if in_header {
                    bytes.len().min(300)
                } else {
                    bytes.len()
                };
                if room == 0 {
                    break;
                }
                let at = at.index(room);
                let end = (at + width).min(bytes.len());
                let number = number.to_le_bytes();
                bytes.splice(at..end, number.into_iter().take(width.max(1)));
            }
            if cuts == 0 && !bytes.is_empty() {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damage_breaks_nothing(bytes in damaged()) {
        body::try_all(&bytes);
    }
}
