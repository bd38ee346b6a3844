//! Names of output files, and exit codes of conversions.

use cli::{OrExit as _, Outcome};
use rocpd_convert::{Destination, PathKeys};

use crate::args::SharedArgs;

/// Returns the destination of outputs: from the arguments, else the environment, else the defaults.
pub(crate) fn destination(shared: &SharedArgs, default_base: &str) -> anyhow::Result<Destination> {
    let keys = PathKeys::of_process();
    let or_env = |given: &Option<String>, variable: &str, default: &str| {
        given
            .clone()
            .or_else(|| std::env::var(variable).ok().filter(|v| !v.is_empty()))
            .unwrap_or_else(|| default.to_owned())
    };
    let folder = or_env(
        &shared.output_path,
        "ROCPD_OUTPUT_PATH",
        "./rocpd-output-data",
    );
    let base = or_env(&shared.output_file, "ROCPD_OUTPUT_NAME", default_base);
    Ok(Destination::new(
        keys.expand(&folder),
        keys.expand(&base),
        rocpd_db::expand(&shared.input.paths())?,
    ))
}

/// Maps an error of a conversion to the exit code of its kind.
pub(crate) fn converted<T>(result: rocpd_convert::Result<T>) -> anyhow::Result<T> {
    match result {
        // Closed pipes are no errors: the cause must stay the outermost.
        Err(rocpd_convert::Error::Write(error)) => Err(error).or_exit(Outcome::OutputFailed),
        Err(error) if error.is_option() => Err(error).or_exit(Outcome::Usage),
        Err(error) if error.is_output() => Err(error).or_exit(Outcome::OutputFailed),
        other => Ok(other?),
    }
}
