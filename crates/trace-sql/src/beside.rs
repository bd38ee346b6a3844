//! Tables beside those of recordings as tables of DataFusion: a name and the inputs.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, Session};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use trace_tables::OwnTable;

use crate::statement;
use crate::store::Inputs;

/// Batches that wait to be passed on.
const QUEUE: usize = 4;

/// A table that the inputs read.
#[derive(Clone, Debug)]
pub(crate) struct BesideTable {
    pub(crate) name: String,
    pub(crate) schema: SchemaRef,
    pub(crate) inputs: Arc<dyn Inputs>,
}

#[async_trait]
impl TableProvider for BesideTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.schema.fields().len()).collect();
        let columns: Vec<usize> = projection.cloned().unwrap_or_else(all);
        let schema = Arc::new(self.schema.project(&columns)?);
        let rows = Rows {
            table: self.clone(),
            columns,
            schema: Arc::clone(&schema),
        };
        let exec = StreamingTableExec::try_new(
            schema,
            vec![Arc::new(rows)],
            None,
            Vec::new(),
            false,
            limit.filter(|_| filters.is_empty()),
        )?;
        Ok(Arc::new(exec))
    }
}

struct Rows {
    table: BesideTable,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table.name)
    }
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), QUEUE);
        let out = builder.tx();
        let (table, columns) = (self.table.clone(), self.columns.clone());
        builder.spawn_blocking(move || {
            // A closed channel means that nothing more is wanted.
            let mut take = |batch| out.blocking_send(Ok(batch)).is_ok();
            let done = table.inputs.beside().read(&table.name, &columns, &mut take);
            done.map_err(|why| DataFusionError::External(why.into()))
        });
        builder.build()
    }
}

/// Tables and views that are registered, and behind them those that the inputs bring along. These are listed when a statement names a
/// table that is not registered.
#[derive(Debug)]
pub(crate) struct WithOwn {
    registered: MemorySchemaProvider,
    inputs: Arc<dyn Inputs>,
}

impl WithOwn {
    pub(crate) fn new(inputs: Arc<dyn Inputs>) -> Self {
        Self {
            registered: MemorySchemaProvider::new(),
            inputs,
        }
    }
}

/// Returns the table that a name means: that of the same case, else the only one that differs in case.
pub(crate) fn meant<'t>(tables: &'t [OwnTable], name: &str) -> Option<&'t OwnTable> {
    let same = tables.iter().find(|table| table.name == name);
    let alike = || {
        let mut alike = tables
            .iter()
            .filter(|table| table.name.eq_ignore_ascii_case(name));
        alike.next().filter(|_| alike.next().is_none())
    };
    same.or_else(alike)
}

#[async_trait]
impl SchemaProvider for WithOwn {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.registered.table_names();
        let own = self.inputs.beside().own_tables();
        names.extend(own.into_iter().map(|table| table.name));
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.registered.table(name).await? {
            return Ok(Some(table));
        }
        // Names of the catalogue are never those of inputs, which need not be listed then.
        if statement::is_ours(name) {
            return Ok(None);
        }
        let beside = self.inputs.beside();
        let tables = beside.own_tables();
        let Some(table) = meant(&tables, name) else {
            // One that is not listed may be refused with a reason.
            return match beside.own_schema(name) {
                Some(Err(why)) => Err(DataFusionError::External(why.into())),
                _ => Ok(None),
            };
        };
        let Some(schema) = beside.own_schema(&table.name) else {
            return Ok(None);
        };
        Ok(Some(Arc::new(BesideTable {
            name: table.name.clone(),
            schema: schema.map_err(|why| DataFusionError::External(why.into()))?,
            inputs: Arc::clone(&self.inputs),
        })))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.registered.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.registered.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        // Tables of one's own may have the names of those of inputs.
        self.registered.table_exist(name)
    }
}
