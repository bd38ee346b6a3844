//! Work that the executors of a cluster do on files beside queries, such as making the files of a data set: a table whose rows are what the
//! work on each file sends, one partition a file.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::{TableProvider, TableType, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::StreamExt as _;
use trace_tables::Recording;

use crate::cluster::Cluster;
use crate::error::{ErrorKind, SqlError};
use crate::store::{Inputs, Store, Wanted};

/// Takes the place of an order, and a text and bytes of what is sent for it; an error ends the call.
pub type Take<'a> = dyn FnMut(usize, &str, &[u8]) -> std::result::Result<(), String> + 'a;

/// What is to be done with one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Name of the file, for texts.
    pub name: String,
    /// What [`super::Reader::work`] gets.
    pub recipe: String,
}

/// Work of one kind on several files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Its name, which the executors know.
    pub name: String,
    /// What [`super::Reader::work`] gets for all files.
    pub options: String,
    /// The files.
    pub orders: Vec<Order>,
}

/// Why work was not done.
#[derive(Debug)]
pub struct Lost {
    /// The reason.
    pub error: SqlError,
    /// It was done, and what it sent could not be fetched.
    pub is_done: bool,
}

impl From<SqlError> for Lost {
    fn from(error: SqlError) -> Self {
        Self {
            error,
            is_done: false,
        }
    }
}

/// Has a cluster work.
pub struct Workers {
    cluster: Arc<dyn Cluster>,
    runtime: tokio::runtime::Runtime,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

fn failed(error: impl fmt::Display) -> SqlError {
    SqlError::new(ErrorKind::Failed, error.to_string())
}

impl Workers {
    /// Creates the client's side. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if no thread can be started.
    pub fn new(cluster: Arc<dyn Cluster>) -> std::result::Result<Self, SqlError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_stack_size(16 << 20)
            .enable_all()
            .build()
            .map_err(failed)?;
        Ok(Self { cluster, runtime })
    }

    /// Has work done, and passes on what is sent: the place of the order, a text and bytes, of each order in its order. An error of `take`
    /// ends the call. Several threads may call this at once.
    ///
    /// # Errors
    ///
    /// Returns the reason if not all has been done, or has arrived.
    pub fn run(&self, work: Work, take: &mut Take<'_>) -> std::result::Result<(), Lost> {
        self.runtime.block_on(self.all(work, take))
    }

    async fn all(&self, work: Work, take: &mut Take<'_>) -> std::result::Result<(), Lost> {
        let name = work.name.clone();
        let store = Store::new(Arc::new(Orders::new(work)), 0).with_plain_text();
        let table = WorkTable {
            store: Arc::new(store),
            work: name,
        };
        let source = provider_as_source(Arc::new(table));
        let plan = LogicalPlanBuilder::scan("work", source, None);
        let plan = plan.and_then(LogicalPlanBuilder::build).map_err(failed)?;
        let context = SessionContext::new();
        let Some(mut job) = self.cluster.start(&context.state(), &plan).await? else {
            return Err(failed("the cluster does not take work").into());
        };
        while let Some(batch) = job.rows.next().await {
            match batch {
                Ok(batch) => passed_on(&batch, take).map_err(failed)?,
                Err(error) => {
                    let error = self.cluster.describe(&error);
                    let is_done = job.is_done.await;
                    return Err(Lost { error, is_done });
                }
            }
        }
        job.report.await?;
        Ok(())
    }
}

pub(super) fn passed_on(
    batch: &RecordBatch,
    take: &mut Take<'_>,
) -> std::result::Result<(), String> {
    let [orders, texts, bytes] = batch.columns() else {
        return Err("rows of work have other columns".to_owned());
    };
    let orders = orders.as_primitive_opt::<Int64Type>();
    let texts = texts.as_string_opt::<i32>();
    let bytes = bytes.as_binary_opt::<i32>();
    let (Some(orders), Some(texts), Some(bytes)) = (orders, texts, bytes) else {
        return Err("rows of work have other types".to_owned());
    };
    for row in 0..batch.num_rows() {
        let order = usize::try_from(orders.value(row));
        let order = order.map_err(|error| error.to_string())?;
        let bytes: &[u8] = match bytes.is_null(row) {
            true => &[],
            false => bytes.value(row),
        };
        take(order, texts.value(row), bytes)?;
    }
    Ok(())
}

/// Returns the schema of what work sends.
pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("order", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("bytes", DataType::Binary, true),
    ]))
}

/// Returns a row of that schema.
pub(super) fn row(order: usize, text: &str, bytes: &[u8]) -> Result<RecordBatch> {
    let order = i64::try_from(order).ok();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter([order])),
        Arc::new(StringArray::from_iter_values([text])),
        Arc::new(BinaryArray::from_iter_values([bytes])),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

/// What work sends, as a table.
#[derive(Debug)]
pub(super) struct WorkTable {
    pub(super) store: Arc<Store>,
    pub(super) work: String,
}

#[async_trait]
impl TableProvider for WorkTable {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..schema().fields().len()).collect();
        let columns = projection.cloned().unwrap_or_else(all);
        super::scan_work(&self.store, &self.work, columns)
    }
}

/// The files of the client.
#[derive(Debug)]
pub(super) struct Orders {
    names: Vec<String>,
    recipes: Vec<String>,
    options: String,
}

impl Orders {
    pub(super) fn new(work: Work) -> Self {
        let orders = work.orders.into_iter();
        let (names, recipes) = orders.map(|order| (order.name, order.recipe)).unzip();
        Self {
            names,
            recipes,
            options: work.options,
        }
    }
}

impl Inputs for Orders {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn open(&self, file: usize, _: &Wanted) -> std::result::Result<Recording, String> {
        Err(format!("{}: it is not read here", self.name(file)))
    }

    fn recipe_options(&self) -> Option<String> {
        Some(self.options.clone())
    }

    fn recipe(&self, file: usize) -> Option<String> {
        self.recipes.get(file).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_arrive_as_they_were_sent() {
        let sent = [
            (3, "a", &b"\x00\xff"[..]),
            (0, "{\"b\":1}", &[]),
            (3, "", b"c"),
        ];
        let mut arrived = Vec::new();
        for (order, text, bytes) in sent {
            let batch = row(order, text, bytes).unwrap();
            let mut take = |order: usize, text: &str, bytes: &[u8]| {
                arrived.push((order, text.to_owned(), bytes.to_vec()));
                Ok(())
            };
            passed_on(&batch, &mut take).unwrap();
        }
        let expected = sent.map(|(order, text, bytes)| (order, text.to_owned(), bytes.to_vec()));
        assert_eq!(arrived, expected);
        let other = RecordBatch::new_empty(Arc::new(Schema::empty()));
        assert!(passed_on(&other, &mut |_, _, _| Ok(())).is_err());
    }

    #[test]
    fn an_unknown_work_is_refused() {
        let order = Order {
            name: "a.json".to_owned(),
            recipe: String::new(),
        };
        let orders = Orders::new(Work {
            name: "x".to_owned(),
            options: String::new(),
            orders: vec![order],
        });
        let done = orders.work("x", 0, &mut |_, _| true);
        assert_eq!(done.unwrap_err(), "a.json: no x is done here");
    }
}
