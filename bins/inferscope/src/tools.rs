//! The tools, grouped by the question that each command answers.

use std::ffi::{OsStr, OsString};

/// A tool of the executable.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    /// Runs the tool with the words of a command line, its name first.
    pub(crate) run: fn(Vec<OsString>) -> u8,
    pub(crate) command: fn() -> clap::Command,
}

/// What executors do for other tools than `sql`.
#[cfg(feature = "cluster")]
static WORKS: &[sql::cluster::Work] = &[
    sql::cluster::Work {
        name: export::cluster::WORK,
        maker: export::cluster::maker,
    },
    sql::cluster::Work {
        name: fleet_tool::cluster::WORK,
        maker: fleet_tool::cluster::maker,
    },
];

/// The tools, in the order of the help.
pub(crate) static TOOLS: &[Tool] = &[
    Tool {
        name: "why",
        run: |words| why::main_from(words),
        command: why::command,
    },
    Tool {
        name: "show",
        run: |words| why::show_from(words),
        command: why::show_command,
    },
    Tool {
        name: "extract",
        run: |words| why::extract_from(words),
        command: why::extract_command,
    },
    #[cfg(feature = "sql")]
    Tool {
        name: "sql",
        run: |words| sql::main_from(words),
        command: sql::command,
    },
    #[cfg(feature = "cluster")]
    Tool {
        name: "cluster",
        run: |words| sql::cluster::main_from(words, WORKS),
        command: sql::cluster::command,
    },
    Tool {
        name: "export",
        run: |words| export::main_from(words),
        command: export::command,
    },
    Tool {
        name: "fleet",
        run: |words| fleet_tool::main_from(words),
        command: fleet_tool::command,
    },
    Tool {
        name: "trace-info",
        run: |words| trace_info::main_from(words),
        command: trace_info::command,
    },
    Tool {
        name: "nccl-stacks",
        run: |words| nccl_stacks::main_from(words),
        command: nccl_stacks::command,
    },
    Tool {
        name: "cycle-rca",
        run: |words| cycle_rca::main_from(words),
        command: cycle_rca::command,
    },
    Tool {
        name: "perf-compare",
        run: |words| perf_compare_tool::main_from(words),
        command: perf_compare_tool::command,
    },
    Tool {
        name: "rocpd",
        run: |words| rocpd::main_from(words),
        command: rocpd::command,
    },
    Tool {
        name: "memtrace",
        run: |words| memtrace::main_from(words),
        command: memtrace::command,
    },
    Tool {
        name: "blkio",
        run: |words| blkio::main_from(words),
        command: blkio::command,
    },
    Tool {
        name: "mcp",
        run: |words| mcp::main_from(words, crate::main_from),
        command: mcp::command,
    },
];

/// Questions of users, each with the commands that answer it and their output.
pub(crate) const QUESTIONS: &[(&str, &[(&str, &str)])] = &[
    (
        "Why?",
        &[
            (
                "why PATH...",
                "the reason, from recordings and logs beside them",
            ),
            (
                "show ID PATH...",
                "one finding with its evidence; extract: its window",
            ),
            ("mcp FOLDER", "the same for agents (Model Context Protocol)"),
            (
                "cycle-rca analyse FILE",
                "what limits the steps of a serving engine",
            ),
            (
                "cycle-rca batch FOLDER",
                "root cause of normal against abnormal recordings",
            ),
            ("blkio stats FILE", "what limits the disk, phase by phase"),
            (
                "memtrace analyse FILE",
                "how long data lives, and which memory tier fits",
            ),
        ],
    ),
    (
        "What is in it?",
        &[
            (
                "trace-info FILE",
                "GPUs, engine, steps, what is missing in a trace",
            ),
            #[cfg(feature = "sql")]
            (
                "sql QUERY PATH...",
                "recordings as tables: any question, in SQL",
            ),
            (
                "export PATH... -o DIR",
                "recordings as Parquet for DuckDB, polars, Spark",
            ),
            (
                "rocpd info -i FILE",
                "rocPD databases; also query, convert, merge, package",
            ),
            (
                "blkio info FILE",
                "block I/O traces; blkio collect records one",
            ),
            (
                "memtrace doctor",
                "what this machine can record of memory accesses",
            ),
        ],
    ),
    (
        "Where does time go?",
        &[
            (
                "trace-info gpu FILE",
                "busy, idle, exposed communication of each GPU",
            ),
            (
                "trace-info kernels FILE",
                "kernels by class, operator, module, shape, step",
            ),
            (
                "trace-info roofline FILE",
                "how far kernels and steps are from the GPU's limit",
            ),
            (
                "trace-info critical-path FILE",
                "what bounds each step: GPU, launches, host, waiting",
            ),
            (
                "trace-info ops FILE",
                "host operators, their time and their kernels",
            ),
            (
                "trace-info idle FILE",
                "causes of GPU idle time; launch: launch gaps, queues",
            ),
            (
                "trace-info memory FILE",
                "allocated and reserved GPU memory",
            ),
            (
                "rocpd summary -i FILE",
                "kernels, copies and API calls of rocPD databases",
            ),
        ],
    ),
    (
        "Which rank?",
        &[
            (
                "trace-info comm FOLDER",
                "collectives of all ranks: waits, bandwidth",
            ),
            (
                "nccl-stacks FOLDER --collectives",
                "host call stacks that launched collectives",
            ),
            (
                "fleet FOLDER -o DIR",
                "thousands of ranks: late ones, hosts, links, clocks",
            ),
        ],
    ),
    (
        "What changed?",
        &[
            (
                "trace-info diff A B",
                "two traces, step with step, kernel with kernel",
            ),
            (
                "perf-compare A B",
                "two sets of samples: by how much, and the cause",
            ),
            (
                "blkio compare A B",
                "two block I/O traces; memtrace compare: two captures",
            ),
        ],
    ),
    (
        "What would help?",
        &[
            (
                "trace-info critical-path FILE",
                "gain of each change: --what-if 'host=0.5'",
            ),
            (
                "trace-info roofline FILE",
                "what faster kernels could gain at most",
            ),
        ],
    ),
];

/// Returns the tool with a name or an alias.
pub(crate) fn named(word: &OsStr) -> Option<&'static Tool> {
    let word = word.to_str()?;
    let name = match rocpd::aliases().any(|(alias, _)| alias == word) {
        true => "rocpd",
        false => word,
    };
    TOOLS.iter().find(|tool| tool.name == name)
}

/// Returns all names that a link to the executable may have.
pub(crate) fn names() -> Vec<String> {
    let tools = TOOLS.iter().map(|tool| tool.name);
    let aliases = rocpd::aliases().map(|(name, _)| name);
    tools.chain(aliases).map(str::to_owned).collect()
}

/// Returns the most similar command to a mistyped word: a tool, or a command of one (`kernels` is
/// `trace-info kernels`).
pub(crate) fn nearest(word: &str) -> Option<String> {
    let tools = TOOLS.iter().map(|tool| tool.name.to_owned());
    let commands = TOOLS.iter().flat_map(|tool| {
        let command = (tool.command)();
        let names: Vec<String> = command
            .get_subcommands()
            .map(|command| format!("{} {}", tool.name, command.get_name()))
            .collect();
        names
    });
    tools
        .chain(commands)
        .map(|name| {
            let last = name.rsplit(' ').next().unwrap_or(&name);
            (distance(word, last), name)
        })
        .filter(|(distance, _)| *distance * 3 <= word.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the edit distance of two words: insertions, removals, replacements and swaps of adjacent
/// letters.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, left) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, right) in b.iter().enumerate() {
            let above = &rows[i];
            let mut best = (above[j] + usize::from(left != right))
                .min(above[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *right && *left == b[j - 1] {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows.last().and_then(|row| row.last()).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistyped_words_are_guessed() {
        assert_eq!(nearest("trace-inof").as_deref(), Some("trace-info"));
        assert_eq!(nearest("kernel").as_deref(), Some("trace-info kernels"));
        assert_eq!(nearest("blkoi").as_deref(), Some("blkio"));
        assert_eq!(nearest("x.json"), None);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("ab", "ba"), 1);
    }

    #[test]
    fn what_bounds_and_what_would_help_are_questions() {
        for (question, commands) in [
            (
                "Where does time go?",
                &["critical-path", "roofline", "ops"][..],
            ),
            ("What would help?", &["critical-path", "roofline"]),
        ] {
            let lines = QUESTIONS.iter().find(|(text, _)| *text == question);
            let (_, lines) = lines.expect("the question");
            for command in commands {
                let start = format!("trace-info {command} ");
                assert!(
                    lines.iter().any(|(line, _)| line.starts_with(&start)),
                    "{start}"
                );
            }
        }
    }

    #[test]
    fn every_question_names_commands_that_exist() {
        for (_, commands) in QUESTIONS {
            for (line, _) in *commands {
                let mut words = line.split(' ');
                let tool = words.next().and_then(|word| named(OsStr::new(word)));
                let tool = tool.unwrap_or_else(|| panic!("{line}"));
                let second = words.next().unwrap();
                if second.chars().all(|letter| letter.is_ascii_lowercase()) {
                    assert!((tool.command)().find_subcommand(second).is_some(), "{line}");
                }
            }
        }
    }
}
