//! `cluster scheduler` and `cluster executor`, and what a query needs of them.
//!
//! Executors read recordings for queries, and do the [`Work`] of other tools.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use clap::{Args, Parser, Subcommand};
use cli::{Outcome, VerbosityArgs};
use trace_cluster::{Address, Client, ExecutorOptions};
use trace_dataset::{Maker, Order};
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

/// The processes of a cluster for `--cluster` of sql, export and fleet: Ballista's scheduler and executors
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

/// Returns what makes the files of an order with the options of a tool as text, or why it cannot.
pub type MakerOf = fn(options: &str, order: &Order) -> Result<Box<dyn Maker>, String>;

/// Work of a tool on recordings, which executors do for its `--cluster`.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Its name in messages.
    pub name: &'static str,
    /// Returns what makes the files of an order with these options.
    pub maker: MakerOf,
}

/// Runs `cluster` with the words of a command line, the tool's name first. Returns the exit code.
pub fn main_from(words: impl IntoIterator<Item = OsString>, works: &'static [Work]) -> u8 {
    cli::main_from(words, |args| run(args, works))
}

/// Returns the description of the command line, for help, completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    <ClusterCli as clap::CommandFactory>::command()
}

fn run(args: ClusterCli, works: &'static [Work]) -> anyhow::Result<Outcome> {
    let done = match args.process {
        Process::Scheduler(args) => trace_cluster::scheduler(&args.bind, |address: SocketAddr| {
            args.verbosity
                .note(format!("the scheduler accepts connections at {address}"));
        }),
        Process::Executor(args) => {
            let recordings = Arc::new(Recordings {
                here: OnceLock::new(),
                scratch: args.work_dir.clone().unwrap_or_else(std::env::temp_dir),
                works,
            });
            let options = ExecutorOptions {
                scheduler: args.scheduler.clone(),
                tasks: args.concurrent_tasks.map_or(0, NonZeroUsize::get),
                work_dir: args.work_dir,
                host: args.host.clone(),
                reader: Arc::clone(&recordings) as Arc<dyn Reader>,
            };
            trace_cluster::executor(options, |address: SocketAddr| {
                let host = args.host.map(|host| format!("{host}:{}", address.port()));
                let address_there = host.unwrap_or_else(|| address.to_string());
                recordings.here.get_or_init(|| address_there);
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

/// Opens recordings on an executor.
#[derive(Debug)]
struct Recordings {
    /// Address of the executor.
    here: OnceLock<String>,
    /// Folder for files that are made.
    scratch: PathBuf,
    works: &'static [Work],
}

/// Path, name and run of a file, `true` if the client sees a file or folder at the path, and `true` if numbers after `tp` in the names of
/// all files are sizes of jobs.
type Recipe = (String, String, Option<String>, bool, bool);

/// Returns how another process opens a file; `None` if it cannot.
pub(crate) fn recipe(opening: &Opening<'_>) -> Option<String> {
    // A URL is whole already.
    let is_url = byte_source::remote::is_url(opening.path);
    let whole = match is_url {
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
        !is_url && opening.path.exists(),
        opening.sizes_in_names,
    );
    serde_json::to_string(&recipe).ok()
}

/// Returns the options of the command line that matter for reading, one word a line.
pub(crate) fn options(input: &cli::InputArgs, compat: bool) -> String {
    match compat {
        true => format!("--compat\n{}", input.words()),
        false => input.words(),
    }
}

impl Recordings {
    /// Names the executor in texts.
    fn name(&self) -> String {
        let here = self.here.get().map_or("", String::as_str);
        format!("the executor at {here}")
    }
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
        let (path, name, run, is_seen, sizes_in_names): Recipe = recipe;
        if is_seen && !std::path::Path::new(&path).exists() {
            return Err(trace_dataset::unseen(&name, &self.name()));
        }
        let words = ["sql"].into_iter().chain(options.lines());
        let mut args = SqlCli::try_parse_from(words).map_err(|error| broken(&error))?;
        // Tasks run at once.
        args.input.threads = Some(NonZeroUsize::MIN);
        let opening = Opening {
            file,
            path: path.as_ref(),
            name: &name,
            run: run.as_deref(),
            sizes_in_names,
        };
        // Files are named as in the query.
        let named = |text: String| text.replace(&path, &name);
        let opened = inputs::open(&opening, &args.input, (args.compat, &args.classes), wanted);
        let (recording, warnings) = opened.map_err(named)?;
        Ok((recording, warnings.into_iter().map(named).collect()))
    }

    fn work(
        &self,
        work: &str,
        options: &str,
        recipe: &str,
        send: &mut dyn FnMut(&str, &[u8]) -> bool,
    ) -> Result<(), String> {
        let here = self.name();
        let other = |why: &dyn std::fmt::Display| {
            format!(
                "{here} has another version ({why}): run one version of inferscope on all machines"
            )
        };
        let known = self.works.iter().find(|known| known.name == work);
        let known = known.ok_or_else(|| other(&format_args!("it knows no work `{work}`")))?;
        let order = serde_json::from_str(recipe).map_err(|error| other(&error))?;
        let maker = (known.maker)(options, &order).map_err(|why| other(&why))?;
        trace_dataset::serve(&order, maker.as_ref(), &here, &self.scratch, send)
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
            sizes_in_names: true,
        };
        let recipe: Recipe = serde_json::from_str(&recipe(&opening).unwrap()).unwrap();
        assert!(std::path::Path::new(&recipe.0).is_absolute());
        assert!(recipe.0.ends_with("run/a.json"));
        assert_eq!(
            (recipe.1.as_str(), recipe.2.as_deref()),
            ("run/a.json", Some("run"))
        );
        assert!(recipe.4);
    }

    #[test]
    fn a_missing_file_is_named() {
        let of = |is_seen: bool| ("/nowhere/a.json", "a.json", None::<String>, is_seen, false);
        let recipe = serde_json::to_string(&of(false));
        let read = here().read("", 0, &recipe.unwrap(), &Wanted::default());
        let error = read.map(drop).unwrap_err();
        assert!(error.starts_with("a.json: "), "{error}");
        assert!(!error.contains("executor"), "{error}");
        let recipe = serde_json::to_string(&of(true));
        let read = here().read("", 0, &recipe.unwrap(), &Wanted::default());
        let error = read.map(drop).unwrap_err();
        let begin = "a.json: the executor at node1:7 does not see this file";
        assert!(error.starts_with(begin), "{error}");
    }

    fn here() -> Recordings {
        Recordings {
            here: OnceLock::from("node1:7".to_owned()),
            scratch: PathBuf::new(),
            works: &[],
        }
    }

    #[test]
    fn unknown_work_is_of_another_version() {
        let error = here().work("later", "", "", &mut |_, _| true).unwrap_err();
        assert!(error.contains("one version of inferscope"), "{error}");
    }
}
