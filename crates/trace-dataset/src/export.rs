//! Exports recordings.

use std::path::Path;

use trace_model::kernel::KernelRules;
use trace_tables::Recording;
use trace_tables::catalogue::{ArgKeys, CATALOGUE_VERSION, TableSpec};
use trace_tables::scan::Request;

use crate::elsewhere::{Elsewhere, make_elsewhere};
use crate::error::Error;
use crate::make::{Input, Job, Made, Maker, Report, Target, make};
use crate::write;

/// Value of a partition without a value, as Hive writes it.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Table that a file has a row in when all of its tables are there.
const LAST: &str = "files";

/// Reads the inputs.
pub trait Reader: Sync {
    /// Reads an input by its place, with the arguments that the tables need. `file_id` is the number of the recording.
    ///
    /// # Errors
    ///
    /// Returns one sentence that names the reason.
    fn open(&self, place: usize, file_id: u32, args: &ArgKeys) -> Result<Recording, String>;

    /// Returns the SHA-256 of an input without a path, which is known once it was read.
    fn hash(&self, place: usize) -> Option<String> {
        let _ = place;
        None
    }

    /// Returns what is missing of an input that was read, a sentence each.
    fn notes(&self, place: usize) -> Vec<String> {
        let _ = place;
        Vec::new()
    }
}

/// What to export, and how.
#[derive(Clone, Debug)]
pub struct Export<'e> {
    /// Folder of the data set.
    pub folder: &'e Path,
    /// Tables; `files` is always one of them.
    pub tables: Vec<&'static TableSpec>,
    /// Version of the tool, for the manifest.
    pub tool_version: &'e str,
    /// Rules of the user for kernels, which the reader applies; `None` without any.
    pub rules: Option<&'e KernelRules>,
    /// Number of inputs that are exported at once.
    pub threads: usize,
}

impl<'e> Export<'e> {
    fn target(&self) -> Target<'e> {
        let tables = in_order(self.tables.clone());
        Target {
            folder: self.folder,
            schema_version: CATALOGUE_VERSION.to_string(),
            tool_version: self.tool_version,
            tables: tables.iter().map(|table| table.name.to_owned()).collect(),
            rules: self.rules,
            threads: self.threads,
        }
    }
}

/// Returns tables in the order in which they are made.
fn in_order(mut tables: Vec<&'static TableSpec>) -> Vec<&'static TableSpec> {
    tables.sort_by_key(|table| table.name == LAST);
    tables
}

/// Exports inputs. The files do not depend on the number of threads.
///
/// # Errors
///
/// Returns an error if the folder cannot be written or holds something else. An input that cannot be read is a row of `failures`.
pub fn export(
    inputs: &[Input],
    reader: &dyn Reader,
    options: &Export<'_>,
) -> Result<Report, Error> {
    let tables = in_order(options.tables.clone());
    make(inputs, &Tables { reader, tables }, &options.target())
}

/// Exports inputs with files that other processes make, by [`table_maker`] with the same tables. The files are those of [`export()`].
///
/// # Errors
///
/// Same as [`export()`], and an error if the other processes cannot work.
pub fn export_elsewhere(
    inputs: &[Input],
    elsewhere: &dyn Elsewhere,
    options: &Export<'_>,
) -> Result<Report, Error> {
    make_elsewhere(inputs, elsewhere, &options.target())
}

/// Returns what makes the tables of recordings.
pub fn table_maker(reader: impl Reader, tables: Vec<&'static TableSpec>) -> impl Maker {
    let tables = in_order(tables);
    Tables { reader, tables }
}

/// Makes the tables of recordings.
struct Tables<R> {
    reader: R,
    tables: Vec<&'static TableSpec>,
}

impl<R: Reader + ?Sized> Reader for &R {
    fn open(&self, place: usize, file_id: u32, args: &ArgKeys) -> Result<Recording, String> {
        (**self).open(place, file_id, args)
    }

    fn hash(&self, place: usize) -> Option<String> {
        (**self).hash(place)
    }

    fn notes(&self, place: usize) -> Vec<String> {
        (**self).notes(place)
    }
}

impl<R: Reader> Maker for Tables<R> {
    fn make(&self, job: &Job<'_>) -> Result<Result<Vec<Made>, String>, Error> {
        let mut args = ArgKeys::None;
        for table in &self.tables {
            args.add(&Request::all(table).arg_keys(table));
        }
        let mut recording = match self.reader.open(job.place, job.file_id, &args) {
            Ok(recording) => recording,
            Err(error) => return Ok(Err(error)),
        };
        recording.hash = match job.hash {
            Some(hash) => Some(hash.to_owned()),
            None => self.hash(job.place),
        };
        recording.run = job.run.map(str::to_owned);
        let run = recording
            .run
            .as_deref()
            .map_or_else(|| NO_VALUE.to_owned(), encoded);
        let rank = recording
            .rank
            .map_or_else(|| NO_VALUE.to_owned(), |rank| rank.0.to_string());
        let mut made = Vec::with_capacity(self.tables.len());
        for table in &self.tables {
            let rows = write::table(&job.aside.join(table.name), &recording, table)?;
            let path = format!(
                "table={}/run={run}/rank={rank}/part-{:06}.parquet",
                table.name, job.file_id
            );
            made.push(Made {
                table: table.name.to_owned(),
                path,
                rows,
            });
        }
        Ok(Ok(made))
    }

    fn hash(&self, place: usize) -> Option<String> {
        self.reader.hash(place)
    }

    fn notes(&self, place: usize) -> Vec<String> {
        self.reader.notes(place)
    }
}

/// Encodes a value of a partition as Hive does: letters, digits and a few signs stay.
fn encoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'+' | b'@' => {
                out.push(char::from(byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    match out.as_str() {
        "" | "." | ".." => NO_VALUE.to_owned(),
        _ => out,
    }
}
