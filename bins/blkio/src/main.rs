//! Block I/O of model and KV-cache offloading, from trace to figures.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(blkio::main_from(std::env::args_os()))
}
