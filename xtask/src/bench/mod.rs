//! Measures the tools on large traces, compared with merely reading the bytes.

mod fleet;
mod inputs;
mod large;
mod measure;
mod paths;
mod tools;

use crate::options::Options;
use crate::workspace::{capture, cargo, root, run as run_command};
use anyhow::{Context as _, Result};
use inputs::Input;
use measure::{Sample, measure};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tools for traces.
const TOOLS: [&str; 2] = ["nccl-stacks", "trace-info"];

/// A command on a file.
struct Case {
    /// Name of the file, and its size on disk in millions of bytes.
    input: String,
    megabytes: f64,
    /// Name of the measured operation.
    name: &'static str,
    command: Command,
    goal: &'static str,
}

impl Case {
    fn new(path: &Path, name: &'static str, command: Command, goal: &'static str) -> Result<Self> {
        let bytes = std::fs::metadata(path)
            .with_context(|| format!("no file {}", path.display()))?
            .len();
        #[expect(clippy::cast_precision_loss, reason = "file sizes are far below 2^53")]
        let megabytes = bytes as f64 / 1e6;
        Ok(Self {
            input: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            megabytes,
            name,
            command,
            goal,
        })
    }
}

/// `cargo xtask bench [--tools | --paths | --large | --fleet] [--save] [--runs N] [--peers] [--data FILE --kernel NAME]`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(
        args,
        &["save", "peers", "tools", "paths", "large", "fleet"],
        &["data", "kernel", "runs", "ranks", "size", "program"],
    )?;
    if options.flag("fleet") {
        return fleet::run(&options);
    }
    let runs = options.number("runs")?.unwrap_or(5);
    let part = ["tools", "paths", "large"]
        .into_iter()
        .find(|part| options.flag(part));
    let programs: &[&str] = match part {
        Some("tools") => &tools::TOOLS,
        Some("paths") => &["trace-info"],
        Some(_) => &large::TOOLS,
        None => &TOOLS,
    };
    let mut build = cargo(&["build", "--profile", "dist"]);
    // Not by package: rocpd has four more names, each of which takes minutes to link.
    for program in programs {
        build.args(["--bin", program]);
    }
    run_command(&mut build)?;
    let release = built();
    let cases = match part {
        Some("tools") => tools::cases(&release)?,
        Some("paths") => paths::cases(&release, options.flag("peers"))?,
        Some(_) => large::cases(&release)?,
        None => of_traces(&options, &release)?,
    };
    let mut table = String::from(
        "| input | command | wall s | CPU s | peak MB | MB/s | goal |\n|---|---|---|---|---|---|---|\n",
    );
    for mut case in cases {
        match measure(&mut case.command, runs) {
            Ok(sample) => row(&mut table, &case, &sample),
            Err(error) => println!("{} on {}: {error:#}", case.name, case.input),
        }
    }
    let machine = machine(runs)?;
    println!("\n{machine}\n\n{table}");
    if options.flag("save") {
        let mark = part.map_or_else(|| "measured".to_owned(), |part| format!("measured-{part}"));
        save(&mark, &format!("{machine}\n\n{table}"))?;
    }
    Ok(())
}

/// Returns the folder in which the tools are built.
fn built() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), PathBuf::from)
        .join("dist")
}

/// Returns the cases measured on traces.
fn of_traces(options: &Options, release: &Path) -> Result<Vec<Case>> {
    let inputs = match options.all("data").collect::<Vec<_>>() {
        given if !given.is_empty() => inputs::given(&given, options.value("kernel"))?,
        _ => inputs::standard()?,
    };
    let mut cases = Vec::new();
    for input in &inputs {
        for (name, command, goal) in commands(input, release, options.flag("peers")) {
            cases.push(Case::new(&input.path, name, command, goal)?);
        }
    }
    Ok(cases)
}

/// Returns the commands to run on a trace: name, command, goal.
fn commands(
    input: &Input,
    release: &Path,
    peers: bool,
) -> Vec<(&'static str, Command, &'static str)> {
    let tool = |pinned: bool| {
        let program = release.join("nccl-stacks");
        let mut command = Command::new(if pinned {
            "taskset".as_ref()
        } else {
            program.as_path()
        });
        if pinned {
            command.args(["-c", "0"]).arg(&program);
        }
        command
            .arg(&input.path)
            .args(["--start-ts", "0", "--duration", "9000000000000000000"]);
        command.arg("--kernel-name").arg(&input.kernel);
        command
    };
    let with_file = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).arg(&input.path);
        command
    };
    let analysis = |name: &str| {
        let mut command = Command::new(release.join("trace-info"));
        command.arg(name).arg(&input.path).args(["--format", "csv"]);
        command
    };
    let mut all = vec![
        ("nccl-stacks", tool(false), input.goal),
        ("nccl-stacks, 1 core", tool(true), input.goal_one_core),
        ("trace-info gpu", analysis("gpu"), ""),
        ("trace-info kernels", analysis("kernels"), ""),
        ("cat", with_file("cat", &[]), ""),
    ];
    if input.gzip {
        all.push(("gzip -dc", with_file("gzip", &["-dc"]), ""));
    } else {
        all.push(("wc -l", with_file("wc", &["-l"]), ""));
    }
    if peers && input.json {
        let open = if input.gzip {
            "import gzip; f = gzip.open(sys.argv[1])"
        } else {
            "f = open(sys.argv[1], 'rb')"
        };
        let mut command = Command::new("python3");
        command
            .args(["-c", &format!("import json, sys; {open}; json.load(f)")])
            .arg(&input.path);
        all.push(("python3 json.load", command, ""));
    }
    all
}

fn row(table: &mut String, case: &Case, sample: &Sample) {
    let line = format!(
        "| {} | {} | {:.2} | {:.2} | {} | {:.0} | {} |",
        case.input,
        case.name,
        sample.wall_s,
        sample.cpu_s,
        sample.peak_kb / 1000,
        case.megabytes / sample.wall_s,
        case.goal,
    );
    println!("{line}");
    let _ = writeln!(table, "{line}");
}

/// Describes the environment that the numbers depend on.
fn machine(runs: u64) -> Result<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or(": unknown")
        .trim_start_matches(['\t', ' ', ':']);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let rustc = String::from_utf8(capture(Command::new("rustc").arg("--version"))?)?;
    let commit = capture(
        Command::new("git")
            .args(["rev-parse", "--short", "HEAD"])
            .current_dir(root()),
    );
    let commit = commit
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_default();
    Ok(format!(
        "Commit {}, {}, {cores} cores of {model}. Best wall time of {runs} runs, with the CPU time and memory of that run; \
         output to /dev/null; files in the page cache.",
        commit.trim(),
        rustc.trim(),
    ))
}

/// Replaces a measured block of `docs/benchmarks.md`.
fn save(mark: &str, block: &str) -> Result<()> {
    let path = root().join("docs/benchmarks.md");
    let (begin, end) = (
        format!("<!-- {mark}:begin -->"),
        format!("<!-- {mark}:end -->"),
    );
    let text = std::fs::read_to_string(&path).context("reading docs/benchmarks.md")?;
    let (head, rest) = text
        .split_once(&begin)
        .with_context(|| format!("docs/benchmarks.md has no {begin}"))?;
    let (_, tail) = rest
        .split_once(&end)
        .with_context(|| format!("docs/benchmarks.md has no {end}"))?;
    std::fs::write(path, format!("{head}{begin}\n\n{block}\n{end}{tail}"))?;
    println!("docs/benchmarks.md written");
    Ok(())
}
