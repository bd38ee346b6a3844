//! Reads arbitrary bytes as a dump of PyTorch, and answers from it.
#![no_main]

use byte_source::Source;
use libfuzzer_sys::fuzz_target;
use torch_dumps::{Dump, flight, memory, read};

fuzz_target!(|data: &[u8]| {
    let Ok(source) = Source::from_bytes("rank0", data.to_vec()) else {
        return;
    };
    match read(source) {
        Ok(Dump::Memory(snapshot)) => {
            let answers = [memory::Answer::new("fuzzed".to_owned(), snapshot, 3)];
            let [answer] = &answers;
            for device in &answer.devices {
                let _ = device.sentence(&answer.snapshot);
                let _ = device.lines(&answer.snapshot);
            }
            let _ = memory::tables::holders(&answers);
        }
        Ok(Dump::Flight(dump)) => {
            if let Ok(job) = flight::Job::new(vec![dump]) {
                let _ = job.sentence();
                let _ = job.lines();
                let _ = flight::tables::groups(&job);
            }
        }
        Err(_) => {}
    }
});
