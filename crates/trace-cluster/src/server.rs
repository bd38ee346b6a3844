//! Ballista's scheduler and executor, with our codecs.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use ballista_core::extension::SessionConfigExt as _;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use trace_sql::remote::{Codec, Reader};

use crate::address::Address;
use crate::client::MESSAGE;
use crate::codec::{Logical, Physical};

/// An executor says that it lives this often, in seconds.
const HEARTBEAT: u64 = 5;

/// Seconds without a word after which the work of an executor is given to others.
const LOST: u64 = 20;

/// Seconds that a job waits when the last executor is lost.
const GRACE: u64 = 60;

/// Seconds that the files of finished jobs are kept.
const KEPT: u64 = 3600;

#[expect(clippy::cast_possible_truncation, reason = "the constant is smaller")]
const MESSAGE_LIMIT: u32 = MESSAGE as u32;

/// Runs `work` until it ends.
fn block_on<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Plans of long conditions are deep.
        .thread_stack_size(16 << 20)
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(work)
}

/// Runs a scheduler. `begun` is called with its address when it accepts connections; the port may be 0, for any that is free.
///
/// # Errors
///
/// Returns one sentence if it cannot start, or has to end.
pub fn scheduler(bind: &Address, begun: impl FnOnce(SocketAddr)) -> Result<(), String> {
    let listener = bind.resolve().and_then(|address| {
        TcpListener::bind(address).map_err(|error| format!("{bind}: {error}"))
    })?;
    let address = listener.local_addr();
    let address = address.map_err(|error| format!("{bind}: {error}"))?;
    let codec = Arc::new(Codec::new("scheduler", None));
    let config = SchedulerConfig {
        bind_host: address.ip().to_string(),
        bind_port: address.port(),
        external_host: bind.host.clone(),
        // Files are spread over the executors.
        task_distribution: TaskDistributionPolicy::RoundRobin,
        executor_timeout_seconds: LOST,
        expire_dead_executor_interval_seconds: HEARTBEAT,
        no_executors_grace_period_seconds: GRACE,
        finished_job_state_clean_up_interval_seconds: KEPT,
        grpc_server_max_decoding_message_size: MESSAGE_LIMIT,
        grpc_server_max_encoding_message_size: MESSAGE_LIMIT,
        grpc_client_max_message_size: MESSAGE_LIMIT,
        override_config_producer: Some(Arc::new(SessionConfig::new_with_ballista)),
        override_logical_codec: Some(Arc::new(Logical::new(&codec))),
        override_physical_codec: Some(Arc::new(Physical::new(&codec))),
        ..SchedulerConfig::default()
    };
    block_on(async move {
        let text = |error: ballista_core::error::BallistaError| error.to_string();
        listener
            .set_nonblocking(true)
            .map_err(|error| error.to_string())?;
        let listener = tokio::net::TcpListener::from_std(listener);
        let listener = listener.map_err(|error| error.to_string())?;
        let cluster = BallistaCluster::new_from_config(&config)
            .await
            .map_err(text)?;
        let scheduler =
            create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config));
        let scheduler = scheduler.await.map_err(text)?;
        begun(address);
        start_grpc_service_with_listener(listener, scheduler)
            .await
            .map_err(text)
    })
}

/// Options of an executor.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// The scheduler.
    pub scheduler: Address,
    /// Tasks at a time; 0 is one for each core.
    pub tasks: usize,
    /// Folder for intermediate rows; `None` is a temporary one.
    pub work_dir: Option<PathBuf>,
    /// Name or number by which the other machines reach this one; `None` is the address that is used towards the scheduler.
    pub host: Option<String>,
    /// Opens recordings.
    pub reader: Arc<dyn Reader>,
}

/// Runs an executor until it is told to end. `begun` is called with the address for the exchange of rows before it registers.
///
/// # Errors
///
/// Returns one sentence if it cannot start, or has to end.
pub fn executor(options: ExecutorOptions, begun: impl FnOnce(SocketAddr)) -> Result<(), String> {
    let scheduler = &options.scheduler;
    // The scheduler may have no executors yet, but must be there.
    scheduler.has_executors()?;
    let own = scheduler.own_side()?;
    let (rows, control) = (free_port(own)?, free_port(own)?);
    let folder = match &options.work_dir {
        Some(folder) => folder.clone(),
        None => std::env::temp_dir().join(format!("inferscope-executor-{}", std::process::id())),
    };
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let temporary = options
        .work_dir
        .is_none()
        .then(|| Temporary(folder.clone()));
    let codec = Arc::new(Codec::new("executor", Some(options.reader)));
    let config = ExecutorProcessConfig {
        bind_host: own.to_string(),
        external_host: Some(options.host.unwrap_or_else(|| own.to_string())),
        port: rows,
        grpc_port: control,
        scheduler_host: scheduler.host.clone(),
        scheduler_port: scheduler.port,
        vcores: options.tasks,
        work_dir: Some(folder.display().to_string()),
        job_data_ttl_seconds: KEPT,
        job_data_clean_up_interval_seconds: KEPT / 4,
        grpc_max_decoding_message_size: MESSAGE_LIMIT,
        grpc_max_encoding_message_size: MESSAGE_LIMIT,
        executor_heartbeat_interval_seconds: HEARTBEAT,
        override_config_producer: Some(Arc::new(SessionConfig::new_with_ballista)),
        override_logical_codec: Some(Arc::new(Logical::new(&codec))),
        override_physical_codec: Some(Arc::new(Physical::new(&codec))),
        ..ExecutorProcessConfig::default()
    };
    begun(SocketAddr::new(own, rows));
    let done = block_on(async move {
        let ended = start_executor_process(Arc::new(config)).await;
        ended.map_err(|error| error.to_string())
    });
    drop(temporary);
    done.map_err(|error| format!("{scheduler}: {error}"))
}

/// A folder that is removed in the end.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a port that nothing listens on. Ballista takes no listener, so another process could take it before.
fn free_port(host: IpAddr) -> Result<u16, String> {
    let listener = TcpListener::bind((host, 0)).and_then(|listener| listener.local_addr());
    let address = listener.map_err(|error| format!("{host}: {error}"))?;
    Ok(address.port())
}
