//! Any number of databases as one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use byte_source::Source;

use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::ids::Texts;
use crate::info::{Agent, Node, Process, Thread};
use crate::inputs::expand;
use crate::issues::{Issue, Issues};
use crate::partition::{Partition, partitions_of};
use crate::records::Record;
use crate::scan::{Order, Scan};
use sqlite_scan::{PageFile, Scratch, check_sidecars};

/// Tables of a draft of the format that keeps events in encoded form.
const BLOBS: [&str; 1] = ["rocpd_blob_event"];

/// How to open databases.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Leave out files that cannot be read, with a warning, as long as one is left.
    pub keep_going: bool,
}

/// Any number of rocPD databases, opened for reading and never changed.
///
/// Every record belongs to a process, which is known by its guid: equal process or thread ids of two machines never
/// meet. Opening reads the schema and the small info tables; names of kernels and strings are read when they are first
/// needed, about 30 bytes of memory for each.
#[derive(Debug)]
pub struct RocpdSet {
    partitions: Vec<Partition>,
    /// The files as SQLite may open them: the ones named, or copies for those packed or with a log.
    files: Vec<(String, PathBuf)>,
    warnings: Vec<String>,
    notes: Vec<String>,
    issues: Arc<Issues>,
    /// Where copies are, until the set is dropped.
    scratch: Option<Scratch>,
}

impl RocpdSet {
    /// Opens files, folders, patterns and packages; see [`expand`].
    ///
    /// Files that are compressed, and such with a write-ahead log beside them, are read from a temporary copy.
    /// The same process in two files counts once.
    ///
    /// # Errors
    ///
    /// When an input is missing, is no rocPD database, or is damaged where its tables are described; and when two files
    /// hold different data of one process.
    pub fn open<P: AsRef<Path>>(inputs: &[P], options: &OpenOptions) -> Result<Self> {
        let mut set = Self {
            partitions: Vec::new(),
            files: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            issues: Arc::new(Issues::default()),
            scratch: None,
        };
        let mut failed = None;
        for path in expand(inputs)? {
            match set.add(&path) {
                Ok(()) => {}
                Err(error @ Error::DuplicatePartition { .. }) => return Err(error),
                Err(error) if options.keep_going => {
                    set.warnings.push(format!("left out: {error}"));
                    failed = failed.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        match failed {
            Some(error) if set.partitions.is_empty() => Err(error),
            _ => Ok(set),
        }
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        let name = path.display().to_string();
        let place = self.readable(path, &name)?;
        let file = PageFile::open(&place, &name)?;
        let found = partitions_of(&file, self.partitions.len(), &self.issues)?;
        let mut used = false;
        for mut partition in found {
            if let Some(known) = self.duplicate_of(&partition) {
                let Some(first) = self.partitions.get(known) else {
                    continue;
                };
                if differs(first, &partition)? {
                    return Err(Error::DuplicatePartition {
                        guid: partition.guid().to_owned(),
                        first: first.path().to_owned(),
                        second: name,
                    });
                }
                self.warnings.push(format!(
                    "{name}: guid {} is in {} already: read once",
                    partition.guid(),
                    first.path()
                ));
                continue;
            }
            used = true;
            let lacks = partition.missing_tables();
            if !lacks.is_empty() {
                self.warnings.push(format!(
                    "{name}: no {} of guid {}: the recording was cut off or the file was altered; what they held is not counted",
                    lacks.join(", "),
                    partition.guid()
                ));
            }
            for table in partition.unreadable_tables() {
                self.warnings.push(format!(
                    "{name}: {table} is no plain table (a view, or without row ids, or with computed columns): it is not read"
                ));
            }
            for (table, column) in partition.packed_texts()? {
                self.warnings.push(format!(
                    "{name}: {column} of {table} of guid {} is compressed with LZ4, not read: messages of markers and other texts there are missing; decompress it with the tool that wrote it",
                    partition.guid()
                ));
            }
            for table in BLOBS {
                let rows = partition.rows(table)?;
                if rows > 0 {
                    self.warnings.push(format!(
                        "{name}: {rows} rows of {table} of guid {}: a draft of the format whose events are encoded; they are not counted",
                        partition.guid()
                    ));
                }
            }
            // Those before it may have been left out.
            partition.set_number(self.partitions.len());
            self.partitions.push(partition);
        }
        if used {
            self.files.push((name, place));
        }
        Ok(())
    }

    fn duplicate_of(&self, new: &Partition) -> Option<usize> {
        if new.processes().is_empty() {
            return None;
        }
        self.partitions.iter().position(|known| {
            known.processes().iter().any(|process| {
                new.processes()
                    .iter()
                    .any(|other| !other.guid.is_empty() && other.guid == process.guid)
            })
        })
    }

    /// Where the pages of a database can be read as they are: its own place if possible.
    fn readable(&mut self, path: &Path, name: &str) -> Result<PathBuf> {
        let source = Source::open(path, &byte_source::OpenOptions::default())?;
        if byte_source::remote::is_url(path) && source.containers().is_empty() {
            // Pages are read by position.
            return Ok(byte_source::remote::fetched(
                path,
                &byte_source::OpenOptions::default(),
            )?);
        }
        let wal = check_sidecars(path, name)?;
        if source.containers().is_empty() && wal.is_none() {
            return Ok(path.to_owned());
        }
        let number = self.files.len() + self.warnings.len() + self.notes.len();
        let failed = |source| Error::Io {
            name: name.to_owned(),
            step: "make a temporary copy",
            source,
        };
        let scratch = match &mut self.scratch {
            Some(scratch) => scratch,
            none => none.insert(Scratch::new().map_err(failed)?),
        };
        let copy = scratch.path().join(format!("{number}.db"));
        let Some(wal) = wal else {
            let mut reader = source.into_read()?;
            let mut file = std::fs::File::create(&copy).map_err(failed)?;
            std::io::copy(&mut reader, &mut file).map_err(failed)?;
            return Ok(copy);
        };
        std::fs::copy(path, &copy).map_err(failed)?;
        let mut log = copy.clone().into_os_string();
        log.push("-wal");
        std::fs::copy(&wal, &log).map_err(failed)?;
        // SQLite puts the log into the copy; what is beside the input stays as it is.
        let fold = || -> rusqlite::Result<()> {
            let connection = rusqlite::Connection::open(&copy)?;
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            connection.query_row("PRAGMA journal_mode=DELETE", [], |_| Ok(()))
        };
        fold().map_err(|_| Error::Sidecar {
            name: name.to_owned(),
            sidecar: wal.display().to_string(),
            remedy: "it could not be read: end the recording, or open the database once with sqlite3",
        })?;
        // Nothing is missing: what the log holds is read.
        self.notes.push(format!(
            "{name}: read together with {}, from a temporary copy",
            wal.display()
        ));
        Ok(copy)
    }

    /// The sets of tables, in the order of the files.
    #[must_use]
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// The files that are read, by the names they were given.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(name, _)| name.as_str())
    }

    /// Each file and where its pages are.
    pub(crate) fn places(&self) -> &[(String, PathBuf)] {
        &self.files
    }

    /// Bytes of the databases, unpacked.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let sizes = self.files.iter().map(|(_, place)| std::fs::metadata(place));
        sizes.flatten().map(|found| found.len()).sum()
    }

    /// Returns what was noticed while opening that impairs nothing, such as a write-ahead log that is read, too.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns what was noticed while opening: data that is missing, unreadable or there twice.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Rows left out so far because a value had the wrong type, by file, table and column.
    #[must_use]
    pub fn issues(&self) -> Vec<Issue> {
        self.issues.list()
    }

    /// All processes.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.partitions.iter().flat_map(Partition::processes)
    }

    /// All nodes, each with the guid of the tables it is in.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.partitions
            .iter()
            .flat_map(|p| p.info().nodes.values().iter().map(|node| (p.guid(), node)))
    }

    /// All threads, each with its process.
    pub fn threads(&self) -> impl Iterator<Item = (&Process, &Thread)> {
        self.partitions.iter().flat_map(|p| {
            p.info()
                .threads
                .values()
                .iter()
                .filter_map(|thread| Some((p.info().processes.get(thread.process_id)?, thread)))
        })
    }

    /// All agents, each with its process.
    pub fn agents(&self) -> impl Iterator<Item = (&Process, &Agent)> {
        self.partitions.iter().flat_map(|p| {
            p.info()
                .agents
                .values()
                .iter()
                .filter_map(|agent| Some((p.info().processes.get(agent.process_id)?, agent)))
        })
    }

    /// Whether there may be records of a domain (`HIP`, `KFD`, ...): some text of the databases is a category of it.
    ///
    /// # Errors
    ///
    /// When a file is damaged.
    pub fn has_domain(&self, domain: &str) -> Result<bool> {
        for partition in &self.partitions {
            let names = partition.names()?;
            let texts = [Some(&names.strings), names.categories.as_ref()];
            let mut all = texts.into_iter().flatten().flat_map(Texts::all);
            let is_of = |text: &str| crate::domain_of(Some(text)).eq_ignore_ascii_case(domain);
            if all.any(is_of) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Streams records of one kind, partition after partition, without holding them.
    ///
    /// # Errors
    ///
    /// When a table cannot be found in its file; the items report what is damaged later on.
    pub fn scan<'a, R: Record<'a>>(
        &'a self,
        filter: &'a Filter,
        order: Order,
    ) -> Result<Scan<'a, R>> {
        Scan::new(&self.partitions, filter, order)
    }

    /// As [`RocpdSet::scan`], of one partition.
    ///
    /// # Errors
    ///
    /// As [`RocpdSet::scan`].
    pub fn scan_partition<'a, R: Record<'a>>(
        &'a self,
        partition: usize,
        filter: &'a Filter,
        order: Order,
    ) -> Result<Scan<'a, R>> {
        let one = self.partitions.get(partition..=partition);
        Scan::new(one.unwrap_or_default(), filter, order)
    }
}

/// Whether two partitions have other numbers of rows somewhere.
fn differs(a: &Partition, b: &Partition) -> Result<bool> {
    for table in crate::partition::TABLES {
        if a.rows(table)? != b.rows(table)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Regions and samples of a set in order of time, samples as regions without duration.
#[derive(Debug)]
pub struct RegionsAndSamples<'a> {
    regions: Scan<'a, crate::Region<'a>>,
    samples: Scan<'a, crate::Sample<'a>>,
    /// The next sample, when it was looked at.
    sample: Option<crate::Region<'a>>,
    /// The next one is a sample.
    sample_first: bool,
}

impl RocpdSet {
    /// Regions and samples of one partition by begin, later ends first.
    ///
    /// # Errors
    ///
    /// As [`RocpdSet::scan`].
    pub fn regions_and_samples<'a>(
        &'a self,
        partition: usize,
        filter: &'a Filter,
    ) -> Result<RegionsAndSamples<'a>> {
        Ok(RegionsAndSamples {
            regions: self.scan_partition(partition, filter, Order::Start)?,
            samples: self.scan_partition(partition, filter, Order::Start)?,
            sample: None,
            sample_first: false,
        })
    }
}

impl<'a> RegionsAndSamples<'a> {
    /// Whether there is one to come, which [`RegionsAndSamples::front`] then shows.
    ///
    /// # Errors
    ///
    /// As the items of the iterator.
    #[inline]
    pub fn ready(&mut self) -> Result<bool> {
        if self.sample.is_none() {
            self.sample = match self.samples.next() {
                Some(sample) => Some(sample?.as_region()),
                None => None,
            };
        }
        let region = self.regions.ready()?;
        self.sample_first = match (&self.sample, self.regions.front()) {
            // Later ends first: a region that ends before it begins comes after a sample of the same time.
            (Some(sample), Some(region)) => {
                (sample.start_ns, std::cmp::Reverse(sample.end_ns))
                    < (region.start_ns, std::cmp::Reverse(region.end_ns))
            }
            (sample, _) => sample.is_some(),
        };
        Ok(region || self.sample_first)
    }

    /// What [`Iterator::next`] would give; nothing unless [`RegionsAndSamples::ready`] said that there is one.
    #[inline]
    #[must_use]
    pub fn front(&self) -> Option<&crate::Region<'a>> {
        if self.sample_first {
            self.sample.as_ref()
        } else {
            self.regions.front()
        }
    }
}

impl<'a> Iterator for RegionsAndSamples<'a> {
    type Item = Result<crate::Region<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.ready() {
            Ok(false) => None,
            Ok(true) if self.sample_first => self.sample.take().map(Ok),
            Ok(true) => self.regions.next(),
            Err(error) => Some(Err(error)),
        }
    }
}
