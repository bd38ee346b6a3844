//! Opens arbitrary bytes, visits all members and reads each to its end.
//!
//! Run with `cargo fuzz run open` in `crates/byte-source`.
#![no_main]

use byte_source::{ChunkOptions, Members, OpenOptions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut options = OpenOptions::default();
    options.limits.max_uncompressed_bytes = 16 << 20;
    options.limits.max_decoder_bytes = 16 << 20;
    let Ok(members) = Members::from_bytes("fuzz", data.to_vec(), &options) else {
        return;
    };
    let mut chunk_options = ChunkOptions::default();
    chunk_options.size = 64 << 10;
    for mut source in members.take(64).flatten() {
        let Ok(head) = source.head(100).map(<[u8]>::to_vec) else {
            continue;
        };
        let access = source.random_access();
        let Ok(mut chunks) = source.into_chunks(chunk_options) else {
            continue;
        };
        let mut all = Vec::new();
        let result = loop {
            match chunks.next() {
                Ok(Some(chunk)) => {
                    assert_eq!(chunk.offset(), all.len() as u64);
                    all.extend_from_slice(&chunk);
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        assert!(all.starts_with(&head) || head.starts_with(&all));
        if let (Some(access), Ok(())) = (access, result) {
            assert_eq!(access.len(), all.len() as u64);
        }
    }
});
