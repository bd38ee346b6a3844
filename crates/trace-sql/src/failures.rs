//! The table of files that cannot be read.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use trace_tables::catalogue::{ColumnType, FAILURES_COLUMNS};

use crate::remote;
use crate::store::Store;

/// The table over the files of a store; reading it reads all of them.
#[derive(Debug)]
pub(crate) struct Failures {
    store: Arc<Store>,
    schema: SchemaRef,
    a_partition_a_file: bool,
}

/// Returns the schema of the table.
pub(crate) fn failures_schema() -> SchemaRef {
    let fields = FAILURES_COLUMNS.iter().map(|column| {
        let ty = match column.ty {
            ColumnType::Text => DataType::Utf8,
            ty => ty.arrow(),
        };
        Field::new(column.name, ty, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

impl Failures {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            schema: failures_schema(),
            a_partition_a_file: false,
        }
    }

    /// Makes its scans have a partition for each file, for a cluster.
    pub(crate) fn a_partition_a_file(mut self) -> Self {
        self.a_partition_a_file = true;
        self
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }
}

#[async_trait]
impl TableProvider for Failures {
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
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.a_partition_a_file {
            let all = || (0..self.schema.fields().len()).collect();
            let columns = projection.cloned().unwrap_or_else(all);
            return remote::scan_failures(&self.store, columns);
        }
        let rows = Rows {
            store: Arc::clone(&self.store),
            schema: Arc::clone(&self.schema),
        };
        let exec = StreamingTableExec::try_new(
            Arc::clone(&self.schema),
            vec![Arc::new(rows)],
            projection,
            Vec::new(),
            false,
            None,
        )?;
        Ok(Arc::new(exec))
    }
}

#[derive(Debug)]
struct Rows {
    store: Arc<Store>,
    schema: SchemaRef,
}

/// Returns a row for each of some files that cannot be read.
pub(crate) fn rows(store: &Store, files: &[usize]) -> Result<RecordBatch> {
    let failed = files.iter().filter_map(|file| {
        let why = store.get(*file).err()?;
        Some((i64::try_from(*file).ok()?, store.name(*file), why))
    });
    let failed: Vec<(i64, String, String)> = failed.collect();
    let ids: Int64Array = failed.iter().map(|row| Some(row.0)).collect();
    let names: StringArray = failed.iter().map(|row| Some(row.1.as_str())).collect();
    let errors: StringArray = failed.iter().map(|row| Some(row.2.as_str())).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(names), Arc::new(errors)];
    Ok(RecordBatch::try_new(failures_schema(), columns)?)
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), 1);
        let out = builder.tx();
        let store = Arc::clone(&self.store);
        builder.spawn_blocking(move || {
            // A closed channel means that nothing more is wanted.
            let files: Vec<usize> = (0..store.files()).collect();
            let _ = out.blocking_send(rows(&store, &files));
            Ok(())
        });
        builder.build()
    }
}
