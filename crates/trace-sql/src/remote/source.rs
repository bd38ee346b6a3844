//! Scans of recordings whose partitions run in different processes: one partition a file.
//!
//! A cluster cuts the partitions of a scan into tasks. It knows how to for files only, so a table of recordings is a source of files
//! there, whose names are the places of the recordings.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileGroup, FileOpenFuture, FileOpener, FileScanConfig, FileScanConfigBuilder, FileSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use futures::StreamExt as _;
use trace_tables::Request;
use trace_tables::catalogue::TableSpec;

use super::work;
use crate::failures::{self, failures_schema};
use crate::provider::{QUEUE, Scan};
use crate::store::Store;

/// Begins the name of a counter that says that a file was left out; the place of the file, a colon and the reason follow.
pub const LEFT_OUT: &str = "inferscope left out ";

/// Begins the name of a counter that says what is missing of a file that was read.
pub const NOTE: &str = "inferscope note ";

/// The rows of one table.
#[derive(Clone)]
pub(crate) struct Source {
    pub(super) store: Arc<Store>,
    pub(super) rows: Rows,
    schema: TableSchema,
    metrics: ExecutionPlanMetricsSet,
}

/// What is read of a file.
#[derive(Clone)]
pub(super) enum Rows {
    Table {
        table: &'static TableSpec,
        request: Request,
    },
    /// The reason why it cannot be read, in these columns of the table of failures.
    Failures { columns: Vec<usize> },
    /// What work on it sends.
    Work { work: String, columns: Vec<usize> },
}

impl Rows {
    pub(super) fn columns(&self) -> &[usize] {
        match self {
            Self::Table { request, .. } => &request.columns,
            Self::Failures { columns } | Self::Work { columns, .. } => columns,
        }
    }

    fn schema(&self, store: &Store) -> Result<SchemaRef> {
        let all: SchemaRef = match self {
            Self::Table { table, .. } => store.schema(table),
            Self::Failures { .. } => failures_schema(),
            Self::Work { .. } => work::schema(),
        };
        let schema: Schema = all.project(self.columns())?;
        Ok(Arc::new(schema))
    }
}

/// Returns a scan of some files.
pub(super) fn scan(
    store: Arc<Store>,
    rows: Rows,
    partitions: &[Vec<usize>],
    limit: Option<usize>,
) -> Result<Arc<DataSourceExec>> {
    let schema = rows.schema(&store)?;
    let source = Source {
        store,
        rows,
        schema: TableSchema::from(schema),
        metrics: ExecutionPlanMetricsSet::new(),
    };
    let group = |files: &Vec<usize>| {
        let files = files
            .iter()
            .map(|file| PartitionedFile::new(file.to_string(), 1));
        FileGroup::new(files.collect())
    };
    let config =
        FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source) as _)
            .with_file_groups(partitions.iter().map(group).collect())
            .with_limit(limit)
            // Files are not passed on to idle partitions.
            .with_preserve_order(true)
            .build();
    Ok(DataSourceExec::from_data_source(config))
}

/// Returns the files of each partition of a scan.
pub(super) fn partitions(config: &FileScanConfig) -> Vec<Vec<usize>> {
    let groups = config.file_groups.iter();
    groups
        .map(|group| group.files().iter().filter_map(place).collect())
        .collect()
}

fn place(file: &PartitionedFile) -> Option<usize> {
    file.object_meta.location.as_ref().parse().ok()
}

impl FileSource for Source {
    fn create_file_opener(
        &self,
        _: Arc<dyn ObjectStore>,
        _: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        Ok(Arc::new(Opener {
            source: self.clone(),
            partition,
        }))
    }

    fn table_schema(&self) -> &TableSchema {
        &self.schema
    }

    fn with_batch_size(&self, _: usize) -> Arc<dyn FileSource> {
        Arc::new(self.clone())
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &'static str {
        "recording"
    }

    fn fmt_extra(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rows {
            Rows::Table { table, .. } => write!(f, ", table={}", table.name),
            Rows::Failures { .. } => write!(f, ", table=failures"),
            Rows::Work { work, .. } => write!(f, ", work={work}"),
        }
    }

    fn supports_repartitioning(&self) -> bool {
        false
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Reads the files of one partition.
struct Opener {
    source: Source,
    partition: usize,
}

impl FileOpener for Opener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let Some(file) = place(&file) else {
            let name = file.object_meta.location;
            return Err(DataFusionError::Internal(format!("no recording {name}")));
        };
        let (source, partition) = (self.source.clone(), self.partition);
        let schema = Arc::clone(source.schema.table_schema());
        let open = async move {
            let mut builder = RecordBatchReceiverStream::builder(schema, QUEUE);
            let out = builder.tx();
            builder.spawn_blocking(move || {
                source.read(file, &mut |batch| out.blocking_send(batch).is_ok());
                source.report(file, partition);
                Ok(())
            });
            Ok(builder.build().boxed())
        };
        Ok(Box::pin(open))
    }
}

impl Source {
    fn read(&self, file: usize, sink: &mut dyn FnMut(Result<RecordBatch>) -> bool) {
        match &self.rows {
            Rows::Table { table, request } => {
                let scan = Scan::of_file(table, &self.store, request, file);
                scan.file(file, &mut |batch| sink(batch.map_err(super::marked)));
            }
            Rows::Failures { columns } => {
                let batch = failures::rows(&self.store, &[file]);
                sink(batch.and_then(|batch| Ok(batch.project(columns)?)));
            }
            Rows::Work { work, columns } => {
                let inputs = self.store.inputs();
                let done = inputs.work(work, file, &mut |text, bytes| {
                    let row = work::row(file, text, bytes);
                    sink(row.and_then(|row| Ok(row.project(columns)?)))
                });
                if let Err(why) = done {
                    sink(Err(super::refused(why)));
                }
            }
        }
    }

    /// Counts what is wrong with a file, in counters that the client reads when the query has ended.
    fn report(&self, file: usize, partition: usize) {
        let count = |name: String| {
            let counter = MetricBuilder::new(&self.metrics).counter(name, partition);
            counter.add(1);
        };
        if let Some(why) = self.store.failure(file) {
            count(format!("{LEFT_OUT}{file}:{why}"));
        }
        for note in self.store.warnings(file) {
            count(format!("{NOTE}{file}:{note}"));
        }
    }
}
