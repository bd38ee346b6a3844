//! The interactive prompt.

use std::path::PathBuf;

use cli::Outcome;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use trace_sql::ErrorKind;
use trace_tables::catalogue::{BESIDE, TABLES};

use crate::args::SqlCli;
use crate::{Destination, Session, complain, exit, text_results};

/// Words of SQL that are completed.
const WORDS: [&str; 24] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "LIMIT",
    "JOIN",
    "LEFT JOIN",
    "ON",
    "USING",
    "WITH",
    "RECURSIVE",
    "HAVING",
    "DISTINCT",
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "BETWEEN",
    "LIKE",
    "EXPLAIN",
    "DESCRIBE",
    "SHOW TABLES",
];

/// Completes names of tables, columns and words of SQL.
struct Names(Vec<String>);

impl Helper for Names {}
impl Highlighter for Names {}
impl Validator for Names {}

impl Hinter for Names {
    type Hint = String;
}

impl Completer for Names {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let before = line.get(..at).unwrap_or(line);
        let start = before
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |at| at + 1);
        let word = before.get(start..).unwrap_or_default().to_ascii_lowercase();
        let fits = |name: &&String| name.to_ascii_lowercase().starts_with(&word);
        let found = self.0.iter().filter(fits).cloned();
        Ok((start, found.collect()))
    }
}

/// Returns the file of the history, as the XDG base directories say.
fn history() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    let folder = state.or_else(home)?.join("inferscope");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("sql_history"))
}

/// Reads statements from the terminal until its end; a statement ends with a semicolon.
pub(crate) fn run(session: &Session, args: &SqlCli) -> anyhow::Result<Outcome> {
    let engine = &session.engine;
    let mut editor: Editor<Names, FileHistory> = Editor::new()?;
    let mut names = engine.table_names();
    names.extend(
        TABLES
            .iter()
            .chain(BESIDE)
            .flat_map(|table| table.columns())
            .map(|column| column.name.to_owned()),
    );
    names.extend(WORDS.iter().map(|word| (*word).to_owned()));
    names.sort();
    names.dedup();
    editor.set_helper(Some(Names(names)));
    let history = history();
    if let Some(path) = &history {
        // There is none yet at the first time.
        let _ = editor.load_history(path);
    }
    cli::terminal::say(
        "SHOW TABLES; lists the tables, \\q leaves. Statements end with a semicolon.",
    );
    let mut text = String::new();
    let mut outcome = Outcome::Fine;
    loop {
        let line = match editor.readline(if text.is_empty() { "sql> " } else { "...> " }) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                text.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        };
        let word = line.trim();
        if text.is_empty() && ["\\q", "exit", "quit", "exit;", "quit;"].contains(&word) {
            break;
        }
        text.push_str(&line);
        text.push('\n');
        if !word.ends_with(';') {
            if text.trim().is_empty() {
                text.clear();
            }
            continue;
        }
        let statement = std::mem::take(&mut text);
        // History that cannot be kept is no reason to stop.
        let _ = editor.add_history_entry(statement.trim());
        let mut out = Destination::stdout();
        let done = engine.run(&statement, &mut text_results(&mut out, args));
        out.finish()?;
        match done {
            Err(error) if error.kind() == ErrorKind::Closed => break,
            Err(error) => cli::complain(&exit(error)),
            Ok(()) => {}
        }
        outcome = complain(session, args.verbosity);
    }
    if let Some(path) = &history {
        let _ = editor.save_history(path);
    }
    Ok(outcome)
}
