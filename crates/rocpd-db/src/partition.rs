//! One set of tables: what one process wrote, in a file of its own or among others.

use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::info::{Info, Names, Process, is_guid, metadata};
use crate::issues::Issues;
use crate::value::{BadSlot, Fields};
use sqlite_scan::{Catalog, CatalogTable, Cursor, Leaves, Lookup, PageFile, Value};

/// The tables of the format, without suffix.
pub(crate) const TABLES: [&str; 28] = [
    "rocpd_metadata",
    "rocpd_string",
    "rocpd_info_node",
    "rocpd_info_process",
    "rocpd_info_thread",
    "rocpd_info_agent",
    "rocpd_info_queue",
    "rocpd_info_stream",
    "rocpd_info_pmc",
    "rocpd_info_code_object",
    "rocpd_info_kernel_symbol",
    "rocpd_info_category",
    "rocpd_track",
    "rocpd_event",
    "rocpd_arg",
    "rocpd_pmc_event",
    "rocpd_region",
    "rocpd_sample",
    "rocpd_kernel_dispatch",
    "rocpd_memory_copy",
    "rocpd_memory_allocate",
    "rocpd_graph_launch",
    "rocpd_hip_event",
    "rocpd_call_stack",
    "rocpd_line_info",
    "rocpd_info_pc",
    "rocpd_info_address_range",
    "rocpd_info_source_code",
];

/// Tables without which nothing can be joined.
const REQUIRED: [&str; 4] = [
    "rocpd_string",
    "rocpd_info_node",
    "rocpd_info_process",
    "rocpd_info_thread",
];

/// The first of the tables that came with later versions.
const FIRST_LATER: &str = "rocpd_graph_launch";
/// Tables of the list before it that recordings of generation 3 may lack: what the metadata say is found otherwise too.
const MAY_LACK: [&str; 2] = ["rocpd_metadata", "rocpd_info_category"];

/// A table of the file and, once it was needed, where its rows are.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) def: CatalogTable,
    leaves: OnceLock<Leaves>,
}

impl Table {
    pub(crate) fn leaves(&self, file: &PageFile) -> Result<&Leaves> {
        if let Some(leaves) = self.leaves.get() {
            return Ok(leaves);
        }
        let leaves = Leaves::of(file, self.def.root)?;
        Ok(self.leaves.get_or_init(|| leaves))
    }

    pub(crate) fn cursor<'a>(&'a self, partition: &'a Partition) -> Result<Cursor<'a>> {
        Ok(Cursor::new(&partition.file, self.leaves(&partition.file)?))
    }

    pub(crate) fn lookup<'a>(&'a self, partition: &'a Partition) -> Result<Lookup<'a>> {
        Ok(Lookup::new(&partition.file, self.leaves(&partition.file)?))
    }
}

/// One set of tables, usually of one process.
#[derive(Debug)]
pub struct Partition {
    pub(crate) file: PageFile,
    suffix: String,
    schema: String,
    guid: String,
    tables: FxHashMap<Box<str>, Table>,
    /// Tables that the format does not know, without suffix, in the order of the file.
    unknown: Vec<Box<str>>,
    /// Names of tables that are not read: those of the format that are there as something else, such as a view, and others
    /// without row ids or with computed columns.
    unreadable: Vec<String>,
    /// Plain tables of the file that are of no partition, kept with its first one.
    foreign: Vec<Table>,
    info: Info,
    names: OnceLock<Names>,
    issues: Arc<Issues>,
}

impl Partition {
    /// The key of its process; of the first one if it has several.
    #[must_use]
    pub fn guid(&self) -> &str {
        &self.guid
    }

    /// What its tables' names end in; may be empty.
    #[must_use]
    pub fn suffix(&self) -> &str {
        &self.suffix
    }

    /// The schema version that the metadata state, for example `3` or `3.0.2`.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The file it is in.
    #[must_use]
    pub fn path(&self) -> &str {
        self.file.name()
    }

    /// Its processes: one unless tables of several were put together.
    #[must_use]
    pub fn processes(&self) -> &[Process] {
        self.info.processes.values()
    }

    /// Names of the tables that are there, without suffix: those of the format in its order, then
    /// [`Partition::unknown_tables`].
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        TABLES
            .into_iter()
            .filter(|table| self.tables.contains_key(*table))
            .chain(self.unknown_tables())
    }

    /// Names of the tables `rocpd_*` that this version does not know, without suffix, in the order of the file.
    ///
    /// They come with versions of the format that are newer than 3.0.5 and the draft of 4.1.0. SQL shows them and merging
    /// keeps them; nothing else reads them.
    pub fn unknown_tables(&self) -> impl Iterator<Item = &str> {
        self.unknown.iter().map(AsRef::as_ref)
    }

    /// Tables of the file that are not part of the format, such as notes of a user, and their numbers of rows; those of a file
    /// with several partitions are with its first one. Reads these tables.
    ///
    /// # Errors
    ///
    /// When the file is damaged.
    pub fn foreign_tables(&self) -> Result<Vec<(&str, u64)>> {
        let count = |table: &Table| -> Result<u64> {
            let pick = table.def.pick([]);
            let mut cursor = table.cursor(self)?;
            let mut rows = 0;
            while cursor.next::<0>(&pick)?.is_some() {
                rows += 1;
            }
            Ok(rows)
        };
        let tables = self.foreign.iter();
        tables
            .map(|table| Ok((table.def.name.as_str(), count(table)?)))
            .collect()
    }

    /// Number of dispatches that repeat others to collect further counters (kernel replay), and of the passes; `None` without
    /// any. Reads the table of dispatches.
    ///
    /// # Errors
    ///
    /// When the file is damaged.
    pub fn replays(&self) -> Result<Option<(u64, i64)>> {
        let table = self.table("rocpd_kernel_dispatch");
        let Some(table) = table.filter(|table| table.def.column("replay_pass").is_some()) else {
            return Ok(None);
        };
        let pick = table.def.pick(["replay_pass"]);
        let mut cursor = table.cursor(self)?;
        let (mut repeated, mut last) = (0_u64, 0_i64);
        while let Some((_, values)) = cursor.next(&pick)? {
            if let [Value::Int(pass @ 1..)] = values {
                repeated += 1;
                last = last.max(pass);
            }
        }
        Ok((repeated > 0).then_some((repeated, last.saturating_add(1))))
    }

    /// Columns of a table, in order; `None` if there is no such table.
    #[must_use]
    pub fn columns(&self, table: &str) -> Option<Vec<&str>> {
        let table = self.tables.get(table)?;
        Some(table.def.columns.iter().map(|c| c.name.as_str()).collect())
    }

    /// Number of rows of a table; 0 if there is none. Reads the table.
    ///
    /// # Errors
    ///
    /// When the file is damaged.
    pub fn rows(&self, table: &str) -> Result<u64> {
        let Some(table) = self.tables.get(table) else {
            return Ok(0);
        };
        let pick = table.def.pick([]);
        let mut cursor = table.cursor(self)?;
        let mut rows = 0;
        while cursor.next::<0>(&pick)?.is_some() {
            rows += 1;
        }
        Ok(rows)
    }

    pub(crate) fn table(&self, base: &str) -> Option<&Table> {
        self.tables.get(base)
    }

    /// The name of a table in its file.
    pub(crate) fn table_name(&self, base: &str) -> Option<&str> {
        self.tables.get(base).map(|table| table.def.name.as_str())
    }

    pub(crate) fn has_column(&self, base: &str, column: &str) -> bool {
        self.tables
            .get(base)
            .is_some_and(|table| table.def.column(column).is_some())
    }

    /// Names of tables that are not read: those of the format that are there as something else, such as a view, and others
    /// without row ids or with computed columns.
    pub(crate) fn unreadable_tables(&self) -> &[String] {
        &self.unreadable
    }

    /// Returns `true` if the column `id` of a table is its row id.
    pub(crate) fn is_keyed(&self, base: &str) -> bool {
        let columns = self.tables.get(base).map(|table| &table.def.columns);
        let mut columns = columns.into_iter().flatten();
        columns.any(|column| column.is_rowid && column.name.eq_ignore_ascii_case("id"))
    }

    /// Tables that should be there, with their suffix. What is a view or a virtual table is not there: it is never read.
    pub(crate) fn missing_tables(&self) -> Vec<String> {
        if self.schema.starts_with('4') {
            return Vec::new();
        }
        let lacks = TABLES
            .into_iter()
            .take_while(|base| *base != FIRST_LATER)
            .filter(|base| !MAY_LACK.contains(base) && !self.tables.contains_key(*base));
        lacks.map(|base| format!("{base}{}", self.suffix)).collect()
    }

    /// Says which partition of its set this is.
    pub(crate) fn set_number(&mut self, number: usize) {
        for process in self.info.processes.values_mut() {
            process.partition = number;
        }
    }

    pub(crate) fn info(&self) -> &Info {
        &self.info
    }

    pub(crate) fn names(&self) -> Result<&Names> {
        if let Some(names) = self.names.get() {
            return Ok(names);
        }
        let names = Names::read(self)?;
        Ok(self.names.get_or_init(|| names))
    }

    /// Whether ids of several processes are in the same tables.
    pub(crate) fn is_shared(&self) -> bool {
        self.processes().len() > 1
    }

    /// Notes a value that is not read; its row counts without it.
    pub(crate) fn unread_value(&self, base: &str, column: &str, rowid: i64, found: &str) {
        let table = self.table_name(base).unwrap_or(base);
        self.issues
            .unread_value((self.file.name(), table, column), rowid, found);
    }

    /// Returns the tables and columns of texts in which one of the first rows holds a frame of LZ4.
    pub(crate) fn packed_texts(&self) -> Result<Vec<(&str, &'static str)>> {
        let mut found = Vec::new();
        for base in self.tables() {
            let Some(table) = self.table(base) else {
                continue;
            };
            let has_any = TEXTS.iter().any(|column| self.has_column(base, column));
            if !has_any {
                continue;
            }
            let pick = table.def.pick(TEXTS);
            let mut cursor = table.cursor(self)?;
            let mut packed = [false; TEXTS.len()];
            for _ in 0..LOOKED_AT {
                let Some((_, values)) = cursor.next(&pick)? else {
                    break;
                };
                for (slot, packed) in packed.iter_mut().enumerate() {
                    *packed |= Fields(&values).is_lz4(slot);
                }
            }
            let columns = TEXTS.into_iter().zip(packed);
            found.extend(
                columns
                    .filter(|(_, packed)| *packed)
                    .map(|(column, _)| (base, column)),
            );
        }
        Ok(found)
    }

    pub(crate) fn bad_value(
        &self,
        table: &Table,
        names: &[&str],
        values: &[Value<'_>],
        rowid: i64,
        slot: BadSlot,
    ) {
        let column = names.get(slot.0).copied().unwrap_or("?");
        let place = (self.file.name(), table.def.name.as_str(), column);
        self.issues.bad_value(place, rowid, || {
            values.get(slot.0).map(Value::describe).unwrap_or_default()
        });
    }
}

/// Columns that a draft of the format compresses, and rows of each table that are looked at for that.
const TEXTS: [&str; 3] = ["extdata", "call_stack", "line_info"];
const LOOKED_AT: usize = 4096;

/// All partitions of a file.
pub(crate) fn partitions_of(
    file: &PageFile,
    first_number: usize,
    issues: &Arc<Issues>,
) -> Result<Vec<Partition>> {
    let catalog = Catalog::read(file)?;
    let mut suffixes: Vec<String> = Vec::new();
    let mut headers: Vec<Vec<(String, String)>> = Vec::new();
    for table in &catalog.tables {
        let Some(own) = table.name.strip_prefix("rocpd_metadata") else {
            continue;
        };
        // A table of a longer name, of a partition whose suffix that name ends in.
        let strings = catalog.tables.iter();
        let mut others = strings.filter_map(|other| other.name.strip_prefix("rocpd_string"));
        let has_own = catalog.table(&format!("rocpd_string{own}")).is_some();
        if !has_own
            && others
                .any(|other| other.len() < own.len() && own.ends_with(other) && !other.is_empty())
        {
            continue;
        }
        let meta = metadata(
            file,
            &Table {
                def: table.clone(),
                leaves: OnceLock::new(),
            },
        )?;
        let stated = tag(&meta, "uuid").unwrap_or_default();
        let has = |suffix: &str| catalog.table(&format!("rocpd_string{suffix}")).is_some();
        let suffix = if !stated.contains("{{") && has(stated) {
            stated.to_owned()
        } else {
            own.to_owned()
        };
        if !suffixes.contains(&suffix) {
            suffixes.push(suffix);
            headers.push(meta);
        }
    }
    // Tables whose metadata are missing still count.
    for table in &catalog.tables {
        if let Some(suffix) = table.name.strip_prefix("rocpd_string")
            && !suffixes.iter().any(|known| known == suffix)
        {
            suffixes.push(suffix.to_owned());
            headers.push(Vec::new());
        }
    }
    if suffixes.is_empty() || is_legacy(&catalog) {
        return Err(foreign(file, &catalog));
    }
    let all = suffixes.clone();
    let mut partitions = Vec::new();
    for (suffix, meta) in suffixes.into_iter().zip(headers) {
        if !suffix
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            return Err(Error::BadIdentifier {
                name: file.name().to_owned(),
                found: format!("rocpd_metadata{suffix}"),
            });
        }
        let number = first_number + partitions.len();
        partitions.push(partition(
            file,
            &catalog,
            (suffix, &all),
            &meta,
            number,
            issues,
        )?);
    }
    let is_foreign = |table: &&CatalogTable| {
        let mut tables = partitions.iter().flat_map(|one| one.tables.values());
        !table.name.starts_with("sqlite_") && !tables.any(|known| known.def.name == table.name)
    };
    let foreign = catalog.tables.iter().filter(is_foreign).map(|def| Table {
        def: def.clone(),
        leaves: OnceLock::new(),
    });
    let foreign: Vec<Table> = foreign.collect();
    if let Some(first) = partitions.first_mut() {
        first.foreign = foreign;
    }
    Ok(partitions)
}

fn tag<'m>(meta: &'m [(String, String)], tag: &str) -> Option<&'m str> {
    meta.iter()
        .find(|(key, _)| key == tag)
        .map(|(_, value)| value.as_str())
}

fn partition(
    file: &PageFile,
    catalog: &Catalog,
    (suffix, suffixes): (String, &[String]),
    meta: &[(String, String)],
    number: usize,
    issues: &Arc<Issues>,
) -> Result<Partition> {
    let mut tables: FxHashMap<Box<str>, Table> = FxHashMap::default();
    let mut unknown: Vec<Box<str>> = Vec::new();
    // What is computed would be missing in a copy.
    let is_plain = |table: &&CatalogTable| !table.has_computed;
    let found = |base: &str| {
        let table = catalog.table(&format!("{base}{suffix}"));
        Some((Box::from(base), table.filter(is_plain)?))
    };
    let others = catalog.tables.iter().filter(is_plain).filter_map(|table| {
        let base = base_of(&table.name, &suffix, suffixes)?;
        (!TABLES.contains(&base)).then_some(base)
    });
    unknown.extend(others.map(Box::from));
    let names = TABLES.into_iter().chain(unknown.iter().map(AsRef::as_ref));
    for (base, def) in names.filter_map(found) {
        let leaves = OnceLock::new();
        let def = def.clone();
        tables.insert(base, Table { def, leaves });
    }
    // Without suffix, files of all kinds have plain views of these names.
    let unreadable = catalog.ignored.iter().filter(|other| {
        let base = base_of(&other.name, &suffix, suffixes);
        !suffix.is_empty() && base.is_some_and(|base| other.is_table || TABLES.contains(&base))
    });
    let computed = catalog
        .tables
        .iter()
        .filter(|table| table.has_computed && base_of(&table.name, &suffix, suffixes).is_some());
    let unreadable = unreadable
        .map(|other| other.name.clone())
        .chain(computed.map(|table| table.name.clone()))
        .collect();
    for table in REQUIRED {
        if !tables.contains_key(table) {
            return Err(Error::MissingTable {
                name: file.name().to_owned(),
                table,
                suffix,
            });
        }
    }
    let schema = tag(meta, "schema_version").unwrap_or("3").to_owned();
    if let Some(compression) = tag(meta, "compression").filter(|found| *found != "none") {
        return Err(Error::Compressed {
            name: file.name().to_owned(),
            compression: compression.to_owned(),
        });
    }
    let stated = tag(meta, "guid").filter(|guid| is_guid(guid));
    let fallback = match stated {
        Some(guid) => guid.to_owned(),
        // Stable for the file, whatever it is called.
        None => suffix.trim_start_matches('_').replace('_', "-"),
    };
    let mut partition = Partition {
        file: file.clone(),
        suffix,
        schema,
        guid: fallback.clone(),
        tables,
        unknown,
        unreadable,
        foreign: Vec::new(),
        info: Info::default(),
        names: OnceLock::new(),
        issues: Arc::clone(issues),
    };
    check_schema(&partition)?;
    partition.info = Info::read(&partition, &fallback, number)?;
    if let Some(first) = partition.info.processes.values().first() {
        partition.guid.clone_from(&first.guid);
    }
    Ok(partition)
}

/// The name of a table of the partition with this suffix, without it. A table belongs to the longest suffix that its name
/// ends in.
fn base_of<'n>(name: &'n str, suffix: &str, suffixes: &[String]) -> Option<&'n str> {
    let base = name.strip_suffix(suffix)?;
    let own = |other: &String| other.len() > suffix.len() && name.ends_with(other.as_str());
    let is_plain = base.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let belongs = base.len() > "rocpd_".len() && base.starts_with("rocpd_") && is_plain;
    (belongs && !suffixes.iter().any(own)).then_some(base)
}

/// Times of records: tables, and the columns without which their rows cannot be placed. A draft of generation 4 keeps
/// them in a table of their own (`start_id`, `end_id`), which is not read.
const TIMES: [(&str, &[&str]); 5] = [
    ("rocpd_region", &["start", "end"]),
    ("rocpd_kernel_dispatch", &["start", "end"]),
    ("rocpd_memory_copy", &["start", "end"]),
    ("rocpd_memory_allocate", &["start", "end"]),
    ("rocpd_sample", &["timestamp"]),
];

/// Generation 3 is read whatever it lacks but times; generation 4 when its columns are those of the draft.
fn check_schema(partition: &Partition) -> Result<()> {
    let found = partition.schema();
    let lacks = |table: &'static str, column: &'static str| {
        let is_lacking = partition.table(table).is_some() && !partition.has_column(table, column);
        is_lacking.then_some((table, column))
    };
    let untimed = || {
        TIMES
            .iter()
            .find_map(|(table, columns)| columns.iter().find_map(|column| lacks(table, column)))
    };
    let unplaced = || {
        ["rocpd_region", "rocpd_kernel_dispatch"]
            .into_iter()
            .find_map(|table| lacks(table, "track_id").and(lacks(table, "pid")))
    };
    let (supported, lacks) = match found.split('.').next().map(str::trim) {
        Some("3" | "") => (true, untimed()),
        Some("4") => (
            partition.table("rocpd_event").is_some(),
            untimed().or_else(unplaced),
        ),
        _ => (false, None),
    };
    if supported && lacks.is_none() {
        return Ok(());
    }
    Err(Error::UnsupportedSchema {
        name: partition.path().to_owned(),
        found: found.to_owned(),
        lacks,
    })
}

/// Returns `true` for recordings of rocmProfileData, which have tables for strings and metadata of the same names.
fn is_legacy(catalog: &Catalog) -> bool {
    let has = |start: &str| catalog.tables.iter().any(|t| t.name.starts_with(start));
    let is_old = ["rocpd_api", "rocpd_op"].map(|name| catalog.table(name).is_some());
    is_old.contains(&true) && !has("rocpd_info_") && !has("rocpd_event")
}

/// A database of something else: says of what.
fn foreign(file: &PageFile, catalog: &Catalog) -> Error {
    let has = |name: &str| catalog.table(name).is_some();
    let found = if has("rocpd_api") || has("rocpd_op") {
        "it is a rocmProfileData (.rpd) recording, an older format with other tables (schema_version 2): convert it with that \
         project's rpd2tracing.py and read the trace, or record anew with rocprofv3 --output-format rocpd"
    } else if has("ENUM_NSYS_EVENT_TYPE") || has("StringIds") {
        "it looks like an export of Nsight Systems"
    } else if catalog.tables.is_empty() && catalog.ignored.is_empty() {
        "it has no tables at all"
    } else {
        "none of its tables is called rocpd_metadata or rocpd_string"
    };
    Error::NotRocpd {
        name: file.name().to_owned(),
        found,
    }
}
