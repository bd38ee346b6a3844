//! Makes files of many inputs in one folder: each input once, several at a time, whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use byte_source::remote;
use sha2::{Digest as _, Sha256};
use trace_model::kernel::KernelRules;
use trace_model::parallel::in_parallel;
use trace_tables::Beside;
use trace_tables::catalogue::TableSpec;
use trace_tables::scan::runs_of;

use crate::error::Error;
use crate::manifest::{Done, Manifest, ManifestInput, Part, remove_done, state, write_done};
use crate::write;

/// A file to export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Path as given; identifies the input.
    pub name: String,
    /// The file whose bytes are hashed; `None` for folders and streams, which are exported each time, and for objects.
    pub path: Option<PathBuf>,
    /// ETag and size of an object: one that is there with the same is skipped without being read. `None` for local files, and where
    /// the server gives no ETag.
    pub tag: Option<String>,
}

impl Input {
    /// Returns the input of a path: a member of an archive, or a process of an export, has the hash of its file.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let name = path.display().to_string();
        if remote::is_url(path) {
            // A member has the tag of its archive.
            let whole = match remote::is_file(path) {
                true => name.as_str(),
                false => name
                    .rsplit_once('!')
                    .map_or(name.as_str(), |(file, _)| file),
            };
            return Self {
                tag: remote::tag(Path::new(whole)),
                path: None,
                name,
            };
        }
        let file = match path.is_file() {
            true => Some(path.to_owned()),
            false => name.rsplit_once('!').map(|(file, _)| PathBuf::from(file)),
        };
        Self {
            path: file.filter(|file| file.is_file()),
            tag: None,
            name,
        }
    }
}

/// What is known of an input when its files are made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Job<'j> {
    /// Its place among the inputs.
    pub place: usize,
    /// Its number in the folder.
    pub file_id: u32,
    /// SHA-256 of the file.
    pub hash: Option<&'j str>,
    /// Its run, from the folders of all inputs.
    pub run: Option<&'j str>,
    /// Empty folder in which to write.
    pub aside: &'j Path,
}

/// A file that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Table, which is the name of the file in [`Job::aside`].
    pub table: String,
    /// Path in the folder of the data set.
    pub path: String,
    /// Number of rows.
    pub rows: u64,
}

/// Makes the files of an input.
pub trait Maker: Sync {
    /// Makes the files of an input, in the order in which they may appear: the last one states that all are there.
    ///
    /// # Errors
    ///
    /// An error of the folder ends the whole call. An input that cannot be read is an inner error of one sentence.
    fn make(&self, job: &Job<'_>) -> Result<Result<Vec<Made>, String>, Error>;

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

/// Where to make files, and in which version.
#[derive(Clone, Debug)]
pub struct Target<'t> {
    /// Folder.
    pub folder: &'t Path,
    /// Version of what is made: inputs that were made in another version are made again, and a folder of another major version is
    /// refused.
    pub schema_version: String,
    /// Version of the tool, for the manifest.
    pub tool_version: &'t str,
    /// Tables that an input has when it is done.
    pub tables: Vec<String>,
    /// Rules of the user for kernels, which the maker applies; `None` without any. Files that were made with others are made again.
    pub rules: Option<&'t KernelRules>,
    /// Number of inputs at once.
    pub threads: usize,
}

impl Target<'_> {
    /// Returns the hash of the rules, for the manifest.
    pub(crate) fn rules_hash(&self) -> Option<String> {
        // The rows as they are parsed: comments and spaces do not matter.
        let rows = self.rules.map(|rules| format!("{rules:?}"));
        rows.map(|rows| hex(&Sha256::digest(rows)))
    }
}

/// Result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Inputs that were exported.
    pub exported: usize,
    /// Inputs that were there already.
    pub skipped: usize,
    /// Rows written.
    pub rows: u64,
    /// Inputs that could not be read, each with the reason.
    pub failures: Vec<(String, String)>,
    /// What is missing of the inputs that were exported, a sentence each, in the order of the inputs.
    pub notes: Vec<String>,
}

/// What became of an input.
pub(crate) enum Outcome {
    Skipped,
    Made(Done, Vec<String>),
    Failed(String),
}

/// Makes the files of all inputs. They do not depend on the number of threads.
///
/// # Errors
///
/// Returns an error if the folder cannot be written or holds something else. An input that cannot be read is a row of `failures`.
pub fn make(inputs: &[Input], maker: &dyn Maker, target: &Target<'_>) -> Result<Report, Error> {
    let begun = Begun::new(inputs, target)?;
    let given = begun.given(inputs);
    let outcomes = in_parallel(&given, target.threads, |_, given| {
        given.make_here(maker).map(Some)
    });
    begun.finish(inputs, outcomes)
}

/// A folder to which this call alone writes.
pub(crate) struct Begun<'t> {
    target: &'t Target<'t>,
    manifest: Manifest,
    /// Run of each input of the manifest.
    runs: Vec<Option<String>>,
    /// Place of each input that is given for the first time, and its number.
    places: Vec<(usize, usize)>,
    aside: PathBuf,
    _lock: File,
}

impl<'t> Begun<'t> {
    /// Takes a folder, and numbers the inputs.
    pub(crate) fn new(inputs: &[Input], target: &'t Target<'t>) -> Result<Self, Error> {
        let folder = target.folder;
        let before = Manifest::read_version(folder, &target.schema_version)?;
        let own = state(folder);
        let made = own.join("inputs");
        fs::create_dir_all(&made).map_err(Error::io("create the folder", &made))?;
        let lock = lock(folder)?;
        let aside = own.join("tmp");
        if aside.exists() {
            fs::remove_dir_all(&aside).map_err(Error::io("remove", &aside))?;
        }
        let mut manifest = before.unwrap_or_else(|| Manifest {
            schema_version: String::new(),
            tool_version: String::new(),
            inputs: Vec::new(),
        });
        manifest.schema_version.clone_from(&target.schema_version);
        manifest.tool_version = target.tool_version.to_owned();
        // Numbers are given before anything is written, so that they do not depend on which inputs fail or when a run is killed.
        let mut numbers = Numbers::new(&manifest);
        let mut taken = BTreeSet::new();
        let mut places = Vec::with_capacity(inputs.len());
        for (place, input) in inputs.iter().enumerate() {
            let number = numbers.of(&mut manifest, input);
            if taken.insert(number) {
                places.push((place, number));
            }
        }
        let rules = target.rules_hash();
        let mut others = manifest.inputs.iter().enumerate();
        let other = others.find(|(number, known)| {
            let done = known.done.as_ref().filter(|_| !taken.contains(number));
            done.is_some_and(|done| done.rules != rules)
        });
        if let Some((_, known)) = other {
            return Err(Error::OtherRules {
                path: folder.to_owned(),
                file: known.file.clone(),
            });
        }
        manifest.write(folder)?;
        // Folders of one name are told apart, those of earlier calls as well.
        let files: Vec<String> = manifest
            .inputs
            .iter()
            .map(|known| known.file.clone())
            .collect();
        Ok(Self {
            target,
            runs: runs_of(&files),
            manifest,
            places,
            aside,
            _lock: lock,
        })
    }

    /// Returns the inputs, each once, with what is known of them.
    pub(crate) fn given<'b>(&'b self, inputs: &'b [Input]) -> Vec<Given<'b>> {
        let given = self.places.iter().filter_map(|(place, number)| {
            Some(Given {
                place: *place,
                input: inputs.get(*place)?,
                known: self.manifest.inputs.get(*number)?,
                all: &self.manifest.inputs,
                run: self.runs.get(*number)?.as_deref(),
                target: self.target,
            })
        });
        given.collect()
    }

    /// Writes what became of the inputs of [`Self::given`]; `None` of one that was not tried, for which another has an error.
    pub(crate) fn finish(
        mut self,
        inputs: &[Input],
        outcomes: Vec<Result<Option<Outcome>, Error>>,
    ) -> Result<Report, Error> {
        let mut report = Report {
            skipped: inputs.len() - self.places.len(),
            ..Report::default()
        };
        let mut first_error = None;
        for (&(place, number), outcome) in self.places.iter().zip(outcomes) {
            let (Some(input), Some(slot)) =
                (inputs.get(place), self.manifest.inputs.get_mut(number))
            else {
                continue;
            };
            match outcome {
                Ok(Some(Outcome::Skipped)) => {
                    report.skipped += 1;
                    slot.error = None;
                }
                Ok(Some(Outcome::Made(done, notes))) => {
                    report.exported += 1;
                    report.rows += done.parts.iter().map(|part| part.rows).sum::<u64>();
                    report.notes.extend(notes);
                    slot.done = Some(done);
                    slot.error = None;
                }
                Ok(Some(Outcome::Failed(error))) => {
                    report.failures.push((input.name.clone(), error.clone()));
                    slot.done = None;
                    slot.error = Some(error);
                }
                Ok(None) => {}
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        if let Some(error) = first_error {
            return Err(error);
        }
        let folder = self.target.folder;
        write_failures(folder, &self.aside, &self.manifest)?;
        self.manifest.write(folder)?;
        // Nothing is left aside; an error is of no consequence.
        let _ = fs::remove_dir_all(&self.aside);
        Ok(report)
    }
}

/// Keeps other calls away from a folder as long as the file is open.
fn lock(folder: &Path) -> Result<File, Error> {
    let path = state(folder).join("lock");
    let file = File::create(&path).map_err(Error::io("create", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Busy {
            path: folder.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
    }
}

/// Places of inputs in the manifest, which are their numbers.
struct Numbers {
    by_name: BTreeMap<String, usize>,
    /// One file may be given by several paths.
    by_path: BTreeMap<PathBuf, usize>,
}

impl Numbers {
    fn new(manifest: &Manifest) -> Self {
        let mut out = Self {
            by_name: BTreeMap::new(),
            by_path: BTreeMap::new(),
        };
        for (number, known) in manifest.inputs.iter().enumerate() {
            let whole = Path::new(&known.file).canonicalize().ok();
            out.add(number, &known.file, whole);
        }
        out
    }

    fn add(&mut self, number: usize, name: &str, whole: Option<PathBuf>) {
        self.by_name.entry(name.to_owned()).or_insert(number);
        if let Some(whole) = whole {
            self.by_path.entry(whole).or_insert(number);
        }
    }

    fn of(&mut self, manifest: &mut Manifest, input: &Input) -> usize {
        if let Some(number) = self.by_name.get(&input.name) {
            return *number;
        }
        // The name of a member of an archive is no path.
        let whole = Path::new(&input.name).canonicalize().ok();
        let known = whole.as_ref().and_then(|whole| self.by_path.get(whole));
        if let Some(number) = known {
            return *number;
        }
        let number = manifest.inputs.len();
        manifest.inputs.push(ManifestInput {
            file_id: u32::try_from(number).unwrap_or(u32::MAX),
            file: input.name.clone(),
            done: None,
            error: None,
        });
        self.add(number, &input.name, whole);
        number
    }
}

/// An input of a call, and what is known of it.
pub(crate) struct Given<'b> {
    pub(crate) place: usize,
    pub(crate) input: &'b Input,
    pub(crate) known: &'b ManifestInput,
    all: &'b [ManifestInput],
    pub(crate) run: Option<&'b str>,
    target: &'b Target<'b>,
}

impl Given<'_> {
    /// Returns `true` if files of an input of this hash, or of the tag of the input, are there whole.
    pub(crate) fn is_done(&self, hash: Option<&str>) -> bool {
        let is_current = |of: &ManifestInput| {
            let done = of.done.as_ref();
            done.is_some_and(|done| {
                done.is_current(
                    self.target.folder,
                    (hash, self.input.tag.as_deref()),
                    &self.target.tables,
                    (&self.target.schema_version, self.target.rules_hash()),
                )
            })
        };
        // A copy, or the same file given from elsewhere, is the same recording.
        let is_there =
            || self.known.done.is_none() && hash.is_some() && self.all.iter().any(is_current);
        is_current(self.known) || is_there()
    }

    /// Makes an empty folder in which to write.
    pub(crate) fn aside(&self) -> Result<PathBuf, Error> {
        let aside = state(self.target.folder)
            .join("tmp")
            .join(format!("{:06}", self.known.file_id));
        fs::create_dir_all(&aside).map_err(Error::io("create the folder", &aside))?;
        Ok(aside)
    }

    fn make_here(&self, maker: &dyn Maker) -> Result<Outcome, Error> {
        let hash = match self.input.path.as_deref().map(hash_of).transpose() {
            Ok(hash) => hash,
            Err(error) => return self.fail(format!("{}: {error}", self.input.name)),
        };
        if self.is_done(hash.as_deref()) {
            return Ok(Outcome::Skipped);
        }
        let aside = self.aside()?;
        let job = Job {
            place: self.place,
            file_id: self.known.file_id,
            hash: hash.as_deref(),
            run: self.run,
            aside: &aside,
        };
        match maker.make(&job)? {
            Ok(made) => {
                let hash = hash.or_else(|| maker.hash(self.place));
                self.commit(&aside, made, hash, maker.notes(self.place))
            }
            Err(error) => self.fail(error),
        }
    }

    /// Removes what was made of an earlier content of an input that cannot be read now.
    pub(crate) fn fail(&self, error: String) -> Result<Outcome, Error> {
        forget(self.target.folder, self.known)?;
        Ok(Outcome::Failed(error))
    }

    /// Moves the files of the input into place, in place of earlier ones.
    pub(crate) fn commit(
        &self,
        aside: &Path,
        made: Vec<Made>,
        hash: Option<String>,
        notes: Vec<String>,
    ) -> Result<Outcome, Error> {
        let folder = self.target.folder;
        let mut parts = Vec::with_capacity(made.len());
        for made in made {
            let file = aside.join(&made.table);
            let bytes = fs::metadata(&file).map_err(Error::io("read", &file))?.len();
            parts.push(Part::new(&made.table, made.path, made.rows, bytes));
        }
        forget(folder, self.known)?;
        for part in &parts {
            let path = folder.join(&part.path);
            let parent = path.parent().unwrap_or(folder);
            fs::create_dir_all(parent).map_err(Error::io("create the folder", parent))?;
            fs::rename(aside.join(&part.table), &path).map_err(Error::io("write", &path))?;
        }
        let mut done = Done::new(hash, self.target.schema_version.clone(), parts);
        done.tag.clone_from(&self.input.tag);
        done.rules = self.target.rules_hash();
        write_done(folder, self.known.file_id, &done)?;
        Ok(Outcome::Made(done, notes))
    }
}

/// Removes what there is of an input, its row in `files` first.
fn forget(folder: &Path, known: &ManifestInput) -> Result<(), Error> {
    let Some(done) = &known.done else {
        return Ok(());
    };
    remove_done(folder, known.file_id)?;
    for part in done.parts.iter().rev() {
        let path = folder.join(&part.path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn write_failures(folder: &Path, aside: &Path, manifest: &Manifest) -> Result<(), Error> {
    let inputs = manifest.inputs.iter();
    let rows: Vec<(u32, &str, &str)> = inputs
        .filter_map(|input| Some((input.file_id, input.file.as_str(), input.error.as_deref()?)))
        .collect();
    let table = folder.join("table=failures");
    for folder in [&table, aside] {
        fs::create_dir_all(folder).map_err(Error::io("create the folder", folder))?;
    }
    let made = aside.join("failures");
    write::failures(&made, &rows)?;
    let target = table.join("part-000000.parquet");
    fs::rename(&made, &target).map_err(Error::io("write", &target))
}

/// Writes a table that is made of all inputs together, in place of an earlier one: `table=NAME/part-000000.parquet`. Returns its number of
/// rows, or the reason why it cannot be made; there is none then.
///
/// # Errors
///
/// Returns an error if the folder cannot be written.
pub fn add_table(
    folder: &Path,
    table: &TableSpec,
    beside: &dyn Beside,
) -> Result<Result<u64, String>, Error> {
    let aside = state(folder).join("tmp");
    fs::create_dir_all(&aside).map_err(Error::io("create the folder", &aside))?;
    let _lock = lock(folder)?;
    let made = aside.join(table.name);
    let written = write::beside(&made, table, beside)?;
    let own = folder.join(format!("table={}", table.name));
    if own.exists() {
        fs::remove_dir_all(&own).map_err(Error::io("remove", &own))?;
    }
    if written.is_ok() {
        fs::create_dir_all(&own).map_err(Error::io("create the folder", &own))?;
        let target = own.join("part-000000.parquet");
        fs::rename(&made, &target).map_err(Error::io("write", &target))?;
    }
    // Nothing is left aside; an error is of no consequence.
    let _ = fs::remove_dir_all(&aside);
    Ok(written)
}

/// Returns the SHA-256 of a file in hexadecimal.
///
/// # Errors
///
/// Returns an error if the file cannot be read.
pub fn hash_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
    Ok(hex(&hasher.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
