//! Memory accesses read from what profilers wrote, and labelled with what they touched.
//!
//! * [`RowStream`] reads any input as rows ([`Access`]) in batches: text of `perf script` with any list of fields, `perf.data`,
//!   captures of memray and heaptrack (a store when memory is allocated, a load when it is released), Valgrind Lackey, records of
//!   DAMON, canonical rows as JSON lines or CSV, labelled Parquet. Texts are numbers in a [`Names`] table.
//! * [`Labeller`] gives each row a region type and a region, by address ranges, by what is known of its page, or by rules
//!   ([`RuleSet`]), and keeps the region map and the life of the KV cache's blocks. Ranges come from snapshots of mappings and the
//!   tensors of a model ([`ranges_of_maps`]), from files ([`ranges_from_json`]), and from an engine's table of blocks
//!   ([`kv_table_from_json`]); a log of mmap and munmap ([`unmaps_from_log`]) says when an address holds something else.
//! * [`TraceWriter`], [`write_region_map`] and [`write_kv_blocks`] write zstd Parquet with the schema version in it;
//!   [`check_parquet`] checks it.
//!
//! Everything is a stream: memory follows the number of pages, regions and symbols, not of rows.
//!
//! It does not analyse, and it does not run profilers.
//!
//! ```
//! use byte_source::Source;
//! use memtrace_labeller::{InputOptions, LabelOptions, Labeller, Names, RowStream};
//!
//! let text = b"cli 42 [0] 1.5: cpu/mem-stores/P: 7f3a00001000 kv_update+0x10 (/x.so)\n\
//!              cli 42 [0] 1.6: cpu/mem-loads/P: 7f3a00001008 memcpy+0x8 (/libc.so)\n";
//! let mut names = Names::new();
//! let mut labeller = Labeller::new(LabelOptions::native());
//! let mut stream = RowStream::open(Source::from_bytes("perf.txt", text.to_vec())?, &InputOptions::default())?;
//! let mut rows = Vec::new();
//! while stream.next_batch(&mut names, &mut rows)? {}
//! for row in &mut rows {
//!     labeller.label(row, &mut names)?;
//! }
//! // The page was the KV cache's when memcpy read it.
//! assert_eq!(names.text(rows[1].region_type), "kv_cache");
//! assert_eq!(labeller.kv_blocks().get(0).map(|block| block.lifetime_ns()), Some(100_000_000));
//! # Ok::<(), memtrace_labeller::Error>(())
//! ```

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

mod access;
mod columns;
mod damon;
mod data_source;
mod error;
mod heaptrack;
mod input;
mod kv_blocks;
mod kv_fills;
mod kv_table;
mod labeller;
mod lackey;
mod lines;
mod maps;
mod memray;
mod munmap_log;
mod names;
mod page_bits;
mod parquet_file;
mod perf_data;
pub mod perf_text;
mod phases;
mod processes;
mod range_index;
mod ranges;
mod region;
mod region_map;
mod report;
mod row_lines;
mod rows_csv;
mod rows_json;
mod rules;
mod schema;
mod symbols;
mod tensors;

pub use access::{Access, PAGE_BYTES};
pub use columns::{Cell, cells};
pub use data_source::DataSource;
pub use error::{Error, Result};
pub use input::{InputFormat, InputOptions, RowStream};
pub use kv_blocks::{KvBlock, KvBlocks};
pub use kv_table::kv_table_from_json;
pub use labeller::{
    LabelCounts, LabelOptions, Labeller, Regions, UnknownPolicy, infer_kv_block_bytes,
};
pub use maps::{Mapping, MapsSnapshot, ModelFile, ranges_of_maps};
pub use memray::{AllocEvent, MemrayReader};
pub use munmap_log::{Unmap, unmaps_from_log};
pub use names::{Name, Names};
pub use parquet_file::{
    Compression, ParquetInfo, TraceWriter, check_parquet, write_kv_blocks, write_region_map,
};
pub use perf_text::{FieldList, Grammar};
pub use phases::{PhaseBoundary, Phases, boundaries_from_json, phase_doubts};
pub use processes::Processes;
pub use ranges::{AddressRange, ranges_from_json};
pub use region::{PageTracker, Region};
pub use region_map::RegionMap;
pub use report::{ReadReport, Records, Skipped};
pub use rows_csv::{csv_header, push_csv_row};
pub use rows_json::push_json_row;
pub use rules::{LabelRule, RuleSet};
pub use schema::{
    CLOCK_KEY, CLOCK_STEP_KEY, KV_COLUMNS, KV_NATIVE_COLUMNS, NATIVE_COLUMNS, PRODUCER_KEY,
    RECORDS_KEY, REGION_MAP_COLUMNS, REQUIRED_ROW_COLUMNS, SCHEMA_VERSION, SEMANTICS_KEY, Schema,
    TRACE_COLUMNS, VERSION_KEY, is_compatible,
};
pub use symbols::SymbolTable;
pub use tensors::{Tensor, TensorTable};
