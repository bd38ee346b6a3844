//! Runs statements.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DataFusionError, ScalarValue, TableReference};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::datasource::{MemTable, TableProvider};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use futures::StreamExt as _;
use trace_tables::catalogue::{
    ArgKeys, BESIDE, ColumnSpec, ColumnType, FAILURES, FAILURES_COLUMNS, TABLES, VIEWS,
};
use trace_tables::scan::top_key;

use crate::beside::{BesideTable, WithOwn, meant};
use crate::cluster::{self, Cluster, Job, Limited, Report, Window};
use crate::error::{ErrorKind, Names, SqlError};
use crate::folder::FileTable;
use crate::functions::Place;
use crate::kept::Kept;
use crate::provider::CatalogueTable;
use crate::quoting::Quoting;
use crate::store::{Inputs, Store, Wanted};
use crate::stored::Stored;
use crate::{bucket, dialect, exact, failures, functions, statement};

/// Default memory for sorts, joins and aggregations, and for recordings that are kept, in bytes each.
const MEMORY: usize = 4 << 30;

/// Stack of the thread that plans: a condition of a hundred thousand parts is as deep.
const STACK: usize = 256 << 20;

/// Options of an engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Bytes that sorts, joins and aggregations may use before they spill or fail, and bytes of recordings that are kept for later
    /// tables. Default is 4 GiB.
    pub memory: usize,
    /// Number of files that are read at once. Default is 1.
    pub threads: NonZeroUsize,
    /// Folder whose files statements may write and read. Default is none.
    pub allow_write: Option<PathBuf>,
    /// Files of a data set that are not to be read, because they are damaged. Default is none.
    pub left_out: Vec<PathBuf>,
    /// Runs queries elsewhere. Default is here.
    pub cluster: Option<Arc<dyn Cluster>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory: MEMORY,
            threads: NonZeroUsize::MIN,
            allow_write: None,
            left_out: Vec::new(),
            cluster: None,
        }
    }
}

/// Receives the rows of statements, one result after the other.
pub trait Results: Send {
    /// Returns the number of rows of each result after which no more are wanted; `None` is all.
    fn wanted(&self) -> Option<usize> {
        None
    }

    /// Begins a result.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError>;

    /// Adds rows. Returns `false` if no more are wanted.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be written.
    fn batch(&mut self, batch: &RecordBatch) -> Result<bool, SqlError>;

    /// Ends the result.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    fn end(&mut self) -> Result<(), SqlError>;
}

/// The tables of some files, and the engine that queries them.
pub struct Engine {
    context: SessionContext,
    runtime: tokio::runtime::Runtime,
    store: Option<Arc<Store>>,
    /// What has tables of its own beside the catalogue.
    inputs: Option<Arc<dyn Inputs>>,
    /// The tables, if they are not those of the catalogue: name and meaning.
    others: Option<Vec<(String, String)>>,
    options: Options,
    /// URL of the data set, if it is in an object store.
    folder: Option<String>,
    /// What users should know of the statements that ran.
    notes: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

fn failed(error: impl std::fmt::Display) -> SqlError {
    SqlError::new(ErrorKind::Failed, error.to_string())
}

impl Engine {
    /// Makes the tables of recordings. No file is read before a query needs it.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine cannot start, which is a defect or a lack of threads or memory.
    pub fn new(inputs: Arc<dyn Inputs>, options: Options) -> Result<Self, SqlError> {
        let mut store = Store::new(Arc::clone(&inputs), options.memory);
        if options.cluster.is_some() {
            store = store.with_plain_text();
        }
        let store = Arc::new(store);
        let mut engine = Self::start(options, &Place::Recordings(Arc::clone(&store)))?;
        engine.add_own(&inputs)?;
        for table in TABLES {
            let provider = CatalogueTable {
                table,
                store: Arc::clone(&store),
                threads: engine.options.threads.get(),
                a_partition_a_file: false,
            };
            let added = engine
                .context
                .register_table(table.name, Arc::new(provider));
            added.map_err(failed)?;
        }
        for table in BESIDE {
            let provider = BesideTable {
                name: table.name.to_owned(),
                schema: table.schema(),
                inputs: Arc::clone(&inputs),
            };
            let added = engine
                .context
                .register_table(table.name, Arc::new(provider));
            added.map_err(failed)?;
        }
        let failures = failures::Failures::new(store);
        let added = engine.context.register_table(FAILURES, Arc::new(failures));
        added.map_err(failed)?;
        engine.add_views()?;
        Ok(engine)
    }

    /// Makes the tables of an exported data set. A table that it does not have is empty.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be read.
    pub fn data_set(folder: &Path, options: Options) -> Result<Self, SqlError> {
        let input = |error: &dyn std::fmt::Display| {
            SqlError::new(ErrorKind::Input, format!("{}: {error}", folder.display()))
        };
        let real = match bucket::url_of(folder) {
            Some(url) => PathBuf::from(url),
            None => folder.canonicalize().map_err(|error| input(&error))?,
        };
        let left_out = options.left_out.iter();
        let left_out: Vec<PathBuf> = left_out
            .map(|path| real.join(path.strip_prefix(folder).unwrap_or(path)))
            .collect();
        let stored = Arc::new(Stored::new(&real, &left_out)?);
        let engine = Self::start(options, &Place::DataSet(Arc::clone(&stored)))?;
        bucket::register(&engine.context, &real)?;
        // Processes of a cluster exchange whole buffers, which views share between many batches.
        let text = match &engine.options.cluster {
            Some(_) => DataType::Utf8,
            None => DataType::Utf8View,
        };
        let own = TABLES.iter().chain(BESIDE);
        let own = own.map(|table| (table.name, stored_schema(table.columns(), &text)));
        let failures = stored_schema(FAILURES_COLUMNS.iter(), &text);
        for (name, schema) in own.chain([(FAILURES, failures)]) {
            let provider = stored_table(&stored, name, schema)?;
            let added = engine.context.register_table(name, provider);
            added.map_err(failed)?;
        }
        engine.add_views()?;
        Ok(engine)
    }

    /// Makes tables of Parquet files, each in a file of its own, in place of those of the catalogue.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read.
    pub fn folder(folder: &Path, tables: &[FileTable], options: Options) -> Result<Self, SqlError> {
        let stored = Arc::new(Stored::new(folder, &options.left_out)?);
        let mut engine = Self::start(options, &Place::DataSet(stored))?;
        for table in tables {
            let provider = table.provider()?;
            let added = engine.context.register_table(&table.name, provider);
            added.map_err(failed)?;
        }
        let others = tables.iter();
        let others = others.map(|table| (table.name.clone(), table.doc.clone()));
        engine.others = Some(others.collect());
        Ok(engine)
    }

    /// Puts the tables that inputs bring along behind those that are registered.
    fn add_own(&mut self, inputs: &Arc<dyn Inputs>) -> Result<(), SqlError> {
        let defaults = &self.context.state().config().options().catalog.clone();
        let catalog = self.context.catalog(&defaults.default_catalog);
        let catalog = catalog.ok_or_else(|| failed("the engine has no catalog"))?;
        let own = Arc::new(WithOwn::new(Arc::clone(inputs)));
        let added = catalog.register_schema(&defaults.default_schema, own);
        added.map_err(failed)?;
        self.inputs = Some(Arc::clone(inputs));
        Ok(())
    }

    fn start(options: Options, place: &Place) -> Result<Self, SqlError> {
        // One partition: files are read in parallel below the engine, and the order of rows does not depend on threads.
        // With statistics, a LIMIT would end the listing of a data set with whichever files are known first.
        let mut config = SessionConfig::new()
            .with_target_partitions(1)
            .with_collect_statistics(false);
        config.options_mut().sql_parser.collect_spans = true;
        let environment = RuntimeEnvBuilder::new().with_memory_limit(options.memory, 1.0);
        let environment = environment.build_arc().map_err(failed)?;
        let context = SessionContext::new_with_config_rt(config, environment);
        functions::register(&context, place);
        exact::register(&context);
        let store = match place {
            Place::Recordings(store) => Some(Arc::clone(store)),
            Place::DataSet(_) => None,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads.get().clamp(1, 4))
            .thread_stack_size(16 << 20)
            // Requests to object stores are repeated after a while, and clusters are on the network.
            .enable_all()
            .build()
            .map_err(failed)?;
        Ok(Self {
            context,
            runtime,
            store,
            inputs: None,
            others: None,
            options,
            folder: match place {
                Place::DataSet(stored) => stored.url(),
                Place::Recordings(_) => None,
            },
            notes: Mutex::default(),
        })
    }

    fn add_views(&self) -> Result<(), SqlError> {
        for view in VIEWS {
            let sql = format!("CREATE VIEW {} AS {}", view.name, view.sql);
            let made = self.runtime.block_on(self.context.sql(&sql));
            made.map_err(failed)?;
        }
        Ok(())
    }

    /// Returns the names of all tables and views, sorted, with those that statements made.
    #[must_use]
    pub fn table_names(&self) -> Vec<String> {
        let catalogs = self.context.catalog_names().into_iter();
        let catalogs = catalogs.filter_map(|name| self.context.catalog(&name));
        let schemas = catalogs.flat_map(|catalog| {
            let names = catalog.schema_names().into_iter();
            names
                .filter_map(|name| catalog.schema(&name))
                .collect::<Vec<_>>()
        });
        let mut names: Vec<String> = schemas.flat_map(|schema| schema.table_names()).collect();
        names.sort();
        names
    }

    fn names(&self) -> Names {
        let state = self.context.state();
        let scalar = state.scalar_functions().keys();
        let functions = scalar
            .chain(state.aggregate_functions().keys())
            .chain(state.window_functions().keys());
        let mut functions: Vec<String> = functions.cloned().collect();
        functions.sort();
        Names {
            tables: self.table_names(),
            functions,
            folder: self.folder.clone(),
        }
    }

    /// Returns one sentence for each file that could not be read since the last call; their rows are missing.
    #[must_use]
    pub fn take_failures(&self) -> Vec<String> {
        self.store
            .as_ref()
            .map(|store| store.take_failures())
            .unwrap_or_default()
    }

    /// Returns what users should know of the statements since the last call, a sentence each: what is missing of files that a cluster
    /// read, and what did not run there.
    #[must_use]
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes())
    }

    fn notes(&self) -> MutexGuard<'_, Vec<String>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the statements of a text, separated by semicolons, and passes their rows to `results`. Later statements do not run after
    /// one has failed.
    ///
    /// # Errors
    ///
    /// Returns the error of the first statement that fails.
    pub fn run(&self, sql: &str, results: &mut dyn Results) -> Result<(), SqlError> {
        std::thread::scope(|scope| {
            let work = || self.runtime.block_on(self.all(sql, results));
            let thread = std::thread::Builder::new().stack_size(STACK);
            let running = thread.spawn_scoped(scope, work).map_err(failed)?;
            running
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    async fn all(&self, sql: &str, results: &mut dyn Results) -> Result<(), SqlError> {
        let mut tokens = dialect::tokens(sql)?;
        let describe = |error: DataFusionError| SqlError::of(&error, sql, &self.names());
        let parse = |tokens: &[TokenWithSpan]| {
            let parser = DFParserBuilder::new(tokens.to_vec()).build();
            parser.and_then(|mut parser| parser.parse_statements())
        };
        let mut statements = parse(&tokens).map_err(describe)?;
        let quoting = self.quoting(statements.iter()).await;
        if quoting.is_some_and(|quoting| quoting.apply(&mut tokens)) {
            statements = parse(&tokens).map_err(describe)?;
        }
        for statement in statements {
            self.one(statement, results, &describe).await?;
        }
        Ok(())
    }

    /// Returns the names of the tables that statements name, and of their columns, if one of them is a table of an input.
    async fn quoting<'s>(
        &self,
        statements: impl Iterator<Item = &'s Statement>,
    ) -> Option<Quoting> {
        let inputs = self.inputs.as_ref()?;
        let state = self.context.state();
        let named =
            statements.filter_map(|statement| state.resolve_table_references(statement).ok());
        let named: Vec<String> = named
            .flatten()
            .map(|name| name.table().to_owned())
            .collect();
        let is_ours = |name: &String| statement::is_ours(name);
        if named.iter().all(is_ours) {
            return None;
        }
        let mut quoting = Quoting::default();
        let tables = inputs.beside().own_tables();
        let mut has_own = false;
        for name in named {
            let own = match is_ours(&name) {
                true => None,
                false => meant(&tables, &name).map(|table| table.name.clone()),
            };
            has_own |= own.is_some();
            let name = own.unwrap_or(name);
            if let Ok(table) = self
                .context
                .table_provider(TableReference::bare(name.as_str()))
                .await
            {
                quoting.add(&name);
                for field in table.schema().fields() {
                    quoting.add(field.name());
                }
            }
        }
        has_own.then_some(quoting)
    }

    /// Returns the tables that `SHOW TABLES` lists.
    fn show_tables(&self) -> Result<RecordBatch, SqlError> {
        match &self.others {
            Some(others) => {
                let others = others.iter();
                let others = others.map(|(name, doc)| (name.as_str(), "table", doc.as_str()));
                statement::listed(others)
            }
            None => {
                let inputs = self.inputs.as_ref();
                let own = inputs.map(|inputs| inputs.beside().own_tables());
                statement::show_tables(&own.unwrap_or_default())
            }
        }
    }

    /// Returns the columns of a table for `DESCRIBE`; `None` for those that statements made.
    async fn described(&self, name: &str) -> Result<Option<RecordBatch>, SqlError> {
        if self.others.is_none()
            && let Some(found) = statement::describe(name)
        {
            return found.map(Some);
        }
        let own = self
            .inputs
            .as_ref()
            .map(|inputs| inputs.beside().own_tables());
        let own = own.unwrap_or_default();
        let own = meant(&own, name).map(|table| table.name.as_str());
        let others = self.others.iter().flatten();
        let mut others = others.map(|(known, _)| known.as_str());
        let Some(name) = own.or_else(|| others.find(|known| *known == name)) else {
            return Ok(None);
        };
        let table = self
            .context
            .table_provider(TableReference::bare(name))
            .await;
        let table = table.map_err(|error| SqlError::of(&error, name, &self.names()))?;
        statement::columns_of(&table.schema()).map(Some)
    }

    async fn one(
        &self,
        mut parsed: Statement,
        results: &mut dyn Results,
        describe: &(dyn Fn(DataFusionError) -> SqlError + Sync),
    ) -> Result<(), SqlError> {
        translate(&mut parsed);
        if let Statement::Statement(inner) = &parsed {
            let own = match inner.as_ref() {
                ast::Statement::ShowTables { .. } => Some(self.show_tables()?),
                ast::Statement::ExplainTable { table_name, .. } => {
                    let name = match table_name.0.as_slice() {
                        [part] => part.as_ident().map(|name| name.value.clone()),
                        _ => None,
                    };
                    let name = name.unwrap_or_else(|| table_name.to_string());
                    let found = self.described(&name).await?;
                    if found.is_none() && !self.table_names().contains(&name) {
                        return Err(statement::no_table(&name, &self.table_names()));
                    }
                    found
                }
                _ => None,
            };
            if let Some(batch) = own {
                results.begin(&batch.schema())?;
                results.batch(&batch)?;
                return results.end();
            }
        }
        if let Some(store) = &self.store {
            store.begin();
        }
        let state = self.context.state();
        let plan = state.statement_to_plan(parsed).await.map_err(describe)?;
        let mut checked = Ok(());
        let walked = plan.apply(|node| {
            if checked.is_ok() {
                checked = statement::check(node, self.options.allow_write.as_deref());
            }
            Ok(TreeNodeRecursion::Continue)
        });
        walked.map_err(describe)?;
        checked?;
        if let Some(store) = &self.store {
            let wanted = Wanted {
                args: extracted(&plan).map_err(describe)?,
                ..Wanted::default()
            };
            store.want(&wanted);
        }
        if let Some(cluster) = &self.options.cluster {
            match cluster::place(&plan).map_err(describe)? {
                cluster::Place::There => {
                    if self.elsewhere(cluster.as_ref(), &plan, results).await? {
                        return Ok(());
                    }
                }
                cluster::Place::Here => {}
                cluster::Place::HereBecause(note) => self.notes().push(note.to_owned()),
                cluster::Place::Refused(why) => return Err(SqlError::usage(why)),
            }
        }
        let is_query = !matches!(plan, LogicalPlan::Ddl(_));
        let frame = self
            .context
            .execute_logical_plan(plan)
            .await
            .map_err(describe)?;
        let mut rows = frame.execute_stream().await.map_err(describe)?;
        if is_query {
            results.begin(&rows.schema())?;
        }
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(describe)?;
            if is_query && batch.num_rows() > 0 && !results.batch(&batch)? {
                break;
            }
        }
        match is_query {
            true => results.end(),
            false => Ok(()),
        }
    }
}

impl Engine {
    /// Runs a query on a cluster. Returns `false` if it has to run here.
    ///
    /// A cluster keeps the rows of a query on its machines until they are fetched. If one of these is lost by then, the query runs again,
    /// whose rows may come in another order: so none is passed on before all are here.
    async fn elsewhere(
        &self,
        cluster: &dyn Cluster,
        plan: &LogicalPlan,
        results: &mut dyn Results,
    ) -> Result<bool, SqlError> {
        let (plan, window) = match Limited::new(plan) {
            Some(limited) => (limited.input, limited.window),
            None => (plan, Window::ALL),
        };
        let wanted = results.wanted().unwrap_or(usize::MAX);
        let mut attempt = 1;
        let (rows, report) = loop {
            let Some(job) = cluster.start(&self.context.state(), plan).await? else {
                return Ok(false);
            };
            match self.fetched(cluster, job, window, wanted).await? {
                Fetched::All(all) => break *all,
                Fetched::Lost(why) if attempt == ATTEMPTS => {
                    return Err(failed(format_args!(
                        "the result was lost {attempt} times on its way from the executors ({why}): repeat the query when they run without interruption"
                    )));
                }
                Fetched::Lost(_) => attempt += 1,
            }
        };
        if attempt > 1 {
            self.notes().push(
                "an executor was lost while its rows were fetched: the query ran again".to_owned(),
            );
        }
        results.begin(rows.schema())?;
        rows.drain(&mut |batch| results.batch(batch))?;
        if let Some(store) = &self.store {
            store.add_failures(report.left_out);
        }
        let notes = report.notes.into_iter().map(|(_, note)| note);
        self.notes().extend(notes);
        results.end()?;
        Ok(true)
    }

    /// Fetches the rows of a query on a cluster.
    async fn fetched(
        &self,
        cluster: &dyn Cluster,
        mut job: Job,
        mut window: Window,
        wanted: usize,
    ) -> Result<Fetched, SqlError> {
        let disk = &self.context.runtime_env().disk_manager;
        let mut rows = Kept::new(job.rows.schema(), disk);
        while !window.is_full()
            && rows.rows() < wanted
            && let Some(batch) = job.rows.next().await
        {
            let batch = match batch {
                Ok(batch) => window.cut(&batch),
                Err(error) if job.is_done.await => {
                    return Ok(Fetched::Lost(cluster.describe(&error).to_string()));
                }
                Err(error) => return Err(cluster.describe(&error)),
            };
            if batch.num_rows() > 0 {
                rows.add(batch).map_err(failed)?;
            }
        }
        let report = job.report.await?;
        Ok(Fetched::All(Box::new((rows, report))))
    }
}

/// How often a query runs whose result is lost.
const ATTEMPTS: usize = 4;

/// What arrived of a query on a cluster.
enum Fetched {
    All(Box<(Kept, Report)>),
    /// Some rows are on a machine that does not answer; why.
    Lost(String),
}

fn translate(parsed: &mut Statement) {
    match parsed {
        Statement::Statement(inner) => dialect::translate(inner),
        Statement::Explain(explain) => translate(&mut explain.statement),
        _ => {}
    }
}

/// Returns the arguments that a plan reads through functions.
fn extracted(plan: &LogicalPlan) -> Result<ArgKeys, DataFusionError> {
    let mut keys = ArgKeys::None;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr
                    && functions::EXTRACT_ARG.contains(&call.func.name())
                {
                    keys.add(&match call.args.get(1) {
                        Some(Expr::Literal(ScalarValue::Utf8(Some(key)), _)) => {
                            ArgKeys::Only(vec![trace_model::bare_key(key).to_owned(), top_key(key)])
                        }
                        _ => ArgKeys::All,
                    });
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(keys)
}

/// Returns a table of a data set; one that it does not have is empty.
fn stored_table(
    stored: &Stored,
    name: &str,
    schema: SchemaRef,
) -> Result<Arc<dyn TableProvider>, SqlError> {
    let url = |path: &Path, end: &str| {
        let place = bucket::encoded(path);
        ListingTableUrl::parse(format!("{place}{end}")).map_err(failed)
    };
    let urls: Vec<ListingTableUrl> = match stored.table(name) {
        None => Vec::new(),
        // Files by name, where some are left out.
        Some(folder) if stored.lacks(&folder) => {
            let files = stored.files(&folder).map_err(failed)?;
            let urls = files.iter().map(|file| url(file, ""));
            urls.collect::<Result<_, _>>()?
        }
        Some(folder) => vec![url(&folder, "/")?],
    };
    if urls.is_empty() {
        let none = MemTable::try_new(schema, vec![Vec::new()]);
        return Ok(Arc::new(none.map_err(failed)?));
    }
    let listing =
        ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension(".parquet");
    let config = ListingTableConfig::new_with_multi_paths(urls)
        .with_listing_options(listing)
        .with_schema(schema);
    Ok(Arc::new(ListingTable::try_new(config).map_err(failed)?))
}

/// Returns the schema of a table in a data set, where texts are plain.
fn stored_schema<'c>(columns: impl Iterator<Item = &'c ColumnSpec>, text: &DataType) -> SchemaRef {
    let mut fields: Vec<Field> = vec![];
    for column in columns {
        let ty = match column.ty {
            ColumnType::Text => text.clone(),
            ty => ty.arrow(),
        };
        fields.push(Field::new(column.name, ty, true));
    }
    Arc::new(Schema::new(fields))
}
