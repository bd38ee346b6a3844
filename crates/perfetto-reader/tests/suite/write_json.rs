//! Tests that real traces of PyTorch, read as JSON and written as protobuf, read back unchanged.

use std::path::Path;

use crate::write_support::{assert_same, written};
use byte_source::{OpenOptions, Source};
use perfetto_reader::ReadOptions;

fn check(path: &Path) {
    let source = Source::open(path, &OpenOptions::default()).expect("a recording");
    let before = perfetto_reader::read(source, &ReadOptions::default()).expect("a trace");
    assert!(before.len() > 10, "{} has slices", path.display());
    let after = written(&before);
    assert_same(&before, &after);
    assert_eq!(before.meta().base_time_ns, after.meta().base_time_ns);
}

#[test]
fn the_demonstration_trace_reads_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/demo");
    check(&folder.join("demo-rank0.json.gz"));
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn real_traces_read_back() {
    let entries = std::fs::read_dir(test_data::reference("perfetto/traces")).unwrap();
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        check(&path);
    }
}
