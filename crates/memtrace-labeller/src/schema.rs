//! Versions and columns of the files of a run.

use crate::error::{Error, Result};

/// The schema version that is written, for every kind of file.
pub const SCHEMA_VERSION: &str = "1.0";
/// The schema version of a trace whose region ids do not fit 32 bits.
pub(crate) const WIDE_SCHEMA_VERSION: &str = "1.1";
/// The major version that is read.
const MAJOR: u32 = 1;
/// Key of the version in a Parquet file's metadata.
pub const VERSION_KEY: &str = "mrm_trace_schema_version";
/// Key of the producer in a Parquet file's metadata.
pub const PRODUCER_KEY: &str = "memtrace_producer";
/// Key of the semantics (`mrm-0.1`, `native-1`) in a Parquet file's metadata.
pub const SEMANTICS_KEY: &str = "memtrace_semantics";
/// Key of the step of the capture's clock in a Parquet file's metadata, ns; absent where times are as exact as they are written.
pub const CLOCK_STEP_KEY: &str = "memtrace_clock_step_ns";

/// Key of a clock that is none in a Parquet file's metadata: `instructions`; absent where times are times.
pub const CLOCK_KEY: &str = "memtrace_clock";

/// Key of what the rows are in a Parquet file's metadata ([`Records::name`](crate::Records::name)); absent where they are accesses.
pub const RECORDS_KEY: &str = "memtrace_records";

/// Columns of a trace, in order.
pub const TRACE_COLUMNS: [&str; 18] = [
    "run_id",
    "sample_id",
    "timestamp_ns",
    "phase",
    "address",
    "address_page",
    "op_type",
    "symbol",
    "dso",
    "region_type",
    "region_id",
    "access_latency_ns",
    "cache_level",
    "numa_node",
    "cpu_id",
    "thread_id",
    "token_index",
    "context_tokens",
];

/// Columns that our own traces have behind those of [`TRACE_COLUMNS`], in order: what the profiler said, each under a name of its
/// own. The reference puts cycles into `access_latency_ns` and the remote bit into `numa_node`, where they stay as well; the size
/// of an access or allocation, the accesses that a sample stands for and the process beside the thread are what it drops.
pub const NATIVE_COLUMNS: [&str; 6] = [
    "latency_cycles",
    "remote",
    "hops",
    "size_bytes",
    "period",
    "process_id",
];

/// Columns without which a raw row is no row.
pub const REQUIRED_ROW_COLUMNS: [&str; 6] = [
    "run_id",
    "sample_id",
    "timestamp_ns",
    "address",
    "address_page",
    "op_type",
];

/// Columns of a region map, in order.
pub const REGION_MAP_COLUMNS: [&str; 7] = [
    "region_id",
    "region_type",
    "page_min",
    "page_max",
    "first_seen_ns",
    "last_seen_ns",
    "access_count",
];

/// Columns of a KV life cycle, in order.
pub const KV_COLUMNS: [&str; 8] = [
    "block_id",
    "address",
    "address_page",
    "write_ns",
    "last_read_ns",
    "evict_ns",
    "total_reads",
    "lifetime_ns",
];

/// Columns that our own KV life cycles have behind those of [`KV_COLUMNS`], in order: when the life began, whether its beginning
/// and its end are known, how many fills were recorded, of which the life is that of the first, and the region. A life without beginning or end is at
/// least as long as `lifetime_ns`.
pub const KV_NATIVE_COLUMNS: [&str; 5] =
    ["start_ns", "start_known", "end_known", "fills", "region_id"];

/// The kinds of file whose schema is versioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Schema {
    /// `trace.parquet`.
    Trace,
    /// `region_map.parquet`.
    RegionMap,
    /// `kv_block_lifecycle.parquet`.
    KvBlockLifecycle,
    /// `metrics.csv`.
    Metrics,
    /// `metadata.json`.
    Metadata,
    /// `manifest.json`.
    Manifest,
}

impl Schema {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Trace,
        Self::RegionMap,
        Self::KvBlockLifecycle,
        Self::Metrics,
        Self::Metadata,
        Self::Manifest,
    ];

    /// The schema's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::RegionMap => "region_map",
            Self::KvBlockLifecycle => "kv_block_lifecycle",
            Self::Metrics => "metrics",
            Self::Metadata => "metadata",
            Self::Manifest => "manifest",
        }
    }

    /// The schema of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|schema| schema.name() == name)
    }

    /// The columns a file must have.
    #[must_use]
    pub fn required_columns(self) -> &'static [&'static str] {
        match self {
            Self::Trace => TRACE_COLUMNS.get(..11).unwrap_or_default(),
            Self::RegionMap => &REGION_MAP_COLUMNS,
            Self::KvBlockLifecycle => &KV_COLUMNS,
            Self::Metrics => &[
                "region_type",
                "n_regions",
                "retention_p99_s",
                "write_once_ratio_mean",
                "suitability",
            ],
            Self::Metadata | Self::Manifest => &[],
        }
    }

    /// The required columns that are not among `present`, sorted.
    #[must_use]
    pub fn missing_columns(self, present: &[&str]) -> Vec<&'static str> {
        let mut missing: Vec<&'static str> = self
            .required_columns()
            .iter()
            .copied()
            .filter(|column| !present.contains(column))
            .collect();
        missing.sort_unstable();
        missing
    }
}

/// Whether this version of the tools reads a file of that schema version: the major versions must be equal.
/// A schema that is not known is compatible with everything.
///
/// # Errors
///
/// [`Error::SchemaVersionText`] unless the version is of the form `X.Y`.
///
/// ```
/// use memtrace_labeller::is_compatible;
/// assert!(is_compatible("trace", "1.7")?);
/// assert!(!is_compatible("trace", "0.9")?);
/// assert!(is_compatible("trace", "1").is_err());
/// # Ok::<(), memtrace_labeller::Error>(())
/// ```
pub fn is_compatible(schema: &str, version: &str) -> Result<bool> {
    if Schema::named(schema).is_none() {
        return Ok(true);
    }
    Ok(major(version)? == MAJOR)
}

/// As [`is_compatible`], with an error that names the file.
pub(crate) fn check_version(name: &str, schema: Schema, version: &str) -> Result<()> {
    if major(version)? == MAJOR {
        return Ok(());
    }
    Err(Error::SchemaVersion {
        name: name.to_owned(),
        schema: schema.name(),
        found: version.to_owned(),
        supported: MAJOR,
    })
}

fn major(version: &str) -> Result<u32> {
    let parsed = version
        .split_once('.')
        .and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
    match parsed {
        Some((major, _)) => Ok(major),
        None => Err(Error::SchemaVersionText {
            version: version.to_owned(),
        }),
    }
}

fn number(text: &str) -> Option<u32> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}
