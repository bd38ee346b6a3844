//! The tables of a command line.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use arrow_schema::SchemaRef;
use blkio_parser::pipeline::ReadOptions;
use cli::in_process::Call;
use cli::{InputArgs, VerbosityArgs};
use database_tables::Databases;
use findings::Ids;
use memtrace_labeller::{InputOptions, Names, RowStream};
use report::RowSink;
use trace_input::ClassesArgs;
use trace_tables::catalogue::{FAILURES, VIEWS, any_table};
use trace_tables::scan::joined_id;
use trace_tables::{Batches, Beside, OwnTable, TakeBatch};
use why_input::Question;

use crate::logs::Sorted;
use crate::named::Named;

/// The tables beside those of the recordings of a command line.
#[derive(Debug)]
pub struct Tables {
    /// Paths as given, for `why`.
    given: Vec<PathBuf>,
    sorted: Sorted,
    /// Recordings, in the order of their ids.
    recordings: Vec<PathBuf>,
    input: InputArgs,
    classes: ClassesArgs,
    databases: OnceLock<Databases>,
    /// What was wrong with inputs, a sentence each.
    notes: Mutex<Vec<String>>,
    /// The run that threads of an engine read for, within another program.
    call: Option<Call>,
}

impl Tables {
    /// Parts the paths of a command line.
    pub fn new(given: Vec<PathBuf>, input: InputArgs) -> Self {
        Self {
            sorted: Sorted::of(&given),
            given,
            recordings: Vec::new(),
            input,
            classes: ClassesArgs::default(),
            databases: OnceLock::new(),
            notes: Mutex::default(),
            call: cli::in_process::current(),
        }
    }

    /// Returns the paths that are no logs: recordings, folders with recordings, and what is not known.
    #[must_use]
    pub fn paths_of_recordings(&self) -> &[PathBuf] {
        &self.sorted.recordings
    }

    /// Sets the recordings that the paths expand to; the place of one is its `file_id`.
    #[must_use]
    pub fn with_recordings(mut self, recordings: Vec<PathBuf>) -> Self {
        self.recordings = recordings;
        self
    }

    /// Sets the rules of the user for the classes of kernels.
    #[must_use]
    pub fn with_classes(mut self, classes: ClassesArgs) -> Self {
        self.classes = classes;
        self
    }

    /// Returns what was wrong with the inputs that were read since the last call, a sentence each.
    pub fn take_notes(&self) -> Vec<String> {
        let mut notes = std::mem::take(&mut *self.notes());
        notes.extend(
            self.databases
                .get()
                .map(Databases::take_notes)
                .unwrap_or_default(),
        );
        notes
    }

    fn notes(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn databases(&self) -> &Databases {
        self.databases.get_or_init(|| {
            let mut files: Vec<(String, PathBuf)> = Vec::new();
            for path in &self.recordings {
                let file = trace_input::file_of(path);
                let name = file.display().to_string();
                if !files.iter().any(|(known, _)| *known == name) {
                    files.push((name, file.to_owned()));
                }
            }
            Databases::list(&files, is_taken)
        })
    }

    fn findings(&self, sink: &mut dyn RowSink) -> Result<(), String> {
        let quiet = VerbosityArgs {
            quiet: true,
            verbose: false,
        };
        let mut question = Question::of(self.given.clone(), self.input.clone(), quiet);
        question.classes = self.classes.clone();
        let answer = || why_input::answer(&question, String::new());
        let document = match &self.call {
            Some(call) => call.within(answer),
            None => answer(),
        };
        let document = document.map_err(|error| format!("{error:#}"))?;
        for file in &document.scope.files {
            if let Some(problem) = &file.problem {
                self.notes()
                    .push(format!("{}: not used: {problem}", file.name));
            }
        }
        let place = |name: &str| {
            let mut all = self.recordings.iter();
            let at = all.position(|path| path.display().to_string() == name)?;
            i64::try_from(at).ok()
        };
        let event = |file: i64, row: u64| joined_id(u32::try_from(file).ok()?, row);
        let ids = Ids {
            file: &place,
            event: &event,
        };
        findings::write_rows(&document, &ids, sink).map_err(|error| error.to_string())
    }

    fn block_io(&self, name: &str, sink: &mut (dyn RowSink + Send)) -> Result<(), String> {
        if self.sorted.block_io.is_empty() {
            self.notes()
                .push(format!("{name} is empty: no log of block I/O is given"));
        }
        let mut read = ReadOptions::default();
        read.strict = self.input.strict;
        read.threads = self.input.threads().get();
        read.open = self.input.open_options(None);
        for (at, (path, files)) in self.sorted.block_io.iter().enumerate() {
            let path = path.display().to_string();
            let mut named = Named::new(&mut *sink, &path, at == 0);
            let done = match name {
                "block_requests" => {
                    blkio_report::request_table::pass_requests(files, &read, &mut named)
                }
                _ => blkio_report::event_table::pass_events(files, &read, &mut named),
            };
            let outcome = done.map_err(|error| error.to_string())?;
            self.notes()
                .extend(blkio_report::event_table::omissions(&outcome));
        }
        sink.finish().map_err(|error| error.to_string())
    }

    fn accesses(&self, sink: &mut (dyn RowSink + Send)) -> Result<(), String> {
        if self.sorted.accesses.is_empty() {
            self.notes()
                .push("accesses is empty: no capture of memory accesses is given".to_owned());
        }
        for (at, path) in self.sorted.accesses.iter().enumerate() {
            let shown = path.display().to_string();
            let mut options = InputOptions::default();
            options.threads = self.input.threads();
            options.run_id = memtrace_run::run_name(path);
            let open = self.input.open_options(None);
            let failed = |error: &dyn std::error::Error| format!("{shown}: {error}");
            let stream = RowStream::open_path(path, &open, &options);
            let stream = stream.map_err(|error| failed(&error))?;
            let mut named = Named::new(&mut *sink, &shown, at == 0);
            let done = memtrace_run::pass_accesses(stream, Names::new(), &mut named);
            let report = done.map_err(|error| failed(&error))?.report;
            if !report.is_complete() {
                self.notes().push(format!(
                    "{shown}: {} of {} lines are no accesses and are left out{}",
                    report.skipped_total(),
                    report.lines,
                    report
                        .damage
                        .iter()
                        .map(|text| format!("; {text}"))
                        .collect::<String>(),
                ));
            }
        }
        sink.finish().map_err(|error| error.to_string())
    }
}

/// Returns `true` for names that the catalogue has.
fn is_taken(name: &str) -> bool {
    any_table(name).is_some() || name == FAILURES || VIEWS.iter().any(|view| view.name == name)
}

impl Beside for Tables {
    fn own_tables(&self) -> Vec<OwnTable> {
        self.databases().tables()
    }

    fn own_schema(&self, name: &str) -> Option<Result<SchemaRef, String>> {
        self.databases().schema(name)
    }

    fn read(&self, name: &str, columns: &[usize], take: &mut TakeBatch<'_>) -> Result<(), String> {
        let Some(table) = any_table(name) else {
            return self.databases().read(name, columns, take);
        };
        let sink = Batches::new(table, columns, &mut *take);
        let mut sink = sink.map_err(|error| error.to_string())?;
        let done = match name {
            "findings" => self.findings(&mut sink),
            "block_requests" | "block_events" => self.block_io(name, &mut sink),
            "accesses" => self.accesses(&mut sink),
            _ => Ok(()),
        };
        match sink.is_stopped() {
            true => Ok(()),
            false => done,
        }
    }
}
