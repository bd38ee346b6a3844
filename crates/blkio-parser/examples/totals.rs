//! Prints what a trace comes to: `cargo run --release -p blkio-parser --example totals -- FILE...`

use std::path::PathBuf;

use blkio_parser::{Direction, Stats, StatsOptions};

fn main() -> Result<(), blkio_parser::Error> {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut options = StatsOptions::default();
    options.read.threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut stats = Stats::of_files(&files, &options)?;
    let mut lines = vec![format!("{} requests", stats.traffic.issues)];
    if let Some(access) = &stats.access {
        lines.push(format!(
            "{} blocks of 4 KiB",
            access.distinct_blocks().union
        ));
    }
    if let Some(pairs) = &mut stats.newest
        && let Some(p99) = pairs.latency[Direction::Read.slot()]
            .percentiles(&[99.0])
            .first()
    {
        lines.push(format!("99 % of reads take at most {p99} ns"));
    }
    #[expect(clippy::print_stdout, reason = "that is what the example is for")]
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}
