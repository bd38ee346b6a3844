//! Reads arbitrary bytes as every format of traces, labels what comes of it, and reads them as every file beside a trace.
#![no_main]

use byte_source::{OpenOptions, Source};
use libfuzzer_sys::fuzz_target;
use memtrace_labeller::{
    InputFormat, InputOptions, LabelOptions, Labeller, MapsSnapshot, ModelFile, Names, Phases,
    RowStream, RuleSet, TensorTable, boundaries_from_json, ranges_from_json, ranges_of_maps,
};

fuzz_target!(|data: &[u8]| {
    beside(data);
    let mut open = OpenOptions::default();
    open.pass_foreign = true;
    // Parquet is read by a crate that others fuzz.
    for format in InputFormat::ALL {
        if format == InputFormat::Parquet {
            continue;
        }
        for mut options in [
            InputOptions::default(),
            InputOptions::mrm_010(),
            InputOptions::mrm_023(),
        ] {
            options.format = Some(format);
            options.split_bytes = 64;
            let Ok(source) = Source::from_bytes_with("fuzz", data.to_vec(), &open) else {
                return;
            };
            rows(source, &options);
            if format != InputFormat::PerfScript {
                break;
            }
        }
    }
});

fn rows(source: Source, options: &InputOptions) {
    let mut names = Names::new();
    let Ok(mut stream) = RowStream::open(source, options) else {
        return;
    };
    let mut labeller = Labeller::new(LabelOptions::native());
    let mut rows = Vec::new();
    while let Ok(true) = stream.next_batch(&mut names, &mut rows) {}
    for row in &mut rows {
        assert!(labeller.label(row, &mut names).is_ok());
    }
    assert_eq!(stream.report().rows, rows.len() as u64);
}

fn beside(data: &[u8]) {
    let snapshots = MapsSnapshot::read("maps", data);
    if let Ok(table) = TensorTable::read("model", data, Some(data.len() as u64)) {
        for pair in table.tensors.windows(2) {
            assert!(pair[0].offset <= pair[1].offset);
        }
        let maps = b"1000-200000 r--s 00000000 00:00 1 /m\n";
        if let Ok(snapshots) = MapsSnapshot::read("maps", maps) {
            let ranges = ranges_of_maps(&snapshots, &[ModelFile::new("m", table)]);
            // Every address of the mapping once.
            let covered: u64 = ranges.iter().map(|range| range.addr_end - range.addr_start).sum();
            assert_eq!(covered, 0x1f_f000);
        }
    }
    if let Ok(snapshots) = snapshots {
        let _ = ranges_of_maps(&snapshots, &[]);
    }
    let _ = ranges_from_json("ranges", data);
    let mut names = Names::new();
    if let Ok(list) = boundaries_from_json("phases", data) {
        let _ = Phases::new(&list, &mut names);
    }
    let _ = RuleSet::from_yaml(&String::from_utf8_lossy(data));
}
