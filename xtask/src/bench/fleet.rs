//! Measures `inferscope fleet` on generated jobs of 10, 100 and 1,000 ranks.

use super::measure::{Sample, once};
use super::{built, machine, save};
use crate::options::Options;
use crate::workspace::{cargo, root, run as run_command};
use anyhow::{Context as _, Result, ensure};
use serving_synth::fleet::{Fleet, PER_HOST};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Numbers of ranks, unless others are asked for.
const RANKS: [u32; 3] = [10, 100, 1000];

/// Bytes of a rank, unless others are asked for.
const SIZE: u64 = 1_000_000;

/// Hosts from which on a job has all differences planted.
const PLANTED_HOSTS: u32 = 8;

/// Planted differences: a rank with a slow device, a host with a slow link, a rank with another kernel, a host with another clock.
const SLOW_RANK: u32 = 3;
const SLOW_LINK_HOST: u32 = 5;
const OTHER_RANK: u32 = 30;
const CLOCK_HOST: u32 = 2;

/// Ranks and bytes of each to which the results are extrapolated.
const LARGE: (f64, f64) = (10_000.0, 100e6);

/// Measurement of one job.
struct Row {
    ranks: u32,
    /// Bytes of all recordings.
    bytes: u64,
    /// Bytes of all summaries.
    summaries: u64,
    /// All recordings are read.
    whole: Sample,
    /// Summaries are there: the recordings are hashed, and the ranks compared.
    again: Sample,
    /// How many of the planted differences are named.
    found: String,
}

/// `cargo xtask bench --fleet [--ranks N,N,...] [--size BYTES] [--program FILE] [--save]`.
pub(super) fn run(options: &Options) -> Result<()> {
    let size = options.number("size")?.unwrap_or(SIZE);
    let ranks: Vec<u32> = match options.value("ranks") {
        None => RANKS.into(),
        Some(text) => {
            let numbers = text.split(',').map(str::parse);
            numbers
                .collect::<Result<_, _>>()
                .context("--ranks N,N,...")?
        }
    };
    ensure!(
        ranks.iter().all(|ranks| (2..=100_000).contains(ranks)),
        "--ranks has numbers from 2 to 100,000"
    );
    let program = match options.value("program") {
        Some(path) => PathBuf::from(path),
        None => {
            let mut build = cargo(&["build", "--profile", "dist"]);
            run_command(build.args(["--bin", "inferscope-fleet"]))?;
            built().join("inferscope-fleet")
        }
    };
    let folder = root().join("target/bench-data/fleet");
    let mut rows = Vec::new();
    for ranks in ranks {
        rows.push(one(&program, &folder, ranks, size)?);
    }
    fs::remove_dir_all(&folder)?;
    let text = format!("{}\n\n{}", machine(1)?, report(&rows));
    println!("\n{text}");
    if options.flag("save") {
        save("measured-fleet", &text)?;
    }
    Ok(())
}

/// Generates a job and measures it; the recordings are deleted after.
fn one(program: &Path, folder: &Path, ranks: u32, size: u64) -> Result<Row> {
    println!("{ranks} ranks");
    let (job, out) = (folder.join("job"), folder.join("out"));
    for path in [&job, &out] {
        if path.exists() {
            fs::remove_dir_all(path)?;
        }
    }
    let bytes = generate(&job, ranks, size)?;
    let command = || {
        let mut command = Command::new(program);
        command.arg("-q").arg(&job).arg("-o").arg(&out);
        command
    };
    // The recordings were written just now, so they are in the page cache.
    let whole = once(&command())?;
    let again = once(&command())?;
    let mut summaries = 0;
    for entry in fs::read_dir(out.join("summaries/ranks"))? {
        summaries += entry?.metadata()?.len();
    }
    let found = found(&out, ranks)?;
    fs::remove_dir_all(&job)?;
    Ok(Row {
        ranks,
        bytes,
        summaries,
        whole,
        again,
        found,
    })
}

/// Returns the differences that are planted in a job: the kinds that name one, and its ranks.
fn planted(ranks: u32) -> Vec<(&'static [&'static str], Vec<u32>)> {
    let host = |host: u32| (host * PER_HOST..(host + 1) * PER_HOST).collect::<Vec<_>>();
    let mut all: Vec<(&'static [&'static str], Vec<u32>)> =
        vec![(&["late_rank", "slow_device"], vec![SLOW_RANK])];
    if ranks.div_ceil(PER_HOST) >= PLANTED_HOSTS {
        all.push((&["slow_link"], host(SLOW_LINK_HOST)));
        all.push((&["other_kernels"], vec![OTHER_RANK]));
        all.push((&["host_clock"], host(CLOCK_HOST)));
    }
    all
}

/// Compares the answer with what is planted: how many differences are named, and how many findings are of no planted one. That
/// recordings are missing is true of the last host, which is not whole.
fn found(out: &Path, ranks: u32) -> Result<String> {
    let text = fs::read_to_string(out.join("fleet.json"))?;
    let answer: serde_json::Value = serde_json::from_str(&text)?;
    let findings = answer["findings"].as_array().cloned().unwrap_or_default();
    let said: Vec<(String, Vec<u64>)> = findings
        .iter()
        .filter(|finding| finding["kind"] != "missing_rank")
        .map(|finding| {
            let kind = finding["kind"].as_str().unwrap_or_default().to_owned();
            let ranks = finding["ranks"].as_array().into_iter().flatten();
            (kind, ranks.filter_map(serde_json::Value::as_u64).collect())
        })
        .collect();
    let planted = planted(ranks);
    let is = |(kinds, ranks): &(&[&str], Vec<u32>), (kind, said): &(String, Vec<u64>)| {
        kinds.contains(&kind.as_str())
            && said.iter().copied().eq(ranks.iter().map(|r| u64::from(*r)))
    };
    let named = planted.iter().filter(|p| said.iter().any(|s| is(p, s)));
    let other = said.iter().filter(|s| !planted.iter().any(|p| is(p, s)));
    let (named, other) = (named.count(), other.count());
    Ok(format!("{named} of {}, {other} others", planted.len()))
}

/// Writes a job, and returns its bytes.
fn generate(folder: &Path, ranks: u32, size: u64) -> Result<u64> {
    // Whole hosts; those beyond the wanted ranks are not written.
    let hosts = ranks.div_ceil(PER_HOST).max(2);
    let mut job = Fleet {
        ranks: hosts * PER_HOST,
        slow_gpu: Some((SLOW_RANK, 1250)),
        ..Fleet::default()
    };
    if hosts >= PLANTED_HOSTS {
        job.slow_link = Some((SLOW_LINK_HOST, 3000));
        job.other_kernel = Some(OTHER_RANK);
        job.clock = Some((CLOCK_HOST, -52_000_000));
    }
    let of = |job: &Fleet| job.timeline().rank(0).len() as u64;
    // Half of a recording are kernels and their launches, the other half functions of the host.
    while of(&job) < size / 2 {
        job.steps += job.steps.div_ceil(4);
    }
    let bare = of(&job);
    job.padding = 1;
    let each = of(&job).saturating_sub(bare).max(1);
    job.padding = u32::try_from(size.saturating_sub(bare) / each)?;
    let line = job.timeline();
    let mut bytes = 0;
    for rank in 0..ranks {
        let path = folder.join(Fleet::name(rank));
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        let text = line.rank(rank);
        bytes += text.len() as u64;
        fs::write(path, text)?;
    }
    Ok(bytes)
}

#[expect(clippy::cast_precision_loss, reason = "file sizes are far below 2^53")]
fn report(rows: &[Row]) -> String {
    let mut out = String::from(
        "| ranks | MB | wall s | CPU s | peak MB | exponent of CPU | TB per hour and core | bytes of a summary | repeated: CPU s | peak MB | planted differences named |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let rate = |row: &Row| row.bytes as f64 / row.whole.cpu_s.max(0.01);
    let exponent = |before: Option<&Row>, row: &Row, of: fn(&Row) -> f64| {
        let before = before?;
        let ranks = f64::from(row.ranks) / f64::from(before.ranks);
        Some((of(row).max(0.01) / of(before).max(0.01)).ln() / ranks.ln())
    };
    for (at, row) in rows.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| rows.get(at));
        let grows = exponent(before, row, |row| row.whole.cpu_s);
        let _ = writeln!(
            out,
            "| {} | {:.0} | {:.2} | {:.2} | {} | {} | {:.3} | {} | {:.2} | {} | {} |",
            row.ranks,
            row.bytes as f64 / 1e6,
            row.whole.wall_s,
            row.whole.cpu_s,
            row.whole.peak_kb / 1000,
            grows.map_or_else(|| "-".to_owned(), |n| format!("{n:.2}")),
            rate(row) * 3600.0 / 1e12,
            row.summaries / u64::from(row.ranks),
            row.again.cpu_s,
            row.again.peak_kb / 1000,
            row.found,
        );
    }
    let last_two = rows.len().checked_sub(2).and_then(|at| rows.get(at..));
    if let Some([before, last]) = last_two {
        let (ranks, size) = LARGE;
        let cpu = ranks * size / rate(last);
        let times = ranks / f64::from(last.ranks);
        let grown = |of: fn(&Row) -> f64| {
            let power = exponent(Some(before), last, of).unwrap_or(1.0);
            of(last) * times.powf(power.max(1.0))
        };
        let _ = write!(
            out,
            "\nExtrapolated, not measured: 10,000 ranks of 100 MB (1 TB) are {:.1} CPU hours for the summaries at the rate of the last row. A \
             repeated call over 10,000 ranks of the size measured is {:.0} CPU seconds (hashes of the recordings and the comparison) and {:.1} GB \
             of memory, by its growth between the last two rows (at least linear).\n",
            cpu / 3600.0,
            grown(|row| row.again.cpu_s),
            grown(|row| row.again.peak_kb as f64) / 1e6,
        );
    }
    out
}
