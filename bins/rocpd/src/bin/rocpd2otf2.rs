//! Another name of `rocpd convert -f otf2`.

use std::process::ExitCode;

fn main() -> ExitCode {
    rocpd::main()
}
