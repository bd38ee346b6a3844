//! List of the contents of `testdata/`, with generator and seed.

use super::{Fixture, corner, demo, mapped, offload, pair, perfetto, rocpd, serving, steps};
use anyhow::Result;

/// A fixture and its origin.
pub(crate) struct Made {
    pub(crate) fixture: Fixture,
    pub(crate) generator: &'static str,
    pub(crate) seed: u64,
}

/// Generates the files of one generator.
type Build = fn(u64) -> Vec<Fixture>;

/// Name, seed, function. The name is the module's.
const GENERATORS: &[(&str, u64, Build)] = &[
    ("corner", 7_919, corner::build),
    ("demo", 20_251, demo::build),
    ("mapped", 4_242, mapped::build),
    ("offload", 2_026, offload::build),
    ("pair", 1, pair::build),
    ("perfetto", 0, perfetto::build),
    ("serving", 3, serving::build),
    ("steps", 11, steps::build),
];

/// Seed of the databases, which a separate process generates.
const ROCPD_SEED: u64 = 6_161;

/// Returns all fixtures, sorted by path.
pub(crate) fn all() -> Result<Vec<Made>> {
    let mut all = build();
    let databases = rocpd::fixtures(ROCPD_SEED)?;
    all.extend(databases.into_iter().map(|fixture| Made {
        fixture,
        generator: "rocpd",
        seed: ROCPD_SEED,
    }));
    all.sort_by(|a, b| a.fixture.path.cmp(&b.fixture.path));
    Ok(all)
}

/// Returns all fixtures that this program generates itself, sorted by path.
fn build() -> Vec<Made> {
    let mut all: Vec<Made> = Vec::new();
    for &(generator, seed, build) in GENERATORS {
        all.extend(build(seed).into_iter().map(|fixture| Made {
            fixture,
            generator,
            seed,
        }));
    }
    all.sort_by(|a, b| a.fixture.path.cmp(&b.fixture.path));
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_runs_make_the_same_bytes_and_stay_small() {
        let (a, b) = (super::build(), super::build());
        assert_eq!(a.len(), b.len());
        for (a, b) in a.iter().zip(&b) {
            assert_eq!(
                (&a.fixture.path, &a.fixture.bytes),
                (&b.fixture.path, &b.fixture.bytes)
            );
        }
        assert!(
            a.windows(2)
                .all(|pair| pair[0].fixture.path < pair[1].fixture.path),
            "a path is made twice"
        );
        assert!(a.iter().map(|made| made.fixture.bytes.len()).sum::<usize>() < 2 << 20);
    }
}
