//! The tools of the server: each is a command of the executable with some of its options.

use std::path::PathBuf;

use anyhow::{bail, ensure};
use serde_json::{Map, Value, json};

use crate::roots::Roots;

/// A tool.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The words of the command before its options.
    command: &'static [&'static str],
    arguments: &'static [Argument],
    /// Member of the JSON document that has the rows.
    pub(crate) rows: &'static str,
    /// What to ask next: a tool, and what it shows.
    pub(crate) next: &'static [(&'static str, &'static str)],
}

struct Argument {
    name: &'static str,
    kind: Kind,
    about: &'static str,
    is_required: bool,
}

enum Kind {
    /// Files and folders as arguments of the command.
    Paths,
    /// The same behind an option.
    PathsOf(&'static str),
    /// A word of the command.
    Word,
    /// Statements as a word of the command.
    Query,
    /// The value of an option.
    Text(&'static str),
    Integer(&'static str),
    /// One of some values of an option.
    Choice(&'static str, &'static [&'static str]),
}

const PATHS: Argument = required(
    "paths",
    Kind::Paths,
    "Traces, or a folder of them; ranks of one job together",
);
const STEP: Argument = optional(
    "step",
    Kind::Text("--step"),
    "Only these steps, from 1: N or A..B",
);
const WINDOW: Argument = optional(
    "window",
    Kind::Text("--window"),
    "Only this time: A..B in nanoseconds of the recording",
);
const PHASE: Argument = optional(
    "phase",
    Kind::Text("--phase"),
    "Only this phase: prefill, decode, mixed, or a name of steps",
);
const RANK: Argument = optional(
    "rank",
    Kind::Integer("--rank"),
    "The rank that is explained",
);
const ID: Argument = required("id", Kind::Word, "Id of a finding of why");

const fn required(name: &'static str, kind: Kind, about: &'static str) -> Argument {
    Argument {
        name,
        kind,
        about,
        is_required: true,
    }
}

const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Argument {
    Argument {
        name,
        kind,
        about,
        is_required: false,
    }
}

pub(crate) const TOOLS: &[Tool] = &[
    Tool {
        name: "why",
        about: "What limits this inference, why, and what would help by how much. Start here: one sentence, the budget of a step \
                and ranked findings with evidence.",
        command: &["why"],
        arguments: &[PATHS, PHASE, RANK, STEP, WINDOW],
        rows: "findings",
        next: &[
            ("show", "one finding with all its evidence"),
            ("steps", "the time of each step and what bounds it"),
            ("kernels", "kernels by time"),
        ],
    },
    Tool {
        name: "show",
        about: "One finding of why with all its evidence: events, times, files, commands, what would refute it.",
        command: &["show"],
        arguments: &[ID, PATHS, PHASE, RANK, STEP, WINDOW],
        rows: "evidence",
        next: &[(
            "extract",
            "the events of the step that the finding costs most",
        )],
    },
    Tool {
        name: "compare",
        about: "What made the candidate slower or faster than the baseline: the difference of their steps, with findings.",
        command: &["why"],
        arguments: &[
            required("baseline", Kind::PathsOf("--baseline"), "Recordings before"),
            required(
                "candidate",
                Kind::PathsOf("--candidate"),
                "Recordings after",
            ),
            PHASE,
        ],
        rows: "findings",
        next: &[("kernels", "kernels of one side by time")],
    },
    Tool {
        name: "steps",
        about: "The time of each step (iteration of the engine) and what bounds it: GPU, launches, host, communication.",
        command: &["trace-info", "critical-path"],
        arguments: &[PATHS],
        rows: "steps",
        next: &[("why", "the reason for the time of a step")],
    },
    Tool {
        name: "kernels",
        about: "Durations of GPU kernels, grouped; the longest sum first.",
        command: &["trace-info", "kernels"],
        arguments: &[
            PATHS,
            optional(
                "by",
                Kind::Choice(
                    "--by",
                    &["name", "class", "operator", "module", "shape", "stream"],
                ),
                "What a row is",
            ),
            STEP,
            WINDOW,
        ],
        rows: "kernels",
        next: &[("why", "what limits the steps that these kernels belong to")],
    },
    Tool {
        name: "ranks",
        about: "Collectives of all ranks: which rank keeps the others waiting, by how much, and its clock.",
        command: &["trace-info", "comm"],
        arguments: &[PATHS, WINDOW],
        rows: "ranks",
        next: &[("why", "the reason why a rank is late")],
    },
    Tool {
        name: "sql",
        about: "One SQL query over the tables of recordings, for what no other tool answers; at most 1000 rows. SHOW TABLES lists the \
                tables, DESCRIBE kernels the columns of one. Times are integers in nanoseconds.",
        command: &["sql", "--limit=1000"],
        arguments: &[
            required(
                "query",
                Kind::Query,
                "One statement: SELECT, WITH, SHOW TABLES, DESCRIBE, EXPLAIN",
            ),
            PATHS,
        ],
        rows: "rows",
        next: &[("why", "the reason for the time of a step")],
    },
    Tool {
        name: "extract",
        about: "The events of the step that a finding costs most, in the order of time.",
        command: &["extract"],
        arguments: &[ID, PATHS, PHASE, RANK, STEP, WINDOW],
        rows: "rows",
        next: &[("show", "the finding with its evidence")],
    },
];

/// Arguments that every tool has: the page of rows.
const LIMIT: &str = "limit";
const CURSOR: &str = "cursor";
/// Maximum number of rows of an answer.
const ROWS: u64 = 50;
/// Number of rows unless stated.
const USUAL: u64 = 20;

/// A call whose arguments were checked.
#[derive(Debug)]
pub(crate) struct Question {
    /// The words of the command, without `--json`.
    pub(crate) words: Vec<String>,
    /// The arguments as they were given, without the page.
    pub(crate) scope: Map<String, Value>,
    pub(crate) limit: usize,
    pub(crate) offset: usize,
}

impl Tool {
    /// Returns the JSON Schema of the arguments.
    pub(crate) fn schema(&self) -> Map<String, Value> {
        let mut properties = Map::new();
        for argument in self.arguments {
            let mut kind = match &argument.kind {
                Kind::Paths | Kind::PathsOf(_) => {
                    json!({"type": "array", "items": {"type": "string"}, "minItems": 1})
                }
                Kind::Word | Kind::Query | Kind::Text(_) => json!({"type": "string"}),
                Kind::Integer(_) => json!({"type": "integer", "minimum": 0}),
                Kind::Choice(_, values) => json!({"type": "string", "enum": values}),
            };
            kind["description"] = argument.about.into();
            properties.insert(argument.name.to_owned(), kind);
        }
        let about = format!("Maximum number of rows, {USUAL} unless given");
        let limit = json!({"type": "integer", "minimum": 1, "maximum": ROWS, "description": about});
        properties.insert(LIMIT.to_owned(), limit);
        let cursor = json!({"type": "string", "description": "The cursor of the answer that is to be continued"});
        properties.insert(CURSOR.to_owned(), cursor);
        let required: Vec<&str> = self
            .arguments
            .iter()
            .filter(|argument| argument.is_required)
            .map(|argument| argument.name)
            .collect();
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        schema.as_object().cloned().unwrap_or_default()
    }

    /// Checks the arguments of a call.
    ///
    /// # Errors
    ///
    /// An argument that is missing, unknown, of another type, or a path outside of the roots.
    pub(crate) fn question(
        &self,
        given: &Map<String, Value>,
        roots: &Roots,
    ) -> anyhow::Result<Question> {
        let names = || {
            let own = self.arguments.iter().map(|argument| argument.name);
            own.chain([LIMIT, CURSOR]).collect::<Vec<_>>()
        };
        if let Some(unknown) = given.keys().find(|key| !names().contains(&key.as_str())) {
            bail!("no argument {unknown:?}; there are {}", names().join(", "));
        }
        let mut words: Vec<String> = self.command.iter().map(|word| (*word).to_owned()).collect();
        let mut paths = Vec::new();
        let mut scope = Map::new();
        for argument in self.arguments {
            let name = argument.name;
            let value = given.get(name).filter(|value| !value.is_null());
            let Some(value) = value else {
                ensure!(
                    !argument.is_required,
                    "argument {name:?} is missing: {}",
                    argument.about
                );
                continue;
            };
            scope.insert(name.to_owned(), value.clone());
            match &argument.kind {
                Kind::Paths => paths = allowed(name, value, roots)?,
                Kind::PathsOf(option) => {
                    paths.push((*option).to_owned());
                    paths.extend(allowed(name, value, roots)?);
                }
                Kind::Word => {
                    let word = text(name, value)?;
                    ensure!(
                        !word.starts_with('-'),
                        "{name}: {word:?} is no id of a finding"
                    );
                    words.push(word.to_owned());
                }
                // Behind an empty line it is neither an option nor the name of a file.
                Kind::Query => words.push(format!("\n{}", text(name, value)?)),
                Kind::Text(option) => words.push(format!("{option}={}", text(name, value)?)),
                Kind::Integer(option) => {
                    let Some(number) = value.as_u64() else {
                        bail!("{name}: expected a number from 0, not {value}");
                    };
                    words.push(format!("{option}={number}"));
                }
                Kind::Choice(option, values) => {
                    let word = text(name, value)?;
                    ensure!(
                        values.contains(&word),
                        "{name}: {word:?} is none of {}",
                        values.join(", ")
                    );
                    words.push(format!("{option}={word}"));
                }
            }
        }
        words.extend(paths);
        let limit = match given.get(LIMIT).filter(|value| !value.is_null()) {
            None => USUAL,
            Some(value) => match value.as_u64().filter(|count| (1..=ROWS).contains(count)) {
                Some(count) => count,
                None => bail!("{LIMIT}: expected a number from 1 to {ROWS}, not {value}"),
            },
        };
        let offset = match given.get(CURSOR).filter(|value| !value.is_null()) {
            None => 0,
            Some(value) => match value.as_str().and_then(|text| text.parse().ok()) {
                Some(offset) => offset,
                None => bail!("{CURSOR}: expected the cursor of an answer, not {value}"),
            },
        };
        Ok(Question {
            words,
            scope,
            limit: usize::try_from(limit)?,
            offset,
        })
    }
}

fn text<'v>(name: &str, value: &'v Value) -> anyhow::Result<&'v str> {
    match value.as_str() {
        Some(text) => Ok(text),
        None => bail!("{name}: expected text, not {value}"),
    }
}

fn allowed(name: &str, value: &Value, roots: &Roots) -> anyhow::Result<Vec<String>> {
    let many = match value {
        // Clients often give one path by itself.
        Value::String(_) => std::slice::from_ref(value),
        Value::Array(many) if !many.is_empty() => many,
        _ => bail!("{name}: expected a list of paths, not {value}"),
    };
    many.iter()
        .map(|path| {
            let real: PathBuf = roots.allow(text(name, path)?)?;
            Ok(real.to_string_lossy().into_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("t.json"), "{}").unwrap();
        let roots = Roots::new(&[folder.path().to_owned()]).unwrap();
        let ask = |tool: &str, given: Value| {
            let tool = TOOLS.iter().find(|known| known.name == tool).unwrap();
            let question = tool.question(given.as_object().unwrap(), &roots);
            question.map_err(|error| error.to_string())
        };
        let good = ask(
            "kernels",
            json!({"paths": ["t.json"], "by": "class", "cursor": "20", "limit": 5}),
        )
        .unwrap();
        assert_eq!(good.words[..3], ["trace-info", "kernels", "--by=class"]);
        assert!(good.words[3].ends_with("/t.json"));
        assert_eq!((good.limit, good.offset), (5, 20));
        assert!(ask("kernels", json!({"paths": "t.json"})).is_ok());
        let query = json!({"paths": ["t.json"], "query": "--output=y"});
        let words = ask("sql", query).unwrap().words;
        assert_eq!(words[..3], ["sql", "--limit=1000", "\n--output=y"]);
        for (tool, bad) in [
            ("kernels", json!({})),
            ("kernels", json!({"paths": []})),
            (
                "kernels",
                json!({"paths": ["t.json"], "by": "x --output=y"}),
            ),
            ("kernels", json!({"paths": ["t.json"], "output": "y"})),
            ("kernels", json!({"paths": ["t.json"], "limit": 51})),
            ("kernels", json!({"paths": ["t.json"], "cursor": "x"})),
            ("kernels", json!({"paths": ["--output=y"]})),
            ("show", json!({"paths": ["t.json"], "id": "--output=y"})),
            ("why", json!({"paths": ["t.json"], "rank": -1})),
            ("sql", json!({"paths": ["t.json"]})),
        ] {
            assert!(ask(tool, bad.clone()).is_err(), "{tool} {bad}");
        }
    }
}
