//! Objects named by a URL: `s3://bucket/run/rank0.json.gz`, `https://host/rank0.json.gz`.
//!
//! This crate knows that such names exist and asks the installed [`Store`] for their bytes, so that everything that takes a path
//! takes a URL; it contains no protocol. A URL that ends in `/`, or that names no object but a prefix of some, is a folder.
//!
//! [`is_dir`], [`is_file`], [`exists`] and [`files_in`] answer for local paths and for URLs; for local paths they are those of the
//! standard library. Formats that are read by position (archives, databases) are fetched once into a temporary file
//! ([`fetched`]), which [`end`] removes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tempfile::TempDir;

use crate::error::Error;
use crate::options::OpenOptions;
use crate::progress::Progress;
use crate::unfinished::Unfinished;

/// What a store knows of an object without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The URL.
    pub url: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    /// Changes whenever the content does (the ETag); `None` if the server gives none.
    pub tag: Option<String>,
}

/// An object that is read from its start.
pub struct Opened {
    /// Size in bytes, if it is known.
    pub bytes: Option<u64>,
    /// Its bytes, as stored.
    pub reader: Box<dyn Read + Send>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// Reads objects. Every method blocks, and may be called from any thread.
pub trait Store: fmt::Debug + Send + Sync {
    /// Forgets what was found out about objects: a new run of a tool begins.
    fn begin(&self);

    /// Returns what is known of an object; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns one sentence that names the URL, the reason and the remedy.
    fn stat(&self, url: &str) -> Result<Option<Object>, Error>;

    /// Returns all objects below a prefix that ends at a `/`, in any order.
    ///
    /// # Errors
    ///
    /// Same as [`Store::stat`].
    fn list(&self, url: &str) -> Result<Vec<Object>, Error>;

    /// Opens an object. Reading fails soon after `progress` is stopped.
    ///
    /// # Errors
    ///
    /// Same as [`Store::stat`]; [`Error::NoObject`] if there is none.
    fn open(&self, url: &str, progress: Option<Arc<Progress>>) -> Result<Opened, Error>;

    /// Returns the SHA-256 of an object, in hexadecimal; one that was not read to its end is read for it.
    fn hash(&self, url: &str) -> Option<String>;
}

static STORE: OnceLock<Arc<dyn Store>> = OnceLock::new();

/// Installs the store of this process. Only the first call has an effect.
pub fn install(store: impl FnOnce() -> Arc<dyn Store>) {
    STORE.get_or_init(store);
}

/// Credentials of a URL, which its name does not have.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret {
    /// `user:password`, as written.
    pub user: Option<String>,
    /// What follows the `?`, as written.
    pub query: Option<String>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

type Folder = (TempDir, Unfinished);

/// Bytes of copies that are kept for the rest of a run: one may be opened several times.
const KEPT_BYTES: u64 = 16 << 30;

/// Number of copies that are kept whatever their size, so that none goes that another thread has just asked for.
const KEPT: usize = 32;

/// State of a run.
#[derive(Default)]
struct State {
    /// Credentials by the name of their URL.
    secrets: BTreeMap<String, Secret>,
    /// Objects that were fetched.
    copies: HashMap<String, PathBuf>,
    /// Where they are, the oldest first, with their bytes.
    folders: VecDeque<(String, u64, Folder)>,
    /// Runs of tools that have begun and not ended: programs may run several at once.
    runs: usize,
}

impl State {
    /// Keeps a copy, and returns those that are too many.
    fn keep(&mut self, url: &str, copy: &Path, bytes: u64, folder: Folder) -> Vec<Folder> {
        self.copies.insert(url.to_owned(), copy.to_owned());
        self.folders.push_back((url.to_owned(), bytes, folder));
        let mut gone = Vec::new();
        let mut total: u64 = self.folders.iter().map(|(_, bytes, _)| bytes).sum();
        while total > KEPT_BYTES
            && self.folders.len() > KEPT
            && let Some((url, bytes, folder)) = self.folders.pop_front()
        {
            total -= bytes;
            self.copies.remove(&url);
            gone.push(folder);
        }
        gone
    }
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn with_state<T>(act: impl FnOnce(&mut State) -> T) -> T {
    let mut state: MutexGuard<'_, Option<State>> =
        STATE.lock().unwrap_or_else(PoisonError::into_inner);
    act(state.get_or_insert_default())
}

/// Begins a run of a tool: unless another one is in progress, what is known of objects is asked for again.
pub fn begin() {
    let is_first = with_state(|state| {
        state.runs += 1;
        state.runs == 1
    });
    if let (true, Some(store)) = (is_first, STORE.get()) {
        store.begin();
    }
}

/// Ends a run: removes temporary copies, unless another one is in progress.
pub fn end() {
    let gone = with_state(|state| {
        state.runs = state.runs.saturating_sub(1);
        if state.runs > 0 {
            return VecDeque::new();
        }
        state.copies.clear();
        std::mem::take(&mut state.folders)
    });
    drop(gone);
}

/// Returns the URL in a path: a scheme of two or more letters, and `://`.
#[must_use]
pub fn url(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ['+', '.', '-'].contains(&c));
    is_scheme.then_some(text)
}

/// Returns `true` if a path is a URL.
#[must_use]
pub fn is_url(path: &Path) -> bool {
    url(path).is_some()
}

/// Returns `true` for a URL of a web server, whose `?` begins a query.
fn is_web(url: &str) -> bool {
    let scheme = url.split("://").next().unwrap_or_default();
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// Returns the name of a URL without user, password and query, which are remembered for reading it; the text itself if it has none
/// of these. Names of URLs that differ in these alone are told apart by a number.
///
/// ```
/// let name = byte_source::remote::named("https://me:secret@host/rank0.json?X-Amz-Signature=0af1");
/// assert_eq!(name, "https://host/rank0.json");
/// assert_eq!(byte_source::remote::named("s3://bucket/rank?.json"), "s3://bucket/rank?.json");
/// ```
pub fn named(text: &str) -> Cow<'_, str> {
    if url(Path::new(text)).is_none() {
        return Cow::Borrowed(text);
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return Cow::Borrowed(text);
    };
    let (rest, query) = match rest.split_once(['?', '#']) {
        Some((rest, query)) if is_web(text) => (rest, Some(query)),
        _ => (rest, None),
    };
    let host_end = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(host_end);
    let (user, host) = match host.rsplit_once('@') {
        // Azure writes container@account, which is no secret.
        Some((user, host)) if is_web(text) || user.contains(':') => (Some(user), host),
        _ => (None, host),
    };
    if user.is_none() && query.is_none() {
        return Cow::Borrowed(text);
    }
    let secret = Secret {
        user: user.map(str::to_owned),
        query: query.filter(|query| !query.is_empty()).map(str::to_owned),
    };
    let base = format!("{scheme}://{host}{path}");
    let name = with_state(|state| {
        let mut name = base.clone();
        let mut number = 2;
        while state.secrets.get(&name).is_some_and(|own| *own != secret) {
            name = format!("{base}#{number}");
            number += 1;
        }
        state.secrets.insert(name.clone(), secret);
        name
    });
    Cow::Owned(name)
}

/// Returns the credentials that [`named`] has taken from a URL.
#[must_use]
pub fn secret(name: &str) -> Option<Secret> {
    with_state(|state| state.secrets.get(name).cloned())
}

/// Returns the installed store.
///
/// # Errors
///
/// Returns an error that says what to do if there is none.
fn store(url: &str) -> Result<&'static Arc<dyn Store>, Error> {
    STORE.get().ok_or_else(|| Error::Remote {
        name: url.to_owned(),
        text: "this program was built without object stores: use `inferscope`, build with `--features objects`, or copy the object \
               to a file first"
            .to_owned(),
    })
}

/// Returns what is known of a URL; `None` for local paths and if there is no such object.
///
/// # Errors
///
/// Same as [`Store::stat`].
pub fn stat(path: &Path) -> Result<Option<Object>, Error> {
    match url(path) {
        Some(url) if !url.ends_with('/') => store(url)?.stat(url),
        _ => Ok(None),
    }
}

/// Opens an object.
///
/// # Errors
///
/// Same as [`Store::open`].
pub(crate) fn open(url: &str, progress: Option<Arc<Progress>>) -> Result<Opened, Error> {
    if url.ends_with('/') {
        return Err(Error::Directory {
            name: url.to_owned(),
        });
    }
    store(url)?.open(url, progress)
}

/// Returns the SHA-256 of an object, in hexadecimal; one that was not read to its end in this run is read for it.
#[must_use]
pub fn hash(path: &Path) -> Option<String> {
    STORE.get()?.hash(url(path)?)
}

/// Returns the text that identifies the content of an object: its ETag and size. `None` for local paths, and if the server gives no
/// ETag.
#[must_use]
pub fn tag(path: &Path) -> Option<String> {
    let object = stat(path).ok().flatten()?;
    Some(format!("{} {}", object.tag?, object.bytes))
}

/// Returns all objects below the folder `path`, in the order in which a local folder is searched.
///
/// # Errors
///
/// Same as [`Store::list`].
pub fn list(path: &Path) -> Result<Vec<Object>, Error> {
    let Some(url) = url(path) else {
        return Ok(Vec::new());
    };
    let folder = match url.ends_with('/') {
        true => Cow::Borrowed(url),
        false => Cow::Owned(format!("{url}/")),
    };
    let mut objects = store(url)?.list(&folder)?;
    // Paths compare by their parts, as folders that are listed one by one do.
    objects.sort_by(|a, b| a.url.cmp(&b.url));
    Ok(objects)
}

/// Returns `true` for a folder, local or in a store. What cannot be asked is none: its reader reports the reason.
#[must_use]
pub fn is_dir(path: &Path) -> bool {
    match url(path) {
        None => path.is_dir(),
        Some(url) if url.ends_with('/') => true,
        Some(url) if is_web(url) || url.contains(['*', '!']) => false,
        Some(_) => match stat(path) {
            Ok(None) => list(path).is_ok_and(|objects| !objects.is_empty()),
            _ => false,
        },
    }
}

/// Returns `true` for a file or an object.
#[must_use]
pub fn is_file(path: &Path) -> bool {
    match url(path) {
        None => path.is_file(),
        Some(_) => stat(path).is_ok_and(|object| object.is_some()),
    }
}

/// Returns `true` for a file, a folder or an object.
#[must_use]
pub fn exists(path: &Path) -> bool {
    match url(path) {
        None => path.exists(),
        Some(_) => is_file(path) || is_dir(path),
    }
}

/// Returns the files, or objects, directly in a folder.
///
/// # Errors
///
/// Returns an error if it cannot be listed.
pub fn files_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !is_url(folder) {
        let entries = std::fs::read_dir(folder)?.flatten();
        let files = entries
            .map(|entry| entry.path())
            .filter(|path| path.is_file());
        return Ok(files.collect());
    }
    let objects = list(folder)?.into_iter().map(|object| object.url);
    Ok(objects.filter(|url| url.parent() == Some(folder)).collect())
}

/// Reads a small file or object.
///
/// # Errors
///
/// Returns an error if it cannot be read, or is larger than 1 GiB.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let Some(url) = url(path) else {
        return std::fs::read(path);
    };
    let mut bytes = Vec::new();
    let mut reader = open(url, None)?.reader.take(1 << 30);
    reader.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns a local copy of an object, which is fetched once in a run; other paths as they are.
///
/// # Errors
///
/// Same as [`Store::open`]; an error if it cannot be stored.
pub fn fetched(path: &Path, options: &OpenOptions) -> Result<PathBuf, Error> {
    let Some(url) = url(path) else {
        return Ok(path.to_owned());
    };
    if let Some(copy) = with_state(|state| state.copies.get(url).cloned()) {
        return Ok(copy);
    }
    let folder = temporary(url)?;
    let name = path.file_name().unwrap_or_default();
    let copy = folder.0.path().join(name);
    let bytes = fetch(url, &copy, options)?;
    let gone = with_state(|state| state.keep(url, &copy, bytes, folder));
    drop(gone);
    Ok(copy)
}

/// Returns a local copy of the objects directly in a folder; other paths as they are.
///
/// # Errors
///
/// Same as [`fetched`].
pub fn fetched_folder(path: &Path, options: &OpenOptions) -> Result<PathBuf, Error> {
    let Some(url) = url(path) else {
        return Ok(path.to_owned());
    };
    if let Some(copy) = with_state(|state| state.copies.get(url).cloned()) {
        return Ok(copy);
    }
    let folder = temporary(url)?;
    let copy = folder.0.path().join(path.file_name().unwrap_or_default());
    std::fs::create_dir_all(&copy).map_err(copying(url))?;
    let mut bytes = 0;
    for object in list(path)? {
        let own = object.url.parent() == Some(path);
        if let (true, Some(from), Some(name)) = (own, object.url.to_str(), object.url.file_name()) {
            bytes += fetch(from, &copy.join(name), options)?;
        }
    }
    let gone = with_state(|state| state.keep(url, &copy, bytes, folder));
    drop(gone);
    Ok(copy)
}

fn copying(url: &str) -> impl FnOnce(io::Error) -> Error + use<> {
    let name = url.to_owned();
    move |source| match source.downcast::<Error>() {
        Ok(error) => error,
        Err(source) => Error::Write {
            name,
            step: "copy into a temporary file (see TMPDIR)",
            source,
        },
    }
}

fn temporary(url: &str) -> Result<(TempDir, Unfinished), Error> {
    Unfinished::made(TempDir::new, TempDir::path).map_err(copying(url))
}

/// Copies an object, and returns its size.
fn fetch(url: &str, to: &Path, options: &OpenOptions) -> Result<u64, Error> {
    let opened = open(url, options.progress.clone())?;
    let mut total = 0;
    let mut file = File::create(to).map_err(copying(url))?;
    let mut reader = opened.reader;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(copying(url)(error)),
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        io::Write::write_all(&mut file, bytes).map_err(copying(url))?;
        let count = u64::try_from(count).unwrap_or(0);
        total += count;
        if let Some(progress) = &options.progress {
            progress.add_done(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        for text in ["s3://b/k", "https://h", "gs://b/", "abfss://c@a.h/p"] {
            assert!(is_url(Path::new(text)), "{text}");
        }
        for text in ["a/b.json", "C://x", "://x", "s3:/b", "a b://c", "-"] {
            assert!(!is_url(Path::new(text)), "{text}");
        }
    }

    #[test]
    fn names_have_no_secrets() {
        for (text, want) in [
            ("https://h/a%20b.json", "https://h/a%20b.json"),
            ("http://u:p@h:80/a?x=1#f", "http://h:80/a"),
            ("http://u@h/b", "http://h/b"),
            ("HTTPS://h/c?sig=s", "HTTPS://h/c"),
            ("s3://KEY:SECRET@bucket/d", "s3://bucket/d"),
            ("abfss://c@account.host/e", "abfss://c@account.host/e"),
            ("runs/a?.json", "runs/a?.json"),
        ] {
            assert_eq!(named(text), want);
        }
        let secret = secret("http://h:80/a").unwrap();
        assert_eq!(secret.user.as_deref(), Some("u:p"));
        assert_eq!(secret.query.as_deref(), Some("x=1#f"));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        // The same URL keeps its name, another query gets another one.
        assert_eq!(named("http://h/same?id=1"), "http://h/same");
        assert_eq!(named("http://h/same?id=2"), "http://h/same#2");
        assert_eq!(named("http://h/same?id=1"), "http://h/same");
    }

    #[test]
    fn without_a_store_a_url_is_an_error_that_says_what_to_do() {
        let error = crate::Source::open("s3://b/rank0.json", &OpenOptions::default()).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("s3://b/rank0.json: this program was built without"),
            "{text}"
        );
        assert!(!is_file(Path::new("s3://b/rank0.json")));
        assert!(!is_dir(Path::new("s3://b/run")));
    }
}
