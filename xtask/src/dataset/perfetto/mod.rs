//! Perfetto protobuf traces, encoded by hand from the field numbers of the public schema.

mod rocprof;
mod sdk;
mod writer;

use super::Fixture;

/// Returns all files of `testdata/perfetto/`.
pub(crate) fn build(_seed: u64) -> Vec<Fixture> {
    let mut files = Vec::new();
    files.extend(sdk::build());
    files.extend(rocprof::build());
    files
}
