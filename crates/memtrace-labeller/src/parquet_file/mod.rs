//! Traces, region maps and KV life cycles as Parquet.

mod read;
mod write;

pub(crate) use read::ParquetRows;
pub use read::{ParquetInfo, check_parquet};
pub use write::{Compression, TraceWriter, write_kv_blocks, write_region_map};
