//! Files that other processes make, such as the executors of a cluster.
//!
//! This process sends an [`Order`] for each input, gets the bytes of its files, and writes the folder as [`crate::make()`] does. The others
//! read inputs and write nothing that lasts: they need no access to the folder, and one that is killed leaves nothing in it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use trace_model::parallel::in_parallel;

use crate::error::Error;
use crate::make::{Begun, Given, Input, Job, Made, Maker, Outcome, Report, Target, hash_of};

/// Inputs that are ordered at once: what was made of them is in the folder before the next ones begin, so that a killed call goes on
/// from there, and the others keep no more than the files of these.
const WAVE: usize = 256;

/// Orders of [`WAVE`] inputs under way at the same time, so that none waits for the last input of the ones before.
const WAVES: usize = 2;

/// How often an input is ordered again whose answer was lost.
const ATTEMPTS: usize = 4;

/// Bytes of one message.
const CHUNK: usize = 1 << 20;

/// What another process has to know to make the files of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Path as given, for texts.
    pub name: String,
    /// The same from the root, or a URL.
    pub path: PathBuf,
    /// File or folder that the client sees at this place; `None` for objects and for what is missing.
    seen: Option<PathBuf>,
    /// File whose bytes are hashed.
    hashed: Option<PathBuf>,
    /// Hash with which the files are there already.
    known: Option<String>,
    file_id: u32,
    run: Option<String>,
}

/// Messages of the process that makes files: the line, and bytes that follow it.
#[derive(Serialize, Deserialize)]
enum Line {
    /// A file begins.
    Part {
        table: String,
        path: String,
        rows: u64,
    },
    /// The bytes continue the file.
    More,
    /// All files are whole.
    Made {
        hash: Option<String>,
        notes: Vec<String>,
        /// Bytes of all files.
        bytes: u64,
    },
    /// The files are there with this content.
    Same,
    /// The input cannot be read.
    Failed { error: String },
}

/// Why orders were not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// One sentence.
    pub text: String,
    /// The answers were lost on their way: it helps to order again.
    pub is_lost: bool,
}

/// Takes the place of an order, and a line and bytes of its answer; an error ends the call.
pub type Take<'a> = dyn FnMut(usize, &str, &[u8]) -> Result<(), String> + 'a;

/// Passes orders to other processes.
pub trait Elsewhere: Sync {
    /// Has each order carried out by [`serve`] in some process, and passes on what it sends, for each order in its order. `take` gets the
    /// place of the order, a line and bytes; its error ends the call.
    ///
    /// # Errors
    ///
    /// Returns the reason why not all orders were carried out.
    fn run(&self, orders: &[Order], take: &mut Take<'_>) -> Result<(), Trouble>;
}

/// Makes the files of all inputs in other processes. The folder is that of [`crate::make()`] with the maker that [`serve`] is called with.
/// [`Target::threads`] is of no importance.
///
/// # Errors
///
/// Returns an error if the folder cannot be written or holds something else, or if the other processes cannot work. An input that cannot
/// be read is a row of `failures`.
pub fn make_elsewhere(
    inputs: &[Input],
    elsewhere: &dyn Elsewhere,
    target: &Target<'_>,
) -> Result<Report, Error> {
    let begun = Begun::new(inputs, target)?;
    let given = begun.given(inputs);
    let waves: Vec<&[Given<'_>]> = given.chunks(WAVE).collect();
    let stop = AtomicBool::new(false);
    let outcomes = in_parallel(&waves, WAVES, |_, wave| {
        let mut wave = Wave::new(wave);
        if !stop.load(Ordering::Relaxed) {
            wave.run(elsewhere);
        }
        if wave.outcomes.iter().any(Result::is_err) {
            stop.store(true, Ordering::Relaxed);
        }
        wave.outcomes
    });
    begun.finish(inputs, outcomes.into_iter().flatten().collect())
}

/// Inputs that are ordered at once.
struct Wave<'w> {
    given: &'w [Given<'w>],
    /// What became of each; `None` as long as this is open.
    outcomes: Vec<Result<Option<Outcome>, Error>>,
}

impl<'w> Wave<'w> {
    fn new(given: &'w [Given<'w>]) -> Self {
        Self {
            given,
            outcomes: given.iter().map(|_| Ok(None)).collect(),
        }
    }

    fn set(&mut self, at: usize, outcome: Result<Outcome, Error>) {
        if let Some(slot) = self.outcomes.get_mut(at) {
            *slot = outcome.map(Some);
        }
    }

    fn run(&mut self, elsewhere: &dyn Elsewhere) {
        let mut orders = Vec::new();
        for (at, given) in self.given.iter().enumerate() {
            match order(given) {
                Ok(Some(order)) => orders.push((at, order)),
                Ok(None) => self.set(at, Ok(Outcome::Skipped)),
                Err(why) => self.set(at, given.fail(why)),
            }
        }
        let mut attempt = 1;
        while !orders.is_empty() {
            let (places, texts): (Vec<usize>, Vec<Order>) = orders.iter().cloned().unzip();
            let mut arriving: BTreeMap<usize, Arriving> = BTreeMap::new();
            let done = elsewhere.run(&texts, &mut |order, line, bytes| {
                let at = places.get(order).copied();
                let given = at.and_then(|at| Some((at, self.given.get(at)?)));
                let (at, given) = given.ok_or("an answer to no order arrived")?;
                let arriving = arriving.entry(at).or_default();
                match arriving.take(given, line, bytes) {
                    Ok(Some(outcome)) => self.set(at, Ok(outcome)),
                    Ok(None) => {}
                    Err(error) => self.set(at, Err(error)),
                }
                match self.outcomes.get(at) {
                    // The folder cannot be written.
                    Some(Err(error)) => Err(error.to_string()),
                    _ => Ok(()),
                }
            });
            orders.retain(|(at, _)| matches!(self.outcomes.get(*at), Some(Ok(None))));
            let trouble = match done {
                Err(trouble) => trouble,
                Ok(()) => Trouble {
                    text: "an executor ended without an answer".to_owned(),
                    is_lost: true,
                },
            };
            let is_written = self.outcomes.iter().all(Result::is_ok);
            let Some((first, _)) = orders.first().filter(|_| is_written) else {
                return;
            };
            if !trouble.is_lost || attempt == ATTEMPTS {
                let text = trouble.text;
                self.set(*first, Err(Error::Elsewhere { text }));
                return;
            }
            attempt += 1;
        }
    }
}

/// Returns the order of an input; `None` if its files are there.
fn order(given: &Given<'_>) -> Result<Option<Order>, String> {
    // Tags tell of objects whether they changed.
    if given.is_done(None) {
        return Ok(None);
    }
    let name = given.input.name.clone();
    let path = Path::new(&name);
    let is_url = byte_source::remote::is_url(path);
    let whole = |path: &Path| {
        std::path::absolute(path)
            .ok()
            .filter(|path| path.to_str().is_some())
            .ok_or_else(|| format!("{name}: other machines cannot name this path"))
    };
    let hashed = given.input.path.as_deref().map(whole).transpose()?;
    let there = (!is_url && path.exists()).then(|| whole(path));
    let known = given.known.done.as_ref();
    let known = known.and_then(|done| done.hash.clone());
    Ok(Some(Order {
        path: match is_url {
            true => path.to_owned(),
            false => whole(path)?,
        },
        seen: match &hashed {
            Some(file) => Some(file.clone()),
            None => there.transpose()?,
        },
        hashed,
        known: known.filter(|hash| given.is_done(Some(hash))),
        file_id: given.known.file_id,
        run: given.run.map(str::to_owned),
        name,
    }))
}

/// The files of an input, as far as they have arrived.
#[derive(Default)]
struct Arriving {
    aside: PathBuf,
    made: Vec<Made>,
    file: Option<File>,
    bytes: u64,
}

impl Arriving {
    /// Takes a message. Returns what became of the input when its last one has arrived.
    fn take(
        &mut self,
        given: &Given<'_>,
        line: &str,
        bytes: &[u8],
    ) -> Result<Option<Outcome>, Error> {
        let line: Line = serde_json::from_str(line).map_err(|error| Error::Elsewhere {
            text: format!("an executor sent what this version does not know ({error}): run one version of inferscope on all machines"),
        })?;
        match line {
            Line::Part { table, path, rows } => {
                if self.made.is_empty() {
                    self.aside = given.aside()?;
                }
                // Names come from another process: they must not lead out of the folder.
                if !is_inside(&table) || !is_inside(&path) {
                    let text = format!("an executor sent a file of the name {path}");
                    return Err(Error::Elsewhere { text });
                }
                let file = self.aside.join(&table);
                self.file = Some(File::create(&file).map_err(Error::io("create", &file))?);
                self.made.push(Made { table, path, rows });
                Ok(None)
            }
            Line::More => {
                if let Some(file) = &mut self.file {
                    let done = file.write_all(bytes);
                    done.map_err(Error::io("write in", &self.aside))?;
                }
                self.bytes += bytes.len() as u64;
                Ok(None)
            }
            Line::Made { hash, notes, bytes } => {
                self.file = None;
                if bytes != self.bytes {
                    let name = &given.input.name;
                    let text = format!("{name}: {} of {bytes} bytes arrived", self.bytes);
                    return Err(Error::Elsewhere { text });
                }
                // A copy of what is there.
                if given.input.path.is_some() && given.is_done(hash.as_deref()) {
                    return Ok(Some(Outcome::Skipped));
                }
                let made = std::mem::take(&mut self.made);
                given.commit(&self.aside, made, hash, notes).map(Some)
            }
            Line::Same => Ok(Some(Outcome::Skipped)),
            Line::Failed { error } => given.fail(error).map(Some),
        }
    }
}

/// Returns `true` for a relative path without `..`.
fn is_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// Carries out an order: makes the files of an input, whose place for `maker` is 0, and sends them. `here` names this process in texts
/// (`the executor at node1:4711`); files are made in a folder within `scratch`, which is removed in the end. `send` gets a line and bytes,
/// and returns `false` if nothing more is wanted.
///
/// # Errors
///
/// Returns one sentence if files cannot be made here at all. An input that cannot be read is an answer.
pub fn serve(
    order: &Order,
    maker: &dyn Maker,
    here: &str,
    scratch: &Path,
    send: &mut dyn FnMut(&str, &[u8]) -> bool,
) -> Result<(), String> {
    let mut say = |line: &Line, bytes: &[u8]| {
        let text = serde_json::to_string(line).unwrap_or_default();
        send(&text, bytes)
    };
    if order.seen.as_deref().is_some_and(|path| !path.exists()) {
        let error = unseen(&order.name, here);
        say(&Line::Failed { error }, &[]);
        return Ok(());
    }
    let hash = match order.hashed.as_deref().map(hash_of).transpose() {
        Ok(hash) => hash,
        Err(error) => {
            let error = format!("{}: {error}", order.name);
            say(&Line::Failed { error }, &[]);
            return Ok(());
        }
    };
    if hash.is_some() && hash == order.known {
        say(&Line::Same, &[]);
        return Ok(());
    }
    let aside = Aside::new(scratch).map_err(|error| format!("{here}: {}", chain(&error)))?;
    let job = Job {
        place: 0,
        file_id: order.file_id,
        hash: hash.as_deref(),
        run: order.run.as_deref(),
        aside: &aside.0,
    };
    let made = maker.make(&job);
    let made = match made.map_err(|error| format!("{here}: {}", chain(&error)))? {
        Ok(made) => made,
        Err(error) => {
            say(&Line::Failed { error }, &[]);
            return Ok(());
        }
    };
    let mut bytes = 0;
    for Made { table, path, rows } in made {
        let file = aside.0.join(&table);
        if !say(&Line::Part { table, path, rows }, &[]) {
            return Ok(());
        }
        let failed = |error| format!("{here}: {}: {error}", file.display());
        let mut source = File::open(&file).map_err(failed)?;
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = source.read(&mut buffer).map_err(failed)?;
            if read == 0 {
                break;
            }
            bytes += read as u64;
            if !say(&Line::More, buffer.get(..read).unwrap_or_default()) {
                return Ok(());
            }
        }
    }
    let hash = hash.or_else(|| maker.hash(0));
    let notes = maker.notes(0);
    say(&Line::Made { hash, notes, bytes }, &[]);
    Ok(())
}

/// Returns the sentence on a file that the client sees and another process does not.
#[must_use]
pub fn unseen(name: &str, here: &str) -> String {
    format!(
        "{name}: {here} does not see this file: all machines of a cluster need its folder at the same place"
    )
}

/// Returns an error with its causes in one line.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// A folder that is removed in the end.
struct Aside(PathBuf);

impl Aside {
    fn new(scratch: &Path) -> Result<Self, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("inferscope-parts-{}-{number}", std::process::id());
        let path = scratch.join(name);
        fs::create_dir_all(&path).map_err(Error::io("create the folder", &path))?;
        Ok(Self(path))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        let _ = fs::remove_dir_all(&self.0);
    }
}
