//! Chooses the collector, and builds the command lines of engines and collectors.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use super::RunOptions;
use super::options::Sampling;
use crate::doctor::{facility, imports_memray, on_path};
use crate::error::{Error, Result, io_error};
use crate::experiment::{Experiment, PlannedRun};

/// Prompt used when the configuration has none.
const DEFAULT_PROMPT: &str = "Tell the history of the computer's memory.";

/// Returns the reason why a collector cannot run a command here; `None` if it can.
fn lacking(collector: &str, command: &[String]) -> Option<&'static str> {
    match collector {
        "perf" | "perf_mem" if !on_path("perf") => Some("perf is not on PATH"),
        "perf" | "perf_mem" if facility().is_none() => Some("no memory-sampling counters"),
        "pagefaults" if !on_path("perf") => Some("perf is not on PATH"),
        "memray" => match python_of(command) {
            None => Some("the command is no Python program"),
            Some((python, _)) if !imports_memray(&python) => Some("memray is not installed"),
            Some(_) => None,
        },
        "monitor" | "process_monitor" if !Path::new("/proc/self/stat").exists() => {
            Some("there is no /proc")
        }
        "perf" | "perf_mem" | "pagefaults" | "monitor" | "process_monitor" => None,
        _ => Some("there is no such collector"),
    }
}

/// Returns the first collector that can run, and why those before it cannot.
pub(super) fn choose(options: &RunOptions, command: &[String]) -> Result<(String, Option<String>)> {
    let wanted = match &options.collector {
        Some(one) => vec![one.clone()],
        None => options.hierarchy.clone(),
    };
    let mut reasons = Vec::new();
    for collector in wanted {
        match lacking(&collector, command) {
            None => {
                let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
                return Ok((collector, reason));
            }
            Some(reason) => reasons.push(format!("{collector}: {reason}")),
        }
    }
    Err(Error::NoCollector {
        what: reasons.join("; "),
    })
}

/// Returns the interpreter of a Python program and its arguments: memray is a module of the
/// interpreter and starts no other programs.
fn python_of(command: &[String]) -> Option<(String, Vec<String>)> {
    let (program, arguments) = command.split_first()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    if name.starts_with("python") {
        return Some((program.clone(), arguments.to_vec()));
    }
    if Path::new(name)
        .extension()
        .is_some_and(|suffix| suffix == "py")
    {
        return Some(("python3".to_owned(), command.to_vec()));
    }
    // A script installed by pip names its interpreter in its first line.
    let path = if program.contains('/') {
        PathBuf::from(program)
    } else {
        env::split_paths(&env::var_os("PATH")?)
            .map(|folder| folder.join(program))
            .find(|path| path.is_file())?
    };
    let mut head = [0; 256];
    let read = fs::File::open(&path).ok()?.read(&mut head).ok()?;
    let head = String::from_utf8_lossy(head.get(..read)?).into_owned();
    let words = head.lines().next()?.strip_prefix("#!")?;
    let interpreter = words.split_whitespace().find(|word| {
        word.rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with("python"))
    })?;
    let mut script = vec![path.display().to_string()];
    script.extend_from_slice(arguments);
    Some((interpreter.to_owned(), script))
}

/// Returns the command of an engine for a run, and its prompt.
pub(super) fn engine_command(
    experiment: &Experiment,
    run: &PlannedRun,
) -> Result<(Vec<String>, Option<String>)> {
    let model = experiment.config.models.get(run.model_index);
    let path = model.and_then(|model| model.path.clone());
    let prompt = match &experiment.config.prompts {
        Some(prompts) => fs::read_to_string(&prompts.source).map_err(io_error(&prompts.source))?,
        None => DEFAULT_PROMPT.to_owned(),
    };
    let missing = |what: &str| Error::NoCollector {
        what: format!("engine: {what} is not on PATH"),
    };
    let words: Vec<String> = if run.engine == "llamacpp" {
        let program = ["llama-cli", "llama"]
            .into_iter()
            .find(|program| on_path(program))
            .ok_or_else(|| missing("llama-cli"))?;
        [
            program,
            "-m",
            &path.unwrap_or_default(),
            "-p",
            &prompt,
            "-n",
            &run.output_tokens.to_string(),
            "-c",
            &run.context_length.to_string(),
            "--no-display-prompt",
        ]
        .map(str::to_owned)
        .to_vec()
    } else {
        if !on_path("vllm") {
            return Err(missing("vllm"));
        }
        let name = model
            .and_then(|model| model.hf_repo.clone())
            .or(path)
            .unwrap_or_default();
        let input = run.context_length.saturating_sub(run.output_tokens).max(1);
        [
            "vllm",
            "bench",
            "latency",
            "--model",
            &name,
            "--input-len",
            &input.to_string(),
            "--output-len",
            &run.output_tokens.to_string(),
            "--batch-size",
            &run.batch_size.to_string(),
            "--max-model-len",
            &run.context_length.to_string(),
            "--dtype",
            model.map_or("auto", |model| &*model.dtype),
        ]
        .map(str::to_owned)
        .to_vec()
    };
    // vLLM's benchmark makes its own prompts.
    Ok((words, (run.engine == "llamacpp").then_some(prompt)))
}

/// Returns `true` if the started process is the collector and not the engine.
pub(super) fn is_profiler(collector: &str) -> bool {
    matches!(collector, "perf" | "perf_mem" | "pagefaults")
}

/// Returns the command line of a collector around that of the engine.
pub(super) fn wrapped(
    collector: &str,
    command: &[String],
    raw: &Path,
    options: &RunOptions,
) -> Vec<String> {
    let file = |name: &str| raw.join(name).display().to_string();
    let mut words: Vec<String> = match collector {
        "perf" | "perf_mem" => {
            let facility = facility();
            let events = match facility {
                Some("amd") => vec!["ibs_op//".to_owned()],
                Some("arm") => {
                    // It varies the period by itself.
                    let least = options.load_latency;
                    vec![format!(
                        "arm_spe_0/jitter=1,load_filter=1,store_filter=1,min_latency={least}/"
                    )]
                }
                _ if !options.events.is_empty() => options.events.clone(),
                _ => vec![
                    format!("cpu/mem-loads,ldlat={}/P", options.load_latency),
                    "cpu/mem-stores/P".to_owned(),
                ],
            };
            let mut words: Vec<String> = ["perf", "record", "-d", "-W", "-k", "CLOCK_MONOTONIC"]
                .map(str::to_owned)
                .to_vec();
            words.extend(rate(facility, options.sampling));
            for event in events {
                words.extend(["-e".to_owned(), event]);
            }
            words.extend_from_slice(&options.extra_flags);
            words.extend(["-o".to_owned(), file("perf.data"), "--".to_owned()]);
            words
        }
        "pagefaults" => [
            "perf",
            "record",
            "-e",
            "page-faults",
            "-c",
            "1",
            "-d",
            "-k",
            "CLOCK_MONOTONIC",
            "-o",
            &file("perf.data"),
            "--",
        ]
        .map(str::to_owned)
        .to_vec(),
        "memray" => {
            let (python, script) = python_of(command).unwrap_or_default();
            let mut words = [
                &python,
                "-m",
                "memray",
                "run",
                "--force",
                "-o",
                &file("memray.bin"),
            ]
            .map(str::to_owned)
            .to_vec();
            if options.native_traces {
                words.push("--native".to_owned());
            }
            if options.follow_fork {
                words.push("--follow-fork".to_owned());
            }
            words.extend(script);
            return words;
        }
        _ => Vec::new(),
    };
    words.extend_from_slice(command);
    words
}

/// Returns perf's option of how often to sample: the statistical profiling extension of Arm has no frequency.
fn rate(facility: Option<&str>, sampling: Sampling) -> [String; 2] {
    let (option, number) = match sampling {
        Sampling::Period(period) => ("-c", period),
        Sampling::Frequency(_) if facility == Some("arm") => ("-c", Sampling::PERIOD),
        Sampling::Frequency(frequency) => ("-F", frequency),
    };
    [option.to_owned(), number.to_string()]
}

/// Returns the file that a collector wrote.
pub(super) fn input_of(collector: &str, raw: &Path) -> Result<Option<PathBuf>> {
    let path = match collector {
        "perf" | "perf_mem" | "pagefaults" => raw.join("perf.data"),
        "memray" => raw.join("memray.bin"),
        _ => return Ok(None),
    };
    if collector == "memray" {
        return Ok(path.is_file().then_some(path));
    }
    // Only the recording machine has the symbols, so perf resolves them here. It rejects fields
    // that were not recorded; then the next list is tried.
    let text = raw.join("perf_script.txt");
    for fields in SCRIPT_FIELDS {
        let file = fs::File::create(&text).map_err(io_error(&text))?;
        let done = Command::new("perf")
            .args(["script", "-i"])
            .arg(&path)
            .args(["-F", fields])
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(Stdio::null())
            .status();
        if done.is_ok_and(|status| status.success()) {
            return Ok(Some(text));
        }
    }
    fs::remove_file(&text).map_err(io_error(&text))?;
    Ok(path.is_file().then_some(path))
}

/// Fields requested from `perf script`, from most to fewest.
const SCRIPT_FIELDS: [&str; 3] = [
    "comm,pid,tid,cpu,time,period,event,addr,ip,sym,symoff,dso,weight,data_src",
    "comm,pid,tid,cpu,time,period,event,addr,ip,sym,symoff,dso",
    "comm,pid,tid,time,period,event,addr,ip,sym,symoff,dso",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_sampled_by_frequency_unless_a_period_is_given() {
        let options = RunOptions::default();
        let of = |facility, sampling| rate(facility, sampling).join(" ");
        assert_eq!(of(Some("intel"), options.sampling), "-F 4000");
        assert_eq!(of(Some("arm"), options.sampling), "-c 4000");
        assert_eq!(of(Some("amd"), Sampling::Period(7)), "-c 7");
        let words = wrapped("perf", &["true".to_owned()], Path::new("raw"), &options);
        let text = words.join(" ");
        let expected = rate(facility(), options.sampling).join(" ");
        assert!(text.contains(&expected), "{text}");
    }

    #[test]
    fn python_programs_are_told_from_others() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let python =
            |text: &str| python_of(&words(text)).map(|(python, rest)| (python, rest.join(" ")));
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(
            python("/opt/bin/python3.11 -m app x"),
            pair("/opt/bin/python3.11", "-m app x")
        );
        assert_eq!(python("./app.py 1"), pair("python3", "./app.py 1"));
        assert_eq!(python("sh -c true"), None);
        assert_eq!(python("no-such-program-here"), None);
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("serve");
        fs::write(&script, "#!/usr/bin/env python3\nprint(1)\n").unwrap();
        let script = script.display().to_string();
        assert_eq!(
            python(&format!("{script} a b")),
            pair("python3", &format!("{script} a b"))
        );
    }
}
