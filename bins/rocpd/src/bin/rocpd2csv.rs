//! Another name of `rocpd convert -f csv`.

use std::process::ExitCode;

fn main() -> ExitCode {
    rocpd::main()
}
