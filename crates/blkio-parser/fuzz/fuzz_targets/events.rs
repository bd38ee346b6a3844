//! Reads arbitrary bytes as every format, and as every kind of secondary file.
#![no_main]

use blkio_parser::analyse::user_phases::Named;
use blkio_parser::{Format, Stats, StatsOptions, detect};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = detect(data);
    let _ = blkio_companions::gpu::GpuLog::parse("gpu", data);
    let _ = blkio_companions::engine::EngineLog::parse(data).identities();
    let _ = blkio_companions::fio::FioResult::parse("fio", data);
    let _ = blkio_report::stacks::Stacks::parse(data).folded();
    let _ = blkio_companions::latency_histogram::parse(data);
    let _ = blkio_companions::deepnvme::parse(data);
    let path = std::env::temp_dir().join(format!("blkio-fuzz-{}", std::process::id()));
    if std::fs::write(&path, data).is_err() {
        return;
    }
    for format in Format::ALL {
        let mut options = StatsOptions::default();
        options.read.format = Some(format);
        options.phases = vec![Named {
            name: "a".to_owned(),
            start_ns: 1,
            end_ns: 1 << 40,
        }];
        if let Ok(mut stats) = Stats::of_files(std::slice::from_ref(&path), &options) {
            let options = blkio_report::document::DocumentOptions::default();
            let document = blkio_report::document::stats(&mut stats, &options);
            assert!(document.is_object());
        }
    }
});
