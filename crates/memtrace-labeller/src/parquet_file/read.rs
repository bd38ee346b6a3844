//! Reading and checking.

use std::io::Read as _;

use arrow_array::{Array as _, ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Schema as ArrowSchema};
use byte_source::{RandomAccess, Source};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;

use crate::access::{Access, PAGE_BITS};
use crate::error::{Error, Result};
use crate::names::{Name, Names};
use crate::report::{ReadReport, Records};
use crate::schema::{
    CLOCK_KEY, CLOCK_STEP_KEY, PRODUCER_KEY, RECORDS_KEY, SEMANTICS_KEY, Schema, VERSION_KEY,
    check_version,
};

const BATCH_ROWS: usize = 16_384;

/// A file on disk, or what was decompressed.
#[derive(Debug, Clone)]
enum Whole {
    Disk(RandomAccess),
    Memory(Bytes),
}

impl Whole {
    fn open(source: Source) -> Result<Self> {
        if let Some(access) = source.random_access() {
            return Ok(Self::Disk(access));
        }
        let name = source.name().to_owned();
        let mut bytes = Vec::new();
        source
            .into_read()?
            .read_to_end(&mut bytes)
            .map_err(|source| Error::Io { name, source })?;
        Ok(Self::Memory(Bytes::from(bytes)))
    }
}

impl Length for Whole {
    fn len(&self) -> u64 {
        match self {
            Self::Disk(access) => access.len(),
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }
}

impl ChunkReader for Whole {
    type T = std::io::Cursor<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        // Only the pages' headers are read this way, and they are small.
        let room = self.len().saturating_sub(start).min(64 << 10);
        let length = usize::try_from(room).unwrap_or(0);
        Ok(std::io::Cursor::new(self.get_bytes(start, length)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        match self {
            Self::Disk(access) => {
                if start.saturating_add(length as u64) > access.len() {
                    return Err(ParquetError::EOF("a part lies beyond the end".to_owned()));
                }
                let mut buffer = vec![0; length];
                let read = access
                    .read_at(start, &mut buffer)
                    .map_err(|error| ParquetError::External(Box::new(error)))?;
                if read < length {
                    return Err(ParquetError::EOF("the file became shorter".to_owned()));
                }
                Ok(Bytes::from(buffer))
            }
            Self::Memory(bytes) => {
                let start = usize::try_from(start).unwrap_or(usize::MAX);
                let end = start.saturating_add(length);
                if end > bytes.len() {
                    return Err(ParquetError::EOF("a part lies beyond the end".to_owned()));
                }
                Ok(bytes.slice(start..end))
            }
        }
    }
}

/// What a Parquet file of a run says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParquetInfo {
    /// Schema version; `None` when it was not written, which the reference never did.
    pub schema_version: Option<String>,
    /// Who wrote it.
    pub producer: Option<String>,
    /// Semantics of the labels.
    pub semantics: Option<String>,
    /// Step of the capture's clock, ns; 0 where times are as exact as they are written.
    pub clock_step_ns: u64,
    /// `true` if times count instructions.
    pub counts_instructions: bool,
    /// What the rows of a trace are.
    pub records: Records,
    /// Rows.
    pub rows: u64,
    /// Names of the columns, in order.
    pub columns: Vec<String>,
}

/// Checks that a Parquet file has the columns of a schema and a version that can be read. A file without a version is taken.
///
/// # Errors
///
/// [`Error::SchemaVersion`], [`Error::MissingColumns`], and those of reading.
pub fn check_parquet(source: Source, schema: Schema) -> Result<ParquetInfo> {
    let name = source.name().to_owned();
    let builder = builder(&name, Whole::open(source)?)?;
    let info = info(&builder);
    check_info_version(&name, &info, schema)?;
    require(&name, &info, schema.required_columns())?;
    Ok(info)
}

fn check_info_version(name: &str, info: &ParquetInfo, schema: Schema) -> Result<()> {
    match &info.schema_version {
        Some(version) => check_version(name, schema, version),
        None => Ok(()),
    }
}

fn require(name: &str, info: &ParquetInfo, columns: &[&str]) -> Result<()> {
    let mut present: Vec<&str> = info.columns.iter().map(String::as_str).collect();
    let mut missing: Vec<&str> = columns
        .iter()
        .copied()
        .filter(|column| !present.contains(column))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    missing.sort_unstable();
    present.sort_unstable();
    Err(Error::MissingColumns {
        name: name.to_owned(),
        line: 0,
        missing: missing.join(", "),
        present: present.join(", "),
    })
}

fn builder(name: &str, whole: Whole) -> Result<ParquetRecordBatchReaderBuilder<Whole>> {
    let builder =
        ParquetRecordBatchReaderBuilder::try_new(whole).map_err(|source| Error::Parquet {
            name: name.to_owned(),
            source,
        })?;
    let groups = builder.metadata().row_groups().iter();
    let mut columns = groups.flat_map(|group| group.columns());
    // Nobody writes it any more, and there is no decoder for it in Rust.
    match columns.find(|column| column.compression() == Compression::LZO) {
        Some(_) => Err(Error::Codec {
            name: name.to_owned(),
            codec: "LZO",
        }),
        None => Ok(builder),
    }
}

fn info(builder: &ParquetRecordBatchReaderBuilder<Whole>) -> ParquetInfo {
    let meta = builder.metadata().file_metadata();
    let value = |key: &str| {
        meta.key_value_metadata()?
            .iter()
            .find(|entry| entry.key == key)?
            .value
            .clone()
    };
    let columns: Vec<String> = builder
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    ParquetInfo {
        schema_version: value(VERSION_KEY),
        producer: value(PRODUCER_KEY),
        semantics: value(SEMANTICS_KEY),
        clock_step_ns: value(CLOCK_STEP_KEY).map_or(0, |step| step.parse().unwrap_or(0)),
        counts_instructions: value(CLOCK_KEY).is_some_and(|clock| clock == "instructions"),
        records: value(RECORDS_KEY).map_or(Records::Accesses, |name| Records::named(&name)),
        rows: u64::try_from(meta.num_rows()).unwrap_or(0),
        columns,
    }
}

/// Whether some row may have a region, as far as statistics say: an id, which is more than 0, or a type.
fn has_regions(builder: &ParquetRecordBatchReaderBuilder<Whole>) -> bool {
    let columns = builder.parquet_schema().columns();
    let groups = builder.metadata().row_groups();
    let is_silent = |name: &str, says_nothing: fn(&Statistics) -> bool| {
        let at = columns.iter().position(|column| column.name() == name);
        at.is_none_or(|at| {
            groups.iter().all(|group| {
                let column = group.columns().get(at);
                column.is_some_and(|column| {
                    column.statistics().is_some_and(|found| {
                        let nulls = found.null_count_opt();
                        nulls == u64::try_from(column.num_values()).ok() || says_nothing(found)
                    })
                })
            })
        })
    };
    let no_id = is_silent("region_id", |ids| match ids {
        Statistics::Int32(ids) => (ids.min_opt(), ids.max_opt()) == (Some(&0), Some(&0)),
        Statistics::Int64(ids) => (ids.min_opt(), ids.max_opt()) == (Some(&0), Some(&0)),
        _ => false,
    });
    let no_type = is_silent("region_type", |types| {
        let unknown = Some(&b"unknown"[..]);
        (types.min_bytes_opt(), types.max_bytes_opt()) == (unknown, unknown)
    });
    !(no_id && no_type)
}

/// Reads the rows of a trace, batch by batch; types are converted where they differ.
pub(crate) struct ParquetRows {
    name: String,
    reader: ParquetRecordBatchReader,
    has_regions: bool,
    clock_step_ns: u64,
    counts_instructions: bool,
    records: Records,
    report: ReadReport,
}

impl std::fmt::Debug for ParquetRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetRows")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl ParquetRows {
    pub(crate) fn new(source: Source) -> Result<Self> {
        let name = source.name().to_owned();
        let builder = builder(&name, Whole::open(source)?)?;
        let info = info(&builder);
        check_info_version(&name, &info, Schema::Trace)?;
        // What can be left empty may be absent, and everything in a file without rows.
        if info.rows > 0 {
            require(&name, &info, &["address", "op_type", "timestamp_ns"])?;
        }
        let has_regions = has_regions(&builder);
        let reader = builder
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(|source| Error::Parquet {
                name: name.clone(),
                source,
            })?;
        Ok(Self {
            name,
            reader,
            has_regions,
            clock_step_ns: info.clock_step_ns,
            counts_instructions: info.counts_instructions,
            records: info.records,
            report: ReadReport::new("parquet", "unknown"),
        })
    }

    /// Whether a row may have a region: `false` when the file's statistics say that none has.
    pub(crate) fn has_regions(&self) -> bool {
        self.has_regions
    }

    pub(crate) fn counts_instructions(&self) -> bool {
        self.counts_instructions
    }

    pub(crate) fn records(&self) -> Records {
        self.records
    }

    pub(crate) fn clock_step_ns(&self) -> u64 {
        self.clock_step_ns
    }

    pub(crate) fn next_batch(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<bool> {
        let Some(batch) = self.reader.next() else {
            return Ok(false);
        };
        let arrow = |source| Error::Arrow {
            name: self.name.clone(),
            source,
        };
        let batch = batch.map_err(arrow)?;
        let before = rows.len();
        fill(&batch, names, rows).map_err(arrow)?;
        let count = (rows.len() - before) as u64;
        self.report.lines += count;
        self.report.rows += count;
        Ok(true)
    }

    pub(crate) fn report(&self) -> ReadReport {
        self.report.clone()
    }
}

/// A column as the type we work with; absent columns are null throughout.
fn column(
    batch: &RecordBatch,
    schema: &ArrowSchema,
    name: &str,
    to: &DataType,
) -> Result<ArrayRef, arrow_schema::ArrowError> {
    match schema.index_of(name) {
        Ok(at) => cast_with_options(batch.column(at), to, &CastOptions::default()),
        Err(_) => Ok(arrow_array::new_null_array(to, batch.num_rows())),
    }
}

fn fill(
    batch: &RecordBatch,
    names: &mut Names,
    rows: &mut Vec<Access>,
) -> Result<(), arrow_schema::ArrowError> {
    let schema = batch.schema();
    let number = |name: &str| -> Result<UInt64Array, arrow_schema::ArrowError> {
        let array = column(batch, &schema, name, &DataType::UInt64)?;
        Ok(UInt64Array::from(array.to_data()))
    };
    let mut text = |name: &str, absent: Name| -> Result<Vec<Name>, arrow_schema::ArrowError> {
        let array = column(batch, &schema, name, &DataType::Utf8)?;
        let array = StringArray::from(array.to_data());
        // Neighbours are often equal.
        let mut last: Option<(&str, Name)> = None;
        Ok(array
            .iter()
            .map(|text| match (text, last) {
                (None, _) => absent,
                (Some(text), Some((known, name))) if known == text => name,
                (Some(text), _) => {
                    let name = names.intern(text);
                    last = Some((text, name));
                    name
                }
            })
            .collect())
    };
    let run_id = text("run_id", Name::EMPTY)?;
    let phase = text("phase", Name::NULL)?;
    let op = text("op_type", Name::NULL)?;
    let symbol = text("symbol", Name::EMPTY)?;
    let dso = text("dso", Name::EMPTY)?;
    let region_type = text("region_type", Name::UNKNOWN)?;
    let cache_level = text("cache_level", Name::NULL)?;
    let sample_id = number("sample_id")?;
    let timestamp = number("timestamp_ns")?;
    let address = number("address")?;
    let page = number("address_page")?;
    let region_id = number("region_id")?;
    let latency = number("access_latency_ns")?;
    let cycles = number("latency_cycles")?;
    let numa = number("numa_node")?;
    let remote = number("remote")?;
    let hops = number("hops")?;
    let size = number("size_bytes")?;
    let period = number("period")?;
    let cpu = number("cpu_id")?;
    let thread = number("thread_id")?;
    let process = number("process_id")?;
    let token = number("token_index")?;
    let context = number("context_tokens")?;
    let get = |array: &UInt64Array, at: usize| array.is_valid(at).then(|| array.value(at));
    let small =
        |array: &UInt64Array, at: usize| get(array, at).and_then(|value| u32::try_from(value).ok());
    let tiny =
        |array: &UInt64Array, at: usize| get(array, at).and_then(|value| u8::try_from(value).ok());
    let name = |list: &[Name], at: usize| list.get(at).copied().unwrap_or(Name::NULL);
    rows.reserve(batch.num_rows());
    for at in 0..batch.num_rows() {
        let address = get(&address, at).unwrap_or_default();
        let mut row = Access::new(get(&timestamp, at).unwrap_or_default(), address);
        row.run_id = name(&run_id, at);
        row.sample_id = get(&sample_id, at).unwrap_or_default();
        row.phase = name(&phase, at);
        row.address_page = match get(&page, at) {
            Some(page) if page != 0 => page,
            _ => address >> PAGE_BITS,
        };
        row.op = name(&op, at);
        row.symbol = name(&symbol, at);
        row.dso = name(&dso, at);
        row.region_type = name(&region_type, at);
        row.region_id = get(&region_id, at).unwrap_or_default();
        row.access_latency_ns = small(&latency, at);
        row.cache_level = name(&cache_level, at);
        row.latency_cycles = small(&cycles, at);
        row.numa_node = tiny(&numa, at).or_else(|| tiny(&remote, at));
        row.hops = tiny(&hops, at);
        row.size_bytes = small(&size, at).unwrap_or(0);
        row.period = get(&period, at).unwrap_or(0);
        row.cpu_id = get(&cpu, at).and_then(|value| u16::try_from(value).ok());
        row.thread_id = small(&thread, at);
        row.process_id = small(&process, at);
        row.token_index = small(&token, at);
        row.context_tokens = small(&context, at);
        rows.push(row);
    }
    Ok(())
}
