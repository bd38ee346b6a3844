//! Finds the host call stacks that launched the collective kernels of a trace.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(nccl_stacks::main_from(std::env::args_os()))
}
