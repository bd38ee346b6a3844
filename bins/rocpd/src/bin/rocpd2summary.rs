//! Another name of `rocpd summary`.

use std::process::ExitCode;

fn main() -> ExitCode {
    rocpd::main()
}
