//! Generates traces of all ranks of one job, of any number and length, for measurements.

use super::demo;
use crate::options::Options;
use anyhow::{Context as _, Result, ensure};
use serving_synth::kineto;
use std::path::Path;

/// `cargo xtask dataset job --output FOLDER [--ranks N] [--steps N] [--seed N]`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = options
        .value("output")
        .context("--output FOLDER is missing: where should the traces go?")?;
    let ranks = options.number("ranks")?.unwrap_or(8);
    let steps = options.number("steps")?.unwrap_or(8);
    let seed = options.number("seed")?.unwrap_or(1);
    ensure!(
        (2..=1024).contains(&ranks),
        "--ranks is a number from 2 to 1024"
    );
    let ranks = i64::try_from(ranks)?;
    let sim = demo::job(ranks, steps, seed);
    std::fs::create_dir_all(folder).with_context(|| format!("making {folder}"))?;
    let (mut events, mut bytes) = (0, 0);
    for rank in &sim.ranks {
        let path = Path::new(folder).join(format!("job-rank{}.json", rank.index));
        let written = kineto::write(rank, ranks, &demo::recorder(rank));
        std::fs::write(&path, &written.text)
            .with_context(|| format!("writing {}", path.display()))?;
        events += written.events;
        bytes += written.text.len();
    }
    println!("{folder}: {ranks} ranks, {steps} steps, {events} events, {bytes} bytes");
    Ok(())
}
