//! Tables of the catalogue as tables of DataFusion.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, thread};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use trace_tables::catalogue::TableSpec;
use trace_tables::{Request, scan};

use crate::pushdown::Pushed;
use crate::remote;
use crate::store::{Store, Wanted};

/// Batches of one file that wait to be passed on.
pub(crate) const QUEUE: usize = 4;

/// A table of the catalogue over the files of a store.
#[derive(Debug)]
pub(crate) struct CatalogueTable {
    pub(crate) table: &'static TableSpec,
    pub(crate) store: Arc<Store>,
    /// Files that are read at once.
    pub(crate) threads: usize,
    /// Scans have a partition for each file, for a cluster.
    pub(crate) a_partition_a_file: bool,
}

#[async_trait]
impl TableProvider for CatalogueTable {
    fn schema(&self) -> SchemaRef {
        self.store.schema(self.table)
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
        let mut request = match projection {
            Some(columns) => Request::columns(columns.clone()),
            None => Request::all(self.table),
        };
        let pushed = Pushed::new(self.table, filters);
        request.between = pushed.between;
        request.names = pushed.names;
        request.keys = pushed.keys;
        let columns: Vec<&str> = self.table.columns().map(|column| column.name).collect();
        let asks_hash = |at: &usize| columns.get(*at) == Some(&"hash");
        let wanted = Wanted {
            args: request.arg_keys(self.table),
            hash: self.table.name == "files" && request.columns.iter().any(asks_hash),
            ..Wanted::default()
        };
        self.store.want(&wanted);
        let mut files: Vec<usize> = (0..self.store.files()).collect();
        if let Some(chosen) = pushed.files {
            files.retain(|file| i64::try_from(*file).is_ok_and(|file| chosen.contains(&file)));
        }
        // A limit holds for all conditions only if none is left to be checked.
        let limit = limit.filter(|_| filters.is_empty());
        if self.a_partition_a_file {
            return remote::scan_table(self, request, &files, limit);
        }
        let schema = Arc::new(self.schema().project(&request.columns)?);
        let rows = Scan {
            table: self.table,
            store: Arc::clone(&self.store),
            threads: self.threads,
            files,
            request,
            schema: Arc::clone(&schema),
        };
        let exec = StreamingTableExec::try_new(
            schema,
            vec![Arc::new(rows)],
            None,
            Vec::new(),
            false,
            limit,
        )?;
        Ok(Arc::new(exec))
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match Pushed::uses(self.table, filter) {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }
}

/// Rows of a table of some files, in the order of the files.
#[derive(Clone)]
pub(crate) struct Scan {
    table: &'static TableSpec,
    store: Arc<Store>,
    threads: usize,
    files: Vec<usize>,
    request: Request,
    schema: SchemaRef,
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} files", self.table.name, self.files.len())
    }
}

impl PartitionStream for Scan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), QUEUE);
        let out = builder.tx();
        let scan = self.clone();
        builder.spawn_blocking(move || {
            scan.run(&mut |batch| out.blocking_send(batch).is_ok());
            Ok(())
        });
        builder.build()
    }
}

type Sent = Result<RecordBatch>;

impl Scan {
    /// Returns a scan of one file.
    pub(crate) fn of_file(
        table: &'static TableSpec,
        store: &Arc<Store>,
        request: &Request,
        file: usize,
    ) -> Self {
        Self {
            table,
            store: Arc::clone(store),
            threads: 1,
            files: vec![file],
            request: request.clone(),
            schema: store.schema(table),
        }
    }

    /// Reads the files, several at once, and passes their batches on in the order of the files until `sink` returns `false`.
    fn run(&self, sink: &mut dyn FnMut(Sent) -> bool) {
        let workers = self.threads.min(self.files.len()).max(1);
        if workers == 1 {
            for file in &self.files {
                if !self.file(*file, sink) {
                    return;
                }
            }
            return;
        }
        let stop = AtomicBool::new(false);
        let next = AtomicUsize::new(0);
        let channels = self.files.iter().map(|_| sync_channel(QUEUE));
        let (senders, receivers): (Vec<_>, VecDeque<Receiver<Sent>>) = channels.unzip();
        let senders: Vec<Mutex<Option<SyncSender<Sent>>>> = senders
            .into_iter()
            .map(|sender| Mutex::new(Some(sender)))
            .collect();
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let (Some(file), Some(slot)) = (self.files.get(at), senders.get(at)) else {
                    return;
                };
                let sender = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
                let Some(sender) = sender else {
                    return;
                };
                if stop.load(Ordering::Relaxed)
                    || !self.file(*file, &mut |batch| sender.send(batch).is_ok())
                {
                    return;
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(work);
            }
            // Dropping a receiver ends the worker that sends to it.
            'all: for receiver in receivers {
                for batch in receiver {
                    if !sink(batch) {
                        stop.store(true, Ordering::Relaxed);
                        break 'all;
                    }
                }
            }
        });
    }

    /// Passes on the batches of one file. A file that cannot be read is left out if there are others; its reason is kept in the
    /// store. Returns `false` if no more is wanted.
    pub(crate) fn file(&self, file: usize, sink: &mut dyn FnMut(Sent) -> bool) -> bool {
        let recording = match self.store.get(file) {
            Ok(recording) => recording,
            Err(_) if self.store.files() > 1 => return true,
            Err(why) => {
                sink(Err(DataFusionError::External(why.into())));
                return false;
            }
        };
        let mut wants_more = true;
        let done = scan(&recording, self.table, &self.request, &mut |batch| {
            wants_more = sink(self.store.typed(batch).map_err(DataFusionError::from));
            wants_more
        });
        match done {
            Ok(()) => wants_more,
            Err(error) => {
                sink(Err(error.into()));
                false
            }
        }
    }
}
