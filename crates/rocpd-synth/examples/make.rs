//! Writes databases: `make FOLDER [dispatches=N] [ranks=N] [nodes=N] [seed=N] [generation=N] [equal_pids=1] [counters=N]`.
//!
//! The truth about each database is written to `*.truth.json`.

use std::io::Write as _;
use std::path::PathBuf;

use rocpd_synth::{Shape, generate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let folder = PathBuf::from(words.next().ok_or("where to? make FOLDER [key=value]...")?);
    let mut shape = Shape::small();
    for word in words {
        let (key, value) = word.split_once('=').ok_or("options are key=value")?;
        let value: u64 = value.parse()?;
        let small = u32::try_from(value)?;
        match key {
            "dispatches" => {
                shape = Shape {
                    ranks: shape.ranks,
                    nodes: shape.nodes,
                    seed: shape.seed,
                    ..Shape::large(small)
                }
            }
            "ranks" => shape.ranks = small,
            "nodes" => shape.nodes = small,
            "seed" => shape.seed = value,
            "counters" => shape.counter_instances = small,
            "generation" => shape.generation = small,
            "equal_pids" => shape.equal_pids = value != 0,
            _ => return Err(format!("unknown option {key}").into()),
        }
    }
    let mut out = std::io::stdout().lock();
    for made in generate(&folder, &shape)? {
        let bytes = std::fs::metadata(&made.path)?.len();
        let mut truth = serde_json::to_vec_pretty(&made.truth)?;
        truth.push(b'\n');
        std::fs::write(made.path.with_extension("truth.json"), truth)?;
        writeln!(
            out,
            "{}: {} dispatches, {} regions, {bytes} bytes",
            made.path.display(),
            made.truth.dispatches + made.truth.lost_dispatches,
            made.truth.regions
        )?;
    }
    Ok(())
}
