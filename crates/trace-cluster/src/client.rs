//! Sends queries to a scheduler.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ballista_core::config::{BALLISTA_CLIENT_PULL, BallistaConfig};
use ballista_core::execution_plans::DistributedQueryExec;
use ballista_core::extension::SessionConfigExt as _;
use ballista_core::optimizer::with_ballista_optimizer_rules;
use ballista_core::serde::protobuf::job_status::Status;
use ballista_core::serde::protobuf::operator_metric::Metric;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CancelJobParams, CleanJobDataParams, GetJobMetricsParams, GetJobMetricsResult,
    GetJobStatusParams,
};
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan as _;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::protobuf::LogicalPlanNode;
use futures::StreamExt as _;
use futures::future::{Either, select};
use tonic::transport::Channel;
use trace_sql::remote::{Codec, LEFT_OUT, NOTE};
use trace_sql::{Cluster, ErrorKind, Job, Report, SqlError};

use crate::address::Address;
use crate::codec::Logical;

/// Time to wait for a first executor.
const PATIENCE: Duration = Duration::from_secs(30);

/// Partitions of joins and aggregations, as Ballista's own default.
const PARTITIONS: usize = 16;

/// Bytes of one message: a query over ten thousand files names each of them.
pub(crate) const MESSAGE: usize = 256 << 20;

/// The exit code of a process that was interrupted.
const INTERRUPTED: i32 = 130;

type Query = DistributedQueryExec<LogicalPlanNode>;

/// A cluster, by the address of its scheduler.
pub struct Client {
    address: Address,
    codec: Arc<dyn LogicalExtensionCodec>,
    patience: Duration,
    /// Number of queries that run, which Ctrl-C cancels.
    busy: Arc<AtomicUsize>,
    /// Ctrl-C is handled.
    is_guarded: AtomicBool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn failed(error: impl fmt::Display) -> SqlError {
    SqlError::new(ErrorKind::Failed, error.to_string())
}

impl Client {
    /// Creates a client. Nothing is sent before the first query.
    #[must_use]
    pub fn new(address: Address) -> Self {
        let codec = Arc::new(Codec::new("client", None));
        Self {
            address,
            codec: Arc::new(Logical::new(&codec)),
            patience: PATIENCE,
            busy: Arc::default(),
            is_guarded: AtomicBool::new(false),
        }
    }

    /// Waits until the scheduler has executors.
    async fn wait(&self) -> std::result::Result<(), SqlError> {
        let begin = Instant::now();
        loop {
            let address = self.address.clone();
            let asked = tokio::task::spawn_blocking(move || address.has_executors()).await;
            match asked.map_err(failed)? {
                Ok(true) => return Ok(()),
                Ok(false) if begin.elapsed() < self.patience => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Ok(false) => {
                    return Err(SqlError::new(
                        ErrorKind::Input,
                        format!(
                            "no executor has registered with the scheduler at {0} within {1} s: start some with `inferscope cluster executor --scheduler {0}`",
                            self.address,
                            self.patience.as_secs()
                        ),
                    ));
                }
                Err(why) => return Err(SqlError::new(ErrorKind::Input, why)),
            }
        }
    }

    /// Returns the state of the session with what Ballista needs of it.
    fn state(&self, state: &SessionState) -> SessionState {
        let config = state.config().clone();
        let config = config
            .upgrade_for_ballista()
            .with_target_partitions(PARTITIONS)
            .with_ballista_grpc_client_max_message_size(MESSAGE)
            // Files stay in the partition that they belong to, which keeps their order.
            .set_bool(
                "datafusion.execution.enable_file_stream_work_stealing",
                false,
            )
            // The number of the job is known at once, and can be cancelled.
            .set_bool(BALLISTA_CLIENT_PULL, true)
            .with_ballista_logical_extension_codec(Arc::clone(&self.codec));
        let rules = with_ballista_optimizer_rules(state.optimizers());
        SessionStateBuilder::new_from_existing(state.clone())
            .with_config(config)
            .with_optimizer_rules(rules)
            .build()
    }

    /// Ends the process at Ctrl-C between queries, as if the signal were not handled.
    fn guard(&self) {
        if self.is_guarded.swap(true, Ordering::Relaxed) {
            return;
        }
        let busy = Arc::clone(&self.busy);
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                if busy.load(Ordering::Relaxed) == 0 {
                    // What the signal does by default.
                    std::process::exit(INTERRUPTED);
                }
            }
        });
    }
}

#[async_trait]
impl Cluster for Client {
    async fn start(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
    ) -> std::result::Result<Option<Job>, SqlError> {
        let state = self.state(state);
        let plan = state
            .optimize(plan)
            .map_err(|error| self.describe(&error))?;
        if !reads(&plan).map_err(failed)? {
            return Ok(None);
        }
        self.wait().await?;
        self.guard();
        let server = Server {
            url: format!("http://{}", self.address),
            config: state.config().ballista_config(),
        };
        let query = Arc::new(Query::with_extension(
            server.url.clone(),
            server.config.clone(),
            plan,
            Arc::clone(&self.codec),
            state.session_id().to_owned(),
        ));
        let rows = query.execute(0, state.task_ctx());
        let rows = rows.map_err(|error| self.describe(&error))?;
        let busy = Busy::new(&self.busy);
        let rows = interruptible(rows, Arc::clone(&query), server.clone(), busy);
        let (asked, scheduler) = (Arc::clone(&query), server.clone());
        let is_done = async move {
            match asked.job_id() {
                Some(job) => scheduler.is_done(job.as_str()).await,
                None => false,
            }
        };
        let report = async move {
            let Some(job) = query.job_id() else {
                return Ok(Report::default());
            };
            let metrics = server.metrics(job.as_str()).await.map_err(failed)?;
            // The rows have been fetched. What is not removed now is so later.
            let _ = server.forget(job.as_str()).await;
            Ok(report_of(&metrics))
        };
        Ok(Some(Job {
            rows,
            report: Box::pin(report),
            is_done: Box::pin(is_done),
        }))
    }

    fn describe(&self, error: &DataFusionError) -> SqlError {
        SqlError::of_cluster(&error.to_string())
    }
}

/// Returns `true` if a plan reads tables.
fn reads(plan: &LogicalPlan) -> Result<bool> {
    let mut reads = false;
    plan.apply_with_subqueries(|node| {
        reads |= matches!(node, LogicalPlan::TableScan(_));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(reads)
}

/// Says that a query runs, until it is dropped.
struct Busy(Arc<AtomicUsize>);

impl Busy {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Cancels the job at Ctrl-C, and ends its rows with an error that says so.
fn interruptible(
    rows: SendableRecordBatchStream,
    query: Arc<Query>,
    server: Server,
    busy: Busy,
) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let signal = Box::pin(tokio::signal::ctrl_c());
    let begin = Some((rows, signal, busy));
    let rows = futures::stream::unfold(begin, move |running| {
        let (query, server) = (Arc::clone(&query), server.clone());
        async move {
            let (mut rows, signal, busy) = running?;
            match select(rows.next(), signal).await {
                Either::Left((Some(batch), signal)) => Some((batch, Some((rows, signal, busy)))),
                Either::Left((None, _)) => None,
                Either::Right(_) => {
                    submitted(&mut rows, &query).await;
                    Some((Err(cancelled(&query, &server).await), None))
                }
            }
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows.boxed()))
}

/// Waits a moment for the scheduler to take the query.
async fn submitted(rows: &mut SendableRecordBatchStream, query: &Query) {
    for _ in 0..50 {
        if query.job_id().is_some() {
            return;
        }
        let pause = Box::pin(tokio::time::sleep(Duration::from_millis(100)));
        if let Either::Left(_) = select(rows.next(), pause).await {
            return;
        }
    }
}

async fn cancelled(query: &Query, server: &Server) -> DataFusionError {
    let text = match query.job_id() {
        None => "interrupted before the scheduler had taken the query".to_owned(),
        Some(job) => match server.cancel(job.as_str()).await {
            Ok(()) => format!("interrupted: job {job} on the cluster is cancelled"),
            Err(why) => format!("interrupted, but job {job} on the cluster still runs: {why}"),
        },
    };
    DataFusionError::External(trace_sql::remote::mark(&text).into())
}

/// The scheduler.
#[derive(Clone)]
struct Server {
    url: String,
    config: BallistaConfig,
}

impl Server {
    async fn connect(&self) -> std::result::Result<SchedulerGrpcClient<Channel>, String> {
        let config = GrpcClientConfig::from(&self.config);
        let endpoint = create_grpc_client_endpoint(self.url.clone(), Some(&config));
        let channel = endpoint.map_err(|error| error.to_string())?.connect().await;
        let client = SchedulerGrpcClient::new(channel.map_err(|error| error.to_string())?);
        Ok(client.max_decoding_message_size(MESSAGE))
    }

    async fn cancel(&self, job: &str) -> std::result::Result<(), String> {
        let job_id = job.to_owned();
        let mut client = self.connect().await?;
        let done = client.cancel_job(CancelJobParams { job_id }).await;
        done.map(drop).map_err(|error| error.message().to_owned())
    }

    async fn metrics(&self, job: &str) -> std::result::Result<GetJobMetricsResult, String> {
        let job_id = job.to_owned();
        let mut client = self.connect().await?;
        let metrics = client.get_job_metrics(GetJobMetricsParams { job_id }).await;
        metrics
            .map(|metrics| metrics.into_inner())
            .map_err(|error| error.message().to_owned())
    }

    /// Returns `true` if all tasks of a job have ended well; `false` also if the scheduler does not answer.
    async fn is_done(&self, job: &str) -> bool {
        let job_id = job.to_owned();
        let Ok(mut client) = self.connect().await else {
            return false;
        };
        let status = client.get_job_status(GetJobStatusParams { job_id }).await;
        let status = status.ok().and_then(|status| status.into_inner().status);
        let status = status.and_then(|status| status.status);
        matches!(status, Some(Status::Successful(_)))
    }

    /// Has the executors remove the rows of a job.
    async fn forget(&self, job: &str) -> std::result::Result<(), String> {
        let job_id = job.to_owned();
        let mut client = self.connect().await?;
        // Of all stages.
        let remove_stage_ids = Vec::new();
        let ask = CleanJobDataParams {
            job_id,
            remove_stage_ids,
        };
        let done = client.clean_job_data(ask).await;
        done.map(drop).map_err(|error| error.message().to_owned())
    }
}

/// Finds what the scans said about their files.
fn report_of(metrics: &GetJobMetricsResult) -> Report {
    let mut report = Report::default();
    let operators = metrics.stages.iter().flat_map(|stage| &stage.operators);
    for metric in operators.flat_map(|operator| &operator.metrics) {
        let Some(Metric::Count(count)) = &metric.metric else {
            continue;
        };
        if let Some(said) = said(&count.name, LEFT_OUT) {
            report.left_out.push(said);
        } else if let Some(said) = said(&count.name, NOTE) {
            report.notes.push(said);
        }
    }
    for list in [&mut report.left_out, &mut report.notes] {
        // A file may be in several scans, and read again by a task that was repeated.
        list.sort();
        list.dedup();
    }
    report
}

/// Takes file and sentence from the name of a counter.
fn said(name: &str, begin: &str) -> Option<(usize, String)> {
    let (file, text) = name.strip_prefix(begin)?.split_once(':')?;
    Some((file.parse().ok()?, text.to_owned()))
}

#[cfg(test)]
mod tests {
    use ballista_core::serde::protobuf::{
        JobStageMetrics, NamedCount, OperatorMetric, OperatorWithMetrics,
    };

    use super::*;

    #[test]
    fn counters_name_the_files() {
        let count = |name: String| OperatorMetric {
            partition: Some(0),
            metric: Some(Metric::Count(NamedCount { name, value: 1 })),
        };
        let operator = |names: &[String]| OperatorWithMetrics {
            metrics: names.iter().cloned().map(count).collect(),
            ..OperatorWithMetrics::default()
        };
        let missing = format!("{LEFT_OUT}11:b.json: no such file");
        let operators = vec![
            operator(&[missing.clone(), "output_rows".to_owned()]),
            operator(&[
                missing,
                format!("{LEFT_OUT}2:a.json: line 3: no list"),
                format!("{NOTE}0:c.json: cut at byte 7"),
            ]),
        ];
        let metrics = GetJobMetricsResult {
            stages: vec![JobStageMetrics {
                operators,
                ..JobStageMetrics::default()
            }],
        };
        let report = report_of(&metrics);
        let left_out = [(2, "a.json: line 3: no list"), (11, "b.json: no such file")];
        assert_eq!(
            report.left_out,
            left_out.map(|(file, text)| (file, text.to_owned()))
        );
        assert_eq!(report.notes, [(0, "c.json: cut at byte 7".to_owned())]);
    }
}
