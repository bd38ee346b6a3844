//! One pair of recordings with a fault: the same engine before and after a change that made its
//! sampler slower.
//!
//! Planted: `Sampler.forward` computes longer on the host in each step; everything else is
//! unchanged.

use super::Fixture;
use super::faults::sampler_pair;

pub(crate) fn build(seed: u64) -> Vec<Fixture> {
    let pair = sampler_pair(seed);
    vec![
        Fixture::gzip(
            "pair/normal/result.json.gz",
            "steps of an engine before a change",
            pair.normal.as_bytes(),
        ),
        Fixture::gzip(
            "pair/abnormal/result.json.gz",
            "the same engine after the change: its sampler takes longer on the host",
            pair.abnormal.as_bytes(),
        ),
        Fixture::plain("pair/truth.json", "what was changed", pair.truth),
    ]
}
