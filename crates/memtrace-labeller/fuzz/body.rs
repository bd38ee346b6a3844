//! What is done with arbitrary bytes: read as every format of traces and labelled, and read as every file beside a trace.
//! Shared by the fuzz target and the test with damaged inputs.

use byte_source::{OpenOptions, Source};
use memtrace_labeller::{
    Access, InputFormat, InputOptions, LabelOptions, Labeller, MapsSnapshot, ModelFile, Names,
    Phases, RowStream, RuleSet, TensorTable, boundaries_from_json, kv_table_from_json,
    ranges_from_json, ranges_of_maps, unmaps_from_log,
};

/// Neither panics nor hangs, and every row is counted.
pub(crate) fn try_all(data: &[u8]) {
    beside(data);
    for format in InputFormat::ALL {
        // Parquet is read by a crate that others fuzz.
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
            rows(data, &options);
            // The others have one grammar.
            if format != InputFormat::PerfScript {
                break;
            }
        }
    }
    rows(data, &InputOptions::default());
}

fn rows(data: &[u8], options: &InputOptions) {
    let mut open = OpenOptions::default();
    open.pass_foreign = true;
    let Ok(source) = Source::from_bytes_with("bytes", data.to_vec(), &open) else {
        return;
    };
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
    if let Ok(snapshots) = MapsSnapshot::read("maps", data) {
        let _ = ranges_of_maps(&snapshots, &[]);
    }
    if let Ok(table) = TensorTable::read("model", data, Some(data.len() as u64)) {
        for pair in table.tensors.windows(2) {
            assert!(pair[0].offset <= pair[1].offset);
        }
        let maps = b"1000-200000 r--s 00000000 00:00 1 /m\n";
        let snapshots = MapsSnapshot::read("maps", maps).unwrap_or_default();
        let ranges = ranges_of_maps(&snapshots, &[ModelFile::new("m", table)]);
        // Every address of the mapping once.
        let covered = ranges.iter().map(|range| range.addr_end - range.addr_start);
        assert_eq!(covered.sum::<u64>(), 0x1f_f000);
    }
    if let Ok(ranges) = ranges_from_json("ranges", data) {
        for options in [LabelOptions::native(), LabelOptions::mrm()] {
            Labeller::new(options).register_address_ranges(&ranges, &mut Names::new());
        }
    }
    if let Ok(ranges) = kv_table_from_json("blocks", data) {
        Labeller::new(LabelOptions::native()).register_address_ranges(&ranges, &mut Names::new());
    }
    if let Ok(unmaps) = unmaps_from_log("log", data) {
        let mut labeller = Labeller::new(LabelOptions::native());
        labeller.register_unmaps(&unmaps);
        for unmap in unmaps.iter().take(64) {
            let mut row = Access::new(unmap.time_ns, unmap.start);
            assert!(labeller.label(&mut row, &mut Names::new()).is_ok());
        }
    }
    if let Ok(list) = boundaries_from_json("phases", data) {
        let _ = Phases::new(&list, &mut Names::new());
    }
    let _ = RuleSet::from_yaml(&String::from_utf8_lossy(data));
}
