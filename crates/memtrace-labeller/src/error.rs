//! What can go wrong.

use std::io;

/// Why a trace could not be read, labelled or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes could not be read or written.
    #[error(transparent)]
    Source(#[from] byte_source::Error),
    /// Reading or writing failed.
    #[error("{name}: {source}")]
    Io {
        /// The file.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// No reader knows the content.
    #[error("{name}: format not recognised (first bytes {head}); name it with --input-format")]
    Unrecognised {
        /// The input.
        name: String,
        /// Its first bytes in hexadecimal.
        head: String,
    },
    /// The container of a binary format is broken.
    #[error("{name}: byte {offset}: {what}")]
    Broken {
        /// The input.
        name: String,
        /// Where.
        offset: u64,
        /// What was found, and what was expected.
        what: &'static str,
    },
    /// A format version this reader does not know.
    #[error("{name}: {format} version {found} is not supported, only {supported}")]
    Version {
        /// The input.
        name: String,
        /// Which format.
        format: &'static str,
        /// The version found.
        found: i64,
        /// The versions supported.
        supported: &'static str,
    },
    /// A tensor in the header of a model file that cannot be there.
    #[error("{name}: tensor '{tensor}' {what}")]
    Tensor {
        /// The file.
        name: String,
        /// Its name.
        tensor: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A table of symbols that cannot be used.
    #[error("{name} {what}")]
    Symbols {
        /// The file.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A row that is no JSON object, or has a value of the wrong type.
    #[error("{name}: line {line}: {what}")]
    Row {
        /// The input.
        name: String,
        /// From 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// A row without a required column.
    #[error("{name}: line {line}: missing required columns {missing}; present: {present}")]
    MissingColumns {
        /// The input.
        name: String,
        /// From 1; 0 for a file as a whole.
        line: u64,
        /// Names, separated by commas, sorted.
        missing: String,
        /// Names, separated by commas, sorted.
        present: String,
    },
    /// A table of KV blocks that cannot be.
    #[error("{name}: block {block_id} {what}")]
    KvTable {
        /// The file.
        name: String,
        /// Which block.
        block_id: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A schema version that is not of the form `X.Y`.
    #[error("schema version '{version}' is not of the form X.Y")]
    SchemaVersionText {
        /// As found.
        version: String,
    },
    /// A file of another major schema version.
    #[error("{name}: {schema} schema {found} is not supported; this version reads {supported}.x")]
    SchemaVersion {
        /// The file.
        name: String,
        /// Which schema.
        schema: &'static str,
        /// Version of the file.
        found: String,
        /// Major version supported.
        supported: u32,
    },
    /// Rules that cannot be used.
    #[error("rules: {what}")]
    Rules {
        /// What is wrong, and where.
        what: String,
    },
    /// A symbol pattern that is no regular expression.
    #[error("rule {rule}: {source}")]
    Pattern {
        /// Number of the rule, from 1.
        rule: usize,
        /// What is wrong with it.
        source: Box<regex::Error>,
    },
    /// A policy for unknown rows that does not exist.
    #[error("unknown policy '{policy}'; it is one of keep, skip, error, runtime")]
    Policy {
        /// As given.
        policy: String,
    },
    /// A row that no rule classifies, under the policy `error`.
    #[error(
        "could not classify row: address_page={page:#x}, symbol='{symbol}', dso='{dso}'; use the policy keep to allow unknowns"
    )]
    Unclassified {
        /// Page of the address.
        page: u64,
        /// Its symbol.
        symbol: String,
        /// Its object.
        dso: String,
    },
    /// A phase that ends before it starts, or a file that holds no phases.
    #[error("phases: {what}")]
    Phases {
        /// What is wrong.
        what: String,
    },
    /// An address beyond 64 bits in an output that cannot hold it.
    #[error("sample {sample_id}: address {address} does not fit 64 bits")]
    WideAddress {
        /// Which row.
        sample_id: u64,
        /// The address, decimal.
        address: String,
    },
    /// A region whose number does not fit a file that was begun with small ones.
    #[error(
        "sample {sample_id}: region {region_id} does not fit 32 bits, and the file was begun with regions that do"
    )]
    WideRegion {
        /// Which row.
        sample_id: u64,
        /// The region.
        region_id: u64,
    },
    /// A file that could not be begun.
    #[error("{name}: nothing more can be written after an error")]
    Closed {
        /// The file.
        name: String,
    },
    /// Arrow refused.
    #[error("{name}: {source}")]
    Arrow {
        /// The file.
        name: String,
        /// What it said.
        source: arrow_schema::ArrowError,
    },
    /// An address range that holds nothing.
    #[error(
        "{name}: range {at} ({start:#x} to {end:#x}): an end (addr_end, to_ns) is not behind its start (addr_start, from_ns)"
    )]
    AddressRange {
        /// The file.
        name: String,
        /// Index of the range, from 0.
        at: usize,
        /// First address.
        start: u64,
        /// Address behind the last one.
        end: u64,
    },
    /// A Parquet file could not be written.
    #[error("{name}: {source}")]
    ParquetWrite {
        /// The file.
        name: String,
        /// What it said.
        source: parquet::errors::ParquetError,
    },
    /// Parquet refused.
    #[error("{name}: {source}")]
    Parquet {
        /// The file.
        name: String,
        /// What it said.
        source: parquet::errors::ParquetError,
    },
    /// A Parquet file is compressed in a way that is not read.
    #[error(
        "{name}: compressed with {codec}, which is not read: write it anew with zstd, snappy, gzip, lz4 or brotli"
    )]
    Codec {
        /// The file.
        name: String,
        /// The way.
        codec: &'static str,
    },
    /// JSON of a side file (phases, ranges) that cannot be read.
    #[error("{name}: {source}")]
    Json {
        /// The file.
        name: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A list of address ranges that cannot be read.
    #[error(
        "{name}: {source}; expected a list, or an object with a list `regions`, of ranges such as {example}, addresses as whole numbers",
        example = r#"{"addr_start": 4096, "addr_end": 8192, "region_type": "weight"}"#
    )]
    Ranges {
        /// The file.
        name: String,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// A thread could not be started or has failed.
    #[error("a worker thread failed")]
    Thread,
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
