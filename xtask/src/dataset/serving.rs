//! Jobs with planted faults: a folder for each, with a recording per rank, logs beside them, and the truth.

use super::Fixture;
use crate::options::Options;
use anyhow::{Context as _, Result, bail, ensure};
use serving_synth::jobs::{Fault, Job};
use std::path::Path;

/// The jobs of `testdata/`: name, faults, what they show.
const SMALL: [(Fault, &str); 4] = [
    (
        Fault::None,
        "two ranks that decode at four fifths of the bandwidth of their devices",
    ),
    (Fault::LateHost, "one host is late in each step"),
    (Fault::DiskReads, "each step waits for reads of a disk"),
    (Fault::Collector, "the garbage collector runs now and then"),
];

/// Returns the files of the small jobs.
pub(super) fn build(seed: u64) -> Vec<Fixture> {
    let mut files = Vec::new();
    for (fault, shows) in SMALL {
        let job = Job {
            ranks: 2,
            steps: 16,
            layers: 8,
            seed,
            size: 50,
            fault,
        };
        let made = job.make();
        let folder = format!("serving/{}", fault.name());
        for file in &made.ranks {
            let path = format!("{folder}/{}.gz", file.name);
            files.push(Fixture::gzip(&path, shows, file.text.as_bytes()));
        }
        for file in made.beside {
            let path = format!("{folder}/{}", file.name);
            files.push(Fixture::plain(&path, "the reads of that job", file.text));
        }
        files.push(Fixture::truth(&format!("{folder}/job"), &made.truth.json()));
    }
    files
}

/// `cargo xtask dataset serving --output FOLDER [--ranks N] [--steps N] [--layers N] [--seed N] [--size PERCENT] [FAULT...]`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = options
        .value("output")
        .context("--output FOLDER is missing: where should the recordings go?")?;
    let number = |name, default| -> Result<u64> { Ok(options.number(name)?.unwrap_or(default)) };
    let ranks = number("ranks", 2)?;
    ensure!(
        (1..=64).contains(&ranks),
        "--ranks is a number from 1 to 64"
    );
    let job = Job {
        ranks: usize::try_from(ranks)?,
        steps: usize::try_from(number("steps", 24)?)?,
        layers: i64::try_from(number("layers", 16)?)?,
        seed: number("seed", 1)?,
        size: i64::try_from(number("size", 100)?)?,
        ..Job::default()
    };
    let names = &options.words[1..];
    for name in names {
        if !Fault::ALL.iter().any(|fault| fault.name() == name) {
            let known: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
            bail!("unknown fault {name:?}; known: {}", known.join(", "));
        }
    }
    let wanted = Fault::ALL
        .iter()
        .filter(|fault| names.is_empty() || names.iter().any(|name| name == fault.name()));
    for &fault in wanted {
        // Kernel by kernel, eight hosts are slower than their devices: the fault would not show.
        if fault.needs_ranks() && job.ranks < 2 || fault.is_eager() && job.ranks > 2 {
            continue;
        }
        let made = Job { fault, ..job }.make();
        let folder = Path::new(folder).join(fault.name());
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        for file in made.ranks.iter().chain(&made.beside) {
            let path = folder.join(&file.name);
            std::fs::write(&path, &file.text)
                .with_context(|| format!("writing {}", path.display()))?;
        }
        let truth = made.truth.json();
        std::fs::write(folder.join("truth.json"), truth.pretty())?;
        println!("{}: {}", fault.name(), truth.line());
    }
    Ok(())
}
