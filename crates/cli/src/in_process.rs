//! Runs a tool within another program, such as Python or a server: its output, notes and errors are collected, and the
//! program's own streams, signals and panic hook are left alone.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byte_source::Progress;
use report::{
    Cell, Column, JsonDocument, JsonLayout, JsonRowsWriter, RowSink, SchemaVersion, Table,
};

thread_local! {
    /// The call that this thread runs a tool for.
    static CURRENT: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// One run of a tool within this process. Clones are handles of the same run, for other threads.
///
/// ```
/// use std::io::Write as _;
///
/// let answer = cli::in_process::Call::default().run(|| {
///     let mut out = cli::Output::stdout();
///     write!(out, "42").and_then(|()| out.flush()).map_or(5, |()| 0)
/// });
/// assert_eq!((answer.code, answer.output.as_slice()), (0, b"42".as_slice()));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Call(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    collected: Mutex<Answer>,
    counters: Mutex<Vec<Arc<Progress>>>,
    stopped: AtomicBool,
}

/// What a tool answered.
#[derive(Debug, Default)]
pub struct Answer {
    /// The exit code.
    pub code: u8,
    /// What standard output would have received. Empty for a tool that gave `tables` instead.
    pub output: Vec<u8>,
    /// Lines for standard error: notes and warnings.
    pub notes: Vec<String>,
    /// The error that ended the tool, on one line, without the tool's name.
    pub error: Option<String>,
    /// The answer in words, where the tool has one, in the order of the traces.
    pub sentences: Vec<String>,
    /// The tables of the JSON document, the main one first, with the version of their schema.
    pub tables: Option<(SchemaVersion, Vec<Table>)>,
    /// Layout of the JSON document of `tables`.
    pub layout: Layout,
}

/// How tables are laid out in a JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// A member for each table.
    #[default]
    Members,
    /// The columns and rows of the only table.
    Rows,
    /// The rows of the only table, without columns.
    Array,
}

impl Answer {
    /// Returns the JSON document: what `--json` prints.
    ///
    /// # Errors
    ///
    /// Returns an error if a table cannot be written as JSON.
    pub fn json(&self) -> report::Result<Vec<u8>> {
        match &self.tables {
            Some((version, tables)) if self.output.is_empty() => {
                document(*version, self.layout, tables)
            }
            _ => Ok(self.output.clone()),
        }
    }
}

/// Returns the JSON document of tables.
///
/// # Errors
///
/// Returns an error if a table cannot be written as JSON.
pub fn document<'t>(
    version: SchemaVersion,
    layout: Layout,
    tables: impl IntoIterator<Item = &'t Table>,
) -> report::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut tables = tables.into_iter();
    match (layout, tables.next()) {
        (Layout::Rows, Some(table)) => {
            let layout = JsonLayout::Document(version);
            table.write_to(&mut JsonRowsWriter::new(&mut text, layout))?;
        }
        (Layout::Array, Some(table)) => {
            table.write_to(&mut JsonRowsWriter::new(&mut text, JsonLayout::Array))?;
        }
        (_, first) => {
            let mut document = JsonDocument::new(&mut text, version)?;
            for table in first.into_iter().chain(tables) {
                document.table(table.name(), table)?;
            }
            document.finish()?;
        }
    }
    Ok(text)
}

impl Call {
    /// Runs a tool on this thread and returns what it answered. Threads that the tool starts are no part of the run, and their notes
    /// go to standard error, unless they work [`within`](Self::within) it.
    pub fn run(&self, tool: impl FnOnce() -> u8) -> Answer {
        let code = self.within(tool);
        let mut answer = std::mem::take(&mut *self.collected());
        answer.code = code;
        answer
    }

    /// Does work of this run on another thread: what it reads counts as progress and can be stopped, its notes are collected.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(Some(self.clone()));
        let _restore = Restore(before);
        work()
    }

    /// Returns the bytes read so far, and those known to be read in all.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let counters = lock(&self.0.counters);
        let sum = |of: fn(&Progress) -> u64| counters.iter().map(|counter| of(counter)).sum();
        (sum(Progress::done), sum(Progress::total))
    }

    /// Makes the tool fail at the next piece of input that it reads.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
        lock(&self.0.counters)
            .iter()
            .for_each(|counter| counter.stop());
    }

    pub(crate) fn collected(&self) -> MutexGuard<'_, Answer> {
        lock(&self.0.collected)
    }

    /// Adds the counter of an input.
    pub(crate) fn watch(&self, counter: &Arc<Progress>) {
        if self.0.stopped.load(Ordering::Relaxed) {
            counter.stop();
        }
        lock(&self.0.counters).push(Arc::clone(counter));
    }
}

/// Returns the call that this thread runs a tool for; `None` on a command line.
#[must_use]
pub fn current() -> Option<Call> {
    CURRENT.with_borrow(Clone::clone)
}

/// Returns `true` if the tool runs within another program, which prefers [`give`] to rendered output.
#[must_use]
pub fn is_active() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Gives the answer as tables and sentences to the program that runs the tool; nothing happens on a command line.
pub fn give(version: SchemaVersion, tables: Vec<Table>, sentences: Vec<String>) {
    if let Some(call) = current() {
        let mut answer = call.collected();
        answer.tables = Some((version, tables));
        answer.sentences = sentences;
    }
}

/// Same as [`give`], for a document that is one table.
pub fn give_rows(version: SchemaVersion, table: Table) {
    give_laid_out(Layout::Rows, version, table);
}

/// Same as [`give`], for a document that is the list of rows of one table.
pub fn give_array(version: SchemaVersion, table: Table) {
    give_laid_out(Layout::Array, version, table);
}

fn give_laid_out(layout: Layout, version: SchemaVersion, table: Table) {
    give(version, vec![table], Vec::new());
    if let Some(call) = current() {
        call.collected().layout = layout;
    }
}

/// Collects rows as a table.
#[derive(Debug)]
pub struct Collected {
    name: &'static str,
    table: Option<Table>,
}

impl Collected {
    /// Creates a collector for a table of this name.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, table: None }
    }

    /// Returns the table, if it was begun.
    #[must_use]
    pub fn into_table(self) -> Option<Table> {
        self.table
    }
}

impl RowSink for Collected {
    fn begin(&mut self, columns: &[Column]) -> report::Result<()> {
        self.table = Some(Table::new(self.name, columns.to_vec())?);
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> report::Result<()> {
        match &mut self.table {
            Some(table) => table.push(cells),
            None => Err(report::Error::OutOfOrder { call: "row" }),
        }
    }

    fn finish(&mut self) -> report::Result<()> {
        Ok(())
    }
}

/// Sets the call of the thread back, also when a tool panics.
struct Restore(Option<Call>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::{Outcome, Output, main_from, terminal, usage};

    #[derive(clap::Parser)]
    #[command(name = "probe")]
    struct Args {
        word: String,
    }

    fn probe(args: Args) -> anyhow::Result<Outcome> {
        match args.word.as_str() {
            "wrong" => return Err(usage("no such word")),
            "panic" => panic!("a defect"),
            "rows" => {
                let mut rows = Collected::new("rows");
                rows.begin(&[Column::text("word")])?;
                rows.row(&[Cell::Text("a")])?;
                rows.finish()?;
                give_rows(SchemaVersion::new(1, 2), rows.into_table().unwrap());
                return Ok(Outcome::Fine);
            }
            "array" => {
                let mut table = Table::new("rows", vec![Column::text("word")])?;
                table.push(&[Cell::Text("a")])?;
                give_array(SchemaVersion::new(1, 2), table);
                return Ok(Outcome::Fine);
            }
            "thread" => {
                let call = current().unwrap();
                let work = || call.within(|| terminal::say("of a thread"));
                std::thread::scope(|scope| scope.spawn(work).join()).unwrap();
                return Ok(Outcome::Fine);
            }
            "table" => {
                let mut table = Table::new("words", vec![Column::text("word")])?;
                table.push(&[Cell::Text("a")])?;
                give(SchemaVersion::new(1, 2), vec![table], vec!["One.".into()]);
                return Ok(Outcome::Fine);
            }
            _ => {}
        }
        terminal::say("a note");
        let mut out = Output::stdout();
        writeln!(out, "{}", args.word)?;
        out.finish()?;
        Ok(Outcome::ConditionFailed)
    }

    fn call(words: &[&str]) -> Answer {
        let words = ["probe"].iter().chain(words).map(Into::into);
        Call::default().run(|| main_from(words, probe))
    }

    #[test]
    fn output_notes_and_errors_are_collected() {
        let answer = call(&["x"]);
        assert_eq!((answer.code, answer.output.as_slice()), (1, &b"x\n"[..]));
        assert_eq!(answer.notes, ["a note"]);
        let answer = call(&["wrong"]);
        assert_eq!(
            (answer.code, answer.error.as_deref()),
            (2, Some("no such word"))
        );
        let answer = call(&[]);
        assert_eq!(answer.code, 2);
        assert!(answer.error.unwrap().contains("<WORD>"));
        let answer = call(&["--help"]);
        assert_eq!(answer.code, 0);
        assert!(String::from_utf8(answer.output).unwrap().contains("Usage"));
        let answer = call(&["panic"]);
        assert_eq!(answer.code, 101);
        assert!(answer.error.unwrap().contains("a defect"));
        assert!(!is_active());
    }

    #[test]
    fn tables_become_the_document_of_the_command_line() {
        let answer = call(&["table"]);
        assert_eq!(answer.sentences, ["One."]);
        let json = String::from_utf8(answer.json().unwrap()).unwrap();
        assert!(
            json.starts_with("{\n\"schema_version\":\"1.2\",\n\"words\":{"),
            "{json}"
        );
        let json = String::from_utf8(call(&["rows"]).json().unwrap()).unwrap();
        assert!(
            json.starts_with("{\n\"schema_version\":\"1.2\",\n\"columns\":["),
            "{json}"
        );
    }

    #[test]
    fn a_list_of_rows_has_nothing_around_it() {
        let json = String::from_utf8(call(&["array"]).json().unwrap()).unwrap();
        assert_eq!(
            json.split_whitespace().collect::<String>(),
            r#"[{"word":"a"}]"#
        );
    }

    #[test]
    fn threads_work_within_the_run() {
        assert_eq!(call(&["thread"]).notes, ["of a thread"]);
    }

    #[test]
    fn a_stop_reaches_counters_of_before_and_after() {
        let call = Call::default();
        let early = Arc::new(Progress::default());
        call.watch(&early);
        early.add_total(8);
        early.add_done(3);
        assert_eq!(call.progress(), (3, 8));
        call.stop();
        let late = Arc::new(Progress::default());
        call.watch(&late);
        for counter in [early, late] {
            let mut options = byte_source::OpenOptions::default();
            options.progress = Some(counter);
            let opened = byte_source::Source::open(std::env::current_exe().unwrap(), &options);
            assert!(
                opened
                    .and_then(|mut source| source.head(8).map(drop))
                    .is_err()
            );
        }
    }
}
