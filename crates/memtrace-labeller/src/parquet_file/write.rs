//! Writing.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, RecordBatch, StringBuilder, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::ZstdLevel;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::access::Access;
use crate::error::{Error, Result};
use crate::names::{Name, Names};
use crate::region::{KvBlock, Region};
use crate::schema::{
    KV_COLUMNS, PRODUCER_KEY, REGION_MAP_COLUMNS, SCHEMA_VERSION, SEMANTICS_KEY, TRACE_COLUMNS,
    VERSION_KEY,
};

/// Rows of a row group.
pub(crate) const GROUP_ROWS: usize = 100_000;
/// Most rows of a page, so that readers can choose by time.
const PAGE_ROWS: usize = 20_000;

/// Compression of Parquet files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Zstandard, at its fastest level.
    #[default]
    Zstd,
    /// Snappy.
    Snappy,
    /// None.
    None,
}

fn properties(semantics: &str, compression: Compression) -> WriterProperties {
    let key = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let codec = match compression {
        Compression::Zstd => parquet::basic::Compression::ZSTD(ZstdLevel::default()),
        Compression::Snappy => parquet::basic::Compression::SNAPPY,
        Compression::None => parquet::basic::Compression::UNCOMPRESSED,
    };
    let mut builder = WriterProperties::builder()
        .set_compression(codec)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(concat!("memtrace ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![
            key(VERSION_KEY, SCHEMA_VERSION),
            key(
                PRODUCER_KEY,
                concat!("memtrace ", env!("CARGO_PKG_VERSION")),
            ),
            key(SEMANTICS_KEY, semantics),
        ]));
    // A window of time or of addresses is found by page.
    for column in ["timestamp_ns", "address_page", "region_id"] {
        builder = builder
            .set_column_statistics_enabled(ColumnPath::from(column), EnabledStatistics::Page);
    }
    // Distinct in every row, or nearly so: a dictionary would only be given up after work.
    for column in ["sample_id", "timestamp_ns"] {
        builder = builder.set_column_dictionary_enabled(ColumnPath::from(column), false);
    }
    builder.build()
}

fn trace_schema() -> SchemaRef {
    let field = |name: &str| {
        let (kind, nullable) = match name {
            "sample_id" | "timestamp_ns" | "address" | "address_page" => (DataType::UInt64, false),
            "region_id" => (DataType::UInt32, true),
            "access_latency_ns" | "thread_id" | "token_index" | "context_tokens" => {
                (DataType::UInt32, true)
            }
            "numa_node" => (DataType::UInt8, true),
            "cpu_id" => (DataType::UInt16, true),
            "run_id" | "op_type" => (DataType::Utf8, false),
            _ => (DataType::Utf8, true),
        };
        Field::new(name, kind, nullable)
    };
    Arc::new(ArrowSchema::new(
        TRACE_COLUMNS
            .iter()
            .map(|name| field(name))
            .collect::<Vec<_>>(),
    ))
}

/// Writes a trace in row groups of 100 000 rows, zstd, with fixed types and the schema version in the file's metadata.
///
/// Memory: one row group.
#[derive(Debug)]
pub struct TraceWriter<W: Write + Send> {
    name: String,
    schema: SchemaRef,
    writer: ArrowWriter<W>,
}

impl<W: Write + Send> TraceWriter<W> {
    /// A writer to `out`; `name` stands in messages, `semantics` in the metadata.
    ///
    /// # Errors
    ///
    /// [`Error::Parquet`].
    pub fn new(
        name: impl Into<String>,
        out: W,
        semantics: &str,
        compression: Compression,
    ) -> Result<Self> {
        let name = name.into();
        let schema = trace_schema();
        let writer = ArrowWriter::try_new(
            out,
            Arc::clone(&schema),
            Some(properties(semantics, compression)),
        )
        .map_err(|source| Error::Parquet {
            name: name.clone(),
            source,
        })?;
        Ok(Self {
            name,
            schema,
            writer,
        })
    }

    /// Writes rows.
    ///
    /// # Errors
    ///
    /// [`Error::WideAddress`], or when the destination refuses.
    pub fn write(&mut self, rows: &[Access], names: &Names) -> Result<()> {
        if let Some(wide) = rows.iter().find(|row| !row.wide.is_null()) {
            return Err(Error::WideAddress {
                sample_id: wide.sample_id,
                address: names.text(wide.wide).to_owned(),
            });
        }
        for part in rows.chunks(GROUP_ROWS) {
            let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns(part, names))
                .map_err(|source| Error::Arrow {
                    name: self.name.clone(),
                    source,
                })?;
            self.writer.write(&batch).map_err(|source| Error::Parquet {
                name: self.name.clone(),
                source,
            })?;
        }
        Ok(())
    }

    /// Completes the file and gives the destination back.
    ///
    /// # Errors
    ///
    /// When the destination refuses.
    pub fn finish(self) -> Result<W> {
        self.writer.into_inner().map_err(|source| Error::Parquet {
            name: self.name,
            source,
        })
    }
}

fn texts(rows: &[Access], names: &Names, of: impl Fn(&Access) -> Name) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(rows.len(), rows.len() * 8);
    for row in rows {
        match names.get(of(row)) {
            Some(text) => builder.append_value(text),
            None => builder.append_null(),
        }
    }
    Arc::new(builder.finish())
}

/// As [`texts`], with nothing instead of null.
fn given_texts(rows: &[Access], names: &Names, of: impl Fn(&Access) -> Name) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(rows.len(), rows.len() * 8);
    for row in rows {
        builder.append_value(names.text(of(row)));
    }
    Arc::new(builder.finish())
}

fn numbers(rows: &[Access], of: impl Fn(&Access) -> u64) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(rows.iter().map(of)))
}

fn columns(rows: &[Access], names: &Names) -> Vec<ArrayRef> {
    let some32 = |of: fn(&Access) -> Option<u32>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<UInt32Array>())
    };
    vec![
        given_texts(rows, names, |row| row.run_id),
        numbers(rows, |row| row.sample_id),
        numbers(rows, |row| row.timestamp_ns),
        texts(rows, names, |row| row.phase),
        numbers(rows, |row| row.address),
        numbers(rows, |row| row.address_page),
        given_texts(rows, names, |row| row.op),
        texts(rows, names, |row| row.symbol),
        texts(rows, names, |row| row.dso),
        texts(rows, names, |row| row.region_type),
        some32(|row| u32::try_from(row.region_id).ok()),
        some32(|row| row.access_latency_ns),
        texts(rows, names, |row| row.cache_level),
        Arc::new(rows.iter().map(|row| row.numa_node).collect::<UInt8Array>()),
        Arc::new(rows.iter().map(|row| row.cpu_id).collect::<UInt16Array>()),
        some32(|row| row.thread_id),
        some32(|row| row.token_index),
        some32(|row| row.context_tokens),
    ]
}

/// Writes one batch as a file of its own.
fn write_batch<W: Write + Send>(
    name: &str,
    out: W,
    semantics: &str,
    columns: &[(&str, ArrayRef, bool)],
) -> Result<W> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array, nullable)| Field::new(*name, array.data_type().clone(), *nullable))
        .collect();
    let schema = Arc::new(ArrowSchema::new(fields));
    let parquet = |source| Error::Parquet {
        name: name.to_owned(),
        source,
    };
    let mut writer = ArrowWriter::try_new(
        out,
        Arc::clone(&schema),
        Some(properties(semantics, Compression::Zstd)),
    )
    .map_err(parquet)?;
    let arrays = columns
        .iter()
        .map(|(_, array, _)| Arc::clone(array))
        .collect();
    let batch = RecordBatch::try_new(schema, arrays).map_err(|source| Error::Arrow {
        name: name.to_owned(),
        source,
    })?;
    if batch.num_rows() > 0 {
        writer.write(&batch).map_err(parquet)?;
    }
    writer.into_inner().map_err(parquet)
}

/// Writes a region map as Parquet; a file of no rows when there are no regions.
///
/// # Errors
///
/// When the destination refuses.
pub fn write_region_map<W: Write + Send>(
    out: W,
    regions: &[Region],
    names: &Names,
    semantics: &str,
) -> Result<W> {
    let number = |of: fn(&Region) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(regions.iter().map(of)))
    };
    let mut types = StringBuilder::new();
    for region in regions {
        types.append_value(names.text(region.region_type));
    }
    let arrays: [ArrayRef; 7] = [
        number(|region| region.region_id),
        Arc::new(types.finish()),
        number(|region| region.page_min),
        number(|region| region.page_max),
        number(|region| region.first_seen_ns),
        number(|region| region.last_seen_ns),
        number(|region| region.access_count),
    ];
    let mut columns: Vec<(&str, ArrayRef, bool)> = REGION_MAP_COLUMNS
        .into_iter()
        .zip(arrays)
        .map(|(name, array)| (name, array, false))
        .collect();
    if regions.iter().any(|region| !region.name.is_null()) {
        let mut names_of = StringBuilder::new();
        for region in regions {
            names_of.append_option(names.get(region.name));
        }
        columns.push(("name", Arc::new(names_of.finish()), true));
    }
    write_batch("region_map.parquet", out, semantics, &columns)
}

/// Writes a KV life cycle as Parquet; a file of no rows when there are no blocks.
///
/// # Errors
///
/// When the destination refuses.
pub fn write_kv_blocks<W: Write + Send>(out: W, blocks: &[KvBlock], semantics: &str) -> Result<W> {
    let number = |of: fn(&KvBlock) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(blocks.iter().map(of)))
    };
    let arrays: [ArrayRef; 8] = [
        number(|block| block.block_id),
        number(|block| block.address),
        number(|block| block.address_page),
        number(|block| block.write_ns),
        number(|block| block.last_read_ns),
        Arc::new(
            blocks
                .iter()
                .map(|block| block.evict_ns)
                .collect::<UInt64Array>(),
        ),
        number(|block| block.total_reads),
        number(KvBlock::lifetime_ns),
    ];
    let columns: Vec<(&str, ArrayRef, bool)> = KV_COLUMNS
        .into_iter()
        .zip(arrays)
        .map(|(name, array)| (name, array, name == "evict_ns"))
        .collect();
    write_batch("kv_block_lifecycle.parquet", out, semantics, &columns)
}
