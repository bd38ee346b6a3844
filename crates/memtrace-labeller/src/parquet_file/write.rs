//! Writing.

use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{
    ArrayRef, BooleanArray, RecordBatch, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{GzipLevel, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::access::Access;
use crate::columns as row_columns;
use crate::error::{Error, Result};
use crate::kv_blocks::{KvBlock, KvBlocks};
use crate::names::{Name, Names};
use crate::region::Region;
use crate::region_map::RegionMap;
use crate::report::Records;
use crate::schema::{
    CLOCK_KEY, CLOCK_STEP_KEY, KV_COLUMNS, KV_NATIVE_COLUMNS, PRODUCER_KEY, RECORDS_KEY,
    REGION_MAP_COLUMNS, SCHEMA_VERSION, SEMANTICS_KEY, VERSION_KEY, WIDE_SCHEMA_VERSION,
};

/// Rows of a row group.
pub(crate) const GROUP_ROWS: usize = 100_000;
/// Maximum number of rows of a page, so that readers can choose by time.
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
    /// Deflate, at its usual level.
    Gzip,
    /// None.
    None,
}

fn properties(
    semantics: &str,
    compression: Compression,
    version: &str,
    clock_step_ns: u64,
    counts_instructions: bool,
    records: Records,
) -> WriterProperties {
    let key = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let codec = match compression {
        Compression::Zstd => parquet::basic::Compression::ZSTD(ZstdLevel::default()),
        Compression::Snappy => parquet::basic::Compression::SNAPPY,
        Compression::Gzip => parquet::basic::Compression::GZIP(GzipLevel::default()),
        Compression::None => parquet::basic::Compression::UNCOMPRESSED,
    };
    let mut metadata = vec![
        key(VERSION_KEY, version),
        key(
            PRODUCER_KEY,
            concat!("memtrace ", env!("CARGO_PKG_VERSION")),
        ),
        key(SEMANTICS_KEY, semantics),
    ];
    if clock_step_ns > 0 {
        metadata.push(key(CLOCK_STEP_KEY, &clock_step_ns.to_string()));
    }
    if counts_instructions {
        metadata.push(key(CLOCK_KEY, "instructions"));
    }
    if records != Records::Accesses {
        metadata.push(key(RECORDS_KEY, records.name()));
    }
    let mut builder = WriterProperties::builder()
        .set_compression(codec)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(concat!("memtrace ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(metadata));
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

/// The fields of a trace: with `hardware` our columns too, with `wide` region ids of 64 bits.
fn trace_schema(hardware: bool, wide: bool) -> SchemaRef {
    let field = |name: &str| {
        let (kind, nullable) = match name {
            "sample_id" | "timestamp_ns" | "address" | "address_page" | "period" => {
                (DataType::UInt64, false)
            }
            "region_id" if wide => (DataType::UInt64, true),
            "region_id" | "access_latency_ns" | "thread_id" | "token_index" | "context_tokens"
            | "latency_cycles" | "size_bytes" | "process_id" => (DataType::UInt32, true),
            "numa_node" | "remote" | "hops" => (DataType::UInt8, true),
            "cpu_id" => (DataType::UInt16, true),
            "run_id" | "op_type" => (DataType::Utf8, false),
            _ => (DataType::Utf8, true),
        };
        Field::new(name, kind, nullable)
    };
    Arc::new(ArrowSchema::new(
        row_columns::all()
            .take(row_columns::count(hardware))
            .map(field)
            .collect::<Vec<_>>(),
    ))
}

/// Writes a trace in row groups of 100 000 rows, zstd, with fixed types and the schema version in the file's metadata.
///
/// Traces of our semantics have the columns [`NATIVE_COLUMNS`](crate::NATIVE_COLUMNS) too. Region ids have 32 bits; they have
/// 64, and the schema the version 1.1, when the first rows need them. Memory: one row group.
///
/// ```
/// use memtrace_labeller::{Access, Compression, Names, TraceWriter};
/// let mut writer = TraceWriter::new("rows.parquet", Vec::new(), "native-1", Compression::Zstd);
/// writer.write(&[Access::new(5, 0x1000)], &Names::new())?;
/// assert!(writer.finish()?.starts_with(b"PAR1"));
/// # Ok::<(), memtrace_labeller::Error>(())
/// ```
#[derive(Debug)]
pub struct TraceWriter<W: Write + Send> {
    name: String,
    semantics: String,
    compression: Compression,
    clock_step_ns: u64,
    counts_instructions: bool,
    records: Records,
    state: State<W>,
}

#[derive(Debug)]
enum State<W: Write + Send> {
    /// Nothing was written yet.
    Waiting(W),
    Open(Box<ArrowWriter<W>>, SchemaRef),
    /// It could not be opened.
    Broken,
}

impl<W: Write + Send> TraceWriter<W> {
    /// A writer to `out`; `name` stands in messages, `semantics` in the metadata.
    #[must_use]
    pub fn new(name: impl Into<String>, out: W, semantics: &str, compression: Compression) -> Self {
        Self {
            name: name.into(),
            semantics: semantics.to_owned(),
            compression,
            clock_step_ns: 0,
            counts_instructions: false,
            records: Records::Accesses,
            state: State::Waiting(out),
        }
    }

    /// Says in the metadata by which step the clock of the rows advances, ns ([`RowStream::resolution_ns`]); 0, which is the
    /// default, says nothing.
    ///
    /// [`RowStream::resolution_ns`]: crate::RowStream::resolution_ns
    #[must_use]
    pub fn clock_step(mut self, step_ns: u64) -> Self {
        self.clock_step_ns = step_ns;
        self
    }

    /// States in the metadata that times count instructions ([`RowStream::counts_instructions`]).
    ///
    /// [`RowStream::counts_instructions`]: crate::RowStream::counts_instructions
    #[must_use]
    pub fn instruction_clock(mut self, counts_instructions: bool) -> Self {
        self.counts_instructions = counts_instructions;
        self
    }

    /// States in the metadata what the rows are ([`RowStream::records`]).
    ///
    /// [`RowStream::records`]: crate::RowStream::records
    #[must_use]
    pub fn records(mut self, records: Records) -> Self {
        self.records = records;
        self
    }

    /// Writes the beginning, whose schema must hold the regions of these rows.
    fn open(&mut self, rows: &[Access]) -> Result<()> {
        let out = match std::mem::replace(&mut self.state, State::Broken) {
            State::Waiting(out) => out,
            other => {
                self.state = other;
                return Ok(());
            }
        };
        let is_wide = rows.iter().any(|row| u32::try_from(row.region_id).is_err());
        let version = if is_wide {
            WIDE_SCHEMA_VERSION
        } else {
            SCHEMA_VERSION
        };
        let schema = trace_schema(!self.semantics.starts_with("mrm"), is_wide);
        let properties = properties(
            &self.semantics,
            self.compression,
            version,
            self.clock_step_ns,
            self.counts_instructions,
            self.records,
        );
        let writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties))
            .map_err(|source| self.refused(source))?;
        self.state = State::Open(Box::new(writer), schema);
        Ok(())
    }

    fn refused(&self, source: parquet::errors::ParquetError) -> Error {
        Error::ParquetWrite {
            name: self.name.clone(),
            source,
        }
    }

    /// Writes rows.
    ///
    /// # Errors
    ///
    /// [`Error::WideAddress`], [`Error::WideRegion`], or when the destination refuses.
    pub fn write(&mut self, rows: &[Access], names: &Names) -> Result<()> {
        if let Some(wide) = rows.iter().find(|row| !row.wide.is_null()) {
            return Err(Error::WideAddress {
                sample_id: wide.sample_id,
                address: names.text(wide.wide).to_owned(),
            });
        }
        if rows.is_empty() {
            return Ok(());
        }
        self.open(rows)?;
        let State::Open(writer, schema) = &mut self.state else {
            return Ok(());
        };
        let name = &self.name;
        for part in rows.chunks(GROUP_ROWS) {
            let batch = RecordBatch::try_new(Arc::clone(schema), columns(part, names, schema)?)
                .map_err(|source| Error::Arrow {
                    name: name.clone(),
                    source,
                })?;
            writer.write(&batch).map_err(|source| Error::ParquetWrite {
                name: name.clone(),
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
    pub fn finish(mut self) -> Result<W> {
        self.open(&[])?;
        match self.state {
            State::Open(writer, _) => writer.into_inner().map_err(|source| Error::ParquetWrite {
                name: self.name,
                source,
            }),
            State::Waiting(_) | State::Broken => Err(Error::Closed { name: self.name }),
        }
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

/// The columns of the fields that the schema has.
fn columns(rows: &[Access], names: &Names, schema: &ArrowSchema) -> Result<Vec<ArrayRef>> {
    let some32 = |of: fn(&Access) -> Option<u32>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<UInt32Array>())
    };
    let some8 = |of: fn(&Access) -> Option<u8>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<UInt8Array>())
    };
    let mut all = vec![
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
        regions(rows, schema)?,
        some32(|row| row.access_latency_ns),
        texts(rows, names, |row| row.cache_level),
        some8(|row| row.numa_node),
        Arc::new(rows.iter().map(|row| row.cpu_id).collect::<UInt16Array>()),
        some32(|row| row.thread_id),
        some32(|row| row.token_index),
        some32(|row| row.context_tokens),
    ];
    if schema.fields().len() > all.len() {
        all.extend([
            some32(|row| row.latency_cycles),
            some8(|row| row.numa_node.filter(|_| row.hops.is_some())),
            some8(|row| row.hops),
            some32(|row| Some(row.size_bytes).filter(|size| *size > 0)),
            numbers(rows, |row| row.period),
            some32(|row| row.process_id),
        ]);
    }
    Ok(all)
}

fn regions(rows: &[Access], schema: &ArrowSchema) -> Result<ArrayRef> {
    let is_wide = schema
        .field_with_name("region_id")
        .is_ok_and(|field| *field.data_type() == DataType::UInt64);
    if is_wide {
        return Ok(numbers(rows, |row| row.region_id));
    }
    let narrow = |row: &Access| {
        u32::try_from(row.region_id).map_err(|_| Error::WideRegion {
            sample_id: row.sample_id,
            region_id: row.region_id,
        })
    };
    let ids: Vec<u32> = rows.iter().map(narrow).collect::<Result<_>>()?;
    Ok(Arc::new(UInt32Array::from(ids)))
}

/// A column of a table: its name, its values, whether some may be absent.
type NamedColumn = (&'static str, ArrayRef, bool);

/// Writes rows as a file of their own, a row group after the other.
fn write_rows<W: Write + Send, T>(
    name: &str,
    out: W,
    semantics: &str,
    rows: impl Iterator<Item = T>,
    columns: impl Fn(&[T]) -> Vec<NamedColumn>,
) -> Result<W> {
    let fields: Vec<Field> = columns(&[])
        .iter()
        .map(|(name, array, nullable)| Field::new(*name, array.data_type().clone(), *nullable))
        .collect();
    let schema = Arc::new(ArrowSchema::new(fields));
    let parquet = |source| Error::ParquetWrite {
        name: name.to_owned(),
        source,
    };
    let mut writer = ArrowWriter::try_new(
        out,
        Arc::clone(&schema),
        Some(properties(
            semantics,
            Compression::Zstd,
            SCHEMA_VERSION,
            0,
            false,
            Records::Accesses,
        )),
    )
    .map_err(parquet)?;
    let mut rows = rows.peekable();
    while rows.peek().is_some() {
        let group: Vec<T> = rows.by_ref().take(GROUP_ROWS).collect();
        let arrays = columns(&group)
            .into_iter()
            .map(|(_, array, _)| array)
            .collect();
        let batch =
            RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(|source| Error::Arrow {
                name: name.to_owned(),
                source,
            })?;
        writer.write(&batch).map_err(parquet)?;
    }
    writer.into_inner().map_err(parquet)
}

/// Writes a region map as Parquet; a file of no rows when there are no regions. Memory: one row group.
///
/// # Errors
///
/// When the destination refuses.
pub fn write_region_map<W: Write + Send>(
    out: W,
    regions: &RegionMap,
    names: &Names,
    semantics: &str,
) -> Result<W> {
    let has_names = regions.has_names();
    let columns = |regions: &[Region]| {
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
        let mut columns: Vec<NamedColumn> = REGION_MAP_COLUMNS
            .into_iter()
            .zip(arrays)
            .map(|(name, array)| (name, array, false))
            .collect();
        if has_names {
            let mut names_of = StringBuilder::new();
            for region in regions {
                names_of.append_option(names.get(region.name));
            }
            columns.push(("name", Arc::new(names_of.finish()), true));
        }
        columns
    };
    write_rows(
        "region_map.parquet",
        out,
        semantics,
        regions.iter(),
        columns,
    )
}

/// Writes a KV life cycle as Parquet; a file of no rows when there are no blocks. Memory: one row group.
///
/// # Errors
///
/// When the destination refuses.
pub fn write_kv_blocks<W: Write + Send>(out: W, blocks: &KvBlocks, semantics: &str) -> Result<W> {
    let columns = |blocks: &[KvBlock]| {
        let number = |of: fn(&KvBlock) -> u64| -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(blocks.iter().map(of)))
        };
        let evictions: UInt64Array = blocks.iter().map(|block| block.evict_ns).collect();
        let mut arrays: Vec<ArrayRef> = vec![
            number(|block| block.block_id),
            number(|block| block.address),
            number(|block| block.address_page),
            number(|block| block.write_ns),
            number(|block| block.last_read_ns),
            Arc::new(evictions),
            number(|block| block.total_reads),
            number(KvBlock::lifetime_ns),
        ];
        let mut names = KV_COLUMNS.to_vec();
        if !semantics.starts_with("mrm") {
            names.extend(KV_NATIVE_COLUMNS);
            let flag = |of: fn(&KvBlock) -> bool| -> ArrayRef {
                let flags: BooleanArray = blocks.iter().map(|block| Some(of(block))).collect();
                Arc::new(flags)
            };
            arrays.extend([
                number(|block| block.start_ns),
                flag(|block| block.start_known),
                flag(|block| block.evict_ns.is_some()),
                number(|block| block.fills),
                number(|block| block.region_id),
            ]);
        }
        let columns = names.into_iter().zip(arrays);
        columns
            .map(|(name, array)| (name, array, name == "evict_ns"))
            .collect()
    };
    write_rows(
        "kv_block_lifecycle.parquet",
        out,
        semantics,
        blocks.iter(),
        columns,
    )
}
