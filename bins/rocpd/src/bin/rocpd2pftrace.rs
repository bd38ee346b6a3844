//! Another name of `rocpd convert -f pftrace`.

use std::process::ExitCode;

fn main() -> ExitCode {
    rocpd::main()
}
