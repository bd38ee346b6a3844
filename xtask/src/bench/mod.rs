//! Measures the tools on large traces, beside what merely reading the bytes costs.

mod inputs;
mod measure;

use crate::options::Options;
use crate::workspace::{capture, cargo, root, run as run_command};
use anyhow::{Context as _, Result};
use inputs::Input;
use measure::{Sample, measure};
use std::fmt::Write as _;
use std::process::Command;

const BEGIN: &str = "<!-- measured:begin -->";
const END: &str = "<!-- measured:end -->";

/// `cargo xtask bench [--save] [--runs N] [--peers] [--data FILE --kernel NAME]`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args, &["save", "peers"], &["data", "kernel", "runs"])?;
    let runs = options.number("runs")?.unwrap_or(5);
    run_command(&mut cargo(&[
        "build",
        "--release",
        "--package",
        "nccl-stacks",
        "--package",
        "trace-info",
    ]))?;
    let inputs = match options.all("data").collect::<Vec<_>>() {
        given if !given.is_empty() => inputs::given(&given, options.value("kernel"))?,
        _ => inputs::standard()?,
    };
    let mut table = String::from(
        "| input | command | wall s | CPU s | peak MB | MB/s | goal |\n|---|---|---|---|---|---|---|\n",
    );
    for input in &inputs {
        for (name, mut command, goal) in commands(input, options.flag("peers")) {
            match measure(&mut command, runs) {
                Ok(sample) => row(&mut table, input, name, &sample, goal),
                Err(error) => println!("{name} on {}: {error:#}", input.name),
            }
        }
    }
    let machine = machine(runs)?;
    println!("\n{machine}\n\n{table}");
    if options.flag("save") {
        save(&format!("{machine}\n\n{table}"))?;
    }
    Ok(())
}

/// What runs on an input: name, command, goal.
fn commands(input: &Input, peers: bool) -> Vec<(&'static str, Command, &'static str)> {
    let folder: std::path::PathBuf =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let tool = |pinned: bool| {
        let program = folder.join("release/nccl-stacks");
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
        let mut command = Command::new(folder.join("release/trace-info"));
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

fn row(table: &mut String, input: &Input, name: &str, sample: &Sample, goal: &str) {
    let line = format!(
        "| {} | {name} | {:.2} | {:.2} | {} | {:.0} | {goal} |",
        input.name,
        sample.wall_s,
        sample.cpu_s,
        sample.peak_kb / 1000,
        input.megabytes() / sample.wall_s,
    );
    println!("{line}");
    let _ = writeln!(table, "{line}");
}

/// What the numbers depend on.
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

/// Replaces the measured block of `docs/benchmarks.md`.
fn save(block: &str) -> Result<()> {
    let path = root().join("docs/benchmarks.md");
    let text = std::fs::read_to_string(&path).context("reading docs/benchmarks.md")?;
    let (head, rest) = text
        .split_once(BEGIN)
        .context("docs/benchmarks.md has no mark where the measurement begins")?;
    let (_, tail) = rest
        .split_once(END)
        .context("docs/benchmarks.md has no mark where the measurement ends")?;
    std::fs::write(path, format!("{head}{BEGIN}\n\n{block}\n{END}{tail}"))?;
    println!("docs/benchmarks.md written");
    Ok(())
}
