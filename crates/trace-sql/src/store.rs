//! The recordings of a query: each is read once for all of its tables, and kept while memory lasts.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use trace_tables::catalogue::{ArgKeys, TableSpec};
use trace_tables::{Beside, NothingBeside, Recording};

/// What of a file is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wanted {
    /// Arguments of slices.
    pub args: ArgKeys,
    /// `true` if the hash of the file is needed.
    pub hash: bool,
}

impl Wanted {
    fn covers(&self, other: &Self) -> bool {
        self.args.covers(&other.args) && (self.hash || !other.hash)
    }

    fn add(&mut self, other: &Self) {
        self.args.add(&other.args);
        self.hash |= other.hash;
    }
}

/// Files that can be read as recordings.
pub trait Inputs: fmt::Debug + Send + Sync {
    /// Returns the names of the files; the place of a file is its `file_id`.
    fn names(&self) -> &[String];

    /// Reads a file with at least what is wanted.
    ///
    /// # Errors
    ///
    /// Returns one sentence that names the file and the reason.
    fn open(&self, file: usize, wanted: &Wanted) -> Result<Recording, String>;

    /// Returns what reads the tables beside those of recordings. By default they are empty.
    fn beside(&self) -> &dyn Beside {
        &NothingBeside
    }

    /// Returns the name of a file.
    fn name(&self, file: usize) -> String {
        self.names().get(file).cloned().unwrap_or_default()
    }

    /// Returns what another process must know to open any of the files; `None` if none can.
    fn recipe_options(&self) -> Option<String> {
        None
    }

    /// Returns what another process must know to open a file; `None` if it cannot.
    fn recipe(&self, _file: usize) -> Option<String> {
        None
    }

    /// Does work on a file, as [`crate::remote::Reader::work`]. Only processes of a cluster do.
    ///
    /// # Errors
    ///
    /// Returns one sentence if the work cannot be done.
    fn work(
        &self,
        work: &str,
        file: usize,
        _send: &mut dyn FnMut(&str, &[u8]) -> bool,
    ) -> Result<(), String> {
        Err(format!("{}: no {work} is done here", self.name(file)))
    }

    /// Returns what is missing of a file that was read, a sentence each. Only processes of a cluster ask.
    fn warnings(&self, _file: usize) -> Vec<String> {
        Vec::new()
    }
}

/// Returns a text that no other store of any process has.
fn unique() -> String {
    static STORES: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_nanos();
    let (process, store) = (std::process::id(), STORES.fetch_add(1, Ordering::Relaxed));
    format!("{now:x}-{process:x}-{store:x}")
}

/// Recordings that were read, and those that could not be.
#[derive(Debug)]
pub(crate) struct Store {
    inputs: Arc<dyn Inputs>,
    /// Bytes of traces to keep.
    budget: usize,
    state: Mutex<State>,
    /// Tables have plain texts, no dictionaries.
    plain_text: bool,
    /// Tells this store from others, of this process and of others.
    id: String,
    /// Signals that a file was read.
    loaded: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What the tables of the current statement need.
    wanted: Wanted,
    /// Counts statements.
    statement: u64,
    entries: HashMap<usize, Entry>,
    /// Counts uses, to find the entry that was not used for longest.
    clock: u64,
    /// Files that could not be read, with the reason.
    failures: Vec<(usize, String)>,
}

#[derive(Debug)]
enum Entry {
    Loading,
    Loaded {
        recording: Arc<Recording>,
        holds: Wanted,
        used: u64,
    },
    Failed(String),
}

impl Store {
    pub(crate) fn new(inputs: Arc<dyn Inputs>, budget: usize) -> Self {
        Self {
            inputs,
            budget,
            state: Mutex::default(),
            plain_text: false,
            id: unique(),
            loaded: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another thread leaves the state usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn files(&self) -> usize {
        self.inputs.names().len()
    }

    pub(crate) fn name(&self, file: usize) -> String {
        self.inputs.name(file)
    }

    pub(crate) fn inputs(&self) -> &Arc<dyn Inputs> {
        &self.inputs
    }

    /// Makes tables have plain texts: Ballista's processes send dictionaries as such, but expect them by the schema.
    pub(crate) fn with_plain_text(mut self) -> Self {
        self.plain_text = true;
        self
    }

    /// Returns the schema of a table.
    pub(crate) fn schema(&self, table: &TableSpec) -> SchemaRef {
        let schema = table.schema();
        if !self.plain_text {
            return schema;
        }
        let fields = schema.fields().iter().map(|field| {
            let ty = match field.data_type() {
                DataType::Dictionary(_, value) => value.as_ref().clone(),
                ty => ty.clone(),
            };
            field.as_ref().clone().with_data_type(ty)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Gives rows of a table the types of the store.
    pub(crate) fn typed(&self, batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
        if !self.plain_text {
            return Ok(batch);
        }
        let mut fields = Vec::new();
        let mut columns = Vec::new();
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            match field.data_type() {
                DataType::Dictionary(_, value) => {
                    fields.push(Arc::new(
                        field
                            .as_ref()
                            .clone()
                            .with_data_type(value.as_ref().clone()),
                    ));
                    columns.push(cast(column, value)?);
                }
                _ => {
                    fields.push(Arc::clone(field));
                    columns.push(Arc::clone(column));
                }
            }
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &rows)
    }

    /// Makes it the store of a statement of another process.
    pub(crate) fn of_statement(mut self, statement: &str) -> Self {
        statement.clone_into(&mut self.id);
        self
    }

    /// Begins a statement: nothing is wanted yet.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.wanted = Wanted::default();
        state.statement += 1;
    }

    /// Returns a text that is equal for the same statement only, also in other processes.
    pub(crate) fn statement(&self) -> String {
        match self.state().statement {
            // Of another process: the text is its own.
            0 => self.id.clone(),
            statement => format!("{}-{statement}", self.id),
        }
    }

    /// Returns what the statement needs so far.
    pub(crate) fn wanted(&self) -> Wanted {
        self.state().wanted.clone()
    }

    /// Returns why a file could not be read, if it was tried.
    pub(crate) fn failure(&self, file: usize) -> Option<String> {
        match self.state().entries.get(&file) {
            Some(Entry::Failed(why)) => Some(why.clone()),
            _ => None,
        }
    }

    /// Returns what is missing of a file that was read.
    pub(crate) fn warnings(&self, file: usize) -> Vec<String> {
        self.inputs.warnings(file)
    }

    /// Adds to what the statement needs of each file.
    pub(crate) fn want(&self, wanted: &Wanted) {
        self.state().wanted.add(wanted);
    }

    /// Adds files that another process could not read.
    pub(crate) fn add_failures(&self, failures: Vec<(usize, String)>) {
        let mut state = self.state();
        state.failures.extend(failures);
        state.failures.sort();
        state.failures.dedup();
    }

    /// Returns the files that could not be read so far, each with one sentence.
    pub(crate) fn take_failures(&self) -> Vec<String> {
        let mut state = self.state();
        let mut failures = std::mem::take(&mut state.failures);
        failures.sort();
        failures.into_iter().map(|(_, why)| why).collect()
    }

    /// Returns a file, read with what the statement needs; waits if another thread reads it.
    ///
    /// # Errors
    ///
    /// Returns the reason why it cannot be read.
    pub(crate) fn get(&self, file: usize) -> Result<Arc<Recording>, String> {
        let mut state = self.state();
        let wanted = loop {
            state.clock += 1;
            let clock = state.clock;
            let wanted = state.wanted.clone();
            match state.entries.get_mut(&file) {
                Some(Entry::Loading) => {
                    let waited = self.loaded.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
                Some(Entry::Failed(why)) => return Err(why.clone()),
                Some(Entry::Loaded {
                    recording,
                    holds,
                    used,
                }) if holds.covers(&wanted) => {
                    *used = clock;
                    return Ok(Arc::clone(recording));
                }
                _ => break wanted,
            }
        };
        state.entries.insert(file, Entry::Loading);
        drop(state);
        let guard = Waiting { store: self, file };
        let opened = self.inputs.open(file, &wanted);
        let mut state = self.state();
        let result = match opened {
            Ok(recording) => {
                let recording = Arc::new(recording);
                let entry = Entry::Loaded {
                    recording: Arc::clone(&recording),
                    holds: wanted,
                    used: state.clock,
                };
                state.entries.insert(file, entry);
                state.shrink(self.budget, file);
                Ok(recording)
            }
            Err(why) => {
                state.entries.insert(file, Entry::Failed(why.clone()));
                state.failures.push((file, why.clone()));
                Err(why)
            }
        };
        drop(state);
        drop(guard);
        result
    }
}

/// Wakes those who wait for a file, also if reading it panics.
struct Waiting<'s> {
    store: &'s Store,
    file: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.store.state();
        if matches!(state.entries.get(&self.file), Some(Entry::Loading)) {
            let why = format!("{}: reading it failed", self.store.name(self.file));
            state.entries.insert(self.file, Entry::Failed(why));
        }
        drop(state);
        self.store.loaded.notify_all();
    }
}

impl State {
    /// Drops recordings that were not used for longest until the others fit, but not `keep`.
    fn shrink(&mut self, budget: usize, keep: usize) {
        loop {
            let mut total = 0_usize;
            let mut oldest: Option<(u64, usize)> = None;
            #[expect(
                clippy::iter_over_hash_type,
                reason = "a sum and a minimum; uses are numbered, so none is equal"
            )]
            for (file, entry) in &self.entries {
                if let Entry::Loaded {
                    recording, used, ..
                } = entry
                {
                    total = total.saturating_add(recording.trace.heap_bytes());
                    if *file != keep && oldest.is_none_or(|(first, _)| *used < first) {
                        oldest = Some((*used, *file));
                    }
                }
            }
            match oldest {
                Some((_, file)) if total > budget => self.entries.remove(&file),
                _ => return,
            };
        }
    }
}
