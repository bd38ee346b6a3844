//! Reads a trace and prints its number of rows, the time taken and the memory used.
//!
//! `cargo run --release -p inferscope-perfetto-reader --example read_stats -- FILE [all|none|KEY,KEY...] [threads]`

#![expect(clippy::print_stdout, reason = "this is what the example is for")]

use std::error::Error;
use std::time::Instant;

use byte_source::{OpenOptions, Source};
use perfetto_reader::{ArgPolicy, ReadOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("name a trace file")?;
    let mut options = ReadOptions::default();
    options.args = match args.next().as_deref() {
        None | Some("all") => ArgPolicy::All,
        Some("none") => ArgPolicy::None,
        Some(keys) => ArgPolicy::Only(keys.split(',').map(str::to_owned).collect()),
    };
    options.threads = args.next().map_or(Ok(0), |n| n.parse())?;
    if let Some(bytes) = std::env::var_os("CHUNK_BYTES") {
        options.chunk_bytes = bytes.to_string_lossy().parse()?;
    }

    let start = Instant::now();
    let source = Source::open(path, &OpenOptions::default())?;
    let trace = perfetto_reader::read(source, &options)?;
    let wall = start.elapsed();

    let events: u64 = trace.meta().records.iter().map(|(_, n)| n).sum();
    println!("bytes    {}", trace.meta().input_bytes);
    println!("events   {events}");
    println!("slices   {}", trace.len());
    println!("flows    {}", trace.flows().len());
    println!("store    {} bytes", trace.heap_bytes());
    println!("wall     {:.3} s", wall.as_secs_f64());
    // Linux only; elsewhere there is nothing to show.
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        for line in status.lines().filter(|l| l.starts_with("VmHWM")) {
            println!("{line}");
        }
    }
    for issue in trace.diagnostics().issues() {
        println!("{:<40} {}", issue.kind.name(), issue.count);
    }
    Ok(())
}
