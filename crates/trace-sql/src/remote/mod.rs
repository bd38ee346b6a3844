//! Tables, scans and functions for engines whose processes share a plan: each becomes a message, and is made again from it elsewhere.
//!
//! [`Codec`] turns what a plan of [`crate::Engine`] holds into messages and back; a cluster's own codecs call it for what they do not
//! know. A process that reads recordings needs a [`Reader`].

mod message;
mod source;
mod work;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use datafusion::common::{DataFusionError, Result, not_impl_err};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::{MemTable, TableProvider};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::physical_plan::ExecutionPlan;
use trace_tables::catalogue::{FAILURES, table};
use trace_tables::{Recording, Request};

use crate::failures::Failures;
use crate::functions::{self, ExtractArg};
use crate::provider::CatalogueTable;
use crate::store::{Inputs, Store, Wanted};
use crate::stored::Stored;
use crate::{exact, functions as place};
use message::{Body, Place, Recordings, WORK};
use source::{Rows, Source};
use work::WorkTable;

pub use message::VERSION;
pub use source::{LEFT_OUT, NOTE};
pub use work::{Lost, Order, Take, Work, Workers};

/// Recordings that a process of a cluster keeps for later tables of the same statement, in bytes.
const MEMORY: usize = 1 << 30;

/// Opens recordings by the texts of [`Inputs::recipe_options`] and [`Inputs::recipe`].
pub trait Reader: fmt::Debug + Send + Sync {
    /// Reads file number `file`, with at least what is wanted. Also returns what is missing of it, a sentence each.
    ///
    /// # Errors
    ///
    /// Returns one sentence that names the file and the reason.
    fn read(
        &self,
        options: &str,
        file: usize,
        recipe: &str,
        wanted: &Wanted,
    ) -> std::result::Result<(Recording, Vec<String>), String>;

    /// Does work of a name on a file, whose order `recipe` and `options` are, and sends texts and bytes; `send` returns `false` if no
    /// more are wanted. By default no work is known.
    ///
    /// # Errors
    ///
    /// Returns one sentence if the work cannot be done, which ends all of it.
    fn work(
        &self,
        work: &str,
        _options: &str,
        _recipe: &str,
        _send: &mut dyn FnMut(&str, &[u8]) -> bool,
    ) -> std::result::Result<(), String> {
        Err(format!("this process knows no work `{work}`"))
    }
}

/// Writes and reads the messages of one process.
pub struct Codec {
    /// What the process is: `client`, `scheduler` or `executor`.
    process: &'static str,
    version: u32,
    reader: Option<Arc<dyn Reader>>,
    /// Recordings by statement, while a plan needs them.
    stores: Mutex<HashMap<String, Known>>,
}

/// A store that some plan may still use, and what it reads.
type Known = (Weak<Store>, Arc<Elsewhere>);

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec")
            .field("process", &self.process)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Marks a sentence of ours within the texts that a cluster wraps errors into.
const BEGIN: &str = "⟦";
const END: &str = "⟧";

/// Returns an error whose sentence is found again by [`sentence`].
fn refused(text: impl fmt::Display) -> DataFusionError {
    DataFusionError::External(mark(text).into())
}

/// Marks a sentence, so that [`sentence`] finds it in a longer text.
pub fn mark(text: impl fmt::Display) -> String {
    format!("{BEGIN}{text}{END}")
}

/// Marks the sentence of an error of ours.
fn marked(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::External(error) => refused(error),
        error => error,
    }
}

/// Returns the sentence of ours within the text of an error of a cluster.
#[must_use]
pub fn sentence(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(BEGIN)?;
    Some(rest.split_once(END).map_or(rest, |(sentence, _)| sentence))
}

impl Codec {
    /// Creates the codec of a process; only those that read recordings need a reader.
    #[must_use]
    pub fn new(process: &'static str, reader: Option<Arc<dyn Reader>>) -> Self {
        Self {
            process,
            version: VERSION,
            reader,
            stores: Mutex::default(),
        }
    }

    /// Returns `true` if bytes are a message of this codec, of whatever version.
    #[must_use]
    pub fn is_message(bytes: &[u8]) -> bool {
        message::is_message(bytes)
    }

    fn write(&self, body: Body, payload: &[u8], out: &mut Vec<u8>) -> Result<()> {
        message::write(self.version, self.process, body, payload, out).map_err(refused)
    }

    fn read<'b>(&self, bytes: &'b [u8]) -> Result<(Body, &'b [u8])> {
        message::read(self.version, self.process, bytes).map_err(refused)
    }

    /// Writes a table.
    ///
    /// # Errors
    ///
    /// Returns an error if the table is none of ours, or its recordings cannot be opened elsewhere.
    pub fn encode_table(&self, table: &dyn TableProvider, out: &mut Vec<u8>) -> Result<()> {
        if let Some(table) = table.downcast_ref::<CatalogueTable>() {
            let place = Place::Recordings(recordings(&table.store, None)?);
            let name = table.table.name.to_owned();
            return self.write(Body::Table { place, name }, &[], out);
        }
        if let Some(table) = table.downcast_ref::<Failures>() {
            let place = Place::Recordings(recordings(table.store(), None)?);
            let name = FAILURES.to_owned();
            return self.write(Body::Table { place, name }, &[], out);
        }
        if let Some(table) = table.downcast_ref::<WorkTable>() {
            let place = Place::Recordings(recordings(&table.store, None)?);
            let name = format!("{WORK}{}", table.work);
            return self.write(Body::Table { place, name }, &[], out);
        }
        if let Some(table) = table.downcast_ref::<MemTable>() {
            return self.write(Body::Rows, &rows_of(table)?, out);
        }
        not_impl_err!("a table of this kind cannot be sent to a cluster")
    }

    /// Reads a table.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is of another version.
    pub fn decode_table(&self, bytes: &[u8]) -> Result<Arc<dyn TableProvider>> {
        match self.read(bytes)? {
            (Body::Table { place, name }, _) => {
                let Place::Recordings(recordings) = place else {
                    return Err(refused("a data set has no tables of recordings"));
                };
                let store = self.store(&recordings);
                if name == FAILURES {
                    return Ok(Arc::new(Failures::new(store).a_partition_a_file()));
                }
                if let Some(work) = name.strip_prefix(WORK) {
                    let work = work.to_owned();
                    return Ok(Arc::new(WorkTable { store, work }));
                }
                let Some(table) = table(&name) else {
                    return Err(refused(format_args!("no table `{name}`")));
                };
                Ok(Arc::new(CatalogueTable {
                    table,
                    store,
                    threads: 1,
                    a_partition_a_file: true,
                }))
            }
            (Body::Rows, payload) => table_of(payload),
            _ => Err(refused("the message is of another kind")),
        }
    }

    /// Writes a scan; `None` if it is none of ours.
    ///
    /// # Errors
    ///
    /// Returns an error if its recordings cannot be opened elsewhere.
    pub fn encode_scan(&self, plan: &dyn ExecutionPlan, out: &mut Vec<u8>) -> Option<Result<()>> {
        let exec = plan.downcast_ref::<DataSourceExec>()?;
        let config = exec.data_source().as_ref() as &dyn std::any::Any;
        let config = config.downcast_ref::<FileScanConfig>()?;
        let source = config.file_source().downcast_ref::<Source>()?;
        let partitions = source::partitions(config);
        let files: Vec<usize> = partitions.iter().flatten().copied().collect();
        let (table, request) = match &source.rows {
            Rows::Table { table, request } => (table.name.to_owned(), request.clone()),
            Rows::Failures { columns } => {
                let request = Request::columns(columns.clone());
                (FAILURES.to_owned(), request)
            }
            Rows::Work { work, columns } => {
                (format!("{WORK}{work}"), Request::columns(columns.clone()))
            }
        };
        let write = |place: Recordings| {
            let scan = message::Scan {
                place,
                table,
                columns: request.columns,
                between: request.between,
                names: request.names,
                keys: request.keys,
                partitions,
                limit: config.limit,
            };
            self.write(Body::Scan(scan), &[], out)
        };
        Some(recordings(&source.store, Some(&files)).and_then(write))
    }

    /// Reads a scan.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is of another version.
    pub fn decode_scan(&self, bytes: &[u8]) -> Result<Arc<dyn ExecutionPlan>> {
        let (Body::Scan(scan), _) = self.read(bytes)? else {
            return Err(refused("the message is of another kind"));
        };
        let store = self.store(&scan.place);
        let rows = match (scan.table.as_str(), table(&scan.table)) {
            (FAILURES, _) => Rows::Failures {
                columns: scan.columns,
            },
            (_, Some(table)) => {
                let mut request = Request::columns(scan.columns);
                request.between = scan.between;
                request.names = scan.names;
                request.keys = scan.keys;
                Rows::Table { table, request }
            }
            (name, None) => match name.strip_prefix(WORK) {
                Some(work) => Rows::Work {
                    work: work.to_owned(),
                    columns: scan.columns,
                },
                None => return Err(refused(format_args!("no table `{name}`"))),
            },
        };
        Ok(source::scan(store, rows, &scan.partitions, scan.limit)?)
    }

    /// Writes a scalar function; nothing if it is none of ours, and known everywhere.
    ///
    /// # Errors
    ///
    /// Returns an error if its recordings cannot be opened elsewhere.
    pub fn encode_function(&self, function: &ScalarUDF, out: &mut Vec<u8>) -> Result<()> {
        let place = match function.inner().downcast_ref::<ExtractArg>() {
            Some(function) => Some(match function.place() {
                place::Place::Recordings(store) => Place::Recordings(recordings(store, None)?),
                place::Place::DataSet(stored) => {
                    let (folder, left_out) = stored.parts();
                    Place::DataSet { folder, left_out }
                }
            }),
            None if functions::plain(function.name()).is_some() => None,
            None if exact::arithmetic(function.name()).is_some() => None,
            None => return Ok(()),
        };
        self.write(Body::Function { place }, &[], out)
    }

    /// Reads a scalar function.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is of another version, or the function is not known.
    pub fn decode_function(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        let (Body::Function { place }, _) = self.read(bytes)? else {
            return Err(refused("the message is of another kind"));
        };
        let place = match place {
            None => None,
            Some(Place::Recordings(recordings)) => {
                Some(place::Place::Recordings(self.store(&recordings)))
            }
            Some(Place::DataSet { folder, left_out }) => {
                let stored = Stored::new(&folder, &left_out);
                let stored = stored.map_err(refused)?;
                Some(place::Place::DataSet(Arc::new(stored)))
            }
        };
        let function = match place {
            Some(place) => ExtractArg::named(name, place).map(ScalarUDF::from),
            None => functions::plain(name).or_else(|| exact::arithmetic(name)),
        };
        function
            .map(Arc::new)
            .ok_or_else(|| refused(format_args!("no function `{name}`")))
    }

    /// Writes an aggregate function; nothing if it is none of ours.
    ///
    /// # Errors
    ///
    /// Does not fail as the messages are now.
    pub fn encode_aggregate(&self, function: &AggregateUDF, out: &mut Vec<u8>) -> Result<()> {
        match exact::is_sum(function) {
            true => self.write(Body::Aggregate, &[], out),
            false => Ok(()),
        }
    }

    /// Reads an aggregate function.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is of another version.
    pub fn decode_aggregate(&self, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        match self.read(bytes)? {
            (Body::Aggregate, _) => Ok(Arc::new(exact::sum())),
            _ => Err(refused("the message is of another kind")),
        }
    }

    /// Returns the recordings of a statement, one store for all its tables and tasks in this process.
    fn store(&self, recordings: &Recordings) -> Arc<Store> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let known = stores.get(&recordings.statement);
        let known = known.and_then(|(store, inputs)| Some((store.upgrade()?, Arc::clone(inputs))));
        let (store, inputs) = known.unwrap_or_else(|| {
            stores.retain(|_, (store, _)| store.strong_count() > 0);
            let inputs = Arc::new(Elsewhere {
                reader: self.reader.clone(),
                process: self.process,
                options: recordings.options.clone(),
                names: vec![String::new(); recordings.total],
                files: Mutex::default(),
            });
            let store = Store::new(Arc::clone(&inputs) as Arc<dyn Inputs>, MEMORY);
            let store = Arc::new(store.of_statement(&recordings.statement).with_plain_text());
            let entry = (Arc::downgrade(&store), Arc::clone(&inputs));
            stores.insert(recordings.statement.clone(), entry);
            (store, inputs)
        });
        inputs.add(&recordings.files);
        store.want(&recordings.wanted());
        store
    }
}

/// Returns what another process needs to open some files of a store, or all.
fn recordings(store: &Store, files: Option<&[usize]>) -> Result<Recordings> {
    let inputs = store.inputs();
    let all: Vec<usize> = (0..store.files()).collect();
    let mut chosen = Vec::new();
    let Some(options) = inputs.recipe_options() else {
        return not_impl_err!("these recordings cannot be opened by other processes");
    };
    for file in files.unwrap_or(&all) {
        let Some(recipe) = inputs.recipe(*file) else {
            let name = store.name(*file);
            return Err(refused(format_args!(
                "{name}: a cluster cannot read it: it is no file of its own"
            )));
        };
        chosen.push((*file, store.name(*file), recipe));
    }
    let wanted = store.wanted();
    Ok(Recordings {
        statement: store.statement(),
        total: store.files(),
        options,
        files: chosen,
        args: message::arg_keys(&wanted.args),
        hash: wanted.hash,
    })
}

/// Recordings that another process named.
struct Elsewhere {
    reader: Option<Arc<dyn Reader>>,
    process: &'static str,
    options: String,
    /// As many as there are files; their texts are in `files`.
    names: Vec<String>,
    /// Names and recipes of those that this process has heard of.
    files: Mutex<BTreeMap<usize, File>>,
}

#[derive(Clone, Default)]
struct File {
    name: String,
    recipe: String,
    warnings: Vec<String>,
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files of another process", self.names.len())
    }
}

impl Elsewhere {
    fn add(&self, more: &[(usize, String, String)]) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        for (file, name, recipe) in more {
            files.entry(*file).or_insert_with(|| File {
                name: name.clone(),
                recipe: recipe.clone(),
                warnings: Vec::new(),
            });
        }
    }

    fn file(&self, file: usize) -> Option<File> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(&file).cloned()
    }
}

impl Inputs for Elsewhere {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn name(&self, file: usize) -> String {
        self.file(file).unwrap_or_default().name
    }

    fn open(&self, file: usize, wanted: &Wanted) -> std::result::Result<Recording, String> {
        let Some(known) = self.file(file) else {
            return Err(format!("no file {file} of this query"));
        };
        let Some(reader) = &self.reader else {
            let process = self.process;
            return Err(format!("{}: the {process} reads no recordings", known.name));
        };
        let (recording, warnings) = reader.read(&self.options, file, &known.recipe, wanted)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.entry(file).or_default().warnings = warnings;
        Ok(recording)
    }

    fn work(
        &self,
        work: &str,
        file: usize,
        send: &mut dyn FnMut(&str, &[u8]) -> bool,
    ) -> std::result::Result<(), String> {
        let Some(known) = self.file(file) else {
            return Err(format!("no file {file} of this work"));
        };
        let Some(reader) = &self.reader else {
            let process = self.process;
            return Err(format!("{}: the {process} does no work", known.name));
        };
        reader.work(work, &self.options, &known.recipe, send)
    }

    fn recipe_options(&self) -> Option<String> {
        Some(self.options.clone())
    }

    fn recipe(&self, file: usize) -> Option<String> {
        Some(self.file(file)?.recipe)
    }

    fn warnings(&self, file: usize) -> Vec<String> {
        self.file(file).unwrap_or_default().warnings
    }
}

/// Returns a scan of a table of the catalogue, one partition a file.
pub(crate) fn scan_table(
    table: &CatalogueTable,
    request: Request,
    files: &[usize],
    limit: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let rows = Rows::Table {
        table: table.table,
        request,
    };
    let partitions: Vec<Vec<usize>> = files.iter().map(|file| vec![*file]).collect();
    Ok(source::scan(
        Arc::clone(&table.store),
        rows,
        &partitions,
        limit,
    )?)
}

/// Returns a scan of the table of failures, one partition a file.
pub(crate) fn scan_failures(
    store: &Arc<Store>,
    columns: Vec<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let partitions: Vec<Vec<usize>> = (0..store.files()).map(|file| vec![file]).collect();
    let rows = Rows::Failures { columns };
    Ok(source::scan(Arc::clone(store), rows, &partitions, None)?)
}

/// Returns a scan of the answers of work, one partition a file.
fn scan_work(
    store: &Arc<Store>,
    work: &str,
    columns: Vec<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let partitions: Vec<Vec<usize>> = (0..store.files()).map(|file| vec![file]).collect();
    let work = work.to_owned();
    let rows = Rows::Work { work, columns };
    Ok(source::scan(Arc::clone(store), rows, &partitions, None)?)
}

/// Returns the rows of a table in memory as Arrow's file format.
fn rows_of(table: &MemTable) -> Result<Vec<u8>> {
    let schema = table.schema();
    let mut writer = FileWriter::try_new(Vec::new(), &schema)?;
    let mut whole = Vec::new();
    for part in &table.batches {
        let part = part.try_read();
        let part = part.map_err(|_| DataFusionError::Internal("the table is in use".to_owned()))?;
        whole.extend(part.iter().cloned());
    }
    // The file format allows one dictionary a column.
    if !whole.is_empty() {
        let one = datafusion::arrow::compute::concat_batches(&schema, &whole)?;
        writer.write(&one)?;
    }
    Ok(writer.into_inner()?)
}

fn table_of(bytes: &[u8]) -> Result<Arc<dyn TableProvider>> {
    let reader = FileReader::try_new(std::io::Cursor::new(bytes), None)?;
    let schema = reader.schema();
    let rows: std::result::Result<Vec<RecordBatch>, _> = reader.collect();
    Ok(Arc::new(MemTable::try_new(schema, vec![rows?])?))
}

#[cfg(test)]
mod tests {
    use trace_tables::catalogue::ArgKeys;

    use super::work::Orders;
    use super::*;

    #[test]
    fn a_sentence_is_found_in_what_a_cluster_makes_of_it() {
        let error = refused("the client is older");
        let text = format!("Job 1 failed: Execution({error:?})");
        assert_eq!(sentence(&text), Some("the client is older"));
        assert_eq!(sentence("Job 1 failed"), None);
    }

    #[test]
    fn functions_travel_and_other_versions_do_not() {
        let client = Codec::new("client", None);
        let mut scheduler = Codec::new("scheduler", None);
        let function = functions::plain("str_split").unwrap();
        let (mut scalar, mut sum) = (Vec::new(), Vec::new());
        client.encode_function(&function, &mut scalar).unwrap();
        client.encode_aggregate(&exact::sum(), &mut sum).unwrap();
        let again = scheduler.decode_function("str_split", &scalar).unwrap();
        assert_eq!(again.signature(), function.signature());
        assert!(exact::is_sum(&scheduler.decode_aggregate(&sum).unwrap()));
        // A function of DataFusion is known everywhere.
        let mut nothing = Vec::new();
        let upper = datafusion::functions::string::upper();
        client.encode_function(&upper, &mut nothing).unwrap();
        assert!(nothing.is_empty());
        scheduler.version += 1;
        let error = scheduler.decode_function("str_split", &scalar);
        let error = error.unwrap_err().to_string();
        let sentence = sentence(&error).unwrap();
        let begin = "the client is older than the scheduler";
        assert!(sentence.starts_with(begin), "{sentence}");
    }

    #[test]
    fn rows_in_memory_travel() {
        let column = arrow_array::StringArray::from_iter([Some("a"), None]);
        let batch = RecordBatch::try_from_iter([("name", Arc::new(column) as _)]).unwrap();
        let parts = vec![vec![batch.clone()], vec![batch.clone()]];
        let table = MemTable::try_new(batch.schema(), parts).unwrap();
        let codec = Codec::new("client", None);
        let mut bytes = Vec::new();
        codec.encode_table(&table, &mut bytes).unwrap();
        assert!(Codec::is_message(&bytes));
        let again = codec.decode_table(&bytes).unwrap();
        let again = again.downcast_ref::<MemTable>().unwrap();
        let rows = again.batches[0].try_read().unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 4);
        assert_eq!(again.schema(), batch.schema());
    }

    /// Sends what it gets.
    #[derive(Debug)]
    struct Echo;

    impl Reader for Echo {
        fn read(
            &self,
            _: &str,
            _: usize,
            recipe: &str,
            _: &Wanted,
        ) -> std::result::Result<(Recording, Vec<String>), String> {
            Err(format!("{recipe}: no recording"))
        }

        fn work(
            &self,
            work: &str,
            options: &str,
            recipe: &str,
            send: &mut dyn FnMut(&str, &[u8]) -> bool,
        ) -> std::result::Result<(), String> {
            if recipe == "fails" {
                return Err("it fails".to_owned());
            }
            send(work, options.as_bytes());
            send(recipe, &[0, 255]);
            Ok(())
        }
    }

    #[test]
    fn work_travels_through_all_processes() {
        let order = |recipe: &str| Order {
            name: format!("{recipe}.json"),
            recipe: recipe.to_owned(),
        };
        let orders = Orders::new(Work {
            name: "echo".to_owned(),
            options: "loud".to_owned(),
            orders: ["a", "b", "fails"].map(order).into(),
        });
        let store = Store::new(Arc::new(orders), 0).with_plain_text();
        let (store, work) = (Arc::new(store), "echo".to_owned());
        let (mut table, mut scan) = (Vec::new(), Vec::new());
        let client = Codec::new("client", None);
        let of_client = WorkTable { store, work };
        client.encode_table(&of_client, &mut table).unwrap();

        let runtime = tokio::runtime::Builder::new_multi_thread().build();
        let runtime = runtime.unwrap();
        let context = datafusion::prelude::SessionContext::new();
        let scheduler = Codec::new("scheduler", None);
        let table = scheduler.decode_table(&table).unwrap();
        let state = context.state();
        let plan = runtime.block_on(table.scan(&state, None, &[], None));
        let plan = plan.unwrap();
        scheduler
            .encode_scan(plan.as_ref(), &mut scan)
            .unwrap()
            .unwrap();

        let executor = Codec::new("executor", Some(Arc::new(Echo)));
        let plan = executor.decode_scan(&scan).unwrap();
        let rows = |partition: usize| {
            let rows = plan.execute(partition, context.task_ctx()).unwrap();
            runtime.block_on(datafusion::physical_plan::common::collect(rows))
        };
        let mut arrived = Vec::new();
        for batch in [rows(1).unwrap(), rows(0).unwrap()].concat() {
            let mut take = |order: usize, text: &str, bytes: &[u8]| {
                arrived.push((order, text.to_owned(), bytes.to_vec()));
                Ok(())
            };
            work::passed_on(&batch, &mut take).unwrap();
        }
        let said = |order, text: &str, bytes: &[u8]| (order, text.to_owned(), bytes.to_vec());
        let expected = [
            said(1, "echo", b"loud"),
            said(1, "b", &[0, 255]),
            said(0, "echo", b"loud"),
            said(0, "a", &[0, 255]),
        ];
        assert_eq!(arrived, expected);
        let error = rows(2).unwrap_err().to_string();
        assert_eq!(sentence(&error), Some("it fails"));
        // A process without a reader does no work.
        let plan = scheduler.decode_scan(&scan).unwrap();
        let rows = plan.execute(0, context.task_ctx()).unwrap();
        let rows = runtime.block_on(datafusion::physical_plan::common::collect(rows));
        assert!(rows.unwrap_err().to_string().contains("does no work"));
    }

    #[test]
    fn keys_of_arguments_are_kept() {
        for keys in [
            ArgKeys::None,
            ArgKeys::All,
            ArgKeys::Only(vec!["stream".to_owned()]),
        ] {
            let recordings = Recordings {
                statement: String::new(),
                total: 0,
                options: String::new(),
                files: Vec::new(),
                args: message::arg_keys(&keys),
                hash: true,
            };
            let wanted = recordings.wanted();
            assert_eq!((wanted.args, wanted.hash), (keys, true));
        }
    }
}
