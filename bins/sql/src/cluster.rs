//! `cluster scheduler` and `cluster executor`, and what a query needs of them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use cli::{Outcome, VerbosityArgs};
use trace_cluster::{Address, Client, ExecutorOptions};
use trace_sql::remote::Reader;
use trace_sql::{Cluster, Wanted};
use trace_tables::Recording;

use crate::args::SqlCli;
use crate::inputs::{self, Opening};

const HELP: &str = "\
Anyone who reaches the scheduler or an executor can read every file that the executors can:
bind to a private network. docs/guide/cluster.md has the whole picture.

Example:
  inferscope cluster scheduler --bind node1:50050
  inferscope cluster executor --scheduler node1:50050
  inferscope sql --cluster node1:50050 \"SELECT count(*) FROM kernels\" /shared/run/";

/// The processes of a cluster for `sql --cluster`: Ballista's scheduler and executors
#[derive(Debug, Parser)]
#[command(name = "cluster", version, after_help = HELP, max_term_width = 100)]
struct ClusterCli {
    #[command(subcommand)]
    process: Process,
}

#[derive(Debug, Subcommand)]
enum Process {
    /// Takes queries, and gives their tasks to executors
    Scheduler(SchedulerCli),
    /// Runs tasks: reads recordings and data sets, and exchanges rows with other executors
    Executor(ExecutorCli),
}

#[derive(Debug, Args)]
struct SchedulerCli {
    /// Accept connections at this address; port 0 is any that is free
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    bind: Address,
    #[command(flatten)]
    verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
struct ExecutorCli {
    /// The scheduler
    #[arg(long, value_name = "HOST:PORT")]
    scheduler: Address,
    /// Tasks at a time [default: all cores]
    #[arg(long, value_name = "N")]
    concurrent_tasks: Option<NonZeroUsize>,
    /// Folder for rows between tasks, as large as the queries sort and join [default: a temporary one]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    work_dir: Option<PathBuf>,
    /// Name or address by which other machines reach this one [default: the address towards the scheduler]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    #[command(flatten)]
    verbosity: VerbosityArgs,
}

/// Runs `cluster` with the words of a command line, the tool's name first. Returns the exit code.
pub fn main_from(words: impl IntoIterator<Item = OsString>) -> u8 {
    cli::main_from(words, run)
}

/// Returns the description of the command line, for help, completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    <ClusterCli as clap::CommandFactory>::command()
}

fn run(args: ClusterCli) -> anyhow::Result<Outcome> {
    let done = match args.process {
        Process::Scheduler(args) => trace_cluster::scheduler(&args.bind, |address: SocketAddr| {
            args.verbosity
                .note(format!("the scheduler accepts connections at {address}"));
        }),
        Process::Executor(args) => {
            let options = ExecutorOptions {
                scheduler: args.scheduler.clone(),
                tasks: args.concurrent_tasks.map_or(0, NonZeroUsize::get),
                work_dir: args.work_dir,
                host: args.host,
                reader: Arc::new(Recordings),
            };
            trace_cluster::executor(options, |address: SocketAddr| {
                args.verbosity.note(format!(
                    "the executor at {address} registers with the scheduler at {}",
                    args.scheduler
                ));
            })
        }
    };
    match done {
        Ok(()) => Ok(Outcome::Fine),
        Err(why) => Err(anyhow::anyhow!(why)),
    }
}

/// Returns the cluster of a query.
pub(crate) fn client(address: &Address) -> Arc<dyn Cluster> {
    Arc::new(Client::new(address.clone()))
}

/// Opens recordings on executors.
#[derive(Debug)]
struct Recordings;

/// Path, name and run of a file.
type Recipe = (String, String, Option<String>);

/// Returns how another process opens a file; `None` if it cannot.
pub(crate) fn recipe(opening: &Opening<'_>) -> Option<String> {
    // A URL is whole already.
    let whole = match byte_source::remote::is_url(opening.path) {
        true => opening.path.to_owned(),
        false => std::path::absolute(opening.path).ok()?,
    };
    if opening.name == "-" {
        return None;
    }
    let recipe: Recipe = (
        whole.to_str()?.to_owned(),
        opening.name.to_owned(),
        opening.run.map(str::to_owned),
    );
    serde_json::to_string(&recipe).ok()
}

/// Returns the options of the command line that matter for reading, one word a line.
pub(crate) fn options(input: &cli::InputArgs, compat: bool) -> String {
    let mut words = Vec::new();
    if compat {
        words.push("--compat".to_owned());
    }
    if input.strict {
        words.push("--strict".to_owned());
    }
    if let Some(size) = input.max_uncompressed {
        words.extend(["--max-uncompressed".to_owned(), size.bytes().to_string()]);
    }
    if let Some(ratio) = input.max_ratio {
        words.extend(["--max-ratio".to_owned(), ratio.to_string()]);
    }
    words.join("\n")
}

impl Reader for Recordings {
    fn read(
        &self,
        options: &str,
        file: usize,
        recipe: &str,
        wanted: &Wanted,
    ) -> Result<(Recording, Vec<String>), String> {
        let broken = |error: &dyn std::fmt::Display| {
            format!("the query does not say how to read file {file}: {error}")
        };
        let recipe = serde_json::from_str(recipe).map_err(|error| broken(&error))?;
        let (path, name, run): Recipe = recipe;
        let words = ["sql"].into_iter().chain(options.lines());
        let mut args = SqlCli::try_parse_from(words).map_err(|error| broken(&error))?;
        // Tasks run at once.
        args.input.threads = Some(NonZeroUsize::MIN);
        let opening = Opening {
            file,
            path: path.as_ref(),
            name: &name,
            run: run.as_deref(),
        };
        // Files are named as in the query.
        let named = |text: String| text.replace(&path, &name);
        let opened = inputs::open(&opening, &args.input, args.compat, wanted);
        let (recording, warnings) = opened.map_err(named)?;
        Ok((recording, warnings.into_iter().map(named).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_paths_arrive() {
        let words = "sql --compat --strict --max-uncompressed 3M --max-ratio 7";
        let args = SqlCli::try_parse_from(words.split(' ')).unwrap();
        let text = options(&args.input, args.compat);
        let again = SqlCli::try_parse_from(["sql"].into_iter().chain(text.lines())).unwrap();
        assert_eq!(options(&again.input, again.compat), text);
        assert!(again.compat && again.input.strict);
        let size = |args: &SqlCli| args.input.max_uncompressed.unwrap().bytes();
        assert_eq!(size(&again), size(&args));
        assert_eq!(options(&cli::InputArgs::default(), false), "");

        let opening = Opening {
            file: 3,
            path: "run/a.json".as_ref(),
            name: "run/a.json",
            run: Some("run"),
        };
        let recipe: Recipe = serde_json::from_str(&recipe(&opening).unwrap()).unwrap();
        assert!(std::path::Path::new(&recipe.0).is_absolute());
        assert!(recipe.0.ends_with("run/a.json"));
        assert_eq!(
            (recipe.1.as_str(), recipe.2.as_deref()),
            ("run/a.json", Some("run"))
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let recipe = serde_json::to_string(&("/nowhere/a.json", "a.json", None::<String>));
        let read = Recordings.read("", 0, &recipe.unwrap(), &Wanted::default());
        let error = read.map(drop).unwrap_err();
        assert!(error.starts_with("a.json: "), "{error}");
    }
}
